//! Whether a card is one that strict readers of a version of A2A accept: for operators, not for the client, which reads
//! cards as liberally as can be.

use std::fmt::Display;

use serde_json::{Map, Value};

use crate::card_read;

/// A version whose readers a card is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardVersion {
    V1_0,
    V0_3,
    V0_2,
    V0_1,
}

/// A fact about a card that its readers may trip over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardFinding {
    /// A reader may refuse the card, or not find the agent. Otherwise it may miss something.
    pub is_error: bool,
    /// The place in the document, such as `skills[0].tags`; empty for the whole.
    pub path: String,
    pub says: String,
}

/// The most findings of a card.
const MOST: usize = 100;

impl CardVersion {
    pub const ALL: [CardVersion; 4] = [CardVersion::V1_0, CardVersion::V0_3, CardVersion::V0_2, CardVersion::V0_1];

    pub fn name(self) -> &'static str {
        match self {
            CardVersion::V1_0 => "1.0",
            CardVersion::V0_3 => "0.3",
            CardVersion::V0_2 => "0.2",
            CardVersion::V0_1 => "0.1",
        }
    }
}

/// The findings of a card, errors first.
pub fn check(version: CardVersion, card: &Value) -> Vec<CardFinding> {
    let mut checker = Checker { found: Vec::new() };
    match card.as_object() {
        Some(members) => checker.card(version, members),
        None => checker.error("", "is no JSON object"),
    }
    match card_read::read_value(card) {
        Err(fault) => checker.error("", fault.message),
        Ok(seen) if seen.choose(None, None).is_none() => checker.error("", "names no interface that can be called"),
        Ok(_) => {}
    }
    let mut found = checker.found;
    found.sort_by_key(|one| !one.is_error);
    found.truncate(MOST);
    found
}

struct Checker {
    found: Vec<CardFinding>,
}

/// The JSON type of a member.
#[derive(Clone, Copy)]
enum Is {
    Text,
    Url,
    Flag,
    Texts,
    Object,
    List,
}

impl Is {
    fn holds(self, value: &Value) -> bool {
        match self {
            Is::Text | Is::Url => value.is_string(),
            Is::Flag => value.is_boolean(),
            Is::Texts => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
            Is::Object => value.is_object(),
            Is::List => value.is_array(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Is::Text => "a text",
            Is::Url => "an address",
            Is::Flag => "true or false",
            Is::Texts => "a list of texts",
            Is::Object => "an object",
            Is::List => "a list",
        }
    }
}

fn at(place: &str, name: impl Display) -> String {
    if place.is_empty() { name.to_string() } else { format!("{place}.{name}") }
}

impl Checker {
    fn error(&mut self, path: impl Into<String>, says: impl Into<String>) {
        self.found.push(CardFinding { is_error: true, path: path.into(), says: says.into() });
    }

    fn warn(&mut self, path: impl Into<String>, says: impl Into<String>) {
        self.found.push(CardFinding { is_error: false, path: path.into(), says: says.into() });
    }

    /// Checks members that must be there, and others where they are.
    fn members(&mut self, place: &str, members: &Map<String, Value>, needed: &[(&str, Is)], optional: &[(&str, Is)]) {
        for (name, is) in needed {
            match members.get(*name) {
                None => self.error(at(place, name), "is missing"),
                Some(value) => self.one(at(place, name), value, *is),
            }
        }
        for (name, is) in optional {
            // Some writers state that there is nothing.
            if let Some(value) = members.get(*name).filter(|value| !value.is_null()) {
                self.one(at(place, name), value, *is);
            }
        }
    }

    fn one(&mut self, path: String, value: &Value, is: Is) {
        if !is.holds(value) {
            return self.error(path, format!("must be {}", is.name()));
        }
        match (is, value.as_str()) {
            (Is::Text, Some(text)) if text.trim().is_empty() => self.warn(path, "is empty"),
            (Is::Url, Some(text)) if !is_address(text) => {
                self.error(path, "is no address: write https://host/path");
            }
            (Is::Url, Some(text)) if text.starts_with("http://") && !is_local(text) => {
                self.warn(path, "is not encrypted on the way");
            }
            _ => {}
        }
    }

    fn each<'v>(
        &mut self,
        members: &'v Map<String, Value>,
        name: &str,
        mut check: impl FnMut(&mut Checker, &str, &'v Map<String, Value>),
    ) {
        for (number, item) in members.get(name).and_then(Value::as_array).into_iter().flatten().enumerate() {
            let place = format!("{name}[{number}]");
            match item.as_object() {
                Some(item) => check(self, &place, item),
                None => self.error(place, "must be an object"),
            }
        }
    }

