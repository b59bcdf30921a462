//! Any input to a decoder of an older generation ends as a call or as a fault that can be encoded; and all content survives
//! every wire, but for the known losses of that wire.

#![allow(clippy::unwrap_used, clippy::result_large_err)]

mod arbitrary;
mod cases;

use arbitrary::{changed, changes, message};
use dialects::framing::json::Writer;
use dialects::framing::jsonrpc::{self, Id, OwnedId};
use dialects::framing::scan;
use dialects::seen::Seen;
use dialects::wire::{Decoded, Head, Operation};
use dialects::{JsonWire, WIRES, a2a_v0, a2a_v0_1, a2a_v0_3, decide, decide_route};
use model::{Call, Fault, Json, Kind, Limits, Message, Part};
use proptest::prelude::*;

/// The JSON-RPC front in one line, with every dialect behind it.
fn rpc(bytes: &[u8]) -> Result<Decoded, (OwnedId, Fault)> {
    let limits = Limits::default();
    let text = scan::scan(bytes, limits.json_depth).map_err(|fault| (Id::NULL, fault))?;
    let request = jsonrpc::read(text).map_err(|unreadable| (unreadable.id, unreadable.fault))?;
    let wire = decide(&request.method, None).unwrap().resolve(None);
    wire.decode_rpc(&request.method, request.params, &limits).map_err(|fault| (request.id.to_owned(), fault))
}

/// The HTTP+JSON front likewise.
fn http(verb: &str, path: &str, query: Option<&str>, body: &[u8]) -> Result<Decoded, Fault> {
    let limits = Limits::default();
    let route = decide_route(path, None).unwrap().route(verb, path, query)?;
    route.decode(scan::scan(body, limits.json_depth)?, &limits)
}

/// A fault about the request's form, told in one line of JSON of bounded size, in every form.
fn assert_told(fault: &Fault, id: &OwnedId) -> Result<(), TestCaseError> {
    let of_form = [Kind::Parse, Kind::InvalidRequest, Kind::MethodNotFound, Kind::VerbNotAllowed, Kind::InvalidParams];
    prop_assert!(of_form.contains(&fault.kind), "{:?}", fault.kind);
    for wire in WIRES {
        let mut out = Vec::new();
        wire.rpc_error(&mut out, id, fault, Operation::Unknown);
        prop_assert!(out.len() < 4_096);
        prop_assert!(!out.iter().any(|b| matches!(b, b'\n' | b'\r')));
        serde_json::from_slice::<serde_json::Value>(&out).unwrap();
        let (_, body) = wire.rest_error(fault, Operation::Unknown);
        serde_json::from_slice::<serde_json::Value>(body.as_bytes().unwrap()).unwrap();
    }
    Ok(())
}

