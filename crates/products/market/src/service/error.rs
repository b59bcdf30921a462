//! Errors of the market, with all facts that a wire needs; each wire has its own codes for them.

use engine::CommitError;
use market_rules::capability::{self, FieldError};
use market_rules::{autonomy, demand};
use model::Fault;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A rule of purchases was violated.
    #[error("{0}")]
    Rule(#[from] market_rules::Error),
    /// A rule of capabilities was violated.
    #[error("{0}")]
    Capability(#[from] capability::Error),
    /// A rule of demands was violated.
    #[error("{0}")]
    Demand(#[from] demand::Error),
    /// Fields with invalid values.
    #[error("{}", listed(.0))]
    Fields(Vec<FieldError>),
    #[error("there is no such {}", .0.name())]
    Unknown(MarketEntity),
    #[error("{0}")]
    Who(#[from] NotKnown),
    /// The same idempotency key with another request.
    #[error("this idempotency key was used with another request; use a new key for a new request")]
    KeyReused,
    /// The name is taken.
    #[error("there is a {0} of this name already; choose another")]
    Taken(&'static str),
    /// The request came too soon after another.
    #[error("asked too often; try again in {retry_after_s} seconds")]
    TooFast { retry_after_s: u64 },
    /// The seller's side failed; the purchase ended without a sale.
    #[error("{0}")]
    NotServed(String),
    #[error("{0}")]
    Fault(Fault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MarketEntity {
    Transaction,
    Capability,
    Demand,
    External,
    User,
    Device,
    File,
}

impl MarketEntity {
    pub fn name(self) -> &'static str {
        match self {
            MarketEntity::Transaction => "transaction",
            MarketEntity::Capability => "capability",
            MarketEntity::Demand => "demand",
            MarketEntity::External => "external agent",
            MarketEntity::User => "user",
            MarketEntity::Device => "device code",
            MarketEntity::File => "file",
        }
    }
}

/// Why a caller is not authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NotKnown {
    #[error("send X-Api-Key with X-Platform-User-Id, or Authorization: Bearer <token>")]
    Missing,
    #[error("the API key is not known here, or no longer good")]
    Key,
    #[error("an API key acts for a user: send X-Platform-User-Id, too")]
    NoUser,
    #[error("this key may not act for that user")]
    NotLinked,
    #[error("the access token is not one of this server, or no longer good; log in again")]
    Token,
    #[error("account and password do not belong together")]
    Password,
}

fn listed(errors: &[FieldError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl From<FieldError> for Error {
    fn from(error: FieldError) -> Error {
        Error::Fields(vec![error])
    }
}
impl From<autonomy::TokenRefused> for Error {
    fn from(refused: autonomy::TokenRefused) -> Error {
        Error::Rule(refused.into())
    }
}
impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Fault(fault)
    }
}
impl From<CommitError> for Error {
    fn from(unmoved: CommitError) -> Error {
        Error::Fault(unmoved.into())
    }
}
