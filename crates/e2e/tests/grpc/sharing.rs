//! Tasks that callers over gRPC share with callers of every other dialect.

use std::io::{BufRead, BufReader};

use e2e::{Heard, Server, Tongue, message, script};
use serde_json::{Value, json};

use crate::stock::{BEFORE, Sdk, TODAY, calls, v1, v03};

const HANGING: &str = r#"[{"status":"working","text":"waiting"},{"hang":true}]"#;
const ASKING: &str = r#"[{"input":"name?"},{"echo":true},{"complete":"thanks"}]"#;

/// The state of a task or an event in the terms of 0.3, however an SDK shows it.
fn state(thing: &Value) -> String {
    let thing = ["task", "statusUpdate"].iter().find_map(|kind| thing.get(kind)).unwrap_or(thing);
    let text = thing["status"]["state"].as_str().unwrap_or_else(|| panic!("no state in {thing}"));
    text.trim_start_matches("TASK_STATE_").to_lowercase().replace('_', "-")
}

/// Reads a task's stream over gRPC with an SDK; `act` runs after the first event.
fn watch_while(server: &Server, sdk: Sdk, id: &str, act: impl FnOnce()) -> Vec<Value> {
    let mut child = sdk.watch(server, id);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut events = Vec::new();
    if let Some(first) = lines.next() {
        events.push(serde_json::from_str(&first.unwrap()).unwrap());
        act();
    }
    events.extend(lines.map(|line| -> Value { serde_json::from_str(&line.unwrap()).unwrap() }));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && !events.is_empty(), "{sdk:?}: {}", String::from_utf8_lossy(&output.stderr));
    events
}

#[test]
fn a_task_opened_over_grpc_is_watched_in_0_3_json_rpc_and_cancelled_in_0_1() {
    let server = Server::start(&[]);
    let agent = server.agent("scripted");
    for opener in [TODAY, BEFORE] {
        let id = opener.call(&server, &["open", HANGING])[0]["id"].as_str().unwrap().to_owned();
        agent.in_state(&id, "TASK_STATE_WORKING");
        let mut watch = Tongue::V02.speaker(&agent).watch(&id);
        assert_eq!(watch.hear().state(), Some("working"), "{opener:?}");
        Tongue::V01.speaker(&agent).try_cancel(&id).unwrap_or_else(|error| panic!("cancelled in 0.1: {error}"));
        assert_eq!(watch.rest().last().and_then(Heard::state), Some("canceled"), "{opener:?}");
        for reader in [TODAY, BEFORE] {
            assert_eq!(state(&reader.call(&server, &["get", &id])[0]), "canceled", "{opener:?} {reader:?}");
        }
    }
}

#[test]
fn a_task_of_every_dialect_is_watched_answered_and_cancelled_over_grpc() {
    let server = Server::start(&[]);
    let agent = server.agent("scripted");
    let (hanging, asking): (Value, Value) =
        (serde_json::from_str(HANGING).unwrap(), serde_json::from_str(ASKING).unwrap());
    for tongue in Tongue::ALL {
        for (watcher, actor) in [(TODAY, BEFORE), (BEFORE, TODAY)] {
            let row = format!("{tongue:?}, watched by {watcher:?}");
            let speaker = tongue.speaker(&agent);
            let alias = speaker.open(&hanging);
            let id = agent.in_state(&alias, "TASK_STATE_WORKING")["id"].as_str().unwrap().to_owned();
            let watched = watch_while(&server, watcher, &id, || {
                assert_eq!(state(&actor.call(&server, &["cancel", &id])[0]), "canceled", "{row}");
            });
            assert_eq!(state(watched.last().unwrap()), "canceled", "{row}: {watched:?}");
            assert_eq!(speaker.get(&alias).state, "canceled", "{row}");

            let alias = speaker.ask(&asking).id;
            let id = agent.in_state(&alias, "TASK_STATE_INPUT_REQUIRED")["id"].as_str().unwrap().to_owned();
            let watched = watch_while(&server, watcher, &id, || {
                let done = actor.call(&server, &["answer", &id, "Ada"]);
                assert_eq!(state(&done[0]), "completed", "{row}: {done:?}");
            });
            assert_eq!(state(watched.last().unwrap()), "completed", "{row}: {watched:?}");
            assert_eq!(speaker.get(&alias).texts.concat(), "Ada", "{row}");
        }
    }
}

