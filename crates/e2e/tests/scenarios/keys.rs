//! Keys that operators create and revoke while the server runs, and the isolation of tenants.

use e2e::{Server, message};
use serde_json::{Value, json};

fn keys(server: &Server, args: &[&str]) -> Value {
    let done = server.operate(&[&["keys"], args, &["-o", "json"]].concat()).output().expect("rialto runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).expect("json")
}

#[test]
fn a_key_works_from_the_moment_it_is_made_until_it_is_revoked() {
    let server = Server::start(&["--auth", "required"]);
    let data = server.data();
    assert_eq!(server.agent("echo").rest("GET", "/tasks", None).status(), 401);
    let made = keys(&server, &["create", "alice", "--tenant", "acme", "--scope", "tasks", "--expires", "30d"]);
    let secret = made["secret"].as_str().unwrap();
    let alice = server.agent("echo").with("Authorization", &format!("Bearer {secret}"));
    let task = alice.send(message("hello"));
    let by_header = server.agent("echo").with("X-Api-Key", secret);
    assert_eq!(by_header.task(task["id"].as_str().unwrap())["id"], task["id"]);

    let listed = keys(&server, &["list"]);
    assert_eq!(listed["keys"][0]["name"], "alice");
    assert!(!listed.to_string().contains(secret), "a secret is shown once");
    let revoked = keys(&server, &["revoke", made["id"].as_str().unwrap()]);
    assert_eq!(revoked["state"], "revoked");
    assert_eq!(alice.rest("GET", "/tasks", None).status(), 401);

    for file in ["rialto.db", "rialto.db-wal", "audit.log"] {
        let bytes = std::fs::read(data.join(file)).unwrap_or_default();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()), "{file} holds a secret");
    }
    if let Some(database) = server.database() {
        assert!(!database.dump().contains(secret), "the database holds a secret");
    }
    let audit = std::fs::read_to_string(data.join("audit.log")).unwrap();
    let changes: Vec<Value> = audit.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(changes.iter().map(|change| &change["change"]).collect::<Vec<_>>(), ["created", "revoked"]);
    assert!(!server.log().contains(secret));
}

#[test]
fn keys_outlive_the_server_and_can_be_made_before_it() {
    let mut server = Server::start(&["--auth", "required"]);
    let first = keys(&server, &["create", "ann", "--tenant", "t"]);
    server.kill9();
    // No server runs: the command opens the data.
    let second = keys(&server, &["create", "bob", "--tenant", "t"]);
    server.restart();
    for made in [first, second] {
        let client = server.agent("echo").with("X-Api-Key", made["secret"].as_str().unwrap());
        assert_eq!(client.rest("GET", "/tasks", None).status(), 200);
    }
}

#[test]
fn where_there_are_keys_a_tenant_is_a_wall_for_those_without() {
    let server = Server::start(&[]);
    // No key exists yet: a tenant is just a name.
    assert_eq!(server.agent("scripted").rest("GET", "/acme/tasks", None).status(), 200);
    let made = keys(&server, &["create", "alice", "--tenant", "acme"]);
    let alice = server.agent("scripted").with("X-Api-Key", made["secret"].as_str().unwrap());
    let task = alice.send(message("ask"));
    let id = task["id"].as_str().unwrap();
    let stranger = server.agent("scripted");
    assert_eq!(stranger.rest("GET", "/acme/tasks", None).status(), 404);
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        let error = stranger.rpc(method, json!({ "id": id, "tenant": "acme" })).unwrap_err();
        assert_eq!(error["code"], -32001, "{method}: {error}");
    }
    assert_eq!(alice.task(id)["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
}
