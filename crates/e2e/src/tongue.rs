//! The same calls in every generation and binding, with strict readers of the answers.
//!
//! A test uses operations that every generation has (open, watch, answer, cancel); a [`Speaker`] sends them as a
//! client of its generation does, and reads the answer as strictly as the first clients of that generation: a task
//! in another generation's shape fails the test.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{Client, fresh_id};
use crate::http::Response;
use crate::poll::{PATIENCE, until};
use crate::sse::{Events, Frame, Next};

/// A generation and a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tongue {
    /// 1.0 over JSON-RPC.
    V1,
    /// 1.0 over HTTP+JSON.
    V1Rest,
    /// 0.3 over JSON-RPC with `A2A-Version`, as 1.x SDKs send it when they speak 0.3.
    V03,
    /// 0.3 over HTTP+JSON.
    V03Rest,
    /// 0.3 and 0.2 over JSON-RPC as their own SDKs speak it: without a version.
    V02,
    /// The first generation.
    V01,
}

impl Tongue {
    pub const ALL: [Self; 6] = [Self::V1, Self::V1Rest, Self::V03, Self::V03Rest, Self::V02, Self::V01];

    /// The `x-a2a-dialect` of an answer to a request that only this generation has.
    pub fn dialect(self) -> &'static str {
        match self {
            Self::V1 | Self::V1Rest => "a2a_v1",
            Self::V03 | Self::V02 => "a2a_v0_3",
            Self::V03Rest => "a2a_v0_3_rest",
            Self::V01 => "a2a_v0_1",
        }
    }

    /// A client of `agent` in this generation and binding.
    pub fn speaker(self, agent: &Client) -> Speaker {
        let client = match self {
            Self::V1 | Self::V1Rest => agent.with("A2A-Version", "1.0"),
            Self::V03 => agent.with("A2A-Version", "0.3"),
            Self::V03Rest | Self::V02 | Self::V01 => agent.without("A2A-Version"),
        };
        Speaker { tongue: self, client }
    }

    fn part(self, part: Said<'_>) -> Value {
        match (self, part) {
            (Self::V1 | Self::V1Rest | Self::V03Rest, Said::Text(text)) => json!({ "text": text }),
            (Self::V03 | Self::V02, Said::Text(text)) => json!({ "kind": "text", "text": text }),
            (Self::V01, Said::Text(text)) => json!({ "type": "text", "text": text }),
            (Self::V1 | Self::V1Rest, Said::Script(steps)) => json!({ "data": { "script": steps } }),
            (Self::V03Rest, Said::Script(steps)) => json!({ "data": { "data": { "script": steps } } }),
            (Self::V03 | Self::V02, Said::Script(steps)) => json!({ "kind": "data", "data": { "script": steps } }),
            (Self::V01, Said::Script(steps)) => json!({ "type": "data", "data": { "script": steps } }),
        }
    }

    /// A user's message.
    pub(crate) fn message(self, part: Said<'_>, task: Option<&str>) -> Value {
        let parts = json!([self.part(part)]);
        let mut message = match self {
            Self::V1 | Self::V1Rest => json!({ "messageId": fresh_id(), "role": "ROLE_USER", "parts": parts }),
            Self::V03Rest => json!({ "messageId": fresh_id(), "role": "ROLE_USER", "content": parts }),
            Self::V03 | Self::V02 => {
                json!({ "kind": "message", "messageId": fresh_id(), "role": "user", "parts": parts })
            }
            Self::V01 => return json!({ "role": "user", "parts": parts }),
        };
        if let Some(task) = task {
            message["taskId"] = json!(task);
        }
        message
    }

    /// Reads a task as a client of this generation does.
    ///
    /// # Panics
    /// When it is not in this generation's shape.
    pub fn task(self, task: &Value) -> Seen {
        let context = match self {
            Self::V01 => "sessionId",
            _ => "contextId",
        };
        if matches!(self, Self::V03 | Self::V02) {
            assert_eq!(task["kind"], "task", "{self:?}: {task}");
        }
        let artifacts = task["artifacts"].as_array().cloned().unwrap_or_default();
        Seen {
            id: string(self, &task["id"], task),
            context: string(self, &task[context], task),
            state: self.state(&task["status"]["state"]),
            texts: artifacts.iter().map(|artifact| self.artifact(artifact).1).collect(),
            parts: artifacts.iter().map(|artifact| artifact["parts"].as_array().map_or(0, Vec::len)).collect(),
        }
    }

    /// The id and text of an artifact.
    fn artifact(self, artifact: &Value) -> (String, String) {
        let identity = match self {
            Self::V01 => {
                artifact["index"].as_u64().unwrap_or_else(|| panic!("an index: {self:?} {artifact}")).to_string()
            }
            _ => string(self, &artifact["artifactId"], artifact),
        };
        let parts = artifact["parts"].as_array().unwrap_or_else(|| panic!("{self:?}: {artifact}"));
        (identity, parts.iter().map(|part| self.text(part)).collect())
    }

    fn text(self, part: &Value) -> String {
        match self {
            Self::V03 | Self::V02 => assert_eq!(part["kind"], "text", "{self:?}: {part}"),
            Self::V01 => assert_eq!(part["type"], "text", "{self:?}: {part}"),
            Self::V1 | Self::V1Rest | Self::V03Rest => assert!(part.get("kind").is_none(), "{self:?}: {part}"),
        }
        string(self, &part["text"], part)
    }

    /// A state in the terms of 0.3.
    fn state(self, state: &Value) -> String {
        let text = state.as_str().unwrap_or_else(|| panic!("{self:?}: a state is a string: {state}"));
        match self {
            Self::V1 | Self::V1Rest | Self::V03Rest => {
                let bare = text.strip_prefix("TASK_STATE_").unwrap_or_else(|| panic!("{self:?}: {text}"));
                // 0.3 and 1.0 spell only this word differently.
                assert_ne!(bare, if self == Self::V03Rest { "CANCELED" } else { "CANCELLED" }, "{self:?}");
                bare.to_lowercase().replace('_', "-").replace("cancelled", "canceled")
            }
            Self::V03 | Self::V02 | Self::V01 => {
                assert_eq!(text, text.to_lowercase(), "{self:?}");
                text.to_owned()
            }
        }
    }

    /// Reads an event of a stream.
    ///
    /// # Panics
    /// When it is not in this generation's shape.
    pub fn event(self, frame: &Frame) -> Heard {
        let event = frame.event();
        match self {
            Self::V1 | Self::V1Rest | Self::V03Rest => {
                if event["task"].is_object() {
                    Heard::Task(self.task(&event["task"]))
                } else if event["statusUpdate"].is_object() {
                    let update = &event["statusUpdate"];
                    let last = (self == Self::V03Rest).then(|| update["final"] == true);
                    assert!(self == Self::V03Rest || update.get("final").is_none(), "{self:?}: {event}");
                    Heard::Status { state: self.state(&update["status"]["state"]), last }
                } else {
                    let update = &event["artifactUpdate"];
                    let (artifact, text) = self.artifact(&update["artifact"]);
                    Heard::Artifact { artifact, text, append: update["append"] == true }
                }
            }
            Self::V03 | Self::V02 => match event["kind"].as_str() {
                Some("task") => Heard::Task(self.task(&event)),
                Some("status-update") => {
                    string(self, &event["taskId"], &event);
                    string(self, &event["contextId"], &event);
                    let last = event["final"].as_bool();
                    assert!(last.is_some(), "{self:?}: {event}");
                    Heard::Status { state: self.state(&event["status"]["state"]), last }
                }
                Some("artifact-update") => {
                    let (artifact, text) = self.artifact(&event["artifact"]);
                    Heard::Artifact { artifact, text, append: event["append"] == true }
                }
                _ => panic!("{self:?}: {event}"),
            },
            Self::V01 => {
                string(self, &event["id"], &event);
                if event["artifact"].is_object() {
                    let (artifact, text) = self.artifact(&event["artifact"]);
                    Heard::Artifact { artifact, text, append: event["artifact"]["append"] == true }
                } else {
                    let last = event["final"].as_bool();
                    assert!(last.is_some(), "{self:?}: {event}");
                    Heard::Status { state: self.state(&event["status"]["state"]), last }
                }
            }
        }
    }
}

