//! The other end of a migration: writes another store's rows into an empty database, and reads them back to compare.
//!
//! Every batch is one transaction with the place it ends at, so that whoever goes on after a crash knows where. Turns and push
//! configs come without a holder (0 is no replica's number): the first replica that looks takes them up.

use std::collections::HashMap;

use bytes::Bytes;
use model::TaskId;
use model::ports::store::KeyUse;
use tokio_postgres::Row as Columns;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::columns::{
    code, context_bytes, context_from, hash_from, pack_uses, pack_views, row_from, text_from, unpack_uses, unpack_views,
};
use super::connect::{Conn, Fault, Sql, Target};
use super::counters::{self, Tally};
use super::trouble::Failure;
use super::{OpenError, Options, push, schema, statements as sql};
use crate::migrate::rows::{Access, Alias, Blob, BlobUse, Listing, Log, Name, Place, Push, Task, Timer, Use};

/// What no replica has as its number.
const NOBODY: i64 = 0;
/// The rows of counters that what is brought here is counted in.
const SLOT: i32 = 0;

/// Whoever migrates into a database holds this lock for as long: "RIAM".
static LOCK: Sql = Sql { text: "SELECT pg_advisory_lock(1380532557)", types: &[] };
static THERE: Sql = Sql { text: "SELECT to_regclass('rialto.migration') IS NOT NULL", types: &[] };
static FIND: Sql =
    Sql { text: "SELECT source, phase, numbers, bytes, finished_at IS NOT NULL FROM rialto.migration", types: &[] };
/// Whether anything is there, and whether anybody is.
static LOOK: Sql = Sql {
    text: "SELECT EXISTS (SELECT 1 FROM rialto.task) OR EXISTS (SELECT 1 FROM rialto.name)
                  OR EXISTS (SELECT 1 FROM rialto.log) OR EXISTS (SELECT 1 FROM rialto.access)
                  OR EXISTS (SELECT 1 FROM rialto.idempotency) OR EXISTS (SELECT 1 FROM rialto.blob),
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

/// How far a migration has come.
pub(crate) struct Found {
    pub(crate) source: Vec<u8>,
    pub(crate) phase: i16,
    pub(crate) place: Option<Place>,
    pub(crate) is_finished: bool,
}

/// What a database is like before anything is brought to it.
pub(crate) enum State {
    Empty,
    /// Somebody's tasks are there.
    Taken,
    /// A replica has it open.
    Open,
}

/// What a batch adds to the counters.
#[derive(Default)]
pub(crate) struct Sums(Tally);

/// Why the database did not do it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) struct Failed(Failure);

impl Failed {
    /// It was reached, and what it has cannot be read.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(self.0, Failure::Damaged(_))
    }
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed(failure)
    }
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Failed {
        Failed(error.into())
    }
}

pub(crate) struct Import {
    db: Conn,
    target: Target,
    lease_ms: f64,
}

impl Import {
    /// Connects, past a pooler where there is one: the lock is the session's.
    pub(crate) async fn connect(options: &Options) -> Result<Import, OpenError> {
        let target = Target::new(options.direct_url.as_ref().unwrap_or(&options.url), false, options)?;
        let db = target.connect().await.map_err(|fault| target.explain(&fault))?;
        let settings = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = '60s'";
        db.run(settings).await.map_err(|error| target.explain(&Fault::Sql(error)))?;
        Ok(Import { db, target, lease_ms: options.lease.as_secs_f64() * 1000.0 })
    }

    /// Brings the database to this release's schema.
    pub(crate) async fn prepare(&self) -> Result<(), OpenError> {
        schema::migrate(&self.db, &self.target).await
    }

