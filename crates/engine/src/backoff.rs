//! Backoff for a store in trouble: each pause is longer, and the engine's stop ends it.

use std::fmt::Display;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::ports::store::StoreError;

use crate::Shared;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(2);

/// A store that reports this often in a row that it is broken, rather than full or busy, will not recover by itself.
const BROKEN: u32 = 20;

pub(crate) struct Backoff {
    wait: Duration,
    broken: u32,
}

impl Backoff {
    pub(crate) fn new() -> Backoff {
        Backoff { wait: FIRST, broken: 0 }
    }

    /// Pauses before another attempt at `what`. An error if no attempt can ever succeed.
    pub(crate) async fn pause(
        &mut self,
        shared: &Shared,
        what: impl Display,
        trouble: StoreError,
    ) -> Result<(), StoreError> {
        self.broken = if matches!(trouble, StoreError::Broken(_)) { self.broken + 1 } else { 0 };
        if trouble == StoreError::Closed || self.broken > BROKEN {
            return Err(trouble);
        }
        shared.stats.store_troubles.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(%what, %trouble, "waiting for the store");
        tokio::select! {
            () = tokio::time::sleep(self.wait) => {}
            () = shared.stopped.cancelled() => return Err(StoreError::Closed),
        }
        self.wait = (self.wait * 2).min(LONGEST);
        Ok(())
    }
}
