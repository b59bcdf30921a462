//! A data folder carried to a database: everything is there, whatever happens on the way, and what is not the same is found.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Cluster, Database};
use model::ports::store::{
    AliasWrite, Append, BlobWrite, Commit, Head, Health, KeyUse, ListQuery, Opening, Outcome, Row, Store, Timer,
    TimerChange, TimerKind,
};
use model::{
    AccessKey, Body, ContextId, Epoch, Event, Expect, Opened, PushState, RecordChange, Seq, State, StatusChange,
    TaskId, Time, TurnId, View, stored,
};
use stores::conformance::{Random, fill};
use stores::migrate::{self, Batch, Error, Options, Step, Summary};
use stores::{postgres, sqlite};
use uuid::Uuid;

type Shelf = Arc<dyn Store>;

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work)
}

fn from(folder: &Path) -> Shelf {
    Arc::new(sqlite::Store::open(sqlite::Options::new(folder)).unwrap())
}

fn at(database: &Database) -> postgres::Options {
    postgres::Options { lease: Duration::from_millis(500), ..postgres::Options::new(database.url()) }
}

async fn to(database: &Database) -> Shelf {
    Arc::new(postgres::Store::open(at(database)).await.unwrap())
}

/// In batches so small that there are many.
fn options(folder: &Path, database: &Database) -> Options {
    Options { batch: Batch { rows: 7, bytes: 3_000 }, ..Options::new(folder, at(database)) }
}

async fn migrated(folder: &Path, database: &Database) -> Summary {
    let summary = migrate::run(&options(folder, database), |_| {}).await.unwrap();
    assert!(summary.is_same(), "{summary}");
    summary
}

fn access(id: &str) -> AccessKey {
    AccessKey {
        id: id.into(),
        name: "somebody".into(),
        tenant: "t".into(),
        scopes: vec!["read".into()],
        hash: [7; 32],
        prefix: "rk_".into(),
        created_at: Time(5),
        expires_at: None,
        revoked_at: None,
    }
}

/// A task as the engine makes them: opened, with a turn that was started this often and runs.
fn running(task: TaskId, starts: u32, epoch: Epoch) -> Append {
    let (tenant, agent): (Arc<str>, Arc<str>) = ("t".into(), "agent".into());
    let turn = TurnId(Uuid::now_v7());
    let opened = Opened {
        id: task,
        context: "chat".into(),
        agent: agent.clone(),
        tenant: tenant.clone(),
        owner: "o".into(),
        parties: Vec::new(),
        views: vec![View("v".into())],
        dialect: "a2a_v1".into(),
        alias: None,
        follows: None,
        undecided: false,
    };
    let working = StatusChange { state: State::Working, message: None, metadata: None };
    let mut bodies = vec![Body::Opened(Box::new(opened))];
    bodies.extend((1..=starts).map(|attempt| Body::TurnStarted { turn, attempt }));
    bodies.push(Body::Status(working));
    let events: Vec<Event> =
        (1..).zip(bodies).map(|(seq, body)| Event { seq: Seq(seq), at: Time(1_000), body }).collect();
    Append {
        task,
        expected: Seq::ZERO,
        epoch: Some(epoch),
        count: events.len() as u32,
        payload: stored::encode(&events).into(),
        open: Some(Opening {
            context: "chat".into(),
            fresh_context: false,
            tenant,
            agent,
            views: vec![View("v".into())],
        }),
        row: Some(Row { state: State::Working, status_at: Time(1_000), listed: true, running: true, settled: false }),
    }
}

