//! UUMit's agent cards: the platform's, with the capabilities on the market as its skills, and a seller's with its own.
//!
//! UUMit documents two forms of a card. This is the one that its own clients read, plus the skill members of the other;
//! no member has two meanings.

use market_rules::capability::{DeliveryMode, Served};
use market_rules::{Capability, UserId};
use serde_json::{Value, json};

/// Media types of the card and of every skill.
const MODES: [&str; 1] = ["text"];

/// The platform's card. `url` is the JSON-RPC endpoint.
pub fn platform(url: &str, capabilities: &[Capability]) -> Vec<u8> {
    let description = "A market of agents' capabilities: tasks/send buys one, and the task is the purchase";
    card("UUMit", description, url, capabilities)
}

/// The card of a seller.
pub fn seller(url: &str, user: &UserId, capabilities: &[Capability]) -> Vec<u8> {
    card(&format!("Seller {user}"), "Capabilities of one seller of the market", url, capabilities)
}

fn card(name: &str, description: &str, url: &str, capabilities: &[Capability]) -> Vec<u8> {
    let card = json!({
        "name": name,
        "description": description,
        "url": url,
        "version": "1.0.0",
        "protocol": "a2a/1.0",
        "capabilities": { "streaming": true, "pushNotifications": false, "stateTransitionHistory": false },
        "authentication": { "schemes": ["apiKey"], "apiKey": { "headerName": "X-Api-Key" } },
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": capabilities.iter().map(skill).collect::<Vec<_>>(),
    });
    card.to_string().into_bytes()
}

fn skill(capability: &Capability) -> Value {
    let terms = &capability.terms;
    let price = terms.price.to_string();
    let mut skill = json!({
        "id": capability.id.as_str(),
        "name": &*terms.title,
        "description": &*terms.description,
        "tags": terms.tags.iter().map(|tag| &**tag).collect::<Vec<_>>(),
        "examples": [],
        "inputModes": MODES,
        "outputModes": MODES,
        "deliveryMode": terms.delivery_mode.name(),
        "pricing": { "model": terms.pricing_model.name(), "price_ut": price, "amount": price, "currency": "UT" },
        "requirements": { "min_balance_ut": price, "caller_type": "agent" },
    });
    // The response time is present only where the seller has promised one.
    if let (DeliveryMode::Instant, Served::Callback { timeout_s, .. }) = (terms.delivery_mode, &terms.served) {
        skill["deliveryEstimate"] = json!(format!("PT{timeout_s}S"));
    }
    skill
}
