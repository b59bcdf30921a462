//! Which tasks change, for operators who watch lists of tasks. Only the fact is passed on; a reader reads the task.
//!
//! * A commit of this process is noted after the store has it, so that a reader finds the change. While there is no reader, and
//!   for a minute after the last one left, which is time to come back, a commit costs one look at a counter.
//! * Changes are numbered within this process. A reader goes on after a number, and learns if it has missed any: those of
//!   another process life, or more than are kept. Then it reads everything it shows again.
//! * In a shared store, other processes' changes of known tasks come as hints without tenant and agent. Hints may be lost,
//!   and new tasks have none: a reader also looks for new ones.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use model::{Task, TaskId};
use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::{Engine, Shared};

/// The newest changes that are kept for readers.
const KEPT: usize = 4_096;
/// How long changes are noted after the last reader has left.
const LINGER: Duration = Duration::from_secs(60);

/// A task that has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedTask {
    pub task: TaskId,
    /// Tenant and agent; none for a change by another process.
    pub about: Option<(Arc<str>, Arc<str>)>,
}

/// The changes since a reader looked before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedTasks {
    /// In order; a task may be there several times.
    pub changes: Vec<ChangedTask>,
    /// Further changes may be missing here.
    pub missed: bool,
}

/// A place in the changes of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeCursor {
    /// The life of the process.
    pub life: Uuid,
    /// The number of changes before it.
    pub number: u64,
}

pub(crate) struct ChangeFeed {
    life: Uuid,
    watchers: AtomicUsize,
    kept: Mutex<KeptChanges>,
    news: Notify,
}

#[derive(Default)]
struct KeptChanges {
    changes: VecDeque<ChangedTask>,
    /// The number of changes that were noted so far.
    noted: u64,
    /// Readers before this number have missed some.
    complete_from: u64,
}

impl Default for ChangeFeed {
    fn default() -> ChangeFeed {
        ChangeFeed { life: Uuid::now_v7(), watchers: AtomicUsize::new(0), kept: Mutex::default(), news: Notify::new() }
    }
}

impl ChangeFeed {
    /// Notes a commit of this process.
    pub(crate) fn note(&self, task: &Task) {
        if self.watchers.load(Ordering::Relaxed) != 0 {
            self.add(ChangedTask { task: task.id, about: Some((task.tenant.clone(), task.agent.clone())) });
        }
    }

    /// Notes a change of a task that is not at hand, such as by another process.
    pub(crate) fn note_elsewhere(&self, task: TaskId) {
        if self.watchers.load(Ordering::Relaxed) != 0 {
            self.add(ChangedTask { task, about: None });
        }
    }

    /// Changes by other processes may have been missed.
    pub(crate) fn note_missed(&self) {
        if self.watchers.load(Ordering::Relaxed) != 0 {
            let mut kept = self.kept.lock();
            kept.noted += 1;
            kept.complete_from = kept.noted;
            kept.changes.clear();
            drop(kept);
            self.news.notify_waiters();
        }
    }

    fn enter(&self, after: Option<ChangeCursor>) -> WatcherPlace {
        let mut kept = self.kept.lock();
        let was_watched = self.watchers.fetch_add(1, Ordering::SeqCst) != 0;
        if !was_watched {
            // Nothing was noted meanwhile.
            kept.changes.clear();
            kept.noted += 1;
            kept.complete_from = kept.noted;
        }
        let known = after.filter(|cursor| cursor.life == self.life && cursor.number <= kept.noted);
        WatcherPlace { at: known.map_or(kept.noted, |cursor| cursor.number), is_new: known.is_none() }
    }

    fn read(&self, place: &mut WatcherPlace) -> Option<ChangedTasks> {
        let kept = self.kept.lock();
        let missed = std::mem::take(&mut place.is_new) || place.at < kept.complete_from;
        let oldest = kept.noted - kept.changes.len() as u64;
        let skipped = place.at.saturating_sub(oldest) as usize;
        let changes: Vec<ChangedTask> = kept.changes.iter().skip(skipped).cloned().collect();
        place.at = kept.noted;
        (missed || !changes.is_empty()).then_some(ChangedTasks { changes, missed })
    }

