//! Tests of a cluster's life: start, stop, restart, and the end of its process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cluster::{Cluster, Options};

#[test]
fn databases_are_fresh_and_survive_a_restart_and_a_crash() {
    let cluster = Cluster::start(Options::default().fsync(true));
    let (one, other) = (cluster.database(), cluster.database());
    assert_ne!(one.url(), other.url());
    one.run("create table t (n int, s text); insert into t values (1, 'a'), (2, null)");
    cluster.restart();
    assert_eq!(one.query("select * from t order by n"), [["1", "a"], ["2", ""]]);
    cluster.crash();
    cluster.start_again();
    assert_eq!(one.query("select count(*) from t"), [["2"]]);
    assert_eq!(other.query("select count(*) from pg_tables where schemaname = 'public'"), [["0"]]);
    assert_eq!(one.query("show fsync"), [["on"]]);
    assert!(cluster.log().contains("not properly shut down"));
}

#[test]
fn a_standby_follows_its_primary_and_a_primary_that_waits_for_it_stalls_without_it() {
    let cluster = Cluster::start(Options::default());
    let database = cluster.database();
    let standby = cluster.standby();
    database.run("alter system set synchronous_standby_names = '*'");
    database.run("select pg_reload_conf()");
    let started = Instant::now();
    while database.query("select sync_state from pg_stat_replication") != [["sync"]] {
        assert!(started.elapsed() < Duration::from_secs(60), "the standby follows");
        std::thread::sleep(Duration::from_millis(20));
    }
    database.run("create table t (n int)");
    standby.stop();
    let waits = std::thread::spawn({
        let database = database.clone();
        move || database.run("insert into t values (1)")
    });
    while database.query("select count(*) from pg_stat_activity where wait_event = 'SyncRep'") != [["1"]] {
        assert!(started.elapsed() < Duration::from_secs(60), "the commit waits");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(database.query("select count(*) from t"), [["0"]], "what waits is not seen");
    standby.start_again();
    waits.join().unwrap();
    assert_eq!(database.query("select count(*) from t"), [["1"]]);
}

#[test]
fn no_password_no_entry() {
    let database = Cluster::shared().database();
    let refused = Command::new("psql")
        .args(["-X", "-w", "-c", "select 1", &database.url().replace(database.password(), "wrong")])
        .output()
        .unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("password authentication failed"));
}

/// Runs this test again in a child process, which starts a cluster, prints its address and waits to be killed.
#[test]
fn it_goes_with_a_process_that_is_killed() {
    if std::env::var_os("RIALTO_CLUSTER_CHILD").is_some() {
        let cluster = Cluster::start(Options::default());
        let folder = cluster.database().query("show data_directory").remove(0).remove(0);
        eprintln!("\nfolder={folder} port={}", cluster.port());
        loop {
            std::thread::park();
        }
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["it_goes_with_a_process_that_is_killed", "--exact", "--nocapture"])
        .env("RIALTO_CLUSTER_CHILD", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let line = said.map(Result::unwrap).find(|line| line.starts_with("folder=")).unwrap();
    let (folder, port) = line.trim_start_matches("folder=").split_once(" port=").unwrap();
    let (folder, port): (_, u16) = (Path::new(folder).parent().unwrap(), port.parse().unwrap());
    assert!(folder.exists() && std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
    child.kill().unwrap();
    child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while folder.exists() || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(Instant::now() < deadline, "{} is still there", folder.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}
