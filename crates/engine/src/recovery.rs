//! Recovers interrupted turns by their agents' restart rules: after a start, and when another process has ended.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use model::ports::agent::{AgentMessage, Restart};
use model::{Body, Epoch, Fault, State, Task, TaskId};

use crate::billing::TurnEnding;
use crate::live::{AppendDraft, Live, TurnHandle};
use crate::pending;
use crate::setbacks::{self, Chore};
use crate::turn::{self, TurnRun};
use crate::{Shared, blobs, children, troubled};

const PAGE: usize = 256;
/// Delay before another attempt at turns that could not be recovered.
const AGAIN: Duration = Duration::from_secs(1);

/// The outcome of one turn that was recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovered {
    /// The agent runs it again from its beginning.
    Retried,
    /// The agent continues work that outlived the process.
    Resumed,
    /// The restart rule or the attempt limit ended it.
    Failed,
    /// A cancel was requested, or its parent task has ended.
    Canceled,
}

impl Recovered {
    fn word(self) -> &'static str {
        match self {
            Recovered::Retried => "retried",
            Recovered::Resumed => "resumed",
            Recovered::Failed => "failed",
            Recovered::Canceled => "canceled",
        }
    }
}

/// The outcomes of one pass, for the log.
#[derive(Debug, Default)]
struct Counts {
    retried: u64,
    resumed: u64,
    failed: u64,
    canceled: u64,
    /// Turns that are tried again later.
    waiting: u64,
}

impl Counts {
    fn add(&mut self, recovered: Recovered) {
        match recovered {
            Recovered::Retried => self.retried += 1,
            Recovered::Resumed => self.resumed += 1,
            Recovered::Failed => self.failed += 1,
            Recovered::Canceled => self.canceled += 1,
        }
    }

    fn log(&self) {
        let Counts { retried, resumed, failed, canceled, waiting } = *self;
        if retried + resumed + failed + canceled + waiting > 0 {
            tracing::info!(retried, resumed, failed, canceled, waiting, "recovery of turns that were cut off");
        }
    }
}

/// Recovers every interrupted turn and logs the outcomes: after a start, and when a replica has ended.
pub(crate) async fn recover(shared: &Arc<Shared>) -> Result<(), Fault> {
    let mut counts = Counts::default();
    let done = recover_all(shared, &mut counts).await;
    counts.log();
    done
}

async fn recover_all(shared: &Arc<Shared>, counts: &mut Counts) -> Result<(), Fault> {
    let mut after = None;
    loop {
        let page = shared.store.orphans(after, PAGE).await.map_err(troubled)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = Some(*last);
        // Concurrently, so that they share commits.
        let due = page.into_iter().filter(|(task, _)| shared.setbacks.is_due(*task, Chore::Recovery));
        let mut taken =
            futures_util::stream::iter(due).map(|orphan| take_up(shared, orphan, Holder::Gone)).buffer_unordered(PAGE);
        let mut later: Vec<Orphan> = Vec::new();
        while let Some(outcome) = taken.next().await {
            match outcome {
                TakenUp::Done(recovered) => recovered.into_iter().for_each(|recovered| counts.add(recovered)),
                TakenUp::Later(orphan) => later.push(orphan),
            }
        }
        counts.waiting += later.len() as u64;
        // In a shared store another replica with free capacity may take them, and the next pass looks again.
        if !later.is_empty() && !shared.store.is_shared() {
            tokio::spawn(try_again(shared.clone(), later));
        }
    }
}

/// Retries until each turn is recovered: a full disk or the turn limit only delays its restart rule.
async fn try_again(shared: Arc<Shared>, mut orphans: Vec<Orphan>) {
    while !orphans.is_empty() {
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = shared.stopped.cancelled() => return,
        }
        let mut later = Vec::new();
        for orphan in orphans {
            if shared.setbacks.is_due(orphan.0, Chore::Recovery) {
                match take_up(&shared, orphan, Holder::Gone).await {
                    TakenUp::Done(_) => {}
                    TakenUp::Later(orphan) => later.push(orphan),
                }
            } else {
                later.push(orphan);
            }
        }
        orphans = later;
    }
}

/// A task whose turn has no holder, and the lost epoch.
pub(crate) type Orphan = (TaskId, Epoch);

/// The process that held a lost turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// It has ended: an earlier process on this data folder, or another replica.
    Gone,
    /// It is this process, which does not run the turn.
    Own,
}

/// The outcome of an attempt to recover an orphan.
pub(crate) enum TakenUp {
    /// It is no longer an orphan; with the outcome if this process recovered it.
    Done(Option<Recovered>),
    /// It could not be recovered now.
    Later(Orphan),
}

/// Recovers the orphan by its agent's restart rule if it still is one, and logs the recovery.
pub(crate) async fn take_up(shared: &Arc<Shared>, orphan: Orphan, holder: Holder) -> TakenUp {
    let task = orphan.0;
    let work = async {
        if !may_recover(shared, task).await? {
            return Ok(None);
        }
        let Some(live) = shared.live(orphan.0).await? else { return Ok(None) };
        let task = live.snapshot()?;
        if !is_orphan(shared, &task, orphan) {
            return Ok(None);
        }
        let recovered = resume(shared, live, task.clone(), orphan).await?;
        if let Some(recovered) = recovered {
            shared.stats.recovered.fetch_add(1, Ordering::Relaxed);
            let (agent, lost_attempt) = (&task.agent, task.core.turn.map_or(0, |turn| turn.attempt));
            // In a shared store a holder that has ended was another replica.
            let takeover = shared.store.is_shared() && holder == Holder::Gone;
            let outcome = recovered.word();
            tracing::info!(task = %task.id, %agent, lost_attempt, outcome, takeover, "turn recovered");
        }
        Ok(recovered)
    };
    match setbacks::alone(work).await {
        Ok(recovered) => {
            shared.setbacks.clear(task, Chore::Recovery);
            return TakenUp::Done(recovered);
        }
        Err(fault) if setbacks::is_general(&fault) => {
            tracing::error!(%task, cause = %fault.cause_text(), "a turn could not be taken up again: {fault}");
        }
        Err(fault) => drop(shared.setbacks.failed(shared, task, Chore::Recovery, &fault)),
    }
    TakenUp::Later(orphan)
}

