//! Typed records over the record port of `model`: one kind of record has one type of row.
//!
//! A [`RecordCollection`] names the kind and the row, so that a record is never read as another kind's row. Reads take the store;
//! writes are [`RecordChange`]s, which a product commits together with its entries. [`idempotency`] keeps what a caller's key
//! was used for, [`expiry`] removes what is too old. Nothing here reads a clock: times are arguments.

pub mod expiry;
pub mod idempotency;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use model::ports::store::{Store, StoreError};
use model::{Expect, Fault, Kind, Listed, Record, RecordChange, RecordPage, RecordQuery};

use crate::Row;

/// Records that are read at a time when a list is read as a whole.
const PAGE: u32 = 500;

/// The records of one kind, whose bodies are rows of type `R`.
pub struct RecordCollection<R> {
    kind: &'static str,
    row: PhantomData<fn() -> R>,
}

impl<R> Clone for RecordCollection<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for RecordCollection<R> {}
impl<R> fmt::Debug for RecordCollection<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}

/// A row as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow<R> {
    pub row: R,
    pub key: Arc<str>,
    pub version: u64,
}

/// A page of a list of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPage<R> {
    pub rows: Vec<R>,
    /// Length of the whole list.
    pub total: u64,
    pub more: bool,
}

impl<R> RecordCollection<R> {
    /// `kind` is stored with every record and never changes.
    pub const fn new(kind: &'static str) -> Self {
        Self { kind, row: PhantomData }
    }

    pub const fn kind(self) -> &'static str {
        self.kind
    }

    /// Whether a record of this kind is meant, such as in a conflict.
    pub fn is(self, kind: &str) -> bool {
        self.kind == kind
    }

    pub fn remove(self, key: impl Into<Arc<str>>, expect: Expect) -> RecordChange {
        RecordChange::Remove { kind: self.kind.into(), key: key.into(), expect }
    }

    /// The commit needs the record to be as expected and does not change it.
    pub fn leave(self, key: impl Into<Arc<str>>, expect: Expect) -> RecordChange {
        RecordChange::Leave { kind: self.kind.into(), key: key.into(), expect }
    }

    /// Number of records in a list.
    pub async fn count(self, store: &dyn Store, list: impl Into<Arc<str>>) -> Result<u64, Fault> {
        let query = RecordQuery { limit: 1, count: true, ..self.query(list) };
        Ok(store.records(query).await.map_err(read_fault)?.total.unwrap_or_default())
    }

    /// A page of a list without decoding it, after the rank and key where the last page ended.
    pub async fn records(
        self,
        store: &dyn Store,
        list: impl Into<Arc<str>>,
        after: Option<(i64, Arc<str>)>,
        limit: u32,
    ) -> Result<RecordPage, Fault> {
        store.records(RecordQuery { after, limit, ..self.query(list) }).await.map_err(read_fault)
    }

    /// The whole of a list, `PAGE` records at a time; adapt it with struct update.
    pub fn query(self, list: impl Into<Arc<str>>) -> RecordQuery {
        RecordQuery { kind: self.kind.into(), list: list.into(), after: None, skip: 0, limit: PAGE, count: false }
    }
}

impl<R: Row> RecordCollection<R> {
    pub fn put(self, key: impl Into<Arc<str>>, expect: Expect, row: &R, lists: Vec<Listed>) -> RecordChange {
        RecordChange::Put { kind: self.kind.into(), key: key.into(), expect, body: row.to_row().into(), lists }
    }

    /// A row and its version.
    pub async fn read(self, store: &dyn Store, key: impl Into<Arc<str>>) -> Result<Option<(R, u64)>, Fault> {
        let found = store.record(self.kind.into(), key.into()).await.map_err(read_fault)?;
        found.map(|record| Ok((decode(&record.body)?, record.version))).transpose()
    }

    /// A page of a list, with the length of the list.
    pub async fn page(
        self,
        store: &dyn Store,
        list: impl Into<Arc<str>>,
        skip: u64,
        limit: u32,
    ) -> Result<RowPage<R>, Fault> {
        let query = RecordQuery { skip, limit, count: true, ..self.query(list) };
        let page = store.records(query).await.map_err(read_fault)?;
        let rows = page.records.iter().map(|(record, _)| decode(&record.body)).collect::<Result<_, _>>()?;
        Ok(RowPage { rows, total: page.total.unwrap_or_default(), more: page.more })
    }

