//! The other end of a migration: writes another store's rows into an empty database, and reads them back to compare.
//!
//! Every batch is one transaction with the place it ends at, so that the next run after a crash goes on there. Turns and push
//! configs come without a holder (0 is no replica's number): the first replica that looks takes them up. The rows are in
//! `tasks`, `beside` and `records`.

mod beside;
mod records;
mod tasks;
mod texts;

use tokio_postgres::Row as Columns;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connect::{Conn, ConnectError, ConnectTarget, Sql};
use super::counters::CounterSums;
use super::trouble::Failure;
use super::{Options, PostgresOpenError, schema};
use crate::migrate::COUNT;
use crate::migrate::rows::{Highest, RowPosition};

/// A number that no replica has.
const NOBODY: i64 = 0;
/// The rows of counters that what is brought here is counted in.
const SLOT: i32 = 0;

/// The lock that a migration into a database holds: "RIAM".
static LOCK: Sql = Sql { text: "SELECT pg_advisory_lock(1380532557)", types: &[] };
static THERE: Sql = Sql { text: "SELECT to_regclass('rialto.migration') IS NOT NULL", types: &[] };
static FIND: Sql =
    Sql { text: "SELECT source, phase, numbers, bytes, finished_at IS NOT NULL FROM rialto.migration", types: &[] };
/// Whether anything is there, and whether anybody is.
static LOOK: Sql = Sql {
    text: "SELECT EXISTS (SELECT 1 FROM rialto.task) OR EXISTS (SELECT 1 FROM rialto.name)
                  OR EXISTS (SELECT 1 FROM rialto.log) OR EXISTS (SELECT 1 FROM rialto.access)
                  OR EXISTS (SELECT 1 FROM rialto.idempotency) OR EXISTS (SELECT 1 FROM rialto.blob)
                  OR EXISTS (SELECT 1 FROM rialto.record) OR EXISTS (SELECT 1 FROM rialto.entry)
                  OR EXISTS (SELECT 1 FROM rialto.text),
                  EXISTS (SELECT 1 FROM rialto.replica WHERE NOT has_left
                          AND beat_at >= clock_timestamp() - $1 * interval '1 millisecond')",
    types: &[Type::FLOAT8],
};
static BEGIN: Sql = Sql { text: "INSERT INTO rialto.migration (source, phase) VALUES ($1, 0)", types: &[Type::BYTEA] };
/// Nothing is there, so what replicas had agreed on is about nothing.
static FORGET: Sql = Sql { text: "DELETE FROM rialto.note", types: &[] };
static NOTE: Sql = Sql {
    text: "INSERT INTO rialto.note (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    types: &[Type::TEXT, Type::TEXT],
};
static STEP: Sql = Sql {
    text: "UPDATE rialto.migration SET phase = $1, numbers = $2, bytes = $3",
    types: &[Type::INT2, Type::INT8_ARRAY, Type::BYTEA],
};
static FINISH: Sql =
    Sql { text: "UPDATE rialto.migration SET finished_at = clock_timestamp() WHERE finished_at IS NULL", types: &[] };
/// Numbers that are given out from now on are above those that are there.
static TASKS_ABOVE: Sql = Sql {
    text: "SELECT setval('rialto.task_no', greatest($1, (SELECT last_value FROM rialto.task_no)), true)",
    types: &[Type::INT8],
};
static NAMES_ABOVE: Sql =
    Sql { text: "SELECT setval(pg_get_serial_sequence('rialto.name', 'no'), $1::integer, true)", types: &[Type::INT4] };

static ENTRIES_ABOVE: Sql = Sql {
    text: "SELECT setval('rialto.entry_no', greatest($1, (SELECT last_value FROM rialto.entry_no)), true)",
    types: &[Type::INT8],
};

/// How far a migration has come.
pub(crate) struct PriorMigration {
    pub(crate) source: Vec<u8>,
    pub(crate) phase: i16,
    pub(crate) place: Option<RowPosition>,
    pub(crate) is_finished: bool,
}

/// The state of a database before a migration into it.
pub(crate) enum TargetState {
    Empty,
    /// It holds tasks already.
    Taken,
    /// A replica has it open.
    Open,
}

/// The sums that a batch adds to the counters.
#[derive(Default)]
pub(crate) struct Sums(CounterSums);

/// Why the database did not do it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct ImportError(Failure);

impl ImportError {
    /// It was reached, and what it has cannot be read.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self.0, Failure::Damaged(_))
    }
}

impl From<Failure> for ImportError {
    fn from(failure: Failure) -> ImportError {
        ImportError(failure)
    }
}

impl From<tokio_postgres::Error> for ImportError {
    fn from(error: tokio_postgres::Error) -> ImportError {
        ImportError(error.into())
    }
}

