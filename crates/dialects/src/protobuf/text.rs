//! The text form of protobuf messages, for people: every field by its name, as `protoc --decode` prints it.
//!
//! Names and types are those of [`DESCRIPTORS`]. Strings are shown as UTF-8, bytes with octal escapes. Fields that the
//! definitions do not have are left out.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::LazyLock;

use model::{Fault, Kind};

use super::DESCRIPTORS;
use super::reader::{FieldValue, Fields, unreadable};

/// Messages in messages; the writers have lower limits.
const DEPTH: usize = 512;

/// A field of a message.
struct FieldDefinition {
    name: String,
    /// The number of `FieldDescriptorProto.Type`.
    kind: i32,
    /// The message or enum that its value is of, without the leading dot.
    of: String,
}

/// Messages by their full name, each with its fields by number; enums likewise, with the names of their values.
#[derive(Default)]
struct TypeDefinitions {
    messages: HashMap<String, HashMap<u32, FieldDefinition>>,
    enums: HashMap<String, HashMap<i32, String>>,
}

static TYPES: LazyLock<TypeDefinitions> = LazyLock::new(|| TypeDefinitions::read(DESCRIPTORS).unwrap_or_default());

impl TypeDefinitions {
    /// Reads a FileDescriptorSet.
    fn read(set: &[u8]) -> Result<TypeDefinitions, Fault> {
        let mut all = TypeDefinitions::default();
        for (number, file) in fields(Fields::new(set))? {
            if number != 1 {
                continue;
            }
            let file = fields(file.message()?)?;
            let package = string(&file, 2)?;
            all.add(&package, &file, [4, 5])?;
        }
        Ok(all)
    }

