//! The delays between attempts of a delivery.

use crate::clock;

/// Delays that double, with jitter, and that respect the receiver's wish to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySchedule {
    /// The delay after the first attempt.
    pub first_ms: u64,
    /// The longest delay.
    pub most_ms: u64,
    /// The longest `Retry-After` that is respected.
    pub asked_most_ms: u64,
}

impl RetrySchedule {
    /// The delay after this many failed attempts, from 80 to 120 percent; not shorter than the receiver's `Retry-After`.
    pub fn delay_ms(&self, attempts: u32, retry_after_ms: Option<u64>) -> u64 {
        let doubled = 1u64.checked_shl(attempts.saturating_sub(1)).unwrap_or(u64::MAX);
        let plain = self.first_ms.saturating_mul(doubled).min(self.most_ms);
        let jittered = plain.saturating_mul(80 + clock::number() % 41) / 100;
        jittered.max(retry_after_ms.unwrap_or_default().min(self.asked_most_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest_and_are_never_shorter_than_asked_for() {
        let schedule = RetrySchedule { first_ms: 1_000, most_ms: 60_000, asked_most_ms: 100_000 };
        for (attempts, asked, plain) in [
            (0, None, 1_000),
            (1, None, 1_000),
            (2, None, 2_000),
            (5, Some(3), 16_000),
            (7, None, 60_000),
            (u32::MAX, None, 60_000),
        ] {
            let delay = schedule.delay_ms(attempts, asked);
            assert!((plain * 8 / 10..=plain * 12 / 10).contains(&delay), "{attempts}: {delay}");
        }
        assert_eq!(schedule.delay_ms(1, Some(90_000)), 90_000);
        assert_eq!(schedule.delay_ms(7, Some(u64::MAX)), 100_000);
    }
}
