//! A hidden task looks like a missing one: the same fault, and the same queries to the store.

use engine::Engine;
use model::ports::agent::{AgentEvent, AgentMessage};
use model::{CallScope, Caller, Cancel, EventId, Fault, Kind, List, PushCall, Seq, TaskId, Visibility};

use crate::common::{
    Adverbs, House, Manners, Post, Puppet, artifacts, begin, hook_of, kind, named, of, on_both_stores, quick, reply_of,
    say, scripted, task_of, text_piece, until,
};

/// A fault's text without the id.
fn words(fault: &Fault, id: TaskId) -> String {
    let text =
        format!("{:?} {} {:?} {:?} {:?}", fault.kind, fault.message, fault.field, fault.facts, fault.retry_after_s);
    text.replace(&id.to_string(), "ID")
}

/// For every operation on a task: the answer, the store calls, and the number of events read.
async fn looks(
    engine: &Engine,
    house: &House,
    place: &CallScope,
    id: TaskId,
) -> Vec<(String, Vec<&'static str>, usize)> {
    let text = id.to_string();
    let mut looks = Vec::new();
    let mut note = |fault: Fault| looks.push((words(&fault, id), house.shelf().calls(), house.shelf().events_read()));
    house.shelf().calls();
    house.shelf().events_read();
    note(engine.get(place, &text).await.unwrap_err());
    note(engine.get_with_session(place, &text, engine::Answers::Apart).await.unwrap_err());
    note(engine.cancel(place, Cancel { task: text.clone(), metadata: None }).await.unwrap_err());
    note(engine.subscribe(place, &named(id), None).await.err().unwrap());
    let from = EventId { task: id, seq: Seq(1) };
    note(engine.subscribe(place, &named(id), Some(from)).await.err().unwrap());
    note(engine.resume_stream(place, from).await.err().unwrap());
    note(engine.send(place, say("x").to(id)).await.unwrap_err());
    note(engine.send(place, say("x").to(id).keyed("k")).await.unwrap_err());
    note(engine.send(place, say("x").to(id).telling("https://a.example/")).await.unwrap_err());
    note(engine.stream(place, say("x").to(id)).await.err().unwrap());
    let calls = [
        PushCall::Create(hook_of(id, "a", "https://a.example/")),
        PushCall::Get { task: text.clone(), id: "a".into() },
        PushCall::Get { task: text.clone(), id: String::new() },
        PushCall::List { task: text.clone(), page_size: None, page_token: None },
        PushCall::Delete { task: text.clone(), id: "a".into() },
    ];
    for call in calls {
        note(engine.push(place, call).await.unwrap_err());
    }
    looks
}

#[tokio::test]
async fn nobody_can_tell_a_hidden_task_from_a_missing_one() {
    on_both_stores(async |mut house| {
        let undecided = Puppet::with(Manners { undecided: true, ..Manners::default() });
        let engine = house.start_post([scripted(), undecided.clone() as _], &Post::new(), quick()).await;
        let mine = of("red", "ann", "scripted");
        let (settled, live, long) = (
            task_of(engine.send(&mine, say("complete")).await).id,
            task_of(engine.send(&mine, say("hang").soon()).await).id,
            task_of(engine.send(&mine, say("chunks:5000")).await).id,
        );
        let asking = task_of(engine.send(&mine, say("ask")).await).id;
        let reply = reply_of(engine.send(&mine, say("message: hi")).await).exchange;
        let with_hook = task_of(engine.send(&mine, say("complete").telling("https://a.example/")).await).id;
        // Waits until no background work queries the store.
        let kept = || async { house.shelf().inner().push(with_hook).await.unwrap()[0].progress.state };
        until(async || kept().await == model::PushState::Done).await;
        until(async || engine.figures().tasks_live == 1).await;
        let missing = TaskId(uuid::Uuid::now_v7());
        let others = [
            of("blue", "ann", "scripted"),
            of("red", "ann", "puppet"),
            CallScope::new(
                of("red", "bob", "scripted").caller,
                "scripted".into(),
                "a2a_v1".into(),
                Visibility::Owner,
                &[],
            ),
        ];
        for other in &others {
            let expected = looks(&engine, &house, other, missing).await;
            assert!(expected.iter().all(|(fault, ..)| fault.starts_with("TaskNotFound")), "{expected:?}");
            assert!(expected.iter().all(|(_, _, events)| *events == 0), "{expected:?}");
            for hidden in [settled, live, long, asking, reply, with_hook] {
                assert_eq!(looks(&engine, &house, other, hidden).await, expected);
            }
        }
        // Once aliases exist, every id is looked up as an alias first, whether or not the task exists.
        let alias = model::Send { alias: Some("mine".into()), ..say("complete") };
        engine.send(&mine, alias).await.unwrap();
        let expected = looks(&engine, &house, &others[0], missing).await;
        assert!(expected.iter().all(|(_, calls, _)| calls.iter().filter(|call| **call == "alias").count() <= 1));
        for hidden in [settled, live, long] {
            assert_eq!(looks(&engine, &house, &others[0], hidden).await, expected);
        }

        // An undecided exchange is hidden from all callers, and only its owner may follow it.
        let place = of("red", "ann", "puppet");
        let _stream = engine.stream(&place, say("go")).await.unwrap();
        let exchange = undecided.turn().await;
        let colleague = of("red", "bob", "puppet");
        let expected = looks(&engine, &house, &colleague, missing).await;
        assert_eq!(looks(&engine, &house, &colleague, exchange.so_far.id).await, expected);
        exchange.says(AgentEvent::Reply(AgentMessage::text("hi")));
    })
    .await;
}

