//! The statements of a group of commits, all in one place; `apply.rs` runs them. Push configs are in
//! `push.rs`, records and the journal in `records.rs`, removals in `purge.rs`.

use tokio_postgres::types::Type;

use super::connect::Sql;
use super::{counters, fence, purge, push, records, texts};

/// Statements that the writer prepares when it connects: all it uses, because one prepared in the middle of a pipeline
/// would come after those behind it.
pub(super) static WRITER: &[&Sql] = &[
    &NAMES_ADD,
    &NAMES,
    &NUMBERS,
    &TASKS,
    &KEYS,
    &LIVING,
    &ALIASES,
    &TIMERS,
    &BLOBS,
    &TASK_ADD,
    &TASK_CHANGE,
    &LOG_ADD,
    &LISTING_ADD,
    &LISTING_MOVE,
    &LISTING_DROP,
    &KEY_ADD,
    &KEY_CHANGE,
    &ALIAS_ADD,
    &ALIAS_CHANGE,
    &TIMER_PUT,
    &TIMER_DROP,
    &BLOB_ADD,
    &BLOB_USE,
    &ACCESS_PUT,
    &counters::COUNT,
    &fence::PASS,
    &fence::RAISE,
    &fence::END,
    &push::LOCK,
    &push::ADD,
    &push::MOVE,
    &push::DROP,
    &records::RECORDS_LOCK,
    &records::ACCOUNTS_LOCK,
    &records::ENTRIES_KNOWN,
    &records::ENTRY_NUMBERS,
    &records::UNLIST,
    &records::RECORD_DROP,
    &records::RECORD_CHANGE,
    &records::RECORD_ADD,
    &records::LIST,
    &records::ACCOUNT_ADD,
    &records::ACCOUNT_CHANGE,
    &records::ENTRY_ADD,
    &records::POSTING_ADD,
    &texts::PUT,
    &texts::DROP,
    &purge::ONE,
    &purge::OLD,
    &purge::LOG,
    &purge::TIMERS,
    &purge::ALIASES,
    &purge::PUSH,
    &purge::TASKS,
    &purge::USES,
    &purge::BLOBS_LOCK,
    &purge::BLOBS,
    &purge::KEYS_OLD,
    &purge::KEYS_DROP,
];

pub(super) static NAMES_ADD: Sql = Sql {
    text: "INSERT INTO rialto.name (text) SELECT unnest($1::bytea[]) ON CONFLICT DO NOTHING",
    types: &[Type::BYTEA_ARRAY],
};
pub(super) static NAMES: Sql =
    Sql { text: "SELECT text, no FROM rialto.name WHERE text = ANY ($1)", types: &[Type::BYTEA_ARRAY] };

pub(super) static NUMBERS: Sql =
    Sql { text: "SELECT nextval('rialto.task_no') FROM generate_series(1, $1)", types: &[Type::INT8] };

// Round one: locks, and what is known under them.

/// As `Kept::from` reads it.
pub(super) static TASKS: Sql = Sql {
    text: "SELECT id, no, seq, epoch, holder, context, views, state, status_at, listed, running, settled
           FROM rialto.task WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE",
    types: &[Type::UUID_ARRAY],
};
pub(super) static KEYS: Sql = Sql {
    text: "SELECT key, uses FROM rialto.idempotency WHERE key = ANY ($1) ORDER BY key FOR NO KEY UPDATE",
    types: &[Type::BYTEA_ARRAY],
};
/// Which tasks of those keys' uses are there. A statement of its own, because it must see what was committed while the one
/// before waited for its locks.
pub(super) static LIVING: Sql = Sql {
    text: "SELECT task.id FROM rialto.idempotency AS used
           CROSS JOIN LATERAL generate_series(0, octet_length(used.uses) / 64 - 1) AS n (n)
           JOIN rialto.task ON task.id = encode(substr(used.uses, n.n * 64 + 33, 16), 'hex')::uuid
           WHERE used.key = ANY ($1)",
    types: &[Type::BYTEA_ARRAY],
};
pub(super) static ALIASES: Sql = Sql {
    text: "SELECT key, task FROM rialto.alias WHERE key = ANY ($1) ORDER BY key FOR NO KEY UPDATE",
    types: &[Type::BYTEA_ARRAY],
};
/// Timers change under the lock of their task only.
pub(super) static TIMERS: Sql =
    Sql { text: "SELECT task, kind, due FROM rialto.timer WHERE task = ANY ($1)", types: &[Type::UUID_ARRAY] };
/// Locked against being deleted, not against being used by others too.
pub(super) static BLOBS: Sql = Sql {
    text: "SELECT blob.tenant_no, blob.hash FROM unnest($1::integer[], $2::bytea[]) AS u (tenant_no, hash)
           JOIN rialto.blob ON blob.tenant_no = u.tenant_no AND blob.hash = u.hash
           ORDER BY blob.tenant_no, blob.hash FOR KEY SHARE OF blob",
    types: &[Type::INT4_ARRAY, Type::BYTEA_ARRAY],
};

// Round two: what became of it.

