//! Reads of single tasks, keys, blobs and timers, each one statement and so a snapshot by itself. Lists are in `list.rs`, push
//! configs in `push.rs`.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::ready;
use model::ports::Future;
use model::ports::store::{
    Commit, Health, KeyUse, LogHead, Outcome, ReplicaRow, StoreError, TaskLog, Timer, TimerKind, Versions, VisibleTasks,
};
use model::{AccessKey, Epoch, Event, Seq, State, TaskId, Time, stored};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::columns::{context_from, limit_of, row_from, text_from, unpack_uses};
use super::connect::{Conn, Sql};
use super::replica::{Liveness, is_gone};
use super::trouble::Failure;
use super::{PostgresStore, counters, schema, statements as sql};
use crate::shape;

/// Rows of a log that are looked at in one go.
const ROWS_AT_ONCE: i64 = 256;
/// A timer of a task that another living replica holds is that one's to fire, unless it is so late.
const LATE_MS: i64 = 5_000;

static HEAD: Sql = Sql {
    text: "SELECT task.context, tenant.text, agent.text, task.epoch, task.seq,
                  task.state, task.status_at, task.listed, task.running, task.settled
           FROM rialto.task
           JOIN rialto.name AS tenant ON tenant.no = task.tenant_no
           JOIN rialto.name AS agent ON agent.no = task.agent_no
           WHERE task.id = $1",
    types: &[Type::UUID],
};

pub(super) async fn head(db: &Conn, task: TaskId) -> Result<Option<LogHead>, Failure> {
    let rows = db.query(&HEAD, [&task.0]).await?;
    let Some(columns) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(LogHead {
        context: context_from(columns.try_get(0)?)?,
        tenant: text_from(columns.try_get(1)?)?.into(),
        agent: text_from(columns.try_get(2)?)?.into(),
        epoch: Epoch(columns.try_get::<_, i64>(3)? as u64),
        seq: Seq(columns.try_get::<_, i64>(4)? as u64),
        row: row_from(columns, 5)?,
    }))
}

static LENGTHS: Sql = Sql { text: "SELECT id, seq FROM rialto.task WHERE id = ANY ($1)", types: &[Type::UUID_ARRAY] };

pub(super) async fn lengths(db: &Conn, tasks: &[TaskId]) -> Result<Vec<Seq>, Failure> {
    let ids: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
    let mut known = std::collections::HashMap::with_capacity(ids.len());
    for row in db.query(&LENGTHS, [&ids]).await? {
        known.insert(row.try_get::<_, Uuid>(0)?, Seq(row.try_get::<_, i64>(1)? as u64));
    }
    Ok(ids.iter().map(|id| known.get(id).copied().unwrap_or_default()).collect())
}

/// The rows with events after $2, whole rows until $3 bytes are passed, at most $4 of them. The first row that matters is
/// the one that holds $2 + 1, and that may begin earlier: a cursor can stand in the middle of a batch.
static LOG: Sql = Sql {
    text: "SELECT first_seq, payload FROM (
             SELECT first_seq, payload,
                    sum(octet_length(payload)) OVER (ORDER BY first_seq) - octet_length(payload) AS before
             FROM (SELECT log.first_seq, log.payload FROM rialto.task JOIN rialto.log ON log.task_no = task.no
                   WHERE task.id = $1 AND log.last_seq > $2
                     AND log.first_seq >= coalesce((SELECT max(earlier.first_seq) FROM rialto.log AS earlier
                                                    WHERE earlier.task_no = task.no AND earlier.first_seq <= $2 + 1), 0)
                   ORDER BY log.first_seq LIMIT $4) AS part
           ) AS counted WHERE before < $3 ORDER BY first_seq",
    types: &[Type::UUID, Type::INT8, Type::INT8, Type::INT8],
};

/// The first rows of a task in one of the views $4 (numbers are packed in its row, the low byte first), which a list shows or,
/// with $5, need not: whole rows until $2 bytes are passed, at most $3 of them. Its row decides before the log is opened.
static BEGINNING: Sql = Sql {
    text: "WITH seen AS MATERIALIZED (
             SELECT task.no FROM rialto.task WHERE task.id = $1 AND (task.listed OR $5) AND EXISTS (
               SELECT 1 FROM generate_series(0, octet_length(task.views) - 4, 4) AS packed (at)
               JOIN rialto.name ON name.no = get_byte(task.views, packed.at) | (get_byte(task.views, packed.at + 1) << 8)
                 | (get_byte(task.views, packed.at + 2) << 16) | (get_byte(task.views, packed.at + 3) << 24)
               WHERE name.text = ANY ($4)))
           SELECT first_seq, payload FROM (
             SELECT first_seq, payload,
                    sum(octet_length(payload)) OVER (ORDER BY first_seq) - octet_length(payload) AS before
             FROM (SELECT log.first_seq, log.payload FROM seen JOIN rialto.log ON log.task_no = seen.no
                   ORDER BY log.first_seq LIMIT $3) AS part
           ) AS counted WHERE before < $2 ORDER BY first_seq",
    types: &[Type::UUID, Type::INT8, Type::INT8, Type::BYTEA_ARRAY, Type::BOOL],
};

