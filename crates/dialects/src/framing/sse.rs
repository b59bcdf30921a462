//! Server-sent events: writing frames, and reading them from whatever pieces a connection yields.

use std::fmt;
use std::io::Write as _;

use bytes::BufMut;

/// Keeps a connection alive; readers skip it.
pub const HEARTBEAT: &[u8] = b": ping\n\n";

/// Writes one frame whose data is `data`, the slices one after the other. The data must hold no line break; what
/// [`super::json::Writer`] makes never does.
pub fn write_frame(out: &mut impl BufMut, id: Option<impl fmt::Display>, event: Option<&str>, data: &[&[u8]]) {
    write_head(out, id, event);
    for slice in data {
        debug_assert!(!slice.iter().any(|b| matches!(b, b'\n' | b'\r')), "a line break would end the data");
        out.put_slice(slice);
    }
    write_tail(out);
}

/// The lines of a frame before its data, for data that is streamed.
pub fn write_head(out: &mut impl BufMut, id: Option<impl fmt::Display>, event: Option<&str>) {
    if let Some(id) = id {
        out.put_slice(b"id: ");
        // A buffer of bytes takes everything.
        let _ = write!(out.writer(), "{id}");
        out.put_slice(b"\n");
    }
    if let Some(event) = event {
        out.put_slice(b"event: ");
        out.put_slice(event.as_bytes());
        out.put_slice(b"\n");
    }
    out.put_slice(b"data: ");
}

/// The end of a frame, after its data.
pub fn write_tail(out: &mut impl BufMut) {
    out.put_slice(b"\n\n");
}

/// One event as read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseFrame {
    /// The `id:` of this very frame.
    pub id: Option<String>,
    pub event: Option<String>,
    /// The `data:` lines, joined by line feeds.
    pub data: String,
}

/// A frame exceeded the reader's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTooLong {
    pub limit: usize,
}

impl fmt::Display for FrameTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of the stream is longer than {} bytes", self.limit)
    }
}
impl std::error::Error for FrameTooLong {}

/// Reads frames from pieces of a stream. The same frames come out however the stream is cut. Lines may end in LF, CRLF or
/// CR; comments, `retry` and unknown fields are skipped; a frame that the stream's end cuts off is dropped, as the
/// standard says.
#[derive(Debug)]
pub struct Parser {
    limit: usize,
    line: Vec<u8>,
    /// The last byte was a CR: a LF right after it belongs to the same line end.
    after_cr: bool,
    /// Nothing was read yet: a byte order mark may come.
    at_start: bool,
    frame: SseFrame,
    has_data: bool,
    frame_bytes: usize,
}

impl Parser {
    /// `limit` bounds the bytes of one frame, so that a peer cannot fill the memory.
    pub fn new(limit: usize) -> Parser {
        Parser {
            limit,
            line: Vec::new(),
            after_cr: false,
            at_start: true,
            frame: SseFrame::default(),
            has_data: false,
            frame_bytes: 0,
        }
    }

    /// Takes the next piece of the stream and appends the frames it completes.
    pub fn push(&mut self, mut piece: &[u8], frames: &mut Vec<SseFrame>) -> Result<(), FrameTooLong> {
        while let Some(&first) = piece.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let end = piece.iter().position(|b| matches!(b, b'\n' | b'\r'));
            let (text, rest) = piece.split_at(end.unwrap_or(piece.len()));
            self.frame_bytes += text.len();
            if self.frame_bytes > self.limit {
                return Err(FrameTooLong { limit: self.limit });
            }
            self.line.extend_from_slice(text);
            let Some((ending, rest)) = rest.split_first() else { return Ok(()) };
            self.after_cr = *ending == b'\r';
            piece = rest;
            self.end_line(frames);
        }
        Ok(())
    }

    fn end_line(&mut self, frames: &mut Vec<SseFrame>) {
        let line = std::mem::take(&mut self.line);
        let mut text = line.as_slice();
        if std::mem::take(&mut self.at_start) {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        if text.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            if std::mem::take(&mut self.has_data) {
                frames.push(frame);
            }
            self.frame_bytes = 0;
        } else if text[0] == b':' {
            // A comment is no part of the frame it stands in: a stream may be kept alive by them for days.
            self.frame_bytes = self.frame_bytes.saturating_sub(line.len());
        } else {
            let colon = text.iter().position(|b| *b == b':');
            let (name, value) = text.split_at(colon.unwrap_or(text.len()));
            let value = value.strip_prefix(b":").unwrap_or(value);
            self.field(name, value.strip_prefix(b" ").unwrap_or(value));
        }
        // Keep the room for the next line.
        self.line = line;
        self.line.clear();
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let value = String::from_utf8_lossy(value);
        match name {
            b"data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(&value);
            }
            b"event" => self.frame.event = Some(value.into_owned()).filter(|event| !event.is_empty()),
            b"id" if !value.contains('\0') => self.frame.id = Some(value.into_owned()),
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
