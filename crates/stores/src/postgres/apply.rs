//! A group of commits: its rows are read and locked at once, every commit is decided in memory, and all changes are written
//! at once. Two round trips and one flush, however many commits there are. A group that only makes new rows needs one: it
//! assumes that they are new, and fails by the unique indexes if they are not.
//!
//! A refused commit leaves no trace in the group, and a later commit sees the changes of an earlier one. Every group takes its
//! locks in one order: tasks by id, keys, aliases, push configs, blobs, records, accounts, and counters at the end. New rows
//! are made in that order too, and unique indexes keep them apart: the second group fails as a whole and begins again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use model::ports::store::{Append, BlobWrite, Commit, Conflict, Guard, IndexRow, KeyUse, Opening, TimerChange};
use model::{Epoch, PushChange, Seq, TaskId, Time};
use tokio::join;
use tokio_postgres::Error;
use uuid::Uuid;

use super::columns::{context_bytes, hash_from, row_from, text_from, unpack_uses, unpack_views};
use super::connect::{Conn, ask, run};
use super::counters::{self, CounterSums};
use super::fence::{PASS, Pass};
use super::notify::GroupChanges;
use super::push::{ConfigEntry, ConfigNow, state_from};
use super::records::GroupRecords;
use super::replica::Liveness;
use super::tables::{AliasColumns, KeyColumns, Lists, LogColumns, TaskColumns, TimerColumns};
use super::texts::Texts;
use super::trouble::{Failure, Unwritten};
use super::{push, statements as sql};
use crate::{rules, shape};

pub(super) type Hash = [u8; 32];

/// How many numbers of tasks are in a block; the sequence steps by as many.
const BLOCK: i64 = 1024;
/// Blocks drawn at a time. Those not used are lost, and there are enough.
const BLOCKS: i64 = 8;

/// Numbers for new tasks, drawn in blocks.
#[derive(Default)]
pub(super) struct Numbers {
    next: i64,
    end: i64,
    more: Vec<i64>,
}

impl Numbers {
    pub(super) fn left(&self) -> i64 {
        self.end - self.next + BLOCK * self.more.len() as i64
    }

