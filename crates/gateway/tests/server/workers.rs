//! Workers and their queue, over HTTP.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use agents::AgentConfig;
use dialects::framing::sse::{Parser, SseFrame};
use engine::Engine;
use gateway::log::Sink;
use gateway::{CurrentGateway, GatewayVersion, Settings};
use model::Limits;
use model::ports::agent::Agent;
use serde_json::{Value, json};

use testkit::{Running, key, saying, start_agents};

async fn agent(more: Value) -> Arc<dyn Agent> {
    let mut config = json!({ "kind": "worker" });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let config = AgentConfig::read(config.as_object().unwrap().clone()).unwrap();
    agents::build("upper", config).await.unwrap()
}

async fn start(more: Value) -> Running {
    start_agents(Settings::test(&["upper"]), vec![agent(more).await], reqwest::Client::new()).await
}

async fn guarded(settings: Settings) -> Running {
    let file = secret_file();
    let agent = agent(json!({ "secret": format!("file:{}", file.path().display()) })).await;
    start_agents(settings, vec![agent], reqwest::Client::new()).await
}

fn secret_file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "s3cret-of-workers\n").unwrap();
    file
}

/// Sends a message to the agent; the result is the final task.
fn ask(running: &Running, text: &str) -> tokio::task::JoinHandle<Value> {
    let sending = running.rpc("upper", "SendMessage", &saying(text)).send();
    tokio::spawn(async move { sending.await.unwrap().json::<Value>().await.unwrap()["result"]["task"].take() })
}

async fn post(running: &Running, path: &str, body: Value) -> (u16, Value) {
    let answer = running.post(&format!("/workers/upper{path}"), &body).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap_or_default())
}

/// The status of a refusal, which must have a message.
async fn refused(running: &Running, path: &str, body: Value) -> u16 {
    let (status, body) = post(running, path, body).await;
    assert!(body["error"].is_string(), "{path}: {body}");
    status
}

#[tokio::test]
async fn a_worker_leases_reports_and_delivers() {
    let running = start(json!({})).await;
    let nothing = running.post("/workers/upper/lease", &json!({ "wait_ms": 0 })).send().await.unwrap();
    assert_eq!((nothing.status().as_u16(), nothing.text().await.unwrap()), (204, String::new()));
    let task = ask(&running, "hello");
    let (status, turn) = post(&running, "/lease", json!({ "worker": "w-1" })).await;
    assert_eq!(
        (status, &turn["message"]["parts"][0]["text"], &turn["lease_ms"]),
        (200, &json!("hello"), &json!(30_000))
    );
    let (at, lease) = (format!("/turns/{}", turn["turn"].as_str().unwrap()), &turn["lease"]);
    let goes_on = json!({ "cancelled": false, "over": false, "lease_ms": 30_000 });
    assert_eq!(post(&running, &format!("{at}/heartbeat"), json!({ "lease": lease })).await, (200, goes_on.clone()));
    let one = json!({ "lease": lease, "status": "working", "text": "on it" });
    assert_eq!(post(&running, &format!("{at}/events"), one).await, (200, goes_on.clone()));
    // A list has no member for a lease; the header has it.
    let list = running.post(&format!("/workers/upper{at}/events"), &json!([{ "text": "HEL" }, { "text": "LO" }]));
    let answer = list.header("x-lease", lease.as_str().unwrap()).send().await.unwrap();
    assert_eq!(answer.json::<Value>().await.unwrap(), goes_on);
    for _ in 0..2 {
        let last = json!({ "lease": lease, "id": "d-1", "completed": "done" });
        let (status, answer) = post(&running, &format!("{at}/deliver"), last).await;
        assert_eq!((status, &answer["over"]), (200, &json!(true)), "and again as the first time");
    }
    assert_eq!(refused(&running, &format!("{at}/deliver"), json!({ "lease": lease })).await, 410);
    let task = task.await.unwrap();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(task["artifacts"][0]["parts"], json!([{ "text": "HELLO" }]));
}

