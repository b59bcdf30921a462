//! Rows beside tasks: aliases, keys, blobs and push configs.

use std::collections::HashMap;

use bytes::Bytes;
use model::TaskId;
use model::ports::store::KeyUse;
use tokio_postgres::Row as Columns;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{ImportError, NOBODY, PostgresImport, Sums};
use crate::migrate::rows::{AccessRow, AliasRow, BlobRow, BlobUse, KeyUseRow, PushConfigRow};
use crate::postgres::columns::{hash_from, pack_uses, text_from, unpack_uses};
use crate::postgres::connect::Sql;
use crate::postgres::{counters, push, statements as sql};
use crate::shape;

// Aliases, and keys that callers are known by.

static ALIAS_FIND: Sql =
    Sql { text: "SELECT key, task FROM rialto.alias WHERE key = ANY ($1) ORDER BY key", types: &[Type::BYTEA_ARRAY] };
static ACCESS_FIND: Sql =
    Sql { text: "SELECT id, row FROM rialto.access WHERE id = ANY ($1) ORDER BY id", types: &[Type::BYTEA_ARRAY] };

impl PostgresImport {
    pub(crate) async fn add_aliases(&self, rows: &[AliasRow], sums: &mut Sums) -> Result<(), ImportError> {
        sums.0.add(counters::ALIASES, rows.len() as i64);
        let keys: Vec<&[u8]> = rows.iter().map(|alias| &alias.key[..]).collect();
        let tasks: Vec<Uuid> = rows.iter().map(|alias| alias.task.0).collect();
        self.db.execute(&sql::ALIAS_ADD, [&keys, &tasks]).await?;
        Ok(())
    }

    pub(crate) async fn find_aliases(&self, rows: &[AliasRow]) -> Result<Vec<AliasRow>, ImportError> {
        let keys: Vec<&[u8]> = rows.iter().map(|alias| &alias.key[..]).collect();
        let found = self.db.query(&ALIAS_FIND, [&keys]).await?;
        let read = |row: &Columns| -> Result<AliasRow, ImportError> {
            Ok(AliasRow { key: hash_from(row.try_get(0)?)?, task: TaskId(row.try_get(1)?) })
        };
        found.iter().map(read).collect()
    }

    pub(crate) async fn add_access(&self, rows: &[AccessRow], _sums: &mut Sums) -> Result<(), ImportError> {
        let ids: Vec<&[u8]> = rows.iter().map(|key| key.id.as_bytes()).collect();
        let texts: Vec<&[u8]> = rows.iter().map(|key| key.row.as_bytes()).collect();
        self.db.execute(&sql::ACCESS_PUT, [&ids, &texts]).await?;
        Ok(())
    }

    pub(crate) async fn find_access(&self, rows: &[AccessRow]) -> Result<Vec<AccessRow>, ImportError> {
        let ids: Vec<&[u8]> = rows.iter().map(|key| key.id.as_bytes()).collect();
        let found = self.db.query(&ACCESS_FIND, [&ids]).await?;
        let read = |row: &Columns| -> Result<AccessRow, ImportError> {
            let (id, text) = (text_from(row.try_get(0)?)?, text_from(row.try_get(1)?)?);
            Ok(AccessRow { id: id.to_owned(), row: text.to_owned() })
        };
        found.iter().map(read).collect()
    }
}

// Idempotency keys: here all uses of a key are one row, oldest first, and they come hour by hour.

