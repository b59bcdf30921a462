//! The writer's queue. It is bounded: above the limit a commit is refused at once, and the caller says so.

use std::time::{Duration, Instant};

use model::ports::store::{Append, Commit, Outcome, StoreError};
use model::{TaskId, Time};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::tail::CHUNK_BYTES;
use crate::shape;

pub(super) struct JobQueue {
    state: Mutex<State>,
    filled: Condvar,
    max_commits: usize,
    max_bytes: usize,
}

#[derive(Default)]
struct State {
    jobs: Vec<WriterJob>,
    bytes: usize,
    /// Something is queued that is more than a few further words of a turn.
    urgent: bool,
    /// The writer waits for more than chunks.
    lingering: bool,
    closed: bool,
}

#[allow(clippy::large_enum_variant, reason = "nearly every job is a commit")]
pub(super) enum WriterJob {
    Commit(QueuedCommit),
    Purge {
        before: Time,
        keys_before: Time,
        limit: usize,
        answer: oneshot::Sender<Result<u64, StoreError>>,
    },
    Remove {
        task: TaskId,
        answer: oneshot::Sender<Result<bool, StoreError>>,
    },
    #[cfg(test)]
    Pragma {
        text: String,
        answer: oneshot::Sender<()>,
    },
}

/// A commit and the channel of its outcome, which may have no reader any more.
pub(super) struct QueuedCommit {
    pub(super) commit: Commit,
    pub(super) weight: usize,
    pub(super) answer: oneshot::Sender<Outcome>,
}

/// Whether a commit only lengthens the log of one task, by a little.
fn is_chunk(commit: &Commit) -> bool {
    let Commit { appends, guards, keys, aliases, access, timers, push, blobs, records, entries, texts } = commit;
    let small = |append: &Append| append.open.is_none() && append.row.is_none() && append.payload.len() <= CHUNK_BYTES;
    let one = matches!(&appends[..], [append] if small(append));
    let alone = guards.is_empty() && keys.is_empty() && aliases.is_empty() && access.is_empty();
    let plain = timers.is_empty() && push.is_empty() && blobs.is_empty() && records.is_empty() && entries.is_empty();
    one && alone && plain && texts.is_empty()
}

/// The next work for the writer.
pub(super) enum NextJobs {
    Jobs(Vec<WriterJob>),
    /// Nothing came in the time given.
    Nothing,
    /// Nothing is left and nothing more will come.
    Closed,
}

impl JobQueue {
    pub(super) fn new(max_commits: usize, max_bytes: usize) -> JobQueue {
        JobQueue { state: Mutex::default(), filled: Condvar::new(), max_commits, max_bytes }
    }

    pub(super) fn push_commit(&self, commit: Commit) -> Result<oneshot::Receiver<Outcome>, StoreError> {
        let weight = shape::weight(&commit);
        let urgent = !is_chunk(&commit);
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
        state.urgent |= urgent;
        state.jobs.push(WriterJob::Commit(QueuedCommit { commit, weight, answer }));
        let enough = urgent || !state.lingering || state.jobs.len() >= self.max_commits / 2;
        drop(state);
        if enough {
            self.filled.notify_one();
        }
        Ok(answered)
    }

    /// Queues one of the few jobs that are not commits.
    pub(super) fn push(&self, job: WriterJob) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        state.jobs.push(job);
        state.urgent = true;
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Waits for so long, as long as nothing but chunks of turns is queued.
    pub(super) fn linger(&self, until: Instant) {
        let mut state = self.state.lock();
        state.lingering = true;
        while !state.urgent && !state.closed && state.jobs.len() < self.max_commits / 2 {
            if self.filled.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        state.lingering = false;
    }

    /// Takes all that waits, or waits for something.
    pub(super) fn take(&self, patience: Option<Duration>) -> NextJobs {
        let mut state = self.state.lock();
        while state.jobs.is_empty() {
            if state.closed {
                return NextJobs::Closed;
            }
            match patience {
                None => self.filled.wait(&mut state),
                Some(patience) => {
                    if self.filled.wait_for(&mut state, patience).timed_out() && state.jobs.is_empty() {
                        return NextJobs::Nothing;
                    }
                }
            }
        }
        state.bytes = 0;
        state.urgent = false;
        let room = Vec::with_capacity(state.jobs.len().min(1024));
        NextJobs::Jobs(std::mem::replace(&mut state.jobs, room))
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
        self.filled.notify_all();
    }
}
