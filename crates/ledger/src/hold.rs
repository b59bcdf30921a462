//! A hold: a buyer's money set aside for one purchase, between freezing and its one end.
//!
//! One entry ends a hold: it settles all of it, settles a part (the used part of a metered price) or releases all of it.
//! The entry has the same name in each case, so that a journal has room for one end only.

use std::sync::Arc;

use model::Time;
use serde::{Deserialize, Serialize};

use crate::journal::{AccountId, EntryError, EntryHead, EntryId, EntryLine, LedgerEntry, LineKind, moved};
use crate::{TransactionId, UserId, Ut};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub tenant: Arc<str>,
    /// The purchase it is for; a purchase has one hold.
    pub transaction: TransactionId,
    /// The user whose money it is.
    pub owner: UserId,
    pub amount: Ut,
    pub made_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<HoldEnd>,
}

/// How a hold ended; the two parts are the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldEnd {
    /// Paid to the seller and the platform.
    pub settled: Ut,
    /// Returned to the owner.
    pub released: Ut,
    pub at: Time,
}

/// How a settled amount is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub seller: UserId,
    /// The platform's part of the settled amount.
    pub commission: Ut,
}

impl Hold {
    /// Sets the money aside. The entry's floors say how much the owner must have.
    pub fn freeze(
        tenant: &Arc<str>,
        owner: &UserId,
        transaction: TransactionId,
        amount: Ut,
        at: Time,
    ) -> Result<(Hold, LedgerEntry), EntryError> {
        let hold = Hold { tenant: tenant.clone(), transaction, owner: owner.clone(), amount, made_at: at, end: None };
        let entry = hold.frozen()?;
        Ok((hold, entry))
    }

    /// The entry that made it.
    pub fn frozen(&self) -> Result<LedgerEntry, EntryError> {
        let (from, to) = (self.available(), AccountId::frozen(&self.tenant, &self.owner));
        let lines = moved(LineKind::Freeze, from, to, self.amount)?;
        LedgerEntry::new(self.head(EntryId::freeze(self.transaction), self.made_at), lines)
    }

    /// Settles `amount` and releases the rest, in one entry.
    pub fn settle(&self, amount: Ut, share: &Share, at: Time) -> Result<(Hold, LedgerEntry), EntryError> {
        if self.end.is_some() {
            return Err(EntryError::Ended);
        }
        if amount.is_negative() || amount > self.amount {
            return Err(EntryError::MoreThanHeld { asked: amount, held: self.amount });
        }
        let released = self.amount.minus(amount).ok_or(EntryError::Overflow)?;
        let ended = Hold { end: Some(HoldEnd { settled: amount, released, at }), ..self.clone() };
        let entry = ended.ended(share)?.ok_or(EntryError::Ended)?;
        Ok((ended, entry))
    }

    /// Releases all of it.
    pub fn release(&self, at: Time) -> Result<(Hold, LedgerEntry), EntryError> {
        self.settle(Ut::ZERO, &Share { seller: self.owner.clone(), commission: Ut::ZERO }, at)
    }

    /// The entry that ended it, once it has ended. `share` applies to the settled part.
    pub fn ended(&self, share: &Share) -> Result<Option<LedgerEntry>, EntryError> {
        let Some(end) = self.end else { return Ok(None) };
        if share.commission.is_negative() || share.commission > end.settled {
            return Err(EntryError::MoreThanHeld { asked: share.commission, held: end.settled });
        }
        let frozen = AccountId::frozen(&self.tenant, &self.owner);
        let income = end.settled.minus(share.commission).ok_or(EntryError::Overflow)?;
        let back = |amount: Ut| amount.negated().ok_or(EntryError::Overflow);
        let mut lines = vec![
            EntryLine::new(frozen.clone(), LineKind::SettleOut, back(end.settled)?),
            EntryLine::new(AccountId::available(&self.tenant, &share.seller), LineKind::Income, income),
            EntryLine::new(AccountId::commission(&self.tenant), LineKind::Commission, share.commission),
            EntryLine::new(frozen, LineKind::Unfreeze, back(end.released)?),
            EntryLine::new(self.available(), LineKind::Unfreeze, end.released),
        ];
        lines.retain(|line| !line.amount.is_zero());
        LedgerEntry::new(self.head(EntryId::end(self.transaction), end.at), lines).map(Some)
    }

    fn available(&self) -> AccountId {
        AccountId::available(&self.tenant, &self.owner)
    }

    fn head(&self, id: EntryId, at: Time) -> EntryHead {
        EntryHead { id, at, transaction: Some(self.transaction), note: None }
    }
}
