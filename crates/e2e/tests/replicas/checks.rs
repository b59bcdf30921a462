//! Checks the replicas' answers after the faults: by asking them, by reading the database, and by the deliveries of
//! webhooks.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use cluster::Database;
use e2e::fold::is_settled;
use e2e::{Client, Fold, Frame, Receiver, until};
use serde_json::json;

use crate::house::House;
use crate::load::{Told, replay};

const PATIENCE: Duration = Duration::from_secs(60);

/// Checks every recorded answer, on the replicas in turn.
pub(crate) fn check(house: &House, receiver: &Receiver, told: &[Told]) {
    let ends = told.iter().filter_map(|thing| match thing {
        Told::Pushed { id, path } => Some((path, whole(&house.anywhere("scripted"), id).last()?.seq())),
        Told::Settled { .. }
        | Told::Stream { .. }
        | Told::Talk { .. }
        | Told::Canceled { .. }
        | Told::Finished { .. } => None,
    });
    let ends: Vec<(&String, u64)> = ends.collect();
    let missing = |brought: &HashMap<String, Vec<u64>>| -> Vec<String> {
        let here = |path: &String| brought.get(path).and_then(|all| all.last()).copied().unwrap_or(0);
        let behind = ends.iter().filter(|(path, end)| here(path) != *end);
        behind.map(|(path, end)| format!("{path} is at {} of {end}", here(path))).collect()
    };
    let started = Instant::now();
    let webhooks = loop {
        let brought = in_order(receiver);
        let missing = missing(&brought);
        if missing.is_empty() {
            break brought;
        }
        assert!(started.elapsed() < PATIENCE, "webhooks have not brought everything: {missing:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    for (turn, thing) in told.iter().enumerate() {
        let (agent, id) = thing.task();
        let client = house.at(turn % house.replicas.len(), agent);
        let log = whole(&client, id);
        check_end(id, &log);
        let now = client.task(id);
        let fold = Fold::of_task(&now);
        assert_eq!(Fold::of_frames(&log), fold, "who reads from the start has the task as it is");
        match thing {
            Told::Settled { task, .. } => {
                assert_eq!(now["status"], task["status"], "a settled task changed");
                assert_eq!(now["artifacts"], task["artifacts"], "a settled task changed");
            }
            Told::Stream { readings, texts } => check_readings(readings, texts, &log, &fold),
            Told::Talk { task, said } => {
                assert_eq!(now["status"], task["status"], "a settled task changed");
                let now = client.rpc("GetTask", json!({ "id": id, "historyLength": 1000 })).unwrap();
                let history = now["history"].as_array().cloned().unwrap_or_default();
                let users = history.iter().filter(|message| message["role"] == "ROLE_USER");
                let found: Vec<&str> = users.filter_map(|message| message["parts"][0]["text"].as_str()).collect();
                assert_eq!(&found, said, "{id}: every answer once, in order");
            }
            Told::Canceled { .. } => assert_eq!(fold.state, "TASK_STATE_CANCELED", "{id}"),
            Told::Finished { .. } => assert!(fold.is_settled(), "{id}"),
            Told::Pushed { path, .. } => {
                let wanted: Vec<u64> = log.iter().map(Frame::seq).collect();
                assert_eq!(webhooks[path], wanted, "{id}: a webhook is told of every event, in order");
            }
        }
    }
}

/// A task's whole log as a reader sees it, from its first event.
fn whole(client: &Client, id: &str) -> Vec<Frame> {
    replay(client, id, 1).expect("the replicas are calm")
}

/// One end, and nothing after it.
fn check_end(id: &str, log: &[Frame]) {
    let ends: Vec<usize> = log
        .iter()
        .enumerate()
        .filter(|(_, frame)| frame.state().is_some_and(|state| is_settled(&state)))
        .map(|(at, _)| at)
        .collect();
    assert_eq!(ends, [log.len() - 1], "{id}: a task ends once, and nothing comes after");
}

/// Over all its connections a reader has every event once and in order, with the same bytes as now.
fn check_readings(readings: &[Vec<Frame>], texts: &[String], log: &[Frame], now: &Fold) {
    let known: BTreeMap<u64, &str> = log.iter().skip(1).map(|frame| (frame.seq(), frame.result())).collect();
    let first = readings[0][0].seq();
    let mut last = first;
    let mut held = Fold::of_frames(&readings[0][..1]);
    for (number, frames) in readings.iter().enumerate() {
        let (head, rest) = frames.split_first().expect("only what was read is kept");
        let id = head.task();
        if number > 0 {
            assert_eq!(head.seq(), last, "{id}: a reader who comes back is taken up where it was");
            assert_eq!(Fold::of_frames([head]), held, "{id}.{last}: with the task as it had it");
        }
        for frame in rest {
            let seq = frame.seq();
            let between = known.range(last + 1..seq).map(|(missed, _)| *missed).collect::<Vec<_>>();
            assert!(seq > last && between.is_empty(), "{id}: {seq} came after {last}, without {between:?}");
            assert_eq!(known.get(&seq), Some(&frame.result()), "{id}.{seq}: what was read is what is kept");
            held.apply(&frame.event());
            last = seq;
        }
    }
    assert_eq!(known.keys().last().copied().unwrap_or(first), last, "a reader has read to the end");
    assert_eq!(&held, now, "and has the task as it is");
    assert_eq!(now.state, "TASK_STATE_COMPLETED", "it may be tried often enough");
    let mut found: Vec<_> = now.texts().into_values().collect();
    found.sort();
    let mut wanted = texts.to_vec();
    wanted.sort();
    assert_eq!(found, wanted, "all of its text, once");
}

/// The events delivered to each path, without repeats; fails if one came before an earlier one.
fn in_order(receiver: &Receiver) -> HashMap<String, Vec<u64>> {
    let ordered = receiver.ordered().into_iter();
    ordered.map(|(path, all)| (path, all.iter().map(|delivery| delivery.event().1).collect())).collect()
}

/// A fault may leave one request of a config in flight: at most that one arrives after a later event.
pub(crate) fn check_order(receiver: &Receiver, blows: u64) {
    for (path, arrivals) in receiver.arrivals() {
        let behind = e2e::receiver::behind(&arrivals);
        assert!(behind as u64 <= blows, "{path}: {behind} letters came behind later ones: {arrivals:?}");
    }
}

/// The database: every task has ended, and no log has an event of an older epoch after one of a newer.
pub(crate) fn check_database(database: &Database) {
    until("every task has settled", PATIENCE, || {
        (database.query("select count(*) from rialto.task where running or not settled") == [["0"]]).then_some(())
    });
    let mixed = mixed(database);
    assert!(mixed.is_empty(), "events of an older hold after those of a newer: {mixed:?}");
    let gaps = gaps(database);
    assert!(gaps.is_empty(), "a log has no gaps and nothing twice: {gaps:?}");
    let unlike = database.query(
        "select id, seq from rialto.task
         where seq <> coalesce((select max(last_seq) from rialto.log where task_no = task.no), 0)",
    );
    assert!(unlike.is_empty(), "a task is as long as its log: {unlike:?}");
}

/// Rows of a log with an epoch below one before them.
fn mixed(database: &Database) -> Vec<Vec<String>> {
    database.query(
        "select task_no, first_seq, epoch, newest from (
             select task_no, first_seq, epoch, max(epoch) over (
                 partition by task_no order by first_seq rows between unbounded preceding and 1 preceding) as newest
             from rialto.log where epoch is not null) as held
         where epoch < newest",
    )
}

