//! Tests of this store alone: the lock, the file's version, and faults of the disk.

use std::sync::Arc;

use model::ports::store::{
    Append, Commit, IndexRow, Journal as _, ListQuery, Opening, Outcome, RecordStore as _, StoreError, TaskLists as _,
    TaskLog as _, Upkeep as _,
};
use model::{
    Body, ContextId, Entry, Event, Expect, Listed, Posting, PushChange, PushProgress, PushRow, PushState, RecordChange,
    RecordQuery, Seq, State, TaskId, Time, View, stored,
};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::queue::{JobQueue, WriterJob};
use super::{Options, SqliteOpenError, SqliteStore, folder, schema};

fn opening(payload: usize) -> Append {
    Append {
        task: TaskId(Uuid::now_v7()),
        expected: Seq::ZERO,
        epoch: None,
        count: 1,
        payload: vec![b' '; payload].into(),
        open: Some(Opening {
            context: ContextId::from(Uuid::now_v7().to_string().as_str()),
            fresh_context: true,
            tenant: "t".into(),
            agent: "a".into(),
            views: vec![View("v".into())],
        }),
        row: Some(IndexRow {
            state: State::Completed,
            status_at: Time(1),
            listed: true,
            running: false,
            settled: true,
        }),
    }
}

fn one(append: Append) -> Commit {
    Commit { appends: vec![append], ..Commit::default() }
}

impl SqliteStore {
    /// Runs SQL on the writer's own connection.
    async fn on_writer(&self, text: &str) {
        let (answer, answered) = oneshot::channel();
        self.shared.queue.push(WriterJob::Pragma { text: text.into(), answer }).unwrap();
        answered.await.unwrap();
    }
}

async fn total(store: &SqliteStore) -> u64 {
    let query = ListQuery {
        views: vec![View("v".into())],
        context: None,
        state: None,
        since: None,
        after: None,
        limit: 1,
        count: true,
    };
    store.list(query).await.unwrap().total.unwrap()
}

#[test]
fn a_second_process_is_refused_and_told_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options::new(folder.path())).unwrap();
    let error = SqliteStore::open(Options::new(folder.path())).err().unwrap();
    let text = error.to_string();
    assert!(matches!(error, SqliteOpenError::InUse { .. }), "{text}");
    assert!(text.contains(&format!("process {}", std::process::id())) && text.contains("--data"), "{text}");
    drop(store);
    SqliteStore::open(Options::new(folder.path())).unwrap();
}

#[test]
fn a_newer_file_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(Options::new(folder.path())).unwrap());
    let file = folder::database(folder.path());
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 4_000).unwrap();
    let error = SqliteStore::open(Options::new(folder.path())).err().unwrap();
    assert!(matches!(error, SqliteOpenError::Newer { found: 4_000, .. }), "{error}");
    assert!(error.to_string().contains("newer rialto"), "{error}");
    // The refusal has let go of the folder.
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", super::schema::VERSION).unwrap();
    SqliteStore::open(Options::new(folder.path())).unwrap();
}

/// Writes what every release since the first could have written: one task with one event, listed and counted.
fn write_in_first_schema(db: &rusqlite::Connection, task: TaskId, event: &Event) {
    db.execute_batch(
        "INSERT INTO name (no, text) VALUES (1, 't'), (2, 'a'), (3, 'v');
         INSERT INTO listing (view_no, state, status_at, task_no) VALUES (3, 3, 5, 1);
         INSERT INTO listing_by_context (view_no, context, status_at, task_no, state) VALUES (3, 'c', 5, 1, 3);
         INSERT INTO counter (view_no, kind, n) VALUES (0, 0, 1), (0, 3, 1), (0, 17, 1), (3, 0, 1), (3, 3, 1);",
    )
    .unwrap();
    db.execute(
        "INSERT INTO task (no, id, context, tenant_no, agent_no, views, epoch, state, status_at, listed, running, settled)
         VALUES (1, ?1, 'c', 1, 2, x'03000000', 4, 3, 5, 1, 0, 1)",
        [task.0.as_bytes()],
    )
    .unwrap();
    let payload = stored::encode(std::slice::from_ref(event));
    db.execute("INSERT INTO log (key, last_seq, payload) VALUES ((1 << 26) + 1, 1, ?1)", [payload]).unwrap();
}

