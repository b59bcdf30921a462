//! Tests that run real programs.

use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use model::ports::agent::{ArtifactChunk, EndState};
use model::{Content, Part};
use serde_json::{Value, json};

use super::*;
use crate::scripted::stage::brief;
use crate::testing::{Running, agent, earlier, refused, run, text, turn, until};

/// The turn of a program that a shell runs.
async fn sh(script: &str) -> Vec<String> {
    sh_with(script, json!({})).await
}

async fn sh_with(script: &str, more: Value) -> Vec<String> {
    brief(&run(&*shell(script, more).await, turn(text("hello"))).await)
}

async fn shell(script: &str, more: Value) -> Arc<dyn agent::Agent> {
    let mut config = json!({"kind": "command", "command": ["sh", "-c", script]});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    agent(config).await
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Whether the process in that file runs; a zombie does not count.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

async fn pid_in(file: &Path) -> String {
    until("the pid is written", || std::fs::read_to_string(file).is_ok_and(|pid| pid.ends_with('\n'))).await;
    std::fs::read_to_string(file).unwrap()
}

async fn is_gone(pid: &str) {
    until("the process is gone", || !is_alive(pid)).await;
}

#[tokio::test]
async fn the_text_goes_in_and_what_is_printed_comes_out() {
    assert_eq!(sh("tr a-z A-Z").await, ["working", "response= HELLO", "Completed"]);
    assert_eq!(sh("true").await, ["working", "Completed"]);
    let parts = vec![Part::text("a"), Part::data(model::Json::parse(r#"{"b":1.0}"#).unwrap())];
    let said = run(&*shell("cat", json!({})).await, turn(parts)).await;
    assert_eq!(brief(&said)[1], "response= a\n{\"b\":1.0}");
}

#[tokio::test]
async fn a_program_is_found_by_name_and_split_from_a_line_without_a_shell() {
    let agent = agent(json!({"kind": "command", "command": "printf '%s|' a '$HOME' \"b c\""})).await;
    assert_eq!(brief(&run(&*agent, turn(text(""))).await)[1], "response= a|$HOME|b c|");
    let (name, config) = crate::from_flag("up=command:tr a-z 'A-Z'").unwrap();
    let agent = crate::build(&name, config).await.unwrap();
    assert_eq!(&*agent.profile().name, "up");
    assert_eq!(brief(&run(&*agent, turn(text("hi"))).await)[1], "response= HI");
    assert!(crate::from_flag("up=command:tr 'a").unwrap_err().to_string().contains("quote is not closed"));
    assert!(crate::from_flag("up=command:").unwrap_err().to_string().contains("name a program"));
}

#[tokio::test]
async fn output_comes_as_it_is_printed_and_never_half_a_character() {
    let folder = folder();
    let go = folder.path().join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.01; done", go.display());
    let agent = shell(&format!(r"printf 'one \342\202'; {wait}; printf '\254 two'"), json!({})).await;
    let mut running = Running::start(&*agent, turn(text("")));
    assert_eq!(brief(&[running.next().await, running.next().await]), ["working", "response=… one "]);
    std::fs::write(&go, "").unwrap();
    assert_eq!(brief(&[running.next().await, running.next().await]), ["response+ € two", "Completed"]);
}

#[tokio::test]
async fn what_is_no_text_is_a_file() {
    let said = run(&*shell(r"printf '\211PNG\377'", json!({})).await, turn(text(""))).await;
    let AgentEvent::Artifact(ArtifactChunk { parts, last: true, .. }) = &said[1] else { panic!("{said:?}") };
    assert_eq!(parts[0].content, Content::Raw((&b"\x89PNG\xff"[..]).into()));
    assert_eq!(parts[0].media_type.as_deref(), Some("application/octet-stream"));
    let said = run(&*shell("printf GIF", json!({"media_type": "image/gif"})).await, turn(text(""))).await;
    let AgentEvent::Artifact(ArtifactChunk { parts, .. }) = &said[1] else { panic!("{said:?}") };
    assert_eq!((parts[0].media_type.as_deref(), &parts[0].content), (Some("image/gif"), &Content::Raw("GIF".into())));
    // A partial file is no file.
    assert_eq!(sh_with("printf GIF; exit 1", json!({"media_type": "image/gif"})).await.len(), 2);
    // Output that stops being text keeps the text so far.
    assert_eq!(sh(r"printf 'abc\377'").await[1..3], ["response=… abc", "response+ <1 bytes>"]);
}

#[tokio::test]
async fn a_delimiter_parts_the_output_and_is_no_part_of_it() {
    assert_eq!(
        sh_with(r"printf 'a\nb\nc'", json!({"chunk": "\n"})).await,
        ["working", "response=… a", "response+… b", "response+ c", "Completed"]
    );
    assert_eq!(sh_with(r"printf 'a--b--'", json!({"chunk": "--"})).await[1..3], ["response=… a", "response+ b"]);
}

#[tokio::test]
async fn another_exit_code_fails_with_the_last_complaints() {
    assert_eq!(
        sh("echo half; echo 'no paper' >&2; exit 3").await,
        ["working", "response= half\n", "Failed the program ended with exit code 3: no paper"]
    );
    assert_eq!(sh("exit 7").await[1], "Failed the program ended with exit code 7");
    let long = sh("seq 100000 >&2; exit 1").await.pop().unwrap();
    assert!(long.ends_with("99999\n100000") && long.len() < TAIL + 100, "{long}");
    const TAIL: usize = 2 << 10;
}

#[tokio::test]
async fn a_signal_is_named() {
    assert_eq!(sh("kill -9 $$").await[1], "Failed the program was ended by SIGKILL (signal 9)");
    assert_eq!(sh("kill -SEGV $$").await[1], "Failed the program was ended by SIGSEGV (signal 11)");
}

#[tokio::test]
async fn a_secret_is_given_and_never_repeated() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "hunter2").unwrap();
    let secrets = json!({"secrets": {"TOKEN": format!("file:{}", file.path().display())}});
    let said = sh_with("printf %s $TOKEN | wc -c; echo \"bad $TOKEN\" >&2; exit 1", secrets).await;
    assert_eq!(said[1..], ["response= 7\n", "Failed the program ended with exit code 1: bad [secret]"]);
}

#[tokio::test]
async fn the_environment_is_small_and_says_what_the_turn_is() {
    let said =
        sh_with("env | cut -d= -f1 | grep -v -E '^(PWD|OLDPWD|SHLVL|_)$' | sort", json!({"env": {"X": "1"}})).await;
    let names: Vec<&str> = said[1].trim_start_matches("response= ").split_whitespace().collect();
    let ours =
        ["A2A_ATTEMPT", "A2A_CALLER", "A2A_CONTEXT_ID", "A2A_MESSAGE_ID", "A2A_TASK_ID", "A2A_TENANT", "A2A_TURN_ID"];
    assert!(ours.iter().all(|name| names.contains(name)), "{names:?}");
    let allowed = ["PATH", "HOME", "LANG", "TMPDIR", "TZ", "X", crate::guardian::VARIABLE];
    assert!(names.iter().all(|name| ours.contains(name) || allowed.contains(name)), "{names:?}");
    assert_eq!(
        sh("echo $A2A_TASK_ID $A2A_CONTEXT_ID $A2A_TURN_ID $A2A_ATTEMPT $A2A_MESSAGE_ID $A2A_CALLER $A2A_TENANT").await
            [1],
        "response= 0190f3c4-1111-7222-8333-444455556666 c 0190f3c4-1111-7222-8333-000000000001 1 m1 ada acme\n"
    );
    let folder = folder();
    let there = folder.path().canonicalize().unwrap();
    assert_eq!(sh_with("pwd", json!({"cwd": there})).await[1], format!("response= {}\n", there.display()));
}

#[tokio::test]
async fn a_program_that_does_not_read_is_not_waited_for() {
    let agent = shell("exec <&-; echo done", json!({})).await;
    assert_eq!(brief(&run(&*agent, turn(text(&"x".repeat(1 << 20)))).await)[1..], ["response= done\n", "Completed"]);
}

#[tokio::test]
async fn a_program_that_reads_while_it_writes_does_not_stand_still() {
    let much = "0123456789abcdef".repeat(64 << 10);
    let said = run(&*shell("cat", json!({})).await, turn(text(&much))).await;
    let parts = said.iter().filter_map(|said| match said {
        AgentEvent::Artifact(piece) => piece.parts[0].as_text(),
        _ => None,
    });
    assert!(parts.collect::<String>() == much);
}

#[tokio::test]
async fn more_output_than_allowed_ends_the_program() {
    let said = sh_with("exec yes", json!({"max_output_bytes": 100_000, "concurrency": 1})).await;
    let last = said.last().unwrap();
    assert!(last.contains("more than 100000 bytes"), "{last}");
}

#[tokio::test]
async fn events_are_read_line_by_line() {
    let script = r#"
        read line
        echo '{"status":"working","text":"on it"}'
        echo
        echo '{"artifact":{"name":"poem","text":"la","append":true}}'
        echo '{"usage":{"input":1,"output":2}}'
        echo "{\"text\":$(printf %s "$line" | tr -d ' ' | wc -c | sed 's/.*/"&"/')}"
        printf '{"completed":"done"}'
    "#;
    let said = sh_with(script, json!({"mode": "jsonl"})).await;
    assert_eq!(said[..3], ["working", "working on it", "poem+… la"]);
    assert!(said[4].starts_with("response= ") && said[4] != "response= 0", "{said:?}");
    assert_eq!(said[5], "Completed done");
}

#[tokio::test]
async fn a_line_that_is_no_event_fails_the_turn_with_its_number() {
    let said =
        sh_with(r#"echo '{"status":"working"}'; echo; echo oops; exec sleep 1000"#, json!({"mode": "jsonl"})).await;
    let last = said.last().unwrap();
    assert!(last.starts_with("Failed line 3 of the program's output: not JSON"), "{last}");
    let said = sh_with(r#"echo '{"complete":1}'"#, json!({"mode": "jsonl"})).await;
    assert!(said[1].contains("line 1") && said[1].contains("unknown event \"complete\""), "{said:?}");
}

#[tokio::test]
async fn in_lines_too_the_exit_code_tells_when_no_event_does() {
    assert_eq!(sh_with("true", json!({"mode": "jsonl"})).await, ["working", "Completed"]);
    let said = sh_with(r#"echo '{"text":"a"}'; echo no >&2; exit 1"#, json!({"mode": "jsonl"})).await;
    assert_eq!(said[1..], ["response= a", "Failed the program ended with exit code 1: no"]);
}

#[tokio::test]
async fn a_program_that_said_its_last_word_may_put_away_its_things() {
    let folder = folder();
    let file = folder.path().join("put-away");
    let script = format!(r#"echo '{{"input_required":"which?"}}'; sleep 0.05; echo ok > {}; exit 1"#, file.display());
    assert_eq!(sh_with(&script, json!({"mode": "jsonl"})).await[1], "InputRequired which?");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "ok\n");
}

#[tokio::test]
async fn a_program_that_said_its_last_word_and_stays_is_ended() {
    let script = r#"echo '{"completed":null}'; exec sleep 1000"#;
    assert_eq!(sh_with(script, json!({"mode": "jsonl", "kill_after_ms": 50})).await[1], "Completed");
}

#[tokio::test]
async fn a_direct_reply_is_offered_only_when_the_config_says_so() {
    let script = r#"echo '{"message":"hi"}'"#;
    let agent = shell(script, json!({"mode": "jsonl", "direct_replies": true})).await;
    let message = crate::scripted::stage::inbound("m", text("x"));
    assert!(agent.admit(&message, None).unwrap().undecided);
    assert_eq!(brief(&run(&*agent, turn(text("x"))).await), ["reply hi"]);
    let agent = shell(script, json!({"mode": "jsonl"})).await;
    assert!(!agent.admit(&message, None).unwrap().undecided);
}

#[tokio::test]
async fn the_conversation_is_told_when_the_config_says_so() {
    let script = r#"read line; printf '{"completed":{"data":%s}}' "$line""#;
    let agent = shell(script, json!({"mode": "jsonl", "history": true})).await;
    let said = run(&*agent, Turn { earlier: earlier(&[(model::Role::Agent, "before")]), ..turn(text("x")) }).await;
    let AgentEvent::End(end) = said.last().unwrap() else { panic!("{said:?}") };
    let Content::Data(told) = &end.words.as_ref().unwrap().parts[0].content else { panic!("{end:?}") };
    let told = told.to_value();
    assert_eq!(told["earlier"][0], json!({"id": "e0", "role": "agent", "parts": [{"text": "before"}]}));
    assert_eq!(told["message"]["parts"], json!([{"text": "x"}]));
    assert_eq!((&told["caller"], &told["tenant"], &told["context"]), (&json!("ada"), &json!("acme"), &json!("c")));
}

/// A program whose grandchild writes its pid and ignores SIGTERM.
fn family(pids: &Path) -> String {
    let child = pids.join("child").display().to_string();
    let leader = pids.join("leader").display().to_string();
    format!(
        "(sh -c 'trap \"\" TERM; echo $$ > {child}; while :; do sleep 1000; done' & wait) & echo $$ > {leader}; echo on; wait"
    )
}

#[tokio::test]
async fn a_cancel_ends_the_whole_family() {
    let folder = folder();
    let agent = shell(&family(folder.path()), json!({"kill_after_ms": 5_000})).await;
    let running = Running::start(&*agent, turn(text("")));
    let mut running = running;
    running.next().await;
    running.next().await;
    let (child, leader) = (pid_in(&folder.path().join("child")).await, pid_in(&folder.path().join("leader")).await);
    assert!(is_alive(&child) && is_alive(&leader));
    assert_eq!(brief(&running.cancelled().await), ["Canceled"]);
    is_gone(&child).await;
    is_gone(&leader).await;
}

#[tokio::test]
async fn a_cancel_is_a_term_first_and_a_kill_when_patience_ends() {
    let agent = shell("trap 'echo bye; exit 0' TERM; echo on; while :; do sleep 0.01; done", json!({})).await;
    let mut running = Running::start(&*agent, turn(text("")));
    running.next().await;
    running.next().await;
    assert_eq!(brief(&running.cancelled().await), ["response+ bye\n", "Canceled"]);
    let agent = shell("trap '' TERM; echo on; while :; do sleep 0.01; done", json!({"kill_after_ms": 50})).await;
    let mut running = Running::start(&*agent, turn(text("")));
    running.next().await;
    running.next().await;
    assert_eq!(brief(&running.cancelled().await), ["Canceled"]);
}

#[tokio::test]
async fn a_dropped_turn_ends_the_whole_family_at_once() {
    let folder = folder();
    let agent = shell(&family(folder.path()), json!({})).await;
    let mut running = Running::start(&*agent, turn(text("")));
    running.next().await;
    running.next().await;
    let (child, leader) = (pid_in(&folder.path().join("child")).await, pid_in(&folder.path().join("leader")).await);
    drop(running);
    is_gone(&child).await;
    is_gone(&leader).await;
}

#[tokio::test]
async fn what_a_program_leaves_in_the_background_ends_with_it() {
    let folder = folder();
    let file = folder.path().join("child");
    let script =
        format!("sh -c 'echo $$ > {}; exec sleep 1000' & until [ -s {0} ]; do sleep 0.01; done", file.display());
    // The child holds stdout open, and the turn ends all the same.
    assert_eq!(sh(&script).await, ["working", "Completed"]);
    is_gone(&pid_in(&file).await).await;
}

#[tokio::test]
async fn a_turn_out_of_time_is_asked_to_stop_before_it_fails() {
    let folder = folder();
    let file = folder.path().join("asked");
    let script = format!("trap 'echo yes > {}; exit' TERM; echo on; while :; do sleep 0.01; done", file.display());
    let agent = shell(&script, json!({"timeout_ms": 600_000})).await;
    let mut running = Running::start(&*agent, turn(text("")));
    // The program runs before its time limit passes in paused time; its grace period runs in real time.
    assert_eq!(brief(&[running.next().await, running.next().await]), ["working", "response=… on\n"]);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(600)).await;
    tokio::time::resume();
    assert_eq!(brief(&running.said.collect::<Vec<_>>().await), ["Failed the agent did not finish within 600 s"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "yes\n");
}

#[tokio::test]
async fn a_program_that_vanished_fails_the_turn_without_its_path() {
    let folder = folder();
    let file = folder.path().join("prog");
    std::fs::write(&file, "#!/bin/sh\n").unwrap();
    let agent = agent(json!({"kind": "command", "command": [&file]})).await;
    std::fs::remove_file(&file).unwrap();
    let said = brief(&run(&*agent, turn(text(""))).await);
    assert!(said[0].starts_with("Failed the agent's program could not be started: No such file"), "{said:?}");
    assert!(!said[0].contains("prog\""), "{said:?}");
}

#[tokio::test]
async fn a_program_is_not_run_again_after_a_crash_unless_the_config_says_so() {
    let message = crate::scripted::stage::inbound("m", text("x"));
    for (more, rule) in [(json!({}), Restart::Fail), (json!({"restart": "retry"}), Restart::Retry)] {
        assert_eq!(shell("true", more).await.admit(&message, None).unwrap().restart, rule);
    }
}

#[test]
fn options_that_make_no_sense_are_refused() {
    for (config, says) in [
        (json!({}), "missing field `command`"),
        (json!({"command": []}), "name a program"),
        (json!({"command": 3}), "command: write a line, or a list of texts"),
        (json!({"command": "a 'b"}), "command: a single quote is not closed"),
        (json!({"command": "no-such-program-here"}), "there is no program \"no-such-program-here\""),
        (json!({"command": "./no-such-program"}), "there is no program"),
        (json!({"command": "true", "cwd": "/no/such/folder"}), "cwd: there is no folder"),
        (json!({"command": "true", "mode": "xml"}), "mode: unknown variant `xml`"),
        (json!({"command": "true", "env": {"A2A_TASK_ID": "x"}}), "is set for each turn"),
        (json!({"command": "true", "env": {"A=B": "x"}}), "cannot be the name"),
        (json!({"command": "true", "secrets": {"T": "hunter2"}}), "secrets.T: secrets do not belong into the config"),
        (
            json!({"command": "true", "secrets": {"T": "env:RIALTO_NOT_SET"}}),
            "set the environment variable RIALTO_NOT_SET",
        ),
        (json!({"command": "true", "mode": "jsonl", "chunk": "\n"}), "chunk means something only with mode: text"),
        (json!({"command": "true", "history": true}), "history means something only with mode: jsonl"),
        (json!({"command": "true", "kill_after_ms": 4_000_000}), "kill_after_ms: 4000000 is out of range"),
        (json!({"command": "true", "comandd": "x"}), "unknown field `comandd`, expected one of "),
    ] {
        let mut config = config;
        config["kind"] = json!("command");
        let error = refused(config.clone());
        assert!(error.contains(says), "{config}: {error}");
    }
}

#[tokio::test]
async fn the_state_of_a_cancelled_turn_is_canceled_whatever_it_exits_with() {
    let agent = shell("trap 'exit 3' TERM; echo on; while :; do sleep 0.01; done", json!({})).await;
    let mut running = Running::start(&*agent, turn(text("")));
    running.next().await;
    running.next().await;
    let said = running.cancelled().await;
    let [AgentEvent::End(end)] = &said[..] else { panic!("{said:?}") };
    assert_eq!((end.state, &end.words), (EndState::Canceled, &None));
}
