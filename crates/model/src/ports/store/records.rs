//! Records of products, and access keys.

use std::sync::Arc;

use super::StoreError;
use crate::ports::Future;
use crate::{AccessKey, Record, RecordPage, RecordQuery};

/// Reads of records and of access keys. A [`Commit`](super::Commit) writes them.
pub trait RecordStore: Send + Sync + 'static {
    /// A record, if it is there.
    fn record(&self, kind: Arc<str>, key: Arc<str>) -> Future<'_, Result<Option<Record>, StoreError>>;

    /// A page of a list of records: highest rank first, then highest key.
    fn records(&self, query: RecordQuery) -> Future<'_, Result<RecordPage, StoreError>>;

    /// The number of records whose kind begins with `prefix`; it counts up to `most`.
    fn count_records(&self, prefix: Arc<str>, most: u64) -> Future<'_, Result<u64, StoreError>>;

    /// Every access key that was ever made, in order of its id.
    fn access_keys(&self) -> Future<'_, Result<Vec<AccessKey>, StoreError>>;
}
