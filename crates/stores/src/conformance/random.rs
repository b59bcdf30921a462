//! Random operations, one after the other, on the store under test and on the memory store, which is so simple that it
//! can serve as the model: every answer must be the same.
//!
//! `RIALTO_SEED` repeats a run; the seed is printed. `RIALTO_STEPS` makes it longer.

use model::ports::store::{
    Append, BlobWrite, Commit, Guard, Health, IndexRow, KeyUse, ListPage, ListQuery, LogHead, Opening, Timer,
    TimerChange, TimerKind,
};
use model::{ContextId, Epoch, PushChange, PushProgress, PushRow, PushState, Seq, State, TaskId, Time};

use super::Factory;
use super::kit::{DynStore, at, id, page, payload, view, walk};
use crate::memory;

/// A small generator (SplitMix64): the same numbers for the same seed, everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// With the seed in `RIALTO_SEED`, or one from the clock, which is printed.
    pub fn from_environment() -> Random {
        let clock = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let seed = setting("RIALTO_SEED").unwrap_or_else(clock);
        eprintln!("RIALTO_SEED={seed}");
        Random(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.number() % n as u64) as usize
    }

    /// True once in `n` times.
    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The names of a random run: few of each kind, so that commits meet.
struct World {
    random: Random,
    tasks: Vec<TaskId>,
    clock: i64,
    /// Two processes take turns. What depends on which of them asks is then left out.
    shared: bool,
}

const CONTEXTS: [&str; 4] = ["c", "d", "e", "0198c0de-0000-7000-8000-00000000abcd"];
const VIEWS: [&str; 3] = ["v", "w", "x"];
const TENANTS: [&str; 2] = ["t", "u"];
const CONFIGS: [&str; 4] = ["a", "b", "B", ""];
const HOUR: i64 = 3_600_000;

impl World {
    /// The clock stands still as often as it moves, and sometimes jumps by hours, for the keys.
    fn now(&mut self) -> Time {
        self.clock += match self.random.below(20) {
            0 => HOUR,
            1..10 => 1,
            // The order of tasks that two processes open at once is not promised.
            _ => i64::from(self.shared),
        };
        at(self.clock)
    }

    /// Some time around now.
    fn about_now(&mut self) -> Time {
        let back = [0, 1, 5, 50, HOUR, 3 * HOUR][self.random.below(6)];
        at(self.clock - back)
    }

    fn task(&mut self) -> TaskId {
        if self.random.one_in(8) || self.tasks.is_empty() {
            let new = id();
            self.tasks.push(new);
            return new;
        }
        *self.random.pick(&self.tasks)
    }

    fn context(&mut self) -> ContextId {
        // Most tasks in one context, to pass the number from which it is counted apart.
        if self.random.one_in(2) { CONTEXTS[0].into() } else { (*self.random.pick(&CONTEXTS)).into() }
    }

    fn row(&mut self) -> IndexRow {
        let state = *self.random.pick(&State::ALL);
        let settled = state.is_terminal();
        IndexRow {
            state,
            status_at: self.now(),
            listed: !self.random.one_in(6),
            running: !settled && self.random.one_in(2),
            settled,
        }
    }

    /// Usually at the position that `model` expects.
    fn append(&mut self, model: Option<&LogHead>, task: TaskId) -> Append {
        let mut expected = model.map_or(0, |head| head.seq.0);
        if self.random.one_in(10) {
            expected = self.random.below(6) as u64;
        }
        let count = 1 + self.random.below(3) as u32;
        let opens = expected == 0;
        let fresh = self.random.one_in(4);
        let open = opens.then(|| Opening {
            context: if fresh { ContextId(id().to_string().into()) } else { self.context() },
            fresh_context: fresh,
            tenant: (*self.random.pick(&TENANTS)).into(),
            agent: "agent".into(),
            views: VIEWS.iter().filter(|_| self.random.one_in(2)).map(|v| view(v)).collect(),
        });
        let row = (opens || self.random.one_in(2)).then(|| self.row());
        let epoch = self.random.one_in(2).then(|| Epoch(self.random.below(4) as u64));
        let payload = payload(task, expected + 1, expected + u64::from(count));
        Append { task, expected: Seq(expected), epoch, count, payload, open, row }
    }

