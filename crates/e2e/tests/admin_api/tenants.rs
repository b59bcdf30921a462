//! A caller of one tenant meets nothing of another: in lists, by id, in streams and in numbers.

use e2e::http::Response;
use e2e::script;
use serde_json::{Value, json};

use crate::{Api, agent, ask_with_webhook, audit, key, problem, start};

/// A problem without the id of its request.
fn bare(response: &Response) -> Value {
    let mut problem = problem(response, 404);
    problem["instance"] = Value::Null;
    problem
}

#[test]
fn tasks_of_another_tenant_are_as_if_they_did_not_exist() {
    let server = start("");
    let ada = key(&server, "adalbert", "north", &[]);
    let north = agent(&server, &ada.secret);
    let task = ask_with_webhook(&north);
    let failed = north.send(script(json!([{ "fail": "a northern secret" }])));
    assert_eq!(failed["status"]["state"], "TASK_STATE_FAILED", "{failed}");
    let admin = Api::made(&server, "south", &["admin"]);
    let unknown = "0190f3c4-1111-7222-8333-444455556666";
    for (method, path) in [
        ("GET", "/tasks/{id}"),
        ("GET", "/tasks/{id}/events"),
        ("GET", "/tasks/{id}/events?after=1"),
        ("GET", "/tasks/{id}/wire?as=0.1"),
        ("GET", "/deliveries?task={id}"),
        ("POST", "/tasks/{id}:cancel"),
        ("POST", "/tasks/{id}/deliveries:redeliver"),
        ("DELETE", "/tasks/{id}"),
    ] {
        let ask = |id: &str| bare(&admin.ask(method, &path.replace("{id}", id)));
        assert_eq!(ask(&task), ask(unknown), "{method} {path}");
    }
    let streamed = |id: &str| bare(&admin.stream(id, &[]).expect_err("no stream"));
    assert_eq!(streamed(&task), streamed(unknown));
    let resumed = admin.stream(&task, &[("last-event-id", &format!("{task}.1"))]).expect_err("no stream");
    problem(&resumed, 404);
    for path in [
        "/tasks",
        "/tasks?tenant=north",
        "/tasks?q=colour",
        "/tasks?caller=adalbert",
        "/deliveries",
        "/keys",
        "/audit",
        "/health",
        "/overview",
        "/session",
    ] {
        let text = admin.ask("GET", path).text();
        for hidden in [&*task, failed["id"].as_str().unwrap(), "adalbert", "colour", "northern", &ada.id] {
            assert!(!text.contains(hidden), "{path} has {hidden}: {text}");
        }
    }
    assert_eq!(admin.get("/tasks")["tasks"], json!([]));
    let counts = &admin.get("/overview")["tasks"];
    assert_eq!(counts, &json!({ "open": 0, "waiting": 0, "failed": 0, "exact": true }));
    let still = north.task(&task);
    assert_eq!(still["status"]["state"], "TASK_STATE_INPUT_REQUIRED");

    // Its own admin, and one of all tenants, see them.
    for api in [Api::made(&server, "north", &["admin"]), Api::made(&server, "south", &["viewer", "all-tenants"])] {
        let rows = api.get("/tasks")["tasks"].clone();
        assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
        let counts = api.get("/overview")["tasks"].clone();
        assert_eq!((&counts["waiting"], &counts["failed"]), (&json!(1), &json!(1)), "{counts}");
        assert_eq!(api.get("/deliveries")["deliveries"][0]["task"], json!(task));
    }
}

#[test]
fn an_alias_is_found_in_the_own_tenant_alone() {
    let server = start("");
    let send = |secret: &str| {
        let params =
            json!({ "id": "mine", "message": { "role": "user", "parts": [{ "type": "text", "text": "hi" }] } });
        let client = server.agent("echo").without("A2A-Version").with("Authorization", &format!("Bearer {secret}"));
        client.rpc("tasks/send", params).unwrap();
    };
    send(&key(&server, "ada", "north", &[]).secret);
    let (north, south) = (Api::made(&server, "north", &["viewer"]), Api::made(&server, "south", &["viewer"]));
    let found = north.get("/tasks/mine")["summary"].clone();
    assert_eq!((&found["alias"], &found["owner"]), (&json!("mine"), &json!("ada")), "{found}");
    problem(&south.ask("GET", "/tasks/mine"), 404);
    // Another tenant's task of that name is not in the way, and not told of.
    send(&key(&server, "eve", "south", &[]).secret);
    assert_eq!(north.get("/tasks/mine")["summary"]["owner"], "ada");
    assert_eq!(south.get("/tasks/mine")["summary"]["owner"], "eve");
    let both = Api::made(&server, "default", &["admin"]).ask("GET", "/tasks/mine");
    assert!(problem(&both, 400)["detail"].as_str().unwrap().contains("several callers"));
}

#[test]
fn an_admin_of_a_tenant_makes_no_key_that_reaches_further() {
    let server = start("");
    let admin = Api::made(&server, "north", &["admin"]);
    for body in [
        json!({ "name": "x", "tenant": "south", "scopes": ["viewer"] }),
        json!({ "name": "x", "tenant": "default", "scopes": ["admin"] }),
        json!({ "name": "x", "scopes": ["viewer", "all-tenants"] }),
    ] {
        let before = audit(&server).len();
        problem(&admin.send("POST", "/keys", &body), 403);
        assert_eq!(audit(&server).len(), before, "{body}");
    }
    let made = admin.send("POST", "/keys", &json!({ "name": "x", "scopes": ["viewer"] }));
    assert_eq!((made.status(), &made.json()["tenant"]), (201, &json!("north")));
    let other = json!({ "caller": { "name": "ann", "tenant": "south" }, "agent": "echo", "operation": "send" });
    problem(&admin.send("POST", "/policy:check", &other), 403);
}
