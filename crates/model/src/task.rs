//! The task: a fold of its log, and the state machine that decides which event may follow.
//!
//! [`Core`] is the small, cheaply copied state that the rules need; before a commit, a writer steps a copy through the
//! batch to check that it is allowed. [`Task::apply`] folds a committed event into the complete task.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{Artifact, Body, Chunk, ContextId, Event, Json, Message, Opened, Seq, TaskId, Time, TurnId, View};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    #[serde(rename = "S")]
    Submitted,
    #[serde(rename = "W")]
    Working,
    #[serde(rename = "I")]
    InputRequired,
    #[serde(rename = "A")]
    AuthRequired,
    #[serde(rename = "C")]
    Completed,
    #[serde(rename = "F")]
    Failed,
    #[serde(rename = "X")]
    Canceled,
    #[serde(rename = "R")]
    Rejected,
}

impl State {
    /// The word for people, and for most dialects.
    pub fn word(self) -> &'static str {
        match self {
            State::Submitted => "submitted",
            State::Working => "working",
            State::InputRequired => "input-required",
            State::AuthRequired => "auth-required",
            State::Completed => "completed",
            State::Failed => "failed",
            State::Canceled => "canceled",
            State::Rejected => "rejected",
        }
    }

    pub const ALL: [State; 8] = [
        State::Submitted,
        State::Working,
        State::InputRequired,
        State::AuthRequired,
        State::Completed,
        State::Failed,
        State::Canceled,
        State::Rejected,
    ];

    /// The task never changes again.
    pub fn is_terminal(self) -> bool {
        match self {
            State::Completed | State::Failed | State::Canceled | State::Rejected => true,
            State::Submitted | State::Working | State::InputRequired | State::AuthRequired => false,
        }
    }

    /// The agent waits for input from outside.
    pub fn is_interrupted(self) -> bool {
        match self {
            State::InputRequired | State::AuthRequired => true,
            State::Submitted
            | State::Working
            | State::Completed
            | State::Failed
            | State::Canceled
            | State::Rejected => false,
        }
    }

    /// A stable small number, for stores.
    pub fn code(self) -> u8 {
        match self {
            State::Submitted => 1,
            State::Working => 2,
            State::Completed => 3,
            State::Failed => 4,
            State::Canceled => 5,
            State::InputRequired => 6,
            State::Rejected => 7,
            State::AuthRequired => 8,
        }
    }

    pub fn from_code(code: u8) -> Option<State> {
        State::ALL.into_iter().find(|s| s.code() == code)
    }
}

/// The kind of exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The agent has not decided yet; no caller sees it.
    Undecided,
    Task,
    /// Answered by a message; callers never see a task.
    Reply,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTurn {
    pub id: TurnId,
    pub attempt: u32,
    pub started_at: Time,
}

/// The state that the rules depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    pub state: State,
    pub shape: Shape,
    pub seq: Seq,
    /// The event that set the status.
    pub status_seq: Seq,
    /// The turn that runs (or ran when the process died). Ends with a terminal or interrupted status, or a reply.
    pub turn: Option<OpenTurn>,
    /// The number of turns started, not counting attempts.
    pub turns: u32,
    /// The number of starts, counting every attempt. It distinguishes the holders of a task's turns.
    pub starts: u32,
    /// Messages that no turn has taken up yet.
    pub waiting: u32,
    pub cancel_requested: bool,
}

/// The reason an event may not follow. The engine turns it into a fault; for turn events it is the engine's own error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransitionError {
    #[error("the task has settled")]
    Settled,
    #[error("a log begins with one opening event")]
    Opening,
    #[error("a turn is already open")]
    TurnOpen,
    #[error("no turn is open")]
    NoTurn,
    #[error("a task that was shown cannot become a direct reply")]
    AlreadyShown,
    #[error("the first chunk of an artifact cannot append")]
    AppendToNothing,
}

impl Core {
    fn opened(opened: &Opened) -> Core {
        Core {
            state: State::Submitted,
            shape: if opened.undecided { Shape::Undecided } else { Shape::Task },
            seq: Seq(1),
            status_seq: Seq(1),
            turn: None,
            turns: 0,
            starts: 0,
            waiting: 0,
            cancel_requested: false,
        }
    }

    /// The task never changes again.
    pub fn is_settled(&self) -> bool {
        self.state.is_terminal() || self.shape == Shape::Reply
    }

    /// A waiting caller has its answer: the task has settled, or is interrupted with no turn about to continue.
    pub fn is_at_rest(&self) -> bool {
        self.is_settled() || (self.state.is_interrupted() && self.turn.is_none() && self.waiting == 0)
    }

