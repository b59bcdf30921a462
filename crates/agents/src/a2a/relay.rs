//! One turn of a remote agent: send, listen, reconnect, cancel.
//!
//! Each failure is retried until the patience limit; every event that arrives resets the limit. A turn that was
//! sent and not answered is sent again with the same message id and idempotency key: it may or may not have
//! arrived, and a server that supports the key accepts it once.

use std::sync::Arc;
use std::time::Duration;

use client::seen::{Seen, TaskSeen};
use client::{Error, Events, FailureStage, PeerEvent};
use futures_util::FutureExt as _;
use futures_util::stream::BoxStream;
use model::ports::agent::{AgentEvent, AgentMessage, EndState, Turn, TurnEnd};
use model::{ContextId, EventId, Kind, Send, State, Wait};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::bound::{self, Bound};
use super::show::{self, Show};
use super::{Shared, behaviour, outgoing};
use crate::emitter::{Emitter, emit};
use crate::outbound;

/// First pause between two attempts, and between two polls of a task that is not streamed; doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// A stream that is silent for this long after a cancel is backed by a poll.
const AFTER_CANCEL: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The turn's output. Polling the stream does the work; dropping it stops the turn.
pub(super) fn run(shared: Arc<Shared>, turn: Turn) -> BoxStream<'static, AgentEvent> {
    emit(move |emitter| Relay::new(shared, turn, emitter).run())
}

struct Relay {
    shared: Arc<Shared>,
    turn: Turn,
    emitter: Emitter,
    show: Show,
    send: Send,
    /// Our id of the remote context.
    ours: ContextId,
    /// The remote task, once known.
    bound: Option<Bound>,
    /// The turn was sent at least once.
    sent: bool,
    /// Streaming was refused; do not try again.
    no_streams: bool,
    no_subscriptions: bool,
    /// Id of the last event that had one.
    last_id: Option<String>,
    /// Events may have been missed.
    gaps: bool,
    cancel: Cancel,
    /// The stream ended by itself: poll the task before subscribing again.
    look_first: bool,
    /// A connection was made: the server may have accepted the turn.
    reached: bool,
    /// Start of the current run of failures, and the next pause.
    trouble_since: Option<Instant>,
    pause: Duration,
    deadline: Option<Instant>,
    began: Instant,
    /// The request for a whole answer that exceeded its time, kept open until its task ends: some servers cancel
    /// the task when the request is closed.
    asking: Option<JoinSet<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cancel {
    NotWanted,
    Wanted,
    Told,
}

/// The server does not know the task.
fn is_unknown(error: &Error) -> bool {
    error.stage == FailureStage::Refused && matches!(error.kind, Kind::Unsupported | Kind::MethodNotFound)
}

/// Whether a stream that is resumed after this id neither leaves out nor repeats an event. Over gRPC the events after the
/// first are counted: `TASK.SEQ+3`.
fn is_gapless(id: &str) -> bool {
    let first = match id.split_once('+') {
        Some((first, after)) if after.parse::<u64>().is_ok() => first,
        Some(_) | None => id,
    };
    first.parse::<EventId>().is_ok()
}

/// How the remote task is followed.
enum Line {
    Open(Box<Events>),
    /// By polling.
    Looking,
    /// The task has already ended.
    Ended(AgentEvent),
}

impl Relay {
    fn new(shared: Arc<Shared>, turn: Turn, emitter: Emitter) -> Relay {
        let (bound, before) = (Bound::of_turn(&turn), Bound::before(&turn));
        let ours = bound::context_of(&turn.so_far);
        let (send, deadline) = outgoing::message(&shared, &turn, &ours, before.as_ref());
        let answered = before.filter(|bound| !bound.settled).and_then(|bound| bound.asked);
        Relay {
            show: Show::of(&turn.so_far, answered),
            send,
            ours,
            sent: bound.is_some() || turn.attempt > 1,
            bound,
            no_streams: false,
            no_subscriptions: false,
            last_id: None,
            gaps: false,
            cancel: Cancel::NotWanted,
            look_first: false,
            reached: turn.attempt > 1,
            trouble_since: None,
            pause: FIRST_PAUSE,
            deadline,
            began: Instant::now(),
            asking: None,
            shared,
            turn,
            emitter,
        }
    }

