//! LangSmith's endpoint: the examples of the product's own page with only the address and the ids changed, and the
//! behaviour that its clients rely on, in both profiles.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use e2e::http::{Connection, Request, Response};
use e2e::{Events, Server, fresh_id};
use serde_json::{Value, json};

const JSON: &str = "application/json";
const STREAM: &str = "text/event-stream";

/// An assistant of a running server.
struct Assistant<'s> {
    server: &'s Server,
    id: String,
}

impl Assistant<'_> {
    fn request(&self, accept: &str, body: &str) -> Request {
        let request = Request::new("POST", &format!("/langgraph/a2a/{}", self.id));
        let request = if accept.is_empty() { request } else { request.header("accept", accept) };
        request.header("content-type", JSON).body(body)
    }

    fn post(&self, accept: &str, body: &str) -> Response {
        self.server.exchange(&self.request(accept, body))
    }

    fn call(&self, method: &str, params: Value) -> Result<Value, Value> {
        let body = json!({ "jsonrpc": "2.0", "id": "r1", "method": method, "params": params });
        let response = self.post(JSON, &body.to_string());
        assert_eq!(response.status(), 200, "{method}: {}", response.text());
        let answer = response.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("r1")), "{answer}");
        match answer.get("error") {
            Some(error) => {
                assert_eq!(error.as_object().unwrap().len(), 2, "code and message, nothing more: {error}");
                Err(error.clone())
            }
            None => Ok(answer["result"].clone()),
        }
    }

    fn send(&self, message: Value) -> Result<Value, Value> {
        self.call("message/send", json!({ "message": message }))
    }

    fn stream(&self, message: Value) -> Vec<Value> {
        let body =
            json!({ "jsonrpc": "2.0", "id": "s1", "method": "message/stream", "params": { "message": message } });
        let mut connection = Connection::open(self.server.addr()).unwrap();
        connection.send(&self.request(STREAM, &body.to_string())).unwrap();
        let head = connection.head().unwrap();
        assert_eq!((head.status, head.media_type()), (200, STREAM));
        let frames = Events::new(connection, head).rest();
        let envelopes: Vec<Value> = frames.iter().map(|frame| serde_json::from_str(&frame.data).unwrap()).collect();
        assert!(envelopes.iter().all(|e| e["jsonrpc"] == "2.0" && e["id"] == "s1"), "{envelopes:?}");
        envelopes
    }
}

fn message(parts: Value) -> Value {
    json!({ "role": "user", "messageId": fresh_id(), "parts": parts })
}

fn text(text: &str) -> Value {
    message(json!([{ "kind": "text", "text": text }]))
}

fn with(mut message: Value, members: Value) -> Value {
    for (name, value) in members.as_object().unwrap() {
        message[name] = value.clone();
    }
    message
}

fn error(code: i64, message: &str) -> Value {
    json!({ "code": code, "message": message })
}

/// The demo, as `rialto serve` starts it.
fn demo() -> (Server, Value) {
    let server = Server::start(&[]);
    let demo: Value = serde_json::from_slice(&std::fs::read(server.data().join("demo.json")).unwrap()).unwrap();
    assert_eq!(demo["base_url"], server.url());
    let ids = demo["langgraph"].clone();
    (server, ids)
}

/// The same assistants, and one without messages, in a profile.
fn in_profile(profile: &str) -> Server {
    let config = format!(
        "langgraph: {{ profile: {profile} }}\nagents:\n  assistant: {{ kind: assistant }}\n  interrupt: {{ kind: assistant, mode: interrupt }}\n  parallel: {{ kind: assistant, mode: parallel }}\n  structured: {{ kind: assistant, mode: structured }}\n  scripted: {{ kind: scripted }}\n"
    );
    Server::options().config(&config).start()
}

fn current() -> Server {
    in_profile("current")
}

/// Runs a test in both profiles; `is_current` tells them apart.
fn in_both(test: impl for<'s> Fn(&dyn Fn(&str) -> Assistant<'s>, bool)) {
    for profile in ["documented", "current"] {
        eprintln!("in the {profile} profile");
        let server = in_profile(profile);
        test(&|agent| Assistant { server: &server, id: id_of(&server, agent) }, profile == "current");
    }
}

fn id_of(server: &Server, agent: &str) -> String {
    // The server's list of agents has every agent's id.
    let listed = server.get("/agents").json();
    let agents = listed["agents"].as_array().or(listed.as_array()).unwrap();
    let found = agents.iter().find(|one| one["name"] == agent || one["id"] == agent).unwrap_or(&Value::Null);
    found["assistantId"].as_str().unwrap_or_else(|| panic!("{agent} has an assistantId: {listed}")).to_owned()
}

