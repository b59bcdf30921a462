//! Every kind of error that a running server tells, over gRPC in both generations: the code, what the status carries, and
//! what the SDK reads of it.
//!
//! In 1.0 the kind is the `reason` of an `ErrorInfo`. In 0.3 the words begin with its name, since that is what the SDKs of
//! 0.3 send and what the layer for 0.3 in later ones reads.

use e2e::{Server, fresh_id, message, parts, script, to_task};
use serde_json::{Value, json};

use crate::stock::{calls, message_v03, v1, v03, with};

const NOBODY: &str = "019aa000-0000-7000-8000-00000000abcd";

/// An error in the terms of one generation.
struct Told {
    row: &'static str,
    call: Value,
    code: &'static str,
    /// The `reason` in 1.0, the name in 0.3.
    name: &'static str,
    /// The exception of the SDK, if it has one for this kind.
    decoded: Option<&'static str>,
}

fn told(row: &'static str, call: Value, code: &'static str, name: &'static str, decoded: &'static str) -> Told {
    Told { row, call, code, name, decoded: Some(decoded).filter(|name| !name.is_empty()) }
}

/// The details of this type.
fn details<'a>(answer: &'a Value, kind: &str) -> Vec<&'a Value> {
    let kind = format!("type.googleapis.com/google.rpc.{kind}");
    answer["details"].as_array().into_iter().flatten().filter(|detail| detail["@type"] == json!(kind)).collect()
}

/// Checks an error, whatever its generation. The status in the trailers repeats code and words, which the program
/// checks: it reads the status with grpcio's own reader, which refuses one that contradicts them.
fn assert_told(told: &Told, answer: &Value) {
    let Told { row, call, code, name, decoded } = told;
    assert_eq!(answer["code"], *code, "{row}: {call}: {answer}");
    let words = answer["message"].as_str().unwrap_or_default();
    assert!(!words.is_empty() && !words.contains("panicked"), "{row}: an error says what is wrong: {answer}");
    assert_eq!(answer["messages"], json!([]), "{row}: {answer}");
    let exception = decoded.unwrap_or("A2AClientError");
    assert_eq!(answer["decoded"]["type"], exception, "{row}: {answer}");
    if call["generation"] == "0.3" {
        assert!(words.starts_with(&format!("{name}: ")), "{row}: the words begin with {name}: {answer}");
        return;
    }
    let infos = details(answer, "ErrorInfo");
    assert_eq!(infos.len(), 1, "{row}: {answer}");
    assert_eq!(
        (&infos[0]["reason"], &infos[0]["domain"]),
        (&json!(name), &json!("a2a-protocol.org")),
        "{row}: {answer}"
    );
    let reason = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    assert!(reason, "{row}: a reason is in upper case: {name}");
    let invalid = details(answer, "BadRequest");
    assert_eq!(invalid.len(), usize::from(*name == "INVALID_PARAMS"), "{row}: {answer}");
    if let Some(invalid) = invalid.first() {
        let violations = invalid["fieldViolations"].as_array().unwrap_or_else(|| panic!("{row}: {answer}"));
        let named = violations.iter().all(|one| one["description"].as_str().is_some_and(|text| !text.is_empty()));
        assert!(!violations.is_empty() && named, "{row}: {answer}");
    }
    let again = details(answer, "RetryInfo");
    let limits = matches!(*name, "RATE_LIMITED" | "UNAVAILABLE");
    assert_eq!(again.len(), usize::from(limits), "{row}: {answer}");
    if let Some(again) = again.first() {
        assert!(
            again["retryDelay"].as_str().is_some_and(|text| text.ends_with('s') && text != "0s"),
            "{row}: {answer}"
        );
    }
}

