//! Durability before visibility, checked from outside: under a tracer, every reply's first byte is sent after a
//! sync of the data folder that began and ended after the request arrived.
//!
//! The test uses `strace` where permitted. Where ptrace is refused, or with `RIALTO_TRACE=shim`, a library
//! preloaded before libc (`shim.c`, compiled here) records the same calls. Both give a list of [`trace::Call`]s,
//! judged the same way.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod trace;

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::client::Client;
use e2e::http::Connection;
use e2e::{Server, message, send};
use serde_json::{Value, json};

use trace::Call;

const SENDS: usize = 200;

#[test]
fn every_reply_comes_after_a_sync_that_began_after_its_request() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("trace");
    let shim = std::env::var("RIALTO_TRACE").is_ok_and(|kind| kind == "shim") || !strace_works(folder.path());
    eprintln!("traced by {}", if shim { "the shim" } else { "strace" });
    let options = Server::options().sqlite_only("a sync before every reply");
    let mut server = if shim {
        let library = build_shim(folder.path());
        options.env("LD_PRELOAD", library.to_str().unwrap()).env("E2E_TRACE", log.to_str().unwrap()).start()
    } else {
        options.under(&strace(&log)).start()
    };

    let echo = server.agent("echo");
    let mut connection = Connection::open(server.addr()).unwrap();
    for turn in 0..SENDS {
        let answer = exchange(&mut connection, &echo, turn);
        let state = &answer["result"]["task"]["status"]["state"];
        assert_eq!(state, "TASK_STATE_COMPLETED", "{answer}");
    }
    drop(connection);
    server.terminate();

    let text = e2e::until("the trace is complete", e2e::poll::PATIENCE, || {
        let text = fs::read_to_string(&log).ok()?;
        (shim || is_complete(&text)).then_some(text)
    });
    let calls = if shim { trace::of_shim(&text) } else { trace::of_strace(&text) };
    judge(&calls, &server.data());
}

/// Whether strace's output contains the end of the traced process. The tracer may write on after that end.
fn is_complete(text: &str) -> bool {
    let first = text.split_whitespace().next();
    let ends = text.lines().filter(|line| line.ends_with("+++"));
    ends.map(|line| line.split_whitespace().next()).any(|thread| thread.is_some() && thread == first)
}

/// One send on a persistent connection. The first header identifies the request in a trace of few bytes.
fn exchange(connection: &mut Connection, echo: &Client, turn: usize) -> Value {
    let body = json!({
        "jsonrpc": "2.0", "id": turn, "method": "SendMessage", "params": send(message("durable")),
    });
    let request = e2e::http::Request::new("POST", echo.base())
        .header("x-turn", &turn.to_string())
        .header("a2a-version", "1.0")
        .json(&body);
    connection.exchange(&request).unwrap().json()
}

/// For each request: the call that read its first byte, then a complete sync, then the call that wrote the first
/// byte of its reply.
fn judge(calls: &[Call], data: &Path) {
    let mut judged = 0;
    for turn in 0..SENDS {
        let marker = format!("x-turn: {turn}\r\n");
        let read = calls
            .iter()
            .filter(|call| call.is_read() && call.data.starts_with("POST /a2a/echo"))
            .find(|call| call.data.contains(&marker))
            .unwrap_or_else(|| panic!("the read of request {turn} is not in the trace"));
        let write = calls
            .iter()
            .filter(|call| call.is_write() && call.fd == read.fd && call.began > read.ended)
            .min_by_key(|call| call.began)
            .unwrap_or_else(|| panic!("the reply to request {turn} is not in the trace"));
        assert!(
            write.data.starts_with("HTTP/1.1 200"),
            "the first bytes after request {turn} are its reply: {write:?}"
        );
        let sync = calls.iter().find(|call| {
            call.is_sync()
                && call.succeeded
                && call.began > read.ended
                && call.ended < write.began
                && (call.target.is_empty() || Path::new(&call.target).starts_with(data))
        });
        assert!(sync.is_some(), "reply {turn} left without a sync after its request:\n{}", around(calls, read, write));
        judged += 1;
    }
    assert_eq!(judged, SENDS);
}

fn around(calls: &[Call], read: &Call, write: &Call) -> String {
    calls
        .iter()
        .filter(|call| call.ended >= read.began && call.began <= write.ended)
        .map(|call| format!("{call:?}\n"))
        .collect()
}

/// `-D` keeps the server our child, `-y` prints the target of a descriptor.
fn strace(log: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = [
        "strace",
        "-D",
        "-f",
        "-ttt",
        "-y",
        "-s",
        "64",
        "-e",
        "trace=fdatasync,fsync,write,writev,sendto,sendmsg,read,readv,recvfrom,recvmsg",
        "-o",
    ]
    .iter()
    .map(OsString::from)
    .collect();
    words.push(log.into());
    words
}

/// Whether strace may trace here. Being detached, it may write after the traced program has ended.
fn strace_works(folder: &Path) -> bool {
    let log = folder.join("trial");
    let words = strace(&log);
    let ran = Command::new(&words[0]).args(&words[1..]).arg("true").stderr(Stdio::null()).status();
    if !ran.is_ok_and(|status| status.success()) {
        return false;
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        if fs::read_to_string(&log).is_ok_and(|text| is_complete(&text)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

fn build_shim(folder: &Path) -> std::path::PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/durable/shim.c");
    let library = folder.join("shim.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source)
        .arg("-ldl")
        .status()
        .expect("cc runs");
    assert!(built.success(), "the shim compiles");
    library
}
