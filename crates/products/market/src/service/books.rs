//! Books for operators: pages of the journal with running balances, accounts, purchases, and what is set aside.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ledger::records::{decode, read_fault};
use ledger::{AccountId, Row, Ut};
use market_rules::tariff::TurnHold;
use market_rules::transaction::Status;
use market_rules::{Capability, Transaction};
use model::ports::store::Store;
use model::{Balance, TaskId, Time};

use crate::service::figures::LOOKED_AT;
use crate::service::records::{self, ALL, Booked};
use crate::service::wallet::account_of;
use crate::service::{Error, Market, offers};

/// Entries of one look at the journal, and the most looks for one page.
const LOOK: usize = 500;
const LOOKS: usize = 20;
/// Rows of one look at purchases, and the most looks for one page.
const ROWS: u32 = 200;

/// A page of a list, and where the next begins.
#[derive(Clone, Debug)]
pub(crate) struct BookPage<T, N> {
    pub(crate) rows: Vec<T>,
    pub(crate) next: Option<N>,
}

/// An entry of the journal with the balance of each account after its line.
#[derive(Clone, Debug)]
pub(crate) struct BalancedEntry {
    pub(crate) place: u64,
    pub(crate) at: Time,
    pub(crate) booked: Booked,
    /// One for each line; none where the page has only some entries of the account.
    pub(crate) balances: Vec<Option<Ut>>,
}

/// Purchases in one status.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Escrow {
    pub(crate) purchases: u64,
    /// The money that is set aside for them.
    pub(crate) held: Ut,
    /// Their prices.
    pub(crate) price: Ut,
}

/// The money that is set aside for purchases and for turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetAside {
    pub(crate) by_status: BTreeMap<&'static str, Escrow>,
    pub(crate) turns: u64,
    pub(crate) turns_held: Ut,
    /// All purchases were counted.
    pub(crate) is_whole: bool,
}

fn sum(a: Ut, b: Ut) -> Ut {
    a.plus(b).unwrap_or(a)
}

/// The number after the last place of the journal: found by halving, since the journal is read from its beginning.
async fn end(store: &dyn Store) -> Result<u64, Error> {
    let (mut low, mut high) = (0_u64, 1_u64);
    let is_after =
        async |place: u64| -> Result<bool, Error> { Ok(store.journal(place, 1).await.map_err(read_fault)?.is_empty()) };
    while !is_after(high).await? {
        low = high;
        high = high.saturating_mul(2);
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_after(middle).await? { high = middle } else { low = middle }
    }
    Ok(high.saturating_add(1))
}

impl Market {
    /// Entries of the market before a place, the newest first; of one account, if it is named.
    pub(crate) async fn journal_page(
        &self,
        account: Option<&AccountId>,
        before: Option<u64>,
        limit: usize,
    ) -> Result<BookPage<BalancedEntry, u64>, Error> {
        match account {
            Some(account) => self.account_page(account, before, limit).await,
            None => self.whole_page(before, limit).await,
        }
    }

    async fn account_page(
        &self,
        account: &AccountId,
        before: Option<u64>,
        limit: usize,
    ) -> Result<BookPage<BalancedEntry, u64>, Error> {
        let lines = self.store().statement(account.key().into(), before, limit).await.map_err(read_fault)?;
        let next = lines.last().filter(|_| lines.len() == limit).map(|line| line.no);
        let mut rows = Vec::with_capacity(lines.len());
        for line in lines {
            let booked: Booked = decode(&line.body)?;
            let mut balances = vec![None; booked.lines.len()];
            let mut balance = Ut::from_hundredths(line.balance);
            for (told, balanced) in booked.lines.iter().zip(&mut balances).rev() {
                if told.account == *account {
                    *balanced = Some(balance);
                    balance = balance.minus(told.amount).unwrap_or(balance);
                }
            }
            rows.push(BalancedEntry { place: line.no, at: line.at, booked, balances });
        }
        Ok(BookPage { rows, next })
    }

    async fn whole_page(&self, before: Option<u64>, limit: usize) -> Result<BookPage<BalancedEntry, u64>, Error> {
        let (store, tenant) = (self.store(), self.config().tenant.clone());
        let mut top = match before {
            Some(before) => before,
            None => end(store).await?,
        };
        let mut rows: Vec<BalancedEntry> = Vec::new();
        for _ in 0..LOOKS {
            if top <= 1 || rows.len() == limit {
                break;
            }
            // Places `top - LOOK` to `top - 1`.
            let after = top.saturating_sub(1 + LOOK as u64);
            let mut look = store.journal(after, LOOK).await.map_err(read_fault)?;
            look.retain(|(place, _)| *place < top);
            top = after + 1;
            for (place, entry) in look.into_iter().rev() {
                let Ok(booked) = Booked::from_row(&entry.body) else { continue };
                if !booked.lines.iter().any(|line| line.account.tenant == tenant) {
                    continue;
                }
                if rows.len() == limit {
                    top = rows.last().map_or(top, |last| last.place);
                    break;
                }
                let balances = vec![None; booked.lines.len()];
                rows.push(BalancedEntry { place, at: entry.at, booked, balances });
            }
        }
        self.fill_balances(&mut rows).await?;
        Ok(BookPage { rows, next: Some(top).filter(|top| *top > 1) })
    }

