//! Tasks, messages and events in the older forms.
//!
//! A fact without a member in the form is marked in `metadata` or left out; the matrix of goldens lists them. Nothing here
//! decides when a stream ends: `closing` is given, and `final` says it.

use model::{Artifact, BlobKind, Body, Chunk, Content, ContextId, Event, Json, Message, Part, Role, State, Task, Time};

use super::PreV1Form;
use super::marks::Marks;
use super::names::{role_name, state_name};
use crate::framing::json::{Encoded, Writer};
use crate::wire::{DisplayId, Head, TaskView, shown_status};

/// A bare task.
pub(crate) fn task(w: &mut Writer, form: PreV1Form, task: &Task, view: &TaskView, shown: Option<&str>) {
    task_object(w, form, task, view, shown, None);
}

/// A task; `closing` only where a task stands for a status event too.
fn task_object(
    w: &mut Writer,
    form: PreV1Form,
    task: &Task,
    view: &TaskView,
    shown: Option<&str>,
    closing: Option<bool>,
) {
    let head = Head::of(task, shown);
    w.begin_object();
    kind(w, form, "task");
    head.id.write(w.key("id"));
    context(w, form, &head);
    let (state, said, at) = shown_status(task);
    let mark = status(w.key("status"), form, &head, state, said, Some(at));
    if let Some(closing) = closing {
        w.key("final").bool(closing);
    }
    if view.artifacts && !task.artifacts.is_empty() {
        w.key("artifacts").begin_array();
        for (index, one) in task.artifacts.iter().enumerate() {
            artifact(w, form, one, index, None);
        }
        w.end_array();
    }
    let mut history = view.conversation(task).peekable();
    if history.peek().is_some() {
        w.key("history").begin_array();
        for (one, holder) in history {
            match holder {
                None => message(w, form, one, &head, true),
                Some(earlier) => {
                    let id = head.sibling(task.id, earlier);
                    message(w, form, one, &Head::new(earlier, id.as_deref(), head.context), true);
                }
            }
        }
        w.end_array();
    }
    Marks { state: mark, ..Marks::default() }.write(w, task.metadata.as_ref());
    w.end_object();
}

/// The answer to a send that made a task.
pub(crate) fn sent_task(w: &mut Writer, form: PreV1Form, shown: &Task, view: &TaskView, id: Option<&str>) {
    wrapped(w, form, "task", |w| task(w, form, shown, view, id));
}

/// The answer to a send that was answered by a message; to the first generation a task that is done.
pub(crate) fn sent_message(w: &mut Writer, form: PreV1Form, said: &Message, head: &Head<'_>) {
    if form.has_type() {
        w.begin_object();
        kind(w, form, "task");
        head.id.write(w.key("id"));
        context(w, form, head);
        status(w.key("status"), form, head, State::Completed, Some(said), None);
        w.end_object();
        return;
    }
    wrapped(w, form, "message", |w| message(w, form, said, head, false));
}

/// How a stream begins.
///
/// The first generation has no task in its streams: it gets the status and each artifact as events. While more follows
/// the status leads, as everywhere; where the stream ends at once it comes last, because its `final` is the end to
/// readers.
pub(crate) fn stream_task(
    form: PreV1Form,
    task: &Task,
    view: &TaskView,
    shown: Option<&str>,
    closing: bool,
) -> Vec<Encoded> {
    let encoded = |write: &dyn Fn(&mut Writer)| {
        let mut w = Writer::with_capacity(1_024);
        write(&mut w);
        w.finish()
    };
    if !form.has_type() {
        let mut w = Writer::with_capacity(task.weight() + 1_024);
        sent_task(&mut w, form, task, view, shown);
        return vec![w.finish()];
    }
    let head = Head::of(task, shown);
    let first = encoded(&|w| {
        if form.has_kind() {
            // To readers of the first generation this is a status event with members they skip.
            task_object(w, form, task, view, shown, Some(closing));
        } else {
            let (state, said, at) = shown_status(task);
            status_event(w, form, &head, state, said, Some(at), None, closing);
        }
    });
    if form.has_kind() && closing {
        return vec![first];
    }
    let last = task.core.is_settled();
    let mut frames: Vec<Encoded> = Vec::with_capacity(task.artifacts.len() + 1);
    for (index, one) in task.artifacts.iter().enumerate() {
        frames.push(encoded(&|w| artifact_event(w, form, &head, one, index, false, last, None)));
    }
    frames.insert(if closing { frames.len() } else { 0 }, first);
    frames
}

