//! The store port: one conditional, atomic commit; a few reads; nothing else.
//!
//! A store is right when it passes the conformance suite in `stores::conformance`.
//!
//! * Every append is conditional on the log's length (`expected`). On `Conflict::Seq` the writer reads what is new,
//!   applies again and retries.
//! * Turn events carry the holder's epoch and meet `Conflict::Epoch` once a higher one has been seen for that task: the
//!   holder stops. Outside events (a message, a cancel request) carry none and may come from any process.
//! * Guards are looked at first, in order, then appends in order; of one append the epoch before the length, so that a
//!   holder that has lost its turn learns just that; then records, then entries. What a commit's own earlier changes make of
//!   a task, a record or an account counts.
//! * A commit is atomic over all it holds. Many commits form one group and one fsync; a refused one never harms the
//!   others of its group.
//! * When `commit` answers `Done`, a power cut does not take it back (unless the operator chose relaxed durability).
//! * `Unknown` means just that: the writer reads the log back before it does anything else. A row is recognised by its
//!   payload, which holds ids nobody else draws.
//!
//! A store may be shared by several processes (`is_shared`). Then others write to the same logs, and three things tell
//! them apart: each has a lease that it renews by itself while it can reach the store, every turn has a holder (whoever
//! appended last with an epoch), and every push config a deliverer (whoever put or adopted it last). What a process that
//! has left or lost its lease held is anybody's: `orphans`, `adopt`. Nothing depends on who thinks whom dead: a turn that
//! two believe to hold is decided by the turn's epoch, and progress of webhooks by the config's. All times are the store's.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use uuid::Uuid;

use super::Future;
use crate::{
    AccessKey, Balance, ContextId, Entry, Epoch, Event, Line, PushChange, PushRow, PushStanding, PushState, Record,
    RecordChange, RecordPage, RecordQuery, Seq, State, TaskId, TextChange, TextPage, TextQuery, Time, View,
};

