//! Conflicts of a commit: one reading of its conditions for every store. A store gives the facts, this module decides.
//!
//! Guards come first, in order, then appends, then records, then entries; what a commit's own earlier changes make of a task,
//! a record or an account counts for its later ones. Nothing is written here, so a refused commit leaves no trace.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::ports::store::{Append, Commit, Conflict, Guard, KeyUse};
use model::{Entry, Epoch, Posting, RecordChange, Seq, TaskId, Time};
use uuid::Uuid;

/// The facts of a store, the changes of its open group included.
pub(crate) trait CommitFacts {
    type Error;

    /// The newest use of an idempotency key that still counts.
    fn key_use(&mut self, key: &[u8; 32], not_before: Time) -> Result<Option<KeyUse>, Self::Error>;
    fn alias(&mut self, key: &[u8; 32]) -> Result<Option<TaskId>, Self::Error>;
    /// The length and the epoch of a task's log, zero for one that is not there.
    fn head(&mut self, task: TaskId) -> Result<(Seq, Epoch), Self::Error>;
    /// A record's version, zero for one that is not there.
    fn version(&mut self, kind: &Arc<str>, key: &Arc<str>) -> Result<u64, Self::Error>;
    fn has_entry(&mut self, id: Uuid) -> Result<bool, Self::Error>;
    /// The balance of an account, zero without postings.
    fn balance(&mut self, account: &Arc<str>) -> Result<i64, Self::Error>;
}

/// The first thing a commit meets that does not let it happen.
pub(crate) fn conflict<K: CommitFacts>(commit: &Commit, known: &mut K) -> Result<Option<Conflict>, K::Error> {
    let Commit { guards, appends, records, entries, .. } = commit;
    if let Some(met) = of_guards(guards, known)? {
        return Ok(Some(met));
    }
    if let Some(met) = of_appends(appends, known)? {
        return Ok(Some(met));
    }
    // Most commits have neither.
    if records.is_empty() && entries.is_empty() {
        return Ok(None);
    }
    match of_records(records, known)? {
        Some(met) => Ok(Some(met)),
        None => of_entries(entries, known),
    }
}

fn of_guards<K: CommitFacts>(guards: &[Guard], known: &mut K) -> Result<Option<Conflict>, K::Error> {
    for guard in guards {
        match guard {
            Guard::KeyFree { key, not_before } => {
                if let Some(used) = known.key_use(key, *not_before)? {
                    return Ok(Some(Conflict::Key(used)));
                }
            }
            Guard::AliasIs { key, task } => {
                let named = known.alias(key)?;
                if named != *task {
                    return Ok(Some(Conflict::Alias(named)));
                }
            }
        }
    }
    Ok(None)
}

fn of_appends<K: CommitFacts>(appends: &[Append], known: &mut K) -> Result<Option<Conflict>, K::Error> {
    let mut ahead: HashMap<TaskId, (Seq, Epoch)> = HashMap::new();
    let several = appends.len() > 1;
    for append in appends {
        let earlier = if several { ahead.get(&append.task).copied() } else { None };
        let (seq, epoch) = match earlier {
            Some(earlier) => earlier,
            None => known.head(append.task)?,
        };
        if append.epoch.is_some_and(|own| own < epoch) {
            return Ok(Some(Conflict::Epoch(append.task, epoch)));
        }
        if seq != append.expected {
            return Ok(Some(Conflict::Seq(append.task, seq)));
        }
        if several {
            ahead.insert(append.task, (append.last(), append.epoch.unwrap_or(epoch)));
        }
    }
    Ok(None)
}

fn of_records<K: CommitFacts>(changes: &[RecordChange], known: &mut K) -> Result<Option<Conflict>, K::Error> {
    let mut ahead: HashMap<(&Arc<str>, &Arc<str>), u64> = HashMap::new();
    for change in changes {
        let (kind, key, expect) = change.about();
        let version = match ahead.get(&(kind, key)) {
            Some(version) => *version,
            None => known.version(kind, key)?,
        };
        if !expect.admits(version) {
            return Ok(Some(Conflict::Record(kind.clone(), key.clone(), version)));
        }
        let after = match change {
            RecordChange::Put { .. } => version + 1,
            RecordChange::Remove { .. } => 0,
            RecordChange::Leave { .. } => version,
        };
        ahead.insert((kind, key), after);
    }
    Ok(None)
}

fn of_entries<K: CommitFacts>(entries: &[Entry], known: &mut K) -> Result<Option<Conflict>, K::Error> {
    let mut ahead: HashMap<&Arc<str>, i64> = HashMap::new();
    let mut ids = HashSet::new();
    for entry in entries {
        if known.has_entry(entry.id)? || !ids.insert(entry.id) {
            return Ok(Some(Conflict::Entry(entry.id)));
        }
        for Posting { account, amount, floor } in &entry.postings {
            let before = match ahead.get(account) {
                Some(balance) => *balance,
                None => known.balance(account)?,
            };
            match before.checked_add(*amount) {
                Some(after) if floor.is_none_or(|floor| after >= floor) => ahead.insert(account, after),
                Some(_) | None => return Ok(Some(Conflict::Funds(account.clone(), before))),
            };
        }
    }
    Ok(None)
}

/// A conflict of a store that cannot fail while it looks.
pub(crate) fn surely(met: Result<Option<Conflict>, std::convert::Infallible>) -> Option<Conflict> {
    match met {
        Ok(met) => met,
        Err(never) => match never {},
    }
}
