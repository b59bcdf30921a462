//! An A2A 1.0 client in both bindings, on a socket.
//!
//! Methods named `try_…` return a broken connection as an error, for tests that break it; the others fail the test.
//! An error answer of the server is a value either way, because tests check those as much as results.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::fold::is_settled;
use crate::http::{Connection, Request, Response};
use crate::poll::{PATIENCE, until};
use crate::sse::Events;

/// A client of one agent. Every call opens its own connection.
#[derive(Debug, Clone)]
pub struct Client {
    addr: SocketAddr,
    base: String,
    headers: Vec<(String, String)>,
    patience: Duration,
}

impl Client {
    pub fn new(addr: SocketAddr, base: &str) -> Self {
        Self {
            addr,
            base: base.to_owned(),
            headers: vec![("A2A-Version".to_owned(), "1.0".to_owned())],
            patience: PATIENCE,
        }
    }

    /// The same client with one header set, replacing another of that name.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> Self {
        let mut client = self.without(name);
        client.headers.push((name.to_owned(), value.to_owned()));
        client
    }

    #[must_use]
    pub fn without(&self, name: &str) -> Self {
        let mut client = self.clone();
        client.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        client
    }

    /// The same client with this time limit for an answer.
    #[must_use]
    pub fn within(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn base(&self) -> &str {
        &self.base
    }

    /// An unsent request to the agent, with this client's headers.
    pub fn request(&self, verb: &str, path: &str) -> Request {
        let path = format!("{}{path}", self.base);
        let path = if path.is_empty() { "/" } else { &path };
        Request::new(verb, path).headers(&self.headers)
    }

    /// Sends any request.
    pub fn exchange(&self, request: &Request) -> Response {
        self.try_exchange(request).expect("the server answers")
    }

    pub fn try_exchange(&self, request: &Request) -> io::Result<Response> {
        self.connect()?.exchange(request)
    }

    /// Sends any request; the response received within `patience`, a stream or not. `None` when nothing came, or
    /// when the server closed the connection without an answer.
    pub fn try_head_within(&self, request: &Request, patience: Duration) -> Option<Response> {
        let mut connection = Connection::open(self.addr).expect("the server accepts");
        connection.set_patience(patience).expect("a socket has a timeout");
        connection.send(request).ok()?;
        let head = connection.head().ok()?;
        if head.media_type() == "text/event-stream" || request.is_head() {
            return Some(Response { head, body: Vec::new() });
        }
        connection.whole(head).ok()
    }

    /// Sends any request; whether the server closed the connection without an answer.
    pub fn is_closed_by(&self, request: &Request, patience: Duration) -> bool {
        let mut connection = Connection::open(self.addr).expect("the server accepts");
        connection.set_patience(patience).expect("a socket has a timeout");
        let sent = connection.send(request).and_then(|()| connection.head());
        let silent = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
        sent.is_err_and(|error| !silent.contains(&error.kind()))
    }

    /// POSTs any bytes to the JSON-RPC endpoint as `application/json`.
    pub fn post(&self, body: impl Into<Vec<u8>>) -> Response {
        self.exchange(&self.request("POST", "").header("content-type", "application/json").body(body))
    }

    /// A JSON-RPC call: `result`, or the `error` object.
    #[allow(clippy::missing_errors_doc, clippy::result_large_err, reason = "the error is the server's answer")]
    pub fn rpc(&self, method: &str, params: Value) -> Result<Value, Value> {
        self.try_rpc(method, params).expect("the server answers")
    }

    pub fn try_rpc(&self, method: &str, params: Value) -> io::Result<Result<Value, Value>> {
        let (id, body) = envelope(method, params);
        let response = self.try_exchange(&self.request("POST", "").json(&body))?;
        Ok(unwrap_envelope(&id, response.json()))
    }

    /// A JSON-RPC call answered by a stream, or the `error` object that came instead.
    pub fn stream(&self, method: &str, params: Value) -> Result<Events, Value> {
        self.try_stream(method, params).expect("the server answers")
    }

    pub fn try_stream(&self, method: &str, params: Value) -> io::Result<Result<Events, Value>> {
        let (id, body) = envelope(method, params);
        let request = self.request("POST", "").header("accept", "text/event-stream").json(&body);
        Ok(self.try_open(&request)?.map_err(|response| match unwrap_envelope(&id, response.json()) {
            Ok(result) => panic!("{method} answered without a stream: {result}"),
            Err(error) => error,
        }))
    }

    /// An HTTP+JSON call; `path` is relative to the agent.
    pub fn rest(&self, verb: &str, path: &str, body: Option<&Value>) -> Response {
        let request = self.request(verb, path);
        self.exchange(&match body {
            Some(body) => request.json(body),
            None => request,
        })
    }

    /// An HTTP+JSON call answered by a stream, or the other answer.
    pub fn rest_stream(&self, verb: &str, path: &str, body: Option<&Value>) -> Result<Events, Response> {
        let request = self.request(verb, path).header("accept", "text/event-stream");
        let request = match body {
            Some(body) => request.json(body),
            None => request.header("content-type", "application/json"),
        };
        self.try_open(&request).expect("the server answers")
    }

    fn connect(&self) -> io::Result<Connection> {
        let connection = Connection::open(self.addr)?;
        connection.set_patience(self.patience)?;
        Ok(connection)
    }

    fn try_open(&self, request: &Request) -> io::Result<Result<Events, Response>> {
        let mut connection = self.connect()?;
        connection.send(request)?;
        let head = connection.head()?;
        if head.media_type() == "text/event-stream" {
            assert_eq!(head.status, 200, "a stream is an answer");
            Ok(Ok(Events::new(connection, head)))
        } else {
            Ok(Err(connection.whole(head)?))
        }
    }

    /// `GetTask`.
    ///
    /// # Panics
    /// When the server refuses.
    pub fn task(&self, id: &str) -> Value {
        self.rpc("GetTask", json!({ "id": id })).unwrap_or_else(|error| panic!("GetTask {id}: {error}"))
    }

    /// Waits until a task is in a terminal state.
    pub fn settled(&self, id: &str) -> Value {
        until(&format!("task {id} has settled"), PATIENCE, || {
            let task = self.task(id);
            is_settled(task["status"]["state"].as_str()?).then_some(task)
        })
    }

    /// Waits until a task is in `state`.
    pub fn in_state(&self, id: &str, state: &str) -> Value {
        until(&format!("task {id} is {state}"), PATIENCE, || {
            let task = self.task(id);
            (task["status"]["state"] == state).then_some(task)
        })
    }

    /// A blocking send that must return a task.
    ///
    /// # Panics
    /// When it gives anything else.
    pub fn send(&self, message: Value) -> Value {
        let result = self.rpc("SendMessage", send(message)).unwrap_or_else(|error| panic!("SendMessage: {error}"));
        assert!(result["task"].is_object(), "expected a task: {result}");
        result["task"].clone()
    }

    /// A send that returns as soon as the task exists.
    ///
    /// # Panics
    /// When it gives anything but a task.
    pub fn open(&self, message: Value) -> Value {
        let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
        let result = self.rpc("SendMessage", params).unwrap_or_else(|error| panic!("SendMessage: {error}"));
        assert!(result["task"].is_object(), "expected a task: {result}");
        result["task"].clone()
    }
}

