//! The store in a PostgreSQL database, shared by any number of replicas.
//!
//! ```text
//!  commit ──► queue ──► writer ──► pen ──► database (two round trips, one flush per group)
//!                         │ news                ▲
//!                       teller ── NOTIFY ──►    │ one statement each
//!  hints ◄── ear ◄── heart ◄── LISTEN, lease    │
//!  reads ─────────────────────────────► lanes ──┘
//! ```
//!
//! * One writer per replica (`writer`), many commits per transaction; `pen` decides them in memory under row locks, which is
//!   what lets replicas write to the same tasks, and `tables` writes what became of them. `counters` sums up what a group
//!   changed, `purge` takes tasks out again, `push` keeps the webhooks' rows. The writer's SQL is in `statements`.
//! * Reads (`read`, `list`) are single statements and share a few connections (`lanes`).
//! * `replica` keeps this process's lease and says who is gone; `hints` tells the others what happened here. Both are about
//!   speed: what is right is decided by locks, lengths and epochs in the database.
//! * The log has one row per commit and task; lists have a row per view; see `migrations/0001.sql`.
//!
//! Nothing here decodes an event on its way in: a payload is bytes until somebody reads it.

mod columns;
mod connect;
mod counters;
mod fence;
mod hints;
pub(crate) mod import;
mod lanes;
mod list;
mod options;
mod pen;
mod products;
mod purge;
mod push;
mod queue;
mod read;
mod replica;
mod schema;
mod statements;
mod tables;
#[cfg(test)]
mod tests;
mod texts;
mod tls;
mod trouble;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::ready;
use futures_util::stream::BoxStream;
use model::ports::Future;
use model::ports::store::{
    Commit, Head, Health, Hint, KeyUse, ListPage, ListQuery, Outcome, ReplicaRow, Seen, Store as Port, TaskPage,
    TaskQuery, Timer, Trouble, Versions,
};
use model::{
    AccessKey, Balance, Entry, Epoch, Event, Line, PushRow, PushStanding, PushState, Record, RecordPage, RecordQuery,
    Seq, TaskId, TextPage, TextQuery, Time,
};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use self::connect::{Conn, Target};
use self::hints::{Ear, Teller};
use self::lanes::Lanes;
pub use self::options::{Durability, OpenError, Options};
use self::queue::{Errand, Queue};
use self::replica::{Heart, Replica};
use self::trouble::Failure;
use crate::shape;

/// A shorter lease is not worth its traffic.
const SHORTEST_LEASE: Duration = Duration::from_millis(500);

/// How long a start waits for a database that neither answers nor refuses.
const START_PATIENCE: Duration = Duration::from_secs(15);

/// The open store. Dropping it closes it, as far as that can be done without waiting.
pub struct Store {
    shared: Arc<Shared>,
    lanes: Lanes,
    ear: Arc<Ear>,
    leaving: watch::Sender<bool>,
    tasks: tokio::sync::Mutex<Option<Tasks>>,
}

/// What the writer and the readers share.
struct Shared {
    options: Options,
    target: Arc<Target>,
    replica: Arc<Replica>,
    queue: Queue,
    teller: Arc<Teller>,
    /// What keeps the writer from writing, if anything does.
    trouble: Mutex<Option<Trouble>>,
    /// A commit was answered with an unknown outcome, and may still happen.
    undecided: watch::Sender<bool>,
}

struct Tasks {
    writer: JoinHandle<()>,
    teller: JoinHandle<()>,
    heart: JoinHandle<()>,
}

