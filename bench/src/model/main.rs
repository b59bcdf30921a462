//! A model behind OpenAI's interface that says one token every 20 ms, each with the time at which it was sent.
//!
//! `model PORT` answers `POST /v1/chat/completions`. The last message says how many tokens; the text `tokens:N` stands for N.
//! A token is `@` and the microseconds since 1970, in 16 digits, and a blank.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use axum::{Json, Router, routing::post};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

const PACE: Duration = Duration::from_millis(20);
/// Streams do not speak in step: each begins at another part of the 20 ms.
static BEGUN: AtomicU64 = AtomicU64::new(0);

fn chunk(delta: Value, finish: Option<&str>) -> Event {
    Event::default().data(
        json!({
            "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_763_240_914, "model": "bench",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        })
        .to_string(),
    )
}

/// The number in the last message: as a string, or as parts.
fn wanted(request: &Value) -> u64 {
    let last = request["messages"].as_array().and_then(|all| all.last()).map(|last| last["content"].to_string());
    let digits = last.unwrap_or_default();
    let digits = digits.split("tokens:").nth(1).unwrap_or_default();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().unwrap_or(100)
}

async fn complete(Json(request): Json<Value>) -> Response {
    let count = wanted(&request);
    let phase = Duration::from_micros(BEGUN.fetch_add(1, Ordering::Relaxed) * 7_919 % 20_000);
    let began = Instant::now() + phase;
    let said = stream::unfold(0, move |index| async move {
        if index > count + 1 {
            return None;
        }
        if index < count {
            sleep_until(began + PACE * index as u32).await;
        }
        let event = if index < count {
            let micros = UNIX_EPOCH.elapsed().map_or(0, |since| since.as_micros());
            chunk(json!({"content": format!("@{micros:016} ")}), None)
        } else if index == count {
            chunk(json!({}), Some("stop"))
        } else {
            Event::default().data("[DONE]")
        };
        Some((Ok::<_, Infallible>(event), index + 1))
    });
    Sse::new(said).into_response()
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(7200);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, Router::new().route("/v1/chat/completions", post(complete))).await
}
