//! Errors of the service. The storefront and the dialects map them to their own codes.

use engine::CommitError;
use model::{Fault, Kind};
use shop_rules::import::CatalogueError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A rule of the shop rejects the request.
    #[error("{0}")]
    Rule(#[from] shop_rules::Error),
    #[error("there is no such {}", .0.name())]
    Unknown(ShopEntity),
    /// A catalogue with errors: nothing was imported.
    #[error("{}", joined_messages(.0))]
    Catalogue(Vec<CatalogueError>),
    /// The message cannot be read.
    #[error("{0}")]
    Request(#[from] shop_rules::SkillRequestError),
    /// The skill needs a credential.
    #[error("this needs a credential of the store's workspace, good for {0}")]
    Unauthenticated(&'static str),
    /// The credential lacks the scope.
    #[error("the credential is not good for {0}; use one with this scope")]
    Scope(&'static str),
    /// The credential belongs to another workspace.
    #[error("the credential belongs to another workspace than the store")]
    Workspace,
    /// The idempotency key was used for another request.
    #[error("this idempotency key was used with another request; use a new key for a new request")]
    KeyReused,
    #[error("there are too many open carts at this store; try again later")]
    TooManyCarts,
    #[error("{0}")]
    Fault(Fault),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShopEntity {
    Site,
    Product,
    Cart,
    Session,
    Order,
}

impl ShopEntity {
    pub fn name(self) -> &'static str {
        match self {
            ShopEntity::Site => "store",
            ShopEntity::Product => "product",
            ShopEntity::Cart => "cart",
            ShopEntity::Session => "checkout",
            ShopEntity::Order => "order",
        }
    }
}

fn joined_messages(wrong: &[CatalogueError]) -> String {
    wrong.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
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

/// For code that returns faults, such as the permission check before a task exists.
impl From<Error> for Fault {
    fn from(refused: Error) -> Fault {
        let words = refused.to_string();
        let kind = match refused {
            Error::Fault(fault) => return fault,
            Error::Request(unread) => return Fault::params(unread.field(), words),
            Error::Rule(_) | Error::Unknown(_) | Error::Catalogue(_) => Kind::InvalidParams,
            Error::Unauthenticated(_) => Kind::Unauthenticated,
            Error::Scope(_) | Error::Workspace => Kind::Forbidden,
            Error::KeyReused => Kind::KeyReused,
            Error::TooManyCarts => Kind::Unavailable,
        };
        Fault::new(kind, words)
    }
}
