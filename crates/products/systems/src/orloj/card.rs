//! A system's card, and the registry of cards.

use serde_json::{Value, json};

use super::{NAMESPACE, SystemAddress};

/// The content of a system's card.
#[derive(Clone, Debug)]
pub struct SystemCard<'a> {
    pub system: SystemAddress<'a>,
    pub description: &'a str,
    /// The URL before `/v1`.
    pub base: &'a str,
    pub protocol_version: &'a str,
    pub streaming: bool,
    pub push: bool,
    /// Whether a request can ask for the history.
    pub history: bool,
    /// It can be called without a credential.
    pub public: bool,
    pub skills: Vec<SystemSkill<'a>>,
}

/// A skill of one of the system's agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemSkill<'a> {
    pub name: &'a str,
    pub description: &'a str,
}

/// An agent on another server that can be a node of a system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteAgent<'a> {
    pub name: &'a str,
    pub url: &'a str,
    pub protocol_version: &'a str,
    /// From its card; `None` if its card was not read.
    pub description: Option<&'a str>,
}

/// Media types, by default and of every skill.
const INPUT_MODES: [&str; 1] = ["text/plain"];
const OUTPUT_MODES: [&str; 2] = ["text/plain", "application/json"];

/// The URL of a system's endpoint.
pub fn url(base: &str, system: &SystemAddress<'_>) -> String {
    let SystemAddress { namespace, name } = system;
    let query = if *namespace == NAMESPACE { String::new() } else { format!("?namespace={namespace}") };
    format!("{base}/v1/agent-systems/{name}/a2a{query}")
}

/// The card of a system.
pub fn card(facts: &SystemCard<'_>) -> Value {
    let url = url(facts.base, &facts.system);
    let skills = facts.skills.iter().map(|SystemSkill { name, description }| {
        let description = if description.is_empty() { format!("Orloj tool {name}") } else { (*description).to_owned() };
        json!({ "id": name, "name": name, "description": description, "tags": ["tool"],
                "inputModes": INPUT_MODES, "outputModes": OUTPUT_MODES })
    });
    let flags =
        [("streaming", facts.streaming), ("pushNotifications", facts.push), ("stateTransitionHistory", facts.history)];
    // A flag that is not set is left out.
    let capabilities: serde_json::Map<String, Value> =
        flags.into_iter().filter(|(_, on)| *on).map(|(name, on)| (name.to_owned(), on.into())).collect();
    let mut card = json!({
        "name": facts.system.name,
        "description": facts.description,
        "url": url,
        "version": "1.0.0",
        "protocolVersion": facts.protocol_version,
        "supportedInterfaces": [
            { "url": url, "protocolBinding": "JSONRPC", "protocolVersion": facts.protocol_version },
        ],
        "capabilities": capabilities,
        "defaultInputModes": INPUT_MODES,
        "defaultOutputModes": OUTPUT_MODES,
        "skills": skills.collect::<Vec<_>>(),
    });
    if !facts.public {
        card["authentication"] = json!({ "schemes": ["bearer"] });
        card["securitySchemes"] = json!({ "bearerAuth": { "httpAuthSecurityScheme": { "scheme": "bearer" } } });
        card["securityRequirements"] = json!([{ "schemes": { "bearerAuth": { "list": [] } } }]);
    }
    card
}

/// The registry: these cards of systems, and the agents on other servers.
pub fn registry(systems: Vec<Value>, remotes: &[RemoteAgent<'_>]) -> Value {
    let remotes = remotes.iter().map(|remote| {
        let RemoteAgent { name, url, protocol_version, description } = remote;
        let mut shown = json!({
            "name": name,
            "url": url,
            "protocolVersion": protocol_version,
            "cacheStatus": if description.is_some() { "ok" } else { "error" },
        });
        match description {
            Some(description) => shown["card"] = json!({ "name": name, "description": description, "url": url }),
            None => shown["error"] = json!("nothing is known of it yet"),
        }
        shown
    });
    json!({ "localAgents": systems, "remoteAgents": remotes.collect::<Vec<_>>() })
}
