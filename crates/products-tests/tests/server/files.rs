//! Large files by their address, in every generation and binding; and what such an address is good for.

use std::sync::Arc;

use assistants::AssistantsService;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use engine::Engine;
use futures_util::stream::{self, BoxStream, StreamExt};
use gateway::Settings;
use gateway::settings::FileLinkSettings;
use model::ports::agent::{Admission, Agent, AgentEvent, ArtifactChunk, EndState, Profile, Restart, Turn, TurnEnd};
use model::ports::store::{Commit, Outcome, TaskLog as _, Upkeep as _};
use model::{Content, Expect, Fault, Inbound, Part, RecordChange, Task};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use stores::crashable::CrashableStore;

use testkit::{Running, saying, sends, start_on, until};

/// Makes one file of so many bytes.
struct Maker(Profile, usize);

impl Maker {
    fn making(len: usize) -> Arc<dyn Agent> {
        let profile = Profile {
            name: "maker".into(),
            title: "maker".into(),
            description: "makes a file".into(),
            version: "0".into(),
            skills: Vec::new(),
            input_modes: vec!["*/*".into()],
            output_modes: vec!["*/*".into()],
            streaming: true,
            push: true,
            extensions: Vec::new(),
            restart: Restart::Fail,
            idempotent: false,
        };
        Arc::new(Maker(profile, len))
    }
}

fn content(len: usize) -> Bytes {
    (0..=255).cycle().take(len).collect::<Vec<u8>>().into()
}

impl Agent for Maker {
    fn profile(&self) -> &Profile {
        &self.0
    }
    fn admit(&self, _: &Inbound, _: Option<&Task>) -> Result<Admission, Fault> {
        Ok(Admission { undecided: false, restart: Restart::Fail, idempotent: false })
    }
    fn run(&self, _: Turn) -> BoxStream<'static, AgentEvent> {
        let part = Part {
            filename: Some("ü.html".into()),
            media_type: Some("text/html".into()),
            ..Part::new(Content::Raw(content(self.1)))
        };
        let piece = ArtifactChunk { key: "a".into(), parts: vec![part], ..ArtifactChunk::default() };
        let end = AgentEvent::End(TurnEnd { state: EndState::Completed, words: None });
        stream::iter([AgentEvent::Artifact(piece), end]).boxed()
    }
}

async fn serve(len: usize, files: FileLinkSettings) -> (Running, Arc<CrashableStore>) {
    serve_with(len, |settings| settings.files = files).await
}

async fn serve_with(len: usize, change: impl FnOnce(&mut Settings)) -> (Running, Arc<CrashableStore>) {
    let store = CrashableStore::new(Arc::new(stores::memory::MemoryStore::new()), true);
    let engine = Engine::builder(store.clone()).agents(vec![Maker::making(len)]).start().await.unwrap();
    let assistant = "0190f3c4-1111-4222-8333-444455556666".parse().unwrap();
    let assistants = AssistantsService::new(assistants::langgraph::LangGraphProfile::default());
    let (products, agent_ids) = (vec![Arc::new(assistants) as _], vec![(assistant, "maker".into())]);
    let mut settings = Settings { products, agent_ids, ..Settings::test(&["maker"]) };
    change(&mut settings);
    (start_on(engine, settings, reqwest::Client::new()).await, store)
}

