//! A data folder of an earlier release is opened, continued and verified by this one, and by `rialto migrate` as a database.
//!
//! `fixtures/data-0.1` was written by the first complete server (schema 9) with its demo and killed in the middle
//! of a turn: tasks of every dialect, webhooks, a purchase that was accepted and one that was ordered, a run that
//! waits for an approval, a cart, a checkout, an order and a key. `facts.json` has their ids. The server of a test
//! runs with the clock of the folder's time, because tasks, carts and deadlines expire.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::path::PathBuf;
use std::process::Command;

use cluster::Cluster;
use e2e::http::Request;
use e2e::poll::{PATIENCE, until};
use e2e::server::copy;
use e2e::store::VARIABLE;
use e2e::{Client, Server, message, setup, to_task};
use serde_json::{Value, json};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/data-0.1");
/// One minute after the folder's last write.
const TIME: &str = "@2026-11-18 05:22:00";

fn read(file: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(PathBuf::from(FOLDER).join(file)).unwrap()).unwrap()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{pointer}: {value}"))
}

fn start() -> Server {
    Server::options()
        .sqlite_only("a folder of an earlier release")
        .data(FOLDER.as_ref())
        .env("LD_PRELOAD", &setup::faketime())
        .env("FAKETIME", TIME)
        .env("TZ", "UTC")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("DONT_FAKE_MONOTONIC", "1")
        .start()
}

/// An older dialect at the scripted agent.
fn older(server: &Server, dialect: &str) -> Client {
    server.agent("scripted").without("a2a-version").with("X-A2A-Dialect", dialect)
}

/// A request with a JSON body and a JSON answer, which must succeed.
fn ask(server: &Server, verb: &str, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
    let request = headers.iter().fold(Request::new(verb, path), |request, (name, value)| request.header(name, value));
    let request = if body.is_null() { request } else { request.json(body) };
    let answer = server.exchange(&request);
    assert_eq!(answer.status(), 200, "{verb} {path}: {}", answer.text());
    answer.json()
}