    /// Steps over one event, or returns why it may not follow. A settled task refuses every event.
    pub fn step(&mut self, body: &Body, at: Time) -> Result<(), TransitionError> {
        if self.is_settled() {
            return Err(TransitionError::Settled);
        }
        match body {
            Body::Opened(_) => return Err(TransitionError::Opening),
            Body::Message(_) => self.waiting += 1,
            Body::TurnStarted { turn, attempt, .. } => {
                match self.turn {
                    // Another attempt of the same turn.
                    Some(open) if open.id == *turn => {}
                    // The next turn follows at once only if a message arrived during the last one.
                    Some(_) if self.waiting == 0 => return Err(TransitionError::TurnOpen),
                    Some(_) | None => self.turns += 1,
                }
                let again = self.turn.is_some_and(|open| open.id == *turn);
                self.starts += 1;
                self.turn = Some(OpenTurn { id: *turn, attempt: *attempt, started_at: at });
                // Another attempt has the same messages, so that an agent can recognise the turn; later messages keep
                // waiting.
                if !again {
                    self.waiting = 0;
                }
            }
            Body::Bound { .. } => {
                self.turn.ok_or(TransitionError::NoTurn)?;
            }
            Body::Status(change) => {
                self.state = change.state;
                self.status_seq = self.seq.next();
                self.shape = Shape::Task;
                if change.state.is_terminal() || change.state.is_interrupted() {
                    self.turn = None;
                }
                if change.state.is_terminal() {
                    self.waiting = 0;
                }
            }
            Body::Artifact(_) => self.shape = Shape::Task,
            Body::Replied(_) => {
                if self.shape != Shape::Undecided {
                    return Err(TransitionError::AlreadyShown);
                }
                self.shape = Shape::Reply;
                self.state = State::Completed;
                self.turn = None;
            }
            Body::Metadata(_) => {}
            Body::CancelRequested { .. } => self.cancel_requested = true,
        }
        self.seq = self.seq.next();
        Ok(())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub state: State,
    pub message: Option<Arc<Message>>,
    pub at: Time,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub id: TaskId,
    pub context: ContextId,
    pub agent: Arc<str>,
    pub tenant: Arc<str>,
    pub owner: Arc<str>,
    pub parties: Vec<Arc<str>>,
    pub views: Vec<View>,
    pub dialect: Arc<str>,
    pub alias: Option<Arc<str>>,
    pub follows: Option<TaskId>,
    pub created_at: Time,
    pub core: Core,
    pub status: Status,
    pub artifacts: Vec<Arc<Artifact>>,
    /// The messages, oldest first: callers' messages, and status messages that a later status replaced.
    pub history: Vec<Arc<Message>>,
    /// For a history that shows a whole conversation: the earlier tasks whose messages come first, each with their
    /// number. A fold has none.
    pub earlier: Vec<(TaskId, usize)>,
    pub metadata: Option<Json>,
    /// The metadata of the first cancel request.
    pub canceled_with: Option<Box<Json>>,
    /// The direct answer, if the shape is a reply.
    pub reply: Option<Arc<Message>>,
    /// The remote name of the open turn, if it has one.
    pub bound: Option<String>,
    /// The newest remote name of an earlier turn: the remote conversation that a later turn continues.
    pub bound_before: Option<String>,
    /// The cost of its turns, if its agent has a price.
    pub due: Option<Box<TaskBilling>>,
}

/// The billing state of a task: the payer of the waiting messages, and the reservation for the open turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskBilling {
    /// The payer of the newest message that no turn has taken up.
    pub payer: Option<Arc<str>>,
    /// The reservation for the open turn.
    pub hold: Option<Json>,
    /// The facts reported by that turn, such as its usage.
    pub facts: Option<Json>,
}

impl Task {
    /// The memory of the task's messages and artifacts, in bytes.
    pub fn weight(&self) -> usize {
        let messages = self.history.iter().chain(&self.status.message);
        let said = messages.flat_map(|message| &message.parts);
        let made = self.artifacts.iter().flat_map(|artifact| &artifact.parts);
        said.chain(made).map(crate::content::Part::weight).sum()
    }

    /// Begins a fold with a log's first event.
    pub fn open(event: &Event) -> Result<Task, TransitionError> {
        let Body::Opened(opened) = &event.body else {
            return Err(TransitionError::Opening);
        };
        if event.seq != Seq(1) {
            return Err(TransitionError::Opening);
        }
        Ok(Task {
            id: opened.id,
            context: opened.context.clone(),
            agent: opened.agent.clone(),
            tenant: opened.tenant.clone(),
            owner: opened.owner.clone(),
            parties: opened.parties.clone(),
            views: opened.views.clone(),
            dialect: opened.dialect.clone(),
            alias: opened.alias.clone(),
            follows: opened.follows,
            created_at: event.at,
            core: Core::opened(opened),
            status: Status { state: State::Submitted, message: None, at: event.at },
            artifacts: Vec::new(),
            history: Vec::new(),
            earlier: Vec::new(),
            metadata: None,
            canceled_with: None,
            reply: None,
            bound: None,
            bound_before: None,
            due: None,
        })
    }

