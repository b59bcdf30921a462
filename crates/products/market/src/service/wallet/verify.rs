//! The check of a store: the journal is read from its beginning, and every balance, hold and entry is computed again.
//!
//! `market_rules::verify` checks the rows against each other. This module checks the rest of the store: statements
//! against the journal, posted amounts against entries, unreadable rows, and tasks against their purchases.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use ledger::records::read_fault;
use ledger::{
    Account, AccountId, AccountKind, EntryId, Hold, HoldEnd, LedgerPosting, LineKind, RecordCollection, Row,
    TransactionId, UserId, Ut,
};
use market_rules::tariff::TurnHold;
use market_rules::{MarketDifference, Transaction};
use model::ports::store::{Store, StoreError};
use model::{Entry, RecordQuery, State, Task, TaskId, TurnId};
use uuid::Uuid;

use crate::service::billing::{BudgetEntry, turn_key};
use crate::service::records::{self, ALL, Booked};
use crate::service::{Error, Market};

const AT_ONCE: usize = 1_000;
/// Number of repetitions when money moved during the check.
const PASSES: u32 = 5;

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarketReport {
    pub accounts: u64,
    pub entries: u64,
    pub transactions: u64,
    pub holds: u64,
    /// Holds of running turns.
    pub turns: u64,
    /// Number of entries of other products; they are not checked.
    pub others: u64,
    /// Money moved during every repetition; only differences found every time are reported.
    pub moving: bool,
    pub differences: Vec<MarketDifference>,
    pub mismatches: Vec<Mismatch>,
}

impl MarketReport {
    pub fn is_clean(&self) -> bool {
        self.differences.is_empty() && self.mismatches.is_empty()
    }

    /// All differences, as texts for an operator.
    pub fn words(&self) -> impl Iterator<Item = String> {
        let differences = self.differences.iter().map(ToString::to_string);
        differences.chain(self.mismatches.iter().map(ToString::to_string))
    }
}

