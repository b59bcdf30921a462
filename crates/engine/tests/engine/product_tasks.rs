//! Tasks without turns: one commit for all changes, and deadlines that fire until they are handled.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use engine::{CommitError, Engine, NewTask, SideWrites, TaskChange};
use model::ports::Future;
use model::ports::store::Conflict;
use model::ports::task_driver::TaskDriver;
use model::{
    Artifact, ContextId, Entry, Expect, Json, Kind, Listed, Part, Posting, RecordChange, RecordQuery, State, TaskId,
    Time,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::common::{
    House, Mood, Square, aside, at, echo, kind as kind_of, log, next_heard, on_both_stores, quick, say, subscribe,
    until,
};

const KIND: &str = "shop/order";

fn put(key: &str, expect: Expect, body: &str) -> RecordChange {
    RecordChange::Put {
        kind: KIND.into(),
        key: key.into(),
        expect,
        body: Bytes::copy_from_slice(body.as_bytes()),
        lists: vec![Listed { list: "all".into(), rank: 1 }],
    }
}

/// Moves money between accounts; the source must have it unless it is the bank.
fn pay(id: u128, from: &str, to: &str, amount: i64) -> Entry {
    let post =
        |account: &str, amount| Posting { account: account.into(), amount, floor: (account != "bank").then_some(0) };
    Entry {
        id: Uuid::from_u128(id),
        at: Time(1),
        body: Bytes::from_static(b"{}"),
        postings: vec![post(from, -amount), post(to, amount)],
    }
}

fn birth(engine: &Engine, state: State) -> NewTask {
    NewTask { id: engine.new_task_id(), context: None, message: None, to: TaskChange::to(state) }
}

fn with(records: Vec<RecordChange>) -> SideWrites {
    SideWrites { records, ..SideWrites::default() }
}

async fn record(engine: &Engine, key: &str) -> Option<(String, u64)> {
    let kept = engine.store().record(KIND.into(), key.into()).await.unwrap()?;
    Some((String::from_utf8(kept.body.to_vec()).unwrap(), kept.version))
}

async fn listed(engine: &Engine) -> usize {
    let query = RecordQuery { kind: KIND.into(), list: "all".into(), after: None, skip: 0, limit: 100, count: false };
    engine.store().records(query).await.unwrap().records.len()
}

async fn balances(engine: &Engine) -> Vec<i64> {
    engine.store().balances(["bank", "ann", "bob"].map(Into::into).to_vec()).await.unwrap()
}

/// A summary of the store's content, for checks that nothing has changed.
async fn all(engine: &Engine) -> (Vec<i64>, usize, u64, u64, u64, u64) {
    let health = engine.health().await.unwrap();
    (balances(engine).await, listed(engine).await, health.tasks, health.timers, health.records, health.entries)
}

fn met(unmoved: CommitError) -> Conflict {
    match unmoved {
        CommitError::Met(conflict) => conflict,
        CommitError::Fault(fault) => panic!("a conflict was expected, not {fault:?}"),
    }
}

fn fault(unmoved: CommitError) -> Kind {
    match unmoved {
        CommitError::Met(conflict) => panic!("a fault was expected, not {conflict:?}"),
        CommitError::Fault(fault) => fault.kind,
    }
}

/// Reports every deadline to the test.
struct Bell(mpsc::UnboundedSender<TaskId>);

impl TaskDriver for Bell {
    fn due(&self, task: TaskId) -> Future<'_, ()> {
        let _ = self.0.send(task);
        Box::pin(std::future::ready(()))
    }
}

fn bell(engine: &Engine) -> mpsc::UnboundedReceiver<TaskId> {
    let (rings, heard) = mpsc::unbounded_channel();
    engine.set_product(Arc::new(Bell(rings)));
    heard
}

