//! Two processes on one store. Stores that only one process may open pass by having no second.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::{join, join_all};
use futures_util::stream::BoxStream;
use model::ports::store::{
    AliasWrite, Commit, Conflict, Guard, Hint, KeyUse, ListQuery, Outcome, Timer, TimerChange, TimerKind,
};
use model::{AccessKey, Epoch, PushChange, PushProgress, PushRow, PushState, Seq, State, TaskId, Time};

use super::kit::{
    DynStore, Say, at, commit, conflict, done, has, id, more, open, opening, put, query, row, total, walk,
};
use super::{Factory, Random};

const HOUR: i64 = 3_600_000;
/// Longer than any step here takes: a wait that exceeds it has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Both of the two, or `None` if the store has room for one only.
async fn two(factory: &dyn Factory) -> Option<[DynStore; 2]> {
    let first = factory.open().await;
    let second = factory.second().await?;
    assert!(first.is_shared() && second.is_shared());
    Some([first, second])
}

/// Waits until the store says this; what comes before it is passed over.
async fn hears(hints: &mut BoxStream<'static, Hint>, expected: Hint) {
    let heard = async { while hints.next().await != Some(expected) {} };
    tokio::time::timeout(PATIENCE, heard).await.unwrap_or_else(|_| panic!("{expected:?} was not heard"));
}

/// Commits each pair at the same time, one of it to each store, and insists that one wins; answers what the loser met.
async fn race([a, b]: &[DynStore; 2], pairs: Vec<[Commit; 2]>) -> Vec<(usize, Conflict)> {
    let races = pairs.into_iter().map(|[x, y]| join(a.commit(x), b.commit(y)));
    let mut lost = Vec::new();
    for outcomes in join_all(races).await {
        match outcomes {
            (Outcome::Done, Outcome::Conflict(conflict)) => lost.push((0, conflict)),
            (Outcome::Conflict(conflict), Outcome::Done) => lost.push((1, conflict)),
            other => panic!("one wins, not {other:?}"),
        }
    }
    lost
}

pub(super) async fn of_two_processes_that_open_one_task_one_wins(factory: &dyn Factory) {
    let Some(stores) = two(factory).await else { return };
    let tasks: Vec<TaskId> = (0..200).map(|_| id()).collect();
    let pairs = tasks.iter().map(|task| [1, 2].map(|count| commit([opening(*task, count)]))).collect();
    for (task, (winner, conflict)) in tasks.iter().zip(race(&stores, pairs).await) {
        let length = winner as u64 + 1;
        assert_eq!(conflict, Conflict::Seq(*task, Seq(length)));
        for store in &stores {
            has(store, *task, length).await;
        }
    }
    assert_eq!(total(&stores[0], &query(1)).await, 200);
}

pub(super) async fn of_two_processes_that_append_at_one_place_one_wins(factory: &dyn Factory) {
    let Some(stores) = two(factory).await else { return };
    let mut tasks = Vec::new();
    for _ in 0..20 {
        tasks.push((open(&stores[0], |a| a).await, 1));
    }
    for round in 0..10 {
        let pairs = tasks
            .iter()
            .map(|(task, length)| {
                [1, 2].map(|count| commit([more(*task, *length, count).is(State::Working, at(round))]))
            })
            .collect();
        for ((task, length), (winner, conflict)) in tasks.iter_mut().zip(race(&stores, pairs).await) {
            *length += winner as u64 + 1;
            assert_eq!(conflict, Conflict::Seq(*task, Seq(*length)));
        }
    }
    for (task, length) in tasks {
        has(&stores[0], task, length).await;
        has(&stores[1], task, length).await;
    }
}

