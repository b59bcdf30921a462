//! The agent's card, in its clean 1.0 form: no member the proto does not know, no required member empty.

use bytes::Bytes;
use model::ports::agent::{Extension, Profile, Skill};

use crate::framing::json::Writer;

/// Everything a card says.
#[derive(Clone, Debug)]
pub struct CardFacts<'a> {
    pub profile: &'a Profile,
    /// Where the agent is called, the preferred way first.
    pub interfaces: Vec<Interface>,
    pub provider: Option<Provider>,
    pub documentation_url: Option<String>,
    pub icon_url: Option<String>,
    pub auth: Option<Auth>,
    pub streaming: bool,
    pub push: bool,
    /// An extended card can be asked for.
    pub extended: bool,
    /// Extensions besides the profile's: those of the server itself.
    pub extensions: Vec<Extension>,
}

impl<'a> CardFacts<'a> {
    /// An agent served at `base_url` over both bindings, without credentials, push or extended card.
    pub fn new(profile: &'a Profile, base_url: &str) -> CardFacts<'a> {
        CardFacts {
            profile,
            interfaces: vec![Interface::new(base_url, Binding::JsonRpc), Interface::new(base_url, Binding::HttpJson)],
            provider: None,
            documentation_url: None,
            icon_url: None,
            auth: None,
            streaming: profile.streaming,
            push: false,
            extended: false,
            extensions: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub url: String,
    pub binding: Binding,
    pub tenant: Option<String>,
    pub protocol_version: String,
}

impl Interface {
    pub fn new(url: impl Into<String>, binding: Binding) -> Interface {
        Interface { url: url.into(), binding, tenant: None, protocol_version: super::VERSION.to_owned() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    JsonRpc,
    HttpJson,
}

impl Binding {
    pub fn name(self) -> &'static str {
        match self {
            Binding::JsonRpc => "JSONRPC",
            Binding::HttpJson => "HTTP+JSON",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    pub organization: String,
    pub url: String,
}

/// Keys are read as `Authorization: Bearer` and as `X-Api-Key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Without a key nothing is answered but the card itself.
    pub required: bool,
}

/// The card's bytes. Equal facts give equal bytes, so that an ETag can be made of them.
pub fn card(facts: &CardFacts<'_>) -> Bytes {
    let mut w = Writer::with_capacity(2048);
    let profile = facts.profile;
    let name = or(&profile.title, &profile.name);
    w.begin_object();
    w.key("name").string(name);
    w.key("description").string(or(&profile.description, name));
    w.key("supportedInterfaces").begin_array();
    for interface in &facts.interfaces {
        w.begin_object();
        w.key("url").string(&interface.url);
        w.key("protocolBinding").plain(interface.binding.name());
        if let Some(tenant) = &interface.tenant {
            w.key("tenant").string(tenant);
        }
        w.key("protocolVersion").string(&interface.protocol_version);
        w.end_object();
    }
    w.end_array();
    if let Some(provider) = &facts.provider {
        w.key("provider").begin_object();
        w.key("url").string(&provider.url);
        w.key("organization").string(&provider.organization);
        w.end_object();
    }
    w.key("version").string(or(&profile.version, "1.0.0"));
    if let Some(url) = &facts.documentation_url {
        w.key("documentationUrl").string(url);
    }
    capabilities(w.key("capabilities"), facts);
    if let Some(auth) = facts.auth {
        security(&mut w, auth);
    }
    modes(w.key("defaultInputModes"), &profile.input_modes);
    modes(w.key("defaultOutputModes"), &profile.output_modes);
    w.key("skills").begin_array();
    for one in &profile.skills {
        skill(&mut w, one);
    }
    if profile.skills.is_empty() {
        skill(&mut w, &only_skill(profile, name));
    }
    w.end_array();
    if let Some(url) = &facts.icon_url {
        w.key("iconUrl").string(url);
    }
    w.end_object();
    w.finish().as_bytes().cloned().unwrap_or_default()
}

fn or<'t>(text: &'t str, instead: &'t str) -> &'t str {
    if text.is_empty() { instead } else { text }
}

/// The flags have presence: `false` is said, so that nobody has to wonder.
fn capabilities(w: &mut Writer, facts: &CardFacts<'_>) {
    w.begin_object();
    w.key("streaming").bool(facts.streaming);
    w.key("pushNotifications").bool(facts.push);
    if !facts.profile.extensions.is_empty() || !facts.extensions.is_empty() {
        w.key("extensions").begin_array();
        for one in facts.profile.extensions.iter().chain(&facts.extensions) {
            extension(w, one);
        }
        w.end_array();
    }
    w.key("extendedAgentCard").bool(facts.extended);
    w.end_object();
}

fn extension(w: &mut Writer, extension: &Extension) {
    w.begin_object();
    w.key("uri").string(&extension.uri);
    if !extension.description.is_empty() {
        w.key("description").string(&extension.description);
    }
    if extension.required {
        w.key("required").bool(true);
    }
    if let Some(params) = &extension.params {
        w.key("params").json(params);
    }
    w.end_object();
}

fn security(w: &mut Writer, auth: Auth) {
    w.key("securitySchemes").begin_object();
    w.key("bearer").begin_object();
    w.key("httpAuthSecurityScheme").begin_object();
    w.key("description").plain("A key in the Authorization header");
    w.key("scheme").plain("Bearer");
    w.end_object();
    w.end_object();
    w.key("apiKey").begin_object();
    w.key("apiKeySecurityScheme").begin_object();
    w.key("description").plain("The same key in a header of its own");
    w.key("location").plain("header");
    w.key("name").plain("X-Api-Key");
    w.end_object();
    w.end_object();
    w.end_object();
    if auth.required {
        // Either of them: the list is an OR.
        w.key("securityRequirements").begin_array();
        for scheme in ["bearer", "apiKey"] {
            w.begin_object();
            w.key("schemes").begin_object();
            w.key(scheme).begin_object();
            w.key("list").begin_array();
            w.end_array();
            w.end_object();
            w.end_object();
            w.end_object();
        }
        w.end_array();
    }
}

fn modes(w: &mut Writer, modes: &[String]) {
    w.begin_array();
    for mode in modes {
        w.string(mode);
    }
    if modes.is_empty() {
        w.plain("*/*");
    }
    w.end_array();
}

fn skill(w: &mut Writer, skill: &Skill) {
    let name = or(&skill.name, &skill.id);
    w.begin_object();
    w.key("id").string(or(&skill.id, name));
    w.key("name").string(name);
    w.key("description").string(or(&skill.description, name));
    w.key("tags").begin_array();
    for tag in &skill.tags {
        w.string(tag);
    }
    if skill.tags.is_empty() {
        w.string(or(&skill.id, name));
    }
    w.end_array();
    if !skill.examples.is_empty() {
        w.key("examples").begin_array();
        for example in &skill.examples {
            w.string(example);
        }
        w.end_array();
    }
    w.end_object();
}

/// An agent without skills has one: itself.
fn only_skill(profile: &Profile, name: &str) -> Skill {
    Skill {
        id: profile.name.to_string(),
        name: name.to_owned(),
        description: profile.description.clone(),
        tags: Vec::new(),
        examples: Vec::new(),
    }
}
