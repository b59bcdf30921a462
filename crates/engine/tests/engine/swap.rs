//! Agents are replaced while their turns run.

use model::ports::agent::EndState;
use model::{Kind, State};

use crate::common::{
    Adverbs, Puppet, artifacts, at, begin, cancel, get, kind, last_words, on_both_stores, say, task_when, text_piece,
};

#[tokio::test]
async fn a_turn_goes_on_with_the_agent_it_began_with_and_the_next_has_the_new_one() {
    on_both_stores(async |mut house| {
        let (old, new) = (Puppet::new(), Puppet::new());
        let engine = house.start([old.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = old.turn().await;
        engine.set_agents(vec![new.clone() as _]);
        cue.says(text_piece("a", "still here", false));
        cue.ends(EndState::InputRequired, "well?");
        let task = task_when(&engine, id, |task| task.state() == State::InputRequired).await;
        assert_eq!(artifacts(&task), ["still here"]);
        begin(&engine, "puppet", say("answer").to(id)).await;
        let cue = new.turn().await;
        assert_eq!(cue.heard(), ["answer"]);
        cue.ends(EndState::Completed, "");
        task_when(&engine, id, |task| task.state() == State::Completed).await;
        assert!(old.is_idle().await);
    })
    .await;
}

#[tokio::test]
async fn tasks_of_an_agent_that_is_gone_can_be_read_and_cancelled_and_take_no_more_messages() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let asking = begin(&engine, "puppet", say("ask")).await.id;
        puppet.turn().await.ends(EndState::InputRequired, "well?");
        task_when(&engine, asking, |task| task.state() == State::InputRequired).await;
        let running = begin(&engine, "puppet", say("run")).await.id;
        let cue = puppet.turn().await;
        engine.set_agents(Vec::new());
        assert!(engine.profile("puppet").is_none());
        assert_eq!(kind(engine.send(&at("puppet"), say("new")).await), Kind::MethodNotFound);
        assert_eq!(kind(engine.send(&at("puppet"), say("answer").to(asking)).await), Kind::MethodNotFound);
        assert_eq!(get(&engine, "puppet", asking).await.state(), State::InputRequired);
        assert_eq!(cancel(&engine, "puppet", asking).await.unwrap().state(), State::Canceled);
        cue.ends(EndState::Completed, "");
        task_when(&engine, running, |task| task.state() == State::Completed).await;
        engine.set_agents(vec![puppet.clone() as _]);
        begin(&engine, "puppet", say("back")).await;
        assert_eq!(puppet.turn().await.heard(), ["back"]);
    })
    .await;
}

#[tokio::test]
async fn an_unfinished_turn_of_an_agent_that_is_gone_fails_after_a_restart_and_says_why() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let _cue = puppet.turn().await;
        engine.set_agents(Vec::new());
        house.kill().await;
        let engine = house.start([]).await;
        let task = get(&engine, "puppet", id).await;
        assert_eq!(task.state(), State::Failed);
        assert_eq!(last_words(&task), "the server restarted and no longer serves this agent");
    })
    .await;
}