fn assistant<'s>(server: &'s Server, id: &Value) -> Assistant<'s> {
    Assistant { server, id: id.as_str().unwrap().to_owned() }
}

#[test]
fn the_examples_of_the_page_work() {
    let (server, ids) = demo();
    let chat = assistant(&server, &ids["assistant_id"]);
    let context = "f5bd2a40-74b6-4f7a-b649-ea3f09890003";
    let sent = chat
        .call(
            "message/send",
            json!({ "message": {
                "role": "user",
                "parts": [{ "kind": "text", "text": "Hello from A2A" }, { "kind": "data", "data": { "locale": "en-US" } }],
                "messageId": "msg-1",
                "contextId": context,
            } }),
        )
        .unwrap();
    assert_eq!(
        (&sent["kind"], &sent["contextId"], &sent["status"]["state"]),
        (&json!("task"), &json!(context), &json!("completed"))
    );
    assert_eq!(sent["artifacts"][0]["name"], "Assistant Response");
    let said = sent["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    assert!(said.contains("Hello from A2A") && said.contains("en-US"), "data is laid over the input: {said}");
    let id = sent["id"].as_str().unwrap();
    assert!(id.starts_with(&format!("{context}:")), "a task is a run on its thread: {id}");

    let frames = chat.stream(json!({ "role": "user", "messageId": "msg-2", "contextId": context,
        "parts": [{ "kind": "text", "text": "Stream this response" }] }));
    assert_eq!(frames.last().unwrap()["result"]["final"], true);

    for named in [id, id.rsplit_once(':').unwrap().1] {
        let got = chat.call("tasks/get", json!({ "id": named, "contextId": context, "historyLength": 10 })).unwrap();
        assert_eq!(
            (&got["kind"], &got["id"], &got["status"]["state"]),
            (&json!("task"), &json!(id), &json!("completed"))
        );
    }
    let refused = chat.call("tasks/cancel", json!({ "id": id, "contextId": context })).unwrap_err();
    assert_eq!(refused, error(-32004, "Task cancellation is not currently supported"));

    let turn = |words: &str| {
        chat.stream(json!({ "role": "user", "contextId": "thread-123", "messageId": fresh_id(),
            "parts": [{ "kind": "text", "text": words }] }))
    };
    turn("Hello!");
    let second = turn("And again");
    let history = second[0]["result"]["history"].to_string();
    assert!(history.contains("And again"), "{history}");
}

#[test]
fn an_interrupted_task_is_resumed_by_text_and_by_data() {
    let (server, ids) = demo();
    let one = assistant(&server, &ids["interrupt_assistant_id"]);
    for answer in [
        json!([{ "kind": "text", "text": "Here is the info you asked for." }]),
        json!([{ "kind": "data", "data": { "resume": "Here is the info you asked for." } }]),
    ] {
        let asked = one.send(with(text("Plan a trip"), json!({ "contextId": "thread-123" }))).unwrap();
        assert_eq!(asked["status"]["state"], "input-required");
        let interrupt = &asked["artifacts"][0];
        assert_eq!(
            (&interrupt["name"], &interrupt["description"]),
            (&json!("Interrupt"), &json!("Agent requires input to continue"))
        );
        assert!(interrupt["parts"][0]["data"]["id"].is_string(), "{interrupt}");
        let names = json!({ "contextId": "thread-123", "taskId": asked["id"] });
        let done = one.send(with(message(answer), names.clone())).unwrap();
        assert_eq!((&done["id"], &done["status"]["state"]), (&asked["id"], &json!("completed")), "{done}");
        assert!(done["artifacts"].to_string().contains("Here is the info"), "{done}");

        let idle = message(json!([{ "kind": "data", "data": { "resume": 1 } }]));
        assert_eq!(one.send(with(idle, names)).unwrap_err(), error(-32602, "Task is not awaiting input"));
    }
}

#[test]
fn parallel_interrupts_are_resumed_by_one_data_part() {
    let (server, ids) = demo();
    let two = assistant(&server, &ids["parallel_assistant_id"]);
    let asked = two.send(text("Plan a trip")).unwrap();
    let questions = asked["artifacts"][0]["parts"].as_array().unwrap().clone();
    assert_eq!(questions.len(), 2, "{asked}");
    let value = |n: usize, choice: &str| json!({ "id": questions[n]["data"]["id"], "value": { "choice": choice } });
    let names = json!({ "contextId": asked["contextId"], "taskId": asked["id"] });
    let resume = |values: Value| message(json!([{ "kind": "data", "data": { "resume": values } }]));

    let twice =
        message(json!([{ "kind": "data", "data": { "resume": 1 } }, { "kind": "data", "data": { "resume": 2 } }]));
    let refused = two.send(with(twice, names.clone())).unwrap_err();
    assert_eq!(refused, error(-32602, "Only one resume value is allowed in data parts"));

    let half = two.send(with(resume(json!([value(0, "A")])), names.clone())).unwrap();
    assert_eq!(half["status"]["state"], "input-required", "what is not answered is asked again: {half}");
    let left = half["artifacts"].as_array().unwrap().iter().rev().find(|a| a["name"] == "Interrupt").unwrap();
    assert_eq!(left["parts"].as_array().unwrap().len(), 1, "{left}");
    let done = two.send(with(resume(json!([value(1, "B")])), names)).unwrap();
    assert_eq!((&done["id"], &done["status"]["state"]), (&asked["id"], &json!("completed")));

    let both = two.send(text("Plan another")).unwrap();
    let questions = both["artifacts"][0]["parts"].as_array().unwrap();
    let all: Vec<Value> =
        questions.iter().map(|q| json!({ "id": q["data"]["id"], "value": { "choice": "C" } })).collect();
    let names = json!({ "contextId": both["contextId"], "taskId": both["id"] });
    let done = two.send(with(resume(json!(all)), names)).unwrap();
    assert_eq!(done["status"]["state"], "completed");
    let alone = resume(json!(1));
    assert_eq!(two.send(alone).unwrap_err(), error(-32602, "contextId and taskId are required when resuming a task"));
}

#[test]
fn accept_and_envelope_are_checked_as_the_product_does() {
    let (server, ids) = demo();
    let chat = assistant(&server, &ids["assistant_id"]);
    let get = json!({ "jsonrpc": "2.0", "id": "1", "method": "tasks/get", "params": { "id": "x", "contextId": "y" } })
        .to_string();
    let plain = |accept: &str, body: &str| {
        let response = chat.post(accept, body);
        (response.status(), response.text())
    };
    let body = |text: &str| json!({ "error": text }).to_string();
    assert_eq!(plain("", &get), (400, body("Accept header must include application/json")));
    assert_eq!(plain("*/*", &get).0, 200);
    let stream =
        json!({ "jsonrpc": "2.0", "id": "1", "method": "message/stream", "params": { "message": text("hi") } })
            .to_string();
    assert_eq!(plain(JSON, &stream), (400, body("Accept header must include text/event-stream for streaming")));
    assert_eq!(plain(JSON, "{"), (400, body("Invalid JSON payload")));
    assert_eq!(plain(JSON, "[]"), (400, body("Invalid message format")));
    let notification =
        json!({ "jsonrpc": "2.0", "method": "message/send", "params": { "message": text("hi") } }).to_string();
    assert_eq!(plain(JSON, &notification), (202, String::new()), "taken for a notification, and not carried out");
    let unknown = Assistant { server: &server, id: "00000000-0000-4000-8000-000000000000".into() };
    assert_eq!(unknown.post(JSON, &get).status(), 404);
    assert_eq!(Assistant { server: &server, id: "assistant".into() }.post(JSON, &get).status(), 404, "no UUID");
    assert_eq!(server.get(&format!("/langgraph/a2a/{}", chat.id)).status(), 405);
}

#[test]
fn threads_hold_their_conversation_and_tasks_are_got_by_both_names() {
    let (server, ids) = demo();
    let chat = assistant(&server, &ids["assistant_id"]);
    let first = chat.send(text("first")).unwrap();
    let context = first["contextId"].as_str().unwrap();
    let second = chat.send(with(text("second"), json!({ "contextId": context }))).unwrap();
    assert_eq!(second["contextId"], context);
    assert_ne!(second["id"], first["id"]);
    let history = second["history"].to_string();
    assert!(history.contains("first") && history.contains("second"), "{history}");

    let get = |params: Value| chat.call("tasks/get", params);
    let missing = "Invalid request: Missing required parameter: contextId";
    assert_eq!(get(json!({ "id": first["id"] })).unwrap_err(), error(-32602, missing));
    let long = get(json!({ "id": first["id"], "contextId": context, "historyLength": 11 })).unwrap_err();
    assert_eq!(long, error(-32602, "historyLength cannot exceed 10"));
    let elsewhere = get(json!({ "id": first["id"], "contextId": "another" })).unwrap_err();
    assert_eq!(elsewhere["code"], -32001, "a task of another thread is not there: {elsewhere}");
    let file = message(json!([{ "kind": "file", "file": { "uri": "https://example.com/x" } }]));
    assert_eq!(chat.send(file).unwrap_err()["code"], -32005);
    for bad in [
        json!({ "messageId": "m", "parts": [{ "kind": "text", "text": "x" }] }),
        json!({ "role": "user", "messageId": "m", "parts": [] }),
    ] {
        assert_eq!(chat.send(bad).unwrap_err()["code"], -32602);
    }
}

#[test]
fn a_stream_begins_with_the_task_and_ends_with_final() {
    let (server, ids) = demo();
    let chat = assistant(&server, &ids["assistant_id"]);
    let frames = chat.stream(text("Stream this"));
    let results: Vec<&Value> = frames.iter().map(|frame| &frame["result"]).collect();
    assert_eq!((&results[0]["kind"], &results[0]["status"]["state"]), (&json!("task"), &json!("submitted")));
    assert_eq!(results[1]["kind"], "status-update");
    assert_eq!((&results[1]["status"]["state"], &results[1]["final"]), (&json!("working"), &json!(false)));
    assert!(results.iter().any(|r| r["kind"] == "artifact-update" && r["artifact"]["name"] == "Assistant Response"));
    let last = results.last().unwrap();
    assert_eq!((&last["status"]["state"], &last["final"]), (&json!("completed"), &json!(true)));
    assert!(results[1..].iter().all(|r| r["taskId"] == results[0]["id"]), "one task: {results:?}");

    let asking = assistant(&server, &ids["interrupt_assistant_id"]);
    let frames = asking.stream(text("Plan"));
    let last = &frames.last().unwrap()["result"];
    assert_eq!((&last["status"]["state"], &last["final"]), (&json!("input-required"), &json!(true)));
    let refused = asking.stream(message(json!([{ "kind": "data", "data": { "resume": 1 } }])));
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0]["error"]["code"], -32602);
}

