//! Runs the examples of the agents' pages unchanged: programs, config, requests. Only ports and hosts differ.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e::fold::text_of;
use e2e::http::Request;
use e2e::poll::PATIENCE;
use e2e::server::{Options, free_address};
use e2e::{Server, Tongue, message, parts, setup, to_task, until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The pages whose examples are run below.
const RUN: [&str; 9] = ["README", "a2a", "assistant", "command", "http", "langgraph", "mcp", "openai", "worker"];

fn pages() -> PathBuf {
    setup::workspace().join("docs/agents")
}

/// A page, and a folder with its files: each program and config under the name in its first comment.
struct Page {
    text: String,
    folder: TempDir,
    changes: Vec<(&'static str, String)>,
}

impl Page {
    fn open(name: &str) -> Page {
        let text = fs::read_to_string(pages().join(format!("{name}.md"))).unwrap();
        Page { text, folder: tempfile::tempdir().unwrap(), changes: Vec::new() }
    }

    /// Replaces an address that the page shows.
    fn with(mut self, shown: &'static str, ours: impl ToString) -> Page {
        assert!(self.text.contains(shown), "the page shows {shown}");
        self.changes.push((shown, ours.to_string()));
        self
    }

    /// The blocks of one language.
    fn blocks(&self, language: &str) -> Vec<String> {
        let fence = format!("```{language}\n");
        let blocks = self.text.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
        let changed = |block: String| self.changes.iter().fold(block, |text, (shown, ours)| text.replace(shown, ours));
        blocks.map(changed).collect()
    }

    /// The block with this file name.
    fn file(&self, language: &str, name: &str) -> String {
        let says = format!("# {name}");
        let named = |block: &String| block.lines().take(2).any(|line| line.split(':').next().unwrap().trim() == says);
        self.blocks(language).into_iter().find(named).unwrap_or_else(|| panic!("a block says {says}"))
    }

    /// Writes a program into the folder.
    fn write(&self, language: &str, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, self.file(language, name)).unwrap();
        path
    }

    /// Starts a program of the page.
    fn run(&self, python: &Path, name: &str, env: &[(&str, &str)]) -> Program {
        let path = self.write("python", name);
        Program::start(Command::new(python).arg(path).envs(env.iter().copied()), self.folder.path())
    }

    /// Rialto with that config, in the page's folder.
    fn serve(&self, config: &str) -> Options {
        let here = format!("--chdir={}", self.folder.path().display());
        Server::options().config(config).under(&["env".into(), here.into()])
    }

    fn start(&self) -> Server {
        self.serve(&self.file("yaml", "rialto.yaml")).start()
    }

    /// The requests of the page's `curl` lines: path and body.
    fn requests(&self) -> Vec<(String, Value)> {
        let shown = "http://127.0.0.1:8080";
        let lines = self.blocks("sh").concat();
        let requests = lines.split("curl ").skip(1).map(|line| {
            let path = line.split(shown).nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
            let body = line.split("-d '").nth(1).unwrap().split('\'').next().unwrap();
            for header in ["-H 'Content-Type: application/json'", "-H 'A2A-Version: 1.0'"] {
                assert!(line.contains(header), "{line}");
            }
            (path, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}")))
        });
        requests.collect()
    }

    /// Sends the page's only request: the task.
    fn ask(&self, server: &Server) -> Value {
        let [(path, body)] = &self.requests()[..] else { panic!("one request") };
        let request = Request::new("POST", path).header("A2A-Version", "1.0").json(body);
        server.exchange(&request).json()["result"]["task"].clone()
    }
}

/// A running program of the page; it ends with the value.
struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    fn start(command: &mut Command, folder: &Path) -> Program {
        let log = folder.join("log");
        let file = File::create(&log).unwrap();
        command.current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
        let child = command.stderr(file.try_clone().unwrap()).stdout(file).spawn().unwrap();
        Program { child, log }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- the program said ---\n{}", fs::read_to_string(&self.log).unwrap_or_default());
        }
    }
}

fn python() -> &'static Path {
    Path::new("python3")
}

fn listens(addr: SocketAddr) {
    until("the program listens", PATIENCE, || TcpStream::connect(addr).ok());
}

fn said(task: &Value) -> String {
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    text_of(&task["artifacts"][0]["parts"])
}

