//! Tokens of issuers that the config trusts (JWT, RFC 7519).
//!
//! A token's own claims only select the issuer whose keys check it. The allowed algorithms come from the issuer's
//! config: a token that states `none`, or HMAC where the issuer has public keys, is refused before any key is used.
//!
//! A caller with a token is named `jwt:<issuer without its scheme>#<subject>`: two issuers can never make the same
//! name, and none can make the name of a key.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{DecodingKey, Validation};
use model::{Caller, Fault};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::bad_token;
use super::jwks::{Jwks, JwksSource, Times};
use crate::settings;

pub use jsonwebtoken::Algorithm;

/// Longer tokens are refused unread.
const TOKEN_BYTES: usize = 16 << 10;
/// Longest subject or tenant of a token.
const NAME_BYTES: usize = 256;
/// Algorithms that a key set may check.
const WITH_PUBLIC_KEYS: [Algorithm; 7] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// An issuer whose tokens are accepted, and the rules for them.
#[derive(Clone, Debug)]
pub struct Issuer {
    /// The exact `iss`.
    pub issuer: String,
    /// One of these must be in `aud`.
    pub audience: Vec<String>,
    pub keys: KeySource,
    pub leeway_s: u64,
    pub tenant_claim: String,
    /// The tenant of tokens without that claim.
    pub tenant: Option<Arc<str>>,
    /// The tenants that its tokens may name; an empty list is any tenant.
    pub tenants: Vec<String>,
    pub name_claim: String,
    pub scope_claim: String,
    /// Least time between two fetches of its keys.
    pub floor_ms: u64,
    /// Time limit of a whole fetch.
    pub patience_ms: u64,
}

impl Issuer {
    pub const ALGORITHMS: [Algorithm; 2] = [Algorithm::RS256, Algorithm::ES256];

    pub fn new(issuer: impl Into<String>, audience: Vec<String>, keys: KeySource) -> Issuer {
        Issuer {
            issuer: issuer.into(),
            audience,
            keys,
            leeway_s: 60,
            tenant_claim: "tenant".into(),
            tenant: None,
            tenants: Vec::new(),
            name_claim: "sub".into(),
            scope_claim: "scope".into(),
            floor_ms: 10_000,
            patience_ms: 5_000,
        }
    }
}

/// Source of an issuer's keys.
#[derive(Clone, PartialEq, Eq)]
pub enum KeySource {
    /// A secret shared with the issuer: HS256.
    Secret(String),
    Jwks {
        url: String,
        algorithms: Vec<Algorithm>,
    },
    /// The address that the OpenID configuration names.
    Discovery {
        algorithms: Vec<Algorithm>,
    },
}

impl std::fmt::Debug for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            KeySource::Secret(_) => f.write_str("Secret"),
            KeySource::Jwks { url, algorithms } => write!(f, "Jwks({url}, {algorithms:?})"),
            KeySource::Discovery { algorithms } => write!(f, "Discovery({algorithms:?})"),
        }
    }
}

/// Verifies tokens of the configured issuers.
pub(crate) struct Issuers {
    all: Vec<Trusted>,
}

/// An issuer with its keys.
pub(super) struct Trusted {
    facts: Issuer,
    /// Prefix of its callers' names.
    prefix: String,
    algorithms: Vec<Algorithm>,
    keys: Keys,
}

