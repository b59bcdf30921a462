//! Every example of Aly's page on submitting tasks against `rialto serve`, with only the address, the token and the
//! task's id changed; and the rules in the page's text.

use std::process::Command;

use e2e::http::Request;
use e2e::{Server, message, send};
use serde_json::{Value, json};

use crate::desk::{anybody, demo, made, members, open_task, owner, payload, skill, state, text, token, with_token};

const CONTEXT: &str = "ctx_4f...11";

/// Runs an example as a user who copied it would.
fn run(server: &Server, example: &str, token: &str, task: &str) -> String {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/aly/calls.sh");
    let mut command = Command::new("sh");
    command.arg(script).arg(example).env("ALY_BASE", server.url()).env("TOKEN", token).env("TASK_ID", task);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{example}: {said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// The result of an example that is answered by JSON-RPC.
fn result(server: &Server, example: &str, id: &str, token: &str, task: &str) -> Value {
    let said = run(server, example, token, task);
    let answer: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
    assert_eq!(members(&answer), ["id", "jsonrpc", "result"], "{answer}");
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)), "{answer}");
    answer["result"].clone()
}

/// An OAuth access token of the demo's workspace, as the examples show one.
fn access_token(server: &Server) -> String {
    let register = json!({ "grant_types": ["client_credentials"], "token_endpoint_auth_method": "client_secret_post",
                           "scope": "write:orders" });
    let request = Request::new("POST", "/oauth/register");
    let request = request.header("Authorization", &format!("Bearer {}", token(server, "token")));
    let client = server.exchange(&request.json(&register)).json();
    let form = format!(
        "grant_type=client_credentials&client_id={}&client_secret={}",
        text(&client["client_id"]),
        text(&client["client_secret"])
    );
    let request = Request::new("POST", "/oauth/token").header("Content-Type", "application/x-www-form-urlencoded");
    let given = server.exchange(&request.body(form)).json();
    let access = text(&given["access_token"]);
    assert!(access.starts_with("aly_oauth_"), "{given}");
    access
}

