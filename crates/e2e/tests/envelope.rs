//! The first generation, 0.1, with a client written from the examples of the article on its envelope. The examples
//! are in `fixtures/envelope`, unchanged.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::time::{Duration, Instant};

use e2e::poll::PATIENCE;
use e2e::{Client, Server, fresh_id, until};
use serde_json::{Value, json};

const SEND: &str = include_str!("../fixtures/envelope/send.json");
const ANSWER: &str = include_str!("../fixtures/envelope/answer.json");
const NULLS: &str = include_str!("../fixtures/envelope/nulls.json");
const COMPARISON: &str = include_str!("../fixtures/envelope/comparison.json");

/// A client without versions.
fn at(server: &Server, agent: &str) -> Client {
    server.agent(agent).without("A2A-Version")
}

fn text(words: &str) -> Value {
    json!({ "role": "user", "parts": [{ "type": "text", "text": words }] })
}

fn script(steps: Value) -> Value {
    json!({ "role": "user", "parts": [{ "type": "data", "data": { "script": steps } }] })
}

fn send(client: &Client, id: &str, message: Value) -> Value {
    client.rpc("tasks/send", json!({ "id": id, "message": message })).unwrap_or_else(|error| panic!("{id}: {error}"))
}

fn get(client: &Client, id: &str) -> Value {
    client.rpc("tasks/get", json!({ "id": id, "historyLength": 100 })).unwrap_or_else(|error| panic!("{id}: {error}"))
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_else(|| panic!("a task has a state: {task}"))
}

/// The texts of the user's messages in a task's history.
fn said(task: &Value) -> Vec<String> {
    let history = task["history"].as_array().cloned().unwrap_or_default();
    history
        .iter()
        .filter(|message| message["role"] == "user")
        .map(|message| message["parts"][0]["text"].as_str().unwrap_or("(a script)").to_owned())
        .collect()
}

/// Rialto's own id of a task; a caller of 0.1 never sees it.
fn own_id(server: &Server, agent: &str, alias: &str) -> String {
    server.agent(agent).task(alias)["id"].as_str().unwrap().to_owned()
}

fn code(error: &Value) -> i64 {
    assert!(error["message"].as_str().is_some_and(|words| !words.is_empty()), "{error}");
    error["code"].as_i64().unwrap()
}

#[test]
fn the_articles_request_gets_an_answer_of_the_articles_shape() {
    let server = Server::start(&[]);
    for agent in ["echo", "scripted"] {
        let response = at(&server, agent).post(SEND);
        assert_eq!((response.status(), response.head.media_type()), (200, "application/json"));
        assert_eq!(response.head.header("x-a2a-dialect"), Some("a2a_v0_1"));
        let answer = response.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("req-8f2e")));
        assert!(answer.get("error").is_none(), "{answer}");
        let task = &answer["result"];
        assert_eq!((&task["id"], &task["sessionId"]), (&json!("task-abc-123"), &json!("sess-def-456")));
        assert_eq!(state(task), "completed");
        assert_eq!(task["artifacts"][0]["parts"], json!([{ "type": "text", "text": "Find flights to Bangalore" }]));
        let name = task["artifacts"][0]["name"].as_str();
        assert!(name.is_some_and(|name| !name.is_empty()), "an artifact has a name: {answer}");
        assert!(task.get("history").is_none(), "nobody asked for history: {answer}");
        for foreign in ["kind", "contextId"] {
            assert!(task.get(foreign).is_none(), "a member of another generation: {answer}");
        }
    }
    let comparison = at(&server, "echo").post(COMPARISON).json();
    let request: Value = serde_json::from_str(COMPARISON).unwrap();
    assert_eq!(comparison["result"]["artifacts"][0]["parts"], request["params"]["message"]["parts"], "{comparison}");
}

