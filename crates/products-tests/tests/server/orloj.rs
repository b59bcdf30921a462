//! Orloj's endpoints over their socket: which system is meant, who may call it, what an id means, waiting, streams, cards.

use std::sync::Arc;

use gateway::Settings;
use gateway::settings::KeySettings;
use model::Again;
use model::ports::agent::Agent;
use serde_json::{Value, json};
use systems::agent as system;
use systems::{ExposedSystem, SystemsService, SystemsSettings};
use systems_graph::System;

mod access;

use testkit::{As, Running, key, settings, start_agents, until};

/// The systems: one step or two, and one that asks before it begins. All of them play what they are told.
const SYSTEMS: [(&str, &str, bool, &str); 4] = [
    ("sum", "default", true, r#"{"graph":{"read":{"agent":"echo","next":"summary"},"summary":{"agent":"scripted"}}}"#),
    ("play", "play", true, r#"{"graph":{"play":{"agent":"scripted"}}}"#),
    ("guarded", "play", false, r#"{"graph":{"play":{"agent":"scripted"}}}"#),
    ("asks", "review", false, r#"{"graph":{"go":{"agent":"echo","approval":{"ask":"May it?"}}}}"#),
];

fn shown((name, namespace, public, _): (&str, &str, bool, &str)) -> ExposedSystem {
    let agents = vec!["echo".into(), "scripted".into()];
    ExposedSystem { name: name.into(), namespace: namespace.into(), public, agents }
}

pub(crate) async fn open(change: impl FnOnce(&mut Settings, &mut SystemsSettings)) -> Running {
    let mut all: Vec<Arc<dyn Agent>> =
        agents::BUILTIN.iter().map(|builtin| (builtin.build)(&agents::BuiltinSettings::default())).collect();
    let mut names = vec!["echo", "scripted"];
    // One that is there and not shown.
    for (name, _, _, graph) in SYSTEMS.into_iter().chain([("hidden", "", false, SYSTEMS[1].3)]) {
        let system: System = serde_json::from_str(graph).unwrap();
        let graph = system.check(|agent| names.contains(&agent)).unwrap();
        all.push(Arc::new(system::SystemAgent::new(name, &system, graph)));
        names.push(name);
    }
    let mut settings = Settings { agents: names.iter().map(|name| Arc::from(*name)).collect(), ..settings() };
    let mut orloj = SystemsSettings::new(SYSTEMS.map(shown).into());
    orloj.tokens = vec![token("bound", &["system:asks", "system:guarded"]), token("other", &["system:asks"])];
    change(&mut settings, &mut orloj);
    settings.products.push(Arc::new(SystemsService::new(orloj, None)));
    start_agents(settings, all, reqwest::Client::new()).await
}

async fn plain() -> Running {
    open(|_, _| {}).await
}

fn token(name: &str, scopes: &[&str]) -> KeySettings {
    KeySettings { scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(), ..key(name, "default") }
}

fn body(method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "req-1", "method": method, "params": params })
}

fn saying(id: &str, text: &str) -> Value {
    json!({ "id": id, "message": { "role": "user", "parts": [{ "type": "text", "text": text }] } })
}

fn told(id: &str, text: &str, metadata: Value) -> Value {
    let mut params = saying(id, text);
    params["metadata"] = metadata;
    params
}

async fn answer(request: reqwest::RequestBuilder) -> Value {
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["x-a2a-dialect"], "orloj");
    answer.json().await.unwrap()
}

async fn ask(running: &Running, path: &str, method: &str, params: &Value) -> Value {
    answer(running.post(path, &body(method, params))).await
}

fn refusal(answer: &Value) -> (i64, &str) {
    (answer["error"]["code"].as_i64().unwrap_or_default(), answer["error"]["message"].as_str().unwrap_or_default())
}

fn state(answer: &Value) -> &str {
    answer["result"]["status"]["state"].as_str().unwrap_or_else(|| panic!("no task: {answer}"))
}

fn of(system: &str) -> String {
    format!("/orloj/v1/agent-systems/{system}/a2a")
}

/// The events of a stream, as name and data, and its comments as names without.
fn frames(text: &str) -> Vec<(String, Value)> {
    let frame = |frame: &str| match frame.strip_prefix(": ") {
        Some(comment) => (comment.to_owned(), Value::Null),
        None => {
            let (event, data) = frame.split_once('\n').unwrap();
            let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            (event.strip_prefix("event: ").unwrap().to_owned(), data)
        }
    };
    text.split("\n\n").filter(|one| !one.is_empty()).map(frame).collect()
}

#[tokio::test]
async fn a_send_waits_for_the_end_and_every_address_of_a_system_is_the_same() {
    let running = plain().await;
    let params = told("task-001", "Summarize this document", json!({ "source": "external-workflow" }));
    let mut answers = Vec::new();
    for path in [
        "/orloj/a2a",
        "/orloj/v1/agent-systems/sum/a2a",
        "/orloj/v1/agents/sum/a2a",
        "/v1/agent-systems/sum/a2a",
        "/v1/agents/sum/a2a",
        "/a2a",
    ] {
        answers.push(ask(&running, path, "tasks/send", &params).await);
    }
    let first = &answers[0];
    assert_eq!((&first["jsonrpc"], &first["id"], state(first)), (&json!("2.0"), &json!("req-1"), "completed"));
    let task = &first["result"];
    assert_eq!(task["id"], "task-001");
    assert_eq!(task["metadata"]["source"], "external-workflow");
    let name = task["metadata"]["orloj.task"].as_str().unwrap();
    assert!(name.starts_with("a2a-") && name.ends_with("-task-001"), "{name}");
    let artifacts = task["artifacts"].as_array().unwrap();
    for (index, artifact) in artifacts.iter().enumerate() {
        assert_eq!(artifact["index"], index);
    }
    assert_eq!(artifacts[1]["name"], "summary");
    assert_eq!(task["status"]["message"], json!({ "role": "agent", "parts": artifacts[1]["parts"] }), "the answer");
    assert_eq!(artifacts[1]["parts"], json!([{ "type": "text", "text": "Summarize this document" }]));
    assert!(
        task.get("history").is_none() && task["status"].get("timestamp").is_none() && task.get("sessionId").is_none()
    );
    for other in &answers {
        assert_eq!(other, first);
    }
    // Found by the caller's id and by the name made of it, wherever that system is.
    for (path, id) in [("/orloj/a2a", "task-001"), ("/orloj/a2a", name), (&*of("sum"), name), ("/a2a", "task-001")] {
        assert_eq!(ask(&running, path, "tasks/get", &json!({ "id": id })).await["result"], *task, "{path} {id}");
    }
    let whole = ask(&running, "/orloj/a2a", "tasks/get", &json!({ "id": "task-001", "historyLength": 100 })).await;
    let said = whole["result"]["history"].as_array().unwrap();
    assert_eq!(said[0], params["message"]);
    // Another system has no such task.
    for path in [of("play"), format!("{}?namespace=play", "/orloj/a2a")] {
        let missing = ask(&running, &path, "tasks/get", &json!({ "id": "task-001" })).await;
        assert_eq!(refusal(&missing), (-32001, "task not found"), "{path}");
        assert_eq!(missing["error"]["data"]["task_id"], "task-001");
    }
}

#[tokio::test]
async fn the_system_is_named_by_path_by_metadata_or_is_the_only_one() {
    let running = plain().await;
    let sends = |path: &'static str, metadata: Value| {
        let params = told("t", "hello", metadata);
        let running = &running;
        async move { ask(running, path, "tasks/send", &params).await }
    };
    let system = |answer: &Value| answer["result"]["metadata"]["orloj.task"].as_str().map(str::to_owned);
    let sum = system(&sends("/orloj/v1/agent-systems/sum/a2a", json!({})).await).unwrap();
    let play = system(&sends("/orloj/v1/agent-systems/play/a2a", json!({})).await).unwrap();
    assert_ne!(sum, play);
    for (path, metadata, expected) in [
        ("/orloj/a2a", json!({}), &sum),
        ("/orloj/a2a", json!({ "agent": "play" }), &play),
        ("/orloj/a2a", json!({ "agent": "play/play" }), &play),
        ("/orloj/a2a", json!({ "target": "play/play" }), &play),
        ("/orloj/a2a", json!({ "agent": "sum", "target": "play" }), &sum),
        ("/orloj/a2a?namespace=play", json!({ "target": "play" }), &play),
        ("/orloj/v1/agent-systems/sum/a2a", json!({ "agent": "play" }), &sum),
    ] {
        let answer = sends(path, metadata.clone()).await;
        assert_eq!(system(&answer).as_ref(), Some(expected), "{path} {metadata}: {answer}");
    }
    // Two in the namespace, none, and those that are not there.
    let must = "target AgentSystem must be specified via URL path or request metadata";
    assert_eq!(refusal(&sends("/orloj/a2a?namespace=play", json!({})).await), (-32602, must));
    assert_eq!(refusal(&sends("/orloj/a2a?namespace=nowhere", json!({})).await), (-32602, must));
    let stream = ask(&running, "/orloj/a2a?namespace=play", "tasks/sendSubscribe", &saying("t", "x")).await;
    assert_eq!(refusal(&stream), (-32602, "target AgentSystem required"));
    for metadata in [json!({ "agent": "hidden" }), json!({ "agent": "nobody" }), json!({ "agent": "default/play" })] {
        let answer = sends("/orloj/a2a", metadata).await;
        assert_eq!(refusal(&answer), (-32003, "target AgentSystem is not A2A-enabled"));
    }
    for path in ["/orloj/v1/agent-systems/hidden/a2a", "/orloj/v1/agent-systems/echo/a2a", "/v1/agents/nobody/a2a"] {
        assert_eq!(refusal(&sends(path, json!({})).await).0, -32003, "{path}");
    }
}

