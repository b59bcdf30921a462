//! JSON that nests too deeply for protobuf readers: refused from callers in every dialect, and converted to text in
//! an agent's output, so that no task makes a list unreadable. Also the empty status of a list, the same in both
//! bindings.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

use std::process::Command;

use e2e::http::Request;
use e2e::{Client, Server, message, parts, script, send, setup};
use serde_json::{Value, json};

/// The deepest data part in a list that the Python SDK reads: the part itself is the first of 48 levels.
const FITS: usize = 47;

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, level| if level % 2 == 0 { json!({ "a": inner }) } else { json!([inner]) })
}

fn object(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }))
}

fn rpc(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "r", "method": method, "params": params })
}

/// A send of each dialect with a data part, and with metadata in each possible place.
fn sends(levels: usize) -> Vec<(String, Request)> {
    let (data, metadata) = (object(levels), object(levels));
    let mut rows = Vec::new();
    let v1 = |parts: Value| json!({ "messageId": e2e::fresh_id(), "role": "ROLE_USER", "parts": parts });
    let text = json!([{ "text": "hi" }]);
    let mut in_message = v1(text.clone());
    in_message["metadata"] = metadata.clone();
    for (place, params) in [
        ("data", json!({ "message": v1(json!([{ "data": data }])) })),
        ("part metadata", json!({ "message": v1(json!([{ "text": "hi", "metadata": metadata }])) })),
        ("message metadata", json!({ "message": in_message })),
        ("request metadata", json!({ "message": v1(text), "metadata": metadata })),
    ] {
        let post = |path: &str, body: &Value| Request::new("POST", path).header("A2A-Version", "1.0").json(body);
        for method in ["SendMessage", "SendStreamingMessage"] {
            rows.push((format!("1.0 rpc {method} {place}"), post("/a2a/echo", &rpc(method, params.clone()))));
        }
        rows.push((format!("1.0 rest {place}"), post("/a2a/echo/message:send", &params)));
        rows.push((format!("1.0 rest stream {place}"), post("/a2a/echo/message:stream", &params)));
    }
    let v03 = |parts: Value| json!({ "kind": "message", "messageId": e2e::fresh_id(), "role": "user", "parts": parts });
    let mut in_message = v03(json!([{ "kind": "text", "text": "hi" }]));
    in_message["metadata"] = metadata;
    for (place, params) in [
        ("data", json!({ "message": v03(json!([{ "kind": "data", "data": data }])) })),
        ("message metadata", json!({ "message": in_message })),
    ] {
        for method in ["message/send", "message/stream"] {
            let post = Request::new("POST", "/a2a/echo").json(&rpc(method, params.clone()));
            rows.push((format!("0.3 rpc {method} {place}"), post.header("A2A-Version", "0.3")));
            let post = Request::new("POST", "/a2a/echo").json(&rpc(method, params.clone()));
            rows.push((format!("0.2 rpc {method} {place}"), post));
        }
    }
    let proto = json!({ "message": { "messageId": e2e::fresh_id(), "role": "ROLE_USER",
                                     "content": [{ "data": { "data": data } }] } });
    rows.push(("0.3 rest data".into(), Request::new("POST", "/a2a/echo/v1/message:send").json(&proto)));
    for method in ["tasks/send", "tasks/sendSubscribe"] {
        let said = json!({ "role": "user", "parts": [{ "type": "data", "data": data }] });
        let params = json!({ "id": e2e::fresh_id(), "message": said });
        rows.push((format!("0.1 {method} data"), Request::new("POST", "/a2a/echo").json(&rpc(method, params.clone()))));
        let path = "/orloj/v1/agent-systems/one/a2a";
        let mut orloj = params;
        orloj["id"] = json!(e2e::fresh_id());
        rows.push((format!("orloj {method} data"), Request::new("POST", path).json(&rpc(method, orloj))));
    }
    rows
}

const CONFIG: &str = "
agents: { echo: { kind: echo }, scripted: { kind: scripted } }
systems: { one: { graph: { read: { agent: echo } }, a2a: { enabled: true, auth: public } } }
orloj: {}
langgraph: { profile: current }
";

