//! UUMit's endpoint over its socket: buying, watching, cancelling, and which requests to `/a2a` are its own.

use gateway::Settings;
use market::MarketSettings;
use market::service::{Market, NewApiKey, NewUser};
use market_rules::capability::{self, CapabilityDraft};
use market_rules::transaction::{Deliverable, TransactionAction};
use market_rules::{Actor, TransactionId, UserId, Ut, autonomy};
use model::Json;
use serde_json::{Value, json};

use crate::market::start_market;
use testkit::{Running, settings, start, until};

const CAPABILITY: &str = "cap_ocr_invoice_v1";
const PASSWORD: &str = "correct horse battery";

struct Shop {
    running: Running,
    market: Market,
}

/// A buyer with 1,000 UT, a seller that reads invoices for 120 UT, and a user that takes part in neither.
async fn open(settings: Settings, logins: bool, serve: impl FnOnce(&mut MarketSettings)) -> Shop {
    let mut market = None;
    let running = start_market(settings, market::service::MarketConfig::default(), |uumit| {
        market = Some(uumit.market.clone());
        serve(uumit);
    });
    let running = running.await;
    let market = market.unwrap();
    let limits = autonomy::SpendingLimits { per_call: Ut::parse("500").unwrap(), ..Default::default() };
    for name in ["buyer", "seller", "stranger"] {
        let id = Some(UserId::from(name));
        // Passwords are slow on purpose: only tests that need one have one.
        let account = logins.then(|| format!("{name}@a.example").into());
        let password = logins.then(|| PASSWORD.to_owned());
        let user = NewUser { id, account, password, limits: Some(limits), ..NewUser::default() };
        market.open_user(user).await.unwrap();
        market.issue_key(NewApiKey::User(name.into()), Some(&key_of(name))).await.unwrap();
    }
    let shop = Shop { running, market };
    shop.credit("buyer", "1000").await;
    shop.sells(CAPABILITY, "120").await;
    shop
}

async fn shop() -> Shop {
    open(settings(), false, |_| {}).await
}

fn key_of(user: &str) -> String {
    format!("test-key-of-{user}")
}

fn person(user: &str) -> Actor {
    Actor::person("default", &user.into())
}

