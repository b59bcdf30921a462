//! Recovery of purchases under way that have no timer.
//!
//! Every step of a purchase sets the timer of its task, so a purchase has no timer only after a failure: its task was
//! removed, or the timer was lost. The buyer's money would then stay held without end. The walk goes from accounts with
//! held money to the open purchases of their users, so that its cost depends on open purchases only.

use std::collections::HashSet;
use std::time::Duration;

use ledger::records::read_fault;
use ledger::{AccountId, TransactionId, UserId};
use market_rules::transaction::{Role, TransactionAction};
use market_rules::{Actor, Transaction};
use model::ports::store::TimerKind;

use crate::service::records::{self, PurchaseList};
use crate::service::{Error, Market};

const WALK_EVERY: Duration = Duration::from_secs(600);
/// Number of accounts and timers in one read.
const AT_ONCE: usize = 500;
/// Number of open purchases of one user that one walk reads.
const OF_ONE: u32 = 10_000;

impl Market {
    /// Recovers every purchase with held money that has no timer. Returns their number.
    pub async fn find_strays(&self) -> Result<u64, Error> {
        let tenant = self.config().tenant.clone();
        let prefix = AccountId::frozen(&tenant, &UserId::from("")).key();
        let (mut after, mut found) = (Some(prefix.as_str().into()), 0);
        loop {
            let page = self.engine().store().accounts(after.take(), AT_ONCE).await.map_err(read_fault)?;
            for (account, balance) in &page {
                let Some(user) = account.strip_prefix(&prefix) else { return Ok(found) };
                if *balance > 0 {
                    found += self.strays_of(&UserId::from(user)).await?;
                }
            }
            match page.last() {
                Some((last, _)) if page.len() == AT_ONCE => after = Some(last.clone()),
                Some(_) | None => return Ok(found),
            }
        }
    }

    async fn strays_of(&self, buyer: &UserId) -> Result<u64, Error> {
        let list = records::purchases(Role::Buyer, &self.config().tenant, buyer, PurchaseList::Open);
        let mut open: Vec<Transaction> = Vec::new();
        self.walk_first(records::TRANSACTIONS, list, OF_ONE, |row: Transaction| {
            if row.due.is_some() {
                open.push(row);
            }
        })
        .await?;
        let mut found = 0;
        for rows in open.chunks(AT_ONCE) {
            let timed = self.timed(rows).await?;
            for row in rows.iter().filter(|row| !timed.contains(&row.id)) {
                found += u64::from(self.bring_back(row).await?);
            }
        }
        Ok(found)
    }

    /// The purchases that have a timer.
    async fn timed(&self, rows: &[Transaction]) -> Result<HashSet<TransactionId>, Error> {
        let ids = rows.iter().map(|row| row.id.0).collect();
        let timers = self.engine().store().timers(ids).await.map_err(read_fault)?;
        let deadlines = timers.into_iter().filter(|timer| timer.kind == TimerKind::Deadline);
        Ok(deadlines.map(|timer| timer.task.into()).collect())
    }

    /// Ends a purchase whose deadline has passed, or sets its timer again. Returns whether it needed recovery: it may
    /// have moved since it was read.
    async fn bring_back(&self, row: &Transaction) -> Result<bool, Error> {
        let (Some(due), id) = (row.due, row.id.0) else { return Ok(false) };
        if due.at <= self.now() {
            return match self.act(&Actor::Platform, row.id, TransactionAction::Due(due.deadline), None).await {
                Ok(_) => {
                    tracing::warn!(task = %id, "a purchase that no timer watched has ended at its deadline");
                    Ok(true)
                }
                Err(Error::Rule(_)) => Ok(false),
                Err(refused) => Err(refused),
            };
        }
        let has_task = self.engine().store().head(id).await.map_err(read_fault)?.is_some();
        if has_task {
            let is_set = self.set_timer(row, self.look_at(row).await?).await?;
            if is_set {
                tracing::warn!(task = %id, "a purchase that no timer watched has its timer again");
            }
            return Ok(is_set);
        }
        tracing::warn!(task = %id, "the task of a purchase is gone; the purchase ends at its deadline");
        Ok(true)
    }
}

/// Walks periodically, until the store is closed.
pub(crate) async fn walk(market: Market) {
    loop {
        if market.engine().is_draining() {
            return;
        }
        if let Err(refused) = market.find_strays().await {
            tracing::warn!("purchases that no timer watches are looked for later: {refused}");
        }
        tokio::time::sleep(WALK_EVERY).await;
    }
}
