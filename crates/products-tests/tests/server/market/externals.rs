//! Agents that live elsewhere and their webhooks, over the socket.

use std::sync::Arc;

use aws_lc_rs::hmac;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use testkit::until;

const SECRET: &str = "a secret of sixteen";

/// Head and body of every request.
type Got = Arc<Mutex<Vec<(String, String)>>>;

/// An endpoint that takes everything.
async fn endpoint() -> (String, Got) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let got = Got::default();
    let kept = got.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let kept = kept.clone();
            tokio::spawn(async move {
                let mut text = String::new();
                loop {
                    let mut piece = [0; 4_096];
                    let read = socket.read(&mut piece).await.unwrap();
                    text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let head = head.to_lowercase();
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
                    if body.len() == length.parse::<usize>().unwrap() {
                        kept.lock().push((head, body.to_owned()));
                        let _ = socket.write_all(b"HTTP/1.1 204 X\r\nconnection: close\r\n\r\n").await;
                        return;
                    }
                }
            });
        }
    });
    (url, got)
}

impl House {
    async fn with(&self, user: &str, verb: Method, path: &str, body: Value) -> (u16, Value) {
        told(self.by(user, verb, path).json(&body)).await
    }
}

#[tokio::test]
async fn an_external_agent_is_told_what_happens() {
    let house = house().await;
    let mut config = (*house.market.config()).clone();
    config.capabilities.private_callbacks = true;
    house.market.set_config(config);
    let (url, got) = endpoint().await;
    let capability = house.sold("0", json!({})).await;
    let new = "/external-agents?platform_url=https%3A%2F%2Fagents.example.com&agent_name=Watcher&auth_type=api_key";
    let made = house.done(SELLER, new, json!({})).await;
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&made["agent_name"], &made["auth_type"], &made["webhook"]),
        (&json!("Watcher"), &json!("api_key"), &json!(null))
    );
    let at = format!("/external-agents/{id}/webhook");
    let events = json!(["transaction.created", "transaction.cancelled"]);
    let hook = json!({ "webhook_url": url, "webhook_events": events, "webhook_secret": SECRET });
    let (status, mut set) = house.with(SELLER, Method::PATCH, &at, hook).await;
    assert_eq!(status, 200, "{set}");
    let set = set["data"].take();
    assert_eq!(set["webhook"], json!({ "webhook_url": url, "webhook_events": events }));
    assert_eq!(set["deliveries"], json!({ "pending": 0, "dead": 0, "last_dead": [] }));

    let bought = house.done(BUYER, "/transactions", json!({ "capability_id": capability })).await;
    let tx = bought["id"].as_str().unwrap();
    house.done(BUYER, &format!("/transactions/{tx}/freeze"), json!({})).await;
    house.done(BUYER, &format!("/transactions/{tx}/cancel"), json!({})).await;
    until("both are told", async || got.lock().len() == 2).await;
    let told: Vec<Value> = got.lock().iter().map(|(_, body)| serde_json::from_str(body).unwrap()).collect();
    for (event, status) in [("transaction.created", "pending_freeze"), ("transaction.cancelled", "cancelled_by_buyer")]
    {
        let one = told.iter().find(|one| one["event_type"] == event).unwrap();
        assert_eq!((&one["data"]["transaction_id"], &one["data"]["status"]), (&json!(tx), &json!(status)));
        assert_eq!(one["external_agent_id"], *id);
    }
    for (head, body) in got.lock().iter() {
        let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        // Event ids have no capitals.
        let (stamp, request) = (header("x-uuagent-timestamp"), header("x-uuagent-request-id"));
        let tag = hmac::sign(&key, format!("{stamp}.{request}.{body}").as_bytes());
        let signature: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(header("x-uuagent-signature"), signature);
    }
    let pending = async || house.get(SELLER, &format!("/external-agents/{id}")).await.1["data"]["deliveries"].take();
    until("nothing waits", async || pending().await == json!({ "pending": 0, "dead": 0, "last_dead": [] })).await;

    let (_, without) = told_of(&house, Method::DELETE, &at).await;
    assert_eq!(without["data"]["webhook"], json!(null));
    let again = house.done(SELLER, &format!("{at}/redeliver"), json!({})).await;
    assert_eq!(again, json!({ "id": id, "redelivered": 0 }));
    let (status, removed) = told_of(&house, Method::DELETE, &format!("/external-agents/{id}")).await;
    assert_eq!((status, &removed["data"]), (200, &json!({ "id": id, "removed": true })));
    assert_eq!(refusal(&house.get(SELLER, &format!("/external-agents/{id}")).await), (404, 1004));
}

