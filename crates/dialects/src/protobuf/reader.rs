//! Reads the fields of a protobuf message, borrowed from its bytes.
//!
//! Unknown fields are the reader's to skip: every field comes out with its number, and what is not asked for is passed
//! over. Groups, which proto3 does not have, are refused.

use std::borrow::Cow;

use bytes::Buf as _;
use model::{Fault, Kind, Time};
use prost::encoding::{WireType, decode_key, decode_varint};

use crate::framing::shape::{Int, Text};

/// The fields of one message, in the order in which they were written.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

/// The value of a field, before its type is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    /// A string, bytes, or a message.
    Bytes(&'a [u8]),
}

/// A message that is not protobuf of its type.
pub(crate) fn unreadable(why: impl std::fmt::Display) -> Fault {
    Fault::new(Kind::Parse, format!("the message is not protobuf of the type that the method takes: {why}"))
}

impl<'a> Fields<'a> {
    pub fn new(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message }
    }

    /// The next field and its number.
    pub fn next_field(&mut self) -> Result<Option<(u32, FieldValue<'a>)>, Fault> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = decode_key(&mut self.rest).map_err(unreadable)?;
        let cut = || unreadable(format_args!("field {number} is cut off"));
        let value = match wire_type {
            WireType::Varint => FieldValue::Varint(decode_varint(&mut self.rest).map_err(unreadable)?),
            WireType::SixtyFourBit => FieldValue::Fixed64(self.rest.try_get_u64_le().map_err(|_| cut())?),
            WireType::ThirtyTwoBit => FieldValue::Fixed32(self.rest.try_get_u32_le().map_err(|_| cut())?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut self.rest).map_err(unreadable)?;
                let length = usize::try_from(length).map_err(|_| cut())?;
                let (value, rest) = self.rest.split_at_checked(length).ok_or_else(cut)?;
                self.rest = rest;
                FieldValue::Bytes(value)
            }
            WireType::StartGroup | WireType::EndGroup => {
                return Err(unreadable(format_args!("field {number} is a group")));
            }
        };
        Ok(Some((number, value)))
    }
}

impl<'a> FieldValue<'a> {
    /// The fields of a nested message.
    pub fn message(self) -> Result<Fields<'a>, Fault> {
        self.bytes().map(Fields::new)
    }

    pub fn bytes(self) -> Result<&'a [u8], Fault> {
        match self {
            FieldValue::Bytes(bytes) => Ok(bytes),
            FieldValue::Varint(_) | FieldValue::Fixed64(_) | FieldValue::Fixed32(_) => Err(unexpected()),
        }
    }

    /// A string, which is UTF-8. `name` is the field's, for the fault.
    pub fn text(self, name: &'static str) -> Result<Text<'a>, Fault> {
        let text = std::str::from_utf8(self.bytes()?);
        let text = text.map_err(|e| Fault::params(name, format!("{name} is not valid UTF-8")).because(e))?;
        Ok(Text(Cow::Borrowed(text)))
    }

    pub fn string(self, name: &'static str) -> Result<String, Fault> {
        self.text(name).map(Text::into_string)
    }

    /// A 32-bit integer or the number of an enum value. Readers of protobuf take the lower half of a longer one.
    pub fn int(self) -> Result<Int, Fault> {
        match self {
            FieldValue::Varint(n) => Ok(Int(i64::from(n as u32 as i32))),
            FieldValue::Fixed64(_) | FieldValue::Fixed32(_) | FieldValue::Bytes(_) => Err(unexpected()),
        }
    }

    fn long(self) -> Result<i64, Fault> {
        match self {
            FieldValue::Varint(n) => Ok(n as i64),
            FieldValue::Fixed64(_) | FieldValue::Fixed32(_) | FieldValue::Bytes(_) => Err(unexpected()),
        }
    }

    pub fn bool(self) -> Result<bool, Fault> {
        self.long().map(|n| n != 0)
    }

    pub fn double(self) -> Result<f64, Fault> {
        match self {
            FieldValue::Fixed64(bits) => Ok(f64::from_bits(bits)),
            FieldValue::Varint(_) | FieldValue::Fixed32(_) | FieldValue::Bytes(_) => Err(unexpected()),
        }
    }

    /// A `google.protobuf.Timestamp`, of the years 1 to 9999.
    pub fn time(self, name: &'static str) -> Result<Time, Fault> {
        let (mut seconds, mut nanos) = (0, 0);
        let mut fields = self.message()?;
        while let Some((number, value)) = fields.next_field()? {
            match number {
                1 => seconds = value.long()?,
                2 => nanos = value.long()?,
                _ => {}
            }
        }
        let is_valid = (-62_135_596_800..253_402_300_800).contains(&seconds) && (0..1_000_000_000).contains(&nanos);
        if !is_valid {
            return Err(Fault::params(name, format!("{name} is a time of the years 1 to 9999")));
        }
        Ok(Time(seconds * 1_000 + nanos / 1_000_000))
    }
}

fn unexpected() -> Fault {
    unreadable("a field has another wire type")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, FieldValue<'_>)>, Fault> {
        let (mut fields, mut found) = (Fields::new(message), Vec::new());
        while let Some(field) = fields.next_field()? {
            found.push(field);
        }
        Ok(found)
    }

    #[test]
    fn fields_of_every_wire_type_are_read() {
        let message = [0x08, 0x96, 0x01, 0x11, 1, 0, 0, 0, 0, 0, 0, 0, 0x1a, 2, b'h', b'i', 0x25, 2, 0, 0, 0];
        let expected = [
            (1, FieldValue::Varint(150)),
            (2, FieldValue::Fixed64(1)),
            (3, FieldValue::Bytes(b"hi")),
            (4, FieldValue::Fixed32(2)),
        ];
        assert_eq!(all(&message).unwrap(), expected);
    }

    #[test]
    fn a_message_that_is_cut_or_has_groups_is_refused() {
        for bad in [
            &[0x0a][..],
            &[0x0a, 5, b'x'],
            &[0x11, 1],
            &[0x25, 1],
            &[0x80],
            &[0x0b],
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            &[0x00, 0x00],
        ] {
            assert_eq!(all(bad).unwrap_err().kind, Kind::Parse, "{bad:?}");
        }
    }

    #[test]
    fn a_time_out_of_range_is_refused() {
        let time = |seconds: i64, nanos: i64| {
            let mut w = crate::protobuf::ProtoWriter::default();
            w.int(1, seconds);
            w.int(2, nanos);
            let bytes = w.finish();
            FieldValue::Bytes(&bytes).time("since").map(|time| time.0).map_err(|fault| fault.kind)
        };
        assert_eq!(time(1, 2_999_999), Ok(1_002));
        assert_eq!(time(-1, 500_000_000), Ok(-500));
        for (seconds, nanos) in [(i64::MAX, 0), (i64::MIN, 0), (0, -1), (0, 1_000_000_000)] {
            assert_eq!(time(seconds, nanos), Err(Kind::InvalidParams), "{seconds} {nanos}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = all(&bytes);
        }
    }
}