#[test]
fn cards_are_asked_for_by_assistant() {
    let (server, ids) = demo();
    let id = ids["assistant_id"].as_str().unwrap();
    for path in ["/langgraph/.well-known/agent-card.json", "/.well-known/agent-card.json"] {
        let card = server.get(&format!("{path}?assistant_id={id}"));
        assert_eq!(card.status(), 200);
        let card = card.json();
        assert_eq!(card["url"], format!("{}/langgraph/a2a/{id}", server.url()), "{card}");
        assert_eq!(card["capabilities"]["streaming"], true);
        assert_eq!(card["skills"][0]["id"], format!("{id}-main"));
    }
    let none = server.get("/langgraph/.well-known/agent-card.json");
    assert_eq!(none.status(), 400);
    assert_eq!(none.json()["error"], error(-32602, "Missing required query parameter: assistant_id"));
    assert_eq!(server.get("/langgraph/.well-known/agent-card.json?assistant_id=nobody").status(), 400);
}

#[test]
fn at_the_root_an_assistant_is_any_agent_by_its_name() {
    let (server, _) = demo();
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/send", "params": { "message": text("hi") } });
    let response = server.exchange(&Request::new("POST", "/a2a/assistant").json(&body));
    assert_eq!(response.status(), 200, "no Accept is needed here");
    assert_eq!(response.json()["result"]["status"]["state"], "completed");
}

