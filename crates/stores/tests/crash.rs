//! Kills a process that commits as fast as it can, at a random moment, again and again, and looks at what it left: all
//! that was acknowledged is there, whole, and nothing is half there.
//!
//! `RIALTO_ROUNDS` is the number of kills (default 3), `RIALTO_SEED` repeats a run as far as chance allows.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use model::ports::store::{
    Append, Commit, IndexRow, KeyUse, ListQuery, Opening, Outcome, TaskLists as _, TaskLog as _, Timer, TimerChange,
    TimerKind, Upkeep as _,
};
use model::{
    Body, ContextId, Event, PushChange, PushProgress, PushRow, PushState, Seq, State, TaskId, Time, View, stored,
};
use stores::conformance::Random;
use stores::sqlite::{Options, SqliteStore};
use uuid::Uuid;

const FOLDER: &str = "RIALTO_CRASH_FOLDER";
const STREAMS: usize = 24;

fn events(task: TaskId, first: u64, last: u64) -> Vec<Event> {
    let body = |seq| Body::Bound { remote: format!("{task}.{seq}") };
    (first..=last).map(|seq| Event { seq: Seq(seq), at: Time(seq as i64), body: body(seq) }).collect()
}

fn open(folder: &Path) -> SqliteStore {
    // A short WAL, so that a kill often meets a checkpoint.
    SqliteStore::open(Options { wal_limit_bytes: 512 << 10, ..Options::new(folder) }).unwrap()
}

fn key_of(task: TaskId) -> [u8; 32] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(task.0.as_bytes());
    key
}

/// The step from `seq` on: one event first, then three at a time; the fifth commit ends the task.
fn step(task: TaskId, seq: u64, epoch: model::Epoch) -> Commit {
    let opens = seq == 0;
    let count = if opens { 1 } else { 3 };
    let ends = seq >= 10;
    let state = if ends { State::Completed } else { State::Working };
    let row = IndexRow { state, status_at: Time(seq as i64), listed: true, running: !ends, settled: ends };
    let append = Append {
        task,
        expected: Seq(seq),
        epoch: Some(epoch),
        count,
        payload: stored::encode(&events(task, seq + 1, seq + u64::from(count))).into(),
        open: opens.then(|| Opening {
            context: ContextId::from("the one context"),
            fresh_context: false,
            tenant: "t".into(),
            agent: "a".into(),
            views: vec![View("v".into())],
        }),
        row: (opens || ends).then_some(row),
    };
    let mut commit = Commit { appends: vec![append], ..Commit::default() };
    if opens {
        commit.keys.push(KeyUse { key: key_of(task), body: [1; 32], task, seq: Seq(1), at: Time(0) });
        commit.timers.push(TimerChange::Set(Timer { task, kind: TimerKind::TurnTimeout, due: Time(7) }));
        let progress = PushProgress::from(Seq(1), Time(7));
        let spec = "sealed".into();
        commit.push.push(PushChange::Put(PushRow {
            task,
            id: "c".into(),
            edition: 1,
            epoch: model::Epoch(0),
            spec,
            made_at: Time(7),
            progress,
        }));
    }
    if ends {
        commit.timers.push(TimerChange::Clear(task, TimerKind::TurnTimeout));
        let progress = PushProgress { state: PushState::Done, ..PushProgress::from(Seq(14), Time(7)) };
        commit.push.push(PushChange::Moved { task, id: "c".into(), edition: 1, epoch: model::Epoch(0), progress });
    }
    commit
}

/// Not a test of its own: the process that is killed. Acknowledges on its standard output, a line per commit.
#[test]
fn the_process_to_be_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let store = Arc::new(open(Path::new(&folder)));
        let streams = (0..STREAMS).map(|_| async {
            loop {
                let task = TaskId(Uuid::now_v7());
                let mut seq = 0;
                while seq < 13 {
                    let commit = step(task, seq, store.epoch());
                    let last = commit.appends[0].last();
                    assert_eq!(store.commit(commit).await, Outcome::Done);
                    seq = last.0;
                    let line = format!("ack {task} {seq}\n");
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            }
        });
        futures_util::future::join_all(streams).await;
    });
}

