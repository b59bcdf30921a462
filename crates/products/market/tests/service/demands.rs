//! Demands: posted, matched, bought for, canceled, expired.

use market::service::{Error, MarketConfig, MarketEntity, Once, OrderRequest, Paging};
use market_rules::capability::{self, Served};
use market_rules::demand::{DemandDraft, Level, Status};
use market_rules::transaction::{Status as Stage, TransactionAction};
use market_rules::{Capability, CapabilityId, Demand, DemandId, Transaction};
use model::Json;

use crate::common::{Fair, House, Phone, agent_of, offer, on_both_stores};

const PAGE: Paging = Paging { page: 1, size: 100 };
const DAY: std::time::Duration = std::time::Duration::from_secs(86_400);

fn wanted() -> DemandDraft {
    DemandDraft {
        title: Some("OCR of invoices".into()),
        description: Some("Read 200 scanned invoices and give me their totals".into()),
        category: Some("documents".into()),
        budget_ut: Json::parse("100"),
        ..DemandDraft::default()
    }
}

fn once(key: &str, print: u8) -> Once {
    Once { key: key.to_owned(), print: [print; 32] }
}

/// Puts a capability on the market through the service, so that it is in all lists.
async fn sells(
    fair: &Fair,
    seller: &str,
    change: impl FnOnce(capability::CapabilityDraft) -> capability::CapabilityDraft,
) -> Capability {
    let made = fair.market.offer(&agent_of(seller), change(offer(Served::Person)), None, None).await.unwrap();
    let (actor, submit) = (agent_of(seller).actor(), capability::CapabilityAction::Submit);
    fair.market.change_capability(&actor, &made.id, submit, None).await.unwrap().unwrap()
}

async fn buys(fair: &Fair, buyer: &str, capability: &CapabilityId, demand: &DemandId) -> Result<Transaction, Error> {
    let wish = OrderRequest { demand: Some(demand.0.clone()), ..OrderRequest::of(capability.clone()) };
    fair.market.order(&agent_of(buyer), wish, None).await
}

async fn stands(fair: &Fair, id: &DemandId) -> (Status, Option<ledger::TransactionId>) {
    let found = fair.market.demand(&agent_of("b"), id).await.unwrap();
    (found.status, found.transaction)
}

#[tokio::test]
async fn a_demand_is_posted_once_and_seen_while_it_is_open() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let (market, b, s) = (&fair.market, agent_of("b"), agent_of("s"));
        let made = market.want(&b, &wanted(), Some(once("k", 1))).await.unwrap();
        assert!(made.id.as_str().starts_with("dem_") && made.status == Status::Open);
        assert_eq!(market.want(&b, &wanted(), Some(once("k", 1))).await.unwrap(), made, "the same again");
        let other = market.want(&b, &wanted(), Some(once("k", 2))).await;
        assert!(matches!(other, Err(Error::KeyReused)), "{other:?}");
        let other = market.want(&b, &DemandDraft { category: None, ..wanted() }, None).await.unwrap();
        assert_eq!(market.demand(&s, &made.id).await.unwrap(), made);
        let ids = |page: market::service::Paged<Demand>| page.items.into_iter().map(|one| one.id).collect::<Vec<_>>();
        assert_eq!(ids(market.open_demands(None, PAGE).await.unwrap()), [other.id.clone(), made.id.clone()]);
        assert_eq!(ids(market.open_demands(Some("documents"), PAGE).await.unwrap()), std::slice::from_ref(&made.id));
        assert_eq!(ids(market.my_demands(&s, None, PAGE).await.unwrap()), []);
        let one = market.my_demands(&b, Some(Status::Open), Paging { page: 2, size: 1 }).await.unwrap();
        assert_eq!((one.total, one.more, ids(one)), (2, false, vec![made.id.clone()]));

        // Its owner cancels it, once; other users do not see it from then on.
        let refused = market.cancel_demand(&s, &made.id, None).await.unwrap_err();
        assert!(matches!(refused, Error::Demand(market_rules::demand::Error::NotOwner)), "{refused}");
        let gone = market.cancel_demand(&b, &made.id, Some(once("c", 3))).await.unwrap();
        assert_eq!(gone.status, Status::Cancelled);
        assert_eq!(market.cancel_demand(&b, &made.id, Some(once("c", 3))).await.unwrap(), gone, "the same again");
        let twice = market.cancel_demand(&b, &made.id, None).await.unwrap_err();
        assert!(matches!(twice, Error::Demand(market_rules::demand::Error::NotOpen(Status::Cancelled))), "{twice}");
        let hidden = market.demand(&s, &made.id).await.unwrap_err();
        assert!(matches!(hidden, Error::Unknown(MarketEntity::Demand)), "{hidden}");
        assert_eq!(ids(market.open_demands(Some("documents"), PAGE).await.unwrap()), []);
        assert_eq!(
            ids(market.my_demands(&b, Some(Status::Cancelled), PAGE).await.unwrap()),
            std::slice::from_ref(&made.id)
        );
        assert_eq!(market.clarity(&b, &made.id).await.unwrap().level, Level::Vague);
    })
    .await;
}

