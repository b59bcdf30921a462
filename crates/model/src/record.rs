//! What products keep beside tasks: records, and a journal of money and stock.
//!
//! A store knows nothing of what is in them. A record is found by its key and by the lists it is in; an entry moves amounts
//! between accounts and adds up to nothing. Both change in the same commit as the task they are about, or not at all.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::Time;

/// A record's key, or a list's name, made of parts that hold no control characters.
pub fn joined(parts: &[&str]) -> Arc<str> {
    parts.join("\u{1f}").into()
}

/// A row of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The product's own word for what it is, such as `market/capability`.
    pub kind: Arc<str>,
    /// Unique within its kind.
    pub key: Arc<str>,
    /// How often it has been put, since it was last absent.
    pub version: u64,
    pub body: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// From now on it is this, in these lists and no others.
    Put {
        kind: Arc<str>,
        key: Arc<str>,
        expect: Expect,
        body: Bytes,
        lists: Vec<Listed>,
    },
    Remove {
        kind: Arc<str>,
        key: Arc<str>,
        expect: Expect,
    },
    /// It is looked at and stays as it is: what the commit rests on.
    Leave {
        kind: Arc<str>,
        key: Arc<str>,
        expect: Expect,
    },
}

impl RecordChange {
    /// Which record it is about, and what must be known of it.
    pub fn about(&self) -> (&Arc<str>, &Arc<str>, Expect) {
        match self {
            RecordChange::Put { kind, key, expect, .. }
            | RecordChange::Remove { kind, key, expect }
            | RecordChange::Leave { kind, key, expect } => (kind, key, *expect),
        }
    }
}

/// What must be so for a record to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is none.
    Absent,
    /// It is as it was when it had this version.
    Version(u64),
    Any,
}

impl Expect {
    /// Whether a record with this version, zero for none, will do.
    pub fn admits(self, version: u64) -> bool {
        match self {
            Expect::Absent => version == 0,
            Expect::Version(expected) => version == expected && version > 0,
            Expect::Any => true,
        }
    }
}

/// A place in a list of records of one kind. A list is read from its highest rank down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub list: Arc<str>,
    pub rank: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordQuery {
    pub kind: Arc<str>,
    pub list: Arc<str>,
    /// Where the last page ended: rank and key, both descending.
    pub after: Option<(i64, Arc<str>)>,
    /// Passed over from there on.
    pub skip: u64,
    pub limit: u32,
    /// Count all that are in the list, whatever the page.
    pub count: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordPage {
    /// With their ranks.
    pub records: Vec<(Record, i64)>,
    pub more: bool,
    pub total: Option<u64>,
}

/// Amounts moved between accounts, in the smallest unit there is. They add up to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Drawn by whoever makes it; no second one is ever taken.
    pub id: Uuid,
    pub at: Time,
    /// What it is about, in its product's words.
    pub body: Bytes,
    pub postings: Vec<Posting>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    pub account: Arc<str>,
    pub amount: i64,
    /// The account must not be below this afterwards.
    pub floor: Option<i64>,
}

impl Entry {
    /// Why no store would take it.
    pub fn mistake(&self) -> Option<&'static str> {
        let sum: i128 = self.postings.iter().map(|posting| i128::from(posting.amount)).sum();
        let twice = self
            .postings
            .iter()
            .enumerate()
            .any(|(i, one)| self.postings[..i].iter().any(|other| other.account == one.account));
        if self.postings.len() < 2 {
            Some("an entry has at least two postings")
        } else if sum != 0 {
            Some("the postings of an entry add up to nothing")
        } else if twice {
            Some("an entry posts to an account once")
        } else {
            None
        }
    }
}

/// A line of an account's statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The entry's place in the journal; higher is later, for any one account.
    pub no: u64,
    pub id: Uuid,
    pub at: Time,
    pub body: Bytes,
    pub amount: i64,
    /// The account's balance after it.
    pub balance: i64,
}

/// An account and what is on it.
pub type Balance = (Arc<str>, i64);
