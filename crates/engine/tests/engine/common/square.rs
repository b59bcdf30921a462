//! Several processes on one store: data in memory, and for each process its own access, with an id, a lease and hints.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::Bytes;
use engine::Engine;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use model::ports::Future;
use model::ports::agent::Agent;
use model::ports::store::{
    Commit, Health, Hint, Journal, KeyUse, ListPage, ListQuery, LogHead, Outcome, RecordStore, Replicas, StoreError,
    TaskLists, TaskLog, TaskPage, TaskQuery, TextSearch, Timer, Upkeep, Versions, VisibleTasks,
};
use model::{AccessKey, Epoch, Event, Limits, PushChange, PushRow, PushStanding, PushState, Seq, TaskId, Time};
use parking_lot::Mutex;
use stores::memory;
use tokio::sync::mpsc;

use super::{Post, Shelf};

/// The duration of a lease; tests that depend on it pause the clock.
const ANSWERS_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

/// The store shared by the processes.
pub(crate) struct Square {
    data: memory::MemoryStore,
    members: Mutex<BTreeMap<u64, Ear>>,
    holders: Mutex<HashMap<TaskId, u64>>,
    deliverers: Mutex<HashMap<(TaskId, Arc<str>), u64>>,
    versions: Mutex<Versions>,
    /// No hints are sent.
    silent: AtomicBool,
}

struct Ear {
    alive: bool,
    /// Its lease has expired, and the process knows it.
    lapsed: bool,
    /// How often its lease expired.
    lapses: u64,
    hints: mpsc::UnboundedSender<Hint>,
}

/// One process's access to the data.
pub(crate) struct Member {
    square: Arc<Square>,
    pub(crate) no: u64,
    ear: Mutex<Option<mpsc::UnboundedReceiver<Hint>>>,
    ahead_ms: AtomicI64,
}

/// A process.
pub(crate) struct Process {
    pub(crate) engine: Engine,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) member: Arc<Member>,
}

impl Square {
    pub(crate) fn new() -> Arc<Square> {
        Arc::new(Square {
            data: memory::MemoryStore::new(),
            members: Mutex::default(),
            holders: Mutex::default(),
            deliverers: Mutex::default(),
            versions: Mutex::default(),
            silent: AtomicBool::new(false),
        })
    }

    pub(crate) fn join(self: &Arc<Square>) -> Arc<Member> {
        let (hints, ear) = mpsc::unbounded_channel();
        let mut members = self.members.lock();
        let no = members.len() as u64 + 1;
        members.insert(no, Ear { alive: true, lapsed: false, lapses: 0, hints });
        Arc::new(Member { square: self.clone(), no, ear: Mutex::new(Some(ear)), ahead_ms: AtomicI64::new(0) })
    }

    /// Starts another process on the data, with this agent.
    pub(crate) async fn start(self: &Arc<Square>, agent: Arc<dyn Agent>, limits: Limits) -> Process {
        self.start_post(agent, limits, None).await
    }

    pub(crate) async fn start_post(
        self: &Arc<Square>,
        agent: Arc<dyn Agent>,
        limits: Limits,
        post: Option<&Arc<Post>>,
    ) -> Process {
        let member = self.join();
        let shelf = Shelf::new(member.clone(), Epoch(member.no), true);
        let courier = post.map(|post| post.clone() as _);
        let engine = Engine::builder(shelf.clone())
            .agents(vec![agent])
            .limits(limits)
            .webhook_sender(courier)
            .start()
            .await
            .unwrap();
        Process { engine, shelf, member }
    }

    pub(crate) fn be_silent(&self, silent: bool) {
        self.silent.store(silent, Ordering::SeqCst);
    }

    /// The others consider the process dead, whether it is or not.
    pub(crate) fn give_up(&self, no: u64) {
        if let Some(member) = self.members.lock().get_mut(&no) {
            member.alive = false;
        }
        self.tell(no, &[Hint::Gone]);
    }

