//! Who is calling.

use std::collections::HashMap;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use model::{Caller, Fault, Kind};
use sha2::{Digest, Sha256};

use crate::settings::Key;

static API_KEY: HeaderName = HeaderName::from_static("x-api-key");

pub struct Callers {
    required: bool,
    /// By the hash of the secret: looking up a hash tells nothing about the secrets that are not it.
    keys: HashMap<[u8; 32], Arc<Caller>>,
    anonymous: Arc<Caller>,
}

impl Callers {
    pub fn new(required: bool, keys: &[Key]) -> Callers {
        let keys = keys.iter().map(|key| {
            let caller = Caller { tenant: key.tenant.clone(), name: key.name.clone(), authenticated: true };
            (Sha256::digest(&key.secret).into(), Arc::new(caller))
        });
        Callers { required, keys: keys.collect(), anonymous: Arc::new(Caller::anonymous()) }
    }

    /// Whether cards should say how to authenticate.
    pub fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    pub fn required(&self) -> bool {
        self.required
    }

    /// A wrong credential is refused even where none is needed: whoever sends one wants to be somebody.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Arc<Caller>, Fault> {
        let secret = match (headers.get(AUTHORIZATION), headers.get(&API_KEY)) {
            (Some(value), _) => {
                let text = value.to_str().map_err(|_| refused("the Authorization header is not text"))?;
                let (scheme, secret) = text.split_once(' ').unwrap_or((text, ""));
                if !scheme.eq_ignore_ascii_case("bearer") {
                    return Err(refused("use a bearer key: Authorization: Bearer <key>, or X-Api-Key: <key>"));
                }
                secret.trim()
            }
            (None, Some(value)) => value.to_str().map_err(|_| refused("the X-Api-Key header is not text"))?.trim(),
            (None, None) if self.required => {
                return Err(refused(
                    "authentication is required: send Authorization: Bearer <key> or X-Api-Key: <key>",
                ));
            }
            (None, None) => return Ok(self.anonymous.clone()),
        };
        let hash: [u8; 32] = Sha256::digest(secret).into();
        self.keys.get(&hash).cloned().ok_or_else(|| refused("the key is not known here"))
    }
}

fn refused(message: &str) -> Fault {
    Fault::new(Kind::Unauthenticated, message)
}
