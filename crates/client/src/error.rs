//! What went wrong: told by the other side, or on the way there and back.

use std::fmt;

use dialects::seen::ErrorSeen;
use model::{Fault, Kind};

/// A call that came to nothing.
#[derive(Debug)]
pub struct Error {
    pub trouble: Trouble,
    /// The nearest kind of fault.
    pub kind: Kind,
    /// For people. Never holds credentials.
    pub message: String,
    /// What the other side said, with its own code, where it said something.
    pub said: Option<ErrorSeen>,
}

/// Where it went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It could not be asked: the generation has no such operation, or the options make no sense.
    Unaskable,
    /// No connection came about; nothing was sent.
    Unreachable,
    /// The connection broke, or the other side fell silent. Whether it has acted nobody knows.
    Broken,
    /// The other side answered with an error.
    Refused,
    /// The other side answered with something that is no answer.
    Unreadable,
}

impl Error {
    pub(crate) fn new(trouble: Trouble, kind: Kind, message: impl Into<String>) -> Error {
        Error { trouble, kind, message: message.into(), said: None }
    }

    /// What was heard is not what was to be heard, though nobody said so.
    pub fn broken(message: impl Into<String>) -> Error {
        Error::new(Trouble::Broken, Kind::Unavailable, message)
    }

    pub(crate) fn refused(said: ErrorSeen) -> Error {
        let kind = said.kind.unwrap_or(Kind::Internal);
        let trouble = match kind {
            Kind::InvalidAgentResponse if said.code >= 0 => Trouble::Unreadable,
            _ => Trouble::Refused,
        };
        Error { trouble, kind, message: said.message.clone(), said: Some(said) }
    }

    pub(crate) fn unreadable(fault: &Fault) -> Error {
        Error::new(Trouble::Unreadable, Kind::InvalidAgentResponse, fault.message.clone())
    }

    pub(crate) fn unaskable(fault: &Fault) -> Error {
        Error::new(Trouble::Unaskable, fault.kind, fault.message.clone())
    }

    /// Whether the same request may do better later.
    pub fn is_passing(&self) -> bool {
        match self.trouble {
            Trouble::Unreachable | Trouble::Broken => true,
            Trouble::Refused => matches!(self.kind, Kind::Unavailable | Kind::RateLimited),
            Trouble::Unaskable | Trouble::Unreadable => false,
        }
    }

    /// As a fault of ours.
    pub fn into_fault(self) -> Fault {
        Fault::new(self.kind, self.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.said, self.trouble) {
            (Some(said), Trouble::Refused) => write!(f, "{} (code {})", self.message, said.code),
            (Some(_) | None, _) => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}
