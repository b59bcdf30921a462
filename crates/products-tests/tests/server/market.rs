//! The market's REST, over its socket.

mod demands;
mod externals;
mod files;
mod runtime;

use engine::Engine;
use gateway::{Settings, webhooks};
use market::service::{Market, MarketConfig, NewApiKey, NewUser};
use market::{MarketService, MarketSettings};
use market_rules::Ut;
use model::Limits;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use std::sync::Arc;

use testkit::{Running, start_on};

struct House {
    running: Running,
    market: Market,
    http: reqwest::Client,
}

const BUYER: &str = "u_buyer";
const SELLER: &str = "u_seller";

async fn house_with(uumit: impl FnOnce(MarketSettings) -> MarketSettings) -> House {
    house_in(Settings::test(&["echo"]), uumit).await
}

async fn house_in(settings: Settings, uumit: impl FnOnce(MarketSettings) -> MarketSettings) -> House {
    let agents = agents::BUILTIN.iter().map(|builtin| (builtin.build)(&agents::BuiltinSettings::default())).collect();
    let store = Arc::new(stores::memory::MemoryStore::new());
    let seal = webhooks::Seal::new(&[7; 32]).unwrap();
    let courier = webhooks::HttpWebhookSender::new(store.clone(), seal, None, webhooks::Options::default()).unwrap();
    let engine = Engine::builder(store).agents(agents).webhook_sender(Some(Arc::new(courier))).start().await.unwrap();
    let config = MarketConfig { agents: vec!["echo".into()], ..MarketConfig::default() };
    let market = Market::start(engine.clone(), config, true).await.unwrap();
    for user in [BUYER, SELLER] {
        let new = NewUser {
            id: Some(user.into()),
            account: Some(format!("{user}@example.org").into()),
            password: Some("correct horse battery".to_owned()),
            ..NewUser::default()
        };
        market.open_user(new).await.unwrap();
        market.issue_key(NewApiKey::User(user.into()), Some(&key(user))).await.unwrap();
    }
    let served = MarketService::new(uumit(MarketSettings::new(market.clone())));
    let settings = Settings { products: vec![Arc::new(served)], ..settings };
    let http = reqwest::Client::new();
    House { running: start_on(engine, settings, http.clone()).await, market, http }
}

async fn house() -> House {
    house_with(|uumit| uumit).await
}

fn key(user: &str) -> String {
    format!("uk_secret_of_{user}_0123456789abcdef")
}

impl House {
    fn at(&self, verb: Method, path: &str) -> RequestBuilder {
        self.http.request(verb, self.running.url(&format!("/api/v1{path}")))
    }

    fn by(&self, user: &str, verb: Method, path: &str) -> RequestBuilder {
        self.at(verb, path).header("X-Api-Key", key(user)).header("X-Platform-User-Id", user)
    }

    async fn post(&self, user: &str, path: &str, body: Value) -> (u16, Value) {
        told(self.by(user, Method::POST, path).json(&body)).await
    }

    async fn get(&self, user: &str, path: &str) -> (u16, Value) {
        told(self.by(user, Method::GET, path)).await
    }

    /// The answer to a request that succeeds.
    async fn done(&self, user: &str, path: &str, body: Value) -> Value {
        let (status, mut answer) = self.post(user, path, body).await;
        assert_eq!((status, &answer["code"]), (200, &json!(0)), "{path}: {answer}");
        answer["data"].take()
    }

    /// A capability on the market, of this price.
    async fn sold(&self, price: &str, more: Value) -> String {
        let mut draft = json!({
            "title": "OCR of invoices", "description": "Reads an invoice", "category": "documents",
            "capability_type": "service", "pricing_model": "per_use", "price_ut": price, "tags": ["ocr", "pdf"],
        });
        draft.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = self.done(SELLER, "/capabilities", draft).await;
        assert_eq!(made["status"], "draft");
        let id = made["id"].as_str().unwrap().to_owned();
        assert_eq!(
            self.done(SELLER, &format!("/capabilities/{id}/submit-review"), json!({})).await["status"],
            "active"
        );
        id
    }
}

async fn told(request: RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    assert_eq!(answer.headers()["content-type"], "application/json");
    let body: Value = answer.json().await.unwrap();
    assert!(body["timestamp"].as_i64().unwrap() > 1_700_000_000, "{body}");
    assert!(body["message"].is_string() && body.get("data").is_some(), "{body}");
    assert_eq!(body["code"] == 0, status == 200, "{body}");
    (status, body)
}

/// Status and code of a refusal.
fn refusal((status, body): &(u16, Value)) -> (u16, i64) {
    (*status, body["code"].as_i64().unwrap())
}