/// Rows of a log that do not continue the row before.
fn gaps(database: &Database) -> Vec<Vec<String>> {
    database.query(
        "select task_no, first_seq, before from (
             select task_no, first_seq, lag(last_seq, 1, 0::bigint) over (partition by task_no order by first_seq) as before
             from rialto.log) as rows
         where first_seq <> before + 1",
    )
}

/// Tests of the checks: they find the errors they are made for.
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    fn frame(seq: u64, event: &serde_json::Value) -> Frame {
        let data = json!({ "jsonrpc": "2.0", "id": 1, "result": event }).to_string();
        Frame { id: Some(format!("t.{seq}")), event: None, data }
    }

    fn task(seq: u64, state: &str, text: &str) -> Frame {
        let artifacts = json!([{ "artifactId": "a", "parts": [{ "text": text }] }]);
        let artifacts = if text.is_empty() { json!([]) } else { artifacts };
        frame(seq, &json!({ "task": { "id": "t", "status": { "state": state }, "artifacts": artifacts } }))
    }

    fn chunk(seq: u64, text: &str, append: bool) -> Frame {
        let artifact = json!({ "artifactId": "a", "parts": [{ "text": text }] });
        frame(seq, &json!({ "artifactUpdate": { "taskId": "t", "artifact": artifact, "append": append } }))
    }

    fn status(seq: u64, state: &str) -> Frame {
        frame(seq, &json!({ "statusUpdate": { "taskId": "t", "status": { "state": state } } }))
    }

    const WORKING: &str = "TASK_STATE_WORKING";
    const COMPLETED: &str = "TASK_STATE_COMPLETED";

    fn log() -> Vec<Frame> {
        vec![task(1, WORKING, ""), chunk(2, "x", false), chunk(3, "y", true), status(4, COMPLETED)]
    }

    fn finds(readings: Vec<Vec<Frame>>) -> bool {
        let log = log();
        let now = Fold::of_frames(&log);
        let texts = vec!["xy".to_owned()];
        catch_unwind(AssertUnwindSafe(|| check_readings(&readings, &texts, &log, &now))).is_err()
    }

    #[test]
    fn a_reader_who_missed_or_repeated_something_is_found() {
        let whole = log();
        assert!(!finds(vec![whole.clone()]));
        let back = |seq, text, rest: &[Frame]| [&[task(seq, WORKING, text)], rest].concat();
        assert!(!finds(vec![whole[..2].to_vec(), back(2, "x", &whole[2..])]), "over two connections");
        assert!(finds(vec![whole[..2].to_vec(), back(2, "x", &whole[3..])]), "one was missed");
        assert!(finds(vec![whole[..3].to_vec(), back(2, "x", &whole[2..])]), "one came twice");
        assert!(finds(vec![whole[..2].to_vec(), back(2, "z", &whole[2..])]), "the task was another");
        assert!(finds(vec![whole[..3].to_vec()]), "the end is missing");
        let mut other = whole;
        other[2] = chunk(3, "z", true);
        assert!(finds(vec![other]), "what was read is not what is kept");
    }

    #[test]
    fn a_second_end_is_found() {
        let ends = |log: &[Frame]| catch_unwind(AssertUnwindSafe(|| check_end("t", log))).is_ok();
        assert!(ends(&log()));
        assert!(!ends(&[log(), vec![status(5, "TASK_STATE_FAILED")]].concat()));
        assert!(!ends(&[log(), vec![chunk(5, "late", true)]].concat()));
        assert!(!ends(&log()[..3]));
    }

    #[test]
    fn a_log_of_mixed_holds_or_with_gaps_is_found() {
        let database = cluster::Cluster::shared().database();
        database.run(
            "create schema rialto;
             create table rialto.log (task_no bigint, first_seq bigint, last_seq bigint, epoch bigint);
             insert into rialto.log values
                 (1, 1, 1, null), (1, 2, 3, 1), (1, 4, 4, null), (1, 5, 5, 2),
                 (2, 1, 2, 2), (2, 3, 3, null), (2, 4, 4, 1),
                 (3, 1, 2, 1), (3, 4, 4, 1)",
        );
        assert_eq!(mixed(&database), [["2", "4", "1", "2"]]);
        assert_eq!(gaps(&database), [["3", "4", "2"]]);
    }
}
