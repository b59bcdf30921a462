//! Routing shared by the HTTP+JSON bindings: the verbs a path takes, and the parameters of a query.

use std::borrow::Cow;

use model::{Fault, Kind};

use super::shape::{EnumName, Int, Text, shortened};
use super::{near, query};

/// The segments of a path below the interface's base; `None` if it does not begin with a slash. Some clients end every
/// URL with one; more segments than the longest route has are of no interest.
pub(crate) fn segments(path: &str) -> Option<Vec<&str>> {
    let inside = path.strip_prefix('/')?;
    Some(inside.strip_suffix('/').unwrap_or(inside).splitn(6, '/').collect())
}

/// The fault for a path that is none of these routes, below the interface's base.
pub fn unknown(path: &str, known: &[&str]) -> Fault {
    let advice = near::advice(path, known.iter().copied());
    Fault::new(Kind::MethodNotFound, format!("no route {}{advice}", shortened(path, 128)))
}

/// One verb at a path.
#[derive(Debug)]
pub struct VerbOperation<O> {
    pub verb: &'static str,
    pub operation: O,
}

/// A path with one verb.
pub fn only<O>(verb: &'static str, operation: O) -> Vec<VerbOperation<O>> {
    vec![VerbOperation { verb, operation }]
}

/// A path with two.
pub fn either<O>(first: (&'static str, O), second: (&'static str, O)) -> Vec<VerbOperation<O>> {
    [first, second].into_iter().map(|(verb, operation)| VerbOperation { verb, operation }).collect()
}

/// The operation of a verb among those a path takes.
pub fn choose<O>(places: Vec<VerbOperation<O>>, verb: &str) -> Result<O, Fault> {
    let mut allow = Vec::new();
    for place in places {
        if place.verb == verb {
            return Ok(place.operation);
        }
        allow.push(place.verb);
    }
    let allow = allow.join(", ");
    Err(Fault::new(Kind::VerbNotAllowed, format!("this route takes {allow}, not {}", shortened(verb, 16)))
        .fact("allow", allow))
}

/// A segment that is an id.
pub fn id_of(segment: &str) -> Result<String, Fault> {
    query::decode_segment(segment).map(Cow::into_owned)
}

/// The known parameters of a query, each at most once.
#[derive(Debug)]
pub struct Parameters<'a>(Vec<(&'static str, Cow<'a, str>)>);

impl<'a> Parameters<'a> {
    /// Reads those of `known`, a list of JSON names with their proto spellings; others are of no interest.
    pub fn read(query: Option<&'a str>, known: &[(&'static str, &str)]) -> Result<Self, Fault> {
        let mut found = Vec::new();
        for pair in query::pairs(query.unwrap_or("")) {
            let (name, value) = pair?;
            let Some((name, _)) = known.iter().find(|(json, proto)| name == *json || name == *proto) else {
                continue;
            };
            if found.iter().any(|(other, _)| other == name) {
                return Err(Fault::params(*name, format!("{name} is given more than once")));
            }
            found.push((*name, value));
        }
        Ok(Parameters(found))
    }

    fn get(&self, name: &str) -> Option<&Cow<'a, str>> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub fn text(&self, name: &str) -> Option<Text<'a>> {
        self.get(name).cloned().map(Text)
    }

    pub fn int(&self, name: &'static str) -> Result<Option<Int>, Fault> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let found = || Fault::params(name, format!("{name} must be an integer, not {:?}", shortened(text, 32)));
        Int::parse(text).map(Some).ok_or_else(found)
    }

    pub(crate) fn flag(&self, name: &'static str) -> Result<Option<bool>, Fault> {
        match self.get(name).map(Cow::as_ref) {
            None => Ok(None),
            Some("true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(other) => {
                let found = shortened(other, 32);
                Err(Fault::params(name, format!("{name} must be true or false, not {found:?}")))
            }
        }
    }

    /// An enum value by name or number; empty is absent.
    pub(crate) fn name(&self, name: &str) -> Option<EnumName<'a>> {
        let text = self.get(name).filter(|text| !text.is_empty())?;
        Some(Int::parse(text).map_or_else(|| EnumName::Text(text.clone()), |Int(n)| EnumName::Number(n)))
    }
}