    /// Folds a whole log. `None` when it is empty.
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a Event>) -> Result<Option<Task>, TransitionError> {
        let mut events = events.into_iter();
        let Some(first) = events.next() else {
            return Ok(None);
        };
        let mut task = Task::open(first)?;
        for event in events {
            task.apply(event)?;
        }
        Ok(Some(task))
    }

    pub fn seq(&self) -> Seq {
        self.core.seq
    }

    pub fn state(&self) -> State {
        self.status.state
    }

    /// Folds one more event in. The work is proportional to the event, not to the task.
    pub fn apply(&mut self, event: &Event) -> Result<(), TransitionError> {
        if let Body::Artifact(chunk) = &event.body
            && chunk.append
            && self.artifact_at(chunk).is_none()
        {
            return Err(TransitionError::AppendToNothing);
        }
        self.core.step(&event.body, event.at)?;
        match &event.body {
            Body::Opened(_) => return Err(TransitionError::Opening),
            Body::Message(inbound) => {
                // A question precedes its answer in the history.
                if self.status.state.is_interrupted()
                    && let Some(question) = self.status.message.take()
                {
                    self.history.push(question);
                }
                self.history.push(inbound.message.clone());
                if let Some(payer) = &inbound.payer {
                    self.due.get_or_insert_default().payer = Some(payer.clone());
                }
            }
            Body::TurnStarted { attempt, hold, .. } => {
                if *attempt <= 1 && (hold.is_some() || self.due.is_some()) {
                    let due = self.due.get_or_insert_default();
                    **due = TaskBilling { hold: hold.clone(), ..TaskBilling::default() };
                }
                if *attempt <= 1
                    && let Some(earlier) = self.bound.take()
                {
                    self.bound_before = Some(earlier);
                }
            }
            Body::Bound { remote } => self.bound = Some(remote.clone()),
            Body::Status(change) => {
                if let Some(replaced) = self.status.message.take() {
                    self.history.push(replaced);
                }
                self.status = Status { state: change.state, message: change.message.clone(), at: event.at };
            }
            Body::Artifact(chunk) => self.fold_chunk(chunk),
            Body::Replied(message) => {
                self.reply = Some(message.clone());
                self.status = Status { state: State::Completed, message: None, at: event.at };
            }
            Body::Metadata(json) => {
                if let Some(due) = self.due.as_deref_mut().filter(|due| due.hold.is_some()) {
                    due.facts = Some(due.facts.as_ref().map_or_else(|| json.clone(), |known| known.merged(json)));
                }
                self.metadata = Some(match &self.metadata {
                    Some(known) => known.merged(json),
                    None => json.clone(),
                });
            }
            Body::CancelRequested { metadata } => {
                if self.canceled_with.is_none() {
                    self.canceled_with = metadata.clone().map(Box::new);
                }
            }
        }
        // The reservation ends with its turn.
        if self.core.turn.is_none()
            && let Some(due) = self.due.as_deref_mut()
        {
            (due.hold, due.facts) = (None, None);
        }
        Ok(())
    }

    fn artifact_at(&self, chunk: &Chunk) -> Option<&Arc<Artifact>> {
        self.artifacts.get(chunk.ordinal as usize).filter(|known| known.id == chunk.artifact.id)
    }

    fn fold_chunk(&mut self, chunk: &Chunk) {
        let new = &chunk.artifact;
        if self.artifact_at(chunk).is_none() {
            self.artifacts.push(new.clone());
            return;
        }
        let slot = &mut self.artifacts[chunk.ordinal as usize];
        if !chunk.append {
            *slot = new.clone();
            return;
        }
        let known = Arc::make_mut(slot);
        let mut added = new.parts.iter();
        // Text that arrives in chunks is one text, regardless of the chunk boundaries.
        if let (false, Some(last), Some(first)) = (chunk.bordered, known.parts.last_mut(), new.parts.first())
            && last.continue_with(first)
        {
            added.next();
        }
        known.parts.extend(added.cloned());
        if let Some(name) = &new.name {
            known.name = Some(name.clone());
        }
        if let Some(description) = &new.description {
            known.description = Some(description.clone());
        }
        if let Some(metadata) = &new.metadata {
            known.metadata = Some(match &known.metadata {
                Some(old) => old.merged(metadata),
                None => metadata.clone(),
            });
        }
        for extension in &new.extensions {
            if !known.extensions.contains(extension) {
                known.extensions.push(extension.clone());
            }
        }
    }
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
