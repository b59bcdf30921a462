//! Protocol 0.3, and 0.2 before it, over JSON-RPC and HTTP+JSON.
//!
//! The two bindings carry different shapes: JSON-RPC has objects with `kind` and states in kebab-case, HTTP+JSON has the
//! JSON of a protobuf package that 1.0 later left behind. Both are forms of `compat`, which reads and writes
//! them; this folder has the methods, the routes and the errors.
//!
//! * [`decode_rpc`] and [`rest`] make a [`model::Call`] of a request.
//! * [`errors`] has the table of faults and the shapes they travel in.
//! * [`grpc`] is the third binding.
//! * [`read`] and `request` are the client's direction.

pub mod decode;
pub mod errors;
pub mod grpc;
pub mod read;
pub(crate) mod request;
pub mod rest;

pub use decode::{METHODS, decode_rpc};
pub use rest::{PreV1Route, route};

use model::ports::webhook::WebhookDetail;

use crate::compat::PreV1Form;
use crate::pre_v1::PreV1Wire;
use crate::wire::{CodecFacts, JsonFacts, TaskView};

/// The name of the JSON-RPC form.
pub const NAME: &str = "a2a_v0_3";
/// The name of the HTTP+JSON form.
pub const REST_NAME: &str = "a2a_v0_3_rest";
/// The version in `A2A-Version` and on the card.
pub const VERSION: &str = "0.3";

/// JSON-RPC.
pub(crate) static RPC: PreV1Wire = PreV1Wire {
    form: PreV1Form::Kind,
    facts: &CodecFacts {
        name: NAME,
        extensions_header: "X-A2A-Extensions",
        shows_alias: false,
        threaded_id: false,
        session_history: false,
        answers_in_history: false,
        resumes_with_task: true,
        cancel_view: TaskView::WHOLE,
        telling: WebhookDetail::States,
        clears_push: false,
    },
    json: &JsonFacts::pre_v1(true),
    slot: 1,
    decode_rpc,
    error_line: errors::line,
    rpc_error: errors::rpc_error,
    rest_error: errors::rest_error,
};

/// HTTP+JSON, below `/v1`.
pub(crate) static REST: PreV1Wire = PreV1Wire {
    form: PreV1Form::Proto,
    facts: &CodecFacts {
        name: REST_NAME,
        extensions_header: "X-A2A-Extensions",
        shows_alias: false,
        threaded_id: false,
        session_history: false,
        answers_in_history: false,
        resumes_with_task: true,
        cancel_view: TaskView::WHOLE,
        telling: WebhookDetail::States,
        clears_push: false,
    },
    json: &JsonFacts::pre_v1(false),
    slot: 3,
    decode_rpc,
    error_line: errors::line,
    rpc_error: errors::rpc_error,
    rest_error: errors::rest_error,
};
