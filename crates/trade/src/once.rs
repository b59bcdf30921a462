//! The same request twice is one: what a caller's key was used for is written down in the commit it was used in.

use std::sync::Arc;
use std::time::Duration;

use market::{Capability, Demand, Row, Transaction};
use model::{Expect, RecordChange, RecordQuery, Time};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::kept::{self, ALL, kind};
use crate::refused::unread;
use crate::{Caller, External, Market, Refused};

const SWEEP_EVERY: Duration = Duration::from_secs(600);
const SWEEP: u32 = 500;

/// A caller's promise that a repeat with this key is the same request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    pub key: String,
    /// The hash of the request.
    pub print: [u8; 32],
}

/// What a request has made, as it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Made {
    Transaction(Box<Transaction>),
    Capability(Box<Capability>),
    Demand(Box<Demand>),
    External(Box<External>),
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OnceRow {
    print: Arc<str>,
    at: Time,
    made: Made,
}
impl Row for OnceRow {
    const NAME: &'static str = "once";
}

/// A key that has not been used, and how to write down that it is.
#[derive(Clone, Debug)]
pub(crate) struct Fresh {
    key: Arc<str>,
    print: Arc<str>,
    expect: Expect,
}

impl Fresh {
    pub(crate) fn used_for(&self, made: Made, at: Time) -> RecordChange {
        let row = OnceRow { print: self.print.clone(), at, made };
        // The oldest is the first of its list.
        let lists = vec![kept::listed(ALL, at.0.saturating_neg())];
        kept::put(kind::ONCE, self.key.clone(), self.expect, &row, lists)
    }
}

impl Market {
    /// Whether the key is fresh, or what it was used for.
    pub(crate) async fn used(&self, caller: &Caller, once: &Once) -> Result<Result<Fresh, Made>, Refused> {
        let key = kept::hex(&Sha256::digest(&*kept::joined(&[&caller.tenant, caller.user.as_str(), &once.key])));
        let print = kept::hex(&once.print);
        let known = self.read::<OnceRow>(kind::ONCE, key.clone()).await?;
        let oldest = self.oldest();
        match known {
            None => Ok(Ok(Fresh { key, print, expect: Expect::Absent })),
            Some((row, version)) if row.at < oldest => Ok(Ok(Fresh { key, print, expect: Expect::Version(version) })),
            Some((row, _)) if row.print == print => Ok(Err(row.made)),
            Some(_) => Err(Refused::KeyReused),
        }
    }

    fn oldest(&self) -> Time {
        let kept = i64::try_from(self.engine().limits().idempotency_ms).unwrap_or(i64::MAX);
        Time(self.now().0.saturating_sub(kept))
    }
}

/// Forgets keys that are too old to matter, until the store is closed.
pub(crate) async fn sweep(market: Market) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        if market.engine().is_draining() {
            return;
        }
        if let Err(refused) = forget(&market).await {
            tracing::warn!("old idempotency keys of the market stay for now: {refused}");
        }
    }
}

async fn forget(market: &Market) -> Result<(), Refused> {
    loop {
        let query =
            RecordQuery { kind: kind::ONCE.into(), list: ALL.into(), after: None, skip: 0, limit: SWEEP, count: false };
        let page = market.engine().store().records(query).await.map_err(unread)?;
        let oldest = market.oldest().0;
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
            market.engine().keep(engine::Along { records, ..Default::default() }).await?;
        }
        if !all {
            return Ok(());
        }
    }
}
