//! Tests of `langgraph`.

use serde_json::{Value, json};

use super::decode::{AssistantCall, Cancels, Resume, check, decode};
use super::*;

const JSON: Option<&str> = Some("application/json");

fn read(profile: LangGraphProfile, body: &str, accept: Option<&str>) -> Result<AssistantRequest, (u16, Value)> {
    envelope::read(profile, body.as_bytes(), accept)
        .map_err(|reply| (reply.status, serde_json::from_slice(&reply.body).unwrap_or(Value::Null)))
}

fn request(method: &str, params: Value) -> AssistantRequest {
    let body = json!({ "jsonrpc": "2.0", "id": "1", "method": method, "params": params });
    read(LangGraphProfile::Documented, &body.to_string(), Some("*/*")).unwrap()
}

fn sends(profile: LangGraphProfile, message: Value) -> Result<AssistantCall, (model::Kind, String)> {
    let request = request("message/send", json!({ "message": message }));
    let limits = model::Limits::default();
    check(profile, &request)
        .and_then(|()| decode(profile, &request, true, Cancels::Refused, &limits))
        .map_err(|fault| (fault.kind, fault.message))
}

#[test]
fn what_is_no_request_is_told_so_by_status_in_the_documented_profile() {
    let profile = LangGraphProfile::Documented;
    for (body, status, answer) in [
        ("{", 400, json!({ "error": "Invalid JSON payload" })),
        ("[]", 400, json!({ "error": "Invalid message format" })),
        (
            r#"{"id":1,"method":"tasks/get"}"#,
            400,
            json!({ "error": "Invalid JSON-RPC message. Missing or invalid jsonrpc version" }),
        ),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, 202, Value::Null),
        (r#"{"jsonrpc":"2.0","method":"tasks/get"}"#, 202, Value::Null),
        (
            r#"{"jsonrpc":"2.0"}"#,
            400,
            json!({ "error": "Invalid message format. Message must be a JSON-RPC request, response, or notification" }),
        ),
        (
            r#"{"jsonrpc":"2.0","id":"7","method":"tasks/list"}"#,
            200,
            json!({ "jsonrpc": "2.0", "id": "7", "error": { "code": -32601, "message": "Method not found: tasks/list" } }),
        ),
    ] {
        assert_eq!(read(profile, body, JSON).unwrap_err(), (status, answer), "{body}");
    }
}

