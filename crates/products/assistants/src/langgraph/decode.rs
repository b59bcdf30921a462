//! Decodes requests into calls. Errors have the product's own messages.
//!
//! `contextId` is the thread, and a task is a run on it. A text part is a message of the conversation. A data part is merged
//! into the assistant's input, or resumes a run that waits for input.

use model::{Call, Cancel, ContextId, Fault, Get, Json, Kind, Limits, List, Part, Send, State, Wait};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{AssistantRequest, LangGraphProfile};
use dialects::kit::pre_v1::{PreV1Decoder, PreV1Form, shapes};
use dialects::kit::shape;
use dialects::wire;

/// The largest `historyLength`, and its default.
const HISTORY: u32 = 10;

/// A decoded request: the call, and conditions on the task that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssistantCall {
    pub call: Call,
    /// The thread that the request names.
    pub context: Option<ContextId>,
    pub resume: Resume,
}

/// Whether a message answers the question of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    No,
    /// A text for a task: an answer if the task waits for one, else the next message of the thread.
    Maybe,
    /// A resume value: an answer; it is an error if the task waits for none.
    Must,
}

/// Whether a cancel works. By the product's documentation it does not; it does in newer deployments, and at the address that
/// the versions of A2A share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancels {
    Refused,
    Work,
}

/// Decodes a request. `takes_text`: the assistant's input has `messages`.
pub fn decode(
    profile: LangGraphProfile,
    request: &AssistantRequest,
    takes_text: bool,
    cancels: Cancels,
    limits: &Limits,
) -> Result<AssistantCall, Fault> {
    let plain = |call| Ok(AssistantCall { call, context: None, resume: Resume::No });
    match request.method.as_str() {
        "message/send" => decode_send(profile, request, takes_text, limits, |send| Call::Send(Box::new(send))),
        "message/stream" => decode_send(profile, request, takes_text, limits, |send| Call::Stream(Box::new(send))),
        "tasks/get" => get(profile, &request.params, limits),
        "tasks/cancel" if cancels == Cancels::Refused => {
            Err(Fault::new(Kind::Unsupported, "Task cancellation is not currently supported"))
        }
        "tasks/cancel" => {
            check_thread(profile, &request.params)?;
            let (task, context) = named(&request.params, limits)?;
            Ok(AssistantCall { call: Call::Cancel(Cancel { task, metadata: None }), context, resume: Resume::No })
        }
        "SendMessage" | "SendStreamingMessage" => newer_send(request, limits),
        "ListTasks" => plain(list(&request.params, limits)?),
        newer => {
            let decoded = dialects::a2a_v1::decode_rpc(newer, request.raw.as_deref(), limits)?;
            match decoded.call {
                Call::Get(get) => {
                    let (task, context) = split(&get.task);
                    Ok(AssistantCall { call: Call::Get(Get { task, ..get }), context, resume: Resume::No })
                }
                Call::Cancel(cancel) => {
                    let (task, context) = split(&cancel.task);
                    Ok(AssistantCall { call: Call::Cancel(Cancel { task, ..cancel }), context, resume: Resume::No })
                }
                call => plain(call),
            }
        }
    }
}

/// In place of a decoder in the wires of this dialect, which only encode.
pub(crate) fn unused(method: &str, _params: Option<&RawValue>, _limits: &Limits) -> Result<wire::Decoded, Fault> {
    Err(Fault::new(Kind::MethodNotFound, format!("Method not found: {}", shape::shortened(method, 64))))
}

/// Checks a message before the assistant is looked up.
pub fn check(profile: LangGraphProfile, request: &AssistantRequest) -> Result<(), Fault> {
    if !super::envelope::is_send(&request.method) {
        return Ok(());
    }
    let bad = |text: &str| Err(Fault::new(Kind::InvalidParams, text));
    let Some(message) = request.params.get("message").and_then(Value::as_object) else {
        return match profile {
            LangGraphProfile::Documented => bad("Missing 'message' in params"),
            LangGraphProfile::Current => bad("Missing or invalid 'message' in params"),
        };
    };
    let text = |name: &str| message.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if text("messageId").is_none() {
        return bad("Missing required 'messageId' in message");
    }
    if text("role").is_none() {
        return bad("Missing required 'role' in message");
    }
    match message.get("parts") {
        Some(Value::Array(parts)) if parts.is_empty() => return bad("Message must contain at least one part"),
        Some(Value::Array(_)) => {}
        Some(_) | None => return bad("Invalid params: 'parts' must be an array"),
    }
    for name in ["contextId", "taskId"] {
        if message.get(name).is_some_and(|value| !value.is_string() && !value.is_null()) {
            return bad(&format!("{name} must be a string"));
        }
    }
    Ok(())
}

