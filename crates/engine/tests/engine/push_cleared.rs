//! Configs of a dialect that removes them with their task's end: once the final event was delivered or given up.

use model::ports::agent::EndState;
use model::ports::store::StoreError;
use model::ports::webhook::WebhookOutcome;
use model::{CallScope, Kind, PushCall, PushState, Seq, TaskId};

use crate::common::{
    Adverbs, House, Mood, Play, Post, Puppet, Sent, at, begin, echo, hook_of, kind, on_both_stores, quick, reply_of,
    say, scripted, task_of, task_when, until, working,
};

/// A scope with such a dialect.
fn clearing(agent: &str) -> CallScope {
    CallScope { dialect: "clears".into(), ..at(agent) }
}

fn is_end(sent: &Sent) -> bool {
    sent.said.starts_with("completed")
}

/// A task's configs in the store.
async fn kept(house: &House, task: TaskId) -> Vec<(String, PushState)> {
    let rows = house.shelf().inner().push(task).await.unwrap();
    rows.into_iter().map(|row| (row.id.to_string(), row.progress.state)).collect()
}

async fn set(engine: &engine::Engine, place: &CallScope, task: TaskId, id: &str) -> Result<(), model::Fault> {
    let config = hook_of(task, id, &format!("https://{id}.example/"));
    engine.push(place, PushCall::Create(config)).await.map(drop)
}

#[tokio::test]
async fn a_config_goes_once_the_end_was_told() {
    on_both_stores(async |mut house| {
        let (post, puppet) = (Post::with(|sent| play(is_end(sent))), Puppet::new());
        let engine = house.start_post([puppet.clone() as _], &post, quick()).await;
        let task = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        for id in ["a", "b"] {
            set(&engine, &clearing("puppet"), task, id).await.unwrap();
        }
        set(&engine, &at("puppet"), task, "stays").await.unwrap();
        cue.says(working("on it"));
        cue.ends(EndState::Completed, "");
        for url in ["https://a.example/", "https://b.example/", "https://stays.example/"] {
            assert_eq!(post.said_to(url, "completed").await, ["working: on it", "completed"]);
        }
        // No delivery has been accepted yet.
        assert_eq!(kept(&house, task).await.len(), 3);
        post.release();
        until(async || kept(&house, task).await == [("stays".to_owned(), PushState::Done)]).await;
        assert_eq!((post.sent().len(), engine.figures().push_active, engine.figures().push_dead), (6, 0, 0));
        // Nothing is left to deliver again.
        assert_eq!(kind(engine.redeliver(task, Some("a"), Some(Seq(1))).await), Kind::TaskNotFound);
        assert_eq!(engine.deliveries(None, None, 10).await.unwrap().len(), 1);
    })
    .await;
}

fn play(held: bool) -> Play {
    if held { Play::Held } else { Play::Now(WebhookOutcome::Taken) }
}

