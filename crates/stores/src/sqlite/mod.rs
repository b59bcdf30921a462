//! The store in one SQLite file: `rialto.db` in the data folder.
//!
//! ```text
//!  commit ──► queue ──► writer thread ──► pen ──► file (WAL, one fsync per group)
//!                            │ wakes                 ▲
//!                       checkpoint thread            │ snapshots
//!  reads ────────────────────────────────► pool ─────┘
//! ```
//!
//! * One writer thread (`writer`), many commits per transaction; `pen` checks and writes one commit, `counters` sums
//!   up what a group changed, `purge` takes tasks out again, `push` keeps the webhooks' rows, `products` records and the journal. All SQL of the
//!   writer is in `statements`.
//! * Reads (`read`, `list`) run on a few connections (`pool`) wherever they were asked for.
//! * The log has one row per commit and task, the chunks of a turn being one row once it is over; until then they are in
//!   the `tail`. Lists have a row per view; see `migrations/0001.sql`.
//!
//! Nothing here decodes an event on its way in: a payload is bytes until somebody reads it.
//!
//! `export` reads all of it, for whoever moves to another store.

mod backup;
mod checkpoint;
mod columns;
mod counters;
pub(crate) mod export;
mod folder;
mod list;
mod options;
mod pen;
mod pool;
mod position;
mod products;
mod purge;
mod push;
mod queue;
mod read;
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

use bytes::Bytes;
use futures_util::future::ready;
use model::ports::Future;
use model::ports::store::{
    Commit, Head, Health, KeyUse, ListPage, ListQuery, Loss, Outcome, Seen, Store as Port, TaskPage, TaskQuery, Timer,
    Trouble,
};
use model::{
    AccessKey, Balance, Entry, Epoch, Event, Line, PushRow, PushState, Record, RecordPage, RecordQuery, Seq, TaskId,
    TextPage, TextQuery, Time,
};
use parking_lot::{Mutex, RwLock};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use tokio::sync::oneshot;

pub use self::options::{Durability, OpenError, Options};
use self::pool::Pool;
pub use self::position::COMMITS;
use self::queue::{Job, Queue};
use crate::shape;

/// Above this many bytes asked for, a read of events is handed to another thread.
const SHORT_READ_BYTES: usize = 1 << 20;
/// Above this many logs too.
const SHORT_READ_LOGS: usize = 100;

/// The open store. Dropping it closes it.
pub struct Store {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    lock: Mutex<Option<folder::Lock>>,
}

/// What the writer, the checkpoint thread and the readers share.
struct Shared {
    options: Options,
    folder: PathBuf,
    page_bytes: u64,
    epoch: Epoch,
    queue: Queue,
    pool: Pool,
    checkpoints: checkpoint::Bell,
    /// Where the chunks of live turns are.
    tail: RwLock<tail::Pieces>,
    views: views::ViewNumbers,
    /// What keeps the writer from writing, if anything does.
    trouble: Mutex<Option<Trouble>>,
    /// What was found missing at this start or an earlier one.
    loss: Option<Loss>,
}

