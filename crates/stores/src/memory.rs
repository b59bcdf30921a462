//! A store that lives in the process: everything behind one lock, every question answered by looking at everything.
//!
//! It is for tests, and it is the model the SQLite store is compared with, so it is written to be obviously right rather
//! than fast. It survives no restart and writes no backups.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::ready;
use model::ports::Future;
use model::ports::store::{
    Append, Commit, Cursor, Health, IndexRow, Journal, KeyUse, ListPage, ListQuery, LogHead, Opening, Outcome,
    RecordStore, Replicas, StoreError, TaskLists, TaskLog, TaskPage, TaskQuery, TextSearch, Timer, TimerChange,
    TimerKind, Upkeep, VisibleTasks,
};
use model::{
    AccessKey, AccountLine, Balance, Entry, Epoch, Event, Listed, PushChange, PushRow, PushState, Record, RecordChange,
    RecordPage, RecordQuery, Seq, State, TaskId, TextChange, TextPage, TextPlace, TextQuery, Time, stored, text,
};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::{rules, shape};

/// An empty store at epoch 1.
#[derive(Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
}

/// By kind and key, with the lists they are in.
type Records = BTreeMap<(Arc<str>, Arc<str>), (Record, Vec<Listed>)>;

/// By shelf and id: the words of the title, and those of the body.
type Texts = BTreeMap<(Arc<str>, Arc<str>), (Vec<String>, Vec<String>)>;

#[derive(Default)]
struct Inner {
    tasks: BTreeMap<TaskId, StoredTask>,
    last_no: u64,
    keys: HashMap<[u8; 32], BTreeMap<i64, KeyUse>>,
    aliases: HashMap<[u8; 32], TaskId>,
    access: BTreeMap<Arc<str>, AccessKey>,
    /// With the order they were made in.
    push: BTreeMap<(TaskId, Arc<str>), (u64, PushRow)>,
    last_push: u64,
    timers: BTreeMap<(TaskId, u8), Time>,
    blobs: HashMap<(Arc<str>, [u8; 32]), Bytes>,
    records: Records,
    balances: BTreeMap<Arc<str>, i64>,
    journal: Vec<Entry>,
    texts: Texts,
    closed: bool,
}

struct StoredTask {
    no: u64,
    opening: Opening,
    seq: Seq,
    epoch: Epoch,
    row: IndexRow,
    /// One entry per append, as in a durable log: the first sequence number and the payload.
    log: Vec<(Seq, Bytes)>,
    blobs: BTreeSet<(Arc<str>, [u8; 32])>,
}

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn read<T>(&self, look: impl FnOnce(&mut Inner) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut inner = self.inner.lock();
        if inner.closed { Err(StoreError::Closed) } else { look(&mut inner) }
    }
}

impl rules::CommitFacts for Inner {
    type Error = Infallible;

    fn key_use(&mut self, key: &[u8; 32], not_before: Time) -> Result<Option<KeyUse>, Infallible> {
        Ok(self.use_of(key, not_before))
    }
    fn alias(&mut self, key: &[u8; 32]) -> Result<Option<TaskId>, Infallible> {
        Ok(self.aliases.get(key).copied())
    }
    fn head(&mut self, task: TaskId) -> Result<(Seq, Epoch), Infallible> {
        Ok(self.tasks.get(&task).map(|kept| (kept.seq, kept.epoch)).unwrap_or_default())
    }
    fn version(&mut self, kind: &Arc<str>, key: &Arc<str>) -> Result<u64, Infallible> {
        Ok(self.records.get(&(kind.clone(), key.clone())).map_or(0, |(record, _)| record.version))
    }
    fn has_entry(&mut self, id: Uuid) -> Result<bool, Infallible> {
        Ok(self.journal.iter().any(|entry| entry.id == id))
    }
    fn balance(&mut self, account: &Arc<str>) -> Result<i64, Infallible> {
        Ok(self.balances.get(account).copied().unwrap_or_default())
    }
}

impl Inner {
    fn use_of(&self, key: &[u8; 32], not_before: Time) -> Option<KeyUse> {
        let uses = self.keys.get(key)?;
        uses.values().rev().find(|u| u.at >= not_before && self.tasks.contains_key(&u.task)).copied()
    }

