//! Where addresses in answers come from, and which answers caches may keep.

use http::header::{CACHE_CONTROL, VARY};
use serde_json::{Value, json};

use crate::aly::{key_of, open};
use crate::market::start_market;
use crate::oauth::{asked, challenge, public, query};
use testkit::{As, Running, saying, sends, settings, start, with_keys};

/// Texts that an answer to a caller without access must not contain.
const CLAIMS: [(&str, &str); 4] = [
    ("x-forwarded-host", "evil.example"),
    ("forwarded", "for=1.2.3.4;host=evil.example;proto=https"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-for", "127.0.0.1"),
];

/// The documents that tell the address they were asked at.
const DOCUMENTS: [&str; 12] = [
    "/.well-known/agent-card.json",
    "/.well-known/agent.json",
    "/a2a/scripted/.well-known/agent-card.json",
    "/a2a/echo/.well-known/agent.json",
    "/aly/.well-known/agent-card.json",
    "/api/a2a/.well-known/agent-card.json",
    "/.well-known/oauth-authorization-server",
    "/aly/.well-known/oauth-authorization-server",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/aly/api/a2a",
    "/agents",
    "/",
];

async fn told(running: &Running, path: &str, claims: &[(&str, &str)]) -> reqwest::Response {
    let mut request = running.get(path);
    for (name, value) in claims {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer
}

#[tokio::test]
async fn only_a_trusted_proxy_says_where_the_server_is() {
    let plain = open(|_, _| {}).await;
    let behind = open(|settings, _| settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()]).await;
    let elsewhere = open(|settings, _| settings.trusted_proxies = vec!["10.0.0.0/8".parse().unwrap()]).await;
    for path in DOCUMENTS {
        for running in [&plain, &elsewhere] {
            let honest = told(running, path, &[]).await.text().await.unwrap();
            assert_eq!(told(running, path, &CLAIMS).await.text().await.unwrap(), honest, "{path}");
            for claim in CLAIMS {
                assert_eq!(told(running, path, &[claim]).await.text().await.unwrap(), honest, "{path} {claim:?}");
            }
        }
        for said in [
            &[("x-forwarded-host", "evil.example, shop.example"), ("x-forwarded-proto", "https")][..],
            &[("forwarded", "for=6.6.6.6;host=evil.example, for=9.9.9.9;host=shop.example;proto=https")],
        ] {
            let text = told(&behind, path, said).await.text().await.unwrap();
            assert!(text.contains("https://shop.example/") && !text.contains("evil.example"), "{path}: {text}");
        }
    }
    let market = start_market(settings(), market::service::MarketConfig::default(), |_| {}).await;
    for path in ["/uumit/.well-known/agent.json", "/api/v1/openapi.json"] {
        let text = told(&market, path, &CLAIMS).await.text().await.unwrap();
        assert!(!text.contains("evil.example"), "{path}: {text}");
    }
}

#[tokio::test]
async fn what_tells_its_address_is_kept_for_that_address_alone() {
    let running = open(|_, _| {}).await;
    let market = start_market(settings(), market::service::MarketConfig::default(), |_| {}).await;
    let documents = DOCUMENTS[..10].iter().map(|path| (&running, *path));
    for (running, path) in documents.chain([(&market, "/uumit/.well-known/agent.json")]) {
        let answer = told(running, path, &[]).await;
        assert_eq!(answer.headers()[CACHE_CONTROL], "public, max-age=300", "{path}");
        let vary = answer.headers()[VARY].to_str().unwrap();
        for name in ["host", "forwarded", "x-forwarded-host", "x-forwarded-proto"] {
            assert!(vary.split(", ").any(|one| one == name), "{path}: {vary}");
        }
    }
}

/// An answer that no cache may keep.
async fn private(what: &str, request: reqwest::RequestBuilder) -> Value {
    let answer = request.send().await.unwrap();
    let said = answer.headers()[CACHE_CONTROL].to_str().unwrap().to_owned();
    assert!(said.split(", ").any(|one| one == "no-store"), "{what}: {said}");
    let text = answer.text().await.unwrap();
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

#[tokio::test]
async fn private_answers_are_kept_by_nobody() {
    let running = start(with_keys(&["ann"])).await;
    for (dialect, request) in sends(&running, "echo") {
        private(dialect, request.caller("ann")).await;
    }
    for (dialect, request) in sends(&running, "echo") {
        private(&format!("{dialect}, refused"), request.header("authorization", "Bearer wrong")).await;
    }
    let task = private("a send", running.rpc("echo", "SendMessage", &saying("hi")).caller("ann")).await;
    let id = task["result"]["task"]["id"].as_str().unwrap().to_owned();
    for (method, params) in [
        ("GetTask", json!({ "id": id })),
        ("ListTasks", json!({})),
        ("CancelTask", json!({ "id": id })),
        ("GetExtendedAgentCard", json!({})),
        ("SendStreamingMessage", saying("hi")),
    ] {
        private(method, running.rpc("echo", method, &params).caller("ann")).await;
    }
    for path in [
        format!("/a2a/echo/tasks/{id}"),
        format!("/a2a/echo/v1/tasks/{id}"),
        "/a2a/echo/tasks".to_owned(),
        "/a2a/echo/extendedAgentCard".to_owned(),
        "/a2a/echo/v1/card".to_owned(),
        "/a2a/echo/agent/authenticatedExtendedCard".to_owned(),
        "/nowhere".to_owned(),
        "/metrics".to_owned(),
        format!("/files/{}?tenant=x", "ab".repeat(32)),
    ] {
        private(&path, running.get(&path).caller("ann")).await;
    }
    let aly = open(|_, _| {}).await;
    let token = key_of(&aly, "acme-ws", &[]).await;
    for path in ["/api/a2a/tasks", "/aly/api/a2a/tasks/task_0"] {
        private(path, aly.get(path).bearer_auth(&token)).await;
    }
}

#[tokio::test]
async fn a_resource_is_named_exactly() {
    let running = open(|_, _| {}).await;
    let client = public(&running).await;
    let (base, challenge) = (running.url(""), challenge());
    for (resource, is_ours) in [
        (format!("{base}/api/a2a"), true),
        (format!("{base}/aly/api/a2a"), true),
        (base.clone(), false),
        (format!("{base}/"), false),
        (format!("{base}/api/a2a/"), false),
        (format!("{base}/api/a2a?x=1"), false),
        (format!("{base}/api/a2a#x"), false),
        (format!("{base}/api/a2a/../admin"), false),
        (format!("{base}.evil.example/api/a2a"), false),
        (format!("{base}@evil.example/api/a2a"), false),
        (format!("{base}/API/a2a"), false),
        ("https://evil.example/api/a2a".to_owned(), false),
        ("/api/a2a".to_owned(), false),
    ] {
        let mut fields = asked(&client, &challenge);
        fields.push(("resource", &resource));
        let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
        let answer = http.get(running.url(&query(&fields))).send().await.unwrap();
        let refused = answer.headers().get("location").map(|to| to.to_str().unwrap().contains("error=invalid_target"));
        assert_eq!(refused, if is_ours { None } else { Some(true) }, "{resource}");
        let form = [
            ("grant_type", "authorization_code"),
            ("client_id", &*client),
            ("code", "aly_code_none"),
            ("code_verifier", "a-verifier-that-is-long-enough-to-be-one-0123456789"),
            ("resource", &*resource),
        ];
        let (_, answer) = crate::oauth::post(&running, "/oauth/token", &form).await;
        let expected = if is_ours { "invalid_grant" } else { "invalid_target" };
        assert_eq!(answer["error"], expected, "{resource}");
    }
    for (path, resource) in [
        ("/.well-known/oauth-protected-resource", "/api/a2a"),
        ("/.well-known/oauth-protected-resource/api/a2a", "/api/a2a"),
        ("/.well-known/oauth-protected-resource/aly/api/a2a", "/aly/api/a2a"),
        ("/aly/.well-known/oauth-protected-resource", "/aly/api/a2a"),
    ] {
        let document: Value = running.get(path).send().await.unwrap().json().await.unwrap();
        assert_eq!(document["resource"], format!("{base}{resource}"), "{path}");
    }
}
