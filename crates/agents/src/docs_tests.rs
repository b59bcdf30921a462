//! Runs the examples of the agents' pages, so that they stay true.

use serde_json::json;

use crate::config::AgentKind;
use crate::scripted::stage::{ScriptContext, brief};
use crate::testing::{agent, text};
use crate::{Agents, KINDS};

fn page(name: &str) -> String {
    let path = format!("{}/../../docs/agents/{name}.md", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The kinds with a page: all but the built-in ones, which `docs/agents/README.md` and `docs/scripted.md` describe.
fn with_pages() -> impl Iterator<Item = &'static AgentKind> {
    KINDS.iter().filter(|kind| !["echo", "scripted"].contains(&kind.name))
}

/// The blocks of a page in one language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned()).collect()
}

/// Writes the page's program into a new folder.
fn program(name: &str, change: impl Fn(String) -> String) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.py");
    std::fs::write(&file, change(blocks(&page(name), "python").remove(0))).unwrap();
    (folder, file)
}

/// Starts the page's server on a free port; it runs until dropped.
async fn server(name: &str, shown: &str) -> (tempfile::TempDir, tokio::process::Child, u16) {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (folder, file) = program(name, |text| {
        assert!(text.contains(shown), "{name} listens on {shown}");
        text.replace(shown, &port.to_string())
    });
    let mut python = tokio::process::Command::new("python3");
    let child = python.arg(file).kill_on_drop(true).stderr(std::process::Stdio::null());
    (folder, child.spawn().unwrap(), port)
}

#[test]
fn every_config_shown_is_one() {
    #[derive(serde::Deserialize)]
    struct File {
        agents: Agents,
    }
    for kind in with_pages() {
        let name = kind.name;
        for block in blocks(&page(name), "yaml") {
            // A secret is read with the config, so its variable has to be set: this one is.
            let block = block.replace("env:WORKER_SECRET", "env:PATH");
            let file: File = serde_saphyr::from_str(&block).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(!file.agents.0.is_empty());
            file.agents.0.iter().for_each(|(_, config)| config.check().unwrap());
        }
    }
}

#[test]
fn every_option_has_its_row() {
    let common = page("events");
    for kind in with_pages() {
        let own = page(kind.name);
        let schema = schemars::schema_for!(crate::AgentConfig).to_value();
        let branches = schema["oneOf"].as_array().unwrap();
        let branch = branches.iter().find(|branch| branch["properties"]["kind"]["const"] == kind.name).unwrap();
        for option in branch["properties"].as_object().unwrap().keys().filter(|option| *option != "kind") {
            let row =
                |page: &str| page.lines().any(|line| line.starts_with('|') && line.contains(&format!("`{option}`")));
            assert!(row(&own) || row(&common), "{}: {option} is not documented", kind.name);
        }
    }
}

#[tokio::test]
async fn the_program_that_guesses_plays_along() {
    let (folder, _) = program("command", |text| text);
    let config = json!({"kind": "command", "mode": "jsonl", "command": "python3 program.py", "cwd": folder.path()});
    let mut stage = ScriptContext::new(agent(config).await);
    let said = stage.hear(text("let us play")).await;
    assert_eq!(brief(&said)[1..], ["working thinking", "InputRequired which number from 1 to 10 do you guess?"]);
    assert_eq!(brief(&stage.hear(text("3")).await)[2..], ["InputRequired no; try another"]);
    assert_eq!(brief(&stage.hear(text("7")).await)[2..], ["verdict-3= right!", "Completed well done"]);
}

#[tokio::test]
async fn the_endpoint_that_shouts_shouts() {
    let (_folder, _child, port) = server("http", "9000").await;
    // Wait until it listens.
    let url = format!("http://127.0.0.1:{port}/");
    let agent = agent(json!({"kind": "http", "url": url, "retries": 1_000, "retry_ms": 1})).await;
    let mut said = brief(&ScriptContext::new(agent).hear(text("hello")).await);
    said.retain(|said| !said.contains("; trying again in "));
    assert_eq!(said[1..], ["response= HELLO!", "Completed"]);
}

#[tokio::test]
async fn the_model_that_stands_in_speaks() {
    let (_folder, _child, port) = server("openai", "9001").await;
    let url = format!("http://127.0.0.1:{port}/v1");
    let config = json!({"kind": "openai", "base_url": url, "model": "m", "retries": 1_000, "retry_ms": 1});
    let said = brief(&ScriptContext::new(agent(config).await).hear(text("hello")).await);
    assert_eq!(said.last().unwrap(), "Completed", "{said:?}");
    assert!(said.iter().any(|said| said.contains(r#""output_tokens":8"#)), "{said:?}");
}
