//! The steps. Scripts, text commands and `messageId` prefixes all become these steps; the player runs nothing else.

use std::time::Duration;

use model::ports::agent::{AgentMessage, ArtifactChunk, EndState, TurnEnd};
use model::{Json, Part};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Working(Option<AgentMessage>),
    Sleep(Duration),
    Artifact(Box<Chunks>),
    Metadata(Json),
    Reply(AgentMessage),
    /// Ends the turn; in an interrupted state the steps after it wait for the next message.
    End(TurnEnd),
    /// Waits until cancelled.
    Hang,
    /// A status at each interval, until cancelled.
    Beat(Duration),
}

/// An artifact, sent this many times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chunks {
    /// The first chunk carries its `append`, the last its `last`.
    pub(super) piece: ArtifactChunk,
    pub(super) content: Content,
    pub(super) count: u32,
    pub(super) every: Duration,
    /// The caller chose the key; otherwise it is the step's place.
    pub(super) named: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The piece's own parts, in each chunk.
    Given,
    /// The parts of the message that is answered.
    Echo,
    /// A text with the chunk's number.
    Numbered,
}

impl Step {
    pub(super) fn end(state: EndState, words: Option<AgentMessage>) -> Step {
        Step::End(TurnEnd { state, words })
    }

    pub(super) fn say(state: EndState, text: &str) -> Step {
        Step::end(state, Some(AgentMessage::text(text)))
    }

    pub(super) fn complete() -> Step {
        Step::end(EndState::Completed, None)
    }

    /// One whole artifact, whose key [`settle_keys`] sets.
    pub(super) fn artifact(name: &str, part: Part) -> Step {
        let name = Some(name.to_owned());
        Chunks::once(ArtifactChunk { name, parts: vec![part], ..ArtifactChunk::default() }, Content::Given)
    }

    pub(super) fn echo() -> Step {
        Chunks::once(ArtifactChunk::default(), Content::Echo)
    }

    /// The turn ends here, and the rest continues with the next message.
    pub(super) fn interrupts(&self) -> bool {
        match self {
            Step::End(end) => matches!(end.state, EndState::InputRequired | EndState::AuthRequired),
            Step::Working(_) | Step::Sleep(_) | Step::Artifact(_) | Step::Metadata(_) => false,
            Step::Reply(_) | Step::Hang | Step::Beat(_) => false,
        }
    }

    /// Only a cancel ends it.
    pub(super) fn waits_for_cancel(&self) -> bool {
        match self {
            Step::Hang | Step::Beat(_) => true,
            Step::Working(_) | Step::Sleep(_) | Step::Artifact(_) | Step::Metadata(_) => false,
            Step::Reply(_) | Step::End(_) => false,
        }
    }

    /// Steps after it are never played.
    pub(super) fn is_last(&self) -> bool {
        match self {
            Step::End(_) => !self.interrupts(),
            Step::Reply(_) | Step::Hang | Step::Beat(_) => true,
            Step::Working(_) | Step::Sleep(_) | Step::Artifact(_) | Step::Metadata(_) => false,
        }
    }
}

impl Chunks {
    fn once(piece: ArtifactChunk, content: Content) -> Step {
        let piece = ArtifactChunk { last: true, ..piece };
        Step::Artifact(Box::new(Chunks { piece, content, count: 1, every: Duration::ZERO, named: false }))
    }
}

/// Whether the first emission is a direct message.
pub(super) fn replies(steps: &[Step]) -> bool {
    let silent = |step: &&Step| matches!(step, Step::Sleep(_) | Step::Metadata(_));
    matches!(steps.iter().find(|step| !silent(step)), Some(Step::Reply(_)))
}

/// Whether the steps are played again after a crash, unless a script says otherwise. Steps act on their own task
/// alone and restart their artifacts, so a second attempt repeats nothing outside it. Steps that only a cancel ends
/// are not repeated: the caller who would cancel may be gone, and the task would run for ever.
pub(super) fn may_repeat(steps: &[Step]) -> bool {
    let end = steps.iter().position(Step::is_last).map_or(steps.len(), |last| last + 1);
    !steps[..end].iter().any(Step::waits_for_cancel)
}

/// Sets the key of every artifact without a name: its step's index and, for a message that is not the task's first,
/// the message's index. So a key is the same in every attempt and never that of another message's artifact.
pub(super) fn settle_keys(steps: &mut [Step], message: usize) {
    for (i, step) in steps.iter_mut().enumerate() {
        if let Step::Artifact(chunks) = step
            && !chunks.named
        {
            chunks.piece.key = if message == 0 { format!("a{i}") } else { format!("m{message}a{i}") };
        }
    }
}
