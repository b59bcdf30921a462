//! What happens to a task, one fact at a time. The log is a list of these; nothing about a task is true that is not
//! in it. An event carries every fact a codec needs, so that encoding reads no clock and draws no id.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Artifact, ContextId, Json, Message, Seq, State, TaskId, Time, TurnId, View};

/// An event in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: Seq,
    pub at: Time,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// The task exists. Always and only the first event.
    #[serde(rename = "open")]
    Opened(Box<Opened>),
    /// A caller said something.
    #[serde(rename = "msg")]
    Message(Arc<Inbound>),
    /// An agent takes up the messages said so far. Committed before an agent with side effects runs.
    #[serde(rename = "turn")]
    TurnStarted {
        #[serde(rename = "i")]
        turn: TurnId,
        #[serde(rename = "n")]
        attempt: u32,
        /// What was set aside for it, in the words of whoever keeps the money; with its first attempt only.
        #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
        hold: Option<Json>,
    },
    /// The turn is known under this name to a remote party; how to find it again after a crash.
    #[serde(rename = "bind")]
    Bound {
        #[serde(rename = "r")]
        remote: String,
    },
    #[serde(rename = "st")]
    Status(StatusChange),
    #[serde(rename = "art")]
    Artifact(Chunk),
    /// The agent answered with a message instead of a task: the exchange is over and was never a task to anyone.
    #[serde(rename = "reply")]
    Replied(Arc<Message>),
    /// Facts about the whole task, such as usage, laid over what is known.
    #[serde(rename = "meta")]
    Metadata(Json),
    #[serde(rename = "cancel")]
    CancelRequested {
        #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Json>,
    },
}

/// The facts fixed at birth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    #[serde(rename = "i")]
    pub id: TaskId,
    #[serde(rename = "c")]
    pub context: ContextId,
    #[serde(rename = "g")]
    pub agent: Arc<str>,
    #[serde(rename = "t")]
    pub tenant: Arc<str>,
    #[serde(rename = "o")]
    pub owner: Arc<str>,
    /// Who else takes part, for mounts whose visibility goes by party.
    #[serde(rename = "p", default, skip_serializing_if = "Vec::is_empty")]
    pub parties: Vec<Arc<str>>,
    #[serde(rename = "v")]
    pub views: Vec<View>,
    /// The dialect that opened it, for requests that cannot tell which dialect they want an answer in.
    #[serde(rename = "d")]
    pub dialect: Arc<str>,
    /// The caller's own id for it, in dialects where callers choose ids.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<Arc<str>>,
    /// The settled task that had the alias before.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<TaskId>,
    /// Not yet known whether the agent makes a task of it or answers with a message: visible to nobody.
    #[serde(rename = "u", default, skip_serializing_if = "std::ops::Not::not")]
    pub undecided: bool,
}

/// A message with what its request asked for, so that a turn can be run again from the log alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inbound {
    #[serde(rename = "m")]
    pub message: Arc<Message>,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    #[serde(rename = "o", default, skip_serializing_if = "Vec::is_empty")]
    pub accepted_output: Vec<String>,
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Who pays for the turn that takes it up, where the agent has a price.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub payer: Option<Arc<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusChange {
    #[serde(rename = "s")]
    pub state: State,
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Arc<Message>>,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

/// A piece of an artifact, or the whole of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    #[serde(rename = "a")]
    pub artifact: Arc<Artifact>,
    /// The artifact's place among the task's artifacts, in order of first appearance.
    #[serde(rename = "o")]
    pub ordinal: u32,
    /// Added to what is there, instead of replacing it.
    #[serde(rename = "p", default, skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// The added parts begin a part of their own. Without it, added text continues the text before it: one text that
    /// was streamed in chunks is one part of the folded artifact.
    #[serde(rename = "b", default, skip_serializing_if = "std::ops::Not::not")]
    pub bordered: bool,
    #[serde(rename = "l", default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

impl Body {
    /// Whether a subscriber to the task's events is told of it.
    pub fn is_public(&self) -> bool {
        match self {
            Body::Status(_) | Body::Artifact(_) | Body::Replied(_) => true,
            Body::Opened(_)
            | Body::Message(_)
            | Body::TurnStarted { .. }
            | Body::Bound { .. }
            | Body::Metadata(_)
            | Body::CancelRequested { .. } => false,
        }
    }

    /// Bytes this event holds in memory, for limits and backpressure.
    pub fn weight(&self) -> usize {
        let message = |m: &Message| m.parts.iter().map(crate::Part::weight).sum::<usize>();
        128 + match self {
            Body::Opened(_) | Body::CancelRequested { .. } => 0,
            Body::TurnStarted { hold, .. } => hold.as_ref().map_or(0, |hold| hold.text().len()),
            Body::Bound { remote } => remote.len(),
            Body::Message(inbound) => message(&inbound.message),
            Body::Replied(m) => message(m),
            Body::Metadata(json) => json.text().len(),
            Body::Status(change) => change.message.as_deref().map_or(0, message),
            Body::Artifact(chunk) => chunk.artifact.parts.iter().map(crate::Part::weight).sum(),
        }
    }
}
