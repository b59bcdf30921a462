//! A store that wraps another: one process's access to the data. It can die with its process, and it can simulate
//! faults.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use model::ports::Future;
use model::ports::store::{
    Commit, Health, Hint, Journal, KeyUse, ListPage, ListQuery, LogHead, Outcome, RecordStore, Replicas, Store,
    StoreError, TaskLists, TaskLog, TaskPage, TaskQuery, TextSearch, Timer, Upkeep, Versions, VisibleTasks,
};
use model::{Epoch, Event, Seq, TaskId, Time};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The simulated behaviour of commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Fine,
    /// No commit is written.
    Refuses(StoreError),
    /// The next commit is written, but its outcome is reported as unknown; later commits are normal.
    LosesAnswer,
    /// The next commit is not written, and its outcome is reported as unknown; later commits are normal.
    LosesCommit,
    /// Like `LosesAnswer` and, below, `LosesCommit`, but also for commits without events.
    LosesAnyAnswer,
    LosesAnyCommit,
    /// The next commit has an unknown outcome and is written late, after a read has not found it: before the following
    /// commit, or at [`Shelf::be_late`].
    CommitsLate,
}

pub(crate) struct Shelf {
    inner: Arc<dyn Store>,
    epoch: Epoch,
    dead: CancellationToken,
    mood: Mutex<Mood>,
    /// Closed for this process, while the data stays open.
    closed: AtomicBool,
    /// Whether closing closes the data too.
    owns: bool,
    /// Reads fail as long as this is set.
    unreadable: AtomicBool,
    /// Tasks whose logs cannot be read.
    damaged: Mutex<HashSet<TaskId>>,
    /// A commit that is still to be written.
    late: Mutex<Option<Commit>>,
    /// Outcomes of commits are undecided; reads prove nothing.
    undecided: watch::Sender<bool>,
    /// The store's time is tokio's: paused with it, and jumping with it.
    by_sleepers: AtomicBool,
    /// Written commits are not acknowledged. Commits that are not written are answered at once.
    holding: watch::Sender<bool>,
    /// Commits of timers alone wait before they are written; the number of waiting ones.
    timers_wait: watch::Sender<bool>,
    timers_waiting: Arc<AtomicUsize>,
    refused: AtomicUsize,
    commits: AtomicUsize,
    /// The process dies after this many commits, before the last is acknowledged.
    last: AtomicUsize,
    payload_most: AtomicUsize,
    /// The names of the calls so far.
    calls: Mutex<Vec<&'static str>>,
    events_read: AtomicUsize,
}

impl Shelf {
    pub(crate) fn new(inner: Arc<dyn Store>, epoch: Epoch, owns: bool) -> Arc<Shelf> {
        Arc::new(Shelf {
            inner,
            epoch,
            dead: CancellationToken::new(),
            mood: Mutex::new(Mood::Fine),
            closed: AtomicBool::new(false),
            owns,
            unreadable: AtomicBool::new(false),
            damaged: Mutex::default(),
            late: Mutex::default(),
            undecided: watch::Sender::new(false),
            by_sleepers: AtomicBool::new(false),
            holding: watch::Sender::new(false),
            timers_wait: watch::Sender::new(false),
            timers_waiting: Arc::default(),
            refused: AtomicUsize::new(0),
            commits: AtomicUsize::new(0),
            last: AtomicUsize::new(usize::MAX),
            payload_most: AtomicUsize::new(0),
            calls: Mutex::default(),
            events_read: AtomicUsize::new(0),
        })
    }

    /// The process is dead: no call returns any more.
    pub(crate) fn die(&self) {
        self.dead.cancel();
    }

    /// The process dies with its commit of this number.
    #[allow(dead_code, reason = "for tests of systems")]
    pub(crate) fn die_with(&self, commit: usize) {
        self.last.store(commit, Ordering::SeqCst);
    }

    /// Resolves when the process has died.
    #[allow(dead_code, reason = "for tests of systems")]
    pub(crate) async fn died(&self) {
        self.dead.cancelled().await;
    }

    pub(crate) fn inner(&self) -> &Arc<dyn Store> {
        &self.inner
    }

    pub(crate) fn be(&self, mood: Mood) {
        *self.mood.lock() = mood;
    }

    pub(crate) fn read_nothing(&self, unreadable: bool) {
        self.unreadable.store(unreadable, Ordering::SeqCst);
    }

    /// Makes the task's log unreadable.
    pub(crate) fn damage(&self, task: TaskId) {
        self.damaged.lock().insert(task);
    }

    pub(crate) fn mend(&self, task: TaskId) {
        self.damaged.lock().remove(&task);
    }

    /// Sets whether commits with an unknown outcome may still happen.
    pub(crate) fn be_undecided(&self, undecided: bool) {
        self.undecided.send_replace(undecided);
    }

