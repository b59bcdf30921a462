//! How many: exact numbers kept in the same transaction as what they count.
//!
//! A group's changes are summed here first and written at its end. Every replica counts in rows of its own (its slot), so
//! that none waits for another's fsync; a read sums up. Two that share a slot for a while still count right.

use std::collections::BTreeMap;

use model::PushState;
use model::ports::store::IndexRow;
use tokio_postgres::Error;
use tokio_postgres::types::Type;

use super::columns::code;
use super::connect::{Conn, Sql};

/// The view number under which the whole store is counted.
pub(super) const STORE: i32 = 0;

// Kinds of counters. 1 to 8 are the states' codes. Stored: never renumbered.
pub(super) const ALL: i16 = 0;
pub(super) const RUNNING: i16 = 16;
pub(super) const LOG_ROWS: i16 = 17;
pub(super) const BLOBS: i16 = 18;
pub(super) const BLOB_BYTES: i16 = 19;
pub(super) const TIMERS: i16 = 20;
pub(super) const KEYS: i16 = 21;
pub(super) const ALIASES: i16 = 22;
pub(super) const PUSH_ACTIVE: i16 = 23;
pub(super) const PUSH_DEAD: i16 = 24;
pub(super) const RECORDS: i16 = 25;
pub(super) const ENTRIES: i16 = 26;
// How often something happened: these only grow.
pub(super) const ACCESS_CHANGES: i16 = 27;
pub(super) const REMOVALS: i16 = 28;

pub(super) static COUNT: Sql = Sql {
    text: "INSERT INTO rialto.counter (view_no, kind, slot, n)
           SELECT view_no, kind, $3, n FROM unnest($1::integer[], $2::smallint[], $4::bigint[]) AS u (view_no, kind, n)
           ON CONFLICT (view_no, kind, slot) DO UPDATE SET n = counter.n + excluded.n",
    types: &[Type::INT4_ARRAY, Type::INT2_ARRAY, Type::INT4, Type::INT8_ARRAY],
};

/// In order, so that two transactions that count in the same rows never deadlock.
#[derive(Default)]
pub(super) struct CounterSums(BTreeMap<(i32, i16), i64>);

impl CounterSums {
    pub(super) fn add(&mut self, kind: i16, n: i64) {
        self.list(STORE, kind, n);
    }

    /// A task enters (+1) or leaves (-1) the store's own numbers.
    pub(super) fn count(&mut self, row: &IndexRow, n: i64) {
        self.add(ALL, n);
        self.count_row(row, n);
    }

    /// A task's row is counted (+1) or no longer (-1), the task staying.
    pub(super) fn count_row(&mut self, row: &IndexRow, n: i64) {
        self.add(code(row.state), n);
        if row.running {
            self.add(RUNNING, n);
        }
    }

    /// A task enters or leaves a view's list, or a state within it.
    pub(super) fn list(&mut self, view_no: i32, kind: i16, n: i64) {
        *self.0.entry((view_no, kind)).or_default() += n;
    }

    pub(super) fn push(&mut self, state: PushState, n: i64) {
        match state {
            PushState::Active => self.add(PUSH_ACTIVE, n),
            PushState::Dead => self.add(PUSH_DEAD, n),
            PushState::Done => {}
        }
    }

    /// Writes the sums, at the end of the transaction.
    pub(super) async fn write(&self, db: &Conn, slot: i32) -> Result<(), Error> {
        let changed: Vec<_> = self.0.iter().filter(|(_, n)| **n != 0).collect();
        if changed.is_empty() {
            return Ok(());
        }
        let views: Vec<i32> = changed.iter().map(|((view_no, _), _)| *view_no).collect();
        let kinds: Vec<i16> = changed.iter().map(|((_, kind), _)| *kind).collect();
        let sums: Vec<i64> = changed.iter().map(|(_, n)| **n).collect();
        db.execute(&COUNT, [&views, &kinds, &slot, &sums]).await?;
        Ok(())
    }
}