/// Every file in an answer: its bytes or its address, wherever the generation has it.
fn files(value: &Value, found: &mut Vec<(&'static str, String)>) {
    match value {
        Value::Object(members) => {
            for name in ["raw", "bytes", "fileWithBytes", "url", "uri", "fileWithUri"] {
                if let Some(Value::String(text)) = members.get(name) {
                    let kind = if matches!(name, "url" | "uri" | "fileWithUri") { "url" } else { "bytes" };
                    found.push((kind, text.clone()));
                }
            }
            members.values().for_each(|member| files(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| files(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn only(value: &Value) -> (&'static str, String) {
    let mut found = Vec::new();
    files(value, &mut found);
    assert_eq!(found.len(), 1, "{value}");
    found.remove(0)
}

/// The same work as a stream, in every generation and binding.
fn streams(running: &Running) -> Vec<(&'static str, reqwest::RequestBuilder)> {
    let rpc = |path: &str, method: &str, params: Value| {
        running.post(path, &json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }))
    };
    let v0_3 = json!({ "message": { "kind": "message", "messageId": "s", "role": "user", "parts": [{ "kind": "text", "text": "hi" }] } });
    let rest_0_3 = json!({ "message": { "messageId": "s", "role": "ROLE_USER", "content": [{ "text": "hi" }] } });
    let v0_1 = json!({ "id": "s", "message": { "role": "user", "parts": [{ "type": "text", "text": "hi" }] } });
    let langgraph = "/langgraph/a2a/0190f3c4-1111-4222-8333-444455556666";
    vec![
        ("1.0 rpc", running.rpc("maker", "SendStreamingMessage", &saying("hi"))),
        ("1.0 rest", running.post("/a2a/maker/message:stream", &saying("hi")).header("a2a-version", "1.0")),
        ("0.3 rpc", rpc("/a2a/maker", "message/stream", v0_3.clone())),
        ("0.3 rest", running.post("/a2a/maker/v1/message:stream", &rest_0_3)),
        ("0.1 rpc", rpc("/a2a/maker", "tasks/sendSubscribe", v0_1)),
        ("langgraph", rpc(langgraph, "message/stream", v0_3)),
    ]
}

async fn told(name: &str, request: reqwest::RequestBuilder) -> Value {
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{name}");
    answer.json().await.unwrap()
}

fn id_of(answer: &Value) -> String {
    let task = answer.pointer("/result/task").or(answer.pointer("/task")).or(answer.get("result")).unwrap_or(answer);
    task["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test]
async fn every_generation_shows_a_large_file_by_its_address_and_loads_none_of_it() {
    let len = 2 << 20;
    let (running, store) = serve(len, FileLinkSettings::default()).await;
    let mut urls = Vec::new();
    let mut seen = |name: &str, value: &Value| {
        let (kind, url) = only(value);
        assert_eq!(kind, "url", "{name}: {value}");
        assert!(url.starts_with(&running.url("/files/")), "{name}: {url}");
        urls.push(url);
    };
    for (name, request) in sends(&running, "maker") {
        let sent = told(name, request).await;
        seen(name, &sent);
        let id = id_of(&sent);
        let get = match name {
            "1.0 rest" => running.get(&format!("/a2a/maker/tasks/{id}")).header("a2a-version", "1.0"),
            "0.3 rest" => running.get(&format!("/a2a/maker/v1/tasks/{id}")),
            "1.0 rpc" => running.rpc("maker", "GetTask", &json!({ "id": id })),
            _ => running.post(
                "/a2a/maker",
                &json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": { "id": id } }),
            ),
        };
        seen(name, &told(name, get).await);
    }
    let list =
        told("list", running.rpc("maker", "ListTasks", &json!({ "includeArtifacts": true, "pageSize": 1 }))).await;
    seen("list", &list);
    for (name, request) in streams(&running) {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 200, "{name}");
        let text = answer.text().await.unwrap();
        let frames = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let frames: Vec<Value> = frames.map(|data| serde_json::from_str(data).unwrap()).collect();
        let with_file = frames.iter().find(|frame| {
            let mut found = Vec::new();
            files(frame, &mut found);
            !found.is_empty()
        });
        seen(name, with_file.unwrap_or_else(|| panic!("{name}: no file in {text}")));
    }
    assert_eq!((urls.len(), store.blob_reads()), (17, 0), "nobody has asked for the bytes");

    // Each of the addresses is enough to read the file.
    for url in &urls {
        let answer = reqwest::get(url).await.unwrap();
        assert_eq!(answer.status(), 200, "{url}");
        assert_eq!(answer.bytes().await.unwrap(), content(len), "{url}");
    }
    assert_eq!(store.blob_reads(), urls.len());
}

#[tokio::test]
async fn what_is_small_or_always_inline_is_there_as_bytes() {
    let always = FileLinkSettings { inline_max_bytes: None, ..FileLinkSettings::default() };
    for (len, settings) in
        [(1 << 20, FileLinkSettings::default()), (100, FileLinkSettings::default()), (2 << 20, always)]
    {
        let (running, _) = serve(len, settings).await;
        for (name, request) in sends(&running, "maker") {
            let (kind, text) = only(&told(name, request).await);
            assert_eq!((kind, STANDARD.decode(text).unwrap()), ("bytes", content(len).to_vec()), "{name} {len}");
        }
    }
    let (running, _) =
        serve(70_000, FileLinkSettings { inline_max_bytes: Some(65_536), ..FileLinkSettings::default() }).await;
    for (name, request) in sends(&running, "maker") {
        assert_eq!(only(&told(name, request).await).0, "url", "{name}");
    }
}

#[tokio::test]
async fn an_address_is_good_as_it_was_made_and_for_a_while() {
    let len = 2 << 20;
    let (running, store) = serve(len, FileLinkSettings::default()).await;
    let sent = told("send", running.rpc("maker", "SendMessage", &saying("hi"))).await;
    let url = only(&sent).1;
    let http = reqwest::Client::new();
    let answer = http.get(&url).send().await.unwrap();
    let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
    for (name, value) in [
        ("content-type", "text/html"),
        ("content-disposition", "attachment; filename=\"_.html\"; filename*=UTF-8''%C3%BC.html"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox; default-src 'none'"),
        ("content-length", &len.to_string()),
    ] {
        assert_eq!(answer.headers()[name], value, "{name}");
    }
    let head = http.head(&url).send().await.unwrap();
    assert_eq!((head.status().as_u16(), &head.headers()["content-length"]), (200, &len.into()));
    assert!(head.bytes().await.unwrap().is_empty());
    let known = http.get(&url).header("if-none-match", &tag).send().await.unwrap();
    assert_eq!((known.status().as_u16(), known.bytes().await.unwrap().len()), (304, 0));
    let part = http.get(&url).header("range", "bytes=256-259").send().await.unwrap();
    assert_eq!((part.status().as_u16(), part.bytes().await.unwrap()), (206, Bytes::from_static(&[0, 1, 2, 3])));
    assert_eq!(http.post(&url).send().await.unwrap().status(), 405);
    for (changed, status) in [
        (url.replace("ü.html", "x").replace("name=%C3%BC", "name=x"), 403),
        (url.replace("type=text", "type=image"), 403),
        (url.replace("tenant=default", "tenant=other"), 403),
        (url.split('&').next().unwrap().to_owned(), 403),
        (running.url("/files/"), 403),
    ] {
        assert_ne!(changed, url);
        let answer = http.get(&changed).send().await.unwrap();
        assert_eq!(answer.status(), status, "{changed}");
        assert!(answer.text().await.unwrap().contains("read the task again"), "{changed}");
    }
    let task = id_of(&sent).parse().unwrap();
    store.remove(task).await.unwrap();
    assert_eq!(http.get(&url).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn an_address_that_has_expired_says_what_to_do() {
    let (running, store) = serve(2 << 20, FileLinkSettings::default()).await;
    // A key that the case knows, in the place where the server keeps its own.
    let put = RecordChange::Put {
        kind: "server/secret".into(),
        key: "files".into(),
        expect: Expect::Absent,
        body: Bytes::from_static(&[7; 32]),
        lists: Vec::new(),
    };
    assert_eq!(store.commit(Commit { records: vec![put], ..Commit::default() }).await, Outcome::Done);
    told("send", running.rpc("maker", "SendMessage", &saying("hi"))).await;
    let hash: String = Sha256::digest(content(2 << 20)).iter().map(|byte| format!("{byte:02x}")).collect();
    let at = |expires: i64| {
        let mut signed = b"rialto file 1".to_vec();
        for part in [&*hash, "default", "", ""] {
            signed.extend_from_slice(&(part.len() as u64).to_be_bytes());
            signed.extend_from_slice(part.as_bytes());
        }
        signed.extend_from_slice(&expires.to_be_bytes());
        let key = hmac::Key::new(hmac::HMAC_SHA256, &[7; 32]);
        let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, &signed));
        running.url(&format!("/files/{hash}?tenant=default&expires={expires}&signature={signature}"))
    };
    let now = jiff::Timestamp::now().as_second();
    assert_eq!(reqwest::get(at(now + 600)).await.unwrap().status(), 200);
    let late = reqwest::get(at(now - 1)).await.unwrap();
    assert_eq!(late.status(), 410);
    assert_eq!(late.text().await.unwrap(), "this address has expired; read the task again for a new one\n");
}

#[tokio::test]
async fn another_process_on_the_same_store_knows_the_address() {
    let (running, store) = serve(2 << 20, FileLinkSettings::default()).await;
    let url = only(&told("send", running.rpc("maker", "SendMessage", &saying("hi"))).await).1;
    let engine = Engine::builder(store.clone()).agents(vec![Maker::making(1)]).start().await.unwrap();
    let public = Settings { public_url: Some("https://agents.example/".into()), ..Settings::test(&["maker"]) };
    let other = start_on(engine, public, reqwest::Client::new()).await;
    let there = url.replace(&running.url(""), &other.url(""));
    assert_eq!(reqwest::get(&there).await.unwrap().bytes().await.unwrap(), content(2 << 20));
    // And says where callers reach it, as its card does.
    let list = told("list", other.rpc("maker", "ListTasks", &json!({ "includeArtifacts": true }))).await;
    let shown = only(&list).1;
    assert!(shown.starts_with("https://agents.example/files/"), "{shown}");
}

#[tokio::test]
async fn downloads_that_are_not_read_are_bounded_together() {
    use tokio::io::AsyncWriteExt as _;
    // Far more than sockets take by themselves, and room for one of them.
    let len = 32 << 20;
    let (running, _) = serve_with(len, |settings| settings.answers_bytes = 40 << 20).await;
    let sent = told("1.0 rpc", running.rpc("maker", "SendMessage", &saying("go"))).await;
    let (kind, url) = only(&sent);
    assert_eq!(kind, "url", "{sent}");
    let held = async || {
        let text = running.get("/metrics").send().await.unwrap().text().await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("a2a_answers_bytes "));
        line.unwrap().parse::<usize>().unwrap()
    };
    let path = url.strip_prefix(&running.url("")).unwrap();
    let mut unread = tokio::net::TcpStream::connect(running.address).await.unwrap();
    unread.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.unwrap();
    until("the file is on its way", async || held().await == len).await;

    let refused = reqwest::get(&url).await.unwrap();
    assert_eq!((refused.status().as_u16(), refused.headers()["retry-after"].to_str().unwrap()), (503, "2"));
    assert!(refused.text().await.unwrap().contains("large answers"));
    let head = reqwest::Client::new().head(&url).send().await.unwrap();
    assert_eq!(head.status(), 200, "a head holds nothing");

    drop(unread);
    until("it has been given up", async || held().await == 0).await;
    assert_eq!(reqwest::get(&url).await.unwrap().bytes().await.unwrap().len(), len);
}
