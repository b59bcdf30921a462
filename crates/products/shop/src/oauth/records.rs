//! What is kept: clients, codes, grants and keys, each a record, and the lists they are in.

use std::sync::Arc;

use ledger::Row;
use model::{Expect, Listed, RecordChange, Time};
use serde::{Deserialize, Serialize};

use super::makers::Maker;

pub(super) const CLIENT: &str = "oauth/client";
pub(super) const CODE: &str = "oauth/code";
pub(super) const GRANT: &str = "oauth/grant";
pub(super) const KEY: &str = "oauth/key";

/// The most tokens of a grant that are good at a time; a client that asks for more loses the oldest.
pub(super) const MAX_ACCESS_TOKENS: usize = 16;
/// The most used refresh tokens of a grant that are known again. An older one is refused without more ado.
pub(super) const MAX_ROTATED: usize = 64;

/// Who asks for tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OauthClient {
    pub(super) id: Arc<str>,
    /// The hash of its secret; one without is public.
    pub(super) secret: Option<String>,
    pub(super) method: String,
    pub(super) name: String,
    pub(super) redirects: Vec<String>,
    pub(super) grants: Vec<String>,
    /// What it may ask for, and whether it said so.
    pub(super) scopes: Vec<String>,
    pub(super) scopes_said: bool,
    /// The workspace that registered it; anybody's otherwise.
    pub(super) workspace: Option<Arc<str>>,
    /// The key it was registered with. Those of before this was written down have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) maker: Option<Maker>,
    pub(super) made: Time,
    /// From then on it has no token that could be good, and makes room for others.
    pub(super) gives_way: Time,
}
impl Row for OauthClient {
    const NAME: &'static str = "oauth client";
}

/// What a person agreed to, until the client fetches it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AuthorizationCode {
    /// The hash of the code.
    pub(super) code: String,
    pub(super) client: Arc<str>,
    pub(super) redirect: String,
    pub(super) challenge: String,
    pub(super) workspace: Arc<str>,
    pub(super) subject: Arc<str>,
    pub(super) scopes: Vec<String>,
    pub(super) expires: Time,
    /// The key that the person agreed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) maker: Option<Maker>,
    /// The grant it was exchanged for.
    pub(super) grant: Option<String>,
}
impl Row for AuthorizationCode {
    const NAME: &'static str = "oauth code";
}

/// What a client may do for a workspace, with all its tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) id: String,
    pub(super) client: Arc<str>,
    pub(super) workspace: Arc<str>,
    pub(super) subject: Arc<str>,
    pub(super) scopes: Vec<String>,
    /// The key that the person agreed with, or that the client was registered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) maker: Option<Maker>,
    pub(super) made: Time,
    pub(super) access: Vec<AccessToken>,
    /// The hash of the refresh token, and its end.
    pub(super) refresh: Option<(String, Time)>,
    /// Hashes of those before it.
    pub(super) rotated: Vec<String>,
}
impl Row for Grant {
    const NAME: &'static str = "oauth grant";
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccessToken {
    /// The hash of the token.
    pub(super) hash: String,
    pub(super) scopes: Vec<String>,
    pub(super) made: Time,
    pub(super) expires: Time,
}

impl Grant {
    /// When its last token ends.
    pub(super) fn expires(&self) -> Time {
        let access = self.access.iter().map(|access| access.expires).max();
        access.into_iter().chain(self.refresh.as_ref().map(|(_, end)| *end)).max().unwrap_or(self.made)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ApiKey {
    pub(super) id: Arc<str>,
    /// The hash of the key.
    pub(super) hash: String,
    pub(super) workspace: Arc<str>,
    pub(super) name: String,
    /// Empty is everything.
    pub(super) scopes: Vec<String>,
    pub(super) made: Time,
    pub(super) expires: Option<Time>,
}
impl Row for ApiKey {
    const NAME: &'static str = "oauth key";
}

fn put<R: Row>(kind: &str, key: &str, expect: Expect, row: &R, lists: Vec<Listed>) -> RecordChange {
    RecordChange::Put { kind: kind.into(), key: key.into(), expect, body: row.to_row().into(), lists }
}

fn listed(list: impl Into<Arc<str>>, rank: i64) -> Listed {
    Listed { list: list.into(), rank }
}

/// Lists are read from their highest rank: this one begins with what ends first.
pub(super) const BY_END: &str = "by end";
/// Clients that registered themselves, those first that give way first; and all of them, the newest first.
pub(super) const IDLE: &str = "idle";
pub(super) const SELF_REGISTERED: &str = "anybody's";

pub(super) fn put_client(client: &OauthClient, expect: Expect) -> RecordChange {
    let mut lists = Vec::new();
    match &client.workspace {
        Some(workspace) => lists.push(listed(of_workspace(workspace), client.made.0)),
        None => lists.extend([listed(SELF_REGISTERED, client.made.0), listed(IDLE, -client.gives_way.0)]),
    }
    put(CLIENT, &client.id, expect, client, lists)
}

pub(super) fn put_code(code: &AuthorizationCode, expect: Expect) -> RecordChange {
    put(CODE, &code.code, expect, code, vec![listed(BY_END, -code.expires.0)])
}

pub(super) fn put_grant(grant: &Grant, expect: Expect) -> RecordChange {
    let lists = vec![listed(BY_END, -grant.expires().0), listed(of_person(grant), -grant.made.0)];
    put(GRANT, &grant.id, expect, grant, lists)
}

pub(super) fn put_key(key: &ApiKey, expect: Expect) -> RecordChange {
    put(KEY, &key.hash, expect, key, vec![listed(of_workspace(&key.workspace), key.made.0)])
}

pub(super) fn remove(kind: &str, key: &str, expect: Expect) -> RecordChange {
    RecordChange::Remove { kind: kind.into(), key: key.into(), expect }
}

pub(super) fn of_workspace(workspace: &str) -> String {
    format!("workspace {workspace}")
}

/// The grants of one client for one person, the oldest first.
pub(super) fn of_person(grant: &Grant) -> String {
    let Grant { client, workspace, subject, .. } = grant;
    format!("client {client} {workspace}\u{1f}{subject}")
}
