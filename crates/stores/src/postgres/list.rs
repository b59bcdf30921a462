//! Lists: newest status first, a page at a time, the same cost at 100 tasks and at a million.
//!
//! A view's rows are kept by state; a list over all states merges the (at most eight) runs. That is one index less to write
//! for every task, and a page costs a few lookups more. A page and its total are one statement, and so one snapshot.
//!
//! Totals come from counters where there is one. Contexts have none: a counter that several replicas make when it is worth it
//! cannot be made without locks, and a context's rows lie side by side in an index.

use std::sync::Arc;

use model::ports::Future;
use model::ports::store::{Cursor, ListPage, ListQuery, StoreError, TaskLists, TaskPage, TaskQuery, Timer};
use model::{Epoch, PushRow, PushState, State, TaskId, Time};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::columns::{code, context_bytes};
use super::connect::{Conn, Sql};
use super::trouble::Failure;
use super::{PostgresStore, counters, push, read};

// $1 views, $2 states, $3 and $4 the place to begin after, $5 the earliest time, $6 the page and one more, $7 the context (or
// nothing), $8 the kind of the counter that has the total.

macro_rules! by_state {
    () => {
        "SELECT DISTINCT run.status_at, run.task_no, run.task
         FROM view CROSS JOIN unnest($2::smallint[]) AS wanted (state) CROSS JOIN LATERAL (
           SELECT status_at, task_no, task FROM rialto.listing
           WHERE view_no = view.no AND state = wanted.state AND (status_at, task_no) < ($3, $4) AND status_at >= $5
           ORDER BY status_at DESC, task_no DESC LIMIT $6
         ) AS run ORDER BY run.status_at DESC, run.task_no DESC LIMIT $6"
    };
}

macro_rules! by_context {
    () => {
        "SELECT DISTINCT run.status_at, run.task_no, run.task FROM view CROSS JOIN LATERAL (
           SELECT status_at, task_no, task FROM rialto.listing
           WHERE view_no = view.no AND context = $7 AND (status_at, task_no) < ($3, $4) AND status_at >= $5
             AND state = ANY ($2)
           ORDER BY status_at DESC, task_no DESC LIMIT $6
         ) AS run ORDER BY run.status_at DESC, run.task_no DESC LIMIT $6"
    };
}

macro_rules! no_total {
    () => {
        "NULL::bigint"
    };
}

macro_rules! counter {
    () => {
        "(SELECT coalesce(sum(n), 0)::bigint FROM rialto.counter WHERE view_no IN (SELECT no FROM view) AND kind = $8)"
    };
}

macro_rules! count_by_state {
    () => {
        "(SELECT coalesce(sum(run.n), 0)::bigint FROM view CROSS JOIN unnest($2::smallint[]) AS wanted (state)
          CROSS JOIN LATERAL (SELECT count(*) AS n FROM rialto.listing
                              WHERE view_no = view.no AND state = wanted.state AND status_at >= $5) AS run)"
    };
}

macro_rules! count_by_context {
    () => {
        "(SELECT coalesce(sum(run.n), 0)::bigint FROM view CROSS JOIN LATERAL (
            SELECT count(*) AS n FROM rialto.listing
            WHERE view_no = view.no AND context = $7 AND status_at >= $5 AND state = ANY ($2)) AS run)"
    };
}

