//! After a kill every turn follows its agent's restart rule, and no visible event is taken back.

use engine::Engine;
use model::ports::agent::{AgentEvent, AgentMessage, EndState, Restart};
use model::ports::store::TaskLog;
use model::{Kind, Limits, State};

use crate::common::{
    Adverbs, House, Manners, Mood, Puppet, artifacts, at, begin, cancel, get, history, kind, last_words, log,
    on_both_stores, quick, reply_of, say, script, scripted, task_of, task_when, text_piece, until, working,
};

fn minded(restart: Restart) -> std::sync::Arc<Puppet> {
    Puppet::with(Manners { restart, ..Manners::default() })
}

#[tokio::test]
async fn a_turn_of_an_agent_that_must_not_run_twice_fails_and_says_why() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Fail);
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        cue.says(text_piece("a", "half", false));
        task_when(&engine, id, |task| !task.artifacts.is_empty()).await;
        house.kill().await;
        let engine = house.start([puppet.clone() as _]).await;
        let task = get(&engine, "puppet", id).await;
        assert_eq!((task.state(), artifacts(&task)), (State::Failed, vec!["half".to_owned()]));
        assert_eq!(last_words(&task), "the server restarted while the agent was at work; send the message again");
        assert!(puppet.is_idle().await);
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_may_run_again_does_and_says_so() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let turn = cue.turn;
        cue.says(text_piece("a", "old ", false));
        cue.says(text_piece("a", "text", true));
        task_when(&engine, id, |task| artifacts(task) == ["old text"]).await;
        house.kill().await;

        let engine = house.start([puppet.clone() as _]).await;
        let cue = puppet.turn().await;
        assert_eq!((cue.turn, cue.attempt, cue.heard()), (turn, 2, vec!["go".to_owned()]));
        let task = get(&engine, "puppet", id).await;
        assert_eq!((task.state(), last_words(&task).as_str()), (State::Working, "restarted"));
        cue.says(text_piece("a", "new", false));
        cue.ends(EndState::Completed, "");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(artifacts(&task), ["new"], "the artifact starts again under its id");
        assert_eq!((history(&task), task.core.turns), (vec!["go".to_owned(), "restarted".to_owned()], 1));
        assert_eq!(engine.figures().turns_recovered, 1);
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_keeps_killing_the_server_is_given_up() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let limits = || Limits { attempts: 3, ..quick() };
        let engine = house.start_with([puppet.clone() as _], limits()).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        for attempt in 1..=3 {
            let cue = puppet.turn().await;
            assert_eq!(cue.attempt, attempt);
            house.kill().await;
            house.start_with([puppet.clone() as _], limits()).await;
        }
        house.kill().await;
        let engine = house.start([puppet.clone() as _]).await;
        let task = get(&engine, "puppet", id).await;
        assert_eq!(task.state(), State::Failed);
        assert!(last_words(&task).contains("3 times; giving up"), "{}", last_words(&task));
        assert!(puppet.is_idle().await);
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_is_known_elsewhere_is_resumed_by_its_name_there() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Resume);
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let turn = cue.turn;
        cue.says(AgentEvent::Bound("remote-7".into()));
        cue.says(text_piece("a", "one ", false));
        task_when(&engine, id, |task| !task.artifacts.is_empty()).await;
        house.kill().await;

        let engine = house.start([puppet.clone() as _]).await;
        let cue = puppet.turn().await;
        assert_eq!((cue.turn, cue.attempt, cue.bound.as_deref()), (turn, 2, Some("remote-7")));
        assert_eq!(artifacts(&cue.so_far), ["one "]);
        cue.says(text_piece("a", "two", true));
        cue.ends(EndState::InputRequired, "more?");
        let task = task_when(&engine, id, |task| task.core.is_at_rest()).await;
        assert_eq!((artifacts(&task), history(&task)), (vec!["one two".to_owned()], vec!["go".to_owned()]));

        begin(&engine, "puppet", say("more").to(id)).await;
        assert_eq!(puppet.turn().await.bound, None, "another turn has another name");
    })
    .await;
}

