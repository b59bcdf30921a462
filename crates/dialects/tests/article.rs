//! The envelope article, as it stands: its request is understood as it says, and its response is what we answer. (The
//! article leaves the flights out with an ellipsis; the fixture has one.)

#![allow(clippy::unwrap_used)]

mod cases;

use cases::*;
use dialects::framing::jsonrpc::{self, Id};
use dialects::wire::{Head, Operation, TaskView};
use dialects::{JsonWire, a2a_v0_1, decide, wire};
use model::{Call, Fault, Kind, Limits, Part, Role, State, Wait};
use serde_json::{Value, json};

const REQUEST: &str = include_str!("fixtures/article_request.json");
const RESPONSE: &str = include_str!("fixtures/article_response.json");

fn wire_of(text: &str) -> (&'static dyn JsonWire, Call) {
    let request = jsonrpc::read(text).unwrap();
    let wire = decide(&request.method, None).unwrap().resolve(None);
    (wire, wire.decode_rpc(&request.method, request.params, &Limits::default()).unwrap().call)
}

#[test]
fn the_request_is_a_send_under_the_callers_own_id() {
    let (wire, call) = wire_of(REQUEST);
    assert_eq!(wire.name(), "a2a_v0_1");
    let Call::Send(send) = call else { panic!("{call:?}") };
    assert_eq!((send.alias.as_deref(), send.context), (Some("task-abc-123"), Some("sess-def-456".into())));
    assert_eq!(
        (send.message.role, &send.message.parts[..]),
        (Role::User, &[Part::text("Find flights to Bangalore")][..])
    );
    // Very long tasks return what there is, and are polled.
    assert_eq!(send.wait, Wait::Rest { max_ms: Some(10_000) });
    // Streaming replaces the single response.
    let (_, call) = wire_of(&REQUEST.replace("tasks/send", "tasks/sendSubscribe"));
    assert!(matches!(call, Call::Stream(stream) if stream.alias == send.alias));
}

/// Everything of `shape` is in `value`, and what else is there is of the schema the article tells of.
#[track_caller]
fn assert_shape(value: &Value, shape: &Value, beside: &[&str]) {
    match (value, shape) {
        (Value::Object(value), Value::Object(shape)) => {
            for (key, inner) in shape {
                assert_shape(&value[key], inner, beside);
            }
            for key in value.keys() {
                assert!(shape.contains_key(key) || beside.contains(&key.as_str()), "{key}");
            }
        }
        (Value::Array(value), Value::Array(shape)) => {
            assert_eq!(value.len(), shape.len());
            value.iter().zip(shape).for_each(|(value, shape)| assert_shape(value, shape, beside));
        }
        (value, shape) => assert_eq!(value, shape),
    }
}

#[test]
fn the_response_is_what_we_answer() {
    let request = jsonrpc::read(REQUEST).unwrap();
    let mut task = bare_task(State::Completed);
    task.context = "sess-def-456".into();
    let mut made = artifact("anything", vec![Part::data(cases::json(r#"{"flights":["AI-501"]}"#))]);
    made.name = Some("flights".into());
    task.artifacts = vec![made.into()];
    task.history = vec![message("m", Role::User, vec![Part::text("Find flights to Bangalore")]).into()];
    let view = TaskView { history: Some(0), artifacts: true };
    let mut w = jsonrpc::begin_result(&request.id, 512);
    wire(a2a_v0_1::NAME).unwrap().sent_task(&mut w, &task, &view, Some("task-abc-123"));
    jsonrpc::end_result(&mut w);
    let answer: Value = serde_json::from_slice(w.finish().as_bytes().unwrap()).unwrap();
    assert_shape(&answer, &serde_json::from_str(RESPONSE).unwrap(), &["timestamp", "index"]);
}

#[test]
fn the_response_reads_back() {
    let answer: Value = serde_json::from_str(RESPONSE).unwrap();
    let seen = a2a_v0_1::read::task(&answer["result"].to_string()).unwrap();
    assert_eq!((&*seen.id, seen.context), ("task-abc-123", Some("sess-def-456".into())));
    assert_eq!(seen.status.state, Some(State::Completed));
    assert_eq!((&*seen.artifacts[0].id, seen.artifacts[0].name.as_deref()), ("0", Some("flights")));
}

#[test]
fn the_stream_is_envelopes_with_the_request_id_that_end_with_final() {
    let request = jsonrpc::read(REQUEST).unwrap();
    let wire = wire(a2a_v0_1::NAME).unwrap();
    let here = "sess-def-456".into();
    let head = Head::new(task_id(), Some("task-abc-123"), &here);
    let mut shown = Vec::new();
    let events = events();
    for (name, closing) in
        [("status Working", false), ("chunk append=false last=true", false), ("status Completed", true)]
    {
        let (_, event) = events.iter().find(|(n, _)| n == name).unwrap();
        let mut w = jsonrpc::begin_result(&request.id, 512);
        assert!(wire.stream_event(&mut w, &head, event, closing));
        jsonrpc::end_result(&mut w);
        shown.push(serde_json::from_slice::<Value>(w.finish().as_bytes().unwrap()).unwrap());
    }
    assert!(shown.iter().all(|frame| frame["id"] == "req-8f2e" && frame["result"]["id"] == "task-abc-123"));
    assert_eq!(shown[0]["result"]["final"], false);
    assert_eq!(shown[1]["result"]["artifact"]["index"], 0);
    assert_eq!(
        (&shown[2]["result"]["final"], &shown[2]["result"]["status"]["state"]),
        (&json!(true), &json!("completed"))
    );
}

#[test]
fn an_error_is_an_error_and_never_in_the_result() {
    let request = jsonrpc::read(REQUEST).unwrap();
    let mut out = Vec::new();
    let fault = Fault::task_not_found("task-abc-123");
    wire(a2a_v0_1::NAME).unwrap().rpc_error(&mut out, &request.id, &fault, Operation::Get);
    assert_eq!(
        serde_json::from_slice::<Value>(&out).unwrap(),
        json!({"jsonrpc":"2.0","id":"req-8f2e","error":{"code":-32001,"message":"Task not found"}})
    );
}

#[test]
fn text_and_attachment_go_together_and_a_file_in_two_ways_does_not() {
    let with = |parts: &str| REQUEST.replace(r#"[{ "type": "text", "text": "Find flights to Bangalore" }]"#, parts);
    let (_, call) = wire_of(&with(
        r#"[{"type":"text","text":"see"},{"type":"file","file":{"url":"https://x"}},{"type":"data","data":[1]}]"#,
    ));
    assert!(matches!(call, Call::Send(send) if send.message.parts.len() == 3));
    let both = with(r#"[{"type":"file","file":{"bytes":"YQ==","uri":"https://x"}}]"#);
    let request = jsonrpc::read(&both).unwrap();
    let fault = a2a_v0_1::decode_rpc(&request.method, request.params, &Limits::default()).unwrap_err();
    assert_eq!(fault.kind, Kind::InvalidParams);
    let mut out = Vec::new();
    wire(a2a_v0_1::NAME).unwrap().rpc_error(&mut out, &Id::NULL, &fault, Operation::Send);
    assert_eq!(serde_json::from_slice::<Value>(&out).unwrap()["error"]["code"], -32602);
}
