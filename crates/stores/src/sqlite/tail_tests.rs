//! Where chunks of live turns are: few pages, no holes, and nothing left over.

use model::ports::store::{Append, Commit, IndexRow, Opening, Outcome, StoreError, TaskLog as _, Upkeep as _};
use model::{Body, ContextId, Epoch, Event, Seq, State, TaskId, Time, View, stored};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::queue::WriterJob;
use super::tail::{CUT_LEAST, LONGEST};
use super::{Options, SqliteDurability, SqliteStore, folder};

fn events(task: TaskId, first: u64, last: u64) -> Vec<Event> {
    let body = |seq| Body::Bound { remote: format!("{task}.{seq}") };
    (first..=last).map(|seq| Event { seq: Seq(seq), at: Time(seq as i64), body: body(seq) }).collect()
}

fn row(state: State) -> IndexRow {
    let settled = state.is_terminal();
    IndexRow { state, status_at: Time(1), listed: true, running: !settled, settled }
}

fn append(task: TaskId, expected: u64, count: u32, row: Option<IndexRow>) -> Commit {
    let open = (expected == 0).then(|| Opening {
        context: ContextId::from(task.to_string().as_str()),
        fresh_context: true,
        tenant: "t".into(),
        agent: "a".into(),
        views: vec![View("v".into())],
    });
    let payload = stored::encode(&events(task, expected + 1, expected + u64::from(count))).into();
    let append = Append { task, expected: Seq(expected), epoch: None, count, payload, open, row };
    Commit { appends: vec![append], ..Commit::default() }
}

/// A task with a turn that runs, of one event.
async fn running(store: &SqliteStore) -> TaskId {
    let task = TaskId(Uuid::now_v7());
    assert_eq!(store.commit(append(task, 0, 1, Some(row(State::Working)))).await, Outcome::Done);
    task
}

async fn chunks(store: &SqliteStore, task: TaskId, from: u64, to: u64) {
    let group: Vec<_> = (from..to).map(|seq| store.commit(append(task, seq, 1, None))).collect();
    for outcome in group {
        assert_eq!(outcome.await, Outcome::Done);
    }
}

async fn end(store: &SqliteStore, task: TaskId, from: u64) {
    assert_eq!(store.commit(append(task, from, 2, Some(row(State::Completed)))).await, Outcome::Done);
}

async fn has(store: &SqliteStore, task: TaskId, last: u64) {
    assert_eq!(store.head(task).await.unwrap().map(|head| head.seq), Some(Seq(last)));
    for after in [0, 1, last / 2, last] {
        let found = store.events(task, Seq(after), usize::MAX).await.unwrap();
        assert_eq!(found, events(task, after + 1, last), "after {after}");
    }
    assert_eq!(store.logs(vec![task, task]).await.unwrap(), [events(task, 1, last), events(task, 1, last)]);
}

fn open(folder: &tempfile::TempDir) -> SqliteStore {
    SqliteStore::open(Options { durability: SqliteDurability::Relaxed, ..Options::new(folder.path()) }).unwrap()
}

/// How many rows the tables have: log, tail.
fn rows(folder: &tempfile::TempDir) -> (i64, i64) {
    let db = rusqlite::Connection::open(folder::database(folder.path())).unwrap();
    let count = |table: &str| db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
    (count("log"), count("tail"))
}

/// The file as a crash would leave it, opened.
async fn after_a_crash(store: &SqliteStore) -> (tempfile::TempDir, SqliteStore) {
    let copy = tempfile::tempdir().unwrap();
    store.backup(folder::database(copy.path())).await.unwrap();
    let opened = open(&copy);
    (copy, opened)
}

#[tokio::test]
async fn the_chunks_of_a_turn_are_one_row_of_the_log_once_it_is_over() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (one, other) = (running(&store).await, running(&store).await);
    chunks(&store, one, 1, 11).await;
    chunks(&store, other, 1, 6).await;
    chunks(&store, one, 11, 13).await;
    assert_eq!(rows(&folder), (2, 17));
    has(&store, one, 13).await;
    has(&store, other, 6).await;
    end(&store, one, 13).await;
    assert_eq!(rows(&folder).0, 3);
    has(&store, one, 15).await;
    has(&store, other, 6).await;
    let health = store.health().await.unwrap();
    assert_eq!((health.tasks, health.events_rows), (2, 3 + 5));
    assert!(store.remove(other).await.unwrap());
    assert_eq!(store.events(other, Seq::ZERO, usize::MAX).await.unwrap(), []);
    assert_eq!(store.health().await.unwrap().events_rows, 2);
}

#[tokio::test]
async fn what_changes_more_than_the_length_takes_the_chunks_before_it_along() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let task = running(&store).await;
    chunks(&store, task, 1, 4).await;
    // Another holder.
    let mut taken = append(task, 4, 1, None);
    taken.appends[0].epoch = Some(Epoch(7));
    assert_eq!(store.commit(taken).await, Outcome::Done);
    assert_eq!(rows(&folder).0, 2);
    chunks(&store, task, 5, 7).await;
    // Too long to wait in the tail.
    assert_eq!(store.commit(append(task, 7, 200, None)).await, Outcome::Done);
    assert_eq!(rows(&folder).0, 3);
    chunks(&store, task, 207, 208).await;
    has(&store, task, 208).await;
    // A question ends the turn; what is said to a task at rest is no chunk.
    let rests = IndexRow { state: State::InputRequired, running: false, ..row(State::Working) };
    assert_eq!(store.commit(append(task, 208, 1, Some(rests))).await, Outcome::Done);
    assert_eq!(store.commit(append(task, 209, 1, None)).await, Outcome::Done);
    assert_eq!(rows(&folder).0, 5);
    has(&store, task, 210).await;
}

