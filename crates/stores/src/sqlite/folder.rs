//! The files of the database in a data folder, and the lock that keeps a second process out.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::SqliteOpenError;
use crate::folder::{self, LockError};

pub(super) use crate::folder::Lock;

pub(super) fn database(folder: &Path) -> PathBuf {
    folder.join("rialto.db")
}

pub(super) fn wal(folder: &Path) -> PathBuf {
    folder.join("rialto.db-wal")
}

/// Makes the folder if need be, closes it to other users, and locks it.
pub(super) fn lock(folder: &Path) -> Result<Lock, SqliteOpenError> {
    folder::lock(folder).map_err(|error| match error {
        LockError::InUse(holder) => SqliteOpenError::InUse { folder: folder.to_owned(), holder },
        LockError::Io(source) => SqliteOpenError::Folder { folder: folder.to_owned(), source },
    })
}

/// Makes the database's file for its owner alone, before SQLite does: the files beside it get its mode.
pub(super) fn reserve(folder: &Path) -> Result<(), SqliteOpenError> {
    let made = folder::reserve(&database(folder));
    made.map_err(|source| SqliteOpenError::Folder { folder: folder.to_owned(), source })
}

/// Makes the names of new files in the folder durable. SQLite syncs what is in its files, not that they exist.
pub(super) fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}
