//! Reading JSON into wire shapes.
//!
//! A shape is a struct of what an object may hold, every member optional, borrowed from the request where it can be.
//! The macro [`shape!`] makes its reader: it reads each member in all its spellings, refuses the same member twice
//! (also in two spellings), skips unknown members, takes `null` for absent, and takes nothing but an object
//! (serde's derived readers would take an array for one).
//!
//! Rules for the values of members are checked when a shape becomes a noun of the model. Valid input costs nothing for error
//! positions: only after a failure the text is read again, with the path recorded.

use std::borrow::Cow;
use std::fmt;

use model::{Fault, Json, Kind};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Unexpected, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

/// A JSON string, borrowed unless it has escapes. (`Option<Cow<str>>` would always copy.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    pub fn into_string(self) -> String {
        self.0.into_owned()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Strings;
        impl<'de> Visitor<'de> for Strings {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        d.deserialize_str(Strings)
    }
}

/// An integer as protobuf's JSON has it: a number, an integral float or a decimal string. What is out of range stands at
/// the range's end, for the caller of this to clamp or refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int(pub i64);

impl Int {
    pub(crate) fn parse(text: &str) -> Option<Int> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let end = if text.len() > digits.len() { i64::MIN } else { i64::MAX };
        Some(Int(text.parse().unwrap_or(end)))
    }
}

impl<'de> Deserialize<'de> for Int {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Ints;
        impl Visitor<'_> for Ints {
            type Value = Int;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an integer")
            }
            fn visit_i64<E>(self, n: i64) -> Result<Int, E> {
                Ok(Int(n))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Int, E> {
                Ok(Int(i64::try_from(n).unwrap_or(i64::MAX)))
            }
            fn visit_f64<E: de::Error>(self, n: f64) -> Result<Int, E> {
                // The cast stops at the ends of the range.
                if n.fract() == 0.0 { Ok(Int(n as i64)) } else { Err(E::invalid_value(Unexpected::Float(n), &self)) }
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Int, E> {
                Int::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
            }
        }
        d.deserialize_any(Ints)
    }
}

/// A value of an enumeration: its name, or its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnumName<'a> {
    Text(Cow<'a, str>),
    Number(i64),
}

impl fmt::Display for EnumName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnumName::Text(text) => write!(f, "{:?}", shortened(text, 64)),
            EnumName::Number(n) => n.fmt(f),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for EnumName<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = EnumName<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of an enum value")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<EnumName<'de>, E> {
                Ok(EnumName::Text(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<EnumName<'de>, E> {
                Ok(EnumName::Text(Cow::Owned(text.to_owned())))
            }
            fn visit_i64<E>(self, n: i64) -> Result<EnumName<'de>, E> {
                Ok(EnumName::Number(n))
            }
            fn visit_u64<E>(self, n: u64) -> Result<EnumName<'de>, E> {
                Ok(EnumName::Number(i64::try_from(n).unwrap_or(i64::MAX)))
            }
        }
        d.deserialize_any(Names)
    }
}

/// Opaque JSON that must be an object.
#[derive(Debug, Clone, Copy)]
pub struct Object<'a>(&'a RawValue);

impl Object<'_> {
    pub fn to_json(self) -> Json {
        Json::from(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let raw = <&'a RawValue>::deserialize(d)?;
        if raw.get().starts_with('{') { Ok(Object(raw)) } else { Err(de::Error::custom("expected an object")) }
    }
}

/// Opaque JSON of any kind, where `null` is a value like any other.
#[derive(Debug, Clone, Copy, Default)]
pub struct Any<'a>(pub Option<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Any<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        <&'a RawValue>::deserialize(d).map(|raw| Any(Some(raw)))
    }
}

/// An array that stops being read when it grows too long: a body of ten megabytes can hold millions of empty objects,
/// and shapes are far larger than those.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundedList<T, const MAX: usize>(pub Vec<T>);

impl<T, const MAX: usize> Default for BoundedList<T, MAX> {
    fn default() -> Self {
        BoundedList(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for BoundedList<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Lists<T, const MAX: usize>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Lists<T, MAX> {
            type Value = BoundedList<T, MAX>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut list = Vec::new();
                while let Some(entry) = seq.next_element()? {
                    if list.len() == MAX {
                        return Err(de::Error::custom(format_args!(
                            "more than {MAX} entries, which is the limit here"
                        )));
                    }
                    list.push(entry);
                }
                Ok(BoundedList(list))
            }
        }
        d.deserialize_seq(Lists(std::marker::PhantomData))
    }
}

