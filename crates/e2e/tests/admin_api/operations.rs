//! The server and its agents for operators: numbers of the last hour, limits in use, health, cards and drift of agents, and
//! the config in force.

use e2e::http::Request;
use e2e::{Server, message, poll, script, until};
use serde_json::{Value, json};

use crate::{AGENTS, Api, agent, audit, key, problem, start};

fn sum(samples: &Value, name: &str) -> u64 {
    samples["samples"].as_array().unwrap().iter().map(|sample| sample[name].as_u64().unwrap()).sum()
}

#[test]
fn the_last_hour_has_calls_tasks_and_times() {
    let server = start("");
    let ada = agent(&server, &key(&server, "ada", "north", &[]).secret);
    let admin = Api::made(&server, "default", &["admin"]);
    for _ in 0..5 {
        ada.send(message("hi"));
    }
    ada.send(script(json!([{ "fail": "no" }])));
    assert!(ada.rpc("GetTask", json!({ "id": "nonsense" })).is_err());
    let history = admin.get("/overview/history");
    assert_eq!(history["everyMs"], 10_000);
    for (name, expected) in [("calls", 7), ("failedCalls", 1), ("opened", 6), ("settled", 6), ("failed", 1)] {
        assert_eq!(sum(&history, name), expected, "{name}: {history}");
    }
    // The newest interval may have begun after the calls.
    let samples = history["samples"].as_array().unwrap();
    let last = samples.iter().rfind(|sample| sample["calls"].as_u64() > Some(0)).unwrap().clone();
    let time = |name: &str| last[name].as_f64().unwrap();
    assert!(time("p50Ms") > 0.0 && time("p50Ms") <= time("p99Ms"), "{last}");
    // Requests of operators are no calls.
    assert_eq!(sum(&admin.get("/overview/history"), "calls"), 7);
    let overview = admin.get("/overview");
    assert_eq!((&overview["streams"], &overview["retrying"]), (&json!(0), &json!(0)), "{overview}");
    assert!(overview["disk"]["fileBytes"].as_u64().unwrap() > 0, "{overview}");
    // A caller of one tenant gets no numbers of others.
    let north = Api::made(&server, "north", &["admin"]);
    let own = north.get("/overview");
    for name in ["streams", "retrying", "disk"] {
        assert_eq!(own[name], Value::Null, "{own}");
    }
    problem(&north.ask("GET", "/overview/history"), 403);
}

#[test]
fn an_agent_shows_its_turns_and_how_they_ended_to_those_who_see_all_tenants() {
    let server = start("");
    let ada = agent(&server, &key(&server, "ada", "north", &[]).secret);
    let watcher = Api::made(&server, "north", &["viewer", "all-tenants"]);
    let load = || watcher.get("/agents/scripted")["load"].clone();
    assert_eq!(load()["health"], "unused");
    ada.send(message("hi"));
    let after_one = load();
    assert_eq!((&after_one["health"], &after_one["recent"]["ended"]), (&json!("ok"), &json!(1)), "{after_one}");
    assert!(after_one["recent"]["p99Ms"].as_f64().unwrap() > 0.0, "{after_one}");
    for _ in 0..3 {
        ada.send(script(json!([{ "fail": "no" }])));
    }
    let failing = load();
    assert_eq!((&failing["health"], &failing["failedInARow"]), (&json!("failing"), &json!(3)), "{failing}");
    assert_eq!((&failing["sinceStart"]["failed"], &failing["slots"]), (&json!(3), &json!(16)), "{failing}");
    // A turn that works takes a slot.
    let hanging = json!({ "message": script(json!([{ "status": "working" }, { "hang": true }])), "configuration": { "returnImmediately": true } });
    ada.rpc("SendMessage", hanging).unwrap();
    until("the turn has a slot", poll::PATIENCE, || (load()["running"] == 1).then_some(()));
    let listed = watcher.get("/agents")["agents"].clone();
    assert!(listed.as_array().unwrap().iter().all(|agent| agent["load"].is_object()), "{listed}");
    let own = Api::made(&server, "north", &["admin"]);
    assert_eq!(own.get("/agents/scripted")["load"], Value::Null);
    assert!(own.get("/agents")["agents"].as_array().unwrap().iter().all(|agent| agent["load"].is_null()));
}

