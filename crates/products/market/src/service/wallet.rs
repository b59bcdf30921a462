//! Balances, statements, and credit from outside; `verify` checks the ledger.

mod verify;

use std::collections::VecDeque;
use std::sync::Arc;

use engine::{CommitError, SideWrites};
use ledger::records::{decode, read_fault};
use ledger::{AccountId, EntryId, LedgerEntry, LineKind, Row, TransactionId, UserId, Ut};
use market_rules::capability::FieldError;
use model::ports::store::Conflict;
use model::{AccountLine, Expect, Time};
use serde::{Deserialize, Serialize};

use crate::service::records::{self, Booked, joined};
use crate::service::{Error, Market, MarketCaller, MarketEntity, Paged, Paging};

pub(crate) use verify::account_of;
pub use verify::{MarketReport, Mismatch};

/// Number of lines in one read.
const AT_ONCE: usize = 1_000;
/// Number of lines that a statement covers; operators can read older ones.
const STATEMENT: usize = 10_000;
/// Number of the newest lines that sums cover.
const SUMMED: usize = 100_000;
/// Maximum length of a reference, and of a note.
const MAX_REFERENCE: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wallet {
    pub available: Ut,
    pub frozen: Ut,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementLine {
    pub id: String,
    pub kind: LineKind,
    pub amount: Ut,
    pub balance_after: Ut,
    pub note: Option<Arc<str>>,
    pub transaction: Option<TransactionId>,
    pub at: Time,
}

/// An entry of the journal, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    pub place: u64,
    pub id: EntryId,
    pub at: Time,
    pub note: Option<Arc<str>>,
    pub transaction: Option<TransactionId>,
    pub lines: Vec<ledger::EntryLine>,
}

/// Sums of an account so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub income: Ut,
    pub spent: Ut,
    pub recharged: Ut,
    pub withdrawn: Ut,
}

/// The credit of a reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CreditRow {
    user: UserId,
    amount: Ut,
    entry: EntryId,
}
impl Row for CreditRow {
    const NAME: &'static str = "credit";
}

impl Market {
    pub async fn wallet(&self, user: &UserId) -> Result<Wallet, Error> {
        let tenant = self.config().tenant.clone();
        let accounts = [AccountId::available(&tenant, user), AccountId::frozen(&tenant, user)];
        let keys = accounts.iter().map(|account| account.key().into()).collect();
        let balances = self.engine().store().balances(keys).await.map_err(read_fault)?;
        let on = |place: usize| Ut::from_hundredths(balances.get(place).copied().unwrap_or_default());
        Ok(Wallet { available: on(0), frozen: on(1) })
    }

    /// The statement of the user's available balance, the newest line first. It covers the newest ten thousand lines.
    pub async fn statement(
        &self,
        caller: &MarketCaller,
        kind: Option<LineKind>,
        paging: Paging,
    ) -> Result<Paged<StatementLine>, Error> {
        let account = AccountId::available(&caller.tenant, &caller.user);
        let skip = u64::from(paging.page.saturating_sub(1)).saturating_mul(u64::from(paging.size));
        let (mut items, mut total) = (Vec::new(), 0_u64);
        self.walk(&account, STATEMENT, |line| {
            if kind.is_none_or(|kind| kind == line.kind) {
                if total >= skip && items.len() < paging.size as usize {
                    items.push(line);
                }
                total += 1;
            }
        })
        .await?;
        let more = skip.saturating_add(items.len() as u64) < total;
        Ok(Paged { items, total, page: paging.page, size: paging.size, more })
    }

    /// Sums of the newest hundred thousand lines.
    pub async fn stats(&self, caller: &MarketCaller) -> Result<Stats, Error> {
        let mut stats = Stats::default();
        let mut add = |line: StatementLine| {
            let (slot, amount) = match line.kind {
                LineKind::Income => (&mut stats.income, Some(line.amount)),
                LineKind::Recharge => (&mut stats.recharged, Some(line.amount)),
                // An amount that left the account is negative there.
                LineKind::SettleOut => (&mut stats.spent, line.amount.negated()),
                LineKind::Withdraw => (&mut stats.withdrawn, line.amount.negated()),
                LineKind::Freeze | LineKind::Unfreeze | LineKind::Commission => return,
            };
            *slot = amount.and_then(|amount| slot.plus(amount)).unwrap_or(*slot);
        };
        for account in
            [AccountId::available(&caller.tenant, &caller.user), AccountId::frozen(&caller.tenant, &caller.user)]
        {
            self.walk(&account, SUMMED, &mut add).await?;
        }
        Ok(stats)
    }

