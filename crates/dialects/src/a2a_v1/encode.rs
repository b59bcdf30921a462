//! Tasks, messages and events into 1.0 JSON.
//!
//! Strict readers set the rules: members in the order of the proto, what equals its default left out, `contextId` always
//! there, times in UTC with milliseconds, nothing the proto does not know. An event is encoded once and shared by all its
//! readers; the envelope is written around it.

use std::sync::Arc;

use model::{
    Artifact, BlobKind, Body, Content, ContextId, Event, Json, Message, Part, PushConfig, State, Task, TaskId, Time,
};

use super::shapes::{role_name, state_name};
use crate::framing::json::Writer;
pub use crate::wire::TaskView;
use crate::wire::{DisplayId, Head, shown_status};

/// The two facts of a task that every event repeats, under the task's own id.
#[derive(Clone, Copy, Debug)]
pub struct TaskHead<'a> {
    pub id: TaskId,
    pub context: &'a ContextId,
}

impl<'a> From<&'a Task> for TaskHead<'a> {
    fn from(task: &'a Task) -> Self {
        TaskHead { id: task.id, context: &task.context }
    }
}

impl<'a> From<&TaskHead<'a>> for Head<'a> {
    fn from(head: &TaskHead<'a>) -> Self {
        Head::new(head.id, None, head.context)
    }
}

/// A bare Task: the answer to GetTask and CancelTask.
pub fn task(w: &mut Writer, task: &Task, view: &TaskView) {
    task_as(w, task, view, None);
}

pub(crate) fn task_as(w: &mut Writer, task: &Task, view: &TaskView, shown: Option<&str>) {
    let head = Head::of(task, shown);
    w.begin_object();
    head.id.write(w.key("id"));
    w.key("contextId").string(task.context.as_str());
    let (state, said, at) = shown_status(task);
    status(w.key("status"), &head, state, said, at);
    if view.artifacts && !task.artifacts.is_empty() {
        w.key("artifacts").begin_array();
        for one in &task.artifacts {
            artifact(w, one);
        }
        w.end_array();
    }
    let mut history = view.conversation(task).peekable();
    if history.peek().is_some() {
        w.key("history").begin_array();
        for (one, holder) in history {
            message(w, one, head.context, Some(holder.map_or(head.id, DisplayId::Own)));
        }
        w.end_array();
    }
    metadata(w, task.metadata.as_ref());
    w.end_object();
}

/// SendMessageResponse with a task.
pub fn send_task(w: &mut Writer, task: &Task, view: &TaskView) {
    send_task_as(w, task, view, None);
}

pub(crate) fn send_task_as(w: &mut Writer, task: &Task, view: &TaskView, shown: Option<&str>) {
    w.begin_object();
    task_as(w.key("task"), task, view, shown);
    w.end_object();
}

/// SendMessageResponse (and the one StreamResponse) with a direct message. It belongs to no task.
pub fn send_message(w: &mut Writer, said: &Message, context: &ContextId) {
    w.begin_object();
    message(w.key("message"), said, context, None);
    w.end_object();
}

/// StreamResponse with a task: how a stream begins.
pub fn stream_task(w: &mut Writer, shown: &Task, view: &TaskView) {
    send_task(w, shown, view);
}

/// StreamResponse of an event. Writes nothing and returns `false` for an internal event.
pub fn stream_event(w: &mut Writer, head: &TaskHead<'_>, event: &Event) -> bool {
    stream_event_as(w, &head.into(), event)
}

pub fn stream_event_as(w: &mut Writer, head: &Head<'_>, event: &Event) -> bool {
    match &event.body {
        Body::Status(change) => {
            w.begin_object();
            w.key("statusUpdate").begin_object();
            begin_update(w, head);
            status(w.key("status"), head, change.state, change.message.as_deref(), event.at);
            metadata(w, change.metadata.as_ref());
            w.end_object();
            w.end_object();
            true
        }
        Body::Artifact(chunk) => {
            w.begin_object();
            w.key("artifactUpdate").begin_object();
            begin_update(w, head);
            artifact(w.key("artifact"), &chunk.artifact);
            if chunk.append {
                w.key("append").bool(true);
            }
            if chunk.last {
                w.key("lastChunk").bool(true);
            }
            metadata(w, chunk.metadata.as_ref());
            w.end_object();
            w.end_object();
            true
        }
        Body::Replied(said) => {
            send_message(w, said, head.context);
            true
        }
        Body::Opened(_)
        | Body::Message(_)
        | Body::TurnStarted { .. }
        | Body::Bound { .. }
        | Body::Metadata(_)
        | Body::CancelRequested { .. } => false,
    }
}

fn begin_update(w: &mut Writer, head: &Head<'_>) {
    head.id.write(w.key("taskId"));
    w.key("contextId").string(head.context.as_str());
}

/// A whole ListTasksResponse.
pub fn list(
    w: &mut Writer,
    tasks: &[Arc<Task>],
    view: &TaskView,
    next_page_token: &str,
    page_size: u32,
    total_size: u64,
) {
    let mut page = ListWriter::begin(w);
    for one in tasks {
        page.task(one, view);
    }
    page.end(next_page_token, page_size, total_size);
}

