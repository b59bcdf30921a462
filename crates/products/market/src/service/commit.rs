//! A step of a purchase as one commit: rows, entries, status, timer.

use engine::{SideWrites, TaskChange};
use ledger::Ut;
use market_rules::TransactionStep;
use market_rules::autonomy::Spend;
use model::{Expect, Json, RecordChange, Time};

use crate::service::records::{self, Spent, Used};

/// The facts of a commit that are not in its step: versions of the rows that were read, and the time of the timer.
pub(crate) struct CommitInputs {
    /// The day's spending before the step and the version of its row, where the step adds to it.
    pub(crate) spent: Option<(Ut, u64)>,
    /// The version of the capability's row, where the step is an order.
    pub(crate) capability: Option<u64>,
    /// The version of the capability's row of counted sales, where the step is counted.
    pub(crate) sold: u64,
    pub(crate) look_at: Option<Time>,
    /// The use of the caller's idempotency key.
    pub(crate) once: Option<RecordChange>,
    /// Other changes of the same commit: the demand it is for, and notices.
    pub(crate) beside: Vec<RecordChange>,
}

/// The day's spending with this amount added.
pub(crate) fn spent_with(sum: Ut, spend: &Spend) -> Ut {
    sum.plus(spend.amount).unwrap_or(sum)
}

/// The task's new status.
pub(crate) fn moved(step: &TransactionStep) -> TaskChange {
    let metadata = Json::parse(&format!(r#"{{"uumit":{{"internal_status":"{}"}}}}"#, step.transaction.status.name()));
    TaskChange { metadata, ..TaskChange::to(step.state) }
}

/// The record changes and entries of a step. Its preconditions become the expected versions of rows and the floors of
/// accounts. Where no money is held yet, the caller checks the buyer's balance before.
pub(crate) fn along(step: &TransactionStep, setting: CommitInputs) -> SideWrites {
    let transaction = &step.transaction;
    let key = records::transaction_key(transaction.id);
    let before = |version: u64| if version <= 1 { Expect::Absent } else { Expect::Version(version - 1) };
    let lists = records::lists_of(transaction);
    // The hold follows from the entries: one entry makes it, and at most one ends it.
    let mut records = vec![records::TRANSACTIONS.put(key, before(transaction.version), transaction, lists)];
    if let (Some(spend), Some((sum, version))) = (&step.spend, setting.spent) {
        let key = records::spent_key(&spend.tenant, &spend.user, spend.day);
        let row = Spent { sum: spent_with(sum, spend) };
        records.push(records::SPENDING.put(key, before(version + 1), &row, Vec::new()));
    }
    if let Some(mark) = &step.used {
        let row = Used { transaction: transaction.id };
        records.push(records::USED_CONFIRMATIONS.put(records::mark_key(mark), Expect::Absent, &row, Vec::new()));
    }
    if let Some(version) = setting.capability {
        let key = records::capability_key(&transaction.tenant, &transaction.capability);
        records.push(records::CAPABILITIES.leave(key, Expect::Version(version)));
    }
    if let Some(sales) = &step.sales {
        let key = records::capability_key(&transaction.tenant, &transaction.capability);
        records.push(records::SALES.put(key, before(setting.sold + 1), sales, Vec::new()));
    }
    records.extend(setting.once);
    records.extend(setting.beside);
    SideWrites {
        guards: Vec::new(),
        blobs: Vec::new(),
        texts: Vec::new(),
        records,
        entries: step.entries.iter().map(records::entry).collect(),
        deadline: Some(setting.look_at),
    }
}
