//! Credentials of workspaces: API keys, and tokens that a person of the workspace gave consent to (OAuth 2.1).
//!
//! Supported are authorization codes with PKCE (always S256), client credentials for clients that a workspace registered,
//! refresh tokens that are used once, revocation, introspection, dynamic client registration, and the metadata documents.
//!
//! * `records`: the stored records. Of a secret only the hash is stored.
//! * `clients`: registration and authentication of clients.
//! * `grants`: authorization codes and tokens: issue, exchange, renewal, lookup, revocation.
//! * `keys`: API keys.
//! * `makers`: the key that a client or a grant was created with; revoking the key revokes both.
//! * `endpoints`, `page`: HTTP endpoints below `/oauth` and the consent page. Nothing in them is A2A.
//!
//! A grant is one record with all its tokens. The part of a token that is not secret is the key of the record: a lookup
//! reads one record, and the end of a grant ends all its tokens in one commit. The tenant of a caller is its workspace.

mod clients;
pub(crate) mod endpoints;
mod grants;
mod keys;
mod makers;
mod page;
mod records;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use engine::{CommitError, Engine, SideWrites};
use ledger::Row;
use model::ports::store::{Conflict, StoreError};
use model::{Caller, Fault, Kind, Record, RecordChange, RecordPage, RecordQuery, Time};
use subtle::ConstantTimeEq;

pub use keys::{ApiKeySummary, NewWorkspaceKey};
pub use makers::{ClientSummary, GrantSummary, RevocationCounts};
pub(crate) use makers::{KeyKind, RevokedKey};

use gateway::auth::{self, Callers};
use gateway::links::Links;

/// Prefix of the names of callers that OAuth identified: the names of other callers never begin with it. Stored.
pub(crate) const CALLER_PREFIX: &str = "oauth:";

const ACCESS: &str = "aly_oauth_";
const REFRESH: &str = "aly_refresh_";
const CODE: &str = "aly_code_";
const SECRET: &str = "aly_secret_";
const KEY: &str = "aly_";

/// Attempts at a change that conflicts with concurrent ones.
const ATTEMPTS: usize = 8;

/// Lifetimes of credentials, and limits on their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthRules {
    /// Lifetime of access tokens.
    pub access_s: u32,
    /// Lifetime of refresh tokens, each from its issue.
    pub refresh_s: u32,
    /// Lifetime of authorization codes.
    pub code_s: u32,
    /// Most clients that registered themselves.
    pub clients: u64,
    /// Most codes that are not exchanged yet.
    pub codes: u64,
    /// Most API keys of a workspace.
    pub keys: u32,
    /// Most grants of one client for one person of a workspace; a new one replaces the oldest.
    pub grants: u32,
    /// Time after which a self-registered client without a token may be removed to make room for another. A client with
    /// tokens may be removed when none of them can be valid any more.
    pub idle_s: u32,
}

impl Default for OauthRules {
    fn default() -> OauthRules {
        OauthRules {
            access_s: 3_600,
            refresh_s: 30 * 24 * 3_600,
            code_s: 600,
            clients: 10_000,
            codes: 10_000,
            keys: 100,
            grants: 20,
            idle_s: 3_600,
        }
    }
}

/// Keys, clients and grants of all workspaces.
#[derive(Clone)]
pub struct Oauth {
    engine: Engine,
    rules: OauthRules,
    /// Has the key that tags of secrets are computed with.
    links: Links,
}

/// The error of a request, with OAuth's error code.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) code: &'static str,
    pub(crate) description: String,
    /// The server's fault, where the request itself was correct.
    pub(crate) fault: Option<Box<Fault>>,
}

impl Error {
    fn new(code: &'static str, description: impl Into<String>) -> Error {
        Error { code, description: description.into(), fault: None }
    }
    fn request(description: impl Into<String>) -> Error {
        Error::new("invalid_request", description)
    }
    fn grant(description: impl Into<String>) -> Error {
        Error::new("invalid_grant", description)
    }
    fn client(description: impl Into<String>) -> Error {
        Error::new("invalid_client", description)
    }
    fn scope(description: impl Into<String>) -> Error {
        Error::new("invalid_scope", description)
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let code = if fault.kind == Kind::Unavailable { "temporarily_unavailable" } else { "server_error" };
        Error { code, description: fault.message.clone(), fault: Some(Box::new(fault)) }
    }
}

impl From<CommitError> for Error {
    fn from(unmoved: CommitError) -> Error {
        Fault::from(unmoved).into()
    }
}

