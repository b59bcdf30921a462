//! The whole market in memory: the simplest store that can commit a [`TransactionStep`].
//!
//! Stores are compared with it, and tests and examples use it. It persists nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Time;

use crate::autonomy::{Mark, TokenRefused, day};
use crate::capability::{Capability, Status as CapabilityStatus};
use crate::error::Error;
use crate::precondition::Precondition;
use crate::transaction::{
    Deadline, DeadlineChange, PurchaseOrder, Transaction, TransactionAction, TransactionRules, TransactionStep,
};
use crate::verify::{MarketDifference, verify};
use crate::{Actor, CapabilityId, Sales};
use ledger::{Account, AccountId, EntryId, Hold, LedgerEntry, LedgerPosting, TransactionId, UserId, Ut};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarketState {
    accounts: BTreeMap<AccountId, Account>,
    journal: Vec<LedgerPosting>,
    entries: BTreeSet<EntryId>,
    holds: BTreeMap<TransactionId, Hold>,
    transactions: BTreeMap<TransactionId, Transaction>,
    capabilities: BTreeMap<(Arc<str>, CapabilityId), Capability>,
    timers: BTreeMap<(TransactionId, Deadline), Time>,
    spent: BTreeMap<(Arc<str>, UserId, i64), Ut>,
    sales: BTreeMap<(Arc<str>, CapabilityId), Sales>,
    used: BTreeSet<Mark>,
}

/// The reason why a commit failed; nothing of it was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateConflict {
    #[error("{account} has {available}, not the {needed} that are needed")]
    Short { account: AccountId, needed: Ut, available: Ut },
    #[error("transaction {0} has another version")]
    Transaction(TransactionId),
    #[error("capability {0} has another version")]
    Capability(CapabilityId),
    #[error("the confirm token has been used")]
    Used,
    #[error("the day's spending has changed")]
    Spent,
    #[error("the sales of capability {0} have changed")]
    Sold(CapabilityId),
    #[error("entry {0} is in the journal already")]
    Booked(EntryId),
    #[error("the hold of {0} is not one that can be made or ended")]
    Hold(TransactionId),
    #[error(transparent)]
    Posting(#[from] ledger::journal::PostingError),
}

impl From<StateConflict> for Error {
    fn from(conflict: StateConflict) -> Error {
        match conflict {
            StateConflict::Short { needed, available, .. } => Error::Insufficient { needed, available },
            StateConflict::Used => Error::Token(TokenRefused::Used),
            StateConflict::Transaction(_)
            | StateConflict::Capability(_)
            | StateConflict::Spent
            | StateConflict::Sold(_)
            | StateConflict::Booked(_)
            | StateConflict::Hold(_) => Error::Changed,
            StateConflict::Posting(_) => Error::Ledger(ledger::EntryError::Overflow),
        }
    }
}

impl MarketState {
    /// Commits a step, all of it or nothing.
    pub fn commit(&mut self, step: &TransactionStep) -> Result<(), StateConflict> {
        step.guards.iter().try_for_each(|guard| self.check(guard))?;
        if let Some(hold) = &step.hold {
            let fits = match self.holds.get(&hold.transaction) {
                None => hold.end.is_none(),
                Some(known) => {
                    known.end.is_none() && hold.end.is_some() && Hold { end: None, ..hold.clone() } == *known
                }
            };
            if !fits {
                return Err(StateConflict::Hold(hold.transaction));
            }
        }
        // The ledger checks all entries last, and refuses them as a whole.
        self.post_all(&step.entries)?;
        let id = step.transaction.id;
        self.holds.extend(step.hold.iter().map(|hold| (hold.transaction, hold.clone())));
        for change in &step.timers {
            match change {
                DeadlineChange::Set(due) => self.timers.insert((id, due.deadline), due.at),
                DeadlineChange::Clear(deadline) => self.timers.remove(&(id, *deadline)),
            };
        }
        if let Some(spend) = &step.spend {
            let sum = self.spent.entry((spend.tenant.clone(), spend.user.clone(), spend.day)).or_default();
            // The precondition of the step has checked the limit.
            *sum = sum.plus(spend.amount).unwrap_or(*sum);
        }
        self.used.extend(step.used);
        if let Some(sales) = step.sales {
            let of = (step.transaction.tenant.clone(), step.transaction.capability.clone());
            self.sales.insert(of, sales);
        }
        self.transactions.insert(id, step.transaction.clone());
        Ok(())
    }

    /// Books an entry that belongs to no transaction.
    pub fn post(&mut self, entry: &LedgerEntry) -> Result<(), StateConflict> {
        entry.floors().into_iter().try_for_each(|floor| self.check(&floor.into()))?;
        self.post_all(std::slice::from_ref(entry))
    }

