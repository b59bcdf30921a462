//! `rialto graph`: prints a system's graph, and the state of a task on it.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write as _;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use systems::admin;

use crate::command::Serve;
use crate::config::DataLocation;
use crate::operate::{ask_data, ask_running, text};
use crate::plan::Plan;
use crate::remote::OperatorArgs;

#[derive(Args)]
pub(crate) struct Graph {
    /// The system's name
    system: String,
    /// A task of the system: where it stands
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// The form of what is printed: text, json, dot (Graphviz) or mermaid
    #[arg(short = 'o', long = "format", alias = "output", default_value = "text")]
    format: Format,
    /// The same as --format json
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    at: OperatorArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Dot,
    Mermaid,
}

pub(crate) fn run(command: &Graph) -> anyhow::Result<()> {
    let picture = picture(command)?;
    let shown = match command.format {
        Format::Json => serde_json::to_string_pretty(&picture)?,
        Format::Text | Format::Dot | Format::Mermaid if command.json => serde_json::to_string_pretty(&picture)?,
        Format::Text => people(&picture),
        Format::Dot => dot(&picture),
        Format::Mermaid => mermaid(&picture),
    };
    writeln!(std::io::stdout(), "{}", shown.trim_end())?;
    Ok(())
}

/// The graph from the running server, else from the config; for a task, with the data.
fn picture(command: &Graph) -> anyhow::Result<Value> {
    let request = admin::graph_request(command.system.clone(), command.task.clone())?;
    if let Some(server) = command.at.server()? {
        return server.ask(&request);
    }
    let found = DataLocation::at(&command.at.whereabouts)?;
    if let Some(picture) = ask_running(&found, &request)? {
        return Ok(picture);
    }
    let serve = Serve { whereabouts: command.at.whereabouts.clone(), ..Serve::default() };
    let systems = systems::agents_of(&Plan::make(&serve)?.products);
    if command.task.is_some() {
        return ask_data(&found, request, systems);
    }
    let system = admin::find(&systems, &command.system).map_err(|fault| anyhow::anyhow!(fault.message))?;
    Ok(system.picture(None).map(|picture| picture.to_value()).unwrap_or_default())
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value[name].as_array().into_iter().flatten()
}

/// The nodes in the order of a run.
fn in_order(picture: &Value) -> Vec<&Value> {
    let nodes: Vec<&Value> = list(picture, "nodes").collect();
    let mut queue: VecDeque<&Value> = nodes.iter().copied().filter(|node| node["entry"] == true).collect();
    let mut order: Vec<&Value> = Vec::new();
    while let Some(node) = queue.pop_front() {
        if order.iter().any(|known| known["node"] == node["node"]) {
            continue;
        }
        order.push(node);
        let leads = |edge: &Value| nodes.iter().copied().find(|node| node["node"] == edge["to"]);
        queue.extend(list(node, "edges").filter_map(leads));
    }
    order
}

fn people(picture: &Value) -> String {
    let mut out = text(&picture["system"]).to_owned();
    if let Some(most) = picture["max_turns"].as_u64() {
        let _ = write!(out, ", loops come to a node {most} times at most");
    }
    let task = &picture["task"];
    if task.is_object() {
        let _ = write!(out, "\n{}: {}", text(&task["id"]), text(&task["state"]));
        if task["runs"].as_u64().unwrap_or_default() > 1 {
            let _ = write!(out, ", the newest of {} runs", task["runs"]);
        }
        if !text(&task["message"]).is_empty() {
            let _ = write!(out, ", {:?}", text(&task["message"]));
        }
    }
    out.push_str("\n\n");
    for node in in_order(picture) {
        out.push_str(&headline(node));
        for edge in list(node, "edges") {
            let arrow = if edge["back"] == true { "↺" } else { "→" };
            let _ = write!(out, "  {arrow} {}", text(&edge["to"]));
            let when = when(edge);
            if !when.is_empty() {
                let _ = write!(out, "  {when}");
            }
            match edge["taken"].as_u64() {
                Some(0) | None => {}
                Some(1) => out.push_str("  [taken]"),
                Some(times) => drop(write!(out, "  [taken {times} times]")),
            }
            out.push('\n');
        }
    }
    out
}

