//! The store port: one conditional, atomic commit; a few reads; nothing else.
//!
//! A store is right when it passes the conformance suite in `stores::conformance`.
//!
//! * Every append is conditional on the log's length (`expected`). On `Conflict::Seq` the writer reads what is new,
//!   applies again and retries.
//! * Turn events carry the holder's epoch and meet `Conflict::Epoch` once a higher one has been seen for that task: the
//!   holder stops. Outside events (a message, a cancel request) carry none and may come from any process.
//! * Guards are looked at first, in order, then appends in order; of one append the epoch before the length, so that a
//!   holder that has lost its turn learns just that. What a commit's own earlier appends make of a task counts.
//! * A commit is atomic over all it holds. Many commits form one group and one fsync; a refused one never harms the
//!   others of its group.
//! * When `commit` answers `Done`, a power cut does not take it back (unless the operator chose relaxed durability).
//! * `Unknown` means just that: the writer reads the log back before it does anything else. A row is recognised by its
//!   payload, which holds ids nobody else draws.

use std::sync::Arc;

use bytes::Bytes;

use super::Future;
use crate::{AccessKey, ContextId, Epoch, Event, PushChange, PushRow, PushState, Seq, State, TaskId, Time, View};

pub trait Store: Send + Sync + 'static {
    /// Commits, in a group with others. The future may be dropped; the commit happens all the same.
    fn commit(&self, commit: Commit) -> Future<'static, Outcome>;

    /// A task's head, or `None` if there is no such task.
    fn head(&self, task: TaskId) -> Future<'_, Result<Option<Head>, Trouble>>;

    /// Events after `after`, oldest first, whole rows until `bytes` is passed. Empty at the end.
    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Future<'_, Result<Vec<Event>, Trouble>>;

    /// The whole log of each task, in the order asked. A task that is not there has an empty log.
    fn logs(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Vec<Event>>, Trouble>>;

    /// A page of a list: newest status first.
    fn list(&self, query: ListQuery) -> Future<'_, Result<ListPage, Trouble>>;

    /// What an idempotency key was used for, if it is known and not older than `not_before`. A use for a task that has
    /// been removed since counts for nothing.
    fn key(&self, key: [u8; 32], not_before: Time) -> Future<'_, Result<Option<KeyUse>, Trouble>>;

    /// The newest task under an alias.
    fn alias(&self, key: [u8; 32]) -> Future<'_, Result<Option<TaskId>, Trouble>>;

    /// Every key there ever was, in order of its id.
    fn access_keys(&self) -> Future<'_, Result<Vec<AccessKey>, Trouble>>;

    /// The push configs of a task, oldest first.
    fn push(&self, task: TaskId) -> Future<'_, Result<Vec<PushRow>, Trouble>>;

    /// Push configs in this state, in order of (task, id), after `after`.
    fn pushes(
        &self,
        state: PushState,
        after: Option<(TaskId, Arc<str>)>,
        limit: usize,
    ) -> Future<'_, Result<Vec<PushRow>, Trouble>>;

    /// The bytes of a blob of this tenant.
    fn blob(&self, tenant: Arc<str>, hash: [u8; 32]) -> Future<'_, Result<Option<Bytes>, Trouble>>;

    /// Tasks with an open turn, and the epoch that holds it. Ascending, after `after`.
    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, Trouble>>;

    /// Timers due at or before `now`, earliest first.
    fn due(&self, now: Time, limit: usize) -> Future<'_, Result<Vec<Timer>, Trouble>>;

    /// When the next timer is due.
    fn next_due(&self) -> Future<'_, Result<Option<Time>, Trouble>>;

    /// Removes settled tasks whose status is older than `before`, with their rows, blobs and counts; and idempotency keys
    /// older than `keys_before`. At most `limit` tasks; answers how many went.
    fn purge(&self, before: Time, keys_before: Time, limit: usize) -> Future<'_, Result<u64, Trouble>>;

    /// Removes one task, settled or not. Answers whether it was there.
    fn remove(&self, task: TaskId) -> Future<'_, Result<bool, Trouble>>;

    /// This process's epoch: higher than that of any process that held the store before.
    fn epoch(&self) -> Epoch;

    /// A consistent copy of everything into a new file.
    fn backup(&self, to: std::path::PathBuf) -> Future<'_, Result<(), Trouble>>;

    /// Facts for operators.
    fn health(&self) -> Future<'_, Result<Health, Trouble>>;

    /// Finishes what is queued, writes everything out and lets go of the files.
    fn close(&self) -> Future<'_, ()>;
}

