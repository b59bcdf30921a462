//! Callers of every generation reach servers of other generations: third-party servers (`clients/peers`), built
//! with the SDKs of A2A 0.3 and 1.0 and called over JSON-RPC and HTTP+JSON, are agents of Rialto.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::sync::{Arc, Mutex, Weak};

use e2e::peer::{GENERATIONS, Peer, World};
use e2e::poll::PATIENCE;
use e2e::server::free_address;
use e2e::{Heard, Server, Speaker, Tongue, folded, fresh_id, until};
use serde_json::{Value, json};

/// The bindings of a peer.
const PLACES: [&str; 2] = ["rpc", "rest"];

/// One world for all tests that do not change it, while any of them runs.
fn shared() -> Arc<World> {
    static SHARED: Mutex<Weak<World>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    shared.upgrade().unwrap_or_else(|| {
        let world = Arc::new(World::start(&PLACES));
        *shared = Arc::downgrade(&world);
        world
    })
}

#[test]
fn a_message_of_every_generation_is_answered_by_peers_of_every_generation() {
    shared().every_row(|caller, _| {
        let done = caller.tell("good morning");
        assert_eq!((done.state.as_str(), done.texts.concat().as_str()), ("completed", "good morning"));
        assert_eq!(caller.get(&done.id), done, "it is a task here, and stays one");
    });
}

#[test]
fn chunks_are_streamed_through_as_chunks() {
    shared().every_row(|caller, _| {
        let heard = caller.stream("chunks").rest();
        assert_eq!(folded(&heard), ("completed".to_owned(), vec!["one two three".to_owned()]), "{heard:?}");
        let chunks: Vec<(&str, bool)> = heard
            .iter()
            .filter_map(|event| match event {
                Heard::Artifact { text, append, .. } => Some((text.as_str(), *append)),
                _ => None,
            })
            .collect();
        assert_eq!(chunks, [("one ", false), ("two ", true), ("three", true)]);
    });
}

#[test]
fn a_question_of_a_peer_is_asked_here_and_its_answer_reaches_the_task_that_asked() {
    shared().every_row(|caller, peer| {
        let asked = caller.tell("ask");
        assert_eq!(asked.state, "input-required");
        assert_eq!(caller.words(&asked.id), "what?");
        let answer = fresh_id();
        let done = caller.answer(&asked.id, &answer);
        assert_eq!(done.id, asked.id);
        assert_eq!((done.state.as_str(), done.texts.concat()), ("completed", format!("answered {answer}")));
        assert_eq!(peer.times(&format!("began {answer}")), 1);
    });
}

#[test]
fn a_question_is_streamed_and_ends_the_stream() {
    shared().every_row(|caller, _| {
        let heard = caller.stream("ask").rest();
        assert_eq!(heard.last().and_then(Heard::state), Some("input-required"), "{heard:?}");
    });
}

#[test]
fn a_cancel_cancels_the_task_here_and_at_the_peer() {
    shared().every_row(|caller, peer| {
        let work = format!("slow {}", fresh_id());
        let id = caller.begin(&work);
        until("the peer works", PATIENCE, || peer.did(&format!("began {work}")).then_some(()));
        let mut watch = caller.watch(&id);
        caller.try_cancel(&id).unwrap_or_else(|error| panic!("{:?}: {error}", caller.tongue));
        caller.rest(&id, &["canceled"]);
        assert_eq!(watch.rest().last().and_then(Heard::state), Some("canceled"));
        until("the peer was told", PATIENCE, || peer.did(&format!("cancelled {work}")).then_some(()));
        assert_eq!((peer.times(&format!("began {work}")), peer.times(&format!("cancelled {work}"))), (1, 1));
    });
}

#[test]
fn a_failure_of_a_peer_is_a_failure_here_in_its_own_words() {
    shared().every_row(|caller, _| {
        let failed = caller.tell("fail");
        assert_eq!((failed.state.as_str(), caller.words(&failed.id).as_str()), ("failed", "out of luck"));
        let heard = caller.stream("fail").rest();
        assert_eq!(heard.last().and_then(Heard::state), Some("failed"), "{heard:?}");
    });
}