fn check(server: &Server, rows: &[Told]) {
    let answers = calls(server, &rows.iter().map(|row| row.call.clone()).collect::<Vec<_>>());
    let mut failed = Vec::new();
    for (row, answer) in rows.iter().zip(&answers) {
        if std::panic::catch_unwind(|| assert_told(row, answer)).is_err() {
            failed.push(row.row);
        }
    }
    assert!(failed.is_empty(), "{} of {} rows: {failed:#?}", failed.len(), rows.len());
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// The limits here are small, so that what is too large is not much.
const CONFIG: &str = "
default: scripted
limits: { body_bytes: 20000 }
agents:
  scripted: { kind: scripted }
  neither: { kind: scripted, streaming: false, push: off }
  reader: { kind: echo, input_modes: [text/plain] }
";

struct World {
    server: Server,
    settled: String,
    hanging: String,
}

impl World {
    fn start() -> World {
        let server = Server::options().config(CONFIG).start();
        let agent = server.agent("scripted");
        let settled = agent.send(message("done"))["id"].as_str().unwrap().to_owned();
        let hanging = agent.open(script(json!([{ "status": "working" }, { "hang": true }])));
        World { hanging: hanging["id"].as_str().unwrap().to_owned(), server, settled }
    }
}

fn send(message: Value) -> Value {
    json!({ "message": message })
}

#[test]
fn every_error_of_1_0_is_told_with_its_details_and_read_by_the_sdk() {
    let World { server, settled, hanging } = World::start();
    let (settled, hanging) = (settled.as_str(), hanging.as_str());
    let hook = "http://127.0.0.1:9/hook";
    let key = fresh_id();
    let rows = vec![
        told("get", v1("", "GetTask", json!({ "id": NOBODY })), "NOT_FOUND", "TASK_NOT_FOUND", "TaskNotFoundError"),
        told(
            "cancel",
            v1("", "CancelTask", json!({ "id": NOBODY })),
            "NOT_FOUND",
            "TASK_NOT_FOUND",
            "TaskNotFoundError",
        ),
        told(
            "subscribe",
            v1("", "SubscribeToTask", json!({ "id": NOBODY })),
            "NOT_FOUND",
            "TASK_NOT_FOUND",
            "TaskNotFoundError",
        ),
        told(
            "answer",
            v1("", "SendMessage", send(to_task(message("hi"), NOBODY))),
            "NOT_FOUND",
            "TASK_NOT_FOUND",
            "TaskNotFoundError",
        ),
        told(
            "answer in a stream",
            v1("", "SendStreamingMessage", send(to_task(message("hi"), NOBODY))),
            "NOT_FOUND",
            "TASK_NOT_FOUND",
            "TaskNotFoundError",
        ),
        told(
            "resume elsewhere",
            with(v1("", "SubscribeToTask", json!({ "id": hanging })), "last-event-id", &format!("{NOBODY}.1")),
            "NOT_FOUND",
            "TASK_NOT_FOUND",
            "TaskNotFoundError",
        ),
        told(
            "another agent's task",
            v1("reader", "GetTask", json!({ "id": hanging })),
            "NOT_FOUND",
            "TASK_NOT_FOUND",
            "TaskNotFoundError",
        ),
        told(
            "cancel a settled one",
            v1("", "CancelTask", json!({ "id": settled })),
            "FAILED_PRECONDITION",
            "TASK_NOT_CANCELABLE",
            "TaskNotCancelableError",
        ),
        told(
            "more for a settled one",
            v1("", "SendMessage", send(to_task(message("hi"), settled))),
            "FAILED_PRECONDITION",
            "UNSUPPORTED_OPERATION",
            "UnsupportedOperationError",
        ),
        told(
            "watch a settled one",
            v1("", "SubscribeToTask", json!({ "id": settled })),
            "FAILED_PRECONDITION",
            "UNSUPPORTED_OPERATION",
            "UnsupportedOperationError",
        ),
        told(
            "stream where there is none",
            v1("neither", "SendStreamingMessage", send(message("hi"))),
            "FAILED_PRECONDITION",
            "UNSUPPORTED_OPERATION",
            "UnsupportedOperationError",
        ),
        told(
            "the extended card",
            v1("", "GetExtendedAgentCard", json!({})),
            "FAILED_PRECONDITION",
            "UNSUPPORTED_OPERATION",
            "UnsupportedOperationError",
        ),
        told(
            "push where there is none",
            v1("neither", "CreateTaskPushNotificationConfig", json!({ "taskId": hanging, "url": hook })),
            "FAILED_PRECONDITION",
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
            "PushNotificationNotSupportedError",
        ),
        told(
            "a webhook in a send where there is none",
            v1(
                "neither",
                "SendMessage",
                json!({ "message": message("hi"), "configuration": { "taskPushNotificationConfig": { "url": hook } } }),
            ),
            "FAILED_PRECONDITION",
            "PUSH_NOTIFICATION_NOT_SUPPORTED",
            "PushNotificationNotSupportedError",
        ),
        told(
            "a part the agent does not read",
            v1("reader", "SendMessage", send(parts(json!([{ "data": { "a": 1 } }])))),
            "INVALID_ARGUMENT",
            "CONTENT_TYPE_NOT_SUPPORTED",
            "ContentTypeNotSupportedError",
        ),
        told(
            "a future version",
            with(v1("", "ListTasks", json!({})), "a2a-version", "99.0"),
            "FAILED_PRECONDITION",
            "VERSION_NOT_SUPPORTED",
            "VersionNotSupportedError",
        ),
        told(
            "a version of the other service",
            with(v1("", "ListTasks", json!({})), "a2a-version", "0.3"),
            "FAILED_PRECONDITION",
            "VERSION_NOT_SUPPORTED",
            "VersionNotSupportedError",
        ),
        told(
            "no message",
            v1("", "SendMessage", json!({})),
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
            "InvalidParamsError",
        ),
        told(
            "no parts",
            v1("", "SendMessage", send(parts(json!([])))),
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
            "InvalidParamsError",
        ),
        told("no id", v1("", "GetTask", json!({})), "INVALID_ARGUMENT", "INVALID_PARAMS", "InvalidParamsError"),
        told(
            "a page too large",
            v1("", "ListTasks", json!({ "pageSize": 101 })),
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
            "InvalidParamsError",
        ),
        told(
            "a place that is none",
            with(v1("", "SubscribeToTask", json!({ "id": hanging })), "last-event-id", "unreadable"),
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
            "InvalidParamsError",
        ),
        told(
            "a number of messages that is none",
            with(v1("", "SubscribeToTask", json!({ "id": hanging })), "last-event-id", &format!("{hanging}.1+x")),
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
            "InvalidParamsError",
        ),
        told(
            "a script with a mistake",
            v1("", "SendMessage", send(script(json!([{ "sing": true }])))),
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
            "InvalidParamsError",
        ),
        // grpcio refuses trailers of more than 8 KiB by chance, and of more than 16 KiB always.
        told(
            "a mistake of many letters",
            v1("", "SendMessage", send(script(json!([{ "x".repeat(12_000): true }])))),
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
            "InvalidParamsError",
        ),
        told(
            "a mistake of many letters beyond ASCII",
            v1("", "SendMessage", send(script(json!([{ "\u{e9}".repeat(4_000): true }])))),
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
            "InvalidParamsError",
        ),
        told(
            "a mistake of odd letters",
            v1("", "SendMessage", send(script(json!([{ "50%41 \u{e9}\n\r\t\u{1f600}\u{7f}": true }])))),
            "INVALID_ARGUMENT",
            "INVALID_PARAMS",
            "InvalidParamsError",
        ),
        told(
            "the key of another request",
            with(v1("", "SendMessage", send(message("second"))), "idempotency-key", &key),
            "INVALID_ARGUMENT",
            "IDEMPOTENCY_KEY_REUSED",
            "",
        ),
        told(
            "bytes that are no message",
            json!({ "generation": "1.0", "call": "SendMessage", "raw": "/////w==" }),
            "INVALID_ARGUMENT",
            "PARSE_ERROR",
            "",
        ),
        told(
            "too large",
            v1("", "SendMessage", send(message(&"x".repeat(30_000)))),
            "INVALID_ARGUMENT",
            "PAYLOAD_TOO_LARGE",
            "",
        ),
    ];
    let first = with(v1("", "SendMessage", send(message("first"))), "idempotency-key", &key);
    assert_eq!(calls(&server, &[first])[0]["code"], Value::Null);
    check(&server, &rows);
}

#[test]
fn every_error_of_0_3_begins_with_its_name_and_is_read_by_the_sdk() {
    let World { server, settled, hanging } = World::start();
    let task = |id: &str| json!({ "name": format!("tasks/{id}") });
    let said = |task: &str| {
        let mut message = message_v03(json!([{ "text": "hi" }]));
        message["taskId"] = json!(task);
        json!({ "request": message, "configuration": { "blocking": true } })
    };
    let (settled, hanging) = (settled.as_str(), hanging.as_str());
    let config = |id: &str| {
        let name = format!("tasks/{id}/pushNotificationConfigs/one");
        let config = json!({ "name": name, "pushNotificationConfig": { "id": "one", "url": "http://127.0.0.1:9/" } });
        json!({ "parent": format!("tasks/{id}"), "configId": "one", "config": config })
    };
    let missing = ("NOT_FOUND", "TaskNotFoundError", "TaskNotFoundError");
    let invalid = ("INVALID_ARGUMENT", "InvalidParamsError", "InvalidParamsError");
    let settled_one = ("FAILED_PRECONDITION", "UnsupportedOperationError", "UnsupportedOperationError");
    let lacking = ("UNIMPLEMENTED", "UnsupportedOperationError", "UnsupportedOperationError");
    let rows = [
        ("get", v03("", "GetTask", task(NOBODY)), missing),
        ("cancel", v03("", "CancelTask", task(NOBODY)), missing),
        ("subscribe", v03("", "TaskSubscription", task(NOBODY)), missing),
        ("answer", v03("", "SendMessage", said(NOBODY)), missing),
        ("answer in a stream", v03("", "SendStreamingMessage", said(NOBODY)), missing),
        ("a config of nobody's", v03("", "CreateTaskPushNotificationConfig", config(NOBODY)), missing),
        ("another agent's task", v03("reader", "GetTask", task(hanging)), missing),
        (
            "cancel a settled one",
            v03("", "CancelTask", task(settled)),
            ("FAILED_PRECONDITION", "TaskNotCancelableError", "TaskNotCancelableError"),
        ),
        ("more for a settled one", v03("", "SendMessage", said(settled)), settled_one),
        ("watch a settled one", v03("", "TaskSubscription", task(settled)), settled_one),
        ("stream where there is none", v03("neither", "SendStreamingMessage", said("")), lacking),
        (
            "push where there is none",
            v03("neither", "CreateTaskPushNotificationConfig", config(hanging)),
            ("UNIMPLEMENTED", "PushNotificationNotSupportedError", "PushNotificationNotSupportedError"),
        ),
        (
            "a part the agent does not read",
            v03(
                "reader",
                "SendMessage",
                json!({ "request": message_v03(json!([{ "data": { "data": { "a": 1 } } }])) }),
            ),
            ("INVALID_ARGUMENT", "ContentTypeNotSupportedError", "ContentTypeNotSupportedError"),
        ),
        ("no message", v03("", "SendMessage", json!({})), invalid),
        ("no name", v03("", "GetTask", json!({})), invalid),
        ("no task's name", v03("", "GetTask", json!({ "name": format!("task/{settled}") })), invalid),
    ];
    let rows = rows.map(|(row, call, (code, name, decoded))| told(row, call, code, name, decoded));
    check(&server, &rows);
}

#[test]
fn callers_who_may_not_are_told_so() {
    let config = "
auth:
  required: true
  keys:
    - { name: ann, tenant: t, key: 'env:E2E_ANN', scopes: [tasks] }
    - { name: bob, tenant: t, key: 'env:E2E_BOB', scopes: [push] }
policy:
  - allow: { scopes: [tasks] }
agents: { echo: { kind: echo } }
";
    let server =
        Server::options().config(config).env("E2E_ANN", "ann-0123456789").env("E2E_BOB", "bob-0123456789").start();
    let (list, older) = (|| v1("", "ListTasks", json!({})), || v03("", "GetTask", json!({ "name": "tasks/x" })));
    let nobody = ("UNAUTHENTICATED", "UNAUTHENTICATED", "UnauthenticatedError");
    let forbidden = ("PERMISSION_DENIED", "PERMISSION_DENIED", "ForbiddenError");
    let mut rows = Vec::new();
    for (row, name, value, (code, reason, older_name)) in [
        ("no key", "x-nothing", "1", nobody),
        ("a wrong bearer", "authorization", "Bearer nobody-0123456789", nobody),
        ("a wrong key", "x-api-key", "nobody-0123456789", nobody),
        ("another's bearer", "authorization", "Bearer bob-0123456789", forbidden),
        ("another's key", "x-api-key", "bob-0123456789", forbidden),
    ] {
        rows.push(told(row, with(list(), name, value), code, reason, ""));
        rows.push(told(row, with(v1("", "SendStreamingMessage", send(message("hi"))), name, value), code, reason, ""));
        rows.push(told(row, with(older(), name, value), code, older_name, ""));
    }
    check(&server, &rows);
    for (name, value) in [("authorization", "Bearer ann-0123456789"), ("x-api-key", "ann-0123456789")] {
        let answer = &calls(&server, &[with(list(), name, value)])[0];
        assert_eq!(answer["code"], Value::Null, "{name}: {answer}");
    }
    // A caller without a key learns nothing of agents and tasks.
    let unknown = &calls(&server, &[with(v1("", "GetTask", json!({ "id": NOBODY })), "x-nothing", "1")])[0];
    assert_eq!(unknown["code"], "UNAUTHENTICATED", "{unknown}");
}

#[test]
fn who_calls_too_often_is_told_when_to_come_back() {
    let config = "
limits: { rate: { per_caller: { per_minute: 1, burst: 1 } } }
auth: { required: true, keys: [{ name: ann, tenant: t, key: 'env:E2E_ANN' }, { name: bob, tenant: t, key: 'env:E2E_BOB' }] }
agents: { echo: { kind: echo } }
";
    let server =
        Server::options().config(config).env("E2E_ANN", "ann-0123456789").env("E2E_BOB", "bob-0123456789").start();
    for (key, call, name) in [
        ("ann-0123456789", v1("", "ListTasks", json!({})), "RATE_LIMITED"),
        ("bob-0123456789", v03("", "GetTask", json!({ "name": "tasks/x" })), "RateLimitedError"),
    ] {
        let call = with(call, "x-api-key", key);
        let answers = calls(&server, &[call.clone(), call.clone()]);
        assert_ne!(answers[0]["code"], "RESOURCE_EXHAUSTED", "{}", answers[0]);
        assert_told(&told("too often", call, "RESOURCE_EXHAUSTED", name, ""), &answers[1]);
    }
}

#[test]
fn a_full_server_is_unavailable_for_now() {
    let config = "limits: { running_turns: 1 }\nagents: { scripted: { kind: scripted } }\n";
    let server = Server::options().config(config).start();
    let task = server.agent("scripted").open(script(json!([{ "status": "working" }, { "hang": true }])));
    server.agent("scripted").in_state(task["id"].as_str().unwrap(), "TASK_STATE_WORKING");
    let older = json!({ "request": message_v03(json!([{ "text": "hi" }])), "configuration": { "blocking": true } });
    check(
        &server,
        &[
            told("a send", v1("", "SendMessage", send(message("hi"))), "UNAVAILABLE", "UNAVAILABLE", ""),
            told("a stream", v1("", "SendStreamingMessage", send(message("hi"))), "UNAVAILABLE", "UNAVAILABLE", ""),
            told("a send of 0.3", v03("", "SendMessage", older), "UNAVAILABLE", "UnavailableError", ""),
        ],
    );
}

#[test]
fn who_has_too_little_money_is_told_so() {
    let config = r#"
agents: { flat: { kind: scripted, price: { per_task: "0.5", per_turn: "0.25", seller: u_seller } } }
market: { commission: "0.2" }
auth:
  keys:
    - { name: alice, tenant: default, key: "env:E2E_ALICE" }
    - { name: bob, tenant: default, key: "env:E2E_BOB", budget: { amount: "0.1", window: day } }
"#;
    let server =
        Server::options().config(config).env("E2E_ALICE", "alice-0123456789").env("E2E_BOB", "bob-0123456789").start();
    let operate = |words: &[&str]| {
        let done = server.operate(words).output().expect("rialto runs");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    for user in ["alice", "bob", "u_seller"] {
        operate(&["market", "open", "--id", user, "--key", "none"]);
    }
    operate(&["market", "credit", "bob", "10"]);
    let send = |key: &str| with(v1("", "SendMessage", send(message("complete: done"))), "x-api-key", key);
    check(
        &server,
        &[
            told("no money", send("alice-0123456789"), "FAILED_PRECONDITION", "INSUFFICIENT_BALANCE", ""),
            told("a spent budget", send("bob-0123456789"), "FAILED_PRECONDITION", "BUDGET_EXCEEDED", ""),
        ],
    );
}