/// Lists of records had names once, and an index of their own told which ones a record is in.
#[tokio::test]
async fn records_of_the_sixth_schema_are_where_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(folder::database(folder.path())).unwrap();
    for migration in &schema::MIGRATIONS[..6] {
        db.execute_batch(migration).unwrap();
    }
    db.pragma_update(None, "application_id", schema::APPLICATION).unwrap();
    db.pragma_update(None, "user_version", 6).unwrap();
    db.execute_batch(
        "INSERT INTO record VALUES (1, 'k', 'a', 3, x'01'), (2, 'k', 'b', 1, x'02'), (3, 'other', 'a', 1, x'03');
         INSERT INTO record_list VALUES ('k', 'all', 10, 'a', 1), ('k', 'mine', -5, 'a', 1), ('k', 'all', 20, 'b', 2),
                                        ('other', 'all', 1, 'a', 3);",
    )
    .unwrap();
    drop(db);

    let store = SqliteStore::open(Options::new(folder.path())).unwrap();
    let keys = async |kind: &str, list: &str| {
        let (kind, list) = (kind.into(), list.into());
        let query = RecordQuery { kind, list, after: None, skip: 0, limit: 10, count: true };
        let page = store.records(query).await.unwrap();
        assert_eq!(page.total, Some(page.records.len() as u64));
        page.records.into_iter().map(|(record, rank)| (record.key.to_string(), rank)).collect::<Vec<_>>()
    };
    assert_eq!(keys("k", "all").await, [("b".to_owned(), 20), ("a".to_owned(), 10)]);
    assert_eq!(keys("k", "mine").await, [("a".to_owned(), -5)]);
    assert_eq!(keys("other", "all").await, [("a".to_owned(), 1)]);
    // A changed record leaves the lists it is no longer in.
    let lists = vec![Listed { list: "mine".into(), rank: -5 }];
    let (kind, key, body) = ("k".into(), "a".into(), "four".into());
    let records = vec![RecordChange::Put { kind, key, expect: Expect::Version(3), body, lists }];
    assert_eq!(store.commit(Commit { records, ..Commit::default() }).await, Outcome::Done);
    assert_eq!(keys("k", "all").await, [("b".to_owned(), 20)]);
    assert_eq!(keys("k", "mine").await, [("a".to_owned(), -5)]);
    assert_eq!(store.record("k".into(), "a".into()).await.unwrap().unwrap().version, 4);
}

