//! A log gives back what was appended, from any place on, with no hole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use model::ports::store::{IndexRow, Outcome, VisibleTasks};
use model::{Body, Event, Seq, State, stored};

use super::Factory;
use super::kit::{Say, at, commit, done, events, has, id, more, open, opening, payload, put, row, view};

pub(super) async fn events_come_back_as_they_were_appended(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    put(&store, opening(task, 3)).await;
    put(&store, more(task, 3, 1)).await;
    put(&store, more(task, 4, 4)).await;
    assert_eq!(store.events(task, Seq::ZERO, usize::MAX).await.unwrap(), events(task, 1, 8));
}

pub(super) async fn events_after_a_cursor_are_those_after_it(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    for n in 1..10 {
        put(&store, more(task, n, 1)).await;
    }
    // Another task's log lies right behind.
    open(&store, |a| a).await;
    for after in 0..10 {
        let found = store.events(task, Seq(after), usize::MAX).await.unwrap();
        assert_eq!(found, events(task, after + 1, 10));
    }
    for after in [10, 11, 1 << 20, 1 << 40, u64::MAX] {
        assert_eq!(store.events(task, Seq(after), usize::MAX).await.unwrap(), []);
    }
}

pub(super) async fn a_cursor_may_stand_within_a_batch(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    put(&store, opening(task, 10)).await;
    put(&store, more(task, 10, 10)).await;
    for after in 0..20 {
        let found = store.events(task, Seq(after), usize::MAX).await.unwrap();
        assert_eq!(found, events(task, after + 1, 20));
    }
}

pub(super) async fn a_beginning_is_read_only_by_those_who_see_the_task(factory: &dyn Factory) {
    let store = factory.open().await;
    let hidden = IndexRow { listed: false, ..row(State::Working, at(1)) };
    let (one, two, none, exchange) = (id(), id(), id(), id());
    put(&store, opening(one, 3).seen_by(&["v"])).await;
    put(&store, more(one, 3, 2)).await;
    put(&store, opening(two, 1).seen_by(&["v", "w", "x"])).await;
    put(&store, opening(none, 1).seen_by(&[])).await;
    put(&store, opening(exchange, 1).seen_by(&["v"]).row(hidden)).await;
    for (task, views, unlisted, expected) in [
        (one, &["v"][..], false, 5),
        (one, &["v"], true, 5),
        (one, &["w", "v"], false, 5),
        (one, &["w"], false, 0),
        (one, &["never used"], true, 0),
        (one, &[], true, 0),
        (two, &["v"], false, 1),
        (two, &["x"], false, 1),
        (two, &["u", "w"], false, 1),
        (two, &["u"], false, 0),
        (none, &["v", "w", "x"], true, 0),
        (exchange, &["v"], false, 0),
        (exchange, &["v"], true, 1),
        (exchange, &["w"], true, 0),
        (id(), &["v"], true, 0),
    ] {
        let sight = VisibleTasks { views: views.iter().map(|name| view(name)).collect(), unlisted };
        let found = store.beginning(task, sight, usize::MAX).await.unwrap();
        assert_eq!(found, events(task, 1, expected), "{views:?} {unlisted}");
    }
    // It becomes a task that lists show, and is one from then on.
    put(&store, more(exchange, 1, 1).is(State::Working, at(2))).await;
    let sight = || VisibleTasks { views: vec![view("v")], unlisted: false };
    assert_eq!(store.beginning(exchange, sight(), usize::MAX).await.unwrap(), events(exchange, 1, 2));
    assert!(store.remove(exchange).await.unwrap());
    assert_eq!(store.beginning(exchange, sight(), usize::MAX).await.unwrap(), []);
}

pub(super) async fn a_beginning_is_whole_rows_until_its_bytes_are_passed(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    put(&store, opening(task, 1)).await;
    // More rows than any store reads in one go.
    for n in 1..600 {
        put(&store, more(task, n, 1)).await;
    }
    let sight = || VisibleTasks { views: vec![view("v")], unlisted: false };
    for bytes in [0, 1, payload(task, 1, 2).len(), 5_000, usize::MAX] {
        let expected = store.events(task, Seq::ZERO, bytes).await.unwrap();
        assert_eq!(store.beginning(task, sight(), bytes).await.unwrap(), expected, "{bytes}");
    }
    assert_eq!(store.beginning(task, sight(), usize::MAX).await.unwrap().len(), 600);
}

pub(super) async fn a_page_of_events_is_whole_rows_until_its_bytes_are_passed(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    put(&store, opening(task, 2)).await;
    for n in 0..20 {
        put(&store, more(task, 2 + n * 2, 2)).await;
    }
    let size = payload(task, 11, 12).len();
    // At least a row, whatever is asked.
    assert_eq!(store.events(task, Seq(10), 0).await.unwrap(), events(task, 11, 12));
    assert_eq!(store.events(task, Seq(10), 1).await.unwrap(), events(task, 11, 12));
    assert_eq!(store.events(task, Seq(10), size).await.unwrap(), events(task, 11, 12));
    assert_eq!(store.events(task, Seq(10), size + 1).await.unwrap(), events(task, 11, 14));
    assert_eq!(store.events(task, Seq(11), 1).await.unwrap(), events(task, 12, 12));
    // Page after page, everything once.
    let mut found: Vec<Event> = Vec::new();
    loop {
        let after = found.last().map_or(Seq::ZERO, |event| event.seq);
        let page = store.events(task, after, 3 * size).await.unwrap();
        if page.is_empty() {
            break;
        }
        found.extend(page);
    }
    assert_eq!(found, events(task, 1, 42));
}

