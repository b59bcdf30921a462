//! Every error that an older generation documents and this server can return, with exact code, status and shape.
//! Those of 1.0 are in `scenarios`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use e2e::http::Response;
use e2e::{Client, Server, message, script, send};
use serde_json::{Value, json};

const NOBODY: &str = "019aa000-0000-7000-8000-00000000abcd";

/// A server with a settled task and a working one.
struct World {
    server: Server,
    settled: String,
    hanging: String,
}

fn world() -> World {
    let server = Server::options().config("push: { enabled: false }\n").start();
    let agent = server.agent("scripted");
    // Opened in 1.0, so that no caller's generation is the opener's.
    let settled = agent.send(message("done"))["id"].as_str().unwrap().to_owned();
    let hanging = agent.open(script(json!([{ "status": "working" }, { "hang": true }])));
    World { hanging: hanging["id"].as_str().unwrap().to_owned(), server, settled }
}

impl World {
    fn client(&self, version: Option<&str>) -> Client {
        let agent = self.server.agent("scripted");
        version.map_or_else(|| agent.without("A2A-Version"), |version| agent.with("A2A-Version", version))
    }
}

/// The shape of an error object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// `data` is an array of details.
    V1,
    /// `data` is an object, or not there.
    V03,
    /// `code` and `message` alone.
    V01,
}

fn assert_error(row: &str, error: &Value, code: i64, shape: Shape) {
    assert_eq!(error["code"], code, "{row}: {error}");
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{row}: {error}");
    let data = error.get("data");
    let fits = match shape {
        Shape::V1 => data.is_some_and(|data| data[0]["@type"].is_string()),
        Shape::V03 => data.is_none_or(Value::is_object),
        Shape::V01 => data.is_none(),
    };
    assert!(fits, "{row}: not the shape of {shape:?}: {error}");
    let known = ["code", "message", "data"];
    assert!(error.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{row}: {error}");
}

/// The error object of a JSON-RPC answer, and whether it came in an event stream.
fn rpc_error(row: &str, response: &Response, id: &Value) -> (Value, bool) {
    assert_eq!(response.status(), 200, "{row}: {}", response.text());
    let streamed = response.head.media_type() == "text/event-stream";
    let answer: Value = if streamed {
        let text = response.text();
        let data: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(data.len(), 1, "{row}: an error is the only event: {text}");
        serde_json::from_str(data[0]).unwrap()
    } else {
        response.json()
    };
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), id), "{row}: {answer}");
    assert!(answer.get("result").is_none(), "{row}: {answer}");
    (answer["error"].clone(), streamed)
}

fn check_rpc(
    world: &World,
    version: Option<&str>,
    method: &str,
    params: Value,
    code: i64,
    shape: Shape,
    dialect: &str,
) {
    let row = format!("{version:?} {method} {params}");
    let body = json!({ "jsonrpc": "2.0", "id": "e-1", "method": method, "params": params });
    let client = world.client(version);
    let response = client.post(body.to_string());
    let (error, streamed) = rpc_error(&row, &response, &json!("e-1"));
    assert_error(&row, &error, code, shape);
    assert_eq!(response.head.header("x-a2a-dialect"), Some(dialect), "{row}");
    // 0.3 clients read only a stream there. Errors of the request itself are sent before the stream begins.
    let streams = ["message/stream", "tasks/resubscribe"].contains(&method);
    let in_stream = streams && shape == Shape::V03 && code != -32602;
    assert_eq!(streamed, in_stream, "{row}: inside an event stream");
}

