//! What is carried, as neither store has it: rows of the one, read so that the other can write them.

use bytes::Bytes;
use model::ports::store::{KeyUse, Row};
use model::{ContextId, PushRow, TaskId};
use sha2::{Digest, Sha256};

/// A view, a tenant or an agent by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) no: i32,
    pub(crate) text: String,
}

/// A task without its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub(crate) no: i64,
    pub(crate) id: TaskId,
    pub(crate) context: ContextId,
    pub(crate) tenant_no: i32,
    pub(crate) agent_no: i32,
    pub(crate) views: Box<[i32]>,
    pub(crate) row: Row,
    /// The length of its log.
    pub(crate) seq: u64,
    /// How often a turn was started in its log, which is what tells holds apart in a store of many processes. A store of one
    /// process counts its own starts instead, and that number means nothing elsewhere.
    pub(crate) starts: u64,
}

/// A row of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    pub(crate) task_no: i64,
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) payload: Bytes,
}

/// A task's place in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing {
    pub(crate) view_no: i32,
    pub(crate) state: i16,
    pub(crate) status_at: i64,
    pub(crate) task_no: i64,
    pub(crate) task: TaskId,
    pub(crate) context: ContextId,
}

/// A timer; its kind as a number, whatever it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timer {
    pub(crate) task: TaskId,
    pub(crate) kind: i16,
    pub(crate) task_no: i64,
    pub(crate) due: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Alias {
    pub(crate) key: [u8; 32],
    pub(crate) task: TaskId,
}

/// A key that a caller is known by, as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) id: String,
    pub(crate) row: String,
}

/// One use of an idempotency key, in the hour it is kept under.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    pub(crate) hour: i64,
    pub(crate) used: KeyUse,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) tenant_no: i32,
    pub(crate) hash: [u8; 32],
    pub(crate) bytes: Bytes,
}

/// That a task uses a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlobUse {
    pub(crate) task: TaskId,
    pub(crate) tenant_no: i32,
    pub(crate) hash: [u8; 32],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Push {
    /// The order in which those of one task were made.
    pub(crate) made_no: i64,
    pub(crate) row: PushRow,
}

/// What a row says of itself that is not so, wherever it is.
pub(crate) trait Odd {
    fn odd(&self) -> Option<String> {
        None
    }
}

impl Odd for Name {}
impl Odd for Task {}
impl Odd for Log {}
impl Odd for Listing {}
impl Odd for Timer {}
impl Odd for Alias {}
impl Odd for Access {}
impl Odd for Use {}
impl Odd for BlobUse {}
impl Odd for Push {}

impl Odd for Blob {
    fn odd(&self) -> Option<String> {
        let wrong = Sha256::digest(&self.bytes)[..] != self.hash;
        wrong.then(|| format!("a blob of {} bytes is not what its hash says", self.bytes.len()))
    }
}

/// How far a walk over one kind of rows has come: the key of the last one, in the source's own order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) numbers: Vec<i64>,
    pub(crate) bytes: Vec<u8>,
}

impl Place {
    pub(crate) fn number(numbers: &[i64]) -> Place {
        Place { numbers: numbers.to_vec(), bytes: Vec::new() }
    }

    pub(crate) fn bytes(bytes: &[u8]) -> Place {
        Place { numbers: Vec::new(), bytes: bytes.to_vec() }
    }

    /// The number at this position of a place; before every number where there is none.
    pub(crate) fn at(place: Option<&Place>, position: usize) -> i64 {
        place.and_then(|place| place.numbers.get(position).copied()).unwrap_or(i64::MIN)
    }
}

/// How much is read, and written in one transaction, at most. A row is never parted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    pub rows: usize,
    pub bytes: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch { rows: 1_000, bytes: 4 << 20 }
    }
}
