//! Every operation of a caller, in every generation and binding that has it, and a common classification of the
//! answers.

use serde_json::{Value, json};

use crate::client::fresh_id;
use crate::http::{Connection, Head, Request};
use crate::poll::PATIENCE;
use crate::sse::Events;
use crate::tongue::{Said, Speaker, Tongue};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    Send,
    Stream,
    /// A message to an existing task.
    Continue,
    ContinueStream,
    Get,
    List,
    Cancel,
    Subscribe,
    /// A subscription that resumes after an event of the task, by `Last-Event-ID`.
    SubscribeResumed,
    /// A message that opens a stream, with the `Last-Event-ID` of an event of the task.
    StreamResumed,
    PushCreate,
    PushGet,
    PushList,
    PushDelete,
    ExtendedCard,
}

impl Operation {
    /// The operations on a task; the cancel is last, since it ends the task.
    pub const ON_A_TASK: [Self; 11] = [
        Self::Get,
        Self::Subscribe,
        Self::SubscribeResumed,
        Self::StreamResumed,
        Self::PushCreate,
        Self::PushGet,
        Self::PushList,
        Self::PushDelete,
        Self::Continue,
        Self::ContinueStream,
        Self::Cancel,
    ];

    /// The operations without a task.
    pub const ON_NONE: [Self; 4] = [Self::Send, Self::Stream, Self::List, Self::ExtendedCard];

    /// The same operation without `Last-Event-ID`, if this one has it.
    fn resumes(self) -> Option<Self> {
        match self {
            Self::SubscribeResumed => Some(Self::Subscribe),
            Self::StreamResumed => Some(Self::Stream),
            Self::Send
            | Self::Stream
            | Self::Continue
            | Self::ContinueStream
            | Self::Get
            | Self::List
            | Self::Cancel
            | Self::Subscribe
            | Self::PushCreate
            | Self::PushGet
            | Self::PushList
            | Self::PushDelete
            | Self::ExtendedCard => None,
        }
    }
}

/// The outcome of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    Allowed,
    /// Missing or wrong credentials.
    Unauthenticated,
    Forbidden,
    /// No such task.
    Missing,
    /// Any other error.
    Refused,
}

/// An answer, or the first frame of a stream.
#[derive(Debug, Clone)]
pub struct Answer {
    pub head: Head,
    pub body: String,
    pub verdict: Verdict,
}

impl Answer {
    /// The part of an answer that could tell a stranger something: status, significant headers, body. Values that
    /// the request itself contained are masked.
    pub fn face(&self, sent: &str) -> (u16, Vec<(String, String)>, String) {
        let dull = ["x-request-id", "date"];
        let headers = self.head.headers.iter().filter(|(name, _)| !dull.contains(&name.to_lowercase().as_str()));
        (self.head.status, headers.cloned().collect(), self.body.replace(sent, "<sent>"))
    }
}

