//! Tasks, their logs, the lists they are in and their timers; and before all, the names they go by.

use bytes::Bytes;
use model::TaskId;
use tokio_postgres::Row as Columns;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{ImportError, NOBODY, PostgresImport, Sums};
use crate::migrate::rows::{ListingRow, LogRow, NameRow, TaskRow, TimerRow};
use crate::postgres::columns::{code, context_bytes, context_from, pack_views, row_from, text_from, unpack_views};
use crate::postgres::connect::Sql;
use crate::postgres::{counters, statements as sql};

// Names.

static NAME_ADD: Sql = Sql {
    text: "INSERT INTO rialto.name (no, text) OVERRIDING SYSTEM VALUE
           SELECT * FROM unnest($1::integer[], $2::bytea[])",
    types: &[Type::INT4_ARRAY, Type::BYTEA_ARRAY],
};
static NAME_FIND: Sql =
    Sql { text: "SELECT no, text FROM rialto.name WHERE no = ANY ($1) ORDER BY no", types: &[Type::INT4_ARRAY] };

impl PostgresImport {
    pub(crate) async fn add_names(&self, rows: &[NameRow], _sums: &mut Sums) -> Result<(), ImportError> {
        let numbers: Vec<i32> = rows.iter().map(|name| name.no).collect();
        let texts: Vec<&[u8]> = rows.iter().map(|name| name.text.as_bytes()).collect();
        self.db.execute(&NAME_ADD, [&numbers, &texts]).await?;
        Ok(())
    }

    pub(crate) async fn find_names(&self, rows: &[NameRow]) -> Result<Vec<NameRow>, ImportError> {
        let numbers: Vec<i32> = rows.iter().map(|name| name.no).collect();
        let found = self.db.query(&NAME_FIND, [&numbers]).await?;
        let read = |row: &Columns| -> Result<NameRow, ImportError> {
            Ok(NameRow { no: row.try_get(0)?, text: text_from(row.try_get(1)?)?.to_owned() })
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

impl PostgresImport {
    pub(crate) async fn add_tasks(&self, rows: &[TaskRow], sums: &mut Sums) -> Result<(), ImportError> {
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

    pub(crate) async fn find_tasks(&self, rows: &[TaskRow]) -> Result<Vec<TaskRow>, ImportError> {
        let ids: Vec<Uuid> = rows.iter().map(|task| task.id.0).collect();
        let found = self.db.query(&TASK_FIND, [&ids]).await?;
        let read = |row: &Columns| -> Result<TaskRow, ImportError> {
            Ok(TaskRow {
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

impl PostgresImport {
    pub(crate) async fn add_logs(&self, rows: &[LogRow], sums: &mut Sums) -> Result<(), ImportError> {
        sums.0.add(counters::LOG_ROWS, rows.len() as i64);
        let tasks: Vec<i64> = rows.iter().map(|log| log.task_no).collect();
        let firsts: Vec<i64> = rows.iter().map(|log| log.first as i64).collect();
        let lasts: Vec<i64> = rows.iter().map(|log| log.last as i64).collect();
        // The epoch that wrote each row is no longer known, and no read needs it.
        let epochs: Vec<Option<i64>> = vec![None; rows.len()];
        let payloads: Vec<&[u8]> = rows.iter().map(|log| &log.payload[..]).collect();
        self.db.execute(&sql::LOG_ADD, [&tasks, &firsts, &lasts, &epochs, &payloads]).await?;
        Ok(())
    }

    pub(crate) async fn find_logs(&self, rows: &[LogRow]) -> Result<Vec<LogRow>, ImportError> {
        let tasks: Vec<i64> = rows.iter().map(|log| log.task_no).collect();
        let firsts: Vec<i64> = rows.iter().map(|log| log.first as i64).collect();
        let found = self.db.query(&LOG_FIND, [&tasks, &firsts]).await?;
        let read = |row: &Columns| -> Result<LogRow, ImportError> {
            Ok(LogRow {
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

impl PostgresImport {
    pub(crate) async fn add_listings(&self, rows: &[ListingRow], sums: &mut Sums) -> Result<(), ImportError> {
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

    pub(crate) async fn find_listings(&self, rows: &[ListingRow]) -> Result<Vec<ListingRow>, ImportError> {
        let views: Vec<i32> = rows.iter().map(|place| place.view_no).collect();
        let states: Vec<i16> = rows.iter().map(|place| place.state).collect();
        let times: Vec<i64> = rows.iter().map(|place| place.status_at).collect();
        let numbers: Vec<i64> = rows.iter().map(|place| place.task_no).collect();
        let found = self.db.query(&LISTING_FIND, [&views, &states, &times, &numbers]).await?;
        let read = |row: &Columns| -> Result<ListingRow, ImportError> {
            Ok(ListingRow {
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

impl PostgresImport {
    pub(crate) async fn add_timers(&self, rows: &[TimerRow], sums: &mut Sums) -> Result<(), ImportError> {
        sums.0.add(counters::TIMERS, rows.len() as i64);
        let tasks: Vec<Uuid> = rows.iter().map(|timer| timer.task.0).collect();
        let kinds: Vec<i16> = rows.iter().map(|timer| timer.kind).collect();
        let numbers: Vec<i64> = rows.iter().map(|timer| timer.task_no).collect();
        let times: Vec<i64> = rows.iter().map(|timer| timer.due).collect();
        self.db.execute(&sql::TIMER_PUT, [&tasks, &kinds, &numbers, &times]).await?;
        Ok(())
    }

    pub(crate) async fn find_timers(&self, rows: &[TimerRow]) -> Result<Vec<TimerRow>, ImportError> {
        let tasks: Vec<Uuid> = rows.iter().map(|timer| timer.task.0).collect();
        let kinds: Vec<i16> = rows.iter().map(|timer| timer.kind).collect();
        let found = self.db.query(&TIMER_FIND, [&tasks, &kinds]).await?;
        let read = |row: &Columns| -> Result<TimerRow, ImportError> {
            Ok(TimerRow {
                task: TaskId(row.try_get(0)?),
                kind: row.try_get(1)?,
                task_no: row.try_get(2)?,
                due: row.try_get(3)?,
            })
        };
        found.iter().map(read).collect()
    }
}
