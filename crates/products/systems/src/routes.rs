//! The addresses of systems: JSON-RPC, cards, the registry of cards, and resources.

use std::sync::Arc;

use dialects::framing::scan;
use futures_util::future::BoxFuture;
use http::{HeaderMap, request};
use model::Fault;
use web::body::Response;

use super::SystemsSettings;
use crate::changes::SystemChanges;
use crate::demo;
use crate::orloj::endpoint as orloj;
use crate::orloj::state::SystemsState;
use crate::resources::rest as resources;
use crate::resources::{DOCUMENT_BYTES, Resource, ResourceKind, ResourceRegistry, StoredResources};
use gateway::fronts::RequestLog;
use gateway::mounts::{CARD, OLD_CARD};
use gateway::product::{
    Accepts, Demo, EndpointRequest, Ownership, ProductEndpoint, ProductRoute, ProductService, RefusalForm,
    RosterChanges, SharedAddress, SharedCall,
};
use gateway::{GatewayVersion, Settings, settings};

pub struct SystemsService {
    pub(crate) settings: SystemsSettings,
    pub(crate) state: SystemsState,
    roster: Option<Roster>,
    demo: Option<demo::Tokens>,
}

/// The resources of this version.
struct Roster {
    changes: Arc<SystemChanges>,
    at: StoredResources,
    shown: Vec<Arc<Resource>>,
}

impl SystemsService {
    /// The service that takes the place of `before`: what callers have used of their limits stays used.
    pub fn new(settings: SystemsSettings, before: Option<&SystemsService>) -> SystemsService {
        let state = SystemsState::new(&settings, before.map(|before| &before.state));
        SystemsService { settings, state, roster: None, demo: None }
    }

    /// Shows these resources as soon as the service is in force.
    pub(crate) fn with_roster(
        self,
        changes: Arc<SystemChanges>,
        at: StoredResources,
        shown: Vec<Arc<Resource>>,
    ) -> SystemsService {
        SystemsService { roster: Some(Roster { changes, at, shown }), ..self }
    }

    pub(crate) fn with_demo(self, demo: Option<demo::Tokens>) -> SystemsService {
        SystemsService { demo, ..self }
    }

    pub(crate) fn changes(&self) -> Option<&Arc<SystemChanges>> {
        self.roster.as_ref().map(|roster| &roster.changes)
    }

    pub(crate) fn of(server: &GatewayVersion) -> Option<&SystemsService> {
        server.product()
    }

    /// The systems and agents, where they are served as resources.
    pub fn resources(&self) -> Option<&ResourceRegistry> {
        self.settings.resources.as_ref()
    }
}

impl ProductService for SystemsService {
    fn route<'a>(&'a self, path: &'a str) -> ProductRoute<'a> {
        route(path).map_or(ProductRoute::NotMine, |found| {
            found.map_or(ProductRoute::Nothing, |endpoint| ProductRoute::Found(Box::new(endpoint)))
        })
    }

    fn check(&self, settings: &Settings) -> Result<(), settings::Error> {
        orloj::check(&self.settings, settings)
    }

    fn requires_credential(&self, agent: &str) -> Option<String> {
        let closed = self.settings.systems.iter().any(|system| *system.name == *agent && !system.public);
        closed.then(|| format!("a token of orloj.tokens is taken at /orloj/v1/agent-systems/{agent}/a2a"))
    }

    fn in_force(&self) {
        if let Some(Roster { changes, at, shown }) = &self.roster {
            changes.registry().show(at, shown.iter().cloned());
        }
    }

    fn roster_changes(&self) -> Option<Arc<dyn RosterChanges>> {
        self.changes().map(|changes| changes.clone() as Arc<dyn RosterChanges>)
    }

    fn demo(&self) -> Option<&dyn Demo> {
        self.demo.as_ref().map(|tokens| tokens as &dyn Demo)
    }

    fn has_credentials(&self) -> bool {
        self.state.has_tokens()
    }

    fn separates_tenants(&self, agent: &str) -> bool {
        self.state.has_tokens() && self.settings.systems.iter().any(|system| *system.name == *agent)
    }

    fn largest_body(&self) -> usize {
        self.settings.body_bytes
    }

    fn shared(&self) -> Option<&dyn SharedAddress> {
        Some(&SystemsAddress)
    }

