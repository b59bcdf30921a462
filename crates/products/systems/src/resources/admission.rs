//! Systems and agents that callers create while the server runs: how they are read, and which are permitted.
//!
//! They are parsed and checked by the same code as the config. The difference is their author: a remote caller. So
//! an agent's kind must be on the config's list, and each of its fields is compared with the powers that its kind
//! declares ([`agents::powers`]): programs, secrets and private addresses need a permission of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use agents::AgentConfig;
use agents::powers::{Power, is_left_out};
use gateway::product::config::{duration, fingerprint, with_nearest};
use model::reach::{Reach, name_reach, reach};
use serde_json::{Map, Value};
use systems_graph::System;

use super::{DESCRIPTION, Resource, ResourceKind};
use crate::config::Resources as Rules;

/// The kind whose permission allows programs, also for other kinds that start one.
const PROGRAMS: &str = "command";
/// Members of Orloj's `Agent` that are expressed differently here.
const ELSEWHERE: &[(&str, &str)] = &[
    ("tools", "a tool is an agent of kind mcp, http or command in the config, and a node of the system's graph"),
    ("allowed_tools", "a tool is an agent of the config, and a node of the system's graph"),
    ("roles", "what callers may do is policy in the config"),
    ("memory", "what an agent remembers is its own"),
    ("execution", "a run is the system's graph"),
];
/// The members that an agent with a `model_ref` may have besides.
const BESIDE: &[&str] = &["title", "description", "version", "timeout_ms", "concurrency", "queue", "attempts"];

/// Why a stored resource is not served.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    NotAllowed(String),
    Wrong(Vec<String>),
}

impl Trouble {
    pub(crate) fn says(&self) -> String {
        match self {
            Trouble::NotAllowed(says) => says.clone(),
            Trouble::Wrong(all) => all.join("; "),
        }
    }
}

/// The config of the server's agents, by name.
pub(crate) type AgentConfigs = BTreeMap<String, Value>;

pub(crate) type Troubles = BTreeMap<(ResourceKind, Arc<str>), Trouble>;

fn wrong(says: impl Into<String>) -> Trouble {
    Trouble::Wrong(vec![says.into()])
}

/// The system of a document.
pub(crate) fn system(resource: &Resource) -> Result<(System, String), Trouble> {
    let mut reader = serde_json::Deserializer::from_str(resource.spec.text());
    let read: Result<System, _> = serde_path_to_error::deserialize(&mut reader);
    let mut system = read.map_err(|error| {
        let path = error.path().to_string();
        let at = if path == "." { "spec".to_owned() } else { format!("spec.{path}") };
        wrong(with_nearest(&format!("{at}: {}", error.inner())).replace('\n', "; "))
    })?;
    for (name, said) in [("namespace", system.namespace.is_some()), ("labels", !system.labels.is_empty())] {
        if said {
            return Err(wrong(format!("spec.{name}: belongs to metadata; write it there")));
        }
    }
    system.namespace = Some(resource.namespace.to_string());
    system.labels.clone_from(&resource.labels);
    if system.description.is_none() {
        system.description = resource.annotations.get(DESCRIPTION).cloned();
    }
    let print = serde_json::to_string(&system).map_err(|error| wrong(format!("spec: {error}")))?;
    Ok((system, print))
}

