//! The behaviour that UUMit's clients rely on, by the numbers of the list of fidelity tests.

use std::time::Duration;

use e2e::http::{Connection, Request};
use e2e::{Next, Server, until};
use serde_json::{Value, json};

use crate::people::{FREE_HAND, PLAIN, Person, open, output, start, verify};

fn buy(buyer: &Person, capability: &str) -> (String, String) {
    let sent = buyer.rpc("tasks/send", json!({ "capability_id": capability })).unwrap();
    let task = sent["id"].as_str().unwrap().to_owned();
    let tx = task.replace("task_", "tx_");
    (task, tx)
}

fn frame(events: &mut e2e::Events) -> (String, Value) {
    let frame = events.take();
    (frame.event.unwrap(), serde_json::from_str(&frame.data).unwrap())
}

#[test]
fn u1_to_u5_a_purchase_from_order_to_settlement_and_the_other_ends() {
    let server = start("true");
    let (buyer, seller) = (open(&server, "1000", FREE_HAND), open(&server, "0", &[]));
    let capability = seller.sell("120", json!({}));
    // 1
    let error = buyer.rpc("tasks/send", json!({})).unwrap_err();
    assert_eq!(error["code"], -32602);
    assert!(error["data"]["detail"].as_str().unwrap().contains("capability_id"), "{error}");
    // 2
    let sent = buyer.rpc("tasks/send", json!({ "capability_id": capability, "booked_hours": null })).unwrap();
    let members: Vec<&str> = sent.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((members, &sent["status"]), (vec!["created_at", "id", "status"], &json!("submitted")));
    // As in the page's example, "2026-04-09T08:00:00Z".
    let stamp = sent["created_at"].as_str().unwrap();
    let shape: String = stamp.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00Z");
    let task = sent["id"].as_str().unwrap().to_owned();
    let tx = task.replace("task_", "tx_");
    // 3
    buyer.act(&tx, "freeze", &Value::Null);
    assert_eq!(buyer.wallet(), ("880".to_owned(), "120".to_owned()));
    seller.act(&tx, "accept", &Value::Null);
    for party in [&buyer, &seller] {
        let got = party.rpc("tasks/get", json!({ "id": task })).unwrap();
        let expected = json!({ "id": task, "status": "working", "metadata": {
            "context_id": null, "buyer_user_id": buyer.id, "seller_user_id": seller.id,
            "transaction_type": "per_use", "autonomy_confirmation": null,
        } });
        assert_eq!(got, expected);
    }
    // 4
    let delivery = json!({ "result_payload": { "total": "99.50" }, "deliverables": [{ "file_name": "a.pdf" }, { "file_name": "b.csv" }] });
    seller.act(&tx, "deliver", &delivery);
    assert_eq!(buyer.rpc("tasks/get", json!({ "id": task })).unwrap()["status"], "input-required");
    buyer.act(&tx, "confirm", &Value::Null);
    let got = buyer.rpc("tasks/get", json!({ "id": task })).unwrap();
    let artifacts = got["artifacts"].as_array().unwrap();
    assert_eq!(
        (&got["status"], artifacts.len(), &artifacts[0]["name"]),
        (&json!("completed"), 3, &json!("transaction_summary"))
    );
    let summary = &artifacts[0]["parts"][0]["data"];
    assert_eq!(
        *summary,
        json!({ "uuagent_transaction_id": tx, "uuagent_capability_id": capability, "price_ut": "120", "commission_ut": "12",
                "internal_status": "settled", "decision_source": "agent_autonomous" })
    );
    for (artifact, name) in artifacts[1..].iter().zip(["a.pdf", "b.csv"]) {
        let data = &artifact["parts"][0]["data"];
        assert_eq!((&artifact["parts"][0]["type"], &data["file_name"]), (&json!("data"), &json!(name)));
        assert!(data["deliverable_id"].is_string() && data["access_id"].is_string(), "{artifact}");
    }
    assert_eq!((buyer.wallet().0, seller.wallet().0), ("880".to_owned(), "108".to_owned()));
    // 5
    for (who, verb, status) in [(&seller, "reject", "rejected_by_seller"), (&buyer, "cancel", "cancelled_by_buyer")] {
        let (task, tx) = buy(&buyer, &capability);
        buyer.act(&tx, "freeze", &Value::Null);
        who.act(&tx, verb, &Value::Null);
        assert_eq!(buyer.rpc("tasks/get", json!({ "id": task })).unwrap()["status"], "canceled");
        assert_eq!(seller.ok("GET", &format!("/transactions/{tx}"), &Value::Null)["status"], status);
        assert_eq!(buyer.wallet(), ("880".to_owned(), "0".to_owned()));
    }
    // A purchase that is over cannot be canceled: a business error.
    let error = buyer.rpc("tasks/cancel", json!({ "id": task })).unwrap_err();
    assert_eq!((&error["code"], &error["data"]["error_type"]), (&json!(-32602), &json!("invalid_state")));
    assert_eq!(error["data"]["internal_status"], "settled");
    let error = seller.rpc("tasks/cancel", json!({ "id": buy(&buyer, &capability).0 })).unwrap_err();
    assert_eq!(error["code"], -32003);
    assert_eq!(buyer.rpc("tasks/get", json!({ "id": "task_01jqxyz" })).unwrap_err()["code"], -32001);
    assert_eq!(buyer.rpc("tasks/pushNotification/set", json!({ "id": task })).unwrap_err()["code"], -32601);
    assert_eq!(verify(&server)["differences"], json!([]));
}

