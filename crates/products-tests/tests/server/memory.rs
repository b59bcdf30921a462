//! Bounds of memory: bodies before their caller is known, all bodies together, connections.

use std::sync::Arc;

use assistants::AssistantsService;
use assistants::langgraph::LangGraphProfile;
use gateway::Settings;
use gateway::settings::ConnectionTimeouts;
use model::Kind;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::market::start_market;
use crate::{aly, orloj};
use testkit::{As, Running, assert_refused, key, saying, sends, settings, start, until};

const LARGE: usize = 1 << 20;
/// Larger than the body that is read without a credential.
const MORE_THAN_SMALL: usize = 20 << 10;

/// A raw answer.
struct Answered {
    status: u16,
    head: String,
    body: String,
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.head, self.body))
    }
}

/// Begins a request and sends only what is given of its body.
async fn begin(running: &Running, path: &str, headers: &str, length: &str, sent: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n{headers}{length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(sent).await.unwrap();
    stream
}

async fn answer(stream: &mut TcpStream) -> Answered {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if body.len() >= length.unwrap_or(0) {
                let status = head.split(' ').nth(1).unwrap().parse().unwrap();
                return Answered { status, body: body.to_owned(), head };
            }
        }
        let mut space = [0; 4_096];
        let count = stream.read(&mut space).await.unwrap();
        assert!(count > 0, "the connection ended within an answer: {text:?}");
        bytes.extend_from_slice(&space[..count]);
    }
}

/// Bodies that do not come have little time, so that a server that waits for one says so soon.
fn guarded() -> Settings {
    let timeouts = ConnectionTimeouts { body_ms: 3_000, ..ConnectionTimeouts::default() };
    Settings { auth_required: true, keys: vec![key("ann", "red")], timeouts, ..settings() }
}

/// Every address that reads a body before its front knows the caller.
async fn addresses() -> Vec<(&'static str, Running, String)> {
    let assistant = uuid::Uuid::from_u128(7);
    let langgraph = |profile| {
        let products = vec![Arc::new(AssistantsService::new(profile)) as _];
        Settings { products, agent_ids: vec![(assistant, "echo".into())], ..guarded() }
    };
    let market = || start_market(guarded(), market::service::MarketConfig::default(), |_| {});
    let systems = || {
        orloj::open(|settings, orloj| {
            (settings.auth_required, settings.timeouts) = (true, guarded().timeouts);
            orloj.systems.retain(|system| !system.public);
        })
    };
    let shops = || {
        aly::open(|settings, _| {
            (settings.auth_required, settings.timeouts) = (true, guarded().timeouts);
        })
    };
    vec![
        ("an agent", start(guarded()).await, "/a2a/echo".into()),
        ("the root", start(guarded()).await, "/".into()),
        (
            "langgraph, documented",
            start(langgraph(LangGraphProfile::Documented)).await,
            format!("/langgraph/a2a/{assistant}"),
        ),
        (
            "langgraph, current",
            start(langgraph(LangGraphProfile::Current)).await,
            format!("/langgraph/a2a/{assistant}"),
        ),
        ("no such assistant", start(langgraph(LangGraphProfile::Documented)).await, "/langgraph/a2a/none".into()),
        ("the market", market().await, "/uumit/a2a".into()),
        ("an address shared with the market", market().await, "/a2a".into()),
        ("a market's upload", market().await, "/api/v1/deliverables/upload".into()),
        ("systems", systems().await, "/orloj/a2a".into()),
        ("one system", systems().await, "/orloj/v1/agent-systems/guarded/a2a".into()),
        ("an address shared with systems", systems().await, "/a2a".into()),
        ("a store agent", shops().await, "/api/a2a".into()),
        ("a store agent's other address", shops().await, "/aly/api/a2a".into()),
    ]
}

