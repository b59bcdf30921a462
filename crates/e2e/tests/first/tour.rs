//! The tour's crash: a stream is cut by `kill -9`, the server starts again, and the task completes.

use e2e::poll::PATIENCE;
use e2e::{Fold, Next, Server, until};
use serde_json::{Value, json};

/// The request of the tour, as in its text.
fn chunks(words: &str) -> Value {
    json!({ "message": { "messageId": "m3", "role": "ROLE_USER", "parts": [{ "text": words }] } })
}

/// The fields of a log line in the text form, by name.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .map(|value| value.trim_matches('"'))
}

#[test]
fn the_tours_stream_survives_a_kill_and_the_log_tells_of_the_recovery() {
    let mut server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let mut events = scripted.stream("SendStreamingMessage", chunks("chunks:10 every:300")).unwrap();
    let mut seen = events.take_until(|frame| frame.event()["artifactUpdate"].is_object());
    let waiting = scripted.open(json!({ "messageId": "h1", "role": "ROLE_USER", "parts": [{ "text": "hang" }] }));
    let waiting = waiting["id"].as_str().unwrap().to_owned();
    scripted.in_state(&waiting, "TASK_STATE_WORKING");
    server.kill9();
    while let Ok(Next::Frame(frame)) = events.next_within(PATIENCE) {
        seen.push(frame);
    }
    let last = seen.last().unwrap();
    let (id, seq) = last.position();
    server.restart();

    let resumed = scripted.with("Last-Event-ID", &format!("{id}.{seq}"));
    let rest = resumed.stream("SubscribeToTask", json!({ "id": id })).unwrap().rest();
    let end = Fold::of_frames(&rest);
    assert_eq!(end.state, "TASK_STATE_COMPLETED", "{rest:?}");
    let all: String = (0..10).map(|n| format!("chunk {n} lorem ipsum ")).collect();
    assert_eq!(end.texts().into_values().collect::<Vec<_>>(), [all]);
    assert!(rest.iter().any(|frame| frame.data.contains("\"restarted\"")), "{rest:?}");
    assert_eq!(scripted.task(id)["status"]["state"], "TASK_STATE_COMPLETED");
    // Only a cancel would have ended the other one, and its caller is gone.
    assert_eq!(scripted.settled(&waiting)["status"]["state"], "TASK_STATE_FAILED");

    for (task, outcome) in [(id, "retried"), (&*waiting, "failed")] {
        let line = until("the recovery is in the log", PATIENCE, || {
            let log = server.log();
            log.lines().find(|line| line.contains("turn recovered") && line.contains(task)).map(str::to_owned)
        });
        assert_eq!(field(&line, "outcome"), Some(outcome), "{line}");
        assert_eq!(field(&line, "agent"), Some("scripted"), "{line}");
        assert_eq!(field(&line, "lost_attempt"), Some("1"), "{line}");
    }
    let log = server.log();
    let counts = log.lines().find(|line| line.contains("recovery of turns that were cut off")).unwrap_or_default();
    for (name, count) in [("retried", "1"), ("resumed", "0"), ("failed", "1"), ("canceled", "0"), ("waiting", "0")] {
        assert_eq!(field(counts, name), Some(count), "{counts}");
    }
}
