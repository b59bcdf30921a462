//! A cursor on a task's log. It never misses an event and never repeats one; a slow reader slows no other.
//!
//! The newest events come from the live task's tail, older ones from the store in pages. There is no gap between them:
//! the tail reports when it no longer reaches back far enough.

use std::collections::VecDeque;
use std::sync::Arc;

use model::content::Reply;
use model::ports::Future;
use model::{
    Body, CallScope, ContextId, Event, EventId, Fault, Kind, MemoryShare, Seq, Shape, State, Subscribe, Task, TaskId,
};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::committed::Committed;
use crate::live::Live;
use crate::memory;
use crate::visibility::{LookupKind, PIECE};
use crate::{Engine, Shared, troubled};

/// Events a reader takes from the tail at once.
const PAGE: usize = 64;
/// Bytes of a log read at once: every slow reader holds as much. One row of the log is read whole, however long.
const PAGE_BYTES: usize = 64 << 10;
/// A larger page counts against the memory for readers.
const LARGE_PAGE: usize = 256 << 10;

/// An item of a subscription.
#[derive(Clone, Debug)]
pub enum SubscriptionItem {
    /// The task as of its `seq()`; later items come after that.
    Task(Arc<Task>),
    Event {
        committed: Arc<Committed>,
        /// The stream ends after this.
        closing: bool,
    },
    /// The complete answer.
    Reply(Reply),
}

/// When a stream ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// When the task has settled.
    Settled,
    /// Then, or when it waits for the caller's input.
    Question,
}

pub struct Subscription {
    pub task: TaskId,
    pub context: ContextId,
    source: Source,
    cursor: Seq,
    first: Option<Arc<Task>>,
    buffered: VecDeque<Arc<Committed>>,
    /// The buffer's share of the memory for readers, if it is large.
    share: Option<MemoryShare>,
    until: Until,
    ended: bool,
    /// The engine stopped before the stream had ended.
    is_cut: bool,
    stopped: CancellationToken,
}

enum Source {
    /// The buffer has every event there will ever be.
    Buffer,
    Live {
        shared: Arc<Shared>,
        live: Arc<Live>,
        seq: watch::Receiver<Seq>,
    },
}

impl Subscription {
    pub(crate) fn new(shared: Arc<Shared>, live: Arc<Live>, at: Arc<Task>, until: Until) -> Subscription {
        let stopped = shared.stopped.clone();
        let source = match live.watch() {
            Some(seq) => Source::Live { shared, live, seq },
            None => Source::Buffer,
        };
        Subscription {
            task: at.id,
            context: at.context.clone(),
            source,
            cursor: at.seq(),
            first: Some(at),
            buffered: VecDeque::new(),
            share: None,
            until,
            ended: false,
            is_cut: false,
            stopped,
        }
    }

    /// A subscription to a turn that ended in its first commit.
    pub(crate) fn of_finished(events: Vec<Event>, stopped: CancellationToken) -> Result<Subscription, Fault> {
        let at = events.len().min(3);
        let task = Task::fold(&events[..at]).map_err(Fault::internal)?;
        let task = task.ok_or_else(|| Fault::internal("a finished turn without events"))?;
        Ok(Subscription {
            task: task.id,
            context: task.context.clone(),
            source: Source::Buffer,
            cursor: task.seq(),
            first: Some(Arc::new(task)),
            buffered: events.into_iter().skip(at).map(Committed::new).collect(),
            share: None,
            until: Until::Question,
            ended: false,
            is_cut: false,
            stopped,
        })
    }