#[test]
fn the_articles_answer_is_what_an_agent_that_finds_flights_gives() {
    let server = Server::start(&[]);
    let mut request: Value = serde_json::from_str(SEND).unwrap();
    let flights = json!({ "name": "flights", "parts": [{ "data": { "flights": ["6E 1234"] } }] });
    request["params"]["message"] = script(json!([{ "artifact": flights }]));
    let mut answer = at(&server, "scripted").post(request.to_string()).json();
    // A member that the schema has and the article omits.
    assert!(answer["result"]["status"].as_object_mut().unwrap().remove("timestamp").is_some());
    assert_eq!(answer["result"]["artifacts"][0].as_object_mut().unwrap().remove("index"), Some(json!(0)));
    assert_eq!(answer, serde_json::from_str::<Value>(ANSWER).unwrap());
}

#[test]
fn explicit_nulls_are_nothing_at_all() {
    let server = Server::start(&[]);
    let echo = at(&server, "echo");
    let answer = echo.post(NULLS).json();
    let task = &answer["result"];
    assert_eq!(state(task), "completed", "{answer}");
    assert_eq!(task["sessionId"], "2c1b4c3aa1d2e3f405162738aabbccdd");
    let file = json!({ "type": "file", "file": { "name": "a.csv", "bytes": "YSxiCjEsMgo=" } });
    assert_eq!(task["artifacts"][0]["parts"], json!([{ "type": "text", "text": "hello" }, file]), "{answer}");
    for (method, params) in [
        ("tasks/get", json!({ "id": "nulls-1", "historyLength": null, "metadata": null })),
        ("tasks/send", json!({ "id": "nulls-2", "sessionId": null, "message": text("x"), "metadata": null })),
    ] {
        echo.rpc(method, params).unwrap_or_else(|error| panic!("{method}: {error}"));
    }
    let refused = echo.rpc("tasks/cancel", json!({ "id": "nulls-1", "metadata": null })).unwrap_err();
    assert_eq!(code(&refused), -32002);
    assert!(!answer.to_string().contains(":null"), "null is for readers, not for writers: {answer}");
}

#[test]
fn the_same_id_twice_is_one_task_with_two_messages() {
    let server = Server::start(&[]);
    let scripted = at(&server, "scripted");
    let asked = send(&scripted, "t-1", text("ask: which colour?"));
    assert_eq!(state(&asked), "input-required");
    assert_eq!(asked["status"]["message"]["parts"][0], json!({ "type": "text", "text": "which colour?" }));
    let first = own_id(&server, "scripted", "t-1");
    let done = send(&scripted, "t-1", text("red"));
    assert_eq!((state(&done), &done["id"], &done["sessionId"]), ("completed", &json!("t-1"), &asked["sessionId"]));
    assert_eq!(own_id(&server, "scripted", "t-1"), first, "one task");
    let task = get(&scripted, "t-1");
    assert_eq!(said(&task), ["ask: which colour?", "red"]);
    let listed = server.agent("scripted").rpc("ListTasks", json!({})).unwrap();
    assert_eq!(listed["totalSize"], 1, "{listed}");
}

#[test]
fn history_is_for_those_who_ask_and_the_newest_of_it_first_to_stay() {
    let server = Server::start(&[]);
    let scripted = at(&server, "scripted");
    send(&scripted, "h", text("ask: one?"));
    send(&scripted, "h", text("ask: two?"));
    for nothing in [json!({ "id": "h" }), json!({ "id": "h", "historyLength": 0 })] {
        let task = scripted.rpc("tasks/get", nothing).unwrap();
        assert!(task.get("history").is_none_or(|history| history == &json!([])), "{task}");
    }
    let task = scripted.rpc("tasks/get", json!({ "id": "h", "historyLength": 1 })).unwrap();
    assert_eq!(task["history"].as_array().map(Vec::len), Some(1), "{task}");
    let sent = json!({ "id": "h", "historyLength": 50, "message": text("ask: three?") });
    let task = scripted.rpc("tasks/send", sent).unwrap();
    assert_eq!(said(&task), ["ask: one?", "ask: two?", "ask: three?"]);
}

