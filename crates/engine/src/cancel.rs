//! Cancels tasks and their running agents.

use std::sync::Arc;
use std::time::Duration;

use model::ports::Future;
use model::{Body, CallScope, Cancel, Fault, Kind, State, Task, TaskId};

use crate::billing::TurnEnding;
use crate::live::{AppendDraft, Live};
use crate::pending;
use crate::product_tasks::refuse_if_product;
use crate::visibility::LookupKind;
use crate::{Engine, Shared};

/// How often an operator's command checks whether the holder has stopped its agent.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long the turn ran is unknown when it is ended without its agent.
const CUT_OFF: TurnEnding = TurnEnding { state: None, cut_off: true };

impl Engine {
    /// Asks the agent to stop and returns when the task has settled, at the latest a second after the grace period.
    pub fn cancel<'a>(&'a self, place: &'a CallScope, call: Cancel) -> Future<'a, Result<Arc<Task>, Fault>> {
        Box::pin(async move {
            model::depth::check(call.metadata.as_ref(), "metadata", self.shared.limits.data_depth)?;
            let id = self.shared.named(place, &call.task).await?.task;
            let found = self.shared.visible_live(place, id, LookupKind::Task).await?;
            let (live, _) = found.ok_or_else(|| Fault::task_not_found(id))?;
            self.cancel_live(live, call.metadata).await
        })
    }

    /// Cancels a task of any caller; for operators.
    pub fn cancel_by_operator(&self, id: TaskId) -> Future<'_, Result<Arc<Task>, Fault>> {
        Box::pin(async move {
            let live = self.shared.live(id).await?.ok_or_else(|| Fault::task_not_found(id))?;
            self.cancel_live(live, None).await
        })
    }

    /// Ends a task before it is purged, so that no turn begins in between and the reservation of its turn is settled. A
    /// product's task that has not ended is refused.
    pub(crate) async fn end_for_removal(&self, id: TaskId) -> Result<(), Fault> {
        let live = match self.shared.live(id).await {
            Ok(Some(live)) => live,
            Ok(None) => return Ok(()),
            // A log that is no longer readable can still be removed.
            Err(fault) if fault.kind == Kind::Internal => {
                tracing::warn!(task = %id, cause = %fault.cause_text(), "a task is removed whose log cannot be read");
                return Ok(());
            }
            Err(fault) => return Err(fault),
        };
        let shared = self.shared.clone();
        Shared::detached(async move {
            let ended = live.append(&shared, |task| {
                refuse_if_product(task)?;
                let settled = task.core.is_settled();
                let bodies = if settled { Vec::new() } else { vec![pending::status(State::Canceled, None)] };
                Ok(AppendDraft { ending: CUT_OFF, ..AppendDraft::outside(bodies) })
            });
            match ended.await.map_err(Fault::from) {
                // Another process has removed it.
                Err(fault) if fault.kind == Kind::TaskNotFound => Ok(()),
                ended => ended.map(drop),
            }
        })
        .await
    }

    async fn cancel_live(&self, live: Arc<Live>, metadata: Option<model::Json>) -> Result<Arc<Task>, Fault> {
        let (shared, target) = (self.shared.clone(), live.clone());
        let asked = Shared::detached(async move { request(&shared, &target, metadata).await }).await?;
        if asked.core.is_settled() {
            return Ok(asked);
        }
        let patience = Duration::from_millis(self.shared.limits.cancel_grace_ms + 1_000);
        if self.shared.offline {
            return self.await_holder(&live, patience).await;
        }
        let settled = live.wait_until(|task| task.core.is_settled());
        match tokio::time::timeout(patience, settled).await {
            Ok(task) => task,
            Err(_) => live.snapshot(),
        }
    }

    /// For an offline engine on a shared store, which does not follow logs: polls whether the holder, in another
    /// process, has stopped its agent. A holder that has not stopped by the end of the grace period is taken for dead.
    async fn await_holder(&self, live: &Live, patience: Duration) -> Result<Arc<Task>, Fault> {
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            live.refresh(&self.shared).await?;
            let task = live.snapshot()?;
            if task.core.is_settled() {
                return Ok(task);
            }
            if tokio::time::Instant::now() >= deadline {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let settled = live.append(&self.shared, |task| {
            let bodies = if task.core.is_settled() { Vec::new() } else { vec![pending::status(State::Canceled, None)] };
            Ok(AppendDraft { ending: CUT_OFF, ..AppendDraft::outside(bodies) })
        });
        settled.await.map_err(Fault::from)
    }
}

pub(crate) async fn request(shared: &Shared, live: &Live, metadata: Option<model::Json>) -> Result<Arc<Task>, Fault> {
    let asked = live.append(shared, |task| {
        if task.core.is_settled() {
            let message = "Task cannot be canceled: it has settled";
            return Err(Fault::new(Kind::TaskNotCancelable, message).fact("taskId", task.id.to_string()));
        }
        refuse_if_product(task)?;
        let mut bodies = Vec::new();
        if !task.core.cancel_requested {
            bodies.push(Body::CancelRequested { metadata: metadata.clone() });
        }
        // No turn runs, so no agent needs to be stopped.
        if task.core.turn.is_none() || (shared.offline && !shared.store.is_shared()) {
            bodies.push(pending::status(State::Canceled, None));
        }
        Ok(AppendDraft { ending: CUT_OFF, ..AppendDraft::outside(bodies) })
    });
    let task = asked.await.map_err(Fault::from)?;
    live.stop_turn();
    Ok(task)
}