    /// Adds the messages and enums of a file, or of a message; `numbers` are those of the two members.
    fn add(&mut self, scope: &str, members: &[(u32, FieldValue<'_>)], numbers: [u32; 2]) -> Result<(), Fault> {
        for (number, value) in members {
            if *number == numbers[0] {
                let message = fields(value.message()?)?;
                let name = format!("{scope}.{}", string(&message, 1)?);
                let mut known = HashMap::new();
                for (_, field) in message.iter().filter(|(number, _)| *number == 2) {
                    let field = fields(field.message()?)?;
                    let of = string(&field, 6)?.trim_start_matches('.').to_owned();
                    let definition = FieldDefinition { name: string(&field, 1)?, kind: int(&field, 5)?, of };
                    known.insert(int(&field, 3)? as u32, definition);
                }
                self.add(&name, &message, [3, 4])?;
                self.messages.insert(name, known);
            } else if *number == numbers[1] {
                let one = fields(value.message()?)?;
                let mut values = HashMap::new();
                for (_, value) in one.iter().filter(|(number, _)| *number == 2) {
                    let value = fields(value.message()?)?;
                    values.insert(int(&value, 2)?, string(&value, 1)?);
                }
                self.enums.insert(format!("{scope}.{}", string(&one, 1)?), values);
            }
        }
        Ok(())
    }
}

fn fields(mut message: Fields<'_>) -> Result<Vec<(u32, FieldValue<'_>)>, Fault> {
    let mut all = Vec::new();
    while let Some(field) = message.next_field()? {
        all.push(field);
    }
    Ok(all)
}

fn string(fields: &[(u32, FieldValue<'_>)], number: u32) -> Result<String, Fault> {
    let found = fields.iter().find(|(known, _)| *known == number);
    found.map_or(Ok(String::new()), |(_, value)| value.string("name"))
}

fn int(fields: &[(u32, FieldValue<'_>)], number: u32) -> Result<i32, Fault> {
    match fields.iter().find(|(known, _)| *known == number) {
        Some((_, FieldValue::Varint(value))) => Ok(*value as i32),
        Some(_) | None => Ok(0),
    }
}

/// A message of the type with this full name as text.
///
/// # Errors
/// Bytes that are no such message, and a text of more than `most` bytes.
pub fn of(name: &str, message: &[u8], most: usize) -> Result<String, Fault> {
    let mut writer = TextWriter { out: String::with_capacity(message.len().saturating_mul(2).min(most)), most };
    writer.message(name, message, 0)?;
    Ok(writer.out)
}

struct TextWriter {
    out: String,
    most: usize,
}

impl TextWriter {
    fn message(&mut self, name: &str, message: &[u8], depth: usize) -> Result<(), Fault> {
        if depth > DEPTH {
            return Err(unreadable("it nests too deeply"));
        }
        let known = TYPES.messages.get(name).ok_or_else(|| unreadable(format_args!("{name} is not defined")))?;
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next_field()? {
            let Some(field) = known.get(&number) else { continue };
            self.field(field, value, depth)?;
            if self.out.len() > self.most {
                let says = format!("the text of the message has more than {} bytes", self.most);
                return Err(Fault::new(Kind::TooLarge, says));
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &FieldDefinition, value: FieldValue<'_>, depth: usize) -> Result<(), Fault> {
        // A list of numbers may stand in one field.
        if let (FieldValue::Bytes(packed), true) = (value, is_number(field.kind)) {
            return self.packed(field, packed, depth);
        }
        self.indent(depth);
        self.out.push_str(&field.name);
        match (field.kind, value) {
            (11, FieldValue::Bytes(bytes)) => {
                self.out.push_str(" {\n");
                self.message(&field.of, bytes, depth + 1)?;
                self.indent(depth);
                self.out.push_str("}\n");
                return Ok(());
            }
            (9, FieldValue::Bytes(_)) => {
                self.out.push_str(": ");
                self.quoted(&value.string("text")?);
            }
            (12, FieldValue::Bytes(bytes)) => {
                self.out.push_str(": ");
                self.quoted_bytes(bytes);
            }
            (14, FieldValue::Varint(number)) => {
                let number = number as i32;
                let named = TYPES.enums.get(&field.of).and_then(|values| values.get(&number));
                match named {
                    Some(named) => self.say(format_args!(": {named}")),
                    None => self.say(format_args!(": {number}")),
                }
            }
            (kind, value) => match number(kind, value) {
                Some(text) => self.say(format_args!(": {text}")),
                None => return Err(unreadable(format_args!("{} has another wire type", field.name))),
            },
        }
        self.out.push('\n');
        Ok(())
    }

    fn packed(&mut self, field: &FieldDefinition, mut packed: &[u8], depth: usize) -> Result<(), Fault> {
        while !packed.is_empty() {
            let value = match field.kind {
                1 | 6 | 16 => split(&mut packed).map(u64::from_le_bytes).map(FieldValue::Fixed64),
                2 | 7 | 15 => split(&mut packed).map(u32::from_le_bytes).map(FieldValue::Fixed32),
                _ => prost::encoding::decode_varint(&mut packed).ok().map(FieldValue::Varint),
            };
            self.field(field, value.ok_or_else(|| unreadable("a list is cut off"))?, depth)?;
        }
        Ok(())
    }

    fn say(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.out.write_fmt(text);
    }

    fn indent(&mut self, depth: usize) {
        self.out.extend(std::iter::repeat_n("  ", depth));
    }

    fn quoted(&mut self, text: &str) {
        self.out.push('"');
        for letter in text.chars() {
            match letter {
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '"' => self.out.push_str("\\\""),
                '\'' => self.out.push_str("\\'"),
                '\\' => self.out.push_str("\\\\"),
                control if control.is_ascii_control() => self.say(format_args!("\\{:03o}", u32::from(control))),
                other => self.out.push(other),
            }
        }
        self.out.push('"');
    }

    fn quoted_bytes(&mut self, bytes: &[u8]) {
        self.out.push('"');
        for byte in bytes {
            match byte {
                b'\n' => self.out.push_str("\\n"),
                b'\r' => self.out.push_str("\\r"),
                b'\t' => self.out.push_str("\\t"),
                b'"' | b'\'' | b'\\' => {
                    self.out.push('\\');
                    self.out.push(char::from(*byte));
                }
                b' '..=b'~' => self.out.push(char::from(*byte)),
                other => self.say(format_args!("\\{other:03o}")),
            }
        }
        self.out.push('"');
    }
}

/// Whether values of a type are numbers, of which a list may be packed.
fn is_number(kind: i32) -> bool {
    !matches!(kind, 9..=12)
}

fn split<const N: usize>(packed: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = packed.split_first_chunk::<N>()?;
    *packed = rest;
    Some(*first)
}

/// A number as text; none for a value of another wire type.
fn number(kind: i32, value: FieldValue<'_>) -> Option<String> {
    let zigzag = |n: u64| (n >> 1) as i64 ^ -((n & 1) as i64);
    Some(match (kind, value) {
        (1, FieldValue::Fixed64(bits)) => float(f64::from_bits(bits)),
        (2, FieldValue::Fixed32(bits)) => float(f64::from(f32::from_bits(bits))),
        (3, FieldValue::Varint(n)) => (n as i64).to_string(),
        (4, FieldValue::Varint(n)) => n.to_string(),
        (5, FieldValue::Varint(n)) => (n as i32).to_string(),
        (6, FieldValue::Fixed64(n)) => n.to_string(),
        (7, FieldValue::Fixed32(n)) => n.to_string(),
        (8, FieldValue::Varint(n)) => (n != 0).to_string(),
        (13, FieldValue::Varint(n)) => (n as u32).to_string(),
        (15, FieldValue::Fixed32(n)) => (n as i32).to_string(),
        (16, FieldValue::Fixed64(n)) => (n as i64).to_string(),
        (17 | 18, FieldValue::Varint(n)) => zigzag(n).to_string(),
        _ => return None,
    })
}

fn float(number: f64) -> String {
    match number {
        nan if nan.is_nan() => "nan".to_owned(),
        endless if endless.is_infinite() => if endless > 0.0 { "inf" } else { "-inf" }.to_owned(),
        number => format!("{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::ProtoWriter;

    fn message(write: impl FnOnce(&mut ProtoWriter<'_>)) -> Vec<u8> {
        let mut w = ProtoWriter::default();
        write(&mut w);
        w.finish()
    }

    #[test]
    fn fields_have_their_names_and_values_their_types() {
        let task = message(|w| {
            w.string(1, "t-1");
            w.string(2, "c\"1\"\n'ü\\\u{1}");
            w.message(3, |w| {
                w.int(1, 3);
                w.message(3, |w| {
                    w.int(1, 1_700_000_000);
                    w.int(2, 5);
                });
            });
            w.message(4, |w| {
                w.string(1, "a");
                w.message(4, |w| w.present_bytes(2, b"\x00hi\xff"));
            });
            // No field of a task.
            w.string(99, "unknown");
        });
        let text = of("lf.a2a.v1.Task", &task, 1_000).unwrap();
        let expected = concat!(
            "id: \"t-1\"\n",
            "context_id: \"c\\\"1\\\"\\n\\'ü\\\\\\001\"\n",
            "status {\n  state: TASK_STATE_COMPLETED\n  timestamp {\n    seconds: 1700000000\n    nanos: 5\n  }\n}\n",
            "artifacts {\n  artifact_id: \"a\"\n  parts {\n    raw: \"\\000hi\\377\"\n  }\n}\n",
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn data_is_a_value_with_its_own_fields() {
        let value = message(|w| {
            w.message(5, |w| {
                w.message(1, |w| {
                    w.string(1, "n");
                    w.message(2, |w| {
                        w.double(2, 1.5);
                    });
                });
            });
        });
        let text = of("google.protobuf.Value", &value, 1_000).unwrap();
        let expected =
            "struct_value {\n  fields {\n    key: \"n\"\n    value {\n      number_value: 1.5\n    }\n  }\n}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_no_message_or_too_long_is_refused() {
        assert_eq!(of("lf.a2a.v1.Task", &[0x0a, 5], 100).unwrap_err().kind, Kind::Parse);
        assert_eq!(of("lf.a2a.v1.Nothing", &[], 100).unwrap_err().kind, Kind::Parse);
        let long = message(|w| w.string(1, &"x".repeat(200)));
        assert_eq!(of("lf.a2a.v1.Task", &long, 100).unwrap_err().kind, Kind::TooLarge);
        // A field of another wire type.
        assert_eq!(of("lf.a2a.v1.Task", &message(|w| w.int(1, 1)), 100).unwrap_err().kind, Kind::Parse);
    }
}
