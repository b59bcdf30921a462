//! The agents to serve: the config's in its order, then those of `--agent`; with neither, the demo's. Then the
//! systems.
//!
//! A built agent is reused as long as its config is the same: a reload keeps its queue, and does not fetch a remote
//! card again.

use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use agents::AgentConfig;
use agents::scripted::ScriptedMode;
use anyhow::{anyhow, bail};
use model::Json;
use model::ports::agent::Agent;
use serde_json::{Value, json};
use systems::ExposedSystem;
use systems::resources::{Resource, ResourceKind};

use crate::aly_config::Aly;
use crate::config::{Collected, Config, nearest};
use crate::orloj_config;

/// How long `config check` tries to reach another machine.
const REACH: Duration = Duration::from_secs(2);

pub(crate) struct Roster {
    entries: Vec<Entry>,
    /// The number of the config's agents; the others are stored resources.
    own: usize,
    /// The root agent.
    pub(crate) default: Arc<str>,
    pub(crate) is_demo: bool,
}

struct Entry {
    name: Arc<str>,
    what: What,
    /// Fingerprint of the config; a change means a rebuild.
    print: String,
}

enum What {
    Demo(fn(&agents::BuiltinSettings) -> Arc<dyn Agent>, agents::BuiltinSettings),
    Configured(Box<AgentConfig>),
    System(Box<(systems_graph::System, systems_graph::SystemGraph)>),
    /// The store agent of Rialto's own shops. It cannot be part of a system, because its mounts check the
    /// permissions.
    Store,
}

/// Running agents.
#[derive(Default)]
pub(crate) struct Built {
    agents: Vec<(String, Arc<dyn Agent>)>,
    /// Where the store agent finds the shops.
    pub(crate) counter: shop::service::ShopHandle,
}

/// The changes between two rosters, by agent name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) added: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) removed: Vec<String>,
}

impl Roster {
    pub(crate) fn make(config: &Config, flags: &[String], scripted: Option<ScriptedMode>) -> anyhow::Result<Roster> {
        let is_demo = config.agents.is_none() && flags.is_empty();
        let mut wrong = Collected::default();
        let mut entries = Vec::new();
        if is_demo {
            let settings = agents::BuiltinSettings { scripted: scripted.unwrap_or_default() };
            entries.extend(agents::BUILTIN.iter().map(|builtin| Entry {
                name: builtin.name.into(),
                what: What::Demo(builtin.build, settings.clone()),
                print: format!("{settings:?}"),
            }));
        } else if scripted.is_some() {
            bail!(
                "the mode of the demo's scripted agent is set, but other agents are served; write mode: beside its kind: scripted"
            );
        }
        for (name, agent) in config.agents.iter().flat_map(|agents| &agents.0) {
            let print = config.written.get(name).map(print).unwrap_or_default();
            entries.extend(wrong.take(Entry::new(name, agent.clone(), print)));
        }
        wrong.finish()?;
        let mut flagged: Vec<Entry> = Vec::new();
        for text in flags {
            let (name, agent) = agents::from_flag(text).map_err(|error| anyhow!("--agent {error}"))?;
            if flagged.iter().any(|known| *known.name == *name) {
                bail!("--agent names {name:?} twice; give one another name");
            }
            flagged.push(Entry::new(&name, agent, text.clone())?);
        }
        for entry in flagged {
            match entries.iter_mut().find(|known| known.name == entry.name) {
                Some(known) => *known = entry,
                None => entries.push(entry),
            }
        }
        if entries.is_empty() {
            bail!("agents: there is none; write one, or leave agents out for the demo's");
        }
        add_systems(&mut entries, &config.systems)?;
        if config.aly.as_ref().is_some_and(Aly::has_shops) {
            if entries.iter().any(|known| *known.name == *shop::service::AGENT) {
                bail!(
                    "aly: another agent is named {0:?}, which is the store agent's name; rename it, or write agent: {0} if it is to be the store agent",
                    shop::service::AGENT
                );
            }
            entries.push(Entry { name: shop::service::AGENT.into(), what: What::Store, print: String::new() });
        }
        let Some(first) = entries.first() else {
            bail!("agents: there is none; write one, or leave agents out for the demo's");
        };
        let default = match &config.default {
            None => first.name.clone(),
            Some(name) => match entries.iter().find(|entry| *entry.name == **name) {
                Some(entry) => entry.name.clone(),
                None => {
                    let near = nearest(name, entries.iter().map(|entry| &*entry.name)).unwrap_or_default();
                    bail!("default: there is no agent {name:?}; did you mean {near:?}?");
                }
            },
        };
        let own = entries.len();
        Ok(Roster { entries, own, default, is_demo })
    }

