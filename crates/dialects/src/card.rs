//! The agent's card, for readers of every generation.
//!
//! * [`clean`] is 1.0 alone: only members of the proto, for readers that refuse unknown members.
//! * [`hybrid`] is one document for all: 1.0 members, and the members that 0.3, 0.2 and 0.1 readers need. The
//!   generations share one namespace without clashes; a security scheme is written in both encodings at once.
//! * [`v0_3`] is the extended card of 0.3.
//!
//! No required member is ever empty.

use bytes::Bytes;
use model::ports::agent::{Extension, Profile, Skill};

use crate::a2a_v0_3;
use crate::a2a_v1::{self, version};
use crate::framing::json::Writer;

/// Everything a card says.
#[derive(Clone, Debug)]
pub struct CardFacts<'a> {
    pub profile: &'a Profile,
    /// Where the agent is called, the preferred way first. Those of 0.3 may stand among them; where none does, the cards
    /// that speak of 0.3 say that every 1.0 interface without a tenant answers 0.3 too.
    pub interfaces: Vec<Interface>,
    pub provider: Option<Provider>,
    pub documentation_url: Option<String>,
    pub icon_url: Option<String>,
    pub auth: Option<CardAuth>,
    pub streaming: bool,
    pub push: bool,
    /// An extended card can be asked for.
    pub extended: bool,
    /// Extensions besides the profile's: those of the server itself.
    pub extensions: Vec<Extension>,
    /// Skills that need a credential where the agent as a whole does not.
    pub guarded: Vec<String>,
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
            guarded: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    pub url: String,
    pub binding: InterfaceBinding,
    pub tenant: Option<String>,
    pub protocol_version: String,
}

impl Interface {
    pub fn new(url: impl Into<String>, binding: impl Into<InterfaceBinding>) -> Interface {
        Interface {
            url: url.into(),
            binding: binding.into(),
            tenant: None,
            protocol_version: a2a_v1::VERSION.to_owned(),
        }
    }
}

/// The binding of an interface on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceBinding {
    Json(Binding),
    Grpc,
}

impl InterfaceBinding {
    pub fn name(self) -> &'static str {
        match self {
            InterfaceBinding::Json(binding) => binding.name(),
            InterfaceBinding::Grpc => "GRPC",
        }
    }
}

impl From<Binding> for InterfaceBinding {
    fn from(binding: Binding) -> InterfaceBinding {
        InterfaceBinding::Json(binding)
    }
}

/// A binding whose messages are JSON.
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

/// The authentication of callers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardAuth {
    /// Without a credential nothing is answered but the card itself.
    pub required: bool,
    /// Keys are read, as `Authorization: Bearer` and as `X-Api-Key`.
    pub keys: bool,
    /// Tokens (JWT) are read, as `Authorization: Bearer`.
    pub tokens: bool,
    /// The OpenID configurations of issuers whose tokens are read.
    pub discovery: Vec<String>,
}

impl CardAuth {
    /// Keys alone.
    pub fn keys(required: bool) -> CardAuth {
        CardAuth { required, keys: true, ..CardAuth::default() }
    }

    /// The names our schemes have on the card: any of them will do.
    pub(crate) fn schemes(&self) -> Vec<String> {
        let openid = (1..=self.discovery.len()).map(openid_name);
        std::iter::once("bearer".to_owned()).chain(self.keys.then(|| "apiKey".to_owned())).chain(openid).collect()
    }
}

/// The first needs no number.
pub(crate) fn openid_name(nth: usize) -> String {
    if nth == 1 { "openIdConnect".to_owned() } else { format!("openIdConnect{nth}") }
}

/// Which readers a card is for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Readers {
    v1: bool,
    v0_3: bool,
    v0_1: bool,
}

/// The card of 1.0 alone. Equal facts give equal bytes, so that an ETag can be made of them.
pub fn clean(facts: &CardFacts<'_>) -> Bytes {
    write(facts, Readers { v1: true, v0_3: false, v0_1: false })
}

/// The card that 1.0, 0.3, 0.2 and 0.1 readers all accept.
pub fn hybrid(facts: &CardFacts<'_>) -> Bytes {
    write(facts, Readers { v1: true, v0_3: true, v0_1: true })
}

/// The card of 0.3.
pub fn v0_3(facts: &CardFacts<'_>) -> Bytes {
    write(facts, Readers { v1: false, v0_3: true, v0_1: false })
}

