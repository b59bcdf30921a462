//! Agents with a price, in every generation and binding: what who cannot pay is told, what who can is told afterwards, and
//! what cards say beforehand.

use std::sync::Arc;

use assistants::AssistantsService;
use engine::Engine;
use gateway::Settings;
use gateway::product::ProductService;
use market::service::{
    BilledAgent as Priced, BillingTerms as Terms, Budgets, Market, MarketConfig, NewUser, PRICE_EXTENSION,
};
use market::{MarketService, MarketSettings};
use market_rules::Ut;
use market_rules::tariff::{Budget, Price, Window};
use model::ports::agent::Agent;
use serde_json::{Value, json};

use testkit::{As as _, Running, key, saying, sends, settings, start_on};

fn ut(text: &str) -> Ut {
    Ut::parse(text).unwrap()
}

/// A server whose `echo` costs 0.5 a turn, and whose `scripted` is free. Ann has nothing, Bob has money, Carol has money and
/// no budget.
async fn shop() -> (Running, Market) {
    let price = Price { per_turn: ut("0.5"), ..Price::default() }.check().unwrap();
    let keys = [("carol".to_owned(), Budget { amount: ut("0.1"), window: Window::Month })].into();
    let budgets = Budgets { keys, ..Budgets::default() };
    let terms = Terms { tenant: "default".into(), commission: market_rules::Rate::TENTH, budgets };
    let agents = agents::BUILTIN.iter().map(|builtin| {
        let agent = (builtin.build)(&agents::BuiltinSettings::default());
        if builtin.name == "echo" {
            return Arc::new(Priced::new(agent, price, None, terms.clone())) as Arc<dyn Agent>;
        }
        agent
    });
    let store = Arc::new(stores::memory::MemoryStore::new());
    let books = Some(Arc::new(market::service::MarketSettlement) as _);
    let engine = Engine::builder(store).agents(agents.collect()).settlement(books).start().await.unwrap();
    let market = Market::start(engine.clone(), MarketConfig::default(), true).await.unwrap();
    for user in ["bob", "carol"] {
        market.open_user(NewUser { id: Some(user.into()), ..NewUser::default() }).await.unwrap();
        market.credit(&user.into(), ut("100"), user, None).await.unwrap();
    }
    let agent_ids = vec![(agents::assistant::assistant_id("echo"), Arc::from("echo"))];
    let assistants = AssistantsService::new(assistants::langgraph::LangGraphProfile::Documented);
    let market_service = MarketService::new(MarketSettings::new(market.clone()));
    let products: Vec<Arc<dyn ProductService>> = vec![Arc::new(market_service), Arc::new(assistants)];
    let settings = Settings {
        keys: ["ann", "bob", "carol"].map(|name| key(name, "default")).into(),
        products,
        agent_ids,
        ..settings()
    };
    (start_on(engine, settings, reqwest::Client::new()).await, market)
}

/// Status, body.
async fn told(request: reqwest::RequestBuilder) -> (u16, Value) {
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

const SHORT: &str =
    "insufficient balance: a turn of echo sets aside 0.5 UT, and ann has 0; add credit and send the message again";

#[tokio::test]
async fn who_cannot_pay_is_told_so_in_each_dialect_before_a_task_exists() {
    let (running, market) = shop().await;
    let facts = json!({"reason": "INSUFFICIENT_BALANCE", "agent": "echo", "payer": "ann", "needed": "0.5", "available": "0", "currency": "UT"});
    let info = json!([{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "INSUFFICIENT_BALANCE",
        "domain": "a2a-protocol.org", "metadata": facts}]);
    for (name, request) in sends(&running, "echo") {
        let (status, body) = told(request.caller("ann")).await;
        let rpc = |data: &Value| json!({"code": -32042, "message": SHORT, "data": data});
        let expected = match name {
            "1.0 rpc" => (200, json!({"jsonrpc": "2.0", "id": 7, "error": rpc(&info)})),
            "1.0 rest" => {
                let error = json!({"code": 402, "status": "FAILED_PRECONDITION", "message": SHORT, "details": info});
                (402, json!({ "error": error }))
            }
            "0.3 rest" => {
                (402, json!({"code": -32042, "message": SHORT, "type": "InsufficientBalanceError", "data": facts}))
            }
            "0.3 rpc" | "0.1 rpc" => (200, json!({"jsonrpc": "2.0", "id": 7, "error": rpc(&facts)})),
            other => panic!("{other}"),
        };
        assert_eq!((status, body), expected, "{name}");
    }
    assert_eq!(market.engine().health().await.unwrap().tasks, 0);
    // A stream is refused before it begins.
    let (status, body) = told(running.rpc("echo", "SendStreamingMessage", &saying("hi")).caller("ann")).await;
    assert_eq!((status, &body["error"]["code"]), (200, &json!(-32042)));
    let streaming = running.post("/a2a/echo/message:stream", &saying("hi")).header("a2a-version", "1.0");
    assert_eq!(told(streaming.caller("ann")).await.0, 402);
    // An agent without a price costs nothing.
    for (name, request) in sends(&running, "scripted") {
        assert_eq!(request.caller("ann").send().await.unwrap().status(), 200, "{name}");
    }
}

#[tokio::test]
async fn a_budget_that_is_spent_is_told_in_each_dialect() {
    let (running, market) = shop().await;
    for (name, request) in sends(&running, "echo") {
        let (status, body) = told(request.caller("carol")).await;
        let told = body.to_string();
        for what in
            ["BUDGET_EXCEEDED", "\"needed\":\"0.5\"", "\"available\":\"0.1\"", "\"budget\":\"key\"", "next month"]
        {
            assert!(told.contains(what), "{name}: {what} is not in {told}");
        }
        assert_eq!(status, if name.ends_with("rest") { 402 } else { 200 }, "{name}");
    }
    assert_eq!(market.engine().health().await.unwrap().tasks, 0);
    assert_eq!(market.wallet(&"carol".into()).await.unwrap().available, ut("100"));
}

#[tokio::test]
async fn who_is_nobody_is_asked_who_it_is() {
    let (running, _) = shop().await;
    for (name, request) in sends(&running, "echo") {
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status(), 401, "{name}");
        assert!(answer.text().await.unwrap().contains("has a price"), "{name}");
    }
}