    /// The next item; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Result<SubscriptionItem, Fault>> {
        if self.ended {
            return None;
        }
        let next = self.find_next().await;
        if !matches!(next, Some(Ok(_))) {
            self.ended = true;
        }
        next
    }

    async fn find_next(&mut self) -> Option<Result<SubscriptionItem, Fault>> {
        loop {
            while let Some(committed) = self.buffered.front() {
                if let (Some(first), Body::Replied(message)) = (&self.first, &committed.event.body)
                    && first.core.shape == Shape::Undecided
                {
                    self.ended = true;
                    let (message, context) = (message.clone(), self.context.clone());
                    return Some(Ok(SubscriptionItem::Reply(Reply { message, context, exchange: self.task })));
                }
                if let Some(first) = &self.first {
                    // An undecided exchange becomes a task with the first public event.
                    if first.core.shape == Shape::Undecided && !committed.event.body.is_public() {
                        self.cursor = committed.event.seq;
                        self.buffered.pop_front();
                        continue;
                    }
                    return self.first.take().map(|task| Ok(SubscriptionItem::Task(task)));
                }
                let Some(committed) = self.buffered.pop_front() else { break };
                self.cursor = committed.event.seq;
                if committed.event.body.is_public() {
                    let closing = self.closes_after(&committed.event);
                    self.ended = closing;
                    return Some(Ok(SubscriptionItem::Event { committed, closing }));
                }
            }
            if let Some(task) = self.first.take_if(|task| task.core.shape == Shape::Task) {
                return Some(Ok(SubscriptionItem::Task(task)));
            }
            match self.refill().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(fault) => return Some(Err(fault)),
            }
        }
    }

    /// Fetches more events, waiting for them if necessary. False when there will be none.
    async fn refill(&mut self) -> Result<bool, Fault> {
        let Source::Live { shared, live, seq } = &mut self.source else { return Ok(false) };
        loop {
            seq.mark_unchanged();
            match live.tail_after(self.cursor, PAGE) {
                Some(events) if !events.is_empty() => {
                    self.buffered.extend(events);
                    return Ok(true);
                }
                Some(_) => {}
                None => {
                    let _one_of_few = shared.long_reads.acquire().await.map_err(Fault::internal)?;
                    let most = PAGE_BYTES.min(shared.limits.tail_bytes);
                    let page = shared.store.events(live.id, self.cursor, most).await.map_err(troubled)?;
                    let weight = page.iter().map(|event| event.body.weight()).sum::<usize>();
                    self.share = None;
                    if weight > LARGE_PAGE {
                        let mut share = shared.readers.share();
                        if !share.grow_alone(weight) {
                            return Err(memory::no_room());
                        }
                        self.share = Some(share);
                    }
                    self.buffered.extend(page.into_iter().map(Committed::new));
                    return Ok(!self.buffered.is_empty());
                }
            }
            let over = |task: &Task| {
                let asks = self.until == Until::Question && task.state() == State::InputRequired;
                task.seq() <= self.cursor && (task.core.is_settled() || (asks && task.core.is_at_rest()))
            };
            if live.is_gone() || live.task().is_none_or(|task| over(&task)) {
                return Ok(false);
            }
            tokio::select! {
                changed = seq.changed() => if changed.is_err() { return Ok(false) },
                () = self.stopped.cancelled() => {
                    self.is_cut = true;
                    return Ok(false);
                }
            }
        }
    }

    /// Whether the stream ended because the server stops, and not because its task rests.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The task before the first event.
    pub fn first(&self) -> Option<&Arc<Task>> {
        self.first.as_ref()
    }

    /// The subscription by states instead of events: see [`States`].
    pub fn into_states(self) -> States {
        let states = match self.source {
            Source::Live { live, seq, .. } => Seen::Live { live, seq },
            Source::Buffer => {
                let mut task = self.first.clone();
                for committed in &self.buffered {
                    if let Some(task) = &mut task {
                        // These events are in the log, so they apply.
                        let _ = Arc::make_mut(task).apply(&committed.event);
                    }
                }
                Seen::Whole(task)
            }
        };
        let told = self.first.map_or(self.cursor, |_| Seq::ZERO);
        States { states, told, until: self.until, stopped: self.stopped, ended: false }
    }

    fn closes_after(&self, event: &Event) -> bool {
        let Body::Status(change) = &event.body else { return false };
        if change.state.is_terminal() {
            return true;
        }
        if self.until != Until::Question || change.state != State::InputRequired || !self.buffered.is_empty() {
            return false;
        }
        // A question that was answered before does not close the stream.
        match &self.source {
            Source::Buffer => true,
            Source::Live { live, .. } => live.task().is_none_or(|task| task.seq() == event.seq),
        }
    }
}

/// The latest fold at every change of status, for dialects whose frames carry the whole task. A slow reader skips
/// intermediate states; the last state is always delivered.
pub struct States {
    states: Seen,
    /// The newest status event that was delivered.
    told: Seq,
    until: Until,
    stopped: CancellationToken,
    ended: bool,
}

enum Seen {
    /// The complete task, which never changes again.
    Whole(Option<Arc<Task>>),
    Live {
        live: Arc<Live>,
        seq: watch::Receiver<Seq>,
    },
}

impl States {
    /// The task at its newest status; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Arc<Task>> {
        if self.ended {
            return None;
        }
        let (live, seq) = match &mut self.states {
            Seen::Whole(task) => {
                self.ended = true;
                return task.take();
            }
            Seen::Live { live, seq } => (live, seq),
        };
        loop {
            seq.mark_unchanged();
            let task = live.task()?;
            if task.core.status_seq > self.told && task.core.shape != Shape::Undecided {
                self.told = task.core.status_seq;
                let asks = self.until == Until::Question && task.state() == State::InputRequired;
                self.ended = task.core.is_settled() || (asks && task.core.is_at_rest());
                return Some(task);
            }
            if task.core.is_settled() || live.is_gone() {
                return None;
            }
            tokio::select! {
                changed = seq.changed() => changed.ok()?,
                () = self.stopped.cancelled() => return None,
            }
        }
    }
}

