//! The clerk: keeps the progress of deliveries, many at a time. What is kept may lag behind what was delivered, never the
//! other way round. While the store takes nothing, deliveries pause.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use model::PushChange;
use model::ports::store::{Commit, Outcome, Trouble};

use super::Outbox;
use super::index::Unsaved;
use crate::Shared;

/// How long progress waits for company.
const LAG: Duration = Duration::from_millis(100);

/// So much of it does not wait.
pub(super) const MANY: usize = 1_024;

/// How many changes one commit brings.
const COMMIT: usize = 512;

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Keeps progress until the outbox closes.
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
        tokio::select! {
            () = tokio::time::sleep(LAG) => {}
            () = outbox.urgent.notified() => {}
            () = outbox.closing.cancelled() => return,
        }
        match outbox.save(&shared).await {
            Ok(()) => pause = FIRST_PAUSE,
            Err(Trouble::Closed) => return,
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
    /// Commits what is not kept yet. Must not be dropped half way.
    pub(super) async fn save(&self, shared: &Arc<Shared>) -> Result<(), Trouble> {
        let _one_at_a_time = self.saving.lock().await;
        loop {
            let (some, ahead, more) = {
                let mut index = self.index.lock();
                let some: Unsaved = match index.unsaved.len() {
                    0 => {
                        // What could not be kept may have been removed since.
                        (index.stalled, index.ahead) = (false, 0);
                        self.wake.notify_one();
                        return Ok(());
                    }
                    1..=COMMIT => std::mem::take(&mut index.unsaved),
                    _ => {
                        let keys: Vec<_> = index.unsaved.keys().take(COMMIT).cloned().collect();
                        keys.into_iter().filter_map(|key| index.unsaved.remove_entry(&key)).collect()
                    }
                };
                (some, index.ahead, !index.unsaved.is_empty())
            };
            let changes = some.iter().map(|((task, id), (edition, progress))| {
                let (task, id, edition) = (*task, id.clone(), *edition);
                match progress.clone() {
                    Some(progress) => PushChange::Moved { task, id, edition, progress },
                    None => PushChange::Over { task, id, edition },
                }
            });
            let commit = Commit { push: changes.collect(), ..Commit::default() };
            let trouble = match shared.store.commit(commit).await {
                Outcome::Done => None,
                Outcome::Conflict(conflict) => Some(Trouble::Broken(format!("progress met {conflict:?}"))),
                // To say it again does no harm.
                Outcome::Refused(trouble) | Outcome::Unknown(trouble) => Some(trouble),
            };
            let mut index = self.index.lock();
            index.stalled = trouble.is_some();
            if let Some(trouble) = trouble {
                for (key, kept) in some {
                    index.unsaved.entry(key).or_insert(kept);
                }
                return Err(trouble);
            }
            index.ahead -= ahead.min(index.ahead);
            drop(index);
            self.wake.notify_one();
            // What came in meanwhile waits for company again.
            if !more {
                return Ok(());
            }
        }
    }
}
