//! Everything arrives, also after an interruption, and later rows are numbered after it.

use std::collections::BTreeMap;

use cluster::Cluster;
use model::ports::store::{Append, Commit, Conflict, Outcome, Replicas as _, Upkeep as _};
use model::{Body, Epoch, Event, Seq, TaskId, Time, View, stored};
use stores::conformance::Random;
use stores::migrate::{self, MigrationStep, Options};
use stores::postgres;
use uuid::Uuid;

use crate::kit::*;

#[test]
fn everything_is_there_afterwards() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        let tasks = filled(folder.path()).await;
        let mut steps = Vec::new();
        let summary = migrate::run(&options(folder.path(), &database), &mut |step| steps.push(step)).await.unwrap();
        assert!(summary.is_same(), "{summary}");
        assert!(!steps.contains(&MigrationStep::Resumed));
        let told = summary.to_string();
        assert!(told.contains("both are the same"), "{told}");
        // Nothing of it is empty, or it would prove nothing.
        for line in summary.lines.iter().filter(|line| !line.what.starts_with("wrong")) {
            assert!(line.from > 0 && line.to == line.from, "{line:?}");
        }
        let again = migrate::verify(&options(folder.path(), &database), &mut |_| {}).await.unwrap();
        assert_eq!(again, summary);
        alike(&from(folder.path()), &to(&database).await, &tasks).await;
    });
}

#[test]
fn the_default_batches_carry_the_same() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        let tasks = filled(folder.path()).await;
        let summary = migrate::run(&Options::new(folder.path(), at(&database)), &mut |_| {}).await.unwrap();
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
            let work = async {
                migrate::run(&options, &mut |step| {
                    resumed |= step == MigrationStep::Resumed;
                    mine += u64::from(matches!(step, MigrationStep::Copied { .. }));
                    match steps_left.get().checked_sub(1) {
                        Some(left) => steps_left.set(left),
                        None => cut.notify_one(),
                    }
                })
                .await
            };
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
            let work = async {
                migrate::run(&options, &mut |step| {
                    if let MigrationStep::Copied { what, rows } = step {
                        let before = std::mem::replace(before.entry(what).or_default(), rows);
                        batches.entry(what).or_default().push(rows - before);
                        cut.notify_one();
                    }
                })
                .await
            };
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
        let summary = migrate::run(&Options { notes, ..options(folder.path(), &database) }, &mut |_| {}).await.unwrap();
        assert!(summary.is_same(), "{summary}");
        let store = postgres::PostgresStore::open(at(&database)).await.unwrap();
        assert_eq!(store.remember("seal key", "theirs").await.unwrap(), "ours");
        assert_eq!(store.remember("token key", "theirs").await.unwrap(), "theirs");
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