#[tokio::test]
async fn all_that_changes_with_a_task_changes_in_one_commit() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        engine
            .keep(SideWrites {
                entries: vec![pay(1, "bank", "ann", 100)],
                ..with(vec![put("till", Expect::Absent, "0")])
            })
            .await
            .unwrap();
        house.shelf().calls();
        let along = SideWrites {
            entries: vec![pay(2, "ann", "bob", 60)],
            deadline: Some(Some(engine.now().plus_ms(3_600_000))),
            ..with(vec![put("a", Expect::Absent, "new"), put("till", Expect::Version(1), "1")])
        };
        let born = NewTask { context: Some(ContextId::from("talk")), ..birth(&engine, State::Submitted) };
        let task = engine.open_product(&at("shop"), born, along).await.unwrap();
        assert_eq!(house.shelf().calls(), ["commit"]);
        assert_eq!((task.state(), task.context.as_str()), (State::Submitted, "talk"));
        assert_eq!(balances(&engine).await, [-100, 40, 60]);
        assert_eq!(record(&engine, "a").await, Some(("new".into(), 1)));
        assert_eq!(record(&engine, "till").await, Some(("1".into(), 2)));
        assert_eq!(engine.health().await.unwrap().timers, 1);

        let artifact = |text: &str| Artifact {
            id: "bill".into(),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: Vec::new(),
        };
        let mut to = TaskChange::to(State::Working);
        to.artifacts = vec![artifact("draft")];
        let along = SideWrites {
            entries: vec![pay(3, "bob", "ann", 10)],
            deadline: Some(None),
            ..with(vec![put("a", Expect::Version(1), "paid")])
        };
        engine.move_product(task.id, to.clone(), along).await.unwrap();
        assert_eq!(engine.health().await.unwrap().timers, 0);
        assert_eq!(balances(&engine).await, [-100, 50, 50]);
        to.state = State::Completed;
        to.artifacts = vec![artifact("final")];
        let done = engine.move_product(task.id, to, SideWrites::default()).await.unwrap();
        assert_eq!((done.state(), crate::common::artifacts(&done)), (State::Completed, vec!["final".to_owned()]));
        assert_eq!(record(&engine, "a").await, Some(("paid".into(), 2)));
        assert_eq!(*engine.get(&at("shop"), &task.id.to_string()).await.unwrap(), *done);
    })
    .await;
}

#[tokio::test]
async fn what_does_not_fit_leaves_no_trace() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        engine
            .keep(SideWrites {
                entries: vec![pay(1, "bank", "ann", 100)],
                ..with(vec![put("a", Expect::Absent, "old")])
            })
            .await
            .unwrap();
        let task =
            engine.open_product(&at("shop"), birth(&engine, State::Submitted), SideWrites::default()).await.unwrap();
        let before = (all(&engine).await, log(&engine, task.id).await.len());
        let wrongs = [
            with(vec![put("b", Expect::Absent, "x"), put("a", Expect::Absent, "x")]),
            with(vec![put("b", Expect::Absent, "x"), put("a", Expect::Version(2), "x")]),
            SideWrites {
                entries: vec![pay(2, "ann", "bob", 60), pay(3, "ann", "bob", 60)],
                ..with(vec![put("b", Expect::Absent, "x")])
            },
            SideWrites {
                entries: vec![pay(4, "ann", "bob", 1), pay(1, "ann", "bob", 1)],
                ..with(vec![put("b", Expect::Absent, "x")])
            },
        ];
        let expected = [
            Conflict::Record(KIND.into(), "a".into(), 1),
            Conflict::Record(KIND.into(), "a".into(), 1),
            Conflict::Funds("ann".into(), 40),
            Conflict::Entry(Uuid::from_u128(1)),
        ];
        for (wrong, expected) in wrongs.into_iter().zip(expected) {
            let along = SideWrites { deadline: Some(Some(engine.now().plus_ms(3_600_000))), ..wrong };
            let born = birth(&engine, State::Submitted);
            let id = born.id;
            assert_eq!(met(engine.open_product(&at("shop"), born, along.clone()).await.unwrap_err()), expected);
            assert!(engine.task(id).await.unwrap().is_none());
            let to = TaskChange::to(State::Working);
            assert_eq!(met(engine.move_product(task.id, to, along.clone()).await.unwrap_err()), expected);
            assert_eq!(met(engine.keep(along).await.unwrap_err()), expected);
            assert_eq!((all(&engine).await, log(&engine, task.id).await.len()), before);
        }
        // The same without the invalid change.
        let along =
            SideWrites { entries: vec![pay(2, "ann", "bob", 60)], ..with(vec![put("a", Expect::Version(1), "x")]) };
        let moved = engine.move_product(task.id, TaskChange::to(State::Working), along).await.unwrap();
        assert_eq!((moved.state(), balances(&engine).await), (State::Working, vec![-100, 40, 60]));
    })
    .await;
}