/// Whether this process may recover the turn. In a shared store, a turn of an agent that is not served here is left to
/// the replicas that serve it, or will: a rollout reaches some replicas before others; the turn's timeout ends it in
/// any case. Without a shared store it is left to a later process if this one keeps such turns.
async fn may_recover(shared: &Shared, task: TaskId) -> Result<bool, Fault> {
    if !shared.store.is_shared() && !shared.keeps_unserved_turns {
        return Ok(true);
    }
    let Some(head) = shared.store.head(task).await.map_err(troubled)? else { return Ok(false) };
    let served = shared.agents.load().contains_key(&head.agent);
    if !served {
        tracing::debug!(%task, agent = %head.agent, "a turn waits for a process that serves its agent");
    }
    Ok(served)
}

/// Whether the lost turn is still the one in the log: no process has recovered or ended it since.
fn is_orphan(shared: &Shared, task: &Task, (_, lost): Orphan) -> bool {
    let as_lost = !shared.store.is_shared() || shared.store.hold(task.core.starts) == lost;
    task.core.turn.is_some() && as_lost
}

/// Recovers the turn by its agent's restart rule. Returns the outcome if this process recovered it.
async fn resume(
    shared: &Arc<Shared>,
    live: Arc<Live>,
    task: Arc<Task>,
    orphan: Orphan,
) -> Result<Option<Recovered>, Fault> {
    let Some(turn) = task.core.turn else { return Ok(None) };
    let agent = shared.agents.load().get(&task.agent).cloned();
    let messages = live.current_messages();
    let rule = match (&agent, messages.last()) {
        (Some(agent), Some(message)) => {
            // The agent must see the same message as at the first admission, including large parts.
            let message = blobs::load_inbound(&*shared.store, &task.tenant, message).await?;
            let task = blobs::load_task(&*shared.store, task.clone()).await?;
            turn::admit(agent, &message, Some(&task)).map(|a| a.restart).unwrap_or(Restart::Fail)
        }
        (None, _) | (_, None) => Restart::Fail,
    };
    // Reattaching repeats no work, so its attempts are not limited.
    let attempts_left = rule == Restart::Resume || turn.attempt < shared.limits.attempts;
    // The parent that needed the result has ended.
    let stops = task.core.cancel_requested || children::is_orphaned(shared, &task).await?;
    let goes_on = !stops && rule != Restart::Fail && attempts_left;
    // Before the first event, so that a turn refused by the limit now is the same turn later.
    let is_child = task.views.iter().any(|view| view.parent().is_some());
    let mut running = match goes_on {
        true if is_child => Some(shared.take_child_turn()?),
        true => Some(shared.take_turn()?),
        false => None,
    };
    if let Some(running) = &mut running {
        running.begin_at(&live);
    }
    let (mut taken, mut recovered) = (false, Recovered::Failed);
    let begun = live.append(shared, |task| {
        taken = is_orphan(shared, task, orphan);
        let Some(turn) = task.core.turn.filter(|_| taken) else { return Ok(AppendDraft::default()) };
        let bodies = if stops || task.core.cancel_requested {
            recovered = Recovered::Canceled;
            vec![pending::status(State::Canceled, None)]
        } else if goes_on {
            recovered = if rule == Restart::Resume { Recovered::Resumed } else { Recovered::Retried };
            let mut bodies = Vec::new();
            // Callers that see the task are informed; an undecided exchange stays invisible.
            if rule == Restart::Retry && task.core.shape == model::Shape::Task {
                let words = pending::message(AgentMessage::text("restarted"));
                bodies.push(pending::status(State::Working, Some(words)));
            }
            bodies.push(Body::TurnStarted { turn: turn.id, attempt: turn.attempt + 1, hold: None });
            bodies
        } else {
            recovered = Recovered::Failed;
            vec![pending::status(
                State::Failed,
                Some(pending::message(AgentMessage::text(why(rule, &agent, turn.attempt)))),
            )]
        };
        let ending = TurnEnding { state: None, cut_off: true };
        Ok(AppendDraft { ending, ..AppendDraft::held(bodies, task, &*shared.store) })
    });
    let task = begun.await.map_err(Fault::from)?;
    if let (true, Some(running), Some(agent), Some(turn)) = (taken, running, agent, task.core.turn) {
        let handle = TurnHandle::new();
        let (shared, turn, attempt) = (shared.clone(), turn.id, turn.attempt);
        TurnRun { shared, live, agent, turn, attempt, whole: false, handle, running }.spawn(None);
    }
    Ok(taken.then_some(recovered))
}

fn why<A>(rule: Restart, agent: &Option<A>, attempt: u32) -> String {
    match (agent, rule) {
        (None, _) => "the server restarted and no longer serves this agent".into(),
        (Some(_), Restart::Fail) => "the server restarted while the agent was at work; send the message again".into(),
        (Some(_), Restart::Retry | Restart::Resume) => {
            format!("the server restarted while the agent was at work, {attempt} times; giving up")
        }
    }
}
