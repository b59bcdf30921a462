//! Deliveries are at least once and in order across crashes.

use std::collections::HashMap;

use model::PushState;
use model::ports::agent::{EndState, Restart};
use model::ports::webhook::WebhookOutcome;

use crate::common::{
    Adverbs, Manners, Play, Post, Puppet, at, begin, echo, failed, on_both_stores, quick, say, scripted, task_of,
    task_when, until, working,
};

#[tokio::test]
async fn what_was_not_taken_before_a_crash_is_delivered_after_it() {
    on_both_stores(async |mut house| {
        let post = Post::with(|sent| if sent.seq == 1 { Play::Now(WebhookOutcome::Taken) } else { Play::Held });
        let engine = house.start_post([echo()], &post, quick()).await;
        let task = task_of(engine.send(&at("echo"), say("hi").telling("https://a.example/")).await);
        post.sent_at_least(2).await;
        until(async || house.shelf().inner().push(task.id).await.unwrap()[0].progress.delivered == 1).await;
        post.die();
        house.kill().await;

        let after = Post::new();
        let engine = house.start_post([echo()], &after, quick()).await;
        after.said_to("https://a.example/", "completed").await;
        let (before, after) = (post.sent(), after.sent());
        assert_eq!((after[0].seq, after[0].attempt), (before[1].seq, 1), "from where it was kept");
        assert_eq!(after.last().unwrap().seq, task.seq().0);
        until(async || engine.figures().push_active == 0).await;
    })
    .await;
}

#[tokio::test]
async fn failures_are_remembered_over_a_restart() {
    on_both_stores(async |mut house| {
        let post = Post::with(|_| Play::Now(failed("no")));
        let engine = house.start_post([echo()], &post, quick()).await;
        let task = task_of(engine.send(&at("echo"), say("hi").telling("https://a.example/")).await).id;
        until(async || engine.figures().push_failed == 1).await;
        let [before] = &engine.deliveries(Some(task), None, 1).await.unwrap()[..] else { panic!() };
        engine.drain().await;
        house.kill().await;

        let post = Post::new();
        let engine = house.start_post([echo()], &post, quick()).await;
        let [after] = &engine.deliveries(Some(task), None, 1).await.unwrap()[..] else { panic!() };
        assert_eq!(before, after);
        assert!(after.progress.failing_since.is_some() && post.sent().is_empty(), "it is not due yet");
        assert_eq!(post.sent_at_least(1).await[0].attempt, 2);
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_a_crash_cut_off_is_told_of_like_any_other() {
    on_both_stores(async |mut house| {
        let manners = Manners { restart: Restart::Retry, ..Manners::default() };
        let (post, puppet) = (Post::new(), Puppet::with(manners));
        let engine = house.start_post([puppet.clone() as _], &post, quick()).await;
        let task = begin(&engine, "puppet", say("go").telling("https://a.example/")).await.id;
        let cue = puppet.turn().await;
        cue.says(working("one"));
        task_when(&engine, task, |task| task.status.message.is_some()).await;
        post.die();
        house.kill().await;

        let (after, puppet) = (Post::new(), Puppet::with(manners));
        let _engine = house.start_post([puppet.clone() as _], &after, quick()).await;
        puppet.turn().await.ends(EndState::Completed, "");
        let told = after.said_to("https://a.example/", "completed").await;
        assert!(told.ends_with(&["working: restarted".into(), "completed".into()]), "{told:?}");
        let mut seqs: Vec<u64> = post.sent().iter().chain(&after.sent()).map(|sent| sent.seq).collect();
        seqs.sort_unstable();
        seqs.dedup();
        assert_eq!(seqs.len(), 4, "opened, one, restarted, completed: {seqs:?}");
    })
    .await;
}

#[tokio::test]
async fn a_config_that_cannot_be_unsealed_is_given_up_with_a_reason() {
    on_both_stores(async |mut house| {
        let engine = house.start_post([scripted()], &Post::new(), quick()).await;
        let task = begin(&engine, "scripted", say("ask").telling("https://a.example/")).await.id;
        engine.drain().await;
        house.kill().await;

        let post = Post::new();
        post.lose_key();
        let engine = house.start_post([scripted()], &post, quick()).await;
        until(async || engine.figures().push_dead == 1).await;
        let [delivery] = &engine.deliveries(None, Some(PushState::Dead), 10).await.unwrap()[..] else { panic!() };
        assert_eq!((delivery.task, &delivery.endpoint), (task, &None));
        assert!(delivery.progress.trouble.as_deref().unwrap().contains("cannot be unsealed"));
        engine.redeliver(task, None, None).await.unwrap_err();
    })
    .await;
}

/// A small generator, so that a seed determines the whole case.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// With failing receivers, all kinds of configs and kills at any moment: at the end every receiver has every event, and
/// none came before its predecessors.
#[tokio::test]
async fn whatever_happens_every_event_arrives_and_none_is_skipped() {
    let seed = std::env::var("RIALTO_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| uuid::Uuid::now_v7().as_u64_pair().1);
    eprintln!("RIALTO_SEED={seed}");
    on_both_stores(async |mut house| {
        let mut dice = Dice(seed);
        let mut limits = quick();
        (limits.push.retry_ms, limits.push.breaker_ms, limits.push.breaker_most_ms) = (1, 2, 5);
        // By config: the events delivered, in order, and those that were accepted.
        let mut heard: HashMap<String, Vec<u64>> = HashMap::new();
        let mut lengths: HashMap<String, u64> = HashMap::new();
        for life in 0..6 {
            let mut moods = Dice(dice.roll(u64::MAX >> 33));
            let post = Post::with(move |_| match moods.roll(8) {
                0 | 1 => Play::Now(failed("no")),
                _ => Play::Now(WebhookOutcome::Taken),
            });
            let engine = house.start_post([scripted(), echo()], &post, limits.clone()).await;
            for n in 0..20 {
                let url = format!("https://host{}.example/{life}-{n}", dice.roll(4));
                let (agent, text) =
                    [("echo", "hi"), ("scripted", "chunks:5"), ("scripted", "complete")][dice.roll(3) as usize];
                let task = task_of(engine.send(&at(agent), say(text).telling(&url)).await);
                lengths.insert(url, task.seq().0);
            }
            let enough = dice.roll(200) as usize;
            let last = life == 5;
            until(async || if last { engine.figures().push_active == 0 } else { post.sent().len() >= enough.min(20) })
                .await;
            post.die();
            house.kill().await;
            for sent in post.sent() {
                heard.entry(sent.url).or_default().push(sent.seq);
            }
        }
        for (url, length) in lengths {
            let heard = &heard[&url];
            let mut known: Vec<u64> = Vec::new();
            for seq in heard {
                match known.iter().position(|seen| seen == seq) {
                    // A repeat: from here on the same order follows again.
                    Some(at) => assert!(known[at..].iter().all(|later| later >= seq)),
                    None => {
                        assert!(known.last().is_none_or(|last| last < seq), "{url}: {heard:?}");
                        known.push(*seq);
                    }
                }
            }
            assert_eq!((known[0], *known.last().unwrap()), (1, length), "{url}: {heard:?}");
        }
    })
    .await;
}
