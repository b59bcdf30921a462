//! Purchases from a person, step by step, and all refusals.

use std::collections::HashSet;

use market::service::{Error, MarketCaller, MarketConfig, Once, OrderRequest};
use market_rules::capability::{CapabilityAction as Change, CapabilityDraft, Served};
use market_rules::transaction::{DecisionSource, Status, TransactionAction};
use market_rules::{Transaction, Via, autonomy};
use model::State;
use serde_json::json;

use crate::common::{
    Fair, House, Phone, adds_up, agent_of, balance, caller, deliver, frozen, offer, on_both_stores, person, ut,
};

fn rule(refused: Error) -> market_rules::Error {
    match refused {
        Error::Rule(refusal) => refusal,
        other => panic!("a rule was expected, not {other:?}"),
    }
}

async fn paid(fair: &Fair, buyer: &str, capability: &market_rules::CapabilityId) -> Transaction {
    let row = fair.order(buyer, capability).await.unwrap();
    fair.act(buyer, row.id, TransactionAction::Freeze).await.unwrap()
}

#[tokio::test]
async fn a_purchase_from_a_person_goes_its_way() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let ocr = fair.sells("s", "cap_ocr_invoice_v1", offer(Served::Person)).await;
        fair.has("b", 1_000).await;
        let row = fair.order("b", &ocr).await.unwrap();
        assert_eq!((row.status, row.state(), row.commission), (Status::PendingFreeze, State::Submitted, ut(12)));
        let mut follow = fair.market.follow(&person("s"), row.id).await.unwrap();
        let mut seen = vec![follow.next().await.unwrap().unwrap().status];
        for (who, action, status, left) in [
            ("b", TransactionAction::Freeze, Status::Frozen, 88_000),
            ("s", TransactionAction::Accept, Status::Accepted, 88_000),
            ("s", deliver(&json!({"total": "99.50"})), Status::Delivered, 88_000),
            ("b", TransactionAction::Confirm, Status::Settled, 88_000),
        ] {
            let row = fair.act(who, row.id, action).await.unwrap();
            assert_eq!((row.status, balance(&fair, "b").await), (status, left));
            seen.push(follow.next().await.unwrap().unwrap().status);
        }
        assert!(follow.next().await.is_none());
        assert_eq!(seen, [Status::PendingFreeze, Status::Frozen, Status::Accepted, Status::Delivered, Status::Settled]);
        assert_eq!((balance(&fair, "s").await, frozen(&fair, "b").await), (10_800, 0));
        assert_eq!(fair.engine().health().await.unwrap().timers, 0);
        for (who, action) in
            [("b", TransactionAction::Cancel), ("b", TransactionAction::Confirm), ("s", TransactionAction::Accept)]
        {
            let refused = fair.act(who, row.id, action).await.unwrap_err();
            assert_eq!(rule(refused).status(), Some(Status::Settled));
        }
        assert_eq!(
            rule(fair.act("x", row.id, TransactionAction::Confirm).await.unwrap_err()),
            market_rules::Error::NotParty
        );
        assert_eq!(adds_up(&fair).await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn who_has_too_little_buys_nothing() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        let short = |available| market_rules::Error::Insufficient { needed: ut(120), available };
        assert_eq!(rule(fair.order("b", &ocr).await.unwrap_err()), short(ut(0)));
        fair.has("b", 200).await;
        // Each order is valid; the balance covers one of them.
        let (one, two) = (fair.order("b", &ocr).await.unwrap(), fair.order("b", &ocr).await.unwrap());
        fair.act("b", one.id, TransactionAction::Freeze).await.unwrap();
        assert_eq!(rule(fair.act("b", two.id, TransactionAction::Freeze).await.unwrap_err()), short(ut(80)));
        assert_eq!(fair.row(two.id).await, two);
        // Refunded money can be spent again.
        fair.act("s", one.id, TransactionAction::Reject { reason: None }).await.unwrap();
        fair.act("b", two.id, TransactionAction::Freeze).await.unwrap();
        assert_eq!((balance(&fair, "b").await, frozen(&fair, "b").await), (8_000, 12_000));
        adds_up(&fair).await;
    })
    .await;
}

#[tokio::test]
async fn money_that_is_set_aside_with_the_order_is_there_or_there_is_no_order() {
    on_both_stores(async |mut house| {
        let mut config = MarketConfig::default();
        config.purchases.auto_freeze = true;
        let fair = house.fair(Vec::new(), config).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        fair.has("b", 200).await;
        assert_eq!(fair.order("b", &ocr).await.unwrap().status, Status::Frozen);
        let refused = rule(fair.order("b", &ocr).await.unwrap_err());
        assert_eq!(refused, market_rules::Error::Insufficient { needed: ut(120), available: ut(80) });
        assert_eq!(adds_up(&fair).await.len(), 1);
    })
    .await;
}

