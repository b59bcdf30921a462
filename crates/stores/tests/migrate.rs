//! A data folder carried to a database: everything is there, whatever happens on the way, and what is not the same is found.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Cluster, Database};
use model::ports::store::{
    AliasWrite, Append, BlobWrite, Commit, Conflict, Health, IndexRow, KeyUse, ListQuery, LogHead, Opening, Outcome,
    Store, Timer, TimerChange, TimerKind, Upkeep as _,
};
use model::{
    AccessKey, Body, ContextId, Entry, Epoch, Event, Expect, Listed, Opened, Posting, PushRow, PushState, RecordChange,
    RecordQuery, Seq, State, StatusChange, TaskId, TextChange, TextQuery, Time, TurnId, View, stored,
};
use stores::conformance::{Random, fill};
use stores::migrate::{self, BatchLimits, Error, MigrationStep, Options, Summary};
use stores::{postgres, sqlite};
use uuid::Uuid;

type Shelf = Arc<dyn Store>;

fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work)
}

fn from(folder: &Path) -> Shelf {
    Arc::new(sqlite::SqliteStore::open(sqlite::Options::new(folder)).unwrap())
}

fn at(database: &Database) -> postgres::Options {
    postgres::Options { lease: Duration::from_millis(500), ..postgres::Options::new(database.url()) }
}

async fn to(database: &Database) -> Shelf {
    Arc::new(postgres::PostgresStore::open(at(database)).await.unwrap())
}

/// In batches so small that there are many.
fn options(folder: &Path, database: &Database) -> Options {
    Options { batch: BatchLimits { rows: 7, bytes: 3_000 }, ..Options::new(folder, at(database)) }
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
    bodies.extend((1..=starts).map(|attempt| Body::TurnStarted { turn, attempt, hold: None }));
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
        row: Some(IndexRow {
            state: State::Working,
            status_at: Time(1_000),
            listed: true,
            running: true,
            settled: false,
        }),
    }
}

/// A record as it is from now on, in these lists.
fn put(kind: &str, key: &str, body: &str, lists: &[(&str, i64)]) -> RecordChange {
    let lists = lists.iter().map(|(list, rank)| Listed { list: (*list).into(), rank: *rank }).collect();
    let body = body.to_owned().into();
    RecordChange::Put { kind: kind.into(), key: key.into(), expect: Expect::Any, body, lists }
}

/// The nth entry: an id of its own, and these amounts.
fn entry(n: u128, postings: &[(&str, i64)]) -> Entry {
    let posting =
        |(account, amount): &(&str, i64)| Posting { account: (*account).into(), amount: *amount, floor: None };
    Entry {
        id: Uuid::from_u128(n),
        at: Time(1_000 + n as i64),
        body: format!("entry {n}").into(),
        postings: postings.iter().map(posting).collect(),
    }
}

const KINDS: [&str; 3] = ["k", "other", ""];
const LISTS: [&str; 3] = ["all", "few", ""];
const ACCOUNTS: [&str; 5] = ["bank", "ann", "bob", "ünï\0code", ""];

