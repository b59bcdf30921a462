//! Reads of single tasks, keys, blobs and timers. Lists are in `list.rs`, push configs in `push.rs`.
//!
//! A log is read through [`log_after`] alone: it finds the last events in the log or in the tail.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::ready;
use model::ports::Future;
use model::ports::store::{
    Commit, Health, KeyUse, LogHead, Outcome, StoreError, TaskLog, Timer, TimerKind, VisibleTasks,
};
use model::{AccessKey, Epoch, Event, Seq, State, TaskId, Time, stored};
use parking_lot::RwLock;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::columns::{Context, TaskIdColumn, first_seq, row_from, unpack_views};
use super::pool::Error;
use super::tail::{self, Pieces, TailRow};
use super::views::ViewNumbers;
use super::{SHORT_READ_BYTES, SHORT_READ_LOGS, SqliteStore, apply, counters, folder, schema, statements, too_long};
use crate::shape;

/// Runs several reads on one snapshot.
pub(super) fn snapshot<T>(db: &Connection, look: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    db.prepare_cached("BEGIN")?.execute([])?;
    // On an error the pool throws the connection away, and the snapshot with it.
    let found = look()?;
    db.prepare_cached("COMMIT")?.execute([])?;
    Ok(found)
}

pub(super) fn head(db: &Connection, tail: &RwLock<Pieces>, task: TaskId) -> Result<Option<LogHead>, Error> {
    let in_tail = tail.read().last(task);
    let mut statement = db.prepare_cached(
        "SELECT t.context, tenant.text, agent.text, t.epoch,
                (SELECT last_seq FROM log WHERE key BETWEEN t.no << 26 AND (t.no << 26) + 67108863
                 ORDER BY key DESC LIMIT 1),
                t.state, t.status_at, t.listed, t.running, t.settled
         FROM task AS t
         CROSS JOIN name AS tenant ON tenant.no = t.tenant_no
         CROSS JOIN name AS agent ON agent.no = t.agent_no
         WHERE t.id = ?1",
    )?;
    let head = statement.query_row(params![TaskIdColumn(task)], |columns| {
        Ok(LogHead {
            context: columns.get::<_, Context>(0)?.into_id(),
            tenant: columns.get_ref(1)?.as_str()?.into(),
            agent: columns.get_ref(2)?.as_str()?.into(),
            epoch: Epoch(columns.get::<_, i64>(3)? as u64),
            seq: Seq((columns.get::<_, Option<i64>>(4)?.unwrap_or_default() as u64).max(in_tail)),
            row: row_from(columns, 5)?,
        })
    });
    Ok(head.optional()?)
}

/// Events after `after`, whole rows until `bytes` is passed.
pub(super) fn log_after(
    db: &Connection,
    tail: &RwLock<Pieces>,
    task: TaskId,
    after: Seq,
    bytes: usize,
) -> Result<Vec<Event>, Error> {
    let pieces = tail.read().of(task).to_vec();
    // The log alone is one statement, and a statement is a snapshot by itself.
    if pieces.is_empty() {
        page(db, &[], task, after, bytes)
    } else {
        snapshot(db, || page(db, &pieces, task, after, bytes))
    }
}

