//! Differences between the source and the target are found.

use cluster::Cluster;
use stores::migrate::{self, MigrationStep};
use stores::postgres;

use crate::kit::*;

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
            let summary = migrate::verify(&settings, &mut |_| {}).await.unwrap();
            assert!(!summary.is_same(), "{what}");
            assert!(!summary.lines.iter().find(|found| found.what == line).unwrap().is_same(), "{what}: {summary}");
            assert!(summary.to_string().contains("they are NOT the same"));
            let overriding = if table == "name" { "overriding system value" } else { "" };
            database.run(&format!(
                "begin; delete from rialto.{table}; insert into rialto.{table} {overriding} select * from kept.rows; drop schema kept cascade; commit"
            ));
            let summary = migrate::verify(&settings, &mut |_| {}).await.unwrap();
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
            let summary = migrate::verify(&options(folder.path(), &database), &mut |_| {}).await.unwrap();
            assert!(!summary.lines.iter().find(|line| line.what == "wrong balances").unwrap().is_same(), "{summary}");
            let back = "delete from rialto.account; insert into rialto.account select * from kept; drop table kept";
            database.run(&format!("begin; {back}; commit"));
        }
    });
}

#[test]
fn a_migration_that_ends_with_differences_lets_nobody_in() {
    let (folder, database) = (tempfile::tempdir().unwrap(), Cluster::shared().database());
    wait(async {
        filled(folder.path()).await;
        let (settings, mut spoilt) = (options(folder.path(), &database), false);
        let summary = migrate::run(&settings, &mut |step| {
            if !spoilt && matches!(step, MigrationStep::Compared { .. }) {
                database.run("delete from rialto.alias");
                spoilt = true;
            }
        })
        .await
        .unwrap();
        assert!(!summary.is_same(), "{summary}");
        assert!(matches!(
            postgres::PostgresStore::open(at(&database)).await.err().unwrap(),
            postgres::PostgresOpenError::Migrating
        ));
        let again = migrate::run(&settings, &mut |_| {}).await.unwrap();
        assert!(!again.is_same(), "nothing mends it but an empty database: {again}");
    });
}
