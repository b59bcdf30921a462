//! The card of an assistant, as the product writes it.

use model::ports::agent::Profile as Agent;
use serde_json::{Value, json};

use super::LangGraphProfile;

/// The card of the assistant `id`, whose endpoint is `base`/a2a/`id`.
pub fn card(profile: LangGraphProfile, agent: &Agent, id: &str, base: &str, takes_text: bool) -> Vec<u8> {
    let url = format!("{base}/a2a/{id}");
    let name = if agent.title.is_empty() { &*agent.name } else { &agent.title };
    let examples: Vec<&String> = agent.skills.iter().flat_map(|skill| &skill.examples).collect();
    let schema = if takes_text {
        json!({ "required": ["messages"], "properties": ["messages"], "supportsA2A": true })
    } else {
        json!({ "required": [], "properties": [], "supportsA2A": false })
    };
    let modes = ["application/json", "text/plain"];
    let mut card = json!({
        "name": name,
        "description": agent.description,
        "url": url,
        "version": agent.version,
        "capabilities": { "streaming": agent.streaming, "pushNotifications": false, "stateTransitionHistory": false },
        "defaultInputModes": modes,
        "defaultOutputModes": modes,
        "skills": [{
            "id": format!("{id}-main"),
            "name": format!("{name} Capabilities"),
            "description": agent.description,
            "tags": ["assistant", "langgraph"],
            "examples": examples,
            "inputModes": modes,
            "outputModes": modes,
            "metadata": { "inputSchema": schema },
        }],
    });
    match profile {
        LangGraphProfile::Documented => {
            card["protocolVersion"] = json!("0.3.0");
            card["preferredTransport"] = json!("JSONRPC");
        }
        LangGraphProfile::Current => {
            card["supportedInterfaces"] =
                json!([{ "url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }]);
        }
    }
    card.to_string().into_bytes()
}

/// The error for a request that names no assistant, or an unknown one.
pub fn refused(message: &str) -> Vec<u8> {
    let error: Value = json!({ "error": { "code": -32602, "message": message } });
    error.to_string().into_bytes()
}
