//! The one place that reads the clock and draws ids.

use std::sync::atomic::{AtomicI64, Ordering};

use model::{TaskId, Time, TurnId};
use uuid::Uuid;

/// Time that never goes back within this process, so that a list by status time is a list by order of events.
#[derive(Default)]
pub(crate) struct Clock {
    last: AtomicI64,
}

impl Clock {
    pub(crate) fn now(&self) -> Time {
        let now = jiff::Timestamp::now().as_millisecond();
        Time(self.last.fetch_max(now, Ordering::Relaxed).max(now))
    }
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