pub trait Store: Send + Sync + 'static {
    /// Commits, in a group with others. The future may be dropped; the commit happens all the same.
    fn commit(&self, commit: Commit) -> Future<'static, Outcome>;

    /// A task's head, or `None` if there is no such task.
    fn head(&self, task: TaskId) -> Future<'_, Result<Option<Head>, Trouble>>;

    /// Events after `after`, oldest first, whole rows until `bytes` is passed. Empty at the end.
    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Future<'_, Result<Vec<Event>, Trouble>>;

    /// The beginning of a task's log, as `events` has it, for whoever sees the task this way. Of one that is not seen nothing is
    /// read but its row, so that it costs what one costs that is not there, however long its log is.
    fn beginning(&self, task: TaskId, sight: Seen, bytes: usize) -> Future<'_, Result<Vec<Event>, Trouble>>;

    /// The whole log of each task, in the order asked. A task that is not there has an empty log.
    fn logs(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Vec<Event>>, Trouble>>;

    /// A page of a list: newest status first.
    fn list(&self, query: ListQuery) -> Future<'_, Result<ListPage, Trouble>>;

    /// What an idempotency key was used for, if it is known and not older than `not_before`. A use for a task that has
    /// been removed since counts for nothing.
    fn key(&self, key: [u8; 32], not_before: Time) -> Future<'_, Result<Option<KeyUse>, Trouble>>;

    /// Every task, in any list or in none, newest id first: for operators. It looks at a bounded number of rows.
    fn tasks(&self, query: TaskQuery) -> Future<'_, Result<TaskPage, Trouble>>;

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

    /// A record, if it is there.
    fn record(&self, kind: Arc<str>, key: Arc<str>) -> Future<'_, Result<Option<Record>, Trouble>>;

    /// A page of a list of records: highest rank first, then highest key.
    fn records(&self, query: RecordQuery) -> Future<'_, Result<RecordPage, Trouble>>;

    /// What is found on a shelf, as [`crate::text`] says it.
    fn search(&self, query: TextQuery) -> Future<'_, Result<TextPage, Trouble>>;

    /// What is on these accounts, in the order asked; zero on one nobody has posted to.
    fn balances(&self, accounts: Vec<Arc<str>>) -> Future<'_, Result<Vec<i64>, Trouble>>;

    /// The lines of an account before place `before`, newest first.
    fn statement(&self, account: Arc<str>, before: Option<u64>, limit: usize)
    -> Future<'_, Result<Vec<Line>, Trouble>>;

    /// Accounts and what is on them, in order of their names, after `after`.
    fn accounts(&self, after: Option<Arc<str>>, limit: usize) -> Future<'_, Result<Vec<Balance>, Trouble>>;

    /// The journal from its beginning, after place `after`. Floors are not kept.
    fn journal(&self, after: u64, limit: usize) -> Future<'_, Result<Vec<(u64, Entry)>, Trouble>>;

    /// Tasks with an open turn, and the epoch that holds it. Ascending, after `after`.
    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, Trouble>>;

    /// Of those, the ones whose holder is gone: whoever asks may take them over. In a store of one process all of them, and
    /// it asks before it holds any.
    fn orphans(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, Trouble>> {
        self.unfinished(after, limit)
    }

    /// Active push configs that this process delivers, in order of (task, id), after `after`: those it put or adopted, and
    /// those whose deliverer is gone, which from now on are its own, with a higher epoch and the newest progress. Progress
    /// of a config that another process has put or adopted since changes nothing.
    fn adopt(&self, after: Option<(TaskId, Arc<str>)>, limit: usize) -> Future<'_, Result<Vec<PushRow>, Trouble>> {
        self.pushes(PushState::Active, after, limit)
    }

    /// How far these configs are and which process may move them, in the order asked; `None` for what is not there.
    fn standings(&self, configs: Vec<(TaskId, Arc<str>)>) -> Future<'_, Result<Vec<Option<PushStanding>>, Trouble>> {
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

    /// Which lease this process works under, while it holds: a lease that ran out and was renewed later is another one.
    /// `None` from the moment at which other processes may take over what this one has. A store of one process has one
    /// lease for ever.
    fn tenure(&self) -> Option<u64> {
        Some(0)
    }

    /// Tasks with an open turn that this process holds, and the epoch of each. Ascending, after `after`. Only a shared store
    /// answers any: in a store of one process every turn is found at the start.
    fn held(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, Trouble>> {
        let _ = (after, limit);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The lengths of these logs, in the order asked; zero for what is not there.
    fn lengths(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Seq>, Trouble>> {
        Box::pin(async move {
            let mut lengths = Vec::with_capacity(tasks.len());
            for task in tasks {
                lengths.push(self.head(task).await?.map_or(Seq::ZERO, |head| head.seq));
            }
            Ok(lengths)
        })
    }

    /// Timers due at or before `now`, earliest first. In a shared store without those that another living process will
    /// fire: the holder of the task's turn comes first, and only when it is late it is anybody's.
    fn due(&self, now: Time, limit: usize) -> Future<'_, Result<Vec<Timer>, Trouble>>;

    /// The timers of these tasks, in no order.
    fn timers(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Timer>, Trouble>>;

    /// When the next timer is due.
    fn next_due(&self) -> Future<'_, Result<Option<Time>, Trouble>>;

    /// Removes settled tasks whose status is older than `before`, with their rows, blobs and counts; and idempotency keys
    /// older than `keys_before`. At most `limit` tasks; answers how many went.
    fn purge(&self, before: Time, keys_before: Time, limit: usize) -> Future<'_, Result<u64, Trouble>>;

    /// Removes one task, settled or not. Answers whether it was there.
    fn remove(&self, task: TaskId) -> Future<'_, Result<bool, Trouble>>;

    /// Resolves once every commit that was answered [`Outcome::Unknown`] has either happened or cannot happen any more: only
    /// then does a read that does not find it prove that it did not happen. An error when that is not known in time; asking
    /// again is allowed.
    fn decided(&self) -> Future<'_, Result<(), Trouble>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Reads and commits are answered within this time, if only with trouble. `None` where nothing can keep the store from
    /// answering.
    fn answers_within(&self) -> Option<std::time::Duration> {
        None
    }

    /// The trouble that is known to keep the store from serving now. Asks nothing, so that it answers at once.
    fn trouble(&self) -> Option<Trouble> {
        None
    }

    /// This process's epoch: higher than that of any process that held the store before.
    fn epoch(&self) -> Epoch;

    /// The epoch of a hold that begins with the `starts`-th start of a turn in its task's log. A store of one process has
    /// one for all; in a shared one a hold is told apart by the log alone, whichever process has it.
    fn hold(&self, starts: u32) -> Epoch {
        let _ = starts;
        self.epoch()
    }

    /// Whether other processes may write to it at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// What other processes did, as it happens; may be taken once. Never ends.
    fn hints(&self) -> BoxStream<'static, Hint> {
        futures_util::stream::pending().boxed()
    }

    /// How often things were changed that processes remember, by any process. What hints told of is in it as well: whoever
    /// finds a number higher than expected has missed something.
    fn versions(&self) -> Future<'_, Result<Versions, Trouble>> {
        Box::pin(std::future::ready(Ok(Versions::default())))
    }

    /// What this process says of itself to the operators of the others: a JSON object.
    fn introduce(&self, about: String) {
        drop(about);
    }

    /// The processes that share the store, and those that did lately. None in a store of one process.
    fn replicas(&self) -> Future<'_, Result<Vec<ReplicaRow>, Trouble>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// How far the store's clock is ahead of this machine's, in milliseconds.
    fn ahead_ms(&self) -> i64 {
        0
    }

    /// A consistent copy of everything into a new file.
    fn backup(&self, to: std::path::PathBuf) -> Future<'_, Result<(), Trouble>>;

    /// Facts for operators.
    fn health(&self) -> Future<'_, Result<Health, Trouble>>;

    /// Finishes what is queued, writes everything out and lets go of the files.
    fn close(&self) -> Future<'_, ()>;
}

/// What another process did to a shared store. Only a hint: it may come late, twice or not at all, and whoever acts on it
/// reads the store first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// A log that was there before has grown to this length. Of a new one nobody is told.
    Grown(TaskId, Seq),
    /// Push configs of the task were put or removed.
    Push(TaskId),
    /// The task was removed.
    Removed(TaskId),
    /// Access keys were made or changed.
    Access,
    /// Hints were lost: whatever is followed is read again.
    Missed,
    /// A process has left or died: there may be orphans.
    Gone,
    /// This process could not renew its lease in time: others may have taken what it held.
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
    /// How long it may be silent; `None` of a release that did not say.
    pub lease_ms: Option<u64>,
    /// As it introduced itself; `None` of an operator's command.
    pub about: Option<String>,
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
    /// How many rows are looked at, whether they are wanted or not.
    pub rows: u32,
}

/// The tasks that one look found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskPage {
    /// Those that are wanted, newest id first.
    pub tasks: Vec<TaskId>,
    /// Where the next look begins, if there may be more.
    pub next: Option<TaskId>,
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
    /// Records of products, in this order.
    pub records: Vec<RecordChange>,
    /// Money and stock, in this order.
    pub entries: Vec<Entry>,
    /// What is found by its words, in this order.
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

/// Large content of a task, kept for as long as it is. Of a task that is not there nothing is kept.
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
    /// Somebody had to do something by then, as the task's product knows.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerChange {
    /// Sets it, or moves it. A timer of a task that is not there is not set.
    Set(Timer),
    Clear(TaskId, TimerKind),
    /// Moves `timer`, or clears it, if it is still due when it was: one that was set again since is another's and stays.
    Replace {
        timer: Timer,
        to: Option<Time>,
    },
}

impl TimerChange {
    /// Which timer it is about.
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
    /// The record is not as expected; here is its version now, zero if it is not there.
    Record(Arc<str>, Arc<str>, u64),
    /// There is too little on the account; here is what is on it.
    Funds(Arc<str>, i64),
    /// An entry of this id is in the journal.
    Entry(Uuid),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
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

/// Which tasks somebody sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Those in one of these views.
    pub views: Vec<View>,
    /// Also what lists do not show.
    pub unlisted: bool,
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
    pub records: u64,
    /// Entries in the journal.
    pub entries: u64,
    pub file_bytes: u64,
    pub wal_bytes: u64,
    pub schema: u32,
    pub epoch: u64,
    /// Tasks by state code.
    pub states: Vec<(State, u64)>,
    /// `None` when writing works.
    pub trouble: Option<Trouble>,
    /// What was found missing at a start, until an operator has seen to it.
    pub loss: Option<Loss>,
}

/// Committed pages of a write-ahead log that were not there any more at a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    pub pages: u64,
    /// Of so many.
    pub of: u64,
    /// When that was found.
    pub at: Time,
}
