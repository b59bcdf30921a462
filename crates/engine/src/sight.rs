//! Who sees which task. One that may not be seen is a missing one: in what is answered, and in what the store is asked on
//! the way.
//!
//! Whatever the task, a look at one that is not there for the caller is one read of its log's beginning, in which the store
//! decides by the task's row alone: of a missing one and of a hidden one nothing is read, however long the log is, and for
//! a live one the read is made all the same. Only an exchange that is over and that no list shows is looked at by its log, when
//! somebody who reads its view tries to follow it: whose it is stands nowhere else.

use std::sync::Arc;

use model::ports::store::Seen;
use model::{Body, Event, Fault, Place, Shape, Task, TaskId, View};

use crate::live::Live;
use crate::{Shared, troubled};

/// How much of a log is read at once.
pub(crate) const PIECE: usize = 256 << 10;

/// What somebody wants to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    Task,
    /// Also an exchange that is, or may become, a direct reply: whoever made it can follow it.
    Exchange,
}

impl Sight {
    pub(crate) fn admits(self, task: &Task, place: &Place) -> bool {
        let shown = match self {
            Sight::Task => task.core.shape == Shape::Task,
            Sight::Exchange => task.core.shape == Shape::Task || task.owner == place.caller.name,
        };
        shown && reads(place, &task.views)
    }
}

fn reads(place: &Place, views: &[View]) -> bool {
    place.reads.iter().any(|view| views.contains(view))
}

/// A task that is there, as far as its beginning tells.
pub(crate) enum Glimpse {
    Live(Arc<Live>),
    /// The first piece of its log.
    Log(Vec<Event>),
}

impl Shared {
    /// The beginning of a task, if it is in a list that is read here.
    pub(crate) async fn glimpse(&self, place: &Place, id: TaskId, sight: Sight) -> Result<Option<Glimpse>, Fault> {
        let live = self.lives.find(id);
        // One that is hidden is not read twice.
        if let Some(live) = live.as_ref().filter(|live| live.task().is_some_and(|task| reads(place, &task.views))) {
            live.refresh(self).await?;
        }
        // One that is live here is known: it need not be looked for among what lists do not show.
        let unlisted = sight == Sight::Exchange && live.as_ref().is_none_or(|live| live.task().is_none());
        if let Some(live) = live.filter(|live| live.task().is_some_and(|task| sight.admits(&task, place))) {
            return Ok(Some(Glimpse::Live(live)));
        }
        let seen = Seen { views: place.reads.clone(), unlisted };
        let piece = self.store.beginning(id, seen, PIECE).await.map_err(troubled)?;
        let listed = match piece.first().map(|event| &event.body) {
            Some(Body::Opened(opened)) => reads(place, &opened.views),
            Some(_) | None => false,
        };
        // Live and hidden stays hidden, whatever has become of it since the look.
        let found =
            listed && self.lives.find(id).is_none_or(|live| live.task().is_none_or(|t| sight.admits(&t, place)));
        Ok(found.then_some(Glimpse::Log(piece)))
    }

    /// The task made live, with its fold, if it may be seen.
    pub(crate) async fn visible_live(
        &self,
        place: &Place,
        id: TaskId,
        sight: Sight,
    ) -> Result<Option<(Arc<Live>, Arc<Task>)>, Fault> {
        let live = match self.glimpse(place, id, sight).await? {
            None => None,
            Some(Glimpse::Live(live)) => Some(live),
            Some(Glimpse::Log(piece)) => {
                let seen = piece.last().map(|event| event.seq);
                let live = self.lives.get(id, &*self.store, &self.limits, Some(piece)).await?;
                // Somebody may have made it live before we read of it.
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

    /// Whether there is such a task here, without reading more of it than that takes.
    pub(crate) async fn is_visible(&self, place: &Place, id: TaskId) -> Result<bool, Fault> {
        match self.glimpse(place, id, Sight::Task).await? {
            None => Ok(false),
            Some(Glimpse::Live(_)) => Ok(true),
            Some(Glimpse::Log(piece)) => {
                let task = Task::fold(&piece).map_err(Fault::internal)?;
                Ok(task.is_some_and(|task| Sight::Task.admits(&task, place)))
            }
        }
    }
}