fn string(tongue: Tongue, value: &Value, whole: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{tongue:?}: a string is missing in {whole}")).to_owned()
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Said<'a> {
    Text(&'a str),
    Script(&'a Value),
}

/// A task as a reader of any generation sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub id: String,
    pub context: String,
    /// In the terms of 0.3.
    pub state: String,
    /// The text of each artifact.
    pub texts: Vec<String>,
    /// The number of parts of each artifact.
    pub parts: Vec<usize>,
}

/// An event as a reader of any generation sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    Task(Seen),
    /// `last` is `final`, where the generation has it.
    Status {
        state: String,
        last: Option<bool>,
    },
    Artifact {
        artifact: String,
        text: String,
        append: bool,
    },
}

impl Heard {
    /// The event's state, if it has one.
    pub fn state(&self) -> Option<&str> {
        match self {
            Self::Task(task) => Some(&task.state),
            Self::Status { state, .. } => Some(state),
            Self::Artifact { .. } => None,
        }
    }
}

/// A client of one agent in one generation and binding.
#[derive(Debug, Clone)]
pub struct Speaker {
    pub tongue: Tongue,
    pub client: Client,
}

impl Speaker {
    /// Opens a task with the script `steps`, without waiting for its end; returns the id that this client uses for
    /// it.
    pub fn open(&self, steps: &Value) -> String {
        self.opened(Said::Script(steps))
    }

