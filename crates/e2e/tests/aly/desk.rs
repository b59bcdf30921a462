//! Helpers: a server with shops, and its callers with a workspace token or without one.

use std::process::Output;

use e2e::http::{Connection, Request, Response};
use e2e::server::Options;
use e2e::{Client, Events, Server, fresh_id, parts};
use serde_json::{Value, json};

pub(crate) const BASE: &str = "/api/a2a";
/// The key of the workspace of [`config`].
pub(crate) const KEY: &str = "key-of-the-shop-0123456789";
/// A key of another workspace.
pub(crate) const STRANGER: &str = "key-of-a-stranger-0123456789";

/// The demo, with a shop of hats.
pub(crate) fn demo() -> Server {
    Server::start(&[])
}

/// A token of the demo's shop.
pub(crate) fn token(server: &Server, name: &str) -> String {
    let text = std::fs::read(server.data().join("demo.json")).unwrap();
    let demo: Value = serde_json::from_slice(&text).unwrap();
    demo["aly"][name].as_str().unwrap_or_else(|| panic!("{name}: {demo}")).to_owned()
}

/// A shop `acme` and nothing else, with keys of its own workspace and of another; `more` goes into `aly`.
pub(crate) fn shop(more: &str) -> Options {
    shop_and(more, "")
}

/// The same, with further config sections.
pub(crate) fn shop_and(more: &str, beside: &str) -> Options {
    let config = format!(
        "
{beside}
aly:
  sites: {{ acme: {{ workspace: acme, title: Acme, currency: USD }} }}
  {more}
auth:
  keys:
    - {{ name: till, tenant: acme, key: 'env:SHOP_KEY' }}
    - {{ name: stranger, tenant: elsewhere, key: 'env:STRANGER_KEY' }}
"
    );
    Server::options().config(&config).env("SHOP_KEY", KEY).env("STRANGER_KEY", STRANGER)
}

/// A caller without a token.
pub(crate) fn anybody(server: &Server) -> Client {
    server.at(BASE)
}

pub(crate) fn with_token(server: &Server, token: &str) -> Client {
    anybody(server).with("Authorization", &format!("Bearer {token}"))
}

/// The owner of the demo's shop.
pub(crate) fn owner(server: &Server) -> Client {
    with_token(server, &token(server, "token"))
}

/// A message with a skill and its arguments.
pub(crate) fn payload(data: Value) -> Value {
    parts(json!([{ "mediaType": "application/json", "data": data }]))
}

/// Sends it and returns the task.
pub(crate) fn skill(client: &Client, data: Value) -> Value {
    client.send(payload(data))
}

/// A task that waits for an answer, because the message names no store.
pub(crate) fn open_task(client: &Client) -> String {
    let task = client.send(e2e::message("Search for hats."));
    assert_eq!(state(&task), "TASK_STATE_INPUT_REQUIRED", "{task}");
    text(&task["id"])
}

pub(crate) fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap_or_else(|| panic!("{task}"))
}

/// The data of the task's only artifact.
pub(crate) fn made<'a>(task: &'a Value, name: &str) -> &'a Value {
    let artifacts = task["artifacts"].as_array().unwrap_or_else(|| panic!("{task}"));
    assert_eq!(artifacts.len(), 1, "{task}");
    assert_eq!((&artifacts[0]["artifactId"], &artifacts[0]["name"]), (&json!(name), &json!(name)), "{task}");
    &artifacts[0]["parts"][0]["data"]
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// The error code of a call that must fail.
pub(crate) fn code(client: &Client, method: &str, params: Value) -> i64 {
    let error = match client.rpc(method, params) {
        Ok(result) => panic!("{method} was answered: {result}"),
        Err(error) => error,
    };
    assert!(error["message"].as_str().is_some_and(|words| !words.is_empty()), "{error}");
    error["code"].as_i64().unwrap()
}

