//! Every code of the page's table, by JSON-RPC and by HTTP+JSON.

use e2e::{message, send};
use serde_json::{Value, json};

use crate::desk::{anybody, code, demo, open_task, owner, payload, rest_code, shop, token, with_token};

/// The error of a body that is no valid request.
fn raw(client: &e2e::Client, body: &str) -> (Value, i64) {
    let response = client.post(body);
    assert_eq!(response.status(), 200, "{}", response.text());
    let answer = response.json();
    assert!(answer.get("result").is_none() && answer["jsonrpc"] == "2.0", "{answer}");
    (answer["id"].clone(), answer["error"]["code"].as_i64().unwrap())
}

#[test]
fn what_is_no_request_has_the_codes_of_json_rpc() {
    let server = demo();
    let owner = owner(&server);
    assert_eq!(raw(&owner, "{\"jsonrpc\": \"2.0\", "), (Value::Null, -32700));
    assert_eq!(raw(&owner, "not json"), (Value::Null, -32700));
    assert_eq!(raw(&owner, "[]").1, -32600);
    assert_eq!(raw(&owner, "{\"jsonrpc\":\"1.0\",\"id\":\"a\",\"method\":\"GetTask\"}").1, -32600);
    assert_eq!(raw(&owner, "{\"jsonrpc\":\"2.0\",\"id\":\"a\"}").1, -32600);
    let unknown = raw(&owner, "{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"BuyTask\"}");
    assert_eq!(unknown, (json!("a"), -32601));
    // Methods of other generations do not exist here.
    assert_eq!(code(&owner, "message/send", send(message("hi"))), -32601);
    for path in ["/message:send", "/message:stream", "/streaming"] {
        let request = owner.request("POST", path).header("content-type", "application/json").body("{");
        assert_eq!(rest_code(&owner.exchange(&request)), (400, -32700), "{path}");
    }
    assert_eq!(rest_code(&owner.rest("GET", "/nothing", None)), (404, -32601));
    assert_eq!(rest_code(&owner.rest("DELETE", "/tasks", None)), (405, -32601));
}

#[test]
fn params_that_cannot_be_read_are_refused() {
    let server = demo();
    let owner = owner(&server);
    let whole = message("Search for hats on store acme.");
    for missing in ["messageId", "role", "parts"] {
        let mut said = whole.clone();
        said.as_object_mut().unwrap().remove(missing);
        assert_eq!(code(&owner, "SendMessage", send(said.clone())), -32602, "{missing}");
        for (path, body) in [
            ("/message:send", send(said.clone())),
            ("/message:stream", send(said.clone())),
            ("/streaming", json!({ "params": send(said.clone()) })),
        ] {
            assert_eq!(rest_code(&owner.rest("POST", path, Some(&body))), (400, -32602), "{path} without {missing}");
        }
    }
    let mut empty = whole.clone();
    empty["parts"] = json!([]);
    let wrong = [
        ("SendMessage", send(empty)),
        ("SendMessage", json!({})),
        ("SendMessage", send(payload(json!({ "skill": "haircut", "site_slug": "acme" })))),
        ("SendMessage", send(payload(json!({ "skill": "cart-management", "site_slug": "acme", "action": "burn" })))),
        ("GetTask", json!({})),
        ("GetTask", json!({ "taskId": 7 })),
        ("CancelTask", json!({})),
        ("ListTasks", json!({ "pageSize": 0 })),
        ("ListTasks", json!({ "limit": 101 })),
        ("ListTasks", json!({ "cursor": "nowhere" })),
    ];
    for (method, params) in wrong {
        assert_eq!(code(&owner, method, params.clone()), -32602, "{method} {params}");
    }
    // The direct endpoint requires its envelope.
    assert_eq!(rest_code(&owner.rest("POST", "/streaming", Some(&send(whole)))), (400, -32602));
    assert_eq!(rest_code(&owner.rest("GET", "/tasks?pageSize=many", None)), (400, -32602));
}

