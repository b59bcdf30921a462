//! The agent port: admits a turn, runs it, obeys cancel.
//!
//! `admit` may refuse a message before a task exists. `run` returns the agent's output as a stream; the engine polls it
//! only while it can commit, so that a fast agent never outruns the store. Dropping the stream stops the agent at once;
//! before that [`Turn::cancelled`] resolves and the agent has `cancel_grace` to stop by itself.

use std::sync::Arc;

use futures_util::future::Shared;
use futures_util::stream::BoxStream;

use super::Future;
use super::billing::Billing;
use super::children::Children;
use super::worker::WorkerQueue;
use crate::{ContextId, Event, Fault, Inbound, Json, LatencySnapshot, Message, Part, State, Task, TaskId, TurnId};

pub trait Agent: Send + Sync + 'static {
    fn profile(&self) -> &Profile;

    /// Examines a message before anything is stored. After a fault no task is opened.
    fn admit(&self, message: &Inbound, task: Option<&Task>) -> Result<Admission, Fault>;

    /// Runs the turn. A stream that ends without an [`AgentEvent::End`] or [`AgentEvent::Reply`] completes the task.
    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent>;

    /// The queue from which workers lease its turns, if workers run them.
    fn desk(&self) -> Option<Arc<dyn WorkerQueue>> {
        None
    }

    /// A description of its structure for operators, if it consists of other agents; with the state of one of its tasks
    /// if a task is given.
    fn picture(&self, _: Option<Look<'_>>) -> Option<Json> {
        None
    }

    /// The names of the agents of its own nodes, if it consists of other agents; the members of those are not included.
    fn members(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// The billing of its turns, if they have a price.
    fn till(&self) -> Option<Arc<dyn Billing>> {
        None
    }

    /// Its turns in this process and their limits, where they are counted.
    fn load(&self) -> Option<AgentLoad> {
        None
    }

    /// The card of the agent elsewhere that it stands for, read again, and as it was when this agent was built.
    fn remote_card(&self) -> Option<Future<'static, Result<RemoteCards, Fault>>> {
        None
    }
}

/// The turns of an agent in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentLoad {
    /// Turns at work, and the most of them.
    pub running: u32,
    pub slots: u32,
    /// Turns that wait for a slot, and the most of them.
    pub waiting: u32,
    pub queue: u32,
    /// Limits of one turn; without a timeout, that of the server.
    pub timeout_ms: Option<u64>,
    pub attempts: Option<u32>,
    pub output_bytes: usize,
    /// Turns that ended since the start, those of them that failed, and those at the end that failed in a row.
    pub ended: u64,
    pub failed: u64,
    pub failed_in_a_row: u64,
    /// Messages that were refused because the queue was full.
    pub refused: u64,
    /// How long the turns took that ended.
    pub latency: LatencySnapshot,
}

/// Two readings of the card of an agent elsewhere, as JSON objects without secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCards {
    /// As the agent was built; `None` if it had no card then.
    pub before: Option<Json>,
    /// `None` if it has no card.
    pub now: Option<Json>,
    /// The address of the interface that calls go to.
    pub url: String,
    /// The form of A2A that is spoken there, as far as known.
    pub form: String,
}

/// A task whose state a picture shows.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    pub log: &'a [Event],
    /// The tasks it has opened, unordered.
    pub children: &'a [Arc<Task>],
}

/// The properties of an agent, for cards and for the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub name: Arc<str>,
    pub title: String,
    pub description: String,
    pub version: String,
    pub skills: Vec<Skill>,
    /// Media types of its input and output; `*/*` for any.
    pub input_modes: Vec<String>,
    pub output_modes: Vec<String>,
    /// Its tasks support streaming and subscriptions.
    pub streaming: bool,
    /// Its tasks support push configs, if the server delivers webhooks.
    pub push: bool,
    pub extensions: Vec<Extension>,
    /// The rule for a turn interrupted by a crash.
    pub restart: Restart,
    /// Running a turn twice is harmless: it may start before its task's first commit.
    pub idempotent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub id: String,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    pub examples: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    pub uri: String,
    pub description: String,
    pub required: bool,
    pub params: Option<Json>,
}

/// The rule for a turn interrupted by a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Reattach by the bound name.
    Resume,
    /// Run it again, at most `Limits::attempts` times.
    Retry,
    Fail,
}

/// The properties of an admitted turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The agent may still answer with a direct message: no caller sees a task before the agent's first event.
    pub undecided: bool,
    pub restart: Restart,
    pub idempotent: bool,
}