pub(super) async fn logs_come_in_the_order_asked(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut tasks = Vec::new();
    for n in 1..=5 {
        let task = id();
        put(&store, opening(task, n)).await;
        tasks.push((task, u64::from(n)));
    }
    tasks.reverse();
    tasks.insert(2, (id(), 0));
    tasks.push(tasks[0]);
    let logs = store.logs(tasks.iter().map(|(task, _)| *task).collect()).await.unwrap();
    let expected: Vec<_> = tasks.iter().map(|(task, n)| events(*task, 1, *n)).collect();
    assert_eq!(logs, expected);
    assert_eq!(store.logs(Vec::new()).await.unwrap(), Vec::<Vec<Event>>::new());
}

pub(super) async fn a_log_of_many_small_appends_has_no_hole(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.epoch(1)).await;
    let chunks: Vec<_> = (1..3_000).map(|n| store.commit(commit([more(task, n, 1).epoch(1)]))).collect();
    assert!(join_all(chunks).await.into_iter().all(|outcome| outcome == Outcome::Done));
    has(&store, task, 3_000).await;
}

pub(super) async fn a_large_payload_comes_back_whole(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a).await;
    for (n, size) in [(1, 900), (2, 4_000), (3, 5_000), (4, 300_000), (5, 6_000_000)] {
        let event = Event { seq: Seq(n + 1), at: at(1), body: Body::Bound { remote: "x".repeat(size) } };
        let mut append = more(task, n, 1);
        append.payload = Bytes::from(stored::encode(std::slice::from_ref(&event)));
        done(&store, commit([append])).await;
        assert_eq!(store.events(task, Seq(n), 1).await.unwrap(), [event]);
    }
}

pub(super) async fn interleaved_streams_stay_apart(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut tasks = Vec::new();
    for _ in 0..50 {
        tasks.push(open(&store, |a| a.epoch(1)).await);
    }
    for n in 1..20 {
        let round = tasks.iter().map(|task| store.commit(commit([more(*task, n, 1).epoch(1)])));
        assert!(join_all(round).await.into_iter().all(|outcome| outcome == Outcome::Done));
    }
    for task in tasks {
        has(&store, task, 20).await;
    }
}

/// Turns that begin, speak and rest, and readers that look meanwhile: what was answered before a look is in it, whole, and
/// nothing is in it twice.
pub(super) async fn readers_beside_a_running_turn_see_no_hole(factory: &dyn Factory) {
    let store = factory.open().await;
    let tasks: Vec<_> = (0..4).map(|_| id()).collect();
    let answered: Arc<Vec<AtomicU64>> = Arc::new(tasks.iter().map(|_| AtomicU64::new(0)).collect());
    let done = Arc::new(AtomicBool::new(false));
    let readers = (0..2).map(|_| {
        let (store, tasks, answered, done) = (store.clone(), tasks.clone(), answered.clone(), done.clone());
        tokio::spawn(async move {
            let mut looks = 0;
            while !done.load(Ordering::SeqCst) || looks < 10 {
                for (task, answered) in tasks.iter().zip(answered.iter()) {
                    let least = answered.load(Ordering::SeqCst);
                    let after = least.saturating_sub(7);
                    let found = store.events(*task, Seq(after), usize::MAX).await.unwrap();
                    let last = found.last().map_or(after, |event| event.seq.0);
                    assert!(last >= least, "{last} of {least}");
                    assert_eq!(found, events(*task, after + 1, last));
                    let head = store.head(*task).await.unwrap().map_or(0, |head| head.seq.0);
                    assert!(head >= last, "{head} after {last}");
                }
                let logs = store.logs(tasks.clone()).await.unwrap();
                for (task, log) in tasks.iter().zip(logs) {
                    assert_eq!(log, events(*task, 1, log.len() as u64));
                }
                looks += 1;
                tokio::task::yield_now().await;
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    let writers = tasks.iter().zip(answered.iter()).map(|(task, answered)| {
        let store = &store;
        async move {
            put(store, opening(*task, 1)).await;
            answered.store(1, Ordering::SeqCst);
            for seq in 1..400 {
                let mut step = more(*task, seq, 1);
                if seq % 23 == 0 {
                    step = step.is(State::Working, at(seq as i64));
                }
                put(store, step).await;
                answered.store(seq + 1, Ordering::SeqCst);
            }
        }
    });
    join_all(writers).await;
    done.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    for task in tasks {
        has(&store, task, 400).await;
    }
}

pub(super) async fn lengths_come_in_the_order_asked(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut tasks = Vec::new();
    for n in 1..=5 {
        let task = id();
        put(&store, opening(task, n)).await;
        tasks.push((task, Seq(u64::from(n))));
    }
    put(&store, more(tasks[0].0, 1, 7)).await;
    tasks[0].1 = Seq(8);
    tasks.reverse();
    tasks.insert(2, (id(), Seq::ZERO));
    tasks.push(tasks[0]);
    let lengths = store.lengths(tasks.iter().map(|(task, _)| *task).collect()).await.unwrap();
    assert_eq!(lengths, tasks.iter().map(|(_, length)| *length).collect::<Vec<_>>());
    assert_eq!(store.lengths(Vec::new()).await.unwrap(), []);
}