    fn post_all(&mut self, entries: &[LedgerEntry]) -> Result<(), StateConflict> {
        let mut changed: BTreeMap<AccountId, Account> = BTreeMap::new();
        let mut postings = Vec::new();
        for (i, entry) in entries.iter().enumerate() {
            if self.entries.contains(entry.id()) || entries[..i].iter().any(|other| other.id() == entry.id()) {
                return Err(StateConflict::Booked(entry.id().clone()));
            }
            let posted = entry.post(|id| changed.get(id).or_else(|| self.accounts.get(id)).cloned())?;
            changed.extend(posted.accounts.into_iter().map(|account| (account.id.clone(), account)));
            postings.extend(posted.postings);
        }
        self.accounts.extend(changed);
        self.journal.extend(postings);
        self.entries.extend(entries.iter().map(|entry| entry.id().clone()));
        Ok(())
    }

    fn check(&self, guard: &Precondition) -> Result<(), StateConflict> {
        match guard {
            Precondition::Available(account, needed) => {
                let available = self.balance(account);
                if available < *needed {
                    return Err(StateConflict::Short { account: account.clone(), needed: *needed, available });
                }
            }
            Precondition::Transaction(id, version) => {
                if self.transactions.get(id).map_or(0, |known| known.version) != *version {
                    return Err(StateConflict::Transaction(*id));
                }
            }
            Precondition::Capability { tenant, id, version } => {
                if self.capability(tenant, id).is_none_or(|known| known.version != *version) {
                    return Err(StateConflict::Capability(id.clone()));
                }
            }
            Precondition::Unused(mark) => {
                if self.used.contains(mark) {
                    return Err(StateConflict::Used);
                }
            }
            Precondition::Spent { tenant, user, day, at_most } => {
                if self.spent(tenant, user, *day) > *at_most {
                    return Err(StateConflict::Spent);
                }
            }
            Precondition::Sold { tenant, capability, sales } => {
                if self.sales(tenant, capability) != *sales {
                    return Err(StateConflict::Sold(capability.clone()));
                }
            }
        }
        Ok(())
    }

    /// Orders a capability; fills in the fields of the order that depend on this state.
    pub fn order(
        &mut self,
        order: PurchaseOrder,
        capability: &CapabilityId,
        now: Time,
        rules: &TransactionRules,
    ) -> Result<TransactionStep, Error> {
        let missing = || Error::NotOnSale { capability: capability.clone(), status: CapabilityStatus::Offline };
        let spent = self.spent(&order.tenant, &order.buyer, day(now));
        let known = self.capability(&order.tenant, capability).ok_or_else(missing)?;
        let sold = self.sales(&order.tenant, capability);
        let step = Transaction::create(PurchaseOrder { spent, sold, ..order }, known, now, rules)?;
        self.commit(&step)?;
        Ok(step)
    }

    /// Performs an action on a transaction.
    pub fn act(
        &mut self,
        id: TransactionId,
        actor: &Actor,
        action: TransactionAction,
        now: Time,
        rules: &TransactionRules,
    ) -> Result<TransactionStep, Error> {
        // An unknown transaction is reported like one of other parties.
        let step = self.transactions.get(&id).ok_or(Error::NotParty)?.step(actor, action, now, rules)?;
        self.commit(&step)?;
        Ok(step)
    }

    pub fn put_capability(&mut self, capability: Capability) {
        self.capabilities.insert((capability.tenant.clone(), capability.id.clone()), capability);
    }

    /// Timers that are due, earliest first.
    pub fn due(&self, now: Time) -> Vec<(TransactionId, Deadline)> {
        let mut due: Vec<_> = self.timers.iter().filter(|(_, at)| **at <= now).collect();
        due.sort_by_key(|(_, at)| **at);
        due.into_iter().map(|(key, _)| *key).collect()
    }

    pub fn balance(&self, account: &AccountId) -> Ut {
        self.accounts.get(account).map_or(Ut::ZERO, |known| known.balance)
    }
    pub fn spent(&self, tenant: &Arc<str>, user: &UserId, day: i64) -> Ut {
        self.spent.get(&(tenant.clone(), user.clone(), day)).copied().unwrap_or(Ut::ZERO)
    }
    pub fn sales(&self, tenant: &Arc<str>, id: &CapabilityId) -> Sales {
        self.sales.get(&(tenant.clone(), id.clone())).copied().unwrap_or_default()
    }
    pub fn capability(&self, tenant: &Arc<str>, id: &CapabilityId) -> Option<&Capability> {
        self.capabilities.get(&(tenant.clone(), id.clone()))
    }
    pub fn transaction(&self, id: TransactionId) -> Option<&Transaction> {
        self.transactions.get(&id)
    }
    pub fn hold(&self, id: TransactionId) -> Option<&Hold> {
        self.holds.get(&id)
    }
    pub fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.accounts.values()
    }
    pub fn journal(&self) -> &[LedgerPosting] {
        &self.journal
    }
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        self.holds.values()
    }
    pub fn transactions(&self) -> impl Iterator<Item = &Transaction> {
        self.transactions.values()
    }
    pub fn timers(&self) -> impl Iterator<Item = (TransactionId, Deadline, Time)> {
        self.timers.iter().map(|((id, deadline), at)| (*id, *deadline, *at))
    }

    pub fn verify(&self) -> Vec<MarketDifference> {
        verify(self.accounts(), &self.journal, self.holds(), self.transactions(), [])
    }
}
