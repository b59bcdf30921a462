//! Writing JSON by hand, straight into the bytes that go out.
//!
//! A [`Writer`] places commas and escapes; the caller places everything else. What it makes is [`Encoded`]: a list of
//! segments, nearly always one run of bytes. Only large content, which is kept beside the log, stands as a
//! [`Segment::Blob`] between two runs; the front fetches it and streams it through [`super::blob::Transform`]. A large file
//! stands as a [`Segment::File`], which the sender replaces by its bytes or its address: see [`Encoded::settled`].
//!
//! The output never contains a raw line break, so that every encoded value can be the `data:` line of an SSE frame.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use model::{Blob, BlobKind, Json, Part, Time};

use super::blob;
use super::stamp::stamp;

/// A piece of an encoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    Bytes(Bytes),
    /// Content to be fetched and transformed according to its kind. Quotes around it belong to the byte segments.
    Blob(Blob),
    /// A member of an object: a file.
    File(Box<LargeFile>),
}

/// A file that may be shown by its bytes or by its address, and the name of the member for either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeFile {
    pub blob: Blob,
    pub name: Option<String>,
    pub media_type: Option<String>,
    bytes_member: &'static str,
    url_member: &'static str,
}

/// An encoded value, ready to be framed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    pub segments: Vec<Segment>,
}

impl Encoded {
    pub fn from_bytes(bytes: impl Into<Bytes>) -> Encoded {
        Encoded { segments: vec![Segment::Bytes(bytes.into())] }
    }

    /// The whole value, when it holds no blob: the common case.
    pub fn as_bytes(&self) -> Option<&Bytes> {
        match self.segments.as_slice() {
            [Segment::Bytes(bytes)] => Some(bytes),
            _ => None,
        }
    }

    pub fn into_segments(self) -> Vec<Segment> {
        self.segments
    }

    /// How many bytes the value will have on the wire: exact without blobs, and exact for raw and data blobs; a text
    /// blob counts as if nothing in it were escaped.
    pub fn wire_len(&self) -> u64 {
        self.segments.iter().map(segment_len).sum()
    }

    pub fn has_blobs(&self) -> bool {
        self.segments.iter().any(|segment| matches!(segment, Segment::Blob(_) | Segment::File(_)))
    }

    /// The large files in it.
    pub fn files(&self) -> impl Iterator<Item = &LargeFile> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::File(file) => Some(&**file),
            Segment::Bytes(_) | Segment::Blob(_) => None,
        })
    }

    /// The same without files: each is a blob now, or its address where there is one.
    #[must_use]
    pub fn settled(self, mut address: impl FnMut(&LargeFile) -> Option<String>) -> Encoded {
        if self.files().next().is_none() {
            return self;
        }
        let mut w = Writer::with_capacity(1_024);
        for segment in self.segments {
            match segment {
                Segment::Bytes(bytes) => w.buf.extend_from_slice(&bytes),
                Segment::Blob(blob) => w.push_blob(&blob),
                Segment::File(file) => {
                    // The comma before it is written.
                    w.comma = false;
                    match address(&file) {
                        Some(url) => w.key(file.url_member).string(&url),
                        None => w.key(file.bytes_member).blob(&file.blob),
                    }
                }
            }
        }
        w.finish()
    }
}

fn segment_len(segment: &Segment) -> u64 {
    match segment {
        Segment::Bytes(bytes) => bytes.len() as u64,
        Segment::Blob(blob) => blob_len(blob),
        Segment::File(file) => file_len(file),
    }
}

/// As if it were shown by its bytes: no address is longer than a large file.
fn file_len(file: &LargeFile) -> u64 {
    file.bytes_member.len() as u64 + 5 + blob_len(&file.blob)
}

fn blob_len(blob: &Blob) -> u64 {
    match blob.kind {
        BlobKind::Raw => blob.len.div_ceil(3) * 4,
        BlobKind::Text | BlobKind::Data | BlobKind::Object => blob.len,
    }
}

/// Drives JSON out, token by token.
///
/// ```
/// let mut w = dialects::framing::json::Writer::new();
/// w.begin_object();
/// w.key("name").string("a \"b\"");
/// w.key("sizes").begin_array();
/// w.u64(1);
/// w.u64(2);
/// w.end_array();
/// w.end_object();
/// assert_eq!(w.finish().as_bytes().unwrap().as_ref(), br#"{"name":"a \"b\"","sizes":[1,2]}"#);
/// ```
#[derive(Debug, Default)]
pub struct Writer {
    buf: Vec<u8>,
    done: Vec<Segment>,
    /// Bytes on the wire of the segments in `done`.
    done_len: u64,
    /// Whether the next key or element needs a comma before it. One flag is enough: a container ends needing one.
    comma: bool,
}

