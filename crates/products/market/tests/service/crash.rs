//! The process dies in the middle of a purchase; the next one continues.

use std::sync::Arc;

use market::service::MarketConfig;
use market_rules::capability::Served;
use market_rules::transaction::{Status, TransactionAction};
use model::Part;
use model::ports::agent::{Agent, AgentEvent, ArtifactChunk, EndState, Restart};
use parking_lot::Mutex;
use serde_json::json;

use crate::common::{Phone, acting, adds_up, balance, deliver, done, frozen, offer, on_both_stores, purchases, until};

/// Hangs until it is released; counts its turns.
fn slow(turns: &Arc<Mutex<u32>>, hangs: bool, restart: Restart) -> Arc<dyn Agent> {
    let turns = turns.clone();
    acting("slow", restart, move |_| {
        use futures_util::StreamExt as _;
        *turns.lock() += 1;
        if hangs {
            return futures_util::stream::pending().boxed();
        }
        let piece = ArtifactChunk { key: "a".into(), parts: vec![Part::text("done")], ..ArtifactChunk::default() };
        done(vec![AgentEvent::Artifact(piece)], EndState::Completed, "")
    })
}

#[tokio::test]
async fn a_purchase_whose_agent_was_cut_off_is_finished_by_the_next_process() {
    on_both_stores(async |mut house| {
        let turns = Arc::default();
        let fair = house.fair(vec![slow(&turns, true, Restart::Retry)], MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Agent("slow".into()))).await;
        fair.has("b", 10_000).await;
        let mut ids = Vec::new();
        for _ in 0..3 {
            let row = fair.order("b", &ocr).await.unwrap();
            fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
            ids.push(row.id);
        }
        until(async || *turns.lock() == 3).await;
        house.kill().await;
        let fair = house.fair(vec![slow(&turns, false, Restart::Retry)], MarketConfig::default()).await;
        for id in ids {
            let row = fair.comes_to(id, Status::Delivered).await;
            assert_eq!(row.result.unwrap().to_value()["text"], "done");
            fair.act("b", id, TransactionAction::Confirm).await.unwrap();
        }
        // Each turn once before and once after; no purchase has a second task.
        let tasks = fair.engine().health().await.unwrap().tasks;
        assert_eq!((*turns.lock(), tasks), (6, 6));
        assert_eq!(balance(&fair, "s").await, 3 * 10_800);
        adds_up(&fair).await;
    })
    .await;
}

#[tokio::test]
async fn a_purchase_whose_agent_may_not_run_twice_is_paid_back() {
    on_both_stores(async |mut house| {
        let turns = Arc::default();
        let fair = house.fair(vec![slow(&turns, true, Restart::Fail)], MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Agent("slow".into()))).await;
        fair.has("b", 10_000).await;
        let row = fair.order("b", &ocr).await.unwrap();
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        until(async || *turns.lock() == 1).await;
        house.kill().await;
        let fair = house.fair(vec![slow(&turns, false, Restart::Fail)], MarketConfig::default()).await;
        let row = fair.comes_to(row.id, Status::Failed).await;
        assert!(row.reason.unwrap().starts_with("the agent failed"));
        assert_eq!((balance(&fair, "b").await, frozen(&fair, "b").await), (1_000_000, 0));
        assert_eq!(*turns.lock(), 1);
        adds_up(&fair).await;
    })
    .await;
}

/// Between the commit and the act: the money is frozen, and the purchase is not accepted yet.
#[tokio::test]
async fn a_machine_that_was_to_act_next_does_so_after_a_restart() {
    on_both_stores(async |mut house| {
        let turns = Arc::default();
        let fair = house.fair(vec![slow(&turns, false, Restart::Fail)], MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Agent("slow".into()))).await;
        fair.has("b", 10_000).await;
        let row = fair.order("b", &ocr).await.unwrap();
        // An operator's process takes no automatic steps.
        house.kill().await;
        let fair = {
            let engine = house.fair_offline(vec![slow(&turns, false, Restart::Fail)]).await;
            engine.act("b", row.id, TransactionAction::Freeze).await.unwrap();
            assert_eq!(engine.row(row.id).await.status, Status::Frozen);
            house.kill().await;
            house.fair(vec![slow(&turns, false, Restart::Fail)], MarketConfig::default()).await
        };
        fair.comes_to(row.id, Status::Delivered).await;
        assert_eq!(*turns.lock(), 1);
        adds_up(&fair).await;
    })
    .await;
}