#[test]
fn every_example_of_the_page_works_as_it_stands() {
    let server = demo();
    for token in [token(&server, "token"), access_token(&server)] {
        // SendMessage: without a token.
        let sent = result(&server, "send", "req_send_1", &token, "");
        assert_eq!(members(&sent), ["task"], "{sent}");
        let task = &sent["task"];
        assert_eq!(members(task), ["artifacts", "contextId", "history", "id", "metadata", "status"], "{task}");
        assert_eq!((state(task), &task["contextId"]), ("TASK_STATE_COMPLETED", &json!(CONTEXT)), "{task}");
        let id = text(&task["id"]);
        assert!(id.starts_with("task_"), "{id}");
        let history = task["history"].as_array().unwrap();
        assert_eq!(history.len(), 2, "{task}");
        assert_eq!((&history[0]["messageId"], &history[0]["role"]), (&json!("msg_1"), &json!("ROLE_USER")), "{task}");
        assert_eq!((&history[1]["role"], &history[1]), (&json!("ROLE_AGENT"), &task["status"]["message"]), "{task}");
        let found = made(task, "search_results");
        let products = found["products"].as_array().unwrap();
        assert_eq!((products.len(), &found["total"]), (7, &json!(7)), "{found}");
        let about = |one: &Value| format!("{} {}", text(&one["name"]), text(&one["subtitle"])).to_lowercase();
        assert!(products.iter().all(|one| about(one).contains("hat")), "{found}");
        assert_eq!((&found["store"]["site_slug"], &found["query"]), (&json!("acme"), &json!("hats")), "{found}");

        // A structured payload: a cart needs the token.
        let cart = result(&server, "structured", "req_send_2", &token, "");
        let cart = made(&cart["task"], "cart");
        assert!(text(&cart["token"]).starts_with("cart_"), "{cart}");
        assert_eq!((&cart["status"], &cart["site_slug"]), (&json!("active"), &json!("acme")), "{cart}");

        // GetTask: the task itself is the result.
        assert_eq!(result(&server, "get", "req_get_1", &token, &id), *task);

        // CancelTask: an open task.
        let open = open_task(&with_token(&server, &token));
        let canceled = result(&server, "cancel", "req_cancel_1", &token, &open);
        assert_eq!((state(&canceled), &canceled["id"]), ("TASK_STATE_CANCELED", &json!(open)), "{canceled}");

        // ListTasks: the messages sent in the context, newest first.
        let listed = result(&server, "list", "req_list_1", &token, "");
        assert_eq!(members(&listed), ["nextPageToken", "pageSize", "tasks", "totalSize"], "{listed}");
        let tasks = listed["tasks"].as_array().unwrap();
        assert!(tasks.iter().all(|task| task["contextId"] == CONTEXT) && tasks.contains(task), "{listed}");
        assert_eq!((&listed["pageSize"], &listed["totalSize"]), (&json!(20), &json!(tasks.len())), "{listed}");
        assert_eq!(listed["nextPageToken"], "", "{listed}");

        // The direct streaming endpoint: bare frames, in the page's order and with the page's members.
        let stream = run(&server, "stream", &token, "");
        let frames: Vec<Value> = stream
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        let [working, artifact, completed] = frames.as_slice() else { panic!("{stream}") };
        for (frame, name) in [(working, "statusUpdate"), (artifact, "artifactUpdate"), (completed, "statusUpdate")] {
            assert_eq!(members(frame), [name], "{frame}");
            assert_eq!(frame[name]["contextId"], CONTEXT, "{frame}");
            assert_eq!(frame[name]["taskId"], working["statusUpdate"]["taskId"], "{frame}");
        }
        assert!(text(&working["statusUpdate"]["taskId"]).starts_with("task_"), "{working}");
        assert_eq!(members(&working["statusUpdate"]), ["contextId", "status", "taskId"], "{working}");
        assert_eq!(members(&working["statusUpdate"]["status"]), ["state", "timestamp"], "{working}");
        assert_eq!(state(&working["statusUpdate"]), "TASK_STATE_WORKING", "{working}");
        let told = &artifact["artifactUpdate"];
        assert_eq!(members(told), ["artifact", "contextId", "lastChunk", "taskId"], "{artifact}");
        assert_eq!(members(&told["artifact"]), ["artifactId", "name", "parts"], "{artifact}");
        assert_eq!((&told["artifact"]["artifactId"], &told["lastChunk"]), (&json!("search_results"), &json!(true)));
        assert_eq!(members(&completed["statusUpdate"]["status"]), ["message", "state", "timestamp"], "{completed}");
        assert_eq!(state(&completed["statusUpdate"]), "TASK_STATE_COMPLETED", "{completed}");
    }
}

#[test]
fn the_version_is_said_on_every_answer_and_asked_of_nobody() {
    let server = demo();
    let body = json!({ "jsonrpc": "2.0", "id": "v", "method": "SendMessage",
                       "params": send(message("Search for hats on store acme.")) });
    for version in [None, Some("1.0"), Some("0.3"), Some("17")] {
        let mut client = anybody(&server).without("A2A-Version");
        if let Some(version) = version {
            client = client.with("A2A-Version", version);
        }
        let rpc = client.exchange(&client.request("POST", "").json(&body));
        assert!(rpc.json()["result"]["task"].is_object(), "{version:?}: {}", rpc.text());
        let rest = client.rest("POST", "/message:send", Some(&body["params"]));
        assert_eq!(rest.status(), 200, "{}", rest.text());
        for answer in [&rpc, &rest, &client.rest("GET", "/tasks", None), &client.rest("GET", "/nothing", None)] {
            assert_eq!(answer.head.header("A2A-Version"), Some("1.0"), "{version:?}: {}", answer.text());
        }
    }
}