#[tokio::test]
async fn a_task_that_has_settled_or_is_not_there_is_not_moved() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let task =
            engine.open_product(&at("shop"), birth(&engine, State::Submitted), SideWrites::default()).await.unwrap();
        engine.move_product(task.id, TaskChange::to(State::Failed), SideWrites::default()).await.unwrap();
        let before = all(&engine).await;
        for state in [State::Working, State::Failed, State::Completed] {
            let along = with(vec![put("a", Expect::Any, "x")]);
            let unmoved = engine.move_product(task.id, TaskChange::to(state), along).await.unwrap_err();
            assert_eq!(fault(unmoved), Kind::TaskSettled);
        }
        let along = with(vec![put("a", Expect::Any, "x")]);
        let unmoved =
            engine.move_product(engine.new_task_id(), TaskChange::to(State::Working), along).await.unwrap_err();
        assert_eq!(fault(unmoved), Kind::TaskNotFound);
        assert_eq!(all(&engine).await, before);
        assert_eq!(engine.get(&at("shop"), &task.id.to_string()).await.unwrap().state(), State::Failed);
    })
    .await;
}

/// It has no turns and cannot get one: messages are refused, and the engine does not cancel it.
#[tokio::test]
async fn a_products_task_takes_no_messages() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let task =
            engine.open_product(&at("shop"), birth(&engine, State::Submitted), SideWrites::default()).await.unwrap();
        let send = model::Send { task: Some(task.id.to_string()), ..say("hi") };
        assert_eq!(kind_of(engine.send(&at("shop"), send).await), Kind::MethodNotFound);
        assert_eq!(log(&engine, task.id).await.len(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_told_when_due_and_again_until_it_is_moved_or_cleared() {
    let mut house = House::memory();
    let shelf = house.open();
    shelf.go_by_sleepers();
    let engine = Engine::builder(shelf).agents(vec![echo()]).limits(quick()).start().await.unwrap();
    let mut rings = bell(&engine);
    let begin = tokio::time::Instant::now();
    // Two more, because the milliseconds of the clocks begin at different moments.
    let passed = || begin.elapsed().as_millis() + 2;
    let due = |ms| SideWrites { deadline: Some(Some(engine.now().plus_ms(ms))), ..SideWrites::default() };
    let task = engine.open_product(&at("shop"), birth(&engine, State::Submitted), due(30_000)).await.unwrap();
    assert_eq!(rings.recv().await, Some(task.id));
    let first = passed();
    assert!((30_000..30_100).contains(&first), "{first}");
    for n in 1..=3 {
        assert_eq!(rings.recv().await, Some(task.id));
        let again = passed() - first;
        assert!((5_000 * n - 4..5_000 * n + 100 * n).contains(&again), "{again}");
    }
    // Moved with the task: it fires at the new time and not before.
    let at_move = passed();
    engine.move_product(task.id, TaskChange::to(State::Working), due(3_600_000)).await.unwrap();
    assert_eq!(rings.recv().await, Some(task.id));
    assert!((3_599_996..3_600_100).contains(&(passed() - at_move)), "{}", passed() - at_move);
    // Set to an earlier time by itself: the timer loop is woken.
    engine.set_deadline(task.id, Some(engine.now().plus_ms(7_200_000))).await.unwrap();
    engine.set_deadline(task.id, Some(engine.now().plus_ms(100))).await.unwrap();
    let at_set = passed();
    assert_eq!(rings.recv().await, Some(task.id));
    assert!((96..200).contains(&(passed() - at_set)), "{}", passed() - at_set);
    // Cleared: it never fires again.
    engine.set_deadline(task.id, None).await.unwrap();
    assert_eq!(engine.health().await.unwrap().timers, 0);
    assert!(tokio::time::timeout(Duration::from_secs(1_000_000), rings.recv()).await.is_err());
    // For a missing task no deadline is set.
    engine.set_deadline(engine.new_task_id(), Some(engine.now())).await.unwrap();
    assert_eq!(engine.health().await.unwrap().timers, 0);
}

/// All deadlines due at once fire; a slow product does not block the others for ever.
#[tokio::test(start_paused = true)]
async fn many_deadlines_at_once_are_all_told() {
    struct Slow(Mutex<Vec<TaskId>>, Engine);
    impl TaskDriver for Slow {
        fn due(&self, task: TaskId) -> Future<'_, ()> {
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                self.0.lock().push(task);
                self.1.set_deadline(task, None).await.unwrap();
            })
        }
    }
    let mut house = House::memory();
    let shelf = house.open();
    shelf.go_by_sleepers();
    let engine = Engine::builder(shelf).agents(vec![echo()]).limits(quick()).start().await.unwrap();
    let slow = Arc::new(Slow(Mutex::default(), engine.clone()));
    engine.set_product(slow.clone());
    let mut ids = Vec::new();
    let due = engine.now().plus_ms(1_000);
    for _ in 0..300 {
        let along = SideWrites { deadline: Some(Some(due)), ..SideWrites::default() };
        ids.push(engine.open_product(&at("shop"), birth(&engine, State::Submitted), along).await.unwrap().id);
    }
    until(async || engine.health().await.unwrap().timers == 0).await;
    let mut told = slow.0.lock().clone();
    told.sort();
    told.dedup();
    ids.sort();
    assert_eq!(told, ids);
}

