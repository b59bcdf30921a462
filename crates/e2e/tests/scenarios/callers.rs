//! Callers with keys: access, and the answers about another caller's task.

use e2e::http::Request;
use e2e::{Client, Server, assert_rest_fault, assert_rpc_fault, message, script, send, to_task};
use serde_json::{Value, json};

const CONFIG: &str = r#"
auth:
  required: true
  keys:
    - { name: ada, tenant: north, key: "env:E2E_KEY_ADA" }
    - { name: bob, tenant: north, key: "env:E2E_KEY_BOB" }
    - { name: eve, tenant: south, key: "env:E2E_KEY_EVE" }
"#;

fn guarded() -> Server {
    Server::options()
        .config(CONFIG)
        .env("E2E_KEY_ADA", "ada-0123456789abcdef")
        .env("E2E_KEY_BOB", "bob-0123456789abcdef")
        .env("E2E_KEY_EVE", "eve-0123456789abcdef")
        .start()
}

fn bearer(server: &Server, agent: &str, name: &str) -> Client {
    server.agent(agent).with("Authorization", &format!("Bearer {name}-0123456789abcdef"))
}

fn by_header(server: &Server, agent: &str, name: &str) -> Client {
    server.agent(agent).with("X-Api-Key", &format!("{name}-0123456789abcdef"))
}

#[test]
fn a_caller_without_a_good_key_is_turned_away() {
    let server = guarded();
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    for client in [
        server.agent("echo"),
        server.agent("echo").with("Authorization", "Bearer wrong"),
        server.agent("echo").with("Authorization", "Basic YWRhOmFkYQ=="),
        server.agent("echo").with("X-Api-Key", ""),
        server.agent("echo").with("X-Api-Key", "ada-0123456789abcde"),
    ] {
        let response = client.exchange(&client.request("POST", "").json(&call));
        assert_eq!(response.status(), 401, "{}", response.text());
        assert!(response.head.header("www-authenticate").is_some());
        let response = client.rest("GET", "/tasks", None);
        assert_eq!(response.status(), 401, "{}", response.text());
        assert!(response.head.header("www-authenticate").is_some());
    }
    let card = server.get("/.well-known/agent-card.json");
    assert_eq!(card.status(), 200, "the public card is public");
    let card = card.json();
    assert!(card["securitySchemes"].as_object().is_some_and(|schemes| !schemes.is_empty()), "{card}");
    assert!(card["securityRequirements"].as_array().is_some_and(|list| !list.is_empty()), "{card}");
    assert_eq!(server.get("/healthz").status(), 200);
    assert!(!server.log().contains("0123456789abcdef"), "keys stay out of the log");
}

#[test]
fn both_ways_to_show_a_key_are_the_same_caller() {
    let server = guarded();
    let task = bearer(&server, "echo", "ada").send(message("mine"));
    let id = task["id"].as_str().unwrap();
    assert_eq!(by_header(&server, "echo", "ada").task(id)["id"], id);
    assert_eq!(bearer(&server, "echo", "bob").task(id)["id"], id, "a tenant shares its tasks");
}

