//! Messages of operators: answers to tasks that wait, and tasks of their own. The forms in which a task is shown.

use e2e::{message, script};
use serde_json::{Value, json};

use crate::{Api, agent, ask_with_webhook, audit, key, problem, start};

#[test]
fn an_answer_continues_a_task_that_waits_as_a_message_of_its_owner() {
    let server = start("");
    let ada = key(&server, "ada", "north", &[]);
    let client = agent(&server, &ada.secret);
    let steps =
        json!([{ "auth": "sign in" }, { "input": "which colour?" }, { "echo": true }, { "complete": "painted" }]);
    let task = client.send(script(steps))["id"].as_str().unwrap().to_owned();
    let operator = key(&server, "olga", "north", &["operator"]);
    let api = Api::with(&server, &operator.secret);
    let path = format!("/tasks/{task}:answer");
    let first = api.send("POST", &path, &json!({ "parts": [{ "text": "signed in" }] }));
    assert_eq!(first.status(), 200, "{}", first.text());
    assert_eq!(first.json()["id"], json!(task));
    client.in_state(&task, "TASK_STATE_INPUT_REQUIRED");
    let parts = json!([
        { "text": "red" },
        { "data": { "n": 12345678901234567890_u64 } },
        { "raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain" },
    ]);
    let line = audit(&server).len();
    assert_eq!(api.send("POST", &path, &json!({ "parts": parts })).status(), 200);
    let done = client.settled(&task);
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    // The scripted agent gives the message back.
    assert_eq!(done["artifacts"][0]["parts"], parts, "every part as it was sent");
    let said = done["history"].as_array().unwrap().iter().find(|said| said["parts"] == parts);
    assert_eq!(said.expect("the owner's history has it")["role"], "ROLE_USER");
    let lines = audit(&server).split_off(line);
    let [line] = &lines[..] else { panic!("{lines:?}") };
    for (member, value) in [
        ("what", "tasks"),
        ("change", "answered"),
        ("by", "olga"),
        ("owner", "ada"),
        ("task", &task),
        ("tenant", "north"),
    ] {
        assert_eq!(line[member], value, "{line}");
    }
    // A settled task, one that works, and one of another tenant.
    let settled = problem(&api.send("POST", &path, &json!({ "parts": [{ "text": "more" }] })), 409);
    assert!(settled["detail"].as_str().unwrap().contains("settled"), "{settled}");
    let working = client
        .rpc(
            "SendMessage",
            json!({
                "message": script(json!([{ "status": "working" }, { "hang": true }])),
                "configuration": { "returnImmediately": true },
            }),
        )
        .unwrap();
    let working = working["task"]["id"].as_str().unwrap().to_owned();
    let refused =
        problem(&api.send("POST", &format!("/tasks/{working}:answer"), &json!({ "parts": [{ "text": "x" }] })), 409);
    assert!(refused["detail"].as_str().unwrap().contains("does not wait"), "{refused}");
    let elsewhere = Api::made(&server, "south", &["admin"]);
    let waiting = ask_with_webhook(&client);
    problem(&elsewhere.send("POST", &format!("/tasks/{waiting}:answer"), &json!({ "parts": [{ "text": "x" }] })), 404);
    for (body, field) in [
        (json!({}), "body"),
        (json!({ "parts": [] }), "parts"),
        (json!({ "parts": [{}] }), "parts[0]"),
        (json!({ "parts": [{ "text": "a", "url": "http://x" }] }), "parts[0]"),
        (json!({ "parts": [{ "text": "a" }], "as": "someone" }), "body"),
    ] {
        let refused = problem(&api.send("POST", &format!("/tasks/{waiting}:answer"), &body), 400);
        assert!(refused["field"].as_str().unwrap().starts_with(field), "{body}: {refused}");
    }
    // An answer may be as large as a message.
    let large = "x".repeat(200_000);
    let answered = api.send("POST", &format!("/tasks/{waiting}:answer"), &json!({ "parts": [{ "text": large }] }));
    assert_eq!(answered.status(), 200, "{}", answered.text());
    assert_eq!(client.settled(&waiting)["status"]["state"], "TASK_STATE_COMPLETED");
}

fn send(api: &Api<'_>, agent: &str, body: &Value) -> Value {
    let response = api.send("POST", &format!("/agents/{agent}:send"), body);
    assert_eq!(response.status(), 200, "{}", response.text());
    response.json()
}

