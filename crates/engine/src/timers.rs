//! Durable timers, and the removal of expired data.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use model::ports::agent::AgentMessage;
use model::ports::store::{Commit, Outcome, Timer, TimerChange, TimerKind};
use model::{Fault, State, Task, Time};
use tokio::sync::Notify;

use crate::live::AppendDraft;
use crate::setbacks::{self, Chore};
use crate::{Shared, outbox, pending, product_tasks, troubled};

/// Delay before a fired timer is checked again if its turn does not end at once.
const AGAIN_MS: u64 = 5_000;
/// The same for the turn of an agent that this process does not serve.
const UNSERVED_AGAIN_MS: u64 = 60_000;
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const SWEEP: usize = 500;

/// Wakes the timer loop if a new timer is due before its next check.
#[derive(Default)]
pub(crate) struct Alarm {
    earlier: Notify,
    /// The time of the next check, in milliseconds.
    next_look: AtomicI64,
}

impl Alarm {
    pub(crate) fn set(&self, changes: &[TimerChange]) {
        let earliest = changes.iter().filter_map(|change| match change {
            TimerChange::Set(timer) => Some(timer.due),
            TimerChange::Replace { to, .. } => *to,
            TimerChange::Clear(..) => None,
        });
        if earliest.min().is_some_and(|due| due.0 < self.next_look.load(Ordering::Relaxed)) {
            self.earlier.notify_one();
        }
    }
}

/// Fires timers until the engine stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    loop {
        // A timer set during the check wakes the loop again.
        shared.alarm.next_look.store(i64::MAX, Ordering::Relaxed);
        let wait = match fire_due(&shared).await {
            Ok(Some(next)) => Duration::from_millis((next.0 - shared.clock.now().0).clamp(1, 60_000) as u64),
            Ok(None) => Duration::from_secs(60),
            Err(fault) => {
                tracing::warn!(cause = %fault.cause_text(), "timers wait for the store: {fault}");
                Duration::from_secs(1)
            }
        };
        let look = shared.clock.now().plus_ms(wait.as_millis() as u64);
        shared.alarm.next_look.store(look.0, Ordering::Relaxed);
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shared.alarm.earlier.notified() => {}
            () = shared.stopped.cancelled() => return,
        }
    }
}

/// Fires due timers and returns when the next one is due.
async fn fire_due(shared: &Arc<Shared>) -> Result<Option<Time>, Fault> {
    loop {
        let due = shared.store.due(shared.clock.now(), 100).await.map_err(troubled)?;
        if due.is_empty() {
            return shared.store.next_due().await.map_err(troubled);
        }
        let mut tried = false;
        for timer in due {
            // Its last fault is recent, and postponing it had no effect.
            if !shared.setbacks.is_due(timer.task, Chore::Timer) {
                continue;
            }
            tried = true;
            match setbacks::alone(fire(shared, timer)).await {
                Ok(()) => shared.setbacks.clear(timer.task, Chore::Timer),
                Err(fault) if setbacks::is_general(&fault) => return Err(fault),
                Err(fault) => put_off(shared, timer, &fault).await?,
            }
        }
        if !tried {
            return Ok(Some(shared.clock.now().plus_ms(AGAIN_MS)));
        }
    }
}

async fn fire(shared: &Arc<Shared>, timer: Timer) -> Result<(), Fault> {
    match timer.kind {
        TimerKind::TurnTimeout => end_turn(shared, timer).await,
        TimerKind::Deadline => deadline(shared, timer).await,
    }
}

/// Postpones, in the store, a timer whose task has a fault, so that it delays no other timer on any process.
async fn put_off(shared: &Arc<Shared>, timer: Timer, fault: &Fault) -> Result<(), Fault> {
    let pause = shared.setbacks.failed(shared, timer.task, Chore::Timer, fault);
    let due = shared.clock.now().plus_ms(pause.as_millis() as u64);
    let later = TimerChange::Replace { timer, to: Some(due) };
    match shared.store.commit(Commit { timers: vec![later], ..Commit::default() }).await {
        Outcome::Done | Outcome::Conflict(_) => Ok(()),
        Outcome::Refused(trouble) | Outcome::Unknown(trouble) => Err(troubled(trouble)),
    }
}

