//! Several processes on one store: propagates the commits of other processes to local readers, and recovers the turns
//! of processes that have ended.
//!
//! A hint is only a hint. Readers that need certainty read the log; changes without a hint are found by polling every
//! second. Cached values that are not followed (settled tasks, access keys) have a version in the store, which is
//! polled twice a second.
//!
//! * A turn runs in the process that received its message. A process that finds a turn whose holder is gone takes it
//!   over by its agent's rule, with a new attempt and so a higher epoch; the first commit decides. A holder that was
//!   only paused reads in the log that the turn is another's, and stops its agent.
//! * "Gone" means left, or a lease that was not renewed while the database was there and the observer could reach it. A
//!   wrong judgement costs a repeated attempt, never a wrong log.
//! * A task that is followed here is read up to date before every answer about it, so that an answer is never older than
//!   one that another process gave.
//! * A process takes over only turns of agents that it serves.
//! * Timers are fired by the holder of the turn, and by any process once they are late. Times are the database's.
//!   Counters have a row per process. Rates, quotas and leases of workers are each process's own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use model::ports::store::{Hint, Versions};
use model::{Fault, Seq, TaskId};
use tokio::time::MissedTickBehavior;

use crate::{RemoteChange, Shared, outbox, recovery, stranded, troubled};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval between polls of the versions. A change without a hint by the second poll was missed.
const VERSIONS_EVERY: Duration = Duration::from_millis(500);

/// Log lengths queried at once.
const PAGE: usize = 1_000;

/// Every this many polls, orphans are looked for even without a hint.
const ORPHANS_EVERY: u32 = 5;

/// Work that reads the store, repeated until it succeeds.
#[derive(Default)]
struct Todo {
    /// Find turns whose holder has ended.
    orphans: bool,
    /// Find configs whose delivering process has ended, or is no longer this one.
    configs: bool,
    /// Tasks whose configs were changed by another process.
    changed: BTreeSet<TaskId>,
    /// Check the length of every followed log.
    lengths: bool,
    /// Check every task in memory, settled or not: some may have been removed.
    loaded: bool,
    /// Find turns that this process holds but does not run.
    stranded: bool,
    /// The turns found by the last such search.
    suspects: stranded::Suspects,
}

/// Follows the other processes until the engine stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut hints = shared.store.hints();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut versions = tokio::time::interval(VERSIONS_EVERY);
    versions.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = None;
    let mut todo = Todo::default();
    let mut looks = 0u32;
    loop {
        tokio::select! {
            biased;
            () = shared.stopped.cancelled() => return,
            hint = hints.next() => match hint {
                Some(hint) => heed(&shared, hint, &mut todo),
                None => return,
            },
            _ = look.tick() => {
                looks = looks.wrapping_add(1);
                todo.lengths = true;
                todo.orphans |= looks.is_multiple_of(ORPHANS_EVERY);
                todo.stranded |= looks.is_multiple_of(ORPHANS_EVERY);
                catch_up(&shared, &mut todo).await;
            }
            _ = versions.tick() => look_at_versions(&shared, &mut seen, &mut todo).await,
        }
        if todo.orphans || todo.configs || todo.loaded || !todo.changed.is_empty() {
            catch_up(&shared, &mut todo).await;
        }
    }
}

/// Handles a hint: what needs no store read at once, the rest as `todo`.
fn heed(shared: &Arc<Shared>, hint: Hint, todo: &mut Todo) {
    match hint {
        Hint::Grown(task, seq) => {
            grown(shared, task, seq);
            shared.feed.note_elsewhere(task);
        }
        Hint::Push(task) => drop(todo.changed.insert(task)),
        Hint::Removed(task) => {
            shared.removed.fetch_add(1, Ordering::Relaxed);
            removed(shared, task);
            shared.feed.note_missed();
        }
        // Without listeners the send fails, which is fine.
        Hint::Access => drop(shared.changes.send(RemoteChange::Access)),
        Hint::Missed | Hint::CutOff => {
            let _ = shared.changes.send(RemoteChange::Missed);
            shared.feed.note_missed();
            (todo.lengths, todo.loaded, todo.configs, todo.orphans) = (true, true, true, true);
        }
        Hint::Gone => (todo.orphans, todo.configs) = (true, true),
    }
}

