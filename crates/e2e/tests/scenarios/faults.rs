//! Faults of HTTP, of versions and of media types, on both bindings.

use std::io::ErrorKind;

use e2e::http::Connection;
use e2e::{Server, assert_rest_fault, assert_rpc_fault, message, send};
use serde_json::json;

#[test]
fn version_99_is_refused_on_both_bindings() {
    let server = Server::start(&[]);
    let future = server.agent("echo").with("A2A-Version", "99.0");
    for (method, params) in [
        ("SendMessage", send(message("hi"))),
        ("SendStreamingMessage", send(message("hi"))),
        ("GetTask", json!({ "id": "x" })),
        ("ListTasks", json!({})),
    ] {
        let error = future.rpc(method, params).unwrap_err();
        assert_rpc_fault(&error, -32009, "VERSION_NOT_SUPPORTED");
    }
    for (verb, path, body) in [
        ("POST", "/message:send", Some(send(message("hi")))),
        ("POST", "/message:stream", Some(send(message("hi")))),
        ("GET", "/tasks/x", None),
        ("GET", "/tasks", None),
        ("POST", "/tasks/x:cancel", Some(json!({}))),
    ] {
        let response = future.rest(verb, path, body.as_ref());
        assert_rest_fault(&response, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED");
    }
    let listed = server.agent("echo").rpc("ListTasks", json!({})).unwrap();
    assert_eq!(listed["totalSize"], 0, "a refused send makes no task");
}

#[test]
fn a_patch_number_plays_no_part_and_a_missing_version_is_told_by_the_method() {
    let server = Server::start(&[]);
    for version in ["1.0", "1.0.1", "1", " 1.0 "] {
        let echo = server.agent("echo").with("A2A-Version", version);
        assert!(echo.rpc("ListTasks", json!({})).is_ok(), "{version:?}");
        assert_eq!(echo.rest("GET", "/tasks", None).status(), 200, "{version:?}");
    }
    let silent = server.agent("echo").without("A2A-Version");
    assert!(silent.rpc("ListTasks", json!({})).is_ok());
    assert_eq!(silent.rest("GET", "/tasks", None).status(), 200);
    let by_query = silent.rest("GET", "/tasks?A2A-Version=99.0", None);
    assert_rest_fault(&by_query, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED");
}

#[test]
fn a_body_that_claims_to_be_text_is_a_415() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
    for media_type in ["text/plain", "application/x-www-form-urlencoded", "application/xml"] {
        let request = echo.request("POST", "").header("content-type", media_type).body(call.to_string());
        let response = echo.exchange(&request);
        assert_eq!(response.status(), 415, "{media_type}: {}", response.text());
        assert!(!response.text().contains("-32700"), "{}", response.text());
        let request = echo
            .request("POST", "/message:send")
            .header("content-type", media_type)
            .body(send(message("hi")).to_string());
        let response = echo.exchange(&request);
        assert_eq!(response.status(), 415, "{media_type}: {}", response.text());
    }
    for media_type in
        ["application/json; charset=utf-8", "application/a2a+json", "Application/JSON", "application/vnd.x+json"]
    {
        let request = echo.request("POST", "").header("content-type", media_type).body(call.to_string());
        assert_eq!(echo.exchange(&request).status(), 200, "{media_type}");
    }
    let untyped = echo.request("POST", "").body(call.to_string());
    assert_eq!(echo.exchange(&untyped).status(), 200, "no type at all");
}

#[test]
fn answers_are_in_the_media_type_of_the_request() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let body = send(message("hi"));
    let plain = echo.rest("POST", "/message:send", Some(&body));
    assert_eq!(plain.head.media_type(), "application/json");
    let special = echo.with("content-type", "application/a2a+json").rest("POST", "/message:send", Some(&body));
    assert_eq!(special.head.media_type(), "application/a2a+json");
    let accepting = echo.with("accept", "application/a2a+json").rest("GET", "/tasks", None);
    assert_eq!(accepting.head.media_type(), "application/a2a+json");
    let faulty = echo.with("content-type", "application/a2a+json").rest("POST", "/message:send", Some(&json!({})));
    assert_rest_fault(&faulty, 400, "INVALID_ARGUMENT", "INVALID_PARAMS");
    assert_eq!(faulty.head.media_type(), "application/a2a+json");
    let rpc = echo.post(json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks" }).to_string());
    assert_eq!(rpc.head.media_type(), "application/json");
}

#[test]
fn http_faults_name_what_is_wrong() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    for (path, body) in [
        ("/message:send", "{"),
        ("/message:send", ""),
        ("/message:send", "[]"),
        ("/message:send", "{}"),
        ("/message:stream", "{}"),
        ("/message:send", r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}"#),
        ("/message:send", r#"{"message":{"messageId":"m","messageId":"n","role":"ROLE_USER","parts":[{"text":"x"}]}}"#),
    ] {
        let request = echo.request("POST", path).header("content-type", "application/json").body(body);
        let response = echo.exchange(&request);
        assert_eq!(response.status(), 400, "{path} {body:?}: {}", response.text());
        let answer = response.json();
        assert_eq!(answer["error"]["code"], 400, "{answer}");
        assert_eq!(answer["error"]["status"], "INVALID_ARGUMENT", "{answer}");
        assert!(answer["error"]["details"][0]["@type"].is_string(), "{answer}");
    }
    for query in [
        "pageSize=0",
        "pageSize=101",
        "pageSize=x",
        "pageToken=forged",
        "status=SLEEPING",
        "statusTimestampAfter=yesterday",
        "historyLength=-1",
        "includeArtifacts=perhaps",
    ] {
        let response = echo.rest("GET", &format!("/tasks?{query}"), None);
        assert_rest_fault(&response, 400, "INVALID_ARGUMENT", "INVALID_PARAMS");
    }
    assert_eq!(echo.rest("GET", "/tasks?unknown=1&pageSize=7", None).status(), 200);
    for (verb, path, status) in
        [("GET", "/no/such/route", 404), ("GET", "/message:send", 405), ("DELETE", "/tasks", 405), ("PUT", "", 405)]
    {
        assert_eq!(echo.rest(verb, path, None).status(), status, "{verb} {path}");
    }
}

#[test]
fn bytes_that_are_no_http_end_the_connection_and_nothing_else() {
    let server = Server::start(&[]);
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET\r\n\r\n",
        b"POST /a2a/echo HTTP/1.1\r\nhost: x\r\ncontent-length: -1\r\n\r\n",
        b"POST /a2a/echo HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let mut connection = Connection::open(server.addr()).unwrap();
        connection.send_raw(bytes).unwrap();
        match connection.head() {
            Ok(head) => assert_eq!(head.status / 100, 4, "{bytes:?}: {head:?}"),
            Err(error) => assert_ne!(error.kind(), ErrorKind::WouldBlock, "{bytes:?} left hanging"),
        }
    }
    server.until_ready();
}

#[test]
fn requests_in_a_row_on_one_connection_are_answered_in_order() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let mut connection = Connection::open(server.addr()).unwrap();
    for turn in 0..5 {
        let call = json!({ "jsonrpc": "2.0", "id": turn, "method": "SendMessage", "params": send(message("row")) });
        connection.send(&echo.request("POST", "").json(&call)).unwrap();
    }
    for turn in 0..5 {
        let head = connection.head().unwrap();
        let answer = connection.whole(head).unwrap().json();
        assert_eq!(answer["id"], turn, "{answer}");
        assert_eq!(answer["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED");
    }
}
