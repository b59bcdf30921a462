//! Calls whose tool waits for its caller's answer, by task. Their number and time are limited: beyond either the
//! call is cancelled, and a later answer gets an error.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::TaskId;
use tokio::time::sleep;

use super::run::WaitingCall;

pub(super) struct OpenCalls {
    calls: Arc<Mutex<VecDeque<Entry>>>,
    kept: AtomicU64,
    time: Duration,
    most: usize,
}

struct Entry {
    task: TaskId,
    /// Distinguishes it from a later question of the same task.
    number: u64,
    asking: Option<WaitingCall>,
    /// Cancels the call when its time is over.
    timer: tokio::task::AbortHandle,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

impl OpenCalls {
    pub(super) fn new(time: Duration, most: usize) -> OpenCalls {
        OpenCalls { calls: Arc::default(), kept: AtomicU64::new(0), time, most }
    }

    /// Stores a call until its task's next message.
    pub(super) fn keep(&self, task: TaskId, asking: WaitingCall) {
        let (calls, time) = (Arc::downgrade(&self.calls), self.time);
        let number = self.kept.fetch_add(1, Ordering::Relaxed);
        let timer = tokio::spawn(async move {
            sleep(time).await;
            if let Some(calls) = calls.upgrade() {
                remove(&calls, |entry| entry.number == number);
            }
        });
        let entry = Entry { task, number, asking: Some(asking), timer: timer.abort_handle() };
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.retain(|entry| entry.task != task);
        calls.push_back(entry);
        while calls.len() > self.most {
            calls.pop_front();
        }
    }

    /// The call of that task, if it is still open.
    pub(super) fn take(&self, task: TaskId) -> Option<WaitingCall> {
        remove(&self.calls, |entry| entry.task == task)
    }
}

fn remove(calls: &Mutex<VecDeque<Entry>>, which: impl Fn(&Entry) -> bool) -> Option<WaitingCall> {
    let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
    let at = calls.iter().position(which)?;
    let mut entry = calls.remove(at)?;
    entry.asking.take()
}
