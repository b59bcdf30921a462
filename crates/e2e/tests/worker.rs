//! Workers at the endpoints of the built binary: they fetch turns by long poll and by stream, hold them, lose them,
//! and get them again after the server was killed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use e2e::fold::text_of;
use e2e::http::{Connection, Request};
use e2e::poll::PATIENCE;
use e2e::{Client, Events, Server, Tongue, message, send, to_task, until};
use serde_json::{Value, json};

const SECRET: &str = "s3cret-of-workers";

fn far(options: &str) -> String {
    format!("agents:\n  far: {{ kind: worker, secret: 'env:WORKER_SECRET'{options} }}\n")
}

fn start(options: &str) -> Server {
    Server::options().config(&far(options)).env("WORKER_SECRET", SECRET).start()
}

fn request(verb: &str, path: &str) -> Request {
    Request::new(verb, &format!("/workers/far{path}")).header("authorization", &format!("Bearer {SECRET}"))
}

fn post(server: &Server, path: &str, body: &Value) -> (u16, Value) {
    let response = server.exchange(&request("POST", path).json(body));
    let value = if response.body.is_empty() { Value::Null } else { response.json() };
    (response.status(), value)
}

/// A leased turn.
#[derive(Debug)]
struct Held(Value);

impl Held {
    fn turn(&self) -> &str {
        self.0["turn"].as_str().unwrap()
    }

    fn text(&self) -> String {
        text_of(&self.0["message"]["parts"])
    }

    /// Sends a report on the turn: the answer.
    fn try_say(&self, server: &Server, what: &str, mut word: Value) -> (u16, Value) {
        word["lease"] = self.0["lease"].clone();
        post(server, &format!("/turns/{}/{what}", self.turn()), &word)
    }

    fn say(&self, server: &Server, what: &str, word: Value) -> Value {
        let (status, answer) = self.try_say(server, what, word);
        assert_eq!(status, 200, "{what}: {answer}");
        answer
    }
}

/// Waits for a turn and leases it.
fn lease(server: &Server, worker: &str) -> Held {
    let (status, turn) = post(server, "/lease", &json!({ "worker": worker, "wait_ms": 25_000 }));
    assert_eq!(status, 200, "a turn comes: {turn}");
    Held(turn)
}

/// Whether no turn waits for a worker now.
fn none_waits(server: &Server) -> bool {
    post(server, "/lease", &json!({ "wait_ms": 0 })).0 == 204
}

fn stream(server: &Server, query: &str) -> Events {
    let mut connection = Connection::open(server.addr()).unwrap();
    connection.send(&request("GET", &format!("/stream{query}"))).unwrap();
    let head = connection.head().unwrap();
    assert_eq!((head.status, head.media_type()), (200, "text/event-stream"));
    Events::new(connection, head)
}

fn next(events: &mut Events) -> (String, Value) {
    let frame = events.take();
    (frame.event.unwrap(), serde_json::from_str(&frame.data).unwrap())
}

fn open(agent: &Client, text: &str) -> String {
    agent.open(message(text))["id"].as_str().unwrap().to_owned()
}

fn artifacts(task: &Value) -> Vec<String> {
    task["artifacts"].as_array().into_iter().flatten().map(|artifact| text_of(&artifact["parts"])).collect()
}

fn words(task: &Value) -> String {
    text_of(&task["status"]["message"]["parts"])
}

#[test]
fn a_long_poll_brings_turns_of_every_dialect_and_their_answers_go_back() {
    let server = start("");
    assert!(none_waits(&server));
    for tongue in Tongue::ALL {
        let seen = std::thread::scope(|scope| {
            // The worker waits before there is a turn.
            let worker = scope.spawn(|| {
                let held = lease(&server, "w-1");
                assert_eq!((&held.0["attempt"], &held.0["lease_ms"]), (&json!(1), &json!(30_000)));
                let answer = held.say(&server, "heartbeat", json!({}));
                assert_eq!(answer, json!({ "cancelled": false, "over": false, "lease_ms": 30_000 }));
                held.say(&server, "events", json!({ "status": "working", "text": "on it" }));
                let done = json!({ "id": "d-1", "text": held.text().to_uppercase() });
                assert_eq!(held.say(&server, "deliver", done.clone())["over"], true);
                assert_eq!(held.say(&server, "deliver", done)["over"], true, "the same when it is repeated");
                assert_eq!(held.try_say(&server, "deliver", json!({ "text": "more" })).0, 410);
            });
            let seen = tongue.speaker(&server.agent("far")).tell("hello");
            worker.join().unwrap();
            seen
        });
        assert_eq!((seen.state.as_str(), seen.texts.concat().as_str()), ("completed", "HELLO"), "{tongue:?}");
    }
}

