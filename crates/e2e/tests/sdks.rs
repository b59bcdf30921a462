//! Third-party clients of three generations against one running server, used as their users do. The scenarios are
//! in `clients/`: `python` and `js` for the 1.x SDKs, `older` for those before, with an adapter in the folder of
//! each version.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use e2e::{Server, Tongue, setup};
use serde_json::{Value, json};

/// An SDK in one version: the folder of its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sdk {
    Python(&'static str),
    Js(&'static str),
}

use Sdk::{Js, Python};

/// Every SDK, with the bindings that version has.
const SDKS: &[(Sdk, &[&str])] = &[
    (Python("python"), &["JSONRPC", "HTTP+JSON"]),
    (Python("python-0.3"), &["JSONRPC", "HTTP+JSON"]),
    (Python("python-0.2"), &["JSONRPC"]),
    (Js("js"), &["JSONRPC", "HTTP+JSON"]),
    (Js("js-0.3"), &["JSONRPC", "HTTP+JSON"]),
    (Js("js-0.2"), &["JSONRPC"]),
];

impl Sdk {
    /// A program of this SDK (`scenarios` or `tool`), without its arguments.
    fn program(self, name: &str) -> Command {
        let clients = setup::clients();
        match self {
            Python(folder) => {
                let python = setup::ensure(&format!("{folder}/.venv/.stamp")).with_file_name("bin/python");
                let home = if folder == "python" { folder } else { "older" };
                let mut command = Command::new(python);
                command
                    .arg(clients.join(home).join(format!("{name}.py")))
                    .env("PYTHONPATH", clients.join(folder))
                    // Keeps bytecode out of the sources.
                    .env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
            Js(folder) => {
                setup::ensure(&format!("{folder}/node_modules/.stamp"));
                let home = if folder == "js" { folder } else { "older" };
                let mut command = Command::new("node");
                command.arg(clients.join(home).join(format!("{name}.mjs")));
                if folder != "js" {
                    command.arg(folder);
                }
                command
            }
        }
    }

    /// One call of the SDK's `tool`: its JSON output, one value on each line.
    fn call(self, server: &Server, words: &[&str]) -> Vec<Value> {
        let mut command = self.program("tool");
        command.args([&server.url(), "JSONRPC"]).args(words);
        let output = command.output().expect("the tool starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{self:?} {words:?}: {said}{told}");
        said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }
}

#[test]
fn every_sdk_of_every_generation_does_everything_against_one_server() {
    let server = Server::start(&[]);
    let runs: Vec<(Sdk, &str)> =
        SDKS.iter().flat_map(|(sdk, bindings)| bindings.iter().map(|binding| (*sdk, *binding))).collect();
    let failed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = runs
            .iter()
            .map(|(sdk, binding)| {
                let url = server.url();
                scope.spawn(move || {
                    let output = sdk.program("scenarios").args([&url, *binding]).output().expect("the program starts");
                    let out = String::from_utf8_lossy(&output.stdout).into_owned();
                    let said = format!("{out}{}", String::from_utf8_lossy(&output.stderr));
                    eprintln!("{said}");
                    let fine = output.status.success() && out.contains("ok ");
                    (!fine).then(|| format!("{sdk:?} {binding}: {}\n{said}", output.status))
                })
            })
            .collect();
        workers.into_iter().filter_map(|worker| worker.join().expect("a run ends")).collect()
    });
    assert!(failed.is_empty(), "{} of {} runs failed:\n{}", failed.len(), runs.len(), failed.join("\n"));
}

/// Opened by one SDK, watched by another, cancelled or answered in a third generation.
#[test]
fn three_sdks_of_three_generations_share_a_task() {
    let server = Server::start(&[]);
    let hanging = r#"[{"status":"working","text":"waiting"},{"hang":true}]"#;
    let asking = r#"[{"input":"name?"},{"echo":true},{"complete":"thanks"}]"#;
    let envelope = Tongue::V01.speaker(&server.agent("scripted"));
    for (opener, watcher, reader) in [
        (Python("python-0.3"), Python("python"), Js("js-0.2")),
        (Js("js-0.2"), Python("python-0.3"), Python("python")),
        (Python("python"), Js("js-0.3"), Python("python-0.2")),
    ] {
        let opened = opener.call(&server, &["open", hanging]);
        let id = opened[0]["id"].as_str().unwrap().to_owned();
        let watched = watch_while(&server, watcher, &id, || {
            envelope.try_cancel(&id).unwrap_or_else(|error| panic!("cancelled in 0.1: {error}"));
        });
        assert_eq!(state(watched.last().unwrap()), "canceled", "{watched:?}");
        assert_eq!(state(&reader.call(&server, &["get", &id])[0]), "canceled");

        let opened = opener.call(&server, &["open", asking]);
        let id = opened[0]["id"].as_str().unwrap().to_owned();
        server.agent("scripted").in_state(&id, "TASK_STATE_INPUT_REQUIRED");
        let watched = watch_while(&server, watcher, &id, || {
            let done = reader.call(&server, &["answer", &id, "Ada"]);
            assert_eq!(state(&done[0]), "completed", "{done:?}");
        });
        assert_eq!(state(watched.last().unwrap()), "completed", "{watched:?}");
        let artifacts = &opener.call(&server, &["get", &id])[0]["artifacts"];
        assert_eq!(artifacts[0]["parts"][0]["text"], "Ada", "{artifacts}");
    }
}

/// A task of the first generation is an ordinary task to SDKs of the others.
#[test]
fn sdks_read_and_cancel_a_task_of_the_first_generation() {
    let server = Server::start(&[]);
    let envelope = Tongue::V01.speaker(&server.agent("scripted"));
    let mut failed = Vec::new();
    for (sdk, _) in SDKS {
        let alias = envelope.open(&json!([{ "status": "working" }, { "hang": true }]));
        let id = server.agent("scripted").in_state(&alias, "TASK_STATE_WORKING")["id"].as_str().unwrap().to_owned();
        let outcome = std::panic::catch_unwind(|| {
            assert_eq!(state(&sdk.call(&server, &["get", &id])[0]), "working");
            let watched = watch_while(&server, *sdk, &id, || {
                assert_eq!(state(&sdk.call(&server, &["cancel", &id])[0]), "canceled");
            });
            assert_eq!(state(watched.last().unwrap()), "canceled", "{watched:?}");
        });
        if outcome.is_err() {
            failed.push(*sdk);
        }
    }
    assert!(failed.is_empty(), "{failed:?} cannot");
}

/// Reads a task's stream with an SDK; `act` runs after the first event.
fn watch_while(server: &Server, sdk: Sdk, id: &str, act: impl FnOnce()) -> Vec<Value> {
    let mut command = sdk.program("tool");
    command.args([&server.url(), "JSONRPC", "watch", id]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the tool starts");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut events = Vec::new();
    if let Some(first) = lines.next() {
        events.push(serde_json::from_str(&first.unwrap()).unwrap());
        act();
    }
    events.extend(lines.map(|line| -> Value { serde_json::from_str(&line.unwrap()).unwrap() }));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && !events.is_empty(), "{sdk:?}: {}", String::from_utf8_lossy(&output.stderr));
    events
}

/// The state of a task or an event, in the terms of 0.3.
fn state(thing: &Value) -> String {
    let thing = ["task", "statusUpdate"].iter().find_map(|kind| thing.get(kind)).unwrap_or(thing);
    let text = thing["status"]["state"].as_str().unwrap_or_else(|| panic!("no state in {thing}"));
    text.trim_start_matches("TASK_STATE_").to_lowercase().replace('_', "-")
}
