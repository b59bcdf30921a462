//! The tail: where the chunks of live turns are written first.
//!
//! In the log a task's rows are neighbours, so two hundred tasks that say a word each dirty two hundred pages, 4 KiB of
//! write-ahead log for a word. In the tail rows stand in the order they came: the same words are a page or two. It has no
//! index; where a task's rows are is known in memory, and after a start from one scan.
//!
//! * A commit goes to the tail when all it does is to lengthen the log of a running turn by a little. Any other one takes
//!   the task's rows with it: they and it become one row of the log. So a task's events are those of the log, then those of
//!   the tail, and what is here with numbers that the log has too is dead.
//! * Dead rows are cut off at the front, many at a time. So that no task that has said one word and then thinks for an hour
//!   keeps all behind it from being cut off, the oldest are written to the log when the tail is long.
//! * Readers look up where a task's rows are first, and take their snapshot then. What has gone to the log in between is in
//!   the snapshot's log; what is not in the snapshot came later than the reader did.

use std::collections::{BTreeMap, HashMap};

use model::ports::store::Append;
use model::{Seq, TaskId, stored};
use parking_lot::RwLock;
use rusqlite::{Connection, OptionalExtension, params};

use super::apply::CommitApplier;
use super::columns::{MAX_SEQ, TaskIdColumn, first_seq, log_key};
use super::counters;

/// A payload above this is a row of the log: pages are 4 KiB.
pub(super) const CHUNK_BYTES: usize = 2 << 10;
/// A task with more than this here is written to the log.
const TASK_BYTES: usize = 64 << 10;
/// The tail is kept about this long, dead rows included. Tests need not write thousands of rows to see it.
pub(super) const LONGEST: i64 = if cfg!(test) { 256 } else { 16_384 };
/// Dead rows are cut off when there are so many, and at most so many at a time.
pub(super) const CUT_LEAST: i64 = if cfg!(test) { 16 } else { 1_024 };
const CUT_MOST: i64 = 4_096;

/// One row of the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TailRow {
    pub(super) key: i64,
    pub(super) first: u64,
    pub(super) last: u64,
    /// Bytes of the task's rows up to this one.
    total: usize,
}

/// Where the rows of live turns are.
#[derive(Clone, Default)]
pub(super) struct Pieces {
    tasks: HashMap<TaskId, Vec<TailRow>>,
    rows: usize,
}

impl Pieces {
    pub(super) fn of(&self, task: TaskId) -> &[TailRow] {
        self.tasks.get(&task).map(Vec::as_slice).unwrap_or_default()
    }

    /// The last event of the task that is here.
    pub(super) fn last(&self, task: TaskId) -> u64 {
        self.of(task).last().map_or(0, |piece| piece.last)
    }

    pub(super) fn rows(&self) -> u64 {
        self.rows as u64
    }

    fn bytes(&self, task: TaskId) -> usize {
        self.of(task).last().map_or(0, |piece| piece.total)
    }

    fn add(&mut self, task: TaskId, piece: TailRow) {
        self.tasks.entry(task).or_default().push(piece);
        self.rows += 1;
    }

    fn take(&mut self, task: TaskId) -> Vec<TailRow> {
        let pieces = self.tasks.remove(&task).unwrap_or_default();
        self.rows -= pieces.len();
        pieces
    }
}

enum TailChange {
    Added(TaskId, TailRow),
    Gone(TaskId),
}

/// The writer's view of the tail, the changes of its transaction included.
pub(super) struct ChunkTail {
    pieces: Pieces,
    /// Tasks by their first row.
    by_age: BTreeMap<i64, TaskId>,
    next_key: i64,
    /// All rows below this are cut off; what it is when the transaction succeeds.
    cut: i64,
    cut_next: i64,
    /// Changes that readers see once they are committed.
    changes: Vec<TailChange>,
}

