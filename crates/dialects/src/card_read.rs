//! The client's direction: another agent's card, of whichever generation, and which of its interfaces to call.
//!
//! Cards are read as liberally as can be: what is missing is empty, what has the wrong shape is skipped, members of several
//! generations may stand side by side. Only a document without a name, and without any place to call, is no card.

use model::ports::agent::{Extension, Skill};
use model::{Fault, Json, Kind};
use serde_json::Value;

use crate::a2a_v1::version;
use crate::card::{Binding, InterfaceBinding, Provider};
use crate::peer::{Generation, PeerForm};
use crate::seen::string;

/// The content of a card, in one form for all generations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardSeen {
    pub name: String,
    pub description: String,
    pub version: String,
    pub provider: Option<Provider>,
    pub documentation_url: Option<String>,
    pub icon_url: Option<String>,
    pub skills: Vec<Skill>,
    pub input_modes: Vec<String>,
    pub output_modes: Vec<String>,
    pub streaming: bool,
    pub push: bool,
    /// An extended card can be asked for.
    pub extended: bool,
    pub extensions: Vec<Extension>,
    /// In the card's order: what it prefers comes first.
    pub interfaces: Vec<InterfaceSeen>,
    pub schemes: Vec<SchemeSeen>,
    /// Names of schemes; one of the lists is enough, all of a list are needed.
    pub security: Vec<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceSeen {
    pub url: String,
    pub binding: BindingSeen,
    /// Major and minor; `None` where the card does not say, as those before 0.2.5 do not.
    pub version: Option<(u32, u32)>,
    pub tenant: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindingSeen {
    Known(Binding),
    Grpc,
    /// A binding of the server's own.
    Other(String),
}

/// A way to sign in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeSeen {
    pub name: String,
    pub kind: SchemeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemeKind {
    /// `location` is `header`, `query` or `cookie`.
    ApiKey {
        location: String,
        name: String,
    },
    /// `Bearer`, `Basic`, …
    Http {
        scheme: String,
    },
    OAuth2,
    OpenIdConnect {
        url: String,
    },
    MutualTls,
    Other,
}

/// Where to call, and how.
#[derive(Clone, Debug)]
pub struct PeerInterface {
    pub url: String,
    pub tenant: Option<String>,
    /// The forms to try, the best first: several where nothing says what is spoken there.
    pub peers: Vec<PeerForm>,
}

impl PeerInterface {
    /// An endpoint of this binding without a card: the newest generation first, unless one is wanted.
    pub fn without_card(
        url: impl Into<String>,
        wanted: Option<Generation>,
        binding: impl Into<InterfaceBinding>,
    ) -> PeerInterface {
        let (generations, binding) = (wanted.map_or(Generation::ALL.to_vec(), |one| vec![one]), binding.into());
        let peers = generations.into_iter().filter_map(|generation| PeerForm::of(generation, binding)).collect();
        PeerInterface { url: url.into(), tenant: None, peers }
    }
}

/// Reads a card.
pub fn read(text: &str) -> Result<CardSeen, Fault> {
    let value: Value = serde_json::from_str(text).map_err(|error| no_card("it is not JSON").because(error))?;
    read_value(&value)
}

pub(crate) fn read_value(value: &Value) -> Result<CardSeen, Fault> {
    let capabilities = value.get("capabilities").unwrap_or(&Value::Null);
    let flag = |value: &Value, name: &str| value.get(name).and_then(Value::as_bool).unwrap_or(false);
    let interfaces = interfaces(value);
    if interfaces.is_empty() {
        return Err(no_card("it names no place to call"));
    }
    let Some(name) = string(value, &["name"]) else { return Err(no_card("it has no name")) };
    let (schemes, security) = security(value);
    Ok(CardSeen {
        name,
        description: string(value, &["description"]).unwrap_or_default(),
        version: string(value, &["version"]).unwrap_or_default(),
        provider: value.get("provider").and_then(provider),
        documentation_url: string(value, &["documentationUrl", "documentation_url"]),
        icon_url: string(value, &["iconUrl", "icon_url"]),
        skills: list(value, &["skills"]).filter_map(skill).collect(),
        input_modes: modes(value, &["defaultInputModes", "default_input_modes"]),
        output_modes: modes(value, &["defaultOutputModes", "default_output_modes"]),
        streaming: flag(capabilities, "streaming"),
        push: flag(capabilities, "pushNotifications") || flag(capabilities, "push_notifications"),
        extended: flag(capabilities, "extendedAgentCard")
            || flag(capabilities, "extended_agent_card")
            || flag(value, "supportsAuthenticatedExtendedCard"),
        extensions: list(capabilities, &["extensions"]).filter_map(extension).collect(),
        interfaces,
        schemes,
        security,
    })
}

impl CardSeen {
    /// The interface to call: of the newest generation that is spoken here (or of the one that is wanted), the one the card
    /// prefers, or the one of the binding that is wanted. `None` when nothing on the card is spoken here.
    pub fn choose(&self, wanted: Option<Generation>, binding: Option<InterfaceBinding>) -> Option<PeerInterface> {
        let known = |one: &InterfaceSeen| {
            let spoken = match one.binding {
                BindingSeen::Known(binding) => InterfaceBinding::Json(binding),
                BindingSeen::Grpc => InterfaceBinding::Grpc,
                BindingSeen::Other(_) => return None,
            };
            Some(spoken).filter(|spoken| binding.is_none_or(|wanted| wanted == *spoken))
        };
        let choice =
            |one: &InterfaceSeen, peers| PeerInterface { url: one.url.clone(), tenant: one.tenant.clone(), peers };
        let spoken = |generation: Generation| {
            let of = |one: &&InterfaceSeen| one.version.and_then(Generation::of) == Some(generation);
            let callable = |one: &InterfaceSeen| Some(choice(one, vec![PeerForm::of(generation, known(one)?)?]));
            self.interfaces.iter().filter(of).find_map(callable)
        };
        if let Some(wanted) = wanted {
            // A generation that the caller insists on is tried: a card need not list everything its server answers.
            let any = |one: &InterfaceSeen| Some(choice(one, vec![PeerForm::of(wanted, known(one)?)?]));
            return spoken(wanted).or_else(|| self.interfaces.iter().rev().find_map(any));
        }
        // Without a version it is 0.2 or 0.1, which only trying can tell.
        let untold = || {
            let one = self.interfaces.iter().find(|one| one.version.is_none() && known(one).is_some())?;
            let generations = [Generation::V0_3, Generation::V0_1];
            let peers: Vec<_> = generations.into_iter().filter_map(|of| PeerForm::of(of, known(one)?)).collect();
            Some(choice(one, peers))
        };
        spoken(Generation::V1_0)
            .or_else(|| spoken(Generation::V0_3))
            .or_else(untold)
            .or_else(|| spoken(Generation::V0_1))
    }
}

fn no_card(why: &str) -> Fault {
    Fault::new(Kind::InvalidAgentResponse, format!("this is no agent card: {why}"))
}

/// Those of 1.0 in their order, then those of the generations before, each place once.
fn interfaces(value: &Value) -> Vec<InterfaceSeen> {
    let mut found: Vec<InterfaceSeen> = Vec::new();
    let mut add = |url: Option<String>, binding: Option<String>, version, tenant| {
        let Some(url) = url else { return };
        let one = InterfaceSeen { url, binding: binding_of(binding.as_deref().unwrap_or("JSONRPC")), version, tenant };
        if !found.contains(&one) {
            found.push(one);
        }
    };
    for one in list(value, &["supportedInterfaces", "supported_interfaces"]) {
        // An entry with an unreadable version is skipped.
        let stated = string(one, &["protocolVersion", "protocol_version"]);
        let version = stated.as_deref().map_or(Some((1, 0)), version::parse);
        if version.is_some() {
            let binding = string(one, &["protocolBinding", "protocol_binding", "transport"]);
            add(string(one, &["url"]), binding, version, string(one, &["tenant"]));
        }
    }
    let stated = string(value, &["protocolVersion", "protocol_version"]);
    let older = match stated.as_deref().and_then(version::parse) {
        Some(version) => Some(version),
        None if stated.is_some() => Some((0, 3)),
        None => guessed(value),
    };
    let transport = string(value, &["preferredTransport", "preferred_transport"]);
    add(string(value, &["url"]), transport, older, None);
    for one in list(value, &["additionalInterfaces", "additional_interfaces"]) {
        add(string(one, &["url"]), string(one, &["transport"]), older, None);
    }
    found
}

/// The generation of a card that does not say: by members that only one of them has.
fn guessed(value: &Value) -> Option<(u32, u32)> {
    let has = |names: &[&str]| names.iter().any(|name| value.get(name).is_some());
    let later = has(&[
        "preferredTransport",
        "additionalInterfaces",
        "securitySchemes",
        "security",
        "supportsAuthenticatedExtendedCard",
        "iconUrl",
    ]);
    if later {
        Some((0, 3))
    } else if has(&["authentication"]) {
        Some((0, 1))
    } else {
        None
    }
}

fn binding_of(name: &str) -> BindingSeen {
    match name.to_ascii_uppercase().as_str() {
        "JSONRPC" | "JSON-RPC" => BindingSeen::Known(Binding::JsonRpc),
        "HTTP+JSON" | "REST" | "HTTP_JSON" => BindingSeen::Known(Binding::HttpJson),
        "GRPC" => BindingSeen::Grpc,
        _ => BindingSeen::Other(name.to_owned()),
    }
}

fn list<'v>(value: &'v Value, names: &[&str]) -> impl Iterator<Item = &'v Value> {
    let found = names.iter().find_map(|name| value.get(name)?.as_array());
    found.into_iter().flatten()
}

