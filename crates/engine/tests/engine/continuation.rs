//! A message that names a task continues it.

use model::ports::agent::EndState;
use model::{Kind, State};

use crate::common::{
    Adverbs, Puppet, artifacts, at, begin, collect, echo, hear, history, kind, on_both_stores, say, script, scripted,
    task_of,
};

#[tokio::test]
async fn a_task_id_alone_goes_on_in_the_task_and_its_context() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let steps = serde_json::json!([{"input": "name?"}, {"echo": true}, {"complete": "thanks"}]);
        let asked = task_of(engine.send(&at("scripted"), script(&steps)).await);
        assert_eq!(asked.state(), State::InputRequired);
        let done = task_of(engine.send(&at("scripted"), say("Ada").to(asked.id)).await);
        assert_eq!((done.id, &done.context, done.state()), (asked.id, &asked.context, State::Completed));
        assert_eq!(artifacts(&done), ["Ada"]);
        assert_eq!(history(&done), ["", "name?", "Ada"]);
        assert_eq!(done.core.turns, 2);
    })
    .await;
}

#[tokio::test]
async fn the_right_context_with_the_task_is_fine_and_another_is_refused() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let task = task_of(engine.send(&at("scripted"), say("ask").within("c1")).await);
        let refused = engine.send(&at("scripted"), say("x").to(task.id).within("c2")).await;
        assert_eq!(kind(refused), Kind::InvalidParams);
        let refused = engine.stream(&at("scripted"), say("x").to(task.id).within("c2")).await;
        assert_eq!(kind(refused), Kind::InvalidParams);
        let done = task_of(engine.send(&at("scripted"), say("x").to(task.id).within("c1")).await);
        assert_eq!(done.state(), State::Completed);
        assert_eq!(history(&done), ["ask", "what shall I do?", "x"], "what was refused left no trace");
    })
    .await;
}

#[tokio::test]
async fn a_context_alone_opens_another_task_in_it() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let one = task_of(engine.send(&at("echo"), say("1").within("c")).await);
        let two = task_of(engine.send(&at("echo"), say("2").within("c")).await);
        assert_ne!(one.id, two.id);
        assert_eq!(one.context, two.context);
        let other = task_of(engine.send(&at("echo"), say("3")).await);
        assert_ne!(other.context, one.context);
    })
    .await;
}

#[tokio::test]
async fn a_task_that_nobody_knows_is_not_found() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        for id in ["0190f3c4-1111-7222-8333-444455556666", "nonsense", ""] {
            let send = || model::Send { task: Some(id.into()), ..say("x") };
            assert_eq!(kind(engine.send(&at("echo"), send()).await), Kind::TaskNotFound);
            assert_eq!(kind(engine.stream(&at("echo"), send()).await), Kind::TaskNotFound);
        }
        assert_eq!(engine.figures().tasks_live, 0, "looking for it leaves nothing in memory");
    })
    .await;
}

#[tokio::test]
async fn a_settled_task_takes_no_more_messages() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo(), scripted()]).await;
        for (agent, text) in [("echo", "x"), ("scripted", "fail"), ("scripted", "reject"), ("scripted", "complete")] {
            let task = task_of(engine.send(&at(agent), say(text)).await);
            assert_eq!(kind(engine.send(&at(agent), say("more").to(task.id)).await), Kind::TaskSettled);
            assert_eq!(kind(engine.stream(&at(agent), say("more").to(task.id)).await), Kind::TaskSettled);
            let after = engine.get(&at(agent), &task.id.to_string()).await.unwrap();
            assert_eq!(after, task, "a settled task never changes");
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_can_go_on_with_a_task() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let steps = serde_json::json!([
            {"artifact": {"name": "a", "artifactId": "a", "parts": [{"text": "1"}]}, "lastChunk": false},
            {"input": "more?"},
            {"artifact": {"name": "b", "parts": [{"text": "2"}]}},
        ]);
        let first = collect(engine.stream(&at("scripted"), script(&steps)).await.unwrap()).await;
        let heard: Vec<String> = first.iter().map(hear).collect();
        assert_eq!(heard, ["task submitted", "art a=1", "input-required: more?."]);
        let engine::SubscriptionItem::Task(task) = &first[0] else { panic!("{first:?}") };
        let second = collect(engine.stream(&at("scripted"), say("yes").to(task.id)).await.unwrap()).await;
        let heard: Vec<String> = second.iter().map(hear).collect();
        assert_eq!(heard, ["task working", "art a2=2", "completed."]);
        let engine::SubscriptionItem::Task(task) = &second[0] else { panic!("{second:?}") };
        assert_eq!(artifacts(task), ["1"], "the task as of the message");
    })
    .await;
}

#[tokio::test]
async fn the_next_turn_finds_the_task_as_the_last_left_it() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("one")).await.id;
        let cue = puppet.turn().await;
        let first = cue.turn;
        cue.says(crate::common::text_piece("a", "made", false));
        cue.ends(EndState::InputRequired, "more?");
        crate::common::task_when(&engine, id, |task| task.core.is_at_rest()).await;
        begin(&engine, "puppet", say("two").to(id)).await;
        let cue = puppet.turn().await;
        assert_ne!(cue.turn, first);
        assert_eq!(cue.heard(), ["two"]);
        assert_eq!(artifacts(&cue.so_far), ["made"]);
        assert_eq!(history(&cue.so_far), ["one", "more?", "two"]);
    })
    .await;
}
