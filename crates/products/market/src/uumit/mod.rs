//! UUMit's JSON-RPC dialect, where a task is a purchase: `tasks/send` buys a capability, and the other methods refer to
//! that purchase. This module has the wire format; the rules are in the crate [`market_rules`].
//!
//! * [`decode`] reads requests of the four methods.
//! * [`encode`] writes a purchase as a task, and the frames of a subscription.
//! * [`errors`] is UUMit's table of errors.
//! * [`card`] writes the cards of the platform and of sellers.

pub mod card;
pub mod decode;
pub mod encode;
pub(crate) mod endpoint;
pub mod errors;

use market_rules::{CapabilityId, TransactionId};
use model::{ContextId, Json};

pub const NAME: &str = "uumit";

/// All methods.
pub const METHODS: [&str; 4] = ["tasks/send", "tasks/get", "tasks/cancel", "tasks/sendSubscribe"];

/// A decoded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UumitRequest {
    Send(Box<UumitSend>),
    Get { id: Option<TransactionId> },
    Cancel(UumitCancel),
    Subscribe { id: Option<TransactionId> },
}

/// An order: the params of `tasks/send`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UumitSend {
    pub capability: CapabilityId,
    pub booked_hours: Option<i64>,
    pub context: Option<ContextId>,
    pub demand: Option<String>,
    pub idempotency_key: Option<String>,
    /// The seller's input: the text of a message as a JSON string, other input unchanged.
    pub input: Option<Json>,
    /// A confirmation token.
    pub confirm_token: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UumitCancel {
    /// `None` for a malformed id, which is reported as an unknown purchase.
    pub id: Option<TransactionId>,
    pub idempotency_key: Option<String>,
}

impl UumitRequest {
    /// The name in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            UumitRequest::Send(_) => "send",
            UumitRequest::Get { .. } => "get",
            UumitRequest::Cancel(_) => "cancel",
            UumitRequest::Subscribe { .. } => "subscribe",
        }
    }
}
