//! Cards for readers of every generation.

#![allow(clippy::unwrap_used)]

mod cases;

use std::fmt::Write as _;

use cases::*;
use dialects::WIRES;
use dialects::card::{self, Binding, CardAuth, CardFacts, Interface, Provider};
use serde_json::{Value, json};

const BASE: &str = "https://a.example/a2a/echo";

fn rich(profile: &model::ports::agent::Profile) -> CardFacts<'_> {
    let mut facts = CardFacts::new(profile, BASE);
    facts.provider = Some(Provider { organization: "Example".into(), url: "https://example.com".into() });
    facts.documentation_url = Some("https://example.com/docs".into());
    facts.icon_url = Some("https://example.com/icon.png".into());
    facts.auth = Some(CardAuth::keys(true));
    facts.push = true;
    facts.extended = true;
    facts
}

fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn cards_in_every_edition() {
    let (profile, bare) = (profile(), bare_profile());
    let mut lines = String::new();
    for (name, facts) in [("everything", rich(&profile)), ("next to nothing", CardFacts::new(&bare, BASE))] {
        for (edition, bytes) in
            [("clean", card::clean(&facts)), ("hybrid", card::hybrid(&facts)), ("0.3", card::v0_3(&facts))]
        {
            writeln!(lines, "# {name}, {edition}\n{}", std::str::from_utf8(&bytes).unwrap()).unwrap();
        }
    }
    insta::assert_snapshot!("cards", lines);
}

/// The card without the members of other generations.
#[test]
fn a_hybrid_card_without_its_older_members_is_the_clean_one() {
    let profile = profile();
    let mut facts = rich(&profile);
    let mut projected = value(&card::hybrid(&facts));
    let older = |binding| Interface { protocol_version: "0.3".into(), ..Interface::new(BASE, binding) };
    facts.interfaces.insert(1, older(Binding::JsonRpc));
    facts.interfaces.push(older(Binding::HttpJson));
    let clean = value(&card::clean(&facts));
    let members = projected.as_object_mut().unwrap();
    for older in [
        "url",
        "preferredTransport",
        "additionalInterfaces",
        "protocolVersion",
        "supportsAuthenticatedExtendedCard",
        "security",
        "authentication",
    ] {
        assert!(members.remove(older).is_some(), "{older}");
    }
    projected["capabilities"].as_object_mut().unwrap().remove("stateTransitionHistory");
    for scheme in projected["securitySchemes"].as_object_mut().unwrap().values_mut() {
        scheme.as_object_mut().unwrap().retain(|name, _| name.ends_with("SecurityScheme"));
    }
    assert_eq!(projected, clean);
}

#[test]
fn interfaces_of_one_binding_stand_together_the_newest_first() {
    let profile = profile();
    let hybrid = value(&card::hybrid(&rich(&profile)));
    let entries: Vec<_> = hybrid["supportedInterfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["protocolBinding"].as_str().unwrap(), one["protocolVersion"].as_str().unwrap()))
        .collect();
    assert_eq!(entries, [("JSONRPC", "1.0"), ("JSONRPC", "0.3"), ("HTTP+JSON", "1.0"), ("HTTP+JSON", "0.3")]);
}

#[test]
fn older_readers_find_their_interfaces_and_only_those_that_answer_them() {
    let profile = profile();
    let mut facts = rich(&profile);
    let older = |facts: &CardFacts<'_>| {
        let card = value(&card::hybrid(facts));
        (card["url"].clone(), card["preferredTransport"].clone(), card["additionalInterfaces"].clone())
    };
    let (url, transport, others) = older(&facts);
    assert_eq!((url, transport), (BASE.into(), "JSONRPC".into()));
    assert_eq!(others, json!([{"url":BASE,"transport":"JSONRPC"},{"url":BASE,"transport":"HTTP+JSON"}]));
    // A tenant cannot be named in 0.3.
    facts.interfaces[1].tenant = Some("acme".into());
    assert_eq!(older(&facts).2, json!([{"url":BASE,"transport":"JSONRPC"}]));
    // Where 0.3 interfaces are stated, those are the ones; JSON-RPC leads, as the first generation knows nothing else.
    facts.interfaces = vec![
        Interface::new(BASE, Binding::HttpJson),
        Interface { protocol_version: "0.3".into(), ..Interface::new("https://old/rest", Binding::HttpJson) },
        Interface { protocol_version: "0.3".into(), ..Interface::new("https://old/rpc", Binding::JsonRpc) },
    ];
    let (url, transport, others) = older(&facts);
    assert_eq!((url, transport), ("https://old/rpc".into(), "JSONRPC".into()));
    assert_eq!(
        others,
        json!([
            {"url":"https://old/rpc","transport":"JSONRPC"},
            {"url":"https://old/rest","transport":"HTTP+JSON"},
        ])
    );
}

#[test]
fn a_scheme_is_told_in_both_encodings_and_to_the_first_generation_by_name() {
    let profile = profile();
    let card = value(&card::hybrid(&rich(&profile)));
    assert_eq!(card["securitySchemes"]["bearer"]["type"], "http");
    assert_eq!(card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"], "Bearer");
    assert_eq!(card["securitySchemes"]["apiKey"]["in"], "header");
    assert_eq!(card["securitySchemes"]["apiKey"]["apiKeySecurityScheme"]["location"], "header");
    assert_eq!(card["security"], json!([{"bearer":[]},{"apiKey":[]}]));
    assert_eq!(card["authentication"]["schemes"], json!(["Bearer", "ApiKey"]));
    assert!(value(card["authentication"]["credentials"].as_str().unwrap().as_bytes()).is_object());
}

#[test]
fn every_dialect_has_the_card_its_callers_read() {
    let profile = profile();
    let facts = rich(&profile);
    for wire in WIRES {
        let card = value(&wire.card(&facts));
        assert_eq!(card["supportedInterfaces"].is_array(), wire.name() == "a2a_v1");
        assert_eq!(card["protocolVersion"] == "0.3.0", wire.name() != "a2a_v1");
    }
}