/// Whether the key was never used or has expired, and also if the two clocks are on both sides of an hour.
pub(super) async fn of_two_processes_with_one_key_one_wins(factory: &dyn Factory) {
    let Some(stores) = two(factory).await else { return };
    let keyed = |key: u8, when: Time, not_before: Time| {
        let task = id();
        let used = KeyUse { key: [key; 32], body: [1; 32], task, seq: Seq(1), at: when };
        let guards = vec![Guard::KeyFree { key: [key; 32], not_before }];
        (Commit { guards, keys: vec![used], ..commit([opening(task, 1)]) }, used)
    };
    for (round, not_before) in [(0, at(-HOUR)), (10, at(5 * HOUR))] {
        let edge = Time(next_hour(at(round * HOUR)));
        let tried: Vec<_> =
            (0..100).map(|key| [keyed(key, Time(edge.0 - 1), not_before), keyed(key, edge, not_before)]).collect();
        let pairs = tried.iter().map(|pair| [pair[0].0.clone(), pair[1].0.clone()]).collect();
        for (pair, (winner, conflict)) in tried.iter().zip(race(&stores, pairs).await) {
            let used = pair[winner].1;
            assert_eq!(conflict, Conflict::Key(used));
            for store in &stores {
                assert_eq!(store.key(used.key, not_before).await.unwrap(), Some(used));
            }
        }
    }
    assert_eq!(stores[1].health().await.unwrap().tasks, 200);
}

/// The beginning of the hour after this time.
fn next_hour(time: Time) -> i64 {
    (time.0.div_euclid(HOUR) + 1) * HOUR
}

pub(super) async fn of_two_processes_that_take_one_alias_one_wins(factory: &dyn Factory) {
    let Some(stores) = two(factory).await else { return };
    let named = |key: u8, task: TaskId, was: Option<TaskId>| Commit {
        guards: vec![Guard::AliasIs { key: [key; 32], task: was }],
        aliases: vec![AliasWrite { key: [key; 32], task }],
        ..commit([opening(task, 1)])
    };
    let mut names: Vec<Option<TaskId>> = vec![None; 50];
    // At first no process has it, then each takes it from the one before.
    for _ in 0..4 {
        let tried: Vec<[TaskId; 2]> = names.iter().map(|_| [id(), id()]).collect();
        let pair = |(key, (tasks, was)): (usize, (&[TaskId; 2], &Option<TaskId>))| {
            tasks.map(|task| named(key as u8, task, *was))
        };
        let pairs = tried.iter().zip(&names).enumerate().map(pair).collect();
        for (key, (winner, conflict)) in race(&stores, pairs).await.into_iter().enumerate() {
            names[key] = Some(tried[key][winner]);
            assert_eq!(conflict, Conflict::Alias(names[key]));
            for store in &stores {
                assert_eq!(store.alias([key as u8; 32]).await.unwrap(), names[key]);
            }
        }
    }
    assert_eq!(stores[0].health().await.unwrap().aliases, 50);
}

pub(super) async fn a_hold_taken_by_one_process_refuses_the_other(factory: &dyn Factory) {
    let Some([a, b]) = two(factory).await else { return };
    assert_ne!(a.epoch(), b.epoch());
    // The same hold has the same epoch, wherever it is.
    assert_eq!((a.hold(3), b.hold(3)), (Epoch(3), Epoch(3)));
    let task = open(&a, |o| o.epoch(1)).await;
    put(&b, more(task, 1, 1)).await;
    put(&b, more(task, 2, 1).epoch(2)).await;
    assert_eq!(conflict(a.commit(commit([more(task, 3, 1).epoch(1)])).await), Conflict::Epoch(task, Epoch(2)));
    has(&a, task, 3).await;
}

pub(super) async fn a_process_reads_what_another_was_told_is_done(factory: &dyn Factory) {
    let Some(stores) = two(factory).await else { return };
    let task = open(&stores[0], |a| a).await;
    for n in 1..60 {
        let (writer, reader) = (&stores[n as usize % 2], &stores[(n as usize + 1) % 2]);
        put(writer, more(task, n, 1)).await;
        has(reader, task, n + 1).await;
        assert_eq!(reader.lengths(vec![id(), task]).await.unwrap(), [Seq::ZERO, Seq(n + 1)]);
    }
}