    fn draw(&mut self) -> Result<i64, Failure> {
        if self.next == self.end {
            let Some(block) = self.more.pop() else {
                return Err(Failure::Damaged("numbers of tasks ran out".into()));
            };
            (self.next, self.end) = (block, block + BLOCK);
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

/// The facts of a task that a commit is checked against.
#[derive(Clone, Debug)]
pub(super) struct LockedTask {
    pub(super) no: i64,
    pub(super) seq: u64,
    pub(super) epoch: u64,
    pub(super) holder: i64,
    pub(super) row: IndexRow,
    pub(super) context: Vec<u8>,
    pub(super) views: Box<[i32]>,
    pub(super) tenant_no: i32,
    pub(super) agent_no: i32,
}

impl LockedTask {
    /// Reads what [`sql::TASKS`] selects.
    pub(super) fn from(columns: &tokio_postgres::Row) -> Result<(TaskId, LockedTask), Failure> {
        let kept = LockedTask {
            no: columns.try_get(1)?,
            seq: columns.try_get::<_, i64>(2)? as u64,
            epoch: columns.try_get::<_, i64>(3)? as u64,
            holder: columns.try_get(4)?,
            context: columns.try_get(5)?,
            views: unpack_views(columns.try_get(6)?),
            row: row_from(columns, 7)?,
            // Written at birth, never looked at again.
            tenant_no: 0,
            agent_no: 0,
        };
        Ok((TaskId(columns.try_get(0)?), kept))
    }
}

/// A task in a group: as it was, and as it is by now.
struct Entry {
    before: Option<IndexRow>,
    now: Option<LockedTask>,
    dirty: bool,
}

pub(super) struct KeyEntry {
    pub(super) there: bool,
    pub(super) dirty: bool,
    /// Hours of use, oldest first.
    pub(super) uses: Vec<KeyUse>,
}

pub(super) struct AliasEntry {
    pub(super) before: Option<TaskId>,
    pub(super) now: Option<TaskId>,
}

pub(super) struct TimerEntry {
    pub(super) before: Option<i64>,
    pub(super) now: Option<i64>,
}

/// The rows that the commits of a group concern.
struct GroupKeys<'a> {
    tasks: Vec<Uuid>,
    keys: Vec<&'a [u8]>,
    aliases: Vec<&'a [u8]>,
    timed: Vec<Uuid>,
    pushed: Vec<Uuid>,
    blob_tenants: Vec<i32>,
    blob_hashes: Vec<&'a [u8]>,
    opens: i64,
}

impl<'a> GroupKeys<'a> {
    fn of(commits: &[&'a Commit], names: &HashMap<Arc<str>, i32>) -> GroupKeys<'a> {
        let (mut tasks, mut timed, mut pushed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut keys, mut aliases, mut blobs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut opens = 0;
        for commit in commits {
            for append in &commit.appends {
                tasks.insert(append.task.0);
                opens += i64::from(append.open.is_some());
            }
            for guard in &commit.guards {
                match guard {
                    Guard::KeyFree { key, .. } => keys.insert(key.as_slice()),
                    Guard::AliasIs { key, .. } => aliases.insert(key.as_slice()),
                };
            }
            keys.extend(commit.keys.iter().map(|used| used.key.as_slice()));
            aliases.extend(commit.aliases.iter().map(|alias| alias.key.as_slice()));
            for change in &commit.timers {
                timed.insert(timer_task(change).0);
            }
            for change in &commit.push {
                pushed.insert(push::task_of(change).0);
            }
            for blob in &commit.blobs {
                tasks.insert(blob.task.0);
                blobs.insert((names.get(&blob.tenant).copied().unwrap_or_default(), blob.hash.as_slice()));
            }
        }
        tasks.extend(timed.iter().chain(&pushed));
        GroupKeys {
            tasks: tasks.into_iter().collect(),
            keys: keys.into_iter().collect(),
            aliases: aliases.into_iter().collect(),
            timed: timed.into_iter().collect(),
            pushed: pushed.into_iter().collect(),
            blob_tenants: blobs.iter().map(|(tenant, _)| *tenant).collect(),
            blob_hashes: blobs.iter().map(|(_, hash)| *hash).collect(),
            opens,
        }
    }
}

fn timer_task(change: &TimerChange) -> TaskId {
    change.about().0
}

/// How many tasks a commit opens, if it is about nothing else, and all that it requires to be free it also takes: then the
/// unique indexes check it.
pub(super) fn only_opens(commit: &Commit) -> Option<i64> {
    let mut opened: Vec<TaskId> = Vec::with_capacity(commit.appends.len());
    for append in &commit.appends {
        if append.open.is_some() {
            opened.push(append.task);
        } else if !opened.contains(&append.task) {
            return None;
        }
    }
    let takes = |guard: &Guard| match guard {
        Guard::KeyFree { key, .. } => commit.keys.iter().any(|used| used.key == *key),
        Guard::AliasIs { key, task: None } => commit.aliases.iter().any(|alias| alias.key == *key),
        Guard::AliasIs { task: Some(_), .. } => false,
    };
    let fresh = commit.guards.iter().all(takes)
        && commit.timers.iter().all(|change| opened.contains(&timer_task(change)))
        && commit.push.iter().all(|change| opened.contains(&push::task_of(change)))
        && commit.blobs.is_empty()
        && commit.records.is_empty()
        && commit.entries.is_empty()
        && commit.texts.is_empty();
    fresh.then_some(opened.len() as i64)
}

/// Every name a group needs a number for.
pub(super) fn names<'a>(commits: &[&'a Commit]) -> BTreeSet<&'a Arc<str>> {
    let mut names = BTreeSet::new();
    for commit in commits {
        for open in commit.appends.iter().filter_map(|append| append.open.as_ref()) {
            names.extend(open.views.iter().map(|view| &view.0).chain([&open.tenant, &open.agent]));
        }
        names.extend(commit.blobs.iter().map(|blob| &blob.tenant));
    }
    names
}

/// The group, as far as it is decided.
pub(super) struct CommitGroup<'a> {
    me: i64,
    numbers: &'a mut Numbers,
    names: &'a HashMap<Arc<str>, i32>,
    tasks: HashMap<TaskId, Entry>,
    /// Tasks of earlier uses of the group's keys that are still there.
    living: HashSet<TaskId>,
    keys: BTreeMap<Hash, KeyEntry>,
    new_keys: i64,
    aliases: BTreeMap<Hash, AliasEntry>,
    timers: BTreeMap<(TaskId, u8), TimerEntry>,
    configs: BTreeMap<(TaskId, Arc<str>), ConfigEntry<'a>>,
    last_made: HashMap<TaskId, i64>,
    blobs: HashSet<(i32, Hash)>,
    new_blobs: BTreeMap<(i32, Hash), &'a BlobWrite>,
    blob_uses: BTreeSet<(Uuid, i32, Hash)>,
    access: BTreeMap<&'a str, Vec<u8>>,
    log: Vec<(i64, &'a Append)>,
    records: GroupRecords<'a>,
    texts: Texts<'a>,
    pub(super) group_changes: GroupChanges,
}

impl rules::CommitFacts for CommitGroup<'_> {
    type Error = Infallible;

    fn key_use(&mut self, key: &Hash, not_before: Time) -> Result<Option<KeyUse>, Infallible> {
        let there = |task: TaskId| self.living.contains(&task) || self.kept(task).is_some();
        let uses = self.keys.get(key).map(|key| key.uses.as_slice()).unwrap_or_default();
        Ok(uses.iter().rev().find(|used| used.at >= not_before && there(used.task)).copied())
    }
    fn alias(&mut self, key: &Hash) -> Result<Option<TaskId>, Infallible> {
        Ok(self.aliases.get(key).and_then(|alias| alias.now))
    }
    fn head(&mut self, task: TaskId) -> Result<(Seq, Epoch), Infallible> {
        Ok(self.kept(task).map(|kept| (Seq(kept.seq), Epoch(kept.epoch))).unwrap_or_default())
    }
    fn version(&mut self, kind: &Arc<str>, key: &Arc<str>) -> Result<u64, Infallible> {
        Ok(self.records.version(kind, key))
    }
    fn has_entry(&mut self, id: Uuid) -> Result<bool, Infallible> {
        Ok(self.records.has_entry(id))
    }
    fn balance(&mut self, account: &Arc<str>) -> Result<i64, Infallible> {
        Ok(self.records.balance(account))
    }
}

impl<'a> CommitGroup<'a> {
    /// With nothing known to be there.
    pub(super) fn blank(me: i64, numbers: &'a mut Numbers, names: &'a HashMap<Arc<str>, i32>) -> CommitGroup<'a> {
        CommitGroup {
            me,
            numbers,
            names,
            tasks: HashMap::new(),
            living: HashSet::new(),
            keys: BTreeMap::new(),
            new_keys: 0,
            aliases: BTreeMap::new(),
            timers: BTreeMap::new(),
            configs: BTreeMap::new(),
            last_made: HashMap::new(),
            blobs: HashSet::new(),
            new_blobs: BTreeMap::new(),
            blob_uses: BTreeSet::new(),
            access: BTreeMap::new(),
            log: Vec::new(),
            records: GroupRecords::default(),
            texts: Texts::default(),
            group_changes: GroupChanges::default(),
        }
    }

