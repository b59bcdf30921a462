//! The load client: A2A 1.0 over JSON-RPC or gRPC, a fixed number of connections, every answer checked. Prints one line of
//! JSON.
//!
//! ```text
//! load send|get|list|stream|idle|sub|tokens|chat|buy --url URL [--c 64] [--n COUNT] [--seconds S] [--text TEXT]
//!      [--grpc CALLS]        send, stream, idle, sub: over gRPC, so many calls at a time on each connection
//!      [--rate R]            at most so many requests a second, evenly spaced
//!      [--push URL]          send: with a webhook there
//!      [--ids FILE]          send: write the tasks' ids there; get: read them from there (each once with --n 0)
//!      [--context ID | --per-context K]   send: all in one context, or K tasks in each
//!      [--params JSON] [--total T]        list: the params, and the totalSize that must come back
//!      [--events E]          stream: how many events each must have
//!      [--tokens T]          tokens, chat: how many tokens each stream has
//!      [--people FILE]       buy: who buys what from whom, a line of JSON each
//! ```
//!
//! `idle` opens COUNT streams with a task each, `sub` COUNT subscriptions of one task; both print a line when all are
//! open, hold them until standard input ends, and print how many were still alive then. Over JSON-RPC each has a connection.
//!
//! `tokens` reads streams of an agent behind which is `model`, `chat` the same of the model itself; both say how long after
//! its sending a token came.
//!
//! `buy` makes purchases of the market whole, from order to settlement; the url is that of its REST.

mod grpc;
mod http;
mod purchases;
mod tokens;

use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use std::{cell::Cell, cell::RefCell};

use memchr::memmem::find;
use serde_json::{Value, json};

use grpc::{Call, Channel};
use http::{Connection, Target};

const STREAM: &str = "text/event-stream";
const PLAIN: &str = "application/json";

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Send,
    Get,
    List,
    Stream,
}

struct Plan {
    mode: Mode,
    target: Target,
    run: String,
    text: String,
    context: Option<String>,
    per_context: u64,
    params: String,
    total: Option<u64>,
    events: Option<u64>,
    ids: Vec<String>,
    collect: bool,
    wanted: u64,
    until: Option<Instant>,
    push: Option<String>,
    /// Between two requests, where a rate is given.
    pace: Option<Duration>,
    began: Instant,
    begun: Cell<u64>,
    seen: RefCell<Seen>,
}

#[derive(Default)]
struct Seen {
    micros: Vec<f64>,
    first: Vec<f64>,
    bytes: u64,
    events: u64,
    errors: HashMap<String, u64>,
    ids: Vec<String>,
}

/// The connection of a worker: its own, or one of gRPC that it shares.
enum Line {
    Http(Option<Connection>),
    Grpc(Rc<Channel>),
}

impl Plan {
    /// The number of the next request, while there is one.
    fn next(&self) -> Option<u64> {
        let number = self.begun.get();
        let over = number >= self.wanted || self.until.is_some_and(|until| Instant::now() >= until);
        (!over).then(|| {
            self.begun.set(number + 1);
            number
        })
    }