fn said(task: Option<&str>) -> Value {
    let mut message =
        json!({ "kind": "message", "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "x" }] });
    if let Some(task) = task {
        message["taskId"] = json!(task);
    }
    json!({ "message": message })
}

#[test]
fn every_error_of_0_3_over_json_rpc() {
    let world = world();
    let settled = world.settled.as_str();
    let hook = json!({ "url": "https://example.com/hook" });
    for version in [Some("0.3"), Some("0.3.0"), Some("0.2"), None] {
        let mut with_push = said(None);
        with_push["configuration"] = json!({ "pushNotificationConfig": hook });
        let mut context = said(Some(&world.hanging));
        context["message"]["contextId"] = json!("another");
        for (method, params, code) in [
            ("message/unknown", json!({}), -32601),
            ("tasks/list", json!({}), -32601),
            ("message/send", json!({}), -32602),
            ("message/send", json!({ "message": { "kind": "message", "role": "user", "parts": [] } }), -32602),
            ("message/send", context, -32602),
            ("message/stream", json!({}), -32602),
            ("message/send", said(Some(NOBODY)), -32001),
            ("message/stream", said(Some(NOBODY)), -32001),
            ("message/send", said(Some(settled)), -32004),
            ("message/stream", said(Some(settled)), -32004),
            ("message/send", with_push, -32003),
            ("tasks/pushNotificationConfig/set", json!({ "taskId": settled, "pushNotificationConfig": hook }), -32003),
            ("tasks/pushNotificationConfig/get", json!({ "id": settled }), -32003),
            ("tasks/pushNotificationConfig/list", json!({ "id": settled }), -32003),
            ("tasks/pushNotificationConfig/delete", json!({ "id": settled, "pushNotificationConfigId": "c" }), -32003),
            ("agent/getAuthenticatedExtendedCard", json!({}), -32004),
        ] {
            check_rpc(&world, version, method, params, code, Shape::V03, "a2a_v0_3");
        }
        // Shared with 0.1: without a version, for a task that neither opened, in a shape that both read.
        let shared = if version.is_some() { "a2a_v0_3" } else { "a2a_v0" };
        for (method, params, code) in [
            ("tasks/get", json!({}), -32602),
            ("tasks/get", json!({ "id": 7 }), -32602),
            ("tasks/get", json!({ "id": NOBODY }), -32001),
            ("tasks/cancel", json!({ "id": NOBODY }), -32001),
            ("tasks/cancel", json!({ "id": settled }), -32002),
            ("tasks/resubscribe", json!({ "id": NOBODY }), -32001),
            ("tasks/resubscribe", json!({ "id": settled }), -32004),
        ] {
            check_rpc(&world, version, method, params, code, Shape::V03, shared);
        }
    }
}

#[test]
fn params_that_are_no_object_are_told_in_the_generation_of_the_method() {
    let world = world();
    for (method, shape, dialect) in [
        ("message/send", Shape::V03, "a2a_v0_3"),
        ("tasks/pushNotificationConfig/list", Shape::V03, "a2a_v0_3"),
        ("tasks/send", Shape::V01, "a2a_v0_1"),
        ("SendMessage", Shape::V1, "a2a_v1"),
    ] {
        check_rpc(&world, None, method, json!([]), -32602, shape, dialect);
    }
    check_rpc(&world, Some("0.3"), "message/send", json!([]), -32602, Shape::V03, "a2a_v0_3");
}

#[test]
fn broken_envelopes_are_told_in_the_stated_generation() {
    let world = world();
    for (version, shape) in [(Some("0.3"), Shape::V03), (Some("1.0"), Shape::V1), (None, Shape::V1)] {
        for (body, id, code) in [
            ("{", Value::Null, -32700),
            ("", Value::Null, -32700),
            ("[]", Value::Null, -32600),
            (r#"{"jsonrpc":"1.0","id":7,"method":"tasks/get","params":{}}"#, json!(7), -32600),
            (r#"{"jsonrpc":"2.0","id":7,"params":{}}"#, json!(7), -32600),
        ] {
            let response = world.client(version).post(body);
            let row = format!("{version:?} {body}");
            let (error, _) = rpc_error(&row, &response, &id);
            assert_error(&row, &error, code, shape);
        }
    }
}

#[test]
fn a_method_of_one_generation_with_the_version_of_another() {
    let world = world();
    let id = json!({ "id": world.settled });
    for method in ["SendMessage", "SendStreamingMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask"] {
        for version in ["0.3", "0.2"] {
            check_rpc(&world, Some(version), method, id.clone(), -32009, Shape::V1, "a2a_v1");
        }
    }
    for method in [
        "message/send",
        "message/stream",
        "tasks/get",
        "tasks/cancel",
        "tasks/resubscribe",
        "tasks/send",
        "tasks/sendSubscribe",
    ] {
        check_rpc(&world, Some("1.0"), method, id.clone(), -32601, Shape::V1, "a2a_v1");
    }
    for method in ["GetTask", "message/send", "tasks/get"] {
        for version in ["99.0", "0.1", "2.0", "soon"] {
            let row = format!("{version} {method}");
            let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": id });
            let (error, _) = rpc_error(&row, &world.client(Some(version)).post(body.to_string()), &json!(1));
            assert_eq!(error["code"], -32009, "{row}: {error}");
        }
    }
    // Methods of 0.1 alone do not exist in 0.3.
    for method in ["tasks/send", "tasks/sendSubscribe", "tasks/pushNotification/set", "tasks/pushNotification/get"] {
        check_rpc(&world, Some("0.3"), method, id.clone(), -32601, Shape::V03, "a2a_v0_3");
    }
}

#[test]
fn every_error_of_0_1() {
    let world = world();
    let client = world.client(None);
    let text = json!({ "role": "user", "parts": [{ "type": "text", "text": "x" }] });
    client.rpc("tasks/send", json!({ "id": "done", "message": text })).unwrap();
    let hook = json!({ "url": "https://example.com/hook" });
    for (method, params, code) in [
        ("tasks/send", json!({}), -32602),
        ("tasks/send", json!({ "id": "x" }), -32602),
        ("tasks/send", json!({ "message": text }), -32602),
        ("tasks/send", json!({ "id": "x", "message": { "role": "user", "parts": [] } }), -32602),
        ("tasks/send", json!({ "id": "x", "message": { "role": "king", "parts": [{ "text": "x" }] } }), -32602),
        ("tasks/send", json!({ "id": "done", "sessionId": "other", "message": text }), -32602),
        ("tasks/sendSubscribe", json!({ "id": "x" }), -32602),
        ("tasks/cancel", json!({ "id": "done" }), -32002),
        ("tasks/resubscribe", json!({ "id": "done" }), -32004),
        ("tasks/send", json!({ "id": "x", "message": text, "pushNotification": hook }), -32003),
        ("tasks/pushNotification/set", json!({ "id": "done", "pushNotificationConfig": hook }), -32003),
        ("tasks/pushNotification/get", json!({ "id": "done" }), -32003),
        ("tasks/pushNotification/get", json!({}), -32602),
    ] {
        check_rpc(&world, None, method, params, code, Shape::V01, "a2a_v0_1");
    }
}

#[test]
fn every_error_of_0_3_over_http_json() {
    let world = world();
    let settled = world.settled.as_str();
    let proto = |task: Option<&str>| {
        let mut message = json!({ "messageId": "m", "role": "ROLE_USER", "content": [{ "text": "x" }] });
        if let Some(task) = task {
            message["taskId"] = json!(task);
        }
        json!({ "message": message })
    };
    let push = "pushNotificationConfigs";
    let hook = json!({ "parent": format!("tasks/{settled}"), "configId": "c", "config": { "pushNotificationConfig": { "url": "https://example.com" } } });
    for (verb, path, body, status, code, name) in [
        ("POST", "/v1/message:send".to_owned(), Some(json!({})), 422, -32602, "InvalidParamsError"),
        ("POST", "/v1/message:stream".to_owned(), Some(json!({})), 422, -32602, "InvalidParamsError"),
        ("POST", "/v1/message:send".to_owned(), Some(proto(Some(NOBODY))), 404, -32001, "TaskNotFoundError"),
        ("POST", "/v1/message:stream".to_owned(), Some(proto(Some(NOBODY))), 404, -32001, "TaskNotFoundError"),
        ("POST", "/v1/message:send".to_owned(), Some(proto(Some(settled))), 501, -32004, "UnsupportedOperationError"),
        ("POST", "/v1/message:stream".to_owned(), Some(proto(Some(settled))), 501, -32004, "UnsupportedOperationError"),
        ("GET", format!("/v1/tasks/{NOBODY}"), None, 404, -32001, "TaskNotFoundError"),
        ("GET", format!("/v1/tasks/{settled}?historyLength=x"), None, 422, -32602, "InvalidParamsError"),
        ("POST", format!("/v1/tasks/{NOBODY}:cancel"), None, 404, -32001, "TaskNotFoundError"),
        ("POST", format!("/v1/tasks/{settled}:cancel"), None, 409, -32002, "TaskNotCancelableError"),
        ("GET", format!("/v1/tasks/{NOBODY}:subscribe"), None, 404, -32001, "TaskNotFoundError"),
        ("POST", format!("/v1/tasks/{settled}:subscribe"), None, 501, -32004, "UnsupportedOperationError"),
        ("POST", format!("/v1/tasks/{settled}/{push}"), Some(hook), 501, -32003, "PushNotificationNotSupportedError"),
        ("GET", format!("/v1/tasks/{settled}/{push}"), None, 501, -32003, "PushNotificationNotSupportedError"),
        ("GET", format!("/v1/tasks/{settled}/{push}/c"), None, 501, -32003, "PushNotificationNotSupportedError"),
        ("DELETE", format!("/v1/tasks/{settled}/{push}/c"), None, 501, -32003, "PushNotificationNotSupportedError"),
        ("GET", "/v1/card".to_owned(), None, 404, -32004, "UnsupportedOperationError"),
        ("GET", "/v1/nothing".to_owned(), None, 404, -32601, "MethodNotFoundError"),
        ("DELETE", format!("/v1/tasks/{settled}"), None, 405, -32601, "MethodNotFoundError"),
    ] {
        for version in [Some("0.3"), None] {
            let row = format!("{version:?} {verb} {path}");
            let response = world.client(version).rest(verb, &path, body.as_ref());
            assert_eq!(response.status(), status, "{row}: {}", response.text());
            assert_eq!(response.head.header("x-a2a-dialect"), Some("a2a_v0_3_rest"), "{row}");
            assert_eq!(response.head.media_type(), "application/json", "{row}");
            let error = response.json();
            assert_eq!((&error["code"], &error["type"]), (&json!(code), &json!(name)), "{row}: {error}");
            assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{row}: {error}");
            assert!(error.get("data").is_none_or(Value::is_object), "{row}: {error}");
            let known = ["code", "message", "type", "data"];
            assert!(error.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{row}: {error}");
        }
    }
    let client = world.client(None);
    let broken = client.request("POST", "/v1/message:send").header("content-type", "application/json").body("{");
    let response = client.exchange(&broken);
    assert_eq!((response.status(), &response.json()["type"]), (400, &json!("JSONParseError")));
    // A route of 1.0 does not exist in 0.3.
    let response = world.client(Some("0.3")).rest("GET", &format!("/tasks/{settled}"), None);
    e2e::assert_rest_fault(&response, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED");
}

/// Protobuf omits a member that is `false`, so an absent member of a configuration means false.
#[test]
fn a_configuration_without_blocking_does_not_block_over_http_json() {
    let world = world();
    let client = world.client(None);
    let steps = json!([{ "sleep_ms": 2_000 }, { "complete": "done" }]);
    let message =
        json!({ "messageId": "m", "role": "ROLE_USER", "content": [{ "data": { "data": { "script": steps } } }] });
    let body = json!({ "message": message, "configuration": { "acceptedOutputModes": ["text/plain"] } });
    let task = client.rest("POST", "/v1/message:send", Some(&body)).json()["task"].clone();
    let state = task["status"]["state"].as_str().unwrap_or_else(|| panic!("{task}"));
    assert!(["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state), "it waited: {task}");
}

#[test]
fn a_stranger_is_told_so_in_every_generation() {
    let server = Server::options()
        .config("auth:\n  required: true\n  keys:\n    - { name: ada, tenant: north, key: \"env:E2E_KEY_ADA\" }\n")
        .env("E2E_KEY_ADA", "ada-0123456789abcdef")
        .start();
    let client = server.agent("echo").without("A2A-Version");
    let text = json!({ "role": "user", "parts": [{ "type": "text", "text": "x" }] });
    for (method, params, code, dialect) in [
        ("message/send", said(None), -32041, "a2a_v0_3"),
        ("tasks/send", json!({ "id": "t", "message": text }), -32007, "a2a_v0_1"),
        ("SendMessage", send(message("x")), -32041, "a2a_v1"),
    ] {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let response = client.post(body.to_string());
        assert_eq!(response.status(), 401, "{method}");
        assert!(response.head.header("www-authenticate").is_some(), "{method}");
        assert_eq!(response.head.header("x-a2a-dialect"), Some(dialect), "{method}");
        assert_eq!(response.json()["error"]["code"], code, "{method}: {}", response.text());
    }
    let response = client.rest("GET", "/v1/tasks/x", None);
    assert_eq!((response.status(), &response.json()["code"]), (401, &json!(-32041)), "{}", response.text());
}
