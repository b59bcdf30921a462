//! JSON as `google.protobuf.Struct` and `Value`, and back.
//!
//! These have no integers: a number is a double, so one beyond 2^53 loses digits, and one that no double holds (`1e400`) is
//! a string of its digits. Strings are UTF-8: half of a character stands as the text of its escape. Order and repeats of
//! members are kept in both directions. Readers of protobuf refuse messages that nest deeper than 100, where an object
//! counts three times and an array twice: what would nest deeper is written as a string of JSON.

use std::borrow::Cow;

use model::depth::after_string;
use model::{Fault, Json};

use super::reader::{FieldValue, Fields, unreadable};
use super::writer::ProtoWriter;
use crate::framing::json::escape_into;
use crate::framing::scan;

/// Levels of messages that a value may use below the field that holds it.
const LEVELS: u32 = 93;
/// Levels of an object (`Struct`, its entry, the entry's `Value`) and of an array (`ListValue`, its `Value`).
const OBJECT: u32 = 3;
const ARRAY: u32 = 2;

mod kind {
    pub(super) const NULL: u32 = 1;
    pub(super) const NUMBER: u32 = 2;
    pub(super) const STRING: u32 = 3;
    pub(super) const BOOL: u32 = 4;
    pub(super) const OBJECT: u32 = 5;
    pub(super) const ARRAY: u32 = 6;
}

/// Writes a JSON value as a field of the type `Value`.
pub(super) fn write(w: &mut ProtoWriter<'_>, field: u32, json: &str) {
    w.message(field, |w| JsonText::new(json).value(w, LEVELS));
}

/// Writes a JSON object as a field of the type `Struct`; what is no object becomes an empty one.
pub(super) fn write_object(w: &mut ProtoWriter<'_>, field: u32, json: &str) {
    w.message(field, |w| JsonText::new(json).object(w, LEVELS));
}

/// Writes a JSON value as the one member of a field of the type `Struct`.
pub(super) fn write_member(w: &mut ProtoWriter<'_>, field: u32, key: &str, json: &str) {
    w.message(field, |w| entry(w, key, |w| JsonText::new(json).value(w, LEVELS - OBJECT)));
}

/// An entry of a `Struct`.
fn entry<'c>(w: &mut ProtoWriter<'c>, key: &str, value: impl FnOnce(&mut ProtoWriter<'c>)) {
    w.message(1, |w| {
        w.string(1, key);
        w.message(2, value);
    });
}

/// JSON text that is turned into messages as it is walked through.
///
/// The text was checked to be JSON when it was received. That check lets pass what a parser into types refuses: numbers
/// that no double holds, and halves of characters. So nothing here can fail: whatever stands in the text, each message
/// that is begun is ended.
struct JsonText<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> JsonText<'t> {
    fn new(text: &'t str) -> JsonText<'t> {
        JsonText { text, at: 0 }
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).unwrap_or(rest.len());
        self.text.as_bytes().get(self.at).copied()
    }

    /// The text from here to `end`.
    fn up_to(&mut self, end: usize) -> &'t str {
        let start = std::mem::replace(&mut self.at, end.min(self.text.len()));
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Writes the one field that a `Value` has.
    fn value(&mut self, w: &mut ProtoWriter<'_>, levels: u32) {
        match self.peek() {
            Some(b'{' | b'[') if levels < OBJECT => {
                let end = scan::after_value(self.text.as_bytes(), self.at);
                w.present_bytes(kind::STRING, self.up_to(end).trim_ascii_end().as_bytes());
            }
            Some(b'{') => w.message(kind::OBJECT, |w| self.object(w, levels)),
            Some(b'[') => w.message(kind::ARRAY, |w| self.array(w, levels)),
            Some(b'"') => w.present_bytes(kind::STRING, self.string().as_bytes()),
            Some(_) | None => scalar(w, self.word()),
        }
    }

    /// Writes the entries of a `Struct`.
    fn object(&mut self, w: &mut ProtoWriter<'_>, levels: u32) {
        if self.peek() != Some(b'{') {
            return;
        }
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    let key = self.string();
                    if self.peek() == Some(b':') {
                        self.at += 1;
                    }
                    entry(w, &key, |w| self.value(w, levels - OBJECT));
                }
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return;
                }
                Some(_) | None => return,
            }
        }
    }

    /// Writes the entries of a `ListValue`.
    fn array(&mut self, w: &mut ProtoWriter<'_>, levels: u32) {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return;
                }
                Some(_) => w.message(1, |w| self.value(w, levels - ARRAY)),
                None => return,
            }
        }
    }

    /// The string that begins here.
    fn string(&mut self) -> Cow<'t, str> {
        let quoted = self.up_to(after_string(self.text.as_bytes(), self.at + 1));
        let inside = quoted.strip_prefix('"').unwrap_or(quoted);
        let inside = inside.strip_suffix('"').unwrap_or(inside);
        if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
            return Cow::Borrowed(inside);
        }
        let unescaped = serde_json::from_str(quoted).or_else(|_| serde_json::from_str(&scan::keep_halves(quoted)));
        Cow::Owned(unescaped.unwrap_or_else(|_| inside.to_owned()))
    }

    /// The number or name that begins here. At least a byte is taken, so that every walk comes to its end.
    fn word(&mut self) -> &'t str {
        let is_end =
            |byte: &u8| matches!(byte, b',' | b':' | b']' | b'}' | b'[' | b'{' | b'"') || byte.is_ascii_whitespace();
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        match rest.iter().position(is_end).unwrap_or(rest.len()) {
            0 => {
                self.at = self.text.len().min(self.at + 1);
                ""
            }
            length => self.up_to(self.at + length),
        }
    }
}

