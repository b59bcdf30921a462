//! Tools of real MCP servers behind Rialto: `clients/mcp` uses the protocol's own SDK, in both of its versions,
//! over pipes and over streamable HTTP, and is called through A2A.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Weak};

use e2e::fold::text_of;
use e2e::poll::PATIENCE;
use e2e::server::{free_address, is_alive};
use e2e::{Client, Server, Tongue, fresh_id, message, parts, send, setup, to_task, until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The versions of the SDK, by the folders of their environments.
const VERSIONS: [&str; 2] = ["1", "2"];
const TOOLS: [&str; 6] = ["shout", "add", "work", "tea", "broken", "crash"];

/// A server of one SDK version: a program that Rialto starts, or one that runs already. It ends with the value.
struct Tools {
    version: &'static str,
    http: Option<(Child, SocketAddr)>,
    folder: TempDir,
}

impl Tools {
    fn over_pipes(version: &'static str) -> Tools {
        Tools { version, http: None, folder: tempfile::tempdir().unwrap() }
    }

    fn over_http(version: &'static str) -> Tools {
        let mut tools = Tools::over_pipes(version);
        let addr = free_address();
        let log = File::create(tools.folder.path().join("log")).unwrap();
        let words = tools.words();
        let child = Command::new(&words[0])
            .args(&words[1..])
            .arg(addr.port().to_string())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stderr(log.try_clone().unwrap())
            .stdout(log)
            .spawn()
            .unwrap();
        tools.http = Some((child, addr));
        until("the MCP server listens", PATIENCE, || TcpStream::connect(addr).ok());
        tools
    }

    /// The program's command line.
    fn words(&self) -> [PathBuf; 3] {
        let python = setup::ensure(&format!("mcp/{}/.venv/.stamp", self.version)).with_file_name("bin/python");
        [python, setup::clients().join("mcp/server.py"), self.folder.path().to_owned()]
    }

    fn name(&self) -> String {
        format!("{}-{}", if self.http.is_some() { "http" } else { "pipes" }, self.version)
    }

    /// Its agent in a config, with further options.
    fn config(&self, options: &str) -> String {
        let place = match &self.http {
            Some((_, addr)) => format!("url: 'http://{addr}/mcp'"),
            None => {
                let words = self.words().map(|word| format!("'{}'", word.display())).join(", ");
                format!("command: [{words}], env: {{ PYTHONDONTWRITEBYTECODE: '1' }}")
            }
        };
        format!("  {}: {{ kind: mcp, {place}, first_look_ms: 30000{options} }}\n", self.name())
    }

    /// How often the server did this.
    fn times(&self, act: &str) -> usize {
        self.acts().lines().filter(|line| *line == act).count()
    }

    fn acts(&self) -> String {
        fs::read_to_string(self.folder.path().join("acts")).unwrap_or_default()
    }

    /// The pids of the programs so far.
    fn pids(&self) -> Vec<String> {
        self.acts().lines().filter_map(|line| line.strip_prefix("started ")).map(str::to_owned).collect()
    }

    /// Calls the tool that works until it is released, and waits until it runs: the task.
    fn at_work(&self, agent: &Client) -> (String, String) {
        let name = fresh_id();
        let task = agent.open(call("work", json!({ "name": name })));
        let id = task["id"].as_str().unwrap().to_owned();
        until("the tool is at work", PATIENCE, || (self.times(&format!("began {name}")) == 1).then_some(()));
        (id, name)
    }

    fn let_go(&self, name: &str) {
        fs::write(self.folder.path().join(name), "").unwrap();
    }

    fn kill(&mut self) {
        if let Some((child, _)) = &mut self.http {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(40)..].join("\n");
            eprintln!("--- {} did ---\n{}--- and said ---\n{tail}", self.name(), self.acts());
        }
    }
}

/// Rialto with every kind of server behind it.
struct World {
    server: Server,
    all: Vec<Tools>,
}

impl World {
    fn start() -> World {
        let all: Vec<Tools> =
            VERSIONS.into_iter().flat_map(|version| [Tools::over_pipes(version), Tools::over_http(version)]).collect();
        let agents: String = all.iter().map(|tools| tools.config("")).collect();
        World { server: Server::options().config(&format!("agents:\n{agents}")).start(), all }
    }

    /// One instance for all tests that do not change it, while any of them runs.
    fn shared() -> Arc<World> {
        static SHARED: Mutex<Weak<World>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        shared.upgrade().unwrap_or_else(|| {
            let world = Arc::new(World::start());
            *shared = Arc::downgrade(&world);
            world
        })
    }

    fn each(&self, test: impl Fn(&Client, &Tools)) {
        for tools in &self.all {
            eprintln!("{}", tools.name());
            test(&self.server.agent(&tools.name()), tools);
        }
    }
}

fn call(tool: &str, arguments: Value) -> Value {
    parts(json!([{ "data": { "tool": tool, "arguments": arguments } }]))
}