    fn append(&mut self, append: Append) {
        let (last, first) = (append.last(), append.expected.next());
        if let (Some(opening), Some(row)) = (append.open, append.row) {
            self.last_no += 1;
            let kept = StoredTask {
                no: self.last_no,
                opening,
                seq: Seq::ZERO,
                epoch: Epoch::default(),
                row,
                log: Vec::new(),
                blobs: BTreeSet::new(),
            };
            self.tasks.insert(append.task, kept);
        }
        if let Some(kept) = self.tasks.get_mut(&append.task) {
            kept.seq = last;
            kept.epoch = append.epoch.unwrap_or(kept.epoch);
            kept.row = append.row.unwrap_or(kept.row);
            kept.log.push((first, append.payload));
        }
    }

    fn apply(&mut self, commit: Commit) {
        for append in commit.appends {
            self.append(append);
        }
        for used in commit.keys {
            self.keys.entry(used.key).or_default().insert(shape::hour(used.at), used);
        }
        for alias in commit.aliases {
            self.aliases.insert(alias.key, alias.task);
        }
        for key in commit.access {
            self.access.insert(key.id.clone(), key);
        }
        for change in commit.timers {
            match change {
                // A timer of a task that is gone would never be cleared.
                TimerChange::Set(timer) if self.tasks.contains_key(&timer.task) => {
                    self.timers.insert((timer.task, timer.kind.code()), timer.due);
                }
                TimerChange::Set(_) => {}
                TimerChange::Clear(task, kind) => {
                    self.timers.remove(&(task, kind.code()));
                }
                TimerChange::Replace { timer, to } => {
                    let key = (timer.task, timer.kind.code());
                    if self.timers.get(&key) == Some(&timer.due) {
                        match to {
                            Some(due) => self.timers.insert(key, due),
                            None => self.timers.remove(&key),
                        };
                    }
                }
            }
        }
        for change in commit.push {
            match change {
                PushChange::Put(row) if self.tasks.contains_key(&row.task) => {
                    self.last_push += 1;
                    self.push.insert((row.task, row.id.clone()), (self.last_push, row));
                }
                PushChange::Put(_) => {}
                PushChange::Moved { task, id, edition, epoch, progress } => {
                    let same = |row: &PushRow| (row.edition, row.epoch) == (edition, epoch);
                    let row = self.push.get_mut(&(task, id)).filter(|(_, row)| same(row));
                    if let Some((_, row)) = row.filter(|(_, row)| row.progress.next <= progress.next) {
                        row.progress = progress;
                    }
                }
                PushChange::SetBack { task, id, edition, progress } => {
                    if let Some((_, row)) = self.push.get_mut(&(task, id)).filter(|(_, row)| row.edition == edition) {
                        (row.epoch, row.progress) = (Epoch(row.epoch.0 + 1), progress);
                    }
                }
                PushChange::Over { task, id, edition, epoch } => {
                    let key = (task, id);
                    if self.push.get(&key).is_some_and(|(_, row)| (row.edition, row.epoch) == (edition, epoch)) {
                        self.push.remove(&key);
                    }
                }
                PushChange::Remove { task, id } => {
                    self.push.remove(&(task, id));
                }
            }
        }
        for change in commit.records {
            match change {
                RecordChange::Put { kind, key, body, lists, .. } => {
                    let at = (kind.clone(), key.clone());
                    let version = self.records.get(&at).map_or(0, |(record, _)| record.version) + 1;
                    self.records.insert(at, (Record { kind, key, version, body }, lists));
                }
                RecordChange::Remove { kind, key, .. } => drop(self.records.remove(&(kind, key))),
                RecordChange::Leave { .. } => {}
            }
        }
        for mut entry in commit.entries {
            for posting in &mut entry.postings {
                *self.balances.entry(posting.account.clone()).or_default() += posting.amount;
                posting.floor = None;
            }
            self.journal.push(entry);
        }
        for change in commit.texts {
            match change {
                TextChange::Put { shelf, id, title, body } => {
                    let words = (text::words(&title, text::MAX_WORDS), text::words(&body, text::MAX_WORDS));
                    self.texts.insert((shelf, id), words);
                }
                TextChange::Remove { shelf, id } => drop(self.texts.remove(&(shelf, id))),
            }
        }
        for blob in commit.blobs {
            if let Some(kept) = self.tasks.get_mut(&blob.task) {
                kept.blobs.insert((blob.tenant.clone(), blob.hash));
                self.blobs.entry((blob.tenant, blob.hash)).or_insert(blob.bytes);
            }
        }
    }

