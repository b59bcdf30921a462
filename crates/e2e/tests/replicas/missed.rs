//! Replicas that miss notifications, leave, or wake up late: a cache is never older than another replica's work,
//! and webhooks are delivered in order.

use cluster::Cluster;
use e2e::poll::{PATIENCE, until};
use e2e::receiver::behind;
use e2e::{Receiver, Server, fresh_id, message, script};
use serde_json::{Value, json};

use crate::house::House;

fn operate(house: &House, replica: usize, words: &[&str]) -> Value {
    let done = house.replicas[replica].operate(words).args(["-o", "json"]).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

#[test]
fn a_purged_task_and_a_revoked_key_are_forgotten_by_a_replica_that_was_not_told() {
    let house = House::of(2, "auth: { required: true }\n");
    let made = operate(&house, 0, &["keys", "create", "ann", "--tenant", "t"]);
    let client = |replica| house.at(replica, "echo").with("X-Api-Key", made["secret"].as_str().unwrap());
    until("both know the key", PATIENCE, || {
        (0..2).all(|at| client(at).rest("GET", "/tasks", None).status() == 200).then_some(())
    });
    house.wires[1].be_deaf(true);
    let task = client(0).send(message("hi"));
    let id = task["id"].as_str().unwrap();
    // After two reads it is cached.
    assert_eq!(client(1).task(id)["status"], task["status"]);
    assert_eq!(client(1).task(id)["status"], task["status"]);
    operate(&house, 0, &["task", "purge", id]);
    until("the task is gone on the other", PATIENCE, || client(1).rpc("GetTask", json!({ "id": id })).err());
    operate(&house, 0, &["keys", "revoke", made["id"].as_str().unwrap()]);
    until("the key is refused by the other", PATIENCE, || {
        (client(1).rest("GET", "/tasks", None).status() == 401).then_some(())
    });
}

#[test]
fn a_webhook_removed_elsewhere_is_silent_without_a_hint() {
    let house = House::of(2, "");
    let receiver = Receiver::start();
    let one = house.at(0, "scripted");
    let task = one.send(script(json!([{ "input": "well?" }, { "input": "and?" }, { "complete": "done" }])));
    let id = task["id"].as_str().unwrap();
    let config = json!({ "taskId": id, "id": "hook", "url": receiver.url("/hook") });
    house.at(1, "scripted").rpc("CreateTaskPushNotificationConfig", config).unwrap();
    house.wires[1].be_deaf(true);
    one.rpc("DeleteTaskPushNotificationConfig", json!({ "taskId": id, "id": "hook" })).unwrap();
    until("the other lets go of it", PATIENCE, || {
        let metrics = house.replicas[1].get("/metrics").text();
        metrics.lines().any(|line| line == "a2a_push_active 0").then_some(())
    });
    one.send(e2e::to_task(message("fine"), id));
    one.send(e2e::to_task(message("fine"), id));
    assert_eq!(receiver.deliveries().len(), 0);
}

fn pushed(house: &House, replica: usize, receiver: &Receiver, steps: &Value) -> (String, String) {
    let path = format!("/{}", fresh_id());
    let config = json!({ "id": "hook", "url": receiver.url(&path) });
    let configuration = json!({ "returnImmediately": true, "taskPushNotificationConfig": config });
    let params = json!({ "message": script(steps.clone()), "configuration": configuration });
    let task = house.at(replica, "scripted").rpc("SendMessage", params).unwrap();
    (task["task"]["id"].as_str().unwrap().to_owned(), path)
}

fn all_delivered(house: &House) {
    until("every webhook is delivered", PATIENCE, || {
        (house.database.query("select count(*) from rialto.push where state <> 2") == [["0"]]).then_some(())
    });
}

/// The others recover its work, and repeat none that they have just finished themselves.
#[test]
fn when_a_replica_leaves_the_others_repeat_nothing_of_their_own() {
    let mut house = House::of(3, "");
    let receiver = Receiver::start();
    let steps = json!([{ "status": "working" }, { "complete": "done" }]);
    for round in 0..4 {
        std::thread::scope(|scope| {
            let (house, receiver, steps) = (&house, &receiver, &steps);
            for worker in 0..4 {
                scope.spawn(move || (0..20).for_each(|_| drop(pushed(house, worker % 2, receiver, steps))));
            }
        });
        if round % 2 == 0 {
            let (status, _) = house.replicas[2].terminate();
            assert!(status.success(), "{status}");
        } else {
            house.replicas[2].restart();
        }
    }
    all_delivered(&house);
    let arrivals = receiver.arrivals();
    assert_eq!(arrivals.len(), 320);
    for (path, arrivals) in arrivals {
        // A lease may expire on a busy machine; then the request in flight is repeated, and none before it.
        assert!(arrivals.is_sorted(), "{path}: {arrivals:?}");
    }
}

#[test]
fn a_replica_that_wakes_up_after_its_lease_sends_nothing_between_anothers_letters() {
    let house = House::of(2, "");
    let receiver = Receiver::start();
    let steps = json!([
        { "input": "well?" },
        { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 100, "every_ms": 30 },
        { "complete": "done" },
    ]);
    let task = house.at(0, "scripted").send(script(steps));
    let id = task["id"].as_str().unwrap();
    let mut paths = Vec::new();
    for n in 0..5 {
        let path = format!("/{n}");
        let config = json!({ "taskId": id, "id": format!("hook-{n}"), "url": receiver.url(&path) });
        house.at(1, "scripted").rpc("CreateTaskPushNotificationConfig", config).unwrap();
        paths.push(path);
    }
    house.at(0, "scripted").open(e2e::to_task(message("go"), id));
    receiver.until("some letters came", |all| all.len() >= 10);
    let deliverers = || house.database.query("select distinct deliverer from rialto.push");
    let before = deliverers();
    house.pause(1);
    until("the other delivers", PATIENCE, || (deliverers() != before).then_some(()));
    let at_most = receiver.deliveries().len() + 20;
    receiver.until("the other goes on", |all| all.len() >= at_most);
    house.go_on(1);
    all_delivered(&house);
    until("the one that woke up has let go", PATIENCE, || {
        let metrics = house.replicas[1].get("/metrics").text();
        metrics.lines().any(|line| line == "a2a_push_active 0").then_some(())
    });
    let arrivals = receiver.arrivals();
    for path in paths {
        let arrivals = &arrivals[&path];
        let distinct: std::collections::BTreeSet<&u64> = arrivals.iter().collect();
        assert!(behind(arrivals) <= 1, "{path}: {arrivals:?}");
        // The request in flight, and the first of the other replica.
        assert!(arrivals.len() - distinct.len() <= 2, "{path}: {arrivals:?}");
    }
}

/// A new agent is on one replica first. When that one leaves, its turns wait for another that serves it.
#[test]
fn a_turn_of_a_new_agent_waits_for_a_replica_that_serves_it() {
    let database = Cluster::shared().database();
    let start = |agents: &str| {
        let config = format!("agents: {{ echo: {{ kind: echo }}{agents} }}\n");
        Server::options().config(&config).database(&database.url()).start()
    };
    let (old, mut new) = (start(""), start(", fresh: { kind: scripted, restart: retry }"));
    let doctor = || -> Value {
        let done = old.operate(&["doctor", "-o", "json"]).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice(&done.stdout).unwrap()
    };
    let fresh = new.agent("fresh");
    let steps = json!([{ "status": "working" }, { "sleep_ms": 1_000 }, { "complete": "done" }]);
    let id = fresh.open(script(steps))["id"].as_str().unwrap().to_owned();
    fresh.in_state(&id, "TASK_STATE_WORKING");
    let found = until("both replicas are known", PATIENCE, || {
        let found = doctor();
        let known = found["replicas"].as_array()?.iter().filter(|r| r["alive"] == true && r["about"].is_object());
        (known.count() == 2).then_some(found)
    });
    assert!(found["disk_free_bytes"].is_null(), "a database's disk is not this machine's: {found}");
    let advice = found["advice"].to_string();
    assert!(advice.contains("differ in `agents` of their configs"), "{advice}");
    new.kill9();
    let waits = format!("{id} waits for a replica that serves fresh");
    until("the doctor tells of the turn", PATIENCE, || doctor()["advice"].to_string().contains(&waits).then_some(()));
    new.restart();
    let task = new.agent("fresh").in_state(&id, "TASK_STATE_COMPLETED");
    assert_eq!(task["id"], id.as_str(), "{task}");
}
