//! An artifact that grows while its agent speaks.
//!
//! What comes is held for a moment: if nothing follows it and the turn ends, it goes out as the artifact's last chunk, and a
//! short answer is one chunk and not two. Nobody waits longer than that moment for anything; once somebody reads along it is
//! so short that a model's words come as it says them.

use std::time::Duration;

use model::Part;
use model::ports::agent::{Emission, Piece, Turn};
use tokio::time::{Instant, sleep_until};

/// How long the first words are held, and how long those that follow. Tests say what is one chunk, also on a machine that is
/// busy with other things.
const FIRST: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 20 });
const NEXT: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 1 });

pub(crate) struct Growing {
    key: String,
    name: Option<String>,
    description: Option<String>,
    /// Every push begins a part of its own.
    bordered: bool,
    begun: bool,
    held: Option<(Vec<Part>, Instant)>,
}

impl Growing {
    pub(crate) fn new(base: &str, turn: &Turn) -> Growing {
        let key = numbered(base, turn.so_far.core.turns);
        Growing { key, name: Some(base.to_owned()), description: None, bordered: false, begun: false, held: None }
    }

    /// Keeps the borders between the texts that are pushed, which otherwise are one text.
    pub(crate) fn bordered(self, bordered: bool) -> Growing {
        Growing { bordered, ..self }
    }

    /// Its name and description, where its readers look for certain ones.
    pub(crate) fn called(self, name: &str, description: String) -> Growing {
        Growing { name: Some(name.to_owned()), description: Some(description), ..self }
    }

    /// Holds further parts, and hands out what was held until now.
    pub(crate) fn push(&mut self, parts: Vec<Part>) -> Option<Emission> {
        let before = self.release(false);
        self.held = Some((parts, Instant::now() + if self.begun { NEXT } else { FIRST }));
        before
    }

    /// What has been held long enough; waits for it, for ever if nothing is held.
    pub(crate) async fn lull(&mut self) -> Emission {
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

    /// What is held, with more to come or as the last.
    pub(crate) fn release(&mut self, last: bool) -> Option<Emission> {
        let (parts, _) = self.held.take()?;
        let append = std::mem::replace(&mut self.begun, true);
        let (name, description) = if append { (None, None) } else { (self.name.clone(), self.description.clone()) };
        let key = self.key.clone();
        let bordered = append && self.bordered;
        Some(Emission::Artifact(Piece { key, name, description, parts, append, bordered, last, ..Piece::default() }))
    }

    /// Begins again: what was said so far is replaced by what comes.
    pub(crate) fn again(&mut self) {
        self.begun = false;
        self.held = None;
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun || self.held.is_some()
    }
}

/// The key of an artifact that the agent itself has no id for. A later turn of a task makes another artifact; another attempt
/// of the same turn makes the same.
pub(crate) fn numbered(base: &str, turn: u32) -> String {
    match turn {
        0 | 1 => base.to_owned(),
        n => format!("{base}-{n}"),
    }
}
