//! `verify` finds any single damage of the rows: each field of each row is damaged in turn.

use std::sync::Arc;

use ledger::{Account, AccountId, AccountKind, EntryId, Hold, HoldEnd, LedgerPosting, LineKind, TransactionId, Ut};
use market_rules::transaction::Status;
use market_rules::{Transaction, verify};
use model::{TaskId, Time};
use proptest::prelude::*;
use uuid::Uuid;

use crate::bazaar::{Bazaar, ops};

#[derive(Clone)]
pub(crate) struct Rows {
    pub(crate) accounts: Vec<Account>,
    pub(crate) journal: Vec<LedgerPosting>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) transactions: Vec<Transaction>,
}

impl Rows {
    pub(crate) fn of(bazaar: &Bazaar) -> Rows {
        Rows {
            accounts: bazaar.book.accounts().cloned().collect(),
            journal: bazaar.book.journal().to_vec(),
            holds: bazaar.book.holds().cloned().collect(),
            transactions: bazaar.book.transactions().cloned().collect(),
        }
    }
    fn clean(&self) -> bool {
        verify(&self.accounts, &self.journal, &self.holds, &self.transactions, []).is_empty()
    }
}

fn more(amount: Ut) -> Ut {
    amount.plus(Ut::from_hundredths(1)).unwrap()
}
fn later(time: Time) -> Time {
    time.plus_ms(1)
}
fn nobody() -> TransactionId {
    TransactionId(TaskId(Uuid::from_u128(u128::MAX)))
}
fn elsewhere(account: &AccountId) -> AccountId {
    let tenant: Arc<str> = account.tenant.clone();
    match &account.purse {
        AccountKind::Available(user) => AccountId::frozen(&tenant, user),
        AccountKind::Frozen(user) => AccountId::available(&tenant, user),
        AccountKind::Commission => AccountId::outside(&tenant),
        AccountKind::Outside => AccountId::commission(&tenant),
    }
}