    /// Begins a transaction, and locks and reads all that these commits are about.
    pub(super) async fn load(
        db: &Conn,
        liveness: &Liveness,
        commits: &[&'a Commit],
        numbers: &'a mut Numbers,
        names: &'a HashMap<Arc<str>, i32>,
    ) -> Result<CommitGroup<'a>, Failure> {
        let wants = GroupKeys::of(commits, names);
        let blocks = if numbers.left() < wants.opens { wants.opens / BLOCK + BLOCKS } else { 0 };
        let (me, lease_ms, judges) = (liveness.me, liveness.lease_ms, liveness.judges);
        // All of them are on their way before the first answer comes.
        let (begun, tasks, keys, living, aliases, timers, configs, blobs, drawn, records) = join!(
            biased;
            db.begin(),
            ask(!wants.tasks.is_empty(), db.query(&sql::TASKS, [&wants.tasks])),
            ask(!wants.keys.is_empty(), db.query(&sql::KEYS, [&wants.keys])),
            ask(!wants.keys.is_empty(), db.query(&sql::LIVING, [&wants.keys])),
            ask(!wants.aliases.is_empty(), db.query(&sql::ALIASES, [&wants.aliases])),
            ask(!wants.timed.is_empty(), db.query(&sql::TIMERS, [&wants.timed])),
            ask(!wants.pushed.is_empty(), db.query(&push::LOCK, [&wants.pushed, &me, &lease_ms, &judges])),
            ask(!wants.blob_hashes.is_empty(), db.query(&sql::BLOBS, [&wants.blob_tenants, &wants.blob_hashes])),
            ask(blocks > 0, db.query(&sql::NUMBERS, [&blocks])),
            GroupRecords::load(db, commits),
        );
        begun?;
        let mut commit_group = CommitGroup::blank(me, numbers, names);
        for row in tasks? {
            let (task, kept) = LockedTask::from(&row)?;
            commit_group.tasks.insert(task, Entry { before: Some(kept.row), now: Some(kept), dirty: false });
        }
        for row in keys? {
            let key = hash_from(row.try_get(0)?)?;
            let uses = unpack_uses(key, row.try_get(1)?)?;
            commit_group.keys.insert(key, KeyEntry { there: true, dirty: false, uses });
        }
        for row in living? {
            commit_group.living.insert(TaskId(row.try_get(0)?));
        }
        for row in aliases? {
            let task = Some(TaskId(row.try_get(1)?));
            commit_group.aliases.insert(hash_from(row.try_get(0)?)?, AliasEntry { before: task, now: task });
        }
        for row in timers? {
            let kind = u8::try_from(row.try_get::<_, i16>(1)?).unwrap_or_default();
            let due = Some(row.try_get(2)?);
            commit_group.timers.insert((TaskId(row.try_get(0)?), kind), TimerEntry { before: due, now: due });
        }
        for row in configs? {
            let (task, id): (TaskId, Arc<str>) = (TaskId(row.try_get(0)?), text_from(row.try_get(1)?)?.into());
            let (made_no, state) = (row.try_get(2)?, state_from(row.try_get(4)?)?);
            let edition = row.try_get::<_, i64>(3)? as u64;
            let (epoch, next) = (Epoch(row.try_get::<_, i64>(6)? as u64), Seq(row.try_get::<_, i64>(7)? as u64));
            let ours = row.try_get(5)?;
            let now = ConfigNow { edition, epoch, next, made_no, state, ours, put: None, progress: None };
            commit_group.configs.insert((task, id), ConfigEntry { before: Some(state), now: Some(now) });
            let last = commit_group.last_made.entry(task).or_default();
            *last = made_no.max(*last);
        }
        for row in blobs? {
            commit_group.blobs.insert((row.try_get(0)?, hash_from(row.try_get(1)?)?));
        }
        for row in drawn? {
            commit_group.numbers.more.insert(0, row.try_get(0)?);
        }
        commit_group.records = records?;
        Ok(commit_group)
    }

