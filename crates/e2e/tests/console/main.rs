//! The console of the built binary: its pages in Chromium, its files, and the sessions of browsers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests are tests")]

mod oidc;
mod playground;
mod task;

use std::process::Command;

use e2e::http::{Request, Response};
use e2e::{Server, setup};
use serde_json::{Value, json};

const BASE: &str = "/api/admin/v1";
const CONFIG: &str = "agents: { scripted: { kind: scripted }, echo: { kind: echo }, '<b>bold': { kind: echo } }\n\
                      default: '<b>bold'\nauth: { required: true }\n";

fn start(more: &str) -> Server {
    Server::options().config(&format!("{CONFIG}{more}")).start()
}

/// The id and secret of a new key.
fn key(server: &Server, name: &str, scopes: &[&str]) -> (String, String) {
    let mut words = vec!["keys", "create", name, "--tenant", "default", "-o", "json"];
    scopes.iter().for_each(|scope| words.extend(["--scope", scope]));
    let done = server.operate(&words).output().expect("rialto runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let made: Value = serde_json::from_slice(&done.stdout).expect("json");
    let text = |name: &str| made[name].as_str().expect("text").to_owned();
    (text("id"), text("secret"))
}

/// The address that the server printed.
fn link(server: &Server) -> String {
    let log = server.log();
    let found = log.split_whitespace().rfind(|word| word.contains("/console/#link="));
    found.unwrap_or_else(|| panic!("no link in\n{log}")).to_owned()
}

/// A browser's session: its cookie and its token.
struct Session {
    cookie: String,
    csrf: String,
}

fn sign_in(server: &Server, by: &Value) -> Result<Session, Response> {
    let response = server.exchange(&Request::new("POST", &format!("{BASE}/session")).json(by));
    if response.status() != 201 {
        return Err(response);
    }
    let cookie = response.head.header("set-cookie").expect("a cookie").to_owned();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/api/admin/v1"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let csrf = response.json()["csrf"].as_str().expect("a token").to_owned();
    Ok(Session { cookie: cookie.split(';').next().unwrap().to_owned(), csrf })
}

impl Session {
    fn request(&self, method: &str, path: &str) -> Request {
        Request::new(method, &format!("{BASE}{path}")).header("cookie", &self.cookie)
    }
}

fn status(server: &Server, request: &Request) -> u16 {
    server.exchange(request).status()
}

/// Runs a script of Chromium's folder at a server with keys of three kinds.
fn in_chromium(server: &Server, script: &str) {
    in_chromium_with(server, script, &[]);
}

/// The same with more arguments.
fn in_chromium_with(server: &Server, script: &str, more: &[&str]) {
    let (_, admin) = key(server, "root-admin", &["admin"]);
    let (_, viewer) = key(server, "onlooker", &["viewer"]);
    let (_, caller) = key(server, "ann", &[]);
    let axe = setup::ensure("js-axe/node_modules/.stamp").with_file_name("axe-core").join("axe.min.js");
    let python = setup::ensure("chromium/.venv/.stamp").with_file_name("bin/python");
    let mut program = Command::new(python);
    program.arg(setup::clients().join("chromium").join(script));
    program.args([&*server.url(), &link(server), &admin, &viewer, &caller]).arg(axe).args(more);
    if let Ok(demo) = std::fs::read_to_string(server.data().join("demo.json")) {
        program.env("DEMO", demo);
    }
    setup::run_scenarios(program.env("PYTHONDONTWRITEBYTECODE", "1"));
}

#[test]
fn operators_use_it_in_chromium() {
    in_chromium(&start(""), "console.py");
}

#[test]
fn operators_see_systems_the_market_and_shops_in_chromium() {
    in_chromium(&Server::start(&[]), "console_products.py");
}

#[test]
fn operators_watch_the_server_and_its_agents_in_chromium() {
    let far = Server::options().config("agents: { far: { kind: echo, description: 'as it was' } }\n").start();
    let server = start_with_remote(&far);
    in_chromium(&server, "console_operations.py");
}

/// A server with an agent elsewhere, and limits.
fn start_with_remote(far: &Server) -> Server {
    let more = format!("{{ far: {{ kind: a2a, url: '{}/a2a/far', headers: {{ X-Plain: header-secret }} }},", far.url());
    let config = CONFIG.replacen('{', &more, 1);
    let limits =
        "limits: { streams_per_caller: 50, daily_calls: 100000, rate: { per_caller: { per_minute: 60000 } } }\n";
    Server::options().config(&format!("{config}{limits}")).start()
}

#[test]
fn a_change_by_cookie_needs_the_token_of_its_session() {
    let server = start("");
    let (_, admin) = key(&server, "root-admin", &["admin"]);
    let session = sign_in(&server, &json!({ "key": admin })).expect("a session");
    let other = sign_in(&server, &json!({ "key": admin })).expect("a session");
    let make = |token: Option<&str>| {
        let request = session.request("POST", "/keys").json(&json!({ "name": "made" }));
        token.iter().fold(request, |request, token| request.header("x-csrf-token", token))
    };
    for wrong in [None, Some(""), Some(&*other.csrf), Some(&session.csrf[1..])] {
        let response = server.exchange(&make(wrong));
        assert_eq!(response.status(), 403, "{wrong:?}: {}", response.text());
        assert!(response.json()["detail"].as_str().unwrap().contains("X-CSRF-Token"), "{}", response.text());
    }
    assert_eq!(status(&server, &make(Some(&session.csrf))), 201);
    // A key in a header is no cookie, and needs no token.
    let by_key = Request::new("POST", &format!("{BASE}/keys")).json(&json!({ "name": "by-key" }));
    assert_eq!(status(&server, &by_key.header("authorization", &format!("Bearer {admin}"))), 201);
    // A page of another origin neither reads nor changes, also with the cookie and the token.
    for site in ["cross-site", "same-site"] {
        assert_eq!(status(&server, &session.request("GET", "/tasks").header("sec-fetch-site", site)), 403);
        assert_eq!(status(&server, &make(Some(&session.csrf)).header("sec-fetch-site", site)), 403);
        let sign_in = Request::new("POST", &format!("{BASE}/session")).json(&json!({ "key": admin }));
        assert_eq!(status(&server, &sign_in.header("sec-fetch-site", site)), 403);
    }
    assert_eq!(status(&server, &session.request("GET", "/tasks").header("sec-fetch-site", "same-origin")), 200);
    // A form of another site cannot be sent as JSON.
    let form = Request::new("POST", &format!("{BASE}/session")).header("content-type", "text/plain");
    assert_eq!(status(&server, &form.body(json!({ "key": admin }).to_string())), 415);
}

#[test]
fn a_session_ends_by_its_user_and_with_its_key() {
    let server = start("");
    let (id, viewer) = key(&server, "onlooker", &["viewer"]);
    let session = sign_in(&server, &json!({ "key": viewer })).expect("a session");
    let shown = server.exchange(&session.request("GET", "/session")).json();
    assert_eq!((&shown["caller"], &shown["csrf"]), (&json!("onlooker"), &json!(session.csrf)));
    assert_eq!(status(&server, &session.request("DELETE", "/session")), 403);
    let end = session.request("DELETE", "/session").header("x-csrf-token", &session.csrf);
    let ended = server.exchange(&end);
    assert_eq!(ended.status(), 200, "{}", ended.text());
    assert!(ended.head.header("set-cookie").is_some_and(|cookie| cookie.contains("Max-Age=0")), "{ended:?}");
    assert_eq!(status(&server, &session.request("GET", "/session")), 401);

    let session = sign_in(&server, &json!({ "key": viewer })).expect("a session");
    assert_eq!(status(&server, &session.request("GET", "/tasks")), 200);
    assert_eq!(status(&server, &session.request("GET", "/keys")), 403, "a viewer reads no keys");
    assert!(server.operate(&["keys", "revoke", &id]).output().unwrap().status.success());
    assert_eq!(status(&server, &session.request("GET", "/tasks")), 401);
    assert_eq!(sign_in(&server, &json!({ "key": viewer })).err().unwrap().status(), 401);
}

#[test]
fn only_a_key_with_a_role_or_an_unused_link_begins_a_session() {
    let server = start("");
    let (_, bare) = key(&server, "bare", &[]);
    let token = link(&server).split_once("#link=").unwrap().1.to_owned();
    for (by, expected) in [
        (json!({ "key": bare }), 403),
        (json!({ "key": "rk_wrong" }), 401),
        (json!({ "link": "wrong" }), 401),
        (json!({ "link": "" }), 401),
        (json!({}), 400),
        (json!({ "key": bare, "link": token }), 400),
        (json!({ "password": "x" }), 400),
    ] {
        let refused = sign_in(&server, &by).err().unwrap_or_else(|| panic!("{by} begins a session"));
        assert_eq!(refused.status(), expected, "{by}: {}", refused.text());
        assert!(refused.head.header("set-cookie").is_none(), "{by}");
    }
    let session = sign_in(&server, &json!({ "link": token })).expect("a session");
    let shown = server.exchange(&session.request("GET", "/session")).json();
    assert_eq!((&shown["role"], &shown["allTenants"]), (&json!("admin"), &json!(true)));
    assert_eq!(sign_in(&server, &json!({ "link": token })).err().unwrap().status(), 401);
}

#[test]
fn where_agents_need_no_credential_the_link_still_signs_in() {
    let server = Server::options().config("agents: { scripted: { kind: scripted } }\n").start();
    assert_eq!(server.get(&format!("{BASE}/session")).status(), 401);
    let token = link(&server).split_once("#link=").unwrap().1.to_owned();
    let session = sign_in(&server, &json!({ "link": token })).expect("a session");
    let make = session.request("POST", "/keys").json(&json!({ "name": "made" }));
    assert_eq!(status(&server, &make.header("x-csrf-token", &session.csrf)), 201);
    assert_eq!(status(&server, &session.request("GET", "/tasks")), 200);
}

#[test]
fn its_files_are_compressed_and_cannot_be_framed() {
    let server = start("");
    let get = |path: &str, coding: &str| {
        server.exchange(&Request::new("GET", path).header("accept-encoding", coding).header("accept", "text/html"))
    };
    let page = get("/console/tasks/some/wire", "identity");
    assert_eq!((page.status(), page.head.media_type()), (200, "text/html"));
    for (name, value) in [
        ("x-frame-options", "DENY"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-cache"),
    ] {
        assert_eq!(page.head.header(name), Some(value));
    }
    let policy = page.head.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    let text = page.text();
    let script = text.split('"').find(|word| word.starts_with("/console/assets/") && word.ends_with(".js"));
    let script = script.unwrap_or_else(|| panic!("the console was not built: {text}"));
    let plain = get(script, "identity");
    assert_eq!(plain.head.header("cache-control"), Some("public, max-age=31536000, immutable"));
    for coding in ["br", "gzip"] {
        let packed = get(script, coding);
        assert_eq!(packed.head.header("content-encoding"), Some(coding));
        assert!(packed.body.len() < plain.body.len() / 2, "{coding}: {}", packed.body.len());
    }
    let etag = page.head.header("etag").unwrap();
    assert_eq!(status(&server, &Request::new("GET", "/console/").header("if-none-match", etag)), 304);
    assert_eq!(get("/console/assets/none.js", "br").status(), 404);
    assert_eq!(get("/console", "br").status(), 308);
    assert_eq!(status(&server, &Request::new("POST", "/console/")), 405);
}

#[test]
fn the_root_shows_a_browser_a_page_and_programs_what_they_know() {
    let server = start("");
    let page = server.exchange(&Request::new("GET", "/").header("accept", "text/html,application/xhtml+xml"));
    assert_eq!((page.status(), page.head.media_type()), (200, "text/html"));
    let text = page.text();
    assert!(text.contains("href=\"/console/\"") && text.contains("&lt;b&gt;bold") && !text.contains("<b>"), "{text}");
    for accept in ["*/*", "application/json"] {
        let plain = server.exchange(&Request::new("GET", "/").header("accept", accept));
        assert_eq!(plain.head.media_type(), "text/plain");
        assert!(plain.text().starts_with("Rialto "), "{}", plain.text());
    }
}

#[test]
fn it_is_not_there_where_it_is_turned_off() {
    let server = start("console: { enabled: false }\n");
    assert_eq!(server.get("/console/").status(), 404);
    assert_eq!(server.get(&format!("{BASE}/session")).status(), 404);
    assert!(!server.log().contains("/console/"), "{}", server.log());
    let page = server.exchange(&Request::new("GET", "/").header("accept", "text/html"));
    assert!(!page.text().contains("/console/"), "{}", page.text());
}