#[test]
fn a_message_of_an_operator_opens_a_task_of_its_own() {
    let server = start("policy:\n  - allow: { agents: ['*'] }\n  - deny: { callers: [abe] }\n");
    let operator = key(&server, "olga", "north", &["operator"]);
    let api = Api::with(&server, &operator.secret);
    let hangs = script(json!([{ "status": "working" }, { "hang": true }]));
    let sent = send(&api, "scripted", &json!({ "message": hangs, "contextId": "c-1" }));
    for (member, value) in [
        ("owner", "olga"),
        ("tenant", "north"),
        ("agent", "scripted"),
        ("context", "c-1"),
        ("shape", "task"),
        ("dialect", "a2a_v1"),
    ] {
        assert_eq!(sent[member], value, "{sent}");
    }
    let id = sent["id"].as_str().unwrap();
    let lines = audit(&server);
    let line = lines.iter().find(|line| line["change"] == "sent").expect("a line");
    assert_eq!((&line["by"], &line["task"], &line["agent"]), (&json!("olga"), &json!(id), &json!("scripted")));
    // An agent may answer by a message: its caller never saw a task, the operator does.
    let replied = send(&api, "scripted", &json!({ "message": message("message: hi") }));
    assert_eq!((&replied["shape"], &replied["state"]), (&json!("reply"), &json!("completed")), "{replied}");
    let mut to_task = message("hi");
    to_task["taskId"] = json!(id);
    let mut in_context = message("hi");
    in_context["contextId"] = json!("c-2");
    for (body, field) in [
        (json!({}), "body"),
        (json!({ "message": 1 }), "message"),
        (json!({ "message": { "messageId": "m", "role": "ROLE_USER", "parts": [] } }), "message.parts"),
        (json!({ "message": to_task }), "message.taskId"),
        (json!({ "message": in_context, "contextId": "c-1" }), "contextId"),
        (json!({ "message": message("hi"), "contextId": "" }), "contextId"),
    ] {
        let refused = problem(&api.send("POST", "/agents/scripted:send", &body), 400);
        assert!(refused["field"].as_str().unwrap().starts_with(field), "{body}: {refused}");
    }
    problem(&api.send("POST", "/agents/nobody:send", &json!({ "message": message("hi") })), 404);
    // The policy holds for operators, too.
    let abe = Api::with(&server, &key(&server, "abe", "north", &["operator"]).secret);
    let refused = problem(&abe.send("POST", "/agents/echo:send", &json!({ "message": message("hi") })), 403);
    assert!(refused["detail"].as_str().unwrap().contains("rule"), "{refused}");
}

#[test]
fn an_agent_of_another_tenant_takes_no_message_of_an_operator_of_one() {
    let server = start("mounts: { echo: { tenant: south } }\n");
    let body = json!({ "message": message("hi") });
    let refused = problem(&Api::made(&server, "north", &["operator"]).send("POST", "/agents/echo:send", &body), 403);
    assert!(!refused.to_string().contains("south"), "{refused}");
    let sent = send(&Api::made(&server, "north", &["operator", "all-tenants"]), "echo", &body);
    assert_eq!(sent["tenant"], "south");
}

#[test]
fn every_form_that_is_listed_shows_the_task_and_no_other_does() {
    let server = start("");
    let ada = key(&server, "ada", "north", &[]);
    let client = agent(&server, &ada.secret);
    let steps = json!([{ "artifact": { "name": "a", "parts": [{ "text": "la" }, { "data": { "k": [1, true] } }] } }, { "complete": "done" }]);
    let task = client.send(script(steps))["id"].as_str().unwrap().to_owned();
    let api = Api::made(&server, "north", &["viewer"]);
    let wires = api.get("/wires")["wires"].as_array().unwrap().clone();
    let names: Vec<&str> = wires.iter().map(|wire| wire["name"].as_str().unwrap()).collect();
    assert_eq!(names[..7], ["1.0", "0.3", "0.3-rest", "0.2", "0.1", "grpc", "grpc-0.3"]);
    let document = api.get("/openapi.json");
    let parameters = document["paths"]["/tasks/{id}/wire"]["get"]["parameters"].as_array().unwrap().clone();
    let form = parameters.iter().find(|parameter| parameter["name"] == "as").unwrap();
    assert_eq!(form["schema"]["enum"], json!(names));
    for wire in &wires {
        let name = wire["name"].as_str().unwrap();
        let shown = api.get(&format!("/tasks/{task}/wire?as={name}"));
        assert_eq!(wire["kind"] == "text", shown["text"].is_string(), "{name}: {shown}");
        assert!(shown.to_string().contains("done"), "{name}: {shown}");
    }
    let shown = api.get(&format!("/tasks/{task}/wire?as=grpc"))["text"].as_str().unwrap().to_owned();
    for line in [
        &format!("id: \"{task}\""),
        "  state: TASK_STATE_COMPLETED",
        "    text: \"la\"",
        "          key: \"k\"",
        "                number_value: 1",
        "                bool_value: true",
    ] {
        assert!(shown.lines().any(|known| known == line), "{line:?} is not in\n{shown}");
    }
    for wrong in ["2.0", "GRPC", "json"] {
        let refused = problem(&api.ask("GET", &format!("/tasks/{task}/wire?as={wrong}")), 400);
        assert_eq!(refused["field"], "as");
        assert!(refused["detail"].as_str().unwrap().contains("grpc-0.3"), "{refused}");
    }
}
