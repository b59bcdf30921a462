//! Configs that go with their task, where their dialect wants that: none is left once its end was told, or could not be.
//!
//! Whoever delivers the end takes its config out of the store with the same commit that would keep the progress: after a crash
//! before that the end is delivered again, and then it is gone. One that is given up while its task goes on stays, for its
//! caller and for operators, until the task has settled too; nobody waits for that, so a walk over the dead finds it.

use std::sync::Arc;

use model::ports::courier::Courier;
use model::ports::store::{Commit, Outcome, Trouble};
use model::{PushChange, PushRow, PushState, TaskId};

use super::index::{Job, Unkept};
use super::{Outbox, PAGE};
use crate::setbacks::Chore;
use crate::{Shared, troubled};

/// Pages of one walk; the next one goes on from there.
const PAGES: usize = 8;

/// A config was given up. If its task has settled, that was its end.
pub(super) async fn given_up(shared: &Shared, courier: &dyn Courier, job: &Job) {
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
    fn clear(&self, job: &Job) {
        let mut index = self.index.lock();
        // Somebody may have set it anew or taken it up again.
        if index.find(job.task, &job.id).is_none() {
            let unkept = Unkept { edition: job.edition, epoch: job.epoch, progress: None };
            index.unsaved.insert((job.task, job.id.clone()), unkept);
            drop(index);
            self.unsaved.notify_one();
        }
    }
}

/// Clears what was given up before its task settled, some of it: from `after` on, and again from the beginning after that.
pub(crate) async fn clear_dead(shared: &Arc<Shared>, after: &mut Option<(TaskId, Arc<str>)>) -> Result<(), Trouble> {
    let Some(courier) = shared.courier.clone() else { return Ok(()) };
    for _ in 0..PAGES {
        let page = shared.store.pushes(PushState::Dead, after.take(), PAGE).await?;
        let Some(last) = page.last() else { break };
        *after = Some((last.task, last.id.clone()));
        for row in page {
            // What cannot be unsealed is for somebody to look at.
            let spec = courier.open(row.task, &row.spec).ok();
            let task = row.task;
            if !spec.is_some_and(|spec| courier.clears(&spec.dialect)) || !shared.setbacks.is_due(task, Chore::Sweep) {
                continue;
            }
            match clear_row(shared, row).await {
                Ok(()) => shared.setbacks.clear(task, Chore::Sweep),
                // Only this one: the walk goes on.
                Err(trouble @ Trouble::Broken(_)) => {
                    shared.setbacks.failed(shared, task, Chore::Sweep, &troubled(trouble));
                }
                Err(trouble) => return Err(trouble),
            }
        }
    }
    Ok(())
}

async fn clear_row(shared: &Arc<Shared>, row: PushRow) -> Result<(), Trouble> {
    match shared.store.head(row.task).await? {
        Some(head) if head.row.settled => {}
        Some(_) | None => return Ok(()),
    }
    let live = shared.lives.entry(row.task);
    // Nobody takes it up again meanwhile.
    let _still = live.hold(shared).await?;
    if shared.outbox.newest(&row).state != PushState::Dead {
        return Ok(());
    }
    let over = PushChange::Over { task: row.task, id: row.id, edition: row.edition, epoch: row.epoch };
    match shared.store.commit(Commit { push: vec![over], ..Commit::default() }).await {
        Outcome::Done | Outcome::Conflict(_) => Ok(()),
        // To say it again does no harm.
        Outcome::Refused(trouble) | Outcome::Unknown(trouble) => Err(trouble),
    }
}
