//! Tests of the limits, in paused time.

use std::sync::Mutex;

use model::ports::agent::{ArtifactChunk, TurnEnd};
use tokio::sync::Notify;

use super::*;
use crate::scripted::stage::{ScriptContext, brief, inbound};
use crate::scripted::{self, ScriptedMode};

fn scripted() -> Arc<dyn Agent> {
    Arc::new(scripted::ScriptedAgent::new(ScriptedMode::Play))
}

fn limited(common: Common) -> Arc<Limited> {
    Arc::new(Limited::new("limited", scripted(), &common, false))
}

fn text(text: &str) -> Vec<Part> {
    vec![Part::text(text)]
}

/// A turn of its own task, which runs until it is cancelled.
async fn hanging(agent: &Arc<Limited>) -> ScriptContext {
    let mut stage = ScriptContext::new(agent.clone());
    stage.say("m", text("hang"));
    stage.start();
    assert!(stage.next().await.is_some());
    stage
}

#[tokio::test(start_paused = true)]
async fn a_turn_over_the_limit_waits_says_so_and_goes_on_when_a_place_is_free() {
    let agent = limited(Common { concurrency: Some(1), ..Common::default() });
    let mut first = hanging(&agent).await;
    let mut second = ScriptContext::new(agent.clone());
    second.say("m", text("hello"));
    second.start();
    assert_eq!(brief(&[second.next().await.unwrap()]), ["working waiting for a free place"]);
    assert!(second.next().now_or_never().is_none());
    first.cancel();
    assert_eq!(brief(&first.finish().await), ["Canceled"]);
    assert_eq!(brief(&second.finish().await), ["working", "a1= hello", "Completed"][..].to_vec());
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_a_turn_that_waits() {
    let agent = limited(Common { concurrency: Some(1), ..Common::default() });
    let _first = hanging(&agent).await;
    let mut second = ScriptContext::new(agent.clone());
    second.say("m", text("hello"));
    second.start();
    second.next().await;
    second.cancel();
    assert_eq!(brief(&second.finish().await), ["Canceled"]);
    assert_eq!(agent.waiting.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_over_the_queue_is_refused_with_a_time_to_try_again() {
    let agent = limited(Common { concurrency: Some(1), queue: Some(1), ..Common::default() });
    let message = inbound("m", text("hello"));
    let first = hanging(&agent).await;
    assert!(agent.admit(&message, None).is_ok());
    let mut second = ScriptContext::new(agent.clone());
    second.say("m", text("hello"));
    second.start();
    second.next().await;
    let fault = agent.admit(&message, None).unwrap_err();
    assert_eq!((fault.kind, fault.retry_after_s), (Kind::Unavailable, Some(5)));
    // A message to a working task needs no further slot.
    assert!(agent.admit(&message, Some(first.task())).is_ok());
    drop(second);
    assert!(agent.admit(&message, None).is_ok());
    drop(first);
    assert_eq!(agent.places.available_permits(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_takes_too_long_is_stopped_and_fails_with_words() {
    let agent = limited(Common { timeout_ms: Some(1_500), ..Common::default() });
    let mut stage = hanging(&agent).await;
    assert_eq!(brief(&stage.finish().await), ["Failed the agent did not finish within 1.5 s"]);
    assert_eq!(agent.places.available_permits(), 16);
}

/// Emits the given events and ignores a cancel.
struct Stubborn(Profile, Mutex<Vec<AgentEvent>>);

impl Stubborn {
    fn saying(said: Vec<AgentEvent>) -> Arc<Stubborn> {
        Arc::new(Stubborn(scripted().profile().clone(), Mutex::new(said)))
    }
}

impl Agent for Stubborn {
    fn profile(&self) -> &Profile {
        &self.0
    }
    fn admit(&self, _: &Inbound, _: Option<&Task>) -> Result<Admission, Fault> {
        Ok(Admission { undecided: false, restart: Restart::Fail, idempotent: false })
    }
    fn run(&self, _: Turn) -> BoxStream<'static, AgentEvent> {
        let said = std::mem::take(&mut *self.1.lock().unwrap());
        futures_util::stream::iter(said).chain(futures_util::stream::pending()).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_stop_in_time_is_dropped() {
    let common = Common { timeout_ms: Some(1_000), ..Common::default() };
    let agent = Arc::new(Limited::new("l", Stubborn::saying(vec![AgentEvent::Working(None)]), &common, false));
    let began = Instant::now();
    assert_eq!(
        brief(&ScriptContext::new(agent).hear(text("x")).await),
        ["working", "Failed the agent did not finish within 1 s"]
    );
    assert_eq!(began.elapsed(), Duration::from_secs(1) + GRACE);
}

fn chunk(key: &str, text: &str, append: bool, last: bool) -> AgentEvent {
    AgentEvent::Artifact(ArtifactChunk {
        key: key.into(),
        parts: vec![Part::text(text)],
        append,
        last,
        ..ArtifactChunk::default()
    })
}

fn completed() -> AgentEvent {
    AgentEvent::End(TurnEnd { state: EndState::Completed, words: None })
}

#[tokio::test(start_paused = true)]
async fn chunks_that_are_ready_together_are_merged_up_to_the_last_of_their_artifact() {
    let said = || {
        vec![
            chunk("a", "1", false, false),
            chunk("a", "2", true, false),
            chunk("a", "3", true, true),
            chunk("b", "4", false, false),
            chunk("b", "5", false, false),
            completed(),
        ]
    };
    for (merge, expected) in [
        (true, &["a= 123", "b=… 4", "b=… 5", "Completed"][..]),
        (false, &["a=… 1", "a+… 2", "a+ 3", "b=… 4", "b=… 5", "Completed"][..]),
    ] {
        let agent = Arc::new(Limited::new("l", Stubborn::saying(said()), &Common::default(), merge));
        let mut stage = ScriptContext::new(agent);
        stage.say("m", text("x"));
        stage.start();
        for expected in expected {
            assert_eq!(brief(&[stage.next().await.unwrap()]), [*expected]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_says_too_much_fails() {
    let said = vec![chunk("a", &"x".repeat(500), false, false), chunk("a", &"x".repeat(500), true, true), completed()];
    let common = Common { max_output_bytes: Some(1_000), ..Common::default() };
    let agent = Arc::new(Limited::new("l", Stubborn::saying(said), &common, false));
    let said = brief(&ScriptContext::new(agent).hear(text("x")).await);
    assert_eq!(said[1..], ["Failed the agent said more than 1000 bytes in one turn"]);
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_was_cut_off_too_often_is_not_tried_again() {
    let agent = limited(Common { attempts: Some(1), ..Common::default() });
    let mut stage = hanging(&agent).await;
    stage.retry();
    assert_eq!(brief(&stage.finish().await), ["Failed the turn was cut off 1 times and is not tried again"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_turn_frees_its_place_for_the_next() {
    let agent = limited(Common { concurrency: Some(1), ..Common::default() });
    let first = hanging(&agent).await;
    let mut second = ScriptContext::new(agent.clone());
    second.say("m", text("hello"));
    second.start();
    second.next().await;
    let freed = Notify::new();
    let (said, ()) = tokio::join!(second.finish(), async {
        drop(first);
        freed.notify_one();
    });
    assert_eq!(brief(&said).last().unwrap(), "Completed");
}
