//! The crash campaign: `kill -9` at a random moment under mixed load, then a check of every answer that clients
//! received.
//!
//! One data folder is used in all rounds (`RIALTO_ROUNDS`, default 3). In each round [`load`] keeps the server busy
//! and records its answers; the server is killed after a random number of them; after the restart [`checks`]
//! verifies each. `RIALTO_SEED` repeats the choices of a run.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod checks;
mod load;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use e2e::seed::Random;
use e2e::{Server, script, until};
use serde_json::json;

#[test]
fn everything_a_client_was_told_survives_kill_9() {
    let rounds: u64 =
        std::env::var("RIALTO_ROUNDS").map_or(3, |text| text.parse().expect("RIALTO_ROUNDS is a number of rounds"));
    let mut random = Random::from_env("crash campaign");
    let mut server = Server::start(&[]);
    let mut old = Vec::new();
    for round in 1..=rounds {
        // Log-uniform, so that kills also come within the first commits of a process.
        let magnitude = random.between(0, 12);
        let moment = random.between(1 << magnitude, 2 << magnitude);
        let promises = AtomicU64::new(0);
        let stop = AtomicBool::new(false);
        let told = std::thread::scope(|scope| {
            let workers = load::start(scope, &server, &mut random, &promises, &stop);
            until("the load has been promised enough", Duration::from_secs(60), || {
                (promises.load(Ordering::Relaxed) >= moment).then_some(())
            });
            server.kill9();
            stop.store(true, Ordering::Relaxed);
            workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends well")).collect::<Vec<_>>()
        });
        eprintln!("round {round}: killed at promise {}, {} things told", promises.load(Ordering::Relaxed), told.len());
        server.restart();
        for thing in &told {
            checks::check(&server, thing);
        }
        // Answers of earlier rounds still hold; checking a sample keeps long campaigns fast.
        for _ in 0..old.len().min(20) {
            let at = random.between(0, old.len() as u64) as usize;
            checks::check(&server, &old[at]);
        }
        old.extend(told);
    }
}

#[test]
fn a_server_killed_while_it_recovers_recovers_the_next_time() {
    let mut random = Random::from_env("crash in recovery");
    let mut server = Server::start(&[]);
    let promises = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let told = std::thread::scope(|scope| {
        let workers = load::start(scope, &server, &mut random, &promises, &stop);
        until("the load is on", Duration::from_secs(60), || (promises.load(Ordering::Relaxed) >= 200).then_some(()));
        server.kill9();
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends well")).collect::<Vec<_>>()
    });
    // A retried turn has three attempts, and each crash counts: one restart may be interrupted without using them
    // up.
    server.restart();
    server.kill9();
    server.restart();
    for thing in &told {
        checks::check(&server, thing);
    }
}

#[test]
fn a_turn_whose_message_is_large_follows_its_rule_too() {
    let mut server = Server::start(&[]);
    let scripted = server.agent("scripted");
    // Large enough to be stored outside the log, where a reader of the rule has to fetch it.
    let text = "large ".repeat(20_000);
    let task = scripted.open(script(json!([
        { "restart": "retry" },
        { "status": "working", "text": "at it" },
        { "sleep_ms": 500 },
        { "artifact": { "name": "large", "parts": [{ "text": text }] } },
        { "complete": "done" },
    ])));
    let id = task["id"].as_str().unwrap();
    scripted.in_state(id, "TASK_STATE_WORKING");
    server.kill9();
    server.restart();
    let task = scripted.settled(id);
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{}", task["status"]);
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], text);
}
