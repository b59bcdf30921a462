//! Tasks without turns: a product opens and changes them, together with its records and its journal, in one commit.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use model::ports::Future;
use model::ports::store::{BlobWrite, Commit, Conflict, Guard, Outcome, Timer, TimerChange, TimerKind};
use model::ports::task_driver::TaskDriver;
use model::{
    Artifact, Body, CallScope, Chunk, ContextId, Entry, Fault, Inbound, Json, Kind, Message, Opened, RecordChange,
    State, StatusChange, Task, TaskId, TextChange, Time, depth,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::batch::{EventBatch, Stamp};
use crate::live::{AppendDraft, AppendError, Live};
use crate::open::commit_new;
use crate::subscription::{States, Subscription, Until};
use crate::{Engine, Shared, clock, doubt, troubled};

/// Deadlines handled concurrently.
const AT_ONCE: usize = 64;
/// Tasks kept live between their changes.
const RECENT: usize = 4_096;

/// Writes that go with a task's commit, or are committed by themselves.
#[derive(Clone, Debug, Default)]
pub struct SideWrites {
    pub guards: Vec<Guard>,
    pub records: Vec<RecordChange>,
    pub entries: Vec<Entry>,
    /// Changes of the full-text index.
    pub texts: Vec<TextChange>,
    /// Blobs of the task, removed with it. Ignored for a task that does not exist.
    pub blobs: Vec<BlobWrite>,
    /// The task's deadline: `Some(None)` clears it, `None` leaves it unchanged.
    pub deadline: Option<Option<Time>>,
}

impl SideWrites {
    pub(crate) fn add_to(self, task: TaskId, commit: &mut Commit) {
        commit.guards.extend(self.guards);
        commit.records.extend(self.records);
        commit.entries.extend(self.entries);
        commit.texts.extend(self.texts);
        commit.blobs.extend(self.blobs);
        if let Some(due) = self.deadline {
            let kind = TimerKind::Deadline;
            commit.timers.push(match due {
                Some(due) => TimerChange::Set(Timer { task, kind, due }),
                None => TimerChange::Clear(task, kind),
            });
        }
    }
}

/// A task that a product opens.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Drawn by the product with [`Engine::new_task_id`].
    pub id: TaskId,
    pub context: Option<ContextId>,
    /// The owner's message, if any.
    pub message: Option<Message>,
    pub to: TaskChange,
}

/// A change of a product's task.
#[derive(Clone, Debug)]
pub struct TaskChange {
    pub state: State,
    /// Metadata of the status: the product's own name for it.
    pub metadata: Option<Json>,
    /// Complete artifacts, which replace those with the same ids.
    pub artifacts: Vec<Artifact>,
}

impl TaskChange {
    pub fn to(state: State) -> TaskChange {
        TaskChange { state, metadata: None, artifacts: Vec::new() }
    }

    fn bodies(&self, known: &[Arc<Artifact>], data_depth: usize) -> Vec<Body> {
        let mut bodies = Vec::with_capacity(1 + self.artifacts.len());
        let mut next = known.len() as u32;
        for artifact in &self.artifacts {
            let ordinal = match known.iter().position(|old| old.id == artifact.id) {
                Some(place) => place as u32,
                None => {
                    next += 1;
                    next - 1
                }
            };
            let mut artifact = artifact.clone();
            depth::flatten_parts(&mut artifact.parts, data_depth);
            depth::flatten(&mut artifact.metadata, data_depth);
            let artifact = Arc::new(artifact);
            bodies.push(Body::Artifact(Chunk {
                artifact,
                ordinal,
                append: false,
                bordered: false,
                last: true,
                metadata: None,
            }));
        }
        let (state, mut metadata) = (self.state, self.metadata.clone());
        depth::flatten(&mut metadata, data_depth);
        bodies.push(Body::Status(StatusChange { state, message: None, metadata }));
        bodies
    }
}