/// Concurrent orders for more than the balance.
#[tokio::test]
async fn orders_at_once_never_spend_more_than_there_is() {
    on_both_stores(async |mut house| {
        let mut config = MarketConfig::default();
        config.purchases.auto_freeze = true;
        let fair = house.fair(Vec::new(), config).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        fair.has("b", 1_000).await;
        let orders: Vec<_> = (0..20)
            .map(|n| {
                let (fair, ocr) = (fair.clone(), ocr.clone());
                let via = if n % 2 == 0 { Via::Agent } else { Via::Person };
                tokio::spawn(async move { fair.market.order(&caller("b", via), OrderRequest::of(ocr), None).await })
            })
            .collect();
        let mut bought = 0;
        for order in orders {
            match order.await.unwrap() {
                Ok(_) => bought += 1,
                Err(refused) => assert!(matches!(rule(refused), market_rules::Error::Insufficient { .. })),
            }
        }
        assert_eq!((bought, balance(&fair, "b").await, frozen(&fair, "b").await), (8, 4_000, 96_000));
        adds_up(&fair).await;
    })
    .await;
}

fn careful(user: &str, per_call: i64, daily: i64) -> MarketCaller {
    let limits =
        autonomy::SpendingLimits { per_call: ut(per_call), daily: ut(daily), ..autonomy::SpendingLimits::default() };
    MarketCaller { limits, ..agent_of(user) }
}

#[tokio::test]
async fn an_agent_above_its_limit_waits_for_its_person() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        fair.has("b", 1_000).await;
        let row = fair.market.order(&careful("b", 100, 5_000), OrderRequest::of(ocr), None).await.unwrap();
        assert_eq!((row.status, row.state()), (Status::PendingFreeze, State::InputRequired));
        assert_eq!(fair.engine().task(row.id.0).await.unwrap().unwrap().state(), State::InputRequired);
        let by_agent = fair.market.act(&agent_of("b").actor(), row.id, TransactionAction::Freeze, None).await;
        assert_eq!(rule(by_agent.unwrap_err()), market_rules::Error::ConfirmationPending);
        let by_agent = fair.market.act(&agent_of("b").actor(), row.id, TransactionAction::Approve(None), None).await;
        assert_eq!(rule(by_agent.unwrap_err()), market_rules::Error::ConfirmationPending);
        let approved = fair.act("b", row.id, TransactionAction::Approve(None)).await.unwrap();
        assert_eq!((approved.state(), approved.decision_source), (State::Submitted, DecisionSource::UserConfirmed));
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        adds_up(&fair).await;
    })
    .await;
}

#[tokio::test]
async fn a_days_sum_is_never_above_the_limit_however_many_order_at_once() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        fair.has("b", 100_000).await;
        let orders: Vec<_> = (0..30)
            .map(|_| {
                let (fair, ocr) = (fair.clone(), ocr.clone());
                // The daily limit covers eight; 120 more exceed it.
                tokio::spawn(
                    async move { fair.market.order(&careful("b", 500, 1_000), OrderRequest::of(ocr), None).await },
                )
            })
            .collect();
        let (mut alone, mut asks) = (0, 0);
        for order in orders {
            match order.await.unwrap().unwrap().state() {
                State::Submitted => alone += 1,
                State::InputRequired => asks += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((alone, asks), (8, 22));
        adds_up(&fair).await;
    })
    .await;
}

#[tokio::test]
async fn what_is_sold_out_is_not_sold() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let daily = fair.sells("s", "daily", CapabilityDraft { daily_limit: Some(3), ..offer(Served::Person) }).await;
        let fast =
            fair.sells("s", "fast", CapabilityDraft { rate_limit_per_min: Some(2), ..offer(Served::Person) }).await;
        fair.has("b", 10_000).await;
        for (capability, limit) in [(&daily, 3), (&fast, 2)] {
            let mut sold = Vec::new();
            let refused = loop {
                match fair.order("b", capability).await {
                    Ok(row) => sold.push(row),
                    Err(refused) => break rule(refused),
                }
                assert!(sold.len() <= 2 * limit, "the minute or the day may change once");
            };
            assert!(sold.len() >= limit);
            assert!(
                matches!(refused, market_rules::Error::Quota { limit: told, .. } if told as usize == limit),
                "{refused:?}"
            );
            // A cancelled sale stays counted.
            fair.act("b", sold[0].id, TransactionAction::Cancel).await.unwrap();
        }
        adds_up(&fair).await;
    })
    .await;
}

