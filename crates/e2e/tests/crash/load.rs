//! The load of a round: one worker for each kind of call, which records the server's answers.
//!
//! A worker ends when its connection breaks, at the kill; the server must keep everything it answered until then.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

use e2e::seed::Random;
use e2e::{Client, Frame, Server, fresh_id, message, script, send, to_task};
use serde_json::{Value, json};

/// How an unfinished turn continues after a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    Fail,
    Retry,
}

/// An answer that a client received, or a request without an answer.
#[derive(Debug)]
pub(crate) enum Told {
    /// A blocking send was answered with this task; it has settled.
    Settled { agent: &'static str, task: Value },
    /// A send was answered with this task, waiting for input.
    Idle { task: Value },
    /// A send was answered before its task had settled.
    Immediate { agent: &'static str, task: Value, rule: Rule, text: String },
    /// These frames of a stream were read; if the task completes, its artifacts have these texts.
    Stream { frames: Vec<Frame>, ended: bool, rule: Rule, texts: Vec<String> },
    /// A call on this task was interrupted: after the crash the task rests in one of these states.
    Cut { task: String, rest: &'static [&'static str] },
    /// A task of the first generation by its caller's id: it contains these user messages, then perhaps the one
    /// that was being sent.
    Alias { id: String, said: Vec<String>, sending: Option<String> },
    /// These frames of a 0.3 stream were read.
    Older { frames: Vec<Frame>, ended: bool },
    /// A send with a key; the id of its task, if it was answered.
    Keyed { key: String, params: Value, task: Option<String> },
}

/// Most calls of one worker in a round: enough for any moment, few enough to check one by one.
const MOST: usize = 250;

/// A worker's tools.
struct Desk<'a> {
    echo: Client,
    scripted: Client,
    random: Random,
    promises: &'a AtomicU64,
    stop: &'a AtomicBool,
    told: Vec<Told>,
}

type Worker = fn(&mut Desk<'_>) -> io::Result<()>;

/// One call of each kind, repeated by its own thread.
const WORKERS: &[Worker] = &[
    echo,
    echo,
    retried_stream,
    retried_stream,
    failed_stream,
    failed_stream,
    question,
    immediate,
    keyed,
    answer,
    cancel,
    alias,
    older_stream,
];

/// Starts all workers of a round. They end when the server does.
pub(crate) fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    server: &Server,
    random: &mut Random,
    promises: &'scope AtomicU64,
    stop: &'scope AtomicBool,
) -> Vec<ScopedJoinHandle<'scope, Vec<Told>>> {
    WORKERS
        .iter()
        .map(|worker| {
            let mut desk = Desk {
                echo: server.agent("echo"),
                scripted: server.agent("scripted"),
                random: random.fork(),
                promises,
                stop,
                told: Vec::new(),
            };
            scope.spawn(move || {
                // After its share a worker continues without recording, so that the load stays mixed to the end.
                while !desk.stop.load(Ordering::Relaxed) && worker(&mut desk).is_ok() {
                    desk.told.truncate(MOST);
                }
                desk.told
            })
        })
        .collect()
}

impl Desk<'_> {
    fn promised(&self) {
        self.promises.fetch_add(1, Ordering::Relaxed);
    }

    /// A send that must be answered with a task, if it is answered at all.
    fn send(&self, client: &Client, params: Value) -> io::Result<Value> {
        let result =
            client.try_rpc("SendMessage", params)?.unwrap_or_else(|error| panic!("a good send was refused: {error}"));
        assert!(result["task"].is_object(), "expected a task: {result}");
        self.promised();
        Ok(result["task"].clone())
    }

    /// Reads a stream to its end or break, and records its frames.
    fn stream(&mut self, steps: Value, rule: Rule, texts: Vec<String>) -> io::Result<()> {
        let mut frames = Vec::new();
        let outcome = self.read(steps, &mut frames);
        let ended = matches!(outcome, Ok(()));
        if !frames.is_empty() {
            self.told.push(Told::Stream { frames, ended, rule, texts });
        }
        outcome
    }

    fn read(&self, steps: Value, frames: &mut Vec<Frame>) -> io::Result<()> {
        let mut events = self
            .scripted
            .try_stream("SendStreamingMessage", send(script(steps)))?
            .unwrap_or_else(|error| panic!("a good stream was refused: {error}"));
        while let Some(frame) = events.try_next()? {
            frames.push(frame);
            self.promised();
        }
        Ok(())
    }
}

fn echo(desk: &mut Desk<'_>) -> io::Result<()> {
    let task = desk.send(&desk.echo, send(message(&fresh_id())))?;
    desk.told.push(Told::Settled { agent: "echo", task });
    Ok(())
}

fn question(desk: &mut Desk<'_>) -> io::Result<()> {
    let steps = json!([{ "input": "well?" }, { "complete": "good" }]);
    let task = desk.send(&desk.scripted, send(script(steps)))?;
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    desk.told.push(Told::Idle { task });
    Ok(())
}

fn immediate(desk: &mut Desk<'_>) -> io::Result<()> {
    let text = fresh_id();
    let chosen = desk.random.chance(50);
    let (client, agent, rule, message) = if chosen {
        (&desk.echo, "echo", Rule::Retry, message(&text))
    } else {
        let steps = json!([
            { "restart": "fail" },
            { "status": "working" },
            { "sleep_ms": desk.random.between(0, 30) },
            { "artifact": { "name": "said", "parts": [{ "text": text }] } },
        ]);
        (&desk.scripted, "scripted", Rule::Fail, script(steps))
    };
    let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
    let task = desk.send(client, params)?;
    desk.told.push(Told::Immediate { agent, task, rule, text });
    Ok(())
}

