//! Why a purchase, or a step of one, does not happen. A closed list with all that a wire needs to say so; which code it
//! has there is the wire's to know.

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
    /// A party, but this is not its part: permission denied.
    #[error("the {} of a transaction cannot {} it", .role.name(), .verb.name())]
    WrongActor { verb: Verb, role: Role },
    /// Too late or too early: a business error that names the internal status.
    #[error("{}", state_words(*.verb, *.status))]
    WrongState { verb: Verb, status: Status },
    /// A person has yet to say yes.
    #[error("the purchase waits for a confirmation by its buyer; confirm it first")]
    ConfirmationPending,
    /// There is nothing to say yes to.
    #[error("the purchase waits for no confirmation")]
    NothingPending,
    #[error(transparent)]
    Token(#[from] TokenRefused),
    /// `available` is for the buyer's eyes.
    #[error("the balance does not suffice: {needed} UT are needed, {available} UT are available")]
    Insufficient { needed: Ut, available: Ut },
    /// Permission denied.
    #[error("nobody can buy a capability of their own")]
    OwnCapability,
    /// Not on the market. To REST it is as good as missing, to A2A a wrong parameter.
    #[error("capability {capability} is not on sale")]
    NotOnSale { capability: CapabilityId, status: capability::Status },
    /// The seller sells no more for now.
    #[error("the seller's limit of {limit} purchases per {} is used up", .per.name())]
    Quota { per: Per, limit: u32, again_at: Time },
    #[error("{0}")]
    Invalid(#[from] FieldError),
    /// A deadline's timer that fired early, or one of an earlier state: nothing is to be done.
    #[error("no such deadline has passed")]
    NotDue,
    /// Another change was faster: read the rows again and try again.
    #[error("the transaction or the capability has changed meanwhile; read it again")]
    Changed,
    /// The rules were not kept somewhere; nothing was booked.
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
