//! Replicas without faults: the work of one is visible at the others.

use std::time::{Duration, Instant};

use e2e::poll::{PATIENCE, until};
use e2e::server::free_address;
use e2e::store::LEASE;
use e2e::{Fold, Next, Receiver, Server, fresh_id, message, script, send, setup, to_task};
use serde_json::json;

use crate::house::House;

const COMPLETED: &str = "TASK_STATE_COMPLETED";

#[test]
fn a_subscriber_on_one_replica_sees_a_turn_on_another() {
    let house = House::of(2, "");
    let (one, other) = (house.at(0, "scripted"), house.at(1, "scripted"));
    let steps = json!([
        { "status": "working", "text": "at it" },
        { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 30, "every_ms": 20 },
        { "complete": "done" },
    ]);
    let mut here = one.stream("SendStreamingMessage", send(script(steps))).unwrap();
    let first = here.take();
    let mut there = other.stream("SubscribeToTask", json!({ "id": first.task() })).unwrap();
    let seen_there = there.rest();
    let mut seen_here = vec![first];
    seen_here.extend(here.rest());
    let fold = Fold::of_frames(&seen_here);
    assert_eq!(fold.state, COMPLETED);
    assert_eq!(Fold::of_frames(&seen_there), fold);
    // From the point where it subscribed, it has the same frames.
    let start = seen_there[0].seq();
    let rest = |frames: &[e2e::Frame]| -> Vec<(u64, String)> {
        let later = frames.iter().filter(|frame| frame.seq() > start);
        later.map(|frame| (frame.seq(), frame.result().to_owned())).collect()
    };
    assert_eq!(rest(&seen_there), rest(&seen_here));
    assert!(seen_there.len() > 5, "it was there while the turn was at work");
}

#[test]
fn a_cancel_on_one_replica_stops_the_agent_on_another() {
    let house = House::of(2, "timeouts: { cancel_grace_ms: 20000 }\n");
    let (one, other) = (house.at(0, "scripted"), house.at(1, "scripted"));
    let task = one.open(script(json!([{ "status": "working" }, { "hang": true }])));
    let id = task["id"].as_str().unwrap();
    one.in_state(id, "TASK_STATE_WORKING");
    // Well within the grace period: the agent stopped by itself, not by the time limit.
    let started = Instant::now();
    let canceled = other.rpc("CancelTask", json!({ "id": id })).unwrap();
    assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
    assert!(started.elapsed() < Duration::from_secs(15), "took {:?}", started.elapsed());
    assert_eq!(one.task(id)["status"], canceled["status"]);
}

#[test]
fn what_one_replica_asked_is_answered_on_another() {
    let house = House::of(3, "");
    let steps = json!([{ "input": "one?" }, { "input": "two?" }, { "echo": true }, { "complete": "done" }]);
    let task = house.at(0, "scripted").send(script(steps));
    let id = task["id"].as_str().unwrap();
    let asked = house.at(1, "scripted").send(to_task(message("first"), id));
    assert_eq!(asked["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{asked}");
    let done = house.at(2, "scripted").send(to_task(message("second"), id));
    assert_eq!(done["status"]["state"], COMPLETED, "{done}");
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "second");
    assert_eq!(house.at(0, "scripted").task(id)["status"], done["status"]);
}

#[test]
fn what_one_replica_answered_the_others_know_at_once() {
    let house = House::of(3, "");
    for turn in 0..60 {
        let (answered, read) = (turn % 3, (turn + 1) % 3);
        let done = house.at(answered, "echo").send(message(&fresh_id()));
        let id = done["id"].as_str().unwrap();
        let seen = house.at(read, "echo").task(id);
        assert_eq!((&seen["status"], &seen["artifacts"]), (&done["status"], &done["artifacts"]), "read your writes");
        // Also a task that the reader has cached and another replica has changed since.
        let asked = house.at(answered, "scripted").send(script(json!([{ "input": "well?" }, { "complete": "done" }])));
        let id = asked["id"].as_str().unwrap();
        assert_eq!(house.at(read, "scripted").task(id)["status"], asked["status"]);
        let done = house.at(answered, "scripted").send(to_task(message("fine"), id));
        assert_eq!(house.at(read, "scripted").task(id)["status"], done["status"], "not what it was before");
        let listed = house.at(read, "scripted").rpc("ListTasks", json!({ "pageSize": 1 })).unwrap();
        assert_eq!(listed["tasks"][0]["id"], id, "{listed}");
    }
}

