//! The settings of the systems' endpoints.

use std::sync::Arc;

use model::Again;

use crate::resources::ResourceRegistry;
use gateway::settings::KeySettings;

/// Settings of Orloj's endpoints: `/orloj`, `/v1/agent-systems` and the other addresses at the root, and `/a2a`.
#[derive(Clone, Debug)]
pub struct SystemsSettings {
    /// The systems that are served, in the order of the config.
    pub systems: Vec<ExposedSystem>,
    /// Tokens that are valid at these endpoints only.
    pub tokens: Vec<KeySettings>,
    /// Agents on other servers, for the registry of cards: name and address.
    pub remotes: Vec<(Arc<str>, String)>,
    /// The longest wait of a send for the end of its task; with `None` a send does not wait.
    pub wait_ms: Option<u64>,
    /// The effect of a send whose id already has a task.
    pub again: Again,
    /// The largest body of a request.
    pub body_bytes: usize,
    /// The most concurrent sends that wait, and streams. Default: no limit.
    pub waiting: Option<u32>,
    pub streams: Option<u32>,
    /// The most requests per minute from one network address. Default: no limit.
    pub requests_per_minute: Option<u32>,
    /// The protocol version on cards.
    pub protocol_version: String,
    /// The registry of systems and agents, if they are served as resources.
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

/// A system that Orloj's endpoints serve: the agent of that name.
#[derive(Clone, Debug)]
pub struct ExposedSystem {
    pub name: Arc<str>,
    pub namespace: Arc<str>,
    /// Whether it can be called without a credential.
    pub public: bool,
    /// The agents of its nodes.
    pub agents: Vec<Arc<str>>,
}