    fn card(&mut self, version: CardVersion, card: &Map<String, Value>) {
        let mut needed =
            vec![("name", Is::Text), ("version", Is::Text), ("capabilities", Is::Object), ("skills", Is::List)];
        let described =
            [("description", Is::Text), ("defaultInputModes", Is::Texts), ("defaultOutputModes", Is::Texts)];
        let mut optional = vec![
            ("provider", Is::Object),
            ("documentationUrl", Is::Url),
            ("iconUrl", Is::Url),
            ("securitySchemes", Is::Object),
        ];
        match version {
            CardVersion::V1_0 => {
                needed.extend(described);
                needed.push(("supportedInterfaces", Is::List));
                self.interfaces(card);
            }
            CardVersion::V0_3 => {
                needed.extend(described);
                needed.extend([("protocolVersion", Is::Text), ("url", Is::Url)]);
                optional.extend([("preferredTransport", Is::Text), ("supportsAuthenticatedExtendedCard", Is::Flag)]);
                self.transports(card);
            }
            CardVersion::V0_2 => {
                needed.extend(described);
                needed.push(("url", Is::Url));
                optional.push(("supportsAuthenticatedExtendedCard", Is::Flag));
            }
            CardVersion::V0_1 => {
                needed.push(("url", Is::Url));
                optional.extend(described);
                optional.push(("authentication", Is::Object));
            }
        }
        self.members("", card, &needed, &optional);
        self.skills(version, card);
        if let Some(capabilities) = card.get("capabilities").and_then(Value::as_object) {
            self.capabilities(capabilities);
        }
        if let Some(provider) = card.get("provider").and_then(Value::as_object) {
            let needed = [("organization", Is::Text), ("url", Is::Url)];
            self.members("provider", provider, if version == CardVersion::V0_1 { &needed[..1] } else { &needed }, &[]);
        }
        for name in ["securityRequirements", "security"] {
            self.security(card, name);
        }
        for name in ["defaultInputModes", "defaultOutputModes"] {
            if card.get(name).and_then(Value::as_array).is_some_and(Vec::is_empty) {
                self.warn(name, "is empty: callers cannot tell what the agent takes or gives");
            }
        }
    }

    fn interfaces(&mut self, card: &Map<String, Value>) {
        let listed = card.get("supportedInterfaces").and_then(Value::as_array);
        if listed.is_some_and(Vec::is_empty) {
            self.error("supportedInterfaces", "is empty: readers of 1.0 find no place to call");
        }
        self.each(card, "supportedInterfaces", |checker, place, one| {
            let needed = [("url", Is::Text), ("protocolBinding", Is::Text), ("protocolVersion", Is::Text)];
            checker.members(place, one, &needed, &[("tenant", Is::Text)]);
            let binding = one.get("protocolBinding").and_then(Value::as_str).unwrap_or_default();
            let url = one.get("url").and_then(Value::as_str).unwrap_or_default();
            // An address of gRPC is a host and a port.
            if matches!(binding, "JSONRPC" | "HTTP+JSON") {
                checker.one(at(place, "url"), &Value::String(url.to_owned()), Is::Url);
            }
            if !matches!(binding, "" | "JSONRPC" | "HTTP+JSON" | "GRPC") {
                checker
                    .warn(at(place, "protocolBinding"), "is none of JSONRPC, HTTP+JSON and GRPC: few readers know it");
            }
        });
        let is_current = |one: &Value| one["protocolVersion"].as_str().is_some_and(|version| version.starts_with("1."));
        if listed.is_some_and(|all| !all.is_empty() && !all.iter().any(is_current)) {
            self.warn("supportedInterfaces", "has no interface of 1.0");
        }
    }

    fn transports(&mut self, card: &Map<String, Value>) {
        let stated = card.get("protocolVersion").and_then(Value::as_str).unwrap_or("0.3");
        if !stated.starts_with("0.3") {
            self.warn("protocolVersion", format!("is {stated}, not 0.3"));
        }
        self.each(card, "additionalInterfaces", |checker, place, one| {
            checker.members(place, one, &[("url", Is::Text), ("transport", Is::Text)], &[]);
        });
    }

    fn skills(&mut self, version: CardVersion, card: &Map<String, Value>) {
        if card.get("skills").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            self.warn("skills", "is empty: callers cannot tell what the agent does");
        }
        let mut ids: Vec<&str> = Vec::new();
        self.each(card, "skills", |checker, place, skill| {
            let needed = [("id", Is::Text), ("name", Is::Text), ("description", Is::Text), ("tags", Is::Texts)];
            let (needed, optional) = needed.split_at(if version == CardVersion::V0_1 { 2 } else { 4 });
            checker.members(place, skill, needed, optional);
            checker.members(
                place,
                skill,
                &[],
                &[("examples", Is::Texts), ("inputModes", Is::Texts), ("outputModes", Is::Texts)],
            );
            let Some(id) = skill.get("id").and_then(Value::as_str) else { return };
            if ids.contains(&id) {
                checker.error(at(place, "id"), "is the id of an earlier skill, too");
            }
            ids.push(id);
        });
    }

