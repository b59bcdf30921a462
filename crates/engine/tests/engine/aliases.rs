//! Ids that callers choose: opening, continuing and succeeding tasks, and visibility.

use std::sync::Arc;

use futures_util::future::join_all;
use model::ports::agent::Agent;
use model::{Cancel, Kind, Send, State, Subscribe};

use crate::common::{
    Adverbs, Manners, acting, artifacts, at, echo, history, kind, of, on_both_stores, say, scripted, task_of,
    text_piece,
};

fn named(alias: &str, text: &str) -> Send {
    Send { alias: Some(alias.to_owned()), ..say(text) }
}

#[tokio::test]
async fn the_same_id_again_is_a_message_to_the_same_task() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let place = at("scripted");
        let asked = task_of(engine.send(&place, named("mine", "ask")).await);
        assert_eq!(asked.state(), State::InputRequired);
        assert_eq!(asked.alias.as_deref(), Some("mine"));
        let done = task_of(engine.send(&place, named("mine", "green")).await);
        assert_eq!((done.id, done.state()), (asked.id, State::Completed));
        assert_eq!(history(&done), ["ask", "what shall I do?", "green"]);
    })
    .await;
}

#[tokio::test]
async fn the_id_of_a_settled_task_opens_its_successor() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let place = at("echo");
        let first = task_of(engine.send(&place, named("mine", "one").within("s")).await);
        let second = task_of(engine.send(&place, named("mine", "two")).await);
        assert_ne!(first.id, second.id);
        assert_eq!((second.follows, &second.context), (Some(first.id), &first.context));
        // Through the alias: the newest task with the history of the chain. Through its id: that task alone.
        let by_alias = engine.get(&place, "mine").await.unwrap();
        assert_eq!((by_alias.id, history(&by_alias)), (second.id, vec!["one".to_owned(), "two".to_owned()]));
        assert_eq!(artifacts(&by_alias), ["two"]);
        assert_eq!(history(&engine.get(&place, &second.id.to_string()).await.unwrap()), ["two"]);
        assert_eq!(history(&engine.get(&place, &first.id.to_string()).await.unwrap()), ["one"]);
        let third = task_of(engine.send(&place, named("mine", "three")).await);
        assert_eq!(third.follows, Some(second.id));
        assert_eq!(history(&engine.get(&place, "mine").await.unwrap()), ["one", "two", "three"]);
        // The successor stays in its context.
        let refused = engine.send(&place, named("mine", "four").within("other")).await;
        assert_eq!(kind(refused), Kind::InvalidParams);
    })
    .await;
}

#[tokio::test]
async fn of_many_who_send_under_one_new_id_all_speak_to_one_task() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let place = at("scripted");
        let sends = (0..30).map(|n| engine.send(&place, named("mine", if n == 0 { "sleep:50" } else { "hello" })));
        let answers = join_all(sends).await;
        let open: Vec<_> = answers.into_iter().map(task_of).collect();
        // Every message is in some task of the chain, and no task was opened outside it.
        let newest = engine.get(&place, "mine").await.unwrap();
        assert_eq!(history(&newest).iter().filter(|text| *text == "hello").count(), 29);
        let mut chain = vec![newest.id];
        let mut follows = newest.follows;
        while let Some(id) = follows {
            chain.push(id);
            follows = engine.task(id).await.unwrap().unwrap().follows;
        }
        assert!(open.iter().all(|task| chain.contains(&task.id)));
    })
    .await;
}

#[tokio::test]
async fn equal_ids_of_others_never_meet() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted(), echo()]).await;
        let mine = task_of(engine.send(&of("acme", "ann", "scripted"), named("x", "ask")).await);
        for place in [of("acme", "bob", "scripted"), of("other", "ann", "scripted"), of("acme", "ann", "echo")] {
            assert_eq!(kind(engine.get(&place, "x").await), Kind::TaskNotFound);
            let cancel = Cancel { task: "x".into(), metadata: None };
            assert_eq!(kind(engine.cancel(&place, cancel).await), Kind::TaskNotFound);
            let theirs = task_of(engine.send(&place, named("x", "hello")).await);
            assert_ne!(theirs.id, mine.id);
        }
        let place = of("acme", "ann", "scripted");
        assert_eq!(engine.get(&place, "x").await.unwrap().id, mine.id);
        assert_eq!(engine.cancel(&place, Cancel { task: "x".into(), metadata: None }).await.unwrap().id, mine.id);
    })
    .await;
}

