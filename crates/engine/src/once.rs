//! The same request twice is one: what a caller's key was used for is written down in the commit it was used in. For
//! products; what messages do to tasks has its own guard in the store.

use std::sync::Arc;

use model::ports::store::Trouble;
use model::record::joined;
use model::{Expect, Fault, Listed, RecordChange, RecordQuery, Time};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::product::Along;
use crate::{Engine, troubled};

/// The list of all of a kind, the oldest first.
const ALL: &str = "all";
const SWEEP: u32 = 500;
/// How rows are kept: a version byte, then JSON.
const V1: u8 = 1;

/// A caller's promise that a repeat with this key is the same request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    pub key: String,
    /// The hash of the request.
    pub print: [u8; 32],
}

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Used<M> {
    /// Nobody has used it, or so long ago that it does not count.
    Fresh(Fresh),
    /// The same request was made, and this came of it.
    Made(M),
    /// Another request was made with it.
    Otherwise,
}

/// A key that has not been used, and how to write down that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fresh {
    kind: Arc<str>,
    key: Arc<str>,
    print: Arc<str>,
    expect: Expect,
}

#[derive(Serialize, Deserialize)]
struct Row<M> {
    print: Arc<str>,
    at: Time,
    made: M,
}

impl Fresh {
    /// What has to be kept with what the request does.
    pub fn used_for<M: Serialize>(&self, made: M, at: Time) -> RecordChange {
        let row = Row { print: self.print.clone(), at, made };
        let mut body = vec![V1];
        // Writing into memory fails only for what is no JSON, which no product makes.
        if let Err(error) = serde_json::to_writer(&mut body, &row) {
            debug_assert!(false, "{error}");
        }
        // The oldest is the first of its list.
        let lists = vec![Listed { list: ALL.into(), rank: at.0.saturating_neg() }];
        let (kind, key) = (self.kind.clone(), self.key.clone());
        RecordChange::Put { kind, key, expect: self.expect, body: body.into(), lists }
    }
}

fn hex(bytes: &[u8]) -> Arc<str> {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

impl Engine {
    /// Whether the key is fresh, or what it was used for. `whose` keeps the keys of one caller apart from another's.
    pub async fn used<M: DeserializeOwned>(
        &self,
        kind: &'static str,
        whose: &[&str],
        once: &Once,
    ) -> Result<Used<M>, Fault> {
        let parts: Vec<&str> = whose.iter().copied().chain([once.key.as_str()]).collect();
        let (key, print) = (hex(&Sha256::digest(&*joined(&parts))), hex(&once.print));
        let found = self.store().record(kind.into(), key.clone()).await.map_err(troubled)?;
        let fresh = |expect| Used::Fresh(Fresh { kind: kind.into(), key: key.clone(), print: print.clone(), expect });
        let Some(record) = found else { return Ok(fresh(Expect::Absent)) };
        let row: Row<M> = match record.body.split_first() {
            Some((&V1, json)) => serde_json::from_slice(json).map_err(Fault::internal)?,
            Some(_) | None => return Err(Fault::internal("an idempotency key is kept in a way nobody knows")),
        };
        if row.at < self.forgets_before() {
            return Ok(fresh(Expect::Version(record.version)));
        }
        Ok(if row.print == print { Used::Made(row.made) } else { Used::Otherwise })
    }

    fn forgets_before(&self) -> Time {
        let kept = i64::try_from(self.limits().idempotency_ms).unwrap_or(i64::MAX);
        Time(self.now().0.saturating_sub(kept))
    }

    /// Forgets keys that are too old to matter.
    pub async fn forget_used(&self, kind: &'static str) -> Result<(), Fault> {
        let unread = |trouble: Trouble| troubled(trouble);
        loop {
            let query =
                RecordQuery { kind: kind.into(), list: ALL.into(), after: None, skip: 0, limit: SWEEP, count: false };
            let page = self.store().records(query).await.map_err(unread)?;
            let oldest = self.forgets_before().0;
            let old = page.records.into_iter().filter(|(_, rank)| rank.saturating_neg() < oldest);
            let records: Vec<RecordChange> = old
                .map(|(record, _)| RecordChange::Remove {
                    kind: record.kind,
                    key: record.key,
                    expect: Expect::Version(record.version),
                })
                .collect();
            let all = records.len() == SWEEP as usize;
            if !records.is_empty() {
                self.keep(Along { records, ..Along::default() }).await?;
            }
            if !all {
                return Ok(());
            }
        }
    }
}