#[tokio::test]
async fn a_purchase_from_order_to_settlement() {
    let house = house().await;
    let capability = house.sold("0", json!({})).await;
    let order = json!({ "capability_id": capability, "context_id": "ctx-1", "input": { "page": 1 } });
    let ordered = house.done(BUYER, "/transactions", order).await;
    let id = ordered["id"].as_str().unwrap().to_owned();
    assert!(id.starts_with("tx_"), "{id}");
    for (name, value) in [
        ("status", json!("pending_freeze")),
        ("buyer_user_id", json!(BUYER)),
        ("seller_user_id", json!(SELLER)),
        ("transaction_type", json!("per_use")),
        ("price_ut", json!("0")),
        ("context_id", json!("ctx-1")),
        ("input", json!({ "page": 1 })),
        ("settled_at", json!(null)),
        ("decision_source", json!("agent_autonomous")),
    ] {
        assert_eq!(ordered[name], value, "{name}");
    }
    let at = |verb: &str| format!("/transactions/{id}/{verb}");
    assert_eq!(refusal(&house.post(SELLER, &at("accept"), json!({})).await), (409, 4501), "before the money is there");
    assert_eq!(refusal(&house.post(SELLER, &at("freeze"), json!({})).await), (403, 1003), "the buyer's part");
    // No body at all is as good as an empty one.
    let (status, frozen) = told(house.by(BUYER, Method::POST, &at("freeze"))).await;
    assert_eq!((status, &frozen["data"]["status"]), (200, &json!("frozen")));
    assert_eq!(house.done(SELLER, &at("accept"), json!({})).await["status"], "accepted");
    let empty = house.post(SELLER, &at("deliver"), json!({})).await;
    assert_eq!(refusal(&empty), (400, 1001), "{empty:?}");
    assert_eq!(empty.1["data"]["details"][0]["field"], "result_payload");
    let files = json!([{ "file_name": "a.pdf" }, { "file_name": "b.pdf", "deliverable_id": "d1", "access_id": "a1" }]);
    let delivery = json!({ "result_payload": { "total": "99.50" }, "deliverables": files });
    let delivered = house.done(SELLER, &at("deliver"), delivery).await;
    assert_eq!(
        delivered["deliverables"][1],
        json!({ "deliverable_id": "d1", "access_id": "a1", "file_name": "b.pdf" })
    );
    assert!(delivered["deliverables"][0]["access_id"].as_str().unwrap().len() > 20);
    let settled = house.done(BUYER, &at("confirm"), json!({})).await;
    assert_eq!((&settled["status"], &settled["result_payload"]), (&json!("settled"), &json!({ "total": "99.50" })));
    let late = house.post(BUYER, &at("cancel"), json!({})).await;
    assert_eq!((refusal(&late), &late.1["data"]["internal_status"]), ((409, 4501), &json!("settled")));

    // Any spelling of the id will do; and only for the parties.
    let core = id.strip_prefix("tx_").unwrap();
    for spelling in [core.to_owned(), format!("task_{core}"), id.clone()] {
        assert_eq!(house.get(SELLER, &format!("/transactions/{spelling}")).await.1["data"], settled);
    }
    let page = house.get(BUYER, "/transactions?role=buyer&status=settled").await.1["data"].take();
    assert_eq!((&page["total"], &page["has_more"], &page["items"][0]), (&json!(1), &json!(false), &settled));
    assert_eq!(house.get(BUYER, "/transactions?role=seller").await.1["data"]["total"], 0);
    assert_eq!(house.get(SELLER, "/transactions?page=2&page_size=1").await.1["data"]["items"], json!([]));
}

