//! The market's own limit of REST requests per minute, for each key or, without a key, each address. Off by default.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;

use http::HeaderMap;
use model::{Fault, Kind};

use crate::{MarketService, MarketSettings};
use gateway::GatewayVersion;
use gateway::fronts::RequestLog;
use web::client_address::network_of;
use web::limiter::{Limiter, RateLimit};

/// Counts of recent requests.
#[derive(Clone)]
pub(crate) struct RequestRate {
    limiter: Arc<Limiter>,
    /// Random at start, so that callers cannot choose keys that collide.
    hasher: RandomState,
}

impl RequestRate {
    pub(crate) fn new(settings: &MarketSettings) -> Option<RequestRate> {
        let per_minute = NonZeroU32::new(settings.requests_per_minute?)?;
        let limiter = Arc::new(Limiter::new(RateLimit { per_minute, burst: per_minute }));
        Some(RequestRate { limiter, hasher: RandomState::new() })
    }
}

/// Counts a request. Only a `known` key is counted by key; requests with invalid keys are counted by address.
pub(crate) fn keep(server: &GatewayVersion, headers: &HeaderMap, known: bool, log: &RequestLog) -> Result<(), Fault> {
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
