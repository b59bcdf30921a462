//! Webhooks of the store agent's tasks: a waiting task delivers until its end, the end is delivered despite
//! crashes, and then its configs are removed.

use e2e::poll::PATIENCE;
use e2e::{Client, Delivery, Receiver, Reply, Server, message, send, until};
use serde_json::{Value, json};

use crate::desk::{KEY, anybody, code, demo, open_task, owner, shop_and, state, text, with_token};

const CANCELED: &str = "TASK_STATE_CANCELED";

/// Whether the end was accepted.
fn is_told(all: &[Delivery]) -> bool {
    all.iter().any(|one| one.taken && one.json()["statusUpdate"]["status"]["state"] == CANCELED)
}

fn configs(client: &Client, task: &str) -> usize {
    let listed = client.rpc("ListTaskPushNotificationConfigs", json!({ "taskId": task })).unwrap();
    listed["configs"].as_array().unwrap().len()
}

#[test]
fn the_end_of_a_task_is_told_and_its_configs_are_gone() {
    let server = demo();
    let owner = owner(&server);
    let (task, receiver) = (open_task(&owner), Receiver::start());
    let mut config = json!({ "id": "hook", "url": receiver.url("/hook"), "token": "secret-of-the-hook" });
    let path = format!("/tasks/{task}/push-configs");
    assert_eq!(owner.rest("POST", &path, Some(&config)).status(), 200);
    config["taskId"] = json!(task);
    assert_eq!((configs(&owner, &task), receiver.deliveries().len()), (1, 0), "nothing has happened since");
    let canceled = owner.rpc("CancelTask", json!({ "taskId": task })).unwrap();
    assert_eq!(state(&canceled), CANCELED);
    let all = receiver.until("the end is told", is_told);
    let [told] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((told.path.as_str(), told.header("X-A2A-Notification-Token")), ("/hook", Some("secret-of-the-hook")));
    // The same as a stream's event.
    let body = told.json();
    let status = &body["statusUpdate"];
    assert_eq!((&status["taskId"], &status["contextId"]), (&json!(task), &canceled["contextId"]), "{body}");
    assert_eq!(status["status"]["timestamp"], canceled["status"]["timestamp"], "{body}");
    assert_eq!(configs(&owner, &task), 0);
    assert_eq!(code(&owner, "GetTaskPushNotificationConfig", json!({ "taskId": task, "id": "hook" })), -32001);
    assert_eq!(code(&owner, "CreateTaskPushNotificationConfig", config), -32003);
    removed(&server);
}

/// A failed delivery is retried later, by another process if needed, although the config is no longer visible.
#[test]
fn the_end_is_told_also_by_the_server_that_comes_after() {
    let mut server = shop_and("", "push: { retry_ms: 20, timeout_ms: 500, breaker_ms: 100 }").start();
    let owner = with_token(&server, KEY);
    let (task, receiver) = (open_task(&owner), Receiver::start());
    let config = json!({ "taskId": task, "url": receiver.url("/hook") });
    owner.rpc("CreateTaskPushNotificationConfig", config).unwrap();
    receiver.answers(|_| Reply::Status(503));
    owner.rpc("CancelTask", json!({ "taskId": task })).unwrap();
    assert_eq!(configs(&owner, &task), 0, "cleared for everybody");
    receiver.until("it was tried", |all| !all.is_empty());
    server.kill9();
    receiver.answers(|_| Reply::Status(200));
    server.restart();
    receiver.until("the end is told", is_told);
    assert_eq!(configs(&owner, &task), 0, "and it stays so");
    removed(&server);
}

/// Not only hidden: the server has no config left, in any state.
fn removed(server: &Server) {
    until("the config is removed", PATIENCE, || {
        let listed = server.operate(&["push", "list", "-o", "json"]).output().unwrap();
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        (listed["deliveries"] == json!([])).then_some(())
    });
}

#[test]
fn a_config_may_come_with_the_message() {
    let server = demo();
    let (owner, receiver) = (owner(&server), Receiver::start());
    let params = |url: String| {
        let mut params = send(message("Search for hats on store acme."));
        params["configuration"] = json!({ "taskPushNotificationConfig": { "url": url, "token": "t" } });
        params
    };
    assert_eq!(code(&anybody(&server), "SendMessage", params(receiver.url("/hook"))), -32000);
    assert_eq!(code(&owner, "SendMessage", params("http://example.org/hook".into())), -32003);
    let task = owner.rpc("SendMessage", params(receiver.url("/hook"))).unwrap()["task"].clone();
    let completed = |one: &Delivery| state_of(&one.json()).as_deref() == Some("TASK_STATE_COMPLETED");
    let all = receiver.until("the end is told", |all| all.iter().any(completed));
    let artifacts: Vec<Value> =
        all.iter().map(Delivery::json).filter(|body| body.get("artifactUpdate").is_some()).collect();
    assert_eq!(artifacts.len(), 1, "{artifacts:?}");
    assert_eq!(artifacts[0]["artifactUpdate"]["artifact"], task["artifacts"][0]);
    assert_eq!(configs(&owner, &text(&task["id"])), 0);
    removed(&server);
}

fn state_of(body: &Value) -> Option<String> {
    ["task", "statusUpdate"].iter().find_map(|kind| body[kind]["status"]["state"].as_str()).map(str::to_owned)
}