fn decode_send(
    profile: LangGraphProfile,
    request: &AssistantRequest,
    takes_text: bool,
    limits: &Limits,
    call: impl FnOnce(Send) -> Call,
) -> Result<AssistantCall, Fault> {
    let parts = request.params["message"]["parts"].as_array().map_or(&[][..], Vec::as_slice);
    check_parts(profile, parts, takes_text)?;
    let raw = request.raw.as_deref().map_or("{}", RawValue::get);
    let decoder = PreV1Decoder::new(PreV1Form::Kind, limits);
    let mut send: Send = decoder.send(shape::read::<shapes::Send<'_>>(raw, "params")?)?;
    let (task, context) = send.task.take().map_or((None, None), |id| {
        let (task, context) = split(&id);
        (Some(task), context)
    });
    let resumes = parts.iter().filter(|part| part["data"].get("resume").is_some()).count();
    let command = request.params["message"].get("command").and_then(|command| command.get("resume"));
    let mut resume = if task.is_some() { Resume::Maybe } else { Resume::No };
    if let (LangGraphProfile::Current, Some(value)) = (profile, command) {
        let needed = |what: &str| Fault::new(Kind::InvalidParams, what.to_owned());
        if send.context.is_none() && context.is_none() {
            return Err(needed("contextId is required when resuming a task with command.resume"));
        }
        if task.is_none() {
            return Err(needed("taskId is required when resuming a task"));
        }
        send.message.parts.push(Part::data(Json::from_value(&serde_json::json!({ "resume": value }))));
        resume = Resume::Must;
    }
    if resumes > 1 {
        return Err(Fault::new(Kind::InvalidParams, "Only one resume value is allowed in data parts"));
    }
    if resumes == 1 {
        if task.is_none() || (send.context.is_none() && context.is_none()) {
            return Err(Fault::new(Kind::InvalidParams, "contextId and taskId are required when resuming a task"));
        }
        resume = Resume::Must;
    }
    send.task = task;
    send.context = send.context.or(context);
    send.wait = Wait::Rest { max_ms: None };
    no_push(&send)?;
    send.history = Some(history(request.params.get("configuration").and_then(|c| c.get("historyLength")))?);
    Ok(AssistantCall { context: send.context.clone(), call: call(send), resume })
}

/// Refuses a push config: the product has no push notifications.
fn no_push(send: &Send) -> Result<(), Fault> {
    match send.push {
        Some(_) => {
            Err(Fault::new(Kind::PushNotSupported, "Push notifications are not supported: leave the push config out"))
        }
        None => Ok(()),
    }
}

fn check_parts(profile: LangGraphProfile, parts: &[Value], takes_text: bool) -> Result<(), Fault> {
    let bad = |text: String| Err(Fault::new(Kind::InvalidParams, text));
    let kind = |part: &Value| part.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !takes_text && parts.iter().any(|part| kind(part) == "text") {
        let message = "Assistant does not support conversational messages: its input schema has no 'messages' field; \
                       send a data part with the fields of its input";
        return bad(message.to_owned());
    }
    for part in parts {
        match kind(part).as_str() {
            "text" if part.get("text").is_some_and(Value::is_string) => {}
            "text" => return bad("TextPart must contain a 'text' field".to_owned()),
            "data" if part.get("data").is_some_and(Value::is_object) => {}
            "data" => return bad("DataPart must contain a JSON object in the 'data' field".to_owned()),
            "file" if profile == LangGraphProfile::Current => {
                let file = |name: &str| part["file"].get(name).is_some_and(Value::is_string);
                if file("bytes") == file("uri") {
                    return bad("FilePart must contain exactly one of 'bytes' and 'uri'".to_owned());
                }
            }
            other => {
                let kinds = match profile {
                    LangGraphProfile::Documented => "'text' and 'data' parts only",
                    LangGraphProfile::Current => "'text', 'data' and 'file' parts only",
                };
                let kind = shape::shortened(other, 32);
                return Err(Fault::new(
                    Kind::ContentType,
                    format!("Unsupported part kind '{kind}'. A2A agents support {kinds}."),
                ));
            }
        }
    }
    Ok(())
}

/// Decodes a send of 1.0, with the same rules for tasks and threads.
fn newer_send(request: &AssistantRequest, limits: &Limits) -> Result<AssistantCall, Fault> {
    let decoded = dialects::a2a_v1::decode_rpc(&request.method, request.raw.as_deref(), limits)?;
    let (mut send, stream) = match decoded.call {
        Call::Send(send) => (send, false),
        Call::Stream(send) => (send, true),
        call => return Ok(AssistantCall { call, context: None, resume: Resume::No }),
    };
    let mut resume = Resume::No;
    if let Some(id) = send.task.take() {
        let (task, context) = split(&id);
        (send.task, resume) = (Some(task), Resume::Maybe);
        send.context = send.context.or(context);
    }
    no_push(&send)?;
    let context = send.context.clone();
    Ok(AssistantCall { call: if stream { Call::Stream(send) } else { Call::Send(send) }, context, resume })
}

fn get(profile: LangGraphProfile, params: &Value, limits: &Limits) -> Result<AssistantCall, Fault> {
    if params.get("id").and_then(Value::as_str).is_none_or(str::is_empty) {
        return Err(Fault::new(Kind::InvalidParams, "Missing required parameter: id (task_id)"));
    }
    check_thread(profile, params)?;
    let (task, context) = named(params, limits)?;
    let history = Some(history(params.get("historyLength"))?);
    Ok(AssistantCall { call: Call::Get(Get { task, history }), context, resume: Resume::No })
}

/// In the documented profile a request about a task must name its thread.
fn check_thread(profile: LangGraphProfile, params: &Value) -> Result<(), Fault> {
    let is_named = params.get("contextId").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    match profile {
        LangGraphProfile::Documented if !is_named => {
            Err(Fault::new(Kind::InvalidParams, "Invalid request: Missing required parameter: contextId"))
        }
        LangGraphProfile::Documented | LangGraphProfile::Current => Ok(()),
    }
}

/// The task and the thread that a request names.
fn named(params: &Value, limits: &Limits) -> Result<(String, Option<ContextId>), Fault> {
    let id = params.get("id").and_then(Value::as_str).unwrap_or_default();
    if id.is_empty() {
        return Err(Fault::new(Kind::InvalidParams, "Missing required parameter: id (task_id)"));
    }
    let said = params.get("contextId").and_then(Value::as_str).filter(|text| !text.is_empty());
    if id.len() > 2 * limits.id_bytes || said.is_some_and(|text| text.len() > limits.id_bytes) {
        return Err(Fault::new(Kind::InvalidParams, "id or contextId is too long"));
    }
    let (task, context) = split(id);
    Ok((task, said.map(|text| ContextId(text.to_owned().into())).or(context)))
}

/// Splits `<thread>:<run>`, or a run alone.
fn split(id: &str) -> (String, Option<ContextId>) {
    match id.rsplit_once(':') {
        Some((thread, run)) => (run.to_owned(), Some(ContextId(thread.to_owned().into()))),
        None => (id.to_owned(), None),
    }
}

fn history(length: Option<&Value>) -> Result<u32, Fault> {
    let bad = |text: &str| Fault::new(Kind::InvalidParams, text.to_owned());
    match length {
        None | Some(Value::Null) => Ok(HISTORY),
        Some(value) => {
            let n = value.as_u64().ok_or_else(|| bad("historyLength must be a non-negative integer"))?;
            u32::try_from(n).ok().filter(|n| *n <= HISTORY).ok_or_else(|| bad("historyLength cannot exceed 10"))
        }
    }
}

fn list(params: &Value, limits: &Limits) -> Result<Call, Fault> {
    let bad = |text: String| Fault::new(Kind::InvalidParams, text);
    let text = |name: &str| params.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let page_size = match params.get("pageSize") {
        None | Some(Value::Null) => None,
        Some(size) => {
            let size = size.as_u64().filter(|n| (1..=u64::from(limits.page_size)).contains(n));
            let size = size.and_then(|n| u32::try_from(n).ok());
            Some(size.ok_or_else(|| bad("pageSize must be an integer between 1 and 100.".to_owned()))?)
        }
    };
    let state = match text("status") {
        None => None,
        Some(name) => {
            let known =
                state(name).ok_or_else(|| bad(format!("Invalid status value: '{}'.", shape::shortened(name, 32))))?;
            Some(known)
        }
    };
    let since = match text("statusTimestampAfter") {
        None => None,
        Some(stamp) => Some(model::Time::parse(stamp).ok_or_else(|| bad("Invalid statusTimestampAfter.".to_owned()))?),
    };
    Ok(Call::List(List {
        context: text("contextId").map(|text| ContextId(text.to_owned().into())),
        state,
        since,
        page_size,
        page_token: text("pageToken").map(str::to_owned),
        history: Some(history(params.get("historyLength")).unwrap_or(HISTORY)),
        artifacts: params.get("includeArtifacts") == Some(&Value::Bool(true)),
    }))
}

/// A state in the spelling of 0.3 or of 1.0.
fn state(name: &str) -> Option<State> {
    let bare = name.strip_prefix("TASK_STATE_").unwrap_or(name).to_ascii_lowercase().replace('_', "-");
    Some(match bare.as_str() {
        "submitted" => State::Submitted,
        "working" => State::Working,
        "input-required" => State::InputRequired,
        "auth-required" => State::AuthRequired,
        "completed" => State::Completed,
        "failed" => State::Failed,
        "canceled" | "cancelled" => State::Canceled,
        "rejected" => State::Rejected,
        _ => return None,
    })
}
