//! Tasks found by other facts than their ids: lists, open turns, timers, push configs.

use std::sync::Arc;

use super::StoreError;
use crate::ports::Future;
use crate::{ContextId, Epoch, PushRow, PushState, State, TaskId, Time, View};

/// Lists of tasks, and of their open turns, timers and push configs.
pub trait TaskLists: Send + Sync + 'static {
    /// A page of a list: newest status first.
    fn list(&self, query: ListQuery) -> Future<'_, Result<ListPage, StoreError>>;

    /// Every task, in any list or in none, newest id first: for operators. It looks at a bounded number of rows.
    fn tasks(&self, query: TaskQuery) -> Future<'_, Result<TaskPage, StoreError>>;

    /// Tasks with an open turn, and the epoch that holds it. Ascending, after `after`.
    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>>;

    /// The push configs of a task, oldest first.
    fn push(&self, task: TaskId) -> Future<'_, Result<Vec<PushRow>, StoreError>>;

    /// Push configs in this state, in order of (task, id), after `after`.
    fn pushes(
        &self,
        state: PushState,
        after: Option<(TaskId, Arc<str>)>,
        limit: usize,
    ) -> Future<'_, Result<Vec<PushRow>, StoreError>>;

    /// Timers due at or before `now`, earliest first. In a shared store without those that another living process will
    /// fire: the holder of the task's turn comes first, and any process may fire the timer once the holder is late.
    fn due(&self, now: Time, limit: usize) -> Future<'_, Result<Vec<Timer>, StoreError>>;

    /// The timers of these tasks, in no order.
    fn timers(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Timer>, StoreError>>;

    /// When the next timer is due.
    fn next_due(&self) -> Future<'_, Result<Option<Time>, StoreError>>;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListQuery {
    /// One view, or several whose sum is read. No task may be in two of them: it would be listed once and counted twice.
    pub views: Vec<View>,
    pub context: Option<ContextId>,
    pub state: Option<State>,
    /// Status time at or after.
    pub since: Option<Time>,
    /// Where the last page ended.
    pub after: Option<Cursor>,
    pub limit: u32,
    /// Count all that match, whatever the page.
    pub count: bool,
}

/// A place in a list: (status time, number of the task), both descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub at: Time,
    pub no: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    pub tasks: Vec<(TaskId, Cursor)>,
    /// Whether more follow.
    pub more: bool,
    pub total: Option<u64>,
}

/// One look at all tasks of a store.
#[derive(Clone, Debug, Default)]
pub struct TaskQuery {
    /// Only tasks with a lower id; the `next` of the look before.
    pub before: Option<TaskId>,
    pub tenant: Option<Arc<str>>,
    pub agent: Option<Arc<str>>,
    pub state: Option<State>,
    /// Only tasks that an alias names.
    pub aliased: bool,
    /// The number of rows to look at, wanted or not.
    pub rows: u32,
}

/// The tasks that one look found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskPage {
    /// The tasks that match, newest id first.
    pub tasks: Vec<TaskId>,
    /// Where the next look begins, if there may be more.
    pub next: Option<TaskId>,
}

/// A durable timer. One of each kind per task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timer {
    pub task: TaskId,
    pub kind: TimerKind,
    pub due: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimerKind {
    /// The turn has run for too long.
    TurnTimeout,
    /// A deadline of the task's product.
    Deadline,
}

impl TimerKind {
    pub fn code(self) -> u8 {
        match self {
            TimerKind::TurnTimeout => 1,
            TimerKind::Deadline => 2,
        }
    }
    pub fn from_code(code: u8) -> Option<TimerKind> {
        [TimerKind::TurnTimeout, TimerKind::Deadline].into_iter().find(|k| k.code() == code)
    }
}
