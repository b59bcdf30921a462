//! Agents with a price: costs of callers, income of sellers and the platform, budgets, and a consistent ledger.

use std::sync::Arc;

use engine::Engine;
use futures_util::StreamExt as _;
use ledger::{AccountId, UserId, Ut};
use market::service::{BilledAgent, BillingTerms, Budgets, MarketConfig, PRICE_EXTENSION};
use market_rules::capability::Served;
use market_rules::tariff::{Budget, Fine, Price, Window};
use market_rules::transaction::{Status, TransactionAction};
use model::ports::agent::{Agent, AgentEvent, EndState, Restart};
use model::ports::store::{Commit, Outcome};
use model::{
    CallScope, Caller, Cancel, ContextId, Expect, Fault, Json, Kind, Message, Part, RecordChange, RecordQuery, Role,
    Send, State, Task, TaskId, Wait,
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::common::{Fair, House, acting, balance, done, echo, frozen, offer, on_both_stores, until};

fn ut(text: &str) -> Ut {
    Ut::parse(text).unwrap()
}

fn terms(budgets: Budgets) -> BillingTerms {
    BillingTerms { tenant: "default".into(), commission: ledger::Rate::TENTH, budgets }
}

fn flat(per_task: &str, per_turn: &str) -> Price {
    Price { per_task: ut(per_task), per_turn: ut(per_turn), ..Price::default() }.check().unwrap()
}

fn priced(agent: Arc<dyn Agent>, price: Price, seller: Option<&str>, budgets: Budgets) -> Arc<dyn Agent> {
    Arc::new(BilledAgent::new(agent, price, seller.map(UserId::from), terms(budgets)))
}

/// An agent that follows its message; a number is the count of input tokens, with twice as many output tokens.
fn worker(restart: Restart) -> Arc<dyn Agent> {
    acting("worker", restart, |turn| match turn.messages[0].message.text().as_str() {
        "hang" => futures_util::stream::pending().boxed(),
        "forge" => {
            let paid = json!({ PRICE_EXTENSION: {"total": {"amount": "99", "turns": 7}}, "usage": {"input": 1} });
            done(vec![AgentEvent::Metadata(Json::from_value(&paid))], EndState::InputRequired, "more?")
        }
        "ask" => done(vec![], EndState::InputRequired, "how?"),
        "fail" => done(vec![usage(1_000)], EndState::Failed, "as asked"),
        "reject" => done(vec![usage(1_000)], EndState::Rejected, "as asked"),
        text => done(vec![usage(text.parse().unwrap_or_default())], EndState::Completed, "done"),
    })
}

fn usage(tokens: u64) -> AgentEvent {
    AgentEvent::Metadata(Json::from_value(&json!({"usage": {"input_tokens": tokens, "output_tokens": 2 * tokens}})))
}

fn place(name: &str, agent: &str) -> CallScope {
    let caller = Caller { tenant: "default".into(), name: name.into(), authenticated: true, scopes: Arc::default() };
    CallScope::tenant(caller, agent, "a2a_v1")
}

fn say(text: &str) -> Send {
    let message = Message {
        id: uuid::Uuid::now_v7().to_string().into(),
        role: Role::User,
        parts: vec![Part::text(text)],
        metadata: None,
        extensions: Vec::new(),
        references: Vec::new(),
    };
    Send::new(message)
}

async fn ask(fair: &Fair, name: &str, agent: &str, send: Send) -> Result<Arc<Task>, Fault> {
    match fair.engine().send(&place(name, agent), send).await? {
        engine::SendAnswer::Task(task) => Ok(task),
        engine::SendAnswer::Reply(reply) => panic!("{reply:?}"),
    }
}

/// A task that is under way.
async fn begun(fair: &Fair, name: &str, text: &str) -> TaskId {
    ask(fair, name, "worker", Send { wait: Wait::Exists, ..say(text) }).await.unwrap().id
}

fn receipt(task: &Task) -> Value {
    task.metadata.as_ref().map(Json::to_value).unwrap_or_default()[PRICE_EXTENSION].clone()
}

async fn rich(fair: &Fair, name: &str, amount: &str) {
    fair.user(name, false).await;
    fair.market.credit(&name.into(), ut(amount), &format!("for {name}"), None).await.unwrap();
}

async fn commission(fair: &Fair) -> i64 {
    let account = AccountId::commission(&"default".into()).key();
    fair.engine().store().balances(vec![account.into()]).await.unwrap()[0]
}

/// The check is clean and reports this number of running turns.
async fn agrees(fair: &Fair, turns: u64) {
    let report = fair.market.verify().await.unwrap();
    assert_eq!(report.words().collect::<Vec<_>>(), [""; 0]);
    assert_eq!((report.turns, report.others), (turns, 0));
}

#[tokio::test]
async fn a_caller_pays_the_seller_is_paid_and_the_platform_has_its_share() {
    on_both_stores(async |mut house| {
        let agent = priced(echo(), flat("0.5", "0.25"), Some("s"), Budgets::default());
        let fair = house.fair(vec![agent], MarketConfig::default()).await;
        rich(&fair, "alice", "10").await;
        let task = ask(&fair, "alice", "echo", say("hi")).await.unwrap();
        assert_eq!((balance(&fair, "alice").await, frozen(&fair, "alice").await), (925, 0));
        // A tenth of 0.75 is 0.075, half up.
        assert_eq!((balance(&fair, "s").await, commission(&fair).await), (67, 8));
        let told = receipt(&task);
        let entry = told["cost"]["entry"].as_str().unwrap().to_owned();
        assert_eq!(told["cost"], json!({"amount": "0.75", "currency": "UT", "hold": "0.75", "entry": entry}));
        assert_eq!(told["total"], json!({"amount": "0.75", "currency": "UT", "turns": 1}));
        assert!(told["usage"]["ms"].is_u64(), "{told}");
        let journal = fair.market.journal(10).await.unwrap();
        let shown: Vec<_> =
            journal.iter().map(|entry| (entry.id.to_string(), entry.note.clone().unwrap_or_default())).collect();
        let note = format!("echo, task {}", task.id);
        assert_eq!(shown[1..], [(entry.replace("/end", "/hold"), note.as_str().into()), (entry, note.as_str().into())]);
        agrees(&fair, 0).await;
    })
    .await;
}

#[tokio::test]
async fn what_is_metered_is_settled_by_what_was_used_and_the_rest_goes_back() {
    on_both_stores(async |mut house| {
        let price = Price {
            per_turn: ut("0.1"),
            per_1k_input: Fine::parse("0.01").unwrap(),
            per_1k_output: Fine::parse("0.025").unwrap(),
            hold: ut("2"),
            ..Price::default()
        };
        let fair = house
            .fair(vec![priced(worker(Restart::Fail), price, None, Budgets::default())], MarketConfig::default())
            .await;
        rich(&fair, "alice", "3").await;
        let mut left = 300;
        for (text, cost, state) in [
            ("0", 10, State::Completed),
            // 0.01 and 0.05 for a thousand and two thousand, exactly.
            ("1000", 16, State::Completed),
            ("1001", 17, State::Completed),
            // The cost is limited to the held amount.
            ("900000", 200, State::Completed),
            ("fail", 6, State::Failed),
        ] {
            if left < 200 {
                let reference = format!("again {text}");
                fair.market.credit(&"alice".into(), ut("3"), &reference, None).await.unwrap();
                left += 300;
            }
            let task = ask(&fair, "alice", "worker", say(text)).await.unwrap();
            left -= cost;
            assert_eq!((task.state(), balance(&fair, "alice").await), (state, left), "{text}");
            assert_eq!(receipt(&task)["cost"]["amount"], Ut::from_hundredths(cost).to_string(), "{text}");
        }
        let rejected = ask(&fair, "alice", "worker", say("reject")).await.unwrap();
        assert_eq!((receipt(&rejected)["cost"]["amount"].as_str(), balance(&fair, "alice").await), (Some("0"), left));
        assert_eq!(commission(&fair).await, 249, "nobody else sells it");
        // The agent's own usage stays in the metadata.
        assert_eq!(rejected.metadata.as_ref().unwrap().to_value()["usage"]["input_tokens"], 1_000);
        agrees(&fair, 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_task_is_paid_for_once_and_each_of_its_turns() {
    on_both_stores(async |mut house| {
        let agent = priced(worker(Restart::Fail), flat("1", "0.5"), None, Budgets::default());
        let fair = house.fair(vec![agent], MarketConfig::default()).await;
        rich(&fair, "alice", "10").await;
        let task = ask(&fair, "alice", "worker", say("ask")).await.unwrap();
        assert_eq!((task.state(), balance(&fair, "alice").await), (State::InputRequired, 850));
        let task = ask(&fair, "alice", "worker", Send { task: Some(task.id.to_string()), ..say("1") }).await.unwrap();
        assert_eq!((task.state(), balance(&fair, "alice").await), (State::Completed, 800));
        assert_eq!(receipt(&task)["cost"]["amount"], "0.5");
        assert_eq!(receipt(&task)["total"], json!({"amount": "2", "currency": "UT", "turns": 2}));
        // An agent's claim about another agent's cost does not change its own.
        let task = ask(&fair, "alice", "worker", say("forge")).await.unwrap();
        assert_eq!(receipt(&task)["total"], json!({"amount": "1.5", "currency": "UT", "turns": 1}));
        assert_eq!(task.metadata.as_ref().unwrap().to_value()["usage"]["input"], 1);
        let task =
            ask(&fair, "alice", "worker", Send { task: Some(task.id.to_string()), ..say("forge") }).await.unwrap();
        assert_eq!(receipt(&task)["total"], json!({"amount": "2", "currency": "UT", "turns": 2}));
        // Further turns of a task priced per task are free.
        fair.engine().set_agents(vec![priced(worker(Restart::Fail), flat("1", "0"), None, Budgets::default())]);
        let task = ask(&fair, "alice", "worker", say("ask")).await.unwrap();
        let task = ask(&fair, "alice", "worker", Send { task: Some(task.id.to_string()), ..say("1") }).await.unwrap();
        assert_eq!((balance(&fair, "alice").await, &receipt(&task)["total"]["turns"]), (500, &json!(1)));
        agrees(&fair, 0).await;
    })
    .await;
}

fn facts(fault: &Fault) -> Value {
    fault
        .facts
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test]
async fn who_cannot_pay_is_told_what_it_takes() {
    let fair = House::memory()
        .fair(vec![priced(echo(), flat("2", "0"), None, Budgets::default())], MarketConfig::default())
        .await;
    rich(&fair, "alice", "1.5").await;
    let fault = ask(&fair, "alice", "echo", say("hi")).await.unwrap_err();
    assert_eq!(fault.kind, Kind::InsufficientBalance);
    assert_eq!(
        fault.message,
        "insufficient balance: a turn of echo sets aside 2 UT, and alice has 1.5; add credit and send the message again"
    );
    let told = json!({"reason": "INSUFFICIENT_BALANCE", "agent": "echo", "payer": "alice", "needed": "2", "available": "1.5", "currency": "UT"});
    assert_eq!(facts(&fault), told);
    // An unknown user has no money; an anonymous caller, or one of another tenant, has no account.
    let fault = ask(&fair, "nobody", "echo", say("hi")).await.unwrap_err();
    assert_eq!((fault.kind, &facts(&fault)["available"]), (Kind::InsufficientBalance, &json!("0")));
    let stranger = CallScope::tenant(Caller::anonymous(), "echo", "a2a_v1");
    let fault = fair.engine().send(&stranger, say("hi")).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Unauthenticated);
    assert!(fault.message.contains("cannot pay; send a key or a token"), "{fault}");
    let of = |tenant: &str, name: &str| {
        let caller = Caller { tenant: tenant.into(), name: name.into(), authenticated: true, scopes: Arc::default() };
        CallScope::tenant(caller, "echo", "a2a_v1")
    };
    let fault = fair.engine().send(&of("elsewhere", "alice"), say("hi")).await.unwrap_err();
    assert_eq!(fault.kind, Kind::Forbidden);
    assert_eq!(fair.engine().health().await.unwrap().tasks, 0);
    // The name of a caller by token is no user id; the error names the id to open.
    let token = of("default", "jwt:idp.example/x#ann~1\u{1f}");
    let fault = fair.engine().send(&token, say("hi")).await.unwrap_err();
    let id = facts(&fault)["payer"].as_str().unwrap().to_owned();
    assert_eq!((fault.kind, id.as_str()), (Kind::InsufficientBalance, "jwt:idp.example~2fx~23ann~7e1~1f"));
    rich(&fair, &id, "2").await;
    fair.engine().send(&token, say("hi")).await.unwrap();
    assert_eq!((balance(&fair, &id).await, balance(&fair, "alice").await), (0, 150));
    agrees(&fair, 0).await;
}

#[tokio::test]
async fn budgets_of_keys_and_contexts_are_kept_to() {
    on_both_stores(async |mut house| {
        let budgets = Budgets {
            per_key: Some(Budget { amount: ut("3"), window: Window::Day }),
            keys: [("carol".to_owned(), Budget { amount: ut("5"), window: Window::Total })].into(),
            per_context: Some(ut("2")),
        };
        let price = Price { per_1k_input: Fine::parse("0.1").unwrap(), hold: ut("1"), ..Price::default() };
        let fair = house.fair(vec![priced(worker(Restart::Fail), price, None, budgets)], MarketConfig::default()).await;
        for name in ["alice", "bob", "carol"] {
            rich(&fair, name, "100").await;
        }
        let within = |context: &str, text: &str| Send { context: Some(ContextId::from(context)), ..say(text) };
        // A hold counts until its cost is known: 0.8 leaves 1.2 of the context, then 0.4.
        ask(&fair, "alice", "worker", within("c\u{1f}1", "8000")).await.unwrap();
        ask(&fair, "bob", "worker", within("c\u{1f}1", "8000")).await.unwrap();
        let fault = ask(&fair, "carol", "worker", within("c\u{1f}1", "1")).await.unwrap_err();
        assert_eq!(fault.kind, Kind::BudgetExceeded);
        assert_eq!(
            fault.message,
            "budget exceeded: a turn of worker sets aside 1 UT, and of the budget of this context (2 UT, total) 0.4 is left; \
             go on in another context, or have the budget raised"
        );
        let told = json!({"reason": "BUDGET_EXCEEDED", "agent": "worker", "payer": "carol", "needed": "1", "available": "0.4",
            "currency": "UT", "budget": "context", "window": "total"});
        assert_eq!(facts(&fault), told);
        // Of her own three a day alice has 2.2 left, then 1.2, then 0.2.
        for n in 0..2 {
            ask(&fair, "alice", "worker", within(&format!("a{n}"), "10000")).await.unwrap();
        }
        let fault = ask(&fair, "alice", "worker", say("1")).await.unwrap_err();
        assert_eq!((fault.kind, &facts(&fault)["available"]), (Kind::BudgetExceeded, &json!("0.2")));
        assert!(fault.message.contains("wait for the next day (UTC)"), "{fault}");
        // Carol has a budget of her own, and five fit.
        for n in 0..5 {
            ask(&fair, "carol", "worker", within(&format!("b{n}"), "10000")).await.unwrap();
        }
        assert_eq!(ask(&fair, "carol", "worker", say("1")).await.unwrap_err().kind, Kind::BudgetExceeded);
        assert_eq!((balance(&fair, "alice").await, balance(&fair, "carol").await), (9_720, 9_500));
        agrees(&fair, 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_refusal_takes_nothing_from_a_budget() {
    let budgets = Budgets { per_key: Some(Budget { amount: ut("2"), window: Window::Month }), ..Budgets::default() };
    let fair = House::memory()
        .fair(vec![priced(worker(Restart::Fail), flat("0", "2"), None, budgets)], MarketConfig::default())
        .await;
    rich(&fair, "alice", "1").await;
    for _ in 0..3 {
        assert_eq!(ask(&fair, "alice", "worker", say("1")).await.unwrap_err().kind, Kind::InsufficientBalance);
    }
    fair.market.credit(&"alice".into(), ut("9"), "more", None).await.unwrap();
    for text in ["reject", "reject", "1"] {
        ask(&fair, "alice", "worker", say(text)).await.unwrap();
    }
    assert_eq!(ask(&fair, "alice", "worker", say("1")).await.unwrap_err().kind, Kind::BudgetExceeded);
    agrees(&fair, 0).await;
}

#[tokio::test]
async fn turns_that_a_crash_cut_off_are_settled_by_the_next_process() {
    on_both_stores(async |mut house| {
        for (restart, paid) in [(Restart::Fail, 0), (Restart::Retry, 150)] {
            let turns: Arc<Mutex<u32>> = Arc::default();
            let slow = |hangs: bool| {
                let turns = turns.clone();
                let agent = acting("worker", restart, move |_| {
                    *turns.lock() += 1;
                    if hangs { futures_util::stream::pending().boxed() } else { done(vec![], EndState::Completed, "") }
                });
                priced(agent, flat("0", "0.5"), Some("s"), Budgets::default())
            };
            let fair = house.fair(vec![slow(true)], MarketConfig::default()).await;
            let name = format!("{restart:?}").to_lowercase();
            rich(&fair, &name, "10").await;
            let mut ids = Vec::new();
            for _ in 0..3 {
                ids.push(begun(&fair, &name, "go").await);
            }
            until(async || *turns.lock() == 3).await;
            assert_eq!((balance(&fair, &name).await, frozen(&fair, &name).await), (850, 150));
            agrees(&fair, 3).await;
            house.kill().await;
            let fair = house.fair(vec![slow(false)], MarketConfig::default()).await;
            for id in ids {
                until(async || fair.engine().task(id).await.unwrap().unwrap().core.is_settled()).await;
            }
            assert_eq!((balance(&fair, &name).await, frozen(&fair, &name).await), (1_000 - paid, 0), "{restart:?}");
            agrees(&fair, 0).await;
            house.kill().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_purchase_that_an_agent_with_a_price_serves_is_paid_for_by_its_seller() {
    on_both_stores(async |mut house| {
        let config = || MarketConfig { agents: vec!["worker".into()], ..MarketConfig::default() };
        let agent = priced(worker(Restart::Fail), flat("20", "0"), None, Budgets::default());
        let fair = house.fair(vec![agent], config()).await;
        rich(&fair, "b", "1000").await;
        rich(&fair, "s", "30").await;
        let ocr = fair.sells("s", "ocr", offer(Served::Agent("worker".into()))).await;
        let buys = async || {
            let row = fair.order("b", &ocr).await.unwrap();
            fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
            row.id
        };
        let id = buys().await;
        fair.comes_to(id, Status::Delivered).await;
        assert_eq!(balance(&fair, "s").await, 1_000);
        // A second one exceeds the seller's balance: the buyer is refunded.
        let short = buys().await;
        let row = fair.comes_to(short, Status::Failed).await;
        assert!(format!("{row:?}").contains("insufficient balance"), "{row:?}");
        fair.act("b", id, TransactionAction::Confirm).await.unwrap();
        assert_eq!((balance(&fair, "s").await, balance(&fair, "b").await), (11_800, 88_000));
        agrees(&fair, 0).await;
    })
    .await;
}

#[tokio::test]
async fn the_check_finds_what_is_set_aside_for_nothing_and_what_is_not_set_aside() {
    let mut house = House::memory();
    let fair = house
        .fair(vec![priced(worker(Restart::Fail), flat("0", "1"), None, Budgets::default())], MarketConfig::default())
        .await;
    rich(&fair, "alice", "10").await;
    let id = begun(&fair, "alice", "hang").await;
    agrees(&fair, 1).await;
    let store = fair.engine().store().clone();
    let query = RecordQuery {
        kind: "market/turn-hold".into(),
        list: "all".into(),
        after: None,
        skip: 0,
        limit: 9,
        count: false,
    };
    let (kept, rank) = store.records(query).await.unwrap().records.remove(0);
    let (kind, key, lists) = (&kept.kind, &kept.key, vec![model::Listed { list: "all".into(), rank }]);
    let change = async |record: RecordChange| {
        assert_eq!(store.commit(Commit { records: vec![record], ..Commit::default() }).await, Outcome::Done);
    };
    let put = |body: &str| RecordChange::Put {
        kind: kind.clone(),
        key: key.clone(),
        expect: Expect::Any,
        body: body.to_owned().into(),
        lists: lists.clone(),
    };
    let says = async |what: &str| {
        let words: Vec<String> = fair.market.verify().await.unwrap().words().collect();
        assert!(words.iter().any(|words| words.contains(what)), "{what}: {words:?}");
    };
    let text = String::from_utf8(kept.body.to_vec()).unwrap();
    // The hold is gone, and the turn runs.
    change(RecordChange::Remove { kind: kind.clone(), key: key.clone(), expect: Expect::Any }).await;
    says("it runs, and what was set aside for it is not there").await;
    says("neither hold nor payment is there").await;
    // The hold exists with other facts.
    change(put(&text.replace("\"amount\":100", "\"amount\":90"))).await;
    says("what is set aside for it is not what its log says").await;
    says("its hold is not what its entry says").await;
    change(put("\u{1}nonsense")).await;
    says("cannot be read").await;
    // The turn has ended, and the hold still exists.
    change(RecordChange::Remove { kind: kind.clone(), key: key.clone(), expect: Expect::Any }).await;
    change(put(&text)).await;
    agrees(&fair, 1).await;
    let cancel = Cancel { task: id.to_string(), metadata: None };
    fair.engine().cancel(&place("alice", "worker"), cancel).await.unwrap();
    agrees(&fair, 0).await;
    change(put(&text)).await;
    says("it does not run, and something is still set aside for it").await;
    says("it was paid for, and its money is still set aside").await;
}

/// A small seeded generator, so that failures can be reproduced.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

async fn customer(engine: Engine, seed: u64, orders: u64) {
    let mut dice = Dice(seed);
    for _ in 0..orders {
        let name = format!("u{}", dice.roll(6));
        let text = ["ask", "fail", "reject", "500", "2500", "hang"][dice.roll(6) as usize];
        let send =
            Send { context: Some(ContextId(format!("c{}", dice.roll(3)).into())), wait: Wait::Exists, ..say(text) };
        let at = place(&name, "worker");
        let task = match engine.send(&at, send).await {
            Ok(engine::SendAnswer::Task(task)) => task,
            Ok(engine::SendAnswer::Reply(reply)) => panic!("{reply:?}"),
            Err(fault) => {
                assert!(matches!(fault.kind, Kind::InsufficientBalance | Kind::BudgetExceeded), "{fault:?}");
                continue;
            }
        };
        if dice.roll(3) == 0 {
            let more = Send { task: Some(task.id.to_string()), wait: Wait::Exists, ..say("700") };
            if let Err(fault) = engine.send(&place(&format!("u{}", dice.roll(6)), "worker"), more).await {
                let known = [Kind::InsufficientBalance, Kind::BudgetExceeded, Kind::TaskSettled];
                assert!(known.contains(&fault.kind), "{fault:?}");
            }
        }
        if text == "hang" {
            let gone = match dice.roll(2) {
                0 => engine.purge(task.id).await.map(drop),
                _ => engine.cancel(&at, Cancel { task: task.id.to_string(), metadata: None }).await.map(drop),
            };
            gone.unwrap();
        }
    }
}

/// Many callers, few wallets, one budget: it is never exceeded, and the ledger is consistent at the end.
async fn many(fair: &Fair, people: u64, orders: u64) {
    for n in 0..6 {
        rich(fair, &format!("u{n}"), &(5 * (n + 1)).to_string()).await;
    }
    let all = (0..people).map(|seed| tokio::spawn(customer(fair.engine().clone(), seed + 1, orders)));
    for one in futures_util::future::join_all(all).await {
        one.unwrap();
    }
    until(async || fair.engine().store().unfinished(None, 1).await.unwrap().is_empty()).await;
    agrees(fair, 0).await;
    let store = fair.engine().store();
    let accounts = store.accounts(None, usize::MAX).await.unwrap();
    assert_eq!(accounts.iter().map(|(_, sum)| sum).sum::<i64>(), 0);
    let starts =
        |prefix: &str| accounts.iter().filter(|(name, _)| name.starts_with(prefix)).cloned().collect::<Vec<_>>();
    let spent = |budgets: &[(Arc<str>, i64)]| -budgets.iter().map(|(_, sum)| sum).sum::<i64>();
    let (keys, contexts) = (starts("b\u{1f}default\u{1f}key\u{1f}"), starts("b\u{1f}default\u{1f}context\u{1f}"));
    assert!(keys.iter().all(|(_, sum)| (-800..=0).contains(sum)), "{keys:?}");
    assert!(contexts.iter().all(|(_, sum)| (-2_500..=0).contains(sum)), "{contexts:?}");
    // The budgets' spending is the sum that was paid.
    let paid = commission(fair).await + balance(fair, "s").await;
    assert_eq!((spent(&keys), spent(&contexts)), (paid, paid));
    assert!(paid > 1_000, "{paid}: nothing much happened");
    let left: i64 =
        futures_util::future::join_all((0..6).map(|n| async move { balance(fair, &format!("u{n}")).await }))
            .await
            .iter()
            .sum();
    assert_eq!(left + paid, 100 * 5 * (1..=6).sum::<i64>());
}

fn crowded() -> Vec<Arc<dyn Agent>> {
    let budgets = Budgets {
        per_key: Some(Budget { amount: ut("8"), window: Window::Total }),
        per_context: Some(ut("25")),
        ..Budgets::default()
    };
    let price = Price {
        per_task: ut("0.07"),
        per_turn: ut("0.13"),
        per_1k_input: Fine::parse("0.11").unwrap(),
        per_1k_output: Fine::parse("0.033").unwrap(),
        hold: ut("0.9"),
        ..Price::default()
    };
    vec![priced(worker(Restart::Fail), price, Some("s"), budgets)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_never_overspend_a_budget() {
    let fair = House::memory().fair(crowded(), MarketConfig::default()).await;
    many(&fair, 24, 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_do_they_on_a_disk() {
    let mut house = House::sqlite();
    let fair = house.fair(crowded(), MarketConfig::default()).await;
    many(&fair, 12, 20).await;
}
