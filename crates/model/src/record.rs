//! The data of products beside tasks: records, and a journal of money and stock.
//!
//! A store does not interpret their content. A record is found by its key and by its lists; an entry moves amounts
//! between accounts and its postings sum to zero. Both change in the same commit as the task they concern, or not at
//! all.

use std::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;

use crate::Time;

/// A record's key, or a list's name, joined from parts without control characters.
pub fn joined(parts: &[&str]) -> Arc<str> {
    parts.join("\u{1f}").into()
}

/// A row of a product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The product's name for the record's type, such as `market/capability`.
    pub kind: Arc<str>,
    /// Unique within its kind.
    pub key: Arc<str>,
    /// The number of puts since the record was last absent.
    pub version: u64,
    pub body: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// Replaces the record and its lists.
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
    /// Checks the record without changing it: a precondition of the commit.
    Leave {
        kind: Arc<str>,
        key: Arc<str>,
        expect: Expect,
    },
}

impl RecordChange {
    /// The record the change is about, and its precondition.
    pub fn about(&self) -> (&Arc<str>, &Arc<str>, Expect) {
        match self {
            RecordChange::Put { kind, key, expect, .. }
            | RecordChange::Remove { kind, key, expect }
            | RecordChange::Leave { kind, key, expect } => (kind, key, *expect),
        }
    }
}

/// The precondition of a record's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// No such record.
    Absent,
    /// The record still has this version.
    Version(u64),
    Any,
}

impl Expect {
    /// Whether a record with this version satisfies the precondition; zero for no record.
    pub fn admits(self, version: u64) -> bool {
        match self {
            Expect::Absent => version == 0,
            Expect::Version(expected) => version == expected && version > 0,
            Expect::Any => true,
        }
    }
}

/// A position in a list of records of one kind. A list is read from its highest rank down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub list: Arc<str>,
    pub rank: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordQuery {
    pub kind: Arc<str>,
    pub list: Arc<str>,
    /// The end of the previous page: rank and key, both descending.
    pub after: Option<(i64, Arc<str>)>,
    /// Records to skip from there on.
    pub skip: u64,
    pub limit: u32,
    /// Count all records in the list, regardless of the page.
    pub count: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordPage {
    /// With their ranks.
    pub records: Vec<(Record, i64)>,
    pub more: bool,
    pub total: Option<u64>,
}

/// Amounts moved between accounts, in the smallest unit. They sum to zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Drawn by the code that makes the entry; the store refuses a second entry with the same id.
    pub id: Uuid,
    pub at: Time,
    /// The product's description of the entry.
    pub body: Bytes,
    pub postings: Vec<Posting>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    pub account: Arc<str>,
    pub amount: i64,
    /// The lowest balance the account may have afterwards.
    pub floor: Option<i64>,
}

impl Entry {
    /// The reason every store would refuse it.
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
pub struct AccountLine {
    /// The entry's position in the journal; for any one account, higher is later.
    pub no: u64,
    pub id: Uuid,
    pub at: Time,
    pub body: Bytes,
    pub amount: i64,
    /// The account's balance after the entry.
    pub balance: i64,
}

/// An account and its balance.
pub type Balance = (Arc<str>, i64);
