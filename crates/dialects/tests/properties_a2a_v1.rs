//! Any input to the 1.0 decoder ends as a call or as a fault that can be encoded; and all content survives the wire.

#![allow(clippy::unwrap_used, clippy::result_large_err)]

mod arbitrary;
mod cases;

use arbitrary::{changed, changes, message, object};
use dialects::a2a_v1::encode::{self, TaskHead};
use dialects::a2a_v1::read::{self, Seen};
use dialects::a2a_v1::{self, Decoded, decode_rpc, errors, rest};
use dialects::framing::json::Writer;
use dialects::framing::jsonrpc::{self, Id, OwnedId};
use dialects::framing::scan;
use model::{Body, Call, Fault, Kind, Limits, Message};
use proptest::prelude::*;

/// The JSON-RPC front in one line: bytes to a call, or to a fault with the id to answer.
fn rpc(bytes: &[u8]) -> Result<Decoded, (OwnedId, Fault)> {
    let limits = Limits::default();
    let text = scan::scan(bytes, limits.json_depth).map_err(|fault| (Id::NULL, fault))?;
    let request = jsonrpc::read(text).map_err(|unreadable| (unreadable.id, unreadable.fault))?;
    decode_rpc(&request.method, request.params, &limits).map_err(|fault| (request.id.to_owned(), fault))
}

/// The HTTP+JSON front likewise.
fn http(verb: &str, path: &str, query: Option<&str>, body: &[u8]) -> Result<Decoded, Fault> {
    let limits = Limits::default();
    let route = rest::route(verb, path, query)?;
    let text = scan::scan(body, limits.json_depth)?;
    route.decode(text, &limits)
}

/// A fault about the request's form, told in one line of JSON of bounded size.
fn assert_told(fault: &Fault, id: &OwnedId) -> Result<(), TestCaseError> {
    prop_assert!(
        matches!(
            fault.kind,
            Kind::Parse | Kind::InvalidRequest | Kind::MethodNotFound | Kind::VerbNotAllowed | Kind::InvalidParams
        ),
        "{:?}",
        fault.kind
    );
    let mut out = Vec::new();
    errors::rpc_error(&mut out, id, fault);
    prop_assert!(out.len() < 4_096);
    prop_assert!(!out.iter().any(|b| matches!(b, b'\n' | b'\r')));
    let told: serde_json::Value = serde_json::from_slice(&out).unwrap();
    prop_assert_eq!(&told["error"]["code"], errors::rpc_code(fault.kind));
    let (_, body) = errors::rest_error(fault);
    serde_json::from_slice::<serde_json::Value>(body.as_bytes().unwrap()).unwrap();
    Ok(())
}

const REQUESTS: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"tenant":"t","message":{"messageId":"m","contextId":"c","taskId":"t","role":"ROLE_USER","parts":[{"text":"hi"},{"raw":"aGk="},{"url":"https://x"},{"data":{"a":[1,null]}}],"metadata":{"k":1},"extensions":["u"],"referenceTaskIds":["r"]},"configuration":{"acceptedOutputModes":["text/plain"],"historyLength":2,"returnImmediately":true,"taskPushNotificationConfig":{"url":"https://h","token":"t","authentication":{"scheme":"Bearer","credentials":"c"}}},"metadata":{}}}"#,
    r#"{"jsonrpc":"2.0","id":"x","method":"SendStreamingMessage","params":{"message":{"message_id":"m","role":1,"parts":[{"text":"h\u00e9","media_type":"text/plain","filename":"f"}]}}}"#,
    r#"{"jsonrpc":"2.0","id":null,"method":"GetTask","params":{"id":"t","historyLength":"5"}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"ListTasks","params":{"contextId":"c","status":"TASK_STATE_WORKING","pageSize":10,"pageToken":"p","statusTimestampAfter":"2026-05-01T10:00:00Z","includeArtifacts":true}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"CancelTask","params":{"id":"t","metadata":{"a":1}}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"SubscribeToTask","params":{"id":"t"}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"t","url":"https://h"}}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"ListTaskPushNotificationConfigs","params":{"taskId":"t","pageSize":3}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"GetExtendedAgentCard"}"#,
];

const PATHS: &[(&str, &str, &str)] = &[
    ("POST", "/message:send", ""),
    ("POST", "/acme/message:stream", "A2A-Version=1.0"),
    ("GET", "/tasks/a%3Ab", "historyLength=3"),
    ("GET", "/tasks", "contextId=c&status=TASK_STATE_WORKING&pageSize=10&pageToken=p&includeArtifacts=true"),
    ("POST", "/tasks/t:cancel", ""),
    ("GET", "/acme/tasks/t:subscribe", "tenant=acme"),
    ("POST", "/tasks/t/pushNotificationConfigs", ""),
    ("DELETE", "/tasks/t/pushNotificationConfigs/c", ""),
    ("GET", "/extendedAgentCard", ""),
];

