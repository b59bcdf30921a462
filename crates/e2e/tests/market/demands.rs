//! Demands, the capabilities that match them, and webhooks of external agents that survive a server's crash.

use std::collections::BTreeSet;

use e2e::http::Request;
use e2e::poll::{PATIENCE, until};
use e2e::{Delivery, Receiver, Reply};
use serde_json::{Value, json};

use crate::people::{FREE_HAND, Person, open, start, verify};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn wanted() -> Value {
    json!({
        "title": "OCR of invoices", "description": "Read 200 scanned invoices and give me their totals as numbers",
        "category": "documents", "tags": ["ocr", "pdf"], "budget_ut": "100",
        "acceptance_criteria": "Every total is right to the cent",
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// An external agent with a webhook for every event.
fn watcher(person: &Person, url: &str) -> String {
    let new = "/external-agents?platform_url=https%3A%2F%2Fagents.example.com&agent_name=Watcher&auth_type=none";
    let id = text(&person.ok("POST", new, &json!({}))["id"]);
    let hook = json!({ "webhook_url": url, "webhook_secret": SECRET });
    let set = person.ok("PATCH", &format!("/external-agents/{id}/webhook"), &hook);
    assert!(!set.to_string().contains(SECRET), "{set}");
    id
}

#[test]
fn a_buyer_finds_what_fits_and_a_seller_finds_who_wants_it() {
    let server = start("true");
    let (buyer, seller) = (open(&server, "1000", FREE_HAND), open(&server, "0", &[]));
    let fitting = seller.sell("80", json!({ "tags": ["ocr", "pdf"] }));
    let dear = seller.sell("180", json!({ "tags": ["ocr"] }));
    seller.sell("5", json!({ "title": "Songs", "description": "Sung for birthdays", "category": "music" }));
    let demand = text(&buyer.ok("POST", "/demands", &wanted())["id"]);
    let clarity = buyer.ok("POST", &format!("/demands/{demand}/evaluate-clarity"), &Value::Null);
    assert!((45..=100).contains(&clarity["score"].as_u64().unwrap()), "{clarity}");

    let found = buyer.ok("POST", "/capabilities/match", &json!({ "demand_id": demand, "top_k": 5 }));
    let ids: Vec<String> =
        found["items"].as_array().unwrap().iter().map(|one| text(&one["capability"]["id"])).collect();
    assert_eq!(ids, [fitting.clone(), dear], "{found}");
    let wanting = seller.ok("POST", &format!("/capabilities/{fitting}/discover-demands?top_k=3"), &Value::Null);
    assert_eq!((&wanting["items"][0]["demand"]["id"], wanting["items"].as_array().unwrap().len()), (&json!(demand), 1));

    // By JSON-RPC an order names its demand too.
    let order = json!({ "capability_id": fitting, "demand_id": demand });
    let task = buyer.rpc("tasks/send", order).expect("it is ordered");
    let at = |status: &str| {
        let now = buyer.ok("GET", &format!("/demands/{demand}"), &Value::Null);
        assert_eq!(now["status"], status, "{now}");
    };
    at("matched");
    assert_eq!(seller.refused("GET", &format!("/demands/{demand}"), &Value::Null), (404, 1004));
    buyer.rpc("tasks/cancel", json!({ "id": task["id"] })).expect("it is cancelled");
    at("open");
    buyer.ok("POST", &format!("/demands/{demand}/cancel"), &Value::Null);
    at("cancelled");
    let check = server.exchange(&Request::new("GET", "/api/v1/pricing/anomaly-check?price_ut=80&category=documents"));
    assert_eq!((check.status(), &check.json()["data"]["level"]), (200, &json!("unknown")));
}

/// Every event is delivered under its own id despite the kills, and no other is.
#[test]
fn webhooks_arrive_however_often_the_server_is_killed() {
    let mut server = start("{ private_callbacks: true }");
    let (buyer, seller) = (open(&server, "1000", FREE_HAND), open(&server, "0", &[]));
    let receiver = Receiver::start();
    let capability = seller.sell("10", json!({}));
    let agent = watcher(&seller, &receiver.url("/hook"));
    let mut expected = BTreeSet::new();
    for round in 0..3 {
        // Nothing is delivered before the kill: the endpoint hangs, fails, or is down for long enough.
        receiver.answers(move |_| match round {
            0 => Reply::Hang,
            1 => Reply::Status(503),
            _ => Reply::Close,
        });
        let id = text(&buyer.ok("POST", "/transactions", &json!({ "capability_id": capability }))["id"]);
        buyer.act(&id, "freeze", &Value::Null);
        seller.act(&id, "accept", &Value::Null);
        seller.act(&id, "deliver", &json!({ "result_payload": { "round": round } }));
        buyer.act(&id, "confirm", &Value::Null);
        let events = ["created", "frozen", "accepted", "delivered", "settled"];
        expected.extend(events.map(|event| (id.clone(), format!("transaction.{event}"))));
        expected.insert((id, "order.completed".to_owned()));
        server.kill9();
        receiver.answers(|_| Reply::Status(200));
        server.restart();
        let all = expected.clone();
        let told = |deliveries: &[Delivery]| -> BTreeSet<(String, String)> {
            let taken = deliveries.iter().filter(|one| one.taken).map(Delivery::json);
            taken.map(|body| (text(&body["data"]["transaction_id"]), text(&body["event_type"]))).collect()
        };
        // Hanging deliveries belong to the killed process until their lease ends.
        let deliveries = until("everything arrived", PATIENCE * 2, || {
            let deliveries = receiver.deliveries();
            (told(&deliveries) == all).then_some(deliveries)
        });
        for one in &deliveries {
            let body = one.json();
            assert_eq!(one.header("x-uuagent-request-id"), body["event_id"].as_str());
            assert_eq!((one.path.as_str(), &body["external_agent_id"]), ("/hook", &json!(agent)));
            assert!(one.header("x-uuagent-signature").is_some_and(|signature| signature.len() == 64));
        }
    }
    let deliveries = || seller.ok("GET", &format!("/external-agents/{agent}"), &Value::Null)["deliveries"].clone();
    until("nothing waits", PATIENCE, || (deliveries()["pending"] == 0).then_some(()));
    assert_eq!(deliveries()["dead"], 0);
    // Neither the secret nor the address is in output that an operator might copy.
    assert!(!server.log().contains(SECRET));
    assert_eq!(verify(&server)["differences"], Value::Array(Vec::new()));
}