    /// The names in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> + Clone {
        self.entries.iter().map(|entry| &entry.name)
    }

    /// The systems that Orloj's endpoints show, in order.
    pub(crate) fn shown_systems(&self) -> impl Iterator<Item = ExposedSystem> {
        self.entries.iter().filter_map(|entry| match &entry.what {
            What::System(system) => {
                orloj_config::shown(&entry.name, &system.0, system.1.nodes().map(|node| node.agent))
            }
            What::Demo(..) | What::Configured(_) | What::Store => None,
        })
    }

    /// The systems as agents.
    pub(crate) fn systems(&self) -> Vec<Arc<dyn Agent>> {
        let system = |entry: &Entry| match &entry.what {
            What::System(system) => Some(entry.system(system)),
            What::Demo(..) | What::Configured(_) | What::Store => None,
        };
        self.entries.iter().filter_map(system).collect()
    }

    /// Builds the agents, and reuses those of `before` whose config is the same.
    pub(crate) async fn build(&self, before: &Built) -> Result<(Built, Changes), Unbuilt> {
        let (mut built, mut changes) = (Vec::new(), Changes::default());
        for entry in &self.entries {
            let name = entry.name.to_string();
            let known = before.agents.iter().find(|(_, agent)| agent.profile().name == entry.name);
            let agent = match known {
                Some((print, agent)) if *print == entry.print => agent.clone(),
                Some(_) | None => {
                    let list = if known.is_some() { &mut changes.changed } else { &mut changes.added };
                    list.push(name);
                    entry.build(&before.counter).await.map_err(|error| Unbuilt { name: entry.name.clone(), error })?
                }
            };
            built.push((entry.print.clone(), agent));
        }
        let gone = |agent: &Arc<dyn Agent>| !self.names().any(|name| *name == agent.profile().name);
        let removed = before.agents.iter().filter(|(_, agent)| gone(agent));
        changes.removed = removed.map(|(_, agent)| agent.profile().name.to_string()).collect();
        Ok((Built { agents: built, counter: before.counter.clone() }, changes))
    }
}

/// An agent that could not be built.
#[derive(Debug)]
pub(crate) struct Unbuilt {
    pub(crate) name: Arc<str>,
    pub(crate) error: anyhow::Error,
}

impl std::fmt::Display for Unbuilt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.error)
    }
}
impl std::error::Error for Unbuilt {}

/// A stored resource in the form in which it is served.
pub(crate) enum Made {
    Agent(Box<AgentConfig>),
    System(Box<systems_graph::System>),
}

impl Roster {
    /// Adds stored resources to the config's agents, and returns an error with its path for each that cannot be
    /// served. Resources added before are removed.
    pub(crate) fn take_up(&mut self, made: Vec<(Arc<str>, Made, String)>) -> BTreeMap<Arc<str>, Vec<String>> {
        self.entries.truncate(self.own);
        let mut wrong: BTreeMap<Arc<str>, Vec<String>> = BTreeMap::new();
        let mut pending = Vec::new();
        for (name, made, print) in made {
            if self.entries.iter().any(|known| known.name == name) {
                let says = "metadata.name: the config has this name, and what is written there is served; rename one";
                wrong.insert(name, vec![says.to_owned()]);
                continue;
            }
            match made {
                Made::Agent(agent) => match agent.check() {
                    Ok(()) => {
                        let what = What::Configured(agent);
                        self.entries.push(Entry { name, what, print });
                    }
                    Err(error) => drop(wrong.insert(name, vec![in_spec(&error.to_string())])),
                },
                Made::System(system) => pending.push((name, system, print)),
            }
        }
        // Adds each system whose agents all exist, until no more can be added.
        loop {
            let before = pending.len();
            let mut left = Vec::new();
            for (name, system, print) in pending {
                let is_known = |agent: &str| self.entries.iter().any(|known| known.is_node(agent));
                match system.check(is_known) {
                    Ok(graph) => {
                        let what = What::System(Box::new((*system, graph)));
                        self.entries.push(Entry { name, what, print });
                    }
                    Err(_) => left.push((name, system, print)),
                }
            }
            pending = left;
            if pending.is_empty() || pending.len() == before {
                break;
            }
        }
        for (name, system, _) in &pending {
            let is_near = |agent: &str| {
                self.entries.iter().any(|known| known.is_node(agent))
                    || pending.iter().any(|(other, ..)| **other == *agent)
            };
            let says = match system.check(is_near) {
                Err(all) => all.iter().map(|one| format!("spec.{one}")).collect(),
                Ok(graph) => {
                    let parts = graph
                        .nodes()
                        .map(|node| node.agent)
                        .filter(|agent| pending.iter().any(|(other, ..)| **other == **agent));
                    let parts: std::collections::BTreeSet<&str> = parts.collect();
                    let parts = parts.into_iter().collect::<Vec<_>>().join(", ");
                    vec![format!(
                        "spec.graph: it is made of {parts}, which is not served or is made of {name} itself; break the ring"
                    )]
                }
            };
            wrong.insert(name.clone(), says);
        }
        wrong
    }