#[tokio::test]
async fn what_is_no_request_is_told_so() {
    let running = plain().await;
    let raw = |text: String| {
        let request = running.post("/orloj/a2a", &json!({})).body(text);
        async move { answer(request).await }
    };
    let broken = raw("{".into()).await;
    assert_eq!((refusal(&broken), &broken["id"]), ((-32700, "invalid JSON-RPC request"), &Value::Null));
    assert_eq!(refusal(&raw("[]".into()).await).0, -32600);
    assert_eq!(refusal(&raw(format!("[{}]", body("tasks/get", &json!({ "id": "t" })))).await).0, -32600);
    let old = raw(r#"{"jsonrpc":"1.0","id":7,"method":"tasks/get"}"#.into()).await;
    assert_eq!((refusal(&old), &old["id"]), ((-32600, r#"jsonrpc must be "2.0""#), &json!(7)));
    assert_eq!(refusal(&raw(r#"{"jsonrpc":"2.0","id":1}"#.into()).await).0, -32600);
    for (method, params, expected) in [
        ("tasks/send", json!({ "message": {} }), (-32602, "task id is required")),
        ("tasks/send", json!({ "id": "t" }), (-32602, "message is required")),
        ("tasks/send", told("t", "x", json!({ "n": 1 })), (-32602, "invalid task send params")),
        ("tasks/sendSubscribe", json!({ "id": 1 }), (-32602, "invalid subscribe params")),
        ("tasks/get", json!({}), (-32602, "task id is required")),
        ("tasks/cancel", json!({ "id": "t", "reason": {} }), (-32602, "invalid task cancel params")),
        ("tasks/resubscribe", json!({ "id": "t" }), (-32601, "unknown method: tasks/resubscribe")),
        ("message/send", json!({}), (-32601, "unknown method: message/send; did you mean tasks/send?")),
    ] {
        assert_eq!(refusal(&ask(&running, "/orloj/a2a", method, &params).await), expected, "{method} {params}");
    }
    let large = running.post("/orloj/a2a", &body("tasks/send", &saying("t", &"x".repeat(1 << 20))));
    let large = large.send().await.unwrap();
    assert_eq!(large.status(), 413);
    assert_eq!(refusal(&large.json().await.unwrap()).0, -32700);
    let fits = ask(&running, "/orloj/a2a", "tasks/send", &saying("t", &"x".repeat(1 << 19))).await;
    assert_eq!(state(&fits), "completed");
    for (path, allow) in [("/orloj/a2a", "POST"), ("/orloj/v1/agent-systems/sum/a2a", "POST")] {
        let got = running.get(path).send().await.unwrap();
        assert_eq!((got.status().as_u16(), got.headers()["allow"].to_str().unwrap()), (405, allow), "{path}");
    }
}

#[tokio::test]
async fn who_sends_no_id_gets_no_body_and_the_task_all_the_same() {
    let running = plain().await;
    for (method, id) in [("tasks/send", "n-1"), ("tasks/sendSubscribe", "n-2")] {
        let notice = json!({ "jsonrpc": "2.0", "method": method, "params": saying(id, "hello") });
        let answer = running.post("/orloj/a2a", &notice).send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.headers().contains_key("content-type")), (204, false));
        assert_eq!(answer.text().await.unwrap(), "");
        until("it is done", async || {
            state(&ask(&running, "/orloj/a2a", "tasks/get", &json!({ "id": id })).await) == "completed"
        })
        .await;
    }
    let wrong = json!({ "jsonrpc": "2.0", "method": "tasks/send", "params": {} });
    assert_eq!(running.post("/orloj/a2a", &wrong).send().await.unwrap().status(), 204);
    // An id of null is an id.
    let null = json!({ "jsonrpc": "2.0", "id": null, "method": "tasks/get", "params": { "id": "n-1" } });
    assert_eq!(answer(running.post("/orloj/a2a", &null)).await["id"], Value::Null);
}

#[tokio::test]
async fn a_send_does_not_wait_for_ever() {
    let running = open(|_, orloj| orloj.wait_ms = Some(1)).await;
    let slow = ask(&running, &of("play"), "tasks/send", &saying("slow", "hang")).await;
    assert!(["submitted", "working"].contains(&state(&slow)), "{slow}");
    let at_once = open(|_, orloj| orloj.wait_ms = None).await;
    let sent = ask(&at_once, &of("play"), "tasks/send", &saying("slow", "hang")).await;
    assert!(["submitted", "working"].contains(&state(&sent)), "{sent}");
}

#[tokio::test]
async fn only_so_many_wait_and_stream_at_a_time() {
    let running = open(|_, orloj| (orloj.waiting, orloj.streams) = (Some(1), Some(1))).await;
    let url = running.url(&of("play"));
    let waits =
        tokio::spawn(reqwest::Client::new().post(&url).json(&body("tasks/send", &saying("first", "hang"))).send());
    until("it waits", async || {
        let got = ask(&running, &of("play"), "tasks/get", &json!({ "id": "first" })).await;
        got.get("result").is_some()
    })
    .await;
    let full = ask(&running, &of("play"), "tasks/send", &saying("second", "hello")).await;
    assert_eq!(refusal(&full), (-32603, "too many concurrent A2A wait connections"));
    ask(&running, &of("play"), "tasks/cancel", &json!({ "id": "first" })).await;
    let ended: Value = waits.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(state(&ended), "canceled", "who waits hears how it ended, not a fault");
    let stream =
        running.post(&of("play"), &body("tasks/sendSubscribe", &saying("third", "hang"))).send().await.unwrap();
    let full = ask(&running, &of("play"), "tasks/sendSubscribe", &saying("fourth", "hello")).await;
    assert_eq!(refusal(&full), (-32603, "too many concurrent subscribe connections"));
    drop(stream);
    until("its place is free", async || {
        let next = running.post(&of("play"), &body("tasks/sendSubscribe", &saying("fifth", "hello")));
        next.send().await.unwrap().text().await.unwrap().starts_with("event: status")
    })
    .await;
}

#[tokio::test]
async fn a_stream_has_bare_tasks_and_ends_with_the_last_state() {
    let running = plain().await;
    for (text, last) in [("hello", "completed"), ("fail: no", "failed"), ("reject: no", "failed")] {
        let params = told("s", text, json!({ "source": "x" }));
        let answer = running.post(&of("play"), &body("tasks/sendSubscribe", &params)).send().await.unwrap();
        let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(header("content-type"), "text/event-stream");
        assert_eq!((header("cache-control"), header("x-accel-buffering")), ("no-cache, no-store".into(), "no".into()));
        let frames = frames(&answer.text().await.unwrap());
        for (event, task) in &frames {
            assert_eq!(event, "status");
            assert_eq!((&task["id"], &task["metadata"]["source"]), (&json!("s"), &json!("x")));
            assert!(task.get("jsonrpc").is_none());
        }
        let states: Vec<&str> = frames.iter().map(|(_, task)| task["status"]["state"].as_str().unwrap()).collect();
        assert_eq!((states[0], *states.last().unwrap()), ("submitted", last), "{states:?}");
        assert!(frames.last().unwrap().1["artifacts"].is_array());
        let says = &frames.last().unwrap().1["status"]["message"]["parts"];
        match last {
            "completed" => assert_eq!(*says, json!([{ "type": "text", "text": text }]), "the answer"),
            _ => assert!(says[0]["text"].as_str().unwrap().contains("no"), "the reason: {says}"),
        }
        let terminal = |state: &&&str| ["completed", "failed", "canceled", "rejected"].contains(*state);
        assert_eq!(states.iter().filter(terminal).count(), 1, "{states:?}");
        for pair in frames.windows(2) {
            assert_ne!(pair[0], pair[1], "only what has changed is told");
        }
    }
    // Errors before the stream are plain answers.
    let plain = ask(&running, &of("play"), "tasks/sendSubscribe", &json!({ "id": "t" })).await;
    assert_eq!(refusal(&plain), (-32602, "message is required"));
}

#[tokio::test]
async fn a_silent_stream_says_heartbeat_and_ends_when_its_task_is_cancelled() {
    let running = open(|settings, _| settings.heartbeat_ms = 100).await;
    let mut stream =
        running.post(&of("play"), &body("tasks/sendSubscribe", &saying("s", "hang"))).send().await.unwrap();
    let mut text = String::new();
    while !text.contains(": heartbeat\n\n") {
        text.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    let reason = json!({ "id": "s", "reason": "No longer needed" });
    let cancelled = ask(&running, &of("play"), "tasks/cancel", &reason).await;
    assert_eq!(state(&cancelled), "canceled");
    assert_eq!(cancelled["result"]["status"]["message"]["parts"][0]["text"], "No longer needed");
    while let Some(piece) = stream.chunk().await.unwrap() {
        text.push_str(std::str::from_utf8(&piece).unwrap());
    }
    let frames = frames(&text);
    assert_eq!(frames[0].1["status"]["state"], "submitted");
    assert!(frames.iter().any(|(name, data)| name == "heartbeat" && data.is_null()));
    assert_eq!(frames.last().unwrap().1["status"]["state"], "canceled");
    // Who goes away changes nothing.
    let gone = running.post(&of("play"), &body("tasks/sendSubscribe", &saying("g", "hang"))).send().await.unwrap();
    drop(gone);
    until("its stream is over", async || running.metric("a2a_streams_open 0").await).await;
    let goes_on = ask(&running, &of("play"), "tasks/get", &json!({ "id": "g" })).await;
    assert!(["submitted", "working"].contains(&state(&goes_on)), "{goes_on}");
}

#[tokio::test]
async fn what_has_ended_stays_as_it_ended() {
    let running = plain().await;
    let cancel = |id: &'static str| {
        let running = &running;
        async move { ask(running, "/orloj/a2a", "tasks/cancel", &json!({ "id": id })).await }
    };
    let done = ask(&running, "/orloj/a2a", "tasks/send", &saying("done", "hello")).await;
    let refused = cancel("done").await;
    assert_eq!(refusal(&refused), (-32002, "task cannot be cancelled: it has completed"));
    assert_eq!(refused["error"]["data"], json!({ "task_id": "done" }));
    let kept = ask(&running, "/orloj/a2a", "tasks/get", &json!({ "id": "done" })).await;
    assert_eq!(kept["result"], done["result"], "a refused cancel changes nothing");
    ask(&running, &of("play"), "tasks/send", &saying("failed", "fail: no")).await;
    let refused = ask(&running, &of("play"), "tasks/cancel", &json!({ "id": "failed" })).await;
    assert_eq!(refusal(&refused), (-32002, "task cannot be cancelled: it has failed"));
    let running_task = running.post(&of("play"), &body("tasks/sendSubscribe", &saying("runs", "hang")));
    let _stream = running_task.send().await.unwrap();
    let name = ask(&running, &of("play"), "tasks/get", &json!({ "id": "runs" })).await;
    let name = name["result"]["metadata"]["orloj.task"].clone();
    let cancelled = ask(&running, &of("play"), "tasks/cancel", &json!({ "id": name })).await;
    assert_eq!(state(&cancelled), "canceled");
    assert_eq!(cancelled["result"]["status"]["message"]["parts"][0]["text"], "cancelled via A2A");
    let again = cancel("runs").await;
    assert_eq!(refusal(&again), (-32002, "task has been cancelled"));
    assert_eq!(again["error"]["data"]["task_id"], "runs");
    let unknown = cancel("a2a-task-unknown").await;
    assert_eq!(refusal(&unknown), (-32001, "task not found"));
    assert_eq!(unknown["error"]["data"], json!({ "task_id": "a2a-task-unknown" }));
}

#[tokio::test]
async fn an_id_that_is_sent_again_begins_anew() {
    let running = plain().await;
    let first = told("again", "one", json!({ "a": "1", "contextId": "c-1" }));
    let first = ask(&running, &of("sum"), "tasks/send", &first).await;
    let second = told("again", "two", json!({ "b": "2", "contextId": "c-2" }));
    let second = ask(&running, &of("sum"), "tasks/send", &second).await;
    assert_eq!(first["result"]["id"], second["result"]["id"]);
    assert_eq!(second["result"]["metadata"].get("a"), None, "nothing is left of what was: {second}");
    assert_eq!(second["result"]["artifacts"][1]["parts"][0]["text"], "two");
    let params = json!({ "id": "again", "historyLength": 100 });
    let got = ask(&running, &of("sum"), "tasks/get", &params).await;
    let history = got["result"]["history"].to_string();
    assert!(history.contains("two") && !history.contains("one"), "{history}");
    // Also while the one before runs: that is cancelled.
    let old = running.post(&of("play"), &body("tasks/sendSubscribe", &saying("again", "hang"))).send().await.unwrap();
    let new = ask(&running, &of("play"), "tasks/send", &saying("again", "hello")).await;
    assert_eq!(state(&new), "completed");
    let old = frames(&old.text().await.unwrap());
    assert_eq!(old.last().unwrap().1["status"]["state"], "canceled");
    let name = new["result"]["metadata"]["orloj.task"].clone();
    let by_name = ask(&running, &of("play"), "tasks/get", &json!({ "id": name })).await;
    assert_eq!(by_name["result"], new["result"], "the name has gone with the id");
}

#[tokio::test]
async fn an_id_that_is_sent_again_is_refused_where_the_config_says_so() {
    let running = open(|_, orloj| orloj.again = Again::Refuse).await;
    assert_eq!(state(&ask(&running, &of("sum"), "tasks/send", &saying("t", "one")).await), "completed");
    let again = ask(&running, &of("sum"), "tasks/send", &saying("t", "two")).await;
    assert_eq!(refusal(&again), (-32602, "task id already in use"));
    assert_eq!(state(&ask(&running, &of("play"), "tasks/send", &saying("t", "one")).await), "completed");
}

#[tokio::test]
async fn a_task_that_asks_ends_the_wait_and_goes_on_with_the_answer() {
    for again in [Again::Restart, Again::Refuse] {
        let running = open(|_, orloj| orloj.again = again).await;
        let send = |id: &'static str, text: &'static str| {
            let running = &running;
            async move { answer(running.post(&of("asks"), &body("tasks/send", &saying(id, text))).caller("bound")).await }
        };
        let asks = send("a", "publish this").await;
        assert_eq!(state(&asks), "input-required");
        let question = asks["result"]["status"]["message"]["parts"][0]["text"].as_str().unwrap();
        assert!(question.contains("May it?"), "{question}");
        assert_eq!(state(&send("a", "approve").await), "completed", "{again:?}");
        assert_eq!(state(&send("b", "publish that").await), "input-required");
        assert_eq!(state(&send("b", "deny: no").await), "failed");
        // A stream stays open while the task waits for an answer.
        let stream = running.post(&of("asks"), &body("tasks/sendSubscribe", &saying("c", "x"))).caller("bound");
        let stream = stream.send().await.unwrap();
        until("it asks", async || {
            let got = running.post(&of("asks"), &body("tasks/get", &json!({ "id": "c" }))).caller("bound");
            state(&answer(got).await) == "input-required"
        })
        .await;
        assert_eq!(state(&send("c", "approve").await), "completed");
        let frames = frames(&stream.text().await.unwrap());
        let states: Vec<&Value> = frames.iter().map(|(_, task)| &task["status"]["state"]).collect();
        assert!(states.contains(&&json!("input-required")) && *states.last().unwrap() == "completed", "{states:?}");
    }
}

#[tokio::test]
async fn too_many_requests_are_told_so_where_there_is_a_limit() {
    let running = open(|_, orloj| orloj.requests_per_minute = Some(2)).await;
    for _ in 0..2 {
        assert_eq!(refusal(&ask(&running, "/orloj/a2a", "tasks/get", &json!({ "id": "t" })).await).0, -32001);
    }
    let more = ask(&running, "/orloj/a2a", "tasks/get", &json!({ "id": "t" })).await;
    assert_eq!((refusal(&more), &more["id"]), ((-32603, "rate limit exceeded"), &Value::Null));
}

#[tokio::test]
async fn methods_of_1_0_at_the_same_addresses_are_1_0s() {
    let running = plain().await;
    let send = |path: &str, metadata: Value| {
        let message = json!({ "messageId": "m", "role": "ROLE_USER", "parts": [{ "text": "hello" }] });
        running.post(path, &body("SendMessage", &json!({ "message": message, "metadata": metadata })))
    };
    for request in [
        send(&of("sum"), json!({})),
        send("/orloj/a2a", json!({})),
        send("/orloj/a2a", json!({ "agent": "play" })),
        send(&of("guarded"), json!({})).caller("bound"),
    ] {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.headers()["x-a2a-dialect"], "a2a_v1");
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer}");
    }
    assert_eq!(refusal(&answer(send(&of("guarded"), json!({}))).await).0, -32003);
    assert_eq!(refusal(&answer(send("/orloj/a2a?namespace=play", json!({}))).await).0, -32602);
    let old: Value =
        send(&of("sum"), json!({})).header("a2a-version", "0.3").send().await.unwrap().json().await.unwrap();
    assert_eq!(refusal(&old).0, -32009);
    // One task, in both: by its own id.
    let sent: Value = send(&of("sum"), json!({})).send().await.unwrap().json().await.unwrap();
    let id = sent["result"]["task"]["id"].clone();
    let got = ask(&running, &of("sum"), "tasks/get", &json!({ "id": id })).await;
    assert_eq!((&got["result"]["id"], state(&got)), (&id, "completed"));
}

#[tokio::test]
async fn cards_and_the_registry_tell_what_is_there() {
    let running = open(|_, orloj| orloj.remotes = vec![("echo".into(), "https://far.example/a2a".into())]).await;
    let get = |path: String| {
        let request = running.get(&path);
        async move { request.send().await.unwrap() }
    };
    for path in ["/orloj/.well-known/agent-card.json", "/orloj/.well-known/agent.json"] {
        let root = get(path.to_owned()).await;
        assert_eq!(root.headers()["cache-control"], "public, max-age=300");
        let root: Value = root.json().await.unwrap();
        assert_eq!((&root["name"], &root["url"]), (&json!("sum"), &json!(running.url(&of("sum")))));
        assert!(root.get("authentication").is_none(), "it is public");
        assert_eq!(root["capabilities"]["streaming"], true);
        assert_eq!(root["skills"][0]["tags"], json!(["tool"]));
        // Two in the namespace, or none.
        for namespace in ["play", "nowhere"] {
            assert_eq!(get(format!("{path}?namespace={namespace}")).await.status(), 404);
        }
    }
    for kind in ["agent-systems", "agents"] {
        let path = |name: &str| format!("/orloj/v1/{kind}/{name}/.well-known/agent-card.json");
        let asks: Value = get(path("asks")).await.json().await.unwrap();
        assert_eq!(asks["url"], running.url("/orloj/v1/agent-systems/asks/a2a?namespace=review"));
        assert_eq!(asks["authentication"], json!({ "schemes": ["bearer"] }));
        for missing in ["hidden", "echo", "nobody"] {
            assert_eq!(get(path(missing)).await.status(), 404);
        }
    }
    let names = |registry: &Value| -> Vec<String> {
        let cards = registry["localAgents"].as_array().unwrap().iter();
        cards.map(|card| card["name"].as_str().unwrap().to_owned()).collect()
    };
    for path in ["/orloj/v1/a2a/agents", "/v1/a2a/agents"] {
        let open: Value = get(path.to_owned()).await.json().await.unwrap();
        assert_eq!(names(&open), ["sum", "play"]);
        assert_eq!(open["remoteAgents"][0]["url"], "https://far.example/a2a");
        let known: Value = running.get(path).caller("other").send().await.unwrap().json().await.unwrap();
        assert_eq!(names(&known), ["asks"]);
        assert_eq!(running.get(path).caller("nobody").send().await.unwrap().status(), 401);
    }
    // The origin's card is still the default agent's.
    let origin: Value = get("/.well-known/agent-card.json".to_owned()).await.json().await.unwrap();
    assert_ne!(origin["name"], "sum");
}

#[tokio::test]
async fn a_shared_address_knows_whose_a_request_is() {
    let running = plain().await;
    let owner = |path: &str, method: &str, params: Value| {
        let request = running.post(path, &body(method, &params));
        async move {
            let answer = request.send().await.unwrap();
            let dialect = answer.headers()["x-a2a-dialect"].to_str().unwrap().to_owned();
            let answer: Value = answer.json().await.unwrap();
            (dialect, answer)
        }
    };
    let mut first = saying("theirs", "hi");
    first["sessionId"] = json!("s");
    assert_eq!(owner("/a2a", "tasks/send", first).await.0, "a2a_v0_1");
    assert_eq!(owner("/a2a", "tasks/send", saying("ours", "hi")).await.0, "orloj");
    assert_eq!(owner("/a2a", "tasks/get", json!({ "id": "ours" })).await.0, "orloj");
    assert_ne!(owner("/a2a", "tasks/get", json!({ "id": "theirs" })).await.0, "orloj");
    let (dialect, cancelled) = owner("/a2a", "tasks/cancel", json!({ "id": "ours" })).await;
    assert_eq!((dialect.as_str(), refusal(&cancelled).0), ("orloj", -32002));
    // A task that neither has, or that only a system has which is closed to the caller, is missing here.
    let secret = running.post(&of("guarded"), &body("tasks/send", &saying("secret", "hi"))).caller("bound");
    assert_eq!(state(&answer(secret).await), "completed");
    for method in ["tasks/get", "tasks/cancel"] {
        for id in ["nobodys", "secret", "a2a-task-unknown"] {
            let (dialect, missing) = owner("/a2a", method, json!({ "id": id })).await;
            let expected = json!({ "code": -32001, "message": "task not found", "data": { "task_id": id } });
            assert_eq!((dialect.as_str(), &missing["error"]), ("orloj", &expected), "{method} {id}");
        }
        // A stated version is a generation's.
        let stated = running.post("/a2a", &body(method, &json!({ "id": "nobodys" }))).header("a2a-version", "0.3");
        assert_eq!(stated.send().await.unwrap().headers()["x-a2a-dialect"], "a2a_v0_3");
    }
    // The root itself and an agent's own address are as ever.
    assert_eq!(owner("/", "tasks/send", saying("r", "hi")).await.0, "a2a_v0_1");
    assert_eq!(owner("/a2a/sum", "tasks/send", saying("r", "hi")).await.0, "a2a_v0_1");
    assert_eq!(owner("/a2a", "message/send", json!({})).await.0, "a2a_v0_3");
    let said = running.post("/a2a", &body("tasks/get", &json!({ "id": "theirs" }))).header("X-A2A-Dialect", "orloj");
    assert_eq!(refusal(&answer(said).await), (-32001, "task not found"));
}