/// One event. Writes nothing and returns `false` for an internal event.
pub(crate) fn stream_event(w: &mut Writer, form: PreV1Form, head: &Head<'_>, event: &Event, closing: bool) -> bool {
    match &event.body {
        Body::Status(change) => {
            let said = change.message.as_deref();
            let metadata = change.metadata.as_ref();
            wrapped(w, form, "statusUpdate", |w| {
                status_event(w, form, head, change.state, said, Some(event.at), metadata, closing);
            });
            true
        }
        Body::Artifact(chunk) => {
            let Chunk { artifact, ordinal, append, bordered: _, last, metadata } = chunk;
            wrapped(w, form, "artifactUpdate", |w| {
                artifact_event(w, form, head, artifact, *ordinal as usize, *append, *last, metadata.as_ref());
            });
            true
        }
        Body::Replied(said) => {
            stream_message(w, form, said, head, Some(event.at));
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

/// The one event of a stream that is answered by a message. Nothing follows it.
pub(crate) fn stream_message(w: &mut Writer, form: PreV1Form, said: &Message, head: &Head<'_>, at: Option<Time>) {
    if form.has_type() {
        status_event(w, form, head, State::Completed, Some(said), at, None, true);
        return;
    }
    sent_message(w, form, said, head);
}

/// The proto's wrapper around an answer or an event; the other forms have none.
fn wrapped(w: &mut Writer, form: PreV1Form, member: &str, write: impl FnOnce(&mut Writer)) {
    if !form.is_proto() {
        return write(w);
    }
    w.begin_object();
    write(w.key(member));
    w.end_object();
}

#[allow(clippy::too_many_arguments)] // One argument for each member of the event.
fn status_event(
    w: &mut Writer,
    form: PreV1Form,
    head: &Head<'_>,
    state: State,
    said: Option<&Message>,
    at: Option<Time>,
    metadata: Option<&Json>,
    closing: bool,
) {
    w.begin_object();
    kind(w, form, "status-update");
    event_head(w, form, head);
    let mark = status(w.key("status"), form, head, state, said, at);
    flag(w, form, "final", closing);
    Marks { state: mark, ..Marks::default() }.write(w, metadata);
    w.end_object();
}

#[allow(clippy::too_many_arguments)] // One argument for each member of the event.
fn artifact_event(
    w: &mut Writer,
    form: PreV1Form,
    head: &Head<'_>,
    made: &Artifact,
    index: usize,
    append: bool,
    last: bool,
    metadata: Option<&Json>,
) {
    w.begin_object();
    kind(w, form, "artifact-update");
    event_head(w, form, head);
    artifact(w.key("artifact"), form, made, index, Some((append, last)));
    if form.has_ids() {
        flag(w, form, "append", append);
        flag(w, form, "lastChunk", last);
    }
    Marks::default().write(w, metadata);
    w.end_object();
}

/// A flag: in the proto's JSON `false` is absence, elsewhere old readers want to see it.
fn flag(w: &mut Writer, form: PreV1Form, name: &str, value: bool) {
    if value || !form.is_proto() {
        w.key(name).bool(value);
    }
}

fn kind(w: &mut Writer, form: PreV1Form, name: &str) {
    if form.has_kind() {
        w.key("kind").plain(name);
    }
}

/// The context in the words of the form. In 0.3 it must be there, in 0.1 an empty one is none.
fn context(w: &mut Writer, form: PreV1Form, head: &Head<'_>) {
    if form.has_ids() {
        w.key("contextId").string(head.context.as_str());
    }
    if form.has_type() {
        w.optional("sessionId", Some(head.context.as_str()));
    }
}

fn event_head(w: &mut Writer, form: PreV1Form, head: &Head<'_>) {
    if form.has_type() {
        head.id.write(w.key("id"));
    }
    if form.has_ids() {
        head.id.write(w.key("taskId"));
        w.key("contextId").string(head.context.as_str());
    }
}

/// A status; answers what the form had no word for.
fn status(
    w: &mut Writer,
    form: PreV1Form,
    head: &Head<'_>,
    state: State,
    said: Option<&Message>,
    at: Option<Time>,
) -> Option<&'static str> {
    let (name, mark) = state_name(form, state);
    w.begin_object();
    w.key("state").plain(name);
    if let Some(said) = said {
        message(w.key("message"), form, said, head, true);
    }
    if let Some(at) = at {
        w.key("timestamp").time(at);
    }
    w.end_object();
    mark
}

/// A message; one that answers without a task belongs to none.
fn message(w: &mut Writer, form: PreV1Form, message: &Message, head: &Head<'_>, of_task: bool) {
    said(w, form, message, Some(head.context), of_task.then_some(head.id));
}

/// A message; one that is sent may name no context.
pub(super) fn said(
    w: &mut Writer,
    form: PreV1Form,
    message: &Message,
    context: Option<&ContextId>,
    task: Option<DisplayId<'_>>,
) {
    let Message { id, role, parts: content, metadata, extensions, references } = message;
    w.begin_object();
    kind(w, form, "message");
    if form.has_ids() {
        w.key("messageId").string(id);
        if let Some(context) = context {
            w.key("contextId").string(context.as_str());
        }
        if let Some(task) = task {
            task.write(w.key("taskId"));
        }
    }
    role_member(w, form, *role);
    parts(w.key(if form.is_proto() { "content" } else { "parts" }), form, content);
    let mut marks = Marks::default();
    if form.has_ids() {
        w.strings("extensions", extensions);
    } else {
        marks.extensions = extensions;
    }
    if form.has_ids() && !form.is_proto() {
        w.strings("referenceTaskIds", references);
    } else {
        marks.references = references;
    }
    marks.write(w, metadata.as_ref());
    w.end_object();
}

fn role_member(w: &mut Writer, form: PreV1Form, role: Role) {
    w.key("role").plain(role_name(form, role));
}

/// An artifact; in a stream of the first generation with the flags of its chunk inside.
fn artifact(w: &mut Writer, form: PreV1Form, artifact: &Artifact, index: usize, chunk: Option<(bool, bool)>) {
    let Artifact { id, name, description, parts: content, metadata, extensions } = artifact;
    w.begin_object();
    if form.has_ids() {
        w.key("artifactId").string(id);
    }
    // The first generation shows no ids: an artifact without a name has its id for one. A chunk that is added has its name
    // already.
    let is_added = chunk.is_some_and(|(append, _)| append);
    let named = !form.has_ids() && !is_added && !id.is_empty();
    w.optional("name", name.as_deref().or(named.then_some(&**id)));
    w.optional("description", description.as_deref());
    parts(w.key("parts"), form, content);
    let mut marks = Marks::default();
    if form.has_ids() {
        w.strings("extensions", extensions);
    } else {
        marks.extensions = extensions;
    }
    if form.has_type() {
        w.key("index").u64(index as u64);
        if let Some((append, last)) = chunk {
            w.key("append").bool(append);
            w.key("lastChunk").bool(last);
        }
    }
    marks.write(w, metadata.as_ref());
    w.end_object();
}

fn parts(w: &mut Writer, form: PreV1Form, parts: &[Part]) {
    w.begin_array();
    for one in parts {
        part(w, form, one);
    }
    w.end_array();
}

fn part(w: &mut Writer, form: PreV1Form, part: &Part) {
    w.begin_object();
    let marks = match &part.content {
        Content::Text(text) => {
            part_kind(w, form, "text");
            w.key("text").string(text);
            Marks::of(part)
        }
        Content::Raw(bytes) => {
            file(w, form, part, |w| w.key(bytes_member(form)).base64(bytes));
            Marks::default()
        }
        Content::Url(url) => {
            file(w, form, part, |w| w.key(url_member(form)).string(url));
            Marks::default()
        }
        Content::Data(json) => {
            let wrapped = form.wants_objects() && !json.is_object();
            data(w, form, wrapped, |w| w.json(json));
            Marks { wrapped, ..Marks::of(part) }
        }
        Content::Blob(blob) => match blob.kind {
            BlobKind::Text => {
                part_kind(w, form, "text");
                w.key("text").blob(blob);
                Marks::of(part)
            }
            BlobKind::Raw => {
                file(w, form, part, |w| w.file([bytes_member(form), url_member(form)], blob, part));
                Marks::default()
            }
            BlobKind::Data | BlobKind::Object => {
                let wrapped = form.wants_objects() && blob.kind != BlobKind::Object;
                data(w, form, wrapped, |w| w.blob(blob));
                Marks { wrapped, ..Marks::of(part) }
            }
        },
    };
    marks.write(w, part.metadata.as_ref());
    w.end_object();
}

fn part_kind(w: &mut Writer, form: PreV1Form, name: &str) {
    kind(w, form, name);
    if form.has_type() {
        w.key("type").plain(name);
    }
}

fn bytes_member(form: PreV1Form) -> &'static str {
    if form.is_proto() { "fileWithBytes" } else { "bytes" }
}

fn url_member(form: PreV1Form) -> &'static str {
    if form.is_proto() { "fileWithUri" } else { "uri" }
}

fn file(w: &mut Writer, form: PreV1Form, part: &Part, content: impl FnOnce(&mut Writer)) {
    part_kind(w, form, "file");
    w.key("file").begin_object();
    content(w);
    w.optional("name", part.filename.as_deref());
    w.optional("mimeType", part.media_type.as_deref());
    w.end_object();
}

fn data(w: &mut Writer, form: PreV1Form, wrapped: bool, content: impl FnOnce(&mut Writer)) {
    part_kind(w, form, "data");
    w.key("data");
    if form.is_proto() {
        w.begin_object();
        w.key("data");
    }
    if wrapped {
        w.begin_object();
        content(w.key("value"));
        w.end_object();
    } else {
        content(w);
    }
    if form.is_proto() {
        w.end_object();
    }
}
