//! Resuming from any event gives the task as of that event, then exactly the later events.

use engine::{Engine, Subscription, SubscriptionItem};
use model::ports::agent::EndState;
use model::{Event, EventId, Seq, Task, TaskId};

use crate::common::{
    Adverbs, House, Puppet, apply_public, aside, at, begin, cancel, collect, history, log, named, on_both_stores,
    quick, say, script, scripted, task_of, task_when, text_piece, working,
};

async fn resume(engine: &Engine, agent: &str, id: TaskId, seq: u64) -> Subscription {
    let from = EventId { task: id, seq: Seq(seq) };
    engine.subscribe(&at(agent), &named(id), Some(from)).await.unwrap()
}

/// The first item is the fold as of `seq`; the rest is every later public event, once and in order.
fn assert_whole(items: &[SubscriptionItem], seq: u64, log: &[Event]) {
    let SubscriptionItem::Task(first) = &items[0] else { panic!("the first item is the task") };
    let as_of = Task::fold(&log[..seq as usize]).unwrap().unwrap();
    assert_eq!(**first, as_of, "the task as of {seq}");
    let told: Vec<&Event> = items[1..]
        .iter()
        .map(|item| match item {
            SubscriptionItem::Event { committed, .. } => &committed.event,
            other => panic!("{other:?}"),
        })
        .collect();
    let later: Vec<&Event> = log[seq as usize..].iter().filter(|event| event.body.is_public()).collect();
    assert_eq!(told, later, "after {seq}");
    let mut folded = as_of;
    for event in told {
        apply_public(&mut folded, event);
    }
    let last = Task::fold(log).unwrap().unwrap();
    assert_eq!((folded.status, folded.artifacts), (last.status, last.artifacts));
    let closing = |item: &SubscriptionItem| matches!(item, SubscriptionItem::Event { closing: true, .. });
    assert!(items.len() == 1 || closing(items.last().unwrap()));
    assert_eq!(items.iter().filter(|item| closing(item)).count(), usize::from(items.len() > 1));
}

