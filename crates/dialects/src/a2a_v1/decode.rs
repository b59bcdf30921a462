//! Requests into calls: the JSON-RPC methods, and the shapes both bindings share.
//!
//! Reading is liberal where the wire is known to vary (spellings, nulls, numbers as strings, base64 without padding) and
//! exact where a guess would be a lie: an unknown enum value, a second content in a part, the same member twice.

use std::sync::Arc;

use model::{
    Call, Cancel, Content, ContextId, Fault, Get, Json, Kind, Limits, List, Message, Part, PushCall, PushConfig, Send,
    State, Subscribe, Time, Wait,
};
use serde_json::value::RawValue;

use super::shapes;
use crate::framing::fields::{
    base64, each, header_safe, history, names, no_parts, optional_id, optional_id_text, present, push_page_size,
    references, required_id, required_id_text, some_parts, under,
};
use crate::framing::near;
use crate::framing::shape::{self, EnumName, Int, Text};
pub use crate::wire::Decoded;

/// The methods of the JSON-RPC binding. None of them is a method of an older generation.
pub const METHODS: &[&str] = &[
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
];

/// Makes a call of a method and its params.
pub fn decode_rpc(method: &str, params: Option<&RawValue>, limits: &Limits) -> Result<Decoded, Fault> {
    let text = params.map_or("{}", RawValue::get);
    let whole = "params";
    match method {
        "SendMessage" => send(shape::read(text, whole)?, limits, false),
        "SendStreamingMessage" => send(shape::read(text, whole)?, limits, true),
        "GetTask" => get(shape::read(text, whole)?, limits),
        "ListTasks" => list(shape::read(text, whole)?, limits),
        "CancelTask" => cancel_json(shape::read(text, whole)?, limits),
        "SubscribeToTask" => subscribe(shape::read(text, whole)?, limits),
        "CreateTaskPushNotificationConfig" => push_create(shape::read(text, whole)?, limits),
        "GetTaskPushNotificationConfig" => push_get(shape::read(text, whole)?, limits),
        "ListTaskPushNotificationConfigs" => push_list(shape::read(text, whole)?, limits),
        "DeleteTaskPushNotificationConfig" => push_delete(shape::read(text, whole)?, limits),
        "GetExtendedAgentCard" => extended_card(shape::read(text, whole)?, limits),
        other => {
            let advice = near::method_advice(other, METHODS);
            let message = format!("no method \"{}\"{advice}", shape::shortened(other, 64));
            Err(Fault::new(Kind::MethodNotFound, message))
        }
    }
}

pub fn send(request: shapes::SendMessageRequest<'_>, limits: &Limits, streaming: bool) -> Result<Decoded, Fault> {
    let tenant = optional_id(request.tenant, "tenant", limits)?;
    let Some(message) = request.message else {
        return Err(Fault::params("message", "message is missing"));
    };
    let message = said(message, limits).map_err(|fault| under("message", fault))?;
    send_in(tenant, message, request.configuration, request.metadata.map(shape::Object::to_json), limits, streaming)
}

/// A send of a message that has been read.
pub(super) fn send_call(
    tenant: Option<Text<'_>>,
    message: Option<AddressedMessage>,
    configuration: Option<shapes::Configuration<'_>>,
    metadata: Option<Json>,
    limits: &Limits,
    streaming: bool,
) -> Result<Decoded, Fault> {
    let tenant = optional_id(tenant, "tenant", limits)?;
    let Some(message) = message else {
        return Err(Fault::params("message", "message is missing"));
    };
    send_in(tenant, message, configuration, metadata, limits, streaming)
}

fn send_in(
    tenant: Option<String>,
    message: AddressedMessage,
    configuration: Option<shapes::Configuration<'_>>,
    metadata: Option<Json>,
    limits: &Limits,
    streaming: bool,
) -> Result<Decoded, Fault> {
    let AddressedMessage { message, task, context } = message;
    let mut send = Send { task, context, metadata, ..Send::new(message) };
    if let Some(configuration) = configuration {
        configure(&mut send, configuration, limits).map_err(|fault| under("configuration", fault))?;
    }
    let send = Box::new(send);
    Ok(Decoded { call: if streaming { Call::Stream(send) } else { Call::Send(send) }, tenant })
}

fn configure(send: &mut Send, shape: shapes::Configuration<'_>, limits: &Limits) -> Result<(), Fault> {
    if shape.return_immediately == Some(true) {
        send.wait = Wait::Exists;
    }
    send.history = history(shape.history_length)?;
    send.accepted_output = names(shape.accepted_output_modes);
    if let Some(push) = shape.push {
        let push = push_config(push, limits).map_err(|fault| under("taskPushNotificationConfig", fault))?;
        send.push = Some(push);
    }
    Ok(())
}