/// The number of attempts survives a crash.
#[tokio::test]
async fn calls_go_on_where_they_were() {
    on_both_stores(async |mut house| {
        let phone = Phone::new(|_, _| Phone::says(500, ""));
        let fair = house.fair_with(Vec::new(), MarketConfig::default(), phone.clone()).await;
        let served = Served::Callback { url: "https://example.com".into(), timeout_s: 5 };
        let ocr = fair.sells("s", "ocr", offer(served)).await;
        fair.has("b", 10_000).await;
        let row = fair.order("b", &ocr).await.unwrap();
        fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
        let kept = async |fair: &crate::common::Fair| {
            fair.engine().store().record("market/calls".into(), row.id.to_string().into()).await.unwrap()
        };
        until(async || kept(&fair).await.is_some()).await;
        house.kill().await;
        assert_eq!(phone.calls.lock().len(), 1);
        let phone = Phone::new(|_, _| Phone::says(200, r#"{"success":true,"result":{"n":1}}"#));
        let fair = house.fair_with(Vec::new(), MarketConfig::default(), phone.clone()).await;
        let row = fair.comes_to(row.id, Status::Delivered).await;
        assert_eq!((row.result.unwrap().to_value(), phone.calls.lock().len()), (json!({"n": 1}), 1));
        adds_up(&fair).await;
    })
    .await;
}

/// After a kill at any moment the books add up, and every answered step is stored.
#[tokio::test]
async fn a_kill_at_any_moment_leaves_the_books_in_order() {
    on_both_stores(async |mut house| {
        let turns = Arc::default();
        let mut fair = house.fair(vec![slow(&turns, false, Restart::Retry)], MarketConfig::default()).await;
        let by_agent = fair.sells("s", "agent", offer(Served::Agent("slow".into()))).await;
        let by_hand = fair.sells("s", "hand", offer(Served::Person)).await;
        fair.has("b", 100_000).await;
        let known: Arc<Mutex<Vec<(ledger::TransactionId, u64)>>> = Arc::default();
        for round in 0..4 {
            let busy: Vec<_> = (0..8)
                .map(|n| {
                    let (fair, known) = (fair.clone(), known.clone());
                    let capability = if n % 2 == 0 { by_agent.clone() } else { by_hand.clone() };
                    tokio::spawn(async move {
                        loop {
                            let Ok(row) = fair.order("b", &capability).await else { return };
                            known.lock().push((row.id, row.version));
                            for (who, action) in [
                                ("b", TransactionAction::Freeze),
                                ("s", TransactionAction::Accept),
                                ("s", deliver(&json!({"n": n}))),
                                ("b", TransactionAction::Confirm),
                            ] {
                                if let Ok(row) = fair.act(who, row.id, action).await {
                                    known.lock().push((row.id, row.version));
                                }
                            }
                        }
                    })
                })
                .collect();
            let many = known.lock().len() + 40 + 17 * round;
            until(async || known.lock().len() >= many).await;
            house.kill().await;
            for one in busy {
                one.abort();
                let _ = one.await;
            }
            let agent = slow(&turns, false, Restart::Retry);
            fair = house.fair(vec![agent], MarketConfig::default()).await;
            let rows = adds_up(&fair).await;
            for (id, version) in known.lock().iter() {
                let row = rows.iter().find(|row| row.id == *id);
                assert!(row.is_some_and(|row| row.version >= *version), "{id} had {version}, is {row:?}");
            }
        }
        // The agents' work ends.
        until(async || {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let rows = purchases(&fair).await;
            rows.iter().all(|row| {
                row.served == Served::Person
                    || matches!(
                        row.status,
                        Status::PendingFreeze | Status::Delivered | Status::Settled | Status::Failed
                    )
            })
        })
        .await;
        adds_up(&fair).await;
    })
    .await;
}
