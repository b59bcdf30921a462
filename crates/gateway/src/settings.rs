//! Settings of the gateway. The binary fills them from its config file and flags.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use model::{Time, Visibility};
use uuid::Uuid;

pub use crate::auth::jwt::{Algorithm, Issuer, KeySource};
pub use crate::auth::oidc::{OidcSettings, RoleRule, RuleTenant};
use crate::effective_config::EffectiveConfig;
pub use crate::limits::ThrottleLimits;
pub use crate::policy::{Effect, Rule};
use crate::product::ProductService;
pub use web::client_address::Network;
pub use web::limiter::RateLimit;

/// Limit of the removed agents whose tasks stay readable.
const RETIRED: usize = 10_000;

#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
    /// The address callers use; without it, the one that the request or a trusted proxy states (`Host`,
    /// `X-Forwarded-Host`).
    pub public_url: Option<String>,
    /// The agents served, in order, and the agent at the root.
    pub agents: Vec<Arc<str>>,
    pub default_agent: Arc<str>,
    /// Agents that are no longer served, but whose tasks may still be read.
    pub retired: Vec<Arc<str>>,
    pub auth_required: bool,
    pub keys: Vec<KeySettings>,
    /// Issuers whose tokens are accepted.
    pub issuers: Vec<Issuer>,
    /// Visibility of tasks where the agent's own mount sets none.
    pub visibility: Visibility,
    /// Settings of single mounts, by the agent's name.
    pub mounts: Vec<(Arc<str>, MountSettings)>,
    /// Rules for callers; without rules every call is allowed.
    pub policy: Option<Vec<Rule>>,
    pub throttle: ThrottleLimits,
    /// Proxies whose headers about the caller's and the server's address are believed.
    pub trusted_proxies: Vec<Network>,
    pub tls: Option<TlsFiles>,
    /// Origins that browsers may call from; `*` for any.
    pub cors_origins: Vec<String>,
    /// Also allows loopback origins.
    pub cors_loopback: bool,
    pub card: CardForm,
    /// Lists the interface of gRPC on cards.
    pub grpc_card: Option<GrpcCard>,
    /// Refuses requests of 1.0 without `A2A-Version`.
    pub strict_version: bool,
    /// Memory for encoded settled tasks; 0 turns the cache off.
    pub cache_bytes: usize,
    pub timeouts: ConnectionTimeouts,
    /// Connections at a time; one more is answered with a refusal and closed.
    pub connections: usize,
    /// Connections at a time from one address that is no trusted proxy.
    pub connections_per_address: u32,
    /// Memory of all request bodies together while they are read and processed, in bytes.
    pub bodies_bytes: usize,
    /// Memory of large answers together until they are sent, in bytes.
    pub answers_bytes: usize,
    pub backlog: i32,
    /// Time between comment lines on a silent stream.
    pub heartbeat_ms: u64,
    /// An id for each agent that has one; the agent is also served at `/a2a/{id}`.
    pub agent_ids: Vec<(Uuid, Arc<str>)>,
    pub files: FileLinkSettings,
    /// The products that are served, in the order in which they are offered an address.
    pub products: Vec<Arc<dyn ProductService>>,
    /// The scopes that products define, also those of products that are not served.
    pub product_scopes: Vec<&'static str>,
    /// The encoding slots of the forms of products.
    pub product_slots: Vec<u16>,
    /// The public keys that tokens on deliveries are checked with, as a JSON Web Key Set.
    pub jwks: Option<String>,
    /// Serves the admin API.
    pub console: bool,
    /// The config that these settings are made of, for operators.
    pub effective: Arc<EffectiveConfig>,
    /// The provider whose people may sign in to the console.
    pub oidc: Option<OidcSettings>,
    /// Data that this server does not serve, a sentence for each kind; part of the findings of `rialto doctor`.
    pub left_alone: Vec<String>,
}

impl Settings {
    /// Origins whose pages may call from a browser.
    pub(crate) fn allowed_origins(&self) -> web::cors::AllowedOrigins<'_> {
        web::cors::AllowedOrigins { listed: &self.cors_origins, loopback: self.cors_loopback }
    }

    /// The first reason why a server cannot start with these settings.
    pub fn check(&self) -> Result<(), Error> {
        crate::mounts::MountTable::new(self)?;
        crate::auth::Callers::new(self, None)?;
        self.check_products()?;
        if let Some(rules) = &self.policy {
            crate::policy::Policy::new(rules)?;
        }
        crate::scopes::Scopes::new(self)?;
        if let Some(files) = &self.tls {
            crate::tls::ReloadingTls::load(files)?;
        }
        Ok(())
    }

    pub(crate) fn check_products(&self) -> Result<(), Error> {
        self.products.iter().try_for_each(|product| product.check(self))
    }
}

