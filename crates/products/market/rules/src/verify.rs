//! The check of a whole ledger: computes every balance from the journal, every hold and entry from the transactions, and
//! names the differences. No row is trusted: each has to agree with the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use ledger::{
    Account, AccountId, AccountKind, EntryId, Hold, LedgerEntry, LedgerPosting, LineKind, TransactionId, TurnEntry, Ut,
};
use model::TurnId;

use crate::tariff::TurnHold;
use crate::transaction::{Deadline, Status, Transaction};

/// One difference, in words for an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarketDifference {
    #[error("{0}: two rows")]
    Twice(String),
    #[error("{account}: the row says {stored} after {lines} lines, the journal {told} after {told_lines}")]
    Balance { account: AccountId, stored: Ut, lines: u64, told: Sum, told_lines: u64 },
    #[error("{account}: line {no} of the journal does not follow from the one before it")]
    Chain { account: AccountId, no: u64 },
    #[error("{account}: {balance} is below zero")]
    Negative { account: AccountId, balance: Ut },
    #[error("{account}: {balance} is frozen, but open holds are {held}")]
    Frozen { account: AccountId, balance: Ut, held: Sum },
    #[error("tenant {tenant}: all accounts sum to {sum}, not to zero")]
    NotZero { tenant: Arc<str>, sum: Sum },
    #[error("entry {entry}: its lines sum to {sum}, not to zero")]
    Unbalanced { entry: EntryId, sum: Sum },
    #[error("entry {entry}: its lines are not those of one entry")]
    Torn { entry: EntryId },
    #[error("entry {entry}: missing, transaction {transaction} must have it")]
    EntryMissing { entry: EntryId, transaction: TransactionId },
    #[error("entry {entry}: not what transaction {transaction} must have booked")]
    EntryDiffers { entry: EntryId, transaction: TransactionId },
    #[error("entry {entry}: nothing explains it")]
    EntryStray { entry: EntryId },
    #[error("hold of {transaction}: missing")]
    HoldMissing { transaction: TransactionId },
    #[error("hold of {transaction}: not what the transaction must have")]
    HoldDiffers { transaction: TransactionId },
    #[error("hold of {transaction}: no transaction explains it")]
    HoldStray { transaction: TransactionId },
    #[error("turn {turn}: {what}")]
    Turn { turn: TurnId, what: &'static str },
    #[error("transaction {transaction}: {what}")]
    Transaction { transaction: TransactionId, what: &'static str },
}

/// A sum of amounts, wider than an amount: sums of damaged rows may overflow one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum(i128);

impl Sum {
    fn add(&mut self, amount: Ut) {
        self.0 += i128::from(amount.hundredths());
    }
    fn is(self, amount: Ut) -> bool {
        self.0 == i128::from(amount.hundredths())
    }
}
impl fmt::Display for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match i64::try_from(self.0) {
            Ok(hundredths) => Ut::from_hundredths(hundredths).fmt(f),
            Err(_) => write!(f, "{} hundredths", self.0),
        }
    }
}

/// All differences; empty if the rows agree. The rows may come in any order.
pub fn verify<'a>(
    accounts: impl IntoIterator<Item = &'a Account>,
    journal: impl IntoIterator<Item = &'a LedgerPosting>,
    holds: impl IntoIterator<Item = &'a Hold>,
    transactions: impl IntoIterator<Item = &'a Transaction>,
    turns: impl IntoIterator<Item = &'a TurnHold>,
) -> Vec<MarketDifference> {
    let mut found = Vec::new();
    let accounts = unique(accounts, |account| &account.id, |id| format!("account {id}"), &mut found);
    let holds = unique(holds, |hold| &hold.transaction, |id| format!("hold of {id}"), &mut found);
    let transactions = unique(transactions, |tx| &tx.id, |id| format!("transaction {id}"), &mut found);
    let turns = unique(turns, |hold| &hold.turn, |id| format!("hold of turn {id}"), &mut found);
    let mut by_account: BTreeMap<&AccountId, Vec<&LedgerPosting>> = BTreeMap::new();
    let mut by_entry: BTreeMap<&EntryId, Vec<&LedgerPosting>> = BTreeMap::new();
    for posting in journal {
        by_account.entry(&posting.account).or_default().push(posting);
        by_entry.entry(&posting.entry).or_default().push(posting);
    }

    balances(&accounts, by_account, &mut found);
    frozen(&accounts, &holds, &turns, &mut found);
    sums(&accounts, &mut found);
    for (entry, lines) in &mut by_entry {
        lines.sort_by_key(|posting| posting.line);
        balanced(entry, lines, &mut found);
    }
    let mut explained: BTreeSet<EntryId> = BTreeSet::new();
    for transaction in transactions.values() {
        if let Some(what) = contradiction(transaction) {
            found.push(MarketDifference::Transaction { transaction: transaction.id, what });
        }
        booked(transaction, &by_entry, &mut explained, &mut found);
        held(transaction, holds.get(&transaction.id).copied(), &mut found);
    }
    paid(&turns, &by_entry, &mut explained, &mut found);
    found.extend(
        by_entry
            .iter()
            .filter(|(entry, lines)| !explained.contains(**entry) && !is_across(entry, lines))
            .map(|(entry, _)| MarketDifference::EntryStray { entry: (*entry).clone() }),
    );
    found.extend(
        holds
            .keys()
            .filter(|id| !transactions.contains_key(**id))
            .map(|id| MarketDifference::HoldStray { transaction: **id }),
    );
    found
}