    /// Checks a commit and takes it, or says what it met.
    pub(super) fn commit(&mut self, commit: &'a Commit) -> Result<Option<Conflict>, Failure> {
        if let Some(conflict) = rules::surely(rules::conflict(commit, self)) {
            return Ok(Some(conflict));
        }
        for append in &commit.appends {
            match (&append.open, append.row) {
                (Some(open), Some(row)) => self.open(append, open, row)?,
                _ => self.append(append),
            }
            // No other replica can be waiting for events of a new task.
            if append.open.is_none() {
                self.group_changes.grown(append.task, append.last());
            }
        }
        for used in &commit.keys {
            self.use_key(used);
        }
        for alias in &commit.aliases {
            self.aliases.entry(alias.key).or_insert(AliasEntry { before: None, now: None }).now = Some(alias.task);
        }
        for key in &commit.access {
            let row = serde_json::to_vec(key).map_err(|error| Failure::Damaged(error.to_string()))?;
            self.access.insert(&key.id, row);
            self.group_changes.access = true;
        }
        for change in &commit.timers {
            self.change_timer(change);
        }
        for change in &commit.push {
            self.change_push(change);
        }
        for blob in &commit.blobs {
            self.keep_blob(blob);
        }
        self.records.take(commit)?;
        self.texts.take(commit);
        Ok(None)
    }

