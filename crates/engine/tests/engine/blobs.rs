//! Large parts are stored outside the log and read back complete.

use bytes::Bytes;
use model::ports::agent::EndState;
use model::{Blob, BlobKind, Body, Content, Json, Part, State};

use crate::common::{
    Adverbs, Puppet, at, begin, collect, echo, log, on_both_stores, piece, quick, say, send_parts, task_of, task_when,
};

fn small_blobs() -> model::Limits {
    model::Limits { blob_bytes: 1_000, ..quick() }
}

fn large_parts() -> Vec<Part> {
    vec![
        Part::text("ä".repeat(2_000)),
        Part { filename: Some("f.bin".into()), ..Part::new(Content::Raw(Bytes::from(vec![7; 5_000]))) },
        Part::data(Json::parse(&format!("{{\"z\":1.0,\"a\":\"{}\"}}", "x".repeat(1_500))).unwrap()),
        Part::text("small"),
    ]
}

fn blobs(parts: &[Part]) -> Vec<Blob> {
    parts
        .iter()
        .filter_map(|part| match part.content {
            Content::Blob(blob) => Some(blob),
            Content::Text(_) | Content::Raw(_) | Content::Url(_) | Content::Data(_) => None,
        })
        .collect()
}

#[tokio::test]
async fn large_parts_are_kept_beside_the_log_and_read_back_whole() {
    on_both_stores(async |mut house| {
        let engine = house.start_with([echo()], small_blobs()).await;
        let task = task_of(engine.send(&at("echo"), send_parts(large_parts())).await);
        assert_eq!(task.state(), State::Completed);
        let kept = blobs(&task.artifacts[0].parts);
        assert_eq!(kept, blobs(&task.history[0].parts));
        let kinds: Vec<BlobKind> = kept.iter().map(|blob| blob.kind).collect();
        assert_eq!(kinds, [BlobKind::Text, BlobKind::Raw, BlobKind::Object]);
        assert_eq!(task.artifacts[0].parts[1].filename.as_deref(), Some("f.bin"));
        assert_eq!(task.artifacts[0].parts[3], Part::text("small"));

        let tenant = "default".into();
        for (blob, part) in kept.iter().zip(large_parts()) {
            let bytes = engine.blob(&tenant, blob.hash).await.unwrap();
            assert_eq!(bytes.len() as u64, blob.len);
            let whole = match part.content {
                Content::Text(text) => Bytes::from(text),
                Content::Raw(bytes) => bytes,
                Content::Data(json) => Bytes::from(json.text().to_owned()),
                Content::Url(_) | Content::Blob(_) => panic!("{part:?}"),
            };
            assert_eq!(bytes, whole);
            assert!(engine.blob(&"another".into(), blob.hash).await.is_err(), "a tenant's own");
        }
        assert!(house.shelf().payload_most() < 4_000);
    })
    .await;
}

#[tokio::test]
async fn what_is_said_back_is_kept_once() {
    on_both_stores(async |mut house| {
        let engine = house.start_with([echo()], small_blobs()).await;
        let one = task_of(engine.send(&at("echo"), send_parts(large_parts())).await);
        let two = task_of(engine.send(&at("echo"), send_parts(large_parts())).await);
        assert_eq!(engine.health().await.unwrap().blobs, 3);
        engine.purge(one.id).await.unwrap();
        assert_eq!(engine.health().await.unwrap().blobs, 3);
        engine.purge(two.id).await.unwrap();
        assert_eq!(engine.health().await.unwrap().blobs, 0);
    })
    .await;
}

#[tokio::test]
async fn an_agent_reads_large_parts_whole_in_every_turn_and_after_a_restart() {
    on_both_stores(async |mut house| {
        let manners = crate::common::Manners {
            restart: model::ports::agent::Restart::Retry,
            ..crate::common::Manners::default()
        };
        let puppet = Puppet::with(manners);
        let engine = house.start_with([puppet.clone() as _], small_blobs()).await;
        let id = begin(&engine, "puppet", send_parts(large_parts())).await.id;
        let cue = puppet.turn().await;
        assert_eq!(cue.messages[0].message.parts, large_parts());
        assert_eq!(cue.so_far.history[0].parts, large_parts());
        cue.says(piece("a", large_parts(), false));
        cue.ends(EndState::InputRequired, &"why? ".repeat(1_000));
        task_when(&engine, id, |task| task.core.is_at_rest()).await;

        begin(&engine, "puppet", send_parts(large_parts()).to(id)).await;
        let cue = puppet.turn().await;
        assert_eq!(cue.messages[0].message.parts, large_parts());
        assert_eq!(cue.so_far.artifacts[0].parts, large_parts());
        assert_eq!(cue.so_far.history[1].text(), "why? ".repeat(1_000));
        house.kill().await;

        let engine = house.start_with([puppet.clone() as _], small_blobs()).await;
        let cue = puppet.turn().await;
        assert_eq!((cue.attempt, &cue.messages[0].message.parts), (2, &large_parts()));
        assert_eq!(cue.so_far.artifacts[0].parts, large_parts());
        cue.ends(EndState::Completed, "");
        task_when(&engine, id, |task| task.core.is_settled()).await;
    })
    .await;
}

