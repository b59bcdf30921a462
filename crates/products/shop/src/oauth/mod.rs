//! Who may act for a workspace: API keys, and tokens that a person of the workspace agreed to (OAuth 2.1).
//!
//! What there is of OAuth is what clients need and no more: authorization codes with PKCE (S256, always), client credentials
//! for clients that a workspace registered, refresh tokens that are good once, revocation, introspection, registration by
//! the client itself, and the documents that tell all this.
//!
//! * `rows`: what is kept, as records of the store. Of a secret only its hash is.
//! * `clients`: who asks for tokens.
//! * `grants`: codes and tokens, and what becomes of them.
//! * `keys`: API keys.
//! * `makers`: which key a client or a grant was made with, and what ends with it.
//! * `endpoints`, `page`: the wire. It is the second one outside `dialects`, after the admin API's: nothing in it is A2A.
//!
//! A grant is one record with all its tokens in it, found by the part of a token that is no secret: whoever looks one up
//! reads one record, and whatever ends a grant ends all of its tokens in one commit. A tenant is a workspace here.

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
use engine::{Along, Engine, Unmoved};
use ledger::Row;
use model::ports::store::{Conflict, StoreError};
use model::{Caller, Fault, Kind, Record, RecordChange, RecordPage, RecordQuery, Time};
use subtle::ConstantTimeEq;

pub use keys::{ApiKeySummary, NewApiKey};
pub use makers::{ClientSummary, GrantSummary, RevocationCounts};
pub(crate) use makers::{KeyKind, RevokedKey};

use gateway::callers::{self, Callers};
use gateway::links::Links;

/// What callers with a token of ours are named, so that they never meet others.
pub(crate) const CALLER_PREFIX: &str = "oauth:";

const ACCESS: &str = "aly_oauth_";
const REFRESH: &str = "aly_refresh_";
const CODE: &str = "aly_code_";
const SECRET: &str = "aly_secret_";
const KEY: &str = "aly_";

/// How often a change is tried again that others were faster with.
const ATTEMPTS: usize = 8;

/// How long things are good for, and how many of them there may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthRules {
    /// Access tokens.
    pub access_s: u32,
    /// Refresh tokens, each from its own beginning.
    pub refresh_s: u32,
    /// Authorization codes.
    pub code_s: u32,
    /// Clients that registered themselves, and codes that nobody has exchanged yet.
    pub clients: u64,
    pub codes: u64,
    /// API keys of a workspace.
    pub keys: u32,
    /// Grants of one client for one person of a workspace; the oldest gives way.
    pub grants: u32,
    /// A client that registered itself and never got a token makes room for others after this; one that did, once none of
    /// its tokens can be good.
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
    /// Has the key that tags of secrets are made with.
    links: Links,
}

/// A request that is refused, in the words of OAuth.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) code: &'static str,
    pub(crate) description: String,
    /// What went wrong here, where the caller did nothing wrong.
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

impl From<Unmoved> for Error {
    fn from(unmoved: Unmoved) -> Error {
        Fault::from(unmoved).into()
    }
}

impl Oauth {
    pub fn new(engine: Engine, rules: OauthRules) -> Oauth {
        let links = Links::new(engine.store().clone(), engine.sealer().cloned());
        Oauth { engine, rules, links }
    }

    /// Whose API key or access token this is; `None` if it is neither.
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

    /// The first so many of a list: highest rank first.
    async fn list<R: Row>(&self, kind: &'static str, list: String, limit: u32) -> Result<(Vec<(R, u64)>, u64), Fault> {
        let query = RecordQuery { kind: kind.into(), list: list.into(), after: None, skip: 0, limit, count: true };
        let RecordPage { records, total, .. } = self.engine.store().records(query).await.map_err(store_fault)?;
        let rows = records.iter().map(|(record, _)| decode_record(record)).collect::<Result<_, Fault>>()?;
        Ok((rows, total.unwrap_or_default()))
    }

    /// Commits; `false` if somebody else was faster with one of the records.
    async fn keep(&self, records: Vec<RecordChange>) -> Result<bool, Fault> {
        match self.engine.keep(Along { records, ..Along::default() }).await {
            Ok(()) => Ok(true),
            Err(Unmoved::Met(Conflict::Record(..))) => Ok(false),
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

/// Bytes nobody can guess.
fn draw<const N: usize>() -> Result<[u8; N], Fault> {
    let mut drawn = [0; N];
    getrandom::fill(&mut drawn).map_err(|error| Fault::internal(format!("no randomness: {error}")))?;
    Ok(drawn)
}

/// A secret nobody can guess.
fn secret(prefix: &str) -> Result<String, Fault> {
    Ok(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(draw::<32>()?)))
}

/// What is kept of a secret. It was drawn from 32 bytes, so a fast hash gives nothing away.
fn secret_hash(secret: &str) -> String {
    hex(&callers::hash(secret))
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

/// The scopes that a text names, each once and in our order; or the first that nobody knows.
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

/// Whether a credential is good for something. One without scopes is good for everything.
pub(crate) fn covers(held: &[String], scope: &str) -> bool {
    held.is_empty() || held.iter().any(|held| held == scope)
}
