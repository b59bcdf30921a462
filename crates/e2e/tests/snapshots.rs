//! A text that was streamed in chunks is one part of every snapshot, in every generation and binding, for every
//! agent and every chunking. Streams keep their chunks.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use e2e::{Heard, Server, Tongue, folded, script};
use serde_json::{Value, json};

const TOKENS: usize = 300;

/// The text that the model streams, token by token.
fn said() -> String {
    (0..TOKENS).map(|i| format!("w{i} ")).collect()
}

/// A model server that streams the same tokens to every request.
fn model() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.unwrap();
            std::thread::spawn(move || speak(&socket));
        }
    });
    addr
}

fn speak(mut socket: &TcpStream) -> Option<()> {
    let mut reader = BufReader::new(socket);
    let (mut line, mut length) = (String::new(), 0);
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => length = value.trim().parse().ok()?,
            Some(_) => {}
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    reader.read_exact(&mut vec![0; length]).ok()?;
    socket.set_nodelay(true).ok()?;
    write!(socket, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n").ok()?;
    for i in 0..TOKENS {
        let token = json!({ "choices": [{ "delta": { "content": format!("w{i} ") } }] });
        write!(socket, "data: {token}\n\n").ok()?;
    }
    let end = json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] });
    write!(socket, "data: {end}\n\ndata: [DONE]\n\n").ok()
}

/// The number of parts of every artifact in a JSON value. The history is skipped: its script contains artifacts
/// too.
fn parts(value: &Value) -> Vec<usize> {
    let count = |artifact: &Value| artifact["parts"].as_array().map_or(0, Vec::len);
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, value)| match (name.as_str(), value) {
                ("artifacts", Value::Array(all)) => all.iter().map(count).collect(),
                ("artifact", artifact) => vec![count(artifact)],
                ("history", _) => Vec::new(),
                (_, value) => parts(value),
            })
            .collect(),
        Value::Array(all) => all.iter().flat_map(parts).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn a_model_that_says_300_tokens_answers_with_one_part_in_every_generation() {
    let config = format!(
        "agents:\n  model: {{ kind: openai, base_url: 'http://{}/v1', model: m, merge_chunks: false }}\n",
        model()
    );
    let mut server = Server::options().config(&config).start();
    let said = said();
    let mut opened = Vec::new();
    for tongue in Tongue::ALL {
        let speaker = tongue.speaker(&server.agent("model"));
        let done = speaker.tell("go");
        assert_eq!((done.state.as_str(), &done.texts[..]), ("completed", &[said.clone()][..]), "{tongue:?}");
        assert_eq!(done.parts, [1], "{tongue:?}");
        assert_eq!(parts(&speaker.try_get(&done.id).unwrap()), [1], "{tongue:?}");
        let mut stream = speaker.stream("go");
        let heard = stream.rest();
        let chunks = heard.iter().filter(|event| matches!(event, Heard::Artifact { .. })).count();
        assert!(chunks > 1, "{tongue:?}: {chunks} chunks");
        assert_eq!(folded(&heard).1, std::slice::from_ref(&said), "{tongue:?}");
        opened.push((tongue, done.id));
    }
    let all = [
        server.agent("model").rpc("ListTasks", json!({ "includeArtifacts": true })).unwrap(),
        server.agent("model").rest("GET", "/tasks?includeArtifacts=true", None).json(),
    ];
    for listed in all {
        assert_eq!(parts(&listed), [1; 2 * Tongue::ALL.len()], "{listed}");
    }
    // The next process folds the logs to the same parts.
    server.restart();
    for (tongue, id) in opened {
        let again = tongue.speaker(&server.agent("model")).get(&id);
        assert_eq!((&again.texts[..], &again.parts[..]), (&[said.clone()][..], &[1][..]), "{tongue:?}");
    }
}

#[test]
fn a_subscription_begins_with_one_part_for_the_chunks_so_far() {
    let server = Server::start(&[]);
    let agent = server.agent("scripted");
    let steps = json!([
        { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 20 },
        { "artifact": { "name": "b", "parts": [{ "text": "one" }, { "text": "two" }] } },
        { "input": "more?" },
        { "complete": "done" },
    ]);
    for tongue in Tongue::ALL {
        let speaker = tongue.speaker(&agent);
        let asked = speaker.ask(&steps);
        assert_eq!((asked.state.as_str(), &asked.parts[..]), ("input-required", &[1, 2][..]), "{tongue:?}");
        let mut watch = speaker.watch(&asked.id);
        speaker.answer(&asked.id, "no");
        // The first frames are the task, an event for each artifact, or both for readers of unknown generation.
        let frames: Vec<Value> = watch.events.rest().iter().map(e2e::Frame::event).collect();
        let shown: Vec<usize> = frames.iter().flat_map(parts).collect();
        assert!(!shown.is_empty() && shown.chunks(2).all(|both| both == [1, 2]), "{tongue:?}: {shown:?} {frames:?}");
        if matches!(tongue, Tongue::V1 | Tongue::V1Rest) {
            assert_eq!(parts(&frames[0]), [1, 2], "{tongue:?}: {frames:?}");
        }
    }
}

#[test]
fn an_upstream_agent_keeps_the_borders_of_its_parts_and_its_chunks_are_one_text() {
    let upstream = Server::start(&[]);
    for ask in ["stream", "auto"] {
        let config = format!("agents:\n  far: {{ kind: a2a, url: '{}/a2a/scripted', ask: {ask} }}\n", upstream.url());
        let server = Server::options().config(&config).start();
        let steps = json!([
            { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 20 },
            { "artifact": { "name": "b", "parts": [{ "text": "one" }, { "text": "two" }] } },
            { "artifact": { "name": "c", "parts": [{ "text": "x" }, { "data": {} }, { "text": "y" }] }, "chunks": 2 },
            { "complete": "done" },
        ]);
        for round in 0..3 {
            let done = server.agent("far").send(script(steps.clone()));
            assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{ask} {round}: {done}");
            assert_eq!(parts(&done), [1, 2, 5], "{ask} {round}: {done}");
        }
    }
}