#[test]
fn every_page_with_something_to_run_is_run() {
    let mut shown: Vec<String> = Vec::new();
    for entry in fs::read_dir(pages()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        if ["```python", "```yaml", "rialto serve"].iter().any(|sign| text.contains(sign)) {
            shown.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    shown.sort();
    assert_eq!(shown, RUN);
}

#[test]
fn the_config_of_the_first_page_is_checked_and_its_program_answers() {
    let page = Page::open("README");
    let file = page.write("yaml", "rialto.yaml");
    let done = Command::new(setup::binary()).args(["config", "check", "--config"]).arg(&file).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(said(&page.start().at("").send(message("hello"))), "HELLO", "the default answers at the root");
}

/// The one-line commands of a page, each with its own server to translate.
fn one_liners(page: &str, shown: &'static str) {
    let far = Server::start(&[]);
    let ours = format!("{}/a2a/echo", far.url());
    let text = Page::open(page).with(shown, "").text.replace(shown, &ours);
    let text = text.replace("grpc://127.0.0.1:50051", &far.url().replace("http://", "grpc://"));
    let lines: Vec<&str> = text.split("rialto serve --agent ").skip(1).collect();
    assert!(!lines.is_empty());
    for line in lines {
        let word = match line.strip_prefix('\'') {
            Some(quoted) => quoted.split('\'').next().unwrap(),
            None => line.split([' ', '`', '\n']).next().unwrap(),
        };
        let server = Server::start(&["--agent", word]);
        let expected = if word.contains("command:") { "HELLO" } else { "hello" };
        for tongue in Tongue::ALL {
            let seen = tongue.speaker(&server.at("")).tell("hello");
            assert_eq!(
                (seen.state.as_str(), seen.texts.concat().as_str()),
                ("completed", expected),
                "{word} {tongue:?}"
            );
        }
    }
}

#[test]
fn the_one_liners_serve() {
    one_liners("README", "https://host/a2a");
    one_liners("a2a", "https://agents.example.org/a2a/old");
}

#[test]
fn the_config_of_the_page_about_other_servers_translates() {
    let far = Server::start(&[]);
    let page = Page::open("a2a").with("https://agents.example.org/a2a/old", format!("{}/a2a/echo", far.url()));
    assert_eq!(said(&page.start().agent("old").send(message("hello"))), "hello");
}

#[test]
fn the_assistant_of_the_page_about_assistants_prints() {
    let page = Page::open("assistant");
    let [config] = &page.blocks("yaml")[..] else { panic!("one config") };
    let server = page.serve(config).start();
    let printed = server.agent("printer").send(parts(json!([{ "data": { "month": "May" } }])));
    assert_eq!(serde_json::from_str::<Value>(&said(&printed)).unwrap(), json!({ "month": "May" }));
}

#[test]
fn the_programs_of_the_page_about_programs_run() {
    let page = Page::open("command");
    assert_eq!(said(&page.ask(&page.start())), "HELLO");
    page.write("python", "guess.py");
    let config = page.blocks("yaml").into_iter().find(|block| block.contains("guess.py")).unwrap();
    let server = page.serve(&config).start();
    let agent = server.agent("guess");
    let asked = agent.send(message("let us play"));
    assert_eq!(text_of(&asked["status"]["message"]["parts"]), "which number from 1 to 10 do you guess?");
    let id = asked["id"].as_str().unwrap();
    let wrong = agent.send(to_task(message("3"), id));
    assert_eq!(text_of(&wrong["status"]["message"]["parts"]), "no; try another");
    assert_eq!(said(&agent.send(to_task(message("7"), id))), "right!");
}

#[test]
fn the_endpoint_of_the_page_about_endpoints_answers() {
    let addr = free_address();
    let page = Page::open("http").with("9000", addr.port());
    let _program = page.run(python(), "shout.py", &[]);
    listens(addr);
    assert_eq!(said(&page.ask(&page.start())), "HELLO!");
}

#[test]
fn the_model_of_the_page_about_models_speaks() {
    let addr = free_address();
    let page = Page::open("openai").with("9001", addr.port()).with("11434", addr.port());
    let _program = page.run(python(), "model.py", &[]);
    listens(addr);
    let server = page.start();
    let [(path, body)] = &page.requests()[..] else { panic!("one request") };
    let agent = server.at(path);
    let frames = agent.stream(body["method"].as_str().unwrap(), body["params"].clone()).unwrap().rest();
    let task = agent.task(frames[0].task());
    assert_eq!(said(&task), "You said hello, and 2 messages in all. ");
    assert_eq!(task["metadata"]["usage"]["output_tokens"], 8, "{task}");
}

#[test]
fn the_worker_of_the_page_about_workers_works_and_outlives_a_killed_server() {
    let page = Page::open("worker");
    let config = page.file("yaml", "rialto.yaml");
    let mut server = page.serve(&config).env("WORKER_SECRET", "s3cret-of-workers").start();
    let desk = format!("{}/workers/upper", server.url());
    let _program = page.run(python(), "worker.py", &[("DESK", &desk), ("WORKER_SECRET", "s3cret-of-workers")]);
    assert_eq!(said(&page.ask(&server)), "HELLO");
    server.restart();
    assert_eq!(said(&server.agent("upper").send(message("again"))), "AGAIN");
}

#[test]
fn the_tools_of_the_page_about_tools_are_called() {
    let page = Page::open("mcp");
    page.write("python", "tools.py");
    let bin = setup::ensure("mcp/2/.venv/.stamp").with_file_name("bin");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let server = page.serve(&page.file("yaml", "rialto.yaml")).env("PATH", &path).start();
    let task = page.ask(&server);
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    assert_eq!(task["artifacts"][0]["parts"][0]["data"], json!({ "sum": 3 }), "{task}");
}

#[test]
fn the_graph_of_the_page_about_graphs_asks_and_answers() {
    let addr = free_address();
    let page = Page::open("langgraph").with("2024", addr.port());
    page.write("python", "graph.py");
    fs::write(page.folder.path().join("langgraph.json"), &page.blocks("json")[0]).unwrap();
    let program = setup::ensure("langgraph/.venv/.stamp").with_file_name("bin/langgraph");
    let mut dev = Command::new(program);
    dev.args(["dev", "--no-browser", "--no-reload", "--host", "127.0.0.1", "--port", &addr.port().to_string()]);
    // No analytics and no network access.
    dev.envs([("LANGGRAPH_CLI_NO_ANALYTICS", "1"), ("LANGSMITH_TRACING", "false"), ("LANGCHAIN_TRACING_V2", "false")]);
    let _program = Program::start(&mut dev, page.folder.path());
    listens(addr);
    let server = page.start();
    let asked = page.ask(&server);
    assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    assert_eq!(text_of(&asked["status"]["message"]["parts"]), "Rome in which month?");
    let answer = to_task(message("May"), asked["id"].as_str().unwrap());
    let done = server.agent("trips").send(answer);
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED", "{done}");
    let all = done["artifacts"].as_array().unwrap();
    let answer = all.iter().find(|artifact| artifact["name"] == "Assistant Response").unwrap();
    assert_eq!(text_of(&answer["parts"]), "Rome in May it is.");
}
