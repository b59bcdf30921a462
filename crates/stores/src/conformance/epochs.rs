//! One turn writer per task: a later holder shuts an earlier one out.

use model::ports::store::{Conflict, IndexRow};
use model::{Epoch, Seq, State};

use super::Factory;
use super::kit::{Say, at, commit, conflict, has, id, more, open, opening, put, row};

pub(super) async fn a_holder_keeps_its_hold(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.epoch(5)).await;
    for n in 1..5 {
        put(&store, more(task, n, 1).epoch(5)).await;
    }
    assert_eq!(store.head(task).await.unwrap().unwrap().epoch, Epoch(5));
    has(&store, task, 5).await;
}

pub(super) async fn a_lower_epoch_is_refused_with_the_higher_one(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.epoch(5)).await;
    // Even at the wrong place: a holder that has lost the turn must learn that, not try again.
    for expected in [1, 7] {
        let outcome = store.commit(commit([more(task, expected, 1).epoch(4)])).await;
        assert_eq!(conflict(outcome), Conflict::Epoch(task, Epoch(5)));
    }
    has(&store, task, 1).await;
}

pub(super) async fn outside_events_pass_without_an_epoch_and_leave_the_hold(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.epoch(5)).await;
    put(&store, more(task, 1, 1)).await;
    assert_eq!(store.head(task).await.unwrap().unwrap().epoch, Epoch(5));
    put(&store, more(task, 2, 1).epoch(5)).await;
    has(&store, task, 3).await;
}

pub(super) async fn a_higher_epoch_takes_over_and_the_old_holder_is_refused(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.epoch(1)).await;
    put(&store, more(task, 1, 1).epoch(3)).await;
    let outcome = store.commit(commit([more(task, 2, 1).epoch(1)])).await;
    assert_eq!(conflict(outcome), Conflict::Epoch(task, Epoch(3)));
    assert_eq!(store.unfinished(None, 10).await.unwrap(), [(task, Epoch(3))]);
    put(&store, more(task, 2, 1).epoch(3).is(State::Completed, at(1))).await;
    has(&store, task, 3).await;
}

pub(super) async fn a_refused_append_does_not_take_the_hold(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.epoch(1)).await;
    let outcome = store.commit(commit([more(task, 9, 1).epoch(8)])).await;
    assert_eq!(conflict(outcome), Conflict::Seq(task, Seq(1)));
    put(&store, more(task, 1, 1).epoch(1)).await;
}

pub(super) async fn unfinished_tasks_come_in_order_page_by_page(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut running: Vec<_> = (0..25).map(|_| id()).collect();
    for (n, task) in running.iter().enumerate().rev() {
        put(&store, opening(*task, 1).epoch(n as u64)).await;
    }
    running.sort();
    let mut found = Vec::new();
    loop {
        let page = store.unfinished(found.last().copied(), 10).await.unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 10);
        found.extend(page.into_iter().map(|(task, _)| task));
    }
    assert_eq!(found, running);
}

pub(super) async fn a_task_whose_turn_has_ended_is_not_unfinished(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.epoch(2)).await;
    open(&store, |a| a.is(State::Completed, at(0))).await;
    assert_eq!(store.unfinished(None, 10).await.unwrap(), [(task, Epoch(2))]);
    // It asks for input, then goes on, then ends.
    let asks = IndexRow { running: false, ..row(State::InputRequired, at(1)) };
    put(&store, more(task, 1, 1).epoch(2).row(asks)).await;
    assert_eq!(store.unfinished(None, 10).await.unwrap(), []);
    put(&store, more(task, 2, 1).epoch(3).is(State::Working, at(2))).await;
    assert_eq!(store.unfinished(None, 10).await.unwrap(), [(task, Epoch(3))]);
    put(&store, more(task, 3, 1).epoch(3).is(State::Completed, at(3))).await;
    assert_eq!(store.unfinished(None, 10).await.unwrap(), []);
}
