//! All rows of a data folder, for a migration to another store. The folder is locked, so that no process changes
//! it meanwhile, and the file is opened for reading only.

mod records;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use bytes::Bytes;
use model::ports::store::KeyUse;
use model::{Body, Epoch, PushProgress, PushRow, PushState, Seq, Time, stored};
use rusqlite::{Connection, OpenFlags, Row, params};
use sha2::{Digest, Sha256};

use super::columns::{Context, MAX_SEQ, TaskIdColumn, first_seq, log_key, row_from, unpack_views};
use super::{SqliteOpenError, counters, folder, schema};
use crate::migrate::COUNT;
use crate::migrate::rows::{
    AccessRow, AliasRow, BatchLimits, BlobRow, BlobUse, Highest, KeyUseRow, ListingRow, LogRow, NameRow, PushConfigRow,
    RowPosition, TaskRow, TimerRow,
};

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error(transparent)]
    Damaged(#[from] stored::Error),
    #[error("{0}")]
    Odd(String),
}

type Page<T> = Result<Vec<(RowPosition, T)>, Error>;

pub(crate) struct Export {
    db: Connection,
    /// Chunks of live turns that are not in the log yet, by the key they would have there: where they are, and their last.
    tail: BTreeMap<i64, (i64, u64)>,
    tenants: HashMap<String, i32>,
    /// Tenants that blobs have and nothing else names.
    more_names: Vec<NameRow>,
    _lock: folder::Lock,
}

impl Export {
    /// Opens the data in this folder, as the only process. It must be of this release's schema: nothing is changed here.
    pub(crate) fn open(place: &Path) -> Result<Export, SqliteOpenError> {
        let database = folder::database(place);
        if !database.is_file() {
            return Err(SqliteOpenError::Missing { folder: place.to_owned() });
        }
        let lock = folder::lock(place)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(database, flags)?;
        super::plan_once(&db)?;
        let application: i64 = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
        let found: u32 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if application != schema::APPLICATION {
            return Err(SqliteOpenError::Foreign);
        }
        if found > schema::VERSION {
            return Err(SqliteOpenError::Newer { found, known: schema::VERSION });
        }
        if found < schema::VERSION {
            return Err(SqliteOpenError::Older { found, known: schema::VERSION, folder: place.to_owned() });
        }
        // One snapshot for all that is read.
        db.execute_batch("BEGIN")?;
        let (tail, (tenants, more_names)) = (tail(&db)?, tenants(&db)?);
        Ok(Export { db, tail, tenants, more_names, _lock: lock })
    }

