//! Users of the market and their requests, by JSON-RPC and by REST.

use std::io;
use std::net::SocketAddr;
use std::process::Output;

use e2e::http::{Connection, Request, Response};
use e2e::{Events, Server};
use serde_json::{Value, json};

/// A market without the demo: no party acts automatically.
pub(crate) const PLAIN: &str = "agents: { echo: { kind: echo } }\n";

pub(crate) fn start(market: &str) -> Server {
    Server::options().config(&format!("{PLAIN}market: {market}\n")).start()
}

/// A user with a key.
#[derive(Clone, Debug)]
pub(crate) struct Person {
    pub(crate) id: String,
    pub(crate) key: String,
    addr: SocketAddr,
}

pub(crate) fn output(mut command: std::process::Command) -> Output {
    command.output().expect("the command runs")
}

fn said(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Creates a user with a key and a balance.
pub(crate) fn open(server: &Server, credit: &str, more: &[&str]) -> Person {
    let mut words = vec!["market", "open", "--key", "user", "--json"];
    words.extend(more);
    let made = said(&output(server.operate(&words)));
    let text = |name: &str| made[name].as_str().unwrap_or_else(|| panic!("{name}: {made}")).to_owned();
    let person = Person { id: text("user_id"), key: text("api_key"), addr: server.addr() };
    if credit != "0" {
        said(&output(server.operate(&["market", "credit", &person.id, credit, "--json"])));
    }
    person
}

/// Limits that let a buyer's agent spend the whole balance.
pub(crate) const FREE_HAND: &[&str] = &["--per-call", "1000000", "--daily", "100000000"];

impl Person {
    pub(crate) fn new(server: &Server, id: &str, key: &str) -> Person {
        Person { id: id.to_owned(), key: key.to_owned(), addr: server.addr() }
    }

    pub(crate) fn sign(&self, request: Request) -> Request {
        request.header("X-Api-Key", &self.key).header("X-Platform-User-Id", &self.id)
    }

    pub(crate) fn try_exchange(&self, request: Request) -> io::Result<Response> {
        Connection::open(self.addr)?.exchange(&self.sign(request))
    }

    pub(crate) fn rpc_at(&self, path: &str, method: &str, params: Value) -> Result<Value, Value> {
        let body = json!({ "jsonrpc": "2.0", "id": "r-1", "method": method, "params": params });
        let response = self.try_exchange(Request::new("POST", path).json(&body)).expect("the server answers");
        assert_eq!(response.status(), 200, "{}", response.text());
        let answer = response.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("r-1")), "{answer}");
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    pub(crate) fn rpc(&self, method: &str, params: Value) -> Result<Value, Value> {
        self.rpc_at("/a2a", method, params)
    }

    pub(crate) fn try_rest(&self, verb: &str, path: &str, key: Option<&str>, body: &Value) -> io::Result<(u16, Value)> {
        let mut request = Request::new(verb, &format!("/api/v1{path}"));
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        let request = if body.is_null() { request } else { request.json(body) };
        let response = self.try_exchange(request)?;
        let answer = response.json();
        assert!(answer["timestamp"].is_i64() && answer["message"].is_string(), "{answer}");
        assert_eq!(answer["code"] == 0, response.status() == 200, "{} {answer}", response.status());
        Ok((response.status(), answer))
    }

    pub(crate) fn rest(&self, verb: &str, path: &str, body: &Value) -> (u16, Value) {
        self.try_rest(verb, path, None, body).expect("the server answers")
    }

    /// The `data` of a call that must succeed.
    pub(crate) fn ok(&self, verb: &str, path: &str, body: &Value) -> Value {
        let (status, answer) = self.rest(verb, path, body);
        assert_eq!(status, 200, "{verb} {path}: {answer}");
        answer["data"].clone()
    }

    /// The status and code of a call that must fail.
    pub(crate) fn refused(&self, verb: &str, path: &str, body: &Value) -> (u16, i64) {
        let (status, answer) = self.rest(verb, path, body);
        assert_ne!(status, 200, "{verb} {path}: {answer}");
        (status, answer["code"].as_i64().unwrap())
    }

    pub(crate) fn act(&self, transaction: &str, verb: &str, body: &Value) -> Value {
        self.ok("POST", &format!("/transactions/{transaction}/{verb}"), body)
    }

    pub(crate) fn subscribe(&self, id: &str) -> Events {
        let body =
            json!({ "jsonrpc": "2.0", "id": "sub-001", "method": "tasks/sendSubscribe", "params": { "id": id } });
        let mut connection = Connection::open(self.addr).expect("the server is there");
        connection.send(&self.sign(Request::new("POST", "/a2a").json(&body))).expect("it is sent");
        let head = connection.head().expect("the server answers");
        assert_eq!((head.status, head.media_type()), (200, "text/event-stream"));
        Events::new(connection, head)
    }

    /// Offers a capability with a human seller.
    pub(crate) fn sell(&self, price: &str, more: Value) -> String {
        let mut body = json!({
            "title": "OCR of invoices", "description": "Reads an invoice", "category": "documents",
            "capability_type": "service", "pricing_model": "per_use", "price_ut": price,
        });
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        let made = self.ok("POST", "/capabilities", &body);
        let id = made["id"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        self.ok("POST", &format!("/capabilities/{id}/submit-review"), &Value::Null);
        id
    }

    pub(crate) fn wallet(&self) -> (String, String) {
        let ut = self.ok("GET", "/wallet", &Value::Null)["ut"].clone();
        let text = |name: &str| ut[name].as_str().unwrap_or_else(|| panic!("{ut}")).to_owned();
        (text("available"), text("frozen"))
    }
}

/// The findings of `rialto market verify`, which must be empty.
pub(crate) fn verify(server: &Server) -> Value {
    said(&output(server.operate(&["market", "verify", "--json"])))
}
