//! A commit is conditional, atomic, and happens once it was asked for.

use futures_util::future::join_all;
use model::ports::store::{Commit, Conflict, Outcome, StoreError};
use model::{Epoch, Seq, State};

use super::Factory;
use super::kit::{Say, at, commit, conflict, done, events, has, id, length, more, open, opening, put, refused, row};

pub(super) async fn a_task_is_there_once_its_opening_is_committed(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    put(&store, opening(task, 3).within("context").of("a tenant").is(State::Submitted, at(7))).await;
    let head = store.head(task).await.unwrap().unwrap();
    assert_eq!((head.context.as_str(), &*head.tenant, &*head.agent), ("context", "a tenant", "agent"));
    assert_eq!((head.seq, head.epoch, head.row), (Seq(3), Epoch(0), row(State::Submitted, at(7))));
    has(&store, task, 3).await;
}

pub(super) async fn a_task_nobody_opened_is_not_there(factory: &dyn Factory) {
    let store = factory.open().await;
    assert_eq!(store.head(id()).await.unwrap(), None);
    assert_eq!(store.events(id(), Seq::ZERO, 1).await.unwrap(), []);
    assert_eq!(store.logs(vec![id(), id()]).await.unwrap(), [vec![], vec![]]);
}

pub(super) async fn a_wrong_expectation_meets_the_length_of_the_log(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    put(&store, opening(task, 2)).await;
    for expected in [1, 3, 4_000] {
        let outcome = store.commit(commit([more(task, expected, 1)])).await;
        assert_eq!(conflict(outcome), Conflict::Seq(task, Seq(2)));
    }
    put(&store, more(task, 2, 5)).await;
    assert_eq!(conflict(store.commit(commit([more(task, 2, 5)])).await), Conflict::Seq(task, Seq(7)));
    has(&store, task, 7).await;
}

pub(super) async fn appending_to_a_task_that_is_not_there_meets_length_zero(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    assert_eq!(conflict(store.commit(commit([more(task, 1, 1)])).await), Conflict::Seq(task, Seq::ZERO));
    assert_eq!(store.head(task).await.unwrap(), None);
}

pub(super) async fn a_task_opens_only_once(factory: &dyn Factory) {
    let store = factory.open().await;
    // One still runs, one has settled: a store may remember the former and not the latter.
    for state in [State::Working, State::Completed] {
        let task = id();
        put(&store, opening(task, 2).is(state, at(1))).await;
        assert_eq!(conflict(store.commit(commit([opening(task, 3)])).await), Conflict::Seq(task, Seq(2)));
        has(&store, task, 2).await;
        assert_eq!(store.head(task).await.unwrap().unwrap().row.state, state);
    }
}

pub(super) async fn of_many_who_open_one_task_one_wins(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    let outcomes = join_all((0..100).map(|_| store.commit(commit([opening(task, 1)])))).await;
    assert_eq!(outcomes.iter().filter(|o| **o == Outcome::Done).count(), 1);
    assert_eq!(outcomes.iter().filter(|o| **o == Outcome::Conflict(Conflict::Seq(task, Seq(1)))).count(), 99);
    has(&store, task, 1).await;
}

pub(super) async fn of_many_who_append_at_one_place_one_wins(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    let outcomes = join_all((0..100).map(|_| store.commit(commit([more(task, 1, 2)])))).await;
    assert_eq!(outcomes.iter().filter(|o| **o == Outcome::Done).count(), 1);
    has(&store, task, 3).await;
}

pub(super) async fn a_commit_over_several_tasks_happens_as_a_whole(factory: &dyn Factory) {
    let store = factory.open().await;
    let (old, new) = (open(&store, |a| a).await, id());
    done(&store, commit([more(old, 1, 1).is(State::Canceled, at(9)), opening(new, 2)])).await;
    has(&store, old, 2).await;
    has(&store, new, 2).await;
    assert_eq!(store.head(old).await.unwrap().unwrap().row.state, State::Canceled);
}

pub(super) async fn a_commit_with_one_conflict_leaves_no_trace(factory: &dyn Factory) {
    let store = factory.open().await;
    let (first, last, new) = (open(&store, |a| a).await, open(&store, |a| a).await, id());
    let before = store.health().await.unwrap();
    // Whether the conflict stands first or last.
    for appends in [
        vec![more(first, 1, 1).is(State::Failed, at(5)), opening(new, 1), more(last, 7, 1)],
        vec![more(last, 7, 1), opening(new, 1), more(first, 1, 1).is(State::Failed, at(5))],
    ] {
        assert_eq!(conflict(store.commit(commit(appends)).await), Conflict::Seq(last, Seq(1)));
        assert_eq!(store.head(new).await.unwrap(), None);
        assert_eq!(store.head(first).await.unwrap().unwrap().row.state, State::Working);
        has(&store, first, 1).await;
        has(&store, last, 1).await;
    }
    let after = store.health().await.unwrap();
    assert_eq!((before.tasks, before.events_rows, before.states), (after.tasks, after.events_rows, after.states));
}