pub(super) fn get(request: shapes::GetTaskRequest<'_>, limits: &Limits) -> Result<Decoded, Fault> {
    let tenant = optional_id(request.tenant, "tenant", limits)?;
    let task = required_id(request.id, "id", limits)?;
    Ok(Decoded { call: Call::Get(Get { task, history: history(request.history_length)? }), tenant })
}

pub(super) fn list(mut request: shapes::ListTasksRequest<'_>, limits: &Limits) -> Result<Decoded, Fault> {
    let since = match request.status_timestamp_after.take().filter(|text| !text.0.is_empty()) {
        None => None,
        Some(text) => Some(Time::parse(&text.0).ok_or_else(|| {
            let found = shape::shortened(&text.0, 64);
            Fault::params(
                "statusTimestampAfter",
                format!("statusTimestampAfter must be a time such as 2026-05-01T10:00:00.000Z, not {found:?}"),
            )
        })?),
    };
    list_since(request, since, limits)
}

/// A list whose time has been read.
pub(super) fn list_since(
    request: shapes::ListTasksRequest<'_>,
    since: Option<Time>,
    limits: &Limits,
) -> Result<Decoded, Fault> {
    let tenant = optional_id(request.tenant, "tenant", limits)?;
    let page_size = match request.page_size {
        None => None,
        Some(Int(n)) => match u32::try_from(n) {
            Ok(n) if (1..=limits.page_size).contains(&n) => Some(n),
            _ => {
                let max = limits.page_size;
                return Err(Fault::params("pageSize", format!("pageSize must be from 1 to {max}, not {n}")));
            }
        },
    };
    let list = List {
        context: optional_id(request.context_id, "contextId", limits)?.map(|id| ContextId(id.into())),
        state: request.status.as_ref().map(state_filter).transpose()?.flatten(),
        since,
        page_size,
        page_token: request.page_token.map(Text::into_string).filter(|token| !token.is_empty()),
        history: history(request.history_length)?,
        artifacts: request.include_artifacts.unwrap_or(false),
    };
    Ok(Decoded { call: Call::List(list), tenant })
}

fn state_filter(name: &EnumName<'_>) -> Result<Option<State>, Fault> {
    shapes::state(name).ok_or_else(|| {
        let known = State::ALL.map(shapes::state_name).join(", ");
        Fault::params("status", format!("status: there is no state {name}; the states are {known}"))
    })
}

/// A cancel whose metadata stands in the request's JSON.
pub(super) fn cancel_json(mut request: shapes::TaskRequest<'_>, limits: &Limits) -> Result<Decoded, Fault> {
    let metadata = request.metadata.take().map(shape::Object::to_json);
    cancel(request, metadata, limits)
}

pub(super) fn cancel(
    request: shapes::TaskRequest<'_>,
    metadata: Option<Json>,
    limits: &Limits,
) -> Result<Decoded, Fault> {
    let tenant = optional_id(request.tenant, "tenant", limits)?;
    let task = required_id(request.id, "id", limits)?;
    Ok(Decoded { call: Call::Cancel(Cancel { task, metadata }), tenant })
}

pub(super) fn subscribe(request: shapes::TaskRequest<'_>, limits: &Limits) -> Result<Decoded, Fault> {
    let tenant = optional_id(request.tenant, "tenant", limits)?;
    let task = required_id(request.id, "id", limits)?;
    Ok(Decoded { call: Call::Subscribe(Subscribe { task }), tenant })
}

pub fn push_create(mut request: shapes::PushConfig<'_>, limits: &Limits) -> Result<Decoded, Fault> {
    let tenant = optional_id(request.tenant.take(), "tenant", limits)?;
    let config = push_config(request, limits)?;
    if config.task.is_none() {
        return Err(Fault::params("taskId", "taskId is missing"));
    }
    Ok(Decoded { call: Call::Push(PushCall::Create(config)), tenant })
}

pub(super) fn push_get(request: shapes::PushRequest<'_>, limits: &Limits) -> Result<Decoded, Fault> {
    let tenant = optional_id(request.tenant, "tenant", limits)?;
    let task = required_id(request.task_id, "taskId", limits)?;
    let id = required_id(request.id, "id", limits)?;
    Ok(Decoded { call: Call::Push(PushCall::Get { task, id }), tenant })
}

pub(super) fn push_delete(request: shapes::PushRequest<'_>, limits: &Limits) -> Result<Decoded, Fault> {
    let tenant = optional_id(request.tenant, "tenant", limits)?;
    let task = required_id(request.task_id, "taskId", limits)?;
    let id = required_id(request.id, "id", limits)?;
    Ok(Decoded { call: Call::Push(PushCall::Delete { task, id }), tenant })
}

pub(super) fn push_list(request: shapes::PushRequest<'_>, limits: &Limits) -> Result<Decoded, Fault> {
    let tenant = optional_id(request.tenant, "tenant", limits)?;
    let task = required_id(request.task_id, "taskId", limits)?;
    let page_size = push_page_size(request.page_size, limits)?;
    let page_token = request.page_token.map(Text::into_string).filter(|token| !token.is_empty());
    Ok(Decoded { call: Call::Push(PushCall::List { task, page_size, page_token }), tenant })
}

