//! One task in several generations: opened in one, watched in a second, answered or cancelled in a third, over raw
//! sockets in every combination. The same with real SDKs is in `sdks.rs`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use e2e::{Client, Heard, Server, Speaker, Tongue, folded};
use serde_json::{Value, json};

/// Runs `check` on every row and reports all failed rows, not just the first.
fn for_each<T: std::fmt::Debug>(rows: Vec<T>, check: impl Fn(&T)) {
    let total = rows.len();
    let mut failed = Vec::new();
    for row in rows {
        if let Err(why) = catch_unwind(AssertUnwindSafe(|| check(&row))) {
            let why = why.downcast_ref::<String>().cloned();
            failed.push(format!("{row:?}: {}", why.unwrap_or_default()));
        }
    }
    assert!(failed.is_empty(), "{} of {total} failed:\n{}", failed.len(), failed.join("\n"));
}

/// Opener, watcher and actor.
type Row = (Tongue, Tongue, Tongue);

fn rows(keep: impl Fn(Row) -> bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for opener in Tongue::ALL {
        for watcher in Tongue::ALL {
            for actor in Tongue::ALL {
                rows.push((opener, watcher, actor));
            }
        }
    }
    rows.retain(|row| keep(*row));
    rows
}

/// Whether `reader`, which sends no version in `tasks/get`, `tasks/cancel` and `tasks/resubscribe`, reads a task of
/// the one other generation that has these methods too.
fn guesses(opener: Tongue, reader: Tongue) -> bool {
    matches!((opener, reader), (Tongue::V01, Tongue::V02) | (Tongue::V03 | Tongue::V02 | Tongue::V03Rest, Tongue::V01))
}

fn speakers(agent: &Client, (opener, watcher, actor): Row) -> (Speaker, Speaker, Speaker) {
    (opener.speaker(agent), watcher.speaker(agent), actor.speaker(agent))
}

/// The id that `reader` sees of a task that `opener` knows as `id`: a client-chosen id is an alias for its own
/// caller in every generation, but answers contain it only for 0.1, and for callers that might be 0.1.
fn shown(agent: &Client, opener: Tongue, reader: Tongue, id: &str) -> String {
    if opener == Tongue::V01 && reader != Tongue::V01 && !guesses(opener, reader) {
        agent.task(id)["id"].as_str().unwrap().to_owned()
    } else {
        id.to_owned()
    }
}

fn cancel_across(agent: &Client, row: Row) {
    let (opener, watcher, actor) = speakers(agent, row);
    let steps = json!([{ "status": "working", "text": "waiting" }, { "hang": true }]);
    let id = opener.open(&steps);
    agent.in_state(&id, "TASK_STATE_WORKING");
    let mut watch = watcher.watch(&id);
    let first = watch.hear();
    assert_eq!(first.state(), Some("working"), "{first:?}");
    if let Heard::Task(task) = &first {
        assert_eq!(task.id, shown(agent, row.0, row.1, &id), "{task:?}");
    }
    let canceled = actor.cancel(&id);
    assert_eq!(canceled.state, "canceled");
    assert_eq!(canceled.id, shown(agent, row.0, row.2, &id));
    let rest = watch.rest();
    assert_eq!(rest.last().and_then(Heard::state), Some("canceled"), "{rest:?}");
    for reader in [&opener, &watcher, &actor] {
        assert_eq!(reader.get(&id).state, "canceled");
    }
    let again = actor.try_cancel(&id).unwrap_err();
    assert!(is_not_cancelable(&again), "{again}");
}

fn is_not_cancelable(error: &Value) -> bool {
    error["code"] == -32002
        || error["error"]["details"].as_array().is_some_and(|all| all[0]["reason"] == "TASK_NOT_CANCELABLE")
}

fn answer_across(agent: &Client, row: Row) {
    let (opener, watcher, actor) = speakers(agent, row);
    let steps = json!([
        { "input": "name?" },
        { "artifact": { "name": "count", "parts": [{ "text": "abc " }] }, "chunks": 3 },
        { "echo": true },
        { "complete": "thanks" },
    ]);
    let asked = opener.ask(&steps);
    assert_eq!(asked.state, "input-required");
    let id = asked.id;
    let mut watch = watcher.watch(&id);
    let first = watch.hear();
    assert_eq!(first.state(), Some("input-required"), "{first:?}");
    let done = actor.answer(&id, "Ada");
    assert_eq!(
        (done.state.as_str(), &done.texts[..]),
        ("completed", &["abc abc abc ".to_owned(), "Ada".to_owned()][..])
    );
    assert_eq!(done.context, asked.context);
    // A send's method name identifies its generation.
    let named = if row.0 == Tongue::V01 && row.2 == Tongue::V02 { Tongue::V03 } else { row.2 };
    assert_eq!(done.id, shown(agent, row.0, named, &id));
    let mut heard = vec![first];
    heard.extend(watch.rest());
    assert_eq!(folded(&heard), ("completed".to_owned(), done.texts.clone()), "{heard:?}");
    for reader in [&opener, &watcher, &actor] {
        let seen = reader.get(&id);
        assert_eq!((&seen.state, &seen.texts, &seen.context), (&done.state, &done.texts, &done.context));
    }
}

fn is_told(row: Row) -> bool {
    !guesses(row.0, row.1) && !guesses(row.0, row.2)
}

#[test]
fn a_task_opened_in_one_generation_is_watched_in_another_and_cancelled_in_a_third() {
    let server = Server::start(&[]);
    let agent = server.agent("scripted");
    for_each(rows(is_told), |row| cancel_across(&agent, *row));
}

#[test]
fn a_task_opened_in_one_generation_is_watched_in_another_and_answered_in_a_third() {
    let server = Server::start(&[]);
    let agent = server.agent("scripted");
    for_each(rows(is_told), |row| answer_across(&agent, *row));
}

/// The hard rows: three methods exist in 0.1 and in 0.2, and the request does not tell which is meant.
#[test]
fn readers_who_do_not_say_their_version_can_read_tasks_of_the_other_generation() {
    let server = Server::start(&[]);
    let agent = server.agent("scripted");
    for_each(rows(|row| !is_told(row)), |row| {
        cancel_across(&agent, *row);
        answer_across(&agent, *row);
    });
}
