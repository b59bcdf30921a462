//! Push configs: rows beside the log that go with their task.
//!
//! Deliveries move them far more often than anything else happens to them, so a step that leaves a config in its state
//! is one statement that touches no index. Only those that are active or dead are in an index, which is what walks go
//! along; the many that are done cost nothing but their room.

use std::sync::Arc;

use bytes::Bytes;
use model::{Epoch, PushChange, PushProgress, PushRow, PushState, Seq, TaskId, Time};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::apply::CommitApplier;
use super::columns::TaskIdColumn;
use super::counters;
use super::pool::Error;
use super::read::limit_of;

impl CommitApplier<'_> {
    pub(super) fn change_push(&mut self, change: &PushChange) -> rusqlite::Result<()> {
        let (PushChange::Put(PushRow { task, .. })
        | PushChange::Moved { task, .. }
        | PushChange::SetBack { task, .. }
        | PushChange::Remove { task, .. }
        | PushChange::Over { task, .. }) = change;
        let Some(no) = self.number(*task)? else {
            // Its configs went with it, and a new one would never go.
            return Ok(());
        };
        match change {
            PushChange::Put(row) => {
                if !self.add_push(no, row)? {
                    // Taken out and put in again, it is the one made last.
                    self.drop_push(no, &row.id)?;
                    self.add_push(no, row)?;
                }
                Ok(())
            }
            PushChange::Moved { id, edition, epoch, progress, .. } => {
                self.move_push(no, id, (*edition, Some(*epoch)), progress)
            }
            PushChange::SetBack { id, edition, progress, .. } => self.move_push(no, id, (*edition, None), progress),
            PushChange::Remove { id, .. } => self.drop_push(no, id),
            PushChange::Over { id, edition, epoch, .. } => match self.find_push(no, id, *edition)? {
                Some(found) if found.epoch == *epoch => self.drop_push(no, id),
                Some(_) | None => Ok(()),
            },
        }
    }

    /// Whether it was added: not if there is one of that id.
    fn add_push(&mut self, no: i64, row: &PushRow) -> rusqlite::Result<bool> {
        let progress = &row.progress;
        let added = self.sql.push_add.execute(params![
            no,
            row.id,
            TaskIdColumn(row.task),
            row.edition as i64,
            progress.state.code(),
            progress.next.0 as i64,
            progress.due.0,
            progress.attempts,
            progress.failing_since.map(|at| at.0),
            progress.delivered as i64,
            progress.delivered_at.map(|at| at.0),
            row.made_at.0,
            progress.trouble,
            &row.spec[..],
            row.epoch.0 as i64,
        ])?;
        if added > 0 {
            self.count_push(progress.state, 1);
        }
        Ok(added > 0)
    }

    fn find_push(&mut self, no: i64, id: &str, edition: u64) -> rusqlite::Result<Option<Found>> {
        let found = self.sql.push_find.query_row(params![no, id, edition as i64], |row| {
            let (epoch, next) = (row.get::<_, i64>(1)? as u64, row.get::<_, i64>(2)? as u64);
            Ok(Found { state: state_from(row, 0)?, epoch: Epoch(epoch), next: Seq(next) })
        });
        found.optional()
    }

    /// Without an epoch the progress is set, and the next epoch begins.
    fn move_push(
        &mut self,
        no: i64,
        id: &str,
        (edition, epoch): (u64, Option<Epoch>),
        progress: &PushProgress,
    ) -> rusqlite::Result<()> {
        if let Some(epoch) = epoch
            && self.sql.push_step.execute(bound(no, id, edition, epoch, progress))? > 0
        {
            return Ok(());
        }
        let Some(found) = self.find_push(no, id, edition)? else { return Ok(()) };
        let epoch = match epoch {
            None => Epoch(found.epoch.0 + 1),
            Some(epoch) if epoch == found.epoch && found.next <= progress.next => epoch,
            // Another process or an operator has been there since.
            Some(_) => return Ok(()),
        };
        self.sql.push_move.execute(bound(no, id, edition, epoch, progress))?;
        self.count_push(found.state, -1);
        self.count_push(progress.state, 1);
        Ok(())
    }

    fn drop_push(&mut self, no: i64, id: &str) -> rusqlite::Result<()> {
        let gone = self.sql.push_drop.query_row(params![no, id], |row| state_from(row, 0)).optional()?;
        if let Some(state) = gone {
            self.count_push(state, -1);
        }
        Ok(())
    }

    /// Removes all configs of a task.
    pub(super) fn remove_push(&mut self, no: i64) -> rusqlite::Result<()> {
        let gone: Vec<PushState> =
            self.sql.push_delete.query_map(params![no], |row| state_from(row, 0))?.collect::<rusqlite::Result<_>>()?;
        for state in gone {
            self.count_push(state, -1);
        }
        Ok(())
    }

    fn count_push(&mut self, state: PushState, n: i64) {
        match state {
            PushState::Active => self.tally.add(counters::PUSH_ACTIVE, n),
            PushState::Dead => self.tally.add(counters::PUSH_DEAD, n),
            PushState::Done => {}
        }
    }
}

/// The columns that a step of a config reads.
struct Found {
    state: PushState,
    epoch: Epoch,
    next: Seq,
}