pub(super) async fn beginning(
    db: &Conn,
    task: TaskId,
    sight: &VisibleTasks,
    bytes: usize,
) -> Result<Vec<Event>, Failure> {
    let views: Vec<&[u8]> = sight.views.iter().map(|view| view.0.as_bytes()).collect();
    let most = limit_of(bytes).max(1);
    let rows = db.query(&BEGINNING, [&task.0, &most, &ROWS_AT_ONCE, &views, &sight.unlisted]).await?;
    let (mut events, mut read) = (Vec::new(), 0);
    for row in &rows {
        let payload: &[u8] = row.try_get(1)?;
        read += payload.len();
        events.extend(stored::decode(Seq(row.try_get::<_, i64>(0)? as u64), payload)?);
    }
    let from = events.last().map(|event: &Event| event.seq);
    match from {
        // A log of very many short rows.
        Some(from) if rows.len() as i64 == ROWS_AT_ONCE && read < bytes => {
            events.extend(log_after(db, task, from, bytes - read).await?);
        }
        Some(_) | None => {}
    }
    Ok(events)
}

pub(super) async fn log_after(db: &Conn, task: TaskId, after: Seq, bytes: usize) -> Result<Vec<Event>, Failure> {
    let mut events: Vec<Event> = Vec::new();
    let (mut from, mut left) = (after, limit_of(bytes).max(1));
    loop {
        // A number no log reaches would overflow.
        let cursor = i64::try_from(from.0).unwrap_or(i64::MAX).min(i64::MAX - 1);
        let rows = db.query(&LOG, [&task.0, &cursor, &left, &ROWS_AT_ONCE]).await?;
        for row in &rows {
            let payload: &[u8] = row.try_get(1)?;
            left -= payload.len() as i64;
            let batch = stored::decode(Seq(row.try_get::<_, i64>(0)? as u64), payload)?;
            events.extend(batch.into_iter().filter(|event| event.seq > from));
        }
        from = events.last().map_or(from, |event| event.seq);
        if left <= 0 || (rows.len() as i64) < ROWS_AT_ONCE {
            return Ok(events);
        }
    }
}

static LOGS: Sql = Sql {
    text: "SELECT asked.n, log.first_seq, log.payload
           FROM unnest($1::uuid[]) WITH ORDINALITY AS asked (id, n)
           JOIN rialto.task ON task.id = asked.id JOIN rialto.log ON log.task_no = task.no
           ORDER BY asked.n, log.first_seq",
    types: &[Type::UUID_ARRAY],
};

pub(super) async fn logs(db: &Conn, tasks: &[TaskId]) -> Result<Vec<Vec<Event>>, Failure> {
    let ids: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
    let mut logs: Vec<Vec<Event>> = vec![Vec::new(); ids.len()];
    for row in db.query(&LOGS, [&ids]).await? {
        let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or(usize::MAX);
        if let Some(log) = logs.get_mut(place) {
            log.extend(stored::decode(Seq(row.try_get::<_, i64>(1)? as u64), row.try_get(2)?)?);
        }
    }
    Ok(logs)
}

static KEY: Sql = Sql {
    text: "SELECT used.uses, ARRAY (
             SELECT task.id FROM generate_series(0, octet_length(used.uses) / 64 - 1) AS n (n)
             JOIN rialto.task ON task.id = encode(substr(used.uses, n.n * 64 + 33, 16), 'hex')::uuid)
           FROM rialto.idempotency AS used WHERE used.key = $1",
    types: &[Type::BYTEA],
};

