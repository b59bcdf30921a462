//! Tests of `rest`.

use bytes::Bytes;
use model::{Content, Json, Kind, Part, Role, Wait};

use super::*;

fn decoded(verb: &str, path: &str, query: &str, body: &str) -> Result<Call, Fault> {
    let query = Some(query).filter(|query| !query.is_empty());
    route(verb, path, query)?.decode(body, &Limits::default()).map(|decoded| decoded.call)
}

#[test]
fn every_route_is_found_under_the_names_of_0_3_and_0_2() {
    for (verb, path, operation) in [
        ("POST", "/v1/message:send", Operation::Send),
        ("POST", "/v1/message%3Asend/", Operation::Send),
        ("POST", "/v1/message:stream", Operation::Stream),
        ("GET", "/v1/tasks/t", Operation::Get),
        ("POST", "/v1/tasks/t:cancel", Operation::Cancel),
        ("GET", "/v1/tasks/t:subscribe", Operation::Subscribe),
        ("POST", "/v1/tasks/t:subscribe", Operation::Subscribe),
        ("POST", "/v1/tasks/t/pushNotificationConfigs", Operation::PushCreate),
        ("GET", "/v1/tasks/t/pushNotificationConfigs", Operation::PushList),
        ("GET", "/v1/tasks/t/pushNotificationConfigs/c", Operation::PushGet),
        ("DELETE", "/v1/tasks/t/pushNotificationConfigs/c", Operation::PushDelete),
        ("GET", "/v1/task/t/pushNotifications/c", Operation::PushGet),
        ("POST", "/v1/tasks/t/pushNotifications", Operation::PushCreate),
        ("GET", "/v1/card", Operation::ExtendedCard),
        ("GET", "/agent/authenticatedExtendedCard", Operation::ExtendedCard),
    ] {
        assert_eq!(route(verb, path, None).unwrap().operation, operation, "{verb} {path}");
        assert!(is_ours(path));
    }
}

#[test]
fn what_is_not_there_is_404_and_another_verb_405() {
    for path in
        ["/v1", "/v1/", "/v1/tasks", "/v1/tasks/", "/v1/tasks/:cancel", "/message:send", "/v1/x", "", "/v1/tasks/a/b"]
    {
        assert_eq!(route("GET", path, None).unwrap_err().kind, Kind::MethodNotFound, "{path}");
    }
    let fault = route("PUT", "/v1/tasks/t:subscribe", None).unwrap_err();
    assert_eq!(fault.kind, Kind::VerbNotAllowed);
    assert_eq!(fault.facts, [("allow", "GET, POST".to_owned())]);
    assert!(!is_ours("/tasks/t") && !is_ours("/v12/tasks"));
}

#[test]
fn a_send_comes_as_message_or_as_request_in_either_spelling() {
    for body in [
        r#"{"message":{"messageId":"m","contextId":"c","taskId":"t","role":"ROLE_USER","content":[{"text":"hi"}]},
            "configuration":{"blocking":false,"historyLength":0,"acceptedOutputModes":["a/b"],"pushNotification":{"url":"https://h"}}}"#,
        r#"{"request":{"message_id":"m","context_id":"c","task_id":"t","role":1,"content":[{"text":"hi"}]},
            "configuration":{"blocking":false,"accepted_output_modes":["a/b"],"push_notification":{"url":"https://h"}}}"#,
    ] {
        let call = decoded("POST", "/v1/message:send", "", body);
        let Ok(Call::Send(send)) = call else { panic!("{call:?}") };
        assert_eq!((&*send.message.id, send.message.role), ("m", Role::User));
        assert_eq!((send.task.as_deref(), send.context), (Some("t"), Some("c".into())));
        assert_eq!((send.wait, send.history, send.accepted_output), (Wait::Exists, None, vec!["a/b".to_owned()]));
        assert_eq!(send.push.unwrap().url, "https://h");
        assert_eq!(send.message.parts, [Part::text("hi")]);
    }
}

