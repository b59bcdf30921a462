//! A cancel reaches the agent, and the task settles once.

use std::collections::HashMap;

use model::ports::agent::EndState;
use model::{Kind, State};

use crate::common::{
    Adverbs, Manners, Puppet, acting, aside, at, begin, cancel, ended, get, history, kind, last_words, log, next_heard,
    on_both_stores, quick, say, scripted, subscribe, task_of, task_when, text_piece, working,
};

#[tokio::test]
async fn a_cancel_reaches_the_agent_and_answers_with_the_canceled_task() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let limits = model::Limits { cancel_grace_ms: 3_600_000, ..quick() };
        let engine = house.start_with([puppet.clone() as _, scripted()], limits).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let call = aside({
            let engine = engine.clone();
            async move { cancel(&engine, "puppet", id).await.unwrap() }
        });
        cue.cancelled.clone().await;
        assert!(get(&engine, "puppet", id).await.core.cancel_requested);
        cue.says(text_piece("a", "so far", false));
        cue.ends(EndState::Canceled, "stopped");
        let task = call.await.unwrap();
        assert_eq!((task.state(), last_words(&task).as_str()), (State::Canceled, "stopped"));
        assert_eq!(crate::common::artifacts(&task), ["so far"]);

        let id = begin(&engine, "scripted", say("hang")).await.id;
        assert_eq!(cancel(&engine, "scripted", id).await.unwrap().state(), State::Canceled);
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_just_stops_when_asked_to_has_been_canceled() {
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
        drop(cue);
        assert_eq!(call.await.unwrap().state(), State::Canceled);
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_ignores_a_cancel_is_cut_off_after_the_grace() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let task = cancel(&engine, "puppet", id).await.unwrap();
        assert_eq!(task.state(), State::Canceled);
        cue.cut_off().await;
        cue.says(working("too late"));
        assert_eq!(get(&engine, "puppet", id).await, task);
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_never_stops_talking_is_cut_off_too() {
    on_both_stores(async |mut house| {
        let agent = acting("chatty", Manners::default(), |_| {
            use futures_util::StreamExt as _;
            futures_util::stream::iter(0..).map(|i| text_piece("a", &"x".repeat(4_000), i > 0)).boxed()
        });
        let engine = house.start([agent as _]).await;
        let id = begin(&engine, "chatty", say("go")).await.id;
        let task = cancel(&engine, "chatty", id).await.unwrap();
        assert_eq!(task.state(), State::Canceled);
    })
    .await;
}

#[tokio::test]
async fn a_task_that_waits_for_its_caller_is_canceled_at_once() {
    on_both_stores(async |mut house| {
        let limits = model::Limits { cancel_grace_ms: 3_600_000, ..quick() };
        let engine = house.start_with([scripted()], limits).await;
        for text in ["ask", "auth"] {
            let id = task_of(engine.send(&at("scripted"), say(text)).await).id;
            let mut subscription = subscribe(&engine, "scripted", id).await;
            assert_eq!(cancel(&engine, "scripted", id).await.unwrap().state(), State::Canceled);
            next_heard(&mut subscription).await;
            assert_eq!(next_heard(&mut subscription).await, "canceled.");
            assert_eq!(next_heard(&mut subscription).await, "the end");
        }
    })
    .await;
}

#[tokio::test]
async fn a_settled_task_cannot_be_canceled() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        for text in ["complete", "fail", "reject"] {
            let task = task_of(engine.send(&at("scripted"), say(text)).await);
            assert_eq!(kind(cancel(&engine, "scripted", task.id).await), Kind::TaskNotCancelable);
            assert_eq!(get(&engine, "scripted", task.id).await, task);
        }
        let id = begin(&engine, "scripted", say("hang")).await.id;
        cancel(&engine, "scripted", id).await.unwrap();
        assert_eq!(kind(cancel(&engine, "scripted", id).await), Kind::TaskNotCancelable);
    })
    .await;
}

#[tokio::test]
async fn a_blocked_send_has_the_canceled_task() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let blocked = aside({
            let engine = engine.clone();
            async move { task_of(engine.send(&at("puppet"), say("go")).await) }
        });
        let cue = puppet.turn().await;
        cancel(&engine, "puppet", cue.so_far.id).await.unwrap();
        assert_eq!(blocked.await.unwrap().state(), State::Canceled);
    })
    .await;
}

#[tokio::test]
async fn two_cancels_ask_the_agent_once_and_both_are_answered() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let _cue = puppet.turn().await;
        let (one, two) = tokio::join!(cancel(&engine, "puppet", id), cancel(&engine, "puppet", id));
        assert_eq!(one.unwrap(), two.unwrap());
        let log = log(&engine, id).await;
        let asked = log.iter().filter(|event| matches!(event.body, model::Body::CancelRequested { .. })).count();
        assert_eq!(asked, 1);
    })
    .await;
}

