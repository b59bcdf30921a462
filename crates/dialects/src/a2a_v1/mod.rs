//! Protocol 1.0 (and 1.0.1), over JSON-RPC, HTTP+JSON and gRPC.
//!
//! The first two carry the same shapes: protobuf's JSON, read liberally and written strictly. [`grpc`] is the same over gRPC.
//!
//! * [`decode_rpc`] and [`rest`] make a [`model::Call`] of a request, by way of the shapes in `shapes.rs`.
//! * [`encode`] writes tasks, messages and events; [`errors`] writes faults; [`card`] writes the agent's card.
//! * [`version`] reads `A2A-Version`.
//! * [`read`] is the client's direction: what another 1.0 server answered, back as nouns; `request` is how it is asked.

pub mod card;
pub mod decode;
pub mod encode;
pub mod errors;
pub mod grpc;
pub mod read;
pub(crate) mod request;
pub mod rest;
pub(crate) mod shapes;
pub mod version;
pub(crate) mod wire;

pub use decode::{Decoded, METHODS, decode_rpc};
pub use rest::{RestRoute, route};
pub(crate) use wire::WIRE;

use model::ports::webhook::WebhookDetail;

use crate::wire::{CodecFacts, JsonFacts, TaskView};

/// The name a task remembers its opener's dialect under.
pub const NAME: &str = "a2a_v1";
/// The version in `A2A-Version` and on the card.
pub const VERSION: &str = "1.0";

/// How fronts treat it.
pub(crate) static FACTS: CodecFacts = CodecFacts {
    name: NAME,
    extensions_header: "A2A-Extensions",
    shows_alias: false,
    threaded_id: false,
    session_history: false,
    answers_in_history: false,
    resumes_with_task: true,
    cancel_view: TaskView::WHOLE,
    telling: WebhookDetail::Events,
    clears_push: false,
};

pub(crate) static JSON_FACTS: JsonFacts =
    JsonFacts { a2a_json: true, error_event: Some("error"), refuses_in_stream: false };
