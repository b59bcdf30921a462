//! The writer's queue. It is bounded: above the limit a commit is refused at once, and the caller says so.

use std::collections::VecDeque;
use std::time::Duration;

use model::ports::store::{Commit, Outcome, StoreError};
use model::{TaskId, Time};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::shape;

/// A commit above this is a group of its own, so that small ones never wait for its bytes.
const LONE_BYTES: usize = 256 << 10;
/// A group ends here; the rest of the queue is the next one.
const GROUP_BYTES: usize = 4 << 20;
const GROUP_COMMITS: usize = 1024;

pub(super) struct CommitQueue {
    state: Mutex<State>,
    filled: Notify,
    max_commits: usize,
    max_bytes: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    bytes: usize,
    closed: bool,
}

#[allow(clippy::large_enum_variant, reason = "nearly every job is a commit")]
enum Job {
    Commit(TimedCommit),
    Maintenance(MaintenanceJob),
}

/// The few jobs that are not commits.
pub(super) enum MaintenanceJob {
    Purge { before: Time, keys_before: Time, limit: usize, answer: oneshot::Sender<Result<u64, StoreError>> },
    Remove { task: TaskId, answer: oneshot::Sender<Result<bool, StoreError>> },
}

/// A commit and the channel of its outcome, which may have no reader any more.
pub(super) struct TimedCommit {
    pub(super) commit: Commit,
    /// When it came.
    pub(super) since: Instant,
    pub(super) weight: usize,
    pub(super) answer: oneshot::Sender<Outcome>,
}

/// The next work for the writer.
pub(super) enum WriterWork {
    Group(Vec<TimedCommit>),
    Maintenance(MaintenanceJob),
    /// Nothing came in the time given.
    Nothing,
    /// Nothing is left and nothing more will come.
    Closed,
}

impl CommitQueue {
    pub(super) fn new(max_commits: usize, max_bytes: usize) -> CommitQueue {
        CommitQueue { state: Mutex::default(), filled: Notify::new(), max_commits, max_bytes }
    }

    pub(super) fn push_commit(&self, commit: Commit) -> Result<oneshot::Receiver<Outcome>, StoreError> {
        let weight = shape::weight(&commit);
        let (answer, answered) = oneshot::channel();
        let mut state = self.state.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        // One commit alone always fits, however large.
        if state.jobs.len() >= self.max_commits || (state.bytes > 0 && state.bytes + weight > self.max_bytes) {
            return Err(StoreError::Busy);
        }
        state.bytes += weight;
        state.jobs.push_back(Job::Commit(TimedCommit { commit, since: Instant::now(), weight, answer }));
        drop(state);
        self.filled.notify_one();
        Ok(answered)
    }

    pub(super) fn push(&self, maintenance: MaintenanceJob) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        if state.jobs.len() >= self.max_commits {
            return Err(StoreError::Busy);
        }
        state.jobs.push_back(Job::Maintenance(maintenance));
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Takes what makes a group, or waits for something.
    pub(super) async fn take(&self, patience: Option<Duration>) -> WriterWork {
        loop {
            if let Some(taken) = self.take_now() {
                return taken;
            }
            match patience {
                None => self.filled.notified().await,
                Some(patience) => {
                    if tokio::time::timeout(patience, self.filled.notified()).await.is_err() {
                        return self.take_now().unwrap_or(WriterWork::Nothing);
                    }
                }
            }
        }
    }

    fn take_now(&self) -> Option<WriterWork> {
        let mut state = self.state.lock();
        let mut group: Vec<TimedCommit> = Vec::new();
        let mut bytes = 0;
        while group.len() < GROUP_COMMITS && bytes < GROUP_BYTES {
            let joins = matches!(state.jobs.front(), Some(Job::Commit(waiting)) if waiting.weight <= LONE_BYTES);
            if !joins && !group.is_empty() {
                break;
            }
            match state.jobs.pop_front() {
                Some(Job::Commit(waiting)) => {
                    bytes += waiting.weight;
                    group.push(waiting);
                    if !joins {
                        break;
                    }
                }
                Some(Job::Maintenance(maintenance)) => return Some(WriterWork::Maintenance(maintenance)),
                None => break,
            }
        }
        state.bytes -= bytes;
        match group.is_empty() {
            false => Some(WriterWork::Group(group)),
            true => state.closed.then_some(WriterWork::Closed),
        }
    }

    /// Closes the queue and drops all waiting work: its callers learn that the writer is gone.
    pub(super) fn abandon(&self) {
        self.close();
        let jobs = std::mem::take(&mut self.state.lock().jobs);
        drop(jobs);
    }

    /// Lets nothing more in. The writer finishes what is queued.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.filled.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use model::ports::store::BlobWrite;
    use uuid::Uuid;

    use super::*;

    fn of(bytes: usize) -> Commit {
        let task = TaskId(Uuid::now_v7());
        let blob = BlobWrite { tenant: "t".into(), task, hash: [0; 32], bytes: Bytes::from(vec![0; bytes]) };
        Commit { blobs: vec![blob], ..Commit::default() }
    }

    fn sizes(queue: &CommitQueue) -> Vec<usize> {
        let mut sizes = Vec::new();
        while let Some(taken) = queue.take_now() {
            match taken {
                WriterWork::Group(group) => sizes.push(group.len()),
                WriterWork::Maintenance(_) => sizes.push(0),
                WriterWork::Nothing | WriterWork::Closed => break,
            }
        }
        sizes
    }

    #[test]
    fn a_queue_above_its_bounds_is_busy() {
        let queue = CommitQueue::new(2, 10_000);
        assert!(queue.push_commit(of(100)).is_ok());
        assert_eq!(queue.push_commit(of(20_000)).err(), Some(StoreError::Busy));
        assert!(queue.push_commit(of(100)).is_ok());
        assert_eq!(queue.push_commit(of(100)).err(), Some(StoreError::Busy));
        assert_eq!(sizes(&queue), [2]);
        // One commit alone is let in whatever its size, and what was taken makes room.
        assert!(queue.push_commit(of(20_000)).is_ok());
        assert_eq!(queue.push_commit(of(1)).err(), Some(StoreError::Busy));
        assert_eq!(sizes(&queue), [1]);
        assert!(queue.push_commit(of(1)).is_ok());
        queue.close();
        assert_eq!(queue.push_commit(of(100)).err(), Some(StoreError::Closed));
    }

    #[test]
    fn a_large_commit_is_a_group_of_its_own_and_the_order_stays() {
        let queue = CommitQueue::new(usize::MAX, usize::MAX);
        let remove = || MaintenanceJob::Remove { task: TaskId(Uuid::now_v7()), answer: oneshot::channel().0 };
        for bytes in [10, 10, 300_000, 10, 400_000, 400_000] {
            queue.push_commit(of(bytes)).unwrap();
        }
        queue.push(remove()).unwrap();
        for _ in 0..1_500 {
            queue.push_commit(of(10)).unwrap();
        }
        assert_eq!(sizes(&queue), [2, 1, 1, 1, 1, 0, 1024, 476]);
    }
}