/// The beginning of the log, if the task's row says that it is seen this way.
pub(super) fn beginning(
    db: &Connection,
    tail: &RwLock<Pieces>,
    views: &ViewNumbers,
    task: TaskId,
    sight: &VisibleTasks,
    bytes: usize,
) -> Result<Vec<Event>, Error> {
    // First and always, so that what follows differs by nothing but the task's own row.
    let numbers = views.of(db, &sight.views)?;
    // Before the row's snapshot is taken: what the tail does not have now, the log of the snapshot has.
    let is_quiet = tail.read().of(task).is_empty();
    let is_seen = |row: &Row<'_>| -> Result<bool, Error> {
        let packed = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        let is_in = unpack_views(packed).iter().any(|view| numbers.contains(view));
        Ok(is_in && (sight.unlisted || row.get(1)?))
    };
    // A task's views never change, and what a list has shown stays a task.
    if !is_quiet {
        let mut statement = db.prepare_cached("SELECT views, listed FROM task WHERE id = ?1")?;
        let mut rows = statement.query(params![TaskIdColumn(task)])?;
        return match rows.next()? {
            Some(row) if is_seen(row)? => {
                drop(rows);
                log_after(db, tail, task, Seq::ZERO, bytes)
            }
            Some(_) | None => Ok(Vec::new()),
        };
    }
    let mut statement = db.prepare_cached(
        "SELECT t.views, t.listed, l.key, l.payload FROM task AS t CROSS JOIN log AS l
         WHERE t.id = ?1 AND l.key BETWEEN t.no << 26 AND (t.no << 26) + 67108863 ORDER BY l.key",
    )?;
    let mut rows = statement.query(params![TaskIdColumn(task)])?;
    let mut page = Page::new(Seq::ZERO, bytes);
    while let Some(row) = rows.next()? {
        // Before a byte of the log is read.
        if page.is_empty() && !is_seen(row)? {
            break;
        }
        let payload = row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
        if !page.add(first_seq(row.get(2)?), payload)? {
            break;
        }
    }
    Ok(page.events)
}

fn page(db: &Connection, pieces: &[TailRow], task: TaskId, after: Seq, bytes: usize) -> Result<Vec<Event>, Error> {
    let mut page = Page::new(after, bytes);
    tail::rows_after(db, pieces, task, after, |first, payload| page.add(first, payload))?;
    Ok(page.events)
}

/// The events of a log after one, until `bytes` of rows are passed.
struct Page {
    after: Seq,
    bytes: usize,
    read: usize,
    events: Vec<Event>,
}

impl Page {
    fn new(after: Seq, bytes: usize) -> Page {
        Page { after, bytes, read: 0, events: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.read == 0
    }

    /// Takes a row; says whether there is room for another.
    fn add(&mut self, first: u64, payload: &[u8]) -> Result<bool, Error> {
        let batch = stored::decode(Seq(first), payload)?;
        self.read += payload.len();
        if self.events.is_empty() && first > self.after.0 {
            self.events = batch;
        } else {
            self.events.extend(batch.into_iter().filter(|event| event.seq > self.after));
        }
        Ok(self.read < self.bytes)
    }
}

pub(super) fn logs(db: &Connection, tail: &RwLock<Pieces>, tasks: &[TaskId]) -> Result<Vec<Vec<Event>>, Error> {
    if let [task] = tasks {
        return Ok(vec![log_after(db, tail, *task, Seq::ZERO, usize::MAX)?]);
    }
    // Before the snapshot is taken.
    let pieces: Vec<Vec<TailRow>> = {
        let shown = tail.read();
        tasks.iter().map(|task| shown.of(*task).to_vec()).collect()
    };
    let each = || tasks.iter().zip(&pieces).map(|(task, pieces)| page(db, pieces, *task, Seq::ZERO, usize::MAX));
    snapshot(db, || each().collect())
}

pub(super) fn key(db: &Connection, key: [u8; 32], not_before: Time) -> Result<Option<KeyUse>, Error> {
    let mut statement = db.prepare_cached(statements::KEY_FIND)?;
    let bound = params![key, shape::hour(not_before), not_before.0];
    Ok(statement.query_row(bound, |row| apply::key_from(key, row)).optional()?)
}

pub(super) fn alias(db: &Connection, key: [u8; 32]) -> Result<Option<TaskId>, Error> {
    let mut statement = db.prepare_cached(statements::ALIAS_FIND)?;
    Ok(statement.query_row(params![key], |row| Ok(row.get::<_, TaskIdColumn>(0)?.0)).optional()?)
}

pub(super) fn access_keys(db: &Connection) -> Result<Vec<AccessKey>, Error> {
    let mut statement = db.prepare_cached("SELECT row FROM access ORDER BY id")?;
    let mut rows = statement.query([])?;
    let mut keys = Vec::new();
    while let Some(row) = rows.next()? {
        let text: String = row.get(0)?;
        keys.push(serde_json::from_str(&text).map_err(stored::Error::from)?);
    }
    Ok(keys)
}

pub(super) fn blob(db: &Connection, tenant: &str, hash: [u8; 32]) -> Result<Option<Bytes>, Error> {
    let mut statement = db.prepare_cached("SELECT bytes FROM blob WHERE tenant = ?1 AND hash = ?2")?;
    let bytes: Option<Vec<u8>> = statement.query_row(params![tenant, hash], |row| row.get(0)).optional()?;
    Ok(bytes.map(Bytes::from))
}

pub(super) fn unfinished(db: &Connection, after: Option<TaskId>, limit: usize) -> Result<Vec<(TaskId, Epoch)>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT id, epoch FROM task INDEXED BY task_running WHERE running = 1 AND id > ?1 ORDER BY id LIMIT ?2",
    )?;
    // The empty blob is before every id.
    let after = after.map(|task| task.0.as_bytes().to_vec()).unwrap_or_default();
    let rows = statement.query_map(params![after, limit_of(limit)], |row| {
        Ok((row.get::<_, TaskIdColumn>(0)?.0, Epoch(row.get::<_, i64>(1)? as u64)))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

pub(super) fn due(db: &Connection, now: Time, limit: usize) -> Result<Vec<Timer>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT task.id, timer.kind, timer.due FROM timer INDEXED BY timer_due CROSS JOIN task ON task.no = timer.task_no
         WHERE timer.due <= ?1 ORDER BY timer.due, timer.task_no, timer.kind LIMIT ?2",
    )?;
    let mut rows = statement.query(params![now.0, limit_of(limit)])?;
    let mut timers = Vec::new();
    while let Some(row) = rows.next()? {
        // A kind of a newer release is left alone.
        if let Some(kind) = TimerKind::from_code(row.get(1)?) {
            timers.push(Timer { task: row.get::<_, TaskIdColumn>(0)?.0, kind, due: Time(row.get(2)?) });
        }
    }
    Ok(timers)
}