macro_rules! list {
    ($page:ident, $total:ident) => {
        Sql {
            text: concat!(
                "WITH view AS MATERIALIZED (SELECT no FROM rialto.name WHERE text = ANY ($1))
                 SELECT whole.total, page.status_at, page.task_no, page.task
                 FROM (SELECT ",
                $total!(),
                " AS total, $7::bytea, $8::smallint) AS whole LEFT JOIN (",
                $page!(),
                ") AS page ON true ORDER BY page.status_at DESC, page.task_no DESC"
            ),
            types: &[
                Type::BYTEA_ARRAY,
                Type::INT2_ARRAY,
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::BYTEA,
                Type::INT2,
            ],
        }
    };
}

static BY_STATE: Sql = list!(by_state, no_total);
static BY_STATE_WITH_COUNTER: Sql = list!(by_state, counter);
static BY_STATE_WITH_COUNT: Sql = list!(by_state, count_by_state);
static BY_CONTEXT: Sql = list!(by_context, no_total);
static BY_CONTEXT_WITH_COUNT: Sql = list!(by_context, count_by_context);

pub(super) async fn page(db: &Conn, query: &ListQuery) -> Result<ListPage, Failure> {
    let views: Vec<&[u8]> = query.views.iter().map(|view| view.0.as_bytes()).collect();
    let states: Vec<i16> = match query.state {
        Some(state) => vec![code(state)],
        None => State::ALL.into_iter().map(code).collect(),
    };
    let (at, no) = query.after.map_or((i64::MAX, i64::MAX), |c| (c.at.0, i64::try_from(c.no).unwrap_or(i64::MAX)));
    let since = query.since.map_or(i64::MIN, |since| since.0);
    let limit = i64::from(query.limit) + 1;
    let context = query.context.as_ref().map(context_bytes);
    let kind = query.state.map_or(counters::ALL, code);
    let statement = match (&context, query.count, query.since) {
        (None, false, _) => &BY_STATE,
        (None, true, None) => &BY_STATE_WITH_COUNTER,
        (None, true, Some(_)) => &BY_STATE_WITH_COUNT,
        (Some(_), false, _) => &BY_CONTEXT,
        (Some(_), true, _) => &BY_CONTEXT_WITH_COUNT,
    };
    let rows = db.query(statement, [&views, &states, &at, &no, &since, &limit, &context, &kind]).await?;
    let mut page = ListPage::default();
    for row in &rows {
        page.total = row.try_get::<_, Option<i64>>(0)?.map(|n| n.max(0) as u64);
        // A page without tasks is one row that says so.
        if let Some(task) = row.try_get(3)? {
            let cursor = Cursor { at: Time(row.try_get(1)?), no: row.try_get::<_, i64>(2)? as u64 };
            page.tasks.push((TaskId(task), cursor));
        }
    }
    page.more = page.tasks.len() > query.limit as usize;
    page.tasks.truncate(query.limit as usize);
    Ok(page)
}

static TASKS: Sql = Sql {
    text: "SELECT t.id, ($2::bytea IS NULL OR tenant.text = $2) AND ($3::bytea IS NULL OR agent.text = $3)
                  AND ($4::smallint IS NULL OR t.state = $4)
                  AND (NOT $5 OR EXISTS (SELECT 1 FROM rialto.alias WHERE alias.task = t.id))
           FROM (SELECT id, tenant_no, agent_no, state FROM rialto.task WHERE id < $1 ORDER BY id DESC LIMIT $6) AS t
           JOIN rialto.name AS tenant ON tenant.no = t.tenant_no
           JOIN rialto.name AS agent ON agent.no = t.agent_no
           ORDER BY t.id DESC",
    types: &[Type::UUID, Type::BYTEA, Type::BYTEA, Type::INT2, Type::BOOL, Type::INT8],
};

/// Every task, newest id first. No list has them all, so the rows themselves are looked at, so many at a time.
pub(super) async fn tasks(db: &Conn, query: &TaskQuery) -> Result<TaskPage, Failure> {
    // The highest id is no task's.
    let before = query.before.map_or(Uuid::max(), |task| task.0);
    let tenant = query.tenant.as_ref().map(|tenant| tenant.as_bytes());
    let agent = query.agent.as_ref().map(|agent| agent.as_bytes());
    let (state, rows) = (query.state.map(code), i64::from(query.rows));
    let found = db.query(&TASKS, [&before, &tenant, &agent, &state, &query.aliased, &rows]).await?;
    let mut page = TaskPage::default();
    for row in &found {
        let task = TaskId(row.try_get(0)?);
        if row.try_get(1)? {
            page.tasks.push(task);
        }
        page.next = Some(task);
    }
    page.next = page.next.filter(|_| found.len() as i64 == rows);
    Ok(page)
}

impl TaskLists for PostgresStore {
    fn list(&self, query: ListQuery) -> Future<'_, Result<ListPage, StoreError>> {
        let query = Arc::new(query);
        self.read(move |db| {
            let query = query.clone();
            async move { page(&db, &query).await }
        })
    }

    fn tasks(&self, query: TaskQuery) -> Future<'_, Result<TaskPage, StoreError>> {
        let query = Arc::new(query);
        self.read(move |db| {
            let query = query.clone();
            async move { tasks(&db, &query).await }
        })
    }

    fn push(&self, task: TaskId) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        self.read(move |db| async move { push::of_task(&db, task).await })
    }

    fn pushes(
        &self,
        state: PushState,
        after: Option<(TaskId, Arc<str>)>,
        limit: usize,
    ) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        self.read(move |db| {
            let after = after.clone();
            async move { push::page(&db, state, after.as_ref(), limit).await }
        })
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        self.read(move |db| async move { read::unfinished(&db, after, limit).await })
    }

    fn due(&self, now: Time, limit: usize) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        let liveness = self.shared.replica.liveness();
        self.read(move |db| async move { read::due(&db, &liveness, now, limit).await })
    }

    fn timers(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        let tasks: Arc<[TaskId]> = tasks.into();
        self.read(move |db| {
            let tasks = tasks.clone();
            async move { read::timers(&db, &tasks).await }
        })
    }

    fn next_due(&self) -> Future<'_, Result<Option<Time>, StoreError>> {
        let liveness = self.shared.replica.liveness();
        self.read(move |db| async move { read::next_due(&db, &liveness).await })
    }
}