/// Postings had rows of their own once, in the order of their accounts.
#[tokio::test]
async fn a_journal_of_the_seventh_schema_reads_as_it_was_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let db = rusqlite::Connection::open(folder::database(folder.path())).unwrap();
    for migration in &schema::MIGRATIONS[..7] {
        db.execute_batch(migration).unwrap();
    }
    db.pragma_update(None, "application_id", schema::APPLICATION).unwrap();
    db.pragma_update(None, "user_version", 7).unwrap();
    db.execute_batch(
        "INSERT INTO entry VALUES (1, x'00000000000000000000000000000001', 10, x'01'),
                                  (3, x'00000000000000000000000000000003', 30, x'03'),
                                  (4, x'00000000000000000000000000000004', 40, x'04');
         INSERT INTO posting VALUES ('out', 1, 0, -9223372036854775807, -9223372036854775807),
                                    ('a', 1, 1, 9223372036854775807, 9223372036854775807),
                                    ('b', 3, 0, 5, 5), ('a', 3, 1, -5, 9223372036854775802),
                                    ('a', 4, 0, -2, 9223372036854775800), ('b', 4, 1, 2, 7);
         INSERT INTO account VALUES ('a', 9223372036854775800), ('b', 7), ('out', -9223372036854775807);
         INSERT INTO counter VALUES (0, 26, 3);",
    )
    .unwrap();
    drop(db);

    let store = SqliteStore::open(Options::new(folder.path())).unwrap();
    let lines = async |account: &str, before, limit| {
        let lines = store.statement(account.into(), before, limit).await.unwrap();
        lines.into_iter().map(|line| (line.no, line.at.0, line.amount, line.balance)).collect::<Vec<_>>()
    };
    let most = i64::MAX;
    assert_eq!(lines("a", None, 9).await, [(4, 40, -2, most - 7), (3, 30, -5, most - 5), (1, 10, most, most)]);
    assert_eq!(lines("b", None, 9).await, [(4, 40, 2, 7), (3, 30, 5, 5)]);
    // From an entry of the account's own, from one of others, from none, and from beyond the end.
    assert_eq!(lines("a", Some(3), 9).await, [(1, 10, most, most)]);
    assert_eq!(lines("b", Some(1), 9).await, []);
    assert_eq!(lines("b", Some(4), 1).await, [(3, 30, 5, 5)]);
    assert_eq!(lines("a", Some(2), 9).await, [(1, 10, most, most)]);
    assert_eq!(lines("a", Some(u64::MAX), 1).await, [(4, 40, -2, most - 7)]);
    let journal = store.journal(0, 9).await.unwrap();
    let told = journal.iter().map(|(no, entry)| {
        let postings = entry.postings.iter().map(|posting| (posting.account.to_string(), posting.amount));
        (*no, entry.id.as_u128(), entry.body[0], postings.collect::<Vec<_>>())
    });
    let posted = |account: &str, amount| (account.to_owned(), amount);
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (1, 1, 1, vec![posted("out", -most), posted("a", most)]),
            (3, 3, 3, vec![posted("b", 5), posted("a", -5)]),
            (4, 4, 4, vec![posted("a", -2), posted("b", 2)]),
        ]
    );
    // A new entry continues the old balances.
    let postings = [("b", -7), ("new", 7)]
        .map(|(account, amount)| Posting { account: account.into(), amount, floor: Some(0) })
        .to_vec();
    let entries = vec![Entry { id: Uuid::from_u128(5), at: Time(50), body: "5".into(), postings }];
    assert_eq!(store.commit(Commit { entries, ..Commit::default() }).await, Outcome::Done);
    assert_eq!(lines("b", None, 2).await, [(5, 50, -7, 0), (4, 40, 2, 7)]);
    assert_eq!(lines("new", None, 2).await, [(5, 50, 7, 7)]);
    assert_eq!(store.balances(vec!["b".into(), "new".into(), "a".into()]).await.unwrap(), [0, 7, most - 7]);
    store.close().await;
    let store = SqliteStore::open(Options::new(folder.path())).unwrap();
    assert_eq!(store.balances(vec!["b".into(), "new".into()]).await.unwrap(), [0, 7]);
}

#[tokio::test]
async fn a_file_of_every_earlier_schema_opens_with_what_it_holds() {
    for version in 1..schema::VERSION {
        let folder = tempfile::tempdir().unwrap();
        let task = TaskId(Uuid::now_v7());
        let event = Event { seq: Seq(1), at: Time(5), body: Body::Bound { remote: "there".into() } };
        let db = rusqlite::Connection::open(folder::database(folder.path())).unwrap();
        for migration in &schema::MIGRATIONS[..version as usize] {
            db.execute_batch(migration).unwrap();
        }
        db.pragma_update(None, "application_id", schema::APPLICATION).unwrap();
        db.pragma_update(None, "user_version", version).unwrap();
        write_in_first_schema(&db, task, &event);
        drop(db);

        let store = SqliteStore::open(Options::new(folder.path())).unwrap();
        let row = IndexRow { state: State::Completed, status_at: Time(5), listed: true, running: false, settled: true };
        assert_eq!(store.head(task).await.unwrap().map(|head| (head.seq, head.row)), Some((Seq(1), row)));
        assert_eq!(store.events(task, Seq::ZERO, 1_000).await.unwrap(), [event]);
        assert_eq!(total(&store).await, 1);
        // Tables of later releases exist, and are empty.
        assert_eq!(store.alias([1; 32]).await.unwrap(), None);
        assert_eq!(store.access_keys().await.unwrap(), []);
        assert_eq!(store.push(task).await.unwrap(), []);
        let health = store.health().await.unwrap();
        assert_eq!((health.schema, health.tasks, health.push_active, health.push_dead), (schema::VERSION, 1, 0, 0));
        // And takes what is new, for an old task too.
        let progress = PushProgress::from(Seq(2), Time(6));
        let spec = "sealed".into();
        let config =
            PushRow { task, id: "p".into(), edition: 1, epoch: model::Epoch(0), spec, made_at: Time(6), progress };
        let push = vec![PushChange::Put(config.clone())];
        assert_eq!(store.commit(Commit { push, ..Commit::default() }).await, Outcome::Done);
        store.close().await;
        let store = SqliteStore::open(Options::new(folder.path())).unwrap();
        assert_eq!(store.pushes(PushState::Active, None, 10).await.unwrap(), [config], "from version {version}");
        assert_eq!(store.purge(Time(9), Time(0), 10).await.unwrap(), 1);
        assert_eq!(store.health().await.unwrap().push_active, 0);
    }
}