    /// The systems with this agent among their nodes.
    pub(crate) fn users_of(&self, agent: &str) -> Vec<&str> {
        let uses = |entry: &&Entry| match &entry.what {
            What::System(system) => system.1.nodes().any(|node| node.agent == agent),
            What::Demo(..) | What::Configured(_) | What::Store => false,
        };
        self.entries.iter().filter(uses).map(|entry| &*entry.name).collect()
    }

    /// The config's agents and systems as resources. Of agents only their cards: how to reach them is the
    /// operator's business.
    pub(crate) fn resources(&self) -> anyhow::Result<Vec<Resource>> {
        let mut all = Vec::with_capacity(self.own);
        for entry in &self.entries[..self.own] {
            let agent = |spec: Value| Resource::of_config(ResourceKind::Agent, &entry.name, Json::from_value(&spec));
            all.push(match &entry.what {
                What::Demo(..) | What::Store => agent(json!({ "kind": &*entry.name })),
                What::Configured(config) => {
                    let mut spec = json!({ "kind": config.kind });
                    for (name, text) in [("title", &config.common.title), ("description", &config.common.description)] {
                        if let Some(text) = text {
                            spec[name] = json!(text);
                        }
                    }
                    agent(spec)
                }
                What::System(system) => {
                    let mut bare = system.0.clone();
                    let (namespace, labels) = (bare.namespace().into(), std::mem::take(&mut bare.labels));
                    bare.namespace = None;
                    // Not through a JSON value, which would lose the order of the nodes.
                    let spec =
                        Json::parse(&serde_json::to_string(&bare)?).ok_or_else(|| anyhow!("a system has no text"))?;
                    Resource { namespace, labels, ..Resource::of_config(ResourceKind::AgentSystem, &entry.name, spec) }
                }
            });
        }
        Ok(all)
    }
}

/// An agent's error, with the path of the member to change.
pub(crate) fn in_spec(says: &str) -> String {
    let is_path =
        |path: &str| !path.is_empty() && path.chars().all(|c| c.is_ascii_alphanumeric() || "._[]-".contains(c));
    match says.split_once(": ") {
        Some((path, _)) if is_path(path) => format!("spec.{says}"),
        Some(_) | None => format!("spec: {says}"),
    }
}

impl Built {
    pub(crate) fn agents(&self) -> Vec<Arc<dyn Agent>> {
        self.agents.iter().map(|(_, agent)| agent.clone()).collect()
    }
}

impl Entry {
    fn new(name: &str, agent: AgentConfig, print: String) -> anyhow::Result<Entry> {
        agent.check().map_err(|error| anyhow!("agents: agent {name:?}: {error}"))?;
        Ok(Entry { name: name.into(), what: What::Configured(Box::new(agent)), print })
    }

    /// Whether an agent may be a node of a system.
    fn is_node(&self, agent: &str) -> bool {
        *self.name == *agent && !matches!(self.what, What::Store)
    }

    fn system(&self, (system, graph): &(systems_graph::System, systems_graph::SystemGraph)) -> Arc<dyn Agent> {
        Arc::new(systems::agent::SystemAgent::new(&self.name, system, graph.clone()))
    }