impl Oauth {
    pub fn new(engine: Engine, rules: OauthRules) -> Oauth {
        let links = Links::new(engine.store().clone(), engine.sealer().cloned());
        Oauth { engine, rules, links }
    }

    /// The caller of an API key or access token; `None` if the text is neither.
    pub(crate) async fn identify(&self, callers: &Callers, bearer: &str) -> Result<Option<Arc<Caller>>, Fault> {
        if bearer.starts_with(ACCESS) {
            return self.by_access(callers, bearer).await;
        }
        Ok(self.key_and_caller(bearer).await?.map(|(_, caller)| caller))
    }

    fn now(&self) -> Time {
        self.engine.now()
    }

    async fn read<R: Row>(&self, kind: &'static str, key: &str) -> Result<Option<(R, u64)>, Fault> {
        let found = self.engine.store().record(kind.into(), key.into()).await.map_err(store_fault)?;
        found.map(|record| decode_record(&record)).transpose()
    }

    /// The first `limit` rows of a list, highest rank first, and the length of the list.
    async fn list<R: Row>(&self, kind: &'static str, list: String, limit: u32) -> Result<(Vec<(R, u64)>, u64), Fault> {
        let query = RecordQuery { kind: kind.into(), list: list.into(), after: None, skip: 0, limit, count: true };
        let RecordPage { records, total, .. } = self.engine.store().records(query).await.map_err(store_fault)?;
        let rows = records.iter().map(|(record, _)| decode_record(record)).collect::<Result<_, Fault>>()?;
        Ok((rows, total.unwrap_or_default()))
    }

    /// Commits; `false` if a concurrent change wrote one of the records first.
    async fn keep(&self, records: Vec<RecordChange>) -> Result<bool, Fault> {
        match self.engine.keep(SideWrites { records, ..SideWrites::default() }).await {
            Ok(()) => Ok(true),
            Err(CommitError::Met(Conflict::Record(..))) => Ok(false),
            Err(unmoved) => Err(unmoved.into()),
        }
    }
}

fn decode_record<R: Row>(record: &Record) -> Result<(R, u64), Fault> {
    Ok((R::from_row(&record.body).map_err(Fault::internal)?, record.version))
}

fn store_fault(trouble: StoreError) -> Fault {
    match trouble {
        StoreError::Broken(_) => Fault::internal(trouble),
        StoreError::Full
        | StoreError::ReadOnly
        | StoreError::Busy
        | StoreError::Unreachable(_)
        | StoreError::Closed => Fault::new(Kind::Unavailable, "the server cannot reach its data; try again shortly")
            .retry_after(1)
            .because(trouble),
    }
}

fn too_busy() -> Fault {
    Fault::new(Kind::Unavailable, "too many changes at once; try again shortly").retry_after(1)
}

/// Random bytes.
fn draw<const N: usize>() -> Result<[u8; N], Fault> {
    let mut drawn = [0; N];
    getrandom::fill(&mut drawn).map_err(|error| Fault::internal(format!("no randomness: {error}")))?;
    Ok(drawn)
}

/// A random secret with a prefix.
fn secret(prefix: &str) -> Result<String, Fault> {
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(draw::<32>()?)))
}

/// The stored form of a secret. The secret has 32 random bytes, so a fast hash is safe.
fn secret_hash(secret: &str) -> String {
    hex(&auth::hash(secret))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn constant_time_eq(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

fn after(now: Time, seconds: u32) -> Time {
    Time(now.0.saturating_add(i64::from(seconds) * 1_000))
}

/// The scopes that a text names, each once and in the order of `SCOPES`; an unknown scope is an error.
fn scopes(text: &str) -> Result<Vec<String>, Error> {
    let known = |name: &str| crate::aly::SCOPES.iter().any(|(scope, _)| *scope == name);
    if let Some(unknown) = text.split_ascii_whitespace().find(|name| !known(name)) {
        let known: Vec<&str> = crate::aly::SCOPES.iter().map(|(scope, _)| *scope).collect();
        let unknown: String = unknown.chars().take(64).collect();
        return Err(Error::scope(format!("there is no scope {unknown:?}; the scopes are {}", known.join(" "))));
    }
    let named = |name: &&str| text.split_ascii_whitespace().any(|other| other == *name);
    Ok(crate::aly::SCOPES.iter().map(|(scope, _)| *scope).filter(named).map(str::to_owned).collect())
}

/// Whether a credential with the scopes `held` has a scope. An empty list means all scopes.
pub(crate) fn covers(held: &[String], scope: &str) -> bool {
    held.is_empty() || held.iter().any(|held| held == scope)
}
