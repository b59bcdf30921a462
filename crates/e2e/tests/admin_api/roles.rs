//! Every operation by every kind of caller: one table. The same pass checks that each change is one line of the audit log,
//! that a refused one is none, and that no answer has a secret.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::products::{PRODUCTS, order, run_of_gate, stocked};
use crate::{Api, CREDENTIALS, Key, TOKEN, agent, ask_with_webhook, audit, key, problem, start};

/// The kinds of callers, with the tenant and scopes of their keys.
const CALLERS: [(&str, &str, &[&str]); 7] = [
    ("bare", "north", &[]),
    ("caller", "north", &["tasks", "push"]),
    ("viewer", "north", &["viewer"]),
    ("operator", "north", &["operator"]),
    ("admin", "north", &["admin"]),
    ("admin elsewhere", "south", &["admin"]),
    ("default admin", "default", &["admin"]),
];

/// The object of an operation, made anew for every caller.
#[derive(Clone, Copy, PartialEq)]
enum About {
    /// The caller's tenant, or the server as far as the caller sees it.
    Own,
    /// A task of the tenant north.
    Task,
    /// A key of the tenant north.
    Key,
    /// A receiver of webhooks of the tenant north.
    Receiver,
    /// A run of a system in the tenant north.
    Run,
    /// An order of a shop of the tenant north.
    Order,
    /// A site of the tenant north.
    Site,
    /// The whole server.
    Server,
}