    fn remove(&mut self, task: TaskId) -> bool {
        let Some(gone) = self.tasks.remove(&task) else {
            return false;
        };
        self.timers.retain(|(owner, _), _| *owner != task);
        self.aliases.retain(|_, named| *named != task);
        self.push.retain(|(owner, _), _| *owner != task);
        for blob in gone.blobs {
            if !self.tasks.values().any(|t| t.blobs.contains(&blob)) {
                self.blobs.remove(&blob);
            }
        }
        true
    }

    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Result<Vec<Event>, StoreError> {
        let mut events = Vec::new();
        let mut read = 0;
        for (first, payload) in self.tasks.get(&task).map(|t| t.log.as_slice()).unwrap_or_default() {
            let batch = stored::decode(*first, payload).map_err(|e| StoreError::Broken(e.to_string()))?;
            if batch.last().is_none_or(|e| e.seq <= after) {
                continue;
            }
            events.extend(batch.into_iter().filter(|e| e.seq > after));
            read += payload.len();
            if read >= bytes {
                break;
            }
        }
        Ok(events)
    }

    fn list(&self, query: &ListQuery) -> ListPage {
        let matches = |kept: &&(&TaskId, &StoredTask)| {
            let (row, opening) = (&kept.1.row, &kept.1.opening);
            row.listed
                && opening.views.iter().any(|v| query.views.contains(v))
                && query.context.as_ref().is_none_or(|c| *c == opening.context)
                && query.state.is_none_or(|s| s == row.state)
                && query.since.is_none_or(|since| row.status_at >= since)
        };
        let all: Vec<(&TaskId, &StoredTask)> = self.tasks.iter().collect();
        let mut found: Vec<(TaskId, Cursor)> = all
            .iter()
            .filter(matches)
            .map(|(id, kept)| (**id, Cursor { at: kept.row.status_at, no: kept.no }))
            .collect();
        let total = query.count.then_some(found.len() as u64);
        found.sort_by_key(|(_, cursor)| Reverse(*cursor));
        found.retain(|(_, cursor)| query.after.is_none_or(|after| *cursor < after));
        let more = found.len() > query.limit as usize;
        found.truncate(query.limit as usize);
        ListPage { tasks: found, more, total }
    }

    fn tasks(&self, query: &TaskQuery) -> TaskPage {
        let rows = query.rows as usize;
        let before = self.tasks.iter().rev().filter(|(id, _)| query.before.is_none_or(|before| **id < before));
        let seen: Vec<(&TaskId, &StoredTask)> = before.take(rows).collect();
        let wanted = |(id, kept): &&(&TaskId, &StoredTask)| {
            query.tenant.as_ref().is_none_or(|tenant| *tenant == kept.opening.tenant)
                && query.agent.as_ref().is_none_or(|agent| *agent == kept.opening.agent)
                && query.state.is_none_or(|state| state == kept.row.state)
                && (!query.aliased || self.aliases.values().any(|named| named == *id))
        };
        let next = seen.last().filter(|_| seen.len() == rows).map(|(id, _)| **id);
        TaskPage { tasks: seen.iter().filter(wanted).map(|(id, _)| **id).collect(), next }
    }

    fn records(&self, query: &RecordQuery) -> RecordPage {
        let in_list =
            |lists: &[Listed]| lists.iter().find(|listed| listed.list == query.list).map(|listed| listed.rank);
        let of_kind = self.records.values().filter(|(record, _)| record.kind == query.kind);
        let found = of_kind.filter_map(|(record, lists)| Some((record.clone(), in_list(lists)?)));
        let mut found: Vec<(Record, i64)> = found.collect();
        let total = query.count.then_some(found.len() as u64);
        found.sort_by(|(a, x), (b, y)| (y, &b.key).cmp(&(x, &a.key)));
        if let Some((rank, key)) = &query.after {
            found.retain(|(record, at)| (at, &record.key) < (rank, key));
        }
        let mut records: Vec<_> = found.into_iter().skip(query.skip as usize).collect();
        let more = records.len() > query.limit as usize;
        records.truncate(query.limit as usize);
        RecordPage { records, more, total }
    }