fn write(facts: &CardFacts<'_>, readers: Readers) -> Bytes {
    let mut w = Writer::with_capacity(2048);
    let profile = facts.profile;
    let name = or(&profile.title, &profile.name);
    w.begin_object();
    w.key("name").string(name);
    w.key("description").string(or(&profile.description, name));
    let older = if readers.v0_3 { older_interfaces(facts) } else { Vec::new() };
    if readers.v1 {
        supported_interfaces(&mut w, facts, &older);
    }
    if readers.v0_3 {
        older_block(&mut w, &older);
    }
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
    capabilities(w.key("capabilities"), facts, readers);
    if let Some(auth) = &facts.auth {
        security(&mut w, auth, readers);
    }
    modes(w.key("defaultInputModes"), &profile.input_modes);
    modes(w.key("defaultOutputModes"), &profile.output_modes);
    w.key("skills").begin_array();
    for one in &profile.skills {
        skill(&mut w, one, facts, readers);
    }
    if profile.skills.is_empty() {
        skill(&mut w, &only_skill(profile, name), facts, readers);
    }
    w.end_array();
    if readers.v0_3 {
        w.key("supportsAuthenticatedExtendedCard").bool(facts.extended);
    }
    if let Some(url) = &facts.icon_url {
        w.key("iconUrl").string(url);
    }
    w.end_object();
    w.finish().as_bytes().cloned().unwrap_or_default()
}

pub(crate) fn is_older(interface: &Interface) -> bool {
    version::parse(&interface.protocol_version).is_some_and(|(major, _)| major == 0)
}

/// The interfaces that answer 0.3. A 0.3 reader cannot name a tenant, so one that needs it is none.
pub(crate) fn older_interfaces(facts: &CardFacts<'_>) -> Vec<Interface> {
    let stated: Vec<Interface> = facts.interfaces.iter().filter(|one| is_older(one)).cloned().collect();
    if !stated.is_empty() {
        return stated;
    }
    let scheme = if facts.interfaces.iter().any(|one| one.url.starts_with("https://")) { "https" } else { "http" };
    let same = facts.interfaces.iter().filter(|one| one.tenant.is_none());
    same.map(|one| {
        // An address of gRPC has a scheme in 0.3, and none in 1.0.
        let url = match one.binding {
            InterfaceBinding::Grpc => format!("{scheme}://{}", one.url),
            InterfaceBinding::Json(_) => one.url.clone(),
        };
        Interface { url, protocol_version: a2a_v0_3::VERSION.to_owned(), ..one.clone() }
    })
    .collect()
}