    /// Writes the late commit.
    pub(crate) async fn be_late(&self) -> Option<Outcome> {
        let late = self.late.lock().take()?;
        Some(self.inner.commit(late).await)
    }

    pub(crate) fn hold_answers(&self, hold: bool) {
        self.holding.send_replace(hold);
    }

    /// Blocks commits of timers alone, or releases them.
    pub(crate) fn hold_timers(&self, hold: bool) {
        self.timers_wait.send_replace(hold);
    }

    /// The number of blocked commits.
    pub(crate) fn timers_waiting(&self) -> usize {
        self.timers_waiting.load(Ordering::SeqCst)
    }

    /// Uses tokio's time, which a test can pause.
    pub(crate) fn go_by_sleepers(&self) {
        self.by_sleepers.store(true, Ordering::SeqCst);
    }

    /// The number of failed commits.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }

    /// The number of commits with appends.
    pub(crate) fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    /// The largest payload seen.
    pub(crate) fn payload_most(&self) -> usize {
        self.payload_most.load(Ordering::SeqCst)
    }

    /// The calls since the last query, except those that background loops make.
    pub(crate) fn calls(&self) -> Vec<&'static str> {
        let mut calls = std::mem::take(&mut *self.calls.lock());
        calls.retain(|call| !["due", "next_due", "purge", "lengths", "versions", "standings", "held"].contains(call));
        calls
    }

    /// The number of events read since the last query.
    pub(crate) fn events_read(&self) -> usize {
        self.events_read.swap(0, Ordering::SeqCst)
    }

    /// A read that counts its events.
    fn counted<'a, T: Send + 'a>(
        &'a self,
        read: Future<'a, Result<T, StoreError>>,
        count: impl Fn(&T) -> usize + Send + 'a,
    ) -> Future<'a, Result<T, StoreError>> {
        Box::pin(async move {
            let found = read.await?;
            self.events_read.fetch_add(count(&found), Ordering::SeqCst);
            Ok(found)
        })
    }

    /// A read that fails if the process is dead or a fault is simulated.
    fn read<'a, T: Send + 'a>(
        &'a self,
        name: &'static str,
        read: Future<'a, Result<T, StoreError>>,
    ) -> Future<'a, Result<T, StoreError>> {
        self.calls.lock().push(name);
        Box::pin(async move {
            if self.closed.load(Ordering::SeqCst) {
                return Err(StoreError::Closed);
            }
            if self.unreadable.load(Ordering::SeqCst) {
                self.refused.fetch_add(1, Ordering::SeqCst);
                return Err(StoreError::Busy);
            }
            alive(&self.dead, read).await
        })
    }
}

async fn alive<T>(dead: &CancellationToken, work: impl std::future::Future<Output = T>) -> T {
    tokio::select! {
        biased;
        () = dead.cancelled() => std::future::pending().await,
        done = work => done,
    }
}

