//! A shop's REST over its socket: the catalogue, carts, checkout sessions, orders; who may, what is refused, and what a
//! repeat does.

use std::sync::Arc;

use engine::Engine;
use gateway::Settings;
use gateway::settings::{AuthMode, MountSettings, RateLimit};
use market::service::MarketConfig;
use model::Time;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use shop::service::{OnPage, Payments, Shop, ShopConfig};
use shop::{ShopService, StoreAgentSettings};
use shop_rules::import::CatalogueFormat;
use shop_rules::{Currency, Minor, ShopRules, Site, SiteTerms as Terms};

use crate::aly::{Keeper, key_of};
use testkit::{Running, key, settings, start_on};

const HATS: &str = r#"{
  "products": [
    {"id": "sun", "name": "Sun hat", "subtitle": "wide", "price": "19.90", "stock": 50, "tags": ["summer"]},
    {"id": "felt", "name": "Felt hat", "price": "30.00", "tags": ["winter"], "variants": [
      {"id": "s", "options": {"Size": "S"}, "stock": 3}, {"id": "l", "options": {"Size": "L"}, "stock": 0}]},
    {"id": "pattern", "name": "Knitting <pattern>", "price": "5.00", "is_digital": true,
     "downloads": ["https://files.example/pattern.pdf?a=1&b=2"], "tags": ["winter", "Wool & more"]}
  ],
  "coupons": [{"code": "TEN", "percent": "10"}]
}"#;
const STORE: &str = "/api/storefront/v1";
const SESSIONS: &str = "/api/ucp/v1/checkout-sessions";

/// A server with two shops, each of a workspace of its own, and keys.
pub(crate) struct Mall {
    pub(crate) running: Running,
    pub(crate) shop: Shop,
    http: reqwest::Client,
    /// Of the workspace of `acme`: good for everything, and for reading.
    owner: String,
    reader: String,
    /// Of another workspace.
    foreign: String,
}

/// An answer: its status and its JSON.
pub(crate) type Answer = (u16, Value);

pub(crate) async fn mall() -> Mall {
    mall_with(|_| {}).await
}

async fn mall_with(change: impl FnOnce(&mut Settings)) -> Mall {
    mall_paid(Arc::new(OnPage), change).await
}

/// With money taken in a way of its own.
pub(crate) async fn mall_paid(payments: Arc<dyn Payments>, change: impl FnOnce(&mut Settings)) -> Mall {
    gateway::crypto::install();
    let agents = agents::BUILTIN.iter().map(|builtin| (builtin.build)(&agents::BuiltinSettings::default())).collect();
    let store = Arc::new(stores::memory::MemoryStore::new());
    let engine = Engine::builder(store).agents(agents).start().await.unwrap();
    let shop = Shop::start_with(engine.clone(), ShopConfig::default(), false, payments).await.unwrap();
    let usd = Currency::check("USD").unwrap();
    let mut acme = Site::new("acme".into(), "acme-ws".into(), "Acme & sons", usd.clone(), Time(1));
    acme.hosts = vec!["acme.shop.example".into()];
    acme.terms = Terms { shipping: Minor(490), ..Terms::default() };
    shop.put_site(&acme).await.unwrap();
    shop.put_site(&Site::new("other".into(), "other-ws".into(), "Other", usd, Time(1))).await.unwrap();
    shop.import(&acme.slug, CatalogueFormat::Json, HATS).await.unwrap();
    let (mut settings, mut aly) = (settings(), StoreAgentSettings::new("scripted", Arc::new(Keeper)));
    settings.keys = vec![key("house", "acme-ws")];
    aly.shop = Some(shop.clone());
    settings.products.push(Arc::new(ShopService::new(engine.clone(), aly)));
    settings.product_scopes = shop::aly::SCOPES.iter().map(|(name, _)| *name).collect();
    change(&mut settings);
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let running = start_on(engine, settings, http.clone()).await;
    let owner = key_of(&running, "acme-ws", &[]).await;
    let reader = key_of(&running, "acme-ws", &["read:orders", "read:content"]).await;
    let foreign = key_of(&running, "other-ws", &[]).await;
    Mall { running, shop, http, owner, reader, foreign }
}