    /// Whether nobody else migrates into it now; from here on we do. Whoever was killed a moment ago is waited for.
    pub(crate) async fn take(&self) -> Result<bool, Failed> {
        match self.db.query(&LOCK, []).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// The migration that is there, if there is one.
    pub(crate) async fn found(&self) -> Result<Option<Found>, Failed> {
        let there = self.db.query(&THERE, []).await?;
        if !there.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(false) {
            return Ok(None);
        }
        let rows = self.db.query(&FIND, []).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (numbers, bytes): (Option<Vec<i64>>, Option<Vec<u8>>) = (row.try_get(2)?, row.try_get(3)?);
        let place = numbers.zip(bytes).map(|(numbers, bytes)| Place { numbers, bytes });
        Ok(Some(Found { source: row.try_get(0)?, phase: row.try_get(1)?, place, is_finished: row.try_get(4)? }))
    }

    /// Marks the database as the target of this source, if it is empty. Replicas enter under the same lock, and see the mark.
    pub(crate) async fn begin(&self, source: &[u8]) -> Result<State, Failed> {
        self.db.begin().await?;
        self.db.query(&schema::LOCK, []).await?;
        let rows = self.db.query(&LOOK, [&self.lease_ms]).await?;
        let (taken, open) = match rows.first() {
            Some(row) => (row.try_get(0)?, row.try_get(1)?),
            None => (false, false),
        };
        if taken || open {
            self.db.run("ROLLBACK").await?;
            return Ok(if taken { State::Taken } else { State::Open });
        }
        self.db.execute(&FORGET, []).await?;
        self.db.execute(&BEGIN, [&source]).await?;
        self.db.run("COMMIT").await?;
        Ok(State::Empty)
    }

    /// Begins a batch.
    pub(crate) async fn open_batch(&self) -> Result<(), Failed> {
        Ok(self.db.begin().await?)
    }

    /// Ends a batch, with the place it has come to.
    pub(crate) async fn close_batch(&self, sums: &Sums, phase: i16, place: Option<&Place>) -> Result<(), Failed> {
        sums.0.write(&self.db, SLOT).await?;
        let numbers = place.map(|place| &place.numbers);
        let bytes = place.map(|place| &place.bytes[..]);
        self.db.execute(&STEP, [&phase, &numbers, &bytes]).await?;
        Ok(self.db.run("COMMIT").await?)
    }

    /// Lets replicas in, which must agree on these notes.
    pub(crate) async fn finish(
        &self,
        highest_task: i64,
        highest_name: i32,
        notes: &[(String, String)],
    ) -> Result<(), Failed> {
        // A sequence keeps no promise of a transaction's, but setting it twice is setting it once.
        if highest_task > 0 {
            self.db.query(&TASKS_ABOVE, [&highest_task]).await?;
        }
        if highest_name > 0 {
            self.db.query(&NAMES_ABOVE, [&highest_name]).await?;
        }
        self.db.begin().await?;
        for (name, value) in notes {
            self.db.execute(&NOTE, [name, value]).await?;
        }
        self.db.execute(&FINISH, []).await?;
        Ok(self.db.run("COMMIT").await?)
    }
}

// Names.

static NAME_ADD: Sql = Sql {
    text: "INSERT INTO rialto.name (no, text) OVERRIDING SYSTEM VALUE
           SELECT * FROM unnest($1::integer[], $2::bytea[])",
    types: &[Type::INT4_ARRAY, Type::BYTEA_ARRAY],
};
static NAME_FIND: Sql =
    Sql { text: "SELECT no, text FROM rialto.name WHERE no = ANY ($1) ORDER BY no", types: &[Type::INT4_ARRAY] };

impl Import {
    pub(crate) async fn add_names(&self, rows: &[Name], _sums: &mut Sums) -> Result<(), Failed> {
        let numbers: Vec<i32> = rows.iter().map(|name| name.no).collect();
        let texts: Vec<&[u8]> = rows.iter().map(|name| name.text.as_bytes()).collect();
        self.db.execute(&NAME_ADD, [&numbers, &texts]).await?;
        Ok(())
    }