/// Starts the process, kills it after some acknowledgements, and answers the last one of each task.
fn kill_one(folder: &Path, random: &mut Random) -> HashMap<TaskId, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_process_to_be_killed", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut told = HashMap::new();
    let mut hear = |line: String| {
        let mut words = line.split(' ');
        if let (Some("ack"), Some(task), Some(seq)) = (words.next(), words.next(), words.next()) {
            told.insert(task.parse().unwrap(), seq.parse().unwrap());
        }
    };
    for line in lines.by_ref().take(1 + random.below(600)) {
        hear(line.unwrap());
    }
    // Some moment of the group that is under way.
    std::thread::sleep(Duration::from_micros(random.below(3_000) as u64));
    child.kill().unwrap();
    child.wait().unwrap();
    // Complete lines of its output count; a line without an end does not.
    for line in lines {
        let line = line.unwrap();
        if line.len() >= 4 + 36 + 2 {
            hear(line);
        }
    }
    told
}

#[test]
fn everything_acknowledged_survives_a_kill() {
    let rounds: usize = std::env::var("RIALTO_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    let mut random = Random::from_environment();
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut epoch = model::Epoch(0);
    let (mut kept, mut acknowledged) = (0, 0);
    for round in 0..rounds {
        let told = kill_one(folder.path(), &mut random);
        acknowledged += told.len();
        let store = open(folder.path());
        assert!(store.epoch() > epoch, "round {round}");
        epoch = store.epoch();
        kept = runtime.block_on(check(&store, &told, kept));
    }
    eprintln!("{rounds} kills, {acknowledged} tasks acknowledged, {kept} kept");
    let file = rusqlite::Connection::open(folder.path().join("rialto.db")).unwrap();
    let verdict: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

/// Looks at everything the last process wrote, and answers how many tasks there are now.
async fn check(store: &SqliteStore, told: &HashMap<TaskId, u64>, before: u64) -> u64 {
    let health = store.health().await.unwrap();
    let mut query = ListQuery {
        views: vec![View("v".into())],
        context: None,
        state: None,
        since: None,
        after: None,
        limit: 100,
        count: true,
    };
    // Told or not, each task the list shows is whole: no hole, and the counts are those of the tasks.
    let mut running = 0;
    for (task, head_at_least) in told {
        let head = store.head(*task).await.unwrap().unwrap_or_else(|| panic!("{task} was acknowledged and is gone"));
        assert!(head.seq.0 >= *head_at_least, "{task} was acknowledged at {head_at_least} and is at {}", head.seq);
        assert_eq!(store.events(*task, Seq::ZERO, usize::MAX).await.unwrap(), events(*task, 1, head.seq.0));
        assert_eq!(head.row.settled, head.seq.0 == 13);
        assert_eq!(store.key(key_of(*task), Time(0)).await.unwrap().map(|used| used.task), Some(*task));
    }
    let unfinished = store.unfinished(None, 1_000_000).await.unwrap();
    for (task, _) in &unfinished {
        let head = store.head(*task).await.unwrap().unwrap();
        assert_eq!(store.events(*task, Seq::ZERO, usize::MAX).await.unwrap(), events(*task, 1, head.seq.0));
        assert!(head.seq.0 < 13);
        running += 1;
    }
    assert_eq!((health.running, health.timers, health.push_active), (running, running, running));
    let pushed = store.pushes(PushState::Active, None, 1_000_000).await.unwrap();
    assert!(pushed.iter().map(|row| row.task).eq(unfinished.iter().map(|(task, _)| *task)));
    let total = store.list(query.clone()).await.unwrap().total;
    query.context = Some(ContextId::from("the one context"));
    assert_eq!(store.list(query).await.unwrap().total, total);
    assert_eq!(total, Some(health.tasks));
    assert_eq!(health.keys, health.tasks);
    assert!(health.tasks >= before + told.len() as u64);
    // The next round's process need not carry this one's loose ends.
    for (task, epoch) in unfinished {
        let seq = store.head(task).await.unwrap().unwrap().seq;
        assert!(epoch < store.epoch());
        let mut end = step(task, 10, store.epoch());
        end.appends[0].expected = seq;
        end.appends[0].payload = stored::encode(&events(task, seq.0 + 1, seq.0 + 3)).into();
        assert_eq!(store.commit(end).await, Outcome::Done);
    }
    health.tasks
}
