//! Splits an answer into events by its content type: one JSON value, server-sent events, JSON lines, or plain text.

use std::collections::VecDeque;

use bytes::BytesMut;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde_json::value::RawValue;

use super::WHO;
use crate::lines::{LineTooLong, Lines};
use crate::outbound::RequestError;
use crate::sse::Sse;

/// Longest event of a stream.
const LONGEST: usize = 16 << 20;

pub(super) struct Frames {
    form: Form,
    count: u64,
}

enum Form {
    /// One event or a list of events; read when the body is complete.
    Json {
        body: BytesMut,
        events: VecDeque<String>,
    },
    /// The stream sent its end marker.
    Sse {
        sse: Sse,
        done: bool,
    },
    Lines(Lines),
    /// A plain text is an answer too.
    Text {
        body: BytesMut,
        over: bool,
    },
}

impl Frames {
    pub(super) fn of(headers: &HeaderMap, most: usize) -> Result<Frames, RequestError> {
        let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("application/json");
        let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let longest = LONGEST.min(most);
        let form = match essence.as_str() {
            "text/event-stream" => Form::Sse { sse: Sse::new(longest), done: false },
            "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/json-lines" => {
                Form::Lines(Lines::new(longest))
            }
            "text/plain" => Form::Text { body: BytesMut::new(), over: false },
            json if json == "application/json" || json.ends_with("+json") => {
                Form::Json { body: BytesMut::new(), events: VecDeque::new() }
            }
            other => {
                let says =
                    format!("{WHO} answered with {other}; it should be JSON, server-sent events, ndjson or plain text");
                return Err(RequestError::never(says));
            }
        };
        Ok(Frames { form, count: 0 })
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        match &mut self.form {
            Form::Json { body, .. } | Form::Text { body, .. } => body.extend_from_slice(bytes),
            Form::Sse { sse, .. } => sse.push(bytes),
            Form::Lines(lines) => lines.push(bytes),
        }
    }

    /// The body is complete.
    pub(super) fn finish(&mut self) {
        match &mut self.form {
            Form::Json { body, events } => {
                let text = String::from_utf8_lossy(body);
                match serde_json::from_str::<Vec<&RawValue>>(&text) {
                    Ok(list) => events.extend(list.into_iter().map(|event| event.get().to_owned())),
                    // Not a list, or not JSON: the event reader reports the error.
                    Err(_) if !text.trim().is_empty() => events.push_back(text.into_owned()),
                    Err(_) => {}
                }
            }
            Form::Text { over, .. } => *over = true,
            // An incomplete server-sent event is dropped; the last JSON line may lack a newline.
            Form::Sse { .. } => {}
            Form::Lines(lines) => lines.push(b"\n"),
        }
    }

    /// The next event.
    pub(super) fn next(&mut self) -> Result<Option<String>, RequestError> {
        let too_long = |error: LineTooLong| RequestError::never(format!("{WHO}: {error}"));
        let event = loop {
            let event = match &mut self.form {
                Form::Json { events, .. } => events.pop_front(),
                Form::Sse { sse, done } => {
                    let event = sse.next().map_err(too_long)?;
                    if event.as_deref().is_some_and(|event| event.trim() == "[DONE]") {
                        *done = true;
                        continue;
                    }
                    event
                }
                Form::Lines(lines) => {
                    lines.next().map_err(too_long)?.map(|line| String::from_utf8_lossy(&line).into_owned())
                }
                Form::Text { body, over: true } if !body.is_empty() => {
                    let text = String::from_utf8_lossy(&body.split()).into_owned();
                    Some(serde_json::json!({ "text": text }).to_string())
                }
                Form::Text { .. } => None,
            };
            // Blank lines and empty events are keepalives.
            match event {
                Some(blank) if blank.trim().is_empty() => {}
                event => break event,
            }
        };
        self.count += u64::from(event.is_some());
        Ok(event)
    }

    /// Number of events so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The stream sent its end marker.
    pub(super) fn is_done(&self) -> bool {
        matches!(self.form, Form::Sse { done: true, .. })
    }

    /// Whether an answer that ended is complete. A stream states its end; one that just stops may have been cut.
    pub(super) fn is_whole(&self) -> bool {
        match &self.form {
            Form::Json { .. } | Form::Text { .. } => true,
            Form::Sse { done, .. } => *done,
            Form::Lines(_) => false,
        }
    }
}
