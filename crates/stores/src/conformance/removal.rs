//! Taking tasks out: one by name, or all that are old.

use model::ports::store::{Commit, IndexRow, Timer, TimerChange, TimerKind};
use model::{Seq, State, TaskId};

use super::Factory;
use super::kit::{Say, at, commit, done, has, id, open, opening, page, put, query, row, total, walk};

pub(super) async fn a_removed_task_is_gone_from_everywhere(factory: &dyn Factory) {
    let store = factory.open().await;
    let (task, other) = (id(), open(&store, |a| a).await);
    let timers = vec![TimerChange::Set(Timer { task, kind: TimerKind::TurnTimeout, due: at(1) })];
    done(&store, Commit { timers, ..commit([opening(task, 3).seen_by(&["v", "w"])]) }).await;
    assert!(store.remove(task).await.unwrap());
    assert_eq!(store.head(task).await.unwrap(), None);
    assert_eq!(store.events(task, Seq::ZERO, usize::MAX).await.unwrap(), []);
    assert_eq!(walk(&store, &query(10)).await, [other]);
    assert_eq!(store.next_due().await.unwrap(), None);
    assert_eq!(store.unfinished(None, 10).await.unwrap().len(), 1);
    let health = store.health().await.unwrap();
    assert_eq!((health.tasks, health.running, health.events_rows, health.timers), (1, 1, 1, 0));
}

pub(super) async fn removing_what_is_not_there_says_so(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    assert!(!store.remove(id()).await.unwrap());
    assert!(store.remove(task).await.unwrap());
    assert!(!store.remove(task).await.unwrap());
}

pub(super) async fn removing_steps_the_counts_down(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut tasks = Vec::new();
    for n in 0..40 {
        let state = if n % 2 == 0 { State::Working } else { State::Completed };
        tasks.push(open(&store, |a| a.within("c").is(state, at(n))).await);
    }
    let (all, mut working, mut context) = (query(5), query(5), query(5));
    working.state = Some(State::Working);
    context.context = Some("c".into());
    for (n, task) in tasks.iter().enumerate() {
        let left = (tasks.len() - n) as u64;
        assert_eq!(total(&store, &all).await, left);
        assert_eq!(total(&store, &context).await, left);
        assert_eq!(total(&store, &working).await, left.div_euclid(2));
        assert!(store.remove(*task).await.unwrap());
    }
    assert_eq!(page(&store, &context).await.total, Some(0));
}

pub(super) async fn purging_takes_settled_tasks_older_than_the_given_time(factory: &dyn Factory) {
    let store = factory.open().await;
    let old = open(&store, |a| a.is(State::Completed, at(10))).await;
    let failed = open(&store, |a| a.is(State::Failed, at(20))).await;
    let just_in_time = open(&store, |a| a.is(State::Completed, at(30))).await;
    let asks = open(&store, |a| a.is(State::InputRequired, at(5))).await;
    // A direct reply is in no list, is settled, and goes too.
    let reply = IndexRow { listed: false, running: false, settled: true, ..row(State::Submitted, at(7)) };
    let replied = open(&store, |a| a.row(reply)).await;
    assert_eq!(store.purge(at(30), at(0), 100).await.unwrap(), 3);
    for gone in [old, failed, replied] {
        assert_eq!(store.head(gone).await.unwrap(), None);
    }
    for kept in [just_in_time, asks] {
        has(&store, kept, 1).await;
    }
    assert_eq!(store.purge(at(30), at(0), 100).await.unwrap(), 0);
}

pub(super) async fn purging_goes_on_where_its_limit_stopped_it(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut tasks: Vec<TaskId> = Vec::new();
    for n in 0..25 {
        tasks.push(open(&store, |a| a.is(State::Completed, at(n))).await);
    }
    for expected in [10, 10, 5, 0] {
        assert_eq!(store.purge(at(1_000), at(0), 10).await.unwrap(), expected);
    }
    assert_eq!(store.health().await.unwrap().tasks, 0);
}

pub(super) async fn purging_steps_the_counts_down(factory: &dyn Factory) {
    let store = factory.open().await;
    for n in 0..60 {
        open(&store, |a| a.within("c").seen_by(&["v", "w"]).is(State::Completed, at(n))).await;
    }
    assert_eq!(store.purge(at(33), at(0), 1_000).await.unwrap(), 33);
    let mut list = query(100);
    for context in [None, Some("c".into())] {
        for state in [None, Some(State::Completed)] {
            (list.context, list.state) = (context.clone(), state);
            assert_eq!(total(&store, &list).await, 27);
            assert_eq!(walk(&store, &list).await.len(), 27);
        }
    }
    let health = store.health().await.unwrap();
    assert_eq!((health.tasks, health.events_rows), (27, 27));
    assert_eq!(health.states, [(State::Completed, 27)]);
}

pub(super) async fn a_removed_task_may_open_again(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.epoch(9)).await;
    assert!(store.remove(task).await.unwrap());
    put(&store, opening(task, 2)).await;
    has(&store, task, 2).await;
    assert_eq!(store.head(task).await.unwrap().unwrap().epoch.0, 0);
}
