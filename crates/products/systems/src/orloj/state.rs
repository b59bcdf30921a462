//! The state of the endpoints: tokens, the rate limit, and concurrency limits.

use std::collections::HashMap;
use std::hash::RandomState;
use std::num::NonZeroU32;
use std::sync::Arc;

use http::HeaderMap;
use model::{Caller, Fault, Kind, Time};

use crate::{SystemsService, SystemsSettings};
use gateway::settings::KeySettings;
use gateway::{GatewayVersion, auth};
use web::concurrency::ConcurrencyLimit;
use web::credentials::bearer;
use web::limiter::{Limiter, RateLimit};

/// Tokens by hash, and the limiters that outlive a version of the settings.
pub(crate) struct SystemsState {
    /// The caller and the expiry, by the hash of the token.
    pub(crate) tokens: HashMap<[u8; 32], (Arc<Caller>, Option<Time>)>,
    pub(crate) rate_limit: Option<(NonZeroU32, Arc<Limiter>)>,
    pub(crate) hasher: RandomState,
    pub(crate) waiting: Arc<ConcurrencyLimit>,
    pub(crate) streams: Arc<ConcurrencyLimit>,
}

impl SystemsState {
    /// The state for these settings. Limiters are taken over from `before`.
    pub(crate) fn new(settings: &SystemsSettings, before: Option<&SystemsState>) -> SystemsState {
        let known = |key: &KeySettings| {
            let KeySettings { name, tenant, scopes, .. } = key;
            let caller = Caller {
                tenant: tenant.clone(),
                name: name.clone(),
                authenticated: true,
                scopes: scopes.as_slice().into(),
            };
            (auth::hash(&key.secret), (Arc::new(caller), key.expires_at))
        };
        let rate_limit = settings.requests_per_minute.and_then(NonZeroU32::new).map(|per_minute| {
            let used = before.and_then(|before| before.rate_limit.as_ref()).filter(|(known, _)| *known == per_minute);
            let fresh = || Arc::new(Limiter::new(RateLimit { per_minute, burst: per_minute }));
            (per_minute, used.map_or_else(fresh, |(_, limiter)| limiter.clone()))
        });
        SystemsState {
            tokens: settings.tokens.iter().map(known).collect(),
            rate_limit,
            hasher: before.map(|before| before.hasher.clone()).unwrap_or_default(),
            waiting: before.map(|before| before.waiting.clone()).unwrap_or_default(),
            streams: before.map(|before| before.streams.clone()).unwrap_or_default(),
        }
    }

    /// Whether any token is configured.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Whether any credential exists or is required. Without one everything is open, `auth: bearer` or not.
    pub(crate) fn asks_for_tokens(&self, server: &GatewayVersion) -> bool {
        server.callers.required() || server.callers.has_any() || self.has_tokens()
    }

    /// The caller whose token is in the headers; `None` without a token of these endpoints.
    pub(crate) fn token(&self, headers: &HeaderMap) -> Option<Result<Arc<Caller>, Fault>> {
        let (caller, end) = self.tokens.get(&auth::hash(bearer(headers)?))?;
        if end.is_some_and(|end| Time(jiff::Timestamp::now().as_millisecond()) >= end) {
            return Some(Err(Fault::new(Kind::Unauthenticated, "the token has expired; ask for a new one")));
        }
        Some(Ok(caller.clone()))
    }
}

impl SystemsService {
    /// Checks before the body is read whether these headers admit to any system at all.
    pub(crate) async fn admits_any(&self, server: &GatewayVersion, headers: &HeaderMap) -> Result<(), Fault> {
        let caller = match self.state.token(headers) {
            Some(known) => known?,
            None => server.callers.identify(headers).await?,
        };
        let asks = self.state.asks_for_tokens(server);
        let public = || self.settings.systems.iter().any(|system| system.public);
        if caller.authenticated || !asks || public() { Ok(()) } else { Err(auth::credential_required()) }
    }
}
