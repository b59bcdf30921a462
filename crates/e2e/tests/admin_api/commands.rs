//! `POST /commands`: every command by every kind of caller, as one table, with its line in the audit log.

use std::cell::Cell;

use serde_json::{Value, json};

use crate::{Api, Key, agent, ask_with_webhook, audit, key, problem};
use e2e::Server;

/// A server with every product.
pub(crate) const PRODUCTS: &str = "agents: { scripted: { kind: scripted }, echo: { kind: echo } }\n\
    auth: { required: true }\n\
    market: true\n\
    systems: { pair: { agents: [echo] } }\n\
    orloj: {}\n\
    aly: { sites: { acme: { workspace: acme, title: Acme, currency: USD } } }\n";

/// The kinds of callers, with the tenant and scopes of their keys.
const CALLERS: [(&str, &str, &[&str]); 8] = [
    ("bare", "north", &[]),
    ("viewer", "north", &["viewer"]),
    ("operator", "north", &["operator"]),
    ("admin", "north", &["admin"]),
    ("admin elsewhere", "south", &["admin"]),
    ("viewer of all", "north", &["viewer", "all-tenants"]),
    ("operator of all", "north", &["operator", "all-tenants"]),
    ("default admin", "default", &["admin"]),
];

/// The object of a command, made anew for every caller.
#[derive(Clone, Copy, PartialEq)]
enum About {
    /// The caller's tenant, or the server as far as the caller sees it.
    Own,
    /// A task of the tenant north.
    Task,
    /// A key of the tenant north.
    Key,
    /// The whole server.
    Server,
    /// The machine of the server.
    Machine,
}

/// Ids of the objects of one try.
struct Ids {
    task: String,
    key: String,
    /// Differs from try to try.
    new: String,
}

/// The command, its object, the least of the roles `viewer`, `operator`, `admin`, whether it is a change, and the status of
/// success: a command about an object that does not exist is let in, and refused for that.
type Row = (fn(&Ids) -> Value, About, usize, bool, u16);

fn shop(what: &str, more: Value) -> Value {
    let mut wish = more;
    wish["what"] = json!(what);
    json!({ "do": "shop", "wish": wish })
}

fn market(what: &str, more: Value) -> Value {
    let mut wish = more;
    wish["what"] = json!(what);
    json!({ "do": "market", "wish": wish })
}

const ROWS: [Row; 32] = [
    (|_| json!({ "do": "task_list", "limit": 5 }), About::Own, 0, false, 200),
    (|ids| json!({ "do": "task_show", "id": ids.task }), About::Task, 0, false, 200),
    (|ids| json!({ "do": "task_cancel", "id": ids.task }), About::Task, 1, true, 200),
    (|ids| json!({ "do": "task_purge", "id": ids.task }), About::Task, 1, true, 200),
    (|_| json!({ "do": "push_list", "limit": 5 }), About::Own, 0, false, 200),
    (|ids| json!({ "do": "push_list", "task": ids.task, "limit": 5 }), About::Task, 0, false, 200),
    (|ids| json!({ "do": "push_redeliver", "task": ids.task }), About::Task, 1, true, 200),
    (|_| json!({ "do": "doctor" }), About::Own, 0, false, 200),
    (|_| json!({ "do": "health" }), About::Own, 0, false, 200),
    (|_| json!({ "do": "reload" }), About::Server, 2, true, 200),
    (|_| json!({ "do": "task_import", "bundle": "{}" }), About::Server, 2, false, 400),
    (|_| json!({ "do": "keys_list" }), About::Own, 2, false, 200),
    (|ids| json!({ "do": "keys_revoke", "id": ids.key }), About::Key, 2, true, 200),
    (|ids| json!({ "do": "keys_create", "name": ids.new, "tenant": "north" }), About::Key, 2, true, 200),
    (|_| json!({ "do": "backup", "to": "/nowhere/copy.db" }), About::Machine, 0, false, 403),
    (|_| json!({ "do": "graph", "system": "pair" }), About::Own, 0, false, 200),
    (|ids| json!({ "do": "apply", "document": system(&ids.new).to_string() }), About::Server, 2, true, 200),
    (|_| market("ledger", json!({ "limit": 5 })), About::Server, 0, false, 200),
    (|_| market("ledger", json!({ "limit": 5, "account": "commission" })), About::Server, 0, false, 200),
    (|_| market("verify", json!({})), About::Server, 0, false, 200),
    (|ids| market("open", json!({ "id": ids.new })), About::Server, 2, true, 200),
    (
        |ids| market("credit", json!({ "user": "u_1", "amount": "1", "reference": ids.new })),
        About::Server,
        2,
        true,
        200,
    ),
    (|_| shop("sites", json!({})), About::Server, 0, false, 200),
    (|_| shop("verify", json!({})), About::Server, 0, false, 200),
    (|ids| shop("site", json!({ "slug": ids.new, "site": { "workspace": "w" } })), About::Server, 2, true, 200),
    (
        |_| shop("import", json!({ "slug": "acme", "csv": true, "text": "id,name,price,stock\nsun,Sun,1,5\n" })),
        About::Server,
        2,
        true,
        200,
    ),
    (|_| shop("key_create", json!({ "workspace": "w", "name": "till" })), About::Server, 2, true, 200),
    (|_| shop("key_list", json!({ "workspace": "w" })), About::Server, 2, false, 200),
    (|_| shop("key_revoke", json!({ "workspace": "w", "id": "none" })), About::Server, 2, false, 400),
    (|_| shop("client_remove", json!({ "id": "none" })), About::Server, 2, false, 400),
    (|_| shop("grant_list", json!({})), About::Server, 2, false, 200),
    (|_| shop("grant_remove", json!({ "id": "none" })), About::Server, 2, false, 400),
];

