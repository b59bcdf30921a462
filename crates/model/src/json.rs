//! Opaque JSON from callers and agents, in metadata and data parts, stored as the exact text received.
//!
//! Integers stay integers, key order and duplicate keys are kept; Rialto does not interpret it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Arc<RawValue>);

impl Json {
    /// Checks that `text` is one JSON value and keeps it.
    ///
    /// ```
    /// use model::Json;
    /// assert_eq!(Json::parse(r#" {"z":1, "a":12345678901234567890} "#).unwrap().text(), r#"{"z":1, "a":12345678901234567890}"#);
    /// assert!(Json::parse("{").is_none());
    /// ```
    pub fn parse(text: &str) -> Option<Json> {
        serde_json::from_str::<Box<RawValue>>(text).ok().map(|raw| Json(raw.into()))
    }

    pub fn from_value(value: &serde_json::Value) -> Json {
        // A `Value` can always be written: its keys are strings and its numbers finite.
        Json(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()).into())
    }

    pub fn text(&self) -> &str {
        self.0.get()
    }

    pub fn is_object(&self) -> bool {
        self.text().starts_with('{')
    }

    pub fn to_value(&self) -> serde_json::Value {
        serde_json::from_str(self.text()).unwrap_or(serde_json::Value::Null)
    }

    /// The members of `over` merged over those of `self`, in order of first appearance. If one of them is not an
    /// object, the result is `over`.
    pub fn merged(&self, over: &Json) -> Json {
        let (Some(mut members), Some(new)) = (self.members(), over.members()) else {
            return over.clone();
        };
        for (key, value) in new {
            match members.iter_mut().find(|(k, _)| *k == key) {
                Some(slot) => slot.1 = value,
                None => members.push((key, value)),
            }
        }
        let mut text = String::from("{");
        for (i, (key, value)) in members.iter().enumerate() {
            if i > 0 {
                text.push(',');
            }
            text.push_str(&serde_json::Value::from(key.as_str()).to_string());
            text.push(':');
            text.push_str(value.get());
        }
        text.push('}');
        Json::parse(&text).unwrap_or_else(|| over.clone())
    }

    fn members(&self) -> Option<Vec<(String, Box<RawValue>)>> {
        struct Members;
        impl<'de> serde::de::Visitor<'de> for Members {
            type Value = Vec<(String, Box<RawValue>)>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    members.push(entry);
                }
                Ok(members)
            }
        }
        serde::Deserializer::deserialize_map(&mut serde_json::Deserializer::from_str(self.text()), Members).ok()
    }
}

impl From<Box<RawValue>> for Json {
    fn from(raw: Box<RawValue>) -> Self {
        Json(raw.into())
    }
}
impl From<&RawValue> for Json {
    fn from(raw: &RawValue) -> Self {
        Json(raw.to_owned().into())
    }
}
impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}
impl Eq for Json {}
impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_keeps_order_and_numbers() {
        let a = Json::parse(r#"{"z":1.0,"a":2}"#).unwrap();
        let b = Json::parse(r#"{"a":{"k":[]},"q":18446744073709551616}"#).unwrap();
        assert_eq!(a.merged(&b).text(), r#"{"z":1.0,"a":{"k":[]},"q":18446744073709551616}"#);
        assert_eq!(Json::parse("3").unwrap().merged(&b), b);
    }
}
