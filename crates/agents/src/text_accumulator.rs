//! An artifact that grows while its agent produces output.
//!
//! Output is held back briefly: if the turn ends before more follows, it goes out as the artifact's last chunk, so
//! that a short answer is one chunk and not two. After the first chunk the hold time is so short that a model's
//! tokens appear as they arrive.

use std::time::Duration;

use model::Part;
use model::ports::agent::{AgentEvent, ArtifactChunk, Turn};
use tokio::time::{Instant, sleep_until};

/// Hold times of the first chunk and of the following ones. Longer in tests, which assert chunk boundaries also on
/// a busy machine.
const FIRST: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 20 });
const NEXT: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 1 });

pub(crate) struct TextAccumulator {
    key: String,
    name: Option<String>,
    description: Option<String>,
    /// Every push starts its own part.
    bordered: bool,
    begun: bool,
    held: Option<(Vec<Part>, Instant)>,
}

impl TextAccumulator {
    pub(crate) fn new(base: &str, turn: &Turn) -> TextAccumulator {
        let key = numbered(base, turn.so_far.core.turns);
        TextAccumulator {
            key,
            name: Some(base.to_owned()),
            description: None,
            bordered: false,
            begun: false,
            held: None,
        }
    }

    /// Keeps pushed texts as separate parts; by default they are one text.
    pub(crate) fn bordered(self, bordered: bool) -> TextAccumulator {
        TextAccumulator { bordered, ..self }
    }

    /// Sets name and description, where clients expect certain ones.
    pub(crate) fn called(self, name: &str, description: String) -> TextAccumulator {
        TextAccumulator { name: Some(name.to_owned()), description: Some(description), ..self }
    }

    /// Holds further parts, and returns the ones held so far.
    pub(crate) fn push(&mut self, parts: Vec<Part>) -> Option<AgentEvent> {
        let before = self.release(false);
        self.held = Some((parts, Instant::now() + if self.begun { NEXT } else { FIRST }));
        before
    }

    /// Waits until the hold time is over and returns the held parts; waits for ever if nothing is held.
    pub(crate) async fn lull(&mut self) -> AgentEvent {
        loop {
            match &self.held {
                Some((_, until)) => sleep_until(*until).await,
                None => std::future::pending().await,
            }
            if let Some(emission) = self.release(false) {
                return emission;
            }
        }
    }

    /// The held parts, as a chunk or as the last one.
    pub(crate) fn release(&mut self, last: bool) -> Option<AgentEvent> {
        let (parts, _) = self.held.take()?;
        let append = std::mem::replace(&mut self.begun, true);
        let (name, description) = if append { (None, None) } else { (self.name.clone(), self.description.clone()) };
        let key = self.key.clone();
        let bordered = append && self.bordered;
        Some(AgentEvent::Artifact(ArtifactChunk {
            key,
            name,
            description,
            parts,
            append,
            bordered,
            last,
            ..ArtifactChunk::default()
        }))
    }

    /// Starts again: the next chunk replaces the artifact.
    pub(crate) fn again(&mut self) {
        self.begun = false;
        self.held = None;
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun || self.held.is_some()
    }
}

/// The key of an artifact without an id of its own. Each turn of a task makes another artifact; each attempt of a
/// turn makes the same.
pub(crate) fn numbered(base: &str, turn: u32) -> String {
    match turn {
        0 | 1 => base.to_owned(),
        n => format!("{base}-{n}"),
    }
}