/// Writes a number or a name. A number that no double holds is a string of its digits.
fn scalar(w: &mut ProtoWriter<'_>, word: &str) {
    let number = word.parse().ok().filter(|number: &f64| number.is_finite());
    match (word, number) {
        ("null" | "", _) => w.present_int(kind::NULL, 0),
        ("true", _) => w.present_bool(kind::BOOL, true),
        ("false", _) => w.present_bool(kind::BOOL, false),
        (_, Some(number)) => w.double(kind::NUMBER, number),
        (_, None) => w.present_bytes(kind::STRING, word.as_bytes()),
    }
}

/// Reads a `Struct` of at most `depth` levels of objects and arrays.
pub fn read_object(message: FieldValue<'_>, name: &'static str, depth: usize) -> Result<Json, Fault> {
    let mut text = Vec::with_capacity(message.bytes()?.len() + 16);
    let reader = ValueReader { name, most: depth };
    reader.object(message.message()?, &mut text, depth)?;
    reader.json(text)
}

/// Reads a `Value`.
pub fn read_value(message: FieldValue<'_>, name: &'static str, depth: usize) -> Result<Json, Fault> {
    let mut text = Vec::with_capacity(message.bytes()?.len() + 16);
    let reader = ValueReader { name, most: depth };
    reader.value(message.message()?, &mut text, depth)?;
    reader.json(text)
}

/// Writes JSON text of what it reads.
struct ValueReader {
    /// The field that holds the value, for faults.
    name: &'static str,
    most: usize,
}

impl ValueReader {
    fn json(&self, text: Vec<u8>) -> Result<Json, Fault> {
        let json = String::from_utf8(text).ok().and_then(|text| Json::parse(&text));
        json.ok_or_else(|| unreadable(format_args!("{} is no JSON", self.name)))
    }

    fn deeper(&self, depth: usize) -> Result<usize, Fault> {
        depth.checked_sub(1).ok_or_else(|| {
            let name = self.name;
            Fault::params(name, format!("{name} nests deeper than {} levels, which is the limit here", self.most))
        })
    }