    /// The balances after each line of entries that follow each other, the newest first.
    async fn fill_balances(&self, rows: &mut [BalancedEntry]) -> Result<(), Error> {
        let mut accounts: HashMap<Arc<str>, (u64, usize)> = HashMap::new();
        for row in rows.iter() {
            for line in &row.booked.lines {
                let (_, count) = accounts.entry(line.account.key().into()).or_insert((row.place, 0));
                *count += 1;
            }
        }
        for (key, (newest, count)) in accounts {
            let lines =
                self.store().statement(key.clone(), Some(newest.saturating_add(1)), count).await.map_err(read_fault)?;
            let told: HashMap<u64, i64> = lines.iter().map(|line| (line.no, line.balance)).collect();
            for row in rows.iter_mut() {
                let Some(balance) = told.get(&row.place) else { continue };
                let mut balance = Ut::from_hundredths(*balance);
                for (line, balanced) in row.booked.lines.iter().zip(&mut row.balances).rev() {
                    if *line.account.key() == *key {
                        *balanced = Some(balance);
                        balance = balance.minus(line.amount).unwrap_or(balance);
                    }
                }
            }
        }
        Ok(())
    }

    /// Accounts of the market with their balances: those of the platform, then those of users by name.
    pub(crate) async fn accounts_page(
        &self,
        after: Option<Arc<str>>,
        limit: usize,
    ) -> Result<BookPage<(AccountId, Ut), Arc<str>>, Error> {
        let tenant = self.config().tenant.clone();
        let own = [AccountId::commission(&tenant), AccountId::outside(&tenant)].map(|one| Arc::<str>::from(one.key()));
        let place = after.as_ref().map(|after| own.iter().position(|one| one == after));
        let own = match place {
            None => own.to_vec(),
            Some(place) => place.map_or(Vec::new(), |place| own[place + 1..].to_vec()),
        };
        // The accounts of users begin after those of the platform.
        let after = after.filter(|_| place == Some(None));
        let balances = self.store().balances(own.clone()).await.map_err(read_fault)?;
        let mut found: Vec<Balance> = own.into_iter().zip(balances).collect();
        for purse in ["a", "f"] {
            let first: Arc<str> = format!("{purse}\u{1f}{tenant}\u{1f}").into();
            let mut from = match &after {
                Some(after) if after.starts_with(&*first) => Some(after.clone()),
                // The page before has ended among the accounts that follow.
                Some(after) if **after > *first => None,
                Some(_) | None => Some(first.clone()),
            };
            while let Some(start) = from.take()
                && found.len() <= limit
            {
                let page = self.store().accounts(Some(start), LOOK).await.map_err(read_fault)?;
                let last = page.last().map(|(key, _)| key.clone()).filter(|_| page.len() == LOOK);
                from = last.filter(|key| key.starts_with(&*first));
                found.extend(page.into_iter().filter(|(key, _)| key.starts_with(&*first)));
            }
        }
        let next = (found.len() > limit).then(|| found[limit - 1].0.clone());
        found.truncate(limit);
        let rows =
            found.into_iter().filter_map(|(key, balance)| Some((account_of(&key)?, Ut::from_hundredths(balance))));
        Ok(BookPage { rows: rows.collect(), next })
    }

    /// Purchases, the newest first; in one status, if it is named.
    pub(crate) async fn purchases_page(
        &self,
        status: Option<Status>,
        after: Option<(i64, Arc<str>)>,
        limit: usize,
    ) -> Result<BookPage<Transaction, (i64, Arc<str>)>, Error> {
        let (mut rows, mut after) = (Vec::new(), after);
        for _ in 0..LOOKS {
            let page = records::TRANSACTIONS.records(self.store(), ALL, after.clone(), ROWS).await?;
            for (record, rank) in &page.records {
                if rows.len() == limit {
                    return Ok(BookPage { rows, next: after });
                }
                after = Some((*rank, record.key.clone()));
                let row: Transaction = decode(&record.body)?;
                if status.is_none_or(|status| row.status == status) && row.tenant == self.config().tenant {
                    rows.push(row);
                }
            }
            if !page.more {
                return Ok(BookPage { rows, next: None });
            }
        }
        Ok(BookPage { rows, next: after })
    }

    /// Capabilities that are on the market, the newest first.
    pub(crate) async fn listings_page(
        &self,
        after: Option<(i64, Arc<str>)>,
        limit: u32,
    ) -> Result<BookPage<Capability, (i64, Arc<str>)>, Error> {
        let list = offers::on_market(&self.config().tenant);
        let page = records::CAPABILITIES.records(self.store(), list, after, limit).await?;
        let next = page.records.last().filter(|_| page.more).map(|(record, rank)| (*rank, record.key.clone()));
        let rows = page.records.iter().map(|(record, _)| decode(&record.body)).collect::<Result<_, _>>()?;
        Ok(BookPage { rows, next })
    }

    /// The money that is set aside, by the status of purchases.
    pub(crate) async fn set_aside(&self) -> Result<SetAside, Error> {
        let tenant = self.config().tenant.clone();
        let (mut aside, mut seen) = (SetAside::default(), 0_u32);
        self.walk_rows(records::TRANSACTIONS, ALL.into(), |one: Transaction| {
            seen += 1;
            if one.tenant == tenant {
                let escrow = aside.by_status.entry(one.status.name()).or_default();
                escrow.purchases += 1;
                escrow.price = sum(escrow.price, one.price);
                if one.status.holds_money() {
                    escrow.held = sum(escrow.held, one.price);
                }
            }
        })
        .await?;
        self.walk_rows(records::TURN_HOLDS, ALL.into(), |hold: TurnHold| {
            if hold.tenant == tenant {
                aside.turns += 1;
                aside.turns_held = sum(aside.turns_held, hold.amount);
            }
        })
        .await?;
        aside.is_whole = seen < LOOKED_AT;
        Ok(aside)
    }

    /// The purchase that is this task, if it is one.
    pub(crate) async fn purchase_of_task(&self, task: TaskId) -> Result<Option<Transaction>, Error> {
        let key = records::transaction_key(task.into());
        Ok(self.read(records::TRANSACTIONS, key).await?.map(|(row, _)| row))
    }
}
