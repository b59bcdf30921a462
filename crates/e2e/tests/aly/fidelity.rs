//! The behaviour that Aly's clients rely on, by the numbers of the list of fidelity tests.

use e2e::http::Request;
use e2e::{Client, message, send};
use serde_json::{Value, json};

use crate::desk::{
    anybody, code, demo, frames, made, members, open_task, own_context, owner, payload, rest_code, shop, state, text,
    token, with_token,
};

#[test]
fn y25_a_send_by_text_or_payload_gives_a_task_that_is_got_by_three_names() {
    let server = demo();
    let owner = owner(&server);
    let by_text = owner.rpc("SendMessage", send(message("Search for hats on store acme."))).unwrap();
    let data = json!({ "skill": "product-search", "site_slug": "acme", "query": "hats" });
    let by_payload = owner.rpc("SendMessage", send(payload(data))).unwrap();
    let both = [&by_text["task"], &by_payload["task"]];
    assert_eq!(made(both[0], "search_results"), made(both[1], "search_results"), "the same question");
    for (sent, task) in [(&by_text, both[0]), (&by_payload, both[1])] {
        assert_eq!(members(sent), ["task"], "{sent}");
        for name in ["id", "taskId", "task_id"] {
            let got = owner.rpc("GetTask", json!({ name: task["id"] })).unwrap();
            assert_eq!(got, *task, "by {name}");
        }
    }
}

#[test]
fn y26_cart_management_needs_a_token_with_write_orders() {
    let server = demo();
    let reader = with_token(&server, &token(&server, "read_only_token"));
    for skill in ["cart-management", "checkout"] {
        let params = send(payload(json!({ "skill": skill, "action": "create", "site_slug": "acme" })));
        assert_eq!(code(&anybody(&server), "SendMessage", params.clone()), -32000, "{skill}");
        assert_eq!(code(&reader, "SendMessage", params.clone()), -32003, "{skill}");
        assert_eq!(rest_code(&reader.rest("POST", "/message:send", Some(&params))), (403, -32003), "{skill}");
        let refused = anybody(&server).stream("SendStreamingMessage", params).err().unwrap();
        assert_eq!(refused["code"], -32000, "{skill}: also as a stream");
    }
}

/// A token of a person's browser session: no valid key, with any signature.
const SESSION: &str = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJ1c2VyXzEifQ.c2ln";