    /// The first rows of a list, with the length of the list.
    pub async fn first(
        self,
        store: &dyn Store,
        list: impl Into<Arc<str>>,
        limit: u32,
    ) -> Result<(Vec<StoredRow<R>>, u64), Fault> {
        let query = RecordQuery { limit, count: true, ..self.query(list) };
        let page = store.records(query).await.map_err(read_fault)?;
        let rows = page.records.into_iter().map(|(record, _)| stored(record)).collect::<Result<_, _>>()?;
        Ok((rows, page.total.unwrap_or_default()))
    }

    /// Visits the first `most` rows of a list, a page at a time.
    pub async fn walk(
        self,
        store: &dyn Store,
        list: impl Into<Arc<str>>,
        most: u64,
        mut visit: impl FnMut(R),
    ) -> Result<(), Fault> {
        let (list, mut visited, mut after) = (list.into(), 0_u64, None);
        while visited < most {
            let limit = u32::try_from(most - visited).map_or(PAGE, |left| left.min(PAGE));
            let page = self.records(store, list.clone(), after, limit).await?;
            visited += page.records.len() as u64;
            for (record, _) in &page.records {
                visit(decode(&record.body)?);
            }
            after = page.records.last().map(|(record, rank)| (*rank, record.key.clone()));
            if !page.more || after.is_none() {
                break;
            }
        }
        Ok(())
    }
}

fn stored<R: Row>(record: Record) -> Result<StoredRow<R>, Fault> {
    Ok(StoredRow { row: decode(&record.body)?, key: record.key, version: record.version })
}

/// Decodes the body of a record. A damaged row is a fault of the server.
pub fn decode<R: Row>(body: &[u8]) -> Result<R, Fault> {
    R::from_row(body).map_err(Fault::internal)
}

/// The expectation of a row that was read with this version; version 0 is an absent row.
pub fn unchanged(version: u64) -> Expect {
    if version == 0 { Expect::Absent } else { Expect::Version(version) }
}

pub fn listed(list: impl Into<Arc<str>>, rank: i64) -> Listed {
    Listed { list: list.into(), rank }
}

/// The fault of a read that the store could not answer.
pub fn read_fault(trouble: StoreError) -> Fault {
    match trouble {
        StoreError::Broken(_) => Fault::internal(trouble),
        StoreError::Full
        | StoreError::ReadOnly
        | StoreError::Busy
        | StoreError::Unreachable(_)
        | StoreError::Closed => Fault::new(Kind::Unavailable, "the server cannot reach its data; try again shortly")
            .retry_after(1)
            .because(trouble),
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Sample {
        n: u32,
    }
    impl Row for Sample {
        const NAME: &'static str = "sample";
    }
    const SAMPLES: RecordCollection<Sample> = RecordCollection::new("test/sample");

    #[test]
    fn a_change_names_the_kind_and_holds_the_row() {
        let RecordChange::Put { kind, key, expect, body, lists } =
            SAMPLES.put("k", unchanged(3), &Sample { n: 7 }, vec![listed("all", 1)])
        else {
            panic!("a put");
        };
        assert_eq!((&*kind, &*key, expect), ("test/sample", "k", Expect::Version(3)));
        assert_eq!(&*body, b"\x01{\"n\":7}");
        assert_eq!(lists, [Listed { list: "all".into(), rank: 1 }]);
        assert_eq!(decode::<Sample>(&body).unwrap(), Sample { n: 7 });
        assert!(SAMPLES.is("test/sample") && !SAMPLES.is("test/other"));
    }

    #[test]
    fn a_row_that_was_absent_is_expected_to_be_absent() {
        let remove = SAMPLES.remove("k", unchanged(0));
        assert_eq!(remove.about().2, Expect::Absent);
        assert_eq!(SAMPLES.leave("k", unchanged(1)).about().2, Expect::Version(1));
    }

    #[test]
    fn a_damaged_row_is_a_fault_of_the_server() {
        assert_eq!(decode::<Sample>(b"\x01{").unwrap_err().kind, Kind::Internal);
        assert_eq!(decode::<Sample>(b"\x09{\"n\":7}").unwrap_err().kind, Kind::Internal);
    }

    #[test]
    fn a_store_that_cannot_be_reached_is_tried_again_and_a_broken_one_is_not() {
        let closed = read_fault(StoreError::Closed);
        assert_eq!((closed.kind, closed.retry_after_s), (Kind::Unavailable, Some(1)));
        assert_eq!(read_fault(StoreError::Broken("disk".into())).kind, Kind::Internal);
    }
}