    /// The process's lease expires, and the others learn of it first.
    pub(crate) fn lapse(&self, no: u64) {
        if let Some(member) = self.members.lock().get_mut(&no) {
            member.lapsed = true;
        }
        self.give_up(no);
    }

    /// The process has a lease again, and receives a hint to look for missed changes.
    pub(crate) fn come_back(&self, no: u64) {
        let mut members = self.members.lock();
        let member = members.get_mut(&no).unwrap();
        member.alive = true;
        member.lapsed = false;
        member.lapses += 1;
        let _ = member.hints.send(Hint::CutOff);
    }

    fn is_alive(&self, no: u64) -> bool {
        self.members.lock().get(&no).is_some_and(|member| member.alive)
    }

    fn tell(&self, from: u64, hints: &[Hint]) {
        if self.silent.load(Ordering::SeqCst) {
            return;
        }
        for (_, member) in self.members.lock().iter().filter(|(no, _)| **no != from) {
            for hint in hints {
                let _ = member.hints.send(*hint);
            }
        }
    }
}

impl Process {
    /// `kill -9`, and all others learn of it.
    pub(crate) fn kill(&self) {
        self.shelf.die();
        self.member.square.give_up(self.member.no);
    }
}

impl Member {
    pub(crate) fn be_ahead(&self, ms: i64) {
        self.ahead_ms.store(ms, Ordering::SeqCst);
    }

    fn holds(&self, task: TaskId) -> bool {
        self.square.holders.lock().get(&task) == Some(&self.no)
    }

    fn is_orphan(&self, task: TaskId) -> bool {
        let holder = self.square.holders.lock().get(&task).copied();
        holder.is_none_or(|no| no != self.no && !self.square.is_alive(no))
    }
}

impl TaskLog for Member {
    fn commit(&self, mut commit: Commit) -> Future<'static, Outcome> {
        let mut deliverers = self.square.deliverers.lock();
        commit.push.retain(|change| match change {
            PushChange::Moved { task, id, .. } | PushChange::Over { task, id, .. } => {
                deliverers.get(&(*task, id.clone())) == Some(&self.no)
            }
            PushChange::Put(_) | PushChange::SetBack { .. } | PushChange::Remove { .. } => true,
        });
        let grown = commit.appends.iter().map(|append| Hint::Grown(append.task, append.last()));
        let mut hints: Vec<Hint> = grown.collect();
        let held: Vec<TaskId> = commit.appends.iter().filter(|a| a.epoch.is_some()).map(|a| a.task).collect();
        let put = commit.push.iter().filter_map(|change| match change {
            PushChange::Put(row) => Some((row.task, row.id.clone(), true)),
            PushChange::SetBack { task, id, .. } => Some((*task, id.clone(), true)),
            PushChange::Remove { task, id } => Some((*task, id.clone(), false)),
            PushChange::Moved { .. } | PushChange::Over { .. } => None,
        });
        let put: Vec<_> = put.collect();
        hints.extend(put.iter().map(|(task, ..)| Hint::Push(*task)));
        let access = commit.access.len() as u64;
        if access > 0 {
            hints.push(Hint::Access);
        }
        // In memory a commit happens at once.
        let mut done = self.square.data.commit(commit);
        let outcome = futures_util::FutureExt::now_or_never(&mut done).unwrap();
        if outcome == Outcome::Done {
            self.square.holders.lock().extend(held.into_iter().map(|task| (task, self.no)));
            for (task, id, there) in put {
                if there {
                    deliverers.insert((task, id), self.no);
                } else {
                    deliverers.remove(&(task, id));
                }
            }
            self.square.versions.lock().access += access;
            self.square.tell(self.no, &hints);
        }
        Box::pin(std::future::ready(outcome))
    }
    fn hold(&self, starts: u32) -> Epoch {
        Epoch(u64::from(starts))
    }
    fn head(&self, task: TaskId) -> Future<'_, Result<Option<LogHead>, StoreError>> {
        self.square.data.head(task)
    }
    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        self.square.data.events(task, after, bytes)
    }
    fn beginning(&self, task: TaskId, sight: VisibleTasks, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        self.square.data.beginning(task, sight, bytes)
    }
    fn logs(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Vec<Event>>, StoreError>> {
        self.square.data.logs(tasks)
    }
    fn key(&self, key: [u8; 32], not_before: Time) -> Future<'_, Result<Option<KeyUse>, StoreError>> {
        self.square.data.key(key, not_before)
    }
    fn alias(&self, key: [u8; 32]) -> Future<'_, Result<Option<TaskId>, StoreError>> {
        self.square.data.alias(key)
    }
    fn blob(&self, tenant: Arc<str>, hash: [u8; 32]) -> Future<'_, Result<Option<Bytes>, StoreError>> {
        self.square.data.blob(tenant, hash)
    }
    fn epoch(&self) -> Epoch {
        Epoch(self.no)
    }
}

