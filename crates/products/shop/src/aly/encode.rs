//! Tasks, lists and stream frames. Parts, messages and artifacts are those of A2A 1.0; a task always has the members
//! `history`, `artifacts` and `metadata`, also where they are empty.

use model::{Artifact, Body, Event, Message, PushConfig, State, Task};

use super::{HISTORY, shown_id, shown_text};
use dialects::framing::json::{Encoded, Writer};
use dialects::kit::{shown_status, v1};
use dialects::wire::{DisplayId, Head, Page, TaskView};

/// A task without an envelope.
pub(super) fn task(w: &mut Writer, task: &Task, head: &Head<'_>, view: &TaskView) {
    let (state, said, at) = shown_status(task);
    w.begin_object();
    head.id.write(w.key("id"));
    w.key("contextId").string(task.context.as_str());
    v1::status(w.key("status"), head, state, said, at);
    // The message of the status is also the last message of the history.
    let last = said.filter(|said| task.history.last().is_none_or(|known| known.id != said.id));
    let newest = view.history.unwrap_or(HISTORY).min(HISTORY).saturating_sub(u32::from(last.is_some()));
    w.key("history").begin_array();
    let before = TaskView::with_history(Some(newest)).history(task).iter().map(|message| &**message);
    for message in before.chain(last) {
        v1::said(w, message, Some(head.context), Some(head.id));
    }
    w.end_array();
    w.key("artifacts").begin_array();
    for artifact in task.artifacts.iter().filter(|_| view.artifacts) {
        v1::artifact(w, artifact);
    }
    w.end_array();
    match &task.metadata {
        Some(metadata) => w.key("metadata").json(metadata),
        None => w.key("metadata").raw("{}"),
    }
    w.end_object();
}

/// A message that the agent replied with, as a completed task whose status has the message.
pub(super) fn replied(w: &mut Writer, said: &Message, head: &Head<'_>) {
    w.begin_object();
    head.id.write(w.key("id"));
    w.key("contextId").string(head.context.as_str());
    done(w.key("status"), said, head);
    w.key("history").begin_array();
    v1::said(w, said, Some(head.context), Some(head.id));
    w.end_array();
    w.key("artifacts").raw("[]");
    w.key("metadata").raw("{}");
    w.end_object();
}

/// The same as the only frame of a stream.
pub(super) fn replied_update(w: &mut Writer, said: &Message, head: &Head<'_>) {
    begin_update(w, "statusUpdate", head);
    done(w.key("status"), said, head);
    end_update(w);
}

fn done(w: &mut Writer, said: &Message, head: &Head<'_>) {
    w.begin_object();
    w.key("state").plain(v1::state_name(State::Completed));
    v1::said(w.key("message"), said, Some(head.context), Some(head.id));
    w.end_object();
}

pub(super) fn list(w: &mut Writer, page: &Page<'_>) {
    w.begin_object();
    w.key("tasks").begin_array();
    for one in page.tasks {
        let id = shown_id(one.id);
        task(w, one, &Head { id: DisplayId::Alias(&id), context: &one.context }, page.view);
    }
    w.end_array();
    w.key("nextPageToken").string(page.next_page_token);
    w.key("pageSize").u64(u64::from(page.page_size));
    w.key("totalSize").u64(page.total_size);
    w.end_object();
}

/// The first frames of a stream: the status, unless the task is only submitted, and the artifacts so far. For a settled
/// task the status comes last, because no frame follows.
pub(super) fn begun(task: &Task, head: &Head<'_>) -> Vec<Encoded> {
    let (state, said, at) = shown_status(task);
    let status = || {
        let mut w = Writer::with_capacity(512);
        begin_update(&mut w, "statusUpdate", head);
        v1::status(w.key("status"), head, state, said, at);
        end_update(&mut w);
        w.finish()
    };
    let made = task.artifacts.iter().map(|one| made(one, head));
    match state {
        State::Submitted => made.collect(),
        State::Working | State::InputRequired | State::AuthRequired => std::iter::once(status()).chain(made).collect(),
        State::Completed | State::Failed | State::Canceled | State::Rejected => {
            made.chain(std::iter::once(status())).collect()
        }
    }
}

fn made(artifact: &Artifact, head: &Head<'_>) -> Encoded {
    let mut w = Writer::with_capacity(512);
    begin_update(&mut w, "artifactUpdate", head);
    v1::artifact(w.key("artifact"), artifact);
    w.key("lastChunk").bool(true);
    end_update(&mut w);
    w.finish()
}

/// The frame of an event.
pub(super) fn event(w: &mut Writer, head: &Head<'_>, event: &Event) -> bool {
    match &event.body {
        Body::Replied(said) => {
            replied_update(w, said, head);
            true
        }
        Body::Status(_)
        | Body::Artifact(_)
        | Body::Opened(_)
        | Body::Message(_)
        | Body::TurnStarted { .. }
        | Body::Bound { .. }
        | Body::Metadata(_)
        | Body::CancelRequested { .. } => v1::stream_event_as(w, head, event),
    }
}

fn begin_update(w: &mut Writer, name: &str, head: &Head<'_>) {
    w.begin_object();
    w.key(name).begin_object();
    head.id.write(w.key("taskId"));
    w.key("contextId").string(head.context.as_str());
}

fn end_update(w: &mut Writer) {
    w.end_object();
    w.end_object();
}

pub(super) fn push_config(w: &mut Writer, config: &PushConfig) {
    let task = config.task.as_deref().map(shown_text);
    v1::push_config(w, &PushConfig { task, ..config.clone() }, None);
}

pub(super) fn push_list(w: &mut Writer, configs: &[PushConfig], next_page_token: &str) {
    w.begin_object();
    w.key("configs").begin_array();
    for config in configs {
        push_config(w, config);
    }
    w.end_array();
    w.key("nextPageToken").string(next_page_token);
    w.end_object();
}
