//! SQLite's error codes as troubles of the engine.

use std::io::{ErrorKind, Write};
use std::path::Path;

use model::ports::store::StoreError;
use rusqlite::{Error, ErrorCode};

use crate::folder::private;

/// Names an error for the engine. I/O errors say little, so the folder itself is asked what is the matter.
pub(super) fn name(error: &Error, folder: &Path) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly,
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
            ask(folder).unwrap_or_else(|| StoreError::Broken(error.to_string()))
        }
        _ => StoreError::Broken(error.to_string()),
    }
}

/// Whether the world around us failed (and every other commit of the group would fail too), not this commit.
pub(super) fn is_environmental(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::PermissionDenied
                | ErrorCode::SystemIoFailure
                | ErrorCode::CannotOpen
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory
                | ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
        )
    )
}

/// Tries to write a small file and reads the reason off the failure.
fn ask(folder: &Path) -> Option<StoreError> {
    let probe = folder.join("probe");
    let opened = private().write(true).create(true).truncate(true).open(&probe);
    let wrote = opened.and_then(|mut file| file.write_all(&[0; 8192]));
    // It is a few bytes in our own folder; a probe left behind is written over by the next one.
    let _ = std::fs::remove_file(&probe);
    match wrote.err()?.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some(StoreError::Full),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => Some(StoreError::ReadOnly),
        _ => None,
    }
}
