//! An issuer's public keys (JWKS, RFC 7517), fetched on demand and kept.
//!
//! * Fetches are rare: one at a time, and at least `floor` apart, regardless of how many tokens and keys are asked for.
//! * A set is valid for the lifetime that its response states; then it is fetched again while the old one stays in use.
//!   Keys that the issuer removed are gone with the new set.
//! * When an issuer is down or sends an unreadable set, the old set stays in use for a day. Without any set, a token is
//!   answered with "try again", not with "invalid".

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use model::{Fault, Kind};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;

const BODY_BYTES: usize = 1 << 20;
const KEYS: usize = 100;
const DEFAULT_AGE: Duration = Duration::from_secs(600);
const LEAST_AGE: Duration = Duration::from_secs(60);
const MOST_AGE: Duration = Duration::from_secs(86_400);
/// Time for which an expired set stays in use when it cannot be fetched.
const STALE: Duration = Duration::from_secs(86_400);

pub(crate) enum JwksSource {
    Url(String),
    /// The issuer, whose OpenID configuration names the address.
    Discovery(String),
}

#[derive(Clone)]
pub(crate) struct Times {
    pub(crate) floor: Duration,
    pub(crate) patience: Duration,
    pub(crate) clock: Arc<dyn Fn() -> Instant + Send + Sync>,
}

impl Times {
    pub(crate) fn new(floor_ms: u64, patience_ms: u64) -> Times {
        Times {
            floor: Duration::from_millis(floor_ms),
            patience: Duration::from_millis(patience_ms),
            clock: Arc::new(Instant::now),
        }
    }
}

pub(crate) struct Jwks {
    source: JwksSource,
    client: reqwest::Client,
    times: Times,
    set: ArcSwapOption<Set>,
    /// Locked during a fetch.
    flight: tokio::sync::Mutex<Flight>,
    /// A refresh in the background is running.
    refreshing: AtomicBool,
    /// The last fetch failed: callers whose key is in the set do not wait for the next one.
    failing: AtomicBool,
    /// The failure has been logged.
    complained: AtomicBool,
    /// The address from the OpenID configuration, until a fetch from it fails.
    discovered: Mutex<Option<String>>,
    /// From the newest OpenID configuration, if it has a sign-in for people.
    endpoints: ArcSwapOption<ProviderEndpoints>,
}

/// The addresses of a provider at which people sign in.
pub(crate) struct ProviderEndpoints {
    pub(crate) authorize: String,
    pub(crate) token: String,
    /// It takes a client's secret in the form, not in a header.
    pub(crate) posts_secret: bool,
    /// Its answers by way of the browser name it (RFC 9207).
    pub(crate) names_itself: bool,
}

/// A form for an address of the issuer, with a user and a password.
pub(crate) struct FormPost<'a> {
    pub(crate) url: &'a str,
    pub(crate) form: String,
    pub(crate) basic: Option<(String, String)>,
}

#[derive(Default)]
struct Flight {
    began: Option<Instant>,
    failed: bool,
}

struct Set {
    keys: Vec<SetKey>,
    fetched: Instant,
    good_for: Duration,
}

