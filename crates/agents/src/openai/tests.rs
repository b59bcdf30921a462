//! Tests against a model server that the test itself plays.

use std::time::{Duration, Instant};

use model::{Artifact, Json, Message};
use serde_json::{Value, json};

use super::*;
use crate::fake_server::{FakeRequest, FakeServer};
use crate::scripted::stage::{brief, inbound};
use crate::testing::{Running, agent, earlier, refused, run, text, turn};

async fn model_at(desk: &FakeServer, more: Value) -> Arc<dyn agent::Agent> {
    let mut config = json!({"kind": "openai", "base_url": desk.url("/v1/"), "model": "small", "retry_ms": 1});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    agent(config).await
}

/// Runs a turn whose request the test answers.
async fn answered<T: Future<Output = ()>>(more: Value, answer: impl FnOnce(FakeRequest) -> T) -> Vec<String> {
    let desk = FakeServer::open().await;
    let agent = model_at(&desk, more).await;
    let (said, ()) = tokio::join!(run(&*agent, turn(text("hello"))), async { answer(desk.asked().await).await });
    brief(&said)
}

/// The request for a turn.
async fn asked(more: Value, turn: Turn) -> (Value, std::collections::BTreeMap<String, String>) {
    let desk = FakeServer::open().await;
    let agent = model_at(&desk, more).await;
    let (_, asked) = tokio::join!(run(&*agent, turn), async {
        let asked = desk.asked().await;
        assert_eq!(asked.path, "/v1/chat/completions");
        let seen = (asked.json(), asked.headers.clone());
        asked.json_answer(r#"{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}"#).await;
        seen
    });
    asked
}

fn delta(text: &str) -> String {
    format!(
        "data: {}\n\n",
        json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}], "usage": null})
    )
}

fn finish(reason: &str) -> String {
    format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
}

const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,\"total_tokens\":11,\
                     \"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[tokio::test]
