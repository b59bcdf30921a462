//! A turn has a timeout, kept in the store. Timers use the wall clock, so these tests do too.

use model::ports::agent::{EndState, Restart};
use model::ports::store::{Commit, Outcome, StoreError, Timer, TimerChange, TimerKind};
use model::{Limits, State, Time};

use crate::common::{
    Adverbs, Manners, Mood, Puppet, acting, aside, at, begin, get, last_words, on_both_stores, quick, say, task_of,
    task_when, text_piece, until,
};

fn hasty() -> Limits {
    Limits { turn_timeout_ms: 40, ..quick() }
}

#[tokio::test]
async fn a_turn_that_takes_too_long_fails_and_says_so() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start_with([puppet.clone() as _], hasty()).await;
        let blocked = aside({
            let engine = engine.clone();
            async move { task_of(engine.send(&at("puppet"), say("go")).await) }
        });
        let cue = puppet.turn().await;
        cue.says(text_piece("a", "half", false));
        let task = blocked.await.unwrap();
        assert_eq!(task.state(), State::Failed);
        assert_eq!(last_words(&task), "the agent did not finish within 0.04 s");
        assert_eq!(crate::common::artifacts(&task), ["half"]);
        cue.cut_off().await;
        crate::common::until(async || engine.health().await.unwrap().timers == 0).await;
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_never_stops_talking_is_timed_out_too() {
    on_both_stores(async |mut house| {
        let agent = acting("chatty", Manners::default(), |_| {
            use futures_util::StreamExt as _;
            futures_util::stream::iter(0..).map(|i| text_piece("a", "x", i > 0)).boxed()
        });
        let engine = house.start_with([agent as _], hasty()).await;
        let task = task_of(engine.send(&at("chatty"), say("go")).await);
        assert_eq!(task.state(), State::Failed);
        assert_eq!(last_words(&task), "the agent did not finish within 0.04 s");
    })
    .await;
}

#[tokio::test]
async fn a_turn_in_time_leaves_no_timer() {
    on_both_stores(async |mut house| {
        let engine = house.start([crate::common::scripted(), crate::common::echo()]).await;
        for text in ["hi", "ask", "fail", "message"] {
            engine.send(&at("scripted"), say(text)).await.unwrap();
            engine.send(&at("echo"), say(text)).await.unwrap();
        }
        assert_eq!(engine.health().await.unwrap().timers, 0);
        begin(&engine, "scripted", say("hang")).await;
        assert_eq!(engine.health().await.unwrap().timers, 1);
    })
    .await;
}

#[tokio::test]
async fn each_turn_has_its_own_time() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("one")).await.id;
        puppet.turn().await.ends(EndState::InputRequired, "which?");
        task_when(&engine, id, |task| task.core.is_at_rest()).await;
        house.kill().await;
        let engine = house.start_with([puppet.clone() as _], hasty()).await;
        // A task that waits for its caller has no timeout: it waits longer than the turn timeout of another.
        let other = task_of(engine.send(&at("puppet"), say("other")).await);
        assert_eq!(other.state(), State::Failed);
        assert_eq!(get(&engine, "puppet", id).await.state(), State::InputRequired);
        drop(puppet.turn().await);
        let task = task_of(engine.send(&at("puppet"), say("two").to(id)).await);
        assert_eq!(task.state(), State::Failed);
    })
    .await;
}

#[tokio::test]
async fn a_timer_left_over_from_an_earlier_turn_does_not_end_a_later_one() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start_with([puppet.clone() as _], Limits { turn_timeout_ms: 2_000, ..quick() }).await;
        let first = begin(&engine, "puppet", say("takes too long")).await;
        let _hangs = puppet.turn().await;
        let half = first.created_at.plus_ms(1_000);
        until(async || jiff::Timestamp::now().as_millisecond() > half.0).await;
        let id = begin(&engine, "puppet", say("in time")).await.id;
        let cue = puppet.turn().await;
        // The timer that remains when a turn ends just as the timer fires.
        let stale = Timer { task: id, kind: TimerKind::TurnTimeout, due: Time(1) };
        let set = Commit { timers: vec![TimerChange::Set(stale)], ..Commit::default() };
        assert_eq!(engine.store().commit(set).await, Outcome::Done);
        // The first turn's timer fires, and the stale one with it.
        task_when(&engine, first.id, |task| task.core.is_settled()).await;
        until(async || engine.store().next_due().await.unwrap().is_some_and(|due| due > Time(1))).await;
        cue.ends(EndState::Completed, "in time");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!((task.state(), last_words(&task).as_str()), (State::Completed, "in time"));
    })
    .await;
}

