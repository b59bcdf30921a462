//! Errors of the REST endpoints: an HTTP status, and `{"error", "reason", "details"}`.

use crate::orloj::errors;
use http::{HeaderValue, StatusCode};
use model::{Fault, Kind};
use serde_json::json;

use crate::resources::registry;
use web::fault_codes::FaultCode;
use web::response::Rejection;

#[derive(Debug)]
pub(super) struct Error {
    status: StatusCode,
    reason: &'static str,
    pub(super) message: String,
    /// All mistakes, each with its path.
    details: Vec<String>,
    /// For 405.
    allow: Option<String>,
    retry_after_s: Option<u32>,
}

impl Error {
    pub(super) fn new(status: StatusCode, reason: &'static str, message: impl Into<String>) -> Error {
        Error { status, reason, message: message.into(), details: Vec::new(), allow: None, retry_after_s: None }
    }

    pub(super) fn missing(message: impl Into<String>) -> Error {
        Error::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(super) fn conflict(message: impl Into<String>) -> Error {
        Error::new(StatusCode::CONFLICT, "Conflict", message)
    }

    pub(super) fn unauthenticated(message: impl Into<String>) -> Error {
        Error::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
    }

    pub(super) fn wrong(details: Vec<String>) -> Error {
        Error { details: details.clone(), ..Error::new(StatusCode::BAD_REQUEST, "Invalid", details.join("; ")) }
    }

    pub(super) fn gone(message: impl Into<String>) -> Error {
        Error::new(StatusCode::GONE, "Expired", message)
    }

    pub(super) fn method(allow: String) -> Error {
        let message = format!("this address answers to {allow} only");
        Error { allow: Some(allow), ..Error::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message) }
    }

    /// The rate limit of an address is exceeded.
    pub(super) fn paced(error: &errors::Error) -> Error {
        let no = Error::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", error.message.clone());
        Error { retry_after_s: error.retry_after_s, ..no }
    }

    pub(super) fn of_registry(error: registry::Error) -> Error {
        let conflict = |reason, says| Error::new(StatusCode::CONFLICT, reason, says);
        match error {
            registry::Error::Missing(says) => Error::missing(says),
            registry::Error::Exists(says) => conflict("AlreadyExists", says),
            registry::Error::Stale(says) => conflict("Conflict", says),
            registry::Error::InUse(says) => conflict("InUse", says),
            registry::Error::Configured(says) => conflict("Configured", says),
            registry::Error::Full(says) => conflict("LimitReached", says),
            registry::Error::NotAllowed(says) => Error::new(StatusCode::FORBIDDEN, "Forbidden", says),
            registry::Error::Wrong(wrong) => Error::wrong(wrong),
            registry::Error::Fault(fault) => Error::of(fault),
        }
    }

    pub(super) fn of(fault: Fault) -> Error {
        Error::of_fault(&fault)
    }

    pub(super) fn of_fault(fault: &Fault) -> Error {
        if let Some(cause) = &fault.cause {
            tracing::warn!(%cause, kind = ?fault.kind, "a request failed: {fault}");
        }
        let status = match fault.kind {
            // The route table answers for paths, methods and media types; a fault of these kinds is about the document.
            Kind::MethodNotFound | Kind::VerbNotAllowed | Kind::MediaType | Kind::ContentType => {
                StatusCode::BAD_REQUEST
            }
            kind => FaultCode::of(kind).http(),
        };
        let reason = match status {
            StatusCode::UNAUTHORIZED => "Unauthorized",
            StatusCode::PAYMENT_REQUIRED => "PaymentRequired",
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::CONFLICT => "Conflict",
            StatusCode::PAYLOAD_TOO_LARGE => "TooLarge",
            StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
            StatusCode::SERVICE_UNAVAILABLE => "Unavailable",
            StatusCode::INTERNAL_SERVER_ERROR => "InternalError",
            _ => "Invalid",
        };
        Error { retry_after_s: fault.retry_after_s, ..Error::new(status, reason, fault.message.clone()) }
    }

    pub(super) fn rejection(&self) -> Rejection {
        let mut said = json!({ "error": self.message, "reason": self.reason, "code": self.status.as_u16() });
        if !self.details.is_empty() {
            said["details"] = json!(self.details);
        }
        Rejection::new(self.status, self.message.as_str(), said.to_string())
            .allow(self.allow.as_deref())
            .retry_after(self.retry_after_s)
            .challenge(|| HeaderValue::from_static("Bearer realm=\"a2a\""))
    }
}
