//! The process: how it starts, refuses to start, and ends.

use std::process::{Command, Stdio};
use std::time::Duration;

use e2e::poll::PATIENCE;
use e2e::server::free_address;
use e2e::{Next, Server, message, script, send, until};
use serde_json::json;

/// Runs a command that must end by itself: whether it succeeded, and its output.
fn run(mut command: Command) -> (bool, String) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        until("the program has ended by itself", PATIENCE, || child.try_wait().unwrap())
    }));
    if ended.is_err() {
        let _ = child.kill();
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (ended.expect("the program ends by itself").success(), said)
}

#[test]
fn sigterm_drains_the_server_and_loses_nothing() {
    let mut server = Server::start(&[]);
    let scripted = server.agent("scripted");
    let done = scripted.send(message("done"));
    let idle = scripted.send(script(json!([{ "input": "well?" }])));
    let mut events = scripted
        .stream("SendStreamingMessage", send(script(json!([{ "status": "working" }, { "hang": true }]))))
        .unwrap();
    let hanging = events.take().task().to_owned();
    let mut idle_events = scripted.stream("SubscribeToTask", json!({ "id": idle["id"] })).unwrap();
    idle_events.take();

    let (status, took) = server.terminate();
    assert!(status.success(), "{status}");
    // Well before a hanging turn would end by itself; the drain takes five seconds.
    assert!(took < Duration::from_secs(15), "drained in {took:?}");
    // Whether it got the task's end or just lost the stream, the reader is not left hanging.
    assert!(!matches!(idle_events.next_within(PATIENCE), Ok(Next::Quiet)));

    server.restart();
    assert_eq!(scripted.task(done["id"].as_str().unwrap()), done);
    let idle_again = scripted.task(idle["id"].as_str().unwrap());
    assert_eq!(idle_again["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let failed = scripted.settled(&hanging);
    assert_eq!(failed["status"]["state"], "TASK_STATE_FAILED", "{failed}");
    assert!(failed["status"]["message"]["parts"][0]["text"].is_string(), "it says why: {failed}");
}

#[test]
fn an_idle_server_ends_at_once() {
    let mut server = Server::start(&[]);
    server.until_ready();
    let (status, took) = server.terminate();
    assert!(status.success(), "{status}");
    // Without a drain, which would take five seconds.
    assert!(took < Duration::from_secs(5), "took {took:?}");
}

#[test]
fn an_address_beyond_loopback_that_is_to_be_open_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("0.0.0.0:{}", free_address().port());
    let options = Server::options().args(&["--auth", "optional"]);
    let (success, said) = run(Server::command(&options, &listen, folder.path()));
    assert!(!success, "{said}");
    assert!(said.contains("auth"), "an error says what to do: {said}");
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let server = Server::start(&[]);
    let folder = server.data();
    let listen = free_address().to_string();
    let command = Server::command(&Server::options(), &listen, folder.parent().unwrap());
    let (success, said) = run(command);
    assert!(!success, "{said}");
    assert!(!said.is_empty(), "an error says why");
    server.until_ready();
}

#[test]
fn an_unknown_key_in_the_config_names_the_nearest_known_one() {
    let folder = tempfile::tempdir().unwrap();
    let config = "auht:\n  required: true\n";
    std::fs::write(folder.path().join("rialto.yaml"), config).unwrap();
    let options = Server::options().config(config);
    let (success, said) = run(Server::command(&options, &free_address().to_string(), folder.path()));
    assert!(!success);
    assert!(said.contains("auht") && said.contains("auth"), "{said}");
}

#[test]
fn the_health_of_a_server_can_be_asked() {
    let server = Server::start(&[]);
    server.agent("echo").send(message("hi"));
    assert_eq!(server.get("/healthz").status(), 200);
    server.until_ready();
    let metrics = server.get("/metrics");
    assert_eq!(metrics.status(), 200);
    assert!(metrics.text().contains("a2a_"), "{}", metrics.text());
}

#[test]
fn scripted_mode_ask_leaves_ordinary_messages_waiting_for_input() {
    let server = Server::start(&["--default", "scripted", "--scripted-mode", "ask"]);
    let task = server.at("").send(message("hello"));
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
}
