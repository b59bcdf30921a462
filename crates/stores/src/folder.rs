//! A data folder: readable by its owner alone, and used by one process at a time.
//!
//! Files are made with their modes (0700, 0600) whatever the umask is. Folders of older releases are open to every user
//! of the machine; they are put right at the next start, with a warning.
//!
//! Two locks keep a second process out. The one on the folder itself cannot be removed without removing the data, and the
//! one on the file `lock` names its holder and is known to older releases. Neither touches the database's own file:
//! SQLite's locks on it are this process's, and would be dropped by closing any other descriptor of it.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Rights of users other than the owner.
const OTHERS: u32 = 0o077;
const STICKY: u32 = 0o1000;

const LOCK: &str = "lock";
/// The files of a data folder begin with one of these names.
const OWN_FILES: &[&str] =
    &["rialto.db", LOCK, "audit.log", "seal.key", "push-jwt.pem", "demo.json", "quota.json", "admin.sock", "probe"];
/// So many names are shown in a warning.
const SHOWN: usize = 8;

/// Why a data folder could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another process uses it ({0})")]
    InUse(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The right to a data folder. The locks are the operating system's: they go with the process, however that ends, so a
/// crash never leaves one behind.
#[derive(Debug)]
pub struct Lock {
    /// None where the file system has no locks on folders.
    folder: Option<File>,
    /// None where there was no room for the file.
    file: Option<File>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing the files would not do: a process that is just being started from this one has them open until it is
        // another program, and the locks would stay for as long.
        for file in [&self.file, &self.folder].into_iter().flatten() {
            let _ = file.unlock();
        }
    }
}

/// Makes the folder if need be, closes it to other users, and locks it.
pub fn lock(folder: &Path) -> Result<Lock, LockError> {
    make(folder)?;
    let held = File::open(folder)?;
    let in_folder = match held.try_lock() {
        Ok(()) => Some(held),
        Err(TryLockError::WouldBlock) => return Err(LockError::InUse(holder(folder))),
        // Some network file systems lock no folders; there the file has to do.
        Err(TryLockError::Error(_)) => None,
    };
    let path = folder.join(LOCK);
    let opened = private().read(true).write(true).create(true).truncate(false).open(path);
    let mut lock = Lock { folder: in_folder, file: None };
    let mut file = match opened {
        Ok(file) => file,
        // A full disk is no reason not to serve what is there.
        Err(error) if is_full(&error) && lock.folder.is_some() => return Ok(lock),
        Err(error) => return Err(error.into()),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LockError::InUse(holder(folder))),
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    // Only for the message that another process shows.
    let _ = file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0)));
    let _ = writeln!(file, "process {}", std::process::id());
    lock.file = Some(file);
    tighten(folder);
    Ok(lock)
}

