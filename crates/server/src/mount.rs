//! What a path means. Where a product's own path tells the dialect, nothing is guessed.

use std::collections::HashMap;
use std::sync::Arc;

use dialects::wire::Wire;
use model::{Caller, Place};

use crate::settings;

/// Names an agent cannot have: they are routes.
const RESERVED: [&str; 3] = ["tasks", "v1", "extendedAgentCard"];
pub(crate) const CARD: &str = "/.well-known/agent-card.json";
/// Where readers before 0.3 look for the card, and where 0.2 asks for the extended one.
const OLD_CARD: &str = "/.well-known/agent.json";
const OLD_EXTENDED_CARD: &str = "/agent/authenticatedExtendedCard";

pub(crate) struct Mounts {
    agents: HashMap<Arc<str>, Mounted>,
    order: Vec<Arc<str>>,
    default: Arc<str>,
}

/// An agent at its path.
pub(crate) struct Mounted {
    pub(crate) agent: Arc<str>,
    /// The places of a caller without a credential, one for each dialect: by far the commonest, made once.
    anonymous: Vec<Arc<Place>>,
}

impl Mounted {
    fn new(agent: &Arc<str>) -> Mounted {
        let place = |wire: &&'static dyn Wire| Arc::new(Place::tenant(Caller::anonymous(), agent.clone(), wire.name()));
        Mounted { agent: agent.clone(), anonymous: dialects::WIRES.iter().map(place).collect() }
    }

    pub(crate) fn place(&self, caller: &Caller, tenant: &Arc<str>, wire: &'static dyn Wire) -> Arc<Place> {
        if !caller.authenticated
            && let Some(known) = self.anonymous.iter().find(|place| *place.dialect == *wire.name())
            && *tenant == known.caller.tenant
        {
            return known.clone();
        }
        let caller = Caller { tenant: tenant.clone(), ..caller.clone() };
        Arc::new(Place::tenant(caller, self.agent.clone(), wire.name()))
    }
}

