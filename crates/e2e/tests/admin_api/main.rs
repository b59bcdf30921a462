//! The admin API of the built binary: who may do what, tenants, tasks and their logs, refusals.
//!
//! * `roles`: every operation by every kind of caller; secrets and audit lines in the same pass
//! * `tenants`: a caller of one tenant meets nothing of another
//! * `tasks`: lists, logs, streams, and tasks as each version answers them
//! * `messages`: answers in the name of owners, and messages of operators
//! * `bundle`: tasks exported for bug reports, and their copies elsewhere
//! * `changes`: keys, deliveries, the policy, the config
//! * `operations`: numbers of the last hour, limits, agents and the config in force
//! * `problems`: requests that are refused
//! * `playground`: calls to other servers, and receivers of webhooks
//! * `products`: systems, the market, shops, and the money of a task
//! * `commands`: every command of the `rialto` program by every kind of caller
//! * `remote`: that program with `--server`, and the same output as on the machine
//! * `open`: servers without credentials, and without the API

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod bundle;
mod changes;
mod commands;
mod messages;
mod open;
mod operations;
mod playground;
mod problems;
mod products;
mod remote;
mod roles;
mod tasks;
mod tenants;

use e2e::http::{Connection, Request, Response};
use e2e::{Client, Events, Server, fresh_id, script};
use serde_json::{Value, json};

pub(crate) const BASE: &str = "/api/admin/v1";
/// In every webhook of these tests; no answer may have it.
pub(crate) const TOKEN: &str = "tok-9f86d081884c7d65";
pub(crate) const CREDENTIALS: &str = "cred-2c26b46b68ffc68f";

/// Agents that do as they are told, and nothing that makes a start slow.
pub(crate) const AGENTS: &str = "agents: { scripted: { kind: scripted }, echo: { kind: echo } }\n";

pub(crate) fn start(config: &str) -> Server {
    Server::options().config(&format!("{AGENTS}auth: {{ required: true }}\n{config}")).start()
}

/// A key made by an operator of the machine: its id and secret.
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) secret: String,
}

pub(crate) fn key(server: &Server, name: &str, tenant: &str, scopes: &[&str]) -> Key {
    let mut words = vec!["keys", "create", name, "--tenant", tenant, "-o", "json"];
    scopes.iter().for_each(|scope| words.extend(["--scope", scope]));
    let done = server.operate(&words).output().expect("rialto runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let made: Value = serde_json::from_slice(&done.stdout).expect("json");
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    Key { id: text("id"), secret: text("secret") }
}

/// A caller of the API.
pub(crate) struct Api<'s> {
    server: &'s Server,
    secret: Option<String>,
}

impl<'s> Api<'s> {
    pub(crate) fn with(server: &'s Server, secret: &str) -> Api<'s> {
        Api { server, secret: Some(secret.to_owned()) }
    }

    pub(crate) fn anonymous(server: &'s Server) -> Api<'s> {
        Api { server, secret: None }
    }

    /// A caller with a new key.
    pub(crate) fn made(server: &'s Server, tenant: &str, scopes: &[&str]) -> Api<'s> {
        Api::with(server, &key(server, &fresh_id(), tenant, scopes).secret)
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> Request {
        let request = Request::new(method, &format!("{BASE}{path}"));
        match &self.secret {
            Some(secret) => request.header("authorization", &format!("Bearer {secret}")),
            None => request,
        }
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> Response {
        self.server.exchange(&self.request(method, path))
    }

    pub(crate) fn send(&self, method: &str, path: &str, body: &Value) -> Response {
        self.server.exchange(&self.request(method, path).json(body))
    }

    /// The JSON of a GET that succeeds.
    pub(crate) fn get(&self, path: &str) -> Value {
        let response = self.ask("GET", path);
        assert_eq!(response.status(), 200, "{path}: {}", response.text());
        response.json()
    }

    /// The log of a task as a stream, or the answer that came instead.
    pub(crate) fn stream(&self, task: &str, headers: &[(&str, &str)]) -> Result<Events, Response> {
        self.follow(&format!("/tasks/{task}/events"), headers)
    }

    /// A stream of an address, or the answer that came instead.
    pub(crate) fn follow(&self, path: &str, headers: &[(&str, &str)]) -> Result<Events, Response> {
        let mut request = self.request("GET", path).header("accept", "text/event-stream");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut connection = Connection::open(self.server.addr()).unwrap();
        connection.send(&request).unwrap();
        let head = connection.head().unwrap();
        if head.media_type() == "text/event-stream" {
            return Ok(Events::new(connection, head));
        }
        Err(connection.whole(head).unwrap())
    }
}

/// A client of the scripted agent with a key.
pub(crate) fn agent(server: &Server, secret: &str) -> Client {
    server.agent("scripted").with("Authorization", &format!("Bearer {secret}"))
}

/// Opens a task that asks, with a webhook that has secrets.
pub(crate) fn ask_with_webhook(client: &Client) -> String {
    let params = json!({
        "message": script(json!([{ "input": "which colour?" }, { "complete": "painted" }])),
        "configuration": {
            "taskPushNotificationConfig": {
                "id": "hook", "url": "http://127.0.0.1:9/hook", "token": TOKEN,
                "authentication": { "scheme": "Bearer", "credentials": CREDENTIALS },
            },
        },
    });
    let result = client.rpc("SendMessage", params).unwrap_or_else(|error| panic!("SendMessage: {error}"));
    result["task"]["id"].as_str().expect("a task").to_owned()
}

/// Checks a refusal: its status, and that it is a problem document about this request.
pub(crate) fn problem(response: &Response, status: u16) -> Value {
    assert_eq!(response.status(), status, "{}", response.text());
    assert_eq!(response.head.media_type(), "application/problem+json");
    let problem = response.json();
    assert_eq!(problem["status"], status, "{problem}");
    for member in ["type", "title", "detail"] {
        assert!(problem[member].as_str().is_some_and(|text| !text.is_empty()), "{member}: {problem}");
    }
    assert_eq!(problem["instance"].as_str(), response.head.header("x-request-id"), "{problem}");
    problem
}

/// The lines of the audit log.
pub(crate) fn audit(server: &Server) -> Vec<Value> {
    let text = std::fs::read_to_string(server.data().join("audit.log")).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
