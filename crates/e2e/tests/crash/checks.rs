//! Checks the restarted server against its answers before the kill.

use std::collections::BTreeSet;

use e2e::fold::is_settled;
use e2e::poll::PATIENCE;
use e2e::{Client, Fold, Frame, Server, message, to_task, until};
use serde_json::{Value, json};

use crate::load::{Rule, Told};

const COMPLETED: &str = "TASK_STATE_COMPLETED";
const FAILED: &str = "TASK_STATE_FAILED";
const IDLE: &str = "TASK_STATE_INPUT_REQUIRED";

pub(crate) fn check(server: &Server, thing: &Told) {
    match thing {
        Told::Settled { agent, task } => {
            let now = server.agent(agent).task(id_of(task));
            assert_eq!(now["status"], task["status"], "a settled task changed");
            assert_eq!(now["artifacts"], task["artifacts"], "a settled task changed");
            assert_eq!(now["contextId"], task["contextId"]);
        }
        Told::Idle { task } => check_idle(server, task),
        Told::Immediate { agent, task, rule, text } => {
            let now = server.agent(agent).settled(id_of(task));
            assert_eq!(now["contextId"], task["contextId"]);
            check_end(&now, *rule, std::slice::from_ref(text));
        }
        Told::Stream { frames, ended, rule, texts } => {
            check_stream(&server.agent("scripted"), frames, *ended, *rule, texts);
        }
        Told::Cut { task, rest } => {
            let scripted = server.agent("scripted");
            until(&format!("task {task} has come to rest in {rest:?}"), PATIENCE, || {
                let state = scripted.task(task)["status"]["state"].as_str().unwrap().to_owned();
                assert!(rest.contains(&state.as_str()) || !is_settled(&state), "{task} ended {state}");
                rest.contains(&state.as_str()).then_some(())
            });
        }
        Told::Alias { id, said, sending } => check_alias(server, id, said, sending.as_deref()),
        Told::Older { frames, ended } => check_older(server, frames, *ended),
        Told::Keyed { key, params, task } => {
            let client = server.agent("echo").with("Idempotency-Key", key);
            let again = client.rpc("SendMessage", params.clone()).unwrap();
            let once_more = client.rpc("SendMessage", params.clone()).unwrap();
            assert_eq!(again["task"]["id"], once_more["task"]["id"], "one key, one task");
            assert_eq!(again["task"]["status"]["state"], COMPLETED, "{again}");
            if let Some(id) = task {
                assert_eq!(again["task"]["id"], id.as_str(), "one key, one task");
            }
        }
    }
}

/// An idle task is unchanged, and continues when it is answered. The answer makes the check repeatable: a task
/// answered in an earlier round has completed.
fn check_idle(server: &Server, task: &Value) {
    let scripted = server.agent("scripted");
    let now = scripted.task(id_of(task));
    if now["status"]["state"] == IDLE {
        assert_eq!(now["status"], task["status"], "nothing happened to an idle task");
        let done = scripted.send(to_task(message("fine"), id_of(task)));
        assert_eq!(done["status"]["state"], COMPLETED, "{done}");
    } else {
        assert_eq!(now["status"]["state"], COMPLETED, "{now}");
    }
}

/// An alias names the same task after the crash, with every message whose receipt was acknowledged.
fn check_alias(server: &Server, id: &str, said: &[String], sending: Option<&str>) {
    let client = server.agent("scripted").without("A2A-Version");
    let task = match client.rpc("tasks/get", json!({ "id": id, "historyLength": 100 })) {
        Ok(task) => task,
        Err(error) => {
            assert!(said.is_empty(), "{id} was told, and is gone: {error}");
            return;
        }
    };
    assert_eq!(task["id"], id, "{task}");
    let history = task["history"].as_array().cloned().unwrap_or_default();
    let users = history.iter().filter(|message| message["role"] == "user");
    let found: Vec<&str> = users.map(|message| message["parts"][0]["text"].as_str().unwrap()).collect();
    let mut expected: Vec<&str> = said.iter().map(String::as_str).collect();
    if found.len() > expected.len() {
        expected.extend(sending);
    }
    assert_eq!(found, expected, "every message once, in order");
    if sending.is_none() {
        assert_eq!(task["status"]["state"], "input-required", "nothing happened to an idle task");
    }
}

/// The frames that a 0.3 client read are replayed with the same bytes, and then the rest.
fn check_older(server: &Server, seen: &[Frame], ended: bool) {
    let client = server.agent("scripted").with("A2A-Version", "0.3");
    let id = seen[0].task().to_owned();
    let again = client
        .with("Last-Event-ID", &format!("{id}.{}", seen[0].seq()))
        .stream("tasks/resubscribe", json!({ "id": id }))
        .unwrap_or_else(|error| panic!("{id} was told, and is gone: {error}"))
        .rest();
    assert_eq!(again[0].event()["kind"], "task");
    assert_eq!(bytes(&again[1..seen.len()]), bytes(&seen[1..]), "what was read comes again");
    let last = again.last().unwrap().event();
    assert_eq!(last["final"], true, "{last}");
    assert!(!ended || again.len() == seen.len(), "a stream that had ended goes on");
}

