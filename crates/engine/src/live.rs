//! A task in use in this process: its turn runs, a caller waits for it, or a subscriber follows it.
//!
//! A [`Live`] is the only access to a task's log in this process: its `writing` lock allows one writer at a time, the
//! next batch is checked against its fold, and its tail serves subscribers without reading the store. It lives as long
//! as it is referenced; a settled task without readers takes no memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use model::ports::agent::Cancelled;
use model::ports::store::{Commit, Conflict, KeyUse, Outcome, Store, StoreError, TimerChange};
use model::{Body, Epoch, Event, Fault, Inbound, Limits, MemoryShare, PushProgress, Seq, Task, TaskId, stored};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OnceCell, watch};
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::batch::{EventBatch, Stamp};
use crate::billing::{self, TurnEnding};
use crate::committed::Committed;
use crate::memory;
use crate::pending_children::PendingChildren;
use crate::product_tasks::SideWrites;
use crate::push::{self, Registration};
use crate::registry::Registry;
use crate::{Shared, doubt, troubled};

pub(crate) struct Live {
    pub(crate) id: TaskId,
    pub(crate) inner: OnceCell<Mutex<Inner>>,
    /// The log's length, for waiting readers.
    seq: OnceLock<watch::Sender<Seq>>,
    /// Held during a commit: one in flight per task.
    writing: tokio::sync::Mutex<()>,
    /// The log's length according to hints of other processes.
    said: AtomicU64,
    /// A spawned reader is following those hints.
    following: AtomicBool,
    turn: Mutex<Option<TurnHandle>>,
    /// Turns of the task that run in this process, or that a commit in flight begins.
    at_work: AtomicUsize,
    /// The task was purged.
    gone: AtomicBool,
    registry: Weak<Registry>,
}

pub(crate) struct Inner {
    task: Arc<Task>,
    /// Messages that no turn has taken up.
    waiting: Vec<Arc<Inbound>>,
    /// Messages of the open turn.
    current: Vec<Arc<Inbound>>,
    tail: VecDeque<Arc<Committed>>,
    tail_bytes: usize,
    /// The weight of the fold, and the share of the live tasks' memory taken by fold and tail.
    fold_bytes: usize,
    share: Option<MemoryShare>,
}

/// Handle of a turn that runs in this process.
#[derive(Clone)]
pub(crate) struct TurnHandle {
    pub(crate) cancel: CancellationToken,
    pub(crate) timed_out: Arc<Notify>,
    /// Another process has taken or ended the turn.
    pub(crate) lost: CancellationToken,
    /// The children it is about to open.
    pub(crate) pending_children: Arc<PendingChildren>,
}

impl TurnHandle {
    pub(crate) fn new() -> TurnHandle {
        let (cancel, lost) = (CancellationToken::new(), CancellationToken::new());
        TurnHandle { cancel, timed_out: Arc::default(), lost, pending_children: Arc::default() }
    }

    pub(crate) fn cancelled(&self) -> Cancelled {
        use futures_util::FutureExt;
        self.cancel.clone().cancelled_owned().boxed().shared()
    }
}

/// The reason an append did not happen.
#[derive(Debug)]
pub(crate) enum AppendError {
    /// The draft returned a fault.
    Fault(Fault),
    /// Another holder has the turn.
    Lost,
    /// The side writes conflict with the store.
    Met(Conflict),
    Key(KeyUse),
    Trouble(StoreError),
}

impl From<AppendError> for Fault {
    fn from(failed: AppendError) -> Fault {
        match failed {
            AppendError::Fault(fault) => fault,
            AppendError::Lost => Fault::internal("another process holds this turn"),
            AppendError::Met(met) => Fault::internal(format!("an append met what it did not ask for: {met:?}")),
            AppendError::Key(_) => Fault::internal("an idempotency key conflict was not handled"),
            AppendError::Trouble(trouble) => troubled(trouble),
        }
    }
}

/// The task's writer is waiting for a commit to be decided.
fn undecided() -> StoreError {
    StoreError::Unreachable("an earlier change of the task is not decided yet".into())
}