impl Mall {
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, self.running.url(path))
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        said(self.request(Method::GET, path)).await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Answer {
        said(self.request(method, path).json(body)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, body).await
    }

    /// With an idempotency key.
    async fn keyed(&self, key: &str, path: &str, body: &Value) -> Answer {
        said(self.request(Method::POST, path).header("idempotency-key", key).json(body)).await
    }

    /// With a credential.
    async fn with(&self, token: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let request = self.request(method, path).bearer_auth(token);
        said(if let Some(body) = body { request.json(body) } else { request }).await
    }

    /// A cart with so much of something in it; its path.
    pub(crate) async fn cart(&self, product: &str, quantity: u32) -> String {
        let (status, cart) = self.post(&format!("{STORE}/carts"), &json!({ "site_slug": "acme" })).await;
        assert_eq!((status, &cart["status"]), (201, &json!("active")), "{cart}");
        let path = format!("{STORE}/carts/{}", cart["token"].as_str().unwrap());
        let wanted = json!({ "product_id": product, "quantity": quantity, "variant_options": options(product) });
        let (status, cart) = self.post(&format!("{path}/items"), &wanted).await;
        assert_eq!(status, 200, "{cart}");
        path
    }

    /// A checkout of such a cart.
    pub(crate) async fn checkout(&self, product: &str, quantity: u32) -> Value {
        let cart = self.cart(product, quantity).await;
        let (status, begun) = self.post(&format!("{cart}/checkout"), &json!({})).await;
        assert_eq!(status, 201, "{begun}");
        assert_eq!(begun["redirect_url"], begun["checkout"]["complete_url"]);
        begun["checkout"].clone()
    }

    /// An order, by its checkout.
    async fn order(&self, product: &str, quantity: u32) -> (Value, Value) {
        let checkout = self.checkout(product, quantity).await;
        let (status, done) = self.complete(&checkout, "key-1").await;
        assert_eq!(status, 200, "{done}");
        (done["order"].clone(), checkout)
    }

    async fn complete(&self, checkout: &Value, key: &str) -> Answer {
        let path = format!("{SESSIONS}/{}/complete", checkout["id"].as_str().unwrap());
        let buyer = json!({ "email": "ada@example.com", "name": "Ada", "address": "1 Main St" });
        self.keyed(key, &path, &json!({ "confirmation_token": checkout["confirmation_token"], "buyer": buyer })).await
    }

    pub(crate) async fn left(&self, product: &str) -> Value {
        self.get(&format!("{STORE}/stores/acme/products/{product}")).await.1["variants"][0]["stock"].clone()
    }

    /// That stock and money are what the rows say, and that the market's check of the one journal agrees.
    pub(crate) async fn adds_up(&self) {
        let report = self.shop.verify().await.unwrap();
        assert!(report.differences.is_empty(), "{report:?}");
        let engine = self.shop.engine().clone();
        let market = market::service::Market::start(engine, MarketConfig::default(), false).await.unwrap();
        let report = market.verify().await.unwrap();
        assert!(report.is_clean(), "{:?}", report.words().collect::<Vec<_>>());
    }

    /// From now on things expire at once.
    pub(crate) fn out_of_time(&self) {
        let rules = ShopRules { cart_ms: 0, checkout_ms: 0 };
        self.shop.set_config(ShopConfig { rules, ..ShopConfig::default() });
    }
}

fn options(product: &str) -> Value {
    if product == "felt" { json!({ "Size": "S" }) } else { json!({}) }
}

pub(crate) async fn said(request: RequestBuilder) -> Answer {
    let answer = request.send().await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/json");
    assert_eq!(answer.headers()["cache-control"], "no-store");
    (answer.status().as_u16(), answer.json().await.unwrap())
}

/// Sees to it that something is refused, with words.
#[track_caller]
fn refused(answer: &Answer, status: u16, code: &str) {
    let error = &answer.1["error"];
    assert_eq!((answer.0, error["code"].as_str()), (status, Some(code)), "{answer:?}");
    assert!(error["message"].as_str().is_some_and(|words| words.len() > 10), "{answer:?}");
    assert!(error["details"].is_array(), "{answer:?}");
}