/// A request's credentials.
#[derive(Clone, Copy)]
enum By<'a> {
    Key(&'a str),
    Token(&'a str),
}

fn signed(request: reqwest::RequestBuilder, by: By<'_>) -> reqwest::RequestBuilder {
    match by {
        By::Key(user) => request.header("X-Api-Key", key_of(user)).header("X-Platform-User-Id", user),
        By::Token(token) => request.bearer_auth(token),
    }
}

fn body(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": "r-1", "method": method, "params": params })
}

impl Shop {
    async fn credit(&self, user: &str, amount: &str) {
        let (user, amount) = (UserId::from(user), Ut::parse(amount).unwrap());
        self.market.credit(&user, amount, &format!("gift of {user}"), None).await.unwrap();
    }

    async fn sells(&self, id: &str, price: &str) {
        let seller = self.caller("seller").await;
        let draft = CapabilityDraft {
            title: Some("OCR of invoices".into()),
            description: Some("Reads an invoice".into()),
            category: Some("documents".into()),
            capability_type: Some("service".into()),
            pricing_model: Some("per_use".into()),
            price_ut: Json::parse(price),
            ..CapabilityDraft::default()
        };
        let offer = self.market.offer(&seller, draft, Some(id.into()), None).await.unwrap();
        self.market
            .change_capability(&seller.actor(), &offer.id, capability::CapabilityAction::Submit, None)
            .await
            .unwrap();
    }

    async fn caller(&self, user: &str) -> market::service::MarketCaller {
        let key = key_of(user);
        let shown = market::service::Credentials { api_key: Some(&key), user: Some(user), bearer: None };
        self.market.who(shown).await.unwrap()
    }

    async fn token(&self, user: &str) -> String {
        self.market.log_in(&format!("{user}@a.example"), PASSWORD, [127, 0, 0, 1].into()).await.unwrap().access_token
    }

    fn post(&self, by: By<'_>, method: &str, params: Value) -> reqwest::RequestBuilder {
        signed(self.running.post("/uumit/a2a", &body(method, params)), by)
    }

    async fn ask(&self, by: By<'_>, method: &str, params: Value) -> Value {
        answer(self.post(by, method, params)).await
    }

    /// The id of a new purchase.
    async fn bought(&self) -> String {
        let answer = self.ask(By::Key("buyer"), "tasks/send", json!({ "capability_id": CAPABILITY })).await;
        answer["result"]["id"].as_str().unwrap().to_owned()
    }

    async fn act(&self, actor: &str, id: &str, action: TransactionAction) {
        self.market.act(&person(actor), transaction(id), action, None).await.unwrap();
    }

    async fn is_frozen_and_accepted(&self, id: &str) {
        self.act("buyer", id, TransactionAction::Freeze).await;
        self.act("seller", id, TransactionAction::Accept).await;
    }

    async fn is_settled(&self, id: &str, deliverables: Vec<Deliverable>) {
        self.is_frozen_and_accepted(id).await;
        let result = Json::parse(r#"{"total":"99.50"}"#);
        self.act("seller", id, TransactionAction::Deliver { result, deliverables }).await;
        self.act("buyer", id, TransactionAction::Confirm).await;
    }

    async fn purchases(&self) -> u64 {
        let paging = market::service::Paging { page: 1, size: 10 };
        self.market.transactions(&self.caller("buyer").await, None, None, paging).await.unwrap().total
    }
}

fn transaction(id: &str) -> TransactionId {
    id.parse().unwrap()
}

/// The body of an answer of this dialect, which is 200 whatever it says.
async fn answer(request: reqwest::RequestBuilder) -> Value {
    let answer = request.send().await.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["x-a2a-dialect"]), (200, &"uumit".parse().unwrap()));
    assert_eq!(answer.headers()["content-type"], "application/json");
    answer.json().await.unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

fn refusal(answer: &Value) -> (i64, &str) {
    (answer["error"]["code"].as_i64().unwrap(), answer["error"]["message"].as_str().unwrap())
}

/// The frames of a stream that has ended: name and data.
async fn frames(answer: reqwest::Response) -> Vec<(String, Value)> {
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let text = answer.text().await.unwrap();
    let frames = text.split_terminator("\n\n").map(|frame| {
        let (event, data) = frame.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
        (event.to_owned(), serde_json::from_str(data).unwrap())
    });
    frames.collect()
}

#[tokio::test]
async fn a_purchase_without_a_capability_is_told_what_is_missing() {
    let shop = shop().await;
    let answer = shop.ask(By::Key("buyer"), "tasks/send", json!({})).await;
    assert_eq!(refusal(&answer), (-32602, "Invalid params"));
    assert_eq!(answer["error"]["data"]["detail"], "capability_id is required");
    let answer = shop.ask(By::Key("buyer"), "tasks/send", json!({ "capability_id": "cap_nobody_sells" })).await;
    assert_eq!(refusal(&answer).0, -32602);
    assert!(answer["error"]["data"]["detail"].as_str().unwrap().contains("capability"), "{answer}");
    assert_eq!(shop.purchases().await, 0);
}

#[tokio::test]
async fn a_purchase_is_answered_with_its_id_its_status_and_its_time_alone() {
    let shop = shop().await;
    let params = json!({ "capability_id": CAPABILITY, "booked_hours": null });
    let answer = shop.ask(By::Key("buyer"), "tasks/send", params).await;
    assert_eq!((keys(&answer), &answer["id"]), (vec!["id", "jsonrpc", "result"], &json!("r-1")));
    assert_eq!(keys(&answer["result"]), ["created_at", "id", "status"]);
    assert_eq!(answer["result"]["status"], "submitted");
    assert!(answer["result"]["id"].as_str().unwrap().starts_with("task_"));
    assert!(answer["result"]["created_at"].as_str().unwrap().ends_with('Z'));
}

#[tokio::test]
async fn a_purchase_under_way_shows_five_facts_and_no_artifacts() {
    let shop = shop().await;
    let id = shop.bought().await;
    shop.is_frozen_and_accepted(&id).await;
    // Every spelling of the id works, for the buyer and for the seller.
    let core = id.strip_prefix("task_").unwrap();
    for (by, named) in [("buyer", id.clone()), ("seller", format!("tx_{core}")), ("seller", core.to_owned())] {
        let answer = shop.ask(By::Key(by), "tasks/get", json!({ "id": named })).await;
        let task = &answer["result"];
        assert_eq!(keys(task), ["id", "metadata", "status"]);
        assert_eq!((&task["id"], &task["status"]), (&json!(id), &json!("working")));
        let metadata = json!({
            "context_id": null, "buyer_user_id": "buyer", "seller_user_id": "seller",
            "transaction_type": "per_use", "autonomy_confirmation": null,
        });
        assert_eq!(task["metadata"], metadata);
    }
}

#[tokio::test]
async fn a_settled_purchase_has_a_summary_and_a_file_for_each_deliverable() {
    let shop = shop().await;
    let id = shop.bought().await;
    let file = |n: u32| Deliverable {
        deliverable_id: format!("del_{n}").into(),
        access_id: format!("acc_{n}").into(),
        file_name: format!("page {n}.json").into(),
    };
    shop.is_settled(&id, vec![file(1), file(2)]).await;
    let answer = shop.ask(By::Key("buyer"), "tasks/get", json!({ "id": id })).await;
    let (task, tx) = (&answer["result"], transaction(&id).tx());
    assert_eq!(task["status"], "completed");
    let data = |name: &str, data: Value| json!({ "name": name, "parts": [{ "type": "data", "data": data }] });
    let summary = json!({
        "uuagent_transaction_id": tx, "uuagent_capability_id": CAPABILITY, "price_ut": "120", "commission_ut": "12",
        "internal_status": "settled", "decision_source": "agent_autonomous",
    });
    let page = |n: u32| {
        let ids = json!({ "deliverable_id": format!("del_{n}"), "access_id": format!("acc_{n}"), "file_name": format!("page {n}.json") });
        data(&format!("page {n}.json"), ids)
    };
    assert_eq!(task["artifacts"], json!([data("transaction_summary", summary), page(1), page(2)]));
}

#[tokio::test]
async fn only_its_buyer_cancels_a_purchase_and_only_before_it_is_taken_up() {
    let shop = shop().await;
    let id = shop.bought().await;
    let cancel = |by| shop.ask(By::Key(by), "tasks/cancel", json!({ "id": id }));
    assert_eq!(refusal(&cancel("stranger").await), (-32003, "Permission denied"));
    assert_eq!(refusal(&cancel("seller").await), (-32003, "Permission denied"));
    assert_eq!(cancel("buyer").await["result"], json!({ "id": id, "status": "canceled" }));
    let again = cancel("buyer").await;
    assert_eq!(refusal(&again), (-32602, "Invalid params"));
    let data = &again["error"]["data"];
    assert_eq!(
        (&data["error_type"], &data["internal_status"]),
        (&json!("invalid_state"), &json!("cancelled_by_buyer"))
    );
    assert_eq!(data["detail"], "transaction is already cancelled_by_buyer");

    let taken = shop.bought().await;
    shop.is_frozen_and_accepted(&taken).await;
    let late = shop.ask(By::Key("buyer"), "tasks/cancel", json!({ "id": taken })).await;
    assert_eq!((refusal(&late).0, &late["error"]["data"]["internal_status"]), (-32602, &json!("accepted")));

    for unknown in ["task_01jqxyz", "task_01jqxyz0000000000000000000"] {
        for method in ["tasks/get", "tasks/cancel"] {
            let answer = shop.ask(By::Key("buyer"), method, json!({ "id": unknown })).await;
            assert_eq!(refusal(&answer), (-32001, "Task not found"), "{method} {unknown}");
        }
    }
}

#[tokio::test]
async fn the_code_of_what_comes_too_late_is_the_operators_to_choose() {
    let shop = open(settings(), false, |uumit| uumit.invalid_state_code = -32010).await;
    let id = shop.bought().await;
    shop.is_settled(&id, Vec::new()).await;
    let answer = shop.ask(By::Key("buyer"), "tasks/cancel", json!({ "id": id })).await;
    assert_eq!((refusal(&answer).0, &answer["error"]["data"]["error_type"]), (-32010, &json!("invalid_state")));
}

#[tokio::test]
async fn whoever_cannot_pay_buys_nothing() {
    let shop = shop().await;
    let answer = shop.ask(By::Key("stranger"), "tasks/send", json!({ "capability_id": CAPABILITY })).await;
    assert_eq!(refusal(&answer), (-32002, "Insufficient balance"));
    let answer = shop.ask(By::Key("seller"), "tasks/send", json!({ "capability_id": CAPABILITY })).await;
    assert_eq!(refusal(&answer), (-32003, "Permission denied"), "nobody buys from themselves");
}

#[tokio::test]
async fn above_what_its_agent_may_spend_a_purchase_waits_for_a_person() {
    let shop = shop().await;
    shop.sells("cap_dear", "600").await;
    let sent = shop.ask(By::Key("buyer"), "tasks/send", json!({ "capability_id": "cap_dear" })).await;
    assert_eq!(sent["result"]["status"], "input-required");
    let got = shop.ask(By::Key("buyer"), "tasks/get", json!({ "id": sent["result"]["id"] })).await;
    let record = &got["result"]["metadata"]["autonomy_confirmation"];
    assert_eq!((&record["status"], &record["estimated_cost_ut"]), (&json!("pending"), &json!("600")));
}

#[tokio::test]
async fn the_same_key_twice_is_one_purchase() {
    let shop = shop().await;
    let one = json!({ "capability_id": CAPABILITY, "idempotency_key": "k-1" });
    let first = shop.ask(By::Key("buyer"), "tasks/send", one.clone()).await;
    assert_eq!(shop.ask(By::Key("buyer"), "tasks/send", one).await, first);
    // The same promise in each of the other two places.
    let beside = json!({ "capability_id": CAPABILITY, "metadata": { "uuagent": { "idempotency_key": "k-1" } } });
    assert_eq!(shop.ask(By::Key("buyer"), "tasks/send", beside).await, first);
    let header = shop.post(By::Key("buyer"), "tasks/send", json!({ "capability_id": CAPABILITY }));
    assert_eq!(answer(header.header("Idempotency-Key", "k-1")).await, first);
    assert_eq!(shop.purchases().await, 1);
    let other = json!({ "capability_id": CAPABILITY, "context_id": "c", "idempotency_key": "k-1" });
    let refused = shop.ask(By::Key("buyer"), "tasks/send", other).await;
    assert_eq!(
        (refusal(&refused).0, &refused["error"]["data"]["error_type"]),
        (-32602, &json!("idempotency_conflict"))
    );

    let cancel = json!({ "id": first["result"]["id"], "idempotency_key": "k-2" });
    let canceled = shop.ask(By::Key("buyer"), "tasks/cancel", cancel.clone()).await;
    assert_eq!(canceled["result"]["status"], "canceled");
    assert_eq!(shop.ask(By::Key("buyer"), "tasks/cancel", cancel).await, canceled);
}

#[tokio::test]
async fn a_key_needs_its_user_and_wins_over_a_token() {
    let shop = open(settings(), true, |_| {}).await;
    let id = shop.bought().await;
    let get = body("tasks/get", json!({ "id": id }));
    let post = || shop.running.post("/uumit/a2a", &get);
    let token = shop.token("buyer").await;
    assert_eq!(answer(signed(post(), By::Token(&token))).await["result"]["status"], "submitted");
    let both = |user| signed(signed(post(), By::Key(user)), By::Token(&token));
    assert_eq!(refusal(&answer(both("stranger")).await), (-32003, "Permission denied"), "the key's user asks");
    assert_eq!(answer(both("seller")).await["result"]["status"], "submitted");
    for (what, request) in [
        ("nothing", post()),
        ("a key without its user", post().header("X-Api-Key", key_of("buyer"))),
        (
            "a key without its user, with a token",
            signed(post().header("X-Api-Key", key_of("buyer")), By::Token(&token)),
        ),
        ("a key of somebody else", post().header("X-Api-Key", key_of("seller")).header("X-Platform-User-Id", "buyer")),
        ("no key of ours", post().header("X-Api-Key", "nonsense").header("X-Platform-User-Id", "buyer")),
        ("no token of ours", signed(post(), By::Token("nonsense"))),
    ] {
        let refused = answer(request).await;
        assert_eq!(refusal(&refused), (-32000, "Authentication error"), "{what}");
        assert!(refused["error"]["data"]["detail"].is_string(), "{what}: {refused}");
    }
}

#[tokio::test]
async fn a_subscription_that_cannot_be_is_one_error_and_an_end() {
    let shop = shop().await;
    let id = shop.bought().await;
    let subscribe = |by, id: &str| shop.post(By::Key(by), "tasks/sendSubscribe", json!({ "id": id })).send();
    let unknown = frames(subscribe("buyer", "task_01jqxyz").await.unwrap()).await;
    let error = json!({ "jsonrpc": "2.0", "id": "r-1", "error": { "code": -32004, "message": "Task not found", "data": { "error_type": "not_found" } } });
    assert_eq!(unknown, [("error".to_owned(), error)]);
    let stranger = frames(subscribe("stranger", &id).await.unwrap()).await;
    let error = json!({ "jsonrpc": "2.0", "id": "r-1", "error": { "code": -32003, "message": "Permission denied", "data": { "error_type": "permission_denied" } } });
    assert_eq!(stranger, [("error".to_owned(), error)]);
    // Mistakes of the request itself are answered in plain words.
    let missing = shop.ask(By::Key("buyer"), "tasks/sendSubscribe", json!({})).await;
    assert_eq!(refusal(&missing), (-32602, "Invalid params"));
    let nobody = answer(shop.running.post("/uumit/a2a", &body("tasks/sendSubscribe", json!({ "id": id })))).await;
    assert_eq!(refusal(&nobody), (-32000, "Authentication error"));
}

#[tokio::test]
async fn a_subscription_without_an_end_ends_with_a_heartbeat() {
    let shop = open(settings(), false, |uumit| uumit.window_ms = 0).await;
    let id = shop.bought().await;
    let answer = shop.post(By::Key("seller"), "tasks/sendSubscribe", json!({ "id": id })).send().await.unwrap();
    let frames = frames(answer).await;
    assert_eq!(frames.len(), 2, "{frames:?}");
    assert_eq!((frames[0].0.as_str(), &frames[0].1["result"]["status"]), ("task", &json!("submitted")));
    assert_eq!(frames[1], ("heartbeat".to_owned(), json!({ "ok": true })));
}

#[tokio::test]
async fn a_subscription_shows_every_change_and_ends_with_the_last() {
    let shop = shop().await;
    let id = shop.bought().await;
    let mut stream = shop.post(By::Key("buyer"), "tasks/sendSubscribe", json!({ "id": id })).send().await.unwrap();
    let first = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(first.starts_with("event: task\ndata: {") && first.contains("\"status\":\"submitted\""), "{first}");
    assert!(shop.running.metric("a2a_streams_open 1").await);
    shop.is_frozen_and_accepted(&id).await;
    let next = String::from_utf8(stream.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(next.starts_with("event: task\ndata: {"), "{next}");
    shop.act("seller", &id, TransactionAction::Deliver { result: Json::parse("{}"), deliverables: Vec::new() }).await;
    shop.act("buyer", &id, TransactionAction::Confirm).await;
    let rest = frames(stream).await;
    let (event, last) = rest.last().unwrap();
    assert_eq!((event.as_str(), &last["result"]["status"]), ("task", &json!("completed")));
    assert_eq!(last["result"]["artifacts"][0]["name"], "transaction_summary");
    until("its place is free", async || shop.running.metric("a2a_streams_open 0").await).await;
    // The end of a purchase is told once, and the stream ends.
    let again = shop.post(By::Key("seller"), "tasks/sendSubscribe", json!({ "id": id })).send().await.unwrap();
    let again = frames(again).await;
    assert_eq!((again.len(), &again[0].1["result"]["status"]), (1, &json!("completed")));
}

#[tokio::test]
async fn who_leaves_a_subscription_changes_nothing_and_gives_its_seat_back() {
    let mut settings = settings();
    settings.throttle.streams_per_caller = Some(1);
    let shop = open(settings, false, |_| {}).await;
    let id = shop.bought().await;
    let subscribe = |by| shop.post(By::Key(by), "tasks/sendSubscribe", json!({ "id": id })).send();
    let first = subscribe("buyer").await.unwrap();
    let second = subscribe("buyer").await.unwrap();
    assert_eq!((second.status().as_u16(), second.headers()["retry-after"].to_str().unwrap()), (429, "1"));
    assert_eq!(subscribe("seller").await.unwrap().status(), 200, "another has its own");
    drop(first);
    until("the seat is free", async || subscribe("buyer").await.unwrap().status() == 200).await;
    let got = shop.ask(By::Key("buyer"), "tasks/get", json!({ "id": id })).await;
    assert_eq!(got["result"]["status"], "submitted");
}

#[tokio::test]
async fn what_is_no_request_is_told_so_and_what_wants_no_answer_gets_none() {
    let shop = shop().await;
    let raw = |text: &'static str| {
        let request = shop.running.post("/uumit/a2a", &json!({})).body(text);
        answer(signed(request, By::Key("buyer")))
    };
    assert_eq!((refusal(&raw("{").await), &raw("{").await["id"]), ((-32700, "Parse error"), &Value::Null));
    assert_eq!(refusal(&raw("[]").await), (-32600, "Invalid Request"));
    assert_eq!(refusal(&raw(r#"[{"jsonrpc":"2.0","id":1,"method":"tasks/get"}]"#).await).0, -32600);
    assert_eq!(refusal(&raw(r#"{"jsonrpc":"1.0","id":1,"method":"tasks/get"}"#).await).0, -32600);
    assert_eq!(refusal(&raw(r#"{"jsonrpc":"2.0","id":1}"#).await).0, -32600);
    assert_eq!(refusal(&raw(r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":[]}"#).await).0, -32602);
    for method in ["tasks/pushNotification/set", "tasks/resubscribe", "message/send", "SendMessage"] {
        let answer = shop.ask(By::Key("buyer"), method, json!({})).await;
        assert_eq!(refusal(&answer), (-32601, "Method not found"), "{method}");
    }
    let send = json!({ "jsonrpc": "2.0", "method": "tasks/send", "params": { "capability_id": CAPABILITY } });
    let nobody_waits = signed(shop.running.post("/uumit/a2a", &send), By::Key("buyer")).send().await.unwrap();
    assert_eq!((nobody_waits.status().as_u16(), nobody_waits.text().await.unwrap()), (204, String::new()));
    assert_eq!(shop.purchases().await, 1);
}

/// Who answers a request to an address that is shared, by the header that says so.
async fn owner(request: reqwest::RequestBuilder) -> (String, Value) {
    let answer = request.send().await.unwrap();
    let dialect = answer.headers()["x-a2a-dialect"].to_str().unwrap().to_owned();
    (dialect, answer.json().await.unwrap())
}

#[tokio::test]
async fn a_shared_address_knows_whose_a_request_is() {
    let shop = open(settings(), true, |_| {}).await;
    let (token, id) = (shop.token("buyer").await, shop.bought().await);
    let message = json!({ "role": "user", "parts": [{ "type": "text", "text": "hi" }] });
    for path in ["/a2a", "/a2a/", "/"] {
        let post = |method: &str, params: Value| shop.running.post(path, &body(method, params));
        let told = |method: &str, params: Value| post(method, params).bearer_auth(&token);
        // 1: whatever else it says.
        let said = post("tasks/get", json!({ "id": "t", "sessionId": "s" })).header("X-A2A-Dialect", "uumit");
        assert_eq!(owner(said).await.0, "uumit");
        let said = signed(post("tasks/get", json!({ "id": id })), By::Key("buyer")).header("X-A2A-Dialect", "a2a_v0_1");
        assert_eq!(owner(said).await.0, "a2a_v0_1");
        let (_, said) =
            owner(signed(post("tasks/get", json!({ "id": id })), By::Key("buyer")).header("X-A2A-Dialect", "x")).await;
        assert_eq!(refusal(&said).0, -32600);
        // 2: also what is no request at all.
        let (dialect, got) = owner(signed(post("tasks/get", json!({ "id": id })), By::Key("buyer"))).await;
        assert_eq!((dialect.as_str(), &got["result"]["status"]), ("uumit", &json!("submitted")));
        assert_eq!(owner(signed(shop.running.post(path, &json!([])), By::Key("buyer"))).await.0, "uumit");
        // 3
        let (dialect, sent) = owner(told("tasks/send", json!({ "capability_id": CAPABILITY, "sessionId": "s" }))).await;
        assert_eq!((dialect.as_str(), &sent["result"]["status"]), ("uumit", &json!("submitted")));
        // 4
        let first = json!({ "id": format!("task_{}", path.len()), "sessionId": "s", "message": message });
        let (dialect, sent) = owner(post("tasks/send", first)).await;
        assert_eq!((dialect.as_str(), &sent["result"]["status"]["state"]), ("a2a_v0_1", &json!("completed")));
        let first = json!({ "id": format!("task_{}", path.len()), "sessionId": "s" });
        let (dialect, got) = owner(post("tasks/get", first)).await;
        assert_eq!((dialect.as_str(), &got["result"]["status"]["state"]), ("a2a_v0_1", &json!("completed")));
        // 5
        let (dialect, got) = owner(told("tasks/get", json!({ "id": id }))).await;
        assert_eq!((dialect.as_str(), &got["result"]["status"]), ("uumit", &json!("submitted")));
        let tx = transaction(&id).tx();
        assert_eq!(owner(told("tasks/get", json!({ "id": tx }))).await.0, "uumit");
        let gone = told("tasks/sendSubscribe", json!({ "id": "task_1" })).send().await.unwrap();
        assert_eq!(frames(gone).await[0].1["error"]["code"], -32004);
        let with_message = json!({ "id": "task_m", "message": message });
        assert_eq!(owner(post("tasks/send", with_message)).await.0, "a2a_v0_1");
        // Everything else is as ever.
        assert_eq!(owner(post("tasks/get", json!({ "id": "t" }))).await.0, "a2a_v0");
        assert_eq!(owner(post("GetTask", json!({ "id": id }))).await.0, "a2a_v1");
        assert_eq!(owner(post("message/send", json!({ "capability_id": CAPABILITY }))).await.0, "a2a_v0_3");
    }
    // Requests at an agent's own address are never the market's.
    let own = shop.running.post("/a2a/echo", &body("tasks/send", json!({ "capability_id": CAPABILITY })));
    assert_eq!(owner(signed(own, By::Key("buyer"))).await.0, "a2a_v0_1");
}

#[tokio::test]
async fn without_a_market_nothing_is_the_products() {
    let running = start(settings()).await;
    let post = |method: &str, params: Value| running.post("/a2a", &body(method, params));
    let buys = post("tasks/send", json!({ "capability_id": CAPABILITY })).header("X-Platform-User-Id", "buyer");
    assert_eq!(owner(buys).await.0, "a2a_v0_1");
    assert_eq!(owner(post("tasks/get", json!({ "id": "task_1" }))).await.0, "a2a_v0");
    assert_eq!(owner(post("tasks/get", json!({ "id": "task_1", "sessionId": "s" }))).await.0, "a2a_v0");
    let (_, said) = owner(post("tasks/get", json!({ "id": "t" })).header("X-A2A-Dialect", "uumit")).await;
    assert_eq!(refusal(&said).0, -32600);
    assert_eq!(running.post("/uumit/a2a", &body("tasks/get", json!({}))).send().await.unwrap().status(), 404);
}

#[tokio::test]
async fn the_platforms_card_lists_what_is_for_sale() {
    let shop = shop().await;
    let card: Value = shop.running.get("/uumit/.well-known/agent.json").send().await.unwrap().json().await.unwrap();
    assert_eq!(card["url"], shop.running.url("/uumit/a2a"));
    assert_eq!(
        (&card["skills"][0]["id"], &card["skills"][0]["pricing"]["price_ut"]),
        (&json!(CAPABILITY), &json!("120"))
    );
    let origin: Value = shop.running.get("/.well-known/agent.json").send().await.unwrap().json().await.unwrap();
    assert!(origin["url"].as_str().unwrap().ends_with("/a2a/echo") || origin["url"] != card["url"], "{origin}");
}
