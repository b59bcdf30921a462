//! Keys that callers are known by: what is kept of one. The secret itself is not; only its hash is.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Time;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKey {
    /// How operators name it: shown in lists and logs.
    pub id: Arc<str>,
    /// Whose it is: what the log and tasks call the caller.
    pub name: Arc<str>,
    pub tenant: Arc<str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// SHA-256 of the secret. A secret has 32 random bytes, so that nothing slower is needed.
    pub hash: [u8; 32],
    /// The beginning of the secret, so that its owner can tell which of several it is.
    pub prefix: String,
    pub created_at: Time,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
}

impl AccessKey {
    pub fn is_valid(&self, now: Time) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }
}
