//! Tests of the time at which a purchase is checked next.

use ledger::{UserId, Ut};
use market_rules::transaction::{Deadline, DecisionSource, Due};
use market_rules::{CapabilityId, capability};
use model::TaskId;

use super::*;

const NOW: Time = Time(1_700_000_000_000);

fn row(status: Status, served: Served, auto_accept: bool) -> Transaction {
    let due = match status {
        Status::Frozen => Some((Deadline::Accept, 100_000)),
        Status::Accepted => Some((Deadline::Deliver, 200_000)),
        Status::Delivered => Some((Deadline::Confirm, 300_000)),
        _ => None,
    };
    Transaction {
        tenant: "default".into(),
        id: TaskId(uuid::Uuid::from_u128(1)).into(),
        capability: CapabilityId::from("cap"),
        buyer: UserId::from("b"),
        seller: UserId::from("s"),
        pricing_model: capability::PricingModel::PerUse,
        served,
        auto_accept,
        counted: false,
        booked_hours: None,
        price: Ut::from_hundredths(100),
        commission: Ut::from_hundredths(10),
        status,
        context: None,
        demand: None,
        input: None,
        result: None,
        deliverables: Vec::new(),
        autonomy: None,
        decision_source: DecisionSource::UserManual,
        reason: None,
        due: due.map(|(deadline, ms)| Due { deadline, at: NOW.plus_ms(ms) }),
        created_at: NOW,
        updated_at: NOW,
        frozen_at: None,
        settled_at: None,
        version: 1,
    }
}

fn user(id: &str, acts_alone: bool) -> User {
    User {
        tenant: "default".into(),
        id: UserId::from(id),
        account: None,
        password: None,
        platforms: Vec::new(),
        limits: None,
        acts_alone,
        logins_ended: 0,
        created_at: NOW,
    }
}

fn after(row: &Transaction, alone: (bool, bool), acts_after_ms: Option<u64>, now: Time) -> Option<i64> {
    let (buyer, seller) = (user("b", alone.0), user("s", alone.1));
    let config = MarketConfig { acts_after_ms, ..MarketConfig::default() };
    look_at(row, Some(&buyer), Some(&seller), &config, now).map(|at| at.0 - now.0)
}

#[test]
fn a_purchase_is_looked_at_when_something_is_to_happen() {
    let (agent, callback) = (Served::Agent("a".into()), Served::Callback { url: "https://x".into(), timeout_s: 1 });
    let nobody = (false, false);
    let cases = [
        (Status::PendingFreeze, Served::Person, false, None),
        (Status::Frozen, Served::Person, false, Some(100_000)),
        (Status::Frozen, Served::Person, true, Some(10_000)),
        (Status::Accepted, Served::Person, true, Some(200_000)),
        (Status::Frozen, agent.clone(), true, Some(10_000)),
        (Status::Accepted, agent.clone(), true, Some(10_000)),
        (Status::Delivered, agent.clone(), true, Some(300_000)),
        (Status::Frozen, callback.clone(), true, Some(10_000)),
        (Status::Accepted, callback, true, Some(10_000)),
        (Status::Frozen, Served::Worker, true, Some(100_000)),
        (Status::Accepted, Served::Worker, true, Some(200_000)),
        (Status::Settled, agent.clone(), true, None),
        (Status::CancelledByBuyer, agent.clone(), true, None),
        (Status::RejectedBySeller, agent.clone(), true, None),
        (Status::Failed, agent, true, None),
    ];
    for (status, served, auto_accept, expected) in cases {
        let row = row(status, served, auto_accept);
        assert_eq!(after(&row, nobody, None, NOW), expected, "{row:?}");
        assert_eq!(after(&row, nobody, Some(5_000), NOW), expected, "nobody acts alone");
        assert_eq!(after(&row, (true, true), None, NOW), expected, "nobody may act alone");
    }
}

#[test]
fn whoever_acts_alone_does_so_a_while_after_the_step_before() {
    for (status, expected) in [
        (Status::PendingFreeze, (Some(5_000), None)),
        (Status::Frozen, (Some(100_000), Some(5_000))),
        (Status::Accepted, (Some(200_000), Some(5_000))),
        (Status::Delivered, (Some(5_000), Some(300_000))),
        (Status::Settled, (None, None)),
    ] {
        let row = row(status, Served::Person, false);
        let (buyer, seller) =
            (after(&row, (true, false), Some(5_000), NOW), after(&row, (false, true), Some(5_000), NOW));
        assert_eq!((buyer, seller), expected, "{status:?}");
    }
    // Work of a machine is not done by its seller.
    let row = row(Status::Accepted, Served::Worker, true);
    assert_eq!(after(&row, (false, true), Some(5_000), NOW), Some(200_000));
}

#[test]
fn what_takes_longer_is_looked_at_less_often() {
    let mut row = row(Status::Accepted, Served::Agent("a".into()), true);
    row.due = None;
    for (age, expected) in [(0, 10_000), (20_000, 10_000), (40_000, 20_000), (1_000_000, 60_000)] {
        assert_eq!(after(&row, (false, false), None, NOW.plus_ms(age)), Some(expected));
    }
}

#[test]
fn news_of_what_is_being_worked_on_is_not_lost() {
    let (at_work, task) = (RunningSales::default(), TaskId(uuid::Uuid::from_u128(1)));
    assert!(at_work.take(task));
    assert!(!at_work.take(task));
    assert!(!at_work.let_go(task), "there was news");
    assert!(at_work.let_go(task));
    assert!(at_work.take(task));
}