#[test]
fn a_session_is_shared_by_its_tasks() {
    let server = Server::start(&[]);
    let echo = at(&server, "echo");
    for (id, words) in [("s-1", "I am Ada"), ("s-2", "who am I?")] {
        let task = echo.rpc("tasks/send", json!({ "id": id, "sessionId": "chat", "message": text(words) })).unwrap();
        assert_eq!((&task["id"], &task["sessionId"]), (&json!(id), &json!("chat")));
    }
    assert_eq!(said(&get(&echo, "s-2")), ["I am Ada", "who am I?"], "the second sees the first's messages");
    let other = json!({ "id": "s-3", "sessionId": "another chat", "message": text("hello") });
    echo.rpc("tasks/send", other).unwrap();
    assert_eq!(said(&get(&echo, "s-3")), ["hello"], "sessions do not meet");
    let listed = server.agent("echo").rpc("ListTasks", json!({ "contextId": "chat" })).unwrap();
    assert_eq!(listed["totalSize"], 2, "a session is a context: {listed}");
}

#[test]
fn an_update_in_another_session_is_refused() {
    let server = Server::start(&[]);
    let scripted = at(&server, "scripted");
    let opened = json!({ "id": "u", "sessionId": "mine", "message": text("ask: well?") });
    scripted.rpc("tasks/send", opened).unwrap();
    for method in ["tasks/send", "tasks/sendSubscribe"] {
        let moved = json!({ "id": "u", "sessionId": "other", "message": text("fine") });
        let error = scripted.rpc(method, moved).unwrap_err();
        assert_eq!(code(&error), -32602, "{error}");
    }
    let same = json!({ "id": "u", "sessionId": "mine", "message": text("fine") });
    assert_eq!(state(&scripted.rpc("tasks/send", same).unwrap()), "completed");
    // A caller cannot choose the session of a task that follows a settled one, just as it cannot change the task's
    // own.
    let later = json!({ "id": "u", "sessionId": "other", "message": text("again") });
    assert_eq!(code(&scripted.rpc("tasks/send", later).unwrap_err()), -32602);
}

#[test]
fn a_settled_task_has_a_successor_that_looks_like_the_same_task() {
    let server = Server::start(&[]);
    let scripted = at(&server, "scripted");
    let picture = send(&scripted, "p", text("paint it"));
    let first = own_id(&server, "scripted", "p");
    let red = send(&scripted, "p", text("make it red"));
    let second = own_id(&server, "scripted", "p");
    assert_ne!(first, second, "a settled task stays as it is");
    assert_eq!((&red["id"], &red["sessionId"]), (&json!("p"), &picture["sessionId"]));
    assert_eq!(red["artifacts"][0]["parts"][0]["text"], "make it red", "state and artifacts of the newest");
    assert_eq!(red["artifacts"].as_array().map(Vec::len), Some(1), "{red}");
    assert_eq!(said(&get(&scripted, "p")), ["paint it", "make it red"], "history of all");

    // Subscribe and cancel by the id refer to the newest task.
    let refused = scripted.rpc("tasks/cancel", json!({ "id": "p" })).unwrap_err();
    assert_eq!(code(&refused), -32002);
    let params = json!({ "id": "p", "message": script(json!([{ "status": "working" }, { "hang": true }])) });
    let mut opened = scripted.stream("tasks/sendSubscribe", params).unwrap();
    let third = opened.take_until(|frame| frame.event()["status"]["state"] == "working");
    let third = third.last().unwrap().task().to_owned();
    assert!(third != first && third != second);
    let mut watching = scripted.stream("tasks/resubscribe", json!({ "id": "p" })).unwrap();
    let current = watching.take_until(|frame| frame.id.is_some());
    let current = current.last().unwrap();
    assert_eq!((current.task(), &current.event()["id"]), (third.as_str(), &json!("p")));
    let canceled = scripted.rpc("tasks/cancel", json!({ "id": "p" })).unwrap();
    assert_eq!((state(&canceled), &canceled["id"]), ("canceled", &json!("p")));
    for events in [&mut opened, &mut watching] {
        let last = events.rest().pop().unwrap().event();
        assert_eq!(
            (&last["status"]["state"], &last["final"], &last["id"]),
            (&json!("canceled"), &json!(true), &json!("p"))
        );
    }
    for (own, words) in [(&first, "paint it"), (&second, "make it red")] {
        let task = server.agent("scripted").task(own);
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], words, "{task}");
    }
    assert_eq!(said(&get(&scripted, "p")), ["paint it", "make it red", "(a script)"]);
}

