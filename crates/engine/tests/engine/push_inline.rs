//! Configs that come with a message: committed with it, and with deliveries from it on.

use model::ports::agent::{AgentEvent, AgentMessage, EndState, Restart};
use model::{CallScope, PushState, Send};

use crate::common::{
    Adverbs, Manners, Mood, Post, Puppet, at, begin, echo, hook_of, kind, on_both_stores, quick, reply_of, say,
    scripted, task_of, text_piece, until, working,
};

#[tokio::test]
async fn a_config_that_comes_with_the_opening_is_told_everything() {
    on_both_stores(async |mut house| {
        let (post, puppet) = (Post::new(), Puppet::new());
        let engine = house.start_post([puppet.clone() as _], &post, quick()).await;
        let send = Send { trace: Some("00-trace".into()), ..say("go").telling("https://a.example/hook") };
        let task = begin(&engine, "puppet", send).await;
        let cue = puppet.turn().await;
        cue.says(working("on it"));
        cue.says(text_piece("a", "one", false));
        cue.says(text_piece("a", "two", true));
        cue.ends(EndState::Completed, "done");
        let said = post.said_to("https://a.example/hook", "completed: done").await;
        assert_eq!(said, ["task submitted after 1", "working: on it", "art a=one", "art a+two", "completed: done"]);
        let sent = post.sent();
        assert_eq!(sent[0].seq, 1, "the first letter is about the first event");
        assert!(sent.windows(2).all(|pair| pair[0].seq < pair[1].seq));
        assert!(sent.iter().all(|sent| sent.task == task.id && sent.attempt == 1 && sent.context == task.context));
        assert!(sent.iter().all(|sent| &*sent.tenant == "default" && sent.spec.trace.as_deref() == Some("00-trace")));
        until(async || engine.figures().push_active == 0).await;
        let [delivery] = &engine.deliveries(None, Some(PushState::Done), 10).await.unwrap()[..] else { panic!() };
        assert_eq!((delivery.task, delivery.progress.delivered), (task.id, 5));
        assert_eq!(engine.figures().push_delivered, 5);
    })
    .await;
}

#[tokio::test]
async fn a_turn_that_is_over_in_one_commit_is_told_too() {
    on_both_stores(async |mut house| {
        let post = Post::new();
        let engine = house.start_post([echo()], &post, quick()).await;
        let before = house.shelf().commits();
        let task = task_of(engine.send(&at("echo"), say("hi").telling("https://a.example/")).await);
        assert_eq!(house.shelf().commits(), before + 1, "the config is in the commit of the opening");
        let sent = post.said_to("https://a.example/", "completed").await;
        assert_eq!(sent.first().unwrap(), "task submitted after 1");
        assert_eq!(post.sent().last().unwrap().seq, task.seq().0);
    })
    .await;
}

#[tokio::test]
async fn a_config_that_comes_with_a_later_message_begins_there() {
    on_both_stores(async |mut house| {
        let post = Post::new();
        let engine = house.start_post([scripted()], &post, quick()).await;
        let asked = task_of(engine.send(&at("scripted"), say("ask")).await);
        task_of(engine.send(&at("scripted"), say("complete").to(asked.id).telling("https://a.example/")).await);
        let said = post.said_to("https://a.example/", "completed: done").await;
        assert_eq!(said[0], "working");
        assert!(post.sent().iter().all(|sent| sent.seq > asked.seq().0));
    })
    .await;
}

#[tokio::test]
async fn readers_of_states_get_the_task_at_every_status_and_nothing_else() {
    on_both_stores(async |mut house| {
        let (post, puppet) = (Post::new(), Puppet::new());
        let engine = house.start_post([puppet.clone() as _], &post, quick()).await;
        let place = CallScope { dialect: "a2a_v0_1".into(), ..at("puppet") };
        let send = Send { alias: Some("mine".into()), ..say("go").telling("https://a.example/") };
        let task = task_of(engine.send(&place, send.soon()).await);
        let cue = puppet.turn().await;
        for round in 0..5 {
            cue.says(text_piece("a", "x", round > 0));
            cue.says(working("step"));
            cue.says(text_piece("a", "y", true));
        }
        cue.ends(EndState::Completed, "");
        post.said_to("https://a.example/", "task completed after 6").await;
        let sent = post.sent();
        let said: Vec<_> = sent.iter().map(|sent| sent.said.as_str()).collect();
        let expected = [
            "task submitted after 1",
            "task working after 1",
            "task working after 2",
            "task working after 3",
            "task working after 4",
            "task working after 5",
            "task completed after 6",
        ];
        assert_eq!(said, expected, "each as of its event");
        assert!(sent.iter().all(|sent| sent.task == task.id));
    })
    .await;
}

