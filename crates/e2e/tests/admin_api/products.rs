//! Operations of products: systems and their runs, the market's ledger, shops, and the money of a task.

use e2e::Server;
use e2e::http::Request;
use serde_json::{Value, json};

use crate::{Api, Key, key, problem, start};

/// A system that asks before it publishes, and a market and a shop of the tenant north.
pub(crate) const PRODUCTS: &str = "
systems:
  gate:
    title: Gate
    graph:
      draft: { agent: echo, next: out }
      out: { agent: echo, approval: { ask: May it be published? } }
market: { tenant: north, auto_freeze: true }
aly: { sites: { hats: { workspace: north, title: Hats, currency: EUR } } }
";
const EMAIL: &str = "ada.buyer@example.com";

fn said(server: &Server, words: &[&str]) -> Value {
    let done = server.operate(words).output().expect("rialto runs");
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap_or(Value::Null)
}

/// Gives the shop something to sell.
pub(crate) fn stocked(server: &Server) {
    let catalogue = server.data().join("catalogue.json");
    let goods = json!({ "products": [{ "id": "sun", "name": "Sun hat", "price": "19.90", "stock": 500 }] });
    std::fs::write(&catalogue, goods.to_string()).unwrap();
    said(server, &["shop", "import", catalogue.to_str().unwrap(), "--site", "hats"]);
}

fn post(server: &Server, secret: &str, path: &str, body: &Value) -> Value {
    let once = e2e::fresh_id();
    let request = Request::new("POST", path).header("Idempotency-Key", &once);
    let answer = server.exchange(&request.header("Authorization", &format!("Bearer {secret}")).json(body));
    assert!((200..300).contains(&answer.status()), "{path}: {}", answer.text());
    answer.json()
}

/// Begins a checkout of a hat: its id and its secret token.
fn checkout(server: &Server, secret: &str) -> (String, String) {
    let wish = json!({ "site_slug": "hats", "line_items": [{ "product_id": "sun" }] });
    let begun = post(server, secret, "/api/ucp/v1/checkout-sessions", &wish);
    let text = |name: &str| begun[name].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
    (text("id"), text("confirmation_token"))
}

/// Buys a hat with a key of the shop's tenant; the id of the order.
pub(crate) fn order(server: &Server, secret: &str) -> String {
    let (id, token) = checkout(server, secret);
    let buyer = json!({ "email": EMAIL, "name": "Ada Buyer", "address": "1 Secret Street" });
    let path = format!("/api/ucp/v1/checkout-sessions/{id}/complete");
    let done = post(server, secret, &path, &json!({ "confirmation_token": token, "buyer": buyer }));
    let order = done["order"]["order_id"].as_str().or(done["order"]["id"].as_str());
    order.unwrap_or_else(|| panic!("{done}")).to_owned()
}

/// Begins a run of the system, which waits for its approval.
pub(crate) fn run_of_gate(server: &Server, secret: &str) -> String {
    let client = server.agent("gate").with("Authorization", &format!("Bearer {secret}"));
    let task = client.send(e2e::message("the text"));
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    task["id"].as_str().unwrap().to_owned()
}

/// A user of the market with a key and a balance.
struct Person {
    id: String,
    key: String,
}

impl Person {
    fn open(server: &Server, credit: &str) -> Person {
        let limits = ["--per-call", "1000000", "--daily", "1000000"];
        let words = ["market", "open", "--key", "user", "--json"];
        let made = said(server, &[&words[..], &limits[..]].concat());
        let text = |name: &str| made[name].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        let person = Person { id: text("user_id"), key: text("api_key") };
        if credit != "0" {
            said(server, &["market", "credit", &person.id, credit, "--json"]);
        }
        person
    }

    fn post(&self, server: &Server, path: &str, body: &Value) -> Value {
        let request = Request::new("POST", &format!("/api/v1{path}")).header("X-Api-Key", &self.key);
        let answer = server.exchange(&request.header("X-Platform-User-Id", &self.id).json(body));
        assert!((200..300).contains(&answer.status()), "{path}: {}", answer.text());
        answer.json()["data"].clone()
    }
}