    fn search(&self, query: &TextQuery) -> TextPage {
        let asked = text::asked(&query.words);
        let mut found = Vec::new();
        for ((shelf, id), (title, body)) in &self.texts {
            let all: Vec<String> = title.iter().chain(body).cloned().collect();
            if *shelf == query.shelf && text::has_all(&all, &asked) {
                found.push(TextPlace { elsewhere: !text::has_all(title, &asked), id: id.clone() });
            }
        }
        found.sort();
        let total = query.count.then_some(found.len() as u64);
        found.retain(|place| query.after.as_ref().is_none_or(|after| place > after));
        let more = found.len() > query.limit as usize;
        found.truncate(query.limit as usize);
        TextPage { found, more, total }
    }

    /// Every line of an account, oldest first.
    fn lines(&self, account: &str) -> Vec<AccountLine> {
        let mut balance = 0;
        let numbered = self.journal.iter().zip(1..);
        let lines = numbered.filter_map(|(entry, no)| {
            let amount = entry.postings.iter().find(|posting| *posting.account == *account)?.amount;
            balance += amount;
            Some(AccountLine { no, id: entry.id, at: entry.at, body: entry.body.clone(), amount, balance })
        });
        lines.collect()
    }

    fn timers(&self) -> Vec<Timer> {
        let mut timers: Vec<(u64, Timer)> = Vec::new();
        for (&(task, code), &due) in &self.timers {
            if let (Some(kind), Some(kept)) = (TimerKind::from_code(code), self.tasks.get(&task)) {
                timers.push((kept.no, Timer { task, kind, due }));
            }
        }
        timers.sort_by_key(|(no, timer)| (timer.due, *no, timer.kind.code()));
        timers.into_iter().map(|(_, timer)| timer).collect()
    }

    fn push_in(&self, state: PushState) -> impl Iterator<Item = &PushRow> {
        self.push.values().map(|(_, row)| row).filter(move |row| row.progress.state == state)
    }

    fn health(&self) -> Health {
        let of = |state: State| self.tasks.values().filter(|t| t.row.state == state).count() as u64;
        Health {
            kind: "memory",
            tasks: self.tasks.len() as u64,
            running: self.tasks.values().filter(|t| t.row.running).count() as u64,
            events_rows: self.tasks.values().map(|t| t.log.len() as u64).sum(),
            blobs: self.blobs.len() as u64,
            blob_bytes: self.blobs.values().map(|b| b.len() as u64).sum(),
            timers: self.timers.len() as u64,
            keys: self.keys.values().map(|uses| uses.len() as u64).sum(),
            aliases: self.aliases.len() as u64,
            push_active: self.push_in(PushState::Active).count() as u64,
            push_dead: self.push_in(PushState::Dead).count() as u64,
            records: self.records.len() as u64,
            entries: self.journal.len() as u64,
            epoch: 1,
            states: State::ALL.into_iter().map(|s| (s, of(s))).filter(|(_, n)| *n > 0).collect(),
            ..Health::default()
        }
    }
}

