//! A consistent copy while the store serves.

use std::fs::File;
use std::path::{Path, PathBuf};

use model::ports::store::StoreError;
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use crate::folder::private;

/// Copies the database to `to`, which must not exist. The copy is written beside it under another name and moved there
/// when it is complete and on the disk, so that a file of that name is always a whole backup.
pub(super) fn copy(database: &Path, to: &Path) -> Result<(), StoreError> {
    // A copy holds what the data folder holds, and is as closed as that.
    let reserved = private().write(true).create_new(true).open(to);
    reserved.map_err(|error| {
        let advice = if error.kind() == std::io::ErrorKind::AlreadyExists { "; choose another name" } else { "" };
        StoreError::Broken(format!("cannot write the backup {}: {error}{advice}", to.display()))
    })?;
    let partial = partial(to);
    let copied = pages(database, &partial).and_then(|()| {
        settle(&partial, to).map_err(|error| StoreError::Broken(format!("cannot finish {}: {error}", to.display())))
    });
    if copied.is_err() {
        // The error is reported; the partial copy is of no use.
        let _ = std::fs::remove_file(&partial);
        let _ = std::fs::remove_file(to);
    }
    copied
}

fn partial(to: &Path) -> PathBuf {
    let mut name = to.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

/// All pages in one step, which is one snapshot. The WAL cannot start over meanwhile; it just grows a little longer.
fn pages(database: &Path, partial: &Path) -> Result<(), StoreError> {
    let broken = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => StoreError::Full,
        _ => StoreError::Broken(format!("the backup failed: {error}")),
    };
    let _ = std::fs::remove_file(partial);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let from = Connection::open_with_flags(database, flags).map_err(broken)?;
    let made = private().write(true).create_new(true).open(partial);
    made.map_err(|error| StoreError::Broken(format!("cannot write {}: {error}", partial.display())))?;
    let mut into = Connection::open(partial).map_err(broken)?;
    let backup = Backup::new(&from, &mut into).map_err(broken)?;
    match backup.step(-1).map_err(broken)? {
        StepResult::Done => Ok(()),
        other => Err(StoreError::Broken(format!("the backup stopped early ({other:?}); try again"))),
    }
}

fn settle(partial: &Path, to: &Path) -> std::io::Result<()> {
    File::open(partial)?.sync_all()?;
    std::fs::rename(partial, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    super::folder::sync(folder)
}
