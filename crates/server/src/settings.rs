//! What the server can be told. The binary fills this from its config file and flags.

use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Settings {
    pub listen: SocketAddr,
    /// Where callers reach the server, if not where they say they do (`Host`, `Forwarded`).
    pub public_url: Option<String>,
    /// The agents served, in order, and the one at the root.
    pub agents: Vec<Arc<str>>,
    pub default_agent: Arc<str>,
    pub auth_required: bool,
    pub keys: Vec<Key>,
    /// Origins that browsers may call from; `*` for any.
    pub cors_origins: Vec<String>,
    /// Loopback origins may call, too.
    pub cors_loopback: bool,
    pub card: CardForm,
    /// Refuses requests of 1.0 that do not say `A2A-Version`.
    pub strict_version: bool,
    /// Encoded settled tasks kept in memory; 0 keeps none.
    pub cache_bytes: usize,
    pub timeouts: Timeouts,
    /// Connections at a time; more wait in the backlog.
    pub connections: usize,
    pub backlog: i32,
    /// Between comment lines on a silent stream.
    pub heartbeat_ms: u64,
}

impl Settings {
    /// What would stop a server from starting with these.
    pub fn check(&self) -> Result<(), Error> {
        crate::mount::Mounts::new(&self.agents, &self.default_agent).map(drop)
    }
}

/// What public cards look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardForm {
    /// One document that readers of every generation accept.
    Hybrid,
    /// Members of 1.0 only, for readers who refuse strangers.
    Clean,
}

#[derive(Clone, Debug)]
pub struct Timeouts {
    /// For the first byte, a whole header, and between requests of a connection.
    pub header_ms: u64,
    /// For a whole body.
    pub body_ms: u64,
    /// For the other side to take what we send.
    pub write_ms: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { header_ms: 30_000, body_ms: 60_000, write_ms: 60_000 }
    }
}

#[derive(Clone)]
pub struct Key {
    pub name: Arc<str>,
    pub tenant: Arc<str>,
    pub secret: String,
}

impl std::fmt::Debug for Key {
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
