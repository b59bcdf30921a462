//! Where the log goes: one line a request, and whatever else the process has to say, in order, on standard error.
//!
//! Lines are collected in memory and written by a thread of their own: a request never waits for a terminal or a pipe. When
//! nobody reads, lines are dropped and counted rather than kept.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use model::Time;
use parking_lot::{Condvar, Mutex};

const LIMIT: usize = 4 << 20;
const FLUSH_EVERY: Duration = Duration::from_millis(50);

#[derive(Clone)]
pub struct Sink {
    shared: Arc<Shared>,
}

struct Shared {
    lines: Mutex<Lines>,
    more: Condvar,
    json: bool,
    requests: AtomicBool,
}

#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    dropped: u64,
    waiting: bool,
}

/// One request, as the log tells it.
pub(crate) struct Line<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) status: u16,
    pub(crate) micros: u64,
    pub(crate) operation: &'a str,
    pub(crate) dialect: &'a str,
    pub(crate) agent: &'a str,
    pub(crate) caller: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) trace: Option<&'a str>,
    pub(crate) fault: Option<&'a str>,
    pub(crate) peer: SocketAddr,
}

impl Sink {
    /// Writes to standard error, as JSON or as text; `requests` false keeps the lines about requests out.
    pub fn stderr(json: bool, requests: bool) -> io::Result<Sink> {
        let shared = Arc::new(Shared {
            lines: Mutex::default(),
            more: Condvar::new(),
            json,
            requests: AtomicBool::new(requests),
        });
        let writer = shared.clone();
        std::thread::Builder::new().name("log".into()).spawn(move || writer.run())?;
        Ok(Sink { shared })
    }

    /// Whether lines are JSON.
    pub fn is_json(&self) -> bool {
        self.shared.json
    }

    /// Whether lines about requests are written, from now on.
    pub fn set_requests(&self, requests: bool) {
        self.shared.requests.store(requests, Ordering::Relaxed);
    }

    /// Writes out what is collected; at the end of the process.
    pub fn flush(&self) {
        let bytes = std::mem::take(&mut self.shared.lines.lock().bytes);
        let _ = io::stderr().write_all(&bytes);
    }

    pub(crate) fn request(&self, line: &Line<'_>) {
        if !self.shared.requests.load(Ordering::Relaxed) {
            return;
        }
        let mut lines = self.shared.lines.lock();
        if lines.bytes.len() > LIMIT {
            lines.dropped += 1;
            return;
        }
        if self.shared.json {
            line.write_json(&mut lines.bytes);
        } else {
            line.write_text(&mut lines.bytes);
        }
        self.wake(&mut lines);
    }

    fn wake(&self, lines: &mut Lines) {
        if std::mem::take(&mut lines.waiting) {
            self.shared.more.notify_one();
        }
    }
}

