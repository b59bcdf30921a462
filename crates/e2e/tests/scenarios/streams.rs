//! Streams for readers that come late, leave early, or return.

use std::time::Duration;

use e2e::http::Request;
use e2e::{Events, Fold, Frame, Next, Server, assert_rest_fault, assert_rpc_fault, message, script, send, to_task};
use serde_json::{Value, json};

/// Twelve chunks, slow enough to leave in the middle.
fn slow_chunks() -> Value {
    script(json!([
        { "status": "working", "text": "counting" },
        { "artifact": { "name": "count", "parts": [{ "text": "abc " }] }, "chunks": 12, "every_ms": 20 },
        { "complete": "counted" },
    ]))
}

fn results(frames: &[Frame]) -> Vec<(Option<&str>, &str)> {
    frames.iter().map(|frame| (frame.id.as_deref(), frame.result())).collect()
}

fn is_artifact(frame: &Frame) -> bool {
    frame.event()["artifactUpdate"].is_object()
}

#[test]
fn a_stream_starts_with_the_task_numbers_every_frame_and_ends_when_the_task_has_settled() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let mut events = scripted.stream("SendStreamingMessage", send(slow_chunks())).unwrap();
    assert_eq!(events.head.header("cache-control").map(|value| value.contains("no-")), Some(true));
    let frames = events.rest();

    let first = frames[0].event();
    assert!(first["task"]["id"].is_string(), "{first}");
    for frame in &frames {
        assert_eq!(first["task"]["id"], frame.task());
        assert!(!frame.data.contains("\"final\""), "1.0 has no final flag");
    }
    let chunks: Vec<Value> = frames
        .iter()
        .map(Frame::event)
        .filter(|event| event["artifactUpdate"].is_object())
        .map(|event| event["artifactUpdate"].clone())
        .collect();
    assert_eq!(chunks.len(), 12, "every chunk is an event of its own");
    assert_ne!(chunks[0]["append"], true);
    assert!(chunks[1..].iter().all(|chunk| chunk["append"] == true));
    assert_eq!(chunks[11]["lastChunk"], true);
    assert!(chunks[..11].iter().all(|chunk| chunk["lastChunk"] != true));
    assert_eq!(frames.last().unwrap().state().as_deref(), Some("TASK_STATE_COMPLETED"));

    let fold = Fold::of_frames(&frames);
    let task = scripted.task(&fold.id);
    assert_eq!(fold, Fold::of_task(&task));
    assert_eq!(fold.texts().values().next().unwrap(), &"abc ".repeat(12));
}

#[test]
fn a_reader_who_comes_back_gets_the_task_as_it_left_it_and_all_that_followed() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let mut events = scripted.stream("SendStreamingMessage", send(slow_chunks())).unwrap();
    let mut seen = events.take_until(is_artifact);
    seen.extend([events.take(), events.take()]);
    drop(events);

    let left = seen.last().unwrap().clone();
    let back = scripted.with("Last-Event-ID", left.id.as_deref().unwrap());
    let missed = back.stream("SubscribeToTask", json!({ "id": left.task() })).unwrap().rest();
    assert_eq!(missed[0].id, left.id, "the task as of the frame it left at");
    let as_left = Fold::of_frames(&seen);
    assert_eq!(Fold::of_frames(&missed[..1]), as_left);

    let mut fold = as_left;
    for frame in &missed[1..] {
        fold.apply(&frame.event());
    }
    assert_eq!(fold, Fold::of_frames(&missed));
    assert_eq!(fold, Fold::of_task(&scripted.task(&fold.id)));
    assert_eq!(fold.state, "TASK_STATE_COMPLETED");

    // The task has settled by now: the replay is the same, and it ends.
    let again = back.stream("SubscribeToTask", json!({ "id": left.task() })).unwrap().rest();
    assert_eq!(results(&missed), results(&again));
    for verb in ["GET", "POST"] {
        let over_rest = back.rest_stream(verb, &format!("/tasks/{}:subscribe", left.task()), None).unwrap().rest();
        assert_eq!(results(&missed), results(&over_rest));
    }
}

#[test]
fn the_same_send_with_a_last_event_id_resumes_and_never_sends_again() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let params = send(slow_chunks());
    let mut events = scripted.stream("SendStreamingMessage", params.clone()).unwrap();
    let seen = events.take_until(is_artifact);
    drop(events);
    let left = seen.last().unwrap();

    let back = scripted.with("Last-Event-ID", left.id.as_deref().unwrap());
    let missed = back.stream("SendStreamingMessage", params.clone()).unwrap().rest();
    assert_eq!(missed[0].id, left.id);
    assert_eq!(Fold::of_frames(&missed).texts().values().next().unwrap(), &"abc ".repeat(12));
    let over_rest = back.rest_stream("POST", "/message:stream", Some(&params)).unwrap().rest();
    assert_eq!(results(&missed), results(&over_rest));

    let listed = scripted.rpc("ListTasks", json!({})).unwrap();
    assert_eq!(listed["totalSize"], 1, "nothing was sent again: {listed}");
}