    fn progress(&mut self) -> PushProgress {
        PushProgress {
            state: *self.random.pick(&PushState::ALL),
            next: Seq(self.random.below(9) as u64),
            due: self.about_now(),
            attempts: self.random.below(3) as u32,
            failing_since: self.random.one_in(2).then(|| self.about_now()),
            delivered: self.random.below(9) as u64,
            delivered_at: self.random.one_in(2).then(|| self.about_now()),
            trouble: self.random.one_in(2).then(|| "no answer".into()),
        }
    }

    /// Few editions, so that progress often finds its own and often does not.
    fn push(&mut self, task: TaskId) -> PushChange {
        let (id, edition) = ((*self.random.pick(&CONFIGS)).into(), self.random.below(2) as u64);
        let epoch = Epoch(self.random.below(2) as u64);
        let kinds = if self.shared { 3 } else { 7 };
        match self.random.below(kinds) {
            0 | 1 => {
                let spec = vec![7; self.random.below(2_000)].into();
                PushChange::Put(PushRow {
                    task,
                    id,
                    edition,
                    epoch,
                    spec,
                    made_at: self.now(),
                    progress: self.progress(),
                })
            }
            2 | 3 if !self.shared => PushChange::Moved { task, id, edition, epoch, progress: self.progress() },
            4 if !self.shared => PushChange::SetBack { task, id, edition, progress: self.progress() },
            5 if !self.shared => PushChange::Over { task, id, edition, epoch },
            _ => PushChange::Remove { task, id },
        }
    }

    /// A commit of nothing but push configs, as couriers make them.
    fn deliveries(&mut self) -> Commit {
        let mut commit = Commit::default();
        for _ in 0..self.random.below(20).min(self.tasks.len()) {
            // None that was never heard of: the world would soon be full of them.
            let task = *self.random.pick(&self.tasks);
            commit.push.push(self.push(task));
        }
        commit
    }

    async fn commit(&mut self, model: &DynStore) -> Commit {
        if self.random.one_in(6) {
            return self.deliveries();
        }
        let mut commit = Commit::default();
        for _ in 0..=usize::from(self.random.one_in(4)) {
            let task = self.task();
            let head = model.head(task).await.unwrap();
            commit.appends.push(self.append(head.as_ref(), task));
        }
        let task = commit.appends[0].task;
        if self.random.one_in(4) {
            let key = [self.random.below(5) as u8; 32];
            if self.random.one_in(2) {
                commit.guards.push(Guard::KeyFree { key, not_before: self.about_now() });
            }
            let (body, at) = ([self.random.below(2) as u8; 32], self.now());
            commit.keys.push(KeyUse { key, body, task, seq: Seq(1), at });
        }
        for _ in 0..self.random.below(3) {
            let (task, due) = (self.task(), self.about_now());
            let timer = Timer { task, kind: TimerKind::TurnTimeout, due };
            commit.timers.push(match self.random.below(6) {
                0..=2 => TimerChange::Set(timer),
                3 | 4 => TimerChange::Clear(task, TimerKind::TurnTimeout),
                _ => {
                    let to = self.random.one_in(2).then(|| self.about_now());
                    TimerChange::Replace { timer, to }
                }
            });
        }
        for _ in 0..self.random.below(3) {
            let task = if self.random.one_in(2) { task } else { *self.random.pick(&self.tasks) };
            commit.push.push(self.push(task));
        }
        if self.random.one_in(5) {
            let (tenant, hash) = (*self.random.pick(&TENANTS), self.random.below(4) as u8);
            let bytes = vec![hash; 10 + usize::from(hash)].into();
            commit.blobs.push(BlobWrite { tenant: tenant.into(), task, hash: [hash; 32], bytes });
        }
        commit
    }