impl Writer {
    pub fn new() -> Writer {
        Writer::with_capacity(512)
    }

    pub fn with_capacity(bytes: usize) -> Writer {
        Writer { buf: Vec::with_capacity(bytes), done: Vec::new(), done_len: 0, comma: false }
    }

    /// Continues after bytes that were written elsewhere, such as the head of an envelope. The first value follows directly.
    pub fn after(head: Vec<u8>) -> Writer {
        Writer { buf: head, done: Vec::new(), done_len: 0, comma: false }
    }

    /// Bytes written so far, large content counted in.
    pub fn wire_len(&self) -> u64 {
        self.done_len + self.buf.len() as u64
    }

    fn separate(&mut self) {
        if self.comma {
            self.buf.push(b',');
        }
        self.comma = true;
    }

    pub fn begin_object(&mut self) {
        self.separate();
        self.buf.push(b'{');
        self.comma = false;
    }

    pub fn end_object(&mut self) {
        self.buf.push(b'}');
        self.comma = true;
    }

    pub fn begin_array(&mut self) {
        self.separate();
        self.buf.push(b'[');
        self.comma = false;
    }

    pub fn end_array(&mut self) {
        self.buf.push(b']');
        self.comma = true;
    }

    /// A member's name. Returns the writer, so that the value can follow on the same line.
    pub fn key(&mut self, name: &str) -> &mut Writer {
        self.separate();
        self.buf.push(b'"');
        escape_into(&mut self.buf, name);
        self.buf.extend_from_slice(b"\":");
        self.comma = false;
        self
    }

    pub fn string(&mut self, text: &str) {
        self.separate();
        self.buf.reserve(text.len() + 2);
        self.buf.push(b'"');
        escape_into(&mut self.buf, text);
        self.buf.push(b'"');
    }

    /// A string known to need no escapes: a literal of ours, an id, a time.
    pub fn plain(&mut self, text: &str) {
        debug_assert!(first_special(text.as_bytes()).is_none(), "{text:?} needs escapes");
        self.separate();
        self.buf.push(b'"');
        self.buf.extend_from_slice(text.as_bytes());
        self.buf.push(b'"');
    }

    /// JSON text, as it is. It must be one value, and hold no raw line break.
    pub fn raw(&mut self, json: &str) {
        self.separate();
        self.buf.extend_from_slice(json.as_bytes());
    }

    /// Opaque JSON. A line break between its tokens becomes a space; all else stays as it is.
    pub fn json(&mut self, json: &Json) {
        self.separate();
        blob::flatten_into(&mut self.buf, json.text().as_bytes());
    }

    /// The members of an opaque object, without its braces: more may follow.
    pub(crate) fn members(&mut self, object: &Json) {
        let inside = object.text().strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or("").trim();
        if !inside.is_empty() {
            self.separate();
            blob::flatten_into(&mut self.buf, inside.as_bytes());
        }
    }