#[tokio::test]
async fn a_deadline_outlives_the_process() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let along = SideWrites { deadline: Some(Some(engine.now().plus_ms(50))), ..SideWrites::default() };
        let task = engine.open_product(&at("shop"), birth(&engine, State::Submitted), along).await.unwrap();
        house.kill().await;
        let engine = house.start([echo()]).await;
        let mut rings = bell(&engine);
        assert_eq!(rings.recv().await, Some(task.id));
        let along = SideWrites { deadline: Some(None), ..SideWrites::default() };
        engine.move_product(task.id, TaskChange::to(State::Completed), along).await.unwrap();
        assert_eq!(engine.health().await.unwrap().timers, 0);
    })
    .await;
}

#[tokio::test]
async fn of_two_processes_that_act_one_has_acted() {
    for round in 0..20 {
        let square = Square::new();
        let (here, there) = (square.start(echo(), quick()).await, square.start(echo(), quick()).await);
        if round % 2 == 0 {
            square.be_silent(true);
        }
        let (mut rings, mut others) = (bell(&here.engine), bell(&there.engine));
        let along = SideWrites { deadline: Some(Some(here.engine.now())), ..with(vec![put("a", Expect::Absent, "0")]) };
        let task = here.engine.open_product(&at("shop"), birth(&here.engine, State::Submitted), along).await.unwrap();
        // One process is called for the deadline; both act on it, one of them late.
        tokio::select! {
            told = rings.recv() => assert_eq!(told, Some(task.id)),
            told = others.recv() => assert_eq!(told, Some(task.id)),
        }
        let end = if round < 10 { State::Failed } else { State::Working };
        let act = |engine: &Engine, word: &'static str, entry: u128| {
            let (engine, id) = (engine.clone(), task.id);
            aside(async move {
                let along = SideWrites {
                    entries: vec![pay(entry, "bank", word, 1)],
                    deadline: Some(None),
                    ..with(vec![put("a", Expect::Version(1), word)])
                };
                engine.move_product(id, TaskChange::to(end), along).await.map(|_| word)
            })
        };
        let (one, other) = (act(&here.engine, "ann", 1), act(&there.engine, "bob", 2));
        let outcomes = [one.await.unwrap(), other.await.unwrap()];
        let won: Vec<&str> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok().copied()).collect();
        assert_eq!(won.len(), 1, "{outcomes:?}");
        for lost in outcomes.into_iter().filter_map(Result::err) {
            match lost {
                CommitError::Met(conflict) => assert_eq!(conflict, Conflict::Record(KIND.into(), "a".into(), 2)),
                CommitError::Fault(fault) => assert_eq!((fault.kind, end), (Kind::TaskSettled, State::Failed)),
            }
        }
        assert_eq!(record(&there.engine, "a").await, Some((won[0].into(), 2)));
        assert_eq!(balances(&there.engine).await.iter().sum::<i64>(), 0);
        assert_eq!(here.engine.health().await.unwrap().entries, 1);
        assert_eq!(log(&there.engine, task.id).await.len(), 3);
    }
}

