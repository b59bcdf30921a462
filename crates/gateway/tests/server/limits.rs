//! Streams and waiting calls at a time, calls a day, failed credentials.

use std::num::NonZeroU32;

use gateway::Settings;
use gateway::settings::RateLimit;
use serde_json::Value;

use testkit::{As, Running, key, saying, settings, start, until};

fn two_callers() -> Settings {
    Settings { keys: vec![key("ann", "red"), key("bob", "red")], ..settings() }
}

fn stream(running: &Running) -> reqwest::RequestBuilder {
    running.rpc("scripted", "SendStreamingMessage", &saying("hang"))
}

#[tokio::test]
async fn a_stream_keeps_its_seat_until_its_reader_goes_away() {
    let mut settings = two_callers();
    settings.throttle.streams_per_caller = Some(2);
    let running = start(settings).await;
    let mut first = stream(&running).caller("ann").send().await.unwrap();
    assert!(first.chunk().await.unwrap().is_some());
    let second = stream(&running).caller("ann").send().await.unwrap();
    assert_eq!(second.status(), 200);
    let third = stream(&running).caller("ann").send().await.unwrap();
    assert_eq!((third.status().as_u16(), third.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    assert_eq!(stream(&running).caller("bob").send().await.unwrap().status(), 200, "another has its own");
    drop(first);
    until("the seat is free", async || stream(&running).caller("ann").send().await.unwrap().status() == 200).await;
}

#[tokio::test]
async fn an_older_stream_is_refused_inside_a_stream_and_told_when_to_go_on() {
    let mut settings = two_callers();
    settings.throttle.streams_per_caller = Some(1);
    let running = start(settings).await;
    let _first = stream(&running).caller("ann").send().await.unwrap();
    let body = serde_json::json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": { "message": {
        "kind": "message", "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "hang" }] } } });
    let refused = running.post("/a2a/scripted", &body).caller("ann").send().await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "1");
    assert!(refused.text().await.unwrap().contains("-32049"));
}

#[tokio::test]
async fn a_waiting_call_keeps_its_seat_until_its_caller_goes_away() {
    let mut settings = two_callers();
    settings.throttle.waiting_per_caller = Some(1);
    let running = start(settings).await;
    let waiting = tokio::spawn(running.rpc("scripted", "SendMessage", &saying("hang")).caller("ann").send());
    until("it waits", async || running.metric("a2a_waiting_calls 1").await).await;
    let refused = running.rpc("echo", "SendMessage", &saying("hi")).caller("ann").send().await.unwrap();
    assert_eq!(refused.status(), 429);
    let mut at_once = saying("hang");
    at_once["configuration"]["returnImmediately"] = true.into();
    let answer = running.rpc("scripted", "SendMessage", &at_once).caller("ann").send().await.unwrap();
    assert_eq!(answer.status(), 200, "whoever does not wait needs no seat");
    waiting.abort();
    until("nobody waits", async || running.metric("a2a_waiting_calls 0").await).await;
    let answer = running.rpc("echo", "SendMessage", &saying("hi")).caller("ann").send().await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn the_calls_of_a_day_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let limited = || {
        let mut settings = two_callers();
        settings.throttle.daily_calls = Some(2);
        settings.throttle.quota_file = Some(folder.path().join("quota.json"));
        settings
    };
    let call = async |running: &Running, name: &str| {
        running.rpc("echo", "ListTasks", &Value::Object(Default::default())).caller(name).send().await.unwrap()
    };
    let running = start(limited()).await;
    for _ in 0..2 {
        assert_eq!(call(&running, "ann").await.status(), 200);
    }
    assert_eq!(call(&running, "ann").await.status(), 429);
    running.stop().await;
    let again = start(limited()).await;
    let over = call(&again, "ann").await;
    let wait: u64 = over.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!(over.status() == 429 && (1..=86_400).contains(&wait), "{wait}");
    assert_eq!(call(&again, "bob").await.status(), 200);
}

#[tokio::test]
async fn guessing_keys_uses_up_an_address() {
    let mut settings = two_callers();
    let burst = NonZeroU32::new(4).unwrap();
    settings.throttle.per_ip = Some(RateLimit { per_minute: NonZeroU32::MIN, burst });
    let running = start(settings).await;
    let guess = async || running.rpc("echo", "ListTasks", &serde_json::json!({})).caller("eve").send().await.unwrap();
    assert_eq!(guess().await.status(), 401);
    assert_eq!(guess().await.status(), 401);
    assert_eq!(guess().await.status(), 429, "a guess counts twice");
}

#[tokio::test]
async fn behind_a_proxy_the_caller_is_whom_the_proxy_names() {
    let mut settings = two_callers();
    settings.throttle.per_ip = Some(RateLimit { per_minute: NonZeroU32::MIN, burst: NonZeroU32::MIN });
    settings.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
    let running = start(settings).await;
    let from = async |address: &str| {
        let request = running.rpc("echo", "ListTasks", &serde_json::json!({}));
        request.header("x-forwarded-for", address).send().await.unwrap().status().as_u16()
    };
    assert_eq!((from("192.0.2.1").await, from("192.0.2.1").await), (200, 429));
    assert_eq!(from("203.0.113.9, 192.0.2.1").await, 429, "what the caller says itself is hearsay");
    assert_eq!(from("192.0.2.2").await, 200);
}