type Damage<T> = (&'static str, fn(&mut T));

const POSTING: &[Damage<LedgerPosting>] = &[
    ("amount", |row| row.amount = more(row.amount)),
    ("sign", |row| row.amount = row.amount.negated().unwrap()),
    ("balance_after", |row| row.balance_after = more(row.balance_after)),
    ("purse", |row| row.account = elsewhere(&row.account)),
    ("owner", |row| row.account = AccountId::available(&row.account.tenant, &"mallory".into())),
    ("tenant", |row| row.account.tenant = "west".into()),
    ("kind", |row| {
        let mut others = LineKind::ALL.into_iter().filter(|kind| *kind != row.kind);
        row.kind = others.next_back().unwrap();
    }),
    ("no", |row| row.no += 1),
    ("line", |row| row.line += 1),
    ("entry", |row| row.entry = EntryId::freeze(nobody())),
    ("transaction", |row| row.transaction = Some(nobody())),
    ("at", |row| row.at = later(row.at)),
    ("note", |row| row.note = Some("a gift".into())),
];

const ACCOUNT: &[Damage<Account>] = &[
    ("balance", |row| row.balance = more(row.balance)),
    ("lines", |row| row.lines += 1),
    ("purse", |row| row.id = elsewhere(&row.id)),
];

const HOLD: &[Damage<Hold>] = &[
    ("amount", |row| row.amount = more(row.amount)),
    ("owner", |row| row.owner = "mallory".into()),
    ("tenant", |row| row.tenant = "west".into()),
    ("transaction", |row| row.transaction = nobody()),
    ("made_at", |row| row.made_at = later(row.made_at)),
    ("end", |row| {
        row.end = match row.end {
            Some(_) => None,
            None => Some(HoldEnd { settled: row.amount, released: Ut::ZERO, at: row.made_at }),
        }
    }),
    ("how it ended", |row| {
        row.end = match row.end {
            Some(end) => Some(HoldEnd { settled: end.released, released: end.settled, ..end }),
            None => Some(HoldEnd { settled: Ut::ZERO, released: row.amount, at: row.made_at }),
        }
    }),
    ("when it ended", |row| {
        row.end = match row.end {
            Some(end) => Some(HoldEnd { at: later(end.at), ..end }),
            None => Some(HoldEnd { settled: Ut::ZERO, released: row.amount, at: later(row.made_at) }),
        }
    }),
];

/// Of transactions that have or had money in them.
const TRANSACTION: &[Damage<Transaction>] = &[
    ("id", |row| row.id = nobody()),
    ("tenant", |row| row.tenant = "west".into()),
    ("buyer", |row| row.buyer = "mallory".into()),
    ("price", |row| row.price = more(row.price)),
    ("free", |row| row.price = Ut::ZERO),
    ("frozen_at", |row| row.frozen_at = None),
    ("frozen later", |row| row.frozen_at = row.frozen_at.map(later)),
    ("settled_at", |row| row.settled_at = row.settled_at.xor(Some(row.updated_at))),
];

fn found<T: Clone>(
    rows: &Rows,
    kind: &str,
    list: fn(&mut Rows) -> &mut Vec<T>,
    damages: &[Damage<T>],
    touch: impl Fn(&T) -> bool,
) -> Result<(), TestCaseError> {
    let mut copy = rows.clone();
    let all: Vec<T> = list(&mut copy).clone();
    for (i, row) in all.iter().enumerate().filter(|(_, row)| touch(row)) {
        for (what, damage) in damages {
            let mut damaged = rows.clone();
            damage(&mut list(&mut damaged)[i]);
            prop_assert!(!damaged.clean(), "{} {}: damage to {} was not found", kind, i, what);
        }
        let mut damaged = rows.clone();
        list(&mut damaged).remove(i);
        prop_assert!(!damaged.clean(), "{} {}: its loss was not found", kind, i);
        let mut damaged = rows.clone();
        list(&mut damaged).push(row.clone());
        prop_assert!(!damaged.clean(), "{} {}: its double was not found", kind, i);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn every_single_damage_is_found(auto_freeze: bool, ops in ops(80)) {
        let mut bazaar = Bazaar::new(auto_freeze, "0.10");
        for op in &ops {
            let _ = bazaar.run(op);
        }
        let rows = Rows::of(&bazaar);
        prop_assert!(rows.clean());
        found(&rows, "posting", |rows| &mut rows.journal, POSTING, |_| true)?;
        found(&rows, "account", |rows| &mut rows.accounts, ACCOUNT, |_| true)?;
        found(&rows, "hold", |rows| &mut rows.holds, HOLD, |_| true)?;
        let had_money = |row: &Transaction| row.frozen_at.is_some() && row.price.is_positive();
        found(&rows, "transaction", |rows| &mut rows.transactions, TRANSACTION, had_money)?;

        for i in 0..rows.transactions.len() {
            let row = &rows.transactions[i];
            // Which of the two ways to give money back it was, the books cannot know; all else they do.
            let back = |status| matches!(status, Status::CancelledByBuyer | Status::RejectedBySeller | Status::Failed);
            for status in Status::ALL.iter().copied().filter(|s| *s != row.status && !(back(*s) && back(row.status))) {
                // An order without money may have been cancelled or not; nothing hangs on it.
                if !had_money(row) && back(status) && row.frozen_at.is_none() {
                    continue;
                }
                let mut damaged = rows.clone();
                damaged.transactions[i].status = status;
                let unfrozen = row.status == Status::CancelledByBuyer && row.frozen_at.is_none();
                if unfrozen && status == Status::PendingFreeze {
                    continue;
                }
                prop_assert!(!damaged.clean(), "{} as {} was not found", row.status.name(), status.name());
            }
            if row.status == Status::Settled && had_money(row) {
                let mut damaged = rows.clone();
                damaged.transactions[i].seller = "mallory".into();
                prop_assert!(!damaged.clean(), "another seller was not found");
                let mut damaged = rows.clone();
                damaged.transactions[i].commission = more(row.commission);
                prop_assert!(!damaged.clean(), "another commission was not found");
            }
        }

        // Two damages that hide each other in every sum.
        for (i, j) in (0..rows.accounts.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let mut damaged = rows.clone();
            damaged.accounts[i].balance = more(rows.accounts[i].balance);
            damaged.accounts[j].balance = rows.accounts[j].balance.minus(Ut::from_hundredths(1)).unwrap();
            prop_assert!(!damaged.clean(), "money moved between accounts was not found");
        }
    }
}
