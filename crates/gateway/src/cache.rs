//! Encoded settled tasks. A settled task never changes, so its encoding is valid until it is purged. The cache is
//! bounded by bytes and filled by reads, so a server that only writes caches nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use model::{CallScope, TaskId, Time, View};
use quick_cache::sync;

pub struct Cache {
    entries: Option<sync::Cache<(TaskId, u16), Arc<Entry>, Weight>>,
    /// An older task has been removed, or is about to be.
    retention_ms: i64,
    /// Number of removals: an encoding that was read before a removal is not cached after it.
    forgotten: AtomicU64,
    product_slots: Vec<u16>,
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
    pub(crate) fn new(bytes: usize, retention_ms: u64, product_slots: Vec<u16>) -> Cache {
        let entries = (bytes > 0).then(|| sync::Cache::with_weighter(bytes / 1_024, bytes as u64, Weight));
        let retention_ms = i64::try_from(retention_ms).unwrap_or(i64::MAX);
        Cache { entries, retention_ms, forgotten: AtomicU64::new(0), product_slots }
    }

    /// The encoding, if it is cached and visible in this scope.
    pub(crate) fn get(&self, task: TaskId, slot: u16, place: &CallScope) -> Option<Bytes> {
        let entry = self.entries.as_ref()?.get(&(task, slot))?;
        if jiff::Timestamp::now().as_millisecond().saturating_sub(entry.settled_at.0) >= self.retention_ms {
            return None;
        }
        place.reads.iter().any(|view| entry.views.contains(view)).then(|| entry.body.clone())
    }

    /// The number for [`Cache::put`], to be read before the store is.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Caches an encoding that was read after `forgotten`, unless a task was removed since: it may have been this one.
    pub(crate) fn put(&self, task: &model::Task, slot: u16, body: &Bytes, forgotten: u64) {
        if self.forgotten() != forgotten {
            return;
        }
        if let Some(entries) = &self.entries
            && task.core.is_settled()
        {
            entries.insert(
                (task.id, slot),
                Arc::new(Entry { views: task.views.clone(), settled_at: task.status.at, body: body.clone() }),
            );
            // A removal increments the number before it removes the entry, so one of the two sees the other.
            if self.forgotten() != forgotten {
                entries.remove(&(task.id, slot));
            }
        }
    }

    /// Empties the cache: any task may have been removed.
    pub(crate) fn clear(&self) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        if let Some(entries) = &self.entries {
            entries.clear();
        }
    }

    pub fn forget(&self, task: TaskId) {
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        if let Some(entries) = &self.entries {
            for slot in dialects::codecs().map(|codec| codec.slot(false)).chain(self.product_slots.iter().copied()) {
                entries.remove(&(task, slot));
            }
        }
    }
}
