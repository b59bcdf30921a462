//! Timers: set with a commit, due in order, gone with their task.

use model::ports::store::{Commit, Timer, TimerChange, TimerKind};
use model::{TaskId, Time};

use super::Factory;
use super::kit::{DynStore, Say, at, commit, conflict, done, id, more, open, opening};

fn timer(task: TaskId, due: Time) -> Timer {
    Timer { task, kind: TimerKind::TurnTimeout, due }
}

async fn set(store: &DynStore, task: TaskId, due: Time) {
    done(store, Commit { timers: vec![TimerChange::Set(timer(task, due))], ..Commit::default() }).await;
}

pub(super) async fn a_timer_is_due_at_its_time_and_not_before(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    let timers = vec![TimerChange::Set(timer(task, at(100)))];
    done(&store, Commit { timers, ..commit([opening(task, 1)]) }).await;
    assert_eq!(store.due(at(99), 10).await.unwrap(), []);
    assert_eq!(store.due(at(100), 10).await.unwrap(), [timer(task, at(100))]);
    // Looking does not take it away.
    assert_eq!(store.due(at(5_000), 10).await.unwrap(), [timer(task, at(100))]);
}

pub(super) async fn timers_come_earliest_first_and_within_the_limit(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut timers = Vec::new();
    for due in [70, 10, 50, 30, 90, 20] {
        let task = open(&store, |a| a).await;
        set(&store, task, at(due)).await;
        timers.push(timer(task, at(due)));
    }
    timers.sort_by_key(|timer| timer.due);
    assert_eq!(store.due(at(1_000), 10).await.unwrap(), timers);
    assert_eq!(store.due(at(1_000), 2).await.unwrap(), timers[..2]);
    assert_eq!(store.due(at(50), 10).await.unwrap(), timers[..4]);
}

pub(super) async fn a_timer_set_again_moves(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    set(&store, task, at(100)).await;
    set(&store, task, at(300)).await;
    assert_eq!(store.due(at(200), 10).await.unwrap(), []);
    assert_eq!(store.next_due().await.unwrap(), Some(at(300)));
    set(&store, task, at(50)).await;
    assert_eq!(store.due(at(1_000), 10).await.unwrap(), [timer(task, at(50))]);
    assert_eq!(store.health().await.unwrap().timers, 1);
}

pub(super) async fn a_cleared_timer_is_gone(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    set(&store, task, at(100)).await;
    let clear = || Commit { timers: vec![TimerChange::Clear(task, TimerKind::TurnTimeout)], ..Commit::default() };
    done(&store, clear()).await;
    assert_eq!(store.due(at(1_000), 10).await.unwrap(), []);
    assert_eq!(store.next_due().await.unwrap(), None);
    // Clearing what is not set is nothing.
    done(&store, clear()).await;
    assert_eq!(store.health().await.unwrap().timers, 0);
}

/// A change of a timer that was read applies to that one, and to none that was set since.
pub(super) async fn a_timer_is_replaced_only_while_it_is_the_one_that_was_read(factory: &dyn Factory) {
    let store = factory.open().await;
    let replace = async |timer: Timer, to: Option<Time>| {
        done(&store, Commit { timers: vec![TimerChange::Replace { timer, to }], ..Commit::default() }).await;
    };
    let deadline = |task, due| Timer { kind: TimerKind::Deadline, ..timer(task, due) };
    // Of a task that was opened here, and of one that is only known by its rows.
    for reopened in [false, true] {
        let task = open(&store, |a| a).await;
        let store = if reopened { factory.second().await.unwrap_or_else(|| store.clone()) } else { store.clone() };
        let of = async || store.timers(vec![task]).await.unwrap();
        replace(timer(task, at(1)), Some(at(2))).await;
        assert_eq!(of().await, [], "one that is not set is not moved");
        set(&store, task, at(100)).await;
        replace(timer(task, at(99)), None).await;
        replace(timer(task, at(101)), Some(at(5))).await;
        replace(deadline(task, at(100)), None).await;
        assert_eq!(of().await, [timer(task, at(100))]);
        replace(timer(task, at(100)), Some(at(300))).await;
        assert_eq!(of().await, [timer(task, at(300))]);
        replace(timer(task, at(100)), None).await;
        assert_eq!(of().await, [timer(task, at(300))]);
        replace(timer(task, at(300)), None).await;
        assert_eq!((of().await, store.health().await.unwrap().timers), (vec![], 0));
        // In one commit, in order.
        let first = timer(task, at(7));
        let timers = vec![
            TimerChange::Set(first),
            TimerChange::Replace { timer: first, to: Some(at(8)) },
            TimerChange::Replace { timer: first, to: None },
        ];
        done(&store, Commit { timers, ..Commit::default() }).await;
        assert_eq!(of().await, [timer(task, at(8))]);
        assert_eq!(store.health().await.unwrap().timers, 1);
        replace(timer(task, at(8)), None).await;
    }
    replace(timer(id(), at(1)), Some(at(2))).await;
    assert_eq!((store.next_due().await.unwrap(), store.health().await.unwrap().timers), (None, 0));
}

pub(super) async fn timers_are_found_by_their_tasks(factory: &dyn Factory) {
    let store = factory.open().await;
    let (one, two, none) = (open(&store, |a| a).await, open(&store, |a| a).await, open(&store, |a| a).await);
    let deadline = Timer { task: one, kind: TimerKind::Deadline, due: at(9) };
    set(&store, one, at(100)).await;
    set(&store, two, at(50)).await;
    done(&store, Commit { timers: vec![TimerChange::Set(deadline)], ..Commit::default() }).await;
    let found = async |tasks: Vec<TaskId>| {
        let mut timers = store.timers(tasks).await.unwrap();
        timers.sort_by_key(|timer| timer.due);
        timers
    };
    assert_eq!(found(vec![one]).await, [deadline, timer(one, at(100))]);
    assert_eq!(found(vec![none, two, id(), one]).await, [deadline, timer(two, at(50)), timer(one, at(100))]);
    assert_eq!(found(vec![none, id()]).await, []);
    assert_eq!(found(vec![]).await, []);
}

pub(super) async fn the_next_timer_is_known(factory: &dyn Factory) {
    let store = factory.open().await;
    assert_eq!(store.next_due().await.unwrap(), None);
    let (late, early) = (open(&store, |a| a).await, open(&store, |a| a).await);
    set(&store, late, at(500)).await;
    set(&store, early, at(100)).await;
    assert_eq!(store.next_due().await.unwrap(), Some(at(100)));
    assert!(store.remove(early).await.unwrap());
    assert_eq!(store.next_due().await.unwrap(), Some(at(500)));
}

pub(super) async fn a_timer_of_a_task_that_is_not_there_is_not_set(factory: &dyn Factory) {
    let store = factory.open().await;
    set(&store, id(), at(1)).await;
    assert_eq!(store.next_due().await.unwrap(), None);
    assert_eq!(store.health().await.unwrap().timers, 0);
}

pub(super) async fn a_refused_commit_sets_no_timer(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.epoch(1)).await;
    let timers = vec![TimerChange::Set(timer(task, at(1)))];
    conflict(store.commit(Commit { timers, ..commit([more(task, 9, 1)]) }).await);
    assert_eq!(store.next_due().await.unwrap(), None);
}