#[tokio::test]
async fn an_order_is_refused_with_the_reason_it_has() {
    let house = house().await;
    let (free, dear) = (house.sold("0", json!({})).await, house.sold("50", json!({})).await);
    let hourly = house.sold("0", json!({ "pricing_model": "per_hour" })).await;
    let unknown = "/transactions/tx_00000000000000000000000000";
    for (expected, user, path, body) in [
        ((402, 3001), BUYER, "/transactions", json!({ "capability_id": dear })),
        ((403, 1003), SELLER, "/transactions", json!({ "capability_id": free })),
        ((404, 1004), BUYER, "/transactions", json!({ "capability_id": "cap_none" })),
        ((400, 1001), BUYER, "/transactions", json!({})),
        ((400, 1001), BUYER, "/transactions", json!({ "capability_id": 7 })),
        ((400, 1001), BUYER, "/transactions", json!({ "capability_id": hourly })),
        ((422, 1008), BUYER, "/transactions", json!({ "capability_id": hourly, "booked_hours": 0 })),
        ((422, 1008), BUYER, "/transactions", json!({ "capability_id": free, "context_id": "a\u{0}b" })),
        ((422, 1008), BUYER, "/transactions", json!({ "capability_id": free, "confirm_token": "x" })),
        ((404, 1004), BUYER, "/transactions/nonsense/freeze", json!({})),
        ((404, 1004), BUYER, unknown, json!(null)),
        ((404, 1004), BUYER, "/nothing", json!({})),
        ((405, 1001), BUYER, "/wallet", json!({})),
        ((400, 3002), BUYER, "/wallet/recharge", json!({ "amount": 1 })),
        ((409, 4001), BUYER, "/tasks/1/applications", json!({})),
        ((409, 4001), BUYER, "/orders", json!({})),
        ((422, 1008), BUYER, &format!("/capabilities/{free}/invoke"), json!({})),
    ] {
        let answer = match body.is_null() {
            true => house.get(user, path).await,
            false => house.post(user, path, body.clone()).await,
        };
        assert_eq!(refusal(&answer), expected, "{path} {body}: {answer:?}");
    }
    for bad in ["{", "[]", "\"x\"", "nul", "{\"capability_id\":\"\\ud800\"}"] {
        let request = house.by(BUYER, Method::POST, "/transactions").header("content-type", "application/json");
        assert_eq!(refusal(&told(request.body(bad)).await), (400, 1001), "{bad}");
    }
    let xml = house.by(BUYER, Method::POST, "/transactions").header("content-type", "text/xml").body("<a/>");
    assert_eq!(refusal(&told(xml).await), (415, 1001));
    let large = json!({ "capability_id": "x".repeat(Limits::default().body_bytes) });
    assert_eq!(refusal(&house.post(BUYER, "/transactions", large).await), (413, 1001));
    let verb = house.by(BUYER, Method::DELETE, "/transactions").send().await.unwrap();
    assert_eq!((verb.status().as_u16(), &verb.headers()["allow"]), (405, &"POST, GET, HEAD".parse().unwrap()));
}

#[tokio::test]
async fn nobody_is_taken_for_somebody() {
    let house = house().await;
    let path = "/transactions";
    let shown = |name: &'static str, value: &str| house.at(Method::GET, path).header(name, value);
    for (expected, request) in [
        ((401, 1002), house.at(Method::GET, path)),
        ((401, 1006), shown("X-Api-Key", "guess").header("X-Platform-User-Id", BUYER)),
        ((401, 1006), shown("X-Api-Key", &key(BUYER))),
        ((403, 1007), shown("X-Api-Key", &key(BUYER)).header("X-Platform-User-Id", SELLER)),
        ((401, 1002), shown("Authorization", "Bearer x.y.z")),
        ((401, 1002), shown("Authorization", "Basic eDp5")),
    ] {
        assert_eq!(refusal(&told(request).await), expected);
    }
    let login = |password: &str| json!({ "account": "u_buyer@example.org", "password": password });
    let wrong = told(house.at(Method::POST, "/auth/login").json(&login("wrong"))).await;
    assert_eq!(refusal(&wrong), (401, 2003));
    let (_, tokens) = told(house.at(Method::POST, "/auth/login").json(&login("correct horse battery"))).await;
    let tokens = &tokens["data"];
    assert_eq!((&tokens["user_id"], &tokens["token_type"]), (&json!(BUYER), &json!("Bearer")));
    let bearer = format!("Bearer {}", tokens["access_token"].as_str().unwrap());
    assert_eq!(told(shown("Authorization", &bearer)).await.0, 200);
    let refresh = json!({ "refresh_token": tokens["refresh_token"] });
    let (status, again) = told(house.at(Method::POST, "/auth/refresh").json(&refresh)).await;
    assert_eq!((status, &again["data"]["user_id"]), (200, &json!(BUYER)));
    let access_is_no_refresh = json!({ "refresh_token": tokens["access_token"] });
    assert_eq!(refusal(&told(house.at(Method::POST, "/auth/refresh").json(&access_is_no_refresh)).await), (401, 1002));
}

