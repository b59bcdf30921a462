//! A direct message instead of a task: the complete answer for its caller, invisible to all others.

use engine::SubscriptionItem;
use model::ports::agent::{AgentEvent, AgentMessage, EndState};
use model::{Kind, List, Shape, State};

use crate::common::{
    Adverbs, Manners, Puppet, at, begin, collect, get, hear, history, kind, last_words, named, next_heard,
    on_both_stores, reply_of, say, scripted, task_of, task_when, working,
};

const UNDECIDED: Manners = Manners { restart: model::ports::agent::Restart::Fail, idempotent: false, undecided: true };

#[tokio::test]
async fn a_direct_reply_is_the_whole_answer_and_no_task() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let reply = reply_of(engine.send(&at("scripted"), say("message: hi").within("c")).await);
        assert_eq!((reply.message.text().as_str(), reply.context.as_str()), ("hi", "c"));
        let stream = collect(engine.stream(&at("scripted"), say("message: hi")).await.unwrap()).await;
        let [SubscriptionItem::Reply(streamed)] = &stream[..] else { panic!("{stream:?}") };
        assert_eq!(streamed.message.text(), "hi");

        for exchange in [reply.exchange, streamed.exchange] {
            let id = exchange.to_string();
            assert_eq!(kind(engine.get(&at("scripted"), &id).await), Kind::TaskNotFound);
            let cancel = model::Cancel { task: id, metadata: None };
            assert_eq!(kind(engine.cancel(&at("scripted"), cancel).await), Kind::TaskNotFound);
            assert_eq!(kind(engine.subscribe(&at("scripted"), &named(exchange), None).await), Kind::TaskNotFound);
            assert_eq!(kind(engine.send(&at("scripted"), say("x").to(exchange)).await), Kind::TaskNotFound);
        }
        let listing = engine.list(&at("scripted"), &List::default()).await.unwrap();
        assert_eq!((listing.tasks.len(), listing.total), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn an_undecided_exchange_is_seen_by_nobody_until_it_is_a_task() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::with(UNDECIDED);
        let engine = house.start([puppet.clone() as _]).await;
        let mut stream = engine.stream(&at("puppet"), say("go")).await.unwrap();
        let cue = puppet.turn().await;
        let id = cue.so_far.id;
        assert_eq!(kind(engine.get(&at("puppet"), &id.to_string()).await), Kind::TaskNotFound);
        assert_eq!(kind(engine.subscribe(&at("puppet"), &named(id), None).await), Kind::TaskNotFound);
        assert_eq!(engine.list(&at("puppet"), &List::default()).await.unwrap().total, 0);

        cue.says(working("a task after all"));
        assert_eq!(next_heard(&mut stream).await, "task submitted");
        assert_eq!(next_heard(&mut stream).await, "working: a task after all");
        assert_eq!(get(&engine, "puppet", id).await.state(), State::Working);
        assert_eq!(engine.list(&at("puppet"), &List::default()).await.unwrap().total, 1);
        cue.says(AgentEvent::Reply(AgentMessage::text("bye")));
        assert_eq!(next_heard(&mut stream).await, "completed: bye.", "too late to be a message");
        assert_eq!(next_heard(&mut stream).await, "the end");
    })
    .await;
}

#[tokio::test]
async fn whoever_must_have_a_task_now_makes_it_one() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::with(UNDECIDED);
        let engine = house.start([puppet.clone() as _]).await;
        for send in [say("go").soon(), say("go").at_most_ms(5)] {
            let shown = task_of(engine.send(&at("puppet"), send).await);
            assert_eq!((shown.state(), shown.core.shape), (State::Submitted, Shape::Task));
            let cue = puppet.turn().await;
            cue.says(AgentEvent::Reply(AgentMessage::text("hello")));
            let done = task_when(&engine, shown.id, |task| task.core.is_settled()).await;
            assert_eq!((done.state(), done.core.shape), (State::Completed, Shape::Task));
            assert_eq!(last_words(&done), "hello");
            assert_eq!(get(&engine, "puppet", shown.id).await, done);
        }
    })
    .await;
}

#[tokio::test]
async fn a_blocked_caller_has_its_message_even_if_metadata_came_first() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::with(UNDECIDED);
        let engine = house.start([puppet.clone() as _]).await;
        let mut stream = engine.stream(&at("puppet"), say("go")).await.unwrap();
        let cue = puppet.turn().await;
        cue.says(AgentEvent::Metadata(model::Json::parse(r#"{"cost":1}"#).unwrap()));
        crate::common::until(async || house.shelf().commits() == 2).await;
        cue.says(AgentEvent::Reply(AgentMessage::text("hello")));
        assert_eq!(next_heard(&mut stream).await, "reply: hello");
        assert_eq!(next_heard(&mut stream).await, "the end");
    })
    .await;
}

#[tokio::test]
async fn a_message_in_answer_to_a_message_to_a_task_completes_it() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::with(UNDECIDED);
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("one")).await.id;
        puppet.turn().await.ends(EndState::InputRequired, "which?");
        task_when(&engine, id, |task| task.core.is_at_rest()).await;
        let items = engine.stream(&at("puppet"), say("two").to(id)).await.unwrap();
        puppet.turn().await.says(AgentEvent::Reply(AgentMessage::text("fine")));
        let heard: Vec<String> = collect(items).await.iter().map(hear).collect();
        assert_eq!(heard, ["task working", "completed: fine."]);
        assert_eq!(history(&*get(&engine, "puppet", id).await), ["one", "which?", "two"]);
    })
    .await;
}