/// A product has more states than a task: a change within one task state is a change.
#[tokio::test]
async fn a_follower_hears_of_every_change_also_within_a_state() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let task =
            engine.open_product(&at("shop"), birth(&engine, State::Submitted), SideWrites::default()).await.unwrap();
        let mut states = engine.follow_product(task.id).await.unwrap().unwrap();
        assert_eq!(states.next().await.unwrap().state(), State::Submitted);
        let mut heard = subscribe(&engine, "shop", task.id).await;
        heard.next().await.unwrap().unwrap();
        let mut seq = task.seq();
        for (state, word) in [
            (State::Submitted, "frozen"),
            (State::Submitted, "frozen again"),
            (State::Working, "accepted"),
            (State::InputRequired, "delivered"),
            (State::Completed, "settled"),
        ] {
            let metadata = Json::parse(&format!(r#"{{"shop":{{"status":"{word}"}}}}"#));
            let to = TaskChange { metadata: metadata.clone(), ..TaskChange::to(state) };
            engine.move_product(task.id, to, SideWrites::default()).await.unwrap();
            let told = states.next().await.unwrap();
            assert!(told.seq() > seq);
            assert_eq!(told.state(), state);
            seq = told.seq();
            match heard.next().await.unwrap().unwrap() {
                engine::SubscriptionItem::Event { committed, .. } => match &committed.event.body {
                    model::Body::Status(change) => assert_eq!((change.state, &change.metadata), (state, &metadata)),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
        }
        assert!(states.next().await.is_none());
        // A later follower gets the final state and the end.
        let mut states = engine.follow_product(task.id).await.unwrap().unwrap();
        assert_eq!(states.next().await.unwrap().state(), State::Completed);
        assert!(states.next().await.is_none());
        assert!(engine.follow_product(engine.new_task_id()).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_follower_here_hears_of_a_move_there() {
    let square = Square::new();
    let (here, there) = (square.start(echo(), quick()).await, square.start(echo(), quick()).await);
    let born = birth(&here.engine, State::Submitted);
    let task = there.engine.open_product(&at("shop"), born, SideWrites::default()).await.unwrap();
    let mut states = here.engine.follow_product(task.id).await.unwrap().unwrap();
    assert_eq!(states.next().await.unwrap().state(), State::Submitted);
    there.engine.move_product(task.id, TaskChange::to(State::Working), SideWrites::default()).await.unwrap();
    assert_eq!(states.next().await.unwrap().state(), State::Working);
    there.engine.move_product(task.id, TaskChange::to(State::Canceled), SideWrites::default()).await.unwrap();
    assert_eq!(states.next().await.unwrap().state(), State::Canceled);
    assert!(states.next().await.is_none());
}

#[tokio::test]
async fn what_nobody_can_say_is_looked_up() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        engine
            .keep(SideWrites {
                entries: vec![pay(1, "bank", "ann", 100)],
                ..with(vec![put("till", Expect::Absent, "0")])
            })
            .await
            .unwrap();
        let mut entry = 10;
        let mut paying = |key: &str, expect| {
            entry += 1;
            SideWrites {
                entries: vec![pay(entry, "ann", "bob", 1)],
                ..with(vec![put(key, expect, &entry.to_string())])
            }
        };
        // Written with unknown outcome: done, once.
        house.shelf().be(Mood::LosesAnswer);
        let along = paying("a", Expect::Absent);
        let task = engine.open_product(&at("shop"), birth(&engine, State::Submitted), along).await.unwrap();
        house.shelf().be(Mood::LosesAnswer);
        let along = paying("a", Expect::Version(1));
        let moved = engine.move_product(task.id, TaskChange::to(State::Working), along).await.unwrap();
        assert_eq!(moved.state(), State::Working);
        house.shelf().be(Mood::LosesAnyAnswer);
        engine.keep(paying("till", Expect::Version(1))).await.unwrap();
        assert_eq!(balances(&engine).await, [-100, 97, 3]);
        // Not written: not done, and may be repeated.
        for again in [false, true] {
            let mood = |mood| house.shelf().be(if again { Mood::Fine } else { mood });
            mood(Mood::LosesCommit);
            let born = birth(&engine, State::Submitted);
            let opened = engine.open_product(&at("shop"), born, paying("b", Expect::Absent)).await;
            mood(Mood::LosesCommit);
            let along = paying("a", Expect::Version(2));
            let moved = engine.move_product(task.id, TaskChange::to(State::Working), along).await;
            mood(Mood::LosesAnyCommit);
            let kept = engine.keep(paying("till", Expect::Version(2))).await;
            assert_eq!((opened.is_ok(), moved.is_ok(), kept.is_ok()), (again, again, again));
            for lost in [opened.err(), moved.err(), kept.err()].into_iter().flatten() {
                assert!(matches!(lost, CommitError::Fault(_)), "{lost:?}");
            }
            let sum = if again { 94 } else { 97 };
            assert_eq!(balances(&engine).await, [-100, sum, 100 - sum]);
        }
        assert_eq!(log(&engine, task.id).await.len(), 4);
        assert_eq!(next_heard(&mut subscribe(&engine, "shop", task.id).await).await, "task working");
    })
    .await;
}

#[tokio::test]
async fn a_store_that_cannot_be_read_is_waited_for_before_anything_is_said() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let task =
            engine.open_product(&at("shop"), birth(&engine, State::Submitted), SideWrites::default()).await.unwrap();
        // The task is live because it is followed: changing it reads nothing beforehand.
        let _live = engine.follow_product(task.id).await.unwrap();
        let mut last = 0;
        for open in [true, false] {
            house.shelf().read_nothing(true);
            house.shelf().be(Mood::LosesAnswer);
            let refused = house.shelf().refused();
            let asked = aside({
                let (engine, id) = (engine.clone(), task.id);
                async move {
                    let born = birth(&engine, State::Submitted);
                    match open {
                        true => engine.open_product(&at("shop"), born, SideWrites::default()).await,
                        false => engine.move_product(id, TaskChange::to(State::Working), SideWrites::default()).await,
                    }
                }
            });
            until(async || house.shelf().refused() > refused + 2).await;
            assert!(!asked.is_finished());
            house.shelf().read_nothing(false);
            asked.await.unwrap().unwrap();
            let tasks = engine.health().await.unwrap().tasks;
            assert!(tasks >= last);
            last = tasks;
        }
        assert_eq!((last, log(&engine, task.id).await.len()), (2, 3));
    })
    .await;
}

