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
use gateway::product::config::fingerprint;
use gateway::product::{Prepared, RosterEntry};
use model::ports::agent::Agent;
use serde_json::{Value, json};

use crate::config::{Collected, Config, nearest};

/// How long `config check` tries to reach another machine.
const REACH: Duration = Duration::from_secs(2);

pub(crate) struct Roster {
    /// The agents of the config, flags or demo, then those that products add.
    entries: Vec<RosterEntry>,
    /// The number of entries without the stored agents of products.
    configured: usize,
    /// The root agent.
    pub(crate) default: Arc<str>,
    pub(crate) is_demo: bool,
}

/// Running agents, with their fingerprints.
#[derive(Default)]
pub(crate) struct BuiltAgents {
    agents: Vec<(String, Arc<dyn Agent>)>,
}

/// The changes between two rosters, by agent name.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) added: Vec<String>,
    pub(crate) changed: Vec<String>,
    pub(crate) removed: Vec<String>,
}

impl Roster {
    /// The agents of the config, flags or demo.
    pub(crate) fn make(config: &Config, flags: &[String], scripted: Option<ScriptedMode>) -> anyhow::Result<Roster> {
        let is_demo = config.agents.is_none() && flags.is_empty();
        let mut wrong = Collected::default();
        let mut entries = Vec::new();
        if is_demo {
            let settings = agents::BuiltinSettings { scripted: scripted.unwrap_or_default() };
            entries.extend(agents::BUILTIN.iter().map(|builtin| demo_entry(builtin.name, builtin.build, &settings)));
        } else if scripted.is_some() {
            bail!(
                "the mode of the demo's scripted agent is set, but other agents are served; write mode: beside its kind: scripted"
            );
        }
        for (name, agent) in config.agents.iter().flat_map(|agents| &agents.0) {
            let print = config.written.get(name).map(fingerprint).unwrap_or_default();
            entries.extend(wrong.take(entry(name, agent.clone(), print)));
        }
        wrong.finish()?;
        let mut flagged: Vec<RosterEntry> = Vec::new();
        for text in flags {
            let (name, agent) = agents::from_flag(text).map_err(|error| anyhow!("--agent {error}"))?;
            if flagged.iter().any(|known| *known.name == *name) {
                bail!("--agent names {name:?} twice; give one another name");
            }
            flagged.push(entry(&name, agent, text.clone())?);
        }
        for entry in flagged {
            match entries.iter_mut().find(|known| known.name == entry.name) {
                Some(known) => *known = entry,
                None => entries.push(entry),
            }
        }
        let Some(first) = entries.first() else {
            bail!("agents: there is none; write one, or leave agents out for the demo's");
        };
        let default = first.name.clone();
        Ok(Roster { configured: entries.len(), entries, default, is_demo })
    }

    /// Adds the agents of products, each after those before it, and finds the root agent.
    pub(crate) fn add_products(
        &mut self,
        products: &mut [Box<dyn Prepared>],
        default: Option<&str>,
    ) -> anyhow::Result<()> {
        for product in products {
            let added = product.roster(&self.entries)?;
            self.entries.extend(added);
        }
        self.configured = self.entries.len();
        if let Some(name) = default {
            match self.entries.iter().find(|entry| *entry.name == *name) {
                Some(entry) => self.default = entry.name.clone(),
                None => {
                    let near = nearest(name, self.names().map(|known| &**known)).unwrap_or_default();
                    bail!("default: there is no agent {name:?}; did you mean {near:?}?");
                }
            }
        }
        Ok(())
    }

    /// The names in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> + Clone {
        self.entries.iter().map(|entry| &entry.name)
    }

    /// Adds the stored agents of products and builds everything. A stored agent that cannot be built is left out.
    pub(crate) async fn build_all(
        &mut self,
        products: &mut [Box<dyn Prepared>],
        before: &BuiltAgents,
    ) -> anyhow::Result<(BuiltAgents, Changes)> {
        loop {
            self.entries.truncate(self.configured);
            let mut stored = Vec::new();
            for product in products.iter_mut() {
                stored.extend(product.stored_roster(&self.entries));
            }
            self.entries.extend(stored);
            match self.build(before).await {
                Ok(built) => return Ok(built),
                Err(failed) => {
                    let says = failed.to_string();
                    if !products.iter_mut().any(|product| product.build_failed(&failed.name, &says)) {
                        return Err(failed.into());
                    }
                }
            }
        }
    }

    /// Builds the agents, and reuses those of `before` whose config is the same.
    async fn build(&self, before: &BuiltAgents) -> Result<(BuiltAgents, Changes), BuildError> {
        let (mut built, mut changes) = (Vec::new(), Changes::default());
        for entry in &self.entries {
            let name = entry.name.to_string();
            let known = before.agents.iter().find(|(_, agent)| agent.profile().name == entry.name);
            let agent = match known {
                Some((print, agent)) if *print == entry.fingerprint => agent.clone(),
                Some(_) | None => {
                    let list = if known.is_some() { &mut changes.changed } else { &mut changes.added };
                    list.push(name);
                    (entry.build)().await.map_err(|error| BuildError { name: entry.name.clone(), error })?
                }
            };
            built.push((entry.fingerprint.clone(), agent));
        }
        let gone = |agent: &Arc<dyn Agent>| !self.names().any(|name| *name == agent.profile().name);
        let removed = before.agents.iter().filter(|(_, agent)| gone(agent));
        changes.removed = removed.map(|(_, agent)| agent.profile().name.to_string()).collect();
        Ok((BuiltAgents { agents: built }, changes))
    }
}