fn unique<'a, T, K: Ord>(
    rows: impl IntoIterator<Item = &'a T>,
    key: fn(&T) -> &K,
    name: fn(&K) -> String,
    found: &mut Vec<MarketDifference>,
) -> BTreeMap<&'a K, &'a T> {
    let mut map = BTreeMap::new();
    for row in rows {
        if map.insert(key(row), row).is_some() {
            found.push(MarketDifference::Twice(name(key(row))));
        }
    }
    map
}

/// Each account is the sum of its lines, and its lines follow from one another.
fn balances<'a>(
    accounts: &BTreeMap<&'a AccountId, &'a Account>,
    mut by_account: BTreeMap<&'a AccountId, Vec<&'a LedgerPosting>>,
    found: &mut Vec<MarketDifference>,
) {
    for account in accounts.keys() {
        by_account.entry(account).or_default();
    }
    for (id, mut lines) in by_account {
        lines.sort_by_key(|posting| posting.no);
        let mut told = Sum::default();
        let mut broken = None;
        for (posting, no) in lines.iter().zip(1_u64..) {
            told.add(posting.amount);
            if broken.is_none() && (posting.no != no || !told.is(posting.balance_after)) {
                broken = Some(MarketDifference::Chain { account: id.clone(), no: posting.no });
            }
        }
        found.extend(broken);
        let (stored, count) = accounts.get(id).map_or((Ut::ZERO, 0), |row| (row.balance, row.lines));
        let told_lines = lines.len() as u64;
        if !told.is(stored) || count != told_lines {
            found.push(MarketDifference::Balance { account: id.clone(), stored, lines: count, told, told_lines });
        }
        if stored.is_negative() && !id.may_be_negative() {
            found.push(MarketDifference::Negative { account: id.clone(), balance: stored });
        }
    }
}

/// Frozen balances are the sums of the open holds.
fn frozen(
    accounts: &BTreeMap<&AccountId, &Account>,
    holds: &BTreeMap<&TransactionId, &Hold>,
    turns: &BTreeMap<&TurnId, &TurnHold>,
    found: &mut Vec<MarketDifference>,
) {
    let mut frozen: BTreeMap<AccountId, Sum> = BTreeMap::new();
    for hold in holds.values().filter(|hold| hold.end.is_none()) {
        frozen.entry(AccountId::frozen(&hold.tenant, &hold.owner)).or_default().add(hold.amount);
    }
    for hold in turns.values() {
        frozen.entry(AccountId::frozen(&hold.tenant, &hold.payer)).or_default().add(hold.amount);
    }
    for id in accounts.keys().filter(|id| matches!(id.purse, AccountKind::Frozen(_))) {
        frozen.entry((*id).clone()).or_default();
    }
    for (account, held) in frozen {
        let balance = accounts.get(&account).map_or(Ut::ZERO, |row| row.balance);
        if !held.is(balance) {
            found.push(MarketDifference::Frozen { account, balance, held });
        }
    }
}

fn sums(accounts: &BTreeMap<&AccountId, &Account>, found: &mut Vec<MarketDifference>) {
    let mut tenants: BTreeMap<&Arc<str>, Sum> = BTreeMap::new();
    for account in accounts.values() {
        tenants.entry(&account.id.tenant).or_default().add(account.balance);
    }
    let unequal = tenants.into_iter().filter(|(_, sum)| !sum.is(Ut::ZERO));
    found.extend(unequal.map(|(tenant, sum)| MarketDifference::NotZero { tenant: tenant.clone(), sum }));
}

