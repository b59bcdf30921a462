//! A store in memory whose clock is moved by hand, and which records everything that was ever written.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use model::ports::Future;
use model::ports::store::{
    Commit, Conflict, Health, Journal, KeyUse, ListPage, ListQuery, LogHead, Outcome, RecordStore, Replicas,
    StoreError, TaskLists, TaskLog, TaskPage, TaskQuery, TextSearch, Timer, Upkeep, VisibleTasks,
};
use model::{
    AccessKey, AccountLine, Balance, Entry, Epoch, Event, PushRow, PushState, Record, RecordChange, RecordPage,
    RecordQuery, Seq, TaskId, Time,
};
use parking_lot::Mutex;
use stores::memory;

pub(super) struct Tapped {
    inner: memory::MemoryStore,
    now: AtomicI64,
    /// Keys and bodies of records, also of refused commits.
    seen: Mutex<Vec<(Arc<str>, Bytes)>>,
    conflicts: Arc<AtomicUsize>,
}

impl Tapped {
    pub(super) fn new() -> Arc<Tapped> {
        Arc::new(Tapped {
            inner: memory::MemoryStore::new(),
            now: AtomicI64::new(1_775_721_600_000),
            seen: Mutex::default(),
            conflicts: Arc::default(),
        })
    }

    pub(super) fn pass_s(&self, seconds: i64) {
        self.now.fetch_add(seconds * 1_000, Ordering::SeqCst);
    }

    pub(super) fn now(&self) -> Time {
        Time(self.now.load(Ordering::SeqCst))
    }

    pub(super) fn conflicts(&self) -> usize {
        self.conflicts.load(Ordering::SeqCst)
    }

    /// Whether this text was ever put into a record, or was the key of one.
    pub(super) fn has_seen(&self, text: &str) -> bool {
        let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        self.seen.lock().iter().any(|(key, body)| holds(key.as_bytes()) || holds(body))
    }

    pub(super) async fn count(&self, kind: &str, list: &str) -> u64 {
        let query = RecordQuery { kind: kind.into(), list: list.into(), after: None, skip: 0, limit: 1, count: true };
        self.inner.records(query).await.unwrap().total.unwrap()
    }
}

impl TaskLog for Tapped {
    fn commit(&self, commit: Commit) -> Future<'static, Outcome> {
        for change in &commit.records {
            let body = match change {
                RecordChange::Put { body, .. } => body.clone(),
                RecordChange::Remove { .. } | RecordChange::Leave { .. } => Bytes::new(),
            };
            self.seen.lock().push((change.about().1.clone(), body));
        }
        let (conflicts, committed) = (self.conflicts.clone(), self.inner.commit(commit));
        Box::pin(async move {
            let outcome = committed.await;
            if matches!(outcome, Outcome::Conflict(Conflict::Record(..))) {
                conflicts.fetch_add(1, Ordering::SeqCst);
            }
            outcome
        })
    }
    fn head(&self, task: TaskId) -> Future<'_, Result<Option<LogHead>, StoreError>> {
        self.inner.head(task)
    }
    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        self.inner.events(task, after, bytes)
    }
    fn beginning(&self, task: TaskId, sight: VisibleTasks, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        self.inner.beginning(task, sight, bytes)
    }
    fn logs(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Vec<Event>>, StoreError>> {
        self.inner.logs(tasks)
    }
    fn alias(&self, key: [u8; 32]) -> Future<'_, Result<Option<TaskId>, StoreError>> {
        self.inner.alias(key)
    }
    fn key(&self, key: [u8; 32], not_before: Time) -> Future<'_, Result<Option<KeyUse>, StoreError>> {
        self.inner.key(key, not_before)
    }
    fn blob(&self, tenant: Arc<str>, hash: [u8; 32]) -> Future<'_, Result<Option<Bytes>, StoreError>> {
        self.inner.blob(tenant, hash)
    }
    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }
}

impl TaskLists for Tapped {
    fn tasks(&self, query: TaskQuery) -> Future<'_, Result<TaskPage, StoreError>> {
        self.inner.tasks(query)
    }
    fn list(&self, query: ListQuery) -> Future<'_, Result<ListPage, StoreError>> {
        self.inner.list(query)
    }
    fn push(&self, task: TaskId) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        self.inner.push(task)
    }
    fn pushes(
        &self,
        state: PushState,
        after: Option<(TaskId, Arc<str>)>,
        limit: usize,
    ) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        self.inner.pushes(state, after, limit)
    }
    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        self.inner.unfinished(after, limit)
    }
    fn due(&self, now: Time, limit: usize) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        self.inner.due(now, limit)
    }
    fn timers(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        self.inner.timers(tasks)
    }
    fn next_due(&self) -> Future<'_, Result<Option<Time>, StoreError>> {
        self.inner.next_due()
    }
}

impl RecordStore for Tapped {
    fn access_keys(&self) -> Future<'_, Result<Vec<AccessKey>, StoreError>> {
        self.inner.access_keys()
    }
    /// Yields, so that other tasks run between a read and the write that follows.
    fn record(&self, kind: Arc<str>, key: Arc<str>) -> Future<'_, Result<Option<Record>, StoreError>> {
        let found = self.inner.record(kind, key);
        Box::pin(async move {
            let found = found.await;
            tokio::task::yield_now().await;
            found
        })
    }
    fn records(&self, query: RecordQuery) -> Future<'_, Result<RecordPage, StoreError>> {
        self.inner.records(query)
    }
    fn count_records(&self, prefix: Arc<str>, most: u64) -> Future<'_, Result<u64, StoreError>> {
        self.inner.count_records(prefix, most)
    }
}

impl Journal for Tapped {
    fn balances(&self, accounts: Vec<Arc<str>>) -> Future<'_, Result<Vec<i64>, StoreError>> {
        self.inner.balances(accounts)
    }
    fn statement(
        &self,
        account: Arc<str>,
        before: Option<u64>,
        limit: usize,
    ) -> Future<'_, Result<Vec<AccountLine>, StoreError>> {
        self.inner.statement(account, before, limit)
    }
    fn accounts(&self, after: Option<Arc<str>>, limit: usize) -> Future<'_, Result<Vec<Balance>, StoreError>> {
        self.inner.accounts(after, limit)
    }
    fn journal(&self, after: u64, limit: usize) -> Future<'_, Result<Vec<(u64, Entry)>, StoreError>> {
        self.inner.journal(after, limit)
    }
}

impl TextSearch for Tapped {
    fn search(&self, query: model::TextQuery) -> Future<'_, Result<model::TextPage, StoreError>> {
        self.inner.search(query)
    }
}

impl Replicas for Tapped {
    fn ahead_ms(&self) -> i64 {
        let real = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
        self.now.load(Ordering::SeqCst) - i64::try_from(real).unwrap()
    }
}

impl Upkeep for Tapped {
    fn purge(&self, before: Time, keys_before: Time, limit: usize) -> Future<'_, Result<u64, StoreError>> {
        self.inner.purge(before, keys_before, limit)
    }
    fn remove(&self, task: TaskId) -> Future<'_, Result<bool, StoreError>> {
        self.inner.remove(task)
    }
    fn backup(&self, to: PathBuf) -> Future<'_, Result<(), StoreError>> {
        self.inner.backup(to)
    }
    fn health(&self) -> Future<'_, Result<Health, StoreError>> {
        self.inner.health()
    }
    fn close(&self) -> Future<'_, ()> {
        self.inner.close()
    }
}
