//! Writes tasks in the product's form, and the frames of its streams.
//!
//! A task has five members here. Timestamps, contexts, message ids and the metadata of artifacts are not shown.

use model::{Artifact, BlobKind, Content, Message, Part, Role, State, Task};
use serde_json::Value;

use super::{NAME, SystemAddress};
use dialects::framing::json::Writer;
use dialects::framing::sse;
use dialects::kit::shown_status;
use dialects::wire::{DisplayId, TaskView};

/// A comment that keeps a stream open; clients ignore it.
pub const HEARTBEAT: &[u8] = b": heartbeat\n\n";

/// The metadata member with the task's name.
const TASK_NAME: &str = "orloj.task";

/// The id that a task is shown under: the caller's, if the task was opened in this dialect.
pub fn shown_id(task: &Task) -> DisplayId<'_> {
    match alias(task) {
        Some(alias) => DisplayId::Alias(alias),
        None => DisplayId::Own(task.id),
    }
}

fn alias(task: &Task) -> Option<&str> {
    task.alias.as_deref().filter(|_| *task.dialect == *NAME)
}

/// Writes a task.
pub fn task(w: &mut Writer, task: &Task, system: &SystemAddress<'_>, view: &TaskView) {
    let (state, said, _) = shown_status(task);
    w.begin_object();
    shown_id(task).write(w.key("id"));
    w.key("status").begin_object();
    w.key("state").plain(state_name(state));
    match (state, reason(task)) {
        (State::Canceled, Some(reason)) => {
            let message = w.key("message");
            message.begin_object();
            message.key("role").plain("agent");
            message.key("parts").begin_array();
            text_part(message, &reason);
            message.end_array();
            message.end_object();
        }
        (State::Completed, Some(_) | None) if task.reply.is_none() => completed_message(w, task, said),
        (_, Some(_) | None) => {
            if let Some(said) = said {
                self::message(w.key("message"), said);
            }
        }
    }
    w.end_object();
    // An ended task has the member even if there are no artifacts.
    if view.artifacts && (state.is_terminal() || !task.artifacts.is_empty()) {
        w.key("artifacts").begin_array();
        for (index, one) in task.artifacts.iter().enumerate() {
            artifact(w, one, index);
        }
        w.end_array();
    }
    let history = view.history(task);
    if !history.is_empty() {
        w.key("history").begin_array();
        for one in history {
            message(w, one);
        }
        w.end_array();
    }
    let metadata = metadata(task, system);
    if !metadata.is_empty() {
        w.key("metadata").begin_object();
        for (name, text) in &metadata {
            w.key(name).string(text);
        }
        w.end_object();
    }
    w.end_object();
}

/// Writes the status message of a completed task. It has the text and data parts of the last artifact with such parts,
/// followed by the agent's last message unless that only repeats the state. Files are in the artifacts only.
fn completed_message(w: &mut Writer, task: &Task, said: Option<&Message>) {
    let answer = task.artifacts.iter().rev().find(|artifact| artifact.parts.iter().any(is_text_or_data));
    let said = said.filter(|said| answer.is_none() || said.text() != state_name(State::Completed));
    if answer.is_none() && said.is_none() {
        return;
    }
    w.key("message").begin_object();
    w.key("role").plain("agent");
    w.key("parts").begin_array();
    let answer = answer.into_iter().flat_map(|artifact| &artifact.parts).filter(|part| is_text_or_data(part));
    for one in answer.chain(said.into_iter().flat_map(|said| &said.parts)) {
        part(w, one);
    }
    w.end_array();
    w.end_object();
}

fn is_text_or_data(part: &Part) -> bool {
    match &part.content {
        Content::Text(_) | Content::Data(_) => true,
        Content::Blob(blob) => match blob.kind {
            BlobKind::Text | BlobKind::Data | BlobKind::Object => true,
            BlobKind::Raw => false,
        },
        Content::Raw(_) | Content::Url(_) => false,
    }
}

