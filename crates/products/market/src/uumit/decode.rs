//! Decodes params into a [`UumitRequest`]. Further members that UUMit's clients send (`id`, `sessionId`, a target
//! agent) are ignored.

use market_rules::CapabilityId;
use model::{ContextId, Fault, Json, Kind, Limits};
use serde_json::value::RawValue;

use super::{UumitCancel, UumitRequest, UumitSend};
use dialects::framing::near;
use dialects::kit::fields::{optional_id, optional_id_text};
use dialects::kit::shape::{self, Any, Int, List, Text, shape};

/// A message with more parts is passed on unchanged.
const MAX_PARTS: usize = 1_000;

shape! {
    pub(crate) struct SendParams("params: an object") {
        capability: Option<Text<'a>> = "capability_id",
        booked_hours: Option<Int> = "booked_hours",
        context: Option<Text<'a>> = "context_id",
        demand: Option<Text<'a>> = "demand_id",
        key: Option<Text<'a>> = "idempotency_key",
        token: Option<Text<'a>> = "confirm_token",
        input: Any<'a> = "input",
        message: Any<'a> = "message",
        metadata: Option<Metadata<'a>> = "metadata",
    }
}

shape! {
    pub(crate) struct TaskParams("params: an object") {
        id: Option<Text<'a>> = "id",
        key: Option<Text<'a>> = "idempotency_key",
        metadata: Option<Metadata<'a>> = "metadata",
    }
}

shape! {
    pub(crate) struct Metadata("an object") {
        own: Option<Own<'a>> = "uuagent",
    }
}

shape! {
    pub(crate) struct Own("an object") {
        key: Option<Text<'a>> = "idempotency_key",
    }
}

shape! {
    pub(crate) struct Message("a message") {
        parts: Option<List<Part<'a>, MAX_PARTS>> = "parts",
    }
}

shape! {
    pub(crate) struct Part("a part") {
        kind: Option<Text<'a>> = "type" | "kind",
        text: Option<Text<'a>> = "text",
    }
}

/// Decodes a request. Unknown methods are refused before authentication: see [`is_method`].
pub fn decode(method: &str, params: Option<&RawValue>, limits: &Limits) -> Result<UumitRequest, Fault> {
    let text = params.map_or("{}", RawValue::get);
    match method {
        "tasks/send" => send(text, limits),
        "tasks/get" => Ok(UumitRequest::Get { id: task(text, limits)?.id }),
        "tasks/cancel" => Ok(UumitRequest::Cancel(task(text, limits)?)),
        "tasks/sendSubscribe" => Ok(UumitRequest::Subscribe { id: task(text, limits)?.id }),
        unknown => Err(no_method(unknown)),
    }
}

/// Refuses unknown methods.
pub fn is_method(method: &str) -> Result<(), Fault> {
    if super::METHODS.contains(&method) { Ok(()) } else { Err(no_method(method)) }
}

fn no_method(method: &str) -> Fault {
    let advice = near::method_advice(method, &super::METHODS);
    let shown = shape::shortened(method, 64);
    let message = format!("there is no method {shown}; there are {}{advice}", super::METHODS.join(", "));
    Fault::new(Kind::MethodNotFound, message)
}

fn send(text: &str, limits: &Limits) -> Result<UumitRequest, Fault> {
    let params: SendParams<'_> = shape::read(text, "params")?;
    let capability = optional_id_text(params.capability, "capability_id", limits)?
        .ok_or_else(|| Fault::params("capability_id", "capability_id is required"))?;
    let booked_hours = match params.booked_hours {
        Some(Int(hours)) if hours < 1 => {
            return Err(Fault::params("booked_hours", "booked_hours must be at least 1, or null"));
        }
        booked => booked.map(|Int(hours)| hours),
    };
    Ok(UumitRequest::Send(Box::new(UumitSend {
        capability: CapabilityId::from(&*capability.0),
        booked_hours,
        context: optional_id(params.context, "context_id", limits)?.map(|id| ContextId(id.into())),
        demand: optional_id(params.demand, "demand_id", limits)?,
        idempotency_key: key(params.key, params.metadata, limits)?,
        input: opaque(params.input).or_else(|| opaque(params.message).map(|message| said(&message))),
        confirm_token: optional_id(params.token, "confirm_token", limits)?,
    })))
}

fn task(text: &str, limits: &Limits) -> Result<UumitCancel, Fault> {
    let params: TaskParams<'_> = shape::read(text, "params")?;
    let id = optional_id_text(params.id, "id", limits)?.ok_or_else(|| Fault::params("id", "id is required"))?;
    Ok(UumitCancel { id: id.0.parse().ok(), idempotency_key: key(params.key, params.metadata, limits)? })
}

/// UUMit's clients send the key in either place.
fn key(own: Option<Text<'_>>, metadata: Option<Metadata<'_>>, limits: &Limits) -> Result<Option<String>, Fault> {
    let beside = metadata.and_then(|metadata| metadata.own).and_then(|own| own.key);
    optional_id(own.or(beside), "idempotency_key", limits)
}

fn opaque(value: Any<'_>) -> Option<Json> {
    value.0.filter(|raw| raw.get() != "null").map(Json::from)
}

/// The content of a message: its text if it has only text, else its JSON.
fn said(message: &Json) -> Json {
    let parts = match serde_json::from_str::<Message<'_>>(message.text()) {
        Ok(Message { parts: Some(List(parts)) }) if !parts.is_empty() => parts,
        Ok(_) | Err(_) => return message.clone(),
    };
    let text = parts.into_iter().map(|part| match part {
        Part { kind, text: Some(text) } if kind.as_ref().is_none_or(|kind| kind.0 == "text") => {
            Some(text.into_string())
        }
        Part { .. } => None,
    });
    match text.collect::<Option<Vec<String>>>() {
        Some(texts) => Json::from_value(&texts.join("\n").into()),
        None => message.clone(),
    }
}