#[tokio::test]
async fn messages_that_wait_do_not_keep_a_canceled_task_going() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("one")).await.id;
        let cue = puppet.turn().await;
        begin(&engine, "puppet", say("two").to(id)).await;
        let call = aside({
            let engine = engine.clone();
            async move { cancel(&engine, "puppet", id).await.unwrap() }
        });
        cue.cancelled.clone().await;
        cue.ends(EndState::Completed, "was done already");
        let task = call.await.unwrap();
        assert_eq!((task.state(), history(&task)), (State::Completed, vec!["one".to_owned(), "two".to_owned()]));
        assert!(puppet.is_idle().await);
    })
    .await;
}

#[tokio::test]
async fn a_cancel_that_the_agent_answers_with_a_question_is_a_cancel_all_the_same() {
    on_both_stores(async |mut house| {
        for state in [EndState::InputRequired, EndState::AuthRequired] {
            let puppet = Puppet::new();
            let engine = house.start([puppet.clone() as _]).await;
            let id = begin(&engine, "puppet", say("one")).await.id;
            let cue = puppet.turn().await;
            let call = aside({
                let engine = engine.clone();
                async move { cancel(&engine, "puppet", id).await.unwrap() }
            });
            cue.cancelled.clone().await;
            cue.ends(state, "are you sure?");
            assert_eq!(call.await.unwrap().state(), State::Canceled);
            house.kill().await;
        }
    })
    .await;
}

/// Exactly one of them wins, and all readers see the same state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_races_with_the_end_leaves_one_terminal_state() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let mut ends: HashMap<State, u32> = HashMap::new();
        for round in 0..100_u32 {
            let blocked = aside({
                let engine = engine.clone();
                async move { task_of(engine.send(&at("puppet"), say("go")).await) }
            });
            let cue = puppet.turn().await;
            let id = cue.so_far.id;
            let call = aside({
                let engine = engine.clone();
                async move {
                    for _ in 0..round % 7 {
                        tokio::task::yield_now().await;
                    }
                    cancel(&engine, "puppet", id).await
                }
            });
            for _ in 0..round % 5 {
                tokio::task::yield_now().await;
            }
            cue.ends(EndState::Completed, "");
            let (canceled, blocked) = (call.await.unwrap(), blocked.await.unwrap());
            match canceled {
                Ok(task) => assert_eq!(task, blocked),
                Err(fault) => assert_eq!((fault.kind, blocked.state()), (Kind::TaskNotCancelable, State::Completed)),
            }
            let log = log(&engine, id).await;
            let terminal = |event: &&model::Event| match &event.body {
                model::Body::Status(change) => change.state.is_terminal(),
                _ => false,
            };
            assert_eq!(log.iter().filter(terminal).count(), 1);
            assert!(terminal(&log.last().unwrap()));
            *ends.entry(blocked.state()).or_default() += 1;
        }
        println!("{ends:?}");
    })
    .await;
}

/// The turn that runs when the cancel is logged is cancelled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_that_races_with_the_next_turn_reaches_one_of_them() {
    on_both_stores(async |mut house| {
        let agent = acting("relay", Manners::default(), |turn| {
            use futures_util::StreamExt as _;
            let first = turn.messages[0].message.text() == "one";
            let end = async move {
                if first {
                    return ended(EndState::Completed, "next");
                }
                turn.cancelled.await;
                ended(EndState::Canceled, "heard")
            };
            let go = async move {
                if first {
                    // Long enough for the second message to arrive.
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
                working("")
            };
            futures_util::stream::once(go).chain(futures_util::stream::once(end)).boxed()
        });
        let limits = model::Limits { cancel_grace_ms: 5_000, ..quick() };
        let engine = house.start_with([agent as _], limits).await;
        for _ in 0..200 {
            let id = begin(&engine, "relay", say("one")).await.id;
            // The task settled before the message: not the race under test.
            let Ok(_) = engine.send(&at("relay"), say("two").to(id).soon()).await else { continue };
            task_when(&engine, id, |task| task.state() == State::Working || task.core.is_settled()).await;
            let task = cancel(&engine, "relay", id).await;
            let task = match task {
                Ok(task) => task,
                Err(_) => get(&engine, "relay", id).await,
            };
            assert!(task.core.is_settled(), "the cancel was lost: {task:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_operator_cancels_whatever_the_place() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let place = crate::common::of("red", "ann", "scripted");
        let id = task_of(engine.send(&place, say("hang").soon()).await).id;
        assert_eq!(engine.cancel_by_operator(id).await.unwrap().state(), State::Canceled);
        let missing = "0190f3c4-1111-7222-8333-444455556666".parse().unwrap();
        assert_eq!(kind(engine.cancel_by_operator(missing).await), Kind::TaskNotFound);
    })
    .await;
}

#[tokio::test]
async fn an_operator_cancels_without_a_server() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let id = begin(&engine, "scripted", say("hang")).await.id;
        house.kill().await;
        let offline = engine::Engine::offline(house.open(), quick());
        assert_eq!(offline.cancel_by_operator(id).await.unwrap().state(), State::Canceled);
        house.kill().await;
        let engine = house.start([scripted()]).await;
        assert_eq!(get(&engine, "scripted", id).await.state(), State::Canceled);
        assert_eq!(engine.figures().turns_recovered, 0);
    })
    .await;
}