#[tokio::test]
async fn a_timer_that_cannot_be_moved_is_tried_again_without_haste() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        // Long enough for the store to refuse before the timeout.
        let limits = Limits { turn_timeout_ms: 2_000, ..quick() };
        let engine = house.start_with([puppet.clone() as _], limits).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let _cue = puppet.turn().await;
        house.shelf().be(Mood::Refuses(StoreError::Full));
        until(async || engine.figures().store_troubles > 2).await;
        assert!(house.shelf().refused() < 20, "{} tries", house.shelf().refused());
        house.shelf().be(Mood::Fine);
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(last_words(&task), "the agent did not finish within 2 s");
        until(async || engine.health().await.unwrap().timers == 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_was_taken_up_after_a_restart_still_ends_in_time() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::with(Manners { restart: Restart::Retry, ..Manners::default() });
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let _first = puppet.turn().await;
        house.kill().await;
        let engine = house.start_with([puppet.clone() as _], hasty()).await;
        let cue = puppet.turn().await;
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(last_words(&task), "the agent did not finish within 0.04 s");
        cue.cut_off().await;
    })
    .await;
}

#[tokio::test]
async fn a_timer_that_was_due_while_the_server_was_down_finds_the_turn_settled() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start_with([puppet.clone() as _], Limits { turn_timeout_ms: 1, ..quick() }).await;
        house.shelf().hold_answers(true);
        let send = aside({
            let engine = engine.clone();
            async move { engine.send(&at("puppet"), say("go")).await }
        });
        crate::common::until(async || engine.health().await.unwrap().tasks == 1).await;
        house.kill().await;
        send.abort();
        let engine = house.start_with([puppet.clone() as _], Limits { turn_timeout_ms: 1, ..quick() }).await;
        crate::common::until(async || engine.health().await.unwrap().timers == 0).await;
        let listing = engine.list(&at("puppet"), &model::List::default()).await.unwrap();
        assert_eq!(listing.tasks[0].state(), State::Failed);
        assert!(puppet.is_idle().await);
    })
    .await;
}

/// A timer is read before it is changed. A turn that begins in between has a timer of its own.
#[tokio::test]
async fn a_timer_is_cleared_only_while_it_is_the_one_that_fired() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("one")).await.id;
        puppet.turn().await.ends(EndState::InputRequired, "which?");
        task_when(&engine, id, |task| task.core.is_at_rest()).await;
        // The timer that remains when a turn ends just as the timer fires.
        let stale = Timer { task: id, kind: TimerKind::TurnTimeout, due: Time(1) };
        let set = Commit { timers: vec![TimerChange::Set(stale)], ..Commit::default() };
        assert_eq!(engine.store().commit(set).await, Outcome::Done);
        house.kill().await;

        let shelf = house.open();
        shelf.hold_timers(true);
        let engine = engine::Engine::builder(shelf.clone())
            .agents(vec![puppet.clone() as _])
            .limits(quick())
            .start()
            .await
            .unwrap();
        until(async || shelf.timers_waiting() == 1).await;
        let send = aside({
            let engine = engine.clone();
            async move { task_of(engine.send(&at("puppet"), say("two").to(id)).await) }
        });
        let cue = puppet.turn().await;
        let own = engine.store().timers(vec![id]).await.unwrap();
        assert!(own.len() == 1 && own[0].due > Time(1), "{own:?}");
        shelf.hold_timers(false);
        until(async || shelf.timers_waiting() == 0).await;
        assert_eq!(engine.store().timers(vec![id]).await.unwrap(), own);
        cue.ends(EndState::Completed, "in time");
        assert_eq!(send.await.unwrap().state(), State::Completed);
        assert_eq!(engine.store().timers(vec![id]).await.unwrap(), []);
    })
    .await;
}