/// Something of everything, and what the random world has not: aliases, access keys, a log of the engine's kind, a tenant
/// that only a blob has.
async fn filled(folder: &Path) -> Vec<TaskId> {
    let store = from(folder);
    let mut tasks = fill(&store, Random::from_environment(), 400).await;
    let task = TaskId(Uuid::now_v7());
    let commit = Commit {
        appends: vec![running(task, 3, store.epoch())],
        aliases: vec![AliasWrite { key: [1; 32], task }, AliasWrite { key: [2; 32], task }],
        // Not all of the random world's need outlive its purges.
        keys: vec![KeyUse { key: [200; 32], body: [1; 32], task, seq: Seq(1), at: Time(1_000) }],
        access: vec![access("one"), access("two"), access("")],
        blobs: vec![BlobWrite { tenant: "nobody else's".into(), task, hash: [9; 32], bytes: vec![9; 9_000].into() }],
        timers: vec![TimerChange::Set(Timer { task, kind: TimerKind::TurnTimeout, due: Time(1) })],
        ..Commit::default()
    };
    assert_eq!(store.commit(commit).await, Outcome::Done);
    tasks.push(task);
    store.close().await;
    tasks
}

/// Insists that both stores answer the same, to everything the port can ask.
async fn alike(one: &Shelf, other: &Shelf, tasks: &[TaskId]) {
    for task in tasks {
        let (here, there) = (one.head(*task).await.unwrap(), other.head(*task).await.unwrap());
        // Whose hold it is means something else in a shared store.
        let plain = |head: Option<Head>| head.map(|head| Head { epoch: Epoch(0), ..head });
        assert_eq!(plain(there), plain(here));
        assert_eq!(other.push(*task).await, one.push(*task).await);
    }
    assert_eq!(other.logs(tasks.to_vec()).await, one.logs(tasks.to_vec()).await);
    let mut seen = 0;
    for view in ["v", "w", "x", "nobody's"] {
        let contexts = [None, Some("c"), Some("d"), Some("chat"), Some("0198c0de-0000-7000-8000-00000000abcd")];
        for context in contexts {
            for state in [None, Some(State::Working), Some(State::Completed)] {
                let mut query = ListQuery {
                    views: vec![View(view.into())],
                    context: context.map(ContextId::from),
                    state,
                    since: None,
                    after: None,
                    limit: 5,
                    count: true,
                };
                loop {
                    // Cursors and all: a walk that began on the one goes on on the other.
                    let (here, there) =
                        (one.list(query.clone()).await.unwrap(), other.list(query.clone()).await.unwrap());
                    assert_eq!(there, here, "{query:?}");
                    seen += here.tasks.len();
                    query.after = here.tasks.last().map(|(_, cursor)| *cursor);
                    if !here.more {
                        break;
                    }
                }
            }
        }
    }
    assert!(seen > 50, "a world of lists, not of {seen}");
    for n in 0..10 {
        for not_before in [i64::MIN / 2, 1_700_000_000_000, 1_700_000_000_000 + 5 * 3_600_000] {
            let (key, not_before) = ([n; 32], Time(not_before));
            assert_eq!(other.key(key, not_before).await, one.key(key, not_before).await);
        }
        assert_eq!(other.alias([n; 32]).await, one.alias([n; 32]).await);
        for tenant in ["t", "u", "nobody else's"] {
            assert_eq!(other.blob(tenant.into(), [n; 32]).await, one.blob(tenant.into(), [n; 32]).await);
        }
    }
    for state in PushState::ALL {
        assert_eq!(other.pushes(state, None, 10_000).await, one.pushes(state, None, 10_000).await);
    }
    assert_eq!(other.access_keys().await, one.access_keys().await);
    assert_eq!(other.due(Time(i64::MAX), 10_000).await, one.due(Time(i64::MAX), 10_000).await);
    assert_eq!(other.next_due().await, one.next_due().await);
    let ids = |page: Vec<(TaskId, Epoch)>| page.into_iter().map(|(task, _)| task).collect::<Vec<_>>();
    let running = ids(one.unfinished(None, 10_000).await.unwrap());
    assert!(!running.is_empty());
    assert_eq!(ids(other.unfinished(None, 10_000).await.unwrap()), running);
    assert_eq!(ids(other.orphans(None, 10_000).await.unwrap()), running, "nobody holds any");
    let adopted = other.adopt(None, 10_000).await.unwrap();
    assert_eq!(Ok(adopted), one.pushes(PushState::Active, None, 10_000).await, "nobody delivers any");
    let common = |health: Health| Health { kind: "", file_bytes: 0, wal_bytes: 0, schema: 0, epoch: 0, ..health };
    assert_eq!(common(other.health().await.unwrap()), common(one.health().await.unwrap()));
}

