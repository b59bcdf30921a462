//! Reads JSON member by member: every error has a path and a sentence, unknown and repeated members are refused,
//! and opaque values keep their text.

use std::fmt;

use model::Fault;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// An error and its path, which is built from the inside out.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScriptError {
    path: String,
    says: String,
}

impl ScriptError {
    pub(super) fn new(says: impl Into<String>) -> ScriptError {
        ScriptError { path: String::new(), says: says.into() }
    }
    pub(super) fn within(mut self, outer: impl fmt::Display) -> ScriptError {
        self.path.insert_str(0, &outer.to_string());
        self
    }
    pub(super) fn fault(self) -> Fault {
        Fault::params(self.path, self.says)
    }
}

/// The members of an object, in order.
pub(super) struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    members.push(entry);
                }
                Ok(Members(members))
            }
        }
        d.deserialize_map(Reader)
    }
}

impl<'a> Members<'a> {
    /// An object without repeated names.
    pub(super) fn of(raw: &'a RawValue) -> Result<Members<'a>, ScriptError> {
        let members: Members<'a> = serde_json::from_str(raw.get())
            .map_err(|_| ScriptError::new(format!("{} must be an object", short(raw.get()))))?;
        let mut names: Vec<&str> = members.0.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(ScriptError::new(format!("\"{}\" stands here twice", short(pair[0])))),
            None => Ok(members),
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    pub(super) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// A member with two spellings; null counts as absent.
    pub(super) fn take_either(&mut self, name: &str, other: &str) -> Result<Option<&'a RawValue>, ScriptError> {
        match (self.take(name), self.take(other)) {
            (Some(_), Some(_)) => Err(ScriptError::new(format!("\"{name}\" and \"{other}\" are one member"))),
            (one, two) => Ok(one.or(two).filter(|raw| raw.get() != "null")),
        }
    }

    /// An optional member read by `read`; null counts as absent.
    pub(super) fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&'a RawValue) -> Result<T, ScriptError>,
    ) -> Result<Option<T>, ScriptError> {
        let raw = self.take(name).filter(|raw| raw.get() != "null");
        raw.map(|raw| read(raw).map_err(|wrong| wrong.within(format_args!(".{name}")))).transpose()
    }

    /// Refuses the remaining members as unknown.
    pub(super) fn none_left(&self, known: &[&str]) -> Result<(), ScriptError> {
        match self.0.first() {
            Some((name, _)) => Err(unknown("member", name, known)),
            None => Ok(()),
        }
    }
}

pub(super) fn unknown(what: &str, name: &str, known: &[&str]) -> ScriptError {
    ScriptError::new(format!("unknown {what} \"{}\"; did you mean \"{}\"?", short(name), nearest(name, known)))
}

pub(super) fn list(raw: &RawValue) -> Result<Vec<&RawValue>, ScriptError> {
    serde_json::from_str(raw.get()).map_err(|_| ScriptError::new(format!("{} must be an array", short(raw.get()))))
}

pub(super) fn text(raw: &RawValue) -> Result<String, ScriptError> {
    serde_json::from_str(raw.get()).map_err(|_| ScriptError::new(format!("{} must be a string", short(raw.get()))))
}

pub(super) fn texts(raw: &RawValue) -> Result<Vec<String>, ScriptError> {
    let each = list(raw)?.into_iter().enumerate();
    each.map(|(i, raw)| text(raw).map_err(|wrong| wrong.within(format_args!("[{i}]")))).collect()
}

pub(super) fn flag(raw: &RawValue) -> Result<bool, ScriptError> {
    serde_json::from_str(raw.get()).map_err(|_| ScriptError::new(format!("{} must be true or false", short(raw.get()))))
}

/// A whole number within bounds. `5.0` counts too: some clients store numbers as doubles.
pub(super) fn number(raw: &RawValue, least: u32, most: u32) -> Result<u32, ScriptError> {
    serde_json::from_str::<f64>(raw.get())
        .ok()
        .filter(|n| n.fract() == 0.0 && (f64::from(least)..=f64::from(most)).contains(n))
        // Within the bounds of u32, so nothing is lost.
        .map(|n| n as u32)
        .ok_or_else(|| ScriptError::new(format!("{} must be a whole number from {least} to {most}", short(raw.get()))))
}

/// The known name most similar to this one.
fn nearest<'k>(name: &str, known: &[&'k str]) -> &'k str {
    let name: String = name.chars().take(SHORT).flat_map(char::to_lowercase).collect();
    let distance = |known: &&&str| strsim::damerau_levenshtein(&name, &known.to_lowercase());
    known.iter().min_by_key(distance).copied().unwrap_or_default()
}

/// Most characters of a caller's text that a fault repeats.
const SHORT: usize = 40;

fn short(text: &str) -> String {
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
