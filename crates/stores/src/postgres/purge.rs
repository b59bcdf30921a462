//! Removal of tasks: with their log, list rows, counts, timers, push configs and the blobs that no other task uses.

use model::ports::store::KeyUse;
use model::{TaskId, Time};
use tokio::join;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::apply::LockedTask;
use super::columns::{hash_from, limit_of, pack_uses, unpack_uses};
use super::connect::{Conn, Sql, run};
use super::counters::{self, CounterSums};
use super::push::state_from;
use super::statements as sql;
use super::tables::Lists;
use super::trouble::Failure;
use crate::shape;

/// Idempotency keys looked at in one go, so that a purge never holds the writer for long. The next purge goes on.
const KEYS_AT_ONCE: i64 = 10_000;

/// As `LockedTask::from` reads it.
pub(super) static ONE: Sql = Sql {
    text: "SELECT id, no, seq, epoch, holder, context, views, state, status_at, listed, running, settled
           FROM rialto.task WHERE id = $1 FOR UPDATE",
    types: &[Type::UUID],
};
/// The same for old tasks. Rows that another transaction has locked are left for the next time.
pub(super) static OLD: Sql = Sql {
    text: "SELECT id, no, seq, epoch, holder, context, views, state, status_at, listed, running, settled
           FROM rialto.task WHERE settled AND status_at < $1 ORDER BY status_at, no LIMIT $2 FOR UPDATE SKIP LOCKED",
    types: &[Type::INT8, Type::INT8],
};
pub(super) static LOG: Sql =
    Sql { text: "DELETE FROM rialto.log WHERE task_no = ANY ($1)", types: &[Type::INT8_ARRAY] };
pub(super) static TIMERS: Sql =
    Sql { text: "DELETE FROM rialto.timer WHERE task = ANY ($1)", types: &[Type::UUID_ARRAY] };
pub(super) static ALIASES: Sql =
    Sql { text: "DELETE FROM rialto.alias WHERE task = ANY ($1)", types: &[Type::UUID_ARRAY] };
pub(super) static PUSH: Sql =
    Sql { text: "DELETE FROM rialto.push WHERE task = ANY ($1) RETURNING state", types: &[Type::UUID_ARRAY] };
pub(super) static TASKS: Sql = Sql { text: "DELETE FROM rialto.task WHERE id = ANY ($1)", types: &[Type::UUID_ARRAY] };
pub(super) static USES: Sql = Sql {
    text: "DELETE FROM rialto.blob_use WHERE task = ANY ($1) RETURNING tenant_no, hash",
    types: &[Type::UUID_ARRAY],
};
/// A transaction that is about to use one of the blobs holds it against this lock.
pub(super) static BLOBS_LOCK: Sql = Sql {
    text: "SELECT 1 FROM unnest($1::integer[], $2::bytea[]) AS u (tenant_no, hash)
           JOIN rialto.blob ON blob.tenant_no = u.tenant_no AND blob.hash = u.hash
           ORDER BY blob.tenant_no, blob.hash FOR UPDATE OF blob",
    types: &[Type::INT4_ARRAY, Type::BYTEA_ARRAY],
};
/// A statement of its own, because it must see the uses that came while the one before waited for its locks.
pub(super) static BLOBS: Sql = Sql {
    text: "DELETE FROM rialto.blob USING unnest($1::integer[], $2::bytea[]) AS u (tenant_no, hash)
           WHERE blob.tenant_no = u.tenant_no AND blob.hash = u.hash
             AND NOT EXISTS (SELECT 1 FROM rialto.blob_use AS used
                             WHERE used.tenant_no = u.tenant_no AND used.hash = u.hash)
           RETURNING blob.size",
    types: &[Type::INT4_ARRAY, Type::BYTEA_ARRAY],
};
pub(super) static KEYS_OLD: Sql = Sql {
    text: "SELECT key, uses FROM rialto.idempotency WHERE hour < $1 ORDER BY hour LIMIT $2 FOR UPDATE SKIP LOCKED",
    types: &[Type::INT8, Type::INT8],
};
pub(super) static KEYS_DROP: Sql =
    Sql { text: "DELETE FROM rialto.idempotency WHERE key = ANY ($1)", types: &[Type::BYTEA_ARRAY] };

/// Which tasks are to go.
pub(super) enum PurgeScope {
    One(TaskId),
    Old { before: Time, limit: usize },
}

