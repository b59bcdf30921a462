//! Idempotency keys: used once, known for a while, then free again.

use futures_util::future::join_all;
use model::ports::store::{Commit, Conflict, Guard, KeyUse, Outcome};
use model::{Seq, State, TaskId, Time};

use super::Factory;
use super::kit::{Say, at, commit, conflict, done, id, open, opening};

const HOUR: i64 = 3_600_000;

fn used(key: u8, task: TaskId, when: Time) -> KeyUse {
    KeyUse { key: [key; 32], body: [key ^ 0xff; 32], task, seq: Seq(1), at: when }
}

/// Opens a task under a key that must not have been used since `not_before`.
fn keyed(task: TaskId, key: u8, when: Time, not_before: Time) -> Commit {
    Commit {
        guards: vec![Guard::KeyFree { key: [key; 32], not_before }],
        keys: vec![used(key, task, when)],
        ..commit([opening(task, 1)])
    }
}

pub(super) async fn a_free_key_lets_the_commit_pass_and_is_then_in_use(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    done(&store, keyed(task, 7, at(0), at(-HOUR))).await;
    assert_eq!(store.key([7; 32], at(-HOUR)).await.unwrap(), Some(used(7, task, at(0))));
}

pub(super) async fn a_key_in_use_refuses_the_commit_and_tells_the_use(factory: &dyn Factory) {
    let store = factory.open().await;
    let (first, second) = (id(), id());
    done(&store, keyed(first, 7, at(0), at(-HOUR))).await;
    let outcome = store.commit(keyed(second, 7, at(5), at(-HOUR))).await;
    assert_eq!(conflict(outcome), Conflict::Key(used(7, first, at(0))));
    assert_eq!(store.head(second).await.unwrap(), None);
    // Another key is another matter.
    done(&store, keyed(second, 8, at(5), at(-HOUR))).await;
}

pub(super) async fn an_expired_key_is_free(factory: &dyn Factory) {
    let store = factory.open().await;
    let (first, second) = (id(), id());
    done(&store, keyed(first, 7, at(0), at(-HOUR))).await;
    // The last moment at which it counts, and the first at which it does not.
    let outcome = store.commit(keyed(second, 7, at(9), at(0))).await;
    assert_eq!(conflict(outcome), Conflict::Key(used(7, first, at(0))));
    done(&store, keyed(second, 7, at(9), at(1))).await;
    assert_eq!(store.key([7; 32], at(1)).await.unwrap(), Some(used(7, second, at(9))));
    // The newest use is the one that counts.
    assert_eq!(store.key([7; 32], at(-HOUR)).await.unwrap(), Some(used(7, second, at(9))));
}

pub(super) async fn of_many_with_one_key_one_wins(factory: &dyn Factory) {
    let store = factory.open().await;
    let tasks: Vec<_> = (0..50).map(|_| id()).collect();
    let outcomes = join_all(tasks.iter().map(|task| store.commit(keyed(*task, 7, at(0), at(-1))))).await;
    let winners: Vec<_> = tasks.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == Outcome::Done).collect();
    let [(winner, _)] = winners[..] else { panic!("{} commits won", winners.len()) };
    for outcome in outcomes.iter().filter(|outcome| **outcome != Outcome::Done) {
        assert_eq!(conflict(outcome.clone()), Conflict::Key(used(7, *winner, at(0))));
    }
    assert_eq!(store.health().await.unwrap().tasks, 1);
}

pub(super) async fn a_key_can_be_looked_up(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    done(&store, keyed(task, 7, at(100), at(0))).await;
    assert_eq!(store.key([7; 32], at(100)).await.unwrap(), Some(used(7, task, at(100))));
    assert_eq!(store.key([7; 32], at(101)).await.unwrap(), None);
    assert_eq!(store.key([8; 32], at(0)).await.unwrap(), None);
}

pub(super) async fn a_key_is_found_across_hours(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut uses = Vec::new();
    for hour in [0, 1, 2, 5, 23, 24, 30] {
        let task = id();
        done(&store, keyed(task, hour as u8, at(hour * HOUR), at(0))).await;
        uses.push(used(hour as u8, task, at(hour * HOUR)));
    }
    for known in uses {
        let (at, not_later) = (known.at, Time(known.at.0 - 24 * HOUR));
        assert_eq!(store.key(known.key, at).await.unwrap(), Some(known));
        assert_eq!(store.key(known.key, not_later).await.unwrap(), Some(known));
        assert_eq!(store.key(known.key, Time(at.0 + 1)).await.unwrap(), None);
    }
}

pub(super) async fn old_keys_are_purged(factory: &dyn Factory) {
    let store = factory.open().await;
    let (old, new) = (id(), id());
    done(&store, keyed(old, 1, at(0), at(-1))).await;
    done(&store, keyed(new, 2, at(10 * HOUR), at(-1))).await;
    assert_eq!(store.purge(at(-HOUR), at(5 * HOUR), 10).await.unwrap(), 0);
    assert_eq!(store.key([1; 32], at(-1)).await.unwrap(), None);
    assert_eq!(store.key([2; 32], at(-1)).await.unwrap(), Some(used(2, new, at(10 * HOUR))));
    assert_eq!(store.health().await.unwrap().keys, 1);
}

pub(super) async fn a_key_of_a_removed_task_is_free(factory: &dyn Factory) {
    let store = factory.open().await;
    let (first, second) = (id(), id());
    done(&store, keyed(first, 7, at(0), at(-1))).await;
    open(&store, |a| a.is(State::Completed, at(0))).await;
    assert!(store.remove(first).await.unwrap());
    assert_eq!(store.key([7; 32], at(-1)).await.unwrap(), None);
    done(&store, keyed(second, 7, at(1), at(-1))).await;
    assert_eq!(store.key([7; 32], at(-1)).await.unwrap(), Some(used(7, second, at(1))));
}