#[tokio::test]
async fn an_alias_survives_a_kill() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let asked = task_of(engine.send(&at("scripted"), named("mine", "ask")).await);
        house.kill().await;
        let engine = house.start([scripted()]).await;
        let place = at("scripted");
        assert_eq!(engine.get(&place, "mine").await.unwrap().id, asked.id);
        let done = task_of(engine.send(&place, named("mine", "blue")).await);
        assert_eq!((done.id, done.state()), (asked.id, State::Completed));
    })
    .await;
}

#[tokio::test]
async fn a_direct_reply_under_a_chosen_id_is_a_completed_task() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let place = at("scripted");
        let task = task_of(engine.send(&place, named("mine", "message: hi")).await);
        assert_eq!(task.state(), State::Completed);
        assert_eq!(task.status.message.as_ref().unwrap().text(), "hi");
        assert_eq!(engine.get(&place, "mine").await.unwrap().id, task.id);
    })
    .await;
}

#[tokio::test]
async fn tasks_of_one_session_share_what_was_said_with_callers_and_agents() {
    on_both_stores(async |mut house| {
        // An agent that outputs the conversation before its task.
        let historian = acting("historian", Manners::default(), |turn| {
            Box::pin(futures_util::stream::once(async move {
                let earlier = turn.earlier.messages().await.unwrap();
                let texts: Vec<String> = earlier.iter().map(|m| m.text()).collect();
                text_piece("heard", &texts.join(","), false)
            }))
        });
        let engine = house.start([historian as Arc<dyn Agent>]).await;
        let place = at("historian");
        let first = task_of(engine.send(&place, named("a", "first").within("s")).await);
        let second = task_of(engine.send(&place, named("b", "second").within("s")).await);
        // The agent sees its earlier artifacts as its side of the conversation; callers see them as artifacts.
        assert_eq!(artifacts(&second), ["first,"]);
        let whole = engine.get_with_session(&place, "b", engine::Answers::Apart).await.unwrap();
        assert_eq!(history(&whole), ["first", "second"]);
        assert_eq!(whole.earlier, [(first.id, 1)]);
        // Or in the history, for dialects that show them there.
        let whole = engine.get_with_session(&place, "b", engine::Answers::InHistory).await.unwrap();
        assert_eq!(history(&whole), ["first", "", "second", "first,"]);
        assert_eq!(whole.earlier, [(first.id, 2)]);
        let apart = task_of(engine.send(&place, named("c", "third").within("t")).await);
        assert_eq!(artifacts(&apart), [""]);
    })
    .await;
}

#[tokio::test]
async fn states_tell_the_newest_fold_at_each_change_and_the_last_one_for_sure() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let place = at("scripted");
        // A task that settled before the first read: one state, the last.
        let mut over = engine.stream(&place, say("hello")).await.unwrap().into_states();
        let mut told = Vec::new();
        while let Some(task) = over.next().await {
            told.push(task.state());
        }
        assert_eq!(told.last(), Some(&State::Completed));
        // A live task: the first state at once, then the last state, and nothing after it.
        let hanging = task_of(engine.send(&place, Send { wait: model::Wait::Exists, ..say("hang") }).await);
        let call = Subscribe { task: hanging.id.to_string() };
        let mut states = engine.subscribe(&place, &call, None).await.unwrap().into_states();
        let first = states.next().await.unwrap();
        assert!(!first.core.is_settled());
        engine.cancel(&place, Cancel { task: hanging.id.to_string(), metadata: None }).await.unwrap();
        let mut last = first;
        while let Some(task) = states.next().await {
            assert!(task.core.status_seq > last.core.status_seq);
            last = task;
        }
        assert_eq!(last.state(), State::Canceled);
    })
    .await;
}
