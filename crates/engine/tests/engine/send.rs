//! A message opens a task, and the caller waits as long as it asked to.

use model::ports::agent::{EndState, Restart};
use model::{Fault, Kind, State};

use crate::common::{
    Acting, Adverbs, Manners, Puppet, acting, artifacts, aside, at, begin, echo, ended, history, kind, last_words, log,
    on_both_stores, say, scripted, task_of, task_when, text_piece, working,
};

#[tokio::test]
async fn a_blocking_send_answers_with_the_settled_task() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo(), scripted()]).await;
        let task = task_of(engine.send(&at("echo"), say("hello")).await);
        assert_eq!(task.state(), State::Completed);
        assert_eq!(artifacts(&task), ["hello"]);
        assert_eq!(history(&task), ["hello"]);

        for (text, state) in [
            ("complete: done", State::Completed),
            ("fail: out of paper", State::Failed),
            ("reject: not mine", State::Rejected),
            ("ask: which?", State::InputRequired),
            ("auth: who?", State::AuthRequired),
        ] {
            let task = task_of(engine.send(&at("scripted"), say(text)).await);
            assert_eq!(task.state(), state, "{text}");
            assert_eq!(last_words(&task), text.split_once(": ").unwrap().1);
        }
    })
    .await;
}

/// Every request's future contains this one and is copied as a whole, so rare state must be boxed.
#[tokio::test]
async fn what_a_send_needs_while_it_waits_is_little() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let place = at("echo");
        let sending = std::mem::size_of_val(&engine.send(&place, say("hello")));
        let streaming = std::mem::size_of_val(&engine.stream(&place, say("hello")));
        assert!(sending <= 6 << 10 && streaming <= 6 << 10, "{sending} and {streaming} bytes");
    })
    .await;
}

#[tokio::test]
async fn a_send_that_waits_for_existence_answers_while_the_agent_is_at_work() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let task = task_of(engine.send(&at("puppet"), say("go").soon()).await);
        assert_eq!(task.state(), State::Submitted);
        let cue = puppet.turn().await;
        assert_eq!((cue.heard(), cue.attempt, cue.bound.as_deref()), (vec!["go".to_owned()], 1, None));
        cue.ends(EndState::Completed, "done");
        let task = task_when(&engine, task.id, |task| task.core.is_settled()).await;
        assert_eq!((task.state(), last_words(&task).as_str()), (State::Completed, "done"));
    })
    .await;
}

#[tokio::test]
async fn a_send_with_a_longest_wait_answers_with_the_task_at_work() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let task = task_of(engine.send(&at("puppet"), say("go").at_most_ms(10)).await);
        assert!(!task.core.is_settled());
        puppet.turn().await.ends(EndState::Completed, "");
        task_when(&engine, task.id, |task| task.state() == State::Completed).await;
    })
    .await;
}

#[tokio::test]
async fn a_longest_wait_that_is_not_needed_is_not_waited() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let task = task_of(engine.send(&at("scripted"), say("complete").at_most_ms(3_600_000)).await);
        assert_eq!(task.state(), State::Completed);
    })
    .await;
}

#[tokio::test]
async fn a_fast_turn_of_an_idempotent_agent_costs_one_commit_and_another_agent_two() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo(), scripted()]).await;
        task_of(engine.send(&at("echo"), say("hello")).await);
        assert_eq!(house.shelf().commits(), 1);
        task_of(engine.send(&at("scripted"), say("hello")).await);
        assert_eq!(house.shelf().commits(), 3);
    })
    .await;
}