impl TaskLog for MemoryStore {
    fn commit(&self, commit: Commit) -> Future<'static, Outcome> {
        let mut inner = self.inner.lock();
        let outcome = if inner.closed {
            Outcome::Refused(StoreError::Closed)
        } else if let Some(trouble) = shape::malformed(&commit) {
            Outcome::Refused(trouble)
        } else if let Some(conflict) = rules::surely(rules::conflict(&commit, &mut *inner)) {
            Outcome::Conflict(conflict)
        } else {
            inner.apply(commit);
            Outcome::Done
        };
        Box::pin(ready(outcome))
    }

    fn head(&self, task: TaskId) -> Future<'_, Result<Option<LogHead>, StoreError>> {
        Box::pin(async move {
            self.read(|inner| {
                Ok(inner.tasks.get(&task).map(|t| LogHead {
                    context: t.opening.context.clone(),
                    tenant: t.opening.tenant.clone(),
                    agent: t.opening.agent.clone(),
                    seq: t.seq,
                    epoch: t.epoch,
                    row: t.row,
                }))
            })
        })
    }

    fn events(&self, task: TaskId, after: Seq, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        Box::pin(async move { self.read(|inner| inner.events(task, after, bytes)) })
    }

    fn beginning(&self, task: TaskId, sight: VisibleTasks, bytes: usize) -> Future<'_, Result<Vec<Event>, StoreError>> {
        Box::pin(async move {
            self.read(|inner| {
                let is_seen = inner.tasks.get(&task).is_some_and(|kept| {
                    (kept.row.listed || sight.unlisted) && kept.opening.views.iter().any(|v| sight.views.contains(v))
                });
                if is_seen { inner.events(task, Seq::ZERO, bytes) } else { Ok(Vec::new()) }
            })
        })
    }

    fn logs(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Vec<Event>>, StoreError>> {
        Box::pin(async move {
            self.read(|inner| tasks.into_iter().map(|t| inner.events(t, Seq::ZERO, usize::MAX)).collect())
        })
    }

    fn key(&self, key: [u8; 32], not_before: Time) -> Future<'_, Result<Option<KeyUse>, StoreError>> {
        Box::pin(async move { self.read(|inner| Ok(inner.use_of(&key, not_before))) })
    }

    fn alias(&self, key: [u8; 32]) -> Future<'_, Result<Option<TaskId>, StoreError>> {
        Box::pin(async move { self.read(|inner| Ok(inner.aliases.get(&key).copied())) })
    }

    fn blob(&self, tenant: Arc<str>, hash: [u8; 32]) -> Future<'_, Result<Option<Bytes>, StoreError>> {
        Box::pin(async move { self.read(|inner| Ok(inner.blobs.get(&(tenant, hash)).cloned())) })
    }

    fn epoch(&self) -> Epoch {
        Epoch(1)
    }
}

impl TaskLists for MemoryStore {
    fn list(&self, query: ListQuery) -> Future<'_, Result<ListPage, StoreError>> {
        Box::pin(async move { self.read(|inner| Ok(inner.list(&query))) })
    }

    fn tasks(&self, query: TaskQuery) -> Future<'_, Result<TaskPage, StoreError>> {
        Box::pin(async move { self.read(|inner| Ok(inner.tasks(&query))) })
    }

    fn push(&self, task: TaskId) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        Box::pin(async move {
            self.read(|inner| {
                let mut rows: Vec<_> = inner.push.values().filter(|(_, row)| row.task == task).cloned().collect();
                rows.sort_by_key(|(no, _)| *no);
                Ok(rows.into_iter().map(|(_, row)| row).collect())
            })
        })
    }

    fn pushes(
        &self,
        state: PushState,
        after: Option<(TaskId, Arc<str>)>,
        limit: usize,
    ) -> Future<'_, Result<Vec<PushRow>, StoreError>> {
        Box::pin(async move {
            self.read(|inner| {
                let later = |row: &&PushRow| after.as_ref().is_none_or(|(t, id)| (row.task, &row.id) > (*t, id));
                Ok(inner.push_in(state).filter(later).take(limit).cloned().collect())
            })
        })
    }

    fn unfinished(&self, after: Option<TaskId>, limit: usize) -> Future<'_, Result<Vec<(TaskId, Epoch)>, StoreError>> {
        Box::pin(async move {
            self.read(|inner| {
                let running = inner.tasks.iter().filter(|(id, t)| t.row.running && after.is_none_or(|a| **id > a));
                Ok(running.take(limit).map(|(id, t)| (*id, t.epoch)).collect())
            })
        })
    }

    fn due(&self, now: Time, limit: usize) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        Box::pin(async move {
            self.read(|inner| Ok(inner.timers().into_iter().filter(|t| t.due <= now).take(limit).collect()))
        })
    }

    fn timers(&self, tasks: Vec<TaskId>) -> Future<'_, Result<Vec<Timer>, StoreError>> {
        let of_these = move |timer: &Timer| tasks.contains(&timer.task);
        Box::pin(async move { self.read(|inner| Ok(inner.timers().into_iter().filter(of_these).collect())) })
    }

    fn next_due(&self) -> Future<'_, Result<Option<Time>, StoreError>> {
        Box::pin(async move { self.read(|inner| Ok(inner.timers.values().min().copied())) })
    }
}