#[test]
fn what_a_worker_says_is_streamed_to_the_caller_as_it_comes() {
    let server = start("");
    let mut events = server.agent("far").stream("SendStreamingMessage", send(message("count"))).unwrap();
    let held = lease(&server, "w-1");
    for word in ["one ", "two "] {
        held.say(&server, "events", json!({ "text": word }));
        // The worker sends the next event only after the caller has received this one.
        events.take_until(|frame| frame.data.contains(word));
    }
    held.say(&server, "deliver", json!({ "text": "three", "usage": { "input": 1, "output": 3 } }));
    events.rest();
    let task = server.agent("far").task(held.0["task"].as_str().unwrap());
    assert_eq!(artifacts(&task), ["one two three"]);
    assert_eq!(task["metadata"]["usage"]["total_tokens"], 4, "{task}");
}

#[test]
fn a_stream_brings_as_many_turns_as_the_worker_has_hands() {
    let server = start("");
    let agent = server.agent("far");
    let mut ids = ["first", "second", "third"].map(|text| open(&agent, text)).to_vec();
    let mut notices = stream(&server, "?worker=w-1&slots=1");
    let (event, first) = next(&mut notices);
    assert_eq!(event, "turn");
    // One of the others: the stream takes no more turns than the worker's capacity.
    let second = lease(&server, "w-2");
    Held(first.clone()).say(&server, "deliver", json!({ "text": "1" }));
    let (event, third) = next(&mut notices);
    assert_eq!(event, "turn");
    // A worker that closes its stream keeps its turns.
    drop(notices);
    Held(third.clone()).say(&server, "deliver", json!({ "text": "3" }));
    second.say(&server, "deliver", json!({ "text": "2" }));
    // Concurrent turns may enter the queue in any order, each once.
    let taken = [&first, &second.0, &third].map(|turn| turn["task"].as_str().unwrap().to_owned());
    let answers: Vec<String> = taken.iter().flat_map(|id| artifacts(&agent.settled(id))).collect();
    assert_eq!(answers, ["1", "2", "3"]);
    let mut taken = taken.to_vec();
    taken.sort();
    ids.sort();
    assert_eq!(taken, ids);
}

#[test]
fn a_worker_asks_and_the_answer_is_another_turn_of_the_task() {
    let server = start("");
    let agent = server.agent("far");
    let id = open(&agent, "paint it");
    lease(&server, "w-1").say(&server, "deliver", json!({ "input_required": "which colour?" }));
    assert_eq!(words(&agent.in_state(&id, "TASK_STATE_INPUT_REQUIRED")), "which colour?");
    let params = json!({ "message": to_task(message("blue"), &id), "configuration": { "returnImmediately": true } });
    agent.rpc("SendMessage", params).unwrap();
    let held = lease(&server, "w-2");
    assert_eq!((held.text().as_str(), &held.0["task"]), ("blue", &json!(id)));
    let said: Vec<String> =
        held.0["history"].as_array().unwrap().iter().map(|message| text_of(&message["parts"])).collect();
    assert_eq!(said, ["paint it", "which colour?"]);
    held.say(&server, "deliver", json!({ "completed": "painted" }));
    assert_eq!(words(&agent.settled(&id)), "painted");
}

#[test]
fn a_worker_that_cannot_do_it_fails_the_task_or_leaves_it_to_another() {
    let server = start("");
    let agent = server.agent("far");
    let id = open(&agent, "hard");
    let held = lease(&server, "w-1");
    held.say(&server, "fail", json!({ "error": "out of memory", "retryable": true }));
    let again = lease(&server, "w-2");
    assert_eq!((again.turn(), &again.0["attempt"]), (held.turn(), &json!(2)));
    assert_ne!(again.0["lease"], held.0["lease"]);
    again.say(&server, "fail", json!({ "error": "no paper" }));
    let task = agent.settled(&id);
    assert_eq!((&task["status"]["state"], words(&task).as_str()), (&json!("TASK_STATE_FAILED"), "no paper"));
}