#[tokio::test]
async fn a_long_task_that_nobody_is_busy_with_is_read_piece_by_piece() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        for i in 0..30 {
            cue.says(text_piece("a", &"x".repeat(40_000), i > 0));
            crate::common::task_when(&engine, id, |task| {
                artifacts(task).first().is_some_and(|text| text.len() == (i + 1) * 40_000)
            })
            .await;
        }
        cue.ends(model::ports::agent::EndState::InputRequired, "more?");
        crate::common::task_when(&engine, id, |task| task.core.is_at_rest()).await;
        until(async || engine.figures().tasks_live == 0).await;
        let done = crate::common::aside({
            let engine = engine.clone();
            async move { task_of(engine.send(&crate::common::at("puppet"), say("yes").to(id)).await) }
        });
        puppet.turn().await.ends(model::ports::agent::EndState::Completed, "");
        let done = done.await.unwrap();
        assert_eq!((artifacts(&done)[0].len(), done.history.len()), (30 * 40_000, 3));
    })
    .await;
}

#[tokio::test]
async fn a_credential_that_is_not_bound_to_the_system_sends_and_finds_nothing() {
    on_both_stores(async |mut house| {
        let engine = house.start_post([scripted()], &Post::new(), quick()).await;
        let place = |scopes: &[&str]| {
            let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
            let caller = Caller { tenant: "red".into(), name: "ann".into(), authenticated: true, scopes };
            CallScope::new(caller, "scripted".into(), "a2a_v1".into(), Visibility::Systems, &[])
        };
        let (bound, unbound) = (place(&["system:scripted"]), place(&["system:other"]));
        let task = task_of(Box::pin(engine.send(&bound, say("ask"))).await).id;
        house.shelf().calls();
        for send in [say("hi"), say("hi").to(task), model::Send { alias: Some("a".into()), ..say("hi") }] {
            let fault = Box::pin(engine.send(&unbound, send.clone())).await.unwrap_err();
            assert_eq!((fault.kind, &*fault.message), (Kind::Forbidden, "this credential is not bound to scripted"));
            assert_eq!(kind(Box::pin(engine.stream(&unbound, send)).await), Kind::Forbidden);
        }
        assert_eq!(house.shelf().calls(), [""; 0], "before anything exists");
        assert_eq!(kind(engine.get(&unbound, &task.to_string()).await), Kind::TaskNotFound);
        let call = PushCall::Create(hook_of(task, "a", "https://a.example/"));
        assert_eq!(kind(engine.push(&unbound, call).await), Kind::TaskNotFound);
        let listing = engine.list(&unbound, &List::default()).await.unwrap();
        assert_eq!((listing.tasks.len(), listing.total), (0, 0));
        assert_eq!(engine.list(&bound, &List::default()).await.unwrap().total, 1);
        assert_eq!(engine.health().await.unwrap().tasks, 1);
    })
    .await;
}
