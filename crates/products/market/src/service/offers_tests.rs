//! Capabilities, on a store in memory.

use std::sync::Arc;

use engine::Engine;
use market_rules::capability::{CapabilityDraft, Error as CapabilityRefused, Verb};
use market_rules::transaction::{self, Status as Stage};
use model::Json;

use super::*;
use crate::service::MarketConfig;

async fn market() -> Market {
    let store = Arc::new(stores::memory::MemoryStore::new());
    let engine = Engine::builder(store).start().await.unwrap();
    Market::start(engine, MarketConfig::default(), true).await.unwrap()
}

fn caller(name: &str, via: Via) -> MarketCaller {
    MarketCaller { tenant: "default".into(), user: name.into(), via, limits: autonomy::SpendingLimits::default() }
}

fn seller() -> MarketCaller {
    caller("u_seller", Via::Person)
}

fn draft(title: &str, category: &str) -> CapabilityDraft {
    CapabilityDraft {
        title: Some(title.into()),
        description: Some(format!("About {title}")),
        category: Some(category.into()),
        capability_type: Some("service".into()),
        pricing_model: Some("per_use".into()),
        price_ut: Json::parse("12.5"),
        ..CapabilityDraft::default()
    }
}

fn once(key: &str, print: u8) -> Option<Once> {
    Some(Once { key: key.into(), print: [print; 32] })
}

const FIRST: Paging = Paging { page: 1, size: 20 };

/// Creates a capability and puts it on the market.
async fn sold(market: &Market, draft: CapabilityDraft) -> Capability {
    let made = market.offer(&seller(), draft, None, None).await.unwrap();
    market.change_capability(&seller().actor(), &made.id, CapabilityAction::Submit, None).await.unwrap().unwrap()
}

fn titles(page: &Paged<Capability>) -> Vec<&str> {
    page.items.iter().map(|one| &*one.terms.title).collect()
}

#[tokio::test]
async fn a_draft_is_its_owners_until_it_is_on_the_market() {
    let market = market().await;
    let made = market.offer(&seller(), draft("OCR", "documents"), None, None).await.unwrap();
    let (cap, core) = made.id.as_str().split_at(4);
    assert_eq!((cap, core.parse::<TransactionId>().is_ok()), ("cap_", true));
    assert_eq!((made.status, made.version), (Status::Draft, 1));
    let stranger = caller("u_other", Via::Agent);
    for asking in [None, Some(&stranger)] {
        assert!(matches!(market.capability(asking, &made.id).await, Err(Error::Unknown(MarketEntity::Capability))));
    }
    assert_eq!(market.capability(Some(&seller()), &made.id).await.unwrap(), made);
    assert_eq!(market.on_sale(&Filter::default(), FIRST).await.unwrap().total, 0);
    let theirs = market.change_capability(&stranger.actor(), &made.id, CapabilityAction::Submit, None).await;
    assert!(matches!(theirs, Err(Error::Unknown(MarketEntity::Capability))), "{theirs:?}");

    let sold =
        market.change_capability(&seller().actor(), &made.id, CapabilityAction::Submit, None).await.unwrap().unwrap();
    assert_eq!((sold.status, sold.version), (Status::Active, 2));
    assert_eq!(market.capability(None, &made.id).await.unwrap(), sold);
    assert_eq!(market.on_sale(&Filter::default(), FIRST).await.unwrap().items, std::slice::from_ref(&sold));
    let theirs = market.change_capability(&stranger.actor(), &made.id, CapabilityAction::Offline, None).await;
    assert!(matches!(theirs, Err(Error::Capability(CapabilityRefused::NotOwner(Verb::Offline)))), "{theirs:?}");
    let theirs = market.edit_capability(
        &stranger,
        &made.id,
        CapabilityDraft { title: Some("".into()), ..CapabilityDraft::default() },
        None,
    );
    assert!(matches!(theirs.await, Err(Error::Capability(CapabilityRefused::NotOwner(Verb::Edit)))));

    let actor = seller().actor();
    market.change_capability(&actor, &made.id, CapabilityAction::Offline, None).await.unwrap();
    assert!(matches!(market.capability(None, &made.id).await, Err(Error::Unknown(MarketEntity::Capability))));
    assert_eq!(market.on_sale(&Filter::default(), FIRST).await.unwrap().total, 0);
    assert_eq!(market.my_capabilities(&seller(), Some(Status::Offline), FIRST).await.unwrap().total, 1);
    assert_eq!(market.my_capabilities(&seller(), Some(Status::Active), FIRST).await.unwrap().total, 0);
    assert_eq!(market.sold_by(&seller().user, FIRST).await.unwrap().total, 0);
    assert_eq!(market.change_capability(&actor, &made.id, CapabilityAction::Remove, None).await.unwrap(), None);
    assert_eq!(market.my_capabilities(&seller(), None, FIRST).await.unwrap().total, 0);
}