#[test]
fn a_cancel_is_told_by_stream_at_once_and_by_any_word() {
    let server = start("");
    let agent = server.agent("far");
    let mut notices = stream(&server, "?worker=w-1&slots=2");
    for says in [json!({ "canceled": "stopped half way" }), json!({ "canceled": null })] {
        let id = open(&agent, "long");
        let (_, turn) = next(&mut notices);
        let held = Held(turn);
        assert_eq!(held.say(&server, "heartbeat", json!({}))["cancelled"], false);
        std::thread::scope(|scope| {
            let cancel = scope.spawn(|| agent.rpc("CancelTask", json!({ "id": id })).unwrap());
            let (event, told) = next(&mut notices);
            assert_eq!((event.as_str(), &told["turn"]), ("cancel", &json!(held.turn())));
            assert_eq!(held.say(&server, "heartbeat", json!({}))["cancelled"], true);
            held.say(&server, "deliver", says.clone());
            let canceled = cancel.join().unwrap();
            assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
            assert_eq!(words(&canceled), says["canceled"].as_str().unwrap_or_default());
        });
    }
    // A turn without a worker is canceled at once, and never given out.
    drop(notices);
    let id = open(&agent, "unheard");
    let canceled = agent.rpc("CancelTask", json!({ "id": id })).unwrap();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
    assert!(none_waits(&server));
}

#[test]
fn a_worker_that_does_not_stop_is_not_waited_for() {
    let config = "timeouts: { cancel_grace_ms: 100 }\nagents:\n  far: { kind: worker }\n";
    let server = Server::options().config(config).start();
    let agent = server.agent("far");
    let id = open(&agent, "long");
    let held = lease(&server, "w-1");
    let canceled = agent.rpc("CancelTask", json!({ "id": id })).unwrap();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
    let (status, answer) = held.try_say(&server, "deliver", json!({ "text": "too late" }));
    assert_eq!(status, 410, "{answer}");
    assert_eq!(artifacts(&agent.task(&id)), [""; 0]);
}

#[test]
fn a_silent_worker_loses_its_turn_to_another() {
    let server = start(", lease_ms: 2000");
    let agent = server.agent("far");
    let id = open(&agent, "hello");
    let silent = lease(&server, "silent");
    silent.say(&server, "events", json!({ "text": "half an ans" }));
    // The other turn waits until the first is given up.
    let held = lease(&server, "another");
    assert_eq!((held.turn(), &held.0["attempt"]), (silent.turn(), &json!(2)));
    let (status, answer) = silent.try_say(&server, "deliver", json!({ "text": "wer" }));
    assert!(status == 409 && answer["error"].as_str().unwrap().contains("not yours"), "{status} {answer}");
    held.say(&server, "deliver", json!({ "text": "whole" }));
    assert_eq!(artifacts(&agent.settled(&id)), ["whole"], "what the first had said begins again");
}

#[test]
fn a_turn_that_no_worker_finishes_fails_with_words() {
    let server = start(", lease_ms: 100, attempts: 2");
    let id = open(&server.agent("far"), "cursed");
    let (first, second) = (lease(&server, "w-1"), lease(&server, "w-2"));
    assert_eq!(first.turn(), second.turn());
    let task = server.agent("far").settled(&id);
    assert_eq!(task["status"]["state"], "TASK_STATE_FAILED");
    let says = "the worker was not heard of any more; the turn was tried 2 times and is not tried again";
    assert_eq!(words(&task), says);
}

#[test]
fn a_killed_server_lays_its_turns_out_again_under_their_own_ids() {
    let mut server = start("");
    let agent = server.agent("far");
    let at_work = open(&agent, "begun");
    let held = lease(&server, "w-1");
    let waiting = open(&agent, "not begun");
    held.say(&server, "events", json!({ "text": "half an ans" }));
    // An answer means only that the report was received: a crash loses uncommitted output.
    until("the half is kept", PATIENCE, || (artifacts(&agent.task(&at_work)) == ["half an ans"]).then_some(()));
    server.restart();
    let agent = server.agent("far");
    assert_eq!(agent.task(&at_work)["status"]["state"], "TASK_STATE_WORKING");
    let (status, answer) = held.try_say(&server, "deliver", json!({ "text": "wer" }));
    assert!(status == 404 || status == 409, "an old lease is worth nothing: {status} {answer}");
    let (one, other) = (lease(&server, "w-1"), lease(&server, "w-2"));
    let (again, new) = if one.0["task"] == json!(at_work) { (one, other) } else { (other, one) };
    assert_eq!((again.turn(), &again.0["attempt"]), (held.turn(), &json!(2)), "by which a worker recognises it");
    again.say(&server, "deliver", json!({ "text": "whole" }));
    new.say(&server, "deliver", json!({ "text": "done" }));
    assert_eq!(
        (artifacts(&agent.settled(&at_work)), artifacts(&agent.settled(&waiting))),
        (vec!["whole".into()], vec!["done".into()])
    );
}