enum Keys {
    Secret(DecodingKey),
    Set(Arc<Jwks>),
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    /// Extensions that the reader must support; none is supported.
    #[serde(default)]
    crit: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct Unverified {
    #[serde(default)]
    iss: Option<String>,
}

/// Whether a bearer credential is a token rather than a key: three segments, the first of which is a JSON object.
pub fn is_token(bearer: &str) -> bool {
    let mut segments = bearer.split('.');
    let (Some(head), Some(_), Some(_), None) = (segments.next(), segments.next(), segments.next(), segments.next())
    else {
        return false;
    };
    // The beginning decides, regardless of the length; a multiple of four letters decodes by itself.
    let beginning = &head.as_bytes()[..if head.len() > 64 { 64 } else { head.len() }];
    URL_SAFE_NO_PAD.decode(beginning).is_ok_and(|json| json.trim_ascii_start().first() == Some(&b'{'))
}

impl Issuers {
    pub(crate) fn new(issuers: &[Issuer]) -> Result<Issuers, settings::Error> {
        Issuers::with(issuers, |issuer| Times::new(issuer.floor_ms, issuer.patience_ms))
    }

    fn with(issuers: &[Issuer], times: impl Fn(&Issuer) -> Times) -> Result<Issuers, settings::Error> {
        install_provider();
        let mut all: Vec<Trusted> = Vec::with_capacity(issuers.len());
        for issuer in issuers {
            let refuse = |text: String| settings::Error(format!("auth.jwt: the issuer {:?}: {text}", issuer.issuer));
            let trusted = Trusted::new(issuer, times(issuer)).map_err(refuse)?;
            if all.iter().any(|known| known.prefix == trusted.prefix) {
                return Err(refuse("it is named twice; name each issuer once".into()));
            }
            all.push(trusted);
        }
        Ok(Issuers { all })
    }

    /// Takes over the fetched keys of every issuer whose source of keys is unchanged: a change elsewhere in the config
    /// must not lock out the callers of an issuer that is down now.
    pub(crate) fn keep_keys_of(&mut self, before: &Issuers) {
        for one in &mut self.all {
            before.all.iter().for_each(|known| one.keep_keys_of(known));
        }
    }

    /// The addresses of OpenID configurations, for cards.
    pub(crate) fn discovery_urls(&self) -> impl Iterator<Item = String> + '_ {
        self.all.iter().filter_map(|one| match &one.facts.keys {
            KeySource::Discovery { .. } => Some(super::jwks::discovery_url(&one.facts.issuer)),
            KeySource::Secret(_) | KeySource::Jwks { .. } => None,
        })
    }

    pub(crate) async fn warm_up(&self) {
        for set in self.sets() {
            set.warm_up().await;
        }
    }

    fn sets(&self) -> impl Iterator<Item = &Arc<Jwks>> {
        self.all.iter().filter_map(Trusted::key_set)
    }

    pub(crate) async fn verify(&self, token: &str) -> Result<Arc<Caller>, Fault> {
        let (header, claims) = read_token(token)?;
        let issuer = claims.iss.and_then(|iss| self.all.iter().find(|one| one.facts.issuer == iss));
        let issuer = issuer.ok_or_else(|| bad_token("the token's issuer is not trusted here"))?;
        let claims = issuer.claims(token, &header).await?;
        issuer.caller(&claims)
    }
}

/// The header and the claims of a token, not verified yet.
fn read_token(token: &str) -> Result<(Header, Unverified), Fault> {
    if token.len() > TOKEN_BYTES {
        return Err(bad_token(format!("the token is larger than {TOKEN_BYTES} bytes")));
    }
    let mut segments = token.split('.');
    let (header, claims): (Header, Unverified) = (read(segments.next())?, read(segments.next())?);
    if header.crit.is_some() {
        return Err(bad_token("the token asks for extensions (crit) that are not known here"));
    }
    Ok((header, claims))
}

fn read<T: serde::de::DeserializeOwned>(segment: Option<&str>) -> Result<T, Fault> {
    let unreadable = || bad_token("the token cannot be read; get a new one");
    let json = segment.and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).ok_or_else(unreadable)?;
    serde_json::from_slice(&json).map_err(|_| unreadable())
}

impl Trusted {
    pub(super) fn of(issuer: &Issuer) -> Result<Trusted, String> {
        install_provider();
        Trusted::new(issuer, Times::new(issuer.floor_ms, issuer.patience_ms))
    }

