//! Children that wait for the commit that opens them.
//!
//! A child is opened in one commit with all preceding events of its parent's turn: so the parent's log always explains
//! the child, and a step of a system costs one commit for any number of nodes. An idempotent agent has already run by
//! then, as for any other send. The result is known after the commit.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use model::ports::agent::{Agent, AgentEvent};
use model::ports::store::{Commit, Conflict};
use model::{CallScope, Fault, Send, Task, TaskId, TurnId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::batch::EventBatch;
use crate::billing::Reserved;
use crate::live::{Live, TurnHandle};
use crate::open::{Ahead, NewTaskIds, OpeningCommit};
use crate::turn::TurnRun;
use crate::{RunningTurn, Shared, children};

/// The most one commit opens, in bytes of its children's logs and large parts.
const MOST_BYTES: usize = 4 << 20;

/// The children that a turn opens with its next commit.
#[derive(Default)]
pub(crate) struct PendingChildren(Mutex<Vec<ChildTask>>);

impl PendingChildren {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// The children for the next commit, in order of request.
    pub(crate) fn take(&self) -> Vec<ChildTask> {
        let mut all = self.0.lock();
        let mut bytes = 0;
        let within = all.iter().take_while(|child| {
            let first = bytes == 0;
            bytes += child.bytes();
            first || bytes <= MOST_BYTES
        });
        let count = within.count();
        all.drain(..count).collect()
    }

    /// Drops the waiting children; none is opened.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// A child that is not opened yet.
pub(crate) struct ChildTask {
    id: TaskId,
    batch: EventBatch,
    task: Task,
    reserved: Option<Reserved>,
    /// The turn that runs after the commit, unless it has ended already.
    turn: Option<Begins>,
    answer: oneshot::Sender<Result<ChildOutcome, Fault>>,
}

struct Begins {
    /// Registered before the commit, so that a reader that learns of the child from the store finds this same
    /// `Live`.
    live: Arc<Live>,
    agent: Arc<dyn Agent>,
    turn: TurnId,
    whole: bool,
    handle: TurnHandle,
    running: RunningTurn,
    ahead: Option<BoxStream<'static, AgentEvent>>,
}

/// The outcome of an opened child: the settled task, if it settled at once.
pub(crate) type ChildOutcome = Option<Arc<Task>>;

/// Adds a child to those of the next commit. Does not wait.
pub(crate) fn lay(
    shared: &Arc<Shared>,
    pending_children: &PendingChildren,
    place: &CallScope,
    agent: Arc<dyn Agent>,
    send: Send,
    id: TaskId,
) -> Result<oneshot::Receiver<Result<ChildOutcome, Fault>>, Fault> {
    let (start, runs_ahead) =
        OpeningCommit::new(shared, place, &agent, send, NewTaskIds { id, key: None, alias: None, is_child: true })?;
    let Ahead { bodies, stream, handle } = if runs_ahead {
        start.ahead(shared, &agent)?
    } else {
        Ahead { bodies: start.bodies(), stream: None, handle: TurnHandle::new() }
    };
    let turn = if runs_ahead && stream.is_none() {
        None
    } else {
        let (mut running, live) = (shared.take_child_turn()?, shared.lives.entry(id));
        running.begin_at(&live);
        Some(Begins { live, agent, turn: start.turn, whole: start.whole, handle, running, ahead: stream })
    };
    let reserved = start.reserved.clone();
    let (batch, task) = start.batch(shared, bodies)?;
    let (answer, told) = oneshot::channel();
    pending_children.0.lock().push(ChildTask { id, batch, task, reserved, turn, answer });
    Ok(told)
}

impl ChildTask {
    fn bytes(&self) -> usize {
        let commit = &self.batch.commit;
        let rows = commit.appends.iter().map(|append| append.payload.len()).sum::<usize>();
        rows + commit.blobs.iter().map(|blob| blob.bytes.len()).sum::<usize>()
    }

    pub(crate) fn commit(&self) -> Commit {
        self.batch.commit.clone()
    }

    /// Removes the children that this conflict is about and answers their parent: a child that exists already, or one
    /// whose reservation was refused. Returns whether there was any.
    pub(crate) fn sort_out(all: &mut Vec<ChildTask>, met: &Conflict) -> bool {
        let about = |child: &ChildTask| match met {
            Conflict::Seq(task, _) | Conflict::Epoch(task, _) => (*task == child.id).then_some(Ok(None)),
            Conflict::Record(..) | Conflict::Funds(..) | Conflict::Entry(_) => {
                child.reserved.as_ref().and_then(|reserved| reserved.refused(met)).map(Err)
            }
            Conflict::Key(_) | Conflict::Alias(_) => None,
        };
        let found = all.iter().enumerate().find_map(|(at, child)| about(child).map(|told| (at, told)));
        let Some((at, told)) = found else { return false };
        // The parent may have dropped the receiver.
        let _ = all.remove(at).answer.send(told);
        true
    }

    /// After the commit: runs the turn, unless it has ended or `stops` is set.
    pub(crate) async fn begin(self, shared: &Arc<Shared>, stops: bool) {
        let ChildTask { id, batch, task, turn, answer, .. } = self;
        shared.count(&task, &batch.events);
        let task = Arc::new(task);
        let Some(Begins { live, agent, turn, whole, handle, running, ahead }) = turn else {
            let _ = answer.send(Ok(Some(task)));
            return;
        };
        shared.alarm.set(&batch.commit.timers);
        live.opened(task, batch.events, &shared.limits).await;
        TurnRun { shared: shared.clone(), live, agent, turn, attempt: 1, whole, handle, running }.spawn(ahead);
        let _ = answer.send(Ok(None));
        // A cancelled parent looked for children to stop before this one existed.
        if stops {
            let shared = shared.clone();
            tokio::spawn(async move {
                if let Err(fault) = children::stop(&shared, id).await {
                    tracing::error!(task = %id, cause = %fault.cause_text(), "a child could not be stopped: {fault}");
                }
            });
        }
    }
}
