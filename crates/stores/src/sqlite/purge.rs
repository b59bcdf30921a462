//! Removal of tasks: with their log, list rows, counts, timers, push configs and the blobs that no other task uses.

use model::{TaskId, Time};
use rusqlite::params;

use super::apply::{CommitApplier, KnownTask};
use super::columns::TaskIdColumn;
use super::counters;
use crate::shape;

/// Idempotency keys deleted in one go, so that a purge never holds the writer for long. The next purge goes on.
const KEYS_AT_ONCE: i64 = 10_000;

impl CommitApplier<'_> {
    /// Removes settled tasks older than `before`, at most `limit`, and keys of hours before that of `keys_before`.
    pub(super) fn purge(&mut self, before: Time, keys_before: Time, limit: usize) -> rusqlite::Result<u64> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let old: Vec<TaskId> = self
            .sql
            .task_old
            .query_map(params![before.0, limit], |row| Ok(row.get::<_, TaskIdColumn>(0)?.0))?
            .collect::<rusqlite::Result<_>>()?;
        let mut gone = 0;
        for task in old {
            match self.take(task) {
                Ok(Some(kept)) => {
                    self.remove_kept(task, &kept)?;
                    gone += 1;
                }
                Ok(None) => {}
                // One that cannot be read stays, and the others go.
                Err(
                    error @ (rusqlite::Error::FromSqlConversionFailure(..)
                    | rusqlite::Error::IntegralValueOutOfRange(..)
                    | rusqlite::Error::InvalidColumnType(..)),
                ) => {
                    tracing::error!(%task, %error, "a task is not purged: its row cannot be read");
                }
                Err(error) => return Err(error),
            }
        }
        let keys = self.sql.key_purge.execute(params![shape::hour(keys_before), KEYS_AT_ONCE])?;
        self.tally.add(counters::KEYS, -(keys as i64));
        self.wrote |= keys > 0;
        Ok(gone)
    }

    /// Removes one task and says whether it was there. Its idempotency keys go with their hour; until then they count
    /// for nothing, because their task is gone.
    pub(super) fn remove(&mut self, task: TaskId) -> rusqlite::Result<bool> {
        let Some(kept) = self.take(task)? else {
            return Ok(false);
        };
        self.remove_kept(task, &kept)?;
        Ok(true)
    }

    fn remove_kept(&mut self, task: TaskId, kept: &KnownTask) -> rusqlite::Result<()> {
        self.wrote = true;
        if kept.row.listed {
            self.unlist(kept, true)?;
        }
        self.tail.take(task);
        let rows = self.sql.log_delete.execute(params![kept.no])?;
        let timers = self.sql.timer_delete.execute(params![kept.no])?;
        let aliases = self.sql.alias_delete.execute(params![kept.no])?;
        self.remove_push(kept.no)?;
        self.remove_blobs(kept.no)?;
        self.sql.task_delete.execute(params![kept.no])?;
        self.tally.count(&kept.row, -1);
        self.tally.add(counters::LOG_ROWS, -(rows as i64));
        self.tally.add(counters::TIMERS, -(timers as i64));
        self.tally.add(counters::ALIASES, -(aliases as i64));
        Ok(())
    }

    fn remove_blobs(&mut self, task_no: i64) -> rusqlite::Result<()> {
        let used: Vec<i64> =
            self.sql.blob_uses.query_map(params![task_no], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
        if used.is_empty() {
            return Ok(());
        }
        self.sql.blob_unuse.execute(params![task_no])?;
        for blob_no in used {
            let mut unused = self.sql.blob_unused.query(params![blob_no])?;
            let Some(bytes) = unused.next()?.map(|row| row.get::<_, i64>(0)).transpose()? else {
                continue;
            };
            drop(unused);
            self.sql.blob_delete.execute(params![blob_no])?;
            self.tally.add(counters::BLOBS, -1);
            self.tally.add(counters::BLOB_BYTES, -bytes);
        }
        Ok(())
    }
}
