//! Expiry of carts and their checkouts, and removal of old records. Expiry times are ranks of a stored list whose first record
//! expires next, so that they survive a restart. Any process may expire a cart; the first commit wins.

use std::time::Duration;

use ledger::RecordCollection;
use ledger::records::expiry::{remove_older, time};
use model::Time;

use crate::service::records::{self, DUE, OVER};
use crate::service::{Error, Shop};

/// Longest time between two reads of the list: another process may have created a cart that expires earlier.
const AT_LEAST: Duration = Duration::from_secs(5);
/// Time until the next try after a failure.
const LATER: Duration = Duration::from_secs(5);
const AT_ONCE: u32 = 100;
/// Time that ended carts and checkouts are kept.
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
                shop.forget(records::CARTS).await?;
                shop.forget(records::SESSIONS).await?;
                let (engine, since) = (shop.engine(), shop.engine().keys_since());
                let commit = |removals| engine.keep_unchanged(removals);
                Ok::<_, Error>(records::USED_KEYS.remove_older(shop.store(), since, commit).await?)
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
    /// Expires the carts whose time is over, and returns the time until the next one expires.
    pub(crate) async fn expire_due(&self) -> Result<Option<Duration>, Error> {
        let (mut after, mut failed) = (None, None);
        loop {
            let page = records::CARTS.records(self.store(), DUE, after, AT_ONCE).await?;
            for (record, rank) in &page.records {
                let wait = time(*rank).0.saturating_sub(self.now().0);
                if let Ok(wait) = u64::try_from(wait)
                    && wait > 0
                {
                    return failed.map_or(Ok(Some(Duration::from_millis(wait))), Err);
                }
                // A failure does not stop the expiry of other carts.
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

    /// Removes carts or checkouts that ended long ago. Orders stay.
    async fn forget<R>(&self, collection: RecordCollection<R>) -> Result<(), Error> {
        let before = Time(self.now().0.saturating_sub(KEPT_MS));
        let commit = |removals| self.engine().keep_unchanged(removals);
        Ok(remove_older(collection, self.store(), OVER, before, commit).await?)
    }
}