pub(super) fn extended_card(request: shapes::TenantRequest<'_>, limits: &Limits) -> Result<Decoded, Fault> {
    let tenant = optional_id(request.tenant, "tenant", limits)?;
    Ok(Decoded { call: Call::ExtendedCard, tenant })
}

fn push_config(shape: shapes::PushConfig<'_>, limits: &Limits) -> Result<PushConfig, Fault> {
    let task = optional_id(shape.task_id, "taskId", limits)?;
    let id = optional_id(shape.id, "id", limits)?;
    let Some(url) = shape.url.filter(|url| !url.0.is_empty()) else {
        return Err(Fault::params("url", "url is missing"));
    };
    let (scheme, credentials) = match shape.authentication {
        None => (None, None),
        Some(authentication) => {
            let Some(scheme) = authentication.scheme.filter(|scheme| !scheme.0.is_empty()) else {
                return Err(Fault::params("authentication.scheme", "authentication.scheme is missing"));
            };
            (Some(scheme), authentication.credentials.filter(|text| !text.0.is_empty()))
        }
    };
    Ok(PushConfig {
        task,
        id,
        url: header_safe(url, "url")?,
        token: shape.token.filter(|t| !t.0.is_empty()).map(|t| header_safe(t, "token")).transpose()?,
        scheme: scheme.map(|s| header_safe(s, "authentication.scheme")).transpose()?,
        credentials: credentials.map(|c| header_safe(c, "authentication.credentials")).transpose()?,
    })
}

/// A message with the task and the context it names.
pub(super) struct AddressedMessage {
    pub(super) message: Message,
    pub(super) task: Option<String>,
    pub(super) context: Option<ContextId>,
}

pub(super) fn said(mut shape: shapes::Message<'_>, limits: &Limits) -> Result<AddressedMessage, Fault> {
    let id = required_id_text(shape.message_id.take(), "messageId", limits)?;
    let parts = some_parts(shape.parts.take(), limits)?;
    said_parts(id, shape, parts, limits)
}

/// The message with its id and parts, which have been looked at.
pub(super) fn said_parts(
    id: Text<'_>,
    shape: shapes::Message<'_>,
    parts: Vec<shapes::Part<'_>>,
    limits: &Limits,
) -> Result<AddressedMessage, Fault> {
    let metadata = shape.metadata.map(shape::Object::to_json);
    addressed_parts(id, shape, || each("parts", parts, part), metadata, limits)
}

/// A message whose parts and metadata have been read.
pub(super) fn addressed(
    mut shape: shapes::Message<'_>,
    parts: Vec<Part>,
    metadata: Option<Json>,
    limits: &Limits,
) -> Result<AddressedMessage, Fault> {
    let id = required_id_text(shape.message_id.take(), "messageId", limits)?;
    if parts.is_empty() {
        return Err(no_parts());
    }
    addressed_parts(id, shape, || Ok(parts), metadata, limits)
}

fn addressed_parts(
    id: Text<'_>,
    shape: shapes::Message<'_>,
    parts: impl FnOnce() -> Result<Vec<Part>, Fault>,
    metadata: Option<Json>,
    limits: &Limits,
) -> Result<AddressedMessage, Fault> {
    let task = optional_id(shape.task_id, "taskId", limits)?;
    let context = optional_id_text(shape.context_id, "contextId", limits)?.map(|id| ContextId(Arc::from(&*id.0)));
    let Some(role) = shape.role else {
        return Err(Fault::params("role", "role is missing: give ROLE_USER"));
    };
    let Some(role) = shapes::role(&role) else {
        return Err(Fault::params("role", format!("role must be ROLE_USER or ROLE_AGENT, not {role}")));
    };
    let message = Message {
        id: Arc::from(&*id.0),
        role,
        parts: parts()?,
        metadata,
        extensions: names(shape.extensions),
        references: references(shape.reference_task_ids, limits)?,
    };
    Ok(AddressedMessage { message, task, context })
}

pub(super) fn part(shape: shapes::Part<'_>) -> Result<Part, Fault> {
    let content = match (shape.text, shape.raw, shape.url, shape.data.0) {
        (Some(text), None, None, None) => Content::Text(text.into_string()),
        (None, Some(raw), None, None) => Content::Raw(base64(raw.0.as_bytes(), "raw")?),
        (None, None, Some(url), None) => Content::Url(url.into_string()),
        (None, None, None, Some(data)) => Content::Data(Json::from(data)),
        (None, None, None, None) => {
            return Err(Fault::params("", "a part has one of text, raw, url and data; this one has none"));
        }
        _ => return Err(Fault::params("", "a part has one of text, raw, url and data; this one has several")),
    };
    Ok(Part {
        content,
        filename: present(shape.filename),
        media_type: present(shape.media_type),
        metadata: shape.metadata.map(shape::Object::to_json),
    })
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
