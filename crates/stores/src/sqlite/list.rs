//! Lists: newest status first, a page at a time, the same cost at 100 tasks and at a million.
//!
//! A view's rows are kept by state; a list over all states merges the (at most eight) runs. That is one index less to
//! write for every task, and a page costs a few lookups more. A page is read on one snapshot with its total.

use std::sync::Arc;

use model::ports::Future;
use model::ports::store::{Cursor, ListPage, ListQuery, StoreError, TaskLists, TaskPage, TaskQuery, Timer};
use model::{Epoch, PushRow, PushState, State, TaskId, Time, View};
use rusqlite::{Connection, params};

use super::columns::{Context, TaskIdColumn};
use super::pool::Error;
use super::read::{self, snapshot, view_no};
use super::{SqliteStore, counters, push};

/// The numbers of those views that there are.
pub(super) fn view_numbers(db: &Connection, views: &[View]) -> Result<Vec<i64>, Error> {
    let mut numbers = Vec::with_capacity(views.len());
    for view in views {
        numbers.extend(view_no(db, &view.0)?);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

pub(super) fn page(db: &Connection, query: &ListQuery) -> Result<ListPage, Error> {
    snapshot(db, || {
        let views = view_numbers(db, &query.views)?;
        let list = List { db, views, context: query.context.as_ref().map(Context::to_row), query };
        let mut cursors = list.cursors()?;
        let more = cursors.len() > query.limit as usize;
        cursors.truncate(query.limit as usize);
        let mut find = db.prepare_cached("SELECT id FROM task WHERE no = ?1")?;
        let tasks = cursors
            .into_iter()
            .map(|cursor| Ok((find.query_row([cursor.no as i64], |row| row.get::<_, TaskIdColumn>(0))?.0, cursor)))
            .collect::<Result<_, Error>>()?;
        let total = if query.count { Some(list.total()?) } else { None };
        Ok(ListPage { tasks, more, total })
    })
}

/// Every task, newest id first. No list has them all, so the rows themselves are looked at, so many at a time.
pub(super) fn tasks(db: &Connection, query: &TaskQuery) -> Result<TaskPage, Error> {
    let mut statement = db.prepare_cached(
        "SELECT t.id, (?2 IS NULL OR tenant.text = ?2) AND (?3 IS NULL OR agent.text = ?3)
                AND (?4 IS NULL OR t.state = ?4)
                AND (NOT ?5 OR EXISTS (SELECT 1 FROM alias WHERE alias.task_no = t.no))
         FROM task AS t
         CROSS JOIN name AS tenant ON tenant.no = t.tenant_no
         CROSS JOIN name AS agent ON agent.no = t.agent_no
         WHERE t.id < ?1 ORDER BY t.id DESC LIMIT ?6",
    )?;
    // A longer blob of the highest bytes is after every id.
    let before = query.before.map_or_else(|| vec![0xff; 17], |task| task.0.as_bytes().to_vec());
    let state = query.state.map(State::code);
    let wanted = params![before, query.tenant.as_deref(), query.agent.as_deref(), state, query.aliased, query.rows];
    let mut rows = statement.query(wanted)?;
    let (mut page, mut seen) = (TaskPage::default(), 0);
    while let Some(row) = rows.next()? {
        let task = row.get::<_, TaskIdColumn>(0)?.0;
        if row.get(1)? {
            page.tasks.push(task);
        }
        (page.next, seen) = (Some(task), seen + 1);
    }
    page.next = page.next.filter(|_| seen == query.rows);
    Ok(page)
}

struct List<'a> {
    db: &'a Connection,
    views: Vec<i64>,
    context: Option<Context>,
    query: &'a ListQuery,
}

impl List<'_> {
    /// The page's places and one more, to see whether there is more.
    fn cursors(&self) -> Result<Vec<Cursor>, Error> {
        let limit = i64::from(self.query.limit) + 1;
        let since = self.since();
        let (at, no) =
            self.query.after.map_or((i64::MAX, i64::MAX), |c| (c.at.0, i64::try_from(c.no).unwrap_or(i64::MAX)));
        let mut found = Vec::new();
        let mut take = |mut rows: rusqlite::Rows<'_>| -> Result<(), Error> {
            while let Some(row) = rows.next()? {
                found.push(Cursor { at: model::Time(row.get(0)?), no: row.get::<_, i64>(1)? as u64 });
            }
            Ok(())
        };
        if let Some(context) = &self.context {
            let mut statement = self.db.prepare_cached(
                "SELECT status_at, task_no FROM listing_by_context
                 WHERE view_no = ?1 AND context = ?2 AND (status_at, task_no) < (?3, ?4) AND status_at >= ?5
                   AND (?6 IS NULL OR state = ?6)
                 ORDER BY status_at DESC, task_no DESC LIMIT ?7",
            )?;
            for view in &self.views {
                take(statement.query(params![
                    view,
                    context,
                    at,
                    no,
                    since,
                    self.query.state.map(State::code),
                    limit
                ])?)?;
            }
        } else {
            let mut statement = self.db.prepare_cached(
                "SELECT status_at, task_no FROM listing
                 WHERE view_no = ?1 AND state = ?2 AND (status_at, task_no) < (?3, ?4) AND status_at >= ?5
                 ORDER BY status_at DESC, task_no DESC LIMIT ?6",
            )?;
            for view in &self.views {
                for state in self.states() {
                    take(statement.query(params![view, state.code(), at, no, since, limit])?)?;
                }
            }
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found.dedup();
        Ok(found)
    }

    /// All that match, whatever the page: from a counter where there is one.
    fn total(&self) -> Result<u64, Error> {
        let mut sum = 0;
        for view in &self.views {
            sum += match (&self.context, self.query.state, self.query.since) {
                (None, None, None) => self.counter(*view, counters::ALL)?,
                (None, Some(state), None) => self.counter(*view, state.code())?,
                (Some(context), None, None) => self.in_context(*view, context)?,
                (None, _, Some(_)) => self.count_since(*view)?,
                (Some(context), _, _) => self.count_in_context(*view, context)?,
            };
        }
        Ok(sum.max(0) as u64)
    }

    fn counter(&self, view: i64, kind: u8) -> Result<i64, Error> {
        let mut statement = self.db.prepare_cached("SELECT n FROM counter WHERE view_no = ?1 AND kind = ?2")?;
        let mut rows = statement.query(params![view, kind])?;
        Ok(rows.next()?.map_or(Ok(0), |row| row.get(0))?)
    }

    /// A context's counter; contexts without one are small, and are counted.
    fn in_context(&self, view: i64, context: &Context) -> Result<i64, Error> {
        let mut statement =
            self.db.prepare_cached("SELECT n FROM context_counter WHERE view_no = ?1 AND context = ?2")?;
        let mut rows = statement.query(params![view, context])?;
        match rows.next()? {
            Some(row) => Ok(row.get(0)?),
            None => self.count_in_context(view, context),
        }
    }

    fn count_since(&self, view: i64) -> Result<i64, Error> {
        let mut statement = self
            .db
            .prepare_cached("SELECT count(*) FROM listing WHERE view_no = ?1 AND state = ?2 AND status_at >= ?3")?;
        let mut sum = 0;
        for state in self.states() {
            sum += statement.query_row(params![view, state.code(), self.since()], |row| row.get::<_, i64>(0))?;
        }
        Ok(sum)
    }

    fn count_in_context(&self, view: i64, context: &Context) -> Result<i64, Error> {
        let mut statement = self.db.prepare_cached(
            "SELECT count(*) FROM listing_by_context
             WHERE view_no = ?1 AND context = ?2 AND status_at >= ?3 AND (?4 IS NULL OR state = ?4)",
        )?;
        let bound = params![view, context, self.since(), self.query.state.map(State::code)];
        Ok(statement.query_row(bound, |row| row.get(0))?)
    }

    fn since(&self) -> i64 {
        self.query.since.map_or(i64::MIN, |since| since.0)
    }

    fn states(&self) -> impl Iterator<Item = State> {
        let wanted = self.query.state;
        State::ALL.into_iter().filter(move |state| wanted.is_none_or(|wanted| wanted == *state))
    }
}

