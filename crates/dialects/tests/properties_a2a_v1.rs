//! Whatever comes in, a 1.0 request ends as a call or as a fault that can be told; and what is said survives the wire.

#![allow(clippy::unwrap_used, clippy::result_large_err)]

mod cases;

use dialects::a2a_v1::encode::{self, TaskHead};
use dialects::a2a_v1::read::{self, Seen};
use dialects::a2a_v1::{self, Decoded, decode_rpc, errors, rest};
use dialects::framing::json::Writer;
use dialects::framing::jsonrpc::{self, Id, OwnedId};
use dialects::framing::scan;
use model::{Body, Call, Content, Fault, Json, Kind, Limits, Message, Part, Role};
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

/// Pieces that tend to matter where they do not belong.
const TOKENS: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"null",
    b"true",
    b"-1",
    b"1.5",
    b"1e999",
    b"\"x\"",
    b"{}",
    b"[]",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"\xc3\xa9",
    b"\n",
    b"99999999999999999999",
    b"\"id\":1,",
    b"\"text\":\"x\",",
    b"\"message_id\":\"n\",",
    b"%",
    b"%zz",
    b"/",
    b"?",
    b"&",
    b"=",
    b"+",
    b"tasks",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

#[derive(Clone, Debug)]
enum Change {
    Set(prop::sample::Index, u8),
    Insert(prop::sample::Index, &'static [u8]),
    Delete(prop::sample::Index, usize),
    Repeat(prop::sample::Index, usize),
    Cut(prop::sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<prop::sample::Index>;
    prop_oneof![
        (at(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), prop::sample::select(TOKENS)).prop_map(|(at, token)| Change::Insert(at, token)),
        (at(), 1usize..20).prop_map(|(at, n)| Change::Delete(at, n)),
        (at(), 1usize..40).prop_map(|(at, n)| Change::Repeat(at, n)),
        at().prop_map(Change::Cut),
    ]
}

fn changed(text: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for change in changes {
        let len = bytes.len() + 1;
        match change {
            Change::Set(at, byte) => {
                if let Some(slot) = bytes.get_mut(at.index(len)) {
                    *slot = *byte;
                }
            }
            Change::Insert(at, token) => {
                let at = at.index(len);
                bytes.splice(at..at, token.iter().copied());
            }
            Change::Delete(at, n) => {
                let at = at.index(len);
                bytes.drain(at..(at + n).min(bytes.len()));
            }
            Change::Repeat(at, n) => {
                let at = at.index(len);
                let piece = bytes[at..(at + n).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            Change::Cut(at) => bytes.truncate(at.index(len)),
        }
    }
    bytes
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec(change(), 0..5)
}

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

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::vec((any::<String>(), inner), 0..5)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Json> {
    prop::collection::vec((any::<String>(), value()), 0..4)
        .prop_map(|members| Json::from_value(&serde_json::Value::Object(members.into_iter().collect())))
}

fn part() -> impl Strategy<Value = Part> {
    let content = prop_oneof![
        any::<String>().prop_map(Content::Text),
        any::<Vec<u8>>().prop_map(|bytes| Content::Raw(bytes.into())),
        any::<String>().prop_map(Content::Url),
        value().prop_map(|value| Content::Data(Json::from_value(&value))),
    ];
    (content, prop::option::of(".+"), prop::option::of("[a-z]+/[a-z]+"), prop::option::of(object()))
        .prop_map(|(content, filename, media_type, metadata)| Part { content, filename, media_type, metadata })
}

fn message() -> impl Strategy<Value = Message> {
    (
        "\\PC{1,20}",
        any::<bool>(),
        prop::collection::vec(part(), 1..4),
        prop::option::of(object()),
        prop::collection::vec(any::<String>(), 0..3),
        prop::collection::vec("\\PC{1,20}", 0..3),
    )
        .prop_map(|(id, user, parts, metadata, extensions, references)| Message {
            id: id.into(),
            role: if user { Role::User } else { Role::Agent },
            parts,
            metadata,
            extensions,
            references,
        })
}