#[test]
fn an_unreadable_event_id_is_invalid_and_one_of_an_unseen_task_is_not_found() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let task = scripted.send(message("hello"));
    let other = scripted.send(message("other"));
    let id = task["id"].as_str().unwrap();
    let unseen = "019aa000-0000-7000-8000-00000000abcd";

    let cases = [
        ("garbage".to_owned(), -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
        (format!("{id}."), -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
        (format!("{id}.x"), -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
        (format!("{id}.-1"), -32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
        (format!("{unseen}.3"), -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
        (format!("{}.1", other["id"].as_str().unwrap()), -32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
    ];
    for (event_id, code, status, name, reason) in cases {
        let back = scripted.with("Last-Event-ID", &event_id);
        let error = back.stream("SubscribeToTask", json!({ "id": id })).map(|_| event_id.clone()).unwrap_err();
        assert_rpc_fault(&error, code, reason);
        let response =
            back.rest_stream("POST", &format!("/tasks/{id}:subscribe"), None).map(|_| event_id.clone()).unwrap_err();
        assert_rest_fault(&response, status, name, reason);
    }

    for (event_id, code, reason) in
        [("garbage".to_owned(), -32602, "INVALID_PARAMS"), (format!("{unseen}.3"), -32001, "TASK_NOT_FOUND")]
    {
        let error = scripted
            .with("Last-Event-ID", &event_id)
            .stream("SendStreamingMessage", send(message("hello")))
            .map(|_| event_id)
            .unwrap_err();
        assert_rpc_fault(&error, code, reason);
    }
    let listed = scripted.rpc("ListTasks", json!({})).unwrap();
    assert_eq!(listed["totalSize"], 2, "a refused resumption sends nothing");
}

#[test]
fn two_subscribers_see_byte_equal_events() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let question = scripted.send(script(json!([
        { "input": "ready?" },
        { "status": "working", "text": "going" },
        { "artifact": { "name": "count", "parts": [{ "text": "abc " }, { "data": { "n": 1 } }] }, "chunks": 9, "every_ms": 3 },
        { "complete": "gone" },
    ])));
    let id = question["id"].as_str().unwrap();
    let subscribe = || scripted.stream("SubscribeToTask", json!({ "id": id })).unwrap();
    let mut one = subscribe();
    let mut two = subscribe();
    let mut over_rest = scripted.rest_stream("GET", &format!("/tasks/{id}:subscribe"), None).unwrap();
    let readers: [&mut Events; 3] = [&mut one, &mut two, &mut over_rest];
    let mut all = Vec::new();
    for reader in readers {
        all.push(vec![reader.take()]);
    }
    let task = scripted.send(to_task(message("yes"), id));
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    all[0].extend(one.rest());
    all[1].extend(two.rest());
    all[2].extend(over_rest.rest());

    assert!(all[0].len() > 10);
    assert_eq!(results(&all[0]), results(&all[1]));
    assert_eq!(results(&all[0]), results(&all[2]));
}

#[test]
fn a_subscription_to_an_idle_task_stays_open_until_the_task_settles() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let task = scripted.send(script(json!([
        { "input": "name?" },
        { "input": "age?" },
        { "complete": "thanks" },
    ])));
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    let id = task["id"].as_str().unwrap();

    let mut events = scripted.stream("SubscribeToTask", json!({ "id": id })).unwrap();
    let first = events.take();
    assert_eq!(first.state().as_deref(), Some("TASK_STATE_INPUT_REQUIRED"));
    assert_eq!(first.event()["task"]["id"], id);
    let quiet = events.next_within(Duration::from_millis(300)).unwrap();
    assert!(matches!(quiet, Next::Quiet), "{quiet:?}");

    let asked = scripted.send(to_task(message("Ada"), id));
    assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    let frames = events.take_until(|frame| frame.state().as_deref() == Some("TASK_STATE_INPUT_REQUIRED"));
    assert!(!frames.is_empty());
    let quiet = events.next_within(Duration::from_millis(300)).unwrap();
    assert!(matches!(quiet, Next::Quiet), "open until terminal: {quiet:?}");

    let done = scripted.send(to_task(message("36"), id));
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    let frames = events.rest();
    assert_eq!(frames.last().unwrap().state().as_deref(), Some("TASK_STATE_COMPLETED"));
}

#[test]
fn a_late_subscriber_gets_the_task_as_of_now_and_only_what_follows() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let mut first = scripted.stream("SendStreamingMessage", send(slow_chunks())).unwrap();
    let mut seen = first.take_until(is_artifact);
    let id = seen[0].task().to_owned();
    let late = scripted.stream("SubscribeToTask", json!({ "id": id })).unwrap().rest();
    seen.extend(first.rest());
    assert!(late[0].event()["task"].is_object());
    assert!(late[0].seq() >= seen[1].seq(), "as of now");
    let after: Vec<_> = seen.iter().filter(|frame| frame.seq() > late[0].seq()).cloned().collect();
    assert_eq!(results(&late[1..]), results(&after), "nothing missed, nothing repeated");
    assert_eq!(Fold::of_frames(&late), Fold::of_frames(&seen));
}

#[test]
fn a_settled_task_cannot_be_subscribed_to_without_an_event_id() {
    let server = Server::start(&[]);
    let echo = server.agent("echo");
    let task = echo.send(message("done"));
    let id = task["id"].as_str().unwrap();
    let error = echo.stream("SubscribeToTask", json!({ "id": id })).map(|_| ()).unwrap_err();
    assert_rpc_fault(&error, -32004, "UNSUPPORTED_OPERATION");
    let response = echo.rest_stream("POST", &format!("/tasks/{id}:subscribe"), None).map(|_| ()).unwrap_err();
    assert_rest_fault(&response, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION");
}

#[test]
fn a_direct_message_is_the_only_frame_of_its_stream() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let frames = scripted.stream("SendStreamingMessage", send(script(json!([{ "message": "hi" }])))).unwrap().rest();
    assert_eq!(frames.len(), 1, "{frames:?}");
    let event = frames[0].event();
    assert_eq!(event["message"]["parts"], json!([{ "text": "hi" }]));
    assert_eq!(event["message"]["role"], "ROLE_AGENT");
    assert!(event["message"]["contextId"].is_string(), "{event}");
    assert!(event["message"].get("taskId").is_none(), "no task exists: {event}");
}

#[test]
fn a_closed_stream_does_not_stop_its_task() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let mut events = scripted.stream("SendStreamingMessage", send(slow_chunks())).unwrap();
    let id = events.take().task().to_owned();
    drop(events);
    let task = scripted.settled(&id);
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(Fold::of_task(&task).texts().values().next().unwrap(), &"abc ".repeat(12));
}

#[test]
fn a_reader_who_does_not_read_slows_nobody() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let wide = "x".repeat(4096);
    let params = send(script(json!([
        { "artifact": { "name": "wide", "parts": [{ "text": wide }] }, "chunks": 1500 },
        { "complete": "done" },
    ])));
    // Six megabytes: far more than the sockets in between hold. This stream is opened and never read.
    let stuck = scripted.stream("SendStreamingMessage", params).unwrap();
    let listed = e2e::until("the task is listed", e2e::poll::PATIENCE, || {
        let listed = scripted.rpc("ListTasks", json!({})).unwrap();
        listed["tasks"][0]["id"].as_str().map(str::to_owned)
    });
    let task = scripted.settled(&listed);
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    drop(stuck);
}

