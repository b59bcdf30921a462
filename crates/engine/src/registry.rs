//! The live tasks of this process, by id: concurrent requests for one id get the same `Live`.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use model::ports::store::Store;
use model::{Event, Fault, Limits, MemoryBudget, Task, TaskId};
use parking_lot::{Mutex, MutexGuard};

use crate::live::{Inner, Live};
use crate::memory;
use crate::troubled;

/// The live tasks of this process, by id.
pub(crate) struct Registry {
    shards: [Mutex<HashMap<TaskId, Weak<Live>>>; 16],
    /// The memory shared by live tasks.
    pub(crate) memory: Arc<MemoryBudget>,
}

impl Registry {
    pub(crate) fn new(bytes: usize) -> Registry {
        Registry { shards: Default::default(), memory: MemoryBudget::new(bytes) }
    }

    fn shard(&self, id: TaskId) -> MutexGuard<'_, HashMap<TaskId, Weak<Live>>> {
        // The last byte of a UUIDv7 is random.
        self.shards[usize::from(id.0.as_bytes()[15] & 15)].lock()
    }

    /// The one `Live` of this id, loaded or not.
    pub(crate) fn entry(self: &Arc<Self>, id: TaskId) -> Arc<Live> {
        let mut shard = self.shard(id);
        if let Some(live) = shard.get(&id).and_then(Weak::upgrade) {
            return live;
        }
        let live = Arc::new(Live::empty(id, self));
        shard.insert(id, Arc::downgrade(&live));
        live
    }

    /// The task was purged.
    pub(crate) fn vanish(&self, id: TaskId) {
        let entry = self.shard(id).remove(&id);
        if let Some(live) = entry.and_then(|weak| weak.upgrade()) {
            live.vanish();
        }
    }

    pub(crate) fn forget(&self, id: TaskId) {
        let mut shard = self.shard(id);
        if shard.get(&id).is_some_and(|weak| weak.strong_count() == 0) {
            shard.remove(&id);
        }
    }

    /// The tasks that have not settled.
    pub(crate) fn open(&self) -> Vec<Arc<Live>> {
        let live =
            self.shards.iter().flat_map(|shard| shard.lock().values().filter_map(Weak::upgrade).collect::<Vec<_>>());
        live.filter(|live| live.task().is_some_and(|task| !task.core.is_settled())).collect()
    }

    /// All loaded tasks, settled or not. A task whose first commit is in flight is not loaded: the store does not have
    /// it yet.
    pub(crate) fn loaded(&self) -> Vec<TaskId> {
        let live =
            self.shards.iter().flat_map(|shard| shard.lock().values().filter_map(Weak::upgrade).collect::<Vec<_>>());
        live.filter(|live| live.inner.initialized()).map(|live| live.id).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Whether a turn of the task runs in this process, or is about to.
    pub(crate) fn is_at_work(&self, id: TaskId) -> bool {
        let live = self.shard(id).get(&id).and_then(Weak::upgrade);
        live.is_some_and(|live| live.is_at_work())
    }

    /// The task, if it is live and loaded.
    pub(crate) fn find(&self, id: TaskId) -> Option<Arc<Live>> {
        let live = self.shard(id).get(&id)?.upgrade()?;
        live.inner.initialized().then_some(live)
    }

    /// The task, loaded if it exists. Concurrent requests get the same `Live`. `piece` is the beginning of its log, if
    /// it has been read already.
    pub(crate) async fn get(
        self: &Arc<Self>,
        id: TaskId,
        store: &dyn Store,
        limits: &Limits,
        piece: Option<Vec<Event>>,
    ) -> Result<Option<Arc<Live>>, Fault> {
        let live = self.entry(id);
        let loaded = live.inner.get_or_try_init(|| load(&live, store, limits, piece, &self.memory)).await;
        match loaded {
            Ok(_) => Ok(Some(live)),
            Err(None) => Ok(None),
            Err(Some(fault)) => Err(fault),
        }
    }
}

async fn load(
    live: &Live,
    store: &dyn Store,
    limits: &Limits,
    piece: Option<Vec<Event>>,
    memory: &Arc<MemoryBudget>,
) -> Result<Mutex<Inner>, Option<Fault>> {
    let trouble = |trouble| Some(troubled(trouble));
    let refused = |refused| Some(Fault::internal(refused));
    let (mut events, whole) = match piece {
        Some(piece) => (piece, false),
        None => (store.logs(vec![live.id]).await.map_err(trouble)?.pop().unwrap_or_default(), true),
    };
    let mut task = Task::fold(&events).map_err(refused)?.ok_or(None)?;
    // Tasks read in pieces are read for a caller, who gets a fault if memory is short.
    let mut share = memory.share();
    let mut weight = events.iter().map(|event| event.body.weight()).sum::<usize>();
    if !whole {
        memory::make_room(memory, &mut share, weight)?;
    }
    // The log may have more pieces; a settled task has no further events.
    while !whole && !task.core.is_settled() {
        let more = store.events(live.id, task.seq(), limits.tail_bytes).await.map_err(trouble)?;
        if more.is_empty() {
            break;
        }
        for event in &more {
            task.apply(event).map_err(refused)?;
            weight += event.body.weight();
        }
        memory::make_room(memory, &mut share, weight)?;
        events.extend(more);
    }
    drop(share);
    Ok(live.filled(Arc::new(task), events, limits))
}