impl TaskLog for Shelf {
    fn commit(&self, commit: Commit) -> Future<'static, Outcome> {
        let dead = self.dead.clone();
        if dead.is_cancelled() {
            return Box::pin(std::future::pending());
        }
        if self.closed.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Outcome::Refused(StoreError::Closed)));
        }
        self.calls.lock().push("commit");
        let mut is_last = false;
        if !commit.appends.is_empty() {
            is_last = self.commits.fetch_add(1, Ordering::SeqCst) + 1 >= self.last.load(Ordering::SeqCst);
            let payload = commit.appends.iter().map(|append| append.payload.len()).sum();
            self.payload_most.fetch_max(payload, Ordering::SeqCst);
        }
        let mood = {
            let mut mood = self.mood.lock();
            match &*mood {
                Mood::LosesAnyAnswer | Mood::LosesAnyCommit => std::mem::replace(&mut *mood, Mood::Fine),
                Mood::LosesAnswer | Mood::LosesCommit | Mood::CommitsLate if !commit.appends.is_empty() => {
                    std::mem::replace(&mut *mood, Mood::Fine)
                }
                Mood::LosesAnswer | Mood::LosesCommit | Mood::CommitsLate => Mood::Fine,
                mood @ (Mood::Fine | Mood::Refuses(_)) => mood.clone(),
            }
        };
        if mood != Mood::Fine {
            self.refused.fetch_add(1, Ordering::SeqCst);
        }
        let unknown = || Outcome::Unknown(StoreError::Broken("the connection was lost".into()));
        let mut holding = self.holding.subscribe();
        let answer: Future<'static, Outcome> = match mood {
            Mood::Fine if commit.appends.is_empty() && !commit.timers.is_empty() => {
                let (inner, waiting) = (self.inner.clone(), self.timers_waiting.clone());
                let mut wait = self.timers_wait.subscribe();
                Box::pin(async move {
                    waiting.fetch_add(1, Ordering::SeqCst);
                    let _ = wait.wait_for(|wait| !wait).await;
                    let outcome = inner.commit(commit).await;
                    waiting.fetch_sub(1, Ordering::SeqCst);
                    outcome
                })
            }
            Mood::Fine => {
                let late = self.late.lock().take().filter(|_| !commit.appends.is_empty());
                let inner = self.inner.clone();
                Box::pin(async move {
                    if let Some(late) = late {
                        inner.commit(late).await;
                    }
                    inner.commit(commit).await
                })
            }
            Mood::CommitsLate => {
                *self.late.lock() = Some(commit);
                return Box::pin(std::future::ready(unknown()));
            }
            Mood::Refuses(trouble) => return Box::pin(std::future::ready(Outcome::Refused(trouble))),
            Mood::LosesCommit | Mood::LosesAnyCommit => return Box::pin(std::future::ready(unknown())),
            Mood::LosesAnswer | Mood::LosesAnyAnswer => {
                let written = self.inner.commit(commit);
                Box::pin(async move {
                    written.await;
                    unknown()
                })
            }
        };
        Box::pin(async move {
            let outcome = alive(&dead, answer).await;
            if is_last {
                dead.cancel();
            }
            if matches!(outcome, Outcome::Done) {
                let _ = holding.wait_for(|hold| !hold).await;
            }
            alive(&dead, std::future::ready(outcome)).await
        })
    }
    fn head(&self, task: TaskId) -> Future<'_, Result<Option<LogHead>, StoreError>> {
        self.read("head", self.inner.head(task))
    }
    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        if self.damaged.lock().contains(&task) {
            return Box::pin(std::future::ready(Err(StoreError::Broken("a log that is no log".into()))));
        }
        self.read("events", self.counted(self.inner.events(task, after, bytes), Vec::len))
    }
    fn beginning(&self, task: TaskId, sight: VisibleTasks, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        if self.damaged.lock().contains(&task) {
            return Box::pin(std::future::ready(Err(StoreError::Broken("a log that is no log".into()))));
        }
        self.read("beginning", self.counted(self.inner.beginning(task, sight, bytes), Vec::len))
    }
    fn logs(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Vec<Event>>, StoreError>> {
        if tasks.iter().any(|task| self.damaged.lock().contains(task)) {
            return Box::pin(std::future::ready(Err(StoreError::Broken("a log that is no log".into()))));
        }
        self.read("logs", self.counted(self.inner.logs(tasks), |logs| logs.iter().map(Vec::len).sum()))
    }
    fn alias(&self, key: [u8; 32]) -> Future<'_, Result<Option<TaskId>, StoreError>> {
        self.read("alias", self.inner.alias(key))
    }
    fn key(&self, key: [u8; 32], not_before: Time) -> Future<'_, Result<Option<KeyUse>, StoreError>> {
        self.read("key", self.inner.key(key, not_before))
    }
    fn blob(&self, tenant: Arc<str>, hash: [u8; 32]) -> Future<'_, Result<Option<Bytes>, StoreError>> {
        self.read("blob", self.inner.blob(tenant, hash))
    }
    fn decided(&self) -> Future<'_, Result<(), StoreError>> {
        let mut undecided = self.undecided.subscribe();
        Box::pin(async move {
            let _ = undecided.wait_for(|undecided| !undecided).await;
            Ok(())
        })
    }
    fn lengths(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Seq>, StoreError>> {
        self.read("lengths", self.inner.lengths(tasks))
    }
    fn epoch(&self) -> Epoch {
        self.epoch
    }
    fn hold(&self, starts: u32) -> Epoch {
        if self.inner.is_shared() { self.inner.hold(starts) } else { self.epoch }
    }
}

impl TaskLists for Shelf {
    fn tasks(&self, query: TaskQuery) -> Future<'_, Result<TaskPage, StoreError>> {
        self.read("tasks", self.inner.tasks(query))
    }
    fn list(&self, query: ListQuery) -> Future<'_, Result<ListPage, StoreError>> {
        self.read("list", self.inner.list(query))
    }
    fn push(&self, task: TaskId) -> Future<'_, Result<Vec<model::PushRow>, StoreError>> {
        self.read("push", self.inner.push(task))
    }
    fn pushes(
        &self,
        state: model::PushState,
        after: Option<(TaskId, Arc<str>)>,
        limit: usize,
    ) -> Future<'_, Result<Vec<model::PushRow>, StoreError>> {
        self.read("pushes", self.inner.pushes(state, after, limit))
    }
    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        self.read("unfinished", self.inner.unfinished(after, limit))
    }
    fn due(&self, now: Time, limit: usize) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        self.read("due", self.inner.due(now, limit))
    }
    fn timers(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        self.read("timers", self.inner.timers(tasks))
    }
    fn next_due(&self) -> Future<'_, Result<Option<Time>, StoreError>> {
        self.read("next_due", self.inner.next_due())
    }
}

