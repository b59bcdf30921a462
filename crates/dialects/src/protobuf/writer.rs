//! Writes protobuf messages field by field, straight into the bytes that go out.
//!
//! A nested message is written in place: its length is filled in when it is complete. Fields that equal their default are
//! left out, except by the methods that say otherwise.

use std::fmt;

use bytes::Bytes;
use model::{Blob, Json, Part, Time};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

use super::value;

/// Supplies the content of parts whose content is not in the task itself. A message names its length before its content,
/// so everything is loaded before it is written.
pub type Contents<'a> = dyn Fn(&Blob, &Part) -> LoadedContent + Sync + 'a;

/// Content of a part, loaded for one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadedContent {
    /// The bytes of the blob: text, a file, or JSON.
    Bytes(Bytes),
    /// The address of a file that is too large to be sent.
    Address(String),
}

/// A message that is being written.
pub struct ProtoWriter<'c> {
    buf: Vec<u8>,
    contents: &'c Contents<'c>,
}

impl fmt::Debug for ProtoWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtoWriter").field("bytes", &self.buf.len()).finish_non_exhaustive()
    }
}

/// For messages without large content.
fn no_content(_: &Blob, _: &Part) -> LoadedContent {
    LoadedContent::Bytes(Bytes::new())
}

impl Default for ProtoWriter<'_> {
    fn default() -> Self {
        ProtoWriter::with_capacity(512)
    }
}

impl<'c> ProtoWriter<'c> {
    pub fn with_capacity(bytes: usize) -> ProtoWriter<'c> {
        ProtoWriter { buf: Vec::with_capacity(bytes), contents: &no_content }
    }

    /// A writer with the content of the parts that refer to large content.
    pub fn with_contents(bytes: usize, contents: &'c Contents<'c>) -> ProtoWriter<'c> {
        ProtoWriter { buf: Vec::with_capacity(bytes), contents }
    }

    pub fn finish(self) -> Vec<u8> {
        self.buf
    }

    pub(crate) fn loaded(&self, blob: &Blob, part: &Part) -> LoadedContent {
        (self.contents)(blob, part)
    }

    /// A nested message, also an empty one.
    pub fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        let start = self.begin(field);
        write(self);
        self.end(start);
    }

    /// Begins a nested message; [`ProtoWriter::end`] fills in its length.
    fn begin(&mut self, field: u32) -> usize {
        encode_key(field, WireType::LengthDelimited, &mut self.buf);
        self.buf.push(0);
        self.buf.len()
    }

    fn end(&mut self, start: usize) {
        let length = self.buf.len() - start;
        let width = encoded_len_varint(length as u64);
        if width > 1 {
            self.buf.resize(self.buf.len() + width - 1, 0);
            self.buf.copy_within(start..start + length, start + width - 1);
        }
        let mut room = &mut self.buf[start - 1..start - 1 + width];
        encode_varint(length as u64, &mut room);
    }

    /// A string that is left out when it is empty.
    pub fn string(&mut self, field: u32, text: &str) {
        if !text.is_empty() {
            self.present_bytes(field, text.as_bytes());
        }
    }

    pub fn optional(&mut self, field: u32, text: Option<&str>) {
        self.string(field, text.unwrap_or_default());
    }

    /// A string or bytes with presence, such as a member of a `oneof`.
    pub fn present_bytes(&mut self, field: u32, bytes: &[u8]) {
        encode_key(field, WireType::LengthDelimited, &mut self.buf);
        encode_varint(bytes.len() as u64, &mut self.buf);
        self.buf.extend_from_slice(bytes);
    }

    pub fn strings(&mut self, field: u32, list: &[String]) {
        for text in list {
            self.present_bytes(field, text.as_bytes());
        }
    }

    /// An integer or the number of an enum value; 0 is left out.
    pub fn int(&mut self, field: u32, number: i64) {
        if number != 0 {
            self.present_int(field, number);
        }
    }

    pub fn present_int(&mut self, field: u32, number: i64) {
        encode_key(field, WireType::Varint, &mut self.buf);
        // Negative numbers take ten bytes, in every integer type that is not zigzag.
        encode_varint(number as u64, &mut self.buf);
    }

    /// `false` is left out.
    pub fn bool(&mut self, field: u32, value: bool) {
        self.int(field, i64::from(value));
    }

    pub fn present_bool(&mut self, field: u32, value: bool) {
        self.present_int(field, i64::from(value));
    }

    pub(super) fn double(&mut self, field: u32, number: f64) {
        encode_key(field, WireType::SixtyFourBit, &mut self.buf);
        self.buf.extend_from_slice(&number.to_le_bytes());
    }

    /// A `google.protobuf.Timestamp`.
    pub fn time(&mut self, field: u32, time: Time) {
        self.message(field, |w| {
            w.int(1, time.0.div_euclid(1_000));
            w.int(2, time.0.rem_euclid(1_000) * 1_000_000);
        });
    }

    /// An object as a `google.protobuf.Struct`.
    pub fn object(&mut self, field: u32, json: &Json) {
        value::write_object(self, field, json.text());
    }

    /// The text of an object, as a `google.protobuf.Struct`.
    pub(crate) fn object_text(&mut self, field: u32, json: &str) {
        value::write_object(self, field, json);
    }

    pub fn optional_object(&mut self, field: u32, json: Option<&Json>) {
        if let Some(json) = json {
            self.object(field, json);
        }
    }

    /// JSON of any kind as a `google.protobuf.Value`.
    pub fn value(&mut self, field: u32, json: &str) {
        value::write(self, field, json);
    }

    /// JSON of any kind as the one member of a `google.protobuf.Struct`.
    pub(crate) fn member(&mut self, field: u32, key: &str, json: &str) {
        value::write_member(self, field, key, json);
    }

    /// An entry of a map from strings to messages.
    pub fn entry(&mut self, field: u32, key: &str, value: impl FnOnce(&mut Self)) {
        self.message(field, |w| {
            w.string(1, key);
            w.message(2, value);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_every_width_are_filled_in() {
        for length in [0, 1, 127, 128, 129, 16_383, 16_384, 2_097_152] {
            let mut w = ProtoWriter::default();
            w.message(3, |w| w.message(1, |w| w.present_bytes(2, &vec![b'x'; length])));
            let bytes = w.finish();
            let mut fields = crate::protobuf::Fields::new(&bytes);
            let (number, outer) = fields.next_field().unwrap().unwrap();
            assert_eq!(number, 3);
            let mut inner = outer.message().unwrap();
            let mut innermost = inner.next_field().unwrap().unwrap().1.message().unwrap();
            let (number, text) = innermost.next_field().unwrap().unwrap();
            assert_eq!((number, text.bytes().unwrap().len()), (2, length));
            assert!(fields.next_field().unwrap().is_none());
        }
    }

    #[test]
    fn defaults_are_left_out_where_they_have_no_presence() {
        let mut w = ProtoWriter::default();
        w.string(1, "");
        w.int(2, 0);
        w.bool(3, false);
        w.strings(4, &[]);
        w.optional_object(5, None);
        assert!(w.finish().is_empty());
        let mut w = ProtoWriter::default();
        w.present_bytes(1, b"");
        w.present_bool(2, false);
        assert_eq!(w.finish(), [0x0a, 0, 0x10, 0]);
    }
}