    /// The lines of any account, for operators, the newest first.
    pub async fn lines(&self, account: &AccountId, limit: usize) -> Result<Vec<StatementLine>, Error> {
        let mut lines = Vec::new();
        self.walk(account, limit, |line| lines.push(line)).await?;
        lines.truncate(limit);
        Ok(lines)
    }

    /// The newest entries of the market, for operators, the oldest of them first.
    pub async fn journal(&self, limit: usize) -> Result<Vec<JournalEntry>, Error> {
        let (mut newest, mut after) = (VecDeque::new(), 0);
        loop {
            let page = self.engine().store().journal(after, AT_ONCE).await.map_err(read_fault)?;
            let Some((last, _)) = page.last() else { return Ok(newest.into()) };
            after = *last;
            for (place, entry) in page {
                let Ok(booked) = Booked::from_row(&entry.body) else { continue };
                if newest.len() == limit {
                    newest.pop_front();
                }
                let lines =
                    booked.lines.into_iter().map(|line| ledger::EntryLine::new(line.account, line.kind, line.amount));
                let (id, note, transaction) = (booked.id, booked.note, booked.transaction);
                newest.push_back(JournalEntry { place, id, at: entry.at, note, transaction, lines: lines.collect() });
            }
        }
    }

    /// The newest lines of an account, up to a limit of the store's lines.
    async fn walk(&self, account: &AccountId, most: usize, mut each: impl FnMut(StatementLine)) -> Result<(), Error> {
        let key: Arc<str> = account.key().into();
        let (mut before, mut left) = (None, most);
        while left > 0 {
            let limit = left.min(AT_ONCE);
            let page = self.engine().store().statement(key.clone(), before, limit).await.map_err(read_fault)?;
            for line in &page {
                lines_of(account, line)?.into_iter().for_each(&mut each);
            }
            match page.last() {
                Some(oldest) if page.len() == limit => before = Some(oldest.no),
                Some(_) | None => break,
            }
            left -= limit;
        }
        Ok(())
    }

    /// Credits money from outside. A reference is booked once: a repeat returns the wallet and changes nothing.
    pub async fn credit(
        &self,
        user: &UserId,
        amount: Ut,
        reference: &str,
        note: Option<Arc<str>>,
    ) -> Result<Wallet, Error> {
        plain("reference", reference)?;
        if let Some(note) = &note {
            plain("note", note)?;
        }
        let known = self.user(user).await?.ok_or(Error::Unknown(MarketEntity::User))?;
        let entry = LedgerEntry::recharge(&known.tenant, user, amount, reference, note, self.now());
        let entry = entry.map_err(|unfit| FieldError::new("amount", unfit.to_string()))?;
        let row = CreditRow { user: user.clone(), amount, entry: entry.id().clone() };
        let key = joined(&[&known.tenant, reference]);
        let record = records::CREDITS.put(key.clone(), Expect::Absent, &row, Vec::new());
        let along =
            SideWrites { records: vec![record], entries: vec![records::entry(&entry)], ..SideWrites::default() };
        match self.engine().keep(along).await {
            Ok(()) => {}
            Err(CommitError::Met(Conflict::Record(..))) => {
                let known = self.read(records::CREDITS, key).await?;
                if known.is_none_or(|(known, _)| known != row) {
                    return Err(Error::Taken("credit"));
                }
            }
            Err(CommitError::Met(Conflict::Entry(_))) => return Err(Error::Taken("credit")),
            Err(unexpected @ (CommitError::Met(_) | CommitError::Fault(_))) => return Err(unexpected.into()),
        }
        self.wallet(user).await
    }
}

/// Checks a text that becomes part of a key: its length, and no control characters.
fn plain(field: &'static str, text: &str) -> Result<(), FieldError> {
    if text.is_empty() || text.chars().count() > MAX_REFERENCE || text.chars().any(char::is_control) {
        return Err(FieldError::new(field, format!("must be 1 to {MAX_REFERENCE} characters, none of them control")));
    }
    Ok(())
}

/// The lines of an entry on this account, the newest first. A store has one sum for each account; the body has the
/// lines.
fn lines_of(account: &AccountId, line: &AccountLine) -> Result<Vec<StatementLine>, Error> {
    let booked: Booked = decode(&line.body)?;
    let mut balance = line.balance;
    let mut lines = Vec::with_capacity(1);
    for (place, one) in booked.lines.iter().enumerate().rev().filter(|(_, one)| one.account == *account) {
        lines.push(StatementLine {
            id: format!("{}/{place}", booked.id),
            kind: one.kind,
            amount: one.amount,
            balance_after: Ut::from_hundredths(balance),
            note: booked.note.clone(),
            transaction: booked.transaction,
            at: line.at,
        });
        balance = balance.saturating_sub(one.amount.hundredths());
    }
    Ok(lines)
}

#[cfg(test)]
#[path = "wallet/tests.rs"]
mod tests;
