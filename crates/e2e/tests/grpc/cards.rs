//! The interface of gRPC on agent cards: listed where the config says so, and nowhere else.

use e2e::Server;
use e2e::http::Request;
use serde_json::{Value, json};

use crate::stock::{calls, v03};

/// The places of cards: those of the default agent, `echo`, and of another.
const CARDS: [(&str, Option<&str>); 4] = [
    ("/.well-known/agent-card.json", None),
    ("/.well-known/agent.json", None),
    ("/a2a/echo/.well-known/agent-card.json", None),
    ("/a2a/scripted/.well-known/agent-card.json", Some("a2a/scripted")),
];

fn server(section: &str) -> Server {
    let agents = "default: echo\nagents: { echo: { kind: echo }, scripted: { kind: scripted } }\n";
    Server::options().config(&format!("trusted_proxies: ['127.0.0.1']\n{section}\n{agents}")).start()
}

fn card(server: &Server, path: &str, headers: &[(&str, &str)]) -> Value {
    let request = headers.iter().fold(Request::new("GET", path), |request, (name, value)| request.header(name, value));
    let response = server.exchange(&request);
    assert_eq!(response.status(), 200, "{path}: {}", response.text());
    response.json()
}

/// The interfaces of gRPC in the words of 1.0: version, address, tenant.
fn listed(card: &Value) -> Vec<(&str, &str, Option<&str>)> {
    let all = card["supportedInterfaces"].as_array().unwrap_or_else(|| panic!("{card}"));
    let grpc = all.iter().filter(|one| one["protocolBinding"] == "GRPC");
    grpc.map(|one| (one["protocolVersion"].as_str().unwrap(), one["url"].as_str().unwrap(), one["tenant"].as_str()))
        .collect()
}

/// Their addresses in the words of 0.3.
fn listed_for_older(card: &Value) -> Vec<&str> {
    let all = card["additionalInterfaces"].as_array().into_iter().flatten();
    all.filter(|one| one["transport"] == "GRPC").map(|one| one["url"].as_str().unwrap()).collect()
}

/// A card that the service of 0.3 returns.
fn card_of_the_service(server: &Server) -> Value {
    let answer = calls(server, &[v03("", "GetAgentCard", json!({}))]).remove(0);
    assert_eq!(answer["code"], Value::Null, "{answer}");
    answer["messages"][0].clone()
}

#[test]
fn cards_list_the_public_address_where_the_config_advertises_it() {
    let public = "agents.example:443";
    let server = server(&format!("grpc: {{ advertise: true, public: '{public}' }}"));
    let behind: &[(&str, &str)] = &[("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "agents.example")];
    for (headers, scheme) in [(&[][..], "http"), (behind, "https"), (&[("X-Forwarded-Proto", "https")], "https")] {
        for (path, tenant) in CARDS {
            let card = card(&server, path, headers);
            let row = format!("{path} {headers:?}: {card}");
            let older = format!("{scheme}://{public}");
            // Clients of 0.3 name no agent, so only the default one has the interface.
            let expected = match tenant {
                Some(_) => vec![("1.0", public, tenant)],
                None => vec![("1.0", public, None), ("0.3", &*older, None)],
            };
            assert_eq!(listed(&card), expected, "{row}");
            let expected = if tenant.is_none() { vec![&*older] } else { Vec::new() };
            assert_eq!(listed_for_older(&card), expected, "{row}");
        }
    }
    let told = card_of_the_service(&server);
    assert_eq!(listed_for_older(&told), [&*format!("http://{public}")], "{told}");
}

#[test]
fn cards_list_the_address_of_the_request_where_none_is_configured() {
    let server = server("grpc: { advertise: true }");
    let here = server.addr().to_string();
    for (headers, address) in [
        (&[][..], &*here),
        (&[("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "agents.example")], "agents.example:443"),
        (&[("X-Forwarded-Proto", "http"), ("X-Forwarded-Host", "agents.example")], "agents.example:80"),
        (&[("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "agents.example:8443")], "agents.example:8443"),
    ] {
        for (path, tenant) in CARDS {
            let card = card(&server, path, headers);
            assert_eq!(listed(&card)[0], ("1.0", address, tenant), "{path} {headers:?}: {card}");
        }
    }
}

#[test]
fn no_card_lists_grpc_where_it_is_not_advertised() {
    for section in ["", "grpc: { public: 'agents.example:443' }", "grpc: { advertise: false }"] {
        let server = server(section);
        for (path, _) in CARDS {
            let card = card(&server, path, &[]).to_string();
            assert!(!card.contains("GRPC"), "{section}: {path}: {card}");
        }
        let told = card_of_the_service(&server).to_string();
        assert!(!told.contains("GRPC"), "{section}: {told}");
    }
}

#[test]
fn a_card_of_1_0_alone_lists_no_address_with_a_scheme() {
    let agents = "default: echo\nagents: { echo: { kind: echo }, scripted: { kind: scripted } }\n";
    let options = Server::options().args(&["--card", "clean"]);
    let server =
        options.config(&format!("grpc: {{ advertise: true, public: 'agents.example:443' }}\n{agents}")).start();
    for (path, tenant) in CARDS {
        let card = card(&server, path, &[]);
        assert_eq!(listed(&card), [("1.0", "agents.example:443", tenant)], "{path}: {card}");
    }
}