/// Each turn's money was held by one entry. A running turn has its hold, an ended one the entry that ended the hold.
fn paid(
    turns: &BTreeMap<&TurnId, &TurnHold>,
    by_entry: &BTreeMap<&EntryId, Vec<&LedgerPosting>>,
    explained: &mut BTreeSet<EntryId>,
    found: &mut Vec<MarketDifference>,
) {
    for (turn, hold) in turns {
        let name = EntryId::turn(**turn, TurnEntry::Hold);
        let what = match (hold.frozen(), by_entry.get(&name)) {
            (Err(_), _) => Some("its amounts make no entry"),
            (Ok(_), None) => Some("it has a hold that no entry made"),
            (Ok(expected), Some(lines)) if !is_same(&expected, lines) => Some("its hold is not what its entry says"),
            (Ok(_), Some(_)) => None,
        };
        found.extend(what.map(|what| MarketDifference::Turn { turn: **turn, what }));
    }
    for (entry, lines) in by_entry {
        let Some((turn, which)) = entry.of_turn() else { continue };
        explained.insert((*entry).clone());
        let (hold, end) = (EntryId::turn(turn, TurnEntry::Hold), EntryId::turn(turn, TurnEntry::End));
        let what = match which {
            TurnEntry::Hold => match (turns.contains_key(&turn), by_entry.get(&end)) {
                _ if frozen_by(lines).is_none() => Some("what set its money aside is no such entry"),
                (true, Some(_)) => Some("it was paid for, and its money is still set aside"),
                (false, None) => Some("its money was set aside, and neither hold nor payment is there"),
                (false, Some(paid)) if !ends(lines, paid) => Some("what was paid for it is not what was set aside"),
                (true, None) | (false, Some(_)) => None,
            },
            TurnEntry::End => match by_entry.get(&hold) {
                None => Some("it was paid for out of nothing that was set aside"),
                Some(_) => None,
            },
        };
        found.extend(what.map(|what| MarketDifference::Turn { turn, what }));
    }
}

/// The owner and the amount of the money that an entry holds.
fn frozen_by<'a>(lines: &[&'a LedgerPosting]) -> Option<(&'a AccountId, Ut)> {
    let [from, to] = lines else { return None };
    let (AccountKind::Available(payer), AccountKind::Frozen(owner)) = (&from.account.purse, &to.account.purse) else {
        return None;
    };
    let is_one = payer == owner && from.kind == LineKind::Freeze && to.kind == LineKind::Freeze;
    (is_one && to.amount.is_positive()).then_some((&to.account, to.amount))
}

/// Whether an entry ends exactly the hold of another entry.
fn ends(hold: &[&LedgerPosting], end: &[&LedgerPosting]) -> bool {
    let Some((frozen, amount)) = frozen_by(hold) else { return false };
    let mut out = Sum::default();
    for line in end {
        match (line.kind, &line.account.purse) {
            (LineKind::SettleOut | LineKind::Unfreeze, AccountKind::Frozen(_)) if line.account == *frozen => {
                out.add(line.amount);
            }
            (LineKind::Unfreeze, AccountKind::Available(_)) if line.account == hold[0].account => {}
            (LineKind::Income, AccountKind::Available(_)) | (LineKind::Commission, AccountKind::Commission) => {}
            (
                LineKind::Freeze
                | LineKind::Unfreeze
                | LineKind::SettleOut
                | LineKind::Income
                | LineKind::Commission
                | LineKind::Recharge
                | LineKind::Withdraw,
                AccountKind::Available(_) | AccountKind::Frozen(_) | AccountKind::Commission | AccountKind::Outside,
            ) => return false,
        }
    }
    amount.negated().is_some_and(|all| out.is(all)) && hold[0].note == end[0].note
}

/// Each entry has all its lines in order, about one transaction, with the sum zero.
fn balanced(entry: &EntryId, lines: &[&LedgerPosting], found: &mut Vec<MarketDifference>) {
    let mut sum = Sum::default();
    for posting in lines {
        sum.add(posting.amount);
    }
    if !sum.is(Ut::ZERO) {
        found.push(MarketDifference::Unbalanced { entry: entry.clone(), sum });
    }
    let one = lines.iter().zip(0_u8..).all(|(posting, place)| {
        let first = lines[0];
        posting.line == place
            && posting.at == first.at
            && posting.note == first.note
            && posting.transaction == first.transaction
            && posting.account.tenant == first.account.tenant
    });
    if !one {
        found.push(MarketDifference::Torn { entry: entry.clone() });
    }
}