const REQUESTS: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","contextId":"c","taskId":"t","role":"user","parts":[{"kind":"text","text":"hi","metadata":{"a2a_compat":{"mediaType":"a/b"}}},{"kind":"file","file":{"bytes":"aGk="}},{"kind":"file","file":{"uri":"https://x","name":"n"}},{"kind":"data","data":{"value":[1,null]},"metadata":{"data_part_compat":true}}],"metadata":{"k":1},"extensions":["u"],"referenceTaskIds":["r"]},"configuration":{"acceptedOutputModes":["text/plain"],"historyLength":2,"blocking":true,"pushNotificationConfig":{"url":"https://h","token":"t","authentication":{"schemes":["Bearer"],"credentials":"c"}}},"metadata":{}}}"#,
    r#"{"jsonrpc":"2.0","id":"x","method":"message/stream","params":{"message":{"message_id":"m","role":1,"parts":[{"text":"h\u00e9"}]}}}"#,
    r#"{"jsonrpc":"2.0","id":null,"method":"tasks/get","params":{"id":"t","historyLength":5}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tasks/cancel","params":{"id":"t","metadata":{"a":1}}}"#,
    r#"{"jsonrpc":"2.0","id":4,"method":"tasks/resubscribe","params":{"id":"t"}}"#,
    r#"{"jsonrpc":"2.0","id":5,"method":"tasks/pushNotificationConfig/set","params":{"taskId":"t","pushNotificationConfig":{"url":"https://h"}}}"#,
    r#"{"jsonrpc":"2.0","id":6,"method":"tasks/pushNotificationConfig/get","params":{"id":"t","pushNotificationConfigId":"c"}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"agent/getAuthenticatedExtendedCard"}"#,
    r#"{"jsonrpc":"2.0","id":8,"method":"tasks/send","params":{"id":"t","sessionId":null,"message":{"role":"user","parts":[{"type":"text","text":"hi"},{"type":"file","file":{"url":"https://x"}},{"type":"file","file":{"name":"n"}},{"type":"data","data":null}],"metadata":null},"historyLength":3,"pushNotification":{"url":"https://h"},"acceptedOutputModes":["text"]}}"#,
    r#"{"jsonrpc":"2.0","id":9,"method":"tasks/sendSubscribe","params":{"id":"t","message":{"role":"user","parts":[{"text":"hi"}]}}}"#,
    r#"{"jsonrpc":"2.0","id":9,"method":"tasks/pushNotification/set","params":{"id":"t","pushNotificationConfig":null}}"#,
];

const PATHS: &[(&str, &str, &str)] = &[
    ("POST", "/v1/message:send", ""),
    ("POST", "/v1/message:stream", "A2A-Version=0.3"),
    ("GET", "/v1/tasks/a%3Ab", "historyLength=3"),
    ("POST", "/v1/tasks/t:cancel", ""),
    ("GET", "/v1/tasks/t:subscribe", ""),
    ("POST", "/v1/tasks/t/pushNotificationConfigs", ""),
    ("GET", "/v1/tasks/t/pushNotificationConfigs", "pageSize=2&pageToken=p"),
    ("DELETE", "/v1/tasks/t/pushNotificationConfigs/c", ""),
    ("GET", "/v1/card", ""),
];

#[test]
fn the_unchanged_requests_are_good() {
    for request in REQUESTS {
        rpc(request.as_bytes()).unwrap();
    }
    let body =
        r#"{"config":{"url":"https://h"},"message":{"messageId":"m","role":"ROLE_USER","content":[{"text":"x"}]}}"#;
    for (verb, path, query) in PATHS {
        http(verb, path, Some(query), body.as_bytes()).unwrap();
    }
}

/// Metadata beside a mark is put together again, and an empty one is gone.
fn same_members(a: &Option<Json>, b: &Option<Json>) -> bool {
    let members =
        |json: &Option<Json>| json.as_ref().map(Json::to_value).filter(|value| *value != serde_json::json!({}));
    members(a) == members(b)
}

fn assert_same(given: &Message, seen: &Message) -> Result<(), TestCaseError> {
    prop_assert!(same_members(&given.metadata, &seen.metadata));
    let bare =
        |parts: &[Part]| -> Vec<Part> { parts.iter().map(|part| Part { metadata: None, ..part.clone() }).collect() };
    prop_assert_eq!(bare(&given.parts), bare(&seen.parts));
    for (given, seen) in given.parts.iter().zip(&seen.parts) {
        prop_assert!(same_members(&given.metadata, &seen.metadata));
    }
    prop_assert_eq!(
        (given.role, &given.extensions, &given.references),
        (seen.role, &seen.extensions, &seen.references)
    );
    Ok(())
}

fn written(write: impl FnOnce(&mut Writer)) -> String {
    let mut w = Writer::new();
    write(&mut w);
    String::from_utf8(w.finish().as_bytes().unwrap().to_vec()).unwrap()
}

fn wire(name: &str) -> &'static dyn JsonWire {
    dialects::wire(name).unwrap()
}

