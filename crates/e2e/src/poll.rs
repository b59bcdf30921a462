//! Waiting for a condition, with a deadline and a name.
//!
//! Tests here never sleep for an effect to happen: they ask until it has, and say what they were waiting for when it
//! does not.

use std::time::{Duration, Instant};

/// How long a test waits for anything before it calls it broken. Generous, since two cores may run everything at once.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Asks `condition` until it gives a value.
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
