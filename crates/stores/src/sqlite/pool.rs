//! A few read-only connections, lent out for the length of one short read.
//!
//! A read runs where it was asked for: with the pages in memory it takes some ten microseconds, less than handing it to
//! another thread would. No caller can keep a connection, and with it a snapshot, across an await.

use std::path::PathBuf;

use model::ports::store::StoreError;
use model::stored;
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OpenFlags};

use super::trouble;

/// Statements kept prepared per connection.
const STATEMENTS: usize = 32;

pub(super) struct ReaderPool {
    folder: PathBuf,
    database: PathBuf,
    cache_kib: u32,
    max: usize,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Connection>,
    open: usize,
    closed: bool,
}

/// Why a read failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Sql(#[from] rusqlite::Error),
    #[error(transparent)]
    Damaged(#[from] stored::Error),
}

impl ReaderPool {
    pub(super) fn new(folder: PathBuf, database: PathBuf, max: usize, cache_kib: u32) -> ReaderPool {
        ReaderPool { folder, database, cache_kib, max: max.max(1), state: Mutex::default(), returned: Condvar::new() }
    }

    /// Lends a connection to `look`, waiting for one if all are lent.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, StoreError> {
        let mut loan = Loan { pool: self, db: self.borrow()? };
        let db = match &loan.db {
            Some(db) => db,
            None => loan.db.insert(self.open().map_err(|error| self.name(&error.into()))?),
        };
        let result = look(db);
        if result.is_err() {
            // Its state is unknown: the next reader gets a fresh one.
            loan.db = None;
        }
        result.map_err(|error| self.name(&error))
    }

    /// An idle connection, or the right to open one.
    fn borrow(&self) -> Result<Option<Connection>, StoreError> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Err(StoreError::Closed);
            }
            if let Some(db) = state.idle.pop() {
                return Ok(Some(db));
            }
            if state.open < self.max {
                state.open += 1;
                return Ok(None);
            }
            self.returned.wait(&mut state);
        }
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(&self.database, flags)?;
        db.set_prepared_statement_cache_capacity(STATEMENTS);
        super::plan_once(&db)?;
        // Short: only the moment in which the WAL starts over can make a reader wait.
        db.busy_timeout(std::time::Duration::from_secs(5))?;
        db.pragma_update(None, "cache_size", -i64::from(self.cache_kib))?;
        Ok(db)
    }

    fn name(&self, error: &Error) -> StoreError {
        match error {
            Error::Sql(error) => trouble::name(error, &self.folder),
            Error::Damaged(error) => StoreError::Broken(error.to_string()),
        }
    }

    /// Closes what is idle now and the rest when it comes back.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.open -= state.idle.len();
        state.idle.clear();
        self.returned.notify_all();
        while state.open > 0 {
            self.returned.wait(&mut state);
        }
    }
}

/// Gives the connection back however the read ends.
struct Loan<'a> {
    pool: &'a ReaderPool,
    db: Option<Connection>,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        match self.db.take() {
            // One that a panic left within a snapshot would show the next reader the past.
            Some(db) if !state.closed && db.is_autocommit() => state.idle.push(db),
            Some(_) | None => state.open -= 1,
        }
        if state.closed {
            self.pool.returned.notify_all();
        } else {
            self.pool.returned.notify_one();
        }
    }
}
