//! Agents of the config: served in every dialect, from a file or a flag, and replaced while the server runs.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::path::Path;
use std::process::Command;

use e2e::poll::PATIENCE;
use e2e::server::{Options, is_alive};
use e2e::{Server, Tongue, send, until};
use serde_json::{Value, json};

const UPPER: &str = "agents:\n  upper: { kind: command, command: [tr, a-z, A-Z] }\n";
const LOWER: &str = "agents:\n  lower: { kind: command, command: [tr, A-Z, a-z] }\n";

/// The answer of the agent at the root.
fn at_root(server: &Server, text: &str) -> String {
    let seen = Tongue::V1.speaker(&server.at("")).tell(text);
    assert_eq!(seen.state, "completed");
    seen.texts.concat()
}

fn rialto(args: &[&str], data: &Path) -> (bool, String, String) {
    let done = Command::new(e2e::setup::binary()).args(args).arg("--data").arg(data).output().expect("rialto runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (done.status.success(), text(&done.stdout), text(&done.stderr))
}

/// Reloads the server's config: the result.
fn reload(server: &Server) -> Value {
    let (_, out, err) = rialto(&["reload", "-o", "json"], &server.data());
    serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"))
}

fn serves(server: &Server, agent: &str) -> bool {
    server.get(&format!("/a2a/{agent}/.well-known/agent-card.json")).status() == 200
}

#[test]
fn a_program_of_the_config_answers_in_every_dialect() {
    let server = Server::options().config(UPPER).start();
    for tongue in Tongue::ALL {
        let seen = tongue.speaker(&server.agent("upper")).tell("hello");
        assert_eq!((seen.state.as_str(), seen.texts.concat().as_str()), ("completed", "HELLO"), "{tongue:?}");
    }
    assert_eq!(at_root(&server, "also here"), "ALSO HERE", "the only one is the default");
    assert_eq!(server.get("/a2a/echo/.well-known/agent-card.json").status(), 404, "the demo's are not served");
    let listed = server.get("/agents").json();
    assert_eq!(listed["agents"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn the_first_agent_of_the_file_is_the_default_unless_another_is_named() {
    let two = format!("{UPPER}  lower: {{ kind: command, command: [tr, A-Z, a-z] }}\n");
    assert_eq!(at_root(&Server::options().config(&two).start(), "Hi"), "HI");
    assert_eq!(at_root(&Server::options().config(&format!("default: lower\n{two}")).start(), "Hi"), "hi");
}

#[test]
fn an_agent_is_served_from_one_line() {
    let server = Server::start(&["--agent", "upper=command:tr a-z A-Z"]);
    assert_eq!(at_root(&server, "hello"), "HELLO");
    assert!(serves(&server, "upper") && !serves(&server, "echo"));
    let both = Server::options().config(UPPER).args(&["--agent", "same=command:cat"]).start();
    assert_eq!(at_root(&both, "Hi"), "HI");
    assert_eq!(Tongue::V03.speaker(&both.agent("same")).tell("Hi").texts, ["Hi"]);
    let (data, agents) = (both.data(), |list: Value| {
        let tasks = list["tasks"].as_array().unwrap().clone();
        tasks.iter().map(|task| task["agent"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    });
    let (_, out, _) = rialto(&["task", "list", "-o", "json"], &data);
    assert_eq!(agents(serde_json::from_str(&out).unwrap()), ["same", "upper"], "newest first, of all agents");
}

#[test]
fn an_agent_of_another_server_is_translated_from_one_line() {
    let far = Server::start(&[]);
    let near = Server::start(&["--agent", &format!("old={}/a2a/echo", far.url())]);
    for tongue in Tongue::ALL {
        let seen = tongue.speaker(&near.at("")).tell("hello");
        assert_eq!((seen.state.as_str(), seen.texts.concat().as_str()), ("completed", "hello"), "{tongue:?}");
    }
    assert!(serves(&near, "old") && !serves(&near, "echo"));
}

#[test]
fn a_check_passes_with_a_warning_where_another_machine_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rialto.yaml");
    std::fs::write(&file, "agents:\n  old: { kind: a2a, url: 'http://127.0.0.1:1/a2a' }\n").unwrap();
    let done = Command::new(e2e::setup::binary()).args(["config", "check", "--config"]).arg(&file).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && out.contains("fine") && err.contains("cannot be reached now"), "{out}{err}");
}

#[test]
fn a_wrong_agent_stops_the_start_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |options: Options| {
        let done = Server::command(&options, "127.0.0.1:0", folder.path()).output().expect("rialto runs");
        assert!(!done.status.success());
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let said = refused(Server::options().args(&["--agent", "upper"]));
    assert!(said.contains("NAME=https://host, NAME=grpc://host:port or NAME=command:PROGRAM"), "{said}");
    std::fs::write(folder.path().join("rialto.yaml"), "agents:\n  a: { kind: comand, run: cat }\n").unwrap();
    let said = refused(Server::options().config("as written"));
    assert!(said.contains("line 2") && said.contains("did you mean `command`?"), "{said}");
}

#[test]
fn a_hangup_swaps_the_agents() {
    let server = Server::options().config(UPPER).start();
    let done = Tongue::V1.speaker(&server.agent("upper")).tell("done");
    server.write_config(LOWER);
    server.hang_up();
    until("the new agent is served", PATIENCE, || serves(&server, "lower").then_some(()));
    assert!(!serves(&server, "upper"));
    assert_eq!(at_root(&server, "Hi"), "hi", "it is at the root, too");
    let read = Tongue::V1.speaker(&server.agent("upper")).get(&done.id);
    assert_eq!(read, done, "what the old one did can be read");
    let params = send(e2e::message("hi"));
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params });
    assert_eq!(server.agent("upper").post(body.to_string()).status(), 404, "but it takes no more");
}

#[test]
fn a_change_of_the_file_swaps_the_agents() {
    let server = Server::options().config(UPPER).start();
    server.write_config(LOWER);
    until("the new agent is served", PATIENCE, || serves(&server, "lower").then_some(()));
    assert!(!serves(&server, "upper"));
}

#[test]
fn a_file_that_cannot_be_used_is_refused_with_the_reason_and_the_old_one_stays() {
    let server = Server::options().config(UPPER).start();
    server.write_config("agents:\n  lower: { kind: comand, run: cat }\n");
    let why = "the new config cannot be used, the one before stays";
    until("the refusal is in the log", PATIENCE, || server.log().contains(why).then_some(()));
    let log = server.log();
    let line = log.lines().find(|line| line.contains(why)).unwrap();
    assert!(line.contains("line 2") && line.contains("did you mean `command`?"), "{line}");
    assert_eq!(at_root(&server, "still here"), "STILL HERE");
    let (ok, out, err) = rialto(&["reload"], &server.data());
    assert!(!ok && out.starts_with("refused: ") && err.contains("goes on with the config it had"), "{out}{err}");
    // Half of the config would be valid: not even that is applied.
    server.write_config(&format!("{LOWER}policy:\n  - allow: {{ methods: [sing] }}\n"));
    assert_eq!(reload(&server)["outcome"], "refused");
    assert!(serves(&server, "upper") && !serves(&server, "lower"));
    server.write_config("");
    assert!(reload(&server)["reason"].as_str().unwrap().contains("is empty"));
    server.write_config(LOWER);
    assert_eq!(reload(&server)["outcome"], "applied", "a good one is taken after all");
    assert!(serves(&server, "lower"));
}

#[test]
fn reload_tells_what_changed_and_what_needs_a_restart() {
    let server = Server::options().config(UPPER).start();
    server.write_config(&format!(
        "workers: 3\nlimits: {{ body_bytes: 5000 }}\n{}  fresh: {{ kind: echo }}\n",
        UPPER.replace("A-Z", "B-ZA")
    ));
    let told = reload(&server);
    assert_eq!(
        told,
        json!({
            "outcome": "applied",
            "agents": { "added": ["fresh"], "changed": ["upper"], "removed": [] },
            "needs_restart": ["workers", "limits.body_bytes"],
        })
    );
    assert_eq!(at_root(&server, "abc"), "BCD");
    let (ok, out, _) = rialto(&["reload"], &server.data());
    assert!(ok && out == "applied\nneeds a restart: workers, limits.body_bytes\n", "{out}");
    let empty = tempfile::tempdir().unwrap();
    let (ok, _, err) = rialto(&["reload"], empty.path());
    assert!(!ok && err.contains("there is no data in"), "{err}");
}

#[test]
fn a_stream_that_runs_during_a_swap_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("open");
    let program = format!("echo begun; until [ -e {} ]; do sleep 0.02; done; echo done", gate.display());
    let server = Server::options()
        .config(&format!("agents:\n  old: {{ kind: command, command: [sh, -c, '{program}'] }}\n"))
        .start();
    let mut events = server.agent("old").stream("SendStreamingMessage", send(e2e::message("go"))).unwrap();
    events.take_until(|frame| frame.data.contains("begun"));
    server.write_config(LOWER);
    assert_eq!(reload(&server)["agents"]["removed"], json!(["old"]));
    assert!(serves(&server, "lower") && !serves(&server, "old"));
    std::fs::write(&gate, "").unwrap();
    let rest = events.rest();
    assert!(rest.iter().any(|frame| frame.data.contains("done")));
    let last = rest.last().unwrap().event();
    assert_eq!(last["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED", "{last}");
}

#[test]
fn an_agent_that_is_gone_fails_its_turn_after_a_restart_and_says_why() {
    let options = Server::options().sqlite_only("an agent that is gone");
    let mut server = options.config("agents:\n  old: { kind: scripted, restart: retry }\n").start();
    let id = Tongue::V1.speaker(&server.agent("old")).open(&json!([{ "status": "working" }, { "hang": true }]));
    server.write_config(LOWER);
    assert_eq!(reload(&server)["outcome"], "applied");
    let old = Tongue::V1.speaker(&server.agent("old"));
    old.rest(&id, &["working"]);
    server.restart();
    let shown: Value = e2e::until("the turn has been taken up", e2e::poll::PATIENCE, || {
        let (_, out, _) = rialto(&["task", "show", &id, "-o", "json"], &server.data());
        serde_json::from_str(&out).ok().filter(|shown: &Value| shown["state"] != "working")
    });
    assert_eq!(shown["state"], "failed");
    assert_eq!(shown["message"], "the server restarted and no longer serves this agent");
}

#[test]
fn policy_keys_and_limits_take_effect_and_the_policy_is_audited() {
    let keys = "auth:\n  keys:\n    - { name: ann, tenant: t, key: 'env:E2E_ANN' }\n    - { name: bob, tenant: t, key: 'env:E2E_BOB' }\n";
    let server = Server::options()
        .config(&format!("{UPPER}{keys}"))
        .env("E2E_ANN", "ann-0123456789")
        .env("E2E_BOB", "bob-0123456789")
        .start();
    let call = |key: &str| {
        let client = server.agent("upper").with("X-Api-Key", key);
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
        client.post(body.to_string()).status()
    };
    assert_eq!((call("ann-0123456789"), call("bob-0123456789")), (200, 200));
    let audited = || std::fs::read_to_string(server.data().join("audit.log")).unwrap_or_default();
    assert!(!audited().contains("policy"));
    server.write_config(&format!("{UPPER}{keys}policy:\n  - allow: {{ callers: [ann] }}\n"));
    assert_eq!(reload(&server)["outcome"], "applied");
    assert_eq!((call("ann-0123456789"), call("bob-0123456789")), (200, 403));
    assert_eq!(audited().lines().filter(|line| line.contains(r#""change":"set""#)).count(), 1);
    let only_ann = keys.lines().take(3).collect::<Vec<_>>().join("\n");
    let limited = "limits: { rate: { per_caller: { per_minute: 1, burst: 2 } } }";
    server.write_config(&format!("{UPPER}{only_ann}\n{limited}\ncard: clean\n"));
    assert_eq!(reload(&server)["outcome"], "applied");
    assert_eq!(call("bob-0123456789"), 401, "its key is gone");
    assert_eq!((call("ann-0123456789"), call("ann-0123456789"), call("ann-0123456789")), (200, 200, 429));
    assert!(audited().contains(r#""change":"removed""#));
    let card = server.get("/.well-known/agent-card.json").json();
    assert!(card.get("protocolVersion").is_none(), "the card is a clean one: {card}");
}

#[test]
fn a_demo_says_where_it_answers_and_does_so_again() {
    let mut server = Server::start(&[]);
    let file = server.data().join("demo.json");
    let read = || serde_json::from_slice::<Value>(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(read()["base_url"], server.url());
    let mut kept = read();
    kept["some_front"] = json!({ "id": "1" });
    std::fs::write(&file, kept.to_string()).unwrap();
    server.restart();
    assert_eq!(read(), kept);
    let shown = server.operate(&["demo", "-o", "json"]).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let told = |entry: &Value| entry["section"] == "some_front" && entry["name"] == "id" && entry["value"] == "1";
    assert!(shown["entries"].as_array().unwrap().iter().any(told), "{shown}");
    let configured = Server::options().config(UPPER).start();
    assert!(!configured.data().join("demo.json").exists());
}

/// The pids of a program and its child, one line for each program.
fn started(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// A long-running program with a child. It does not end when its pipes close.
fn long_running(file: &Path) -> String {
    let line = format!("trap \"\" TERM PIPE; sleep 1000 & echo $$ $! >> {}; wait; sleep 1000", file.display());
    format!("agents:\n  long: {{ kind: command, command: [sh, -c, '{line}'], concurrency: 64 }}\n")
}

fn none_is_left(file: &Path) {
    let left = || started(file).into_iter().filter(|pid| is_alive(pid)).collect::<Vec<_>>();
    until("no program is left", PATIENCE, || left().is_empty().then_some(()));
}

#[test]
fn programs_and_what_they_started_end_with_the_server_however_it_ends() {
    for signal in ["KILL", "ABRT", "TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pids");
        let mut server = Server::options().config(&long_running(&file)).start();
        for _ in 0..3 {
            server.agent("long").open(e2e::message("go"));
        }
        until("the programs run", PATIENCE, || (started(&file).len() == 6).then_some(()));
        assert!(started(&file).iter().all(|pid| is_alive(pid)), "{signal}");
        e2e::server::signal(server.pid(), signal);
        if signal == "TERM" {
            // A second signal skips the wait for running turns.
            until("it drains", PATIENCE, || server.log().contains("shutting down").then_some(()));
            e2e::server::signal(server.pid(), signal);
        }
        server.wait();
        none_is_left(&file);
    }
}

#[test]
fn programs_that_are_being_started_end_with_a_server_that_is_killed() {
    let mut random = e2e::seed::Random::from_env("programs being started");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut server = Server::options().config(&long_running(&file)).start();
    for _ in 0..4 {
        let (client, enough, file) = (server.agent("long"), random.between(1, 24) as usize, &file);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let client = client.clone();
                scope.spawn(move || {
                    let params =
                        json!({ "message": e2e::message("go"), "configuration": { "returnImmediately": true } });
                    while client.try_rpc("SendMessage", params.clone()).is_ok() && started(file).len() < 200 {}
                });
            }
            until("some programs run", PATIENCE, || (started(file).len() >= enough).then_some(()));
            server.kill9();
        });
        none_is_left(file);
        std::fs::remove_file(file).unwrap();
        server.restart();
    }
}

/// The guardian process of a server.
fn guardian(server: &Server) -> Option<String> {
    let parent = server.pid().to_string();
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|process| {
        let read = |name: &str| std::fs::read_to_string(process.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        let of = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
        let pid = process.file_name().to_string_lossy().into_owned();
        (of == Some(&parent) && read("cmdline").contains("guard-programs") && is_alive(&pid)).then_some(pid)
    })
}

#[test]
fn a_guardian_that_is_killed_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let mut server = Server::options().config(&long_running(&file)).start();
    server.agent("long").open(e2e::message("go"));
    let first = until("there is a guardian", PATIENCE, || guardian(&server));
    e2e::server::signal(first.parse().unwrap(), "KILL");
    until("it is gone", PATIENCE, || (!is_alive(&first)).then_some(()));
    server.agent("long").open(e2e::message("go"));
    until("both programs run", PATIENCE, || (started(&file).len() == 4).then_some(()));
    until("there is another", PATIENCE, || guardian(&server).filter(|pid| *pid != first));
    server.kill9();
    none_is_left(&file);
}
