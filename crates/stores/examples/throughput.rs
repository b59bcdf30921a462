//! Commits per second of a durable store, on this machine: SQLite in a folder given as the first argument (default: a
//! temporary one), PostgreSQL at a url given there, or `postgres` for a private one of this run, with fsync:
//! `cargo run --release -p rialto-stores --example throughput`.
//!
//! Settings: `RIALTO_CLIENTS` (64), `RIALTO_TASKS` (100000), `RIALTO_DURABILITY` (full or relaxed).
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::ports::store::{
    Append, Commit, IndexRow, ListQuery, Opening, Outcome, Store, Timer, TimerChange, TimerKind,
};
use model::{Body, ContextId, Event, Opened, Seq, State, StatusChange, TaskId, Time, TurnId, View, stored};
use stores::sqlite::SqliteDurability;
use stores::{postgres, sqlite};
use uuid::Uuid;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn now() -> Time {
    Time(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64)
}

/// Some text in the log; stands in for messages and artifacts.
fn text(text: &str) -> Body {
    Body::Bound { remote: text.into() }
}

fn status(state: State) -> Body {
    Body::Status(StatusChange { state, message: None, metadata: None })
}

/// The events of an echo task, as two batches: up to the turn's start, and the rest.
fn echo() -> (Vec<Body>, Vec<Body>) {
    let opened = Opened {
        id: TaskId(Uuid::now_v7()),
        context: ContextId::from(Uuid::now_v7().to_string().as_str()),
        agent: "echo".into(),
        tenant: "default".into(),
        owner: "anonymous".into(),
        parties: Vec::new(),
        views: vec![View::tenant("default", "echo")],
        dialect: "a2a_v1".into(),
        alias: None,
        follows: None,
        undecided: false,
    };
    let begin = vec![
        Body::Opened(Box::new(opened)),
        text(&"m".repeat(150)),
        Body::TurnStarted { turn: TurnId(Uuid::now_v7()), attempt: 1, hold: None },
    ];
    (begin, vec![status(State::Working), text(&"a".repeat(170)), status(State::Completed)])
}

fn payload(bodies: Vec<Body>) -> (u32, Bytes) {
    let events: Vec<Event> =
        bodies.into_iter().enumerate().map(|(i, body)| Event { seq: Seq(1).plus(i), at: now(), body }).collect();
    (events.len() as u32, stored::encode(&events).into())
}

fn row(state: State, running: bool) -> IndexRow {
    IndexRow { state, status_at: now(), listed: true, running, settled: state.is_terminal() }
}

fn opening() -> Opening {
    Opening {
        context: ContextId(Uuid::now_v7().to_string().into()),
        fresh_context: true,
        tenant: "default".into(),
        agent: "echo".into(),
        views: vec![View::tenant("default", "echo")],
    }
}

fn one(append: Append) -> Commit {
    Commit { appends: vec![append], ..Commit::default() }
}

fn fast(task: TaskId, (count, payload): &(u32, Bytes)) -> Commit {
    one(Append {
        task,
        expected: Seq::ZERO,
        epoch: None,
        count: *count,
        payload: payload.clone(),
        open: Some(opening()),
        row: Some(row(State::Completed, false)),
    })
}

