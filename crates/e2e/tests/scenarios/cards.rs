//! Agent cards: their addresses, the members that strict readers need, and their caching.

use e2e::Server;
use e2e::http::Request;
use serde_json::Value;

const WELL_KNOWN: &str = "/.well-known/agent-card.json";

#[test]
fn the_origin_has_the_default_agents_card() {
    let server = Server::start(&[]);
    let echo = server.get(&format!("/a2a/echo{WELL_KNOWN}"));
    let origin = server.get(WELL_KNOWN);
    assert_eq!(echo.json(), origin.json());
    let scripted = server.get(&format!("/a2a/scripted{WELL_KNOWN}"));
    assert_ne!(echo.json()["name"], scripted.json()["name"]);

    let other = Server::start(&["--default", "scripted"]);
    assert_eq!(other.get(WELL_KNOWN).json()["name"], scripted.json()["name"]);
    let agents = server.get("/agents");
    assert_eq!(agents.status(), 200, "{}", agents.text());
    assert!(agents.text().contains("echo") && agents.text().contains("scripted"));
}

#[test]
fn a_card_has_what_a_strict_reader_needs_and_nothing_it_does_not_know() {
    let server = Server::start(&["--card", "clean"]);
    let known = [
        "name",
        "description",
        "supportedInterfaces",
        "provider",
        "version",
        "documentationUrl",
        "capabilities",
        "securitySchemes",
        "securityRequirements",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
        "signatures",
        "iconUrl",
    ];
    for agent in ["echo", "scripted"] {
        let response = server.get(&format!("/a2a/{agent}{WELL_KNOWN}"));
        assert_eq!(response.head.media_type(), "application/json");
        let card = response.json();
        for member in card.as_object().unwrap().keys() {
            assert!(known.contains(&member.as_str()), "unknown member {member}: {card}");
        }
        for member in ["name", "description", "version"] {
            assert!(card[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {card}");
        }
        for member in ["supportedInterfaces", "defaultInputModes", "defaultOutputModes", "skills"] {
            assert!(card[member].as_array().is_some_and(|list| !list.is_empty()), "{member}: {card}");
        }
        assert_eq!(card["capabilities"]["streaming"], true);
        for skill in card["skills"].as_array().unwrap() {
            for member in ["id", "name", "description"] {
                assert!(skill[member].is_string(), "{skill}");
            }
            assert!(skill["tags"].as_array().is_some_and(|tags| !tags.is_empty()), "{skill}");
        }
        let interfaces = card["supportedInterfaces"].as_array().unwrap();
        for binding in ["JSONRPC", "HTTP+JSON"] {
            let interface = interfaces
                .iter()
                .find(|interface| interface["protocolBinding"] == binding)
                .unwrap_or_else(|| panic!("no {binding}: {card}"));
            assert_eq!(interface["protocolVersion"], "1.0");
            let url = interface["url"].as_str().unwrap();
            assert!(url.starts_with(&format!("{}/a2a/{agent}", server.url())), "{url}");
        }
    }
}

#[test]
fn a_card_follows_the_host_it_was_asked_by() {
    let server = Server::start(&[]);
    let request = Request::new("GET", WELL_KNOWN).header("host", "agents.example:8443");
    let card = server.exchange(&request).json();
    let urls: Vec<&Value> =
        card["supportedInterfaces"].as_array().unwrap().iter().map(|interface| &interface["url"]).collect();
    assert!(
        urls.iter().all(|url| url.as_str().is_some_and(|url| url.starts_with("http://agents.example:8443/"))),
        "{urls:?}"
    );
}

#[test]
fn an_unchanged_card_is_not_sent_again() {
    let server = Server::start(&[]);
    let first = server.get(WELL_KNOWN);
    let etag = first.head.header("etag").expect("an ETag").to_owned();
    let modified = first.head.header("last-modified").expect("a Last-Modified").to_owned();
    assert!(first.head.header("cache-control").is_some_and(|value| value.contains("max-age")));
    for value in [etag.clone(), format!("\"other\", {etag}"), "*".to_owned()] {
        let again = server.exchange(&Request::new("GET", WELL_KNOWN).header("if-none-match", &value));
        assert_eq!(again.status(), 304, "{value}");
        assert!(again.body.is_empty());
        assert_eq!(again.head.header("etag"), Some(etag.as_str()));
    }
    let since = server.exchange(&Request::new("GET", WELL_KNOWN).header("if-modified-since", &modified));
    assert_eq!(since.status(), 304);
    let other = server.exchange(&Request::new("GET", WELL_KNOWN).header("if-none-match", "\"other\""));
    assert_eq!(other.status(), 200);
    assert_eq!(other.body, first.body);
}