/// A difference between the store and the market's rows, in words for an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    #[error("entry {entry}: it moved other amounts than it says")]
    Moved { entry: String },
    #[error("entry {id}: its name is {name}, which is another's")]
    Misnamed { id: Uuid, name: String },
    #[error("entry {id}: nobody knows what it says, but it moved money of the market: {why}")]
    Foreign { id: Uuid, why: String },
    #[error("{account}: the statement is not that of the journal at place {no}")]
    Statement { account: AccountId, no: u64 },
    #[error("the {kind} {key} cannot be read: {why}")]
    Unreadable { kind: &'static str, key: String, why: String },
    #[error("the {kind} {key} is kept under another's name")]
    Misplaced { kind: &'static str, key: String },
    #[error("transaction {transaction}: it is {status}, but its task is {state:?}")]
    Task { transaction: TransactionId, status: &'static str, state: State },
    #[error(
        "transaction {transaction}: it is {status}, and its task is gone; a server that serves the market ends it at its \
         deadline"
    )]
    Taskless { transaction: TransactionId, status: &'static str },
    #[error(
        "transaction {transaction}: it is {status}, and no timer is set for its deadline; a server that serves the market \
         sets it within ten minutes"
    )]
    Untimed { transaction: TransactionId, status: &'static str },
    #[error("turn {turn} of task {task}: {what}")]
    Turn { turn: TurnId, task: TaskId, what: &'static str },
}

impl Market {
    /// Recomputes every balance from the journal and compares holds, entries and transactions. The check is repeated
    /// until no money moved during it.
    pub async fn verify(&self) -> Result<MarketReport, Error> {
        let store = &**self.engine().store();
        let mut last: Option<MarketReport> = None;
        for _ in 0..PASSES {
            let before = store.health().await.map_err(read_fault)?.entries;
            let mut report = look(store).await.map_err(read_fault)?;
            let after = store.health().await.map_err(read_fault)?.entries;
            if before == after || report.is_clean() {
                return Ok(report);
            }
            if let Some(last) = last {
                report.differences.retain(|difference| last.differences.contains(difference));
                report.mismatches.retain(|mismatch| last.mismatches.contains(mismatch));
            }
            report.moving = true;
            last = Some(report);
        }
        Ok(last.unwrap_or_default())
    }
}

/// An account as computed from the journal.
#[derive(Default)]
struct Told {
    /// Place in the journal and amount, as the store posted them.
    posted: Vec<(u64, i64)>,
    /// Lines by the bodies of the entries.
    balance: i128,
    lines: u64,
}

async fn look(store: &dyn Store) -> Result<MarketReport, StoreError> {
    let mut report = MarketReport::default();
    let mut journal = Journal::default();
    let mut after = 0;
    loop {
        let page = store.journal(after, AT_ONCE).await?;
        let Some((last, _)) = page.last() else { break };
        after = *last;
        for (place, entry) in &page {
            report.entries += 1;
            journal.take(*place, entry, &mut report);
        }
    }
    let accounts = accounts(store, &mut journal, &mut report).await?;
    let of = |id: TransactionId| records::transaction_key(id);
    let holds = journal.holds();
    let transactions: Vec<Transaction> =
        rows(store, records::TRANSACTIONS, |transaction: &Transaction| of(transaction.id), &mut report).await?;
    let turns: Vec<TurnHold> =
        rows(store, records::TURN_HOLDS, |hold: &TurnHold| turn_key(hold.turn), &mut report).await?;
    (report.holds, report.transactions) = (holds.len() as u64, transactions.len() as u64);
    report.turns = turns.len() as u64;
    report.differences = market_rules::verify(&accounts, &journal.postings, &holds, &transactions, &turns);
    statements(store, &journal, &mut report).await?;
    for transaction in &transactions {
        task(store, transaction, &mut report).await?;
    }
    deadlines(store, &transactions, &mut report).await?;
    running(store, turns, &mut report).await?;
    Ok(report)
}

/// The journal as the market's entries.
#[derive(Default)]
struct Journal {
    postings: Vec<LedgerPosting>,
    accounts: HashMap<Arc<str>, (AccountId, Told)>,
}

impl Journal {
    fn take(&mut self, place: u64, entry: &Entry, report: &mut MarketReport) {
        let booked = match Booked::from_row(&entry.body) {
            Ok(booked) => booked,
            // Budgets are not money; accounts of their own count them.
            Err(_) if BudgetEntry::from_row(&entry.body).is_ok() => return,
            Err(error) => {
                report.others += 1;
                let ours = entry.postings.iter().filter(|posting| account_of(&posting.account).is_some());
                let mut is_ours = false;
                for posting in ours {
                    is_ours = true;
                    self.post(place, &posting.account, posting.amount);
                }
                if is_ours {
                    report.mismatches.push(Mismatch::Foreign { id: entry.id, why: error.to_string() });
                }
                return;
            }
        };
        if records::entry_id(&booked.id) != entry.id {
            report.mismatches.push(Mismatch::Misnamed { id: entry.id, name: booked.id.to_string() });
        }
        let mut said: HashMap<String, i128> = HashMap::new();
        for (line, number) in booked.lines.iter().zip(0_u8..) {
            let key = line.account.key();
            let known = self.accounts.entry(key.as_str().into());
            let (account, told) = known.or_insert_with(|| (line.account.clone(), Told::default()));
            told.balance += i128::from(line.amount.hundredths());
            told.lines += 1;
            self.postings.push(LedgerPosting {
                entry: booked.id.clone(),
                line: number,
                account: account.clone(),
                no: told.lines,
                kind: line.kind,
                amount: line.amount,
                balance_after: ut(told.balance),
                transaction: booked.transaction,
                note: booked.note.clone(),
                at: entry.at,
            });
            *said.entry(key).or_default() += i128::from(line.amount.hundredths());
        }
        let mut agrees = said.len() == entry.postings.len();
        for posting in &entry.postings {
            agrees &= said.get(&*posting.account) == Some(&i128::from(posting.amount));
            self.post(place, &posting.account, posting.amount);
        }
        if !agrees {
            report.mismatches.push(Mismatch::Moved { entry: booked.id.to_string() });
        }
    }

    /// The holds of purchases and their ends, computed from the entries alone.
    fn holds(&self) -> Vec<Hold> {
        let mut holds: BTreeMap<TransactionId, Hold> = BTreeMap::new();
        let mut ends: BTreeMap<TransactionId, HoldEnd> = BTreeMap::new();
        for line in &self.postings {
            let (Some(id), AccountKind::Frozen(owner)) = (line.entry.transaction(), &line.account.purse) else {
                continue;
            };
            if line.entry == EntryId::freeze(id) {
                let (tenant, owner) = (line.account.tenant.clone(), owner.clone());
                let (amount, made_at) = (line.amount, line.at);
                holds.insert(id, Hold { tenant, transaction: id, owner, amount, made_at, end: None });
            } else if line.entry == EntryId::end(id) {
                let end = ends.entry(id).or_insert(HoldEnd { settled: Ut::ZERO, released: Ut::ZERO, at: line.at });
                let part = if line.kind == LineKind::SettleOut { &mut end.settled } else { &mut end.released };
                *part = part.minus(line.amount).unwrap_or(*part);
            }
        }
        holds.into_values().map(|hold| Hold { end: ends.get(&hold.transaction).copied(), ..hold }).collect()
    }

    fn post(&mut self, place: u64, key: &Arc<str>, amount: i64) {
        if !self.accounts.contains_key(key) {
            let Some(account) = account_of(key) else { return };
            self.accounts.insert(key.clone(), (account, Told::default()));
        }
        if let Some((_, told)) = self.accounts.get_mut(key) {
            told.posted.push((place, amount));
        }
    }
}

/// Clamps a sum that does not fit into an amount; it still differs from the row.
fn ut(hundredths: i128) -> Ut {
    Ut::from_hundredths(i64::try_from(hundredths).unwrap_or(if hundredths < 0 { i64::MIN } else { i64::MAX }))
}

/// The account of a key, if it is one of the market's.
pub(crate) fn account_of(key: &str) -> Option<AccountId> {
    let mut parts = key.split('\u{1f}');
    let (purse, tenant, user) = (parts.next()?, Arc::<str>::from(parts.next()?), parts.next());
    let purse = match (purse, user) {
        ("a", Some(user)) => AccountKind::Available(UserId::from(user)),
        ("f", Some(user)) => AccountKind::Frozen(UserId::from(user)),
        ("c", None) => AccountKind::Commission,
        ("o", None) => AccountKind::Outside,
        (_, Some(_) | None) => return None,
    };
    parts.next().is_none().then_some(AccountId { tenant, purse })
}

/// The accounts in the store. The store has no count of lines, so the journal's count is used and the statements are
/// checked one by one.
async fn accounts(
    store: &dyn Store,
    journal: &mut Journal,
    report: &mut MarketReport,
) -> Result<Vec<Account>, StoreError> {
    let (mut accounts, mut after) = (Vec::new(), None);
    loop {
        let page = store.accounts(after, AT_ONCE).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        for (key, balance) in page {
            let Some(id) = account_of(&key) else { continue };
            let (_, told) = journal.accounts.entry(key).or_insert_with(|| (id.clone(), Told::default()));
            accounts.push(Account { id, balance: Ut::from_hundredths(balance), lines: told.lines });
        }
    }
    report.accounts = accounts.len() as u64;
    Ok(accounts)
}

/// Every row of a kind.
async fn rows<R: Row>(
    store: &dyn Store,
    collection: RecordCollection<R>,
    key: impl Fn(&R) -> Arc<str>,
    report: &mut MarketReport,
) -> Result<Vec<R>, StoreError> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let query = RecordQuery { after, limit: AT_ONCE as u32, ..collection.query(ALL) };
        let page = store.records(query).await?;
        after = page.records.last().map(|(record, rank)| (*rank, record.key.clone()));
        for (record, _) in &page.records {
            match R::from_row(&record.body) {
                Ok(row) if key(&row) == record.key => rows.push(row),
                Ok(_) => {
                    report.mismatches.push(Mismatch::Misplaced { kind: R::NAME, key: record.key.to_string() });
                }
                Err(error) => report.mismatches.push(Mismatch::Unreadable {
                    kind: R::NAME,
                    key: record.key.to_string(),
                    why: error.to_string(),
                }),
            }
        }
        if !page.more || after.is_none() {
            return Ok(rows);
        }
    }
}