/// A task whose turn the crash may have interrupted: by its agent's rule it failed with a message, or was run again
/// in full.
fn check_end(task: &Value, rule: Rule, texts: &[String]) {
    let fold = Fold::of_task(task);
    match (fold.state.as_str(), rule) {
        (COMPLETED, _) => {
            let mut found: Vec<_> = fold.texts().into_values().collect();
            found.sort();
            let mut expected = texts.to_vec();
            expected.sort();
            assert_eq!(found, expected, "a completed task has all its text");
        }
        (FAILED, Rule::Fail) => {
            let why = &task["status"]["message"]["parts"][0]["text"];
            assert!(why.as_str().is_some_and(|text| !text.is_empty()), "a task that failed by a crash says so: {task}");
        }
        (state, rule) => panic!("a task of rule {rule:?} ended {state}: {task}"),
    }
}

fn check_stream(client: &Client, seen: &[Frame], ended: bool, rule: Rule, texts: &[String]) {
    let first = &seen[0];
    let last = seen.last().unwrap();
    let id = first.task().to_owned();
    let before = Fold::of_frames(seen);
    assert!(!ended || before.is_settled(), "a stream ended properly before its task had settled: {before:?}");

    // A client that resumes where the crash cut it off, possibly while the turn runs again.
    let missed = replay(client, &id, last.seq());
    assert_eq!(Fold::of_frames(&missed[..1]), before, "the task as of {}.{} is what its reader had", id, last.seq());
    let mut reconnected = before.clone();
    for frame in &missed[1..] {
        reconnected.apply(&frame.event());
    }

    // The task has settled, because that stream ended. The rule decides how.
    let now = client.settled(&id);
    check_end(&now, rule, texts);
    let now = Fold::of_task(&now);
    if before.is_settled() {
        assert_eq!(now, before, "a settled task changed");
    }
    assert_eq!(reconnected, now, "the reader who came back has the same task");

    // A client that reads everything from the first frame on.
    let whole = replay(client, &id, first.seq());
    assert_eq!(Fold::of_frames(&whole), now, "the reader who starts over has the same task");
    check_same(seen, &whole);

    // A client that left somewhere in between.
    let middle = &seen[seen.len() / 2];
    let tail = replay(client, &id, middle.seq());
    let until_there = seen.iter().take_while(|frame| frame.seq() <= middle.seq());
    assert_eq!(Fold::of_frames(&tail[..1]), Fold::of_frames(until_there));
    assert_eq!(Fold::of_frames(&tail), now);
    assert_eq!(bytes(&tail[1..]), bytes(after(&whole, middle.seq())));
}

/// Up to the last frame seen before the crash, the replay has exactly the same frames: none lost, none changed by a
/// byte, none inserted.
fn check_same(seen: &[Frame], whole: &[Frame]) {
    let first = seen[0].seq();
    let last = seen.last().unwrap().seq();
    let again: Vec<_> = whole
        .iter()
        .filter(|frame| frame.seq() > first && frame.seq() <= last)
        .map(|frame| (frame.seq(), frame.result()))
        .collect();
    assert_eq!(bytes(&seen[1..]), again);
}

fn bytes(frames: &[Frame]) -> Vec<(u64, &str)> {
    frames.iter().map(|frame| (frame.seq(), frame.result())).collect()
}

fn after(frames: &[Frame], seq: u64) -> &[Frame] {
    let start = frames.partition_point(|frame| frame.seq() <= seq);
    &frames[start..]
}

/// All frames after `seq`, preceded by the task as of `seq`.
fn replay(client: &Client, id: &str, seq: u64) -> Vec<Frame> {
    let frames = client
        .with("Last-Event-ID", &format!("{id}.{seq}"))
        .stream("SubscribeToTask", json!({ "id": id }))
        .unwrap_or_else(|error| panic!("{id}.{seq} was told, and is gone: {error}"))
        .rest();
    assert_eq!(frames[0].seq(), seq, "the task as of {seq} comes first");
    check_restarts(&frames);
    frames
}

/// A new attempt emits "restarted" and begins each of its artifacts again, with `append: false`, under the same id;
/// without a new attempt no artifact begins twice.
fn check_restarts(frames: &[Frame]) {
    let first = frames[0].event();
    let held = first["task"]["artifacts"].as_array().into_iter().flatten();
    let mut begun: BTreeSet<String> = held.map(|artifact| artifact["artifactId"].to_string()).collect();
    for frame in frames {
        let event = frame.event();
        let status = &event["statusUpdate"]["status"];
        let said = status["message"]["parts"][0]["text"].as_str();
        if status["state"] == "TASK_STATE_WORKING" && said.is_some_and(|text| text.contains("restarted")) {
            begun.clear();
        }
        let update = &event["artifactUpdate"];
        if update.is_object() {
            let new = begun.insert(update["artifact"]["artifactId"].to_string());
            assert_eq!(new, update["append"] != true, "an artifact begins once in an attempt: {event}");
        }
    }
}

fn id_of(task: &Value) -> &str {
    task["id"].as_str().expect("a task has an id")
}