impl Line<'_> {
    // Piece by piece: one formatted write of the line cost a tenth of the request that it tells of.
    fn write_text(&self, out: &mut Vec<u8>) {
        formatted(out, now());
        text(out, "  INFO request method=", self.method);
        text(out, " path=", self.path);
        number(out, " status=", self.status.into());
        milliseconds(out, " ms=", self.micros);
        text(out, " operation=", self.operation);
        text(out, " dialect=", self.dialect);
        text(out, " agent=", self.agent);
        text(out, " caller=", self.caller);
        text(out, " request_id=", self.request_id);
        out.extend_from_slice(b" peer=");
        address(out, self.peer);
        if let Some(trace) = self.trace {
            text(out, " traceparent=", trace);
        }
        if let Some(fault) = self.fault {
            out.extend_from_slice(b" fault=");
            formatted(out, format_args!("{fault:?}"));
        }
        out.push(b'\n');
    }

    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"timestamp":""#);
        formatted(out, now());
        text(out, r#"","level":"INFO","message":"request","method":""#, self.method);
        quoted(out, r#"","path":"#, self.path);
        number(out, r#","status":"#, self.status.into());
        milliseconds(out, r#","ms":"#, self.micros);
        text(out, r#","operation":""#, self.operation);
        text(out, r#"","dialect":""#, self.dialect);
        quoted(out, r#"","agent":"#, self.agent);
        quoted(out, r#","caller":"#, self.caller);
        quoted(out, r#","request_id":"#, self.request_id);
        out.extend_from_slice(br#","peer":""#);
        address(out, self.peer);
        out.push(b'"');
        if let Some(trace) = self.trace {
            quoted(out, r#","traceparent":"#, trace);
        }
        if let Some(fault) = self.fault {
            quoted(out, r#","fault":"#, fault);
        }
        out.extend_from_slice(b"}\n");
    }
}

fn now() -> Time {
    Time(jiff::Timestamp::now().as_millisecond())
}

fn text(out: &mut Vec<u8>, label: &str, value: &str) {
    out.extend_from_slice(label.as_bytes());
    out.extend_from_slice(value.as_bytes());
}

fn number(out: &mut Vec<u8>, label: &str, value: u64) {
    text(out, label, itoa::Buffer::new().format(value));
}

/// Microseconds as milliseconds with three decimals.
fn milliseconds(out: &mut Vec<u8>, label: &str, micros: u64) {
    number(out, label, micros / 1_000);
    let part = (micros % 1_000) as u16;
    let digit = |of: u16| b'0' + (part / of % 10) as u8;
    out.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
}

fn address(out: &mut Vec<u8>, peer: SocketAddr) {
    let SocketAddr::V4(v4) = peer else {
        formatted(out, peer);
        return;
    };
    let [a, b, c, d] = v4.ip().octets();
    number(out, "", a.into());
    number(out, ".", b.into());
    number(out, ".", c.into());
    number(out, ".", d.into());
    number(out, ":", v4.port().into());
}

fn quoted(out: &mut Vec<u8>, label: &str, value: &str) {
    out.extend_from_slice(label.as_bytes());
    let written = serde_json::to_writer(out, value);
    debug_assert!(written.is_ok(), "writing to memory cannot fail");
}

fn formatted(out: &mut Vec<u8>, value: impl Display) {
    let written = write!(out, "{value}");
    debug_assert!(written.is_ok(), "writing to memory cannot fail");
}

impl Shared {
    fn run(&self) {
        let mut out = Vec::new();
        loop {
            {
                let mut lines = self.lines.lock();
                while lines.bytes.is_empty() {
                    lines.waiting = true;
                    self.more.wait(&mut lines);
                }
                std::mem::swap(&mut out, &mut lines.bytes);
                let dropped = std::mem::take(&mut lines.dropped);
                if dropped > 0 {
                    let _ = writeln!(out, "({dropped} log lines were dropped: nobody read them)");
                }
            }
            let _ = io::stderr().write_all(&out);
            out.clear();
            out.shrink_to(64 << 10);
            // Collect for a while: one write for many lines.
            std::thread::sleep(FLUSH_EVERY);
        }
    }
}

/// What tracing writes through.
impl Write for &Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = self.shared.lines.lock();
        if lines.bytes.len() > LIMIT {
            lines.dropped += 1;
        } else {
            lines.bytes.extend_from_slice(bytes);
        }
        self.wake(&mut lines);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(peer: &str) -> Line<'static> {
        Line {
            method: "POST",
            path: "/a2a/\"e\"",
            status: 404,
            micros: 1_020_045,
            operation: "get",
            dialect: "1.0",
            agent: "echo",
            caller: "ann",
            request_id: "r1",
            trace: None,
            fault: None,
            peer: peer.parse().unwrap(),
        }
    }

    /// The line without its first member, the time, which has 24 characters after `skip`.
    fn written<'a>(write: fn(&Line<'a>, &mut Vec<u8>), line: &Line<'a>, skip: usize) -> String {
        let mut out = Vec::new();
        write(line, &mut out);
        String::from_utf8(out[skip + 24..].to_vec()).unwrap()
    }

    #[test]
    fn a_line_of_text_has_every_member() {
        let plain = "  INFO request method=POST path=/a2a/\"e\" status=404 ms=1020.045 operation=get dialect=1.0 agent=echo caller=ann request_id=r1";
        for peer in ["127.0.0.1:65535", "[::1]:8080", "10.200.30.4:1"] {
            assert_eq!(written(Line::write_text, &line(peer), 0), format!("{plain} peer={peer}\n"));
        }
        let more = Line { trace: Some("00-a"), fault: Some("no \"x\""), ..line("127.0.0.1:1") };
        let end = " peer=127.0.0.1:1 traceparent=00-a fault=\"no \\\"x\\\"\"\n";
        assert_eq!(written(Line::write_text, &more, 0), format!("{plain}{end}"));
    }

    #[test]
    fn a_line_of_json_has_every_member() {
        for (trace, fault) in [(None, None), (Some("00-a"), Some("no \"x\""))] {
            let line = Line { trace, fault, micros: 7, ..line("[::1]:8080") };
            let text = written(Line::write_json, &line, r#"{"timestamp":""#.len());
            let value: serde_json::Value = serde_json::from_str(&format!("{{\"timestamp\":\"{text}")).unwrap();
            let mut expected = serde_json::json!({
                "timestamp": "", "level": "INFO", "message": "request", "method": "POST", "path": "/a2a/\"e\"",
                "status": 404, "ms": 0.007, "operation": "get", "dialect": "1.0", "agent": "echo", "caller": "ann",
                "request_id": "r1", "peer": "[::1]:8080"
            });
            if let (Some(trace), Some(fault)) = (trace, fault) {
                expected["traceparent"] = trace.into();
                expected["fault"] = fault.into();
            }
            assert_eq!(value, expected);
        }
    }
}
