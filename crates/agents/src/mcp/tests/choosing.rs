//! Tests of the choice of a tool.

use std::sync::Arc;

use model::ports::agent::EndState;
use model::{Inbound, Json, Message, Part};
use rmcp::model::Tool;
use serde_json::{Value, json};

use crate::mcp::choose::{ToolChoice, choose, names_a_tool};
use crate::scripted::stage::inbound;

fn tool(name: &'static str, schema: Value) -> Tool {
    Tool::new(name, "", Arc::new(schema.as_object().unwrap().clone()))
}

fn tools() -> Vec<Tool> {
    let text = json!({"type": "string"});
    vec![
        tool("say", json!({"properties": {"text": text, "loud": {"type": "boolean"}}, "required": ["text"]})),
        tool("add", json!({"properties": {"a": {"type": "number"}}, "required": ["a"]})),
        tool("now", json!({"type": "object"})),
    ]
}

fn message(parts: Vec<Part>, metadata: Value) -> Inbound {
    let inbound = inbound("m", parts);
    let message = Message { metadata: Some(Json::from_value(&metadata)), ..Message::clone(&inbound.message) };
    Inbound { message: Arc::new(message), ..inbound }
}

fn data(value: Value) -> Part {
    Part::data(Json::from_value(&value))
}

#[test]
fn a_tool_is_chosen_by_data_by_metadata_or_by_being_the_only_one() {
    for (parts, metadata, only, expected) in [
        (vec![data(json!({"tool": "add", "arguments": {"a": 1}}))], json!({}), None, ("add", json!({"a": 1}))),
        (vec![data(json!({"tool": "now"}))], json!({}), None, ("now", json!({}))),
        (vec![data(json!({"tool": "now", "arguments": null}))], json!({}), None, ("now", json!({}))),
        (vec![data(json!({"skillId": "add", "a": 1}))], json!({}), None, ("add", json!({"a": 1}))),
        (vec![data(json!({"a": 1}))], json!({"skill": "add"}), None, ("add", json!({"a": 1}))),
        (vec![Part::text("hi")], json!({"skillId": "say"}), None, ("say", json!({"text": "hi"}))),
        (
            vec![Part::text("hi"), Part::text("you")],
            json!({"skill_id": "say"}),
            None,
            ("say", json!({"text": "hi\nyou"})),
        ),
        (vec![Part::text("please")], json!({"skill": "now"}), None, ("now", json!({}))),
        (vec![Part::text("hi")], json!({}), Some("say"), ("say", json!({"text": "hi"}))),
        (vec![data(json!({"a": 1}))], json!({}), Some("add"), ("add", json!({"a": 1}))),
        (vec![Part::text("hi"), data(json!({"text": "ho"}))], json!({}), Some("say"), ("say", json!({"text": "ho"}))),
    ] {
        let tools: Vec<Tool> = tools().into_iter().filter(|tool| only.is_none_or(|only| tool.name == only)).collect();
        let chosen = choose(&message(parts, metadata), &tools).unwrap();
        let arguments = expected.1.as_object().unwrap().clone();
        assert_eq!(chosen, ToolChoice { tool: expected.0.into(), arguments });
    }
}

#[test]
fn what_is_not_chosen_is_said_with_what_to_do() {
    for (parts, metadata, state, says) in [
        (vec![Part::text("hi")], json!({}), EndState::InputRequired, "the tools are say, add, now"),
        (vec![Part::text("hi")], json!({"skill": "add"}), EndState::InputRequired, "add needs its arguments"),
        (vec![Part::text("hi")], json!({"skill": "sing"}), EndState::Rejected, "there is no tool \"sing\""),
        (vec![data(json!({"tool": "add", "arguments": [1]}))], json!({}), EndState::Rejected, "must be an object"),
    ] {
        let refusal = choose(&message(parts, metadata), &tools()).unwrap_err();
        assert_eq!(refusal.state, state);
        assert!(refusal.says.contains(says), "{}", refusal.says);
    }
    assert_eq!(choose(&message(vec![], json!({})), &[]).unwrap_err().state, EndState::Failed);
}

#[test]
fn only_a_name_where_names_stand_is_one() {
    assert!(names_a_tool(&message(vec![data(json!({"tool": "x"}))], json!({}))));
    assert!(names_a_tool(&message(vec![], json!({"skill": "x"}))));
    assert!(!names_a_tool(&message(vec![data(json!({"deep": {"tool": "x"}}))], json!({"skills": ["x"]}))));
    assert!(!names_a_tool(&message(vec![Part::text(r#"{"tool":"x"}"#)], json!({}))), "a policy would not see it");
}