    /// Takes over the fetched keys of the same source.
    pub(super) fn keep_keys_of(&mut self, before: &Trusted) {
        let (mine, theirs) = (&self.facts, &before.facts);
        let is_same = (&mine.issuer, &mine.keys) == (&theirs.issuer, &theirs.keys)
            && (mine.floor_ms, mine.patience_ms) == (theirs.floor_ms, theirs.patience_ms);
        if let (true, Keys::Set(set), Keys::Set(known)) = (is_same, &mut self.keys, &before.keys) {
            *set = known.clone();
        }
    }

    /// Its public keys, if it has such.
    pub(super) fn key_set(&self) -> Option<&Arc<Jwks>> {
        match &self.keys {
            Keys::Set(set) => Some(set),
            Keys::Secret(_) => None,
        }
    }

    /// The claims of a token of this issuer that passed every check.
    pub(super) async fn verified_claims(&self, token: &str) -> Result<Map<String, Value>, Fault> {
        let (header, _) = read_token(token)?;
        self.claims(token, &header).await
    }

    /// The name of the caller that these claims are about.
    pub(super) fn name(&self, claims: &Map<String, Value>) -> Result<String, Fault> {
        let claim = &self.facts.name_claim;
        let lacks = || bad_token(format!("the token lacks the claim {claim}"));
        Ok(format!("{}{}", self.prefix, text_of(claims, claim)?.ok_or_else(lacks)?))
    }

    fn new(issuer: &Issuer, times: Times) -> Result<Trusted, String> {
        if issuer.issuer.is_empty() || issuer.issuer.contains(['#', '?']) || issuer.issuer.contains(char::is_control) {
            return Err("an issuer is an address without ? and #, exactly as its tokens have it in iss".into());
        }
        if issuer.audience.is_empty() || issuer.audience.iter().any(String::is_empty) {
            return Err("name the audience its tokens for this server have in aud".into());
        }
        if issuer.leeway_s > 600 {
            return Err("leeway_s is at most 600 seconds".into());
        }
        let set = |source, algorithms: &[Algorithm]| {
            if algorithms.is_empty() || algorithms.iter().any(|one| !WITH_PUBLIC_KEYS.contains(one)) {
                return Err(format!("algorithms are some of {WITH_PUBLIC_KEYS:?}"));
            }
            Ok((Keys::Set(Jwks::new(source, times)?), algorithms.to_vec()))
        };
        let (keys, algorithms) = match &issuer.keys {
            KeySource::Secret(secret) if secret.len() < 32 => {
                return Err("its secret is too easy to guess; share one of 32 bytes or more".into());
            }
            KeySource::Secret(secret) => {
                (Keys::Secret(DecodingKey::from_secret(secret.as_bytes())), vec![Algorithm::HS256])
            }
            KeySource::Jwks { url, algorithms } => set(JwksSource::Url(url.clone()), algorithms)?,
            KeySource::Discovery { algorithms } => set(JwksSource::Discovery(issuer.issuer.clone()), algorithms)?,
        };
        let bare = issuer.issuer.split_once("://").map_or(&*issuer.issuer, |(_, bare)| bare);
        Ok(Trusted { prefix: format!("jwt:{bare}#"), facts: issuer.clone(), algorithms, keys })
    }

    /// The claims of a token that passed every check.
    async fn claims(&self, token: &str, header: &Header) -> Result<Map<String, Value>, Fault> {
        let named = self.algorithms.iter().find(|known| format!("{known:?}") == header.alg);
        let algorithm = *named.ok_or_else(|| bad_token("the token is signed in a way that is not taken here"))?;
        let mut how = Validation::new(algorithm);
        how.leeway = self.facts.leeway_s;
        how.validate_nbf = true;
        how.set_audience(&self.facts.audience);
        how.set_issuer(&[&self.facts.issuer]);
        how.set_required_spec_claims(&["exp", "iss", "aud"]);
        match &self.keys {
            Keys::Secret(key) => Ok(decode(token, key, &how)?),
            Keys::Set(set) => {
                let mut outcome = Err(bad_token("the token is signed with a key that its issuer does not have"));
                for key in set.keys(header.kid.as_deref(), algorithm).await?.iter() {
                    outcome = decode(token, key, &how);
                    if outcome.is_ok() {
                        break;
                    }
                }
                outcome
            }
        }
    }