    pub(crate) async fn find_names(&self, rows: &[Name]) -> Result<Vec<Name>, Failed> {
        let numbers: Vec<i32> = rows.iter().map(|name| name.no).collect();
        let found = self.db.query(&NAME_FIND, [&numbers]).await?;
        let read = |row: &Columns| -> Result<Name, Failed> {
            Ok(Name { no: row.try_get(0)?, text: text_from(row.try_get(1)?)?.to_owned() })
        };
        found.iter().map(read).collect()
    }
}

// Tasks.

static TASK_FIND: Sql = Sql {
    text: "SELECT no, id, context, tenant_no, agent_no, views, seq, epoch, state, status_at, listed, running, settled
           FROM rialto.task WHERE id = ANY ($1) ORDER BY id",
    types: &[Type::UUID_ARRAY],
};

impl Import {
    pub(crate) async fn add_tasks(&self, rows: &[Task], sums: &mut Sums) -> Result<(), Failed> {
        rows.iter().for_each(|task| sums.0.count(&task.row, 1));
        let numbers: Vec<i64> = rows.iter().map(|task| task.no).collect();
        let ids: Vec<Uuid> = rows.iter().map(|task| task.id.0).collect();
        let lengths: Vec<i64> = rows.iter().map(|task| task.seq as i64).collect();
        let epochs: Vec<i64> = rows.iter().map(|task| task.starts as i64).collect();
        let times: Vec<i64> = rows.iter().map(|task| task.row.status_at.0).collect();
        let tenants: Vec<i32> = rows.iter().map(|task| task.tenant_no).collect();
        let agents: Vec<i32> = rows.iter().map(|task| task.agent_no).collect();
        let states: Vec<i16> = rows.iter().map(|task| code(task.row.state)).collect();
        let listed: Vec<bool> = rows.iter().map(|task| task.row.listed).collect();
        let running: Vec<bool> = rows.iter().map(|task| task.row.running).collect();
        let settled: Vec<bool> = rows.iter().map(|task| task.row.settled).collect();
        let contexts: Vec<Vec<u8>> = rows.iter().map(|task| context_bytes(&task.context)).collect();
        let views: Vec<Vec<u8>> = rows.iter().map(|task| pack_views(&task.views)).collect();
        self.db
            .execute(
                &sql::TASK_ADD,
                [
                    &numbers, &ids, &lengths, &epochs, &NOBODY, &times, &tenants, &agents, &states, &listed, &running,
                    &settled, &contexts, &views,
                ],
            )
            .await?;
        Ok(())
    }

    pub(crate) async fn find_tasks(&self, rows: &[Task]) -> Result<Vec<Task>, Failed> {
        let ids: Vec<Uuid> = rows.iter().map(|task| task.id.0).collect();
        let found = self.db.query(&TASK_FIND, [&ids]).await?;
        let read = |row: &Columns| -> Result<Task, Failed> {
            Ok(Task {
                no: row.try_get(0)?,
                id: TaskId(row.try_get(1)?),
                context: context_from(row.try_get(2)?)?,
                tenant_no: row.try_get(3)?,
                agent_no: row.try_get(4)?,
                views: unpack_views(row.try_get(5)?),
                seq: row.try_get::<_, i64>(6)? as u64,
                starts: row.try_get::<_, i64>(7)? as u64,
                row: row_from(row, 8)?,
            })
        };
        found.iter().map(read).collect()
    }
}

// Logs.

static LOG_FIND: Sql = Sql {
    text: "SELECT log.task_no, log.first_seq, log.last_seq, log.payload
           FROM unnest($1::bigint[], $2::bigint[]) AS u (task_no, first_seq)
           JOIN rialto.log ON log.task_no = u.task_no AND log.first_seq = u.first_seq
           ORDER BY log.task_no, log.first_seq",
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY],
};

impl Import {
    pub(crate) async fn add_logs(&self, rows: &[Log], sums: &mut Sums) -> Result<(), Failed> {
        sums.0.add(counters::LOG_ROWS, rows.len() as i64);
        let tasks: Vec<i64> = rows.iter().map(|log| log.task_no).collect();
        let firsts: Vec<i64> = rows.iter().map(|log| log.first as i64).collect();
        let lasts: Vec<i64> = rows.iter().map(|log| log.last as i64).collect();
        // Which of them a turn's holder wrote is no longer known, and nobody asks.
        let epochs: Vec<Option<i64>> = vec![None; rows.len()];
        let payloads: Vec<&[u8]> = rows.iter().map(|log| &log.payload[..]).collect();
        self.db.execute(&sql::LOG_ADD, [&tasks, &firsts, &lasts, &epochs, &payloads]).await?;
        Ok(())
    }

    pub(crate) async fn find_logs(&self, rows: &[Log]) -> Result<Vec<Log>, Failed> {
        let tasks: Vec<i64> = rows.iter().map(|log| log.task_no).collect();
        let firsts: Vec<i64> = rows.iter().map(|log| log.first as i64).collect();
        let found = self.db.query(&LOG_FIND, [&tasks, &firsts]).await?;
        let read = |row: &Columns| -> Result<Log, Failed> {
            Ok(Log {
                task_no: row.try_get(0)?,
                first: row.try_get::<_, i64>(1)? as u64,
                last: row.try_get::<_, i64>(2)? as u64,
                payload: Bytes::copy_from_slice(row.try_get(3)?),
            })
        };
        found.iter().map(read).collect()
    }
}