    /// Tells this data from any other, and from itself at another time: every start of a server counts in it.
    pub(crate) fn fingerprint(&self) -> Result<[u8; 32], Error> {
        let mut hash = Sha256::new();
        let mut add = |sql: &str| -> Result<(), Error> {
            let mut statement = self.db.prepare(sql)?;
            let columns = statement.column_count();
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                for column in 0..columns {
                    match row.get_ref(column)? {
                        rusqlite::types::ValueRef::Integer(n) => hash.update(n.to_le_bytes()),
                        rusqlite::types::ValueRef::Blob(bytes) | rusqlite::types::ValueRef::Text(bytes) => {
                            hash.update((bytes.len() as u64).to_le_bytes());
                            hash.update(bytes);
                        }
                        rusqlite::types::ValueRef::Null | rusqlite::types::ValueRef::Real(_) => {}
                    }
                }
            }
            hash.update(b"|");
            Ok(())
        };
        add("SELECT epoch FROM meta")?;
        add("SELECT view_no, kind, n FROM counter ORDER BY view_no, kind")?;
        add("SELECT no, id FROM task WHERE no = (SELECT min(no) FROM task)")?;
        add("SELECT no, id FROM task WHERE no = (SELECT max(no) FROM task)")?;
        // Where there are none, it is what it was before there were any.
        if self
            .db
            .query_row("SELECT EXISTS (SELECT 1 FROM record) OR EXISTS (SELECT 1 FROM entry)", [], |r| r.get(0))?
        {
            add("SELECT no, kind, key, version, body FROM record WHERE no = (SELECT max(no) FROM record)")?;
            add("SELECT no, id FROM entry WHERE no = (SELECT max(no) FROM entry)")?;
        }
        Ok(hash.finalize().into())
    }

    pub(crate) fn highest(&self) -> Result<Highest, Error> {
        let task = self.db.query_row("SELECT coalesce(max(no), 0) FROM task", [], |row| row.get(0))?;
        let name: i64 = self.db.query_row("SELECT coalesce(max(no), 0) FROM name", [], |row| row.get(0))?;
        let name = self.more_names.last().map_or_else(|| number(name), |last| Ok(last.no))?;
        let entry = self.db.query_row("SELECT coalesce(max(no), 0) FROM entry", [], |row| row.get(0))?;
        Ok(Highest { task, name, entry })
    }

    pub(crate) fn names(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<NameRow> {
        let mut statement = self.db.prepare_cached("SELECT no, text FROM name WHERE no > ?1 ORDER BY no LIMIT ?2")?;
        let from = RowPosition::at(after, 0);
        let mut page = Vec::new();
        let mut rows = statement.query(params![from, limit(most)])?;
        while let Some(row) = rows.next()? {
            let no: i64 = row.get(0)?;
            page.push((RowPosition::number(&[no]), NameRow { no: number(no)?, text: row.get(1)? }));
        }
        for name in self.more_names.iter().filter(|name| i64::from(name.no) > from) {
            if page.len() == most.rows {
                break;
            }
            page.push((RowPosition::number(&[i64::from(name.no)]), name.clone()));
        }
        Ok(page)
    }

    pub(crate) fn tasks(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<TaskRow> {
        let mut statement = self.db.prepare_cached(
            "SELECT id, no, context, tenant_no, agent_no, views, state, status_at, listed, running, settled
             FROM task INDEXED BY task_by_id WHERE id > ?1 ORDER BY id LIMIT ?2",
        )?;
        // The empty blob is before every id.
        let from = after.map_or(&[][..], |place| &place.bytes);
        let mut page = Vec::new();
        let mut rows = statement.query(params![from, limit(most)])?;
        while let Some(row) = rows.next()? {
            let (id, no) = (row.get::<_, TaskIdColumn>(0)?.0, row.get(1)?);
            let (seq, starts) = self.measure(no)?;
            let views = unpack_views(row.get_ref(5)?.as_blob().map_err(rusqlite::Error::from)?);
            let task = TaskRow {
                no,
                id,
                context: row.get::<_, Context>(2)?.into_id(),
                tenant_no: number(row.get(3)?)?,
                agent_no: number(row.get(4)?)?,
                views: views.iter().map(|view| number(*view)).collect::<Result<_, _>>()?,
                row: row_from(row, 6)?,
                seq,
                starts,
            };
            page.push((RowPosition::bytes(id.0.as_bytes()), task));
        }
        Ok(page)
    }

    /// The length of a log, and how often a turn was started in it.
    fn measure(&self, no: i64) -> Result<(u64, u64), Error> {
        let (mut seq, mut starts) = (0, 0);
        self.walk(log_key(no, 0) - 1, log_key(no, MAX_SEQ), |key, last, payload| {
            let events = stored::decode(Seq(first_seq(key)), payload)?;
            starts += events.iter().filter(|event| matches!(event.body, Body::TurnStarted { .. })).count() as u64;
            seq = last;
            Ok(true)
        })?;
        Ok((seq, starts))
    }

    pub(crate) fn logs(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<LogRow> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        self.walk(RowPosition::at(after, 0), i64::MAX, |key, last, payload| {
            let (task_no, first) = (key >> MAX_SEQ.count_ones(), first_seq(key));
            let log = LogRow { task_no, first, last, payload: Bytes::copy_from_slice(payload) };
            page.push((RowPosition::number(&[key]), log));
            bytes += payload.len();
            Ok(page.len() < most.rows && bytes < most.bytes)
        })?;
        Ok(page)
    }

    /// Rows of logs above one key up to another, with those of live turns where they belong, until `take` has enough.
    fn walk(
        &self,
        above: i64,
        upto: i64,
        mut take: impl FnMut(i64, u64, &[u8]) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut statement = self
            .db
            .prepare_cached("SELECT key, last_seq, payload FROM log WHERE key > ?1 AND key <= ?2 ORDER BY key")?;
        let mut rows = statement.query(params![above, upto])?;
        let mut pieces = if above < upto {
            self.tail.range((std::ops::Bound::Excluded(above), std::ops::Bound::Included(upto)))
        } else {
            self.tail.range(..i64::MIN)
        }
        .peekable();
        loop {
            let row = rows.next()?;
            let key = row.map(|row| row.get::<_, i64>(0)).transpose()?;
            while let Some((at, (place, last))) = pieces.next_if(|(at, _)| key.is_none_or(|key| **at < key)) {
                let mut find = self.db.prepare_cached("SELECT payload FROM tail WHERE key = ?1")?;
                let payload: Vec<u8> = find.query_row(params![place], |row| row.get(0))?;
                if !take(*at, *last, &payload)? {
                    return Ok(());
                }
            }
            let (Some(row), Some(key)) = (row, key) else { return Ok(()) };
            let payload = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
            if !take(key, row.get::<_, i64>(1)? as u64, payload)? {
                return Ok(());
            }
        }
    }

    pub(crate) fn listings(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<ListingRow> {
        self.page(
            "SELECT l.view_no, l.state, l.status_at, l.task_no, t.id, t.context
             FROM listing AS l CROSS JOIN task AS t ON t.no = l.task_no
             WHERE (l.view_no, l.state, l.status_at, l.task_no) > (?1, ?2, ?3, ?4)
             ORDER BY l.view_no, l.state, l.status_at, l.task_no LIMIT ?5",
            params![
                RowPosition::at(after, 0),
                RowPosition::at(after, 1),
                RowPosition::at(after, 2),
                RowPosition::at(after, 3),
                limit(most)
            ],
            |row| {
                let (view_no, state): (i64, i16) = (row.get(0)?, row.get(1)?);
                let (status_at, task_no): (i64, i64) = (row.get(2)?, row.get(3)?);
                let place = RowPosition::number(&[view_no, i64::from(state), status_at, task_no]);
                let context = row.get::<_, Context>(5)?.into_id();
                let (view_no, task) = (number(view_no)?, row.get::<_, TaskIdColumn>(4)?.0);
                Ok((place, ListingRow { view_no, state, status_at, task_no, task, context }))
            },
        )
    }

    pub(crate) fn timers(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<TimerRow> {
        self.page(
            "SELECT timer.task_no, timer.kind, timer.due, task.id
             FROM timer CROSS JOIN task ON task.no = timer.task_no WHERE (timer.task_no, timer.kind) > (?1, ?2)
             ORDER BY timer.task_no, timer.kind LIMIT ?3",
            params![RowPosition::at(after, 0), RowPosition::at(after, 1), limit(most)],
            |row| {
                let (task_no, kind): (i64, i16) = (row.get(0)?, row.get(1)?);
                let timer = TimerRow { task: row.get::<_, TaskIdColumn>(3)?.0, kind, task_no, due: row.get(2)? };
                Ok((RowPosition::number(&[task_no, i64::from(kind)]), timer))
            },
        )
    }

    pub(crate) fn aliases(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<AliasRow> {
        self.page(
            "SELECT alias.key, task.id FROM alias CROSS JOIN task ON task.no = alias.task_no
             WHERE alias.key > ?1 ORDER BY alias.key LIMIT ?2",
            params![after.map_or(&[][..], |place| &place.bytes), limit(most)],
            |row| {
                let key: [u8; 32] = row.get(0)?;
                Ok((RowPosition::bytes(&key), AliasRow { key, task: row.get::<_, TaskIdColumn>(1)?.0 }))
            },
        )
    }

    pub(crate) fn access(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<AccessRow> {
        let from = after.map(|place| String::from_utf8_lossy(&place.bytes).into_owned());
        self.page(
            "SELECT id, row FROM access WHERE ?1 IS NULL OR id > ?1 ORDER BY id LIMIT ?2",
            params![from, limit(most)],
            |row| {
                let id: String = row.get(0)?;
                Ok((RowPosition::bytes(id.as_bytes()), AccessRow { id, row: row.get(1)? }))
            },
        )
    }

    pub(crate) fn uses(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<KeyUseRow> {
        self.page(
            "SELECT hour, key, body, task, seq, at FROM idempotency WHERE (hour, key) > (?1, ?2)
             ORDER BY hour, key LIMIT ?3",
            params![RowPosition::at(after, 0), after.map_or(&[][..], |place| &place.bytes), limit(most)],
            |row| {
                let (hour, key): (i64, [u8; 32]) = (row.get(0)?, row.get(1)?);
                let used = KeyUse {
                    key,
                    body: row.get(2)?,
                    task: row.get::<_, TaskIdColumn>(3)?.0,
                    seq: Seq(row.get::<_, i64>(4)? as u64),
                    at: Time(row.get(5)?),
                };
                Ok((RowPosition { numbers: vec![hour], bytes: key.to_vec() }, KeyUseRow { hour, used }))
            },
        )
    }

    pub(crate) fn blobs(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<BlobRow> {
        self.page_within(
            most,
            "SELECT no, tenant, hash, bytes FROM blob WHERE no > ?1 ORDER BY no LIMIT ?2",
            params![RowPosition::at(after, 0), limit(most)],
            |row| {
                let tenant_no = self.tenant(row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)?;
                Ok((
                    RowPosition::number(&[row.get(0)?]),
                    BlobRow { tenant_no, hash: row.get(2)?, bytes: bytes_at(row, 3)? },
                ))
            },
            |blob| blob.bytes.len(),
        )
    }

    pub(crate) fn blob_uses(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<BlobUse> {
        self.page(
            "SELECT blob_use.task_no, blob_use.blob_no, task.id, blob.tenant, blob.hash FROM blob_use
             CROSS JOIN task ON task.no = blob_use.task_no CROSS JOIN blob ON blob.no = blob_use.blob_no
             WHERE (blob_use.task_no, blob_use.blob_no) > (?1, ?2)
             ORDER BY blob_use.task_no, blob_use.blob_no LIMIT ?3",
            params![RowPosition::at(after, 0), RowPosition::at(after, 1), limit(most)],
            |row| {
                let tenant_no = self.tenant(row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?)?;
                let used = BlobUse { task: row.get::<_, TaskIdColumn>(2)?.0, tenant_no, hash: row.get(4)? };
                Ok((RowPosition::number(&[row.get(0)?, row.get(1)?]), used))
            },
        )
    }

    pub(crate) fn push(&self, after: Option<&RowPosition>, most: BatchLimits) -> Page<PushConfigRow> {
        self.page_within(
            most,
            "SELECT task_no, id, made_no, task, edition, state, next, due, attempts, failing_since, delivered,
                    delivered_at, made_at, trouble, spec, epoch
             FROM push WHERE (task_no, id) > (?1, ?2) ORDER BY task_no, id LIMIT ?3",
            params![RowPosition::at(after, 0), RowPosition::text(after), limit(most)],
            |row| {
                let (task_no, id): (i64, String) = (row.get(0)?, row.get(1)?);
                Ok((RowPosition::both(&[task_no], id.as_bytes()), push_from(row)?))
            },
            |push| push.row.spec.len(),
        )
    }

    /// A page of one query.
    fn page<T>(
        &self,
        sql: &str,
        bound: impl rusqlite::Params,
        read: impl Fn(&Row<'_>) -> Result<(RowPosition, T), Error>,
    ) -> Page<T> {
        self.page_within(BatchLimits { rows: usize::MAX, bytes: usize::MAX }, sql, bound, read, |_| 0)
    }

    /// A page of rows that may be long: it ends with the one that fills it.
    fn page_within<T>(
        &self,
        most: BatchLimits,
        sql: &str,
        bound: impl rusqlite::Params,
        read: impl Fn(&Row<'_>) -> Result<(RowPosition, T), Error>,
        weigh: impl Fn(&T) -> usize,
    ) -> Page<T> {
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(bound)?;
        let (mut page, mut bytes) = (Vec::new(), 0);
        while bytes < most.bytes
            && let Some(row) = rows.next()?
        {
            let (place, row) = read(row)?;
            bytes += weigh(&row);
            page.push((place, row));
        }
        Ok(page)
    }

    fn tenant(&self, text: &str) -> Result<i32, Error> {
        self.tenants.get(text).copied().ok_or_else(|| Error::Odd("a blob's tenant has no number".into()))
    }

    /// How many rows of each kind there are, in the order of [`crate::migrate`]'s kinds.
    pub(crate) fn totals(&self) -> Result<[u64; COUNT], Error> {
        let count = |table: &str| -> Result<u64, Error> {
            let sql = format!("SELECT count(*) FROM {table}");
            Ok(self.db.query_row(&sql, [], |row| row.get::<_, i64>(0))? as u64)
        };
        Ok([
            count("name")? + self.more_names.len() as u64,
            count("task")?,
            count("log")? + self.tail.len() as u64,
            count("listing")?,
            count("timer")?,
            count("alias")?,
            count("access")?,
            count("idempotency")?,
            count("blob")?,
            count("blob_use")?,
            count("push")?,
            count("record")?,
            count("record_place")?,
            count("entry")?,
            count("posting")?,
            count("account")?,
            count("text")?,
        ])
    }

    /// Counters that do not say what there is: view, kind, what is counted and what is kept.
    pub(crate) fn miscounted(&self) -> Result<Vec<[i64; 4]>, Error> {
        let mut statement = self.db.prepare(&format!(
            "WITH counted (view_no, kind, n) AS (
               SELECT view_no, state, count(*) FROM listing GROUP BY view_no, state
               UNION ALL SELECT view_no, {all}, count(*) FROM listing GROUP BY view_no
               UNION ALL SELECT {store}, state, count(*) FROM task GROUP BY state
               UNION ALL SELECT {store}, {all}, count(*) FROM task
               UNION ALL SELECT {store}, {running}, count(*) FROM task WHERE running = 1
               UNION ALL SELECT {store}, {rows}, count(*) FROM log
               UNION ALL SELECT {store}, {blobs}, count(*) FROM blob
               UNION ALL SELECT {store}, {bytes}, coalesce(sum(length(bytes)), 0) FROM blob
               UNION ALL SELECT {store}, {timers}, count(*) FROM timer
               UNION ALL SELECT {store}, {keys}, count(*) FROM idempotency
               UNION ALL SELECT {store}, {aliases}, count(*) FROM alias
               UNION ALL SELECT {store}, {active}, count(*) FROM push WHERE state = {is_active}
               UNION ALL SELECT {store}, {dead}, count(*) FROM push WHERE state = {is_dead}
               UNION ALL SELECT {store}, {records}, count(*) FROM record
               UNION ALL SELECT {store}, {entries}, count(*) FROM entry
             )
             SELECT coalesce(counted.view_no, counter.view_no), coalesce(counted.kind, counter.kind),
                    coalesce(counted.n, 0), coalesce(counter.n, 0)
             FROM counted FULL JOIN counter ON counter.view_no = counted.view_no AND counter.kind = counted.kind
             WHERE coalesce(counted.n, 0) <> coalesce(counter.n, 0) ORDER BY 1, 2 LIMIT 10",
            store = counters::STORE,
            all = counters::ALL,
            running = counters::RUNNING,
            rows = counters::LOG_ROWS,
            blobs = counters::BLOBS,
            bytes = counters::BLOB_BYTES,
            timers = counters::TIMERS,
            keys = counters::KEYS,
            aliases = counters::ALIASES,
            active = counters::PUSH_ACTIVE,
            dead = counters::PUSH_DEAD,
            records = counters::RECORDS,
            entries = counters::ENTRIES,
            is_active = PushState::Active.code(),
            is_dead = PushState::Dead.code(),
        ))?;
        let rows = statement.query_map([], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?]))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

/// The rows that are in the tail and not in the log. Rows that the log has too are dead, and so are those of
/// tasks that are gone.
fn tail(db: &Connection) -> rusqlite::Result<BTreeMap<i64, (i64, u64)>> {
    let kept = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'tail'";
    if db.query_row(kept, [], |row| row.get::<_, i64>(0))? == 0 {
        return Ok(BTreeMap::new());
    }
    let mut statement = db.prepare(
        "SELECT tail.key, tail.task_no, tail.first_seq, tail.last_seq FROM tail CROSS JOIN task ON task.no = tail.task_no
         WHERE tail.first_seq > coalesce((SELECT log.last_seq FROM log
                                          WHERE log.key BETWEEN task.no << 26 AND (task.no << 26) + 67108863
                                          ORDER BY log.key DESC LIMIT 1), 0)",
    )?;
    let rows = statement.query_map([], |row| {
        let (task_no, first): (i64, i64) = (row.get(1)?, row.get(2)?);
        Ok((log_key(task_no, first as u64), (row.get(0)?, row.get::<_, i64>(3)? as u64)))
    })?;
    rows.collect()
}

/// The numbers of tenants that have blobs. One that nothing else names gets the next number, always the same.
fn tenants(db: &Connection) -> rusqlite::Result<(HashMap<String, i32>, Vec<NameRow>)> {
    let mut next: i64 = db.query_row("SELECT coalesce(max(no), 0) + 1 FROM name", [], |row| row.get(0))?;
    let mut statement = db.prepare(
        "SELECT DISTINCT blob.tenant, (SELECT no FROM name WHERE text = blob.tenant) FROM blob ORDER BY blob.tenant",
    )?;
    let mut rows = statement.query([])?;
    let (mut tenants, mut more) = (HashMap::new(), Vec::new());
    while let Some(row) = rows.next()? {
        let (text, known): (String, Option<i64>) = (row.get(0)?, row.get(1)?);
        let no = known.unwrap_or(next);
        let no = i32::try_from(no).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(1, no))?;
        if known.is_none() {
            next += 1;
            more.push(NameRow { no, text: text.clone() });
        }
        tenants.insert(text, no);
    }
    Ok((tenants, more))
}

fn push_from(row: &Row<'_>) -> Result<PushConfigRow, Error> {
    let code: u8 = row.get(5)?;
    let state = PushState::from_code(code).ok_or_else(|| Error::Odd(format!("a push config in state {code}")))?;
    Ok(PushConfigRow {
        made_no: row.get(2)?,
        row: PushRow {
            task: row.get::<_, TaskIdColumn>(3)?.0,
            id: row.get(1)?,
            edition: row.get::<_, i64>(4)? as u64,
            epoch: Epoch(row.get::<_, i64>(15)? as u64),
            spec: bytes_at(row, 14)?,
            made_at: Time(row.get(12)?),
            progress: PushProgress {
                state,
                next: Seq(row.get::<_, i64>(6)? as u64),
                due: Time(row.get(7)?),
                attempts: row.get(8)?,
                failing_since: row.get::<_, Option<i64>>(9)?.map(Time),
                delivered: row.get::<_, i64>(10)? as u64,
                delivered_at: row.get::<_, Option<i64>>(11)?.map(Time),
                trouble: row.get(13)?,
            },
        },
    })
}

fn bytes_at(row: &Row<'_>, column: usize) -> Result<Bytes, Error> {
    Ok(Bytes::copy_from_slice(row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?))
}

fn limit(most: BatchLimits) -> i64 {
    super::read::limit_of(most.rows)
}

/// A number of a name, which other stores keep in fewer bits.
fn number(no: i64) -> Result<i32, Error> {
    i32::try_from(no).map_err(|_| Error::Odd(format!("there are too many names: {no}")))
}
