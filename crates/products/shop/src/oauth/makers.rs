//! The key behind a client, a code or a grant: what was made with a key is good for as long as the key is.
//!
//! Every client that a workspace registered, every code and every grant names its maker. Whoever uses one has the maker
//! looked up: a key that was revoked, has expired, was taken out of the config or has another secret there ends what was
//! made with it, in every process and without a second write. Removing the records is tidying, and may come later.

use std::sync::Arc;

use model::{Caller, Expect, Fault, RecordQuery, Time};
use serde::{Deserialize, Serialize};

use super::records::{self, ApiKey, AuthorizationCode, Grant, OauthClient};
use super::{CALLER_PREFIX, Oauth, constant_time_eq, decode_record, hex, store_fault};
use gateway::callers::{Callers, Source};
use gateway::links::unhex;

/// Records read at a time where all of them are walked.
const PAGE: u32 = 200;

/// The key that something was made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Maker {
    /// An API key of the workspace: its id, and the hash that its record is kept under.
    Workspace { id: Arc<str>, hash: String },
    /// A key that an operator made for the server: its id and the hash of its secret.
    Operator { id: Arc<str>, hash: String },
    /// A key of the config: whose it is, and a keyed hash of its secret. People choose these secrets: a plain hash in the
    /// store would let a reader of the store guess them.
    Config { tenant: Arc<str>, name: Arc<str>, tag: String },
}

impl Maker {
    /// How operators know it.
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

/// A key that is not good any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RevokedKey<'a> {
    pub(crate) kind: KeyKind,
    pub(crate) workspace: &'a str,
    pub(crate) id: &'a str,
}

/// The kinds of keys that operators revoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Workspace,
    Operator,
}

/// How much ended with a key or a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevocationCounts {
    pub clients: u64,
    pub grants: u64,
}

/// A client as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSummary {
    pub id: Arc<str>,
    pub name: String,
    /// The workspace that registered it; `None` registered itself.
    pub workspace: Option<Arc<str>>,
    pub made_with: Option<String>,
    pub scopes: Vec<String>,
    pub redirects: Vec<String>,
    pub made_at: Time,
}

/// A grant as operators see it: without its tokens.
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
    /// Whose key this is, and how it is known again.
    pub(super) async fn holder(&self, callers: &Callers, secret: &str) -> Result<Option<(Arc<Caller>, Maker)>, Fault> {
        if let Some((key, caller)) = self.key_and_caller(secret).await? {
            return Ok(Some((caller, Maker::Workspace { id: key.id, hash: key.hash })));
        }
        let Some((caller, source)) = callers.by_secret(secret) else { return Ok(None) };
        let maker = match source {
            Source::Operator { id, hash } => Maker::Operator { id, hash: hex(&hash) },
            Source::Config { hash } => {
                let tag = self.tag(&hash).await?;
                Maker::Config { tenant: caller.tenant.clone(), name: caller.name.clone(), tag }
            }
        };
        Ok(Some((caller, maker)))
    }

    async fn tag(&self, hash: &[u8; 32]) -> Result<String, Fault> {
        self.links.tag(b"rialto key of the config 1", hash).await.map(|tag| hex(&tag))
    }

    /// Whether a key is still good.
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

    /// Whether the maker of a client is good. Clients of before makers were written down have none: operators remove them.
    pub(super) async fn is_client_good(&self, callers: &Callers, client: &OauthClient) -> Result<bool, Fault> {
        match &client.maker {
            Some(maker) => self.is_good(callers, maker).await,
            None => Ok(true),
        }
    }

    /// Whether what a code stands for is still given.
    pub(super) async fn is_code_good(&self, callers: &Callers, code: &AuthorizationCode) -> Result<bool, Fault> {
        match &code.maker {
            Some(maker) => self.is_good(callers, maker).await,
            None => self.is_subject_good(callers, &code.workspace, &code.subject).await,
        }
    }

    /// Whether a grant holds: its client is there, and the keys that both were made with are good.
    pub(super) async fn holds(&self, callers: &Callers, grant: &Grant) -> Result<bool, Fault> {
        let client = async {
            match self.read::<OauthClient>(records::CLIENT, &grant.client).await? {
                // What the client was made with is the maker of its own grants: one look is enough.
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

    /// Whether somebody of this name has a good key: for what was made before makers were written down.
    async fn is_subject_good(&self, callers: &Callers, workspace: &str, subject: &str) -> Result<bool, Fault> {
        if callers.has_name(workspace, subject) {
            return Ok(true);
        }
        let now = self.now();
        let (keys, _) = self.list::<ApiKey>(records::KEY, records::of_workspace(workspace), self.rules.keys).await?;
        Ok(keys.iter().any(|(key, _)| *key.id == *subject && key.expires.is_none_or(|end| end > now)))
    }

    /// Removes what was made with a key. It is not good any more already: this makes it gone.
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

    /// The clients that a workspace registered, or those that registered themselves, and how many there are in all; the
    /// newest first.
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

    /// Removes a client, with everything it was given; `None` if there is no such client.
    pub async fn remove_client(&self, id: &str) -> Result<Option<RevocationCounts>, Fault> {
        if self.read::<OauthClient>(records::CLIENT, id).await?.is_none() {
            return Ok(None);
        }
        self.keep(vec![records::remove(records::CLIENT, id, Expect::Any)]).await?;
        let grants = self.end_grants(|grant| *grant.client == *id).await?;
        Ok(Some(RevocationCounts { clients: 1, grants }))
    }

    /// The grants of a workspace and of a client, or all of them, and how many there are; those that end first come first.
    /// Those that have ended are not among them.
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

    /// Ends a grant; `false` if there is no such grant.
    pub async fn remove_grant(&self, id: &str) -> Result<bool, Fault> {
        if self.read::<Grant>(records::GRANT, id).await?.is_none() {
            return Ok(false);
        }
        self.end(id).await.map(|()| true)
    }

    /// Ends all grants that fit, and says how many. Every grant is in the list by its end.
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

    /// Shows all of a list, page by page.
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

/// The name of a key's caller as a grant has it.
pub(super) fn subject_of(caller: &Caller) -> Arc<str> {
    caller.name.strip_prefix(CALLER_PREFIX).unwrap_or(&caller.name).into()
}
