//! The JSON-RPC methods of 0.1.
//!
//! A send carries the caller's id as [`model::Send::alias`]. Its message has no id, because the generation has none: the
//! field is empty, and the engine assigns one.

use model::{Call, ContextId, Fault, Limits, PushCall, Send, Wait};
use serde_json::value::RawValue;

use crate::a2a_v0_3::decode::{cancel, get, subscribe, unknown};
use crate::compat::decode::PreV1Decoder;
use crate::compat::{PreV1Form, shapes};
use crate::framing::fields::{self, optional_id, required_id, under};
use crate::framing::shape;
use crate::wire::Decoded;

/// The methods. Three of them are methods of 0.3 too.
pub const METHODS: &[&str] = &[
    "tasks/send",
    "tasks/sendSubscribe",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotification/set",
    "tasks/pushNotification/get",
];

/// Makes a call of a method and its params.
pub fn decode_rpc(method: &str, params: Option<&RawValue>, limits: &Limits) -> Result<Decoded, Fault> {
    let text = params.map_or("{}", RawValue::get);
    let whole = "params";
    let decoder = PreV1Decoder::new(PreV1Form::Type, limits);
    let call = match method {
        "tasks/send" => Call::Send(Box::new(send(&decoder, shape::read(text, whole)?)?)),
        "tasks/sendSubscribe" => Call::Stream(Box::new(send(&decoder, shape::read(text, whole)?)?)),
        "tasks/get" => get(&decoder, shape::read(text, whole)?)?,
        "tasks/cancel" => cancel(&decoder, shape::read(text, whole)?)?,
        "tasks/resubscribe" => subscribe(&decoder, shape::read(text, whole)?)?,
        "tasks/pushNotification/set" => push_set(&decoder, shape::read(text, whole)?)?,
        "tasks/pushNotification/get" => {
            let request: shapes::TaskRequest<'_> = shape::read(text, whole)?;
            // A task has one config here: the newest, which an empty id means.
            Call::Push(PushCall::Get { task: required_id(request.id, "id", limits)?, id: String::new() })
        }
        other => return Err(unknown(other, METHODS)),
    };
    Ok(Decoded::plain(call))
}

fn send(decoder: &PreV1Decoder<'_>, request: shapes::TaskSend<'_>) -> Result<Send, Fault> {
    let limits = decoder.limits;
    let alias = required_id(request.id, "id", limits)?;
    let Some(message) = request.message else {
        return Err(Fault::params("message", "message is missing"));
    };
    let message = decoder.said(message).map_err(|fault| under("message", fault))?.message;
    let push = request.push.map(|push| decoder.push_config(push).map_err(|fault| under("pushNotification", fault)));
    Ok(Send {
        alias: Some(alias),
        context: optional_id(request.session_id, "sessionId", limits)?.map(|id| ContextId(id.into())),
        wait: Wait::Rest { max_ms: Some(super::MAX_WAIT_MS) },
        history: decoder.history(request.history_length)?,
        accepted_output: fields::names(request.accepted_output_modes).into_iter().map(media_type).collect(),
        metadata: request.metadata.map(shape::Object::to_json),
        push: push.transpose()?,
        ..Send::new(message)
    })
}

/// A mode of the first generation as a media type.
fn media_type(mode: String) -> String {
    match mode.as_str() {
        "text" => "text/plain".to_owned(),
        "data" => "application/json".to_owned(),
        "file" => "application/octet-stream".to_owned(),
        _ => mode,
    }
}

/// Sets the one config of a task, or clears it: its id is the caller's id of the task, so that the latest stands.
fn push_set(decoder: &PreV1Decoder<'_>, request: shapes::TaskPushConfig<'_>) -> Result<Call, Fault> {
    let task = required_id(request.id, "id", decoder.limits)?;
    let Some(config) = request.config else {
        return Ok(Call::Push(PushCall::Delete { id: task.clone(), task }));
    };
    let mut config = decoder.push_config(config).map_err(|fault| under("pushNotificationConfig", fault))?;
    config.id = Some(task.clone());
    config.task = Some(task);
    Ok(Call::Push(PushCall::Create(config)))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
