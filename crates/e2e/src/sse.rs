//! Event streams: frames with their ids, in order.
//!
//! A frame's id is `<taskId>.<seq>`. [`Events`] checks every frame for what every stream guarantees: ids of one
//! task, strictly increasing. So each test that reads a stream tests that too.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;
use serde_json::value::RawValue;

use crate::http::{Connection, Framing, Head};
use crate::poll::PATIENCE;

/// One frame of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub id: Option<String>,
    pub event: Option<String>,
    pub data: String,
}

impl Frame {
    /// Task and sequence number of the frame's id.
    ///
    /// # Panics
    /// When the frame has no id, or one of another shape.
    pub fn position(&self) -> (&str, u64) {
        let id = self.id.as_deref().unwrap_or_else(|| panic!("a frame without an id: {}", self.data));
        let (task, seq) = id.rsplit_once('.').unwrap_or_else(|| panic!("an id without a sequence number: {id}"));
        (task, seq.parse().unwrap_or_else(|_| panic!("an id without a sequence number: {id}")))
    }

    pub fn task(&self) -> &str {
        self.position().0
    }

    pub fn seq(&self) -> u64 {
        self.position().1
    }

    /// The event's bytes on the wire: the `result` of a JSON-RPC frame, the whole of an HTTP+JSON one.
    ///
    /// # Panics
    /// When the frame carries an error, or no JSON.
    pub fn result(&self) -> &str {
        let members: BTreeMap<&str, &RawValue> =
            serde_json::from_str(&self.data).unwrap_or_else(|error| panic!("{error}: {}", self.data));
        if !members.contains_key("jsonrpc") {
            return &self.data;
        }
        members.get("result").unwrap_or_else(|| panic!("a frame without a result: {}", self.data)).get()
    }

    /// The event: `{"task": …}`, `{"message": …}`, `{"statusUpdate": …}` or `{"artifactUpdate": …}`.
    pub fn event(&self) -> Value {
        serde_json::from_str(self.result()).expect("a result is JSON")
    }

    /// The state in this frame, if it has one.
    pub fn state(&self) -> Option<String> {
        let event = self.event();
        ["task", "statusUpdate"].iter().find_map(|kind| event[*kind]["status"]["state"].as_str().map(str::to_owned))
    }
}

/// The result of a read with a time limit.
#[derive(Debug)]
pub enum Next {
    Frame(Frame),
    /// The server ended the stream properly.
    End,
    /// Nothing came, and the stream is still open.
    Quiet,
}

/// A stream being read. Dropping it drops the connection.
#[derive(Debug)]
pub struct Events {
    pub head: Head,
    connection: Connection,
    framing: Framing,
    text: Vec<u8>,
    last: Option<(String, u64)>,
    /// Comment lines seen, such as heartbeats.
    pub comments: usize,
}

impl Events {
    pub fn new(connection: Connection, head: Head) -> Self {
        Self { framing: Connection::framing(&head), head, connection, text: Vec::new(), last: None, comments: 0 }
    }

    /// The next frame, `None` at the proper end, an error when the connection broke or was silent for long.
    pub fn try_next(&mut self) -> io::Result<Option<Frame>> {
        match self.next_within(PATIENCE)? {
            Next::Frame(frame) => Ok(Some(frame)),
            Next::End => Ok(None),
            Next::Quiet => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// The next frame.
    ///
    /// # Panics
    /// When the stream has ended, broken or gone quiet.
    pub fn take(&mut self) -> Frame {
        self.try_next().expect("the stream goes on").expect("the stream has another frame")
    }

    /// All frames up to and including the first that satisfies `condition`.
    pub fn take_until(&mut self, condition: impl Fn(&Frame) -> bool) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            frames.push(self.take());
            if frames.last().is_some_and(&condition) {
                return frames;
            }
        }
    }

    /// All frames until the server ends the stream.
    ///
    /// # Panics
    /// When it does not.
    pub fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.try_next().expect("the stream ends properly") {
            frames.push(frame);
        }
        frames
    }

    pub fn next_within(&mut self, patience: Duration) -> io::Result<Next> {
        let started = Instant::now();
        loop {
            if let Some(frame) = self.parse() {
                self.check(&frame);
                return Ok(Next::Frame(frame));
            }
            let Some(left) = patience.checked_sub(started.elapsed()) else {
                return Ok(Next::Quiet);
            };
            self.connection.set_patience(left)?;
            match self.connection.piece(&mut self.framing) {
                Ok(Some(piece)) => self.text.extend_from_slice(&piece),
                Ok(None) => return Ok(Next::End),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(Next::Quiet);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes one block from the text, skipping comment-only blocks.
    fn parse(&mut self) -> Option<Frame> {
        loop {
            let (end, gap) = blank_line(&self.text)?;
            let rest = self.text.split_off(end + gap);
            let block = std::mem::replace(&mut self.text, rest);
            let block = String::from_utf8(block[..end].to_vec()).expect("a stream is UTF-8");
            let mut frame = Frame { id: None, event: None, data: String::new() };
            let mut data: Vec<&str> = Vec::new();
            for line in block.lines() {
                let (field, value) = line.split_once(':').unwrap_or((line, ""));
                let value = value.strip_prefix(' ').unwrap_or(value);
                match field {
                    "" => self.comments += 1,
                    "id" => frame.id = Some(value.to_owned()),
                    "event" => frame.event = Some(value.to_owned()),
                    "data" => data.push(value),
                    _ => {}
                }
            }
            if !data.is_empty() {
                frame.data = data.join("\n");
                return Some(frame);
            }
        }
    }

    fn check(&mut self, frame: &Frame) {
        if frame.id.is_none() {
            return;
        }
        let (task, seq) = frame.position();
        if let Some((last_task, last_seq)) = &self.last {
            assert_eq!(task, last_task, "one stream, one task");
            assert!(seq > *last_seq, "ids increase: {task}.{seq} came after {last_seq}");
        }
        self.last = Some((task.to_owned(), seq));
    }
}

/// The position of the first empty line, and its length with the line end before it.
fn blank_line(text: &[u8]) -> Option<(usize, usize)> {
    let plain = text.windows(2).position(|pair| pair == b"\n\n").map(|at| (at, 2));
    let crlf = text.windows(4).position(|four| four == b"\r\n\r\n").map(|at| (at, 4));
    match (plain, crlf) {
        (Some(a), Some(b)) => Some(if a.0 < b.0 { a } else { b }),
        (a, b) => a.or(b),
    }
}