impl Store {
    /// Opens the store, bringing the database to this release's schema, and joins whoever else has it open.
    ///
    /// ```no_run
    /// # async fn open() -> Result<(), stores::postgres::OpenError> {
    /// use stores::postgres::{Options, Store};
    ///
    /// let store = Store::open(Options::new("postgres://rialto:secret@localhost/rialto")).await?;
    /// # drop(store);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(mut options: Options) -> Result<Store, OpenError> {
        options.lease = options.lease.max(SHORTEST_LEASE);
        let patient_until = tokio::time::Instant::now() + START_PATIENCE;
        loop {
            match Store::enter(options.clone()).await {
                // Calls are bounded by the lease, which may be short; a start may take longer on a busy database.
                Err(OpenError::Connect { reason, .. })
                    if reason == connect::NO_ANSWER && tokio::time::Instant::now() < patient_until => {}
                done => return done,
            }
        }
    }

    async fn enter(options: Options) -> Result<Store, OpenError> {
        let target = Arc::new(Target::new(&options.url, options.direct_url.is_some(), &options)?);
        let direct = match &options.direct_url {
            Some(url) => Arc::new(Target::new(url, false, &options)?),
            None => target.clone(),
        };
        let (db, heard) = direct.listen().await.map_err(|fault| direct.explain(&fault))?;
        schema::migrate(&db, &direct).await?;
        let entered = Replica::enter(&db, options.lease).await.map_err(|error| direct.explain(&error.into()))?;
        let replica = Arc::new(entered.ok_or(OpenError::Migrating)?);
        let (teller, ear) = (Arc::new(Teller::new(replica.no)), Arc::new(Ear::new()));
        let mut heart = Heart::new(replica.clone(), direct.clone(), ear.clone());
        heart.start(&db).await.map_err(|fault| direct.explain(&fault))?;
        let shared = Arc::new(Shared {
            queue: Queue::new(options.queue_commits, options.queue_bytes),
            teller: teller.clone(),
            trouble: Mutex::default(),
            undecided: watch::Sender::new(false),
            target: target.clone(),
            replica,
            options,
        });
        let writing = writer::open(&shared, None).await.map_err(|fault| target.explain(&fault))?;
        let (leaving, left) = watch::channel(false);
        let tasks = Tasks {
            writer: tokio::spawn(writer::run(shared.clone(), writing)),
            teller: tokio::spawn(teller.run(direct)),
            heart: tokio::spawn(heart.run((db, heard), left)),
        };
        let lanes = Lanes::new(target, shared.clone());
        Ok(Store { shared, lanes, ear, leaving, tasks: tokio::sync::Mutex::new(Some(tasks)) })
    }

    /// What all replicas agree on under this name: what the first of them said, ever.
    pub async fn remember(&self, name: &str, value: &str) -> Result<String, Trouble> {
        let said: Arc<(String, String)> = Arc::new((name.to_owned(), value.to_owned()));
        let known = self.read(move |db| {
            let said = said.clone();
            async move { read::remember(&db, &said.0, &said.1).await }
        });
        known.await
    }

    /// What the replicas have agreed on under this name, if anything yet.
    pub async fn recall(&self, name: &str) -> Result<Option<String>, Trouble> {
        let name: Arc<str> = name.into();
        let known = self.read(move |db| {
            let name = name.clone();
            async move { read::recall(&db, &name).await }
        });
        known.await
    }

    fn read<'a, T: Send + 'a, F>(
        &'a self,
        look: impl Fn(Arc<Conn>) -> F + Send + Sync + 'a,
    ) -> Future<'a, Result<T, Trouble>>
    where
        F: std::future::Future<Output = Result<T, Failure>> + Send + 'a,
    {
        Box::pin(async move { self.lanes.read(look).await })
    }

    fn ask<T: Send + 'static>(
        &self,
        errand: impl FnOnce(oneshot::Sender<Result<T, Trouble>>) -> Errand + Send + 'static,
    ) -> Future<'_, Result<T, Trouble>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.shared.queue.push(errand(answer))?;
            answered.await.unwrap_or(Err(Trouble::Closed))
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shared.queue.close();
        self.lanes.close();
        let leaving = self.leaving.clone();
        let shared = self.shared.clone();
        let tasks = self.tasks.get_mut().take();
        // The lease is kept until the last commit is through. Without a runtime it runs out.
        if let (Some(tasks), Ok(runtime)) = (tasks, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { finish(tasks, &shared, &leaving).await });
        }
    }
}

/// Lets everybody finish, in an order in which none misses another.
async fn finish(tasks: Tasks, shared: &Shared, leaving: &watch::Sender<bool>) {
    for (task, then) in [(tasks.writer, 0), (tasks.teller, 1), (tasks.heart, 2)] {
        match then {
            0 => {}
            1 => shared.teller.close(),
            _ => drop(leaving.send_replace(true)),
        }
        if task.await.is_err() {
            tracing::error!("a task of the store panicked");
        }
    }
}