#[tokio::test]
async fn there_is_an_end_to_what_one_user_wants() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let first = fair.market.want(&agent_of("b"), &wanted(), None).await.unwrap();
        for _ in 1..200 {
            fair.market.want(&agent_of("b"), &wanted(), None).await.unwrap();
        }
        let refused = fair.market.want(&agent_of("b"), &wanted(), None).await.unwrap_err();
        assert!(refused.to_string().contains("cancel one first"), "{refused}");
        fair.market.want(&agent_of("c"), &wanted(), None).await.unwrap();
        fair.market.cancel_demand(&agent_of("b"), &first.id, None).await.unwrap();
        fair.market.want(&agent_of("b"), &wanted(), None).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn what_fits_best_comes_first_and_always_so() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let priced =
            |text: &'static str| move |draft| capability::CapabilityDraft { price_ut: Json::parse(text), ..draft };
        let dear = sells(&fair, "s", priced("120")).await;
        let fitting = sells(&fair, "s", priced("80")).await;
        let cheaper = sells(&fair, "t", priced("60")).await;
        let elsewhere =
            sells(&fair, "t", |draft| capability::CapabilityDraft { category: Some("scans".into()), ..draft }).await;
        // Nothing in common, not on the market, and the buyer's own.
        let songs = |draft| capability::CapabilityDraft {
            title: Some("Songs".into()),
            description: Some("Sung for birthdays".into()),
            category: Some("music".into()),
            ..draft
        };
        sells(&fair, "t", songs).await;
        let off = sells(&fair, "t", |draft| draft).await;
        let actor = agent_of("t").actor();
        fair.market.change_capability(&actor, &off.id, capability::CapabilityAction::Offline, None).await.unwrap();
        sells(&fair, "b", |draft| draft).await;

        let demand = fair.market.want(&agent_of("b"), &wanted(), None).await.unwrap();
        let found = fair.market.offers_for(&agent_of("b"), &demand.id, 10).await.unwrap();
        let ids: Vec<_> = found.items.iter().map(|one| one.row.id.clone()).collect();
        assert_eq!(ids, [cheaper.id.clone(), fitting.id.clone(), dear.id.clone(), elsewhere.id.clone()]);
        assert_eq!(found.looked_at, 6, "everything on the market, each once");
        assert!(found.items.iter().all(|one| !one.fit.reasons.is_empty()));
        let within: Vec<_> = found.items.iter().map(|one| one.fit.within_budget.unwrap()).collect();
        assert_eq!(within, [true, true, false, false]);
        for _ in 0..3 {
            let again = fair.market.offers_for(&agent_of("b"), &demand.id, 2).await.unwrap();
            assert_eq!(again.items[..], found.items[..2]);
        }
        let (.., fit) = fair.market.alignment(&agent_of("b"), &demand.id, &dear.id).await.unwrap();
        assert_eq!(fit, found.items[2].fit, "the same question has the same answer");
        let refused = fair.market.alignment(&agent_of("c"), &demand.id, &dear.id).await.unwrap_err();
        assert!(matches!(refused, Error::Demand(market_rules::demand::Error::NotOwner)), "{refused}");
        let refused = fair.market.offers_for(&agent_of("s"), &demand.id, 2).await.unwrap_err();
        assert!(matches!(refused, Error::Demand(market_rules::demand::Error::NotOwner)), "{refused}");

        // The other way round.
        let rich = fair
            .market
            .want(&agent_of("c"), &DemandDraft { budget_ut: Json::parse("500"), ..wanted() }, None)
            .await
            .unwrap();
        fair.market.want(&agent_of("s"), &wanted(), None).await.unwrap();
        let poor = fair
            .market
            .want(&agent_of("c"), &DemandDraft { budget_ut: Json::parse("1"), ..wanted() }, None)
            .await
            .unwrap();
        let wanting = fair.market.demands_for(&agent_of("s"), &fitting.id, 10).await.unwrap();
        let ids: Vec<_> = wanting.items.iter().map(|one| one.row.id.clone()).collect();
        assert_eq!(ids, [rich.id.clone(), demand.id.clone(), poor.id.clone()], "better paid first, one's own not");
        assert_eq!(wanting.looked_at, 4);
        let one = fair.market.demands_for(&agent_of("s"), &fitting.id, 1).await.unwrap();
        assert_eq!(one.items[..], wanting.items[..1]);
        let refused = fair.market.demands_for(&agent_of("t"), &fitting.id, 10).await.unwrap_err();
        assert!(matches!(&refused, Error::Fault(fault) if fault.kind == model::Kind::Forbidden), "{refused}");
        fair.market.cancel_demand(&agent_of("b"), &demand.id, None).await.unwrap();
        let refused = fair.market.offers_for(&agent_of("b"), &demand.id, 2).await.unwrap_err();
        assert!(matches!(refused, Error::Demand(market_rules::demand::Error::NotOpen(_))), "{refused}");
    })
    .await;
}

