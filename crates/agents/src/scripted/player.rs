//! Plays steps as a stream. It checks for a cancel before each emission and during every wait, and stops there.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{self, Either};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use model::ports::agent::{Cancelled, Emission, End, EndState, Piece, Words};
use model::{Inbound, Part};

use super::step::{ChunkContent, Chunks, ScriptStep};

struct Player {
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
) -> BoxStream<'static, Emission> {
    let player = Player { steps: steps.into_iter(), under_way: None, newest, cancelled, over: false };
    stream::unfold(player, |mut player| async move { Some((player.next().await?, player)) }).boxed()
}

impl Player {
    async fn next(&mut self) -> Option<Emission> {
        if self.over {
            return None;
        }
        loop {
            if self.cancelled.clone().now_or_never().is_some() {
                return self.end(End { state: EndState::Canceled, words: None });
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
                Some(ScriptStep::Working(words)) => return Some(Emission::Working(words)),
                Some(ScriptStep::Metadata(json)) => return Some(Emission::Metadata(json)),
                Some(ScriptStep::Artifact(chunks)) => self.under_way = Some((Repeat::Chunks(chunks), 0)),
                Some(ScriptStep::Beat(every)) => self.under_way = Some((Repeat::Beat(every), 0)),
                Some(ScriptStep::Sleep(time)) => {
                    self.wait(time).await;
                }
                Some(ScriptStep::Hang) => self.cancelled.clone().await,
                Some(ScriptStep::Reply(words)) => {
                    self.over = true;
                    return Some(Emission::Reply(words));
                }
                Some(ScriptStep::End(end)) => return self.end(end),
                None => return self.end(End { state: EndState::Completed, words: None }),
            }
        }
    }

    fn end(&mut self, end: End) -> Option<Emission> {
        self.over = true;
        Some(Emission::End(end))
    }

    /// Waits; false if cancelled.
    async fn wait(&self, time: Duration) -> bool {
        if time.is_zero() {
            return true;
        }
        let sleep = std::pin::pin!(tokio::time::sleep(time));
        matches!(future::select(self.cancelled.clone(), sleep).await, Either::Right(_))
    }

    fn emit(&mut self, repeat: Repeat, spoken: u32) -> Emission {
        match repeat {
            Repeat::Beat(_) => {
                let words = Words::text(format!("still at work, {} so far", spoken.saturating_add(1)));
                self.under_way = Some((repeat, spoken.saturating_add(1)));
                Emission::Working(Some(words))
            }
            Repeat::Chunks(chunks) if spoken + 1 < chunks.count => {
                let piece = Piece { last: false, ..self.piece(&chunks, chunks.piece.clone(), spoken) };
                self.under_way = Some((Repeat::Chunks(chunks), spoken + 1));
                Emission::Artifact(piece)
            }
            Repeat::Chunks(mut chunks) => {
                let piece = std::mem::take(&mut chunks.piece);
                Emission::Artifact(self.piece(&chunks, piece, spoken))
            }
        }
    }

    fn piece(&self, chunks: &Chunks, mut piece: Piece, place: u32) -> Piece {
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
