//! From a data folder to a database: everything that the one has, copied and compared.
//!
//! ```text
//!  data folder (locked, read only) ──► rows ──► batches, each one transaction with its place ──► database
//!                └────────────────── compared, row by row ──────────────────────────────────────────┘
//! ```
//!
//! * What is read is in `sqlite::export`, what is written in `postgres::import`; here is only the order of it (`kinds`), and
//!   what it means that both are the same (`verify`).
//! * A migration that was cut off goes on where it was: the database remembers its source and its place. Until the end it is
//!   closed, so that no replica ever serves half a store.
//! * Numbers of tasks and of entries stay as they are, so that a reader that has begun a list, a statement or the journal
//!   goes on with it. Holds do not: a turn's hold is the number of its start in the log (`rows::Task::starts`), and has no
//!   holder at first.

mod kinds;
pub(crate) mod rows;
mod verify;

use std::path::PathBuf;

pub(crate) use self::kinds::COUNT;
use self::kinds::{RowKind, each_kind};
pub use self::rows::BatchLimits;
use self::rows::RowPosition;
pub use self::verify::{Summary, SummaryLine};
use crate::postgres::import::{ImportError, PostgresImport, Sums, TargetState};
use crate::sqlite::export::Export;
use crate::{postgres, sqlite};

/// The source, the target and the pace of a migration.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data folder.
    pub from: PathBuf,
    pub to: postgres::Options,
    pub batch: BatchLimits,
    /// Values that replicas must agree on from the beginning: see [`postgres::Store::remember`].
    pub notes: Vec<(String, String)>,
}

impl Options {
    pub fn new(from: impl Into<PathBuf>, to: postgres::Options) -> Options {
        Options { from: from.into(), to, batch: BatchLimits::default(), notes: Vec::new() }
    }
}

/// How it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationStep {
    /// An earlier migration of the same data was cut off, and goes on.
    Resumed,
    /// So many rows of a kind are copied, by this process.
    Copied { what: &'static str, rows: u64 },
    /// So many are compared.
    Compared { what: &'static str, rows: u64 },
}

/// Why nothing came of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Source(#[from] sqlite::SqliteOpenError),
    #[error(transparent)]
    Target(#[from] postgres::PostgresOpenError),
    #[error("cannot read the data folder: {0}")]
    Read(String),
    #[error("the database failed: {0}; once it is well, run the same command again: it goes on where it was")]
    Write(String),
    #[error("the database holds what rialto did not write: {0}; migrate into an empty one (createdb NAME)")]
    Unreadable(String),
    #[error("the database is not empty; migrate into an empty one (createdb NAME)")]
    Taken,
    #[error("a replica has this database open; stop every replica, and run this again when its lease is over")]
    Open,
    #[error("another migration into this database is at work; let it finish, or stop it first")]
    AtWork,
    #[error(
        "this database holds the beginning of a migration of other data, or of this data before a server used it again; \
         migrate into an empty database, or empty this one: drop schema rialto cascade"
    )]
    Other,
    #[error("this data is in that database already; compare them with --verify-only")]
    Finished,
    #[error("nothing was migrated into this database; run this without --verify-only first")]
    Nothing,
    #[error("what is in this database was brought from other data, or from this data before a server used it again")]
    NotThis,
}

/// Copies everything, or the rest of it, and compares. Replicas may open the database when the summary says that both are the
/// same; when it does not, they may not.
pub async fn run(options: &Options, mut tell: impl FnMut(MigrationStep)) -> Result<Summary, Error> {
    let source = Export::open(&options.from)?;
    let print = source.fingerprint().map_err(read)?;
    let target = PostgresImport::connect(&options.to).await?;
    target.prepare().await?;
    if !target.take().await.map_err(write)? {
        return Err(Error::AtWork);
    }
    let from = match target.found().await.map_err(write)? {
        None => match target.begin(&print).await.map_err(write)? {
            TargetState::Empty => (0, None),
            TargetState::Taken => return Err(Error::Taken),
            TargetState::Open => return Err(Error::Open),
        },
        Some(found) if found.source != print => {
            return Err(if found.is_finished { Error::Taken } else { Error::Other });
        }
        Some(found) if found.is_finished => return Err(Error::Finished),
        Some(found) => {
            tell(MigrationStep::Resumed);
            (found.phase, found.place)
        }
    };
    copy_all(&source, &target, from, options.batch, &mut tell).await?;
    let summary = verify::compare(&source, &target, options.batch, &mut tell).await?;
    if summary.is_same() {
        let highest = source.highest().map_err(read)?;
        target.finish(highest, &options.notes).await.map_err(write)?;
    }
    Ok(summary)
}

/// Compares what is there with what is here, and changes nothing. After replicas have served, it is no longer the same.
pub async fn verify(options: &Options, mut tell: impl FnMut(MigrationStep)) -> Result<Summary, Error> {
    let source = Export::open(&options.from)?;
    let target = PostgresImport::connect(&options.to).await?;
    match target.found().await.map_err(write)? {
        None => Err(Error::Nothing),
        Some(found) if found.source != source.fingerprint().map_err(read)? => Err(Error::NotThis),
        Some(_) => verify::compare(&source, &target, options.batch, &mut tell).await,
    }
}

/// Every kind from where the last process stopped.
async fn copy_all(
    source: &Export,
    target: &PostgresImport,
    (phase, place): (i16, Option<RowPosition>),
    batch: BatchLimits,
    tell: &mut impl FnMut(MigrationStep),
) -> Result<(), Error> {
    let mut at = 0;
    let mut place = place;
    macro_rules! copy {
        ($kind:ty) => {
            if at >= phase {
                copy::<$kind>(source, target, at, if at == phase { place.take() } else { None }, batch, tell).await?;
            }
            at += 1;
        };
    }
    each_kind!(copy);
    debug_assert_eq!(at as usize, COUNT);
    Ok(())
}

async fn copy<K: RowKind>(
    source: &Export,
    target: &PostgresImport,
    phase: i16,
    mut place: Option<RowPosition>,
    batch: BatchLimits,
    tell: &mut impl FnMut(MigrationStep),
) -> Result<(), Error> {
    let mut copied = 0;
    loop {
        let (places, rows): (Vec<RowPosition>, Vec<K::Row>) =
            K::read(source, place.as_ref(), batch).map_err(read)?.into_iter().unzip();
        let mut sums = Sums::default();
        target.open_batch().await.map_err(write)?;
        let Some(last) = places.into_iter().next_back() else {
            return target.close_batch(&sums, phase + 1, None).await.map_err(write);
        };
        K::add(target, &rows, &mut sums).await.map_err(write)?;
        target.close_batch(&sums, phase, Some(&last)).await.map_err(write)?;
        place = Some(last);
        copied += rows.len() as u64;
        tell(MigrationStep::Copied { what: K::NAME, rows: copied });
    }
}

fn read(error: sqlite::export::Error) -> Error {
    Error::Read(error.to_string())
}

fn write(failed: ImportError) -> Error {
    if failed.is_damage() { Error::Unreadable(failed.to_string()) } else { Error::Write(failed.to_string()) }
}
