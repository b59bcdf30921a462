//! Nanoseconds per operation of the 1.0 codec. Run with
//! `cargo run --release -p rialto-dialects --example codec_bench`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use dialects::a2a_v1::encode::{TaskHead, TaskView};
use dialects::a2a_v1::{decode_rpc, encode, errors, rest};
use dialects::framing::json::Writer;
use dialects::framing::{jsonrpc, scan, sse};
use model::{Artifact, Json, Message, Part, Role, State, Status, Task, TaskId};
use model::{Body, Chunk, Event, EventId, Fault, Limits, Seq, StatusChange, Time};

fn bench(name: &str, mut run: impl FnMut()) {
    // The best of many short rounds: the cost of the code without disturbance.
    const ROUND: u32 = 2_000;
    let mut best = f64::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..ROUND {
            run();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(ROUND));
    }
    println!("{name:<48} {best:>9.0} ns");
}

fn small_task() -> Task {
    let id: TaskId = "0190f3c4-1111-7222-8333-444455556666".parse().unwrap();
    let message = |n: u32, role, text: &str| {
        Arc::new(Message {
            id: format!("0190f3c4-0000-7222-8333-44445555666{n}").into(),
            role,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: Vec::new(),
            references: Vec::new(),
        })
    };
    // Opened from the log's own form, which takes facts that tasks learn to have later for absent.
    let opened = format!(
        r#"{{"i":"{id}","c":"0190f3c4-2222-7222-8333-444455556666","g":"echo","t":"default","o":"anonymous",
        "v":["t\\u001fdefault\\u001fecho"],"d":"a2a_v1"}}"#
    );
    let opened = Body::Opened(serde_json::from_str(&opened).unwrap());
    let mut task = Task::open(&Event { seq: Seq(1), at: Time(1_767_225_599_000), body: opened }).unwrap();
    task.core.state = State::Completed;
    task.status = Status { state: State::Completed, message: None, at: Time(1_767_225_599_999) };
    task.artifacts = vec![Arc::new(Artifact {
        id: "0190f3c4-3333-7222-8333-444455556666".into(),
        name: Some("echo".into()),
        description: None,
        parts: vec![Part::text("hello there, how are you?")],
        metadata: None,
        extensions: Vec::new(),
    })];
    task.history = vec![message(1, Role::User, "hello there, how are you?")];
    task
}

fn main() {
    let limits = Limits::default();
    let request = br#"{"jsonrpc":"2.0","id":17,"method":"SendMessage","params":{"message":{"messageId":"0190f3c4-0000-7222-8333-444455556661","role":"ROLE_USER","parts":[{"text":"hello there, how are you?"}]},"configuration":{"acceptedOutputModes":["text/plain"]}}}"#;
    println!("SendMessage request of {} bytes", request.len());
    bench("scan", || {
        black_box(scan::scan(black_box(request), 128)).unwrap();
    });
    let text = std::str::from_utf8(request).unwrap();
    bench("read the envelope", || {
        black_box(jsonrpc::read(black_box(text))).unwrap();
    });
    let read = jsonrpc::read(text).unwrap();
    bench("decode params", || {
        black_box(decode_rpc(&read.method, black_box(read.params), &limits)).unwrap();
    });
    bench("all three", || {
        let text = scan::scan(black_box(request), 128).unwrap();
        let read = jsonrpc::read(text).unwrap();
        black_box(decode_rpc(&read.method, read.params, &limits)).unwrap();
    });
    bench("decode a bad request (wrong type, with path)", || {
        let bad = r#"{"jsonrpc":"2.0","id":17,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":5}]}}}"#;
        let read = jsonrpc::read(black_box(bad)).unwrap();
        black_box(decode_rpc(&read.method, read.params, &limits)).unwrap_err();
    });
    let get = r#"{"jsonrpc":"2.0","id":17,"method":"GetTask","params":{"id":"0190f3c4-1111-7222-8333-444455556666"}}"#;
    bench("GetTask, all three", || {
        let text = scan::scan(black_box(get.as_bytes()), 128).unwrap();
        let read = jsonrpc::read(text).unwrap();
        black_box(decode_rpc(&read.method, read.params, &limits)).unwrap();
    });
    bench("GET /tasks/{id}, route and decode", || {
        let path = "/tasks/0190f3c4-1111-7222-8333-444455556666";
        black_box(rest::route(black_box("GET"), path, None).unwrap().decode("", &limits)).unwrap();
    });

    let task = small_task();
    let id = read.id.clone();
    let mut len = 0;
    bench("encode a small task in its envelope", || {
        let mut w = jsonrpc::begin_result(&id, 1024);
        encode::send_task(&mut w, black_box(&task), &TaskView::WHOLE);
        jsonrpc::end_result(&mut w);
        len = black_box(w.finish()).wire_len();
    });
    println!("  ({len} bytes)");
    let head = TaskHead::from(&task);
    let status = Event {
        seq: Seq(3),
        at: Time(1_767_225_599_999),
        body: Body::Status(StatusChange { state: State::Working, message: None, metadata: None }),
    };
    bench("encode a status event", || {
        let mut w = Writer::with_capacity(256);
        encode::stream_event(&mut w, &head, black_box(&status));
        black_box(w.finish());
    });
    let chunk = Event {
        seq: Seq(4),
        at: Time(1_767_225_599_999),
        body: Body::Artifact(Chunk {
            artifact: task.artifacts[0].clone(),
            ordinal: 0,
            append: true,
            bordered: false,
            last: false,
            metadata: None,
        }),
    };
    let mut frame = Vec::with_capacity(1024);
    let mut w = Writer::new();
    encode::stream_event(&mut w, &head, &chunk);
    let result = w.finish();
    bench("encode a chunk event", || {
        let mut w = Writer::with_capacity(512);
        encode::stream_event(&mut w, &head, black_box(&chunk));
        black_box(w.finish());
    });
    bench("frame an encoded event with its envelope", || {
        frame.clear();
        sse::write_head(&mut frame, Some(EventId { task: task.id, seq: Seq(4) }), None);
        jsonrpc::write_result_head(&mut frame, &id);
        frame.extend_from_slice(result.as_bytes().unwrap());
        jsonrpc::write_result_tail(&mut frame);
        sse::write_tail(&mut frame);
        black_box(&frame);
    });
    bench("encode a fault", || {
        let mut out = Vec::with_capacity(512);
        errors::rpc_error(&mut out, &id, &Fault::task_not_found("x"));
        black_box(out);
    });
    let big = "lorem ipsum dolor sit amet, \"consectetur\" adipiscing elit\n".repeat(18_000);
    bench_big("escape text", big.len(), || {
        let mut w = Writer::with_capacity(big.len() * 2);
        w.string(black_box(&big));
        black_box(w.finish());
    });
    let body = Json::parse(&format!(r#"{{"text":"{}"}}"#, "lorem ipsum ".repeat(90_000))).unwrap();
    bench_big("scan", body.text().len(), || {
        black_box(scan::scan(black_box(body.text().as_bytes()), 128)).unwrap();
    });
}

fn bench_big(name: &str, bytes: usize, mut run: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..50 {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{name:<48} {:>9.0} MB/s", bytes as f64 / best / 1e6);
}
