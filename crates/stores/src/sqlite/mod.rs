//! The store in one SQLite file: `rialto.db` in the data folder.
//!
//! ```text
//!  commit ──► queue ──► writer thread ──► apply ──► file (WAL, one fsync per group)
//!                            │ wakes                   ▲
//!                       checkpoint thread              │ snapshots
//!  reads ────────────────────────────────► pool ───────┘
//! ```
//!
//! * One writer thread (`writer`), many commits per transaction; `apply` checks and writes one commit, `counters` sums up the
//!   changes of a group, `purge` removes tasks, `push` stores the rows of webhooks, `records` stores records and the journal.
//!   All SQL of the writer is in `statements`.
//! * Reads (`read`, `list`) run on a few connections (`pool`).
//! * The log has one row per commit and task, the chunks of a turn being one row once it is over; until then they are in
//!   the `tail`. Lists have a row per view; see `migrations/0001.sql`.
//!
//! Nothing here decodes an event on its way in: a payload is bytes until it is read.
//!
//! `export` reads all of it, for a migration to another store.

mod apply;
mod backup;
mod checkpoint;
mod columns;
mod counters;
pub(crate) mod export;
mod folder;
mod list;
mod options;
mod pool;
mod position;
mod purge;
mod push;
mod queue;
mod read;
mod records;
mod schema;
mod statements;
mod tail;
#[cfg(test)]
mod tail_tests;
#[cfg(test)]
mod tests;
mod texts;
mod trouble;
mod views;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use model::ports::Future;
use model::ports::store::{Commit, Health, Loss, Replicas, StoreError, Upkeep};
use model::{Epoch, TaskId, Time};
use parking_lot::{Mutex, RwLock};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::oneshot;

pub use self::options::{Options, SqliteDurability, SqliteOpenError};
use self::pool::ReaderPool;
pub use self::position::COMMITS;
use self::queue::{JobQueue, WriterJob};

/// Above this many bytes asked for, a read of events is handed to another thread.
const SHORT_READ_BYTES: usize = 1 << 20;
/// Above this many logs too.
const SHORT_READ_LOGS: usize = 100;

/// The open store. Dropping it closes it.
pub struct SqliteStore {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<folder::Lock>>,
}

/// State that the writer, the checkpoint thread and the readers share.
struct Shared {
    options: Options,
    folder: PathBuf,
    page_bytes: u64,
    epoch: Epoch,
    queue: JobQueue,
    pool: ReaderPool,
    checkpoints: checkpoint::Bell,
    /// Where the chunks of live turns are.
    tail: RwLock<tail::Pieces>,
    views: views::ViewNumbers,
    /// The trouble that keeps the writer from writing, if any.
    trouble: Mutex<Option<StoreError>>,
    /// The loss that this start or an earlier one found.
    loss: Option<Loss>,
}

impl SqliteStore {
    /// Opens the store in `options.folder`, bringing its file to this release's schema, as the only process to do so.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// use stores::sqlite::{Options, SqliteStore};
    ///
    /// let store = SqliteStore::open(Options::new(folder.path())).unwrap();
    /// assert!(SqliteStore::open(Options::new(folder.path())).is_err(), "one process, one store, one folder");
    /// # drop(store);
    /// ```
    pub fn open(options: Options) -> Result<SqliteStore, SqliteOpenError> {
        let folder = options.folder.clone();
        let lock = folder::lock(&folder)?;
        folder::reserve(&folder)?;
        let mut ledger = position::PositionFile::open(&folder);
        let mut db = connect(&folder, &options)?;
        // The first read takes up what the write-ahead log has; nothing is written before that is compared.
        let read = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
        if let (Ok(_), Some((_, pages, _))) = (read, checkpoint::figures(&db)) {
            ledger.compare(pages, now());
        }
        schema::migrate(&mut db)?;
        let (epoch, is_full) = next_epoch(&db, &mut ledger)?;
        let page_bytes: i64 = db.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        folder::sync(&folder).map_err(|source| SqliteOpenError::Folder { folder: folder.clone(), source })?;
        let copier = connect(&folder, &options)?;

        let database = folder::database(&folder);
        let shared = Arc::new(Shared {
            page_bytes: page_bytes as u64,
            epoch: Epoch(epoch as u64),
            queue: JobQueue::new(options.queue_commits, options.queue_bytes),
            pool: ReaderPool::new(folder.clone(), database, options.readers, options.reader_cache_kib),
            checkpoints: checkpoint::Bell::default(),
            tail: RwLock::default(),
            views: views::ViewNumbers::default(),
            trouble: Mutex::new(is_full.then_some(StoreError::Full)),
            loss: ledger.loss(),
            folder,
            options,
        });
        let (ready, prepared) = std::sync::mpsc::sync_channel(1);
        let store = SqliteStore { shared: shared.clone(), threads: Mutex::default(), lock: Mutex::new(Some(lock)) };
        store.spawn("rialto-checkpoint", {
            let shared = shared.clone();
            move || shared.checkpoints.answer(&copier)
        })?;
        // An epoch that could not be written is, with the first commit that can.
        let unsaved = is_full.then_some(epoch);
        store.spawn("rialto-writer", move || writer::run(db, ledger, unsaved, &shared, ready))?;
        // A writer that is gone before it is ready has panicked.
        prepared.recv().unwrap_or(Err(rusqlite::Error::InvalidQuery))?;
        Ok(store)
    }

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), SqliteOpenError> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(work);
        let thread = thread.map_err(|source| SqliteOpenError::Folder { folder: self.shared.folder.clone(), source })?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Finishes what is queued, empties the WAL, closes the file and lets go of the lock. Blocks; may be repeated.
    fn shut(&self) {
        self.shared.queue.close();
        self.shared.checkpoints.close();
        self.shared.pool.close();
        let mut threads = self.threads.lock();
        for thread in threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
        self.lock.lock().take();
    }

    /// A short read, right here.
    fn read<'a, T: Send + 'a>(
        &'a self,
        look: impl FnOnce(&Connection) -> Result<T, pool::Error> + Send + 'a,
    ) -> Future<'a, Result<T, StoreError>> {
        Box::pin(async move { self.shared.pool.read(look) })
    }

    /// A longer read, on a thread of its own, so that it delays no other work.
    fn read_aside<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, pool::Error> + Send + 'static,
    ) -> Future<'_, Result<T, StoreError>> {
        let shared = self.shared.clone();
        aside(move || shared.pool.read(look))
    }

    fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, StoreError>>) -> WriterJob + Send + 'static,
    ) -> Future<'_, Result<T, StoreError>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.shared.queue.push(job(answer))?;
            answered.await.unwrap_or(Err(StoreError::Closed))
        })
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.shut();
    }
}