#[tokio::test]
async fn what_cannot_be_is_refused_in_words() {
    let running = start(json!({})).await;
    let task = ask(&running, "hello");
    let (_, turn) = post(&running, "/lease", json!({})).await;
    let (at, lease) = (format!("/turns/{}", turn["turn"].as_str().unwrap()), &turn["lease"]);
    let unknown = "/turns/0190f3c4-1111-7222-8333-000000000001/heartbeat";
    for (status, path, body) in [
        (404, "/", json!({})),
        (404, "/turns", json!({})),
        (404, &format!("{at}/sing"), json!({})),
        (404, unknown, json!({ "lease": lease })),
        (404, "/turns/x/heartbeat", json!({ "lease": lease })),
        (405, "/stream", json!({})),
        (409, &format!("{at}/heartbeat"), json!({ "lease": "guessed" })),
        (413, &format!("{at}/deliver"), json!({ "lease": lease, "text": "x".repeat(Limits::default().body_bytes) })),
        (422, &format!("{at}/heartbeat"), json!({})),
        (422, &format!("{at}/heartbeat"), json!({ "lease": 1 })),
        (422, &format!("{at}/events"), json!({ "lease": lease, "events": [{ "text": "a" }, { "colour": "red" }] })),
        (422, &format!("{at}/deliver"), json!({ "lease": lease, "text": 1 })),
        (422, "/lease", json!({ "wait_ms": "long" })),
        (422, "/lease", json!("now")),
    ] {
        assert_eq!(refused(&running, path, body).await, status, "{path}");
    }
    let broken = reqwest::Client::new().post(running.url("/workers/upper/lease")).body("{").send().await.unwrap();
    assert_eq!(broken.status(), 422);
    let elsewhere = running.post("/workers/nobody/lease", &json!({})).send().await.unwrap();
    assert_eq!(elsewhere.status(), 404);
    assert_eq!(running.get("/workers/upper/lease").send().await.unwrap().headers()["allow"], "POST");
    let (status, _) = post(&running, &format!("{at}/fail"), json!({ "lease": lease, "error": "no paper" })).await;
    assert_eq!(status, 200);
    let task = task.await.unwrap();
    assert_eq!(task["status"]["message"]["parts"][0]["text"], "no paper", "{task}");
}

#[tokio::test]
async fn a_stream_brings_turns_and_cancels() {
    let running = start(json!({})).await;
    let mut stream = running.get("/workers/upper/stream?worker=w&slots=1").send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut at_once = saying("hello");
    at_once["configuration"]["returnImmediately"] = true.into();
    let sent: Value = running.rpc("upper", "SendMessage", &at_once).send().await.unwrap().json().await.unwrap();
    let (mut parser, mut frames) = (Parser::new(1 << 20), Vec::<SseFrame>::new());
    while frames.is_empty() {
        parser.push(&stream.chunk().await.unwrap().unwrap(), &mut frames).unwrap();
    }
    let SseFrame { event, data, .. } = frames.remove(0);
    let turn: Value = serde_json::from_str(&data).unwrap();
    assert_eq!((event.as_deref(), &turn["task"]), (Some("turn"), &sent["result"]["task"]["id"]));
    let params = json!({ "id": turn["task"] });
    let cancel = tokio::spawn(running.rpc("upper", "CancelTask", &params).send());
    while frames.is_empty() {
        parser.push(&stream.chunk().await.unwrap().unwrap(), &mut frames).unwrap();
    }
    let SseFrame { event, data, .. } = frames.remove(0);
    assert_eq!((event.as_deref(), data), (Some("cancel"), json!({ "turn": turn["turn"] }).to_string()));
    let at = format!("/turns/{}", turn["turn"].as_str().unwrap());
    let (_, told) = post(&running, &format!("{at}/heartbeat"), json!({ "lease": turn["lease"] })).await;
    assert_eq!(told["cancelled"], true);
    post(&running, &format!("{at}/events"), json!({ "lease": turn["lease"], "canceled": null })).await;
    let answer: Value = cancel.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(answer["result"]["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(running.get("/workers/upper/stream?slots=0").send().await.unwrap().status(), 422);
}

#[tokio::test]
async fn workers_show_their_own_secret_and_callers_theirs() {
    let settings = Settings { auth_required: true, keys: vec![key("ann", "red")], ..Settings::test(&["upper"]) };
    let running = guarded(settings).await;
    let lease = |secret: Option<&str>| {
        let request = running.post("/workers/upper/lease", &json!({ "wait_ms": 0 }));
        match secret {
            Some(secret) => request.bearer_auth(secret).send(),
            None => request.send(),
        }
    };
    for wrong in [None, Some("key-of-ann"), Some("s3cret-of-worker")] {
        let answer = lease(wrong).await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["www-authenticate"]),
            (401, &"Bearer".parse().unwrap())
        );
    }
    assert_eq!(lease(Some("s3cret-of-workers")).await.unwrap().status(), 204);
    let as_caller =
        running.rpc("upper", "SendMessage", &saying("x")).bearer_auth("s3cret-of-workers").send().await.unwrap();
    assert_eq!(as_caller.status(), 401);
}