#[test]
fn everything_is_there_afterwards() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        let tasks = filled(folder.path()).await;
        let mut steps = Vec::new();
        let summary = migrate::run(&options(folder.path(), &database), |step| steps.push(step)).await.unwrap();
        assert!(summary.is_same(), "{summary}");
        assert!(!steps.contains(&Step::Resumed));
        let told = summary.to_string();
        assert!(told.contains("both are the same") && told.contains("none yet"), "{told}");
        // Nothing of it is empty, or it would prove nothing.
        for line in summary.lines.iter().filter(|line| line.what != "wrong counters") {
            assert!(line.from > 0 && line.to == line.from, "{line:?}");
        }
        let again = migrate::verify(&options(folder.path(), &database), |_| {}).await.unwrap();
        assert_eq!(again, summary);
        alike(&from(folder.path()), &to(&database).await, &tasks).await;
    });
}

#[test]
fn the_default_batches_carry_the_same() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        let tasks = filled(folder.path()).await;
        let summary = migrate::run(&Options::new(folder.path(), at(&database)), |_| {}).await.unwrap();
        assert!(summary.is_same(), "{summary}");
        alike(&from(folder.path()), &to(&database).await, &tasks).await;
    });
}

#[test]
fn whoever_was_cut_off_goes_on_where_it_was() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        let tasks = filled(folder.path()).await;
        let mut random = Random::from_environment();
        let options = options(folder.path(), &database);
        let (mut cuts, mut copied) = (0, 0_u64);
        loop {
            // More each time: comparing begins anew, and has many steps.
            let steps_left = std::cell::Cell::new(random.below(40 + 20 * cuts));
            let (mut resumed, mut mine) = (false, 0);
            let cut = tokio::sync::Notify::new();
            let work = migrate::run(&options, |step| {
                resumed |= step == Step::Resumed;
                mine += u64::from(matches!(step, Step::Copied { .. }));
                match steps_left.get().checked_sub(1) {
                    Some(left) => steps_left.set(left),
                    None => cut.notify_one(),
                }
            });
            let ended = tokio::select! {
                biased;
                () = cut.notified() => None,
                ended = work => Some(ended),
            };
            copied += mine;
            match ended {
                Some(ended) => {
                    let summary = ended.unwrap();
                    assert!(summary.is_same(), "{summary}");
                    break;
                }
                None => cuts += 1,
            }
            assert!(resumed || cuts == 1 || copied == mine);
            // Whoever looks in between is not let in.
            let refused = postgres::Store::open(at(&database)).await.err().unwrap();
            assert!(matches!(refused, postgres::OpenError::Migrating), "{refused}");
            assert!(refused.to_string().contains("run the same rialto migrate again"), "{refused}");
        }
        eprintln!("cut off {cuts} times, {copied} batches");
        assert!(cuts > 2);
        alike(&from(folder.path()), &to(&database).await, &tasks).await;
    });
}

#[test]
fn a_turn_that_runs_comes_with_the_number_of_its_start_and_without_a_holder() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        // Some starts of the process first, which count in the file and nowhere else.
        for _ in 0..6 {
            from(folder.path()).close().await;
        }
        let (task, store) = (TaskId(Uuid::now_v7()), from(folder.path()));
        let commit = Commit { appends: vec![running(task, 2, store.epoch())], ..Commit::default() };
        assert_eq!(store.commit(commit).await, Outcome::Done);
        assert_eq!(store.head(task).await.unwrap().unwrap().epoch, Epoch(7));
        store.close().await;
        let summary = migrated(folder.path(), &database).await;
        assert!(summary.remarks.is_empty(), "{summary}");
        let store = to(&database).await;
        assert_eq!(store.orphans(None, 10).await, Ok(vec![(task, store.hold(2))]));
        // The next start takes the hold.
        let seq = store.head(task).await.unwrap().unwrap().seq;
        let more =
            Append { expected: seq, epoch: Some(store.hold(3)), open: None, row: None, ..running(task, 1, Epoch(0)) };
        assert_eq!(store.commit(Commit { appends: vec![more], ..Commit::default() }).await, Outcome::Done);
        assert_eq!(store.orphans(None, 10).await, Ok(vec![]));
    });
}

