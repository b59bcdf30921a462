//! An agent's output that is not yet in the log.
//!
//! While a commit is in flight the next batch grows here. Text that an agent appends to an artifact in chunks is joined
//! on arrival, if the agent allows it: the slower the disk, the larger and fewer the chunks, and no chunk waits for
//! another.

use std::collections::HashMap;
use std::sync::Arc;

use model::ports::agent::{AgentEvent, AgentMessage, ArtifactChunk, EndState, TurnEnd};
use model::{
    Artifact, Body, Chunk, Content, Limits, Message, Part, Role, Shape, State, StatusChange, Task, TurnId, depth,
};

use crate::clock;

/// A turn's uncommitted output. Tracks the artifacts' indices, since only the turn's one writer adds artifacts.
pub(crate) struct Pending {
    said: Vec<Said>,
    bytes: usize,
    total_bytes: usize,
    /// The index of each known artifact, by id.
    artifacts: HashMap<Arc<str>, u32>,
    ended: bool,
    /// The last event is a chunk of text that may be extended.
    seam: bool,
    /// Deeper data and metadata are turned into text.
    data_depth: usize,
}

/// Text is joined up to this size.
const JOINED: usize = 4 << 10;

#[derive(Clone)]
enum Said {
    Body(Body),
    /// A direct answer, if no caller has seen a task yet.
    Reply(Arc<Message>),
    End(State, Option<Arc<Message>>),
}

/// The effect of a resolved batch on the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    GoOn,
    /// The turn is over; the task is at rest or has settled.
    Over,
    /// The turn is over and the next one has begun.
    NextTurn(TurnId),
}

impl Pending {
    pub(crate) fn new(task: &Task, limits: &Limits) -> Pending {
        let artifacts = task.artifacts.iter().enumerate().map(|(i, a)| (a.id.clone(), i as u32)).collect();
        Pending {
            said: Vec::new(),
            bytes: 0,
            total_bytes: 0,
            artifacts,
            ended: false,
            seam: false,
            data_depth: limits.data_depth,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
    pub(crate) fn total_bytes(&self) -> usize {
        self.total_bytes
    }
    pub(crate) fn len(&self) -> usize {
        self.said.len()
    }
    /// The agent has emitted its last event.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    pub(crate) fn push(&mut self, mut emission: AgentEvent) {
        if self.ended {
            return;
        }
        flatten(&mut emission, self.data_depth);
        let seamless = match &emission {
            AgentEvent::Artifact(piece) => {
                if self.join(piece) {
                    return;
                }
                piece.seamless && !piece.last && piece.plain_text().is_some()
            }
            AgentEvent::Working(_)
            | AgentEvent::Reply(_)
            | AgentEvent::Bound(_)
            | AgentEvent::Metadata(_)
            | AgentEvent::End(_) => false,
        };
        self.seam = seamless;
        let said = match emission {
            AgentEvent::Working(words) => Said::Body(status(State::Working, words.map(message))),
            AgentEvent::Artifact(piece) => Said::Body(Body::Artifact(self.chunk(piece))),
            AgentEvent::Bound(remote) => Said::Body(Body::Bound { remote }),
            AgentEvent::Metadata(json) => Said::Body(Body::Metadata(json)),
            AgentEvent::Reply(words) => {
                self.ended = true;
                Said::Reply(message(words))
            }
            AgentEvent::End(TurnEnd { state, words }) => {
                self.ended = true;
                Said::End(state.into(), words.map(message))
            }
        };
        let weight = match &said {
            Said::Body(body) => body.weight(),
            Said::Reply(_) | Said::End(..) => 128,
        };
        self.bytes += weight;
        self.total_bytes += weight;
        self.said.push(said);
    }

    /// Ends the turn if the agent has not.
    pub(crate) fn end(&mut self, state: EndState, words: Option<AgentMessage>) {
        self.push(AgentEvent::End(TurnEnd { state, words }));
    }

    /// Appends the text of a chunk to the last chunk, if it is plain appended text.
    fn join(&mut self, piece: &ArtifactChunk) -> bool {
        let Some(Said::Body(Body::Artifact(chunk))) = self.said.last_mut().filter(|_| self.seam && piece.seamless)
        else {
            return false;
        };
        if !piece.adds_text_to(&chunk.artifact.id) {
            return false;
        }
        let Some(Artifact { parts, .. }) = Arc::get_mut(&mut chunk.artifact) else { return false };
        let ([Part { content: Content::Text(text), .. }], Some(more)) = (&mut parts[..], piece.plain_text()) else {
            return false;
        };
        if text.len() + more.len() > JOINED {
            return false;
        }
        text.push_str(more);
        chunk.last = piece.last;
        self.seam = !piece.last;
        self.bytes += more.len();
        self.total_bytes += more.len();
        true
    }

    fn chunk(&mut self, piece: ArtifactChunk) -> Chunk {
        let ArtifactChunk { key, name, description, parts, metadata, extensions, append, bordered, last, seamless: _ } =
            piece;
        let id: Arc<str> = if key.is_empty() { "artifact".into() } else { key.into() };
        let next = self.artifacts.len() as u32;
        let known = self.artifacts.get(&id).copied();
        let ordinal = known.unwrap_or_else(|| {
            self.artifacts.insert(id.clone(), next);
            next
        });
        let artifact = Arc::new(Artifact { id, name, description, parts, metadata, extensions });
        // The first chunk of an artifact has nothing to append to, even if the agent asks for it.
        let append = append && known.is_some();
        Chunk { artifact, ordinal, append, bordered: append && bordered, last, metadata: None }
    }

    /// Hands over the output so far.
    pub(crate) fn take(&mut self) -> Spoken {
        self.bytes = 0;
        self.seam = false;
        Spoken { said: std::mem::take(&mut self.said), next_turn: None, refused: None }
    }
}

/// A batch of output, resolved against the task at commit time.
pub(crate) struct Spoken {
    said: Vec<Said>,
    next_turn: Option<TurnId>,
    /// The reason no other turn may follow.
    refused: Option<Arc<Message>>,
}

impl Spoken {
    /// Prevents a next turn even if messages wait; the status message says why.
    pub(crate) fn refuse_next(&mut self, why: impl Into<String>) {
        self.refused = Some(message(AgentMessage::text(why)));
    }
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// The events of this output, given the task. A repeated call returns the same ids.
    pub(crate) fn resolve(&mut self, task: &Task) -> (Vec<Body>, Then) {
        let mut bodies = Vec::with_capacity(self.said.len() + 2);
        let mut then = Then::GoOn;
        let mut shown = task.core.shape == Shape::Task;
        for said in &self.said {
            match said {
                Said::Body(body) => {
                    shown |= matches!(body, Body::Status(_) | Body::Artifact(_));
                    bodies.push(body.clone());
                }
                Said::Reply(message) if !shown => {
                    bodies.push(Body::Replied(message.clone()));
                    then = Then::Over;
                }
                Said::Reply(message) => then = self.next_turn_or(State::Completed, Some(message), task, &mut bodies),
                Said::End(state, message) => then = self.next_turn_or(*state, message.as_ref(), task, &mut bodies),
            }
            if let Then::NextTurn(turn) = then {
                self.next_turn = Some(turn);
                break;
            }
        }
        (bodies, then)
    }