/// Runs blocking work off the runtime's workers; without a runtime, right here.
fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Future<'static, Result<T, StoreError>> {
    Box::pin(async move {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => match runtime.spawn_blocking(work).await {
                Ok(result) => result,
                Err(_) => Err(StoreError::Broken("a read panicked".into())),
            },
            Err(_) => work(),
        }
    })
}

fn now() -> Time {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Counts this start. Where the disk is full even after the write-ahead log was emptied, the number is taken and not yet
/// written: what is there can be read, and the next process takes the same number unless this one comes to write.
fn next_epoch(db: &Connection, ledger: &mut position::PositionFile) -> Result<(i64, bool), SqliteOpenError> {
    let count = || db.query_row("UPDATE meta SET epoch = epoch + 1 RETURNING epoch", [], |row| row.get(0));
    let is_full = |error: &rusqlite::Error| error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull);
    let error = match count() {
        Err(error) if is_full(&error) => error,
        counted => return Ok((counted?, false)),
    };
    tracing::warn!(%error, "the disk is full; making room in the write-ahead log");
    ledger.forget();
    let emptied: rusqlite::Result<i64> = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
    match emptied.and_then(|_| count()) {
        Ok(epoch) => Ok((epoch, false)),
        Err(error) => {
            tracing::error!(%error, "the disk is full: what is there is served, and new work is refused until there is room");
            Ok((db.query_row("SELECT epoch + 1 FROM meta", [], |row| row.get(0))?, true))
        }
    }
}

/// A connection that may write.
fn connect(folder: &Path, options: &Options) -> Result<Connection, SqliteOpenError> {
    let db = Connection::open(folder::database(folder))?;
    plan_once(&db)?;
    // Only a reader can be in the way, of a checkpoint; the writer waits a little, then tries again later.
    db.busy_timeout(Duration::from_millis(20))?;
    let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(SqliteOpenError::NoWal(mode));
    }
    let synchronous = match options.durability {
        SqliteDurability::Full => "FULL",
        SqliteDurability::Relaxed => "NORMAL",
    };
    db.pragma_update(None, "synchronous", synchronous)?;
    // Where fsync does not reach the disk (macOS), ask for what does.
    db.pragma_update(None, "fullfsync", true)?;
    db.pragma_update(None, "checkpoint_fullfsync", true)?;
    // We checkpoint ourselves.
    db.pragma_update(None, "wal_autocheckpoint", 0)?;
    // After one enormous transaction the WAL's file shrinks again.
    db.pragma_update(None, "journal_size_limit", i64::try_from(options.wal_limit_bytes).unwrap_or(i64::MAX))?;
    db.pragma_update(None, "cache_size", -i64::from(options.writer_cache_kib))?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    // A replaced value is overwritten in its page, which is written anyway: a secret that is encrypted leaves no copy behind.
    db.execute_batch("PRAGMA secure_delete = FAST")?;
    Ok(db)
}

/// Keeps SQLite from looking at bound values when it plans. Otherwise every new value of some parameters has the statement
/// prepared anew: a point read took 24 us so, and takes 8 us like this.
fn plan_once(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

impl Replicas for SqliteStore {}

impl Upkeep for SqliteStore {
    fn purge(&self, before: Time, keys_before: Time, limit: usize) -> Future<'_, Result<u64, StoreError>> {
        self.ask(move |answer| WriterJob::Purge { before, keys_before, limit, answer })
    }

    fn remove(&self, task: TaskId) -> Future<'_, Result<bool, StoreError>> {
        self.ask(move |answer| WriterJob::Remove { task, answer })
    }

    fn backup(&self, to: PathBuf) -> Future<'_, Result<(), StoreError>> {
        let database = folder::database(&self.shared.folder);
        aside(move || backup::copy(&database, &to))
    }

    fn health(&self) -> Future<'_, Result<Health, StoreError>> {
        let Shared { tail, folder, epoch, loss, .. } = &*self.shared;
        let trouble = self.shared.trouble.lock().clone();
        self.read(move |db| Ok(Health { loss: *loss, ..read::health(db, tail, folder, *epoch, trouble)? }))
    }

    fn close(&self) -> Future<'_, ()> {
        Box::pin(async move {
            // Closing waits for threads; it happens once, at the very end.
            self.shut();
        })
    }
}

/// A log has an end, far away.
fn too_long(commit: &Commit) -> Option<StoreError> {
    let over = commit.appends.iter().any(|append| append.last().0 > columns::MAX_SEQ);
    over.then(|| StoreError::Broken(format!("a task's log holds at most {} events", columns::MAX_SEQ)))
}
