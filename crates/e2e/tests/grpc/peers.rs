//! Callers of every dialect reach third-party servers that speak gRPC: `clients/peers`, built with the SDKs of 0.3 and
//! 1.0, are agents of Rialto.

use e2e::peer::{Peer, World};
use e2e::poll::PATIENCE;
use e2e::{Heard, Server, Speaker, Tongue, folded, fresh_id, until};
use serde_json::json;

use crate::stock::{calls, v1};

const PLACES: [&str; 1] = ["grpc"];

#[test]
fn callers_of_every_dialect_do_everything_with_servers_that_speak_grpc() {
    let world = World::start(&PLACES);
    world.every_row(|caller, peer| {
        let row = format!("{:?} to {}", caller.tongue, peer.generation);
        let done = caller.tell("good morning");
        assert_eq!((done.state.as_str(), done.texts.concat().as_str()), ("completed", "good morning"), "{row}");
        assert_eq!(caller.get(&done.id), done, "{row}: it is a task here, and stays one");

        let heard = caller.stream("chunks").rest();
        assert_eq!(folded(&heard), ("completed".to_owned(), vec!["one two three".to_owned()]), "{row}: {heard:?}");
        let chunks: Vec<(&str, bool)> = heard
            .iter()
            .filter_map(|event| match event {
                Heard::Artifact { text, append, .. } => Some((text.as_str(), *append)),
                Heard::Task(_) | Heard::Status { .. } => None,
            })
            .collect();
        assert_eq!(chunks, [("one ", false), ("two ", true), ("three", true)], "{row}");

        let asked = caller.tell("ask");
        assert_eq!((asked.state.as_str(), caller.words(&asked.id).as_str()), ("input-required", "what?"), "{row}");
        let answer = fresh_id();
        let done = caller.answer(&asked.id, &answer);
        assert_eq!((done.id, done.state.as_str()), (asked.id, "completed"), "{row}");
        assert_eq!(done.texts.concat(), format!("answered {answer}"), "{row}");
        assert_eq!(peer.times(&format!("began {answer}")), 1, "{row}");

        let failed = caller.tell("fail");
        assert_eq!((failed.state.as_str(), caller.words(&failed.id).as_str()), ("failed", "out of luck"), "{row}");

        let refused = caller.tell("refuse");
        let words = caller.words(&refused.id);
        let state = if caller.tongue == Tongue::V01 { "failed" } else { "rejected" };
        assert_eq!(refused.state, state, "{row}: {words}");
        assert!(words.contains("no such thing here"), "{row}: {words}");

        let work = format!("slow {}", fresh_id());
        let id = caller.begin(&work);
        until("the peer works", PATIENCE, || peer.did(&format!("began {work}")).then_some(()));
        let mut watch = caller.watch(&id);
        caller.try_cancel(&id).unwrap_or_else(|error| panic!("{row}: {error}"));
        assert_eq!(watch.rest().last().and_then(Heard::state), Some("canceled"), "{row}");
        until("the peer was told", PATIENCE, || peer.did(&format!("cancelled {work}")).then_some(()));
        assert_eq!(peer.times(&format!("began {work}")), 1, "{row}");
    });
}

#[test]
fn callers_over_grpc_do_so_too() {
    let world = World::start(&PLACES);
    for peer in &world.peers {
        let message = e2e::message("good morning");
        let row = v1(&peer.agent("grpc"), "SendMessage", json!({ "message": message }));
        let answer = &calls(&world.server, &[row])[0];
        let task = &answer["messages"][0]["task"];
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{}: {answer}", peer.generation);
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "good morning", "{}: {answer}", peer.generation);
    }
}

/// One caller of each shape of stream: a crash is the same for all of them.
#[test]
fn a_killed_server_comes_back_to_the_task_at_a_server_that_speaks_grpc() {
    let mut world = World::start(&PLACES);
    let mut open = Vec::new();
    for peer in &world.peers {
        for tongue in [Tongue::V1, Tongue::V02, Tongue::V01] {
            let gate = fresh_id();
            let caller = tongue.speaker(&world.server.agent(&peer.agent("grpc")));
            let id = caller.begin(&format!("gate {gate}"));
            until("the peer works", PATIENCE, || peer.did(&format!("began gate {gate}")).then_some(()));
            caller.rest(&id, &["working"]);
            open.push((peer, caller, id, gate));
        }
    }
    world.server.kill9();
    world.server.restart();
    for (peer, _, _, gate) in &open {
        peer.open_gate(gate);
    }
    for (peer, caller, id, gate) in &open {
        let done = caller.rest(id, &["completed", "failed", "rejected", "canceled"]);
        let what = format!("{:?} to {}: {}", caller.tongue, peer.generation, caller.words(id));
        assert_eq!((done.state.as_str(), done.texts.concat().as_str()), ("completed", "finished"), "{what}");
        assert_eq!(peer.times(&format!("began gate {gate}")), 1, "the work is done once: {what}");
    }
}

#[test]
fn a_server_that_speaks_grpc_and_dies_fails_its_tasks_with_a_reason() {
    for generation in e2e::peer::GENERATIONS {
        let mut peer = Peer::start(generation);
        let config = format!("agents:\n{}", peer.config(&PLACES, ", patience_ms: 400"));
        let server = Server::options().config(&config).start();
        let work = format!("slow {}", fresh_id());
        let caller: Speaker = Tongue::V1.speaker(&server.agent(&peer.agent("grpc")));
        let id = caller.begin(&work);
        until("the peer works", PATIENCE, || peer.did(&format!("began {work}")).then_some(()));
        caller.rest(&id, &["working"]);
        peer.kill();
        let failed = caller.rest(&id, &["completed", "failed", "rejected", "canceled"]);
        let words = caller.words(&id);
        assert_eq!(failed.state, "failed", "{generation}: {words}");
        assert!(words.starts_with("the remote agent cannot be reached: "), "{generation}: {words}");
    }
}
