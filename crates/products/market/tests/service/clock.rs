//! Deadlines, and parties that act alone. Time is paused, and advances when all tasks sleep.

use std::time::Duration;

use market::service::{MarketCaller, MarketConfig, Mismatch, OrderRequest};
use market_rules::capability::{CapabilityDraft, Served};
use market_rules::transaction::{DecisionSource, Status, TransactionAction};
use market_rules::{Transaction, Via, autonomy};
use model::{Json, State};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::common::{Fair, House, adds_up, agent_of, balance, deliver, frozen, offer, ut};

const HOUR: Duration = Duration::from_secs(3_600);

/// How long it took, give or take the moment a timer needs.
fn took(begin: Instant, expected: Duration) {
    // A millisecond more or less is a matter of rounding.
    let passed = begin.elapsed() + Duration::from_millis(2);
    assert!(passed >= expected && passed < expected + Duration::from_secs(6), "{passed:?}, not {expected:?}");
}

async fn sold(fair: &Fair) -> Transaction {
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    fair.has("b", 1_000).await;
    let row = fair.order("b", &ocr).await.unwrap();
    fair.act("b", row.id, TransactionAction::Freeze).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_seller_that_does_not_accept_in_time_loses_the_sale() {
    let fair = House::paused(MarketConfig::default(), None).await;
    let begin = Instant::now();
    let row = sold(&fair).await;
    assert_eq!(frozen(&fair, "b").await, 12_000);
    let row = fair.comes_to(row.id, Status::Failed).await;
    took(begin, 24 * HOUR);
    assert_eq!(row.reason.as_deref(), Some("the seller did not accept in time"));
    assert_eq!((balance(&fair, "b").await, frozen(&fair, "b").await), (100_000, 0));
    assert_eq!(fair.engine().health().await.unwrap().timers, 0);
    adds_up(&fair).await;
}

#[tokio::test(start_paused = true)]
async fn a_seller_that_does_not_deliver_in_time_loses_the_sale() {
    let fair = House::paused(MarketConfig::default(), None).await;
    let row = sold(&fair).await;
    sleep(23 * HOUR).await;
    fair.act("s", row.id, TransactionAction::Accept).await.unwrap();
    let begin = Instant::now();
    let row = fair.comes_to(row.id, Status::Failed).await;
    took(begin, 7 * 24 * HOUR);
    assert_eq!(row.reason.as_deref(), Some("the seller did not deliver in time"));
    assert_eq!((balance(&fair, "b").await, frozen(&fair, "b").await), (100_000, 0));
    adds_up(&fair).await;
}

#[tokio::test(start_paused = true)]
async fn a_buyer_that_says_nothing_has_agreed() {
    let fair = House::paused(MarketConfig::default(), None).await;
    let row = sold(&fair).await;
    fair.act("s", row.id, TransactionAction::Accept).await.unwrap();
    fair.act("s", row.id, deliver(&json!({"ok": true}))).await.unwrap();
    let begin = Instant::now();
    let row = fair.comes_to(row.id, Status::Settled).await;
    took(begin, 72 * HOUR);
    assert_eq!(row.decision_source, DecisionSource::PlatformAuto);
    assert_eq!((balance(&fair, "s").await, frozen(&fair, "b").await), (10_800, 0));
    assert_eq!(fair.engine().health().await.unwrap().timers, 0);
    adds_up(&fair).await;
}

/// A purchase that is only ordered has no deadline.
#[tokio::test(start_paused = true)]
async fn an_order_without_money_has_no_deadline() {
    let fair = House::paused(MarketConfig::default(), None).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    fair.has("b", 1_000).await;
    let row = fair.order("b", &ocr).await.unwrap();
    assert_eq!(fair.engine().health().await.unwrap().timers, 0);
    sleep(240 * HOUR).await;
    assert_eq!(fair.row(row.id).await, row);
}

/// A person who accepts purchases in advance.
#[tokio::test(start_paused = true)]
async fn a_seller_that_agreed_beforehand_is_accepted_for() {
    let fair = House::paused(MarketConfig::default(), None).await;
    fair.has("b", 1_000).await;
    let ocr = fair
        .sells("s", "ocr", CapabilityDraft { auto_accept_min_ut: Json::parse("100"), ..offer(Served::Person) })
        .await;
    let dear = fair
        .sells("s", "dear", CapabilityDraft { auto_accept_min_ut: Json::parse("121"), ..offer(Served::Person) })
        .await;
    let (one, other) = (fair.order("b", &ocr).await.unwrap(), fair.order("b", &dear).await.unwrap());
    fair.act("b", one.id, TransactionAction::Freeze).await.unwrap();
    fair.act("b", other.id, TransactionAction::Freeze).await.unwrap();
    let begin = Instant::now();
    fair.comes_to(one.id, Status::Accepted).await;
    assert!(begin.elapsed() < Duration::from_secs(1), "at once");
    sleep(HOUR).await;
    assert_eq!(fair.row(other.id).await.status, Status::Frozen);
    assert_eq!(fair.row(one.id).await.status, Status::Accepted, "the work is the person's");
}

fn demo() -> MarketConfig {
    MarketConfig { acts_after_ms: Some(5_000), ..MarketConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn parties_who_act_alone_bring_a_purchase_to_its_end() {
    let fair = House::paused(demo(), None).await;
    fair.user("b", true).await;
    fair.user("s", true).await;
    fair.has("b", 1_000).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    let begin = Instant::now();
    let row = fair.order_with("b", &ocr, &json!({"page": 1})).await;
    let mut follow = fair.market.follow(&agent_of("b").actor(), row.id).await.unwrap();
    let mut steps = Vec::new();
    let mut last = None;
    while let Some(row) = follow.next().await {
        let row = row.unwrap();
        steps.push((row.status, begin.elapsed().as_millis() as u64));
        last = Some(row);
    }
    let statuses: Vec<Status> = steps.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [Status::PendingFreeze, Status::Frozen, Status::Accepted, Status::Delivered, Status::Settled]);
    for (n, (_, at)) in steps.iter().enumerate() {
        let due = 5_000 * n as u64;
        assert!((due.saturating_sub(10)..due + 1_000).contains(at), "{steps:?}");
    }
    let last = last.unwrap();
    let result = last.result.unwrap().to_value();
    assert_eq!((&result["demo"], &result["input"]), (&json!(true), &json!({"page": 1})));
    assert_eq!(last.decision_source, DecisionSource::AgentAutonomous);
    assert_eq!(fair.engine().health().await.unwrap().timers, 0);
    adds_up(&fair).await;
}

/// A caller did the step first: the party goes on from there.
#[tokio::test(start_paused = true)]
async fn parties_who_act_alone_leave_room_for_others() {
    let fair = House::paused(demo(), None).await;
    fair.user("b", true).await;
    fair.user("s", false).await;
    fair.has("b", 1_000).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    let row = fair.order("b", &ocr).await.unwrap();
    sleep(Duration::from_secs(3)).await;
    fair.act("b", row.id, TransactionAction::Freeze).await.unwrap();
    // The seller does not act alone.
    sleep(HOUR).await;
    assert_eq!(fair.row(row.id).await.status, Status::Frozen);
    fair.act("s", row.id, TransactionAction::Accept).await.unwrap();
    fair.act("s", row.id, deliver(&json!({"ok": true}))).await.unwrap();
    let begin = Instant::now();
    fair.comes_to(row.id, Status::Settled).await;
    took(begin, Duration::from_secs(5));
    adds_up(&fair).await;
}

/// A confirmation comes before the hold.
#[tokio::test(start_paused = true)]
async fn a_buyer_who_acts_alone_says_yes_for_its_agent() {
    let fair = House::paused(demo(), None).await;
    fair.user("b", true).await;
    fair.has("b", 1_000).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    let limits = autonomy::SpendingLimits { per_call: ut(100), ..autonomy::SpendingLimits::default() };
    let careful = MarketCaller { limits, ..agent_of("b") };
    assert_eq!(careful.via, Via::Agent);
    let row = fair.market.order(&careful, OrderRequest::of(ocr), None).await.unwrap();
    assert_eq!(row.state(), State::InputRequired);
    let begin = Instant::now();
    let row = fair.comes_to(row.id, Status::Frozen).await;
    took(begin, Duration::from_secs(10));
    assert_eq!(row.decision_source, DecisionSource::UserConfirmed);
    adds_up(&fair).await;
}

/// A party whose step fails retries with a delay.
#[tokio::test(start_paused = true)]
async fn a_buyer_who_acts_alone_without_money_waits_for_it() {
    let fair = House::paused(demo(), None).await;
    fair.user("b", true).await;
    fair.has("b", 200).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    let (one, two) = (fair.order("b", &ocr).await.unwrap(), fair.order("b", &ocr).await.unwrap());
    fair.comes_to(one.id, Status::Frozen).await;
    sleep(HOUR).await;
    assert_eq!(fair.row(two.id).await.status, Status::PendingFreeze);
    fair.has("b", 200).await;
    let begin = Instant::now();
    fair.comes_to(two.id, Status::Frozen).await;
    assert!(begin.elapsed() < Duration::from_secs(70));
    adds_up(&fair).await;
}

/// A purchase that is paid from a booked credit.
async fn paid(fair: &Fair) -> Transaction {
    let ocr = fair.sells("s", "ocr", offer(Served::Person)).await;
    fair.user("b", false).await;
    fair.market.credit(&"b".into(), ut(1_000), "welcome", None).await.unwrap();
    let row = fair.order("b", &ocr).await.unwrap();
    fair.act("b", row.id, TransactionAction::Freeze).await.unwrap()
}

/// As an older release, or a manual change of the database, may have left it.
#[tokio::test(start_paused = true)]
async fn a_purchase_whose_task_is_gone_is_reported_and_ends_at_its_deadline() {
    let fair = House::paused(MarketConfig::default(), None).await;
    let row = paid(&fair).await;
    assert!(fair.market.verify().await.unwrap().is_clean());
    assert!(fair.engine().store().remove(row.id.0).await.unwrap());
    let report = fair.market.verify().await.unwrap();
    assert_eq!(report.mismatches, [Mismatch::Taskless { transaction: row.id, status: "frozen" }]);
    sleep(23 * HOUR).await;
    assert_eq!((fair.row(row.id).await.status, frozen(&fair, "b").await), (Status::Frozen, 12_000));
    sleep(HOUR + Duration::from_secs(900)).await;
    let over = fair.row(row.id).await;
    assert_eq!((over.status, over.reason.as_deref()), (Status::Failed, Some("the seller did not accept in time")));
    assert_eq!((balance(&fair, "b").await, frozen(&fair, "b").await), (100_000, 0));
    assert!(fair.market.verify().await.unwrap().is_clean());
}

#[tokio::test(start_paused = true)]
async fn a_purchase_that_has_lost_its_timer_is_reported_and_gets_it_again() {
    let fair = House::paused(MarketConfig::default(), None).await;
    let begin = Instant::now();
    let (lost, kept) = (paid(&fair).await, fair.order("b", &"ocr".into()).await.unwrap());
    fair.act("b", kept.id, TransactionAction::Freeze).await.unwrap();
    fair.engine().set_deadline(lost.id.0, None).await.unwrap();
    let report = fair.market.verify().await.unwrap();
    assert_eq!(report.mismatches, [Mismatch::Untimed { transaction: lost.id, status: "frozen" }]);
    sleep(Duration::from_secs(900)).await;
    assert!(fair.market.verify().await.unwrap().is_clean());
    assert_eq!(fair.market.find_strays().await.unwrap(), 0);
    fair.comes_to(lost.id, Status::Failed).await;
    took(begin, 24 * HOUR);
    assert_eq!(fair.comes_to(kept.id, Status::Failed).await.status, Status::Failed);
    assert_eq!((balance(&fair, "b").await, frozen(&fair, "b").await), (100_000, 0));
    adds_up(&fair).await;
}

/// An operator's command removes no purchase that is under way, and no money with it.
#[tokio::test(start_paused = true)]
async fn the_task_of_an_open_purchase_is_not_purged() {
    let fair = House::paused(MarketConfig::default(), None).await;
    let row = paid(&fair).await;
    for status in [Status::Frozen, Status::Accepted, Status::Delivered] {
        assert_eq!(fair.row(row.id).await.status, status);
        fair.engine().purge(row.id.0).await.unwrap_err();
        fair.engine().cancel_by_operator(row.id.0).await.unwrap_err();
        assert!(fair.market.verify().await.unwrap().is_clean());
        match status {
            Status::Frozen => fair.act("s", row.id, TransactionAction::Accept).await.unwrap(),
            Status::Accepted => fair.act("s", row.id, deliver(&json!({"ok": true}))).await.unwrap(),
            _ => fair.act("b", row.id, TransactionAction::Confirm).await.unwrap(),
        };
    }
    assert_eq!((balance(&fair, "s").await, frozen(&fair, "b").await), (10_800, 0));
    assert!(fair.engine().purge(row.id.0).await.unwrap());
    assert!(fair.market.verify().await.unwrap().is_clean());
}