/// An id of an event means the same place over gRPC and in an event stream.
#[test]
fn a_stream_left_over_http_is_resumed_over_grpc_and_the_other_way() {
    let server = Server::start(&[]);
    let steps =
        json!([{ "status": "working" }, { "artifact": { "name": "a", "parts": [{ "text": "x" }] }, "chunks": 3 }]);
    let agent = server.agent("scripted");
    let frames = agent.stream("SendStreamingMessage", e2e::send(script(steps))).unwrap().rest();
    let id = frames[0].task().to_owned();
    let rows: Vec<Value> = frames
        .iter()
        .map(|frame| {
            let row = v1("scripted", "SubscribeToTask", json!({ "id": id }));
            crate::stock::with(row, "last-event-id", frame.id.as_deref().unwrap())
        })
        .collect();
    for (answer, frame) in calls(&server, &rows).iter().zip(&frames) {
        assert_eq!(answer["initial"]["a2a-event-id"], json!(frame.id), "{answer}");
        let whole = agent.with("Last-Event-ID", frame.id.as_deref().unwrap());
        let by_http = whole.stream("SubscribeToTask", json!({ "id": id })).unwrap().rest();
        let messages: Vec<Value> = by_http.iter().map(e2e::Frame::event).collect();
        assert_eq!(answer["messages"].as_array().unwrap().len(), messages.len(), "{answer} {messages:?}");
        assert_eq!(answer["trailing"]["last-event-id"], json!(frames.last().unwrap().id), "{answer}");
    }
}

/// The same words in both generations' services and in JSON.
#[test]
fn a_task_reads_the_same_over_grpc_and_in_json() {
    let server = Server::start(&[]);
    let agent = server.agent("echo");
    let mut sent = message("hello");
    sent["parts"] = json!([
        { "text": "hello", "metadata": { "of": "part" } },
        { "url": "https://example.com/a.png", "mediaType": "image/png", "filename": "a.png" },
        { "raw": "AAEC/w==", "mediaType": "application/octet-stream" },
        { "data": { "a": [1, null, "x"], "b": {} } },
    ]);
    sent["metadata"] = json!({ "of": "message" });
    let task = agent.send(sent);
    let id = task["id"].as_str().unwrap();
    let got = calls(
        &server,
        &[
            v1("echo", "GetTask", json!({ "id": id })),
            v1("echo", "ListTasks", json!({ "contextId": task["contextId"], "includeArtifacts": true })),
            v03("echo", "GetTask", json!({ "name": format!("tasks/{id}") })),
        ],
    );
    assert_eq!(floats(&got[0]["messages"][0]), floats(&task));
    let listed = agent.rpc("ListTasks", json!({ "contextId": task["contextId"], "includeArtifacts": true })).unwrap();
    assert_eq!(floats(&got[1]["messages"][0]["tasks"]), floats(&listed["tasks"]));
    let older = &got[2]["messages"][0];
    assert_eq!(older["id"], id);
    let parts = &older["artifacts"][0]["parts"];
    assert_eq!((&parts[0]["text"], &parts[0]["metadata"]["of"]), (&json!("hello"), &json!("part")), "{older}");
    assert_eq!(parts[1]["file"]["fileWithUri"], "https://example.com/a.png", "{older}");
    assert_eq!(parts[2]["file"]["fileWithBytes"], "AAEC/w==", "{older}");
    assert_eq!(floats(&parts[3]["data"]["data"]), floats(&json!({ "a": [1, null, "x"], "b": {} })), "{older}");
}

/// Protobuf has one kind of number.
fn floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(floats).collect(),
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), floats(value))).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}