#[tokio::test]
async fn a_desk_without_a_secret_is_for_loopback_without_keys_only() {
    let refuses = async |settings: Settings| {
        let store = Arc::new(stores::memory::MemoryStore::new());
        let engine = Engine::builder(store).agents(vec![agent(json!({})).await]).start().await.unwrap();
        GatewayVersion::new(engine, settings, Sink::stderr(false, false).unwrap()).err().map(|error| error.to_string())
    };
    let settings = || Settings::test(&["upper"]);
    assert_eq!(refuses(settings()).await, None);
    for open in [
        Settings { listen: ([0, 0, 0, 0], 80).into(), ..settings() },
        Settings { auth_required: true, keys: vec![key("ann", "red")], ..settings() },
    ] {
        assert!(refuses(open).await.unwrap().contains("set secret: env:NAME"));
    }
}

#[tokio::test]
async fn a_reload_keeps_turns_and_leases_and_opens_no_desk() {
    let settings = Settings { auth_required: true, keys: vec![key("ann", "red")], ..Settings::test(&["upper"]) };
    let file = secret_file();
    let guarded = json!({ "secret": format!("file:{}", file.path().display()) });
    let store = Arc::new(stores::memory::MemoryStore::new());
    let engine = Engine::builder(store).agents(vec![agent(guarded.clone()).await]).start().await.unwrap();
    let old = engine.desk("upper").unwrap();
    let server = GatewayVersion::new(engine.clone(), settings.clone(), Sink::stderr(false, false).unwrap()).unwrap();
    let serving = CurrentGateway::new(server);
    let refused = serving.change(settings.clone(), vec![agent(json!({})).await]).err().unwrap().to_string();
    assert!(refused.contains("anybody could fetch its turns"), "{refused}");
    assert!(Arc::ptr_eq(&engine.desk("upper").unwrap(), &old), "nothing has changed");
    let mut changed = guarded;
    changed["title"] = "another".into();
    serving.change(settings, vec![agent(changed).await]).unwrap();
    assert!(!Arc::ptr_eq(&engine.desk("upper").unwrap(), &old));
}

/// The worker of the documentation page, exactly as printed there.
#[tokio::test]
async fn the_worker_in_the_docs_works() {
    struct Killed(Child);
    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agents/worker.md")).unwrap();
    let program = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let running = guarded(Settings::test(&["upper"])).await;
    let worker = Command::new("python3")
        .args(["-c", program])
        .env("DESK", running.url("/workers/upper"))
        .env("WORKER_SECRET", "s3cret-of-workers")
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let _worker = Killed(worker);
    for text in ["hello", "again"] {
        let task = ask(&running, text).await.unwrap();
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], text.to_uppercase(), "{task}");
    }
}
