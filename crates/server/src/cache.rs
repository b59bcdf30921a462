//! Settled tasks, encoded. A settled task never changes, so its encoding is good until it is purged; the cache is bounded
//! by bytes and filled by reading, so that a server that only writes keeps nothing.

use std::sync::Arc;

use bytes::Bytes;
use model::{Place, TaskId, Time, View};
use quick_cache::sync;

pub(crate) struct Cache {
    entries: Option<sync::Cache<(TaskId, u16), Arc<Entry>, Weight>>,
    /// A task older than this has been removed, or is about to be.
    retention_ms: i64,
}

struct Entry {
    views: Vec<View>,
    settled_at: Time,
    body: Bytes,
}

#[derive(Clone)]
struct Weight;

impl quick_cache::Weighter<(TaskId, u16), Arc<Entry>> for Weight {
    fn weight(&self, _: &(TaskId, u16), entry: &Arc<Entry>) -> u64 {
        entry.body.len() as u64 + 256
    }
}

impl Cache {
    pub(crate) fn new(bytes: usize, retention_ms: u64) -> Cache {
        let entries = (bytes > 0).then(|| sync::Cache::with_weighter(bytes / 1_024, bytes as u64, Weight));
        Cache { entries, retention_ms: i64::try_from(retention_ms).unwrap_or(i64::MAX) }
    }

    /// The encoding, if it is there and may be seen from this place.
    pub(crate) fn get(&self, task: TaskId, slot: u16, place: &Place) -> Option<Bytes> {
        let entry = self.entries.as_ref()?.get(&(task, slot))?;
        if jiff::Timestamp::now().as_millisecond().saturating_sub(entry.settled_at.0) >= self.retention_ms {
            return None;
        }
        place.reads.iter().any(|view| entry.views.contains(view)).then(|| entry.body.clone())
    }

    pub(crate) fn put(&self, task: &model::Task, slot: u16, body: &Bytes) {
        if let Some(entries) = &self.entries
            && task.core.is_settled()
        {
            entries.insert(
                (task.id, slot),
                Arc::new(Entry { views: task.views.clone(), settled_at: task.status.at, body: body.clone() }),
            );
        }
    }

    /// Anything may have been removed.
    pub(crate) fn clear(&self) {
        if let Some(entries) = &self.entries {
            entries.clear();
        }
    }

    pub(crate) fn forget(&self, task: TaskId) {
        if let Some(entries) = &self.entries {
            for wire in dialects::WIRES.iter().chain(dialects::PRODUCTS) {
                entries.remove(&(task, wire.slot(false)));
            }
        }
    }
}