/// The 0.3 SDK's server loses the error of a stream over HTTP+JSON: see the next test.
fn tells_errors(generation: &str, place: &str) -> bool {
    (generation, place) != ("0.3", "rest")
}

/// The first generation has only failed for it.
#[test]
fn a_request_that_a_peer_refuses_is_rejected_with_its_reason() {
    shared().rows(&tells_errors, &|caller: &Speaker, _: &Peer| {
        let refused = caller.tell("refuse");
        let state = if caller.tongue == Tongue::V01 { "failed" } else { "rejected" };
        let words = caller.words(&refused.id);
        assert_eq!(refused.state, state, "{words}");
        assert!(words.contains("no such thing here"), "{words}");
    });
}

/// The peer answers 200 and breaks off, on every attempt.
#[test]
fn a_peer_that_breaks_off_instead_of_answering_fails_the_task_with_that_reason() {
    let world = shared();
    let peer = world.peers.iter().find(|peer| !tells_errors(peer.generation, "rest")).unwrap();
    let server = Server::options().config(&format!("agents:\n{}", peer.config(&PLACES, ", patience_ms: 400"))).start();
    for tongue in Tongue::ALL {
        let caller = tongue.speaker(&server.agent(&peer.agent("rest")));
        let failed = caller.tell("refuse");
        let words = caller.words(&failed.id);
        assert_eq!(failed.state, "failed", "{tongue:?}: {words}");
        assert!(words.starts_with("the connection to the remote agent was lost: "), "{tongue:?}: {words}");
    }
}

#[test]
fn errors_about_tasks_of_a_peer_are_those_of_the_callers_generation() {
    shared().every_row(|caller, _| {
        let code = |error: &Value| error["code"].as_i64().or_else(|| error["error"]["code"].as_i64()).unwrap();
        let codes = if caller.tongue == Tongue::V1Rest { (400, 404) } else { (-32002, -32001) };
        let done = caller.tell("done");
        let late = caller.try_cancel(&done.id).expect_err("it is over");
        let unknown = caller.try_get(&fresh_id()).expect_err("there is none");
        assert_eq!((code(&late), code(&unknown)), codes, "{late} {unknown}");
    });
}

#[test]
fn a_killed_server_comes_back_to_the_task_at_the_peer_and_finishes_it() {
    let mut world = World::start(&PLACES);
    let mut open = Vec::new();
    for peer in &world.peers {
        for place in PLACES {
            for tongue in Tongue::ALL {
                let gate = fresh_id();
                let caller = tongue.speaker(&world.server.agent(&peer.agent(place)));
                let id = caller.begin(&format!("gate {gate}"));
                until("the peer works", PATIENCE, || peer.did(&format!("began gate {gate}")).then_some(()));
                caller.rest(&id, &["working"]);
                open.push((peer, caller, id, gate));
            }
        }
    }
    world.server.kill9();
    // Half of them end while no reader is connected.
    let (early, late): (Vec<_>, Vec<_>) = open.iter().enumerate().partition(|(index, _)| index % 2 == 0);
    for (_, (peer, _, _, gate)) in &early {
        peer.open_gate(gate);
    }
    world.server.restart();
    for (_, (_, caller, id, _)) in &late {
        assert_eq!(caller.get(id).state, "working");
    }
    for (_, (peer, _, _, gate)) in &late {
        peer.open_gate(gate);
    }
    for (peer, caller, id, gate) in &open {
        let done = caller.rest(id, &["completed", "failed", "rejected", "canceled"]);
        let what = format!("{:?} to {}: {}", caller.tongue, caller.client.base(), caller.words(id));
        assert_eq!((done.state.as_str(), done.texts.concat().as_str()), ("completed", "finished"), "{what}");
        assert_eq!(peer.times(&format!("began gate {gate}")), 1, "the work is done once: {what}");
    }
}