#[test]
fn the_products_own_codes_are_told_by_operation() {
    let server = demo();
    let (owner, nobody) = (owner(&server), anybody(&server));
    let reader = with_token(&server, &token(&server, "read_only_token"));
    let (unknown, open) = ("task_00000000000000000000000000000000", open_task(&owner));
    let settled = owner.send(message("Search for hats on store acme."))["id"].clone();
    let settled = settled.as_str().unwrap();
    let cart = send(payload(json!({ "skill": "cart-management", "action": "create", "site_slug": "acme" })));

    assert_eq!(code(&nobody, "SendMessage", cart.clone()), -32000);
    assert_eq!(code(&with_token(&server, "aly_wrong"), "ListTasks", json!({})), -32000);
    assert_eq!(code(&owner, "GetTask", json!({ "taskId": unknown })), -32001);
    assert_eq!(code(&owner, "GetTaskPushNotificationConfig", json!({ "taskId": open, "id": "none" })), -32001);
    assert_eq!(code(&owner, "CancelTask", json!({ "taskId": unknown })), -32002);
    assert_eq!(code(&owner, "CancelTask", json!({ "taskId": settled })), -32002);
    assert_eq!(code(&reader, "SendMessage", cart.clone()), -32003);
    let config = |task: &str, url: &str| json!({ "taskId": task, "url": url });
    assert_eq!(code(&owner, "CreateTaskPushNotificationConfig", config(&open, "ftp://localhost/x")), -32003);
    assert_eq!(code(&owner, "CreateTaskPushNotificationConfig", config(settled, "https://example.com/x")), -32003);
    assert_eq!(code(&owner, "CreateTaskPushNotificationConfig", config(unknown, "https://example.com/x")), -32001);
    assert_eq!(code(&owner, "SubscribeToTask", json!({ "taskId": settled })), -32004);
    assert_eq!(code(&owner, "SubscribeToTask", json!({ "taskId": unknown })), -32001);

    let rest = |client: &e2e::Client, verb: &str, path: String, body: Option<Value>| {
        rest_code(&client.rest(verb, &path, body.as_ref()))
    };
    assert_eq!(rest(&nobody, "POST", "/message:send".into(), Some(cart.clone())), (401, -32000));
    assert_eq!(rest(&nobody, "GET", "/tasks".into(), None), (401, -32000));
    assert_eq!(rest(&owner, "GET", format!("/tasks/{unknown}"), None), (404, -32001));
    assert_eq!(rest(&owner, "GET", format!("/tasks/{open}/push-configs/none"), None), (404, -32001));
    assert_eq!(rest(&owner, "POST", format!("/tasks/{unknown}/cancel"), None), (404, -32002));
    assert_eq!(rest(&owner, "POST", format!("/tasks/{settled}:cancel"), None), (409, -32002));
    assert_eq!(rest(&reader, "POST", "/message:send".into(), Some(cart)), (403, -32003));
    let far = Some(json!({ "url": "http://example.org/hook" }));
    assert_eq!(rest(&owner, "POST", format!("/tasks/{open}/push-configs"), far), (400, -32003));
    assert_eq!(rest(&owner, "GET", format!("/tasks/{settled}/subscribe"), None), (409, -32004));
}

/// An error of the server and not of the request: this caller has used up its limit.
#[test]
fn what_the_server_cannot_do_now_is_an_internal_error() {
    let config = "
aly: { sites: { acme: { workspace: acme } } }
limits: { rate: { per_caller: { per_minute: 1, burst: 2 } } }
";
    let server = e2e::Server::options().config(config).start();
    let client = anybody(&server);
    let asked = json!({ "jsonrpc": "2.0", "id": "r", "method": "SendMessage",
                        "params": send(message("Tell me about store acme.")) });
    let answers: Vec<_> = (0..3).map(|_| client.exchange(&client.request("POST", "").json(&asked))).collect();
    for good in &answers[..2] {
        assert_eq!((good.status(), good.json().get("error")), (200, None), "{}", good.text());
    }
    let refused = &answers[2];
    assert_eq!((refused.status(), &refused.json()["error"]["code"]), (429, &json!(-32603)), "{}", refused.text());
    assert!(refused.head.header("retry-after").is_some_and(|seconds| seconds.parse::<u32>().unwrap() > 0));
    let rest = client.rest("POST", "/message:send", Some(&asked["params"]));
    assert_eq!(rest_code(&rest), (429, -32603));
}

/// For every operation, another workspace's task is missing.
#[test]
fn another_workspaces_tasks_are_not_there() {
    let server = shop("").start();
    let (ours, theirs) = (with_token(&server, crate::desk::KEY), with_token(&server, crate::desk::STRANGER));
    let open = open_task(&ours);
    let nowhere = "task_00000000000000000000000000000000";
    for (method, code_of) in [("GetTask", -32001), ("CancelTask", -32002), ("SubscribeToTask", -32001)] {
        assert_eq!(code(&theirs, method, json!({ "taskId": open })), code_of, "{method}");
        // Not even the message tells the two cases apart.
        let said = |task: &str| theirs.rpc(method, json!({ "taskId": task })).unwrap_err();
        assert_eq!(said(&open), said(nowhere), "{method}");
    }
    let config = json!({ "taskId": open, "url": "https://example.com/hook" });
    assert_eq!(code(&theirs, "CreateTaskPushNotificationConfig", config), -32001);
    assert_eq!(code(&theirs, "ListTaskPushNotificationConfigs", json!({ "taskId": open })), -32001);
    assert_eq!(theirs.rpc("ListTasks", json!({})).unwrap()["totalSize"], 0);
    assert_eq!(ours.rpc("ListTasks", json!({})).unwrap()["totalSize"], 1);
    // A caller cannot fill carts in another workspace's shop.
    let cart = send(payload(json!({ "skill": "cart-management", "action": "create", "site_slug": "acme" })));
    assert_eq!(code(&theirs, "SendMessage", cart), -32003);
    assert_eq!(ours.rpc("ListTasks", json!({})).unwrap()["totalSize"], 1);
}