#[test]
fn what_comes_later_is_numbered_after_what_was_brought() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        filled(folder.path()).await;
        migrated(folder.path(), &database).await;
        let (task, store) = (TaskId(Uuid::now_v7()), to(&database).await);
        let mut opening = running(task, 1, store.hold(1));
        // Names nobody had before, too.
        opening.open.as_mut().unwrap().views = vec![View("v".into()), View("quite new".into())];
        assert_eq!(store.commit(Commit { appends: vec![opening], ..Commit::default() }).await, Outcome::Done);
        let above = format!("select id from rialto.task where no >= (select no from rialto.task where id = '{task}')");
        assert_eq!(database.query(&above), [[task.to_string()]]);
        let names = "select no from rialto.name where text = 'quite new' and no = (select max(no) from rialto.name)";
        assert_eq!(database.query(names).len(), 1);
        store.close().await;
    });
}

#[test]
fn what_replicas_must_agree_on_comes_with_the_data() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        filled(folder.path()).await;
        // Somebody was here once, with other keys and no tasks.
        let store = postgres::Store::open(at(&database)).await.unwrap();
        assert_eq!(store.remember("seal key", "another").await.unwrap(), "another");
        assert_eq!(store.remember("token key", "another").await.unwrap(), "another");
        store.close().await;
        let notes = vec![("seal key".to_owned(), "ours".to_owned())];
        let summary = migrate::run(&Options { notes, ..options(folder.path(), &database) }, |_| {}).await.unwrap();
        assert!(summary.is_same(), "{summary}");
        let store = postgres::Store::open(at(&database)).await.unwrap();
        assert_eq!(store.remember("seal key", "theirs").await.unwrap(), "ours");
        assert_eq!(store.remember("token key", "theirs").await.unwrap(), "theirs");
    });
}

#[test]
fn a_target_that_is_not_empty_is_refused() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        filled(folder.path()).await;
        let store = to(&database).await;
        let refused = migrate::run(&options(folder.path(), &database), |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Open), "{refused}");
        let commit = Commit { access: vec![access("somebody's")], ..Commit::default() };
        assert_eq!(store.commit(commit).await, Outcome::Done);
        store.close().await;
        let refused = migrate::run(&options(folder.path(), &database), |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Taken), "{refused}");
        let refused = migrate::verify(&options(folder.path(), &database), |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Nothing), "{refused}");
        assert_eq!(to(&database).await.access_keys().await.unwrap().len(), 1, "and nothing has happened to it");
    });
}

#[test]
fn a_second_source_is_refused_and_so_is_the_first_once_it_was_used_again() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let database = Cluster::shared().database();
    wait(async {
        filled(folder.path()).await;
        filled(other.path()).await;
        let cut = tokio::sync::Notify::new();
        let (settings, others) = (options(folder.path(), &database), options(other.path(), &database));
        let begun = tokio::select! {
            biased;
            () = cut.notified() => None,
            ended = migrate::run(&settings, |_| cut.notify_one()) => Some(ended),
        };
        assert!(begun.is_none());
        let refused = migrate::run(&others, |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Other), "{refused}");
        from(folder.path()).close().await;
        let refused = migrate::run(&settings, |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Other), "{refused}");
        // As the words have it.
        database.run("drop schema rialto cascade");
        migrated(folder.path(), &database).await;
        let refused = migrate::run(&settings, |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Finished), "{refused}");
        let refused = migrate::run(&others, |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Taken), "{refused}");
        let refused = migrate::verify(&others, |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::NotThis), "{refused}");
    });
}