#[tokio::test]
async fn a_login_is_renewed_once_ended_and_has_another_password() {
    let house = house().await;
    let post = |path: &str, bearer: Option<&Value>, body: Value| {
        let mut request = house.at(Method::POST, path).json(&body);
        if let Some(bearer) = bearer {
            request = request.header("Authorization", format!("Bearer {}", bearer.as_str().unwrap()));
        }
        told(request)
    };
    let login = async |password: &str| {
        let body = json!({ "account": "u_buyer@example.org", "password": password });
        let (status, mut answer) = post("/auth/login", None, body).await;
        assert_eq!(status, 200, "{answer}");
        answer["data"].take()
    };
    let is_good = async |tokens: &Value| {
        let bearer = format!("Bearer {}", tokens["access_token"].as_str().unwrap());
        told(house.at(Method::GET, "/wallet").header("Authorization", bearer)).await.0 == 200
    };
    let renew = |tokens: &Value| post("/auth/refresh", None, json!({ "refresh_token": tokens["refresh_token"] }));
    let password = "correct horse battery";
    let (first, other) = (login(password).await, login(password).await);
    let second = renew(&first).await.1["data"].take();
    assert!(is_good(&second).await);
    assert_eq!(refusal(&renew(&first).await), (401, 1002), "it was used");
    assert!(!is_good(&second).await && is_good(&other).await);

    assert_eq!(refusal(&post("/auth/logout", None, json!({})).await), (401, 1002));
    assert_eq!(refusal(&post("/auth/logout", None, json!({ "refresh_token": "x" })).await), (401, 1002));
    let (status, answer) = post("/auth/logout", Some(&other["access_token"]), json!({})).await;
    assert_eq!((status, &answer["data"]["status"]), (200, &json!("logged_out")), "{answer}");
    assert!(!is_good(&other).await);
    assert_eq!(refusal(&renew(&other).await), (401, 1002));
    let (third, fourth) = (login(password).await, login(password).await);
    let body = json!({ "refresh_token": third["refresh_token"] });
    assert_eq!(post("/auth/logout", None, body).await.0, 200);
    assert!(!is_good(&third).await && is_good(&fourth).await);
    let fifth = login(password).await;
    assert_eq!(post("/auth/logout", Some(&fourth["access_token"]), json!({ "everywhere": true })).await.0, 200);
    assert!(!is_good(&fourth).await && !is_good(&fifth).await);

    let (here, there) = (login(password).await, login(password).await);
    let change = |bearer: Option<&Value>, current: &str, new: &str| {
        post("/auth/change-password", bearer, json!({ "current_password": current, "new_password": new }))
    };
    let token = Some(&here["access_token"]);
    assert_eq!(refusal(&change(None, password, "another battery").await), (401, 1002));
    assert_eq!(refusal(&change(token, "wrong battery", "another battery").await), (401, 2003));
    assert_eq!(refusal(&change(token, password, "short").await), (422, 1008));
    let (status, mut changed) = change(token, password, "another battery").await;
    assert_eq!(status, 200, "{changed}");
    assert!(!is_good(&here).await && !is_good(&there).await && is_good(&changed["data"].take()).await);
    login("another battery").await;
    let body = json!({ "account": "u_buyer@example.org", "password": password });
    assert_eq!(refusal(&post("/auth/login", None, body).await), (401, 2003));
}

#[tokio::test]
async fn the_same_key_is_the_same_request() {
    let house = house().await;
    let capability = house.sold("0", json!({})).await;
    let order = json!({ "capability_id": capability });
    let keyed = |key: &str, body: &Value| {
        told(house.by(BUYER, Method::POST, "/transactions").header("Idempotency-Key", key).json(body))
    };
    let first = keyed("k-1", &order).await.1["data"].take();
    assert_eq!(keyed("k-1", &order).await.1["data"], first);
    let other = keyed("k-1", &json!({ "capability_id": capability, "context_id": "c" })).await;
    assert_eq!(refusal(&other), (409, 1005));
    assert_eq!(refusal(&keyed("", &order).await), (400, 1001));
    assert_eq!(refusal(&keyed(&"k".repeat(256), &order).await), (400, 1001));
    let in_body = json!({ "capability_id": capability, "idempotency_key": "k-2" });
    let second = house.done(BUYER, "/transactions", in_body.clone()).await;
    assert_eq!(house.done(BUYER, "/transactions", in_body.clone()).await, second);
    assert_eq!(refusal(&keyed("k-3", &in_body).await), (400, 1001), "two keys are none");
    assert_ne!(first["id"], second["id"]);
    assert_eq!(house.get(BUYER, "/transactions").await.1["data"]["total"], 2);
    let freeze = format!("/transactions/{}/freeze", first["id"].as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(house.done(BUYER, &freeze, json!({ "idempotency_key": "f" })).await["status"], "frozen");
    }
}

