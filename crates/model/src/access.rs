//! Access keys that authenticate callers. A record holds only the hash of the secret, never the secret itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Time;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessKey {
    /// The id operators use, shown in lists and logs.
    pub id: Arc<str>,
    /// The caller's name in the log and in tasks.
    pub name: Arc<str>,
    pub tenant: Arc<str>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// SHA-256 of the secret. The secret has 32 random bytes, so a slow password hash is not needed.
    pub hash: [u8; 32],
    /// The beginning of the secret, so that its owner can tell several keys apart.
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