#[tokio::test]
async fn the_same_request_many_times_at_once_is_one_purchase() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        fair.has("b", 10_000).await;
        for via in [Via::Agent, Via::Person] {
            let key = |print: u8| Once { key: format!("{via:?}"), print: [print; 32] };
            let orders: Vec<_> = (0..16)
                .map(|_| {
                    let (fair, ocr, once) = (fair.clone(), ocr.clone(), key(1));
                    tokio::spawn(async move {
                        fair.market.order(&caller("b", via), OrderRequest::of(ocr), Some(once)).await.unwrap()
                    })
                })
                .collect();
            let mut rows = HashSet::new();
            for order in orders {
                rows.insert(order.await.unwrap().id);
            }
            assert_eq!(rows.len(), 1);
            let other = fair.market.order(&caller("b", via), OrderRequest::of(ocr.clone()), Some(key(2))).await;
            assert!(matches!(other, Err(Error::KeyReused)), "{other:?}");
            let another = fair.market.order(&caller("b2", via), OrderRequest::of(ocr.clone()), Some(key(2))).await;
            assert!(
                matches!(another, Err(Error::Rule(market_rules::Error::Insufficient { .. }))),
                "another's key: {another:?}"
            );

            // A repeated step gets the first answer, although the purchase has moved on.
            let id = *rows.iter().next().unwrap();
            let buyer = caller("b", via);
            let freeze = |n: u8| {
                let once = Once { key: format!("{via:?}/freeze"), print: [n; 32] };
                let (market, buyer) = (fair.market.clone(), buyer.clone());
                async move { market.act(&buyer.actor(), id, TransactionAction::Freeze, Some((&buyer, once))).await }
            };
            let (one, two, three) = tokio::join!(freeze(1), freeze(1), freeze(1));
            let first = one.unwrap();
            assert_eq!((first.status, two.unwrap(), three.unwrap()), (Status::Frozen, first.clone(), first.clone()));
            fair.act("s", id, TransactionAction::Accept).await.unwrap();
            assert_eq!(freeze(1).await.unwrap(), first);
            assert!(matches!(freeze(2).await, Err(Error::KeyReused)));
        }
        assert_eq!(adds_up(&fair).await.len(), 2);
    })
    .await;
}

/// A concurrent order of the same user does not make the second one fail for lack of money.
#[tokio::test]
async fn the_same_request_twice_for_the_last_there_is_is_one_purchase() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let last = fair.sells("s", "last", CapabilityDraft { daily_limit: Some(1), ..offer(Served::Person) }).await;
        fair.has("b", 120).await;
        for via in [Via::Person, Via::Agent] {
            let key = Once { key: "k".into(), print: [1; 32] };
            let buyer = caller("b", via);
            let order = || fair.market.order(&buyer, OrderRequest::of(last.clone()), Some(key.clone()));
            let (one, two) = tokio::join!(order(), order());
            assert_eq!(one.unwrap().id, two.unwrap().id);
        }
        assert_eq!(adds_up(&fair).await.len(), 1);
    })
    .await;
}

/// In a race of two steps, the loser gets the new status, and the money is where it belongs.
#[tokio::test]
async fn a_cancel_and_an_accept_at_once_have_one_winner() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        fair.has("b", 100_000).await;
        for round in 0..30 {
            let row = paid(&fair, "b", &ocr).await;
            let act = |who: &'static str, action: TransactionAction| {
                let (fair, id) = (fair.clone(), row.id);
                tokio::spawn(async move { fair.act(who, id, action).await })
            };
            let (one, other) = if round % 2 == 0 {
                (act("b", TransactionAction::Cancel), act("s", TransactionAction::Accept))
            } else {
                let accept = act("s", TransactionAction::Accept);
                (act("b", TransactionAction::Cancel), accept)
            };
            let (cancelled, accepted) = (one.await.unwrap(), other.await.unwrap());
            assert_ne!(cancelled.is_ok(), accepted.is_ok());
            let now = fair.row(row.id).await;
            let lost = cancelled.err().or(accepted.err()).unwrap();
            assert_eq!(rule(lost).status(), Some(now.status));
            let held = if now.status == Status::Accepted { 12_000 } else { 0 };
            assert_eq!(frozen(&fair, "b").await, held);
            if now.status == Status::Accepted {
                fair.market
                    .act(&market_rules::Actor::Platform, row.id, TransactionAction::Fail { reason: None }, None)
                    .await
                    .unwrap();
            }
        }
        assert_eq!(balance(&fair, "b").await, 10_000_000);
        adds_up(&fair).await;
    })
    .await;
}