    async fn run(mut self) {
        let end = match self.deadline {
            None => self.work().await,
            Some(deadline) => match tokio::time::timeout_at(deadline, self.work()).await {
                Ok(end) => end,
                Err(_) => {
                    self.give_up().await;
                    let says = "the time that was given for this message has run out";
                    Ok(AgentEvent::End(TurnEnd { state: EndState::Failed, words: Some(AgentMessage::text(says)) }))
                }
            },
        };
        if let (Ok(_), Some(bound), 1) = (&end, &self.bound, self.turn.attempt) {
            self.shared.learn(self.began.elapsed(), &self.send, &bound.task);
        }
        let end =
            end.unwrap_or_else(|error| show::ended_by(&error, self.bound.is_some(), &self.shared.options.secrets()));
        if let Some(binding) = self.last_binding(&end) {
            self.say(AgentEvent::Bound(binding)).await;
        }
        self.say(end).await;
    }

    /// The binding for the next turn: the question that it answers, or that the remote task has ended.
    fn last_binding(&self, end: &AgentEvent) -> Option<String> {
        let bound = self.bound.as_ref()?;
        let AgentEvent::End(TurnEnd { state, .. }) = end else { return None };
        match state {
            EndState::Completed if bound.settled => None,
            EndState::Completed => Some(Bound { settled: true, ..bound.clone() }.write()),
            EndState::InputRequired | EndState::AuthRequired => {
                Some(Bound { asked: self.show.asks().map(str::to_owned), ..bound.clone() }.write())
            }
            // No turn follows these.
            EndState::Failed | EndState::Rejected | EndState::Canceled => None,
        }
    }

    async fn say(&self, emission: AgentEvent) {
        self.emitter.say(emission).await;
    }

    /// Follows the remote task to its end, through every break.
    async fn work(&mut self) -> Result<AgentEvent, Error> {
        loop {
            let line = if self.bound.is_some() { self.come_back().boxed().await } else { self.begin().boxed().await };
            let ended = match line {
                Ok(Line::Ended(end)) => return Ok(end),
                Ok(Line::Open(events)) => self.listen(*events).await,
                Ok(Line::Looking) => self.look().await,
                Err(error) => Err(error),
            };
            let error = match ended {
                Ok(Some(end)) => return Ok(end),
                Ok(None) => {
                    self.look_first = true;
                    self.show.forget_answered();
                    Error::broken("the stream ended before the task did")
                }
                Err(error) => error,
            };
            if self.cancel == Cancel::NotWanted && self.turn.cancelled.clone().now_or_never().is_some() {
                self.cancel = Cancel::Wanted;
            }
            if self.streams_are_refused(&error) {
                self.no_streams = true;
                continue;
            }
            if self.cancel == Cancel::Wanted && self.bound.is_none() {
                // The server accepted nothing, and the caller has cancelled.
                return Ok(AgentEvent::End(TurnEnd { state: EndState::Canceled, words: None }));
            }
            let worth_another = error.is_passing() || (self.bound.is_some() && error.stage == FailureStage::Unreadable);
            self.reached |= self.bound.is_some() || error.stage != FailureStage::Unreachable;
            let options = &self.shared.options;
            let patience = if self.reached { options.patience() } else { options.unreachable() };
            let since = *self.trouble_since.get_or_insert_with(Instant::now);
            if !worth_another || since.elapsed() + self.pause > patience {
                return Err(error);
            }
            tracing::debug!(task = %self.turn.task, %error, "a remote agent is tried again");
            if self.pause >= outbound::SHOWN {
                self.say(show::waits(&error, self.pause, &options.secrets())).await;
            }
            self.rest().await;
        }
    }

    /// The server does not stream, although its card says so or it has no card.
    fn streams_are_refused(&self, error: &Error) -> bool {
        !self.no_streams && self.bound.is_none() && is_unknown(error)
    }

