//! Rialto from an agent's side: the requests to a program, an endpoint or a model when a turn is cancelled, retried
//! or outlives a killed server; and the errors to callers when the agent is unreachable.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};

use e2e::fold::text_of;
use e2e::poll::PATIENCE;
use e2e::server::is_alive;
use e2e::{Client, Server, Tongue, message, setup, until};
use serde_json::{Value, json};

/// How an endpoint answers a request.
#[derive(Clone, Copy, PartialEq)]
enum Answer {
    /// A stream that begins with this frame and does not end.
    Open(&'static str),
    /// A status without a body.
    Status(u16),
    /// A stream that breaks off.
    BreakOff,
    Json(&'static str),
}

/// An observation of an endpoint.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Asked {
        path: String,
        headers: Vec<(String, String)>,
        body: Value,
    },
    /// The client closed the request at that path.
    Closed(String),
}

/// An endpoint that records its requests; its answers are used in order, the last one repeatedly.
struct Endpoint {
    addr: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Endpoint {
    fn start(answers: &'static [Answer]) -> Endpoint {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (addr, seen) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let noted = seen.clone();
        std::thread::spawn(move || {
            let count = Arc::new(Mutex::new(0));
            for socket in listener.incoming() {
                let (socket, noted, count) = (socket.unwrap(), noted.clone(), count.clone());
                std::thread::spawn(move || serve(&socket, answers, &count, &noted));
            }
        });
        Endpoint { addr, seen }
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests at a path.
    fn asked(&self, at: &str) -> Vec<(Vec<(String, String)>, Value)> {
        let asked = |seen| match seen {
            Seen::Asked { path, headers, body } if path == at => Some((headers, body)),
            Seen::Asked { .. } | Seen::Closed(_) => None,
        };
        self.seen().into_iter().filter_map(asked).collect()
    }

    fn until_asked(&self, at: &str, times: usize) {
        until(&format!("{at} is asked {times} times"), PATIENCE, || (self.asked(at).len() >= times).then_some(()));
    }

    fn until_closed(&self, at: &str) {
        let closed = Seen::Closed(at.to_owned());
        until(&format!("the request at {at} is closed"), PATIENCE, || self.seen().contains(&closed).then_some(()));
    }
}

/// Serves one request of a connection.
fn serve(mut socket: &TcpStream, answers: &[Answer], count: &Mutex<usize>, seen: &Mutex<Vec<Seen>>) -> Option<()> {
    let mut reader = BufReader::new(socket);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let answer = if path == "/cancel" {
        Answer::Status(200)
    } else {
        let mut count = count.lock().unwrap();
        *count += 1;
        answers[(*count - 1).min(answers.len() - 1)]
    };
    seen.lock().unwrap().push(Seen::Asked {
        path: path.clone(),
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    });
    let stream = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = |frame: &str| format!("{:x}\r\n{frame}\r\n", frame.len());
    let sent = match answer {
        Answer::Open(frame) => write!(socket, "{stream}{}", chunk(&format!("data: {frame}\n\n"))),
        Answer::BreakOff => write!(socket, "{stream}{}", chunk("data: {\"text\": \"half an ans\"}\n\n")),
        Answer::Status(status) => {
            write!(socket, "HTTP/1.1 {status} So\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        }
        Answer::Json(text) => write!(
            socket,
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        ),
    };
    sent.ok()?;
    if let Answer::Open(_) = answer {
        // The read ends when the client has closed.
        let _ = reader.read_to_end(&mut Vec::new());
        seen.lock().unwrap().push(Seen::Closed(path));
    }
    socket.shutdown(Shutdown::Both).ok()
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
}

/// Opens a task and waits for its agent's first output.
fn begun(agent: &Client) -> String {
    let task = agent.open(message("go"))["id"].as_str().unwrap().to_owned();
    until("the agent has begun to speak", PATIENCE, || agent.task(&task)["artifacts"].is_array().then_some(()));
    task
}

fn cancel(agent: &Client, task: &str) {
    let canceled = agent.rpc("CancelTask", json!({ "id": task })).unwrap();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
}

#[test]
fn a_cancel_ends_the_program_and_all_that_it_started() {
    let server = Server::options()
        .config("agents:\n  busy: { kind: command, command: [sh, -c, 'sleep 1000 & echo $$ $!; wait'] }\n")
        .start();
    let agent = server.agent("busy");
    let task = begun(&agent);
    let said = text_of(&agent.task(&task)["artifacts"][0]["parts"]);
    let pids: Vec<&str> = said.split_whitespace().collect();
    assert!(pids.len() == 2 && pids.iter().all(|pid| is_alive(pid)), "{said}");
    cancel(&agent, &task);
    for pid in pids {
        until("the whole group is gone", PATIENCE, || (!is_alive(pid)).then_some(()));
    }
}

#[test]
fn a_cancel_closes_the_request_of_an_endpoint_and_calls_its_cancel_url() {
    let endpoint = Endpoint::start(&[Answer::Open(r#"{"text": "well"}"#)]);
    let at = endpoint.addr;
    let config =
        format!("agents:\n  mine: {{ kind: http, url: 'http://{at}/turn', cancel_url: 'http://{at}/cancel' }}\n");
    let server = Server::options().config(&config).start();
    let task = begun(&server.agent("mine"));
    assert!(!endpoint.seen().contains(&Seen::Closed("/turn".into())));
    cancel(&server.agent("mine"), &task);
    endpoint.until_closed("/turn");
    endpoint.until_asked("/cancel", 1);
    let (turn, told) = (&endpoint.asked("/turn")[0].1, &endpoint.asked("/cancel")[0].1);
    assert_eq!((&told["turn"], &told["task"], &told["reason"]), (&turn["turn"], &json!(task), &json!("canceled")));
}

#[test]
fn a_cancel_closes_the_stream_of_a_model() {
    let endpoint = Endpoint::start(&[Answer::Open(r#"{"choices": [{"delta": {"content": "well"}}]}"#)]);
    let config = format!("agents:\n  model: {{ kind: openai, base_url: 'http://{}/v1', model: m }}\n", endpoint.addr);
    let server = Server::options().config(&config).start();
    let task = begun(&server.agent("model"));
    cancel(&server.agent("model"), &task);
    endpoint.until_closed("/v1/chat/completions");
}

#[test]
fn an_endpoint_that_is_asked_again_knows_the_turn_by_its_id() {
    let endpoint = Endpoint::start(&[
        Answer::Status(503),
        Answer::BreakOff,
        Answer::Open(r#"{"text": "half an ans"}"#),
        Answer::Json(r#"{"text": "whole"}"#),
    ]);
    let config = format!("agents:\n  mine: {{ kind: http, url: 'http://{}/turn', retry_ms: 10 }}\n", endpoint.addr);
    let mut server = Server::options().config(&config).start();
    let task = server.agent("mine").open(message("go"))["id"].as_str().unwrap().to_owned();
    endpoint.until_asked("/turn", 3);
    // And once more by a server that was killed in the middle.
    server.restart();
    let done = server.agent("mine").settled(&task);
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    assert_eq!(text_of(&done["artifacts"][0]["parts"]), "whole", "what was said before begins again: {done}");
    let asked = endpoint.asked("/turn");
    assert_eq!(asked.len(), 4);
    let id = asked[0].1["turn"].as_str().unwrap();
    for (headers, body) in &asked {
        assert_eq!(body["turn"], id);
        assert_eq!((header(headers, "x-rialto-turn"), header(headers, "idempotency-key")), (id, id));
    }
    assert_eq!(asked[3].1["attempt"], 2, "it knows that the server was killed: {}", asked[3].1);
}

/// An agent of every kind that calls another machine, at an address without a listener.
fn nowhere(at: SocketAddr) -> [(&'static str, String, &'static str); 5] {
    [
        ("a2a", format!("url: 'http://{at}/a2a', patience_ms: 100"), "the remote agent cannot be reached"),
        ("http", format!("url: 'http://{at}/', retries: 1, retry_ms: 1"), "the agent's endpoint could not be reached"),
        (
            "openai",
            format!("base_url: 'http://{at}/v1', model: m, retries: 1, retry_ms: 1"),
            "the model could not be reached",
        ),
        (
            "langgraph",
            format!("url: 'http://{at}', assistant: a, retries: 1, retry_ms: 1"),
            "the graph server could not be reached",
        ),
        ("mcp", format!("url: 'http://{at}/mcp'"), "the MCP server could not be reached"),
    ]
}

#[test]
fn where_nobody_is_the_config_passes_with_a_warning_and_turns_fail_with_a_reason() {
    let kinds = nowhere(SocketAddr::from(([127, 0, 0, 1], 1)));
    let agents: String =
        kinds.iter().map(|(kind, rest, _)| format!("  {kind}: {{ kind: {kind}, {rest} }}\n")).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rialto.yaml");
    fs::write(&file, format!("agents:\n{agents}")).unwrap();
    let done = Command::new(setup::binary()).args(["config", "check", "--config"]).arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(0), "{said}");
    for (kind, ..) in &kinds {
        let warned = |line: &str| line.contains(&format!("agent {kind:?}: ")) && line.contains("cannot be reached now");
        assert!(said.lines().any(warned), "{kind}: {said}");
    }
    let server = Server::options().config(&format!("agents:\n{agents}")).start();
    for (kind, _, reason) in &kinds {
        for tongue in [Tongue::V1, Tongue::V03, Tongue::V01] {
            let caller = tongue.speaker(&server.agent(kind));
            let failed = caller.tell("anyone there?");
            let says = caller.words(&failed.id);
            assert_eq!(failed.state, "failed", "{kind} {tongue:?}: {says}");
            assert!(says.starts_with(reason), "{kind} {tongue:?}: {says}");
        }
    }
}

#[test]
fn a_wrong_config_is_told_with_its_line_the_problem_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rialto.yaml");
    for (text, says) in [
        ("agents:\n  a: { kind: echo\n", &["line 2", "unclosed bracket '{'"][..]),
        (
            "agents:\n  a: { kind: echo }\n  b: { kind: http, urll: 'http://x' }\n",
            &["line 3", "unknown field `urll`", "did you mean `url`?"],
        ),
        ("agnets:\n  a: { kind: echo }\n", &["line 1", "unknown field `agnets`", "did you mean `agents`?"]),
        (
            "agents:\n  a: { kind: openai, base_url: 'http://127.0.0.1:1', model: m, api_key: 'env:NO_SUCH_KEY' }\n",
            &["line 2", "api_key", "set the environment variable NO_SUCH_KEY"],
        ),
        (
            "agents:\n  a: { kind: worker, secret: 'file:/nowhere/at/all' }\n",
            &["line 2", "secret", "put the secret into the file /nowhere/at/all"],
        ),
        ("agents:\n  a: { kind: echo }\n  a: { kind: scripted }\n", &["line 3", "duplicate", "give it another name"]),
    ] {
        fs::write(&file, text).unwrap();
        let check = Command::new(setup::binary()).args(["config", "check", "--config"]).arg(&file).output().unwrap();
        let start =
            Server::command(&Server::options().config("as written"), "127.0.0.1:0", folder.path()).output().unwrap();
        for done in [check, start] {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.code(), Some(1), "{said}");
            for piece in says {
                assert!(said.contains(piece), "{piece:?} is not in: {said}");
            }
            assert!(!said.contains("DuplicateKeyPolicy"), "{said}");
        }
    }
}
