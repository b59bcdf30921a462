//! Runs the blocks of docs/grpc.md unchanged. Only ports differ.

use std::process::{Command, Output};

use e2e::grpc::{Call, Connection, V1, code, proto};
use e2e::server::free_address;
use e2e::{Server, setup};

use crate::stock::TODAY;

const SHOWN: &str = "127.0.0.1:8080";

/// The only block of a language.
fn block(language: &str) -> String {
    let page = std::fs::read_to_string(setup::workspace().join("docs/grpc.md")).unwrap();
    let fence = format!("```{language}\n");
    let blocks: Vec<&str> = page.split(&fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let [block] = &blocks[..] else { panic!("{} blocks of {language}", blocks.len()) };
    (*block).to_owned()
}

/// The block with the server's address.
fn at(server: &Server, language: &str) -> String {
    let block = block(language);
    assert!(block.contains(SHOWN), "the block shows {SHOWN}: {block}");
    block.replace(SHOWN, &server.addr().to_string())
}

fn printed(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn every_block_of_the_page_about_grpc_is_run() {
    let page = std::fs::read_to_string(setup::workspace().join("docs/grpc.md")).unwrap();
    let languages: Vec<&str> =
        page.split("```").skip(1).step_by(2).map(|block| block.split('\n').next().unwrap()).collect();
    assert_eq!(languages, ["python", "sh", "yaml"]);
}

#[test]
fn the_first_call_of_the_page_prints_the_answer() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hello.py");
    std::fs::write(&file, at(&server, "python")).unwrap();
    let python = setup::ensure(&format!("{}/.venv/.stamp", TODAY.0)).with_file_name("bin/python");
    let output = Command::new(python).arg(&file).output().expect("python runs");
    assert_eq!(printed(&output), "hello\n");
}

#[test]
fn the_health_check_of_the_page_prints_what_the_page_says() {
    let server = Server::start(&[]);
    let output = Command::new("bash").args(["-c", &at(&server, "sh")]).output().expect("bash runs");
    let printed = printed(&output);
    assert!(printed.trim_end().ends_with("08 01"), "{printed}");
}

#[test]
fn the_config_of_the_page_serves_at_both_addresses() {
    let second = free_address();
    let shown = block("yaml");
    assert!(shown.contains("127.0.0.1:9090"), "{shown}");
    let config = shown.replace("127.0.0.1:9090", &second.to_string());
    let server = Server::options().config(&format!("{config}agents: {{ echo: {{ kind: echo }} }}\n")).start();
    let hello = proto::send_v1(&proto::field(1, "hello"));
    for addr in [server.addr(), second] {
        let reply = Connection::open(addr).call(&Call::new(&format!("{V1}/SendMessage")).message(&hello));
        assert_eq!(reply.status(), Some(code::OK), "{addr}: {reply:?}");
    }
    let card = server.get("/.well-known/agent-card.json").text();
    assert!(card.contains("\"agents.example:443\""), "{card}");
}