/// An append as it was sent to the store.
pub(crate) struct Tried {
    events: Vec<Event>,
    timers: Vec<TimerChange>,
    push: Option<(PushProgress, Registration)>,
}

/// The events to append, and the writes that go with them.
#[derive(Default)]
pub(crate) struct AppendDraft {
    pub(crate) bodies: Vec<Body>,
    pub(crate) key: Option<(KeyUse, model::Time)>,
    /// Set by a turn's holder and when a turn starts: takes or keeps the hold of the turn.
    pub(crate) epoch: Option<Epoch>,
    /// A push config that begins with the first of the events.
    pub(crate) push: Option<Registration>,
    /// A product's changes.
    pub(crate) along: Option<SideWrites>,
    /// How the events end a turn with a reservation.
    pub(crate) ending: TurnEnding,
    /// Commits that open children.
    pub(crate) births: Vec<Commit>,
}

impl AppendDraft {
    /// Events from outside a turn: a message, a cancel request.
    pub(crate) fn outside(bodies: Vec<Body>) -> AppendDraft {
        AppendDraft { bodies, ..AppendDraft::default() }
    }
    /// Events from the turn's holder, or that begin a turn.
    pub(crate) fn held(bodies: Vec<Body>, task: &Task, store: &dyn Store) -> AppendDraft {
        let begun = bodies.iter().filter(|body| matches!(body, Body::TurnStarted { .. })).count() as u32;
        AppendDraft { bodies, epoch: Some(store.hold(task.core.starts + begun)), ..AppendDraft::default() }
    }
}

impl Live {
    /// The first batch was committed. The task may already have been read from the store; that is harmless.
    pub(crate) async fn opened(&self, task: Arc<Task>, events: Vec<Event>, limits: &Limits) {
        self.inner.get_or_init(|| async { self.filled(task, events, limits) }).await;
    }

    pub(crate) fn filled(&self, task: Arc<Task>, events: Vec<Event>, limits: &Limits) -> Mutex<Inner> {
        let mut inner = Inner::new(task, self.registry.upgrade().map(|registry| registry.memory.share()));
        for event in events {
            inner.sort_message(&event.body);
            inner.keep(Committed::new(event), limits.tail_bytes);
        }
        inner.count();
        let _ = self.seq.set(watch::Sender::new(inner.task.seq()));
        Mutex::new(inner)
    }

    pub(crate) fn empty(id: TaskId, registry: &Arc<Registry>) -> Live {
        Live {
            id,
            inner: OnceCell::new(),
            seq: OnceLock::new(),
            writing: tokio::sync::Mutex::default(),
            said: AtomicU64::new(0),
            following: AtomicBool::new(false),
            turn: Mutex::default(),
            at_work: AtomicUsize::new(0),
            gone: AtomicBool::new(false),
            registry: Arc::downgrade(registry),
        }
    }