impl Store {
    /// Opens the store in `options.folder`, bringing its file to this release's schema, as the only process to do so.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// use stores::sqlite::{Options, Store};
    ///
    /// let store = Store::open(Options::new(folder.path())).unwrap();
    /// assert!(Store::open(Options::new(folder.path())).is_err(), "one process, one store, one folder");
    /// # drop(store);
    /// ```
    pub fn open(options: Options) -> Result<Store, OpenError> {
        let folder = options.folder.clone();
        let lock = folder::lock(&folder)?;
        folder::reserve(&folder)?;
        let mut ledger = position::Ledger::open(&folder);
        let mut db = connect(&folder, &options)?;
        // The first read takes up what the write-ahead log has; nothing is written before that is compared.
        let read = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
        if let (Ok(_), Some((_, pages, _))) = (read, checkpoint::figures(&db)) {
            ledger.compare(pages, now());
        }
        schema::migrate(&mut db)?;
        let (epoch, is_full) = next_epoch(&db, &mut ledger)?;
        let page_bytes: i64 = db.query_row("PRAGMA page_size", [], |row| row.get(0))?;
        folder::sync(&folder).map_err(|source| OpenError::Folder { folder: folder.clone(), source })?;
        let copier = connect(&folder, &options)?;

        let database = folder::database(&folder);
        let shared = Arc::new(Shared {
            page_bytes: page_bytes as u64,
            epoch: Epoch(epoch as u64),
            queue: Queue::new(options.queue_commits, options.queue_bytes),
            pool: Pool::new(folder.clone(), database, options.readers, options.reader_cache_kib),
            checkpoints: checkpoint::Bell::default(),
            tail: RwLock::default(),
            views: views::ViewNumbers::default(),
            trouble: Mutex::new(is_full.then_some(Trouble::Full)),
            loss: ledger.loss(),
            folder,
            options,
        });
        let (ready, prepared) = std::sync::mpsc::sync_channel(1);
        let store = Store { shared: shared.clone(), threads: Mutex::default(), lock: Mutex::new(Some(lock)) };
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

    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), OpenError> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(work);
        let thread = thread.map_err(|source| OpenError::Folder { folder: self.shared.folder.clone(), source })?;
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
    ) -> Future<'a, Result<T, Trouble>> {
        Box::pin(async move { self.shared.pool.read(look) })
    }

    /// A longer read, on a thread where it keeps nobody waiting.
    fn read_aside<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Connection) -> Result<T, pool::Error> + Send + 'static,
    ) -> Future<'_, Result<T, Trouble>> {
        let shared = self.shared.clone();
        aside(move || shared.pool.read(look))
    }

    fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(oneshot::Sender<Result<T, Trouble>>) -> Job + Send + 'static,
    ) -> Future<'_, Result<T, Trouble>> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            self.shared.queue.push(job(answer))?;
            answered.await.unwrap_or(Err(Trouble::Closed))
        })
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.shut();
    }
}

