//! The events of a task. A task's log is the list of its events and the only source of its state. An event holds every
//! fact a codec needs, so that encoding reads no clock and draws no id.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Artifact, ContextId, Json, Message, Seq, State, TaskId, Time, TurnId, View};

/// An event with its position in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: Seq,
    pub at: Time,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// The task was opened. Always and only the first event.
    #[serde(rename = "open")]
    Opened(Box<Opened>),
    /// A caller sent a message.
    #[serde(rename = "msg")]
    Message(Arc<Inbound>),
    /// A turn of the agent takes up the messages received so far. Committed before an agent with side effects runs.
    #[serde(rename = "turn")]
    TurnStarted {
        #[serde(rename = "i")]
        turn: TurnId,
        #[serde(rename = "n")]
        attempt: u32,
        /// The amount reserved for the turn, as its billing encodes it; only with the first attempt.
        #[serde(rename = "h", default, skip_serializing_if = "Option::is_none")]
        hold: Option<Json>,
    },
    /// The remote party's name for the turn, needed to find the turn again after a crash.
    #[serde(rename = "bind")]
    Bound {
        #[serde(rename = "r")]
        remote: String,
    },
    #[serde(rename = "st")]
    Status(StatusChange),
    #[serde(rename = "art")]
    Artifact(Chunk),
    /// The agent answered with a message instead of a task: the exchange is over and callers never see a task.
    #[serde(rename = "reply")]
    Replied(Arc<Message>),
    /// Facts about the whole task, such as usage, merged over the known metadata.
    #[serde(rename = "meta")]
    Metadata(Json),
    #[serde(rename = "cancel")]
    CancelRequested {
        #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
        metadata: Option<Json>,
    },
}

/// The facts fixed when the task opens.
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
    /// The other parties, for mounts with visibility by party.
    #[serde(rename = "p", default, skip_serializing_if = "Vec::is_empty")]
    pub parties: Vec<Arc<str>>,
    #[serde(rename = "v")]
    pub views: Vec<View>,
    /// The dialect that opened the task, for requests that do not determine the dialect of the answer.
    #[serde(rename = "d")]
    pub dialect: Arc<str>,
    /// The caller's own id for the task, in dialects where callers choose ids.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<Arc<str>>,
    /// The settled task that held the alias before.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<TaskId>,
    /// The agent may still answer with a message instead of a task: no caller sees the task yet.
    #[serde(rename = "u", default, skip_serializing_if = "std::ops::Not::not")]
    pub undecided: bool,
}

/// A message with the options of its request, so that the log alone is enough to run a turn again.
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
    /// The account that pays for the turn that takes the message up, if the agent has a price.
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

/// A chunk of an artifact, or the complete artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    #[serde(rename = "a")]
    pub artifact: Arc<Artifact>,
    /// The artifact's index among the task's artifacts, in order of first appearance.
    #[serde(rename = "o")]
    pub ordinal: u32,
    /// The chunk is added to the existing parts instead of replacing them.
    #[serde(rename = "p", default, skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// The added parts begin a new part. Otherwise added text continues the text before it: text streamed in chunks is
    /// one part of the folded artifact.
    #[serde(rename = "b", default, skip_serializing_if = "std::ops::Not::not")]
    pub bordered: bool,
    #[serde(rename = "l", default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

impl Body {
    /// Whether subscribers to the task's events receive it.
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
