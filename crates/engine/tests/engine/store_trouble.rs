//! Faults of the store: new work is refused, a running turn pauses and continues, nothing is lost or doubled.

use std::time::Duration;

use model::ports::agent::{EndState, Restart};
use model::ports::store::StoreError;
use model::{Kind, List, State};

use crate::common::{
    Adverbs, Manners, Mood, Puppet, artifacts, aside, at, begin, cancel, echo, get, history, kind, last_words, log,
    next_heard, on_both_stores, say, scripted, subscribe, task_of, task_when, text_piece, until,
};

#[tokio::test]
async fn new_work_is_refused_while_the_disk_is_full_and_reads_go_on() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo(), scripted()]).await;
        let done = task_of(engine.send(&at("echo"), say("hi")).await);
        let asked = task_of(engine.send(&at("scripted"), say("ask")).await);
        for trouble in [StoreError::Full, StoreError::ReadOnly, StoreError::Busy] {
            house.shelf().be(Mood::Refuses(trouble));
            for agent in ["echo", "scripted"] {
                let fault = engine.send(&at(agent), say("hi")).await.unwrap_err();
                assert_eq!((fault.kind, fault.retry_after_s), (Kind::Unavailable, Some(1)));
                assert_eq!(kind(engine.stream(&at(agent), say("hi")).await), Kind::Unavailable);
            }
            assert_eq!(kind(engine.send(&at("scripted"), say("x").to(asked.id)).await), Kind::Unavailable);
            assert_eq!(kind(cancel(&engine, "scripted", asked.id).await), Kind::Unavailable);
            assert_eq!(get(&engine, "echo", done.id).await, done);
            assert_eq!(engine.list(&at("echo"), &List::default()).await.unwrap().total, 1);
        }
        house.shelf().be(Mood::Fine);
        assert_eq!(task_of(engine.send(&at("echo"), say("hi")).await).state(), State::Completed);
        let task = task_of(engine.send(&at("scripted"), say("x").to(asked.id)).await);
        assert_eq!(history(&task), ["ask", "what shall I do?", "x"]);
        assert_eq!(engine.figures().turns_running, 0);
    })
    .await;
}

#[tokio::test]
async fn a_running_turn_waits_out_a_full_disk() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let mut subscription = subscribe(&engine, "puppet", id).await;
        cue.says(text_piece("a", "1", false));
        task_when(&engine, id, |task| !task.artifacts.is_empty()).await;
        house.shelf().be(Mood::Refuses(StoreError::Full));
        cue.says(text_piece("a", "2", true));
        until(async || house.shelf().refused() > 2).await;
        cue.says(text_piece("a", "3", true));
        assert_eq!(artifacts(&*get(&engine, "puppet", id).await), ["1"], "not told before it is written");
        house.shelf().be(Mood::Fine);
        cue.ends(EndState::Completed, "done");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(artifacts(&task), ["123"]);
        let mut heard = Vec::new();
        for _ in 0..6 {
            heard.push(next_heard(&mut subscription).await);
        }
        assert_eq!(heard, ["task submitted", "art a=1", "art a+2", "art a+3", "completed: done.", "the end"]);
        assert!(engine.figures().store_troubles > 0);
    })
    .await;
}

#[tokio::test]
async fn an_answer_that_was_lost_doubles_nothing_and_a_commit_that_was_lost_loses_nothing() {
    on_both_stores(async |mut house| {
        for mood in [Mood::LosesAnswer, Mood::LosesCommit] {
            let puppet = Puppet::new();
            let engine = house.start([puppet.clone() as _]).await;
            let id = begin(&engine, "puppet", say("go")).await.id;
            let cue = puppet.turn().await;
            let mut subscription = subscribe(&engine, "puppet", id).await;
            next_heard(&mut subscription).await;
            for i in 0..5 {
                house.shelf().be(mood.clone());
                cue.says(text_piece("a", &i.to_string(), i > 0));
                assert_eq!(next_heard(&mut subscription).await, format!("art a{}{i}", if i > 0 { '+' } else { '=' }));
            }
            house.shelf().be(mood.clone());
            begin_again(&engine, id).await;
            house.shelf().be(mood.clone());
            cue.ends(EndState::Completed, "half");
            assert_eq!(next_heard(&mut subscription).await, "working: half");
            let cue = puppet.turn().await;
            assert_eq!(cue.heard(), ["more"]);
            house.shelf().be(mood.clone());
            cue.ends(EndState::Completed, "done");
            assert_eq!(next_heard(&mut subscription).await, "completed: done.");
            let task = get(&engine, "puppet", id).await;
            assert_eq!(
                (artifacts(&task), history(&task)),
                (vec!["01234".to_owned()], vec!["go".to_owned(), "more".to_owned(), "half".to_owned()])
            );
            assert_eq!(log(&engine, id).await.len() as u64, task.seq().0);
            assert_eq!(house.shelf().refused(), 8);
            house.kill().await;
        }
    })
    .await;
}

