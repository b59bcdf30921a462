//! The maker of a client, a code or a grant: the key it was created with. It is valid only as long as its maker is.
//!
//! Every client that a workspace registered, every code and every grant names its maker, and every use of it looks the
//! maker up. So the revocation of a key, its expiry, or its removal or change in the config ends everything created with it,
//! in every process and without a second write. The removal of the records only frees space and may come later.

use std::sync::Arc;

use model::{Caller, Expect, Fault, RecordQuery, Time};
use serde::{Deserialize, Serialize};

use super::records::{self, ApiKey, AuthorizationCode, Grant, OauthClient};
use super::{CALLER_PREFIX, Oauth, constant_time_eq, decode_record, hex, store_fault};
use gateway::auth::{Callers, KeyOrigin};
use gateway::links::unhex;

/// Records that a walk over a list reads at a time.
const PAGE: u32 = 200;

/// The key that a client, a code or a grant was created with. Stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Maker {
    /// An API key of the workspace: its id, and the hash that is the key of its record.
    Workspace { id: Arc<str>, hash: String },
    /// A key that an operator created for the server: its id and the hash of its secret.
    Operator { id: Arc<str>, hash: String },
    /// A key of the config: its caller, and a keyed hash of its secret. People choose these secrets, so that a reader of
    /// the store could guess them from a plain hash.
    Config { tenant: Arc<str>, name: Arc<str>, tag: String },
}

impl Maker {
    /// Its name for operators.
    pub(super) fn shown(&self) -> String {
        match self {
            Maker::Workspace { id, .. } => id.to_string(),
            Maker::Operator { id, .. } => format!("key {id} of the server"),
            Maker::Config { name, .. } => format!("key {name} of the config"),
        }
    }

    fn is_key(&self, revoked: RevokedKey<'_>) -> bool {
        match self {
            Maker::Workspace { id, .. } => revoked.kind == KeyKind::Workspace && **id == *revoked.id,
            Maker::Operator { id, .. } => revoked.kind == KeyKind::Operator && **id == *revoked.id,
            Maker::Config { .. } => false,
        }
    }
}

/// A revoked key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RevokedKey<'a> {
    pub(crate) kind: KeyKind,
    pub(crate) workspace: &'a str,
    pub(crate) id: &'a str,
}

/// Kinds of keys that operators revoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Workspace,
    Operator,
}

/// Number of clients and grants that a revocation removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevocationCounts {
    pub clients: u64,
    pub grants: u64,
}

/// A client, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSummary {
    pub id: Arc<str>,
    pub name: String,
    /// The workspace that registered it; `None` for a client that registered itself.
    pub workspace: Option<Arc<str>>,
    pub made_with: Option<String>,
    pub scopes: Vec<String>,
    pub redirects: Vec<String>,
    pub made_at: Time,
}

/// A grant without its tokens, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantSummary {
    pub id: String,
    pub client: Arc<str>,
    pub workspace: Arc<str>,
    pub subject: Arc<str>,
    pub made_with: Option<String>,
    pub scopes: Vec<String>,
    pub made_at: Time,
    pub expires_at: Time,
}

impl From<OauthClient> for ClientSummary {
    fn from(client: OauthClient) -> ClientSummary {
        let made_with = client.maker.as_ref().map(Maker::shown);
        let OauthClient { id, name, workspace, scopes, redirects, made, .. } = client;
        ClientSummary { id, name, workspace, made_with, scopes, redirects, made_at: made }
    }
}

impl From<Grant> for GrantSummary {
    fn from(grant: Grant) -> GrantSummary {
        let (made_with, expires_at) = (grant.maker.as_ref().map(Maker::shown), grant.expires());
        let Grant { id, client, workspace, subject, scopes, made, .. } = grant;
        GrantSummary { id, client, workspace, subject, made_with, scopes, made_at: made, expires_at }
    }
}