/// Both at once, in random order: a commit that comes too late is retried. In the end every count must match the rows.
pub(super) async fn counts_are_exact_after_two_processes_wrote_at_once(factory: &dyn Factory) {
    let Some(stores) = two(factory).await else { return };
    let mut random = Random::from_environment();
    let tasks: Vec<TaskId> = (0..12).map(|_| id()).collect();
    let writers = (0..6).map(|n| {
        let (store, tasks, mut random) = (stores[n % 2].clone(), tasks.clone(), Random::new(random.number()));
        tokio::spawn(async move {
            for step in 0..60 {
                let task = tasks[random.below(tasks.len())];
                if random.below(12) == 0 {
                    store.remove(task).await.unwrap();
                    continue;
                }
                if random.below(20) == 0 {
                    store.purge(at(step), at(-HOUR), 3).await.unwrap();
                    continue;
                }
                let length = store.head(task).await.unwrap().map_or(0, |head| head.seq.0);
                let state = State::ALL[random.below(State::ALL.len())];
                let append = match length {
                    0 => opening(task, 1).within("c").seen_by(&["v", "w"]).is(state, at(step)),
                    _ => more(task, length, 1).is(state, at(step)),
                };
                let timer = Timer { task, kind: TimerKind::TurnTimeout, due: at(step) };
                let timers = match random.below(3) {
                    0 => vec![TimerChange::Set(timer)],
                    1 => vec![TimerChange::Clear(task, TimerKind::TurnTimeout)],
                    _ => Vec::new(),
                };
                let used = KeyUse { key: [random.below(9) as u8; 32], body: [0; 32], task, seq: Seq(1), at: at(step) };
                let aliases = vec![AliasWrite { key: [random.below(9) as u8; 32], task }];
                let progress = PushProgress {
                    state: PushState::ALL[random.below(PushState::ALL.len())],
                    ..PushProgress::from(Seq(1), at(0))
                };
                let config = PushRow {
                    task,
                    id: ["p", "q"][random.below(2)].into(),
                    edition: 1,
                    epoch: Epoch(0),
                    spec: "s".into(),
                    made_at: at(0),
                    progress,
                };
                let push = match random.below(4) {
                    0 => vec![PushChange::Put(config)],
                    1 => vec![PushChange::Remove { task, id: config.id }],
                    2 => vec![PushChange::Moved {
                        task,
                        id: config.id,
                        edition: 1,
                        epoch: Epoch(0),
                        progress: config.progress,
                    }],
                    _ => Vec::new(),
                };
                let hash = random.below(3) as u8;
                let bytes = vec![hash; 10].into();
                let blobs = vec![model::ports::store::BlobWrite { tenant: "t".into(), task, hash: [hash; 32], bytes }];
                let change = Commit { keys: vec![used], aliases, timers, push, blobs, ..commit([append]) };
                match store.commit(change).await {
                    Outcome::Done | Outcome::Conflict(_) => {}
                    other => panic!("{other:?}"),
                }
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
    for store in &stores {
        let health = store.health().await.unwrap();
        let mut there = 0;
        for task in &tasks {
            there += u64::from(store.head(*task).await.unwrap().is_some());
        }
        assert_eq!(health.tasks, there);
        for name in ["v", "w"] {
            for context in [None, Some("c".into())] {
                for state in State::ALL.into_iter().map(Some).chain([None]) {
                    let views = vec![super::kit::view(name)];
                    let list = ListQuery { views, context: context.clone(), state, ..query(5) };
                    assert_eq!(total(store, &list).await, walk(store, &list).await.len() as u64, "{list:?}");
                }
            }
        }
        assert_eq!(health.states.iter().map(|(_, n)| n).sum::<u64>(), there);
        assert_eq!(health.running, store.unfinished(None, 100).await.unwrap().len() as u64);
        assert_eq!(health.timers, store.due(at(1_000_000), 100).await.unwrap().len() as u64);
        assert_eq!(health.push_active, store.pushes(PushState::Active, None, 100).await.unwrap().len() as u64);
        assert_eq!(health.push_dead, store.pushes(PushState::Dead, None, 100).await.unwrap().len() as u64);
        let (mut aliases, mut blobs) = (0, 0);
        for key in 0..9 {
            aliases += u64::from(store.alias([key; 32]).await.unwrap().is_some());
        }
        for hash in 0..3 {
            blobs += u64::from(store.blob("t".into(), [hash; 32]).await.unwrap().is_some());
        }
        assert_eq!((health.aliases, health.blobs, health.blob_bytes), (aliases, blobs, blobs * 10));
    }
}

pub(super) async fn what_one_process_does_is_hinted_to_the_other(factory: &dyn Factory) {
    let Some([a, b]) = two(factory).await else { return };
    let (mut to_a, mut to_b) = (a.hints(), b.hints());
    // A new task gives no hint: no process can be waiting for it.
    let task = open(&a, |o| o).await;
    put(&a, more(task, 1, 3)).await;
    hears(&mut to_b, Hint::Grown(task, Seq(4))).await;
    let config = PushRow {
        task,
        id: "p".into(),
        edition: 1,
        epoch: Epoch(0),
        spec: "s".into(),
        made_at: at(0),
        progress: PushProgress::from(Seq(1), at(0)),
    };
    done(&a, Commit { push: vec![PushChange::Put(config)], ..Commit::default() }).await;
    hears(&mut to_b, Hint::Push(task)).await;
    let key = AccessKey {
        id: "k".into(),
        name: "n".into(),
        tenant: "t".into(),
        scopes: Vec::new(),
        hash: [0; 32],
        prefix: "p".into(),
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
    };
    done(&a, Commit { access: vec![key], ..Commit::default() }).await;
    hears(&mut to_b, Hint::Access).await;
    assert!(a.remove(task).await.unwrap());
    hears(&mut to_b, Hint::Removed(task)).await;
    // A process gets no hints of its own changes: the first hint of A is the other's next change.
    let theirs = open(&b, |o| o).await;
    put(&b, more(theirs, 1, 1)).await;
    assert_eq!(tokio::time::timeout(PATIENCE, to_a.next()).await.unwrap(), Some(Hint::Grown(theirs, Seq(2))));
    // Many at once arrive too, or the news that some did not.
    let tasks: Vec<TaskId> = (0..1_000).map(|_| id()).collect();
    let opened = join_all(tasks.iter().map(|task| a.commit(commit([opening(*task, 1)])))).await;
    assert!(opened.into_iter().all(|outcome| outcome == Outcome::Done));
    let grown = join_all(tasks.iter().map(|task| a.commit(commit([more(*task, 1, 1)])))).await;
    assert!(grown.into_iter().all(|outcome| outcome == Outcome::Done));
    let mut left: std::collections::HashSet<TaskId> = tasks.into_iter().collect();
    while !left.is_empty() {
        match tokio::time::timeout(PATIENCE, to_b.next()).await.unwrap() {
            Some(Hint::Grown(task, _)) => drop(left.remove(&task)),
            Some(Hint::Missed) => break,
            Some(Hint::Push(_) | Hint::Removed(_) | Hint::Access | Hint::Gone | Hint::CutOff) | None => {}
        }
    }
}

pub(super) async fn what_a_process_held_when_it_left_is_anybodys(factory: &dyn Factory) {
    let Some([a, b]) = two(factory).await else { return };
    let mut to_b = b.hints();
    let held = open(&a, |o| o.epoch(2)).await;
    let ours = open(&b, |o| o.epoch(2)).await;
    let ended = open(&a, |o| o.epoch(1).is(State::Completed, at(1))).await;
    // Taken over by B while A lives.
    let taken = open(&a, |o| o.epoch(1)).await;
    put(&b, more(taken, 1, 1).epoch(2)).await;
    for store in [&a, &b] {
        assert_eq!(store.orphans(None, 10).await.unwrap(), []);
        assert_eq!(store.unfinished(None, 10).await.unwrap().len(), 3);
    }
    // Each lists the turns it holds.
    assert_eq!(a.held(None, 10).await.unwrap(), [(held, Epoch(2))]);
    assert_eq!(b.held(None, 10).await.unwrap(), [(ours, Epoch(2)), (taken, Epoch(2))]);
    assert_eq!(b.held(None, 1).await.unwrap(), [(ours, Epoch(2))]);
    assert_eq!(b.held(Some(ours), 10).await.unwrap(), [(taken, Epoch(2))]);
    a.close().await;
    hears(&mut to_b, Hint::Gone).await;
    assert_eq!(b.orphans(None, 10).await.unwrap(), [(held, Epoch(2))]);
    assert_eq!(b.orphans(Some(held), 10).await.unwrap(), []);
    // An append with an epoch takes the hold; a read does not.
    assert_eq!(b.orphans(None, 10).await.unwrap(), [(held, Epoch(2))]);
    put(&b, more(held, 1, 1).epoch(3)).await;
    assert_eq!(b.orphans(None, 10).await.unwrap(), []);
    has(&b, ours, 1).await;
    has(&b, ended, 1).await;
}

pub(super) async fn a_push_config_has_one_deliverer(factory: &dyn Factory) {
    let Some([a, b]) = two(factory).await else { return };
    let task = open(&a, |o| o).await;
    let config = |id: &str| PushRow {
        task,
        id: id.into(),
        edition: 1,
        epoch: Epoch(0),
        spec: "s".into(),
        made_at: at(0),
        progress: PushProgress::from(Seq(1), at(0)),
    };
    let far = |next: u64| PushProgress { delivered: next, ..PushProgress::from(Seq(next), at(9)) };
    let moved_in = |id: &str, epoch: u64, next: u64| {
        let change = PushChange::Moved { task, id: id.into(), edition: 1, epoch: Epoch(epoch), progress: far(next) };
        Commit { push: vec![change], ..Commit::default() }
    };
    let moved = |id: &str, next: u64| moved_in(id, 0, next);
    let put_to =
        |ids: &[&str]| Commit { push: ids.iter().map(|id| PushChange::Put(config(id))).collect(), ..Commit::default() };
    done(&a, put_to(&["a1", "a2", "a3"])).await;
    done(&b, put_to(&["b1"])).await;
    let ids = |rows: Vec<PushRow>| rows.into_iter().map(|row| row.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ids(a.adopt(None, 10).await.unwrap()), ["a1", "a2", "a3"]);
    assert_eq!(ids(a.adopt(None, 2).await.unwrap()), ["a1", "a2"]);
    assert_eq!(ids(a.adopt(Some((task, "a2".into())), 2).await.unwrap()), ["a3"]);
    assert_eq!(ids(b.adopt(None, 10).await.unwrap()), ["b1"]);
    // Progress counts where it is delivered, and nowhere else.
    done(&b, moved("a1", 7)).await;
    done(&a, moved("a2", 8)).await;
    let next = |rows: Vec<PushRow>| rows.into_iter().map(|row| row.progress.next.0).collect::<Vec<_>>();
    assert_eq!(next(b.push(task).await.unwrap()), [1, 8, 1, 1]);
    let over = |id: &str| {
        let change = PushChange::Over { task, id: id.into(), edition: 1, epoch: Epoch(0) };
        Commit { push: vec![change], ..Commit::default() }
    };
    // So is its end.
    done(&b, over("a1")).await;
    done(&a, put_to(&["a0"])).await;
    done(&a, over("a0")).await;
    assert_eq!(next(b.push(task).await.unwrap()), [1, 8, 1, 1]);
    let standing = |rows: Vec<Option<model::PushStanding>>| rows[0].map(|now| (now.epoch.0, now.next.0, now.ours));
    assert_eq!(standing(a.standings(vec![(task, "a2".into())]).await.unwrap()), Some((0, 8, true)));
    assert_eq!(standing(b.standings(vec![(task, "a2".into())]).await.unwrap()), Some((0, 8, false)));
    // Put again, it is delivered by the process that put it.
    done(&b, put_to(&["a3"])).await;
    done(&a, moved("a3", 5)).await;
    assert_eq!(ids(a.adopt(None, 10).await.unwrap()), ["a1", "a2"]);
    assert_eq!(ids(b.adopt(None, 10).await.unwrap()), ["a3", "b1"]);
    assert_eq!(next(a.push(task).await.unwrap()), [1, 8, 1, 1]);
    // When one leaves, the other takes up the rest, with all that was delivered.
    a.close().await;
    let adopted = b.adopt(None, 10).await.unwrap();
    assert_eq!(next(adopted.clone()), [1, 8, 1, 1]);
    assert_eq!(ids(adopted.clone()), ["a1", "a2", "a3", "b1"]);
    // A takeover has the next epoch; progress of the deliverer before does not count any more.
    assert_eq!(adopted.iter().map(|row| row.epoch.0).collect::<Vec<_>>(), [1, 1, 0, 0]);
    assert_eq!(b.push(task).await.unwrap().iter().map(|row| row.epoch.0).sum::<u64>(), 2);
    done(&b, moved("a1", 3)).await;
    done(&b, over("a1")).await;
    assert_eq!(next(b.adopt(None, 10).await.unwrap()), [1, 8, 1, 1]);
    done(&b, moved_in("a1", 1, 6)).await;
    assert_eq!(next(b.adopt(None, 10).await.unwrap()), [6, 8, 1, 1]);
    done(&b, put_to(&["b2"])).await;
    done(&b, over("b2")).await;
    let Some(third) = factory.second().await else { return };
    assert_eq!(third.adopt(None, 10).await.unwrap(), []);
    assert_eq!(third.pushes(PushState::Active, None, 10).await.unwrap().len(), 4);
}

pub(super) async fn a_timer_is_left_to_the_holder_until_it_is_late(factory: &dyn Factory) {
    let Some([a, b]) = two(factory).await else { return };
    let task = id();
    let timer = |task, due| Timer { task, kind: TimerKind::TurnTimeout, due };
    let set = |due| vec![TimerChange::Set(timer(task, due))];
    done(&a, Commit { timers: set(at(100_000)), ..commit([opening(task, 1).epoch(1)]) }).await;
    for (now, seen_by_a, seen_by_b) in [(99_999, 0, 0), (100_000, 1, 0), (104_999, 1, 0), (105_000, 1, 1)] {
        assert_eq!(a.due(at(now), 5).await.unwrap().len(), seen_by_a, "{now}");
        assert_eq!(b.due(at(now), 5).await.unwrap().len(), seen_by_b, "{now}");
    }
    assert_eq!(a.next_due().await.unwrap(), Some(at(100_000)));
    assert_eq!(b.next_due().await.unwrap(), Some(at(105_000)));
    // One's own counts at once, also behind another's.
    let own = id();
    let timers = vec![TimerChange::Set(timer(own, at(102_000)))];
    done(&b, Commit { timers, ..commit([opening(own, 1).epoch(1)]) }).await;
    assert_eq!(b.next_due().await.unwrap(), Some(at(102_000)));
    assert_eq!(b.due(at(103_000), 5).await.unwrap(), [timer(own, at(102_000))]);
    a.close().await;
    assert_eq!(b.next_due().await.unwrap(), Some(at(100_000)));
    assert_eq!(b.due(at(103_000), 5).await.unwrap(), [timer(task, at(100_000)), timer(own, at(102_000))]);
}

/// A running task without an append with an epoch is held by the process that opened it.
pub(super) async fn whoever_opens_a_turn_holds_it(factory: &dyn Factory) {
    let Some([a, b]) = two(factory).await else { return };
    let asks = model::ports::store::IndexRow { running: false, ..row(State::InputRequired, at(1)) };
    let opened = open(&a, |o| o).await;
    let resumed = open(&b, |o| o.row(asks)).await;
    put(&a, more(resumed, 1, 1).is(State::Working, at(2))).await;
    assert_eq!(b.orphans(None, 10).await.unwrap(), []);
    a.close().await;
    let mut expected = [(opened, Epoch(0)), (resumed, Epoch(0))];
    expected.sort();
    assert_eq!(b.orphans(None, 10).await.unwrap(), expected);
}

/// Every fact that processes remember has a number that shows changes, with or without hints.
pub(super) async fn removals_and_changes_of_keys_are_counted_for_all(factory: &dyn Factory) {
    let Some([a, b]) = two(factory).await else { return };
    let before = b.versions().await.unwrap();
    let tasks = [open(&a, |o| o).await, open(&a, |o| o.is(State::Completed, at(1))).await, open(&a, |o| o).await];
    assert_eq!(b.versions().await.unwrap(), before);
    assert!(a.remove(tasks[0]).await.unwrap());
    assert!(!a.remove(tasks[0]).await.unwrap());
    assert_eq!(a.purge(at(100), at(0), 10).await.unwrap(), 1);
    assert!(b.remove(tasks[2]).await.unwrap());
    let key = |id: &str| AccessKey {
        id: id.into(),
        name: "n".into(),
        tenant: "t".into(),
        scopes: Vec::new(),
        hash: [0; 32],
        prefix: "p".into(),
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
    };
    done(&a, Commit { access: vec![key("k"), key("l")], ..Commit::default() }).await;
    done(&b, Commit { access: vec![AccessKey { revoked_at: Some(at(1)), ..key("k") }], ..Commit::default() }).await;
    for store in [&a, &b] {
        let now = store.versions().await.unwrap();
        assert_eq!((now.removed - before.removed, now.access - before.access), (3, 3));
    }
}

/// Several values for one name at the same time: all processes hear the same one of them, also later.
pub(super) async fn the_first_value_of_a_name_is_the_value_for_all(factory: &dyn Factory) {
    let Some([a, b]) = two(factory).await else { return };
    let name = id().to_string();
    assert_eq!(a.recall(&name).await.unwrap(), None);
    let given = ["1", "2", "3", "4"];
    let stores = [&a, &b, &a, &b];
    let heard = join_all(stores.into_iter().zip(given).map(|(store, value)| store.remember(&name, value))).await;
    let heard: Vec<String> = heard.into_iter().map(Result::unwrap).collect();
    assert!(given.contains(&&*heard[0]) && heard.iter().all(|value| *value == heard[0]), "{heard:?}");
    assert_eq!(b.remember(&id().to_string(), "another name").await.unwrap(), "another name");
    a.close().await;
    assert_eq!(b.recall(&name).await.unwrap(), Some(heard[0].clone()));
    assert_eq!(b.remember(&name, "5").await.unwrap(), heard[0]);
}

/// For operators: the replicas and their descriptions.
pub(super) async fn replicas_are_known_by_what_they_say_of_themselves(factory: &dyn Factory) {
    let Some([a, b]) = two(factory).await else { return };
    a.introduce("{\"version\":\"1\"}".into());
    let rows = async || {
        let mut rows = b.replicas().await.unwrap();
        rows.retain(|row| [a.epoch().0, b.epoch().0].contains(&row.no));
        rows
    };
    let said = async {
        while rows().await.iter().all(|row| row.about.as_deref() != Some("{\"version\":\"1\"}")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, said).await.unwrap();
    for row in rows().await {
        assert!(row.alive && row.lease_ms.is_some_and(|lease| lease >= 500), "{row:?}");
        assert_eq!((row.own, row.about.is_some()), (row.no == b.epoch().0, row.no == a.epoch().0));
    }
    a.close().await;
    let rows = rows().await;
    assert!(rows.iter().any(|row| row.no == a.epoch().0 && !row.alive), "{rows:?}");
}
