//! One run of an agent, whose output is written to the log.
//!
//! The pump polls the agent while a commit is in flight, so that output emitted meanwhile is the next batch; it stops
//! polling above a bound, so that an agent never outruns the store. Only the pump writes the turn's events, under an
//! epoch: once another holder has taken the turn, the store refuses and the pump stops silently.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::stream::BoxStream;
use futures_util::{FutureExt, StreamExt};
use model::ports::Future;
use model::ports::agent::{Admission, Agent, AgentEvent, AgentMessage, EndState, Turn};
use model::ports::store::Commit;
use model::{Body, Fault, Inbound, State, Task, TurnId};

use crate::backoff::Backoff;
use crate::billing::{self, Reserved, TurnEnding};
use crate::live::{AppendDraft, AppendError, Live, TurnHandle};
use crate::memory;
use crate::pending::{Pending, Spoken, Then};
use crate::pending_children::ChildTask;
use crate::{RunningTurn, Shared, blobs, children, conversation};

/// Emissions taken from a busy agent before a commit begins.
const LOOK: usize = 1_024;

/// A turn that has begun in the log and now runs.
pub(crate) struct TurnRun {
    pub(crate) shared: Arc<Shared>,
    pub(crate) live: Arc<Live>,
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) turn: TurnId,
    /// Attempt number, from 1.
    pub(crate) attempt: u32,
    /// As in [`Turn::whole`].
    pub(crate) whole: bool,
    pub(crate) handle: TurnHandle,
    pub(crate) running: RunningTurn,
}

impl TurnRun {
    /// Runs the turn as a task of its own.
    pub(crate) fn spawn(self, ahead: Option<BoxStream<'static, AgentEvent>>) {
        self.live.set_turn(Some(self.handle.clone()));
        tokio::spawn(self.run(ahead));
    }

    async fn run(mut self, ahead: Option<BoxStream<'static, AgentEvent>>) {
        let mut ahead = ahead;
        loop {
            let stream = match ahead.take() {
                Some(stream) => stream,
                None => match self.begin().await {
                    Ok(stream) => stream,
                    Err(fault) => failed_stream(&fault),
                },
            };
            let pumped = match AssertUnwindSafe(self.pump(stream)).catch_unwind().await {
                Ok(pumped) => pumped,
                // A defect of the engine, or an agent whose stream panics when dropped: the turn fails with a message.
                Err(_) => self.pump(failed_stream(&Fault::internal("the turn panicked"))).await,
            };
            match pumped {
                Ok(Then::NextTurn(turn)) => {
                    (self.turn, self.attempt, self.whole) = (turn, 1, false);
                    self.handle = TurnHandle::new();
                    self.live.set_turn(Some(self.handle.clone()));
                }
                Ok(Then::Over | Then::GoOn) => break,
                Err(failed) => {
                    match failed {
                        AppendError::Lost => tracing::warn!(task = %self.live.id, "another process took over the turn"),
                        failed => {
                            let fault = Fault::from(failed);
                            tracing::error!(task = %self.live.id, cause = %fault.cause_text(), "a turn was abandoned: {fault}");
                        }
                    }
                    break;
                }
            }
        }
        self.live.set_turn(None);
        drop(self.running);
    }

