//! 401, 403, 429 and 503 by a running server, in every generation and binding.

use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gateway::Settings;
use gateway::settings::{Algorithm, Issuer, KeySource, RateLimit};
use model::Kind;
use serde_json::json;

use testkit::{As, allow, assert_refused, key, list, saying, sends, settings, start};

#[tokio::test]
async fn whoever_is_not_known_is_asked_who_they_are() {
    let running = start(Settings { auth_required: true, keys: vec![key("ann", "red")], ..settings() }).await;
    for (name, request) in sends(&running, "echo") {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["www-authenticate"], "Bearer realm=\"a2a\"", "{name}");
        assert_refused(name, Kind::Unauthenticated, 401, answer).await;
    }
    for (name, request) in sends(&running, "echo") {
        assert_eq!(request.caller("ann").send().await.unwrap().status(), 200, "{name}");
    }
}

#[tokio::test]
async fn whoever_may_not_is_told_what_and_where() {
    let policy = vec![gateway::settings::Rule { callers: list(&["ann"]), ..allow() }];
    let keys = vec![key("ann", "red"), key("bob", "red")];
    let running = start(Settings { keys, policy: Some(policy), ..settings() }).await;
    for (name, request) in sends(&running, "echo") {
        let body = assert_refused(name, Kind::Forbidden, 403, request.caller("bob").send().await.unwrap()).await;
        assert!(body.to_string().contains("send at the agent echo"), "{name}: {body}");
    }
    for (name, request) in sends(&running, "echo") {
        assert_eq!(request.caller("ann").send().await.unwrap().status(), 200, "{name}");
    }
    for (name, request) in sends(&running, "echo") {
        assert_refused(name, Kind::Unauthenticated, 401, request.send().await.unwrap()).await;
    }
}

#[tokio::test]
async fn whoever_calls_too_often_is_told_when_to_go_on() {
    let one = RateLimit { per_minute: NonZeroU32::MIN, burst: NonZeroU32::MIN };
    for by_address in [false, true] {
        let mut settings = Settings { keys: vec![key("ann", "red"), key("bob", "red")], ..settings() };
        if by_address {
            settings.throttle.per_ip = Some(one);
        } else {
            settings.throttle.per_caller = Some(one);
        }
        let running = start(settings).await;
        let (_, first) = sends(&running, "echo").remove(0);
        assert_eq!(first.caller("ann").send().await.unwrap().status(), 200);
        for (name, request) in sends(&running, "echo") {
            // Before the body is read the method is unknown: a request that is not 1.0 by its path or version is
            // answered as 0.3.
            let answer = request.caller("ann").send().await.unwrap();
            let wait: u32 = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((1..=60).contains(&wait), "{name}: {wait}");
            assert_refused(name, Kind::RateLimited, 429, answer).await;
        }
        let limit = if by_address { "per_ip" } else { "per_caller" };
        assert!(running.metric(&format!("a2a_rate_limited_total{{limit=\"{limit}\"}} 5")).await, "{limit}");
        let (_, other) = sends(&running, "echo").remove(0);
        let other = other.caller("bob").send().await.unwrap().status().as_u16();
        assert_eq!(other, if by_address { 429 } else { 200 });
        assert_eq!(running.get("/healthz").send().await.unwrap().status(), 200);
        let card = running.get("/.well-known/agent-card.json").send().await.unwrap().status().as_u16();
        assert_eq!(card, if by_address { 429 } else { 200 });
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_checked_is_no_wrong_token() {
    // A port without a listener.
    let url = "http://127.0.0.1:1/jwks".to_owned();
    let source = KeySource::Jwks { url, algorithms: vec![Algorithm::ES256] };
    let issuers = vec![Issuer::new("https://idp.example", vec!["rialto".into()], source)];
    let running = start(Settings { issuers, keys: vec![key("ann", "red")], auth_required: true, ..settings() }).await;
    let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let token = format!("{}.{}.AAAA", part(json!({ "alg": "ES256" })), part(json!({ "iss": "https://idp.example" })));
    for (name, request) in sends(&running, "echo") {
        let answer = request.bearer_auth(&token).send().await.unwrap();
        assert!(answer.headers().contains_key("retry-after"), "{name}");
        assert_refused(name, Kind::Unavailable, 503, answer).await;
    }
    for (name, request) in sends(&running, "echo") {
        assert_eq!(request.caller("ann").send().await.unwrap().status(), 200, "{name}: keys are as good as ever");
    }
    let stranger = format!("{}.{}.AAAA", part(json!({ "alg": "ES256" })), part(json!({ "iss": "\"quoted\\" })));
    for (name, request) in sends(&running, "echo") {
        let answer = request.bearer_auth(&stranger).send().await.unwrap();
        let said = answer.headers()["www-authenticate"].to_str().unwrap().to_owned();
        let expected = "Bearer realm=\"a2a\", error=\"invalid_token\", error_description=\"the token's issuer is not trusted here\"";
        assert_eq!(said, expected, "{name}");
        assert_refused(name, Kind::Unauthenticated, 401, answer).await;
    }
}

#[tokio::test]
async fn a_refusal_tells_nothing_about_tasks() {
    let policy = vec![
        gateway::settings::Rule { callers: list(&["ann"]), ..allow() },
        gateway::settings::Rule { callers: list(&["bob"]), methods: list(&["send"]), ..allow() },
    ];
    let keys = vec![key("ann", "red"), key("bob", "red")];
    let running = start(Settings { keys, policy: Some(policy), ..settings() }).await;
    let sent: serde_json::Value =
        running.rpc("echo", "SendMessage", &saying("mine")).caller("ann").send().await.unwrap().json().await.unwrap();
    let id = sent["result"]["task"]["id"].as_str().unwrap().to_owned();
    let missing = "019aa000-0000-7000-8000-00000000abcd";
    // Without a version the task's opener decides the form of a refusal, but not for callers without permission.
    for method in ["GetTask", "tasks/get", "tasks/cancel", "tasks/resubscribe", "CancelTask", "SubscribeToTask"] {
        let ask = async |id: &str| {
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": { "id": id } });
            let answer = running.post("/a2a/echo", &body).caller("bob").send().await.unwrap();
            (answer.status(), answer.text().await.unwrap())
        };
        let there = ask(&id).await;
        assert_eq!(there, ask(missing).await, "{method}");
        assert!(there.1.contains("may not"), "{method}: {}", there.1);
    }
}