/// The reason a change did not happen.
#[derive(Debug)]
pub enum CommitError {
    /// A precondition failed: a record, a balance, an entry, a key.
    Met(Conflict),
    Fault(Fault),
}

impl From<Fault> for CommitError {
    fn from(fault: Fault) -> CommitError {
        CommitError::Fault(fault)
    }
}

impl From<CommitError> for Fault {
    fn from(unmoved: CommitError) -> Fault {
        match unmoved {
            CommitError::Met(met) => Fault::internal(format!("a product's change met what it did not expect: {met:?}")),
            CommitError::Fault(fault) => fault,
        }
    }
}

/// Refuses to end or remove a product's task that has not ended: the transaction behind it, such as a purchase with
/// reserved money, would continue without it. Such a task never had a turn, so this also works where its product is not
/// running.
pub(crate) fn refuse_if_product(task: &Task) -> Result<(), Fault> {
    if task.core.starts > 0 || task.core.is_settled() {
        return Ok(());
    }
    let words = format!(
        "task {} belongs to {} and has not ended; have its parties end it there, or wait for its deadline, and try again",
        task.id, task.agent
    );
    Err(Fault::new(Kind::TaskNotCancelable, words).fact("taskId", task.id.to_string()))
}

/// The product that handles deadlines, and the tasks it is likely to change next.
pub(crate) struct Products {
    product: OnceLock<Arc<dyn TaskDriver>>,
    room: Arc<Semaphore>,
    recent: Mutex<HashMap<TaskId, Arc<Live>>>,
}

impl Default for Products {
    fn default() -> Products {
        Products { product: OnceLock::new(), room: Arc::new(Semaphore::new(AT_ONCE)), recent: Mutex::default() }
    }
}

impl Products {
    /// Keeps a task live until it has settled, so that its next change need not read its log. Not in a shared store,
    /// where each change by another process would have to be followed.
    fn keep(&self, shared: &Shared, live: &Arc<Live>, is_settled: bool) {
        if shared.store.is_shared() {
            return;
        }
        let mut recent = self.recent.lock();
        if is_settled {
            recent.remove(&live.id);
            return;
        }
        if recent.len() >= RECENT {
            recent.clear();
        }
        recent.insert(live.id, live.clone());
    }
}

/// Calls the product outside the loop that fires timers, with limited concurrency.
pub(crate) async fn tell(shared: &Arc<Shared>, task: TaskId) {
    let Some(product) = shared.products.product.get().cloned() else { return };
    let Ok(room) = shared.products.room.clone().acquire_owned().await else { return };
    tokio::spawn(async move {
        product.due(task).await;
        drop(room);
    });
}

impl Engine {
    /// Sets the product that owns tasks here; a second call has no effect.
    pub fn set_product(&self, product: Arc<dyn TaskDriver>) {
        if self.shared.products.product.set(product).is_err() {
            tracing::error!("a product is already registered for deadlines; ignoring the second");
        }
    }

    pub fn new_task_id(&self) -> TaskId {
        clock::task_id()
    }

    /// The store's time.
    pub fn now(&self) -> Time {
        self.shared.clock.now()
    }

