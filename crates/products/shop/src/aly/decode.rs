//! Decoding of requests. The shapes are those of A2A 1.0, and every spelling is a member of its own: where a request has
//! both, the one in camelCase counts. Members of 1.0 that Aly does not support are read and have no effect.

use model::{Call, Fault, Kind, Limits, List as Listing, PushCall, Send, Wait};
use serde_json::value::RawValue;

use super::{MOST_ON_A_PAGE, PAGE_SIZE, own_id};
use dialects::framing::near;
use dialects::kit::fields::{optional_id, push_page_size, required_id};
use dialects::kit::shape::{self, Any, Int, List, Name, Object, Text, shape};
use dialects::kit::v1::{self, shapes as v1_shapes};
pub use dialects::wire::Decoded;

/// The methods: those of A2A 1.0 without the extended card, which Aly does not have.
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
];

shape! {
    pub(crate) struct SendParams ("an object") {
        message: Option<Message<'a>> = "message",
        configuration: Option<Configuration<'a>> = "configuration",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    /// History length, blocking and output modes have no effect.
    pub(crate) struct Configuration ("an object") {
        push: Option<PushParams<'a>> = "taskPushNotificationConfig",
        push_snake: Option<PushParams<'a>> = "task_push_notification_config",
    }
}

shape! {
    /// The task id of a message is ignored: every message opens a new task.
    pub(crate) struct Message ("a message object") {
        message_id: Option<Text<'a>> = "messageId",
        message_id_snake: Option<Text<'a>> = "message_id",
        context_id: Option<Text<'a>> = "contextId",
        context_id_snake: Option<Text<'a>> = "context_id",
        role: Option<Name<'a>> = "role",
        parts: Option<List<Part<'a>, { v1_shapes::MAX_PARTS }>> = "parts",
        metadata: Option<Object<'a>> = "metadata",
        extensions: Option<List<Text<'a>, { v1_shapes::MAX_NAMES }>> = "extensions",
        references: Option<List<Text<'a>, { v1_shapes::MAX_NAMES }>> = "referenceTaskIds",
        references_snake: Option<List<Text<'a>, { v1_shapes::MAX_NAMES }>> = "reference_task_ids",
    }
}

shape! {
    /// `kind` and `type` are redundant and skipped, like unknown members.
    pub(crate) struct Part ("a part object") {
        text: Option<Text<'a>> = "text",
        raw: Option<Text<'a>> = "raw",
        url: Option<Text<'a>> = "url",
        data: Any<'a> = "data",
        metadata: Option<Object<'a>> = "metadata",
        filename: Option<Text<'a>> = "filename",
        media_type: Option<Text<'a>> = "mediaType",
        media_type_snake: Option<Text<'a>> = "media_type",
    }
}

shape! {
    pub(crate) struct TaskParams ("an object") {
        id: Option<Text<'a>> = "id",
        task_id: Option<Text<'a>> = "taskId",
        task_id_snake: Option<Text<'a>> = "task_id",
        metadata: Option<Object<'a>> = "metadata",
    }
}

shape! {
    /// The filters by status and time, the history length and the choice of artifacts have no effect.
    pub(crate) struct ListParams ("an object") {
        context_id: Option<Text<'a>> = "contextId",
        context_id_snake: Option<Text<'a>> = "context_id",
        page_size: Option<Int> = "pageSize",
        page_size_snake: Option<Int> = "page_size",
        limit: Option<Int> = "limit",
        page_token: Option<Text<'a>> = "pageToken",
        page_token_snake: Option<Text<'a>> = "page_token",
        cursor: Option<Text<'a>> = "cursor",
    }
}

shape! {
    /// A push config to register.
    pub(crate) struct PushParams ("an object") {
        id: Option<Text<'a>> = "id",
        task_id: Option<Text<'a>> = "taskId",
        task_id_snake: Option<Text<'a>> = "task_id",
        url: Option<Text<'a>> = "url",
        token: Option<Text<'a>> = "token",
        authentication: Option<v1_shapes::Authentication<'a>> = "authentication",
    }
}

shape! {
    /// One push config of a task, or all.
    pub(crate) struct PushQuery ("an object") {
        task_id: Option<Text<'a>> = "taskId",
        task_id_snake: Option<Text<'a>> = "task_id",
        id: Option<Text<'a>> = "id",
        config_id: Option<Text<'a>> = "configId",
        config_id_snake: Option<Text<'a>> = "config_id",
        page_size: Option<Int> = "pageSize",
        page_size_snake: Option<Int> = "page_size",
        page_token: Option<Text<'a>> = "pageToken",
        page_token_snake: Option<Text<'a>> = "page_token",
    }
}

/// Decodes a method and its params. The call names tasks by their own ids.
pub fn decode(method: &str, params: Option<&RawValue>, limits: &Limits) -> Result<Decoded, Fault> {
    let text = params.map_or("{}", RawValue::get);
    let whole = "params";
    let call = match method {
        "SendMessage" => Call::Send(Box::new(sent(text, whole, limits)?)),
        "SendStreamingMessage" => Call::Stream(Box::new(sent(text, whole, limits)?)),
        "GetTask" => {
            let task = task_id(shape::read(text, whole)?, limits)?;
            Call::Get(model::Get { task, history: None })
        }
        "ListTasks" => list(shape::read(text, whole)?, limits)?,
        "CancelTask" => {
            let mut params: TaskParams<'_> = shape::read(text, whole)?;
            let metadata = params.metadata.take().map(Object::to_json);
            Call::Cancel(model::Cancel { task: task_id(params, limits)?, metadata })
        }
        "SubscribeToTask" => Call::Subscribe(model::Subscribe { task: task_id(shape::read(text, whole)?, limits)? }),
        "CreateTaskPushNotificationConfig" => push_create(shape::read(text, whole)?, limits)?,
        "GetTaskPushNotificationConfig" => {
            let (task, id) = push_named(shape::read(text, whole)?, limits)?;
            Call::Push(PushCall::Get { task, id })
        }
        "ListTaskPushNotificationConfigs" => push_list(shape::read(text, whole)?, limits)?,
        "DeleteTaskPushNotificationConfig" => {
            let (task, id) = push_named(shape::read(text, whole)?, limits)?;
            Call::Push(PushCall::Delete { task, id })
        }
        other => {
            let advice = near::method_advice(other, METHODS);
            let shown = shape::shortened(other, 64);
            let message = format!("no method \"{shown}\"; the methods are {}{advice}", METHODS.join(", "));
            return Err(Fault::new(Kind::MethodNotFound, message));
        }
    };
    Ok(Decoded::plain(call))
}

/// Decodes the params of a send, which opens a task and waits for its end.
pub(super) fn sent(text: &str, whole: &'static str, limits: &Limits) -> Result<Send, Fault> {
    let SendParams { message, configuration, metadata } = shape::read(text, whole)?;
    let push = configuration.and_then(|configuration| configuration.push.or(configuration.push_snake));
    let configuration = v1_shapes::Configuration { push: push.map(config), ..v1_shapes::Configuration::default() };
    let request = v1_shapes::SendMessageRequest {
        tenant: None,
        message: message.map(said),
        configuration: Some(configuration),
        metadata,
    };
    let decoded = v1::send(request, limits, false)?;
    match decoded.call {
        Call::Send(send) => Ok(Send { task: None, wait: Wait::Rest { max_ms: None }, history: None, ..*send }),
        Call::Stream(_)
        | Call::Get(_)
        | Call::List(_)
        | Call::Cancel(_)
        | Call::Subscribe(_)
        | Call::Push(_)
        | Call::ExtendedCard => Err(Fault::internal("a send was read as something else")),
    }
}

fn said(message: Message<'_>) -> v1_shapes::Message<'_> {
    v1_shapes::Message {
        message_id: message.message_id.or(message.message_id_snake),
        context_id: message.context_id.or(message.context_id_snake),
        task_id: None,
        role: message.role,
        parts: message.parts.map(|parts| List(parts.0.into_iter().map(part).collect())),
        metadata: message.metadata,
        extensions: message.extensions,
        reference_task_ids: message.references.or(message.references_snake),
    }
}

fn part(part: Part<'_>) -> v1_shapes::Part<'_> {
    let Part { text, raw, url, data, metadata, filename, media_type, media_type_snake } = part;
    v1_shapes::Part { text, raw, url, data, metadata, filename, media_type: media_type.or(media_type_snake) }
}

fn config(params: PushParams<'_>) -> v1_shapes::PushConfig<'_> {
    let PushParams { id, task_id, task_id_snake, url, token, authentication } = params;
    v1_shapes::PushConfig { tenant: None, id, task_id: task_id.or(task_id_snake), url, token, authentication }
}

fn task_id(params: TaskParams<'_>, limits: &Limits) -> Result<String, Fault> {
    let TaskParams { id, task_id, task_id_snake, metadata: _ } = params;
    let id = id.or(task_id).or(task_id_snake);
    required_id(id, "id", limits).map(|id| own_id(&id))
}

/// Decodes the params of a list, in all spellings of page size and page token.
pub(super) fn list(params: ListParams<'_>, limits: &Limits) -> Result<Call, Fault> {
    let most = MOST_ON_A_PAGE.min(limits.page_size);
    let size = params.page_size.or(params.page_size_snake).or(params.limit);
    let page_size = match size {
        None => PAGE_SIZE.min(most),
        Some(Int(n)) => match u32::try_from(n) {
            Ok(n) if (1..=most).contains(&n) => n,
            _ => return Err(Fault::params("pageSize", format!("pageSize must be from 1 to {most}, not {n}"))),
        },
    };
    let token = params.page_token.or(params.page_token_snake).or(params.cursor);
    let context = params.context_id.or(params.context_id_snake);
    Ok(Call::List(Listing {
        context: optional_id(context, "contextId", limits)?.map(|id| model::ContextId(id.into())),
        page_size: Some(page_size),
        page_token: token.map(Text::into_string).filter(|token| !token.is_empty()),
        artifacts: true,
        ..Listing::default()
    }))
}

pub(super) fn push_create(params: PushParams<'_>, limits: &Limits) -> Result<Call, Fault> {
    let mut call = v1::push_create(config(params), limits)?.call;
    if let Call::Push(PushCall::Create(config)) = &mut call {
        config.task = config.task.take().map(|task| own_id(&task));
    }
    Ok(call)
}

fn push_named(params: PushQuery<'_>, limits: &Limits) -> Result<(String, String), Fault> {
    let task = required_id(params.task_id.or(params.task_id_snake), "taskId", limits)?;
    let id = params.id.or(params.config_id).or(params.config_id_snake);
    // The id may be a URL, which is longer than other ids; every stored id is shorter than this limit.
    let Some(id) = id.map(Text::into_string).filter(|id| !id.is_empty()) else {
        return Err(Fault::params("id", "id is missing: give the config's id, or its url"));
    };
    Ok((own_id(&task), id))
}

fn push_list(params: PushQuery<'_>, limits: &Limits) -> Result<Call, Fault> {
    let task = required_id(params.task_id.or(params.task_id_snake), "taskId", limits)?;
    let page_size = push_page_size(params.page_size.or(params.page_size_snake), limits)?;
    let page_token = params.page_token.or(params.page_token_snake).map(Text::into_string);
    let page_token = page_token.filter(|token| !token.is_empty());
    Ok(Call::Push(PushCall::List { task: own_id(&task), page_size, page_token }))
}
