//! Decodes requests into calls. Errors have the product's own messages, with the cause as a detail.
//!
//! The `metadata` of a request belongs to the task. Messages have no metadata of their own in this dialect, so it is stored
//! in the metadata of the message, where readers in other dialects find it.

use model::{Call, Cancel, ContextId, Fault, Get, Json, Kind, Limits, Send, Wait};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{NO_REASON, REASON_BYTES};
use dialects::framing::near;
use dialects::kit::fields::{self, optional_id};
use dialects::kit::pre_v1::{PreV1Decoder, PreV1Form, shapes};
use dialects::kit::shape::{self, Int, Name, Object, Text, shape, shortened};

/// A decoded request: the call, and the system that its metadata names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodedCall {
    pub call: Call,
    pub target: Option<SystemTarget>,
}

/// The name of a system in `metadata`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemTarget {
    pub namespace: Option<String>,
    pub name: String,
}

impl SystemTarget {
    /// Parses `name` or `namespace/name`.
    pub fn parse(text: &str) -> Option<SystemTarget> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        let namespace = namespace.filter(|namespace| !namespace.is_empty()).map(str::to_owned);
        (!name.is_empty()).then(|| SystemTarget { namespace, name: name.to_owned() })
    }
}

shape! {
    pub(crate) struct SendParams ("an object") {
        id: Option<Text<'a>> = "id",
        message: Option<shapes::Message<'a>> = "message",
        metadata: Option<Object<'a>> = "metadata",
        /// Accepted without effect: only `tasks/get` returns a history.
        history_length: Option<Int> = "historyLength",
    }
}

shape! {
    pub(crate) struct TaskParams ("an object") {
        id: Option<Text<'a>> = "id",
        reason: Option<Text<'a>> = "reason",
        metadata: Option<Object<'a>> = "metadata",
        history_length: Option<Int> = "historyLength",
    }
}

/// Decodes a method and its params. A send waits without a limit; the endpoint sets the limit.
pub fn decode(method: &str, params: Option<&RawValue>, limits: &Limits) -> Result<DecodedCall, Fault> {
    let text = params.map_or("{}", RawValue::get);
    match method {
        "tasks/send" => {
            let (send, target) = decode_send(text, limits, "invalid task send params")?;
            Ok(DecodedCall { call: Call::Send(Box::new(send)), target })
        }
        "tasks/sendSubscribe" => {
            let (send, target) = decode_send(text, limits, "invalid subscribe params")?;
            Ok(DecodedCall { call: Call::Stream(Box::new(send)), target })
        }
        "tasks/get" => {
            let says = "invalid task get params";
            let params: TaskParams<'_> = read(text, says)?;
            let task = task_id(params.id, limits, says)?;
            let history = fields::history(params.history_length).map_err(|fault| invalid(says, fault))?;
            // Without `historyLength` no history is shown.
            let call = Call::Get(Get { task, history: Some(history.unwrap_or(0)) });
            Ok(DecodedCall { call, target: target(&strings(params.metadata, says)?) })
        }
        "tasks/cancel" => {
            let says = "invalid task cancel params";
            let params: TaskParams<'_> = read(text, says)?;
            let task = task_id(params.id, limits, says)?;
            let reason = params.reason.map(Text::into_string).filter(|reason| !reason.trim().is_empty());
            let reason = shortened_to(reason.as_deref().unwrap_or(NO_REASON), REASON_BYTES);
            let metadata = Some(Json::from_value(&serde_json::json!({ "reason": reason })));
            let call = Call::Cancel(Cancel { task, metadata });
            Ok(DecodedCall { call, target: target(&strings(params.metadata, says)?) })
        }
        other => {
            let advice = near::method_advice(other, super::METHODS);
            Err(Fault::new(Kind::MethodNotFound, format!("unknown method: {}{advice}", shortened(other, 64))))
        }
    }
}

/// The system that the params of a method of A2A 1.0 name.
pub fn newer_target(params: Option<&RawValue>) -> Option<SystemTarget> {
    let params: Value = serde_json::from_str(params?.get()).ok()?;
    let named = |name: &str| params.get("metadata")?.get(name)?.as_str().and_then(SystemTarget::parse);
    named("agent").or_else(|| named("target"))
}

fn decode_send(text: &str, limits: &Limits, says: &'static str) -> Result<(Send, Option<SystemTarget>), Fault> {
    let params: SendParams<'_> = read(text, says)?;
    let alias = task_id(params.id, limits, says)?;
    let Some(mut message) = params.message else {
        return Err(Fault::params("message", "message is required"));
    };
    message.role.get_or_insert(Name::Number(1));
    let metadata = strings(params.metadata, says)?;
    let message =
        PreV1Decoder::new(PreV1Form::Type, limits).said(message).map_err(|fault| invalid(says, fault))?.message;
    let context = match metadata.iter().find(|(name, _)| name == "contextId") {
        Some((_, id)) if !id.is_empty() => optional_id(Some(Text(id.as_str().into())), "metadata.contextId", limits)
            .map_err(|fault| invalid(says, fault))?,
        Some(_) | None => None,
    };
    let target = target(&metadata);
    let mut send = Send {
        alias: Some(alias),
        context: context.map(|id| ContextId(id.into())),
        wait: Wait::Rest { max_ms: None },
        history: Some(0),
        ..Send::new(message)
    };
    if !metadata.is_empty() {
        let map = metadata.into_iter().map(|(name, text)| (name, Value::String(text))).collect();
        let json = Json::from_value(&Value::Object(map));
        send.message.metadata = Some(match &send.message.metadata {
            Some(own) => own.merged(&json),
            None => json.clone(),
        });
        send.metadata = Some(json);
    }
    Ok((send, target))
}

fn read<'a, T: serde::Deserialize<'a>>(text: &'a str, says: &'static str) -> Result<T, Fault> {
    shape::read(text, "params").map_err(|fault| invalid(says, fault))
}

/// A fault with the product's message, and the cause as a detail.
fn invalid(says: &'static str, fault: Fault) -> Fault {
    Fault { message: says.to_owned(), ..Fault::new(Kind::InvalidParams, "") }.fact("detail", fault.message)
}

fn task_id(id: Option<Text<'_>>, limits: &Limits, says: &'static str) -> Result<String, Fault> {
    let id = optional_id(id, "id", limits).map_err(|fault| invalid(says, fault))?;
    id.ok_or_else(|| Fault::params("id", "task id is required"))
}

/// Reads metadata, which must be a map of strings.
fn strings(metadata: Option<Object<'_>>, says: &'static str) -> Result<Vec<(String, String)>, Fault> {
    let Some(Value::Object(map)) = metadata.map(|object| object.to_json().to_value()) else { return Ok(Vec::new()) };
    let text = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let message = format!("metadata.{} must be a string", shortened(&name, 64));
            Err(invalid(says, Fault::params("metadata", message)))
        }
    };
    map.into_iter().map(text).collect()
}

fn target(metadata: &[(String, String)]) -> Option<SystemTarget> {
    let named = |wanted: &str| {
        metadata.iter().find(|(name, _)| name == wanted).and_then(|(_, text)| SystemTarget::parse(text.trim()))
    };
    named("agent").or_else(|| named("target"))
}

/// At most this many bytes, cut between two characters.
fn shortened_to(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
