//! Logs of tasks: the commit that writes them, and reads of a single task.

use std::sync::Arc;

use bytes::Bytes;

use super::{Commit, IndexRow, KeyUse, Outcome, StoreError};
use crate::ports::Future;
use crate::{ContextId, Epoch, Event, Seq, TaskId, Time, View};

/// Commits, and reads of a task's log and of what was written with it.
pub trait TaskLog: Send + Sync + 'static {
    /// Commits, in a group with others. The commit happens even if the future is dropped.
    fn commit(&self, commit: Commit) -> Future<'static, Outcome>;

    /// Resolves once every commit that was answered [`Outcome::Unknown`] has either happened or cannot happen any more: only
    /// then does a read that does not find it prove that it did not happen. An error when that is not known in time; the
    /// call may be repeated.
    fn decided(&self) -> Future<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// A task's head, or `None` if there is no such task.
    fn head(&self, task: TaskId) -> Future<'_, Result<Option<LogHead>, StoreError>>;

    /// Events after `after`, oldest first, whole rows until `bytes` is passed. Empty at the end.
    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>>;

    /// The beginning of a task's log, as `events` has it, if `sight` shows the task. Of a task that it does not show only the
    /// row is read, so that it costs the same as a task that does not exist, however long its log is.
    fn beginning(&self, task: TaskId, sight: VisibleTasks, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>>;

    /// The whole log of each task, in the order asked. The log of a task that does not exist is empty.
    fn logs(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Vec<Event>>, StoreError>>;

    /// The lengths of these logs, in the order asked; zero for a task that does not exist.
    fn lengths(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Seq>, StoreError>> {
        Box::pin(async move {
            let mut lengths = Vec::with_capacity(tasks.len());
            for task in tasks {
                lengths.push(self.head(task).await?.map_or(Seq::ZERO, |head| head.seq));
            }
            Ok(lengths)
        })
    }

    /// The use of an idempotency key, if it is known and not older than `not_before`. Uses for tasks that have been removed
    /// since do not count.
    fn key(&self, key: [u8; 32], not_before: Time) -> Future<'_, Result<Option<KeyUse>, StoreError>>;

    /// The newest task under an alias.
    fn alias(&self, key: [u8; 32]) -> Future<'_, Result<Option<TaskId>, StoreError>>;

    /// The bytes of a blob of this tenant.
    fn blob(&self, tenant: Arc<str>, hash: [u8; 32]) -> Future<'_, Result<Option<Bytes>, StoreError>>;

    /// This process's epoch: higher than that of any process that held the store before.
    fn epoch(&self) -> Epoch;

    /// The epoch of a hold that begins with the `starts`-th start of a turn in its task's log. A store of one process has
    /// one for all holds; in a shared store the log alone tells holds apart, whichever process has them.
    fn hold(&self, starts: u32) -> Epoch {
        let _ = starts;
        self.epoch()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHead {
    pub context: ContextId,
    pub tenant: Arc<str>,
    pub agent: Arc<str>,
    pub seq: Seq,
    pub epoch: Epoch,
    pub row: IndexRow,
}

/// The tasks that a reader may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisibleTasks {
    /// Those in one of these views.
    pub views: Vec<View>,
    /// Also tasks that lists do not show.
    pub unlisted: bool,
}
