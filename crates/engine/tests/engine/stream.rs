//! A stream begins with the task and has every public event in order, to the end or to a question.

use model::State;
use model::ports::agent::EndState;

use crate::common::{
    Adverbs, Manners, Puppet, at, begin, collect, echo, hear, log, next_heard, on_both_stores, say, script, scripted,
    subscribe, task_of, text_piece, told, working,
};
use engine::SubscriptionItem;

#[tokio::test]
async fn a_stream_is_the_task_then_its_events_and_says_where_it_closes() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo(), scripted()]).await;
        for agent in ["echo", "scripted"] {
            let items = collect(engine.stream(&at(agent), say("hi")).await.unwrap()).await;
            let heard: Vec<String> = items.iter().map(hear).collect();
            let artifact = if agent == "echo" { "art echo=hi" } else { "art a1=hi" };
            assert_eq!(heard, ["task submitted", "working", artifact, "completed."]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_tells_exactly_the_public_events_of_the_log() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let steps = serde_json::json!([
            {"status": "working", "text": "one"},
            {"artifact": {"name": "a", "parts": [{"text": "tick "}]}, "chunks": 20},
            {"metadata": {"cost": 3}},
            {"status": "working", "text": "two"},
            {"artifact": {"name": "b", "parts": [{"text": "x"}, {"data": {"k": 1}}]}},
            {"fail": "no"},
        ]);
        let items = collect(engine.stream(&at("scripted"), script(&steps)).await.unwrap()).await;
        let SubscriptionItem::Task(first) = &items[0] else { panic!("the first item is the task") };
        let log = log(&engine, first.id).await;
        let public: Vec<String> = log.iter().filter(|e| e.body.is_public() && e.seq > first.seq()).map(told).collect();
        let heard: Vec<String> = items[1..].iter().map(|item| hear(item).trim_end_matches('.').to_owned()).collect();
        assert_eq!(heard, public);
        assert_eq!(heard.len(), 24);
        let seqs: Vec<u64> = items[1..]
            .iter()
            .map(|item| match item {
                SubscriptionItem::Event { committed, .. } => committed.event.seq.0,
                other => panic!("{other:?}"),
            })
            .collect();
        assert!(seqs.is_sorted_by(|a, b| a < b));
    })
    .await;
}

#[tokio::test]
async fn what_an_agent_says_is_told_while_it_works() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let mut stream = engine.stream(&at("puppet"), say("go")).await.unwrap();
        assert_eq!(next_heard(&mut stream).await, "task submitted");
        let cue = puppet.turn().await;
        for i in 0..5 {
            cue.says(text_piece("a", &i.to_string(), i > 0));
            assert_eq!(next_heard(&mut stream).await, format!("art a{}{i}", if i > 0 { '+' } else { '=' }));
        }
        cue.ends(EndState::Rejected, "enough");
        assert_eq!(next_heard(&mut stream).await, "rejected: enough.");
        assert_eq!(next_heard(&mut stream).await, "the end");
    })
    .await;
}

#[tokio::test]
async fn a_question_closes_the_stream_of_a_send_but_not_a_subscription() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let mut stream = engine.stream(&at("puppet"), say("go")).await.unwrap();
        let cue = puppet.turn().await;
        let id = cue.so_far.id;
        let mut subscription = subscribe(&engine, "puppet", id).await;
        cue.ends(EndState::InputRequired, "which?");
        assert_eq!(next_heard(&mut stream).await, "task submitted");
        assert_eq!(next_heard(&mut stream).await, "input-required: which?.");
        assert_eq!(next_heard(&mut stream).await, "the end");

        let mut answer = engine.stream(&at("puppet"), say("that one").to(id)).await.unwrap();
        puppet.turn().await.ends(EndState::Completed, "thanks");
        assert_eq!(next_heard(&mut answer).await, "task working");
        assert_eq!(next_heard(&mut answer).await, "completed: thanks.");
        let mut rest = Vec::new();
        for _ in 0..5 {
            rest.push(next_heard(&mut subscription).await);
        }
        assert_eq!(rest, ["task submitted", "input-required: which?", "working", "completed: thanks.", "the end"]);
    })
    .await;
}

#[tokio::test]
async fn a_question_in_the_first_commit_closes_the_stream_too() {
    on_both_stores(async |mut house| {
        let manners = Manners { idempotent: true, ..Manners::default() };
        let agent = crate::common::acting("asker", manners, |_| {
            use futures_util::StreamExt as _;
            futures_util::stream::iter([working("hm"), crate::common::ended(EndState::InputRequired, "which?")]).boxed()
        });
        let engine = house.start([agent as _]).await;
        let items = collect(engine.stream(&at("asker"), say("go")).await.unwrap()).await;
        let heard: Vec<String> = items.iter().map(hear).collect();
        assert_eq!(heard, ["task submitted", "working: hm", "input-required: which?."]);
        assert_eq!(task_of(engine.send(&at("asker"), say("go")).await).state(), State::InputRequired);
    })
    .await;
}

#[tokio::test]
async fn a_wait_for_credentials_keeps_a_stream_open() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let mut stream = engine.stream(&at("puppet"), say("go")).await.unwrap();
        let cue = puppet.turn().await;
        let id = cue.so_far.id;
        cue.ends(EndState::AuthRequired, "sign in");
        assert_eq!(next_heard(&mut stream).await, "task submitted");
        assert_eq!(next_heard(&mut stream).await, "auth-required: sign in");
        begin(&engine, "puppet", say("signed in").to(id)).await;
        puppet.turn().await.ends(EndState::Completed, "");
        assert_eq!(next_heard(&mut stream).await, "working");
        assert_eq!(next_heard(&mut stream).await, "completed.");
        assert_eq!(next_heard(&mut stream).await, "the end");
    })
    .await;
}

#[tokio::test]
async fn a_stream_of_a_message_to_a_task_at_work_begins_with_the_task_as_it_is() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("one")).await.id;
        let cue = puppet.turn().await;
        cue.says(text_piece("a", "x", false));
        crate::common::task_when(&engine, id, |task| !task.artifacts.is_empty()).await;
        let mut stream = engine.stream(&at("puppet"), say("two").to(id)).await.unwrap();
        let Some(Ok(SubscriptionItem::Task(first))) = stream.next().await else { panic!("the first item is the task") };
        assert_eq!(crate::common::history(&first), ["one", "two"]);
        assert_eq!(crate::common::artifacts(&first), ["x"]);
        cue.says(text_piece("a", "y", true));
        assert_eq!(next_heard(&mut stream).await, "art a+y");
    })
    .await;
}
