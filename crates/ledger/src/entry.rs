//! Entries in the form that a store takes: the lines in the body, and the change of each account beside it.

use std::sync::Arc;

use model::Posting;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::journal::{AccountId, EntryId, LedgerEntry, LineKind};
use crate::{Row, TransactionId, Ut};

/// The stored body of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Booked {
    #[serde(rename = "i")]
    pub id: EntryId,
    #[serde(rename = "l")]
    pub lines: Vec<BookedLine>,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub transaction: Option<TransactionId>,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BookedLine {
    #[serde(rename = "a")]
    pub account: AccountId,
    #[serde(rename = "k")]
    pub kind: LineKind,
    #[serde(rename = "m")]
    pub amount: Ut,
}
impl Row for Booked {
    const NAME: &'static str = "entry";
}

/// The store's form of an entry. Its id is derived from its name, so that nothing is booked twice.
pub fn entry(entry: &LedgerEntry) -> model::Entry {
    let head = entry.head();
    let lines = entry.lines().iter().map(|line| BookedLine {
        account: line.account.clone(),
        kind: line.kind,
        amount: line.amount,
    });
    let body =
        Booked { id: head.id.clone(), lines: lines.collect(), transaction: head.transaction, note: head.note.clone() };
    let mut postings: Vec<Posting> = Vec::with_capacity(entry.lines().len());
    for line in entry.lines() {
        let (account, amount): (Arc<str>, i64) = (line.account.key().into(), line.amount.hundredths());
        match postings.iter_mut().find(|known| known.account == account) {
            Some(known) => known.amount = known.amount.saturating_add(amount),
            None => {
                let floor = (!line.account.may_be_negative()).then_some(0);
                postings.push(Posting { account, amount, floor });
            }
        }
    }
    model::Entry { id: entry_id(&head.id), at: head.at, body: body.to_row().into(), postings }
}

/// The id of an entry in the store. It begins with the time of its purchase, so that entries of one time are neighbours.
pub fn entry_id(id: &EntryId) -> Uuid {
    let hash = Sha256::digest(id.as_str());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    if let Some(transaction) = id.transaction() {
        bytes[..8].copy_from_slice(&transaction.0.0.as_bytes()[..8]);
    }
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}
