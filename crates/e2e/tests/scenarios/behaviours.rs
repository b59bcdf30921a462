//! The behaviours that public suites select by the prefix of `messageId`, and the text commands.

use std::time::{Duration, Instant};

use e2e::{Client, Server, message, send};
use serde_json::{Value, json};

fn marked(prefix: &str) -> Value {
    let mut message = message("anything");
    message["messageId"] = json!(format!("{prefix}-{}", e2e::fresh_id()));
    message
}

fn task_of(client: &Client, prefix: &str) -> Value {
    let result = client.rpc("SendMessage", send(marked(prefix))).unwrap();
    assert!(result["task"].is_object(), "{prefix}: {result}");
    result["task"].clone()
}

#[test]
fn the_prefix_of_a_message_id_decides() {
    let server = Server::start(&["--default", "scripted"]);
    let client = server.at("");
    let completed = task_of(&client, "tck-complete-task");
    assert_eq!(completed["status"]["message"]["parts"][0]["text"], "Hello from TCK", "{completed}");
    for (prefix, parts) in [
        ("tck-artifact-text", json!({ "text": "Generated text content" })),
        (
            "tck-artifact-file-url",
            json!({ "url": "https://example.com/output.txt", "filename": "output.txt", "mediaType": "text/plain" }),
        ),
        ("tck-artifact-data", json!({ "data": { "key": "value", "count": 42 } })),
    ] {
        let task = task_of(&client, prefix);
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
        assert_eq!(task["artifacts"][0]["parts"][0], parts, "{task}");
    }
    let file = task_of(&client, "tck-artifact-file");
    let part = &file["artifacts"][0]["parts"][0];
    assert!(part["raw"].is_string(), "{file}");
    assert_eq!((&part["filename"], &part["mediaType"]), (&json!("output.txt"), &json!("text/plain")));
    let asks = task_of(&client, "tck-input-required");
    assert_eq!(asks["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asks}");
    let rejected = task_of(&client, "tck-reject-task");
    assert_eq!(rejected["status"]["state"], "TASK_STATE_REJECTED", "{rejected}");
    let direct = client.rpc("SendMessage", send(marked("tck-message-response"))).unwrap();
    assert_eq!(direct["message"]["parts"][0]["text"], "Direct message response", "{direct}");
    let other = task_of(&client, "some-other-prefix");
    assert_eq!(other["artifacts"][0]["parts"][0]["text"], "anything", "{other}");
}

#[test]
fn the_streams_of_the_suite_have_their_events_in_order() {
    let server = Server::start(&["--default", "scripted"]);
    let client = server.at("");
    for (prefix, expected) in [
        ("tck-stream-001", "working artifact completed"),
        ("tck-stream-003", "working artifact completed"),
        ("tck-stream-ordering-001", "working artifact completed"),
        ("tck-stream-002", "completed"),
        ("tck-stream-artifact-text", "working artifact completed"),
        ("tck-stream-artifact-file", "working artifact completed"),
        ("tck-stream-artifact-chunked", "working artifact artifact completed"),
    ] {
        let frames = client.stream("SendStreamingMessage", send(marked(prefix))).unwrap().rest();
        let seen: Vec<String> = frames[1..]
            .iter()
            .map(|frame| match frame.state() {
                Some(state) => state.trim_start_matches("TASK_STATE_").to_lowercase(),
                None => "artifact".to_owned(),
            })
            .collect();
        assert_eq!(seen.join(" "), expected, "{prefix}");
        if prefix.ends_with("chunked") {
            let task = client.task(frames[0].task());
            assert_eq!(e2e::fold::text_of(&task["artifacts"][0]["parts"]), "chunk-1 chunk-2", "{task}");
        }
    }
}

#[test]
fn a_task_to_resubscribe_to_works_for_twice_the_suites_timeout() {
    let server = Server::options().args(&["--default", "scripted"]).env("TCK_STREAMING_TIMEOUT", "0.5").start();
    let client = server.at("");
    let started = Instant::now();
    let mut events = client.stream("SendStreamingMessage", send(marked("test-resubscribe-message-id"))).unwrap();
    let id = events.take().task().to_owned();
    drop(events);
    let mut again = client.stream("SubscribeToTask", json!({ "id": id })).unwrap();
    assert!(again.take().event()["task"].is_object());
    assert_eq!(again.rest().last().unwrap().state().as_deref(), Some("TASK_STATE_COMPLETED"));
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(950), "took {took:?}");
}

#[test]
fn people_can_type_what_they_want_to_see() {
    let server = Server::start(&[]);
    let client = server.agent("scripted");
    for (typed, state) in [
        ("ask", "TASK_STATE_INPUT_REQUIRED"),
        ("fail", "TASK_STATE_FAILED"),
        ("hello there", "TASK_STATE_COMPLETED"),
        ("chunks:20", "TASK_STATE_COMPLETED"),
    ] {
        let task = client.send(message(typed));
        assert_eq!(task["status"]["state"], state, "{typed}: {task}");
    }
    let hanging = client.open(message("hang"));
    let canceled = client.rpc("CancelTask", json!({ "id": hanging["id"] })).unwrap();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED");
}