    /// Opens a task with a text, without waiting for its end; returns the id that this client uses for it.
    pub fn begin(&self, text: &str) -> String {
        self.opened(Said::Text(text))
    }

    fn opened(&self, part: Said<'_>) -> String {
        let tongue = self.tongue;
        let message = tongue.message(part, None);
        match tongue {
            Tongue::V1 | Tongue::V1Rest => {
                let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
                tongue.task(&self.sent(params)["task"]).id
            }
            Tongue::V03 | Tongue::V02 => {
                let params = json!({ "message": message, "configuration": { "blocking": false } });
                tongue.task(&self.sent(params)).id
            }
            Tongue::V03Rest => {
                let params = json!({ "message": message, "configuration": { "blocking": false } });
                tongue.task(&self.sent(params)["task"]).id
            }
            // 0.1 has no send that returns at once; opening a stream and leaving it does the same.
            Tongue::V01 => {
                let id = fresh_id();
                let params = json!({ "id": id, "message": message });
                let mut events = self.client.stream("tasks/sendSubscribe", params).expect("the stream opens");
                events.take();
                id
            }
        }
    }

    /// Opens a task with the script `steps` and waits until it rests.
    pub fn ask(&self, steps: &Value) -> Seen {
        self.say(Said::Script(steps), None)
    }

    /// Opens a task with a text and waits until it rests.
    pub fn tell(&self, text: &str) -> Seen {
        self.say(Said::Text(text), None)
    }

    /// Sends a text to a task and waits until it rests.
    pub fn answer(&self, task: &str, text: &str) -> Seen {
        self.say(Said::Text(text), Some(task))
    }