impl Oauth {
    /// The caller of a key, and the key as the maker of something.
    pub(super) async fn holder(&self, callers: &Callers, secret: &str) -> Result<Option<(Arc<Caller>, Maker)>, Fault> {
        if let Some((key, caller)) = self.key_and_caller(secret).await? {
            return Ok(Some((caller, Maker::Workspace { id: key.id, hash: key.hash })));
        }
        let Some((caller, source)) = callers.by_secret(secret) else { return Ok(None) };
        let maker = match source {
            KeyOrigin::Operator { id, hash } => Maker::Operator { id, hash: hex(&hash) },
            KeyOrigin::Config { hash } => {
                let tag = self.tag(&hash).await?;
                Maker::Config { tenant: caller.tenant.clone(), name: caller.name.clone(), tag }
            }
        };
        Ok(Some((caller, maker)))
    }

    async fn tag(&self, hash: &[u8; 32]) -> Result<String, Fault> {
        self.links.tag(b"rialto key of the config 1", hash).await.map(|tag| hex(&tag))
    }

    /// Whether a key is still valid.
    async fn is_good(&self, callers: &Callers, maker: &Maker) -> Result<bool, Fault> {
        match maker {
            Maker::Workspace { id, hash } => {
                let (found, now) = (self.read::<ApiKey>(records::KEY, hash).await?, self.now());
                Ok(found.is_some_and(|(key, _)| key.id == *id && key.expires.is_none_or(|end| end > now)))
            }
            Maker::Operator { hash, .. } => Ok(unhex(hash).is_some_and(|hash| callers.has_operators_key(&hash))),
            Maker::Config { tenant, name, tag } => {
                for hash in callers.config_keys(tenant, name) {
                    if constant_time_eq(&self.tag(&hash).await?, tag) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Whether the maker of a client is valid. Clients of earlier versions have no maker: operators remove them.
    pub(super) async fn is_client_good(&self, callers: &Callers, client: &OauthClient) -> Result<bool, Fault> {
        match &client.maker {
            Some(maker) => self.is_good(callers, maker).await,
            None => Ok(true),
        }
    }

    /// Whether the maker of a code is still valid.
    pub(super) async fn is_code_good(&self, callers: &Callers, code: &AuthorizationCode) -> Result<bool, Fault> {
        match &code.maker {
            Some(maker) => self.is_good(callers, maker).await,
            None => self.is_subject_good(callers, &code.workspace, &code.subject).await,
        }
    }

    /// Whether a grant is valid: its client exists, and the makers of both are valid.
    pub(super) async fn is_grant_valid(&self, callers: &Callers, grant: &Grant) -> Result<bool, Fault> {
        let client = async {
            match self.read::<OauthClient>(records::CLIENT, &grant.client).await? {
                // The client and its own grants have the same maker, which is checked below.
                Some((client, _)) if client.maker == grant.maker => Ok(true),
                Some((client, _)) => self.is_client_good(callers, &client).await,
                None => Ok(false),
            }
        };
        let maker = async {
            match &grant.maker {
                Some(maker) => self.is_good(callers, maker).await,
                None if grant.subject == grant.client => Ok(true),
                None => self.is_subject_good(callers, &grant.workspace, &grant.subject).await,
            }
        };
        let (client, maker) = futures_util::future::try_join(client, maker).await?;
        Ok(client && maker)
    }

    /// Whether a valid key has this name, for records of earlier versions, which have no maker.
    async fn is_subject_good(&self, callers: &Callers, workspace: &str, subject: &str) -> Result<bool, Fault> {
        if callers.has_name(workspace, subject) {
            return Ok(true);
        }
        let now = self.now();
        let (keys, _) = self.list::<ApiKey>(records::KEY, records::of_workspace(workspace), self.rules.keys).await?;
        Ok(keys.iter().any(|(key, _)| *key.id == *subject && key.expires.is_none_or(|end| end > now)))
    }

    /// Removes the clients and grants created with a key. They are invalid since its revocation; this frees their records.
    pub(crate) async fn end_made_with(&self, revoked: RevokedKey<'_>) -> Result<RevocationCounts, Fault> {
        let made = |maker: &Option<Maker>| maker.as_ref().is_some_and(|maker| maker.is_key(revoked));
        let mut clients: Vec<Arc<str>> = Vec::new();
        let workspace = records::of_workspace(revoked.workspace);
        self.walk(records::CLIENT, &workspace, |client: OauthClient| {
            if made(&client.maker) {
                clients.push(client.id);
            }
        })
        .await?;
        for id in &clients {
            self.keep(vec![records::remove(records::CLIENT, id, Expect::Any)]).await?;
        }
        let named = |grant: &Grant| {
            let is_of = *grant.workspace == *revoked.workspace && *grant.subject == *revoked.id;
            revoked.kind == KeyKind::Workspace && grant.maker.is_none() && is_of
        };
        let grants = self.end_grants(|grant| made(&grant.maker) || named(grant) || clients.contains(&grant.client));
        Ok(RevocationCounts { grants: grants.await?, clients: clients.len() as u64 })
    }

    /// The clients that a workspace registered, or those that registered themselves, the newest first; and their number.
    pub async fn clients(&self, workspace: Option<&str>, limit: usize) -> Result<(Vec<ClientSummary>, usize), Fault> {
        let list = workspace.map_or_else(|| records::SELF_REGISTERED.to_owned(), records::of_workspace);
        let (mut shown, mut all) = (Vec::new(), 0);
        self.walk(records::CLIENT, &list, |client: OauthClient| {
            all += 1;
            if shown.len() < limit {
                shown.push(client.into());
            }
        })
        .await?;
        Ok((shown, all))
    }

    /// Removes a client with its grants; `None` if there is no such client.
    pub async fn remove_client(&self, id: &str) -> Result<Option<RevocationCounts>, Fault> {
        if self.read::<OauthClient>(records::CLIENT, id).await?.is_none() {
            return Ok(None);
        }
        self.keep(vec![records::remove(records::CLIENT, id, Expect::Any)]).await?;
        let grants = self.end_grants(|grant| *grant.client == *id).await?;
        Ok(Some(RevocationCounts { clients: 1, grants }))
    }

    /// The grants of a workspace and of a client, or all grants, by expiry; and their number. Expired grants are left out.
    pub async fn grants(
        &self,
        workspace: Option<&str>,
        client: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<GrantSummary>, usize), Fault> {
        let now = self.now();
        let fits = |wanted: Option<&str>, is: &str| wanted.is_none_or(|wanted| wanted == is);
        let (mut shown, mut all) = (Vec::new(), 0);
        self.walk(records::GRANT, records::BY_END, |grant: Grant| {
            if fits(workspace, &grant.workspace) && fits(client, &grant.client) && grant.expires() > now {
                all += 1;
                if shown.len() < limit {
                    shown.push(grant.into());
                }
            }
        })
        .await?;
        Ok((shown, all))
    }

    /// Removes a grant; `false` if there is no such grant.
    pub async fn remove_grant(&self, id: &str) -> Result<bool, Fault> {
        if self.read::<Grant>(records::GRANT, id).await?.is_none() {
            return Ok(false);
        }
        self.end(id).await.map(|()| true)
    }

    /// Removes all grants that match and returns their number. Every grant is in the list by expiry.
    async fn end_grants(&self, fits: impl Fn(&Grant) -> bool) -> Result<u64, Fault> {
        let mut over: Vec<String> = Vec::new();
        self.walk(records::GRANT, records::BY_END, |grant: Grant| {
            if fits(&grant) {
                over.push(grant.id);
            }
        })
        .await?;
        for id in &over {
            self.end(id).await?;
        }
        Ok(over.len() as u64)
    }

    /// Visits all rows of a list, page by page.
    async fn walk<R: ledger::Row>(&self, kind: &'static str, list: &str, mut show: impl FnMut(R)) -> Result<(), Fault> {
        let mut after = None;
        loop {
            let query = RecordQuery { kind: kind.into(), list: list.into(), after, skip: 0, limit: PAGE, count: false };
            let page = self.engine.store().records(query).await.map_err(store_fault)?;
            after = page.records.last().map(|(record, rank)| (*rank, record.key.clone()));
            for (record, _) in &page.records {
                show(decode_record::<R>(record)?.0);
            }
            if !page.more {
                return Ok(());
            }
        }
    }
}

/// The name of a key's caller, as a grant stores it.
pub(super) fn subject_of(caller: &Caller) -> Arc<str> {
    caller.name.strip_prefix(CALLER_PREFIX).unwrap_or(&caller.name).into()
}
