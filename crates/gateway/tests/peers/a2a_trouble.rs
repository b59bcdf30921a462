//! Tests of remote agents that are unreachable or answer oddly: a caller soon gets the address and the reason, sees
//! the wait, and gets every part that could be read.

use std::sync::Arc;

use crate::common::{Asked, House, Say, fake};
use agents::a2a::{A2aAgent, Options};
use client::seen::{Seen, TaskSeen};
use client::{Client, Generation, say};
use model::ports::agent::Agent;
use model::{Content, Message, State};
use serde_json::{Value, json};

const GENERATIONS: [Option<Generation>; 4] =
    [None, Some(Generation::V1_0), Some(Generation::V0_3), Some(Generation::V0_1)];

async fn near(options: Options) -> (House, Client) {
    let far: Arc<dyn Agent> = Arc::new(A2aAgent::connect("far", options).await.unwrap());
    let house = House::serving(vec![far], &[]).await;
    let client = Client::new(client::Options::new(&house.url)).unwrap();
    (house, client)
}

/// An address without a listener. A free port would be taken by another test sooner or later; this one never is.
const NOWHERE: &str = "http://127.0.0.1:1";

/// The texts of the statuses of a stream, and the state it ended in.
async fn statuses(client: &Client, text: &str) -> (Vec<String>, Option<State>) {
    let mut events = client.stream(&say(text)).await.unwrap();
    let (mut texts, mut last) = (Vec::new(), None);
    while let Some(event) = events.next().await {
        let status = match event.unwrap().seen {
            Seen::Task(TaskSeen { status, .. }) | Seen::Status { status, .. } => status,
            Seen::Message { .. } | Seen::Artifact { .. } => continue,
            other @ (Seen::Partial { .. } | Seen::Unread { .. }) => panic!("{other:?}"),
        };
        last = status.state.or(last);
        texts.extend(status.message.as_ref().map(Message::text));
    }
    (texts, last)
}

#[tokio::test]
async fn an_agent_that_is_not_there_fails_soon_with_its_address_and_the_reason() {
    for generation in GENERATIONS {
        let (_house, client) = near(Options { generation, ..Options::new(NOWHERE) }).await;
        let (texts, state) = statuses(&client, "hello").await;
        assert_eq!(state, Some(State::Failed), "{generation:?}: {texts:?}");
        let last = texts.last().unwrap();
        let place = NOWHERE.trim_start_matches("http://");
        assert!(last.contains(place) && last.contains("refused"), "{generation:?}: {last}");
        // The pauses are visible, and add up to less than three seconds.
        let pauses: Vec<f64> = texts
            .iter()
            .filter_map(|text| text.rsplit_once("; trying again in ")?.1.strip_suffix(" s")?.parse().ok())
            .collect();
        assert!(!pauses.is_empty(), "{generation:?}: {texts:?}");
        assert!(pauses.iter().sum::<f64>() < 3.0, "{generation:?}: {texts:?}");
        assert!(texts[0].contains(place), "{generation:?}: {texts:?}");
    }
}

#[tokio::test]
async fn how_long_an_agent_is_tried_can_be_said() {
    for (unreachable_ms, patience_ms) in [(Some(0), None), (Some(0), Some(60_000)), (None, Some(0))] {
        let options = Options { unreachable_ms, patience_ms, ..Options::new(NOWHERE) };
        let (_house, client) = near(options).await;
        let (texts, state) = statuses(&client, "hello").await;
        assert_eq!((state, texts.len()), (Some(State::Failed), 1), "{texts:?}");
    }
}

/// A completed task of a generation whose artifact has these parts.
fn completed(generation: Generation, parts: Value) -> Value {
    let (state, role) = match generation {
        Generation::V1_0 => ("TASK_STATE_COMPLETED", "ROLE_AGENT"),
        Generation::V0_3 | Generation::V0_1 => ("completed", "agent"),
    };
    let said = match generation {
        Generation::V1_0 => json!({ "text": "done" }),
        Generation::V0_3 => json!({ "kind": "text", "text": "done" }),
        Generation::V0_1 => json!({ "type": "text", "text": "done" }),
    };
    json!({
        "kind": "task", "id": "t-1", "contextId": "c-1",
        "status": { "state": state, "message": { "messageId": "m", "role": role, "parts": [said] } },
        "artifacts": [{ "artifactId": "a", "index": 0, "parts": parts }],
    })
}

/// A server without a card that answers every send with this whole task.
fn answers(asked: &Asked, generation: Generation, task: &Value) -> Say {
    if asked.verb == "GET" {
        return Say::Json(404, String::new());
    }
    let result = match (generation, asked.method().as_str()) {
        (Generation::V1_0, "SendMessage" | "SendStreamingMessage") => json!({ "task": task }),
        (Generation::V1_0, "GetTask")
        | (Generation::V0_3, "message/send" | "message/stream" | "tasks/get")
        | (Generation::V0_1, "tasks/send" | "tasks/sendSubscribe" | "tasks/get") => task.clone(),
        (_, other) => {
            let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": -32601, "message": other } });
            return Say::Json(200, error.to_string());
        }
    };
    Say::Json(200, json!({ "jsonrpc": "2.0", "id": 1, "result": result }).to_string())
}

fn data(task: &TaskSeen) -> Vec<Value> {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    let data = parts.filter_map(|part| match &part.content {
        Content::Data(json) => Some(json.to_value()),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
    });
    data.collect()
}

fn texts(task: &TaskSeen) -> Vec<String> {
    let parts = task.artifacts.iter().flat_map(|artifact| &artifact.parts);
    parts.filter_map(|part| part.as_text().map(str::to_owned)).collect()
}