    /// Opens a task with a text and streams it from its first event.
    pub fn stream(&self, text: &str) -> Watch {
        let tongue = self.tongue;
        let message = tongue.message(Said::Text(text), None);
        let params = match tongue {
            Tongue::V01 => json!({ "id": fresh_id(), "message": message }),
            _ => json!({ "message": message }),
        };
        let rpc = |method| self.client.stream(method, params.clone()).map_err(|error| error.to_string());
        let rest = |path| self.client.rest_stream("POST", path, Some(&params)).map_err(|response| response.text());
        let events = match tongue {
            Tongue::V1 => rpc("SendStreamingMessage"),
            Tongue::V03 | Tongue::V02 => rpc("message/stream"),
            Tongue::V01 => rpc("tasks/sendSubscribe"),
            Tongue::V1Rest => rest("/message:stream"),
            Tongue::V03Rest => rest("/v1/message:stream"),
        };
        let events = events.unwrap_or_else(|error| panic!("{tongue:?} {text}: {error}"));
        Watch { tongue, events }
    }

    /// The text of the task's status message.
    pub fn words(&self, task: &str) -> String {
        let found = self.try_get(task).unwrap_or_else(|error| panic!("{:?} {task}: {error}", self.tongue));
        let parts = if self.tongue == Tongue::V03Rest { "content" } else { "parts" };
        let said = found["status"]["message"][parts].as_array().cloned().unwrap_or_default();
        said.iter().map(|part| self.tongue.text(part)).collect()
    }

    fn say(&self, part: Said<'_>, task: Option<&str>) -> Seen {
        let tongue = self.tongue;
        let message = tongue.message(part, task);
        let result = match tongue {
            Tongue::V01 => {
                let id = task.map_or_else(fresh_id, str::to_owned);
                self.sent(json!({ "id": id, "message": message }))
            }
            _ => self.sent(json!({ "message": message })),
        };
        match tongue {
            Tongue::V1 | Tongue::V1Rest | Tongue::V03Rest => tongue.task(&result["task"]),
            Tongue::V03 | Tongue::V02 | Tongue::V01 => tongue.task(&result),
        }
    }

    fn sent(&self, params: Value) -> Value {
        let call = match self.tongue {
            Tongue::V1 => self.client.rpc("SendMessage", params),
            Tongue::V03 | Tongue::V02 => self.client.rpc("message/send", params),
            Tongue::V01 => self.client.rpc("tasks/send", params),
            Tongue::V1Rest => rest_result(&self.client.rest("POST", "/message:send", Some(&params))),
            Tongue::V03Rest => rest_result(&self.client.rest("POST", "/v1/message:send", Some(&params))),
        };
        call.unwrap_or_else(|error| panic!("{:?}: {error}", self.tongue))
    }

    /// # Errors
    /// The server's error object.
    #[allow(clippy::result_large_err, reason = "the error is the server's answer")]
    pub fn try_get(&self, task: &str) -> Result<Value, Value> {
        match self.tongue {
            Tongue::V1 => self.client.rpc("GetTask", json!({ "id": task })),
            Tongue::V03 | Tongue::V02 | Tongue::V01 => self.client.rpc("tasks/get", json!({ "id": task })),
            Tongue::V1Rest => rest_result(&self.client.rest("GET", &format!("/tasks/{task}"), None)),
            Tongue::V03Rest => rest_result(&self.client.rest("GET", &format!("/v1/tasks/{task}"), None)),
        }
    }

    pub fn get(&self, task: &str) -> Seen {
        let found = self.try_get(task).unwrap_or_else(|error| panic!("{:?} {task}: {error}", self.tongue));
        self.tongue.task(&found)
    }

    /// Waits until a task is in one of these states.
    pub fn rest(&self, task: &str, states: &[&str]) -> Seen {
        until(&format!("{task} is one of {states:?}"), PATIENCE, || {
            let seen = self.get(task);
            states.contains(&seen.state.as_str()).then_some(seen)
        })
    }