impl ChunkTail {
    /// Looks through the tail after a start. Rows of tasks that are gone are removed: their numbers may be used again.
    pub(super) fn scan(db: &Connection) -> rusqlite::Result<ChunkTail> {
        let mut pieces = Pieces::default();
        let mut known: HashMap<i64, Option<(TaskId, u64)>> = HashMap::new();
        let mut orphans = Vec::new();
        let (mut first_key, mut next_key) = (None, 1);
        let mut all = db.prepare("SELECT key, task_no, first_seq, last_seq, length(payload) FROM tail ORDER BY key")?;
        let mut find = db.prepare(
            "SELECT id, (SELECT last_seq FROM log WHERE key BETWEEN no << 26 AND (no << 26) + 67108863
                         ORDER BY key DESC LIMIT 1) FROM task WHERE no = ?1",
        )?;
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            let (key, task_no): (i64, i64) = (row.get(0)?, row.get(1)?);
            let (first, last): (i64, i64) = (row.get(2)?, row.get(3)?);
            let bytes = row.get::<_, i64>(4)? as usize;
            first_key.get_or_insert(key);
            next_key = key + 1;
            let found = match known.get(&task_no) {
                Some(found) => *found,
                None => {
                    let read = |row: &rusqlite::Row<'_>| {
                        Ok((row.get::<_, TaskIdColumn>(0)?.0, row.get::<_, Option<i64>>(1)?.unwrap_or_default() as u64))
                    };
                    let found = find.query_row(params![task_no], read).optional()?;
                    known.insert(task_no, found);
                    found
                }
            };
            match found {
                Some((task, in_log)) if first as u64 > in_log => {
                    let total = pieces.bytes(task) + bytes;
                    pieces.add(task, TailRow { key, first: first as u64, last: last as u64, total });
                }
                Some(_) => {}
                None => orphans.push(key),
            }
        }
        drop(rows);
        for key in orphans {
            db.execute("DELETE FROM tail WHERE key = ?1", params![key])?;
        }
        let cut = first_key.unwrap_or(next_key);
        Ok(ChunkTail { by_age: by_age(&pieces), pieces, next_key, cut, cut_next: cut, changes: Vec::new() })
    }

    /// Tells readers what the transaction has changed.
    pub(super) fn publish(&mut self, readers: &RwLock<Pieces>) {
        self.cut = self.cut_next;
        if self.changes.is_empty() {
            return;
        }
        let mut shown = readers.write();
        for change in self.changes.drain(..) {
            match change {
                TailChange::Added(task, piece) => shown.add(task, piece),
                TailChange::Gone(task) => drop(shown.take(task)),
            }
        }
    }

    /// The transaction failed: everything is as readers see it.
    pub(super) fn forget(&mut self, readers: &RwLock<Pieces>) {
        self.changes.clear();
        self.pieces = readers.read().clone();
        self.by_age = by_age(&self.pieces);
        self.cut_next = self.cut;
    }

    pub(super) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// Whether this may wait here for the end of its turn.
    pub(super) fn takes(&self, append: &Append) -> bool {
        let bytes = append.payload.len();
        bytes <= CHUNK_BYTES && self.pieces.bytes(append.task) + bytes <= TASK_BYTES
    }

    fn add(&mut self, append: &Append) -> i64 {
        let key = self.next_key;
        self.next_key += 1;
        let (first, last) = (append.expected.0 + 1, append.last().0);
        let piece = TailRow { key, first, last, total: self.pieces.bytes(append.task) + append.payload.len() };
        if self.pieces.of(append.task).is_empty() {
            self.by_age.insert(key, append.task);
        }
        self.pieces.add(append.task, piece);
        self.changes.push(TailChange::Added(append.task, piece));
        key
    }

    /// The task's rows, which are dead from here on.
    pub(super) fn take(&mut self, task: TaskId) -> Vec<TailRow> {
        let pieces = self.pieces.take(task);
        if let Some(oldest) = pieces.first() {
            self.by_age.remove(&oldest.key);
            self.changes.push(TailChange::Gone(task));
        }
        pieces
    }

    /// The first row that is not dead.
    fn front(&self) -> i64 {
        self.by_age.first_key_value().map_or(self.next_key, |(key, _)| *key)
    }
}

fn by_age(pieces: &Pieces) -> BTreeMap<i64, TaskId> {
    pieces.tasks.iter().filter_map(|(task, pieces)| Some((pieces.first()?.key, *task))).collect()
}

