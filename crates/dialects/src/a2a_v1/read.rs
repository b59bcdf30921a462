//! The client's direction: what a 1.0 server answered.

use model::{Artifact, ContextId, Fault, Kind, Time};

use super::decode;
use super::{errors, shapes};
use crate::framing::fields::{each, names, present, under};
use crate::framing::shape::{self, BoundedList, EnumName, Int, Object, Text, shape};
pub use crate::seen::{ErrorSeen, PageSeen, Seen, StatusSeen, TaskSeen};
use crate::seen::{ill_formed, read, unlimited};

/// A bare task.
pub fn task(text: &str) -> Result<TaskSeen, Fault> {
    task_seen(read(text)?).map_err(ill_formed)
}

/// A ListTasksResponse.
pub fn page(text: &str) -> Result<PageSeen, Fault> {
    let shape: Page<'_> = read(text)?;
    let tasks = each("tasks", shape.tasks.unwrap_or_default().0, task_seen).map_err(ill_formed)?;
    let total_size = shape.total_size.and_then(|Int(n)| u64::try_from(n).ok());
    Ok(PageSeen { tasks, next_page_token: present(shape.next_page_token), total_size })
}

/// A StreamResponse or a SendMessageResponse.
pub fn stream_event(text: &str) -> Result<Seen, Fault> {
    seen(read(text)?).map_err(ill_formed)
}

/// A JSON-RPC error response, or the body of an HTTP+JSON error.
pub fn error(text: &str) -> Result<ErrorSeen, Fault> {
    let envelope: ErrorEnvelope<'_> = read(text)?;
    let Some(error) = envelope.error else {
        return Err(ill_formed(Fault::params("error", "error is missing")));
    };
    // Servers put other values there too; only a list of objects can contain a reason.
    let details: Option<BoundedList<Detail<'_>, 100>> =
        error.data.0.or(error.details.0).and_then(|raw| serde_json::from_str(raw.get()).ok());
    let reason = details.unwrap_or_default().0.into_iter().find_map(|detail| detail.reason).map(Text::into_string);
    let code = error.code.map_or(0, |Int(code)| code);
    let by_reason = |reason: &String| Kind::ALL.into_iter().find(|kind| errors::reason(*kind) == Some(reason.as_str()));
    let by_code = || Kind::ALL.into_iter().find(|kind| i64::from(errors::rpc_code(*kind)) == code);
    let kind = reason.as_ref().and_then(by_reason).or_else(by_code);
    Ok(ErrorSeen { code, message: error.message.map(Text::into_string).unwrap_or_default(), reason, kind })
}

shape! {
    pub(crate) struct Page ("an object") {
        tasks: Option<BoundedList<shapes::Task<'a>, { shapes::MAX_ANSWER }>> = "tasks",
        next_page_token: Option<Text<'a>> = "nextPageToken" | "next_page_token",
        total_size: Option<Int> = "totalSize" | "total_size",
    }
}

shape! {
    pub(crate) struct ErrorEnvelope ("an object") {
        error: Option<ErrorObject<'a>> = "error",
    }
}

shape! {
    pub(crate) struct ErrorObject ("an object") {
        code: Option<Int> = "code",
        message: Option<Text<'a>> = "message",
        data: shape::Any<'a> = "data",
        details: shape::Any<'a> = "details",
    }
}

shape! {
    pub(crate) struct Detail ("an object") {
        reason: Option<Text<'a>> = "reason",
    }
}

fn task_seen(shape: shapes::Task<'_>) -> Result<TaskSeen, Fault> {
    let id = present(shape.id).ok_or_else(|| Fault::params("id", "id is missing"))?;
    let Some(status) = shape.status else {
        return Err(Fault::params("status", "status is missing"));
    };
    let artifacts = each("artifacts", shape.artifacts.unwrap_or_default().0, artifact)?;
    let history = each("history", shape.history.unwrap_or_default().0, |one| said(one).map(|said| said.message))?;
    Ok(TaskSeen {
        id,
        context: context(shape.context_id),
        status: status_seen(status).map_err(|fault| under("status", fault))?,
        artifacts,
        history,
        metadata: shape.metadata.map(Object::to_json),
        unread: Vec::new(),
    })
}

fn seen(shape: shapes::StreamResponse<'_>) -> Result<Seen, Fault> {
    match (shape.task, shape.message, shape.status_update, shape.artifact_update) {
        (Some(task), None, None, None) => task_seen(task).map(Seen::Task).map_err(|fault| under("task", fault)),
        (None, Some(message), None, None) => {
            let said = said(message).map_err(|fault| under("message", fault))?;
            Ok(Seen::Message { message: said.message, context: said.context, task: said.task })
        }
        (None, None, Some(update), None) => {
            let task =
                present(update.task_id).ok_or_else(|| Fault::params("statusUpdate.taskId", "taskId is missing"))?;
            let Some(status) = update.status else {
                return Err(Fault::params("statusUpdate.status", "status is missing"));
            };
            Ok(Seen::Status {
                task,
                context: context(update.context_id),
                status: status_seen(status).map_err(|fault| under("statusUpdate.status", fault))?,
                metadata: update.metadata.map(Object::to_json),
                closes: false,
            })
        }
        (None, None, None, Some(update)) => {
            let task =
                present(update.task_id).ok_or_else(|| Fault::params("artifactUpdate.taskId", "taskId is missing"))?;
            let Some(shape) = update.artifact else {
                return Err(Fault::params("artifactUpdate.artifact", "artifact is missing"));
            };
            Ok(Seen::Artifact {
                task,
                context: context(update.context_id),
                artifact: artifact(shape).map_err(|fault| under("artifactUpdate.artifact", fault))?,
                append: update.append.unwrap_or(false),
                last: update.last_chunk.unwrap_or(false),
                metadata: update.metadata.map(Object::to_json),
            })
        }
        _ => Err(Fault::new(Kind::InvalidAgentResponse, "expected one of task, message, statusUpdate, artifactUpdate")),
    }
}

fn status_seen(shape: shapes::Status<'_>) -> Result<StatusSeen, Fault> {
    let message = match shape.message {
        None => None,
        Some(message) => Some(said(message).map_err(|fault| under("message", fault))?.message),
    };
    Ok(StatusSeen {
        state: shape.state.as_ref().and_then(shapes::state).flatten(),
        message,
        at: shape.timestamp.and_then(|text| Time::parse(&text.0)),
    })
}

/// A message of an answer. Servers leave out what callers must not: the id, an empty list of parts, their own role.
fn said(mut shape: shapes::Message<'_>) -> Result<decode::AddressedMessage, Fault> {
    let id = shape.message_id.take().unwrap_or(Text("".into()));
    let parts = shape.parts.take().unwrap_or_default().0;
    shape.role.get_or_insert(EnumName::Number(2));
    decode::said_parts(id, shape, parts, &unlimited())
}

/// An artifact may come without parts: the last chunk of one often does.
fn artifact(shape: shapes::Artifact<'_>) -> Result<Artifact, Fault> {
    let id = present(shape.artifact_id).ok_or_else(|| Fault::params("artifactId", "artifactId is missing"))?;
    let parts = each("parts", shape.parts.unwrap_or_default().0, decode::part)?;
    Ok(Artifact {
        id: id.into(),
        name: present(shape.name),
        description: present(shape.description),
        parts,
        metadata: shape.metadata.map(Object::to_json),
        extensions: names(shape.extensions),
    })
}

fn context(text: Option<Text<'_>>) -> Option<ContextId> {
    present(text).map(|id| ContextId(id.into()))
}