/// Runs `per_client` rounds of `work` on each of `clients` at once; answers seconds and the rounds' times, sorted.
async fn load<F, W>(clients: usize, per_client: usize, work: W) -> (f64, Vec<Duration>)
where
    W: Fn(usize, usize) -> F + Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let work = Arc::new(work);
    let begin = Instant::now();
    let running: Vec<_> = (0..clients)
        .map(|client| {
            let work = work.clone();
            tokio::spawn(async move {
                let mut times = Vec::with_capacity(per_client);
                for round in 0..per_client {
                    let start = Instant::now();
                    work(client, round).await;
                    times.push(start.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for client in running {
        times.extend(client.await.unwrap());
    }
    times.sort();
    (begin.elapsed().as_secs_f64(), times)
}

fn report(what: &str, n: usize, (seconds, times): (f64, Vec<Duration>)) {
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    println!(
        "{what:<46} {:>9.0} /s {:>9.1} us each   p50 {:>8.0} us  p99 {:>8.0} us",
        n as f64 / seconds,
        seconds * 1e6 / n as f64,
        at(0.5),
        at(0.99)
    );
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let place = std::env::args().nth(1);
    let private = (place.as_deref() == Some("postgres"))
        .then(|| cluster::Cluster::start(cluster::Options::default().fsync(true).set("max_wal_size", "4GB")));
    let url = match &private {
        Some(cluster) => Some(cluster.database().url()),
        None => place.clone().filter(|place| place.starts_with("postgres")),
    };
    let relaxed = std::env::var("RIALTO_DURABILITY").is_ok_and(|d| d == "relaxed");
    let durability = if relaxed { SqliteDurability::Relaxed } else { SqliteDurability::Full };
    let temporary = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let store: Arc<dyn Store> = match url {
        Some(url) => {
            let options = postgres::Options { durability, ..postgres::Options::new(url) };
            Arc::new(postgres::PostgresStore::open(options).await.unwrap())
        }
        None => {
            let folder = place.map_or_else(|| temporary.path().to_owned(), Into::into);
            let options = sqlite::Options { durability, ..sqlite::Options::new(folder) };
            Arc::new(sqlite::SqliteStore::open(options).unwrap())
        }
    };
    let known = store.health().await.unwrap();
    println!("opened in {:?} with {} tasks and {} MiB of wal", start.elapsed(), known.tasks, known.wal_bytes >> 20);
    let clients = setting("RIALTO_CLIENTS", 64);
    let tasks = setting("RIALTO_TASKS", 100_000);

    let (begin, end) = echo();
    let whole = payload(begin.iter().chain(&end).cloned().collect());
    let halves = Arc::new((payload(begin), payload(end)));
    println!("payload of a fast task: {} bytes", whole.1.len());

    // A thousand tasks, a page; then many, and a page again.
    let whole = Arc::new(whole);
    let open = |n: usize| {
        let (store, whole) = (store.clone(), whole.clone());
        load(clients, n / clients, move |_, _| {
            let done = store.commit(fast(TaskId(Uuid::now_v7()), &whole));
            async move { assert_eq!(done.await, Outcome::Done) }
        })
    };
    open(1_024).await;
    let pages = |state: Option<State>| {
        let store = store.clone();
        load(1, 2_000, move |_, _| {
            let store = store.clone();
            async move {
                let query = ListQuery {
                    views: vec![View::tenant("default", "echo")],
                    context: None,
                    state,
                    since: None,
                    after: None,
                    limit: 50,
                    count: true,
                };
                assert_eq!(store.list(query).await.unwrap().tasks.len(), 50);
            }
        })
    };
    report("list page of 50, total, 1k tasks", 2_000, pages(None).await);
    report("list page of 50, total, by state, 1k tasks", 2_000, pages(Some(State::Completed)).await);
    report(&format!("fast-path tasks, {clients} at once"), tasks / clients * clients, open(tasks).await);
    report(&format!("list page of 50, total, {}k tasks", tasks / 1000), 2_000, pages(None).await);
    report("list page of 50, total, by state, same", 2_000, pages(Some(State::Completed)).await);

    // Tasks in two commits, with a timer in between.
    let n = tasks / 4 / clients;
    let two = {
        let store = store.clone();
        move |_, _| {
            let (store, halves) = (store.clone(), halves.clone());
            async move {
                let task = TaskId(Uuid::now_v7());
                let ((count, payload), (end_count, end_payload)) = (&halves.0, &halves.1);
                let mut first = one(Append {
                    task,
                    expected: Seq::ZERO,
                    epoch: Some(store.epoch()),
                    count: *count,
                    payload: payload.clone(),
                    open: Some(opening()),
                    row: Some(row(State::Submitted, true)),
                });
                let due = now().plus_ms(3_600_000);
                first.timers.push(TimerChange::Set(Timer { task, kind: TimerKind::TurnTimeout, due }));
                assert_eq!(store.commit(first).await, Outcome::Done);
                let mut second = one(Append {
                    task,
                    expected: Seq(u64::from(*count)),
                    epoch: Some(store.epoch()),
                    count: *end_count,
                    payload: end_payload.clone(),
                    open: None,
                    row: Some(row(State::Completed, false)),
                });
                second.timers.push(TimerChange::Clear(task, TimerKind::TurnTimeout));
                assert_eq!(store.commit(second).await, Outcome::Done);
            }
        }
    };
    report(&format!("tasks in two commits, {clients} at once"), n * clients, load(clients, n, two).await);

    // Chunk streams, interleaved.
    let streams = 200;
    let (count, bytes) = payload(vec![text(&"c".repeat(130))]);
    let ids: Arc<Vec<TaskId>> = Arc::new((0..streams).map(|_| TaskId(Uuid::now_v7())).collect());
    for id in ids.iter() {
        let mut open = fast(*id, &whole);
        open.appends[0].epoch = Some(store.epoch());
        open.appends[0].row = Some(row(State::Working, true));
        assert_eq!(store.commit(open).await, Outcome::Done);
    }
    let base = u64::from(whole.0);
    let stream = {
        let (store, ids) = (store.clone(), ids.clone());
        move |client: usize, round: usize| {
            let done = store.commit(one(Append {
                task: ids[client],
                expected: Seq(base + (round as u64) * u64::from(count)),
                epoch: Some(store.epoch()),
                count,
                payload: bytes.clone(),
                open: None,
                row: None,
            }));
            async move { assert_eq!(done.await, Outcome::Done) }
        }
    };
    let before = store.health().await.unwrap();
    report("chunks, 200 streams interleaved", streams * 250, load(streams, 250, stream).await);
    println!(
        "wal after: {} MiB (before {} MiB)",
        store.health().await.unwrap().wal_bytes >> 20,
        before.wal_bytes >> 20
    );

    // Point reads over tasks spread over the whole list.
    let mut known = Vec::new();
    let mut after = None;
    while known.len() < tasks.min(20_000) {
        let query = ListQuery {
            views: vec![View::tenant("default", "echo")],
            context: None,
            state: Some(State::Completed),
            since: None,
            after,
            limit: 1_000,
            count: false,
        };
        let page = store.list(query).await.unwrap();
        after = page.tasks.last().map(|(_, cursor)| *cursor);
        known.extend(page.tasks.into_iter().map(|(id, _)| id));
        if !page.more {
            break;
        }
    }
    let known = Arc::new(known);
    for (what, kind) in [("head", 0), ("events of a small task", 1), ("logs of 50 tasks", 2)] {
        let rounds = if kind == 2 { 2_000 } else { setting("RIALTO_READS", 40_000) };
        let (store, known) = (store.clone(), known.clone());
        let reads = load(1, rounds, move |_, round| {
            let (store, known) = (store.clone(), known.clone());
            async move {
                // A large odd step visits the ids in no order of time.
                let at = |i: usize| known[(round + i).wrapping_mul(7_919) % known.len()];
                match kind {
                    0 => assert!(store.head(at(0)).await.unwrap().is_some()),
                    1 => assert!(!store.events(at(0), Seq::ZERO, 1 << 18).await.unwrap().is_empty()),
                    _ => assert_eq!(store.logs((0..50).map(at).collect()).await.unwrap().len(), 50),
                }
            }
        });
        report(&format!("read: {what}"), rounds, reads.await);
    }
    let health = store.health().await.unwrap();
    println!("file {} MiB, wal {} MiB, tasks {}", health.file_bytes >> 20, health.wal_bytes >> 20, health.tasks);
    let start = Instant::now();
    store.close().await;
    println!("closed in {:?}", start.elapsed());
}
