//! Common mistakes of new users, and the exact message of each: it says what is wrong, where, and what to do next.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use e2e::http::Request;
use e2e::poll::{PATIENCE, until};
use e2e::{Server, setup};
use serde_json::{Value, json};

/// The stderr of a command that must fail, without the name of its folder.
fn said(folder: &std::path::Path, words: &[&str]) -> String {
    let mut command = Command::new(setup::binary());
    command.args(words).current_dir(folder).env_remove("NO_SUCH_KEY");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{words:?}: {said}");
    said.trim_end().replace(&format!("{}/", folder.display()), "")
}

#[test]
fn a_mistake_in_the_config_is_told_with_the_file_the_line_the_key_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    for (what, text, says) in [
        (
            "a key that is not there",
            "lisen: 127.0.0.1:8080\n",
            "rialto.yaml, line 1: lisen: unknown field `lisen`; did you mean `listen`?",
        ),
        (
            "a nested key that is not there",
            "auth:\n  requird: true\n",
            "rialto.yaml, line 2: auth.requird: unknown field `requird`; did you mean `required`?",
        ),
        (
            "a text where a number belongs",
            "limits:\n  attempts: many\n",
            "rialto.yaml, line 2: limits.attempts: must be a whole number, not `many`",
        ),
        (
            "a text where a list belongs",
            "auth:\n  keys: ann\n",
            "rialto.yaml, line 2: auth.keys: must be a list, as in [a, b], not `ann`",
        ),
        (
            "a word that is not one of those there are",
            "durability: ful\n",
            "rialto.yaml, line 1: durability: must be one of full, relaxed, not `ful`; did you mean `full`?",
        ),
        (
            "a number that is out of range",
            "limits:\n  json_depth: 1\n",
            "rialto.yaml, line 2: limits.json_depth: 1 is out of range; choose a number from 8 to 10000",
        ),
        (
            "a kind of agent that is not there",
            "agents:\n  a: { kind: opnai }\n",
            "rialto.yaml, line 2: agents.a.kind: unknown kind `opnai`; did you mean `openai`?",
        ),
        (
            "an agent without a kind",
            "agents:\n  a: { url: 'http://127.0.0.1:9000' }\n",
            "rialto.yaml, line 2: agents.a: an agent needs a kind: one of command, http, openai, a2a, langgraph, worker, mcp, echo, scripted, assistant",
        ),
        (
            "an agent without its address",
            "agents:\n  a: { kind: http }\n",
            "rialto.yaml, line 2: agents.a: missing field `url`; add it",
        ),
        (
            "an address that is none",
            "agents:\n  a: { kind: http, url: localhost }\n",
            "rialto.yaml, line 2: agents.a: url: \"localhost\" is no address; write https://host/path",
        ),
        (
            "a secret whose variable is not set",
            "auth:\n  keys:\n    - { name: ann, tenant: t, key: 'env:NO_SUCH_KEY' }\n",
            "rialto.yaml, line 2: auth.keys: the key \"ann\": set the environment variable NO_SUCH_KEY",
        ),
        (
            "a secret in the file itself",
            "auth:\n  keys:\n    - { name: ann, tenant: t, key: hunter2 }\n",
            "rialto.yaml, line 2: auth.keys: the key \"ann\": secrets do not belong into the config; write env:NAME or file:PATH and put the secret there",
        ),
        (
            "a default agent that is not there",
            "default: uper\nagents:\n  upper: { kind: echo }\n",
            "rialto.yaml, line 1: default: there is no agent \"uper\"; did you mean \"upper\"?",
        ),
        (
            "two agents of one name",
            "agents:\n  a: { kind: echo }\n  a: { kind: echo }\n",
            "rialto.yaml, line 3: duplicate mapping key: a; take one of the two out, or give it another name",
        ),
        (
            "an address for everybody without a key",
            "listen: 0.0.0.0:8080\nauth: { required: false }\n",
            "rialto.yaml, line 1: listen: 0.0.0.0:8080 can be reached from other machines, and no key is required: leave auth.required and --auth out or say true, or listen on 127.0.0.1",
        ),
        (
            "several at once, of form and of sense",
            "lisen: x\nlimits: { attempts: many, retention: 3 }\nagents:\n  a: { kind: ecko }\n  b: { kind: http }\n",
            "rialto.yaml has 5 mistakes:
  line 1: lisen: unknown field `lisen`; did you mean `listen`?
  line 2: limits.attempts: must be a whole number, not `many`
  line 2: limits.retention: unknown field `retention`; did you mean `retention_hours`?
  line 4: agents.a.kind: unknown kind `ecko`; did you mean `echo`?
  line 5: agents.b: missing field `url`; add it",
        ),
        (
            "several of sense alone",
            "default: uper\nlimits:\n  attempts: 0\n  json_depth: 1\npublic_url: example.com\nauth:\n  keys:\n    - { name: ann, tenant: t, key: 'env:NO_SUCH_KEY' }\n    - { name: bob, tenant: t, key: hunter2 }\nagents: { upper: { kind: echo } }\n",
            "rialto.yaml has 6 mistakes:
  line 1: default: there is no agent \"uper\"; did you mean \"upper\"?
  line 3: limits.attempts: 0 is out of range; choose a number from 1 to 1000
  line 4: limits.json_depth: 1 is out of range; choose a number from 8 to 10000
  line 5: public_url: \"example.com\" is not an address; write https://host
  line 7: auth.keys: the key \"ann\": set the environment variable NO_SUCH_KEY
  line 7: auth.keys: the key \"bob\": secrets do not belong into the config; write env:NAME or file:PATH and put the secret there",
        ),
    ] {
        std::fs::write(folder.path().join("rialto.yaml"), text).unwrap();
        for words in [
            &["config", "check", "--config", "rialto.yaml"][..],
            &["serve", "--config", "rialto.yaml", "--data", "data"],
        ] {
            assert_eq!(said(folder.path(), words), format!("rialto: {says}"), "{what}: {words:?}");
        }
    }
}