    fn add(&self, change: ChangedTask) {
        let mut kept = self.kept.lock();
        if kept.changes.len() == KEPT {
            kept.changes.pop_front();
        }
        kept.changes.push_back(change);
        kept.noted += 1;
        kept.complete_from = kept.complete_from.max(kept.noted - kept.changes.len() as u64);
        drop(kept);
        self.news.notify_waiters();
    }
}

/// Reads the changes of tasks; see [`Engine::watch`].
pub struct ChangeWatcher {
    shared: Arc<Shared>,
    place: WatcherPlace,
}

struct WatcherPlace {
    at: u64,
    /// The cursor was of another life, or there was none.
    is_new: bool,
}

impl Engine {
    /// Reads the changes of tasks from now on, or those after a cursor.
    pub fn watch(&self, after: Option<ChangeCursor>) -> ChangeWatcher {
        ChangeWatcher { shared: self.shared.clone(), place: self.shared.feed.enter(after) }
    }
}

impl ChangeWatcher {
    pub fn cursor(&self) -> ChangeCursor {
        ChangeCursor { life: self.shared.feed.life, number: self.place.at }
    }

    /// The changes since the last call, at once; none if there are none. The first call of a watcher without a cursor that is
    /// known here says that it has missed some.
    pub fn take(&mut self) -> Option<ChangedTasks> {
        self.shared.feed.read(&mut self.place)
    }

    /// Waits until there are changes. False once the engine stops.
    pub async fn changed(&self) -> bool {
        let feed = &self.shared.feed;
        let mut news = std::pin::pin!(feed.news.notified());
        news.as_mut().enable();
        if self.place.is_new || self.place.at < feed.kept.lock().noted {
            return true;
        }
        tokio::select! {
            () = news => true,
            () = self.shared.stopped.cancelled() => false,
        }
    }
}

impl Drop for ChangeWatcher {
    fn drop(&mut self) {
        let shared = self.shared.clone();
        let leave = move || {
            shared.feed.watchers.fetch_sub(1, Ordering::SeqCst);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                tokio::time::sleep(LINGER).await;
                leave();
            })),
            Err(_) => leave(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(number: u128) -> ChangedTask {
        ChangedTask { task: TaskId(Uuid::from_u128(number)), about: None }
    }

    fn numbers(found: Option<ChangedTasks>) -> (Vec<u128>, bool) {
        let found = found.unwrap_or_default();
        (found.changes.iter().map(|one| one.task.0.as_u128()).collect(), found.missed)
    }

    #[test]
    fn a_watcher_goes_on_where_it_was_and_learns_what_it_missed() {
        let feed = ChangeFeed::default();
        feed.note_elsewhere(TaskId(Uuid::from_u128(1)));
        let mut first = feed.enter(None);
        assert_eq!(numbers(feed.read(&mut first)), (vec![], true), "nothing was noted while nobody watched");
        assert_eq!(feed.read(&mut first), None);
        (2..5).for_each(|number| feed.add(change(number)));
        assert_eq!(numbers(feed.read(&mut first)), (vec![2, 3, 4], false));
        let cursor = ChangeCursor { life: feed.life, number: first.at };
        feed.add(change(5));
        let mut second = feed.enter(Some(cursor));
        assert_eq!(numbers(feed.read(&mut second)), (vec![5], false), "another watcher goes on");
        let foreign = ChangeCursor { life: Uuid::nil(), ..cursor };
        assert!(feed.read(&mut feed.enter(Some(foreign))).is_some_and(|found| found.missed));
        feed.note_missed();
        feed.add(change(6));
        assert_eq!(numbers(feed.read(&mut first)), (vec![6], true));
    }

    #[test]
    fn a_watcher_that_is_too_slow_learns_that_it_missed_some() {
        let feed = ChangeFeed::default();
        let mut place = feed.enter(None);
        feed.read(&mut place);
        (0..KEPT as u128 + 10).for_each(|number| feed.add(change(number)));
        let (found, missed) = numbers(feed.read(&mut place));
        assert_eq!((found.len(), found[0], missed), (KEPT, 10, true));
        feed.add(change(7));
        assert_eq!(numbers(feed.read(&mut place)), (vec![7], false));
    }
}
