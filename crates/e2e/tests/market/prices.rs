//! Agents with a price, in the built binary: a config, an operator's credit, callers of several generations, and a
//! server that is killed during paid turns.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use e2e::http::{Connection, Request, Response};
use e2e::poll::PATIENCE;
use e2e::{Server, until};
use serde_json::{Value, json};

use crate::people::{output, verify};

const URI: &str = "https://rialto.dev/ext/price/v1";

const CONFIG: &str = r#"
agents:
  flat: { kind: scripted, price: { per_task: "0.5", per_turn: "0.25", seller: u_seller } }
  metered:
    kind: command
    command: [sh, -c, 'cat > /dev/null; echo "{\"text\":\"hi\",\"usage\":{\"input\":4000,\"output\":2000},\"completed\":\"done\"}"']
    mode: jsonl
    price: { per_1k_input: "0.0025", per_1k_output: "0.01", hold: "2" }
  free: { kind: echo }
market:
  commission: "0.2"
  budgets: { per_key: { amount: "40", window: total } }
auth:
  keys:
    - { name: alice, tenant: default, key: "env:E2E_ALICE" }
    - { name: bob, tenant: default, key: "env:E2E_BOB", budget: { amount: "1", window: day } }
"#;

fn start() -> Server {
    let server = Server::options()
        .config(CONFIG)
        .env("E2E_ALICE", "key-of-alice-0123456789")
        .env("E2E_BOB", "key-of-bob-0123456789")
        .start();
    for user in ["alice", "bob", "u_seller"] {
        assert!(output(server.operate(&["market", "open", "--id", user, "--key", "none"])).status.success());
    }
    server
}

fn credit(server: &Server, user: &str, amount: &str) {
    assert!(output(server.operate(&["market", "credit", user, amount])).status.success());
}

fn exchange(addr: SocketAddr, caller: &str, agent: &str, method: &str, text: &str) -> std::io::Result<Response> {
    let body = match method {
        "tasks/send" => {
            json!({"id": format!("t-{text}"), "message": {"role": "user", "parts": [{"type": "text", "text": text}]}})
        }
        "message/send" => {
            json!({"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": text}]}})
        }
        _ => {
            let configuration = json!({ "returnImmediately": text == "hang" });
            json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{ "text": text }]}, "configuration": configuration})
        }
    };
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": body });
    let mut request = Request::new("POST", &format!("/a2a/{agent}")).json(&body);
    request = request.header("Authorization", &format!("Bearer key-of-{caller}-0123456789"));
    if method == "SendMessage" {
        request = request.header("A2A-Version", "1.0");
    }
    Connection::open(addr)?.exchange(&request)
}

fn ask(server: &Server, caller: &str, agent: &str, method: &str, text: &str) -> Value {
    exchange(server.addr(), caller, agent, method, text).unwrap().json()
}

/// A user's balances, available and frozen, from the newest lines of its statement.
fn has(server: &Server, purse: &str) -> String {
    let out = output(server.operate(&["market", "ledger", "--account", purse, "--limit", "1", "--json"]));
    let statement: Value = serde_json::from_slice(&out.stdout).unwrap();
    statement["lines"][0]["balance_after"].as_str().unwrap_or("0").to_owned()
}

fn cost(task: &Value) -> &str {
    task["metadata"][URI]["cost"]["amount"].as_str().unwrap_or_else(|| panic!("{task}"))
}

#[test]
fn callers_of_every_generation_pay_and_the_books_agree() {
    let server = start();
    let refused = ask(&server, "alice", "flat", "SendMessage", "complete: done");
    assert_eq!(refused["error"]["code"], -32042, "{refused}");
    assert_eq!(refused["error"]["data"][0]["reason"], "INSUFFICIENT_BALANCE", "{refused}");
    credit(&server, "alice", "10");
    let done = ask(&server, "alice", "flat", "SendMessage", "complete: done");
    assert_eq!(cost(&done["result"]["task"]), "0.75", "{done}");
    for method in ["message/send", "tasks/send"] {
        let done = ask(&server, "alice", "flat", method, "complete: done");
        assert_eq!(cost(&done["result"]), "0.75", "{done}");
    }
    let done = ask(&server, "alice", "metered", "SendMessage", "go");
    // 0.01 and 0.02: four thousand tokens in, two thousand out.
    assert_eq!(cost(&done["result"]["task"]), "0.03", "{done}");
    assert_eq!(done["result"]["task"]["metadata"]["usage"]["input_tokens"], 4_000, "{done}");
    let free = ask(&server, "bob", "free", "SendMessage", "hi");
    assert!(free["result"]["task"]["metadata"].get(URI).is_none(), "{free}");
    assert_eq!((has(&server, "available:alice"), has(&server, "frozen:alice")), ("7.72".into(), "0".into()));
    assert_eq!((has(&server, "available:u_seller"), has(&server, "commission")), ("1.8".into(), "0.48".into()));
    let card = server.get("/a2a/metered/.well-known/agent-card.json").json();
    let params = json!({"currency": "UT", "hold": "2", "per_1k_input": "0.0025", "per_1k_output": "0.01"});
    assert_eq!(card["capabilities"]["extensions"][0]["params"], params, "{card}");
    let report = verify(&server);
    assert_eq!((&report["clean"], &report["turn_holds"]), (&json!(true), &json!(0)), "{report}");
}

