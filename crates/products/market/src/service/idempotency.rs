//! Idempotency of the market's calls: the result of a call is recorded under the caller's key, in the commit of the call.

use ledger::{FreshKey, Once, PriorUse};
use market_rules::{Capability, Demand, Transaction};
use serde::{Deserialize, Serialize};

use crate::service::{Error, External, Market, MarketCaller, records};

/// The result of a request, as it was answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredResult {
    Transaction(Box<Transaction>),
    Capability(Box<Capability>),
    Demand(Box<Demand>),
    External(Box<External>),
    Removed,
}

impl Market {
    /// Whether the key is unused, or the result of its use.
    pub(crate) async fn used(
        &self,
        caller: &MarketCaller,
        once: &Once,
    ) -> Result<Result<FreshKey, StoredResult>, Error> {
        let (scope, since) = ([&*caller.tenant, caller.user.as_str()], self.engine().keys_since());
        match records::USED_KEYS.lookup(self.store(), &scope, once, since).await? {
            PriorUse::Unused(fresh) => Ok(Ok(fresh)),
            PriorUse::Same(made) => Ok(Err(made)),
            PriorUse::Different => Err(Error::KeyReused),
        }
    }
}