#[tokio::test]
async fn subscribers_are_told_of_large_parts_by_reference() {
    on_both_stores(async |mut house| {
        let engine = house.start_with([echo()], small_blobs()).await;
        let items = collect(engine.stream(&at("echo"), send_parts(large_parts())).await.unwrap()).await;
        let engine::SubscriptionItem::Task(task) = &items[0] else { panic!("{items:?}") };
        assert_eq!(blobs(&task.history[0].parts).len(), 3);
        let engine::SubscriptionItem::Event { committed, .. } = &items[2] else { panic!("{items:?}") };
        let model::Body::Artifact(chunk) = &committed.event.body else { panic!("{committed:?}") };
        assert_eq!(blobs(&chunk.artifact.parts).len(), 3);
        assert_eq!(log(&engine, task.id).await[4].body, committed.event.body);
    })
    .await;
}

/// The parts of an artifact as readers see them: large texts in place of their references.
async fn read_parts(engine: &engine::Engine, parts: &[Part]) -> Vec<String> {
    let mut all = Vec::new();
    for part in parts {
        all.push(match &part.content {
            Content::Text(text) => text.clone(),
            Content::Blob(blob) => {
                let bytes = engine.blob(&"default".into(), blob.hash).await.unwrap();
                String::from_utf8(bytes.to_vec()).unwrap()
            }
            Content::Raw(_) | Content::Url(_) | Content::Data(_) => panic!("{part:?}"),
        });
    }
    all
}

#[tokio::test]
async fn large_chunks_of_a_text_are_one_text_and_a_huge_one_stands_alone() {
    let (small, large, huge) = (100, 5_000, 20_000);
    for (sizes, expected) in [
        (vec![large, large, large], vec![3 * large]),
        (vec![small, large, small], vec![2 * small + large]),
        (vec![large, small], vec![large + small]),
        (vec![small, huge, small, small], vec![small, huge, 2 * small]),
        (vec![huge, large], vec![huge, large]),
    ] {
        on_both_stores(async |mut house| {
            let puppet = Puppet::new();
            let engine = house.start_with([puppet.clone() as _], small_blobs()).await;
            let id = begin(&engine, "puppet", say("go")).await.id;
            let cue = puppet.turn().await;
            for (i, size) in sizes.iter().enumerate() {
                cue.says(piece("a", vec![Part::text("x".repeat(*size))], i > 0));
            }
            cue.ends(EndState::Completed, "");
            let task = task_when(&engine, id, |task| task.core.is_settled()).await;
            let lengths = async |engine: &engine::Engine, parts: &[Part]| {
                read_parts(engine, parts).await.iter().map(String::len).collect::<Vec<_>>()
            };
            assert_eq!(lengths(&engine, &task.artifacts[0].parts).await, expected, "{sizes:?}");
            // The log keeps every chunk, and the next process folds it to the same parts.
            let chunks = log(&engine, id).await.into_iter().filter(|event| matches!(event.body, Body::Artifact(_)));
            assert_eq!(chunks.count(), sizes.len());
            house.kill().await;
            let engine = house.start_with([puppet.clone() as _], small_blobs()).await;
            let again = engine.task(id).await.unwrap().unwrap();
            assert_eq!(again.artifacts, task.artifacts, "{sizes:?}");
        })
        .await;
    }
}

#[tokio::test]
async fn a_part_at_the_limit_stays_in_the_log() {
    on_both_stores(async |mut house| {
        let engine = house.start_with([echo()], small_blobs()).await;
        let task = task_of(engine.send(&at("echo"), send_parts(vec![Part::text("x".repeat(1_000))])).await);
        assert!(blobs(&task.artifacts[0].parts).is_empty());
        let task = task_of(engine.send(&at("echo"), send_parts(vec![Part::text("x".repeat(1_001))])).await);
        assert_eq!(blobs(&task.artifacts[0].parts).len(), 1);
        assert_eq!(engine.health().await.unwrap().blobs, 1);
    })
    .await;
}