fn words(task: &Value) -> String {
    text_of(&task["status"]["message"]["parts"])
}

fn completed(task: &Value) -> &Value {
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    &task["artifacts"][0]["parts"]
}

fn failed(task: &Value) -> String {
    assert_eq!(task["status"]["state"], "TASK_STATE_FAILED", "{task}");
    words(task)
}

#[test]
fn tools_are_skills_on_the_card() {
    let world = World::shared();
    world.each(|_, tools| {
        let card = world.server.get(&format!("/a2a/{}/.well-known/agent-card.json", tools.name())).json();
        let skills = card["skills"].as_array().unwrap();
        let ids: Vec<&str> = skills.iter().map(|skill| skill["id"].as_str().unwrap()).collect();
        assert_eq!(ids, TOOLS, "{card}");
        assert_eq!(
            (&skills[0]["name"], &skills[0]["description"]),
            (&json!("Shout"), &json!("Says it in capitals.")),
            "{card}"
        );
    });
}

#[test]
fn a_message_calls_a_tool_by_data_or_by_skill() {
    World::shared().each(|agent, _| {
        let sum = agent.send(call("add", json!({ "a": 1, "b": 2 })));
        assert_eq!(completed(&sum)[0]["data"], json!({ "sum": 3 }), "{sum}");
        let mut named = message("hello");
        named["metadata"] = json!({ "skill": "shout" });
        let shouted = agent.send(named);
        assert_eq!(text_of(completed(&shouted)), "HELLO");
        assert_eq!(shouted["artifacts"][0]["name"], "shout");
        let unknown = agent.send(call("sing", json!({})));
        assert_eq!(unknown["status"]["state"], "TASK_STATE_REJECTED");
        assert!(words(&unknown).contains("the tools are shout, add,"), "{}", words(&unknown));
        let unclear = agent.send(message("hello"));
        assert_eq!(unclear["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
        let then = agent.send(to_task(call("shout", json!({ "text": "then" })), unclear["id"].as_str().unwrap()));
        assert_eq!(text_of(completed(&then)), "THEN");
    });
}

#[test]
fn a_single_tool_takes_text_in_every_dialect() {
    let tools = Tools::over_pipes("2");
    let server = Server::options().config(&format!("agents:\n{}", tools.config(", tools: [shout]"))).start();
    for tongue in Tongue::ALL {
        let seen = tongue.speaker(&server.agent(&tools.name())).tell("hello");
        assert_eq!((seen.state.as_str(), seen.texts.concat().as_str()), ("completed", "HELLO"), "{tongue:?}");
    }
}

#[test]
fn progress_is_told_while_a_tool_works() {
    World::shared().each(|agent, tools| {
        let name = fresh_id();
        let mut events =
            agent.stream("SendStreamingMessage", send(call("work", json!({ "name": name })))).expect("a stream");
        let mut frames = events.take_until(|frame| frame.data.contains("half way"));
        tools.let_go(&name);
        frames.extend(events.rest());
        let status = |frame: &e2e::Frame| frame.event()["statusUpdate"]["status"].clone();
        let told: Vec<String> = frames
            .iter()
            .map(status)
            .filter(|status| status["state"] == "TASK_STATE_WORKING")
            .map(|status| text_of(&status["message"]["parts"]))
            .filter(|text| !text.is_empty())
            .collect();
        assert_eq!(told, ["1/3", "half way"]);
        assert_eq!(text_of(completed(&agent.task(frames[0].task()))), "done");
    });
}

#[test]
fn a_tool_that_asks_is_answered_and_may_be_declined() {
    World::shared().each(|agent, tools| {
        for (answer, made) in [
            (message("3"), "3 cups"),
            (parts(json!([{ "data": { "cups": 4 } }])), "4 cups"),
            (message("decline"), "no tea: decline"),
        ] {
            let before = tools.times("asked");
            let asked = agent.send(call("tea", json!({})));
            assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
            let question = &asked["status"]["message"]["parts"];
            assert_eq!(question[0]["text"], "how many cups?");
            assert_eq!(question[1]["data"]["schema"]["properties"]["cups"]["type"], "integer", "{question}");
            let id = asked["id"].as_str().unwrap();
            let again = agent.send(to_task(message("a few"), id));
            assert_eq!(again["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "what is no answer: {again}");
            let done = agent.send(to_task(answer, id));
            assert_eq!((&done["id"], text_of(completed(&done)).as_str()), (&asked["id"], made));
            assert_eq!(tools.times("asked"), before + 1, "the call that asked is the one that was answered");
        }
    });
}

#[test]
fn a_tool_that_cannot_do_it_says_why() {
    World::shared().each(|agent, _| {
        let says = failed(&agent.send(call("broken", json!({}))));
        assert!(says.contains("no paper"), "{says}");
        let says = failed(&agent.send(call("add", json!({ "a": "many", "b": 2 }))));
        assert!(says.contains('a'), "{says}");
        assert_eq!(text_of(completed(&agent.send(call("shout", json!({ "text": "still here" }))))), "STILL HERE");
    });
}

#[test]
fn a_cancel_reaches_the_tool_and_ends_its_program() {
    World::shared().each(|agent, tools| {
        let (id, name) = tools.at_work(agent);
        let canceled = agent.rpc("CancelTask", json!({ "id": id })).unwrap();
        assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
        until("the tool was told", PATIENCE, || (tools.times(&format!("cancelled {name}")) == 1).then_some(()));
        if tools.http.is_none() {
            let acts = tools.acts();
            let pid = acts.lines().find_map(|line| line.strip_prefix(&format!("program {name} "))).unwrap();
            until("its program is gone", PATIENCE, || (!is_alive(pid)).then_some(()));
        }
        assert_eq!(text_of(completed(&agent.send(call("shout", json!({ "text": "next" }))))), "NEXT");
    });
}

#[test]
fn a_program_that_dies_fails_its_task_with_its_last_words_and_is_started_again() {
    for version in VERSIONS {
        let tools = Tools::over_pipes(version);
        let server = Server::options().config(&format!("agents:\n{}", tools.config(""))).start();
        let agent = server.agent(&tools.name());
        let says = failed(&agent.send(call("crash", json!({}))));
        assert!(says.starts_with("the MCP server was lost while crash was at work: "), "{says}");
        assert!(says.contains("out of ink"), "{says}");
        assert_eq!(text_of(completed(&agent.send(call("shout", json!({ "text": "again" }))))), "AGAIN");
        assert_eq!(tools.pids().len(), 2, "{}", tools.acts());
    }
}

#[test]
fn a_server_that_dies_fails_its_tasks_and_hangs_nobody() {
    for version in VERSIONS {
        let mut tools = Tools::over_http(version);
        let server = Server::options().config(&format!("agents:\n{}", tools.config(""))).start();
        let agent = server.agent(&tools.name());
        let says = failed(&agent.send(call("crash", json!({}))));
        assert_eq!(says, "the MCP server was lost while crash was at work", "version {version}");
        let says = failed(&agent.send(call("shout", json!({ "text": "anyone?" }))));
        assert_eq!(says, "the MCP server could not be reached", "version {version}");
        tools.kill();
    }
}

#[test]
fn a_server_killed_in_the_middle_of_a_call_fails_the_task() {
    for version in VERSIONS {
        let mut tools = Tools::over_http(version);
        let server = Server::options().config(&format!("agents:\n{}", tools.config(""))).start();
        let agent = server.agent(&tools.name());
        let (id, _) = tools.at_work(&agent);
        tools.kill();
        let says = failed(&agent.settled(&id));
        assert_eq!(says, "the MCP server was lost while work was at work", "version {version}");
    }
}

#[test]
fn a_killed_rialto_fails_a_call_that_nobody_can_repeat_or_repeats_one_that_may_be() {
    let (careful, bold) = (Tools::over_pipes("1"), Tools::over_pipes("2"));
    let agents = format!("agents:\n{}{}", careful.config(""), bold.config(", restart: retry"));
    let mut server = Server::options().config(&agents).start();
    let (lost, _) = careful.at_work(&server.agent(&careful.name()));
    let (again, name) = bold.at_work(&server.agent(&bold.name()));
    server.restart();
    let says = failed(&server.agent(&careful.name()).settled(&lost));
    assert!(says.contains("restarted"), "{says}");
    until("it is called again", PATIENCE, || (bold.times(&format!("began {name}")) == 2).then_some(()));
    bold.let_go(&name);
    assert_eq!(text_of(completed(&server.agent(&bold.name()).settled(&again))), "done");
    // Programs whose Rialto died end, because their stdin closes.
    let first = careful.pids()[0].clone();
    until("the program of the killed server is gone", PATIENCE, || (!is_alive(&first)).then_some(()));
}

#[test]
fn what_a_program_started_ends_with_a_server_that_is_killed() {
    let tools = Tools::over_pipes(VERSIONS[0]);
    let words = tools.words().map(|word| word.display().to_string()).join(" ");
    // Its stdin closes with the server, which ends the program, but not the processes that it started.
    let line = format!(
        "sleep 1000 > /dev/null 2>&1 & echo started $! >> {}/acts; exec {words}",
        tools.folder.path().display()
    );
    let config = format!("agents:\n  tools: {{ kind: mcp, command: [sh, -c, '{line}'], first_look_ms: 30000 }}\n");
    let mut server = Server::options().config(&config).start();
    tools.at_work(&server.agent("tools"));
    let started = tools.pids();
    assert!(started.iter().any(|pid| is_alive(pid)), "{started:?}");
    server.kill9();
    until("all of it is gone", PATIENCE, || (!tools.pids().iter().any(|pid| is_alive(pid))).then_some(()));
}