/// An agent that could not be built.
#[derive(Debug)]
struct BuildError {
    name: Arc<str>,
    error: anyhow::Error,
}

impl std::fmt::Display for BuildError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#}", self.error)
    }
}
impl std::error::Error for BuildError {}

impl BuiltAgents {
    pub(crate) fn agents(&self) -> Vec<Arc<dyn Agent>> {
        self.agents.iter().map(|(_, agent)| agent.clone()).collect()
    }
}

fn demo_entry(
    name: &'static str,
    build: fn(&agents::BuiltinSettings) -> Arc<dyn Agent>,
    settings: &agents::BuiltinSettings,
) -> RosterEntry {
    let of = settings.clone();
    RosterEntry {
        name: name.into(),
        fingerprint: format!("{settings:?}"),
        can_be_node: true,
        spec: json!({ "kind": name }),
        build: Arc::new(move || Box::pin(std::future::ready(Ok(build(&of))))),
    }
}

fn entry(name: &str, agent: AgentConfig, fingerprint: String) -> anyhow::Result<RosterEntry> {
    agent.check().map_err(|error| anyhow!("agents: agent {name:?}: {error}"))?;
    let mut spec = json!({ "kind": agent.kind });
    for (member, text) in [("title", &agent.common.title), ("description", &agent.common.description)] {
        if let Some(text) = text {
            spec[member] = json!(text);
        }
    }
    let (of, config): (Arc<str>, _) = (name.into(), Arc::new(agent));
    Ok(RosterEntry {
        name: of.clone(),
        fingerprint,
        can_be_node: true,
        spec,
        build: Arc::new(move || {
            let (name, config) = (of.clone(), config.clone());
            Box::pin(async move {
                agents::build(&name, (*config).clone()).await.map_err(|error| anyhow!("agents: {error}"))
            })
        }),
    })
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
    use crate::command::Serve;
    use crate::plan::Plan;

    fn roster(yaml: &str, flags: &[&str]) -> anyhow::Result<Roster> {
        let agents = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut options = Serve { agents, ..Serve::default() };
        // The file is not read: the config is loaded already.
        options.whereabouts.config = Some("rialto.yaml".into());
        Ok(Plan::of(&options, Config::parse(yaml)?, None)?.roster)
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
    #[cfg(all(feature = "systems", feature = "shop"))]
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
        assert_eq!(both.entries[1].spec["kind"], "command");
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
        let (first, changes) = roster(&yaml, &[]).unwrap().build(&BuiltAgents::default()).await.unwrap();
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

    #[cfg(feature = "systems")]
    const SYSTEM: &str = "systems:\n  both: { graph: { upper: { next: again } } }\n  more: { agents: [both, again] }\n";

    #[test]
    #[cfg(feature = "systems")]
    fn systems_are_served_after_the_agents_they_are_made_of() {
        let (names, default) = served(&format!("{TWO}{SYSTEM}"), &[]);
        assert_eq!((names.join(" ").as_str(), default.as_str()), ("upper again both more", "upper"));
        assert_eq!(served(&format!("default: both\n{TWO}{SYSTEM}"), &[]).1, "both");
        // Systems can use the demo's agents too.
        let (names, _) = served("systems: { twice: { graph: { one: { agent: echo, next: scripted } } } }\n", &[]);
        assert_eq!(names.last().map(String::as_str), Some("twice"));
    }

    #[test]
    #[cfg(feature = "systems")]
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
    #[cfg(feature = "systems")]
    async fn a_system_is_built_anew_when_it_is_written_otherwise() {
        let yaml = format!("{TWO}{SYSTEM}");
        let (first, changes) = roster(&yaml, &[]).unwrap().build(&BuiltAgents::default()).await.unwrap();
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
