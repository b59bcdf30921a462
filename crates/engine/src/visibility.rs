//! Visibility of tasks. A hidden task looks like a missing one, both in the answer and in the queries to the store.
//!
//! For a task that the caller cannot see, every lookup is one read of the beginning of a log, in which the store
//! decides by the task's row alone: of a missing or hidden task it reads no events, however long the log is, and the
//! read is also made if the task is live. The one exception is a finished exchange that no list shows: when a reader of
//! its view follows it, its log is read, because the owner is recorded nowhere else.

use std::sync::Arc;

use model::ports::store::VisibleTasks;
use model::{Body, CallScope, Event, Fault, Shape, Task, TaskId, View};

use crate::live::Live;
use crate::{Shared, troubled};

/// Bytes of a log read at once.
pub(crate) const PIECE: usize = 256 << 10;

/// The kinds of exchange a lookup may find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookupKind {
    Task,
    /// Also an exchange that is, or may become, a direct reply: its owner can follow it.
    Exchange,
}

impl LookupKind {
    pub(crate) fn admits(self, task: &Task, place: &CallScope) -> bool {
        let shown = match self {
            LookupKind::Task => task.core.shape == Shape::Task,
            LookupKind::Exchange => task.core.shape == Shape::Task || task.owner == place.caller.name,
        };
        shown && reads(place, &task.views)
    }
}

fn reads(place: &CallScope, views: &[View]) -> bool {
    place.reads.iter().any(|view| views.contains(view))
}

/// A task that exists in the scope, as far as the beginning of its log shows.
pub(crate) enum TaskBeginning {
    Live(Arc<Live>),
    /// The first piece of its log.
    Log(Vec<Event>),
}

impl Shared {
    /// The beginning of a task, if the scope reads one of its lists.
    pub(crate) async fn glimpse(
        &self,
        place: &CallScope,
        id: TaskId,
        sight: LookupKind,
    ) -> Result<Option<TaskBeginning>, Fault> {
        let live = self.lives.find(id);
        // A hidden task is not refreshed, so that it costs the same one read as a missing task.
        if let Some(live) = live.as_ref().filter(|live| live.task().is_some_and(|task| reads(place, &task.views))) {
            live.refresh(self).await?;
        }
        // A loaded task is known, so the store need not look among unlisted exchanges.
        let unlisted = sight == LookupKind::Exchange && live.as_ref().is_none_or(|live| live.task().is_none());
        if let Some(live) = live.filter(|live| live.task().is_some_and(|task| sight.admits(&task, place))) {
            return Ok(Some(TaskBeginning::Live(live)));
        }
        let seen = VisibleTasks { views: place.reads.clone(), unlisted };
        let piece = self.store.beginning(id, seen, PIECE).await.map_err(troubled)?;
        let listed = match piece.first().map(|event| &event.body) {
            Some(Body::Opened(opened)) => reads(place, &opened.views),
            Some(_) | None => false,
        };
        // A task that is live and hidden stays hidden, even if it changed since the first check.
        let found =
            listed && self.lives.find(id).is_none_or(|live| live.task().is_none_or(|t| sight.admits(&t, place)));
        Ok(found.then_some(TaskBeginning::Log(piece)))
    }

    /// The task, loaded and with its fold, if it is visible.
    pub(crate) async fn visible_live(
        &self,
        place: &CallScope,
        id: TaskId,
        sight: LookupKind,
    ) -> Result<Option<(Arc<Live>, Arc<Task>)>, Fault> {
        let live = match self.glimpse(place, id, sight).await? {
            None => None,
            Some(TaskBeginning::Live(live)) => Some(live),
            Some(TaskBeginning::Log(piece)) => {
                let seen = piece.last().map(|event| event.seq);
                let live = self.lives.get(id, &*self.store, &self.limits, Some(piece)).await?;
                // Another request may have loaded it before our read.
                if let Some(live) = live.as_ref().filter(|live| live.task().map(|task| task.seq()) < seen) {
                    live.refresh(self).await?;
                }
                live
            }
        };
        let Some(live) = live else { return Ok(None) };
        let task = live.snapshot()?;
        Ok(sight.admits(&task, place).then_some((live, task)))
    }

    /// Whether the task is visible, reading no more of it than needed.
    pub(crate) async fn is_visible(&self, place: &CallScope, id: TaskId) -> Result<bool, Fault> {
        match self.glimpse(place, id, LookupKind::Task).await? {
            None => Ok(false),
            Some(TaskBeginning::Live(_)) => Ok(true),
            Some(TaskBeginning::Log(piece)) => {
                let task = Task::fold(&piece).map_err(Fault::internal)?;
                Ok(task.is_some_and(|task| LookupKind::Task.admits(&task, place)))
            }
        }
    }
}
