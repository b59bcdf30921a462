//! The JSON-RPC methods of 0.2 and 0.3.

use model::{Call, Cancel, Fault, Get, Kind, Limits, PushCall, Subscribe};
use serde_json::value::RawValue;

use crate::compat::decode::Reading;
use crate::compat::{Form, shapes};
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
    let reading = Reading::new(Form::Kind, limits);
    let call = match method {
        "message/send" => Call::Send(Box::new(reading.send(shape::read(text, whole)?)?)),
        "message/stream" => Call::Stream(Box::new(reading.send(shape::read(text, whole)?)?)),
        "tasks/get" => get(&reading, shape::read(text, whole)?)?,
        "tasks/cancel" => cancel(&reading, shape::read(text, whole)?)?,
        "tasks/resubscribe" => subscribe(&reading, shape::read(text, whole)?)?,
        "tasks/pushNotificationConfig/set" => push_set(&reading, shape::read(text, whole)?)?,
        "tasks/pushNotificationConfig/get" => {
            let (task, id) = push_named(&reading, shape::read(text, whole)?)?;
            Call::Push(PushCall::Get { task, id: id.unwrap_or_default() })
        }
        "tasks/pushNotificationConfig/list" => {
            let (task, _) = push_named(&reading, shape::read(text, whole)?)?;
            Call::Push(PushCall::List { task, page_size: None, page_token: None })
        }
        "tasks/pushNotificationConfig/delete" => {
            let (task, id) = push_named(&reading, shape::read(text, whole)?)?;
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

pub(crate) fn get(reading: &Reading<'_>, request: shapes::TaskRequest<'_>) -> Result<Call, Fault> {
    let task = required_id(request.id, "id", reading.limits)?;
    Ok(Call::Get(Get { task, history: reading.history(request.history_length)? }))
}

pub(crate) fn cancel(reading: &Reading<'_>, request: shapes::TaskRequest<'_>) -> Result<Call, Fault> {
    let task = required_id(request.id, "id", reading.limits)?;
    Ok(Call::Cancel(Cancel { task, metadata: request.metadata.map(shape::Object::to_json) }))
}

pub(crate) fn subscribe(reading: &Reading<'_>, request: shapes::TaskRequest<'_>) -> Result<Call, Fault> {
    Ok(Call::Subscribe(Subscribe { task: required_id(request.id, "id", reading.limits)? }))
}

fn push_set(reading: &Reading<'_>, request: shapes::TaskPushConfig<'_>) -> Result<Call, Fault> {
    let task = required_id(request.task_id, "taskId", reading.limits)?;
    let Some(config) = request.config else {
        return Err(Fault::params("pushNotificationConfig", "pushNotificationConfig is missing"));
    };
    let mut config = reading.push_config(config).map_err(|fault| under("pushNotificationConfig", fault))?;
    config.task = Some(task);
    Ok(Call::Push(PushCall::Create(config)))
}

fn push_named(reading: &Reading<'_>, request: shapes::TaskRequest<'_>) -> Result<(String, Option<String>), Fault> {
    let task = required_id(request.id, "id", reading.limits)?;
    let id = optional_id(request.config_id, "pushNotificationConfigId", reading.limits)?;
    Ok((task, id))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