/// A ListTasksResponse, task by task, for pages that end early: what is written so far is known before the next task.
#[derive(Debug)]
pub struct ListWriter<'w>(&'w mut Writer);

impl<'w> ListWriter<'w> {
    pub fn begin(w: &'w mut Writer) -> ListWriter<'w> {
        w.begin_object();
        w.key("tasks").begin_array();
        ListWriter(w)
    }

    pub fn task(&mut self, shown: &Task, view: &TaskView) {
        task(self.0, shown, view);
    }

    /// Bytes on the wire so far, large content counted in.
    pub fn wire_len(&self) -> u64 {
        self.0.wire_len()
    }

    /// All four members are always there, also `""` and `0`. The total is an int32 to its readers.
    pub fn end(self, next_page_token: &str, page_size: u32, total_size: u64) {
        let w = self.0;
        w.end_array();
        w.key("nextPageToken").string(next_page_token);
        w.key("pageSize").u64(u64::from(page_size));
        w.key("totalSize").u64(total_size.min(i32::MAX as u64));
        w.end_object();
    }
}

/// A TaskPushNotificationConfig as it is given: the caller of this function decides whether secrets are in it.
pub fn push_config(w: &mut Writer, config: &PushConfig, tenant: Option<&str>) {
    w.begin_object();
    w.optional("tenant", tenant);
    w.optional("id", config.id.as_deref());
    w.optional("taskId", config.task.as_deref());
    w.key("url").string(&config.url);
    w.optional("token", config.token.as_deref());
    if let Some(scheme) = &config.scheme {
        w.key("authentication").begin_object();
        w.key("scheme").string(scheme);
        w.optional("credentials", config.credentials.as_deref());
        w.end_object();
    }
    w.end_object();
}

/// ListTaskPushNotificationConfigsResponse. `configs` is there even when empty: readers trip over its absence.
pub fn push_list(w: &mut Writer, configs: &[PushConfig], tenant: Option<&str>, next_page_token: &str) {
    w.begin_object();
    w.key("configs").begin_array();
    for config in configs {
        push_config(w, config, tenant);
    }
    w.end_array();
    if !next_page_token.is_empty() {
        w.key("nextPageToken").string(next_page_token);
    }
    w.end_object();
}

/// The answer to a delete: `{}`, which every known client takes.
pub fn empty(w: &mut Writer) {
    w.begin_object();
    w.end_object();
}

pub fn status(w: &mut Writer, head: &Head<'_>, state: State, said: Option<&Message>, at: Time) {
    w.begin_object();
    w.key("state").plain(state_name(state));
    if let Some(said) = said {
        message(w.key("message"), said, head.context, Some(head.id));
    }
    w.key("timestamp").time(at);
    w.end_object();
}

fn message(w: &mut Writer, message: &Message, context: &ContextId, task: Option<DisplayId<'_>>) {
    said(w, message, Some(context), task);
}

/// A message; one that is sent may name no context.
pub fn said(w: &mut Writer, message: &Message, context: Option<&ContextId>, task: Option<DisplayId<'_>>) {
    w.begin_object();
    w.key("messageId").string(&message.id);
    if let Some(context) = context {
        w.key("contextId").string(context.as_str());
    }
    if let Some(task) = task {
        task.write(w.key("taskId"));
    }
    w.key("role").plain(role_name(message.role));
    parts(w, &message.parts);
    metadata(w, message.metadata.as_ref());
    w.strings("extensions", &message.extensions);
    w.strings("referenceTaskIds", &message.references);
    w.end_object();
}

pub fn artifact(w: &mut Writer, artifact: &Artifact) {
    w.begin_object();
    w.key("artifactId").string(&artifact.id);
    w.optional("name", artifact.name.as_deref());
    w.optional("description", artifact.description.as_deref());
    parts(w, &artifact.parts);
    metadata(w, artifact.metadata.as_ref());
    w.strings("extensions", &artifact.extensions);
    w.end_object();
}

/// `parts` is required, so it is there even when it is empty.
fn parts(w: &mut Writer, parts: &[Part]) {
    w.key("parts").begin_array();
    for one in parts {
        part(w, one);
    }
    w.end_array();
}

fn part(w: &mut Writer, part: &Part) {
    w.begin_object();
    match &part.content {
        Content::Text(text) => w.key("text").string(text),
        Content::Raw(bytes) => w.key("raw").base64(bytes),
        Content::Url(url) => w.key("url").string(url),
        Content::Data(json) => w.key("data").json(json),
        Content::Blob(blob) => match blob.kind {
            BlobKind::Raw => w.file(["raw", "url"], blob, part),
            BlobKind::Text => w.key("text").blob(blob),
            BlobKind::Data | BlobKind::Object => w.key("data").blob(blob),
        },
    }
    metadata(w, part.metadata.as_ref());
    w.optional("filename", part.filename.as_deref());
    w.optional("mediaType", part.media_type.as_deref());
    w.end_object();
}

pub(super) fn metadata(w: &mut Writer, json: Option<&Json>) {
    if let Some(json) = json {
        w.key("metadata").json(json);
    }
}
