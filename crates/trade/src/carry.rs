//! A step of a purchase as one commit: rows, entries, status, timer.

use engine::{Along, Moved};
use ledger::Ut;
use market::Step;
use market::autonomy::Spend;
use model::{Expect, Json, RecordChange, Time};

use crate::kept::{self, Spent, Used, kind, put};

/// What of a step is not in it: what the store knew before, and when to look at it next.
pub(crate) struct Setting {
    /// The day's sum before it and the version of its row, where the step adds to it.
    pub(crate) spent: Option<(Ut, u64)>,
    /// The version of the capability that was looked at, where the step is an order.
    pub(crate) capability: Option<u64>,
    /// The version of its row of counted sales, where the step is counted.
    pub(crate) sold: u64,
    pub(crate) look_at: Option<Time>,
    /// What is written down so that a repeat is known.
    pub(crate) once: Option<RecordChange>,
    /// What else changes with it: the demand it is for, and what is to be told of it.
    pub(crate) beside: Vec<RecordChange>,
}

/// What an agent's day comes to with this.
pub(crate) fn spent_with(sum: Ut, spend: &Spend) -> Ut {
    sum.plus(spend.amount).unwrap_or(sum)
}

/// What the task shows.
pub(crate) fn moved(step: &Step) -> Moved {
    let metadata = Json::parse(&format!(r#"{{"uumit":{{"internal_status":"{}"}}}}"#, step.transaction.status.name()));
    Moved { metadata, ..Moved::to(step.state) }
}

/// All that changes with it. The guards of a step are the expectations of its rows and the floors of its accounts; that a
/// buyer could pay, where nothing is set aside yet, is looked at before.
pub(crate) fn along(step: &Step, setting: Setting) -> Along {
    let transaction = &step.transaction;
    let key = kept::transaction_key(transaction.id);
    let before = |version: u64| if version <= 1 { Expect::Absent } else { Expect::Version(version - 1) };
    let lists = kept::lists_of(transaction);
    // The hold is what the entries say: one made it, and there is room for one that ends it.
    let mut records = vec![put(kind::TRANSACTION, key, before(transaction.version), transaction, lists)];
    if let (Some(spend), Some((sum, version))) = (&step.spend, setting.spent) {
        let key = kept::spent_key(&spend.tenant, &spend.user, spend.day);
        let row = Spent { sum: spent_with(sum, spend) };
        records.push(put(kind::SPENT, key, before(version + 1), &row, Vec::new()));
    }
    if let Some(mark) = &step.used {
        let row = Used { transaction: transaction.id };
        records.push(put(kind::USED, kept::mark_key(mark), Expect::Absent, &row, Vec::new()));
    }
    if let Some(version) = setting.capability {
        let key = kept::capability_key(&transaction.tenant, &transaction.capability);
        records.push(RecordChange::Leave { kind: kind::CAPABILITY.into(), key, expect: Expect::Version(version) });
    }
    if let Some(sales) = &step.sales {
        let key = kept::capability_key(&transaction.tenant, &transaction.capability);
        records.push(put(kind::SALES, key, before(setting.sold + 1), sales, Vec::new()));
    }
    records.extend(setting.once);
    records.extend(setting.beside);
    Along {
        guards: Vec::new(),
        blobs: Vec::new(),
        texts: Vec::new(),
        records,
        entries: step.entries.iter().map(kept::entry).collect(),
        deadline: Some(setting.look_at),
    }
}