#[test]
fn u6_a_subscription_ends_with_the_purchase_with_an_error_or_with_a_heartbeat() {
    let server = start("{ window_ms: 2000 }");
    let (buyer, seller) = (open(&server, "1000", FREE_HAND), open(&server, "0", &[]));
    let stranger = open(&server, "0", &[]);
    let (task, tx) = buy(&buyer, &seller.sell("120", json!({})));
    let error = |code: i64, message: &str, kind: &str| json!({ "jsonrpc": "2.0", "id": "sub-001", "error": { "code": code, "message": message, "data": { "error_type": kind } } });
    let mut unknown = buyer.subscribe("task_01jqxyz0000000000000000000");
    assert_eq!(frame(&mut unknown), ("error".to_owned(), error(-32004, "Task not found", "not_found")));
    assert!(unknown.rest().is_empty());
    let mut hidden = stranger.subscribe(&task);
    assert_eq!(frame(&mut hidden), ("error".to_owned(), error(-32003, "Permission denied", "permission_denied")));
    assert!(hidden.rest().is_empty());
    let mut quiet = buyer.subscribe(&task);
    let (event, first) = frame(&mut quiet);
    assert_eq!(
        (event.as_str(), &first["result"]["status"], &first["id"]),
        ("task", &json!("submitted"), &json!("sub-001"))
    );
    assert_eq!(frame(&mut quiet), ("heartbeat".to_owned(), json!({ "ok": true })));
    assert!(quiet.rest().is_empty(), "the stream closes after it");
    // Both parties stream it to its end. A frozen purchase is shown as one that waits to be frozen, so it appears
    // once.
    for party in [&buyer, &seller] {
        let (task, tx) = buy(&buyer, &seller.sell("1", json!({})));
        let mut events = party.subscribe(&task);
        let mut states = vec![frame(&mut events).1["result"]["status"].clone()];
        for (who, verb, body) in [
            (&buyer, "freeze", Value::Null),
            (&seller, "accept", Value::Null),
            (&seller, "deliver", json!({ "result_payload": {} })),
            (&buyer, "confirm", Value::Null),
        ] {
            who.act(&tx, verb, &body);
            if verb == "freeze" {
                continue;
            }
            let (event, frame) = frame(&mut events);
            assert_eq!(event, "task");
            states.push(frame["result"]["status"].clone());
        }
        assert_eq!(states, ["submitted", "working", "input-required", "completed"]);
        assert!(events.rest().is_empty());
    }
    buyer.act(&tx, "cancel", &Value::Null);
    let mut over = buyer.subscribe(&task);
    assert_eq!(frame(&mut over).1["result"]["status"], "canceled");
    assert!(matches!(over.next_within(Duration::from_secs(30)).unwrap(), Next::End));
}

#[test]
fn too_many_calls_are_answered_with_429_the_requests_id_and_a_code_of_their_own() {
    for limits in ["{ per_caller: { per_minute: 1, burst: 1 } }", "{ per_ip: { per_minute: 1, burst: 40 } }"] {
        let config = format!("{PLAIN}market: true\nlimits: {{ rate: {limits} }}\n");
        let server = Server::options().config(&config).start();
        let buyer = open(&server, "1000", FREE_HAND);
        for path in ["/uumit/a2a", "/a2a"] {
            let body = json!({ "jsonrpc": "2.0", "id": "req-550e8400", "method": "tasks/get", "params": { "id": "task_01jqxyz" } });
            let call = |_| server.exchange(&buyer.sign(Request::new("POST", path)).json(&body));
            let refused = (0..50).map(call).find(|response| response.status() == 429).expect("a call is refused");
            assert!(refused.head.header("retry-after").is_some(), "{limits} {path}");
            let answer = refused.json();
            assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("req-550e8400")), "{limits} {path}");
            let error = &answer["error"];
            assert_eq!(
                (&error["code"], &error["message"]),
                (&json!(-32049), &json!("Rate limit exceeded")),
                "{answer}"
            );
            assert_eq!(error["data"]["error_type"], "rate_limited");
        }
    }
}

