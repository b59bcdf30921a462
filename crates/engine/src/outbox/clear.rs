//! Configs that are removed with their task's end, for dialects that want that: once the final event was delivered or
//! given up.
//!
//! The delivery of the final event removes the config in the commit that would save the progress: after a crash before
//! that commit the event is delivered again, and then the config is removed. A config that is given up while its task
//! still runs stays, for its caller and for operators, until the task has settled too. No event triggers that removal,
//! so a walk over the dead configs does it.

use std::sync::Arc;

use model::ports::store::{Commit, Outcome, StoreError};
use model::ports::webhook::WebhookSender;
use model::{PushChange, PushRow, PushState, TaskId};

use super::index::{DeliveryJob, UnsavedProgress};
use super::{Outbox, PAGE};
use crate::setbacks::Chore;
use crate::{Shared, troubled};

/// Pages of one walk; the next walk continues from there.
const PAGES: usize = 8;

/// A config was given up. If its task has settled, it is removed.
pub(super) async fn given_up(shared: &Shared, courier: &dyn WebhookSender, job: &DeliveryJob) {
    if !courier.clears(&job.spec.dialect) {
        return;
    }
    match shared.store.head(job.task).await {
        Ok(Some(head)) if head.row.settled => shared.outbox.clear(job),
        Ok(_) => {}
        // Left to the walk.
        Err(trouble) => tracing::debug!(task = %job.task, %trouble, "a dead webhook of a task is looked at later"),
    }
}

impl Outbox {
    fn clear(&self, job: &DeliveryJob) {
        let mut index = self.index.lock();
        // The config may have been set anew or restarted.
        if index.find(job.task, &job.id).is_none() {
            let unkept = UnsavedProgress { edition: job.edition, epoch: job.epoch, progress: None };
            index.unsaved.insert((job.task, job.id.clone()), unkept);
            drop(index);
            self.unsaved.notify_one();
        }
    }
}

/// Removes configs that were given up before their task settled: some of them, from `after` on, and then again from the
/// beginning.
pub(crate) async fn clear_dead(shared: &Arc<Shared>, after: &mut Option<(TaskId, Arc<str>)>) -> Result<(), StoreError> {
    let Some(courier) = shared.courier.clone() else { return Ok(()) };
    for _ in 0..PAGES {
        let page = shared.store.pushes(PushState::Dead, after.take(), PAGE).await?;
        let Some(last) = page.last() else { break };
        *after = Some((last.task, last.id.clone()));
        for row in page {
            // A config that cannot be decrypted stays for an operator.
            let spec = courier.open(row.task, &row.spec).ok();
            let task = row.task;
            if !spec.is_some_and(|spec| courier.clears(&spec.dialect)) || !shared.setbacks.is_due(task, Chore::Sweep) {
                continue;
            }
            match clear_row(shared, row).await {
                Ok(()) => shared.setbacks.clear(task, Chore::Sweep),
                // A problem of this config only: the walk continues.
                Err(trouble @ StoreError::Broken(_)) => {
                    shared.setbacks.failed(shared, task, Chore::Sweep, &troubled(trouble));
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }
    Ok(())
}

async fn clear_row(shared: &Arc<Shared>, row: PushRow) -> Result<(), StoreError> {
    match shared.store.head(row.task).await? {
        Some(head) if head.row.settled => {}
        Some(_) | None => return Ok(()),
    }
    let live = shared.lives.entry(row.task);
    // The lock keeps the config from being restarted meanwhile.
    let _still = live.hold(shared).await?;
    if shared.outbox.newest(&row).state != PushState::Dead {
        return Ok(());
    }
    let over = PushChange::Over { task: row.task, id: row.id, edition: row.edition, epoch: row.epoch };
    match shared.store.commit(Commit { push: vec![over], ..Commit::default() }).await {
        Outcome::Done | Outcome::Conflict(_) => Ok(()),
        // Repeating the change is harmless.
        Outcome::Refused(trouble) | Outcome::Unknown(trouble) => Err(trouble),
    }
}
