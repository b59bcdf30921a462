//! The load of the chaos campaign: clients that connect through the balancer, are disconnected again and again, and
//! return to any replica.
//!
//! Each worker runs one story after the other, each to its end: a request without an answer is repeated with the
//! same `Idempotency-Key`, and a broken stream is resumed by `Last-Event-ID`. Answers are recorded, and must hold
//! for ever.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use e2e::fold::is_settled;
use e2e::seed::Random;
use e2e::{Client, Events, Frame, Next, Receiver, fresh_id, message, script, to_task};
use serde_json::{Value, json};

/// How long a client waits for a replica before it tries the next one.
const PATIENCE: Duration = Duration::from_millis(1_500);
/// Longest time of a story, with every fault that can happen.
const STORY: Duration = Duration::from_secs(120);

/// The acknowledged answers of a story.
#[derive(Debug)]
pub(crate) enum Told {
    /// A blocking send was answered with this task; it has settled.
    Settled { agent: &'static str, task: Value },
    /// A stream was read to its end over several connections: the frames of each, in order.
    Stream { readings: Vec<Vec<Frame>>, texts: Vec<String> },
    /// A task asked and was answered with these texts; each was acknowledged.
    Talk { task: Value, said: Vec<String> },
    /// A cancel was acknowledged; the task stays canceled.
    Canceled { id: String },
    /// A cancel came too late.
    Finished { id: String },
    /// A task with a webhook at this path.
    Pushed { id: String, path: String },
}

impl Told {
    /// How often readers saw that a turn restarted.
    pub(crate) fn taken_up(&self) -> usize {
        let Told::Stream { readings, .. } = self else { return 0 };
        readings.iter().flatten().filter(|frame| frame.data.contains("restarted")).count()
    }

    pub(crate) fn task(&self) -> (&'static str, &str) {
        match self {
            Told::Settled { agent, task } => (agent, task["id"].as_str().unwrap()),
            Told::Stream { readings, .. } => ("scripted", readings[0][0].task()),
            Told::Talk { task, .. } => ("scripted", task["id"].as_str().unwrap()),
            Told::Canceled { id } | Told::Finished { id } | Told::Pushed { id, .. } => ("scripted", id),
        }
    }
}

/// A worker's tools.
pub(crate) struct Desk<'a> {
    pub(crate) echo: Client,
    pub(crate) scripted: Client,
    pub(crate) receiver: &'a Receiver,
    pub(crate) random: Random,
    pub(crate) told: Vec<Told>,
    pub(crate) broken: &'a AtomicU64,
}

type Story = fn(&mut Desk<'_>);

/// The stories, each repeated by its own thread.
pub(crate) const STORIES: &[Story] = &[
    echo, stream, stream, stream, stream, stream, stream, stream, stream, talk, talk, cancel, cancel, pushed, pushed,
    pushed, pushed,
];

/// Most records of one worker: few enough to check one by one.
const MOST: usize = 250;

/// Runs stories until stopped. Keeps a random sample of their records.
pub(crate) fn work(mut desk: Desk<'_>, story: Story, stop: &AtomicBool) -> Vec<Told> {
    for number in 1.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        story(&mut desk);
        if desk.told.len() > MOST
            && let Some(newest) = desk.told.pop()
            && let Some(place) = desk.told.get_mut(usize::try_from(desk.random.between(0, number)).unwrap())
        {
            *place = newest;
        }
    }
    desk.told
}

