//! Building blocks of the cases: small commits that differ only in what the case is about.

use std::sync::Arc;

use bytes::Bytes;
use model::ports::store::{
    Append, Commit, Conflict, Cursor, IndexRow, ListPage, ListQuery, Opening, Outcome, Store, StoreError,
};
use model::{Body, ContextId, Epoch, Event, Seq, State, TaskId, Time, View, stored};
use uuid::Uuid;

pub(super) type DynStore = Arc<dyn Store>;

pub(super) const T0: i64 = 1_700_000_000_000;

pub(super) fn id() -> TaskId {
    TaskId(Uuid::now_v7())
}

/// Some point in time, counted in milliseconds from the suite's own beginning.
pub(super) fn at(ms: i64) -> Time {
    Time(T0 + ms)
}

/// The text of event `seq` of `task` in this suite: its own number, so that a foreign event is recognised.
pub(super) fn body(task: TaskId, seq: u64) -> Body {
    Body::Bound { remote: format!("{task}.{seq}") }
}

pub(super) fn events(task: TaskId, first: u64, last: u64) -> Vec<Event> {
    (first..=last).map(|seq| Event { seq: Seq(seq), at: at(seq as i64), body: body(task, seq) }).collect()
}

pub(super) fn payload(task: TaskId, first: u64, last: u64) -> Bytes {
    stored::encode(&events(task, first, last)).into()
}

pub(super) fn row(state: State, status_at: Time) -> IndexRow {
    IndexRow { state, status_at, listed: true, running: !state.is_terminal(), settled: state.is_terminal() }
}

/// The append that opens a task with `count` events: working, in the view `v`, in a context of its own.
pub(super) fn opening(task: TaskId, count: u32) -> Append {
    Append {
        task,
        expected: Seq::ZERO,
        epoch: None,
        count,
        payload: payload(task, 1, u64::from(count)),
        open: Some(Opening {
            context: ContextId(task.to_string().into()),
            fresh_context: true,
            tenant: "tenant".into(),
            agent: "agent".into(),
            views: vec![view("v")],
        }),
        row: Some(row(State::Working, at(0))),
    }
}

/// An append of `count` events at `expected` that changes nothing else.
pub(super) fn more(task: TaskId, expected: u64, count: u32) -> Append {
    Append {
        task,
        expected: Seq(expected),
        epoch: None,
        count,
        payload: payload(task, expected + 1, expected + u64::from(count)),
        open: None,
        row: None,
    }
}

pub(super) fn view(name: &str) -> View {
    View(name.into())
}

/// Words a case adds to an append.
pub(super) trait Say: Sized {
    fn epoch(self, epoch: u64) -> Self;
    fn row(self, row: IndexRow) -> Self;
    fn is(self, state: State, status_at: Time) -> Self;
    fn within(self, context: &str) -> Self;
    fn seen_by(self, views: &[&str]) -> Self;
    fn of(self, tenant: &str) -> Self;
}

impl Say for Append {
    fn epoch(mut self, epoch: u64) -> Self {
        self.epoch = Some(Epoch(epoch));
        self
    }
    fn row(mut self, row: IndexRow) -> Self {
        self.row = Some(row);
        self
    }
    fn is(self, state: State, status_at: Time) -> Self {
        self.row(row(state, status_at))
    }
    /// In this context, which others may be in too.
    fn within(mut self, context: &str) -> Self {
        let open = self.open.as_mut().unwrap();
        open.context = context.into();
        open.fresh_context = false;
        self
    }
    fn seen_by(mut self, views: &[&str]) -> Self {
        self.open.as_mut().unwrap().views = views.iter().map(|v| view(v)).collect();
        self
    }
    fn of(mut self, tenant: &str) -> Self {
        self.open.as_mut().unwrap().tenant = tenant.into();
        self
    }
}

pub(super) fn commit(appends: impl IntoIterator<Item = Append>) -> Commit {
    Commit { appends: appends.into_iter().collect(), ..Commit::default() }
}

/// Commits and insists that it happens.
pub(super) async fn done(store: &DynStore, change: Commit) {
    assert_eq!(store.commit(change).await, Outcome::Done);
}

/// Commits one append and insists that it happens.
pub(super) async fn put(store: &DynStore, append: Append) {
    done(store, commit([append])).await;
}

/// Opens a task and answers its id.
pub(super) async fn open(store: &DynStore, shape: impl FnOnce(Append) -> Append) -> TaskId {
    let task = id();
    put(store, shape(opening(task, 1))).await;
    task
}

pub(super) fn conflict(outcome: Outcome) -> Conflict {
    match outcome {
        Outcome::Conflict(conflict) => conflict,
        other => panic!("a conflict was expected, not {other:?}"),
    }
}

pub(super) fn refused(outcome: Outcome) -> StoreError {
    match outcome {
        Outcome::Refused(trouble) => trouble,
        other => panic!("a refusal was expected, not {other:?}"),
    }
}

/// The log's length, 0 for a task that is not there.
pub(super) async fn length(store: &DynStore, task: TaskId) -> u64 {
    store.head(task).await.unwrap().map_or(0, |head| head.seq.0)
}

/// Insists that the task's log is exactly the suite's events 1 to `last`.
pub(super) async fn has(store: &DynStore, task: TaskId, last: u64) {
    assert_eq!(length(store, task).await, last);
    assert_eq!(store.events(task, Seq::ZERO, usize::MAX).await.unwrap(), events(task, 1, last));
}

/// A list of the view `v` without filters, with its total.
pub(super) fn query(limit: u32) -> ListQuery {
    ListQuery { views: vec![view("v")], context: None, state: None, since: None, after: None, limit, count: true }
}

pub(super) async fn page(store: &DynStore, query: &ListQuery) -> ListPage {
    store.list(query.clone()).await.unwrap()
}

pub(super) async fn total(store: &DynStore, query: &ListQuery) -> u64 {
    page(store, &ListQuery { count: true, ..query.clone() }).await.total.unwrap()
}

/// All pages of a list, by the given page size.
pub(super) async fn walk(store: &DynStore, query: &ListQuery) -> Vec<TaskId> {
    let mut found: Vec<(TaskId, Cursor)> = Vec::new();
    let mut query = query.clone();
    loop {
        let page = page(store, &query).await;
        query.after = page.tasks.last().map(|(_, cursor)| *cursor);
        query.count = false;
        found.extend(page.tasks);
        if !page.more {
            assert!(found.is_sorted_by(|a, b| a.1 > b.1), "a list is in strictly descending order");
            return found.into_iter().map(|(task, _)| task).collect();
        }
    }
}
