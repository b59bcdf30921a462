//! JSON-RPC envelopes, good and bad: the precise fault for each.

use e2e::{Client, Server, assert_rpc_fault, message, send};
use serde_json::{Value, json};

fn error_of(client: &Client, body: impl Into<Vec<u8>>) -> Value {
    let response = client.post(body);
    assert_eq!(response.status(), 200, "{}", response.text());
    assert_eq!(response.head.media_type(), "application/json");
    let answer = response.json();
    assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
    assert!(answer.get("result").is_none(), "{answer}");
    assert!(answer.get("id").is_some(), "an answer names its request, be it null: {answer}");
    answer
}

#[test]
fn what_is_not_json_is_a_parse_error_without_an_id() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    for body in [
        "",
        "{",
        "not json",
        r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"x"}} trailing"#,
    ] {
        let answer = error_of(&echo, body);
        assert_eq!(answer["error"]["code"], -32700, "{body:?}: {answer}");
        assert_eq!(answer["id"], Value::Null, "{answer}");
    }
    let answer = error_of(&echo, vec![b'{', b'"', 0xff, 0xfe, b'"', b':', b'1', b'}']);
    assert_eq!(answer["error"]["code"], -32700, "{answer}");
}

#[test]
fn a_batch_is_one_invalid_request() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    for body in ["[]", r#"[{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}]"#] {
        let answer = error_of(&echo, body);
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
        assert_eq!(answer["id"], Value::Null);
    }
}

#[test]
fn an_envelope_of_the_wrong_shape_is_an_invalid_request() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    for (body, id) in [
        (json!("text"), Value::Null),
        (json!(7), Value::Null),
        (json!(null), Value::Null),
        (json!({}), Value::Null),
        (json!({ "id": 1, "method": "ListTasks", "params": {} }), json!(1)),
        (json!({ "jsonrpc": "1.0", "id": "a", "method": "ListTasks", "params": {} }), json!("a")),
        (json!({ "jsonrpc": "2.0", "id": 2, "params": {} }), json!(2)),
        (json!({ "jsonrpc": "2.0", "id": 3, "method": 5, "params": {} }), json!(3)),
        (json!({ "jsonrpc": "2.0", "id": {}, "method": "ListTasks", "params": {} }), Value::Null),
        (json!({ "jsonrpc": "2.0", "id": true, "method": "ListTasks", "params": {} }), Value::Null),
        (json!({ "jsonrpc": "2.0", "id": 1.5, "method": "ListTasks", "params": {} }), Value::Null),
    ] {
        let answer = error_of(&echo, body.to_string());
        assert_eq!(answer["error"]["code"], -32600, "{body}: {answer}");
        assert_eq!(answer["id"], id, "{body}: {answer}");
    }
}

#[test]
fn ids_come_back_as_they_were_sent() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    for id in [json!(1), json!("1"), json!(""), json!(-7), json!(9_007_199_254_740_993_i64), json!("ü\"\\\n")] {
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": "ListTasks", "params": {} });
        let answer = echo.post(body.to_string()).json();
        assert_eq!(answer["id"], id, "{answer}");
        assert!(answer["result"].is_object(), "{answer}");
    }
}

#[test]
fn a_notification_is_answered_with_a_null_id() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let body = json!({ "jsonrpc": "2.0", "method": "ListTasks", "params": {} });
    let response = echo.post(body.to_string());
    let answer = response.json();
    assert_eq!(answer.get("id"), Some(&Value::Null), "{answer}");
    assert!(answer["result"].is_object() != answer["error"].is_object(), "{answer}");
}

#[test]
fn unknown_methods_and_bad_params_are_told_apart() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    for method in ["sendMessage", "SendMessages", "tasks/unknown"] {
        let error = echo.rpc(method, json!({})).unwrap_err();
        assert_eq!(error["code"], -32601, "{method}: {error}");
    }
    let hello = message("hi");
    let mut no_id = hello.clone();
    no_id.as_object_mut().unwrap().remove("messageId");
    let mut no_parts = hello.clone();
    no_parts["parts"] = json!([]);
    let mut two_contents = hello.clone();
    two_contents["parts"] = json!([{ "text": "a", "url": "https://example.com" }]);
    let mut no_content = hello.clone();
    no_content["parts"] = json!([{ "mediaType": "text/plain" }]);
    let mut bad_role = hello.clone();
    bad_role["role"] = json!("ROLE_KING");
    let mut bad_base64 = hello.clone();
    bad_base64["parts"] = json!([{ "raw": "§§§" }]);
    for (method, params) in [
        ("SendMessage", json!({})),
        ("SendMessage", json!([])),
        ("SendMessage", json!({ "message": "hi" })),
        ("SendMessage", send(no_id)),
        ("SendMessage", send(no_parts)),
        ("SendMessage", send(two_contents)),
        ("SendMessage", send(no_content)),
        ("SendMessage", send(bad_role)),
        ("SendMessage", send(bad_base64)),
        ("SendMessage", json!({ "message": hello, "configuration": { "returnImmediately": "yes" } })),
        ("SendMessage", json!({ "message": hello, "configuration": { "historyLength": -1 } })),
        ("SendStreamingMessage", json!({})),
        ("GetTask", json!({})),
        ("GetTask", json!({ "id": 7 })),
        ("GetTask", json!({ "id": "" })),
        ("CancelTask", json!({})),
        ("SubscribeToTask", json!({})),
        ("ListTasks", json!({ "pageSize": 0 })),
        ("ListTasks", json!({ "pageSize": 101 })),
        ("ListTasks", json!({ "pageSize": -1 })),
        ("ListTasks", json!({ "pageToken": "forged" })),
        ("ListTasks", json!({ "status": "TASK_STATE_SLEEPING" })),
        ("ListTasks", json!({ "statusTimestampAfter": "yesterday" })),
        ("ListTasks", json!({ "historyLength": -1 })),
    ] {
        let shown = params.to_string();
        let error = match echo.rpc(method, params) {
            Err(error) => error,
            Ok(result) => panic!("{method} {shown} was accepted: {result}"),
        };
        assert_eq!(error["code"], -32602, "{method} {shown}: {error}");
        assert_rpc_fault(&error, -32602, "INVALID_PARAMS");
    }
}

