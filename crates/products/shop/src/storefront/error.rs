//! Errors of the storefront: a code for programs, its HTTP status, and a message that says what to do.

use crate::service::{Error as ServiceError, ShopEntity};
use http::StatusCode;
use model::{Fault, Kind};
use shop_rules::Error as RuleError;
use web::fault_codes::FaultCode;

// The codes that only the storefront has.
pub(super) const KEY_REQUIRED: FaultCode = FaultCode::new(400, "idempotency_key_required");
const SCOPE: FaultCode = FaultCode::new(403, "forbidden_scope");
const WORKSPACE: FaultCode = FaultCode::new(403, "forbidden_workspace");
const CARTS: FaultCode = FaultCode::new(503, "too_many_carts");

#[derive(Debug)]
pub(super) struct Error {
    pub(super) code: FaultCode,
    pub(super) message: String,
    /// Errors by field.
    pub(super) details: Vec<(String, String)>,
    pub(super) retry_after_s: Option<u32>,
    /// For 405.
    pub(super) allow: Option<String>,
}

impl Error {
    pub(super) fn new(code: FaultCode, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), details: Vec::new(), retry_after_s: None, allow: None }
    }

    /// An invalid field.
    pub(super) fn field(field: impl Into<String>, says: impl Into<String>) -> Error {
        let (field, says) = (field.into(), says.into());
        let refusal = Error::new(FaultCode::INVALID, format!("{field} {says}"));
        Error { details: vec![(field, says)], ..refusal }
    }

    /// A method that the path does not support.
    pub(super) fn method(allow: String) -> Error {
        let message = format!("this address answers to {allow} only");
        Error { allow: Some(allow), ..Error::new(FaultCode::METHOD, message) }
    }

    pub(super) fn status(&self) -> StatusCode {
        self.code.http()
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
                Error::new(FaultCode::NOT_FOUND, format!("{words}; {next}"))
            }
            ServiceError::Catalogue(_) => Error::new(FaultCode::INVALID, words),
            ServiceError::Request(unread) => Error::field(unread.field(), words),
            ServiceError::Unauthenticated(_) => {
                Error::new(FaultCode::UNAUTHORIZED, format!("{words}: send it as Authorization: Bearer"))
            }
            ServiceError::Scope(_) => Error::new(SCOPE, words),
            ServiceError::Workspace => {
                let next = "use one of the store's workspace, or none where none is needed";
                Error::new(WORKSPACE, format!("{words}; {next}"))
            }
            ServiceError::KeyReused => Error::new(FaultCode::KEY_REUSED, words),
            ServiceError::TooManyCarts => Error { retry_after_s: Some(60), ..Error::new(CARTS, words) },
            ServiceError::Fault(fault) => fault.into(),
        }
    }
}

fn by_rule(rule: &RuleError, words: String) -> Error {
    let code = |status| FaultCode::new(status, rule.code());
    let with = |field: &str, status| {
        let details = vec![(field.to_owned(), words.clone())];
        Error { details, ..Error::new(code(status), words.clone()) }
    };
    match rule {
        RuleError::Name(_) => Error::new(FaultCode::INVALID, words),
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
            // A request of the storefront names no task, and its payments are not the caller's balance.
            Kind::TaskNotCancelable | Kind::TaskSettled | Kind::InsufficientBalance | Kind::BudgetExceeded => {
                FaultCode::INVALID
            }
            kind => FaultCode::of(kind),
        };
        Error { retry_after_s: fault.retry_after_s, ..Error::new(code, fault.message) }
    }
}