/// The lines about a node and its visits.
fn headline(node: &Value) -> String {
    let (name, agent) = (text(&node["node"]), text(&node["agent"]));
    let mut out = String::new();
    if let Some(state) = node["state"].as_str() {
        let mark = match state {
            "done" => "✓",
            "failed" | "denied" => "✗",
            "running" => "▶",
            "waiting for approval" | "waiting for an answer" => "?",
            "skipped" | "cancelled" => "-",
            _ => "·",
        };
        let _ = write!(out, "{mark} ");
    }
    out.push_str(name);
    if agent != name {
        let _ = write!(out, " ({agent})");
    }
    if node["entry"] == true {
        out.push_str(", begins");
    }
    let joins: Vec<&str> = list(node, "joins").map(text).collect();
    if !joins.is_empty() {
        let _ = write!(out, ", after {}{}", joins.join(" and "), how(&node["join"]));
    }
    if let Some(question) = node["approval"].as_str() {
        let _ = write!(out, ", asks {question:?}");
    }
    if let Some(retries) = node["retries"].as_u64() {
        let _ = write!(out, ", tried again {retries} times");
    }
    if let Some(state) = node["state"].as_str() {
        let _ = write!(out, ": {state}");
    }
    out.push('\n');
    for visit in list(node, "visits") {
        let _ = write!(out, "    #{} {}", visit["visit"], text(&visit["state"]));
        if let Some(ms) = visit["ms"].as_i64() {
            let _ = write!(out, " in {ms} ms");
        }
        if let Some(attempts) = visit["attempts"].as_u64().filter(|attempts| *attempts > 1) {
            let _ = write!(out, ", {attempts} attempts");
        }
        if let Some(child) = visit["child"].as_str() {
            let _ = write!(out, ", task {child}");
        }
        if let Some(reason) = visit["reason"].as_str() {
            let _ = write!(out, ": {reason}");
        }
        out.push('\n');
    }
    out
}

