//! Plays steps as a stream. It checks for a cancel before each emission and during every wait, and stops there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{self, Either};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use model::ports::agent::{AgentEvent, AgentMessage, ArtifactChunk, Cancelled, EndState, TurnEnd};
use model::{Inbound, Part};

use super::step::{ChunkContent, Chunks, ScriptStep};

struct ScriptRunner {
    steps: std::vec::IntoIter<ScriptStep>,
    /// The unfinished step, and how often it has emitted.
    under_way: Option<(Repeat, u32)>,
    /// The message that is answered.
    newest: Option<Arc<Inbound>>,
    cancelled: Cancelled,
    over: bool,
}

enum Repeat {
    Chunks(Box<Chunks>),
    Beat(Duration),
}

pub(super) fn play(
    steps: Vec<ScriptStep>,
    newest: Option<Arc<Inbound>>,
    cancelled: Cancelled,
) -> BoxStream<'static, AgentEvent> {
    let player = ScriptRunner { steps: steps.into_iter(), under_way: None, newest, cancelled, over: false };
    stream::unfold(player, |mut player| async move { Some((player.next().await?, player)) }).boxed()
}

impl ScriptRunner {
    async fn next(&mut self) -> Option<AgentEvent> {
        if self.over {
            return None;
        }
        loop {
            if self.cancelled.clone().now_or_never().is_some() {
                return self.end(TurnEnd { state: EndState::Canceled, words: None });
            }
            if let Some((repeat, spoken)) = self.under_way.take() {
                let pause = match &repeat {
                    Repeat::Chunks(chunks) if spoken > 0 => chunks.every,
                    Repeat::Chunks(_) => Duration::ZERO,
                    Repeat::Beat(every) => *every,
                };
                if !self.wait(pause).await {
                    continue;
                }
                return Some(self.emit(repeat, spoken));
            }
            match self.steps.next() {
                Some(ScriptStep::Working(words)) => return Some(AgentEvent::Working(words)),
                Some(ScriptStep::Metadata(json)) => return Some(AgentEvent::Metadata(json)),
                Some(ScriptStep::Artifact(chunks)) => self.under_way = Some((Repeat::Chunks(chunks), 0)),
                Some(ScriptStep::Beat(every)) => self.under_way = Some((Repeat::Beat(every), 0)),
                Some(ScriptStep::Sleep(time)) => {
                    self.wait(time).await;
                }
                Some(ScriptStep::Hang) => self.cancelled.clone().await,
                Some(ScriptStep::Reply(words)) => {
                    self.over = true;
                    return Some(AgentEvent::Reply(words));
                }
                Some(ScriptStep::End(end)) => return self.end(end),
                None => return self.end(TurnEnd { state: EndState::Completed, words: None }),
            }
        }
    }

    fn end(&mut self, end: TurnEnd) -> Option<AgentEvent> {
        self.over = true;
        Some(AgentEvent::End(end))
    }

    /// Waits; false if cancelled.
    async fn wait(&self, time: Duration) -> bool {
        if time.is_zero() {
            return true;
        }
        let sleep = std::pin::pin!(tokio::time::sleep(time));
        matches!(future::select(self.cancelled.clone(), sleep).await, Either::Right(_))
    }

    fn emit(&mut self, repeat: Repeat, spoken: u32) -> AgentEvent {
        match repeat {
            Repeat::Beat(_) => {
                let words = AgentMessage::text(format!("still at work, {} so far", spoken.saturating_add(1)));
                self.under_way = Some((repeat, spoken.saturating_add(1)));
                AgentEvent::Working(Some(words))
            }
            Repeat::Chunks(chunks) if spoken + 1 < chunks.count => {
                let piece = ArtifactChunk { last: false, ..self.piece(&chunks, chunks.piece.clone(), spoken) };
                self.under_way = Some((Repeat::Chunks(chunks), spoken + 1));
                AgentEvent::Artifact(piece)
            }
            Repeat::Chunks(mut chunks) => {
                let piece = std::mem::take(&mut chunks.piece);
                AgentEvent::Artifact(self.piece(&chunks, piece, spoken))
            }
        }
    }

    fn piece(&self, chunks: &Chunks, mut piece: ArtifactChunk, place: u32) -> ArtifactChunk {
        piece.append |= place > 0;
        match chunks.content {
            ChunkContent::Given => {}
            ChunkContent::Numbered => piece.parts = vec![Part::text(format!("chunk {place} lorem ipsum "))],
            ChunkContent::Echo => {
                piece.parts = self.newest.as_ref().map(|inbound| inbound.message.parts.clone()).unwrap_or_default();
            }
        }
        piece
    }
}