#[tokio::test]
async fn capabilities_are_made_changed_found_and_removed() {
    let house = house().await;
    let id = house.sold("12.50", json!({ "auto_accept_min_ut": 3, "daily_limit": 5 })).await;
    let at = format!("/capabilities/{id}");
    let (status, seen) = told(house.at(Method::GET, &at)).await;
    assert_eq!(
        (status, &seen["data"]["price_ut"], &seen["data"]["served_by"]),
        (200, &json!("12.5"), &json!("person"))
    );
    let put = |user: &str, body: Value| told(house.by(user, Method::PUT, &at).json(&body));
    let (_, after) = put(SELLER, json!({ "price_ut": "9", "daily_limit": null, "tags": [] })).await;
    let after = &after["data"];
    assert_eq!((&after["price_ut"], &after["daily_limit"], &after["tags"]), (&json!("9"), &json!(null), &json!([])));
    assert_eq!((&after["auto_accept_min_ut"], &after["title"]), (&json!("3"), &json!("OCR of invoices")));
    assert_eq!(refusal(&put(BUYER, json!({ "price_ut": "1" })).await), (403, 1003));
    let wrong = put(SELLER, json!({ "price_ut": "a lot", "capability_type": "song" })).await;
    assert_eq!((refusal(&wrong), wrong.1["data"]["details"].as_array().unwrap().len()), ((422, 1008), 2));
    let missing = house.post(SELLER, "/capabilities", json!({ "title": "x", "pricing_model": "per_query" })).await;
    assert_eq!(refusal(&missing), (400, 1001));

    let find = async |query: &str| told(house.at(Method::GET, &format!("/capabilities?{query}"))).await;
    assert_eq!(find("category=documents&keyword=INVOICE%20ocr").await.1["data"]["items"][0]["id"], json!(id));
    assert_eq!(find("capability_type=tool").await.1["data"]["total"], 0);
    assert_eq!(refusal(&find("pricing_model=barter").await), (400, 1001));
    assert_eq!(refusal(&find("page_size=0").await), (400, 1001));

    assert_eq!(house.done(SELLER, &format!("{at}/offline"), json!({})).await["status"], "offline");
    assert_eq!(refusal(&told(house.at(Method::GET, &at)).await), (404, 1004));
    assert_eq!(house.get(SELLER, &at).await.1["data"]["status"], "offline");
    assert_eq!(house.get(SELLER, "/capabilities/mine?status=offline").await.1["data"]["total"], 1);
    assert_eq!(refusal(&house.post(SELLER, &format!("{at}/offline"), json!({})).await), (409, 4501));
    assert_eq!(house.done(SELLER, &format!("{at}/online"), json!({})).await["status"], "active");
    let (status, gone) = told(house.by(SELLER, Method::DELETE, &at)).await;
    assert_eq!((status, gone["data"].clone()), (200, json!({ "id": id, "removed": true })));
    assert_eq!(refusal(&told(house.by(SELLER, Method::DELETE, &at)).await), (404, 1004));
    let bad = house.at(Method::GET, &at).header("Authorization", "Bearer nonsense");
    assert_eq!(refusal(&told(bad).await), (401, 1002), "a credential that is shown must be good");
}

#[tokio::test]
async fn a_capability_says_who_serves_it() {
    let house = house().await;
    let url = "https://seller.example.com/x";
    let by_agent = house.sold("0", json!({ "agent": "echo", "pricing_model": "per_query" })).await;
    let seen = |user: &'static str, id: String| {
        let house = &house;
        async move { house.get(user, &format!("/capabilities/{id}")).await.1["data"].take() }
    };
    let own = seen(SELLER, by_agent.clone()).await;
    assert_eq!((&own["served_by"], &own["agent"]), (&json!("agent"), &json!("echo")));
    let others = seen(BUYER, by_agent.clone()).await;
    assert_eq!(
        (&others["served_by"], others.get("agent")),
        (&json!("agent"), None),
        "which one is the owner's to know"
    );
    let by_worker = house.sold("0", json!({ "worker": true })).await;
    assert_eq!(seen(BUYER, by_worker.clone()).await["served_by"], "worker");

    let draft = |more: Value| {
        let mut draft = json!({ "title": "a", "description": "b", "category": "c", "capability_type": "tool", "pricing_model": "per_use" });
        draft.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        draft
    };
    for (field, more) in [
        ("agent", json!({ "agent": "other" })),
        ("agent", json!({ "agent": "echo", "callback_url": url })),
        ("worker", json!({ "agent": "echo", "worker": true })),
        ("worker", json!({ "worker": true, "callback_url": url })),
    ] {
        let batch = house.done(SELLER, "/capabilities/batch", json!({ "items": [draft(more.clone())] })).await;
        assert_eq!(batch["items"][0]["error"]["details"][0]["field"], field, "{batch}");
        let at = format!("/capabilities/{by_worker}");
        for answer in [
            house.post(SELLER, "/capabilities", draft(more.clone())).await,
            told(house.by(SELLER, Method::PUT, &at).json(&more)).await,
        ] {
            assert_eq!((refusal(&answer), &answer.1["data"]["details"][0]["field"]), ((422, 1008), &json!(field)));
        }
    }
    let put = async |body: Value| {
        let (_, mut answer) =
            told(house.by(SELLER, Method::PUT, &format!("/capabilities/{by_worker}")).json(&body)).await;
        answer["data"]["served_by"].take()
    };
    assert_eq!(put(json!({ "callback_url": url })).await, "callback");
    assert_eq!(put(json!({ "agent": "echo" })).await, "agent");
    assert_eq!(put(json!({ "worker": false, "title": "b" })).await, "agent", "what is left out stays");
    assert_eq!(put(json!({ "agent": null })).await, "person");
    assert_eq!(put(json!({ "worker": true })).await, "worker");
    assert_eq!(put(json!({ "worker": false })).await, "person");
}