/// A join's condition, unless it waits for all.
fn how(join: &Value) -> String {
    let mut words = Vec::new();
    if join["mode"] == "quorum" {
        words.push(match (join["quorum_count"].as_u64(), join["quorum_percent"].as_u64()) {
            (Some(count), _) => format!("{count} are enough"),
            (None, Some(percent)) => format!("{percent} % are enough"),
            (None, None) => "a quorum is enough".to_owned(),
        });
    }
    match text(&join["on_failure"]) {
        "skip" => words.push("without those that fail".to_owned()),
        "continue_partial" => words.push("told of those that fail".to_owned()),
        _ => {}
    }
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

/// An edge's condition as text.
fn when(edge: &Value) -> String {
    let mut words = Vec::new();
    match text(&edge["on"]) {
        "failed" => words.push("if it failed".to_owned()),
        "denied" => words.push("if it was denied".to_owned()),
        _ => {}
    }
    let path = edge["condition"]["output_json_path"].as_str().unwrap_or_default();
    for (name, value) in edge["condition"].as_object().into_iter().flatten() {
        let plain = name.replace('_', " ");
        match name.as_str() {
            "default" => words.push("otherwise".to_owned()),
            // Printed together with the comparison.
            "output_json_path" => {}
            "output_contains" | "output_not_contains" | "output_matches" => words.push(format!("{plain} {value}")),
            _ => words.push(format!("{path} {plain} {value}")),
        }
    }
    words.join(", ")
}

fn label(node: &Value) -> String {
    let (name, agent) = (text(&node["node"]), text(&node["agent"]));
    let mut label = if agent == name { name.to_owned() } else { format!("{name} ({agent})") };
    if let Some(state) = node["state"].as_str() {
        let _ = write!(label, ": {state}");
    }
    label
}

fn dot(picture: &Value) -> String {
    let quoted = |text: &str| json!(text).to_string();
    let mut out = format!("digraph {} {{\n", quoted(text(&picture["system"])));
    for node in in_order(picture) {
        let name = quoted(text(&node["node"]));
        let shape = if node["approval"].is_string() { "diamond" } else { "box" };
        let _ = writeln!(out, "  {name} [label={}, shape={shape}];", quoted(&label(node)));
        for edge in list(node, "edges") {
            let style = if edge["taken"].as_u64().unwrap_or_default() > 0 { ", penwidth=2" } else { "" };
            let _ = writeln!(out, "  {name} -> {} [label={}{style}];", quoted(text(&edge["to"])), quoted(&when(edge)));
        }
    }
    out.push('}');
    out
}

fn mermaid(picture: &Value) -> String {
    let order = in_order(picture);
    let id = |name: &Value| order.iter().position(|node| node["node"] == *name).unwrap_or_default();
    let quoted = |text: &str| text.replace('"', "#quot;");
    let mut out = String::from("flowchart TD\n");
    for node in &order {
        let _ = writeln!(out, "  n{}[\"{}\"]", id(&node["node"]), quoted(&label(node)));
    }
    for node in &order {
        for edge in list(node, "edges") {
            let when = when(edge);
            let arrow = if edge["taken"].as_u64().unwrap_or_default() > 0 { "==>" } else { "-->" };
            let said = if when.is_empty() { String::new() } else { format!("|\"{}\"|", quoted(&when)) };
            let _ = writeln!(out, "  n{} {arrow}{said} n{}", id(&node["node"]), id(&edge["to"]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(system: Value) -> Value {
        let system: systems::System = serde_json::from_value(system).unwrap();
        let graph = system.check(|_| true).unwrap();
        let mut picture = serde_json::to_value(graph.diagram()).unwrap();
        picture["system"] = "article".into();
        picture
    }

    fn article() -> Value {
        drawn(json!({ "max_turns": 3, "entry": "writer", "graph": {
            "writer": { "edges": [{ "to": "critic" }, { "to": "lawyer" }] },
            "lawyer": { "agent": "counsel", "next": "printer", "retries": 2 },
            "critic": { "edges": [
                { "to": "writer", "condition": { "output_contains": "revise" } },
                { "to": "printer", "condition": { "default": true } },
            ] },
            "printer": { "join": { "mode": "quorum", "quorum_count": 1 }, "approval": { "ask": "Print it?" } },
        } }))
    }

    #[test]
    fn people_see_nodes_edges_joins_loops_and_questions() {
        let expected = "\
article, loops come to a node 3 times at most

writer, begins
  → critic
  → lawyer
critic
  ↺ writer  output contains \"revise\"
  → printer  otherwise
lawyer (counsel), tried again 2 times
  → printer
printer, after critic and lawyer (1 are enough), asks \"Print it?\"
";
        assert_eq!(people(&article()), expected);
    }

    #[test]
    fn where_a_task_stands_is_written_at_the_nodes() {
        let mut picture = drawn(json!({ "agents": ["draft", "edit"] }));
        picture["task"] = json!({ "id": "t-1", "state": "working", "runs": 1 });
        let visit =
            json!({ "visit": 1, "state": "failed", "ms": 12, "attempts": 3, "child": "c-1", "reason": "tired" });
        picture["nodes"][0]["state"] = "failed".into();
        picture["nodes"][0]["visits"] = json!([visit]);
        picture["nodes"][0]["edges"][0]["taken"] = 2.into();
        picture["nodes"][1]["state"] = "waiting".into();
        let expected = "\
article
t-1: working

✗ draft, begins: failed
    #1 failed in 12 ms, 3 attempts, task c-1: tired
  → edit  [taken 2 times]
· edit: waiting
";
        assert_eq!(people(&picture), expected);
    }

    #[test]
    fn a_condition_is_said_in_words() {
        let on = |condition: Value| when(&json!({ "to": "b", "on": "completed", "condition": condition }));
        assert_eq!(on(json!({ "output_json_path": "$.score", "greater_than": 0.9 })), "$.score greater than 0.9");
        assert_eq!(on(json!({ "output_not_contains": "no" })), "output not contains \"no\"");
        assert_eq!(when(&json!({ "to": "b", "on": "failed" })), "if it failed");
    }

    #[test]
    fn programs_that_draw_get_every_edge() {
        let dot = dot(&article());
        assert!(dot.starts_with("digraph \"article\" {\n") && dot.ends_with('}'), "{dot}");
        assert!(dot.contains(r#""critic" -> "writer" [label="output contains \"revise\""];"#), "{dot}");
        assert!(dot.contains(r#""printer" [label="printer", shape=diamond];"#), "{dot}");
        let mermaid = mermaid(&article());
        assert!(mermaid.contains("  n1 -->|\"output contains #quot;revise#quot;\"| n0\n"), "{mermaid}");
        assert_eq!(mermaid.lines().filter(|line| line.contains("-->")).count(), 5, "{mermaid}");
    }
}