/// Checks that the statement of each account has the journal's lines and balances. Lines newer than the journal that
/// was read are skipped.
async fn statements(store: &dyn Store, journal: &Journal, report: &mut MarketReport) -> Result<(), StoreError> {
    for (key, (account, told)) in &journal.accounts {
        let newest = told.posted.last().map_or(0, |(place, _)| *place);
        let mut balance: i128 = told.posted.iter().map(|(_, amount)| i128::from(*amount)).sum();
        let mut expected = told.posted.iter().rev();
        let mut before = Some(newest.saturating_add(1));
        let wrong = 'walk: loop {
            let page = store.statement(key.clone(), before, AT_ONCE).await?;
            for line in &page {
                let Some((place, amount)) = expected.next() else { break 'walk Some(line.no) };
                if (line.no, line.amount, i128::from(line.balance)) != (*place, *amount, balance) {
                    break 'walk Some(*place);
                }
                balance -= i128::from(*amount);
            }
            match page.last() {
                Some(oldest) if page.len() == AT_ONCE => before = Some(oldest.no),
                Some(_) | None => break expected.next().map(|(place, _)| *place),
            }
        };
        if let Some(no) = wrong {
            report.mismatches.push(Mismatch::Statement { account: account.clone(), no });
        }
    }
    Ok(())
}