const UNDECIDED: Manners = Manners { restart: Restart::Fail, idempotent: false, undecided: true };

#[tokio::test]
async fn a_direct_reply_is_told_to_nobody() {
    on_both_stores(async |mut house| {
        let (post, puppet) = (Post::new(), Puppet::with(UNDECIDED));
        let engine = house.start_post([puppet.clone() as _, scripted()], &post, quick()).await;
        // In one commit, and later.
        reply_of(engine.send(&at("scripted"), say("message: hi").telling("https://a.example/")).await);
        let mut stream = engine.stream(&at("puppet"), say("go").telling("https://a.example/")).await.unwrap();
        puppet.turn().await.says(AgentEvent::Reply(AgentMessage::text("hi")));
        assert_eq!(crate::common::next_heard(&mut stream).await, "reply: hi");
        until(async || engine.figures().push_active == 0).await;
        let done = engine.deliveries(None, Some(PushState::Done), 10).await.unwrap();
        assert_eq!(done.iter().map(|delivery| delivery.progress.delivered).collect::<Vec<_>>(), [0, 0]);
        assert!(post.sent().is_empty());
    })
    .await;
}

#[tokio::test]
async fn an_undecided_exchange_is_told_of_once_it_is_a_task() {
    on_both_stores(async |mut house| {
        let (post, puppet) = (Post::new(), Puppet::with(UNDECIDED));
        let engine = house.start_post([puppet.clone() as _], &post, quick()).await;
        let mut stream = engine.stream(&at("puppet"), say("go").telling("https://a.example/")).await.unwrap();
        let cue = puppet.turn().await;
        cue.says(AgentEvent::Metadata(model::Json::from_value(&serde_json::json!({ "n": 1 }))));
        until(async || engine.figures().push_waiting == 0).await;
        assert!(post.sent().is_empty());
        cue.says(working("a task after all"));
        assert_eq!(crate::common::next_heard(&mut stream).await, "task submitted");
        let said = post.said_to("https://a.example/", "working: a task after all").await;
        assert_eq!(said, ["task submitted after 1", "working: a task after all"]);
    })
    .await;
}

#[tokio::test]
async fn a_repeat_of_a_request_registers_nothing_again() {
    on_both_stores(async |mut house| {
        let post = Post::new();
        let engine = house.start_post([scripted()], &post, quick()).await;
        let send = || say("ask").telling("https://a.example/").keyed("k");
        let first = task_of(engine.send(&at("scripted"), send()).await);
        let again = task_of(engine.send(&at("scripted"), send()).await);
        assert_eq!(first.id, again.id);
        let answer = || say("green").to(first.id).telling("https://b.example/").keyed("k2");
        for _ in 0..2 {
            task_of(engine.send(&at("scripted"), answer()).await);
        }
        assert_eq!(engine.deliveries(Some(first.id), None, 10).await.unwrap().len(), 2);
    })
    .await;
}

#[tokio::test]
async fn a_caller_who_goes_away_leaves_its_config_at_work() {
    on_both_stores(async |mut house| {
        let post = Post::new();
        let engine = house.start_post([echo()], &post, quick()).await;
        house.shelf().hold_answers(true);
        let place = at("echo");
        let mut call = Box::pin(engine.send(&place, say("hi").telling("https://a.example/")));
        tokio::select! {
            _ = &mut call => panic!("the answer is held"),
            () = until(async || house.shelf().commits() > 0) => {}
        }
        drop(call);
        house.shelf().hold_answers(false);
        post.said_to("https://a.example/", "completed").await;
    })
    .await;
}

#[tokio::test]
async fn a_refused_opening_leaves_no_config() {
    on_both_stores(async |mut house| {
        let post = Post::new();
        let engine = house.start_post([echo(), scripted()], &post, quick()).await;
        house.shelf().be(Mood::Refuses(model::ports::store::StoreError::Full));
        for agent in ["echo", "scripted"] {
            let send = say("hang").telling("https://a.example/");
            assert_eq!(kind(engine.send(&at(agent), send.soon()).await), model::Kind::Unavailable);
        }
        house.shelf().be(Mood::Fine);
        assert_eq!(engine.figures().push_active, 0);
        // An opening with unknown outcome is looked up, including its config.
        house.shelf().be(Mood::LosesAnswer);
        let task = begin(&engine, "scripted", say("hang").telling("https://a.example/")).await.id;
        post.sent_at_least(1).await;
        house.shelf().be(Mood::LosesAnswer);
        let more = Send { push: Some(hook_of(task, "b", "https://b.example/")), ..say("more").to(task) };
        task_of(engine.send(&at("scripted"), more.soon()).await);
        assert_eq!(engine.figures().push_active, 2);
    })
    .await;
}
