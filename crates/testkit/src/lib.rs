//! A gateway on a free port, and how to call it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a harness fails by panicking in the test that uses it")]

use std::net::SocketAddr;
use std::sync::Arc;

use dialects::wire::Operation;
use engine::Engine;
use gateway::accept::{self, Accept};
use gateway::log::Sink;
use gateway::settings::{Effect, KeySettings, Rule};
use gateway::{CurrentGateway, GatewayVersion, Settings};
use model::Kind;
use serde_json::{Value, json};

pub struct Running {
    pub address: SocketAddr,
    pub serving: Arc<CurrentGateway>,
    pub accept: Arc<Accept>,
    pub reload: Arc<tokio::sync::Notify>,
    house: Option<tokio::task::JoinHandle<()>>,
    scheme: &'static str,
    http: reqwest::Client,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.accept.shutdown.cancel();
    }
}

pub fn settings() -> Settings {
    Settings::test(&["echo", "scripted"])
}

pub fn key(name: &str, tenant: &str) -> KeySettings {
    KeySettings {
        name: name.into(),
        tenant: tenant.into(),
        secret: format!("key-of-{name}"),
        scopes: Vec::new(),
        expires_at: None,
    }
}

/// Settings with a key of each of these names, all in one tenant.
pub fn with_keys(names: &[&str]) -> Settings {
    Settings { keys: names.iter().map(|name| key(name, "red")).collect(), ..settings() }
}

pub fn allow() -> Rule {
    Rule::new(Effect::Allow)
}

pub fn list(texts: &[&str]) -> Option<Vec<String>> {
    Some(texts.iter().map(|text| (*text).to_owned()).collect())
}

pub async fn start(settings: Settings) -> Running {
    start_with(settings, reqwest::Client::new()).await
}

pub async fn start_with(settings: Settings, http: reqwest::Client) -> Running {
    let agents = agents::BUILTIN.iter().map(|builtin| (builtin.build)(&agents::BuiltinSettings::default())).collect();
    start_agents(settings, agents, http).await
}

pub async fn start_agents(
    settings: Settings,
    agents: Vec<Arc<dyn model::ports::agent::Agent>>,
    http: reqwest::Client,
) -> Running {
    start_on(engine(agents).await, settings, http).await
}

pub async fn engine(agents: Vec<Arc<dyn model::ports::agent::Agent>>) -> Engine {
    let store = Arc::new(stores::memory::MemoryStore::new());
    Engine::builder(store).agents(agents).start().await.unwrap()
}

/// A server over an engine that is there already.
pub async fn start_on(engine: Engine, settings: Settings, http: reqwest::Client) -> Running {
    let listener = accept::bind(settings.listen, settings.backlog).unwrap();
    let address = listener.local_addr().unwrap();
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let sink = Sink::stderr(false, false).unwrap();
    let server = GatewayVersion::new(engine, Settings { listen: address, ..settings }, sink).unwrap();
    let accept = Arc::new(Accept::new(server));
    let serving = accept.serving.clone();
    let reload = Arc::new(tokio::sync::Notify::new());
    let house = tokio::spawn(serving.clone().housekeeping(accept.shutdown.clone(), reload.clone()));
    let accepting = accept.clone();
    tokio::spawn(async move { accepting.run(listener).await });
    Running { address, serving, accept, reload, house: Some(house), scheme, http }
}

impl Running {
    /// Ends, with everything put away.
    pub async fn stop(mut self) {
        self.accept.shutdown.cancel();
        self.house.take().unwrap().await.unwrap();
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.address)
    }

    pub fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.http.get(self.url(path))
    }

    pub fn post(&self, path: &str, body: &Value) -> reqwest::RequestBuilder {
        self.http.post(self.url(path)).json(body)
    }

    /// A call of 1.0 over JSON-RPC.
    pub fn rpc(&self, agent: &str, method: &str, params: &Value) -> reqwest::RequestBuilder {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.post(&format!("/a2a/{agent}"), &body).header("a2a-version", "1.0")
    }

    pub async fn metric(&self, line: &str) -> bool {
        let text = self.get("/metrics").send().await.unwrap().text().await.unwrap();
        text.lines().any(|one| one == line)
    }
}

/// The params of a send of 1.0.
pub fn saying(text: &str) -> Value {
    json!({ "message": { "messageId": uuid::Uuid::now_v7().to_string(), "role": "ROLE_USER", "parts": [{ "text": text }] } })
}

pub trait As {
    fn caller(self, name: &str) -> Self;
}

impl As for reqwest::RequestBuilder {
    fn caller(self, name: &str) -> Self {
        self.header("authorization", format!("Bearer key-of-{name}"))
    }
}

/// The same send in every generation and binding: its dialect, and the request.
pub fn sends(running: &Running, agent: &str) -> Vec<(&'static str, reqwest::RequestBuilder)> {
    let rpc = |method: &str, params: Value| {
        running
            .post(&format!("/a2a/{agent}"), &json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }))
    };
    let v0_3 = json!({ "message": { "kind": "message", "messageId": "m", "role": "user", "parts": [{ "kind": "text", "text": "hi" }] } });
    let rest_0_3 = json!({ "message": { "messageId": "m", "role": "ROLE_USER", "content": [{ "text": "hi" }] } });
    let v0_1 = json!({ "id": "t", "message": { "role": "user", "parts": [{ "type": "text", "text": "hi" }] } });
    let base = format!("/a2a/{agent}");
    vec![
        ("1.0 rpc", rpc("SendMessage", saying("hi")).header("a2a-version", "1.0")),
        ("1.0 rest", running.post(&format!("{base}/message:send"), &saying("hi")).header("a2a-version", "1.0")),
        ("0.3 rpc", rpc("message/send", v0_3)),
        ("0.3 rest", running.post(&format!("{base}/v1/message:send"), &rest_0_3)),
        ("0.1 rpc", rpc("tasks/send", v0_1)),
    ]
}

/// Sees to it that an answer refuses a send as its dialect has it.
pub async fn assert_refused(name: &str, kind: Kind, status: u16, answer: reqwest::Response) -> Value {
    let dialect = answer.headers()["x-a2a-dialect"].to_str().unwrap().to_owned();
    let line = dialects::wire(&dialect).unwrap().error_line(kind, Operation::Send);
    assert_eq!(line.http, status, "{name}: the table of {dialect}");
    assert_eq!(answer.status().as_u16(), status, "{name}");
    let body: Value = answer.json().await.unwrap();
    let code = body["error"]["code"].as_i64().or(body["code"].as_i64());
    let expected = if name == "1.0 rest" { i64::from(line.http) } else { i64::from(line.rpc) };
    assert_eq!(code, Some(expected), "{name}: {body}");
    body
}

/// Waits for something to be so.
pub async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let wait = async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), wait).await.expect(what);
}
