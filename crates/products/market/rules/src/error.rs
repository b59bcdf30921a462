//! Errors of purchases and their steps. Each has the facts that a wire needs to report it; every wire has its own
//! codes.

use model::Time;

use crate::CapabilityId;
use crate::autonomy::TokenRefused;
use crate::capability::{self, FieldError};
use crate::transaction::{Role, Status, Verb};
use ledger::{EntryError, Ut};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Neither buyer nor seller: permission denied.
    #[error("only the buyer and the seller of a transaction may see or change it")]
    NotParty,
    /// A party of the purchase, but not the one that may do this: permission denied.
    #[error("the {} of a transaction cannot {} it", .role.name(), .verb.name())]
    WrongActor { verb: Verb, role: Role },
    /// Too late or too early: a business error that names the internal status.
    #[error("{}", state_words(*.verb, *.status))]
    WrongState { verb: Verb, status: Status },
    /// The confirmation of a person is missing.
    #[error("the purchase waits for a confirmation by its buyer; confirm it first")]
    ConfirmationPending,
    /// No confirmation is pending.
    #[error("the purchase waits for no confirmation")]
    NothingPending,
    #[error(transparent)]
    Token(#[from] TokenRefused),
    /// `available` may be shown to the buyer only.
    #[error("the balance does not suffice: {needed} UT are needed, {available} UT are available")]
    Insufficient { needed: Ut, available: Ut },
    /// Permission denied.
    #[error("nobody can buy a capability of their own")]
    OwnCapability,
    /// Not on the market. REST reports it as missing, A2A as a wrong parameter.
    #[error("capability {capability} is not on sale")]
    NotOnSale { capability: CapabilityId, status: capability::Status },
    /// The seller's limit of sales is reached.
    #[error("the seller's limit of {limit} purchases per {} is used up", .per.name())]
    Quota { per: Per, limit: u32, again_at: Time },
    #[error("{0}")]
    Invalid(#[from] FieldError),
    /// The timer of a deadline fired early or belongs to an earlier state; nothing changes.
    #[error("no such deadline has passed")]
    NotDue,
    /// A concurrent change was first: read the rows again and retry.
    #[error("the transaction or the capability has changed meanwhile; read it again")]
    Changed,
    /// The ledger refused an entry, which means an error in these rules; nothing was booked.
    #[error("the ledger refused an entry: {0}")]
    Ledger(#[from] EntryError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Per {
    Minute,
    Day,
}

impl Per {
    pub fn name(self) -> &'static str {
        match self {
            Per::Minute => "minute",
            Per::Day => "day",
        }
    }
}

impl Error {
    /// The internal status, where it is the reason.
    pub fn status(&self) -> Option<Status> {
        match self {
            Error::WrongState { status, .. } => Some(*status),
            Error::ConfirmationPending | Error::NothingPending => Some(Status::PendingFreeze),
            Error::NotParty
            | Error::WrongActor { .. }
            | Error::Token(_)
            | Error::Insufficient { .. }
            | Error::OwnCapability
            | Error::NotOnSale { .. }
            | Error::Quota { .. }
            | Error::Invalid(_)
            | Error::NotDue
            | Error::Changed
            | Error::Ledger(_) => None,
        }
    }
}

fn state_words(verb: Verb, status: Status) -> String {
    if status.is_terminal() {
        return format!("transaction is already {}", status.name());
    }
    format!("transaction is {}: {} is not possible now", status.name(), verb.name())
}
