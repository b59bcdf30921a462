//! The graph server's JSON: messages, questions, the state of a thread.

use model::{Json, Part};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A message of a graph's state, or a chunk of one.
#[derive(Deserialize)]
pub(super) struct MessageSaid {
    #[serde(default)]
    pub(super) id: Option<String>,
    /// `ai`, `AIMessageChunk`, `human`, `tool` …; states with plain objects use `role` instead.
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    content: Value,
    #[serde(default)]
    pub(super) usage_metadata: Option<UsageSaid>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct UsageSaid {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    pub(super) total_tokens: u64,
}

impl MessageSaid {
    fn kind(&self) -> Option<&str> {
        self.kind.as_deref().or(self.role.as_deref())
    }

    pub(super) fn is_the_assistants(&self) -> bool {
        matches!(self.kind(), Some("ai" | "AIMessageChunk" | "assistant"))
    }

    pub(super) fn is_a_person_s(&self) -> bool {
        matches!(self.kind(), Some("human" | "user"))
    }

    pub(super) fn is_chunk(&self) -> bool {
        self.kind.as_deref() == Some("AIMessageChunk")
    }

    /// Its text: the content itself, or its text blocks.
    pub(super) fn text(&self) -> String {
        let block = |block: &Value| match block {
            Value::String(text) => Some(text.clone()),
            Value::Object(members) if members.get("type").and_then(Value::as_str) == Some("text") => {
                members.get("text").and_then(Value::as_str).map(str::to_owned)
            }
            _ => None,
        };
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => blocks.iter().filter_map(block).collect(),
            _ => String::new(),
        }
    }
}

/// A question of the graph, which waits for a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Interrupt {
    /// Old servers send none.
    #[serde(alias = "interrupt_id", default)]
    pub(super) id: String,
    #[serde(default = "null")]
    pub(super) value: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response_schema: Option<Json>,
}

fn null() -> Json {
    Json::from_value(&Value::Null)
}

impl Interrupt {
    pub(super) fn part(&self) -> Part {
        let text = serde_json::to_string(self).unwrap_or_default();
        Part::data(Json::parse(&text).unwrap_or_else(null))
    }

    /// The question's text for a person, if the graph gives one.
    pub(super) fn words(&self) -> Option<String> {
        match self.value.to_value() {
            Value::String(text) => Some(text),
            Value::Object(members) => ["question", "message", "prompt", "description", "text"]
                .iter()
                .find_map(|name| members.get(*name)?.as_str().map(str::to_owned)),
            _ => None,
        }
    }
}

/// The questions in an event.
#[derive(Default, Deserialize)]
pub(super) struct InterruptEvent {
    #[serde(rename = "__interrupt__", default)]
    pub(super) interrupts: Vec<Interrupt>,
}

/// The messages of a state, if it has any.
#[derive(Deserialize)]
pub(super) struct Values {
    #[serde(default)]
    pub(super) messages: Option<Vec<MessageSaid>>,
}

#[derive(Deserialize)]
pub(super) struct ThreadState {
    pub(super) values: Option<Json>,
    #[serde(default)]
    interrupts: Vec<Interrupt>,
    /// Where older servers put questions, before `interrupts`.
    #[serde(default)]
    tasks: Vec<TaskSaid>,
}

#[derive(Deserialize)]
struct TaskSaid {
    #[serde(default)]
    interrupts: Vec<Interrupt>,
}

impl ThreadState {
    pub(super) fn interrupts(&self) -> Vec<Interrupt> {
        let known = &self.interrupts;
        if known.is_empty() {
            self.tasks.iter().flat_map(|task| task.interrupts.clone()).collect()
        } else {
            known.clone()
        }
    }
}

/// The error of a run.
#[derive(Deserialize)]
pub(super) struct ErrorSaid {
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    message: Option<String>,
}

impl ErrorSaid {
    pub(super) fn words(self) -> Option<String> {
        self.message.filter(|message| !message.is_empty()).or(self.error)
    }
}
