//! Both ends of a webhook: a receiver that counts, and the bare client loop that an outbox is compared with.
//!
//! ```text
//! hooks receive PORT                        answers 200 to POST /hook; GET /seen says how many came, and within which time
//! hooks post --url URL --n COUNT [--c 32] [--bytes B]   posts as fast as a plain reqwest loop does; prints its rate
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::State;
use axum::serve::ListenerExt;
use axum::{Json, Router, routing::get, routing::post};
use serde_json::{Value, json};

struct Seen {
    began: Instant,
    count: AtomicU64,
    first_us: AtomicU64,
    last_us: AtomicU64,
}

async fn take(State(seen): State<Arc<Seen>>, _body: axum::body::Bytes) {
    let now = seen.began.elapsed().as_micros() as u64;
    seen.first_us.fetch_min(now, Ordering::Relaxed);
    seen.last_us.fetch_max(now, Ordering::Relaxed);
    seen.count.fetch_add(1, Ordering::Relaxed);
}

/// How many came since the last look, and in how many seconds.
async fn look(State(seen): State<Arc<Seen>>) -> Json<Value> {
    let (first, last) = (seen.first_us.load(Ordering::Relaxed), seen.last_us.load(Ordering::Relaxed));
    let seconds = last.saturating_sub(first) as f64 / 1e6;
    Json(json!({ "count": seen.count.load(Ordering::Relaxed), "seconds": seconds }))
}

async fn forget(State(seen): State<Arc<Seen>>) {
    seen.count.store(0, Ordering::Relaxed);
    seen.first_us.store(u64::MAX, Ordering::Relaxed);
    seen.last_us.store(0, Ordering::Relaxed);
}

async fn receive(port: u16) -> std::io::Result<()> {
    let seen = Arc::new(Seen {
        began: Instant::now(),
        count: AtomicU64::new(0),
        first_us: AtomicU64::new(u64::MAX),
        last_us: AtomicU64::new(0),
    });
    let routes = Router::new().route("/hook", post(take)).route("/seen", get(look)).route("/forget", post(forget));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener.tap_io(|stream| drop(stream.set_nodelay(true))), routes.with_state(seen)).await
}

async fn posts(url: String, count: u64, connections: u64, bytes: usize) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let body = axum::body::Bytes::from(vec![b' '; bytes]);
    let (left, failed) = (Arc::new(AtomicU64::new(count)), Arc::new(AtomicU64::new(0)));
    let began = Instant::now();
    let workers = (0..connections).map(|_| {
        let (client, url, body, left, failed) =
            (client.clone(), url.clone(), body.clone(), left.clone(), failed.clone());
        tokio::spawn(async move {
            let more = |n: u64| n.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok() {
                let request = client.post(&url).header("content-type", "application/json").body(body.clone());
                if !request.send().await.is_ok_and(|answer| answer.status().is_success()) {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        let _ = worker.await;
    }
    let seconds = began.elapsed().as_secs_f64();
    json!({ "rps": count as f64 / seconds, "seconds": seconds, "failed": failed.load(Ordering::Relaxed) })
}

fn flag(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let number = |name: &str, otherwise: u64| flag(name).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    match std::env::args().nth(1).as_deref() {
        Some("receive") => receive(std::env::args().nth(2).and_then(|port| port.parse().ok()).expect("a port")).await,
        Some("post") => {
            let url = flag("--url").expect("--url URL");
            println!("{}", posts(url, number("--n", 10_000), number("--c", 32), number("--bytes", 600) as usize).await);
            Ok(())
        }
        other => panic!("no mode {other:?}: receive or post"),
    }
}
