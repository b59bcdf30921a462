//! Rate limits by key. The number of keys that are counted is bounded.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

/// Above this number of keys, new ones share cells until old ones are removed.
const KEYS: usize = 100_000;
/// The cells they share.
const SHARED: u64 = 1_024;
/// The number of keys is checked once in so many requests.
const LOOK_EVERY: u32 = 4_096;

/// Requests a minute, and how many of them may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    pub per_minute: NonZeroU32,
    pub burst: NonZeroU32,
}

impl RateLimit {
    fn quota(self) -> Quota {
        Quota::per_minute(self.per_minute).allow_burst(self.burst)
    }
}

pub struct Limiter<C: Clock = DefaultClock> {
    cells: RateLimiter<u64, DashMapStateStore<u64>, C, NoOpMiddleware<C::Instant>>,
    clock: C,
    keys: usize,
    asked: AtomicU32,
    full: AtomicBool,
}

impl Limiter {
    pub fn new(rate: RateLimit) -> Limiter {
        Limiter::with(rate, DefaultClock::default(), KEYS)
    }
}

impl<C: Clock + Clone> Limiter<C> {
    fn with(rate: RateLimit, clock: C, keys: usize) -> Limiter<C> {
        let cells = RateLimiter::new(rate.quota(), DashMapStateStore::default(), clock.clone());
        Limiter { cells, clock, keys, asked: AtomicU32::new(0), full: AtomicBool::new(false) }
    }

    /// Takes one request of a key's rate. The error is the time until one is free.
    pub fn take(&self, key: u64) -> Result<(), Duration> {
        if self.asked.fetch_add(1, Ordering::Relaxed) % LOOK_EVERY == LOOK_EVERY - 1 {
            self.look();
        }
        let key = if self.full.load(Ordering::Relaxed) { key % SHARED } else { key };
        self.cells.check_key(&key).map_err(|not_yet| not_yet.wait_time_from(self.clock.now()))
    }

    /// The keys that are counted now.
    pub fn keys(&self) -> usize {
        self.cells.len()
    }

    fn look(&self) {
        if self.cells.len() > self.keys || self.full.load(Ordering::Relaxed) {
            self.tidy();
        }
    }

    /// Removes keys whose rate is unused again.
    pub fn tidy(&self) {
        self.cells.retain_recent();
        self.cells.shrink_to_fit();
        self.full.store(self.cells.len() > self.keys, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn rate(per_minute: u32, burst: u32) -> RateLimit {
        RateLimit { per_minute: NonZeroU32::new(per_minute).unwrap(), burst: NonZeroU32::new(burst).unwrap() }
    }

    #[test]
    fn a_burst_and_then_so_many_a_minute() {
        let clock = FakeRelativeClock::default();
        let limiter = Limiter::with(rate(60, 3), clock.clone(), KEYS);
        for _ in 0..3 {
            assert_eq!(limiter.take(1), Ok(()));
        }
        assert_eq!(limiter.take(1), Err(Duration::from_secs(1)));
        assert_eq!(limiter.take(2), Ok(()), "another key has its own");
        clock.advance(Duration::from_millis(400));
        assert_eq!(limiter.take(1), Err(Duration::from_millis(600)));
        clock.advance(Duration::from_millis(600));
        assert_eq!(limiter.take(1), Ok(()));
        assert!(limiter.take(1).is_err());
    }

    #[test]
    fn keys_are_forgotten_when_they_have_all_of_theirs_again() {
        let clock = FakeRelativeClock::default();
        let limiter = Limiter::with(rate(60, 1), clock.clone(), KEYS);
        for key in 0..100 {
            limiter.take(key).unwrap();
        }
        clock.advance(Duration::from_secs(120));
        limiter.tidy();
        assert_eq!(limiter.cells.len(), 0);
    }

    #[test]
    fn a_flood_of_keys_does_not_fill_the_memory() {
        let clock = FakeRelativeClock::default();
        let limiter = Limiter::with(rate(60, 100), clock.clone(), 10_000);
        for key in 0..100_000_u64 {
            let _ = limiter.take(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        let bound = 10_000 + LOOK_EVERY as usize + SHARED as usize;
        assert!(limiter.cells.len() <= bound, "{} cells", limiter.cells.len());
        clock.advance(Duration::from_secs(600));
        limiter.tidy();
        assert!(!limiter.full.load(Ordering::Relaxed), "and it is over when they are gone");
    }
}