/// The id of a turn that asked for a whole answer is unknown until the answer; the task is found by its message.
/// The SDK has no idempotency keys: a repeated request is executed twice.
#[test]
fn a_turn_asked_for_whole_is_found_for_a_cancel_and_after_a_crash() {
    let peer = Peer::start("1.0");
    let mut server = Server::options().config(&format!("agents:\n{}", peer.config(&PLACES, ""))).start();
    // A sender that chooses the id of a task can ask for it before any answer.
    let caller = Tongue::V01.speaker(&server.agent(&peer.agent("rest")));
    let asked =
        |how: &str| peer.log().lines().filter(|line| line.contains(&format!("POST /rest/message%3A{how} "))).count();
    until("turns are asked for whole", PATIENCE, || {
        assert_eq!(caller.tell("good morning").texts.concat(), "good morning");
        (asked("send") > 0).then_some(())
    });
    let streamed = asked("stream");
    let send = |id: &str, text: &str| {
        let message = json!({ "role": "user", "parts": [{ "type": "text", "text": text }] });
        caller.client.try_rpc("tasks/send", json!({ "id": id, "message": message }))
    };

    let (id, work) = (fresh_id(), format!("slow {}", fresh_id()));
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(&id, &work));
        until("the peer works", PATIENCE, || peer.did(&format!("began {work}")).then_some(()));
        caller.try_cancel(&id).unwrap();
        assert_eq!(sending.join().unwrap().unwrap().unwrap()["status"]["state"], "canceled");
    });
    until("the peer was told", PATIENCE, || peer.did(&format!("cancelled {work}")).then_some(()));

    let (id, gate) = (fresh_id(), fresh_id());
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send(&id, &format!("gate {gate}")));
        until("the peer works", PATIENCE, || peer.did(&format!("began gate {gate}")).then_some(()));
        server.kill9();
        assert!(sending.join().unwrap().is_err(), "nobody is there to answer");
    });
    server.restart();
    peer.open_gate(&gate);
    assert_eq!(caller.rest(&id, &["completed", "failed", "canceled"]).texts.concat(), "finished");
    assert_eq!(peer.times(&format!("began gate {gate}")), 1, "the work is done once");
    assert_eq!(asked("stream"), streamed, "neither was asked for as a stream");
}

#[test]
fn a_peer_that_dies_fails_its_tasks_with_a_reason() {
    for generation in GENERATIONS {
        let mut peer = Peer::start(generation);
        let server =
            Server::options().config(&format!("agents:\n{}", peer.config(&PLACES, ", patience_ms: 400"))).start();
        let mut open = Vec::new();
        for place in PLACES {
            for tongue in Tongue::ALL {
                let work = format!("slow {}", fresh_id());
                let caller = tongue.speaker(&server.agent(&peer.agent(place)));
                let id = caller.begin(&work);
                until("the peer works", PATIENCE, || peer.did(&format!("began {work}")).then_some(()));
                caller.rest(&id, &["working"]);
                let watch = caller.watch(&id);
                open.push((caller, id, watch));
            }
        }
        peer.kill();
        for (caller, id, mut watch) in open {
            assert_eq!(watch.rest().last().and_then(Heard::state), Some("failed"));
            let words = caller.words(&id);
            assert!(words.starts_with("the remote agent cannot be reached: "), "{:?}: {words}", caller.tongue);
        }
    }
}

#[test]
fn a_server_starts_without_its_peer_and_says_so_when_it_is_asked() {
    let nowhere = free_address();
    let config = format!("agents:\n  old: {{ kind: a2a, url: 'http://{nowhere}/a2a', patience_ms: 200 }}\n");
    let server = Server::options().config(&config).start();
    for tongue in Tongue::ALL {
        let caller = tongue.speaker(&server.agent("old"));
        let failed = caller.tell("anyone there?");
        let words = caller.words(&failed.id);
        assert_eq!(failed.state, "failed", "{tongue:?}: {words}");
        assert!(words.starts_with("the remote agent cannot be reached: "), "{tongue:?}: {words}");
    }
}

#[test]
fn a_peer_that_comes_later_is_found_then() {
    let addr = free_address();
    // Longer than a peer takes to start on a busy machine.
    let config = format!("agents:\n  late: {{ kind: a2a, url: 'http://{addr}/rpc', unreachable_ms: 120000 }}\n");
    let server = Server::options().config(&config).start();
    let caller = Tongue::V1.speaker(&server.agent("late"));
    let id = caller.begin("hello");
    let _peer = Peer::start_at("1.0", addr);
    let done = caller.rest(&id, &["completed", "failed"]);
    assert_eq!((done.state.as_str(), done.texts.concat().as_str()), ("completed", "hello"), "{}", caller.words(&id));
}