fn system(name: &str) -> Value {
    json!({
        "apiVersion": "orloj.dev/v1", "kind": "AgentSystem", "metadata": { "name": name },
        "spec": { "graph": { "echo": {} } },
    })
}

fn expected(caller: &str, row: &Row) -> u16 {
    let (_, about, least, _, success) = *row;
    let role = match caller {
        "bare" => return 403,
        "viewer" | "viewer of all" => 0,
        "operator" | "operator of all" => 1,
        _ => 2,
    };
    let is_whole = matches!(caller, "default admin" | "viewer of all" | "operator of all");
    if role < least || about == About::Machine || (about == About::Server && !is_whole) {
        return 403;
    }
    match about {
        // Objects of north do not exist for a caller of south, and it makes none.
        About::Task if caller == "admin elsewhere" => 404,
        About::Key if caller == "admin elsewhere" => 400,
        _ => success,
    }
}

fn send(api: &Api<'_>, command: &Value) -> e2e::http::Response {
    api.send("POST", "/commands", command)
}

#[test]
fn every_command_is_allowed_to_exactly_the_callers_whose_role_covers_it() {
    let server = Server::options().config(PRODUCTS).start();
    let owner = key(&server, "ada", "north", &[]);
    let opener = agent(&server, &owner.secret);
    let keys: Vec<(&str, Key)> =
        CALLERS.iter().map(|(name, tenant, scopes)| (*name, key(&server, name, tenant, scopes))).collect();
    let opened = server.operate(&["market", "open", "--id", "u_1", "--key", "none"]).output().unwrap();
    assert!(opened.status.success(), "{}", String::from_utf8_lossy(&opened.stderr));
    let number = Cell::new(0);
    for row in ROWS {
        let (command, about, _, is_change, success) = row;
        for (name, key_of) in &keys {
            number.set(number.get() + 1);
            let ids = Ids {
                task: if about == About::Task { ask_with_webhook(&opener) } else { String::new() },
                key: if about == About::Key { key(&server, "spare", "north", &["tasks"]).id } else { String::new() },
                new: format!("new-{}", number.get()),
            };
            let command = command(&ids);
            let before = audit(&server).len();
            let response = send(&Api::with(&server, &key_of.secret), &command);
            let mut status = expected(name, &row);
            // A key of another tenant is refused as such.
            if command["do"] == "keys_create" && *name == "admin elsewhere" {
                status = 403;
            }
            let place = format!("{command} by {name}: {}", response.text());
            assert_eq!(response.status(), status, "{place}");
            let lines = audit(&server).split_off(before);
            assert_eq!(lines.len(), usize::from(is_change && status == success), "{place}: {lines:?}");
            if let [line] = &lines[..] {
                assert_eq!(line["by"], *name, "{place}: {line}");
                assert!(line["what"].is_string() && line["change"].is_string(), "{place}: {line}");
            }
            if status >= 400 {
                problem(&response, status);
            }
        }
    }
}

