//! The writer's hand: takes one commit, checks all of its conditions, and only then writes it.
//!
//! Checking first is what lets many commits share a transaction without savepoints: a refused one has not written
//! anything. The applier remembers the tasks it has lately met, so that the chunks of a running turn cost one insert into
//! the tail and nothing else. What it remembers is always what the file says, this transaction's changes included; when a
//! transaction fails, it forgets everything.

use std::collections::HashMap;
use std::sync::Arc;

use model::ports::store::{
    AliasWrite, Append, BlobWrite, Commit, Conflict, IndexRow, KeyUse, Opening, TimerChange, TimerKind,
};
use model::{Epoch, Seq, TaskId, Time};
use parking_lot::RwLock;
use rusqlite::{OptionalExtension, params};
use uuid::Uuid;

use super::columns::{Context, TaskIdColumn, pack_views, row_from, unpack_views};
use super::counters::{self, CounterChanges};
use super::records::Memory;
use super::statements::Statements;
use super::tail::{ChunkTail, Pieces};
use crate::{rules, shape};

/// Tasks and names remembered. Forgetting costs a read each, so the bound is only there to have one.
const REMEMBERED: usize = 50_000;

pub(super) struct CommitApplier<'db> {
    pub(super) sql: Statements<'db>,
    pub(super) tally: CounterChanges,
    pub(super) tail: ChunkTail,
    /// Whether this transaction has changed anything.
    pub(super) wrote: bool,
    tasks: HashMap<TaskId, KnownTask>,
    names: HashMap<Arc<str>, i64>,
    pub(super) memory: Memory,
    next_no: i64,
}

/// The facts of a task that a commit is checked against.
#[derive(Clone, Debug)]
pub(super) struct KnownTask {
    pub(super) no: i64,
    pub(super) seq: u64,
    pub(super) epoch: u64,
    pub(super) row: IndexRow,
    pub(super) context: Context,
    pub(super) views: Box<[i64]>,
    /// The kinds of timers it has, where that is known: of a task that was opened here.
    timers: Option<Vec<TimerKind>>,
}

impl KnownTask {
    /// Whether it has a timer of this kind, where that is known.
    fn has_timer(&self, kind: TimerKind) -> Option<bool> {
        self.timers.as_ref().map(|timers| timers.contains(&kind))
    }
}

impl rules::CommitFacts for CommitApplier<'_> {
    type Error = rusqlite::Error;

    fn key_use(&mut self, key: &[u8; 32], not_before: Time) -> rusqlite::Result<Option<KeyUse>> {
        let bound = params![key, shape::hour(not_before), not_before.0];
        self.sql.key_find.query_row(bound, |row| key_from(*key, row)).optional()
    }
    fn alias(&mut self, key: &[u8; 32]) -> rusqlite::Result<Option<TaskId>> {
        self.sql.alias_find.query_row(params![key], |row| Ok(row.get::<_, TaskIdColumn>(0)?.0)).optional()
    }
    fn head(&mut self, task: TaskId) -> rusqlite::Result<(Seq, Epoch)> {
        Ok(self.find(task)?.map(|kept| (Seq(kept.seq), Epoch(kept.epoch))).unwrap_or_default())
    }
    fn version(&mut self, kind: &Arc<str>, key: &Arc<str>) -> rusqlite::Result<u64> {
        self.record_version(kind, key)
    }
    fn has_entry(&mut self, id: Uuid) -> rusqlite::Result<bool> {
        self.sql.entry_find.exists(params![id.as_bytes()])
    }
    fn balance(&mut self, account: &Arc<str>) -> rusqlite::Result<i64> {
        self.on_account(account)
    }
}

