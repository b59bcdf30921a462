//! The store port: one conditional, atomic commit, and reads by topic.
//!
//! [`Store`] is the sum of one trait for each topic: [`TaskLog`] (commits, logs, keys, aliases, blobs), [`TaskLists`]
//! (lists, open turns, timers, push configs), [`RecordStore`], [`Journal`], [`TextSearch`], [`Replicas`] (several processes
//! on one store) and [`Upkeep`] (removal, backup, health). A store implements all of them; code that needs one topic asks
//! for that trait. A store is right when it passes the conformance suite in `stores::conformance`.
//!
//! * Every append is conditional on the log's length (`expected`). On `Conflict::Seq` the writer reads the new events,
//!   applies them and retries.
//! * Turn events carry the holder's epoch. They meet `Conflict::Epoch` once the store has seen a higher one for that task:
//!   the holder stops. Outside events (a message, a cancel request) carry none and may come from any process.
//! * A commit checks its guards in order, then its appends in order, of each append the epoch before the length, so that a
//!   holder that has lost its turn learns just that; then records, then entries. Earlier changes of the same commit count.
//! * A commit is atomic over all its parts. Many commits form one group and one fsync; a refused commit never harms the
//!   others of its group.
//! * When `commit` answers `Done`, a power cut does not take it back (unless the operator chose relaxed durability).
//! * After `Unknown` the writer reads the log back before anything else. A row is recognised by its payload, which holds ids
//!   that no other process draws.
//!
//! Several processes may share a store (`is_shared`). Then other processes write to the same logs. Each process has a lease
//! that it renews while it can reach the store, every turn has a holder (the process that appended last with an epoch), and
//! every push config has a deliverer (the process that put or adopted it last). Any process may take over from one that has
//! left or lost its lease: `orphans`, `adopt`. Correctness does not depend on that judgement: the turn's epoch decides
//! between two processes that both believe they hold a turn, the config's epoch decides for progress of webhooks. All times
//! are the store's.

mod commit;
mod journal;
mod records;
mod replicas;
mod task_lists;
mod task_log;
mod text_search;
mod upkeep;

pub use commit::{
    AliasWrite, Append, BlobWrite, Commit, Conflict, Guard, IndexRow, KeyUse, Opening, Outcome, StoreError, TimerChange,
};
pub use journal::Journal;
pub use records::RecordStore;
pub use replicas::{Hint, ReplicaRow, Replicas, Versions};
pub use task_lists::{Cursor, ListPage, ListQuery, TaskLists, TaskPage, TaskQuery, Timer, TimerKind};
pub use task_log::{LogHead, TaskLog, VisibleTasks};
pub use text_search::TextSearch;
pub use upkeep::{Health, Loss, Upkeep};

/// Everything that a store does. A type with all topics is a store.
pub trait Store: TaskLog + TaskLists + RecordStore + Journal + TextSearch + Replicas + Upkeep {}

impl<S: TaskLog + TaskLists + RecordStore + Journal + TextSearch + Replicas + Upkeep> Store for S {}
