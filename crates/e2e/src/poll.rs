//! Polls for a condition, with a deadline and a name.
//!
//! Tests never sleep for an effect: they poll until it is there, and name it in the failure when it is not.

use std::time::{Duration, Instant};

/// How long a test waits for a condition before it fails. Generous, since two cores may run everything at once.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Polls `condition` until it returns a value.
///
/// # Panics
/// When `patience` has passed without one.
pub fn until<T>(what: &str, patience: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(started.elapsed() < patience, "waited {patience:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