fn strings(value: &Value, name: &str) -> Vec<String> {
    list(value, &[name]).filter_map(|one| one.as_str().map(str::to_owned)).collect()
}

/// Media types; the first generation has words instead.
fn modes(value: &Value, names: &[&str]) -> Vec<String> {
    let modes = list(value, names).filter_map(Value::as_str);
    let media_type = |mode: &str| match mode {
        "text" => "text/plain".to_owned(),
        "data" => "application/json".to_owned(),
        "file" => "application/octet-stream".to_owned(),
        other => other.to_owned(),
    };
    modes.map(media_type).collect()
}

fn provider(value: &Value) -> Option<Provider> {
    let organization = string(value, &["organization"])?;
    Some(Provider { organization, url: string(value, &["url"]).unwrap_or_default() })
}

fn skill(value: &Value) -> Option<Skill> {
    let name = string(value, &["name"]);
    let id = string(value, &["id"]).or_else(|| name.clone())?;
    Some(Skill {
        name: name.unwrap_or_else(|| id.clone()),
        id,
        description: string(value, &["description"]).unwrap_or_default(),
        tags: strings(value, "tags"),
        examples: strings(value, "examples"),
    })
}

fn extension(value: &Value) -> Option<Extension> {
    Some(Extension {
        uri: string(value, &["uri"])?,
        description: string(value, &["description"]).unwrap_or_default(),
        required: value.get("required").and_then(Value::as_bool).unwrap_or(false),
        params: value.get("params").filter(|params| params.is_object()).map(Json::from_value),
    })
}

