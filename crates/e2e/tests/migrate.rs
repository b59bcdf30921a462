//! `rialto migrate` from a data folder to a database: callers before the migration continue after it without a
//! difference.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cluster::{Cluster, Database};
use e2e::poll::{PATIENCE, until};
use e2e::store::VARIABLE;
use e2e::{Receiver, Server, fresh_id, message, script, send, setup, to_task};
use serde_json::{Value, json};

const HASTY: &str = "retry_ms: 20, timeout_ms: 500, breaker_ms: 100";

fn command(data: &Path, url: &str, more: &[&str]) -> Command {
    let from = format!("sqlite:{}", data.display());
    let mut command = Command::new(setup::binary());
    command.args(["migrate", "--from", &from, "--to", &format!("env:{VARIABLE}")]).args(more).env(VARIABLE, url);
    command
}

fn migrate(data: &Path, url: &str, more: &[&str]) -> Output {
    command(data, url, more).output().expect("rialto runs")
}

/// A database with a partial migration, which was killed as soon as something was copied. A migration that ended
/// before the kill is discarded.
fn begun(data: &Path) -> Database {
    until("a migration was killed in time", PATIENCE, || {
        let database = Cluster::shared().database();
        let mut command = command(data, &database.url(), &[]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("rialto runs");
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(line.starts_with("copied "), "{line}");
        let unfinished = "select 1 from rialto.migration where finished_at is null";
        (database.query(unfinished).len() == 1).then_some(database)
    })
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn ids(page: &Value) -> Vec<String> {
    page["tasks"].as_array().unwrap().iter().map(|task| task["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_server_moves_to_a_database_and_its_callers_notice_nothing() {
    let database = Cluster::shared().database();
    let receiver = Receiver::start();
    let mut old = Server::options().config(&format!("push: {{ {HASTY} }}\n")).sqlite_only("a migration").start();
    let (echo, scripted) = (old.agent("echo"), old.agent("scripted"));

    // Tasks in every state, with their related data.
    let done: Vec<String> =
        (0..23).map(|n| echo.send(message(&format!("word {n}")))["id"].as_str().unwrap().to_owned()).collect();
    let large = "x".repeat(100_000);
    let kept = echo.send(message(&large));
    let (key, params) = (fresh_id(), send(message("once")));
    let once = echo.with("Idempotency-Key", &key).rpc("SendMessage", params.clone()).unwrap();
    let failed = scripted.send(script(json!([{ "fail": "no" }])));
    let rejected = scripted.send(script(json!([{ "reject": "never" }])));
    let asked = scripted.rpc(
        "SendMessage",
        json!({
            "message": script(json!([{ "input": "well?" }, { "echo": true }, { "complete": "done" }])),
            "configuration": {
                "taskPushNotificationConfig": { "id": "hook", "url": receiver.url("/hook"), "token": "tok" },
            },
        }),
    );
    let asked = asked.unwrap()["task"].clone();
    let asked_id = asked["id"].as_str().unwrap();
    assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    let canceled = scripted.open(script(json!([{ "status": "working" }, { "hang": true }])));
    let canceled = scripted.rpc("CancelTask", json!({ "id": canceled["id"] })).unwrap();
    let at_work = [json!({ "restart": "retry" }), json!({ "restart": "fail" })].map(|rule| {
        let steps = json!([rule, { "status": "working", "text": "at it" }, { "hang": true }]);
        let id = scripted.open(script(steps))["id"].as_str().unwrap().to_owned();
        scripted.in_state(&id, "TASK_STATE_WORKING");
        id
    });
    let [running, doomed] = &at_work;
    let made = old.operate(&["keys", "create", "alice", "--tenant", "acme", "-o", "json"]).output().unwrap();
    assert!(made.status.success(), "{}", said(&made));
    let first = echo.rpc("ListTasks", json!({ "pageSize": 10 })).unwrap();
    receiver.until("the webhook has heard the question", |all| !all.is_empty());

    // Refused while the folder is served.
    let refused = migrate(&old.data(), &database.url(), &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("in use by another rialto"), "{}", said(&refused));
    old.kill9();

    let nothing = migrate(&old.data(), &database.url(), &["--verify-only"]);
    assert!(!nothing.status.success() && said(&nothing).contains("without --verify-only first"), "{}", said(&nothing));
    // A killed migration continues where it stopped, and keeps replicas out until it is done.
    let database = begun(&old.data());
    let options = Server::options().database(&database.url());
    let folder = tempfile::tempdir().unwrap();
    let early = Server::command(&options, &e2e::server::free_address().to_string(), folder.path()).output().unwrap();
    assert!(!early.status.success() && said(&early).contains("migration"), "{}", said(&early));
    let moved = migrate(&old.data(), &database.url(), &[]);
    assert!(said(&moved).contains("it goes on where it was"), "{}", said(&moved));
    assert!(moved.status.success(), "{}", said(&moved));
    assert!(said(&moved).contains("both are the same") && said(&moved).contains("seal.key"), "{}", said(&moved));
    assert!(!said(&moved).contains(database.password()), "{}", said(&moved));
    let same = migrate(&old.data(), &database.url(), &["--verify-only", "-o", "json"]);
    assert!(same.status.success(), "{}", said(&same));
    let same: Value = serde_json::from_slice(&same.stdout).unwrap();
    assert_eq!((&same["same"], &same["remarks"]), (&json!(true), &json!([])), "{same}");
    let again = migrate(&old.data(), &database.url(), &[]);
    assert!(!again.status.success() && said(&again).contains("--verify-only"), "{}", said(&again));

    // A replica with its own key could not open the webhooks, and is refused.
    let folder = tempfile::tempdir().unwrap();
    let stranger = Server::command(&options, &e2e::server::free_address().to_string(), folder.path()).output().unwrap();
    assert!(!stranger.status.success() && said(&stranger).contains("seal key"), "{}", said(&stranger));

    let config = format!("push: {{ {HASTY}, key_file: {} }}\n", old.data().join("seal.key").display());
    let new = Server::options().config(&config).database(&database.url()).start();
    let (echo, scripted) = (new.agent("echo"), new.agent("scripted"));

    // The page token of the old server is valid here.
    let mut seen = ids(&first);
    let mut page = first;
    while let Some(token) = page["nextPageToken"].as_str().filter(|token| !token.is_empty()) {
        page = echo.rpc("ListTasks", json!({ "pageSize": 10, "pageToken": token })).unwrap();
        seen.extend(ids(&page));
    }
    let mut expected: Vec<String> = done.into_iter().rev().collect();
    expected.insert(0, kept["id"].as_str().unwrap().to_owned());
    expected.insert(0, once["task"]["id"].as_str().unwrap().to_owned());
    assert_eq!(seen, expected);

    for before in [&kept, &once["task"], &failed, &rejected, &canceled, &asked] {
        let now = scripted.rpc("GetTask", json!({ "id": before["id"] }));
        let now = now.or_else(|_| echo.rpc("GetTask", json!({ "id": before["id"] }))).unwrap();
        assert_eq!((&now["status"], &now["artifacts"]), (&before["status"], &before["artifacts"]));
    }
    assert_eq!(kept["artifacts"][0]["parts"][0]["text"], large);
    let repeated = echo.with("Idempotency-Key", &key).rpc("SendMessage", params).unwrap();
    assert_eq!(repeated["task"]["id"], once["task"]["id"], "the key is known here, too");
    let keys = new.operate(&["keys", "list", "-o", "json"]).output().unwrap();
    assert!(said(&keys).contains("alice"), "{}", said(&keys));

    // The turns that were running are recovered by their agent's rule: one fails, the other runs on and this server
    // can cancel it.
    let over = scripted.settled(doomed);
    assert_eq!(over["status"]["state"], "TASK_STATE_FAILED", "{over}");
    let shown = || new.operate(&["task", "show", running]).output().map(|shown| said(&shown)).unwrap();
    until("the turn was taken up", PATIENCE, || shown().contains("\"restarted\"").then_some(()));
    let stopped = scripted.rpc("CancelTask", json!({ "id": running })).unwrap();
    assert_eq!(stopped["status"]["state"], "TASK_STATE_CANCELED", "{stopped}");

    // A question of the old server is answered here, and its webhook gets the events in order, without a gap.
    let answered = scripted.send(to_task(message("fine"), asked_id));
    assert_eq!(answered["status"]["state"], "TASK_STATE_COMPLETED", "{answered}");
    receiver.until("the webhook has heard the end", |all| {
        all.iter().any(|delivery| delivery.taken && delivery.json().to_string().contains("TASK_STATE_COMPLETED"))
    });
    let told: Vec<u64> = receiver.ordered()["/hook"].iter().map(|delivery| delivery.event().1).collect();
    assert!(told.is_sorted_by(|a, b| a < b), "{told:?}");

    // From now on the two differ, and the comparison reports it.
    drop(new);
    let differs = migrate(&old.data(), &database.url(), &["--verify-only"]);
    assert_eq!(differs.status.code(), Some(1));
    assert!(said(&differs).contains("they are NOT the same"), "{}", said(&differs));
}
