//! A task of another tenant or agent looks missing to every operation.

use engine::Engine;
use model::{CallScope, EventId, Kind, List, Seq, TaskId};

use crate::common::{Adverbs, at, begin, echo, kind, named, of, on_both_stores, say, scripted, task_of};

async fn assert_missing(engine: &Engine, place: &CallScope, id: TaskId) {
    let text = id.to_string();
    assert_eq!(kind(engine.get(place, &text).await), Kind::TaskNotFound);
    assert_eq!(kind(engine.send(place, say("x").to(id)).await), Kind::TaskNotFound);
    assert_eq!(kind(engine.stream(place, say("x").to(id)).await), Kind::TaskNotFound);
    let cancel = model::Cancel { task: text, metadata: None };
    assert_eq!(kind(engine.cancel(place, cancel).await), Kind::TaskNotFound);
    assert_eq!(kind(engine.subscribe(place, &named(id), None).await), Kind::TaskNotFound);
    let from = EventId { task: id, seq: Seq(1) };
    assert_eq!(kind(engine.subscribe(place, &named(id), Some(from)).await), Kind::TaskNotFound);
    assert_eq!(kind(engine.resume_stream(place, from).await), Kind::TaskNotFound);
    let listing = engine.list(place, &List::default()).await.unwrap();
    assert!(listing.tasks.iter().all(|task| task.id != id));
    assert_eq!(listing.total, 0);
}

#[tokio::test]
async fn a_task_of_another_tenant_is_missing() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let mine = of("red", "ann", "scripted");
        for text in ["complete", "ask", "hang"] {
            let task = task_of(engine.send(&mine, say(text).soon()).await);
            assert_missing(&engine, &of("blue", "ann", "scripted"), task.id).await;
            assert_missing(&engine, &at("scripted"), task.id).await;
            engine.get(&of("red", "bob", "scripted"), &task.id.to_string()).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_task_of_another_agent_is_missing() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo(), scripted()]).await;
        for text in ["complete", "ask", "hang"] {
            let task = begin(&engine, "scripted", say(text)).await;
            assert_missing(&engine, &at("echo"), task.id).await;
        }
    })
    .await;
}

#[tokio::test]
async fn with_owner_visibility_only_the_owner_sees_a_task() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let owned = |name: &str| {
            let CallScope { caller, agent, dialect, .. } = of("red", name, "scripted");
            CallScope::new(caller, agent, dialect, model::Visibility::Owner, &[])
        };
        let task = task_of(engine.send(&owned("ann"), say("ask")).await);
        assert_missing(&engine, &owned("bob"), task.id).await;
        assert_eq!(engine.list(&owned("ann"), &List::default()).await.unwrap().total, 1);
    })
    .await;
}

#[tokio::test]
async fn an_event_id_resumes_only_its_own_task() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let one = begin(&engine, "scripted", say("ask")).await.id;
        let two = begin(&engine, "scripted", say("ask")).await.id;
        let other = Some(EventId { task: two, seq: Seq(1) });
        assert_eq!(kind(engine.subscribe(&at("scripted"), &named(one), other).await), Kind::TaskNotFound);
        let unseen = Some(EventId { task: one, seq: Seq(1_000) });
        assert_eq!(kind(engine.subscribe(&at("scripted"), &named(one), unseen).await), Kind::InvalidParams);
    })
    .await;
}