    fn caller(&self, claims: &Map<String, Value>) -> Result<Arc<Caller>, Fault> {
        let facts = &self.facts;
        let name = self.name(claims)?;
        let tenant: Arc<str> = match (text_of(claims, &facts.tenant_claim)?, &facts.tenant) {
            (Some(tenant), _) => tenant.into(),
            (None, Some(fixed)) => fixed.clone(),
            (None, None) => return Err(bad_token(format!("the token lacks the claim {}", facts.tenant_claim))),
        };
        if !facts.tenants.is_empty() && !facts.tenants.iter().any(|known| **known == *tenant) {
            return Err(bad_token("the token's issuer does not speak for its tenant"));
        }
        Ok(Arc::new(Caller {
            tenant,
            name: name.into(),
            authenticated: true,
            scopes: scopes(claims, &facts.scope_claim)?.into(),
        }))
    }
}

/// A caller's scopes. An empty list would mean every scope, so a token whose claim is empty gets one scope that covers
/// nothing.
fn scopes(claims: &Map<String, Value>, claim: &str) -> Result<Vec<String>, Fault> {
    let unreadable = || bad_token(format!("the token's claim {claim} is not a list of scopes"));
    let all: Vec<String> = match claims.get(claim).or_else(|| claims.get("scp")) {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => text.split_ascii_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(list)) => {
            let names = list.iter().map(|one| one.as_str().map(str::to_owned).ok_or_else(unreadable));
            names.collect::<Result<_, _>>()?
        }
        Some(_) => return Err(unreadable()),
    };
    Ok(if all.is_empty() { vec![String::new()] } else { all })
}

/// A claim that is a name, if the token has it.
fn text_of<'c>(claims: &'c Map<String, Value>, name: &str) -> Result<Option<&'c str>, Fault> {
    match claims.get(name) {
        Some(Value::String(text)) if is_decent(text) => Ok(Some(text.as_str())),
        None | Some(Value::Null) => Ok(None),
        Some(_) => Err(bad_token(format!("the token's claim {name} is not a name"))),
    }
}

/// Another provider of cryptography may be installed already; the features of the crate allow this one only.
fn install_provider() {
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
}

pub(super) fn is_decent(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES && !name.chars().any(char::is_control)
}

fn decode(token: &str, key: &DecodingKey, how: &Validation) -> Result<Map<String, Value>, Fault> {
    let decoded = jsonwebtoken::decode::<Map<String, Value>>(token, key, how);
    decoded.map(|data| data.claims).map_err(|error| match error.kind() {
        ErrorKind::ExpiredSignature => bad_token("the token has expired; get a new one"),
        ErrorKind::ImmatureSignature => bad_token("the token is not valid yet"),
        ErrorKind::InvalidAudience => bad_token("the token is for another audience"),
        ErrorKind::InvalidIssuer => bad_token("the token's issuer is not trusted here"),
        ErrorKind::InvalidSignature => bad_token("the token's signature is not right"),
        ErrorKind::MissingRequiredClaim(claim) => bad_token(format!("the token lacks the claim {claim}")),
        ErrorKind::InvalidClaimFormat(claim) => bad_token(format!("the token's claim {claim} is not a time")),
        // The enum of another crate, which is non-exhaustive.
        _ => bad_token("the token cannot be read; get a new one").because(error),
    })
}

#[cfg(test)]
#[path = "jwt_tests.rs"]
pub(crate) mod tests;
