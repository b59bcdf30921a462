//! A request whose handling panics: it is answered with 500 and its id, in its own protocol, and is the only one that fails.

use std::sync::Arc;

use model::ports::Future;
use model::{Fault, Message, Task};
use reqwest::StatusCode;
use serde_json::{Value, json};
use shop::admission::{Needs, ShopCard, StoreAdmission};
use shop::{ShopService, StoreAgentSettings};

use testkit::{Running, engine, saying, settings, start_on};

/// A store admission that panics on demand.
struct Clumsy;

impl StoreAdmission for Clumsy {
    fn needs<'a>(&'a self, _task: Option<&'a Task>, message: &'a Message) -> Future<'a, Result<Needs, Fault>> {
        Box::pin(async move {
            assert_ne!(message.text(), "stumble", "as a test");
            Ok(Needs::default())
        })
    }
    fn scope(&self, _skill: &str) -> Option<&'static str> {
        None
    }
    fn shop<'a>(&'a self, host: &'a str) -> Future<'a, Result<Option<ShopCard>, Fault>> {
        assert_ne!(host, "stumble.example", "as a test");
        Box::pin(async { Ok(None) })
    }
}

async fn open(http: reqwest::Client) -> Running {
    gateway::panics::watch();
    let agents = agents::BUILTIN.iter().map(|builtin| (builtin.build)(&agents::BuiltinSettings::default())).collect();
    let engine = engine(agents).await;
    let mut settings = settings();
    settings.products =
        vec![Arc::new(ShopService::new(engine.clone(), StoreAgentSettings::new("scripted", Arc::new(Clumsy))))];
    start_on(engine, settings, http).await
}

fn rpc(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params })
}

async fn panics(running: &Running) -> u64 {
    let text = running.get("/metrics").send().await.unwrap().text().await.unwrap();
    text.lines()
        .find_map(|line| line.strip_prefix("a2a_panics_total ")?.parse().ok())
        .unwrap_or_else(|| panic!("{text}"))
}

#[tokio::test]
async fn a_panic_is_answered_with_500_and_the_request_id_in_the_callers_protocol_and_counted() {
    for http2 in [false, true] {
        let http = reqwest::Client::builder();
        let http = if http2 { http.http2_prior_knowledge() } else { http };
        let running = open(http.build().unwrap()).await;
        let (stumble, older) = (
            saying("stumble"),
            json!({ "message": {
            "kind": "message", "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "stumble" }],
        } }),
        );
        let before = panics(&running).await;
        let broken = [
            (running.post("/api/a2a", &rpc("SendMessage", &stumble)), true),
            (running.post("/api/a2a", &rpc("SendStreamingMessage", &stumble)), true),
            (running.post("/api/a2a/message:send", &stumble), false),
            (running.rpc("scripted", "SendMessage", &stumble), true),
            (running.rpc("scripted", "SendStreamingMessage", &stumble), true),
            (running.post("/a2a/scripted", &rpc("message/send", &older)), true),
            (running.post("/a2a/scripted/message:send", &stumble), false),
        ];
        let times = broken.len() as u64;
        for (number, (request, enveloped)) in broken.into_iter().enumerate() {
            let id = format!("mine-{number}");
            let answer = request.header("x-request-id", &id).send().await.unwrap();
            assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR, "{number}");
            assert_eq!(answer.headers()["x-request-id"], *id, "{number}");
            let body: Value = answer.json().await.unwrap();
            assert!(body["error"]["message"].as_str().is_some_and(|words| words.contains(&id)), "{number}: {body}");
            if enveloped {
                assert_eq!((&body["jsonrpc"], &body["error"]["code"]), (&json!("2.0"), &json!(-32603)), "{body}");
            }
        }
        let card = running.get("/.well-known/agent-card.json").header("host", "stumble.example").send().await;
        if !http2 {
            let card = card.unwrap();
            assert_eq!(card.status(), StatusCode::INTERNAL_SERVER_ERROR);
            assert!(card.headers().contains_key("x-request-id"));
        }
        assert!(panics(&running).await >= before + times);
        // The same connection serves the next.
        let well = running.rpc("scripted", "SendMessage", &saying("hello")).send().await.unwrap();
        assert_eq!(well.status(), StatusCode::OK);
    }
}
