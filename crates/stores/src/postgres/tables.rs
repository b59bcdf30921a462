//! The changes of a group of commits to each table: column by column, as the statement that writes it takes them.

use std::collections::BTreeMap;

use model::TaskId;
use model::ports::store::{Append, IndexRow};
use tokio::join;
use tokio_postgres::Error;
use uuid::Uuid;

use super::apply::{AliasEntry, Hash, KeyEntry, LockedTask, TimerEntry};
use super::columns::{code, pack_uses, pack_views};
use super::connect::{Conn, run};
use super::counters::{self, CounterSums};
use super::statements as sql;
use crate::shape;

#[derive(Default)]
pub(super) struct TaskColumns<'a> {
    no: Vec<i64>,
    id: Vec<Uuid>,
    seq: Vec<i64>,
    epoch: Vec<i64>,
    holder: Vec<i64>,
    status_at: Vec<i64>,
    tenant_no: Vec<i32>,
    agent_no: Vec<i32>,
    state: Vec<i16>,
    listed: Vec<bool>,
    running: Vec<bool>,
    settled: Vec<bool>,
    context: Vec<&'a [u8]>,
    views: Vec<Vec<u8>>,
}

impl<'a> TaskColumns<'a> {
    pub(super) fn of(tasks: &[(TaskId, &'a LockedTask)]) -> TaskColumns<'a> {
        let mut columns = TaskColumns::default();
        for (task, kept) in tasks {
            columns.no.push(kept.no);
            columns.id.push(task.0);
            columns.seq.push(kept.seq as i64);
            columns.epoch.push(kept.epoch as i64);
            columns.holder.push(kept.holder);
            columns.status_at.push(kept.row.status_at.0);
            columns.tenant_no.push(kept.tenant_no);
            columns.agent_no.push(kept.agent_no);
            columns.state.push(code(kept.row.state));
            columns.listed.push(kept.row.listed);
            columns.running.push(kept.row.running);
            columns.settled.push(kept.row.settled);
            columns.context.push(&kept.context);
            columns.views.push(pack_views(&kept.views));
        }
        columns
    }

    pub(super) async fn add(&self, db: &Conn, me: i64) -> Result<(), Error> {
        let statement = db.execute(
            &sql::TASK_ADD,
            [
                &self.no,
                &self.id,
                &self.seq,
                &self.epoch,
                &me,
                &self.status_at,
                &self.tenant_no,
                &self.agent_no,
                &self.state,
                &self.listed,
                &self.running,
                &self.settled,
                &self.context,
                &self.views,
            ],
        );
        run(!self.id.is_empty(), statement).await
    }

    pub(super) async fn change(&self, db: &Conn) -> Result<(), Error> {
        let statement = db.execute(
            &sql::TASK_CHANGE,
            [
                &self.id,
                &self.seq,
                &self.epoch,
                &self.holder,
                &self.status_at,
                &self.state,
                &self.listed,
                &self.running,
                &self.settled,
            ],
        );
        run(!self.id.is_empty(), statement).await
    }
}

#[derive(Default)]
pub(super) struct LogColumns<'a> {
    task_no: Vec<i64>,
    first: Vec<i64>,
    last: Vec<i64>,
    epoch: Vec<Option<i64>>,
    payload: Vec<&'a [u8]>,
}

impl<'a> LogColumns<'a> {
    pub(super) fn of(log: &[(i64, &'a Append)]) -> LogColumns<'a> {
        let mut columns = LogColumns::default();
        for (no, append) in log {
            columns.task_no.push(*no);
            columns.first.push(append.expected.0 as i64 + 1);
            columns.last.push(append.last().0 as i64);
            columns.epoch.push(append.epoch.map(|epoch| epoch.0 as i64));
            columns.payload.push(&append.payload);
        }
        columns
    }

    pub(super) async fn add(&self, db: &Conn) -> Result<(), Error> {
        let statement = db.execute(&sql::LOG_ADD, [&self.task_no, &self.first, &self.last, &self.epoch, &self.payload]);
        run(!self.task_no.is_empty(), statement).await
    }
}

/// Rows of lists that come, move and go.
#[derive(Default)]
pub(super) struct Lists<'a> {
    add: Places<'a>,
    moved: Places<'a>,
    drop: Places<'a>,
}

#[derive(Default)]
struct Places<'a> {
    view_no: Vec<i32>,
    state: Vec<i16>,
    status_at: Vec<i64>,
    task_no: Vec<i64>,
    task: Vec<Uuid>,
    context: Vec<&'a [u8]>,
    to_state: Vec<i16>,
    to_status_at: Vec<i64>,
}

impl<'a> Places<'a> {
    fn push(&mut self, task: TaskId, kept: &'a LockedTask, view_no: i32, row: &IndexRow, to: &IndexRow) {
        self.view_no.push(view_no);
        self.state.push(code(row.state));
        self.status_at.push(row.status_at.0);
        self.task_no.push(kept.no);
        self.task.push(task.0);
        self.context.push(&kept.context);
        self.to_state.push(code(to.state));
        self.to_status_at.push(to.status_at.0);
    }
}

impl<'a> Lists<'a> {
    /// Moves a task in the lists it is in. Only what lists sort or filter by moves anything.
    pub(super) fn move_task(
        &mut self,
        task: TaskId,
        kept: &'a LockedTask,
        before: Option<&IndexRow>,
        after: Option<&IndexRow>,
        tally: &mut CounterSums,
    ) {
        let (before, after) = (before.filter(|row| row.listed), after.filter(|row| row.listed));
        for &view_no in &kept.views {
            match (before, after) {
                (None, None) => {}
                (None, Some(row)) => {
                    self.add.push(task, kept, view_no, row, row);
                    tally.list(view_no, counters::ALL, 1);
                }
                (Some(row), None) => {
                    self.drop.push(task, kept, view_no, row, row);
                    tally.list(view_no, counters::ALL, -1);
                }
                (Some(row), Some(to)) => {
                    if (row.state, row.status_at) != (to.state, to.status_at) {
                        self.moved.push(task, kept, view_no, row, to);
                    }
                }
            }
            before.into_iter().for_each(|row| tally.list(view_no, code(row.state), -1));
            after.into_iter().for_each(|row| tally.list(view_no, code(row.state), 1));
        }
    }

    pub(super) async fn write(&self, db: &Conn) -> Result<(), Error> {
        let (add, moved, drop) = (&self.add, &self.moved, &self.drop);
        let results = join!(
            biased;
            run(
                !add.task.is_empty(),
                db.execute(
                    &sql::LISTING_ADD,
                    [&add.view_no, &add.state, &add.status_at, &add.task_no, &add.task, &add.context]
                )
            ),
            run(
                !moved.task.is_empty(),
                db.execute(
                    &sql::LISTING_MOVE,
                    [
                        &moved.view_no,
                        &moved.state,
                        &moved.status_at,
                        &moved.task_no,
                        &moved.to_state,
                        &moved.to_status_at
                    ]
                )
            ),
            run(
                !drop.task.is_empty(),
                db.execute(&sql::LISTING_DROP, [&drop.view_no, &drop.state, &drop.status_at, &drop.task_no])
            ),
        );
        results.0.and(results.1).and(results.2)
    }
}

#[derive(Default)]
struct KeyRows<'a> {
    key: Vec<&'a [u8]>,
    hour: Vec<i64>,
    uses: Vec<Vec<u8>>,
}

pub(super) struct KeyColumns<'a> {
    add: KeyRows<'a>,
    change: KeyRows<'a>,
}

impl<'a> KeyColumns<'a> {
    pub(super) fn of(keys: &'a BTreeMap<Hash, KeyEntry>) -> KeyColumns<'a> {
        let mut columns = KeyColumns { add: KeyRows::default(), change: KeyRows::default() };
        for (hash, key) in keys.iter().filter(|(_, key)| key.dirty) {
            let rows = if key.there { &mut columns.change } else { &mut columns.add };
            rows.key.push(hash);
            rows.hour.push(key.uses.first().map_or(0, |used| shape::hour(used.at)));
            rows.uses.push(pack_uses(&key.uses));
        }
        columns
    }

    pub(super) async fn write(&self, db: &Conn) -> Result<(), Error> {
        let (add, change) = (&self.add, &self.change);
        let results = join!(
            biased;
            run(!add.key.is_empty(), db.execute(&sql::KEY_ADD, [&add.key, &add.hour, &add.uses])),
            run(!change.key.is_empty(), db.execute(&sql::KEY_CHANGE, [&change.key, &change.hour, &change.uses])),
        );
        results.0.and(results.1)
    }
}

#[derive(Default)]
pub(super) struct AliasColumns<'a> {
    add: (Vec<&'a [u8]>, Vec<Uuid>),
    change: (Vec<&'a [u8]>, Vec<Uuid>),
}

impl<'a> AliasColumns<'a> {
    pub(super) fn of(aliases: &'a BTreeMap<Hash, AliasEntry>, tally: &mut CounterSums) -> AliasColumns<'a> {
        let mut columns = AliasColumns::default();
        for (key, alias) in aliases.iter().filter(|(_, alias)| alias.before != alias.now) {
            let Some(task) = alias.now else { continue };
            let rows = if alias.before.is_some() { &mut columns.change } else { &mut columns.add };
            rows.0.push(key);
            rows.1.push(task.0);
        }
        tally.add(counters::ALIASES, columns.add.0.len() as i64);
        columns
    }

    pub(super) async fn write(&self, db: &Conn) -> Result<(), Error> {
        let (add, change) = (&self.add, &self.change);
        let results = join!(
            biased;
            run(!add.0.is_empty(), db.execute(&sql::ALIAS_ADD, [&add.0, &add.1])),
            run(!change.0.is_empty(), db.execute(&sql::ALIAS_CHANGE, [&change.0, &change.1])),
        );
        results.0.and(results.1)
    }
}

#[derive(Default)]
pub(super) struct TimerColumns {
    put: (Vec<Uuid>, Vec<i16>, Vec<i64>, Vec<i64>),
    drop: (Vec<Uuid>, Vec<i16>),
}

impl TimerColumns {
    pub(super) fn of(
        timers: &BTreeMap<(TaskId, u8), TimerEntry>,
        number_of: impl Fn(TaskId) -> i64,
        tally: &mut CounterSums,
    ) -> TimerColumns {
        let mut columns = TimerColumns::default();
        for ((task, kind), timer) in timers.iter().filter(|(_, timer)| timer.before != timer.now) {
            let (kind, no) = (i16::from(*kind), number_of(*task));
            match timer.now {
                Some(due) => {
                    columns.put.0.push(task.0);
                    columns.put.1.push(kind);
                    columns.put.2.push(no);
                    columns.put.3.push(due);
                }
                None => {
                    columns.drop.0.push(task.0);
                    columns.drop.1.push(kind);
                }
            }
            let n = i64::from(timer.now.is_some()) - i64::from(timer.before.is_some());
            tally.add(counters::TIMERS, n);
        }
        columns
    }

    pub(super) async fn write(&self, db: &Conn) -> Result<(), Error> {
        let (put, drop) = (&self.put, &self.drop);
        let results = join!(
            biased;
            run(!put.0.is_empty(), db.execute(&sql::TIMER_PUT, [&put.0, &put.1, &put.2, &put.3])),
            run(!drop.0.is_empty(), db.execute(&sql::TIMER_DROP, [&drop.0, &drop.1])),
        );
        results.0.and(results.1)
    }
}