/// One run of an agent on a task.
pub struct Turn {
    pub id: TurnId,
    /// Attempt number, from 1.
    pub attempt: u32,
    pub task: TaskId,
    pub context: ContextId,
    pub tenant: Arc<str>,
    pub caller: Arc<str>,
    /// The messages of this turn, oldest first; at least one.
    pub messages: Vec<Arc<Inbound>>,
    /// The task at the start of the turn, including these messages. Large parts are loaded.
    pub so_far: Arc<Task>,
    /// The messages of earlier tasks of the same context, read on demand.
    pub earlier: Earlier,
    /// The remote name bound by an earlier attempt.
    pub bound: Option<String>,
    /// Resolves when a caller cancels the turn.
    pub cancelled: Cancelled,
    /// The caller waits for the complete answer and does not stream: progress may be batched.
    pub whole: bool,
    /// The child tasks this turn may open.
    pub children: Arc<dyn Children>,
}

/// The conversation before this task.
pub struct Earlier(Box<dyn Fn() -> Messages + Send + Sync>);

/// A future read of messages.
pub type Messages = Future<'static, Result<Vec<Arc<Message>>, Fault>>;

impl Earlier {
    pub fn new(read: impl Fn() -> Messages + Send + Sync + 'static) -> Earlier {
        Earlier(Box::new(read))
    }

    /// An empty conversation: the context begins with this task.
    pub fn none() -> Earlier {
        Earlier::new(|| Box::pin(async { Ok(Vec::new()) }))
    }

    /// The messages of earlier tasks of the context, from the caller and the agents, oldest first.
    pub async fn messages(&self) -> Result<Vec<Arc<Message>>, Fault> {
        (self.0)().await
    }
}

/// Resolves once, for every clone, when a cancel was requested.
pub type Cancelled = Shared<Future<'static, ()>>;

/// An event emitted by an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// The agent is working, with an optional status message.
    Working(Option<AgentMessage>),
    Artifact(ArtifactChunk),
    /// A direct message instead of a task; ends the turn.
    Reply(AgentMessage),
    /// A remote party's name for the turn.
    Bound(String),
    /// Facts about the task, such as usage.
    Metadata(Json),
    End(TurnEnd),
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    pub state: EndState,
    pub words: Option<AgentMessage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndState {
    Completed,
    Failed,
    Rejected,
    Canceled,
    InputRequired,
    AuthRequired,
}

impl From<EndState> for State {
    fn from(end: EndState) -> State {
        match end {
            EndState::Completed => State::Completed,
            EndState::Failed => State::Failed,
            EndState::Rejected => State::Rejected,
            EndState::Canceled => State::Canceled,
            EndState::InputRequired => State::InputRequired,
            EndState::AuthRequired => State::AuthRequired,
        }
    }
}

/// A message of the agent; the engine assigns its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentMessage {
    pub parts: Vec<Part>,
    pub metadata: Option<Json>,
    pub extensions: Vec<String>,
}

impl AgentMessage {
    pub fn text(text: impl Into<String>) -> AgentMessage {
        AgentMessage { parts: vec![Part::text(text)], ..AgentMessage::default() }
    }
}

/// A chunk of an artifact, or the complete artifact. The key is the agent's own name for the artifact within the task:
/// the same key in another turn or attempt is the same artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactChunk {
    pub key: String,
    pub name: Option<String>,
    pub description: Option<String>,
    pub parts: Vec<Part>,
    pub metadata: Option<Json>,
    pub extensions: Vec<String>,
    pub append: bool,
    /// With `append`: the first part does not continue the text before it.
    pub bordered: bool,
    pub last: bool,
    /// Its text may be joined with the following text while it waits to be written: no reader needs the boundary.
    pub seamless: bool,
}

impl ArtifactChunk {
    /// The text of a chunk that consists of plain text only.
    pub fn plain_text(&self) -> Option<&str> {
        let [part] = &self.parts[..] else { return None };
        let plain = part.filename.is_none() && part.media_type.is_none() && part.metadata.is_none();
        if plain && self.metadata.is_none() && self.extensions.is_empty() { part.as_text() } else { None }
    }

    /// Whether it only appends plain text to the artifact with this key.
    pub fn adds_text_to(&self, key: &str) -> bool {
        let unnamed = self.name.is_none() && self.description.is_none();
        self.append && !self.bordered && unnamed && self.key == key && self.plain_text().is_some()
    }
}
