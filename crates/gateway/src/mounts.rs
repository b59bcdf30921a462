//! The meaning of a path: an address of the server, of an agent, or of a product.

use std::collections::HashMap;
use std::sync::Arc;

use dialects::wire::Codec;
use model::{CallScope, Caller, Visibility};

use uuid::Uuid;

use crate::product::{ProductEndpoint, ProductRoute, ProductService, SendGuard, SharedAddress};
use crate::settings::{self, AuthMode, MountSettings};
use crate::{Settings, admin_api, console, receivers};

/// Names an agent cannot have: they are routes.
pub const RESERVED: [&str; 3] = ["tasks", "v1", "extendedAgentCard"];
pub const CARD: &str = "/.well-known/agent-card.json";
/// Path of the card for readers before 0.3.
pub const OLD_CARD: &str = "/.well-known/agent.json";
/// Path of the extended card for 0.2.
const OLD_EXTENDED_CARD: &str = "/agent/authenticatedExtendedCard";

pub struct MountTable {
    agents: HashMap<Arc<str>, MountedAgent>,
    order: Vec<Arc<str>>,
    default: Arc<str>,
    /// In the order in which they are offered an address.
    products: Vec<Arc<dyn ProductService>>,
    ids: HashMap<Uuid, Arc<str>>,
    /// The admin API and the console are served.
    console: bool,
}

/// An agent at its path.
pub struct MountedAgent {
    pub agent: Arc<str>,
    pub door: AuthMode,
    /// Set where a product requires a credential for the agent at every address as soon as any credential exists
    /// ([`crate::GatewayVersion::requires`]), and `mounts` has no rule for it. The text names the address that accepts
    /// the product's credentials.
    pub bearer: Option<String>,
    /// No longer served: only its tasks can be read.
    pub retired: bool,
    /// The tenant of all its tasks, if it is fixed.
    pub tenant: Option<Arc<str>>,
    /// Checks messages before a task exists, if a product guards the agent.
    pub(crate) send_guard: Option<Arc<dyn SendGuard>>,
    visibility: Visibility,
    parties: Vec<Arc<str>>,
    /// The scopes of a caller without a credential, one for each dialect. This is by far the commonest case, so they
    /// are made once.
    anonymous: Vec<Arc<CallScope>>,
}

impl MountedAgent {
    fn new(agent: &Arc<str>, settings: &Settings) -> MountedAgent {
        let own = settings.mounts.iter().find(|(name, _)| name == agent).map(|(_, own)| own.clone());
        let MountSettings { visibility, tenant, parties, door } = own.unwrap_or_default();
        let usual = if settings.auth_required { AuthMode::Required } else { AuthMode::Optional };
        let of_product = || settings.products.iter().find_map(|product| product.requires_credential(agent));
        let bearer = if door.is_none() { of_product() } else { None };
        let mut mounted = MountedAgent {
            agent: agent.clone(),
            bearer,
            door: door.unwrap_or(usual),
            retired: settings.retired.contains(agent),
            tenant,
            send_guard: None,
            visibility: visibility.unwrap_or(settings.visibility),
            parties,
            anonymous: Vec::new(),
        };
        let mut nobody = Caller::anonymous();
        if let Some(tenant) = &mounted.tenant {
            nobody.tenant = tenant.clone();
        }
        mounted.anonymous = dialects::codecs().map(|codec| Arc::new(mounted.seen_by(nobody.clone(), codec))).collect();
        mounted
    }

    fn seen_by(&self, caller: Caller, wire: &'static dyn Codec) -> CallScope {
        CallScope::new(caller, self.agent.clone(), wire.name().into(), self.visibility, &self.parties)
    }

    /// The scope of a caller here, in a dialect that is no wire.
    pub fn place_in(&self, caller: Caller, dialect: &str) -> CallScope {
        CallScope::new(caller, self.agent.clone(), dialect.into(), self.visibility, &self.parties)
    }