/// An operation on the wire.
enum Wire {
    Rpc(&'static str, Value),
    Rest(&'static str, String, Option<Value>),
}

/// A webhook URL without a listener: the tests here are about the config.
pub(crate) const HOOK: &str = "http://127.0.0.1:9/hook";
pub(crate) const CONFIG: &str = "one";

impl Speaker {
    /// Requests an operation; `None` where the generation does not have it.
    pub fn ask_for(&self, operation: Operation, task: &str) -> Option<Answer> {
        if let Some(plain) = operation.resumes() {
            let client = self.client.with("Last-Event-ID", &format!("{task}.1"));
            return Speaker { client, ..self.clone() }.ask_for(plain, task);
        }
        let wire = self.wire(operation, task)?;
        let (request, rpc) = match wire {
            Wire::Rpc(method, params) => {
                let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
                (self.client.request("POST", "").json(&body), true)
            }
            Wire::Rest(verb, path, Some(body)) => (self.client.request(verb, &path).json(&body), false),
            Wire::Rest(verb, path, None) => (self.client.request(verb, &path), false),
        };
        let (head, body) = self.first_word(&request);
        let verdict = verdict(&head, &body, rpc);
        Some(Answer { head, body, verdict })
    }

    fn first_word(&self, request: &Request) -> (Head, String) {
        let mut connection = Connection::open(self.client.addr()).expect("the server accepts");
        connection.send(request).expect("the server reads");
        let head = connection.head().expect("the server answers");
        if head.media_type() == "text/event-stream" {
            let mut events = Events::new(connection, head.clone());
            let frame = events.next_within(PATIENCE).expect("a stream says something");
            let crate::sse::Next::Frame(frame) = frame else { panic!("a stream without a word") };
            return (head, frame.data);
        }
        let response = connection.whole(head).expect("the answer is whole");
        (response.head.clone(), response.text())
    }

    fn wire(&self, operation: Operation, task: &str) -> Option<Wire> {
        use Operation as O;
        let tongue = self.tongue;
        let target = matches!(operation, O::Continue | O::ContinueStream).then_some(task);
        let message = tongue.message(Said::Text("hello"), target.filter(|_| tongue != Tongue::V01));
        let config = json!({ "id": CONFIG, "url": HOOK, "token": "t" });
        let id = json!({ "id": task });
        let in_rpc = |method, params| Some(Wire::Rpc(method, params));
        let in_rest = |verb, path: String, body| Some(Wire::Rest(verb, path, body));
        match tongue {
            Tongue::V1 => match operation {
                O::Send | O::Continue => in_rpc("SendMessage", json!({ "message": message })),
                O::Stream | O::StreamResumed | O::ContinueStream => {
                    in_rpc("SendStreamingMessage", json!({ "message": message }))
                }
                O::Get => in_rpc("GetTask", id),
                O::List => in_rpc("ListTasks", json!({})),
                O::Cancel => in_rpc("CancelTask", id),
                O::Subscribe | O::SubscribeResumed => in_rpc("SubscribeToTask", id),
                O::PushCreate => in_rpc(
                    "CreateTaskPushNotificationConfig",
                    json!({ "taskId": task, "id": CONFIG, "url": HOOK, "token": "t" }),
                ),
                O::PushGet => in_rpc("GetTaskPushNotificationConfig", json!({ "taskId": task, "id": CONFIG })),
                O::PushList => in_rpc("ListTaskPushNotificationConfigs", json!({ "taskId": task })),
                O::PushDelete => in_rpc("DeleteTaskPushNotificationConfig", json!({ "taskId": task, "id": CONFIG })),
                O::ExtendedCard => in_rpc("GetExtendedAgentCard", json!({})),
            },
            Tongue::V1Rest | Tongue::V03Rest => {
                let base = if tongue == Tongue::V1Rest { "" } else { "/v1" };
                let body = Some(json!({ "message": message }));
                let configs = format!("{base}/tasks/{task}/pushNotificationConfigs");
                match operation {
                    O::Send | O::Continue => in_rest("POST", format!("{base}/message:send"), body),
                    O::Stream | O::StreamResumed | O::ContinueStream => {
                        in_rest("POST", format!("{base}/message:stream"), body)
                    }
                    O::Get => in_rest("GET", format!("{base}/tasks/{task}"), None),
                    O::List if tongue == Tongue::V03Rest => None,
                    O::List => in_rest("GET", "/tasks".to_owned(), None),
                    O::Cancel => in_rest("POST", format!("{base}/tasks/{task}:cancel"), Some(json!({}))),
                    O::Subscribe | O::SubscribeResumed => {
                        in_rest("POST", format!("{base}/tasks/{task}:subscribe"), Some(json!({})))
                    }
                    O::PushCreate if tongue == Tongue::V1Rest => in_rest("POST", configs, Some(config)),
                    O::PushCreate => in_rest("POST", configs, Some(json!({ "pushNotificationConfig": config }))),
                    O::PushGet => in_rest("GET", format!("{configs}/{CONFIG}"), None),
                    O::PushList => in_rest("GET", configs, None),
                    O::PushDelete => in_rest("DELETE", format!("{configs}/{CONFIG}"), None),
                    O::ExtendedCard if tongue == Tongue::V1Rest => {
                        in_rest("GET", "/extendedAgentCard".to_owned(), None)
                    }
                    O::ExtendedCard => in_rest("GET", "/v1/card".to_owned(), None),
                }
            }
            Tongue::V03 | Tongue::V02 => match operation {
                O::Send | O::Continue => in_rpc("message/send", json!({ "message": message })),
                O::Stream | O::StreamResumed | O::ContinueStream => {
                    in_rpc("message/stream", json!({ "message": message }))
                }
                O::Get => in_rpc("tasks/get", id),
                O::List => None,
                O::Cancel => in_rpc("tasks/cancel", id),
                O::Subscribe | O::SubscribeResumed => in_rpc("tasks/resubscribe", id),
                O::PushCreate => in_rpc(
                    "tasks/pushNotificationConfig/set",
                    json!({ "taskId": task, "pushNotificationConfig": config }),
                ),
                O::PushGet => in_rpc(
                    "tasks/pushNotificationConfig/get",
                    json!({ "id": task, "pushNotificationConfigId": CONFIG }),
                ),
                O::PushList => in_rpc("tasks/pushNotificationConfig/list", id),
                O::PushDelete => in_rpc(
                    "tasks/pushNotificationConfig/delete",
                    json!({ "id": task, "pushNotificationConfigId": CONFIG }),
                ),
                O::ExtendedCard => in_rpc("agent/getAuthenticatedExtendedCard", json!({})),
            },
            // In 0.1 an unknown id opens a task: there is no missing task to send to.
            Tongue::V01 => match operation {
                O::Send => in_rpc("tasks/send", json!({ "id": fresh_id(), "message": message })),
                O::Stream | O::StreamResumed => {
                    in_rpc("tasks/sendSubscribe", json!({ "id": fresh_id(), "message": message }))
                }
                O::Get => in_rpc("tasks/get", id),
                O::Cancel => in_rpc("tasks/cancel", id),
                O::Subscribe | O::SubscribeResumed => in_rpc("tasks/resubscribe", id),
                O::PushCreate => in_rpc(
                    "tasks/pushNotification/set",
                    json!({ "id": task, "pushNotificationConfig": { "url": HOOK, "token": "t" } }),
                ),
                O::PushGet => in_rpc("tasks/pushNotification/get", id),
                O::Continue | O::ContinueStream | O::List | O::PushList | O::PushDelete | O::ExtendedCard => None,
            },
        }
    }
}

fn verdict(head: &Head, body: &str, rpc: bool) -> Verdict {
    let value: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    let code = if rpc { value["error"]["code"].as_i64() } else { None };
    match (head.status, code) {
        (401, _) | (_, Some(-32041)) => Verdict::Unauthenticated,
        (403, _) | (_, Some(-32043)) => Verdict::Forbidden,
        (404, _) | (_, Some(-32001)) => Verdict::Missing,
        (200..=299, None) if value["error"].is_null() => Verdict::Allowed,
        (200..=299, None) if value["error"]["code"] == -32001 => Verdict::Missing,
        _ => Verdict::Refused,
    }
}
