//! Data folders with something of everything, and the comparison of two stores.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cluster::Database;
use model::ports::store::{
    AliasWrite, Append, BlobWrite, Commit, Health, IndexRow, KeyUse, ListQuery, LogHead, Opening, Outcome, Store,
    Timer, TimerChange, TimerKind,
};
use model::{
    AccessKey, Body, ContextId, Entry, Epoch, Event, Expect, Listed, Opened, Posting, PushRow, PushState, RecordChange,
    RecordQuery, Seq, State, StatusChange, TaskId, TextChange, TextQuery, Time, TurnId, View, stored,
};
use stores::conformance::{Random, fill};
use stores::migrate::{self, BatchLimits, Options, Summary};
use stores::{postgres, sqlite};
use uuid::Uuid;

pub(crate) type Shelf = Arc<dyn Store>;

pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work)
}

pub(crate) fn from(folder: &Path) -> Shelf {
    Arc::new(sqlite::SqliteStore::open(sqlite::Options::new(folder)).unwrap())
}

pub(crate) fn at(database: &Database) -> postgres::Options {
    postgres::Options { lease: Duration::from_millis(500), ..postgres::Options::new(database.url()) }
}

pub(crate) async fn to(database: &Database) -> Shelf {
    Arc::new(postgres::PostgresStore::open(at(database)).await.unwrap())
}

/// In batches so small that there are many.
pub(crate) fn options(folder: &Path, database: &Database) -> Options {
    Options { batch: BatchLimits { rows: 7, bytes: 3_000 }, ..Options::new(folder, at(database)) }
}

pub(crate) async fn migrated(folder: &Path, database: &Database) -> Summary {
    let summary = migrate::run(&options(folder, database), &mut |_| {}).await.unwrap();
    assert!(summary.is_same(), "{summary}");
    summary
}

pub(crate) fn access(id: &str) -> AccessKey {
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
pub(crate) fn running(task: TaskId, starts: u32, epoch: Epoch) -> Append {
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
pub(crate) fn put(kind: &str, key: &str, body: &str, lists: &[(&str, i64)]) -> RecordChange {
    let lists = lists.iter().map(|(list, rank)| Listed { list: (*list).into(), rank: *rank }).collect();
    let body = body.to_owned().into();
    RecordChange::Put { kind: kind.into(), key: key.into(), expect: Expect::Any, body, lists }
}

/// The nth entry: an id of its own, and these amounts.
pub(crate) fn entry(n: u128, postings: &[(&str, i64)]) -> Entry {
    let posting =
        |(account, amount): &(&str, i64)| Posting { account: (*account).into(), amount: *amount, floor: None };
    Entry {
        id: Uuid::from_u128(n),
        at: Time(1_000 + n as i64),
        body: format!("entry {n}").into(),
        postings: postings.iter().map(posting).collect(),
    }
}

pub(crate) const KINDS: [&str; 3] = ["k", "other", ""];
pub(crate) const LISTS: [&str; 3] = ["all", "few", ""];
pub(crate) const ACCOUNTS: [&str; 5] = ["bank", "ann", "bob", "ünï\0code", ""];

/// Records that were put, changed, moved and removed, and a journal. Always the same.
pub(crate) async fn products(store: &Shelf) {
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
pub(crate) async fn filled(folder: &Path) -> Vec<TaskId> {
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
pub(crate) async fn alike(one: &Shelf, other: &Shelf, tasks: &[TaskId]) {
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
pub(crate) async fn products_alike(one: &Shelf, other: &Shelf) {
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
