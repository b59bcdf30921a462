//! Children between their parent's word and the commit that opens them.
//!
//! A child is opened in one commit with everything its parent's turn said before: so there is no child of which the parent's
//! log does not tell why, and a step of a system costs one commit, however many nodes follow. An agent that may run twice has
//! run by then, as for any other send. What comes of it is known after the commit.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use model::ports::agent::{Agent, Emission};
use model::ports::store::{Commit, Conflict};
use model::{Fault, Place, Send, Task, TaskId, TurnId};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::batch::Batch;
use crate::live::{Live, TurnHandle};
use crate::open::{Ahead, Name, Start};
use crate::till::Reserved;
use crate::turn::Run;
use crate::{RunningTurn, Shared, children};

/// What one commit opens at most, in bytes of its children's logs and large parts.
const MOST_BYTES: usize = 4 << 20;

/// The children that a turn wants opened with its next commit.
#[derive(Default)]
pub(crate) struct Cradle(Mutex<Vec<Newborn>>);

impl Cradle {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Those that go with the next commit, in the order they came.
    pub(crate) fn take(&self) -> Vec<Newborn> {
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

    /// Nobody is opened any more.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

/// A child that is not opened yet.
pub(crate) struct Newborn {
    id: TaskId,
    batch: Batch,
    task: Task,
    reserved: Option<Reserved>,
    /// The turn that runs after the commit, unless it is over.
    turn: Option<Begins>,
    answer: oneshot::Sender<Result<Born, Fault>>,
}

struct Begins {
    /// There before the commit is: whoever hears of the task from the store first finds this very one.
    live: Arc<Live>,
    agent: Arc<dyn Agent>,
    turn: TurnId,
    whole: bool,
    handle: TurnHandle,
    running: RunningTurn,
    ahead: Option<BoxStream<'static, Emission>>,
}

/// What has become of a child: the whole of it, if it was over at once.
pub(crate) type Born = Option<Arc<Task>>;

/// Lays a child into the cradle. Nothing in here waits.
pub(crate) fn lay(
    shared: &Arc<Shared>,
    cradle: &Cradle,
    place: &Place,
    agent: Arc<dyn Agent>,
    send: Send,
    id: TaskId,
) -> Result<oneshot::Receiver<Result<Born, Fault>>, Fault> {
    let (start, runs_ahead) =
        Start::new(shared, place, &agent, send, Name { id, key: None, alias: None, is_child: true })?;
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
    cradle.0.lock().push(Newborn { id, batch, task, reserved, turn, answer });
    Ok(told)
}

impl Newborn {
    fn bytes(&self) -> usize {
        let commit = &self.batch.commit;
        let rows = commit.appends.iter().map(|append| append.payload.len()).sum::<usize>();
        rows + commit.blobs.iter().map(|blob| blob.bytes.len()).sum::<usize>()
    }

    pub(crate) fn commit(&self) -> Commit {
        self.batch.commit.clone()
    }

    /// Takes the children out that this conflict is about, and tells their parent: one that is there, or one that cannot be
    /// paid for. Answers whether there was any.
    pub(crate) fn sort_out(all: &mut Vec<Newborn>, met: &Conflict) -> bool {
        let about = |child: &Newborn| match met {
            Conflict::Seq(task, _) | Conflict::Epoch(task, _) => (*task == child.id).then_some(Ok(None)),
            Conflict::Record(..) | Conflict::Funds(..) | Conflict::Entry(_) => {
                child.reserved.as_ref().and_then(|reserved| reserved.refused(met)).map(Err)
            }
            Conflict::Key(_) | Conflict::Alias(_) => None,
        };
        let found = all.iter().enumerate().find_map(|(at, child)| about(child).map(|told| (at, told)));
        let Some((at, told)) = found else { return false };
        // Its parent may be gone.
        let _ = all.remove(at).answer.send(told);
        true
    }

    /// The commit has happened: the turn runs, unless it is over or `stops`.
    pub(crate) async fn begin(self, shared: &Arc<Shared>, stops: bool) {
        let Newborn { id, batch, task, turn, answer, .. } = self;
        shared.count(&batch.events);
        let task = Arc::new(task);
        let Some(Begins { live, agent, turn, whole, handle, running, ahead }) = turn else {
            let _ = answer.send(Ok(Some(task)));
            return;
        };
        shared.alarm.set(&batch.commit.timers);
        live.opened(task, batch.events, &shared.limits).await;
        Run { shared: shared.clone(), live, agent, turn, attempt: 1, whole, handle, running }.spawn(ahead);
        let _ = answer.send(Ok(None));
        // A parent that is to end has looked for children to stop before this one was there.
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
