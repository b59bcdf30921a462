//! The minimal samples of the protocol reference, every one: requests are understood, answers and events are read, and
//! what we write is read the same.

#![allow(clippy::unwrap_used)]

mod cases;

use dialects::framing::jsonrpc;
use dialects::framing::sse;
use dialects::seen::Seen;
use dialects::{a2a_v0_1, a2a_v0_3, a2a_v1, decide, decide_route};
use model::{Call, Content, Kind, Limits, Part, State, Wait};
use serde_json::Value;

fn call(text: &str) -> (&'static str, Call) {
    let request = jsonrpc::read(text).unwrap();
    let wire = decide(&request.method, None).unwrap().resolve(None);
    (wire.name(), wire.decode_rpc(&request.method, request.params, &Limits::default()).unwrap().call)
}

fn result(text: &str) -> String {
    serde_json::from_str::<Value>(text).unwrap()["result"].to_string()
}

/// The data of the one frame of a stream.
fn data(frame: &str) -> String {
    let mut frames = Vec::new();
    sse::Parser::new(10_000).push(format!("{frame}\n\n").as_bytes(), &mut frames).unwrap();
    frames[0].data.clone()
}

#[test]
fn requests_of_every_generation() {
    let (name, g1) = call(
        r#"{"jsonrpc":"2.0","id":"r1","method":"tasks/send","params":{"id":"t1","sessionId":"s1","message":{"role":"user","parts":[{"type":"text","text":"hi"}]}}}"#,
    );
    let Call::Send(send) = g1 else { panic!() };
    assert_eq!(
        (name, send.alias.as_deref(), &send.message.parts[..]),
        ("a2a_v0_1", Some("t1"), &[Part::text("hi")][..])
    );
    let (name, g2) = call(
        r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m1","role":"user","parts":[{"kind":"text","text":"hi"}]},"configuration":{"acceptedOutputModes":["text/plain"],"blocking":true}}}"#,
    );
    let Call::Send(send) = g2 else { panic!() };
    assert_eq!((name, &*send.message.id, send.wait), ("a2a_v0_3", "m1", Wait::Rest { max_ms: None }));
    let (name, g3) = call(
        r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]}}}"#,
    );
    assert!(name == "a2a_v1" && matches!(g3, Call::Send(_)));
}

#[test]
fn an_http_body_of_0_3() {
    let body = r#"{"message":{"messageId":"m1","role":"ROLE_USER","content":[{"text":"hi"},{"file":{"fileWithUri":"https://f/x","mimeType":"image/png"}},{"data":{"data":{"k":1}}}]}}"#;
    let route = decide_route("/v1/message:send", None).unwrap().route("POST", "/v1/message:send", None).unwrap();
    assert!(route.reads_body() && !route.is_stream());
    let Call::Send(send) = route.decode(body, &Limits::default()).unwrap().call else { panic!() };
    let contents: Vec<&Content> = send.message.parts.iter().map(|part| &part.content).collect();
    assert_eq!(
        contents,
        [&Content::Text("hi".into()), &Content::Url("https://f/x".into()), &Content::Data(cases::json(r#"{"k":1}"#)),]
    );
}

#[test]
fn results_of_every_generation() {
    let g1 = r#"{"jsonrpc":"2.0","id":"r1","result":{"id":"t1","sessionId":"s1","status":{"state":"completed","timestamp":"2025-05-01T10:00:00Z"},"artifacts":[{"index":0,"parts":[{"type":"text","text":"yo"}]}]}}"#;
    let g2 = r#"{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"T","contextId":"C","status":{"state":"completed"},"artifacts":[{"artifactId":"A","parts":[{"kind":"text","text":"yo"}]}]}}"#;
    let g2_http = r#"{"task":{"id":"T","contextId":"C","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
    let g3 = r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"T","contextId":"C","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-05-01T10:00:00.000Z"},"artifacts":[{"artifactId":"A","parts":[{"text":"yo"}]}]}}}"#;
    let task = |seen| match seen {
        Seen::Task(task) => task,
        other => panic!("{other:?}"),
    };
    for (seen, artifacts) in [
        (a2a_v0_1::read::task(&result(g1)).unwrap(), 1),
        (task(a2a_v0_3::read::stream_event(&result(g2)).unwrap()), 1),
        (task(a2a_v0_3::read::rest_stream_event(g2_http).unwrap()), 0),
        (task(a2a_v1::read::stream_event(&result(g3)).unwrap()), 1),
    ] {
        assert_eq!((seen.status.state, seen.artifacts.len()), (Some(State::Completed), artifacts));
        assert!(seen.artifacts.iter().all(|one| one.parts == [Part::text("yo")]));
    }
}

