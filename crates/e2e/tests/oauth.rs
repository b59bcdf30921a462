//! Tokens for workspaces, requested by a third-party library: every grant, refresh, revocation, and the refusals.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::process::Command;

use e2e::http::Request;
use e2e::{Server, setup};
use serde_json::json;

const CONFIG: &str = "
agents: { store: { kind: echo } }
aly: { agent: store, sites: { acme: acme-ws } }
auth:
  keys:
    - { name: owner, tenant: acme-ws, key: 'env:OWNER_KEY' }
    - { name: stranger, tenant: other-ws, key: 'env:STRANGER_KEY' }
";

fn start() -> Server {
    Server::options()
        .config(CONFIG)
        .env("OWNER_KEY", "key-of-the-owner")
        .env("STRANGER_KEY", "key-of-a-stranger")
        .start()
}

#[test]
fn a_stock_client_gets_renews_and_gives_back_tokens() {
    let server = start();
    let python = setup::ensure("oauth/.venv/.stamp").with_file_name("bin/python");
    let mut program = Command::new(python);
    program.arg(setup::clients().join("oauth/scenarios.py")).args([
        &*server.url(),
        "key-of-the-owner",
        "key-of-a-stranger",
    ]);
    setup::run_scenarios(program.env("PYTHONDONTWRITEBYTECODE", "1"));
}

/// Granted tokens stay valid after a crash, and revoked ones stay revoked.
#[test]
fn tokens_outlive_the_server() {
    let mut server = start();
    let register = json!({ "grant_types": ["client_credentials"], "token_endpoint_auth_method": "client_secret_post" });
    let request = Request::new("POST", "/oauth/register").header("Authorization", "Bearer key-of-the-owner");
    let client = server.exchange(&request.json(&register)).json();
    let (id, secret) = (client["client_id"].as_str().unwrap(), client["client_secret"].as_str().unwrap());
    let form = |server: &Server, path: &str, form: &str| {
        let request = Request::new("POST", path).header("Content-Type", "application/x-www-form-urlencoded");
        let body = format!("client_id={id}&client_secret={secret}&{form}");
        let answer = server.exchange(&request.body(body));
        assert_eq!(answer.status(), 200, "{}", answer.text());
        answer.json()
    };
    let token = |server: &Server| {
        let answer = form(server, "/oauth/token", "grant_type=client_credentials");
        answer["access_token"].as_str().unwrap().to_owned()
    };
    let status = |server: &Server, token: &str| {
        let request = Request::new("GET", "/aly/api/a2a/tasks").header("Authorization", &format!("Bearer {token}"));
        server.exchange(&request).status()
    };
    let (kept, revoked) = (token(&server), token(&server));
    form(&server, "/oauth/revoke", &format!("token={revoked}"));
    server.kill9();
    server.restart();
    assert_eq!((status(&server, &kept), status(&server, &revoked)), (200, 401));
    assert_eq!(status(&server, &token(&server)), 200, "the client is known");
}
