//! Push configs: rows beside the log that go with their task.
//!
//! Every config has one replica that delivers it: the one that put it, until it is gone and another adopts it, with the next
//! epoch. Progress of another replica or an earlier epoch changes nothing, nor does progress that goes back. Only those that are active or dead are in an index of their own, which is what
//! walks go along; the many that are done are found through the primary key.

use std::sync::Arc;

use bytes::Bytes;
use model::{Epoch, PushChange, PushProgress, PushRow, PushStanding, PushState, Seq, TaskId, Time};
use tokio::join;
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::columns::{limit_of, text_from};
use super::connect::{Conn, Sql, run};
use super::replica::{Liveness, is_gone};
use super::trouble::Failure;

pub(super) fn task_of(change: &PushChange) -> TaskId {
    match change {
        PushChange::Put(row) => row.task,
        PushChange::Moved { task, .. }
        | PushChange::SetBack { task, .. }
        | PushChange::Remove { task, .. }
        | PushChange::Over { task, .. } => *task,
    }
}

/// The configs of these tasks, locked, because an adoption does not lock its task. The last column says whether it is
/// ours to move.
pub(super) static LOCK: Sql = Sql {
    text: concat!(
        "SELECT task, id, made_no, edition, state, deliverer = $2 OR ",
        is_gone!("push.deliverer", "$3", "$4"),
        ", epoch, next FROM rialto.push WHERE task = ANY ($1) ORDER BY task, id FOR NO KEY UPDATE"
    ),
    types: &[Type::UUID_ARRAY, Type::INT8, Type::FLOAT8, Type::BOOL],
};
pub(super) static ADD: Sql = Sql {
    text: "INSERT INTO rialto.push (task, id, made_no, edition, deliverer, state, next, due, attempts, failing_since,
                                    delivered, delivered_at, made_at, trouble, spec, epoch)
           SELECT task, id, made_no, edition, $15, state, next, due, attempts, failing_since, delivered, delivered_at,
                  made_at, trouble, spec, epoch
           FROM unnest($1::uuid[], $2::bytea[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                       $8::bigint[], $9::bigint[], $10::bytea[], $11::bigint[], $12::bigint[], $13::bigint[],
                       $14::bytea[], $16::bigint[])
                AS u (task, id, state, next, due, attempts, failing_since, delivered, delivered_at, trouble, made_no,
                      edition, made_at, spec, epoch)",
    types: &[
        Type::UUID_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8,
        Type::INT8_ARRAY,
    ],
};
/// The replica that moves a config delivers it from now on.
pub(super) static MOVE: Sql = Sql {
    text: "UPDATE rialto.push SET state = u.state, next = u.next, due = u.due, attempts = u.attempts,
                                  failing_since = u.failing_since, delivered = u.delivered,
                                  delivered_at = u.delivered_at, trouble = u.trouble, deliverer = $11,
                                  epoch = u.epoch
           FROM unnest($1::uuid[], $2::bytea[], $3::smallint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                       $8::bigint[], $9::bigint[], $10::bytea[], $12::bigint[])
                AS u (task, id, state, next, due, attempts, failing_since, delivered, delivered_at, trouble, epoch)
           WHERE push.task = u.task AND push.id = u.id",
    types: &[
        Type::UUID_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8,
        Type::INT8_ARRAY,
    ],
};
pub(super) static DROP: Sql = Sql {
    text: "DELETE FROM rialto.push USING unnest($1::uuid[], $2::bytea[]) AS u (task, id)
           WHERE push.task = u.task AND push.id = u.id",
    types: &[Type::UUID_ARRAY, Type::BYTEA_ARRAY],
};

/// The change of a group to one config.
pub(super) enum PushWrite<'a> {
    Put { row: &'a PushRow, made_no: i64, epoch: Epoch, progress: &'a PushProgress, gone: bool },
    Move(TaskId, &'a str, Epoch, &'a PushProgress),
    Drop(TaskId, &'a str),
}

/// A config in a group: what the database has of it, and what the group makes of it.
pub(super) struct ConfigEntry<'a> {
    pub(super) before: Option<PushState>,
    pub(super) now: Option<ConfigNow<'a>>,
}

pub(super) struct ConfigNow<'a> {
    pub(super) edition: u64,
    pub(super) epoch: Epoch,
    pub(super) next: Seq,
    pub(super) made_no: i64,
    pub(super) state: PushState,
    /// Whether it is ours to move.
    pub(super) ours: bool,
    pub(super) put: Option<&'a PushRow>,
    pub(super) progress: Option<&'a PushProgress>,
}

impl ConfigNow<'_> {
    /// Whether this replica moves it, and in this epoch.
    pub(super) fn is_held(&self, edition: u64, epoch: Epoch) -> bool {
        self.ours && (self.edition, self.epoch) == (edition, epoch)
    }
}