/// Begins a frame of a stream; the task and [`end_frame`] follow.
pub fn begin_frame(out: &mut Vec<u8>) {
    sse::write_head(out, None::<&str>, Some("status"));
}

pub fn end_frame(out: &mut Vec<u8>) {
    sse::write_tail(out);
}

/// The reason of a cancel in this dialect.
fn reason(task: &Task) -> Option<String> {
    let said = task.canceled_with.as_ref()?.to_value();
    said.get("reason").and_then(Value::as_str).map(str::to_owned)
}

/// The metadata of the caller's messages and of the task, and the task's name. All values are strings; another JSON value
/// is shown as its JSON text.
fn metadata(task: &Task, system: &SystemAddress<'_>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut put = |name: String, text: String| match all.iter_mut().find(|(known, _)| *known == name) {
        Some((_, known)) => *known = text,
        None => all.push((name, text)),
    };
    let said = task.history.iter().filter(|message| message.role == Role::User).map(|message| &message.metadata);
    for json in said.chain([&task.metadata]).flatten() {
        let Value::Object(members) = json.to_value() else { continue };
        for (name, value) in members {
            let text = match value {
                Value::String(text) => text,
                other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                    other.to_string()
                }
            };
            put(name, text);
        }
    }
    if let Some(alias) = alias(task) {
        put(TASK_NAME.to_owned(), system.task_name(alias));
    }
    all
}

fn message(w: &mut Writer, message: &Message) {
    w.begin_object();
    w.key("role").plain(match message.role {
        Role::User => "user",
        Role::Agent => "agent",
    });
    parts(w.key("parts"), &message.parts);
    w.end_object();
}

fn artifact(w: &mut Writer, artifact: &Artifact, index: usize) {
    w.begin_object();
    w.key("name").string(artifact.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(&artifact.id));
    w.optional("description", artifact.description.as_deref());
    parts(w.key("parts"), &artifact.parts);
    w.key("index").u64(index as u64);
    w.end_object();
}

fn parts(w: &mut Writer, parts: &[Part]) {
    w.begin_array();
    for one in parts {
        part(w, one);
    }
    w.end_array();
}

fn text_part(w: &mut Writer, text: &str) {
    w.begin_object();
    w.key("type").plain("text");
    w.key("text").string(text);
    w.end_object();
}

/// Writes a part. The product defines text and data; files have the form of A2A 0.1.
fn part(w: &mut Writer, part: &Part) {
    w.begin_object();
    match &part.content {
        Content::Text(text) => {
            w.key("type").plain("text");
            w.key("text").string(text);
        }
        Content::Data(json) => {
            w.key("type").plain("data");
            w.key("data").json(json);
        }
        Content::Raw(bytes) => file(w, part, |w| w.key("bytes").base64(bytes)),
        Content::Url(url) => file(w, part, |w| w.key("uri").string(url)),
        Content::Blob(blob) => match blob.kind {
            BlobKind::Text => {
                w.key("type").plain("text");
                w.key("text").blob(blob);
            }
            BlobKind::Data | BlobKind::Object => {
                w.key("type").plain("data");
                w.key("data").blob(blob);
            }
            BlobKind::Raw => file(w, part, |w| w.file(["bytes", "uri"], blob, part)),
        },
    }
    if let Some(metadata) = &part.metadata {
        w.key("metadata").json(metadata);
    }
    w.end_object();
}

fn file(w: &mut Writer, part: &Part, content: impl FnOnce(&mut Writer)) {
    w.key("type").plain("file");
    w.key("file").begin_object();
    w.optional("name", part.filename.as_deref());
    w.optional("mimeType", part.media_type.as_deref());
    content(w);
    w.end_object();
}

/// The product has no state for a required login, so that it is shown as `input-required`.
fn state_name(state: State) -> &'static str {
    match state {
        State::Submitted => "submitted",
        State::Working => "working",
        State::InputRequired | State::AuthRequired => "input-required",
        State::Completed => "completed",
        State::Failed => "failed",
        State::Canceled => "canceled",
        State::Rejected => "rejected",
    }
}