pub(super) fn timers(db: &Connection, tasks: &[TaskId]) -> Result<Vec<Timer>, Error> {
    let mut statement = db.prepare_cached(
        "SELECT timer.kind, timer.due FROM task CROSS JOIN timer ON timer.task_no = task.no WHERE task.id = ?1",
    )?;
    let mut timers = Vec::new();
    for task in tasks {
        let mut rows = statement.query(params![TaskIdColumn(*task)])?;
        while let Some(row) = rows.next()? {
            if let Some(kind) = TimerKind::from_code(row.get(0)?) {
                timers.push(Timer { task: *task, kind, due: Time(row.get(1)?) });
            }
        }
    }
    Ok(timers)
}

pub(super) fn next_due(db: &Connection) -> Result<Option<Time>, Error> {
    let mut statement = db.prepare_cached("SELECT min(due) FROM timer")?;
    Ok(statement.query_row([], |row| row.get::<_, Option<i64>>(0))?.map(Time))
}

pub(super) fn health(
    db: &Connection,
    tail: &RwLock<Pieces>,
    folder: &Path,
    epoch: Epoch,
    trouble: Option<StoreError>,
) -> Result<Health, Error> {
    let in_tail = tail.read().rows();
    let mut health = Health {
        kind: "sqlite",
        file_bytes: size_of(&folder::database(folder)),
        wal_bytes: size_of(&folder::wal(folder)),
        schema: schema::VERSION,
        epoch: epoch.0,
        trouble,
        ..Health::default()
    };
    let mut states = [0; State::ALL.len()];
    let mut statement = db.prepare_cached("SELECT kind, n FROM counter WHERE view_no = ?1")?;
    let mut rows = statement.query([counters::STORE])?;
    while let Some(row) = rows.next()? {
        let (kind, n): (u8, u64) = (row.get(0)?, row.get::<_, i64>(1)?.max(0) as u64);
        match kind {
            counters::ALL => health.tasks = n,
            counters::RUNNING => health.running = n,
            counters::LOG_ROWS => health.events_rows = n + in_tail,
            counters::BLOBS => health.blobs = n,
            counters::BLOB_BYTES => health.blob_bytes = n,
            counters::TIMERS => health.timers = n,
            counters::KEYS => health.keys = n,
            counters::ALIASES => health.aliases = n,
            counters::PUSH_ACTIVE => health.push_active = n,
            counters::PUSH_DEAD => health.push_dead = n,
            counters::RECORDS => health.records = n,
            counters::ENTRIES => health.entries = n,
            code => {
                if let Some(place) = State::ALL.iter().position(|state| state.code() == code) {
                    states[place] = n;
                }
            }
        }
    }
    health.states = State::ALL.into_iter().zip(states).filter(|(_, n)| *n > 0).collect();
    Ok(health)
}

