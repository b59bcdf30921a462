//! One card for readers of every generation: every listed interface answers in its generation, and the clean form
//! has no member that a strict 1.0 reader does not know.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::process::Command;

use e2e::{Client, Server, Tongue, setup};
use serde_json::{Value, json};

const PATHS: [&str; 2] = ["/.well-known/agent-card.json", "/.well-known/agent.json"];

/// A client of the URL in a card.
fn at(server: &Server, url: &Value) -> Client {
    let path =
        url.as_str().unwrap().strip_prefix(&server.url()).unwrap_or_else(|| panic!("not here: {url}")).to_owned();
    server.at(path.trim_end_matches('/'))
}

fn answers(server: &Server, url: &Value, tongue: Tongue) {
    let seen = tongue.speaker(&at(server, url)).tell("hi");
    assert_eq!((seen.state.as_str(), &seen.texts[..]), ("completed", &["hi".to_owned()][..]), "{tongue:?} at {url}");
}

#[test]
fn every_interface_of_the_card_answers_in_its_generation() {
    let server = Server::start(&["--default", "scripted"]);
    for base in ["", "/a2a/scripted", "/a2a/echo"] {
        let [card, older] = PATHS.map(|path| server.get(&format!("{base}{path}")).json());
        assert_eq!(card, older, "one card on both paths");
        let mut listed = Vec::new();
        for interface in card["supportedInterfaces"].as_array().unwrap() {
            let binding = interface["protocolBinding"].as_str().unwrap();
            let version = interface["protocolVersion"].as_str().unwrap();
            let tongue = match (binding, version) {
                ("JSONRPC", "1.0") => Tongue::V1,
                ("HTTP+JSON", "1.0") => Tongue::V1Rest,
                ("JSONRPC", "0.3") => Tongue::V03,
                ("HTTP+JSON", "0.3") => Tongue::V03Rest,
                other => panic!("an interface nobody knows: {other:?}"),
            };
            answers(&server, &interface["url"], tongue);
            listed.push(tongue);
        }
        assert_eq!(listed.len(), 4, "{card}");
        assert_eq!((&card["protocolVersion"], &card["preferredTransport"]), (&json!("0.3.0"), &json!("JSONRPC")));
        for tongue in [Tongue::V02, Tongue::V01] {
            answers(&server, &card["url"], tongue);
        }
        let additional = card["additionalInterfaces"].as_array().unwrap();
        assert!(additional.iter().any(|one| one["url"] == card["url"] && one["transport"] == "JSONRPC"), "{card}");
        for interface in additional {
            match interface["transport"].as_str().unwrap() {
                "JSONRPC" => answers(&server, &interface["url"], Tongue::V02),
                "HTTP+JSON" => answers(&server, &interface["url"], Tongue::V03Rest),
                other => panic!("a transport nobody knows: {other}"),
            }
        }
        // The required members of the first generation's schema.
        for member in ["name", "url", "version"] {
            assert!(card[member].is_string(), "{member}: {card}");
        }
        for capability in ["streaming", "pushNotifications", "stateTransitionHistory"] {
            assert!(card["capabilities"][capability].is_boolean(), "{capability}: {card}");
        }
    }
}

/// Parses the card at a URL with the protobuf of the 1.x SDK, which refuses unknown members.
fn strict(server: &Server) -> bool {
    const PROGRAM: &str = "
import sys, urllib.request
from a2a.types.a2a_pb2 import AgentCard
from google.protobuf.json_format import Parse
card = Parse(urllib.request.urlopen(sys.argv[1]).read(), AgentCard())
assert card.name and card.supported_interfaces
";
    let python = setup::ensure("python/.venv/.stamp").with_file_name("bin/python");
    let url = format!("{}{}", server.url(), PATHS[0]);
    Command::new(python).args(["-c", PROGRAM, &url]).output().expect("python runs").status.success()
}

#[test]
fn a_clean_card_has_no_member_a_strict_reader_does_not_know() {
    let keys = "auth:\n  required: true\n  keys:\n    - { name: ada, tenant: north, key: \"env:E2E_KEY_ADA\" }\n";
    for options in [Server::options(), Server::options().config(keys).env("E2E_KEY_ADA", "ada-0123456789abcdef")] {
        let clean = options.clone().args(&["--card", "clean"]).start();
        assert!(strict(&clean), "{}", clean.get(PATHS[0]).text());
        let card = clean.get(PATHS[0]).json();
        for foreign in
            ["url", "protocolVersion", "preferredTransport", "additionalInterfaces", "security", "authentication"]
        {
            assert!(card.get(foreign).is_none(), "{foreign}: {card}");
        }
        let hybrid = options.start();
        assert!(!strict(&hybrid), "the hybrid card is for readers who ignore what they do not know");
    }
}
