//! Who is calling: keys from the config, and keys that operators make and revoke while the server runs.

use std::collections::HashMap;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use model::{AccessKey, Caller, Fault, Kind, Time};
use parking_lot::RwLock;
use sha2::{Digest, Sha256};

use crate::settings::Key;

static API_KEY: HeaderName = HeaderName::from_static("x-api-key");

pub struct Callers {
    required: bool,
    /// By the hash of the secret: looking up a hash tells nothing about the secrets that are not it.
    known: RwLock<HashMap<[u8; 32], Known>>,
    anonymous: Arc<Caller>,
}

struct Known {
    caller: Arc<Caller>,
    /// The key's id, where an operator made it.
    made: Option<Arc<str>>,
    expires_at: Option<Time>,
}

impl Callers {
    pub fn new(required: bool, keys: &[Key]) -> Callers {
        let known = keys.iter().map(|key| {
            let caller = Arc::new(Caller {
                tenant: key.tenant.clone(),
                name: key.name.clone(),
                authenticated: true,
                scopes: Arc::default(),
            });
            (hash(&key.secret), Known { caller, made: None, expires_at: None })
        });
        Callers { required, known: RwLock::new(known.collect()), anonymous: Arc::new(Caller::anonymous()) }
    }

    /// Takes a key as it is from now on: known, changed or revoked, with the next request.
    pub fn take(&self, key: &AccessKey) {
        let mut known = self.known.write();
        known.retain(|_, known| known.made.as_ref() != Some(&key.id));
        if key.revoked_at.is_none() {
            let caller = Arc::new(Caller {
                tenant: key.tenant.clone(),
                name: key.name.clone(),
                authenticated: true,
                scopes: key.scopes.clone().into(),
            });
            known.insert(key.hash, Known { caller, made: Some(key.id.clone()), expires_at: key.expires_at });
        }
    }

    /// Whether cards should say how to authenticate.
    pub fn has_keys(&self) -> bool {
        self.required || !self.known.read().is_empty()
    }

    /// Whether anybody could be let in at all.
    pub fn has_any(&self) -> bool {
        !self.known.read().is_empty()
    }

    pub fn required(&self) -> bool {
        self.required
    }

    /// A wrong credential is refused even where none is needed: whoever sends one wants to be somebody.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Arc<Caller>, Fault> {
        let secret = match (headers.get(AUTHORIZATION), headers.get(&API_KEY)) {
            (Some(value), key) => {
                let text = value.to_str().map_err(|_| refused("the Authorization header is not text"))?;
                let (scheme, secret) = text.split_once(' ').unwrap_or((text, ""));
                match key {
                    _ if scheme.eq_ignore_ascii_case("bearer") => secret.trim(),
                    // A proxy's own credential may stand there; the key is in its own header.
                    Some(key) => text_of(key)?,
                    None => return Err(refused("use a bearer key: Authorization: Bearer <key>, or X-Api-Key: <key>")),
                }
            }
            (None, Some(key)) => text_of(key)?,
            (None, None) if self.required => {
                return Err(refused(
                    "authentication is required: send Authorization: Bearer <key> or X-Api-Key: <key>",
                ));
            }
            (None, None) => return Ok(self.anonymous.clone()),
        };
        let known = self.known.read();
        let Some(known) = known.get(&hash(secret)) else { return Err(refused("the key is not known here")) };
        let now = Time(jiff::Timestamp::now().as_millisecond());
        if known.expires_at.is_some_and(|end| now >= end) {
            return Err(refused("the key has expired; ask for a new one"));
        }
        Ok(known.caller.clone())
    }
}

fn text_of(key: &http::HeaderValue) -> Result<&str, Fault> {
    key.to_str().map(str::trim).map_err(|_| refused("the X-Api-Key header is not text"))
}

/// What is kept and compared instead of a secret.
pub fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

fn refused(message: &str) -> Fault {
    Fault::new(Kind::Unauthenticated, message)
}