// Lists.

static LISTING_FIND: Sql = Sql {
    text: "SELECT l.view_no, l.state, l.status_at, l.task_no, l.task, l.context
           FROM unnest($1::integer[], $2::smallint[], $3::bigint[], $4::bigint[])
                AS u (view_no, state, status_at, task_no)
           JOIN rialto.listing AS l ON l.view_no = u.view_no AND l.state = u.state AND l.status_at = u.status_at
                                    AND l.task_no = u.task_no
           ORDER BY l.view_no, l.state, l.status_at, l.task_no",
    types: &[Type::INT4_ARRAY, Type::INT2_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY],
};

impl Import {
    pub(crate) async fn add_listings(&self, rows: &[Listing], sums: &mut Sums) -> Result<(), Failed> {
        for place in rows {
            sums.0.list(place.view_no, counters::ALL, 1);
            sums.0.list(place.view_no, place.state, 1);
        }
        let views: Vec<i32> = rows.iter().map(|place| place.view_no).collect();
        let states: Vec<i16> = rows.iter().map(|place| place.state).collect();
        let times: Vec<i64> = rows.iter().map(|place| place.status_at).collect();
        let numbers: Vec<i64> = rows.iter().map(|place| place.task_no).collect();
        let tasks: Vec<Uuid> = rows.iter().map(|place| place.task.0).collect();
        let contexts: Vec<Vec<u8>> = rows.iter().map(|place| context_bytes(&place.context)).collect();
        self.db.execute(&sql::LISTING_ADD, [&views, &states, &times, &numbers, &tasks, &contexts]).await?;
        Ok(())
    }

    pub(crate) async fn find_listings(&self, rows: &[Listing]) -> Result<Vec<Listing>, Failed> {
        let views: Vec<i32> = rows.iter().map(|place| place.view_no).collect();
        let states: Vec<i16> = rows.iter().map(|place| place.state).collect();
        let times: Vec<i64> = rows.iter().map(|place| place.status_at).collect();
        let numbers: Vec<i64> = rows.iter().map(|place| place.task_no).collect();
        let found = self.db.query(&LISTING_FIND, [&views, &states, &times, &numbers]).await?;
        let read = |row: &Columns| -> Result<Listing, Failed> {
            Ok(Listing {
                view_no: row.try_get(0)?,
                state: row.try_get(1)?,
                status_at: row.try_get(2)?,
                task_no: row.try_get(3)?,
                task: TaskId(row.try_get(4)?),
                context: context_from(row.try_get(5)?)?,
            })
        };
        found.iter().map(read).collect()
    }
}

// Timers.

static TIMER_FIND: Sql = Sql {
    text: "SELECT timer.task, timer.kind, timer.task_no, timer.due
           FROM unnest($1::uuid[], $2::smallint[]) AS u (task, kind)
           JOIN rialto.timer ON timer.task = u.task AND timer.kind = u.kind ORDER BY timer.task_no, timer.kind",
    types: &[Type::UUID_ARRAY, Type::INT2_ARRAY],
};

impl Import {
    pub(crate) async fn add_timers(&self, rows: &[Timer], sums: &mut Sums) -> Result<(), Failed> {
        sums.0.add(counters::TIMERS, rows.len() as i64);
        let tasks: Vec<Uuid> = rows.iter().map(|timer| timer.task.0).collect();
        let kinds: Vec<i16> = rows.iter().map(|timer| timer.kind).collect();
        let numbers: Vec<i64> = rows.iter().map(|timer| timer.task_no).collect();
        let times: Vec<i64> = rows.iter().map(|timer| timer.due).collect();
        self.db.execute(&sql::TIMER_PUT, [&tasks, &kinds, &numbers, &times]).await?;
        Ok(())
    }

    pub(crate) async fn find_timers(&self, rows: &[Timer]) -> Result<Vec<Timer>, Failed> {
        let tasks: Vec<Uuid> = rows.iter().map(|timer| timer.task.0).collect();
        let kinds: Vec<i16> = rows.iter().map(|timer| timer.kind).collect();
        let found = self.db.query(&TIMER_FIND, [&tasks, &kinds]).await?;
        let read = |row: &Columns| -> Result<Timer, Failed> {
            Ok(Timer {
                task: TaskId(row.try_get(0)?),
                kind: row.try_get(1)?,
                task_no: row.try_get(2)?,
                due: row.try_get(3)?,
            })
        };
        found.iter().map(read).collect()
    }
}