#[test]
fn workers_who_wait_do_not_hold_up_a_server_that_shuts_down() {
    let mut server = start("");
    let mut notices = stream(&server, "");
    let mut waiting = Connection::open(server.addr()).unwrap();
    waiting.send(&request("POST", "/lease").json(&json!({ "worker": "w-2", "wait_ms": 60_000 }))).unwrap();
    // The stream holds its turn; the next goes to the long poll, which proves that it waits.
    let held = [open(&server.agent("far"), "one"), open(&server.agent("far"), "two")];
    let (_, turn) = next(&mut notices);
    let head = waiting.head().unwrap();
    let other = waiting.whole(head).unwrap().json();
    assert!(held.contains(&turn["task"].as_str().unwrap().to_owned()) && turn["task"] != other["task"]);
    waiting.send(&request("POST", "/lease").json(&json!({ "worker": "w-2", "wait_ms": 60_000 }))).unwrap();
    for turn in [turn, other] {
        Held(turn).say(&server, "deliver", json!({ "text": "done" }));
    }
    let (status, _) = server.terminate();
    assert!(status.success());
    notices.rest();
    let head = waiting.head().unwrap();
    assert_eq!(head.status, 503);
}

#[test]
fn what_a_worker_has_of_an_agent_that_is_gone_it_may_finish() {
    let server = start("");
    let agent = server.agent("far");
    let at_work = open(&agent, "begun");
    let held = lease(&server, "w-1");
    let waiting = open(&agent, "not begun");
    server.write_config("agents:\n  other: { kind: echo }\n");
    server.hang_up();
    let card = "/a2a/far/.well-known/agent-card.json";
    until("the agent is gone", PATIENCE, || (server.get(card).status() == 404).then_some(()));
    assert_eq!(held.say(&server, "heartbeat", json!({}))["cancelled"], false);
    held.say(&server, "deliver", json!({ "text": "whole" }));
    lease(&server, "w-1").say(&server, "deliver", json!({ "text": "done" }));
    assert_eq!(artifacts(&agent.settled(&at_work)), ["whole"]);
    assert_eq!(artifacts(&agent.settled(&waiting)), ["done"]);
    // The endpoint disappears with its last turn.
    let gone = || post(&server, "/lease", &json!({ "wait_ms": 0 })).0 == 404;
    until("nobody is at the desk", PATIENCE, || gone().then_some(()));
}

#[test]
fn an_agent_that_comes_back_finds_its_workers_at_work() {
    let server = start("");
    let id = open(&server.agent("far"), "begun");
    let held = lease(&server, "w-1");
    let shown = |agent: &str| server.get(&format!("/a2a/{agent}/.well-known/agent-card.json")).status() == 200;
    for (config, agent) in [("agents:\n  other: { kind: echo }\n", "other"), (&*far(", title: back"), "far")] {
        server.write_config(config);
        server.hang_up();
        until("the config is in force", PATIENCE, || shown(agent).then_some(()));
    }
    let new = open(&server.agent("far"), "new");
    lease(&server, "w-2").say(&server, "deliver", json!({ "text": "new" }));
    held.say(&server, "deliver", json!({ "text": "old" }));
    let read = |id: &str| artifacts(&server.agent("far").settled(id));
    assert_eq!((read(&id), read(&new)), (vec!["old".into()], vec!["new".into()]));
}

#[test]
fn a_desk_that_was_open_to_all_is_not_so_where_callers_need_a_key() {
    let server =
        Server::options().config("agents:\n  far: { kind: worker }\n").env("E2E_ANN", "ann-0123456789").start();
    open(&server.agent("far"), "waiting");
    let held = lease(&server, "w-1");
    held.say(&server, "heartbeat", json!({}));
    let keys = "auth:\n  required: true\n  keys:\n    - { name: ann, tenant: t, key: 'env:E2E_ANN' }\n";
    server.write_config(&format!("{keys}agents:\n  other: {{ kind: echo }}\n"));
    server.hang_up();
    let heard = || held.try_say(&server, "heartbeat", json!({})).0;
    until("the desk is closed", PATIENCE, || (heard() == 404).then_some(()));
}
