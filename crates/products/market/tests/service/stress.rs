//! Many concurrent users with random actions. Money is conserved.

use std::sync::Arc;

use market::service::{Error, MarketConfig, Once, OrderRequest};
use market_rules::Via;
use market_rules::capability::{CapabilityDraft, Served};
use market_rules::transaction::{Status, TransactionAction};
use model::ports::agent::{EndState, Restart};
use serde_json::json;

use crate::common::{Fair, House, acting, adds_up, caller, deliver, done, echo, offer, purchases, until};

/// A small seeded generator, so that failures can be reproduced.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// The expected errors.
fn expected(refused: &Error) -> bool {
    matches!(
        refused,
        Error::Rule(
            market_rules::Error::WrongState { .. }
                | market_rules::Error::WrongActor { .. }
                | market_rules::Error::NotParty
                | market_rules::Error::Insufficient { .. }
                | market_rules::Error::ConfirmationPending
                | market_rules::Error::NothingPending
                | market_rules::Error::NotDue
                | market_rules::Error::OwnCapability
                | market_rules::Error::Changed
                | market_rules::Error::Quota { .. }
        )
    )
}

async fn someone(fair: Fair, capabilities: Vec<market_rules::CapabilityId>, seed: u64, orders: u64) {
    let mut dice = Dice(seed);
    for n in 0..orders {
        let buyer = format!("u{}", dice.roll(12));
        let via = if dice.roll(2) == 0 { Via::Agent } else { Via::Person };
        let capability = &capabilities[dice.roll(capabilities.len() as u64) as usize];
        // Some requests are repeated.
        let once = (dice.roll(3) == 0).then(|| Once { key: format!("{seed}/{n}"), print: [1; 32] });
        let wish = OrderRequest {
            input: Some(model::Json::from_value(&json!(["", "fail"][dice.roll(2) as usize]))),
            ..OrderRequest::of(capability.clone())
        };
        let buyer = caller(&buyer, via);
        let ordered = if once.is_some() {
            let (one, two) = tokio::join!(
                fair.market.order(&buyer, wish.clone(), once.clone()),
                fair.market.order(&buyer, wish.clone(), once.clone())
            );
            if let (Ok(one), Ok(two)) = (&one, &two) {
                assert_eq!(one.id, two.id);
            }
            one
        } else {
            fair.market.order(&buyer, wish, None).await
        };
        let row = match ordered {
            Ok(row) => row,
            Err(refused) => {
                assert!(expected(&refused), "{refused:?}");
                continue;
            }
        };
        // Some act correctly.
        if dice.roll(3) == 0 {
            let (buyer, seller) = (row.buyer.to_string(), row.seller.to_string());
            for (who, action) in [
                (&buyer, TransactionAction::Freeze),
                (&seller, TransactionAction::Accept),
                (&seller, deliver(&json!({"n": n}))),
                (&buyer, TransactionAction::Confirm),
            ] {
                if let Err(refused) = fair.act(who, row.id, action).await {
                    assert!(expected(&refused), "{refused:?}");
                }
            }
        }
        let mut acts = Vec::new();
        for _ in 0..dice.roll(8) {
            let who = match dice.roll(6) {
                0..=2 => row.buyer.to_string(),
                3 | 4 => row.seller.to_string(),
                _ => "x".to_owned(),
            };
            let action = match dice.roll(8) {
                0 | 1 => TransactionAction::Freeze,
                2 => TransactionAction::Accept,
                3 => TransactionAction::Reject { reason: Some("no".into()) },
                4 => deliver(&json!({"n": n})),
                5 | 6 => TransactionAction::Confirm,
                _ => TransactionAction::Cancel,
            };
            let (fair, id) = (fair.clone(), row.id);
            let act = async move {
                if let Err(refused) = fair.act(&who, id, action).await {
                    assert!(expected(&refused), "{refused:?}");
                }
            };
            if dice.roll(2) == 0 { act.await } else { acts.push(tokio::spawn(act)) }
        }
        for act in acts {
            act.await.unwrap();
        }
    }
}

async fn all_do(fair: &Fair, people: u64, orders: u64) {
    let mut capabilities = Vec::new();
    for n in 0..12 {
        let served = match n % 4 {
            0 => Served::Agent("moody".into()),
            1 => Served::Agent("echo".into()),
            2 => Served::Worker,
            _ => Served::Person,
        };
        let limit = (n == 3).then_some(5);
        let draft =
            CapabilityDraft { daily_limit: limit, price_ut: model::Json::parse(&format!("{n}.37")), ..offer(served) };
        capabilities.push(fair.sells(&format!("u{n}"), &format!("cap{n}"), draft).await);
        fair.has(&format!("u{n}"), 60).await;
    }
    let all: Vec<_> =
        (0..people).map(|seed| tokio::spawn(someone(fair.clone(), capabilities.clone(), seed + 1, orders))).collect();
    for one in all {
        one.await.unwrap();
    }
    // The agents' turns end.
    until(async || {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        let at_work = |row: &market_rules::Transaction| {
            matches!(row.served, Served::Agent(_)) && matches!(row.status, Status::Frozen | Status::Accepted)
        };
        !purchases(fair).await.iter().any(at_work)
    })
    .await;
    let rows = adds_up(fair).await;
    let by_status = |status| rows.iter().filter(|row| row.status == status).count();
    eprintln!(
        "{} purchases: {:?}",
        rows.len(),
        Status::ALL.iter().map(|status| (status.name(), by_status(*status))).collect::<Vec<_>>()
    );
    assert!(by_status(Status::Settled) > 0);
    assert!(by_status(Status::CancelledByBuyer) > 0);
}

fn moody() -> Arc<dyn model::ports::agent::Agent> {
    acting("moody", Restart::Fail, |turn| match turn.messages[0].message.text().as_str() {
        "fail" => done(vec![], EndState::Failed, "as asked"),
        _ => done(vec![], EndState::Completed, "as asked"),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn whatever_hundreds_do_at_once_the_books_add_up() {
    let fair = House::memory().fair(vec![moody(), echo()], MarketConfig::default()).await;
    all_do(&fair, 24, 25).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_on_a_disk() {
    let mut house = House::sqlite();
    let fair = house.fair(vec![moody(), echo()], MarketConfig::default()).await;
    all_do(&fair, 8, 10).await;
}
