//! Rows of a migration, independent of either store: read from SQLite, written to PostgreSQL.

use std::fmt;

use bytes::Bytes;
use model::ports::store::{IndexRow, KeyUse};
use model::{ContextId, PushRow, TaskId};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// A view, a tenant or an agent by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameRow {
    pub(crate) no: i32,
    pub(crate) text: String,
}

/// A task without its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskRow {
    pub(crate) no: i64,
    pub(crate) id: TaskId,
    pub(crate) context: ContextId,
    pub(crate) tenant_no: i32,
    pub(crate) agent_no: i32,
    pub(crate) views: Box<[i32]>,
    pub(crate) row: IndexRow,
    /// The length of its log.
    pub(crate) seq: u64,
    /// Number of turn starts in its log, which is the epoch of a hold in a shared store. A store of one process counts its
    /// own starts instead; that number is not migrated.
    pub(crate) starts: u64,
}

/// A row of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogRow {
    pub(crate) task_no: i64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) payload: Bytes,
}

/// A task's place in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListingRow {
    pub(crate) view_no: i32,
    pub(crate) state: i16,
    pub(crate) status_at: i64,
    pub(crate) task_no: i64,
    pub(crate) task: TaskId,
    pub(crate) context: ContextId,
}

/// A timer, with the code of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TimerRow {
    pub(crate) task: TaskId,
    pub(crate) kind: i16,
    pub(crate) task_no: i64,
    pub(crate) due: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AliasRow {
    pub(crate) key: [u8; 32],
    pub(crate) task: TaskId,
}

/// An access key, in its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessRow {
    pub(crate) id: String,
    pub(crate) row: String,
}

/// One use of an idempotency key, in the hour it is stored under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyUseRow {
    pub(crate) hour: i64,
    pub(crate) used: KeyUse,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobRow {
    pub(crate) tenant_no: i32,
    pub(crate) hash: [u8; 32],
    pub(crate) bytes: Bytes,
}

/// A reference from a task to a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobUse {
    pub(crate) task: TaskId,
    pub(crate) tenant_no: i32,
    pub(crate) hash: [u8; 32],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PushConfigRow {
    /// The order in which those of one task were made.
    pub(crate) made_no: i64,
    pub(crate) row: PushRow,
}

/// A record of a product, without the lists it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordRow {
    pub(crate) kind: String,
    pub(crate) key: String,
    pub(crate) version: u64,
    pub(crate) body: Bytes,
}

/// A record's place in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace {
    pub(crate) kind: String,
    pub(crate) key: String,
    pub(crate) list: String,
    pub(crate) rank: i64,
}

/// An entry of the journal, without its postings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EntryRow {
    /// Its place in the journal, and in every statement it is in.
    pub(crate) no: i64,
    pub(crate) id: Uuid,
    pub(crate) at: i64,
    pub(crate) body: Bytes,
}

/// The amount of an entry on one account, and the balance after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PostingRow {
    pub(crate) entry_no: i64,
    pub(crate) place: i32,
    pub(crate) account: String,
    pub(crate) amount: i64,
    pub(crate) balance: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccountBalance {
    pub(crate) name: String,
    pub(crate) balance: i64,
}

/// A searchable text. Its index is computed from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TextRow {
    pub(crate) shelf: String,
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) body: String,
}

/// The highest numbers in use; later rows continue from there.
pub(crate) struct Highest {
    pub(crate) task: i64,
    pub(crate) name: i32,
    pub(crate) entry: i64,
}

/// A contradiction in a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JournalMismatch {
    /// The postings of an entry do not sum to zero.
    Entry { no: i64 },
    /// The amount and the balance before do not add up to the balance after.
    Posting { account: String, entry_no: i64, balance: i64 },
    /// The postings of an account do not sum to its balance.
    Account { name: String, balance: i64 },
}

impl JournalMismatch {
    /// From the columns both stores select: account, entry, and the stored balance.
    pub(crate) fn new(account: Option<String>, entry_no: Option<i64>, balance: i64) -> JournalMismatch {
        match (account, entry_no) {
            (Some(account), Some(entry_no)) => JournalMismatch::Posting { account, entry_no, balance },
            (Some(name), None) => JournalMismatch::Account { name, balance },
            (None, no) => JournalMismatch::Entry { no: no.unwrap_or_default() },
        }
    }
}

impl fmt::Display for JournalMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalMismatch::Entry { no } => {
                write!(f, "the postings of entry {no} of the journal do not come to nothing")
            }
            JournalMismatch::Posting { account, entry_no, balance } => {
                write!(
                    f,
                    "account {account:?} says {balance} after entry {entry_no}, which its postings do not come to"
                )
            }
            JournalMismatch::Account { name, balance } => {
                write!(f, "account {name:?} says {balance}, which its postings do not come to")
            }
        }
    }
}

/// A check of a row by itself, in any store.
pub(crate) trait Odd {
    fn odd(&self) -> Option<String> {
        None
    }
}

impl Odd for NameRow {}
impl Odd for TaskRow {}
impl Odd for LogRow {}
impl Odd for ListingRow {}
impl Odd for TimerRow {}
impl Odd for AliasRow {}
impl Odd for AccessRow {}
impl Odd for KeyUseRow {}
impl Odd for BlobUse {}
impl Odd for PushConfigRow {}
impl Odd for RecordRow {}
impl Odd for RecordPlace {}
impl Odd for EntryRow {}
impl Odd for PostingRow {}
impl Odd for AccountBalance {}
impl Odd for TextRow {}

impl Odd for BlobRow {
    fn odd(&self) -> Option<String> {
        let wrong = Sha256::digest(&self.bytes)[..] != self.hash;
        wrong.then(|| format!("a blob of {} bytes is not what its hash says", self.bytes.len()))
    }
}

/// Position of a scan over one kind of rows: the key of the last row, in the order of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowPosition {
    pub(crate) numbers: Vec<i64>,
    pub(crate) bytes: Vec<u8>,
}

impl RowPosition {
    pub(crate) fn number(numbers: &[i64]) -> RowPosition {
        RowPosition { numbers: numbers.to_vec(), bytes: Vec::new() }
    }

    pub(crate) fn bytes(bytes: &[u8]) -> RowPosition {
        RowPosition { numbers: Vec::new(), bytes: bytes.to_vec() }
    }

    pub(crate) fn both(numbers: &[i64], bytes: &[u8]) -> RowPosition {
        RowPosition { numbers: numbers.to_vec(), bytes: bytes.to_vec() }
    }

    /// The number at this index of a position; the lowest number if there is none.
    pub(crate) fn at(place: Option<&RowPosition>, position: usize) -> i64 {
        place.and_then(|place| place.numbers.get(position).copied()).unwrap_or(i64::MIN)
    }

    /// The text of a position; the empty text, which sorts first, if there is none.
    pub(crate) fn text(place: Option<&RowPosition>) -> String {
        place.map_or_else(String::new, |place| String::from_utf8_lossy(&place.bytes).into_owned())
    }
}

/// The most that is read and written in one transaction. A row is never split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    pub rows: usize,
    pub bytes: usize,
}

impl Default for BatchLimits {
    fn default() -> BatchLimits {
        BatchLimits { rows: 1_000, bytes: 4 << 20 }
    }
}