    /// The inner state; `None` only before the first load has finished.
    fn inner(&self) -> Option<MutexGuard<'_, Inner>> {
        self.inner.get().map(Mutex::lock)
    }

    pub(crate) fn task(&self) -> Option<Arc<Task>> {
        self.inner().map(|inner| inner.task.clone())
    }

    /// The fold of a loaded task.
    pub(crate) fn snapshot(&self) -> Result<Arc<Task>, Fault> {
        self.task().ok_or_else(|| Fault::internal("a live task without a fold"))
    }

    /// Its share of the live tasks' memory, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.inner().map_or(0, |inner| inner.fold_bytes + inner.tail_bytes)
    }

    pub(crate) fn current_messages(&self) -> Vec<Arc<Inbound>> {
        self.inner().map(|inner| inner.current.clone()).unwrap_or_default()
    }

    /// The input of a turn: the task without the messages that wait for the next turn, and the messages of this turn.
    pub(crate) fn turn_view(&self) -> Result<(Arc<Task>, Vec<Arc<Inbound>>), Fault> {
        let Some(inner) = self.inner() else { return Err(Fault::internal("a live task without a fold")) };
        let (mut task, current) = (inner.task.clone(), inner.current.clone());
        let waits =
            |said: &Arc<model::Message>| inner.waiting.iter().any(|waiting| Arc::ptr_eq(&waiting.message, said));
        if task.history.iter().any(waits) {
            Arc::make_mut(&mut task).history.retain(|said| !waits(said));
        }
        Ok((task, current))
    }

    pub(crate) fn watch(&self) -> Option<watch::Receiver<Seq>> {
        self.seq.get().map(watch::Sender::subscribe)
    }

    pub(crate) fn set_turn(&self, handle: Option<TurnHandle>) {
        *self.turn.lock() = handle;
        // A cancel logged between the turn's first commit and now found no handle, or the previous turn's.
        if self.task().is_some_and(|task| task.core.cancel_requested) {
            self.stop_turn();
        }
    }

    pub(crate) fn turn(&self) -> Option<TurnHandle> {
        self.turn.lock().clone()
    }

    pub(crate) fn stop_turn(&self) {
        if let Some(turn) = self.turn() {
            turn.cancel.cancel();
        }
    }

    /// A turn of the task begins or ends in this process.
    pub(crate) fn count_work(&self, begins: bool) {
        if begins {
            self.at_work.fetch_add(1, Ordering::AcqRel);
        } else {
            self.at_work.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether a turn of the task runs in this process, or is about to.
    pub(crate) fn is_at_work(&self) -> bool {
        self.at_work.load(Ordering::Acquire) > 0
    }

    /// Locks the log: nothing is appended while the guard lives. Waits no longer than the store's answer bound, because
    /// the current writer may be waiting for a commit to be decided.
    pub(crate) async fn hold(&self, shared: &Shared) -> Result<tokio::sync::MutexGuard<'_, ()>, StoreError> {
        if let Ok(free) = self.writing.try_lock() {
            return Ok(free);
        }
        match shared.store.answers_within() {
            None => Ok(self.writing.lock().await),
            Some(bound) => tokio::time::timeout(bound, self.writing.lock()).await.map_err(|_| undecided()),
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// The task was purged: wakes all waiting readers.
    pub(crate) fn vanish(&self) {
        self.gone.store(true, Ordering::Release);
        if let Some(seq) = self.seq.get() {
            seq.send_modify(|_| {});
        }
    }

    /// Waits until `done` is true of the fold.
    pub(crate) async fn wait_until(&self, mut done: impl FnMut(&Task) -> bool) -> Result<Arc<Task>, Fault> {
        let mut seq = self.watch().ok_or_else(|| Fault::internal("a live task without a fold"))?;
        loop {
            seq.mark_unchanged();
            // The fold is not held while waiting: a held fold would be copied by the next event.
            {
                let task = self.snapshot()?;
                if done(&task) {
                    return Ok(task);
                }
            }
            if self.is_gone() {
                return Err(Fault::task_not_found(self.id));
            }
            if seq.changed().await.is_err() {
                return self.snapshot();
            }
        }
    }

    /// Events after `after`, if the tail still has them all; on `None` the reader must use the store.
    pub(crate) fn tail_after(&self, after: Seq, most: usize) -> Option<Vec<Arc<Committed>>> {
        let inner = self.inner()?;
        if after >= inner.task.seq() {
            return Some(Vec::new());
        }
        let first = inner.tail.front()?.event.seq;
        if after.next() < first {
            return None;
        }
        let skip = (after.next().0 - first.0) as usize;
        Some(inner.tail.iter().skip(skip).take(most).cloned().collect())
    }

    /// Appends the draft that `draft` makes from the fold. `draft` runs again after a conflict with another writer. The
    /// caller must run this where it cannot be dropped half way (see [`Shared::detached`]).
    pub(crate) async fn append(
        &self,
        shared: &Shared,
        draft: impl FnMut(&Task) -> Result<AppendDraft, Fault>,
    ) -> Result<Arc<Task>, AppendError> {
        self.append_again(shared, &mut None, draft).await
    }

    /// Like [`Live::append`], for a retry after trouble: `tried` keeps the append whose outcome was unknown. If that
    /// append turns out to be in the log, it counts as this one.
    pub(crate) async fn append_again(
        &self,
        shared: &Shared,
        tried: &mut Option<Tried>,
        mut draft: impl FnMut(&Task) -> Result<AppendDraft, Fault>,
    ) -> Result<Arc<Task>, AppendError> {
        let _one_writer = self.hold(shared).await.map_err(AppendError::Trouble)?;
        if self.was_appended(shared, tried.as_ref()).await?
            && let Some(own) = tried.take()
        {
            return self.appended(shared, own);
        }
        let mut unsettled = false;
        loop {
            if self.is_gone() {
                return Err(AppendError::Fault(Fault::task_not_found(self.id)));
            }
            let task = self.snapshot().map_err(AppendError::Fault)?;
            let mut draft = draft(&task).map_err(AppendError::Fault)?;
            if draft.bodies.is_empty() {
                return Ok(task);
            }
            let stamp = Stamp { now: shared.clock.now(), epoch: draft.epoch };
            let closing = if task.due.is_some() && !unsettled {
                billing::close(shared.books.get(), &task, &mut draft.bodies, draft.ending, stamp.now)
            } else {
                None
            };
            let EventBatch { events, mut commit } = EventBatch::following(&task, draft.bodies, stamp, &shared.limits)
                .map_err(|refused| AppendError::Fault(Fault::internal(refused)))?;
            let expected = task.seq();
            drop(task);
            let push = draft.push.map(|push| (push.progress(expected.next(), false), push));
            if let Some((progress, push)) = &push {
                push::room(shared, self.id, &push.id).await.map_err(AppendError::Fault)?;
                commit.push.push(push.put(progress.clone()));
            }
            // The settlement goes first: it may free funds that the next reservation needs.
            for along in [&closing, &draft.along].into_iter().flatten() {
                along.clone().add_to(self.id, &mut commit);
            }
            if let Some((mut key, not_before)) = draft.key {
                key.seq = events.last().map_or(key.seq, |e| e.seq);
                commit.guards.push(model::ports::store::Guard::KeyFree { key: key.key, not_before });
                commit.keys.push(key);
            }
            let timers = commit.timers.clone();
            for birth in draft.births {
                commit.appends.extend(birth.appends);
                commit.timers.extend(birth.timers);
                commit.blobs.extend(birth.blobs);
                commit.records.extend(birth.records);
                commit.entries.extend(birth.entries);
            }
            match shared.store.commit(commit).await {
                Outcome::Done => {}
                // A child that exists already.
                Outcome::Conflict(met @ (Conflict::Seq(task, _) | Conflict::Epoch(task, _))) if task != self.id => {
                    return Err(AppendError::Met(met));
                }
                // The log is shorter than the known fold: the task was purged.
                Outcome::Conflict(Conflict::Seq(_, now)) if now < expected => {
                    return Err(AppendError::Fault(Fault::task_not_found(self.id)));
                }
                Outcome::Conflict(Conflict::Seq(..)) => {
                    let own = tried.take();
                    if self.was_appended(shared, own.as_ref()).await?
                        && let Some(own) = own
                    {
                        return self.appended(shared, own);
                    }
                    self.catch_up(shared).await?;
                    continue;
                }
                // Another process started a turn. The log shows a holder that its turn is lost.
                Outcome::Conflict(Conflict::Epoch(..)) => {
                    if self.catch_up(shared).await? == expected {
                        return Err(AppendError::Lost);
                    }
                    continue;
                }
                Outcome::Conflict(Conflict::Key(key)) => return Err(AppendError::Key(key)),
                Outcome::Conflict(met)
                    if closing
                        .as_ref()
                        .is_some_and(|closing| billing::is_about(closing, draft.along.as_ref(), &met)) =>
                {
                    tracing::error!(task = %self.id, "what was set aside for a turn cannot be ended: {met:?}; run rialto market verify");
                    unsettled = true;
                    continue;
                }
                Outcome::Conflict(
                    met @ (Conflict::Alias(_) | Conflict::Record(..) | Conflict::Funds(..) | Conflict::Entry(_)),
                ) => return Err(AppendError::Met(met)),
                Outcome::Refused(trouble) => return Err(AppendError::Trouble(trouble)),
                Outcome::Unknown(trouble) => {
                    let own = Tried { events, timers, push };
                    if self.is_in_log(shared, &own.events).await? {
                        return self.appended(shared, own);
                    }
                    *tried = Some(own);
                    return Err(AppendError::Trouble(trouble));
                }
            }
            return self.appended(shared, Tried { events, timers, push });
        }
    }

    /// After a successful append: updates the fold and notifies readers.
    fn appended(&self, shared: &Shared, own: Tried) -> Result<Arc<Task>, AppendError> {
        let Tried { mut events, timers, push } = own;
        shared.alarm.set(&timers);
        shared.count_events(&events);
        // Events in doubt may have been read from the store meanwhile.
        let known = self.snapshot().map_err(AppendError::Fault)?.seq();
        events.retain(|event| event.seq > known);
        let task = self.absorb(shared, events).map_err(AppendError::Fault)?;
        // Now that it can be read.
        shared.feed.note(&task);
        if task.core.is_settled() {
            shared.orphans.settled(&task);
        }
        if let Some((progress, push)) = push {
            push.begin(shared, progress);
        }
        Ok(task)
    }

    /// Whether an append with unknown outcome is in the log after all.
    async fn was_appended(&self, shared: &Shared, tried: Option<&Tried>) -> Result<bool, AppendError> {
        match tried {
            Some(own) => self.is_in_log(shared, &own.events).await,
            None => Ok(false),
        }
    }

    /// After an unknown outcome: whether the log has the row we tried to write. Waits until that is decided.
    async fn is_in_log(&self, shared: &Shared, events: &[Event]) -> Result<bool, AppendError> {
        let Some(first) = events.first() else { return Ok(false) };
        let before = Seq(first.seq.0 - 1);
        let kept = doubt::read_back(shared, self.id, || shared.store.events(self.id, before, usize::MAX)).await;
        let mut kept = kept.map_err(AppendError::Trouble)?;
        kept.truncate(events.len());
        Ok(stored::encode(&kept) == stored::encode(events))
    }

    /// Folds committed events and notifies readers.
    fn absorb(&self, shared: &Shared, events: Vec<Event>) -> Result<Arc<Task>, Fault> {
        let Some(mut inner) = self.inner() else { return Err(Fault::internal("a live task without a fold")) };
        let tail = memory::tail(&shared.lives.memory, &shared.limits);
        for event in events {
            let replaced = memory::replaced(&inner.task, &event.body);
            Arc::make_mut(&mut inner.task).apply(&event).map_err(Fault::internal)?;
            inner.fold_bytes = (inner.fold_bytes + event.body.weight()).saturating_sub(replaced);
            inner.sort_message(&event.body);
            inner.keep(Committed::new(event), tail);
        }
        inner.count();
        let task = inner.task.clone();
        drop(inner);
        if let Some(seq) = self.seq.get() {
            seq.send_replace(task.seq());
        }
        shared.outbox.told(self.id, task.seq());
        Ok(task)
    }

    /// Reads the events of other writers, and returns the log's length. Only for the holder of `writing`.
    async fn catch_up(&self, shared: &Shared) -> Result<Seq, AppendError> {
        loop {
            let before = self.snapshot().map_err(AppendError::Fault)?.core;
            let events = shared.store.events(self.id, before.seq, shared.limits.tail_bytes).await;
            let events = events.map_err(AppendError::Trouble)?;
            if events.is_empty() {
                return Ok(before.seq);
            }
            let after = self.absorb(shared, events).map_err(AppendError::Fault)?.core;
            // The turn that runs here is still ours unless another process has started or ended it.
            if (before.turn.is_some() && before.starts != after.starts) || after.turn.is_none() {
                if let Some(turn) = self.turn() {
                    turn.lost.cancel();
                }
            } else if after.cancel_requested {
                self.stop_turn();
            }
        }
    }

    /// In a shared store: brings the fold up to every commit made before this call by any process.
    pub(crate) async fn refresh(&self, shared: &Shared) -> Result<(), Fault> {
        if !shared.store.is_shared() || self.task().is_none_or(|task| task.core.is_settled()) {
            return Ok(());
        }
        let read = async {
            let _one_writer = self.hold(shared).await.map_err(AppendError::Trouble)?;
            self.catch_up(shared).await.map(drop)
        };
        let read = match shared.store.answers_within() {
            None => read.await,
            // The wait for the lock and the read share one bound.
            Some(bound) => tokio::time::timeout(bound, read).await.unwrap_or(Err(AppendError::Trouble(undecided()))),
        };
        read.map_err(Fault::from)
    }

    /// Another process reports that the log has grown to this length: reads on until the fold has it.
    pub(crate) fn follow(self: &Arc<Self>, shared: &Arc<Shared>, to: Seq) {
        self.said.fetch_max(to.0, Ordering::AcqRel);
        if !self.is_behind() || self.following.swap(true, Ordering::AcqRel) {
            return;
        }
        let (live, shared) = (self.clone(), shared.clone());
        tokio::spawn(async move {
            loop {
                let said = live.said.load(Ordering::Acquire);
                let outcome = live.read_on(&shared).await;
                // The reported length is only a hint: if the log is shorter, the reader does not wait for more.
                let _ = live.said.compare_exchange(said, 0, Ordering::AcqRel, Ordering::Acquire);
                live.following.store(false, Ordering::Release);
                if let Err(fault) = outcome {
                    tracing::error!(task = %live.id, cause = %fault.cause_text(), "a task cannot be followed: {fault}");
                    return;
                }
                // A hint between the read and this point found `following` set and started no reader.
                if !live.is_behind() || live.following.swap(true, Ordering::AcqRel) {
                    return;
                }
            }
        });
    }

    /// Catches up, retrying as long as the store is in trouble.
    async fn read_on(&self, shared: &Shared) -> Result<(), Fault> {
        let mut backoff = Backoff::new();
        loop {
            let caught_up = match self.hold(shared).await {
                Ok(_one_writer) => self.catch_up(shared).await,
                Err(trouble) => Err(AppendError::Trouble(trouble)),
            };
            match caught_up {
                Ok(_) => return Ok(()),
                Err(AppendError::Trouble(trouble)) => {
                    backoff.pause(shared, self.id, trouble).await.map_err(troubled)?;
                }
                Err(failed) => return Err(failed.into()),
            }
        }
    }

    fn is_behind(&self) -> bool {
        self.task().is_some_and(|task| !task.core.is_settled() && task.seq().0 < self.said.load(Ordering::Acquire))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.forget(self.id);
        }
    }
}

impl Inner {
    fn new(task: Arc<Task>, share: Option<MemoryShare>) -> Inner {
        let fold_bytes = task.weight();
        let (waiting, current, tail) = (Vec::new(), Vec::new(), VecDeque::new());
        Inner { task, waiting, current, tail, tail_bytes: 0, fold_bytes, share }
    }

    fn count(&mut self) {
        if let Some(share) = &mut self.share {
            share.set(self.fold_bytes + self.tail_bytes);
        }
    }

    fn sort_message(&mut self, body: &Body) {
        match body {
            Body::Message(inbound) => self.waiting.push(inbound.clone()),
            // Another attempt of the same turn keeps its messages; later messages wait for the next turn.
            Body::TurnStarted { attempt, .. } if *attempt > 1 => {}
            Body::TurnStarted { .. } => self.current = std::mem::take(&mut self.waiting),
            Body::Opened(_)
            | Body::Bound { .. }
            | Body::Status(_)
            | Body::Artifact(_)
            | Body::Replied(_)
            | Body::Metadata(_)
            | Body::CancelRequested { .. } => {}
        }
    }

    fn keep(&mut self, committed: Arc<Committed>, limit: usize) {
        self.tail_bytes += committed.event.body.weight();
        self.tail.push_back(committed);
        while self.tail_bytes > limit && self.tail.len() > 1 {
            if let Some(old) = self.tail.pop_front() {
                self.tail_bytes -= old.event.body.weight();
            }
        }
    }
}

impl Shared {
    /// Loads the task and returns it live and up to date.
    pub(crate) async fn live(&self, id: TaskId) -> Result<Option<Arc<Live>>, Fault> {
        if let Some(live) = self.lives.find(id) {
            live.refresh(self).await?;
            return Ok(Some(live));
        }
        self.lives.get(id, &*self.store, &self.limits, None).await
    }
}
