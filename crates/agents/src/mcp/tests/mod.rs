//! Tests against a small real MCP server, `server.py`.

mod choosing;

use std::path::Path;

use model::ports::agent::{ArtifactChunk, EndState};
use model::{Content, Part};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::*;
use crate::scripted::stage::{ScriptContext, brief};
use crate::testing::{Running, agent, refused, run, text, turn, until};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/mcp/tests/server.py");

/// An agent with those tools, and the folder with the server's notes.
async fn with(tools: &[&str], more: Value) -> (Arc<dyn agent::Agent>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let command: Vec<_> = ["python3", SERVER].iter().chain(tools).collect();
    let mut config = json!({
        "kind": "mcp",
        "command": command,
        "env": {"NOTES": notes(&folder), "PYTHONDONTWRITEBYTECODE": "1"},
    });
    for (name, value) in more.as_object().unwrap() {
        match (config[name].as_object_mut(), value.as_object()) {
            (Some(known), Some(value)) => known.extend(value.clone()),
            _ => config[name] = value.clone(),
        }
    }
    (agent(config).await, folder)
}

fn notes(folder: &TempDir) -> std::path::PathBuf {
    folder.path().join("notes")
}

fn noted(folder: &TempDir, what: &str) -> usize {
    let notes = std::fs::read_to_string(notes(folder)).unwrap_or_default();
    notes.lines().filter(|line| line.starts_with(what)).count()
}

fn data(value: Value) -> Vec<Part> {
    vec![Part::data(model::Json::from_value(&value))]
}

fn call(tool: &str) -> Vec<Part> {
    data(json!({"tool": tool}))
}

async fn said(agent: &Arc<dyn agent::Agent>, parts: Vec<Part>) -> Vec<String> {
    brief(&run(&**agent, turn(parts)).await)
}

