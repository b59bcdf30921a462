//! Decides whether a turn asks for its whole answer in one request.
//!
//! A whole answer costs both sides less than a stream. But until it arrives the task's id is unknown and no
//! progress is visible. So it is used only where the caller waits for the whole answer anyway, where the task can
//! be found meanwhile (for a cancel, or after a crash), and where turns are short; a turn that takes longer than
//! expected is found and followed.

use std::time::Duration;

use client::seen::TaskSeen;
use client::{Client, Error};
use model::{List, Send};

/// A turn that takes longer is followed instead.
pub(super) const SHORT: Duration = Duration::from_secs(2);
/// Turns to stream after a long one, because the next is likely to be long too.
const STREAMED: u32 = 8;
/// Newest tasks of a context to search, and messages of each.
const TASKS: u32 = 20;
const MESSAGES: u32 = 100;

/// The behaviour of the remote agent, learned from earlier turns.
#[derive(Debug, Default)]
pub(super) struct PeerBehaviour {
    finds: Finds,
    /// Turns left to stream before the next asks for a whole answer.
    streamed: u32,
}

/// Whether a task can be found by its first message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Finds {
    #[default]
    Unknown,
    /// A test is running.
    Trying,
    Yes,
    No,
}

impl PeerBehaviour {
    /// Whether this send may ask for a whole answer.
    pub(super) fn is_whole(&self, send: &Send) -> bool {
        is_findable(send) && self.finds == Finds::Yes && self.streamed == 0
    }

    /// Records a turn's duration.
    pub(super) fn took(&mut self, time: Duration) {
        self.streamed = if time > SHORT { STREAMED } else { self.streamed.saturating_sub(1) };
    }

    /// The server answers before the task is done, so whole answers are not used any more.
    pub(super) fn never(&mut self) {
        self.finds = Finds::No;
    }

    /// Whether the caller of this function should run the test; it must report the result with [`PeerBehaviour::tried`].
    pub(super) fn try_it(&mut self) -> bool {
        let try_it = self.finds == Finds::Unknown;
        if try_it {
            self.finds = Finds::Trying;
        }
        try_it
    }

    /// Records whether a task that exists was found.
    pub(super) fn tried(&mut self, found: Result<bool, Error>) {
        self.finds = match found {
            Ok(true) => Finds::Yes,
            Err(error) if error.is_passing() => Finds::Unknown,
            Ok(false) | Err(_) => Finds::No,
        };
    }
}

/// Whether the message of this send identifies the task that it opened. A continued task existed before, and a
/// large message is not requested back.
pub(super) fn is_findable(send: &Send) -> bool {
    send.alias.is_some() && send.context.is_some() && send.history != Some(0)
}

/// The task that the message of this send opened, if its context lists it.
pub(super) async fn find(client: &Client, send: &Send) -> Result<Option<TaskSeen>, Error> {
    let Some(context) = send.context.clone().filter(|_| is_findable(send)) else { return Ok(None) };
    let list = List {
        context: Some(context),
        state: None,
        since: None,
        page_size: Some(TASKS),
        page_token: None,
        history: Some(MESSAGES),
        artifacts: false,
    };
    let page = client.list(&list).await?;
    let began = |task: &TaskSeen| task.history.iter().any(|said| said.id == send.message.id);
    Ok(page.tasks.into_iter().find(began))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_takes_long_is_streamed_until_short_turns_make_up_for_it() {
        let mut manner = PeerBehaviour::default();
        manner.took(SHORT);
        assert_eq!(manner.streamed, 0);
        manner.took(SHORT * 2);
        for _ in 0..STREAMED - 1 {
            manner.took(SHORT);
            assert!(manner.streamed > 0);
        }
        manner.took(SHORT);
        assert_eq!(manner.streamed, 0);
    }

    #[test]
    fn one_at_a_time_finds_out_and_trouble_on_the_way_proves_nothing() {
        let mut manner = PeerBehaviour::default();
        assert!(manner.try_it());
        assert!(!manner.try_it());
        manner.tried(Err(Error::broken("cut")));
        assert!(manner.try_it());
        manner.tried(Ok(false));
        assert!(!manner.try_it());
    }
}
