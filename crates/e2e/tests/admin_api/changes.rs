//! Changes: tasks, deliveries, keys, the policy's dry run, the config.

use e2e::{Receiver, Reply, message, poll, script, until};
use serde_json::{Value, json};

use crate::{AGENTS, Api, agent, ask_with_webhook, audit, key, problem, start};

#[test]
fn a_task_is_cancelled_and_removed() {
    let server = start("");
    let ada = key(&server, "ada", "north", &[]);
    let client = agent(&server, &ada.secret);
    let api = Api::made(&server, "north", &["operator"]);
    let task = ask_with_webhook(&client);
    let canceled = api.ask("POST", &format!("/tasks/{task}:cancel"));
    assert_eq!(canceled.json(), json!({ "id": task, "state": "canceled" }));
    assert_eq!(client.task(&task)["status"]["state"], "TASK_STATE_CANCELED");
    problem(&api.ask("POST", &format!("/tasks/{task}:cancel")), 409);
    assert_eq!(api.ask("DELETE", &format!("/tasks/{task}")).json(), json!({ "purged": task }));
    problem(&api.ask("GET", &format!("/tasks/{task}")), 404);
    assert!(client.rpc("GetTask", json!({ "id": task })).is_err());
    let changes: Vec<(Value, Value)> = audit(&server)
        .into_iter()
        .filter(|line| line["task"] == json!(task))
        .map(|line| (line["change"].clone(), line["tenant"].clone()))
        .collect();
    assert_eq!(changes, [(json!("canceled"), json!("north")), (json!("purged"), json!("north"))]);
}

#[test]
fn a_webhook_that_was_given_up_is_listed_and_delivered_again() {
    let server = start("push: { retry_ms: 20, timeout_ms: 500, breaker_ms: 100 }\n");
    let receiver = Receiver::start();
    receiver.answers(|_| Reply::Status(410));
    let ada = key(&server, "ada", "north", &[]);
    let params = json!({
        "message": script(json!([{ "complete": "done" }])),
        "configuration": { "taskPushNotificationConfig": { "id": "hook", "url": receiver.url("/hook") } },
    });
    let sent = agent(&server, &ada.secret).rpc("SendMessage", params).unwrap();
    let task = sent["task"]["id"].as_str().unwrap().to_owned();
    let api = Api::made(&server, "north", &["operator"]);
    let dead = until("the webhook is given up", poll::PATIENCE, || {
        let list = api.get("/deliveries?state=dead&limit=5")["deliveries"].clone();
        list.as_array().unwrap().first().cloned()
    });
    assert_eq!(
        (&dead["task"], &dead["config"], &dead["delivered"]),
        (&json!(task), &json!("hook"), &json!(0)),
        "{dead}"
    );
    receiver.answers(|_| Reply::Status(200));
    let path = format!("/tasks/{task}/deliveries:redeliver");
    problem(&api.send("POST", &path, &json!({ "id": "other" })), 404);
    problem(&api.send("POST", &path, &json!({ "from": 1_000 })), 400);
    let done = api.send("POST", &path, &json!({ "id": "hook", "from": 1 }));
    assert_eq!(done.json(), json!({ "task": task, "redelivered": 1 }));
    until("it is delivered", poll::PATIENCE, || {
        let list = api.get("/deliveries?state=done")["deliveries"].clone();
        (list[0]["task"] == json!(task)).then_some(())
    });
}

#[test]
fn a_key_that_is_made_works_at_once_and_one_that_is_revoked_does_not() {
    let server = start("");
    let admin = Api::made(&server, "default", &["admin"]);
    let body = json!({ "name": "new", "tenant": "north", "scopes": ["viewer"], "expiresInMs": 3_600_000 });
    let made = admin.send("POST", "/keys", &body).json();
    let (id, secret) = (made["id"].as_str().unwrap(), made["secret"].as_str().unwrap());
    let viewer = Api::with(&server, secret);
    assert_eq!(viewer.get("/session")["caller"], "new");
    let listed = admin.ask("GET", "/keys").text();
    assert!(listed.contains(id) && !listed.contains(secret), "{listed}");
    assert_eq!(admin.ask("DELETE", &format!("/keys/{id}")).json()["state"], "revoked");
    problem(&viewer.ask("GET", "/session"), 401);
    problem(&admin.ask("DELETE", "/keys/none"), 404);
    for (body, field) in [
        (json!({}), "body"),
        (json!({ "name": "" }), "name"),
        (json!({ "name": "a\u{7}" }), "name"),
        (json!({ "name": "anonymous" }), "name"),
        (json!({ "name": "x", "tenant": "" }), "tenant"),
        (json!({ "name": "x", "scopes": ["vieuer"] }), "scopes"),
        (json!({ "name": "x", "scopes": "viewer" }), "scopes"),
        (json!({ "name": "x", "expiresInMs": 0 }), "expiresInMs"),
        (json!({ "name": "x", "expiresInMs": u64::MAX }), "expiresInMs"),
        (json!({ "name": "x", "secret": "mine" }), "secret"),
    ] {
        let refused = problem(&admin.send("POST", "/keys", &body), 400);
        assert!(refused["field"].as_str().unwrap().contains(field), "{body}: {refused}");
    }
}

