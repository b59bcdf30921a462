//! The only module that reads the clock and draws ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use model::ports::store::Store;
use model::{TaskId, Time, TurnId};
use uuid::Uuid;

/// A clock that differs from the expected time by more than this was set. A smaller difference is drift and is followed
/// at once.
const SET_MS: i64 = 1_000;
/// A clock that was set forward is followed after this time: setting it forward by years and soon back has no effect.
const FORWARD_AFTER_MS: i64 = 60_000;
/// A clock that was set back is followed after this time.
const BACK_AFTER_MS: i64 = 5_000;
/// The clock shows the expected time.
const NOT_SET: i64 = i64::MIN;

/// The store's time, shared by all processes of the store. It does not go back, so that a list by status time is in
/// order of events, unless the machine's clock was set back and stays there.
pub(crate) struct Clock {
    steady: Steady,
    last: AtomicI64,
    store: Arc<dyn Store>,
}

impl Clock {
    pub(crate) fn new(store: Arc<dyn Store>) -> Clock {
        Clock { steady: Steady::new(), last: AtomicI64::new(i64::MIN), store }
    }

    fn read(&self) -> i64 {
        let (wall, ahead) = (jiff::Timestamp::now().as_millisecond(), self.store.ahead_ms());
        self.steady.tell(wall, ahead)
    }

    pub(crate) fn now(&self) -> Time {
        let now = self.read();
        let last = self.last.load(Ordering::Relaxed);
        if last.saturating_sub(now) > SET_MS {
            // The clock was set back, and `Steady` follows it by now.
            self.last.store(now, Ordering::Relaxed);
            return Time(now);
        }
        Time(self.last.fetch_max(now, Ordering::Relaxed).max(now))
    }

    /// The time that sleeps are measured by. It is the normal time unless a test has paused it: paused time stands
    /// still and jumps with the sleeps.
    pub(crate) fn of_sleepers(&self) -> Time {
        let (asleep, awake) = (tokio::time::Instant::now().into_std(), Instant::now());
        let ms = |span: std::time::Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let ahead = ms(asleep.saturating_duration_since(awake)) - ms(awake.saturating_duration_since(asleep));
        Time(self.read() + ahead)
    }
}

/// Follows the wall clock as long as it agrees with the monotonic clock, which cannot be set. After the wall clock was
/// set, time first continues from its old value, and follows the new value after a delay.
struct Steady {
    started: Instant,
    /// The offset of the followed clock from the monotonic clock.
    offset: AtomicI64,
    /// How far the store's clock was ahead when the clocks last agreed.
    ahead: AtomicI64,
    /// The monotonic time since when the clocks disagree.
    since: AtomicI64,
}

impl Steady {
    fn new() -> Steady {
        let (offset, since) = (AtomicI64::new(NOT_SET), AtomicI64::new(NOT_SET));
        Steady { started: Instant::now(), offset, ahead: AtomicI64::new(0), since }
    }

    /// The store's time, given the wall clock and how far the store's clock is ahead of it.
    fn tell(&self, wall: i64, ahead: i64) -> i64 {
        let monotonic = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.tell_at(wall, ahead, monotonic)
    }

    /// Threads may call this concurrently; each sees the time followed a moment ago or the new one.
    fn tell_at(&self, wall: i64, ahead: i64, monotonic: i64) -> i64 {
        let offset = self.offset.load(Ordering::Relaxed);
        let now = wall.saturating_sub(monotonic);
        let apart = if offset == NOT_SET { 0 } else { now.saturating_sub(offset) };
        if apart.abs() <= SET_MS {
            if now != offset {
                self.offset.store(now, Ordering::Relaxed);
            }
            if self.ahead.load(Ordering::Relaxed) != ahead {
                self.ahead.store(ahead, Ordering::Relaxed);
            }
            if self.since.load(Ordering::Relaxed) != NOT_SET {
                self.since.store(NOT_SET, Ordering::Relaxed);
            }
            return wall.saturating_add(ahead);
        }
        if ahead.saturating_sub(self.ahead.load(Ordering::Relaxed)).abs() > SET_MS {
            // The store's time was queried after the clock was set: the sum of both is right again.
            return self.believe(wall, ahead, now);
        }
        let patience = if apart > 0 { FORWARD_AFTER_MS } else { BACK_AFTER_MS };
        let since = match self.since.compare_exchange(NOT_SET, monotonic, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                tracing::warn!(
                    "the machine's clock was set {} by {} s; times go on as before for {} s, then follow it",
                    if apart > 0 { "forward" } else { "back" },
                    apart.unsigned_abs() / 1_000,
                    patience / 1_000
                );
                monotonic
            }
            Err(since) => since,
        };
        if monotonic.saturating_sub(since) < patience {
            return monotonic.saturating_add(offset).saturating_add(ahead);
        }
        self.believe(wall, ahead, now)
    }

    fn believe(&self, wall: i64, ahead: i64, offset: i64) -> i64 {
        self.offset.store(offset, Ordering::Relaxed);
        self.ahead.store(ahead, Ordering::Relaxed);
        self.since.store(NOT_SET, Ordering::Relaxed);
        wall.saturating_add(ahead)
    }
}

