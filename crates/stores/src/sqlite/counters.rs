//! How many: exact numbers kept in the same transaction as what they count.
//!
//! A group's changes are summed here first and written at its end, one update per counter, so that 64 tasks finishing
//! in one group cost as many counter updates as one does.

use std::collections::HashMap;

use model::ports::store::IndexRow;
use rusqlite::params;

use super::columns::Context;
use super::statements::Statements;

/// The view number under which the whole store is counted.
pub(super) const STORE: i64 = 0;

// Kinds of counters. 1 to 8 are the states' codes. Stored: never renumbered.
pub(super) const ALL: u8 = 0;
pub(super) const RUNNING: u8 = 16;
pub(super) const LOG_ROWS: u8 = 17;
pub(super) const BLOBS: u8 = 18;
pub(super) const BLOB_BYTES: u8 = 19;
pub(super) const TIMERS: u8 = 20;
pub(super) const KEYS: u8 = 21;
pub(super) const ALIASES: u8 = 22;
pub(super) const PUSH_ACTIVE: u8 = 23;
pub(super) const PUSH_DEAD: u8 = 24;
pub(super) const RECORDS: u8 = 25;
pub(super) const ENTRIES: u8 = 26;

/// From this many tasks on, a context has a counter row of its own; below, its list is counted each time. Most contexts
/// hold a task or two, and for them a counter would cost more than the counting.
pub(super) const MANY: i64 = 16;

#[derive(Default)]
pub(super) struct CounterChanges {
    counters: HashMap<(i64, u8), i64>,
    contexts: HashMap<(i64, Context), i64>,
}

impl CounterChanges {
    pub(super) fn add(&mut self, kind: u8, n: i64) {
        *self.counters.entry((STORE, kind)).or_default() += n;
    }

    /// A task enters (+1) or leaves (-1) the store's own numbers.
    pub(super) fn count(&mut self, row: &IndexRow, n: i64) {
        self.add(ALL, n);
        self.count_row(row, n);
    }

    /// A task's row is counted (+1) or no longer (-1), the task staying.
    pub(super) fn count_row(&mut self, row: &IndexRow, n: i64) {
        self.add(row.state.code(), n);
        if row.running {
            self.add(RUNNING, n);
        }
    }

    /// A task enters or leaves a view's list, or a state within it.
    pub(super) fn list(&mut self, view_no: i64, state: u8, n: i64) {
        *self.counters.entry((view_no, state)).or_default() += n;
    }

    pub(super) fn context(&mut self, view_no: i64, context: &Context, n: i64) {
        *self.contexts.entry((view_no, context.clone())).or_default() += n;
    }

    pub(super) fn forget(&mut self) {
        self.counters.clear();
        self.contexts.clear();
    }

    /// Writes the sums, at the end of the transaction.
    pub(super) fn write(&mut self, sql: &mut Statements<'_>) -> rusqlite::Result<()> {
        for ((view_no, kind), n) in self.counters.drain() {
            if n != 0 {
                sql.counter_add.execute(params![view_no, kind, n])?;
            }
        }
        for ((view_no, context), n) in self.contexts.drain() {
            if n == 0 {
                continue;
            }
            if sql.context_step.execute(params![view_no, context, n])? > 0 {
                if n < 0 {
                    sql.context_drop.execute(params![view_no, context])?;
                }
                continue;
            }
            // No row yet. What is counted here is the list as this transaction leaves it.
            let count = |sql: &mut Statements<'_>, limit: i64| -> rusqlite::Result<i64> {
                sql.context_count.query_row(params![view_no, context, limit], |row| row.get(0))
            };
            if n > 0 && count(sql, MANY)? == MANY {
                let all = count(sql, -1)?;
                sql.context_add.execute(params![view_no, context, all])?;
            }
        }
        Ok(())
    }
}
