//! The client's direction: what a 0.1 server answered.

use model::{Fault, Kind};

use super::errors;
use crate::compat::{PreV1Form, read};
use crate::seen::{ErrorSeen, Seen, TaskSeen};
use crate::wire::Operation;

/// A task: the answer to a send, a get and a cancel. Artifacts are known by their place; messages have no ids.
pub fn task(text: &str) -> Result<TaskSeen, Fault> {
    read::task(PreV1Form::Type, text)
}

/// One event of a stream: a status or an artifact.
pub fn stream_event(text: &str) -> Result<Seen, Fault> {
    read::seen(PreV1Form::Type, text)
}

/// An error, also with the codes that only the generation's text has.
pub fn error(text: &str) -> Result<ErrorSeen, Fault> {
    read::error(text, kind_of)
}

/// The kind of fault that an error code stands for.
pub(super) fn kind_of(code: i64) -> Option<Kind> {
    match code {
        -32006 => Some(Kind::Unsupported),
        -32009 => Some(Kind::TaskSettled),
        code => {
            let by_code = |kind: &Kind| i64::from(errors::line(*kind, Operation::Unknown).rpc) == code;
            Kind::ALL.into_iter().find(by_code)
        }
    }
}