/// One atomic change.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    pub appends: Vec<Append>,
    pub guards: Vec<Guard>,
    pub keys: Vec<KeyUse>,
    pub aliases: Vec<AliasWrite>,
    pub timers: Vec<TimerChange>,
    /// Keys made or changed, each as it is from now on.
    pub access: Vec<AccessKey>,
    pub blobs: Vec<BlobWrite>,
    /// Push configs and their progress; gone with their task.
    pub push: Vec<PushChange>,
}

#[derive(Clone, Debug)]
pub struct Append {
    pub task: TaskId,
    /// The log's length before this append; 0 opens the task.
    pub expected: Seq,
    /// The holder's epoch, for turn events; it takes or keeps the hold. `None` for outside events.
    pub epoch: Option<Epoch>,
    /// How many events `payload` holds, at least one.
    pub count: u32,
    /// [`crate::stored`] bytes.
    pub payload: Bytes,
    /// The facts fixed at birth, with the first append only.
    pub open: Option<Opening>,
    /// The task's row after this append, when it differs from before. Absent for chunks.
    pub row: Option<Row>,
}

impl Append {
    pub fn last(&self) -> Seq {
        Seq(self.expected.0 + u64::from(self.count))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    pub context: ContextId,
    /// The caller knows this context to be new: made by us in this very call.
    pub fresh_context: bool,
    pub tenant: Arc<str>,
    pub agent: Arc<str>,
    pub views: Vec<View>,
}

/// What lists and recovery look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub state: State,
    pub status_at: Time,
    /// Whether lists show it. Undecided exchanges and direct replies are in none.
    pub listed: bool,
    /// A turn is open: after a crash somebody must see to it.
    pub running: bool,
    /// Nothing changes any more; may be purged by age.
    pub settled: bool,
}

/// What must hold for the commit to happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The idempotency key is unused, or its use is older than `not_before`.
    KeyFree { key: [u8; 32], not_before: Time },
    /// The alias names this task, or none.
    AliasIs { key: [u8; 32], task: Option<TaskId> },
}

/// From now on the alias names this task, until the task is removed. Comes with an append to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AliasWrite {
    pub key: [u8; 32],
    pub task: TaskId,
}

/// An idempotency key and what it was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyUse {
    pub key: [u8; 32],
    pub body: [u8; 32],
    pub task: TaskId,
    /// The log's length right after the message of that use.
    pub seq: Seq,
    pub at: Time,
}

/// A large part; comes with an append to its task.
#[derive(Clone, Debug)]
pub struct BlobWrite {
    pub tenant: Arc<str>,
    pub task: TaskId,
    pub hash: [u8; 32],
    pub bytes: Bytes,
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
}

impl TimerKind {
    pub fn code(self) -> u8 {
        match self {
            TimerKind::TurnTimeout => 1,
        }
    }
    pub fn from_code(code: u8) -> Option<TimerKind> {
        [TimerKind::TurnTimeout].into_iter().find(|k| k.code() == code)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerChange {
    /// Sets it, or moves it. A timer of a task that is not there is not set.
    Set(Timer),
    Clear(TaskId, TimerKind),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Conflict(Conflict),
    /// Nothing was changed, and nothing can be right now.
    Refused(Trouble),
    /// It may have happened or not; read the log back.
    Unknown(Trouble),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The log is longer (or shorter) than expected; here is its length now.
    Seq(TaskId, Seq),
    /// A later holder has taken the turn.
    Epoch(TaskId, Epoch),
    /// The idempotency key is in use, for this.
    Key(KeyUse),
    /// The alias names another task, or none.
    Alias(Option<TaskId>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("the disk is full")]
    Full,
    #[error("the data folder is read-only")]
    ReadOnly,
    #[error("too much work is waiting for the store")]
    Busy,
    #[error("the store is closed")]
    Closed,
    #[error("the store failed: {0}")]
    Broken(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub context: ContextId,
    pub tenant: Arc<str>,
    pub agent: Arc<str>,
    pub seq: Seq,
    pub epoch: Epoch,
    pub row: Row,
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

/// Facts for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    pub kind: &'static str,
    pub tasks: u64,
    pub running: u64,
    pub events_rows: u64,
    pub blobs: u64,
    pub blob_bytes: u64,
    pub timers: u64,
    pub keys: u64,
    pub aliases: u64,
    /// Push configs that are active, and those given up.
    pub push_active: u64,
    pub push_dead: u64,
    pub file_bytes: u64,
    pub wal_bytes: u64,
    pub schema: u32,
    pub epoch: u64,
    /// Tasks by state code.
    pub states: Vec<(State, u64)>,
    /// `None` when writing works.
    pub trouble: Option<Trouble>,
}