/// The agent of a document, if it is permitted.
pub(crate) fn agent(
    resource: &Resource,
    written: &AgentConfigs,
    rules: &Rules,
) -> Result<(AgentConfig, String), Trouble> {
    let Value::Object(mut members) = resource.spec.to_value() else { return Err(wrong("spec: must be an object")) };
    for (name, instead) in ELSEWHERE {
        if members.get(*name).is_some_and(|value| !is_nothing(value)) {
            return Err(wrong(format!("spec.{name}: is not an agent's here; leave it out: {instead}")));
        }
        members.remove(*name);
    }
    if members.contains_key("price") {
        return Err(wrong("spec.price: prices are the config's; leave it out"));
    }
    if let Some(limits) = members.remove("limits") {
        limit(&limits, &mut members)?;
    }
    let members = match members.remove("model_ref") {
        Some(model) => with_model(&model, members, written)?,
        None => {
            if members.contains_key("prompt") {
                return Err(wrong("spec.prompt: belongs to a model_ref; with kind: openai write system"));
            }
            allowed(&members, rules)?;
            members
        }
    };
    let config = Value::Object(members.clone());
    let read = AgentConfig::read(members);
    let read = read.map_err(|error| wrong(in_spec(&with_nearest(&error.to_string()).replace('\n', "; "))))?;
    Ok((read, fingerprint(&config)))
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

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Orloj's limits: its steps have no meaning here, its time limit does.
fn limit(limits: &Value, members: &mut Map<String, Value>) -> Result<(), Trouble> {
    let Some(timeout) = limits.get("timeout") else { return Ok(()) };
    let read = timeout.as_str().and_then(|text| duration(text).ok());
    let read = read.ok_or_else(|| wrong("spec.limits.timeout: write a number and a unit, such as 45s or 30m"))?;
    members.insert("timeout_ms".into(), u64::try_from(read.as_millis()).unwrap_or(u64::MAX).into());
    Ok(())
}

/// The config's agent that is the model, with another prompt.
fn with_model(model: &Value, own: Map<String, Value>, agents: &AgentConfigs) -> Result<Map<String, Value>, Trouble> {
    let is_model = |agent: &&Value| agent["kind"] == "openai";
    let found = model.as_str().and_then(|name| agents.get(name)).filter(is_model);
    let Some(Value::Object(found)) = found else {
        let known: Vec<&str> =
            agents.iter().filter(|(_, agent)| is_model(agent)).map(|(name, _)| name.as_str()).collect();
        let known = if known.is_empty() { "there is none".to_owned() } else { known.join(", ") };
        let says = format!("spec.model_ref: {model} is no agent of kind openai in the config; those are: {known}");
        return Err(wrong(says));
    };
    let mut members = found.clone();
    for name in ["title", "description", "skills", "price"] {
        members.remove(name);
    }
    for (name, value) in own {
        match name.as_str() {
            "prompt" => drop(members.insert("system".into(), value)),
            "kind" if value == "openai" => {}
            name if BESIDE.contains(&name) => drop(members.insert(name.to_owned(), value)),
            other => {
                let says = format!(
                    "spec.{other}: with a model_ref, write prompt, limits, {} and nothing else: the rest is the model's",
                    BESIDE.join(", ")
                );
                return Err(wrong(says));
            }
        }
    }
    Ok(members)
}

/// Whether the config permits such an agent: by its kind, and by the powers of each field that is set.
fn allowed(members: &Map<String, Value>, rules: &Rules) -> Result<(), Trouble> {
    // The agent's parser refuses an unknown kind.
    let name = members.get("kind").and_then(Value::as_str);
    let Some(kind) = agents::KINDS.iter().find(|known| Some(known.name) == name) else { return Ok(()) };
    let is_allowed = match &rules.allow_kinds {
        Some(_) => rules.allows(kind.name),
        None => kind.is_harmless(),
    };
    if !is_allowed {
        return Err(Trouble::NotAllowed(format!(
            "spec.kind: agents of kind {0} may not be made here; write it into the server's config, or allow it there \
             with orloj: {{ resources: {{ allow_kinds: [{0}] }} }}",
            kind.name
        )));
    }
    for (field, value) in members.iter().filter(|(_, value)| !is_left_out(value)) {
        for power in kind.powers_of(field) {
            permitted(*power, &format!("spec.{field}"), value, rules).map_err(Trouble::NotAllowed)?;
        }
    }
    Ok(())
}

/// Whether the rules permit one power of a field with this value; if not, the error says what to allow.
fn permitted(power: Power, path: &str, value: &Value, rules: &Rules) -> Result<(), String> {
    match power {
        Power::RunPrograms if !rules.allows(PROGRAMS) => Err(format!(
            "{path}: programs may not be started from here; allow them with command among orloj.resources.allow_kinds \
             in the server's config, or write the agent into that config"
        )),
        Power::ReadSecrets if !rules.allow_secrets => Err(format!(
            "{}: secrets of the server may not be named here; allow it with orloj.resources.allow_secrets in its config",
            first_text(path, value).0
        )),
        Power::ReachAddress if !rules.allow_private_addresses => {
            let (path, text) = first_text(path, value);
            if text.is_some_and(is_public) {
                return Ok(());
            }
            Err(format!(
                "{path}: addresses of the server's machine and of private networks may not be named here; write a public \
                 one, such as https://host/path, or allow it with orloj.resources.allow_private_addresses in its config"
            ))
        }
        Power::ReachAnyAddress if !rules.allow_private_addresses => Err(format!(
            "{path}: another server may not choose the addresses that this one reaches; leave it out, or allow it with \
             orloj.resources.allow_private_addresses in the server's config"
        )),
        Power::RunPrograms | Power::ReadSecrets | Power::ReachAddress | Power::ReachAnyAddress => Ok(()),
    }
}

/// The first text in a value, with its path; else the path of the value itself.
fn first_text<'v>(path: &str, value: &'v Value) -> (String, Option<&'v str>) {
    let within = match value {
        Value::String(text) => Some((path.to_owned(), Some(text.as_str()))),
        Value::Array(all) => {
            let mut texts = all.iter().enumerate().map(|(i, one)| first_text(&format!("{path}[{i}]"), one));
            texts.find(|(_, text)| text.is_some())
        }
        Value::Object(all) => {
            let mut texts = all.iter().map(|(name, one)| first_text(&format!("{path}.{name}"), one));
            texts.find(|(_, text)| text.is_some())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    };
    within.unwrap_or_else(|| (path.to_owned(), None))
}

/// Whether a text is a public address, as far as the text shows. A text that is no HTTP URL is not: its meaning
/// depends on the kind.
fn is_public(text: &str) -> bool {
    let Ok(url) = url::Url::parse(text) else { return false };
    let reached = match url.host() {
        Some(url::Host::Domain(name)) => name_reach(name),
        Some(url::Host::Ipv4(v4)) => reach(v4.into()),
        Some(url::Host::Ipv6(v6)) => reach(v6.into()),
        None => Reach::Private,
    };
    matches!(url.scheme(), "http" | "https") && reached == Reach::Public
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
