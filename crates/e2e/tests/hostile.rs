//! Hostile input: arbitrary bytes and mutated requests at both bindings. Every one gets an answer in proper form or a
//! closed connection, none stops the server, and none makes it panic. `RIALTO_SEED` repeats a run, `RIALTO_ROUNDS`
//! multiplies it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use e2e::http::Response;
use e2e::seed::Random;
use e2e::{Client, Server, message, script, send};
use serde_json::{Value, json};

/// Requests per round.
const REQUESTS: u64 = 600;

/// What is good at breaking readers of JSON, of numbers and of ids.
const NASTY: &[&str] = &[
    "null",
    "true",
    "-1",
    "0",
    "1e400",
    "-0.0",
    "9223372036854775808",
    "18446744073709551616",
    "\"\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "[]",
    "{}",
    "[[[[[[[[]]]]]]]]",
    "\"../../etc/passwd\"",
    "\"';--\"",
    "{\"a\":1,\"a\":2}",
    "\"\u{202e}\"",
    "2147483648",
    "\"TASK_STATE_WORKING\"",
    "NaN",
];

fn rounds() -> u64 {
    std::env::var("RIALTO_ROUNDS").map_or(1, |text| text.parse().expect("RIALTO_ROUNDS is a number of rounds"))
}

/// Good requests to start from: the method or route, and its params or body.
fn seeds(id: &str) -> Vec<(&'static str, Value)> {
    let hello = message("hello");
    let steps =
        json!([{ "status": "working" }, { "artifact": { "name": "a", "parts": [{ "text": "x" }] }, "chunks": 2 }]);
    vec![
        ("SendMessage", json!({ "message": hello, "configuration": { "historyLength": 2 }, "metadata": { "k": [1] } })),
        ("SendMessage", send(script(steps))),
        ("GetTask", json!({ "id": id, "historyLength": 1 })),
        ("ListTasks", json!({ "pageSize": 3, "status": "TASK_STATE_COMPLETED", "includeArtifacts": true })),
        ("CancelTask", json!({ "id": id, "metadata": {} })),
        ("SubscribeToTask", json!({ "id": id })),
        ("GetExtendedAgentCard", json!({})),
    ]
}

/// Breaks a text in one of several ways: bytes flipped, cut, doubled, or a value replaced by a nasty one.
fn mutate(random: &mut Random, text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..random.between(1, 4) {
        let at = random.between(0, bytes.len() as u64 + 1) as usize;
        match random.between(0, 6) {
            0 if at < bytes.len() => bytes[at] = random.between(0, 256) as u8,
            1 => bytes.truncate(at),
            2 => bytes.insert(at, random.between(0, 256) as u8),
            3 if at < bytes.len() => {
                let end = (at + random.between(1, 20) as usize).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                // Most often: what follows some colon becomes something nasty, and the JSON stays well-formed.
                let colons: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b':').collect();
                let Some(colon) = colons.get(random.between(0, colons.len() as u64) as usize) else { continue };
                let end = (colon + 1..bytes.len()).find(|at| matches!(bytes[*at], b',' | b'}' | b']'));
                let nasty = NASTY[random.between(0, NASTY.len() as u64) as usize];
                bytes.splice(colon + 1..end.unwrap_or(bytes.len()), nasty.bytes());
            }
        }
    }
    bytes
}

/// An answer is a result, or an error in the binding's form; nothing of the server's inside shows.
fn check(response: &Response, sent: &[u8], rpc: bool) {
    let shown = || format!("{} answers {} {}", String::from_utf8_lossy(sent), response.status(), response.text());
    assert!(response.status() < 500, "{}", shown());
    if !matches!(response.head.media_type(), "application/json" | "application/a2a+json") {
        let bare = matches!(response.head.media_type(), "text/event-stream" | "") || response.status() >= 400;
        assert!(bare, "{}", shown());
        return;
    }
    let body = response.json();
    if rpc && response.status() == 200 {
        assert_eq!(body["jsonrpc"], "2.0", "{}", shown());
        assert!(body.get("id").is_some(), "{}", shown());
        assert!(body.get("result").is_some() != body["error"]["code"].is_number(), "{}", shown());
    } else if response.status() >= 400 {
        assert!(body["error"].is_object(), "{}", shown());
    }
    assert!(!response.text().contains("panicked"), "{}", shown());
}

#[test]
fn mutated_requests_get_proper_answers() {
    let mut random = Random::from_env("hostile requests");
    let server = Server::start(&[]);
    let client = server.agent("scripted");
    let task = client.send(message("settled"));
    let id = task["id"].as_str().unwrap();
    for _ in 0..REQUESTS * rounds() {
        let seeds = seeds(id);
        let (method, params) = &seeds[random.between(0, seeds.len() as u64) as usize];
        if random.chance(50) {
            let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
            attempt(&client, "", &mutate(&mut random, &body.to_string()), true);
        } else {
            let path = ["/message:send", "/tasks/x:cancel"][random.between(0, 2) as usize];
            attempt(&client, path, &mutate(&mut random, &params.to_string()), false);
        }
    }
    still_well(&server);
}

#[test]
fn mutated_routes_queries_and_headers_get_proper_answers() {
    let mut random = Random::from_env("hostile routes");
    let server = Server::start(&[]);
    let client = server.agent("scripted");
    let good = [
        "/tasks?pageSize=5&status=TASK_STATE_COMPLETED&pageToken=",
        "/tasks/some-id?historyLength=1",
        "/tasks/some-id:subscribe",
        "/extendedAgentCard",
        "/some-tenant/tasks/some-id",
        "/.well-known/agent-card.json",
    ];
    for _ in 0..REQUESTS * rounds() {
        let path = good[random.between(0, good.len() as u64) as usize];
        // What no HTTP library lets through is the HTTP library's affair: visible characters only.
        let path: String = mutate(&mut random, path)
            .into_iter()
            .map(|byte| if (0x21..0x7f).contains(&byte) { char::from(byte) } else { '%' })
            .collect();
        let path = format!("/{}", path.trim_start_matches('/'));
        let header = ["Last-Event-ID", "A2A-Version", "A2A-Extensions", "Idempotency-Key", "If-None-Match", "Accept"]
            [random.between(0, 6) as usize];
        let value: String = (0..random.between(0, 60)).map(|_| random.between(0x21, 0x7f) as u8 as char).collect();
        let client = client.without(header).with(header, &value);
        let response = client.exchange(&client.request("GET", &path));
        check(&response, format!("{path} {header}: {value}").as_bytes(), false);
    }
    still_well(&server);
}

fn attempt(client: &Client, path: &str, body: &[u8], rpc: bool) {
    let request = client.request("POST", path).header("content-type", "application/json").body(body);
    // Mutations that hit a script may make it hang or ask for long sleeps: an answer is not waited for then.
    let request = request.header("connection", "close");
    match client.try_head_within(&request, std::time::Duration::from_secs(2)) {
        Some(response) => check(&response, body, rpc),
        None => eprintln!("no answer within 2 s: {}", String::from_utf8_lossy(body)),
    }
}

fn still_well(server: &Server) {
    assert_eq!(server.get("/readyz").status(), 200);
    let echo = server.agent("echo").send(message("still here"));
    assert_eq!(echo["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(!server.log().contains("panicked"), "a panic in the log:\n{}", server.log());
}
