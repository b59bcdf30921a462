//! The writer's statements, prepared once and held for the life of its thread. What the writer does to the file is all
//! here, in one place; when it does it is in `apply.rs`, `push.rs`,
//! `records.rs` and `purge.rs`.

use rusqlite::{Connection, PrepFlags, Statement};

macro_rules! statements {
    ($($name:ident: $sql:expr;)*) => {
        pub(super) struct Statements<'db> {
            $(pub(super) $name: Statement<'db>,)*
        }

        /// Their texts, for the test that looks at their plans.
        #[cfg(test)]
        pub(super) const TEXTS: &[&str] = &[$($sql,)*];

        impl<'db> Statements<'db> {
            pub(super) fn prepare(db: &'db Connection) -> rusqlite::Result<Self> {
                Ok(Statements {
                    $($name: db.prepare_with_flags($sql, PrepFlags::SQLITE_PREPARE_PERSISTENT)?,)*
                })
            }
        }
    };
}

statements! {
    begin: "BEGIN IMMEDIATE";
    commit: "COMMIT";
    rollback: "ROLLBACK";
    probe: "UPDATE meta SET probe = probe + 1";
    save_epoch: "UPDATE meta SET epoch = ?1";

    name_find: "SELECT no FROM name WHERE text = ?1";
    name_add: "INSERT INTO name (text) VALUES (?1)";

    task_find: "SELECT no, epoch, context, views, state, status_at, listed, running, settled,
                       (SELECT last_seq FROM log WHERE key BETWEEN no << 26 AND (no << 26) + 67108863
                        ORDER BY key DESC LIMIT 1)
                FROM task WHERE id = ?1";
    task_no: "SELECT no FROM task WHERE id = ?1";
    task_add: "INSERT INTO task (no, id, context, tenant_no, agent_no, views, epoch, state, status_at, listed, running,
                                 settled)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    task_change: "UPDATE task SET epoch = ?2, state = ?3, status_at = ?4, listed = ?5, running = ?6, settled = ?7
                  WHERE no = ?1";
    task_epoch: "UPDATE task SET epoch = ?2 WHERE no = ?1";
    task_delete: "DELETE FROM task WHERE no = ?1";
    task_old: "SELECT id FROM task WHERE settled = 1 AND status_at < ?1 ORDER BY status_at, no LIMIT ?2";

    log_add: "INSERT INTO log (key, last_seq, payload) VALUES (?1, ?2, ?3)";
    tail_add: "INSERT INTO tail (key, task_no, first_seq, last_seq, payload) VALUES (?1, ?2, ?3, ?4, ?5)";
    tail_get: "SELECT payload FROM tail WHERE key = ?1";
    tail_cut: "DELETE FROM tail WHERE key < ?1";
    log_delete: "DELETE FROM log WHERE key BETWEEN ?1 << 26 AND (?1 << 26) + 67108863";

    listing_add: "INSERT INTO listing (view_no, state, status_at, task_no) VALUES (?1, ?2, ?3, ?4)";
    listing_delete: "DELETE FROM listing WHERE view_no = ?1 AND state = ?2 AND status_at = ?3 AND task_no = ?4";
    by_context_add: "INSERT INTO listing_by_context (view_no, context, status_at, task_no, state)
                     VALUES (?1, ?2, ?3, ?4, ?5)";
    by_context_delete: "DELETE FROM listing_by_context
                        WHERE view_no = ?1 AND context = ?2 AND status_at = ?3 AND task_no = ?4";

    counter_add: "INSERT INTO counter (view_no, kind, n) VALUES (?1, ?2, ?3)
                  ON CONFLICT DO UPDATE SET n = n + excluded.n";
    context_step: "UPDATE context_counter SET n = n + ?3 WHERE view_no = ?1 AND context = ?2";
    context_add: "INSERT INTO context_counter (view_no, context, n) VALUES (?1, ?2, ?3)";
    context_drop: "DELETE FROM context_counter WHERE view_no = ?1 AND context = ?2 AND n <= 0";
    context_count: "SELECT count(*) FROM (SELECT 1 FROM listing_by_context
                                          WHERE view_no = ?1 AND context = ?2 LIMIT ?3)";

    key_find: KEY_FIND;
    key_add: "INSERT INTO idempotency (hour, key, body, task, seq, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
              ON CONFLICT DO NOTHING";
    key_change: "UPDATE idempotency SET body = ?3, task = ?4, seq = ?5, at = ?6 WHERE hour = ?1 AND key = ?2";
    key_purge: "DELETE FROM idempotency WHERE (hour, key) IN
                (SELECT hour, key FROM idempotency WHERE hour < ?1 ORDER BY hour, key LIMIT ?2)";

    alias_find: ALIAS_FIND;
    alias_add: "INSERT INTO alias (key, task_no) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    alias_move: "UPDATE alias SET task_no = ?2 WHERE key = ?1";
    alias_delete: "DELETE FROM alias WHERE task_no = ?1";

    access_put: "INSERT INTO access (id, row) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET row = excluded.row";

    timer_add: "INSERT INTO timer (task_no, kind, due) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    timer_move: "UPDATE timer SET due = ?3 WHERE task_no = ?1 AND kind = ?2";
    timer_clear: "DELETE FROM timer WHERE task_no = ?1 AND kind = ?2";
    timer_replace: "UPDATE timer SET due = ?4 WHERE task_no = ?1 AND kind = ?2 AND due = ?3";
    timer_clear_due: "DELETE FROM timer WHERE task_no = ?1 AND kind = ?2 AND due = ?3";
    timer_delete: "DELETE FROM timer WHERE task_no = ?1";

    push_add: "INSERT INTO push (task_no, id, made_no, task, edition, state, next, due, attempts, failing_since,
                                 delivered, delivered_at, made_at, trouble, spec, epoch)
               VALUES (?1, ?2, (SELECT coalesce(max(made_no), 0) + 1 FROM push WHERE task_no = ?1),
                       ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
               ON CONFLICT DO NOTHING";
    push_find: "SELECT state, epoch, next FROM push WHERE task_no = ?1 AND id = ?2 AND edition = ?3";
    push_step: "UPDATE push SET next = ?5, due = ?6, attempts = ?7, failing_since = ?8, delivered = ?9,
                                delivered_at = ?10, trouble = ?11
                WHERE task_no = ?1 AND id = ?2 AND edition = ?3 AND state = ?4 AND epoch = ?12 AND next <= ?5";
    push_move: "UPDATE push SET state = ?4, next = ?5, due = ?6, attempts = ?7, failing_since = ?8, delivered = ?9,
                                delivered_at = ?10, trouble = ?11, epoch = ?12
                WHERE task_no = ?1 AND id = ?2 AND edition = ?3";
    push_drop: "DELETE FROM push WHERE task_no = ?1 AND id = ?2 RETURNING state";
    push_delete: "DELETE FROM push WHERE task_no = ?1 RETURNING state";

    blob_find: "SELECT no FROM blob WHERE tenant = ?1 AND hash = ?2";
    blob_add: "INSERT INTO blob (tenant, hash, bytes) VALUES (?1, ?2, ?3)";
    blob_use: "INSERT INTO blob_use (task_no, blob_no) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    blob_uses: "SELECT blob_no FROM blob_use WHERE task_no = ?1";
    blob_unuse: "DELETE FROM blob_use WHERE task_no = ?1";
    blob_unused: "SELECT length(bytes) FROM blob
                  WHERE no = ?1 AND NOT EXISTS (SELECT 1 FROM blob_use WHERE blob_no = ?1)";
    blob_delete: "DELETE FROM blob WHERE no = ?1";

    record_find: "SELECT no, version, lists FROM record WHERE kind = ?1 AND key = ?2";
    record_add: "INSERT INTO record (kind, key, version, body, lists) VALUES (?1, ?2, 1, ?3, ?4)";
    record_change: "UPDATE record SET version = ?2, body = ?3, lists = ?4 WHERE no = ?1";
    record_delete: "DELETE FROM record WHERE no = ?1";
    record_list_find: "SELECT no FROM record_list WHERE kind = ?1 AND name = ?2";
    record_list_add: "INSERT INTO record_list (kind, name) VALUES (?1, ?2)";
    record_place: "INSERT INTO record_place (list_no, rank, key, record_no) VALUES (?1, ?2, ?3, ?4)";
    record_unplace: "DELETE FROM record_place WHERE list_no = ?1 AND rank = ?2 AND key = ?3";

    account_find: "SELECT no, balance, last_entry FROM account WHERE name = ?1";
    account_add: "INSERT INTO account (name, balance, last_entry) VALUES (?1, 0, 0)";
    account_change: "UPDATE account SET balance = ?2, last_entry = ?3 WHERE no = ?1";
    entry_find: "SELECT 1 FROM entry WHERE id = ?1";
    entry_add: "INSERT INTO entry (id, at, body, postings) VALUES (?1, ?2, ?3, ?4)";

    text_find: "SELECT no, title, body FROM text WHERE shelf = ?1 AND id = ?2";
    text_add: "INSERT INTO text (shelf, id, title, body) VALUES (?1, ?2, ?3, ?4)";
    text_change: "UPDATE text SET title = ?2, body = ?3 WHERE no = ?1";
    text_delete: "DELETE FROM text WHERE no = ?1";
    text_word: "INSERT INTO text_word (rowid, title, body) VALUES (?1, ?2, ?3)";
    text_unword: "DELETE FROM text_word WHERE rowid = ?1";

    wal_frames: "PRAGMA wal_checkpoint(NOOP)";
    wal_restart: "PRAGMA wal_checkpoint(RESTART)";
    wal_empty: "PRAGMA wal_checkpoint(TRUNCATE)";
}

/// The task that alias ?1 names.
pub(super) const ALIAS_FIND: &str =
    "SELECT task.id FROM alias CROSS JOIN task ON task.no = alias.task_no WHERE key = ?1";

/// The newest use of key ?1 at or after ?3 (in or after hour ?2). It steps from one hour that has keys to the next
/// older one, a point lookup in each. The use of a key for a task that is gone counts for nothing.
pub(super) const KEY_FIND: &str = "
    WITH RECURSIVE hours (hour) AS (
      SELECT max(hour) FROM idempotency
      UNION ALL
      SELECT (SELECT max(hour) FROM idempotency WHERE hour < hours.hour) FROM hours WHERE hours.hour > ?2
    )
    SELECT used.body, used.task, used.seq, used.at
    FROM hours CROSS JOIN idempotency AS used ON used.hour = hours.hour AND used.key = ?1
    WHERE used.at >= ?3 AND EXISTS (SELECT 1 FROM task WHERE id = used.task)
    ORDER BY used.hour DESC LIMIT 1";
