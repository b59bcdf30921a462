//! Tasks for which a background job failed, because a log cannot be read or a product fails. Each task is skipped for a
//! while, longer each time, and shown to operators, so that one damaged task delays no other.
//!
//! An unavailable store is not such a case: then the whole job waits.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use model::{Fault, Kind, TaskId, Time};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Engine, Shared};

/// Limit of remembered tasks. A further one is logged and retried without a pause of its own.
const MOST: usize = 10_000;
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// The background job that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Chore {
    /// Firing a timer.
    Timer,
    /// Recovering an interrupted turn.
    Recovery,
    /// Delivering webhooks.
    Webhook,
    /// Removing expired tasks.
    Sweep,
}

impl Chore {
    pub fn name(self) -> &'static str {
        match self {
            Chore::Timer => "timer",
            Chore::Recovery => "recovery",
            Chore::Webhook => "webhook",
            Chore::Sweep => "sweep",
        }
    }
}

/// A task that waits for another attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setback {
    pub task: TaskId,
    pub chore: Chore,
    pub since: Time,
    pub attempts: u32,
    /// For operators.
    pub cause: String,
}

struct Waiting {
    since: Time,
    attempts: u32,
    until: Instant,
    cause: String,
}

#[derive(Default)]
pub(crate) struct Setbacks {
    waiting: Mutex<HashMap<(TaskId, Chore), Waiting>>,
    /// The number of entries, so that the success path needs no lock.
    count: AtomicUsize,
}

impl Setbacks {
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether the task may be tried now.
    pub(crate) fn is_due(&self, task: TaskId, chore: Chore) -> bool {
        if self.len() == 0 {
            return true;
        }
        self.waiting.lock().get(&(task, chore)).is_none_or(|waiting| waiting.until <= Instant::now())
    }

    /// The job succeeded, or there is nothing left to do.
    pub(crate) fn clear(&self, task: TaskId, chore: Chore) {
        if self.len() == 0 {
            return;
        }
        let mut waiting = self.waiting.lock();
        waiting.remove(&(task, chore));
        self.count.store(waiting.len(), Ordering::Relaxed);
    }

    /// The task was removed.
    pub(crate) fn forget(&self, task: TaskId) {
        if self.len() == 0 {
            return;
        }
        let mut waiting = self.waiting.lock();
        waiting.retain(|(known, _), _| *known != task);
        self.count.store(waiting.len(), Ordering::Relaxed);
    }

    /// The job failed. Returns how long to skip the task.
    pub(crate) fn failed(&self, shared: &Shared, task: TaskId, chore: Chore, fault: &Fault) -> Duration {
        let cause = fault.cause.as_ref().map_or_else(|| fault.message.to_string(), |cause| cause.to_string());
        let mut waiting = self.waiting.lock();
        let attempts = waiting.get(&(task, chore)).map_or(0, |waiting| waiting.attempts).saturating_add(1);
        let pause = pause(attempts);
        tracing::error!(
            %task, chore = chore.name(), attempts, pause_s = pause.as_secs(), %cause,
            "a task could not be looked after; the others go on"
        );
        if waiting.len() < MOST || attempts > 1 {
            let since = waiting.get(&(task, chore)).map_or_else(|| shared.clock.now(), |waiting| waiting.since);
            waiting.insert((task, chore), Waiting { since, attempts, until: Instant::now() + pause, cause });
        }
        self.count.store(waiting.len(), Ordering::Relaxed);
        pause
    }

    fn list(&self, most: usize) -> Vec<Setback> {
        let waiting = self.waiting.lock();
        let each = waiting.iter().map(|((task, chore), waiting)| Setback {
            task: *task,
            chore: *chore,
            since: waiting.since,
            attempts: waiting.attempts,
            cause: waiting.cause.clone(),
        });
        let mut list: Vec<Setback> = each.collect();
        list.sort_by_key(|setback| (setback.since, setback.task, setback.chore));
        list.truncate(most);
        list
    }
}

fn pause(attempts: u32) -> Duration {
    let doubled = 1u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(doubled).min(LONGEST_PAUSE)
}

/// Whether a fault is about the store and not about one task.
pub(crate) fn is_general(fault: &Fault) -> bool {
    fault.kind == Kind::Unavailable
}

/// Runs the work on one task; a panic becomes a fault of that task.
pub(crate) async fn alone<T>(work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|_| Err(Fault::internal("looking after the task ended in a panic")))
}

impl Engine {
    /// Tasks whose background work failed and that wait for another attempt, oldest first. For operators.
    pub fn setbacks(&self, most: usize) -> Vec<Setback> {
        self.shared.setbacks.list(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_left_alone_longer_each_time() {
        let pauses: Vec<u64> = (1..=9).map(|attempts| pause(attempts).as_secs()).collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(pause(u32::MAX), LONGEST_PAUSE);
    }

    #[tokio::test]
    async fn a_panic_is_a_fault_of_its_task() {
        let fault = alone::<()>(async { panic!("in a test") }).await.unwrap_err();
        assert_eq!(fault.kind, Kind::Internal);
    }
}
