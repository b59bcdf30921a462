//! Push configs: set, read, list and remove.

use engine::{Engine, PushAnswer};
use model::ports::agent::EndState;
use model::{CallScope, Kind, Limits, PushCall, PushConfig, PushState, Send, TaskId};

use crate::common::{
    Adverbs, Mood, Post, Puppet, at, begin, echo, hook, hook_of, kind, on_both_stores, quick, say, scripted, task_of,
    working,
};

async fn set(engine: &Engine, place: &CallScope, config: PushConfig) -> PushConfig {
    match engine.push(place, PushCall::Create(config)).await.unwrap() {
        PushAnswer::Config(config) => config,
        other => panic!("{other:?}"),
    }
}

async fn list(engine: &Engine, place: &CallScope, task: &str, size: Option<u32>, token: &str) -> (Vec<String>, String) {
    let token = Some(token.to_owned());
    let call = PushCall::List { task: task.to_owned(), page_size: size, page_token: token };
    match engine.push(place, call).await.unwrap() {
        PushAnswer::List { configs, next_page_token } => {
            for config in &configs {
                assert_eq!((&config.token, &config.credentials), (&None, &None));
                assert_eq!(config.task.as_deref(), Some(task));
            }
            (configs.into_iter().map(|config| config.id.unwrap()).collect(), next_page_token)
        }
        other => panic!("{other:?}"),
    }
}