#[test]
fn a_source_that_cannot_be_read_as_it_is_is_refused() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        let settings = options(folder.path(), &database);
        let refused = migrate::run(&settings, |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Source(sqlite::OpenError::Missing { .. })), "{refused}");
        assert!(!folder.path().join("lock").exists(), "and nothing is made there");
        let store = from(folder.path());
        let refused = migrate::run(&settings, |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Source(sqlite::OpenError::InUse { .. })), "{refused}");
        store.close().await;
        let db = rusqlite::Connection::open(folder.path().join("rialto.db")).unwrap();
        db.pragma_update(None, "user_version", 1).unwrap();
        drop(db);
        let refused = migrate::run(&settings, |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Source(sqlite::OpenError::Older { .. })), "{refused}");
    });
}

#[test]
fn what_is_not_the_same_is_found() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        filled(folder.path()).await;
        migrated(folder.path(), &database).await;
        let settings = options(folder.path(), &database);
        for (what, change, line) in [
            (
                "a name",
                "update rialto.name set text = text || 'x' where no = (select min(no) from rialto.name)",
                "names",
            ),
            ("an epoch", "update rialto.task set epoch = epoch + 1 where running", "tasks"),
            ("a length", "update rialto.task set seq = seq + 1 where running", "tasks"),
            (
                "a log",
                "delete from rialto.log where (task_no, first_seq) = (select max(task_no), 1 from rialto.log)",
                "log rows",
            ),
            (
                "a payload",
                "update rialto.log set payload = set_byte(payload, 3, 0) where first_seq = 1 and task_no = (select max(task_no) from rialto.log)",
                "whole logs",
            ),
            ("a row more", "insert into rialto.log values (1234567, 1, 1, null, 'x')", "log rows"),
            ("a list", r"update rialto.listing set context = '\x0178'", "list rows"),
            ("a timer", "update rialto.timer set due = due + 1", "timers"),
            ("an alias", "delete from rialto.alias", "aliases"),
            ("a key", "update rialto.access set row = row || ' '", "access keys"),
            ("a use", "update rialto.idempotency set uses = set_byte(uses, 1, 77)", "idempotency keys"),
            ("a blob", "update rialto.blob set bytes = set_byte(bytes, 0, 200)", "blobs"),
            (
                "a blob's use",
                "delete from rialto.blob_use where task = (select task from rialto.blob_use limit 1)",
                "blob uses",
            ),
            ("a config", "update rialto.push set made_no = made_no + 1", "push configs"),
            ("a counter", "update rialto.counter set n = n + 1 where view_no = 0 and kind = 20", "wrong counters"),
        ] {
            let table = change.split_whitespace().find_map(|word| word.strip_prefix("rialto.")).unwrap();
            database.run(&format!("create schema kept; create table kept.rows as select * from rialto.{table}"));
            database.run(change);
            let summary = migrate::verify(&settings, |_| {}).await.unwrap();
            assert!(!summary.is_same(), "{what}");
            assert!(!summary.lines.iter().find(|found| found.what == line).unwrap().is_same(), "{what}: {summary}");
            assert!(summary.to_string().contains("they are NOT the same"));
            let overriding = if table == "name" { "overriding system value" } else { "" };
            database.run(&format!(
                "begin; delete from rialto.{table}; insert into rialto.{table} {overriding} select * from kept.rows; drop schema kept cascade; commit"
            ));
            let summary = migrate::verify(&settings, |_| {}).await.unwrap();
            assert!(summary.is_same(), "{what}: {summary}");
        }
    });
}