#[test]
fn a_foreign_task_is_a_missing_task_in_every_operation() {
    let server = guarded();
    let ada = bearer(&server, "scripted", "ada");
    let eve = by_header(&server, "scripted", "eve");
    let mut asking = script(json!([{ "input": "well?" }, { "complete": "done" }]));
    asking["contextId"] = json!("shared-name");
    let mut events = ada.stream("SendStreamingMessage", send(asking)).unwrap();
    let frame = events.take();
    let id = frame.task().to_owned();
    ada.in_state(&id, "TASK_STATE_INPUT_REQUIRED");

    let missing = "019aa000-0000-7000-8000-00000000abcd";
    let calls = |id: &str| -> Vec<(&'static str, Value)> {
        vec![
            ("GetTask", json!({ "id": id })),
            ("CancelTask", json!({ "id": id })),
            ("SubscribeToTask", json!({ "id": id })),
            ("SendMessage", send(to_task(message("hi"), id))),
            ("SendStreamingMessage", send(to_task(message("hi"), id))),
        ]
    };
    for ((method, foreign), (_, unknown)) in calls(&id).into_iter().zip(calls(missing)) {
        let foreign = eve.rpc(method, foreign).unwrap_err();
        let unknown = eve.rpc(method, unknown).unwrap_err();
        assert_rpc_fault(&foreign, -32001, "TASK_NOT_FOUND");
        let scrubbed = foreign.to_string().replace(&id, missing);
        assert_eq!(scrubbed, unknown.to_string(), "{method}: not to be told from a missing task");
    }
    for (verb, path) in [
        ("GET", format!("/tasks/{id}")),
        ("POST", format!("/tasks/{id}:cancel")),
        ("POST", format!("/tasks/{id}:subscribe")),
        ("GET", format!("/tasks/{id}:subscribe")),
    ] {
        assert_rest_fault(&eve.rest(verb, &path, None), 404, "NOT_FOUND", "TASK_NOT_FOUND");
    }
    let error = eve
        .with("Last-Event-ID", frame.id.as_deref().unwrap())
        .stream("SubscribeToTask", json!({ "id": id }))
        .map(|_| ())
        .unwrap_err();
    assert_rpc_fault(&error, -32001, "TASK_NOT_FOUND");
    let error = eve
        .with("Last-Event-ID", frame.id.as_deref().unwrap())
        .stream("SendStreamingMessage", send(message("hi")))
        .map(|_| ())
        .unwrap_err();
    assert_rpc_fault(&error, -32001, "TASK_NOT_FOUND");

    for filter in [json!({}), json!({ "contextId": "shared-name" })] {
        let listed = eve.rpc("ListTasks", filter.clone()).unwrap();
        assert_eq!(listed["totalSize"], 0, "{listed}");
        assert_eq!(ada.rpc("ListTasks", filter).unwrap()["totalSize"], 1);
    }
    let done = ada.send(to_task(message("fine"), &id));
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "untouched by the stranger");
}

#[test]
fn an_idempotency_key_belongs_to_its_caller() {
    let server = guarded();
    let params = send(message("mine"));
    let ada = bearer(&server, "echo", "ada").with("Idempotency-Key", "k").rpc("SendMessage", params.clone()).unwrap();
    let eve = bearer(&server, "echo", "eve").with("Idempotency-Key", "k").rpc("SendMessage", params).unwrap();
    assert_ne!(ada["task"]["id"], eve["task"]["id"]);
}

#[test]
fn the_extended_card_is_for_callers_with_a_key() {
    let server = guarded();
    let public = server.get("/a2a/echo/.well-known/agent-card.json").json();
    assert_eq!(public["capabilities"]["extendedAgentCard"], true, "{public}");
    let ada = bearer(&server, "echo", "ada");
    let extended = ada.rpc("GetExtendedAgentCard", json!({})).unwrap();
    assert_eq!(extended["name"], public["name"]);
    let over_rest = ada.rest("GET", "/extendedAgentCard", None);
    assert_eq!(over_rest.status(), 200, "{}", over_rest.text());
    assert_eq!(over_rest.json(), extended);
    let stranger = server.agent("echo").rest("GET", "/extendedAgentCard", None);
    assert_eq!(stranger.status(), 401, "{}", stranger.text());
}

#[test]
fn a_key_that_names_a_missing_variable_refuses_to_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rialto.yaml"), CONFIG).unwrap();
    let options = Server::options().config(CONFIG);
    let listen = e2e::server::free_address().to_string();
    let mut command = Server::command(&options, &listen, folder.path());
    let output = command.env_remove("E2E_KEY_ADA").output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("E2E_KEY_ADA"), "an error names the variable: {said}");
}

#[test]
fn a_request_smuggles_no_tenant() {
    let server = guarded();
    let task = bearer(&server, "echo", "ada").send(message("mine"));
    let id = task["id"].as_str().unwrap();
    let eve = bearer(&server, "echo", "eve");
    let request = eve.request("GET", &format!("/tasks/{id}?tenant=north")).header("x-tenant", "north");
    assert_eq!(eve.exchange(&request).status(), 404);
    let error = eve.rpc("GetTask", json!({ "id": id, "tenant": "north" })).unwrap_err();
    assert!(error["code"].as_i64().unwrap() < 0, "{error}");
    let response = server.exchange(
        &Request::new("GET", &format!("/a2a/echo/north/tasks/{id}"))
            .header("A2A-Version", "1.0")
            .header("X-Api-Key", "eve-0123456789abcdef"),
    );
    assert!((400..500).contains(&response.status()), "{}", response.text());
}