fn ids(page: &Value) -> Vec<&str> {
    page["products"].as_array().unwrap().iter().map(|product| product["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_catalogue_is_read_by_every_address() {
    let mall = mall().await;
    let (status, store) = mall.get(&format!("{STORE}/stores/acme")).await;
    assert_eq!((status, &store["title"], &store["product_count"]), (200, &json!("Acme & sons"), &json!(3)));
    let (_, sun) = mall.get(&format!("{STORE}/stores/acme/products/sun")).await;
    assert_eq!((&sun["price"]["amount"], &sun["price"]["currency"]), (&json!(1_990), &json!("USD")));
    assert_eq!((&sun["site_slug"], &sun["variants"][0]["stock"]), (&json!("acme"), &json!(50)));
    for path in ["/products/sun?site_slug=acme", "/stores/acme/products/sun"] {
        assert_eq!(mall.get(&format!("{STORE}{path}")).await, (200, sun.clone()), "{path}");
        assert_eq!(mall.get(&format!("/aly{STORE}{path}")).await, (200, sun.clone()), "below the mount");
    }
    // Where a product says it is, it is.
    let answer = mall.http.get(sun["url"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(answer.json::<Value>().await.unwrap(), sun);

    // On a shop's own host a request does not name the shop.
    let at_home = |path: &str| mall.request(Method::GET, &format!("{STORE}{path}")).header("host", "acme.shop.example");
    assert_eq!(said(at_home("/products/sun")).await.1["id"], "sun");
    assert_eq!(ids(&said(at_home("/products")).await.1).len(), 3);
    refused(&mall.get(&format!("{STORE}/products/sun")).await, 400, "invalid_request");

    let batch = json!({ "site_slug": "acme", "ids": ["pattern", "none", "sun", "a b"] });
    let (_, found) = mall.post(&format!("{STORE}/products/batch"), &batch).await;
    assert_eq!((ids(&found), &found["missing"]), (vec!["pattern", "sun"], &json!(["none", "a b"])));
    let many = json!({ "site_slug": "acme", "ids": vec!["sun"; 51] });
    refused(&mall.post(&format!("{STORE}/products/batch"), &many).await, 400, "invalid_request");

    let (_, found) = mall.get(&format!("{STORE}/collections?site_slug=acme")).await;
    let tags: Vec<(&str, u64)> = found["collections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["tag"].as_str().unwrap(), one["product_count"].as_u64().unwrap()))
        .collect();
    assert_eq!((tags, &found["complete"]), (vec![("summer", 1), ("winter", 2), ("Wool & more", 1)], &json!(true)));

    refused(&mall.get(&format!("{STORE}/stores/nobody")).await, 404, "not_found");
    refused(&mall.get(&format!("{STORE}/stores/No%20slug/products")).await, 404, "not_found");
    refused(&mall.get(&format!("{STORE}/stores/acme/products/none")).await, 404, "not_found");
    refused(&mall.get(&format!("{STORE}/stores/other/products/sun")).await, 404, "not_found");
    refused(&mall.get(&format!("{STORE}/nothing")).await, 404, "not_found");
    let wrong = mall.request(Method::DELETE, &format!("{STORE}/stores/acme")).send().await.unwrap();
    assert_eq!((wrong.status().as_u16(), &wrong.headers()["allow"]), (405, &"GET, HEAD".parse().unwrap()));
    let head = mall.request(Method::HEAD, &format!("{STORE}/stores/acme")).send().await.unwrap();
    assert_eq!(head.status(), 200);
}

#[tokio::test]
async fn a_list_is_turned_page_by_page_and_numbers_are_checked() {
    let mall = mall().await;
    let mut seen = Vec::new();
    let mut path = format!("{STORE}/stores/acme/products?limit=2");
    loop {
        let (status, page) = mall.get(&path).await;
        assert_eq!((status, &page["total"]), (200, &json!(3)), "{page}");
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("{STORE}/stores/acme/products?limit=2&cursor={next}");
    }
    assert_eq!(seen, ["felt", "pattern", "sun"]);
    let search = async |query: &str| mall.get(&format!("{STORE}/search?site_slug=acme&{query}")).await;
    for (query, found) in [
        ("q=hats", vec!["felt", "sun"]),
        ("q=sun", vec!["sun"]),
        ("tag=winter", vec!["felt", "pattern"]),
        ("q=hat&price_max=2000", vec!["sun"]),
        ("price_min=600", vec!["felt", "sun"]),
        ("in_stock=false", vec![]),
        ("q=nothing", vec![]),
    ] {
        let (status, page) = search(query).await;
        assert_eq!((status, ids(&page)), (200, found), "{query}");
    }
    for bad in [
        "limit=0",
        "limit=101",
        "limit=x",
        "limit=%2B5",
        "limit=5.0",
        "limit=99999999999999999999",
        "price_min=-1",
        "price_max=1.5",
        "price_min=2&price_max=1",
        "in_stock=maybe",
        "cursor=x",
        "cursor=7.x",
        "q=a&q=b",
        "q=%00",
        "q=%zz",
    ] {
        refused(&search(bad).await, 400, "invalid_request");
    }
    let (_, bad) = search("limit=0").await;
    assert_eq!(bad["error"]["details"][0]["field"], "limit");
}

#[tokio::test]
async fn a_cart_is_filled_changed_and_thrown_away() {
    let mall = mall().await;
    let cart = mall.cart("sun", 2).await;
    let (_, held) = mall.get(&cart).await;
    assert_eq!((&held["items"][0]["id"], &held["totals"]["total"]), (&json!("sun:default"), &json!(2 * 1_990 + 490)));
    assert!(held["expires_at"].is_string() && held["site_slug"] == "acme", "{held}");

    let item = format!("{cart}/items/sun:default");
    let (_, held) = mall.send(Method::PUT, &item, &json!({ "quantity": 3 })).await;
    assert_eq!(held["items"][0]["quantity"], 3);
    let felt = json!({ "product_id": "felt", "variant_id": "s" });
    let (_, held) = mall.post(&format!("{cart}/items"), &felt).await;
    assert_eq!((&held["items"][1]["id"], &held["items"][1]["quantity"]), (&json!("felt:s"), &json!(1)));
    let (_, held) = said(mall.request(Method::DELETE, &format!("{cart}/items/felt"))).await;
    assert_eq!(held["items"].as_array().unwrap().len(), 1, "a product is enough where it is there once");
    refused(&said(mall.request(Method::DELETE, &format!("{cart}/items/felt:s"))).await, 404, "not_in_cart");

    let (_, held) = mall.post(&format!("{cart}/coupon"), &json!({ "code": "ten" })).await;
    assert_eq!((&held["coupon"], &held["totals"]["discount"]), (&json!("TEN"), &json!(597)));
    refused(&mall.post(&format!("{cart}/coupon"), &json!({ "code": "NONE" })).await, 404, "coupon_unknown");
    let (_, held) = said(mall.request(Method::DELETE, &format!("{cart}/coupon"))).await;
    assert_eq!((&held["coupon"], &held["totals"]["discount"]), (&Value::Null, &json!(0)));
    let (_, held) = mall.send(Method::PUT, &cart, &json!({ "buyer": { "email": "ada@example.com" } })).await;
    assert_eq!(held["buyer"]["email"], "ada@example.com");
    refused(&mall.send(Method::PUT, &cart, &json!({ "buyer": { "email": "ada" } })).await, 400, "invalid_request");
    refused(&mall.send(Method::PUT, &cart, &json!({ "items": [] })).await, 400, "invalid_request");

    for _ in 0..2 {
        let (status, held) = said(mall.request(Method::DELETE, &cart)).await;
        assert_eq!((status, &held["status"]), (200, &json!("cancelled")));
    }
    refused(&mall.post(&format!("{cart}/items"), &felt).await, 409, "cart_closed");

    mall.out_of_time();
    let (_, old) = mall.post(&format!("{STORE}/carts"), &json!({ "site_slug": "acme" })).await;
    let old = format!("{STORE}/carts/{}", old["token"].as_str().unwrap());
    assert_eq!(mall.get(&old).await.1["status"], "expired");
    refused(&mall.post(&format!("{old}/items"), &felt).await, 410, "cart_expired");
}

#[tokio::test]
async fn what_cannot_be_in_a_cart_is_refused_with_its_field() {
    let mall = mall().await;
    let cart = mall.cart("sun", 1).await;
    let items = format!("{cart}/items");
    let sun = |quantity: &str| format!("{{\"product_id\":\"sun\",\"quantity\":{quantity}}}");
    let send = async |body: String| {
        said(mall.request(Method::POST, &items).header("content-type", "application/json").body(body)).await
    };
    for bad in ["-1", "1.5", "\"2\"", "1e3", "99999999999", "null", "[]"] {
        let answer = send(sun(bad)).await;
        refused(&answer, 400, "invalid_request");
        assert_eq!(answer.1["error"]["details"][0]["field"], "quantity", "{bad}");
    }
    for bad in ["0", "1000"] {
        refused(&send(sun(bad)).await, 400, "invalid_quantity");
    }
    refused(&send(sun("51")).await, 409, "out_of_stock");
    refused(&send("{\"product_id\":\"felt\"}".to_owned()).await, 400, "variant_required");
    refused(&send("{\"product_id\":\"felt\",\"variant_id\":\"l\"}".to_owned()).await, 409, "out_of_stock");
    refused(&send("{\"product_id\":\"none\"}".to_owned()).await, 404, "not_found");
    for bad in ["{", "[]", "\"x\"", "{\"quantity\":1}"] {
        refused(&send(bad.to_owned()).await, 400, "invalid_request");
    }
    refused(&send(format!("{{\"product_id\":\"{}\"}}", "x".repeat(70_000))).await, 413, "too_large");
    let text = mall.request(Method::POST, &items).header("content-type", "text/plain").body("{}");
    refused(&said(text).await, 415, "unsupported_media_type");
    let (_, held) = mall.get(&cart).await;
    assert_eq!(held["items"][0]["quantity"], 1, "nothing of all that was taken");

    for unknown in ["cart_00000000000000000000000000000000", "cart_x", "conf_00000000000000000000000000000000"] {
        refused(&mall.get(&format!("{STORE}/carts/{unknown}")).await, 404, "not_found");
        refused(&mall.post(&format!("{STORE}/carts/{unknown}/checkout"), &json!({})).await, 404, "not_found");
    }
    let empty = mall.post(&format!("{STORE}/carts"), &json!({ "site_slug": "acme" })).await.1;
    let path = format!("{STORE}/carts/{}/checkout", empty["token"].as_str().unwrap());
    refused(&mall.post(&path, &json!({})).await, 409, "cart_empty");
}

#[tokio::test]
async fn a_credential_that_is_shown_is_good_and_of_the_workspace() {
    let mall = mall().await;
    let cart = mall.cart("sun", 1).await;
    let (get, post) = (Method::GET, Method::POST);
    let new = json!({ "site_slug": "acme" });
    for token in [&mall.owner, &mall.reader, &"key-of-house".to_owned()] {
        assert_eq!(mall.with(token, get.clone(), &cart, None).await.0, 200);
        assert_eq!(mall.with(token, post.clone(), &format!("{STORE}/carts"), Some(&new)).await.0, 201);
    }
    for (method, path, body) in [
        (get.clone(), cart.clone(), None),
        (post.clone(), format!("{cart}/items"), Some(json!({ "product_id": "sun" }))),
        (post.clone(), format!("{STORE}/carts"), Some(new.clone())),
        (get.clone(), format!("{STORE}/stores/acme"), None),
        (get.clone(), format!("{STORE}/orders?site_slug=acme"), None),
        (get.clone(), "/api/x402/product/acme/sun".to_owned(), None),
    ] {
        refused(&mall.with(&mall.foreign, method.clone(), &path, body.as_ref()).await, 403, "forbidden_workspace");
        refused(&mall.with("aly_guessed", method, &path, body.as_ref()).await, 401, "unauthorized");
    }
    let checkout = mall.checkout("sun", 1).await;
    let (id, token) = (checkout["id"].as_str().unwrap(), checkout["confirmation_token"].as_str().unwrap());
    let path = format!("{SESSIONS}/{id}?token={token}");
    refused(&mall.with(&mall.foreign, get.clone(), &path, None).await, 403, "forbidden_workspace");
    let body = json!({ "confirmation_token": token, "buyer": { "email": "ada@example.com" } });
    for (end, body) in [("complete", &body), ("cancel", &json!({ "confirmation_token": token }))] {
        let request = mall.request(post.clone(), &format!("{SESSIONS}/{id}/{end}")).bearer_auth(&mall.foreign);
        refused(&said(request.header("idempotency-key", "k").json(body)).await, 403, "forbidden_workspace");
    }
    assert_eq!(mall.get(&path).await.1["status"], "open", "nothing was done");
    refused(&mall.get(&format!("{STORE}/orders?site_slug=acme")).await, 401, "unauthorized");
    let told = mall.request(get, &format!("{STORE}/orders?site_slug=acme")).send().await.unwrap();
    let how = told.headers()["www-authenticate"].to_str().unwrap().to_owned();
    assert!(how.contains("/.well-known/oauth-protected-resource"), "{how}");
}

/// Where every caller must be known, the storefront is closed to callers without a credential; a token is a credential.
#[tokio::test]
async fn where_everybody_has_to_be_known_a_token_is_enough() {
    let mall = mall_with(|settings| {
        settings.mounts =
            vec![("scripted".into(), MountSettings { door: Some(AuthMode::Required), ..MountSettings::default() })];
    })
    .await;
    refused(&mall.get(&format!("{STORE}/stores/acme")).await, 401, "unauthorized");
    refused(&mall.post(&format!("{STORE}/carts"), &json!({ "site_slug": "acme" })).await, 401, "unauthorized");
    let new = json!({ "site_slug": "acme" });
    let (status, cart) = mall.with(&mall.owner, Method::POST, &format!("{STORE}/carts"), Some(&new)).await;
    assert_eq!(status, 201);
    let path = format!("{STORE}/carts/{}", cart["token"].as_str().unwrap());
    assert_eq!(mall.post(&format!("{path}/items"), &json!({ "product_id": "pattern" })).await.0, 200);
    let (_, begun) = mall.post(&format!("{path}/checkout"), &json!({})).await;
    let page = mall.http.get(begun["redirect_url"].as_str().unwrap()).send().await.unwrap();
    assert_eq!(page.status(), 200);
    assert_eq!(mall.complete(&begun["checkout"], "k").await.0, 200);
}

#[tokio::test]
async fn a_repeat_with_its_key_is_one_request() {
    let mall = mall().await;
    let cart = mall.cart("sun", 1).await;
    let items = format!("{cart}/items");
    let two = json!({ "product_id": "sun", "quantity": 2 });
    for _ in 0..3 {
        let (status, held) = mall.keyed("add-1", &items, &two).await;
        assert_eq!((status, &held["items"][0]["quantity"]), (200, &json!(3)));
    }
    let other = json!({ "product_id": "sun", "quantity": 4 });
    refused(&mall.keyed("add-1", &items, &other).await, 409, "idempotency_conflict");
    refused(&mall.keyed("add-1", &format!("{cart}/checkout"), &json!({})).await, 409, "idempotency_conflict");
    assert_eq!(mall.keyed("add-2", &items, &two).await.1["items"][0]["quantity"], 5);
    refused(&mall.keyed(&"k".repeat(256), &items, &two).await, 400, "invalid_request");

    // A caller that is known may also make a cart once; two strangers who call it the same have one each.
    let new = json!({ "site_slug": "acme" });
    let make = async |token: Option<&str>| {
        let request =
            mall.request(Method::POST, &format!("{STORE}/carts")).header("idempotency-key", "cart-1").json(&new);
        let request = if let Some(token) = token { request.bearer_auth(token) } else { request };
        said(request).await.1["token"].clone()
    };
    assert_eq!(make(Some(&mall.owner)).await, make(Some(&mall.owner)).await);
    assert_ne!(make(None).await, make(None).await);

    let (_, begun) = mall.keyed("checkout-1", &format!("{cart}/checkout"), &json!({})).await;
    let (status, again) = mall.keyed("checkout-1", &format!("{cart}/checkout"), &json!({})).await;
    assert_eq!((status, &again), (201, &begun));
    refused(&mall.keyed("checkout-2", &format!("{cart}/checkout"), &json!({})).await, 409, "cart_in_checkout");
    assert_eq!(mall.left("sun").await, 45);

    let checkout = &begun["checkout"];
    let (status, done) = mall.complete(checkout, "buy").await;
    assert_eq!((status, &done["status"], &done["order"]["state"]), (200, &json!("completed"), &json!("pending")));
    assert_eq!(mall.complete(checkout, "buy").await, (200, done), "the same order");
    refused(&mall.complete(checkout, "buy-more").await, 409, "token_used");
    mall.adds_up().await;
}

#[tokio::test]
async fn a_checkout_is_begun_from_a_cart_or_from_lines() {
    let mall = mall().await;
    let cart = mall.cart("sun", 1).await;
    let token = cart.rsplit('/').next().unwrap();
    let by_cart = json!({ "cart_token": token, "buyer": { "email": "ada@example.com" } });
    refused(&mall.post(SESSIONS, &by_cart).await, 400, "idempotency_key_required");
    let (status, begun) = mall.keyed("k", SESSIONS, &by_cart).await;
    assert_eq!((status, &begun["status"], &begun["buyer"]["email"]), (201, &json!("open"), &json!("ada@example.com")));
    assert_eq!(mall.keyed("k", SESSIONS, &by_cart).await, (201, begun.clone()));
    let path = format!("{SESSIONS}/{}", begun["id"].as_str().unwrap());
    let conf = begun["confirmation_token"].as_str().unwrap();
    let (status, seen) = mall.get(&format!("{path}?token={conf}")).await;
    assert_eq!((status, seen.get("confirmation_token")), (200, None), "a token is told once");
    refused(&mall.get(&path).await, 400, "invalid_request");
    refused(&mall.get(&format!("{path}?token=conf_00000000000000000000000000000000")).await, 404, "not_found");

    let lines = json!({
        "site_slug": "acme", "coupon": "TEN",
        "line_items": [{ "product_id": "sun", "quantity": 4 }, { "product_id": "felt", "variant_options": { "Size": "S" } }],
    });
    let by_lines = async |token: Option<&str>, key: &str, lines: &Value| {
        let request = mall.request(Method::POST, SESSIONS).header("idempotency-key", key).json(lines);
        said(if let Some(token) = token { request.bearer_auth(token) } else { request }).await
    };
    let (status, begun) = by_lines(Some(&mall.owner), "lines", &lines).await;
    assert_eq!((status, begun["items"].as_array().unwrap().len()), (201, 2), "{begun}");
    assert_eq!((&begun["totals"]["discount"], mall.left("sun").await), (&json!(1_096), json!(45)));
    assert_eq!(by_lines(Some(&mall.owner), "lines", &lines).await, (201, begun));
    assert_eq!(mall.left("sun").await, 45, "a repeat sets nothing aside");
    let fewer = json!({ "site_slug": "acme", "line_items": [{ "product_id": "sun" }] });
    refused(&by_lines(Some(&mall.owner), "lines", &fewer).await, 409, "idempotency_conflict");
    assert_eq!(by_lines(None, "lines", &fewer).await.0, 201);

    let too_many = json!({ "site_slug": "acme", "line_items": [{ "product_id": "sun" }, { "product_id": "felt", "variant_id": "l" }] });
    refused(&by_lines(None, "x", &too_many).await, 409, "out_of_stock");
    assert_eq!(mall.left("sun").await, 44, "nothing stays set aside");
    for bad in [
        json!({}),
        json!({ "cart_token": token, "line_items": [] }),
        json!({ "site_slug": "acme", "line_items": [] }),
        json!({ "site_slug": "acme", "line_items": [{ "product_id": "sun", "quantity": -1 }] }),
        json!({ "site_slug": "acme", "line_items": vec![json!({ "product_id": "sun" }); 51] }),
    ] {
        refused(&by_lines(None, "y", &bad).await, 400, "invalid_request");
    }
    mall.adds_up().await;
}

#[tokio::test]
async fn a_checkout_is_cancelled_expires_or_is_completed_and_never_two_of_them() {
    let mall = mall().await;
    let checkout = mall.checkout("sun", 5).await;
    let path = format!("{SESSIONS}/{}", checkout["id"].as_str().unwrap());
    let token = json!({ "confirmation_token": checkout["confirmation_token"] });
    refused(&mall.post(&format!("{path}/cancel"), &token).await, 400, "idempotency_key_required");
    for _ in 0..2 {
        let (status, seen) = mall.keyed("c", &format!("{path}/cancel"), &token).await;
        assert_eq!((status, &seen["status"]), (200, &json!("cancelled")));
    }
    refused(&mall.complete(&checkout, "k").await, 410, "checkout_closed");
    assert_eq!(mall.left("sun").await, 50);

    let checkout = mall.checkout("sun", 5).await;
    let stolen = json!({ "id": checkout["id"], "confirmation_token": "conf_00000000000000000000000000000000" });
    refused(&mall.complete(&stolen, "k").await, 404, "not_found");
    let nobody = json!({ "confirmation_token": checkout["confirmation_token"], "buyer": { "email": "nobody" } });
    let complete = format!("{SESSIONS}/{}/complete", checkout["id"].as_str().unwrap());
    let answer = mall.keyed("k", &complete, &nobody).await;
    refused(&answer, 400, "invalid_request");
    assert_eq!(answer.1["error"]["details"][0]["field"], "email");
    // Many at once, each with a key of its own: one of them has bought.
    let all = futures_util::future::join_all((0..20).map(|n| {
        let (mall, checkout) = (&mall, &checkout);
        async move { mall.complete(checkout, &format!("k-{n}")).await }
    }))
    .await;
    assert_eq!(all.iter().filter(|(status, _)| *status == 200).count(), 1, "{all:?}");
    for late in all.iter().filter(|(status, _)| *status != 200) {
        refused(late, 409, "token_used");
    }
    assert_eq!(mall.left("sun").await, 45);

    let cart = mall.cart("sun", 1).await;
    mall.out_of_time();
    let (_, begun) = mall.post(&format!("{cart}/checkout"), &json!({})).await;
    refused(&mall.complete(&begun["checkout"], "k").await, 410, "checkout_closed");
    mall.adds_up().await;
}

#[tokio::test]
async fn an_order_is_read_by_its_token_and_dealt_with_by_its_shop() {
    let mall = mall().await;
    let open = mall.checkout("sun", 1).await;
    let by_token = |token: &Value| format!("{STORE}/orders/{}", token.as_str().unwrap());
    refused(&mall.get(&by_token(&open["confirmation_token"])).await, 404, "not_found");
    refused(&mall.get(&by_token(&json!("conf_00000000000000000000000000000000"))).await, 404, "not_found");
    let (order, checkout) = mall.order("sun", 3).await;
    let (status, seen) = mall.get(&by_token(&checkout["confirmation_token"])).await;
    assert_eq!((status, &seen), (200, &order));
    assert_eq!(
        (&seen["shipping"]["address"], &seen["totals"]["total"]),
        (&json!("1 Main St"), &json!(3 * 1_990 + 490))
    );

    let post = async |token: &str, id: &Value, act: &str, key: &str, body: Value| {
        let path = format!("{STORE}/orders/{}/{act}", id.as_str().unwrap());
        said(mall.request(Method::POST, &path).bearer_auth(token).header("idempotency-key", key).json(&body)).await
    };
    let id = &order["order_id"];
    refused(
        &mall.post(&format!("{STORE}/orders/{}/refund", id.as_str().unwrap()), &json!({})).await,
        401,
        "unauthorized",
    );
    refused(&post(&mall.reader, id, "refund", "k", json!({})).await, 403, "forbidden_scope");
    refused(&post(&mall.foreign, id, "refund", "k", json!({})).await, 404, "not_found");
    refused(&post(&mall.owner, &json!("ord_none"), "refund", "k0", json!({})).await, 404, "not_found");
    let part = json!({ "lines": [{ "line": 0, "quantity": 1 }], "tracking": "T-1" });
    for _ in 0..2 {
        let (status, sent) = post(&mall.owner, id, "fulfill", "part", part.clone()).await;
        assert_eq!(
            (status, &sent["state"], &sent["items"][0]["fulfilled"]),
            (200, &json!("partially_fulfilled"), &json!(1))
        );
        assert_eq!(sent["shipping"]["tracking"], json!(["T-1"]), "a repeat sends nothing twice");
    }
    for bad in [json!({ "lines": [{ "line": 0, "quantity": 0 }] }), json!({ "lines": [{ "line": -1, "quantity": 1 }] })]
    {
        refused(&post(&mall.owner, id, "fulfill", "bad", bad).await, 400, "invalid_request");
    }
    for bad in [json!({ "lines": [{ "line": 7, "quantity": 1 }] }), json!({ "lines": [{ "line": 0, "quantity": 9 }] })]
    {
        refused(&post(&mall.owner, id, "fulfill", "bad", bad).await, 409, "more_than_ordered");
    }
    refused(&post(&mall.owner, id, "cancel", "k1", json!({})).await, 409, "order_state");
    assert_eq!(post(&mall.owner, id, "fulfill", "rest", json!({})).await.1["state"], "fulfilled");
    assert_eq!(post(&mall.owner, id, "return", "back", json!({})).await.1["state"], "returned");
    assert_eq!(mall.left("sun").await, 49);
    refused(&post(&mall.owner, id, "refund", "k2", json!({})).await, 409, "order_state");

    let (fetched, _) = mall.order("pattern", 1).await;
    assert_eq!(fetched["downloads"][0]["url"], "https://files.example/pattern.pdf?a=1&b=2");
    let (third, _) = mall.order("sun", 1).await;
    assert_eq!(post(&mall.owner, &third["order_id"], "cancel", "c3", json!({})).await.1["state"], "cancelled");
    let list = async |query: &str| {
        mall.with(&mall.reader, Method::GET, &format!("{STORE}/orders?site_slug=acme{query}"), None).await
    };
    let (mut seen, mut query, mut pages) = (Vec::new(), "&limit=1".to_owned(), 0);
    loop {
        let (status, page) = list(&query).await;
        assert_eq!(status, 200, "{page}");
        pages += 1;
        seen.extend(page["orders"].as_array().unwrap().iter().map(|order| order["order_id"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        query = format!("&limit=1&cursor={next}");
    }
    let mut expected = vec![id.clone(), fetched["order_id"].clone(), third["order_id"].clone()];
    seen.sort_by_key(Value::to_string);
    expected.sort_by_key(Value::to_string);
    assert_eq!((pages, seen), (3, expected));
    assert_eq!(list("&limit=3").await.1["next_cursor"], Value::Null);
    for bad in ["&cursor=x", "&cursor=x.y", "&limit=0"] {
        refused(&list(bad).await, 400, "invalid_request");
    }
    refused(
        &mall.with(&mall.foreign, Method::GET, &format!("{STORE}/orders?site_slug=acme"), None).await,
        403,
        "forbidden_workspace",
    );
    mall.adds_up().await;
}

/// The address that the skill x402-purchase tells: it takes no payment and says how to buy all the same.
#[tokio::test]
async fn whoever_would_pay_over_http_is_told_the_way() {
    let mall = mall().await;
    let (status, told) = mall.get("/api/x402/product/acme/sun?quantity=2&email=ada@example.com").await;
    assert_eq!((status, &told["x402Version"], &told["accepts"]), (402, &json!(1), &json!([])));
    let error = told["error"].as_str().unwrap();
    assert!(
        error.contains("none was taken") && error.contains(&mall.running.url("/api/storefront/v1/carts")),
        "{error}"
    );
    let paid = mall.request(Method::GET, "/api/x402/product/acme/sun").header("x-payment", "e30=");
    assert_eq!(said(paid).await.0, 402, "a payment is not taken");
    assert_eq!(mall.get("/api/x402/product/acme/felt").await.0, 402);
    refused(&mall.get("/api/x402/product/acme/felt?variant_id=l").await, 409, "out_of_stock");
    refused(&mall.get("/api/x402/product/acme/felt?variant_id=xl").await, 400, "variant_required");
    refused(&mall.get("/api/x402/product/acme/none").await, 404, "not_found");
    refused(&mall.get("/api/x402/product/acme/sun?quantity=51").await, 409, "out_of_stock");
    for bad in ["quantity=0", "quantity=-1", "quantity=1000", "quantity=two", "email=ada"] {
        refused(&mall.get(&format!("/api/x402/product/acme/sun?{bad}")).await, 400, "invalid_request");
    }
}

#[tokio::test]
async fn whoever_comes_too_often_is_told_when_to_come_again() {
    let mall = mall_with(|settings| {
        let per_minute = std::num::NonZeroU32::new(1).unwrap();
        settings.throttle.per_caller = Some(RateLimit { per_minute, burst: std::num::NonZeroU32::new(2).unwrap() });
    })
    .await;
    for _ in 0..2 {
        assert_eq!(mall.get(&format!("{STORE}/stores/acme")).await.0, 200);
    }
    let late = mall.request(Method::GET, &format!("{STORE}/stores/acme")).send().await.unwrap();
    assert!(late.headers().contains_key("retry-after"));
    refused(&(late.status().as_u16(), late.json().await.unwrap()), 429, "rate_limited");
    let page = mall.request(Method::GET, "/checkout/cs_x?token=conf_x").send().await.unwrap();
    assert_eq!(
        (page.status().as_u16(), &page.headers()["content-type"]),
        (429, &"text/html; charset=utf-8".parse().unwrap())
    );
}

#[tokio::test]
async fn without_a_shop_there_is_nothing() {
    let running = crate::aly::open(|_, _| {}).await;
    for path in
        ["/api/storefront/v1/stores/acme", "/api/ucp/v1/checkout-sessions", "/checkout/cs_x", "/aly/checkout/cs_x"]
    {
        assert_eq!(running.get(path).send().await.unwrap().status(), 404, "{path}");
    }
}
