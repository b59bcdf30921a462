//! The agent port: admit a turn, run it, obey cancel.
//!
//! `admit` may refuse before a task exists. `run` yields what the agent says as a stream; the engine polls it only while
//! it can commit, so that a fast agent never outruns the store. Dropping the stream stops the agent at once; before that
//! [`Turn::cancelled`] resolves and the agent has `cancel_grace` to stop by itself.

use std::sync::Arc;

use futures_util::future::Shared;
use futures_util::stream::BoxStream;

use super::Future;
use super::children::Children;
use super::till::Till;
use super::worker::Desk;
use crate::{ContextId, Event, Fault, Inbound, Json, Message, Part, State, Task, TaskId, TurnId};

pub trait Agent: Send + Sync + 'static {
    fn profile(&self) -> &Profile;

    /// Looks at a turn before anything is kept. A fault here means that no task comes to be.
    fn admit(&self, message: &Inbound, task: Option<&Task>) -> Result<Admission, Fault>;

    /// Runs the turn. A stream that ends without an [`Emission::End`] or [`Emission::Reply`] has completed.
    fn run(&self, turn: Turn) -> BoxStream<'static, Emission>;

    /// Where workers fetch its turns, if it leaves them to workers.
    fn desk(&self) -> Option<Arc<dyn Desk>> {
        None
    }

    /// How it is made, for operators, if it is made of other agents; and how one of its tasks stands.
    fn picture(&self, _: Option<Look<'_>>) -> Option<Json> {
        None
    }

    /// The names of the agents it works with, if it is made of others: those of its own nodes, not of theirs.
    fn members(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// Where its turns are paid for, if they have a price.
    fn till(&self) -> Option<Arc<dyn Till>> {
        None
    }
}

/// A task, for a picture of how it stands.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    pub log: &'a [Event],
    /// The tasks it has opened, in no order.
    pub children: &'a [Arc<Task>],
}

/// What an agent is, for cards and for the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub name: Arc<str>,
    pub title: String,
    pub description: String,
    pub version: String,
    pub skills: Vec<Skill>,
    /// Media types it reads and writes; `*/*` for any.
    pub input_modes: Vec<String>,
    pub output_modes: Vec<String>,
    /// Its tasks can be streamed and subscribed to.
    pub streaming: bool,
    /// Its tasks can have push configs, where the server delivers any.
    pub push: bool,
    pub extensions: Vec<Extension>,
    /// What becomes of a turn that a crash cut off.
    pub restart: Restart,
    /// Running it twice does no harm: it may start before its task's first commit.
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

/// What becomes of a turn that a crash cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Reattach by what was bound.
    Resume,
    /// Run it again, at most `Limits::attempts` times.
    Retry,
    Fail,
}

/// How an admitted turn will go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// The agent may yet answer with a direct message: nobody is shown a task before its first word.
    pub undecided: bool,
    pub restart: Restart,
    pub idempotent: bool,
}

/// One run of an agent on a task.
pub struct Turn {
    pub id: TurnId,
    /// 1 for the first.
    pub attempt: u32,
    pub task: TaskId,
    pub context: ContextId,
    pub tenant: Arc<str>,
    pub caller: Arc<str>,
    /// The messages this turn takes up, oldest first; at least one.
    pub messages: Vec<Arc<Inbound>>,
    /// The task as the turn found it, these messages included. Large parts are loaded.
    pub so_far: Arc<Task>,
    /// What was said in earlier tasks of the same context, read when asked for.
    pub earlier: Earlier,
    /// The remote name an earlier attempt was bound to.
    pub bound: Option<String>,
    /// Resolves when the caller wants the turn to stop.
    pub cancelled: Cancelled,
    /// Whoever asked waits for the answer whole and follows nothing: progress need not be told at once.
    pub whole: bool,
    /// The tasks it may open to get its work done.
    pub children: Arc<dyn Children>,
}

/// The conversation before this task.
pub struct Earlier(Box<dyn Fn() -> Messages + Send + Sync>);

/// Messages that are still to be read.
pub type Messages = Future<'static, Result<Vec<Arc<Message>>, Fault>>;

impl Earlier {
    pub fn new(read: impl Fn() -> Messages + Send + Sync + 'static) -> Earlier {
        Earlier(Box::new(read))
    }

    /// A context that begins with this task.
    pub fn none() -> Earlier {
        Earlier::new(|| Box::pin(async { Ok(Vec::new()) }))
    }

    /// The messages of earlier tasks of the context, the caller's and the agents', oldest first.
    pub async fn messages(&self) -> Result<Vec<Arc<Message>>, Fault> {
        (self.0)().await
    }
}

/// Resolves once, for every clone, when a cancel was requested.
pub type Cancelled = Shared<Future<'static, ()>>;

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emission {
    /// It is at work, and may say on what.
    Working(Option<Words>),
    Artifact(Piece),
    /// A direct message instead of a task; ends the turn.
    Reply(Words),
    /// A remote party knows the turn under this name.
    Bound(String),
    /// Facts about the task, such as usage.
    Metadata(Json),
    End(End),
}

/// The end of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    pub state: EndState,
    pub words: Option<Words>,
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

/// A message of the agent; the engine gives it an id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub parts: Vec<Part>,
    pub metadata: Option<Json>,
    pub extensions: Vec<String>,
}

impl Words {
    pub fn text(text: impl Into<String>) -> Words {
        Words { parts: vec![Part::text(text)], ..Words::default() }
    }
}

/// A chunk of an artifact, or the whole of it. The key is the agent's own name for the artifact within the task: the same
/// key in another turn or attempt is the same artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    pub key: String,
    pub name: Option<String>,
    pub description: Option<String>,
    pub parts: Vec<Part>,
    pub metadata: Option<Json>,
    pub extensions: Vec<String>,
    pub append: bool,
    /// With `append`: its first part does not continue the text before it.
    pub bordered: bool,
    pub last: bool,
    /// Its text may be joined with what follows it while it waits to be written: nobody needs the seam.
    pub seamless: bool,
}

impl Piece {
    /// The text of a piece that is nothing but text.
    pub fn plain_text(&self) -> Option<&str> {
        let [part] = &self.parts[..] else { return None };
        let plain = part.filename.is_none() && part.media_type.is_none() && part.metadata.is_none();
        if plain && self.metadata.is_none() && self.extensions.is_empty() { part.as_text() } else { None }
    }

    /// Whether it only adds plain text to the artifact of that key.
    pub fn adds_text_to(&self, key: &str) -> bool {
        let unnamed = self.name.is_none() && self.description.is_none();
        self.append && !self.bordered && unnamed && self.key == key && self.plain_text().is_some()
    }
}