pub(super) async fn key(db: &Conn, key: [u8; 32], not_before: Time) -> Result<Option<KeyUse>, Failure> {
    let rows = db.query(&KEY, [&key.as_slice()]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    let (uses, living) = (unpack_uses(key, row.try_get(0)?)?, row.try_get::<_, Vec<Uuid>>(1)?);
    Ok(uses.into_iter().rev().find(|used| used.at >= not_before && living.contains(&used.task.0)))
}

static ALIAS: Sql = Sql { text: "SELECT task FROM rialto.alias WHERE key = $1", types: &[Type::BYTEA] };

pub(super) async fn alias(db: &Conn, key: [u8; 32]) -> Result<Option<TaskId>, Failure> {
    let rows = db.query(&ALIAS, [&key.as_slice()]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?.map(TaskId))
}

static REMEMBER: Sql = Sql {
    text: "INSERT INTO rialto.note (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = note.value
           RETURNING value",
    types: &[Type::TEXT, Type::TEXT],
};

/// The value stored under the name; stores this one if there was none.
pub(super) async fn remember(db: &Conn, name: &str, value: &str) -> Result<String, Failure> {
    let rows = db.query(&REMEMBER, [&name, &value]).await?;
    let row = rows.first().ok_or_else(|| Failure::Damaged("a note was neither found nor made".into()))?;
    Ok(row.try_get(0)?)
}

static RECALL: Sql = Sql { text: "SELECT value FROM rialto.note WHERE name = $1", types: &[Type::TEXT] };

/// The value stored under the name, if any.
pub(super) async fn recall(db: &Conn, name: &str) -> Result<Option<String>, Failure> {
    let rows = db.query(&RECALL, [&name]).await?;
    rows.first().map(|row| row.try_get(0).map_err(Failure::from)).transpose()
}

static ACCESS: Sql = Sql { text: "SELECT row FROM rialto.access ORDER BY id", types: &[] };

pub(super) async fn access_keys(db: &Conn) -> Result<Vec<AccessKey>, Failure> {
    let mut keys = Vec::new();
    for row in db.query(&ACCESS, []).await? {
        keys.push(serde_json::from_slice(row.try_get(0)?).map_err(stored::Error::from)?);
    }
    Ok(keys)
}

static BLOB: Sql = Sql {
    text: "SELECT blob.bytes FROM rialto.name JOIN rialto.blob ON blob.tenant_no = name.no
           WHERE name.text = $1 AND blob.hash = $2",
    types: &[Type::BYTEA, Type::BYTEA],
};

pub(super) async fn blob(db: &Conn, tenant: &str, hash: [u8; 32]) -> Result<Option<Bytes>, Failure> {
    let rows = db.query(&BLOB, [&tenant.as_bytes(), &hash.as_slice()]).await?;
    Ok(rows.first().map(|row| row.try_get::<_, Vec<u8>>(0)).transpose()?.map(Bytes::from))
}

static UNFINISHED: Sql = Sql {
    text: "SELECT id, epoch FROM rialto.task WHERE running AND id > $1 ORDER BY id LIMIT $2",
    types: &[Type::UUID, Type::INT8],
};
static ORPHANS: Sql = Sql {
    text: concat!(
        "SELECT id, epoch FROM rialto.task WHERE running AND id > $1 AND holder <> $3 AND ",
        is_gone!("task.holder", "$4", "$5"),
        " ORDER BY id LIMIT $2"
    ),
    types: &[Type::UUID, Type::INT8, Type::INT8, Type::FLOAT8, Type::BOOL],
};

/// The nil id, which is no task's, is before every task.
fn after_or_nil(after: Option<TaskId>) -> Uuid {
    after.map_or(Uuid::nil(), |task| task.0)
}

fn held(rows: &[tokio_postgres::Row]) -> Result<Vec<(TaskId, Epoch)>, Failure> {
    rows.iter().map(|row| Ok((TaskId(row.try_get(0)?), Epoch(row.try_get::<_, i64>(1)? as u64)))).collect()
}

pub(super) async fn unfinished(
    db: &Conn,
    after: Option<TaskId>,
    limit: usize,
) -> Result<Vec<(TaskId, Epoch)>, Failure> {
    held(&db.query(&UNFINISHED, [&after_or_nil(after), &limit_of(limit)]).await?)
}

static HELD: Sql = Sql {
    text: "SELECT id, epoch FROM rialto.task WHERE running AND holder = $3 AND id > $1 ORDER BY id LIMIT $2",
    types: &[Type::UUID, Type::INT8, Type::INT8],
};

/// Open turns of this replica.
pub(super) async fn held_by(
    db: &Conn,
    me: i64,
    after: Option<TaskId>,
    limit: usize,
) -> Result<Vec<(TaskId, Epoch)>, Failure> {
    held(&db.query(&HELD, [&after_or_nil(after), &limit_of(limit), &me]).await?)
}

pub(super) async fn orphans(
    db: &Conn,
    liveness: &Liveness,
    after: Option<TaskId>,
    limit: usize,
) -> Result<Vec<(TaskId, Epoch)>, Failure> {
    let after = after_or_nil(after);
    held(&db.query(&ORPHANS, [&after, &limit_of(limit), &liveness.me, &liveness.lease_ms, &liveness.judges]).await?)
}

static DUE: Sql = Sql {
    text: concat!(
        "SELECT timer.task, timer.kind, timer.due FROM rialto.timer JOIN rialto.task ON task.id = timer.task
         WHERE timer.due <= $1 AND (timer.due <= $1 - $6 OR task.holder = $3 OR ",
        is_gone!("task.holder", "$4", "$5"),
        ") ORDER BY timer.due, timer.task_no, timer.kind LIMIT $2"
    ),
    types: &[Type::INT8, Type::INT8, Type::INT8, Type::FLOAT8, Type::BOOL, Type::INT8],
};

pub(super) async fn due(db: &Conn, liveness: &Liveness, now: Time, limit: usize) -> Result<Vec<Timer>, Failure> {
    let rows = db
        .query(&DUE, [&now.0, &limit_of(limit), &liveness.me, &liveness.lease_ms, &liveness.judges, &LATE_MS])
        .await?;
    timers_from(&rows)
}

fn timers_from(rows: &[Row]) -> Result<Vec<Timer>, Failure> {
    let mut timers = Vec::with_capacity(rows.len());
    for row in rows {
        // A kind of a newer release is left alone.
        if let Some(kind) = u8::try_from(row.try_get::<_, i16>(1)?).ok().and_then(TimerKind::from_code) {
            timers.push(Timer { task: TaskId(row.try_get(0)?), kind, due: Time(row.try_get(2)?) });
        }
    }
    Ok(timers)
}

pub(super) async fn timers(db: &Conn, tasks: &[TaskId]) -> Result<Vec<Timer>, Failure> {
    let ids: Vec<Uuid> = tasks.iter().map(|task| task.0).collect();
    timers_from(&db.query(&sql::TIMERS, [&ids]).await?)
}

/// A timer of another replica counts from the moment it is late. Only that stretch of time is searched for our own.
static NEXT_DUE: Sql = Sql {
    text: concat!(
        "WITH first AS (SELECT min(due) AS due FROM rialto.timer)
         SELECT least(first.due + $4, (
           SELECT timer.due FROM rialto.timer JOIN rialto.task ON task.id = timer.task
           WHERE timer.due <= first.due + $4 AND (task.holder = $1 OR ",
        is_gone!("task.holder", "$2", "$3"),
        ") ORDER BY timer.due LIMIT 1)) FROM first"
    ),
    types: &[Type::INT8, Type::FLOAT8, Type::BOOL, Type::INT8],
};

pub(super) async fn next_due(db: &Conn, liveness: &Liveness) -> Result<Option<Time>, Failure> {
    let rows = db.query(&NEXT_DUE, [&liveness.me, &liveness.lease_ms, &liveness.judges, &LATE_MS]).await?;
    Ok(rows.first().map(|row| row.try_get::<_, Option<i64>>(0)).transpose()?.flatten().map(Time))
}

static VERSIONS: Sql = Sql {
    text: "SELECT kind, sum(n)::bigint FROM rialto.counter WHERE view_no = 0 AND kind = ANY ($1) GROUP BY kind",
    types: &[Type::INT2_ARRAY],
};

pub(super) async fn versions(db: &Conn) -> Result<Versions, Failure> {
    let kinds: &[i16] = &[counters::ACCESS_CHANGES, counters::REMOVALS];
    let mut versions = Versions::default();
    for row in db.query(&VERSIONS, [&kinds]).await? {
        let n = row.try_get::<_, i64>(1)?.max(0) as u64;
        match row.try_get::<_, i16>(0)? {
            counters::ACCESS_CHANGES => versions.access = n,
            _ => versions.removed = n,
        }
    }
    Ok(versions)
}

static REPLICAS: Sql = Sql {
    text: concat!(
        "SELECT no, ",
        is_gone!("seen.no", "$1", "$2"),
        ", (extract(epoch FROM clock_timestamp() - beat_at) * 1000)::bigint, lease_ms, about
         FROM rialto.replica AS seen ORDER BY no"
    ),
    types: &[Type::FLOAT8, Type::BOOL],
};

pub(super) async fn replicas(db: &Conn, liveness: &Liveness) -> Result<Vec<ReplicaRow>, Failure> {
    let read = |row: &tokio_postgres::Row| -> Result<ReplicaRow, Failure> {
        let no: i64 = row.try_get(0)?;
        let about: Option<&[u8]> = row.try_get(4)?;
        Ok(ReplicaRow {
            no: no as u64,
            own: no == liveness.me,
            alive: !row.try_get::<_, bool>(1)?,
            silent_ms: row.try_get::<_, i64>(2)?.max(0) as u64,
            lease_ms: row.try_get::<_, Option<i64>>(3)?.map(|ms| ms.max(0) as u64),
            about: about.map(text_from).transpose()?.map(str::to_owned),
        })
    };
    db.query(&REPLICAS, [&liveness.lease_ms, &liveness.judges]).await?.iter().map(read).collect()
}

static COUNTS: Sql = Sql {
    text: "SELECT kind, sum(n)::bigint FROM rialto.counter WHERE view_no = 0 GROUP BY kind
           UNION ALL SELECT -1::smallint, pg_database_size(current_database())",
    types: &[],
};

pub(super) async fn health(db: &Conn, epoch: Epoch, trouble: Option<StoreError>) -> Result<Health, Failure> {
    let mut health = Health { kind: "postgres", schema: schema::VERSION, epoch: epoch.0, trouble, ..Health::default() };
    let mut states = [0; State::ALL.len()];
    for row in db.query(&COUNTS, []).await? {
        let (kind, n) = (row.try_get::<_, i16>(0)?, row.try_get::<_, i64>(1)?.max(0) as u64);
        match kind {
            -1 => health.file_bytes = n,
            counters::ALL => health.tasks = n,
            counters::RUNNING => health.running = n,
            counters::LOG_ROWS => health.events_rows = n,
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
                if let Some(place) = State::ALL.iter().position(|state| i16::from(state.code()) == code) {
                    states[place] = n;
                }
            }
        }
    }
    health.states = State::ALL.into_iter().zip(states).filter(|(_, n)| *n > 0).collect();
    Ok(health)
}

/// The numbers of these names, as far as they have any.
pub(super) fn names_from(rows: &[tokio_postgres::Row]) -> Result<Vec<(Arc<str>, i32)>, Failure> {
    rows.iter().map(|row| Ok((text_from(row.try_get(0)?)?.into(), row.try_get(1)?))).collect()
}

impl TaskLog for PostgresStore {
    fn commit(&self, commit: Commit) -> Future<'static, Outcome> {
        let queued = match shape::malformed(&commit) {
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
        self.read(move |db| async move { head(&db, task).await })
    }

    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        self.read(move |db| async move { log_after(&db, task, after, bytes).await })
    }

    fn beginning(&self, task: TaskId, sight: VisibleTasks, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        let sight = Arc::new(sight);
        self.read(move |db| {
            let sight = sight.clone();
            async move { beginning(&db, task, &sight, bytes).await }
        })
    }

    fn logs(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Vec<Event>>, StoreError>> {
        let tasks: Arc<[TaskId]> = tasks.into();
        self.read(move |db| {
            let tasks = tasks.clone();
            async move { logs(&db, &tasks).await }
        })
    }

    fn key(&self, key: [u8; 32], not_before: Time) -> Future<'_, Result<Option<KeyUse>, StoreError>> {
        self.read(move |db| async move { self::key(&db, key, not_before).await })
    }

    fn alias(&self, key: [u8; 32]) -> Future<'_, Result<Option<TaskId>, StoreError>> {
        self.read(move |db| async move { alias(&db, key).await })
    }

    fn blob(&self, tenant: Arc<str>, hash: [u8; 32]) -> Future<'_, Result<Option<Bytes>, StoreError>> {
        self.read(move |db| {
            let tenant = tenant.clone();
            async move { blob(&db, &tenant, hash).await }
        })
    }

    fn lengths(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Seq>, StoreError>> {
        let tasks: Arc<[TaskId]> = tasks.into();
        self.read(move |db| {
            let tasks = tasks.clone();
            async move { lengths(&db, &tasks).await }
        })
    }

    fn decided(&self) -> Future<'_, Result<(), StoreError>> {
        let mut undecided = self.shared.undecided.subscribe();
        Box::pin(async move {
            let decided = undecided.wait_for(|undecided| !undecided);
            match tokio::time::timeout(self.shared.options.bound(), decided).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) => Err(StoreError::Closed),
                Err(_) => {
                    let trouble = self.shared.trouble.lock().clone();
                    Err(trouble.unwrap_or_else(|| StoreError::Unreachable("a commit is in doubt".into())))
                }
            }
        })
    }

    fn epoch(&self) -> Epoch {
        Epoch(self.shared.replica.no as u64)
    }

    fn hold(&self, starts: u32) -> Epoch {
        Epoch(u64::from(starts))
    }
}
