//! The A2A endpoint of LangSmith deployments, as strict as the product is.
//!
//! It is 0.3 in shape (bare objects with `kind`, states in kebab-case) with an envelope of its own: an `Accept` header that
//! must say the right thing, HTTP statuses for what is no request, tasks named `<thread>:<run>`, four methods and no more.
//!
//! There are two profiles. [`LangGraphProfile::Documented`] is what the product's own page says; [`LangGraphProfile::Current`] is what newer
//! deployments do: errors in the envelope, methods of 1.0 beside those of 0.3, cancel, lists, file parts.
//!
//! * [`envelope`] reads a request, or says at once what is wrong with it.
//! * [`decode`] makes a [`model::Call`] of it.
//! * [`errors`] says what a fault looks like.
//! * [`card`] is the card that is asked for by `?assistant_id=`.

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

/// Which of the product's two faces is shown.
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
            // What is asked in the words of 1.0 is answered in them.
            LangGraphProfile::Current if method.starts_with(|c: char| c.is_ascii_uppercase()) => &v1::WIRE,
            LangGraphProfile::Current => &CURRENT,
        }
    }
}

/// An answer that is already whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpReply {
    pub status: u16,
    /// Empty for a bare status.
    pub body: Vec<u8>,
}

/// A readable request.
#[derive(Clone, Debug)]
pub struct AssistantRequest {
    pub id: OwnedId,
    pub method: String,
    pub params: serde_json::Value,
    /// The params as they were written.
    pub(crate) raw: Option<Box<serde_json::value::RawValue>>,
}

const FACTS: CodecFacts = CodecFacts {
    name: NAME,
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
