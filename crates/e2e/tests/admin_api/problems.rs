//! Requests that are refused: unknown addresses and methods, odd queries and bodies.

use e2e::http::Request;

use crate::{Api, BASE, problem, start};

#[test]
fn odd_requests_are_refused_by_name_and_never_break_anything() {
    let server = start("");
    let api = Api::made(&server, "default", &["admin"]);
    for (method, path, status, field) in [
        ("GET", "", 404, None),
        ("GET", "/", 404, None),
        ("GET", "/nothing", 404, None),
        ("GET", "/tasks/", 404, None),
        ("GET", "/tasks//events", 404, None),
        ("GET", "/agents/nobody", 404, None),
        ("GET", "/tasks/none", 404, None),
        ("GET", "/tasks/%zz", 400, None),
        ("GET", "/tasks/%ff", 400, None),
        ("GET", "/tasks/a%00b", 404, None),
        ("GET", "/tasks?colour=red", 400, Some("colour")),
        ("GET", "/session?x=1", 400, Some("x")),
        ("GET", "/tasks?limit=0", 400, Some("limit")),
        ("GET", "/tasks?limit=201", 400, Some("limit")),
        ("GET", "/tasks?limit=-1", 400, Some("limit")),
        ("GET", "/tasks?limit=1&limit=1", 400, Some("limit")),
        ("GET", "/tasks?state=done", 400, Some("state")),
        ("GET", "/tasks?q=%ff", 400, Some("q")),
        ("GET", "/tasks?q=", 400, Some("q")),
        ("GET", "/tasks?cursor=%00", 400, Some("cursor")),
        ("GET", "/deliveries?state=lost", 400, Some("state")),
        ("GET", "/audit?before=x", 400, Some("before")),
        ("POST", "/tasks/none:cancel", 404, None),
        ("POST", "/policy:check", 400, Some("body")),
    ] {
        let refused = problem(&api.ask(method, path), status);
        if let Some(field) = field {
            assert_eq!(refused["field"], field, "{method} {path}: {refused}");
        }
    }
    for (body, status) in [
        ("[]", 400),
        ("{", 400),
        ("null", 400),
        ("{\"caller\":", 400),
        (&*"[".repeat(10_000), 400),
        (&*" ".repeat(70_000), 413),
    ] {
        let request = api.request("POST", "/policy:check").header("content-type", "application/json").body(body);
        problem(&server.exchange(&request), status);
    }
    let typed = api.request("POST", "/policy:check").header("content-type", "text/plain").body("{}");
    problem(&server.exchange(&typed), 415);
    let binary = api.request("POST", "/keys").header("content-type", "application/json").body(vec![0xff, 0xfe, 0x7b]);
    problem(&server.exchange(&binary), 400);
    assert_eq!(api.ask("GET", "/session").status(), 200);
}

#[test]
fn a_method_that_an_address_does_not_have_is_answered_with_those_it_has() {
    let server = start("");
    let api = Api::made(&server, "default", &["admin"]);
    for (method, path, allow) in [
        ("POST", "/tasks", "GET, HEAD"),
        ("PUT", "/tasks/x", "GET, HEAD, DELETE"),
        ("GET", "/tasks/x:cancel", "POST"),
        ("PATCH", "/keys", "GET, HEAD, POST"),
        ("GET", "/keys/x", "DELETE"),
        ("DELETE", "/overview", "GET, HEAD"),
        ("GET", "/config:reload", "POST"),
    ] {
        let response = api.ask(method, path);
        problem(&response, 405);
        assert_eq!(response.head.header("allow"), Some(allow), "{method} {path}");
    }
}

#[test]
fn a_wrong_credential_is_told_apart_from_none_and_from_one_without_a_role() {
    let server = start("");
    for (name, value) in [
        ("authorization", "Bearer wrong"),
        ("x-api-key", "wrong"),
        ("authorization", "Basic dTpw"),
        ("authorization", "Bearer"),
    ] {
        let request = Request::new("GET", &format!("{BASE}/session")).header(name, value);
        let response = server.exchange(&request);
        problem(&response, 401);
        assert!(response.head.header("www-authenticate").is_some_and(|says| says.starts_with("Bearer")), "{value}");
    }
    // Nothing is told without a credential, not even which addresses there are.
    for path in ["/session", "/nothing", "/openapi.json", "/tasks/x"] {
        problem(&Api::anonymous(&server).ask("GET", path), 401);
    }
}
