//! `Idempotency-Key`: the same caller and key give the same task, once.

use e2e::{Server, fresh_id, message, script, send};
use serde_json::json;

#[test]
fn a_repeated_key_returns_the_first_task_and_makes_no_second() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let keyed = echo.with("Idempotency-Key", "order-1");
    let params = send(message("once"));

    let first = keyed.rpc("SendMessage", params.clone()).unwrap();
    let second = keyed.rpc("SendMessage", params.clone()).unwrap();
    assert_eq!(first["task"]["id"], second["task"]["id"]);
    assert_eq!(first["task"]["artifacts"], second["task"]["artifacts"]);

    let rest = keyed.rest("POST", "/message:send", Some(&params));
    assert_eq!(rest.status(), 200, "{}", rest.text());
    assert_eq!(rest.json()["task"]["id"], first["task"]["id"], "the binding is no part of the key");

    let listed = echo.rpc("ListTasks", json!({})).unwrap();
    assert_eq!(listed["totalSize"], 1, "{listed}");
}

#[test]
fn a_key_with_another_body_is_refused() {
    let server = Server::start(&[]);
    let keyed = server.agent("echo").with("Idempotency-Key", "order-2");
    let first = keyed.rpc("SendMessage", send(message("one"))).unwrap();

    let error = keyed.rpc("SendMessage", send(message("two"))).unwrap_err();
    assert!(error["code"].as_i64().unwrap() < 0, "{error}");
    let rest = keyed.rest("POST", "/message:send", Some(&send(message("three"))));
    assert!((400..500).contains(&rest.status()), "{}", rest.text());
    assert!(rest.json()["error"]["details"].is_array(), "{}", rest.text());

    let listed = server.agent("echo").rpc("ListTasks", json!({})).unwrap();
    assert_eq!(listed["totalSize"], 1);
    assert_eq!(listed["tasks"][0]["id"], first["task"]["id"]);
}

#[test]
fn a_repeated_message_id_alone_is_no_duplicate() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let mut same = message("again");
    same["messageId"] = json!("msg-1");
    let first = echo.send(same.clone());
    let second = echo.send(same);
    assert_ne!(first["id"], second["id"]);
}

#[test]
fn a_key_holds_over_a_crash_also_for_a_direct_message() {
    let mut server = Server::start(&[]);
    let direct = send(script(json!([{ "message": "just so" }])));
    let key = fresh_id();
    let keyed = server.agent("scripted").with("Idempotency-Key", &key);
    let first = keyed.rpc("SendMessage", direct.clone()).unwrap();
    assert_eq!(first["message"]["parts"][0]["text"], "just so", "{first}");

    server.kill9();
    server.restart();
    let second = keyed.rpc("SendMessage", direct).unwrap();
    assert_eq!(first, second);
}

#[test]
fn a_key_whose_first_call_still_runs_waits_for_the_same_task() {
    let server = Server::start(&[]);
    let keyed = server.agent("scripted").with("Idempotency-Key", &fresh_id());
    let params = send(script(json!([
        { "status": "working", "text": "busy" },
        { "sleep_ms": 300 },
        { "complete": "done" },
    ])));
    let answers: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..3).map(|_| scope.spawn(|| keyed.rpc("SendMessage", params.clone()).unwrap())).collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    for answer in &answers {
        assert_eq!(answer["task"]["id"], answers[0]["task"]["id"]);
        assert_eq!(answer["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    }
}