impl CommitApplier<'_> {
    pub(super) fn write_tail(&mut self, no: i64, append: &Append) -> rusqlite::Result<()> {
        let key = self.tail.add(append);
        let (first, last) = (append.expected.0 as i64 + 1, append.last().0 as i64);
        self.sql.tail_add.execute(params![key, no, first, last, &append.payload[..]])?;
        Ok(())
    }

    /// Writes to the log what a task has in the tail, and what follows it, as one row.
    pub(super) fn write_log(&mut self, no: i64, task: TaskId, append: Option<&Append>) -> rusqlite::Result<()> {
        let pieces = self.tail.take(task);
        let mut rows = Vec::with_capacity(pieces.len() + 1);
        for piece in &pieces {
            let payload: Vec<u8> = self.sql.tail_get.query_row(params![piece.key], |row| row.get(0))?;
            rows.push((piece.first, piece.last, payload));
        }
        if let Some(append) = append {
            // A long payload stays a row of its own, so that reads in pages stay bounded.
            if pieces.is_empty() || append.payload.len() > TASK_BYTES {
                self.add_log(no, append.expected.0 + 1, append.last().0, &append.payload)?;
            } else {
                rows.push((append.expected.0 + 1, append.last().0, append.payload.to_vec()));
            }
        }
        let (Some((first, ..)), Some((_, last, _))) = (rows.first(), rows.last()) else { return Ok(()) };
        match stored::joined(rows.iter().map(|(_, _, payload)| payload.as_slice())) {
            Some(payload) => self.add_log(no, *first, *last, &payload),
            // Of several versions, or of one that cannot be joined.
            None => rows.iter().try_for_each(|(first, last, payload)| self.add_log(no, *first, *last, payload)),
        }
    }

    fn add_log(&mut self, no: i64, first: u64, last: u64, payload: &[u8]) -> rusqlite::Result<()> {
        self.sql.log_add.execute(params![log_key(no, first), last as i64, payload])?;
        self.tally.add(counters::LOG_ROWS, 1);
        Ok(())
    }

    /// At the end of a transaction: keeps the tail short.
    pub(super) fn tend_tail(&mut self) -> rusqlite::Result<()> {
        while self.tail.next_key - self.tail.front() > LONGEST
            && let Some(task) = self.tail.by_age.first_key_value().map(|(_, task)| *task)
        {
            let Some(no) = self.number(task)? else {
                return Err(rusqlite::Error::QueryReturnedNoRows);
            };
            self.write_log(no, task, None)?;
        }
        let front = self.tail.front();
        if front - self.tail.cut >= CUT_LEAST {
            let until = front.min(self.tail.cut + CUT_MOST);
            self.wrote = true;
            self.sql.tail_cut.execute(params![until])?;
            self.tail.cut_next = until;
        }
        Ok(())
    }
}

/// The rows of a task's log after `after`, from the log and then from the tail, until `take` has enough. `pieces` was looked
/// up before the snapshot was taken.
pub(super) fn rows_after<E: From<rusqlite::Error>>(
    db: &Connection,
    pieces: &[TailRow],
    task: TaskId,
    after: Seq,
    mut take: impl FnMut(u64, &[u8]) -> Result<bool, E>,
) -> Result<(), E> {
    // The first row that matters is the one that holds `after + 1`, and that may begin earlier: a cursor can stand in the
    // middle of a batch.
    let mut statement = db.prepare_cached(
        "SELECT l.key, l.last_seq, l.payload FROM task AS t CROSS JOIN log AS l
         WHERE t.id = ?1 AND l.key < (t.no + 1) << 26 AND l.key >= CASE ?2 WHEN 0 THEN t.no << 26 ELSE
           (SELECT max(key) FROM log WHERE key BETWEEN t.no << 26 AND (t.no << 26) + ?2 + 1) END
         ORDER BY l.key",
    )?;
    // A number no log reaches would run into the next task's keys.
    let from = after.0.min(MAX_SEQ - 1) as i64;
    let mut rows = statement.query(params![TaskIdColumn(task), from])?;
    let mut in_log = 0;
    while let Some(row) = rows.next()? {
        in_log = row.get::<_, i64>(1)? as u64;
        let payload = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
        if in_log > after.0 && !take(first_seq(row.get(0)?), payload)? {
            return Ok(());
        }
    }
    // Without a row in the log the task is gone since, though its chunks may not yet be cut off.
    if in_log == 0 || pieces.iter().all(|piece| piece.last <= after.0.max(in_log)) {
        return Ok(());
    }
    let mut statement = db.prepare_cached("SELECT payload FROM tail WHERE key = ?1")?;
    for piece in pieces.iter().filter(|piece| piece.last > after.0 && piece.first > in_log) {
        let mut found = statement.query(params![piece.key])?;
        let Some(row) = found.next()? else { continue };
        let payload = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
        if !take(piece.first, payload)? {
            return Ok(());
        }
    }
    Ok(())
}
