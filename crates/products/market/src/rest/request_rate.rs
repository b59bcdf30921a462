//! So many requests a minute of one key, else of one address: the market's own limit, off unless the config says so. It
//! counts REST and JSON-RPC together.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;

use http::HeaderMap;
use model::{Fault, Kind};

use crate::{MarketService, MarketSettings};
use gateway::Server;
use gateway::front::RequestLog;
use web::client_address::network_of;
use web::limiter::{Limiter, RateLimit};

/// What callers have used of it. It outlives a change of the settings.
#[derive(Clone)]
pub(crate) struct RequestRate {
    limiter: Arc<Limiter>,
    /// Drawn at the start, so that nobody can choose keys that are counted together.
    hasher: RandomState,
}

impl RequestRate {
    pub(crate) fn new(settings: &MarketSettings) -> Option<RequestRate> {
        let per_minute = NonZeroU32::new(settings.requests_per_minute?)?;
        let limiter = Arc::new(Limiter::new(RateLimit { per_minute, burst: per_minute }));
        Some(RequestRate { limiter, hasher: RandomState::new() })
    }
}

/// One request more. A key counts only once it is `known` to be one: whoever makes keys up is counted by address.
pub(crate) fn keep(server: &Server, headers: &HeaderMap, known: bool, log: &RequestLog) -> Result<(), Fault> {
    let Some(pace) = server.product::<MarketService>().and_then(|market| market.rate.as_ref()) else { return Ok(()) };
    let key = match headers.get("x-api-key").filter(|_| known) {
        Some(key) => pace.hasher.hash_one(key.as_bytes()),
        None => pace.hasher.hash_one(network_of(log.address)),
    };
    pace.limiter.take(key).map_err(|wait| {
        let wait = u32::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u32::MAX).max(1);
        Fault::new(Kind::RateLimited, format!("too many requests; go on in {wait} s")).retry_after(wait)
    })
}