impl Desk<'_> {
    /// Retries until there is an answer: a result, or an error about the request itself.
    fn ask(&self, client: &Client, method: &str, params: &Value) -> Result<Value, Value> {
        let started = Instant::now();
        loop {
            match client.within(PATIENCE).try_rpc(method, params.clone()) {
                Ok(Ok(result)) => return Ok(result),
                Ok(Err(error)) if is_passing(&error) => {}
                Ok(Err(error)) => return Err(error),
                Err(_) => {}
            }
            self.again(started, method);
        }
    }

    /// Another attempt, unless the time is up.
    fn again(&self, started: Instant, what: &str) {
        self.broken.fetch_add(1, Ordering::Relaxed);
        assert!(started.elapsed() < STORY, "{what} has found nobody to answer it for {STORY:?}");
        std::thread::sleep(Duration::from_millis(20));
    }

    /// A send that returns a task, with a key: a repeat has no second effect.
    fn send(&self, client: &Client, params: &Value) -> Value {
        let keyed = client.with("Idempotency-Key", &fresh_id());
        let result = self.ask(&keyed, "SendMessage", params).unwrap_or_else(|e| panic!("a good send was refused: {e}"));
        assert!(result["task"].is_object(), "expected a task: {result}");
        result["task"].clone()
    }

    /// A send that waits for its task. A replica that shuts down answers waiting callers with the task as it is;
    /// then this waits at another.
    fn send_and_wait(&self, client: &Client, params: &Value) -> Value {
        let task = self.send(client, params);
        let at_work = |state: &str| matches!(state, "TASK_STATE_SUBMITTED" | "TASK_STATE_WORKING");
        if !at_work(task["status"]["state"].as_str().unwrap()) {
            return task;
        }
        self.wait_for(client, task["id"].as_str().unwrap(), |state| !at_work(state))
    }

    /// The task, on any replica; it must exist.
    fn look(&self, client: &Client, id: &str) -> Value {
        self.ask(client, "GetTask", &json!({ "id": id }))
            .unwrap_or_else(|error| panic!("{id} was told, and is gone: {error}"))
    }

    fn wait_for(&self, client: &Client, id: &str, wanted: impl Fn(&str) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let task = self.look(client, id);
            if wanted(task["status"]["state"].as_str().unwrap()) {
                return task;
            }
            assert!(started.elapsed() < STORY, "{id} has been {} for {STORY:?}", task["status"]);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// An error that means: try again later.
pub(crate) fn is_passing(error: &Value) -> bool {
    error["code"] == -32053
}

/// A message and its echo. Read again at once, on any replica, the task is no older than the answer.
fn echo(desk: &mut Desk<'_>) {
    let task = desk.send_and_wait(&desk.echo, &json!({ "message": message(&fresh_id()) }));
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    let read = desk.look(&desk.echo, task["id"].as_str().unwrap());
    assert_eq!((&read["status"], &read["artifacts"]), (&task["status"], &task["artifacts"]), "read your writes");
    desk.told.push(Told::Settled { agent: "echo", task });
}

/// Chunks over some time, read to the end over as many connections as needed.
fn stream(desk: &mut Desk<'_>) {
    let (steps, texts) = chunks(&mut desk.random);
    let params = json!({ "message": script(steps) });
    let keyed = desk.scripted.with("Idempotency-Key", &fresh_id()).within(PATIENCE);
    let started = Instant::now();
    let mut readings: Vec<Vec<Frame>> = Vec::new();
    loop {
        let last = readings.iter().flatten().last().map(|frame| frame.position());
        let opened = match last {
            None => keyed.try_stream("SendStreamingMessage", params.clone()),
            Some((id, seq)) => {
                let back = desk.scripted.with("Last-Event-ID", &format!("{id}.{seq}")).within(PATIENCE);
                back.try_stream("SubscribeToTask", json!({ "id": id }))
            }
        };
        let mut frames = Vec::new();
        match opened {
            Ok(Ok(events)) => read(events, &mut frames),
            Ok(Err(error)) if is_passing(&error) => {}
            Ok(Err(error)) => panic!("a good stream was refused after {last:?}: {error}"),
            Err(_) => {}
        }
        if !frames.is_empty() {
            readings.push(frames);
        }
        if readings.iter().flatten().last().and_then(Frame::state).is_some_and(|state| is_settled(&state)) {
            desk.told.push(Told::Stream { readings, texts });
            return;
        }
        desk.again(started, "a stream");
    }
}

/// Reads a stream to its end or break. A stream that is silent for long may be a paused replica's: it is abandoned.
fn read(mut events: Events, frames: &mut Vec<Frame>) {
    loop {
        match events.next_within(PATIENCE) {
            Ok(Next::Frame(frame)) => {
                if frame.id.is_none() {
                    // Not an event: the server reports why the stream ends.
                    return;
                }
                frames.push(frame);
            }
            Ok(Next::End | Next::Quiet) | Err(_) => return,
        }
    }
}

/// A script of one or two chunked artifacts over some time, retried after a crash; and their final texts.
fn chunks(random: &mut Random) -> (Value, Vec<String>) {
    let mut steps = vec![json!({ "restart": "retry" }), json!({ "status": "working", "text": "at it" })];
    let mut texts = Vec::new();
    for ordinal in 0..random.between(1, 3) {
        let text = format!("{ordinal}:{} ", fresh_id());
        let count = random.between(1, 50);
        steps.push(json!({
            "artifact": { "name": format!("artifact {ordinal}"), "parts": [{ "text": text }] },
            "chunks": count,
            "every_ms": random.between(0, 40),
        }));
        texts.push(text.repeat(usize::try_from(count).unwrap()));
    }
    steps.push(json!({ "complete": "done" }));
    (Value::Array(steps), texts)
}

/// A question and an answer, a few times, each on any replica.
fn talk(desk: &mut Desk<'_>) {
    let rounds = desk.random.between(1, 4);
    let mut steps = vec![json!({ "restart": "retry" })];
    for round in 0..rounds {
        steps.push(json!({ "input": format!("and {round}?") }));
        steps.push(json!({ "sleep_ms": desk.random.between(0, 200) }));
    }
    steps.push(json!({ "complete": "done" }));
    let scripted = desk.scripted.clone();
    let mut task = desk.send_and_wait(&scripted, &json!({ "message": script(Value::Array(steps)) }));
    let id = task["id"].as_str().unwrap().to_owned();
    let mut said = Vec::new();
    for round in 0..rounds {
        let read = desk.look(&scripted, &id);
        assert_eq!(read["status"], task["status"], "round {round}: read your writes");
        assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
        let words = format!("{round}: {}", fresh_id());
        task = desk.send_and_wait(&scripted, &json!({ "message": to_task(message(&words), &id) }));
        said.push(words);
    }
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    desk.told.push(Told::Talk { task, said });
}

/// A long task that is canceled on any replica.
fn cancel(desk: &mut Desk<'_>) {
    let scripted = desk.scripted.clone();
    let steps =
        json!([{ "restart": "retry" }, { "status": "working" }, { "sleep_ms": 20_000 }, { "complete": "done" }]);
    let params = json!({ "message": script(steps), "configuration": { "returnImmediately": true } });
    let task = desk.send(&scripted, &params);
    let id = task["id"].as_str().unwrap().to_owned();
    if desk.random.chance(50) {
        desk.wait_for(&scripted, &id, |state| state == "TASK_STATE_WORKING" || is_settled(state));
    }
    desk.told.push(match desk.ask(&scripted, "CancelTask", &json!({ "id": id })) {
        Ok(task) if task["status"]["state"] == "TASK_STATE_CANCELED" => Told::Canceled { id },
        Ok(task) => {
            // Its agent was asked to stop and has not yet: it will.
            assert!(!is_settled(task["status"]["state"].as_str().unwrap()), "{task}");
            let task = desk.wait_for(&scripted, &id, is_settled);
            assert_eq!(task["status"]["state"], "TASK_STATE_CANCELED", "a cancel that was taken: {task}");
            Told::Canceled { id }
        }
        // An earlier attempt was accepted without an answer, or the task had ended before.
        Err(error) => {
            assert_eq!(error["code"], -32002, "{error}");
            Told::Finished { id }
        }
    });
}

/// A task whose events go to a webhook.
fn pushed(desk: &mut Desk<'_>) {
    let (steps, _) = chunks(&mut desk.random);
    let path = format!("/{}", fresh_id());
    let config = json!({ "id": "hook", "url": desk.receiver.url(&path), "token": "tok" });
    let configuration = json!({ "returnImmediately": true, "taskPushNotificationConfig": config });
    let scripted = desk.scripted.clone();
    let task = desk.send(&scripted, &json!({ "message": script(steps), "configuration": configuration }));
    let id = task["id"].as_str().unwrap().to_owned();
    desk.wait_for(&scripted, &id, is_settled);
    desk.told.push(Told::Pushed { id, path });
}

/// A stream's frames after `seq`, preceded by the task as of `seq`.
pub(crate) fn replay(client: &Client, id: &str, seq: u64) -> io::Result<Vec<Frame>> {
    let back = client.with("Last-Event-ID", &format!("{id}.{seq}"));
    let mut events = back
        .try_stream("SubscribeToTask", json!({ "id": id }))?
        .unwrap_or_else(|error| panic!("{id}.{seq} was told, and is gone: {error}"));
    let mut frames = Vec::new();
    while let Some(frame) = events.try_next()? {
        frames.push(frame);
    }
    Ok(frames)
}