impl RecordStore for Shelf {
    fn access_keys(&self) -> Future<'_, Result<Vec<model::AccessKey>, StoreError>> {
        self.read("access_keys", self.inner.access_keys())
    }
    fn record(&self, kind: Arc<str>, key: Arc<str>) -> Future<'_, Result<Option<model::Record>, StoreError>> {
        self.read("record", self.inner.record(kind, key))
    }
    fn records(&self, query: model::RecordQuery) -> Future<'_, Result<model::RecordPage, StoreError>> {
        self.read("records", self.inner.records(query))
    }
    fn count_records(&self, prefix: Arc<str>, most: u64) -> Future<'_, Result<u64, StoreError>> {
        self.read("count_records", self.inner.count_records(prefix, most))
    }
}

impl Journal for Shelf {
    fn balances(&self, accounts: Vec<Arc<str>>) -> Future<'_, Result<Vec<i64>, StoreError>> {
        self.read("balances", self.inner.balances(accounts))
    }
    fn statement(
        &self,
        account: Arc<str>,
        before: Option<u64>,
        limit: usize,
    ) -> Future<'_, Result<Vec<model::AccountLine>, StoreError>> {
        self.read("statement", self.inner.statement(account, before, limit))
    }
    fn accounts(&self, after: Option<Arc<str>>, limit: usize) -> Future<'_, Result<Vec<model::Balance>, StoreError>> {
        self.read("accounts", self.inner.accounts(after, limit))
    }
    fn journal(&self, after: u64, limit: usize) -> Future<'_, Result<Vec<(u64, model::Entry)>, StoreError>> {
        self.read("journal", self.inner.journal(after, limit))
    }
}

impl TextSearch for Shelf {
    fn search(&self, query: model::TextQuery) -> Future<'_, Result<model::TextPage, StoreError>> {
        self.read("search", self.inner.search(query))
    }
}

impl Replicas for Shelf {
    fn orphans(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        self.read("orphans", self.inner.orphans(after, limit))
    }
    fn adopt(
        &self,
        after: Option<(TaskId, Arc<str>)>,
        limit: usize,
    ) -> Future<'_, Result<Vec<model::PushRow>, StoreError>> {
        self.read("adopt", self.inner.adopt(after, limit))
    }
    fn standings(
        &self,
        configs: Vec<(TaskId, Arc<str>)>,
    ) -> Future<'_, Result<Vec<Option<model::PushStanding>>, StoreError>> {
        self.read("standings", self.inner.standings(configs))
    }
    fn tenure(&self) -> Option<u64> {
        self.inner.tenure()
    }
    fn versions(&self) -> Future<'_, Result<Versions, StoreError>> {
        self.read("versions", self.inner.versions())
    }
    fn held(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        self.read("held", self.inner.held(after, limit))
    }
    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }
    fn hints(&self) -> BoxStream<'static, Hint> {
        self.inner.hints()
    }
    fn ahead_ms(&self) -> i64 {
        let mut ahead = self.inner.ahead_ms();
        if self.by_sleepers.load(Ordering::SeqCst) {
            let (asleep, awake) = (tokio::time::Instant::now().into_std(), std::time::Instant::now());
            ahead += asleep.saturating_duration_since(awake).as_millis() as i64;
            ahead -= awake.saturating_duration_since(asleep).as_millis() as i64;
        }
        ahead
    }
}

impl Upkeep for Shelf {
    fn answers_within(&self) -> Option<std::time::Duration> {
        self.inner.answers_within()
    }
    fn trouble(&self) -> Option<StoreError> {
        self.inner.trouble()
    }
    fn purge(&self, before: Time, keys_before: Time, limit: usize) -> Future<'_, Result<u64, StoreError>> {
        self.read("purge", self.inner.purge(before, keys_before, limit))
    }
    fn remove(&self, task: TaskId) -> Future<'_, Result<bool, StoreError>> {
        self.read("remove", self.inner.remove(task))
    }
    fn backup(&self, to: PathBuf) -> Future<'_, Result<(), StoreError>> {
        self.read("backup", self.inner.backup(to))
    }
    fn health(&self) -> Future<'_, Result<Health, StoreError>> {
        self.read("health", self.inner.health())
    }
    fn close(&self) -> Future<'_, ()> {
        self.closed.store(true, Ordering::SeqCst);
        if self.owns { self.inner.close() } else { Box::pin(std::future::ready(())) }
    }
}