async fn told_of(house: &House, verb: Method, path: &str) -> (u16, Value) {
    told(house.by(SELLER, verb, path)).await
}

#[tokio::test]
async fn external_agents_are_their_owners_and_secrets_are_not_shown() {
    let house = house().await;
    let body = json!({ "platform_url": "https://agents.example.com", "agent_name": "Watcher" });
    let id = house.done(SELLER, "/external-agents", body.clone()).await["id"].as_str().unwrap().to_owned();
    let (one, at) = (format!("/external-agents/{id}"), format!("/external-agents/{id}/webhook"));
    let hook = |name: &str, value: Value| {
        let mut body = json!({ "webhook_url": "https://hooks.example.com/in", "webhook_secret": SECRET });
        body[name] = value;
        body
    };
    for (expected, user, verb, path, body) in [
        ((400, 1001), SELLER, Method::POST, "/external-agents", json!({})),
        ((422, 1008), SELLER, Method::POST, "/external-agents?platform_url=ftp:x&agent_name=a", json!({})),
        ((400, 1001), SELLER, Method::PATCH, &*at, json!({})),
        ((400, 1001), SELLER, Method::PATCH, &at, json!({ "webhook_url": "https://hooks.example.com" })),
        ((422, 1008), SELLER, Method::PATCH, &at, hook("webhook_url", json!("http://hooks.example.com"))),
        ((422, 1008), SELLER, Method::PATCH, &at, hook("webhook_url", json!("https://127.0.0.1/"))),
        ((422, 1008), SELLER, Method::PATCH, &at, hook("webhook_secret", json!("short"))),
        ((422, 1008), SELLER, Method::PATCH, &at, hook("webhook_events", json!(["moon.full"]))),
        ((422, 1008), SELLER, Method::PATCH, &at, hook("webhook_events", json!([]))),
        ((400, 1001), SELLER, Method::PATCH, &at, hook("webhook_events", json!("all"))),
        ((404, 1004), BUYER, Method::PATCH, &at, hook("webhook_url", json!("https://hooks.example.com"))),
        ((404, 1004), BUYER, Method::DELETE, &at, json!({})),
        ((404, 1004), BUYER, Method::DELETE, &one, json!({})),
        ((404, 1004), BUYER, Method::POST, &format!("{at}/redeliver"), json!({})),
        ((405, 1001), SELLER, Method::PUT, &at, json!({})),
    ] {
        let answer = house.with(user, verb.clone(), path, body.clone()).await;
        assert_eq!(refusal(&answer), expected, "{user} {verb} {path} {body}: {answer:?}");
    }
    let set = house.with(SELLER, Method::PATCH, &at, hook("webhook_events", json!(["order.completed"]))).await;
    let shown = house.get(SELLER, &one).await;
    let listed = house.get(SELLER, "/external-agents").await;
    for answer in [&set, &shown, &listed] {
        assert_eq!(answer.0, 200, "{answer:?}");
        assert!(!answer.1.to_string().contains(SECRET), "{answer:?}");
    }
    let webhook = json!({ "webhook_url": "https://hooks.example.com/in", "webhook_events": ["order.completed"] });
    assert_eq!(shown.1["data"]["webhook"], webhook);
    assert_eq!((&listed.1["data"]["total"], &listed.1["data"]["items"][0]["webhook"]), (&json!(1), &webhook));
    assert_eq!(house.get(BUYER, "/external-agents").await.1["data"]["total"], 0);
    assert_eq!(refusal(&house.get(BUYER, &one).await), (404, 1004));

    // The same key with another query is another request.
    let keyed = |query: &str| {
        let path = format!("/external-agents?platform_url=https%3A%2F%2Fa.example.com&agent_name={query}");
        told(house.by(SELLER, Method::POST, &path).header("Idempotency-Key", "k"))
    };
    let first = keyed("a").await;
    assert_eq!(keyed("a").await.1["data"], first.1["data"]);
    assert_eq!(refusal(&keyed("b").await), (409, 1005));
}