/// Not there yet counts as empty.
fn size_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

pub(super) fn limit_of(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// The number of a view, if any task was ever in it.
pub(super) fn view_no(db: &Connection, view: &Arc<str>) -> Result<Option<i64>, Error> {
    let mut statement = db.prepare_cached("SELECT no FROM name WHERE text = ?1")?;
    Ok(statement.query_row(params![view], |row| row.get(0)).optional()?)
}

impl TaskLog for SqliteStore {
    fn commit(&self, commit: Commit) -> Future<'static, Outcome> {
        let queued = match shape::malformed(&commit).or_else(|| too_long(&commit)) {
            Some(trouble) => Err(trouble),
            None => self.shared.queue.push_commit(commit),
        };
        match queued {
            Ok(answered) => Box::pin(async move {
                // No answer means that the writer is gone, and whether it wrote before is anybody's guess.
                answered.await.unwrap_or(Outcome::Unknown(StoreError::Closed))
            }),
            Err(trouble) => Box::pin(ready(Outcome::Refused(trouble))),
        }
    }

    fn head(&self, task: TaskId) -> Future<'_, Result<Option<LogHead>, StoreError>> {
        self.read(move |db| head(db, &self.shared.tail, task))
    }

    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        if bytes <= SHORT_READ_BYTES {
            self.read(move |db| log_after(db, &self.shared.tail, task, after, bytes))
        } else {
            let shared = self.shared.clone();
            self.read_aside(move |db| log_after(db, &shared.tail, task, after, bytes))
        }
    }

    fn beginning(&self, task: TaskId, sight: VisibleTasks, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        if bytes <= SHORT_READ_BYTES {
            self.read(move |db| beginning(db, &self.shared.tail, &self.shared.views, task, &sight, bytes))
        } else {
            let shared = self.shared.clone();
            self.read_aside(move |db| beginning(db, &shared.tail, &shared.views, task, &sight, bytes))
        }
    }

    fn logs(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Vec<Event>>, StoreError>> {
        if tasks.len() <= SHORT_READ_LOGS {
            self.read(move |db| logs(db, &self.shared.tail, &tasks))
        } else {
            let shared = self.shared.clone();
            self.read_aside(move |db| logs(db, &shared.tail, &tasks))
        }
    }

    fn key(&self, key: [u8; 32], not_before: Time) -> Future<'_, Result<Option<KeyUse>, StoreError>> {
        self.read(move |db| self::key(db, key, not_before))
    }

    fn alias(&self, key: [u8; 32]) -> Future<'_, Result<Option<TaskId>, StoreError>> {
        self.read(move |db| alias(db, key))
    }

    fn blob(&self, tenant: Arc<str>, hash: [u8; 32]) -> Future<'_, Result<Option<Bytes>, StoreError>> {
        self.read_aside(move |db| blob(db, &tenant, hash))
    }

    fn epoch(&self) -> Epoch {
        self.shared.epoch
    }
}