#[test]
fn a_mistake_on_the_command_line_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (words, says) in [
        (
            &["serve", "--config", "nowhere.yaml"][..],
            "rialto: there is no config file nowhere.yaml: check --config, or leave it out to serve the demo"
                .to_owned(),
        ),
        (
            &["serve", "--listen", &taken, "--data", "data"],
            format!(
                "rialto: cannot listen on {taken}; is another server there? choose one with --listen: Address already in use (os error 98)"
            ),
        ),
        (
            &["serve", "--agent", "mine"],
            "rialto: --agent \"mine\" is no agent; write NAME=https://host, NAME=grpc://host:port or NAME=command:PROGRAM ARGUMENTS"
                .to_owned(),
        ),
    ] {
        let told = said(folder.path(), words);
        let last = told.lines().last().unwrap_or_default();
        assert_eq!(last, says, "{words:?}: {told}");
    }
    for (words, pieces) in [
        (&["srve"][..], ["unrecognized subcommand 'srve'", "a similar subcommand exists: 'serve'"]),
        (
            &["serve", "--lisen", "127.0.0.1:1"],
            ["unexpected argument '--lisen' found", "a similar argument exists: '--listen'"],
        ),
        (
            &["push", "redeliver", "t", "--push-confg", "x"],
            ["unexpected argument '--push-confg' found", "a similar argument exists: '--push-config'"],
        ),
    ] {
        let told = said(folder.path(), words);
        for piece in pieces {
            assert!(told.contains(piece), "{words:?}: {told}");
        }
    }
}

/// An answer in the caller's own protocol: its status, and the text for people.
fn answered(server: &Server, request: &Request, member: &str) -> (u16, String) {
    let answer = server.exchange(request);
    let body = answer.json();
    let text = member.split('.').fold(&body, |at, step| &at[step]);
    (answer.status(), text.as_str().unwrap_or_else(|| panic!("{member}: {body}")).to_owned())
}

