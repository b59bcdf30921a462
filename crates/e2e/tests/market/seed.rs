//! Every example of UUMit's page against `rialto serve`, with only the address and the keys changed.

use std::process::Command;

use e2e::{Server, setup};
use serde_json::{Value, json};

use crate::people::{Person, verify};

fn fixture(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/uumit").join(name)
}

fn python() -> std::path::PathBuf {
    setup::ensure("python/.venv/.stamp").with_file_name("bin/python")
}

fn demo(server: &Server) -> Value {
    let text = std::fs::read(server.data().join("demo.json")).unwrap();
    serde_json::from_slice::<Value>(&text).unwrap()["uumit"].clone()
}

fn run(server: &Server, mut command: Command, task: &str) -> String {
    let demo = demo(server);
    let output = command
        .env("UUMIT_BASE", server.url())
        .env("API_KEY", demo["api_key"].as_str().unwrap())
        .env("USER_ID", demo["user_id"].as_str().unwrap())
        .env("TASK_ID", task)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn the_end_to_end_program_runs_through() {
    let server = Server::start(&[]);
    let mut command = Command::new(python());
    command.arg(fixture("end_to_end.py"));
    let said = run(&server, command, "");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("Created: task_") && lines[0].ends_with(", status: submitted"), "{said}");
    let updates: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("SSE update: ")).collect();
    assert_eq!(updates, ["submitted", "working", "input-required", "completed"], "{said}");
    let answer: Value = serde_json::from_str(said.split_once("Final: ").unwrap().1).unwrap();
    let id = lines[0].split(['_', ',']).nth(1).unwrap();
    assert_eq!((&answer["id"], &answer["result"]["id"]), (&json!("step-3"), &json!(format!("task_{id}"))));
    let summary = json!([{ "name": "transaction_summary", "parts": [{ "type": "data", "data": {
        "uuagent_transaction_id": format!("tx_{id}"),
        "uuagent_capability_id": "cap_ocr_invoice_v1",
        "price_ut": "120",
        "commission_ut": "12",
        "internal_status": "settled",
        "decision_source": "agent_autonomous",
    } }] }]);
    assert_eq!((&answer["result"]["status"], &answer["result"]["artifacts"]), (&json!("completed"), &summary));
    assert_eq!(verify(&server)["differences"], json!([]));
}

#[test]
fn every_other_example_works_in_every_language_of_the_page() {
    let mut server = Server::start(&[]);
    let before = demo(&server);
    let buyer = Person::new(&server, before["user_id"].as_str().unwrap(), before["api_key"].as_str().unwrap());
    let programs: [&dyn Fn(&str) -> Command; 3] = [
        &|method| {
            let mut command = Command::new("sh");
            command.arg(fixture("calls.sh")).arg(method);
            command
        },
        &|method| {
            let mut command = Command::new(python());
            command.arg(fixture("calls.py")).arg(method);
            command
        },
        &|method| {
            let mut command = Command::new("node");
            command.arg(fixture("calls.mjs")).arg(method);
            command
        },
    ];
    for (turn, program) in programs.iter().enumerate() {
        let sent: Value = serde_json::from_str(&run(&server, program("send"), "")).unwrap();
        let result = sent["result"].as_object().unwrap();
        assert_eq!(result.keys().collect::<Vec<_>>(), ["created_at", "id", "status"], "{sent}");
        assert_eq!((&sent["id"], &result["status"]), (&json!("1"), &json!("submitted")));
        let id = result["id"].as_str().unwrap();
        let got: Value = serde_json::from_str(&run(&server, program("get"), id)).unwrap();
        let task = &got["result"];
        assert_eq!((&task["id"], &task["metadata"]["buyer_user_id"]), (&json!(id), &json!(buyer.id)));
        assert_eq!(task["metadata"]["transaction_type"], "per_use");
        // The demo's parties act automatically, but an immediate cancel comes first.
        let canceled: Value = serde_json::from_str(&run(&server, program("cancel"), id)).unwrap();
        assert_eq!(canceled, json!({ "jsonrpc": "2.0", "id": "3", "result": { "id": id, "status": "canceled" } }));
        let stream = run(&server, program("subscribe"), id);
        let frames: Vec<Value> = if turn == 0 {
            let lines: Vec<&str> = stream.lines().filter(|line| !line.is_empty()).collect();
            assert_eq!(lines[0], "event: task", "{stream}");
            lines
                .iter()
                .filter_map(|line| line.strip_prefix("data: "))
                .map(|d| serde_json::from_str(d).unwrap())
                .collect()
        } else {
            stream.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
        };
        assert_eq!(frames.len(), 1, "{stream}");
        assert_eq!((&frames[0]["id"], &frames[0]["result"]["status"]), (&json!("sub-001"), &json!("canceled")));
    }
    // The keys stay the same at later starts.
    server.restart();
    assert_eq!(demo(&server), before);
    assert_eq!(before["capability_id"], "cap_ocr_invoice_v1");
    assert_eq!(buyer.wallet(), ("1000000".to_owned(), "0".to_owned()));
    let names = ["api_key", "user_id", "seller_api_key", "seller_user_id", "capability_id"];
    assert!(names.iter().all(|name| before[*name].is_string()), "{before}");
}