fn envelope(method: &str, params: Value) -> (Value, Value) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let id = json!(NEXT.fetch_add(1, Ordering::Relaxed));
    let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    (id, body)
}

fn unwrap_envelope(id: &Value, mut answer: Value) -> Result<Value, Value> {
    assert_eq!(answer["jsonrpc"], "2.0", "a JSON-RPC answer: {answer}");
    assert_eq!(&answer["id"], id, "the answer to this request: {answer}");
    match (answer.get("result"), answer.get("error")) {
        (Some(_), None) => Ok(answer["result"].take()),
        (None, Some(_)) => Err(answer["error"].take()),
        _ => panic!("exactly one of result and error: {answer}"),
    }
}

/// A user's message of one text.
pub fn message(text: &str) -> Value {
    parts(json!([{ "text": text }]))
}

/// A user's message with a script.
pub fn script(steps: Value) -> Value {
    parts(json!([{ "data": { "script": steps } }]))
}

/// A user's message of any parts.
pub fn parts(parts: Value) -> Value {
    json!({ "messageId": fresh_id(), "role": "ROLE_USER", "parts": parts })
}

/// The parameters of a send.
pub fn send(message: Value) -> Value {
    json!({ "message": message })
}

/// The same message, for an existing task.
#[must_use]
pub fn to_task(mut message: Value, task: &str) -> Value {
    message["taskId"] = json!(task);
    message
}

/// An id that this run has not used.
pub fn fresh_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("e2e-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The `ErrorInfo` of a list of details.
fn error_info(details: &Value) -> Option<&Value> {
    details.as_array()?.iter().find(|detail| detail["@type"] == "type.googleapis.com/google.rpc.ErrorInfo")
}

/// Checks a JSON-RPC error: its code, a message, and an `ErrorInfo` with this reason.
///
/// # Panics
/// When it is another error, or in another shape.
pub fn assert_rpc_fault(error: &Value, code: i64, reason: &str) {
    assert_eq!(error["code"], code, "{error}");
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "an error says what is wrong: {error}");
    let info = error_info(&error["data"]).unwrap_or_else(|| panic!("an error has an ErrorInfo: {error}"));
    assert_info(info, reason, error);
}

/// Checks an HTTP+JSON error: status, the google.rpc status name, a message, and an `ErrorInfo` with this reason.
///
/// # Panics
/// When it is another error, or in another shape.
pub fn assert_rest_fault(response: &Response, status: u16, name: &str, reason: &str) {
    assert_eq!(response.status(), status, "{}", response.text());
    let body = response.json();
    let error = &body["error"];
    assert_eq!(error["code"], status, "{body}");
    assert_eq!(error["status"], name, "{body}");
    assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "an error says what is wrong: {body}");
    let info = error_info(&error["details"]).unwrap_or_else(|| panic!("an error has an ErrorInfo: {body}"));
    assert_info(info, reason, &body);
}

fn assert_info(info: &Value, reason: &str, whole: &Value) {
    assert_eq!(info["reason"], reason, "{whole}");
    assert_eq!(info["domain"], "a2a-protocol.org", "{whole}");
    if let Some(metadata) = info["metadata"].as_object() {
        assert!(metadata.values().all(Value::is_string), "metadata maps strings to strings: {whole}");
    }
}