    fn kept(&self, task: TaskId) -> Option<&LockedTask> {
        self.tasks.get(&task)?.now.as_ref()
    }

    fn open(&mut self, append: &'a Append, open: &Opening, row: IndexRow) -> Result<(), Failure> {
        let name = |text: &Arc<str>| {
            self.names.get(text).copied().ok_or_else(|| Failure::Damaged("a name without a number".into()))
        };
        let mut views = open.views.iter().map(|view| name(&view.0)).collect::<Result<Vec<i32>, Failure>>()?;
        // A task is in a list once, however often its view was named.
        views.sort_unstable();
        views.dedup();
        let (tenant_no, agent_no) = (name(&open.tenant)?, name(&open.agent)?);
        let no = self.numbers.draw()?;
        let kept = LockedTask {
            no,
            seq: append.last().0,
            epoch: append.epoch.unwrap_or_default().0,
            holder: self.me,
            row,
            context: context_bytes(&open.context),
            views: views.into(),
            tenant_no,
            agent_no,
        };
        self.tasks.insert(append.task, Entry { before: None, now: Some(kept), dirty: true });
        self.log.push((no, append));
        Ok(())
    }

    fn append(&mut self, append: &'a Append) {
        // It was there when the commit was checked.
        let Some(entry) = self.tasks.get_mut(&append.task) else { return };
        let Some(kept) = &mut entry.now else { return };
        let row = append.row.unwrap_or(kept.row);
        // The replica that opens a turn holds it until another one writes in it.
        if append.epoch.is_some() || (row.running && !kept.row.running) {
            kept.holder = self.me;
        }
        kept.seq = append.last().0;
        kept.epoch = append.epoch.map_or(kept.epoch, |epoch| epoch.0);
        kept.row = row;
        entry.dirty = true;
        self.log.push((kept.no, append));
    }

    fn use_key(&mut self, used: &KeyUse) {
        let key = self.keys.entry(used.key).or_insert(KeyEntry { there: false, dirty: false, uses: Vec::new() });
        let hour = shape::hour(used.at);
        match key.uses.binary_search_by_key(&hour, |known| shape::hour(known.at)) {
            Ok(place) => key.uses[place] = *used,
            Err(place) => {
                key.uses.insert(place, *used);
                self.new_keys += 1;
            }
        }
        key.dirty = true;
    }

    fn change_timer(&mut self, change: &TimerChange) {
        if self.kept(timer_task(change)).is_none() {
            // A timer of a task that is gone would never be cleared.
            return;
        }
        let (task, kind) = change.about();
        let entry = self.timers.entry((task, kind.code())).or_insert(TimerEntry { before: None, now: None });
        match change {
            TimerChange::Set(timer) => entry.now = Some(timer.due.0),
            TimerChange::Clear(..) => entry.now = None,
            TimerChange::Replace { timer, to } if entry.now == Some(timer.due.0) => entry.now = to.map(|to| to.0),
            TimerChange::Replace { .. } => {}
        }
    }