    async fn build(&self, counter: &shop::service::ShopHandle) -> anyhow::Result<Arc<dyn Agent>> {
        match &self.what {
            What::Store => Ok(Arc::new(shop::service::StoreAgent::guarded(counter.clone(), &self.name))),
            What::Demo(build, settings) => Ok(build(settings)),
            What::System(system) => Ok(self.system(system)),
            What::Configured(config) => {
                agents::build(&self.name, (**config).clone()).await.map_err(|error| anyhow!("agents: {error}"))
            }
        }
    }
}

/// Adds the systems after their agents.
fn add_systems(entries: &mut Vec<Entry>, systems: &systems_graph::Systems) -> anyhow::Result<()> {
    let agents: Vec<Arc<str>> = entries.iter().map(|entry| entry.name.clone()).collect();
    let is_system = |name: &str| systems.0.iter().any(|(known, _)| known == name);
    let mut made_of: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, system) in &systems.0 {
        if agents.iter().any(|agent| **agent == **name) {
            bail!("systems.{name}: an agent has this name, too; rename one");
        }
        let is_known = |agent: &str| is_system(agent) || agents.iter().any(|known| **known == *agent);
        let graph = system.check(is_known).map_err(|wrong| {
            let lines: Vec<String> = wrong.iter().map(|wrong| format!("systems.{name}.{wrong}")).collect();
            anyhow!("{}", lines.join("\n"))
        })?;
        made_of
            .insert(name, graph.nodes().map(|node| node.agent.to_owned()).filter(|agent| is_system(agent)).collect());
        let print = serde_json::to_string(system)?;
        let what = What::System(Box::new((system.clone(), graph)));
        entries.push(Entry { name: name.as_str().into(), what, print });
    }
    // Removes each system whose parts are all known to end; the rest form a loop.
    while let Some(fine) = made_of.iter().find(|(_, parts)| !parts.iter().any(|part| made_of.contains_key(&**part))) {
        let fine = *fine.0;
        made_of.remove(fine);
    }
    if !made_of.is_empty() {
        let names: Vec<&str> = made_of.keys().copied().collect();
        bail!("systems: {} are made of each other; break the ring", names.join(", "));
    }
    Ok(())
}