#[tokio::test]
async fn langgraph_has_a_status_for_it() {
    let (running, _) = shop().await;
    let id = agents::assistant::assistant_id("echo");
    let params = json!({"message": {"role": "user", "parts": [{"kind": "text", "text": "hi"}], "messageId": "m"}});
    let body = json!({"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": params});
    let send = |caller: &str| {
        running.post(&format!("/langgraph/a2a/{id}"), &body).header("accept", "application/json").caller(caller)
    };
    assert_eq!(told(send("ann")).await, (402, json!({ "detail": SHORT })));
    let (status, done) = told(send("bob")).await;
    assert_eq!(status, 200);
    assert!(done.to_string().contains(r#""amount":"0.5""#), "{done}");
}

#[tokio::test]
async fn who_pays_is_told_what_it_cost_in_each_dialect() {
    let (running, market) = shop().await;
    for (name, request) in sends(&running, "echo") {
        let before = market.wallet(&"bob".into()).await.unwrap().available;
        let (status, body) = told(request.caller("bob")).await;
        assert_eq!(status, 200, "{name}: {body}");
        let task = match name {
            "1.0 rpc" => &body["result"]["task"],
            "1.0 rest" | "0.3 rest" => &body["task"],
            _ => &body["result"],
        };
        let paid = &task["metadata"][PRICE_EXTENSION];
        let entry = paid["cost"]["entry"].as_str().unwrap_or_else(|| panic!("{name}: {body}"));
        assert_eq!(paid["cost"], json!({"amount": "0.5", "currency": "UT", "hold": "0.5", "entry": entry}), "{name}");
        assert_eq!(paid["total"]["turns"], 1, "{name}");
        let after = market.wallet(&"bob".into()).await.unwrap();
        assert_eq!((after.available, after.frozen), (before.minus(ut("0.5")).unwrap(), Ut::ZERO), "{name}");
        assert!(market.journal(1).await.unwrap()[0].id.as_str() == entry, "{name}");
    }
    assert!(market.verify().await.unwrap().is_clean());
}

#[tokio::test]
async fn a_stream_ends_with_what_it_cost() {
    let (running, _) = shop().await;
    let answer = running.rpc("echo", "SendStreamingMessage", &saying("hi")).caller("bob").send().await.unwrap();
    let text = answer.text().await.unwrap();
    let last = text.lines().filter_map(|line| line.strip_prefix("data:")).next_back().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    let update = &last["result"]["statusUpdate"];
    assert_eq!(update["status"]["state"], "TASK_STATE_COMPLETED", "{last}");
    assert_eq!(update["metadata"][PRICE_EXTENSION]["cost"]["amount"], "0.5", "{last}");
}

/// The card of an agent with a price, and of one without.
#[tokio::test]
async fn a_card_tells_the_price_and_a_caller_that_knows_it_is_answered_so() {
    let (running, _) = shop().await;
    let card = async |agent: &str| {
        let card = running.get(&format!("/a2a/{agent}/.well-known/agent-card.json")).send().await.unwrap();
        card.json::<Value>().await.unwrap()
    };
    let price = json!([{
        "uri": PRICE_EXTENSION,
        "description": "Turns of this agent cost something: the price is in params, what a turn used and cost in the task's metadata under this URI",
        "params": {"currency": "UT", "hold": "0.5", "per_turn": "0.5"},
    }]);
    let mut told = card("echo").await["capabilities"]["extensions"].clone();
    if let Some(members) = told[0].as_object_mut() {
        assert_ne!(members.remove("required"), Some(json!(true)));
    }
    assert_eq!(told, price);
    assert!(card("scripted").await["capabilities"].get("extensions").is_none());
    for (version, header) in [("1.0", "a2a-extensions"), ("0.3", "x-a2a-extensions")] {
        let (method, message) = match version {
            "1.0" => ("SendMessage", saying("hi")),
            _ => (
                "message/send",
                json!({"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hi"}]}}),
            ),
        };
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": message});
        for asks in [true, false] {
            let mut request = running.post("/a2a/echo", &body).header("a2a-version", version).caller("bob");
            if asks {
                request = request.header(header, format!("https://elsewhere.example/x, {PRICE_EXTENSION}"));
            }
            let answer = request.send().await.unwrap();
            let told = answer.headers().get(header).map(|value| value.to_str().unwrap());
            assert_eq!(told, asks.then_some(PRICE_EXTENSION), "{version}");
        }
    }
}
