//! The client's direction: what another server answered, in the model's nouns as far as they reach.
//!
//! A foreign server's ids are any strings, and much that a task of ours knows (its agent, its owner, its log) does not
//! travel; so what is seen of a remote task has types of its own, made of the model's content. Each dialect's `read`
//! makes them.

use model::{Artifact, ContextId, Fault, Json, Kind, Limits, Message, State, Time};

use crate::framing::shape;

/// A task as a server shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSeen {
    pub id: String,
    pub context: Option<ContextId>,
    pub status: StatusSeen,
    pub artifacts: Vec<Artifact>,
    pub history: Vec<Message>,
    pub metadata: Option<Json>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusSeen {
    /// `None` for a state we do not know: a newer server may have one.
    pub state: Option<State>,
    pub message: Option<Message>,
    pub at: Option<Time>,
}

/// What a stream or a send yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Task(TaskSeen),
    Message {
        message: Message,
        context: Option<ContextId>,
        task: Option<String>,
    },
    Status {
        task: String,
        context: Option<ContextId>,
        status: StatusSeen,
        metadata: Option<Json>,
        /// The sender says that its stream ends here. 1.0 never says: the stream just ends.
        closes: bool,
    },
    Artifact {
        task: String,
        context: Option<ContextId>,
        artifact: Artifact,
        append: bool,
        last: bool,
        metadata: Option<Json>,
    },
}

/// The reason and kind of an error another server answered, from either binding's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorSeen {
    /// JSON-RPC code or HTTP status.
    pub code: i64,
    pub message: String,
    pub reason: Option<String>,
    /// By reason, else by JSON-RPC code; `None` when neither is known.
    pub kind: Option<Kind>,
}

/// Reads an answer, or a part of one.
pub(crate) fn read<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, Fault> {
    shape::read(text, "answer").map_err(ill_formed)
}

/// Whatever is wrong with an answer is its sender's fault, not our caller's.
pub(crate) fn ill_formed(fault: Fault) -> Fault {
    Fault { kind: Kind::InvalidAgentResponse, ..fault }
}

/// Answers are bounded by the size of what is read, not by the limits for callers.
pub(crate) fn unlimited() -> Limits {
    Limits { id_bytes: usize::MAX, parts: usize::MAX, ..Limits::default() }
}
