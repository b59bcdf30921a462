//! Several processes on one store: leases, takeover, hints.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use super::{StoreError, TaskLists};
use crate::ports::Future;
use crate::{Epoch, PushRow, PushStanding, PushState, Seq, TaskId};

/// The part of a store that processes sharing it need. The defaults are right for a store of one process.
pub trait Replicas: TaskLists {
    /// Whether other processes may write to it at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Number of the lease that this process works under, while it holds: a lease that ran out and was renewed later has
    /// another number. `None` from the moment at which other processes may take over from this one. A store of one process
    /// has one lease for ever.
    fn tenure(&self) -> Option<u64> {
        Some(0)
    }

    /// Of [`TaskLists::unfinished`], the tasks whose holder is gone: the caller may take them over. In a store of one process
    /// all of them, and the process asks before it holds any.
    fn orphans(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        self.unfinished(after, limit)
    }

    /// Tasks with an open turn that this process holds, and the epoch of each. Ascending, after `after`. Only a shared store
    /// answers any: in a store of one process every turn is found at the start.
    fn held(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        let _ = (after, limit);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Active push configs that this process delivers, in order of (task, id), after `after`: those it put or adopted, and
    /// those whose deliverer is gone, which from now on are its own, with a higher epoch and the newest progress. Progress
    /// of a config that another process has put or adopted since changes nothing.
    fn adopt(&self, after: Option<(TaskId, Arc<str>)>, limit: usize) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        self.pushes(PushState::Active, after, limit)
    }

    /// How far these configs are and which process may move them, in the order asked; `None` for one that does not exist.
    fn standings(&self, configs: Vec<(TaskId, Arc<str>)>) -> Future<'_, Result<Vec<Option<PushStanding>>, StoreError>> {
        Box::pin(async move {
            let mut standings = Vec::with_capacity(configs.len());
            for (task, id) in configs {
                let rows = self.push(task).await?;
                standings.push(rows.iter().find(|row| row.id == id).map(|row| PushStanding {
                    edition: row.edition,
                    epoch: row.epoch,
                    next: row.progress.next,
                    ours: true,
                }));
            }
            Ok(standings)
        })
    }

    /// Changes by other processes, as they happen. The stream may be taken once and never ends.
    fn hints(&self) -> BoxStream<'static, Hint> {
        futures_util::stream::pending().boxed()
    }

    /// How often any process changed facts that processes remember, changes with a hint included: a process that finds a
    /// higher number than it expects has missed a change.
    fn versions(&self) -> Future<'_, Result<Versions, StoreError>> {
        Box::pin(std::future::ready(Ok(Versions::default())))
    }

    /// A description of this process for the operators of the others: a JSON object.
    fn introduce(&self, about: String) {
        drop(about);
    }

    /// The processes that share the store, and those that did lately. None in a store of one process.
    fn replicas(&self) -> Future<'_, Result<Vec<ReplicaRow>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The value that all processes agree on under this name: the first one that any of them gave. In a store of one process
    /// that is always its own.
    fn remember<'a>(&'a self, name: &'a str, value: &'a str) -> Future<'a, Result<String, StoreError>> {
        let _ = name;
        Box::pin(std::future::ready(Ok(value.to_owned())))
    }

    /// The value that the processes have agreed on under this name, if any yet.
    fn recall<'a>(&'a self, name: &'a str) -> Future<'a, Result<Option<String>, StoreError>> {
        let _ = name;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// How far the store's clock is ahead of this machine's, in milliseconds.
    fn ahead_ms(&self) -> i64 {
        0
    }
}

/// A change by another process to a shared store. It may come late, twice or not at all: its reader reads the store first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A log that existed before has grown to this length. New logs give no hint.
    Grown(TaskId, Seq),
    /// Push configs of the task were put or removed.
    Push(TaskId),
    /// The task was removed.
    Removed(TaskId),
    /// Access keys were made or changed.
    Access,
    /// Hints were lost: every log that is followed is read again.
    Missed,
    /// A process has left or died: there may be orphans.
    Gone,
    /// This process could not renew its lease in time: others may have taken its turns.
    CutOff,
}

/// Counts of changes, which only grow. A store of one process, whose changes are all its own, counts none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions {
    /// Access keys that were made or changed.
    pub access: u64,
    /// Tasks that were removed.
    pub removed: u64,
}

/// A process that shares a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaRow {
    pub no: u64,
    /// The asking process.
    pub own: bool,
    /// Its lease holds.
    pub alive: bool,
    pub silent_ms: u64,
    /// How long it may be silent; `None` for a release that did not say.
    pub lease_ms: Option<u64>,
    /// Its own description; `None` for an operator's command.
    pub about: Option<String>,
}