pub(crate) struct PostgresImport {
    db: Conn,
    target: ConnectTarget,
    lease_ms: f64,
}

impl PostgresImport {
    /// Connects, past a pooler where there is one: the lock is the session's.
    pub(crate) async fn connect(options: &Options) -> Result<PostgresImport, PostgresOpenError> {
        let target = ConnectTarget::new(options.direct_url.as_ref().unwrap_or(&options.url), false, options)?;
        let db = target.connect().await.map_err(|fault| target.explain(&fault))?;
        let settings = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = '60s'";
        db.run(settings).await.map_err(|error| target.explain(&ConnectError::Sql(error)))?;
        Ok(PostgresImport { db, target, lease_ms: options.lease.as_secs_f64() * 1000.0 })
    }

    /// Brings the database to this release's schema.
    pub(crate) async fn prepare(&self) -> Result<(), PostgresOpenError> {
        schema::migrate(&self.db, &self.target).await
    }

    /// Takes the database for this migration; `false` while another one has it. Waits for one that was killed a moment ago.
    pub(crate) async fn take(&self) -> Result<bool, ImportError> {
        match self.db.query(&LOCK, []).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The migration that is there, if there is one.
    pub(crate) async fn found(&self) -> Result<Option<PriorMigration>, ImportError> {
        let there = self.db.query(&THERE, []).await?;
        if !there.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(false) {
            return Ok(None);
        }
        let rows = self.db.query(&FIND, []).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (numbers, bytes): (Option<Vec<i64>>, Option<Vec<u8>>) = (row.try_get(2)?, row.try_get(3)?);
        let place = numbers.zip(bytes).map(|(numbers, bytes)| RowPosition { numbers, bytes });
        Ok(Some(PriorMigration {
            source: row.try_get(0)?,
            phase: row.try_get(1)?,
            place,
            is_finished: row.try_get(4)?,
        }))
    }

    /// Marks the database as the target of this source, if it is empty. Replicas enter under the same lock, and see the mark.
    pub(crate) async fn begin(&self, source: &[u8]) -> Result<TargetState, ImportError> {
        self.db.begin().await?;
        self.db.query(&schema::LOCK, []).await?;
        let rows = self.db.query(&LOOK, [&self.lease_ms]).await?;
        let (taken, open) = match rows.first() {
            Some(row) => (row.try_get(0)?, row.try_get(1)?),
            None => (false, false),
        };
        if taken || open {
            self.db.run("ROLLBACK").await?;
            return Ok(if taken { TargetState::Taken } else { TargetState::Open });
        }
        self.db.execute(&FORGET, []).await?;
        self.db.execute(&BEGIN, [&source]).await?;
        self.db.run("COMMIT").await?;
        Ok(TargetState::Empty)
    }

    /// Begins a batch.
    pub(crate) async fn open_batch(&self) -> Result<(), ImportError> {
        Ok(self.db.begin().await?)
    }

    /// Ends a batch, with the place it has come to.
    pub(crate) async fn close_batch(
        &self,
        sums: &Sums,
        phase: i16,
        place: Option<&RowPosition>,
    ) -> Result<(), ImportError> {
        sums.0.write(&self.db, SLOT).await?;
        let numbers = place.map(|place| &place.numbers);
        let bytes = place.map(|place| &place.bytes[..]);
        self.db.execute(&STEP, [&phase, &numbers, &bytes]).await?;
        Ok(self.db.run("COMMIT").await?)
    }

    /// Lets replicas in, which must agree on these notes.
    pub(crate) async fn finish(&self, highest: Highest, notes: &[(String, String)]) -> Result<(), ImportError> {
        let Highest { task, name, entry } = highest;
        // A sequence keeps no promise of a transaction's, but setting it twice is setting it once.
        if task > 0 {
            self.db.query(&TASKS_ABOVE, [&task]).await?;
        }
        if name > 0 {
            self.db.query(&NAMES_ABOVE, [&name]).await?;
        }
        if entry > 0 {
            self.db.query(&ENTRIES_ABOVE, [&entry]).await?;
        }
        self.db.begin().await?;
        for (name, value) in notes {
            self.db.execute(&NOTE, [name, value]).await?;
        }
        self.db.execute(&FINISH, []).await?;
        Ok(self.db.run("COMMIT").await?)
    }
}

// How many there are.

static TOTALS: Sql = Sql {
    text: "SELECT (SELECT count(*) FROM rialto.name), (SELECT count(*) FROM rialto.task),
                  (SELECT count(*) FROM rialto.log), (SELECT count(*) FROM rialto.listing),
                  (SELECT count(*) FROM rialto.timer), (SELECT count(*) FROM rialto.alias),
                  (SELECT count(*) FROM rialto.access),
                  (SELECT coalesce(sum(octet_length(uses) / 64), 0)::bigint FROM rialto.idempotency),
                  (SELECT count(*) FROM rialto.blob), (SELECT count(*) FROM rialto.blob_use),
                  (SELECT count(*) FROM rialto.push), (SELECT count(*) FROM rialto.record),
                  (SELECT count(*) FROM rialto.record_list), (SELECT count(*) FROM rialto.entry),
                  (SELECT count(*) FROM rialto.posting), (SELECT count(*) FROM rialto.account),
                  (SELECT count(*) FROM rialto.text)",
    types: &[],
};
/// Counters that differ from the rows they count. The numbers of kinds are those in `counters.rs`.
static MISCOUNTED: Sql = Sql {
    text: "WITH counted (view_no, kind, n) AS (
             SELECT view_no, state::integer, count(*)::bigint FROM rialto.listing GROUP BY view_no, state
             UNION ALL SELECT view_no, 0, count(*) FROM rialto.listing GROUP BY view_no
             UNION ALL SELECT 0, state::integer, count(*) FROM rialto.task GROUP BY state
             UNION ALL SELECT 0, 0, count(*) FROM rialto.task
             UNION ALL SELECT 0, 16, count(*) FROM rialto.task WHERE running
             UNION ALL SELECT 0, 17, count(*) FROM rialto.log
             UNION ALL SELECT 0, 18, count(*) FROM rialto.blob
             UNION ALL SELECT 0, 19, coalesce(sum(size), 0)::bigint FROM rialto.blob
             UNION ALL SELECT 0, 20, count(*) FROM rialto.timer
             UNION ALL SELECT 0, 21, coalesce(sum(octet_length(uses) / 64), 0)::bigint FROM rialto.idempotency
             UNION ALL SELECT 0, 22, count(*) FROM rialto.alias
             UNION ALL SELECT 0, 23, count(*) FROM rialto.push WHERE state = 1
             UNION ALL SELECT 0, 24, count(*) FROM rialto.push WHERE state = 3
             UNION ALL SELECT 0, 25, count(*) FROM rialto.record
             UNION ALL SELECT 0, 26, count(*) FROM rialto.entry
           ), kept (view_no, kind, n) AS (
             SELECT view_no, kind::integer, sum(n)::bigint FROM rialto.counter WHERE kind NOT IN (27, 28)
             GROUP BY view_no, kind
           )
           SELECT view_no::bigint, kind::bigint, coalesce(counted.n, 0), coalesce(kept.n, 0)
           FROM counted FULL JOIN kept USING (view_no, kind)
           WHERE coalesce(counted.n, 0) <> coalesce(kept.n, 0) ORDER BY 1, 2 LIMIT 10",
    types: &[],
};

