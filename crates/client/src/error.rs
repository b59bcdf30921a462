//! Errors of the client: reported by the server, or of the connection.

use std::fmt;

use dialects::seen::ErrorSeen;
use model::{Fault, Kind};

/// A failed call.
#[derive(Debug)]
pub struct Error {
    pub stage: FailureStage,
    /// The nearest kind of fault.
    pub kind: Kind,
    /// For people. Never contains credentials.
    pub message: String,
    /// The server's own error with its code, if it sent one.
    pub said: Option<ErrorSeen>,
}

/// The stage at which the call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureStage {
    /// The call could not be made: the generation has no such operation, or the options are invalid.
    Unaskable,
    /// No connection was made; nothing was sent.
    Unreachable,
    /// The connection broke, or the server stopped responding. The request may or may not have been executed.
    Broken,
    /// The server answered with an error.
    Refused,
    /// The server's answer is malformed.
    Unreadable,
}

impl Error {
    pub(crate) fn new(stage: FailureStage, kind: Kind, message: impl Into<String>) -> Error {
        Error { stage, kind, message: message.into(), said: None }
    }

    /// An answer that is incomplete or not the expected one, without an error from the server.
    pub fn broken(message: impl Into<String>) -> Error {
        Error::new(FailureStage::Broken, Kind::Unavailable, message)
    }

    pub(crate) fn refused(said: ErrorSeen) -> Error {
        let kind = said.kind.unwrap_or(Kind::Internal);
        let stage = match kind {
            Kind::InvalidAgentResponse if said.code >= 0 => FailureStage::Unreadable,
            _ => FailureStage::Refused,
        };
        Error { stage, kind, message: said.message.clone(), said: Some(said) }
    }

    pub(crate) fn unreadable(fault: &Fault) -> Error {
        Error::new(FailureStage::Unreadable, Kind::InvalidAgentResponse, fault.message.clone())
    }

    pub(crate) fn unaskable(fault: &Fault) -> Error {
        Error::new(FailureStage::Unaskable, fault.kind, fault.message.clone())
    }

    /// Whether a retry of the same request may succeed.
    pub fn is_passing(&self) -> bool {
        match self.stage {
            FailureStage::Unreachable | FailureStage::Broken => true,
            FailureStage::Refused => matches!(self.kind, Kind::Unavailable | Kind::RateLimited),
            FailureStage::Unaskable | FailureStage::Unreadable => false,
        }
    }

    /// The error as a fault of this process.
    pub fn into_fault(self) -> Fault {
        Fault::new(self.kind, self.to_string())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.said, self.stage) {
            (Some(said), FailureStage::Refused) => write!(f, "{} (code {})", self.message, said.code),
            (Some(_) | None, _) => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}
