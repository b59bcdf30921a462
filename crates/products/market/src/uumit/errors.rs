//! UUMit's table of errors, and the lines that errors of the market have in it.
//!
//! Code and message are UUMit's. `data.detail` describes the case, and `data.error_type` distinguishes cases of one
//! code for programs. The HTTP status is 200, except for rate limits and bodies that are too large.

use market_rules::Error as Refusal;
use market_rules::transaction::Status;
use model::{Fault, Kind, Time};

use dialects::framing::jsonrpc::{self, Id};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    Authentication,
    TaskNotFound,
    InsufficientBalance,
    PermissionDenied,
    /// An unknown task inside an event stream.
    NotFoundInStream,
    /// Has an HTTP status of its own.
    RateLimited,
}

impl Line {
    pub const ALL: [Line; 11] = [
        Line::Parse,
        Line::InvalidRequest,
        Line::MethodNotFound,
        Line::InvalidParams,
        Line::Internal,
        Line::Authentication,
        Line::TaskNotFound,
        Line::InsufficientBalance,
        Line::PermissionDenied,
        Line::NotFoundInStream,
        Line::RateLimited,
    ];

    pub fn code(self) -> i32 {
        match self {
            Line::Parse => -32700,
            Line::InvalidRequest => -32600,
            Line::MethodNotFound => -32601,
            Line::InvalidParams => -32602,
            Line::Internal => -32603,
            Line::Authentication => -32000,
            Line::TaskNotFound => -32001,
            Line::InsufficientBalance => -32002,
            Line::PermissionDenied => -32003,
            Line::NotFoundInStream => -32004,
            // UUMit's table has no code for this; A2A's code is used.
            Line::RateLimited => -32049,
        }
    }

    pub fn message(self) -> &'static str {
        match self {
            Line::Parse => "Parse error",
            Line::InvalidRequest => "Invalid Request",
            Line::MethodNotFound => "Method not found",
            Line::InvalidParams => "Invalid params",
            Line::Internal => "Internal error",
            Line::Authentication => "Authentication error",
            Line::TaskNotFound | Line::NotFoundInStream => "Task not found",
            Line::InsufficientBalance => "Insufficient balance",
            Line::PermissionDenied => "Permission denied",
            Line::RateLimited => "Rate limit exceeded",
        }
    }

    /// A short description of the cases, for the documentation.
    pub fn when(self) -> &'static str {
        match self {
            Line::Parse => "the body is not JSON, or not text",
            Line::InvalidRequest => "JSON, but no request; or a batch",
            Line::MethodNotFound => "none of the four methods",
            Line::InvalidParams => {
                "a member is missing or wrong, a capability is not on sale, a step comes too late or too early"
            }
            Line::Internal => "our fault, or not now",
            Line::Authentication => "no key with its user, no token, or wrong ones",
            Line::TaskNotFound => "no such transaction",
            Line::InsufficientBalance => "the buyer has not enough",
            Line::PermissionDenied => "the caller is no party to the transaction, or this is not its part",
            Line::NotFoundInStream => "no such transaction, in the stream of `tasks/sendSubscribe`",
            Line::RateLimited => "too many calls; HTTP 429, and `Retry-After` says when to call again",
        }
    }
}

/// An error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub line: Line,
    /// A configured code that replaces the line's own.
    pub code: Option<i32>,
    pub detail: Option<String>,
    pub error_type: Option<&'static str>,
    /// The status of the purchase, if it is the reason.
    pub status: Option<Status>,
    pub http: u16,
    pub retry_after_s: Option<u32>,
}

impl Error {
    pub fn new(line: Line, detail: impl Into<String>) -> Error {
        Error {
            line,
            code: None,
            detail: Some(detail.into()),
            error_type: None,
            status: None,
            http: 200,
            retry_after_s: None,
        }
    }

    #[must_use]
    pub fn typed(self, error_type: &'static str) -> Error {
        Error { error_type: Some(error_type), ..self }
    }

    /// A rate limit, which has an HTTP status.
    pub fn too_often(detail: impl Into<String>, retry_after_s: u32) -> Error {
        let retry_after_s = Some(retry_after_s.max(1));
        Error { http: 429, retry_after_s, ..Error::new(Line::RateLimited, detail).typed("rate_limited") }
    }

    /// An unknown purchase.
    pub fn no_task() -> Error {
        Error::new(Line::TaskNotFound, "there is no such transaction").typed("not_found")
    }