/// Nothing is left behind unsaid.
#[test]
fn what_there_is_no_kind_for_yet_is_refused() {
    wait(async {
        let folder = tempfile::tempdir().unwrap();
        let store = from(folder.path());
        let put = RecordChange::Put {
            kind: "k".into(),
            key: "a".into(),
            expect: Expect::Absent,
            body: "one".into(),
            lists: Vec::new(),
        };
        let commit = Commit { records: vec![put], ..Commit::default() };
        assert_eq!(store.commit(commit).await, Outcome::Done);
        store.close().await;
        let database = Cluster::shared().database();
        let refused = migrate::run(&options(folder.path(), &database), |_| {}).await.unwrap_err();
        assert!(refused.to_string().contains("records of products"), "{refused}");
    });
}

#[test]
fn a_migration_that_ends_with_differences_lets_nobody_in() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        filled(folder.path()).await;
        let (settings, mut spoilt) = (options(folder.path(), &database), false);
        let summary = migrate::run(&settings, |step| {
            if !spoilt && matches!(step, Step::Compared { .. }) {
                database.run("delete from rialto.alias");
                spoilt = true;
            }
        });
        let summary = summary.await.unwrap();
        assert!(!summary.is_same(), "{summary}");
        assert!(matches!(postgres::Store::open(at(&database)).await.err().unwrap(), postgres::OpenError::Migrating));
        let again = migrate::run(&settings, |_| {}).await.unwrap();
        assert!(!again.is_same(), "nothing mends it but an empty database: {again}");
    });
}

/// Chunks of live turns may wait in a table of their own before they are in the log.
#[test]
fn chunks_that_wait_beside_the_log_come_with_it() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        let (one, other, store) = (TaskId(Uuid::now_v7()), TaskId(Uuid::now_v7()), from(folder.path()));
        for task in [one, other] {
            let commit = Commit { appends: vec![running(task, 1, store.epoch())], ..Commit::default() };
            assert_eq!(store.commit(commit).await, Outcome::Done);
        }
        store.close().await;
        let db = rusqlite::Connection::open(folder.path().join("rialto.db")).unwrap();
        db.execute_batch(
            "CREATE TABLE IF NOT EXISTS tail (key INTEGER PRIMARY KEY, task_no INTEGER NOT NULL, first_seq INTEGER NOT NULL,
                                              last_seq INTEGER NOT NULL, payload BLOB NOT NULL) STRICT",
        )
        .unwrap();
        let word = |seq: u64, text: &str| {
            let body = Body::Metadata(serde_json::from_str(text).unwrap());
            stored::encode(&[Event { seq: Seq(seq), at: Time(2_000), body }])
        };
        // Numbers 3 are dead: the log has them. Those of task 99, too, which is gone.
        for (key, task_no, first, text) in [
            (1, 1, 3, r#"{"dead":1}"#),
            (2, 1, 4, r#"{"a":1}"#),
            (3, 2, 4, r#"{"b":1}"#),
            (4, 99, 1, r#"{"gone":1}"#),
            (5, 1, 5, r#"{"a":2}"#),
        ] {
            let bound = rusqlite::params![key, task_no, first, first, word(first as u64, text)];
            db.execute(
                "INSERT INTO tail (key, task_no, first_seq, last_seq, payload) VALUES (?1, ?2, ?3, ?4, ?5)",
                bound,
            )
            .unwrap();
        }
        drop(db);
        let summary = migrated(folder.path(), &database).await;
        assert!(summary.remarks.is_empty(), "{summary}");
        let store = to(&database).await;
        for (task, last, more) in [(one, 5, r#"{"a":2}"#), (other, 4, r#"{"b":1}"#)] {
            let log = store.events(task, Seq::ZERO, usize::MAX).await.unwrap();
            assert_eq!(log.iter().map(|event| event.seq.0).collect::<Vec<_>>(), (1..=last).collect::<Vec<_>>());
            assert_eq!(log.last().unwrap().body, Body::Metadata(serde_json::from_str(more).unwrap()));
            assert_eq!(store.head(task).await.unwrap().unwrap().seq, Seq(last));
        }
        assert_eq!(store.health().await.unwrap().events_rows, 5);
    });
}