#[test]
fn y27_tasks_are_for_tokens_of_their_workspace_and_for_no_session() {
    let server = shop("").start();
    let ours = with_token(&server, crate::desk::KEY);
    let task = json!({ "taskId": open_task(&ours) });
    let session = with_token(&server, SESSION);
    for (method, params) in [
        ("GetTask", task.clone()),
        ("ListTasks", json!({})),
        ("CancelTask", task.clone()),
        ("SubscribeToTask", task.clone()),
        ("ListTaskPushNotificationConfigs", task.clone()),
    ] {
        assert_eq!(code(&anybody(&server), method, params.clone()), -32000, "{method} without a token");
        assert_eq!(code(&session, method, params), -32000, "{method} with a session's");
    }
    assert_eq!(code(&with_token(&server, crate::desk::STRANGER), "GetTask", task.clone()), -32001);
    assert_eq!(ours.rpc("GetTask", task).unwrap()["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    // A session may send public requests; and a public request at a shop is visible to its workspace.
    let asked = session.send(message("Tell me about store acme."));
    assert_eq!(ours.rpc("GetTask", json!({ "id": asked["id"] })).unwrap(), asked);
}

#[test]
fn y28_a_settled_and_an_unknown_task_cannot_be_canceled() {
    let server = demo();
    let owner = owner(&server);
    let done = owner.send(message("Search for hats on store acme."));
    assert_eq!(code(&owner, "CancelTask", json!({ "taskId": done["id"] })), -32002);
    assert_eq!(code(&owner, "CancelTask", json!({ "taskId": "task_8e3...77c" })), -32002);
    let open = json!({ "taskId": open_task(&owner) });
    assert_eq!(state(&owner.rpc("CancelTask", open.clone()).unwrap()), "TASK_STATE_CANCELED");
    assert_eq!(code(&owner, "CancelTask", open.clone()), -32002);
    assert_eq!(state(&owner.rpc("GetTask", open).unwrap()), "TASK_STATE_CANCELED");
}

#[test]
fn y29_lists_have_pages_by_two_pairs_of_names_and_one_filter() {
    let server = demo();
    let owner = owner(&server);
    let context = own_context();
    let sent: Vec<Value> = (0..5)
        .map(|_| {
            let mut said = message("Tell me about store acme.");
            said["contextId"] = json!(context);
            owner.send(said)["id"].clone()
        })
        .collect();
    open_task(&owner);
    let newest_first: Vec<Value> = sent.into_iter().rev().collect();
    for (size, place) in [("limit", "cursor"), ("pageSize", "pageToken")] {
        let (mut seen, mut next) = (Vec::new(), String::new());
        loop {
            let mut params = json!({ "contextId": context, size: 2 });
            if !next.is_empty() {
                params[place] = json!(next);
            }
            let page = owner.rpc("ListTasks", params).unwrap();
            assert_eq!(members(&page), ["nextPageToken", "pageSize", "tasks", "totalSize"], "{page}");
            assert_eq!((&page["pageSize"], &page["totalSize"]), (&json!(2), &json!(5)), "{page}");
            seen.extend(page["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()));
            next = text(&page["nextPageToken"]);
            if next.is_empty() {
                break;
            }
        }
        assert_eq!(seen, newest_first, "{size}");
    }
    // Parameters of 1.0 that the product does not support change nothing.
    let plain = owner.rpc("ListTasks", json!({ "contextId": context })).unwrap();
    let wired = json!({
        "contextId": context, "status": "TASK_STATE_FAILED", "statusTimestampAfter": "2099-01-01T00:00:00Z",
        "historyLength": 0, "includeArtifacts": false,
    });
    assert_eq!(owner.rpc("ListTasks", wired).unwrap(), plain);
    assert!(plain["tasks"][0]["artifacts"][0]["name"] == "store_info", "{plain}");
    assert_eq!(plain["tasks"][0]["history"].as_array().unwrap().len(), 2, "{plain}");
    let got = owner.rpc("GetTask", json!({ "id": newest_first[0], "historyLength": 0 })).unwrap();
    assert_eq!(got, plain["tasks"][0]);
    assert_eq!(owner.rpc("ListTasks", json!({})).unwrap()["totalSize"], 6);
}

/// A stream without the members that differ between tasks.
fn alike(frames: &[Value]) -> Vec<Value> {
    let mut alike = frames.to_vec();
    for frame in &mut alike {
        for kind in ["statusUpdate", "artifactUpdate"] {
            if let Some(told) = frame.get_mut(kind) {
                told["taskId"] = Value::Null;
                if told.get("status").is_some() {
                    told["status"]["timestamp"] = Value::Null;
                    if told["status"].get("message").is_some() {
                        (told["status"]["message"]["messageId"], told["status"]["message"]["taskId"]) =
                            (Value::Null, Value::Null);
                    }
                }
            }
        }
    }
    alike
}

#[test]
fn y30_the_direct_stream_takes_an_envelope_and_gives_bare_frames_in_order() {
    let server = demo();
    let client = anybody(&server);
    let mut said = message("Show products on store acme.");
    said["contextId"] = json!(own_context());
    let streamed = frames(client.rest_stream("POST", "/streaming", Some(&json!({ "params": send(said.clone()) }))));
    let kinds: Vec<(&str, Option<&str>)> = streamed
        .iter()
        .map(|frame| {
            let kind = members(frame)[0];
            assert_eq!(members(frame).len(), 1, "{frame}");
            (kind, frame[kind]["status"]["state"].as_str())
        })
        .collect();
    let order = [
        ("statusUpdate", Some("TASK_STATE_WORKING")),
        ("artifactUpdate", None),
        ("statusUpdate", Some("TASK_STATE_COMPLETED")),
    ];
    assert_eq!(kinds, order);
    let beside = frames(client.rest_stream("POST", "/message:stream", Some(&send(said.clone()))));
    assert_eq!(alike(&beside), alike(&streamed));
    // By JSON-RPC the same frames are results.
    let results = client.stream("SendStreamingMessage", send(said)).unwrap().rest();
    let results: Vec<Value> = results
        .iter()
        .map(|frame| {
            let answer: Value = serde_json::from_str(&frame.data).unwrap();
            assert_eq!(members(&answer), ["id", "jsonrpc", "result"], "{answer}");
            answer["result"].clone()
        })
        .collect();
    assert_eq!(alike(&results), alike(&streamed));
}

fn register(client: &Client, task: &str, url: &str) -> Result<Value, Value> {
    client.rpc("CreateTaskPushNotificationConfig", json!({ "taskId": task, "url": url }))
}

#[test]
fn y31_push_configs_are_few_near_or_secret_and_over_with_the_task() {
    let server = demo();
    let owner = owner(&server);
    let task = open_task(&owner);
    for number in 0..20 {
        register(&owner, &task, &format!("https://example.com/hooks/{number}")).unwrap();
    }
    let refused = register(&owner, &task, "https://example.com/hooks/20").unwrap_err();
    assert_eq!(refused["code"], -32003, "the 21st: {refused}");
    let all = json!({ "taskId": task });
    let listed = |params: &Value| {
        let listed = owner.rpc("ListTaskPushNotificationConfigs", params.clone()).unwrap();
        listed["configs"].as_array().unwrap().len()
    };
    assert_eq!(listed(&all), 20);
    let by_url = json!({ "taskId": task, "id": "https://example.com/hooks/7" });
    owner.rpc("DeleteTaskPushNotificationConfig", by_url.clone()).unwrap();
    assert_eq!(code(&owner, "GetTaskPushNotificationConfig", by_url), -32001);
    assert_eq!(listed(&all), 19);
    // There is room again, for allowed addresses.
    for far in ["http://example.org", "http://10.0.0.1/hook", "http://localhost.example.org/", "ftp://localhost/"] {
        assert_eq!(register(&owner, &task, far).unwrap_err()["code"], -32003, "{far}");
    }
    register(&owner, &task, "http://localhost:9/hook").unwrap();
    assert_eq!(listed(&all), 20);
    owner.rpc("CancelTask", all.clone()).unwrap();
    assert_eq!(listed(&all), 0, "cleared");
    let named = json!({ "taskId": task, "id": "http://localhost:9/hook" });
    assert_eq!(code(&owner, "GetTaskPushNotificationConfig", named), -32001);
    assert_eq!(register(&owner, &task, "https://example.com/late").unwrap_err()["code"], -32003, "settled");
}

#[test]
fn y32_a_settled_task_is_not_followed_and_snake_case_is_read() {
    let server = demo();
    let owner = owner(&server);
    let settled = text(&owner.send(message("Search for hats on store acme."))["id"]);
    assert_eq!(code(&owner, "SubscribeToTask", json!({ "task_id": settled })), -32004);
    for path in [format!("/tasks/{settled}/subscribe"), format!("/tasks/{settled}:subscribe")] {
        for verb in ["GET", "POST"] {
            let refused = owner.rest_stream(verb, &path, None).err().unwrap();
            assert_eq!(rest_code(&refused), (409, -32004), "{verb} {path}");
        }
    }
    let context = own_context();
    let said = json!({
        "message_id": "m-snake", "context_id": context, "role": "ROLE_USER",
        "parts": [{ "media_type": "application/json", "data": { "skill": "store-info", "site_slug": "acme" } }],
    });
    let task = owner.rpc("SendMessage", send(said.clone())).unwrap()["task"].clone();
    assert_eq!((state(&task), &task["contextId"]), ("TASK_STATE_COMPLETED", &json!(context)), "{task}");
    // Answers always use camelCase.
    assert_eq!((&task["history"][0]["messageId"], task["history"][0].get("message_id")), (&json!("m-snake"), None));
    assert_eq!(task["history"][0]["parts"][0]["mediaType"], "application/json", "{task}");
    let listed = owner.rpc("ListTasks", json!({ "context_id": context, "page_size": 1 })).unwrap();
    assert_eq!((&listed["tasks"][0], &listed["pageSize"]), (&task, &json!(1)), "{listed}");
    // Where both forms are present, camelCase counts.
    let mut both = said;
    both["contextId"] = json!("ctx_camel");
    assert_eq!(owner.rpc("SendMessage", send(both)).unwrap()["task"]["contextId"], "ctx_camel");
    let open = open_task(&owner);
    let config = json!({ "task_id": open, "url": "https://example.com/hook", "id": "one" });
    owner.rpc("CreateTaskPushNotificationConfig", config).unwrap();
    let got = owner.rpc("GetTaskPushNotificationConfig", json!({ "task_id": open, "config_id": "one" })).unwrap();
    assert_eq!((&got["taskId"], &got["url"]), (&json!(open), &json!("https://example.com/hook")), "{got}");
}

#[test]
fn cards_are_of_the_host_that_is_asked() {
    let beside = "agents: { echo: { kind: echo } }";
    let server = crate::desk::shop_and("platform: Our shops", beside);
    // A second shop has its own host.
    let server = server.start();
    crate::desk::operate(
        &server,
        &["shop", "site", "hats", "--workspace", "hats", "--title", "Hats of all kinds", "--host", "hats.example"],
    );
    let card = |path: &str, host: Option<&str>| {
        let request = Request::new("GET", path);
        server.exchange(&match host {
            Some(host) => request.header("Host", host),
            None => request,
        })
    };
    for (path, base) in
        [("/api/a2a/.well-known/agent-card.json", "/api/a2a"), ("/aly/.well-known/agent-card.json", "/aly/api/a2a")]
    {
        let platform = card(path, None);
        assert_eq!(platform.head.header("A2A-Version"), Some("1.0"));
        let platform = platform.json();
        assert_eq!(platform["name"], "Our shops", "{platform}");
        let interfaces: Vec<(&str, &str)> = platform["supportedInterfaces"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| {
                assert_eq!((&one["url"], &one["protocolVersion"]), (&json!(server.url() + base), &json!("1.0")));
                (one["protocolBinding"].as_str().unwrap(), one["protocolVersion"].as_str().unwrap())
            })
            .collect();
        assert_eq!(interfaces, [("JSONRPC", "1.0"), ("HTTP+JSON", "1.0")], "{platform}");
        let skills: Vec<&str> =
            platform["skills"].as_array().unwrap().iter().map(|skill| skill["id"].as_str().unwrap()).collect();
        let six = ["product-search", "store-info", "order-status", "x402-purchase", "cart-management", "checkout"];
        assert_eq!(skills, six, "{platform}");
        let schemes = members(&platform["securitySchemes"]);
        assert_eq!(schemes, ["aly_api_key", "aly_oauth"], "{platform}");
        // An unknown host gets the platform's card.
        assert_eq!(card(path, Some("nobody.example")).json()["name"], "Our shops");
        let own = card(path, Some("hats.example")).json();
        assert!(text(&own["name"]).starts_with("Hats of all kinds"), "{own}");
        assert!(own["skills"].to_string().contains("on store hats"), "its examples are of this shop: {own}");
    }
    // At a shop's own host the origin's card is the shop's; elsewhere it is the default agent's.
    let origin = |host: &str| card("/.well-known/agent-card.json", Some(host)).json();
    assert!(text(&origin("hats.example")["name"]).starts_with("Hats of all kinds"));
    assert!(!text(&origin("nobody.example")["name"]).contains("Hats"), "{}", origin("nobody.example"));
    // The card is true: its interface answers, in both bindings.
    let asked = send(message("Tell me about store hats."));
    let task = anybody(&server).with("Host", "hats.example").rpc("SendMessage", asked.clone()).unwrap();
    assert_eq!(made(&task["task"], "store_info")["title"], "Hats of all kinds", "{task}");
    assert_eq!(anybody(&server).rest("POST", "/message:send", Some(&asked)).status(), 200);
}

/// A question is answered in its task, in every generation at the agent's own address. (At the product's address
/// every message opens a task, as its page says.)
#[test]
fn the_answer_to_a_question_completes_the_request_before_it() {
    let server = demo();
    let key = server.operate(&["keys", "create", "till", "--tenant", "acme", "-o", "json"]).output().unwrap();
    let key: Value = serde_json::from_slice(&key.stdout).unwrap();
    let bearer = format!("Bearer {}", text(&key["secret"]));
    let client = e2e::Client::new(server.addr(), "/a2a/store").with("Authorization", &bearer);
    let hats = |done: &Value| done["artifacts"][0]["parts"][0]["data"]["query"].clone();
    let asks = client.send(message("Search for hats"));
    let done = client.send(e2e::to_task(message("acme"), &text(&asks["id"])));
    assert_eq!((state(&done), &done["id"], hats(&done)), ("TASK_STATE_COMPLETED", &asks["id"], json!("hats")));
    let older = |said: &str, task: Option<&Value>| {
        let mut message = json!({ "kind": "message", "messageId": e2e::fresh_id(), "role": "user",
                                  "parts": [{ "kind": "text", "text": said }] });
        if let Some(task) = task {
            message["taskId"] = task.clone();
        }
        client.without("A2A-Version").rpc("message/send", json!({ "message": message })).unwrap()
    };
    let asks = older("Search for hats", None);
    let done = older("acme", Some(&asks["id"]));
    assert_eq!((state(&done), &done["id"], hats(&done)), ("completed", &asks["id"], json!("hats")));
    let first = |said: &str| {
        let message = json!({ "role": "user", "parts": [{ "type": "text", "text": said }] });
        client.without("A2A-Version").rpc("tasks/send", json!({ "id": "mine", "message": message })).unwrap()
    };
    assert_eq!(state(&first("Search for hats")), "input-required");
    let done = first("acme");
    assert_eq!((state(&done), hats(&done)), ("completed", json!("hats")));
    // An answer needs the same permissions as the request.
    let cart = client.send(message("Create a cart"));
    assert_eq!(state(&cart), "TASK_STATE_INPUT_REQUIRED", "{cart}");
    let answer = || send(e2e::to_task(message("acme"), &text(&cart["id"])));
    let scoped = ["keys", "create", "clerk", "--tenant", "acme", "--scope", "tasks", "-o", "json"];
    let scoped: Value = serde_json::from_slice(&server.operate(&scoped).output().unwrap().stdout).unwrap();
    let clerk = client.with("Authorization", &format!("Bearer {}", text(&scoped["secret"])));
    let refused = clerk.rpc("SendMessage", answer()).unwrap_err();
    e2e::assert_rpc_fault(&refused, -32043, "PERMISSION_DENIED");
    let done = client.rpc("SendMessage", answer()).unwrap()["task"].clone();
    assert_eq!((state(&done), &done["id"]), ("TASK_STATE_COMPLETED", &cart["id"]), "{done}");
    assert!(made(&done, "cart")["token"].is_string(), "{done}");
}
