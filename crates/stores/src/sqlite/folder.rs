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

/// The only one in a data folder. The lock is the operating system's: it goes with the process, however that ends, so a
/// crash never leaves one behind.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the file would not do: a process that is just being started from this one has it open until it is
        // another program, and the lock would stay for as long.
        let _ = self.0.unlock();
    }
}

/// Makes the folder if need be and locks it.
pub(super) fn lock(folder: &Path) -> Result<Lock, OpenError> {
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
    let mut lock = Lock(file);
    lock.0.set_len(0).map_err(io)?;
    lock.0.seek(SeekFrom::Start(0)).map_err(io)?;
    writeln!(lock.0, "process {}", std::process::id()).map_err(io)?;
    Ok(lock)
}

/// Makes the names of new files in the folder durable. SQLite syncs what is in its files, not that they exist.
pub(super) fn sync(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_gone_though_a_process_that_is_being_started_has_its_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let first = lock(folder.path()).unwrap();
        // As a fork has it before it becomes another program.
        let _inherited = first.0.try_clone().unwrap();
        assert!(matches!(lock(folder.path()), Err(OpenError::InUse { .. })));
        drop(first);
        lock(folder.path()).unwrap();
    }
}