    async fn begin(&self) -> Result<BoxStream<'static, AgentEvent>, Fault> {
        let (task, messages) = self.live.turn_view()?;
        let turn = prepare(&self.shared, task, self.turn, messages, &self.handle).await?;
        Ok(start(&self.agent, Turn { whole: self.whole, ..turn }))
    }

    /// Writes the agent's output to the log until the turn is over.
    async fn pump(&self, stream: BoxStream<'static, AgentEvent>) -> Result<Then, AppendError> {
        let limits = &self.shared.limits;
        let mut stream = Some(stream);
        let mut pending = Pending::new(&*self.live.snapshot().map_err(AppendError::Fault)?, &self.shared.limits);
        let (mut in_flight, mut bears) = (None, false);
        let mut cancelling = false;
        let memory = &self.shared.lives.memory;
        let mut unwritten = memory.share();
        let grace = tokio::time::sleep(Duration::MAX);
        tokio::pin!(grace);
        loop {
            if in_flight.is_none() {
                if pending.ended() {
                    self.handle.pending_children.clear();
                } else if pending.is_empty() && !self.handle.pending_children.is_empty() {
                    // More children than one commit takes: the remaining ones need an event to be committed with.
                    pending.push(AgentEvent::Working(None));
                }
                if !pending.is_empty() {
                    let children = self.handle.pending_children.take();
                    bears = !children.is_empty();
                    in_flight = Some(self.scribe().write(pending.take(), children));
                    unwritten.set(0);
                } else if pending.ended() {
                    // The last commit ended the turn; nothing is left to write.
                    return Ok(Then::Over);
                }
            }
            let room = pending.bytes() < memory::uncommitted(memory, limits);
            tokio::select! {
                biased;
                done = async { match in_flight.as_mut() { Some(commit) => commit.await, None => std::future::pending().await } } => {
                    in_flight = None;
                    match done? {
                        // Children opened in one commit often finish together: their results share one commit.
                        Then::GoOn if bears && !pending.ended() => {
                            if let Some(open) = stream.as_mut()
                                && let Some(first) = ready(open).await
                            {
                                listen(open, first, &mut pending, cancelling).await;
                            }
                            if pending.ended() {
                                stream = None;
                            }
                        }
                        Then::GoOn => {}
                        then @ (Then::Over | Then::NextTurn(_)) => return Ok(then),
                    }
                }
                () = self.handle.lost.cancelled() => return Err(AppendError::Lost),
                () = self.handle.cancel.cancelled(), if !cancelling && !pending.ended() => {
                    cancelling = true;
                    grace.as_mut().reset(tokio::time::Instant::now() + Duration::from_millis(limits.cancel_grace_ms));
                }
                () = &mut grace, if cancelling && !pending.ended() => {
                    stream = None;
                    pending.end(EndState::Canceled, None);
                }
                () = self.handle.timed_out.notified(), if !pending.ended() => {
                    stream = None;
                    let words = format!("the agent did not finish within {} s", limits.turn_timeout_ms as f64 / 1e3);
                    pending.end(EndState::Failed, Some(AgentMessage::text(words)));
                }
                // Last, so that an agent with constant output cannot starve cancel and timeout.
                emission = async { match stream.as_mut() { Some(stream) => stream.next().await, None => std::future::pending().await } },
                    if room && !pending.ended() =>
                {
                    if let Some(open) = stream.as_mut() {
                        listen(open, emission, &mut pending, cancelling).await;
                    }
                    if pending.total_bytes() > limits.turn_bytes {
                        let words = format!("the agent said more than {} bytes in one turn", limits.turn_bytes);
                        pending.end(EndState::Failed, Some(AgentMessage::text(words)));
                    } else if memory.is_spent() && self.live.held() + pending.bytes() > memory::PART {
                        pending.end(EndState::Failed, Some(AgentMessage::text(memory::spent())));
                    }
                    unwritten.set(pending.bytes());
                    if pending.ended() {
                        stream = None;
                    }
                }
            }
        }
    }

    fn scribe(&self) -> TurnWriter {
        let (shared, live, agent) = (self.shared.clone(), self.live.clone(), self.agent.clone());
        TurnWriter { shared, live, agent, turn: self.turn, attempt: self.attempt }
    }
}

/// Writes a turn's output; it is independent of the pump.
struct TurnWriter {
    shared: Arc<Shared>,
    live: Arc<Live>,
    agent: Arc<dyn Agent>,
    turn: TurnId,
    attempt: u32,
}

