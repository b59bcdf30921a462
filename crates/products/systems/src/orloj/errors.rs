//! The product's errors: a code, a message, and the id of the task that the request names.
//!
//! A system that the caller may not see is "not available", and a task that the caller may not see is "not found".

use model::{Fault, Kind, State};

use dialects::framing::jsonrpc::{self, Id};
use dialects::wire::Operation;

pub const PARSE: i32 = -32700;
pub const INVALID_REQUEST: i32 = -32600;
pub const METHOD_NOT_FOUND: i32 = -32601;
pub const INVALID_PARAMS: i32 = -32602;
pub const INTERNAL: i32 = -32603;
pub const TASK_NOT_FOUND: i32 = -32001;
pub const TASK_CANCELLED: i32 = -32002;
pub const AGENT_NOT_FOUND: i32 = -32003;
/// As in all versions of A2A; the product defines no code of its own for it.
pub const UNSUPPORTED: i32 = -32004;

const NO_REQUEST: &str = "invalid JSON-RPC request";
const NOT_FOUND: &str = "task not found";

/// An error in the product's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub code: i32,
    /// 200, except for errors that have an HTTP status of their own.
    pub http: u16,
    pub message: String,
    /// The id of the task, as in the request.
    pub task: Option<String>,
    /// The cause, in addition to the product's message.
    pub detail: Option<String>,
    pub retry_after_s: Option<u32>,
}

impl Error {
    pub fn new(code: i32, message: impl Into<String>) -> Error {
        Error { code, http: 200, message: message.into(), task: None, detail: None, retry_after_s: None }
    }

    /// The system does not exist, or is not served here.
    pub fn not_enabled() -> Error {
        Error::new(AGENT_NOT_FOUND, "target AgentSystem is not A2A-enabled")
    }

    /// The caller may not call the system.
    pub fn not_available() -> Error {
        Error::new(AGENT_NOT_FOUND, "target AgentSystem is not available")
    }

    /// The request names no system, and there is not exactly one.
    pub fn no_target(operation: Operation) -> Error {
        let message = if operation == Operation::Stream {
            "target AgentSystem required"
        } else {
            "target AgentSystem must be specified via URL path or request metadata"
        };
        Error::new(INVALID_PARAMS, message)
    }

    pub fn no_task(id: &str) -> Error {
        Error::new(TASK_NOT_FOUND, NOT_FOUND).about(id)
    }

    /// The refusal of a cancel by the state of its task; `None` while the task can still be cancelled.
    pub fn of_state(id: &str, state: State) -> Option<Error> {
        let message = match state {
            State::Canceled => "task has been cancelled",
            State::Completed => "task cannot be cancelled: it has completed",
            State::Failed => "task cannot be cancelled: it has failed",
            State::Rejected => "task cannot be cancelled: it was rejected",
            State::Submitted | State::Working | State::InputRequired | State::AuthRequired => return None,
        };
        Some(Error::new(TASK_CANCELLED, message).about(id))
    }

    pub fn about(self, task: &str) -> Error {
        Error { task: Some(task.to_owned()), ..self }
    }

    /// The error for a fault. The match is exhaustive, so that a new kind of fault needs a line.
    pub fn of(fault: &Fault, operation: Operation) -> Error {
        let said = |code| Error::new(code, fault.message.clone());
        let http = |http, error: Error| Error { http, ..error };
        let failed = if matches!(operation, Operation::Send | Operation::Stream) {
            "failed to create task"
        } else if operation == Operation::Cancel {
            "failed to cancel task"
        } else {
            "internal error"
        };
        let reads = matches!(operation, Operation::Get | Operation::Cancel);
        let error = match fault.kind {
            Kind::Parse => Error { detail: Some(fault.message.clone()), ..Error::new(PARSE, NO_REQUEST) },
            Kind::MediaType => http(415, said(INVALID_REQUEST)),
            Kind::InvalidRequest if fault.message.starts_with("\"jsonrpc\"") => {
                Error::new(INVALID_REQUEST, "jsonrpc must be \"2.0\"")
            }
            Kind::InvalidRequest => {
                Error { detail: Some(fault.message.clone()), ..Error::new(INVALID_REQUEST, NO_REQUEST) }
            }
            Kind::VersionNotSupported => said(INVALID_REQUEST),
            Kind::TooLarge => {
                let error = Error::new(PARSE, "failed to read request body");
                http(413, Error { detail: Some(fault.message.clone()), ..error })
            }
            Kind::MethodNotFound | Kind::VerbNotAllowed => said(METHOD_NOT_FOUND),
            Kind::InvalidParams | Kind::ContentType | Kind::ExtensionRequired | Kind::KeyReused => {
                let detail = fault.facts.iter().find(|(name, _)| *name == "detail").map(|(_, text)| text.clone());
                Error { detail, ..said(INVALID_PARAMS) }
            }
            Kind::TaskNotFound => Error::new(TASK_NOT_FOUND, NOT_FOUND),
            Kind::TaskNotCancelable => said(TASK_CANCELLED),
            Kind::TaskSettled => said(INTERNAL),
            // An invalid token is not an error about a system.
            Kind::Unauthenticated => http(401, said(INVALID_REQUEST)),
            Kind::Forbidden if reads => Error::new(TASK_NOT_FOUND, NOT_FOUND),
            Kind::Forbidden => Error::not_available(),
            Kind::RateLimited => {
                Error { detail: Some(fault.message.clone()), ..Error::new(INTERNAL, "rate limit exceeded") }
            }
            Kind::Unsupported => said(UNSUPPORTED),
            // Its code in other dialects means a missing agent here.
            Kind::PushNotSupported | Kind::ExtendedCardNotConfigured => said(INTERNAL),
            Kind::InsufficientBalance | Kind::BudgetExceeded => said(INTERNAL),
            Kind::Unavailable => http(503, said(INTERNAL)),
            Kind::InvalidAgentResponse | Kind::Internal => Error::new(INTERNAL, failed),
        };
        Error { retry_after_s: fault.retry_after_s, ..error }
    }

    /// A whole JSON-RPC error response.
    pub fn encode(&self, id: &Id<'_>) -> Vec<u8> {
        let mut w = jsonrpc::begin_error(id, self.code, &self.message);
        if self.task.is_some() || self.detail.is_some() {
            w.key("data").begin_object();
            if let Some(task) = &self.task {
                w.key("task_id").string(task);
            }
            if let Some(detail) = &self.detail {
                w.key("detail").string(detail);
            }
            w.end_object();
        }
        jsonrpc::end_error(&mut w);
        w.finish().as_bytes().map(|bytes| bytes.to_vec()).unwrap_or_default()
    }
}