/// Every event of a task's log, also those that no subscriber receives, to the end of the task. For operators.
pub struct LogFollower(Subscription);

impl LogFollower {
    /// The next event; `None` when the task has settled, was purged, or the server stops.
    pub async fn next(&mut self) -> Option<Result<Arc<Committed>, Fault>> {
        loop {
            if let Some(committed) = self.0.buffered.pop_front() {
                self.0.cursor = committed.event.seq;
                return Some(Ok(committed));
            }
            match self.0.refill().await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(fault) => return Some(Err(fault)),
            }
        }
    }
}

impl Engine {
    /// Follows the log of a task after an event, without a visibility check.
    pub fn follow_log(&self, id: TaskId, after: Seq) -> Future<'_, Result<LogFollower, Fault>> {
        Box::pin(async move {
            let shared = &self.shared;
            let live = match shared.lives.find(id) {
                Some(live) => {
                    live.refresh(shared).await?;
                    Some(live)
                }
                None => {
                    // Read in pieces, which count against the memory of live tasks.
                    let piece = shared.store.events(id, Seq::ZERO, PIECE).await.map_err(troubled)?;
                    if piece.is_empty() {
                        return Err(Fault::task_not_found(id));
                    }
                    shared.lives.get(id, &*shared.store, &shared.limits, Some(piece)).await?
                }
            };
            let live = live.ok_or_else(|| Fault::task_not_found(id))?;
            let now = live.snapshot()?;
            if after > now.seq() {
                return Err(Fault::params("after", "the task has no such event yet"));
            }
            let whole = Subscription::new(self.shared.clone(), live, now, Until::Settled);
            Ok(LogFollower(Subscription { cursor: after, first: None, ..whole }))
        })
    }

    pub fn subscribe<'a>(
        &'a self,
        place: &'a CallScope,
        call: &'a Subscribe,
        resume: Option<EventId>,
    ) -> Future<'a, Result<Subscription, Fault>> {
        Box::pin(async move {
            let id = self.shared.named(place, &call.task).await?.task;
            if let Some(resume) = resume {
                return self.resume(place, resume, Some(id), Until::Settled).await;
            }
            let found = self.shared.visible_live(place, id, LookupKind::Task).await?;
            let (live, task) = found.ok_or_else(|| Fault::task_not_found(id))?;
            if task.core.is_settled() {
                let message = "the task has settled; get it instead, or resume with Last-Event-ID";
                return Err(Fault::new(Kind::TaskSettled, message).fact("taskId", id.to_string()));
            }
            Ok(Subscription::new(self.shared.clone(), live, task, Until::Settled))
        })
    }

    /// The task as of an event that the caller has seen, then all later events. A settled task replays and closes.
    pub(crate) async fn resume(
        &self,
        place: &CallScope,
        from: EventId,
        named: Option<TaskId>,
        until: Until,
    ) -> Result<Subscription, Fault> {
        if named.is_some_and(|id| id != from.task) {
            return Err(Fault::task_not_found(from.task));
        }
        let found = self.shared.visible_live(place, from.task, LookupKind::Exchange).await?;
        let (live, now) = found.ok_or_else(|| Fault::task_not_found(from.task))?;
        if from.seq > now.seq() {
            return Err(Fault::params("Last-Event-ID", "the task has no such event yet"));
        }
        let at = self.as_of(&now, from.seq).await?;
        Ok(Subscription::new(self.shared.clone(), live, at, until))
    }

    /// The fold of the log up to and including `seq`.
    async fn as_of(&self, now: &Arc<Task>, seq: Seq) -> Result<Arc<Task>, Fault> {
        if now.seq() == seq {
            return Ok(now.clone());
        }
        let mut fold: Option<Task> = None;
        let _one_of_few = self.shared.long_reads.acquire().await.map_err(Fault::internal)?;
        loop {
            let after = fold.as_ref().map_or(Seq::ZERO, Task::seq);
            let page =
                self.shared.store.events(now.id, after, self.shared.limits.tail_bytes).await.map_err(troubled)?;
            if page.is_empty() {
                break;
            }
            for event in page {
                match &mut fold {
                    None => fold = Some(Task::open(&event).map_err(Fault::internal)?),
                    Some(_) if event.seq > seq => return Ok(Arc::new(fold.take().ok_or_else(lost)?)),
                    Some(task) => task.apply(&event).map_err(Fault::internal)?,
                }
            }
        }
        fold.map(Arc::new).ok_or_else(lost)
    }
}

fn lost() -> Fault {
    Fault::internal("a log ended before an event it is known to hold")
}