async fn end_turn(shared: &Arc<Shared>, timer: Timer) -> Result<(), Fault> {
    let live = shared.live(timer.task).await?;
    let task = live.as_ref().and_then(|live| live.task());
    let is_kept = |task: &Task| shared.keeps_unserved_turns && !shared.agents.load().contains_key(&task.agent);
    let is_kept = task.as_deref().is_some_and(is_kept);
    let turn = task.and_then(|task| task.core.turn);
    let due = turn.map(|turn| turn.started_at.plus_ms(shared.limits.turn_timeout_ms));
    let to = match (live, due) {
        // The timer was an earlier turn's; this turn has time left.
        (Some(_), Some(due)) if due > shared.clock.now() => Some(due),
        (Some(live), Some(_)) if is_kept && live.turn().is_none() => {
            Some(shared.clock.now().plus_ms(UNSERVED_AGAIN_MS))
        }
        (Some(live), Some(_)) => {
            match live.turn() {
                Some(turn) => turn.timed_out.notify_one(),
                None => fail(shared, &live).await?,
            }
            Some(shared.clock.now().plus_ms(AGAIN_MS))
        }
        // The turn is over, and its timer with it.
        (None | Some(_), _) => None,
    };
    let to = match shared.lives.find(timer.task).and_then(|live| live.task()) {
        Some(task) if task.core.turn.is_none() => None,
        Some(_) | None => to,
    };
    // A turn that began meanwhile has set a timer of its own, which stays.
    let change = TimerChange::Replace { timer, to };
    match shared.store.commit(Commit { timers: vec![change], ..Commit::default() }).await {
        // Timers are only moved and cleared here; if the change did not happen, the timer fires again.
        Outcome::Done | Outcome::Conflict(_) => Ok(()),
        Outcome::Refused(trouble) | Outcome::Unknown(trouble) => Err(troubled(trouble)),
    }
}

/// A product's deadline. It is postponed before the product is called, so that it fires again until the product clears
/// it. A deadline that the product has set meanwhile stays unchanged.
async fn deadline(shared: &Arc<Shared>, timer: Timer) -> Result<(), Fault> {
    let later = TimerChange::Replace { timer, to: Some(shared.clock.now().plus_ms(AGAIN_MS)) };
    match shared.store.commit(Commit { timers: vec![later], ..Commit::default() }).await {
        Outcome::Done | Outcome::Conflict(_) => {}
        Outcome::Refused(trouble) | Outcome::Unknown(trouble) => return Err(troubled(trouble)),
    }
    product_tasks::tell(shared, timer.task).await;
    Ok(())
}

/// Ends a turn that does not run in this process.
async fn fail(shared: &Arc<Shared>, live: &crate::live::Live) -> Result<(), Fault> {
    let failed = live.append(shared, |task| {
        let words = pending::message(AgentMessage::text("the agent did not finish in time"));
        let over = task.core.is_settled() || task.core.turn.is_none();
        let bodies = if over { Vec::new() } else { vec![pending::status(State::Failed, Some(words))] };
        Ok(AppendDraft::outside(bodies))
    });
    failed.await.map(drop).map_err(Fault::from)
}

fn millis(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

/// Removes settled tasks past their retention, and webhooks that are removed with their tasks, a few at a time.
pub(crate) async fn sweep(shared: Arc<Shared>) {
    let mut dead = None;
    loop {
        let now = shared.clock.now();
        let before = Time(now.0.saturating_sub(millis(shared.limits.retention_ms)));
        let keys_before = Time(now.0.saturating_sub(millis(shared.limits.idempotency_ms)));
        let full = match shared.store.purge(before, keys_before, SWEEP).await {
            Ok(gone) => {
                shared.removed.fetch_add(gone, Ordering::Relaxed);
                if gone > 0 {
                    shared.feed.note_missed();
                }
                gone >= SWEEP as u64
            }
            Err(trouble) => {
                tracing::warn!(%trouble, "retention waits for the store");
                false
            }
        };
        if !full && let Err(trouble) = outbox::clear_dead(&shared, &mut dead).await {
            tracing::warn!(%trouble, "webhooks that are over wait for the store");
        }
        let pause = if full { Duration::from_millis(10) } else { SWEEP_EVERY };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shared.stopped.cancelled() => return,
        }
    }
}
