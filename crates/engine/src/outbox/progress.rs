//! Saves the progress of deliveries, many at a time. A delivery begins only after the progress of the one before is
//! saved, so that a crash repeats at most the deliveries in flight. While the store refuses writes, deliveries pause.
//!
//! In a shared store, written progress is read back: the store ignores progress of a config that another process has
//! taken over, and this process then drops the config.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::ports::store::{Commit, Outcome, StoreError};
use model::{PushChange, Seq, TaskId};

use super::Outbox;
use super::index::{ConfigKey, Unsaved};
use crate::Shared;

/// How long progress waits to share a commit while the engine is busy.
const LAG: Duration = Duration::from_millis(10);

/// Changes in one commit.
const COMMIT: usize = 512;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Saves progress until the outbox closes.
pub(super) async fn run(shared: Arc<Shared>) {
    let outbox = &shared.outbox;
    let mut pause = FIRST_PAUSE;
    loop {
        let idle = {
            let index = outbox.index.lock();
            index.unsaved.is_empty() && !index.is_held_up()
        };
        if idle {
            tokio::select! {
                () = outbox.unsaved.notified() => {}
                () = outbox.closing.cancelled() => return,
            }
        }
        if outbox.busy.load(Ordering::Relaxed) {
            tokio::select! {
                () = tokio::time::sleep(LAG) => {}
                () = outbox.closing.cancelled() => return,
            }
        }
        match outbox.save(&shared).await {
            Ok(()) => pause = FIRST_PAUSE,
            Err(StoreError::Closed) => return,
            Err(trouble) => {
                shared.stats.store_troubles.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%trouble, "webhooks wait for the store");
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = outbox.closing.cancelled() => return,
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

impl Outbox {
    /// Commits unsaved progress. Must not be dropped half way.
    pub(super) async fn save(&self, shared: &Arc<Shared>) -> Result<(), StoreError> {
        let _one_at_a_time = self.saving.lock().await;
        loop {
            let (some, more) = {
                let mut index = self.index.lock();
                let some: Unsaved = match index.unsaved.len() {
                    0 => {
                        // Unsaved progress may have been removed since the failure.
                        index.stalled = false;
                        self.wake.notify_one();
                        return Ok(());
                    }
                    1..=COMMIT => std::mem::take(&mut index.unsaved),
                    _ => {
                        let keys: Vec<_> = index.unsaved.keys().take(COMMIT).cloned().collect();
                        keys.into_iter().filter_map(|key| index.unsaved.remove_entry(&key)).collect()
                    }
                };
                (some, !index.unsaved.is_empty())
            };
            let kept = keep(shared, &some).await;
            let mut index = self.index.lock();
            index.stalled = kept.is_err();
            match kept {
                Ok(kept) => {
                    for (key, next) in &kept.kept {
                        index.keep(key, *next);
                    }
                    drop(index);
                    for key in &kept.lost {
                        self.lose(key);
                    }
                }
                Err(trouble) => {
                    for (key, unkept) in some {
                        index.unsaved.entry(key).or_insert(unkept);
                    }
                    return Err(trouble);
                }
            }
            self.wake.notify_one();
            // Progress that arrived meanwhile is saved next time.
            if !more {
                return Ok(());
            }
        }
    }

    /// Another process has the config, or it is gone: this process delivers nothing more for it.
    pub(crate) fn lose(&self, key: &ConfigKey) {
        let mut index = self.index.lock();
        let Some(no) = index.find(key.task, &key.id) else { return };
        if !index.get(no).is_some_and(|route| route.is(key)) {
            return;
        }
        tracing::info!(task = %key.task, config = %key.id, "a webhook is delivered by another process, or was removed");
        let last = index.remove(no);
        index.unsaved.remove(&(key.task, key.id.clone()));
        self.uncount(key.task, last);
    }
}

/// The outcome of saving some progress.
struct Kept {
    kept: Vec<(ConfigKey, Seq)>,
    lost: Vec<ConfigKey>,
}

async fn keep(shared: &Shared, some: &Unsaved) -> Result<Kept, StoreError> {
    let changes = some.iter().map(|((task, id), unkept)| {
        let (task, id, edition, epoch) = (*task, id.clone(), unkept.edition, unkept.epoch);
        match unkept.progress.clone() {
            Some(progress) => PushChange::Moved { task, id, edition, epoch, progress },
            None => PushChange::Over { task, id, edition, epoch },
        }
    });
    match shared.store.commit(Commit { push: changes.collect(), ..Commit::default() }).await {
        Outcome::Done => {}
        Outcome::Conflict(conflict) => return Err(StoreError::Broken(format!("progress met {conflict:?}"))),
        // Repeating the changes is harmless.
        Outcome::Refused(trouble) | Outcome::Unknown(trouble) => return Err(trouble),
    }
    let moved: Vec<(ConfigKey, Seq)> = some
        .iter()
        .filter_map(|((task, id), unkept)| {
            let key = ConfigKey { task: *task, id: id.clone(), edition: unkept.edition, epoch: unkept.epoch };
            Some((key, unkept.progress.as_ref()?.next))
        })
        .collect();
    if !shared.store.is_shared() {
        return Ok(Kept { kept: moved, lost: Vec::new() });
    }
    let lost = lost(shared, moved.iter().map(|(key, _)| key)).await?;
    Ok(Kept { kept: moved.into_iter().filter(|(key, _)| !lost.contains(key)).collect(), lost })
}

/// The configs among these that another process has taken over or that are gone.
pub(crate) async fn lost<'a>(
    shared: &Shared,
    keys: impl Iterator<Item = &'a ConfigKey> + Clone,
) -> Result<Vec<ConfigKey>, StoreError> {
    let asked: Vec<(TaskId, Arc<str>)> = keys.clone().map(|key| (key.task, key.id.clone())).collect();
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let standings = shared.store.standings(asked).await?;
    let is_lost = |key: &ConfigKey, standing: &Option<model::PushStanding>| {
        standing.is_none_or(|now| !now.ours || (now.edition, now.epoch) != (key.edition, key.epoch))
    };
    Ok(keys.zip(&standings).filter(|(key, now)| is_lost(key, now)).map(|(key, _)| key.clone()).collect())
}