#[tokio::test]
async fn whoever_drains_opens_nothing_new_but_finishes_what_is_open() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let task =
            engine.open_product(&at("shop"), birth(&engine, State::Submitted), SideWrites::default()).await.unwrap();
        engine.begin_drain();
        let born = birth(&engine, State::Submitted);
        let refused = engine.open_product(&at("shop"), born, SideWrites::default()).await.unwrap_err();
        assert_eq!(fault(refused), Kind::Unavailable);
        engine.move_product(task.id, TaskChange::to(State::Completed), SideWrites::default()).await.unwrap();
    })
    .await;
}

/// The same for a product: a step in between has set another deadline.
#[tokio::test]
async fn a_deadline_that_fires_leaves_one_alone_that_was_set_since() {
    on_both_stores(async |mut house| {
        let shelf = house.open();
        let engine = Engine::builder(shelf.clone()).agents(vec![echo()]).limits(quick()).start().await.unwrap();
        let mut rings = bell(&engine);
        shelf.hold_timers(true);
        let due = |due| SideWrites { deadline: Some(Some(due)), ..SideWrites::default() };
        let now = engine.now();
        let task = engine.open_product(&at("shop"), birth(&engine, State::Submitted), due(now)).await.unwrap();
        until(async || shelf.timers_waiting() == 1).await;
        let later = now.plus_ms(3_600_000);
        engine.move_product(task.id, TaskChange::to(State::Working), due(later)).await.unwrap();
        shelf.hold_timers(false);
        assert_eq!(rings.recv().await, Some(task.id), "it looks, and finds nothing to do");
        let kept = engine.store().timers(vec![task.id]).await.unwrap();
        assert_eq!(kept.iter().map(|timer| timer.due).collect::<Vec<_>>(), [later]);
    })
    .await;
}

