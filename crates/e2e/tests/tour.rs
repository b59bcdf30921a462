//! Runs every block of docs/tour.md unchanged with bash. Only the port, the data folder and the binary differ.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e::poll::PATIENCE;
use e2e::server::free_address;
use e2e::{Server, setup, until};
use serde_json::json;

/// Each block is found by a word of the text before it, and prints these words.
const BLOCKS: [(&str, &[&str]); 10] = [
    ("finished task", &["TASK_STATE_COMPLETED", "hello"]),
    ("in chunks", &["id: ", "TASK_STATE_COMPLETED"]),
    ("Resume a stream", &["TASK_STATE_COMPLETED"]),
    ("across a crash", &["restarted", "TASK_STATE_COMPLETED"]),
    ("first generation", &["\"kind\":\"task\"", "task-abc-123", "Find flights to Bangalore"]),
    ("asks for input", &["painted", "green"]),
    ("webhooks", &["statusUpdate", "tell me"]),
    ("market", &["completed", "\"code\":0"]),
    ("Shop", &["Acme has", "/checkout/"]),
    ("operator", &["scripted", "running_turns", "all agrees"]),
];

/// The blocks of a page in one language, each with the text before it.
fn blocks(page: &str, language: &str) -> Vec<(String, String)> {
    let page = std::fs::read_to_string(setup::workspace().join(page)).unwrap();
    let mut parts = page.split("```");
    let mut blocks = Vec::new();
    while let (Some(text), Some(block)) = (parts.next(), parts.next()) {
        if let Some(block) = block.strip_prefix(&format!("{language}\n")) {
            blocks.push((text.trim().to_owned(), block.to_owned()));
        }
    }
    blocks
}

struct Tour {
    server: Server,
    folder: tempfile::TempDir,
    hook: String,
}

/// A running block and its output so far.
struct Running {
    child: Child,
    output: PathBuf,
}

impl Tour {
    fn begin(&self, name: &str, block: &str) -> Running {
        let (data, binary) = (self.server.data(), setup::binary());
        let operate = |words: &str| format!("{} {words} --data {}", binary.display(), data.display());
        let lines = block.lines().map(|line| match line.strip_prefix("cargo run --release -- ") {
            Some(words) => operate(words),
            None => line.to_owned(),
        });
        let script = lines.collect::<Vec<_>>().join("\n");
        let script = script.replace("http://127.0.0.1:8080", &self.server.url()).replace("9009", &self.hook);
        let script = script.replace("rialto-data/demo.json", &data.join("demo.json").display().to_string());
        let output = self.folder.path().join(name.replace(' ', "-"));
        let file = File::create(&output).unwrap();
        let child = Command::new("bash")
            .args(["-c", &script])
            .stdin(Stdio::null())
            .stderr(file.try_clone().unwrap())
            .stdout(file)
            .spawn()
            .expect("bash runs");
        Running { child, output }
    }
}

impl Running {
    fn printed(&mut self) -> String {
        self.child.wait().unwrap();
        read(&self.output)
    }
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned()
}

#[test]
fn every_block_of_the_tour_does_what_its_text_says() {
    let mut tour = Tour {
        server: Server::start(&[]),
        folder: tempfile::tempdir().unwrap(),
        hook: free_address().port().to_string(),
    };
    let blocks = blocks("docs/tour.md", "sh");
    assert_eq!(blocks.len(), BLOCKS.len(), "every block of the page has a row here");
    for ((text, block), (name, words)) in blocks.iter().zip(BLOCKS) {
        let says = text.rsplit("\n\n").next().unwrap();
        assert!(says.contains(name), "{name}: {says}");
        let mut running = tour.begin(name, block);
        if name == "across a crash" {
            until("the stream has begun", PATIENCE, || {
                let list = json!({ "status": "TASK_STATE_WORKING", "includeArtifacts": true });
                let tasks = tour.server.agent("scripted").rpc("ListTasks", list).unwrap();
                tasks["tasks"][0]["artifacts"][0].is_object().then_some(())
            });
            tour.server.kill9();
            tour.server.restart();
        }
        let printed = running.printed();
        for word in words {
            assert!(printed.contains(word), "{name}: no {word:?} in\n{printed}");
        }
    }
}

#[test]
fn the_first_call_and_the_first_config_of_the_readme_are_good() {
    let server = Server::start(&[]);
    let tour = Tour { server, folder: tempfile::tempdir().unwrap(), hook: "9009".to_owned() };
    let blocks_of_shell = blocks("README.md", "sh");
    let [(_, run), (_, call), (_, test)] = &blocks_of_shell[..] else { panic!("three blocks: run, call, test") };
    assert_eq!((run.as_str(), test.as_str()), ("cargo run --release -- serve\n", "scripts/test\n"));
    let printed = tour.begin("call", call).printed();
    let [(_, shown)] = &blocks("README.md", "json")[..] else { panic!("one answer") };
    for word in
        ["{\"task\":{\"id\":\"", "TASK_STATE_COMPLETED", "{\"artifactId\":\"echo\",\"parts\":[{\"text\":\"hello\"}]}"]
    {
        assert!(printed.contains(word) && shown.contains(word), "no {word:?} in {shown}\nand\n{printed}");
    }
    let [(_, config)] = &blocks("README.md", "yaml")[..] else { panic!("one config") };
    let file = tour.folder.path().join("rialto.yaml");
    std::fs::write(&file, config).unwrap();
    let checked = Command::new(setup::binary()).args(["config", "check", "--config"]).arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
