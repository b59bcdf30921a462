//! The writer thread: the only one that changes the file.
//!
//! It takes all that waits, runs it in one transaction, and answers each commit after the transaction's fsync: the more
//! is going on, the larger the groups and the cheaper a commit. Trouble with the disk fails a group, never the thread:
//! the transaction is rolled back, the trouble is noted for `health`, and the next group tries again.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use model::ports::store::{Conflict, Outcome, StoreError};
use rusqlite::{Connection, ErrorCode};

use super::apply::CommitApplier;
use super::position::PositionFile;
use super::queue::{NextJobs, QueuedCommit, WriterJob};
use super::statements::Statements;
use super::tail::ChunkTail;
use super::{Shared, checkpoint, trouble};

/// A commit above this is a group of its own, so that small ones never wait for its bytes.
const LONE_BYTES: usize = 256 << 10;
/// A group ends here; the rest of the queue is the next one.
const GROUP_BYTES: usize = 4 << 20;
const GROUP_COMMITS: usize = 1024;
/// Between two groups of nothing but chunks. The writer of a busy server would otherwise write a page for each of them.
const BREATH: Duration = Duration::from_millis(4);
/// How often a troubled writer with nothing to do tries whether writing works again.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Closes the queue however the thread ends, so that no caller waits in vain.
struct DropGuard<'a>(&'a Shared);

impl Drop for DropGuard<'_> {
    fn drop(&mut self) {
        self.0.queue.abandon();
    }
}