/// Whether a total for this query is read off a counter, and the whole page is short work.
pub(super) fn is_short(query: &ListQuery) -> bool {
    let filters = [query.context.is_some(), query.state.is_some()].into_iter().filter(|set| *set).count();
    query.limit <= 200 && query.views.len() <= 8 && filters <= 1 && (!query.count || query.since.is_none())
}

impl TaskLists for SqliteStore {
    fn list(&self, query: ListQuery) -> Future<'_, Result<ListPage, StoreError>> {
        if is_short(&query) {
            self.read(move |db| page(db, &query))
        } else {
            self.read_aside(move |db| page(db, &query))
        }
    }

    fn tasks(&self, query: TaskQuery) -> Future<'_, Result<TaskPage, StoreError>> {
        self.read_aside(move |db| tasks(db, &query))
    }

    fn push(&self, task: TaskId) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        self.read(move |db| push::of_task(db, task))
    }

    fn pushes(
        &self,
        state: PushState,
        after: Option<(TaskId, Arc<str>)>,
        limit: usize,
    ) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        if push::is_short(state, limit) {
            self.read(move |db| push::page(db, state, after.as_ref(), limit))
        } else {
            self.read_aside(move |db| push::page(db, state, after.as_ref(), limit))
        }
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        self.read(move |db| read::unfinished(db, after, limit))
    }

    fn due(&self, now: Time, limit: usize) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        self.read(move |db| read::due(db, now, limit))
    }

    fn timers(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        self.read(move |db| read::timers(db, &tasks))
    }

    fn next_due(&self) -> Future<'_, Result<Option<Time>, StoreError>> {
        self.read(read::next_due)
    }
}