async fn read(engine: &Engine, place: &CallScope, task: TaskId, id: &str) -> Result<PushConfig, model::Fault> {
    match engine.push(place, PushCall::Get { task: task.to_string(), id: id.to_owned() }).await? {
        PushAnswer::Config(config) => Ok(config),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_config_is_answered_without_its_secrets_every_time() {
    on_both_stores(async |mut house| {
        let engine = house.start_post([scripted()], &Post::new(), quick()).await;
        let place = at("scripted");
        let task = begin(&engine, "scripted", say("hang")).await.id;
        let config = PushConfig {
            token: Some("secret".into()),
            scheme: Some("Bearer".into()),
            credentials: Some("secret too".into()),
            ..hook_of(task, "mine", "https://a.example/hook?k=1")
        };
        let shown = PushConfig { token: None, credentials: None, ..config.clone() };
        assert_eq!(set(&engine, &place, config).await, shown);
        assert_eq!(read(&engine, &place, task, "mine").await.unwrap(), shown);
        assert_eq!(read(&engine, &place, task, "").await.unwrap(), shown);
        assert_eq!(list(&engine, &place, &task.to_string(), None, "").await.0, ["mine"]);
        let [delivery] = &engine.deliveries(Some(task), None, 10).await.unwrap()[..] else { panic!() };
        assert_eq!(delivery.endpoint.as_deref(), Some("https://a.example"));
        assert!(!format!("{delivery:?}").contains("secret"));
    })
    .await;
}

#[tokio::test]
async fn configs_are_kept_in_the_order_they_were_made_and_the_newest_is_the_one_without_a_name() {
    on_both_stores(async |mut house| {
        let engine = house.start_post([scripted()], &Post::new(), quick()).await;
        let place = at("scripted");
        let task = begin(&engine, "scripted", say("hang")).await.id;
        let text = task.to_string();
        for id in ["c", "a", "b"] {
            set(&engine, &place, hook_of(task, id, "https://a.example/")).await;
        }
        assert_eq!(list(&engine, &place, &text, None, "").await.0, ["c", "a", "b"]);
        assert_eq!(read(&engine, &place, task, "").await.unwrap().id.as_deref(), Some("b"));

        let (first, token) = list(&engine, &place, &text, Some(2), "").await;
        assert_eq!(first, ["c", "a"]);
        assert_eq!(list(&engine, &place, &text, Some(2), &token).await, (vec!["b".to_owned()], String::new()));
        // The last config of the page is removed; the next page is still complete.
        engine.push(&place, PushCall::Delete { task: text.clone(), id: "a".into() }).await.unwrap();
        assert_eq!(list(&engine, &place, &text, Some(2), &token).await.0, ["b"]);

        for (size, token) in [(Some(0), ""), (Some(101), ""), (None, "nonsense"), (None, "bm9uc2Vuc2U")] {
            let call = PushCall::List { task: text.clone(), page_size: size, page_token: Some(token.into()) };
            assert_eq!(kind(engine.push(&place, call).await), Kind::InvalidParams);
        }
        let other = begin(&engine, "scripted", say("hang")).await.id.to_string();
        let call = PushCall::List { task: other, page_size: None, page_token: Some(token) };
        assert_eq!(kind(engine.push(&place, call).await), Kind::InvalidParams);
    })
    .await;
}

#[tokio::test]
async fn a_config_without_an_id_gets_one_and_one_with_a_known_id_takes_its_place() {
    on_both_stores(async |mut house| {
        let engine = house.start_post([scripted()], &Post::new(), quick()).await;
        let place = at("scripted");
        let task = begin(&engine, "scripted", say("hang")).await.id;
        let nameless = PushConfig { task: Some(task.to_string()), ..hook("https://a.example/") };
        let one = set(&engine, &place, nameless.clone()).await.id.unwrap();
        let two = set(&engine, &place, PushConfig { id: Some(String::new()), ..nameless }).await.id.unwrap();
        assert_ne!(one, two);
        set(&engine, &place, hook_of(task, &one, "https://b.example/")).await;
        assert_eq!(list(&engine, &place, &task.to_string(), None, "").await.0, [two, one.clone()]);
        assert_eq!(read(&engine, &place, task, &one).await.unwrap().url, "https://b.example/");
        let long = hook_of(task, &"x".repeat(257), "https://b.example/");
        assert_eq!(kind(engine.push(&place, PushCall::Create(long)).await), Kind::InvalidParams);
    })
    .await;
}

#[tokio::test]
async fn deleting_is_done_once_and_may_be_said_twice() {
    on_both_stores(async |mut house| {
        let engine = house.start_post([scripted()], &Post::new(), quick()).await;
        let place = at("scripted");
        let task = begin(&engine, "scripted", say("hang")).await.id;
        set(&engine, &place, hook_of(task, "a", "https://a.example/")).await;
        for _ in 0..2 {
            let answer = engine.push(&place, PushCall::Delete { task: task.to_string(), id: "a".into() }).await;
            assert_eq!(answer.unwrap(), PushAnswer::Deleted(task.to_string()));
            let fault = read(&engine, &place, task, "a").await.unwrap_err();
            assert_eq!(fault.kind, Kind::TaskNotFound);
            assert!(fault.message.contains("no such push notification config"), "{fault}");
        }
        assert_eq!(kind(read(&engine, &place, task, "").await), Kind::TaskNotFound);
        assert_eq!(engine.figures().push_active, 0);
        let all = PushCall::Delete { task: task.to_string(), id: String::new() };
        assert_eq!(kind(engine.push(&place, all).await), Kind::InvalidParams);
    })
    .await;
}

#[tokio::test]
async fn a_task_has_so_many_configs_and_no_more_however_they_come() {
    on_both_stores(async |mut house| {
        let engine = house.start_post([scripted()], &Post::new(), quick()).await;
        let place = at("scripted");
        let task = task_of(engine.send(&place, say("ask").telling("https://a.example/")).await).id;
        for i in 1..20 {
            set(&engine, &place, hook_of(task, &format!("c{i}"), "https://a.example/")).await;
        }
        let one_more = hook_of(task, "more", "https://a.example/");
        let fault = engine.push(&place, PushCall::Create(one_more)).await.unwrap_err();
        assert_eq!(fault.kind, Kind::InvalidParams);
        assert!(fault.message.contains("at most 20"), "{fault}");
        let with_message = say("green").to(task).telling("https://a.example/");
        assert_eq!(kind(engine.send(&place, with_message).await), Kind::InvalidParams);
        let task_now = engine.task(task).await.unwrap().unwrap();
        assert_eq!(task_now.history.len(), 1, "what was refused left nothing behind");

        set(&engine, &place, hook_of(task, "c7", "https://b.example/")).await;
        let replacing = Send { push: Some(hook_of(task, "c8", "https://b.example/")), ..say("green").to(task) };
        task_of(engine.send(&place, replacing).await);
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_delivered_to_is_refused_before_anything_exists() {
    on_both_stores(async |mut house| {
        let engine = house.start_post([echo()], &Post::new(), quick()).await;
        let bad = say("hi").telling("ftp://a.example/");
        assert_eq!(kind(engine.send(&at("echo"), bad.clone()).await), Kind::InvalidParams);
        assert_eq!(kind(engine.stream(&at("echo"), bad).await), Kind::InvalidParams);
        assert_eq!(engine.health().await.unwrap().tasks, 0);
        let task = begin(&engine, "echo", say("hi")).await.id;
        let call = PushCall::Create(hook_of(task, "a", "ftp://a.example/"));
        assert_eq!(kind(engine.push(&at("echo"), call).await), Kind::InvalidParams);
        let none = Limits { push: model::limits::PushLimits { configs: 0, ..Default::default() }, ..quick() };
        engine.drain().await;
        let engine = crate::common::House::memory().start_post([echo()], &Post::new(), none).await;
        assert_eq!(kind(engine.send(&at("echo"), say("hi").telling("https://a/")).await), Kind::InvalidParams);
    })
    .await;
}

#[tokio::test]
async fn without_a_courier_there_are_no_push_notifications() {
    on_both_stores(async |mut house| {
        let engine = house.start([echo()]).await;
        assert!(!engine.has_push());
        let with_hook = say("hi").telling("https://a.example/");
        assert_eq!(kind(engine.send(&at("echo"), with_hook).await), Kind::PushNotSupported);
        let task = begin(&engine, "echo", say("hi")).await.id;
        let call = PushCall::Create(hook_of(task, "a", "https://a.example/"));
        assert_eq!(kind(engine.push(&at("echo"), call).await), Kind::PushNotSupported);
        assert_eq!(kind(engine.redeliver(task, None, None).await), Kind::PushNotSupported);
    })
    .await;
}

#[tokio::test]
async fn a_config_of_a_settled_task_is_taken_and_done() {
    on_both_stores(async |mut house| {
        let post = Post::new();
        let engine = house.start_post([echo()], &post, quick()).await;
        let task = begin(&engine, "echo", say("hi")).await.id;
        set(&engine, &at("echo"), hook_of(task, "a", "https://a.example/")).await;
        let [delivery] = &engine.deliveries(Some(task), None, 10).await.unwrap()[..] else { panic!() };
        assert_eq!((delivery.progress.state, delivery.progress.delivered), (PushState::Done, 0));
        assert_eq!(engine.figures().push_active, 0);
        assert!(post.sent().is_empty());
    })
    .await;
}

#[tokio::test]
async fn an_explicit_config_begins_with_the_next_event() {
    on_both_stores(async |mut house| {
        let (post, puppet) = (Post::new(), Puppet::new());
        let engine = house.start_post([puppet.clone() as _], &post, quick()).await;
        let task = begin(&engine, "puppet", say("go")).await.id;
        let cue = puppet.turn().await;
        cue.says(working("before"));
        crate::common::task_when(&engine, task, |task| task.status.message.is_some()).await;
        set(&engine, &at("puppet"), hook_of(task, "a", "https://a.example/")).await;
        cue.says(working("after"));
        cue.ends(EndState::Completed, "");
        let said = post.said_to("https://a.example/", "completed").await;
        assert_eq!(said, ["working: after", "completed"]);
    })
    .await;
}

#[tokio::test]
async fn a_config_whose_commit_nobody_can_vouch_for_is_looked_up() {
    on_both_stores(async |mut house| {
        let post = Post::new();
        let engine = house.start_post([scripted()], &post, quick()).await;
        let place = at("scripted");
        let task = begin(&engine, "scripted", say("hang")).await.id;
        house.shelf().be(Mood::LosesAnyAnswer);
        set(&engine, &place, hook_of(task, "kept", "https://a.example/")).await;
        house.shelf().be(Mood::LosesAnyCommit);
        let lost = PushCall::Create(hook_of(task, "lost", "https://a.example/"));
        assert_eq!(kind(engine.push(&place, lost).await), Kind::Internal);
        assert_eq!(list(&engine, &place, &task.to_string(), None, "").await.0, ["kept"]);
        house.shelf().be(Mood::LosesAnyAnswer);
        engine.push(&place, PushCall::Delete { task: task.to_string(), id: "kept".into() }).await.unwrap();
        assert_eq!(engine.figures().push_active, 0);
    })
    .await;
}

#[tokio::test]
async fn under_an_alias_the_config_is_shown_and_told_under_it() {
    on_both_stores(async |mut house| {
        let post = Post::new();
        let engine = house.start_post([scripted()], &post, quick()).await;
        let place = CallScope { dialect: "a2a_v0_1".into(), ..at("scripted") };
        let named = |text: &str| Send { alias: Some("mine".into()), ..say(text) };
        let opened = named("ask").telling("https://a.example/");
        let asked = task_of(engine.send(&place, opened).await);
        let task = asked.id;
        let read = PushCall::Get { task: "mine".into(), id: String::new() };
        let PushAnswer::Config(config) = engine.push(&place, read).await.unwrap() else { panic!() };
        assert_eq!((config.task.as_deref(), config.id.as_deref()), (Some("mine"), Some("mine")));
        let sent = post.sent_at_least(2).await;
        assert!(sent.iter().all(|sent| sent.spec.shown.as_deref() == Some("mine")));

        // Setting it again replaces the one that came with the message.
        let again = PushConfig { task: Some("mine".into()), ..hook_of(task, "mine", "https://b.example/") };
        assert_eq!(set(&engine, &place, again).await.task.as_deref(), Some("mine"));
        assert_eq!(list(&engine, &place, "mine", None, "").await.0, ["mine"]);
        task_of(engine.send(&place, named("green")).await);
        let said = post.said_to("https://b.example/", "task completed after 3").await;
        assert_eq!(said[0], "task working after 3", "it begins with what comes next: {said:?}");
        assert!(post.sent().iter().all(|sent| sent.spec.shown.as_deref() == Some("mine")));
        assert!(post.sent().iter().filter(|sent| sent.url.contains("//a.")).all(|sent| sent.seq <= asked.seq().0));

        // Named by its own id, the task is shown under that id.
        let by_id = say("more").to(task);
        assert_eq!(kind(engine.send(&place, by_id).await), Kind::TaskSettled);
        assert_eq!(list(&engine, &place, &task.to_string(), None, "").await.0, ["mine"]);
    })
    .await;
}