#[tokio::test]
async fn lists_show_a_user_its_purchases_and_sales() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        fair.has("b", 100_000).await;
        let mut ids = Vec::new();
        for _ in 0..5 {
            ids.push(fair.order("b", &ocr).await.unwrap().id);
        }
        fair.act("b", ids[1], TransactionAction::Freeze).await.unwrap();
        let paging = market::service::Paging { page: 1, size: 3 };
        let listed = async |who: &str, role, status| {
            let page = fair.market.transactions(&agent_of(who), role, status, paging).await.unwrap();
            (page.total, page.more, page.items.iter().map(|row| row.id).collect::<Vec<_>>())
        };
        let newest: Vec<_> = ids.iter().rev().take(3).copied().collect();
        for (who, role) in
            [("b", market_rules::transaction::Role::Buyer), ("s", market_rules::transaction::Role::Seller)]
        {
            assert_eq!(listed(who, Some(role), None).await, (5, true, newest.clone()));
            assert_eq!(listed(who, None, None).await, (5, true, newest.clone()));
            assert_eq!(listed(who, Some(role), Some(Status::Frozen)).await, (1, false, vec![ids[1]]));
            assert_eq!(listed(who, Some(role), Some(Status::Settled)).await, (0, false, vec![]));
        }
        assert_eq!(listed("x", None, None).await, (0, false, vec![]));
    })
    .await;
}

/// Purchases are in several lists; every page reads them as one.
#[tokio::test]
async fn every_page_of_what_is_under_way_and_over_is_where_it_belongs() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
        let own = fair.sells("b", "own", offer(Served::Person)).await;
        fair.has("b", 100_000).await;
        fair.has("s", 100_000).await;
        let (mut bought, mut all) = (Vec::new(), Vec::new());
        for n in 0..17 {
            let (buyer, what) = if n % 6 == 5 { ("s", &own) } else { ("b", &ocr) };
            let seller = if buyer == "b" { "s" } else { "b" };
            let row = paid(&fair, buyer, what).await;
            all.push(row.id);
            if buyer == "b" {
                bought.push(row.id);
            }
            match n % 5 {
                0 => continue,
                1 => fair.act(buyer, row.id, TransactionAction::Cancel).await.unwrap(),
                2 if n % 2 == 0 => fair.act(seller, row.id, TransactionAction::Reject { reason: None }).await.unwrap(),
                _ => {
                    fair.act(seller, row.id, TransactionAction::Accept).await.unwrap();
                    fair.act(seller, row.id, deliver(&json!({}))).await.unwrap();
                    fair.act(buyer, row.id, TransactionAction::Confirm).await.unwrap()
                }
            };
        }
        bought.reverse();
        all.reverse();
        for (role, expected) in [(Some(market_rules::transaction::Role::Buyer), &bought), (None, &all)] {
            for size in [1, 2, 3, 5, 50] {
                for page in 1..=expected.len() as u32 / size + 2 {
                    let paging = market::service::Paging { page, size };
                    let shown = fair.market.transactions(&agent_of("b"), role, None, paging).await.unwrap();
                    let ids: Vec<_> = shown.items.iter().map(|row| row.id).collect();
                    let from = ((page - 1) * size) as usize;
                    let due: Vec<_> = expected.iter().skip(from).take(size as usize).copied().collect();
                    let more = from + due.len() < expected.len();
                    assert_eq!(
                        (ids, shown.total, shown.more),
                        (due, expected.len() as u64, more),
                        "{role:?} {paging:?}"
                    );
                }
            }
        }
        let far = market::service::Paging { page: u32::MAX, size: u32::MAX };
        assert_eq!(fair.market.transactions(&agent_of("b"), None, None, far).await.unwrap().items, []);
    })
    .await;
}

/// The cached capability and day's sum of a process never sell what is off the market, refuse what is on it again, or
/// exceed a day's limit.
#[tokio::test]
async fn an_order_rests_on_what_is_so_and_not_on_what_was() {
    let (mut house, phone) = (House::memory(), Phone::new(|_, _| Phone::says(204, "")));
    let here = house.fair_told(MarketConfig::default(), phone.clone()).await;
    let there = house.another(MarketConfig::default(), phone.clone()).await;
    let ocr = here.sells("s", "ocr", offer(Served::Person)).await;
    here.has("b", 100_000).await;
    let limits =
        autonomy::SpendingLimits { per_call: ut(1_000), daily: ut(400), ..autonomy::SpendingLimits::default() };
    let buyer = MarketCaller { limits, ..agent_of("b") };
    let order = async |fair: &Fair| fair.market.order(&buyer, OrderRequest::of(ocr.clone()), None).await;
    let change = async |action| there.market.change_capability(&person("s"), &ocr, action, None).await.unwrap();
    assert_eq!(order(&here).await.unwrap().status, Status::PendingFreeze);
    change(Change::Offline).await;
    assert!(matches!(order(&here).await, Err(Error::Rule(_))), "it is off the market");
    change(Change::Online).await;
    assert!(!order(&here).await.unwrap().awaits_approval());
    assert!(!order(&there).await.unwrap().awaits_approval());
    // 360 are spent, of which 240 here.
    assert!(order(&here).await.unwrap().awaits_approval());
    assert!(order(&there).await.unwrap().awaits_approval());
    adds_up(&here).await;
}
