//! How a store is opened, and why it may not be.

use std::path::PathBuf;
use std::time::Duration;

use super::schema;
pub use crate::sqlite::SqliteDurability;

/// A short lease does not make a busy database quick: every call has at least so long.
const LEAST_BOUND: Duration = Duration::from_secs(4);
const LEAST_SHORT_BOUND: Duration = Duration::from_secs(1);

/// How a store is opened.
#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    /// `postgres://user:password@host:port/database?sslmode=…`. Several hosts are parted by commas; of them the one that
    /// takes writes is used with `target_session_attrs=read-write`.
    ///
    /// `sslmode`: `disable`, `prefer` (the default), `require` (encrypts, and believes any certificate), `verify-ca` and
    /// `verify-full` (against `sslrootcert=<file>`, or the machine's own roots).
    pub url: String,
    /// Past a pooler, straight to the server: for leases, notifications and migrations, which need a session. With it
    /// `url` may be a transaction pooler: nothing that outlives a transaction is then used on it, prepared statements
    /// least of all. Without it `url` must keep sessions.
    pub direct_url: Option<String>,
    /// How long a replica counts as alive after its last sign of life.
    pub lease: Duration,
    /// Connections for reading.
    pub readers: usize,
    /// Commits that may wait for the writer; more are refused as busy.
    pub queue_commits: usize,
    /// Bytes that may wait for the writer.
    pub queue_bytes: usize,
    /// Relaxed answers before PostgreSQL has flushed (`synchronous_commit = off`).
    pub durability: SqliteDurability,
}

impl Options {
    /// The product's defaults, for this database.
    pub fn new(url: impl Into<String>) -> Options {
        Options {
            url: url.into(),
            direct_url: None,
            lease: Duration::from_secs(5),
            readers: 4,
            queue_commits: 16_384,
            queue_bytes: 64 << 20,
            durability: SqliteDurability::Full,
        }
    }

    /// Within this time reads and commits are answered, if only with trouble: less than a lease, so that the answer itself
    /// comes within it.
    pub(super) fn bound(&self) -> Duration {
        (self.lease * 9 / 10).max(LEAST_BOUND)
    }

    /// The same while the database is known to be out of reach: nothing is gained by waiting longer.
    pub(super) fn short_bound(&self) -> Duration {
        (self.lease / 5).max(LEAST_SHORT_BOUND)
    }
}

/// A url holds a password, so it is not shown.
impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("has_direct_url", &self.direct_url.is_some())
            .field("lease", &self.lease)
            .field("readers", &self.readers)
            .field("queue_commits", &self.queue_commits)
            .field("queue_bytes", &self.queue_bytes)
            .field("durability", &self.durability)
            .finish_non_exhaustive()
    }
}

/// Why a store could not be opened. No message holds a password.
#[derive(Debug, thiserror::Error)]
pub enum PostgresOpenError {
    #[error("the database url is not usable: {0}; it looks like postgres://user:password@host:5432/database")]
    Url(String),
    #[error("cannot read {} (sslrootcert): {reason}; give a file of certificates in PEM", file.display())]
    Roots { file: PathBuf, reason: String },
    #[error("cannot connect to PostgreSQL at {at}: {reason}; check that it runs there and can be reached from here")]
    Connect { at: String, reason: String },
    #[error("no TLS with PostgreSQL at {at}: {reason}; check sslmode and sslrootcert in the url")]
    Tls { at: String, reason: String },
    #[error(
        "PostgreSQL at {at} refuses user \"{user}\": {reason}; check user and password in the url, and pg_hba.conf"
    )]
    Login { at: String, user: String, reason: String },
    #[error("there is no database \"{database}\" at {at}; make it (createdb {database}), or name another in the url")]
    NoDatabase { at: String, database: String },
    #[error(
        "user \"{user}\" may not set up the schema {}: {reason}; \
         grant it CREATE on the database, or let an owner run rialto once",
        schema::NAME
    )]
    Rights { user: String, reason: String },
    #[error(
        "the data was written by a newer rialto (schema {found}, this one knows up to {known}); \
         use that release again, or restore an older backup"
    )]
    Newer { found: u32, known: u32 },
    #[error("the schema {} in this database is some other program's; use another database", schema::NAME)]
    Foreign,
    #[error(
        "a migration into this database is not finished; run the same rialto migrate again, which goes on where it was, \
         or empty the database: drop schema rialto cascade"
    )]
    Migrating,
    #[error("PostgreSQL {found} is too old; use 13 or newer")]
    Old { found: String },
    #[error("PostgreSQL at {at} takes no writes: it is a standby, or set to read-only; name the primary in the url")]
    Standby { at: String },
    #[error("PostgreSQL failed while the store was opened: {0}")]
    Sql(String),
}
