//! Limits of what runs at the same time, by key. A permit is given back when it is dropped: when a stream ends, a call is
//! answered or its connection closes.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

#[derive(Default)]
pub struct ConcurrencyLimit {
    /// Permits by key; keys without one are not in the map.
    taken: Mutex<HashMap<u64, u32>>,
}

pub struct ConcurrencyPermit {
    limit: Arc<ConcurrencyLimit>,
    key: u64,
}

impl ConcurrencyLimit {
    /// A permit, where the key has fewer than `most`.
    pub fn take(limit: &Arc<ConcurrencyLimit>, key: u64, most: u32) -> Option<ConcurrencyPermit> {
        let mut taken = limit.taken.lock();
        let n = taken.entry(key).or_default();
        if *n >= most {
            return None;
        }
        *n += 1;
        Some(ConcurrencyPermit { limit: limit.clone(), key })
    }

    /// The keys that have a permit, and the number of permits of the one that has the most.
    pub fn taken(&self) -> (usize, u32) {
        let taken = self.taken.lock();
        (taken.len(), taken.values().copied().max().unwrap_or_default())
    }
}

impl Drop for ConcurrencyPermit {
    fn drop(&mut self) {
        let mut taken = self.limit.taken.lock();
        if let Some(n) = taken.get_mut(&self.key) {
            *n -= 1;
            if *n == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_is_given_back_when_it_is_dropped() {
        let limit = Arc::<ConcurrencyLimit>::default();
        let first = ConcurrencyLimit::take(&limit, 1, 2).unwrap();
        let second = ConcurrencyLimit::take(&limit, 1, 2).unwrap();
        assert!(ConcurrencyLimit::take(&limit, 1, 2).is_none());
        assert!(ConcurrencyLimit::take(&limit, 2, 2).is_some(), "another has its own");
        drop(first);
        let third = ConcurrencyLimit::take(&limit, 1, 2).unwrap();
        drop((second, third));
        assert!(limit.taken.lock().is_empty(), "a key without a permit takes no memory");
    }
}
