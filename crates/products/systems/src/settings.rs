//! The settings of the systems' endpoints.

use std::sync::Arc;

use model::Again;

use crate::resources::ResourceRegistry;
use gateway::settings::Key;

/// Orloj's endpoints: `/orloj`, `/v1/agent-systems` and its relatives, and its rows at `/a2a`.
#[derive(Clone, Debug)]
pub struct SystemsSettings {
    /// The systems that are shown, in order.
    pub systems: Vec<ExposedSystem>,
    /// Tokens that are good here and nowhere else.
    pub tokens: Vec<Key>,
    /// Agents elsewhere, for the registry: name and address.
    pub remotes: Vec<(Arc<str>, String)>,
    /// How long a send waits for the end of its task; `None` does not wait at all.
    pub wait_ms: Option<u64>,
    /// What a send means whose id has a task already.
    pub again: Again,
    /// A request's body.
    pub body_bytes: usize,
    /// Sends that wait, and streams, at a time; none by default.
    pub waiting: Option<u32>,
    pub streams: Option<u32>,
    /// Requests a minute of one address; none by default.
    pub requests_per_minute: Option<u32>,
    /// The version that cards say.
    pub protocol_version: String,
    /// The systems and agents there are, where they are shown and changed.
    pub resources: Option<ResourceRegistry>,
}

impl SystemsSettings {
    pub fn new(systems: Vec<ExposedSystem>) -> SystemsSettings {
        SystemsSettings {
            systems,
            tokens: Vec::new(),
            remotes: Vec::new(),
            wait_ms: Some(30 * 60_000),
            again: Again::Restart,
            body_bytes: 1 << 20,
            waiting: None,
            streams: None,
            requests_per_minute: None,
            protocol_version: "1.0".into(),
            resources: None,
        }
    }
}

/// A system that is shown at Orloj's endpoints: an agent of that name.
#[derive(Clone, Debug)]
pub struct ExposedSystem {
    pub name: Arc<str>,
    pub namespace: Arc<str>,
    /// Anybody may call it; else who has a token that is good for it.
    pub public: bool,
    /// What it is made of.
    pub agents: Vec<Arc<str>>,
}
