//! Committed events: their encodings shared by readers, and the counters.

use std::sync::Arc;

use bytes::Bytes;
use model::{Body, Event, Task};
use parking_lot::Mutex;

use crate::Shared;

/// A committed event and its encodings, each made once and shared by every reader.
#[derive(Debug)]
pub struct Committed {
    pub event: Event,
    encodings: Mutex<Vec<(u16, Bytes)>>,
}

impl Committed {
    pub(crate) fn new(event: Event) -> Arc<Committed> {
        Arc::new(Committed { event, encodings: Mutex::default() })
    }

    /// The event in the encoding that `slot` names; the first reader makes it.
    pub fn encoded(&self, slot: u16, make: impl FnOnce() -> Bytes) -> Bytes {
        let mut encodings = self.encodings.lock();
        if let Some((_, bytes)) = encodings.iter().find(|(s, _)| *s == slot) {
            return bytes.clone();
        }
        let bytes = make();
        encodings.push((slot, bytes.clone()));
        bytes
    }
}

impl Shared {
    /// Counts committed events for the metrics, and notes the change of their task.
    pub(crate) fn count(&self, task: &Task, events: &[Event]) {
        self.feed.note(task);
        self.count_events(events);
    }

    /// Counts committed events for the metrics.
    pub(crate) fn count_events(&self, events: &[Event]) {
        use std::sync::atomic::Ordering::Relaxed;
        self.stats.events.fetch_add(events.len() as u64, Relaxed);
        for event in events {
            match &event.body {
                Body::Opened(_) => drop(self.stats.opened.fetch_add(1, Relaxed)),
                Body::TurnStarted { .. } => drop(self.stats.turns.fetch_add(1, Relaxed)),
                Body::Status(change) if change.state.is_terminal() => {
                    self.stats.settled.fetch_add(1, Relaxed);
                    if change.state == model::State::Failed {
                        self.stats.failed.fetch_add(1, Relaxed);
                    }
                }
                Body::Status(_)
                | Body::Message(_)
                | Body::Bound { .. }
                | Body::Artifact(_)
                | Body::Replied(_)
                | Body::Metadata(_)
                | Body::CancelRequested { .. } => {}
            }
        }
    }
}
