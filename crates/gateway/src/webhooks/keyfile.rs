//! Files with the server's own keys, readable by their owner only. A file is written whole or not at all, so that a
//! crash at the first start leaves no partial key.

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The reason why the server cannot start, and the remedy.
#[derive(Debug)]
pub struct KeyFault(String);

impl std::fmt::Display for KeyFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for KeyFault {}

impl KeyFault {
    pub(super) fn new(words: impl Into<String>) -> KeyFault {
        KeyFault(words.into())
    }
}

/// The content of the file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<Vec<u8>>, KeyFault> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let what = "let the server's user read it, or name another file";
            return Err(KeyFault::new(format!("cannot read the key in {}: {error}; {what}", path.display())));
        }
    };
    if let Ok(found) = std::fs::metadata(path)
        && found.permissions().mode() & 0o077 != 0
    {
        let path = path.display();
        tracing::warn!("others than its owner may read the key in {path}; put that right with: chmod 600 {path}");
    }
    Ok(Some(bytes))
}

/// Writes a new file.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), KeyFault> {
    let trouble = |error: std::io::Error| {
        let what = "make the folder writable for the server's user";
        KeyFault::new(format!("cannot write the key to {}: {error}; {what}", path.display()))
    };
    let beside = PathBuf::from(format!("{}.new", path.display()));
    // A crash may have left a partial file.
    let _ = std::fs::remove_file(&beside);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).map_err(trouble)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(trouble)?;
    std::fs::rename(&beside, path).map_err(trouble)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_owners_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k");
        assert!(read(&path).unwrap().is_none());
        std::fs::write(folder.path().join("k.new"), "left by a crash").unwrap();
        write(&path, b"secret").unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&path).unwrap().unwrap(), b"secret");
        assert!(!folder.path().join("k.new").exists());
    }

    #[test]
    fn what_cannot_be_read_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let words = read(folder.path()).unwrap_err().to_string();
        assert!(words.contains("cannot read the key in") && words.contains("name another file"), "{words}");
    }
}