    /// # Errors
    /// The server's error object.
    #[allow(clippy::result_large_err, reason = "the error is the server's answer")]
    pub fn try_cancel(&self, task: &str) -> Result<Value, Value> {
        match self.tongue {
            Tongue::V1 => self.client.rpc("CancelTask", json!({ "id": task })),
            Tongue::V03 | Tongue::V02 | Tongue::V01 => self.client.rpc("tasks/cancel", json!({ "id": task })),
            Tongue::V1Rest => rest_result(&self.client.rest("POST", &format!("/tasks/{task}:cancel"), None)),
            Tongue::V03Rest => rest_result(&self.client.rest("POST", &format!("/v1/tasks/{task}:cancel"), None)),
        }
    }

    pub fn cancel(&self, task: &str) -> Seen {
        let found = self.try_cancel(task).unwrap_or_else(|error| panic!("{:?} {task}: {error}", self.tongue));
        self.tongue.task(&found)
    }

    /// Subscribes to a task.
    pub fn watch(&self, task: &str) -> Watch {
        let params = json!({ "id": task });
        let events = match self.tongue {
            Tongue::V1 => self.client.stream("SubscribeToTask", params).map_err(|error| error.to_string()),
            Tongue::V03 | Tongue::V02 | Tongue::V01 => {
                self.client.stream("tasks/resubscribe", params).map_err(|error| error.to_string())
            }
            Tongue::V1Rest => self
                .client
                .rest_stream("GET", &format!("/tasks/{task}:subscribe"), None)
                .map_err(|response| response.text()),
            Tongue::V03Rest => self
                .client
                .rest_stream("POST", &format!("/v1/tasks/{task}:subscribe"), None)
                .map_err(|response| response.text()),
        };
        let events = events.unwrap_or_else(|error| panic!("{:?} {task}: {error}", self.tongue));
        Watch { tongue: self.tongue, events }
    }
}

/// The body of an answer, or the error.
fn rest_result(response: &Response) -> Result<Value, Value> {
    if response.status() == 200 { Ok(response.json()) } else { Err(response.json()) }
}

/// An open stream in one generation and binding.
#[derive(Debug)]
pub struct Watch {
    pub tongue: Tongue,
    pub events: Events,
}

impl Watch {
    pub fn hear(&mut self) -> Heard {
        let frame = self.events.take();
        self.tongue.event(&frame)
    }

    /// All events to the end of the stream. Checks that `final` is true on the last event only.
    pub fn rest(&mut self) -> Vec<Heard> {
        let heard: Vec<Heard> = self.events.rest().iter().map(|frame| self.tongue.event(frame)).collect();
        for (index, event) in heard.iter().enumerate() {
            if let Heard::Status { last: Some(last), .. } = event {
                assert_eq!(*last, index + 1 == heard.len(), "{:?}: final ends a stream: {heard:?}", self.tongue);
            }
        }
        heard
    }

    /// Whether the stream is open and silent for a while.
    pub fn is_quiet(&mut self, patience: Duration) -> bool {
        matches!(self.events.next_within(patience), Ok(Next::Quiet))
    }
}

/// The result of these events: the last state, and the text of each artifact in order.
pub fn folded(events: &[Heard]) -> (String, Vec<String>) {
    let mut state = String::new();
    let mut artifacts: Vec<(String, String)> = Vec::new();
    for event in events {
        match event {
            Heard::Task(task) => {
                state.clone_from(&task.state);
                artifacts = task.texts.iter().map(|text| (String::new(), text.clone())).collect();
            }
            Heard::Status { state: new, .. } => state.clone_from(new),
            Heard::Artifact { artifact, text, append } => {
                match (artifacts.iter_mut().find(|(known, _)| known == artifact), append) {
                    (Some((_, held)), true) => held.push_str(text),
                    (Some((_, held)), false) => held.clone_from(text),
                    (None, false) => artifacts.push((artifact.clone(), text.clone())),
                    (None, true) => panic!("a chunk for an unknown artifact {artifact}: {events:?}"),
                }
            }
        }
    }
    (state, artifacts.into_iter().map(|(_, text)| text).collect())
}