/// Records that were put, changed, moved and removed, and a journal. Always the same.
async fn products(store: &Shelf) {
    let mut records = Vec::new();
    for n in 0..30 {
        let (kind, key) = (KINDS[n % 3], format!("{n:02}"));
        let lists = [("all", n as i64 / 4), ("few", -(n as i64)), ("", i64::MIN + n as i64)];
        records.push(put(kind, &key, &format!("body of {n}"), &lists[..n % 4]));
    }
    // Longer than a batch of the tests, and as short as can be.
    records.push(put("k", "ünï\0code", &"long".repeat(2_000), &[("all", 1)]));
    records.push(put("other", "", "", &[("all", 1)]));
    // Of higher versions, elsewhere, and gone.
    for n in [3, 6, 9, 6] {
        records.push(put("k", &format!("{n:02}"), "again", &[("all", 100), ("few", i64::MAX)]));
    }
    records.push(RecordChange::Remove { kind: "other".into(), key: "04".into(), expect: Expect::Version(1) });
    assert_eq!(store.commit(Commit { records, ..Commit::default() }).await, Outcome::Done);
    let text = |n: usize| TextChange::Put {
        shelf: ["s", "ünï\0code"][n % 2].into(),
        id: format!("{:02}", n * 7 % 40).into(),
        title: format!("Hat no {n}"),
        body: ["red", "blue and red", ""][n % 3].into(),
    };
    let mut texts: Vec<TextChange> = (0..40).map(text).collect();
    texts.push(TextChange::Remove { shelf: "s".into(), id: "14".into() });
    assert_eq!(store.commit(Commit { texts, ..Commit::default() }).await, Outcome::Done);
    for n in 0..20 {
        let (one, other) = (ACCOUNTS[1 + n % 4], ACCOUNTS[1 + (n + 1) % 4]);
        let amount = 7 + n as i64;
        let entries = vec![
            entry(2 * n as u128, &[("bank", -2 * amount), (one, amount), (other, amount)]),
            entry(2 * n as u128 + 1, &[(one, -3), ("bank", 3)]),
        ];
        assert_eq!(store.commit(Commit { entries, ..Commit::default() }).await, Outcome::Done);
    }
    // As much as an account can hold, and one that comes to nothing.
    let entries = vec![
        entry(100, &[("much", i64::MAX), ("more", i64::MAX), ("debt", -i64::MAX), ("depth", -i64::MAX)]),
        entry(101, &[("much", -5), ("spent", 5)]),
        entry(102, &[("spent", -5), ("much", 5)]),
    ];
    assert_eq!(store.commit(Commit { entries, ..Commit::default() }).await, Outcome::Done);
}

/// Something of everything, and what the random world has not: aliases, access keys, a log of the engine's kind, a tenant
/// that only a blob has, records and a journal.
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
    products(&store).await;
    store.close().await;
    tasks
}