impl RecordStore for MemoryStore {
    fn access_keys(&self) -> Future<'_, Result<Vec<AccessKey>, StoreError>> {
        Box::pin(async move { self.read(|inner| Ok(inner.access.values().cloned().collect())) })
    }

    fn record(&self, kind: Arc<str>, key: Arc<str>) -> Future<'_, Result<Option<Record>, StoreError>> {
        Box::pin(
            async move { self.read(|inner| Ok(inner.records.get(&(kind, key)).map(|(record, _)| record.clone()))) },
        )
    }

    fn records(&self, query: RecordQuery) -> Future<'_, Result<RecordPage, StoreError>> {
        Box::pin(async move { self.read(|inner| Ok(inner.records(&query))) })
    }

    fn count_records(&self, prefix: Arc<str>, most: u64) -> Future<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            self.read(|inner| {
                let found = inner.records.keys().filter(|(kind, _)| kind.starts_with(&*prefix));
                Ok(found.take(usize::try_from(most).unwrap_or(usize::MAX)).count() as u64)
            })
        })
    }
}

impl Journal for MemoryStore {
    fn balances(&self, accounts: Vec<Arc<str>>) -> Future<'_, Result<Vec<i64>, StoreError>> {
        Box::pin(async move {
            let on = |inner: &Inner, account| inner.balances.get(account).copied().unwrap_or_default();
            self.read(|inner| Ok(accounts.iter().map(|account| on(inner, account)).collect()))
        })
    }

    fn statement(
        &self,
        account: Arc<str>,
        before: Option<u64>,
        limit: usize,
    ) -> Future<'_, Result<Vec<AccountLine>, StoreError>> {
        Box::pin(async move {
            let lines = self.read(|inner| Ok(inner.lines(&account)))?;
            let earlier = lines.into_iter().rev().filter(|line| before.is_none_or(|before| line.no < before));
            Ok(earlier.take(limit).collect())
        })
    }

    fn accounts(&self, after: Option<Arc<str>>, limit: usize) -> Future<'_, Result<Vec<Balance>, StoreError>> {
        Box::pin(async move {
            self.read(|inner| {
                let later = inner.balances.iter().filter(|(name, _)| after.as_ref().is_none_or(|after| *name > after));
                Ok(later.take(limit).map(|(name, balance)| (name.clone(), *balance)).collect())
            })
        })
    }

    fn journal(&self, after: u64, limit: usize) -> Future<'_, Result<Vec<(u64, Entry)>, StoreError>> {
        Box::pin(async move {
            self.read(|inner| {
                let numbered = (1..).zip(inner.journal.iter().cloned());
                Ok(numbered.skip_while(|(no, _)| *no <= after).take(limit).collect())
            })
        })
    }
}

impl TextSearch for MemoryStore {
    fn search(&self, query: TextQuery) -> Future<'_, Result<TextPage, StoreError>> {
        Box::pin(async move { self.read(|inner| Ok(inner.search(&query))) })
    }
}

impl Replicas for MemoryStore {}

impl Upkeep for MemoryStore {
    fn purge(&self, before: Time, keys_before: Time, limit: usize) -> Future<'_, Result<u64, StoreError>> {
        Box::pin(async move {
            self.read(|inner| {
                let old = |(_, t): &(&TaskId, &StoredTask)| t.row.settled && t.row.status_at < before;
                let mut found: Vec<(Time, u64, TaskId)> =
                    inner.tasks.iter().filter(old).map(|(id, t)| (t.row.status_at, t.no, *id)).collect();
                found.sort();
                found.truncate(limit);
                for (_, _, task) in &found {
                    inner.remove(*task);
                }
                for uses in inner.keys.values_mut() {
                    uses.retain(|hour, _| *hour >= shape::hour(keys_before));
                }
                inner.keys.retain(|_, uses| !uses.is_empty());
                Ok(found.len() as u64)
            })
        })
    }

    fn remove(&self, task: TaskId) -> Future<'_, Result<bool, StoreError>> {
        Box::pin(async move { self.read(|inner| Ok(inner.remove(task))) })
    }

    fn backup(&self, _to: PathBuf) -> Future<'_, Result<(), StoreError>> {
        let text = "a store in memory has no backup; use the sqlite store";
        Box::pin(ready(Err(StoreError::Broken(text.into()))))
    }

    fn health(&self) -> Future<'_, Result<Health, StoreError>> {
        Box::pin(async move { self.read(|inner| Ok(inner.health())) })
    }

    fn close(&self) -> Future<'_, ()> {
        Box::pin(async move { self.inner.lock().closed = true })
    }
}
