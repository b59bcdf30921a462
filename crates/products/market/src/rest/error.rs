//! Errors of the REST API: a code that clients branch on, and its HTTP status.

use crate::service::{Error as ServiceError, NotKnown};
use http::StatusCode;
use market_rules::capability::{self, FieldError};
use market_rules::demand;
use model::{Fault, Kind};
use schemars::JsonSchema;
use serde::Serialize;
use web::fault_codes::FaultCode;

/// A code and its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MarketCode {
    pub(super) status: u16,
    pub(super) number: u32,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal / $status:literal),+ $(,)?) => {
        impl MarketCode { $($(#[$doc])* pub(super) const $name: MarketCode = MarketCode { number: $number, status: $status };)+ }
    };
}
codes! {
    /// Missing, malformed or unreadable input.
    BAD = 1001 / 400,
    VERB = 1001 / 405,
    LARGE = 1001 / 413,
    MEDIA = 1001 / 415,
    NOBODY = 1002 / 401,
    DENIED = 1003 / 403,
    MISSING = 1004 / 404,
    EXISTS = 1005 / 409,
    KEY = 1006 / 401,
    NOT_LINKED = 1007 / 403,
    /// Readable input with invalid values.
    INVALID = 1008 / 422,
    /// A limit of requests, or of a seller's sales.
    QUOTA = 1010 / 429,
    TOO_OFTEN = 2002 / 429,
    PASSWORD = 2003 / 401,
    SHORT = 3001 / 402,
    WALLET = 3002 / 400,
    /// The task hall, which is not implemented.
    HALL = 4001 / 409,
    STATE = 4501 / 409,
    /// A download that is used up, expired or removed.
    GONE = 4502 / 410,
    NOT_SERVED = 5001 / 502,
    BROKEN = 9999 / 500,
    AWAY = 9999 / 503,
}

impl MarketCode {
    /// The code of a fault.
    fn of(kind: Kind) -> MarketCode {
        if kind == Kind::KeyReused {
            return MarketCode::EXISTS;
        }
        let status = FaultCode::of(kind).status;
        let number = match status {
            401 => MarketCode::NOBODY.number,
            402 => MarketCode::SHORT.number,
            403 => MarketCode::DENIED.number,
            404 => MarketCode::MISSING.number,
            409 => MarketCode::STATE.number,
            429 => MarketCode::QUOTA.number,
            500.. => MarketCode::BROKEN.number,
            _ => MarketCode::BAD.number,
        };
        MarketCode { status, number }
    }
}

/// The error of one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct FieldDetail {
    pub(super) field: String,
    pub(super) detail: String,
}

/// More about a refusal, where there is more to say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct RefusalData {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) details: Vec<FieldDetail>,
    /// Where the transaction, capability or demand stands, where that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) internal_status: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) needed_ut: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) available_ut: Option<String>,
    /// The reason in a word, where `code` alone does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'static str>,
}

/// An error response.
#[derive(Debug)]
pub(super) struct Error {
    pub(super) code: MarketCode,
    pub(super) message: String,
    pub(super) data: Box<RefusalData>,
    pub(super) retry_after_s: Option<u64>,
    /// For 405.
    pub(super) allow: Option<String>,
}

impl Error {
    pub(super) fn new(code: MarketCode, message: impl Into<String>) -> Error {
        Error { code, message: message.into(), data: Box::default(), retry_after_s: None, allow: None }
    }

    /// A field that cannot be read.
    pub(super) fn field(field: impl Into<String>, detail: impl Into<String>) -> Error {
        let (field, detail) = (field.into(), detail.into());
        let mut refusal = Error::new(MarketCode::BAD, format!("{field} {detail}"));
        refusal.data.details.push(FieldDetail { field, detail });
        refusal
    }

    /// An error with a machine-readable reason.
    pub(super) fn because(reason: &'static str, code: MarketCode, message: impl Into<String>) -> Error {
        let mut refusal = Error::new(code, message);
        refusal.data.reason = Some(reason);
        refusal
    }

    pub(super) fn missing(message: impl Into<String>) -> Error {
        Error::new(MarketCode::MISSING, message)
    }

