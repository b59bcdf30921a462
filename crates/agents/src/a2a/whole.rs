//! Whether a turn may be asked for whole.
//!
//! An answer that comes in one piece costs both sides less than a stream of its parts. But until it comes nobody knows which
//! task it is about, and nothing of it is heard. So it is asked for only where the caller waits for the whole anyway, where
//! the task can be found meanwhile, be it for a cancel or after a crash, and where turns are short; one that is not after
//! all is found and followed.

use std::time::Duration;

use client::seen::TaskSeen;
use client::{Client, Error};
use model::{List, Send};

/// A turn that takes longer is followed.
pub(super) const SHORT: Duration = Duration::from_secs(2);
/// After a long turn so many are streamed: what is long once is likely to be long again.
const STREAMED: u32 = 8;
/// Of a conversation's tasks the newest so many are looked through, and of each so many messages.
const TASKS: u32 = 20;
const MESSAGES: u32 = 100;

/// What the turns so far have taught of the other side.
#[derive(Debug, Default)]
pub(super) struct Manner {
    finds: Finds,
    /// So many turns are streamed before the next is asked for whole.
    streamed: u32,
}

/// Whether a task is found by the message that began it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Finds {
    #[default]
    Unknown,
    /// Somebody is finding out.
    Trying,
    Yes,
    No,
}

impl Manner {
    /// Whether this may be asked for whole.
    pub(super) fn is_whole(&self, send: &Send) -> bool {
        is_findable(send) && self.finds == Finds::Yes && self.streamed == 0
    }

    /// A turn took so long.
    pub(super) fn took(&mut self, time: Duration) {
        self.streamed = if time > SHORT { STREAMED } else { self.streamed.saturating_sub(1) };
    }

    /// It answers before it is done, or does so no longer.
    pub(super) fn never(&mut self) {
        self.finds = Finds::No;
    }

    /// Whether somebody should find out whether tasks are found. Whoever is told so says what came of it.
    pub(super) fn try_it(&mut self) -> bool {
        let try_it = self.finds == Finds::Unknown;
        if try_it {
            self.finds = Finds::Trying;
        }
        try_it
    }

    /// A task that is there was looked for.
    pub(super) fn tried(&mut self, found: Result<bool, Error>) {
        self.finds = match found {
            Ok(true) => Finds::Yes,
            Err(error) if error.is_passing() => Finds::Unknown,
            Ok(false) | Err(_) => Finds::No,
        };
    }
}

/// Whether the message of this send tells which task it began. A task that goes on was there before, and a large message
/// is not asked for again.
pub(super) fn is_findable(send: &Send) -> bool {
    send.alias.is_some() && send.context.is_some() && send.history != Some(0)
}

/// The task that the message of this send began, if it is among those of its conversation.
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
        let mut manner = Manner::default();
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
        let mut manner = Manner::default();
        assert!(manner.try_it());
        assert!(!manner.try_it());
        manner.tried(Err(Error::broken("cut")));
        assert!(manner.try_it());
        manner.tried(Ok(false));
        assert!(!manner.try_it());
    }
}
