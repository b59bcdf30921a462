//! Authentication: keys from the config, keys that operators make and revoke at run time, and tokens of issuers that
//! the config trusts ([`jwt`], with keys from [`jwks`]). [`oidc`] signs in people at a provider, for the console.
//!
//! A caller is a tenant and a name. Both identify the owner of tasks and idempotency keys, so names of different kinds
//! must be distinct: a key cannot be named `anonymous`, `jwt:…` or `oauth:…`.

pub(crate) mod jwks;
pub mod jwt;
pub(crate) mod oidc;

use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use model::{AccessKey, Caller, Fault, Kind, Time};
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use web::credentials::{self, AuthScheme, Authorization};

use crate::Settings;
use crate::settings::{self, KeySettings};

/// The fact that marks a fault about a token, for the challenge.
const INVALID_TOKEN: (&str, &str) = ("error", "invalid_token");

pub struct Callers {
    required: bool,
    /// Keys from the config.
    keys: Keys,
    /// Keys made by operators. They are valid at once and under any config, so every version of the server shares them.
    made: Arc<RwLock<Keys>>,
    tokens: Option<jwt::Issuers>,
    /// Where people sign in.
    provider: Option<Arc<oidc::OidcProvider>>,
    anonymous: Arc<Caller>,
}

/// By the hash of the secret: the time of a lookup reveals nothing about other secrets.
type Keys = HashMap<[u8; 32], KnownKey>;

struct KnownKey {
    hash: [u8; 32],
    caller: Arc<Caller>,
    /// The key's id, if an operator made it.
    made: Option<Arc<str>>,
    expires_at: Option<Time>,
}

/// Origin of a key.
pub enum KeyOrigin {
    Config {
        hash: [u8; 32],
    },
    /// Made by an operator, with its id.
    Operator {
        id: Arc<str>,
        hash: [u8; 32],
    },
}

/// The credential in the headers.
enum PresentedCredential<'h> {
    Caller(Arc<Caller>),
    Token(&'h str),
}

impl Callers {
    /// The callers of the settings. Keys that operators made and keys fetched from issuers are taken over from
    /// `before`.
    pub(crate) fn new(settings: &Settings, before: Option<&Callers>) -> Result<Callers, settings::Error> {
        for key in &settings.keys {
            if is_reserved(&key.name) {
                return Err(settings::Error(reserved(&key.name)));
            }
            // Lists are stored under tenant and name, separated by a control character.
            if key.name.contains(char::is_control) || key.tenant.contains(char::is_control) {
                return Err(settings::Error(format!("a key cannot be named {:?}: choose printable names", key.name)));
            }
        }
        let keys = settings.keys.iter().map(|key| {
            let KeySettings { name, tenant, scopes, expires_at, .. } = key;
            let caller = known_caller(tenant, name, scopes);
            let hash = hash(&key.secret);
            (hash, KnownKey { hash, caller, made: None, expires_at: *expires_at })
        });
        let tokens = if settings.issuers.is_empty() {
            None
        } else {
            let mut tokens = jwt::Issuers::new(&settings.issuers)?;
            if let Some(before) = before.and_then(|before| before.tokens.as_ref()) {
                tokens.keep_keys_of(before);
            }
            Some(tokens)
        };
        let former = before.and_then(|before| before.provider.as_deref());
        let provider = settings.oidc.as_ref().map(|oidc| oidc::OidcProvider::new(oidc, former)).transpose()?;
        Ok(Callers {
            required: settings.auth_required,
            keys: keys.collect(),
            made: before.map(|before| before.made.clone()).unwrap_or_default(),
            tokens,
            provider,
            anonymous: Arc::new(Caller::anonymous()),
        })
    }

    /// Applies the current state of a key (new, changed or revoked) from the next request on.
    pub fn take(&self, key: &AccessKey) {
        let mut known = self.made.write();
        known.retain(|_, known| known.made.as_ref() != Some(&key.id));
        if key.revoked_at.is_some() {
            return;
        }
        if is_reserved(&key.name) {
            tracing::error!(key = &*key.id, "a key is not let in: {}", reserved(&key.name));
            return;
        }
        let caller = known_caller(&key.tenant, &key.name, &key.scopes);
        let entry = KnownKey { hash: key.hash, caller, made: Some(key.id.clone()), expires_at: key.expires_at };
        known.insert(key.hash, entry);
    }

