//! An agent never outruns the store, and its output is limited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use model::ports::agent::{AgentEvent, ArtifactChunk, EndState};
use model::{Body, Json, Limits, Part, State};

use crate::common::{
    Manners, Mood, acting, artifacts, at, begin, ended, last_words, log, on_both_stores, quick, say, task_of,
    task_when, text_piece, until,
};

#[tokio::test]
async fn an_agent_that_emits_forever_is_stopped_at_the_limit_of_a_turn() {
    on_both_stores(async |mut house| {
        let agent = acting("endless", Manners::default(), |_| {
            futures_util::stream::iter(0..).map(|i| text_piece("a", &"x".repeat(1_000), i > 0)).boxed()
        });
        let limits = Limits { turn_bytes: 1 << 20, uncommitted_bytes: 64 << 10, ..quick() };
        let engine = house.start_with([agent as _], limits).await;
        let task = task_of(engine.send(&at("endless"), say("go")).await);
        assert_eq!(task.state(), State::Failed);
        assert_eq!(last_words(&task), "the agent said more than 1048576 bytes in one turn");
        let said = artifacts(&task)[0].len();
        assert!((700_000..1_300_000).contains(&said), "{said}");
        assert!(house.shelf().payload_most() < 300_000, "{}", house.shelf().payload_most());
    })
    .await;
}

#[tokio::test]
async fn an_agent_waits_while_the_store_does() {
    on_both_stores(async |mut house| {
        let asked = Arc::new(AtomicUsize::new(0));
        let curtain = Arc::new(tokio::sync::Notify::new());
        let (counter, up) = (asked.clone(), curtain.clone());
        let agent = acting("eager", Manners::default(), move |_| {
            let (counter, up) = (counter.clone(), up.clone());
            let say = move |i| {
                counter.fetch_add(1, Ordering::SeqCst);
                text_piece("a", &"x".repeat(1_000), i > 0)
            };
            let begin = async move {
                up.notified().await;
                text_piece("a", "", false)
            };
            futures_util::stream::once(begin).chain(futures_util::stream::iter(1..1_000).map(say)).boxed()
        });
        let limits = Limits { uncommitted_bytes: 100_000, ..quick() };
        let engine = house.start_with([agent as _], limits).await;
        let id = begin(&engine, "eager", say("go")).await.id;
        house.shelf().be(Mood::Refuses(model::ports::store::StoreError::Full));
        let refused = house.shelf().refused();
        curtain.notify_one();
        // After several retries the agent has still not been polled beyond the bounds: the batch in flight and the one
        // behind it.
        until(async || house.shelf().refused() > refused + 3).await;
        let ahead = asked.load(Ordering::SeqCst);
        assert!(ahead * 1_000 < 2 * (100_000 + 66_000) + 2_000, "{ahead} ahead");
        house.shelf().be(Mood::Fine);
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(task.state(), State::Completed);
        assert_eq!(artifacts(&task)[0].len(), 999 * 1_000);
    })
    .await;
}

#[tokio::test]
async fn a_fast_agent_shares_commits() {
    on_both_stores(async |mut house| {
        let agent = acting("fast", Manners::default(), |_| {
            futures_util::stream::iter(0..5_000).map(|i| text_piece("a", "x", i > 0)).boxed()
        });
        let engine = house.start([agent as _]).await;
        let task = task_of(engine.send(&at("fast"), say("go")).await);
        assert_eq!(artifacts(&task), ["x".repeat(5_000)]);
        assert!(house.shelf().commits() < 50, "{}", house.shelf().commits());
    })
    .await;
}

/// A chunk of text that may be joined with its neighbours.
fn seamless(key: &str, text: &str, append: bool, last: bool) -> AgentEvent {
    let parts = vec![Part::text(text)];
    AgentEvent::Artifact(ArtifactChunk {
        key: key.into(),
        parts,
        append,
        last,
        seamless: true,
        ..ArtifactChunk::default()
    })
}

#[tokio::test]
async fn text_whose_seams_nobody_needs_is_joined_while_it_waits_to_be_written() {
    on_both_stores(async |mut house| {
        let long = "x".repeat(3_000);
        let named = ArtifactChunk { name: Some("n".into()), seamless: true, append: true, ..ArtifactChunk::default() };
        let named = ArtifactChunk { key: "b".into(), parts: vec![Part::text("named")], ..named };
        let said = vec![
            seamless("a", "1", false, false),
            seamless("a", "2", true, false),
            seamless("a", "3", true, false),
            // Any other event separates chunks.
            AgentEvent::Metadata(Json::from_value(&serde_json::json!({"n": 1}))),
            seamless("a", "4", true, false),
            seamless("a", "5", true, true),
            seamless("b", "6", false, false),
            seamless("b", "7", false, false),
            AgentEvent::Artifact(named),
            seamless("b", &long, true, false),
            seamless("b", &long, true, false),
            text_piece("b", "8", true),
            text_piece("b", "9", true),
            ended(EndState::Completed, ""),
        ];
        let agent = acting("talker", Manners::default(), move |_| futures_util::stream::iter(said.clone()).boxed());
        let engine = house.start([agent as _]).await;
        let task = task_of(engine.send(&at("talker"), say("go")).await);
        let chunk = |body: &Body| match body {
            Body::Artifact(chunk) => {
                let text: String = chunk.artifact.parts.iter().filter_map(Part::as_text).collect();
                let text = if text.len() > 9 { format!("{} bytes", text.len()) } else { text };
                Some((chunk.artifact.id.to_string(), text, chunk.append, chunk.last))
            }
            Body::Metadata(_) => Some(("metadata".into(), String::new(), false, false)),
            _ => None,
        };
        let chunks: Vec<_> = log(&engine, task.id).await.iter().filter_map(|event| chunk(&event.body)).collect();
        let expected = [
            ("a", "123", false, false),
            ("metadata", "", false, false),
            ("a", "45", true, true),
            ("b", "6", false, false),
            ("b", "7", false, false),
            ("b", "3005 bytes", true, false),
            ("b", "3000 bytes", true, false),
            ("b", "8", true, false),
            ("b", "9", true, false),
        ];
        let expected = expected.map(|(id, text, append, last)| (id.to_owned(), text.to_owned(), append, last));
        assert_eq!(chunks, expected);
    })
    .await;
}