#[test]
fn a_caller_of_one_tenant_meets_nothing_of_another() {
    let server = Server::options().config(PRODUCTS).start();
    let ada = key(&server, "adalbert", "north", &[]);
    let task = ask_with_webhook(&agent(&server, &ada.secret));
    let south = Api::made(&server, "south", &["admin"]);
    for command in [
        json!({ "do": "task_list", "limit": 50 }),
        json!({ "do": "task_list", "tenant": "north", "limit": 50 }),
        json!({ "do": "push_list", "limit": 50 }),
        json!({ "do": "keys_list" }),
        json!({ "do": "doctor" }),
    ] {
        let response = send(&south, &command);
        assert_eq!(response.status(), 200, "{command}: {}", response.text());
        let folder = server.data().display().to_string();
        for hidden in [&*task, "adalbert", "colour", &ada.id, &folder] {
            assert!(!response.text().contains(hidden), "{command} has {hidden}: {}", response.text());
        }
    }
    let listed = send(&south, &json!({ "do": "task_list", "limit": 50 })).json();
    assert_eq!((&listed["tasks"], &listed["total"]), (&json!([]), &json!(0)));
    let unknown = "0190f3c4-1111-7222-8333-444455556666";
    for command in ["task_show", "task_cancel", "task_purge"] {
        let refused = |id: &str| {
            let detail = problem(&send(&south, &json!({ "do": command, "id": id })), 404)["detail"].clone();
            detail.as_str().unwrap().replace(id, "ID")
        };
        assert_eq!(refused(&task), refused(unknown), "{command}");
    }
    let graph = |id: &str| {
        let response = send(&south, &json!({ "do": "graph", "system": "pair", "task": id }));
        problem(&response, 404)["detail"].as_str().unwrap().replace(id, "ID")
    };
    assert_eq!(graph(&task), graph(unknown));
}

#[test]
fn a_command_that_cannot_be_read_is_refused_and_a_list_is_bounded() {
    let server = Server::options().config(PRODUCTS).start();
    let admin = Api::made(&server, "default", &["admin"]);
    for (command, field) in [
        (json!({}), "body"),
        (json!({ "do": 7 }), "body"),
        (json!({ "do": "dance" }), "body"),
        (json!({ "do": "task_show" }), "body"),
        (json!({ "do": "task_show", "id": "x", "more": 1 }), "body"),
        (json!({ "do": "task_list", "limit": 1_001 }), "limit"),
        (json!({ "do": "push_list", "limit": 1_001 }), "limit"),
        (json!({ "do": "market", "wish": { "what": "ledger", "limit": 1_001 } }), "limit"),
    ] {
        let refused = problem(&send(&admin, &command), 400);
        assert_eq!(refused["field"], field, "{command}: {refused}");
    }
    for (command, says) in [
        (json!({ "do": "market", "wish": { "what": "dance" } }), "unknown variant"),
        (json!({ "do": "shop" }), "missing field"),
    ] {
        let refused = problem(&send(&admin, &command), 400);
        assert!(refused["detail"].as_str().unwrap().contains(says), "{command}: {refused}");
    }
    problem(
        &server.exchange(&admin.request("POST", "/commands").header("content-type", "application/json").body("[]")),
        400,
    );
    // Scopes of the config are known from the server's own config alone.
    let scopes =
        json!({ "do": "keys_create", "name": "x", "tenant": "t", "scopes": ["mine"], "policy_scopes": ["mine"] });
    assert_eq!(problem(&send(&admin, &scopes), 400)["field"], "scopes");
}