/// Runs until the queue is closed and empty. `ready` receives whether the statements could be prepared.
pub(super) fn run(
    db: Connection,
    ledger: PositionFile,
    unsaved_epoch: Option<i64>,
    shared: &Arc<Shared>,
    ready: SyncSender<rusqlite::Result<()>>,
) {
    let _farewell = DropGuard(shared);
    let prepared = Statements::prepare(&db).and_then(|sql| {
        let next_no = db.query_row("SELECT coalesce(max(no), 0) + 1 FROM task", [], |row| row.get(0))?;
        let tail = ChunkTail::scan(&db)?;
        *shared.tail.write() = tail.pieces().clone();
        Ok(CommitApplier::new(sql, tail, next_no))
    });
    let pen = match prepared {
        Ok(pen) => pen,
        Err(error) => {
            // Without a receiver the store is not being opened any more.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    let checkpoints = checkpoint::CheckpointRule::new(shared.options.wal_limit_bytes, shared.page_bytes);
    let mut writer = Writer { db: &db, pen, shared, checkpoints, ledger, unsaved_epoch, emptied: None };
    let mut breathed = Instant::now();
    loop {
        // A single commit is not delayed.
        if breathed.elapsed() < BREATH {
            shared.queue.linger(breathed + BREATH);
        }
        let patience = shared.trouble.lock().is_some().then_some(PROBE_EVERY);
        match shared.queue.take(patience) {
            NextJobs::Jobs(jobs) => {
                writer.work(jobs);
                breathed = Instant::now();
            }
            NextJobs::Nothing => writer.probe(),
            NextJobs::Closed => break,
        }
    }
    // Changes of the log from here on are no loss.
    writer.ledger.forget();
    drop(writer);
    checkpoint::at_close(&db, &shared.checkpoints);
}

struct Writer<'a> {
    db: &'a Connection,
    pen: CommitApplier<'a>,
    shared: &'a Arc<Shared>,
    checkpoints: checkpoint::CheckpointRule,
    /// How far the WAL has come, for the next start to compare.
    ledger: PositionFile,
    /// This start's number, where the disk was too full to write it.
    unsaved_epoch: Option<i64>,
    /// When the WAL was last emptied to make room.
    emptied: Option<Instant>,
}

/// The reason a transaction failed, as far as it is known.
struct Failure {
    error: rusqlite::Error,
    /// It failed in the COMMIT itself: what is on the disk is not known for sure.
    at_commit: bool,
}

impl Writer<'_> {
    fn work(&mut self, jobs: Vec<WriterJob>) {
        let mut group: Vec<QueuedCommit> = Vec::with_capacity(jobs.len().min(GROUP_COMMITS));
        let mut bytes = 0;
        for job in jobs {
            let full = group.len() >= GROUP_COMMITS || bytes >= GROUP_BYTES;
            let joins = matches!(&job, WriterJob::Commit(waiting) if waiting.weight <= LONE_BYTES);
            if full || !joins {
                self.group(std::mem::take(&mut group));
                bytes = 0;
            }
            match job {
                WriterJob::Commit(waiting) if joins => {
                    bytes += waiting.weight;
                    group.push(waiting);
                }
                WriterJob::Commit(waiting) => self.group(vec![waiting]),
                WriterJob::Purge { before, keys_before, limit, answer } => {
                    let done = self.transact(|pen| pen.purge(before, keys_before, limit));
                    let _ = answer.send(self.named(done));
                }
                WriterJob::Remove { task, answer } => {
                    let done = self.transact(|pen| pen.remove(task));
                    let _ = answer.send(self.named(done));
                }
                #[cfg(test)]
                WriterJob::Pragma { text, answer } => {
                    self.db.execute_batch(&text).expect("a pragma of a test");
                    let _ = answer.send(());
                }
            }
        }
        self.group(group);
    }

    /// Commits a group and answers each of it.
    fn group(&mut self, group: Vec<QueuedCommit>) {
        if group.is_empty() {
            return;
        }
        let mut result = self.attempt(&group);
        // With callers that try again there is never a quiet moment for a probe; so room is made here as well.
        if result.as_ref().is_err_and(|failure| failure.error.sqlite_error_code() == Some(ErrorCode::DiskFull))
            && self.emptied.is_none_or(|emptied| emptied.elapsed() >= PROBE_EVERY)
        {
            self.make_room();
            result = self.attempt(&group);
        }
        match result {
            Ok(conflicts) => {
                for (waiting, conflict) in group.into_iter().zip(conflicts) {
                    answer(waiting, conflict.map_or(Outcome::Done, Outcome::Conflict));
                }
            }
            // One commit made the transaction fail, not the disk: find out which, and let the others pass.
            Err(failure) if group.len() > 1 && !failure.at_commit && !trouble::is_environmental(&failure.error) => {
                for waiting in group {
                    self.group(vec![waiting]);
                }
            }
            Err(failure) => {
                let outcome = self.outcome(failure);
                for waiting in group {
                    answer(waiting, outcome.clone());
                }
            }
        }
    }

    fn attempt(&mut self, group: &[QueuedCommit]) -> Result<Vec<Option<Conflict>>, Failure> {
        self.transact(|pen| group.iter().map(|waiting| pen.commit(&waiting.commit)).collect())
    }

    /// Copies everything out of the WAL and gives its room back.
    fn make_room(&mut self) {
        self.emptied = Some(Instant::now());
        self.ledger.forget();
        self.checkpoints.empty(&mut self.pen.sql, &self.shared.checkpoints);
    }

    /// Runs `work` in a transaction with the counters it changed.
    fn transact<T>(&mut self, work: impl FnOnce(&mut CommitApplier<'_>) -> rusqlite::Result<T>) -> Result<T, Failure> {
        self.pen.begin();
        let mut at_commit = false;
        let result = (|| {
            self.pen.sql.begin.execute([])?;
            if let Some(epoch) = self.unsaved_epoch {
                self.pen.sql.save_epoch.execute([epoch])?;
            }
            let done = work(&mut self.pen)?;
            self.pen.tend_tail()?;
            self.pen.write_accounts()?;
            let CommitApplier { tally, sql, .. } = &mut self.pen;
            tally.write(sql)?;
            at_commit = true;
            self.pen.sql.commit.execute([])?;
            Ok(done)
        })();
        match result {
            Ok(done) => {
                self.unsaved_epoch = None;
                self.pen.tail.publish(&self.shared.tail);
                if self.pen.wrote {
                    self.recovered();
                    let figures = self.checkpoints.after_commit(&mut self.pen.sql, &self.shared.checkpoints);
                    if let Some((pages, copied)) = figures {
                        self.ledger.note(pages, copied);
                    }
                }
                Ok(done)
            }
            Err(error) => {
                self.roll_back();
                Err(Failure { error, at_commit })
            }
        }
    }

    fn roll_back(&mut self) {
        self.pen.forget(&self.shared.tail);
        // After some errors SQLite has rolled back by itself.
        if !self.db.is_autocommit()
            && let Err(error) = self.pen.sql.rollback.execute([])
        {
            tracing::error!(%error, "rolling back failed");
        }
    }

    /// The outcome of the commits of a failed group.
    fn outcome(&mut self, failure: Failure) -> Outcome {
        let trouble = self.note(&failure.error);
        let io = failure.error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
        if !(failure.at_commit && io) {
            return Outcome::Refused(trouble);
        }
        // The group's frames may be in the WAL, whole, though the fsync failed; a crash now could bring them to life. A
        // later transaction is written over them. If that works, the group is gone for certain.
        match self.transact(|pen| {
            pen.wrote = true;
            pen.sql.probe.execute([])
        }) {
            Ok(_) => Outcome::Refused(trouble),
            Err(_) => Outcome::Unknown(trouble),
        }
    }

    fn named<T>(&mut self, result: Result<T, Failure>) -> Result<T, StoreError> {
        result.map_err(|failure| self.note(&failure.error))
    }

    fn note(&mut self, error: &rusqlite::Error) -> StoreError {
        let trouble = trouble::name(error, &self.shared.folder);
        tracing::error!(%error, %trouble, "the store could not write");
        if trouble::is_environmental(error) {
            *self.shared.trouble.lock() = Some(trouble.clone());
        }
        trouble
    }

    fn recovered(&mut self) {
        if self.shared.trouble.lock().take().is_some() {
            tracing::info!("the store can write again");
        }
    }

    /// With trouble and without work: does writing work again? Making room in the WAL may be all that is needed.
    fn probe(&mut self) {
        self.make_room();
        let probed = self.transact(|pen| {
            pen.wrote = true;
            pen.sql.probe.execute([])
        });
        if let Err(failure) = probed {
            *self.shared.trouble.lock() = Some(trouble::name(&failure.error, &self.shared.folder));
        }
    }
}

fn answer(waiting: QueuedCommit, outcome: Outcome) {
    if let Outcome::Conflict(Conflict::Seq(task, seq)) = &outcome {
        tracing::trace!(%task, %seq, "a commit came too late");
    }
    // The caller may have gone; the commit happened all the same.
    let _ = waiting.answer.send(outcome);
}