impl TurnWriter {
    /// Writes the output together with the children to be opened.
    fn write(self, spoken: Spoken, children: Vec<ChildTask>) -> Future<'static, Result<Then, AppendError>> {
        if children.is_empty() {
            return Box::pin(self.commit(spoken, children));
        }
        // Spawned, because opened children must run even if the parent's turn is lost meanwhile.
        let written = tokio::spawn(self.commit(spoken, children));
        Box::pin(async move { written.await.unwrap_or_else(|error| Err(AppendError::Fault(Fault::internal(error)))) })
    }

    /// Whether the log still has this attempt of this turn open. A settled task has no holder.
    fn is_ours(&self, task: &Task) -> bool {
        let open = task.core.turn.map(|turn| (turn.id, turn.attempt));
        task.core.is_settled() || open == Some((self.turn, self.attempt))
    }

    /// Commits, and waits while the disk is full: a running turn pauses and loses nothing.
    async fn commit(self, mut spoken: Spoken, mut children: Vec<ChildTask>) -> Result<Then, AppendError> {
        let (mut backoff, mut tried, mut unsure) = (Backoff::new(), None, false);
        let (mut then, mut lost, mut reserved, mut bears) = (Then::GoOn, false, None, false);
        loop {
            let births: Vec<Commit> = children.iter().map(ChildTask::commit).collect();
            let outcome = self.live.append_again(&self.shared, &mut tried, |task| {
                lost = !self.is_ours(task);
                if lost {
                    return Ok(AppendDraft::default());
                }
                reserved = None;
                let (mut bodies, next) = resolve(&mut spoken, task);
                then = next;
                if let Then::NextTurn(turn) = then
                    && let Some(till) = self.agent.till()
                {
                    match till.hold(&billing::asked_next(task, turn, self.shared.clock.now())) {
                        Ok(held) => reserved = held.map(|held| Reserved::new(&till, held)),
                        Err(fault) => {
                            spoken.refuse_next(unpaid(&fault));
                            (bodies, then) = resolve(&mut spoken, task);
                        }
                    }
                }
                if let (Some(Body::TurnStarted { hold, .. }), Some(reserved)) = (bodies.last_mut(), &reserved) {
                    *hold = Some(reserved.hold());
                }
                // The turn itself has completed, even if the next turn was refused.
                let state = spoken.is_refused().then_some(State::Completed);
                let draft = AppendDraft::held(bodies, task, &*self.shared.store);
                let along = reserved.as_ref().map(Reserved::along);
                bears = !draft.bodies.is_empty();
                Ok(AppendDraft { along, ending: TurnEnding { state, cut_off: false }, births: births.clone(), ..draft })
            });
            match outcome.await {
                Err(AppendError::Met(met)) if let Some(fault) = reserved.as_ref().and_then(|r| r.refused(&met)) => {
                    spoken.refuse_next(unpaid(&fault));
                }
                Err(AppendError::Met(met)) if ChildTask::sort_out(&mut children, &met) => {}
                Ok(_) if lost => return Err(AppendError::Lost),
                Ok(task) => {
                    let stops = task.core.is_settled() || task.core.cancel_requested;
                    if unsure {
                        // Any of the drafts may be in the log; the log decides how the turn continues.
                        then = match task.core.turn {
                            Some(open) if open.id == self.turn => Then::GoOn,
                            Some(open) => Then::NextTurn(open.id),
                            None => Then::Over,
                        };
                    }
                    drop(task);
                    for child in children.into_iter().filter(|_| bears) {
                        child.begin(&self.shared, stops).await;
                    }
                    return Ok(then);
                }
                Err(AppendError::Trouble(trouble)) => {
                    unsure |= tried.is_some();
                    backoff.pause(&self.shared, self.live.id, trouble).await.map_err(AppendError::Trouble)?;
                }
                Err(failed) => return Err(failed),
            }
        }
    }
}

/// The message for callers whose messages no turn takes up.
fn unpaid(fault: &Fault) -> String {
    format!("what was said meanwhile was not taken up: {fault}")
}

/// The output as events; empty for a task that was settled meanwhile.
fn resolve(spoken: &mut Spoken, task: &Task) -> (Vec<model::Body>, Then) {
    if task.core.is_settled() {
        return (Vec::new(), Then::Over);
    }
    spoken.resolve(task)
}

