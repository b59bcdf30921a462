//! Child tasks of turns: found again by their keys, cancelled with their parent.
//!
//! A child's id is derived from its parent's id and its key, so that the store itself refuses a second one; no other
//! record of it is needed. It is in one list, its parent's. When a parent ends other than by completing, it is added to
//! the [`OrphanQueue`], and a loop asks the children that still run to stop. Children whose parent ended while no process
//! ran are stopped when their turns are recovered.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use model::ports::Future;
use model::ports::children::{Child, Children, OpenedChild, has};
use model::ports::store::{Cursor, ListQuery};
use model::{CallScope, Caller, Fault, Kind, Message, Send, State, Task, TaskId, View};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use crate::backoff::Backoff;
use crate::live::TurnHandle;
use crate::open::{To, follow_up};
use crate::pending_children::{self, PendingChildren};
use crate::visibility::LookupKind;
use crate::{Engine, Shared, blobs, cancel, modes, troubled};

/// Children read at once.
const PAGE: u32 = 100;

/// The children of one task, for the turn that opens them.
pub(crate) struct ChildTasks {
    shared: Weak<Shared>,
    parent: TaskId,
    tenant: Arc<str>,
    owner: Arc<str>,
    dialect: Arc<str>,
    pending_children: Arc<PendingChildren>,
}

/// A turn's access to its children. Every turn has one and few open children, so creating it is cheap.
pub(crate) fn of(shared: &Arc<Shared>, parent: &Task, turn: &TurnHandle) -> Arc<dyn Children> {
    Arc::new(ChildTasks {
        shared: Arc::downgrade(shared),
        parent: parent.id,
        tenant: parent.tenant.clone(),
        owner: parent.owner.clone(),
        dialect: parent.dialect.clone(),
        pending_children: turn.pending_children.clone(),
    })
}

/// The id has the parent's timestamp, so that parent and children are adjacent in the store; the rest is a hash.
fn id(parent: TaskId, key: &str) -> TaskId {
    let mut hash = Sha256::new();
    hash.update(b"child\0");
    hash.update(parent.0.as_bytes());
    hash.update(key);
    let hash: [u8; 32] = hash.finalize().into();
    let mut bytes = *parent.0.as_bytes();
    bytes[6..].copy_from_slice(&hash[..10]);
    let built = uuid::Builder::from_bytes(bytes).with_version(uuid::Version::SortRand);
    TaskId(built.with_variant(uuid::Variant::RFC4122).into_uuid())
}

fn gone() -> Fault {
    Fault::new(Kind::Unavailable, "the server is shutting down; try again shortly")
}

impl ChildTasks {
    fn place(&self) -> CallScope {
        let (tenant, name) = (self.tenant.clone(), self.owner.clone());
        let caller = Caller { tenant, name, authenticated: true, scopes: Arc::default() };
        let view = View::child(self.parent);
        CallScope {
            caller,
            agent: "".into(),
            mount: "system".into(),
            views: vec![view.clone()],
            reads: vec![view],
            parties: Vec::new(),
            dialect: self.dialect.clone(),
            ids: None,
        }
    }

    /// Runs the work to its end even if the returned future is dropped.
    fn detached<T, F>(&self, work: impl FnOnce(Arc<Shared>, CallScope) -> F) -> Future<'static, Result<T, Fault>>
    where
        T: std::marker::Send + 'static,
        F: std::future::Future<Output = Result<T, Fault>> + std::marker::Send + 'static,
    {
        let Some(shared) = self.shared.upgrade() else { return Box::pin(std::future::ready(Err(gone()))) };
        let work = work(shared, self.place());
        Box::pin(async move { Shared::detached(work).await })
    }
}

impl Children for ChildTasks {
    fn id(&self, key: &str) -> TaskId {
        id(self.parent, key)
    }

    fn open(&self, child: Child) -> Result<Future<'static, Result<OpenedChild, Fault>>, Fault> {
        let shared = self.shared.upgrade().ok_or_else(gone)?;
        let id = id(self.parent, &child.key);
        let agent = shared.agent(&child.agent)?;
        if !shared.limits.any_input_mode {
            modes::check_modes(&child.message.parts, &agent.profile().input_modes)?;
        }
        let place = CallScope { agent: child.agent, ..self.place() };
        let send = Send { context: Some(child.context), ..Send::new(child.message) };
        let told = pending_children::lay(&shared, &self.pending_children, &place, agent, send, id)?;
        let store = shared.store.clone();
        Ok(Box::pin(async move {
            let over = match told.await.map_err(|_| gone())?? {
                Some(task) => Some(blobs::load_task(&*store, task).await?),
                None => None,
            };
            Ok(OpenedChild { id, over })
        }))
    }

    fn find(&self, child: TaskId) -> Future<'static, Result<bool, Fault>> {
        self.detached(move |shared, _| async move { Ok(shared.live(child).await?.is_some()) })
    }

    fn at_rest(&self, child: TaskId) -> Future<'static, Result<Option<Arc<Task>>, Fault>> {
        let shared = self.shared.upgrade();
        Box::pin(async move {
            let shared = shared.ok_or_else(gone)?;
            let Some(live) = shared.live(child).await? else { return Ok(None) };
            let task = match live.wait_until(|task| task.core.is_at_rest()).await {
                Err(fault) if fault.kind == Kind::TaskNotFound => return Ok(None),
                task => task?,
            };
            blobs::load_task(&*shared.store, task).await.map(Some)
        })
    }

    fn tell(&self, child: TaskId, message: Message) -> Future<'static, Result<(), Fault>> {
        self.detached(move |shared, mut place| async move {
            let (_, task) = shared
                .visible_live(&place, child, LookupKind::Task)
                .await?
                .ok_or_else(|| Fault::task_not_found(child))?;
            if task.history.iter().any(|said| said.id == message.id) {
                return Ok(());
            }
            place.agent = task.agent.clone();
            let agent = shared.agent(&task.agent)?;
            drop(task);
            follow_up(&shared, &place, agent, To::task(child), Send::new(message), None).await.map(drop)
        })
    }

    fn cancel(&self, child: TaskId) -> Future<'static, Result<(), Fault>> {
        self.detached(move |shared, _| async move { stop(&shared, child).await })
    }

    fn logged(
        &self,
        holds: Box<dyn Fn(&Task) -> bool + std::marker::Send + Sync>,
    ) -> Future<'static, Result<(), Fault>> {
        let (shared, parent) = (self.shared.upgrade(), self.parent);
        Box::pin(async move {
            let live = shared.ok_or_else(gone)?.lives.find(parent).ok_or_else(|| Fault::task_not_found(parent))?;
            live.wait_until(|task| holds(task)).await.map(drop)
        })
    }
}