#[tokio::test]
async fn a_cancel_before_the_kill_is_a_cancel_after_it() {
    on_both_stores(async |mut house| {
        for restart in [Restart::Fail, Restart::Retry, Restart::Resume] {
            let puppet = minded(restart);
            let limits = Limits { cancel_grace_ms: 3_600_000, ..quick() };
            let engine = house.start_with([puppet.clone() as _], limits).await;
            let id = begin(&engine, "puppet", say("go")).await.id;
            let cue = puppet.turn().await;
            let call = crate::common::aside({
                let engine = engine.clone();
                async move { cancel(&engine, "puppet", id).await }
            });
            cue.cancelled.clone().await;
            house.kill().await;
            call.abort();
            let engine = house.start([puppet.clone() as _]).await;
            assert_eq!(get(&engine, "puppet", id).await.state(), State::Canceled);
            assert!(puppet.is_idle().await);
            house.kill().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_turn_of_an_agent_that_is_gone_fails() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let engine = house.start([puppet.clone() as _]).await;
        let running = begin(&engine, "puppet", say("go")).await.id;
        let asked = begin(&engine, "puppet", say("ask")).await.id;
        let _hangs = puppet.turn().await;
        puppet.turn().await.ends(EndState::InputRequired, "?");
        task_when(&engine, asked, |task| task.core.is_at_rest()).await;
        house.kill().await;
        let engine = house.start([scripted()]).await;
        let task = get(&engine, "puppet", running).await;
        assert_eq!(task.state(), State::Failed);
        assert_eq!(last_words(&task), "the server restarted and no longer serves this agent");
        assert_eq!(get(&engine, "puppet", asked).await.state(), State::InputRequired);
        assert_eq!(kind(engine.send(&at("puppet"), say("x").to(asked)).await), Kind::MethodNotFound);
        assert_eq!(cancel(&engine, "puppet", asked).await.unwrap().state(), State::Canceled);
    })
    .await;
}

#[tokio::test]
async fn a_turn_of_an_agent_that_is_gone_waits_in_a_process_that_keeps_such_turns() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let limits = Limits { turn_timeout_ms: 300, ..quick() };
        let engine = house.start_with([puppet.clone() as _], limits.clone()).await;
        let running = begin(&engine, "puppet", say("go")).await.id;
        let _hangs = puppet.turn().await;
        house.kill().await;
        let before = house.open().head(running).await.unwrap().unwrap().seq;
        house.kill().await;
        let keeping = Engine::builder(house.open()).agents(vec![scripted()]).limits(limits).keeps_unserved_turns(true);
        let engine = keeping.start().await.unwrap();
        // The timer of the turn has fired when it is set to a time long after its timeout.
        let late = get(&engine, "puppet", running).await.core.turn.unwrap().started_at.plus_ms(20_000);
        until(async || engine.store().timers(vec![running]).await.unwrap()[0].due > late).await;
        let task = get(&engine, "puppet", running).await;
        assert_eq!((task.state(), task.seq()), (State::Submitted, before));
        house.kill().await;
        let engine = house.start([puppet.clone() as _]).await;
        puppet.turn().await.ends(EndState::Completed, "done");
        task_when(&engine, running, |task| task.state() == State::Completed).await;
    })
    .await;
}

#[tokio::test]
async fn what_has_ended_never_runs_again() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let engine = house.start([puppet.clone() as _]).await;
        let mut ids = Vec::new();
        for state in [EndState::Completed, EndState::Failed, EndState::Rejected, EndState::InputRequired] {
            let id = begin(&engine, "puppet", say("go")).await.id;
            puppet.turn().await.ends(state, "");
            ids.push(task_when(&engine, id, |task| task.core.is_at_rest()).await);
        }
        house.kill().await;
        let engine = house.start([puppet.clone() as _]).await;
        for before in ids {
            assert_eq!(get(&engine, "puppet", before.id).await, before);
        }
        assert!(puppet.is_idle().await);
        assert_eq!(engine.figures().turns_recovered, 0);
    })
    .await;
}

