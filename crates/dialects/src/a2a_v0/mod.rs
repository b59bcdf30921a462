//! The methods whose names 0.1 and 0.3 share (`tasks/get`, `tasks/cancel`, `tasks/resubscribe`), when nothing tells which
//! of the two a caller speaks: neither a version, nor the URL, nor the dialect that opened the task.
//!
//! The answer is a superset object, which readers of both take, as both skip what they do not know: `kind` and `type`,
//! `contextId` and `sessionId`, `taskId` and `id`, `artifactId` and `index`, states of 0.1 alone.

use model::{Fault, Limits};
use serde_json::value::RawValue;

use model::ports::webhook::WebhookDetail;

use crate::a2a_v0_3;
use crate::compat::PreV1Form;
use crate::compat::read;
use crate::pre_v1::PreV1Wire;
use crate::seen::{Seen, TaskSeen};
use crate::wire::{CodecFacts, Decoded, JsonFacts, TaskView};

/// The name in logs. No task is ever opened in it.
pub const NAME: &str = "a2a_v0";

/// The methods two generations share.
pub const METHODS: &[&str] = &["tasks/get", "tasks/cancel", "tasks/resubscribe"];

pub(crate) static RPC: PreV1Wire = PreV1Wire {
    form: PreV1Form::Both,
    facts: &CodecFacts {
        name: NAME,
        extensions_header: "X-A2A-Extensions",
        shows_alias: true,
        threaded_id: false,
        session_history: false,
        answers_in_history: false,
        resumes_with_task: true,
        cancel_view: TaskView::WHOLE,
        telling: WebhookDetail::States,
        clears_push: false,
    },
    json: &JsonFacts::pre_v1(true),
    slot: 7,
    decode_rpc,
    error_line: a2a_v0_3::errors::line,
    rpc_error: a2a_v0_3::errors::rpc_error,
    rest_error: a2a_v0_3::errors::rest_error,
};

/// Makes a call of a method and its params, which are the same in both.
pub fn decode_rpc(method: &str, params: Option<&RawValue>, limits: &Limits) -> Result<Decoded, Fault> {
    if !METHODS.contains(&method) {
        return Err(a2a_v0_3::decode::unknown(method, METHODS));
    }
    a2a_v0_3::decode_rpc(method, params, limits)
}

/// A superset task, as a reader of both sees it.
pub fn read_task(text: &str) -> Result<TaskSeen, Fault> {
    read::task(PreV1Form::Both, text)
}

/// A superset event likewise.
pub fn read_stream_event(text: &str) -> Result<Seen, Fault> {
    read::seen(PreV1Form::Both, text)
}
