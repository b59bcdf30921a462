//! Durations counted in buckets: cheap to add to from many threads, and exact enough for quantiles.
//!
//! A bucket is at most a quarter as wide as its lower bound, so that a quantile is at most 25 % too high. Durations above
//! two hours are counted as two hours.

use std::sync::atomic::{AtomicU64, Ordering};

/// Microseconds below which every value has a bucket of its own.
const SMALL: u64 = 8;
/// The highest power of two with buckets of its own.
const HIGHEST: u32 = 32;
const BUCKETS: usize = SMALL as usize + 4 * (HIGHEST as usize - 2);

/// Counts of durations, added to by many threads.
#[derive(Debug)]
pub struct LatencyCounts([AtomicU64; BUCKETS]);

/// The counts at one moment, or those between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencySnapshot(Box<[u64; BUCKETS]>);

fn bucket(micros: u64) -> usize {
    if micros < SMALL {
        return micros as usize;
    }
    let power = micros.ilog2();
    if power > HIGHEST {
        return BUCKETS - 1;
    }
    SMALL as usize + 4 * (power as usize - 3) + ((micros >> (power - 2)) & 3) as usize
}

/// The first value above a bucket.
fn end(bucket: usize) -> u64 {
    match bucket.checked_sub(SMALL as usize) {
        None => bucket as u64 + 1,
        Some(rest) => (rest as u64 % 4 + 5) << (rest / 4 + 1),
    }
}

impl Default for LatencyCounts {
    fn default() -> LatencyCounts {
        LatencyCounts(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl LatencyCounts {
    pub fn add(&self, micros: u64) {
        self.0[bucket(micros)].fetch_add(1, Ordering::Relaxed);
    }

    pub fn snapshot(&self) -> LatencySnapshot {
        LatencySnapshot(Box::new(std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed))))
    }
}

impl Default for LatencySnapshot {
    fn default() -> LatencySnapshot {
        LatencySnapshot(Box::new([0; BUCKETS]))
    }
}

impl LatencySnapshot {
    /// The durations that were added after an earlier snapshot of the same counts.
    pub fn since(&self, earlier: &LatencySnapshot) -> LatencySnapshot {
        LatencySnapshot(Box::new(std::array::from_fn(|at| self.0[at].saturating_sub(earlier.0[at]))))
    }

    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The microseconds within which this share of the durations lies; `None` without any. 0.5 is the median.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut below = 0;
        for (at, number) in self.0.iter().enumerate() {
            below += number;
            if below >= rank {
                return Some(end(at));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_below_the_end_of_its_bucket_and_at_most_a_quarter() {
        let mut micros = 0;
        while micros < 8_000_000_000 {
            let at = bucket(micros);
            assert!(micros < end(at) && end(at) - 1 <= micros + micros / 4, "{micros}: {at} {}", end(at));
            assert!(at == 0 || end(at - 1) <= micros, "{micros}");
            micros += 1 + micros / 7;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_of_what_was_added_between_two_moments() {
        let counts = LatencyCounts::default();
        assert_eq!(counts.snapshot().quantile(0.5), None);
        counts.add(1_000_000);
        let before = counts.snapshot();
        for micros in 1..=100 {
            counts.add(micros);
        }
        let now = counts.snapshot().since(&before);
        assert_eq!(now.count(), 100);
        let near = |share: f64, expected: u64| {
            let found = now.quantile(share).unwrap();
            assert!(found > expected && found <= expected + expected / 4 + 1, "{share}: {found}");
        };
        near(0.5, 50);
        near(0.99, 99);
        assert_eq!(now.quantile(0.0), Some(2));
    }
}