/// Insists that both stores answer the same, to everything the port can ask.
async fn alike(one: &Shelf, other: &Shelf, tasks: &[TaskId]) {
    for task in tasks {
        let (here, there) = (one.head(*task).await.unwrap(), other.head(*task).await.unwrap());
        // Whose hold it is means something else in a shared store.
        let plain = |head: Option<LogHead>| head.map(|head| LogHead { epoch: Epoch(0), ..head });
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
    products_alike(one, other).await;
    assert_eq!(other.due(Time(i64::MAX), 10_000).await, one.due(Time(i64::MAX), 10_000).await);
    assert_eq!(other.next_due().await, one.next_due().await);
    let ids = |page: Vec<(TaskId, Epoch)>| page.into_iter().map(|(task, _)| task).collect::<Vec<_>>();
    let running = ids(one.unfinished(None, 10_000).await.unwrap());
    assert!(!running.is_empty());
    assert_eq!(ids(other.unfinished(None, 10_000).await.unwrap()), running);
    assert_eq!(ids(other.orphans(None, 10_000).await.unwrap()), running, "nobody holds any");
    let adopted = other.adopt(None, 10_000).await.unwrap();
    let active = one.pushes(PushState::Active, None, 10_000).await.unwrap();
    let without_epochs =
        |rows: &[PushRow]| rows.iter().map(|row| PushRow { epoch: Epoch(0), ..row.clone() }).collect::<Vec<_>>();
    assert_eq!(without_epochs(&adopted), without_epochs(&active), "nobody delivers any");
    let later = adopted.iter().zip(&active).all(|(there, here)| there.epoch > here.epoch);
    assert!(later, "an adopted config has a later epoch than the one it came with");
    let common = |health: Health| Health { kind: "", file_bytes: 0, wal_bytes: 0, schema: 0, epoch: 0, ..health };
    assert_eq!(common(other.health().await.unwrap()), common(one.health().await.unwrap()));
}

/// Page by page: every cursor is one of the first store's, so that a reader that began there goes on here.
async fn products_alike(one: &Shelf, other: &Shelf) {
    let (mut records, mut entries, mut lines) = (0, 0, 0);
    for kind in KINDS {
        for key in (0..30).map(|n| format!("{n:02}")).chain(["ünï\0code".into(), String::new()]) {
            let here = one.record(kind.into(), key.as_str().into()).await.unwrap();
            assert_eq!(other.record(kind.into(), key.as_str().into()).await, Ok(here.clone()));
            records += u64::from(here.is_some());
        }
        for list in LISTS {
            let (kind, list) = (kind.into(), list.into());
            let mut query = RecordQuery { kind, list, after: None, skip: 0, limit: 3, count: true };
            loop {
                let (here, there) =
                    (one.records(query.clone()).await.unwrap(), other.records(query.clone()).await.unwrap());
                assert_eq!(there, here, "{query:?}");
                query.after = here.records.last().map(|(record, rank)| (*rank, record.key.clone()));
                if !here.more {
                    break;
                }
            }
        }
    }
    assert_eq!(records, 31);
    for (shelf, words) in [("s", ""), ("s", "red"), ("ünï\0code", "hat 1"), ("ünï\0code", "blue"), ("nobody's", "")]
    {
        let (shelf, words) = (shelf.into(), words.into());
        let mut query = TextQuery { shelf, words, after: None, limit: 4, count: true };
        loop {
            let (here, there) = (one.search(query.clone()).await.unwrap(), other.search(query.clone()).await.unwrap());
            assert_eq!(there, here, "{query:?}");
            query.after = here.found.last().cloned();
            if !here.more {
                break;
            }
        }
    }
    assert_eq!(
        one.search(TextQuery { shelf: "s".into(), words: "hat".into(), after: None, limit: 1, count: true })
            .await
            .unwrap()
            .total,
        Some(19)
    );
    let mut after = 0;
    loop {
        let page = one.journal(after, 4).await.unwrap();
        assert_eq!(other.journal(after, 4).await.as_ref(), Ok(&page));
        entries += page.len();
        let Some((last, _)) = page.last() else { break };
        after = *last;
    }
    assert_eq!(entries, 43);
    let mut after = None;
    loop {
        let page = one.accounts(after.clone(), 2).await.unwrap();
        assert_eq!(other.accounts(after, 2).await.as_ref(), Ok(&page));
        let names: Vec<Arc<str>> = page.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(other.balances(names.clone()).await, one.balances(names.clone()).await);
        for name in &names {
            let mut before = None;
            loop {
                let page = one.statement(name.clone(), before, 3).await.unwrap();
                assert_eq!(other.statement(name.clone(), before, 3).await.as_ref(), Ok(&page));
                lines += page.len();
                let Some(last) = page.last() else { break };
                before = Some(last.no);
            }
        }
        let Some(last) = names.into_iter().next_back() else { break };
        after = Some(last);
    }
    assert_eq!(lines, 20 * 5 + 8);
}

#[test]
fn everything_is_there_afterwards() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        let tasks = filled(folder.path()).await;
        let mut steps = Vec::new();
        let summary = migrate::run(&options(folder.path(), &database), |step| steps.push(step)).await.unwrap();
        assert!(summary.is_same(), "{summary}");
        assert!(!steps.contains(&MigrationStep::Resumed));
        let told = summary.to_string();
        assert!(told.contains("both are the same"), "{told}");
        // Nothing of it is empty, or it would prove nothing.
        for line in summary.lines.iter().filter(|line| !line.what.starts_with("wrong")) {
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
                resumed |= step == MigrationStep::Resumed;
                mine += u64::from(matches!(step, MigrationStep::Copied { .. }));
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
            // A store that is opened in between is refused.
            let refused = postgres::PostgresStore::open(at(&database)).await.err().unwrap();
            assert!(matches!(refused, postgres::PostgresOpenError::Migrating), "{refused}");
            assert!(refused.to_string().contains("run the same rialto migrate again"), "{refused}");
        }
        eprintln!("cut off {cuts} times, {copied} batches");
        assert!(cuts > 2);
        alike(&from(folder.path()), &to(&database).await, &tasks).await;
    });
}