#[tokio::test]
async fn an_edit_leaves_what_it_does_not_name() {
    let market = market().await;
    let full = CapabilityDraft {
        tags: vec!["a".into(), "b".into()],
        auto_accept_min_ut: Json::parse("\"1.5\""),
        daily_limit: Some(3),
        rate_limit_per_min: Some(2),
        callback_url: Some("https://seller.example.com/x".into()),
        callback_timeout_sec: Some(7),
        available: Some(false),
        ..draft("OCR", "documents")
    };
    let before = market.offer(&seller(), full, None, None).await.unwrap();
    let edit = CapabilityDraft { price_ut: Json::parse("\"99.01\""), ..CapabilityDraft::default() };
    let after = market.edit_capability(&seller(), &before.id, edit, None).await.unwrap();
    assert_eq!(after.terms, CapabilityTerms { price: Ut::parse("99.01").unwrap(), ..before.terms.clone() });
    let without = vec![Without::Tags, Without::AutoAccept, Without::DailyLimit, Without::RateLimit, Without::Callback];
    let bare = market.edit_capability(&seller(), &before.id, Edit { without, ..Edit::default() }, None).await.unwrap();
    let expected = CapabilityTerms {
        tags: Vec::new(),
        auto_accept_min: None,
        daily_limit: None,
        rate_limit_per_min: None,
        served: Served::Person,
        ..after.terms
    };
    assert_eq!((bare.terms, bare.version), (expected, 3));
    let none = CapabilityDraft { daily_limit: Some(0), ..CapabilityDraft::default() };
    let wrong = market.edit_capability(&seller(), &before.id, none, None).await;
    assert!(matches!(wrong, Err(Error::Fields(fields)) if fields[0].field == "daily_limit"));
}

#[tokio::test]
async fn the_same_promise_makes_one() {
    let market = market().await;
    let first = market.offer(&seller(), draft("A", "x"), None, once("k", 1)).await.unwrap();
    let again = market.offer(&seller(), draft("A", "x"), None, once("k", 1)).await.unwrap();
    assert_eq!((first.clone(), 1), (again, market.my_capabilities(&seller(), None, FIRST).await.unwrap().total));
    let other = market.offer(&seller(), draft("B", "x"), None, once("k", 2)).await;
    assert!(matches!(other, Err(Error::KeyReused)), "{other:?}");
    let actor = seller().actor();
    for _ in 0..2 {
        let submitted =
            market.change_capability(&actor, &first.id, CapabilityAction::Submit, once("s", 1)).await.unwrap();
        assert_eq!(submitted.unwrap().version, 2);
    }
    for _ in 0..2 {
        assert_eq!(
            market.change_capability(&actor, &first.id, CapabilityAction::Remove, once("r", 1)).await.unwrap(),
            None
        );
    }
    let gone = market.change_capability(&actor, &first.id, CapabilityAction::Remove, None).await;
    assert!(matches!(gone, Err(Error::Unknown(MarketEntity::Capability))));
    let taken = Some(CapabilityId::from("cap_x"));
    market.offer(&seller(), draft("C", "x"), taken.clone(), None).await.unwrap();
    assert!(matches!(market.offer(&seller(), draft("D", "x"), taken, None).await, Err(Error::Taken(_))));
}