async fn an_answer_comes_word_by_word_with_what_it_cost() {
    let desk = FakeServer::open().await;
    let agent = model_at(&desk, json!({})).await;
    let mut running = Running::start(&*agent, turn(text("hello")));
    assert_eq!(brief(&[running.next().await]), ["working"]);
    let (first, mut asked) = tokio::join!(running.next(), async {
        let mut asked = desk.asked().await;
        asked.begin("text/event-stream").await;
        asked.chunk("data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n").await;
        asked.chunk(&delta("Hel")).await;
        asked
    });
    assert_eq!(brief(&[first]), ["response=… Hel"]);
    asked.chunk(&delta("lo")).await;
    assert_eq!(brief(&[running.next().await]), ["response+… lo"]);
    asked.chunk(&[delta(" €"), finish("stop"), USAGE.into(), DONE.into()].concat()).await;
    assert_eq!(
        brief(&[running.next().await, running.next().await, running.next().await]),
        ["response+  €", r#"metadata {"usage":{"input_tokens":9,"output_tokens":2,"total_tokens":11}}"#, "Completed"]
    );
}

#[tokio::test]
async fn words_that_are_ready_together_travel_together() {
    let said = answered(json!({}), |mut asked| async move {
        asked.begin("text/event-stream").await;
        let words = ["a", "b", "c", "d"].map(delta).concat();
        asked.chunk(&[&words, &finish("stop"), DONE].concat()).await;
        asked.end().await;
    });
    let said = said.await;
    let text: String = said.iter().filter_map(|said| said.strip_prefix("response")?.split(' ').nth(1)).collect();
    assert_eq!((text.as_str(), said.len() < 6), ("abcd", true), "{said:?}");
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_fine_too() {
    let body = json!({
        "choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    });
    let said = answered(json!({}), |asked| async move { asked.json_answer(&body.to_string()).await });
    let usage = r#"metadata {"usage":{"input_tokens":1,"output_tokens":2,"total_tokens":3}}"#;
    assert_eq!(said.await, ["working", "response= Hello", usage, "Completed"]);
}

#[tokio::test]
async fn how_it_finished_decides_how_the_turn_ends() {
    for (reason, end) in [
        ("stop", &["Completed"][..]),
        ("length", &[r#"metadata {"finish_reason":"length","truncated":true}"#, "Completed"]),
        ("content_filter", &["Failed the model's content filter stopped the answer"]),
        ("tool_calls", &["Failed the model wants to call a tool, and this agent has none"]),
    ] {
        let said = answered(json!({}), |mut asked| async move {
            asked.begin("text/event-stream").await;
            asked.chunk(&[delta("a"), finish(reason), DONE.into()].concat()).await;
            asked.end().await;
        });
        let said = said.await;
        assert_eq!(
            (said[1].as_str(), &said[2..]),
            ("response= a", &end.iter().map(|e| (*e).to_owned()).collect::<Vec<_>>()[..])
        );
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_fails_and_keeps_what_was_said() {
    // The connection breaks.
    let said = answered(json!({}), |mut asked| async move {
        asked.begin("text/event-stream").await;
        asked.chunk(&delta("half")).await;
    });
    assert_eq!(said.await[1..], ["response= half", "Failed the model broke off its answer"]);
    // The stream ends without a finish reason.
    let said = answered(json!({}), |mut asked| async move {
        asked.begin("text/event-stream").await;
        asked.chunk(&delta("half")).await;
        asked.end().await;
    });
    assert_eq!(said.await[1..], ["response= half", "Failed the model broke off its answer"]);
    // The stream carries an error.
    let said = answered(json!({}), |mut asked| async move {
        asked.begin("text/event-stream").await;
        asked.chunk(&[&delta("half"), "data: {\"error\":{\"message\":\"out of memory\"}}\n\n"].concat()).await;
        asked.gone().await;
    });
    assert_eq!(said.await[1..], ["response= half", "Failed the model failed: out of memory"]);
}

#[tokio::test]
async fn a_server_that_leaves_done_out_has_still_finished() {
    let said = answered(json!({}), |mut asked| async move {
        asked.begin("text/event-stream").await;
        asked.chunk(&[delta("a"), finish("stop")].concat()).await;
        asked.end().await;
    });
    assert_eq!(said.await[1..], ["response= a", "Completed"]);
}

#[tokio::test]
async fn before_its_first_word_a_model_is_asked_again() {
    let desk = FakeServer::open().await;
    let agent = model_at(&desk, json!({"retries": 4})).await;
    let (said, waited) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        desk.asked().await.answer("500 Oops", "", "text/plain", "").await;
        desk.asked().await.answer("503 Busy", "", "text/plain", "").await;
        drop(desk.asked().await);
        desk.asked().await.answer("429 Slow", "retry-after: 1\r\n", "text/plain", "").await;
        let began = Instant::now();
        let mut asked = desk.asked().await;
        let waited = began.elapsed();
        asked.begin("text/event-stream").await;
        asked.chunk(&[delta("a"), finish("stop"), DONE.into()].concat()).await;
        asked.end().await;
        waited
    });
    let waits = "working the model answered 429 Too Many Requests; trying again in 1.0 s";
    assert_eq!(brief(&said), ["working", waits, "response= a", "Completed"]);
    assert!(waited > Duration::from_millis(900), "{waited:?}");
}

#[tokio::test]
async fn a_refusal_is_told_in_its_own_words_but_nothing_about_keys() {
    let wrong = r#"{"error":{"message":"The model `small` does not exist","type":"invalid_request_error"}}"#;
    let said = answered(json!({}), |asked| asked.answer("404 Not Found", "", "application/json", wrong)).await;
    assert_eq!(said[1], "Failed the model answered 404 Not Found: The model `small` does not exist");
    let wrong = r#"{"error":{"message":"Incorrect API key provided: sk-ab***yz"}}"#;
    let said = answered(json!({}), |asked| asked.answer("401 Unauthorized", "", "application/json", wrong)).await;
    assert_eq!(said[1], "Failed the model answered 401 Unauthorized; check the agent's credentials");
    let desk = FakeServer::open().await;
    let agent = model_at(&desk, json!({"retries": 1})).await;
    let (said, ()) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        for _ in 0..2 {
            desk.asked().await.answer("429 Slow", "", "application/json", r#"{"error":"rate limit"}"#).await;
        }
    });
    assert_eq!(brief(&said)[1], "Failed the model answered 429 Too Many Requests: rate limit");
    let said = answered(json!({}), |asked| asked.json_answer("<html>")).await;
    assert_eq!(said[1], "Failed the model said what is no completion: <html>");
}

#[tokio::test]
async fn the_request_says_what_the_config_says() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "sk-1\n").unwrap();
    let more = json!({
        "api_key": format!("file:{}", file.path().display()), "system": "be brief", "temperature": 0.5, "max_tokens": 9,
        "extra": {"top_p": 0.1, "stream_options": null}, "headers": {"x-title": "t"},
    });
    let (body, headers) = asked(more, turn(text("hello"))).await;
    assert_eq!((headers["authorization"].as_str(), headers["x-title"].as_str()), ("Bearer sk-1", "t"));
    assert_eq!(
        body,
        json!({
            "model": "small", "stream": true, "temperature": 0.5, "max_tokens": 9, "top_p": 0.1,
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hello"}],
        })
    );
    let (body, headers) = asked(json!({}), turn(text("hello"))).await;
    assert_eq!(body["stream_options"], json!({"include_usage": true}));
    assert!(!headers.contains_key("authorization"));
}

/// A later turn of a task, in a context with earlier messages.
fn later_turn() -> Turn {
    let mut turn = turn(text("and now?"));
    turn.earlier = earlier(&[(model::Role::User, "one"), (model::Role::Agent, "two")]);
    let mut task = Task::clone(&turn.so_far);
    let first = Arc::new(Message::clone(&inbound("m0", text("three")).message));
    task.history.insert(0, first);
    task.artifacts.push(Arc::new(Artifact {
        id: "response".into(),
        name: None,
        description: None,
        parts: vec![Part::text("fo"), Part::text("ur")],
        metadata: None,
        extensions: vec![],
    }));
    task.core.turns = 2;
    turn.so_far = Arc::new(task);
    turn
}

#[tokio::test]
async fn the_conversation_is_told_oldest_first() {
    let told = |body: Value| -> Vec<String> {
        let messages = body["messages"].as_array().unwrap().clone();
        messages.iter().map(|m| format!("{} {}", m["role"].as_str().unwrap(), m["content"].as_str().unwrap())).collect()
    };
    let (body, _) = asked(json!({}), later_turn()).await;
    assert_eq!(told(body), ["user one", "assistant two", "user three", "assistant four", "user and now?"]);
    let (body, _) = asked(json!({"history_messages": 2}), later_turn()).await;
    assert_eq!(told(body)[..2], ["assistant two", "user three"]);
    let (body, _) = asked(json!({"history_bytes": 70}), later_turn()).await;
    assert_eq!(told(body)[..2], ["user three", "assistant four"]);
    let (body, _) = asked(json!({"history_messages": 0}), later_turn()).await;
    assert_eq!(told(body), ["user and now?"]);
}

#[tokio::test]
async fn another_attempt_is_not_told_what_the_first_had_said() {
    let mut turn = later_turn();
    let mut task = Task::clone(&turn.so_far);
    task.core.turns = 1;
    turn.so_far = Arc::new(task);
    turn.attempt = 2;
    let (body, _) = asked(json!({}), turn).await;
    assert!(!body.to_string().contains("four"), "{body}");
}

#[tokio::test]
async fn parts_are_told_in_the_ways_a_model_understands() {
    let file = |content, media_type: &str| Part {
        media_type: Some(media_type.into()),
        filename: Some("f".into()),
        ..Part::new(content)
    };
    let raw = |bytes: &'static [u8]| model::Content::Raw(bytes.into());
    let parts = vec![
        Part::text("look"),
        Part::data(Json::parse(r#"{"z":1.0}"#).unwrap()),
        file(raw(b"png"), "image/png"),
        file(model::Content::Url("https://x/y.png".into()), "IMAGE/png"),
        file(raw(b"pdf"), "application/pdf"),
        file(model::Content::Url("https://x/y.pdf".into()), "application/pdf"),
    ];
    let (body, _) = asked(json!({}), turn(parts.clone())).await;
    let content = &body["messages"][0]["content"];
    assert_eq!(
        *content,
        json!([
            {"type": "text", "text": "look"},
            {"type": "text", "text": "{\"z\":1.0}"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            {"type": "text", "text": "[a file f, application/pdf, 3 bytes, not shown]"},
            {"type": "text", "text": "[a file f, application/pdf, at https://x/y.pdf]"},
        ])
    );
    let (body, _) = asked(json!({"files": "send"}), turn(parts.clone())).await;
    assert_eq!(
        body["messages"][0]["content"][4],
        json!({"type": "file", "file": {"filename": "f", "file_data": "data:application/pdf;base64,cGRm"}})
    );
    // Text alone is sent as a plain string.
    let (body, _) = asked(json!({}), turn(parts[..2].to_vec())).await;
    assert_eq!(body["messages"][0]["content"], "look\n{\"z\":1.0}");
}

#[tokio::test]
async fn a_cancel_closes_the_stream() {
    let desk = FakeServer::open().await;
    let agent = model_at(&desk, json!({})).await;
    let mut running = Running::start(&*agent, turn(text("hello")));
    running.next().await;
    let (_, mut asked) = tokio::join!(running.next(), async {
        let mut asked = desk.asked().await;
        asked.begin("text/event-stream").await;
        asked.chunk(&delta("a")).await;
        asked
    });
    let (said, ()) = tokio::join!(running.cancelled(), asked.gone());
    assert_eq!(brief(&said), ["Canceled"]);
}

#[tokio::test]
async fn a_refusal_of_the_model_is_its_answer() {
    let said = answered(json!({}), |mut asked| async move {
        asked.begin("text/event-stream").await;
        let refusal = "data: {\"choices\":[{\"delta\":{\"refusal\":\"I would rather not\"}}]}\n\n";
        asked.chunk(&[refusal, &finish("stop"), DONE].concat()).await;
        asked.end().await;
    });
    assert_eq!(said.await[1..], ["response= I would rather not", "Completed"]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let with = |more: Value| {
        let mut config = json!({"kind": "openai", "base_url": "http://x/v1", "model": "m"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        config
    };
    for (config, says) in [
        (json!({"kind": "openai", "model": "m"}), "missing field `base_url`"),
        (with(json!({"base_url": "x"})), "base_url: \"x\" is no address"),
        (with(json!({"base_url": "http://x/v1/chat/completions/"})), "leave /chat/completions out"),
        (with(json!({"model": " "})), "model: name one"),
        (with(json!({"temperature": 3})), "temperature: "),
        (with(json!({"api_key": "sk-123"})), "api_key: secrets do not belong into the config"),
        (with(json!({"api_key": "env:RIALTO_NOT_SET"})), "api_key: set the environment variable RIALTO_NOT_SET"),
        (with(json!({"modle": "m"})), "unknown field `modle`, expected one of "),
    ] {
        let error = refused(config.clone());
        assert!(error.contains(says), "{config}: {error}");
    }
}