    fn change_push(&mut self, change: &'a PushChange) {
        let task = push::task_of(change);
        if self.kept(task).is_none() {
            // Its configs went with it, and a new one would never go.
            return;
        }
        match change {
            PushChange::Put(row) => {
                let made_no = self.last_made.entry(task).or_default();
                *made_no += 1;
                let config =
                    self.configs.entry((task, row.id.clone())).or_insert(ConfigEntry { before: None, now: None });
                config.now = Some(ConfigNow {
                    edition: row.edition,
                    epoch: row.epoch,
                    next: row.progress.next,
                    made_no: *made_no,
                    state: row.progress.state,
                    ours: true,
                    put: Some(row),
                    progress: None,
                });
                self.group_changes.push.insert(task);
            }
            PushChange::Moved { id, edition, epoch, progress, .. } => {
                if let Some(config) = self.configs.get_mut(&(task, id.clone())) {
                    config.move_on(*edition, *epoch, progress);
                }
            }
            PushChange::SetBack { id, edition, progress, .. } => {
                let config = self.configs.get_mut(&(task, id.clone()));
                if config.is_some_and(|config| config.set_back(*edition, progress)) {
                    self.group_changes.push.insert(task);
                }
            }
            PushChange::Over { id, edition, epoch, .. } => {
                // No other replica delivers it, so none needs a hint.
                if let Some(config) = self.configs.get_mut(&(task, id.clone()))
                    && config.now.as_ref().is_some_and(|now| now.is_held(*edition, *epoch))
                {
                    config.now = None;
                }
            }
            PushChange::Remove { id, .. } => {
                if let Some(config) = self.configs.get_mut(&(task, id.clone())) {
                    config.now = None;
                    self.group_changes.push.insert(task);
                }
            }
        }
    }

    fn keep_blob(&mut self, blob: &'a BlobWrite) {
        if self.kept(blob.task).is_none() {
            // It would never go.
            return;
        }
        let tenant = self.names.get(&blob.tenant).copied().unwrap_or_default();
        if self.blobs.insert((tenant, blob.hash)) {
            self.new_blobs.insert((tenant, blob.hash), blob);
        }
        self.blob_uses.insert((blob.task.0, tenant, blob.hash));
    }

    /// Whether anything is to be written at all.
    pub(super) fn is_blank(&self) -> bool {
        self.log.is_empty()
            && self.records.is_blank()
            && self.texts.is_blank()
            && self.blob_uses.is_empty()
            && self.access.is_empty()
            && !self.keys.values().any(|key| key.dirty)
            && !self.aliases.values().any(|alias| alias.before != alias.now)
            && !self.timers.values().any(|timer| timer.before != timer.now)
            && !self.configs.values().any(ConfigEntry::is_changed)
    }