    fn capabilities(&mut self, capabilities: &Map<String, Value>) {
        let flags = ["streaming", "pushNotifications", "extendedAgentCard", "stateTransitionHistory"];
        self.members("capabilities", capabilities, &[], &flags.map(|name| (name, Is::Flag)));
        for (number, one) in capabilities.get("extensions").and_then(Value::as_array).into_iter().flatten().enumerate()
        {
            let place = format!("capabilities.extensions[{number}]");
            match one.as_object() {
                Some(one) => {
                    self.members(&place, one, &[("uri", Is::Text)], &[("required", Is::Flag), ("params", Is::Object)]);
                }
                None => self.error(place, "must be an object"),
            }
        }
    }

    /// Every scheme that is required must be described.
    fn security(&mut self, card: &Map<String, Value>, name: &str) {
        let described = card.get("securitySchemes").and_then(Value::as_object);
        self.each(card, name, |checker, place, one| {
            // 1.0 wraps the names, 0.3 has them bare.
            let names = one.get("schemes").and_then(Value::as_object).unwrap_or(one);
            for scheme in names.keys() {
                if described.is_none_or(|described| !described.contains_key(scheme)) {
                    checker.error(place, format!("names the scheme {scheme:?}, which securitySchemes lacks"));
                }
            }
        });
    }
}

fn host(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_known = matches!(scheme, "http" | "https") && !host.is_empty() && !text.contains(char::is_whitespace);
    is_known.then_some(host)
}

fn is_address(text: &str) -> bool {
    host(text).is_some()
}

fn is_local(text: &str) -> bool {
    host(text).is_some_and(|host| ["localhost", "127.", "[::1]"].iter().any(|own| host.starts_with(own)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn findings(version: CardVersion, card: &Value) -> Vec<String> {
        let word = |one: &CardFinding| if one.is_error { "error" } else { "warning" };
        check(version, card).iter().map(|one| format!("{} {}: {}", word(one), one.path, one.says)).collect()
    }

    fn good() -> Value {
        json!({
            "name": "a", "description": "does a", "version": "1", "url": "https://a.example/",
            "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC", "capabilities": { "streaming": true },
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{ "id": "s", "name": "s", "description": "s", "tags": ["t"] }],
            "supportedInterfaces": [{ "url": "https://a.example/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }],
        })
    }

    #[test]
    fn a_card_for_all_readers_has_no_findings() {
        for version in CardVersion::ALL {
            assert_eq!(findings(version, &good()), [""; 0], "{version:?}");
        }
    }

    #[test]
    fn what_a_strict_reader_refuses_is_named_with_its_place() {
        for (pointer, value, version, expected) in [
            ("/name", json!(7), CardVersion::V1_0, "error name: must be a text"),
            ("/description", Value::Null, CardVersion::V0_2, "error description: must be a text"),
            ("/url", json!("a.example"), CardVersion::V0_3, "error url: is no address: write https://host/path"),
            ("/url", json!("http://a.example/"), CardVersion::V0_1, "warning url: is not encrypted on the way"),
            ("/skills/0/tags", json!("t"), CardVersion::V1_0, "error skills[0].tags: must be a list of texts"),
            ("/skills/0", json!("s"), CardVersion::V0_1, "error skills[0]: must be an object"),
            (
                "/capabilities/streaming",
                json!("yes"),
                CardVersion::V0_3,
                "error capabilities.streaming: must be true or false",
            ),
            (
                "/supportedInterfaces",
                json!([]),
                CardVersion::V1_0,
                "error supportedInterfaces: is empty: readers of 1.0 find no place to call",
            ),
            ("/protocolVersion", json!("0.2.6"), CardVersion::V0_3, "warning protocolVersion: is 0.2.6, not 0.3"),
            (
                "/skills",
                json!([]),
                CardVersion::V0_2,
                "warning skills: is empty: callers cannot tell what the agent does",
            ),
        ] {
            let mut card = good();
            *card.pointer_mut(pointer).unwrap() = value;
            let found = findings(version, &card);
            assert!(found.iter().any(|one| one == expected), "{expected}: {found:?}");
        }
        let mut card = good();
        card["security"] = json!([{ "key": [] }]);
        card["securityRequirements"] = json!([{ "schemes": { "token": { "list": [] } } }]);
        let found = findings(CardVersion::V0_3, &card);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(findings(CardVersion::V1_0, &json!([])).len(), 2);
        let mut many = good();
        many["skills"] = Value::Array(vec![json!({}); 1_000]);
        assert_eq!(check(CardVersion::V1_0, &many).len(), MOST);
    }
}
