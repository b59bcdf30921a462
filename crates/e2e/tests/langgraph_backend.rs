//! A real graph server behind Rialto: `clients/langgraph` is served by its vendor's program, and called through
//! A2A.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use e2e::fold::text_of;
use e2e::http::{Connection, Request};
use e2e::poll::PATIENCE;
use e2e::server::free_address;
use e2e::{Client, Fold, Server, message, parts, send, setup, to_task, until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The text that the echo graph streams slowly.
const WORDS: &str = "one two three four five six seven eight nine ten";

/// A graph server; it ends with the value.
struct Peer {
    child: Child,
    addr: SocketAddr,
    folder: TempDir,
}

impl Peer {
    fn start() -> Peer {
        let python = setup::ensure("langgraph/.venv/.stamp").with_file_name("bin/python");
        let folder = tempfile::tempdir().unwrap();
        let addr = free_address();
        let log = File::create(folder.path().join("log")).unwrap();
        let child = Command::new(python)
            .arg(setup::clients().join("langgraph/serve.py"))
            .arg(addr.port().to_string())
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stderr(log.try_clone().unwrap())
            .stdout(log)
            .spawn()
            .unwrap();
        let peer = Peer { child, addr, folder };
        until("the graph server is ready", PATIENCE, || peer.try_get("/ok").map(drop));
        peer
    }

    /// One instance for all tests that do not change it, while any of them runs.
    fn shared() -> Arc<Peer> {
        static SHARED: Mutex<Weak<Peer>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shared.upgrade().unwrap_or_else(|| {
            let peer = Arc::new(Peer::start());
            *shared = Arc::downgrade(&peer);
            peer
        })
    }

    fn try_get(&self, path: &str) -> Option<Value> {
        let response = Connection::open(self.addr).ok()?.exchange(&Request::new("GET", path)).ok()?;
        (response.status() == 200).then(|| response.json())
    }

    /// The states of a thread's runs, newest first.
    fn runs(&self, thread: &str) -> Vec<String> {
        let runs = self.try_get(&format!("/threads/{thread}/runs")).unwrap_or_default();
        runs.as_array().into_iter().flatten().map(|run| run["status"].as_str().unwrap().to_owned()).collect()
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Rialto in front of it, with an agent for each graph.
    fn rialto(&self) -> Server {
        let agent = |graph: &str| {
            format!("  {graph}: {{ kind: langgraph, url: 'http://{}', assistant: {graph}, retry_ms: 50 }}\n", self.addr)
        };
        Server::options().config(&format!("agents:\n{}{}{}", agent("echo"), agent("ask"), agent("two"))).start()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("--- the graph server said ---\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
    }
}

/// A context id that is a valid thread id.
fn fresh_context() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    format!("{:08x}-0000-4000-8000-{:012x}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

fn within(mut message: Value, context: &str) -> Value {
    message["contextId"] = json!(context);
    message
}

/// The text of the artifact of that name.
fn artifact<'a>(task: &'a Value, name: &str) -> &'a Value {
    let artifacts = task["artifacts"].as_array().unwrap_or_else(|| panic!("artifacts: {task}"));
    artifacts.iter().find(|artifact| artifact["name"] == name).unwrap_or_else(|| panic!("{name}: {task}"))
}

fn response(task: &Value) -> String {
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    text_of(&artifact(task, "Assistant Response")["parts"])
}

/// The open questions of a task: their ids, and what they ask.
fn questions(task: &Value) -> Vec<(String, String)> {
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    let parts = artifact(task, "Interrupt")["parts"].as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    parts.iter().map(|part| (text(&part["data"]["id"]), text(&part["data"]["value"]["question"]))).collect()
}

/// A message to a task, and the task after it.
fn answer(agent: &Client, task: &Value, message: Value) -> Value {
    agent.send(to_task(message, task["id"].as_str().unwrap()))
}

/// Starts the slow text; returns the task once its first words have arrived.
fn begun(agent: &Client, context: &str) -> String {
    let mut events = agent.stream("SendStreamingMessage", send(within(message("slowly"), context))).unwrap();
    let frames = events.take_until(|frame| frame.event()["artifactUpdate"].is_object());
    frames.last().unwrap().task().to_owned()
}

#[test]
fn a_graph_s_words_stream_and_its_thread_is_the_context() {
    let peer = Peer::shared();
    let server = peer.rialto();
    let (agent, context) = (server.agent("echo"), fresh_context());
    let hello = within(parts(json!([{"text": "hello"}, {"data": {"locale": "en-US"}}])), &context);
    let frames = agent.stream("SendStreamingMessage", send(hello)).unwrap().rest();
    let chunks = frames.iter().filter(|frame| frame.event()["artifactUpdate"].is_object()).count();
    assert!(chunks > 1, "{chunks} chunks");
    let texts = Fold::of_frames(&frames).texts();
    assert_eq!(texts.into_values().collect::<Vec<_>>(), ["You said: hello (1, en-US)"]);
    let task = agent.task(frames[0].task());
    assert_eq!(artifact(&task, "Assistant Response")["description"], "Response from assistant echo");
    assert_eq!(task["metadata"]["usage"]["total_tokens"], 7, "{task}");
    // The graph remembers, since the context is its thread.
    assert_eq!(response(&agent.send(within(message("again"), &context))), "You said: again (2, en-US)");
    assert_eq!(peer.runs(&context), ["success", "success"]);
    assert_eq!(response(&agent.send(message("elsewhere"))), "You said: elsewhere (1, no locale)");
}

#[test]
fn a_graph_that_asks_is_answered() {
    let peer = Peer::shared();
    let server = peer.rialto();
    let agent = server.agent("ask");
    let asked = agent.send(message("go"));
    assert_eq!(questions(&asked).len(), 1);
    assert_eq!(text_of(&asked["status"]["message"]["parts"]), "colour?");
    assert_eq!(response(&answer(&agent, &asked, message("blue"))), r#"{"colour": "blue"}"#);
    let asked = agent.send(message("go"));
    let resume = parts(json!([{"data": {"resume": {"shade": 7}}}]));
    assert_eq!(response(&answer(&agent, &asked, resume)), r#"{"colour": {"shade": 7}}"#);
}

#[test]
fn parallel_questions_are_answered_at_once_or_one_by_one() {
    let peer = Peer::shared();
    let server = peer.rialto();
    let agent = server.agent("two");
    // Concurrent nodes ask in any order.
    let by_name = |open: &[(String, String)], name: &str| {
        let (id, _) = open.iter().find(|(_, says)| says == name).unwrap_or_else(|| panic!("{name}: {open:?}"));
        id.clone()
    };
    let asked = agent.send(message("go"));
    let open = questions(&asked);
    assert_eq!(open.len(), 2);
    let (month, people) = (by_name(&open, "month?"), by_name(&open, "people?"));
    let resume = json!([{"id": people, "value": 2}, {"id": month, "value": {"choice": "May"}}]);
    let answered = answer(&agent, &asked, parts(json!([{"data": {"resume": resume}}])));
    assert_eq!(response(&answered), r#"{"month": {"choice": "May"}, "people": 2}"#);
    let asked = agent.send(message("go"));
    let open = questions(&asked);
    let resume = json!({by_name(&open, "people?"): 3});
    let asked = answer(&agent, &asked, parts(json!([{"data": {"resume": resume}}])));
    assert_eq!(questions(&asked), [(by_name(&open, "month?"), "month?".to_owned())], "under the same id");
    assert_eq!(response(&answer(&agent, &asked, message("June"))), r#"{"month": "June", "people": 3}"#);
}

#[test]
fn a_graph_that_fails_fails_the_task() {
    let peer = Peer::shared();
    let server = peer.rialto();
    let task = server.agent("echo").send(message("fail"));
    assert_eq!(task["status"]["state"], "TASK_STATE_FAILED");
    assert_eq!(text_of(&task["status"]["message"]["parts"]), "Error executing assistant: out of paper");
}

#[test]
fn a_cancel_stops_the_run() {
    let peer = Peer::shared();
    let server = peer.rialto();
    let (agent, context) = (server.agent("echo"), fresh_context());
    let task = agent.open(within(message("wait"), &context));
    until("the graph runs", PATIENCE, || (peer.runs(&context) == ["running"]).then_some(()));
    let canceled = agent.rpc("CancelTask", json!({"id": task["id"]})).unwrap();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
    until("the run has stopped", PATIENCE, || (peer.runs(&context) == ["interrupted"]).then_some(()));
}

#[test]
fn a_run_goes_on_while_rialto_is_dead_and_is_found_again() {
    let peer = Peer::shared();
    let mut server = peer.rialto();
    let context = fresh_context();
    let task = begun(&server.agent("echo"), &context);
    server.restart();
    assert_eq!(response(&server.agent("echo").settled(&task)), WORDS);
    assert_eq!(peer.runs(&context), ["success"], "no second run");
}

#[test]
fn a_graph_server_that_dies_fails_the_task_and_hangs_nobody() {
    let mut peer = Peer::start();
    let server = peer.rialto();
    let agent = server.agent("echo");
    let task = begun(&agent, &fresh_context());
    peer.kill();
    let task = agent.settled(&task);
    assert_eq!(task["status"]["state"], "TASK_STATE_FAILED", "{task}");
    let says = text_of(&task["status"]["message"]["parts"]);
    assert_eq!(says, "the graph server could not be reached");
}
