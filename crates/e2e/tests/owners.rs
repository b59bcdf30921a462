//! Dispatch at the addresses that products share with the generations of A2A: every method, with every dialect that
//! a request can name and every kind of credential. Each request gets one answer in the right dialect, and none of
//! them stops the server.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

use std::time::Duration;

use e2e::http::{Request, Response};
use e2e::{Server, fresh_id};
use serde_json::{Value, json};

const ADDRESSES: [&str; 3] = ["/", "/a2a", "/a2a/"];

const NEWEST: [&str; 11] = [
    "SendMessage",
    "SendStreamingMessage",
    "GetTask",
    "ListTasks",
    "CancelTask",
    "SubscribeToTask",
    "CreateTaskPushNotificationConfig",
    "GetTaskPushNotificationConfig",
    "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig",
    "GetExtendedAgentCard",
];
const OLDER: [&str; 14] = [
    "message/send",
    "message/stream",
    "tasks/send",
    "tasks/sendSubscribe",
    "tasks/get",
    "tasks/cancel",
    "tasks/resubscribe",
    "tasks/pushNotification/set",
    "tasks/pushNotification/get",
    "tasks/pushNotificationConfig/set",
    "tasks/pushNotificationConfig/get",
    "tasks/pushNotificationConfig/list",
    "tasks/pushNotificationConfig/delete",
    "agent/getAuthenticatedExtendedCard",
];
const NOWHERE: [&str; 3] = ["Sing", "tasks/sing", ""];
/// The methods of Orloj's endpoints.
const SYSTEMS_OWN: [&str; 4] = ["tasks/send", "tasks/sendSubscribe", "tasks/get", "tasks/cancel"];

const DIALECTS: [Option<&str>; 12] = [
    None,
    Some("a2a_v1"),
    Some("a2a_v0_3"),
    Some("a2a_v0_3_rest"),
    Some("a2a_v0_1"),
    Some("a2a_v0"),
    Some("uumit"),
    Some("orloj"),
    Some("aly"),
    Some("langgraph"),
    Some("nonsense"),
    Some(""),
];

/// The headers of every kind of credential that the server knows, and of some that it does not.
fn credentials(server: &Server) -> Vec<(&'static str, Vec<(&'static str, String)>)> {
    let demo: Value = serde_json::from_slice(&std::fs::read(server.data().join("demo.json")).unwrap()).unwrap();
    let text = |section: &str, name: &str| demo[section][name].as_str().unwrap().to_owned();
    let bearer = |token: String| vec![("Authorization", format!("Bearer {token}"))];
    let made = server.operate(&["keys", "create", "ann", "--tenant", "default", "-o", "json"]).output().unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    let key = made["secret"].as_str().unwrap().to_owned();
    vec![
        ("none", Vec::new()),
        ("a key", bearer(key.clone())),
        ("a key in its own header", vec![("X-Api-Key", key)]),
        ("a token of systems", bearer(text("orloj", "token"))),
        ("an administrator's token of systems", bearer(text("orloj", "admin_token"))),
        ("a key of a workspace", bearer(text("aly", "token"))),
        (
            "a user of the market",
            vec![("X-Api-Key", text("uumit", "api_key")), ("X-Platform-User-Id", text("uumit", "user_id"))],
        ),
        ("only the name of a user", vec![("X-Platform-User-Id", text("uumit", "user_id"))]),
        ("unknown", bearer("nobody-knows-this".to_owned())),
        ("a session's", bearer("eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl".to_owned())),
        ("of another scheme", vec![("Authorization", "Basic YTpi".to_owned())]),
    ]
}

/// Params that some method of each dialect can read.
fn params(method: &str) -> Value {
    let id = fresh_id();
    match method {
        "SendMessage" | "SendStreamingMessage" => json!({ "message": e2e::message("hello") }),
        "message/send" | "message/stream" => json!({ "message": {
            "kind": "message", "messageId": id, "role": "user", "parts": [{ "kind": "text", "text": "hello" }],
        } }),
        "tasks/send" | "tasks/sendSubscribe" => {
            json!({ "id": id, "message": { "role": "user", "parts": [{ "type": "text", "text": "hello" }] } })
        }
        _ => json!({ "id": id, "taskId": id, "pushNotificationConfig": { "url": "http://127.0.0.1:9/" } }),
    }
}

