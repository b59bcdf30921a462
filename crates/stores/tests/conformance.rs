//! Every store passes the one suite.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use model::ports::Future;
use model::ports::store::Store;
use stores::conformance::Factory;
use stores::{memory, sqlite};

struct Memory;

impl Factory for Memory {
    fn open(&self) -> Future<'_, Arc<dyn Store>> {
        Box::pin(async { Arc::new(memory::Store::new()) as Arc<dyn Store> })
    }

    fn reopen(&self, _store: Arc<dyn Store>) -> Future<'_, Option<Arc<dyn Store>>> {
        Box::pin(async { None })
    }
}

/// A store in a folder of its own, which goes with the factory.
struct Sqlite {
    folder: tempfile::TempDir,
    options: fn(sqlite::Options) -> sqlite::Options,
}

impl Sqlite {
    fn new(options: fn(sqlite::Options) -> sqlite::Options) -> Sqlite {
        Sqlite { folder: tempfile::tempdir().unwrap(), options }
    }

    fn open_now(&self) -> Arc<dyn Store> {
        Arc::new(sqlite::Store::open((self.options)(sqlite::Options::new(self.folder.path()))).unwrap())
    }
}

impl Factory for Sqlite {
    fn open(&self) -> Future<'_, Arc<dyn Store>> {
        Box::pin(async { self.open_now() })
    }

    fn reopen(&self, store: Arc<dyn Store>) -> Future<'_, Option<Arc<dyn Store>>> {
        Box::pin(async move {
            store.close().await;
            Some(self.open_now())
        })
    }
}

mod memory_store {
    stores::conformance_tests!(super::Memory);
}

mod sqlite_store {
    stores::conformance_tests!(super::Sqlite::new(|options| options));
}

/// With everything so small that checkpoints, evictions and waiting happen all the time.
mod sqlite_store_in_narrow_rooms {
    stores::conformance_tests!(super::Sqlite::new(|options| stores::sqlite::Options {
        wal_limit_bytes: 64 << 10,
        readers: 1,
        reader_cache_kib: 16,
        writer_cache_kib: 16,
        durability: stores::sqlite::Durability::Relaxed,
        ..options
    }));
}