// Aliases, and keys that callers are known by.

static ALIAS_FIND: Sql =
    Sql { text: "SELECT key, task FROM rialto.alias WHERE key = ANY ($1) ORDER BY key", types: &[Type::BYTEA_ARRAY] };
static ACCESS_FIND: Sql =
    Sql { text: "SELECT id, row FROM rialto.access WHERE id = ANY ($1) ORDER BY id", types: &[Type::BYTEA_ARRAY] };

impl Import {
    pub(crate) async fn add_aliases(&self, rows: &[Alias], sums: &mut Sums) -> Result<(), Failed> {
        sums.0.add(counters::ALIASES, rows.len() as i64);
        let keys: Vec<&[u8]> = rows.iter().map(|alias| &alias.key[..]).collect();
        let tasks: Vec<Uuid> = rows.iter().map(|alias| alias.task.0).collect();
        self.db.execute(&sql::ALIAS_ADD, [&keys, &tasks]).await?;
        Ok(())
    }

    pub(crate) async fn find_aliases(&self, rows: &[Alias]) -> Result<Vec<Alias>, Failed> {
        let keys: Vec<&[u8]> = rows.iter().map(|alias| &alias.key[..]).collect();
        let found = self.db.query(&ALIAS_FIND, [&keys]).await?;
        let read = |row: &Columns| -> Result<Alias, Failed> {
            Ok(Alias { key: hash_from(row.try_get(0)?)?, task: TaskId(row.try_get(1)?) })
        };
        found.iter().map(read).collect()
    }

    pub(crate) async fn add_access(&self, rows: &[Access], _sums: &mut Sums) -> Result<(), Failed> {
        let ids: Vec<&[u8]> = rows.iter().map(|key| key.id.as_bytes()).collect();
        let texts: Vec<&[u8]> = rows.iter().map(|key| key.row.as_bytes()).collect();
        self.db.execute(&sql::ACCESS_PUT, [&ids, &texts]).await?;
        Ok(())
    }

    pub(crate) async fn find_access(&self, rows: &[Access]) -> Result<Vec<Access>, Failed> {
        let ids: Vec<&[u8]> = rows.iter().map(|key| key.id.as_bytes()).collect();
        let found = self.db.query(&ACCESS_FIND, [&ids]).await?;
        let read = |row: &Columns| -> Result<Access, Failed> {
            let (id, text) = (text_from(row.try_get(0)?)?, text_from(row.try_get(1)?)?);
            Ok(Access { id: id.to_owned(), row: text.to_owned() })
        };
        found.iter().map(read).collect()
    }
}

// Idempotency keys: here all uses of a key are one row, oldest first, and they come hour by hour.

