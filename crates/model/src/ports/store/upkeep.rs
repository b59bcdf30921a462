//! Upkeep of a store: removal, backup, health, closing.

use std::path::PathBuf;
use std::time::Duration;

use super::StoreError;
use crate::ports::Future;
use crate::{State, TaskId, Time};

/// Removal of tasks, and the store as operators see it.
pub trait Upkeep: Send + Sync + 'static {
    /// Removes settled tasks whose status is older than `before`, with their rows, blobs and counts; and idempotency keys
    /// older than `keys_before`. At most `limit` tasks; answers how many it removed.
    fn purge(&self, before: Time, keys_before: Time, limit: usize) -> Future<'_, Result<u64, StoreError>>;

    /// Removes one task, settled or not. Answers whether it existed.
    fn remove(&self, task: TaskId) -> Future<'_, Result<bool, StoreError>>;

    /// Reads and commits are answered within this time, if only with trouble. `None` where nothing can keep the store from
    /// answering.
    fn answers_within(&self) -> Option<Duration> {
        None
    }

    /// The trouble that is known to keep the store from serving now. Answers from memory, at once.
    fn trouble(&self) -> Option<StoreError> {
        None
    }

    /// A consistent copy of everything into a new file.
    fn backup(&self, to: PathBuf) -> Future<'_, Result<(), StoreError>>;

    /// Facts for operators.
    fn health(&self) -> Future<'_, Result<Health, StoreError>>;

    /// Finishes all queued work, writes everything out and releases the files.
    fn close(&self) -> Future<'_, ()>;
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
    pub trouble: Option<StoreError>,
    /// The loss that a start found, until an operator has acknowledged it.
    pub loss: Option<Loss>,
}

/// Committed pages of a write-ahead log that were missing at a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    pub pages: u64,
    /// The number of pages that should be there.
    pub of: u64,
    /// When the start found it.
    pub at: Time,
}
