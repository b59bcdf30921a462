//! Checks that the ledger is consistent.

use std::collections::BTreeMap;
use std::sync::Arc;

use ledger::{AccountId, Row, UserId};
use market_rules::Transaction;
use model::RecordQuery;

use super::{Fair, TENANT};

/// A user's available balance, in hundredths.
pub(crate) async fn balance(fair: &Fair, user: &str) -> i64 {
    of(fair, &AccountId::available(&TENANT.into(), &UserId::from(user))).await
}

pub(crate) async fn frozen(fair: &Fair, user: &str) -> i64 {
    of(fair, &AccountId::frozen(&TENANT.into(), &UserId::from(user))).await
}

async fn of(fair: &Fair, account: &AccountId) -> i64 {
    fair.engine().store().balances(vec![account.key().into()]).await.unwrap()[0]
}

async fn rows<R: Row>(fair: &Fair, kind: &str, list: &str) -> Vec<R> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let query = RecordQuery { kind: kind.into(), list: list.into(), after, skip: 0, limit: 500, count: false };
        let page = fair.engine().store().records(query).await.unwrap();
        after = page.records.last().map(|(record, rank)| (*rank, record.key.clone()));
        all.extend(page.records.iter().map(|(record, _)| R::from_row(&record.body).unwrap()));
        if !page.more {
            return all;
        }
    }
}

pub(crate) async fn purchases(fair: &Fair) -> Vec<Transaction> {
    rows(fair, "market/transaction", "all").await
}

/// Every balance is the sum of its entries, the total is conserved, and holds and tasks agree with their purchases.
pub(crate) async fn adds_up(fair: &Fair) -> Vec<Transaction> {
    let store = fair.engine().store();
    let accounts = store.accounts(None, usize::MAX).await.unwrap();
    assert_eq!(accounts.iter().map(|(_, sum)| sum).sum::<i64>(), 0, "{accounts:?}");
    let mut sums: BTreeMap<Arc<str>, i64> = BTreeMap::new();
    for (_, entry) in store.journal(0, usize::MAX).await.unwrap() {
        assert_eq!(entry.postings.iter().map(|posting| posting.amount).sum::<i64>(), 0);
        for posting in entry.postings {
            *sums.entry(posting.account).or_default() += posting.amount;
        }
    }
    for (account, sum) in &accounts {
        assert_eq!(sums.get(account).copied().unwrap_or_default(), *sum, "{account}");
        assert!(*sum >= 0 || account.starts_with('o'), "{account} has {sum}");
    }
    let rows = purchases(fair).await;
    let mut held: BTreeMap<String, i64> = BTreeMap::new();
    let mut entries = 0;
    for row in &rows {
        if let Some(hold) = row.hold().filter(|hold| hold.end.is_none()) {
            *held.entry(AccountId::frozen(&row.tenant, &row.buyer).key()).or_default() += hold.amount.hundredths();
        }
        entries += row.entries().unwrap().len();
        let task = fair.engine().task(row.id.0).await.unwrap().unwrap();
        assert_eq!(task.state(), row.state(), "{row:?}");
    }
    for (account, sum) in accounts.iter().filter(|(account, _)| account.starts_with('f')) {
        assert_eq!(held.get(&**account).copied().unwrap_or_default(), *sum, "{account}");
    }
    let from_outside = store.journal(0, usize::MAX).await.unwrap();
    let from_outside =
        from_outside.iter().filter(|(_, e)| e.postings.iter().any(|p| p.account.starts_with('o'))).count();
    assert_eq!(store.health().await.unwrap().entries as usize, entries + from_outside);
    rows
}