/// A purchase that waits for its seller, and who buys and sells: its own id, and the buyer.
fn purchase(server: &Server) -> (String, Person, Person) {
    let (buyer, seller) = (Person::open(server, "500"), Person::open(server, "0"));
    let offer = json!({
        "title": "Reading of invoices", "description": "Reads the fields of an invoice from its picture",
        "category": "ocr", "capability_type": "service", "pricing_model": "per_use", "price_ut": "120",
        "delivery_mode": "async",
    });
    let offered = seller.post(server, "/capabilities", &offer);
    let capability = offered["id"].as_str().unwrap_or_else(|| panic!("{offered}"));
    seller.post(server, &format!("/capabilities/{capability}/submit-review"), &json!({}));
    let bought = buyer.post(server, "/transactions", &json!({ "capability_id": capability }));
    (bought["id"].as_str().unwrap_or_else(|| panic!("{bought}")).to_owned(), buyer, seller)
}

fn state_of(detail: &Value, node: &str) -> Value {
    let nodes = detail["graph"]["nodes"].as_array().unwrap_or_else(|| panic!("{detail}"));
    nodes.iter().find(|one| one["node"] == node).unwrap_or_else(|| panic!("{detail}"))["state"].clone()
}

#[test]
fn a_run_is_shown_at_its_nodes_until_it_is_approved_and_done() {
    let server = start(PRODUCTS);
    let Key { secret, .. } = key(&server, "ada", "north", &[]);
    let run = run_of_gate(&server, &secret);
    let admin = Api::made(&server, "default", &["admin"]);
    let systems = admin.get("/systems");
    assert_eq!(systems["systems"][0]["name"], "gate", "{systems}");
    assert_eq!((&systems["systems"][0]["nodes"], &systems["systems"][0]["approvals"]), (&json!(2), &json!(1)));
    let bare = admin.get("/systems/gate");
    assert_eq!(bare["graph"]["nodes"][0]["edges"][0]["to"], "out", "{bare}");
    assert_eq!(bare["graph"]["nodes"][1]["approval"], "May it be published?");
    let runs = admin.get("/systems/gate/runs");
    assert_eq!(runs["runs"][0]["id"], run, "{runs}");
    let waits = &runs["runs"][0]["waitsFor"];
    assert_eq!((&waits["kind"], &waits["node"]), (&json!("approval"), &json!("out")), "{runs}");
    let detail = admin.get(&format!("/systems/gate/runs/{run}"));
    assert_eq!((state_of(&detail, "draft"), state_of(&detail, "out")), (json!("done"), json!("waiting for approval")));
    let visit = &detail["graph"]["nodes"][0]["visits"][0];
    assert!(visit["ms"].is_u64() && visit["attempts"] == 1, "{visit}");
    // The task of a node is a task like any other.
    let child = visit["child"].as_str().unwrap();
    assert_eq!(admin.get(&format!("/tasks/{child}"))["summary"]["agent"], "echo");
    assert_eq!(detail["run"]["ms"], Value::Null);

    let client = server.agent("gate").with("Authorization", &format!("Bearer {secret}"));
    let mut yes = e2e::parts(json!([{ "data": { "decision": "approve" } }]));
    yes["taskId"] = json!(run);
    client.send(yes);
    let detail = admin.get(&format!("/systems/gate/runs/{run}"));
    assert_eq!((state_of(&detail, "out"), &detail["run"]["state"]), (json!("done"), &json!("completed")), "{detail}");
    assert!(detail["run"]["ms"].is_u64(), "{detail}");
    assert_eq!(admin.get(&format!("/tasks/{run}/money"))["items"], json!([]));
    problem(&admin.ask("GET", "/systems/echo"), 404);
    problem(&admin.ask("GET", "/systems/none/runs"), 404);
    problem(&admin.ask("GET", &format!("/systems/gate/runs/{child}")), 404);
    assert_eq!(problem(&admin.ask("GET", "/systems/gate/runs?cursor=x"), 400)["field"], "cursor");
}

