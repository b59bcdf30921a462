//! One send decoded and its answer encoded, so many times: for counting instructions (`bench/codec`).
//!
//! `codec_cost <v1|v0_3> <codec|floor> <times>`: `codec` is what a front does with a send, from bytes to bytes; `floor` is
//! the least anybody could do with the same bytes, a scan that ignores everything and a copy of a finished answer.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::hint::black_box;
use std::sync::Arc;

use dialects::JsonWire;
use dialects::framing::json::Writer;
use dialects::framing::{jsonrpc, scan};
use dialects::wire::TaskView;
use model::{Artifact, Body, Call, Event, Limits, Part, Seq, State, Status, Task, Time};

const V1: &str = r#"{"jsonrpc":"2.0","id":"65f1-42","method":"SendMessage","params":{"message":{"messageId":"65f1-42","role":"ROLE_USER","parts":[{"text":"hello world, what is new on the bridge today?"}]},"configuration":{"returnImmediately":false}}}"#;
const V0_3: &str = r#"{"jsonrpc":"2.0","id":"65f1-42","method":"message/send","params":{"message":{"kind":"message","messageId":"65f1-42","role":"user","parts":[{"kind":"text","text":"hello world, what is new on the bridge today?"}]},"configuration":{"blocking":true}}}"#;

/// The finished task that answers the send.
fn answer(wire: &'static dyn JsonWire, request: &str) -> Task {
    let opened = r#"{"i":"0190f3c4-1111-7222-8333-444455556666","c":"0190f3c4-2222-7222-8333-444455556666","g":"echo","t":"default","o":"anonymous","v":["t\u001fdefault\u001fecho"],"d":"a2a_v1"}"#;
    let opened = Body::Opened(serde_json::from_str(opened).unwrap());
    let mut task = Task::open(&Event { seq: Seq(1), at: Time(1_767_225_599_000), body: opened }).unwrap();
    let envelope = jsonrpc::read(request).unwrap();
    let Call::Send(send) = wire.decode_rpc(&envelope.method, envelope.params, &Limits::default()).unwrap().call else {
        panic!("a send");
    };
    task.status = Status { state: State::Completed, message: None, at: Time(1_767_225_599_999) };
    task.artifacts = vec![Arc::new(Artifact {
        id: "echo".into(),
        name: None,
        description: None,
        parts: vec![Part::text("hello world, what is new on the bridge today?")],
        metadata: None,
        extensions: Vec::new(),
    })];
    task.history = vec![Arc::new(send.message)];
    task
}

fn codec(wire: &'static dyn JsonWire, request: &[u8], task: &Task, limits: &Limits) -> usize {
    let text = scan::scan(request, limits.json_depth).unwrap();
    let envelope = jsonrpc::read(text).unwrap();
    let decoded = wire.decode_rpc(&envelope.method, envelope.params, limits).unwrap();
    let mut w: Writer = jsonrpc::begin_result(&envelope.id, 1_024);
    wire.sent_task(&mut w, task, &TaskView::WHOLE, None);
    jsonrpc::end_result(&mut w);
    black_box(decoded);
    w.finish().as_bytes().unwrap().len()
}

fn floor(request: &[u8], prebuilt: &[u8]) -> usize {
    let _: serde::de::IgnoredAny = serde_json::from_slice(request).unwrap();
    let mut out = Vec::with_capacity(1_024);
    out.extend_from_slice(prebuilt);
    black_box(&out).len()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [dialect, what, times] = &arguments[..] else { panic!("codec_cost <v1|v0_3> <codec|floor> <times>") };
    let (name, request) = match dialect.as_str() {
        "v1" => ("a2a_v1", V1),
        "v0_3" => ("a2a_v0_3", V0_3),
        other => panic!("no dialect {other}"),
    };
    let wire = dialects::wire(name).unwrap();
    let (task, limits) = (answer(wire, request), Limits::default());
    let mut w: Writer = jsonrpc::begin_result(&jsonrpc::read(request).unwrap().id, 1_024);
    wire.sent_task(&mut w, &task, &TaskView::WHOLE, None);
    jsonrpc::end_result(&mut w);
    let prebuilt = w.finish().as_bytes().unwrap().clone();
    for _ in 0..times.parse::<u32>().unwrap() {
        let len = match what.as_str() {
            "codec" => codec(wire, black_box(request.as_bytes()), black_box(&task), &limits),
            "floor" => floor(black_box(request.as_bytes()), black_box(&prebuilt)),
            other => panic!("codec or floor, not {other}"),
        };
        black_box(len);
    }
}