#[test]
fn every_message_opens_a_task_of_its_own() {
    let server = demo();
    let owner = owner(&server);
    let said = message("Search for hats on store acme.");
    let (first, again) = (owner.send(said.clone()), owner.send(said));
    assert_ne!(first["id"], again["id"], "nothing is deduplicated");
    // A waiting task is not continued either: a task id in a message is ignored.
    let open = open_task(&owner);
    let mut on = e2e::to_task(message("on store acme"), &open);
    on["contextId"] = owner.task(&open)["contextId"].clone();
    let other = owner.send(on);
    assert_ne!(other["id"], json!(open));
    assert_eq!(other["contextId"], owner.task(&open)["contextId"], "a context groups them");
    assert_eq!(state(&owner.task(&open)), "TASK_STATE_INPUT_REQUIRED");
    let listed = owner.rpc("ListTasks", json!({ "contextId": other["contextId"] })).unwrap();
    assert_eq!(listed["totalSize"], 2, "{listed}");
}

/// Every field of the page's list is read, and a whole purchase uses only messages and one page.
#[test]
fn the_six_skills_sell_a_hat() {
    let server = demo();
    let owner = owner(&server);
    let info = anybody(&server).send(message("Tell me about store acme."));
    assert_eq!(made(&info, "store_info")["title"], "Acme", "{info}");
    let how = json!({ "skill": "x402-purchase", "site_slug": "acme", "product_id": "sun", "quantity": 2 });
    let how = skill(&anybody(&server), how);
    assert_eq!(state(&how), "TASK_STATE_INPUT_REQUIRED", "{how}");
    let told = made(&how, "x402_purchase_info");
    assert_eq!((&told["protocol"], &told["quantity"]), (&json!("x402"), &json!(2)), "{told}");
    // The URL exists, and asks for payment.
    let resource = text(&told["resource_url"]);
    let path = resource.strip_prefix(&server.url()).unwrap_or(&resource);
    let asked = server.get(path);
    assert_eq!((asked.status(), &asked.json()["x402Version"]), (402, &json!(1)), "{}", asked.text());

    let before = crate::desk::left(&server, "sun");
    let cart = crate::desk::filled_cart(&owner, "sun", 2);
    let coupon = json!({ "skill": "cart-management", "action": "apply-coupon", "site_slug": "acme", "cart_token": cart,
                         "code": "HATS10" });
    let discounted = skill(&owner, coupon);
    assert_eq!(made(&discounted, "cart")["totals"]["discount"], 398, "{discounted}");
    let session = crate::desk::checked_out(&owner, &cart);
    let (id, confirmation) = (text(&session["id"]), text(&session["confirmation_token"]));
    assert!(text(&session["complete_url"]).contains(&id), "{session}");
    assert_eq!(crate::desk::left(&server, "sun"), before - 2, "set aside");
    let status = json!({ "skill": "order-status", "site_slug": "acme", "confirmation_token": confirmation });
    let not_yet = skill(&anybody(&server), status.clone());
    assert_eq!(state(&not_yet), "TASK_STATE_FAILED", "{not_yet}");
    let done = crate::desk::complete(server.addr(), &id, &confirmation, "once").unwrap();
    assert_eq!((done.status(), &done.json()["status"]), (200, &json!("completed")), "{}", done.text());
    let status = skill(&anybody(&server), status);
    let order = made(&status, "order_status");
    assert_eq!(
        (&order["state"], &order["totals"]["total"]),
        (&json!("pending"), &session["totals"]["total"]),
        "{order}"
    );
    crate::desk::verify(&server);
}

#[test]
fn a_scope_is_asked_for_also_when_a_text_names_the_skill() {
    let server = demo();
    let reader = with_token(&server, &token(&server, "read_only_token"));
    let before = owner(&server).rpc("ListTasks", json!({})).unwrap()["totalSize"].clone();
    for said in [message("Create a cart on store acme."), payload(json!({ "skill": "checkout", "site_slug": "acme" }))]
    {
        assert_eq!(crate::desk::code(&anybody(&server), "SendMessage", send(said.clone())), -32000, "{said}");
        assert_eq!(crate::desk::code(&reader, "SendMessage", send(said.clone())), -32003, "{said}");
    }
    let after = owner(&server).rpc("ListTasks", json!({})).unwrap()["totalSize"].clone();
    assert_eq!(before, after, "what is refused is refused before there is a task");
}
