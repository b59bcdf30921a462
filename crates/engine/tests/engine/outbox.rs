//! Deliveries with and without faults: in order, fair, and stopped at once when their config is removed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use model::limits::PushLimits;
use model::ports::agent::EndState;
use model::ports::store::StoreError;
use model::ports::webhook::WebhookOutcome;
use model::{Limits, PushCall, PushState, Seq, TaskId};

use crate::common::{
    Adverbs, House, Manners, Mood, Play, Post, Puppet, acting, aside, at, begin, echo, failed, hook_of, on_both_stores,
    quick, say, scripted, task_of, text_piece, until, working,
};

fn quick_retries() -> Limits {
    Limits { push: PushLimits { retry_ms: 1, breaker_failures: 1_000, ..PushLimits::default() }, ..quick() }
}

#[tokio::test]
async fn an_endpoint_that_hangs_delays_no_other() {
    on_both_stores(async |mut house| {
        let post = Post::with(|sent| match sent.url.contains("//slow") {
            true => Play::Held,
            false => Play::Now(WebhookOutcome::Taken),
        });
        let limits = PushLimits { deliveries: 4, deliveries_per_endpoint: 4, ..PushLimits::default() };
        let engine = house.start_post([echo()], &post, Limits { push: limits, ..quick() }).await;
        for n in 0..2 {
            for _ in 0..8 {
                let slow = say("hi").telling(&format!("https://slow{n}.example/"));
                task_of(engine.send(&at("echo"), slow).await);
            }
        }
        task_of(engine.send(&at("echo"), say("hi").telling("https://fast.example/")).await);
        post.said_to("https://fast.example/", "completed").await;
        let held = post.sent().iter().filter(|sent| sent.url.contains("//slow")).count();
        assert!(held < 4, "several that hang leave a slot, too: {held}");
        post.plays(|_| Play::Now(WebhookOutcome::Taken));
        post.release();
        until(async || engine.figures().push_active == 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_long_backlog_lets_others_have_their_turn() {
    on_both_stores(async |mut house| {
        let (post, puppet) = (Post::with(|_| Play::Held), Puppet::new());
        let limits = PushLimits { deliveries: 1, ..PushLimits::default() };
        let engine = house.start_post([puppet.clone() as _, echo()], &post, Limits { push: limits, ..quick() }).await;
        begin(&engine, "puppet", say("go").telling("https://long.example/")).await;
        let cue = puppet.turn().await;
        for _ in 0..500 {
            cue.says(text_piece("a", "x", true));
        }
        cue.ends(EndState::Completed, "");
        post.sent_at_least(1).await;
        task_of(engine.send(&at("echo"), say("hi").telling("https://short.example/")).await);
        post.plays(|_| Play::Now(WebhookOutcome::Taken));
        post.release();
        post.said_to("https://long.example/", "completed").await;
        let sent = post.sent();
        let short = sent.iter().position(|sent| sent.url.contains("//short")).unwrap();
        assert!(short < 200, "it came after {short} letters");
        let long: Vec<_> = sent.iter().filter(|sent| sent.url.contains("//long")).map(|sent| sent.seq).collect();
        assert!(long.windows(2).all(|pair| pair[0] < pair[1]) && long.len() == 502);
    })
    .await;
}

#[tokio::test]
async fn a_config_that_is_deleted_while_a_letter_is_under_way_gets_no_other() {
    on_both_stores(async |mut house| {
        let (post, puppet) = (Post::with(|_| Play::Held), Puppet::new());
        let engine = house.start_post([puppet.clone() as _], &post, quick()).await;
        let task = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let create = PushCall::Create(hook_of(task, "a", "https://a.example/"));
        engine.push(&at("puppet"), create).await.unwrap();
        cue.says(working("one"));
        post.sent_at_least(1).await;
        cue.says(working("two"));
        engine.push(&at("puppet"), PushCall::Delete { task: task.to_string(), id: "a".into() }).await.unwrap();
        post.plays(|_| Play::Now(WebhookOutcome::Taken));
        post.release();
        cue.ends(EndState::Completed, "");
        crate::common::task_when(&engine, task, |task| task.core.is_settled()).await;
        engine.drain().await;
        assert_eq!(post.sent().len(), 1);
    })
    .await;
}

#[tokio::test]
async fn what_a_replaced_config_hears_late_changes_nothing_for_the_new_one() {
    on_both_stores(async |mut house| {
        let post = Post::with(|sent| match sent.url.contains("//old") {
            true => Play::Held,
            false => Play::Now(WebhookOutcome::Taken),
        });
        let puppet = Puppet::new();
        let engine = house.start_post([puppet.clone() as _], &post, quick()).await;
        let task = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        let place = at("puppet");
        engine.push(&place, PushCall::Create(hook_of(task, "a", "https://old.example/"))).await.unwrap();
        cue.says(working("one"));
        post.sent_at_least(1).await;
        engine.push(&place, PushCall::Create(hook_of(task, "a", "https://new.example/"))).await.unwrap();
        cue.says(working("two"));
        assert_eq!(post.said_to("https://new.example/", "working: two").await, ["working: two"]);
        post.release();
        cue.ends(EndState::Completed, "");
        assert_eq!(post.said_to("https://new.example/", "completed").await, ["working: two", "completed"]);
        until(async || engine.figures().push_active == 0).await;
        let [delivery] = &engine.deliveries(Some(task), None, 10).await.unwrap()[..] else { panic!() };
        assert_eq!((delivery.progress.state, delivery.progress.delivered), (PushState::Done, 2));
        assert_eq!(post.sent().iter().filter(|sent| sent.url.contains("//old")).count(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_task_that_is_purged_takes_its_webhooks_with_it() {
    on_both_stores(async |mut house| {
        let post = Post::with(|_| Play::Now(failed("no")));
        let engine = house.start_post([scripted()], &post, quick()).await;
        let task = begin(&engine, "scripted", say("hang").telling("https://a.example/")).await.id;
        post.sent_at_least(1).await;
        assert!(engine.purge(task).await.unwrap());
        assert_eq!(engine.figures().push_active, 0);
        assert!(engine.deliveries(None, None, 10).await.unwrap().is_empty());

        // A config removed by another process is detected at the next attempt.
        let task = begin(&engine, "scripted", say("hang").telling("https://b.example/")).await.id;
        post.sent_at_least(2).await;
        crate::common::cancel(&engine, "scripted", task).await.unwrap();
        house.shelf().inner().remove(task).await.unwrap();
        until(async || engine.figures().push_active == 0).await;
    })
    .await;
}

#[tokio::test]
async fn while_the_store_keeps_nothing_deliveries_pause() {
    on_both_stores(async |mut house| {
        let (post, puppet) = (Post::new(), Puppet::new());
        let engine = house.start_post([puppet.clone() as _], &post, quick()).await;
        let task = begin(&engine, "puppet", say("go").telling("https://a.example/")).await.id;
        let cue = puppet.turn().await;
        cue.says(working("one"));
        post.said_to("https://a.example/", "working: one").await;
        // Until the progress is saved.
        until(async || house.shelf().inner().push(task).await.unwrap()[0].progress.delivered == 2).await;

        post.plays(|_| Play::Held);
        begin(&engine, "puppet", say("go").telling("https://a.example/")).await;
        let second = puppet.turn().await;
        post.sent_at_least(3).await;
        second.says(working("unheard"));
        let unheard = second.so_far.id;
        crate::common::task_when(&engine, unheard, |task| task.status.message.is_some()).await;
        house.shelf().be(Mood::Refuses(StoreError::Full));
        post.plays(|_| Play::Now(WebhookOutcome::Taken));
        post.release();
        until(async || house.shelf().refused() > 2).await;
        let so_far = post.sent().len();
        until(async || house.shelf().refused() > 4).await;
        assert_eq!(post.sent().len(), so_far, "nothing is delivered that would be delivered again");
        house.shelf().be(Mood::Fine);
        cue.ends(EndState::Completed, "");
        second.ends(EndState::Completed, "");
        until(async || engine.figures().push_active == 0).await;
        assert_eq!(engine.figures().push_dead, 0);
    })
    .await;
}

#[tokio::test]
async fn deliveries_go_on_when_what_could_not_be_kept_is_no_longer_wanted() {
    on_both_stores(async |mut house| {
        let post = Post::with(|_| Play::Held);
        let engine = house.start_post([scripted()], &post, quick()).await;
        let task = begin(&engine, "scripted", say("hang").telling("https://a.example/")).await.id;
        post.sent_at_least(1).await;
        post.plays(|_| Play::Now(WebhookOutcome::Taken));
        house.shelf().be(Mood::Refuses(StoreError::Full));
        post.release();
        until(async || house.shelf().refused() > 1).await;
        house.shelf().be(Mood::Fine);
        engine.purge(task).await.unwrap();
        begin(&engine, "scripted", say("complete").telling("https://b.example/")).await;
        post.said_to("https://b.example/", "completed: done").await;
    })
    .await;
}

/// A delivery that was accepted, and whose progress is not saved yet: the store refused it, and the next attempt to
/// save it waits for a time, on a paused clock.
struct Unsaved {
    post: Arc<Post>,
    engine: engine::Engine,
    task: TaskId,
}

impl Unsaved {
    /// With one delivery at a time to an endpoint.
    async fn new() -> Unsaved {
        let (mut house, post) = (House::memory(), Post::with(|_| Play::Held));
        let push = PushLimits { deliveries_per_endpoint: 1, ..PushLimits::default() };
        let engine = house.start_post([scripted()], &post, Limits { push, ..quick() }).await;
        let task = begin(&engine, "scripted", say("ask")).await.id;
        crate::common::task_when(&engine, task, |task| task.core.turn.is_none()).await;
        engine.push(&at("scripted"), PushCall::Create(hook_of(task, "a", "https://a.example/"))).await.unwrap();
        engine.redeliver(task, None, Some(Seq(1))).await.unwrap();
        post.sent_at_least(1).await;
        post.plays(|_| Play::Now(WebhookOutcome::Taken));
        house.shelf().be(Mood::Refuses(StoreError::Full));
        post.release();
        until(async || house.shelf().refused() > 1).await;
        house.shelf().be(Mood::Fine);
        assert_eq!(post.sent().len(), 1);
        Unsaved { post, engine, task }
    }

    async fn push(&self, call: PushCall) {
        self.engine.push(&at("scripted"), call).await.unwrap();
    }

    /// Another config of the endpoint is delivered: the first delivery has given its slot back.
    async fn lets_others_go(&self) {
        let url = "https://a.example/other";
        begin(&self.engine, "scripted", say("complete").telling(url)).await;
        soon(self.post.said_to(url, "completed: done")).await;
    }
}

/// Fails instead of waiting for ever.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("nothing is delivered")
}

#[tokio::test(start_paused = true)]
async fn a_config_that_is_deleted_before_its_progress_is_kept_occupies_no_slot() {
    let unsaved = Unsaved::new().await;
    unsaved.push(PushCall::Delete { task: unsaved.task.to_string(), id: "a".into() }).await;
    unsaved.lets_others_go().await;
}

#[tokio::test(start_paused = true)]
async fn a_config_that_is_replaced_before_its_progress_is_kept_occupies_no_slot() {
    let unsaved = Unsaved::new().await;
    unsaved.push(PushCall::Create(hook_of(unsaved.task, "a", "https://b.example/"))).await;
    unsaved.lets_others_go().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_purged_before_its_progress_is_kept_occupies_no_slot() {
    let unsaved = Unsaved::new().await;
    assert!(unsaved.engine.purge(unsaved.task).await.unwrap());
    unsaved.lets_others_go().await;
}

#[tokio::test(start_paused = true)]
async fn a_redelivery_before_the_progress_is_kept_is_made() {
    let unsaved = Unsaved::new().await;
    unsaved.engine.redeliver(unsaved.task, None, Some(Seq(1))).await.unwrap();
    let sent = soon(unsaved.post.sent_at_least(2)).await;
    assert_eq!((sent[0].seq, sent[1].seq), (1, 1));
    unsaved.lets_others_go().await;
}

#[tokio::test]
async fn a_log_that_cannot_be_read_uses_up_no_attempt() {
    let mut house = House::memory();
    let post = Post::with(|_| Play::Now(failed("no")));
    let engine = house.start_post([echo()], &post, quick_retries()).await;
    let task = task_of(engine.send(&at("echo"), say("hi").telling("https://a.example/")).await).id;
    post.sent_at_least(1).await;
    house.shelf().read_nothing(true);
    until(async || house.shelf().refused() > 0).await;
    let tried = post.sent().len();
    house.shelf().read_nothing(false);
    post.plays(|_| Play::Now(WebhookOutcome::Taken));
    let sent = post.sent_at_least(tried + 1).await;
    assert_eq!(sent[tried].attempt as usize, tried + 1);
    until(async || engine.figures().push_active == 0).await;
    assert_eq!(engine.deliveries(Some(task), None, 1).await.unwrap()[0].progress.trouble, None);
}

#[tokio::test]
async fn a_courier_that_panics_has_failed() {
    on_both_stores(async |mut house| {
        let mut first = true;
        let post = Post::with(move |_| {
            assert!(!std::mem::take(&mut first), "as the case wants it");
            Play::Now(WebhookOutcome::Taken)
        });
        let engine = house.start_post([echo()], &post, quick_retries()).await;
        task_of(engine.send(&at("echo"), say("hi").telling("https://a.example/")).await);
        post.said_to("https://a.example/", "completed").await;
        assert_eq!(engine.figures().push_failed, 1);
    })
    .await;
}

#[tokio::test]
async fn a_drain_lets_letters_arrive_and_keeps_how_far_they_came() {
    on_both_stores(async |mut house| {
        let post = Post::with(|_| Play::Held);
        let engine = house.start_post([scripted()], &post, quick()).await;
        let task = begin(&engine, "scripted", say("ask").telling("https://a.example/")).await.id;
        post.sent_at_least(1).await;
        let drained = aside({
            let engine = engine.clone();
            async move { engine.drain().await }
        });
        until(async || engine.is_draining()).await;
        post.release();
        drained.await.unwrap();
        let sent = post.sent().len();
        post.die();
        house.kill().await;

        let post = Post::new();
        let engine = house.start_post([scripted()], &post, quick()).await;
        let next = post.sent_at_least(1).await.remove(0);
        assert!(sent >= 1 && next.seq > 1, "what arrived is not told again: {next:?}");
        assert_eq!(next.task, task);
        drop(engine);
    })
    .await;
}

/// For many configs and any failures: every config gets every event, in order.
#[tokio::test]
async fn thousands_of_webhooks_all_arrive_each_in_order() {
    let mut house = House::memory();
    let mut count = 0u64;
    let post = Post::with(move |_| {
        count += 1;
        Play::Now(if count.is_multiple_of(17) { failed("busy") } else { WebhookOutcome::Taken })
    });
    let agent = acting("many", Manners { idempotent: true, ..Manners::default() }, |_| {
        use futures_util::StreamExt as _;
        let words = (0..3).map(|i| text_piece("a", "x", i > 0)).chain([working("w")]);
        futures_util::stream::iter(words)
            .then(|word| async {
                tokio::task::yield_now().await;
                word
            })
            .boxed()
    });
    let engine = house.start_post([agent as Arc<dyn model::ports::agent::Agent>], &post, quick_retries()).await;
    let sends = (0..2_000).map(|n| {
        let (engine, url) = (engine.clone(), format!("https://host{}.example/{n}", n % 40));
        async move { task_of(engine.send(&at("many"), say("go").telling(&url)).await).seq().0 }
    });
    let lengths = join_all(sends).await;
    let all = async { until(async || engine.figures().push_active == 0).await };
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap();
    let mut heard: std::collections::HashMap<String, Vec<(u64, u32)>> = std::collections::HashMap::new();
    for sent in post.sent() {
        heard.entry(sent.url).or_default().push((sent.seq, sent.attempt));
    }
    for (n, length) in lengths.into_iter().enumerate() {
        let heard = &heard[&format!("https://host{}.example/{n}", n % 40)];
        let mut taken: Vec<u64> = heard.iter().map(|(seq, _)| *seq).collect();
        assert!(taken.windows(2).all(|pair| pair[0] <= pair[1]), "in order: {heard:?}");
        taken.dedup();
        // The opening, three chunks, a status and the end.
        assert_eq!((taken.len(), taken[0], taken[5]), (6, 1, length), "nothing is missing: {heard:?}");
        assert!(heard.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[0].1 + 1 == pair[1].1));
    }
    assert_eq!(engine.figures().push_delivered, 12_000);
    assert_eq!(engine.deliveries(None, Some(PushState::Done), 5_000).await.unwrap().len(), 2_000);
}