#[test]
fn the_unchanged_requests_are_good() {
    for request in REQUESTS {
        rpc(request.as_bytes()).unwrap();
    }
    let body = r#"{"url":"https://h","message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}"#;
    for (verb, path, query) in PATHS {
        http(verb, path, Some(query), body.as_bytes()).unwrap();
    }
    assert_eq!(REQUESTS.len() + 2, a2a_v1::METHODS.len());
}

proptest! {
    #[test]
    fn any_bytes_are_a_call_or_a_fault(bytes: Vec<u8>) {
        if let Err((id, fault)) = rpc(&bytes) {
            assert_told(&fault, &id)?;
        }
    }

    #[test]
    fn any_text_is_a_call_or_a_fault(text in "[\\[\\]{}\":,0-9a-z\\\\ é]{0,80}") {
        if let Err((id, fault)) = rpc(text.as_bytes()) {
            assert_told(&fault, &id)?;
        }
    }

    #[test]
    fn a_changed_request_is_a_call_or_a_fault(request in prop::sample::select(REQUESTS), changes in changes()) {
        if let Err((id, fault)) = rpc(&changed(request.as_bytes(), &changes)) {
            assert_told(&fault, &id)?;
        }
    }

    #[test]
    fn any_path_and_body_are_a_call_or_a_fault(verb in "GET|POST|DELETE|[A-Z]{0,4}", path: String, query: Option<String>, body: Vec<u8>) {
        if let Err(fault) = http(&verb, &path, query.as_deref(), &body) {
            assert_told(&fault, &Id::NULL)?;
        }
    }

    #[test]
    fn a_changed_path_and_body_are_a_call_or_a_fault(
        (verb, path, query) in prop::sample::select(PATHS),
        request in prop::sample::select(REQUESTS),
        (path_changes, query_changes, body_changes) in (changes(), changes(), changes()),
    ) {
        let path = String::from_utf8_lossy(&changed(path.as_bytes(), &path_changes)).into_owned();
        let query = String::from_utf8_lossy(&changed(query.as_bytes(), &query_changes)).into_owned();
        let envelope: serde_json::Value = serde_json::from_str(request).unwrap();
        let body = changed(envelope["params"].to_string().as_bytes(), &body_changes);
        if let Err(fault) = http(verb, &path, Some(&query), &body) {
            assert_told(&fault, &Id::NULL)?;
        }
    }

    #[test]
    fn a_changed_answer_is_read_or_is_the_agents_fault(case in any::<prop::sample::Index>(), changes in changes()) {
        let events = cases::events();
        let (_, event) = &events[case.index(events.len())];
        let context = cases::context();
        let mut w = Writer::new();
        encode::stream_event(&mut w, &TaskHead { id: cases::task_id(), context: &context }, event);
        let bytes = changed(w.finish().as_bytes().unwrap(), &changes);
        if let Err(fault) = read::stream_event(&String::from_utf8_lossy(&bytes)) {
            prop_assert_eq!(fault.kind, Kind::InvalidAgentResponse);
        }
        let _ = read::error(&String::from_utf8_lossy(&bytes));
    }

    /// Encoded, read as a request and encoded again, a message is the same bytes; and the same noun.
    #[test]
    fn what_is_said_survives_the_wire(message in message()) {
        let context = cases::context();
        let written = |said: &Message| {
            let mut w = Writer::new();
            encode::send_message(&mut w, said, &context);
            String::from_utf8(w.finish().as_bytes().unwrap().to_vec()).unwrap()
        };
        let first = written(&message);
        let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{first}}}"#);
        let Ok(Decoded { call: Call::Send(send), .. }) = rpc(request.as_bytes()) else {
            return Err(TestCaseError::fail(request));
        };
        prop_assert_eq!(&send.message, &message);
        prop_assert_eq!(send.context.as_ref(), Some(&context));
        prop_assert_eq!(written(&send.message), first.as_str());
        let Seen::Message { message: seen, .. } = read::stream_event(&first).unwrap() else {
            return Err(TestCaseError::fail(first));
        };
        prop_assert_eq!(seen, message);
    }

    #[test]
    fn an_encoded_event_is_one_line_of_json(message in message(), metadata in prop::option::of(object())) {
        let context = cases::context();
        let change = model::StatusChange { state: model::State::Working, message: Some(message.into()), metadata };
        let mut w = Writer::new();
        encode::stream_event(&mut w, &TaskHead { id: cases::task_id(), context: &context }, &cases::event(Body::Status(change)));
        let bytes = w.finish().as_bytes().unwrap().clone();
        prop_assert!(!bytes.iter().any(|b| matches!(b, b'\n' | b'\r')));
        serde_json::from_slice::<serde_json::Value>(&bytes).unwrap();
    }
}