#[test]
fn a_file_of_another_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder::database(folder.path());
    rusqlite::Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    assert!(matches!(SqliteStore::open(Options::new(folder.path())), Err(SqliteOpenError::Foreign)));
    std::fs::write(&file, "no database at all, but long enough to look like one might").unwrap();
    assert!(matches!(SqliteStore::open(Options::new(folder.path())), Err(SqliteOpenError::Sql(_))));
}

#[tokio::test]
async fn a_full_disk_refuses_commits_lets_reads_pass_and_heals_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options::new(folder.path())).unwrap();
    let first = opening(1_000);
    let task = first.task;
    assert_eq!(store.commit(one(first)).await, Outcome::Done);
    // The smallest number there is: the file as it is now.
    store.on_writer("PRAGMA max_page_count = 1").await;
    assert_eq!(store.commit(one(opening(200_000))).await, Outcome::Refused(StoreError::Full));
    let health = store.health().await.unwrap();
    assert_eq!((health.trouble, health.tasks), (Some(StoreError::Full), 1));
    assert!(store.head(task).await.unwrap().is_some());
    assert_eq!(total(&store).await, 1);
    // Several at once: all refused, none half written.
    let group: Vec<_> = (0..20).map(|_| store.commit(one(opening(50_000)))).collect();
    for outcome in group {
        assert_eq!(outcome.await, Outcome::Refused(StoreError::Full));
    }
    store.on_writer("PRAGMA max_page_count = 1000000").await;
    assert_eq!(store.commit(one(opening(200_000))).await, Outcome::Done);
    assert_eq!(store.health().await.unwrap().trouble, None);
    assert_eq!(total(&store).await, 2);
}

#[tokio::test]
async fn a_read_only_disk_refuses_commits_and_heals_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options::new(folder.path())).unwrap();
    store.on_writer("PRAGMA query_only = 1").await;
    assert_eq!(store.commit(one(opening(100))).await, Outcome::Refused(StoreError::ReadOnly));
    assert_eq!(store.purge(Time(5), Time(0), 1).await, Err(StoreError::ReadOnly));
    assert_eq!(store.health().await.unwrap().trouble, Some(StoreError::ReadOnly));
    store.on_writer("PRAGMA query_only = 0").await;
    // No commit comes; the writer finds out on its own.
    while store.health().await.unwrap().trouble.is_some() {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.commit(one(opening(100))).await, Outcome::Done);
    assert_eq!(total(&store).await, 1);
}

#[tokio::test]
async fn a_commit_that_the_database_cannot_take_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options::new(folder.path())).unwrap();
    store
        .on_writer(
            "CREATE TEMP TRIGGER refuse BEFORE INSERT ON log WHEN length(new.payload) = 666
             BEGIN SELECT raise(ABORT, 'not this one'); END",
        )
        .await;
    let group: Vec<_> = (0..60).map(|n| store.commit(one(opening(if n % 20 == 7 { 666 } else { 100 })))).collect();
    for (n, outcome) in group.into_iter().enumerate() {
        match outcome.await {
            Outcome::Refused(StoreError::Broken(text)) if n % 20 == 7 => {
                assert!(text.contains("not this one"), "{text}");
            }
            Outcome::Done if n % 20 != 7 => {}
            other => panic!("commit {n}: {other:?}"),
        }
    }
    assert_eq!(total(&store).await, 57);
    // That was no trouble with the disk.
    assert_eq!(store.health().await.unwrap().trouble, None);
}

