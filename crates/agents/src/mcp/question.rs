//! What a tool asks its caller: as words of ours, and the caller's message as the answer.

use model::ports::agent::Words;
use model::{Inbound, Json, Message, Part};
use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value, json};

use super::choose;

/// The member of a message's metadata that says: a tool asks this.
const MARK: &str = "mcpQuestion";

#[derive(Clone, Debug)]
pub(super) struct Question {
    tool: String,
    message: String,
    /// What the answer must look like; nothing for one that is given elsewhere.
    schema: Option<Value>,
    url: Option<String>,
}

impl Question {
    pub(super) fn new(tool: &str, asked: ElicitRequestParams) -> Question {
        let (message, schema, url) = match asked {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                (message, serde_json::to_value(requested_schema).ok(), None)
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => (message, None, Some(url)),
            // Later versions may ask in ways that we have not said we can answer.
            _ => ("the tool asks something that cannot be shown here; answer \"cancel\"".into(), None, None),
        };
        Question { tool: tool.to_owned(), message, schema, url }
    }

    /// The question, and after an answer that was none also what is wrong with it.
    pub(super) fn words(&self, wrong: Option<&str>) -> Words {
        let mut data = Map::from_iter([("question".to_owned(), Value::String(self.message.clone()))]);
        data.extend(self.schema.clone().map(|schema| ("schema".to_owned(), schema)));
        data.extend(self.url.clone().map(|url| ("url".to_owned(), Value::String(url))));
        let text = match wrong {
            Some(wrong) => format!("{wrong}\n{}", self.message),
            None => self.message.clone(),
        };
        Words {
            parts: vec![Part::text(text), Part::data(Json::from_value(&Value::Object(data)))],
            metadata: Some(Json::from_value(&json!({ MARK: { "tool": self.tool } }))),
            extensions: Vec::new(),
        }
    }

    /// The message as the answer: an object by the schema, a text where the schema wants but one value, or `decline` or
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

/// Whether that message of ours was a tool's question.
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

/// A text as a value of the kind that is wanted.
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
