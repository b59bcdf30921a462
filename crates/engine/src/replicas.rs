//! Several processes on one store: what the others did reaches those who wait for it here, and what they left behind is
//! taken up.
//!
//! A hint is only a hint. Whoever needs to know reads the log; whatever no hint told of is found by looking, each second.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use model::ports::store::Hint;
use model::{Fault, Seq, TaskId};
use tokio::time::MissedTickBehavior;

use crate::{Change, Shared, outbox, recovery, troubled};

const LOOK_EVERY: Duration = Duration::from_secs(1);

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
}

/// Follows what others do until the engine stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut hints = shared.store.hints();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
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
                catch_up(&shared, &mut todo).await;
            }
        }
        if todo.orphans || todo.configs || !todo.changed.is_empty() {
            catch_up(&shared, &mut todo).await;
        }
    }
}

/// What can be done about a hint at once, and what must wait for the store.
fn heed(shared: &Arc<Shared>, hint: Hint, todo: &mut Todo) {
    match hint {
        Hint::Grown(task, seq) => grown(shared, task, seq),
        Hint::Push(task) => drop(todo.changed.insert(task)),
        Hint::Removed(task) => removed(shared, task),
        // Nobody listening is as well.
        Hint::Access => drop(shared.changes.send(Change::Access)),
        Hint::Missed => {
            let _ = shared.changes.send(Change::Access);
            (todo.lengths, todo.configs, todo.orphans) = (true, true, true);
        }
        Hint::Gone => (todo.orphans, todo.configs) = (true, true),
        Hint::CutOff => (todo.lengths, todo.configs, todo.orphans) = (true, true, true),
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
        tracing::warn!(cause = ?fault.cause, "what other processes did is not known yet: {fault}");
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
        let looked = match lengths(shared).await {
            Ok(()) => outbox::compare(shared).await,
            Err(fault) => Err(fault),
        };
        todo.lengths = looked.is_err();
        done = done.and(looked);
    }
    if todo.orphans {
        let drains = shared.draining.load(std::sync::atomic::Ordering::Relaxed);
        let taken = if drains { Ok(()) } else { recovery::recover(shared).await };
        todo.orphans = taken.is_err();
        done = done.and(taken);
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

/// Asks how long the logs are that somebody here follows.
async fn lengths(shared: &Arc<Shared>) -> Result<(), Fault> {
    let mut tasks: BTreeSet<TaskId> = shared.outbox.tasks().into_iter().collect();
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
