//! Deliveries for operators: their state, and redelivery.

use std::sync::Arc;

use model::ports::Future;
use model::ports::store::Commit;
use model::{Fault, Kind, PushChange, PushProgress, PushRow, PushState, Seq, TaskId, Time};

use super::Outbox;
use super::index::{ConfigKey, UnsavedProgress};
use crate::{Engine, Shared, push, troubled};

/// Configs read at once.
const PAGE: usize = 512;

/// A config as operators see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryStatus {
    pub task: TaskId,
    pub id: Arc<str>,
    /// Scheme, host and port: the rest of a URL may contain secrets. `None` if the config cannot be decrypted.
    pub endpoint: Option<Arc<str>>,
    pub dialect: Option<Arc<str>>,
    pub made_at: Time,
    pub progress: PushProgress,
}

impl Engine {
    /// The configs of a task, or all in a state; at most `limit`. For operators.
    pub fn deliveries<'a>(
        &'a self,
        task: Option<TaskId>,
        state: Option<PushState>,
        limit: usize,
    ) -> Future<'a, Result<Vec<DeliveryStatus>, Fault>> {
        Box::pin(async move {
            let shared = self.shared.clone();
            Shared::detached(async move {
                // So that lists by state are current; if the store refuses writes now, they are as last saved.
                if let Err(trouble) = shared.outbox.save(&shared).await {
                    tracing::warn!(%trouble, "deliveries are shown as they were last kept");
                }
                let mut found = Vec::new();
                if let Some(task) = task {
                    found = shared.store.push(task).await.map_err(troubled)?;
                } else {
                    // Configs that need an operator come first.
                    for each in [PushState::Dead, PushState::Active, PushState::Done] {
                        if state.is_none_or(|state| state == each) {
                            walk(&shared, each, limit, &mut found).await?;
                        }
                    }
                }
                let shown = found.into_iter().map(|row| shared.outbox.delivery(&shared, row));
                let wanted = shown.filter(|shown| state.is_none_or(|state| shown.progress.state == state));
                Ok(wanted.take(limit).collect())
            })
            .await
        })
    }

    /// Delivers again, from the event where it stopped or from an earlier one: one config of a task, or all of them.
    /// Returns the number of configs restarted.
    pub fn redeliver<'a>(
        &'a self,
        task: TaskId,
        id: Option<&'a str>,
        from: Option<Seq>,
    ) -> Future<'a, Result<u64, Fault>> {
        Box::pin(async move {
            let (shared, id) = (self.shared.clone(), id.map(str::to_owned));
            Shared::detached(async move { shared.redeliver(task, id.as_deref(), from).await }).await
        })
    }
}

async fn walk(shared: &Shared, state: PushState, limit: usize, found: &mut Vec<PushRow>) -> Result<(), Fault> {
    let mut after = None;
    while found.len() < limit {
        let most = PAGE.min(limit - found.len());
        let page = shared.store.pushes(state, after, most).await.map_err(troubled)?;
        let Some(last) = page.last() else { break };
        after = Some((last.task, last.id.clone()));
        found.extend(page);
    }
    Ok(())
}

impl Outbox {
    /// The newest known progress of a config.
    pub(super) fn newest(&self, row: &PushRow) -> PushProgress {
        let index = self.index.lock();
        let route = index.find(row.task, &row.id).and_then(|no| index.get(no));
        if let Some(route) = route.filter(|route| route.edition == row.edition) {
            return route.progress.clone();
        }
        match index.unsaved.get(&(row.task, row.id.clone())) {
            Some(UnsavedProgress { edition, progress: Some(progress), .. }) if *edition == row.edition => {
                progress.clone()
            }
            Some(_) | None => row.progress.clone(),
        }
    }

    fn delivery(&self, shared: &Shared, row: PushRow) -> DeliveryStatus {
        let progress = self.newest(&row);
        let spec = shared.courier.as_ref().and_then(|courier| Some((courier, courier.open(row.task, &row.spec).ok()?)));
        DeliveryStatus {
            task: row.task,
            id: row.id,
            endpoint: spec.as_ref().map(|(courier, spec)| courier.endpoint(spec)),
            dialect: spec.map(|(_, spec)| spec.dialect),
            made_at: row.made_at,
            progress,
        }
    }
}

impl Shared {
    async fn redeliver(self: &Arc<Self>, task: TaskId, id: Option<&str>, from: Option<Seq>) -> Result<u64, Fault> {
        let courier = self.courier.as_ref().ok_or_else(push::unsupported)?;
        let live = self.lives.entry(task);
        // The lock keeps other requests from setting or removing a config meanwhile.
        let _still = live.hold(self).await.map_err(troubled)?;
        let head = self.store.head(task).await.map_err(troubled)?;
        let head = head.ok_or_else(|| Fault::task_not_found(task))?;
        if from.is_some_and(|from| from == Seq::ZERO || from > head.seq) {
            let message = format!("the task's events are numbered from 1 to {}", head.seq.0);
            return Err(Fault::params("from", message));
        }
        let mut rows = self.store.push(task).await.map_err(troubled)?;
        if let Some(id) = id {
            rows.retain(|row| *row.id == *id);
            if rows.is_empty() {
                let message = format!("the task has no push notification config {id:?}");
                return Err(Fault::new(Kind::TaskNotFound, message).fact("taskId", task.to_string()));
            }
        }
        let specs = rows.iter().map(|row| courier.open(task, &row.spec)).collect::<Result<Vec<_>, Fault>>()?;
        let count = rows.len() as u64;
        for (row, spec) in rows.into_iter().zip(specs) {
            let known = self.outbox.newest(&row);
            let now = self.clock.of_sleepers();
            let progress = PushProgress {
                delivered: known.delivered,
                delivered_at: known.delivered_at,
                ..PushProgress::from(from.unwrap_or(known.next), now)
            };
            // This process delivers the config from now on.
            let (id, edition) = (row.id.clone(), row.edition);
            let change = PushChange::SetBack { task, id, edition, progress: progress.clone() };
            let is_there = |rows: &[PushRow]| {
                rows.iter().any(|now| now.edition == row.edition && now.epoch > row.epoch && now.progress == progress)
            };
            push::commit_known(self, task, Commit { push: vec![change], ..Commit::default() }, is_there).await?;
            let now = self.store.push(task).await.map_err(troubled)?;
            // If another process set it anew or removed it meanwhile, this process does not deliver it.
            if let Some(now) = now.into_iter().find(|now| now.id == row.id && now.edition == row.edition) {
                self.outbox.set_back(self, now, spec, progress);
            }
        }
        Ok(count)
    }
}

impl Outbox {
    fn set_back(&self, shared: &Shared, row: PushRow, spec: model::PushSpec, progress: PushProgress) {
        let mut index = self.index.lock();
        index.touch(row.task, &row.id);
        index.unsaved.remove(&(row.task, row.id.clone()));
        let known = index.find(row.task, &row.id);
        match known.filter(|no| index.get(*no).is_some_and(|route| route.edition == row.edition)) {
            Some(no) => index.reset(no, row.epoch, progress),
            None => {
                self.add(shared, &mut index, ConfigKey::of(&row), Arc::new(spec), progress.clone());
                if let Some(no) = index.find(row.task, &row.id) {
                    // An endpoint with an open breaker is tried at once: the operator's request means that it is back.
                    index.reset(no, row.epoch, progress);
                }
            }
        }
        drop(index);
        self.wake.notify_one();
    }
}