#[tokio::test]
async fn a_backup_taken_while_serving_opens_as_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(Options::new(folder.path())).unwrap());
    let mut known = Vec::new();
    for _ in 0..200 {
        let append = opening(3_000);
        known.push(append.task);
        assert_eq!(store.commit(one(append)).await, Outcome::Done);
    }
    let meanwhile: Vec<_> = (0..500).map(|_| store.commit(one(opening(500)))).collect();
    let copy = tempfile::tempdir().unwrap();
    store.backup(folder::database(copy.path())).await.unwrap();
    for outcome in meanwhile {
        assert_eq!(outcome.await, Outcome::Done);
    }
    let copy = SqliteStore::open(Options::new(copy.path())).unwrap();
    assert!(copy.epoch() > store.epoch());
    for task in known {
        assert_eq!(copy.head(task).await.unwrap(), store.head(task).await.unwrap());
    }
    assert_eq!(total(&copy).await, copy.health().await.unwrap().tasks);
}

#[tokio::test]
async fn the_write_ahead_log_stays_near_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { wal_limit_bytes: 1 << 20, ..Options::new(folder.path()) };
    let store = SqliteStore::open(options).unwrap();
    for _ in 0..60 {
        let group: Vec<_> = (0..50).map(|_| store.commit(one(opening(3_000)))).collect();
        for outcome in group {
            assert_eq!(outcome.await, Outcome::Done);
        }
        let wal = store.health().await.unwrap().wal_bytes;
        assert!(wal < 3 << 20, "the write-ahead log has {wal} bytes");
    }
    assert_eq!(total(&store).await, 3_000);
    store.close().await;
    assert!(!folder::wal(folder.path()).exists() || folder::wal(folder.path()).metadata().unwrap().len() == 0);
}

#[test]
fn a_queue_above_its_bounds_is_busy() {
    let queue = JobQueue::new(2, 10_000);
    assert!(queue.push_commit(one(opening(100))).is_ok());
    assert_eq!(queue.push_commit(one(opening(20_000))).err(), Some(StoreError::Busy));
    assert!(queue.push_commit(one(opening(100))).is_ok());
    assert_eq!(queue.push_commit(one(opening(100))).err(), Some(StoreError::Busy));
    // One commit alone is let in whatever its size.
    let queue = JobQueue::new(2, 10_000);
    assert!(queue.push_commit(one(opening(20_000))).is_ok());
    queue.close();
    assert_eq!(queue.push_commit(one(opening(100))).err(), Some(StoreError::Closed));
}

#[test]
fn a_writer_that_waits_for_more_chunks_is_woken_by_anything_else() {
    let chunk = || {
        let small = Append { expected: Seq(1), open: None, row: None, ..opening(100) };
        one(small)
    };
    let far = std::time::Instant::now() + std::time::Duration::from_secs(86_400);
    type Woken = fn(&JobQueue);
    let whatever: [Woken; 3] = [
        |queue| drop(queue.push_commit(one(opening(100))).unwrap()),
        |queue| drop(queue.push_commit(one(Append { open: None, row: None, ..opening(5_000) })).unwrap()),
        |queue| queue.close(),
    ];
    for anything in whatever {
        let queue = Arc::new(JobQueue::new(100, 1 << 20));
        let waits = std::thread::spawn({
            let queue = queue.clone();
            move || queue.linger(far)
        });
        queue.push_commit(chunk()).unwrap();
        queue.push_commit(chunk()).unwrap();
        assert!(!waits.is_finished());
        anything(&queue);
        waits.join().unwrap();
    }
    // Half of what there is room for is enough.
    let queue = JobQueue::new(4, 1 << 20);
    for _ in 0..2 {
        queue.push_commit(chunk()).unwrap();
    }
    queue.linger(far);
}

#[test]
fn no_statement_of_the_writer_reads_a_whole_table() {
    let folder = tempfile::tempdir().unwrap();
    drop(SqliteStore::open(Options::new(folder.path())).unwrap());
    let db = rusqlite::Connection::open(folder::database(folder.path())).unwrap();
    for text in super::statements::TEXTS.iter().filter(|text| !text.starts_with("PRAGMA")) {
        let mut explained = db.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
        let mut steps = explained.raw_query();
        while let Some(step) = steps.next().unwrap() {
            let step: String = step.get("detail").unwrap();
            // The last is a row by its number, in the words of a table that is not SQLite's own.
            let small = ["SCAN meta", "SCAN hours", "SCAN (subquery", "SCAN text_word VIRTUAL TABLE INDEX 0:="];
            assert!(!step.contains("SCAN") || small.iter().any(|s| step.starts_with(s)), "{step} in {text}");
        }
    }
}

