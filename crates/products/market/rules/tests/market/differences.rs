//! Every difference is named, so that an operator knows where to look: each damage and its full report.

use ledger::{EntryId, Ut};
use market_rules::transaction::Status;
use market_rules::verify;

use crate::bazaar::{Bazaar, Op};
use crate::corruptions::Rows;

/// One purchase that is settled and one whose money is frozen.
fn rows() -> Rows {
    let mut bazaar = Bazaar::new(true, "0.10");
    for user in [0, 2] {
        bazaar.run(&Op::Buy { user, capability: 3, person: true, hours: None, token: None }).unwrap();
    }
    for _ in 0..3 {
        bazaar.run(&Op::Advance { transaction: 1 }).unwrap();
    }
    let rows = Rows::of(&bazaar);
    let statuses: Vec<Status> = rows.transactions.iter().map(|transaction| transaction.status).collect();
    assert_eq!(statuses, [Status::Settled, Status::Frozen]);
    rows
}

#[test]
fn what_is_wrong_is_named() {
    let cent = Ut::from_hundredths(1);
    let mut page = String::new();
    let mut damage = |name: &str, damage: &dyn Fn(&mut Rows)| {
        let mut damaged = rows();
        damage(&mut damaged);
        page += &format!("-- {name}\n");
        for difference in verify(&damaged.accounts, &damaged.journal, &damaged.holds, &damaged.transactions, []) {
            page += &format!("{difference}\n");
        }
    };
    damage("nothing", &|_| {});
    damage("a balance is a hundredth more", &|rows| {
        rows.accounts[0].balance = rows.accounts[0].balance.plus(cent).unwrap();
    });
    damage("a balance is below zero", &|rows| rows.accounts[0].balance = Ut::from_hundredths(-1));
    damage("an account is lost", &|rows| drop(rows.accounts.remove(0)));
    damage("an account is there twice", &|rows| rows.accounts.push(rows.accounts[0].clone()));
    damage("the amount of the last line is changed", &|rows| {
        let last = rows.journal.last_mut().unwrap();
        last.amount = last.amount.plus(cent).unwrap();
    });
    damage("the last line is lost", &|rows| drop(rows.journal.pop()));
    damage("the last line is at another time", &|rows| {
        let last = rows.journal.last_mut().unwrap();
        last.at = last.at.plus_ms(1);
    });
    damage("a whole entry is lost, with what it did", &|rows| {
        let lost = EntryId::freeze(rows.transactions[1].id);
        for line in rows.journal.iter().filter(|line| line.entry == lost) {
            let account = rows.accounts.iter_mut().find(|account| account.id == line.account).unwrap();
            account.balance = account.balance.minus(line.amount).unwrap();
            account.lines -= 1;
        }
        rows.journal.retain(|line| line.entry != lost);
    });
    damage("a hold is lost", &|rows| drop(rows.holds.pop()));
    damage("a hold is larger", &|rows| rows.holds[1].amount = rows.holds[1].amount.plus(cent).unwrap());
    damage("a transaction is lost", &|rows| drop(rows.transactions.pop()));
    damage("a settled transaction has failed", &|rows| rows.transactions[0].status = Status::Failed);
    damage("a transaction was never frozen", &|rows| rows.transactions[1].frozen_at = None);
    damage("the price cannot be", &|rows| rows.transactions[1].price = Ut::from_hundredths(i64::MAX));
    damage("sums that fit in no number", &|rows| {
        rows.accounts[0].balance = Ut::from_hundredths(i64::MAX);
        rows.accounts[1].balance = Ut::from_hundredths(i64::MAX);
    });
    insta::assert_snapshot!("differences", page);
}
