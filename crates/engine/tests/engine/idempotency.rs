//! A repeat with the same key is the same request.

use std::collections::HashSet;

use futures_util::future::join_all;
use model::ports::agent::{EndState, Restart};
use model::{Kind, State};

use crate::common::{
    Adverbs, Manners, Puppet, aside, at, collect, echo, get, hear, history, kind, of, on_both_stores, quick, reply_of,
    say, scripted, task_of, task_when,
};

#[tokio::test]
async fn the_same_key_gives_the_same_task_and_another_body_is_refused() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo(), scripted()]).await;
        for agent in ["echo", "scripted"] {
            let first = task_of(engine.send(&at(agent), say("hi").keyed("k")).await);
            let again = task_of(engine.send(&at(agent), say("hi").keyed("k")).await);
            assert_eq!(first, again);
            assert_eq!(kind(engine.send(&at(agent), say("ho").keyed("k")).await), Kind::KeyReused);
            assert_eq!(kind(engine.stream(&at(agent), say("ho").keyed("k")).await), Kind::KeyReused);
            let other = task_of(engine.send(&at(agent), say("hi").keyed("l")).await);
            assert_ne!(first.id, other.id);
        }
        assert_eq!(engine.health().await.unwrap().tasks, 4);
    })
    .await;
}

#[tokio::test]
async fn a_key_is_its_callers_own() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo(), scripted()]).await;
        let mut seen = HashSet::new();
        for place in [
            of("red", "ann", "echo"),
            of("red", "bob", "echo"),
            of("blue", "ann", "echo"),
            of("red", "ann", "scripted"),
            of("re", "dann", "echo"),
        ] {
            assert!(seen.insert(task_of(engine.send(&place, say(&place.agent).keyed("k")).await).id));
        }
    })
    .await;
}

#[tokio::test]
async fn a_repeated_message_id_alone_is_no_repeat() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let send = say("hi");
        let one = task_of(engine.send(&at("echo"), send.clone()).await);
        let two = task_of(engine.send(&at("echo"), send).await);
        assert_ne!(one.id, two.id);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once_with_one_key_are_one_task_and_one_turn() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo(), scripted()]).await;
        for (agent, text) in [("echo", "hi"), ("scripted", "hi"), ("scripted", "sleep:20"), ("scripted", "ask")] {
            let before = engine.figures().turns_started;
            let sends = (0..50).map(|_| {
                let engine = engine.clone();
                aside(async move { task_of(engine.send(&at(agent), say(text).keyed(text)).await) })
            });
            let tasks = join_all(sends).await;
            let ids: HashSet<_> = tasks.iter().map(|task| task.as_ref().unwrap().id).collect();
            assert_eq!(ids.len(), 1);
            assert!(tasks.iter().all(|task| task.as_ref().unwrap().core.is_at_rest()));
            assert_eq!(engine.figures().turns_started, before + 1);
        }
    })
    .await;
}

#[tokio::test]
async fn a_repeat_that_comes_before_the_first_is_answered_waits_for_the_same_turn() {
    on_both_stores(async |mut house| {
        for idempotent in [false, true] {
            let puppet = Puppet::with(Manners { idempotent, restart: Restart::Retry, ..Manners::default() });
            let engine = house.start([puppet.clone() as _]).await;
            let send = |engine: &engine::Engine| {
                let engine = engine.clone();
                aside(async move { task_of(engine.send(&at("puppet"), say("go").keyed("k")).await) })
            };
            // The task is in the store, but its commit is not acknowledged yet.
            house.shelf().hold_answers(true);
            let first = send(&engine);
            crate::common::until(async || house.shelf().commits() == 1).await;
            crate::common::until(async || engine.health().await.unwrap().tasks > 0).await;
            let repeat = send(&engine);
            let mut stream = engine.stream(&at("puppet"), say("go").keyed("k")).await.unwrap();
            assert_eq!(crate::common::next_heard(&mut stream).await, "task submitted");
            house.shelf().hold_answers(false);
            puppet.turn().await.ends(EndState::Completed, "done");
            let (first, repeat) = (first.await.unwrap(), repeat.await.unwrap());
            assert_eq!((first.id, first.state()), (repeat.id, State::Completed));
            assert_eq!(crate::common::next_heard(&mut stream).await, "completed: done.");
            engine.purge(first.id).await.unwrap();
            house.kill().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_follow_up_is_taken_once() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = crate::common::begin(&engine, "puppet", say("one")).await.id;
        puppet.turn().await.ends(EndState::InputRequired, "which?");
        task_when(&engine, id, |task| task.core.is_at_rest()).await;
        let sends = (0..10).map(|_| {
            let engine = engine.clone();
            aside(async move { task_of(engine.send(&at("puppet"), say("two").to(id).keyed("k")).await) })
        });
        let sends: Vec<_> = sends.collect();
        puppet.turn().await.ends(EndState::Completed, "done");
        for send in sends {
            assert_eq!(send.await.unwrap().state(), State::Completed);
        }
        assert_eq!(history(&*get(&engine, "puppet", id).await), ["one", "which?", "two"]);
        let again = task_of(engine.send(&at("puppet"), say("two").to(id).keyed("k")).await);
        assert_eq!(again.state(), State::Completed, "even though the task has settled meanwhile");
        assert_eq!(kind(engine.send(&at("puppet"), say("three").to(id).keyed("k")).await), Kind::KeyReused);
        assert!(puppet.is_idle().await);
    })
    .await;
}

#[tokio::test]
async fn a_message_to_a_task_at_work_is_logged_once() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = crate::common::begin(&engine, "puppet", say("one")).await.id;
        let cue = puppet.turn().await;
        for _ in 0..3 {
            task_of(engine.send(&at("puppet"), say("two").to(id).keyed("k").soon()).await);
        }
        cue.ends(EndState::Completed, "");
        let cue = puppet.turn().await;
        assert_eq!(cue.heard(), ["two"]);
        assert_eq!(history(&cue.so_far), ["one", "two"]);
    })
    .await;
}

