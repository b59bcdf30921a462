//! What is said to whoever does not get what they asked for: `{"error", "reason", "details"}`, with HTTP's own status.

use dialects::orloj::errors::Error;
use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use model::{Fault, Kind};
use serde_json::json;

use super::Refusal;
use web::body::Response;

#[derive(Debug)]
pub(super) struct No {
    status: StatusCode,
    reason: &'static str,
    pub(super) message: String,
    /// Everything that is wrong, each with its path.
    details: Vec<String>,
    allow: Option<&'static str>,
    retry_after_s: Option<u32>,
}

impl No {
    pub(super) fn new(status: StatusCode, reason: &'static str, message: impl Into<String>) -> No {
        No { status, reason, message: message.into(), details: Vec::new(), allow: None, retry_after_s: None }
    }

    pub(super) fn missing(message: impl Into<String>) -> No {
        No::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub(super) fn conflict(message: impl Into<String>) -> No {
        No::new(StatusCode::CONFLICT, "Conflict", message)
    }

    pub(super) fn unauthenticated(message: impl Into<String>) -> No {
        No::new(StatusCode::UNAUTHORIZED, "Unauthorized", message)
    }

    pub(super) fn wrong(details: Vec<String>) -> No {
        No { details: details.clone(), ..No::new(StatusCode::BAD_REQUEST, "Invalid", details.join("; ")) }
    }

    pub(super) fn gone(message: impl Into<String>) -> No {
        No::new(StatusCode::GONE, "Expired", message)
    }

    pub(super) fn method(allow: &'static str) -> No {
        let message = format!("this address answers to {allow} only");
        No { allow: Some(allow), ..No::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message) }
    }

    /// Too many requests of one address.
    pub(super) fn paced(error: &Error) -> No {
        let no = No::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", error.message.clone());
        No { retry_after_s: error.retry_after_s, ..no }
    }

    pub(super) fn refused(refusal: Refusal) -> No {
        let conflict = |reason, says| No::new(StatusCode::CONFLICT, reason, says);
        match refusal {
            Refusal::Missing(says) => No::missing(says),
            Refusal::Exists(says) => conflict("AlreadyExists", says),
            Refusal::Stale(says) => conflict("Conflict", says),
            Refusal::InUse(says) => conflict("InUse", says),
            Refusal::Configured(says) => conflict("Configured", says),
            Refusal::Full(says) => conflict("LimitReached", says),
            Refusal::NotAllowed(says) => No::new(StatusCode::FORBIDDEN, "Forbidden", says),
            Refusal::Wrong(wrong) => No::wrong(wrong),
            Refusal::Fault(fault) => No::of(fault),
        }
    }

    pub(super) fn of(fault: Fault) -> No {
        No::told(&fault)
    }

    pub(super) fn told(fault: &Fault) -> No {
        if let Some(cause) = &fault.cause {
            tracing::warn!(%cause, kind = ?fault.kind, "a request failed: {fault}");
        }
        let (status, reason) = match fault.kind {
            Kind::Unauthenticated => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Kind::Forbidden => (StatusCode::FORBIDDEN, "Forbidden"),
            Kind::TaskNotFound => (StatusCode::NOT_FOUND, "NotFound"),
            Kind::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "TooLarge"),
            Kind::RateLimited => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            Kind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "Unavailable"),
            Kind::Internal | Kind::InvalidAgentResponse => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            Kind::TaskNotCancelable | Kind::TaskSettled | Kind::KeyReused => (StatusCode::CONFLICT, "Conflict"),
            Kind::InsufficientBalance | Kind::BudgetExceeded => (StatusCode::PAYMENT_REQUIRED, "PaymentRequired"),
            Kind::Parse
            | Kind::InvalidRequest
            | Kind::MethodNotFound
            | Kind::VerbNotAllowed
            | Kind::InvalidParams
            | Kind::MediaType
            | Kind::PushNotSupported
            | Kind::Unsupported
            | Kind::ContentType
            | Kind::ExtendedCardNotConfigured
            | Kind::ExtensionRequired
            | Kind::VersionNotSupported => (StatusCode::BAD_REQUEST, "Invalid"),
        };
        No { retry_after_s: fault.retry_after_s, ..No::new(status, reason, fault.message.clone()) }
    }

    pub(super) fn respond(&self) -> Response {
        let mut said = json!({ "error": self.message, "reason": self.reason, "code": self.status.as_u16() });
        if !self.details.is_empty() {
            said["details"] = json!(self.details);
        }
        let mut response = super::json(said.to_string());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"a2a\""));
        }
        if let Some(allow) = self.allow {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}