pub(super) async fn a_commit_may_append_twice_to_one_task(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    done(&store, commit([opening(task, 1), more(task, 1, 2), more(task, 3, 1).is(State::Completed, at(3))])).await;
    has(&store, task, 4).await;
    let outcome = store.commit(commit([more(task, 4, 1), more(task, 4, 1)])).await;
    assert_eq!(conflict(outcome), Conflict::Seq(task, Seq(5)));
    has(&store, task, 4).await;
}

pub(super) async fn a_refused_commit_does_not_harm_its_group(factory: &dyn Factory) {
    let store = factory.open().await;
    let taken = open(&store, |a| a).await;
    let tasks: Vec<_> = (0..300).map(|_| id()).collect();
    // Every third touches a good task too, and must not.
    let outcomes = join_all(tasks.iter().enumerate().map(|(i, task)| {
        let good = opening(*task, 2);
        store.commit(if i % 3 == 0 { commit([good, opening(taken, 1)]) } else { commit([good]) })
    }))
    .await;
    for (i, (task, outcome)) in tasks.iter().zip(outcomes).enumerate() {
        if i % 3 == 0 {
            assert_eq!(outcome, Outcome::Conflict(Conflict::Seq(taken, Seq(1))));
            assert_eq!(store.head(*task).await.unwrap(), None);
        } else {
            assert_eq!(outcome, Outcome::Done);
            has(&store, *task, 2).await;
        }
    }
}

pub(super) async fn a_commit_whose_future_is_dropped_happens_all_the_same(factory: &dyn Factory) {
    let store = factory.open().await;
    let tasks: Vec<_> = (0..50).map(|_| id()).collect();
    for task in &tasks {
        drop(store.commit(commit([opening(*task, 1)])));
    }
    // Commits of one caller are taken in the order they were asked for, so this one comes after all of them.
    open(&store, |a| a).await;
    for task in tasks {
        has(&store, task, 1).await;
    }
}

pub(super) async fn thousands_of_commits_at_once_all_happen(factory: &dyn Factory) {
    let store = factory.open().await;
    let tasks: Vec<_> = (0..4_000).map(|_| id()).collect();
    let outcomes = join_all(tasks.iter().map(|task| store.commit(commit([opening(*task, 1)])))).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Done));
    let logs = store.logs(tasks.clone()).await.unwrap();
    for (task, log) in tasks.iter().zip(logs) {
        assert_eq!(log, events(*task, 1, 1));
    }
}

pub(super) async fn commits_pushed_in_order_see_each_other(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    let opened = store.commit(commit([opening(task, 1)]));
    let chunks: Vec<_> = (1..100).map(|n| store.commit(commit([more(task, n, 1)]))).collect();
    assert_eq!(opened.await, Outcome::Done);
    assert!(join_all(chunks).await.into_iter().all(|outcome| outcome == Outcome::Done));
    has(&store, task, 100).await;
}

pub(super) async fn a_malformed_commit_is_refused_and_changes_nothing(factory: &dyn Factory) {
    let store = factory.open().await;
    let (old, new) = (open(&store, |a| a).await, id());
    let no_opening = more(new, 0, 1);
    let no_row = {
        let mut append = opening(new, 1);
        append.row = None;
        append
    };
    let no_events = {
        let mut append = more(old, 1, 1);
        append.count = 0;
        append
    };
    let opening_late = {
        let mut append = opening(old, 1);
        append.expected = Seq(1);
        append
    };
    for bad in [no_opening, no_row, no_events, opening_late] {
        let trouble = refused(store.commit(commit([opening(id(), 1), bad])).await);
        assert!(matches!(trouble, StoreError::Broken(_)), "{trouble:?}");
    }
    assert_eq!(store.health().await.unwrap().tasks, 1);
    assert_eq!(length(&store, old).await, 1);
}

pub(super) async fn an_empty_commit_is_done(factory: &dyn Factory) {
    let store = factory.open().await;
    done(&store, Commit::default()).await;
    assert_eq!(store.health().await.unwrap().tasks, 0);
}

pub(super) async fn a_read_sees_every_commit_answered_before_it(factory: &dyn Factory) {
    let store = factory.open().await;
    let writers = (0..8).map(|_| {
        let store = store.clone();
        tokio::spawn(async move {
            let task = open(&store, |a| a).await;
            for n in 1..40 {
                put(&store, more(task, n, 1)).await;
                assert_eq!(length(&store, task).await, n + 1);
                assert_eq!(store.events(task, Seq(n), 1).await.unwrap(), events(task, n + 1, n + 1));
            }
        })
    });
    for writer in join_all(writers).await {
        writer.unwrap();
    }
}

pub(super) async fn a_closed_store_refuses_and_says_so(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    store.close().await;
    assert_eq!(refused(store.commit(commit([more(task, 1, 1)])).await), StoreError::Closed);
    assert_eq!(store.head(task).await, Err(StoreError::Closed));
    assert_eq!(store.remove(task).await, Err(StoreError::Closed));
    store.close().await;
}