impl<'db> CommitApplier<'db> {
    pub(super) fn new(sql: Statements<'db>, tail: ChunkTail, next_no: i64) -> CommitApplier<'db> {
        CommitApplier {
            sql,
            tally: CounterChanges::default(),
            tail,
            wrote: false,
            tasks: HashMap::new(),
            names: HashMap::new(),
            memory: Memory::default(),
            next_no,
        }
    }

    /// To be called before each transaction.
    pub(super) fn begin(&mut self) {
        self.wrote = false;
        if self.tasks.len() > REMEMBERED {
            self.tasks.clear();
        }
        if self.names.len() > REMEMBERED {
            self.names.clear();
        }
        self.memory.keep_to(REMEMBERED);
    }

    /// The transaction failed: nothing of what is remembered can be trusted.
    pub(super) fn forget(&mut self, readers: &RwLock<Pieces>) {
        self.tasks.clear();
        self.names.clear();
        self.memory.forget();
        self.tally.forget();
        self.tail.forget(readers);
    }

    /// Checks a commit and writes it, or says what it met. An error fails the whole transaction.
    pub(super) fn commit(&mut self, commit: &Commit) -> rusqlite::Result<Option<Conflict>> {
        if let Some(conflict) = rules::conflict(commit, self)? {
            return Ok(Some(conflict));
        }
        self.wrote = true;
        let Commit { appends, aliases, timers, push, blobs, .. } = commit;
        let more =
            appends.len() > 1 || !(aliases.is_empty() && timers.is_empty() && push.is_empty() && blobs.is_empty());
        for append in appends {
            match (&append.open, append.row) {
                (Some(open), Some(row)) => self.open(append, open, row, more)?,
                _ => self.append(append, more)?,
            }
        }
        for used in &commit.keys {
            self.use_key(used)?;
        }
        for alias in &commit.aliases {
            self.name_alias(alias)?;
        }
        for key in &commit.access {
            let row = serde_json::to_string(key).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
            self.sql.access_put.execute(params![key.id, row])?;
        }
        for change in &commit.timers {
            self.change_timer(change)?;
        }
        for change in &commit.push {
            self.change_push(change)?;
        }
        for blob in &commit.blobs {
            self.write_blob(blob)?;
        }
        for change in &commit.records {
            self.change_record(change)?;
        }
        for entry in &commit.entries {
            self.post(entry)?;
        }
        for change in &commit.texts {
            self.change_text(change)?;
        }
        // Of what has settled there is hardly more to come after this.
        for append in appends.iter().filter(|_| more) {
            if self.tasks.get(&append.task).is_some_and(|kept| kept.row.settled) {
                self.tasks.remove(&append.task);
            }
        }
        Ok(None)
    }

    /// A task as it is now, remembered or read.
    pub(super) fn find(&mut self, task: TaskId) -> rusqlite::Result<Option<&KnownTask>> {
        if !self.tasks.contains_key(&task) {
            let read = self.sql.task_find.query_row(params![TaskIdColumn(task)], |columns| {
                Ok(KnownTask {
                    no: columns.get(0)?,
                    epoch: columns.get::<_, i64>(1)? as u64,
                    context: columns.get(2)?,
                    views: unpack_views(columns.get_ref(3)?.as_blob()?),
                    row: row_from(columns, 4)?,
                    seq: columns.get::<_, Option<i64>>(9)?.unwrap_or_default() as u64,
                    timers: None,
                })
            });
            let Some(mut kept) = read.optional()? else {
                return Ok(None);
            };
            kept.seq = kept.seq.max(self.tail.pieces().last(task));
            self.tasks.insert(task, kept);
        }
        Ok(self.tasks.get(&task))
    }

    /// A task's number. The task is not kept in memory for it: the number alone is mostly asked for after the task's end.
    pub(super) fn number(&mut self, task: TaskId) -> rusqlite::Result<Option<i64>> {
        match self.tasks.get(&task) {
            Some(kept) => Ok(Some(kept.no)),
            None => self.sql.task_no.query_row(params![TaskIdColumn(task)], |row| row.get(0)).optional(),
        }
    }

    /// A task as it is now, no longer remembered.
    pub(super) fn take(&mut self, task: TaskId) -> rusqlite::Result<Option<KnownTask>> {
        self.find(task)?;
        Ok(self.tasks.remove(&task))
    }

    /// `more` of the commit may be about it.
    fn open(&mut self, append: &Append, open: &Opening, row: IndexRow, more: bool) -> rusqlite::Result<()> {
        let no = self.next_no;
        self.next_no += 1;
        let mut views = open.views.iter().map(|v| self.name(&v.0)).collect::<rusqlite::Result<Vec<i64>>>()?;
        // A task is in a list once, however often its view was named.
        views.sort_unstable();
        views.dedup();
        let (tenant_no, agent_no) = (self.name(&open.tenant)?, self.name(&open.agent)?);
        let kept = KnownTask {
            no,
            seq: append.last().0,
            epoch: append.epoch.unwrap_or_default().0,
            row,
            context: Context::to_row(&open.context),
            views: views.into(),
            timers: Some(Vec::new()),
        };
        self.sql.task_add.execute(params![
            no,
            TaskIdColumn(append.task),
            kept.context,
            tenant_no,
            agent_no,
            pack_views(&kept.views),
            kept.epoch as i64,
            row.state.code(),
            row.status_at.0,
            row.listed,
            row.running,
            row.settled,
        ])?;
        self.write_log(no, append.task, Some(append))?;
        self.tally.count(&row, 1);
        if row.listed {
            // A context known to be new holds this task only and needs no counter.
            self.list(&kept, &row, !open.fresh_context)?;
        }
        if more || !row.settled {
            self.tasks.insert(append.task, kept);
        }
        Ok(())
    }

    fn append(&mut self, append: &Append, more: bool) -> rusqlite::Result<()> {
        // It was there when the commit was checked, and there is only one writer.
        let Some(mut kept) = self.take(append.task)? else {
            return Err(rusqlite::Error::QueryReturnedNoRows);
        };
        let epoch = append.epoch.map_or(kept.epoch, |e| e.0);
        let as_before = append.row.is_none_or(|row| row == kept.row) && epoch == kept.epoch;
        if as_before && kept.row.running && self.tail.takes(append) {
            self.write_tail(kept.no, append)?;
        } else {
            self.write_log(kept.no, append.task, Some(append))?;
        }
        kept.seq = append.last().0;
        match append.row {
            Some(row) if row != kept.row => {
                self.sql.task_change.execute(params![
                    kept.no,
                    epoch as i64,
                    row.state.code(),
                    row.status_at.0,
                    row.listed,
                    row.running,
                    row.settled,
                ])?;
                self.tally.count_row(&kept.row, -1);
                self.tally.count_row(&row, 1);
                self.relist(&kept, &row)?;
                kept.row = row;
            }
            Some(_) | None => {
                if epoch != kept.epoch {
                    self.sql.task_epoch.execute(params![kept.no, epoch as i64])?;
                }
            }
        }
        kept.epoch = epoch;
        if more || !kept.row.settled {
            self.tasks.insert(append.task, kept);
        }
        Ok(())
    }

    /// Moves a task in the lists it is in. Only what lists sort or filter by moves anything.
    fn relist(&mut self, kept: &KnownTask, row: &IndexRow) -> rusqlite::Result<()> {
        let place = |row: &IndexRow| row.listed.then_some((row.state, row.status_at));
        if place(&kept.row) == place(row) {
            return Ok(());
        }
        let stays = kept.row.listed && row.listed;
        if kept.row.listed {
            self.unlist(kept, !stays)?;
        }
        if row.listed {
            self.list(kept, row, !stays)?;
        }
        Ok(())
    }

    fn list(&mut self, kept: &KnownTask, row: &IndexRow, counted: bool) -> rusqlite::Result<()> {
        let (state, at) = (row.state.code(), row.status_at.0);
        for &view_no in &kept.views {
            self.sql.listing_add.execute(params![view_no, state, at, kept.no])?;
            self.sql.by_context_add.execute(params![view_no, kept.context, at, kept.no, state])?;
            self.tally.list(view_no, counters::ALL, 1);
            self.tally.list(view_no, state, 1);
            if counted {
                self.tally.context(view_no, &kept.context, 1);
            }
        }
        Ok(())
    }

    pub(super) fn unlist(&mut self, kept: &KnownTask, counted: bool) -> rusqlite::Result<()> {
        let (state, at) = (kept.row.state.code(), kept.row.status_at.0);
        for &view_no in &kept.views {
            self.sql.listing_delete.execute(params![view_no, state, at, kept.no])?;
            self.sql.by_context_delete.execute(params![view_no, kept.context, at, kept.no])?;
            self.tally.list(view_no, counters::ALL, -1);
            self.tally.list(view_no, state, -1);
            if counted {
                self.tally.context(view_no, &kept.context, -1);
            }
        }
        Ok(())
    }

    fn name(&mut self, text: &Arc<str>) -> rusqlite::Result<i64> {
        if let Some(no) = self.names.get(text) {
            return Ok(*no);
        }
        let found = self.sql.name_find.query_row(params![text], |row| row.get(0)).optional()?;
        let no = match found {
            Some(no) => no,
            None => self.sql.name_add.insert(params![text])?,
        };
        self.names.insert(text.clone(), no);
        Ok(no)
    }

    fn use_key(&mut self, used: &KeyUse) -> rusqlite::Result<()> {
        let bound =
            params![shape::hour(used.at), used.key, used.body, TaskIdColumn(used.task), used.seq.0 as i64, used.at.0];
        if self.sql.key_add.execute(bound)? > 0 {
            self.tally.add(counters::KEYS, 1);
        } else {
            self.sql.key_change.execute(bound)?;
        }
        Ok(())
    }

    fn name_alias(&mut self, alias: &AliasWrite) -> rusqlite::Result<()> {
        let Some(no) = self.find(alias.task)?.map(|kept| kept.no) else {
            return Err(rusqlite::Error::QueryReturnedNoRows);
        };
        if self.sql.alias_add.execute(params![alias.key, no])? > 0 {
            self.tally.add(counters::ALIASES, 1);
        } else {
            self.sql.alias_move.execute(params![alias.key, no])?;
        }
        Ok(())
    }

    fn change_timer(&mut self, change: &TimerChange) -> rusqlite::Result<()> {
        let (task, kind) = change.about();
        let Some((no, has)) = self.find(task)?.map(|kept| (kept.no, kept.has_timer(kind))) else {
            // A timer of a task that is gone would never be cleared.
            return Ok(());
        };
        let is_set = match change {
            TimerChange::Set(timer) => {
                let bound = params![no, kind.code(), timer.due.0];
                if has != Some(true) && self.sql.timer_add.execute(bound)? > 0 {
                    self.tally.add(counters::TIMERS, 1);
                } else {
                    self.sql.timer_move.execute(bound)?;
                }
                true
            }
            TimerChange::Clear(..) => {
                if has != Some(false) {
                    let gone = self.sql.timer_clear.execute(params![no, kind.code()])?;
                    self.tally.add(counters::TIMERS, -(gone as i64));
                }
                false
            }
            TimerChange::Replace { .. } if has == Some(false) => return Ok(()),
            TimerChange::Replace { timer, to: Some(to) } => {
                if self.sql.timer_replace.execute(params![no, kind.code(), timer.due.0, to.0])? == 0 {
                    return Ok(());
                }
                true
            }
            TimerChange::Replace { timer, to: None } => {
                let gone = self.sql.timer_clear_due.execute(params![no, kind.code(), timer.due.0])?;
                if gone == 0 {
                    return Ok(());
                }
                self.tally.add(counters::TIMERS, -(gone as i64));
                false
            }
        };
        if let Some(timers) = self.tasks.get_mut(&task).and_then(|kept| kept.timers.as_mut()) {
            timers.retain(|known| *known != kind);
            timers.extend(is_set.then_some(kind));
        }
        Ok(())
    }

    fn write_blob(&mut self, blob: &BlobWrite) -> rusqlite::Result<()> {
        let Some(task_no) = self.find(blob.task)?.map(|kept| kept.no) else {
            // It would never go.
            return Ok(());
        };
        let found = self.sql.blob_find.query_row(params![blob.tenant, blob.hash], |row| row.get(0)).optional()?;
        let blob_no: i64 = match found {
            Some(no) => no,
            None => {
                self.tally.add(counters::BLOBS, 1);
                self.tally.add(counters::BLOB_BYTES, blob.bytes.len() as i64);
                self.sql.blob_add.insert(params![blob.tenant, blob.hash, &blob.bytes[..]])?
            }
        };
        self.sql.blob_use.execute(params![task_no, blob_no])?;
        Ok(())
    }
}

/// Reads body, task, seq, at: what [`super::statements::KEY_FIND`] selects.
pub(super) fn key_from(key: [u8; 32], row: &rusqlite::Row<'_>) -> rusqlite::Result<KeyUse> {
    Ok(KeyUse {
        key,
        body: row.get(0)?,
        task: row.get::<_, TaskIdColumn>(1)?.0,
        seq: Seq(row.get::<_, i64>(2)? as u64),
        at: Time(row.get(3)?),
    })
}