/// The dialects that may answer.
fn due(address: &str, dialect: Option<&str>, credential: &str, method: &str) -> Vec<&'static str> {
    let systems = address != "/";
    let of_systems = credential.contains("token of systems");
    let named = |name: &'static str| vec![name];
    match dialect {
        Some("uumit") => named("uumit"),
        Some("orloj") if systems => owned_by_systems(method),
        Some("a2a_v1") => named("a2a_v1"),
        Some("a2a_v0_3") => named("a2a_v0_3"),
        Some("a2a_v0_3_rest") => named("a2a_v0_3_rest"),
        Some("a2a_v0_1") => named("a2a_v0_1"),
        Some("a2a_v0") => named("a2a_v0"),
        // Not supported here: refused in the dialect that the method resembles.
        Some(_) => vec!["a2a_v1", "a2a_v0_3", "a2a_v0_1", "a2a_v0"],
        None if credential.contains("a user") => named("uumit"),
        None if of_systems && systems => owned_by_systems(method),
        None if NEWEST.contains(&method) => named("a2a_v1"),
        None if systems && SYSTEMS_OWN.contains(&method) => vec!["orloj", "a2a_v0_1", "a2a_v0"],
        None => vec!["a2a_v1", "a2a_v0_3", "a2a_v0_1", "a2a_v0"],
    }
}

/// Methods with a capital initial are 1.0's there too, unless the caller or its system is refused first.
fn owned_by_systems(method: &str) -> Vec<&'static str> {
    if method.starts_with(|c: char| c.is_ascii_uppercase()) { vec!["a2a_v1", "orloj"] } else { vec!["orloj"] }
}

fn check(response: &Response, id: &str, place: &str) {
    assert!(response.status() < 500, "{place}: {} {}", response.status(), response.text());
    if response.head.media_type() == "text/event-stream" {
        return;
    }
    let body = response.json();
    assert_eq!((&body["jsonrpc"], &body["id"]), (&json!("2.0"), &json!(id)), "{place}: {body}");
    assert!(body.get("result").is_some() != body["error"]["code"].is_i64(), "{place}: {body}");
}

#[test]
fn every_request_at_a_shared_address_has_one_owner_and_one_answer() {
    let server = Server::start(&["--durability", "relaxed"]);
    let client = server.at("").without("A2A-Version");
    let (pid, mut asked) = (server.pid(), 0);
    for (credential, headers) in credentials(&server) {
        for dialect in DIALECTS {
            for address in ADDRESSES {
                for method in NEWEST.into_iter().chain(OLDER).chain(NOWHERE) {
                    let place = format!("{method:?} at {address} as {dialect:?} with {credential}");
                    let id = fresh_id();
                    let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params(method) });
                    let mut request = Request::new("POST", address).header("connection", "close").json(&body);
                    for (name, value) in &headers {
                        request = request.header(name, value);
                    }
                    if let Some(dialect) = dialect {
                        request = request.header("X-A2A-Dialect", dialect);
                    }
                    let response = client.try_head_within(&request, Duration::from_secs(60));
                    let response = response.unwrap_or_else(|| panic!("{place}: no answer"));
                    check(&response, &id, &place);
                    let answered = response.head.header("x-a2a-dialect").unwrap_or("-");
                    let due = due(address, dialect, credential, method);
                    assert!(due.contains(&answered), "{place}: {answered} is none of {due:?}: {}", response.text());
                    asked += 1;
                }
            }
        }
    }
    assert_eq!(asked, 11 * 12 * 3 * 28, "every cell was asked for");
    server.until_ready();
    assert_eq!(server.pid(), pid);
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