impl TaskLists for Member {
    fn due(&self, now: Time, limit: usize) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        Box::pin(async move {
            let mut all = self.square.data.due(now, usize::MAX).await?;
            all.retain(|timer| self.holds(timer.task) || self.is_orphan(timer.task));
            all.truncate(limit);
            Ok(all)
        })
    }
    fn tasks(&self, query: TaskQuery) -> Future<'_, Result<TaskPage, StoreError>> {
        self.square.data.tasks(query)
    }
    fn list(&self, query: ListQuery) -> Future<'_, Result<ListPage, StoreError>> {
        self.square.data.list(query)
    }
    fn push(&self, task: TaskId) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        self.square.data.push(task)
    }
    fn pushes(
        &self,
        state: PushState,
        after: Option<(TaskId, Arc<str>)>,
        limit: usize,
    ) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        self.square.data.pushes(state, after, limit)
    }
    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        self.square.data.unfinished(after, limit)
    }
    fn timers(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        self.square.data.timers(tasks)
    }
    fn next_due(&self) -> Future<'_, Result<Option<Time>, StoreError>> {
        self.square.data.next_due()
    }
}

impl RecordStore for Member {
    fn access_keys(&self) -> Future<'_, Result<Vec<AccessKey>, StoreError>> {
        self.square.data.access_keys()
    }
    fn record(&self, kind: Arc<str>, key: Arc<str>) -> Future<'_, Result<Option<model::Record>, StoreError>> {
        self.square.data.record(kind, key)
    }
    fn records(&self, query: model::RecordQuery) -> Future<'_, Result<model::RecordPage, StoreError>> {
        self.square.data.records(query)
    }
    fn count_records(&self, prefix: Arc<str>, most: u64) -> Future<'_, Result<u64, StoreError>> {
        self.square.data.count_records(prefix, most)
    }
}

impl Journal for Member {
    fn balances(&self, accounts: Vec<Arc<str>>) -> Future<'_, Result<Vec<i64>, StoreError>> {
        self.square.data.balances(accounts)
    }
    fn statement(
        &self,
        account: Arc<str>,
        before: Option<u64>,
        limit: usize,
    ) -> Future<'_, Result<Vec<model::AccountLine>, StoreError>> {
        self.square.data.statement(account, before, limit)
    }
    fn accounts(&self, after: Option<Arc<str>>, limit: usize) -> Future<'_, Result<Vec<model::Balance>, StoreError>> {
        self.square.data.accounts(after, limit)
    }
    fn journal(&self, after: u64, limit: usize) -> Future<'_, Result<Vec<(u64, model::Entry)>, StoreError>> {
        self.square.data.journal(after, limit)
    }
}

impl TextSearch for Member {
    fn search(&self, query: model::TextQuery) -> Future<'_, Result<model::TextPage, StoreError>> {
        self.square.data.search(query)
    }
}

