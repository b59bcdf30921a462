//! Servers whose agents need no credential, and servers without the API.

use e2e::Server;
use e2e::http::Request;
use e2e::server::free_address;
use serde_json::json;

use crate::{AGENTS, Api, key, problem};

fn open() -> Server {
    Server::options().config(AGENTS).start()
}

#[test]
fn where_agents_need_no_credential_the_api_still_does() {
    let server = open();
    let task = server.agent("scripted").send(e2e::script(json!([{ "input": "?" }])));
    let task = task["id"].as_str().unwrap();
    let api = Api::anonymous(&server);
    for (method, path) in [
        ("GET", "/session".into()),
        ("GET", "/tasks".into()),
        ("GET", format!("/tasks/{task}")),
        ("GET", format!("/tasks/{task}/events")),
        ("POST", format!("/tasks/{task}:cancel")),
        ("DELETE", format!("/tasks/{task}")),
        ("POST", "/keys".into()),
        ("GET", "/openapi.json".into()),
    ] {
        let refused = problem(&api.ask(method, &path), 401);
        assert!(refused["detail"].as_str().unwrap().contains("rialto keys create"), "{refused}");
    }
    assert_eq!(server.agent("scripted").task(task)["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let admin = key(&server, "me", "default", &["admin"]);
    assert_eq!(Api::with(&server, &admin.secret).get("/session")["role"], "admin");
}

#[test]
fn where_it_is_off_its_addresses_are_like_any_unknown_one() {
    let off = Server::options().config(&format!("{AGENTS}console: {{ enabled: false }}\n")).start();
    // Another machine reaches the second address.
    let port = free_address().port();
    let exposed = Server::options().config(&format!("{AGENTS}grpc: {{ listen: '0.0.0.0:{port}' }}\n")).start();
    for server in [&off, &exposed] {
        let admin = key(server, "me", "default", &["admin"]);
        let api = Api::with(server, &admin.secret);
        for (method, path) in [("GET", "/session"), ("GET", ""), ("POST", "/config:reload")] {
            let response = api.ask(method, path);
            let unknown = server.exchange(
                &Request::new(method, "/api/other/v1").header("authorization", &format!("Bearer {}", admin.secret)),
            );
            assert_eq!((response.status(), unknown.status()), (404, 404), "{method} {path}: {}", response.text());
            assert_eq!(response.head.media_type(), unknown.head.media_type());
            assert_eq!(response.json()["error"]["status"], unknown.json()["error"]["status"], "{}", response.text());
        }
    }
    drop(exposed);
    let port = free_address().port();
    let on = format!("{AGENTS}grpc: {{ listen: '0.0.0.0:{port}' }}\nconsole: {{ enabled: true }}\n");
    let server = Server::options().config(&on).start();
    assert_eq!(Api::made(&server, "north", &["viewer"]).get("/session")["role"], "viewer");
    problem(&Api::anonymous(&server).ask("GET", "/session"), 401);
}
