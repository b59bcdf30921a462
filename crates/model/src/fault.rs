//! The kinds of faults, a closed list. Each dialect has one exhaustive table from kind to its own codes and shapes.
//!
//! A fault has two texts: `message` for the caller, `cause` for the log. The cause never leaves the process.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The bytes are not JSON.
    Parse,
    /// JSON, but not a request.
    InvalidRequest,
    /// No such method or route.
    MethodNotFound,
    /// The route exists, but not for this HTTP method.
    VerbNotAllowed,
    InvalidParams,
    /// The request's body is larger than the limit.
    TooLarge,
    /// The request's `Content-Type` is not supported.
    MediaType,
    TaskNotFound,
    TaskNotCancelable,
    /// The task has settled and accepts no more messages or subscriptions.
    TaskSettled,
    PushNotSupported,
    /// The agent lacks the capability the operation needs.
    Unsupported,
    /// A part's media type is not among those the agent reads.
    ContentType,
    InvalidAgentResponse,
    ExtendedCardNotConfigured,
    ExtensionRequired,
    VersionNotSupported,
    Unauthenticated,
    Forbidden,
    RateLimited,
    /// The agent's price exceeds the caller's balance.
    InsufficientBalance,
    /// The agent's price exceeds the budget of the caller or of the conversation.
    BudgetExceeded,
    /// The same `Idempotency-Key` came with another body.
    KeyReused,
    /// The server cannot accept work now: the disk is full or read-only, a queue is full, or it is shutting down.
    Unavailable,
    Internal,
}

impl Kind {
    pub const ALL: [Kind; 25] = [
        Kind::Parse,
        Kind::InvalidRequest,
        Kind::MethodNotFound,
        Kind::VerbNotAllowed,
        Kind::InvalidParams,
        Kind::TooLarge,
        Kind::MediaType,
        Kind::TaskNotFound,
        Kind::TaskNotCancelable,
        Kind::TaskSettled,
        Kind::PushNotSupported,
        Kind::Unsupported,
        Kind::ContentType,
        Kind::InvalidAgentResponse,
        Kind::ExtendedCardNotConfigured,
        Kind::ExtensionRequired,
        Kind::VersionNotSupported,
        Kind::Unauthenticated,
        Kind::Forbidden,
        Kind::RateLimited,
        Kind::InsufficientBalance,
        Kind::BudgetExceeded,
        Kind::KeyReused,
        Kind::Unavailable,
        Kind::Internal,
    ];
}

#[derive(Debug)]
pub struct Fault {
    pub kind: Kind,
    /// For the caller: the error and, where it helps, the remedy.
    pub message: String,
    /// The path in the request, for invalid params: `message.parts[0]`.
    pub field: Option<String>,
    /// Further facts for the caller, as pairs of text: `taskId`, `supportedVersions`.
    pub facts: Vec<(&'static str, String)>,
    /// After this many seconds a retry may succeed.
    pub retry_after_s: Option<u32>,
    /// For the log only.
    pub cause: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Fault {
    pub fn new(kind: Kind, message: impl Into<String>) -> Fault {
        Fault { kind, message: message.into(), field: None, facts: Vec::new(), retry_after_s: None, cause: None }
    }
    pub fn params(field: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault { field: Some(field.into()), ..Fault::new(Kind::InvalidParams, message) }
    }
    pub fn task_not_found(id: impl fmt::Display) -> Fault {
        Fault::new(Kind::TaskNotFound, "Task not found").fact("taskId", id.to_string())
    }
    pub fn internal(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Fault {
        Fault::new(Kind::Internal, "Internal error").because(cause)
    }
    pub fn fact(mut self, name: &'static str, value: impl Into<String>) -> Fault {
        self.facts.push((name, value.into()));
        self
    }
    pub fn because(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Fault {
        self.cause = Some(cause.into());
        self
    }
    /// The cause and its sources as text, for the log; `-` if there is none.
    pub fn cause_text(&self) -> impl fmt::Display {
        let mut text = String::new();
        let mut next = self.cause.as_deref().map(|cause| cause as &(dyn std::error::Error + 'static));
        while let Some(cause) = next {
            let says = cause.to_string();
            // Some errors already include the text of their source.
            if !text.ends_with(&says) {
                if !text.is_empty() {
                    text.push_str(": ");
                }
                text.push_str(&says);
            }
            next = cause.source();
        }
        if text.is_empty() { "-".to_owned() } else { text }
    }
    pub fn retry_after(mut self, seconds: u32) -> Fault {
        self.retry_after_s = Some(seconds);
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_deref().map(|c| c as _)
    }
}