#[test]
fn workers_that_wait_or_have_a_turn_are_online() {
    let server = Server::options()
        .config("agents: { w: { kind: worker, secret: 'env:WORKER_SECRET' } }\nauth: { required: true }\n")
        .env("WORKER_SECRET", "worker-secret-1f2e")
        .start();
    let admin = Api::made(&server, "default", &["admin"]);
    let load = || admin.get("/agents/w")["load"].clone();
    assert_eq!((&load()["health"], &load()["workers"]["online"]), (&json!("unattended"), &json!([])));
    let ada = key(&server, "ada", "north", &[]);
    let params = json!({ "message": message("work"), "configuration": { "returnImmediately": true } });
    server.agent("w").with("Authorization", &format!("Bearer {}", ada.secret)).rpc("SendMessage", params).unwrap();
    until("the turn waits", poll::PATIENCE, || (load()["workers"]["waiting"] == 1).then_some(()));
    let lease = Request::new("POST", "/workers/w/lease")
        .header("authorization", "Bearer worker-secret-1f2e")
        .json(&json!({ "worker": "bee", "wait_ms": 1000 }));
    let leased = server.exchange(&lease);
    assert_eq!(leased.status(), 200, "{}", leased.text());
    let now = load();
    assert_eq!(now["workers"], json!({ "waiting": 0, "online": [{ "name": "bee", "connections": 0, "turns": 1 }] }));
    assert_ne!(now["health"], "unattended", "{now}");
}

#[test]
fn cards_are_shown_and_checked_for_readers_of_each_version() {
    let server = start("");
    let viewer = Api::made(&server, "north", &["viewer"]);
    let cards = viewer.get("/agents/echo/cards");
    assert_eq!(cards["form"], "hybrid");
    let versions = cards["versions"].as_array().unwrap();
    let names: Vec<&str> = versions.iter().map(|one| one["version"].as_str().unwrap()).collect();
    assert_eq!(names, ["1.0", "0.3", "0.2", "0.1"]);
    for one in versions {
        assert_eq!(
            one["findings"].as_array().unwrap().iter().filter(|found| found["error"] == true).count(),
            0,
            "{one}"
        );
        assert!(one["card"]["name"].is_string(), "{one}");
    }
    // The form for readers of 0.1 is the public card itself.
    let public: Value = server.get("/a2a/echo/.well-known/agent-card.json").json();
    assert_eq!(versions[3]["card"], public);
    problem(&viewer.ask("GET", "/agents/nobody/cards"), 404);
    let clean = start("card: clean\n");
    let cards = Api::made(&clean, "north", &["viewer"]).get("/agents/echo/cards");
    assert_eq!((&cards["form"], &cards["versions"][3]["card"]), (&json!("clean"), &Value::Null));
    assert_eq!(cards["versions"][3]["findings"][0]["error"], true);
}

#[test]
fn a_card_elsewhere_is_compared_with_the_one_that_was_taken_up() {
    let described = |words: &str| format!("agents: {{ far: {{ kind: echo, description: '{words}' }} }}\n");
    let far = Server::options().config(&described("as it was")).start();
    let config = format!(
        "agents: {{ near: {{ kind: a2a, url: '{}/a2a/far?token=hunter2', auth: {{ bearer: 'env:FAR' }} }}, echo: {{ kind: echo }} }}\nauth: {{ required: true }}\n",
        far.url()
    );
    let server = Server::options().config(&config).env("FAR", "far-secret-77aa").start();
    let operator = Api::made(&server, "north", &["operator", "all-tenants"]);
    let same = operator.get("/agents/near/drift");
    assert_eq!(
        (&same["remote"], &same["differences"], &same["trouble"]),
        (&json!(true), &json!([]), &Value::Null),
        "{same}"
    );
    assert_eq!(operator.get("/agents/echo/drift")["remote"], false);
    far.write_config(&described("as it is"));
    let drift = until("the card has changed", poll::PATIENCE, || {
        let drift = operator.get("/agents/near/drift");
        (drift["differences"] != json!([])).then_some(drift)
    });
    let found = drift["differences"].as_array().unwrap();
    let at = |path: &str| found.iter().find(|one| one["path"] == path).unwrap_or_else(|| panic!("{drift}"));
    assert_eq!(at("description"), &json!({ "path": "description", "before": "as it was", "now": "as it is" }));
    let text = drift.to_string();
    assert!(!text.contains("hunter2") && !text.contains("far-secret"), "{text}");
    drop(far);
    let gone = operator.get("/agents/near/drift");
    assert!(gone["trouble"].as_str().is_some_and(|why| !why.is_empty()), "{gone}");
}

#[test]
fn a_test_message_shows_whether_the_agent_answers() {
    let server = start("policy: [{ deny: { agents: ['*'] } }]\n");
    let operator = Api::made(&server, "north", &["operator"]);
    let done = operator.ask("POST", "/agents/echo:test").json();
    assert_eq!((&done["state"], &done["refused"]), (&json!("completed"), &Value::Null), "{done}");
    assert!(done["answer"].as_str().unwrap().contains("test"), "{done}");
    let task = operator.get(&format!("/tasks/{}", done["task"].as_str().unwrap()));
    assert_eq!(task["summary"]["tenant"], "north");
    let line = audit(&server).pop().unwrap();
    assert_eq!((&line["change"], &line["agent"], &line["tenant"]), (&json!("tested"), &json!("echo"), &json!("north")));
    problem(&operator.ask("POST", "/agents/nobody:test"), 404);
}

