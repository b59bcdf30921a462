//! Lists of records that hold no more than so many, however many additions come at once.
//!
//! A count alone says nothing about the moment of the commit. So every addition raises the version of one record, which is
//! read before the list is counted: an addition in between is a conflict, and whoever meets it counts again. Removals make
//! room and need not be noticed.

use std::sync::Arc;

use ledger::Row;
use model::ports::store::Conflict;
use model::{Expect, RecordChange, RecordQuery, Time};
use serde::{Deserialize, Serialize};

use crate::kept::{self, kind, put};
use crate::refused::unread;
use crate::{Market, Refused};

/// When the last addition to a bounded list was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Added {
    at: Time,
}
impl Row for Added {
    const NAME: &'static str = "added";
}

/// A list of records of one kind.
pub(crate) struct Bounded {
    pub(crate) kind: &'static str,
    pub(crate) list: Arc<str>,
    pub(crate) most: u64,
}

impl Bounded {
    fn key(&self) -> Arc<str> {
        kept::joined(&[self.kind, &self.list])
    }

    /// The line that additions stand in, so that those of one process do not make each other try again.
    pub(crate) fn line(&self) -> Arc<str> {
        kept::joined(&["added", self.kind, &self.list])
    }
}

/// Whether a conflict is about another addition to a bounded list.
pub(crate) fn is_about_added(met: &Conflict) -> bool {
    matches!(met, Conflict::Record(kind, ..) if **kind == *kind::ADDED)
}

impl Market {
    /// What goes along in the commit that adds to the list, if there is room in it.
    pub(crate) async fn room_in(&self, bounded: &Bounded) -> Result<Option<RecordChange>, Refused> {
        let before = self.read::<Added>(kind::ADDED, bounded.key()).await?;
        if self.length_of(bounded.kind, bounded.list.clone()).await? >= bounded.most {
            return Ok(None);
        }
        let expect = before.map_or(Expect::Absent, |(_, version)| Expect::Version(version));
        Ok(Some(put(kind::ADDED, bounded.key(), expect, &Added { at: self.now() }, Vec::new())))
    }

    /// How many records a list holds.
    pub(crate) async fn length_of(&self, kind: &'static str, list: Arc<str>) -> Result<u64, Refused> {
        let query = RecordQuery { kind: kind.into(), list, after: None, skip: 0, limit: 1, count: true };
        let page = self.engine().store().records(query).await.map_err(unread)?;
        Ok(page.total.unwrap_or_default())
    }
}
