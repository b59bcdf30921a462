//! Conditions of a step, which the store checks in the commit itself.

use std::sync::Arc;

use ledger::{AccountId, Floor, TransactionId, UserId, Ut};

use crate::autonomy::Mark;
use crate::{CapabilityId, Sales};

/// A condition of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The account's balance is at least this amount.
    Available(AccountId, Ut),
    /// The transaction's row has this version; 0 means that there is none.
    Transaction(TransactionId, u64),
    /// The capability's row has this version, so that price and status are those that the step used.
    Capability { tenant: Arc<str>, id: CapabilityId, version: u64 },
    /// The confirmation is unused.
    Unused(Mark),
    /// The user's agents have spent no more than this without confirmation on that day.
    Spent { tenant: Arc<str>, user: UserId, day: i64, at_most: Ut },
    /// The capability's row of counted sales is still this one.
    Sold { tenant: Arc<str>, capability: CapabilityId, sales: Sales },
}

impl From<Floor> for Precondition {
    fn from(floor: Floor) -> Precondition {
        Precondition::Available(floor.account, floor.at_least)
    }
}
