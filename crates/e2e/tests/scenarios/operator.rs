//! The operator's commands, beside a running server and without one.

use std::path::Path;
use std::process::Command;

use e2e::{Fold, Server, message, script, setup};
use serde_json::json;

/// Runs a command on a server's data: whether it succeeded, its stdout and its stderr.
fn rialto(words: &[&str], server: &Server) -> (bool, String, String) {
    let output = server.operate(words).output().unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn tasks_can_be_seen_canceled_and_removed_with_and_without_a_server() {
    let mut server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let done = scripted.send(message("done"));
    let idle = scripted.send(script(json!([{ "input": "well?" }])));
    let (done, idle) = (done["id"].as_str().unwrap(), idle["id"].as_str().unwrap());
    for running in [true, false] {
        if !running {
            server.terminate();
        }
        let (ok, out, err) = rialto(&["task", "list"], &server);
        assert!(ok, "{err}");
        assert!(out.contains(done) && out.contains(idle), "running {running}: {out}");
        let (ok, out, err) = rialto(&["task", "show", done], &server);
        assert!(ok && out.contains(done), "running {running}: {out}{err}");
        let (ok, out, err) = rialto(&["doctor"], &server);
        assert!(ok, "running {running}: {out}{err}");
        let (ok, _, err) = rialto(&["task", "show", "019aa000-0000-7000-8000-00000000abcd"], &server);
        assert!(!ok && err.contains("not found"), "{err}");
    }
    server.restart();
    let (ok, out, err) = rialto(&["task", "cancel", idle], &server);
    assert!(ok, "{out}{err}");
    assert_eq!(scripted.task(idle)["status"]["state"], "TASK_STATE_CANCELED");
}

#[test]
fn a_backup_of_a_running_server_brings_every_task_back() {
    let server = Server::options().sqlite_only("backup and restore").start();
    let scripted = server.agent("scripted");
    let tasks: Vec<_> = (0..20).map(|turn| scripted.send(message(&format!("task {turn}")))).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    let (ok, out, err) = rialto(&["backup", file.to_str().unwrap()], &server);
    assert!(ok, "{out}{err}");
    assert!(out.contains("seal.key in another place"), "{out}");

    let mut other = Server::options().sqlite_only("backup and restore").start();
    let (ok, _, err) = rialto(&["restore", file.to_str().unwrap()], &other);
    assert!(!ok, "a running server keeps its data");
    assert!(!err.is_empty());
    other.terminate();
    let (ok, _, err) = rialto(&["restore", file.to_str().unwrap()], &other);
    assert!(!ok && err.contains("--replace"), "nothing is overwritten unasked: {err}");
    let (ok, out, err) = rialto(&["restore", file.to_str().unwrap(), "--replace"], &other);
    assert!(ok, "{out}{err}");
    std::fs::copy(server.data().join("seal.key"), other.data().join("seal.key")).unwrap();
    other.restart();
    for task in &tasks {
        let again = other.agent("scripted").task(task["id"].as_str().unwrap());
        assert_eq!(Fold::of_task(&again), Fold::of_task(task));
    }
}

#[test]
fn a_database_is_not_backed_up_by_us_and_we_say_who_does() {
    let database = cluster::Cluster::shared().database();
    let server = Server::options().database(&database.url()).start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("backup");
    let (ok, _, err) = rialto(&["backup", file.to_str().unwrap()], &server);
    assert!(!ok && err.contains("pg_dump"), "{err}");
    assert!(!file.exists());
    // A command that has only the data folder asks the running server, and gets the same error.
    let mut alone = Command::new(setup::binary());
    let said = alone.args(["backup", file.to_str().unwrap()]).arg("--data").arg(server.data()).output().unwrap();
    assert!(!said.status.success() && String::from_utf8_lossy(&said.stderr).contains("pg_dump"), "{said:?}");
    std::fs::write(&file, "anything").unwrap();
    let (ok, _, err) = rialto(&["restore", file.to_str().unwrap()], &server);
    assert!(!ok && err.contains("pg_restore"), "{err}");
}

#[test]
fn a_config_can_be_checked_and_its_schema_printed() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good.yaml");
    std::fs::write(&good, "auth:\n  required: false\n").unwrap();
    let bad = folder.path().join("bad.yaml");
    std::fs::write(&bad, "auth:\n  requird: false\n").unwrap();
    let check = |file: &Path| {
        let output = Command::new(setup::binary()).args(["config", "check", "--config"]).arg(file).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let database = folder.path().join("database.yaml");
    for (yaml, says) in [
        ("store: env:E2E_NO_SUCH_VARIABLE\n", "E2E_NO_SUCH_VARIABLE"),
        ("store: { url: 'postgres://u@h/d', lease_ms: 1 }\n", "choose a number from 500"),
    ] {
        std::fs::write(&database, yaml).unwrap();
        let (ok, said) = check(&database);
        assert!(!ok && said.contains(says), "{said}");
    }
    std::fs::write(&database, "store: postgres://u:planted@h/d\n").unwrap();
    let (ok, said) = check(&database);
    assert!(ok && said.contains("warning") && said.contains("env:NAME") && !said.contains("planted"), "{said}");
    std::fs::write(&database, "store: postgres://u@h/d\n").unwrap();
    assert!(check(&database).0, "a database that is away is no mistake of the config");
    let (ok, said) = check(&good);
    assert!(ok, "{said}");
    let (ok, said) = check(&bad);
    assert!(!ok && said.contains("required"), "{said}");
    let schema = Command::new(setup::binary()).args(["config", "schema"]).output().unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert!(schema["properties"]["auth"].is_object(), "{schema}");
}