#[tokio::test]
async fn what_an_idempotent_agent_says_before_it_first_waits_is_in_the_first_commit() {
    on_both_stores(async |mut house| {
        let manners = Manners { idempotent: true, restart: Restart::Retry, ..Manners::default() };
        let agent = acting("eager", manners, |turn| {
            use futures_util::StreamExt as _;
            let head = [working("reading"), text_piece("a", "one ", false)];
            let rest = async move {
                turn.cancelled.await;
                ended(EndState::Canceled, "as you wish")
            };
            futures_util::stream::iter(head).chain(futures_util::stream::once(rest)).boxed()
        });
        let engine = house.start([agent as _]).await;
        let task = begin(&engine, "eager", say("go")).await;
        assert_eq!(house.shelf().commits(), 1);
        assert_eq!((task.state(), artifacts(&task)), (State::Working, vec!["one ".to_owned()]));
        let task = crate::common::cancel(&engine, "eager", task.id).await.unwrap();
        assert_eq!((task.state(), last_words(&task).as_str()), (State::Canceled, "as you wish"));
    })
    .await;
}

#[tokio::test]
async fn a_message_that_the_agent_does_not_admit_leaves_nothing_behind() {
    on_both_stores(async |mut house| {
        let agent = acting("picky", Manners::default(), |_| panic!("never runs"));
        *agent.refusal.lock() = Some(|| Fault::params("message", "too long"));
        let engine = house.start([agent as std::sync::Arc<Acting> as _]).await;
        assert_eq!(kind(engine.send(&at("picky"), say("go")).await), Kind::InvalidParams);
        assert_eq!(kind(engine.stream(&at("picky"), say("go")).await), Kind::InvalidParams);
        assert_eq!(engine.health().await.unwrap().tasks, 0);
        assert_eq!(engine.figures().turns_running, 0);
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_goes_away_never_stops_its_task() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let caller = aside({
            let engine = engine.clone();
            async move { engine.send(&at("puppet"), say("go")).await }
        });
        let cue = puppet.turn().await;
        let id = cue.so_far.id;
        caller.abort();
        assert!(caller.await.is_err());
        cue.says(working("still here"));
        cue.ends(EndState::Completed, "done");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!((task.state(), history(&task)), (State::Completed, vec!["go".to_owned(), "still here".to_owned()]));
    })
    .await;
}

#[tokio::test]
async fn too_many_turns_at_once_are_refused_and_room_comes_back() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let limits = model::Limits { running_turns: 2, ..crate::common::quick() };
        let engine = house.start_with([puppet.clone() as _], limits).await;
        let first = begin(&engine, "puppet", say("1")).await;
        begin(&engine, "puppet", say("2")).await;
        assert_eq!(kind(engine.send(&at("puppet"), say("3")).await), Kind::Unavailable);
        puppet.turn().await.ends(EndState::Completed, "");
        task_when(&engine, first.id, |task| task.core.is_settled()).await;
        crate::common::until(async || engine.figures().turns_running == 1).await;
        begin(&engine, "puppet", say("4")).await;
    })
    .await;
}

#[tokio::test]
async fn a_message_to_a_task_at_work_needs_no_room_for_another_turn() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let limits = model::Limits { running_turns: 1, ..crate::common::quick() };
        let engine = house.start_with([puppet.clone() as _], limits).await;
        let task = begin(&engine, "puppet", say("1")).await;
        task_of(engine.send(&at("puppet"), say("2").to(task.id).soon()).await);
        puppet.turn().await.ends(EndState::Completed, "");
        assert_eq!(puppet.turn().await.heard(), ["2"]);
    })
    .await;
}

#[tokio::test]
async fn a_log_begins_with_the_opening_the_message_and_the_turn() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let task = task_of(engine.send(&at("scripted"), say("complete: done").within("c1")).await);
        assert_eq!(task.context.as_str(), "c1");
        let log = log(&engine, task.id).await;
        let kinds: Vec<&str> = log
            .iter()
            .map(|event| match &event.body {
                model::Body::Opened(_) => "opened",
                model::Body::Message(_) => "message",
                model::Body::TurnStarted { .. } => "turn",
                model::Body::Status(_) => "status",
                _ => "other",
            })
            .collect();
        assert_eq!(kinds, ["opened", "message", "turn", "status", "status"]);
        assert!(log.iter().enumerate().all(|(i, event)| event.seq.0 == i as u64 + 1));
    })
    .await;
}