/// Takes tasks out, in a transaction of its own, and says which.
pub(super) async fn remove(db: &Conn, which: &PurgeScope, slot: i32) -> Result<Vec<TaskId>, Failure> {
    let (begun, found) = match which {
        PurgeScope::One(task) => join!(biased; db.begin(), db.query(&ONE, [&task.0])),
        PurgeScope::Old { before, limit } => {
            let limit = limit_of(*limit);
            join!(biased; db.begin(), db.query(&OLD, [&before.0, &limit]))
        }
    };
    begun?;
    let mut gone = Vec::new();
    for row in found? {
        match (LockedTask::from(&row), which) {
            (Ok(kept), _) => gone.push(kept),
            // One that cannot be read stays, and the others go.
            (Err(failure), PurgeScope::Old { .. }) => {
                let task: Uuid = row.try_get(0)?;
                tracing::error!(%task, %failure, "a task is not purged: its row cannot be read");
            }
            (Err(failure), PurgeScope::One(_)) => return Err(failure),
        }
    }
    if gone.is_empty() {
        db.run("ROLLBACK").await?;
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = gone.iter().map(|(task, _)| task.0).collect();
    let numbers: Vec<i64> = gone.iter().map(|(_, kept)| kept.no).collect();
    let (mut tally, mut lists) = (CounterSums::default(), Lists::default());
    tally.add(counters::REMOVALS, gone.len() as i64);
    for (task, kept) in &gone {
        tally.count(&kept.row, -1);
        lists.move_task(*task, kept, Some(&kept.row), None, &mut tally);
    }
    let (tasks, log, listed, timers, aliases, configs, uses) = join!(
        biased;
        db.execute(&TASKS, [&ids]),
        db.execute(&LOG, [&numbers]),
        lists.write(db),
        db.execute(&TIMERS, [&ids]),
        db.execute(&ALIASES, [&ids]),
        db.query(&PUSH, [&ids]),
        db.query(&USES, [&ids]),
    );
    tasks?;
    tally.add(counters::LOG_ROWS, -(log? as i64));
    listed?;
    tally.add(counters::TIMERS, -(timers? as i64));
    tally.add(counters::ALIASES, -(aliases? as i64));
    for row in configs? {
        tally.push(state_from(row.try_get(0)?)?, -1);
    }
    let mut used = Vec::new();
    for row in uses? {
        used.push((row.try_get::<_, i32>(0)?, hash_from(row.try_get(1)?)?));
    }
    used.sort_unstable();
    used.dedup();
    if !used.is_empty() {
        let tenants: Vec<i32> = used.iter().map(|(tenant, _)| *tenant).collect();
        let hashes: Vec<&[u8]> = used.iter().map(|(_, hash)| hash.as_slice()).collect();
        let (locked, blobs) = join!(
            biased;
            db.query(&BLOBS_LOCK, [&tenants, &hashes]),
            db.query(&BLOBS, [&tenants, &hashes]),
        );
        locked?;
        for row in blobs? {
            tally.add(counters::BLOBS, -1);
            tally.add(counters::BLOB_BYTES, -row.try_get::<_, i64>(0)?);
        }
    }
    let (counted, committed) = join!(biased; tally.write(db, slot), db.run("COMMIT"));
    counted?;
    committed?;
    Ok(gone.into_iter().map(|(task, _)| task).collect())
}

/// Forgets uses of keys in hours before that of `before`, in a transaction of its own.
pub(super) async fn forget_keys(db: &Conn, before: Time, slot: i32) -> Result<(), Failure> {
    let hour = shape::hour(before);
    let (begun, found) = join!(biased; db.begin(), db.query(&KEYS_OLD, [&hour, &KEYS_AT_ONCE]));
    begun?;
    let (mut dropped, mut forgotten) = (Vec::new(), 0);
    let (mut keys, mut hours, mut uses): (Vec<Vec<u8>>, Vec<i64>, Vec<Vec<u8>>) = Default::default();
    for row in found? {
        let key = hash_from(row.try_get(0)?)?;
        let known = unpack_uses(key, row.try_get(1)?)?;
        let kept: Vec<KeyUse> = known.iter().filter(|used| shape::hour(used.at) >= hour).copied().collect();
        forgotten += (known.len() - kept.len()) as i64;
        match kept.first() {
            None => dropped.push(key.to_vec()),
            Some(first) => {
                keys.push(key.to_vec());
                hours.push(shape::hour(first.at));
                uses.push(pack_uses(&kept));
            }
        }
    }
    if forgotten == 0 {
        db.run("ROLLBACK").await?;
        return Ok(());
    }
    let mut tally = CounterSums::default();
    tally.add(counters::KEYS, -forgotten);
    let (gone, changed, counted, committed) = join!(
        biased;
        run(!dropped.is_empty(), db.execute(&KEYS_DROP, [&dropped])),
        run(!keys.is_empty(), db.execute(&sql::KEY_CHANGE, [&keys, &hours, &uses])),
        tally.write(db, slot),
        db.run("COMMIT"),
    );
    gone?;
    changed?;
    counted?;
    committed?;
    Ok(())
}
