//! Tasks, messages and events into the messages of `a2a.v1`. A fact without a field is marked in `metadata`.

use model::{Artifact, BlobKind, Body, Content, ContextId, Event, Json, Message, Part, PushConfig, State, Task, Time};

use crate::compat::marks::Marks;
use crate::protobuf::{LoadedContent, ProtoWriter};
use crate::wire::{DisplayId, Head, TaskView, shown_status};

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
        let sibling = holder.and_then(|earlier| head.sibling(task.id, earlier));
        let id = match (&sibling, holder) {
            (Some(sibling), _) => DisplayId::Alias(sibling),
            (None, Some(earlier)) => DisplayId::Own(earlier),
            (None, None) => head.id,
        };
        w.message(5, |w| said_in(w, one, head.context, id));
    }
    w.optional_object(6, task.metadata.as_ref());
}

/// StreamResponse of an event; `false` for an internal one.
pub(crate) fn stream_event(w: &mut ProtoWriter<'_>, head: &Head<'_>, event: &Event, closing: bool) -> bool {
    match &event.body {
        Body::Status(change) => {
            w.message(3, |w| {
                update_head(w, head);
                w.message(3, |w| status(w, head, change.state, change.message.as_deref(), event.at));
                w.bool(4, closing);
                w.optional_object(5, change.metadata.as_ref());
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

/// TaskPushNotificationConfig.
pub(crate) fn push_config(w: &mut ProtoWriter<'_>, config: &PushConfig) {
    let (task, id) = (config.task.as_deref().unwrap_or_default(), config.id.as_deref().unwrap_or_default());
    w.string(1, &format!("tasks/{task}/pushNotificationConfigs/{id}"));
    w.message(2, |w| bare_config(w, config));
}

/// PushNotificationConfig.
pub(crate) fn bare_config(w: &mut ProtoWriter<'_>, config: &PushConfig) {
    w.optional(1, config.id.as_deref());
    w.string(2, &config.url);
    w.optional(3, config.token.as_deref());
    if let Some(scheme) = &config.scheme {
        w.message(4, |w| {
            w.string(1, scheme);
            w.optional(2, config.credentials.as_deref());
        });
    }
}

/// As the 0.3 proto numbers them, which is as our stores do.
fn state_number(state: State) -> i64 {
    i64::from(state.code())
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
    w.int(
        4,
        match message.role {
            model::Role::User => 1,
            model::Role::Agent => 2,
        },
    );
    for one in &message.parts {
        w.message(5, |w| part(w, one));
    }
    let marks = Marks { references: &message.references, ..Marks::default() };
    metadata(w, 6, &marks, message.metadata.as_ref());
    w.strings(7, &message.extensions);
}

fn artifact(w: &mut ProtoWriter<'_>, artifact: &Artifact) {
    w.string(1, &artifact.id);
    w.optional(3, artifact.name.as_deref());
    w.optional(4, artifact.description.as_deref());
    for one in &artifact.parts {
        w.message(5, |w| part(w, one));
    }
    w.optional_object(6, artifact.metadata.as_ref());
    w.strings(7, &artifact.extensions);
}

fn part(w: &mut ProtoWriter<'_>, part: &Part) {
    let marks = match &part.content {
        Content::Text(text) => {
            w.present_bytes(1, text.as_bytes());
            Marks::of(part)
        }
        Content::Raw(bytes) => file(w, part, 2, bytes),
        Content::Url(url) => file(w, part, 1, url.as_bytes()),
        Content::Data(json) => data(w, part, json.text(), json.is_object()),
        Content::Blob(blob) => match (w.loaded(blob, part), blob.kind) {
            (LoadedContent::Address(url), _) => file(w, part, 1, url.as_bytes()),
            (LoadedContent::Bytes(bytes), BlobKind::Raw) => file(w, part, 2, &bytes),
            (LoadedContent::Bytes(bytes), BlobKind::Text) => {
                w.present_bytes(1, &bytes);
                Marks::of(part)
            }
            (LoadedContent::Bytes(bytes), BlobKind::Data | BlobKind::Object) => {
                data(w, part, std::str::from_utf8(&bytes).unwrap_or("null"), blob.kind == BlobKind::Object)
            }
        },
    };
    metadata(w, 4, &marks, part.metadata.as_ref());
}

/// FilePart: a URI or bytes, by the number of the field.
fn file<'p>(w: &mut ProtoWriter<'_>, part: &'p Part, field: u32, content: &[u8]) -> Marks<'p> {
    w.message(2, |w| {
        w.present_bytes(field, content);
        w.optional(3, part.media_type.as_deref());
        w.optional(4, part.filename.as_deref());
    });
    Marks::default()
}

/// DataPart, which holds an object: other data is wrapped in one.
fn data<'p>(w: &mut ProtoWriter<'_>, part: &'p Part, json: &str, is_object: bool) -> Marks<'p> {
    w.message(3, |w| {
        if is_object {
            w.object_text(1, json);
        } else {
            w.member(1, "value", json);
        }
    });
    Marks { wrapped: !is_object, ..Marks::of(part) }
}

fn metadata(w: &mut ProtoWriter<'_>, field: u32, marks: &Marks<'_>, own: Option<&Json>) {
    if marks.is_empty() {
        w.optional_object(field, own);
    } else if let Some(json) = marks.with(own) {
        w.object(field, &json);
    }
}