/// After every single batch, so that each kind goes on from the middle of its rows.
#[test]
fn records_and_the_journal_go_on_from_any_batch() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        let store = from(folder.path());
        products(&store).await;
        store.close().await;
        let options = options(folder.path(), &database);
        let mut batches: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        let mut cuts = 0;
        let summary = loop {
            let cut = tokio::sync::Notify::new();
            // Progress counts from the start of a run, and a run may get through another batch before it is cut off.
            let mut before: BTreeMap<&str, u64> = BTreeMap::new();
            let work = migrate::run(&options, |step| {
                if let MigrationStep::Copied { what, rows } = step {
                    let before = std::mem::replace(before.entry(what).or_default(), rows);
                    batches.entry(what).or_default().push(rows - before);
                    cut.notify_one();
                }
            });
            tokio::select! {
                biased;
                () = cut.notified() => cuts += 1,
                ended = work => break ended.unwrap(),
            }
        };
        assert!(summary.is_same(), "{summary}");
        assert!(cuts > 10, "{cuts}");
        for (what, rows) in [("records", 31), ("record list rows", 45), ("journal entries", 43), ("postings", 108)] {
            // The database may keep the batch that the cut met, without a report of it; none is copied twice.
            assert!(batches[what].iter().sum::<u64>() <= rows, "{what}: {batches:?}");
            assert!(batches[what].iter().all(|rows| *rows <= 7), "one batch each time: {batches:?}");
        }
        products_alike(&from(folder.path()), &to(&database).await).await;
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
        // New names, too.
        opening.open.as_mut().unwrap().views = vec![View("v".into()), View("quite new".into())];
        assert_eq!(store.commit(Commit { appends: vec![opening], ..Commit::default() }).await, Outcome::Done);
        let above = format!("select id from rialto.task where no >= (select no from rialto.task where id = '{task}')");
        assert_eq!(database.query(&above), [[task.to_string()]]);
        let names = "select no from rialto.name where text = 'quite new' and no = (select max(no) from rialto.name)";
        assert_eq!(database.query(names).len(), 1);
        let paid = entry(500, &[("bank", -1), ("ann", 1)]);
        let records = vec![put("k", "03", "once more", &[])];
        let commit = Commit { entries: vec![paid.clone()], records, ..Commit::default() };
        assert_eq!(store.commit(commit).await, Outcome::Done);
        // The journal has 43, and this is the next; nor is an entry that was brought taken again.
        assert_eq!(store.journal(43, 10).await, Ok(vec![(44, paid)]));
        let twice = Commit { entries: vec![entry(100, &[("bank", -1), ("ann", 1)])], ..Commit::default() };
        assert_eq!(store.commit(twice).await, Outcome::Conflict(Conflict::Entry(Uuid::from_u128(100))));
        assert_eq!(store.record("k".into(), "03".into()).await.unwrap().unwrap().version, 3);
        store.close().await;
    });
}

