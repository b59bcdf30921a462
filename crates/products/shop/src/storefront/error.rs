//! Errors of the storefront: a code for programs, its HTTP status, and a message that says what to do.

use crate::service::{Error as ServiceError, ShopEntity};
use http::StatusCode;
use model::{Fault, Kind};
use shop_rules::Error as RuleError;

/// An error code and its HTTP status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ErrorCode {
    pub(super) name: &'static str,
    status: u16,
}

impl ErrorCode {
    const fn new(name: &'static str, status: u16) -> ErrorCode {
        ErrorCode { name, status }
    }
    pub(super) const INVALID: ErrorCode = ErrorCode::new("invalid_request", 400);
    pub(super) const KEY_REQUIRED: ErrorCode = ErrorCode::new("idempotency_key_required", 400);
    pub(super) const UNAUTHORIZED: ErrorCode = ErrorCode::new("unauthorized", 401);
    const SCOPE: ErrorCode = ErrorCode::new("forbidden_scope", 403);
    const WORKSPACE: ErrorCode = ErrorCode::new("forbidden_workspace", 403);
    const FORBIDDEN: ErrorCode = ErrorCode::new("forbidden", 403);
    pub(super) const NOT_FOUND: ErrorCode = ErrorCode::new("not_found", 404);
    pub(super) const VERB: ErrorCode = ErrorCode::new("method_not_allowed", 405);
    const CONFLICT: ErrorCode = ErrorCode::new("idempotency_conflict", 409);
    const LARGE: ErrorCode = ErrorCode::new("too_large", 413);
    pub(super) const MEDIA: ErrorCode = ErrorCode::new("unsupported_media_type", 415);
    const LIMITED: ErrorCode = ErrorCode::new("rate_limited", 429);
    const BROKEN: ErrorCode = ErrorCode::new("internal_error", 500);
    const CARTS: ErrorCode = ErrorCode::new("too_many_carts", 503);
    const AWAY: ErrorCode = ErrorCode::new("unavailable", 503);
}

#[derive(Debug)]
pub(super) struct Error {
    pub(super) code: ErrorCode,
    pub(super) message: String,
    /// Errors by field.
    pub(super) details: Vec<(String, String)>,
    pub(super) retry_after_s: Option<u32>,
    /// For 405.
    pub(super) allow: Option<String>,
}

