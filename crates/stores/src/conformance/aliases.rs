//! Aliases: names callers chose, each for the newest task under it; opening and succeeding are compare-and-set.

use futures_util::future::join_all;
use model::TaskId;
use model::ports::store::{AliasWrite, Commit, Conflict, Guard, Outcome};

use super::Factory;
use super::kit::{commit, conflict, done, id, opening};

const KEY: [u8; 32] = [3; 32];

/// Opens a task under the alias, which must name `was`.
fn named(task: TaskId, was: Option<TaskId>) -> Commit {
    Commit {
        guards: vec![Guard::AliasIs { key: KEY, task: was }],
        aliases: vec![AliasWrite { key: KEY, task }],
        ..commit([opening(task, 1)])
    }
}

pub(super) async fn an_alias_names_the_task_it_was_given(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    assert_eq!(store.alias(KEY).await.unwrap(), None);
    done(&store, named(task, None)).await;
    assert_eq!(store.alias(KEY).await.unwrap(), Some(task));
    assert_eq!(store.alias([4; 32]).await.unwrap(), None);
}

pub(super) async fn an_alias_in_use_refuses_the_commit_and_tells_the_task(factory: &dyn Factory) {
    let store = factory.open().await;
    let (first, second) = (id(), id());
    done(&store, named(first, None)).await;
    assert_eq!(conflict(store.commit(named(second, None)).await), Conflict::Alias(Some(first)));
    assert_eq!(store.head(second).await.unwrap(), None);
    assert_eq!(store.alias(KEY).await.unwrap(), Some(first));
}

pub(super) async fn a_successor_takes_the_alias_from_the_one_it_knows(factory: &dyn Factory) {
    let store = factory.open().await;
    let (first, second, third) = (id(), id(), id());
    done(&store, named(first, None)).await;
    done(&store, named(second, Some(first))).await;
    assert_eq!(conflict(store.commit(named(third, Some(first))).await), Conflict::Alias(Some(second)));
    assert_eq!(store.alias(KEY).await.unwrap(), Some(second));
}

pub(super) async fn of_many_who_take_one_alias_one_wins(factory: &dyn Factory) {
    let store = factory.open().await;
    let tasks: Vec<_> = (0..50).map(|_| id()).collect();
    let outcomes = join_all(tasks.iter().map(|task| store.commit(named(*task, None)))).await;
    let winners: Vec<_> = tasks.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == Outcome::Done).collect();
    let [(winner, _)] = winners[..] else { panic!("{} commits won", winners.len()) };
    assert_eq!(store.alias(KEY).await.unwrap(), Some(*winner));
    assert_eq!(store.health().await.unwrap().tasks, 1);
}

pub(super) async fn an_alias_of_a_removed_task_is_free(factory: &dyn Factory) {
    let store = factory.open().await;
    let (first, second) = (id(), id());
    done(&store, named(first, None)).await;
    assert_eq!(store.health().await.unwrap().aliases, 1);
    assert!(store.remove(first).await.unwrap());
    assert_eq!(store.alias(KEY).await.unwrap(), None);
    assert_eq!(store.health().await.unwrap().aliases, 0);
    done(&store, named(second, None)).await;
    assert_eq!(store.alias(KEY).await.unwrap(), Some(second));
}

pub(super) async fn a_refused_commit_names_nothing(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    done(&store, commit([opening(task, 1)])).await;
    // The task is there already: the append conflicts, and the alias must not move.
    assert!(matches!(store.commit(named(task, None)).await, Outcome::Conflict(Conflict::Seq(..))));
    assert_eq!(store.alias(KEY).await.unwrap(), None);
}

pub(super) async fn after_reopening_an_alias_is_there(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    done(&store, named(task, None)).await;
    let Some(store) = factory.reopen(store).await else { return };
    assert_eq!(store.alias(KEY).await.unwrap(), Some(task));
}