    /// Fetches the keys of issuers ahead, so that the first caller does not wait. A failed fetch is logged and repeated
    /// when a token comes.
    pub async fn warm_up(&self) {
        if let Some(tokens) = &self.tokens {
            tokens.warm_up().await;
        }
    }

    /// Whether any credential exists.
    pub fn has_any(&self) -> bool {
        self.tokens.is_some() || self.has_keys()
    }

    pub(crate) fn has_keys(&self) -> bool {
        !self.keys.is_empty() || !self.made.read().is_empty()
    }

    /// The verifier of tokens, if an issuer is configured.
    pub(crate) fn tokens(&self) -> Option<&jwt::Issuers> {
        self.tokens.as_ref()
    }

    /// The provider whose people may sign in to the console.
    pub(crate) fn provider(&self) -> Option<&Arc<oidc::OidcProvider>> {
        self.provider.as_ref()
    }

    pub fn required(&self) -> bool {
        self.required
    }

    pub fn anonymous(&self) -> &Arc<Caller> {
        &self.anonymous
    }

    /// The caller with the credential in the headers. A wrong credential is refused even where none is required,
    /// because its sender expects to be authenticated. Only a token may have to wait, for its issuer's keys.
    pub async fn identify(&self, headers: &HeaderMap) -> Result<Arc<Caller>, Fault> {
        match self.look(headers)? {
            PresentedCredential::Caller(caller) => Ok(caller),
            // Boxed, so that the future of a request without a token stays small.
            PresentedCredential::Token(token) => match &self.tokens {
                Some(tokens) => Box::pin(tokens.verify(token)).await,
                None => Err(refused("the key is not known here")),
            },
        }
    }

    /// The caller whose key has this secret, and the origin of the key.
    pub fn by_secret(&self, secret: &str) -> Option<(Arc<Caller>, KeyOrigin)> {
        let hash = hash(secret);
        if let Some(known) = self.keys.get(&hash) {
            return Some((known.shown(&hash)?.ok()?, KeyOrigin::Config { hash }));
        }
        let made = self.made.read();
        let known = made.get(&hash)?;
        let source = KeyOrigin::Operator { id: known.made.clone()?, hash };
        Some((known.shown(&hash)?.ok()?, source))
    }

    /// The caller whose valid key of any origin has this hash.
    pub(crate) fn by_hash(&self, hash: &[u8; 32]) -> Option<Arc<Caller>> {
        match self.keys.get(hash) {
            Some(known) => known.shown(hash)?.ok(),
            None => self.made.read().get(hash)?.shown(hash)?.ok(),
        }
    }

    /// Whether a valid key that an operator made has this hash.
    pub fn has_operators_key(&self, hash: &[u8; 32]) -> bool {
        self.made.read().get(hash).is_some_and(|known| matches!(known.shown(hash), Some(Ok(_))))
    }

    /// The hashes of the valid keys that the config has under this name.
    pub fn config_keys(&self, tenant: &str, name: &str) -> Vec<[u8; 32]> {
        let good = |known: &&KnownKey| known.is_of(tenant, name) && matches!(known.shown(&known.hash), Some(Ok(_)));
        self.keys.values().filter(good).map(|known| known.hash).collect()
    }

    /// Whether a valid key of any origin has this name.
    pub fn has_name(&self, tenant: &str, name: &str) -> bool {
        let good = |known: &KnownKey| known.is_of(tenant, name) && matches!(known.shown(&known.hash), Some(Ok(_)));
        self.keys.values().any(good) || self.made.read().values().any(good)
    }