    /// Sends the turn.
    async fn begin(&mut self) -> Result<Line, Error> {
        if self.turn.cancelled.clone().now_or_never().is_some() && !self.sent {
            return Ok(Line::Ended(AgentEvent::End(TurnEnd { state: EndState::Canceled, words: None })));
        }
        let target = self.shared.target().await?;
        if self.sent && self.arrived().await? {
            return self.come_back().await;
        }
        let whole = self.turn.whole && !self.sent && self.shared.asks_whole(&self.send);
        self.sent = true;
        if whole {
            match self.ask().await {
                Err(error) if is_unknown(&error) => self.shared.manner.lock().never(),
                line => return line,
            }
        }
        if target.streams() && !self.no_streams {
            let events = self.shared.client.stream(&self.send).await?;
            return Ok(Line::Open(Box::new(events)));
        }
        let send = Send { wait: Wait::Exists, ..self.send.clone() };
        let seen = self.shared.client.send(&send).await?;
        Ok(self.see(seen).await.map_or(Line::Looking, Line::Ended))
    }

    /// Sends the turn and waits for the whole answer. If that takes too long, or the caller cancels, finds the task
    /// and follows it.
    async fn ask(&mut self) -> Result<Line, Error> {
        let (client, send) = (self.shared.client.clone(), self.send.clone());
        let mut asking = async move { client.send(&send).await }.boxed();
        let (mut pause, mut look) = (FIRST_PAUSE, Instant::now() + behaviour::SHORT);
        loop {
            let cancelled = self.turn.cancelled.clone();
            tokio::select! {
                biased;
                seen = &mut asking => return self.answered(seen?).await,
                () = cancelled, if self.cancel == Cancel::NotWanted => self.cancel = Cancel::Wanted,
                () = tokio::time::sleep_until(look) => {}
            }
            let arrived = tokio::select! {
                biased;
                seen = &mut asking => return self.answered(seen?).await,
                arrived = self.arrived() => arrived,
            };
            match arrived {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => tracing::debug!(task = %self.turn.task, %error, "a remote task is looked for again"),
            }
            look = Instant::now() + pause;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let mut kept = JoinSet::new();
        kept.spawn(asking.map(drop));
        self.asking = Some(kept);
        self.cancel_if_wanted().await?;
        self.come_back().await
    }

    /// Passes on a whole answer with its history.
    async fn answered(&mut self, seen: Seen) -> Result<Line, Error> {
        if let Seen::Task(task) = &seen {
            self.found(task).await;
        }
        match self.see(seen).await {
            Some(end) => {
                // The task asks a question after the caller has cancelled.
                let asks = matches!(&end, AgentEvent::End(TurnEnd { state, .. }) if !State::from(*state).is_terminal());
                if asks && (self.cancel == Cancel::Wanted || self.turn.cancelled.clone().now_or_never().is_some()) {
                    self.cancel = Cancel::Wanted;
                    self.cancel_if_wanted().await?;
                }
                Ok(Line::Ended(end))
            }
            None => {
                self.shared.manner.lock().never();
                self.come_back().await
            }
        }
    }

    /// Whether a turn that was sent and not answered has arrived: looks for the id we chose, where senders choose
    /// ids, or else for the message.
    async fn arrived(&mut self) -> Result<bool, Error> {
        // A continued task existed before, so only a new task proves arrival.
        let Some(id) = self.send.alias.as_deref() else { return Ok(false) };
        let client = &self.shared.client;
        let found = if self.shared.target().await?.peer().facts().chooses_ids {
            match client.get(id, Some(0)).await {
                Err(error) if error.kind == Kind::TaskNotFound => None,
                task => Some(task?),
            }
        } else {
            match behaviour::find(client, &self.send).await {
                Err(error) if error.is_passing() => return Err(error),
                // The server has no list, or denies us access to it.
                Err(_) => None,
                Ok(found) => found,
            }
        };
        let Some(task) = found else { return Ok(false) };
        self.found(&task).await;
        Ok(true)
    }

    /// A task that was running before any of its events arrived.
    async fn found(&mut self, task: &TaskSeen) {
        self.bind_seen(task).await;
        for emission in self.show.said_before(task, &self.send.message.id) {
            self.say(emission).await;
        }
    }

    /// Finds the task again after a break: resumes after the last event, or else polls it.
    async fn come_back(&mut self) -> Result<Line, Error> {
        let Some(task) = self.bound.as_ref().map(|bound| bound.task.clone()) else { return Ok(Line::Looking) };
        let target = self.shared.target().await?;
        let streams = target.streams() && !self.no_streams && !self.no_subscriptions;
        let look_first = std::mem::take(&mut self.look_first);
        if let Some(last) = self.last_id.clone().filter(|_| streams && !look_first) {
            // Only event ids of this form guarantee a gapless resume.
            self.gaps |= !is_gapless(&last);
            match self.shared.client.subscribe(&task, Some(&last)).await {
                Ok(events) => return Ok(Line::Open(Box::new(events))),
                Err(error) if error.stage == FailureStage::Refused && !error.is_passing() => self.last_id = None,
                Err(error) => return Err(error),
            }
        }
        self.gaps = true;
        let sight = self.shared.client.get(&task, Some(0)).await?;
        if let Some(end) = self.see(Seen::Task(sight)).await {
            return Ok(Line::Ended(end));
        }
        if !streams {
            return Ok(Line::Looking);
        }
        match self.shared.client.subscribe(&task, None).await {
            Ok(events) => Ok(Line::Open(Box::new(events))),
            Err(error) if error.stage == FailureStage::Refused && !error.is_passing() => {
                self.no_subscriptions = true;
                Ok(Line::Looking)
            }
            Err(error) => Err(error),
        }
    }

    /// Passes a stream on. Returns the turn's end, or none when only the stream ended.
    async fn listen(&mut self, mut events: Events) -> Result<Option<AgentEvent>, Error> {
        loop {
            self.cancel_if_wanted().await?;
            let cancelled = self.turn.cancelled.clone();
            let heard = tokio::select! {
                heard = events.next() => heard,
                () = cancelled, if self.cancel == Cancel::NotWanted => {
                    self.cancel = Cancel::Wanted;
                    continue;
                }
                // Some servers send nothing more on the stream of a cancelled task.
                () = tokio::time::sleep(AFTER_CANCEL), if self.cancel == Cancel::Told => {
                    let Some(task) = self.bound.as_ref().map(|bound| bound.task.clone()) else { continue };
                    let sight = self.shared.client.get(&task, Some(0)).await?;
                    match self.see(Seen::Task(sight)).await {
                        Some(end) => return Ok(Some(end)),
                        None => continue,
                    }
                }
            };
            let PeerEvent { id, seen } = match heard {
                None => return Ok(None),
                // The server accepted the subscription and refused it inside the stream.
                Some(Err(error))
                    if self.bound.is_some() && error.stage == FailureStage::Refused && !error.is_passing() =>
                {
                    self.last_id = None;
                    self.no_subscriptions = true;
                    return Ok(None);
                }
                Some(Err(error)) => return Err(error),
                Some(Ok(heard)) => heard,
            };
            if id.is_some() {
                self.last_id = id;
            }
            if let Some(end) = self.see(seen).await {
                return Ok(Some(self.closed(end).await));
            }
        }
    }

    /// Polls the task until it ends.
    async fn look(&mut self) -> Result<Option<AgentEvent>, Error> {
        self.pause = FIRST_PAUSE;
        let began = Instant::now();
        loop {
            let pause = self.pause;
            self.rest().await;
            if began.elapsed() > self.shared.options.patience() {
                // A task that still shows the question by now asks it again.
                self.show.forget_answered();
            }
            self.cancel_if_wanted().await?;
            let Some(task) = self.bound.as_ref().map(|bound| bound.task.clone()) else {
                return Err(Error::broken("the answer names no task"));
            };
            let sight = self.shared.client.get(&task, Some(0)).await?;
            if let Some(end) = self.see(Seen::Task(sight)).await {
                return Ok(Some(end));
            }
            // An answer to a poll is no reason to poll more often.
            self.pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits, longer each time. A cancel ends the wait.
    async fn rest(&mut self) {
        let cancelled = self.turn.cancelled.clone();
        tokio::select! {
            () = tokio::time::sleep(self.pause) => {}
            () = cancelled, if self.cancel == Cancel::NotWanted => self.cancel = Cancel::Wanted,
        }
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// Sends the cancel once. The reply may be the task's end.
    async fn cancel_if_wanted(&mut self) -> Result<(), Error> {
        let Some(bound) = self.bound.as_ref().filter(|_| self.cancel == Cancel::Wanted) else { return Ok(()) };
        self.cancel = Cancel::Told;
        let task = bound.task.clone();
        match self.shared.client.cancel(&task, None).await {
            // The stream reports the end too, after everything before it.
            Ok(_) => Ok(()),
            Err(error) if error.stage == FailureStage::Refused => {
                tracing::debug!(%error, "a remote agent did not take a cancel");
                Ok(())
            }
            Err(error) => {
                self.cancel = Cancel::Wanted;
                Err(error)
            }
        }
    }

    /// The end to emit; after a gap, only once the missed content has been passed on.
    async fn closed(&mut self, end: AgentEvent) -> AgentEvent {
        let Some(task) = self.bound.as_ref().filter(|_| self.gaps).map(|bound| bound.task.clone()) else { return end };
        match self.shared.client.get(&task, Some(0)).await {
            Ok(sight) => {
                let (news, again) = self.show.seen(Seen::Task(sight));
                for emission in news {
                    self.say(emission).await;
                }
                again.unwrap_or(end)
            }
            Err(error) => {
                tracing::debug!(%error, "polling a remote task again failed");
                end
            }
        }
    }

    /// Records the remote task and passes on its news. Returns the end if this is it.
    async fn see(&mut self, seen: Seen) -> Option<AgentEvent> {
        self.trouble_since = None;
        self.pause = FIRST_PAUSE;
        match &seen {
            Seen::Task(task) => self.bind_seen(task).await,
            Seen::Status { task, context, .. } | Seen::Artifact { task, context, .. } => {
                self.bind(task, context.as_ref(), false).await;
            }
            Seen::Message { context, .. } => self.remember(context.as_ref()),
            Seen::Partial { seen, .. } => match &**seen {
                Seen::Status { task, context, .. } | Seen::Artifact { task, context, .. } => {
                    self.bind(task, context.as_ref(), false).await;
                }
                Seen::Message { context, .. } => self.remember(context.as_ref()),
                Seen::Task(_) | Seen::Partial { .. } | Seen::Unread { .. } => {}
            },
            Seen::Unread { .. } => {}
        }
        let (news, end) = self.show.seen(seen);
        for emission in news {
            self.say(emission).await;
        }
        end
    }

    async fn bind_seen(&mut self, task: &TaskSeen) {
        self.bind(&task.id, task.context.as_ref(), task.status.state == Some(State::Completed)).await;
    }

    /// Stores the binding before any of the task's output is passed on.
    async fn bind(&mut self, task: &str, context: Option<&ContextId>, settled: bool) {
        self.remember(context);
        if self.bound.as_ref().is_some_and(|bound| bound.task == task && bound.turn == self.turn.id) {
            return;
        }
        let target = self.shared.client.discover().await;
        let url = target.map(|target| target.shown_url().to_owned()).unwrap_or_default();
        let (turn, task) = (self.turn.id, task.to_owned());
        let bound = Bound { turn, url, task, context: context.cloned(), asked: None, settled };
        self.say(AgentEvent::Bound(bound.write())).await;
        self.bound = Some(bound);
    }

    /// Records the name that the server gave the context.
    fn remember(&self, theirs: Option<&ContextId>) {
        if let Some(theirs) = theirs.filter(|theirs| **theirs != self.ours) {
            self.shared.contexts.lock().put(self.ours.clone(), theirs.clone());
        }
    }

    /// The time is up: cancels the remote task without waiting for the outcome.
    async fn give_up(&mut self) {
        let told = async {
            if self.bound.is_none() && self.sent && self.arrived().await.is_err() {
                return;
            }
            if let Some(bound) = &self.bound {
                // The reply does not matter any more.
                let _ = self.shared.client.cancel(&bound.task, None).await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_ours_is_gapless_also_when_events_were_counted_after_it() {
        let own = "0190f3c4-1111-7222-8333-444455556666.7";
        assert!(is_gapless(own));
        assert!(is_gapless(&format!("{own}+12")));
        for other in [format!("{own}+"), format!("{own}+x"), "7".to_owned(), "x+1".to_owned()] {
            assert!(!is_gapless(&other), "{other}");
        }
    }
}
