//! Tests of `card_read`.

use super::*;
use crate::card::{self, CardAuth, CardFacts};

type Chosen = Option<(String, Vec<&'static str>)>;

const GRPC: InterfaceBinding = InterfaceBinding::Grpc;
const RPC: InterfaceBinding = InterfaceBinding::Json(Binding::JsonRpc);
const REST: InterfaceBinding = InterfaceBinding::Json(Binding::HttpJson);

fn chosen(card: &CardSeen, wanted: Option<Generation>) -> Chosen {
    chosen_over(card, wanted, None)
}

fn chosen_over(card: &CardSeen, wanted: Option<Generation>, binding: Option<InterfaceBinding>) -> Chosen {
    card.choose(wanted, binding).map(|choice| (choice.url, choice.peers.iter().map(|peer| peer.facts().name).collect()))
}

fn one(url: &str, peers: &[&'static str]) -> Chosen {
    Some((url.to_owned(), peers.to_vec()))
}

#[test]
fn our_own_cards_come_back_as_the_profile_they_were_made_of() {
    let profile = model::ports::agent::Profile {
        name: "a".into(),
        title: "An Agent".into(),
        description: "does".into(),
        version: "2.1".into(),
        skills: vec![Skill {
            id: "s".into(),
            name: "S".into(),
            description: "d".into(),
            tags: vec!["t".into()],
            examples: vec!["e".into()],
        }],
        input_modes: vec!["text/plain".into()],
        output_modes: vec!["image/png".into()],
        streaming: true,
        push: true,
        extensions: vec![Extension {
            uri: "urn:x".into(),
            description: String::new(),
            required: true,
            params: Json::parse(r#"{"a":1}"#),
        }],
        restart: model::ports::agent::Restart::Fail,
        idempotent: false,
    };
    let mut facts = CardFacts::new(&profile, "https://a.example/x");
    facts.auth = Some(CardAuth::keys(true));
    facts.extended = true;
    facts.provider = Some(Provider { organization: "O".into(), url: "https://o".into() });
    let schemes = vec![
        SchemeSeen {
            name: "apiKey".into(),
            kind: SchemeKind::ApiKey { location: "header".into(), name: "X-Api-Key".into() },
        },
        SchemeSeen { name: "bearer".into(), kind: SchemeKind::Http { scheme: "Bearer".into() } },
    ];
    for (name, bytes, generation) in [
        ("clean", card::clean(&facts), "1.0 over JSON-RPC"),
        ("hybrid", card::hybrid(&facts), "1.0 over JSON-RPC"),
        ("0.3", card::v0_3(&facts), "0.3 over JSON-RPC"),
    ] {
        let mut seen = read(std::str::from_utf8(&bytes).unwrap()).unwrap();
        assert_eq!(chosen(&seen, None), one("https://a.example/x", &[generation]), "{name}");
        assert_eq!((seen.name.as_str(), seen.version.as_str(), seen.description.as_str()), ("An Agent", "2.1", "does"));
        assert_eq!((&seen.skills, &seen.extensions), (&profile.skills, &profile.extensions), "{name}");
        assert_eq!((&seen.input_modes, &seen.output_modes), (&profile.input_modes, &profile.output_modes));
        assert!(seen.streaming && seen.extended && !seen.push, "{name}");
        assert_eq!(seen.provider, facts.provider);
        seen.schemes.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(seen.schemes, schemes, "{name}");
        assert_eq!(seen.security, [vec!["bearer".to_owned()], vec!["apiKey".to_owned()]], "{name}");
    }
}

#[test]
fn the_newest_generation_is_chosen_and_within_it_what_the_card_prefers() {
    let card = read(
        r#"{"name":"n","supportedInterfaces":[
            {"url":"https://g","protocolBinding":"GRPC","protocolVersion":"1.0"},
            {"url":"https://old","protocolBinding":"JSONRPC","protocolVersion":"0.3"},
            {"url":"https://later","protocolBinding":"JSONRPC","protocolVersion":"2.0"},
            {"url":"https://odd","protocolBinding":"JSONRPC","protocolVersion":"next"},
            {"url":"https://rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0.1","tenant":"acme"},
            {"url":"https://rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}"#,
    )
    .unwrap();
    assert_eq!(chosen(&card, None), one("https://g", &["1.0 over gRPC"]));
    assert_eq!(chosen_over(&card, None, Some(REST)), one("https://rest", &["1.0 over HTTP+JSON"]));
    assert_eq!(card.choose(None, Some(REST)).unwrap().tenant.as_deref(), Some("acme"));
    assert_eq!(chosen(&card, Some(Generation::V0_3)), one("https://old", &["0.3 over JSON-RPC"]));
    assert_eq!(chosen_over(&card, Some(Generation::V0_3), Some(GRPC)), one("https://g", &["0.3 over gRPC"]));
    // Insisted on, a generation is spoken where the card says nothing of it.
    assert_eq!(chosen(&card, Some(Generation::V0_1)), one("https://rpc", &["0.1 over JSON-RPC"]));
}

#[test]
fn cards_of_0_3_have_a_main_place_and_others_of_the_same_version() {
    let card = read(
        r#"{"name":"n","protocolVersion":"0.3.0","url":"https://main","preferredTransport":"GRPC",
            "additionalInterfaces":[{"url":"https://main","transport":"GRPC"},{"url":"https://r","transport":"HTTP+JSON"}]}"#,
    )
    .unwrap();
    assert_eq!(card.interfaces.len(), 2);
    assert_eq!(chosen(&card, None), one("https://main", &["0.3 over gRPC"]));
    assert_eq!(chosen_over(&card, None, Some(REST)), one("https://r", &["0.3 over HTTP+JSON"]));
    assert_eq!(chosen_over(&card, None, Some(RPC)), None);
}

#[test]
fn a_card_that_does_not_say_is_0_2_or_0_1_by_its_members_or_by_trying() {
    for (members, peers) in [
        (r#""protocolVersion":"0.2.5""#, &["0.3 over JSON-RPC"][..]),
        (r#""preferredTransport":"JSONRPC""#, &["0.3 over JSON-RPC"]),
        (r#""security":[]"#, &["0.3 over JSON-RPC"]),
        (r#""authentication":{"schemes":["Bearer"]}"#, &["0.1 over JSON-RPC"]),
        (r#""defaultInputModes":["text"]"#, &["0.3 over JSON-RPC", "0.1 over JSON-RPC"]),
    ] {
        let card = read(&format!(r#"{{"name":"n","url":"https://u","capabilities":{{}},{members}}}"#)).unwrap();
        assert_eq!(chosen(&card, None), one("https://u", peers), "{members}");
    }
    let old = read(
        r#"{"name":"n","url":"https://u","authentication":{"schemes":["Bearer"]},"defaultInputModes":["text","file"]}"#,
    )
    .unwrap();
    assert_eq!(old.security, [vec!["Bearer".to_owned()]]);
    assert_eq!(old.schemes[0].kind, SchemeKind::Http { scheme: "Bearer".into() });
    assert_eq!(old.input_modes, ["text/plain", "application/octet-stream"]);
}

#[test]
fn what_is_no_card_is_told_apart_and_what_is_odd_is_skipped() {
    for (text, why) in [
        ("<html>", "not JSON"),
        ("[]", "no place to call"),
        (r#"{"name":"n"}"#, "no place to call"),
        (r#"{"url":"https://u"}"#, "no name"),
        (r#"{"jsonrpc":"2.0","error":{"code":-32600}}"#, "no place to call"),
    ] {
        let fault = read(text).unwrap_err();
        assert!(fault.message.contains(why), "{text}: {fault}");
    }
    let odd = r#"{"name":"n","url":"https://u","skills":[1,{},{"id":"s"}],"capabilities":{"streaming":"yes","extensions":[{}]},"securitySchemes":[],"provider":3}"#;
    let card = read(odd).unwrap();
    assert_eq!((card.skills.len(), card.skills[0].name.as_str(), card.streaming), (1, "s", false));
    assert!(card.extensions.is_empty() && card.schemes.is_empty() && card.provider.is_none());
    assert_eq!(
        read(r#"{"name":"n","supportedInterfaces":[{"url":"h:1","protocolBinding":"GRPC","protocolVersion":"1.0"}]}"#)
            .unwrap()
            .choose(None, Some(RPC))
            .map(|c| c.url),
        None
    );
}

#[test]
fn without_a_card_the_newest_is_tried_first() {
    let names = |wanted, binding| -> Vec<_> {
        PeerInterface::without_card("https://u", wanted, binding)
            .peers
            .iter()
            .map(|peer| peer.facts().generation.name())
            .collect()
    };
    assert_eq!(names(None, RPC), ["1.0", "0.3", "0.1"]);
    assert_eq!(names(Some(Generation::V0_3), RPC), ["0.3"]);
    assert_eq!(names(None, GRPC), ["1.0", "0.3"]);
    assert_eq!("0.2".parse(), Ok(Generation::V0_3));
    assert!("3.0".parse::<Generation>().is_err());
}

proptest::proptest! {
    #[test]
    fn any_text_is_a_card_or_a_fault(text: String) {
        let _ = read(&text);
    }
}