#[test]
fn limits_show_what_is_used_of_them() {
    let server = start(
        "limits: { running_turns: 50, streams_per_caller: 5, daily_calls: 100, rate: { per_caller: { per_minute: 1, burst: 3 } } }\n",
    );
    let ada = key(&server, "ada", "north", &[]);
    let client = agent(&server, &ada.secret);
    let sent = (0..5).filter(|_| client.rpc("SendMessage", json!({ "message": message("hi") })).is_ok()).count();
    let limits = Api::made(&server, "default", &["admin"]).get("/limits");
    let turns = limits["limits"].as_array().unwrap().iter().find(|one| one["name"] == "limits.running_turns").unwrap();
    assert_eq!((&turns["most"], &turns["unit"]), (&json!(50), &json!("number")));
    let rate = &limits["rates"][0];
    assert_eq!(
        (&rate["name"], &rate["perMinute"], &rate["burst"]),
        (&json!("limits.rate.per_caller"), &json!(1), &json!(3))
    );
    assert!(sent < 5 && rate["refused"].as_u64().unwrap() == 5 - sent as u64, "{sent} {rate}");
    assert_eq!(limits["places"][0]["name"], "limits.streams_per_caller");
    let callers = limits["daily"]["callers"].as_array().unwrap();
    let calls =
        callers.iter().find(|one| one["name"] == "ada").map(|one| (&one["tenant"], one["calls"].as_u64().unwrap()));
    assert_eq!(calls, Some((&json!("north"), sent as u64)), "{limits}");
}

const SECRETS: [(&str, &str); 5] = [
    ("KEY_OF_ANN", "ann-secret-0001"),
    ("ISSUER", "issuer-secret-0002-of-thirty-two-bytes"),
    ("FAR", "far-secret-0003"),
    ("SIGNING", "signing-secret-0004"),
    ("PROGRAM", "program-secret-0005"),
];

#[test]
fn every_value_of_the_config_has_its_source_and_no_secret_is_shown() {
    let config = "agents:
  echo: { kind: echo }
  far:
    kind: a2a
    url: 'http://ann:url-secret-0006@127.0.0.1:9/a2a?key=url-secret-0007'
    auth: { bearer: 'env:FAR' }
    headers: { X-Plain: header-secret-0008 }
  program: { kind: command, command: 'cat argument-secret-0009', secrets: { TOKEN: 'env:PROGRAM' } }
auth:
  required: true
  keys: [{ name: ann, tenant: acme, key: 'env:KEY_OF_ANN' }]
  jwt: [{ issuer: idp, audience: rialto, secret: 'env:ISSUER' }]
push: { signing_secret: 'env:SIGNING', retry_ms: 500 }
limits:
  attempts: 7
";
    let options =
        SECRETS.iter().fold(Server::options().config(config), |options, (name, value)| options.env(name, value));
    let server = options.args(&["--card", "clean"]).start();
    let admin = Api::made(&server, "default", &["admin"]);
    let shown = admin.get("/config");
    assert!(shown["file"].is_string());
    let at = |path: &str| {
        let values = shown["values"].as_array().unwrap();
        values.iter().find(|one| one["path"] == path).cloned().unwrap_or_else(|| panic!("no {path}: {shown}"))
    };
    for (path, value, source, line, flag, environment) in [
        ("limits.attempts", json!(7), "file", json!(15), Value::Null, Value::Null),
        ("limits.body_bytes", json!(10_485_760), "default", Value::Null, Value::Null, Value::Null),
        ("card", json!("clean"), "flag", Value::Null, json!("--card"), Value::Null),
        ("auth.keys[0].key", json!("env:KEY_OF_ANN"), "file", json!(11), Value::Null, json!("KEY_OF_ANN")),
        ("auth.keys[0].name", json!("ann"), "file", json!(11), Value::Null, Value::Null),
        ("agents.far.url", json!("http://***@127.0.0.1:9/a2a"), "file", json!(5), Value::Null, Value::Null),
        ("agents.far.headers.X-Plain", json!("***"), "file", json!(7), Value::Null, Value::Null),
        ("push.signing_secret", json!("env:SIGNING"), "file", json!(13), Value::Null, json!("SIGNING")),
    ] {
        let expected = json!({ "path": path, "value": value, "source": source, "line": line, "flag": flag, "environment": environment });
        assert_eq!(at(path), expected);
    }
    let printed = server.operate(&["config", "show"]).output().unwrap();
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    let mut answers = vec![("config show", printed)];
    for path in [
        "/config",
        "/agents",
        "/agents/far",
        "/agents/far/cards",
        "/agents/far/drift",
        "/health",
        "/limits",
        "/keys",
        "/audit",
        "/overview",
    ] {
        answers.push((path, admin.ask("GET", path).text()));
    }
    for (place, answer) in &answers {
        assert!(!answer.is_empty(), "{place}");
        for secret in SECRETS.iter().map(|(_, value)| *value).chain(["url-secret", "header-secret", "argument-secret"])
        {
            assert!(!answer.contains(secret), "{place} has {secret}");
        }
    }
}