impl Settings {
    /// These settings as the replacement of others: with the values that cannot change at run time, and with the
    /// removed agents. A removed agent keeps its mount, so that its tasks stay visible to the same callers only.
    pub(crate) fn replaced_by(self, before: &Settings) -> Settings {
        let gone = |name: &&Arc<str>| !self.agents.contains(name);
        let gone = before.agents.iter().chain(&before.retired).filter(gone);
        let retired: Vec<Arc<str>> = gone.take(RETIRED).cloned().collect();
        let kept = before.mounts.iter().filter(|(name, _)| retired.contains(name)).cloned();
        Settings {
            listen: before.listen,
            tls: before.tls.clone(),
            connections: before.connections,
            bodies_bytes: before.bodies_bytes,
            answers_bytes: before.answers_bytes,
            backlog: before.backlog,
            cache_bytes: before.cache_bytes,
            jwks: before.jwks.clone(),
            left_alone: before.left_alone.clone(),
            files: before.files,
            mounts: self.mounts.iter().cloned().chain(kept).collect(),
            retired,
            ..self
        }
    }

    /// Settings of a server on a free port of loopback, without authentication and limits.
    pub fn test(agents: &[&str]) -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            public_url: None,
            agents: agents.iter().map(|name| Arc::from(*name)).collect(),
            default_agent: agents.first().copied().unwrap_or_default().into(),
            retired: Vec::new(),
            auth_required: false,
            keys: Vec::new(),
            issuers: Vec::new(),
            visibility: Visibility::Tenant,
            mounts: Vec::new(),
            policy: None,
            throttle: ThrottleLimits::default(),
            trusted_proxies: Vec::new(),
            tls: None,
            jwks: None,
            console: false,
            effective: Arc::default(),
            oidc: None,
            left_alone: Vec::new(),
            agent_ids: Vec::new(),
            files: FileLinkSettings::default(),
            products: Vec::new(),
            product_scopes: Vec::new(),
            product_slots: Vec::new(),
            cors_origins: Vec::new(),
            cors_loopback: false,
            card: CardForm::Hybrid,
            grpc_card: None,
            strict_version: false,
            cache_bytes: 1 << 20,
            timeouts: ConnectionTimeouts::default(),
            connections: 1_000,
            connections_per_address: 1_000,
            bodies_bytes: 64 << 20,
            answers_bytes: 64 << 20,
            backlog: 128,
            heartbeat_ms: 15_000,
        }
    }
}

/// How answers show large files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLinkSettings {
    /// Larger files are shown by an address instead of their bytes; `None` shows all by their bytes.
    pub inline_max_bytes: Option<u64>,
    /// Least lifetime of an address.
    pub url_expires_s: u32,
}

impl Default for FileLinkSettings {
    fn default() -> FileLinkSettings {
        FileLinkSettings { inline_max_bytes: Some(1 << 20), url_expires_s: 3_600 }
    }
}

/// Settings of one mount that differ from the rest.
#[derive(Clone, Debug, Default)]
pub struct MountSettings {
    pub visibility: Option<Visibility>,
    /// The tenant of all its tasks; callers of another tenant get "not found".
    pub tenant: Option<Arc<str>>,
    /// Names that take part in every task, where the visibility is that of parties.
    pub parties: Vec<Arc<str>>,
    pub door: Option<AuthMode>,
}

/// Whether a mount asks for a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthMode {
    /// Callers need a valid credential, except for calls that the policy opens to callers without one.
    Required,
    /// Callers need no credential; one that is sent must be valid.
    Optional,
    /// Credentials are ignored, and every caller is anonymous.
    None,
}

/// Paths of the certificate and its key, both PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    pub cert: PathBuf,
    pub key: PathBuf,
}

/// The interface of gRPC on cards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrpcCard {
    /// `host:port`; without it, that of the request.
    pub public: Option<String>,
}

/// Form of public cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardForm {
    /// One document that readers of every generation accept.
    Hybrid,
    /// Members of 1.0 only, for readers that reject unknown members.
    Clean,
}

#[derive(Clone, Debug)]
pub struct ConnectionTimeouts {
    /// For the first byte, a whole header, and the pause between requests of a connection.
    pub header_ms: u64,
    /// For a whole body.
    pub body_ms: u64,
    /// For the receiver to acknowledge sent bytes.
    pub write_ms: u32,
}

impl Default for ConnectionTimeouts {
    fn default() -> Self {
        ConnectionTimeouts { header_ms: 30_000, body_ms: 60_000, write_ms: 60_000 }
    }
}

#[derive(Clone)]
pub struct KeySettings {
    pub name: Arc<str>,
    pub tenant: Arc<str>,
    pub secret: String,
    /// The scopes of the key; an empty list is every scope.
    pub scopes: Vec<String>,
    pub expires_at: Option<Time>,
}

impl std::fmt::Debug for KeySettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("name", &self.name).field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
impl std::error::Error for Error {}
