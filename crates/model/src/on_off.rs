//! A setting that is on or off: `true` and `false`, or the words `on` and `off`, which YAML 1.2 reads as strings.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnOff(pub bool);

const EXPECTED: &str = "on, off, true or false";

impl OnOff {
    /// The setting that a text names.
    pub fn parse(text: &str) -> Option<OnOff> {
        match text {
            "on" => Some(OnOff(true)),
            "off" => Some(OnOff(false)),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for OnOff {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<OnOff, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = OnOff;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(EXPECTED)
            }
            fn visit_bool<E: de::Error>(self, on: bool) -> Result<OnOff, E> {
                Ok(OnOff(on))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<OnOff, E> {
                OnOff::parse(text).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &EXPECTED))
            }
        }
        d.deserialize_any(Either)
    }
}

impl Serialize for OnOff {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_bool(self.0)
    }
}

impl JsonSchema for OnOff {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "OnOff".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [true, false, "on", "off"] })
    }
}

#[cfg(test)]
mod tests {
    use super::OnOff;

    #[test]
    fn both_spellings_are_read_and_nothing_else() {
        let read = |text: &str| serde_json::from_str::<OnOff>(text);
        for (text, on) in [("true", true), ("\"on\"", true), ("false", false), ("\"off\"", false)] {
            assert_eq!(read(text).unwrap(), OnOff(on), "{text}");
        }
        for bad in ["0", "\"no\"", "null", "{}"] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains("on, off, true or false"), "{bad}: {error}");
        }
        assert_eq!(serde_json::to_string(&OnOff(false)).unwrap(), "false");
    }
}
