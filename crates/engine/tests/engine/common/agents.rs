//! Test agents: the built-in ones, one that a test drives step by step, and one that is a function.

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use model::ports::agent::{
    Admission, Agent, AgentEvent, AgentMessage, ArtifactChunk, Cancelled, EndState, Profile, Restart, Turn, TurnEnd,
};
use model::{Fault, Inbound, Part, Task};
use parking_lot::Mutex;
use tokio::sync::mpsc;

pub(crate) fn echo() -> Arc<dyn Agent> {
    agents::builtin("echo", &agents::BuiltinSettings::default()).unwrap()
}

pub(crate) fn scripted() -> Arc<dyn Agent> {
    agents::builtin("scripted", &agents::BuiltinSettings::default()).unwrap()
}

pub(crate) fn working(text: &str) -> AgentEvent {
    AgentEvent::Working(if text.is_empty() { None } else { Some(AgentMessage::text(text)) })
}

pub(crate) fn ended(state: EndState, text: &str) -> AgentEvent {
    let words = if text.is_empty() { None } else { Some(AgentMessage::text(text)) };
    AgentEvent::End(TurnEnd { state, words })
}

pub(crate) fn piece(key: &str, parts: Vec<Part>, append: bool) -> AgentEvent {
    AgentEvent::Artifact(ArtifactChunk { key: key.into(), parts, append, ..ArtifactChunk::default() })
}

pub(crate) fn text_piece(key: &str, text: &str, append: bool) -> AgentEvent {
    piece(key, vec![Part::text(text)], append)
}

/// The profile of a test agent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    pub(crate) restart: Restart,
    pub(crate) idempotent: bool,
    pub(crate) undecided: bool,
}

impl Default for Manners {
    fn default() -> Manners {
        Manners { restart: Restart::Fail, idempotent: false, undecided: false }
    }
}

impl Manners {
    fn admission(self, task: Option<&Task>) -> Admission {
        let Manners { restart, idempotent, undecided } = self;
        Admission { undecided: undecided && task.is_none(), restart, idempotent }
    }

    fn profile(self, name: &str) -> Profile {
        Profile {
            name: name.into(),
            title: name.into(),
            description: "a test".into(),
            version: "0".into(),
            skills: Vec::new(),
            input_modes: vec!["*/*".into()],
            output_modes: vec!["*/*".into()],
            streaming: true,
            push: true,
            extensions: Vec::new(),
            restart: self.restart,
            idempotent: self.idempotent,
        }
    }
}

/// An agent driven by the test, turn by turn. Each turn that begins is a [`Cue`]. It obeys a cancel only if the test
/// makes it.
pub(crate) struct Puppet {
    profile: Profile,
    manners: Manners,
    cues: mpsc::UnboundedSender<Cue>,
    queue: tokio::sync::Mutex<mpsc::UnboundedReceiver<Cue>>,
}

/// A turn that has begun. Dropping it ends the agent's stream, which completes the task.
pub(crate) struct Cue {
    pub(crate) turn: model::TurnId,
    pub(crate) attempt: u32,
    pub(crate) bound: Option<String>,
    pub(crate) messages: Vec<Arc<Inbound>>,
    pub(crate) so_far: Arc<Task>,
    pub(crate) cancelled: Cancelled,
    lines: mpsc::UnboundedSender<AgentEvent>,
}

impl Cue {
    pub(crate) fn says(&self, emission: AgentEvent) {
        // The receiver of an interrupted turn is gone.
        let _ = self.lines.send(emission);
    }

    pub(crate) fn ends(self, state: EndState, text: &str) {
        self.says(ended(state, text));
    }

    /// Resolves when the agent's stream was dropped: the turn was stopped from outside.
    pub(crate) async fn cut_off(&self) {
        self.lines.closed().await;
    }

    /// The texts of this turn's messages.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.messages.iter().map(|inbound| inbound.message.text()).collect()
    }
}

impl Puppet {
    pub(crate) fn new() -> Arc<Puppet> {
        Puppet::with(Manners::default())
    }

    pub(crate) fn with(manners: Manners) -> Arc<Puppet> {
        let (cues, queue) = mpsc::unbounded_channel();
        Arc::new(Puppet { profile: manners.profile("puppet"), manners, cues, queue: tokio::sync::Mutex::new(queue) })
    }

    /// The next turn that begins.
    pub(crate) async fn turn(&self) -> Cue {
        self.queue.lock().await.recv().await.unwrap()
    }

    /// A turn that has begun already, if any.
    pub(crate) async fn turn_if_any(&self) -> Option<Cue> {
        self.queue.lock().await.try_recv().ok()
    }

    /// Whether no further turn has begun.
    pub(crate) async fn is_idle(&self) -> bool {
        self.queue.lock().await.try_recv().is_err()
    }
}

impl Agent for Puppet {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, _: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        Ok(self.manners.admission(task))
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let (lines, said) = mpsc::unbounded_channel();
        let Turn { id, attempt, bound, messages, so_far, cancelled, .. } = turn;
        let _ = self.cues.send(Cue { turn: id, attempt, bound, messages, so_far, cancelled, lines });
        stream::unfold(said, |mut said| async move { Some((said.recv().await?, said)) }).boxed()
    }
}

type Act = dyn Fn(Turn) -> BoxStream<'static, AgentEvent> + Send + Sync;

/// An agent that is a function.
pub(crate) struct Acting {
    profile: Profile,
    manners: Manners,
    act: Box<Act>,
    /// The fault with which messages are refused before a task exists, if any.
    pub(crate) refusal: Mutex<Option<fn() -> Fault>>,
}

pub(crate) fn acting(
    name: &str,
    manners: Manners,
    act: impl Fn(Turn) -> BoxStream<'static, AgentEvent> + Send + Sync + 'static,
) -> Arc<Acting> {
    Arc::new(Acting { profile: manners.profile(name), manners, act: Box::new(act), refusal: Mutex::default() })
}

impl Agent for Acting {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, _: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        match *self.refusal.lock() {
            Some(refusal) => Err(refusal()),
            None => Ok(self.manners.admission(task)),
        }
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        (self.act)(turn)
    }
}
