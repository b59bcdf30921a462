//! One turn: queued, leased, reported on, queued again if its worker is lost.

use std::sync::Arc;

use model::ports::agent::{AgentEvent, AgentMessage, EndState, Turn, TurnEnd};
use model::ports::worker::{ReportError, WorkerReport};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::pool::{PendingReport, PoolEntry, WorkerPool};
use crate::emitter::Emitter;
use crate::events::EventReader;
use crate::turn_json;

pub(super) async fn run(pool: Arc<WorkerPool>, turn: Turn, history: bool, attempts: u32, emitter: Emitter) {
    let Some(told) = tell(&turn, history).await else {
        return emitter.fail("the conversation could not be read").await;
    };
    let (place, inbox) = pool.enter(turn.id, told);
    let hearing = EventReader::new(&turn);
    let mut run = Run { attempts, place, turn, history, hearing, emitter, worker: None, cancelled: false };
    // None where the end was emitted already.
    if let Some(end) = Box::pin(run.listen(inbox)).await {
        run.place.leave();
        run.emitter.say(end).await;
    }
}

async fn tell(turn: &Turn, history: bool) -> Option<String> {
    turn_json::write(turn, history)
        .await
        .inspect_err(|fault| {
            tracing::error!(task = %turn.task, cause = %fault.cause_text(), "cannot read a conversation: {fault}");
        })
        .ok()
}

struct Run {
    place: PoolEntry,
    turn: Turn,
    history: bool,
    hearing: EventReader,
    emitter: Emitter,
    /// The worker that holds the turn.
    worker: Option<String>,
    cancelled: bool,
    attempts: u32,
}

/// The outcome of a worker's report.
enum Heard {
    More,
    GivenBack(Option<String>),
    End(AgentEvent),
}

impl Run {
    /// Runs until the turn ends; returns the end.
    async fn listen(&mut self, mut inbox: mpsc::Receiver<PendingReport>) -> Option<AgentEvent> {
        loop {
            self.greet().await;
            let until = self.place.until();
            let silence = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.turn.cancelled.clone(), if !self.cancelled => {
                    self.cancelled = true;
                    if !self.place.cancel() {
                        return Some(end(EndState::Canceled, None));
                    }
                }
                Some(said) = inbox.recv() => match self.hear(said).await {
                    Heard::More => {}
                    Heard::GivenBack(says) => {
                        if let Some(end) = self.again(says.as_deref().unwrap_or("the worker gave it back")).await {
                            return Some(end);
                        }
                    }
                    Heard::End(end) => return Some(end),
                },
                () = silence => {
                    if self.place.expire() {
                        tracing::warn!(turn = %self.turn.id, worker = ?self.worker, "a worker's lease expired");
                        if let Some(end) = self.again("the worker was not heard of any more").await {
                            return Some(end);
                        }
                    }
                }
                () = self.place.changed() => {}
                emission = self.hearing.lull() => self.emitter.say(emission).await,
            }
        }
    }

    /// Emits the working state once a worker has the turn.
    async fn greet(&mut self) {
        let before = std::mem::replace(&mut self.worker, self.place.worker());
        if before.is_none() && self.worker.is_some() {
            self.emitter.say(AgentEvent::Working(None)).await;
        }
    }

    /// Queues the turn again; after its last attempt, returns its end.
    async fn again(&mut self, why: &str) -> Option<AgentEvent> {
        self.worker = None;
        if self.cancelled {
            return Some(end(EndState::Canceled, None));
        }
        if self.turn.attempt >= self.attempts {
            let says = format!("{why}; the turn was tried {} times and is not tried again", self.turn.attempt);
            return Some(end(EndState::Failed, Some(AgentMessage::text(says))));
        }
        self.turn.attempt += 1;
        self.hearing.again();
        let Some(told) = tell(&self.turn, self.history).await else {
            return Some(end(EndState::Failed, Some(AgentMessage::text("the conversation could not be read"))));
        };
        self.place.offer_again(told);
        let says = format!("{why}; waiting for another");
        self.emitter.say(AgentEvent::Working(Some(AgentMessage::text(says)))).await;
        None
    }

    /// Emits a worker's report. The worker is answered once it is emitted; for the last one before that, since
    /// nothing runs after it.
    async fn hear(&mut self, said: PendingReport) -> Heard {
        let PendingReport { lease, delivery, word, answer } = said;
        self.greet().await;
        // The requester may be gone; its report counts all the same.
        if let Some(over) = self.place.repeated(delivery.as_deref()) {
            let _ = answer.send(Ok(over));
            return Heard::More;
        }
        if !self.place.is_held_by(&lease) {
            let _ = answer.send(Err(ReportError::NotYours));
            return Heard::More;
        }
        let (mut all, mut last) = match self.understand(&word) {
            Ok(understood) => understood,
            Err(says) => {
                let _ = answer.send(Err(ReportError::Unreadable(says)));
                return Heard::More;
            }
        };
        if let WorkerReport::Fail { says, retryable: true } = word {
            self.place.keep(delivery, true);
            self.place.release();
            let _ = answer.send(Ok(true));
            return Heard::GivenBack(says);
        }
        if matches!(all.last(), Some(AgentEvent::End(_) | AgentEvent::Reply(_))) {
            last = all.pop();
        }
        for emission in all {
            self.emitter.say(emission).await;
        }
        self.place.keep(delivery, last.is_some());
        let over = last.is_some();
        if over {
            self.place.leave();
        }
        let _ = answer.send(Ok(over));
        last.map_or(Heard::More, Heard::End)
    }

    /// All events or none: they are parsed once without effects first.
    fn understand(&mut self, word: &WorkerReport) -> Result<(Vec<AgentEvent>, Option<AgentEvent>), String> {
        match word {
            WorkerReport::Alive => Ok((Vec::new(), None)),
            WorkerReport::Events(events) => {
                let mut trial = EventReader::new(&self.turn);
                let mut ended = false;
                for (i, event) in events.iter().enumerate() {
                    if ended {
                        return Err(format!("events[{i}]: the turn has ended before it; leave it out"));
                    }
                    let heard = trial.hear(event).map_err(|says| format!("events[{i}]: {says}"))?;
                    ended = matches!(heard.last(), Some(AgentEvent::End(_) | AgentEvent::Reply(_)));
                }
                let mut all = Vec::new();
                for event in events {
                    all.extend(self.hearing.hear(event)?);
                }
                Ok((all, None))
            }
            WorkerReport::Deliver(event) => {
                let mut all = match event {
                    Some(event) => {
                        EventReader::new(&self.turn).hear(event)?;
                        self.hearing.hear(event)?
                    }
                    None => Vec::new(),
                };
                if matches!(all.last(), Some(AgentEvent::End(_) | AgentEvent::Reply(_))) {
                    return Ok((all, None));
                }
                all.extend(self.hearing.finish());
                Ok((all, Some(end(EndState::Completed, None))))
            }
            WorkerReport::Fail { retryable: true, .. } => Ok((Vec::new(), None)),
            WorkerReport::Fail { says, retryable: false } => {
                let all = self.hearing.finish().into_iter().collect();
                let words = says.clone().filter(|says| !says.is_empty()).map(AgentMessage::text);
                Ok((all, Some(end(EndState::Failed, words))))
            }
        }
    }
}

fn end(state: EndState, words: Option<AgentMessage>) -> AgentEvent {
    AgentEvent::End(TurnEnd { state, words })
}
