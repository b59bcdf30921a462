//! Failing attempts, in paused time: their delays, when the breaker of an endpoint opens, when a config is given up,
//! and how operators restart it.

use std::sync::Arc;
use std::time::Duration;

use model::limits::PushLimits;
use model::ports::webhook::WebhookOutcome;
use model::{Kind, Limits, PushCall, PushState, Seq};

use crate::common::{
    Adverbs, House, Play, Post, Sent, at, begin, cancel, echo, failed, hook_of, kind, quick, say, scripted, task_of,
    until,
};

/// Limits under which no breaker opens.
fn patient() -> Limits {
    Limits { push: PushLimits { breaker_failures: u32::MAX, ..PushLimits::default() }, ..quick() }
}

/// Advances paused time in steps until the condition holds.
async fn in_steps_of(step: Duration, holds: impl Fn() -> bool) {
    while !holds() {
        tokio::time::sleep(step).await;
    }
}

fn gaps(sent: &[Sent]) -> Vec<f64> {
    sent.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_attempt_waits_twice_as_long_up_to_a_bound() {
    let post = Post::with(|_| Play::Now(failed("no")));
    let limits =
        Limits { push: PushLimits { retry_most_ms: 60_000, give_up_ms: u64::MAX, ..patient().push }, ..patient() };
    let engine = House::memory().start_post([echo()], &post, limits).await;
    let task = task_of(engine.send(&at("echo"), say("hi").telling("https://a.example/")).await).id;
    let sent = post.sent_at_least(10).await;
    assert!(sent.iter().all(|sent| sent.seq == 1), "the next event waits for the first");
    assert_eq!(sent.iter().map(|sent| sent.attempt).collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
    for (gap, plain) in gaps(&sent).into_iter().zip([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]) {
        assert!((plain * 0.79..=plain * 1.21 + 0.01).contains(&gap), "{gap} s instead of {plain} s");
    }
    until(async || engine.figures().push_failed == 10).await;
    let [delivery] = &engine.deliveries(Some(task), None, 1).await.unwrap()[..] else { panic!() };
    assert_eq!((delivery.progress.attempts, delivery.progress.trouble.as_deref()), (10, Some("no")));
    assert_eq!((engine.figures().push_waiting, engine.figures().push_delivered), (1, 0));

    post.plays(|_| Play::Now(WebhookOutcome::Taken));
    post.said_to("https://a.example/", "completed").await;
    until(async || engine.figures().push_active == 0).await;
    let [delivery] = &engine.deliveries(Some(task), None, 1).await.unwrap()[..] else { panic!() };
    assert_eq!((delivery.progress.attempts, delivery.progress.failing_since), (0, None));
    assert_eq!(post.sent().last().unwrap().attempt, 1, "each event has attempts of its own");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_says_when_is_not_asked_before() {
    let mut answers = vec![Some(3_600_000 * 5), Some(90_000), Some(10)];
    let post = Post::with(move |_| match answers.pop() {
        Some(retry_after_ms) => Play::Now(WebhookOutcome::Failed { why: "busy".into(), retry_after_ms }),
        None => Play::Now(WebhookOutcome::Taken),
    });
    let engine = House::memory().start_post([echo()], &post, patient()).await;
    task_of(engine.send(&at("echo"), say("hi").telling("https://a.example/")).await);
    let sent = post.sent_at_least(4).await;
    let gaps = gaps(&sent);
    assert!((0.79..1.22).contains(&gaps[0]), "not sooner than by itself: {gaps:?}");
    // Times are stored in whole milliseconds.
    assert!((89.998..90.1).contains(&gaps[1]), "{gaps:?}");
    assert!((3_599.998..3_600.1).contains(&gaps[2]), "not later than the longest: {gaps:?}");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_wants_no_more_gets_no_more() {
    let post = Post::with(|_| Play::Now(WebhookOutcome::Gone { why: "410".into() }));
    let engine = House::memory().start_post([echo()], &post, patient()).await;
    let task = task_of(engine.send(&at("echo"), say("hi").telling("https://a.example/")).await).id;
    until(async || engine.figures().push_dead == 1).await;
    let [delivery] = &engine.deliveries(None, Some(PushState::Dead), 10).await.unwrap()[..] else { panic!() };
    assert_eq!((delivery.task, delivery.progress.trouble.as_deref()), (task, Some("410")));
    tokio::time::advance(Duration::from_secs(100_000)).await;
    assert_eq!((post.sent().len(), engine.figures().push_active), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_fails_for_a_day_is_given_up_and_can_be_taken_up_again() {
    let mut house = House::memory();
    let post = Post::with(|_| Play::Now(failed("no")));
    let engine = house.start_post([echo()], &post, patient()).await;
    let task = task_of(engine.send(&at("echo"), say("hi").telling("https://a.example/")).await).id;
    // The opened task, then every public event.
    let all = 1 + crate::common::log(&engine, task).await.iter().filter(|event| event.body.is_public()).count();
    in_steps_of(Duration::from_secs(60), || engine.figures().push_dead == 1).await;
    let sent = post.sent();
    let day = (sent.last().unwrap().at - sent[0].at).as_secs();
    assert!((86_400..86_400 + 4_400).contains(&day), "{day} s");
    let [delivery] = &engine.deliveries(None, Some(PushState::Dead), 10).await.unwrap()[..] else { panic!() };
    let trouble = delivery.progress.trouble.as_deref().unwrap();
    assert!(trouble.starts_with("given up after") && trouble.ends_with("no"), "{trouble}");

    post.plays(|_| Play::Now(WebhookOutcome::Taken));
    assert_eq!(engine.redeliver(task, Some(&delivery.id), None).await.unwrap(), 1);
    post.said_to("https://a.example/", "completed").await;
    until(async || engine.figures().push_active == 0).await;
    let after: Vec<_> = post.sent()[sent.len()..].iter().map(|sent| (sent.seq, sent.attempt)).collect();
    assert_eq!((after[0], after.len()), ((1, 1), all), "from where it stopped");

    // A redelivery from an earlier event.
    assert_eq!(engine.redeliver(task, None, Some(Seq(2))).await.unwrap(), 1);
    until(async || engine.figures().push_active == 0).await;
    assert_eq!(post.sent().len(), sent.len() + all + all - 1);
    let [delivery] = &engine.deliveries(Some(task), None, 10).await.unwrap()[..] else { panic!() };
    assert_eq!((delivery.progress.state, delivery.progress.delivered), (PushState::Done, all as u64 * 2 - 1));

    for (id, from) in [(None, Some(Seq(0))), (None, Some(Seq(1_000)))] {
        assert_eq!(kind(engine.redeliver(task, id, from).await), Kind::InvalidParams);
    }
    assert_eq!(kind(engine.redeliver(task, Some("other"), None).await), Kind::TaskNotFound);
    let nobody = model::TaskId(uuid::Uuid::now_v7());
    assert_eq!(kind(engine.redeliver(nobody, None, None).await), Kind::TaskNotFound);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_keeps_failing_is_left_alone_then_tried_with_one_letter() {
    let post = Post::with(|_| Play::Now(failed("no")));
    let engine = House::memory().start_post([scripted()], &post, quick()).await;
    for n in 0..50 {
        begin(&engine, "scripted", say("ask").telling(&format!("https://a.example/{n}"))).await;
    }
    begin(&engine, "scripted", say("ask").telling("https://b.example/")).await;
    until(async || engine.figures().breakers_open == 1).await;
    let opened = tokio::time::Instant::now();
    let at_first = post.sent().iter().filter(|sent| sent.url.contains("//a.")).count();
    assert!((5..=40).contains(&at_first), "some were under way: {at_first}");

    // From then on one delivery at a time, after 10, 20, 40 seconds.
    let of_a = || post.sent().into_iter().filter(|sent| sent.url.contains("//a.")).collect::<Vec<_>>();
    in_steps_of(Duration::from_millis(200), || of_a().len() >= at_first + 6).await;
    let sent = of_a();
    let probes: Vec<u64> = sent[at_first..].iter().map(|sent| (sent.at - opened).as_secs()).collect();
    for (probe, expected) in probes.iter().zip([10, 30, 70, 150, 310, 610]) {
        assert!(probe.abs_diff(expected) <= 1, "{probes:?}");
    }
    // Waiting for the breaker uses up no attempts.
    let most = engine.deliveries(None, Some(PushState::Active), 100).await.unwrap();
    let attempts: u32 =
        most.iter().filter(|d| d.endpoint.as_deref() == Some("https://a.example")).map(|d| d.progress.attempts).sum();
    assert_eq!(attempts as usize, of_a().len());

    post.plays(|_| Play::Now(WebhookOutcome::Taken));
    let all_well = || engine.figures().breakers_open == 0 && engine.figures().push_waiting == 0;
    in_steps_of(Duration::from_secs(1), all_well).await;
    assert_eq!(engine.figures().push_dead, 0);
}

/// An endpoint has one breaker for the webhooks of tasks and for the deliveries of products.
#[tokio::test]
async fn an_endpoint_that_fails_for_one_is_left_alone_by_all() {
    let post = Post::with(|_| Play::Now(failed("no")));
    let limits = PushLimits { breaker_failures: 2, breaker_ms: 60_000, retry_ms: 1, ..PushLimits::default() };
    let engine = House::memory().start_post([scripted()], &post, Limits { push: limits, ..quick() }).await;
    let [a, b]: [Arc<str>; 2] = ["https://a.example".into(), "https://b.example".into()];

    // The webhook of a task opens it for a product.
    begin(&engine, "scripted", say("ask").telling("https://a.example/")).await;
    until(async || engine.figures().breakers_open == 1).await;
    let until_then = engine.begin_delivery(&a).err().expect("the endpoint is left alone");
    assert!(until_then > engine.now());

    // A product opens it for the webhook of a task; an outcome that is not settled says nothing.
    for _ in 0..5 {
        drop(engine.begin_delivery(&b).expect("no failure was settled"));
    }
    for _ in 0..2 {
        engine.begin_delivery(&b).expect("it is open after two failures").settle(&failed("no"));
    }
    assert!(engine.begin_delivery(&b).is_err());
    assert_eq!(engine.figures().breakers_open, 2);
    let before = post.sent().len();
    begin(&engine, "scripted", say("ask").telling("https://b.example/")).await;
    until(async || engine.figures().push_waiting == 2).await;
    assert_eq!(post.sent().len(), before, "nothing is sent to either");

    // A redelivery for one config holds for all of them.
    post.plays(|_| Play::Now(WebhookOutcome::Taken));
    engine.vouch_for_endpoint(&b);
    until(async || post.sent().iter().any(|sent| sent.url == "https://b.example/")).await;
    engine.begin_delivery(&b).expect("it is closed").settle(&WebhookOutcome::Taken);
    assert_eq!(engine.figures().breakers_open, 1);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_redelivery_says_that_the_endpoint_is_back() {
    let post = Post::with(|_| Play::Now(failed("no")));
    let limits = PushLimits { breaker_failures: 1, ..PushLimits::default() };
    let engine = House::memory().start_post([scripted()], &post, Limits { push: limits, ..quick() }).await;
    let task = begin(&engine, "scripted", say("ask").telling("https://a.example/")).await.id;
    until(async || engine.figures().breakers_open == 1).await;
    post.plays(|_| Play::Now(WebhookOutcome::Taken));
    let before = tokio::time::Instant::now();
    engine.redeliver(task, None, None).await.unwrap();
    let sent = post.sent_at_least(2).await;
    assert!(sent[1].at - before < Duration::from_millis(100));
    assert_eq!((sent[1].seq, sent[1].attempt), (1, 1));
    until(async || engine.figures().push_waiting == 0).await;
    assert_eq!(engine.figures().breakers_open, 0);
}

#[tokio::test(start_paused = true)]
async fn a_redelivery_while_a_letter_is_under_way_waits_for_it() {
    let post = Post::with(|_| Play::Held);
    let engine = House::memory().start_post([scripted()], &post, quick()).await;
    let task = begin(&engine, "scripted", say("ask").telling("https://a.example/")).await.id;
    post.sent_at_least(1).await;
    engine.redeliver(task, None, Some(Seq(1))).await.unwrap();
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(post.sent().len(), 1);
    post.plays(|_| Play::Now(WebhookOutcome::Taken));
    post.release();
    let sent = post.sent_at_least(2).await;
    assert_eq!((sent[0].seq, sent[1].seq), (1, 1), "what was under way counts for nothing");
}

#[tokio::test(start_paused = true)]
async fn a_config_that_waits_for_its_next_attempt_is_stopped_at_once_too() {
    let post = Post::with(|_| Play::Now(failed("no")));
    let engine = House::memory().start_post([scripted()], &post, patient()).await;
    let task = begin(&engine, "scripted", say("ask")).await.id;
    let place = at("scripted");
    engine.push(&place, PushCall::Create(hook_of(task, "a", "https://a.example/"))).await.unwrap();
    cancel(&engine, "scripted", task).await.unwrap();
    post.sent_at_least(3).await;
    engine.push(&place, PushCall::Delete { task: task.to_string(), id: "a".into() }).await.unwrap();
    let sent = post.sent().len();
    tokio::time::sleep(Duration::from_secs(10_000)).await;
    assert_eq!((post.sent().len(), engine.figures().push_waiting), (sent, 0));
}
