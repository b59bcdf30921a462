//! The ledger: money, double-entry journal entries, holds, and the rows that products store.
//!
//! This crate is pure: no I/O, no clock, no randomness, no wire. Time and ids come in as arguments. The products share it, so
//! that an amount, an account and a stored row have one form in all of them.
//!
//! | module | content |
//! |---|---|
//! | [`money`] | amounts in hundredths of UT, rates, parsing and rounding |
//! | [`id`] | typed text ids, users, transactions |
//! | [`journal`] | accounts, entries that are always balanced, and the balances that an entry needs |
//! | [`hold`] | money of a buyer between freezing and its one end |
//! | [`entry`] | entries in the form that a store takes |
//! | [`row`] | the encoding of stored rows |
//! | [`records`] | typed records, idempotency keys and the removal of old records |

pub mod entry;
pub mod hold;
pub mod id;
pub mod journal;
pub mod money;
pub mod records;
pub mod row;

pub use hold::{Hold, HoldEnd, Share};
pub use id::{NoTransactionId, TransactionId, UserId};
pub use journal::{
    Account, AccountId, AccountKind, EntryError, EntryHead, EntryId, EntryLine, Floor, LedgerEntry, LedgerPosting,
    LineKind, TurnEntry,
};
pub use money::{Rate, Ut};
pub use records::RecordCollection;
pub use records::idempotency::{FreshKey, KeyState, Once, PriorUse, UsedKeys, perform_once};
pub use row::Row;