    pub fn visibility(&self) -> Visibility {
        self.visibility
    }

    /// The tenant of a caller here, unless the request names another.
    pub fn tenant_of(&self, caller: &Caller) -> Arc<str> {
        self.tenant.as_ref().unwrap_or(&caller.tenant).clone()
    }

    pub fn place(&self, caller: &Caller, tenant: &Arc<str>, wire: &'static dyn Codec) -> Arc<CallScope> {
        if !caller.authenticated
            && let Some(known) = self.anonymous.iter().find(|place| *place.dialect == *wire.name())
            && *tenant == known.caller.tenant
        {
            return known.clone();
        }
        let caller = Caller { tenant: tenant.clone(), ..caller.clone() };
        Arc::new(self.seen_by(caller, wire))
    }
}

/// The endpoint that a path leads to.
pub enum RouteTarget<'a> {
    Health,
    Ready,
    Metrics,
    Agents,
    Index,
    /// The public keys for tokens on deliveries.
    Jwks,
    Card(&'a MountedAgent),
    /// The extended card, at the path of 0.2.
    OldExtendedCard(&'a MountedAgent),
    /// JSON-RPC by POST.
    Rpc(&'a MountedAgent),
    /// HTTP+JSON: the rest of the path after the agent's base, with its leading slash.
    Rest(&'a MountedAgent, &'a str),
    /// An address of a product.
    Product(Box<dyn ProductEndpoint + 'a>),
    /// A file by its address: the rest of the path after `/files/`.
    File(&'a str),
    /// The admin API: the rest of the path.
    AdminApi(&'a str),
    /// The console: the rest of the path.
    Console(&'a str),
    /// A receiver of webhooks: its token.
    Receiver(&'a str),
    /// The endpoint of an agent's workers: the agent's name, and the rest of the path.
    Workers(&'a str, &'a str),
    Unknown,
}

impl MountTable {
    pub(crate) fn new(settings: &Settings) -> Result<MountTable, settings::Error> {
        let (agents, default) = (&settings.agents, &settings.default_agent);
        let refuse = |text: String| Err(settings::Error(text));
        for (name, own) in &settings.mounts {
            if !agents.contains(name) && !settings.retired.contains(name) {
                return refuse(format!("mounts: there is no agent {name:?}; choose one of: {}", agents.join(", ")));
            }
            let shared = own.visibility.unwrap_or(settings.visibility) == Visibility::Parties;
            if !own.parties.is_empty() && !shared {
                return refuse(format!("mounts: {name:?} has parties; set its visibility to parties, too"));
            }
        }
        let mut mounted: HashMap<Arc<str>, MountedAgent> = HashMap::new();
        for agent in agents.iter().chain(&settings.retired) {
            if agent.is_empty() || RESERVED.contains(&&**agent) || agent.contains([':', '.', '/', '?', '#', '%', ' ']) {
                let reserved = RESERVED.join(", ");
                return refuse(format!(
                    "an agent cannot be named {agent:?}: names are path segments without ':' or '.', and {reserved} are routes"
                ));
            }
            if mounted.insert(agent.clone(), MountedAgent::new(agent, settings)).is_some() {
                return refuse(format!("two agents are named {agent:?}; give one another name"));
            }
        }
        if !agents.contains(default) {
            let known = agents.join(", ");
            return refuse(format!("the default agent {default:?} is not served; choose one of: {known}"));
        }
        let ids = settings.agent_ids.iter().cloned().collect();
        let products = settings.products.clone();
        for (agent, guard) in products.iter().filter_map(|product| product.send_guard()) {
            if let Some(mounted) = mounted.get_mut(agent) {
                mounted.send_guard = Some(guard);
            }
        }
        let (order, default) = (agents.to_vec(), default.clone());
        Ok(MountTable { agents: mounted, order, default, products, ids, console: settings.console })
    }

    pub(crate) fn default_agent(&self) -> &Arc<str> {
        &self.default
    }

    /// The products that share this path with the default agent, in their order.
    pub(crate) fn shared<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a dyn SharedAddress> + Clone + 'a {
        self.products.iter().filter_map(|product| product.shared()).filter(move |shared| shared.paths().contains(&path))
    }

    pub(crate) fn products(&self) -> &[Arc<dyn ProductService>] {
        &self.products
    }

    /// The id of an agent.
    pub fn id_of(&self, agent: &str) -> Option<Uuid> {
        self.ids.iter().find(|(_, known)| ***known == *agent).map(|(id, _)| *id)
    }

    /// The agent with this id.
    pub fn agent_by_id(&self, id: Uuid) -> Option<&MountedAgent> {
        self.ids.get(&id).and_then(|agent| self.agents.get(agent))
    }

    /// The id in a path `/a2a/{id}`, where no agent has it as its name.
    pub fn id_at<'p>(&self, path: &'p str) -> Option<&'p str> {
        let name = path.strip_prefix("/a2a/")?;
        let name = name.strip_suffix('/').unwrap_or(name);
        let is_id = name.parse::<Uuid>().is_ok() && !self.agents.contains_key(name);
        is_id.then_some(name)
    }

    /// An agent by its name, also one that is no longer served.
    pub fn agent(&self, name: &str) -> Option<&MountedAgent> {
        self.agents.get(name)
    }

    pub(crate) fn agents(&self) -> &[Arc<str>] {
        &self.order
    }

    pub(crate) fn resolve<'a>(&'a self, path: &'a str, post: bool) -> RouteTarget<'a> {
        let Some(default) = self.agents.get(&self.default) else { return RouteTarget::Unknown };
        match path {
            "/" if post => return RouteTarget::Rpc(default),
            "/" => return RouteTarget::Index,
            "/a2a" | "/a2a/" => return RouteTarget::Rpc(default),
            "/healthz" => return RouteTarget::Health,
            "/readyz" => return RouteTarget::Ready,
            "/metrics" => return RouteTarget::Metrics,
            "/agents" => return RouteTarget::Agents,
            "/.well-known/jwks.json" => return RouteTarget::Jwks,
            CARD | OLD_CARD => return RouteTarget::Card(default),
            OLD_EXTENDED_CARD => return RouteTarget::OldExtendedCard(default),
            _ => {}
        }
        if self.console {
            if let Some(below) = admin_api::below(path) {
                return RouteTarget::AdminApi(below);
            }
            if let Some(below) = console::below(path) {
                return RouteTarget::Console(below);
            }
            if let Some(token) = receivers::below(path) {
                return RouteTarget::Receiver(token);
            }
        }
        for product in &self.products {
            match product.route(path) {
                ProductRoute::Found(endpoint) => return RouteTarget::Product(endpoint),
                ProductRoute::Nothing => return RouteTarget::Unknown,
                ProductRoute::NotMine => {}
            }
        }
        if let Some(file) = path.strip_prefix("/files/") {
            return RouteTarget::File(file);
        }
        if let Some(below) = path.strip_prefix("/workers/") {
            let (name, rest) = below.split_at(below.find('/').unwrap_or(below.len()));
            return RouteTarget::Workers(name, rest);
        }
        let Some(below) = path.strip_prefix("/a2a/") else {
            // The root has only the default agent's own routes: a tenant segment needs the agent before it. Request
            // targets without a path, such as `CONNECT host:port` and `OPTIONS *`, are no address here.
            let route = path.strip_prefix('/').is_some_and(is_route);
            return if route { RouteTarget::Rest(default, path) } else { RouteTarget::Unknown };
        };
        let (name, rest) = match below.find('/') {
            Some(at) => below.split_at(at),
            None => (below, ""),
        };
        if is_route(below) {
            return RouteTarget::Rest(default, &path["/a2a".len()..]);
        }
        let named = self.agents.get(name).or_else(|| self.agent_by_id(name.parse().ok()?));
        let Some(mounted) = named else {
            // 0.2 clients request it beside the agent's own address.
            let beside = path.ends_with(OLD_EXTENDED_CARD) && below.len() + 1 == OLD_EXTENDED_CARD.len();
            let alone = matches!(rest, "" | "/");
            if post
                && alone
                && let Some(endpoint) = self.products.iter().find_map(|product| product.unknown_agent(name))
            {
                return RouteTarget::Product(endpoint);
            }
            return if beside { RouteTarget::OldExtendedCard(default) } else { RouteTarget::Unknown };
        };
        match rest {
            "" | "/" => RouteTarget::Rpc(mounted),
            CARD | OLD_CARD => RouteTarget::Card(mounted),
            OLD_EXTENDED_CARD => RouteTarget::OldExtendedCard(mounted),
            rest => RouteTarget::Rest(mounted, rest),
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
    use futures_util::future::BoxFuture;
    use web::body::Response;

    use super::*;
    use crate::GatewayVersion;
    use crate::product::{Accepts, EndpointRequest};

    fn mounts() -> MountTable {
        MountTable::new(&Settings::test(&["echo", "scripted"])).unwrap()
    }

    fn name(target: RouteTarget<'_>) -> String {
        match target {
            RouteTarget::Rpc(m) => format!("rpc {}", m.agent),
            RouteTarget::Rest(m, path) => format!("rest {} {path}", m.agent),
            RouteTarget::Card(m) => format!("card {}", m.agent),
            RouteTarget::OldExtendedCard(m) => format!("extended {}", m.agent),
            RouteTarget::Health => "health".into(),
            RouteTarget::Ready => "ready".into(),
            RouteTarget::Metrics => "metrics".into(),
            RouteTarget::Agents => "agents".into(),
            RouteTarget::Index => "index".into(),
            RouteTarget::Jwks => "jwks".into(),
            RouteTarget::Product(_) => "product".into(),
            RouteTarget::File(file) => format!("file {file}"),
            RouteTarget::AdminApi(path) => format!("admin {path}"),
            RouteTarget::Console(path) => format!("console {path}"),
            RouteTarget::Receiver(token) => format!("receiver {token}"),
            RouteTarget::Workers(name, path) => format!("workers {name} {path}"),
            RouteTarget::Unknown => "unknown".into(),
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
            ("", "unknown"),
            ("*", "unknown"),
            ("tasks", "unknown"),
            ("/a2a/nobody", "unknown"),
            ("/healthz", "health"),
            ("/workers/echo/lease", "workers echo /lease"),
            ("/workers/nobody", "workers nobody "),
            ("/workers", "unknown"),
            ("/files/ab", "file ab"),
            ("/files", "unknown"),
            ("/a2a/files", "unknown"),
            ("/.well-known/jwks.json", "jwks"),
        ] {
            assert_eq!(name(mounts().resolve(path, true)), expected, "{path}");
        }
    }

    #[test]
    fn the_admin_api_and_the_console_have_their_addresses_only_where_they_are_served() {
        let served = MountTable::new(&Settings { console: true, ..Settings::test(&["echo"]) }).unwrap();
        for (path, with) in [
            ("/api/admin/v1/tasks", "admin /tasks"),
            ("/api/admin/v1", "admin "),
            ("/api/admin/v1/", "admin /"),
            ("/api/admin/v10", "unknown"),
            ("/api/admin", "unknown"),
            ("/console", "console "),
            ("/console/tasks/1", "console /tasks/1"),
            ("/consoles", "unknown"),
            ("/hooks/token", "receiver token"),
            ("/hooks/", "unknown"),
        ] {
            assert_eq!(name(served.resolve(path, false)), with, "{path}");
            assert_eq!(name(mounts().resolve(path, false)), "unknown", "{path}");
        }
    }

    /// A product with the address `/shop/a2a`, which has endpoints for names that no agent has.
    struct Fake;

    impl ProductService for Fake {
        fn route<'a>(&'a self, path: &'a str) -> ProductRoute<'a> {
            match path.strip_prefix("/shop") {
                Some("/a2a") => ProductRoute::Found(Box::new(FakeEndpoint)),
                Some(below) if below.starts_with('/') => ProductRoute::Nothing,
                Some(_) | None => ProductRoute::NotMine,
            }
        }

        fn unknown_agent<'a>(&'a self, name: &'a str) -> Option<Box<dyn ProductEndpoint + 'a>> {
            name.parse::<Uuid>().is_ok().then(|| Box::new(FakeEndpoint) as Box<dyn ProductEndpoint>)
        }
    }

    struct FakeEndpoint;

    impl ProductEndpoint for FakeEndpoint {
        fn accepts(&self, _server: &GatewayVersion) -> Accepts {
            Accepts::Get
        }

        fn answer<'a>(&'a self, _request: EndpointRequest<'a>) -> BoxFuture<'a, Response> {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn an_id_is_an_agents_address_and_products_answer_for_unknown_ones() {
        let (known, unknown) = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222");
        let mut settings = Settings::test(&["echo", "scripted"]);
        settings.agent_ids = vec![(known.parse().unwrap(), "echo".into())];
        for served in [true, false] {
            settings.products = if served { vec![Arc::new(Fake)] } else { Vec::new() };
            let mounted = MountTable::new(&settings).unwrap();
            for (id, end, post, expected) in [
                (known, "", true, "rpc echo".to_owned()),
                (known, "/", true, "rpc echo".to_owned()),
                (known, "/message:send", true, "rest echo /message:send".to_owned()),
                (unknown, "", true, if served { "product".to_owned() } else { "unknown".to_owned() }),
                (unknown, "", false, "unknown".to_owned()),
                (unknown, "/message:send", true, "unknown".to_owned()),
            ] {
                let path = format!("/a2a/{id}{end}");
                assert_eq!(name(mounted.resolve(&path, post)), expected, "{path} {post} {served}");
                assert_eq!(mounted.id_at(&path), matches!(end, "" | "/").then_some(id), "{path} {served}");
            }
            assert_eq!(mounted.id_at("/a2a/echo"), None);
            assert_eq!(mounted.id_at("/a2a"), None);
        }
    }

    #[test]
    fn a_product_has_its_addresses_only_where_it_is_configured_and_leaves_the_others_alone() {
        let mounted =
            MountTable::new(&Settings { products: vec![Arc::new(Fake)], ..Settings::test(&["echo"]) }).unwrap();
        for (path, with, without) in [
            ("/shop/a2a", "product", "unknown"),
            ("/shop/other", "unknown", "unknown"),
            ("/shops", "unknown", "unknown"),
            ("/v1/tasks", "rest echo /v1/tasks", "rest echo /v1/tasks"),
            ("/a2a", "rpc echo", "rpc echo"),
            ("/v1/message:send", "rest echo /v1/message:send", "rest echo /v1/message:send"),
            ("/.well-known/agent-card.json", "card echo", "card echo"),
        ] {
            assert_eq!(name(mounted.resolve(path, true)), with, "{path}");
            assert_eq!(name(mounts().resolve(path, true)), without, "{path}");
        }
    }

    #[test]
    fn names_that_are_routes_are_refused() {
        for bad in ["tasks", "v1", "extendedAgentCard", "a:b", "a.b", "", "a/b"] {
            assert!(MountTable::new(&Settings::test(&[bad])).is_err(), "{bad}");
        }
        assert!(MountTable::new(&Settings::test(&["a", "a"])).is_err());
        assert!(MountTable::new(&Settings { default_agent: "b".into(), ..Settings::test(&["a"]) }).is_err());
    }
}
