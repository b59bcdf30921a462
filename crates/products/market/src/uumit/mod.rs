//! UUMit's JSON-RPC, where a task is a purchase: `tasks/send` buys a capability, and everything after it is about that
//! purchase. The rules are those of the crate [`market`]; here is only how they read on the wire.
//!
//! * [`decode`] reads the four methods there are.
//! * [`encode`] writes a purchase as a task, with its status as a bare word, and the frames of a subscription.
//! * [`errors`] is the product's table of errors.
//! * [`card`] is the platform's card, and a seller's.

pub mod card;
pub mod decode;
pub mod encode;
pub(crate) mod endpoint;
pub mod errors;

use market_rules::{CapabilityId, TransactionId};
use model::{ContextId, Json};

pub const NAME: &str = "uumit";

/// All there are.
pub const METHODS: [&str; 4] = ["tasks/send", "tasks/get", "tasks/cancel", "tasks/sendSubscribe"];

/// What a caller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UumitRequest {
    Send(Box<UumitSend>),
    Get { id: Option<TransactionId> },
    Cancel(UumitCancel),
    Subscribe { id: Option<TransactionId> },
}

/// A purchase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UumitSend {
    pub capability: CapabilityId,
    pub booked_hours: Option<i64>,
    pub context: Option<ContextId>,
    pub demand: Option<String>,
    pub idempotency_key: Option<String>,
    /// What the seller is told: the text of a message as a JSON string, anything else as it came.
    pub input: Option<Json>,
    /// A person's yes.
    pub confirm_token: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UumitCancel {
    /// `None` for a text that is no id of ours: there is no such purchase, and that is what is said.
    pub id: Option<TransactionId>,
    pub idempotency_key: Option<String>,
}

impl UumitRequest {
    /// The word for it in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            UumitRequest::Send(_) => "send",
            UumitRequest::Get { .. } => "get",
            UumitRequest::Cancel(_) => "cancel",
            UumitRequest::Subscribe { .. } => "subscribe",
        }
    }
}