    fn knows_caller<'a>(&'a self, server: &'a Arc<GatewayVersion>, head: &'a request::Parts) -> BoxFuture<'a, bool> {
        Box::pin(async move { self.admits_any(server, &head.headers).await.is_ok() })
    }
}

/// The addresses that systems share with the default agent: `/a2a`.
pub struct SystemsAddress;

impl SharedAddress for SystemsAddress {
    fn paths(&self) -> &'static [&'static str] {
        &["/a2a", "/a2a/"]
    }

    fn methods(&self) -> &'static [&'static str] {
        crate::orloj::METHODS
    }

    fn dialect(&self) -> &'static str {
        crate::orloj::NAME
    }

    /// A token that is valid at the systems' endpoints only.
    fn by_headers(&self, server: &GatewayVersion, headers: &HeaderMap) -> bool {
        orloj::is_token(server, headers)
    }

    fn by_params(&self, method: &str, params: Option<&str>, has_session: bool) -> Ownership {
        if has_session {
            Ownership::No
        } else if params.into_iter().flat_map(scan::members).any(|(name, _)| name == "message") {
            Ownership::Yes
        } else if matches!(method, "tasks/get" | "tasks/cancel") {
            Ownership::IfUnknown
        } else {
            Ownership::No
        }
    }

    fn owns<'a>(&'a self, call: SharedCall<'a>) -> BoxFuture<'a, bool> {
        Box::pin(orloj::owns(call.server, call.mounted, call.head, call.request))
    }

    fn answer_unread<'a>(&'a self, request: EndpointRequest<'a>) -> BoxFuture<'a, Response> {
        let EndpointRequest { server, head, body, log } = request;
        Box::pin(async move { orloj::answer(server, None, head, body.into_bytes(), log).await })
    }

    fn answer<'a>(&'a self, call: SharedCall<'a>, log: &'a mut RequestLog) -> BoxFuture<'a, Response> {
        Box::pin(orloj::answer_to(call.server, None, call.head, call.request, log))
    }
}

#[derive(Debug)]
enum SystemsEndpoint<'a> {
    /// The system in the path, if any.
    JsonRpc(Option<&'a str>),
    Card(Option<&'a str>),
    Registry,
    /// The path below `/v1`, with its leading slash.
    Resources(&'a str),
}

/// The endpoint of a path. `Some(None)`: the path is below the product's mount, but has no endpoint.
fn route(path: &str) -> Option<Option<SystemsEndpoint<'_>>> {
    match path.strip_prefix("/orloj") {
        Some("/a2a" | "/a2a/") => Some(Some(SystemsEndpoint::JsonRpc(None))),
        Some(CARD | OLD_CARD) => Some(Some(SystemsEndpoint::Card(None))),
        Some(below) if below.starts_with('/') => Some(systems(below).or_else(|| runs(below))),
        // Clients of Orloj use addresses without a mount.
        Some(_) | None => systems(path).map(Some),
    }
}

/// Paths below the mount and at the root.
fn systems(path: &str) -> Option<SystemsEndpoint<'_>> {
    let inside = path.strip_prefix("/v1")?;
    let below = inside.strip_prefix('/')?;
    if below == "a2a/agents" {
        return Some(SystemsEndpoint::Registry);
    }
    let below = [ResourceKind::AgentSystem, ResourceKind::Agent].into_iter().find_map(|kind| {
        let below = below.strip_prefix(kind.plural())?;
        (below.is_empty() || below.starts_with('/')).then_some(below)
    })?;
    let resources = SystemsEndpoint::Resources(inside);
    let Some(named) = below.strip_prefix('/').filter(|named| !named.is_empty()) else { return Some(resources) };
    let (name, rest) = named.split_at(named.find('/').unwrap_or(named.len()));
    match rest {
        _ if name.is_empty() => None,
        // In both collections: `/v1/agents/{name}/a2a` is an older address of a system.
        "/a2a" | "/a2a/" => Some(SystemsEndpoint::JsonRpc(Some(name))),
        CARD | OLD_CARD => Some(SystemsEndpoint::Card(Some(name))),
        _ => Some(resources),
    }
}

/// Paths below the mount only: at the root, `/v1/tasks` belongs to another dialect.
fn runs(path: &str) -> Option<SystemsEndpoint<'_>> {
    let inside = path.strip_prefix("/v1").filter(|inside| inside.starts_with('/'))?;
    let is_run = matches!(web::routes::first_segment(inside), "tasks" | "tool-approvals");
    is_run.then_some(SystemsEndpoint::Resources(inside))
}