#[tokio::test]
async fn an_end_that_was_written_but_never_heard_of_stands() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        house.shelf().hold_answers(true);
        cue.ends(EndState::Completed, "done");
        let shelf = house.shelf().clone();
        until(async || shelf.inner().head(id).await.unwrap().unwrap().row.settled).await;
        assert!(!get(&engine, "puppet", id).await.core.is_settled(), "not told before it is sure");
        house.kill().await;
        let engine = house.start([puppet.clone() as _]).await;
        assert_eq!(get(&engine, "puppet", id).await.state(), State::Completed);
        assert!(puppet.is_idle().await);
    })
    .await;
}

#[tokio::test]
async fn messages_that_waited_at_the_kill_are_taken_up() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("one")).await.id;
        let _cue = puppet.turn().await;
        begin(&engine, "puppet", say("two").to(id)).await;
        begin(&engine, "puppet", say("three").to(id)).await;
        house.kill().await;
        let engine = house.start([puppet.clone() as _]).await;
        let mut taken = Vec::new();
        while taken.len() < 3 {
            let cue = puppet.turn().await;
            taken.extend(cue.heard());
            cue.ends(EndState::Completed, "");
        }
        assert_eq!(taken, ["one", "two", "three"]);
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(history(&task), ["one", "two", "three", "restarted"]);
    })
    .await;
}

#[tokio::test]
async fn messages_of_a_later_turn_are_those_of_its_next_attempt() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("one")).await.id;
        puppet.turn().await.ends(EndState::InputRequired, "?");
        task_when(&engine, id, |task| task.core.is_at_rest()).await;
        begin(&engine, "puppet", say("two").to(id)).await;
        let cue = puppet.turn().await;
        let turn = cue.turn;
        house.kill().await;
        house.start([puppet.clone() as _]).await;
        let cue = puppet.turn().await;
        assert_eq!((cue.turn, cue.attempt, cue.heard()), (turn, 2, vec!["two".to_owned()]));
    })
    .await;
}

#[tokio::test]
async fn an_exchange_that_was_undecided_stays_unseen_and_replies_after_the_kill() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::with(Manners { restart: Restart::Retry, undecided: true, ..Manners::default() });
        let engine = house.start([puppet.clone() as _]).await;
        let send = crate::common::aside({
            let engine = engine.clone();
            async move { engine.send(&at("puppet"), say("go").keyed("k")).await }
        });
        let _cue = puppet.turn().await;
        house.kill().await;
        send.abort();
        let engine = house.start([puppet.clone() as _]).await;
        let cue = puppet.turn().await;
        assert_eq!(engine.list(&at("puppet"), &model::List::default()).await.unwrap().total, 0);
        cue.says(AgentEvent::Reply(AgentMessage::text("hello")));
        let reply = reply_of(engine.send(&at("puppet"), say("go").keyed("k")).await);
        assert_eq!(reply.message.text(), "hello");
    })
    .await;
}

