//! Sources and targets that a migration refuses.

use cluster::Cluster;
use model::ports::store::{Commit, Outcome};
use stores::migrate::{self, Error};
use stores::sqlite;

use crate::kit::*;

#[test]
fn a_target_that_is_not_empty_is_refused() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        filled(folder.path()).await;
        let store = to(&database).await;
        let refused = migrate::run(&options(folder.path(), &database), &mut |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Open), "{refused}");
        let commit = Commit { access: vec![access("somebody's")], ..Commit::default() };
        assert_eq!(store.commit(commit).await, Outcome::Done);
        store.close().await;
        let refused = migrate::run(&options(folder.path(), &database), &mut |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Taken), "{refused}");
        let refused = migrate::verify(&options(folder.path(), &database), &mut |_| {}).await.unwrap_err();
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
            let refused = migrate::run(&options(folder.path(), &database), &mut |_| {}).await.unwrap_err();
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
            ended = async { migrate::run(&settings, &mut |_| cut.notify_one()).await } => Some(ended),
        };
        assert!(begun.is_none());
        let refused = migrate::run(&others, &mut |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Other), "{refused}");
        from(folder.path()).close().await;
        let refused = migrate::run(&settings, &mut |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Other), "{refused}");
        // As the words have it.
        database.run("drop schema rialto cascade");
        migrated(folder.path(), &database).await;
        let refused = migrate::run(&settings, &mut |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Finished), "{refused}");
        let refused = migrate::run(&others, &mut |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Taken), "{refused}");
        let refused = migrate::verify(&others, &mut |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::NotThis), "{refused}");
    });
}

#[test]
fn a_source_that_cannot_be_read_as_it_is_is_refused() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        let settings = options(folder.path(), &database);
        let refused = migrate::run(&settings, &mut |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Source(sqlite::SqliteOpenError::Missing { .. })), "{refused}");
        assert!(!folder.path().join("lock").exists(), "and nothing is made there");
        let store = from(folder.path());
        let refused = migrate::run(&settings, &mut |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Source(sqlite::SqliteOpenError::InUse { .. })), "{refused}");
        store.close().await;
        let db = rusqlite::Connection::open(folder.path().join("rialto.db")).unwrap();
        db.pragma_update(None, "user_version", 1).unwrap();
        drop(db);
        let refused = migrate::run(&settings, &mut |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Source(sqlite::SqliteOpenError::Older { .. })), "{refused}");
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
            said.push(migrate::run(&options(folder.path(), &database), &mut |_| {}).await);
        }
        assert!(said[0].as_ref().unwrap().is_same());
        assert!(matches!(said[1], Err(Error::Taken)) && matches!(said[2], Err(Error::Taken)), "{said:?}");
    });
}