    /// Writes it all and commits, beginning first if nothing was read. Answers whether another replica needs a hint.
    pub(super) async fn write(&self, db: &Conn, slot: i32, begin: bool, pass: Pass) -> Result<bool, Unwritten> {
        let mut tally = CounterSums::default();
        tally.add(counters::LOG_ROWS, self.log.len() as i64);
        tally.add(counters::KEYS, self.new_keys);
        tally.add(counters::ACCESS_CHANGES, self.access.len() as i64);
        self.records.count(&mut tally);
        tally.add(counters::BLOBS, self.new_blobs.len() as i64);
        tally.add(counters::BLOB_BYTES, self.new_blobs.values().map(|blob| blob.bytes.len() as i64).sum());
        let mut lists = Lists::default();
        let (mut new, mut old) = (Vec::new(), Vec::new());
        for (task, entry) in &self.tasks {
            let Some(kept) = entry.now.as_ref().filter(|_| entry.dirty) else { continue };
            match entry.before {
                None => {
                    tally.count(&kept.row, 1);
                    lists.move_task(*task, kept, None, Some(&kept.row), &mut tally);
                    new.push((*task, kept));
                }
                Some(before) => {
                    if before != kept.row {
                        tally.count_row(&before, -1);
                        tally.count_row(&kept.row, 1);
                        lists.move_task(*task, kept, Some(&before), Some(&kept.row), &mut tally);
                    }
                    old.push((*task, kept));
                }
            }
        }
        // Two replicas that make the same things meet at the first of them, and never wait for each other in a circle.
        new.sort_unstable_by_key(|(task, _)| *task);
        let added = TaskColumns::of(&new);
        let changed = TaskColumns::of(&old);
        let log = LogColumns::of(&self.log);
        let keys = KeyColumns::of(&self.keys);
        let aliases = AliasColumns::of(&self.aliases, &mut tally);
        let timers = TimerColumns::of(&self.timers, |task| self.kept(task).map_or(0, |kept| kept.no), &mut tally);
        let pushed = push::PushColumns::of(self.configs.iter().filter_map(|((task, id), config)| {
            if config.is_changed() {
                config.before.into_iter().for_each(|state| tally.push(state, -1));
                config.now.iter().for_each(|now| tally.push(now.state, 1));
            }
            config.write(*task, id)
        }));
        let (blob_tenants, blob_hashes, blob_sizes, blob_bytes) = (
            self.new_blobs.keys().map(|(tenant, _)| *tenant).collect::<Vec<i32>>(),
            self.new_blobs.keys().map(|(_, hash)| hash.as_slice()).collect::<Vec<_>>(),
            self.new_blobs.values().map(|blob| blob.bytes.len() as i64).collect::<Vec<_>>(),
            self.new_blobs.values().map(|blob| &blob.bytes[..]).collect::<Vec<_>>(),
        );
        let (use_tasks, use_tenants, use_hashes) = (
            self.blob_uses.iter().map(|(task, ..)| *task).collect::<Vec<Uuid>>(),
            self.blob_uses.iter().map(|(_, tenant, _)| *tenant).collect::<Vec<i32>>(),
            self.blob_uses.iter().map(|(.., hash)| hash.as_slice()).collect::<Vec<_>>(),
        );
        let access_ids: Vec<&[u8]> = self.access.keys().map(|id| id.as_bytes()).collect();
        let access_rows: Vec<&[u8]> = self.access.values().map(Vec::as_slice).collect();

        let results = join!(
            biased;
            async { if begin { db.begin().await } else { Ok(()) } },
            added.add(db, self.me),
            changed.change(db),
            log.add(db),
            lists.write(db),
            keys.write(db),
            aliases.write(db),
            timers.write(db),
            pushed.write(db, self.me),
            run(
                !blob_hashes.is_empty(),
                db.execute(&sql::BLOB_ADD, [&blob_tenants, &blob_hashes, &blob_sizes, &blob_bytes])
            ),
            run(!use_tasks.is_empty(), db.execute(&sql::BLOB_USE, [&use_tasks, &use_tenants, &use_hashes])),
            run(!access_ids.is_empty(), db.execute(&sql::ACCESS_PUT, [&access_ids, &access_rows])),
            self.records.write(db),
            self.texts.write(db),
            tally.write(db, slot),
            db.query(&PASS, [&self.me, &pass.generation, &pass.group]),
            db.run("COMMIT"),
        );
        let (
            begun,
            tasks,
            changes,
            log,
            lists,
            keys,
            aliases,
            timers,
            configs,
            blobs,
            uses,
            access,
            records,
            texts,
            counts,
            peers,
            done,
        ) = results;
        // The first that failed says why; those after it only say that one before them did.
        let written = [
            begun, tasks, changes, log, lists, keys, aliases, timers, configs, blobs, uses, access, records, texts,
            counts,
        ]
        .into_iter()
        .collect::<Result<(), Error>>();
        written.map_err(Unwritten::before_commit)?;
        let peers = peers.and_then(|rows| rows.first().map_or(Ok(true), |row| row.try_get(0)));
        let peers = peers.map_err(Unwritten::at_fence)?;
        done.map_err(Unwritten::at_commit)?;
        Ok(peers)
    }
}
