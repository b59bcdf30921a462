//! Counted sales of capabilities with limits: read from the store or the cache, and changed by the commit of an order.

use std::sync::Arc;

use market_rules::{Capability, Sales};
use model::Time;

use crate::service::records;
use crate::service::{Error, Market};

/// The queue of orders of a capability with limits. Each order changes the row that the next one is checked against;
/// the queue avoids conflicts between orders of one process.
pub(crate) fn line(capability: &Capability) -> Arc<str> {
    records::joined(&["sales", &capability.tenant, capability.id.as_str()])
}

impl Market {
    /// The sales of a capability and the version of their row, zero where there is none yet.
    pub(crate) async fn sold(&self, capability: &Capability, by_heart: bool) -> Result<(Sales, u64), Error> {
        let key = records::capability_key(&capability.tenant, &capability.id);
        let known = by_heart.then(|| self.shared.grounds.sales.lock().get(&key).copied()).flatten();
        if let Some(known) = known {
            return Ok(known);
        }
        match self.read(records::SALES, key).await? {
            Some(found) => Ok(found),
            None => Ok((self.listed_sales(capability).await?, 0)),
        }
    }

    /// Counts sales that were made before there was a row for them.
    async fn listed_sales(&self, capability: &Capability) -> Result<Sales, Error> {
        let (now, terms) = (self.now(), &capability.terms);
        let (since, most) = (Sales::day_of(now), terms.daily_limit.max(terms.rate_limit_per_min).unwrap_or_default());
        let (mut times, mut after) = (Vec::new(), None);
        loop {
            let list = records::sales(&capability.tenant, &capability.id);
            let page = records::TRANSACTIONS.records(self.store(), list, after, 200).await?;
            times.extend(page.records.iter().map(|(_, rank)| Time(*rank)).filter(|time| *time >= since));
            after = page.records.last().map(|(record, rank)| (*rank, record.key.clone()));
            let is_all = !page.more || after.as_ref().is_none_or(|(rank, _)| *rank < since.0);
            if is_all || times.len() >= most as usize {
                return Ok(Sales::counted(times, now));
            }
        }
    }
}
