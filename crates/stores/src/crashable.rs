//! For tests: a store in front of a store, one process's way to the data. It can die with its process, its time can be a test's,
//! and it counts how often large content is read.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use model::ports::Future;
use model::ports::store::{
    Commit, Health, Journal, KeyUse, ListPage, ListQuery, LogHead, Outcome, RecordStore, Replicas, Store, StoreError,
    TaskLists, TaskLog, TaskPage, TaskQuery, TextSearch, Timer, Upkeep, VisibleTasks,
};
use model::{
    AccessKey, AccountLine, Balance, Entry, Epoch, Event, PushRow, PushState, Record, RecordPage, RecordQuery, Seq,
    TaskId, Time,
};

/// One process with its way to the data.
pub struct CrashableStore {
    inner: Arc<dyn Store>,
    dead: AtomicBool,
    by_sleepers: AtomicBool,
    blob_reads: AtomicUsize,
    /// Whether closing closes the data too.
    owns: bool,
}

impl CrashableStore {
    pub fn new(inner: Arc<dyn Store>, owns: bool) -> Arc<CrashableStore> {
        let (dead, by_sleepers, blob_reads) = Default::default();
        Arc::new(CrashableStore { inner, dead, by_sleepers, blob_reads, owns })
    }

    /// The process is gone: it hears and says nothing any more.
    pub fn die(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    pub fn go_by_sleepers(&self) {
        self.by_sleepers.store(true, Ordering::SeqCst);
    }

    /// How often large content was read.
    pub fn blob_reads(&self) -> usize {
        self.blob_reads.load(Ordering::SeqCst)
    }

    pub async fn close_inner(&self) {
        self.inner.close().await;
    }

    fn alive<'a, T: Send + 'a>(&'a self, read: Future<'a, T>) -> Future<'a, T> {
        Box::pin(async move {
            if self.dead.load(Ordering::SeqCst) {
                return std::future::pending().await;
            }
            read.await
        })
    }
}

macro_rules! pass {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty;)+) => {
        $(fn $name(&self, $($arg: $type),*) -> Future<'_, Result<$out, StoreError>> {
            self.alive(self.inner.$name($($arg),*))
        })+
    };
}

impl TaskLog for CrashableStore {
    fn commit(&self, commit: Commit) -> Future<'static, Outcome> {
        if self.dead.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        self.inner.commit(commit)
    }
    fn epoch(&self) -> Epoch {
        self.inner.epoch()
    }
    fn blob(&self, tenant: Arc<str>, hash: [u8; 32]) -> Future<'_, Result<Option<Bytes>, StoreError>> {
        self.blob_reads.fetch_add(1, Ordering::SeqCst);
        self.alive(self.inner.blob(tenant, hash))
    }
    pass! {
        head(task: TaskId) -> Option<LogHead>;
        events(task: TaskId, after: Seq, bytes: usize) -> Vec<Event>;
        beginning(task: TaskId, sight: VisibleTasks, bytes: usize) -> Vec<Event>;
        logs(tasks: Vec<TaskId>) -> Vec<Vec<Event>>;
        key(key: [u8; 32], not_before: Time) -> Option<KeyUse>;
        alias(key: [u8; 32]) -> Option<TaskId>;
    }
}

impl TaskLists for CrashableStore {
    pass! {
        list(query: ListQuery) -> ListPage;
        tasks(query: TaskQuery) -> TaskPage;
        push(task: TaskId) -> Vec<PushRow>;
        pushes(state: PushState, after: Option<(TaskId, Arc<str>)>, limit: usize) -> Vec<PushRow>;
        unfinished(after: Option<TaskId>, limit: usize) -> Vec<(TaskId, Epoch)>;
        due(now: Time, limit: usize) -> Vec<Timer>;
        timers(tasks: Vec<TaskId>) -> Vec<Timer>;
        next_due() -> Option<Time>;
    }
}

impl RecordStore for CrashableStore {
    pass! {
        access_keys() -> Vec<AccessKey>;
        record(kind: Arc<str>, key: Arc<str>) -> Option<Record>;
        records(query: RecordQuery) -> RecordPage;
        count_records(prefix: Arc<str>, most: u64) -> u64;
    }
}

impl Journal for CrashableStore {
    pass! {
        balances(accounts: Vec<Arc<str>>) -> Vec<i64>;
        statement(account: Arc<str>, before: Option<u64>, limit: usize) -> Vec<AccountLine>;
        accounts(after: Option<Arc<str>>, limit: usize) -> Vec<Balance>;
        journal(after: u64, limit: usize) -> Vec<(u64, Entry)>;
    }
}

impl TextSearch for CrashableStore {
    pass! {
        search(query: model::TextQuery) -> model::TextPage;
    }
}

impl Replicas for CrashableStore {
    fn ahead_ms(&self) -> i64 {
        if !self.by_sleepers.load(Ordering::SeqCst) {
            return 0;
        }
        let (asleep, awake) = (tokio::time::Instant::now().into_std(), Instant::now());
        let ms = |later: Instant, earlier: Instant| later.saturating_duration_since(earlier).as_millis() as i64;
        ms(asleep, awake) - ms(awake, asleep)
    }
}

impl Upkeep for CrashableStore {
    fn close(&self) -> Future<'_, ()> {
        if self.owns { self.inner.close() } else { Box::pin(std::future::ready(())) }
    }
    pass! {
        purge(before: Time, keys_before: Time, limit: usize) -> u64;
        remove(task: TaskId) -> bool;
        backup(to: PathBuf) -> ();
        health() -> Health;
    }
}
