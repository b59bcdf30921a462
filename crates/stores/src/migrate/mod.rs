//! Migration of a data folder to a database: everything is copied and then compared.
//!
//! ```text
//!  data folder (locked, read only) ──► rows ──► batches, each one transaction with its place ──► database
//!                └────────────────── compared, row by row ──────────────────────────────────────────┘
//! ```
//!
//! * The folder is read by `crate::sqlite::export`, and the database is written by `crate::postgres::import`. This module
//!   has the order of the rows (`kinds`), their form (`rows`) and the comparison (`verify`).
//! * An interrupted migration continues at the same position: the database stores its source and its position. Replicas
//!   cannot open the database before the end, so that none ever serves half a store.
//! * Numbers of tasks and of entries do not change, so that a reader can continue a list, a statement or the journal
//!   afterwards. Holds do not: a turn's hold is the number of its start in the log (`rows::TaskRow::starts`), and has no
//!   holder at first.

mod kinds;
pub(crate) mod rows;
mod verify;

use std::path::PathBuf;

use futures_util::future::LocalBoxFuture;

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
    /// Values that replicas must agree on from the beginning: see [`model::ports::store::Replicas::remember`].
    pub notes: Vec<(String, String)>,
}

impl Options {
    pub fn new(from: impl Into<PathBuf>, to: postgres::Options) -> Options {
        Options { from: from.into(), to, batch: BatchLimits::default(), notes: Vec::new() }
    }
}

/// Progress of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationStep {
    /// An interrupted migration of the same data continues.
    Resumed,
    /// Number of rows of a kind that this process has copied.
    Copied { what: &'static str, rows: u64 },
    /// Number of rows of a kind that were compared.
    Compared { what: &'static str, rows: u64 },
}

/// The reason a migration failed.
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

/// Copies everything, or the rest after an interruption, and compares. Replicas can open the database only if the summary
/// has no differences.
pub fn run<'a>(
    options: &'a Options,
    tell: &'a mut dyn FnMut(MigrationStep),
) -> LocalBoxFuture<'a, Result<Summary, Error>> {
    Box::pin(async move {
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
        copy_all(&source, &target, from, options.batch, tell).await?;
        let summary = verify::compare(&source, &target, options.batch, tell).await?;
        if summary.is_same() {
            let highest = source.highest().map_err(read)?;
            target.finish(highest, &options.notes).await.map_err(write)?;
        }
        Ok(summary)
    })
}

/// Compares source and target without changes. They differ as soon as a replica has served.
pub fn verify<'a>(
    options: &'a Options,
    tell: &'a mut dyn FnMut(MigrationStep),
) -> LocalBoxFuture<'a, Result<Summary, Error>> {
    Box::pin(async move {
        let source = Export::open(&options.from)?;
        let target = PostgresImport::connect(&options.to).await?;
        match target.found().await.map_err(write)? {
            None => Err(Error::Nothing),
            Some(found) if found.source != source.fingerprint().map_err(read)? => Err(Error::NotThis),
            Some(_) => verify::compare(&source, &target, options.batch, tell).await,
        }
    })
}

/// Copies every kind, from the position where the last process stopped.
async fn copy_all(
    source: &Export,
    target: &PostgresImport,
    (phase, place): (i16, Option<RowPosition>),
    batch: BatchLimits,
    tell: &mut dyn FnMut(MigrationStep),
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
    tell: &mut dyn FnMut(MigrationStep),
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
