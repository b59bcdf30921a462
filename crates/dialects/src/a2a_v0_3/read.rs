//! The client's direction: what a 0.2 or 0.3 server answered, over either binding.

use model::{Fault, Kind};

use super::errors;
use crate::compat::{PreV1Form, read};
use crate::seen::{ErrorSeen, Seen, TaskSeen};
use crate::wire::Operation;

/// A bare task, as JSON-RPC has it.
pub fn task(text: &str) -> Result<TaskSeen, Fault> {
    read::task(PreV1Form::Kind, text)
}

/// The answer to a send over JSON-RPC, or one event of its streams.
pub fn stream_event(text: &str) -> Result<Seen, Fault> {
    read::seen(PreV1Form::Kind, text)
}

/// A bare task, as HTTP+JSON has it.
pub fn rest_task(text: &str) -> Result<TaskSeen, Fault> {
    read::task(PreV1Form::Proto, text)
}

/// The answer to a send over HTTP+JSON, or one event of its streams.
pub fn rest_stream_event(text: &str) -> Result<Seen, Fault> {
    read::seen(PreV1Form::Proto, text)
}

/// An error of either binding.
pub fn error(text: &str) -> Result<ErrorSeen, Fault> {
    read::error(text, |code| {
        let by_code = |kind: &Kind| i64::from(errors::line(*kind, Operation::Unknown).rpc) == code;
        Kind::ALL.into_iter().find(by_code)
    })
}