/// The fingerprint: the agent's config, and its secrets from files.
pub(crate) fn print(written: &Value) -> String {
    fn files(value: &Value, out: &mut String) {
        match value {
            Value::String(text) => {
                if let Some(path) = text.strip_prefix("file:")
                    && let Ok(secret) = std::fs::read_to_string(path)
                {
                    // Stored for as long as the agent stores the secret itself.
                    out.push_str(&secret);
                }
            }
            Value::Array(all) => all.iter().for_each(|one| files(one, out)),
            Value::Object(all) => all.values().for_each(|one| files(one, out)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut text = written.to_string();
    files(written, &mut text);
    text
}

/// Warnings about agents on other machines that cannot be reached now.
pub(crate) fn unreachable(written: &BTreeMap<String, Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (name, agent) in written {
        for (key, value) in agent.as_object().into_iter().flatten().filter(|(key, _)| key.ends_with("url")) {
            if let Some(url) = value.as_str()
                && let Err(trouble) = reach(url)
            {
                warnings.push(format!("agent {name:?}: {key}: {url} cannot be reached now: {trouble}"));
            }
        }
    }
    warnings
}

fn reach(url: &str) -> Result<(), String> {
    let url = url::Url::parse(url).map_err(|error| error.to_string())?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = url.port_or_known_default().unwrap_or(443);
    let mut trouble = "it has no address".to_owned();
    for address in (host, port).to_socket_addrs().map_err(|error| error.to_string())? {
        match TcpStream::connect_timeout(&address, REACH) {
            Ok(_) => return Ok(()),
            Err(error) => trouble = error.to_string(),
        }
    }
    Err(trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roster(yaml: &str, flags: &[&str]) -> anyhow::Result<Roster> {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Roster::make(&Config::parse(yaml)?, &flags, None)
    }

    fn served(yaml: &str, flags: &[&str]) -> (Vec<String>, String) {
        let roster = roster(yaml, flags).unwrap();
        (roster.names().map(ToString::to_string).collect(), roster.default.to_string())
    }

    fn refused(yaml: &str, flags: &[&str]) -> String {
        match roster(yaml, flags) {
            Ok(_) => panic!("{yaml} is taken"),
            Err(error) => format!("{error:#}"),
        }
    }

    const TWO: &str = "agents:\n  upper: { kind: command, command: tr a-z A-Z }\n  again: { kind: echo }\n";

    #[test]
    fn the_store_agent_comes_last_and_is_no_part_of_a_system() {
        let (names, default) = served("agents: { echo: { kind: echo } }\naly: {}", &[]);
        assert_eq!((names, &*default), (vec!["echo".to_owned(), "store".to_owned()], "echo"));
        let own = served("agents: { store: { kind: echo } }\naly: { agent: store }", &[]);
        assert_eq!(own.0, ["store"]);
        let taken = roster("agents: { store: { kind: echo } }\naly: {}", &[]).err().unwrap().to_string();
        assert!(taken.contains("agent: store"), "{taken}");
        let node = "agents: { echo: { kind: echo } }\naly: {}\nsystems: { s: { graph: { a: { agent: store } } } }";
        assert!(roster(node, &[]).err().unwrap().to_string().contains("store"));
    }

    #[test]
    fn without_a_word_about_agents_the_demo_is_served() {
        let (names, default) = served("", &[]);
        assert_eq!((names[..2].join(" ").as_str(), default.as_str()), ("echo scripted", "echo"));
        assert_eq!(served("default: scripted\n", &[]).1, "scripted");
        assert!(roster("", &[]).unwrap().is_demo);
    }

    #[test]
    fn configured_agents_stand_in_the_place_of_the_demos_in_the_order_of_the_file() {
        assert_eq!(served(TWO, &[]), (vec!["upper".to_owned(), "again".to_owned()], "upper".to_owned()));
        assert_eq!(served(&format!("default: again\n{TWO}"), &[]).1, "again");
        assert_eq!(served("agents: { only: { kind: scripted } }\n", &[]).1, "only");
        assert!(refused("agents:\n", &[]).contains("leave agents out for the demo's"));
        assert!(refused("agents: {}\n", &[]).contains("leave agents out for the demo's"));
    }

    #[test]
    fn flags_add_agents_and_win_over_the_file() {
        assert_eq!(served("", &["low=command:tr A-Z a-z"]), (vec!["low".to_owned()], "low".to_owned()));
        let (names, default) = served(TWO, &["low=command:tr A-Z a-z", "again=command:cat"]);
        assert_eq!((names.join(" ").as_str(), default.as_str()), ("upper again low", "upper"));
        let both = roster(TWO, &["again=command:cat"]).unwrap();
        assert!(matches!(&both.entries[1].what, What::Configured(agent) if agent.kind == "command"));
        let (names, default) = served("", &["old=https://host.example/a2a"]);
        assert_eq!((names.join(" ").as_str(), default.as_str()), ("old", "old"), "a translator");
        assert!(refused("", &["a=command:cat", "a=command:cat"]).contains("twice"));
        assert!(refused("", &["a"]).contains("--agent \"a\" is no agent; write NAME=https://host"));
        assert!(refused("", &["a=command:no-such-program-here x"]).contains("there is no program"));
    }

    #[test]
    fn a_default_that_is_not_served_is_refused_with_the_nearest_name() {
        let error = refused(&format!("default: uper\n{TWO}"), &[]);
        assert!(error.contains(r#"default: there is no agent "uper"; did you mean "upper"?"#), "{error}");
        assert!(refused(&format!("default: echo\n{TWO}"), &[]).contains("there is no agent \"echo\""));
    }

    #[test]
    fn a_mode_for_the_demo_is_refused_where_there_is_none() {
        let error = Roster::make(&Config::parse(TWO).unwrap(), &[], Some(ScriptedMode::Ask)).err().unwrap().to_string();
        assert!(error.contains("write mode: beside its kind: scripted"), "{error}");
    }

    #[tokio::test]
    async fn an_agent_that_is_written_the_same_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "one").unwrap();
        let secret = |text: &str| std::fs::write(&file, text).unwrap();
        let yaml = format!(
            "agents:\n  a: {{ kind: command, command: cat, secrets: {{ S: 'file:{}' }} }}\n  b: {{ kind: echo }}\n",
            file.display()
        );
        let (first, changes) = roster(&yaml, &[]).unwrap().build(&Built::default()).await.unwrap();
        assert_eq!(changes.added, ["a", "b"]);
        let (second, changes) = roster(&yaml, &[]).unwrap().build(&first).await.unwrap();
        assert_eq!(changes, Changes::default());
        for (old, new) in first.agents().iter().zip(second.agents()) {
            assert!(Arc::ptr_eq(old, &new));
        }
        secret("two");
        let (third, changes) = roster(&yaml, &[]).unwrap().build(&second).await.unwrap();
        assert_eq!(changes.changed, ["a"], "its secret is another");
        let (_, changes) = roster("agents: { c: { kind: echo } }\n", &[]).unwrap().build(&third).await.unwrap();
        assert_eq!((changes.added.join(" "), changes.removed.join(" ")), ("c".to_owned(), "a b".to_owned()));
    }

    const SYSTEM: &str = "systems:\n  both: { graph: { upper: { next: again } } }\n  more: { agents: [both, again] }\n";

    #[test]
    fn systems_are_served_after_the_agents_they_are_made_of() {
        let (names, default) = served(&format!("{TWO}{SYSTEM}"), &[]);
        assert_eq!((names.join(" ").as_str(), default.as_str()), ("upper again both more", "upper"));
        assert_eq!(served(&format!("default: both\n{TWO}{SYSTEM}"), &[]).1, "both");
        // Systems can use the demo's agents too.
        let (names, _) = served("systems: { twice: { graph: { one: { agent: echo, next: scripted } } } }\n", &[]);
        assert_eq!(names.last().map(String::as_str), Some("twice"));
    }

    #[test]
    fn a_system_that_cannot_run_is_refused_with_the_path() {
        for (systems, says) in [
            ("s: { graph: { upper: { next: uper } } }", "systems.s.graph.upper.next: there is no agent \"uper\""),
            ("s: { graph: { again: { next: again } } }", "systems.s.graph.again: the loop again → again has no bound"),
            ("s: { entry: x, agents: [upper] }", "systems.s.entry: there is no node \"x\""),
            ("s:", "systems.s.graph: there is no node"),
            ("again: { agents: [upper] }", "systems.again: an agent has this name"),
            ("s: { agents: [t] }, t: { agents: [upper, s] }", "systems: s, t are made of each other; break the ring"),
            ("s: { agents: [s] }", "systems: s are made of each other"),
        ] {
            let error = refused(&format!("{TWO}systems: {{ {systems} }}\n"), &[]);
            assert!(error.contains(says), "{systems}: {error}");
        }
        let error = format!("{:#}", Config::parse("systems: { s: { grph: {} } }\n").unwrap_err());
        assert!(error.contains("did you mean `graph`?"), "{error}");
    }

    #[tokio::test]
    async fn a_system_is_built_anew_when_it_is_written_otherwise() {
        let yaml = format!("{TWO}{SYSTEM}");
        let (first, changes) = roster(&yaml, &[]).unwrap().build(&Built::default()).await.unwrap();
        assert_eq!(changes.added, ["upper", "again", "both", "more"]);
        let (second, changes) = roster(&yaml, &[]).unwrap().build(&first).await.unwrap();
        assert_eq!(changes, Changes::default());
        let other = yaml.replace("next: again", "next: again, retries: 2");
        let (third, changes) = roster(&other, &[]).unwrap().build(&second).await.unwrap();
        assert_eq!(changes.changed, ["both"]);
        let (_, changes) = roster(TWO, &[]).unwrap().build(&third).await.unwrap();
        assert_eq!(changes.removed, ["both", "more"]);
    }

    #[test]
    fn a_machine_that_is_down_is_worth_a_warning() {
        let config = Config::parse(&format!("{TWO}  # nothing\n")).unwrap();
        assert!(unreachable(&config.written).is_empty());
        let written = BTreeMap::from([("old".to_owned(), serde_json::json!({ "url": "http://127.0.0.1:1/x" }))]);
        let warnings = unreachable(&written);
        assert!(
            warnings[0].contains(r#"agent "old": url: http://127.0.0.1:1/x cannot be reached now"#),
            "{warnings:?}"
        );
    }
}