#[tokio::test]
async fn the_body_of_a_stranger_is_not_waited_for() {
    let mut wrong = Vec::new();
    for (name, running, path) in addresses().await {
        for (shown, headers) in [("nothing", ""), ("a wrong key", "authorization: Bearer unknown\r\n")] {
            let announced = format!("content-length: {LARGE}");
            let mut stream = begin(&running, &path, headers, &announced, b"{").await;
            let by_length = answer(&mut stream).await;
            let chunk = [format!("{MORE_THAN_SMALL:x}\r\n").as_bytes(), &[b' '; MORE_THAN_SMALL], b"\r\n"].concat();
            let mut stream = begin(&running, &path, headers, "transfer-encoding: chunked", &chunk).await;
            let by_chunks = answer(&mut stream).await;
            for (how, answered) in [("length", by_length), ("chunks", by_chunks)] {
                // Some products say it in the envelope alone; all others say it in HTTP, too.
                let in_envelope = path.ends_with("/api/a2a") || path == "/uumit/a2a";
                let code = || answered.json()["error"]["code"].as_i64();
                if answered.status != 401 && !(in_envelope && code() == Some(-32000)) {
                    wrong.push(format!("{name}, {shown}, by {how}: {} {}", answered.head, answered.body));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_strangers_small_body_is_refused_under_its_id_and_a_large_one_under_none() {
    let running = start(guarded()).await;
    for (name, request) in sends(&running, "echo") {
        let body = assert_refused(name, Kind::Unauthenticated, 401, request.send().await.unwrap()).await;
        if name.ends_with("rpc") {
            assert_eq!(body["id"], 7, "{name}");
        }
    }
    let params = saying(&"x".repeat(LARGE));
    let large = running.rpc("echo", "SendMessage", &params).send().await.unwrap();
    assert!(large.headers()["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
    let body = assert_refused("1.0 rpc", Kind::Unauthenticated, 401, large).await;
    assert_eq!(body["id"], Value::Null);
    let known = running.rpc("echo", "SendMessage", &params).caller("ann").send().await.unwrap();
    assert_eq!(known.status(), 200);
    let task: Value = known.json().await.unwrap();
    assert_eq!(
        task["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED",
        "the body of a known caller is read whole"
    );
}

#[tokio::test]
async fn a_wrong_key_on_a_large_body_counts_as_one_on_a_small() {
    let mut settings = guarded();
    let burst = std::num::NonZeroU32::new(4).unwrap();
    settings.throttle.per_ip = Some(gateway::settings::RateLimit { per_minute: std::num::NonZeroU32::MIN, burst });
    let running = start(settings).await;
    let guess = async || {
        running.rpc("echo", "SendMessage", &saying(&"x".repeat(LARGE))).caller("eve").send().await.unwrap().status()
    };
    assert_eq!((guess().await, guess().await), (401.try_into().unwrap(), 401.try_into().unwrap()));
    assert_eq!(guess().await, 429, "a guess counts twice");
}

#[tokio::test]
async fn bodies_together_are_bounded_and_small_ones_always_have_room() {
    // The largest body always fits: the server has room for one of those, and no more.
    let running = start(Settings { bodies_bytes: 1 << 20, ..settings() }).await;
    let most = model::Limits::default().body_bytes;
    let whole = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": saying("hi") }).to_string();
    let whole = [vec![b' '; most - whole.len()], whole.into_bytes()].concat();
    let announced = format!("content-length: {most}");
    let (sent, rest) = whole.split_at(most - LARGE / 2);
    let mut first = begin(&running, "/a2a/echo", "a2a-version: 1.0\r\n", &announced, sent).await;
    let held = async || {
        let text = running.get("/metrics").send().await.unwrap().text().await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("a2a_bodies_bytes "));
        line.unwrap().parse::<usize>().unwrap()
    };
    until("most of it has arrived", async || held().await >= sent.len()).await;

    let padded = saying(&"x".repeat(LARGE));
    for path in ["/a2a/echo", "/"] {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": padded });
        let refused = running.post(path, &body).header("a2a-version", "1.0").send().await.unwrap();
        assert_eq!(refused.headers()["retry-after"], "2");
        assert_refused("1.0 rpc", Kind::Unavailable, 503, refused).await;
    }
    let older = json!({ "jsonrpc": "2.0", "id": 7, "method": "tasks/send", "params": { "id": "t", "message": {
        "role": "user", "parts": [{ "type": "text", "text": "x".repeat(LARGE) }] } } });
    let refused = running.post("/a2a/echo", &older).header("x-a2a-dialect", "a2a-0.1").send().await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (503, "2"));
    let rest_send = running.post("/a2a/echo/message:send", &padded).header("a2a-version", "1.0").send().await.unwrap();
    assert_refused("1.0 rest", Kind::Unavailable, 503, rest_send).await;
    for (name, small) in sends(&running, "echo") {
        assert_eq!(small.send().await.unwrap().status(), 200, "{name}");
    }

    first.write_all(rest).await.unwrap();
    assert_eq!(answer(&mut first).await.status, 200, "what was there first is read");
    until("nothing is held any more", async || held().await == 0).await;
    let again = running.rpc("echo", "SendMessage", &padded).send().await.unwrap();
    assert_eq!(again.status(), 200);
}

#[tokio::test]
async fn health_is_told_when_every_connection_is_taken() {
    for (name, settings) in [
        ("in all", Settings { connections: 2, ..settings() }),
        ("from one address", Settings { connections_per_address: 2, ..settings() }),
    ] {
        let running = start(settings).await;
        // The rest of the request comes later: a silent connection keeps its place.
        let taken =
            [TcpStream::connect(running.address).await.unwrap(), TcpStream::connect(running.address).await.unwrap()];
        let ask = async |request: String| {
            let mut stream = TcpStream::connect(running.address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let answered = answer(&mut stream).await;
            assert!(answered.head.contains("connection: close"), "{name}: {}", answered.head);
            assert_eq!(stream.read(&mut [0]).await.unwrap(), 0, "{name}: it is closed");
            answered
        };
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(ask(get("/healthz")).await.status, 200, "{name}");
        assert_eq!(ask(get("/readyz")).await.status, 200, "{name}");
        for path in ["/metrics", "/agents", "/.well-known/agent-card.json", "/a2a/echo/tasks", "/none"] {
            let refused = ask(get(path)).await;
            assert!(
                refused.status == 503 && refused.head.contains("retry-after: 2"),
                "{name}: {path} {}",
                refused.head
            );
        }
        let send = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": saying("hi") }).to_string();
        let post = format!(
            "POST /a2a/echo HTTP/1.1\r\nhost: a\r\na2a-version: 1.0\r\ncontent-length: {}\r\n\r\n{send}",
            send.len()
        );
        let refused = ask(post.clone()).await;
        assert_eq!((refused.status, refused.json()["error"]["code"].as_i64()), (503, Some(-32053)), "{name}");
        drop(taken);
        let served = async || {
            let mut stream = TcpStream::connect(running.address).await.unwrap();
            stream.write_all(post.as_bytes()).await.unwrap();
            answer(&mut stream).await.status == 200
        };
        until("there is room again", served).await;
    }
}