#[test]
fn what_replicas_must_agree_on_comes_with_the_data() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        filled(folder.path()).await;
        // The database was used before, with other keys and no tasks.
        let store = postgres::PostgresStore::open(at(&database)).await.unwrap();
        assert_eq!(store.remember("seal key", "another").await.unwrap(), "another");
        assert_eq!(store.remember("token key", "another").await.unwrap(), "another");
        store.close().await;
        let notes = vec![("seal key".to_owned(), "ours".to_owned())];
        let summary = migrate::run(&Options { notes, ..options(folder.path(), &database) }, |_| {}).await.unwrap();
        assert!(summary.is_same(), "{summary}");
        let store = postgres::PostgresStore::open(at(&database)).await.unwrap();
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
        // Records of a product count as data, too.
        for commit in [
            Commit { records: vec![put("k", "a", "one", &[])], ..Commit::default() },
            Commit { entries: vec![entry(1, &[("a", 1), ("b", -1)])], ..Commit::default() },
        ] {
            let database = Cluster::shared().database();
            let store = to(&database).await;
            assert_eq!(store.commit(commit).await, Outcome::Done);
            store.close().await;
            let refused = migrate::run(&options(folder.path(), &database), |_| {}).await.unwrap_err();
            assert!(matches!(refused, Error::Taken), "{refused}");
        }
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
        assert!(matches!(refused, Error::Source(sqlite::SqliteOpenError::Missing { .. })), "{refused}");
        assert!(!folder.path().join("lock").exists(), "and nothing is made there");
        let store = from(folder.path());
        let refused = migrate::run(&settings, |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Source(sqlite::SqliteOpenError::InUse { .. })), "{refused}");
        store.close().await;
        let db = rusqlite::Connection::open(folder.path().join("rialto.db")).unwrap();
        db.pragma_update(None, "user_version", 1).unwrap();
        drop(db);
        let refused = migrate::run(&settings, |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Source(sqlite::SqliteOpenError::Older { .. })), "{refused}");
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
            ("a record", "update rialto.record set body = body || 'x' where kind = 'k' and key = '03'", "records"),
            ("a version", "update rialto.record set version = version + 1 where key = '05'", "records"),
            ("a record gone", "delete from rialto.record where key = '05'", "records"),
            ("a rank", "update rialto.record_list set rank = rank - 1 where rank = 100", "record list rows"),
            ("a place more", "insert into rialto.record_list values ('k', 'all', 1, 'nobody')", "record list rows"),
            ("how many records", "update rialto.counter set n = n - 1 where kind = 25", "wrong counters"),
            ("how many entries", "update rialto.counter set n = n - 1 where kind = 26", "wrong counters"),
            ("an entry gone", "delete from rialto.entry where no = 11", "journal entries"),
            ("an entry's words", "update rialto.entry set body = body || 'x' where no = 11", "journal entries"),
            ("an entry's number", "update rialto.entry set no = 1000 where no = 43", "journal entries"),
            ("a posting gone", "delete from rialto.posting where entry_no = 11 and account = 'bank'", "postings"),
            ("a place", "update rialto.posting set place = place + 1 where entry_no = 11", "postings"),
            ("an amount", "update rialto.posting set amount = amount + 1 where entry_no = 11", "postings"),
            ("what it comes to", "update rialto.posting set amount = amount + 1 where entry_no = 11", "wrong balances"),
            ("what was on it", "update rialto.posting set balance = balance + 1 where entry_no = 11", "postings"),
            ("and then", "update rialto.posting set balance = balance + 1 where entry_no = 11", "wrong balances"),
            ("a balance", "update rialto.account set balance = balance + 1 where name = 'bank'", "accounts"),
            ("its sum", "update rialto.account set balance = balance + 1 where name = 'bank'", "wrong balances"),
            ("a text", "update rialto.text set body = body || 'x' where id = '04'", "texts"),
            ("its words", "update rialto.text set words = '' where id = '04'", "texts"),
            ("a text gone", "delete from rialto.text where id = '04'", "texts"),
            ("an account more", "insert into rialto.account values ('nobody', 5)", "accounts"),
            ("with nothing posted", "insert into rialto.account values ('nobody', 5)", "wrong balances"),
            ("an account gone", "delete from rialto.account where name = 'bank'", "wrong balances"),
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