    /// A member that is left out when there is nothing to say.
    pub fn optional(&mut self, name: &str, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.key(name).string(text);
        }
    }

    /// A list of strings, left out when it is empty.
    pub(crate) fn strings(&mut self, name: &str, list: &[String]) {
        if !list.is_empty() {
            self.key(name).begin_array();
            for text in list {
                self.string(text);
            }
            self.end_array();
        }
    }

    pub fn u64(&mut self, number: u64) {
        self.raw(itoa::Buffer::new().format(number));
    }

    pub fn i64(&mut self, number: i64) {
        self.raw(itoa::Buffer::new().format(number));
    }

    pub fn bool(&mut self, value: bool) {
        self.raw(if value { "true" } else { "false" });
    }

    pub fn null(&mut self) {
        self.raw("null");
    }

    /// Bytes as a string of standard, padded base64.
    pub fn base64(&mut self, bytes: &[u8]) {
        self.separate();
        self.buf.push(b'"');
        base64_into(&mut self.buf, bytes);
        self.buf.push(b'"');
    }

    /// Anything that prints, as a string.
    pub fn display(&mut self, value: impl fmt::Display) {
        self.separate();
        self.buf.push(b'"');
        // Writing into memory fails only if `value` itself says so; what it printed until then stands.
        let _ = fmt::Write::write_fmt(&mut Escaping(&mut self.buf), format_args!("{value}"));
        self.buf.push(b'"');
    }

    /// A time, in UTC with milliseconds.
    pub fn time(&mut self, time: Time) {
        match stamp(time) {
            Some(text) => {
                self.separate();
                self.buf.push(b'"');
                self.buf.extend_from_slice(&text);
                self.buf.push(b'"');
            }
            None => self.display(time),
        }
    }

    /// Large content, to be streamed in by the front: raw as base64 and text escaped, both in quotes; data as it is.
    pub fn blob(&mut self, blob: &Blob) {
        self.separate();
        let quoted = match blob.kind {
            BlobKind::Raw | BlobKind::Text => true,
            BlobKind::Data | BlobKind::Object => false,
        };
        if quoted {
            self.buf.push(b'"');
        }
        self.push_blob(blob);
        if quoted {
            self.buf.push(b'"');
        }
    }

    fn push_blob(&mut self, blob: &Blob) {
        self.end_segment();
        self.done_len += blob_len(blob);
        self.done.push(Segment::Blob(*blob));
    }

    /// A member that is a large file: under the first name its bytes, under the second its address.
    pub fn file(&mut self, [bytes_member, url_member]: [&'static str; 2], blob: &Blob, part: &Part) {
        self.separate();
        self.end_segment();
        let (name, media_type) = (part.filename.clone(), part.media_type.clone());
        let file = LargeFile { blob: *blob, name, media_type, bytes_member, url_member };
        self.done_len += file_len(&file);
        self.done.push(Segment::File(Box::new(file)));
    }

    fn end_segment(&mut self) {
        if !self.buf.is_empty() {
            let bytes = std::mem::take(&mut self.buf);
            self.done_len += bytes.len() as u64;
            self.done.push(Segment::Bytes(bytes.into()));
        }
    }

    /// The written value. A value without blobs is one segment of bytes.
    pub fn finish(mut self) -> Encoded {
        if self.done.is_empty() {
            return Encoded::from_bytes(self.buf);
        }
        self.end_segment();
        Encoded { segments: self.done }
    }
}

struct Escaping<'a>(&'a mut Vec<u8>);

impl fmt::Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape_into(self.0, text);
        Ok(())
    }
}

/// Appends base64 of `bytes`: standard alphabet, padded.
pub fn base64_into(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // The room was made to measure, so it cannot be too small.
    let written = STANDARD.encode_slice(bytes, &mut out[start..]).unwrap_or(0);
    out.truncate(start + written);
}

/// Appends `text` as the inside of a JSON string. Only what must be escaped is; other text passes as it is.
pub fn escape_into(out: &mut Vec<u8>, text: &str) {
    escape_bytes_into(out, text.as_bytes());
}

/// As [`escape_into`], for a run of bytes that may end amid a character: text that comes in pieces.
pub fn escape_bytes_into(out: &mut Vec<u8>, mut bytes: &[u8]) {
    while let Some(at) = first_special(bytes) {
        let (clean, rest) = bytes.split_at(at);
        out.extend_from_slice(clean);
        let Some((special, rest)) = rest.split_first() else { return };
        match special {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let (high, low) = (usize::from(control >> 4), usize::from(control & 15));
                out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[high], HEX[low]]);
            }
        }
        bytes = rest;
    }
    out.extend_from_slice(bytes);
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// A word's bytes that are below `n` (at most 128), as their high bits. Bits above the first true one may be false, which
/// is why callers only ask whether there is any and then look byte by byte.
const fn below(word: u64, n: u8) -> u64 {
    word.wrapping_sub(ONES * n as u64) & !word & HIGHS
}

pub(super) const fn has(word: u64, byte: u8) -> bool {
    below(word ^ (ONES * byte as u64), 1) != 0
}

/// The place of the first byte that cannot stand in a JSON string as it is. Looks at eight bytes at a time: strings are
/// most of what is written, and few hold anything to escape.
fn first_special(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        let word = u64::from_le_bytes(eight);
        if below(word, 0x20) != 0 || has(word, b'"') || has(word, b'\\') {
            break;
        }
        at += 8;
    }
    bytes[at..].iter().position(|b| matches!(b, 0..0x20 | b'"' | b'\\')).map(|i| at + i)
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