#[tokio::test]
async fn a_script_goes_by_its_own_rule_and_goes_on_where_it_asked() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let steps = serde_json::json!([{"restart": "retry"}, {"input": "name?"}, {"echo": true}, {"complete": "bye"}]);
        let asked = task_of(engine.send(&at("scripted"), script(&steps)).await).id;
        let retried = begin(
            &engine,
            "scripted",
            script(&serde_json::json!([{"restart": "retry"}, {"status": "working"}, {"hang": true}])),
        )
        .await
        .id;
        let failed = begin(&engine, "scripted", say("hang")).await.id;
        let slow = serde_json::json!([
            {"artifact": {"name": "a", "parts": [{"text": "la "}]}, "chunks": 3, "every_ms": 400}, {"complete": "sung"}
        ]);
        let plain = begin(&engine, "scripted", script(&slow)).await.id;
        task_when(&engine, plain, |task| !artifacts(task).is_empty()).await;
        for id in [retried, failed] {
            task_when(&engine, id, |task| task.state() == State::Working).await;
        }
        house.kill().await;
        let engine = house.start([scripted()]).await;
        assert_eq!(get(&engine, "scripted", failed).await.state(), State::Failed);
        let task = get(&engine, "scripted", retried).await;
        assert_eq!((task.state(), task.core.turn.map(|turn| turn.attempt)), (State::Working, Some(2)));
        let sung = task_when(&engine, plain, |task| task.core.is_settled()).await;
        assert_eq!((sung.state(), artifacts(&sung)), (State::Completed, vec!["la la la ".to_owned()]));
        assert_eq!(history(&sung)[1..], ["restarted"]);
        let task = task_of(engine.send(&at("scripted"), say("Ada").to(asked)).await);
        assert_eq!((artifacts(&task), last_words(&task).as_str()), (vec!["Ada".to_owned()], "bye"));
    })
    .await;
}

#[tokio::test]
async fn many_unfinished_turns_are_all_taken_up() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let engine = house.start([puppet.clone() as _]).await;
        let mut cues = Vec::new();
        for i in 0..600 {
            begin(&engine, "puppet", say(&i.to_string())).await;
            cues.push(puppet.turn().await);
        }
        house.kill().await;
        let engine = house.start([puppet.clone() as _]).await;
        assert_eq!(engine.figures().turns_recovered, 600);
        for _ in 0..600 {
            puppet.turn().await.ends(EndState::Completed, "");
        }
        until(async || engine.health().await.unwrap().running == 0).await;
        assert!(puppet.is_idle().await);
    })
    .await;
}

#[tokio::test]
async fn a_start_on_a_full_disk_takes_the_turns_up_when_there_is_room() {
    on_both_stores(async |mut house| {
        let puppet = minded(Restart::Retry);
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let _cue = puppet.turn().await;
        house.kill().await;
        let shelf = house.open();
        shelf.be(Mood::Refuses(model::ports::store::StoreError::Full));
        let engine = engine::Engine::builder(shelf.clone())
            .agents(vec![puppet.clone() as _])
            .limits(quick())
            .start()
            .await
            .unwrap();
        assert_eq!(get(&engine, "puppet", id).await.state(), State::Submitted, "what is there can be read");
        assert!(puppet.is_idle().await);
        shelf.be(Mood::Fine);
        let cue = puppet.turn().await;
        assert_eq!(cue.attempt, 2);
        cue.ends(EndState::Completed, "");
        task_when(&engine, id, |task| task.core.is_settled()).await;
    })
    .await;
}

/// A process that lost its turn to a later one stops silently.
#[tokio::test]
async fn a_holder_that_was_overtaken_stops_without_a_word() {
    let mut house = House::memory();
    let puppet = minded(Restart::Retry);
    let old = house.start([puppet.clone() as _]).await;
    let id = begin(&old, "puppet", say("go")).await.id;
    let old_cue = puppet.turn().await;
    let rival = house.rival().unwrap();
    let new = engine::Engine::builder(rival).agents(vec![puppet.clone() as _]).limits(quick()).start().await.unwrap();
    let cue = puppet.turn().await;
    old_cue.says(working("from the grave"));
    until(async || old.figures().turns_running == 0).await;
    cue.ends(EndState::Completed, "done");
    let task = task_when(&new, id, |task| task.core.is_settled()).await;
    assert_eq!(history(&task), ["go", "restarted"]);
    assert_eq!(log(&new, id).await.len() as u64, task.seq().0);
}