    fn query(&mut self) -> ListQuery {
        ListQuery {
            views: vec![view(VIEWS[self.random.below(VIEWS.len())])],
            context: self.random.one_in(2).then(|| self.context()),
            state: self.random.one_in(3).then(|| *self.random.pick(&State::ALL)),
            since: self.random.one_in(4).then(|| self.about_now()),
            after: None,
            limit: 1 + self.random.below(8) as u32,
            count: true,
        }
    }
}

/// A page without the numbers of its cursors, which are the store's own affair.
fn plain(page: &ListPage) -> (Vec<(TaskId, Time)>, bool, Option<u64>) {
    (page.tasks.iter().map(|(task, cursor)| (*task, cursor.at)).collect(), page.more, page.total)
}

/// The facts that two stores must agree on.
fn common(health: Health) -> Health {
    Health { kind: "", file_bytes: 0, wal_bytes: 0, schema: 0, epoch: 0, ..health }
}

/// Two stores side by side.
struct Pair {
    model: DynStore,
    tested: DynStore,
}

impl Pair {
    async fn step(&mut self, world: &mut World, factory: &dyn Factory) {
        let (model, tested) = (&self.model, &self.tested);
        let task = world.task();
        match world.random.below(34) {
            0..=14 => {
                let commit = world.commit(model).await;
                let expected = model.commit(commit.clone()).await;
                assert_eq!(tested.commit(commit.clone()).await, expected, "{commit:?}");
            }
            15 | 16 => assert_eq!(tested.head(task).await, model.head(task).await),
            17 | 18 => {
                let (after, bytes) = (Seq(world.random.below(8) as u64), world.random.below(400));
                let all = model.events(task, after, usize::MAX).await.unwrap();
                assert_eq!(tested.events(task, after, usize::MAX).await.as_ref(), Ok(&all));
                // Where a page ends depends on the rows, which are the store's own affair.
                let page = tested.events(task, after, bytes).await.unwrap();
                assert!(all.starts_with(&page) && page.is_empty() == all.is_empty(), "{page:?} of {all:?}");
            }
            19 => {
                let tasks = vec![task, world.task(), world.task()];
                assert_eq!(tested.logs(tasks.clone()).await, model.logs(tasks).await);
            }
            20..=22 => self.list(world.query()).await,
            23 => {
                let (key, not_before) = ([world.random.below(5) as u8; 32], world.about_now());
                assert_eq!(tested.key(key, not_before).await, model.key(key, not_before).await);
            }
            24 => {
                let (tenant, hash) = (*world.random.pick(&TENANTS), [world.random.below(4) as u8; 32]);
                assert_eq!(tested.blob(tenant.into(), hash).await, model.blob(tenant.into(), hash).await);
            }
            25 => {
                let after = world.random.one_in(2).then_some(task);
                let limit = 1 + world.random.below(10);
                assert_eq!(tested.unfinished(after, limit).await, model.unfinished(after, limit).await);
            }
            26 => {
                let (now, limit) = (world.about_now(), 1 + world.random.below(5));
                if !world.shared {
                    assert_eq!(tested.due(now, limit).await, model.due(now, limit).await);
                    assert_eq!(tested.next_due().await, model.next_due().await);
                }
            }
            27 if world.random.one_in(4) => {
                let (before, keys_before) = (world.about_now(), world.about_now());
                let limit = 1 + world.random.below(6);
                let gone = model.purge(before, keys_before, limit).await;
                assert_eq!(tested.purge(before, keys_before, limit).await, gone);
            }
            28 if world.random.one_in(2) => assert_eq!(tested.remove(task).await, model.remove(task).await),
            29 if world.random.one_in(20) => {
                if let Some(again) = factory.reopen(tested.clone()).await {
                    self.tested = again;
                }
            }
            30 | 31 => assert_eq!(tested.push(task).await, model.push(task).await),
            32 => {
                let (state, limit) = (*world.random.pick(&PushState::ALL), 1 + world.random.below(12));
                let after = world.random.one_in(2).then(|| (task, (*world.random.pick(&CONFIGS)).into()));
                let expected = model.pushes(state, after.clone(), limit).await;
                assert_eq!(tested.pushes(state, after, limit).await, expected);
            }
            _ => {
                let (expected, found) = (model.health().await.unwrap(), tested.health().await.unwrap());
                // In how many rows the events of a task are is the store's own affair.
                assert!(found.events_rows <= expected.events_rows, "{found:?}");
                assert!((found.events_rows == 0) == (expected.events_rows == 0), "{found:?}");
                assert_eq!(common(Health { events_rows: 0, ..found }), common(Health { events_rows: 0, ..expected }));
            }
        }
    }

