//! The first generation, 0.1: the envelope of `tasks/send`.
//!
//! The caller chooses the task's id. Here it is an alias: it opens a task, continues it, or opens a successor of one that
//! has settled; the caller never sees another id. `sessionId` is the context. A send waits, but not for ever.
//!
//! Shapes are those of `compat`; this folder has the methods and the errors.

pub mod decode;
pub mod errors;
pub mod read;
pub(crate) mod request;

pub use decode::{METHODS, decode_rpc};

use model::ports::webhook::WebhookDetail;

use crate::compat::PreV1Form;
use crate::pre_v1::PreV1Wire;
use crate::wire::{CodecFacts, JsonFacts, TaskView};

/// The name a task remembers its opener's dialect under.
pub const NAME: &str = "a2a_v0_1";

/// How long a send waits before it answers with the task as it is then; the caller polls from there on.
pub const MAX_WAIT_MS: u64 = 10_000;

pub(crate) static RPC: PreV1Wire = PreV1Wire {
    form: PreV1Form::Type,
    facts: &CodecFacts {
        name: NAME,
        extensions_header: "X-A2A-Extensions",
        // History is returned on request only, and a cancel cannot request it.
        shows_alias: true,
        threaded_id: false,
        session_history: true,
        answers_in_history: false,
        resumes_with_task: false,
        cancel_view: TaskView { history: Some(0), artifacts: true },
        telling: WebhookDetail::States,
        clears_push: false,
    },
    json: &JsonFacts::pre_v1(false),
    slot: 5,
    decode_rpc,
    error_line: errors::line,
    rpc_error: errors::rpc_error,
    rest_error: errors::rest_error,
};