#[tokio::test]
async fn the_document_is_there_and_says_where() {
    let house = house().await;
    for path in ["/openapi.json", "/public/openapi.json"] {
        let answer = house.at(Method::GET, path).send().await.unwrap();
        let document: Value = answer.json().await.unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(document["servers"][0]["url"], house.running.url("/api/v1"));
        assert!(document["paths"]["/transactions/{id}/freeze"]["post"].is_object());
    }
    let (_, debug) = told(house.at(Method::GET, "/interop/debug")).await;
    assert_eq!(debug["data"]["rest_base_url"], house.running.url("/api/v1"));
    assert_eq!(told(house.at(Method::GET, "/wallet/rates")).await.1["data"]["cash_to_ut_rate"], "10");
    let page = house.at(Method::GET, "/auth/device").send().await.unwrap();
    assert_eq!(page.headers()["content-type"], "text/html; charset=utf-8");
    assert!(page.headers()["content-security-policy"].to_str().unwrap().starts_with("default-src 'none'"));
    let text = page.text().await.unwrap();
    assert!(text.contains("action=\"device-auth/approve\"") && text.contains("name=\"user_code\""), "{text}");
}

#[tokio::test]
async fn no_garbage_breaks_it() {
    let house = house().await;
    let capability = house.sold("0", json!({})).await;
    let odd = [
        json!(null),
        json!({}),
        json!([]),
        json!("\u{0}\u{1f}é"),
        json!(-1),
        json!(1e300),
        json!(i64::MAX),
        json!({ "a": [1, { "b": null }] }),
        json!("x".repeat(5_000)),
        json!(true),
        json!(capability),
    ];
    let fields = [
        "capability_id",
        "booked_hours",
        "context_id",
        "demand_id",
        "input",
        "confirm_token",
        "idempotency_key",
        "title",
        "price_ut",
        "tags",
        "callback_url",
        "agent",
        "worker",
        "daily_limit",
        "pricing_model",
        "available",
        "reason",
        "result_payload",
        "deliverables",
        "action",
        "job_id",
        "result",
        "error",
        "retryable",
        "description",
        "budget_ut",
        "expires_in_days",
        "top_k",
        "platform_url",
        "agent_name",
        "webhook_url",
        "webhook_events",
        "webhook_secret",
    ];
    let document: Value = house.at(Method::GET, "/openapi.json").send().await.unwrap().json().await.unwrap();
    for (path, item) in document["paths"].as_object().unwrap() {
        // The login routes have tests of their own.
        if path.starts_with("/auth") || path.starts_with("/wallet") {
            continue;
        }
        for (verb, operation) in item.as_object().unwrap() {
            let verb = Method::from_bytes(verb.to_uppercase().as_bytes()).unwrap();
            for id in [&*capability, "%00", "..", "tx_00000000000000000000000000", "mine"] {
                let path = ["{id}", "{path}", "{access_id}", "{access_token}"]
                    .iter()
                    .fold(path.clone(), |p, name| p.replace(name, id));
                for (n, value) in odd.iter().enumerate() {
                    let mut body = serde_json::Map::new();
                    for (m, field) in fields.iter().enumerate() {
                        body.insert((*field).to_owned(), odd[(n + m) % odd.len()].clone());
                    }
                    let body = if n % 2 == 0 { Value::Object(body) } else { value.clone() };
                    let mut request = house.by(BUYER, verb.clone(), &path);
                    if verb != Method::GET {
                        request = request.json(&body);
                    }
                    let answer = request.send().await.unwrap();
                    let status = answer.status().as_u16();
                    // A stream has no end.
                    let is_stream = answer.headers()["content-type"] == "text/event-stream";
                    let said = if is_stream { String::new() } else { answer.text().await.unwrap() };
                    let known = operation["responses"].get(status.to_string()).is_some() || matches!(status, 404 | 405);
                    assert!(known && status < 500, "{verb} {path} {body}: {status} {said}");
                    if verb == Method::GET {
                        break;
                    }
                }
            }
        }
    }
}

#[tokio::test]
async fn too_many_requests_are_told_when_to_come_back() {
    let house = house_with(|uumit| MarketSettings { requests_per_minute: Some(3), ..uumit }).await;
    for _ in 0..3 {
        assert_eq!(house.get(BUYER, "/transactions").await.0, 200);
    }
    let answer = house.by(BUYER, Method::GET, "/transactions").send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 429);
    let wait: u32 = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(answer.json::<Value>().await.unwrap()["code"], 1010);
    assert_eq!(house.get(SELLER, "/transactions").await.0, 200, "another key has its own");
    // Keys that are made up are counted by address.
    for n in 0..4 {
        let made_up = house.at(Method::GET, "/transactions").header("X-Api-Key", format!("guess-{n}"));
        let made_up = made_up.header("X-Platform-User-Id", BUYER);
        assert_eq!(told(made_up).await.0, if n < 3 { 401 } else { 429 });
    }
}