/// The interfaces in the words of 1.0. Readers take the first entry whose binding they know, some of them whatever its
/// version: so where there are two generations, those of one binding stand together, the newest first.
fn supported_interfaces(w: &mut Writer, facts: &CardFacts<'_>, older: &[Interface]) {
    let mut listed: Vec<&Interface> = facts.interfaces.iter().collect();
    if !older.is_empty() {
        listed.retain(|one| !is_older(one));
        listed.extend(older);
        let place = |binding: InterfaceBinding| facts.interfaces.iter().position(|one| one.binding == binding);
        listed.sort_by_key(|one| place(one.binding));
    }
    w.key("supportedInterfaces").begin_array();
    for interface in listed {
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
}

/// The interface that a card of 0.3 names first.
pub(crate) fn main_interface(older: &[Interface]) -> Option<&Interface> {
    older.iter().find(|one| one.binding == Binding::JsonRpc.into()).or_else(|| older.first())
}

/// Where 0.3, 0.2 and 0.1 readers find the agent. The first generations know one URL, which is JSON-RPC to them: so that
/// interface leads, wherever it stands in the list.
fn older_block(w: &mut Writer, older: &[Interface]) {
    let Some(main) = main_interface(older) else { return };
    w.key("protocolVersion").plain("0.3.0");
    w.key("url").string(&main.url);
    w.key("preferredTransport").plain(main.binding.name());
    w.key("additionalInterfaces").begin_array();
    for one in std::iter::once(main).chain(older.iter().filter(|one| *one != main)) {
        w.begin_object();
        w.key("url").string(&one.url);
        w.key("transport").plain(one.binding.name());
        w.end_object();
    }
    w.end_array();
}

pub(crate) fn or<'t>(text: &'t str, instead: &'t str) -> &'t str {
    if text.is_empty() { instead } else { text }
}

/// The flags have presence: `false` is written out.
fn capabilities(w: &mut Writer, facts: &CardFacts<'_>, readers: Readers) {
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
    if readers.v1 {
        w.key("extendedAgentCard").bool(facts.extended);
    }
    if readers.v0_3 {
        // A task's past states are not kept apart from its messages.
        w.key("stateTransitionHistory").bool(false);
    }
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

/// Each scheme is the union of both encodings: 1.0 tells schemes apart by the member's name, 0.3 by `type`.
pub(crate) fn bearer_text(auth: &CardAuth) -> &'static str {
    match (auth.keys, auth.tokens) {
        (true, true) => "A key, or a token of a trusted issuer, in the Authorization header",
        (false, true) => "A token of a trusted issuer in the Authorization header",
        (_, false) => "A key in the Authorization header",
    }
}

fn security(w: &mut Writer, auth: &CardAuth, readers: Readers) {
    w.key("securitySchemes").begin_object();
    scheme(w, readers, "bearer", ("httpAuthSecurityScheme", "http"), bearer_text(auth), |w, _| {
        w.key("scheme").plain("Bearer");
        if auth.tokens {
            w.key("bearerFormat").plain("JWT");
        }
    });
    if auth.keys {
        let words = "The same key in a header of its own";
        scheme(w, readers, "apiKey", ("apiKeySecurityScheme", "apiKey"), words, |w, v1| {
            w.key(if v1 { "location" } else { "in" }).plain("header");
            w.key("name").plain("X-Api-Key");
        });
    }
    for (i, url) in auth.discovery.iter().enumerate() {
        let words = "A token of this issuer in the Authorization header";
        let kind = ("openIdConnectSecurityScheme", "openIdConnect");
        scheme(w, readers, &openid_name(i + 1), kind, words, |w, _| {
            w.key("openIdConnectUrl").string(url);
        });
    }
    w.end_object();
    if !auth.required {
        return;
    }
    requirements(w, auth, readers);
    if readers.v0_1 {
        // Names alone; what else there is to know of a scheme stands as JSON in a string.
        w.key("authentication").begin_object();
        w.key("schemes").begin_array();
        w.plain("Bearer");
        if auth.keys {
            w.plain("ApiKey");
        }
        w.end_array();
        if auth.keys {
            w.key("credentials").string(r#"{"ApiKey":{"in":"header","name":"X-Api-Key"}}"#);
        }
        w.end_object();
    }
}

/// One scheme, in the words of 1.0 and of 0.3; `rest` gets the one it writes.
fn scheme(
    w: &mut Writer,
    readers: Readers,
    name: &str,
    (member, kind): (&'static str, &'static str),
    words: &'static str,
    rest: impl Fn(&mut Writer, bool),
) {
    w.key(name).begin_object();
    w.key(member).begin_object();
    w.key("description").plain(words);
    rest(w, true);
    w.end_object();
    if readers.v0_3 {
        w.key("type").plain(kind);
        w.key("description").plain(words);
        rest(w, false);
    }
    w.end_object();
}

/// Any of the schemes: the list is an OR.
fn requirements(w: &mut Writer, auth: &CardAuth, readers: Readers) {
    let schemes = auth.schemes();
    if readers.v1 {
        w.key("securityRequirements").begin_array();
        for scheme in &schemes {
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
    if readers.v0_3 {
        w.key("security").begin_array();
        for scheme in &schemes {
            w.begin_object();
            w.key(scheme).begin_array();
            w.end_array();
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

fn skill(w: &mut Writer, skill: &Skill, facts: &CardFacts<'_>, readers: Readers) {
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
    // Strict readers want them of every skill; the skills of an agent have its own.
    modes(w.key("inputModes"), &facts.profile.input_modes);
    modes(w.key("outputModes"), &facts.profile.output_modes);
    if let Some(auth) = &facts.auth
        && facts.guarded.contains(&skill.id)
    {
        requirements(w, auth, readers);
    }
    w.end_object();
}

/// The ids of the skills on an agent's card.
pub fn skill_ids(profile: &Profile) -> impl Iterator<Item = &str> {
    let itself = profile.skills.is_empty().then_some(&*profile.name);
    profile.skills.iter().map(|skill| &*skill.id).chain(itself)
}

/// An agent without skills has one: itself.
pub(crate) fn only_skill(profile: &Profile, name: &str) -> Skill {
    Skill {
        id: profile.name.to_string(),
        name: name.to_owned(),
        description: profile.description.clone(),
        tags: Vec::new(),
        examples: Vec::new(),
    }
}
