//! Webhooks arrive, whatever the receiver does and whatever happens to the server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod faults;
mod generations;
mod secrets;
mod survival;

use e2e::{Client, Delivery, Receiver, Server, fresh_id, script};
use serde_json::{Value, json};

/// Fast retries: the tests check that they come, not when.
pub(crate) const HASTY: &str = "push: { retry_ms: 20, timeout_ms: 500, breaker_ms: 100 }\n";

pub(crate) fn hasty() -> Server {
    Server::options().config(HASTY).start()
}

/// Opens a task with the script `steps` and a webhook at `url`.
pub(crate) fn open_with(client: &Client, steps: &Value, url: &str) -> String {
    let params = json!({
        "message": script(steps.clone()),
        "configuration": {
            "returnImmediately": true,
            "taskPushNotificationConfig": { "id": fresh_id(), "url": url, "token": "tok" },
        },
    });
    let result = client.rpc("SendMessage", params).unwrap_or_else(|error| panic!("SendMessage: {error}"));
    result["task"]["id"].as_str().expect("a task").to_owned()
}

/// Three chunks and an end.
pub(crate) fn chunks() -> Value {
    json!([{ "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 3, "every_ms": 1 }, { "complete": "done" }])
}

/// The state in a 1.0 webhook, if it has one.
pub(crate) fn state(delivery: &Delivery) -> Option<String> {
    let body = delivery.json();
    let status = ["task", "statusUpdate"].iter().find_map(|kind| body[kind]["status"]["state"].as_str());
    status.map(str::to_owned)
}

pub(crate) fn is_over(deliveries: &[Delivery]) -> bool {
    deliveries.iter().any(|delivery| delivery.taken && state(delivery).as_deref() == Some("TASK_STATE_COMPLETED"))
}

/// The event numbers that a subscriber of the task gets; a webhook must deliver the same.
pub(crate) fn told(client: &Client, task: &str) -> Vec<u64> {
    let events = client
        .with("Last-Event-ID", &format!("{task}.1"))
        .stream("SubscribeToTask", json!({ "id": task }))
        .map(|mut events| events.rest())
        .unwrap_or_else(|error| panic!("{error}"));
    let mut told: Vec<u64> = events.iter().map(e2e::Frame::seq).filter(|seq| *seq > 1).collect();
    told.insert(0, 1);
    told
}

/// The numbers of the events that a receiver accepted, each once.
pub(crate) fn numbers(receiver: &Receiver, path: &str) -> Vec<u64> {
    receiver.ordered().remove(path).unwrap_or_default().iter().map(|delivery| delivery.event().1).collect()
}

pub(crate) fn push(server: &Server, args: &[&str]) -> Value {
    let done = server.operate(&[&["push"], args, &["-o", "json"]].concat()).output().expect("rialto runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("json")
}