/// Asks a task to stop, if it runs.
pub(crate) async fn stop(shared: &Arc<Shared>, task: TaskId) -> Result<(), Fault> {
    let Some(live) = shared.live(task).await? else { return Ok(()) };
    if live.snapshot()?.core.is_settled() {
        return Ok(());
    }
    match cancel::request(shared, &live, None).await {
        Ok(_) => Ok(()),
        Err(fault) if matches!(fault.kind, Kind::TaskNotCancelable | Kind::TaskNotFound) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// Parents that ended other than by completing, whose children must be stopped.
#[derive(Default)]
pub(crate) struct OrphanQueue {
    parents: Mutex<VecDeque<TaskId>>,
    told: Notify,
}

impl OrphanQueue {
    /// A task has settled. After a completed task no children are left to stop.
    pub(crate) fn settled(&self, task: &Task) {
        if task.state() != State::Completed && has(task) {
            self.parents.lock().push_back(task.id);
            self.told.notify_one();
        }
    }

    fn next(&self) -> Option<TaskId> {
        self.parents.lock().pop_front()
    }
}

/// Stops the children of parents that have ended.
pub(crate) async fn stop_orphans(shared: Arc<Shared>) {
    loop {
        let Some(parent) = shared.orphans.next() else {
            tokio::select! {
                () = shared.orphans.told.notified() => continue,
                () = shared.stopped.cancelled() => return,
            }
        };
        if let Err(fault) = crate::setbacks::alone(stop_all(&shared, parent)).await {
            tracing::error!(task = %parent, cause = %fault.cause_text(), "the children of a task could not be stopped: {fault}");
        }
    }
}

async fn stop_all(shared: &Arc<Shared>, parent: TaskId) -> Result<(), Fault> {
    // State by state, in the order a task passes through them, so that no child is missed.
    for state in State::ALL.into_iter().filter(|state| !state.is_terminal()) {
        let mut after: Option<Cursor> = None;
        loop {
            let query = ListQuery {
                views: vec![View::child(parent)],
                context: None,
                state: Some(state),
                since: None,
                after,
                limit: PAGE,
                count: false,
            };
            let mut backoff = Backoff::new();
            let page = loop {
                match shared.store.list(query.clone()).await {
                    Ok(page) => break page,
                    Err(trouble) => backoff.pause(shared, parent, trouble).await.map_err(troubled)?,
                }
            };
            for (child, _) in &page.tasks {
                if let Err(fault) = stop(shared, *child).await {
                    tracing::error!(task = %child, cause = %fault.cause_text(), "a child could not be stopped: {fault}");
                }
            }
            match page.tasks.last() {
                Some((_, cursor)) if page.more => after = Some(*cursor),
                Some(_) | None => break,
            }
        }
    }
    Ok(())
}

/// Whether a child's parent has ended or is being cancelled, so that the child's result is no longer needed.
pub(crate) async fn is_orphaned(shared: &Arc<Shared>, task: &Task) -> Result<bool, Fault> {
    let Some(parent) = task.views.iter().find_map(View::parent) else { return Ok(false) };
    let Some(live) = shared.live(parent).await? else { return Ok(true) };
    let core = live.snapshot()?.core;
    Ok(core.is_settled() || core.cancel_requested)
}

impl Engine {
    /// The scope in which callers that may see the task can read, list and follow its children.
    pub fn children<'a>(&'a self, place: &'a CallScope, parent: &'a str) -> Future<'a, Result<CallScope, Fault>> {
        Box::pin(async move {
            let id = self.shared.named(place, parent).await?.task;
            let found = self.shared.visible_live(place, id, LookupKind::Task).await?;
            let (_, task) = found.ok_or_else(|| Fault::task_not_found(parent))?;
            let reads = vec![View::child(task.id)];
            Ok(CallScope { views: Vec::new(), reads, ..place.clone() })
        })
    }
}