#[test]
fn u7_and_u8_one_key_is_one_purchase_and_what_is_not_there_is_not_spent() {
    let server = start("true");
    let (buyer, seller) = (open(&server, "150", FREE_HAND), open(&server, "0", &[]));
    let capability = seller.sell("100", json!({}));
    let order = json!({ "capability_id": capability });
    let once = |key: &str, body: &Value| buyer.try_rest("POST", "/transactions", Some(key), body).unwrap();
    let (first, again) = (once("k-1", &order), once("k-1", &order));
    assert_eq!((first.0, first.1["data"]["id"].clone()), (200, again.1["data"]["id"].clone()));
    assert_ne!(once("k-2", &order).1["data"]["id"], first.1["data"]["id"]);
    let other = once("k-1", &json!({ "capability_id": capability, "context_id": "c" }));
    assert_eq!((other.0, &other.1["code"]), (409, &json!(1005)));
    let by_rpc =
        |key: &str| buyer.rpc("tasks/send", json!({ "capability_id": capability, "idempotency_key": key })).unwrap();
    assert_eq!(by_rpc("k-3")["id"], by_rpc("k-3")["id"]);
    let listed = buyer.ok("GET", "/transactions?role=buyer&page_size=10", &Value::Null);
    assert_eq!((&listed["total"], listed["items"].as_array().unwrap().len()), (&json!(3), 3));
    // 150 pays for one of the three.
    let ids: Vec<String> =
        listed["items"].as_array().unwrap().iter().map(|t| t["id"].as_str().unwrap().to_owned()).collect();
    buyer.act(&ids[0], "freeze", &Value::Null);
    assert_eq!(buyer.refused("POST", &format!("/transactions/{}/freeze", ids[1]), &Value::Null), (402, 3001));
    assert_eq!(buyer.rpc("tasks/send", json!({ "capability_id": capability })).unwrap_err()["code"], -32002);
    // A repeated action with the same key happens once too.
    let confirm =
        |key| seller.try_rest("POST", &format!("/transactions/{}/accept", ids[0]), Some(key), &Value::Null).unwrap();
    assert_eq!((confirm("a-1").0, confirm("a-1").0, confirm("a-2").0), (200, 200, 409));

    let server = start("{ auto_freeze: true }");
    let (buyer, seller) = (open(&server, "150", FREE_HAND), open(&server, "0", &[]));
    let capability = seller.sell("100", json!({}));
    buy(&buyer, &capability);
    assert_eq!(buyer.wallet(), ("50".to_owned(), "100".to_owned()));
    let error = buyer.rpc("tasks/send", json!({ "capability_id": capability })).unwrap_err();
    assert_eq!((&error["code"], &error["message"]), (&json!(-32002), &json!("Insufficient balance")));
    assert_eq!(verify(&server)["differences"], json!([]));
}

#[test]
fn u9_a_key_wins_over_a_token_and_acts_for_a_user() {
    let server = start("true");
    let (ann, bob) = (open(&server, "10", FREE_HAND), open(&server, "20", FREE_HAND));
    let mut command = server.operate(&["market", "open", "--account", "carol", "--password-stdin", "--json"]);
    command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"correct horse battery\n").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    let login = |password: &str| {
        let body = json!({ "account": "carol", "password": password });
        let response = server.exchange(&Request::new("POST", "/api/v1/auth/login").json(&body));
        (response.status(), response.json())
    };
    let (status, refused) = login("wrong password");
    assert_eq!((status, &refused["code"]), (401, &json!(2003)));
    let (status, token) = login("correct horse battery");
    assert_eq!(status, 200, "{token}");
    let bearer = format!("Bearer {}", token["data"]["access_token"].as_str().unwrap());
    let wallet = |request: Request| server.exchange(&request).json();
    let own = wallet(Request::new("GET", "/api/v1/wallet").header("Authorization", &bearer));
    assert_eq!(own["data"]["ut"]["available"], "0");
    let both = ann.sign(Request::new("GET", "/api/v1/wallet").header("Authorization", &bearer));
    assert_eq!(wallet(both)["data"]["ut"]["available"], "10", "the key wins");
    // At /a2a a token is enough for a request that names a purchase.
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": { "id": "task_01jqxyz0000000000000000000" } });
    let answer = server.exchange(&Request::new("POST", "/a2a").header("Authorization", &bearer).json(&body)).json();
    assert_eq!(answer["error"]["code"], -32001, "{answer}");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tasks/send", "params": { "capability_id": "cap_x" } });
    for request in [
        Request::new("POST", "/a2a").header("X-Api-Key", &ann.key),
        Request::new("POST", "/a2a").header("X-Api-Key", "uk_nobody").header("X-Platform-User-Id", &ann.id),
        Request::new("POST", "/a2a").header("X-Api-Key", &ann.key).header("X-Platform-User-Id", &bob.id),
        Request::new("POST", "/a2a"),
    ] {
        let answer = server.exchange(&request.json(&body)).json();
        assert_eq!(
            (&answer["error"]["code"], &answer["error"]["message"]),
            (&json!(-32000), &json!("Authentication error"))
        );
    }
}