    fn message(&self, number: u64) -> String {
        let context = match (&self.context, self.per_context) {
            (Some(context), _) => format!(r#","contextId":"{context}""#),
            (None, 0) => String::new(),
            (None, each) => format!(r#","contextId":"context-{}""#, number / each),
        };
        let (run, text) = (&self.run, &self.text);
        format!(r#"{{"messageId":"{run}-{number}"{context},"role":"ROLE_USER","parts":[{{"text":"{text}"}}]}}"#)
    }

    fn body(&self, number: u64) -> String {
        let (method, params) = match self.mode {
            Mode::Send => {
                let push = self.push.as_ref().map_or(String::new(), |url| {
                    format!(r#","configuration":{{"taskPushNotificationConfig":{{"url":"{url}","token":"t"}}}}"#)
                });
                ("SendMessage", format!(r#"{{"message":{}{push}}}"#, self.message(number)))
            }
            Mode::Stream => ("SendStreamingMessage", format!(r#"{{"message":{}}}"#, self.message(number))),
            Mode::Get => ("GetTask", format!(r#"{{"id":"{}"}}"#, self.ids[number as usize % self.ids.len()])),
            Mode::List => ("ListTasks", self.params.clone()),
        };
        format!(r#"{{"jsonrpc":"2.0","id":"{number}","method":"{method}","params":{params}}}"#)
    }

    async fn once(&self, connection: &mut Connection, number: u64, body: &mut Vec<u8>) -> Result<(), String> {
        let accept = if self.mode == Mode::Stream { STREAM } else { PLAIN };
        let began = Instant::now();
        let status = connection.post(accept, &self.body(number)).await?;
        body.clear();
        if self.mode == Mode::Stream && status == 200 {
            connection.some(body).await?;
            self.seen.borrow_mut().first.push(began.elapsed().as_secs_f64() * 1e6);
        }
        connection.all(body).await?;
        let micros = began.elapsed().as_secs_f64() * 1e6;
        self.check(status, body).map_err(|why| format!("{why}: {status} {}", excerpt(body)))?;
        let mut seen = self.seen.borrow_mut();
        seen.micros.push(micros);
        seen.bytes += body.len() as u64;
        if self.collect {
            seen.ids.push(between(body, br#""task":{"id":""#, b'"').ok_or("no task id")?);
        }
        Ok(())
    }

    async fn call(&self, channel: &Channel, number: u64) -> Result<(), String> {
        let method = if self.mode == Mode::Stream { "SendStreamingMessage" } else { "SendMessage" };
        let began = Instant::now();
        let request = grpc::send_request(&format!("{}-{number}", self.run), &self.text);
        let mut call = channel.call(method, &request).await?;
        let (mut events, mut bytes, mut completed, mut first) = (0, 0, false, None);
        while let Some(message) = call.message().await? {
            first.get_or_insert_with(|| began.elapsed());
            events += 1;
            bytes += message.len() as u64;
            let task = grpc::task(&message);
            completed |= match self.mode {
                Mode::Stream => task.or(grpc::status_update(&message)).is_some_and(grpc::is_completed),
                _ => task.is_some_and(|task| grpc::is_completed(task) && grpc::has_artifact(task)),
            };
        }
        let micros = began.elapsed().as_secs_f64() * 1e6;
        if !completed {
            return Err(format!("not completed after {events} messages"));
        }
        let wanted = if self.mode == Mode::Stream { self.events } else { Some(1) };
        if wanted.is_some_and(|wanted| wanted != events) {
            return Err(format!("{events} messages"));
        }
        let mut seen = self.seen.borrow_mut();
        seen.micros.push(micros);
        seen.bytes += bytes;
        if self.mode == Mode::Stream {
            seen.events += events;
            seen.first.extend(first.map(|first| first.as_secs_f64() * 1e6));
        }
        Ok(())
    }

    fn check(&self, status: u16, body: &[u8]) -> Result<(), String> {
        if status != 200 {
            return Err("status".to_owned());
        }
        match self.mode {
            Mode::Send | Mode::Get => {
                let completed = find(body, b"TASK_STATE_COMPLETED").is_some() && find(body, b"\"artifacts\"").is_some();
                completed.then_some(()).ok_or("not completed".to_owned())
            }
            Mode::List => {
                let total = between(body, br#""totalSize":"#, b'}').and_then(|text| text.parse().ok());
                let wrong = total.is_none() || self.total.is_some_and(|wanted| Some(wanted) != total);
                if wrong { Err(format!("totalSize {total:?}")) } else { Ok(()) }
            }
            Mode::Stream => {
                let events = memchr::memmem::find_iter(body, b"data: ").count() as u64;
                self.seen.borrow_mut().events += events;
                if find(body, b"TASK_STATE_COMPLETED").is_none() {
                    return Err(format!("not completed after {events} events"));
                }
                match self.events {
                    Some(wanted) if wanted != events => Err(format!("{events} events")),
                    _ => Ok(()),
                }
            }
        }
    }

    async fn work(self: Rc<Self>, mut line: Line) {
        let mut body = Vec::new();
        while let Some(number) = self.next() {
            if let Some(pace) = self.pace {
                let due = self.began + pace.mul_f64(number as f64);
                tokio::time::sleep_until(due.into()).await;
            }
            let outcome = async {
                let connection = match &mut line {
                    Line::Http(connection) => connection,
                    Line::Grpc(channel) => return self.call(channel, number).await,
                };
                let mut open = match connection.take() {
                    Some(open) => open,
                    None => Connection::open(&self.target).await?,
                };
                self.once(&mut open, number, &mut body).await?;
                *connection = Some(open);
                Ok::<(), String>(())
            };
            let error = match tokio::time::timeout(Duration::from_secs(120), outcome).await {
                Ok(Ok(())) => continue,
                Ok(Err(error)) => error,
                Err(_) => "no answer in 120 s".to_owned(),
            };
            let mut seen = self.seen.borrow_mut();
            *seen.errors.entry(error).or_default() += 1;
            if seen.errors.values().sum::<u64>() > 1000 {
                break;
            }
        }
    }
}

fn excerpt(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned()
}

/// The text between `mark` and `end`.
fn between(body: &[u8], mark: &[u8], end: u8) -> Option<String> {
    let from = find(body, mark)? + mark.len();
    let length = memchr::memchr(end, &body[from..])?;
    String::from_utf8(body[from..from + length].to_vec()).ok()
}

fn percentile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get(((sorted.len() as f64 * part) as usize).min(last)).copied()
}

/// Nanoseconds that this process, which has one thread, was on a core.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    stat.split(' ').next().and_then(|spent| spent.parse().ok()).unwrap_or(0)
}

fn flag(name: &str) -> Option<String> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)
}

fn number(name: &str) -> Option<u64> {
    flag(name).map(|text| text.parse().unwrap_or_else(|_| panic!("{name} wants a number")))
}

fn report(plan: &Plan, connections: u64, seconds: f64) -> Value {
    let mut seen = plan.seen.borrow_mut();
    let ok = seen.micros.len();
    let mean = seen.micros.iter().sum::<f64>() / ok.max(1) as f64;
    seen.micros.sort_by(f64::total_cmp);
    seen.first.sort_by(f64::total_cmp);
    json!({
        "c": connections, "ok": ok, "seconds": seconds, "rps": ok as f64 / seconds, "mean_us": mean,
        "p50_us": percentile(&seen.micros, 0.5), "p99_us": percentile(&seen.micros, 0.99),
        "first_p50_us": percentile(&seen.first, 0.5), "events": seen.events, "bytes": seen.bytes,
        "client_cpu_us": cpu_ns() as f64 / 1e3 / ok.max(1) as f64, "errors": seen.errors,
    })
}

async fn load(plan: Plan, connections: u64, calls: Option<u64>) {
    let plan = Rc::new(plan);
    let began = Instant::now();
    let local = tokio::task::LocalSet::new();
    for _ in 0..connections {
        let Some(calls) = calls else {
            local.spawn_local(plan.clone().work(Line::Http(None)));
            continue;
        };
        let channel = Rc::new(Channel::new(&plan.target));
        for _ in 0..calls {
            local.spawn_local(plan.clone().work(Line::Grpc(channel.clone())));
        }
    }
    local.await;
    println!("{}", report(&plan, connections, began.elapsed().as_secs_f64()));
    if let (true, Some(path)) = (plan.collect, flag("--ids")) {
        let mut text = plan.seen.borrow().ids.join("\n");
        text.push('\n');
        std::fs::write(&path, text).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}

/// Opens a stream and reads that many events of it; the first one's task, if it begins with one.
async fn open_stream(
    target: &Target,
    method: &str,
    params: &str,
    events: usize,
) -> Result<(Connection, Option<String>), String> {
    let mut connection = Connection::open(target).await?;
    let request = format!(r#"{{"jsonrpc":"2.0","id":"1","method":"{method}","params":{params}}}"#);
    let status = connection.post(STREAM, &request).await?;
    let mut body = Vec::new();
    while memchr::memmem::find_iter(&body, b"\n\n").count() < events {
        let more = tokio::time::timeout(Duration::from_secs(20), connection.some(&mut body)).await;
        if status != 200 || !more.map_err(|_| "no event in 20 s")?? {
            return Err(format!("{status} {}", excerpt(&body)));
        }
    }
    let task = between(&body, br#""task":{"id":""#, b'"');
    Ok((connection, task))
}

async fn hold(target: Target, count: u64, one_task: bool) -> Result<(), String> {
    let message =
        |n| format!(r#"{{"message":{{"messageId":"i-{n}","role":"ROLE_USER","parts":[{{"text":"hang"}}]}}}}"#);
    let began = Instant::now();
    let mut open = Vec::new();
    let mut subscribed = None;
    if one_task {
        let (connection, task) = open_stream(&target, "SendStreamingMessage", &message(0), 2).await?;
        subscribed = Some(task.ok_or("no task id")?);
        open.push(connection);
    }
    for n in open.len() as u64..count {
        let opened = match &subscribed {
            None => open_stream(&target, "SendStreamingMessage", &message(n), 2).await?,
            Some(task) => open_stream(&target, "SubscribeToTask", &format!(r#"{{"id":"{task}"}}"#), 1).await?,
        };
        open.push(opened.0);
    }
    println!("{}", json!({"open": open.len(), "seconds": began.elapsed().as_secs_f64()}));
    until_input_ends().await;
    let mut alive = 0;
    for connection in &mut open {
        let mut body = Vec::new();
        let ended = async { while connection.some(&mut body).await.unwrap_or(false) {} };
        alive += u64::from(tokio::time::timeout(Duration::from_millis(1), ended).await.is_err());
    }
    println!("{}", json!({"alive": alive}));
    Ok(())
}

/// Opens a stream over gRPC and reads that many events of it; the first one's task, if it begins with one.
async fn open_call(
    channel: &Channel,
    method: &str,
    request: &[u8],
    events: usize,
) -> Result<(Call, Option<String>), String> {
    let opened = async {
        let mut call = channel.call(method, request).await?;
        let mut task = None;
        for _ in 0..events {
            let message = call.message().await?.ok_or("the stream ended")?;
            task = task.or(grpc::task(&message).and_then(grpc::task_id).map(str::to_owned));
        }
        Ok((call, task))
    };
    tokio::time::timeout(Duration::from_secs(20), opened).await.map_err(|_| "no event in 20 s")?
}

/// The same over gRPC, `calls` streams on each connection.
async fn hold_grpc(target: Target, count: u64, calls: u64, one_task: bool) -> Result<(), String> {
    let began = Instant::now();
    let mut channel = Channel::new(&target);
    let mut open = Vec::new();
    let mut subscribed: Option<String> = None;
    for n in 0..count {
        if n > 0 && n % calls == 0 {
            channel = Channel::new(&target);
        }
        let (call, task) = match &subscribed {
            None => {
                let request = grpc::send_request(&format!("i-{n}"), "hang");
                open_call(&channel, "SendStreamingMessage", &request, 2).await?
            }
            Some(task) => open_call(&channel, "SubscribeToTask", &grpc::subscribe_request(task), 1).await?,
        };
        if one_task {
            subscribed = subscribed.or(task);
        }
        open.push(call);
    }
    println!("{}", json!({"open": open.len(), "seconds": began.elapsed().as_secs_f64()}));
    until_input_ends().await;
    let mut alive = 0;
    for call in &mut open {
        let ended = async { while let Ok(Some(_)) = call.message().await {} };
        alive += u64::from(tokio::time::timeout(Duration::from_millis(1), ended).await.is_err());
    }
    println!("{}", json!({"alive": alive}));
    Ok(())
}

/// Does not block the runtime: connections of gRPC are served meanwhile.
async fn until_input_ends() {
    let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let target = flag("--url").and_then(|url| Target::parse(&url)).expect("--url http://HOST:PORT/PATH");
    let mode = match mode.as_str() {
        "idle" | "sub" => {
            let count = number("--n").unwrap_or(1000);
            let held = match number("--grpc") {
                Some(calls) => hold_grpc(target, count, calls, mode == "sub").await,
                None => hold(target, count, mode == "sub").await,
            };
            if let Err(error) = held {
                println!("{}", json!({"error": error}));
            }
            return;
        }
        "tokens" | "chat" => {
            let form = if mode == "chat" { tokens::Form::Chat } else { tokens::Form::Agent };
            let (streams, count) = (number("--c").unwrap_or(200), number("--tokens").unwrap_or(250));
            println!("{}", tokens::run(target, form, streams, count).await);
            return;
        }
        "buy" => {
            let people = flag("--people").expect("--people FILE");
            let text = std::fs::read_to_string(&people).unwrap_or_else(|e| panic!("{people}: {e}"));
            let seconds = number("--seconds").unwrap_or(3);
            println!("{}", purchases::run(target, &text, number("--c").unwrap_or(64), seconds).await);
            return;
        }
        "send" => Mode::Send,
        "get" => Mode::Get,
        "list" => Mode::List,
        "stream" => Mode::Stream,
        other => panic!("no mode {other:?}: send, get, list, stream, idle, sub, tokens, chat or buy"),
    };
    let ids: Vec<String> = match (mode, flag("--ids")) {
        (Mode::Get, Some(path)) => {
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
            text.split_whitespace().map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    let calls = number("--grpc");
    if calls.is_some() && !matches!(mode, Mode::Send | Mode::Stream) {
        panic!("--grpc is for send, stream, idle and sub");
    }
    let seconds = flag("--seconds").and_then(|text| text.parse().ok()).map(Duration::from_secs_f64);
    let wanted = match number("--n") {
        Some(0) => ids.len() as u64,
        Some(wanted) => wanted,
        None => u64::MAX,
    };
    let nanos = std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64);
    let plan = Plan {
        mode,
        target,
        run: format!("{nanos:x}"),
        text: flag("--text").unwrap_or_else(|| "hello world".to_owned()),
        context: flag("--context"),
        per_context: number("--per-context").unwrap_or(0),
        params: flag("--params").unwrap_or_else(|| r#"{"pageSize":50}"#.to_owned()),
        total: number("--total"),
        events: number("--events"),
        collect: mode == Mode::Send && flag("--ids").is_some(),
        ids,
        wanted,
        until: seconds.map(|seconds| Instant::now() + seconds),
        push: flag("--push"),
        pace: number("--rate").map(|rate| Duration::from_secs_f64(1.0 / rate as f64)),
        began: Instant::now(),
        begun: Cell::new(0),
        seen: RefCell::default(),
    };
    load(plan, number("--c").unwrap_or(64), calls).await;
}
