//! A caller's money that is held for one turn of an agent, until the turn ends.
//!
//! The hold has all facts that ending it needs, so that the end of the turn reads no other row. It is stored as long as
//! the turn runs; afterwards its two entries remain.

use std::sync::Arc;

use model::{TaskId, Time, TurnId};
use serde::{Deserialize, Serialize};

use super::{Owed, Price, Usage};
use ledger::journal::{AccountId, EntryError, EntryHead, EntryId, EntryLine, LedgerEntry, LineKind, TurnEntry, moved};
use ledger::{Rate, Row, UserId, Ut};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnHold {
    pub tenant: Arc<str>,
    pub agent: Arc<str>,
    pub task: TaskId,
    /// The turn it is for; a turn has one hold.
    pub turn: TurnId,
    /// The user whose money it is.
    pub payer: UserId,
    pub amount: Ut,
    pub made_at: Time,
    /// The turn is its task's first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first: bool,
    pub price: Price,
    /// The user who is paid; the platform if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seller: Option<UserId>,
    /// The platform's share of what a seller is paid.
    #[serde(default)]
    pub commission: Rate,
    /// Budgets that the hold counts against.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<Budgeted>,
}

impl Row for TurnHold {
    const NAME: &'static str = "turn hold";
}

/// A budget that a turn draws on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budgeted {
    /// The account that counts spending of the budget, below zero.
    pub account: Arc<str>,
    pub amount: Ut,
    /// The owner of the budget, for messages: `key` or `context`.
    pub of: Arc<str>,
    /// The period of the budget, for messages.
    pub window: Arc<str>,
}

impl TurnHold {
    /// The entry that makes the hold.
    pub fn frozen(&self) -> Result<LedgerEntry, EntryError> {
        let lines = moved(LineKind::Freeze, self.available(), self.set_aside(), self.amount)?;
        LedgerEntry::new(self.head(TurnEntry::Hold, self.made_at), lines)
    }

    /// The cost of the turn, at most the held amount.
    pub fn cost(&self, used: &Usage, owed: Owed) -> Ut {
        self.price.cost(self.first, used, owed).min(self.amount)
    }

    /// The entry that ends the hold: the cost to the payee, the rest back to the payer.
    pub fn ended(&self, cost: Ut, at: Time) -> Result<LedgerEntry, EntryError> {
        if cost.is_negative() || cost > self.amount {
            return Err(EntryError::MoreThanHeld { asked: cost, held: self.amount });
        }
        let commission = if self.seller.is_some() { self.commission.of(cost) } else { cost };
        let income = cost.minus(commission).ok_or(EntryError::Overflow)?;
        let rest = self.amount.minus(cost).ok_or(EntryError::Overflow)?;
        let out = |amount: Ut| amount.negated().ok_or(EntryError::Overflow);
        let seller = self.seller.as_ref().unwrap_or(&self.payer);
        let mut lines = vec![
            EntryLine::new(self.set_aside(), LineKind::SettleOut, out(cost)?),
            EntryLine::new(AccountId::available(&self.tenant, seller), LineKind::Income, income),
            EntryLine::new(AccountId::commission(&self.tenant), LineKind::Commission, commission),
            EntryLine::new(self.set_aside(), LineKind::Unfreeze, out(rest)?),
            EntryLine::new(self.available(), LineKind::Unfreeze, rest),
        ];
        lines.retain(|line| !line.amount.is_zero());
        LedgerEntry::new(self.head(TurnEntry::End, at), lines)
    }

    fn available(&self) -> AccountId {
        AccountId::available(&self.tenant, &self.payer)
    }

    fn set_aside(&self) -> AccountId {
        AccountId::frozen(&self.tenant, &self.payer)
    }

    fn head(&self, which: TurnEntry, at: Time) -> EntryHead {
        let note = format!("{}, task {}", self.agent, self.task);
        EntryHead { id: EntryId::turn(self.turn, which), at, transaction: None, note: Some(note.into()) }
    }
}