#[test]
fn beyond_its_limits_an_agent_asks_and_a_person_answers() {
    let server = start("true");
    let (buyer, seller) = (open(&server, "1000", &[]), open(&server, "0", &[]));
    // 120 is above the documented hundred for a call.
    let sent = buyer.rpc("tasks/send", json!({ "capability_id": seller.sell("120", json!({})) })).unwrap();
    assert_eq!(sent["status"], "input-required");
    let got = buyer.rpc("tasks/get", json!({ "id": sent["id"] })).unwrap();
    assert_eq!(got["metadata"]["autonomy_confirmation"]["status"], "pending", "{got}");
    let tx = sent["id"].as_str().unwrap().replace("task_", "tx_");
    let (status, _) = buyer.refused("POST", &format!("/transactions/{tx}/freeze"), &Value::Null);
    assert_eq!(status, 409);
}

#[test]
fn an_agent_serves_what_is_bought_and_its_answer_is_the_delivery() {
    let server = start("{ agents: [echo] }");
    let (buyer, seller) = (open(&server, "1000", FREE_HAND), open(&server, "0", &[]));
    let capability = seller.sell("5", json!({ "agent": "echo" }));
    let order = json!({ "capability_id": capability, "input": { "text": "three invoices" } });
    let tx = buyer.ok("POST", "/transactions", &order)["id"].as_str().unwrap().to_owned();
    buyer.act(&tx, "freeze", &Value::Null);
    let row = until("the agent has delivered", e2e::poll::PATIENCE, || {
        let row = buyer.ok("GET", &format!("/transactions/{tx}"), &Value::Null);
        (row["status"] == "delivered").then_some(row)
    });
    assert!(row["result_payload"].to_string().contains("three invoices"), "{row}");
    buyer.act(&tx, "confirm", &Value::Null);
    assert_eq!(seller.wallet().0, "4.5");
}

#[test]
fn at_the_shared_address_every_row_of_the_table_decides() {
    let server = start("true");
    let (buyer, seller) = (open(&server, "1000", FREE_HAND), open(&server, "0", &[]));
    let capability = seller.sell("1", json!({}));
    let ask = |headers: &[(&str, &str)], method: &str, params: Value| {
        let body = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let mut request = Request::new("POST", "/a2a").json(&body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut connection = Connection::open(server.addr()).unwrap();
        connection.exchange(&request).unwrap().json()
    };
    let text = json!({ "role": "user", "parts": [{ "type": "text", "text": "hi" }] });
    let envelope = json!({ "id": "t-1", "sessionId": "s-1", "message": text });
    // 1: by the header alone.
    let answer = ask(&[("X-A2A-Dialect", "uumit")], "tasks/get", json!({ "id": "whatever" }));
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    // 2: by a platform's user.
    let answer = ask(&[("X-Platform-User-Id", "u"), ("X-Api-Key", "k")], "tasks/get", json!({ "id": "whatever" }));
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    // 3: by a capability.
    assert_eq!(ask(&[], "tasks/send", json!({ "capability_id": capability }))["error"]["code"], -32000);
    // 4: a session belongs to the first generation.
    assert_eq!(ask(&[], "tasks/send", envelope)["result"]["status"]["state"], "completed");
    // 5: by an id of the market.
    let answer = ask(&[], "tasks/get", json!({ "id": buy(&buyer, &capability).0 }));
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    // Otherwise the default agent answers.
    let answer = ask(
        &[],
        "tasks/send",
        json!({ "id": "t-2", "message": { "role": "user", "parts": [{ "type": "text", "text": "hi" }] } }),
    );
    assert_eq!(answer["result"]["status"]["state"], "completed", "{answer}");
    assert_eq!(ask(&[], "tasks/get", json!({ "id": "t-2" }))["result"]["id"], "t-2");
    // The market's own address needs no hints.
    assert_eq!(
        buyer.rpc_at("/uumit/a2a", "tasks/send", json!({ "capability_id": capability })).unwrap()["status"],
        "submitted"
    );
    assert!(output(server.operate(&["market", "ledger", "--json"])).status.success());
}