static USE_ADD: Sql = Sql {
    text:
        "INSERT INTO rialto.idempotency (key, hour, uses) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[])
           ON CONFLICT (key) DO UPDATE SET uses = idempotency.uses || excluded.uses",
    types: &[Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};
static USE_FIND: Sql =
    Sql { text: "SELECT key, hour, uses FROM rialto.idempotency WHERE key = ANY ($1)", types: &[Type::BYTEA_ARRAY] };

impl Import {
    pub(crate) async fn add_uses(&self, rows: &[Use], sums: &mut Sums) -> Result<(), Failed> {
        sums.0.add(counters::KEYS, rows.len() as i64);
        let mut keys: Vec<(i64, Vec<KeyUse>)> = Vec::new();
        let mut places: HashMap<[u8; 32], usize> = HashMap::new();
        for Use { hour, used } in rows {
            let place = *places.entry(used.key).or_insert_with(|| {
                keys.push((*hour, Vec::new()));
                keys.len() - 1
            });
            keys[place].1.push(*used);
        }
        let names: Vec<&[u8]> = keys.iter().filter_map(|(_, uses)| uses.first()).map(|used| &used.key[..]).collect();
        let hours: Vec<i64> = keys.iter().map(|(hour, _)| *hour).collect();
        let packed: Vec<Vec<u8>> = keys.iter().map(|(_, uses)| pack_uses(uses)).collect();
        self.db.execute(&USE_ADD, [&names, &hours, &packed]).await?;
        Ok(())
    }

    pub(crate) async fn find_uses(&self, rows: &[Use]) -> Result<Vec<Use>, Failed> {
        let keys: Vec<&[u8]> = rows.iter().map(|row| &row.used.key[..]).collect();
        let mut kept: HashMap<[u8; 32], (i64, Vec<KeyUse>)> = HashMap::new();
        for row in self.db.query(&USE_FIND, [&keys]).await? {
            let key = hash_from(row.try_get(0)?)?;
            kept.insert(key, (row.try_get(1)?, unpack_uses(key, row.try_get(2)?)?));
        }
        let find = |wanted: &Use| {
            let (oldest, uses) = kept.get(&wanted.used.key)?;
            let used = uses.iter().find(|used| crate::shape::hour(used.at) == wanted.hour)?;
            // The row goes by the hour of its oldest use.
            let right = *oldest == uses.first().map_or(0, |used| crate::shape::hour(used.at));
            right.then_some(Use { hour: wanted.hour, used: *used })
        };
        Ok(rows.iter().filter_map(find).collect())
    }
}

// Blobs.

static BLOB_FIND: Sql = Sql {
    text: "SELECT blob.tenant_no, blob.hash, blob.bytes
           FROM unnest($1::integer[], $2::bytea[]) WITH ORDINALITY AS u (tenant_no, hash, place)
           JOIN rialto.blob ON blob.tenant_no = u.tenant_no AND blob.hash = u.hash
           WHERE blob.size = octet_length(blob.bytes) ORDER BY u.place",
    types: &[Type::INT4_ARRAY, Type::BYTEA_ARRAY],
};
static BLOB_USE_FIND: Sql = Sql {
    text: "SELECT used.task, used.tenant_no, used.hash
           FROM unnest($1::uuid[], $2::integer[], $3::bytea[]) WITH ORDINALITY AS u (task, tenant_no, hash, place)
           JOIN rialto.blob_use AS used ON used.task = u.task AND used.tenant_no = u.tenant_no AND used.hash = u.hash
           ORDER BY u.place",
    types: &[Type::UUID_ARRAY, Type::INT4_ARRAY, Type::BYTEA_ARRAY],
};

impl Import {
    pub(crate) async fn add_blobs(&self, rows: &[Blob], sums: &mut Sums) -> Result<(), Failed> {
        let sizes: Vec<i64> = rows.iter().map(|blob| blob.bytes.len() as i64).collect();
        sums.0.add(counters::BLOBS, rows.len() as i64);
        sums.0.add(counters::BLOB_BYTES, sizes.iter().sum());
        let tenants: Vec<i32> = rows.iter().map(|blob| blob.tenant_no).collect();
        let hashes: Vec<&[u8]> = rows.iter().map(|blob| &blob.hash[..]).collect();
        let bytes: Vec<&[u8]> = rows.iter().map(|blob| &blob.bytes[..]).collect();
        self.db.execute(&sql::BLOB_ADD, [&tenants, &hashes, &sizes, &bytes]).await?;
        Ok(())
    }

    pub(crate) async fn find_blobs(&self, rows: &[Blob]) -> Result<Vec<Blob>, Failed> {
        let tenants: Vec<i32> = rows.iter().map(|blob| blob.tenant_no).collect();
        let hashes: Vec<&[u8]> = rows.iter().map(|blob| &blob.hash[..]).collect();
        let found = self.db.query(&BLOB_FIND, [&tenants, &hashes]).await?;
        let read = |row: &Columns| -> Result<Blob, Failed> {
            let bytes = Bytes::copy_from_slice(row.try_get(2)?);
            Ok(Blob { tenant_no: row.try_get(0)?, hash: hash_from(row.try_get(1)?)?, bytes })
        };
        found.iter().map(read).collect()
    }

    pub(crate) async fn add_blob_uses(&self, rows: &[BlobUse], _sums: &mut Sums) -> Result<(), Failed> {
        let tasks: Vec<Uuid> = rows.iter().map(|used| used.task.0).collect();
        let tenants: Vec<i32> = rows.iter().map(|used| used.tenant_no).collect();
        let hashes: Vec<&[u8]> = rows.iter().map(|used| &used.hash[..]).collect();
        self.db.execute(&sql::BLOB_USE, [&tasks, &tenants, &hashes]).await?;
        Ok(())
    }

    pub(crate) async fn find_blob_uses(&self, rows: &[BlobUse]) -> Result<Vec<BlobUse>, Failed> {
        let tasks: Vec<Uuid> = rows.iter().map(|used| used.task.0).collect();
        let tenants: Vec<i32> = rows.iter().map(|used| used.tenant_no).collect();
        let hashes: Vec<&[u8]> = rows.iter().map(|used| &used.hash[..]).collect();
        let found = self.db.query(&BLOB_USE_FIND, [&tasks, &tenants, &hashes]).await?;
        let read = |row: &Columns| -> Result<BlobUse, Failed> {
            let hash = hash_from(row.try_get(2)?)?;
            Ok(BlobUse { task: TaskId(row.try_get(0)?), tenant_no: row.try_get(1)?, hash })
        };
        found.iter().map(read).collect()
    }
}

// Push configs.

/// As `push::row_from` reads it, and the order in which they were made.
static PUSH_FIND: Sql = Sql {
    text: "SELECT push.task, push.id, push.edition, push.spec, push.made_at, push.state, push.next, push.due, push.attempts,
                  push.failing_since, push.delivered, push.delivered_at, push.trouble, push.made_no
           FROM unnest($1::uuid[], $2::bytea[]) WITH ORDINALITY AS u (task, id, place)
           JOIN rialto.push ON push.task = u.task AND push.id = u.id ORDER BY u.place",
    types: &[Type::UUID_ARRAY, Type::BYTEA_ARRAY],
};

impl Import {
    pub(crate) async fn add_push(&self, rows: &[Push], sums: &mut Sums) -> Result<(), Failed> {
        rows.iter().for_each(|push| sums.0.push(push.row.progress.state, 1));
        let writes = rows.iter().map(|push| push::Write::Put {
            row: &push.row,
            made_no: push.made_no,
            progress: &push.row.progress,
            gone: false,
        });
        push::Columns::of(writes).write(&self.db, NOBODY).await?;
        Ok(())
    }

    pub(crate) async fn find_push(&self, rows: &[Push]) -> Result<Vec<Push>, Failed> {
        let tasks: Vec<Uuid> = rows.iter().map(|push| push.row.task.0).collect();
        let ids: Vec<&[u8]> = rows.iter().map(|push| push.row.id.as_bytes()).collect();
        let found = self.db.query(&PUSH_FIND, [&tasks, &ids]).await?;
        let read = |row: &Columns| -> Result<Push, Failed> {
            Ok(Push { made_no: row.try_get(13)?, row: push::row_from(row)? })
        };
        found.iter().map(read).collect()
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
                  (SELECT count(*) FROM rialto.push)",
    types: &[],
};
/// What is counted against what is kept. The numbers of kinds are those in `counters.rs`.
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
           ), kept (view_no, kind, n) AS (
             SELECT view_no, kind::integer, sum(n)::bigint FROM rialto.counter GROUP BY view_no, kind
           )
           SELECT view_no::bigint, kind::bigint, coalesce(counted.n, 0), coalesce(kept.n, 0)
           FROM counted FULL JOIN kept USING (view_no, kind)
           WHERE coalesce(counted.n, 0) <> coalesce(kept.n, 0) ORDER BY 1, 2 LIMIT 10",
    types: &[],
};

impl Import {
    /// How many rows of each kind there are, in the order of [`crate::migrate`]'s kinds.
    pub(crate) async fn totals(&self) -> Result<[u64; 11], Failed> {
        let mut totals = [0; 11];
        for row in self.whole(&TOTALS).await? {
            for (place, total) in totals.iter_mut().enumerate() {
                *total = row.try_get::<_, i64>(place)? as u64;
            }
        }
        Ok(totals)
    }

    /// Counters that do not say what there is: view, kind, what is counted and what is kept.
    pub(crate) async fn miscounted(&self) -> Result<Vec<[i64; 4]>, Failed> {
        let rows = self.whole(&MISCOUNTED).await?;
        let read = |row: &Columns| -> Result<[i64; 4], Failed> {
            Ok([row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?])
        };
        rows.iter().map(read).collect()
    }

    /// A query over whole tables, which indexes only make slower.
    async fn whole(&self, sql: &'static Sql) -> Result<Vec<Columns>, Failed> {
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

    use super::*;

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
        ];
        assert_eq!(kinds, [0, 16, 17, 18, 19, 20, 21, 22, 23, 24]);
        assert_eq!([PushState::Active, PushState::Dead].map(PushState::code), [1, 3]);
    }
}