#[tokio::test]
async fn money_goes_where_it_belongs() {
    let house = house().await;
    house.market.credit(&BUYER.into(), Ut::parse("100").unwrap(), "welcome", None).await.unwrap();
    let purse = async |user: &str| house.get(user, "/wallet").await.1["data"]["ut"].take();
    assert_eq!(purse(BUYER).await, json!({ "available": "100", "frozen": "0", "total": "100" }));
    let capability = house.sold("40", json!({})).await;
    let id = house.done(BUYER, "/transactions", json!({ "capability_id": capability })).await["id"].take();
    let at = |verb: &str| format!("/transactions/{}/{verb}", id.as_str().unwrap());
    house.done(BUYER, &at("freeze"), json!({})).await;
    assert_eq!(purse(BUYER).await, json!({ "available": "60", "frozen": "40", "total": "100" }));
    house.done(SELLER, &at("accept"), json!({})).await;
    house.done(SELLER, &at("deliver"), json!({ "result_payload": {} })).await;
    house.done(BUYER, &at("confirm"), json!({})).await;
    assert_eq!(purse(BUYER).await["total"], "60");
    assert_eq!(purse(SELLER).await, json!({ "available": "36", "frozen": "0", "total": "36" }));
    let lines = house.get(SELLER, "/wallet/transactions?type=income").await.1["data"]["items"].take();
    assert_eq!((&lines[0]["amount"], &lines[0]["biz_ref_id"], lines.as_array().unwrap().len()), (&json!("36"), &id, 1));
    assert_eq!(house.get(SELLER, "/wallet/stats").await.1["data"]["total_income_ut"], "36");
    let overview = house.get(SELLER, "/income/overview").await.1["data"].take();
    assert_eq!((&overview["total"]["income_ut"], &overview["total"]["sales"]), (&json!("36"), &json!(1)));
    let one = house.get(SELLER, &format!("/capabilities/{capability}/income")).await.1["data"].take();
    assert_eq!((&one["gross_ut"], &one["commission_ut"]), (&json!("40"), &json!("4")));
    assert_eq!(refusal(&house.get(BUYER, &format!("/capabilities/{capability}/income")).await), (404, 1004));
    assert_eq!(house.get(SELLER, "/income/records").await.1["data"]["items"][0]["transaction_id"], id);
    assert_eq!(refusal(&house.get(SELLER, "/wallet/transactions?type=gift").await), (400, 1001));
}

#[tokio::test]
async fn the_market_tells_of_itself() {
    let house = house().await;
    let good = |price: &str| {
        json!({
            "title": "T", "description": "D", "category": "geo", "capability_type": "data",
            "pricing_model": "per_use", "price_ut": price,
        })
    };
    let items = json!({ "items": [good("1"), { "title": "no more" }, good("2"), good("3"), good("4"), good("9")] });
    let keyed = || house.by(SELLER, Method::POST, "/capabilities/batch").header("Idempotency-Key", "b").json(&items);
    let done = told(keyed()).await.1["data"].take();
    assert_eq!((&done["succeeded"], &done["failed"]), (&json!(5), &json!(1)));
    assert_eq!((&done["items"][1]["success"], &done["items"][1]["error"]["code"]), (&json!(false), &json!(1001)));
    assert_eq!(told(keyed()).await.1["data"], done, "the same key makes nothing twice");
    assert_eq!(house.get(SELLER, "/capabilities/mine").await.1["data"]["total"], 5);
    let many = json!({ "items": vec![good("1"); 51] });
    assert_eq!(refusal(&house.post(SELLER, "/capabilities/batch", many).await), (400, 1001));
    for made in done["items"].as_array().unwrap().iter().filter(|item| item["success"] == true) {
        let id = made["capability"]["id"].as_str().unwrap();
        house.done(SELLER, &format!("/capabilities/{id}/submit-review"), json!({})).await;
    }
    let get = async |path: &str| told(house.at(Method::GET, path)).await.1["data"].take();
    assert_eq!(get("/categories").await["items"], json!([{ "category": "geo", "count": 5 }]));
    let expected = json!({
        "median_price_ut": "3", "suggested_range_low": "2", "suggested_range_high": "4", "sample_count": 5,
    });
    assert_eq!(get("/pricing/suggestion?category=geo&pricing_model=per_use").await, expected);
    assert_eq!(get("/pricing/suggestion?category=none").await["sample_count"], 0);
    assert_eq!(get("/public/community-stats").await, json!({ "capabilities_on_sale": 5, "transactions": 0 }));
    for path in ["/agents/u_seller/card", "/agents/u_seller/.well-known/agent.json"] {
        let card: Value = house.at(Method::GET, path).send().await.unwrap().json().await.unwrap();
        assert_eq!((card["skills"].as_array().unwrap().len(), &card["protocol"]), (5, &json!("a2a/1.0")));
    }
    assert_eq!(refusal(&told(house.at(Method::GET, "/agents/nobody/card")).await), (404, 1004));
}

