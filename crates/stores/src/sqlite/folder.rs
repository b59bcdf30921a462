//! The data folder: which files are in it, and the lock that keeps a second process out.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::OpenError;

pub(super) fn database(folder: &Path) -> PathBuf {
    folder.join("rialto.db")
}

pub(super) fn wal(folder: &Path) -> PathBuf {
    folder.join("rialto.db-wal")
}

/// Makes the folder if need be and locks it. The lock is the operating system's: it goes with the process, however
/// that ends, so a crash never leaves one behind.
pub(super) fn lock(folder: &Path) -> Result<File, OpenError> {
    let io = |source| OpenError::Folder { folder: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(io)?;
    let path = folder.join("lock");
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(io)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // Only for the message; without it the message is merely shorter.
            let _ = file.read_to_string(&mut holder);
            return Err(OpenError::InUse { folder: folder.to_owned(), holder: holder.trim().to_owned() });
        }
        Err(TryLockError::Error(source)) => return Err(io(source)),
    }
    file.set_len(0).map_err(io)?;
    file.seek(SeekFrom::Start(0)).map_err(io)?;
    writeln!(file, "process {}", std::process::id()).map_err(io)?;
    Ok(file)
}

/// Makes the names of new files in the folder durable. SQLite syncs what is in its files, not that they exist.
pub(super) fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}
