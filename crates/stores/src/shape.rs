//! Checks of a commit that need no store: whether it is well formed, how heavy it is, and
//! into which hour an idempotency key falls. Shared, so that every store refuses the same mistakes in the same words.

use std::collections::HashSet;

use model::ports::store::{Commit, StoreError};
use model::{Entry, PushChange, RecordChange, TaskId, TextChange, Time};

/// Why no store would take this commit. Such a commit is a mistake of the engine's, not a conflict.
pub(crate) fn malformed(commit: &Commit) -> Option<StoreError> {
    let mistake = |text: &str| Some(StoreError::Broken(format!("malformed commit: {text}")));
    for append in &commit.appends {
        if append.count == 0 || append.payload.is_empty() {
            return mistake("an append holds at least one event");
        }
        if append.open.is_some() != (append.expected.0 == 0) {
            return mistake("the first append, and only it, opens the task");
        }
        if append.open.is_some() && append.row.is_none() {
            return mistake("the append that opens a task brings its row");
        }
    }
    for change in &commit.records {
        if let RecordChange::Put { lists, .. } = change
            && lists.iter().enumerate().any(|(i, one)| lists[..i].iter().any(|other| other.list == one.list))
        {
            return mistake("a record is in a list once");
        }
    }
    if let Some(mistaken) = commit.entries.iter().find_map(Entry::mistake) {
        return mistake(mistaken);
    }
    if !commit.aliases.is_empty() {
        let tasks: HashSet<TaskId> = commit.appends.iter().map(|a| a.task).collect();
        if commit.aliases.iter().any(|alias| !tasks.contains(&alias.task)) {
            return mistake("an alias comes with an append to its task");
        }
    }
    None
}

/// Bytes of the commit that are written as they are.
pub(crate) fn weight(commit: &Commit) -> usize {
    let appends: usize = commit.appends.iter().map(|a| a.payload.len() + 64).sum();
    let blobs: usize = commit.blobs.iter().map(|b| b.bytes.len() + 64).sum();
    let specs: usize = commit.push.iter().map(spec_bytes).sum();
    let records: usize = commit.records.iter().map(record_bytes).sum();
    let entries: usize = commit.entries.iter().map(|entry| entry.body.len() + 64 * entry.postings.len()).sum();
    let texts: usize = commit.texts.iter().map(text_bytes).sum();
    let rows = commit.keys.len() + commit.timers.len() + commit.push.len() + commit.records.len();
    appends + blobs + specs + records + entries + texts + 64 * rows
}

fn record_bytes(change: &RecordChange) -> usize {
    match change {
        RecordChange::Put { body, lists, .. } => body.len() + 64 * lists.len(),
        RecordChange::Remove { .. } | RecordChange::Leave { .. } => 0,
    }
}

fn text_bytes(change: &TextChange) -> usize {
    match change {
        // It is written twice: as it is, and as its words.
        TextChange::Put { title, body, .. } => 64 + 2 * (title.len() + body.len()),
        TextChange::Remove { .. } => 64,
    }
}

fn spec_bytes(change: &PushChange) -> usize {
    match change {
        PushChange::Put(row) => row.spec.len(),
        PushChange::Moved { .. } | PushChange::SetBack { .. } | PushChange::Remove { .. } | PushChange::Over { .. } => {
            0
        }
    }
}

/// Keys are kept by the hour of their use: inserts go to the newest hour, and purging drops the oldest hours whole.
pub(crate) fn hour(at: Time) -> i64 {
    at.0.div_euclid(3_600_000)
}
