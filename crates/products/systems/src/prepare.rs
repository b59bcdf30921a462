//! Systems from the config to their service: the roster of the config, then that of stored resources.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{anyhow, bail};
use futures_util::future::BoxFuture;
use gateway::product::{Prepared, ProductHost, ProductService, RosterEntry, Setup};
use gateway::{Settings, settings};
use model::Json;
use model::ports::agent::Agent;
use model::ports::store::Store;
use serde_json::Value;
use systems_graph::{System, SystemGraph, Systems};

use crate::changes::SystemChanges;
use crate::config::{self, Orloj as EndpointConfig, Resources as Rules};
use crate::resources::admission::{self, AgentConfigs, Trouble, Troubles, in_spec};
use crate::resources::{Resource, ResourceKind, StoredResources, load};
use crate::{SystemsService, SystemsSettings, agent, demo};

pub(crate) fn prepare(setup: &Setup<'_>) -> anyhow::Result<Option<Box<dyn Prepared>>> {
    let endpoints = setup.section::<EndpointConfig>("orloj").cloned();
    let endpoints = endpoints.or_else(|| setup.is_demo.then(EndpointConfig::default));
    let configured = match setup.section::<Systems>("systems") {
        Some(systems) if !systems.0.is_empty() => systems.clone(),
        Some(_) | None if setup.is_demo => demo::systems()?,
        Some(_) | None => Systems::default(),
    };
    if endpoints.is_none() && configured.0.is_empty() {
        return Ok(None);
    }
    let running = setup.running::<SystemsService>();
    let changes = running.as_ref().and_then(|service| service.changes().cloned());
    let changes = changes.unwrap_or_else(|| Arc::new(SystemChanges::new()));
    let agents = setup.agents.iter().filter_map(|agent| Some((agent.name.to_owned(), agent.written?.clone())));
    Ok(Some(Box::new(PreparedSystems {
        remotes: config::remotes(setup.agents),
        agents: agents.collect(),
        demo_tokens: if setup.is_demo { Some(demo::tokens(setup.data)?) } else { None },
        endpoints,
        configured,
        running,
        changes,
        own: Vec::new(),
        config_resources: Vec::new(),
        at: StoredResources::default(),
        is_loaded: false,
        made: Vec::new(),
        stored: Vec::new(),
        unbuilt: BTreeMap::new(),
        troubles: BTreeMap::new(),
    })))
}

/// A system with its graph.
struct Node {
    name: Arc<str>,
    system: System,
    graph: SystemGraph,
}

pub(crate) struct PreparedSystems {
    /// None where systems are served as agents only.
    endpoints: Option<EndpointConfig>,
    /// The systems of the config.
    configured: Systems,
    /// The config of agents, by name.
    agents: AgentConfigs,
    remotes: Vec<(Arc<str>, String)>,
    demo_tokens: Option<demo::Tokens>,
    running: Option<Arc<SystemsService>>,
    changes: Arc<SystemChanges>,
    /// The systems of the config, as they are served.
    own: Vec<Node>,
    /// Agents and systems of the config as resources.
    config_resources: Vec<Arc<Resource>>,
    /// Where the stored resources were read, or where a change leads to.
    pub(crate) at: StoredResources,
    /// Whether the stored resources were read from the store.
    is_loaded: bool,
    /// The stored resources.
    pub(crate) made: Vec<Arc<Resource>>,
    /// The stored systems that are served.
    stored: Vec<Node>,
    /// Stored resources whose agents could not be built.
    unbuilt: Troubles,
    /// Stored resources that are not served, with the reason.
    pub(crate) troubles: Troubles,
}

impl PreparedSystems {
    fn rules(&self) -> Rules {
        self.endpoints.as_ref().map(|endpoints| endpoints.resources.clone()).unwrap_or_default()
    }

    fn settings(&self) -> anyhow::Result<Option<SystemsSettings>> {
        let Some(endpoints) = &self.endpoints else { return Ok(None) };
        let nodes = self.own.iter().chain(&self.stored);
        let exposed =
            nodes.filter_map(|node| config::shown(&node.name, &node.system, node.graph.nodes().map(|node| node.agent)));
        let mut settings = endpoints.settings(&self.configured, self.remotes.clone(), exposed.collect())?;
        if let Some(tokens) = &self.demo_tokens {
            demo::let_in(&mut settings, tokens);
        }
        settings.resources = Some(self.changes.registry().clone());
        Ok(Some(settings))
    }