/// The journal has exactly the entries that the transaction implies.
fn booked(
    transaction: &Transaction,
    by_entry: &BTreeMap<&EntryId, Vec<&LedgerPosting>>,
    explained: &mut BTreeSet<EntryId>,
    found: &mut Vec<MarketDifference>,
) {
    let id = transaction.id;
    let Ok(entries) = transaction.entries() else {
        found.push(MarketDifference::Transaction { transaction: id, what: "its amounts make no entry" });
        return;
    };
    for expected in entries {
        let entry = expected.id().clone();
        match by_entry.get(&entry) {
            None => found.push(MarketDifference::EntryMissing { entry: entry.clone(), transaction: id }),
            Some(lines) if !is_same(&expected, lines) => {
                found.push(MarketDifference::EntryDiffers { entry: entry.clone(), transaction: id });
            }
            Some(_) => {}
        }
        explained.insert(entry);
    }
}

fn is_same(expected: &LedgerEntry, lines: &[&LedgerPosting]) -> bool {
    let head = expected.head();
    expected.lines().len() == lines.len()
        && expected.lines().iter().zip(lines).all(|(line, posting)| {
            (&line.account, line.kind, line.amount) == (&posting.account, posting.kind, posting.amount)
                && (head.at, head.transaction, &head.note) == (posting.at, posting.transaction, &posting.note)
        })
}

/// Money from or to the outside: entries without a transaction.
fn is_across(entry: &EntryId, lines: &[&LedgerPosting]) -> bool {
    let [from, to] = lines else { return false };
    let outside = match (from.kind, &from.account.purse, &to.account.purse) {
        (LineKind::Recharge, AccountKind::Outside, AccountKind::Available(_)) => true,
        (LineKind::Withdraw, AccountKind::Available(_), AccountKind::Outside) => true,
        (
            LineKind::Freeze
            | LineKind::Unfreeze
            | LineKind::SettleOut
            | LineKind::Income
            | LineKind::Commission
            | LineKind::Recharge
            | LineKind::Withdraw,
            AccountKind::Available(_) | AccountKind::Frozen(_) | AccountKind::Commission | AccountKind::Outside,
            AccountKind::Available(_) | AccountKind::Frozen(_) | AccountKind::Commission | AccountKind::Outside,
        ) => false,
    };
    let named = entry.as_str().starts_with(&format!("{}/{}/", from.kind.name(), from.account.tenant));
    outside && named && to.kind == from.kind && to.amount.is_positive() && from.transaction.is_none()
}

fn held(transaction: &Transaction, stored: Option<&Hold>, found: &mut Vec<MarketDifference>) {
    let id = transaction.id;
    match (transaction.hold(), stored) {
        (None, None) => {}
        (Some(_), None) => found.push(MarketDifference::HoldMissing { transaction: id }),
        (None, Some(_)) => found.push(MarketDifference::HoldStray { transaction: id }),
        (Some(expected), Some(stored)) if expected != *stored => {
            found.push(MarketDifference::HoldDiffers { transaction: id });
        }
        (Some(_), Some(_)) => {}
    }
}

/// A state that no sequence of steps can produce.
fn contradiction(transaction: &Transaction) -> Option<&'static str> {
    let Transaction { status, price, commission, .. } = transaction;
    if price.is_negative() || commission.is_negative() || commission > price {
        return Some("its price or commission cannot be");
    }
    if transaction.buyer == transaction.seller {
        return Some("its buyer is its seller");
    }
    if transaction.settled_at.is_some() != (*status == Status::Settled) {
        return Some("it is settled without a time, or has one without being settled");
    }
    let frozen = match status {
        Status::PendingFreeze => Some(false),
        Status::CancelledByBuyer => None,
        Status::Frozen | Status::Accepted | Status::Delivered | Status::Settled => Some(true),
        Status::RejectedBySeller | Status::Failed => Some(true),
    };
    if frozen.is_some_and(|frozen| frozen != transaction.frozen_at.is_some()) {
        return Some("it was never frozen, or is frozen without being so");
    }
    let deadline = match status {
        Status::Frozen => Some(Deadline::Accept),
        Status::Accepted => Some(Deadline::Deliver),
        Status::Delivered => Some(Deadline::Confirm),
        Status::PendingFreeze
        | Status::Settled
        | Status::CancelledByBuyer
        | Status::RejectedBySeller
        | Status::Failed => None,
    };
    if transaction.due.map(|due| due.deadline) != deadline {
        return Some("its deadline is not that of its status");
    }
    (transaction.awaits_approval() && status.holds_money()).then_some("it went on without its buyer's confirmation")
}