#[test]
fn equal_ids_of_other_agents_callers_and_tenants_do_not_meet() {
    const CONFIG: &str = r#"
auth:
  required: true
  keys:
    - { name: ada, tenant: north, key: "env:E2E_KEY_ADA" }
    - { name: bob, tenant: north, key: "env:E2E_KEY_BOB" }
    - { name: eve, tenant: south, key: "env:E2E_KEY_EVE" }
"#;
    let mut options = Server::options().config(CONFIG);
    for name in ["ada", "bob", "eve"] {
        options = options.env(&format!("E2E_KEY_{}", name.to_uppercase()), &format!("{name}-0123456789abcdef"));
    }
    let server = options.start();
    let client =
        |agent: &str, name: &str| at(&server, agent).with("Authorization", &format!("Bearer {name}-0123456789abcdef"));
    let all: Vec<(String, Client)> = ["ada", "bob", "eve"]
        .iter()
        .flat_map(|name| ["echo", "scripted"].map(|agent| (format!("{name} at {agent}"), client(agent, name))))
        .collect();
    for (index, (who, client)) in all.iter().enumerate() {
        let missing = client.rpc("tasks/get", json!({ "id": "same" })).unwrap_err();
        assert_eq!(code(&missing), -32001, "{who} sees nobody else's");
        assert_eq!(code(&client.rpc("tasks/cancel", json!({ "id": "same" })).unwrap_err()), -32001);
        let task = send(client, "same", text(who));
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], who.as_str());
        for (other, client) in &all[..=index] {
            let task = get(client, "same");
            assert_eq!(task["artifacts"][0]["parts"][0]["text"], other.as_str(), "{task}");
            assert_eq!(said(&task), [other.as_str()]);
        }
    }
    // A caller's own id takes precedence over a task's id, and names nothing for another caller.
    let unknown = server.agent("echo").without("A2A-Version").rpc("tasks/get", json!({ "id": "same" }));
    assert!(matches!(unknown, Err(error) if error["code"] == -32007 || error["code"] == -32041));
}

#[test]
fn many_first_sends_of_one_id_at_once_are_one_task() {
    let server = Server::start(&[]);
    for round in 0..8 {
        let id = format!("race-{round}");
        let context = format!("context-{round}");
        std::thread::scope(|scope| {
            for worker in 0..12 {
                let (client, id, context) = (at(&server, "scripted"), &id, &context);
                scope.spawn(move || {
                    let message = text(&format!("ask: {worker}?"));
                    let params = json!({ "id": id, "sessionId": context, "message": message });
                    let task = client.rpc("tasks/send", params).unwrap_or_else(|error| panic!("{worker}: {error}"));
                    assert_eq!((&task["id"], state(&task)), (&json!(id), "input-required"));
                });
            }
        });
        let listed = server.agent("scripted").rpc("ListTasks", json!({ "contextId": context })).unwrap();
        assert_eq!(listed["totalSize"], 1, "{listed}");
        let mut said = said(&get(&at(&server, "scripted"), &id));
        said.sort();
        said.dedup();
        assert_eq!(said.len(), 12, "every message is there once: {said:?}");
    }
}

#[test]
fn a_slow_task_is_answered_before_it_is_done_and_polled_to_its_end() {
    let server = Server::start(&[]);
    let scripted = at(&server, "scripted");
    let started = Instant::now();
    let steps = json!([{ "status": "working" }, { "sleep_ms": 12_000 }, { "complete": "at last" }]);
    let task = send(&scripted, "slow", script(steps));
    let waited = started.elapsed();
    assert!(["submitted", "working"].contains(&state(&task)), "{task}");
    assert!(waited > Duration::from_secs(8), "waited {waited:?}");
    let done = until("the slow task has completed", PATIENCE, || {
        let task = get(&scripted, "slow");
        (state(&task) == "completed").then_some(task)
    });
    assert_eq!(done["status"]["message"]["parts"][0]["text"], "at last");
}