/// Takes the agent's available output without waiting for more.
async fn listen(
    stream: &mut BoxStream<'static, AgentEvent>,
    first: Option<AgentEvent>,
    pending: &mut Pending,
    cancelling: bool,
) {
    let mut next = Some(first);
    while let Some(emission) = next {
        match emission {
            Some(emission) => pending.push(emission),
            // A stream that simply ends has completed its work, or has stopped as asked.
            None if cancelling => pending.end(EndState::Canceled, None),
            None => pending.end(EndState::Completed, None),
        }
        if pending.ended() || pending.len() >= LOOK || pending.bytes() > 64 << 10 {
            return;
        }
        next = ready(stream).await;
    }
}

/// The next emission if one is available now.
async fn ready(stream: &mut BoxStream<'static, AgentEvent>) -> Option<Option<AgentEvent>> {
    std::future::poll_fn(|cx| match stream.poll_next_unpin(cx) {
        Poll::Ready(emission) => Poll::Ready(Some(emission)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Runs an agent before its task's first commit, until it first waits. Afterwards `pending` knows whether the turn is
/// over.
pub(crate) fn run_ahead(stream: &mut BoxStream<'static, AgentEvent>, pending: &mut Pending) {
    let ahead = async {
        if let Some(first) = ready(stream).await {
            listen(stream, first, pending, false).await;
        }
    };
    // Takes only what is available.
    ahead.now_or_never();
}

/// The input of an agent's turn.
pub(crate) async fn prepare(
    shared: &Arc<Shared>,
    task: Arc<Task>,
    turn: TurnId,
    mut messages: Vec<Arc<model::Inbound>>,
    handle: &TurnHandle,
) -> Result<Turn, Fault> {
    for message in &mut messages {
        *message = blobs::load_inbound(&*shared.store, &task.tenant, message).await?;
    }
    let so_far = blobs::load_task(&*shared.store, task).await?;
    Ok(Turn {
        id: turn,
        attempt: so_far.core.turn.map_or(1, |open| open.attempt),
        task: so_far.id,
        context: so_far.context.clone(),
        tenant: so_far.tenant.clone(),
        caller: so_far.owner.clone(),
        messages,
        bound: so_far.bound.clone(),
        earlier: conversation::of(shared, &so_far),
        children: children::of(shared, &so_far, handle),
        so_far,
        cancelled: handle.cancelled(),
        whole: false,
    })
}

/// Asks an agent whether it admits a message; a panic counts as a refusal.
pub(crate) fn admit(agent: &Arc<dyn Agent>, message: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
    let asked = std::panic::catch_unwind(AssertUnwindSafe(|| agent.admit(message, task)));
    asked.unwrap_or_else(|_| Err(Fault::internal("the agent panicked on being asked")))
}

/// Starts an agent; a panic fails only this turn.
pub(crate) fn start(agent: &Arc<dyn Agent>, turn: Turn) -> BoxStream<'static, AgentEvent> {
    let stream = match std::panic::catch_unwind(AssertUnwindSafe(|| agent.run(turn))) {
        Ok(stream) => stream,
        Err(_) => return failed_stream(&Fault::internal("the agent panicked")),
    };
    let guarded = futures_util::stream::unfold(Some(stream), |stream| async move {
        let mut stream = stream?;
        match AssertUnwindSafe(stream.next()).catch_unwind().await {
            Ok(Some(emission)) => Some((emission, Some(stream))),
            Ok(None) => None,
            Err(_) => Some((failure("the agent failed unexpectedly"), None)),
        }
    });
    guarded.boxed()
}

fn failed_stream(fault: &Fault) -> BoxStream<'static, AgentEvent> {
    tracing::error!(cause = %fault.cause_text(), "a turn could not begin: {fault}");
    futures_util::stream::iter([failure("the turn could not begin")]).boxed()
}

fn failure(text: &str) -> AgentEvent {
    AgentEvent::End(model::ports::agent::TurnEnd { state: EndState::Failed, words: Some(AgentMessage::text(text)) })
}