pub(super) static TASK_ADD: Sql = Sql {
    text: "INSERT INTO rialto.task (no, id, seq, epoch, holder, status_at, tenant_no, agent_no, state, listed, running,
                                    settled, context, views)
           SELECT no, id, seq, epoch, $5, status_at, tenant_no, agent_no, state, listed, running, settled, context, views
           FROM unnest($1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[], $6::bigint[], $7::integer[], $8::integer[],
                       $9::smallint[], $10::boolean[], $11::boolean[], $12::boolean[], $13::bytea[], $14::bytea[])
                AS u (no, id, seq, epoch, status_at, tenant_no, agent_no, state, listed, running, settled, context, views)",
    types: &[
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::INT4_ARRAY,
        Type::INT2_ARRAY,
        Type::BOOL_ARRAY,
        Type::BOOL_ARRAY,
        Type::BOOL_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
    ],
};
pub(super) static TASK_CHANGE: Sql = Sql {
    text: "UPDATE rialto.task SET seq = u.seq, epoch = u.epoch, holder = u.holder, status_at = u.status_at,
                                  state = u.state, listed = u.listed, running = u.running, settled = u.settled
           FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::smallint[],
                       $7::boolean[], $8::boolean[], $9::boolean[])
                AS u (id, seq, epoch, holder, status_at, state, listed, running, settled)
           WHERE task.id = u.id",
    types: &[
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::BOOL_ARRAY,
        Type::BOOL_ARRAY,
        Type::BOOL_ARRAY,
    ],
};
pub(super) static LOG_ADD: Sql = Sql {
    text: "INSERT INTO rialto.log (task_no, first_seq, last_seq, epoch, payload)
           SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])",
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};

pub(super) static LISTING_ADD: Sql = Sql {
    text: "INSERT INTO rialto.listing (view_no, state, status_at, task_no, task, context)
           SELECT * FROM unnest($1::integer[], $2::smallint[], $3::bigint[], $4::bigint[], $5::uuid[], $6::bytea[])",
    types: &[
        Type::INT4_ARRAY,
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::BYTEA_ARRAY,
    ],
};
pub(super) static LISTING_MOVE: Sql = Sql {
    text: "UPDATE rialto.listing SET state = u.to_state, status_at = u.to_status_at
           FROM unnest($1::integer[], $2::smallint[], $3::bigint[], $4::bigint[], $5::smallint[], $6::bigint[])
                AS u (view_no, state, status_at, task_no, to_state, to_status_at)
           WHERE listing.view_no = u.view_no AND listing.state = u.state AND listing.status_at = u.status_at
             AND listing.task_no = u.task_no",
    types: &[
        Type::INT4_ARRAY,
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::INT8_ARRAY,
    ],
};
pub(super) static LISTING_DROP: Sql = Sql {
    text: "DELETE FROM rialto.listing
           USING unnest($1::integer[], $2::smallint[], $3::bigint[], $4::bigint[])
                 AS u (view_no, state, status_at, task_no)
           WHERE listing.view_no = u.view_no AND listing.state = u.state AND listing.status_at = u.status_at
             AND listing.task_no = u.task_no",
    types: &[Type::INT4_ARRAY, Type::INT2_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY],
};

pub(super) static KEY_ADD: Sql = Sql {
    text: "INSERT INTO rialto.idempotency (key, hour, uses)
           SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bytea[])",
    types: &[Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};
pub(super) static KEY_CHANGE: Sql = Sql {
    text: "UPDATE rialto.idempotency SET hour = u.hour, uses = u.uses
           FROM unnest($1::bytea[], $2::bigint[], $3::bytea[]) AS u (key, hour, uses)
           WHERE idempotency.key = u.key",
    types: &[Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};

pub(super) static ALIAS_ADD: Sql = Sql {
    text: "INSERT INTO rialto.alias (key, task) SELECT * FROM unnest($1::bytea[], $2::uuid[])",
    types: &[Type::BYTEA_ARRAY, Type::UUID_ARRAY],
};
pub(super) static ALIAS_CHANGE: Sql = Sql {
    text: "UPDATE rialto.alias SET task = u.task FROM unnest($1::bytea[], $2::uuid[]) AS u (key, task)
           WHERE alias.key = u.key",
    types: &[Type::BYTEA_ARRAY, Type::UUID_ARRAY],
};

pub(super) static TIMER_PUT: Sql = Sql {
    text: "INSERT INTO rialto.timer (task, kind, task_no, due)
           SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::bigint[], $4::bigint[])
           ON CONFLICT (task, kind) DO UPDATE SET due = excluded.due",
    types: &[Type::UUID_ARRAY, Type::INT2_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY],
};
pub(super) static TIMER_DROP: Sql = Sql {
    text: "DELETE FROM rialto.timer USING unnest($1::uuid[], $2::smallint[]) AS u (task, kind)
           WHERE timer.task = u.task AND timer.kind = u.kind",
    types: &[Type::UUID_ARRAY, Type::INT2_ARRAY],
};

pub(super) static BLOB_ADD: Sql = Sql {
    text: "INSERT INTO rialto.blob (tenant_no, hash, size, bytes)
           SELECT * FROM unnest($1::integer[], $2::bytea[], $3::bigint[], $4::bytea[])",
    types: &[Type::INT4_ARRAY, Type::BYTEA_ARRAY, Type::INT8_ARRAY, Type::BYTEA_ARRAY],
};
pub(super) static BLOB_USE: Sql = Sql {
    text: "INSERT INTO rialto.blob_use (task, tenant_no, hash)
           SELECT * FROM unnest($1::uuid[], $2::integer[], $3::bytea[]) ON CONFLICT DO NOTHING",
    types: &[Type::UUID_ARRAY, Type::INT4_ARRAY, Type::BYTEA_ARRAY],
};

pub(super) static ACCESS_PUT: Sql = Sql {
    text: "INSERT INTO rialto.access (id, row) SELECT * FROM unnest($1::bytea[], $2::bytea[])
           ON CONFLICT (id) DO UPDATE SET row = excluded.row",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY],
};
