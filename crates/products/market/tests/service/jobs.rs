//! Purchases that a seller's own program serves.

use std::time::Duration;

use ledger::TransactionId;
use market::service::{Error, JobAct, JobEvent, Jobs, MarketConfig};
use market_rules::capability::Served;
use market_rules::transaction::{Status, TransactionAction};
use serde_json::json;

use crate::common::{Fair, House, adds_up, agent_of, balance, json as text, offer, on_both_stores};

async fn opened(fair: &Fair, last: Option<TransactionId>) -> Jobs {
    let mut jobs = fair.market.jobs(&agent_of("s"), last).await.unwrap();
    assert_eq!(jobs.next().await.unwrap().unwrap(), JobEvent::Open);
    jobs
}

async fn next(jobs: &mut Jobs) -> (TransactionId, bool) {
    loop {
        match jobs.next().await.unwrap().unwrap() {
            JobEvent::Dispatch(job) => return (job.transaction.id, job.accepted),
            JobEvent::Heartbeat => {}
            JobEvent::Open => panic!("it is open"),
        }
    }
}

async fn sold(fair: &Fair, capability: &market_rules::CapabilityId) -> TransactionId {
    let row = fair.order("b", capability).await.unwrap();
    fair.act("b", row.id, TransactionAction::Freeze).await.unwrap().id
}

async fn act(fair: &Fair, id: TransactionId, act: JobAct) -> Result<Status, Error> {
    fair.market.job_act(&agent_of("s"), id, act, None).await.map(|row| row.status)
}

fn delivered() -> JobAct {
    JobAct::Deliver { result: Some(text(&json!({"ok": 1}))), deliverables: Vec::new() }
}

#[tokio::test]
async fn a_program_takes_jobs_and_does_them() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Worker)).await;
        let by_hand = fair.sells("s", "hand", offer(Served::Person)).await;
        fair.has("b", 10_000).await;
        let (waits, _not_a_job) = (sold(&fair, &ocr).await, sold(&fair, &by_hand).await);
        let mut jobs = opened(&fair, None).await;
        assert_eq!(next(&mut jobs).await, (waits, false));
        let comes = sold(&fair, &ocr).await;
        assert_eq!(next(&mut jobs).await, (comes, false));
        assert_eq!(act(&fair, waits, JobAct::Accept).await.unwrap(), Status::Accepted);
        assert_eq!(act(&fair, waits, JobAct::Accept).await.unwrap(), Status::Accepted, "an answer that was lost");
        let progress = Some(text(&json!(0.5)));
        assert_eq!(act(&fair, waits, JobAct::Heartbeat { progress }).await.unwrap(), Status::Accepted);
        assert_eq!(act(&fair, waits, delivered()).await.unwrap(), Status::Delivered);
        let no = JobAct::Reject { reason: Some("too busy".into()) };
        assert_eq!(act(&fair, comes, no).await.unwrap(), Status::RejectedBySeller);
        // An ended job refuses actions.
        for late in [JobAct::Accept, JobAct::Heartbeat { progress: None }, delivered()] {
            assert!(matches!(act(&fair, comes, late).await, Err(Error::Rule(market_rules::Error::WrongState { .. }))));
        }
        // So does a job of another seller.
        let other = fair.market.job_act(&agent_of("x"), waits, JobAct::Accept, None).await;
        assert!(matches!(other, Err(Error::Rule(market_rules::Error::NotParty))), "{other:?}");
        let buyer =
            fair.market.job_act(&agent_of("b"), waits, JobAct::Fail { error: None, retryable: false }, None).await;
        assert!(matches!(buyer, Err(Error::Rule(market_rules::Error::WrongActor { .. }))), "{buyer:?}");
        fair.act("b", waits, TransactionAction::Confirm).await.unwrap();
        assert_eq!(balance(&fair, "s").await, 10_800);
        adds_up(&fair).await;
    })
    .await;
}

#[tokio::test]
async fn a_program_that_comes_again_goes_on_where_it_was() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Worker)).await;
        fair.has("b", 10_000).await;
        let (one, two, three) = (sold(&fair, &ocr).await, sold(&fair, &ocr).await, sold(&fair, &ocr).await);
        let mut jobs = opened(&fair, None).await;
        for expected in [one, two, three] {
            assert_eq!(next(&mut jobs).await, (expected, false));
        }
        act(&fair, one, JobAct::Accept).await.unwrap();
        drop(jobs);
        // A stream that has seen all jobs gets the new ones, and perhaps again those that are not accepted.
        let mut jobs = opened(&fair, Some(three)).await;
        let four = sold(&fair, &ocr).await;
        let mut told = Vec::new();
        while told.last() != Some(&(four, false)) {
            told.push(next(&mut jobs).await);
        }
        assert!(!told.iter().any(|(id, _)| *id == three || *id == one), "{told:?}");
        drop(jobs);
        // A new stream gets all open jobs, accepted or not.
        let mut jobs = opened(&fair, None).await;
        let mut all = Vec::new();
        for _ in 0..4 {
            all.push(next(&mut jobs).await);
        }
        assert_eq!(all, [(one, true), (two, false), (three, false), (four, false)]);
    })
    .await;
}

#[tokio::test]
async fn what_may_be_tried_again_is_dispatched_again_and_what_may_not_is_paid_back() {
    on_both_stores(async |mut house| {
        let fair = house.fair(Vec::new(), MarketConfig::default()).await;
        let ocr = fair.sells("s", "ocr", offer(Served::Worker)).await;
        fair.has("b", 10_000).await;
        let id = sold(&fair, &ocr).await;
        let mut jobs = opened(&fair, None).await;
        assert_eq!(next(&mut jobs).await, (id, false));
        act(&fair, id, JobAct::Accept).await.unwrap();
        let fail = |retryable| JobAct::Fail { error: Some("no ink".into()), retryable };
        assert_eq!(act(&fair, id, fail(true)).await.unwrap(), Status::Accepted);
        assert_eq!(next(&mut jobs).await, (id, true));
        assert_eq!(act(&fair, id, fail(false)).await.unwrap(), Status::Failed);
        assert_eq!(fair.row(id).await.reason.as_deref(), Some("no ink"));
        let id = sold(&fair, &ocr).await;
        assert_eq!(act(&fair, id, fail(false)).await.unwrap(), Status::RejectedBySeller, "it was not accepted yet");
        assert_eq!(balance(&fair, "b").await, 1_000_000);
        adds_up(&fair).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_nobody_takes_fails_at_its_deadline_and_a_stream_says_that_it_is_there() {
    let fair = House::paused(MarketConfig::default(), None).await;
    let ocr = fair.sells("s", "ocr", offer(Served::Worker)).await;
    fair.has("b", 10_000).await;
    let id = sold(&fair, &ocr).await;
    let mut jobs = opened(&fair, None).await;
    assert_eq!(next(&mut jobs).await, (id, false));
    let begin = tokio::time::Instant::now();
    assert_eq!(jobs.next().await.unwrap().unwrap(), JobEvent::Heartbeat);
    assert!((29_990..30_010).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
    tokio::time::sleep(Duration::from_secs(24 * 3_600)).await;
    let row = fair.comes_to(id, Status::Failed).await;
    assert_eq!(row.reason.as_deref(), Some("the seller did not accept in time"));
    fair.engine().begin_drain();
    while let Some(event) = jobs.next().await {
        assert_eq!(event.unwrap(), JobEvent::Heartbeat);
    }
    adds_up(&fair).await;
}