impl ProductEndpoint for SystemsEndpoint<'_> {
    fn accepts(&self, server: &GatewayVersion) -> Accepts {
        match self {
            SystemsEndpoint::JsonRpc(_) => {
                Accepts::PostJson(SystemsService::of(server).map(|systems| systems.settings.body_bytes))
            }
            SystemsEndpoint::Card(_) | SystemsEndpoint::Registry => Accepts::Get,
            SystemsEndpoint::Resources(_) => Accepts::Any(Some(DOCUMENT_BYTES)),
        }
    }

    fn admit<'a>(
        &'a self,
        server: &'a Arc<GatewayVersion>,
        head: &'a request::Parts,
    ) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            match SystemsService::of(server) {
                Some(systems) => systems.admits_any(server, &head.headers).await,
                None => Ok(()),
            }
        })
    }

    fn answer<'a>(&'a self, request: EndpointRequest<'a>) -> BoxFuture<'a, Response> {
        let EndpointRequest { server, head, body, log } = request;
        Box::pin(async move {
            let body = body.into_bytes();
            match self {
                SystemsEndpoint::JsonRpc(named) => orloj::answer(server, *named, head, body, log).await,
                SystemsEndpoint::Card(named) => orloj::card(server, *named, head, log),
                SystemsEndpoint::Registry => orloj::registry(server, head, log).await,
                SystemsEndpoint::Resources(path) => resources::answer(server, path, head, body, log).await,
            }
        })
    }

    fn refusals(&self) -> RefusalForm {
        match self {
            SystemsEndpoint::JsonRpc(_) => RefusalForm::Answer,
            SystemsEndpoint::Resources(_) => RefusalForm::Written(resources::turned_away),
            SystemsEndpoint::Card(_) | SystemsEndpoint::Registry => RefusalForm::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_systems() {
        let name = |endpoint: SystemsEndpoint<'_>| match endpoint {
            SystemsEndpoint::JsonRpc(name) => format!("rpc {}", name.unwrap_or("-")),
            SystemsEndpoint::Card(name) => format!("card {}", name.unwrap_or("-")),
            SystemsEndpoint::Registry => "registry".into(),
            SystemsEndpoint::Resources(path) => format!("resources {path}"),
        };
        for (path, expected) in [
            ("/orloj/a2a", "rpc -"),
            ("/orloj/a2a/", "rpc -"),
            ("/orloj/v1/agent-systems/sum/a2a", "rpc sum"),
            ("/orloj/v1/agents/sum/a2a", "rpc sum"),
            ("/v1/agent-systems/sum/a2a", "rpc sum"),
            ("/v1/agents/sum/a2a", "rpc sum"),
            ("/orloj/.well-known/agent-card.json", "card -"),
            ("/orloj/.well-known/agent.json", "card -"),
            ("/orloj/v1/agent-systems/sum/.well-known/agent-card.json", "card sum"),
            ("/v1/agents/sum/.well-known/agent.json", "card sum"),
            ("/orloj/v1/a2a/agents", "registry"),
            ("/v1/a2a/agents", "registry"),
            ("/v1/agent-systems//a2a", "not mine"),
            ("/orloj/v1/tasks", "resources /tasks"),
            ("/orloj/v1/tasks/a/messages", "resources /tasks/a/messages"),
            ("/orloj/v1/tool-approvals/a/deny", "resources /tool-approvals/a/deny"),
            ("/orloj/v1/tasksx", "nothing"),
            ("/v1/tasks", "not mine"),
            ("/v1/tool-approvals", "not mine"),
            ("/v1/agent-systems", "resources /agent-systems"),
            ("/v1/agent-systems/", "resources /agent-systems/"),
            ("/orloj/v1/agent-systems/sum", "resources /agent-systems/sum"),
            ("/v1/agents/watch", "resources /agents/watch"),
            ("/v1/agents/sum/status", "resources /agents/sum/status"),
            ("/v1/agentsx", "not mine"),
            ("/orloj", "not mine"),
            ("/a2a", "not mine"),
            ("/v1/message:send", "not mine"),
            ("/.well-known/agent-card.json", "not mine"),
        ] {
            let found = route(path).map(|found| found.map_or("nothing".to_owned(), name));
            assert_eq!(found.as_deref().unwrap_or("not mine"), expected, "{path}");
        }
    }
}