#[tokio::test]
async fn a_task_that_is_silent_does_not_make_the_tail_long() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let silent = running(&store).await;
    chunks(&store, silent, 1, 2).await;
    let busy = running(&store).await;
    let mut said = 1;
    for _ in 0..10 {
        chunks(&store, busy, said, said + 100).await;
        said += 100;
        let (_, tail) = rows(&folder);
        assert!(tail <= LONGEST + CUT_LEAST + 1_024, "{tail} rows");
    }
    assert!(rows(&folder).1 <= LONGEST + CUT_LEAST + 100);
    has(&store, silent, 2).await;
    has(&store, busy, said).await;
    end(&store, busy, said).await;
    end(&store, silent, 2).await;
    // With nothing alive behind them the dead go when there are enough to be worth it.
    let last = running(&store).await;
    chunks(&store, last, 1, 20).await;
    end(&store, last, 20).await;
    running(&store).await;
    assert!(rows(&folder).1 < CUT_LEAST * 2, "{:?}", rows(&folder));
    has(&store, silent, 4).await;
    has(&store, busy, said + 2).await;
}

#[tokio::test]
async fn after_a_crash_a_turn_goes_on_from_its_last_chunk() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (live, over) = (running(&store).await, running(&store).await);
    chunks(&store, over, 1, 6).await;
    chunks(&store, live, 1, 9).await;
    end(&store, over, 6).await;
    let (copy, again) = after_a_crash(&store).await;
    has(&again, live, 9).await;
    has(&again, over, 8).await;
    assert_eq!(again.health().await.unwrap().events_rows, store.health().await.unwrap().events_rows);
    let early = again.commit(append(live, 5, 1, None)).await;
    assert!(matches!(early, Outcome::Conflict(_)), "{early:?}");
    chunks(&again, live, 9, 12).await;
    has(&again, live, 12).await;
    end(&again, live, 12).await;
    again.close().await;
    let again = open(&copy);
    has(&again, live, 14).await;
    has(&again, over, 8).await;
}

#[tokio::test]
async fn a_number_that_is_used_again_finds_no_chunks_of_the_task_before() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let stays = running(&store).await;
    chunks(&store, stays, 1, 3).await;
    let gone = running(&store).await;
    chunks(&store, gone, 1, 9).await;
    assert!(store.remove(gone).await.unwrap());
    let (copy, again) = after_a_crash(&store).await;
    assert_eq!(rows(&copy).1, 2);
    let next = running(&again).await;
    has(&again, next, 1).await;
    chunks(&again, next, 1, 2).await;
    has(&again, next, 2).await;
    has(&again, stays, 3).await;
    let (_copy, third) = after_a_crash(&again).await;
    has(&third, next, 2).await;
    has(&third, stays, 3).await;
}

#[tokio::test]
async fn chunks_that_a_full_disk_refused_can_be_said_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let on_writer = async |text: &str| {
        let (answer, answered) = oneshot::channel();
        store.shared.queue.push(WriterJob::Pragma { text: text.into(), answer }).unwrap();
        answered.await.unwrap();
    };
    let task = running(&store).await;
    chunks(&store, task, 1, 40).await;
    on_writer("PRAGMA max_page_count = 1").await;
    // More than what the migrations have left free holds.
    let group: Vec<_> = (40..640).map(|seq| store.commit(append(task, seq, 1, None))).collect();
    let mut said = 40;
    for outcome in group {
        match outcome.await {
            Outcome::Done => said += 1,
            Outcome::Refused(StoreError::Full) | Outcome::Conflict(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(said < 640, "the disk was not full");
    has(&store, task, said).await;
    on_writer("PRAGMA max_page_count = 1000000").await;
    chunks(&store, task, said, 640).await;
    end(&store, task, 640).await;
    has(&store, task, 642).await;
}

#[tokio::test]
async fn a_task_that_is_removed_while_it_is_read_is_gone_and_not_half_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let task = running(&store).await;
    chunks(&store, task, 1, 5).await;
    // The pieces that a reader has looked up before its snapshot.
    let pieces = store.shared.tail.read().of(task).to_vec();
    assert_eq!(pieces.len(), 4);
    assert!(store.remove(task).await.unwrap());
    assert_eq!(rows(&folder).1, 4, "not cut off yet");
    let found = store.shared.pool.read(|db| {
        let mut found = Vec::new();
        super::tail::rows_after(db, &pieces, task, Seq::ZERO, |first, _| {
            found.push(first);
            Ok::<_, rusqlite::Error>(true)
        })?;
        Ok(found)
    });
    assert_eq!(found, Ok(vec![]));
}