/// Makes a shape and its reader. After `=` stand the member's spellings, the preferred first.
#[doc(hidden)]
#[macro_export]
macro_rules! shape {
    ($(#[$meta:meta])* $vis:vis struct $name:ident ($what:literal) {
        $( $(#[$fmeta:meta])* $field:ident : $ty:ty = $first:literal $(| $other:literal)* ),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Default)]
        $vis struct $name<'a> {
            $( $(#[$fmeta])* $vis $field: $ty, )*
        }

        impl<'de: 'a, 'a> $crate::kit::serde::Deserialize<'de> for $name<'a> {
            fn deserialize<D: $crate::kit::serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                #[allow(non_camel_case_types)]
                #[derive(Clone, Copy)]
                enum Member { $($field,)* other_member }

                impl<'de> $crate::kit::serde::Deserialize<'de> for Member {
                    fn deserialize<D: $crate::kit::serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                        struct Names;
                        impl $crate::kit::serde::de::Visitor<'_> for Names {
                            type Value = Member;
                            fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                                f.write_str("a member's name")
                            }
                            fn visit_str<E>(self, name: &str) -> Result<Member, E> {
                                Ok(match name {
                                    $( $first $(| $other)* => Member::$field, )*
                                    _ => Member::other_member,
                                })
                            }
                        }
                        d.deserialize_identifier(Names)
                    }
                }

                struct Objects<'a>(::std::marker::PhantomData<&'a ()>);
                impl<'de: 'a, 'a> $crate::kit::serde::de::Visitor<'de> for Objects<'a> {
                    type Value = $name<'a>;
                    fn expecting(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                        f.write_str($what)
                    }
                    fn visit_map<A: $crate::kit::serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        let mut shape = $name::default();
                        let mut seen = 0u32;
                        while let Some(member) = map.next_key::<Member>()? {
                            let bit = 1u32 << member as u32;
                            let twice = seen & bit != 0;
                            seen |= bit;
                            match member {
                                $( Member::$field => {
                                    if twice {
                                        return Err($crate::kit::serde::de::Error::duplicate_field($first));
                                    }
                                    shape.$field = map.next_value()?;
                                } )*
                                Member::other_member => {
                                    map.next_value::<$crate::kit::serde::de::IgnoredAny>()?;
                                }
                            }
                        }
                        Ok(shape)
                    }
                }
                d.deserialize_map(Objects(::std::marker::PhantomData))
            }
        }
    };
}
pub(crate) use crate::shape;

/// Reads a shape. `whole` is what the text is to its sender (`params`, `body`), for messages about the whole of it.
pub fn read<'a, T: Deserialize<'a>>(text: &'a str, whole: &'static str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| explain::<T>(text, whole, &error))
}

/// The same text again, slowly, to learn where it fails.
#[cold]
fn explain<'a, T: Deserialize<'a>>(text: &'a str, whole: &'static str, first: &serde_json::Error) -> Fault {
    let mut json = serde_json::Deserializer::from_str(text);
    let (path, said) = match serde_path_to_error::deserialize::<_, T>(&mut json) {
        Ok(_) => (String::new(), first.to_string()),
        Err(error) => (error.path().to_string(), error.inner().to_string()),
    };
    if matches!(first.classify(), Category::Syntax | Category::Eof) && serde_json::from_str::<&RawValue>(text).is_err()
    {
        let message = if text.trim_ascii().is_empty() {
            format!("the {whole} is empty")
        } else {
            format!("the {whole} is not JSON (line {}, column {})", first.line(), first.column())
        };
        return Fault::new(Kind::Parse, message);
    }
    let path = if path == "." { "" } else { path.as_str() };
    let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(said, _)| said);
    let (field, message) = sentence(path, said);
    let message = shortened(&message, 300);
    if field.is_empty() {
        return Fault::new(Kind::InvalidParams, format!("the {whole}: {message}"));
    }
    let field = shortened(&field, 200);
    Fault::params(field.clone(), format!("{field}: {message}"))
}

/// Serde's error as a plain sentence, and the member it is about.
fn sentence(path: &str, said: &str) -> (String, String) {
    if let Some(name) = said.strip_prefix("duplicate field `").and_then(|rest| rest.strip_suffix('`')) {
        let field = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        return (field, "given more than once (perhaps in both spellings)".to_owned());
    }
    for prefix in ["invalid type: ", "invalid value: "] {
        if let Some((found, expected)) = said.strip_prefix(prefix).and_then(|rest| rest.rsplit_once(", expected ")) {
            return (path.to_owned(), format!("expected {expected}, found {}", shortened(found, 64)));
        }
    }
    if said.contains("hex escape") || said.contains("surrogate") {
        return (path.to_owned(), "has a \\u escape that is no character, or half of one".to_owned());
    }
    (path.to_owned(), said.to_owned())
}

/// At most `max` bytes of `text`, with an ellipsis for what is cut.
pub fn shortened(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}