/// Where a request goes.
pub(crate) enum Target<'a> {
    Health,
    Ready,
    Metrics,
    Agents,
    Index,
    Card(&'a Mounted),
    /// The extended card, as 0.2 asks for it.
    OldExtendedCard(&'a Mounted),
    /// JSON-RPC by POST.
    Rpc(&'a Mounted),
    /// HTTP+JSON: what follows the agent's base, with its leading slash.
    Rest(&'a Mounted, &'a str),
    Unknown,
}

impl Mounts {
    pub(crate) fn new(agents: &[Arc<str>], default: &Arc<str>) -> Result<Mounts, settings::Error> {
        let refuse = |text: String| Err(settings::Error(text));
        let mut mounted = HashMap::new();
        for agent in agents {
            if agent.is_empty() || RESERVED.contains(&&**agent) || agent.contains([':', '.', '/', '?', '#', '%', ' ']) {
                let reserved = RESERVED.join(", ");
                return refuse(format!(
                    "an agent cannot be named {agent:?}: names are path segments without ':' or '.', and {reserved} are routes"
                ));
            }
            if mounted.insert(agent.clone(), Mounted::new(agent)).is_some() {
                return refuse(format!("two agents are named {agent:?}; give one another name"));
            }
        }
        if !mounted.contains_key(default) {
            let known = agents.join(", ");
            return refuse(format!("the default agent {default:?} is not served; choose one of: {known}"));
        }
        Ok(Mounts { agents: mounted, order: agents.to_vec(), default: default.clone() })
    }

    pub(crate) fn default_agent(&self) -> &Arc<str> {
        &self.default
    }

    pub(crate) fn agents(&self) -> &[Arc<str>] {
        &self.order
    }

    pub(crate) fn resolve<'a>(&'a self, path: &'a str, post: bool) -> Target<'a> {
        let Some(default) = self.agents.get(&self.default) else { return Target::Unknown };
        match path {
            "/" if post => return Target::Rpc(default),
            "/" => return Target::Index,
            "/a2a" | "/a2a/" => return Target::Rpc(default),
            "/healthz" => return Target::Health,
            "/readyz" => return Target::Ready,
            "/metrics" => return Target::Metrics,
            "/agents" => return Target::Agents,
            CARD | OLD_CARD => return Target::Card(default),
            OLD_EXTENDED_CARD => return Target::OldExtendedCard(default),
            _ => {}
        }
        let Some(below) = path.strip_prefix("/a2a/") else {
            // At the root only the default agent's own routes: a tenant segment needs the agent before it.
            return if is_route(&path[1..]) { Target::Rest(default, path) } else { Target::Unknown };
        };
        let (name, rest) = match below.find('/') {
            Some(at) => below.split_at(at),
            None => (below, ""),
        };
        if is_route(below) {
            return Target::Rest(default, &path["/a2a".len()..]);
        }
        let Some(mounted) = self.agents.get(name) else {
            // 0.2 clients ask for it beside the agent's own address.
            let beside = path.ends_with(OLD_EXTENDED_CARD) && below.len() + 1 == OLD_EXTENDED_CARD.len();
            return if beside { Target::OldExtendedCard(default) } else { Target::Unknown };
        };
        match rest {
            "" | "/" => Target::Rpc(mounted),
            CARD | OLD_CARD => Target::Card(mounted),
            OLD_EXTENDED_CARD => Target::OldExtendedCard(mounted),
            rest => Target::Rest(mounted, rest),
        }
    }
}

/// Whether a path begins with a route rather than with an agent's name.
fn is_route(path: &str) -> bool {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    match first {
        "v1" => rest == "card" || is_route(rest),
        "tasks" | "extendedAgentCard" => true,
        first => first.starts_with("message:"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts() -> Mounts {
        Mounts::new(&["echo".into(), "scripted".into()], &"echo".into()).unwrap()
    }

    fn name(target: Target<'_>) -> String {
        match target {
            Target::Rpc(m) => format!("rpc {}", m.agent),
            Target::Rest(m, path) => format!("rest {} {path}", m.agent),
            Target::Card(m) => format!("card {}", m.agent),
            Target::OldExtendedCard(m) => format!("extended {}", m.agent),
            Target::Health => "health".into(),
            Target::Ready => "ready".into(),
            Target::Metrics => "metrics".into(),
            Target::Agents => "agents".into(),
            Target::Index => "index".into(),
            Target::Unknown => "unknown".into(),
        }
    }

    #[test]
    fn every_path_means_one_thing() {
        for (path, expected) in [
            ("/", "rpc echo"),
            ("/a2a", "rpc echo"),
            ("/a2a/", "rpc echo"),
            ("/a2a/scripted", "rpc scripted"),
            ("/a2a/scripted/", "rpc scripted"),
            ("/a2a/scripted/message:send", "rest scripted /message:send"),
            ("/a2a/scripted/acme/tasks", "rest scripted /acme/tasks"),
            ("/a2a/message:send", "rest echo /message:send"),
            ("/a2a/tasks/1:cancel", "rest echo /tasks/1:cancel"),
            ("/message:stream", "rest echo /message:stream"),
            ("/tasks/x", "rest echo /tasks/x"),
            ("/extendedAgentCard", "rest echo /extendedAgentCard"),
            ("/.well-known/agent-card.json", "card echo"),
            ("/a2a/scripted/.well-known/agent-card.json", "card scripted"),
            ("/.well-known/agent.json", "card echo"),
            ("/a2a/scripted/.well-known/agent.json", "card scripted"),
            ("/agent/authenticatedExtendedCard", "extended echo"),
            ("/a2a/agent/authenticatedExtendedCard", "extended echo"),
            ("/a2a/scripted/agent/authenticatedExtendedCard", "extended scripted"),
            ("/v1/message:send", "rest echo /v1/message:send"),
            ("/v1/card", "rest echo /v1/card"),
            ("/a2a/scripted/v1/tasks/1", "rest scripted /v1/tasks/1"),
            ("/v1/agents", "unknown"),
            ("/acme/tasks", "unknown"),
            ("/a2a/nobody", "unknown"),
            ("/healthz", "health"),
        ] {
            assert_eq!(name(mounts().resolve(path, true)), expected, "{path}");
        }
    }

    #[test]
    fn names_that_are_routes_are_refused() {
        for bad in ["tasks", "v1", "extendedAgentCard", "a:b", "a.b", "", "a/b"] {
            assert!(Mounts::new(&[bad.into()], &bad.into()).is_err(), "{bad}");
        }
        assert!(Mounts::new(&["a".into(), "a".into()], &"a".into()).is_err());
        assert!(Mounts::new(&["a".into()], &"b".into()).is_err());
    }
}
