//! Servers that know no credential, and servers without the API.

use e2e::Server;
use e2e::http::Request;
use e2e::server::free_address;
use serde_json::json;

use crate::{AGENTS, Api, BASE, key, problem};

fn open() -> Server {
    Server::options().config(AGENTS).start()
}

#[test]
fn where_no_credential_exists_a_caller_on_this_machine_reads_and_changes_nothing() {
    let server = open();
    let task = server.agent("scripted").send(e2e::script(json!([{ "input": "?" }])));
    let task = task["id"].as_str().unwrap();
    let api = Api::anonymous(&server);
    let session = api.get("/session");
    assert_eq!((&session["caller"], &session["role"]), (&json!("anonymous"), &json!("viewer")));
    assert_eq!(api.get(&format!("/tasks/{task}"))["summary"]["id"], task);
    for (method, path) in [
        ("POST", format!("/tasks/{task}:cancel")),
        ("DELETE", format!("/tasks/{task}")),
        ("POST", "/keys".into()),
        ("GET", "/keys".into()),
        ("GET", "/audit".into()),
        ("POST", "/config:reload".into()),
    ] {
        let refused = problem(&api.ask(method, &path), 401);
        assert!(refused["detail"].as_str().unwrap().contains("rialto keys create"), "{refused}");
    }
    assert_eq!(server.agent("scripted").task(task)["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    // From then on a credential is needed.
    let admin = key(&server, "me", "default", &["admin"]);
    problem(&api.ask("GET", "/session"), 401);
    assert_eq!(Api::with(&server, &admin.secret).get("/session")["role"], "admin");
}

#[test]
fn a_page_elsewhere_and_a_request_through_a_proxy_are_not_taken_for_the_machine_itself() {
    let server = open();
    let own = server.addr().to_string();
    let ask = |headers: &[(&str, &str)]| {
        let mut request = Request::new("GET", &format!("{BASE}/tasks"));
        for (name, value) in headers {
            request = request.header(name, value);
        }
        server.exchange(&request)
    };
    for good in [
        vec![],
        vec![("sec-fetch-site", "same-origin")],
        vec![("sec-fetch-site", "none")],
        vec![("origin", &*format!("http://{own}")), ("sec-fetch-site", "same-origin")],
    ] {
        assert_eq!(ask(&good).status(), 200, "{good:?}");
    }
    for cross in [
        vec![("sec-fetch-site", "cross-site")],
        vec![("sec-fetch-site", "same-site")],
        vec![("origin", "https://evil.example")],
        vec![("origin", "null")],
        vec![("origin", "http://127.0.0.1:1")],
    ] {
        problem(&ask(&cross), 403);
    }
    // A name that a page's owner points at this machine is none of its own.
    for elsewhere in [
        vec![("host", "evil.example")],
        vec![("host", "evil.example"), ("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")],
        vec![("x-forwarded-for", "203.0.113.9")],
        vec![("forwarded", "for=203.0.113.9")],
        vec![("via", "1.1 proxy")],
    ] {
        problem(&ask(&elsewhere), 401);
    }
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