/// A command on a folder or database that prints JSON.
fn operate(mut command: Command) -> Value {
    let output = command.output().expect("rialto runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&said).unwrap_or_else(|error| panic!("{command:?}: {error}: {said}"))
}

fn assert_verified(run: impl Fn(&[&str]) -> Value) {
    for product in ["market", "shop"] {
        let report = run(&[product, "verify", "--json"]);
        assert_eq!(report["differences"], json!([]), "{product}: {report}");
    }
}

#[test]
fn tasks_of_every_dialect_go_on() {
    let (server, facts) = (start(), read("facts.json"));
    let scripted = server.agent("scripted");
    let done = server.agent("echo").task(text(&facts, "/done/id"));
    assert_eq!(done, facts["done"]);

    let asked = text(&facts, "/asks");
    let answered = scripted.send(to_task(message("blue"), asked));
    assert_eq!((text(&answered, "/id"), text(&answered, "/status/state")), (asked, "TASK_STATE_COMPLETED"));

    // The killed turn runs again, and can be cancelled.
    let canceled = scripted.rpc("CancelTask", json!({ "id": facts["killed"] })).unwrap();
    assert_eq!(text(&canceled, "/status/state"), "TASK_STATE_CANCELED", "{canceled}");
    until("the recovery is in the log", PATIENCE, || server.log().contains("turn recovered").then_some(()));

    let config = |client: &Client, method: &str, params: Value, pointer: &str| {
        let found = client.rpc(method, params).unwrap();
        text(&found, pointer).to_owned()
    };
    let hook = |path: &str| format!("https://hooks.example.com/{path}");
    let newest = json!({ "taskId": facts["push"]["a2a-1.0"], "id": "c1" });
    assert_eq!(config(&scripted, "GetTaskPushNotificationConfig", newest, "/url"), hook("v1"));
    let v0_3 = json!({ "id": facts["push"]["a2a-0.3"], "pushNotificationConfigId": "c1" });
    let (method, pointer) = ("tasks/pushNotificationConfig/get", "/pushNotificationConfig/url");
    assert_eq!(config(&older(&server, "a2a_v0_3"), method, v0_3, pointer), hook("v03"));
    let first = older(&server, "a2a_v0_1");
    let v0_1 = json!({ "id": facts["push"]["a2a-0.1"] });
    assert_eq!(config(&first, "tasks/pushNotification/get", v0_1, "/pushNotificationConfig/url"), hook("v01"));
    let said = json!({ "role": "user", "parts": [{ "type": "text", "text": "yes" }] });
    let sent = first.rpc("tasks/send", json!({ "id": facts["push"]["a2a-0.1"], "sessionId": "s1", "message": said }));
    assert_eq!(text(&sent.unwrap(), "/status/state"), "completed");
}

#[test]
fn products_go_on_and_their_books_balance() {
    let (server, facts, demo) = (start(), read("facts.json"), read("demo.json"));

    // The accepted purchase is delivered, and the ordered one is cancelled.
    let (key, user) = (text(&demo, "/uumit/api_key"), text(&demo, "/uumit/user_id"));
    let buyer = [("X-Api-Key", key), ("X-Platform-User-Id", user)];
    let (key, user) = (text(&demo, "/uumit/seller_api_key"), text(&demo, "/uumit/seller_user_id"));
    let seller = [("X-Api-Key", key), ("X-Platform-User-Id", user)];
    let transaction = |id: &str, who: &[(&str, &str)], verb: &str, body: Value| {
        let (method, path) = match verb {
            "" => ("GET", format!("/api/v1/transactions/{id}")),
            verb => ("POST", format!("/api/v1/transactions/{id}/{verb}")),
        };
        text(&ask(&server, method, &path, who, &body), "/data/status").to_owned()
    };
    assert_eq!(transaction(text(&facts, "/settled"), &buyer, "", Value::Null), "settled");
    let accepted = text(&facts, "/accepted");
    let payload = json!({ "result_payload": { "total": "99.50" } });
    assert_eq!(transaction(accepted, &seller, "deliver", payload), "delivered");
    assert_eq!(transaction(accepted, &buyer, "confirm", json!({})), "settled");
    let cancel = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/cancel", "params": { "id": facts["ordered"] } });
    let canceled = ask(&server, "POST", "/a2a", &buyer, &cancel);
    assert_eq!(text(&canceled, "/result/status"), "canceled", "{canceled}");

    // The waiting run is approved.
    let bearer = format!("Bearer {}", text(&demo, "/orloj/token"));
    let said = json!({ "role": "user", "parts": [{ "type": "text", "text": "approve" }] });
    let approve =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": { "id": facts["run"], "message": said } });
    let publish = "/orloj/v1/agent-systems/publish/a2a";
    let run = ask(&server, "POST", publish, &[("Authorization", &bearer)], &approve);
    assert_eq!(text(&run, "/result/status/state"), "completed", "{run}");

    // The cart has its lines, the checkout is completed, the order exists.
    let api = "/api/storefront/v1";
    let cart = ask(&server, "GET", &format!("{api}/carts/{}", text(&facts, "/cart")), &[], &Value::Null);
    assert_eq!(cart["items"].as_array().map(Vec::len), Some(2), "{cart}");
    let checkout = &facts["checkout"];
    let complete = format!("/api/ucp/v1/checkout-sessions/{}/complete", text(checkout, "/id"));
    let buyer =
        json!({ "confirmation_token": checkout["confirmation_token"], "buyer": { "email": "ada@example.com" } });
    ask(&server, "POST", &complete, &[("Idempotency-Key", "complete-1")], &buyer);
    for order in [text(checkout, "/confirmation_token"), text(&facts, "/order")] {
        ask(&server, "GET", &format!("{api}/orders/{order}"), &[], &Value::Null);
    }
    assert_verified(|words| operate(server.operate(words)));

    let keys = operate(server.operate(&["keys", "list", "-o", "json"]));
    let ann = keys["keys"].as_array().unwrap().iter().find(|key| key["name"] == "ann").expect("the key is listed");
    assert_eq!((text(ann, "/tenant"), text(ann, "/state")), ("acme", "valid"));
    let secret = format!("Bearer {}", text(&facts, "/key"));
    server.agent("echo").with("Authorization", &secret).send(message("known"));
}

#[test]
fn the_folder_is_migrated_and_verified() {
    let (facts, folder, database) = (read("facts.json"), tempfile::tempdir().unwrap(), Cluster::shared().database());
    copy(FOLDER.as_ref(), folder.path());
    let run = |words: &[&str]| {
        let mut command = Command::new(setup::binary());
        command.args(words).env(VARIABLE, database.url());
        command
    };
    let data = folder.path().to_str().unwrap();
    // As `migrate` says: a folder of an earlier release is upgraded first.
    assert!(run(&["doctor", "--data", data]).output().unwrap().status.success());
    let from = format!("sqlite:{data}");
    let store = format!("env:{VARIABLE}");
    let migrated = run(&["migrate", "--from", &from, "--to", &store]).output().unwrap();
    assert!(migrated.status.success(), "{}", String::from_utf8_lossy(&migrated.stderr));
    let on_database = |words: &[&str]| operate(run(&[words, &["--store", &store, "--data", data]].concat()));
    assert_verified(on_database);
    for (id, state) in [(text(&facts, "/done/id"), "completed"), (text(&facts, "/asks"), "input-required")] {
        let task = on_database(&["task", "show", id, "-o", "json"]);
        assert!(task.to_string().contains(state), "{task}");
    }
}
