//! Messages to a working task: logged at once, taken up by the next turn.

use model::ports::agent::EndState;
use model::{Body, Kind, State};

use crate::common::{
    Adverbs, Puppet, aside, at, begin, history, last_words, log, next_heard, on_both_stores, quick, say, subscribe,
    task_of, task_when, working,
};

#[tokio::test]
async fn a_message_to_a_task_at_work_is_taken_up_by_the_next_turn() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("one")).await.id;
        let cue = puppet.turn().await;
        let mut subscription = subscribe(&engine, "puppet", id).await;
        for text in ["two", "three"] {
            let task = begin(&engine, "puppet", say(text).to(id)).await;
            assert_eq!(task.history.last().unwrap().text(), text, "it is logged when it is answered");
        }
        assert!(puppet.is_idle().await, "the turn at work is not disturbed");
        let first = cue.turn;
        cue.ends(EndState::Completed, "half done");

        let cue = puppet.turn().await;
        assert_ne!(cue.turn, first);
        assert_eq!((cue.heard(), cue.attempt), (vec!["two".to_owned(), "three".to_owned()], 1));
        assert_eq!(history(&cue.so_far), ["one", "two", "three"]);
        assert_eq!((cue.so_far.state(), last_words(&cue.so_far).as_str()), (State::Working, "half done"));
        cue.ends(EndState::Completed, "done");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(history(&task), ["one", "two", "three", "half done"]);
        let mut heard = Vec::new();
        for _ in 0..4 {
            heard.push(next_heard(&mut subscription).await);
        }
        assert_eq!(heard, ["task submitted", "working: half done", "completed: done.", "the end"]);
    })
    .await;
}

#[tokio::test]
async fn a_blocking_message_to_a_task_at_work_waits_for_its_own_turn() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("one")).await.id;
        let cue = puppet.turn().await;
        let second = aside({
            let engine = engine.clone();
            async move { task_of(engine.send(&at("puppet"), say("two").to(id)).await) }
        });
        task_when(&engine, id, |task| task.core.waiting == 1).await;
        cue.ends(EndState::Completed, "one done");
        let cue = puppet.turn().await;
        assert!(!second.is_finished());
        cue.ends(EndState::Completed, "two done");
        let task = second.await.unwrap();
        assert_eq!((task.state(), last_words(&task).as_str()), (State::Completed, "two done"));
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_fails_while_a_message_waits_settles_the_task_for_both() {
    on_both_stores(async |mut house| {
        for state in [EndState::Failed, EndState::Rejected, EndState::Canceled] {
            let puppet = Puppet::new();
            let engine = house.start([puppet.clone() as _]).await;
            let id = begin(&engine, "puppet", say("one")).await.id;
            let cue = puppet.turn().await;
            let second = aside({
                let engine = engine.clone();
                async move { task_of(engine.send(&at("puppet"), say("two").to(id)).await) }
            });
            task_when(&engine, id, |task| task.core.waiting == 1).await;
            cue.ends(state, "no");
            let task = second.await.unwrap();
            assert_eq!((task.state(), last_words(&task).as_str()), (State::from(state), "no"));
            assert_eq!(history(&task), ["one", "two"]);
            assert!(puppet.is_idle().await);
            house.kill().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_question_that_was_answered_before_it_was_asked_goes_straight_on() {
    on_both_stores(async |mut house| {
        for state in [EndState::InputRequired, EndState::AuthRequired] {
            let puppet = Puppet::new();
            let engine = house.start([puppet.clone() as _]).await;
            let mut stream = engine.stream(&at("puppet"), say("one")).await.unwrap();
            let cue = puppet.turn().await;
            let id = cue.so_far.id;
            let second = aside({
                let engine = engine.clone();
                async move { task_of(engine.send(&at("puppet"), say("two").to(id)).await) }
            });
            task_when(&engine, id, |task| task.core.waiting == 1).await;
            cue.ends(state, "which?");
            let cue = puppet.turn().await;
            assert_eq!(cue.heard(), ["two"]);
            assert_eq!(history(&cue.so_far), ["one", "two", "which?"]);
            cue.says(working("on it"));
            cue.ends(EndState::Completed, "done");
            assert_eq!(second.await.unwrap().state(), State::Completed);
            let mut heard = Vec::new();
            for _ in 0..6 {
                heard.push(next_heard(&mut stream).await);
            }
            let question = if state == EndState::InputRequired { "input" } else { "auth" };
            let question = format!("{question}-required: which?");
            assert_eq!(
                heard,
                ["task submitted", &question, "working", "working: on it", "completed: done.", "the end"],
                "a question that is answered closes nothing"
            );
            house.kill().await;
        }
    })
    .await;
}

#[tokio::test]
async fn so_many_messages_wait_and_no_more() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let limits = model::Limits { waiting_messages: 3, ..quick() };
        let engine = house.start_with([puppet.clone() as _], limits).await;
        let id = begin(&engine, "puppet", say("0")).await.id;
        let cue = puppet.turn().await;
        for i in 1..=3 {
            begin(&engine, "puppet", say(&i.to_string()).to(id)).await;
        }
        let refused = engine.send(&at("puppet"), say("4").to(id)).await.unwrap_err();
        assert_eq!((refused.kind, refused.retry_after_s), (Kind::Unavailable, Some(1)));
        cue.ends(EndState::Completed, "");
        let cue = puppet.turn().await;
        assert_eq!(cue.heard(), ["1", "2", "3"]);
        begin(&engine, "puppet", say("5").to(id)).await;
    })
    .await;
}

#[tokio::test]
async fn messages_that_arrive_together_are_all_taken_up_once_and_in_the_order_of_the_log() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("first")).await.id;
        let senders: Vec<_> = (0..20)
            .map(|i| {
                let engine = engine.clone();
                aside(async move { task_of(engine.send(&at("puppet"), say(&format!("m{i}")).to(id)).await) })
            })
            .collect();
        let mut taken = Vec::new();
        while taken.len() < 21 {
            let cue = puppet.turn().await;
            taken.extend(cue.heard());
            // Without waiting messages the task would be over.
            task_when(&engine, id, |task| task.core.waiting > 0 || taken.len() == 21).await;
            cue.ends(EndState::Completed, "");
        }
        for sender in senders {
            assert_eq!(sender.await.unwrap().state(), State::Completed);
        }
        let logged: Vec<String> = log(&engine, id)
            .await
            .iter()
            .filter_map(|event| match &event.body {
                Body::Message(inbound) => Some(inbound.message.text()),
                _ => None,
            })
            .collect();
        assert_eq!(taken, logged);
        assert_eq!(history(&*crate::common::get(&engine, "puppet", id).await), logged);
    })
    .await;
}