impl Error {
    pub(super) fn new(code: ErrorCode, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), details: Vec::new(), retry_after_s: None, allow: None }
    }

    /// An invalid field.
    pub(super) fn field(field: impl Into<String>, says: impl Into<String>) -> Error {
        let (field, says) = (field.into(), says.into());
        let refusal = Error::new(ErrorCode::INVALID, format!("{field} {says}"));
        Error { details: vec![(field, says)], ..refusal }
    }

    /// A method that the path does not support.
    pub(super) fn method(allow: String) -> Error {
        let message = format!("this address answers to {allow} only");
        Error { allow: Some(allow), ..Error::new(ErrorCode::VERB, message) }
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<RuleError> for Error {
    fn from(rule: RuleError) -> Error {
        ServiceError::from(rule).into()
    }
}

impl From<ServiceError> for Error {
    fn from(refused: ServiceError) -> Error {
        let words = refused.to_string();
        match refused {
            ServiceError::Rule(rule) => by_rule(&rule, words),
            ServiceError::Unknown(what) => {
                let next = match what {
                    ShopEntity::Site => "check its site_slug",
                    ShopEntity::Product => "the list of products and the search tell their ids",
                    ShopEntity::Cart => "create one at /api/storefront/v1/carts",
                    ShopEntity::Session => "its id and its confirmation token go together; begin one from a cart",
                    ShopEntity::Order => "check its confirmation token or id",
                };
                Error::new(ErrorCode::NOT_FOUND, format!("{words}; {next}"))
            }
            ServiceError::Catalogue(_) => Error::new(ErrorCode::INVALID, words),
            ServiceError::Request(unread) => Error::field(unread.field(), words),
            ServiceError::Unauthenticated(_) => {
                Error::new(ErrorCode::UNAUTHORIZED, format!("{words}: send it as Authorization: Bearer"))
            }
            ServiceError::Scope(_) => Error::new(ErrorCode::SCOPE, words),
            ServiceError::Workspace => {
                let next = "use one of the store's workspace, or none where none is needed";
                Error::new(ErrorCode::WORKSPACE, format!("{words}; {next}"))
            }
            ServiceError::KeyReused => Error::new(ErrorCode::CONFLICT, words),
            ServiceError::TooManyCarts => Error { retry_after_s: Some(60), ..Error::new(ErrorCode::CARTS, words) },
            ServiceError::Fault(fault) => fault.into(),
        }
    }
}

fn by_rule(rule: &RuleError, words: String) -> Error {
    let code = |status| ErrorCode::new(rule.code(), status);
    let with = |field: &str, status| {
        let details = vec![(field.to_owned(), words.clone())];
        Error { details, ..Error::new(code(status), words.clone()) }
    };
    match rule {
        RuleError::Name(_) => Error::new(ErrorCode::INVALID, words),
        RuleError::Field { field, says } => Error::field(*field, says),
        RuleError::WhichVariant { .. } => with("variant_id", 400),
        RuleError::Quantity => with("quantity", 400),
        RuleError::OutOfStock { .. } => {
            Error::new(code(409), format!("{words}; take at most that many, or another product"))
        }
        RuleError::NotInCart => Error::new(code(404), format!("{words}; look at the cart's items")),
        RuleError::NoCoupon(_) => with("code", 404),
        RuleError::TooMuch => Error::new(code(400), format!("{words}; take less")),
        RuleError::CartExpired | RuleError::SessionClosed(_) => Error::new(code(410), words),
        RuleError::Gone(_)
        | RuleError::EmptyCart
        | RuleError::TooManyItems(_)
        | RuleError::CartClosed(_)
        | RuleError::CartInCheckout
        | RuleError::CouponExpired(_)
        | RuleError::CouponUsedUp(_)
        | RuleError::CouponTooSmall { .. }
        | RuleError::TokenUsed
        | RuleError::OrderState { .. }
        | RuleError::MoreThanOrdered
        | RuleError::Changed => Error::new(code(409), words),
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        if let Some(cause) = &fault.cause {
            tracing::warn!(%cause, kind = ?fault.kind, "a request of a shop failed: {fault}");
        }
        let code = match fault.kind {
            Kind::Parse
            | Kind::InvalidRequest
            | Kind::InvalidParams
            | Kind::PushNotSupported
            | Kind::Unsupported
            | Kind::ExtendedCardNotConfigured
            | Kind::ExtensionRequired
            | Kind::VersionNotSupported
            | Kind::TaskNotCancelable
            | Kind::TaskSettled
            | Kind::InsufficientBalance
            | Kind::BudgetExceeded => ErrorCode::INVALID,
            Kind::MethodNotFound | Kind::TaskNotFound => ErrorCode::NOT_FOUND,
            Kind::VerbNotAllowed => ErrorCode::VERB,
            Kind::MediaType | Kind::ContentType => ErrorCode::MEDIA,
            Kind::TooLarge => ErrorCode::LARGE,
            Kind::Unauthenticated => ErrorCode::UNAUTHORIZED,
            Kind::Forbidden => ErrorCode::FORBIDDEN,
            Kind::KeyReused => ErrorCode::CONFLICT,
            Kind::RateLimited => ErrorCode::LIMITED,
            Kind::Unavailable => ErrorCode::AWAY,
            Kind::InvalidAgentResponse | Kind::Internal => ErrorCode::BROKEN,
        };
        Error { retry_after_s: fault.retry_after_s, ..Error::new(code, fault.message) }
    }
}
