//! A subscription never misses and never repeats an event, with any number of other subscribers at any speed.

use engine::SubscriptionItem;
use model::ports::agent::EndState;
use model::{Kind, State};

use crate::common::{
    Adverbs, Puppet, artifacts, aside, at, begin, collect, echo, hear, kind, named, next_heard, on_both_stores, quick,
    say, scripted, subscribe, task_of, task_when, text_piece,
};

#[tokio::test]
async fn a_subscription_begins_with_the_task_as_it_is() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        cue.says(text_piece("a", "one ", false));
        task_when(&engine, id, |task| !task.artifacts.is_empty()).await;
        let mut subscription = subscribe(&engine, "puppet", id).await;
        let Some(Ok(SubscriptionItem::Task(task))) = subscription.next().await else { panic!("the task comes first") };
        assert_eq!(artifacts(&task), ["one "]);
        cue.says(text_piece("a", "two", true));
        assert_eq!(next_heard(&mut subscription).await, "art a+two");
    })
    .await;
}

#[tokio::test]
async fn a_settled_task_cannot_be_subscribed_to() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        let task = task_of(engine.send(&at("echo"), say("hi")).await);
        assert_eq!(kind(engine.subscribe(&at("echo"), &named(task.id), None).await), Kind::TaskSettled);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_who_listens_hears_the_same() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let limits = model::Limits { tail_bytes: 2_000, ..quick() };
        let engine = house.start_with([puppet.clone() as _], limits).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let mut listeners = Vec::new();
        for _ in 0..20 {
            listeners.push(aside(collect(subscribe(&engine, "puppet", id).await)));
        }
        for i in 0..500 {
            cue.says(text_piece("a", &i.to_string(), i > 0));
        }
        cue.ends(EndState::Completed, "done");
        let mut all = Vec::new();
        for listener in listeners {
            let items = listener.await.unwrap();
            all.push(items.iter().map(hear).collect::<Vec<String>>());
        }
        assert_eq!(all[0].len(), 502);
        assert!(all.iter().all(|heard| *heard == all[0]));
    })
    .await;
}

#[tokio::test]
async fn a_reader_that_never_reads_slows_nobody_and_misses_nothing() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let limits = model::Limits { tail_bytes: 1_000, ..quick() };
        let engine = house.start_with([puppet.clone() as _], limits).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let sleeper = subscribe(&engine, "puppet", id).await;
        let mut yawner = subscribe(&engine, "puppet", id).await;
        assert_eq!(next_heard(&mut yawner).await, "task submitted");
        for i in 0..2_000 {
            cue.says(text_piece("a", &format!("{i} "), i > 0));
        }
        cue.ends(EndState::Completed, "done");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(artifacts(&task), [(0..2_000).map(|i| format!("{i} ")).collect::<String>()]);
        for (subscription, length) in [(sleeper, 2_002), (yawner, 2_001)] {
            let heard: Vec<String> = collect(subscription).await.iter().map(hear).collect();
            assert_eq!(heard.len(), length);
            assert_eq!(heard[length - 2..], ["art a+1999 ", "completed: done."]);
        }
    })
    .await;
}

#[tokio::test]
async fn a_settled_task_that_nobody_watches_takes_no_memory() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo(), scripted()]).await;
        let id = begin(&engine, "scripted", say("hang")).await.id;
        let subscription = subscribe(&engine, "scripted", id).await;
        for _ in 0..20 {
            task_of(engine.send(&at("scripted"), say("hi")).await);
            task_of(engine.send(&at("echo"), say("hi")).await);
        }
        task_of(engine.send(&at("scripted"), say("ask")).await);
        crate::common::cancel(&engine, "scripted", id).await.unwrap();
        crate::common::until(async || engine.figures().tasks_live == 1).await;
        drop(subscription);
        assert_eq!(engine.figures().tasks_live, 0);
    })
    .await;
}

/// The work per event is proportional to the event: waiting callers do not make it copy the task.
#[tokio::test]
async fn a_caller_that_waits_does_not_make_events_copy_the_task() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let blocked = aside({
            let engine = engine.clone();
            async move { task_of(engine.send(&at("puppet"), say("go")).await) }
        });
        let cue = puppet.turn().await;
        let id = cue.so_far.id;
        let mut reader = subscribe(&engine, "puppet", id).await;
        next_heard(&mut reader).await;
        let mut places = std::collections::HashSet::new();
        for i in 0..10 {
            cue.says(text_piece("a", &i.to_string(), i > 0));
            next_heard(&mut reader).await;
            // The waiting callers have been woken, and wait again.
            tokio::task::yield_now().await;
            places.insert(std::sync::Arc::as_ptr(&engine.task(id).await.unwrap().unwrap().artifacts[0]) as usize);
        }
        // The event's own artifact, then one that grows in place.
        assert!(places.len() <= 2, "{} copies", places.len());
        cue.ends(EndState::Completed, "");
        blocked.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_listener_that_leaves_changes_nothing() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let mut stream = engine.stream(&at("puppet"), say("go")).await.unwrap();
        let cue = puppet.turn().await;
        let id = cue.so_far.id;
        next_heard(&mut stream).await;
        drop(stream);
        cue.ends(EndState::Completed, "done");
        assert_eq!(task_when(&engine, id, |task| task.core.is_settled()).await.state(), State::Completed);
    })
    .await;
}

#[tokio::test]
async fn a_purged_task_ends_its_turn_and_is_gone() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let id = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        assert!(engine.purge(id).await.unwrap());
        cue.cancelled.clone().await;
        cue.ends(EndState::Canceled, "");
        crate::common::until(async || engine.figures().turns_running == 0).await;
        crate::common::until(async || engine.get(&at("puppet"), &id.to_string()).await.is_err()).await;
        assert!(!engine.purge(id).await.unwrap());
        let health = engine.health().await.unwrap();
        assert_eq!((health.tasks, health.timers, health.running), (0, 0, 0));
        let _ = begin(&engine, "puppet", say("again")).await;
    })
    .await;
}

#[tokio::test]
async fn a_message_to_a_purged_task_finds_none() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let id = task_of(engine.send(&at("scripted"), say("ask")).await).id;
        let subscription = subscribe(&engine, "scripted", id).await;
        assert!(engine.purge(id).await.unwrap());
        assert_eq!(kind(engine.send(&at("scripted"), say("x").to(id)).await), Kind::TaskNotFound);
        drop(subscription);
    })
    .await;
}
