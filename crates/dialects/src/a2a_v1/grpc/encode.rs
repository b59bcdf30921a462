//! Tasks, messages and events into the messages of `lf.a2a.v1`.

use model::{Artifact, BlobKind, Body, Content, ContextId, Event, Message, Part, PushConfig, State, Task, Time};

use super::super::shapes::{role_number, state_number};
use crate::protobuf::{LoadedContent, ProtoWriter};
use crate::wire::{DisplayId, Head, Page, TaskView, shown_status};

/// Task.
pub(crate) fn task(w: &mut ProtoWriter<'_>, task: &Task, view: &TaskView, shown: Option<&str>) {
    let head = Head::of(task, shown);
    head.id.write_proto(w, 1);
    w.string(2, task.context.as_str());
    let (state, said, at) = shown_status(task);
    w.message(3, |w| status(w, &head, state, said, at));
    if view.artifacts {
        for one in &task.artifacts {
            w.message(4, |w| artifact(w, one));
        }
    }
    for (one, holder) in view.conversation(task) {
        let id = holder.map_or(head.id, DisplayId::Own);
        w.message(5, |w| said_in(w, one, head.context, id));
    }
    w.optional_object(6, task.metadata.as_ref());
}

/// StreamResponse of an event; `false` for an internal one.
pub(crate) fn stream_event(w: &mut ProtoWriter<'_>, head: &Head<'_>, event: &Event) -> bool {
    match &event.body {
        Body::Status(change) => {
            w.message(3, |w| {
                update_head(w, head);
                w.message(3, |w| status(w, head, change.state, change.message.as_deref(), event.at));
                w.optional_object(4, change.metadata.as_ref());
            });
            true
        }
        Body::Artifact(chunk) => {
            w.message(4, |w| {
                update_head(w, head);
                w.message(3, |w| artifact(w, &chunk.artifact));
                w.bool(4, chunk.append);
                w.bool(5, chunk.last);
                w.optional_object(6, chunk.metadata.as_ref());
            });
            true
        }
        Body::Replied(reply) => {
            w.message(2, |w| said(w, reply, Some(head.context), None));
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

fn update_head(w: &mut ProtoWriter<'_>, head: &Head<'_>) {
    head.id.write_proto(w, 1);
    w.string(2, head.context.as_str());
}

/// ListTasksResponse. The total is an int32 to its readers.
pub(crate) fn list(w: &mut ProtoWriter<'_>, page: &Page<'_>) {
    for one in page.tasks {
        w.message(1, |w| task(w, one, page.view, None));
    }
    w.string(2, page.next_page_token);
    w.int(3, i64::from(page.page_size));
    w.int(4, page.total_size.min(i32::MAX as u64) as i64);
}

/// TaskPushNotificationConfig.
pub(crate) fn push_config(w: &mut ProtoWriter<'_>, config: &PushConfig, tenant: Option<&str>) {
    w.optional(1, tenant);
    w.optional(2, config.id.as_deref());
    w.optional(3, config.task.as_deref());
    w.string(4, &config.url);
    w.optional(5, config.token.as_deref());
    if let Some(scheme) = &config.scheme {
        w.message(6, |w| {
            w.string(1, scheme);
            w.optional(2, config.credentials.as_deref());
        });
    }
}

fn status(w: &mut ProtoWriter<'_>, head: &Head<'_>, state: State, said: Option<&Message>, at: Time) {
    w.int(1, state_number(state));
    if let Some(said) = said {
        w.message(2, |w| said_in(w, said, head.context, head.id));
    }
    w.time(3, at);
}

fn said_in(w: &mut ProtoWriter<'_>, message: &Message, context: &ContextId, task: DisplayId<'_>) {
    said(w, message, Some(context), Some(task));
}

/// Message; one that is sent may name no context.
pub(crate) fn said(
    w: &mut ProtoWriter<'_>,
    message: &Message,
    context: Option<&ContextId>,
    task: Option<DisplayId<'_>>,
) {
    w.string(1, &message.id);
    w.optional(2, context.map(ContextId::as_str));
    if let Some(task) = task {
        task.write_proto(w, 3);
    }
    w.int(4, role_number(message.role));
    for one in &message.parts {
        w.message(5, |w| part(w, one));
    }
    w.optional_object(6, message.metadata.as_ref());
    w.strings(7, &message.extensions);
    w.strings(8, &message.references);
}

fn artifact(w: &mut ProtoWriter<'_>, artifact: &Artifact) {
    w.string(1, &artifact.id);
    w.optional(2, artifact.name.as_deref());
    w.optional(3, artifact.description.as_deref());
    for one in &artifact.parts {
        w.message(4, |w| part(w, one));
    }
    w.optional_object(5, artifact.metadata.as_ref());
    w.strings(6, &artifact.extensions);
}

fn part(w: &mut ProtoWriter<'_>, part: &Part) {
    match &part.content {
        Content::Text(text) => w.present_bytes(1, text.as_bytes()),
        Content::Raw(bytes) => w.present_bytes(2, bytes),
        Content::Url(url) => w.present_bytes(3, url.as_bytes()),
        Content::Data(json) => w.value(4, json.text()),
        Content::Blob(blob) => match (w.loaded(blob, part), blob.kind) {
            (LoadedContent::Address(url), _) => w.present_bytes(3, url.as_bytes()),
            (LoadedContent::Bytes(bytes), BlobKind::Text) => w.present_bytes(1, &bytes),
            (LoadedContent::Bytes(bytes), BlobKind::Raw) => w.present_bytes(2, &bytes),
            (LoadedContent::Bytes(bytes), BlobKind::Data | BlobKind::Object) => {
                w.value(4, std::str::from_utf8(&bytes).unwrap_or("null"));
            }
        },
    }
    w.optional_object(5, part.metadata.as_ref());
    w.optional(6, part.filename.as_deref());
    w.optional(7, part.media_type.as_deref());
}
