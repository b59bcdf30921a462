//! Idempotency of the market's calls: the result of a call is recorded under the caller's key, in the commit of the call.

use ledger::{FreshKey, KeyState, Once, PriorUse, perform_once};
use market_rules::{Capability, Demand, Transaction};
use model::ports::store::Conflict;
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

/// Whether a commit met the record of the request's own key: a repeat of the request was faster.
pub(crate) fn is_about_once(met: &Conflict) -> bool {
    matches!(met, Conflict::Record(kind, ..) if records::USED_KEYS.is(kind))
}

impl Market {
    async fn key_state(&self, keyed: Option<(&MarketCaller, &Once)>) -> Result<KeyState<StoredResult>, Error> {
        let Some((caller, once)) = keyed else { return Ok(KeyState::Fresh(None)) };
        let (scope, since) = ([&*caller.tenant, caller.user.as_str()], self.engine().keys_since());
        match records::USED_KEYS.lookup(self.store(), &scope, once, since).await? {
            PriorUse::Unused(fresh) => Ok(KeyState::Fresh(Some(fresh))),
            PriorUse::Same(made) => Ok(KeyState::Used(made)),
            PriorUse::Different => Err(Error::KeyReused),
        }
    }

    /// Performs a request once for its key; [`perform_once`] says how. `repeat` reads the first result.
    pub(crate) async fn perform_once<T, P>(
        &self,
        keyed: Option<(&MarketCaller, &Once)>,
        perform: impl FnOnce(Option<FreshKey>) -> P,
        repeat: impl FnOnce(StoredResult) -> Result<T, Error>,
    ) -> Result<T, Error>
    where
        P: Future<Output = Result<T, Error>>,
    {
        perform_once(|| self.key_state(keyed), perform, |made| std::future::ready(repeat(made))).await
    }
}