#[test]
fn files_come_by_bytes_by_uri_and_by_url() {
    let server = Server::start(&[]);
    let echo = at(&server, "echo");
    let part = |file: Value| json!({ "type": "file", "file": file });
    let parts = json!([
        { "type": "text", "text": "see" },
        part(json!({ "name": "a.csv", "mimeType": "text/csv", "bytes": "YSxiCjEsMgo=" })),
        part(json!({ "mimeType": "image/png", "uri": "https://example.com/a.png" })),
        part(json!({ "url": "https://example.com/b.png" })),
        { "type": "data", "data": { "any": [1, null] } },
        { "type": "data", "data": [1, "two"] },
    ]);
    let task = send(&echo, "files", json!({ "role": "user", "parts": parts }));
    assert_eq!(state(&task), "completed");
    let back = task["artifacts"][0]["parts"].as_array().unwrap();
    assert_eq!(back[..3], parts.as_array().unwrap()[..3]);
    assert_eq!(back[3], part(json!({ "uri": "https://example.com/b.png" })), "a url is a uri");
    assert_eq!(back[4], parts[4]);
    let seen = server.agent("echo").task("files");
    assert_eq!(seen["artifacts"][0]["parts"][1]["raw"], "YSxiCjEsMgo=", "{seen}");
    assert_eq!(seen["artifacts"][0]["parts"][5]["data"], json!([1, "two"]), "{seen}");

    for (index, file) in [
        json!({ "bytes": "YQ==", "uri": "https://example.com" }),
        json!({ "bytes": "YQ==", "url": "https://example.com" }),
        json!({ "bytes": "§" }),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("bad-{index}");
        let params = json!({ "id": id, "message": { "role": "user", "parts": [part(file)] } });
        let error = echo.rpc("tasks/send", params).unwrap_err();
        assert_eq!(code(&error), -32602, "{error}");
        assert_eq!(code(&echo.rpc("tasks/get", json!({ "id": id })).unwrap_err()), -32001, "no task came to be");
    }
}

