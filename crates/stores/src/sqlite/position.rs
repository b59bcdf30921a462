//! How far the write-ahead log has come, written down beside it after each commit.
//!
//! SQLite takes a write-ahead log that was cut short for one whose last writer crashed: it reads what is whole and says
//! nothing of the rest. So the number of committed pages is kept in a file of its own (`rialto.db-commits`) and compared
//! at the next start. It is written without a sync: after a crash of the process it is up to date, after a power cut it
//! may be behind, but never ahead of a log that was synced.
//!
//! A loss stays noted there, for `rialto doctor`, until an operator removes the file.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use model::Time;
use model::ports::store::Loss;

use super::folder;
use crate::folder::private;

/// The file in the data folder.
pub const COMMITS: &str = "rialto.db-commits";
const LEN: usize = 56;
const MAGIC: &[u8; 8] = b"rialto-1";

/// Where the log was after a commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    /// Of the log's header: which of the logs that follow each other in this file it is.
    salt: [u32; 2],
    /// Pages in it that are committed.
    pages: u64,
    /// Of these, pages that are in the database's file as well.
    copied: u64,
}

/// The file, and what it says.
#[derive(Debug)]
pub(super) struct PositionFile {
    file: Option<File>,
    wal: PathBuf,
    /// The log, held open: it is the same file for as long as the database is open.
    log: Option<File>,
    /// The salts of the log that was there before the database was opened.
    found: Option<[u32; 2]>,
    written: Position,
    loss: Option<Loss>,
}

pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(COMMITS)
}

impl PositionFile {
    /// Reads what was written down, if it can be, and which log is there; to be called before SQLite is. Without a file nothing is compared, and the store works all the same.
    pub(super) fn open(at: &Path) -> PositionFile {
        let opened = private().read(true).write(true).create(true).truncate(false).open(path(at));
        let mut file = opened.inspect_err(|error| tracing::warn!(%error, "commits are not counted")).ok();
        let mut bytes = Vec::new();
        let read = file.as_mut().map(|file| file.take(LEN as u64).read_to_end(&mut bytes));
        let (written, loss) = match read {
            Some(Ok(_)) => decode(&bytes).unwrap_or_default(),
            Some(Err(_)) | None => (Position::default(), None),
        };
        let mut ledger = PositionFile { file, wal: folder::wal(at), log: None, found: None, written, loss };
        ledger.found = ledger.salt().unwrap_or_default();
        // SQLite may put another file in its place when it opens the database.
        ledger.log = None;
        ledger
    }

    /// Compares what was written down with the log that was found, of which so many pages could be read. `now` is the time
    /// of a loss that is found now.
    pub(super) fn compare(&mut self, found_pages: u64, now: Time) {
        let Position { salt, pages, copied } = self.written;
        let missing = match self.found {
            Some(found) if found == salt => pages.saturating_sub(found_pages),
            // The log began anew, or is another program's work.
            Some(_) => 0,
            // There is none. What had been copied is not lost with it.
            None => pages.saturating_sub(copied),
        };
        if missing > 0 {
            tracing::error!(
                "the write-ahead log was cut short: {missing} of {pages} committed pages are missing, and with them what was \
                 answered last before the server stopped; keep a copy of the data folder, find out what cut the file, and \
                 restore a backup if what is missing matters more than what is newer than it. Remove {} when that is done, \
                 while no server runs",
                COMMITS
            );
            self.loss = Some(Loss { pages: missing, of: pages, at: now });
        }
    }

    pub(super) fn loss(&self) -> Option<Loss> {
        self.loss
    }

    /// After a commit: the log has so many pages, of which so many are copied.
    pub(super) fn note(&mut self, pages: u64, copied: u64) {
        let Ok(Some(salt)) = self.salt() else { return };
        self.write(Position { salt, pages, copied });
    }

    /// Before the log is emptied: what becomes of it from here on is no loss.
    pub(super) fn forget(&mut self) {
        self.write(Position::default());
    }

    /// The salts of the log; none where there is no log.
    fn salt(&mut self) -> io::Result<Option<[u32; 2]>> {
        let log = match self.log.take() {
            Some(log) => log,
            None => match File::open(&self.wal) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                opened => opened?,
            },
        };
        let mut salts = [0; 8];
        let read = log.read_exact_at(&mut salts, 16);
        self.log = Some(log);
        match read {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
            Ok(()) => Ok(Some([word(&salts, 0), word(&salts, 4)])),
        }
    }

    fn write(&mut self, position: Position) {
        let Some(file) = &self.file else { return };
        self.written = position;
        let bytes = encode(position, self.loss);
        // It is a few bytes that are there already; a disk that is full takes them, and one that is broken says so elsewhere.
        let _ = file.write_all_at(&bytes, 0);
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    (u64::from(word(bytes, at)) << 32) | u64::from(word(bytes, at + 4))
}

fn encode(position: Position, loss: Option<Loss>) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    let loss = loss.unwrap_or_default();
    let words = [u64::from(position.salt[0]) << 32 | u64::from(position.salt[1]), position.pages, position.copied];
    let words = words.into_iter().chain([loss.pages, loss.of, loss.at.0 as u64]).map(u64::to_be_bytes);
    bytes[..8].copy_from_slice(MAGIC);
    for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word);
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<(Position, Option<Loss>)> {
    if bytes.len() != LEN || !bytes.starts_with(MAGIC) {
        return None;
    }
    let salt = [word(bytes, 8), word(bytes, 12)];
    let position = Position { salt, pages: long(bytes, 16), copied: long(bytes, 24) };
    let loss = Loss { pages: long(bytes, 32), of: long(bytes, 40), at: Time(long(bytes, 48) as i64) };
    Some((position, (loss.pages > 0).then_some(loss)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder::wal(folder.path()), [7; 100]).unwrap();
        let mut ledger = PositionFile::open(folder.path());
        assert_eq!((ledger.written, ledger.loss()), (Position::default(), None));
        ledger.note(12, 5);
        let again = PositionFile::open(folder.path());
        assert_eq!(again.written, Position { salt: [0x0707_0707; 2], pages: 12, copied: 5 });
        std::fs::write(path(folder.path()), "something else").unwrap();
        assert_eq!(PositionFile::open(folder.path()).written, Position::default());
    }

    #[test]
    fn a_log_is_compared_with_what_was_written_of_it() {
        let cases: [(&str, Option<[u8; 100]>, u64, u64); 6] = [
            ("whole", Some([7; 100]), 12, 0),
            ("more than was noted", Some([7; 100]), 13, 0),
            ("cut", Some([7; 100]), 4, 8),
            ("cut to nothing", Some([7; 100]), 0, 12),
            ("begun anew", Some([8; 100]), 1, 0),
            ("gone", None, 0, 7),
        ];
        for (what, wal, found, missing) in cases {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder::wal(folder.path()), [7; 100]).unwrap();
            PositionFile::open(folder.path()).note(12, 5);
            match wal {
                Some(bytes) => std::fs::write(folder::wal(folder.path()), bytes).unwrap(),
                None => std::fs::remove_file(folder::wal(folder.path())).unwrap(),
            }
            let mut ledger = PositionFile::open(folder.path());
            ledger.compare(found, Time(9));
            let expected = (missing > 0).then_some(Loss { pages: missing, of: 12, at: Time(9) });
            assert_eq!(ledger.loss(), expected, "{what}");
            // It stays noted, whatever is written later.
            ledger.forget();
            assert_eq!(PositionFile::open(folder.path()).loss(), expected, "{what}");
        }
    }
}
