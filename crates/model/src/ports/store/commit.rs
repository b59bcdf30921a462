//! One atomic change of a store, and its outcome.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use super::{Timer, TimerKind};
use crate::{AccessKey, ContextId, Entry, Epoch, PushChange, RecordChange, Seq, State, TaskId, TextChange, Time, View};

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
    /// Records of products, in this order.
    pub records: Vec<RecordChange>,
    /// Money and stock, in this order.
    pub entries: Vec<Entry>,
    /// Texts for search, in this order.
    pub texts: Vec<TextChange>,
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
    pub row: Option<IndexRow>,
}

impl Append {
    pub fn last(&self) -> Seq {
        Seq(self.expected.0 + u64::from(self.count))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    pub context: ContextId,
    /// The context is new: it was created in this call.
    pub fresh_context: bool,
    pub tenant: Arc<str>,
    pub agent: Arc<str>,
    pub views: Vec<View>,
}

/// The facts of a task that lists and recovery read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexRow {
    pub state: State,
    pub status_at: Time,
    /// Whether lists show it. Undecided exchanges and direct replies are in none.
    pub listed: bool,
    /// A turn is open: recovery continues or ends it after a crash.
    pub running: bool,
    /// Nothing changes any more; may be purged by age.
    pub settled: bool,
}

/// A condition of the commit.
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

/// Large content of a task, kept as long as the task. Blobs of a task that does not exist are not kept.
#[derive(Clone, Debug)]
pub struct BlobWrite {
    pub tenant: Arc<str>,
    pub task: TaskId,
    pub hash: [u8; 32],
    pub bytes: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerChange {
    /// Sets it, or moves it. A timer of a task that does not exist is not set.
    Set(Timer),
    Clear(TaskId, TimerKind),
    /// Moves `timer`, or clears it, if it is still due when it was: a timer that was set again since stays.
    Replace {
        timer: Timer,
        to: Option<Time>,
    },
}

impl TimerChange {
    /// The timer that it changes.
    pub fn about(&self) -> (TaskId, TimerKind) {
        match self {
            TimerChange::Set(timer) | TimerChange::Replace { timer, .. } => (timer.task, timer.kind),
            TimerChange::Clear(task, kind) => (*task, *kind),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Conflict(Conflict),
    /// Nothing was changed, and nothing can be right now.
    Refused(StoreError),
    /// The commit may have happened or not: read the log back.
    Unknown(StoreError),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The log is longer or shorter than expected; this is its length now.
    Seq(TaskId, Seq),
    /// A later holder has taken the turn.
    Epoch(TaskId, Epoch),
    /// The idempotency key is in use, for this.
    Key(KeyUse),
    /// The alias names another task, or none.
    Alias(Option<TaskId>),
    /// The record has another version than expected: this one, zero if it does not exist.
    Record(Arc<str>, Arc<str>, u64),
    /// The account would fall below its floor; this is its balance.
    Funds(Arc<str>, i64),
    /// An entry of this id is in the journal.
    Entry(Uuid),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("the disk is full")]
    Full,
    #[error("the data folder is read-only")]
    ReadOnly,
    #[error("too much work is waiting for the store")]
    Busy,
    /// It will mend: a restart, a failover, a cut connection.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    #[error("the store is closed")]
    Closed,
    #[error("the store failed: {0}")]
    Broken(String),
}