#[tokio::test]
async fn many_who_change_one_at_a_time_all_get_through() {
    let market = market().await;
    let made = market.offer(&seller(), draft("A", "x"), None, None).await.unwrap();
    let edits = (0..6).map(|n| {
        let (market, id) = (market.clone(), made.id.clone());
        tokio::spawn(async move {
            let edit = CapabilityDraft { daily_limit: Some(n + 1), ..CapabilityDraft::default() };
            market.edit_capability(&seller(), &id, edit, None).await.map(|after| after.version)
        })
    });
    let mut versions = Vec::new();
    for edit in edits.collect::<Vec<_>>() {
        versions.push(edit.await.unwrap().unwrap());
    }
    versions.sort_unstable();
    assert_eq!(versions, [2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn what_is_on_the_market_is_found_by_what_it_is() {
    let market = market().await;
    for n in 0..5 {
        sold(&market, draft(&format!("Reader {n}"), "documents")).await;
    }
    sold(&market, CapabilityDraft { tags: vec!["Straße".into()], ..draft("Maps", "geo") }).await;
    let hourly = CapabilityDraft {
        pricing_model: Some("per_hour".into()),
        capability_type: Some("tool".into()),
        ..draft("Lathe", "geo")
    };
    sold(&market, hourly).await;
    market.offer(&seller(), draft("Hidden reader", "documents"), None, None).await.unwrap();

    let find = async |filter: Filter, paging: Paging| market.on_sale(&filter, paging).await.unwrap();
    let all = find(Filter::default(), Paging { page: 2, size: 3 }).await;
    assert_eq!((all.total, all.items.len(), all.more), (7, 3, true));
    let category = Some(Arc::from("geo"));
    let geo = find(Filter { category: category.clone(), ..Filter::default() }, FIRST).await;
    assert_eq!((titles(&geo), geo.total, geo.more), (vec!["Lathe", "Maps"], 2, false));
    let tools = Filter { category: category.clone(), capability_type: Some(CapabilityType::Tool), ..Filter::default() };
    assert_eq!(titles(&find(tools, FIRST).await), ["Lathe"]);
    let hourly = Filter { pricing_model: Some(PricingModel::PerHour), ..Filter::default() };
    assert_eq!(titles(&find(hourly, FIRST).await), ["Lathe"]);
    let none = Filter { category, pricing_model: Some(PricingModel::PerDay), ..Filter::default() };
    assert_eq!(find(none, FIRST).await.total, 0);
    for (words, expected) in [("READER", 5), ("about reader 3", 1), ("straße maps", 1), ("maps reader", 0), ("  ", 7)]
    {
        let words = Filter { words: Some(words.into()), ..Filter::default() };
        assert_eq!(find(words.clone(), FIRST).await.total, expected, "{words:?}");
    }
    let readers = Filter { words: Some("reader".into()), category: Some("documents".into()), ..Filter::default() };
    let page = find(readers.clone(), Paging { page: 2, size: 2 }).await;
    assert_eq!((titles(&page), page.total, page.more), (vec!["Reader 2", "Reader 1"], 5, true));
    let last = find(readers, Paging { page: 3, size: 2 }).await;
    assert_eq!((titles(&last), last.more), (vec!["Reader 0"], false));
    assert_eq!(market.sold_by(&seller().user, FIRST).await.unwrap().total, 7);
}

/// Acts as the seller's machine: accepts and serves purchases, or fails them.
fn serving(market: &Market, id: TransactionId, good: bool) -> tokio::task::JoinHandle<()> {
    let market = market.clone();
    tokio::spawn(async move {
        let mut changes = market.follow(&Actor::Platform, id).await.unwrap();
        while let Some(Ok(at)) = changes.next().await {
            let action = match at.status {
                Stage::Frozen => transaction::TransactionAction::Accept,
                Stage::Accepted if good => transaction::TransactionAction::Deliver {
                    result: Json::parse(r#"{"n":1}"#),
                    deliverables: Vec::new(),
                },
                Stage::Accepted => transaction::TransactionAction::Fail { reason: Some("no paper".into()) },
                _ => continue,
            };
            // A concurrent step is as good.
            let _ = market.act(&Actor::Platform, id, action, None).await;
        }
    })
}

async fn per_query(market: &Market) -> Capability {
    let machine = CapabilityDraft {
        pricing_model: Some("per_query".into()),
        price_ut: Json::parse("0"),
        served: Some(Served::Worker),
        ..draft("Query", "x")
    };
    sold(market, machine).await
}

#[tokio::test]
async fn a_call_at_once_buys_waits_and_settles() {
    let market = market().await;
    let one = per_query(&market).await;
    let buyer = caller("u_buyer", Via::Agent);
    let calling = {
        let (market, buyer, id) = (market.clone(), buyer.clone(), one.id.clone());
        tokio::spawn(async move { market.invoke(&buyer, &id, Json::parse(r#"{"q":1}"#), once("q", 1)).await })
    };
    let ordered = loop {
        let page = market.transactions(&buyer, None, None, FIRST).await.unwrap();
        if let Some(first) = page.items.into_iter().next() {
            break first;
        }
        tokio::task::yield_now().await;
    };
    serving(&market, ordered.id, true);
    let done = calling.await.unwrap().unwrap().transaction;
    assert_eq!((done.id, done.status, done.input), (ordered.id, Stage::Settled, Json::parse(r#"{"q":1}"#)));
    assert_eq!(done.result, Json::parse(r#"{"n":1}"#));
    let again = market.invoke(&buyer, &one.id, Json::parse(r#"{"q":1}"#), once("q", 1)).await.unwrap();
    assert_eq!(again.transaction.id, ordered.id);
    assert_eq!(market.transactions(&buyer, None, None, FIRST).await.unwrap().total, 1);
    let other = market.invoke(&buyer, &one.id, None, once("q", 2)).await;
    assert!(matches!(other, Err(Error::KeyReused)), "{other:?}");
}

#[tokio::test]
async fn what_fails_is_not_served_and_what_cannot_be_called_is_refused() {
    let market = market().await;
    let one = per_query(&market).await;
    let buyer = caller("u_buyer", Via::Agent);
    let ordered = market.order(&buyer, OrderRequest::of(one.id.clone()), once("q", 1)).await.unwrap();
    serving(&market, ordered.id, false);
    let failed = market.invoke(&buyer, &one.id, None, once("q", 1)).await;
    assert!(matches!(&failed, Err(Error::NotServed(words)) if words.contains("no paper")), "{failed:?}");

    let person = market.invoke(&caller("u_buyer", Via::Person), &one.id, None, None).await;
    assert!(matches!(person, Err(Error::Fault(fault)) if fault.kind == Kind::Forbidden));
    let per_use = sold(&market, draft("Per use", "x")).await;
    let refused = market.invoke(&buyer, &per_use.id, None, None).await;
    assert!(matches!(refused, Err(Error::Fields(_))), "{refused:?}");
    let missing = market.invoke(&buyer, &"cap_none".into(), None, None).await;
    assert!(matches!(missing, Err(Error::Unknown(MarketEntity::Capability))), "{missing:?}");
}

#[tokio::test]
async fn beyond_its_limits_a_call_waits_for_a_yes() {
    let market = market().await;
    let one = per_query(&market).await;
    let nothing = autonomy::SpendingLimits { risk: autonomy::Risk::L0, ..autonomy::SpendingLimits::default() };
    let buyer = MarketCaller { limits: nothing, ..caller("u_buyer", Via::Agent) };
    let asked = market.invoke(&buyer, &one.id, None, once("q", 1)).await.unwrap().transaction;
    assert!(asked.awaits_approval());
    let alone = market.approve(&buyer, asked.id, None, None).await;
    assert!(matches!(alone, Err(Error::Rule(market_rules::Error::ConfirmationPending))), "{alone:?}");
    let forged = market.approve(&buyer, asked.id, Some("x"), None).await;
    assert!(matches!(forged, Err(Error::Rule(market_rules::Error::Token(_)))), "{forged:?}");
    market.approve(&caller("u_buyer", Via::Person), asked.id, None, None).await.unwrap();
    serving(&market, asked.id, true);
    let done = market.invoke(&buyer, &one.id, None, once("q", 1)).await.unwrap().transaction;
    assert_eq!((done.id, done.status), (asked.id, Stage::Settled));
}

#[tokio::test]
async fn only_the_operators_agents_are_sold() {
    let market = market().await;
    let by = |agent: &str| Some(Served::Agent(agent.into()));
    let draft = |served| CapabilityDraft { served, ..draft("OCR", "documents") };
    let refused = |outcome: Result<Capability, Error>| match outcome {
        Err(Error::Fields(wrong)) => wrong.iter().map(|error| error.field).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(market.offer(&seller(), draft(by("echo")), None, None).await), ["agent"]);
    let nameless = CapabilityDraft { title: None, ..draft(by("echo")) };
    assert_eq!(refused(market.offer(&seller(), nameless, None, None).await), ["title", "agent"], "all at once");
    market.set_config(MarketConfig { agents: vec!["echo".into()], ..MarketConfig::default() });
    let made = market.offer(&seller(), draft(by("echo")), None, None).await.unwrap();
    assert_eq!(made.terms.served, Served::Agent("echo".into()));

    let edit = |served, callback_url: Option<&str>, without: &[Without]| {
        let draft =
            CapabilityDraft { served, callback_url: callback_url.map(str::to_owned), ..CapabilityDraft::default() };
        let edit = Edit { draft, without: without.to_vec() };
        let (market, id) = (&market, &made.id);
        async move { market.edit_capability(&seller(), id, edit, None).await }
    };
    assert_eq!(refused(edit(by("other"), None, &[]).await), ["agent"]);
    market.set_config(MarketConfig::default());
    let kept = edit(None, None, &[]).await.unwrap();
    assert_eq!(kept.terms.served, Served::Agent("echo".into()), "what was agreed stays");
    let url = "https://seller.example.com/x";
    let called = edit(None, Some(url), &[Without::Worker]).await.unwrap().terms.served;
    assert_eq!(called, Served::Callback { url: url.into(), timeout_s: 30 });
    assert_eq!(edit(Some(Served::Worker), None, &[]).await.unwrap().terms.served, Served::Worker);
    assert_eq!(edit(None, None, &[Without::Agent]).await.unwrap().terms.served, Served::Worker, "it is no agent");
    assert_eq!(edit(None, None, &[Without::Worker]).await.unwrap().terms.served, Served::Person);
}

#[tokio::test]
async fn a_yes_is_given_by_a_person_and_good_for_one_purchase() {
    let market = market().await;
    let dear = sold(&market, CapabilityDraft { price_ut: Json::parse("150"), ..draft("OCR", "documents") }).await;
    let hourly =
        CapabilityDraft { price_ut: Json::parse("40"), pricing_model: Some("per_hour".into()), ..draft("VM", "cloud") };
    let hourly = sold(&market, hourly).await;
    let (person, agent) = (caller("u_buyer", Via::Person), caller("u_buyer", Via::Agent));
    market.open_user(crate::service::NewUser { id: Some("u_buyer".into()), ..Default::default() }).await.unwrap();
    market.credit(&person.user, Ut::parse("1000").unwrap(), "gift", None).await.unwrap();

    let asked = market.quote(&agent, &dear.id, None).await.unwrap();
    assert_eq!((asked.fee, asked.asks), (Ut::parse("150").unwrap(), Some(autonomy::Because::PerCall)));
    assert!(asked.token.is_none(), "an agent does not confirm itself");
    assert!(asked.summary.contains("for 150 UT; 1000 UT are available"), "{}", asked.summary);
    let said = market.quote(&person, &dear.id, None).await.unwrap();
    assert!(!format!("{said:?}").contains(&said.token.clone().unwrap().text), "tokens are in no log");
    let token = said.token.unwrap().text;
    let wish = |token: &str| OrderRequest { confirm_token: Some(token.into()), ..OrderRequest::of(dear.id.clone()) };
    let bought = market.order(&agent, wish(&token), None).await.unwrap();
    assert!(!bought.awaits_approval());
    assert_eq!(bought.decision_source.name(), "user_confirmed");
    let twice = market.order(&agent, wish(&token), None).await;
    assert!(matches!(twice, Err(Error::Rule(market_rules::Error::Token(autonomy::TokenRefused::Used)))), "{twice:?}");

    // Or for an existing order.
    let waits = market.order(&agent, OrderRequest::of(dear.id.clone()), None).await.unwrap();
    assert!(waits.awaits_approval());
    let token = market.quote(&person, &dear.id, None).await.unwrap().token.unwrap().text;
    let stranger = caller("u_other", Via::Agent);
    let theirs = market.order(&stranger, wish(&token), None).await;
    assert!(
        matches!(theirs, Err(Error::Rule(market_rules::Error::Token(autonomy::TokenRefused::NotForThis)))),
        "{theirs:?}"
    );
    assert!(!market.approve(&agent, waits.id, Some(&token), None).await.unwrap().awaits_approval());

    let few = market.quote(&person, &hourly.id, Some(2)).await.unwrap();
    assert_eq!((few.fee, few.asks, few.token.is_none()), (Ut::parse("80").unwrap(), None, true), "nothing to ask");
    let many = market.quote(&person, &hourly.id, Some(3)).await.unwrap();
    assert_eq!((many.fee, many.asks), (Ut::parse("120").unwrap(), Some(autonomy::Because::PerCall)));
    let more = OrderRequest {
        booked_hours: Some(4),
        confirm_token: many.token.map(|token| token.text),
        ..OrderRequest::of(hourly.id.clone())
    };
    let more = market.order(&agent, more, None).await;
    assert!(
        matches!(more, Err(Error::Rule(market_rules::Error::Token(autonomy::TokenRefused::NotForThis)))),
        "{more:?}"
    );
    assert!(matches!(market.quote(&person, &hourly.id, None).await, Err(Error::Fields(_) | Error::Rule(_))));
    assert!(matches!(
        market.quote(&seller(), &dear.id, None).await,
        Err(Error::Rule(market_rules::Error::OwnCapability))
    ));
    let none = market.quote(&person, &"cap_none".into(), None).await;
    assert!(matches!(none, Err(Error::Unknown(MarketEntity::Capability))), "{none:?}");
}