/// The status and the error code of an HTTP+JSON call that must fail.
pub(crate) fn rest_code(response: &Response) -> (u16, i64) {
    let body = response.json();
    assert!(body["error"]["message"].as_str().is_some_and(|words| !words.is_empty()), "{body}");
    (response.status(), body["error"]["code"].as_i64().unwrap_or_else(|| panic!("{body}")))
}

/// The frames of a stream that ends by itself.
pub(crate) fn frames(stream: Result<Events, Response>) -> Vec<Value> {
    let mut events = stream.unwrap_or_else(|response| panic!("{} {}", response.status(), response.text()));
    events.rest().iter().map(|frame| serde_json::from_str(&frame.data).unwrap()).collect()
}

pub(crate) fn members(value: &Value) -> Vec<&str> {
    value.as_object().unwrap_or_else(|| panic!("{value}")).keys().map(String::as_str).collect()
}

/// The output of an operator's command.
pub(crate) fn operate(server: &Server, words: &[&str]) -> Value {
    said(&server.operate(&[words, &["--json"]].concat()).output().unwrap())
}

fn said(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Checks that stock and money add up.
pub(crate) fn verify(server: &Server) -> Value {
    let books = operate(server, &["market", "verify"]);
    assert_eq!((&books["clean"], &books["differences"]), (&json!(true), &json!([])), "{books}");
    let shops = operate(server, &["shop", "verify"]);
    assert_eq!((&shops["clean"], &shops["differences"]), (&json!(true), &json!([])), "{shops}");
    shops
}

/// Adds products to the stock of `acme`.
pub(crate) fn stock(server: &Server, rows: &str) {
    let file = tempfile::Builder::new().suffix(".csv").tempfile().unwrap();
    std::fs::write(file.path(), format!("id,name,price,stock\n{rows}\n")).unwrap();
    operate(server, &["shop", "import", "--site", "acme", file.path().to_str().unwrap()]);
}

/// The available stock of a product, from the public data.
pub(crate) fn left(server: &Server, product: &str) -> u64 {
    let told = server.get(&format!("/api/storefront/v1/stores/acme/products/{product}"));
    let told = told.json();
    told["variants"][0]["stock"].as_u64().unwrap_or_else(|| panic!("{told}"))
}

/// Completes a checkout, with an idempotency key.
pub(crate) fn complete(
    addr: std::net::SocketAddr,
    session: &str,
    confirmation: &str,
    key: &str,
) -> std::io::Result<Response> {
    let body = json!({ "confirmation_token": confirmation, "buyer": { "email": "ann@example.com", "name": "Ann" } });
    let path = format!("/api/ucp/v1/checkout-sessions/{session}/complete");
    let request = Request::new("POST", &path).header("Idempotency-Key", key).json(&body);
    Connection::open(addr)?.exchange(&request)
}

/// Fills a cart with some of one product: its token.
pub(crate) fn filled_cart(client: &Client, product: &str, quantity: u32) -> String {
    let cart = skill(client, json!({ "skill": "cart-management", "action": "create", "site_slug": "acme" }));
    let token = text(&made(&cart, "cart")["token"]);
    let add = json!({
        "skill": "cart-management", "action": "add", "site_slug": "acme",
        "cart_token": token, "product_id": product, "quantity": quantity,
    });
    let cart = skill(client, add);
    assert_eq!(made(&cart, "cart")["items"][0]["quantity"], quantity, "{cart}");
    token
}

/// Checks a cart out, which must succeed: the data of its artifact.
pub(crate) fn checked_out(client: &Client, cart: &str) -> Value {
    let task = skill(client, json!({ "skill": "checkout", "site_slug": "acme", "cart_token": cart }));
    assert_eq!(state(&task), "TASK_STATE_COMPLETED", "{task}");
    made(&task, "checkout").clone()
}

/// A new context.
pub(crate) fn own_context() -> String {
    format!("ctx_{}", fresh_id())
}