#[tokio::test]
async fn a_persons_yes_is_obtained_by_a_person() {
    let house = house().await;
    house.market.credit(&BUYER.into(), Ut::parse("1000").unwrap(), "gift", None).await.unwrap();
    let (dear, cheap) = (house.sold("150", json!({})).await, house.sold("20", json!({})).await);
    let quote = "/capability-runtime/quote";
    let body = json!({ "capability_id": dear });
    let by_agent = house.done(BUYER, quote, body.clone()).await;
    assert_eq!((&by_agent["requires_confirmation"], &by_agent["risk_level"]), (&json!(true), &json!("L3")));
    assert_eq!(by_agent["confirmation"]["confirm_token"], json!(null), "an agent does not confirm itself");
    assert!(by_agent["confirmation"]["next_step"].as_str().unwrap().contains("ask a person"));
    for at in [&by_agent, &by_agent["confirmation"]] {
        assert_eq!((&at["estimated_cost_ut"], &at["balance_ut"]), (&json!("150"), &json!("1000")));
    }
    let login = json!({ "account": "u_buyer@example.org", "password": "correct horse battery" });
    let (_, tokens) = told(house.at(Method::POST, "/auth/login").json(&login)).await;
    let bearer = format!("Bearer {}", tokens["data"]["access_token"].as_str().unwrap());
    let person = async |body: &Value| {
        let (status, mut answer) =
            told(house.at(Method::POST, quote).header("Authorization", &bearer).json(body)).await;
        assert_eq!(status, 200, "{answer}");
        answer["data"].take()
    };
    let said = person(&body).await;
    let token = said["confirmation"]["confirm_token"].as_str().unwrap();
    assert!(said["confirmation"]["human_summary"].as_str().unwrap().contains("OCR of invoices"), "{said}");
    assert!(said["confirmation"]["expires_at"].is_string());

    let waits = house.done(BUYER, "/transactions", body.clone()).await;
    assert_eq!(waits["autonomy_confirmation"]["status"], "pending");
    let confirmed = json!({ "capability_id": dear, "confirm_token": token });
    let bought = house.done(BUYER, "/transactions", confirmed.clone()).await;
    assert_eq!(bought["autonomy_confirmation"]["status"], "confirmed");
    assert_eq!(bought["decision_source"], "user_confirmed");
    assert_eq!(refusal(&house.post(BUYER, "/transactions", confirmed).await), (422, 1008), "it was used");
    let approve = format!("/transactions/{}/approve", waits["id"].as_str().unwrap());
    assert_eq!(refusal(&house.post(BUYER, &approve, json!({})).await), (409, 4501), "not by the agent alone");
    let another = person(&body).await["confirmation"]["confirm_token"].clone();
    assert_ne!(another, token);
    let approved = house.done(BUYER, &approve, json!({ "confirm_token": another })).await;
    assert_eq!(approved["autonomy_confirmation"]["status"], "confirmed");

    let small = person(&json!({ "capability_id": cheap })).await;
    assert_eq!((&small["requires_confirmation"], &small["confirmation"]), (&json!(false), &json!(null)));
    for (expected, user, body) in [
        ((404, 1004), BUYER, json!({ "capability_id": "cap_none" })),
        ((403, 1003), SELLER, json!({ "capability_id": dear })),
        ((400, 1001), BUYER, json!({})),
        ((422, 1008), BUYER, json!({ "capability_id": "" })),
    ] {
        assert_eq!(refusal(&house.post(user, quote, body.clone()).await), expected, "{body}");
    }
}

/// A server with a market, and how it is told to serve it.
pub(crate) async fn start_market(
    settings: Settings,
    config: market::service::MarketConfig,
    serve: impl FnOnce(&mut MarketSettings),
) -> Running {
    let agents = agents::BUILTIN.iter().map(|builtin| (builtin.build)(&agents::BuiltinSettings::default())).collect();
    let engine = testkit::engine(agents).await;
    let mut uumit = MarketSettings::new(market::service::Market::start(engine.clone(), config, true).await.unwrap());
    serve(&mut uumit);
    let products = vec![Arc::new(MarketService::new(uumit)) as _];
    start_on(engine, Settings { products, ..settings }, reqwest::Client::new()).await
}