#[test]
fn runs_of_a_system_come_in_pages() {
    let server = start(PRODUCTS);
    let Key { secret, .. } = key(&server, "ada", "north", &[]);
    let mut made: Vec<String> = (0..5).map(|_| run_of_gate(&server, &secret)).collect();
    made.reverse();
    let admin = Api::made(&server, "north", &["viewer"]);
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = admin.get(&format!("/systems/gate/runs?limit=2{cursor}"));
        let runs = page["runs"].as_array().unwrap();
        seen.extend(runs.iter().map(|run| run["id"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(seen, made);
}

#[test]
fn the_ledger_has_running_balances_and_the_purchase_its_money() {
    let server = start(PRODUCTS);
    let (id, buyer, seller) = purchase(&server);
    let admin = Api::made(&server, "default", &["admin"]);
    let purchases = admin.get("/purchases");
    let row = &purchases["purchases"][0];
    assert_eq!((&row["id"], &row["status"], &row["price"]), (&json!(id), &json!("frozen"), &json!("120")), "{row}");
    let task = row["task"].as_str().unwrap();
    assert_eq!(admin.get(&format!("/tasks/{task}"))["summary"]["tenant"], "north");
    let money = admin.get(&format!("/tasks/{task}/money"))["items"][0].clone();
    assert_eq!((&money["what"], &money["held"], &money["charged"]), (&json!("purchase"), &json!("120"), &json!("0")));
    let escrow = admin.get("/ledger/escrow");
    let frozen = json!([{ "status": "frozen", "purchases": 1, "price": "120", "held": "120" }]);
    assert_eq!(escrow["states"], frozen, "{escrow}");

    seller.post(&server, &format!("/transactions/{id}/accept"), &json!({}));
    seller.post(&server, &format!("/transactions/{id}/deliver"), &json!({ "result_payload": { "total": "99.50" } }));
    buyer.post(&server, &format!("/transactions/{id}/confirm"), &json!({}));
    let money = admin.get(&format!("/tasks/{task}/money"))["items"][0].clone();
    assert_eq!((&money["state"], &money["charged"], &money["held"]), (&json!("settled"), &json!("120"), &json!("0")));

    let ledger = admin.get("/ledger");
    let entries = ledger["entries"].as_array().unwrap();
    assert_eq!(entries.len(), 3, "{ledger}");
    assert!(ledger["next"].is_null(), "{ledger}");
    // The newest first, with the balance of each account after it.
    let available = format!("available:{}", buyer.id);
    let balances: Vec<&Value> = entries.iter().flat_map(|entry| entry["lines"].as_array().unwrap()).collect();
    let of = |account: &str| -> Vec<(&str, &str)> {
        let own = balances.iter().filter(|line| line["account"] == account);
        own.map(|line| (line["amount"].as_str().unwrap(), line["balance"].as_str().unwrap())).collect()
    };
    assert_eq!(of(&available), [("-120", "380"), ("500", "500")], "{ledger}");
    assert_eq!(of("commission"), [("12", "12")]);
    assert_eq!(of("outside"), [("-500", "-500")]);
    assert_eq!(entries[0]["task"], task, "{ledger}");
    // Page by page it is the same.
    let (mut paged, mut before) = (Vec::new(), String::new());
    loop {
        let page = admin.get(&format!("/ledger?limit=1{before}"));
        paged.extend(page["entries"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_u64() else { break };
        before = format!("&before={next}");
    }
    assert_eq!(&paged, entries);
    let own = admin.get(&format!("/ledger?account={available}"));
    assert_eq!(own["entries"].as_array().unwrap().len(), 2, "{own}");
    assert_eq!(problem(&admin.ask("GET", "/ledger?account=savings"), 400)["field"], "account");

    let accounts = admin.get("/ledger/accounts");
    let balance = |name: &str| {
        let all = accounts["accounts"].as_array().unwrap();
        all.iter().find(|one| one["account"] == name).unwrap_or_else(|| panic!("{accounts}"))["balance"].clone()
    };
    assert_eq!((balance(&available), balance("commission")), (json!("380"), json!("12")));
    let first = admin.get("/ledger/accounts?limit=2");
    let rest = admin.get(&format!("/ledger/accounts?cursor={}", first["next"].as_str().unwrap()));
    let both: Vec<&Value> = [&first, &rest].iter().flat_map(|page| page["accounts"].as_array().unwrap()).collect();
    assert_eq!(both, accounts["accounts"].as_array().unwrap().iter().collect::<Vec<_>>());
    let check = admin.send("POST", "/ledger:verify", &json!({})).json();
    assert_eq!((&check["clean"], &check["transactions"]), (&json!(true), &json!(1)), "{check}");
    assert_eq!(admin.get("/listings")["listings"][0]["price"], "120");
    assert_eq!(admin.get("/purchases?status=frozen")["purchases"], json!([]));
    for path in ["/purchases", "/ledger", "/ledger/accounts", "/listings"] {
        let text = admin.ask("GET", path).text();
        assert!(![&buyer.key, &seller.key].iter().any(|key| text.contains(&***key)), "{path}");
    }
}

#[test]
fn a_shop_s_orders_carts_and_stock_are_shown_without_the_buyer() {
    let server = start(PRODUCTS);
    stocked(&server);
    let Key { secret, .. } = key(&server, "till", "north", &[]);
    let id = order(&server, &secret);
    let (_, token) = checkout(&server, &secret);
    let admin = Api::made(&server, "default", &["admin"]);
    let sites = admin.get("/sites");
    assert_eq!((&sites["sites"][0]["slug"], &sites["sites"][0]["products"]), (&json!("hats"), &json!(1)), "{sites}");
    let orders = admin.get("/orders?site=hats");
    let row = &orders["orders"][0];
    assert_eq!(
        (&row["id"], &row["total"], &row["items"][0]["name"]),
        (&json!(id), &json!("19.90 EUR"), &json!("Sun hat"))
    );
    assert_eq!(&admin.get(&format!("/orders/{id}")), row);
    let stock = admin.get("/sites/hats/stock")["stock"][0].clone();
    assert_eq!(
        (&stock["available"], &stock["reserved"], &stock["sold"]),
        (&json!(498), &json!(1), &json!(1)),
        "{stock}"
    );
    let carts = admin.get("/sites/hats/carts");
    assert_eq!(carts["carts"][0]["status"], "checkout", "{carts}");
    for path in ["/orders", &format!("/orders/{id}"), "/sites/hats/carts", "/sites"] {
        let text = admin.ask("GET", path).text();
        for hidden in [EMAIL, "Ada Buyer", "Secret Street", &token] {
            assert!(!text.contains(hidden), "{path} has {hidden}: {text}");
        }
    }
    assert_eq!(admin.get("/orders?state=refunded")["orders"], json!([]));
    assert_eq!(problem(&admin.ask("GET", "/orders?state=lost"), 400)["field"], "state");
    problem(&admin.ask("GET", "/sites/none/stock"), 404);
    problem(&admin.ask("GET", "/orders/none"), 404);
}

#[test]
fn a_caller_of_another_tenant_meets_no_record_of_a_product() {
    let server = start(PRODUCTS);
    stocked(&server);
    let Key { secret, .. } = key(&server, "adalbert", "north", &[]);
    let run = run_of_gate(&server, &secret);
    let (bought, buyer, _) = purchase(&server);
    let order = order(&server, &secret);
    let task = Api::made(&server, "north", &["viewer"]).get("/purchases")["purchases"][0]["task"].clone();
    let task = task.as_str().unwrap();
    let south = Api::made(&server, "south", &["admin"]);
    for path in [
        format!("/systems/gate/runs/{run}"),
        format!("/tasks/{task}/money"),
        format!("/tasks/{run}/money"),
        format!("/orders/{order}"),
        "/sites/hats/stock".to_owned(),
        "/sites/hats/carts".to_owned(),
    ] {
        problem(&south.ask("GET", &path), 404);
    }
    for path in [
        "/systems",
        "/systems/gate/runs",
        "/ledger",
        "/ledger/accounts",
        "/ledger/escrow",
        "/purchases",
        "/listings",
        "/sites",
        "/orders",
        "/orders?site=hats",
        &format!("/ledger?account=available:{}", buyer.id),
    ] {
        let text = south.ask("GET", path).text();
        for hidden in [&*run, task, &*bought, &*order, &*buyer.id, "hats", "Sun hat", "adalbert"] {
            assert!(!text.contains(hidden), "{path} has {hidden}: {text}");
        }
    }
    problem(&south.send("POST", "/ledger:verify", &json!({})), 403);
    // Its own tenant, and a viewer of all, see them.
    for api in [Api::made(&server, "north", &["viewer"]), Api::made(&server, "south", &["viewer", "all-tenants"])] {
        assert_eq!(api.get("/systems/gate/runs")["runs"][0]["id"], run);
        assert_eq!(api.get("/purchases")["purchases"][0]["id"], bought);
        assert_eq!(api.get("/orders")["orders"][0]["id"], order);
        assert_eq!(api.get("/ledger")["entries"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn a_system_of_one_tenant_is_no_system_for_others() {
    let server = start(&format!("{PRODUCTS}mounts: {{ gate: {{ tenant: north }} }}\n"));
    assert_eq!(Api::made(&server, "north", &["viewer"]).get("/systems/gate")["name"], "gate");
    let south = Api::made(&server, "south", &["admin"]);
    assert_eq!(south.get("/systems")["systems"], json!([]));
    for path in ["/systems/gate", "/systems/gate/runs"] {
        problem(&south.ask("GET", path), 404);
    }
}

#[test]
fn a_session_lists_the_pages_of_the_products_that_are_served() {
    let pages = |config: &str| {
        let server = start(config);
        Api::made(&server, "north", &["viewer"]).get("/session")["pages"].clone()
    };
    assert_eq!(pages(""), json!([]));
    let mut all: Vec<String> = serde_json::from_value(pages(PRODUCTS)).unwrap();
    all.sort();
    assert_eq!(all, ["market", "shop", "systems"]);
}