/// Runs blocking work off the runtime's workers; without a runtime, right here.
fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Trouble> + Send + 'static,
) -> Future<'static, Result<T, Trouble>> {
    Box::pin(async move {
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => match runtime.spawn_blocking(work).await {
                Ok(result) => result,
                Err(_) => Err(Trouble::Broken("a read panicked".into())),
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
fn next_epoch(db: &Connection, ledger: &mut position::Ledger) -> Result<(i64, bool), OpenError> {
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
fn connect(folder: &Path, options: &Options) -> Result<Connection, OpenError> {
    let db = Connection::open(folder::database(folder))?;
    plan_once(&db)?;
    // Only a reader can be in the way, of a checkpoint; the writer waits a little, then tries again later.
    db.busy_timeout(Duration::from_millis(20))?;
    let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(OpenError::NoWal(mode));
    }
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Relaxed => "NORMAL",
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
    // What is replaced is overwritten in its page, which is written anyway: a secret that is sealed leaves nothing behind.
    db.execute_batch("PRAGMA secure_delete = FAST")?;
    Ok(db)
}

/// Keeps SQLite from looking at bound values when it plans. Otherwise every new value of some parameters has the statement
/// prepared anew: a point read took 24 us so, and takes 8 us like this.
fn plan_once(db: &Connection) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

impl Port for Store {
    fn commit(&self, commit: Commit) -> Future<'static, Outcome> {
        let queued = match shape::malformed(&commit).or_else(|| too_long(&commit)) {
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
        self.read(move |db| read::head(db, &self.shared.tail, task))
    }

    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Future<'_, Result<Vec<Event>, Trouble>> {
        if bytes <= SHORT_READ_BYTES {
            self.read(move |db| read::log_after(db, &self.shared.tail, task, after, bytes))
        } else {
            let shared = self.shared.clone();
            self.read_aside(move |db| read::log_after(db, &shared.tail, task, after, bytes))
        }
    }

    fn beginning(&self, task: TaskId, sight: Seen, bytes: usize) -> Future<'_, Result<Vec<Event>, Trouble>> {
        if bytes <= SHORT_READ_BYTES {
            self.read(move |db| read::beginning(db, &self.shared.tail, &self.shared.views, task, &sight, bytes))
        } else {
            let shared = self.shared.clone();
            self.read_aside(move |db| read::beginning(db, &shared.tail, &shared.views, task, &sight, bytes))
        }
    }

    fn logs(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Vec<Event>>, Trouble>> {
        if tasks.len() <= SHORT_READ_LOGS {
            self.read(move |db| read::logs(db, &self.shared.tail, &tasks))
        } else {
            let shared = self.shared.clone();
            self.read_aside(move |db| read::logs(db, &shared.tail, &tasks))
        }
    }

    fn list(&self, query: ListQuery) -> Future<'_, Result<ListPage, Trouble>> {
        if list::is_short(&query) {
            self.read(move |db| list::page(db, &query))
        } else {
            self.read_aside(move |db| list::page(db, &query))
        }
    }

    fn tasks(&self, query: TaskQuery) -> Future<'_, Result<TaskPage, Trouble>> {
        self.read_aside(move |db| list::tasks(db, &query))
    }

    fn key(&self, key: [u8; 32], not_before: Time) -> Future<'_, Result<Option<KeyUse>, Trouble>> {
        self.read(move |db| read::key(db, key, not_before))
    }

    fn alias(&self, key: [u8; 32]) -> Future<'_, Result<Option<TaskId>, Trouble>> {
        self.read(move |db| read::alias(db, key))
    }

    fn access_keys(&self) -> Future<'_, Result<Vec<AccessKey>, Trouble>> {
        self.read(read::access_keys)
    }

    fn push(&self, task: TaskId) -> Future<'_, Result<Vec<PushRow>, Trouble>> {
        self.read(move |db| push::of_task(db, task))
    }

    fn pushes(
        &self,
        state: PushState,
        after: Option<(TaskId, Arc<str>)>,
        limit: usize,
    ) -> Future<'_, Result<Vec<PushRow>, Trouble>> {
        if push::is_short(state, limit) {
            self.read(move |db| push::page(db, state, after.as_ref(), limit))
        } else {
            self.read_aside(move |db| push::page(db, state, after.as_ref(), limit))
        }
    }

    fn blob(&self, tenant: Arc<str>, hash: [u8; 32]) -> Future<'_, Result<Option<Bytes>, Trouble>> {
        self.read_aside(move |db| read::blob(db, &tenant, hash))
    }

    fn record(&self, kind: Arc<str>, key: Arc<str>) -> Future<'_, Result<Option<Record>, Trouble>> {
        self.read(move |db| products::record(db, kind, key))
    }

    fn records(&self, query: RecordQuery) -> Future<'_, Result<RecordPage, Trouble>> {
        if products::is_short(&query) {
            self.read(move |db| products::records(db, &query))
        } else {
            self.read_aside(move |db| products::records(db, &query))
        }
    }

    fn search(&self, query: TextQuery) -> Future<'_, Result<TextPage, Trouble>> {
        self.read_aside(move |db| texts::search(db, &query))
    }

    fn balances(&self, accounts: Vec<Arc<str>>) -> Future<'_, Result<Vec<i64>, Trouble>> {
        self.read(move |db| products::balances(db, &accounts))
    }

    fn statement(
        &self,
        account: Arc<str>,
        before: Option<u64>,
        limit: usize,
    ) -> Future<'_, Result<Vec<Line>, Trouble>> {
        self.read_aside(move |db| products::statement(db, &account, before, limit))
    }

    fn accounts(&self, after: Option<Arc<str>>, limit: usize) -> Future<'_, Result<Vec<Balance>, Trouble>> {
        self.read_aside(move |db| products::accounts(db, after.as_ref(), limit))
    }

    fn journal(&self, after: u64, limit: usize) -> Future<'_, Result<Vec<(u64, Entry)>, Trouble>> {
        self.read_aside(move |db| products::journal(db, after, limit))
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, Trouble>> {
        self.read(move |db| read::unfinished(db, after, limit))
    }

    fn due(&self, now: Time, limit: usize) -> Future<'_, Result<Vec<Timer>, Trouble>> {
        self.read(move |db| read::due(db, now, limit))
    }

    fn timers(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Timer>, Trouble>> {
        self.read(move |db| read::timers(db, &tasks))
    }

    fn next_due(&self) -> Future<'_, Result<Option<Time>, Trouble>> {
        self.read(read::next_due)
    }

    fn purge(&self, before: Time, keys_before: Time, limit: usize) -> Future<'_, Result<u64, Trouble>> {
        self.ask(move |answer| Job::Purge { before, keys_before, limit, answer })
    }

    fn remove(&self, task: TaskId) -> Future<'_, Result<bool, Trouble>> {
        self.ask(move |answer| Job::Remove { task, answer })
    }

    fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    fn backup(&self, to: PathBuf) -> Future<'_, Result<(), Trouble>> {
        let database = folder::database(&self.shared.folder);
        aside(move || backup::copy(&database, &to))
    }

    fn health(&self) -> Future<'_, Result<Health, Trouble>> {
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
fn too_long(commit: &Commit) -> Option<Trouble> {
    let over = commit.appends.iter().any(|append| append.last().0 > columns::MAX_SEQ);
    over.then(|| Trouble::Broken(format!("a task's log holds at most {} events", columns::MAX_SEQ)))
}
