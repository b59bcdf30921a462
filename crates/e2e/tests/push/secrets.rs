//! Planted secrets do not leak: not into logs, errors, cards, metrics, operators' answers, nor any file of the
//! data.

use std::path::Path;

use e2e::{Receiver, Reply, Server, until};
use serde_json::json;

use crate::push;

const PLANTED: [&str; 6] = [
    "planted-token-5f1c",
    "planted-credentials-77aa",
    "planted-in-the-url-90b2",
    "planted-signing-secret-1e9d",
    "planted-caller-key-0123456789",
    "planted-jwt-secret-0123456789abcdef0123456789",
];

fn hold(bytes: &[u8], secret: &str) -> bool {
    bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
}

fn assert_clean(what: &str, bytes: &[u8]) {
    for secret in PLANTED {
        assert!(!hold(bytes, secret), "{what} holds {secret}");
    }
}

fn every_file(folder: &Path, look: &mut impl FnMut(&Path, &[u8])) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            every_file(&path, look);
        } else if let Ok(bytes) = std::fs::read(&path) {
            look(&path, &bytes);
        }
    }
}

#[test]
fn planted_secrets_appear_nowhere() {
    let config = r#"
log: { level: "debug,hyper=info,h2=info" }
auth:
  required: true
  keys: [{ name: ada, tenant: north, key: "env:E2E_KEY" }]
  jwt: [{ issuer: "https://issuer.example", audience: "rialto", secret: "env:E2E_JWT", tenant: north }]
push: { retry_ms: 20, timeout_ms: 500, signing_secret: "env:E2E_SIGN" }
"#;
    let mut server = Server::options()
        .config(config)
        .env("E2E_KEY", PLANTED[4])
        .env("E2E_SIGN", PLANTED[3])
        .env("E2E_JWT", PLANTED[5])
        .start();
    let receiver = Receiver::start();
    let client = server.agent("scripted").with("Authorization", &format!("Bearer {}", PLANTED[4]));
    let hook = receiver.url(&format!("/hook?key={}", PLANTED[2]));
    let config = |id: &str, url: &str| {
        json!({ "id": id, "url": url, "token": PLANTED[0],
            "authentication": { "scheme": "Bearer", "credentials": PLANTED[1] } })
    };
    // One that arrives, one that always fails, one that is unreachable, one that is refused.
    let task = |id: &str, url: &str| {
        let params = json!({ "message": e2e::script(json!([{ "status": "working", "text": "x" }, { "complete": "done" }])),
            "configuration": { "taskPushNotificationConfig": config(id, url) } });
        client.rpc("SendMessage", params)
    };
    let mut answers = vec![task("good", &hook).unwrap().to_string()];
    receiver.until("the first has arrived", |all| all.len() >= 2);
    assert!(receiver.deliveries().iter().all(|d| d.header("authorization").is_some_and(|a| a.contains(PLANTED[1]))));
    receiver.answers(|_| Reply::Status(500));
    let failing = task("bad", &hook).unwrap();
    let failing_id = failing["task"]["id"].as_str().unwrap().to_owned();
    answers.push(failing.to_string());
    answers.push(task("nobody", &format!("http://127.0.0.1:9/{}", PLANTED[2])).unwrap().to_string());
    answers.push(task("refused", &format!("ftp://host/{}", PLANTED[2])).unwrap_err().to_string());
    let bad_token = json!({ "taskId": failing_id, "url": hook, "token": format!("{}\r\nX: y", PLANTED[0]) });
    answers.push(client.rpc("CreateTaskPushNotificationConfig", bad_token).unwrap_err().to_string());
    until("failures are on record", e2e::poll::PATIENCE, || {
        let listed = push(&server, &["list", "--task", &failing_id]);
        (listed["deliveries"][0]["attempts"].as_u64() > Some(1)).then_some(())
    });
    let read = client.rpc("GetTaskPushNotificationConfig", json!({ "taskId": failing_id, "id": "bad" })).unwrap();
    assert_eq!(read["url"], hook, "its owner may read the address back");
    assert!(read.get("token").is_none_or(|t| t != PLANTED[0]), "but no token: {read}");
    assert!(!read.to_string().contains(PLANTED[1]), "{read}");

    let stranger = server.agent("scripted").with("Authorization", &format!("Bearer {}x", PLANTED[4]));
    answers.push(stranger.rest("GET", "/tasks", None).text());
    for path in ["/metrics", "/agents", "/.well-known/agent-card.json", "/a2a/scripted/.well-known/agent-card.json"] {
        answers.push(server.get(path).text());
    }
    let run = |args: &[&str]| {
        let done = server.operate(args).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr))
    };
    answers.push(run(&["push", "list"]));
    answers.push(run(&["keys", "list"]));
    answers.push(run(&["doctor"]));
    answers.push(run(&["task", "show", &failing_id]));
    for answer in &answers {
        assert_clean("an answer", answer.replace(&hook, "").as_bytes());
    }
    assert_clean("the log", server.log().as_bytes());
    every_file(&server.data(), &mut |path, bytes| assert_clean(&path.display().to_string(), bytes));
    if let Some(database) = server.database() {
        assert_clean("the database", database.dump().as_bytes());
    }
    let (status, _) = server.terminate();
    assert!(status.success());
    every_file(&server.data(), &mut |path, bytes| assert_clean(&path.display().to_string(), bytes));
    assert_clean("the log", server.log().as_bytes());
}
