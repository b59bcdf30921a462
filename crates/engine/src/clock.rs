//! The one place that reads the clock and draws ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use model::ports::store::Store;
use model::{TaskId, Time, TurnId};
use uuid::Uuid;

/// A clock that is further than this from where it should be was set. Less is drift, and is followed at once.
const SET_MS: i64 = 1_000;
/// A clock that was set forward is believed after so long: whoever sets it by years and back soon leaves no trace.
const FORWARD_AFTER_MS: i64 = 60_000;
/// A clock that was set back is believed after so long.
const BACK_AFTER_MS: i64 = 5_000;
/// The clock is where it should be.
const NOT_SET: i64 = i64::MIN;

/// The store's time, which several processes agree on. It does not go back, so that a list by status time is a list by order
/// of events, unless the machine's clock was set back and stays there.
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
            // It was set back, and has been believed.
            self.last.store(now, Ordering::Relaxed);
            return Time(now);
        }
        Time(self.last.fetch_max(now, Ordering::Relaxed).max(now))
    }

    /// The time that sleeps go by. It is the time, unless a test has paused it: then it stands still, and jumps when they
    /// do.
    pub(crate) fn of_sleepers(&self) -> Time {
        let (asleep, awake) = (tokio::time::Instant::now().into_std(), Instant::now());
        let ms = |span: std::time::Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let ahead = ms(asleep.saturating_duration_since(awake)) - ms(awake.saturating_duration_since(asleep));
        Time(self.read() + ahead)
    }
}

/// Believes a clock as long as it goes with the one that nobody can set (the monotonic one), and one that was set only after
/// a while. Until then time goes on from where it was.
struct Steady {
    started: Instant,
    /// From the monotonic clock to the believed one.
    offset: AtomicI64,
    /// How far the store's clock was ahead when the two last went together.
    ahead: AtomicI64,
    /// Since when, by the monotonic clock, the other is not where it should be.
    since: AtomicI64,
}

impl Steady {
    fn new() -> Steady {
        let (offset, since) = (AtomicI64::new(NOT_SET), AtomicI64::new(NOT_SET));
        Steady { started: Instant::now(), offset, ahead: AtomicI64::new(0), since }
    }

    /// The time by this clock and a store that is ahead of it by so much.
    fn tell(&self, wall: i64, ahead: i64) -> i64 {
        let monotonic = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.tell_at(wall, ahead, monotonic)
    }

    /// Several threads may be here at once. Each sees a time that was believed a moment ago, or is by now.
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
            // The store has been asked for its time since: together they are right again.
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

/// A number nobody else draws, small enough for any store's integers.
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

    /// What is told of a machine that runs for `length` milliseconds more, with its clock off by so much.
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
        // The next time it begins anew.
        assert!(run(&steady, &mut now, FORWARD_AFTER_MS - 1_000, YEARS).iter().all(|off| *off == 0));
    }

    #[test]
    fn a_clock_that_stays_where_it_was_set_is_followed() {
        for (off, patience) in [(YEARS, FORWARD_AFTER_MS), (-YEARS, BACK_AFTER_MS), (-10_000, BACK_AFTER_MS)] {
            let (steady, mut now) = (Steady::new(), 0);
            run(&steady, &mut now, 1_000, 0);
            let told = run(&steady, &mut now, patience + 200, off);
            assert_eq!((told[0], told[told.len() - 1]), (0, off));
            // And back again, once it is put right.
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
        // Measured before anybody here asked for the time.
        assert_eq!(tell(500, 0, 500), 500);
        // The store's own clock was set, by who knows why: all replicas go by it.
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
        let store = Arc::new(stores::memory::Store::new());
        let clock = Clock::new(store);
        let first = clock.now();
        // A little behind is not told.
        clock.last.store(first.0 + SET_MS / 2, Ordering::Relaxed);
        assert_eq!(clock.now().0, first.0 + SET_MS / 2);
        // A time from years ahead, as a release before this one kept it until the next start, does not stay.
        clock.last.store(first.0 + YEARS, Ordering::Relaxed);
        assert!(clock.now().0 < first.0 + SET_MS + 60_000);
    }
}
