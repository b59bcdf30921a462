//! The A2A dialect of LangSmith deployments.
//!
//! Its objects are those of A2A 0.3 (bare objects with `kind`, states in kebab-case). The envelope is its own: the `Accept`
//! header is checked, a body that is no request has an HTTP status, tasks are named `<thread>:<run>`, and there are four
//! methods only.
//!
//! There are two profiles. [`LangGraphProfile::Documented`] follows the product's documentation. [`LangGraphProfile::Current`]
//! follows newer deployments: errors in the envelope, methods of 1.0 beside those of 0.3, cancel, lists, file parts.
//!
//! * [`envelope`] reads the envelope of a request, or refuses it.
//! * [`decode`] converts a request into a [`model::Call`].
//! * [`errors`] converts a fault into the product's error.
//! * [`card`] writes the card of an assistant.

pub mod card;
pub mod decode;
pub mod envelope;
pub mod errors;

use model::ports::webhook::WebhookDetail;

use dialects::framing::jsonrpc::OwnedId;
use dialects::kit::pre_v1::{PreV1Form, PreV1Wire};
use dialects::kit::v1;
use dialects::wire::{CodecFacts, JsonFacts, JsonWire, TaskView};

pub const NAME: &str = "langgraph";
pub const CURRENT_NAME: &str = "langgraph_current";

/// The version of the product that the endpoint follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LangGraphProfile {
    #[default]
    Documented,
    Current,
}

impl LangGraphProfile {
    /// The wire that answers a method of this profile.
    pub fn wire(self, method: &str) -> &'static dyn JsonWire {
        match self {
            LangGraphProfile::Documented => &DOCUMENTED,
            // A method of 1.0 is answered in the form of 1.0.
            LangGraphProfile::Current if method.starts_with(|c: char| c.is_ascii_uppercase()) => &v1::WIRE,
            LangGraphProfile::Current => &CURRENT,
        }
    }
}

/// A complete HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    pub status: u16,
    /// Empty for a status without a body.
    pub body: Vec<u8>,
}

/// A request with a valid envelope.
#[derive(Clone, Debug)]
pub struct AssistantRequest {
    pub id: OwnedId,
    pub method: String,
    pub params: serde_json::Value,
    /// The JSON text of the params.
    pub(crate) raw: Option<Box<serde_json::value::RawValue>>,
}

const FACTS: CodecFacts = CodecFacts {
    name: NAME,
    extensions_header: "X-A2A-Extensions",
    shows_alias: false,
    threaded_id: true,
    telling: WebhookDetail::States,
    clears_push: false,
    session_history: true,
    answers_in_history: true,
    resumes_with_task: true,
    cancel_view: TaskView { history: Some(0), artifacts: false },
};

pub(crate) static DOCUMENTED: PreV1Wire = PreV1Wire {
    form: PreV1Form::Kind,
    facts: &FACTS,
    json: &JsonFacts::pre_v1(true),
    slot: 16,
    decode_rpc: decode::unused,
    error_line: errors::documented,
    rpc_error: errors::rpc_error,
    rest_error: errors::rest_error,
};

pub(crate) static CURRENT: PreV1Wire = PreV1Wire {
    form: PreV1Form::Kind,
    facts: &CodecFacts { name: CURRENT_NAME, ..FACTS },
    json: &JsonFacts::pre_v1(true),
    slot: 18,
    decode_rpc: decode::unused,
    error_line: errors::current,
    rpc_error: errors::rpc_error,
    rest_error: errors::rest_error,
};

#[cfg(test)]
mod tests;
