//! Chooses the tool and the arguments of a message.
//!
//! In this order: a data part `{"tool": …, "arguments": {…}}`; `skill` (or `skillId`, `skill_id`) in the metadata,
//! with a data part or, for a tool with a single text parameter, the text as arguments; the only tool, where there
//! is just one. The names are those that a policy reads: no tool is chosen that a policy could not see.

use model::ports::agent::EndState;
use model::{Content, Inbound, Json};
use rmcp::model::{JsonObject, Tool};
use serde_json::Value;

/// The members that name a tool.
const NAMES: [&str; 4] = ["tool", "skill", "skillId", "skill_id"];

#[derive(Debug, PartialEq)]
pub(super) struct ToolChoice {
    pub(super) tool: String,
    pub(super) arguments: JsonObject,
}

/// Why no tool is called, and how the turn ends.
#[derive(Debug, PartialEq)]
pub(super) struct Error {
    pub(super) state: EndState,
    pub(super) says: String,
}

pub(super) fn choose(inbound: &Inbound, tools: &[Tool]) -> Result<ToolChoice, Error> {
    if tools.is_empty() {
        return Err(Error { state: EndState::Failed, says: "the MCP server has no tools".into() });
    }
    let data = data(inbound);
    if let Some((tool, arguments)) = data.as_ref().and_then(named_in_data) {
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            Value::Null => JsonObject::new(),
            _ => {
                let says = "arguments must be an object; send {\"tool\": name, \"arguments\": {…}}".into();
                return Err(Error { state: EndState::Rejected, says });
            }
        };
        return Ok(ToolChoice { tool: known(tools, &tool)?.name.to_string(), arguments });
    }
    let tool = match (named_in_metadata(inbound), tools) {
        (Some(name), _) => known(tools, &name)?,
        (None, [only]) => only,
        (None, _) => {
            let says = format!(
                "say which tool: send a data part {{\"tool\": name, \"arguments\": {{…}}}}, or its name as metadata.skill; the tools are {}",
                list(tools)
            );
            return Err(Error { state: EndState::InputRequired, says });
        }
    };
    let arguments = match (data, text(inbound), text_parameter(tool)) {
        (Some(arguments), ..) => arguments,
        (None, Some(text), Some(name)) => JsonObject::from_iter([(name, Value::String(text))]),
        (None, _, None) if required(tool).is_empty() => JsonObject::new(),
        (None, ..) => {
            let schema = Value::Object((*tool.input_schema).clone());
            let says = format!("{} needs its arguments as a data part, by this schema: {schema}", tool.name);
            return Err(Error { state: EndState::InputRequired, says });
        }
    };
    Ok(ToolChoice { tool: tool.name.to_string(), arguments })
}

/// Whether a message names a tool.
pub(super) fn names_a_tool(inbound: &Inbound) -> bool {
    data(inbound).as_ref().and_then(named_in_data).is_some() || named_in_metadata(inbound).is_some()
}

fn known<'t>(tools: &'t [Tool], name: &str) -> Result<&'t Tool, Error> {
    tools.iter().find(|tool| tool.name == name).ok_or_else(|| {
        let says = format!("there is no tool {:?}; the tools are {}", crate::events::short(name), list(tools));
        Error { state: EndState::Rejected, says }
    })
}

/// The names of the tools, as many as a person reads.
fn list(tools: &[Tool]) -> String {
    const SHOWN: usize = 30;
    let names: Vec<&str> = tools.iter().take(SHOWN).map(|tool| &*tool.name).collect();
    let more = tools.len().saturating_sub(SHOWN);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", names.join(", "))
}

/// The first data part that is an object.
pub(super) fn data(inbound: &Inbound) -> Option<JsonObject> {
    let value = inbound.message.parts.iter().find_map(|part| match &part.content {
        Content::Data(json) if json.is_object() => Some(json.to_value()),
        Content::Data(_) | Content::Text(_) | Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
    });
    match value {
        Some(Value::Object(members)) => Some(members),
        Some(_) | None => None,
    }
}

/// The message's text.
pub(super) fn text(inbound: &Inbound) -> Option<String> {
    let texts: Vec<&str> = inbound.message.parts.iter().filter_map(|part| part.as_text()).collect();
    if texts.is_empty() { None } else { Some(texts.join("\n")) }
}

/// The tool that a data part names, and its arguments: those it gives, or all other members.
fn named_in_data(data: &JsonObject) -> Option<(String, Value)> {
    let key = NAMES.into_iter().find(|name| data.get(*name).is_some_and(Value::is_string))?;
    let tool = data.get(key).and_then(Value::as_str)?.to_owned();
    let arguments = data.get("arguments").cloned().unwrap_or_else(|| {
        let mut rest = data.clone();
        rest.remove(key);
        Value::Object(rest)
    });
    Some((tool, arguments))
}

fn named_in_metadata(inbound: &Inbound) -> Option<String> {
    let all = [inbound.message.metadata.as_ref(), inbound.metadata.as_ref()];
    all.into_iter().flatten().map(Json::to_value).find_map(|metadata| {
        NAMES.into_iter().find_map(|name| metadata.get(name).and_then(Value::as_str).map(str::to_owned))
    })
}

fn required(tool: &Tool) -> Vec<&str> {
    let required = tool.input_schema.get("required").and_then(Value::as_array);
    required.map(|names| names.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// A tool's single text parameter: its only one, or its only required one.
fn text_parameter(tool: &Tool) -> Option<String> {
    let properties = tool.input_schema.get("properties")?.as_object()?;
    let name = match (&properties.keys().collect::<Vec<_>>()[..], &required(tool)[..]) {
        ([only], _) => only.as_str(),
        (_, [only]) => only,
        _ => return None,
    };
    let kind = properties.get(name)?.get("type")?;
    (kind == "string").then(|| name.to_owned())
}