    /// A whole walk, page by page, each with its own cursors.
    async fn list(&self, query: ListQuery) {
        let (mut ours, mut theirs) = (query.clone(), query);
        loop {
            let (found, expected) = (page(&self.tested, &ours).await, page(&self.model, &theirs).await);
            assert_eq!(plain(&found), plain(&expected), "{ours:?}");
            ours.after = found.tasks.last().map(|(_, cursor)| *cursor);
            theirs.after = expected.tasks.last().map(|(_, cursor)| *cursor);
            if !found.more {
                return;
            }
        }
    }
}

async fn begin(factory: &dyn Factory) -> (Pair, World, u64) {
    let world = World { random: Random::from_environment(), tasks: Vec::new(), clock: 0, shared: false };
    let pair = Pair { model: std::sync::Arc::new(memory::MemoryStore::new()), tested: factory.open().await };
    (pair, world, setting("RIALTO_STEPS").unwrap_or(1_500))
}

pub(super) async fn random_operations_give_what_the_memory_store_gives(factory: &dyn Factory) {
    let (mut pair, mut world, steps) = begin(factory).await;
    for _ in 0..steps {
        pair.step(&mut world, factory).await;
    }
}

pub(super) async fn counts_are_exact_after_random_operations(factory: &dyn Factory) {
    let (mut pair, mut world, steps) = begin(factory).await;
    for step in 0..steps {
        pair.step(&mut world, factory).await;
        if step % 50 == 49 {
            for query in (0..20).map(|_| world.query()) {
                // A store's total against its own list, which needs no model.
                let found = walk(&pair.tested, &query).await;
                assert_eq!(page(&pair.tested, &query).await.total, Some(found.len() as u64), "{query:?}");
            }
        }
    }
}

/// Fills a store by random commits, removals and purges, for tests of what is done with a whole store. Answers every task it
/// ever heard of.
pub async fn fill(store: &DynStore, random: Random, steps: usize) -> Vec<TaskId> {
    let mut world = World { random, tasks: Vec::new(), clock: 0, shared: false };
    for _ in 0..steps {
        let commit = world.commit(store).await;
        store.commit(commit).await;
        if world.random.one_in(15) {
            let task = world.task();
            store.remove(task).await.unwrap();
        }
        if world.random.one_in(40) {
            let (before, keys_before) = (world.about_now(), world.about_now());
            store.purge(before, keys_before, 3).await.unwrap();
        }
    }
    world.tasks
}

/// Each step by one of the two.
pub(super) async fn two_processes_in_turn_give_what_the_memory_store_gives(factory: &dyn Factory) {
    let (mut pair, mut world, steps) = begin(factory).await;
    let Some(mut other) = factory.second().await else { return };
    world.shared = true;
    for _ in 0..steps {
        if world.random.one_in(2) {
            std::mem::swap(&mut pair.tested, &mut other);
        }
        pair.step(&mut world, factory).await;
    }
}
