//! An orderly shutdown: no new work, time for running turns, an end to every stream.

use model::ports::agent::{EndState, Restart};
use model::{Kind, Limits, State};

use crate::common::{
    Adverbs, Manners, Puppet, aside, at, begin, cancel, echo, get, kind, next_heard, on_both_stores, quick, say,
    subscribe, task_of,
};

#[tokio::test]
async fn a_draining_engine_refuses_new_work_and_still_reads() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _, echo()]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        engine.begin_drain();
        assert!(engine.is_draining());
        for agent in ["echo", "puppet"] {
            let fault = engine.send(&at(agent), say("hi")).await.unwrap_err();
            assert_eq!((fault.kind, fault.retry_after_s), (Kind::Unavailable, Some(2)));
            assert_eq!(kind(engine.stream(&at(agent), say("hi")).await), Kind::Unavailable);
        }
        assert_eq!(kind(engine.send(&at("puppet"), say("more").to(id)).await), Kind::Unavailable);
        assert_eq!(get(&engine, "puppet", id).await.state(), State::Submitted);
        let mut subscription = subscribe(&engine, "puppet", id).await;
        assert_eq!(next_heard(&mut subscription).await, "task submitted");
        let call = aside({
            let engine = engine.clone();
            async move { cancel(&engine, "puppet", id).await.unwrap() }
        });
        cue.cancelled.clone().await;
        drop(cue);
        assert_eq!(call.await.unwrap().state(), State::Canceled);
    })
    .await;
}

#[tokio::test]
async fn a_drain_waits_for_the_turns_at_work() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let limits = Limits { drain_ms: 3_600_000, ..quick() };
        let engine = house.start_with([puppet.clone() as _], limits).await;
        let blocked = aside({
            let engine = engine.clone();
            async move { task_of(engine.send(&at("puppet"), say("go")).await) }
        });
        let cue = puppet.turn().await;
        let drain = aside({
            let engine = engine.clone();
            async move { engine.drain().await }
        });
        crate::common::until(async || engine.is_draining()).await;
        assert!(!drain.is_finished());
        cue.ends(EndState::Completed, "done");
        assert_eq!(blocked.await.unwrap().state(), State::Completed);
        drain.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_drain_that_runs_out_of_patience_ends_streams_and_leaves_the_turn_to_the_next_start() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::with(Manners { restart: Restart::Retry, ..Manners::default() });
        let engine = house.start([puppet.clone() as _]).await;
        let mut stream = engine.stream(&at("puppet"), say("go")).await.unwrap();
        let _cue = puppet.turn().await;
        let id = stream.task;
        let mut subscription = subscribe(&engine, "puppet", id).await;
        let sends = [say("more").to(id), say("more").to(id).at_most_ms(3_600_000)].map(|send| {
            let engine = engine.clone();
            aside(async move { task_of(engine.send(&at("puppet"), send).await) })
        });
        crate::common::task_when(&engine, id, |task| task.core.waiting == 2).await;
        engine.drain().await;
        for subscription in [&mut stream, &mut subscription] {
            assert_eq!(next_heard(subscription).await, "task submitted");
            assert_eq!(next_heard(subscription).await, "the end");
        }
        for send in sends {
            let task = send.await.unwrap();
            assert!(!task.core.is_settled(), "told as it is");
        }
        // The drain has closed the store; in memory no data would be left for a restart.
        if house.rival().is_some() {
            return;
        }
        house.kill().await;
        house.start([puppet.clone() as _]).await;
        // The same turn has the same message; messages received during it are for the next.
        let cue = puppet.turn().await;
        assert_eq!((cue.attempt, cue.heard().len()), (2, 1));
        cue.ends(EndState::Completed, "");
        let cue = puppet.turn().await;
        assert_eq!((cue.attempt, cue.heard().len()), (1, 2));
    })
    .await;
}

#[tokio::test]
async fn a_caller_who_waits_for_an_undecided_exchange_is_told_to_come_back() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::with(Manners { undecided: true, ..Manners::default() });
        let engine = house.start([puppet.clone() as _]).await;
        let blocked = aside({
            let engine = engine.clone();
            async move { engine.send(&at("puppet"), say("go")).await }
        });
        let _cue = puppet.turn().await;
        engine.drain().await;
        assert_eq!(kind(blocked.await.unwrap()), Kind::Unavailable);
    })
    .await;
}
