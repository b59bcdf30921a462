//! The same request twice is one: what a caller's key was used for is written down in the commit it was used in.

use std::time::Duration;

use engine::once::Used;
use market::{Capability, Demand, Transaction};
use serde::{Deserialize, Serialize};

use crate::kept::kind;
use crate::{Caller, External, Market, Refused};

pub(crate) use engine::once::Fresh;
pub use engine::once::Once;

const SWEEP_EVERY: Duration = Duration::from_secs(600);

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

impl Market {
    /// Whether the key is fresh, or what it was used for.
    pub(crate) async fn used(&self, caller: &Caller, once: &Once) -> Result<Result<Fresh, Made>, Refused> {
        match self.engine().used(kind::ONCE, &[&caller.tenant, caller.user.as_str()], once).await? {
            Used::Fresh(fresh) => Ok(Ok(fresh)),
            Used::Made(made) => Ok(Err(made)),
            Used::Otherwise => Err(Refused::KeyReused),
        }
    }
}

/// Forgets keys that are too old to matter, until the store is closed.
pub(crate) async fn sweep(market: Market) {
    loop {
        tokio::time::sleep(SWEEP_EVERY).await;
        if market.engine().is_draining() {
            return;
        }
        if let Err(fault) = market.engine().forget_used(kind::ONCE).await {
            tracing::warn!("old idempotency keys of the market stay for now: {fault}");
        }
    }
}