fn security(value: &Value) -> (Vec<SchemeSeen>, Vec<Vec<String>>) {
    let named = ["securitySchemes", "security_schemes"].iter().find_map(|name| value.get(name)?.as_object());
    let mut schemes: Vec<SchemeSeen> =
        named.into_iter().flatten().map(|(name, one)| SchemeSeen { name: name.clone(), kind: scheme(one) }).collect();
    // 1.0 wraps the names, 0.3 has them bare.
    let wrapped = |one: &Value| one.get("schemes").unwrap_or(one).as_object().map(|all| all.keys().cloned().collect());
    let required: Vec<Vec<String>> =
        list(value, &["securityRequirements", "security_requirements", "security"]).filter_map(wrapped).collect();
    if named.is_none() {
        // The first generation has words, any of which will do.
        let words = strings(value.get("authentication").unwrap_or(&Value::Null), "schemes");
        let either = words.iter().map(|word| vec![word.clone()]).collect();
        schemes.extend(words.into_iter().map(|word| SchemeSeen { kind: word_scheme(&word), name: word }));
        return (schemes, either);
    }
    (schemes, required)
}

/// A scheme by the member's name as in 1.0, or by `type` as in 0.3.
fn scheme(value: &Value) -> SchemeKind {
    let api_key = |one: &Value| SchemeKind::ApiKey {
        location: string(one, &["location", "in"]).unwrap_or_else(|| "header".to_owned()),
        name: string(one, &["name"]).unwrap_or_default(),
    };
    let http = |one: &Value| SchemeKind::Http { scheme: string(one, &["scheme"]).unwrap_or_default() };
    let open_id = |one: &Value| SchemeKind::OpenIdConnect {
        url: string(one, &["openIdConnectUrl", "open_id_connect_url"]).unwrap_or_default(),
    };
    let member = |camel: &str, snake: &str| value.get(camel).or_else(|| value.get(snake));
    if let Some(one) = member("apiKeySecurityScheme", "api_key_security_scheme") {
        return api_key(one);
    }
    if let Some(one) = member("httpAuthSecurityScheme", "http_auth_security_scheme") {
        return http(one);
    }
    if let Some(one) = member("openIdConnectSecurityScheme", "open_id_connect_security_scheme") {
        return open_id(one);
    }
    if member("oauth2SecurityScheme", "oauth2_security_scheme").is_some() {
        return SchemeKind::OAuth2;
    }
    if member("mtlsSecurityScheme", "mtls_security_scheme").is_some() {
        return SchemeKind::MutualTls;
    }
    match string(value, &["type"]).as_deref() {
        Some("apiKey") => api_key(value),
        Some("http") => http(value),
        Some("openIdConnect") => open_id(value),
        Some("oauth2") => SchemeKind::OAuth2,
        Some("mutualTLS") => SchemeKind::MutualTls,
        Some(_) | None => SchemeKind::Other,
    }
}

fn word_scheme(word: &str) -> SchemeKind {
    match word.to_ascii_lowercase().as_str() {
        "bearer" | "basic" | "digest" => SchemeKind::Http { scheme: word.to_owned() },
        "apikey" => SchemeKind::ApiKey { location: "header".to_owned(), name: String::new() },
        "oauth2" => SchemeKind::OAuth2,
        _ => SchemeKind::Other,
    }
}

#[cfg(test)]
#[path = "card_read_tests.rs"]
mod tests;
