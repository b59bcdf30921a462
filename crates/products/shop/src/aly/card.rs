//! The agent card: of the platform, or of the shop that the request's host belongs to.

use serde_json::{Map, Value, json};

use super::{SCOPES, VERSION};

/// Data of a card.
#[derive(Clone, Debug)]
pub struct StoreCardFacts<'a> {
    /// Base URL of the mount: the part before `/api/a2a`.
    pub base: &'a str,
    /// Issuer of tokens: the origin, for every mount.
    pub issuer: &'a str,
    /// Name of the platform.
    pub platform: &'a str,
    pub description: &'a str,
    pub version: &'a str,
    /// The shop whose card it is; `None` for the platform's card.
    pub shop: Option<CardShop<'a>>,
    pub documentation_url: Option<&'a str>,
    pub streaming: bool,
    pub push: bool,
    pub skills: Vec<CardSkill<'a>>,
}

/// Data of a shop on its card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardShop<'a> {
    pub slug: &'a str,
    pub title: &'a str,
    /// The host of the request.
    pub host: &'a str,
    pub description: Option<&'a str>,
}

/// A skill on the card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardSkill<'a> {
    pub id: &'a str,
    pub name: &'a str,
    pub description: &'a str,
    pub tags: &'a [String],
    /// Example messages. `{site_slug}` is replaced by the shop's slug, or by a sample slug on the platform's card.
    pub examples: Vec<&'a str>,
    /// The scope that a caller's token needs, if any.
    pub scope: Option<&'a str>,
}

/// Default media types, and those of every skill.
const MODES: [&str; 2] = ["text/plain", "application/json"];
/// The sample slug on the platform's card.
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
