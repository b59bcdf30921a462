//! A tool's question to its caller as a message, and the caller's message as the answer.

use model::ports::agent::AgentMessage;
use model::{Inbound, Json, Message, Part};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value, json};

use super::choose;

/// The metadata member that marks a tool's question.
const MARK: &str = "mcpQuestion";

#[derive(Clone, Debug)]
pub(super) struct ToolQuestion {
    tool: String,
    message: String,
    /// The schema of the answer; none for one that is given elsewhere.
    schema: Option<Value>,
    url: Option<String>,
}

impl ToolQuestion {
    pub(super) fn new(tool: &str, asked: ElicitRequestParams) -> ToolQuestion {
        let (message, schema, url) = match asked {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                (message, serde_json::to_value(requested_schema).ok(), None)
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => (message, None, Some(url)),
            // Later versions may have forms that we did not announce.
            _ => ("the tool asks something that cannot be shown here; answer \"cancel\"".into(), None, None),
        };
        ToolQuestion { tool: tool.to_owned(), message, schema, url }
    }

    /// The question; after an invalid answer, with the error.
    pub(super) fn words(&self, wrong: Option<&str>) -> AgentMessage {
        let mut data = Map::from_iter([("question".to_owned(), Value::String(self.message.clone()))]);
        data.extend(self.schema.clone().map(|schema| ("schema".to_owned(), schema)));
        data.extend(self.url.clone().map(|url| ("url".to_owned(), Value::String(url))));
        let text = match wrong {
            Some(wrong) => format!("{wrong}\n{}", self.message),
            None => self.message.clone(),
        };
        AgentMessage {
            parts: vec![Part::text(text), Part::data(Json::from_value(&Value::Object(data)))],
            metadata: Some(Json::from_value(&json!({ MARK: { "tool": self.tool } }))),
            extensions: Vec::new(),
        }
    }

    /// Reads the answer: an object by the schema, a text where the schema has a single value, or `decline` or
    /// `cancel`.
    pub(super) fn answer(&self, inbound: &Inbound) -> Result<ElicitResult, String> {
        let text = choose::text(inbound).map(|text| text.trim().to_owned());
        if let Some(data) = choose::data(inbound) {
            return match data.get("action").and_then(Value::as_str).and_then(action) {
                Some(ElicitationAction::Accept) => {
                    Ok(accept(data.get("content").cloned().unwrap_or_else(|| json!({}))))
                }
                Some(other) => Ok(ElicitResult::new(other)),
                None => Ok(accept(Value::Object(data))),
            };
        }
        let text = text.unwrap_or_default();
        match action(&text.to_lowercase()) {
            Some(ElicitationAction::Accept) | None => {}
            Some(other) => return Ok(ElicitResult::new(other)),
        }
        let properties = self.schema.as_ref().and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        let Some(properties) = properties else { return Ok(ElicitResult::new(ElicitationAction::Accept)) };
        let mut wanted = properties.iter();
        match (wanted.next(), wanted.next()) {
            (None, _) => Ok(accept(json!({}))),
            (Some((name, kind)), None) => {
                let value = value(&text, kind).map_err(|wrong| format!("{name} {wrong}"))?;
                Ok(accept(Value::Object(Map::from_iter([(name.clone(), value)]))))
            }
            (Some(_), Some(_)) => {
                let names: Vec<&str> = properties.keys().map(String::as_str).collect();
                Err(format!("answer with a data part that has {}", names.join(", ")))
            }
        }
    }
}

/// Whether this message of ours was a tool's question.
pub(super) fn is_question(message: &Message) -> bool {
    message.metadata.as_ref().is_some_and(|metadata| metadata.to_value().get(MARK).is_some())
}

fn accept(content: Value) -> ElicitResult {
    ElicitResult::new(ElicitationAction::Accept).with_content(content)
}

fn action(word: &str) -> Option<ElicitationAction> {
    match word {
        "accept" => Some(ElicitationAction::Accept),
        "decline" => Some(ElicitationAction::Decline),
        "cancel" => Some(ElicitationAction::Cancel),
        _ => None,
    }
}

/// Parses a text as a value of the schema's type.
fn value(text: &str, kind: &Value) -> Result<Value, String> {
    match kind.get("type").and_then(Value::as_str) {
        Some("integer") => text.parse::<i64>().map(Value::from).map_err(|_| "must be a whole number".into()),
        Some("number") => text.parse::<f64>().map(Value::from).map_err(|_| "must be a number".into()),
        Some("boolean") => match text.to_lowercase().as_str() {
            "true" | "yes" | "y" => Ok(Value::Bool(true)),
            "false" | "no" | "n" => Ok(Value::Bool(false)),
            _ => Err("must be yes or no".into()),
        },
        _ => Ok(Value::String(text.to_owned())),
    }
}