impl<'a> ConfigEntry<'a> {
    pub(super) fn is_changed(&self) -> bool {
        match &self.now {
            None => self.before.is_some(),
            Some(now) => now.put.is_some() || now.progress.is_some(),
        }
    }

    /// Progress of its deliverer, in its epoch and not behind what is kept; any other changes nothing.
    pub(super) fn move_on(&mut self, edition: u64, epoch: Epoch, progress: &'a PushProgress) {
        if let Some(now) = self.now.as_mut().filter(|now| now.is_held(edition, epoch) && now.next <= progress.next) {
            (now.state, now.next, now.progress) = (progress.state, progress.next, Some(progress));
        }
    }

    /// This replica takes it in the next epoch, with this progress. Answers whether it was there to be taken.
    pub(super) fn set_back(&mut self, edition: u64, progress: &'a PushProgress) -> bool {
        let Some(now) = self.now.as_mut().filter(|now| now.edition == edition) else { return false };
        (now.epoch, now.ours) = (Epoch(now.epoch.0 + 1), true);
        (now.state, now.next, now.progress) = (progress.state, progress.next, Some(progress));
        true
    }

    pub(super) fn write<'w>(&'w self, task: TaskId, id: &'w str) -> Option<PushWrite<'w>>
    where
        'a: 'w,
    {
        let gone = self.before.is_some();
        match &self.now {
            None => gone.then_some(PushWrite::Drop(task, id)),
            Some(ConfigNow { put: Some(row), made_no, epoch, progress, .. }) => {
                let (made_no, epoch, progress) = (*made_no, *epoch, progress.unwrap_or(&row.progress));
                Some(PushWrite::Put { row, made_no, epoch, progress, gone })
            }
            Some(ConfigNow { progress: Some(progress), epoch, .. }) => {
                Some(PushWrite::Move(task, id, *epoch, progress))
            }
            Some(_) => None,
        }
    }
}

#[derive(Default)]
struct ProgressColumns<'a> {
    task: Vec<Uuid>,
    id: Vec<&'a [u8]>,
    state: Vec<i16>,
    next: Vec<i64>,
    due: Vec<i64>,
    attempts: Vec<i64>,
    failing_since: Vec<Option<i64>>,
    delivered: Vec<i64>,
    delivered_at: Vec<Option<i64>>,
    trouble: Vec<Option<&'a [u8]>>,
    epoch: Vec<i64>,
}

impl<'a> ProgressColumns<'a> {
    fn push(&mut self, task: TaskId, id: &'a str, epoch: Epoch, progress: &'a PushProgress) {
        self.task.push(task.0);
        self.id.push(id.as_bytes());
        self.state.push(i16::from(progress.state.code()));
        self.next.push(progress.next.0 as i64);
        self.due.push(progress.due.0);
        self.attempts.push(i64::from(progress.attempts));
        self.failing_since.push(progress.failing_since.map(|at| at.0));
        self.delivered.push(progress.delivered as i64);
        self.delivered_at.push(progress.delivered_at.map(|at| at.0));
        self.trouble.push(progress.trouble.as_deref().map(str::as_bytes));
        self.epoch.push(epoch.0 as i64);
    }
}

/// The changes of a group to configs.
#[derive(Default)]
pub(super) struct PushColumns<'a> {
    drop: (Vec<Uuid>, Vec<&'a [u8]>),
    moved: ProgressColumns<'a>,
    put: ProgressColumns<'a>,
    made_no: Vec<i64>,
    edition: Vec<i64>,
    made_at: Vec<i64>,
    spec: Vec<&'a [u8]>,
}