/// A part with an empty URL is none in the older forms; no client means one.
fn speakable() -> impl Strategy<Value = Message> {
    message().prop_map(|mut message| {
        for part in &mut message.parts {
            if let model::Content::Url(url) = &mut part.content
                && url.is_empty()
            {
                url.push('u');
            }
        }
        message
    })
}

proptest! {
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
        if let Err(fault) = http(&verb, &format!("/v1/{path}"), query.as_deref(), &body) {
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
    fn a_changed_answer_is_read_or_is_the_agents_fault(case in any::<prop::sample::Index>(), closing: bool, changes in changes()) {
        let events = cases::events();
        let (_, event) = &events[case.index(events.len())];
        let context = cases::context();
        let head = Head::new(cases::task_id(), None, &context);
        for wire in WIRES {
            let text = written(|w| { wire.stream_event(w, &head, event, closing); });
            let text = String::from_utf8_lossy(&changed(text.as_bytes(), &changes)).into_owned();
            for read in [a2a_v0_1::read::stream_event, a2a_v0_3::read::stream_event, a2a_v0_3::read::rest_stream_event, a2a_v0::read_stream_event] {
                if let Err(fault) = read(&text) {
                    prop_assert_eq!(fault.kind, Kind::InvalidAgentResponse);
                }
            }
            let _ = (a2a_v0_1::read::error(&text), a2a_v0_3::read::error(&text));
        }
    }

    #[test]
    fn what_is_said_survives_0_3(message in speakable()) {
        let context = cases::context();
        let head = Head::new(cases::task_id(), None, &context);
        let said = written(|w| wire("a2a_v0_3").sent_message(w, &message, &head));
        let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"message/send","params":{{"message":{said}}}}}"#);
        let Ok(Decoded { call: Call::Send(send), .. }) = rpc(request.as_bytes()) else {
            return Err(TestCaseError::fail(request));
        };
        assert_same(&message, &send.message)?;
        prop_assert_eq!(&send.message.id, &message.id);
        prop_assert_eq!(send.context.as_ref(), Some(&context));
        let Seen::Message { message: seen, .. } = a2a_v0_3::read::stream_event(&said).unwrap() else {
            return Err(TestCaseError::fail(said));
        };
        assert_same(&message, &seen)?;
    }

    #[test]
    fn what_is_said_survives_0_3_over_http(message in speakable()) {
        let context = cases::context();
        let head = Head::new(cases::task_id(), None, &context);
        let body = written(|w| wire("a2a_v0_3_rest").sent_message(w, &message, &head));
        let Ok(Decoded { call: Call::Send(send), .. }) = http("POST", "/v1/message:send", None, body.as_bytes()) else {
            return Err(TestCaseError::fail(body));
        };
        assert_same(&message, &send.message)?;
        prop_assert_eq!(&send.message.id, &message.id);
        let Seen::Message { message: seen, .. } = a2a_v0_3::read::rest_stream_event(&body).unwrap() else {
            return Err(TestCaseError::fail(body));
        };
        assert_same(&message, &seen)?;
    }

    #[test]
    fn what_is_said_survives_0_1(message in speakable()) {
        let context = cases::context();
        let head = Head::new(cases::task_id(), Some("mine"), &context);
        let answer = written(|w| wire("a2a_v0_1").sent_message(w, &message, &head));
        let seen = a2a_v0_1::read::task(&answer).unwrap();
        prop_assert_eq!((seen.id.as_str(), seen.context.as_ref()), ("mine", Some(&context)));
        let said = seen.status.message.unwrap();
        assert_same(&message, &said)?;
        prop_assert_eq!(&*said.id, "");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tasks/send","params":{{"id":"mine","message":{}}}}}"#,
            answer["status"]["message"]
        );
        prop_assert!(rpc(request.as_bytes()).is_ok(), "{}", request);
    }
}