/// An unreadable row stays, and keeps no other row from its work.
#[tokio::test]
async fn a_row_that_cannot_be_read_stops_no_purge() {
    let dir = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options::new(dir.path())).unwrap();
    let appends = [opening(10), opening(10), opening(10)];
    let tasks = appends.each_ref().map(|append| append.task);
    for append in appends {
        assert_eq!(store.commit(one(append)).await, Outcome::Done);
    }
    store.close().await;
    let db = rusqlite::Connection::open(super::folder::database(dir.path())).unwrap();
    db.execute("UPDATE task SET state = 99 WHERE id = ?1", [tasks[1].0.as_bytes()]).unwrap();
    drop(db);
    let store = SqliteStore::open(Options::new(dir.path())).unwrap();
    assert_eq!(store.purge(Time(100), Time(0), 10).await.unwrap(), 2);
    assert_eq!((store.head(tasks[0]).await.unwrap(), store.head(tasks[2]).await.unwrap()), (None, None));
    store.head(tasks[1]).await.unwrap_err();
}

fn mode(path: &std::path::Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn every_file_is_its_owners_alone() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("data");
    let store = SqliteStore::open(Options::new(&folder)).unwrap();
    assert_eq!(store.commit(one(opening(1_000))).await, Outcome::Done);
    let backup = above.path().join("copy");
    store.backup(backup.clone()).await.unwrap();
    assert_eq!((mode(&folder), mode(&backup)), (0o700, 0o600));
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    for name in ["rialto.db", "rialto.db-wal", "rialto.db-shm", "rialto.db-commits", "lock"] {
        assert!(files.contains(&folder.join(name)), "{name}: {files:?}");
    }
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

/// A data folder as a crash leaves it: everything that is there while the store is open.
fn crashed(folder: &std::path::Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for name in ["rialto.db", "rialto.db-wal", "rialto.db-commits"] {
        std::fs::copy(folder.join(name), copy.path().join(name)).unwrap();
    }
    copy
}

#[tokio::test]
async fn a_write_ahead_log_that_was_cut_is_reported_until_somebody_has_seen_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(Options::new(folder.path())).unwrap();
    for _ in 0..20 {
        assert_eq!(store.commit(one(opening(5_000))).await, Outcome::Done);
    }
    let (whole, cut, gone) = (crashed(folder.path()), crashed(folder.path()), crashed(folder.path()));
    store.close().await;
    let loss = |folder: &tempfile::TempDir| {
        let folder = folder.path().to_owned();
        async move {
            let store = SqliteStore::open(Options::new(folder)).unwrap();
            let health = store.health().await.unwrap();
            store.close().await;
            (health.loss, health.tasks)
        }
    };
    for healthy in [&folder, &whole] {
        assert_eq!(loss(healthy).await, (None, 20));
    }
    let wal = folder::wal(cut.path());
    let len = wal.metadata().unwrap().len();
    std::fs::OpenOptions::new().write(true).open(&wal).unwrap().set_len(len / 2).unwrap();
    let (found, tasks) = loss(&cut).await;
    let found = found.unwrap();
    assert!(tasks < 20 && found.pages > 0 && found.pages < found.of, "{tasks} {found:?}");
    assert_eq!(loss(&cut).await, (Some(found), tasks), "also at the next start");
    std::fs::remove_file(super::position::path(cut.path())).unwrap();
    assert_eq!(loss(&cut).await, (None, tasks));
    std::fs::remove_file(folder::wal(gone.path())).unwrap();
    // Without its log the file may not even have its tables: what is in it is what was copied.
    if let Ok(store) = SqliteStore::open(Options::new(gone.path())) {
        let found = store.health().await.unwrap().loss.unwrap();
        assert_eq!(found.pages, found.of);
    }
}