fn history(task: &TaskSeen) -> String {
    task.history.iter().chain(&task.status.message).map(Message::text).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_part_that_cannot_be_read_does_not_fail_the_task() {
    for generation in [Generation::V1_0, Generation::V0_3, Generation::V0_1] {
        for odd in [
            json!({ "kind": "video", "type": "video", "frames": 3 }),
            json!("bare words"),
            json!({}),
            json!({ "text": 5, "more": true }),
        ] {
            let good = match generation {
                Generation::V1_0 => json!({ "text": "good" }),
                Generation::V0_3 => json!({ "kind": "text", "text": "good" }),
                Generation::V0_1 => json!({ "type": "text", "text": "good" }),
            };
            let task = completed(generation, json!([good, odd]));
            let url = fake(move |asked| answers(asked, generation, &task)).await;
            let (_house, client) = near(Options { generation: Some(generation), ..Options::new(&url) }).await;
            let Seen::Task(sent) = client.send(&say("hello")).await.unwrap() else { panic!("a task") };
            let seen = client.get(&sent.id, None).await.unwrap();
            let row = format!("{generation:?} {odd}: {seen:?}");
            assert_eq!(seen.status.state, Some(State::Completed), "{row}");
            assert_eq!((texts(&seen), data(&seen)), (vec!["good".to_owned()], vec![odd.clone()]), "{row}");
            assert!(history(&seen).contains("could not be read"), "{row}");
            assert!(history(&seen).contains("artifacts[0].parts[1]"), "{row}");
            assert!(history(&seen).contains("done"), "{row}");
        }
    }
}

#[tokio::test]
async fn a_member_that_cannot_be_read_does_not_fail_the_task() {
    for generation in [Generation::V1_0, Generation::V0_3, Generation::V0_1] {
        for (at, value) in [
            ("/metadata", json!([1])),
            ("/history", json!({ "a": 1 })),
            ("/status/timestamp", json!({})),
            ("/artifacts/0/metadata", json!("x")),
            ("/artifacts/0/name", json!([])),
        ] {
            let good = json!({ "kind": "text", "type": "text", "text": "good" });
            let mut task = completed(generation, json!([good]));
            (task["metadata"], task["history"], task["status"]["timestamp"]) = (json!({}), json!([]), json!(""));
            (task["artifacts"][0]["metadata"], task["artifacts"][0]["name"]) = (json!({}), json!("n"));
            *task.pointer_mut(at).unwrap() = value;
            let url = fake(move |asked| answers(asked, generation, &task)).await;
            let (_house, client) = near(Options { generation: Some(generation), ..Options::new(&url) }).await;
            let Seen::Task(sent) = client.send(&say("hello")).await.unwrap() else { panic!("a task") };
            let seen = client.get(&sent.id, None).await.unwrap();
            assert_eq!(seen.status.state, Some(State::Completed), "{generation:?} {at}: {seen:?}");
            assert_eq!(texts(&seen), ["good"], "{generation:?} {at}");
            assert!(history(&seen).contains("could not be read"), "{generation:?} {at}: {seen:?}");
        }
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_passed_on_and_the_stream_goes_on() {
    let url = fake(|asked| {
        if asked.verb == "GET" {
            return Say::Json(404, String::new());
        }
        let frame = |result: Value| format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "id": 1, "result": result }));
        let status =
            |state: &str| json!({ "statusUpdate": { "taskId": "t", "contextId": "c", "status": { "state": state } } });
        Say::Events(vec![
            frame(status("TASK_STATE_WORKING")),
            frame(json!({ "weatherUpdate": { "sun": true } })),
            frame(json!({ "artifactUpdate": { "taskId": "t", "contextId": "c", "metadata": 7,
                "artifact": { "artifactId": "a", "parts": [{ "text": "good" }, { "odd": 1 }] } } })),
            frame(status("TASK_STATE_COMPLETED")),
        ])
    })
    .await;
    let (_house, client) = near(Options { generation: Some(Generation::V1_0), ..Options::new(&url) }).await;
    let Seen::Task(sent) = client.send(&say("hello")).await.unwrap() else { panic!("a task") };
    let seen = client.get(&sent.id, None).await.unwrap();
    assert_eq!(seen.status.state, Some(State::Completed), "{seen:?}");
    assert_eq!((texts(&seen), data(&seen)), (vec!["good".to_owned()], vec![json!({ "odd": 1 })]), "{seen:?}");
    let said = history(&seen);
    assert!(said.contains("an event of the remote agent could not be read"), "{said}");
    assert!(said.contains("artifactUpdate.metadata"), "{said}");
    let passed = seen
        .history
        .iter()
        .flat_map(|message| &message.parts)
        .any(|part| matches!(&part.content, Content::Data(json) if json.text().contains("weatherUpdate")));
    assert!(passed, "{seen:?}");
}

#[tokio::test]
async fn a_message_with_an_odd_part_is_still_the_answer() {
    let url = fake(|asked| {
        if asked.verb == "GET" {
            return Say::Json(404, String::new());
        }
        let message = json!({ "messageId": "m", "role": "ROLE_AGENT", "parts": [{ "text": "hi" }, { "odd": 1 }] });
        Say::Json(200, json!({ "jsonrpc": "2.0", "id": 1, "result": { "message": message } }).to_string())
    })
    .await;
    let (_house, client) = near(Options { generation: Some(Generation::V1_0), ..Options::new(&url) }).await;
    let Seen::Message { message, .. } = client.send(&say("hello")).await.unwrap() else { panic!("a message") };
    assert_eq!(message.parts[0].as_text(), Some("hi"));
    assert!(message.text().contains("could not be read"), "{message:?}");
    assert!(matches!(&message.parts[1].content, Content::Data(json) if json.text() == r#"{"odd":1}"#), "{message:?}");
}
