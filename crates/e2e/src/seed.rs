//! Repeatable randomness: the seed is printed, and `RIALTO_SEED` sets it.

use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64: small, good enough to choose times and sizes, and the same on every machine.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The seed of `RIALTO_SEED`, else from the clock; printed either way.
    ///
    /// # Panics
    /// When `RIALTO_SEED` is not a number.
    pub fn from_env(test: &str) -> Self {
        let seed = match std::env::var("RIALTO_SEED") {
            Ok(text) => text.parse().expect("RIALTO_SEED is a number"),
            Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_nanos() as u64),
        };
        eprintln!("{test}: RIALTO_SEED={seed}");
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `low..high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.draw() % (high - low).max(1)
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.between(0, 100) < percent
    }

    /// A generator for a thread, so that the choices of threads do not depend on timing.
    pub fn fork(&mut self) -> Self {
        Self(self.draw())
    }
}
