//! Lists of records with a largest length, which concurrent additions cannot exceed.
//!
//! A count is outdated at the time of the commit. So every addition raises the version of one record, which is read
//! before the list is counted: a concurrent addition is a conflict, and the list is counted again. Removals make room
//! and need no such record.

use std::sync::Arc;

use ledger::{RecordCollection, Row};
use model::ports::store::Conflict;
use model::{Expect, RecordChange, Time};
use serde::{Deserialize, Serialize};

use crate::service::records;
use crate::service::{Error, Market};

/// When the last addition to a bounded list was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Added {
    at: Time,
}
impl Row for Added {
    const NAME: &'static str = "added";
}

/// A list of records of one kind.
pub(crate) struct Bounded<R> {
    pub(crate) collection: RecordCollection<R>,
    pub(crate) list: Arc<str>,
    pub(crate) most: u64,
}

impl<R> Bounded<R> {
    fn key(&self) -> Arc<str> {
        records::joined(&[self.collection.kind(), &self.list])
    }

    /// The queue of additions in this process, so that they do not conflict with each other.
    pub(crate) fn line(&self) -> Arc<str> {
        records::joined(&["added", self.collection.kind(), &self.list])
    }
}

/// Whether a conflict is about another addition to a bounded list.
pub(crate) fn is_about_added(met: &Conflict) -> bool {
    matches!(met, Conflict::Record(kind, ..) if records::ADDITIONS.is(kind))
}

impl Market {
    /// The record change for the commit that adds to the list, if the list has room.
    pub(crate) async fn room_in<R>(&self, bounded: &Bounded<R>) -> Result<Option<RecordChange>, Error> {
        let before = self.read(records::ADDITIONS, bounded.key()).await?;
        if self.length_of(bounded.collection, bounded.list.clone()).await? >= bounded.most {
            return Ok(None);
        }
        let expect = before.map_or(Expect::Absent, |(_, version)| Expect::Version(version));
        Ok(Some(records::ADDITIONS.put(bounded.key(), expect, &Added { at: self.now() }, Vec::new())))
    }

    /// Number of records in a list.
    pub(crate) async fn length_of<R>(&self, collection: RecordCollection<R>, list: Arc<str>) -> Result<u64, Error> {
        Ok(collection.count(self.store(), list).await?)
    }
}