    /// The end of a turn, or, if messages arrived during it, the beginning of the next.
    fn next_turn_or(&self, state: State, message: Option<&Arc<Message>>, task: &Task, bodies: &mut Vec<Body>) -> Then {
        let goes_on = task.core.waiting > 0 && !task.core.cancel_requested;
        match (state, &self.refused) {
            // The turn's own work is done; the later messages are rejected.
            (State::Completed | State::InputRequired | State::AuthRequired, Some(why)) if goes_on => {
                bodies.push(status(State::Working, message.cloned()));
                bodies.push(status(State::Rejected, Some(why.clone())));
                return Then::Over;
            }
            (_, Some(_) | None) => {}
        }
        match state {
            // The status stays working: the next turn follows.
            State::Completed if goes_on => bodies.push(status(State::Working, message.cloned())),
            // A message that arrived during the turn answers the question.
            State::InputRequired | State::AuthRequired if goes_on => {
                bodies.push(status(state, message.cloned()));
                bodies.push(status(State::Working, None));
            }
            // After a cancel request the task does not wait for an answer.
            State::InputRequired | State::AuthRequired if task.core.cancel_requested => {
                bodies.push(status(State::Canceled, message.cloned()));
                return Then::Over;
            }
            State::Submitted
            | State::Working
            | State::InputRequired
            | State::AuthRequired
            | State::Completed
            | State::Failed
            | State::Canceled
            | State::Rejected => {
                bodies.push(status(state, message.cloned()));
                return Then::Over;
            }
        }
        let turn = self.next_turn.unwrap_or_else(clock::turn_id);
        bodies.push(Body::TurnStarted { turn, attempt: 1, hold: None });
        Then::NextTurn(turn)
    }
}

/// Turns too deep values of an emission into text: see [`depth`].
fn flatten(emission: &mut AgentEvent, most: usize) {
    let words = |words: &mut AgentMessage| {
        depth::flatten_parts(&mut words.parts, most);
        depth::flatten(&mut words.metadata, most);
    };
    match emission {
        AgentEvent::Working(Some(said))
        | AgentEvent::Reply(said)
        | AgentEvent::End(TurnEnd { words: Some(said), .. }) => {
            words(said);
        }
        AgentEvent::Artifact(piece) => {
            depth::flatten_parts(&mut piece.parts, most);
            depth::flatten(&mut piece.metadata, most);
        }
        AgentEvent::Metadata(json) if depth::is_deeper(json, most) => *json = depth::flattened(json),
        AgentEvent::Metadata(_)
        | AgentEvent::Bound(_)
        | AgentEvent::Working(None)
        | AgentEvent::End(TurnEnd { words: None, .. }) => {}
    }
}

pub(crate) fn message(words: AgentMessage) -> Arc<Message> {
    let AgentMessage { parts, metadata, extensions } = words;
    Arc::new(Message { id: clock::text_id(), role: Role::Agent, parts, metadata, extensions, references: Vec::new() })
}

pub(crate) fn status(state: State, message: Option<Arc<Message>>) -> Body {
    Body::Status(StatusChange { state, message, metadata: None })
}
