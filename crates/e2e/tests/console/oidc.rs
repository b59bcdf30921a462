//! Sign-in at an OpenID provider: a complete one in Node, and Chromium between the two.

use std::process::{Child, Command, Stdio};

use e2e::http::Request;
use e2e::server::free_address;
use e2e::{Server, poll, setup, until};
use serde_json::{Value, json};

use super::{BASE, CONFIG, in_chromium_with};

const SECRET: &str = "c2e8b7f1 of/the+client:%";

/// A provider that ends with the value.
struct Provider(Child);

impl Drop for Provider {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Provider {
    /// Starts one for the server at this address.
    fn start(port: u16, callback: &str, public_callback: &str) -> Provider {
        let stamp = setup::ensure("js-oidc/node_modules/.stamp");
        let script = stamp.ancestors().nth(2).unwrap().join("provider.mjs");
        let mut node = Command::new("node");
        node.arg(script).args([&*port.to_string(), callback, public_callback, SECRET]);
        let child = node.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("node runs");
        let provider = Provider(child);
        until("the provider listens", poll::PATIENCE, || {
            let url = format!("http://localhost:{port}/.well-known/openid-configuration");
            let asked = Command::new("curl").args(["-sf", "-o", "/dev/null", &url]).status().expect("curl runs");
            asked.success().then_some(())
        });
        provider
    }
}

const RULES: &str = "roles: [{ claim: groups, value: ops, role: admin, tenant: default }, \
                     { claim: groups, value: on-call, role: operator, tenant_claim: org }]";

fn config(port: u16, client: &str, more: &str) -> String {
    let oidc = format!("issuer: 'http://localhost:{port}', client_id: {client}, name: Example, {more} {RULES}");
    format!("{CONFIG}console: {{ oidc: {{ {oidc} }} }}\n")
}

#[test]
fn people_sign_in_at_a_provider() {
    let port = free_address().port();
    let secret = config(port, "rialto", "client_secret: 'env:OIDC_SECRET',");
    let server = Server::options().config(&secret).env("OIDC_SECRET", SECRET).start();
    let public =
        Server::options().config(&config(port, "rialto-public", "scopes: [profile], algorithms: [ES256],")).start();
    let callback = |server: &Server| format!("{}{BASE}/session/oidc/callback", server.url());
    let _provider = Provider::start(port, &callback(&server), &callback(&public));
    in_chromium_with(&server, "console_oidc.py", &[&format!("http://localhost:{port}"), &public.url()]);
    let log = std::fs::read_to_string(server.data().join("audit.log")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let began: Vec<Value> = lines.filter(|line| line["what"] == "sessions").collect();
    for (name, role, tenant) in [("ann", "admin", "default"), ("bob", "operator", "north")] {
        let line = began.iter().find(|line| line["by"].as_str().unwrap().ends_with(&format!("#{name}")));
        let line = line.unwrap_or_else(|| panic!("no line of {name}: {log}"));
        assert_eq!((&line["change"], &line["role"], &line["tenant"]), (&json!("began"), &json!(role), &json!(tenant)));
    }
    assert!(!log.contains("#eve") && !log.contains(SECRET) && !server.log().contains(SECRET), "{log}");
}

#[test]
fn without_a_provider_there_is_a_key_and_one_that_is_down_is_told() {
    let options = |server: &Server| server.get(&format!("{BASE}/session/options")).json();
    let server = super::start("");
    assert_eq!(options(&server), json!({ "provider": null }));
    for path in ["/session/oidc", "/session/oidc/callback?state=x&code=y&session_state=z"] {
        let answer = server.get(&format!("{BASE}{path}"));
        assert_eq!((answer.status(), answer.head.media_type()), (400, "text/html"), "{}", answer.text());
        assert!(answer.text().contains("console.oidc"), "{}", answer.text());
    }
    let down = Server::options().config(&config(free_address().port(), "rialto", "")).start();
    assert_eq!(options(&down), json!({ "provider": "Example" }));
    let answer = down.get(&format!("{BASE}/session/oidc?then=/console/tasks"));
    assert_eq!((answer.status(), answer.head.media_type()), (503, "text/html"), "{}", answer.text());
    assert!(answer.text().contains("try again in a moment"), "{}", answer.text());
    let policy = answer.head.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    // A page of another site sends the browser here without harm: nothing is begun but a sign-in.
    let asked = Request::new("GET", &format!("{BASE}/session/oidc")).header("sec-fetch-site", "cross-site");
    assert_eq!(down.exchange(&asked).status(), 503);
}