    /// A method that the route does not support.
    pub(super) fn method(allow: String) -> Error {
        let message = format!("this address answers to {allow} only");
        Error { allow: Some(allow), ..Error::new(MarketCode::VERB, message) }
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn fields(errors: &[FieldError], message: String) -> Error {
        // A missing field is a bad request; a present one with a wrong value is a failed check.
        let missing = errors.iter().any(|error| error.detail.starts_with("is required"));
        let mut refusal = Error::new(if missing { MarketCode::BAD } else { MarketCode::INVALID }, message);
        refusal.data.details = errors
            .iter()
            .map(|error| FieldDetail { field: error.field.to_owned(), detail: error.detail.clone() })
            .collect();
        refusal
    }
}

impl From<ServiceError> for Error {
    fn from(refused: ServiceError) -> Error {
        let message = refused.to_string();
        match refused {
            ServiceError::Rule(rule) => by_rule(&rule, message),
            ServiceError::Capability(refused) => match refused {
                capability::Error::NotOwner(_) | capability::Error::NotPlatform(_) => {
                    Error::new(MarketCode::DENIED, message)
                }
                capability::Error::WrongState { status, .. } => {
                    let mut refusal = Error::new(MarketCode::STATE, message);
                    refusal.data.internal_status = Some(status.name());
                    refusal
                }
                capability::Error::Invalid(error) => Error::fields(&[error], message),
            },
            ServiceError::Demand(refused) => match refused {
                demand::Error::NotOwner => Error::new(MarketCode::DENIED, message),
                demand::Error::NotOpen(status) | demand::Error::WrongState { status, .. } => {
                    let mut refusal = Error::new(MarketCode::STATE, message);
                    refusal.data.internal_status = Some(status.name());
                    refusal
                }
            },
            ServiceError::Fields(errors) => Error::fields(&errors, message),
            ServiceError::Unknown(_) => Error::new(MarketCode::MISSING, message),
            ServiceError::Who(not_known) => {
                let code = match not_known {
                    NotKnown::Missing | NotKnown::Token => MarketCode::NOBODY,
                    NotKnown::Key | NotKnown::NoUser => MarketCode::KEY,
                    NotKnown::NotLinked => MarketCode::NOT_LINKED,
                    NotKnown::Password => MarketCode::PASSWORD,
                };
                Error::new(code, message)
            }
            ServiceError::KeyReused | ServiceError::Taken(_) => Error::new(MarketCode::EXISTS, message),
            ServiceError::TooFast { retry_after_s } => {
                Error { retry_after_s: Some(retry_after_s), ..Error::new(MarketCode::TOO_OFTEN, message) }
            }
            ServiceError::NotServed(_) => Error::new(MarketCode::NOT_SERVED, message),
            ServiceError::Fault(fault) => fault.into(),
        }
    }
}

fn by_rule(rule: &market_rules::Error, message: String) -> Error {
    use market_rules::Error as Rule;
    let mut refusal = match rule {
        Rule::NotParty | Rule::WrongActor { .. } | Rule::OwnCapability => Error::new(MarketCode::DENIED, message),
        Rule::WrongState { .. } | Rule::ConfirmationPending | Rule::NothingPending | Rule::NotDue | Rule::Changed => {
            Error::new(MarketCode::STATE, message)
        }
        Rule::Token(_) => Error::fields(&[FieldError::new("confirm_token", message.clone())], message),
        Rule::Insufficient { needed, available } => {
            let mut refusal = Error::new(MarketCode::SHORT, message);
            refusal.data.needed_ut = Some(needed.to_string());
            refusal.data.available_ut = Some(available.to_string());
            refusal
        }
        Rule::NotOnSale { .. } => Error::new(MarketCode::MISSING, message),
        Rule::Quota { again_at, .. } => {
            let now = jiff::Timestamp::now().as_millisecond();
            let wait = u64::try_from(again_at.0.saturating_sub(now)).unwrap_or_default().div_ceil(1_000).max(1);
            Error { retry_after_s: Some(wait), ..Error::new(MarketCode::QUOTA, message) }
        }
        Rule::Invalid(error) => Error::fields(std::slice::from_ref(error), message),
        Rule::Ledger(unfit) => {
            tracing::error!("the market's ledger refused an entry: {unfit}");
            Error::new(MarketCode::BROKEN, "the server could not book this; nothing was changed")
        }
    };
    refusal.data.internal_status = rule.status().map(market_rules::transaction::Status::name);
    refusal
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        if let Some(cause) = &fault.cause {
            tracing::warn!(%cause, kind = ?fault.kind, "a request of the market failed: {fault}");
        }
        let code = MarketCode::of(fault.kind);
        let fact = |name: &str| fault.facts.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        let (needed_ut, available_ut) = (fact("needed"), fact("available"));
        let data = Box::new(RefusalData { needed_ut, available_ut, ..RefusalData::default() });
        Error { retry_after_s: fault.retry_after_s.map(u64::from), data, ..Error::new(code, fault.message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_about_money_has_the_code_of_money_and_its_amounts() {
        for kind in [Kind::InsufficientBalance, Kind::BudgetExceeded] {
            let fault = Fault::new(kind, "too little").fact("needed", "0.5").fact("available", "0.1");
            let refusal = Error::from(fault);
            assert_eq!((refusal.code.number, refusal.status()), (3001, StatusCode::PAYMENT_REQUIRED));
            let RefusalData { needed_ut, available_ut, .. } = *refusal.data;
            assert_eq!((needed_ut.as_deref(), available_ut.as_deref()), (Some("0.5"), Some("0.1")));
        }
        assert_eq!(*Error::from(Fault::task_not_found("t")).data, RefusalData::default());
    }
}