#[test]
fn what_is_no_request_is_told_so_in_the_envelope_in_the_current_profile() {
    for (body, id, code) in [
        ("{", Value::Null, -32700),
        ("[]", Value::Null, -32600),
        (r#"{"id":1,"method":"tasks/get"}"#, json!(1), -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"tasks/get"}"#, Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, json!(1), -32601),
        (r#"{"jsonrpc":"2.0","id":1}"#, json!(1), -32600),
        (r#"{"jsonrpc":"2.0","method":"tasks/get"}"#, Value::Null, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":[]}"#, json!(1), -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}"#, json!(1), -32602),
    ] {
        let (status, answer) = read(LangGraphProfile::Current, body, JSON).unwrap_err();
        assert_eq!((status, &answer["id"], &answer["error"]["code"]), (200, &id, &json!(code)), "{body}: {answer}");
    }
    let (status, _) = read(LangGraphProfile::Current, r#"{"jsonrpc":"2.0","id":1,"error":{}}"#, JSON).unwrap_err();
    assert_eq!(status, 202);
}

#[test]
fn accept_must_say_what_will_be_sent() {
    let get = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{}}"#;
    let stream = r#"{"jsonrpc":"2.0","id":1,"method":"message/stream","params":{"message":{}}}"#;
    for profile in [LangGraphProfile::Documented, LangGraphProfile::Current] {
        for good in ["application/json", "*/*", "Application/*;q=0.5", "text/html, application/json; charset=utf-8"] {
            assert!(read(profile, get, Some(good)).is_ok(), "{good}");
        }
        for bad in [None, Some(""), Some("text/event-stream"), Some("text/*")] {
            let (status, answer) = read(profile, get, bad).unwrap_err();
            assert_eq!((status, answer), (400, json!({ "error": "Accept header must include application/json" })));
        }
        assert!(read(profile, stream, Some("text/event-stream")).is_ok());
        let (status, answer) = read(profile, stream, JSON).unwrap_err();
        let complaint = "Accept header must include text/event-stream for streaming";
        assert_eq!((status, answer), (400, json!({ "error": complaint })));
    }
}

#[test]
fn a_message_is_checked_in_the_products_words() {
    let text = json!([{ "kind": "text", "text": "hi" }]);
    for (message, complaint) in [
        (json!({ "role": "user", "parts": text }), "Missing required 'messageId' in message"),
        (json!({ "messageId": "m", "parts": text }), "Missing required 'role' in message"),
        (json!({ "messageId": "m", "role": "user" }), "Invalid params: 'parts' must be an array"),
        (json!({ "messageId": "m", "role": "user", "parts": [] }), "Message must contain at least one part"),
        (json!({ "messageId": "m", "role": "user", "parts": text, "contextId": 5 }), "contextId must be a string"),
        (json!({ "messageId": "m", "role": "user", "parts": text, "taskId": {} }), "taskId must be a string"),
        (
            json!({ "messageId": "m", "role": "user", "parts": [{ "kind": "text" }] }),
            "TextPart must contain a 'text' field",
        ),
        (
            json!({ "messageId": "m", "role": "user", "parts": [{ "kind": "data", "data": [] }] }),
            "DataPart must contain a JSON object in the 'data' field",
        ),
    ] {
        let (kind, said) = sends(LangGraphProfile::Documented, message).unwrap_err();
        assert_eq!((kind, said.as_str()), (model::Kind::InvalidParams, complaint));
    }
    let file =
        json!({ "messageId": "m", "role": "user", "parts": [{ "kind": "file", "file": { "uri": "https://x" } }] });
    let (kind, said) = sends(LangGraphProfile::Documented, file.clone()).unwrap_err();
    assert_eq!(kind, model::Kind::ContentType);
    assert_eq!(said, "Unsupported part kind 'file'. A2A agents support 'text' and 'data' parts only.");
    assert!(sends(LangGraphProfile::Current, file).is_ok());
}

#[test]
fn an_assistant_without_messages_takes_no_text() {
    let request = request(
        "message/send",
        json!({ "message": { "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "hi" }] } }),
    );
    let fault =
        decode(LangGraphProfile::Documented, &request, false, Cancels::Refused, &model::Limits::default()).unwrap_err();
    assert_eq!(fault.kind, model::Kind::InvalidParams);
    assert!(fault.message.contains("messages"), "{fault}");
}

#[test]
fn a_task_is_named_by_thread_and_run_or_by_run_alone() {
    let message = |task: &str, parts: Value| json!({ "messageId": "m", "role": "user", "contextId": "thread-123", "taskId": task, "parts": parts });
    let text = json!([{ "kind": "text", "text": "hi" }]);
    for id in ["thread-123:run-456", "run-456"] {
        let decoded = sends(LangGraphProfile::Documented, message(id, text.clone())).unwrap();
        let model::Call::Send(send) = &decoded.call else { panic!() };
        assert_eq!(send.task.as_deref(), Some("run-456"));
        assert_eq!(send.context.as_ref().map(|c| c.as_str()), Some("thread-123"));
        assert_eq!(decoded.resume, Resume::Maybe);
    }
    let resume = json!([{ "kind": "data", "data": { "resume": [{ "id": "i", "value": 1 }] } }]);
    let decoded = sends(LangGraphProfile::Documented, message("thread-123:run-456", resume.clone())).unwrap();
    assert_eq!(decoded.resume, Resume::Must);
    let twice = json!([resume[0], resume[0]]);
    let (_, said) = sends(LangGraphProfile::Documented, message("thread-123:run-456", twice)).unwrap_err();
    assert_eq!(said, "Only one resume value is allowed in data parts");
    let alone = json!({ "messageId": "m", "role": "user", "parts": resume });
    let (_, said) = sends(LangGraphProfile::Documented, alone).unwrap_err();
    assert_eq!(said, "contextId and taskId are required when resuming a task");
}

#[test]
fn a_get_names_its_thread_in_the_documented_profile() {
    let limits = model::Limits::default();
    let get = |profile, params: Value| {
        decode(profile, &request("tasks/get", params), true, Cancels::Work, &limits).map_err(|fault| fault.message)
    };
    let missing = "Invalid request: Missing required parameter: contextId";
    assert_eq!(get(LangGraphProfile::Documented, json!({ "id": "t:r" })).unwrap_err(), missing);
    let found = get(LangGraphProfile::Current, json!({ "id": "t:r" })).unwrap();
    assert_eq!(found.context.unwrap().as_str(), "t");
    let bad =
        get(LangGraphProfile::Documented, json!({ "id": "r", "contextId": "t", "historyLength": 11 })).unwrap_err();
    assert_eq!(bad, "historyLength cannot exceed 10");
    let bad =
        get(LangGraphProfile::Documented, json!({ "id": "r", "contextId": "t", "historyLength": -1 })).unwrap_err();
    assert_eq!(bad, "historyLength must be a non-negative integer");
}

#[test]
fn a_cancel_is_refused_in_the_documented_profile_whatever_it_names() {
    let limits = model::Limits::default();
    let fault =
        decode(LangGraphProfile::Documented, &request("tasks/cancel", json!({})), true, Cancels::Refused, &limits)
            .unwrap_err();
    assert_eq!(
        (fault.kind, fault.message.as_str()),
        (model::Kind::Unsupported, "Task cancellation is not currently supported")
    );
    let reply = errors::reply(LangGraphProfile::Documented, &OwnedId::NULL, &fault, dialects::wire::Operation::Cancel);
    assert_eq!(serde_json::from_slice::<Value>(&reply.body).unwrap()["error"]["code"], -32004);
}

#[test]
fn a_cancel_that_works_names_its_thread_in_the_documented_profile() {
    let limits = model::Limits::default();
    let cancel = |profile, params: Value| {
        let decoded = decode(profile, &request("tasks/cancel", params), true, Cancels::Work, &limits);
        decoded.map(|decoded| decoded.call).map_err(|fault| fault.message)
    };
    let missing = "Invalid request: Missing required parameter: contextId";
    assert_eq!(cancel(LangGraphProfile::Documented, json!({ "id": "t:r" })).unwrap_err(), missing);
    for (profile, params) in [
        (LangGraphProfile::Documented, json!({ "id": "t:r", "contextId": "t" })),
        (LangGraphProfile::Current, json!({ "id": "t:r" })),
    ] {
        let expected = model::Call::Cancel(model::Cancel { task: "r".into(), metadata: None });
        assert_eq!(cancel(profile, params).unwrap(), expected);
    }
}
