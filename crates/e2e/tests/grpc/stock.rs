//! The programs in `clients/` that speak gRPC with the SDKs and the stock clients of grpcio.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use e2e::{Server, setup};
use serde_json::{Value, json};

/// A Python SDK, by the folder of its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sdk(pub(crate) &'static str);

pub(crate) const TODAY: Sdk = Sdk("python");
pub(crate) const BEFORE: Sdk = Sdk("python-0.3");

impl Sdk {
    /// A program of this SDK, at `folder/name` below `clients`, without its arguments.
    pub(crate) fn program(self, path: &str) -> Command {
        let (clients, Sdk(folder)) = (setup::clients(), self);
        let python = setup::ensure(&format!("{folder}/.venv/.stamp")).with_file_name("bin/python");
        let modules = std::env::join_paths([clients.join(folder), clients.join("older")]).unwrap();
        let mut command = Command::new(python);
        // Keeps bytecode out of the sources.
        command.arg(clients.join(path)).env("PYTHONPATH", modules).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// The program of the scenarios, or `tool`, which makes one call.
    pub(crate) fn shared(self, name: &str) -> Command {
        let home = if self == TODAY { "python" } else { "older" };
        self.program(&format!("{home}/{name}.py"))
    }

    /// A call of the SDK's `tool` over gRPC: its JSON output, one value on each line.
    pub(crate) fn call(self, server: &Server, words: &[&str]) -> Vec<Value> {
        let output = self.shared("tool").args([&server.url(), "GRPC"]).args(words).output().expect("the tool starts");
        let said = String::from_utf8_lossy(&output.stdout);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{self:?} {words:?}: {said}{told}");
        said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
    }

    /// A stream that the SDK's `tool` reads over gRPC, line by line.
    pub(crate) fn watch(self, server: &Server, task: &str) -> Child {
        let mut command = self.shared("tool");
        command.args([&server.url(), "GRPC", "watch", task]).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("the tool starts")
    }
}

/// Makes calls with the stubs of the SDK, and reads their errors with it: see `clients/python/grpc_calls.py`.
pub(crate) fn calls(server: &Server, rows: &[Value]) -> Vec<Value> {
    let mut program = TODAY.program("python/grpc_calls.py");
    program.arg(server.url()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().expect("the program starts");
    let lines: String = rows.iter().map(|row| format!("{row}\n")).collect();
    let mut input = child.stdin.take().unwrap();
    let writing = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{told}");
    writing.join().unwrap().expect("the program reads its rows");
    let answers: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), rows.len(), "an answer for each row: {said}{told}");
    answers
}

/// A call of 1.0 to an agent.
pub(crate) fn v1(agent: &str, call: &str, mut request: Value) -> Value {
    if !agent.is_empty() {
        request["tenant"] = json!(format!("a2a/{agent}"));
    }
    json!({ "generation": "1.0", "call": call, "request": request, "metadata": {} })
}

/// A call of 0.3 to an agent.
pub(crate) fn v03(agent: &str, call: &str, request: Value) -> Value {
    let metadata = if agent.is_empty() { json!({}) } else { json!({ "x-a2a-agent": agent }) };
    json!({ "generation": "0.3", "call": call, "request": request, "metadata": metadata })
}

/// The same call with one more of its metadata.
pub(crate) fn with(mut row: Value, name: &str, value: &str) -> Value {
    row["metadata"][name] = json!(value);
    row
}

/// A user's message in the JSON of 0.3's protobuf.
pub(crate) fn message_v03(parts: Value) -> Value {
    json!({ "messageId": e2e::fresh_id(), "role": "ROLE_USER", "content": parts })
}