#[tokio::test]
async fn an_end_that_nobody_took_before_a_crash_is_told_after_it_and_then_the_config_goes() {
    on_both_stores(async |mut house| {
        let post = Post::with(|sent| play(is_end(sent)));
        let engine = house.start_post([echo()], &post, quick()).await;
        let task = task_of(engine.send(&clearing("echo"), say("hi").telling("https://a.example/")).await).id;
        post.said_to("https://a.example/", "completed").await;
        post.die();
        house.kill().await;

        let after = Post::new();
        let engine = house.start_post([echo()], &after, quick()).await;
        assert_eq!(kept(&house, task).await.len(), 1, "it outlasts the crash");
        after.said_to("https://a.example/", "completed").await;
        until(async || kept(&house, task).await.is_empty()).await;
        engine.drain().await;
        house.kill().await;

        let last = Post::new();
        let engine = house.start_post([echo()], &last, quick()).await;
        assert_eq!((engine.figures().push_active, last.sent().len()), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn an_end_that_was_taken_before_a_crash_is_repeated_rather_than_lost() {
    on_both_stores(async |mut house| {
        let post = Post::with(|sent| play(is_end(sent)));
        let engine = house.start_post([echo()], &post, quick()).await;
        let task = task_of(engine.send(&clearing("echo"), say("hi").telling("https://a.example/")).await).id;
        post.said_to("https://a.example/", "completed").await;
        // From now on no progress is saved.
        house.shelf().be(Mood::Refuses(StoreError::Full));
        post.release();
        until(async || engine.figures().push_delivered == post.sent().len() as u64).await;
        assert_eq!(kept(&house, task).await, [(kept(&house, task).await[0].0.clone(), PushState::Active)]);
        post.die();
        house.kill().await;

        let after = Post::new();
        let _engine = house.start_post([echo()], &after, quick()).await;
        after.said_to("https://a.example/", "completed").await;
        until(async || kept(&house, task).await.is_empty()).await;
    })
    .await;
}

#[tokio::test]
async fn a_store_that_takes_nothing_for_a_while_loses_no_end() {
    on_both_stores(async |mut house| {
        let post = Post::with(|sent| play(is_end(sent)));
        let engine = house.start_post([echo()], &post, quick()).await;
        let task = task_of(engine.send(&clearing("echo"), say("hi").telling("https://a.example/")).await).id;
        post.said_to("https://a.example/", "completed").await;
        house.shelf().be(Mood::LosesAnyCommit);
        post.release();
        until(async || kept(&house, task).await.is_empty()).await;
        assert_eq!(engine.figures().push_active, 0);
        assert_eq!(post.sent().iter().filter(|sent| is_end(sent)).count(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_config_goes_once_the_end_is_given_up() {
    on_both_stores(async |mut house| {
        let gone = |sent: &Sent| match is_end(sent) {
            true => Play::Now(WebhookOutcome::Gone { why: "moved away".into() }),
            false => Play::Now(WebhookOutcome::Taken),
        };
        let (post, puppet) = (Post::with(gone), Puppet::new());
        let engine = house.start_post([puppet.clone() as _], &post, quick()).await;
        let task = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        set(&engine, &clearing("puppet"), task, "a").await.unwrap();
        set(&engine, &at("puppet"), task, "stays").await.unwrap();
        cue.ends(EndState::Completed, "");
        // In other dialects the config stays for an operator.
        until(async || kept(&house, task).await == [("stays".to_owned(), PushState::Dead)]).await;
        until(async || engine.figures().push_dead == 2).await;
        assert_eq!(engine.figures().push_active, 0);
    })
    .await;
}

/// A running task with a config that was given up at its first event.
async fn given_up(house: &mut House, post: &std::sync::Arc<Post>) -> (engine::Engine, TaskId) {
    let engine = house.start_post([scripted()], post, quick()).await;
    let send = say("ask").telling("https://a.example/");
    let task = task_of(engine.send(&clearing("scripted"), send).await).id;
    set(&engine, &at("scripted"), task, "stays").await.unwrap();
    until(async || engine.figures().push_dead == 1).await;
    (engine, task)
}

fn refuses_a() -> std::sync::Arc<Post> {
    Post::with(|sent| match sent.url.as_str() {
        "https://a.example/" => Play::Now(WebhookOutcome::Gone { why: "moved away".into() }),
        _ => Play::Now(WebhookOutcome::Taken),
    })
}

#[tokio::test(start_paused = true)]
async fn a_config_that_was_given_up_stays_until_its_task_has_settled() {
    let (mut house, post) = (House::memory(), refuses_a());
    let (engine, task) = given_up(&mut house, &post).await;
    until(async || kept(&house, task).await.iter().any(|(_, state)| *state == PushState::Dead)).await;
    // It stays as long as the task runs: its caller sees it, and operators may restart it.
    tokio::time::sleep(std::time::Duration::from_secs(600)).await;
    assert_eq!(kept(&house, task).await.len(), 2);
    task_of(engine.send(&at("scripted"), say("complete").to(task)).await);
    task_when(&engine, task, |task| task.core.is_settled()).await;
    until(async || kept(&house, task).await == [("stays".to_owned(), PushState::Done)]).await;
}

#[tokio::test]
async fn a_config_that_was_given_up_before_a_crash_goes_after_it() {
    on_both_stores(async |mut house| {
        let post = refuses_a();
        let (engine, task) = given_up(&mut house, &post).await;
        let dead = engine.deliveries(None, Some(PushState::Dead), 10).await.unwrap();
        assert_eq!(dead.iter().map(|delivery| delivery.task).collect::<Vec<_>>(), [task]);
        task_of(engine.send(&at("scripted"), say("complete").to(task)).await);
        until(async || engine.figures().push_active == 0).await;
        post.die();
        house.kill().await;

        let _engine = house.start_post([scripted()], &Post::new(), quick()).await;
        until(async || kept(&house, task).await == [("stays".to_owned(), PushState::Done)]).await;
    })
    .await;
}

#[tokio::test]
async fn what_has_settled_takes_no_config_and_a_direct_reply_keeps_none() {
    on_both_stores(async |mut house| {
        let post = Post::new();
        let engine = house.start_post([echo(), scripted()], &post, quick()).await;
        let task = task_of(engine.send(&at("echo"), say("hi")).await).id;
        assert_eq!(kind(set(&engine, &clearing("echo"), task, "a").await), Kind::TaskSettled);
        assert_eq!(kept(&house, task).await, []);
        set(&engine, &at("echo"), task, "stays").await.unwrap();
        assert_eq!(kept(&house, task).await, [("stays".to_owned(), PushState::Done)]);
        reply_of(engine.send(&clearing("scripted"), say("message: hi").telling("https://a.example/")).await);
        assert_eq!(engine.deliveries(None, None, 10).await.unwrap().len(), 1);
        assert_eq!((post.sent().len(), engine.figures().push_active), (0, 0));
    })
    .await;
}
