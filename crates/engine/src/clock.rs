//! The one place that reads the clock and draws ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use model::ports::store::Store;
use model::{TaskId, Time, TurnId};
use uuid::Uuid;

/// The store's time, which several processes agree on. It never goes back within this one, so that a list by status time is
/// a list by order of events.
pub(crate) struct Clock {
    last: AtomicI64,
    store: Arc<dyn Store>,
}

impl Clock {
    pub(crate) fn new(store: Arc<dyn Store>) -> Clock {
        Clock { last: AtomicI64::default(), store }
    }

    fn read(&self) -> i64 {
        jiff::Timestamp::now().as_millisecond().saturating_add(self.store.ahead_ms())
    }

    pub(crate) fn now(&self) -> Time {
        let now = self.read();
        Time(self.last.fetch_max(now, Ordering::Relaxed).max(now))
    }

    /// The time that sleeps go by. It is the time, unless a test has paused it: then it stands still, and jumps when they
    /// do.
    pub(crate) fn of_sleepers(&self) -> Time {
        let (asleep, awake) = (tokio::time::Instant::now().into_std(), std::time::Instant::now());
        let ms = |span: std::time::Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        let ahead = ms(asleep.saturating_duration_since(awake)) - ms(awake.saturating_duration_since(asleep));
        Time(self.read() + ahead)
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
