//! The removal of records that are too old. A list for it is ranked by negated time, so that the oldest record is the first.

use std::future::Future;
use std::sync::Arc;

use model::ports::store::Store;
use model::{Expect, Fault, RecordChange, RecordPage, Time};

use super::RecordCollection;

/// Records that one commit removes at most.
pub const BATCH: u32 = 500;

/// The rank of a record in a list whose oldest record is the first.
pub fn rank(at: Time) -> i64 {
    at.0.saturating_neg()
}

/// The time of a record in such a list.
pub fn time(rank: i64) -> Time {
    Time(rank.saturating_neg())
}

/// Removes all records of `list` that are older than `before`, a batch at a time. `commit` answers whether a batch was
/// committed: it is false where another process has changed one of the records, and the sweep ends until its next turn.
pub async fn remove_older<R, F>(
    collection: RecordCollection<R>,
    store: &dyn Store,
    list: &str,
    before: Time,
    commit: impl Fn(Vec<RecordChange>) -> F,
) -> Result<(), Fault>
where
    F: Future<Output = Result<bool, Fault>>,
{
    let list: Arc<str> = list.into();
    loop {
        let page = collection.records(store, list.clone(), None, BATCH).await?;
        let (removals, is_full) = removals(page, before);
        if removals.is_empty() || !commit(removals).await? || !is_full {
            return Ok(());
        }
    }
}

/// Removals of the records that are older than `before`, and whether all of a full page are.
fn removals(page: RecordPage, before: Time) -> (Vec<RecordChange>, bool) {
    let old = page.records.into_iter().filter(|(_, rank)| time(*rank) < before);
    let removals: Vec<RecordChange> = old
        .map(|(record, _)| RecordChange::Remove {
            kind: record.kind,
            key: record.key,
            expect: Expect::Version(record.version),
        })
        .collect();
    let is_full = removals.len() == BATCH as usize;
    (removals, is_full)
}

#[cfg(test)]
mod tests {
    use model::Record;

    use super::*;

    fn page(times: impl IntoIterator<Item = i64>) -> RecordPage {
        let record =
            |at: i64| Record { kind: "k".into(), key: at.to_string().into(), version: 2, body: Default::default() };
        RecordPage { records: times.into_iter().map(|at| (record(at), rank(Time(at)))).collect(), ..Default::default() }
    }

    #[test]
    fn only_records_that_are_older_are_removed_in_the_version_that_was_read() {
        let (found, is_full) = removals(page([1, 2, 3]), Time(3));
        let keys: Vec<_> = found.iter().map(|one| (one.about().1.to_string(), one.about().2)).collect();
        assert_eq!(keys, [("1".to_owned(), Expect::Version(2)), ("2".to_owned(), Expect::Version(2))]);
        assert!(!is_full);
    }

    #[test]
    fn a_full_page_of_old_records_may_have_more_behind_it() {
        assert!(removals(page(0..i64::from(BATCH)), Time(i64::MAX)).1);
        assert!(!removals(page(1..=i64::from(BATCH)), Time(i64::from(BATCH))).1);
    }
}
