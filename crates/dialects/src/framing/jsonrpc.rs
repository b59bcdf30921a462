//! The JSON-RPC 2.0 envelope, borrowed from the request and written around what was already encoded.
//!
//! `params` stays raw: its shape depends on the dialect of the method. The id is kept as the exact text that the caller
//! wrote, so that `1`, `"1"` and `"\u0031"` are each answered as they came.

use std::borrow::Cow;
use std::fmt;

use bytes::BufMut;
use model::{Fault, Kind};
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::json::Writer;

/// An id longer than this is refused: it is repeated on every event of a stream.
pub const MAX_ID_BYTES: usize = 1024;

/// A request's id as JSON text: a string, an integer or `null`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id<'a>(Cow<'a, str>);

pub type OwnedId = Id<'static>;

impl Id<'static> {
    pub const NULL: OwnedId = Id(Cow::Borrowed("null"));

    /// An id that was read as a value: a string, a number or `null`, and not too long.
    pub fn of(value: &serde_json::Value) -> Option<OwnedId> {
        let text = value.to_string();
        let fits = (value.is_string() || value.is_number() || value.is_null()) && text.len() <= MAX_ID_BYTES;
        fits.then_some(Id(Cow::Owned(text)))
    }
}

impl Id<'_> {
    /// The JSON text, as the caller wrote it.
    pub fn text(&self) -> &str {
        &self.0
    }

    pub fn to_owned(&self) -> OwnedId {
        if self.0 == "null" { Id::NULL } else { Id(Cow::Owned(self.0.as_ref().to_owned())) }
    }

    pub fn into_owned(self) -> OwnedId {
        Id(Cow::Owned(self.0.into_owned()))
    }
}

impl fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A readable envelope.
#[derive(Debug)]
pub struct RpcRequest<'a> {
    /// `null` when the caller sent none: every A2A method has an answer, and it needs an id.
    pub id: Id<'a>,
    /// The caller sent no id at all: JSON-RPC calls that a notification, which has no answer. A2A has none.
    pub is_notification: bool,
    pub method: Cow<'a, str>,
    /// An object; absent when missing or `null`.
    pub params: Option<&'a RawValue>,
}

/// Not a request. The id is the caller's where it could be read.
#[derive(Debug)]
pub struct Unreadable {
    pub id: OwnedId,
    pub fault: Fault,
    /// The method, where it could be read: it tells in which dialect to complain.
    pub method: Option<String>,
}

impl Unreadable {
    fn invalid(id: &Id<'_>, message: impl Into<String>) -> Unreadable {
        Unreadable { id: id.to_owned(), fault: Fault::new(Kind::InvalidRequest, message), method: None }
    }
}

/// Reads the envelope. The text should have passed [`super::scan::scan`].
// The error is looked at once, by the one caller there is; a box would only add an allocation.
#[allow(clippy::result_large_err)]
pub fn read(text: &str) -> Result<RpcRequest<'_>, Unreadable> {
    let mut members = Members::default();
    let mut json = serde_json::Deserializer::from_str(text);
    if let Err(error) = (&mut json).deserialize_any(Envelope(&mut members)).and_then(|()| json.end()) {
        return Err(unreadable(text, &error));
    }
    let (id, flaw) = match members.id.map(RawValue::get) {
        None => (Id::NULL, None),
        Some(text) => match id_flaw(text) {
            None => (Id(Cow::Borrowed(text)), None),
            Some(flaw) => (Id::NULL, Some(flaw)),
        },
    };
    if let Some(name) = members.twice {
        return Err(Unreadable::invalid(
            &if name == "id" { Id::NULL } else { id },
            format!("the request has the member \"{name}\" more than once"),
        ));
    }
    if let Some(flaw) = flaw {
        return Err(Unreadable::invalid(&Id::NULL, flaw));
    }
    match members.jsonrpc.map(RawValue::get) {
        Some(r#""2.0""#) => {}
        Some(_) => return Err(Unreadable::invalid(&id, "\"jsonrpc\" must be \"2.0\"")),
        None => return Err(Unreadable::invalid(&id, "\"jsonrpc\":\"2.0\" is missing")),
    }
    let Some(method) = members.method else {
        return Err(Unreadable::invalid(&id, "\"method\" is missing"));
    };
    let Some(method) = string(method.get()) else {
        return Err(Unreadable::invalid(&id, "\"method\" must be a string"));
    };
    let params = members.params.filter(|raw| raw.get() != "null");
    if let Some(raw) = params
        && !raw.get().starts_with('{')
    {
        let fault = Fault::new(Kind::InvalidParams, "\"params\" must be an object");
        return Err(Unreadable { id: id.to_owned(), fault, method: Some(method.into_owned()) });
    }
    Ok(RpcRequest { id, is_notification: members.id.is_none(), method, params })
}