/// Three turns with every kind of event: statuses, chunks, waiting messages, metadata, a question.
async fn long_mixed_task(house: &mut House, limits: model::Limits) -> (Engine, TaskId, Vec<Event>) {
    let puppet = Puppet::new();
    let engine = house.start_with([puppet.clone() as _], limits).await;
    let id = begin(&engine, "puppet", say("one")).await.id;
    let cue = puppet.turn().await;
    for i in 0..40 {
        cue.says(text_piece(["a", "b"][i % 2], &format!("{i:04} ").repeat(10), i > 1));
        if i % 7 == 0 {
            cue.says(working(&format!("step {i}")));
            task_when(&engine, id, |task| task.state() == model::State::Working).await;
        }
    }
    cue.says(model::ports::agent::AgentEvent::Metadata(model::Json::parse(r#"{"n":1}"#).unwrap()));
    begin(&engine, "puppet", say("two").to(id)).await;
    cue.ends(EndState::Completed, "first half");
    let cue = puppet.turn().await;
    cue.says(text_piece("a", "again", false));
    cue.ends(EndState::InputRequired, "go on?");
    task_when(&engine, id, |task| task.core.is_at_rest()).await;
    begin(&engine, "puppet", say("yes").to(id)).await;
    let cue = puppet.turn().await;
    cue.says(text_piece("c", "last", false));
    cue.ends(EndState::Completed, "all done");
    task_when(&engine, id, |task| task.core.is_settled()).await;
    let log = log(&engine, id).await;
    assert!(log.len() > 55, "{}", log.len());
    (engine, id, log)
}

#[tokio::test]
async fn a_settled_task_can_be_resumed_from_every_event() {
    on_both_stores(async |mut house| {
        let (engine, id, log) = long_mixed_task(&mut house, quick()).await;
        for seq in 1..=log.len() as u64 {
            assert_whole(&collect(resume(&engine, "puppet", id, seq).await).await, seq, &log);
        }
    })
    .await;
}

#[tokio::test]
async fn resuming_reaches_back_beyond_what_is_kept_in_memory() {
    on_both_stores(async |mut house| {
        let (engine, id, log) = long_mixed_task(&mut house, model::Limits { tail_bytes: 600, ..quick() }).await;
        for seq in 1..=log.len() as u64 {
            assert_whole(&collect(resume(&engine, "puppet", id, seq).await).await, seq, &log);
        }
    })
    .await;
}

#[tokio::test]
async fn resuming_works_after_a_restart() {
    on_both_stores(async |mut house| {
        let (_, id, log) = long_mixed_task(&mut house, quick()).await;
        house.kill().await;
        let engine = house.start([Puppet::new() as _]).await;
        for seq in 1..=log.len() as u64 {
            assert_whole(&collect(resume(&engine, "puppet", id, seq).await).await, seq, &log);
        }
    })
    .await;
}

/// While the task is live, with a long tail and with a minimal one, from every event in the log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_task_can_be_resumed_from_every_event() {
    on_both_stores(async |mut house| {
        for tail_bytes in [256 << 10, 500] {
            let puppet = Puppet::new();
            let limits = model::Limits { tail_bytes, ..quick() };
            let engine = house.start_with([puppet.clone() as _], limits).await;
            let id = begin(&engine, "puppet", say("one")).await.id;
            let cue = puppet.turn().await;
            let mut readers = Vec::new();
            for i in 0..120_u64 {
                cue.says(text_piece("a", &format!("{i} "), i > 0));
                if i % 10 == 9 {
                    cue.says(working(&i.to_string()));
                }
                if i % 3 == 0 {
                    let now = engine.task(id).await.unwrap().unwrap().seq().0;
                    for seq in [1 + i % now, now] {
                        let subscription = resume(&engine, "puppet", id, seq).await;
                        readers.push((seq, aside(collect(subscription))));
                    }
                }
            }
            cue.ends(EndState::Completed, "done");
            task_when(&engine, id, |task| task.core.is_settled()).await;
            let log = log(&engine, id).await;
            for (seq, reader) in readers {
                assert_whole(&reader.await.unwrap(), seq, &log);
            }
            house.kill().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_stream_of_a_send_resumes_and_sends_nothing_again() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let steps = serde_json::json!([
            {"status": "working", "text": "one"}, {"artifact": {"name": "a", "parts": [{"text": "x"}]}, "chunks": 5},
            {"complete": "done"},
        ]);
        let task = task_of(engine.send(&at("scripted"), script(&steps)).await);
        let log = log(&engine, task.id).await;
        for seq in 3..=log.len() as u64 {
            let from = EventId { task: task.id, seq: Seq(seq) };
            let items = collect(engine.resume_stream(&at("scripted"), from).await.unwrap()).await;
            assert_whole(&items, seq, &log);
        }
        assert_eq!(engine.health().await.unwrap().tasks, 1);
    })
    .await;
}

/// The stream of a send ends at a question, also when it is resumed there.
#[tokio::test]
async fn the_stream_of_a_send_that_is_resumed_at_its_question_is_over() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let task = task_of(engine.send(&at("scripted"), say("ask: which?")).await);
        let last = task.seq().0;
        for (seq, items) in [(last - 1, 2), (last, 1)] {
            let from = EventId { task: task.id, seq: Seq(seq) };
            let told = collect(engine.resume_stream(&at("scripted"), from).await.unwrap()).await;
            assert_eq!(told.len(), items, "{told:?}");
        }
        // A subscription continues.
        let mut subscription = resume(&engine, "scripted", task.id, last).await;
        assert!(matches!(subscription.next().await, Some(Ok(SubscriptionItem::Task(_)))));
        cancel(&engine, "scripted", task.id).await.unwrap();
        assert!(matches!(subscription.next().await, Some(Ok(SubscriptionItem::Event { closing: true, .. }))));
        assert_eq!(history(&task), ["ask: which?"]);
    })
    .await;
}