#[test]
fn a_stream_is_status_and_artifact_events_and_ends_with_final() {
    let server = Server::start(&[]);
    let scripted = at(&server, "scripted");
    let steps = json!([
        { "status": "working", "text": "on it" },
        { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 3 },
        { "input": "more?" },
    ]);
    let body = json!({ "jsonrpc": "2.0", "id": "stream-1", "method": "tasks/sendSubscribe",
        "params": { "id": "st", "message": script(steps) } });
    let response = scripted.post(body.to_string());
    assert_eq!(response.head.media_type(), "text/event-stream");
    let text = response.text();
    let frames: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    for frame in &frames {
        assert_eq!((&frame["jsonrpc"], &frame["id"]), (&json!("2.0"), &json!("stream-1")), "{frame}");
        let event = &frame["result"];
        assert_eq!(event["id"], "st");
        assert_ne!(event["status"].is_object(), event["artifact"].is_object(), "one or the other: {event}");
        assert!(event.get("kind").is_none(), "{event}");
    }
    let chunks: Vec<&Value> = frames.iter().map(|f| &f["result"]["artifact"]).filter(|a| a.is_object()).collect();
    assert_eq!(chunks.iter().map(|c| &c["index"]).collect::<Vec<_>>(), [&json!(0); 3]);
    assert_eq!(chunks.iter().map(|c| c["append"] == true).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(chunks.iter().map(|c| c["lastChunk"] == true).collect::<Vec<_>>(), [false, false, true]);
    let finals: Vec<bool> = frames.iter().map(|f| f["result"]["final"] == true).collect();
    assert_eq!(finals.iter().filter(|last| **last).count(), 1);
    let last = &frames.last().unwrap()["result"];
    assert_eq!((&last["final"], &last["status"]["state"]), (&json!(true), &json!("input-required")));
}

#[test]
fn leaving_a_stream_cancels_nothing() {
    let server = Server::start(&[]);
    let scripted = at(&server, "scripted");
    let steps = json!([{ "status": "working" }, { "sleep_ms": 300 }, { "complete": "done" }]);
    let mut events = scripted.stream("tasks/sendSubscribe", json!({ "id": "left", "message": script(steps) })).unwrap();
    events.take();
    drop(events);
    let mut again = scripted.stream("tasks/resubscribe", json!({ "id": "left" })).unwrap();
    let frames = again.rest();
    let last = frames.last().unwrap().event();
    assert_eq!((&last["status"]["state"], &last["final"]), (&json!("completed"), &json!(true)));
    assert_eq!(state(&get(&scripted, "left")), "completed");
}

#[test]
fn what_this_generation_has_no_word_for_is_said_in_its_own() {
    let server = Server::start(&[]);
    let scripted = at(&server, "scripted");
    let rejected = send(&scripted, "r", text("reject: not my job"));
    assert_eq!(state(&rejected), "failed");
    assert_eq!(rejected["metadata"]["a2a_compat"]["state"], "rejected", "{rejected}");
    let auth = send(&scripted, "a", text("auth: sign in first"));
    assert_eq!(state(&auth), "input-required");
    assert_eq!(auth["metadata"]["a2a_compat"]["state"], "auth-required", "{auth}");
    let failed = send(&scripted, "f", text("fail: out of paper"));
    assert_eq!((state(&failed), failed.get("error")), ("failed", None), "a failure of the agent is a state");
    // A direct message is a completed task with the message as its last status.
    let answered = send(&scripted, "m", text("message: hi"));
    assert_eq!(state(&answered), "completed", "{answered}");
    assert_eq!(answered["status"]["message"]["parts"][0]["text"], "hi");
    // Requested by a method that 0.3 has too, it has the members of both.
    let again = get(&scripted, "m");
    assert_eq!((state(&again), &again["status"]["message"]["parts"][0]["text"]), ("completed", &json!("hi")));
    assert_eq!(again["status"]["message"]["parts"][0]["type"], "text");
}

#[test]
fn ids_outlive_a_killed_server() {
    let mut server = Server::start(&[]);
    let client = |server: &Server| at(server, "scripted");
    send(&client(&server), "k-done", text("hello"));
    send(&client(&server), "k-asks", text("ask: well?"));
    send(&client(&server), "k-chain", text("one"));
    send(&client(&server), "k-chain", text("two"));
    let before = ["k-done", "k-asks", "k-chain"].map(|id| get(&client(&server), id));
    server.kill9();
    server.restart();
    let after = ["k-done", "k-asks", "k-chain"].map(|id| get(&client(&server), id));
    assert_eq!(before, after);
    assert_eq!(said(&after[2]), ["one", "two"]);
    let first = own_id(&server, "scripted", "k-asks");
    assert_eq!(state(&send(&client(&server), "k-asks", text("fine"))), "completed");
    assert_eq!(own_id(&server, "scripted", "k-asks"), first, "the same task goes on");
    assert_eq!(said(&get(&client(&server), "k-asks")), ["ask: well?", "fine"]);
    send(&client(&server), "k-chain", text("three"));
    assert_eq!(said(&get(&client(&server), "k-chain")), ["one", "two", "three"]);
}

#[test]
fn push_notifications_are_refused_while_there_are_none() {
    let server = Server::options().config("push: { enabled: false }\n").start();
    let echo = at(&server, "echo");
    let id = fresh_id();
    send(&echo, &id, text("hi"));
    let config = json!({ "url": "https://example.com/hook", "token": "t" });
    for (method, params) in [
        ("tasks/pushNotification/set", json!({ "id": id, "pushNotificationConfig": config })),
        ("tasks/pushNotification/get", json!({ "id": id })),
        ("tasks/send", json!({ "id": "with-push", "message": text("x"), "pushNotification": config })),
    ] {
        let error = echo.rpc(method, params).unwrap_err();
        assert_eq!(code(&error), -32003, "{method}: {error}");
        assert_eq!(error.as_object().unwrap().len(), 2, "code and message alone: {error}");
    }
    assert_eq!(code(&echo.rpc("tasks/get", json!({ "id": "with-push" })).unwrap_err()), -32001);
}