/// The first frame of an answer: its status, and the fault's code if it is one.
fn told(server: &Server, request: &Request) -> (u16, Option<i64>, String) {
    let mut connection = e2e::http::Connection::open(server.addr()).unwrap();
    connection.send(request).unwrap();
    let head = connection.head().unwrap();
    let status = head.status;
    let text = if head.media_type() == "text/event-stream" {
        e2e::Events::new(connection, head).take().data
    } else {
        connection.whole(head).unwrap().text()
    };
    let value: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    let code = value["error"]["code"].as_i64().or(value["code"].as_i64());
    (status, code, text)
}

#[test]
fn every_dialect_refuses_what_nests_too_deeply_and_takes_what_does_not() {
    let server = Server::options().config(CONFIG).start();
    for (row, request) in sends(FITS + 1) {
        let (status, code, text) = told(&server, &request);
        // 1.0 has the status in its body; 0.3 has another for invalid params.
        let refused = if row.starts_with("1.0 rest") { status == 400 } else { code == Some(-32602) };
        assert!(refused, "{row}: {status} {text}");
        assert!(text.contains("nests deeper than 48 levels"), "{row}: {text}");
    }
    for (row, request) in sends(FITS) {
        let (status, code, text) = told(&server, &request);
        assert_eq!((status, code), (200, None), "{row}: {text}");
    }
    // Refused requests opened no task, and a list can be read.
    let listed = server.agent("echo").rpc("ListTasks", json!({ "includeArtifacts": true })).unwrap();
    assert!(!listed.to_string().contains(&object(FITS + 1).to_string()), "{listed}");
}

#[test]
fn an_assistant_of_langsmith_refuses_what_nests_too_deeply() {
    let server = Server::options().config(CONFIG).start();
    let listed = server.get("/agents").json();
    let agents = listed["agents"].as_array().or(listed.as_array()).unwrap().clone();
    let echo = agents.iter().find(|one| one["name"] == "echo" || one["id"] == "echo").unwrap();
    let path = format!("/langgraph/a2a/{}", echo["assistantId"].as_str().unwrap());
    for (levels, refuses) in [(FITS + 1, true), (FITS, false)] {
        let said = json!({ "role": "user", "messageId": e2e::fresh_id(),
                           "parts": [{ "kind": "data", "data": object(levels) }] });
        let request = Request::new("POST", &path).header("accept", "application/json");
        let (_, code, text) = told(&server, &request.json(&rpc("message/send", json!({ "message": said }))));
        assert_eq!(code, refuses.then_some(-32602), "{text}");
    }
}

#[test]
fn a_cancel_with_deep_metadata_is_refused_and_cancels_nothing() {
    let server = Server::options().config(CONFIG).start();
    let agent = server.agent("scripted");
    let task = agent.open(script(json!([{ "status": "working" }, { "hang": true }])));
    let id = task["id"].as_str().unwrap();
    let error = agent.rpc("CancelTask", json!({ "id": id, "metadata": object(FITS + 1) })).unwrap_err();
    assert_eq!(error["code"], -32602, "{error}");
    agent.in_state(id, "TASK_STATE_WORKING");
    agent.rpc("CancelTask", json!({ "id": id, "metadata": object(FITS) })).unwrap();
}

#[test]
fn the_limit_can_be_chosen() {
    let server = Server::options().config(&format!("{CONFIG}limits: {{ data_depth: 10 }}\n")).start();
    let agent = server.agent("echo");
    let refused = agent.rpc("SendMessage", send(parts(json!([{ "data": nested(10) }])))).unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("nests deeper than 10 levels"), "{refused}");
    agent.rpc("SendMessage", send(parts(json!([{ "data": nested(9) }])))).unwrap();
}

/// The output lines of an agent with deep data in every possible place.
fn deep_agent(folder: &std::path::Path) -> String {
    let deep = object(90);
    let lines = [
        json!({ "metadata": { "deep": deep } }),
        json!({ "artifact": { "name": "deep", "parts": [{ "data": deep }, { "text": "and a text" }] } }),
        json!({ "completed": { "parts": [{ "data": deep }] } }),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let path = folder.join("said.jsonl");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Reads a list and each of its tasks as the Python SDK does: into protobuf.
const READER: &str = r#"
import json, sys, urllib.request
from google.protobuf import json_format
from a2a.types import a2a_pb2 as pb
with urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers={"A2A-Version": "1.0"})) as answer:
    page = json_format.ParseDict(json.load(answer), pb.ListTasksResponse())
print(len(page.tasks))
"#;