static USE_ADD: Sql = Sql {
    text:
        "INSERT INTO rialto.idempotency (key, hour, uses) SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[])
           ON CONFLICT (key) DO UPDATE SET uses = idempotency.uses || excluded.uses",
    types: &[Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};
static USE_FIND: Sql =
    Sql { text: "SELECT key, hour, uses FROM rialto.idempotency WHERE key = ANY ($1)", types: &[Type::BYTEA_ARRAY] };

impl PostgresImport {
    pub(crate) async fn add_uses(&self, rows: &[KeyUseRow], sums: &mut Sums) -> Result<(), ImportError> {
        sums.0.add(counters::KEYS, rows.len() as i64);
        let mut keys: Vec<(i64, Vec<KeyUse>)> = Vec::new();
        let mut places: HashMap<[u8; 32], usize> = HashMap::new();
        for KeyUseRow { hour, used } in rows {
            let place = *places.entry(used.key).or_insert_with(|| {
                keys.push((*hour, Vec::new()));
                keys.len() - 1
            });
            keys[place].1.push(*used);
        }
        let names: Vec<&[u8]> = keys.iter().filter_map(|(_, uses)| uses.first()).map(|used| &used.key[..]).collect();
        let hours: Vec<i64> = keys.iter().map(|(hour, _)| *hour).collect();
        let packed: Vec<Vec<u8>> = keys.iter().map(|(_, uses)| pack_uses(uses)).collect();
        self.db.execute(&USE_ADD, [&names, &hours, &packed]).await?;
        Ok(())
    }

    pub(crate) async fn find_uses(&self, rows: &[KeyUseRow]) -> Result<Vec<KeyUseRow>, ImportError> {
        let keys: Vec<&[u8]> = rows.iter().map(|row| &row.used.key[..]).collect();
        let mut kept: HashMap<[u8; 32], (i64, Vec<KeyUse>)> = HashMap::new();
        for row in self.db.query(&USE_FIND, [&keys]).await? {
            let key = hash_from(row.try_get(0)?)?;
            kept.insert(key, (row.try_get(1)?, unpack_uses(key, row.try_get(2)?)?));
        }
        let find = |wanted: &KeyUseRow| {
            let (oldest, uses) = kept.get(&wanted.used.key)?;
            let used = uses.iter().find(|used| shape::hour(used.at) == wanted.hour)?;
            // The row goes by the hour of its oldest use.
            let right = *oldest == uses.first().map_or(0, |used| shape::hour(used.at));
            right.then_some(KeyUseRow { hour: wanted.hour, used: *used })
        };
        Ok(rows.iter().filter_map(find).collect())
    }
}

// Blobs.

static BLOB_FIND: Sql = Sql {
    text: "SELECT blob.tenant_no, blob.hash, blob.bytes
           FROM unnest($1::integer[], $2::bytea[]) WITH ORDINALITY AS u (tenant_no, hash, place)
           JOIN rialto.blob ON blob.tenant_no = u.tenant_no AND blob.hash = u.hash
           WHERE blob.size = octet_length(blob.bytes) ORDER BY u.place",
    types: &[Type::INT4_ARRAY, Type::BYTEA_ARRAY],
};
static BLOB_USE_FIND: Sql = Sql {
    text: "SELECT used.task, used.tenant_no, used.hash
           FROM unnest($1::uuid[], $2::integer[], $3::bytea[]) WITH ORDINALITY AS u (task, tenant_no, hash, place)
           JOIN rialto.blob_use AS used ON used.task = u.task AND used.tenant_no = u.tenant_no AND used.hash = u.hash
           ORDER BY u.place",
    types: &[Type::UUID_ARRAY, Type::INT4_ARRAY, Type::BYTEA_ARRAY],
};

impl PostgresImport {
    pub(crate) async fn add_blobs(&self, rows: &[BlobRow], sums: &mut Sums) -> Result<(), ImportError> {
        let sizes: Vec<i64> = rows.iter().map(|blob| blob.bytes.len() as i64).collect();
        sums.0.add(counters::BLOBS, rows.len() as i64);
        sums.0.add(counters::BLOB_BYTES, sizes.iter().sum());
        let tenants: Vec<i32> = rows.iter().map(|blob| blob.tenant_no).collect();
        let hashes: Vec<&[u8]> = rows.iter().map(|blob| &blob.hash[..]).collect();
        let bytes: Vec<&[u8]> = rows.iter().map(|blob| &blob.bytes[..]).collect();
        self.db.execute(&sql::BLOB_ADD, [&tenants, &hashes, &sizes, &bytes]).await?;
        Ok(())
    }

    pub(crate) async fn find_blobs(&self, rows: &[BlobRow]) -> Result<Vec<BlobRow>, ImportError> {
        let tenants: Vec<i32> = rows.iter().map(|blob| blob.tenant_no).collect();
        let hashes: Vec<&[u8]> = rows.iter().map(|blob| &blob.hash[..]).collect();
        let found = self.db.query(&BLOB_FIND, [&tenants, &hashes]).await?;
        let read = |row: &Columns| -> Result<BlobRow, ImportError> {
            let bytes = Bytes::copy_from_slice(row.try_get(2)?);
            Ok(BlobRow { tenant_no: row.try_get(0)?, hash: hash_from(row.try_get(1)?)?, bytes })
        };
        found.iter().map(read).collect()
    }

    pub(crate) async fn add_blob_uses(&self, rows: &[BlobUse], _sums: &mut Sums) -> Result<(), ImportError> {
        let tasks: Vec<Uuid> = rows.iter().map(|used| used.task.0).collect();
        let tenants: Vec<i32> = rows.iter().map(|used| used.tenant_no).collect();
        let hashes: Vec<&[u8]> = rows.iter().map(|used| &used.hash[..]).collect();
        self.db.execute(&sql::BLOB_USE, [&tasks, &tenants, &hashes]).await?;
        Ok(())
    }

    pub(crate) async fn find_blob_uses(&self, rows: &[BlobUse]) -> Result<Vec<BlobUse>, ImportError> {
        let tasks: Vec<Uuid> = rows.iter().map(|used| used.task.0).collect();
        let tenants: Vec<i32> = rows.iter().map(|used| used.tenant_no).collect();
        let hashes: Vec<&[u8]> = rows.iter().map(|used| &used.hash[..]).collect();
        let found = self.db.query(&BLOB_USE_FIND, [&tasks, &tenants, &hashes]).await?;
        let read = |row: &Columns| -> Result<BlobUse, ImportError> {
            let hash = hash_from(row.try_get(2)?)?;
            Ok(BlobUse { task: TaskId(row.try_get(0)?), tenant_no: row.try_get(1)?, hash })
        };
        found.iter().map(read).collect()
    }
}

// Push configs.

/// As `push::row_from` reads it, and the order in which they were made.
static PUSH_FIND: Sql = Sql {
    text: "SELECT push.task, push.id, push.edition, push.spec, push.made_at, push.state, push.next, push.due, push.attempts,
                  push.failing_since, push.delivered, push.delivered_at, push.trouble, push.epoch, push.made_no
           FROM unnest($1::uuid[], $2::bytea[]) WITH ORDINALITY AS u (task, id, place)
           JOIN rialto.push ON push.task = u.task AND push.id = u.id ORDER BY u.place",
    types: &[Type::UUID_ARRAY, Type::BYTEA_ARRAY],
};

impl PostgresImport {
    pub(crate) async fn add_push(&self, rows: &[PushConfigRow], sums: &mut Sums) -> Result<(), ImportError> {
        rows.iter().for_each(|push| sums.0.push(push.row.progress.state, 1));
        let writes = rows.iter().map(|push| push::PushWrite::Put {
            row: &push.row,
            made_no: push.made_no,
            epoch: push.row.epoch,
            progress: &push.row.progress,
            gone: false,
        });
        push::PushColumns::of(writes).write(&self.db, NOBODY).await?;
        Ok(())
    }

    pub(crate) async fn find_push(&self, rows: &[PushConfigRow]) -> Result<Vec<PushConfigRow>, ImportError> {
        let tasks: Vec<Uuid> = rows.iter().map(|push| push.row.task.0).collect();
        let ids: Vec<&[u8]> = rows.iter().map(|push| push.row.id.as_bytes()).collect();
        let found = self.db.query(&PUSH_FIND, [&tasks, &ids]).await?;
        let read = |row: &Columns| -> Result<PushConfigRow, ImportError> {
            Ok(PushConfigRow { made_no: row.try_get(14)?, row: push::row_from(row)? })
        };
        found.iter().map(read).collect()
    }
}