fn rpc(path: &str, method: &str, params: Value) -> Request {
    Request::new("POST", path).json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

#[test]
fn a_mistake_in_a_request_is_told_in_the_callers_protocol() {
    let server = Server::start(&[]);
    let form =
        |path: &str| Request::new("POST", path).header("Content-Type", "application/x-www-form-urlencoded").body("{}");
    let wrong_type =
        "send the header Content-Type: application/json; this request says application/x-www-form-urlencoded";
    let (plain, newest) = ("error.message", |request: Request| request.header("A2A-Version", "1.0"));
    for (what, request, member, status, says) in [
        (
            "a method that is not there",
            rpc("/a2a/echo", "SendMesage", json!({})),
            plain,
            200,
            "no method \"SendMesage\"; did you mean SendMessage?",
        ),
        (
            "one of an older generation",
            newest(rpc("/a2a/echo", "message/send", json!({}))),
            plain,
            200,
            "no method \"message/send\"; did you mean SendMessage?",
        ),
        (
            "an older one that is not there",
            rpc("/a2a/echo", "message/sned", json!({})),
            plain,
            200,
            "no method \"message/sned\"; did you mean message/send?",
        ),
        (
            "one at Orloj's",
            rpc("/orloj/a2a", "tasks/sent", json!({})),
            plain,
            200,
            "unknown method: tasks/sent; did you mean tasks/send?",
        ),
        (
            "one at the market's",
            rpc("/uumit/a2a", "tasks/sent", json!({})),
            "error.data.detail",
            200,
            "there is no method tasks/sent; there are tasks/send, tasks/get, tasks/cancel, tasks/sendSubscribe; did you mean tasks/send?",
        ),
        (
            "one at a store agent's",
            rpc("/api/a2a", "SendMesage", json!({})),
            plain,
            200,
            "no method \"SendMesage\"; the methods are SendMessage, SendStreamingMessage, GetTask, ListTasks, CancelTask, SubscribeToTask, CreateTaskPushNotificationConfig, GetTaskPushNotificationConfig, ListTaskPushNotificationConfigs, DeleteTaskPushNotificationConfig; did you mean SendMessage?",
        ),
        (
            "an agent that is not there",
            rpc("/a2a/ehco", "SendMessage", json!({})),
            plain,
            404,
            "there is no agent \"ehco\" here; did you mean /a2a/echo? GET /agents lists those there are",
        ),
        (
            "an agent that is like none",
            Request::new("GET", "/a2a/billing"),
            plain,
            404,
            "there is no agent \"billing\" here; GET /agents lists those there are",
        ),
        (
            "an agent without /a2a",
            rpc("/echo", "SendMessage", json!({})),
            plain,
            404,
            "there is nothing at /echo; did you mean /a2a/echo?",
        ),
        (
            "a path with a slip",
            Request::new("GET", "/.well-known/agentcard.json"),
            plain,
            404,
            "there is nothing at /.well-known/agentcard.json; did you mean /.well-known/agent-card.json?",
        ),
        (
            "a path that is like none",
            Request::new("GET", "/swagger"),
            plain,
            404,
            "there is nothing at /swagger; agents are at /a2a/NAME, and GET /agents lists them",
        ),
        (
            "a route with a slip",
            Request::new("POST", "/a2a/echo/message:sned").json(&json!({})),
            plain,
            404,
            "no route /message:sned; did you mean /message:send?",
        ),
        ("curl -d without a header", form("/a2a/echo"), plain, 415, wrong_type),
        ("the same over HTTP+JSON", form("/a2a/echo/message:send"), plain, 415, wrong_type),
        ("the same in 0.3 over HTTP+JSON", form("/a2a/echo/v1/message:send"), "message", 415, wrong_type),
        ("the same at Orloj's", form("/orloj/a2a"), plain, 415, wrong_type),
        ("the same at the market's", form("/uumit/a2a"), "error.data.detail", 415, wrong_type),
        ("the same at a store agent's", form("/api/a2a"), plain, 415, wrong_type),
        (
            "a task that is not there",
            rpc("/a2a/echo", "GetTask", json!({ "id": "nowhere" })),
            plain,
            200,
            "Task not found",
        ),
    ] {
        assert_eq!(answered(&server, &request, member), (status, says.to_owned()), "{what}");
    }
}

#[test]
fn an_agent_that_is_not_there_is_told_with_its_address_and_the_reason() {
    let nowhere = "127.0.0.1:1";
    let config = format!("agents:\n  mine: {{ kind: http, url: 'http://{nowhere}/turns?key=hidden', retries: 0 }}\n");
    let server = Server::options().config(&config).start();
    let failed = server.agent("mine").send(e2e::message("anyone there?"));
    let says = failed["status"]["message"]["parts"][0]["text"].as_str().unwrap();
    assert_eq!(
        says,
        format!(
            "the agent's endpoint could not be reached at http://{nowhere}: the connection was refused; is it running there?"
        )
    );
    // The log has plain text too, without Debug output.
    let log = until("the log has it", PATIENCE, || Some(server.log()).filter(|log| log.contains("Connection refused")));
    assert!(!log.contains("Os {") && !log.contains("ConnectError("), "{log}");
}

/// A reader that closes the output early is no error: `rialto task list | head -1`.
#[test]
fn output_that_nobody_reads_to_its_end_is_no_error() {
    let server = Server::start(&[]);
    for _ in 0..3 {
        server.agent("echo").send(e2e::message(&"a long text ".repeat(200)));
    }
    let commands: [&[&str]; 5] = [
        &["task", "list", "--limit", "1000"],
        &["task", "list", "-o", "json"],
        &["doctor"],
        &["config", "schema"],
        &["keys", "list"],
    ];
    for words in commands {
        let mut command = match words[0] {
            "config" => {
                let mut command = Command::new(setup::binary());
                command.args(words);
                command
            }
            _ => server.operate(words),
        };
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Closed before anything is written.
        drop(child.stdout.take());
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while stderr.read_line(&mut said).unwrap() > 0 {}
        let status = child.wait().unwrap();
        assert_eq!((status.code(), said.as_str()), (Some(0), ""), "{words:?}");
    }
}

/// Counters, and only counters, are named `_total`.
#[test]
fn counters_end_in_total_and_nothing_else_does() {
    let server = Server::start(&[]);
    server.agent("echo").send(e2e::message("hello"));
    let text = server.get("/metrics").text();
    let mut kinds = std::collections::BTreeMap::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            kinds.insert(name.to_owned(), kind.to_owned());
        }
    }
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    for sample in samples {
        let name = sample.split(['{', ' ']).next().unwrap();
        let is_counter = kinds.get(name.strip_suffix("_total").unwrap_or(name)).is_some_and(|kind| kind == "counter");
        assert_eq!(name.ends_with("_total"), is_counter, "{sample}");
    }
    for name in [
        "tasks_opened",
        "turns_started",
        "events_committed",
        "tasks_settled",
        "turns_recovered",
        "store_troubles",
        "push_delivered",
        "push_failed",
        "push_dead",
    ] {
        assert_eq!(kinds.get(&format!("a2a_{name}")).map(String::as_str), Some("counter"), "{name}");
    }
    assert!(text.contains("\na2a_tasks_opened_total 1\n") && text.contains("\na2a_tasks_settled_total 1\n"), "{text}");
    for gauge in ["turns_running", "tasks_live", "push_active", "store_tasks"] {
        assert_eq!(kinds.get(&format!("a2a_{gauge}")).map(String::as_str), Some("gauge"), "{gauge}");
    }
}