#[test]
fn one_key_is_one_task_on_every_replica() {
    let house = House::of(3, "");
    let params = send(message("once"));
    for _ in 0..20 {
        let key = fresh_id();
        let ids: Vec<String> = std::thread::scope(|scope| {
            let calls: Vec<_> = (0..3)
                .map(|replica| {
                    let keyed = house.at(replica, "echo").with("Idempotency-Key", &key);
                    let params = params.clone();
                    scope.spawn(move || keyed.rpc("SendMessage", params).unwrap()["task"]["id"].to_string())
                })
                .collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    }
    assert_eq!(house.at(0, "echo").rpc("ListTasks", json!({})).unwrap()["totalSize"], 20);
}

#[test]
fn a_webhook_set_on_one_replica_is_told_once_of_a_turn_on_another() {
    let house = House::of(3, "");
    let receiver = Receiver::start();
    let one = house.at(0, "scripted");
    let task = one.send(script(json!([
        { "input": "well?" },
        { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 10, "every_ms": 10 },
        { "complete": "done" },
    ])));
    let id = task["id"].as_str().unwrap();
    let config = json!({ "taskId": id, "id": "hook", "url": receiver.url("/hook"), "token": "tok" });
    house.at(1, "scripted").rpc("CreateTaskPushNotificationConfig", config).unwrap();
    let mut events = house.at(2, "scripted").stream("SendStreamingMessage", send(to_task(message("go"), id))).unwrap();
    let last = events.rest().last().unwrap().seq();
    let over = |all: &[e2e::Delivery]| all.iter().any(|delivery| delivery.event().1 == last);
    let all = receiver.until("the end arrived", over);
    let numbers: Vec<u64> = all.iter().map(|delivery| delivery.event().1).collect();
    // A config starts with the next event: the answer to the question.
    let log = crate::load::replay(&one, id, 1).unwrap();
    let asked = log.iter().position(|frame| frame.state().as_deref() == Some("TASK_STATE_INPUT_REQUIRED")).unwrap();
    let wanted: Vec<u64> = log[asked + 1..].iter().map(e2e::Frame::seq).collect();
    assert_eq!(numbers, wanted, "each event once, in order");
    assert!(wanted.len() > 10, "{wanted:?}");
}

#[test]
fn a_turn_that_takes_too_long_ends_once() {
    let house = House::of(3, "timeouts: { turn_ms: 700 }\n");
    let ids: Vec<String> = (0..3)
        .map(|replica| {
            let task = house.at(replica, "scripted").open(script(json!([{ "status": "working" }, { "hang": true }])));
            task["id"].as_str().unwrap().to_owned()
        })
        .collect();
    for (turn, id) in ids.iter().enumerate() {
        let client = house.at((turn + 1) % 3, "scripted");
        let done = client.settled(id);
        assert_eq!(done["status"]["state"], "TASK_STATE_FAILED", "{done}");
        let frames = crate::load::replay(&client, id, 1).unwrap();
        let ends = frames.iter().filter(|frame| frame.state().as_deref() == Some("TASK_STATE_FAILED")).count();
        assert_eq!(ends, 1, "{frames:?}");
    }
}

#[test]
fn a_replica_that_dies_leaves_its_turns_to_the_others() {
    let mut house = House::of(2, "limits: { attempts: 5 }\n");
    let steps = json!([
        { "restart": "retry" },
        { "status": "working", "text": "at it" },
        { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 20, "every_ms": 50 },
        { "complete": "done" },
    ]);
    let replicas = |house: &House| -> Vec<String> {
        let shown = house.replicas[1].operate(&["doctor"]).output().unwrap();
        let shown = String::from_utf8(shown.stdout).unwrap();
        shown.lines().skip_while(|line| *line != "replicas").skip(1).take(2).map(str::to_owned).collect()
    };
    // Each replica publishes its description with a heartbeat.
    until("both replicas are known", PATIENCE, || {
        let rows = replicas(&house);
        (rows.len() == 2 && rows.iter().all(|row| row.contains("alive"))).then_some(())
    });
    let mut events = house.at(0, "scripted").stream("SendStreamingMessage", send(script(steps))).unwrap();
    let mut seen = events.take_until(|frame| frame.event()["artifactUpdate"].is_object());
    house.replicas[0].kill9();
    while let Ok(Next::Frame(frame)) = events.next_within(PATIENCE) {
        seen.push(frame);
    }
    let last = seen.last().unwrap();
    let (id, seq) = last.position();
    let rest = crate::load::replay(&house.at(1, "scripted"), id, seq).unwrap();
    assert_eq!(Fold::of_frames(&rest[..1]), Fold::of_frames(&seen), "taken up where it was cut off");
    let end = Fold::of_frames(&rest);
    assert_eq!(end.state, COMPLETED);
    assert_eq!(end.texts().into_values().collect::<Vec<_>>(), ["la ".repeat(20)]);
    let log = house.replicas[1].log();
    let told = log.lines().find(|line| line.contains("turn recovered") && line.contains(id)).unwrap_or_default();
    assert!(told.contains("takeover=true") && told.contains("outcome=\"retried\""), "{told:?}");
    // The doctor lists both, also in its text output.
    let rows = replicas(&house);
    assert!(rows.iter().any(|row| row.contains("gone")) && rows.iter().any(|row| row.contains("alive")), "{rows:?}");
}

#[test]
fn a_rolling_restart_hands_turns_over_and_tells_readers_where_they_were() {
    // A replica that leaves releases its lease: no other waits for it to expire, which would exceed the test's
    // patience.
    let patient = |_, options: crate::house::Options| options.lease(Duration::from_secs(120));
    let mut house = House::with(3, "limits: { attempts: 20 }\n", &patient);
    let steps = json!([
        { "restart": "retry" },
        { "status": "working", "text": "at it" },
        { "sleep_ms": 8000 },
        { "artifact": { "name": "a", "parts": [{ "text": "made" }] } },
        { "complete": "done" },
    ]);
    let mut events = house.at(0, "scripted").stream("SendStreamingMessage", send(script(steps))).unwrap();
    let mut seen = events.take_until(|frame| frame.state().as_deref() == Some("TASK_STATE_WORKING"));
    let (status, took) = house.replicas[0].terminate();
    assert!(status.success(), "{status}");
    // Before the turn could end by itself.
    assert!(took < Duration::from_secs(8), "took {took:?}");
    loop {
        match events.next_within(PATIENCE) {
            Ok(Next::Frame(frame)) => seen.push(frame),
            Ok(Next::End) => break,
            other => panic!("a stream is ended properly, not {other:?}"),
        }
    }
    let last = seen.last().unwrap();
    assert!(last.state().is_none_or(|state| state == "TASK_STATE_WORKING"), "{last:?}");
    let (id, seq) = last.position();
    let rest = crate::load::replay(&house.at(1, "scripted"), id, seq).unwrap();
    assert_eq!(Fold::of_frames(&rest).state, COMPLETED);
    house.replicas[0].restart();
    assert_eq!(house.at(0, "scripted").task(id)["artifacts"][0]["parts"][0]["text"], "made");
    assert_eq!(house.at(0, "echo").send(message("back"))["status"]["state"], COMPLETED);
}

#[test]
fn a_paused_replica_says_nothing_more_in_a_turn_it_has_lost() {
    let house = House::of(2, "limits: { attempts: 5 }\n");
    let steps = json!([
        { "restart": "retry" },
        { "status": "working", "text": "at it" },
        { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 40, "every_ms": 50 },
        { "complete": "done" },
    ]);
    let mut events = house.at(0, "scripted").stream("SendStreamingMessage", send(script(steps))).unwrap();
    let seen = events.take_until(|frame| frame.event()["artifactUpdate"].is_object());
    let id = seen[0].task().to_owned();
    house.pause(0);
    let done = until("another has finished the turn", LEASE + PATIENCE, || {
        let task = house.at(1, "scripted").task(&id);
        (task["status"]["state"] == COMPLETED).then_some(task)
    });
    house.go_on(0);
    // Its late writes are refused, and it continues to serve.
    let again = house.at(0, "scripted").settled(&id);
    assert_eq!((&again["status"], &again["artifacts"]), (&done["status"], &done["artifacts"]));
    assert_eq!(Fold::of_task(&again).texts().into_values().collect::<Vec<_>>(), ["la ".repeat(40)]);
    assert_eq!(house.at(0, "echo").send(message("back"))["status"]["state"], COMPLETED);
    crate::checks::check_database(&house.database);
}

#[test]
fn keys_made_on_one_replica_are_good_on_all() {
    let house = House::of(2, "auth: { required: true }\n");
    let made = house.replicas[0].operate(&["keys", "create", "ann", "--tenant", "t", "-o", "json"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    let client = |replica| house.at(replica, "echo").with("X-Api-Key", made["secret"].as_str().unwrap());
    assert_eq!(client(0).rest("GET", "/tasks", None).status(), 200);
    until("the other knows the key", PATIENCE, || {
        (client(1).rest("GET", "/tasks", None).status() == 200).then_some(())
    });
    let gone = house.replicas[1].operate(&["keys", "revoke", made["id"].as_str().unwrap()]).output().unwrap();
    assert!(gone.status.success(), "{}", String::from_utf8_lossy(&gone.stderr));
    until("the key is good nowhere", PATIENCE, || {
        (0..2).all(|replica| client(replica).rest("GET", "/tasks", None).status() == 401).then_some(())
    });
}

#[test]
fn a_replica_with_another_seal_is_refused() {
    let database = cluster::Cluster::shared().database();
    let folder = tempfile::tempdir().unwrap();
    let seal = folder.path().join("first.key");
    std::fs::write(&seal, [7; 32]).unwrap();
    let config = format!("push: {{ key_file: {} }}\n", seal.display());
    let _first = Server::options().config(&config).database(&database.url()).start();
    // Without a named key, the second replica has its own.
    let options = Server::options().database(&database.url());
    let said = Server::command(&options, &free_address().to_string(), folder.path()).output().unwrap();
    let said = (said.status.success(), String::from_utf8_lossy(&said.stderr).into_owned());
    assert!(!said.0 && said.1.contains("push.key_file"), "{said:?}");
    assert!(!said.1.contains(database.password()), "{said:?}");
}

/// The simplest config: the same store, and nothing else.
#[test]
fn replicas_that_name_no_key_share_the_first_ones() {
    let database = cluster::Cluster::shared().database();
    let start = || Server::options().database(&database.url()).start();
    let (first, second, mut third) = (start(), start(), start());
    let task = first.agent("scripted").open(script(json!([{ "status": "working" }, { "sleep_ms": 600_000 }])));
    let task = task["id"].as_str().unwrap();
    let receiver = Receiver::start();
    let config =
        json!({ "taskId": task, "id": "c", "url": receiver.url("/hook"), "token": "sealed-secret-0123456789" });
    first.agent("scripted").rpc("CreateTaskPushNotificationConfig", config).unwrap();
    third.kill9();
    third.restart();
    for replica in [&second, &third] {
        let named = json!({ "taskId": task, "id": "c" });
        let shown = replica.agent("scripted").rpc("GetTaskPushNotificationConfig", named).unwrap();
        assert_eq!(shown["url"], receiver.url("/hook"), "it can be unsealed everywhere");
    }
    assert!(!database.dump().contains("sealed-secret-0123456789"));
}

#[test]
fn a_replica_that_signs_with_another_key_is_refused() {
    let database = cluster::Cluster::shared().database();
    let folder = tempfile::tempdir().unwrap();
    let seal = folder.path().join("seal.key");
    std::fs::write(&seal, [7; 32]).unwrap();
    let config = format!("push: {{ jwt: true, key_file: {} }}\n", seal.display());
    let first = Server::options().config(&config).database(&database.url()).start();
    let options = Server::options().database(&database.url());
    let start = |config: &str| {
        std::fs::write(folder.path().join("rialto.yaml"), config).unwrap();
        let options = options.clone().config(config);
        let said = Server::command(&options, &free_address().to_string(), folder.path()).output().unwrap();
        String::from_utf8_lossy(&said.stderr).into_owned()
    };
    let said = start(&config);
    assert!(said.contains("push.jwt_key_file") && !said.contains(database.password()), "{said}");
    // With a copy of the first one's key, both agree.
    let token = first.data().join("push-jwt.pem");
    let same = format!("push: {{ jwt: true, key_file: {}, jwt_key_file: {} }}\n", seal.display(), token.display());
    let second = options.clone().config(&same).start();
    let keys = |server: &Server| server.get("/.well-known/jwks.json").json();
    assert_eq!(keys(&first), keys(&second));
}

#[test]
fn an_operator_works_on_the_database_beside_running_replicas_and_without_any() {
    let mut house = House::of(2, "");
    let url = house.database.url();
    let elsewhere = tempfile::tempdir().unwrap();
    let rialto = |words: &[&str]| -> serde_json::Value {
        let mut command = std::process::Command::new(e2e::setup::binary());
        command
            .args(words)
            .args(["-o", "json", "--store", "env:E2E_STORE", "--data"])
            .arg(elsewhere.path().join("data"));
        let done = command.env("E2E_STORE", &url).output().unwrap();
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice(&done.stdout).unwrap()
    };
    let scripted = house.at(0, "scripted");
    let hanging = scripted.open(script(json!([{ "status": "working" }, { "hang": true }])));
    let id = hanging["id"].as_str().unwrap();
    scripted.in_state(id, "TASK_STATE_WORKING");
    assert_eq!(rialto(&["task", "show", id])["state"], "working");
    assert_eq!(rialto(&["task", "list", "--agent", "scripted"])["tasks"][0]["id"], id);
    // Reading recovers nothing.
    assert_eq!(scripted.task(id)["status"]["state"], "TASK_STATE_WORKING");
    assert_eq!(rialto(&["task", "cancel", id])["state"], "canceled");
    assert_eq!(house.at(1, "scripted").task(id)["status"]["state"], "TASK_STATE_CANCELED");
    assert_eq!(scripted.task(id)["status"]["state"], "TASK_STATE_CANCELED");
    // Its holder wrote it, after the agent had stopped.
    let last =
        house.database.query("select epoch is not null from rialto.log order by task_no, first_seq desc limit 1");
    assert_eq!(last, [["t"]]);
    rialto(&["task", "purge", id]);
    until("it is gone everywhere", PATIENCE, || {
        (0..2).all(|at| house.at(at, "scripted").rpc("GetTask", json!({ "id": id })).is_err()).then_some(())
    });
    let made = rialto(&["keys", "create", "ann", "--tenant", "t"]);
    let client = |at| house.at(at, "echo").with("X-Api-Key", made["secret"].as_str().unwrap());
    until("the key is good everywhere", PATIENCE, || {
        (0..2).all(|at| client(at).rest("GET", "/tasks", None).status() == 200).then_some(())
    });
    assert_eq!(rialto(&["doctor"])["store"], "postgres");

    let scripted = house.at(0, "scripted").with("X-Api-Key", made["secret"].as_str().unwrap());
    let hanging = scripted.open(script(json!([{ "status": "working" }, { "hang": true }])));
    let id = hanging["id"].as_str().unwrap();
    scripted.in_state(id, "TASK_STATE_WORKING");
    house.replicas.iter_mut().for_each(Server::kill9);
    assert_eq!(rialto(&["task", "cancel", id])["state"], "canceled", "nobody is there who could say so");
}

#[test]
fn clocks_that_are_apart_change_nothing() {
    let library = setup::faketime();
    let apart = |number: usize, options: crate::house::Options| {
        let offset = ["+0", "+90s", "-90s"][number];
        options
            .env("LD_PRELOAD", &library)
            .env("FAKETIME", offset)
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .env("DONT_FAKE_MONOTONIC", "1")
    };
    let house = House::with(3, "limits: { attempts: 5 }\ntimeouts: { turn_ms: 20000 }\n", &apart);
    let stamps: Vec<_> = (0..3).map(|replica| house.at(replica, "echo").send(message("when?"))).collect();
    let times: Vec<&str> = stamps.iter().map(|task| task["status"]["timestamp"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "the store's clock tells the time: {times:?}");
    // A turn outlives the subscriber's and the canceller's clocks, on every replica.
    for replica in 0..3 {
        let (one, other) = (house.at(replica, "scripted"), house.at((replica + 1) % 3, "scripted"));
        let steps = json!([
            { "status": "working" },
            { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 10, "every_ms": 50 },
            { "complete": "done" },
        ]);
        let mut here = one.stream("SendStreamingMessage", send(script(steps))).unwrap();
        let first = here.take();
        let mut there = other.stream("SubscribeToTask", json!({ "id": first.task() })).unwrap();
        assert_eq!(Fold::of_frames(&there.rest()).state, COMPLETED);
        let hanging = one.open(script(json!([{ "status": "working" }, { "hang": true }])));
        let id = hanging["id"].as_str().unwrap();
        one.in_state(id, "TASK_STATE_WORKING");
        let canceled = other.rpc("CancelTask", json!({ "id": id })).unwrap();
        assert_eq!(canceled["status"]["state"], "TASK_STATE_CANCELED", "{canceled}");
        let key = fresh_id();
        let params = send(message("once"));
        let keyed = |at: usize| house.at(at, "echo").with("Idempotency-Key", &key).rpc("SendMessage", params.clone());
        assert_eq!(keyed(replica).unwrap()["task"]["id"], keyed((replica + 1) % 3).unwrap()["task"]["id"]);
    }
    // No replica counts as dead because of its clock: each one's turns stay its own.
    for replica in &house.replicas {
        let figures = replica.get("/metrics").text();
        let line = figures.lines().find(|line| line.contains("turns_recovered") && !line.starts_with('#')).unwrap();
        assert!(line.ends_with(" 0"), "{line}");
    }
}

#[test]
fn postgres_may_go_away_and_come_back() {
    let house = House::durable(1, "");
    let scripted = house.at(0, "scripted");
    let steps = json!([
        { "status": "working" },
        { "artifact": { "name": "a", "parts": [{ "text": "la " }] }, "chunks": 100, "every_ms": 20 },
        { "complete": "done" },
    ]);
    let kept = house.at(0, "echo").send(message("kept"));
    let _turn = scripted.open(script(steps));
    house.cluster().stop();
    let server = &house.replicas[0];
    until("the server says that it is not ready", PATIENCE, || (server.get("/readyz").status() == 503).then_some(()));
    let refused = house.at(0, "echo").rpc("SendMessage", send(message("now?"))).unwrap_err();
    assert!(crate::load::is_passing(&refused), "{refused}");
    assert!(!refused.to_string().contains(house.database.password()), "{refused}");
    assert_eq!(server.get("/healthz").status(), 200);
    house.cluster().start_again();
    until("it is ready again, by itself", PATIENCE, || (server.get("/readyz").status() == 200).then_some(()));
    until("it takes work again", PATIENCE, || house.at(0, "echo").rpc("SendMessage", send(message("after"))).ok());
    assert_eq!(house.at(0, "echo").task(kept["id"].as_str().unwrap())["artifacts"], kept["artifacts"]);
    assert!(!server.log().contains(house.database.password()), "no secret in the log");
}

#[test]
fn a_replica_that_is_cut_off_says_so_and_comes_back() {
    let house = House::of(2, "limits: { attempts: 5 }\n");
    let steps = json!([
        { "restart": "retry" },
        { "status": "working", "text": "at it" },
        { "sleep_ms": 3000 },
        { "complete": "done" },
    ]);
    let task = house.at(0, "scripted").open(script(steps));
    let id = task["id"].as_str().unwrap();
    house.at(1, "scripted").in_state(id, "TASK_STATE_WORKING");
    house.wires[0].set(crate::wire::Line::Held);
    assert_eq!(house.at(1, "scripted").settled(id)["status"]["state"], COMPLETED, "another has taken it up");
    until("it says that it is not ready", PATIENCE, || {
        (house.replicas[0].get("/readyz").status() == 503).then_some(())
    });
    house.wires[0].set(crate::wire::Line::Open);
    until("it is ready again", PATIENCE, || (house.replicas[0].get("/readyz").status() == 200).then_some(()));
    assert_eq!(house.at(0, "scripted").settled(id)["status"]["state"], COMPLETED);
    crate::checks::check_database(&house.database);
}