/// An order closes the demand in its commit; the demand opens again if the purchase fails.
#[tokio::test]
async fn an_order_closes_the_demand_it_is_for() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        fair.has("b", 10_000).await;
        fair.has("c", 10_000).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        let demand = fair.market.want(&agent_of("b"), &wanted(), None).await.unwrap();
        // Of another user's demand, and of one that does not exist, only the name is stored.
        for (buyer, name) in [("c", demand.id.clone()), ("b", "anything".into())] {
            let row = buys(&fair, buyer, &ocr, &name).await.unwrap();
            assert_eq!(row.demand.as_deref(), Some(name.as_str()));
        }
        assert_eq!(stands(&fair, &demand.id).await, (Status::Open, None));

        let first = buys(&fair, "b", &ocr, &demand.id).await.unwrap();
        assert_eq!(stands(&fair, &demand.id).await, (Status::Matched, Some(first.id)));
        assert_eq!(fair.market.open_demands(None, PAGE).await.unwrap().total, 0);
        let second = buys(&fair, "b", &ocr, &demand.id).await.unwrap();
        fair.act("b", second.id, TransactionAction::Cancel).await.unwrap();
        assert_eq!(stands(&fair, &demand.id).await, (Status::Matched, Some(first.id)), "the first one's");
        fair.act("b", first.id, TransactionAction::Freeze).await.unwrap();
        fair.act("s", first.id, TransactionAction::Reject { reason: None }).await.unwrap();
        assert_eq!(stands(&fair, &demand.id).await, (Status::Open, None));

        let third = buys(&fair, "b", &ocr, &demand.id).await.unwrap();
        fair.act("b", third.id, TransactionAction::Freeze).await.unwrap();
        house.kill().await;
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        assert_eq!(stands(&fair, &demand.id).await, (Status::Matched, Some(third.id)));
        fair.act("s", third.id, TransactionAction::Accept).await.unwrap();
        fair.act("s", third.id, crate::common::deliver(&serde_json::json!({}))).await.unwrap();
        let settled = fair.act("b", third.id, TransactionAction::Confirm).await.unwrap();
        assert_eq!(settled.status, Stage::Settled);
        assert_eq!(stands(&fair, &demand.id).await, (Status::Matched, Some(third.id)));
    })
    .await;
}

/// Of concurrent orders, one closes the demand.
#[tokio::test]
async fn a_demand_is_matched_once() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        fair.has("b", 10_000).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        let demand = fair.market.want(&agent_of("b"), &wanted(), None).await.unwrap();
        let orders = (0..8).map(|_| buys(&fair, "b", &ocr, &demand.id));
        let rows: Vec<Transaction> =
            futures_util::future::join_all(orders).await.into_iter().collect::<Result<_, _>>().unwrap();
        let (status, transaction) = stands(&fair, &demand.id).await;
        assert_eq!(status, Status::Matched);
        assert_eq!(rows.iter().filter(|row| Some(row.id) == transaction).count(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_nobody_serves_is_over_when_its_time_is_and_forgotten_later() {
    let phone = Phone::new(|_, _| Phone::says(200, ""));
    let fair = House::paused(MarketConfig::default(), Some(phone)).await;
    let b = agent_of("b");
    let demand = fair.market.want(&b, &DemandDraft { expires_in_days: Some(1), ..wanted() }, None).await.unwrap();
    tokio::time::sleep(DAY / 2).await;
    assert_eq!(stands(&fair, &demand.id).await.0, Status::Open);
    tokio::time::sleep(DAY / 2 + std::time::Duration::from_secs(1)).await;
    assert_eq!(stands(&fair, &demand.id).await.0, Status::Expired);
    assert_eq!(fair.market.my_demands(&b, Some(Status::Open), PAGE).await.unwrap().total, 0);
    assert_eq!(fair.market.my_demands(&b, Some(Status::Expired), PAGE).await.unwrap().total, 1);
    let refused = fair.market.cancel_demand(&b, &demand.id, None).await.unwrap_err();
    assert!(matches!(refused, Error::Demand(market_rules::demand::Error::NotOpen(Status::Expired))), "{refused}");
    tokio::time::sleep(DAY * 31).await;
    assert!(matches!(fair.market.demand(&b, &demand.id).await, Err(Error::Unknown(MarketEntity::Demand))));
    assert_eq!(fair.market.my_demands(&b, None, PAGE).await.unwrap().total, 0);
}
