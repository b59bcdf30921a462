//! The client's direction: how servers of the older generations are asked, as far as the generations agree.

use model::{Json, Send, Wait};

use super::marks::Marks;
use super::{PreV1Form, encode, push};
use crate::framing::json::Writer;
use crate::wire::DisplayId;

/// The members of a 0.3 send, over either binding.
pub(crate) fn send_members(w: &mut Writer, form: PreV1Form, send: &Send) {
    let Send { message, task, context, wait, history, accepted_output, metadata, push, .. } = send;
    encode::said(w.key("message"), form, message, context.as_ref(), task.as_deref().map(DisplayId::Alias));
    w.key("configuration").begin_object();
    // Until 0.2.5 the list had to be there, even when it is empty.
    w.key("acceptedOutputModes").begin_array();
    for mode in accepted_output {
        w.string(mode);
    }
    w.end_array();
    history_member(w, *history);
    if let Some(push) = push {
        let name = if form.is_proto() { "pushNotification" } else { "pushNotificationConfig" };
        push::bare(w.key(name), form, push);
    }
    // Always said: servers disagree on what its absence means.
    w.key("blocking").bool(match wait {
        Wait::Rest { .. } => true,
        Wait::Exists => false,
    });
    w.end_object();
    metadata_member(w, metadata.as_ref());
}

/// The members of a 0.1 send, under the id its sender chose.
pub(crate) fn task_send_members(w: &mut Writer, id: &str, send: &Send) {
    let form = PreV1Form::Type;
    let Send { message, context, history, accepted_output, metadata, push, .. } = send;
    w.key("id").string(id);
    w.optional("sessionId", context.as_ref().map(model::ContextId::as_str));
    encode::said(w.key("message"), form, message, None, None);
    w.strings("acceptedOutputModes", accepted_output);
    if let Some(push) = push {
        push::bare(w.key("pushNotification"), form, push);
    }
    whole_history_member(w, *history);
    metadata_member(w, metadata.as_ref());
}

/// To 0.3 servers 0 is no limit at all, so a request for no history asks for one message.
pub(crate) fn history_member(w: &mut Writer, history: Option<u32>) {
    if let Some(newest) = history {
        w.key("historyLength").u64(u64::from(newest.max(1)));
    }
}

/// To 0.1 servers absence is none, so a request for the complete history asks for more than there is.
pub(crate) fn whole_history_member(w: &mut Writer, history: Option<u32>) {
    match history {
        Some(0) => {}
        Some(newest) => w.key("historyLength").u64(u64::from(newest)),
        None => w.key("historyLength").u64(ALL_HISTORY),
    }
}

/// More messages than any task has, and still an int32 to its readers.
const ALL_HISTORY: u64 = 1_000_000;

pub(crate) fn metadata_member(w: &mut Writer, own: Option<&Json>) {
    Marks::default().write(w, own);
}
