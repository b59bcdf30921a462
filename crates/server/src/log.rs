//! Where the log goes: one line a request, and whatever else the process has to say, in order, on standard error.
//!
//! Lines are collected in memory and written by a thread of their own: a request never waits for a terminal or a pipe. When
//! nobody reads, lines are dropped and counted rather than kept.

use std::io::{self, Write};
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
    pub(crate) peer: std::net::SocketAddr,
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
        let now = Time(jiff::Timestamp::now().as_millisecond());
        let (whole, part) = (line.micros / 1_000, line.micros % 1_000);
        let mut lines = self.shared.lines.lock();
        if lines.bytes.len() > LIMIT {
            lines.dropped += 1;
            return;
        }
        let out = &mut lines.bytes;
        let written = if self.shared.json {
            write!(out, r#"{{"timestamp":"{now}","level":"INFO","message":"request","method":""#).and_then(|()| {
                write!(
                    out,
                    r#"{}","path":{},"status":{},"ms":{whole}.{part:03},"operation":"{}","dialect":"{}","agent":{},"caller":{},"request_id":{},"peer":"{}""#,
                    line.method,
                    quoted(line.path),
                    line.status,
                    line.operation,
                    line.dialect,
                    quoted(line.agent),
                    quoted(line.caller),
                    quoted(line.request_id),
                    line.peer,
                )?;
                if let Some(trace) = line.trace {
                    write!(out, r#","traceparent":{}"#, quoted(trace))?;
                }
                if let Some(fault) = line.fault {
                    write!(out, r#","fault":{}"#, quoted(fault))?;
                }
                writeln!(out, "}}")
            })
        } else {
            write!(
                out,
                "{now}  INFO request method={} path={} status={} ms={whole}.{part:03} operation={} dialect={} agent={} caller={} request_id={} peer={}",
                line.method,
                line.path,
                line.status,
                line.operation,
                line.dialect,
                line.agent,
                line.caller,
                line.request_id,
                line.peer,
            )
            .and_then(|()| {
                if let Some(trace) = line.trace {
                    write!(out, " traceparent={trace}")?;
                }
                if let Some(fault) = line.fault {
                    write!(out, " fault={fault:?}")?;
                }
                writeln!(out)
            })
        };
        debug_assert!(written.is_ok(), "writing to memory cannot fail");
        self.wake(&mut lines);
    }

    fn wake(&self, lines: &mut Lines) {
        if std::mem::take(&mut lines.waiting) {
            self.shared.more.notify_one();
        }
    }
}

fn quoted(text: &str) -> serde_json::Value {
    serde_json::Value::from(text)
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
