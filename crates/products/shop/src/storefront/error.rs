//! Errors of the shop over HTTP: a code that programs branch on, its status, and a message that says what to do.

use crate::service::{Error as Refused, ShopEntity as What};
use http::StatusCode;
use model::{Fault, Kind};
use shop_rules::Error as Rule;

/// A word and its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Code {
    pub(super) name: &'static str,
    status: u16,
}

impl Code {
    const fn new(name: &'static str, status: u16) -> Code {
        Code { name, status }
    }
    pub(super) const INVALID: Code = Code::new("invalid_request", 400);
    pub(super) const KEY_REQUIRED: Code = Code::new("idempotency_key_required", 400);
    pub(super) const UNAUTHORIZED: Code = Code::new("unauthorized", 401);
    const SCOPE: Code = Code::new("forbidden_scope", 403);
    const WORKSPACE: Code = Code::new("forbidden_workspace", 403);
    const FORBIDDEN: Code = Code::new("forbidden", 403);
    pub(super) const NOT_FOUND: Code = Code::new("not_found", 404);
    pub(super) const VERB: Code = Code::new("method_not_allowed", 405);
    const CONFLICT: Code = Code::new("idempotency_conflict", 409);
    const LARGE: Code = Code::new("too_large", 413);
    pub(super) const MEDIA: Code = Code::new("unsupported_media_type", 415);
    const LIMITED: Code = Code::new("rate_limited", 429);
    const BROKEN: Code = Code::new("internal_error", 500);
    const CARTS: Code = Code::new("too_many_carts", 503);
    const AWAY: Code = Code::new("unavailable", 503);
}

#[derive(Debug)]
pub(super) struct Error {
    pub(super) code: Code,
    pub(super) message: String,
    /// Errors by field.
    pub(super) details: Vec<(String, String)>,
    pub(super) retry_after_s: Option<u32>,
    /// For 405.
    pub(super) allow: Option<String>,
}

impl Error {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), details: Vec::new(), retry_after_s: None, allow: None }
    }

    /// A field that cannot be taken.
    pub(super) fn field(field: impl Into<String>, says: impl Into<String>) -> Error {
        let (field, says) = (field.into(), says.into());
        let refusal = Error::new(Code::INVALID, format!("{field} {says}"));
        Error { details: vec![(field, says)], ..refusal }
    }

    /// A method that an address does not have.
    pub(super) fn method(allow: String) -> Error {
        let message = format!("this address answers to {allow} only");
        Error { allow: Some(allow), ..Error::new(Code::VERB, message) }
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Rule> for Error {
    fn from(rule: Rule) -> Error {
        Refused::from(rule).into()
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        let words = refused.to_string();
        match refused {
            Refused::Rule(rule) => by_rule(&rule, words),
            Refused::Unknown(what) => {
                let next = match what {
                    What::Site => "check its site_slug",
                    What::Product => "the list of products and the search tell their ids",
                    What::Cart => "create one at /api/storefront/v1/carts",
                    What::Session => "its id and its confirmation token go together; begin one from a cart",
                    What::Order => "check its confirmation token or id",
                };
                Error::new(Code::NOT_FOUND, format!("{words}; {next}"))
            }
            Refused::Catalogue(_) => Error::new(Code::INVALID, words),
            Refused::Unread(unread) => Error::field(unread.field(), words),
            Refused::Unauthenticated(_) => {
                Error::new(Code::UNAUTHORIZED, format!("{words}: send it as Authorization: Bearer"))
            }
            Refused::Scope(_) => Error::new(Code::SCOPE, words),
            Refused::Workspace => {
                let next = "use one of the store's workspace, or none where none is needed";
                Error::new(Code::WORKSPACE, format!("{words}; {next}"))
            }
            Refused::KeyReused => Error::new(Code::CONFLICT, words),
            Refused::TooManyCarts => Error { retry_after_s: Some(60), ..Error::new(Code::CARTS, words) },
            Refused::Fault(fault) => fault.into(),
        }
    }
}

fn by_rule(rule: &Rule, words: String) -> Error {
    let code = |status| Code::new(rule.code(), status);
    let with = |field: &str, status| {
        let details = vec![(field.to_owned(), words.clone())];
        Error { details, ..Error::new(code(status), words.clone()) }
    };
    match rule {
        Rule::Name(_) => Error::new(Code::INVALID, words),
        Rule::Field { field, says } => Error::field(*field, says),
        Rule::WhichVariant { .. } => with("variant_id", 400),
        Rule::Quantity => with("quantity", 400),
        Rule::OutOfStock { .. } => {
            Error::new(code(409), format!("{words}; take at most that many, or another product"))
        }
        Rule::NotInCart => Error::new(code(404), format!("{words}; look at the cart's items")),
        Rule::NoCoupon(_) => with("code", 404),
        Rule::TooMuch => Error::new(code(400), format!("{words}; take less")),
        Rule::CartExpired | Rule::SessionClosed(_) => Error::new(code(410), words),
        Rule::Gone(_)
        | Rule::EmptyCart
        | Rule::TooManyItems(_)
        | Rule::CartClosed(_)
        | Rule::CartInCheckout
        | Rule::CouponExpired(_)
        | Rule::CouponUsedUp(_)
        | Rule::CouponTooSmall { .. }
        | Rule::TokenUsed
        | Rule::OrderState { .. }
        | Rule::MoreThanOrdered
        | Rule::Changed => Error::new(code(409), words),
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
            | Kind::BudgetExceeded => Code::INVALID,
            Kind::MethodNotFound | Kind::TaskNotFound => Code::NOT_FOUND,
            Kind::VerbNotAllowed => Code::VERB,
            Kind::MediaType | Kind::ContentType => Code::MEDIA,
            Kind::TooLarge => Code::LARGE,
            Kind::Unauthenticated => Code::UNAUTHORIZED,
            Kind::Forbidden => Code::FORBIDDEN,
            Kind::KeyReused => Code::CONFLICT,
            Kind::RateLimited => Code::LIMITED,
            Kind::Unavailable => Code::AWAY,
            Kind::InvalidAgentResponse | Kind::Internal => Code::BROKEN,
        };
        Error { retry_after_s: fault.retry_after_s, ..Error::new(code, fault.message) }
    }
}