#[test]
fn proto_names_strings_for_numbers_and_unknown_members_are_accepted() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let result = scripted
        .rpc(
            "SendMessage",
            json!({
                "message": { "message_id": "m", "role": 1, "parts": [{ "text": "hi", "media_type": "text/plain" }], "task_id": null },
                "configuration": { "return_immediately": false, "history_length": "5", "surprise": [1] },
                "unheard_of": { "a": 1 },
            }),
        )
        .unwrap();
    let id = result["task"]["id"].clone();
    let task = scripted.rpc("GetTask", json!({ "id": id, "history_length": 1.0 })).unwrap();
    assert_eq!(task["history"].as_array().map(Vec::len), Some(1), "{task}");
    let listed =
        scripted.rpc("ListTasks", json!({ "page_size": "1", "status": 3, "include_artifacts": true })).unwrap();
    assert_eq!(listed["tasks"][0]["id"], id, "{listed}");
}

#[test]
fn a_duplicate_member_is_a_fault_but_for_opaque_json() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let message = r#"{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}"#;
    for body in [
        format!(r#"{{"jsonrpc":"2.0","id":1,"id":2,"method":"SendMessage","params":{{"message":{message}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"GetTask","method":"SendMessage","params":{{"message":{message}}}}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{{"message":{message},"message":{message}}}}}"#),
        r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","messageId":"n","role":"ROLE_USER","parts":[{"text":"hi"}]}}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","message_id":"n","role":"ROLE_USER","parts":[{"text":"hi"}]}}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi","text":"ho"}]}}}"#.to_owned(),
    ] {
        let answer = error_of(&echo, body.clone());
        let code = answer["error"]["code"].as_i64().unwrap();
        assert!([-32700, -32600, -32602].contains(&code), "{body}: {answer}");
    }
    let opaque = r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"a":1,"a":2}}],"metadata":{"b":1,"b":2}}}}"#;
    let response = echo.post(opaque);
    assert!(response.json()["result"]["task"].is_object(), "{}", response.text());
    assert!(response.text().contains(r#"{"a":1,"a":2}"#), "unchanged: {}", response.text());
}

#[test]
fn deep_and_large_bodies_are_refused_without_harm() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{{"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"data":{}{}}}]}}}}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let answer = error_of(&echo, deep);
    assert!(answer["error"]["code"].as_i64().unwrap() < 0, "{answer}");

    let large = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage",
        "params": send(message(&"x".repeat(11 * 1024 * 1024))) });
    // The server may answer and close before it has read everything; then a broken pipe is no failure of the test.
    let request = echo.request("POST", "").json(&large);
    if let Ok(response) = echo.try_exchange(&request) {
        if response.status() == 413 {
            // A plain answer, or one in the binding's own form.
        } else {
            assert_eq!(response.status(), 200, "{}", response.text());
            assert!(response.json()["error"]["code"].as_i64().unwrap() < 0);
        }
    }
    let rest = echo.request("POST", "/message:send").json(&large["params"]);
    if let Ok(response) = echo.try_exchange(&rest) {
        assert_eq!(response.status(), 413, "{}", response.text());
    }
    assert_eq!(echo.send(message("still here"))["status"]["state"], "TASK_STATE_COMPLETED");

    let almost = echo.send(message(&"y".repeat(9 * 1024 * 1024)));
    let text = almost["artifacts"][0]["parts"][0]["text"].as_str().unwrap();
    assert_eq!(text.len(), 9 * 1024 * 1024);
}

#[test]
fn an_escape_that_is_half_a_character_never_comes_back() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    // Strict parsers, serde_json and protobuf among them, refuse an answer with a lone surrogate.
    for body in [
        r#"{"jsonrpc":"2.0","id":"\ud800","method":"ListTasks","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"\udc00"}]}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":{"a":"\ud800"}}]}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"metadata":{"\ud800":1}}}}"#,
    ] {
        let answer = error_of(&echo, body);
        assert!(answer["error"]["code"].as_i64().unwrap() < 0, "{body}: {answer}");
    }
    let listed = echo.rpc("ListTasks", json!({ "includeArtifacts": true })).unwrap();
    assert_eq!(listed["totalSize"], 0, "{listed}");
    let whole = echo.send(message("\u{1f600}"));
    assert_eq!(whole["artifacts"][0]["parts"][0]["text"], "\u{1f600}", "whole pairs are characters");
}