#[test]
fn the_current_profile_speaks_in_the_envelope_cancels_and_takes_newer_names() {
    let server = current();
    let chat = Assistant { server: &server, id: id_of(&server, "assistant") };
    let answer = chat.post(JSON, "{").json();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32700)));
    let stranger = Assistant { server: &server, id: "assistant".into() };
    assert_eq!(stranger.send(text("x")).unwrap_err(), error(-32602, "Invalid assistant ID: must be a UUID"));

    let sent = chat.send(text("hello")).unwrap();
    let got = chat.call("tasks/get", json!({ "id": sent["id"] })).unwrap();
    assert_eq!(got["id"], sent["id"], "the thread is in the id");
    let names = json!({ "contextId": sent["contextId"], "taskId": sent["id"] });
    let refused = chat.send(with(text("more"), names)).unwrap_err();
    assert_eq!(refused, error(-32004, "A terminal task cannot accept another message"));
    let refused = chat.call("tasks/cancel", json!({ "id": sent["id"] })).unwrap_err();
    assert_eq!(refused, error(-32002, "Task is not cancelable in its current state"));
    assert_eq!(chat.call("tasks/get", json!({ "id": "no:body" })).unwrap_err()["code"], -32001);

    let newer = json!({ "message": { "role": "ROLE_USER", "messageId": fresh_id(), "parts": [{ "text": "hello" }] } });
    let task = chat.call("SendMessage", newer).unwrap();
    assert_eq!(task["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    let listed = chat.call("ListTasks", json!({ "pageSize": 5 })).unwrap();
    assert_eq!(listed["totalSize"], 2, "{listed}");
    assert_eq!(
        chat.call("ListTasks", json!({ "pageSize": 0 })).unwrap_err()["message"],
        "pageSize must be an integer between 1 and 100."
    );

    let asking = Assistant { server: &server, id: id_of(&server, "interrupt") };
    let waits = asking.send(text("Plan")).unwrap();
    let canceled = asking.call("tasks/cancel", json!({ "id": waits["id"] })).unwrap();
    assert_eq!((&canceled["id"], &canceled["status"]["state"]), (&waits["id"], &json!("canceled")));
    let waits = asking.send(text("Plan")).unwrap();
    let command = with(
        text("answer"),
        json!({ "contextId": waits["contextId"], "taskId": waits["id"], "command": { "resume": "Rome" } }),
    );
    let done = asking.send(command).unwrap();
    assert_eq!(done["status"]["state"], "completed", "{done}");

    let file = message(json!([{ "kind": "file", "file": { "uri": "https://example.com/x" } }]));
    assert_ne!(chat.send(file).map(|_| Value::Null).unwrap_or_else(|error| error["code"].clone()), json!(-32602));
    let card = server.get(&format!("/langgraph/a2a/{}", chat.id)).json();
    assert_eq!(card["supportedInterfaces"][0]["protocolVersion"], "1.0", "{card}");

    let structured = Assistant { server: &server, id: id_of(&server, "structured") };
    let refused = structured.send(text("hi")).unwrap_err();
    assert_eq!(refused["code"], -32602, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("messages"), "{refused}");
    let data = structured.send(message(json!([{ "kind": "data", "data": { "a": 1 } }]))).unwrap();
    assert_eq!(data["status"]["state"], "completed", "{data}");
}

#[test]
fn in_both_profiles_accept_says_what_will_be_sent() {
    in_both(|assistant, _| {
        let chat = assistant("assistant");
        let body = |method: &str| {
            json!({ "jsonrpc": "2.0", "id": "1", "method": method, "params": { "message": text("hi") } }).to_string()
        };
        assert_eq!(chat.post("", &body("message/send")).status(), 400);
        assert_eq!(chat.post("*/*", &body("message/send")).status(), 200);
        assert_eq!(chat.post(JSON, &body("message/stream")).status(), 400);
    });
}

#[test]
fn in_both_profiles_a_context_is_a_thread_that_remembers() {
    in_both(|assistant, _| {
        let chat = assistant("assistant");
        let first = chat.send(text("first")).unwrap();
        let other = chat.send(text("other")).unwrap();
        assert_ne!(first["contextId"], other["contextId"], "without a context there is a new thread");
        let second = chat.send(with(text("second"), json!({ "contextId": first["contextId"] }))).unwrap();
        let history = second["history"].to_string();
        assert!(history.contains("first") && history.contains("second") && !history.contains("other"), "{history}");
    });
}

#[test]
fn in_both_profiles_parts_are_input_or_are_refused() {
    in_both(|assistant, is_current| {
        let chat = assistant("assistant");
        let both =
            message(json!([{ "kind": "text", "text": "hi" }, { "kind": "data", "data": { "locale": "en-US" } }]));
        let said = chat.send(both).unwrap()["artifacts"].to_string();
        assert!(said.contains("hi") && said.contains("en-US"), "data is laid over the input: {said}");
        let refused = assistant("structured").send(text("hi")).unwrap_err();
        assert_eq!(refused["code"], -32602, "it takes no messages: {refused}");
        let file = chat.send(message(json!([{ "kind": "file", "file": { "uri": "https://example.com/x" } }])));
        match file {
            Ok(task) => {
                assert!(is_current && task["status"]["state"] == "completed", "later versions take files: {task}");
            }
            Err(refused) => assert_eq!((is_current, &refused["code"]), (false, &json!(-32005))),
        }
    });
}

#[test]
fn in_both_profiles_an_interrupt_is_answered_by_text() {
    in_both(|assistant, _| {
        let asking = assistant("interrupt");
        let asked = asking.send(text("Plan a trip")).unwrap();
        assert_eq!(asked["status"]["state"], "input-required");
        assert_eq!(asked["artifacts"][0]["name"], "Interrupt", "{asked}");
        let names = json!({ "contextId": asked["contextId"], "taskId": asked["id"] });
        let done = asking.send(with(text("In May."), names)).unwrap();
        assert_eq!((&done["id"], &done["status"]["state"]), (&asked["id"], &json!("completed")), "{done}");
        assert!(done["artifacts"].to_string().contains("In May."), "{done}");
    });
}

#[test]
fn in_both_profiles_parallel_interrupts_are_answered_by_one_part() {
    in_both(|assistant, _| {
        let two = assistant("parallel");
        let asked = two.send(text("Plan a trip")).unwrap();
        let questions = asked["artifacts"][0]["parts"].as_array().unwrap();
        let values: Vec<Value> = questions.iter().map(|q| json!({ "id": q["data"]["id"], "value": "A" })).collect();
        assert_eq!(values.len(), 2, "{asked}");
        let names = json!({ "contextId": asked["contextId"], "taskId": asked["id"] });
        let resume = |value: Value| json!({ "kind": "data", "data": { "resume": value } });
        let twice = two.send(with(message(json!([resume(json!(1)), resume(json!(2))])), names.clone())).unwrap_err();
        assert_eq!(twice, error(-32602, "Only one resume value is allowed in data parts"));
        let done = two.send(with(message(json!([resume(json!(values))])), names)).unwrap();
        assert_eq!((&done["id"], &done["status"]["state"]), (&asked["id"], &json!("completed")), "{done}");
        // A thread that does not wait cannot be resumed.
        let chat = assistant("assistant");
        let idle = chat.send(text("hi")).unwrap();
        let names = json!({ "contextId": idle["contextId"], "taskId": idle["id"] });
        let refused = chat.send(with(message(json!([resume(json!(1))])), names)).unwrap_err();
        assert_eq!(refused, error(-32602, "Task is not awaiting input"));
    });
}

#[test]
fn in_both_profiles_a_get_has_its_own_rules() {
    in_both(|assistant, is_current| {
        let chat = assistant("assistant");
        let sent = chat.send(text("hi")).unwrap();
        let without = chat.call("tasks/get", json!({ "id": sent["id"] }));
        match without {
            Ok(task) => assert!(is_current && task["id"] == sent["id"], "the thread is in the id: {task}"),
            Err(refused) => {
                let missing = "Invalid request: Missing required parameter: contextId";
                assert_eq!((is_current, refused), (false, error(-32602, missing)));
            }
        }
        let long = json!({ "id": sent["id"], "contextId": sent["contextId"], "historyLength": 11 });
        assert_eq!(chat.call("tasks/get", long).unwrap_err(), error(-32602, "historyLength cannot exceed 10"));
        let waits = assistant("interrupt").send(text("Plan")).unwrap();
        let names = json!({ "id": waits["id"], "contextId": waits["contextId"] });
        match assistant("interrupt").call("tasks/cancel", names) {
            Ok(task) => assert!(is_current && task["status"]["state"] == "canceled", "{task}"),
            Err(refused) => assert_eq!((is_current, &refused["code"]), (false, &json!(-32004))),
        }
    });
}

#[test]
fn in_both_profiles_a_stream_begins_with_the_task_and_ends_with_final() {
    in_both(|assistant, _| {
        let frames = assistant("assistant").stream(text("Stream this"));
        let results: Vec<&Value> = frames.iter().map(|frame| &frame["result"]).collect();
        assert_eq!((&results[0]["kind"], &results[0]["status"]["state"]), (&json!("task"), &json!("submitted")));
        assert_eq!((&results[1]["status"]["state"], &results[1]["final"]), (&json!("working"), &json!(false)));
        let last = results.last().unwrap();
        assert_eq!((&last["status"]["state"], &last["final"]), (&json!("completed"), &json!(true)));
        let ends = results.iter().filter(|result| result["final"] == true).count();
        assert_eq!(ends, 1, "{results:?}");
    });
}