/// A source may be wrong already. It is told, and is no difference: what it says is what is carried.
#[test]
fn what_does_not_add_up_in_the_source_is_told_and_carried_as_it_is() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        filled(folder.path()).await;
        let db = rusqlite::Connection::open(folder.path().join("rialto.db")).unwrap();
        db.execute_batch(
            "UPDATE account SET balance = balance + 1 WHERE name = 'ann';
             UPDATE entry SET postings = (
               SELECT json_replace(postings, '$[' || place || '][2]', balance - 1)
               FROM posting WHERE entry_no = 1 AND account = 'bob'
             ) WHERE no = 1;
             UPDATE entry SET postings = (
               SELECT json_replace(postings, '$[' || place || '][1]', 9223372036854775807)
               FROM posting WHERE entry_no = 43 AND account = 'much'
             ) WHERE no = 43",
        )
        .unwrap();
        drop(db);
        let summary = migrated(folder.path(), &database).await;
        let line = summary.lines.iter().find(|line| line.what == "wrong balances").unwrap();
        // Where a balance was wrong, the next one does not follow from it.
        assert_eq!((line.from, line.to, line.different), (5, 5, 0), "{summary}");
        for told in [
            r#"account "ann" says "#,
            r#"account "bob" says 6 after entry 1,"#,
            r#"account "bob" says 15 after entry 3,"#,
            r#"account "much" says 9223372036854775807 after entry 43,"#,
            "the postings of entry 43 of the journal do not come to nothing",
        ] {
            assert!(summary.remarks.iter().any(|remark| remark.contains(told)), "{told}: {summary}");
        }
        // One more, or one less, is a difference.
        for change in [
            "update rialto.account set balance = balance + 1 where name = 'bank'",
            "update rialto.account set balance = balance - 1 where name = 'ann'",
        ] {
            database.run(&format!("create table kept as select * from rialto.account; {change}"));
            let summary = migrate::verify(&options(folder.path(), &database), |_| {}).await.unwrap();
            assert!(!summary.lines.iter().find(|line| line.what == "wrong balances").unwrap().is_same(), "{summary}");
            let back = "delete from rialto.account; insert into rialto.account select * from kept; drop table kept";
            database.run(&format!("begin; {back}; commit"));
        }
    });
}

/// Records and entries count like tasks where it is asked whose data this is.
#[test]
fn data_without_tasks_is_told_from_other_data_without_tasks() {
    let database = Cluster::shared().database();
    wait(async {
        let (folders, mut said) = ([(); 3].map(|()| tempfile::tempdir().unwrap()), Vec::new());
        for (folder, (body, n)) in folders.iter().zip([("one", 1), ("other", 1), ("one", 2)]) {
            let store = from(folder.path());
            let records = vec![put("k", "a", body, &[])];
            let commit = Commit { records, entries: vec![entry(n, &[("a", 1), ("b", -1)])], ..Commit::default() };
            assert_eq!(store.commit(commit).await, Outcome::Done);
            store.close().await;
            said.push(migrate::run(&options(folder.path(), &database), |_| {}).await);
        }
        assert!(said[0].as_ref().unwrap().is_same());
        assert!(matches!(said[1], Err(Error::Taken)) && matches!(said[2], Err(Error::Taken)), "{said:?}");
    });
}

#[test]
fn a_migration_that_ends_with_differences_lets_nobody_in() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        filled(folder.path()).await;
        let (settings, mut spoilt) = (options(folder.path(), &database), false);
        let summary = migrate::run(&settings, |step| {
            if !spoilt && matches!(step, MigrationStep::Compared { .. }) {
                database.run("delete from rialto.alias");
                spoilt = true;
            }
        });
        let summary = summary.await.unwrap();
        assert!(!summary.is_same(), "{summary}");
        assert!(matches!(
            postgres::PostgresStore::open(at(&database)).await.err().unwrap(),
            postgres::PostgresOpenError::Migrating
        ));
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
