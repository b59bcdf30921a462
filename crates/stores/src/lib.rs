//! Stores of tasks: SQLite, PostgreSQL and memory.
//!
//! [`sqlite::SqliteStore`] is the default: one file, group commit, crash-proof. [`postgres::PostgresStore`] is the same for
//! several processes at once. [`memory::MemoryStore`] keeps its data as long as the process lives, for tests. All
//! implement `model::ports::store::Store`, and a store is right when it passes [`conformance`]: the suite is the
//! contract, the implementations only differ in where the bytes go. [`migrate`] copies everything from the first to the
//! second. [`folder`] restricts a data folder to its owner and to one process. The suite, the store in memory and
//! [`crashable`] are there with the feature `testing`, which no product is built with.
//!
//! `commit` is the only way to write: appends conditional on the log's length and, for events of a turn, on the holder's
//! epoch; guards; idempotency keys; timers; blobs; push configs; records and journal entries. The outcome is done,
//! conflict, refused (nothing happened) or unknown (to be read back once it is decided; a row is recognised by its
//! payload, which contains drawn ids).
//!
//! Parts above 64 KiB are stored beside the log, by tenant and hash. Lists are keyset walks over one row per view, with
//! counters in the same commit. No view contains every task: operators walk the tasks in order of their ids.
//!
//! Full-text search uses the words of `model::text` in every store: the index of FTS5 or `tsvector` contains these
//! words, each behind the mark of its collection, and prefixes of up to twelve letters as words of their own. So all
//! stores find the same, and a search costs as much as its rarest word finds.

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
#[cfg(any(test, feature = "testing"))]
pub mod crashable;
pub mod folder;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
pub mod migrate;
pub mod postgres;
mod rules;
mod shape;
pub mod sqlite;
mod words;