struct SetKey {
    kid: Option<String>,
    /// The algorithms that the key can check: by its type and by its own `alg`.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

/// The keys that a token may be signed with.
pub(crate) struct Candidates {
    set: Arc<Set>,
    chosen: Vec<usize>,
}

impl Candidates {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &DecodingKey> {
        self.chosen.iter().filter_map(|at| self.set.keys.get(*at)).map(|known| &known.key)
    }
}

pub(crate) fn discovery_url(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

impl Jwks {
    pub(crate) fn new(source: JwksSource, times: Times) -> Result<Arc<Jwks>, String> {
        let (JwksSource::Url(url) | JwksSource::Discovery(url)) = &source;
        web_address(url)?;
        let client = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(times.patience)
            .user_agent(concat!("rialto/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| format!("no HTTP client: {error}"))?;
        Ok(Arc::new(Jwks {
            source,
            client,
            times,
            set: ArcSwapOption::empty(),
            flight: tokio::sync::Mutex::default(),
            refreshing: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            complained: AtomicBool::new(false),
            discovered: Mutex::default(),
            endpoints: ArcSwapOption::empty(),
        }))
    }

    pub(crate) async fn warm_up(self: &Arc<Self>) {
        self.fetch_after(None).await;
    }

    fn now(&self) -> Instant {
        (self.times.clock)()
    }

    /// The keys that a token with this header may be signed with; empty if the issuer has no such key.
    pub(crate) async fn keys(self: &Arc<Self>, kid: Option<&str>, algorithm: Algorithm) -> Result<Candidates, Fault> {
        let set = match self.current() {
            Some(set) => self.kept_fresh(set).await,
            None => {
                self.fetch_after(None).await;
                match self.current() {
                    Some(set) => set,
                    None => return Err(self.unavailable().await),
                }
            }
        };
        let found = set.candidates(kid, algorithm);
        if !found.chosen.is_empty() {
            return Ok(found);
        }
        // An unknown key id: the issuer may have a new key.
        self.fetch_after(Some(set.fetched)).await;
        let Some(set) = self.current() else { return Err(self.unavailable().await) };
        let found = set.candidates(kid, algorithm);
        if found.chosen.is_empty() && self.flight.lock().await.failed {
            // Without a set, the token can be neither accepted nor rejected.
            return Err(self.unavailable().await);
        }
        Ok(found)
    }

    /// The addresses at which people sign in.
    pub(crate) async fn endpoints(self: &Arc<Self>) -> Result<Arc<ProviderEndpoints>, Fault> {
        if self.endpoints.load().is_none() {
            self.fetch_after(None).await;
        }
        self.endpoints.load_full().ok_or_else(|| {
            let message =
                "the provider's configuration cannot be had now, or has no sign-in for people: try again in a moment";
            Fault::new(Kind::Unavailable, message)
        })
    }

    /// Sends a form to an address of the issuer: the status and the body of the answer.
    pub(crate) async fn post(&self, post: FormPost<'_>) -> Result<(u16, Vec<u8>), String> {
        let FormPost { url, form, basic } = post;
        let mut request = self.client.post(url).header("accept", "application/json");
        if let Some((user, password)) = basic {
            request = request.basic_auth(user, Some(password));
        }
        let request = request.header("content-type", "application/x-www-form-urlencoded").body(form);
        let answer = request.send().await.map_err(|error| format!("{url}: {}", causes(&error)))?;
        let status = answer.status().as_u16();
        Ok((status, whole_body(url, answer).await?))
    }

    #[cfg(test)]
    pub(crate) fn has(&self, kid: &str) -> bool {
        self.set.load().as_ref().is_some_and(|set| set.keys.iter().any(|key| key.kid.as_deref() == Some(kid)))
    }

    #[cfg(test)]
    pub(crate) fn good_for(&self) -> Option<Duration> {
        self.set.load().as_ref().map(|set| set.good_for)
    }

    fn current(&self) -> Option<Arc<Set>> {
        self.set.load_full().filter(|set| self.age(set) < set.good_for + STALE)
    }

    fn age(&self, set: &Set) -> Duration {
        self.now().saturating_duration_since(set.fetched)
    }

    /// Refreshes an expired set in the background; waits for the new one only if the old one is far out of date.
    async fn kept_fresh(self: &Arc<Self>, set: Arc<Set>) -> Arc<Set> {
        let age = self.age(&set);
        if age < set.good_for {
            return set;
        }
        if age >= set.good_for * 2 && !self.failing.load(Ordering::Acquire) {
            self.fetch_after(Some(set.fetched)).await;
            return self.current().unwrap_or(set);
        }
        if !self.refreshing.swap(true, Ordering::AcqRel) {
            let (jwks, seen) = (self.clone(), set.fetched);
            tokio::spawn(async move {
                jwks.fetch_after(Some(seen)).await;
                jwks.refreshing.store(false, Ordering::Release);
            });
        }
        set
    }

    /// Fetches, unless there was a fetch after `seen` or a moment ago. The fetch is a task of its own, so a caller that
    /// disconnects does not cancel it.
    async fn fetch_after(self: &Arc<Self>, seen: Option<Instant>) {
        let jwks = self.clone();
        let fetched = tokio::spawn(async move {
            let mut flight = jwks.flight.lock().await;
            let newer = jwks.set.load().as_ref().is_some_and(|set| seen.is_none_or(|seen| set.fetched > seen));
            let now = jwks.now();
            let lately = flight.began.is_some_and(|began| now.saturating_duration_since(began) < jwks.times.floor);
            if (newer && jwks.current().is_some()) || lately {
                return;
            }
            flight.began = Some(now);
            flight.failed = !jwks.fetch().await;
            jwks.failing.store(flight.failed, Ordering::Release);
        });
        if let Err(error) = fetched.await {
            tracing::error!(%error, "fetching an issuer's keys broke off");
        }
    }

    async fn fetch(&self) -> bool {
        match self.ask().await {
            Ok(set) => {
                if self.complained.swap(false, Ordering::Relaxed) {
                    tracing::info!(from = self.name(), "an issuer's keys can be had again");
                }
                if set.keys.is_empty() {
                    tracing::warn!(from = self.name(), "an issuer has no key that could be used");
                }
                self.set.store(Some(Arc::new(set)));
                true
            }
            Err(trouble) => {
                *self.discovered.lock() = None;
                if !self.complained.swap(true, Ordering::Relaxed) {
                    let kept = self.current().is_some();
                    tracing::warn!(from = self.name(), kept, "an issuer's keys cannot be had: {trouble}");
                }
                false
            }
        }
    }

    fn name(&self) -> &str {
        match &self.source {
            JwksSource::Url(url) | JwksSource::Discovery(url) => url,
        }
    }

    async fn ask(&self) -> Result<Set, String> {
        let url = match &self.source {
            JwksSource::Url(url) => url.clone(),
            JwksSource::Discovery(issuer) => self.discover(issuer).await?,
        };
        let (body, good_for) = self.get(&url).await?;
        #[derive(Deserialize)]
        struct Answer {
            keys: Vec<Value>,
        }
        let answer: Answer = serde_json::from_slice(&body).map_err(|e| format!("{url} has no key set: {e}"))?;
        let keys = answer.keys.into_iter().take(KEYS).filter_map(usable).collect();
        Ok(Set { keys, fetched: self.now(), good_for })
    }

    async fn discover(&self, issuer: &str) -> Result<String, String> {
        if let Some(known) = self.discovered.lock().clone() {
            return Ok(known);
        }
        let url = discovery_url(issuer);
        let (body, _) = self.get(&url).await?;
        #[derive(Deserialize)]
        struct Answer {
            issuer: String,
            jwks_uri: String,
            #[serde(default)]
            authorization_endpoint: Option<String>,
            #[serde(default)]
            token_endpoint: Option<String>,
            #[serde(default)]
            token_endpoint_auth_methods_supported: Option<Vec<String>>,
            #[serde(default)]
            authorization_response_iss_parameter_supported: bool,
        }
        let said: Answer =
            serde_json::from_slice(&body).map_err(|e| format!("{url} is no OpenID configuration: {e}"))?;
        if said.issuer != issuer {
            return Err(format!("{url} is the configuration of another issuer, {:?}", said.issuer));
        }
        let is_secure = |named: &str| !issuer.starts_with("https:") || named.starts_with("https:");
        web_address(&said.jwks_uri)?;
        if !is_secure(&said.jwks_uri) {
            return Err(format!("{url} names keys that are not behind https"));
        }
        if let (Some(authorize), Some(token)) = (said.authorization_endpoint, said.token_endpoint)
            && [&authorize, &token].iter().all(|named| is_secure(named) && web_address(named).is_ok())
        {
            let methods = said.token_endpoint_auth_methods_supported.unwrap_or_default();
            let takes = |method: &str| methods.iter().any(|known| known == method);
            self.endpoints.store(Some(Arc::new(ProviderEndpoints {
                authorize,
                token,
                // Without a list it takes the header.
                posts_secret: takes("client_secret_post") && !takes("client_secret_basic"),
                names_itself: said.authorization_response_iss_parameter_supported,
            })));
        }
        *self.discovered.lock() = Some(said.jwks_uri.clone());
        Ok(said.jwks_uri)
    }

    async fn get(&self, url: &str) -> Result<(Vec<u8>, Duration), String> {
        let trouble = |error: reqwest::Error| format!("{url}: {}", causes(&error));
        let answer = self.client.get(url).header("accept", "application/json").send().await.map_err(trouble)?;
        if answer.status() != reqwest::StatusCode::OK {
            return Err(format!("{url} answered {}", answer.status()));
        }
        let said = answer.headers().get(http::header::CACHE_CONTROL).and_then(|value| value.to_str().ok());
        let good_for = said.and_then(max_age).unwrap_or(DEFAULT_AGE).clamp(LEAST_AGE, MOST_AGE);
        Ok((whole_body(url, answer).await?, good_for))
    }

    async fn unavailable(&self) -> Fault {
        let began = self.flight.lock().await.began;
        let since = began.map_or(Duration::ZERO, |began| self.now().saturating_duration_since(began));
        let wait = self.times.floor.saturating_sub(since).as_secs_f64().ceil().max(1.0);
        let message = "the token cannot be checked now: its issuer's keys cannot be had; try again";
        Fault::new(Kind::Unavailable, message).retry_after(wait as u32)
    }
}

impl Set {
    fn candidates(self: &Arc<Self>, kid: Option<&str>, algorithm: Algorithm) -> Candidates {
        let fits = |known: &SetKey| {
            // A token without a key id is tried with every key of its algorithm.
            known.algorithms.contains(&algorithm) && kid.is_none_or(|kid| known.kid.as_deref() == Some(kid))
        };
        let chosen = self.keys.iter().enumerate().filter(|(_, known)| fits(known)).map(|(at, _)| at).collect();
        Candidates { set: self.clone(), chosen }
    }
}

/// A key of the set, if it can check signatures. Never a symmetric key: the set is public.
fn usable(key: Value) -> Option<SetKey> {
    let jwk: Jwk = serde_json::from_value(key).ok()?;
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    if jwk.common.key_operations.as_ref().is_some_and(|known| !known.contains(&KeyOperations::Verify)) {
        return None;
    }
    let by_kind: &[Algorithm] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::PS256],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P256 => &[Algorithm::ES256],
        AlgorithmParameters::EllipticCurve(key) if key.curve == EllipticCurve::P384 => &[Algorithm::ES384],
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => &[Algorithm::EdDSA],
        // The enum of another crate, which is non-exhaustive.
        _ => return None,
    };
    let said = jwk.common.key_algorithm;
    let algorithms = by_kind.iter().copied().filter(|one| said.is_none_or(|said| said == KeyAlgorithm::from(*one)));
    let algorithms: Vec<Algorithm> = algorithms.collect();
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    (!algorithms.is_empty()).then_some(SetKey { kid: jwk.common.key_id, algorithms, key })
}

fn web_address(text: &str) -> Result<(), String> {
    let url = url::Url::parse(text).map_err(|_| format!("{text:?} is not an address; write https://host/path"))?;
    match url.scheme() {
        "https" => Ok(()),
        "http" => {
            let here =
                url.host_str().is_some_and(|host| host == "localhost" || host.starts_with("127.") || host == "[::1]");
            if !here {
                tracing::warn!(
                    url = text,
                    "an issuer's keys travel without https: whoever is on the way can change them"
                );
            }
            Ok(())
        }
        _ => Err(format!("{text:?} is not an address; write https://host/path")),
    }
}

async fn whole_body(url: &str, mut answer: reqwest::Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| format!("{url}: {}", causes(&error)))? {
        if body.len() + chunk.len() > BODY_BYTES {
            return Err(format!("{url} says more than {BODY_BYTES} bytes"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn max_age(cache_control: &str) -> Option<Duration> {
    let parts = cache_control.split(',').map(str::trim);
    let seconds = parts.filter_map(|part| part.strip_prefix("max-age=")).find_map(|text| text.trim().parse().ok())?;
    Some(Duration::from_secs(seconds))
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