    fn object(&self, mut fields: Fields<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Fault> {
        let depth = self.deeper(depth)?;
        out.push(b'{');
        let mut is_first = true;
        while let Some((number, entry)) = fields.next_field()? {
            if number != 1 {
                continue;
            }
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            let (mut key, mut value) = (None, None);
            let mut members = entry.message()?;
            while let Some((number, member)) = members.next_field()? {
                match number {
                    1 => key = Some(member.text(self.name)?),
                    2 => value = Some(member.message()?),
                    _ => {}
                }
            }
            out.push(b'"');
            escape_into(out, key.as_ref().map_or("", |key| &key.0));
            out.extend_from_slice(b"\":");
            match value {
                Some(value) => self.value(value, out, depth)?,
                None => out.extend_from_slice(b"null"),
            }
        }
        out.push(b'}');
        Ok(())
    }

    fn array(&self, mut fields: Fields<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Fault> {
        let depth = self.deeper(depth)?;
        out.push(b'[');
        let mut is_first = true;
        while let Some((number, value)) = fields.next_field()? {
            if number == 1 {
                if !std::mem::take(&mut is_first) {
                    out.push(b',');
                }
                self.value(value.message()?, out, depth)?;
            }
        }
        out.push(b']');
        Ok(())
    }

    /// A `Value` without a kind is null. Of several kinds the last one counts, as everywhere in protobuf.
    fn value(&self, mut fields: Fields<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), Fault> {
        let mut found = None;
        while let Some((number, value)) = fields.next_field()? {
            if (kind::NULL..=kind::ARRAY).contains(&number) {
                found = Some((number, value));
            }
        }
        match found {
            Some((kind::NUMBER, value)) => self.number(value.double()?, out)?,
            Some((kind::STRING, value)) => {
                out.push(b'"');
                escape_into(out, &value.text(self.name)?.0);
                out.push(b'"');
            }
            Some((kind::BOOL, value)) => out.extend_from_slice(if value.bool()? { b"true" } else { b"false" }),
            Some((kind::OBJECT, value)) => self.object(value.message()?, out, depth)?,
            Some((kind::ARRAY, value)) => self.array(value.message()?, out, depth)?,
            Some(_) | None => out.extend_from_slice(b"null"),
        }
        Ok(())
    }

    /// A double that is an integer is written as one.
    fn number(&self, number: f64, out: &mut Vec<u8>) -> Result<(), Fault> {
        /// The integers up to here are doubles.
        const WHOLE: f64 = 9_007_199_254_740_992.0;
        if number.fract() == 0.0 && number.abs() <= WHOLE && !(number == 0.0 && number.is_sign_negative()) {
            out.extend_from_slice(itoa::Buffer::new().format(number as i64).as_bytes());
            return Ok(());
        }
        match serde_json::Number::from_f64(number) {
            Some(number) => out.extend_from_slice(number.to_string().as_bytes()),
            None => {
                let name = self.name;
                return Err(Fault::params(name, format!("{name} has a number that is not finite; JSON has none")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::Kind;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn written(json: &str) -> Vec<u8> {
        let mut w = ProtoWriter::default();
        w.value(1, json);
        w.finish()
    }

    fn back(bytes: &[u8], depth: usize) -> Result<Json, Fault> {
        let (_, field) = Fields::new(bytes).next_field()?.unwrap();
        read_value(field, "data", depth)
    }

    #[test]
    fn values_come_back_in_their_order() {
        for text in [
            "null",
            "true",
            "false",
            "0",
            "-7",
            "1.5",
            "\"\"",
            "\"a\\\"b\\n\"",
            "[]",
            "{}",
            r#"{"z":1,"a":null,"m":[{"k":[]},"x",[[]]],"":{"":{}}}"#,
            r#"{"a":1,"a":2}"#,
        ] {
            assert_eq!(back(&written(text), 48).unwrap().text(), text);
        }
        assert_eq!(back(&written("1.0"), 48).unwrap().text(), "1");
        assert_eq!(back(&written("12345678901234567890123"), 48).unwrap().text(), "1.2345678901234568e+22");
    }

    #[test]
    fn a_number_that_no_double_holds_is_a_string_of_its_digits() {
        for number in ["1e400", "-1e400", "123E+4567", &"9".repeat(400)] {
            assert_eq!(back(&written(number), 48).unwrap().text(), format!("\"{number}\""));
        }
        let digits = format!("0.{}1", "0".repeat(400));
        for (number, held) in [("1e-400", "0"), ("1e308", "1e+308"), (&digits, "0"), ("-0", "-0.0")] {
            assert_eq!(back(&written(number), 48).unwrap().text(), held);
        }
    }

    #[test]
    fn half_of_a_character_is_the_text_of_its_escape() {
        for (text, read) in [
            (r#""\ud800""#, r#""\\ud800""#),
            (r#""\n\ud83d\uDE00\uDE00x""#, "\"\\n😀\\\\uDE00x\""),
            (r#""\ud800\ud800\udc00""#, "\"\\\\ud800𐀀\""),
            (r#""\\\udfff""#, r#""\\\\udfff""#),
            (r#"{"\udead":["\ud800\u0041"]}"#, r#"{"\\udead":["\\ud800A"]}"#),
        ] {
            assert_eq!(back(&written(text), 48).unwrap().text(), read, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_still_written_as_a_value() {
        for (text, read) in [
            ("", "null"),
            ("NaN", "\"NaN\""),
            ("inf", "\"inf\""),
            ("\"x", "\"x\""),
            ("{\"a\"", r#"{"a":null}"#),
            ("{\"a\":,}", r#"{"a":null}"#),
            ("[1 2,,}:", r#"[1,2,null,null]"#),
            ("[{\"a\":[\"b\\é\" x", r#"[{"a":["b\\é","x"]}]"#),
        ] {
            assert_eq!(back(&written(text), 48).unwrap().text(), read, "{text}");
        }
    }

    #[test]
    fn what_nests_too_deep_for_readers_of_protobuf_is_a_string_of_json() {
        let deep = |levels: usize| format!("{}1{}", "{\"a\":".repeat(levels), "}".repeat(levels));
        let fits = (LEVELS / OBJECT) as usize;
        assert_eq!(back(&written(&deep(fits)), 128).unwrap().text(), deep(fits));
        let cut = back(&written(&deep(fits + 2)), 128).unwrap().to_value();
        let innermost = (0..fits).fold(&cut, |value, _| &value["a"]);
        assert_eq!(innermost, &json!(deep(2)));
        let array = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(back(&written(&array), 128).unwrap().text().ends_with(&"]".repeat(40)));
    }

    #[test]
    fn nesting_is_read_up_to_a_limit() {
        // Written from the inside out: ten thousand objects, one in another.
        let mut message = Vec::new();
        for _ in 0..10_000 {
            let mut w = ProtoWriter::default();
            w.message(5, |w| w.message(1, |w| w.present_bytes(2, &message)));
            message = w.finish();
        }
        let fault = read_value(FieldValue::Bytes(&message), "data", 48).unwrap_err();
        assert_eq!((fault.kind, fault.field.as_deref()), (Kind::InvalidParams, Some("data")));
    }

    #[test]
    fn numbers_that_json_does_not_have_are_refused() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut w = ProtoWriter::default();
            w.message(1, |w| w.double(kind::NUMBER, number));
            assert_eq!(back(&w.finish(), 48).unwrap_err().kind, Kind::InvalidParams);
        }
    }

    fn any_json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(|b| json!(b)),
            any::<i32>().prop_map(|n| json!(n)),
            any::<f64>().prop_filter("finite", |n| n.is_finite() && n.fract() != 0.0).prop_map(|n| json!(n)),
            ".{0,12}".prop_map(|s| json!(s)),
        ];
        leaf.prop_recursive(5, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(|list| json!(list)),
                prop::collection::btree_map(".{0,6}", inner, 0..6).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_comes_back(value in any_json()) {
            prop_assert_eq!(back(&written(&value.to_string()), 48).unwrap().to_value(), value);
        }

        #[test]
        fn any_text_is_written_as_a_value(text in r#"(["\\a1e:,é \[\]{}-]|\\ud800|null|true){0,60}"#) {
            prop_assert!(back(&written(&text), 128).is_ok());
            let mut w = ProtoWriter::default();
            w.object_text(1, &text);
            let bytes = w.finish();
            let (_, field) = Fields::new(&bytes).next_field().unwrap().unwrap();
            prop_assert!(read_object(field, "metadata", 128).is_ok());
        }

        #[test]
        fn any_bytes_are_a_value_or_a_fault(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_value(FieldValue::Bytes(&bytes), "data", 48);
            let _ = read_object(FieldValue::Bytes(&bytes), "data", 48);
        }
    }
}
