//! Removal of the market's records that have expired: idempotency keys, logins, download tokens and undelivered notices.

use std::time::Duration;

use ledger::RecordCollection;
use ledger::records::expiry::remove_older;
use model::{Fault, Time};

use crate::records::ALL;
use crate::{Market, notices, records};

const EVERY: Duration = Duration::from_secs(600);
/// A download token is kept for a day after its expiry, so that its holder is told why it is refused.
const GRANT_MS: i64 = 86_400_000;

/// Removes expired records now and then, until the store is closed.
pub(crate) async fn run(market: Market) {
    loop {
        tokio::time::sleep(EVERY).await;
        if market.engine().is_draining() {
            return;
        }
        let (engine, now) = (market.engine(), market.now());
        let commit = |removals| engine.keep_unchanged(removals);
        let keys = records::USED_KEYS.remove_older(market.store(), engine.keys_since(), commit).await;
        warn("idempotency keys", keys);
        // A login is over at the time of its end.
        warn("logins", market.remove_expired(records::LOGINS, ALL, Time(now.0.saturating_add(1))).await);
        let grants = Time(now.0.saturating_sub(GRANT_MS));
        warn("download tokens", market.remove_expired(records::GRANTS, ALL, grants).await);
        let lost = Time(now.0.saturating_sub(notices::LOST_MS));
        warn("undelivered notices", market.remove_expired(records::NOTICES, notices::LOST, lost).await);
    }
}

fn warn(what: &str, removed: Result<(), Fault>) {
    if let Err(fault) = removed {
        tracing::warn!("expired {what} of the market are not removed; the next sweep tries again: {fault}");
    }
}

impl Market {
    /// Removes the records of a list that are older than `before`.
    pub(crate) async fn remove_expired<R>(
        &self,
        collection: RecordCollection<R>,
        list: &str,
        before: Time,
    ) -> Result<(), Fault> {
        let commit = |removals| self.engine().keep_unchanged(removals);
        remove_older(collection, self.store(), list, before, commit).await
    }
}