#[test]
fn a_reader_who_was_away_for_thousands_of_events_gets_them_all() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let mut events = scripted.stream("SendStreamingMessage", send(message("chunks:3200"))).unwrap();
    let seen = events.take_until(is_artifact);
    drop(events);
    let left = seen.last().unwrap();
    scripted.settled(left.task());
    let frames = scripted
        .with("Last-Event-ID", left.id.as_deref().unwrap())
        .stream("SubscribeToTask", json!({ "id": left.task() }))
        .unwrap()
        .rest();
    assert_eq!(frames.iter().filter(|frame| is_artifact(frame)).count(), 3199);
    assert_eq!(Fold::of_frames(&frames), Fold::of_task(&scripted.task(left.task())));
}

#[test]
fn a_silent_stream_has_heartbeats_a_parser_ignores() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let task = scripted.send(script(json!([{ "input": "well?" }])));
    let mut events = scripted.stream("SubscribeToTask", json!({ "id": task["id"] })).unwrap();
    events.take();
    // Heartbeats are comments, every 15 s: only comments may come, and at least one must.
    let next = events.next_within(Duration::from_secs(17)).unwrap();
    assert!(matches!(next, Next::Quiet), "{next:?}");
    assert!(events.comments >= 1, "a comment within 17 s");
    assert_eq!(server.exchange(&Request::new("GET", "/healthz")).status(), 200);
}

#[test]
fn an_event_id_from_the_future_is_refused_and_one_from_before_the_beginning_replays_all() {
    let server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let frames = scripted.stream("SendStreamingMessage", send(message("chunks:5"))).unwrap().rest();
    let id = frames[0].task().to_owned();
    let subscribe =
        |n: &str| scripted.with("Last-Event-ID", &format!("{id}.{n}")).stream("SubscribeToTask", json!({ "id": id }));
    for future in ["1000000", "18446744073709551615", "18446744073709551616"] {
        let error = subscribe(future).map(|_| future).unwrap_err();
        assert_rpc_fault(&error, -32602, "INVALID_PARAMS");
    }
    let all = subscribe("0").unwrap().rest();
    assert_eq!(Fold::of_frames(&all), Fold::of_frames(&frames));
    assert_eq!(results(&all[1..]), results(&frames[1..]));
}