    fn look<'h>(&self, headers: &'h HeaderMap) -> Result<PresentedCredential<'h>, Fault> {
        let key =
            || credentials::api_key(headers).map(|key| key.map_err(|_| refused("the X-Api-Key header is not text")));
        let secret = match Authorization::of(headers) {
            None => match key() {
                None => return Ok(PresentedCredential::Caller(self.anonymous.clone())),
                Some(key) => key?,
            },
            Some(authorization) => {
                let authorization = authorization.map_err(|_| refused("the Authorization header is not text"))?;
                match authorization.scheme {
                    AuthScheme::Bearer => {
                        let secret = authorization.credentials.unwrap_or_default();
                        if self.tokens.is_some() && jwt::is_token(secret) {
                            return Ok(PresentedCredential::Token(secret));
                        }
                        secret
                    }
                    // The header may hold a credential for a proxy; the key is in its own header.
                    AuthScheme::Basic | AuthScheme::Other => key().ok_or_else(|| {
                        refused("use a bearer key: Authorization: Bearer <key>, or X-Api-Key: <key>")
                    })??,
                }
            }
        };
        let hash = hash(secret);
        let caller = match self.keys.get(&hash) {
            Some(known) => known.shown(&hash),
            None => self.made.read().get(&hash).and_then(|known| known.shown(&hash)),
        };
        caller.unwrap_or_else(|| Err(refused("the key is not known here"))).map(PresentedCredential::Caller)
    }
}

impl KnownKey {
    fn is_of(&self, tenant: &str, name: &str) -> bool {
        *self.caller.tenant == *tenant && *self.caller.name == *name
    }

    /// The caller of the key, if its secret has this hash.
    fn shown(&self, hash: &[u8; 32]) -> Option<Result<Arc<Caller>, Fault>> {
        if !bool::from(self.hash.ct_eq(hash)) {
            return None;
        }
        if self.expires_at.is_some_and(|end| Time(jiff::Timestamp::now().as_millisecond()) >= end) {
            return Some(Err(refused("the key has expired; ask for a new one")));
        }
        Some(Ok(self.caller.clone()))
    }
}

fn known_caller(tenant: &Arc<str>, name: &Arc<str>, scopes: &[String]) -> Arc<Caller> {
    Arc::new(Caller { tenant: tenant.clone(), name: name.clone(), authenticated: true, scopes: scopes.into() })
}

/// Prefixes of the names that products give their callers. Stored tasks and logs contain them.
const RESERVED_PREFIXES: [&str; 1] = ["oauth:"];

/// Whether a name is reserved for callers without a credential, with a token, or of a product.
pub fn is_reserved(name: &str) -> bool {
    name == "anonymous" || is_token(name) || RESERVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a caller's name is that of a token's subject.
pub fn is_token(name: &str) -> bool {
    name.starts_with("jwt:")
}

pub fn reserved(name: &str) -> String {
    format!(
        "a key cannot be named {name:?}: that is another caller's name; choose one that is not anonymous, jwt:… or oauth:…"
    )
}

/// The form in which a secret is stored and compared.
pub fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

fn refused(message: &str) -> Fault {
    Fault::new(Kind::Unauthenticated, message)
}

/// The fault of a token that is not accepted. The message does not say which one would be.
fn bad_token(message: impl Into<String>) -> Fault {
    Fault::new(Kind::Unauthenticated, message).fact(INVALID_TOKEN.0, INVALID_TOKEN.1)
}

/// The fault of a caller without a credential where one is required.
pub fn credential_required() -> Fault {
    refused("authentication is required: send Authorization: Bearer <key> or X-Api-Key: <key>")
}

/// The `WWW-Authenticate` header for a fault.
pub fn challenge(fault: &Fault) -> HeaderValue {
    let plain = HeaderValue::from_static("Bearer realm=\"a2a\"");
    if !fault.facts.iter().any(|(name, value)| (*name, &**value) == INVALID_TOKEN) {
        return plain;
    }
    let words: String = fault.message.chars().filter(|c| matches!(c, ' '..='~') && !matches!(c, '"' | '\\')).collect();
    let full = format!("Bearer realm=\"a2a\", error=\"invalid_token\", error_description=\"{words}\"");
    HeaderValue::from_str(&full).unwrap_or(plain)
}