fn read_by_python(server: &Server, agent: &str) -> usize {
    let python = setup::ensure("python/.venv/.stamp").with_file_name("bin/python");
    let url = format!("{}/a2a/{agent}/tasks?includeArtifacts=true&historyLength=10", server.url());
    let output = Command::new(python).args(["-c", READER, &url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap()
}

#[test]
fn what_an_agent_says_too_deeply_is_text_and_the_list_stays_readable() {
    let folder = tempfile::tempdir().unwrap();
    let said = deep_agent(folder.path());
    let config = format!(
        "agents: {{ deep: {{ kind: command, command: 'cat {said}', mode: jsonl }}, echo: {{ kind: echo }} }}\n"
    );
    let server = Server::options().config(&config).start();
    let task = server.agent("deep").send(message("go"));
    let artifact = &task["artifacts"][0];
    let text = artifact["parts"][0]["text"].as_str().unwrap_or_else(|| panic!("{task}"));
    assert!(text.contains("nests deeper than 48 levels") && text.contains(&object(90).to_string()), "{text}");
    assert_eq!(artifact["parts"][1]["text"], "and a text", "{task}");
    let last = task["status"]["message"]["parts"][0]["text"].as_str().unwrap_or_else(|| panic!("{task}"));
    assert!(last.contains("nests deeper than 48 levels"), "{task}");
    assert!(task["metadata"]["rialto_too_deep"].as_str().unwrap().contains("deep"), "{task}");
    assert_eq!(read_by_python(&server, "deep"), 1);
    // As deep as a caller may send, in a list read by the SDK's own reader.
    server.agent("echo").send(parts(json!([{ "data": nested(FITS) }, { "text": "x", "metadata": object(FITS) }])));
    assert_eq!(read_by_python(&server, "echo"), 1);
}

#[test]
fn an_empty_status_is_no_filter_in_either_binding() {
    let server = Server::options().config(CONFIG).start();
    let agent: Client = server.agent("echo");
    agent.send(message("one"));
    let plain = agent.rpc("ListTasks", json!({})).unwrap();
    for empty in [json!(""), json!(0), json!("TASK_STATE_UNSPECIFIED"), Value::Null] {
        let listed = agent.rpc("ListTasks", json!({ "status": empty })).unwrap_or_else(|e| panic!("{empty}: {e}"));
        assert_eq!(listed, plain, "{empty}");
    }
    for query in ["?status=", "?status=0", "?status=TASK_STATE_UNSPECIFIED", ""] {
        let listed = agent.rest("GET", &format!("/tasks{query}"), None);
        assert_eq!((listed.status(), listed.json()), (200, plain.clone()), "{query}");
    }
    for (rpc, query) in [(json!("TASK_STATE_NONE"), "TASK_STATE_NONE"), (json!(99), "99"), (json!(" "), "%20")] {
        let refused = agent.rpc("ListTasks", json!({ "status": rpc })).unwrap_err();
        assert_eq!(refused["code"], -32602, "{refused}");
        assert_eq!(agent.rest("GET", &format!("/tasks?status={query}"), None).status(), 400, "{query}");
    }
}

#[test]
fn every_card_tells_the_modes_of_every_skill() {
    let server = Server::start(&[]);
    let demo: Value = serde_json::from_slice(&std::fs::read(server.data().join("demo.json")).unwrap()).unwrap();
    let assistant = demo["langgraph"]["assistant_id"].as_str().unwrap();
    for path in [
        "/.well-known/agent-card.json".to_owned(),
        "/.well-known/agent.json".to_owned(),
        "/a2a/echo/.well-known/agent-card.json".to_owned(),
        format!("/.well-known/agent-card.json?assistant_id={assistant}"),
        "/orloj/v1/agent-systems/summarize/.well-known/agent-card.json".to_owned(),
        "/aly/.well-known/agent-card.json".to_owned(),
        "/uumit/.well-known/agent-card.json".to_owned(),
    ] {
        let card = server.get(&path).json();
        let skills = card["skills"].as_array().unwrap_or_else(|| panic!("{path}: {card}"));
        assert!(!skills.is_empty(), "{path}: {card}");
        for skill in skills {
            for (own, default) in [("inputModes", "defaultInputModes"), ("outputModes", "defaultOutputModes")] {
                let modes = skill[own].as_array().unwrap_or_else(|| panic!("{path}: {own} of {skill}"));
                assert!(!modes.is_empty(), "{path}: {own}");
                assert_eq!(skill[own], card[default], "{path}");
            }
        }
    }
}