impl Port for Store {
    fn commit(&self, commit: Commit) -> Future<'static, Outcome> {
        let queued = match shape::malformed(&commit) {
            Some(trouble) => Err(trouble),
            None => self.shared.queue.push_commit(commit),
        };
        match queued {
            Ok(answered) => Box::pin(async move {
                // No answer means that the writer is gone, and whether it wrote before is anybody's guess.
                answered.await.unwrap_or(Outcome::Unknown(Trouble::Closed))
            }),
            Err(trouble) => Box::pin(ready(Outcome::Refused(trouble))),
        }
    }

    fn head(&self, task: TaskId) -> Future<'_, Result<Option<Head>, Trouble>> {
        self.read(move |db| async move { read::head(&db, task).await })
    }

    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Future<'_, Result<Vec<Event>, Trouble>> {
        self.read(move |db| async move { read::log_after(&db, task, after, bytes).await })
    }

    fn beginning(&self, task: TaskId, sight: Seen, bytes: usize) -> Future<'_, Result<Vec<Event>, Trouble>> {
        let sight = Arc::new(sight);
        self.read(move |db| {
            let sight = sight.clone();
            async move { read::beginning(&db, task, &sight, bytes).await }
        })
    }

    fn logs(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Vec<Event>>, Trouble>> {
        let tasks: Arc<[TaskId]> = tasks.into();
        self.read(move |db| {
            let tasks = tasks.clone();
            async move { read::logs(&db, &tasks).await }
        })
    }

    fn list(&self, query: ListQuery) -> Future<'_, Result<ListPage, Trouble>> {
        let query = Arc::new(query);
        self.read(move |db| {
            let query = query.clone();
            async move { list::page(&db, &query).await }
        })
    }

    fn tasks(&self, query: TaskQuery) -> Future<'_, Result<TaskPage, Trouble>> {
        let query = Arc::new(query);
        self.read(move |db| {
            let query = query.clone();
            async move { list::tasks(&db, &query).await }
        })
    }

    fn key(&self, key: [u8; 32], not_before: Time) -> Future<'_, Result<Option<KeyUse>, Trouble>> {
        self.read(move |db| async move { read::key(&db, key, not_before).await })
    }

    fn alias(&self, key: [u8; 32]) -> Future<'_, Result<Option<TaskId>, Trouble>> {
        self.read(move |db| async move { read::alias(&db, key).await })
    }

    fn access_keys(&self) -> Future<'_, Result<Vec<AccessKey>, Trouble>> {
        self.read(move |db| async move { read::access_keys(&db).await })
    }

    fn push(&self, task: TaskId) -> Future<'_, Result<Vec<PushRow>, Trouble>> {
        self.read(move |db| async move { push::of_task(&db, task).await })
    }

    fn pushes(
        &self,
        state: PushState,
        after: Option<(TaskId, Arc<str>)>,
        limit: usize,
    ) -> Future<'_, Result<Vec<PushRow>, Trouble>> {
        self.read(move |db| {
            let after = after.clone();
            async move { push::page(&db, state, after.as_ref(), limit).await }
        })
    }

    fn blob(&self, tenant: Arc<str>, hash: [u8; 32]) -> Future<'_, Result<Option<Bytes>, Trouble>> {
        self.read(move |db| {
            let tenant = tenant.clone();
            async move { read::blob(&db, &tenant, hash).await }
        })
    }

    fn record(&self, kind: Arc<str>, key: Arc<str>) -> Future<'_, Result<Option<Record>, Trouble>> {
        self.read(move |db| {
            let (kind, key) = (kind.clone(), key.clone());
            async move { products::record(&db, &kind, &key).await }
        })
    }

    fn records(&self, query: RecordQuery) -> Future<'_, Result<RecordPage, Trouble>> {
        self.read(move |db| {
            let query = query.clone();
            async move { products::records(&db, &query).await }
        })
    }

    fn search(&self, query: TextQuery) -> Future<'_, Result<TextPage, Trouble>> {
        let query = Arc::new(query);
        self.read(move |db| {
            let query = query.clone();
            async move { texts::search(&db, &query).await }
        })
    }

    fn balances(&self, accounts: Vec<Arc<str>>) -> Future<'_, Result<Vec<i64>, Trouble>> {
        self.read(move |db| {
            let accounts = accounts.clone();
            async move { products::balances(&db, &accounts).await }
        })
    }

    fn statement(
        &self,
        account: Arc<str>,
        before: Option<u64>,
        limit: usize,
    ) -> Future<'_, Result<Vec<Line>, Trouble>> {
        self.read(move |db| {
            let account = account.clone();
            async move { products::statement(&db, &account, before, limit).await }
        })
    }

    fn accounts(&self, after: Option<Arc<str>>, limit: usize) -> Future<'_, Result<Vec<Balance>, Trouble>> {
        self.read(move |db| {
            let after = after.clone();
            async move { products::accounts(&db, after.as_ref(), limit).await }
        })
    }

    fn journal(&self, after: u64, limit: usize) -> Future<'_, Result<Vec<(u64, Entry)>, Trouble>> {
        self.read(move |db| async move { products::journal(&db, after, limit).await })
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, Trouble>> {
        self.read(move |db| async move { read::unfinished(&db, after, limit).await })
    }

    fn orphans(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, Trouble>> {
        let judge = self.shared.replica.judge();
        self.read(move |db| async move { read::orphans(&db, &judge, after, limit).await })
    }

    fn adopt(&self, after: Option<(TaskId, Arc<str>)>, limit: usize) -> Future<'_, Result<Vec<PushRow>, Trouble>> {
        let judge = self.shared.replica.judge();
        self.read(move |db| {
            let after = after.clone();
            async move { push::adopt(&db, &judge, after.as_ref(), limit).await }
        })
    }

    fn standings(&self, configs: Vec<(TaskId, Arc<str>)>) -> Future<'_, Result<Vec<Option<PushStanding>>, Trouble>> {
        let (me, configs) = (self.shared.replica.no, Arc::<[_]>::from(configs));
        self.read(move |db| {
            let configs = configs.clone();
            async move { push::standings(&db, me, &configs).await }
        })
    }

    fn tenure(&self) -> Option<u64> {
        self.shared.replica.tenure()
    }

    fn held(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, Trouble>> {
        let me = self.shared.replica.no;
        self.read(move |db| async move { read::held_by(&db, me, after, limit).await })
    }

    fn lengths(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Seq>, Trouble>> {
        let tasks: Arc<[TaskId]> = tasks.into();
        self.read(move |db| {
            let tasks = tasks.clone();
            async move { read::lengths(&db, &tasks).await }
        })
    }

    fn due(&self, now: Time, limit: usize) -> Future<'_, Result<Vec<Timer>, Trouble>> {
        let judge = self.shared.replica.judge();
        self.read(move |db| async move { read::due(&db, &judge, now, limit).await })
    }

    fn timers(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Timer>, Trouble>> {
        let tasks: Arc<[TaskId]> = tasks.into();
        self.read(move |db| {
            let tasks = tasks.clone();
            async move { read::timers(&db, &tasks).await }
        })
    }

    fn next_due(&self) -> Future<'_, Result<Option<Time>, Trouble>> {
        let judge = self.shared.replica.judge();
        self.read(move |db| async move { read::next_due(&db, &judge).await })
    }

    fn purge(&self, before: Time, keys_before: Time, limit: usize) -> Future<'_, Result<u64, Trouble>> {
        self.ask(move |answer| Errand::Purge { before, keys_before, limit, answer })
    }

    fn remove(&self, task: TaskId) -> Future<'_, Result<bool, Trouble>> {
        self.ask(move |answer| Errand::Remove { task, answer })
    }

    fn decided(&self) -> Future<'_, Result<(), Trouble>> {
        let mut undecided = self.shared.undecided.subscribe();
        Box::pin(async move {
            let decided = undecided.wait_for(|undecided| !undecided);
            match tokio::time::timeout(self.shared.options.bound(), decided).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) => Err(Trouble::Closed),
                Err(_) => {
                    let trouble = self.shared.trouble.lock().clone();
                    Err(trouble.unwrap_or_else(|| Trouble::Unreachable("a commit is in doubt".into())))
                }
            }
        })
    }

    fn answers_within(&self) -> Option<Duration> {
        Some(self.shared.options.bound())
    }

    fn trouble(&self) -> Option<Trouble> {
        let trouble = self.shared.trouble.lock().clone();
        trouble
            .or_else(|| self.shared.replica.is_silent().then(|| Trouble::Unreachable("a heartbeat is missing".into())))
    }

    fn epoch(&self) -> Epoch {
        Epoch(self.shared.replica.no as u64)
    }

    fn hold(&self, starts: u32) -> Epoch {
        Epoch(u64::from(starts))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        self.ear.stream()
    }

    fn versions(&self) -> Future<'_, Result<Versions, Trouble>> {
        self.read(move |db| async move { read::versions(&db).await })
    }

    fn introduce(&self, about: String) {
        self.shared.replica.introduce(about);
    }

    fn replicas(&self) -> Future<'_, Result<Vec<ReplicaRow>, Trouble>> {
        let judge = self.shared.replica.judge();
        self.read(move |db| async move { read::replicas(&db, &judge).await })
    }

    fn ahead_ms(&self) -> i64 {
        self.shared.replica.ahead_ms()
    }

    fn backup(&self, _to: PathBuf) -> Future<'_, Result<(), Trouble>> {
        let text = "PostgreSQL is backed up with its own tools: pg_dump --schema=rialto, or pg_basebackup";
        Box::pin(ready(Err(Trouble::Broken(text.into()))))
    }

    fn health(&self) -> Future<'_, Result<Health, Trouble>> {
        let (epoch, trouble) = (self.epoch(), self.trouble());
        self.read(move |db| {
            let trouble = trouble.clone();
            async move { read::health(&db, epoch, trouble).await }
        })
    }

    fn close(&self) -> Future<'_, ()> {
        Box::pin(async move {
            self.shared.queue.close();
            // Whoever closes it a second time waits for the first.
            let mut tasks = self.tasks.lock().await;
            self.lanes.close();
            if let Some(tasks) = tasks.take() {
                finish(tasks, &self.shared, &self.leaving).await;
            }
        })
    }
}