#[test]
fn a_dry_run_says_what_the_call_itself_would_meet() {
    let policy = "policy:\n  - allow: { scopes: [tasks], callers: ['a*'] }\n  - allow: { callers: [ben], methods: [read] }\n  - deny: { callers: [abe] }\n";
    let server = start(policy);
    let api = Api::made(&server, "default", &["operator", "all-tenants"]);
    // Name, scopes, whether a send and a get are allowed, and what decides about the send: by what, rule, scope.
    for (name, scopes, send, get, by, rule, scope) in [
        ("ann", vec!["tasks"], true, true, "policy", json!(1), json!("tasks")),
        ("abe", vec!["tasks"], false, false, "policy", json!(3), json!("tasks")),
        ("ben", vec![], false, true, "policy", json!(null), json!(null)),
        ("cat", vec!["tasks"], false, false, "policy", json!(null), json!("tasks")),
        ("ada", vec!["push"], false, false, "scopes", json!(null), json!(null)),
        ("anonymous", vec![], false, false, "credential", json!(null), json!(null)),
    ] {
        let ask = |operation: &str| {
            let caller = json!({ "name": name, "tenant": "north", "scopes": scopes });
            let body = json!({ "caller": caller, "agent": "echo", "operation": operation });
            api.send("POST", "/policy:check", &body).json()
        };
        let said = ask("send");
        assert_eq!((&said["allowed"], &ask("get")["allowed"]), (&json!(send), &json!(get)), "{name}: {said}");
        assert_eq!((&said["decidedBy"], &said["rule"], &said["scope"]), (&json!(by), &rule, &scope), "{name}: {said}");
        let mut client = server.agent("echo");
        if name != "anonymous" {
            let key = key(&server, name, "north", &scopes);
            client = client.with("Authorization", &format!("Bearer {}", key.secret));
        }
        let sent = client.rpc("SendMessage", json!({ "message": message("hi") }));
        assert_eq!(sent.is_ok(), send, "{name}: {sent:?}");
    }
    for (body, field) in [
        (json!({ "caller": { "name": "x" }, "agent": "echo", "operation": "dance" }), "operation"),
        (json!({ "caller": { "name": "x" }, "agent": "nobody", "operation": "send" }), "agent"),
        (json!({ "caller": { "name": "" }, "agent": "echo", "operation": "send" }), "caller.name"),
        (json!({ "agent": "echo", "operation": "send" }), "caller"),
    ] {
        let refused = problem(&api.send("POST", "/policy:check", &body), 400);
        let named = refused["field"].as_str().unwrap();
        assert!(named == field || (named == "body" && field == "caller"), "{body}: {refused}");
    }
}

#[test]
fn a_config_is_read_again_or_refused_with_the_reason() {
    let server = start("");
    let api = Api::made(&server, "default", &["admin"]);
    server.write_config(&format!("{AGENTS}  # as before\nauth: {{ required: true }}\nlimits: {{ attempts: 0 }}\n"));
    let before = audit(&server).len();
    let refused = problem(&api.ask("POST", "/config:reload"), 422);
    assert!(refused["detail"].as_str().unwrap().contains("limits.attempts"), "{refused}");
    assert_eq!(audit(&server).len(), before, "nothing has changed");
    let more = AGENTS.replace("echo: {", "other: { kind: echo }, echo: {");
    server.write_config(&format!("{more}auth: {{ required: true }}\n"));
    let applied = api.ask("POST", "/config:reload").json();
    assert_eq!(applied["outcome"], "applied", "{applied}");
    assert_eq!(api.get("/agents/other")["name"], "other");
    let names: Vec<Value> =
        api.get("/agents")["agents"].as_array().unwrap().iter().map(|agent| agent["name"].clone()).collect();
    assert!(names.contains(&json!("other")), "{names:?}");
}

#[test]
fn the_log_of_changes_is_read_page_by_page() {
    let server = start("");
    let admin = Api::made(&server, "default", &["admin"]);
    for number in 0..5 {
        key(&server, &format!("key-{number}"), "north", &["tasks"]);
    }
    let (mut names, mut before) = (Vec::new(), String::new());
    loop {
        let page = admin.get(&format!("/audit?limit=2{before}"));
        names.extend(page["lines"].as_array().unwrap().iter().map(|line| line["name"].as_str().unwrap().to_owned()));
        match page["next"].as_u64() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    let mut expected: Vec<String> =
        audit(&server).iter().map(|line| line["name"].as_str().unwrap().to_owned()).collect();
    expected.reverse();
    assert_eq!(names, expected);
    problem(&admin.ask("GET", "/audit?before=4000000000"), 400);
}
