//! Every store passes the one suite.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use model::ports::Future;
use model::ports::store::Store;
use stores::conformance::Factory;
use stores::{memory, postgres, sqlite};

struct Memory;

impl Factory for Memory {
    fn open(&self) -> Future<'_, Arc<dyn Store>> {
        Box::pin(async { Arc::new(memory::MemoryStore::new()) as Arc<dyn Store> })
    }

    fn reopen(&self, _store: Arc<dyn Store>) -> Future<'_, Option<Arc<dyn Store>>> {
        Box::pin(async { None })
    }

    fn second(&self) -> Future<'_, Option<Arc<dyn Store>>> {
        Box::pin(async { None })
    }

    fn keeps_files(&self) -> bool {
        false
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
        Arc::new(sqlite::SqliteStore::open((self.options)(sqlite::Options::new(self.folder.path()))).unwrap())
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

    /// A folder is one process's.
    fn second(&self) -> Future<'_, Option<Arc<dyn Store>>> {
        Box::pin(async { None })
    }

    fn keeps_files(&self) -> bool {
        true
    }
}

/// A store in a database of its own.
struct Postgres {
    database: cluster::Database,
    options: fn(postgres::Options) -> postgres::Options,
}

impl Postgres {
    fn new(options: fn(postgres::Options) -> postgres::Options) -> Postgres {
        Postgres { database: cluster::Cluster::shared().database(), options }
    }

    async fn open_now(&self) -> Arc<dyn Store> {
        let options = (self.options)(postgres::Options::new(self.database.url()));
        Arc::new(postgres::PostgresStore::open(options).await.unwrap())
    }
}

impl Factory for Postgres {
    fn open(&self) -> Future<'_, Arc<dyn Store>> {
        Box::pin(async { self.open_now().await })
    }

    fn reopen(&self, store: Arc<dyn Store>) -> Future<'_, Option<Arc<dyn Store>>> {
        Box::pin(async move {
            store.close().await;
            Some(self.open_now().await)
        })
    }

    fn second(&self) -> Future<'_, Option<Arc<dyn Store>>> {
        Box::pin(async { Some(self.open_now().await) })
    }

    /// They are PostgreSQL's.
    fn keeps_files(&self) -> bool {
        false
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
        durability: stores::sqlite::SqliteDurability::Relaxed,
        ..options
    }));
}

mod postgres_store {
    stores::conformance_tests!(super::Postgres::new(|options| options));
}

/// As behind a transaction pooler, where nothing is prepared, and with everything so small that waiting happens all the time.
mod postgres_store_in_narrow_rooms {
    stores::conformance_tests!(super::Postgres::new(|options| stores::postgres::Options {
        direct_url: Some(options.url.clone()),
        readers: 1,
        durability: stores::postgres::SqliteDurability::Relaxed,
        ..options
    }));
}