#[test]
fn a_reload_shows_new_values_and_those_that_stay_until_a_restart() {
    let server = start("limits: { attempts: 7 }\n");
    let admin = Api::made(&server, "default", &["admin"]);
    let value = |path: &str| {
        let shown = admin.get("/config");
        let found = shown["values"].as_array().unwrap().iter().find(|one| one["path"] == path).cloned();
        found.unwrap_or_else(|| panic!("no {path}"))["value"].clone()
    };
    server.write_config(&format!(
        "{AGENTS}auth: {{ required: true }}\nlimits: {{ attempts: 9 }}\ntimeouts: {{ heartbeat_ms: 5000 }}\n"
    ));
    let applied = admin.ask("POST", "/config:reload").json();
    assert_eq!(applied["needsRestart"], json!(["limits.attempts"]), "{applied}");
    assert_eq!((value("limits.attempts"), value("timeouts.heartbeat_ms")), (json!(7), json!(5_000)));
}

/// The data of the next event.
fn next(events: &mut e2e::Events) -> Value {
    let frame = events.take();
    let data: Value = serde_json::from_str(&frame.data).unwrap();
    assert_eq!(data["next"].as_str(), frame.id.as_deref());
    data
}

#[test]
fn changes_of_tasks_are_told_and_go_on_after_an_event() {
    let server = start("");
    let (north, south) = (key(&server, "ada", "north", &[]), key(&server, "eve", "south", &[]));
    let (north, south) = (agent(&server, &north.secret), agent(&server, &south.secret));
    let all = Api::made(&server, "default", &["admin"]);
    let mut changes = all.follow("/events", &[]).unwrap();
    let first = next(&mut changes);
    assert_eq!((&first["missed"], &first["tasks"]), (&json!(true), &json!([])), "a new reader reads all");
    let task = north.send(script(json!([{ "input": "?" }])))["id"].as_str().unwrap().to_owned();
    let told = next(&mut changes);
    assert_eq!(told["tasks"][0], json!({ "id": task, "tenant": "north", "agent": "scripted" }), "{told}");
    assert_eq!(told["missed"], false, "{told}");
    // The change can be read at once.
    assert_eq!(all.get(&format!("/tasks/{task}"))["summary"]["id"], json!(task));
    drop(changes);
    let other = south.send(message("meanwhile"))["id"].as_str().unwrap().to_owned();
    let after = told["next"].as_str().unwrap().to_owned();
    let ids = |found: &Value| -> Vec<String> {
        found["tasks"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
    };
    // A reader that comes back misses nothing, as a stream and as a page.
    let mut again = all.follow("/events", &[("last-event-id", &after)]).unwrap();
    let mut found = Vec::new();
    while !found.contains(&other) {
        let event = next(&mut again);
        assert_eq!(event["missed"], false, "{event}");
        found.extend(ids(&event));
    }
    let page = all.get(&format!("/events?after={after}"));
    assert_eq!((ids(&page).contains(&other), &page["missed"]), (true, &json!(false)), "{page}");
    // One tenant is told of its own tasks alone.
    let own = Api::made(&server, "south", &["viewer"]);
    let page = own.get(&format!("/events?after={after}"));
    assert_eq!(ids(&page), [other.as_str()], "{page}");
    assert!(!page.to_string().contains("north"), "{page}");
    problem(&own.ask("GET", "/events?tenant=north"), 400);
    let none = all.get(&format!("/events?after={after}&agent=echo"));
    assert_eq!((ids(&none).len(), &none["missed"]), (0, &json!(false)), "{none}");
    problem(&all.ask("GET", "/events?after=x"), 400);
}

#[test]
fn a_reader_from_before_a_restart_reads_all_again() {
    let mut server = start("");
    let secret = key(&server, "me", "default", &["admin"]).secret;
    let cursor = Api::with(&server, &secret).get("/events")["next"].as_str().unwrap().to_owned();
    server.restart();
    let api = Api::with(&server, &secret);
    let page = api.get(&format!("/events?after={cursor}"));
    assert_eq!(page["missed"], true, "{page}");
    assert_ne!(page["next"], json!(cursor));
}