/// Checks that a turn has a hold exactly as long as it runs, by the task's log.
async fn running(store: &dyn Store, turns: Vec<TurnHold>, report: &mut MarketReport) -> Result<(), StoreError> {
    let mut open: HashMap<TaskId, TurnHold> = turns.into_iter().map(|hold| (hold.task, hold)).collect();
    let mut after = None;
    loop {
        let page = store.unfinished(after, AT_ONCE).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (task, _) in page {
            let log = store.logs(vec![task]).await?.pop().unwrap_or_default();
            let Ok(Some(folded)) = Task::fold(&log) else { continue };
            let Some(turn) = folded.core.turn else { continue };
            let told = folded.due.as_deref().and_then(|due| due.hold.as_ref());
            let told = told.map(|hold| serde_json::from_str::<TurnHold>(hold.text()).ok());
            let what = match (told, open.remove(&task)) {
                (None, None) => continue,
                (Some(told), Some(kept)) if told.as_ref() == Some(&kept) && kept.turn == turn.id => continue,
                (Some(_), Some(_)) => "what is set aside for it is not what its log says",
                (Some(_), None) => "it runs, and what was set aside for it is not there",
                (None, Some(_)) => "something is set aside for it that its log does not know",
            };
            report.mismatches.push(Mismatch::Turn { turn: turn.id, task, what });
        }
    }
    let left = open.into_values().map(|hold| (hold.turn, hold.task));
    let what = "it does not run, and something is still set aside for it";
    report.mismatches.extend(left.map(|(turn, task)| Mismatch::Turn { turn, task, what }));
    Ok(())
}

/// Checks that the task of a purchase shows the status of the purchase, as long as the task exists.
async fn task(store: &dyn Store, transaction: &Transaction, report: &mut MarketReport) -> Result<(), StoreError> {
    let mut row = transaction.clone();
    for _ in 0..PASSES {
        let head = store.head(row.id.0).await?;
        if head.as_ref().map_or(row.status.is_terminal(), |head| head.row.state == row.state()) {
            return Ok(());
        }
        // It may have moved since its row was read.
        let now = store.record(records::TRANSACTIONS.kind().into(), records::transaction_key(row.id)).await?;
        let Some(now) = now.and_then(|record| Transaction::from_row(&record.body).ok()) else { return Ok(()) };
        if now.version == row.version {
            let (transaction, status) = (row.id, row.status.name());
            report.mismatches.push(match head {
                Some(head) => Mismatch::Task { transaction, status, state: head.row.state },
                None => Mismatch::Taskless { transaction, status },
            });
            return Ok(());
        }
        row = now;
    }
    Ok(())
}

/// Checks that a purchase with a deadline has a timer, as long as its task exists.
async fn deadlines(
    store: &dyn Store,
    transactions: &[Transaction],
    report: &mut MarketReport,
) -> Result<(), StoreError> {
    let open: Vec<&Transaction> = transactions.iter().filter(|row| row.due.is_some()).collect();
    for rows in open.chunks(AT_ONCE) {
        let timers = store.timers(rows.iter().map(|row| row.id.0).collect()).await?;
        let timed: HashSet<TaskId> = timers.iter().map(|timer| timer.task).collect();
        for row in rows.iter().filter(|row| !timed.contains(&row.id.0)) {
            // It may have moved since its row was read; without a task it has been reported.
            let now = store.record(records::TRANSACTIONS.kind().into(), records::transaction_key(row.id)).await?;
            let now = now.and_then(|record| Transaction::from_row(&record.body).ok());
            if now.is_some_and(|now| now.version == row.version) && store.head(row.id.0).await?.is_some() {
                let (transaction, status) = (row.id, row.status.name());
                report.mismatches.push(Mismatch::Untimed { transaction, status });
            }
        }
    }
    Ok(())
}