impl Replicas for Member {
    fn orphans(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        Box::pin(async move {
            let mut all = self.square.data.unfinished(after, usize::MAX).await?;
            all.retain(|(task, _)| self.is_orphan(*task));
            all.truncate(limit);
            Ok(all)
        })
    }
    fn held(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        Box::pin(async move {
            let mut all = self.square.data.unfinished(after, usize::MAX).await?;
            all.retain(|(task, _)| self.holds(*task));
            all.truncate(limit);
            Ok(all)
        })
    }
    fn adopt(&self, after: Option<(TaskId, Arc<str>)>, limit: usize) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        Box::pin(async move {
            let mut rows = self.square.data.pushes(PushState::Active, after, usize::MAX).await?;
            let mut deliverers = self.square.deliverers.lock();
            rows.retain(|row| {
                let no = deliverers.get(&(row.task, row.id.clone())).copied();
                no.is_none_or(|no| no == self.no || !self.square.is_alive(no))
            });
            rows.truncate(limit);
            for row in &mut rows {
                let before = deliverers.insert((row.task, row.id.clone()), self.no);
                if before != Some(self.no) {
                    // The same progress in the next epoch.
                    let PushRow { task, id, edition, progress, .. } = row.clone();
                    let push = vec![PushChange::SetBack { task, id, edition, progress }];
                    let mut taken = self.square.data.commit(Commit { push, ..Commit::default() });
                    assert_eq!(futures_util::FutureExt::now_or_never(&mut taken), Some(Outcome::Done));
                    row.epoch = Epoch(row.epoch.0 + 1);
                }
            }
            Ok(rows)
        })
    }
    fn standings(&self, configs: Vec<(TaskId, Arc<str>)>) -> Future<'_, Result<Vec<Option<PushStanding>>, StoreError>> {
        Box::pin(async move {
            let standings = self.square.data.standings(configs.clone()).await?;
            let deliverers = self.square.deliverers.lock();
            let ours = |config| deliverers.get(config) == Some(&self.no);
            let known = configs.iter().zip(standings);
            Ok(known.map(|(config, now)| now.map(|now| PushStanding { ours: ours(config), ..now })).collect())
        })
    }
    fn tenure(&self) -> Option<u64> {
        let members = self.square.members.lock();
        members.get(&self.no).filter(|member| !member.lapsed).map(|member| member.lapses)
    }
    fn versions(&self) -> Future<'_, Result<Versions, StoreError>> {
        let versions = *self.square.versions.lock();
        Box::pin(std::future::ready(Ok(versions)))
    }
    fn is_shared(&self) -> bool {
        true
    }
    fn hints(&self) -> BoxStream<'static, Hint> {
        let ear = self.ear.lock().take().unwrap();
        futures_util::stream::unfold(ear, |mut ear| async move { Some((ear.recv().await?, ear)) }).boxed()
    }
    fn ahead_ms(&self) -> i64 {
        self.ahead_ms.load(Ordering::SeqCst)
    }
}

impl Upkeep for Member {
    fn answers_within(&self) -> Option<std::time::Duration> {
        Some(ANSWERS_WITHIN)
    }
    fn remove(&self, task: TaskId) -> Future<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let removed = self.square.data.remove(task).await?;
            self.square.versions.lock().removed += u64::from(removed);
            self.square.tell(self.no, &[Hint::Removed(task)]);
            Ok(removed)
        })
    }
    fn close(&self) -> Future<'_, ()> {
        self.square.give_up(self.no);
        Box::pin(std::future::ready(()))
    }
    fn purge(&self, before: Time, keys_before: Time, limit: usize) -> Future<'_, Result<u64, StoreError>> {
        self.square.data.purge(before, keys_before, limit)
    }
    fn backup(&self, to: PathBuf) -> Future<'_, Result<(), StoreError>> {
        self.square.data.backup(to)
    }
    fn health(&self) -> Future<'_, Result<Health, StoreError>> {
        self.square.data.health()
    }
}