#[tokio::test]
async fn tools_are_skills_and_one_is_called_with_its_arguments() {
    let (agent, folder) = with(&["shout", "add"], json!({})).await;
    let skills = &agent.profile().skills;
    let shown: Vec<_> = skills.iter().map(|skill| (&*skill.id, &*skill.name, &*skill.description)).collect();
    assert_eq!(shown, [("shout", "Shout", "In capitals."), ("add", "add", "")]);
    let shouting = data(json!({"tool": "shout", "arguments": {"text": "hello"}}));
    assert_eq!(said(&agent, shouting).await, ["working", "result= HELLO", "Completed"]);
    // Structured content is not repeated as text.
    let adding = data(json!({"skill": "add", "a": 1, "b": 2}));
    assert_eq!(said(&agent, adding).await, ["working", r#"result= {"sum":3}"#, "Completed"]);
    assert_eq!(noted(&folder, "initialize"), 1, "the session is used again");
}

#[tokio::test]
async fn the_only_tool_takes_a_text() {
    let (agent, _folder) = with(&["shout"], json!({})).await;
    assert_eq!(said(&agent, text("hello")).await[1], "result= HELLO");
}

#[tokio::test]
async fn who_names_no_tool_is_asked_and_who_names_none_there_is_is_refused() {
    let (agent, folder) = with(&["shout", "add"], json!({"tools": ["add"]})).await;
    let asked = said(&agent, text("hello")).await;
    assert!(asked[0].starts_with("InputRequired add needs its arguments as a data part"), "{asked:?}");
    let refused = said(&agent, call("shout")).await;
    assert_eq!(refused, [r#"Rejected there is no tool "shout"; the tools are add"#]);
    assert_eq!(noted(&folder, "call"), 0);
}

#[tokio::test]
async fn a_result_has_parts_of_every_kind() {
    let (agent, _folder) = with(&["picture"], json!({})).await;
    let said = run(&*agent, turn(call("picture"))).await;
    let AgentEvent::Artifact(ArtifactChunk { name, parts, last: true, .. }) = &said[1] else { panic!("{said:?}") };
    assert_eq!(name.as_deref(), Some("picture"));
    let media: Vec<_> = parts.iter().map(|part| part.media_type.as_deref()).collect();
    assert_eq!(media, [None, Some("image/gif"), Some("text/css"), Some("application/pdf")]);
    let content: Vec<_> = parts.iter().map(|part| part.content.clone()).collect();
    assert_eq!(
        content,
        [
            Content::Text("look".into()),
            Content::Raw("GIF".into()),
            Content::Text("a{}".into()),
            Content::Url("https://x.test/b.pdf".into())
        ]
    );
}

#[tokio::test]
async fn a_tool_that_fails_says_why_and_a_server_that_dies_is_started_again() {
    let (agent, folder) = with(&["broken", "crash", "shout"], json!({})).await;
    assert_eq!(said(&agent, call("broken")).await, ["working", "Failed no paper"]);
    let lost = "Failed the MCP server was lost while crash was at work: out of ink";
    assert_eq!(said(&agent, call("crash")).await, ["working", lost]);
    let shouting = data(json!({"tool": "shout", "arguments": {"text": "again"}}));
    assert_eq!(said(&agent, shouting).await[1], "result= AGAIN");
    assert_eq!(noted(&folder, "initialize"), 2);
}

#[tokio::test]
async fn progress_is_told_and_a_cancel_reaches_the_server_and_all_it_started() {
    let (agent, folder) = with(&["slow"], json!({"env": {"CHILD": "1"}})).await;
    let mut running = Running::start(&*agent, turn(call("slow")));
    assert_eq!(brief(&[running.next().await, running.next().await]), ["working", "working 1/3"]);
    assert_eq!(brief(&running.cancelled().await), ["Canceled"]);
    until("the server knows", || noted(&folder, "cancelled") == 1).await;
    let notes = std::fs::read_to_string(notes(&folder)).unwrap();
    let child = notes.lines().find_map(|line| line.strip_prefix("child ")).unwrap().to_owned();
    until("its child is gone", || !is_alive(&child)).await;
}

/// Also at full speed, with the result right behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_is_told_in_its_order_and_before_the_result() {
    let (agent, _folder) = with(&["count"], json!({})).await;
    let counted: Vec<String> = (0..40).map(|done| format!("working {done}")).collect();
    let said = said(&agent, call("count")).await;
    assert_eq!(said[1..41], counted);
    assert_eq!(said[41..], ["result= counted", "Completed"]);
}

/// Whether that process runs; a zombie does not count.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

#[tokio::test]
async fn a_tool_may_ask_and_the_next_message_answers() {
    let (agent, folder) = with(&["order"], json!({})).await;
    let mut stage = ScriptContext::new(agent);
    let asked = stage.hear(call("order")).await;
    let AgentEvent::End(end) = &asked[1] else { panic!("{asked:?}") };
    assert_eq!((end.state, asked.len()), (EndState::InputRequired, 2));
    let parts = &end.words.as_ref().unwrap().parts;
    assert_eq!(parts[0].as_text(), Some("how many?"));
    let Content::Data(shown) = &parts[1].content else { panic!("{parts:?}") };
    assert_eq!(shown.to_value()["schema"]["properties"]["count"]["type"], "integer");
    // An invalid answer is asked for again, and the tool keeps waiting.
    let again = brief(&stage.hear(text("a few")).await);
    assert!(again[0].starts_with("InputRequired count must be a whole number\nhow many?"), "{again:?}");
    let answered = r#"result-3= answered: {"action": "accept", "content": {"count": 3}}"#;
    assert_eq!(brief(&stage.hear(text("3")).await), ["working", answered, "Completed"]);
    assert_eq!(noted(&folder, "call order"), 1);
}

#[tokio::test]
async fn an_answer_is_an_object_or_a_refusal() {
    let (agent, _folder) = with(&["book"], json!({})).await;
    for (answer, heard) in [
        (
            data(json!({"day": "monday", "place": "here"})),
            r#"{"action": "accept", "content": {"day": "monday", "place": "here"}}"#,
        ),
        (
            data(json!({"action": "accept", "content": {"day": "x"}})),
            r#"{"action": "accept", "content": {"day": "x"}}"#,
        ),
        (data(json!({"action": "decline"})), r#"{"action": "decline"}"#),
        (text("Cancel"), r#"{"action": "cancel"}"#),
    ] {
        let mut stage = ScriptContext::new(agent.clone());
        stage.hear(call("book")).await;
        let unclear = brief(&stage.hear(text("monday")).await);
        assert!(unclear[0].starts_with("InputRequired answer with a data part that has day, place"), "{unclear:?}");
        assert_eq!(brief(&stage.hear(answer).await)[1], format!("result-3= answered: {heard}"));
    }
}

#[tokio::test]
async fn a_question_that_waited_too_long_or_too_many_is_given_up_and_that_is_said() {
    let gone =
        "InputRequired the tool that asked this does not wait any more; start again: say which tool, and with what";
    for limit in [json!({"answer_ms": 1}), json!({"open_questions": 0})] {
        let (agent, folder) = with(&["order", "shout"], limit).await;
        let mut stage = ScriptContext::new(agent);
        stage.hear(call("order")).await;
        until("the call is given up", || noted(&folder, "cancelled") == 1).await;
        assert_eq!(brief(&stage.hear(text("3")).await), [gone]);
        let shouting = data(json!({"tool": "shout", "arguments": {"text": "then"}}));
        assert_eq!(brief(&stage.hear(shouting).await)[1], "result-3= THEN");
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_keeps_nobody_from_starting() {
    let config = json!({"kind": "mcp", "url": "http://127.0.0.1:1/mcp"});
    let down = agent(config).await;
    assert_eq!(down.profile().skills.len(), 1, "a card without a skill is none");
    assert_eq!(said(&down, text("hello")).await, ["Failed the MCP server could not be reached"]);
    let dying = agent(json!({"kind": "mcp", "command": ["sh", "-c", "echo no such toner >&2; exit 1"]})).await;
    let says = said(&dying, text("hello")).await;
    assert!(says[0].starts_with("Failed the MCP server could not be reached"), "{says:?}");
    let silent = agent(json!({"kind": "mcp", "command": "sleep 1000", "connect_ms": 50})).await;
    assert_eq!(said(&silent, text("hello")).await, ["Failed the MCP server was not ready within 0.05 s"]);
}

#[tokio::test]
async fn only_what_is_named_of_the_environment_is_passed_on() {
    let (agent, folder) = with(&["env"], json!({"env": {"COLOUR": "red"}})).await;
    assert_eq!(said(&agent, text("COLOUR")).await[1], "result= red");
    assert_eq!(said(&agent, text("CARGO_MANIFEST_DIR")).await[1], "result= -");
    drop(folder);
}

#[tokio::test]
async fn streamable_http_is_spoken_too() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "s3cret").unwrap();
    let mut python = tokio::process::Command::new("python3");
    python.args([SERVER, "--http", "shout", "add"]).env("NOTES", notes(&folder)).kill_on_drop(true);
    let mut server = python.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let port = lines.next_line().await.unwrap().unwrap();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let config = json!({"kind": "mcp", "url": url, "bearer": format!("file:{}", secret.display())});
    let agent = agent(config).await;
    assert_eq!(agent.profile().skills.len(), 2);
    let adding = data(json!({"tool": "add", "arguments": {"a": 1, "b": 2}}));
    assert_eq!(said(&agent, adding).await, ["working", r#"result= {"sum":3}"#, "Completed"]);
    let stranger = self::agent(json!({"kind": "mcp", "url": url})).await;
    assert_eq!(said(&stranger, text("x")).await, ["Failed the MCP server could not be reached"]);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (config, says) in [
        (json!({}), "needs a command that starts it, or a url"),
        (json!({"command": "true", "url": "http://x"}), "leave one out"),
        (json!({"command": []}), "name a program"),
        (json!({"command": "no-such-program-anywhere"}), "there is no program"),
        (json!({"command": "true", "headers": {"a": "b"}}), "headers means something only with url"),
        (json!({"url": "http://x", "env": {"A": "b"}}), "env means something only with command"),
        (json!({"url": "ftp://x"}), "is no address"),
        (json!({"command": "true", "cwd": "/nowhere"}), "there is no folder"),
        (json!({"command": "true", "restart": "resume"}), "choose retry or fail"),
    ] {
        let mut config = config;
        config["kind"] = "mcp".into();
        let refused = refused(config);
        assert!(refused.contains(says), "{refused}");
    }
}