    /// The error of a violated rule. `invalid_state` is the code of a step that the status does not permit; UUMit's
    /// table has none for it.
    pub fn of_refusal(refusal: &Refusal, invalid_state: i32, now: Time) -> Error {
        let said = |line| Error::new(line, refusal.to_string());
        match refusal {
            Refusal::NotParty | Refusal::WrongActor { .. } | Refusal::OwnCapability => {
                said(Line::PermissionDenied).typed("permission_denied")
            }
            Refusal::WrongState { .. } | Refusal::ConfirmationPending | Refusal::NothingPending => Error {
                code: Some(invalid_state),
                status: refusal.status(),
                ..said(Line::InvalidParams).typed("invalid_state")
            },
            Refusal::Token(_) => said(Line::InvalidParams).typed("invalid_confirm_token"),
            Refusal::Insufficient { .. } => said(Line::InsufficientBalance).typed("insufficient_balance"),
            Refusal::NotOnSale { .. } | Refusal::Invalid(_) => said(Line::InvalidParams),
            Refusal::Quota { again_at, .. } => {
                let wait_ms = again_at.0.saturating_sub(now.0).max(0).unsigned_abs();
                Error::too_often(refusal.to_string(), u32::try_from(wait_ms.div_ceil(1_000)).unwrap_or(u32::MAX))
            }
            Refusal::Changed => said(Line::Internal).typed("conflict"),
            Refusal::NotDue | Refusal::Ledger(_) => Error { detail: None, ..said(Line::Internal) },
        }
    }

    /// The error of a fault. `invalid_state` as in [`Error::of_refusal`].
    pub fn of_fault(fault: &Fault, invalid_state: i32) -> Error {
        let said = |line| Error::new(line, fault.message.clone());
        let told = match fault.kind {
            Kind::Parse => said(Line::Parse),
            Kind::InvalidRequest | Kind::VersionNotSupported => said(Line::InvalidRequest),
            Kind::MediaType => Error { http: 415, ..said(Line::InvalidRequest) },
            Kind::TooLarge => Error { http: 413, ..said(Line::InvalidRequest) },
            Kind::MethodNotFound
            | Kind::VerbNotAllowed
            | Kind::PushNotSupported
            | Kind::Unsupported
            | Kind::ExtendedCardNotConfigured => said(Line::MethodNotFound),
            Kind::InvalidParams | Kind::ContentType | Kind::ExtensionRequired => said(Line::InvalidParams),
            Kind::KeyReused => said(Line::InvalidParams).typed("idempotency_conflict"),
            Kind::TaskNotFound => Error::no_task(),
            Kind::TaskNotCancelable | Kind::TaskSettled => {
                Error { code: Some(invalid_state), ..said(Line::InvalidParams).typed("invalid_state") }
            }
            Kind::InsufficientBalance => said(Line::InsufficientBalance).typed("insufficient_balance"),
            Kind::BudgetExceeded => said(Line::InsufficientBalance).typed("budget_exceeded"),
            Kind::Unauthenticated => said(Line::Authentication),
            Kind::Forbidden => said(Line::PermissionDenied).typed("permission_denied"),
            Kind::RateLimited => Error::too_often(fault.message.clone(), fault.retry_after_s.unwrap_or(1)),
            Kind::Unavailable => Error { http: 503, ..said(Line::Internal).typed("unavailable") },
            Kind::InvalidAgentResponse | Kind::Internal => Error { detail: None, ..said(Line::Internal) },
        };
        Error { retry_after_s: told.retry_after_s.or(fault.retry_after_s), ..told }
    }

    /// The error as an event of a subscription; `None` for errors that are HTTP responses.
    pub fn in_stream(&self) -> Option<Error> {
        let line = match self.line {
            Line::TaskNotFound | Line::NotFoundInStream => Line::NotFoundInStream,
            Line::PermissionDenied => Line::PermissionDenied,
            Line::Parse
            | Line::InvalidRequest
            | Line::MethodNotFound
            | Line::InvalidParams
            | Line::Internal
            | Line::Authentication
            | Line::InsufficientBalance
            | Line::RateLimited => return None,
        };
        // UUMit's own frames have only these members.
        Some(Error { line, detail: None, ..self.clone() })
    }

    pub fn code(&self) -> i32 {
        self.code.unwrap_or_else(|| self.line.code())
    }

    /// The text for the log.
    pub fn told(&self) -> &str {
        self.detail.as_deref().unwrap_or_else(|| self.line.message())
    }

    /// A whole JSON-RPC error response.
    pub fn encode(&self, id: &Id<'_>) -> Vec<u8> {
        let mut w = jsonrpc::begin_error(id, self.code(), self.line.message());
        if self.detail.is_some() || self.error_type.is_some() {
            w.key("data").begin_object();
            if let Some(detail) = &self.detail {
                w.key("detail").string(detail);
            }
            if let Some(error_type) = self.error_type {
                w.key("error_type").plain(error_type);
            }
            if let Some(status) = self.status {
                w.key("internal_status").plain(status.name());
            }
            w.end_object();
        }
        jsonrpc::end_error(&mut w);
        w.finish().as_bytes().map(|bytes| bytes.to_vec()).unwrap_or_default()
    }
}
