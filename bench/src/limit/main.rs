//! The limit: what axum does with the same requests and answers of the same size when there is nothing behind them. It
//! parses the request's JSON and answers; there is no task, no store and no agent.
//!
//! `limit PORT` answers `POST /`: `SendMessage` and `GetTask` with a task, `SendStreamingMessage` with its four events.
//! The texts `chunks:N` and `hang` stream N chunks and stay silent, for comparison.

use std::convert::Infallible;

use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::serve::ListenerExt;
use axum::{Json, Router, routing::post};
use futures_util::stream::{self, StreamExt};
use serde_json::{Value, json};

const TASK: &str = "01a1e178-3659-721b-8648-36a78c500318";
const CONTEXT: &str = "01a1e178-3659-721b-8648-36a87fef73a6";
const WHEN: &str = "2026-11-15T23:08:34.265Z";

fn status(state: &str) -> Value {
    json!({"state": state, "timestamp": WHEN})
}

fn history(request: &Value) -> Value {
    let mut message = match &request["params"]["message"] {
        Value::Null => json!({"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "hello world"}]}),
        message => message.clone(),
    };
    message["contextId"] = CONTEXT.into();
    message["taskId"] = TASK.into();
    json!([message])
}

fn settled(request: &Value, text: &str) -> Value {
    json!({
        "id": TASK,
        "contextId": CONTEXT,
        "status": status("TASK_STATE_COMPLETED"),
        "artifacts": [{"artifactId": "echo", "parts": [{"text": text}]}],
        "history": history(request),
    })
}

fn submitted(request: &Value) -> Value {
    let status = status("TASK_STATE_SUBMITTED");
    json!({"task": {"id": TASK, "contextId": CONTEXT, "status": status, "history": history(request)}})
}

fn turned(state: &str) -> Value {
    json!({"statusUpdate": {"taskId": TASK, "contextId": CONTEXT, "status": status(state)}})
}

fn chunk(text: &str, index: usize, count: usize) -> Value {
    json!({"artifactUpdate": {
        "taskId": TASK,
        "contextId": CONTEXT,
        "artifact": {"artifactId": "echo", "parts": [{"text": text}]},
        "append": index > 0,
        "lastChunk": index + 1 == count,
    }})
}

fn reply(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Every event is made when the connection asks for it, as a server without a store would.
fn events(request: Value, text: String) -> Response {
    let chunks = text.strip_prefix("chunks:").and_then(|count| count.parse::<usize>().ok());
    let silent = text == "hang";
    let count = if silent { 0 } else { chunks.unwrap_or(1) };
    let last = if silent { 0 } else { 1 };
    let made = stream::iter(0..2 + count + last).map(move |index| {
        let result = match index {
            0 => submitted(&request),
            1 => turned("TASK_STATE_WORKING"),
            index if index < 2 + count && chunks.is_some() => {
                chunk(&format!("chunk {} lorem ipsum ", index - 2), index - 2, count)
            }
            index if index < 2 + count => chunk(&text, 0, 1),
            _ => turned("TASK_STATE_COMPLETED"),
        };
        let event = Event::default().id(format!("{TASK}.{index}"));
        Ok::<_, Infallible>(event.data(reply(&request["id"], result).to_string()))
    });
    if silent { Sse::new(made.chain(stream::pending())).into_response() } else { Sse::new(made).into_response() }
}

async fn answer(Json(request): Json<Value>) -> Response {
    let text = request["params"]["message"]["parts"][0]["text"].as_str().unwrap_or("hello world");
    match request["method"].as_str() {
        Some("GetTask") => Json(reply(&request["id"], settled(&request, text))).into_response(),
        Some("SendStreamingMessage") => {
            let text = text.to_owned();
            events(request, text)
        }
        _ => Json(reply(&request["id"], json!({"task": settled(&request, text)}))).into_response(),
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(7100);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, Router::new().route("/", post(answer))).await
}
