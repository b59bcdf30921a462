//! Several processes on one store: what the others did reaches those who wait for it here, and what they left behind is
//! taken up.
//!
//! A hint is only a hint. Whoever needs to know reads the log; whatever no hint told of is found by looking, each second.
//! What is remembered without being followed (settled tasks, access keys) has a version in the store, which is looked at
//! twice a second.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use model::ports::store::{Hint, Versions};
use model::{Fault, Seq, TaskId};
use tokio::time::MissedTickBehavior;

use crate::{Change, Shared, outbox, recovery, stranded, troubled};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What no hint told of by the second look was missed.
const VERSIONS_EVERY: Duration = Duration::from_millis(500);

/// How many lengths are asked for at once.
const PAGE: usize = 1_000;

/// After so many looks without a word of it, somebody may have died all the same.
const ORPHANS_EVERY: u32 = 5;

/// What is to be done that reads the store, and is done again until that works.
#[derive(Default)]
struct Todo {
    /// Turns whose holder is gone.
    orphans: bool,
    /// Configs whose deliverer is gone, or may no longer be us.
    configs: bool,
    /// Tasks whose configs were changed elsewhere.
    changed: BTreeSet<TaskId>,
    /// Everything that is followed.
    lengths: bool,
    /// Everything that is in memory, settled or not: some of it may have been removed.
    loaded: bool,
    /// Turns that are held here and do not run here.
    stranded: bool,
    /// Those that were found at the last look.
    suspects: stranded::Suspects,
}

/// Follows what others do until the engine stops.
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

/// What can be done about a hint at once, and what must wait for the store.
fn heed(shared: &Arc<Shared>, hint: Hint, todo: &mut Todo) {
    match hint {
        Hint::Grown(task, seq) => grown(shared, task, seq),
        Hint::Push(task) => drop(todo.changed.insert(task)),
        Hint::Removed(task) => {
            shared.removed.fetch_add(1, Ordering::Relaxed);
            removed(shared, task);
        }
        // Nobody listening is as well.
        Hint::Access => drop(shared.changes.send(Change::Access)),
        Hint::Missed | Hint::CutOff => {
            let _ = shared.changes.send(Change::Missed);
            (todo.lengths, todo.loaded, todo.configs, todo.orphans) = (true, true, true, true);
        }
        Hint::Gone => (todo.orphans, todo.configs) = (true, true),
    }
}

/// Compares the store's counts with what this process did and was told.
async fn look_at_versions(shared: &Arc<Shared>, seen: &mut Option<Versions>, todo: &mut Todo) {
    let now = match shared.store.versions().await {
        Ok(now) => now,
        Err(trouble) => {
            tracing::debug!(%trouble, "whether something was missed is not known yet");
            return;
        }
    };
    let Some(before) = seen.replace(now) else {
        // What was read at the start may be older than this.
        shared.removed.store(now.removed, Ordering::Relaxed);
        let _ = shared.changes.send(Change::Missed);
        return;
    };
    if now.access != before.access {
        let _ = shared.changes.send(Change::Access);
    }
    // Hints had the time between two looks to come.
    let known = shared.removed.load(Ordering::Relaxed);
    if known < before.removed {
        tracing::debug!(known, removed = before.removed, "tasks were removed elsewhere without a hint");
        shared.removed.fetch_max(before.removed, Ordering::Relaxed);
        let _ = shared.changes.send(Change::Missed);
        (todo.lengths, todo.loaded) = (true, true);
    } else if known > now.removed {
        // Hints that came after all.
        shared.removed.store(now.removed, Ordering::Relaxed);
    }
}

fn grown(shared: &Arc<Shared>, task: TaskId, seq: Seq) {
    match shared.lives.find(task) {
        // Its deliveries are told once it has caught up.
        Some(live) => live.follow(shared, seq),
        None => shared.outbox.told(task, seq),
    }
}

fn removed(shared: &Shared, task: TaskId) {
    shared.lives.vanish(task);
    shared.outbox.forget_task(task);
    shared.setbacks.forget(task);
    let _ = shared.changes.send(Change::Removed(task));
}

/// Does what is to be done; what the store does not let us do now stays to be done.
async fn catch_up(shared: &Arc<Shared>, todo: &mut Todo) {
    if let Err(fault) = do_all(shared, todo).await {
        tracing::warn!(cause = %fault.cause_text(), "what other processes did is not known yet: {fault}");
        // Not again before the next look.
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = shared.stopped.cancelled() => {}
        }
    }
}

/// One that fails keeps none of the others from being done.
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

/// Asks how long the logs are that somebody here follows, or all that are loaded here.
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
