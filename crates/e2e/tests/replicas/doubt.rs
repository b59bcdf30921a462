//! COMMITs whose answers are lost, and a silent database: the answers to callers meanwhile, and the data
//! afterwards.

use std::time::{Duration, Instant};

use e2e::poll::{PATIENCE, until};
use e2e::{Client, fresh_id, message, script, send};
use serde_json::{Value, json};

use crate::checks::check_database;
use crate::house::House;
use crate::load::is_passing;
use crate::wire::Line;

const COMPLETED: &str = "TASK_STATE_COMPLETED";

/// A call that is repeated with its key until it is answered.
fn insist(client: &Client, params: &Value) -> Value {
    until("the send is answered", 2 * PATIENCE, || match client.try_rpc("SendMessage", params.clone()).ok()? {
        Ok(answer) => Some(answer["task"].clone()),
        Err(fault) => {
            assert!(is_passing(&fault), "{fault}");
            None
        }
    })
}

/// Turns of both kinds: complete in one commit, and begun by one.
fn sends(house: &House, replica: usize) -> [(Client, Value); 2] {
    let steps = json!([{ "restart": "retry" }, { "status": "working" }, { "complete": "done" }]);
    let keyed = |agent: &str| house.at(replica, agent).with("Idempotency-Key", &fresh_id());
    [(keyed("echo"), send(message("hi"))), (keyed("scripted"), send(script(steps)))]
}

#[test]
fn a_send_whose_commit_loses_its_answer_is_one_task_that_runs() {
    for line in [Line::CutAtCommit, Line::LateCommit] {
        let house = House::of(2, "limits: { attempts: 5 }\n");
        insist(&house.at(0, "echo").with("Idempotency-Key", &fresh_id()), &send(message("before")));
        house.wires[0].set(line);
        let sends = sends(&house, 0);
        for (client, params) in &sends {
            // There may be an answer or none, but within the lease.
            let started = Instant::now();
            if let Err(fault) = client.rpc("SendMessage", params.clone()) {
                assert!(is_passing(&fault), "{line:?}: {fault}");
            }
            assert!(started.elapsed() < PATIENCE, "{line:?}: took {:?}", started.elapsed());
        }
        house.wires[0].set(Line::Open);
        for (client, params) in &sends {
            let task = insist(client, params);
            let (id, agent) = (task["id"].as_str().unwrap(), client.base().rsplit('/').next().unwrap());
            assert_eq!(house.at(1, agent).settled(id)["status"]["state"], COMPLETED, "{line:?}");
            assert_eq!(insist(client, params)["id"], task["id"], "{line:?}: a key is one task");
        }
        check_database(&house.database);
        assert_eq!(house.database.query("select count(*) from rialto.task"), [["3"]], "{line:?}: nothing twice");
    }
}

#[test]
fn a_send_that_waits_for_a_standby_is_refused_in_time_and_carried_out_when_the_standby_is_back() {
    let (house, standby) = House::synchronous(1, "limits: { attempts: 5 }\n");
    insist(&house.at(0, "echo").with("Idempotency-Key", &fresh_id()), &send(message("before")));
    let kept = house.at(0, "echo").send(message("kept"));
    standby.stop();
    let sends = sends(&house, 0);
    for (client, params) in &sends {
        let fault = client.rpc("SendMessage", params.clone()).unwrap_err();
        assert!(is_passing(&fault), "{fault}");
    }
    assert_eq!(house.at(0, "echo").task(kept["id"].as_str().unwrap())["id"], kept["id"], "reads go on");
    standby.start_again();
    for (client, params) in &sends {
        let task = insist(client, params);
        assert_eq!(task["status"]["state"], COMPLETED, "{task}");
        assert_eq!(insist(client, params)["id"], task["id"], "a key is one task");
    }
    check_database(&house.database);
    assert_eq!(house.database.query("select count(*) from rialto.task"), [["4"]], "nothing twice");
}

#[test]
fn a_silent_cut_off_is_answered_within_the_lease() {
    // Calls are bounded by nine tenths of the lease; twice the lease leaves room for a busy machine.
    const LEASE: Duration = Duration::from_secs(6);
    let house = House::with(1, "", &|_, options| options.lease(LEASE));
    let echo = house.at(0, "echo");
    let done = echo.send(message("before"));
    let live = house.at(0, "scripted").open(script(json!([{ "status": "working" }, { "hang": true }])));
    let (done, live) = (done["id"].as_str().unwrap(), live["id"].as_str().unwrap());
    house.at(0, "scripted").in_state(live, "TASK_STATE_WORKING");
    house.wires[0].set(Line::Held);
    let calls: [(&str, &str, Value); 6] = [
        ("echo", "SendMessage", send(message("now?"))),
        ("scripted", "SendMessage", send(script(json!([{ "complete": "done" }])))),
        ("scripted", "GetTask", json!({ "id": live })),
        ("echo", "GetTask", json!({ "id": done })),
        ("echo", "ListTasks", json!({})),
        ("scripted", "CancelTask", json!({ "id": live })),
    ];
    for round in ["at once", "later"] {
        std::thread::scope(|scope| {
            for (agent, method, params) in &calls {
                let client = house.at(0, agent).within(PATIENCE);
                scope.spawn(move || {
                    let started = Instant::now();
                    let answer = client.rpc(method, params.clone());
                    let took = started.elapsed();
                    assert!(took < 2 * LEASE, "{round}: {agent} {method} took {took:?}");
                    match answer {
                        // A cached task needs no database.
                        Ok(task) => assert_eq!((*method, task["id"].as_str()), ("GetTask", Some(done)), "{task}"),
                        Err(fault) => assert!(is_passing(&fault), "{round}: {agent} {method}: {fault}"),
                    }
                });
            }
            let started = Instant::now();
            assert_eq!(house.replicas[0].get("/readyz").status(), 503, "{round}");
            assert!(started.elapsed() < LEASE, "{round}: /readyz took {:?}", started.elapsed());
        });
    }
    assert_eq!(house.replicas[0].get("/healthz").status(), 200);
    house.wires[0].set(Line::Open);
    until("it is ready again", PATIENCE, || (house.replicas[0].get("/readyz").status() == 200).then_some(()));
    until("it takes work again", PATIENCE, || echo.rpc("SendMessage", send(message("after"))).ok());
    until("the turn is stopped", PATIENCE, || house.at(0, "scripted").rpc("CancelTask", json!({ "id": live })).ok());
}
