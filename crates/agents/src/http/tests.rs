//! Tests against real HTTP endpoints.

use std::time::Instant;

use model::ports::agent::ArtifactChunk;
use serde_json::{Value, json};

use super::*;
use crate::fake_server::{FakeRequest, FakeServer};
use crate::scripted::stage::{brief, every_kind_of_part};
use crate::testing::{Running, agent, earlier, refused, run, text, turn};

async fn endpoint(desk: &FakeServer, more: Value) -> Arc<dyn agent::Agent> {
    let mut config = json!({"kind": "http", "url": desk.url("/turns"), "retry_ms": 1});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    agent(config).await
}

/// Runs a turn whose request the test answers.
async fn answered<T: Future<Output = ()>>(more: Value, answer: impl FnOnce(FakeRequest) -> T) -> Vec<String> {
    let desk = FakeServer::open().await;
    let agent = endpoint(&desk, more).await;
    let (said, ()) = tokio::join!(run(&*agent, turn(text("hello"))), async { answer(desk.asked().await).await });
    brief(&said)
}

async fn json_answered(body: &str) -> Vec<String> {
    answered(json!({}), |asked| async move { asked.json_answer(body).await }).await
}

#[tokio::test]
async fn one_object_is_the_whole_answer() {
    assert_eq!(json_answered(r#"{"text":"hi"}"#).await, ["working", "response= hi", "Completed"]);
    assert_eq!(json_answered(r#"{"parts":[{"text":"a"},{"data":[1.0]}]}"#).await[1], "response= a|[1.0]");
    assert_eq!(json_answered(r#"{"input_required":"which?"}"#).await[1..], ["InputRequired which?"]);
    assert_eq!(
        json_answered("[{\"artifact\":{\"name\":\"a\",\"text\":\"x\"}},\n{\"completed\":\"done\"}]").await[1..],
        ["a= x", "Completed done"]
    );
    assert_eq!(json_answered("").await[1..], ["Completed"]);
    let said = answered(json!({}), |asked| asked.answer("200 OK", "", "text/plain; charset=utf-8", "plain")).await;
    assert_eq!(said[1..], ["response= plain", "Completed"]);
}

#[tokio::test]
async fn an_answer_that_cannot_be_understood_fails_with_what_is_wrong() {
    let said = json_answered(r#"{"answer":"hi"}"#).await;
    assert!(said[1].starts_with("Failed event 1 of the agent's endpoint: unknown event \"answer\""), "{said:?}");
    let said = json_answered("{").await;
    assert!(said[1].contains("not JSON"), "{said:?}");
    let said = answered(json!({}), |asked| asked.answer("200 OK", "", "text/html", "<html>")).await;
    assert!(said[1].contains("answered with text/html"), "{said:?}");
    let said = answered(json!({"max_output_bytes": 10}), |asked| asked.json_answer(r#"{"text":"too long"}"#)).await;
    assert!(said[1].contains("more than 10 bytes"), "{said:?}");
}

#[tokio::test]
async fn events_are_heard_as_they_come() {
    let desk = FakeServer::open().await;
    let agent = endpoint(&desk, json!({})).await;
    for (content_type, frame) in [
        ("text/event-stream", (|event: &str| format!(": hi\r\ndata: {event}\r\n\r\n")) as fn(&str) -> String),
        ("application/x-ndjson", |event| format!("{event}\n\n")),
    ] {
        let mut running = Running::start(&*agent, turn(text("hello")));
        assert_eq!(brief(&[running.next().await]), ["working"]);
        let (next, mut asked) = tokio::join!(running.next(), async {
            let mut asked = desk.asked().await;
            asked.begin(content_type).await;
            asked.chunk(&frame(r#"{"status":"working","text":"on it"}"#)).await;
            asked
        });
        assert_eq!(brief(&[next]), ["working on it"]);
        let (one, two) = (frame(r#"{"text":"a"}"#), frame(r#"{"text":"€"}"#));
        asked.chunk(&one).await;
        assert_eq!(brief(&[running.next().await]), ["response=… a"]);
        let (start, rest) = two.split_at(two.len() - 1);
        asked.chunk(start).await;
        asked.chunk(rest).await;
        assert_eq!(brief(&[running.next().await]), ["response+… €"]);
        asked.chunk(&frame(r#"{"completed":null}"#)).await;
        assert_eq!(brief(&[running.next().await]), ["Completed"]);
        // The turn is over, whether the endpoint closes the connection or not.
        drop(running);
        asked.gone().await;
    }
}

#[tokio::test]
async fn a_stream_may_say_that_it_is_done_in_the_way_of_models() {
    let said = answered(json!({}), |mut asked| async move {
        asked.begin("text/event-stream").await;
        asked.chunk("data: {\"text\":\"a\"}\n\ndata: [DONE]\n\n").await;
        asked.gone().await;
    });
    assert_eq!(said.await[1..], ["response= a", "Completed"]);
}

#[tokio::test]
async fn the_endpoint_is_told_the_turn() {
    let desk = FakeServer::open().await;
    let agent = endpoint(&desk, json!({"history": true, "headers": {"x-team": "blue"}})).await;
    let mut turn = turn(every_kind_of_part());
    turn.earlier = earlier(&[(model::Role::User, "before"), (model::Role::Agent, "indeed")]);
    let mut inbound = Inbound::clone(&turn.messages[0]);
    inbound.trace = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into());
    inbound.metadata = Some(model::Json::parse(r#"{"k":1}"#).unwrap());
    inbound.accepted_output = vec!["text/plain".into()];
    turn.messages = vec![Arc::new(inbound)];
    let id = turn.id.to_string();
    let (_, asked) = tokio::join!(run(&*agent, turn), async {
        let asked = desk.asked().await;
        let seen = (asked.path.clone(), asked.headers.clone(), asked.json());
        asked.json_answer("{\"completed\":null}").await;
        seen
    });
    let (path, headers, body) = asked;
    assert_eq!(path, "/turns");
    assert_eq!((&headers["x-rialto-turn"], &headers["idempotency-key"]), (&id, &id));
    assert_eq!(headers["traceparent"], "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_eq!((headers["x-team"].as_str(), headers["content-type"].as_str()), ("blue", "application/json"));
    assert!(headers["accept"].contains("text/event-stream") && !headers.contains_key("webhook-signature"));
    assert_eq!((&body["turn"], &body["attempt"]), (&json!(id), &json!(1)));
    assert_eq!((&body["tenant"], &body["caller"], &body["context"]), (&json!("acme"), &json!("ada"), &json!("c")));
    assert_eq!(body["message"]["role"], "user");
    assert_eq!(body["message"]["parts"][1]["file"], json!({"bytes": "AP+A", "name": "f", "media_type": "x/y"}));
    assert_eq!(body["message"]["parts"][2]["file"]["url"], "https://example.com/f");
    assert_eq!((&body["metadata"], &body["accepted_output"]), (&json!({"k": 1}), &json!(["text/plain"])));
    assert_eq!(body["earlier"][1], json!({"id": "e1", "role": "agent", "parts": [{"text": "indeed"}]}));
}

#[tokio::test]
async fn a_request_is_signed_and_carries_its_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let secret = |name: &str, value: &str| {
        std::fs::write(folder.path().join(name), value).unwrap();
        format!("file:{}", folder.path().join(name).display())
    };
    let more = json!({
        "secret": secret("s", "whsec_c2VjcmV0"), "bearer": secret("b", "token"),
        "secret_headers": {"X-Api-Key": secret("k", "key")},
    });
    let said = answered(more, |asked| async move {
        let headers = &asked.headers;
        assert_eq!((headers["authorization"].as_str(), headers["x-api-key"].as_str()), ("Bearer token", "key"));
        let signed = format!("{}.{}.{}", headers["webhook-id"], headers["webhook-timestamp"], asked.body);
        assert_eq!(headers["webhook-signature"], format!("v1,{}", hmac_of(b"secret", &signed)));
        assert_eq!(headers["webhook-id"], headers["x-rialto-turn"]);
        asked.json_answer("{\"completed\":null}").await;
    });
    assert_eq!(said.await[1..], ["Completed"]);
}

/// The signature as a receiver computes it.
fn hmac_of(key: &[u8], text: &str) -> String {
    use base64::Engine as _;
    use hmac::{KeyInit as _, Mac as _};
    let mut mac = hmac::Hmac::<sha2::Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(mac.finalize().into_bytes())
}

#[tokio::test]
async fn a_busy_endpoint_is_asked_again_under_the_same_id() {
    let desk = FakeServer::open().await;
    let agent = endpoint(&desk, json!({"retries": 4})).await;
    let (said, ids) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        let mut ids = vec![];
        for status in ["503 Busy", "429 Slow", "502 Bad", "504 Late", "200 OK"] {
            let asked = desk.asked().await;
            ids.push(asked.headers["idempotency-key"].clone());
            asked.answer(status, "", "application/json", r#"{"text":"hi"}"#).await;
        }
        ids
    });
    assert_eq!(brief(&said), ["working", "response= hi", "Completed"]);
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn an_endpoint_that_says_when_is_not_asked_before() {
    let desk = FakeServer::open().await;
    let agent = endpoint(&desk, json!({})).await;
    let (said, waited) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        desk.asked().await.answer("503 Busy", "retry-after: 1\r\n", "text/plain", "").await;
        let began = Instant::now();
        desk.asked().await.json_answer("{\"completed\":null}").await;
        began.elapsed()
    });
    let waits = "working the agent's endpoint answered 503 Service Unavailable; trying again in 1.0 s";
    assert_eq!(brief(&said)[1..], [waits, "Completed"]);
    assert!(waited > Duration::from_millis(900), "{waited:?}");
    // An hour is longer than the longest pause.
    let busy = |asked: FakeRequest| asked.answer("429 Slow", "retry-after: 3600\r\n", "text/plain", "come back later");
    assert_eq!(
        answered(json!({}), busy).await[1],
        "Failed the agent's endpoint answered 429 Too Many Requests: come back later"
    );
}

#[tokio::test]
async fn retries_end_and_the_last_refusal_is_told() {
    let desk = FakeServer::open().await;
    let agent = endpoint(&desk, json!({"retries": 1})).await;
    let (said, ()) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        for _ in 0..2 {
            desk.asked().await.answer("503 Busy", "", "application/json", r#"{"error":{"message":"no room"}}"#).await;
        }
    });
    assert_eq!(brief(&said)[1], "Failed the agent's endpoint answered 503 Service Unavailable: no room");
}

#[tokio::test]
async fn a_refusal_is_final_and_its_words_are_bounded() {
    let long = "x".repeat(9_000);
    let said = answered(json!({}), |asked| asked.answer("400 Bad Request", "", "text/plain", &long)).await;
    assert!(said[1].starts_with("Failed the agent's endpoint answered 400 Bad Request: xxx"), "{said:?}");
    assert!(said[1].len() < 2_200);
    let moved =
        answered(json!({}), |asked| asked.answer("302 Found", "location: http://x/\r\n", "text/plain", "")).await;
    assert_eq!(moved[1], "Failed the agent's endpoint answered 302 Found");
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_reached_is_told_with_its_address_and_the_reason() {
    let desk = FakeServer::open().await;
    let agent = endpoint(&desk, json!({"retries": 2})).await;
    let at = desk.url("").trim_end_matches('/').to_owned();
    drop(desk);
    let expected = format!(
        "Failed the agent's endpoint could not be reached at {at}: the connection was refused; is it running there?"
    );
    assert_eq!(brief(&run(&*agent, turn(text("hello"))).await)[1], expected);
}

#[tokio::test]
async fn an_endpoint_that_dies_in_the_middle_is_asked_again_and_its_artifacts_begin_again() {
    let desk = FakeServer::open().await;
    let agent = endpoint(&desk, json!({})).await;
    let (said, ()) = tokio::join!(run(&*agent, turn(text("hello"))), async {
        let mut asked = desk.asked().await;
        asked.begin("application/x-ndjson").await;
        asked.chunk("{\"artifact\":{\"id\":\"a\",\"text\":\"one\",\"append\":true}}\n{\"status\":\"working\"}\n").await;
        drop(asked);
        let mut asked = desk.asked().await;
        asked.begin("application/x-ndjson").await;
        asked.chunk("{\"artifact\":{\"id\":\"a\",\"text\":\"one\",\"append\":true}}\n{\"completed\":null}\n").await;
        asked.end().await;
    });
    assert_eq!(brief(&said), ["working", "a+… one", "working", "a=… one", "Completed"]);
}

#[tokio::test]
async fn an_endpoint_that_dies_in_the_middle_fails_the_turn_if_it_may_not_be_repeated() {
    let said = answered(json!({"restart": "fail"}), |mut asked| async move {
        asked.begin("text/event-stream").await;
        asked.chunk("data: {\"text\":\"half\"}\n\n").await;
    });
    assert_eq!(said.await[1..], ["response= half", "Failed the agent's endpoint broke off its answer"]);
    // A stream that ends without a final event is a failure.
    let said = answered(json!({"restart": "fail"}), |mut asked| async move {
        asked.begin("text/event-stream").await;
        asked.chunk("data: {\"text\":\"half\"}\n\n").await;
        asked.end().await;
    });
    assert_eq!(said.await[2], "Failed the agent's endpoint stopped without saying how the turn ends");
    let said = answered(json!({"restart": "fail"}), |asked| async move { drop(asked) }).await;
    assert_eq!(said[1], "Failed the agent's endpoint did not answer");
}

#[tokio::test]
async fn an_endpoint_that_is_silent_for_too_long_has_died() {
    let said = answered(json!({"restart": "fail", "idle_timeout_ms": 100}), |mut asked| async move {
        asked.begin("text/event-stream").await;
        asked.gone().await;
    });
    assert_eq!(said.await[1], "Failed the agent's endpoint was silent for too long");
}

#[tokio::test]
async fn a_cancel_closes_the_request_and_calls_the_cancel_url() {
    let desk = FakeServer::open().await;
    let cancels = FakeServer::open().await;
    let agent = endpoint(&desk, json!({"cancel_url": cancels.url("/cancel")})).await;
    let mut running = Running::start(&*agent, turn(text("hello")));
    running.next().await;
    let (next, mut asked) = tokio::join!(running.next(), async {
        let mut asked = desk.asked().await;
        asked.begin("text/event-stream").await;
        asked.chunk("data: {\"status\":\"working\",\"text\":\"on it\"}\n\n").await;
        asked
    });
    assert_eq!(brief(&[next]), ["working on it"]);
    let (said, (), body) = tokio::join!(running.cancelled(), asked.gone(), async {
        let asked = cancels.asked().await;
        let body = asked.json();
        asked.json_answer("{}").await;
        body
    });
    assert_eq!(brief(&said), ["Canceled"]);
    assert_eq!((&body["turn"], &body["reason"]), (&json!(turn(vec![]).id.to_string()), &json!("canceled")));
}

#[tokio::test]
async fn a_cancel_url_that_nobody_answers_holds_nobody_up() {
    let desk = FakeServer::open().await;
    let cancels = FakeServer::open().await;
    let agent = endpoint(&desk, json!({"cancel_url": cancels.url("/cancel")})).await;
    let mut running = Running::start(&*agent, turn(text("hello")));
    running.next().await;
    let began = Instant::now();
    assert_eq!(brief(&running.cancelled().await), ["Canceled"]);
    assert!(began.elapsed() < CANCEL_TIME + Duration::from_secs(2));
}

#[tokio::test]
async fn a_dropped_turn_closes_the_request() {
    let desk = FakeServer::open().await;
    let agent = endpoint(&desk, json!({})).await;
    let mut running = Running::start(&*agent, turn(text("hello")));
    running.next().await;
    let mut asked = tokio::select! {
        asked = desk.asked() => asked,
        more = running.next() => panic!("{more:?}"),
    };
    drop(running);
    asked.gone().await;
}

#[tokio::test]
async fn a_direct_reply_is_offered_only_when_the_config_says_so() {
    let reply = |asked: FakeRequest| asked.json_answer(r#"{"message":"hi"}"#);
    assert_eq!(answered(json!({"direct_replies": true}), reply).await, ["reply hi"]);
    let desk = FakeServer::open().await;
    let message = crate::scripted::stage::inbound("m", text("x"));
    for (more, undecided) in [(json!({"direct_replies": true}), true), (json!({}), false)] {
        let admission = endpoint(&desk, more).await.admit(&message, None).unwrap();
        assert_eq!((admission.undecided, admission.restart), (undecided, Restart::Retry));
    }
}

#[tokio::test]
async fn opaque_json_passes_unchanged() {
    let desk = FakeServer::open().await;
    let agent = endpoint(&desk, json!({})).await;
    let (said, ()) = tokio::join!(run(&*agent, turn(every_kind_of_part())), async {
        let asked = desk.asked().await;
        let from = asked.body.find(r#""parts":"#).unwrap();
        let to = asked.body[from..].find("}],").or_else(|| asked.body[from..].find("}]}")).unwrap();
        let parts = format!("{{{}}}]}}", &asked.body[from..from + to]);
        asked.json_answer(&parts).await;
    });
    let AgentEvent::Artifact(ArtifactChunk { parts, .. }) = &said[1] else { panic!("{said:?}") };
    let contents = |parts: &[model::Part]| parts.iter().map(|part| part.content.clone()).collect::<Vec<_>>();
    assert_eq!(contents(parts), contents(&every_kind_of_part()));
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (config, says) in [
        (json!({}), "missing field `url`"),
        (json!({"url": "localhost:3000"}), "url: \"localhost:3000\" is no address; write https://host/path"),
        (json!({"url": "http://x", "cancel_url": "/c"}), "cancel_url: "),
        (json!({"url": "http://x", "bearer": "abc"}), "bearer: secrets do not belong into the config"),
        (json!({"url": "http://x", "headers": {"a b": "c"}}), "is no header"),
        (json!({"url": "http://x", "retries": 1_001}), "retries: 1001 is out of range"),
        (json!({"url": "http://x", "uri": "c"}), "unknown field `uri`, expected one of "),
        (json!({"url": "http://x", "secret_headers": {"K": "env:RIALTO_NOT_SET"}}), "set the environment variable"),
    ] {
        let mut config = config;
        config["kind"] = json!("http");
        let error = refused(config.clone());
        assert!(error.contains(says), "{config}: {error}");
    }
}