/// Why the text was no object: not JSON at all, or JSON of another kind.
fn unreadable(text: &str, error: &serde_json::Error) -> Unreadable {
    let fault = match error.classify() {
        serde_json::error::Category::Data if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            let message = match text.trim_start().as_bytes().first() {
                Some(b'[') => "batches are not part of A2A: send one request object",
                _ => "a request must be a JSON object",
            };
            Fault::new(Kind::InvalidRequest, message)
        }
        _ if text.trim_ascii().is_empty() => Fault::new(Kind::Parse, "the body is empty"),
        _ => {
            Fault::new(Kind::Parse, format!("the body is not JSON (line {}, column {})", error.line(), error.column()))
        }
    };
    Unreadable { id: Id::NULL, fault, method: None }
}

fn id_flaw(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    match bytes.first() {
        _ if bytes.len() > MAX_ID_BYTES => Some("\"id\" is longer than 1024 bytes, which is the limit here"),
        Some(b'"') => None,
        Some(b'-' | b'0'..=b'9') if !bytes.iter().any(|b| matches!(b, b'.' | b'e' | b'E')) => None,
        Some(b'n') => None,
        _ => Some("\"id\" must be a string, an integer or null"),
    }
}

/// The content of a JSON string, borrowed unless it has escapes; `None` if it is no string.
fn string(json: &str) -> Option<Cow<'_, str>> {
    let inside = json.strip_prefix('"')?.strip_suffix('"')?;
    if inside.contains('\\') { serde_json::from_str(json).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inside)) }
}

#[derive(Default)]
struct Members<'a> {
    jsonrpc: Option<&'a RawValue>,
    id: Option<&'a RawValue>,
    method: Option<&'a RawValue>,
    params: Option<&'a RawValue>,
    twice: Option<&'static str>,
}

/// Collects the members without judging them: only what is not JSON, or no object, fails here.
struct Envelope<'m, 'a>(&'m mut Members<'a>);

impl<'de: 'a, 'a> Visitor<'de> for Envelope<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a request object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<Name>()? {
            let (slot, name) = match name {
                Name::Jsonrpc => (&mut self.0.jsonrpc, "jsonrpc"),
                Name::Id => (&mut self.0.id, "id"),
                Name::Method => (&mut self.0.method, "method"),
                Name::Params => (&mut self.0.params, "params"),
                Name::Other => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if slot.is_some() {
                self.0.twice = Some(name);
            }
            *slot = Some(map.next_value()?);
        }
        Ok(())
    }
}

enum Name {
    Jsonrpc,
    Id,
    Method,
    Params,
    Other,
}

impl<'de> de::Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Name, D::Error> {
        struct Names;
        impl Visitor<'_> for Names {
            type Value = Name;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a member")
            }
            fn visit_str<E: de::Error>(self, name: &str) -> Result<Name, E> {
                Ok(match name {
                    "jsonrpc" => Name::Jsonrpc,
                    "id" => Name::Id,
                    "method" => Name::Method,
                    "params" => Name::Params,
                    _ => Name::Other,
                })
            }
        }
        d.deserialize_identifier(Names)
    }
}

/// Writes what stands before a result.
pub fn write_result_head(out: &mut impl BufMut, id: &Id<'_>) {
    out.put_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    out.put_slice(id.text().as_bytes());
    out.put_slice(b",\"result\":");
}

/// Writes what stands after a result.
pub fn write_result_tail(out: &mut impl BufMut) {
    out.put_slice(b"}");
}

/// A writer that stands where the result goes; close it with [`end_result`].
pub fn begin_result(id: &Id<'_>, capacity: usize) -> Writer {
    let mut head = Vec::with_capacity(capacity + id.text().len() + 40);
    write_result_head(&mut head, id);
    Writer::after(head)
}

pub fn end_result(w: &mut Writer) {
    w.end_object();
}

/// A whole error response. `data` writes the value of the member `data`.
pub fn encode_error(id: &Id<'_>, code: i32, message: &str, data: impl FnOnce(&mut Writer)) -> Writer {
    let mut w = begin_error(id, code, message);
    data(w.key("data"));
    end_error(&mut w);
    w
}

/// A writer inside the error object of a response, after code and message; close it with [`end_error`].
pub fn begin_error(id: &Id<'_>, code: i32, message: &str) -> Writer {
    let mut w = Writer::new();
    w.begin_object();
    w.key("jsonrpc").plain("2.0");
    w.key("id").raw(id.text());
    w.key("error").begin_object();
    w.key("code").i64(i64::from(code));
    w.key("message").string(message);
    w
}

pub fn end_error(w: &mut Writer) {
    w.end_object();
    w.end_object();
}

#[cfg(test)]
#[path = "jsonrpc_tests.rs"]
mod tests;