#[tokio::test]
async fn a_direct_reply_is_repeated_word_for_word() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let first = reply_of(engine.send(&at("scripted"), say("message: hi").keyed("k")).await);
        for send in [say("message: hi").keyed("k"), say("message: hi").keyed("k").soon()] {
            assert_eq!(reply_of(engine.send(&at("scripted"), send).await), first);
        }
        let again = engine.stream(&at("scripted"), say("message: hi").keyed("k")).await.unwrap();
        let heard: Vec<String> = collect(again).await.iter().map(hear).collect();
        assert_eq!(heard, ["reply: hi"]);
    })
    .await;
}

#[tokio::test]
async fn the_stream_of_a_repeat_tells_it_all_again() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo(), scripted()]).await;
        for agent in ["echo", "scripted"] {
            let mut all = Vec::new();
            for _ in 0..3 {
                let stream = engine.stream(&at(agent), say("hi").keyed("k")).await.unwrap();
                all.push(collect(stream).await.iter().map(hear).collect::<Vec<String>>());
            }
            assert_eq!(all[0].len(), 4);
            assert_eq!((&all[1], &all[2]), (&all[0], &all[0]));
        }
    })
    .await;
}

#[tokio::test]
async fn the_stream_of_a_repeated_follow_up_begins_with_that_follow_up() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let steps = serde_json::json!([{"input": "a?"}, {"input": "b?"}, {"complete": "c"}]);
        let id = task_of(engine.send(&at("scripted"), crate::common::script(&steps)).await).id;
        let follow = || say("x").to(id).keyed("k");
        let first = collect(engine.stream(&at("scripted"), follow()).await.unwrap()).await;
        let first: Vec<String> = first.iter().map(hear).collect();
        assert_eq!(first, ["task working", "input-required: b?."]);
        let again = collect(engine.stream(&at("scripted"), follow()).await.unwrap()).await;
        assert_eq!(again.iter().map(hear).collect::<Vec<String>>(), first);
        task_of(engine.send(&at("scripted"), say("y").to(id)).await);
        let later = collect(engine.stream(&at("scripted"), follow()).await.unwrap()).await;
        let later: Vec<String> = later.iter().map(hear).collect();
        assert_eq!(later, ["task working", "input-required: b?", "working", "completed: c."]);
    })
    .await;
}

#[tokio::test]
async fn a_key_survives_a_restart_and_ends_with_its_time() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let first = task_of(engine.send(&at("echo"), say("hi").keyed("k")).await);
        house.kill().await;
        let engine = house.start([echo()]).await;
        assert_eq!(task_of(engine.send(&at("echo"), say("hi").keyed("k")).await).id, first.id);
        house.kill().await;
        let limits = model::Limits { idempotency_ms: 0, ..quick() };
        let engine = house.start_with([echo()], limits).await;
        crate::common::until(async || task_of(engine.send(&at("echo"), say("hi").keyed("k")).await).id != first.id)
            .await;
    })
    .await;
}