#[tokio::test]
async fn a_deadline_is_set_only_while_what_it_rests_on_is_as_it_was() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let first = engine.now().plus_ms(3_600_000);
        let along = SideWrites { deadline: Some(Some(first)), ..with(vec![put("a", Expect::Absent, "0")]) };
        let task = engine.open_product(&at("shop"), birth(&engine, State::Submitted), along).await.unwrap();
        let due = async || engine.store().timers(vec![task.id]).await.unwrap().first().map(|timer| timer.due);
        let leave = |version| {
            vec![RecordChange::Leave { kind: KIND.into(), key: "a".into(), expect: Expect::Version(version) }]
        };
        for (version, to, moved) in
            [(2, None, false), (2, Some(first.plus_ms(1)), false), (1, Some(first.plus_ms(2)), true), (1, None, true)]
        {
            let before = due().await;
            assert_eq!(engine.set_deadline_while(task.id, to, leave(version)).await.unwrap(), moved);
            assert_eq!(due().await, if moved { to } else { before });
        }
    })
    .await;
}

/// The transaction behind it would continue without it: reserved money would never be returned.
#[tokio::test]
async fn a_task_of_a_product_is_not_removed_or_cancelled_before_it_has_ended() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let mut ids = Vec::new();
        for state in [State::Submitted, State::Working, State::InputRequired] {
            let due = Some(Some(engine.now().plus_ms(3_600_000)));
            let along = SideWrites { deadline: due, ..SideWrites::default() };
            ids.push(engine.open_product(&at("shop"), birth(&engine, state), along).await.unwrap().id);
        }
        let refused = async |engine: &Engine| {
            for id in &ids {
                for fault in [engine.purge(*id).await.unwrap_err(), engine.cancel_by_operator(*id).await.unwrap_err()] {
                    assert_eq!(fault.kind, Kind::TaskNotCancelable);
                    assert!(fault.message.contains("have its parties end it"), "{fault}");
                }
                assert!(!engine.task(*id).await.unwrap().unwrap().core.is_settled());
            }
            assert_eq!((engine.health().await.unwrap().tasks, engine.health().await.unwrap().timers), (3, 3));
        };
        refused(&engine).await;
        // An offline engine, while no server runs, has no product.
        house.kill().await;
        let offline = Engine::offline(house.open(), quick());
        refused(&offline).await;
        for id in &ids {
            let along = SideWrites { deadline: Some(None), ..SideWrites::default() };
            offline.move_product(*id, TaskChange::to(State::Canceled), along).await.unwrap();
            assert!(offline.purge(*id).await.unwrap());
            assert!(!offline.purge(*id).await.unwrap());
        }
        assert_eq!(offline.health().await.unwrap().tasks, 0);
    })
    .await;
}