fn keyed(desk: &mut Desk<'_>) -> io::Result<()> {
    let key = fresh_id();
    let params = send(message(&format!("keyed {key}")));
    let client = desk.echo.with("Idempotency-Key", &key);
    let outcome = desk.send(&client, params.clone());
    let task = outcome.as_ref().ok().and_then(|task| task["id"].as_str().map(str::to_owned));
    desk.told.push(Told::Keyed { key, params, task });
    outcome.map(|_| ())
}

/// A question, answered at once; the kill may come at any point.
fn answer(desk: &mut Desk<'_>) -> io::Result<()> {
    let steps = json!([{ "input": "well?" }, { "status": "working" }, { "sleep_ms": 3 }, { "complete": "good" }]);
    let question = desk.send(&desk.scripted, send(script(steps)))?;
    let id = question["id"].as_str().unwrap().to_owned();
    let outcome = desk.send(&desk.scripted, send(to_task(message("fine"), &id)));
    desk.told.push(match &outcome {
        Ok(task) => Told::Settled { agent: "scripted", task: task.clone() },
        Err(_) => {
            let rest = &["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"];
            Told::Cut { task: id, rest }
        }
    });
    outcome.map(|_| ())
}

/// A task that hangs until it is canceled.
fn cancel(desk: &mut Desk<'_>) -> io::Result<()> {
    let steps = json!([{ "status": "working" }, { "hang": true }]);
    let params = json!({ "message": script(steps), "configuration": { "returnImmediately": true } });
    let task = desk.send(&desk.scripted, params)?;
    let id = task["id"].as_str().unwrap().to_owned();
    let outcome = desk.scripted.try_rpc("CancelTask", json!({ "id": id }));
    desk.told.push(match &outcome {
        Ok(Ok(task)) => Told::Settled { agent: "scripted", task: task.clone() },
        Ok(Err(error)) => panic!("a hanging task could not be canceled: {error}"),
        Err(_) => Told::Cut { task: id, rest: &["TASK_STATE_CANCELED", "TASK_STATE_FAILED"] },
    });
    desk.promised();
    outcome.map(|_| ())
}

fn retried_stream(desk: &mut Desk<'_>) -> io::Result<()> {
    let (mut steps, texts) = chunks(&mut desk.random);
    steps.insert(0, json!({ "restart": "retry" }));
    desk.stream(Value::Array(steps), Rule::Retry, texts)
}

fn failed_stream(desk: &mut Desk<'_>) -> io::Result<()> {
    let (mut steps, texts) = chunks(&mut desk.random);
    steps.insert(0, json!({ "restart": "fail" }));
    desk.stream(Value::Array(steps), Rule::Fail, texts)
}

/// A script of one to three chunked artifacts, and their final texts.
fn chunks(random: &mut Random) -> (Vec<Value>, Vec<String>) {
    let mut steps = vec![json!({ "status": "working", "text": "at it" })];
    let mut texts = Vec::new();
    for ordinal in 0..random.between(1, 4) {
        let mut text = format!("{ordinal}:{} ", fresh_id());
        let mut count = random.between(1, 60);
        // Sometimes parts so large that a store keeps them outside its log.
        if random.chance(5) {
            text = text.repeat(5000);
            count = count.min(4);
        }
        steps.push(json!({
            "artifact": { "name": format!("artifact {ordinal}"), "parts": [{ "text": text }] },
            "chunks": count,
            "every_ms": random.between(0, 4),
        }));
        texts.push(text.repeat(usize::try_from(count).unwrap()));
    }
    steps.push(json!({ "complete": "done" }));
    (steps, texts)
}

/// One id repeatedly: a question, then answers that are questions too.
fn alias(desk: &mut Desk<'_>) -> io::Result<()> {
    let client = desk.scripted.without("A2A-Version");
    let id = fresh_id();
    let mut said = Vec::new();
    for _ in 0..desk.random.between(1, 4) {
        let words = format!("ask: {}?", fresh_id());
        let message = json!({ "role": "user", "parts": [{ "type": "text", "text": words }] });
        let outcome = client.try_rpc("tasks/send", json!({ "id": id, "message": message }));
        match outcome {
            Ok(answer) => {
                let task = answer.unwrap_or_else(|error| panic!("a good send was refused: {error}"));
                assert_eq!((&task["id"], &task["status"]["state"]), (&json!(id), &json!("input-required")), "{task}");
                desk.promised();
                said.push(words);
            }
            Err(error) => {
                desk.told.push(Told::Alias { id, said, sending: Some(words) });
                return Err(error);
            }
        }
    }
    desk.told.push(Told::Alias { id, said, sending: None });
    Ok(())
}

/// A stream as a 0.3 client reads it.
fn older_stream(desk: &mut Desk<'_>) -> io::Result<()> {
    let client = desk.scripted.with("A2A-Version", "0.3");
    let steps = json!([
        { "status": "working" },
        { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": desk.random.between(2, 20), "every_ms": 1 },
        { "complete": "done" },
    ]);
    let parts = json!([{ "kind": "data", "data": { "script": steps } }]);
    let message = json!({ "kind": "message", "messageId": fresh_id(), "role": "user", "parts": parts });
    let mut frames = Vec::new();
    let outcome = client.try_stream("message/stream", send(message)).and_then(|events| {
        let mut events = events.unwrap_or_else(|error| panic!("a good stream was refused: {error}"));
        while let Some(frame) = events.try_next()? {
            frames.push(frame);
            desk.promised();
        }
        Ok(())
    });
    if !frames.is_empty() {
        desk.told.push(Told::Older { frames, ended: outcome.is_ok() });
    }
    outcome
}