impl PostgresImport {
    /// How many rows of each kind there are, in the order of [`crate::migrate`]'s kinds.
    pub(crate) async fn totals(&self) -> Result<[u64; COUNT], ImportError> {
        let mut totals = [0; COUNT];
        for row in self.whole(&TOTALS).await? {
            for (place, total) in totals.iter_mut().enumerate() {
                *total = row.try_get::<_, i64>(place)? as u64;
            }
        }
        Ok(totals)
    }

    /// Counters that do not say what there is: view, kind, what is counted and what is kept.
    pub(crate) async fn miscounted(&self) -> Result<Vec<[i64; 4]>, ImportError> {
        let rows = self.whole(&MISCOUNTED).await?;
        let read = |row: &Columns| -> Result<[i64; 4], ImportError> {
            Ok([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?])
        };
        rows.iter().map(read).collect()
    }

    /// A query over whole tables, which indexes only make slower.
    async fn whole(&self, sql: &'static Sql) -> Result<Vec<Columns>, ImportError> {
        self.db.begin().await?;
        let free = "SET LOCAL enable_seqscan = on; SET LOCAL enable_hashjoin = on; SET LOCAL enable_mergejoin = on";
        self.db.run(free).await?;
        let rows = self.db.query(sql, []).await?;
        self.db.run("COMMIT").await?;
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use model::PushState;

    use super::super::counters;

    #[test]
    fn the_numbers_in_the_statements_are_those_of_the_counters() {
        let kinds = [
            counters::ALL,
            counters::RUNNING,
            counters::LOG_ROWS,
            counters::BLOBS,
            counters::BLOB_BYTES,
            counters::TIMERS,
            counters::KEYS,
            counters::ALIASES,
            counters::PUSH_ACTIVE,
            counters::PUSH_DEAD,
            counters::RECORDS,
            counters::ENTRIES,
        ];
        assert_eq!(kinds, [0, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26]);
        assert_eq!([PushState::Active, PushState::Dead].map(PushState::code), [1, 3]);
    }
}
