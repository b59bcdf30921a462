//! Stored records of OAuth: clients, authorization codes, grants and API keys, and the lists that contain them.

use std::sync::Arc;

use ledger::Row;
use model::{Expect, Listed, RecordChange, Time};
use serde::{Deserialize, Serialize};

use super::makers::Maker;

pub(super) const CLIENT: &str = "oauth/client";
pub(super) const CODE: &str = "oauth/code";
pub(super) const GRANT: &str = "oauth/grant";
pub(super) const KEY: &str = "oauth/key";

/// Most valid access tokens of a grant. A client that requests another one loses the oldest.
pub(super) const MAX_ACCESS_TOKENS: usize = 16;
/// Most used refresh tokens of a grant whose reuse is detected. An older one is rejected like an unknown token.
pub(super) const MAX_ROTATED: usize = 64;

/// A program that requests tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OauthClient {
    pub(super) id: Arc<str>,
    /// Hash of its secret; a public client has none.
    pub(super) secret: Option<String>,
    pub(super) method: String,
    pub(super) name: String,
    pub(super) redirects: Vec<String>,
    pub(super) grants: Vec<String>,
    /// Scopes it may request, and whether its registration named them.
    pub(super) scopes: Vec<String>,
    pub(super) scopes_said: bool,
    /// The workspace that registered it; `None` for a client that registered itself.
    pub(super) workspace: Option<Arc<str>>,
    /// The key it was registered with. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) maker: Option<Maker>,
    pub(super) made: Time,
    /// From this time it can have no valid token, and it is removed when room for another client is needed.
    pub(super) gives_way: Time,
}
impl Row for OauthClient {
    const NAME: &'static str = "oauth client";
}

/// An authorization code: the consent of a person, until the client exchanges it for tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AuthorizationCode {
    /// Hash of the code.
    pub(super) code: String,
    pub(super) client: Arc<str>,
    pub(super) redirect: String,
    pub(super) challenge: String,
    pub(super) workspace: Arc<str>,
    pub(super) subject: Arc<str>,
    pub(super) scopes: Vec<String>,
    pub(super) expires: Time,
    /// The key that the person gave consent with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) maker: Option<Maker>,
    /// The grant it was exchanged for, once it was.
    pub(super) grant: Option<String>,
}
impl Row for AuthorizationCode {
    const NAME: &'static str = "oauth code";
}

/// Permission of a client to act for a workspace, with all tokens issued for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grant {
    pub(super) id: String,
    pub(super) client: Arc<str>,
    pub(super) workspace: Arc<str>,
    pub(super) subject: Arc<str>,
    pub(super) scopes: Vec<String>,
    /// The key that the person gave consent with, or that the client was registered with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) maker: Option<Maker>,
    pub(super) made: Time,
    pub(super) access: Vec<AccessToken>,
    /// Hash of the refresh token, and its expiry.
    pub(super) refresh: Option<(String, Time)>,
    /// Hashes of the refresh tokens before it.
    pub(super) rotated: Vec<String>,
}
impl Row for Grant {
    const NAME: &'static str = "oauth grant";
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AccessToken {
    /// Hash of the token.
    pub(super) hash: String,
    pub(super) scopes: Vec<String>,
    pub(super) made: Time,
    pub(super) expires: Time,
}

impl Grant {
    /// Expiry of its last token.
    pub(super) fn expires(&self) -> Time {
        let access = self.access.iter().map(|access| access.expires).max();
        access.into_iter().chain(self.refresh.as_ref().map(|(_, end)| *end)).max().unwrap_or(self.made)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ApiKey {
    pub(super) id: Arc<str>,
    /// Hash of the key.
    pub(super) hash: String,
    pub(super) workspace: Arc<str>,
    pub(super) name: String,
    /// Empty means all scopes.
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

/// Codes and grants by expiry. Lists are read from the highest rank, so the earliest expiry comes first.
pub(super) const BY_END: &str = "by end";
/// Clients that registered themselves: by the time they may be removed, the earliest first; and all, the newest first.
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
