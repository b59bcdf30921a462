//! API keys of workspaces. Operators create and revoke them; the secret is shown once.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::{Caller, Expect, Fault, Kind, Time};

use super::makers::{KeyKind, RevocationCounts, RevokedKey};
use super::records::{self, ApiKey};
use super::{
    ACCESS, CALLER_PREFIX, KEY, Oauth, REFRESH, constant_time_eq, draw, scopes, secret, secret_hash, too_busy,
};

const NAME_BYTES: usize = 128;

/// A key to create.
#[derive(Clone, Debug, Default)]
pub struct NewWorkspaceKey {
    pub workspace: Arc<str>,
    pub name: String,
    /// Empty means all scopes.
    pub scopes: Vec<String>,
    pub expires_at: Option<Time>,
}

/// A key without its secret, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeySummary {
    pub id: Arc<str>,
    pub workspace: Arc<str>,
    pub name: String,
    pub scopes: Vec<String>,
    pub made_at: Time,
    pub expires_at: Option<Time>,
}

impl From<ApiKey> for ApiKeySummary {
    fn from(key: ApiKey) -> ApiKeySummary {
        let ApiKey { id, workspace, name, scopes, made, expires, .. } = key;
        ApiKeySummary { id, workspace, name, scopes, made_at: made, expires_at: expires }
    }
}

impl Oauth {
    /// Creates a key and returns its secret, which is not stored.
    pub async fn make_key(&self, new: NewWorkspaceKey) -> Result<(String, ApiKeySummary), Fault> {
        let mut text = secret(KEY)?;
        // The prefixes of other tokens begin with that of keys: a key must not have one of them.
        while text.starts_with(ACCESS) || text.starts_with(REFRESH) {
            text = secret(KEY)?;
        }
        let key = self.keep_key(&text, new).await?;
        Ok((text, key))
    }

    /// Creates a key with a given secret. An existing key with this secret is left unchanged.
    pub async fn put_key(&self, secret: &str, new: NewWorkspaceKey) -> Result<(), Fault> {
        if self.read::<ApiKey>(records::KEY, &secret_hash(secret)).await?.is_some() {
            return Ok(());
        }
        self.keep_key(secret, new).await.map(drop)
    }

    async fn keep_key(&self, text: &str, new: NewWorkspaceKey) -> Result<ApiKeySummary, Fault> {
        let NewWorkspaceKey { workspace, name, scopes: asked, expires_at } = new;
        let printable = |text: &str| !text.is_empty() && text.len() <= NAME_BYTES && !text.contains(char::is_control);
        if !printable(&workspace) || !printable(&name) {
            let message = format!("workspace and name are 1 to {NAME_BYTES} bytes of printable text");
            return Err(Fault::params("name", message));
        }
        let scopes = scopes(&asked.join(" ")).map_err(|error| Fault::params("scopes", error.description))?;
        let (_, all) = self.list::<ApiKey>(records::KEY, records::of_workspace(&workspace), 1).await?;
        if all >= u64::from(self.rules.keys) {
            let message = format!("a workspace has at most {} API keys; revoke one first", self.rules.keys);
            return Err(Fault::new(Kind::InvalidParams, message));
        }
        let key = ApiKey {
            id: format!("key_{}", URL_SAFE_NO_PAD.encode(draw::<12>()?)).into(),
            hash: secret_hash(text),
            workspace,
            name,
            scopes,
            made: self.now(),
            expires: expires_at,
        };
        if !self.keep(vec![records::put_key(&key, Expect::Absent)]).await? {
            return Err(too_busy());
        }
        Ok(key.into())
    }

    /// The keys of a workspace, the newest first.
    pub async fn keys(&self, workspace: &str) -> Result<Vec<ApiKeySummary>, Fault> {
        let (keys, _) = self.list::<ApiKey>(records::KEY, records::of_workspace(workspace), self.rules.keys).await?;
        Ok(keys.into_iter().map(|(key, _)| key.into()).collect())
    }

    /// Revokes a key and the clients and grants created with it; `None` if the workspace has no such key.
    pub async fn revoke_key(&self, workspace: &str, id: &str) -> Result<Option<RevocationCounts>, Fault> {
        let (keys, _) = self.list::<ApiKey>(records::KEY, records::of_workspace(workspace), self.rules.keys).await?;
        let Some((key, _)) = keys.into_iter().find(|(key, _)| *key.id == *id) else { return Ok(None) };
        self.keep(vec![records::remove(records::KEY, &key.hash, Expect::Any)]).await?;
        self.end_made_with(RevokedKey { kind: KeyKind::Workspace, workspace, id }).await.map(Some)
    }

    /// The valid key with this secret, and its caller.
    pub(super) async fn key_and_caller(&self, secret: &str) -> Result<Option<(ApiKey, Arc<Caller>)>, Fault> {
        if !secret.starts_with(KEY) || secret.starts_with(ACCESS) || secret.starts_with(REFRESH) {
            return Ok(None);
        }
        let hash = secret_hash(secret);
        let found = self.read::<ApiKey>(records::KEY, &hash).await?;
        let now = self.now();
        let known =
            found.filter(|(key, _)| constant_time_eq(&key.hash, &hash) && key.expires.is_none_or(|end| end > now));
        Ok(known.map(|(key, _)| {
            let (name, scopes) = (format!("{CALLER_PREFIX}{}", key.id).into(), key.scopes.as_slice().into());
            let caller = Arc::new(Caller { tenant: key.workspace.clone(), name, authenticated: true, scopes });
            (key, caller)
        }))
    }
}