    /// Opens a task without turns.
    pub fn open_product<'a>(
        &'a self,
        place: &'a CallScope,
        birth: NewTask,
        along: SideWrites,
    ) -> Future<'a, Result<Arc<Task>, CommitError>> {
        Box::pin(async move {
            self.shared.refuse_if_draining()?;
            let fresh_context = birth.context.is_none();
            let opened = Opened {
                id: birth.id,
                context: birth.context.unwrap_or_else(|| ContextId(clock::text_id())),
                agent: place.agent.clone(),
                tenant: place.caller.tenant.clone(),
                owner: place.caller.name.clone(),
                parties: place.parties.clone(),
                views: place.views.clone(),
                dialect: place.dialect.clone(),
                alias: None,
                follows: None,
                undecided: false,
            };
            let mut bodies = Vec::new();
            if let Some(message) = birth.message {
                depth::check_message(&message, self.shared.limits.data_depth)?;
                let message = Arc::new(message);
                let (accepted_output, extensions) = (Vec::new(), Vec::new());
                let inbound =
                    Inbound { message, metadata: None, accepted_output, extensions, trace: None, payer: None };
                bodies.push(Body::Message(Arc::new(inbound)));
            }
            bodies.extend(birth.to.bodies(&[], self.shared.limits.data_depth));
            let stamp = Stamp { now: self.shared.clock.now(), epoch: None };
            let batch = EventBatch::opening(opened, fresh_context, bodies, stamp, &self.shared.limits);
            let (mut batch, task) = batch.map_err(Fault::internal)?;
            along.add_to(task.id, &mut batch.commit);
            let shared = self.shared.clone();
            let timers = batch.commit.timers.clone();
            let outcome = Shared::detached(async move {
                let outcome = commit_new(&shared, task.id, batch.commit).await?;
                let task = Arc::new(task);
                if outcome == Outcome::Done {
                    shared.alarm.set(&timers);
                    shared.count(&task, &batch.events);
                    if !shared.store.is_shared() {
                        let live = shared.lives.entry(task.id);
                        live.opened(task.clone(), batch.events, &shared.limits).await;
                        shared.products.keep(&shared, &live, task.core.is_settled());
                    }
                }
                Ok((outcome, task))
            });
            match outcome.await? {
                (Outcome::Done, task) => Ok(task),
                (Outcome::Conflict(met), _) => Err(CommitError::Met(met)),
                (Outcome::Refused(trouble) | Outcome::Unknown(trouble), _) => Err(troubled(trouble).into()),
            }
        })
    }

    /// Changes a product's task. A settled task (`Kind::TaskSettled`) or a missing one is refused.
    pub fn move_product<'a>(
        &'a self,
        task: TaskId,
        to: TaskChange,
        along: SideWrites,
    ) -> Future<'a, Result<Arc<Task>, CommitError>> {
        Box::pin(async move {
            let shared = self.shared.clone();
            let moved = tokio::spawn(async move {
                // A stale fold is fine: an append that meets a longer log reads on.
                let live = match shared.lives.find(task) {
                    Some(live) => Some(live),
                    None => shared.live(task).await.map_err(AppendError::Fault)?,
                };
                let live = live.ok_or_else(|| AppendError::Fault(Fault::task_not_found(task)))?;
                let appended = live.append(&shared, |now| {
                    if now.core.is_settled() {
                        return Err(Fault::new(Kind::TaskSettled, "the task has settled and changes no more"));
                    }
                    let mut draft = AppendDraft::outside(to.bodies(&now.artifacts, shared.limits.data_depth));
                    draft.along = Some(along.clone());
                    Ok(draft)
                });
                let moved = appended.await;
                if let Ok(task) = &moved {
                    shared.products.keep(&shared, &live, task.core.is_settled());
                }
                moved
            });
            match moved.await {
                Ok(Ok(task)) => Ok(task),
                Ok(Err(AppendError::Met(met))) => Err(CommitError::Met(met)),
                Ok(Err(failed)) => Err(CommitError::Fault(failed.into())),
                Err(error) => Err(CommitError::Fault(Fault::internal(error))),
            }
        })
    }

    /// Commits changes of records, unless one of the records has changed: then nothing happens, and the answer is false.
    pub fn keep_unchanged(&self, records: Vec<RecordChange>) -> Future<'_, Result<bool, Fault>> {
        Box::pin(async move {
            match self.keep(SideWrites { records, ..SideWrites::default() }).await {
                Ok(()) => Ok(true),
                Err(CommitError::Met(Conflict::Record(..))) => Ok(false),
                Err(unmoved) => Err(unmoved.into()),
            }
        })
    }

    /// Idempotency keys of products that were used before this time have expired.
    pub fn keys_since(&self) -> Time {
        let kept = i64::try_from(self.limits().idempotency_ms).unwrap_or(i64::MAX);
        Time(self.now().0.saturating_sub(kept))
    }

    /// Commits a product's writes without a task. An unknown outcome is looked up by the first record, so the caller
    /// must put first a record whose body no other commit would write.
    pub fn keep(&self, along: SideWrites) -> Future<'_, Result<(), CommitError>> {
        Box::pin(async move {
            let first = along.records.first().cloned();
            let SideWrites { guards, records, entries, texts, blobs, deadline: _ } = along;
            let commit = Commit { guards, records, entries, texts, blobs, ..Commit::default() };
            let shared = self.shared.clone();
            let outcome = Shared::detached(async move { Ok(keep(&shared, commit, first).await) }).await?;
            match outcome? {
                Outcome::Done => Ok(()),
                Outcome::Conflict(met) => Err(CommitError::Met(met)),
                Outcome::Refused(trouble) | Outcome::Unknown(trouble) => Err(troubled(trouble).into()),
            }
        })
    }

    /// Sets the time at which the product is called for the task; `None` clears it.
    pub fn set_deadline(&self, task: TaskId, due: Option<Time>) -> Future<'_, Result<(), Fault>> {
        Box::pin(async move { self.set_deadline_while(task, due, Vec::new()).await.map(drop) })
    }

    /// Sets the deadline if the given records are still at the versions read. Returns whether they were; if not, the
    /// commit that changed them has set the deadline, which stays.
    pub fn set_deadline_while<'a>(
        &'a self,
        task: TaskId,
        due: Option<Time>,
        rests_on: Vec<RecordChange>,
    ) -> Future<'a, Result<bool, Fault>> {
        Box::pin(async move {
            let mut commit = Commit::default();
            SideWrites { deadline: Some(due), records: rests_on, ..SideWrites::default() }.add_to(task, &mut commit);
            let timers = commit.timers.clone();
            match self.shared.store.commit(commit).await {
                Outcome::Done => {
                    self.shared.alarm.set(&timers);
                    Ok(true)
                }
                Outcome::Conflict(_) => Ok(false),
                Outcome::Refused(trouble) | Outcome::Unknown(trouble) => Err(troubled(trouble)),
            }
        })
    }

    /// A product's task at every change of its status, without a visibility check: the product has made it. `None` if
    /// the task does not exist or no longer exists.
    pub fn follow_product(&self, task: TaskId) -> Future<'_, Result<Option<States>, Fault>> {
        Box::pin(async move {
            let Some(live) = self.shared.live(task).await? else { return Ok(None) };
            let at = live.snapshot()?;
            Ok(Some(Subscription::new(self.shared.clone(), live, at, Until::Settled).into_states()))
        })
    }
}

async fn keep(shared: &Shared, commit: Commit, first: Option<RecordChange>) -> Result<Outcome, Fault> {
    let trouble = match shared.store.commit(commit).await {
        Outcome::Unknown(trouble) => trouble,
        known @ (Outcome::Done | Outcome::Conflict(_) | Outcome::Refused(_)) => return Ok(known),
    };
    let Some(first) = first else { return Ok(Outcome::Unknown(trouble)) };
    let (kind, key, _) = first.about();
    let kept = doubt::read_back(shared, kind, || shared.store.record(kind.clone(), key.clone()));
    let kept = kept.await.map_err(troubled)?;
    let is_there = match (&first, kept) {
        (RecordChange::Put { body, .. }, Some(kept)) => kept.body == *body,
        (RecordChange::Put { .. }, None) | (RecordChange::Remove { .. }, Some(_)) => false,
        (RecordChange::Remove { .. }, None) => true,
        // An unchanged record says nothing about the outcome of the other writes.
        (RecordChange::Leave { .. }, _) => return Ok(Outcome::Unknown(trouble)),
    };
    Ok(if is_there { Outcome::Done } else { Outcome::Refused(trouble) })
}
