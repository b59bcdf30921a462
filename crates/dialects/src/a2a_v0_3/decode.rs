//! The JSON-RPC methods of 0.2 and 0.3.

use model::{Call, Cancel, Fault, Get, Kind, Limits, PushCall, Subscribe};
use serde_json::value::RawValue;

use crate::compat::decode::PreV1Decoder;
use crate::compat::{PreV1Form, shapes};
use crate::framing::fields::{optional_id, required_id, under};
use crate::framing::near;
use crate::framing::shape;
use crate::wire::Decoded;

/// The methods of the JSON-RPC binding. Three of them are methods of 0.1 too.
pub const METHODS: &[&str] = &[
    "message/send",
    "message/stream",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get",
    "tasks/pushNotificationConfig/list",
    "tasks/pushNotificationConfig/delete",
    "agent/getAuthenticatedExtendedCard",
];

/// Makes a call of a method and its params.
///
/// A push config may be asked for without its id, as 0.2 did: then the id is empty, which means the newest.
pub fn decode_rpc(method: &str, params: Option<&RawValue>, limits: &Limits) -> Result<Decoded, Fault> {
    let text = params.map_or("{}", RawValue::get);
    let whole = "params";
    let decoder = PreV1Decoder::new(PreV1Form::Kind, limits);
    let call = match method {
        "message/send" => Call::Send(Box::new(decoder.send(shape::read(text, whole)?)?)),
        "message/stream" => Call::Stream(Box::new(decoder.send(shape::read(text, whole)?)?)),
        "tasks/get" => get(&decoder, shape::read(text, whole)?)?,
        "tasks/cancel" => cancel(&decoder, shape::read(text, whole)?)?,
        "tasks/resubscribe" => subscribe(&decoder, shape::read(text, whole)?)?,
        "tasks/pushNotificationConfig/set" => push_set(&decoder, shape::read(text, whole)?)?,
        "tasks/pushNotificationConfig/get" => {
            let (task, id) = push_named(&decoder, shape::read(text, whole)?)?;
            Call::Push(PushCall::Get { task, id: id.unwrap_or_default() })
        }
        "tasks/pushNotificationConfig/list" => {
            let (task, _) = push_named(&decoder, shape::read(text, whole)?)?;
            Call::Push(PushCall::List { task, page_size: None, page_token: None })
        }
        "tasks/pushNotificationConfig/delete" => {
            let (task, id) = push_named(&decoder, shape::read(text, whole)?)?;
            let missing = "pushNotificationConfigId is missing or empty";
            let id = id.ok_or_else(|| Fault::params("pushNotificationConfigId", missing))?;
            Call::Push(PushCall::Delete { task, id })
        }
        "agent/getAuthenticatedExtendedCard" => Call::ExtendedCard,
        other => return Err(unknown(other, METHODS)),
    };
    Ok(Decoded::plain(call))
}

/// The fault for a method that is none of these.
pub(crate) fn unknown(method: &str, known: &[&str]) -> Fault {
    let advice = near::method_advice(method, known);
    Fault::new(Kind::MethodNotFound, format!("no method \"{}\"{advice}", shape::shortened(method, 64)))
}

pub(crate) fn get(decoder: &PreV1Decoder<'_>, request: shapes::TaskRequest<'_>) -> Result<Call, Fault> {
    let task = required_id(request.id, "id", decoder.limits)?;
    Ok(Call::Get(Get { task, history: decoder.history(request.history_length)? }))
}

pub(crate) fn cancel(decoder: &PreV1Decoder<'_>, request: shapes::TaskRequest<'_>) -> Result<Call, Fault> {
    let task = required_id(request.id, "id", decoder.limits)?;
    Ok(Call::Cancel(Cancel { task, metadata: request.metadata.map(shape::Object::to_json) }))
}

pub(crate) fn subscribe(decoder: &PreV1Decoder<'_>, request: shapes::TaskRequest<'_>) -> Result<Call, Fault> {
    Ok(Call::Subscribe(Subscribe { task: required_id(request.id, "id", decoder.limits)? }))
}

fn push_set(decoder: &PreV1Decoder<'_>, request: shapes::TaskPushConfig<'_>) -> Result<Call, Fault> {
    let task = required_id(request.task_id, "taskId", decoder.limits)?;
    let Some(config) = request.config else {
        return Err(Fault::params("pushNotificationConfig", "pushNotificationConfig is missing"));
    };
    let mut config = decoder.push_config(config).map_err(|fault| under("pushNotificationConfig", fault))?;
    config.task = Some(task);
    Ok(Call::Push(PushCall::Create(config)))
}

fn push_named(decoder: &PreV1Decoder<'_>, request: shapes::TaskRequest<'_>) -> Result<(String, Option<String>), Fault> {
    let task = required_id(request.id, "id", decoder.limits)?;
    let id = optional_id(request.config_id, "pushNotificationConfigId", decoder.limits)?;
    Ok((task, id))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