#[test]
fn events_of_every_generation() {
    let g1_status =
        r#"data: {"jsonrpc":"2.0","id":"r1","result":{"id":"t1","status":{"state":"working"},"final":false}}"#;
    let g1_chunk = r#"data: {"jsonrpc":"2.0","id":"r1","result":{"id":"t1","artifact":{"index":0,"append":true,"lastChunk":true,"parts":[{"type":"text","text":"x"}]}}}"#;
    let g2_status = r#"data: {"jsonrpc":"2.0","id":1,"result":{"kind":"status-update","taskId":"T","contextId":"C","status":{"state":"completed"},"final":true}}"#;
    let g2_chunk = r#"data: {"jsonrpc":"2.0","id":1,"result":{"kind":"artifact-update","taskId":"T","contextId":"C","artifact":{"artifactId":"A","parts":[{"kind":"text","text":"x"}]},"append":true,"lastChunk":false}}"#;
    let g3_status = r#"data: {"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"T","contextId":"C","status":{"state":"TASK_STATE_WORKING"}}}}"#;
    let g3_chunk = r#"data: {"artifactUpdate":{"taskId":"T","contextId":"C","artifact":{"artifactId":"A","parts":[{"text":"x"}]},"append":true,"lastChunk":true}}"#;
    let status = |seen| match seen {
        Seen::Status { status, closes, .. } => (status.state, closes),
        other => panic!("{other:?}"),
    };
    let chunk = |seen| match seen {
        Seen::Artifact { artifact, append, last, .. } => (artifact.parts, append, last),
        other => panic!("{other:?}"),
    };
    let v0_1 = |frame| a2a_v0_1::read::stream_event(&result(&data(frame))).unwrap();
    let v0_3 = |frame| a2a_v0_3::read::stream_event(&result(&data(frame))).unwrap();
    assert_eq!(status(v0_1(g1_status)), (Some(State::Working), false));
    assert_eq!(chunk(v0_1(g1_chunk)), (vec![Part::text("x")], true, true));
    assert_eq!(status(v0_3(g2_status)), (Some(State::Completed), true));
    assert_eq!(chunk(v0_3(g2_chunk)), (vec![Part::text("x")], true, false));
    assert_eq!(status(a2a_v1::read::stream_event(&result(&data(g3_status))).unwrap()), (Some(State::Working), false));
    assert_eq!(chunk(a2a_v1::read::stream_event(&data(g3_chunk)).unwrap()), (vec![Part::text("x")], true, true));
}

#[test]
fn errors_lists_and_webhooks_of_1_0() {
    let rpc = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"Task not found","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org","metadata":{"taskId":"T"}}]}}"#;
    let http = r#"{"error":{"code":404,"status":"NOT_FOUND","message":"Task not found","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}"#;
    for error in [rpc, http] {
        assert_eq!(a2a_v1::read::error(error).unwrap().kind, Some(Kind::TaskNotFound));
    }
    let list = a2a_v1::route("GET", "/tasks", Some("status=TASK_STATE_WORKING&pageSize=2")).unwrap();
    let Call::List(list) = list.decode("", &Limits::default()).unwrap().call else { panic!() };
    assert_eq!((list.state, list.page_size), (Some(State::Working), Some(2)));
    let mut w = dialects::framing::json::Writer::new();
    a2a_v1::encode::list(&mut w, &[], &a2a_v1::encode::TaskView::WHOLE, "", 2, 0);
    let empty = r#"{"tasks":[],"nextPageToken":"","pageSize":2,"totalSize":0}"#;
    assert_eq!(w.finish().as_bytes().unwrap().as_ref(), empty.as_bytes());
    let hook = r#"{"statusUpdate":{"taskId":"T","contextId":"C","status":{"state":"TASK_STATE_COMPLETED"}}}"#;
    assert!(matches!(a2a_v1::read::stream_event(hook).unwrap(), Seen::Status { task, .. } if task == "T"));
}

#[test]
fn times_without_a_zone_are_utc_and_odd_spellings_are_read() {
    let at = |time: &str| {
        let text = format!(r#"{{"id":"t","status":{{"state":"canceled","timestamp":"{time}"}}}}"#);
        a2a_v0_1::read::task(&text).unwrap().status.at.unwrap().to_string()
    };
    for time in ["2025-05-01T10:00:00.5Z", "2025-05-01T10:00:00.500000", "2025-05-01T12:00:00.500+02:00"] {
        assert_eq!(at(time), "2025-05-01T10:00:00.500Z", "{time}");
    }
    for state in ["canceled", "TASK_STATE_CANCELLED", "TASK_STATE_CANCELED"] {
        let text = format!(r#"{{"msg":null,"task":{{"id":"t","status":{{"state":"{state}","update":null}}}}}}"#);
        let Seen::Task(task) = a2a_v0_3::read::rest_stream_event(&text).unwrap() else { panic!() };
        assert_eq!(task.status.state, Some(State::Canceled));
    }
}

#[test]
fn an_object_without_a_kind_is_what_its_members_make_it() {
    let kind = |text: &str| match a2a_v0_3::read::stream_event(text).unwrap() {
        Seen::Task(_) => "task",
        Seen::Message { .. } => "message",
        Seen::Status { .. } => "status",
        Seen::Artifact { .. } => "artifact",
        Seen::Partial { .. } | Seen::Unread { .. } => "unread",
    };
    assert_eq!(kind(r#"{"id":"t","status":{"state":"working"}}"#), "task");
    assert_eq!(kind(r#"{"messageId":"m","role":"agent","parts":[{"text":"x"}]}"#), "message");
    assert_eq!(kind(r#"{"taskId":"t","status":{"state":"working"}}"#), "status");
    assert_eq!(kind(r#"{"taskId":"t","artifact":{"artifactId":"a","parts":[]}}"#), "artifact");
    let fault = a2a_v0_3::read::stream_event(r#"{"kind":"dream"}"#).unwrap_err();
    assert_eq!(fault.kind, Kind::InvalidAgentResponse);
}
