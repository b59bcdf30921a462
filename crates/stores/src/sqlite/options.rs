//! How a store is opened, and why it may not be.

use std::path::PathBuf;

/// How a store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The data folder; made if it is not there.
    pub folder: PathBuf,
    pub durability: SqliteDurability,
    /// The write-ahead log starts over above this.
    pub wal_limit_bytes: u64,
    /// Commits that may wait for the writer; more are refused as busy.
    pub queue_commits: usize,
    /// Bytes that may wait for the writer.
    pub queue_bytes: usize,
    /// Connections for reading.
    pub readers: usize,
    /// Page cache of each connection for reading.
    pub reader_cache_kib: u32,
    /// Page cache of the writer.
    pub writer_cache_kib: u32,
}

impl Options {
    /// The product's defaults, in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Options {
        Options {
            folder: folder.into(),
            durability: SqliteDurability::Full,
            wal_limit_bytes: 64 << 20,
            queue_commits: 16_384,
            queue_bytes: 64 << 20,
            readers: 8,
            reader_cache_kib: 4 << 10,
            writer_cache_kib: 32 << 10,
        }
    }
}

/// The faults that an answered commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SqliteDurability {
    /// A power cut.
    #[default]
    Full,
    /// A crash of the process. A power cut may take the last moments; what is left is still consistent.
    Relaxed,
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SqliteOpenError {
    #[error(
        "the data folder {} is in use by another rialto ({holder}); stop that one first, or use another folder (--data)",
        folder.display()
    )]
    InUse { folder: PathBuf, holder: String },
    #[error("cannot use the data folder {}: {source}; check its owner and permissions", folder.display())]
    Folder { folder: PathBuf, source: std::io::Error },
    #[error(
        "the data was written by a newer rialto (schema {found}, this one knows up to {known}); \
         use that release again, or restore an older backup"
    )]
    Newer { found: u32, known: u32 },
    #[error(
        "the data in {} was last used by an older rialto (schema {found}, this one uses {known}); \
         have this release bring it up to date first: rialto doctor --data {}",
        folder.display(), folder.display()
    )]
    Older { found: u32, known: u32, folder: PathBuf },
    #[error("there is no data in {} (no rialto.db); name the data folder", folder.display())]
    Missing { folder: PathBuf },
    #[error("rialto.db in the data folder is some other program's file; use another folder (--data)")]
    Foreign,
    #[error("the file system of the data folder cannot keep a write-ahead log (journal mode {0}); use a local disk")]
    NoWal(String),
    #[error("cannot open rialto.db: {0}")]
    Sql(#[from] rusqlite::Error),
}