fn part_of(part: &str, python: bool) -> Result<Part, Fault> {
    let body = format!(r#"{{"message":{{"messageId":"m","role":"ROLE_USER","content":[{part}]}}}}"#);
    let mut route = route("POST", "/v1/message:send", None)?;
    route.sent_by(if python { "python-httpx/0.28.1" } else { "node" });
    match route.decode(&body, &Limits::default())?.call {
        Call::Send(send) => Ok(send.message.parts[0].clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn parts_are_read_in_the_protos_shape() {
    let file = part_of(r#"{"file":{"file_with_bytes":"aGk=","mime_type":"text/plain","name":"f"}}"#, false).unwrap();
    assert_eq!((file.content, file.filename.as_deref()), (Content::Raw(Bytes::from_static(b"hi")), Some("f")));
    let file = part_of(r#"{"file":{"fileWithUri":"https://f/x","mimeType":"image/png"}}"#, false).unwrap();
    assert_eq!(file.content, Content::Url("https://f/x".into()));
    let data = part_of(r#"{"data":{"data":{"k":1}},"metadata":{"m":1}}"#, false).unwrap();
    assert_eq!(data.content, Content::Data(Json::parse(r#"{"k":1}"#).unwrap()));
    assert_eq!(data.metadata, Json::parse(r#"{"m":1}"#));
    // A part with a `kind` has the other shape.
    let data = part_of(r#"{"kind":"data","data":{"data":1}}"#, false).unwrap();
    assert_eq!(data.content, Content::Data(Json::parse(r#"{"data":1}"#).unwrap()));
    assert_eq!(part_of(r#"{"data":{"k":1}}"#, false).unwrap_err().field.as_deref(), Some("message.parts[0].data.data"));
}

#[test]
fn base64_in_base64_is_undone_for_python_and_where_the_type_cannot_be_text() {
    let file = |bytes: &str, media_type: &str, python| {
        let part = format!(r#"{{"file":{{"fileWithBytes":"{bytes}","mimeType":"{media_type}"}}}}"#);
        part_of(&part, python).unwrap().content
    };
    let raw = |bytes: &'static [u8]| Content::Raw(Bytes::from_static(bytes));
    // "iVBORw==" is base64 of the first bytes of a PNG; "aVZCT1J3PT0=" is base64 of that.
    assert_eq!(file("aVZCT1J3PT0=", "image/png", false), raw(b"\x89PNG"));
    assert_eq!(file("iVBORw==", "image/png", false), raw(b"\x89PNG"));
    assert_eq!(file("YUdrPQ==", "text/plain", true), raw(b"hi"));
    // A text file may hold base64, and from anybody but Python it is what it says.
    assert_eq!(file("YUdrPQ==", "text/plain", false), raw(b"aGk="));
    assert_eq!(file("YUdrPQ==", "image/svg+xml", false), raw(b"aGk="));
    assert_eq!(file("aGk=", "text/plain", true), raw(b"hi"));
    assert_eq!(file("", "image/png", true), raw(b""));
}

#[test]
fn a_cancel_takes_any_body_and_the_path_names_the_task() {
    for body in ["", "null", "{}", r#"{"name":"tasks/other"}"#] {
        let call = decoded("POST", "/v1/tasks/a%3Ab:cancel", "", body).unwrap();
        assert_eq!(call, Call::Cancel(Cancel { task: "a:b".into(), metadata: None }), "{body}");
    }
    assert!(decoded("POST", "/v1/tasks/t:cancel", "", "[]").is_err());
    let call = decoded("POST", "/v1/tasks/t:subscribe", "", "").unwrap();
    assert_eq!(call, Call::Subscribe(Subscribe { task: "t".into() }));
}

#[test]
fn a_get_reads_its_history_from_the_query() {
    for (query, history) in [("", None), ("historyLength=0", None), ("history_length=2", Some(2))] {
        let call = decoded("GET", "/v1/tasks/t", query, "").unwrap();
        assert_eq!(call, Call::Get(Get { task: "t".into(), history }), "{query}");
    }
    assert!(decoded("GET", "/v1/tasks/t", "historyLength=x", "").is_err());
}

#[test]
fn a_push_config_is_read_in_every_wrapping() {
    for (body, id) in [
        (
            r#"{"name":"tasks/t/pushNotificationConfigs/c","pushNotificationConfig":{"id":"c","url":"https://h"}}"#,
            Some("c"),
        ),
        (r#"{"config":{"url":"https://h"}}"#, None),
        (r#"{"config":{"pushNotificationConfig":{"url":"https://h"}}}"#, None),
        (
            r#"{"parent":"tasks/t","config_id":"c","config":{"name":"x","push_notification_config":{"url":"https://h"}}}"#,
            Some("c"),
        ),
        (r#"{"url":"https://h","id":"c"}"#, Some("c")),
    ] {
        let call = decoded("POST", "/v1/tasks/t/pushNotificationConfigs", "", body);
        let Ok(Call::Push(PushCall::Create(config))) = call else { panic!("{call:?}") };
        assert_eq!(
            (config.task.as_deref(), config.id.as_deref(), &*config.url),
            (Some("t"), id, "https://h"),
            "{body}"
        );
    }
    let fault = decoded("POST", "/v1/tasks/t/pushNotificationConfigs", "", r#"{"config":{}}"#).unwrap_err();
    assert_eq!((fault.kind, fault.field.as_deref()), (Kind::InvalidParams, Some("config.url")));
    let call = decoded("GET", "/v1/tasks/t/pushNotificationConfigs", "pageSize=5&pageToken=p", "").unwrap();
    assert_eq!(call, Call::Push(PushCall::List { task: "t".into(), page_size: Some(5), page_token: Some("p".into()) }));
    let call = decoded("DELETE", "/v1/tasks/t/pushNotificationConfigs/c", "", "").unwrap();
    assert_eq!(call, Call::Push(PushCall::Delete { task: "t".into(), id: "c".into() }));
}

/// Bodies as the Python SDK 0.3.25 makes them of one message, its file encoded twice.
#[test]
fn what_the_python_sdk_sends_is_what_it_means() {
    for body in [
        r#"{"message": {"messageId": "m1", "role": "ROLE_USER", "content": [{"text": "hi"}, {"file": {"fileWithBytes": "YUdWc2JHOD0=", "mimeType": "text/plain", "name": "f"}}, {"data": {"data": {"k": 1.0}}}]}, "configuration": {"acceptedOutputModes": ["text/plain"], "pushNotification": {"url": "https://h", "token": "t"}, "blocking": true}}"#,
        r#"{"request": {"message_id": "m1", "role": "ROLE_USER", "content": [{"text": "hi"}, {"file": {"file_with_bytes": "YUdWc2JHOD0=", "mime_type": "text/plain", "name": "f"}}, {"data": {"data": {"k": 1.0}}}]}, "configuration": {"accepted_output_modes": ["text/plain"], "push_notification": {"url": "https://h", "token": "t"}, "blocking": true}}"#,
    ] {
        let mut route = route("POST", "/v1/message:send", None).unwrap();
        route.sent_by("python-httpx/0.28.1");
        let Call::Send(send) = route.decode(body, &Limits::default()).unwrap().call else { panic!("{body}") };
        let [text, file, data] = send.message.parts.as_slice() else { panic!("{:?}", send.message.parts) };
        assert_eq!(*text, Part::text("hi"));
        assert_eq!((&file.content, file.filename.as_deref()), (&Content::Raw(Bytes::from_static(b"hello")), Some("f")));
        assert_eq!(data.content, Content::Data(Json::parse(r#"{"k": 1.0}"#).unwrap()));
        assert_eq!((send.wait, send.push.unwrap().token.as_deref()), (Wait::Rest { max_ms: None }, Some("t")));
    }
}