impl<'a> PushColumns<'a> {
    pub(super) fn of(writes: impl Iterator<Item = PushWrite<'a>>) -> PushColumns<'a> {
        let mut columns = PushColumns::default();
        for write in writes {
            match write {
                PushWrite::Put { row, made_no, epoch, progress, gone } => {
                    if gone {
                        columns.drop.0.push(row.task.0);
                        columns.drop.1.push(row.id.as_bytes());
                    }
                    columns.put.push(row.task, &row.id, epoch, progress);
                    columns.made_no.push(made_no);
                    columns.edition.push(row.edition as i64);
                    columns.made_at.push(row.made_at.0);
                    columns.spec.push(&row.spec);
                }
                PushWrite::Move(task, id, epoch, progress) => columns.moved.push(task, id, epoch, progress),
                PushWrite::Drop(task, id) => {
                    columns.drop.0.push(task.0);
                    columns.drop.1.push(id.as_bytes());
                }
            }
        }
        columns
    }

    pub(super) async fn write(&self, db: &Conn, me: i64) -> Result<(), Error> {
        let (drop, moved, put) = (&self.drop, &self.moved, &self.put);
        let results = join!(
            biased;
            run(!drop.0.is_empty(), db.execute(&DROP, [&drop.0, &drop.1])),
            run(
                !moved.task.is_empty(),
                db.execute(
                    &MOVE,
                    [
                        &moved.task,
                        &moved.id,
                        &moved.state,
                        &moved.next,
                        &moved.due,
                        &moved.attempts,
                        &moved.failing_since,
                        &moved.delivered,
                        &moved.delivered_at,
                        &moved.trouble,
                        &me,
                        &moved.epoch
                    ]
                )
            ),
            run(
                !put.task.is_empty(),
                db.execute(
                    &ADD,
                    [
                        &put.task,
                        &put.id,
                        &put.state,
                        &put.next,
                        &put.due,
                        &put.attempts,
                        &put.failing_since,
                        &put.delivered,
                        &put.delivered_at,
                        &put.trouble,
                        &self.made_no,
                        &self.edition,
                        &self.made_at,
                        &self.spec,
                        &me,
                        &put.epoch
                    ]
                )
            ),
        );
        results.0.and(results.1).and(results.2)
    }
}

/// The columns that [`row_from`] reads.
macro_rules! columns {
    () => {
        "push.task, push.id, push.edition, push.spec, push.made_at, push.state, push.next, push.due, push.attempts,
         push.failing_since, push.delivered, push.delivered_at, push.trouble, push.epoch"
    };
}

/// Those in a state, after task $1 and id $2.
macro_rules! walk {
    ($state:literal) => {
        Sql {
            text: concat!(
                "SELECT ",
                columns!(),
                " FROM rialto.push WHERE push.state = ",
                $state,
                " AND (push.task, push.id) > ($1, $2) ORDER BY push.task, push.id LIMIT $3"
            ),
            types: &[Type::UUID, Type::BYTEA, Type::INT8],
        }
    };
}

pub(super) static ACTIVE: Sql = walk!("1");
pub(super) static DONE: Sql = walk!("2");
pub(super) static DEAD: Sql = walk!("3");

pub(super) static OF_TASK: Sql = Sql {
    text: concat!("SELECT ", columns!(), " FROM rialto.push WHERE push.task = $1 ORDER BY push.made_no"),
    types: &[Type::UUID],
};

/// A page of those that replica $4 delivers, with those whose deliverer is gone, which become its own. One that another
/// transaction has locked is being put or moved just now, and is left to it: the last column says so. A row is answered as
/// the update found it: its deliverer may have kept progress since this statement began.
pub(super) static ADOPT: Sql = Sql {
    text: concat!(
        "WITH page AS MATERIALIZED (
           SELECT task, id, deliverer FROM rialto.push
           WHERE state = 1 AND (task, id) > ($1, $2) AND (deliverer = $4 OR ",
        is_gone!("push.deliverer", "$5", "$6"),
        ") ORDER BY task, id LIMIT $3
         ), free AS MATERIALIZED (
           SELECT push.task, push.id FROM page JOIN rialto.push ON push.task = page.task AND push.id = page.id
           WHERE page.deliverer <> $4 AND push.deliverer = page.deliverer AND push.state = 1
           ORDER BY push.task, push.id FOR NO KEY UPDATE OF push SKIP LOCKED
         ), taken AS (
           UPDATE rialto.push SET deliverer = $4, epoch = push.epoch + 1 FROM free
           WHERE push.task = free.task AND push.id = free.id
           RETURNING ",
        columns!(),
        ")
         SELECT taken.*, true AS ours FROM taken
         UNION ALL
         SELECT ",
        columns!(),
        ", page.deliverer = $4 AS ours FROM page JOIN rialto.push ON push.task = page.task AND push.id = page.id
         WHERE NOT EXISTS (SELECT 1 FROM taken WHERE taken.task = page.task AND taken.id = page.id)
         ORDER BY task, id"
    ),
    types: &[Type::UUID, Type::BYTEA, Type::INT8, Type::INT8, Type::FLOAT8, Type::BOOL],
};

/// How far configs are, in the order asked.
pub(super) static STANDINGS: Sql = Sql {
    text: "SELECT push.edition, push.epoch, push.next, push.deliverer = $3
           FROM unnest($1::uuid[], $2::bytea[]) WITH ORDINALITY AS u (task, id, place)
           LEFT JOIN rialto.push ON push.task = u.task AND push.id = u.id ORDER BY u.place",
    types: &[Type::UUID_ARRAY, Type::BYTEA_ARRAY, Type::INT8],
};

pub(super) async fn standings(
    db: &Conn,
    me: i64,
    configs: &[(TaskId, Arc<str>)],
) -> Result<Vec<Option<PushStanding>>, Failure> {
    let tasks: Vec<Uuid> = configs.iter().map(|(task, _)| task.0).collect();
    let ids: Vec<&[u8]> = configs.iter().map(|(_, id)| id.as_bytes()).collect();
    let read = |row: &Row| -> Result<Option<PushStanding>, Failure> {
        let Some(edition) = row.try_get::<_, Option<i64>>(0)? else { return Ok(None) };
        let (epoch, next) = (row.try_get::<_, i64>(1)? as u64, row.try_get::<_, i64>(2)? as u64);
        let (edition, epoch, next) = (edition as u64, Epoch(epoch), Seq(next));
        Ok(Some(PushStanding { edition, epoch, next, ours: row.try_get(3)? }))
    };
    db.query(&STANDINGS, [&tasks, &ids, &me]).await?.iter().map(read).collect()
}

/// The configs of a task, oldest first.
pub(super) async fn of_task(db: &Conn, task: TaskId) -> Result<Vec<PushRow>, Failure> {
    db.query(&OF_TASK, [&task.0]).await?.iter().map(row_from).collect()
}

/// The nil id, which is no task's, is before every task.
fn after(place: Option<&(TaskId, Arc<str>)>) -> (Uuid, &[u8]) {
    place.map_or((Uuid::nil(), b""), |(task, id)| (task.0, id.as_bytes()))
}

/// A page of the configs in a state, in order of task and id.
pub(super) async fn page(
    db: &Conn,
    state: PushState,
    place: Option<&(TaskId, Arc<str>)>,
    limit: usize,
) -> Result<Vec<PushRow>, Failure> {
    let statement = match state {
        PushState::Active => &ACTIVE,
        PushState::Done => &DONE,
        PushState::Dead => &DEAD,
    };
    let (task, id) = after(place);
    db.query(statement, [&task, &id, &limit_of(limit)]).await?.iter().map(row_from).collect()
}

pub(super) async fn adopt(
    db: &Conn,
    liveness: &Liveness,
    place: Option<&(TaskId, Arc<str>)>,
    limit: usize,
) -> Result<Vec<PushRow>, Failure> {
    let mut place = place.cloned();
    loop {
        let (task, id) = after(place.as_ref());
        let rows = db
            .query(&ADOPT, [&task, &id, &limit_of(limit), &liveness.me, &liveness.lease_ms, &liveness.judges])
            .await?;
        let mut ours = Vec::with_capacity(rows.len());
        for row in &rows {
            if row.try_get(14)? {
                match row_from(row) {
                    Ok(row) => ours.push(row),
                    // One that cannot be read keeps no other from being delivered.
                    Err(failure) => {
                        let task: Uuid = row.try_get(0)?;
                        tracing::error!(%task, %failure, "a push config is not delivered: its row cannot be read");
                    }
                }
            }
        }
        match rows.last() {
            // An empty page is the end of a walk. This one only had none for us.
            Some(last) if ours.is_empty() => {
                place = Some((TaskId(last.try_get(0)?), text_from(last.try_get(1)?)?.into()));
            }
            Some(_) | None => return Ok(ours),
        }
    }
}

pub(super) fn row_from(columns: &Row) -> Result<PushRow, Failure> {
    let trouble: Option<&[u8]> = columns.try_get(12)?;
    Ok(PushRow {
        task: TaskId(columns.try_get(0)?),
        id: text_from(columns.try_get(1)?)?.into(),
        edition: columns.try_get::<_, i64>(2)? as u64,
        epoch: Epoch(columns.try_get::<_, i64>(13)? as u64),
        spec: Bytes::copy_from_slice(columns.try_get(3)?),
        made_at: Time(columns.try_get(4)?),
        progress: PushProgress {
            state: state_from(columns.try_get(5)?)?,
            next: Seq(columns.try_get::<_, i64>(6)? as u64),
            due: Time(columns.try_get(7)?),
            attempts: u32::try_from(columns.try_get::<_, i64>(8)?).unwrap_or(u32::MAX),
            failing_since: columns.try_get::<_, Option<i64>>(9)?.map(Time),
            delivered: columns.try_get::<_, i64>(10)? as u64,
            delivered_at: columns.try_get::<_, Option<i64>>(11)?.map(Time),
            trouble: trouble.map(text_from).transpose()?.map(Into::into),
        },
    })
}

pub(super) fn state_from(code: i16) -> Result<PushState, Failure> {
    let state = u8::try_from(code).ok().and_then(PushState::from_code);
    state.ok_or_else(|| Failure::Damaged(format!("a push config in state {code}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_in_the_statements_are_those_of_the_states() {
        assert_eq!([PushState::Active, PushState::Done, PushState::Dead].map(PushState::code), [1, 2, 3]);
    }
}