    /// All resources, to be shown.
    fn resources(&self) -> Vec<Arc<Resource>> {
        let made = self.made.iter().map(|one| {
            let trouble = self.troubles.get(&one.key()).map(Trouble::says);
            Arc::new(Resource { trouble, ..(**one).clone() })
        });
        self.config_resources.iter().cloned().chain(made).collect()
    }

    /// The stored resources as agents and systems; those that cannot be served are `troubles`.
    fn read_stored(&mut self, configured: &[RosterEntry]) -> Vec<RosterEntry> {
        let rules = self.rules();
        let mut troubles = self.unbuilt.clone();
        let mut wrong: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
        let (mut entries, mut pending, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
        for one in self.made.iter().filter(|one| !self.unbuilt.contains_key(&one.key())) {
            // The rules for writing prevent equal names; if two exist all the same, the first is served.
            if !names.insert(one.name.clone()) {
                let says = "metadata.name: something else that was made has this name; rename one".to_owned();
                troubles.insert(one.key(), Trouble::Wrong(vec![says]));
                continue;
            }
            let is_taken = || configured.iter().any(|known| known.name == one.name);
            let taken = || {
                let says = "metadata.name: the config has this name, and what is written there is served; rename one";
                vec![says.to_owned()]
            };
            match one.kind {
                ResourceKind::Agent => match admission::agent(one, &self.agents, &rules) {
                    Err(trouble) => drop(troubles.insert(one.key(), trouble)),
                    Ok(_) if is_taken() => drop(wrong.insert(one.name.clone(), taken())),
                    Ok((agent, fingerprint)) => match agent.check() {
                        Ok(()) => entries.push(agent_entry(&one.name, agent, fingerprint)),
                        Err(error) => drop(wrong.insert(one.name.clone(), vec![in_spec(&error.to_string())])),
                    },
                },
                ResourceKind::AgentSystem => match admission::system(one) {
                    Err(trouble) => drop(troubles.insert(one.key(), trouble)),
                    Ok(_) if is_taken() => drop(wrong.insert(one.name.clone(), taken())),
                    Ok((system, fingerprint)) => pending.push((one.name.clone(), system, fingerprint)),
                },
            }
        }
        self.stored.clear();
        self.add_stored_systems(configured, &mut entries, pending, &mut wrong);
        for one in &self.made {
            if let Some(says) = wrong.get(&one.name) {
                troubles.entry(one.key()).or_insert_with(|| Trouble::Wrong(says.clone()));
            }
        }
        self.troubles = troubles;
        entries
    }

    /// Adds each system whose agents all exist, until no more can be added. The others are wrong.
    fn add_stored_systems(
        &mut self,
        configured: &[RosterEntry],
        entries: &mut Vec<RosterEntry>,
        mut pending: Vec<(Arc<str>, System, String)>,
        wrong: &mut BTreeMap<Arc<str>, Vec<String>>,
    ) {
        let is_node = |entries: &[RosterEntry], agent: &str| {
            configured.iter().chain(entries).any(|known| *known.name == *agent && known.can_be_node)
        };
        loop {
            let before = pending.len();
            let mut left = Vec::new();
            for (name, system, fingerprint) in pending {
                match system.check(|agent| is_node(entries, agent)) {
                    Ok(graph) => {
                        entries.push(system_entry(&name, &system, &graph, fingerprint));
                        self.stored.push(Node { name, system, graph });
                    }
                    Err(_) => left.push((name, system, fingerprint)),
                }
            }
            pending = left;
            if pending.is_empty() || pending.len() == before {
                break;
            }
        }
        for (name, system, _) in &pending {
            let is_near = |agent: &str| is_node(entries, agent) || pending.iter().any(|(other, ..)| **other == *agent);
            let says = match system.check(is_near) {
                Err(all) => all.iter().map(|one| format!("spec.{one}")).collect(),
                Ok(graph) => {
                    let parts = graph
                        .nodes()
                        .map(|node| node.agent)
                        .filter(|agent| pending.iter().any(|(other, ..)| **other == **agent));
                    let parts: BTreeSet<&str> = parts.collect();
                    let parts = parts.into_iter().collect::<Vec<_>>().join(", ");
                    vec![format!(
                        "spec.graph: it is made of {parts}, which is not served or is made of {name} itself; break the ring"
                    )]
                }
            };
            wrong.insert(name.clone(), says);
        }
    }

    /// The agents and systems of the config as resources. Of agents only their cards: how to reach them is the
    /// operator's business.
    fn read_config_resources(&mut self, configured: &[RosterEntry]) {
        let resource = |entry: &RosterEntry| match self.own.iter().find(|node| node.name == entry.name) {
            None => Resource::of_config(ResourceKind::Agent, &entry.name, Json::from_value(&entry.spec)),
            Some(node) => {
                let mut bare = node.system.clone();
                let (namespace, labels) = (bare.namespace().into(), std::mem::take(&mut bare.labels));
                bare.namespace = None;
                // Not through a JSON value, which would lose the order of the nodes.
                let spec = serde_json::to_string(&bare).ok().and_then(|text| Json::parse(&text));
                let spec = spec.unwrap_or_else(|| Json::from_value(&Value::Null));
                Resource { namespace, labels, ..Resource::of_config(ResourceKind::AgentSystem, &entry.name, spec) }
            }
        };
        self.config_resources = configured.iter().map(|entry| Arc::new(resource(entry))).collect();
    }
}

fn agent_entry(name: &Arc<str>, config: agents::AgentConfig, fingerprint: String) -> RosterEntry {
    let (of, config) = (name.clone(), Arc::new(config));
    RosterEntry {
        name: name.clone(),
        fingerprint,
        can_be_node: true,
        spec: Value::Null,
        build: Arc::new(move || {
            let (name, config) = (of.clone(), config.clone());
            Box::pin(async move {
                agents::build(&name, (*config).clone()).await.map_err(|error| anyhow!("agents: {error}"))
            })
        }),
    }
}

fn system_entry(name: &Arc<str>, system: &System, graph: &SystemGraph, fingerprint: String) -> RosterEntry {
    let agent = Arc::new(agent::SystemAgent::new(name, system, graph.clone())) as Arc<dyn Agent>;
    RosterEntry {
        name: name.clone(),
        fingerprint,
        can_be_node: true,
        spec: Value::Null,
        build: Arc::new(move || Box::pin(std::future::ready(Ok(agent.clone())))),
    }
}

/// The systems of a config as agents, without a server.
pub fn agents_of(prepared: &[Box<dyn Prepared>]) -> Vec<Arc<dyn Agent>> {
    let systems = prepared.iter().find_map(|product| (&**product as &dyn Any).downcast_ref::<PreparedSystems>());
    let agent =
        |node: &Node| Arc::new(agent::SystemAgent::new(&node.name, &node.system, node.graph.clone())) as Arc<dyn Agent>;
    systems.into_iter().flat_map(|systems| &systems.own).map(agent).collect()
}

impl Prepared for PreparedSystems {
    fn load<'a>(&'a mut self, store: &'a Arc<dyn Store>) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            if self.endpoints.is_none() {
                return Ok(());
            }
            let loaded = load(store).await;
            self.at = loaded.map_err(|fault| anyhow!("cannot read what was made: {fault} ({})", fault.cause_text()))?;
            self.made = self.at.made.iter().cloned().map(Arc::new).collect();
            self.is_loaded = true;
            Ok(())
        })
    }

    /// Adds the systems after their agents.
    fn roster(&mut self, before: &[RosterEntry]) -> anyhow::Result<Vec<RosterEntry>> {
        let systems = &self.configured;
        let is_system = |name: &str| systems.0.iter().any(|(known, _)| known == name);
        let mut made_of: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        let mut own = Vec::new();
        for (name, system) in &systems.0 {
            if before.iter().any(|agent| *agent.name == **name) {
                bail!("systems.{name}: an agent has this name, too; rename one");
            }
            let is_known = |agent: &str| is_system(agent) || before.iter().any(|known| *known.name == *agent);
            let graph = system.check(is_known).map_err(|wrong| {
                let lines: Vec<String> = wrong.iter().map(|wrong| format!("systems.{name}.{wrong}")).collect();
                anyhow!("{}", lines.join("\n"))
            })?;
            let parts = graph.nodes().map(|node| node.agent.to_owned()).filter(|agent| is_system(agent));
            made_of.insert(name, parts.collect());
            own.push(Node { name: name.as_str().into(), system: system.clone(), graph });
        }
        // Removes each system whose parts are all known to end; the rest form a loop.
        while let Some(fine) = made_of.iter().find(|(_, parts)| !parts.iter().any(|part| made_of.contains_key(&**part)))
        {
            let fine = *fine.0;
            made_of.remove(fine);
        }
        if !made_of.is_empty() {
            let names: Vec<&str> = made_of.keys().copied().collect();
            bail!("systems: {} are made of each other; break the ring", names.join(", "));
        }
        let entry = |node: &Node| {
            let fingerprint = serde_json::to_string(&node.system)?;
            Ok(system_entry(&node.name, &node.system, &node.graph, fingerprint))
        };
        let entries = own.iter().map(entry).collect();
        self.own = own;
        entries
    }

    fn stored_roster(&mut self, configured: &[RosterEntry]) -> Vec<RosterEntry> {
        self.read_config_resources(configured);
        self.read_stored(configured)
    }

    fn build_failed(&mut self, name: &str, error: &str) -> bool {
        let failed = self.made.iter().find(|one| *one.name == *name && !self.unbuilt.contains_key(&one.key()));
        let Some(one) = failed else { return false };
        self.unbuilt.insert(one.key(), Trouble::Wrong(vec![in_spec(error)]));
        true
    }

    fn check(&self, settings: &Settings) -> Result<(), settings::Error> {
        let own = self.settings().map_err(|error| settings::Error(format!("{error:#}")))?;
        own.map_or(Ok(()), |own| crate::orloj::endpoint::check(&own, settings))
    }

    fn open<'a>(&'a self, _host: ProductHost<'a>) -> BoxFuture<'a, anyhow::Result<Option<Arc<dyn ProductService>>>> {
        Box::pin(async move {
            let Some(settings) = self.settings()? else { return Ok(None) };
            if self.is_loaded {
                for ((sort, name), trouble) in &self.troubles {
                    tracing::warn!("{}/{name} was made and is not served: {}", sort.plural(), trouble.says());
                }
            }
            let service = SystemsService::new(settings, self.running.as_deref());
            let service = service.with_roster(self.changes.clone(), self.at.clone(), self.resources());
            let service = service.with_demo(self.demo_tokens.clone());
            Ok(Some(Arc::new(service) as Arc<dyn ProductService>))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gateway::product::{AgentFacts, Sections};
    use serde_json::json;

    use super::*;
    use crate::resources::Origin;

    #[derive(serde::Deserialize)]
    struct Root {
        #[serde(default)]
        systems: Systems,
        orloj: Option<EndpointConfig>,
    }

    impl Sections for Root {
        fn section(&self, key: &str) -> Option<&dyn Any> {
            match key {
                "systems" => Some(&self.systems),
                _ => self.orloj.as_ref().map(|section| section as &dyn Any),
            }
        }
    }

    /// The product with these sections, and a roster of built-in agents and of its systems.
    fn prepared(yaml: &str, agents: &[(&str, Value)]) -> (PreparedSystems, Vec<RosterEntry>) {
        let root: Root = serde_saphyr::from_str(yaml).unwrap();
        let facts: Vec<AgentFacts<'_>> = agents.iter().map(|(name, _)| AgentFacts { name, written: None }).collect();
        let data = Path::new("data");
        let setup = Setup { is_demo: false, data, sections: &root, agents: &facts, keys: &[], running: None };
        let prepared = prepare(&setup).unwrap().unwrap() as Box<dyn Any>;
        let mut prepared = *prepared.downcast::<PreparedSystems>().ok().unwrap();
        let echo = |(name, spec): &(&str, Value)| RosterEntry {
            name: (*name).into(),
            fingerprint: String::new(),
            can_be_node: true,
            spec: spec.clone(),
            build: Arc::new(|| Box::pin(std::future::pending())),
        };
        let mut entries: Vec<RosterEntry> = agents.iter().map(echo).collect();
        let own = prepared.roster(&entries).unwrap();
        entries.extend(own);
        (prepared, entries)
    }

    fn made(sort: ResourceKind, name: &str, spec: &str) -> Arc<Resource> {
        let resource = Resource::of_config(sort, name, Json::parse(spec).unwrap());
        Arc::new(Resource { origin: Origin::Made, ..resource })
    }

    #[test]
    fn stored_resources_are_served_or_say_why_not() {
        let echo = || json!({ "kind": "echo" });
        let (mut systems, configured) =
            prepared("systems: { s: { agents: [a, b] } }\norloj: {}\n", &[("a", echo()), ("b", echo())]);
        systems.made = vec![
            made(ResourceKind::Agent, "c", r#"{"kind":"echo"}"#),
            made(ResourceKind::Agent, "a", r#"{"kind":"scripted"}"#),
            made(ResourceKind::Agent, "bad", r#"{"kind":"command","command":"cat"}"#),
            made(ResourceKind::AgentSystem, "outer", r#"{"agents":["inner","s"]}"#),
            made(ResourceKind::AgentSystem, "inner", r#"{"graph":{"c":{"next":"b"}}}"#),
            made(ResourceKind::AgentSystem, "lost", r#"{"agents":["bad"]}"#),
            made(ResourceKind::AgentSystem, "ring", r#"{"agents":["gnir"]}"#),
            made(ResourceKind::AgentSystem, "gnir", r#"{"agents":["ring"]}"#),
            made(ResourceKind::AgentSystem, "odd", r#"{"grph":{}}"#),
            made(ResourceKind::AgentSystem, "far", r#"{"agents":["a"],"namespace":"x"}"#),
        ];
        let stored = systems.stored_roster(&configured);
        let names: Vec<&str> = configured.iter().chain(&stored).map(|entry| &*entry.name).collect();
        assert_eq!(names, ["a", "b", "s", "c", "inner", "outer"]);
        let says = |sort, name: &str| systems.troubles[&(sort, name.into())].says();
        for (sort, name, piece) in [
            (ResourceKind::Agent, "a", "the config has this name"),
            (ResourceKind::Agent, "bad", "may not be made here"),
            (ResourceKind::AgentSystem, "lost", "spec.agents[0]: there is no agent \"bad\""),
            (ResourceKind::AgentSystem, "ring", "it is made of gnir"),
            (ResourceKind::AgentSystem, "gnir", "break the ring"),
            (ResourceKind::AgentSystem, "odd", "did you mean `graph`?"),
            (ResourceKind::AgentSystem, "far", "spec.namespace: belongs to metadata"),
        ] {
            assert!(says(sort, name).contains(piece), "{name}: {}", says(sort, name));
        }
        assert_eq!(systems.troubles.len(), 7);
        let shown = systems.resources();
        let system = shown.iter().find(|one| &*one.name == "s").unwrap();
        assert_eq!(system.spec.text(), r#"{"agents":["a","b"]}"#);
        // One that cannot be built is left out, and the rest is served.
        assert!(systems.build_failed("c", "url: it is not there") && !systems.build_failed("b", "x"));
        let stored = systems.stored_roster(&configured);
        assert!(stored.is_empty(), "inner and outer are made of it");
        assert_eq!(systems.troubles[&(ResourceKind::Agent, "c".into())].says(), "spec.url: it is not there");
        // Fewer stored resources leave nothing behind.
        systems.unbuilt.clear();
        systems.made.truncate(1);
        assert_eq!(systems.stored_roster(&configured).len(), 1);
    }

    #[test]
    fn resources_of_the_config_do_not_say_how_an_agent_is_reached() {
        let spec = json!({ "kind": "command", "description": "d" });
        let (mut systems, configured) = prepared("orloj: {}\n", &[("a", spec)]);
        systems.stored_roster(&configured);
        assert_eq!(systems.resources()[0].spec.text(), r#"{"description":"d","kind":"command"}"#);
    }
}