#[test]
fn a_keys_own_budget_ends_before_its_money() {
    let server = start();
    credit(&server, "bob", "10");
    assert_eq!(cost(&ask(&server, "bob", "flat", "SendMessage", "complete: done")["result"]["task"]), "0.75");
    let refused = ask(&server, "bob", "flat", "SendMessage", "complete: done");
    assert_eq!(refused["error"]["data"][0]["reason"], "BUDGET_EXCEEDED", "{refused}");
    assert_eq!(refused["error"]["data"][0]["metadata"]["available"], "0.25", "{refused}");
    assert_eq!(has(&server, "available:bob"), "9.25");
    // Budgets are part of the config, and change with it.
    server.write_config(&CONFIG.replace("amount: \"1\"", "amount: \"2\""));
    server.hang_up();
    until("the budget is raised", PATIENCE, || {
        let answer = ask(&server, "bob", "flat", "SendMessage", "complete: done");
        answer.get("result").is_some().then_some(())
    });
    assert_eq!(verify(&server)["clean"], true);
}

/// Paid turns are running when the server dies: each hold is settled once, by its turn's rule.
#[test]
fn a_kill_in_the_middle_loses_no_money() {
    let mut server = start();
    credit(&server, "alice", "10");
    for _ in 0..4 {
        let begun = ask(&server, "alice", "flat", "SendMessage", "hang");
        assert!(begun["result"]["task"]["id"].is_string(), "{begun}");
    }
    assert_eq!((has(&server, "available:alice"), has(&server, "frozen:alice")), ("7".into(), "3".into()));
    let report = verify(&server);
    assert_eq!((&report["clean"], &report["turn_holds"]), (&json!(true), &json!(4)), "{report}");
    server.kill9();
    // The audit without a server finds the same.
    let report = verify(&server);
    assert_eq!((&report["clean"], &report["turn_holds"]), (&json!(true), &json!(4)), "{report}");
    server.restart();
    let list = || {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}});
        let request = Request::new("POST", "/a2a/flat").header("A2A-Version", "1.0").json(&body);
        let request = request.header("Authorization", "Bearer key-of-alice-0123456789");
        server.exchange(&request).json()["result"]["tasks"].as_array().cloned().unwrap_or_default()
    };
    // Turns that run again are cancelled; those that failed have ended.
    for task in list() {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "CancelTask", "params": {"id": task["id"]}});
        let request = Request::new("POST", "/a2a/flat").header("A2A-Version", "1.0").json(&body);
        server.exchange(&request.header("Authorization", "Bearer key-of-alice-0123456789"));
    }
    until("every turn has ended", PATIENCE, || (verify(&server)["turn_holds"] == 0).then_some(()));
    assert_eq!(has(&server, "frozen:alice"), "0");
    let paid: f64 = list().iter().map(|task| cost(task).parse::<f64>().unwrap()).sum();
    let left: f64 = has(&server, "available:alice").parse().unwrap();
    assert!((left + paid - 10.0).abs() < 0.001, "{left} and {paid}");
    let report = verify(&server);
    assert_eq!(report["clean"], true, "{report}");
}

/// The same under load: the server dies while it answers callers.
#[test]
fn kills_under_load_leave_clean_books() {
    let mut server = start();
    credit(&server, "alice", "35");
    for round in 0..3 {
        let (addr, answered) = (server.addr(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for text in ["complete: done", "chunks:5 every:5", "ask: which?", "fail: no", "hang"].iter().cycle()
                    {
                        // A call without an answer met the server's end.
                        if exchange(addr, "alice", "flat", "SendMessage", text).is_err() {
                            return;
                        }
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            until("some are answered", PATIENCE, || (answered.load(Ordering::Relaxed) > 15).then_some(()));
            server.kill9();
        });
        let report = verify(&server);
        assert_eq!(report["clean"], true, "round {round}: {report}");
        server.restart();
        let report = verify(&server);
        assert_eq!(report["clean"], true, "round {round}: {report}");
    }
}
