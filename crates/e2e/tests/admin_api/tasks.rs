//! Tasks: lists with their filters and pages, logs and streams, and each version's own answer.

use std::collections::HashSet;

use e2e::{Client, Tongue, message, script, to_task};
use serde_json::{Value, json};

use crate::{Api, agent, ask_with_webhook, key, problem, start};

fn ids(page: &Value) -> Vec<String> {
    page["tasks"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn id(task: &Value) -> String {
    task["id"].as_str().unwrap().to_owned()
}

#[test]
fn lists_are_filtered_and_pages_have_every_task_once() {
    let server = start("");
    let (ada, bob) = (key(&server, "ada", "north", &[]), key(&server, "bob", "south", &[]));
    let north = agent(&server, &ada.secret);
    let south = agent(&server, &bob.secret);
    let waits = id(&north.send(script(json!([{ "input": "Which COLOUR?" }]))));
    let fails = id(&south.send(script(json!([{ "fail": "no" }]))));
    let echoed = id(&server
        .agent("echo")
        .with("Authorization", &format!("Bearer {}", ada.secret))
        .send(message("a Purple elephant")));
    let api = Api::made(&server, "default", &["admin"]);
    for (query, expected) in [
        ("", vec![&echoed, &fails, &waits]),
        ("?state=input-required", vec![&waits]),
        ("?state=failed&tenant=south", vec![&fails]),
        ("?state=failed&tenant=north", vec![]),
        ("?agent=echo", vec![&echoed]),
        ("?caller=ada", vec![&echoed, &waits]),
        ("?caller=ada&agent=scripted", vec![&waits]),
        ("?q=purple%20ELEPHANT", vec![&echoed]),
        (&format!("?q={}", &waits[..30]), vec![&waits]),
        ("?q=nothing-of-the-kind", vec![]),
        ("?tenant=west", vec![]),
    ] {
        let expected: Vec<String> = expected.into_iter().cloned().collect();
        assert_eq!(ids(&api.get(&format!("/tasks{query}"))), expected, "{query}");
    }
    let row = api.get("/tasks?state=input-required")["tasks"][0].clone();
    for (member, value) in [
        ("agent", json!("scripted")),
        ("tenant", json!("north")),
        ("owner", json!("ada")),
        ("state", json!("input-required")),
        ("shape", json!("task")),
        ("dialect", json!("a2a_v1")),
        ("turns", json!(1)),
        ("message", json!("Which COLOUR?")),
    ] {
        assert_eq!(row[member], value, "{member}: {row}");
    }
    let many: HashSet<String> = (0..7).map(|number| id(&north.send(message(&format!("number {number}"))))).collect();
    for query in ["caller=ada&agent=scripted&state=completed", "q=number", "state=completed&agent=scripted"] {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = api.get(&format!("/tasks?{query}&limit=3{cursor}"));
            assert!(ids(&page).len() <= 3);
            seen.extend(ids(&page));
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let mut sorted = seen.clone();
        sorted.sort_by(|a, b| b.cmp(a));
        assert_eq!(seen, sorted, "newest first");
        assert_eq!(seen.iter().cloned().collect::<HashSet<_>>(), many, "{query}");
        assert_eq!(seen.len(), many.len(), "{query}");
    }
    let next = api.get("/tasks?q=number&limit=1")["next"].as_str().unwrap().to_owned();
    for bad in [format!("q=other&cursor={next}"), "cursor=x".to_owned(), format!("cursor={next}AAAA")] {
        assert_eq!(problem(&api.ask("GET", &format!("/tasks?{bad}")), 400)["field"], "cursor", "{bad}");
    }
}

#[test]
fn a_task_is_shown_with_its_content_and_webhooks() {
    let server = start("");
    let ada = key(&server, "ada", "north", &[]);
    let client = agent(&server, &ada.secret);
    let task = ask_with_webhook(&client);
    let api = Api::made(&server, "north", &["viewer"]);
    let shown = api.get(&format!("/tasks/{task}"));
    assert_eq!(shown["task"], client.task(&task));
    assert_eq!(shown["summary"]["id"], json!(task));
    assert_eq!(shown["pushConfigs"][0]["config"], "hook");
    assert_eq!(shown["pushConfigs"][0]["endpoint"], "http://127.0.0.1:9");
    assert!(!shown.to_string().contains("/hook"), "{shown}");
}

/// Frames of a stream as the events of a page.
fn events(frames: &[e2e::Frame]) -> Vec<Value> {
    frames.iter().map(|frame| serde_json::from_str(&frame.data).unwrap()).collect()
}

#[test]
fn a_log_is_followed_live_and_resumed_without_a_gap() {
    let server = start("");
    let ada = key(&server, "ada", "north", &[]);
    let client = agent(&server, &ada.secret);
    let steps = json!([
        { "input": "which?" },
        { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 3, "every_ms": 1 },
        { "complete": "done" },
    ]);
    let task = id(&client.send(script(steps)));
    let api = Api::made(&server, "north", &["viewer"]);
    let path = format!("/tasks/{task}/events");
    let before = api.get(&path)["events"].as_array().unwrap().clone();
    let mut stream = api.stream(&task, &[]).unwrap();
    let mut frames = stream.take_until(|frame| frame.seq() == before.len() as u64);
    assert_eq!(events(&frames), before, "a stream begins with the log");
    // Open before the rest happens.
    client.send(to_task(message("the red one"), &task));
    frames.push(stream.take());
    drop(stream);
    let last = frames.last().unwrap().id.clone().unwrap();
    let mut resumed = api.stream(&task, &[("last-event-id", &last)]).unwrap();
    frames.extend(resumed.rest());
    client.settled(&task);
    let mut whole: Vec<Value> = Vec::new();
    let mut after = 0;
    loop {
        let page = api.get(&format!("{path}?limit=3&after={after}"));
        whole.extend(page["events"].as_array().unwrap().clone());
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(events(&frames), whole);
    let numbers: Vec<u64> = whole.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=whole.len() as u64).collect::<Vec<_>>(), "every event, also those that callers never see");
    let kinds: HashSet<&str> = whole.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    for kind in ["opened", "message", "turn", "status", "artifact"] {
        assert!(kinds.contains(kind), "{kind}: {kinds:?}");
    }
    let text = json!(whole).to_string();
    assert!(text.contains("which?") && text.contains("the red one") && text.contains("done"), "{text}");
    // A settled task's stream ends; `after` begins later.
    let request = api.request("GET", &format!("{path}?after=2")).header("accept", "text/event-stream");
    let mut connection = e2e::http::Connection::open(server.addr()).unwrap();
    connection.send(&request).unwrap();
    let head = connection.head().unwrap();
    let rest = e2e::Events::new(connection, head).rest();
    assert_eq!(events(&rest), whole[2..]);
    for wrong in ["x", "0190f3c4-1111-7222-8333-444455556666.1", "1"] {
        let refused = api.stream(&task, &[("last-event-id", wrong)]).expect_err("no stream");
        assert_eq!(problem(&refused, 400)["field"], "Last-Event-ID", "{wrong}");
    }
    let beyond = api.stream(&task, &[("last-event-id", &format!("{task}.9999"))]).expect_err("no stream");
    problem(&beyond, 400);
}

/// The answer of a get in a version.
fn own_answer(client: &Client, version: &str, task: &str) -> Value {
    let method = if version == "1.0" { "GetTask" } else { "tasks/get" };
    client.with("A2A-Version", version).rpc(method, json!({ "id": task, "historyLength": 100 })).unwrap()
}

#[test]
fn the_wire_of_a_version_is_what_it_answers_itself() {
    let server = start("");
    let ada = key(&server, "ada", "north", &[]);
    let client = agent(&server, &ada.secret);
    let api = Api::made(&server, "north", &["viewer"]);
    let steps = json!([
        { "artifact": { "name": "a", "parts": [{ "text": "la " }, { "text": "li", "metadata": { "n": 12345678901234567890_u64 } }] } },
        { "complete": "done" },
    ]);
    for tongue in [Tongue::V1, Tongue::V03, Tongue::V02, Tongue::V01] {
        let opened = tongue.speaker(&client).ask(&steps);
        // A caller's own id names the task as well; the task's own is in its summary.
        let own = api.get(&format!("/tasks/{}", opened.id))["summary"]["id"].as_str().unwrap().to_owned();
        let wire = |version: &str| api.get(&format!("/tasks/{own}/wire?as={version}"));
        for version in ["1.0", "0.3"] {
            assert_eq!(wire(version), own_answer(&client, version, &own), "{tongue:?} as {version}");
        }
        assert_eq!(wire("0.2"), wire("0.3"));
        let response = api.ask("GET", &format!("/tasks/{own}/wire"));
        assert_eq!(response.head.header("x-a2a-dialect"), Some("a2a_v1"));
    }
}

/// Only a send of 0.1 is of 0.1 alone, and its answer has the id that the caller chose.
#[test]
fn the_wire_of_0_1_is_the_answer_to_its_send() {
    let server = start("");
    let ada = key(&server, "ada", "north", &[]);
    let client = agent(&server, &ada.secret).without("A2A-Version");
    let api = Api::made(&server, "north", &["viewer"]);
    let mut session = Value::Null;
    // The second task has the history of the session.
    for (id, steps) in [
        ("one", json!([{ "complete": "first" }])),
        ("two", json!([{ "artifact": { "name": "a", "parts": [{ "text": "la" }] } }, { "complete": "done" }])),
    ] {
        let message = json!({ "role": "user", "parts": [{ "type": "data", "data": { "script": steps } }] });
        let mut params = json!({ "id": id, "message": message, "historyLength": 100 });
        if session.is_string() {
            params["sessionId"] = session.clone();
        }
        let mut answer = client.rpc("tasks/send", params).unwrap();
        session = answer["sessionId"].clone();
        let own = api.get(&format!("/tasks/{id}"))["summary"]["id"].clone();
        assert_eq!(answer["id"], id);
        answer["id"] = own;
        assert_eq!(api.get(&format!("/tasks/{id}/wire?as=0.1")), answer, "{id}");
    }
}