/// Sends a follow-up like a retrying client: again, with its key, until it is accepted.
async fn begin_again(engine: &engine::Engine, id: model::TaskId) {
    until(async || engine.send(&at("puppet"), say("more").to(id).soon().keyed(&id.to_string())).await.is_ok()).await;
}

#[tokio::test]
async fn an_opening_whose_answer_was_lost_is_looked_up_and_goes_on() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _, echo()]).await;
        house.shelf().be(Mood::LosesAnswer);
        let blocked = aside({
            let engine = engine.clone();
            async move { task_of(engine.send(&at("puppet"), say("go").keyed("k")).await) }
        });
        puppet.turn().await.ends(EndState::Completed, "done");
        let task = blocked.await.unwrap();
        assert_eq!(last_words(&task), "done");
        assert_eq!(task_of(engine.send(&at("puppet"), say("go").keyed("k")).await).id, task.id);

        house.shelf().be(Mood::LosesAnswer);
        let task = task_of(engine.send(&at("echo"), say("hi")).await);
        assert_eq!(get(&engine, "echo", task.id).await, task);
        assert_eq!(engine.health().await.unwrap().tasks, 2);
    })
    .await;
}

#[tokio::test]
async fn an_opening_that_was_lost_is_refused_and_can_be_repeated() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::with(Manners { restart: Restart::Retry, ..Manners::default() });
        let engine = house.start([puppet.clone() as _, echo()]).await;
        for agent in ["puppet", "echo"] {
            house.shelf().be(Mood::LosesCommit);
            let refused = engine.send(&at(agent), say("go").keyed("k").soon()).await;
            assert!(matches!(kind(refused), Kind::Unavailable | Kind::Internal));
        }
        assert_eq!(engine.health().await.unwrap().tasks, 0);
        let task = task_of(engine.send(&at("puppet"), say("go").keyed("k").soon()).await);
        puppet.turn().await.ends(EndState::Completed, "");
        task_when(&engine, task.id, |task| task.core.is_settled()).await;
        assert!(puppet.is_idle().await);
        until(async || engine.figures().turns_running == 0).await;
    })
    .await;
}

/// Nothing is written again before the log has been read, however long that takes.
#[tokio::test]
async fn a_turn_whose_answer_was_lost_waits_until_the_log_can_be_read() {
    on_both_stores(async |mut house| {
        for mood in [Mood::LosesAnswer, Mood::LosesCommit] {
            let puppet = Puppet::new();
            let engine = house.start([puppet.clone() as _]).await;
            let id = begin(&engine, "puppet", say("go")).await.id;
            let cue = puppet.turn().await;
            let mut subscription = subscribe(&engine, "puppet", id).await;
            next_heard(&mut subscription).await;
            house.shelf().read_nothing(true);
            house.shelf().be(mood);
            let refused = house.shelf().refused();
            cue.says(text_piece("a", "once", false));
            until(async || house.shelf().refused() > refused + 2).await;
            house.shelf().read_nothing(false);
            assert_eq!(next_heard(&mut subscription).await, "art a=once");
            cue.ends(EndState::Completed, "");
            assert_eq!(next_heard(&mut subscription).await, "completed.");
            house.kill().await;
        }
    })
    .await;
}

#[tokio::test]
async fn an_opening_whose_answer_was_lost_waits_until_the_log_can_be_read() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        house.shelf().be(Mood::LosesAnswer);
        house.shelf().read_nothing(true);
        let blocked = aside({
            let engine = engine.clone();
            async move { task_of(engine.send(&at("puppet"), say("go")).await) }
        });
        until(async || house.shelf().refused() > 3).await;
        house.shelf().read_nothing(false);
        puppet.turn().await.ends(EndState::Completed, "done");
        assert_eq!(last_words(&blocked.await.unwrap()), "done");
    })
    .await;
}

#[tokio::test]
async fn a_cancel_during_trouble_settles_the_task_when_the_store_is_back() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let call = aside({
            let engine = engine.clone();
            async move { cancel(&engine, "puppet", id).await.unwrap() }
        });
        cue.cancelled.clone().await;
        house.shelf().be(Mood::Refuses(StoreError::Full));
        let answered = call.await.unwrap();
        assert!(!answered.core.is_settled(), "told as it is, once the grace is over");
        house.shelf().be(Mood::Fine);
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(task.state(), State::Canceled);
    })
    .await;
}

/// In paused time: the delays between retries grow, and end as soon as the engine stops.
#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_for_the_store_lets_go_when_the_engine_stops() {
    let mut house = crate::common::House::memory();
    let puppet = Puppet::new();
    let engine = house.start([puppet.clone() as _]).await;
    begin(&engine, "puppet", say("go")).await;
    let cue = puppet.turn().await;
    house.shelf().be(Mood::Refuses(StoreError::Full));
    cue.ends(EndState::Completed, "");
    until(async || house.shelf().refused() > 2).await;
    engine.drain().await;
    tokio::time::timeout(Duration::from_secs(10), until(async || engine.figures().turns_running == 0)).await.unwrap();
}
