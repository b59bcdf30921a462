//! The log: one line a request and the lines of `tracing`, in order, on standard error.
//!
//! Lines are collected in memory and written by a thread of their own: a request never waits for a terminal or a pipe. Where
//! standard error is not read, lines are dropped and counted. [`RequestLog`] collects the facts of one request for its line.

use std::fmt::Display;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dialects::framing::jsonrpc::OwnedId;
use model::{Fault, MemoryShare, Time};
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

/// The line of one request.
pub struct RequestLine<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub status: u16,
    pub micros: u64,
    pub operation: &'a str,
    pub dialect: &'a str,
    pub agent: &'a str,
    pub caller: &'a str,
    pub request_id: &'a str,
    pub trace: Option<&'a str>,
    pub fault: Option<&'a str>,
    pub peer: SocketAddr,
}

/// The share of the memory for bodies that one request's body has; kept until the request is answered.
#[derive(Default)]
pub struct BodyShare {
    pub small: Option<MemoryShare>,
    pub large: Option<MemoryShare>,
}

const UNKNOWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Facts of one request for its log line and the metrics, and the state that lasts as long as the request.
pub struct RequestLog {
    pub operation: &'static str,
    pub dialect: &'static str,
    pub agent: Option<Arc<str>>,
    pub caller: Option<Arc<str>>,
    pub fault: Option<String>,
    /// The client's address.
    pub address: IpAddr,
    /// The path as the log shows it, where the path itself has a secret in it.
    pub path: Option<String>,
    /// The share of the memory for bodies that the request's body has.
    pub held: BodyShare,
    /// The JSON-RPC id of a request that is refused before it is read whole.
    pub rpc_id: Option<OwnedId>,
    /// The body was read to its end, kept or not.
    pub body_ended: bool,
}

impl Default for RequestLog {
    fn default() -> Self {
        RequestLog {
            operation: "other",
            dialect: "-",
            agent: None,
            caller: None,
            fault: None,
            address: UNKNOWN_ADDRESS,
            path: None,
            held: BodyShare::default(),
            rpc_id: None,
            body_ended: false,
        }
    }
}

impl RequestLog {
    /// Records a fault: its message for the log line, its cause for the log alone.
    pub fn fault(&mut self, fault: &Fault) {
        if let Some(cause) = &fault.cause {
            tracing::warn!(%cause, kind = ?fault.kind, "a request failed: {fault}");
        }
        self.fault = Some(fault.message.clone());
    }
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

    /// Writes the collected lines; called at the end of the process.
    pub fn flush(&self) {
        let bytes = std::mem::take(&mut self.shared.lines.lock().bytes);
        let _ = io::stderr().write_all(&bytes);
    }

    pub fn request(&self, line: &RequestLine<'_>) {
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

impl RequestLine<'_> {
    // Written in pieces: formatting the line in one call cost a tenth of the whole request.
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

/// The writer of `tracing`.
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

    fn line(peer: &str) -> RequestLine<'static> {
        RequestLine {
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
    fn written<'a>(write: fn(&RequestLine<'a>, &mut Vec<u8>), line: &RequestLine<'a>, skip: usize) -> String {
        let mut out = Vec::new();
        write(line, &mut out);
        String::from_utf8(out[skip + 24..].to_vec()).unwrap()
    }

    #[test]
    fn a_line_of_text_has_every_member() {
        let plain = "  INFO request method=POST path=/a2a/\"e\" status=404 ms=1020.045 operation=get dialect=1.0 agent=echo caller=ann request_id=r1";
        for peer in ["127.0.0.1:65535", "[::1]:8080", "10.200.30.4:1"] {
            assert_eq!(written(RequestLine::write_text, &line(peer), 0), format!("{plain} peer={peer}\n"));
        }
        let more = RequestLine { trace: Some("00-a"), fault: Some("no \"x\""), ..line("127.0.0.1:1") };
        let end = " peer=127.0.0.1:1 traceparent=00-a fault=\"no \\\"x\\\"\"\n";
        assert_eq!(written(RequestLine::write_text, &more, 0), format!("{plain}{end}"));
    }

    #[test]
    fn a_line_of_json_has_every_member() {
        for (trace, fault) in [(None, None), (Some("00-a"), Some("no \"x\""))] {
            let line = RequestLine { trace, fault, micros: 7, ..line("[::1]:8080") };
            let text = written(RequestLine::write_json, &line, r#"{"timestamp":""#.len());
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
