//! The store in a PostgreSQL database, shared by any number of replicas.
//!
//! ```text
//!  commit ──► queue ──► writer ──► apply ──► database (two round trips, one flush per group)
//!                         │ group changes          ▲
//!                      notifier ── NOTIFY ──►      │ one statement each
//!  hints ◄── hint listener ◄── lease keeper ◄── LISTEN, lease
//!  reads ───────────────────────► read pool ───────┘
//! ```
//!
//! * One writer per replica (`writer`), many commits per transaction; `apply` decides them in memory under row locks, so that
//!   replicas can write to the same tasks, and `tables` writes the result. `counters` sums up the changes of a group, `purge`
//!   removes tasks, `push` stores the rows of webhooks. The writer's SQL is in `statements`.
//! * Reads (`read`, `list`) are single statements and share a few connections (`read_pool`).
//! * `replica` renews this process's lease and detects replicas that are gone; `notify` sends hints of changes to the others.
//!   Both are about speed: locks, lengths and epochs in the database decide correctness.
//! * The log has one row per commit and task; lists have a row per view; see `migrations/0001.sql`.
//!
//! Nothing here decodes an event on its way in: a payload is bytes until it is read.

mod apply;
mod columns;
mod connect;
mod counters;
mod fence;
pub(crate) mod import;
mod list;
mod notify;
mod options;
mod purge;
mod push;
mod queue;
mod read;
mod read_pool;
mod records;
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

use futures_util::future::ready;
use model::ports::Future;
use model::ports::store::{Health, StoreError, TaskLog as _, Upkeep};
use model::{TaskId, Time};
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use self::connect::{Conn, ConnectTarget};
use self::notify::{HintListener, Notifier};
pub use self::options::{Options, PostgresOpenError, SqliteDurability};
use self::queue::{CommitQueue, MaintenanceJob};
use self::read_pool::ReadPool;
use self::replica::{LeaseKeeper, Replica};
use self::trouble::Failure;

/// A shorter lease is not worth its traffic.
const SHORTEST_LEASE: Duration = Duration::from_millis(500);

/// How long a start waits for a database that neither answers nor refuses.
const START_PATIENCE: Duration = Duration::from_secs(15);

/// The open store. Dropping it closes it, as far as that can be done without waiting.
pub struct PostgresStore {
    shared: Arc<Shared>,
    readers: ReadPool,
    listener: Arc<HintListener>,
    leaving: watch::Sender<bool>,
    tasks: tokio::sync::Mutex<Option<Tasks>>,
}

/// State that the writer and the readers share.
struct Shared {
    options: Options,
    target: Arc<ConnectTarget>,
    replica: Arc<Replica>,
    queue: CommitQueue,
    notifier: Arc<Notifier>,
    /// The trouble that keeps the writer from writing, if any.
    trouble: Mutex<Option<StoreError>>,
    /// A commit was answered with an unknown outcome, and may still happen.
    undecided: watch::Sender<bool>,
}

struct Tasks {
    writer: JoinHandle<()>,
    notifier: JoinHandle<()>,
    lease_keeper: JoinHandle<()>,
}