/// A random number, small enough for any store's integers.
pub(crate) fn number() -> u64 {
    Uuid::now_v7().as_u64_pair().1 & (u64::MAX >> 2)
}

pub(crate) fn task_id() -> TaskId {
    TaskId(Uuid::now_v7())
}

pub(crate) fn turn_id() -> TurnId {
    TurnId(Uuid::now_v7())
}

/// An id for a context or a message.
pub(crate) fn text_id() -> std::sync::Arc<str> {
    Uuid::now_v7().as_hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_775_721_600_000;
    const YEARS: i64 = 20 * 366 * 86_400_000;

    /// The deviations reported while the machine runs for `length` milliseconds more with its clock off by `off`.
    fn run(steady: &Steady, monotonic: &mut i64, length: i64, off: i64) -> Vec<i64> {
        let until = *monotonic + length;
        let mut told = Vec::new();
        while *monotonic < until {
            *monotonic += 100;
            told.push(steady.tell_at(START + *monotonic + off, 0, *monotonic) - START - *monotonic);
        }
        told
    }

    #[test]
    fn a_clock_that_is_set_forward_and_back_leaves_no_trace() {
        let (steady, mut now) = (Steady::new(), 0);
        run(&steady, &mut now, 1_000, 0);
        let away = run(&steady, &mut now, FORWARD_AFTER_MS - 1_000, YEARS);
        assert!(away.iter().all(|off| *off == 0), "{away:?}");
        assert!(run(&steady, &mut now, 10_000, 0).iter().all(|off| *off == 0));
        // The delay starts again.
        assert!(run(&steady, &mut now, FORWARD_AFTER_MS - 1_000, YEARS).iter().all(|off| *off == 0));
    }

    #[test]
    fn a_clock_that_stays_where_it_was_set_is_followed() {
        for (off, patience) in [(YEARS, FORWARD_AFTER_MS), (-YEARS, BACK_AFTER_MS), (-10_000, BACK_AFTER_MS)] {
            let (steady, mut now) = (Steady::new(), 0);
            run(&steady, &mut now, 1_000, 0);
            let told = run(&steady, &mut now, patience + 200, off);
            assert_eq!((told[0], told[told.len() - 1]), (0, off));
            // And back again after the clock is corrected.
            let told = run(&steady, &mut now, FORWARD_AFTER_MS + 200, 0);
            assert_eq!((told[0], told[told.len() - 1]), (off, 0));
        }
    }

    #[test]
    fn a_replica_whose_clock_is_set_goes_by_the_store() {
        let steady = Steady::new();
        let tell =
            |monotonic, off, ahead| steady.tell_at(START + monotonic + off, ahead, monotonic) - START - monotonic;
        assert_eq!(tell(100, 0, 500), 500);
        assert_eq!(tell(200, YEARS, 500), 500, "not measured again yet");
        assert_eq!(tell(300, YEARS, 500 - YEARS), 500, "measured");
        assert_eq!(tell(400, YEARS, 480 - YEARS), 480);
        // Measured before the first reading of the time.
        assert_eq!(tell(500, 0, 500), 500);
        // The store's own clock was set: all replicas follow it at once.
        assert_eq!(tell(600, 0, 7_200_500), 7_200_500);
    }

    #[test]
    fn drift_is_followed_at_once() {
        let (steady, mut now) = (Steady::new(), 0);
        for off in [0, 300, 900, 1_700, 1_100, 200, -700] {
            let told = run(&steady, &mut now, 100, off);
            assert_eq!(told, [off]);
        }
    }

    #[test]
    fn time_goes_back_only_with_a_clock_that_stays_back() {
        let store = Arc::new(stores::memory::MemoryStore::new());
        let clock = Clock::new(store);
        let first = clock.now();
        // A small step back is not visible.
        clock.last.store(first.0 + SET_MS / 2, Ordering::Relaxed);
        assert_eq!(clock.now().0, first.0 + SET_MS / 2);
        // A time years ahead, which an earlier release kept until the next start, does not stay.
        clock.last.store(first.0 + YEARS, Ordering::Relaxed);
        assert!(clock.now().0 < first.0 + SET_MS + 60_000);
    }
}
