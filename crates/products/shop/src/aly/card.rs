//! The card: the platform's, or that of one shop whose host was asked.

use serde_json::{Map, Value, json};

use super::{SCOPES, VERSION};

/// What a card tells.
#[derive(Clone, Debug)]
pub struct StoreCardFacts<'a> {
    /// Where the mount is: what stands before `/api/a2a`.
    pub base: &'a str,
    /// Where tokens are asked for: the origin, whatever the mount.
    pub issuer: &'a str,
    /// The platform, or what it is that shops are at.
    pub platform: &'a str,
    pub description: &'a str,
    pub version: &'a str,
    /// The one whose card it is; without one it is the platform's.
    pub shop: Option<CardShop<'a>>,
    pub documentation_url: Option<&'a str>,
    pub streaming: bool,
    pub push: bool,
    pub skills: Vec<CardSkill<'a>>,
}

/// A shop, as its card calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardShop<'a> {
    pub slug: &'a str,
    pub title: &'a str,
    /// The host it was asked under.
    pub host: &'a str,
    pub description: Option<&'a str>,
}

/// What the agent can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardSkill<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub description: &'a str,
    pub tags: &'a [String],
    /// `{site_slug}` in one stands for a shop: on a shop's card its own slug is there, on the platform's any.
    pub examples: Vec<&'a str>,
    /// The scope a caller's token needs, where it needs one.
    pub scope: Option<&'a str>,
}

/// Media types, by default and of every skill.
const MODES: [&str; 2] = ["text/plain", "application/json"];
/// What `{site_slug}` is where no shop is meant.
const ANY_SHOP: &str = "my-store";

pub fn card(facts: &StoreCardFacts<'_>) -> Value {
    let StoreCardFacts { base, issuer, platform, .. } = facts;
    let url = format!("{base}/api/a2a");
    let slug = facts.shop.map_or(ANY_SHOP, |shop| shop.slug);
    let skills = facts.skills.iter().map(|skill| {
        let examples = skill.examples.iter().map(|example| example.replace("{site_slug}", slug));
        let mut shown = json!({
            "id": skill.id,
            "name": skill.name,
            "description": skill.description,
            "tags": skill.tags,
            "examples": examples.collect::<Vec<_>>(),
            "inputModes": MODES,
            "outputModes": MODES,
        });
        if let Some(scope) = skill.scope {
            shown["securityRequirements"] = json!([
                { "schemes": { "aly_oauth": { "list": [scope] } } },
                { "schemes": { "aly_api_key": { "list": [] } } },
            ]);
        }
        shown
    });
    let name = match &facts.shop {
        Some(shop) => format!("{} ({})", shop.title, shop.host),
        None => (*platform).to_owned(),
    };
    let description = facts.shop.and_then(|shop| shop.description).unwrap_or(facts.description);
    let interface = |binding: &str| json!({ "url": url, "protocolBinding": binding, "protocolVersion": VERSION });
    let scopes: Map<String, Value> =
        SCOPES.iter().map(|(name, words)| ((*name).to_owned(), Value::from(*words))).collect();
    let mut card = json!({
        "name": name,
        "description": description,
        "supportedInterfaces": [interface("JSONRPC"), interface("HTTP+JSON")],
        "provider": { "organization": platform, "url": issuer },
        "version": facts.version,
        "capabilities": { "streaming": facts.streaming, "pushNotifications": facts.push },
        "securitySchemes": {
            "aly_oauth": {
                "oauth2SecurityScheme": {
                    "description": "An access token that a person of the workspace agreed to",
                    "oauth2MetadataUrl": format!("{issuer}/.well-known/oauth-authorization-server"),
                    "flows": {
                        "authorizationCode": {
                            "authorizationUrl": format!("{issuer}/oauth/authorize"),
                            "tokenUrl": format!("{issuer}/oauth/token"),
                            "refreshUrl": format!("{issuer}/oauth/token"),
                            "scopes": scopes,
                            "pkceRequired": true,
                        },
                    },
                },
            },
            "aly_api_key": {
                "httpAuthSecurityScheme": { "description": "An API key of the workspace", "scheme": "Bearer" },
            },
        },
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": skills.collect::<Vec<_>>(),
    });
    if let Some(url) = facts.documentation_url {
        card["documentationUrl"] = url.into();
    }
    card
}