impl PostgresStore {
    /// Opens the store, brings the database to this release's schema, and joins the replicas that have it open.
    ///
    /// ```no_run
    /// # async fn open() -> Result<(), stores::postgres::PostgresOpenError> {
    /// use stores::postgres::{Options, PostgresStore};
    ///
    /// let store = PostgresStore::open(Options::new("postgres://rialto:secret@localhost/rialto")).await?;
    /// # drop(store);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn open(mut options: Options) -> Result<PostgresStore, PostgresOpenError> {
        options.lease = options.lease.max(SHORTEST_LEASE);
        let patient_until = tokio::time::Instant::now() + START_PATIENCE;
        loop {
            match PostgresStore::enter(options.clone()).await {
                // Calls are bounded by the lease, which may be short; a start may take longer on a busy database.
                Err(PostgresOpenError::Connect { reason, .. })
                    if reason == connect::NO_ANSWER && tokio::time::Instant::now() < patient_until => {}
                done => return done,
            }
        }
    }

    async fn enter(options: Options) -> Result<PostgresStore, PostgresOpenError> {
        let target = Arc::new(ConnectTarget::new(&options.url, options.direct_url.is_some(), &options)?);
        let direct = match &options.direct_url {
            Some(url) => Arc::new(ConnectTarget::new(url, false, &options)?),
            None => target.clone(),
        };
        let (db, heard) = direct.listen().await.map_err(|fault| direct.explain(&fault))?;
        schema::migrate(&db, &direct).await?;
        let entered = Replica::enter(&db, options.lease).await.map_err(|error| direct.explain(&error.into()))?;
        let replica = Arc::new(entered.ok_or(PostgresOpenError::Migrating)?);
        let (notifier, listener) = (Arc::new(Notifier::new(replica.no)), Arc::new(HintListener::new()));
        let mut lease_keeper = LeaseKeeper::new(replica.clone(), direct.clone(), listener.clone());
        lease_keeper.start(&db).await.map_err(|fault| direct.explain(&fault))?;
        let shared = Arc::new(Shared {
            queue: CommitQueue::new(options.queue_commits, options.queue_bytes),
            notifier: notifier.clone(),
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
            notifier: tokio::spawn(notifier.run(direct)),
            lease_keeper: tokio::spawn(lease_keeper.run((db, heard), left)),
        };
        let readers = ReadPool::new(target, shared.clone());
        Ok(PostgresStore { shared, readers, listener, leaving, tasks: tokio::sync::Mutex::new(Some(tasks)) })
    }

    fn read<'a, T: Send + 'a, F>(
        &'a self,
        look: impl Fn(Arc<Conn>) -> F + Send + Sync + 'a,
    ) -> Future<'a, Result<T, StoreError>>
    where
        F: std::future::Future<Output = Result<T, Failure>> + Send + 'a,
    {
        Box::pin(async move { self.readers.read(look).await })
    }

    fn ask<T: Send + 'static>(
        &self,
        maintenance: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> MaintenanceJob + Send + 'static,
    ) -> Future<'_, Result<T, StoreError>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.shared.queue.push(maintenance(answer))?;
            answered.await.unwrap_or(Err(StoreError::Closed))
        })
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.shared.queue.close();
        self.readers.close();
        let leaving = self.leaving.clone();
        let shared = self.shared.clone();
        let tasks = self.tasks.get_mut().take();
        // The lease is kept until the last commit is through. Without a runtime it runs out.
        if let (Some(tasks), Ok(runtime)) = (tasks, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move { finish(tasks, &shared, &leaving).await });
        }
    }
}

/// Ends the tasks in an order in which each one hears of all work before it.
async fn finish(tasks: Tasks, shared: &Shared, leaving: &watch::Sender<bool>) {
    for (task, then) in [(tasks.writer, 0), (tasks.notifier, 1), (tasks.lease_keeper, 2)] {
        match then {
            0 => {}
            1 => shared.notifier.close(),
            _ => drop(leaving.send_replace(true)),
        }
        if task.await.is_err() {
            tracing::error!("a task of the store panicked");
        }
    }
}

impl Upkeep for PostgresStore {
    fn purge(&self, before: Time, keys_before: Time, limit: usize) -> Future<'_, Result<u64, StoreError>> {
        self.ask(move |answer| MaintenanceJob::Purge { before, keys_before, limit, answer })
    }

    fn remove(&self, task: TaskId) -> Future<'_, Result<bool, StoreError>> {
        self.ask(move |answer| MaintenanceJob::Remove { task, answer })
    }

    fn answers_within(&self) -> Option<Duration> {
        Some(self.shared.options.bound())
    }

    fn trouble(&self) -> Option<StoreError> {
        let trouble = self.shared.trouble.lock().clone();
        trouble.or_else(|| {
            self.shared.replica.is_silent().then(|| StoreError::Unreachable("a heartbeat is missing".into()))
        })
    }

    fn backup(&self, _to: PathBuf) -> Future<'_, Result<(), StoreError>> {
        let text = "PostgreSQL is backed up with its own tools: pg_dump --schema=rialto, or pg_basebackup";
        Box::pin(ready(Err(StoreError::Broken(text.into()))))
    }

    fn health(&self) -> Future<'_, Result<Health, StoreError>> {
        let (epoch, trouble) = (self.epoch(), self.trouble());
        self.read(move |db| {
            let trouble = trouble.clone();
            async move { read::health(&db, epoch, trouble).await }
        })
    }

    fn close(&self) -> Future<'_, ()> {
        Box::pin(async move {
            self.shared.queue.close();
            // A second close waits for the first.
            let mut tasks = self.tasks.lock().await;
            self.readers.close();
            if let Some(tasks) = tasks.take() {
                finish(tasks, &self.shared, &self.leaving).await;
            }
        })
    }
}
