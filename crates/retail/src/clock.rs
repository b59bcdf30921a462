//! What expires: carts and their checkouts. When is in the rows themselves, in a list whose first is the next, so that a
//! restart forgets nothing and any process may do it; whoever is faster has done it.

use std::time::Duration;

use engine::Along;
use model::{Expect, RecordChange, RecordQuery};

use crate::kept::{DUE, OVER, kind};
use crate::refused::unread;
use crate::{Refused, Shop};

/// Looked at least this often: another process may have made something that expires earlier.
const AT_LEAST: Duration = Duration::from_secs(5);
/// After trouble.
const LATER: Duration = Duration::from_secs(5);
const AT_ONCE: u32 = 100;
/// How long what is over is kept.
const KEPT_MS: i64 = 30 * 86_400_000;
const FORGET_EVERY: Duration = Duration::from_secs(600);

pub(crate) async fn run(shop: Shop) {
    let mut forget_at = tokio::time::Instant::now() + FORGET_EVERY;
    loop {
        if shop.engine().is_draining() {
            return;
        }
        let wait = match shop.expire_due().await {
            Ok(next) => next.map_or(AT_LEAST, |next| next.min(AT_LEAST)),
            Err(refused) => {
                tracing::warn!("carts whose time is over stay for now: {refused}");
                LATER
            }
        };
        if tokio::time::Instant::now() >= forget_at {
            forget_at = tokio::time::Instant::now() + FORGET_EVERY;
            let forgotten = async {
                shop.forget(kind::CART).await?;
                shop.forget(kind::SESSION).await?;
                Ok::<_, Refused>(shop.engine().forget_used(kind::ONCE).await?)
            };
            if let Err(refused) = forgotten.await {
                tracing::warn!("carts that are over stay for now: {refused}");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shop.shared.alarm.notified() => {}
        }
    }
}

impl Shop {
    /// Ends what is over, and tells how long it is until the next.
    pub(crate) async fn expire_due(&self) -> Result<Option<Duration>, Refused> {
        let (mut after, mut failed) = (None, None);
        loop {
            let (kind, list) = (kind::CART.into(), DUE.into());
            let query = RecordQuery { kind, list, after, skip: 0, limit: AT_ONCE, count: false };
            let page = self.engine().store().records(query).await.map_err(unread)?;
            for (record, rank) in &page.records {
                let wait = rank.saturating_neg().saturating_sub(self.now().0);
                if let Ok(wait) = u64::try_from(wait)
                    && wait > 0
                {
                    return failed.map_or(Ok(Some(Duration::from_millis(wait))), Err);
                }
                // One that cannot be ended keeps none of the others.
                if let Err(refused) = self.expire(&record.key).await {
                    failed = Some(refused);
                }
            }
            after = page.records.last().map(|(record, rank)| (*rank, record.key.clone()));
            if !page.more {
                return failed.map_or(Ok(None), Err);
            }
        }
    }

    /// Forgets carts or checkouts that have long been over. Orders stay.
    async fn forget(&self, what: &'static str) -> Result<(), Refused> {
        loop {
            let (kind, list) = (what.into(), OVER.into());
            let query = RecordQuery { kind, list, after: None, skip: 0, limit: AT_ONCE, count: false };
            let page = self.engine().store().records(query).await.map_err(unread)?;
            let oldest = self.now().0.saturating_sub(KEPT_MS);
            let old = page.records.into_iter().filter(|(_, rank)| rank.saturating_neg() < oldest);
            let records: Vec<RecordChange> = old
                .map(|(record, _)| RecordChange::Remove {
                    kind: record.kind,
                    key: record.key,
                    expect: Expect::Version(record.version),
                })
                .collect();
            let all = records.len() == AT_ONCE as usize;
            if !records.is_empty() {
                self.engine().keep(Along { records, ..Along::default() }).await?;
            }
            if !all {
                return Ok(());
            }
        }
    }
}