/// The parameters of `push_step` and `push_move`.
fn bound<'a>(
    no: i64,
    id: &'a str,
    edition: u64,
    epoch: Epoch,
    progress: &'a PushProgress,
) -> impl rusqlite::Params + 'a {
    (
        no,
        id,
        edition as i64,
        progress.state.code(),
        progress.next.0 as i64,
        progress.due.0,
        progress.attempts,
        progress.failing_since.map(|at| at.0),
        progress.delivered as i64,
        progress.delivered_at.map(|at| at.0),
        progress.trouble.as_deref(),
        epoch.0 as i64,
    )
}

/// A query for rows as [`row_from`] reads them.
macro_rules! rows {
    ($from:literal) => {
        concat!(
            "SELECT push.task, push.id, push.edition, push.spec, push.made_at, push.state, push.next, push.due,
                    push.attempts, push.failing_since, push.delivered, push.delivered_at, push.trouble, push.epoch
             FROM ",
            $from
        )
    };
}

const OF_TASK: &str = rows!("push WHERE push.task_no = (SELECT no FROM task WHERE id = ?1) ORDER BY push.made_no");

/// Those in a state, after task ?1 and id ?2.
fn walk(state: PushState) -> &'static str {
    match state {
        PushState::Active => rows!(
            "push INDEXED BY push_active WHERE push.state = 1 AND (push.task, push.id) > (?1, ?2)
             ORDER BY push.task, push.id LIMIT ?3"
        ),
        PushState::Dead => rows!(
            "push INDEXED BY push_dead WHERE push.state = 3 AND (push.task, push.id) > (?1, ?2)
             ORDER BY push.task, push.id LIMIT ?3"
        ),
        // In no index: task by task, from where the last page ended.
        PushState::Done => rows!(
            "task INDEXED BY task_by_id CROSS JOIN push ON push.task_no = task.no
             WHERE task.id >= ?1 AND push.state = 2 AND (push.task, push.id) > (?1, ?2)
             ORDER BY task.id, push.id LIMIT ?3"
        ),
    }
}

/// The configs of a task, oldest first.
pub(super) fn of_task(db: &Connection, task: TaskId) -> Result<Vec<PushRow>, Error> {
    let mut statement = db.prepare_cached(OF_TASK)?;
    let rows = statement.query_map(params![TaskIdColumn(task)], row_from)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// A page of the configs in a state, in order of task and id.
pub(super) fn page(
    db: &Connection,
    state: PushState,
    after: Option<&(TaskId, Arc<str>)>,
    limit: usize,
) -> Result<Vec<PushRow>, Error> {
    let mut statement = db.prepare_cached(walk(state))?;
    // The empty blob is before every task.
    let (task, id) = after.map_or((&[][..], ""), |(task, id)| (task.0.as_bytes(), id));
    let rows = statement.query_map(params![task, id, limit_of(limit)], row_from)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Whether a page is short work. A walk over what is done passes every task on its way.
pub(super) fn is_short(state: PushState, limit: usize) -> bool {
    match state {
        PushState::Active | PushState::Dead => limit <= 200,
        PushState::Done => false,
    }
}

fn row_from(columns: &Row<'_>) -> rusqlite::Result<PushRow> {
    Ok(PushRow {
        task: columns.get::<_, TaskIdColumn>(0)?.0,
        id: columns.get(1)?,
        edition: columns.get::<_, i64>(2)? as u64,
        epoch: Epoch(columns.get::<_, i64>(13)? as u64),
        spec: Bytes::copy_from_slice(columns.get_ref(3)?.as_blob()?),
        made_at: Time(columns.get(4)?),
        progress: PushProgress {
            state: state_from(columns, 5)?,
            next: Seq(columns.get::<_, i64>(6)? as u64),
            due: Time(columns.get(7)?),
            attempts: columns.get(8)?,
            failing_since: columns.get::<_, Option<i64>>(9)?.map(Time),
            delivered: columns.get::<_, i64>(10)? as u64,
            delivered_at: columns.get::<_, Option<i64>>(11)?.map(Time),
            trouble: columns.get(12)?,
        },
    })
}

fn state_from(columns: &Row<'_>, at: usize) -> rusqlite::Result<PushState> {
    let code: u8 = columns.get(at)?;
    PushState::from_code(code).ok_or(rusqlite::Error::IntegralValueOutOfRange(at, i64::from(code)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::{Options, SqliteStore, folder};

    #[test]
    fn a_walk_goes_along_an_index_and_sorts_nothing() {
        let dir = tempfile::tempdir().unwrap();
        drop(SqliteStore::open(Options::new(dir.path())).unwrap());
        let db = Connection::open(folder::database(dir.path())).unwrap();
        for (state, along) in [
            (PushState::Active, "SEARCH push USING INDEX push_active ((task,id)>(?,?))"),
            (PushState::Done, "SEARCH task USING COVERING INDEX task_by_id (id>?)"),
            (PushState::Dead, "SEARCH push USING INDEX push_dead ((task,id)>(?,?))"),
        ] {
            let mut explained = db.prepare(&format!("EXPLAIN QUERY PLAN {}", walk(state))).unwrap();
            let mut steps = explained.raw_query();
            let mut plan = Vec::new();
            while let Some(step) = steps.next().unwrap() {
                plan.push(step.get::<_, String>("detail").unwrap());
            }
            assert_eq!(plan[0], along);
            assert!(!plan.iter().any(|step| step.contains("SCAN") || step.contains("TEMP")), "{plan:?}");
        }
    }

    #[test]
    fn the_codes_in_the_indexes_are_those_of_the_states() {
        assert_eq!([PushState::Active, PushState::Done, PushState::Dead].map(PushState::code), [1, 2, 3]);
    }
}