/// Compares the store's versions with the changes this process made or received hints of.
async fn look_at_versions(shared: &Arc<Shared>, seen: &mut Option<Versions>, todo: &mut Todo) {
    let now = match shared.store.versions().await {
        Ok(now) => now,
        Err(trouble) => {
            tracing::debug!(%trouble, "the versions of the store could not be read; retrying");
            return;
        }
    };
    let Some(before) = seen.replace(now) else {
        // Values cached at the start may be older than this version.
        shared.removed.store(now.removed, Ordering::Relaxed);
        let _ = shared.changes.send(RemoteChange::Missed);
        return;
    };
    if now.access != before.access {
        let _ = shared.changes.send(RemoteChange::Access);
    }
    // Hints had the time between two polls to arrive.
    let known = shared.removed.load(Ordering::Relaxed);
    if known < before.removed {
        tracing::debug!(known, removed = before.removed, "tasks were removed elsewhere without a hint");
        shared.removed.fetch_max(before.removed, Ordering::Relaxed);
        let _ = shared.changes.send(RemoteChange::Missed);
        (todo.lengths, todo.loaded) = (true, true);
    } else if known > now.removed {
        // Hints that arrived late.
        shared.removed.store(now.removed, Ordering::Relaxed);
    }
}

fn grown(shared: &Arc<Shared>, task: TaskId, seq: Seq) {
    match shared.lives.find(task) {
        // Its deliveries are notified once it has caught up.
        Some(live) => live.follow(shared, seq),
        None => shared.outbox.told(task, seq),
    }
}

fn removed(shared: &Shared, task: TaskId) {
    shared.lives.vanish(task);
    shared.outbox.forget_task(task);
    shared.setbacks.forget(task);
    let _ = shared.changes.send(RemoteChange::Removed(task));
}

/// Does the pending work; work that fails because of the store stays pending.
async fn catch_up(shared: &Arc<Shared>, todo: &mut Todo) {
    if let Err(fault) = do_all(shared, todo).await {
        tracing::warn!(cause = %fault.cause_text(), "what other processes did is not known yet: {fault}");
        // Not again before the next poll.
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = shared.stopped.cancelled() => {}
        }
    }
}

/// Does each item even if another fails.
async fn do_all(shared: &Arc<Shared>, todo: &mut Todo) -> Result<(), Fault> {
    let mut done = Ok(());
    if todo.lengths {
        let looked = match lengths(shared, todo.loaded).await {
            Ok(()) => outbox::compare(shared).await,
            Err(fault) => Err(fault),
        };
        todo.lengths = looked.is_err();
        todo.loaded &= todo.lengths;
        done = done.and(looked);
    }
    if todo.orphans {
        let drains = shared.draining.load(Ordering::Relaxed);
        let taken = if drains { Ok(()) } else { recovery::recover(shared).await };
        todo.orphans = taken.is_err();
        done = done.and(taken);
    }
    if todo.stranded {
        let drains = shared.draining.load(Ordering::Relaxed);
        let looked = if drains { Ok(()) } else { stranded::look(shared, &mut todo.suspects).await };
        todo.stranded = looked.is_err();
        done = done.and(looked);
    }
    if todo.configs {
        let adopted = outbox::adopt(shared).await;
        todo.configs = adopted.is_err();
        done = done.and(adopted);
    }
    for task in std::mem::take(&mut todo.changed) {
        let looked = outbox::look_again(shared, task).await;
        if looked.is_err() {
            todo.changed.insert(task);
        }
        done = done.and(looked);
    }
    done
}

/// Queries the lengths of the followed logs, or of all loaded ones.
async fn lengths(shared: &Arc<Shared>, loaded: bool) -> Result<(), Fault> {
    let mut tasks: BTreeSet<TaskId> = shared.outbox.tasks().into_iter().collect();
    if loaded {
        tasks.extend(shared.lives.loaded());
    }
    tasks.extend(shared.lives.open().iter().map(|live| live.id));
    let tasks: Vec<TaskId> = tasks.into_iter().collect();
    for some in tasks.chunks(PAGE) {
        let lengths = shared.store.lengths(some.to_vec()).await.map_err(troubled)?;
        for (task, seq) in some.iter().zip(lengths) {
            if seq == Seq::ZERO {
                removed(shared, *task);
            } else {
                grown(shared, *task, seq);
            }
        }
    }
    Ok(())
}