/// Method, path, object, the least of the roles `viewer`, `operator`, `admin`, the body and the status of success.
type Row = (&'static str, &'static str, About, usize, Option<&'static str>, u16);

const ROWS: &[Row] = &[
    ("GET", "/openapi.json", About::Own, 0, None, 200),
    ("GET", "/session", About::Own, 0, None, 200),
    ("GET", "/overview", About::Own, 0, None, 200),
    ("GET", "/events", About::Own, 0, None, 200),
    ("GET", "/overview/history", About::Server, 0, None, 200),
    ("GET", "/limits", About::Server, 0, None, 200),
    ("GET", "/tasks", About::Own, 0, None, 200),
    ("GET", "/tasks/{id}", About::Task, 0, None, 200),
    ("DELETE", "/tasks/{id}", About::Task, 1, None, 200),
    ("POST", "/tasks/{id}:cancel", About::Task, 1, None, 200),
    ("POST", "/tasks/{id}:answer", About::Task, 1, Some(r#"{"parts":[{"text":"red"}]}"#), 200),
    ("GET", "/tasks/{id}/events", About::Task, 0, None, 200),
    ("GET", "/tasks/{id}/wire", About::Task, 0, None, 200),
    ("GET", "/tasks/{id}/bundle", About::Task, 0, None, 200),
    ("GET", "/wires", About::Own, 0, None, 200),
    ("POST", "/tasks/{id}/deliveries:redeliver", About::Task, 1, Some("{}"), 200),
    ("GET", "/agents", About::Own, 0, None, 200),
    ("GET", "/agents/{name}", About::Own, 0, None, 200),
    (
        "POST",
        "/agents/{name}:send",
        About::Own,
        1,
        Some(r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}"#),
        200,
    ),
    ("GET", "/agents/{name}/cards", About::Own, 0, None, 200),
    ("GET", "/agents/{name}/drift", About::Server, 1, None, 200),
    ("POST", "/agents/{name}:test", About::Own, 1, None, 200),
    ("GET", "/deliveries", About::Own, 0, None, 200),
    ("GET", "/keys", About::Own, 2, None, 200),
    ("POST", "/keys", About::Own, 2, Some(r#"{"name":"made","scopes":["viewer"]}"#), 201),
    ("DELETE", "/keys/{id}", About::Key, 2, None, 200),
    (
        "POST",
        "/policy:check",
        About::Own,
        1,
        Some(r#"{"caller":{"name":"ann"},"agent":"echo","operation":"send"}"#),
        200,
    ),
    ("GET", "/health", About::Own, 0, None, 200),
    ("GET", "/replicas", About::Own, 0, None, 200),
    ("GET", "/audit", About::Own, 2, None, 200),
    ("GET", "/config", About::Server, 2, None, 200),
    ("POST", "/config:reload", About::Server, 2, None, 200),
    ("POST", "/playground:call", About::Server, 2, Some(r#"{"url":"{server}/healthz","method":"GET"}"#), 200),
    ("POST", "/receivers", About::Own, 1, None, 201),
    ("GET", "/receivers/{id}", About::Receiver, 1, None, 200),
    ("DELETE", "/receivers/{id}", About::Receiver, 1, None, 200),
    ("GET", "/tasks/{id}/money", About::Task, 0, None, 200),
    ("GET", "/systems", About::Own, 0, None, 200),
    ("GET", "/systems/{name}", About::Own, 0, None, 200),
    ("GET", "/systems/{name}/runs", About::Own, 0, None, 200),
    ("GET", "/systems/{name}/runs/{id}", About::Run, 0, None, 200),
    ("GET", "/ledger", About::Own, 0, None, 200),
    ("GET", "/ledger/accounts", About::Own, 0, None, 200),
    ("GET", "/ledger/escrow", About::Own, 0, None, 200),
    ("POST", "/ledger:verify", About::Server, 1, None, 200),
    ("GET", "/purchases", About::Own, 0, None, 200),
    ("GET", "/listings", About::Own, 0, None, 200),
    ("GET", "/sites", About::Own, 0, None, 200),
    ("GET", "/sites/{slug}/carts", About::Site, 0, None, 200),
    ("GET", "/sites/{slug}/stock", About::Site, 0, None, 200),
    ("GET", "/orders", About::Own, 0, None, 200),
    ("GET", "/orders/{id}", About::Order, 0, None, 200),
    // `commands` has the role of each command.
    ("POST", "/commands", About::Own, 0, Some(r#"{"do":"doctor"}"#), 200),
];

/// Operations that change nothing although they are no GET.
const CHECKS: [&str; 3] = ["/policy:check", "/ledger:verify", "/commands"];

fn expected(caller: &str, row: &Row) -> u16 {
    let (_, _, about, least, _, success) = *row;
    let role = match caller {
        "none" => return 401,
        "bare" | "caller" => return 403,
        "viewer" => 0,
        "operator" => 1,
        _ => 2,
    };
    let is_whole = caller == "default admin";
    if role < least || (about == About::Server && !is_whole) {
        return 403;
    }
    // Objects of north do not exist for a caller of south.
    if caller == "admin elsewhere" && !matches!(about, About::Own | About::Server) { 404 } else { success }
}

#[test]
fn every_operation_is_allowed_to_exactly_the_callers_whose_role_covers_it() {
    let server = start(PRODUCTS);
    stocked(&server);
    let owner = key(&server, "ada", "north", &[]);
    let opener = agent(&server, &owner.secret);
    let maker = Api::made(&server, "north", &["operator"]);
    let keys: Vec<(&str, Key)> =
        CALLERS.iter().map(|(name, tenant, scopes)| (*name, key(&server, name, tenant, scopes))).collect();
    let callers = keys.iter().map(|(name, key)| (*name, Api::with(&server, &key.secret)));
    let callers: Vec<_> = callers.chain([("none", Api::anonymous(&server))]).collect();
    let secrets: Vec<&str> =
        keys.iter().map(|(_, key)| key.secret.as_str()).chain([&*owner.secret, TOKEN, CREDENTIALS]).collect();
    for &row in ROWS {
        let (method, pattern, about, _, body, success) = row;
        for (name, api) in &callers {
            let id = match about {
                About::Task => ask_with_webhook(&opener),
                About::Key => key(&server, "spare", "north", &["tasks"]).id,
                About::Receiver => maker.ask("POST", "/receivers").json()["id"].as_str().unwrap().to_owned(),
                About::Run => run_of_gate(&server, &owner.secret),
                About::Order => order(&server, &owner.secret),
                About::Site | About::Own | About::Server => String::new(),
            };
            let path = pattern.replace("{id}", &id).replace("{slug}", "hats");
            let path = path.replace("{name}", if pattern.starts_with("/systems") { "gate" } else { "echo" });
            let before = audit(&server).len();
            let request = api.request(method, &path);
            let request = match body {
                Some(body) => {
                    let body = body.replace("{server}", &server.url());
                    request.json(&serde_json::from_str::<Value>(&body).unwrap())
                }
                None => request,
            };
            let response = server.exchange(&request);
            let status = expected(name, &row);
            let place = format!("{method} {pattern} by {name}: {}", response.text());
            assert_eq!(response.status(), status, "{place}");
            let lines = audit(&server).split_off(before);
            let changes = method != "GET" && !CHECKS.contains(&pattern) && status == success;
            assert_eq!(lines.len(), usize::from(changes), "{place}: {lines:?}");
            if let [line] = &lines[..] {
                assert_eq!(line["by"], *name, "{place}: {line}");
                assert!(line["what"].is_string() && line["change"].is_string(), "{place}: {line}");
            }
            let text = response.text();
            for secret in &secrets {
                assert!(!text.contains(secret), "{place} has a secret");
            }
            if status >= 400 {
                let problem = problem(&response, status);
                if status == 401 {
                    assert!(response.head.header("www-authenticate").is_some(), "{place}");
                }
                if matches!(*name, "bare" | "caller") {
                    assert!(problem["detail"].as_str().unwrap().contains("rialto keys create"), "{place}");
                }
            }
        }
    }
}

#[test]
fn the_document_has_the_operations_of_the_table_and_the_session_those_of_the_caller() {
    let server = start("");
    let admin = Api::made(&server, "default", &["admin"]);
    let document = admin.get("/openapi.json");
    assert_eq!(document["openapi"], "3.1.0");
    let mut documented = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            // A session begins and ends without a role; the tests of the console have it.
            if operation["x-required-role"].is_null() {
                continue;
            }
            documented.insert((method.to_uppercase(), path.clone()));
            ids.insert(operation["operationId"].as_str().unwrap().to_owned());
        }
    }
    let table: BTreeSet<_> = ROWS.iter().map(|row| (row.0.to_owned(), row.1.to_owned())).collect();
    assert_eq!(documented, table);
    for &row in ROWS {
        let operation = &document["paths"][row.1][row.0.to_lowercase()];
        assert_eq!(operation["x-required-role"], ["viewer", "operator", "admin"][row.3], "{row:?}", row = row.1);
    }
    let operations = |api: &Api<'_>| {
        let session = api.get("/session");
        let list = session["operations"].as_array().unwrap().clone();
        (session, list.iter().map(|id| id.as_str().unwrap().to_owned()).collect::<BTreeSet<_>>())
    };
    let (session, all) = operations(&admin);
    assert_eq!(all, ids);
    assert_eq!((&session["role"], &session["allTenants"]), (&json!("admin"), &json!(true)));
    let (session, some) = operations(&Api::made(&server, "north", &["viewer", "all-tenants"]));
    assert_eq!(
        (&session["role"], &session["allTenants"], &session["tenant"]),
        (&json!("viewer"), &json!(true), &json!("north"))
    );
    assert_eq!(some.len(), ROWS.iter().filter(|row| row.3 == 0).count());
}

/// A credential with a role alone makes no call to an agent.
#[test]
fn roles_of_the_api_cover_no_call_to_an_agent() {
    let server = start("");
    for scopes in [&["viewer"][..], &["operator"], &["operator", "all-tenants"]] {
        let key = key(&server, "role", "north", scopes);
        for (method, params) in [
            ("SendMessage", json!({ "message": e2e::message("hi") })),
            ("ListTasks", json!({})),
            ("GetTask", json!({ "id": "0190f3c4-1111-7222-8333-444455556666" })),
        ] {
            let error = agent(&server, &key.secret).rpc(method, params).unwrap_err();
            assert_eq!(error["code"], -32043, "{scopes:?} {method}: {error}");
        }
    }
}