fn holder(folder: &Path) -> String {
    let mut text = String::new();
    // Without it the message is merely shorter.
    let _ = File::open(folder.join(LOCK)).and_then(|file| file.take(100).read_to_string(&mut text));
    match text.trim() {
        "" => "its lock file is gone".to_owned(),
        holder => holder.to_owned(),
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Options for a new file that only its owner may read.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Makes the folder, closed to other users, where it is not there yet. Folders above it are made as usual.
pub fn make(folder: &Path) -> io::Result<()> {
    if let Some(above) = folder.parent() {
        std::fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(FOLDER_MODE).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        done => done,
    }
}

/// Makes an empty file for the owner alone where there is none. A file that exists is not opened: closing it again would
/// drop the locks that SQLite has on it.
pub(crate) fn reserve(path: &Path) -> io::Result<()> {
    match private().write(true).create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        done => done.map(drop),
    }
}

/// Takes the rights of other users away from a data folder and the files in it, and warns of what they could read.
fn tighten(folder: &Path) {
    let mut open = Vec::new();
    let mut failed = Vec::new();
    let mut note = |path: &Path, mode: u32| {
        let name = if path == folder { "the folder itself".to_owned() } else { shown(path) };
        match std::fs::set_permissions(path, Permissions::from_mode(mode)) {
            Ok(()) => open.push(name),
            Err(error) => failed.push(format!("{name} ({error})")),
        }
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_own(&entry.file_name().to_string_lossy())) {
        // Of the entry itself: where a link leads is not for us to change.
        if let Ok(found) = entry.metadata()
            && (found.is_file() || found.file_type().is_socket())
            && found.permissions().mode() & OTHERS != 0
        {
            note(&entry.path(), found.permissions().mode() & 0o700);
        }
    }
    if let Ok(found) = std::fs::metadata(folder)
        && found.permissions().mode() & OTHERS != 0
    {
        // A folder that every user may write to, such as /tmp, is not ours, whatever is in it.
        if found.permissions().mode() & STICKY == 0 && has_only_own_files(folder) {
            note(folder, found.permissions().mode() & 0o700);
        } else {
            failed.push("the folder itself (it has files of others)".to_owned());
        }
    }
    let folder = folder.display();
    if !open.is_empty() {
        open.truncate(SHOWN);
        tracing::warn!(
            "other users of this machine could read the data folder {folder}: {}; that is put right, but what they may \
             have read is known to them: if they are not trusted, make new keys",
            open.join(", ")
        );
    }
    if !failed.is_empty() {
        failed.truncate(SHOWN);
        tracing::warn!(
            "other users of this machine can look into the data folder {folder}: {}; give Rialto a folder of its own, and \
             run: chmod 700 {folder}",
            failed.join(", ")
        );
    }
}

fn shown(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn is_own(name: &str) -> bool {
    OWN_FILES.iter().any(|own| name.starts_with(own))
}

/// Whether a folder is a data folder and nothing besides. Backups and configs beside the data are no reason to leave it
/// open; the folders of other programs are.
fn has_only_own_files(folder: &Path) -> bool {
    let Ok(mut entries) = std::fs::read_dir(folder) else { return false };
    entries.all(|entry| {
        entry.is_ok_and(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let beside = [".db", ".yaml", ".yml", ".bak", ".backup", ".partial"].iter().any(|end| name.ends_with(end));
            is_own(&name) || beside || name == "restoring"
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_locks_are_gone_though_a_process_that_is_being_started_has_their_files_open() {
        let folder = tempfile::tempdir().unwrap();
        let first = lock(folder.path()).unwrap();
        // As a fork has them before it becomes another program.
        let _inherited = first.file.as_ref().unwrap().try_clone().unwrap();
        let _folder = first.folder.as_ref().unwrap().try_clone().unwrap();
        assert!(matches!(lock(folder.path()), Err(LockError::InUse(_))));
        drop(first);
        lock(folder.path()).unwrap();
    }

    #[test]
    fn a_lock_file_that_was_removed_lets_no_second_process_in() {
        let folder = tempfile::tempdir().unwrap();
        let first = lock(folder.path()).unwrap();
        std::fs::remove_file(folder.path().join(LOCK)).unwrap();
        assert!(matches!(lock(folder.path()), Err(LockError::InUse(_))));
        std::fs::write(folder.path().join(LOCK), "process 1").unwrap();
        assert!(matches!(lock(folder.path()), Err(LockError::InUse(holder)) if holder == "process 1"));
        drop(first);
        lock(folder.path()).unwrap();
    }

    #[test]
    fn a_new_folder_is_its_owners_alone() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("a/data");
        let _lock = lock(&folder).unwrap();
        assert_eq!((mode(&folder), mode(&folder.join(LOCK))), (0o700, 0o600));
        assert_eq!(mode(&above.path().join("a")) & 0o700, 0o700);
    }

    #[test]
    fn an_older_folder_is_closed_with_all_its_files() {
        let above = tempfile::tempdir().unwrap();
        let folder = above.path().join("data");
        std::fs::create_dir(&folder).unwrap();
        set(&folder, 0o755);
        let names = ["rialto.db", "rialto.db-wal", "rialto.db-shm", "audit.log", "seal.key", "quota.json", "lock"];
        for name in names {
            std::fs::write(folder.join(name), "x").unwrap();
            set(&folder.join(name), 0o644);
        }
        std::fs::write(folder.join("mine.yaml"), "x").unwrap();
        set(&folder.join("mine.yaml"), 0o644);
        drop(lock(&folder).unwrap());
        assert_eq!(mode(&folder), 0o700);
        for name in names {
            assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
        }
        assert_eq!(mode(&folder.join("mine.yaml")), 0o644, "what is not ours stays as it is");
    }

    #[test]
    fn a_folder_of_other_programs_stays_open_and_our_files_do_not() {
        let above = tempfile::tempdir().unwrap();
        for (name, bits, other) in [("shared", 0o755, Some("theirs")), ("tmp", 0o1777, None)] {
            let folder = above.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            for file in ["rialto.db"].into_iter().chain(other) {
                std::fs::write(folder.join(file), "x").unwrap();
                set(&folder.join(file), 0o644);
            }
            set(&folder, bits);
            let _lock = lock(&folder).unwrap();
            assert_eq!(mode(&folder), bits & 0o777, "{name}");
            assert_eq!(mode(&folder.join("rialto.db")), 0o600);
            if let Some(other) = other {
                assert_eq!(mode(&folder.join(other)), 0o644);
            }
        }
    }

    #[test]
    fn a_link_is_not_followed() {
        let above = tempfile::tempdir().unwrap();
        let (folder, theirs) = (above.path().join("data"), above.path().join("theirs"));
        make(&folder).unwrap();
        std::fs::write(&theirs, "x").unwrap();
        set(&theirs, 0o644);
        std::os::unix::fs::symlink(&theirs, folder.join("rialto.db-link")).unwrap();
        drop(lock(&folder).unwrap());
        assert_eq!(mode(&theirs), 0o644);
    }
}
