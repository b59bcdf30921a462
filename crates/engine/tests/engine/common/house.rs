//! The environment of a test: data that outlives the process, and the process that has it open.

use std::sync::Arc;
use std::time::Duration;

use engine::Engine;
use model::ports::agent::Agent;
use model::ports::store::TaskLog as _;
use model::{Epoch, Limits};
use stores::sqlite::{Options, SqliteDurability};
use stores::{memory, sqlite};
use tempfile::TempDir;

use super::{Post, Shelf};

/// Time limit of a test; a slower one hangs.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct House {
    data: Data,
    shelf: Option<Arc<Shelf>>,
    starts: u64,
}

enum Data {
    Memory(Arc<memory::MemoryStore>),
    Sqlite(TempDir),
}

/// Runs a test on each store.
pub(crate) async fn on_both_stores(case: impl AsyncFn(House)) {
    // `RIALTO_STORES=memory` leaves out the slower half.
    let only = std::env::var("RIALTO_STORES").ok();
    let houses = [("memory", House::memory as fn() -> House), ("sqlite", House::sqlite)];
    for (name, house) in houses.into_iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name)) {
        eprintln!("on the {name} store:");
        let done = tokio::time::timeout(PATIENCE, case(house())).await;
        assert!(done.is_ok(), "the case hangs on the {name} store");
    }
}

/// The default limits, with shorter times.
pub(crate) fn quick() -> Limits {
    Limits { cancel_grace_ms: 50, drain_ms: 200, ..Limits::default() }
}

impl House {
    pub(crate) fn memory() -> House {
        House { data: Data::Memory(Arc::new(memory::MemoryStore::new())), shelf: None, starts: 0 }
    }

    pub(crate) fn sqlite() -> House {
        House { data: Data::Sqlite(tempfile::tempdir().unwrap()), shelf: None, starts: 0 }
    }

    /// Starts a server process on the data, with these agents.
    pub(crate) async fn start(&mut self, agents: impl IntoIterator<Item = Arc<dyn Agent>>) -> Engine {
        self.start_with(agents, quick()).await
    }

    pub(crate) async fn start_with(
        &mut self,
        agents: impl IntoIterator<Item = Arc<dyn Agent>>,
        limits: Limits,
    ) -> Engine {
        let shelf = self.open();
        Engine::builder(shelf).agents(agents.into_iter().collect()).limits(limits).start().await.unwrap()
    }

    /// Starts a server process that delivers webhooks.
    pub(crate) async fn start_post(
        &mut self,
        agents: impl IntoIterator<Item = Arc<dyn Agent>>,
        post: &Arc<Post>,
        limits: Limits,
    ) -> Engine {
        let shelf = self.open();
        Engine::builder(shelf)
            .agents(agents.into_iter().collect())
            .limits(limits)
            .webhook_sender(Some(post.clone()))
            .start()
            .await
            .unwrap()
    }

    /// Opens the data anew, for a process about to start.
    pub(crate) fn open(&mut self) -> Arc<Shelf> {
        assert!(self.shelf.is_none(), "one process at a time");
        self.starts += 1;
        let shelf = match &self.data {
            // A store in memory does not count processes; the house counts its epochs.
            Data::Memory(store) => Shelf::new(store.clone(), Epoch(self.starts), false),
            Data::Sqlite(folder) => {
                let options = Options { durability: SqliteDurability::Relaxed, ..Options::new(folder.path()) };
                let store = Arc::new(sqlite::SqliteStore::open(options).unwrap());
                let epoch = store.epoch();
                Shelf::new(store, epoch, true)
            }
        };
        self.shelf = Some(shelf.clone());
        shelf
    }

    /// The running process's store.
    pub(crate) fn shelf(&self) -> &Arc<Shelf> {
        self.shelf.as_ref().unwrap()
    }

    /// `kill -9`: the process does nothing more.
    pub(crate) async fn kill(&mut self) {
        let shelf = self.shelf.take().unwrap();
        shelf.die();
        if matches!(self.data, Data::Sqlite(_)) {
            // The files of the dead process are closed, as a kernel would.
            shelf.inner().close().await;
        }
    }

    /// Another process on the same data while the first still runs. Only a store in memory allows it.
    pub(crate) fn rival(&mut self) -> Option<Arc<Shelf>> {
        self.starts += 1;
        match &self.data {
            Data::Memory(store) => Some(Shelf::new(store.clone(), Epoch(self.starts), false)),
            Data::Sqlite(_) => None,
        }
    }
}
