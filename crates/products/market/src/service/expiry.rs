//! Removal of the market's records that have expired: idempotency keys, logins, download tokens and undelivered notices.

use std::time::Duration;

use ledger::RecordCollection;
use ledger::records::expiry::remove_older;
use model::{Fault, Time};

use crate::service::records::ALL;
use crate::service::{Market, notices, records};

const EVERY: Duration = Duration::from_secs(600);
/// A download token is kept for a day after its expiry, so that its holder gets the reason of the refusal.
const GRANT_MS: i64 = 86_400_000;

/// Removes expired records periodically, until the store is closed.
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
        // A login is invalid from its end on.
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;

    use engine::Engine;
    use ledger::Ut;
    use ledger::records::expiry::{BATCH, rank};
    use ledger::records::listed;
    use model::Expect;

    use super::*;
    use crate::service::MarketConfig;
    use crate::service::records::{SPENDING, Spent};

    const BY_TIME: &str = "by time";

    /// A market with a record for each of these times.
    async fn market(times: i64) -> Market {
        let store = Arc::new(stores::memory::MemoryStore::new());
        let engine = Engine::builder(store).start().await.unwrap();
        let market = Market::start(engine, MarketConfig::default(), false).await.unwrap();
        let put = |at: i64| {
            let lists = vec![listed(BY_TIME, rank(Time(at)))];
            SPENDING.put(format!("{at:05}"), Expect::Absent, &Spent { sum: Ut::ZERO }, lists)
        };
        let puts: Vec<_> = (0..times).map(put).collect();
        for some in puts.chunks(100) {
            assert!(market.engine().keep_unchanged(some.to_vec()).await.unwrap());
        }
        market
    }

    async fn left(market: &Market) -> u64 {
        market.length_of(SPENDING, BY_TIME.into()).await.unwrap()
    }

    #[tokio::test]
    async fn older_records_are_removed_in_batches_and_the_others_stay() {
        let old = i64::from(BATCH) + 7;
        let market = market(old + 3).await;
        market.remove_expired(SPENDING, BY_TIME, Time(old)).await.unwrap();
        assert_eq!(left(&market).await, 3);
        assert!(market.read(SPENDING, format!("{old:05}")).await.unwrap().is_some());
    }

    #[tokio::test]
    async fn a_sweep_ends_where_another_process_was_faster() {
        let market = market(i64::from(BATCH)).await;
        let tries = Cell::new(0);
        let commit = |removals: Vec<_>| {
            tries.set(tries.get() + removals.len());
            async { Ok(false) }
        };
        remove_older(SPENDING, market.store(), BY_TIME, Time(i64::MAX), commit).await.unwrap();
        assert_eq!((tries.get(), left(&market).await), (BATCH as usize, u64::from(BATCH)));
    }
}
