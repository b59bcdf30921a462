//! Tests of `transaction`.

use model::TaskId;
use uuid::Uuid;

use super::*;
use crate::autonomy::{ConfirmationKey, Question, SpendingLimits, TokenRefused};
use crate::capability::{Capability, CapabilityTerms, CapabilityType, DeliveryMode, Status as CapabilityStatus};
use crate::error::{Error, Per};
use ledger::{AccountId, LineKind};

fn ut(units: i64) -> Ut {
    Ut::from_hundredths(units * 100)
}
fn tenant() -> Arc<str> {
    "default".into()
}
fn buyer() -> Actor {
    Actor::agent("default", &"buyer".into())
}
fn seller() -> Actor {
    Actor::agent("default", &"seller".into())
}
fn capability(price: i64) -> Capability {
    let terms = CapabilityTerms {
        title: "OCR".into(),
        description: "Reads".into(),
        category: "documents".into(),
        capability_type: CapabilityType::Service,
        pricing_model: PricingModel::PerUse,
        price: ut(price),
        tags: vec![],
        delivery_mode: DeliveryMode::Instant,
        auto_accept_min: None,
        daily_limit: None,
        rate_limit_per_min: None,
        served: Served::Person,
        available: true,
    };
    let new = Capability::new(&tenant(), "cap".into(), "seller".into(), terms, Time(0));
    Capability { status: CapabilityStatus::Active, version: 4, ..new }
}
fn order() -> PurchaseOrder {
    PurchaseOrder {
        id: TransactionId(TaskId(Uuid::from_u128(1))),
        tenant: tenant(),
        buyer: "buyer".into(),
        via: Via::Agent,
        booked_hours: None,
        context: Some("ctx".into()),
        demand: None,
        input: None,
        limits: SpendingLimits { per_call: ut(1_000), ..SpendingLimits::default() },
        spent: Ut::ZERO,
        confirmed: None,
        sold: Sales::default(),
    }
}
fn created() -> Transaction {
    Transaction::create(order(), &capability(120), Time(100), &TransactionRules::default()).unwrap().transaction
}
fn deliver() -> TransactionAction {
    TransactionAction::Deliver { result: Json::parse("{}"), deliverables: vec![] }
}
/// A transaction in each state, reached by steps.
fn at(status: Status) -> Transaction {
    let path: &[(Actor, TransactionAction)] = match status {
        Status::PendingFreeze => &[],
        Status::Frozen => &[(buyer(), TransactionAction::Freeze)],
        Status::Accepted => &[(buyer(), TransactionAction::Freeze), (seller(), TransactionAction::Accept)],
        Status::Delivered => {
            &[(buyer(), TransactionAction::Freeze), (seller(), TransactionAction::Accept), (seller(), deliver())]
        }
        Status::Settled => &[
            (buyer(), TransactionAction::Freeze),
            (seller(), TransactionAction::Accept),
            (seller(), deliver()),
            (buyer(), TransactionAction::Confirm),
        ],
        Status::CancelledByBuyer => &[(buyer(), TransactionAction::Cancel)],
        Status::RejectedBySeller => {
            &[(buyer(), TransactionAction::Freeze), (seller(), TransactionAction::Reject { reason: None })]
        }
        Status::Failed => {
            &[(buyer(), TransactionAction::Freeze), (Actor::Platform, TransactionAction::Fail { reason: None })]
        }
    };
    let mut transaction = created();
    for (i, (actor, action)) in path.iter().enumerate() {
        let now = Time(200 + i as i64 * 100);
        transaction = transaction.step(actor, action.clone(), now, &TransactionRules::default()).unwrap().transaction;
    }
    assert_eq!(transaction.status, status);
    transaction
}
fn lines(step: &TransactionStep) -> Vec<String> {
    let lines = step.entries.iter().flat_map(|entry| entry.lines());
    lines.map(|line| format!("{} {} {}", line.account, line.kind.name(), line.amount)).collect()
}
fn available(amount: Ut) -> Precondition {
    Precondition::Available(AccountId::available(&tenant(), &"buyer".into()), amount)
}

/// Every action by every actor in every state, with its result: the state machine on one page.
#[test]
fn the_state_machine() {
    let far = Time(10_000_000_000);
    let stranger = Actor::agent("default", &"stranger".into());
    let namesake = Actor::agent("elsewhere", &"buyer".into());
    let mut table = String::new();
    for served in [Served::Person, Served::Worker] {
        table += &format!("-- served by {served:?}\n");
        for action in [
            TransactionAction::Approve(None),
            TransactionAction::Freeze,
            TransactionAction::Accept,
            TransactionAction::Reject { reason: None },
            deliver(),
            TransactionAction::Confirm,
            TransactionAction::Cancel,
            TransactionAction::Fail { reason: None },
            TransactionAction::Due(Deadline::Accept),
            TransactionAction::Due(Deadline::Deliver),
            TransactionAction::Due(Deadline::Confirm),
        ] {
            let name = match &action {
                TransactionAction::Due(deadline) => format!("{} deadline", deadline.name()),
                other => other.verb().name().to_owned(),
            };
            for (who, actor) in [
                ("buyer", &buyer()),
                ("seller", &seller()),
                ("platform", &Actor::Platform),
                ("stranger", &stranger),
                ("namesake", &namesake),
            ] {
                let cell = |status: &Status| {
                    let auto_accept = served.by_machine();
                    let before = Transaction { served: served.clone(), auto_accept, ..at(*status) };
                    match before.step(actor, action.clone(), far, &TransactionRules::default()) {
                        Ok(step) => {
                            assert!(!before.status.is_terminal(), "a terminal state changed");
                            let money = lines(&step).len();
                            format!("{} ({:?}, {money} lines)", step.transaction.status.name(), step.state)
                        }
                        Err(Error::NotParty) => "not a party".to_owned(),
                        Err(Error::WrongActor { .. }) => "wrong actor".to_owned(),
                        Err(Error::WrongState { status, .. }) => {
                            assert_eq!(status, before.status);
                            "-".to_owned()
                        }
                        Err(other) => format!("{other}"),
                    }
                };
                let cells: Vec<String> = Status::ALL.iter().map(cell).collect();
                table += &match cells.iter().all(|cell| *cell == cells[0]) {
                    true => format!("{name} by {who}: {} always\n", cells[0]),
                    false => format!("{name} by {who}: {}\n", cells.join(" | ")),
                };
            }
        }
    }
    insta::assert_snapshot!("state_machine", table);
}

#[test]
fn an_order_asks_for_the_money_and_freezes_nothing() {
    let step = Transaction::create(order(), &capability(120), Time(100), &TransactionRules::default()).unwrap();
    let made = &step.transaction;
    assert_eq!((made.status, step.state), (Status::PendingFreeze, State::Submitted));
    assert_eq!((made.price, made.commission), (ut(120), ut(12)));
    assert_eq!((made.created_at, made.updated_at, made.version), (Time(100), Time(100), 1));
    assert_eq!(made.decision_source, DecisionSource::AgentAutonomous);
    assert!(step.entries.is_empty() && step.hold.is_none() && step.timers.is_empty());
    assert_eq!(
        step.guards,
        [
            Precondition::Transaction(made.id, 0),
            Precondition::Capability { tenant: tenant(), id: "cap".into(), version: 4 },
            Precondition::Spent { tenant: tenant(), user: "buyer".into(), day: 0, at_most: ut(5_000 - 120) },
            available(ut(120)),
        ]
    );
    let spend = step.spend.unwrap();
    assert_eq!((spend.amount, spend.day), (ut(120), 0));
}

#[test]
fn with_auto_freeze_the_order_sets_the_money_aside() {
    let rules = TransactionRules { auto_freeze: true, ..TransactionRules::default() };
    let step = Transaction::create(order(), &capability(120), Time(100), &rules).unwrap();
    assert_eq!((step.transaction.status, step.state), (Status::Frozen, State::Submitted));
    assert_eq!(lines(&step), ["default: available of buyer freeze -120", "default: frozen of buyer freeze 120"]);
    assert_eq!(step.guards.iter().filter(|guard| **guard == available(ut(120))).count(), 1);
    let due = Due { deadline: Deadline::Accept, at: Time(100).plus_ms(rules.accept_ms) };
    assert_eq!(step.timers, [DeadlineChange::Set(due)]);
}

#[test]
fn what_cannot_be_bought_is_refused() {
    let create = |order: PurchaseOrder, capability: &Capability| {
        Transaction::create(order, capability, Time(100), &TransactionRules::default()).unwrap_err()
    };
    let own = PurchaseOrder { buyer: "seller".into(), ..order() };
    assert_eq!(create(own, &capability(1)), Error::OwnCapability);
    for status in CapabilityStatus::ALL.iter().copied().filter(|status| *status != CapabilityStatus::Active) {
        let refusal = create(order(), &Capability { status, ..capability(1) });
        assert_eq!(refusal, Error::NotOnSale { capability: "cap".into(), status });
    }
    let mut paused = capability(1);
    paused.terms.available = false;
    assert!(matches!(create(order(), &paused), Error::NotOnSale { .. }));
    let elsewhere = PurchaseOrder { tenant: "elsewhere".into(), ..order() };
    assert!(matches!(create(elsewhere, &capability(1)), Error::NotOnSale { .. }));
    let mut hourly = capability(1);
    hourly.terms.pricing_model = PricingModel::PerHour;
    assert_eq!(create(order(), &hourly).to_string(), "booked_hours is required for a price per hour");
    let long = PurchaseOrder { context: Some("x".repeat(201).as_str().into()), ..order() };
    assert_eq!(create(long, &capability(1)).to_string(), "context_id must have at most 200 characters");
    let large = PurchaseOrder { input: Json::parse(&format!("\"{}\"", "x".repeat(256 * 1024))), ..order() };
    assert_eq!(create(large, &capability(1)).to_string(), "input must have at most 262144 bytes");
}

#[test]
fn a_seller_sells_only_so_much() {
    let mut limited = capability(1);
    limited.terms.daily_limit = Some(3);
    limited.terms.rate_limit_per_min = Some(2);
    let create = |today, this_minute| {
        let order = PurchaseOrder { sold: Sales { last: Time(90), today, this_minute }, ..order() };
        Transaction::create(order, &limited, Time(100), &TransactionRules::default())
            .map(|step| (step.sales, step.guards))
    };
    let (sales, guards) = create(2, 1).unwrap();
    let before = Sales { last: Time(90), today: 2, this_minute: 1 };
    assert_eq!(sales, Some(Sales { last: Time(100), today: 3, this_minute: 2 }));
    assert!(guards.contains(&Precondition::Sold { tenant: tenant(), capability: "cap".into(), sales: before }));
    assert_eq!(create(2, 2), Err(Error::Quota { per: Per::Minute, limit: 2, again_at: Time(60_000) }));
    assert_eq!(create(3, 0), Err(Error::Quota { per: Per::Day, limit: 3, again_at: Time(86_400_000) }));
}

#[test]
fn hours_are_paid_for_where_the_price_is_per_hour_and_forgotten_elsewhere() {
    let mut hourly = capability(10);
    hourly.terms.pricing_model = PricingModel::PerHour;
    let order = PurchaseOrder { booked_hours: Some(3), ..order() };
    let made =
        Transaction::create(order.clone(), &hourly, Time(100), &TransactionRules::default()).unwrap().transaction;
    assert_eq!((made.price, made.booked_hours), (ut(30), Some(3)));
    let made =
        Transaction::create(order, &capability(10), Time(100), &TransactionRules::default()).unwrap().transaction;
    assert_eq!((made.price, made.booked_hours), (ut(10), None));
}

#[test]
fn freezing_settling_and_giving_back_move_the_money() {
    let step = at(Status::PendingFreeze)
        .step(&buyer(), TransactionAction::Freeze, Time(150), &TransactionRules::default())
        .unwrap();
    assert_eq!(lines(&step), ["default: available of buyer freeze -120", "default: frozen of buyer freeze 120"]);
    assert_eq!(step.guards, [Precondition::Transaction(step.transaction.id, 1), available(ut(120))]);
    assert_eq!(step.hold, step.transaction.hold());
    assert_eq!(step.transaction.frozen_at, Some(Time(150)));

    let step = at(Status::Delivered)
        .step(&buyer(), TransactionAction::Confirm, Time(900), &TransactionRules::default())
        .unwrap();
    assert_eq!(
        lines(&step),
        [
            "default: frozen of buyer settle_out -120",
            "default: available of seller income 108",
            "default: commission commission 12"
        ]
    );
    assert_eq!(step.transaction.settled_at, Some(Time(900)));
    assert_eq!(step.transaction.decision_source, DecisionSource::AgentAutonomous);
    assert_eq!((step.hold.clone(), step.transaction.due), (step.transaction.hold(), None));
    assert_eq!(step.timers, [DeadlineChange::Clear(Deadline::Confirm)]);

    let step =
        at(Status::Frozen).step(&buyer(), TransactionAction::Cancel, Time(900), &TransactionRules::default()).unwrap();
    assert_eq!(lines(&step), ["default: frozen of buyer unfreeze -120", "default: available of buyer unfreeze 120"]);
    assert_eq!((step.transaction.settled_at, step.state), (None, State::Canceled));
    let step = at(Status::PendingFreeze)
        .step(&buyer(), TransactionAction::Cancel, Time(900), &TransactionRules::default())
        .unwrap();
    assert!(step.entries.is_empty() && step.hold.is_none());
}

#[test]
fn deadlines_are_set_moved_and_cleared() {
    let rules = TransactionRules { accept_ms: 10, deliver_ms: 20, confirm_ms: 30, ..TransactionRules::default() };
    let freeze = created().step(&buyer(), TransactionAction::Freeze, Time(1_000), &rules).unwrap();
    let set = |deadline, at| DeadlineChange::Set(Due { deadline, at: Time(at) });
    assert_eq!(freeze.timers, [set(Deadline::Accept, 1_010)]);
    let accept = freeze.transaction.step(&seller(), TransactionAction::Accept, Time(1_005), &rules).unwrap();
    assert_eq!(accept.timers, [DeadlineChange::Clear(Deadline::Accept), set(Deadline::Deliver, 1_025)]);
    let delivered = accept.transaction.step(&seller(), deliver(), Time(1_006), &rules).unwrap();
    assert_eq!(delivered.timers, [DeadlineChange::Clear(Deadline::Deliver), set(Deadline::Confirm, 1_036)]);

    let fire = |step: &TransactionStep, deadline, now| {
        step.transaction.step(&Actor::Platform, TransactionAction::Due(deadline), Time(now), &rules)
    };
    // Early, or left over from an earlier state.
    assert_eq!(fire(&freeze, Deadline::Accept, 1_009), Err(Error::NotDue));
    assert_eq!(fire(&accept, Deadline::Accept, 1_011), Err(Error::NotDue));
    assert_eq!(fire(&delivered, Deadline::Deliver, 9_999), Err(Error::NotDue));

    for (step, deadline, now, reason) in [
        (&freeze, Deadline::Accept, 1_010, "the seller did not accept in time"),
        (&accept, Deadline::Deliver, 1_025, "the seller did not deliver in time"),
    ] {
        let failed = fire(step, deadline, now).unwrap();
        assert_eq!((failed.transaction.status, failed.state), (Status::Failed, State::Failed));
        assert_eq!(failed.transaction.reason.as_deref(), Some(reason));
        assert_eq!(failed.entries[0].lines()[1].kind, LineKind::Unfreeze);
        assert_eq!(failed.timers, [DeadlineChange::Clear(deadline)]);
    }
    let settled = fire(&delivered, Deadline::Confirm, 1_036).unwrap();
    assert_eq!(settled.transaction.status, Status::Settled);
    assert_eq!(settled.transaction.decision_source, DecisionSource::PlatformAuto);
    // After the deadline, but before its timer.
    assert!(freeze.transaction.step(&seller(), TransactionAction::Accept, Time(5_000), &rules).is_ok());
}

#[test]
fn a_free_capability_moves_no_money_at_all() {
    let rules = TransactionRules::default();
    let create = Transaction::create(order(), &capability(0), Time(100), &rules).unwrap();
    assert!(
        !create.guards.iter().any(|guard| matches!(guard, Precondition::Available(..) | Precondition::Spent { .. }))
    );
    let mut transaction = create.transaction;
    for (actor, action) in [
        (buyer(), TransactionAction::Freeze),
        (seller(), TransactionAction::Accept),
        (seller(), deliver()),
        (buyer(), TransactionAction::Confirm),
    ] {
        let step = transaction.step(&actor, action, Time(200), &rules).unwrap();
        assert!(step.entries.is_empty() && step.hold.is_none());
        transaction = step.transaction;
    }
    assert_eq!((transaction.status, transaction.commission), (Status::Settled, Ut::ZERO));
    assert_eq!((transaction.hold(), transaction.entries()), (None, Ok(vec![])));
}

#[test]
fn time_never_stands_still_between_two_changes() {
    let frozen = created()
        .step(&buyer(), TransactionAction::Freeze, Time(-5), &TransactionRules::default())
        .unwrap()
        .transaction;
    assert_eq!(frozen.updated_at, Time(101));
    assert_ne!(frozen.change_key(), created().change_key());
    assert_eq!(frozen.frozen_at, Some(Time(101)));
}

fn question() -> Question {
    Question { tenant: tenant(), caller: "buyer".into(), capability: "cap".into(), fee: ut(120) }
}
fn token(nonce: u8, question: &Question) -> Confirmed {
    let key = ConfirmationKey::new(&[1; 32]).unwrap();
    key.check(&key.issue(question, [nonce; 16], Time(100)), question, Time(100)).unwrap()
}
fn above_limits() -> PurchaseOrder {
    PurchaseOrder { limits: SpendingLimits::default(), ..order() }
}
fn pending() -> Transaction {
    Transaction::create(above_limits(), &capability(120), Time(100), &TransactionRules::default()).unwrap().transaction
}

#[test]
fn above_its_limits_an_agents_order_waits_for_a_person() {
    let step = Transaction::create(above_limits(), &capability(120), Time(100), &TransactionRules::default()).unwrap();
    assert_eq!((step.transaction.status, step.state), (Status::PendingFreeze, State::InputRequired));
    assert!(step.spend.is_none());
    let record = step.transaction.autonomy.unwrap();
    assert!(record.required && record.is_pending() && record.estimated_cost == ut(120));
    assert_eq!(record.risk_level.name(), "L3");

    let refused =
        |actor: &Actor, action| pending().step(actor, action, Time(200), &TransactionRules::default()).unwrap_err();
    assert_eq!(refused(&buyer(), TransactionAction::Freeze), Error::ConfirmationPending);
    assert_eq!(refused(&buyer(), TransactionAction::Approve(None)), Error::ConfirmationPending);
    assert!(matches!(refused(&seller(), TransactionAction::Approve(None)), Error::WrongActor { .. }));
    assert!(pending().step(&buyer(), TransactionAction::Cancel, Time(200), &TransactionRules::default()).is_ok());
    // Not even where the order holds the money at once.
    let rules = TransactionRules { auto_freeze: true, ..TransactionRules::default() };
    let step = Transaction::create(above_limits(), &capability(120), Time(100), &rules).unwrap();
    assert!(step.transaction.awaits_approval() && step.entries.is_empty());
    // Limits do not apply to persons.
    let person = PurchaseOrder { via: Via::Person, ..above_limits() };
    let step = Transaction::create(person, &capability(120), Time(100), &TransactionRules::default()).unwrap();
    assert_eq!(step.transaction.decision_source, DecisionSource::UserManual);
    assert!(step.transaction.autonomy.is_none() && step.spend.is_none());
}

#[test]
fn a_person_or_a_token_says_yes() {
    let person = Actor::person("default", &"buyer".into());
    let step =
        pending().step(&person, TransactionAction::Approve(None), Time(200), &TransactionRules::default()).unwrap();
    assert_eq!((step.state, step.transaction.status), (State::Submitted, Status::PendingFreeze));
    assert_eq!(step.transaction.decision_source, DecisionSource::UserConfirmed);
    let record = step.transaction.autonomy.clone().unwrap();
    assert_eq!((record.confirmed_by, record.confirmed_at), (Some("buyer".into()), Some(Time(200))));
    let again =
        step.transaction.step(&person, TransactionAction::Approve(None), Time(300), &TransactionRules::default());
    assert_eq!(again.unwrap_err(), Error::NothingPending);

    let yes = token(3, &question());
    let mark = yes.mark();
    let rules = TransactionRules { auto_freeze: true, ..TransactionRules::default() };
    let step = pending().step(&buyer(), TransactionAction::Approve(Some(yes.clone())), Time(200), &rules).unwrap();
    assert_eq!((step.used, step.transaction.status), (Some(mark), Status::Frozen));
    assert!(step.guards.contains(&Precondition::Unused(mark)) && step.guards.contains(&available(ut(120))));

    let late = TransactionAction::Approve(Some(yes));
    let refused = pending().step(&buyer(), late, Time(300_100), &rules).unwrap_err();
    assert_eq!(refused, Error::Token(TokenRefused::Expired));
    let other = token(3, &Question { fee: ut(119), ..question() });
    let refused = pending().step(&buyer(), TransactionAction::Approve(Some(other)), Time(200), &rules).unwrap_err();
    assert_eq!(refused, Error::Token(TokenRefused::NotForThis));
}

#[test]
fn an_order_may_bring_its_yes_along() {
    let with = |confirmed| PurchaseOrder { confirmed: Some(confirmed), ..above_limits() };
    let create = |order| Transaction::create(order, &capability(120), Time(200), &TransactionRules::default());
    let step = create(with(token(5, &question()))).unwrap();
    assert_eq!((step.state, step.transaction.decision_source), (State::Submitted, DecisionSource::UserConfirmed));
    assert!(step.spend.is_none() && step.used.is_some());
    assert!(!step.transaction.autonomy.unwrap().is_pending());
    let other = token(5, &Question { capability: "other".into(), ..question() });
    assert_eq!(create(with(other)).unwrap_err(), Error::Token(TokenRefused::NotForThis));
}

#[test]
fn the_platform_acts_for_a_seller_only_where_the_seller_left_it_to_a_machine() {
    let mut agreed = capability(120);
    agreed.terms.auto_accept_min = Some(ut(100));
    let made = Transaction::create(order(), &agreed, Time(100), &TransactionRules::default()).unwrap().transaction;
    let frozen =
        made.step(&buyer(), TransactionAction::Freeze, Time(200), &TransactionRules::default()).unwrap().transaction;
    let accepted = frozen
        .step(&Actor::Platform, TransactionAction::Accept, Time(300), &TransactionRules::default())
        .unwrap()
        .transaction;
    let refused = accepted.step(&Actor::Platform, deliver(), Time(400), &TransactionRules::default()).unwrap_err();
    assert_eq!(refused, Error::WrongActor { verb: Verb::Deliver, role: Role::Platform });
}

#[test]
fn a_delivery_is_an_object_or_files_and_not_too_much() {
    let try_it = |result: Option<&str>, files: Vec<Deliverable>| {
        let result = result.map(|text| Json::parse(text).unwrap());
        let action = TransactionAction::Deliver { result, deliverables: files };
        at(Status::Accepted).step(&seller(), action, Time(900), &TransactionRules::default())
    };
    let file = |name: &str| Deliverable { deliverable_id: "d".into(), access_id: "a".into(), file_name: name.into() };
    let words = |result, files| try_it(result, files).unwrap_err().to_string();
    let done = try_it(Some(r#"{"b":1,"a":2}"#), vec![file("x.pdf")]).unwrap().transaction;
    assert_eq!(done.result.unwrap().text(), r#"{"b":1,"a":2}"#);
    assert_eq!(done.deliverables, [file("x.pdf")]);
    assert!(try_it(None, vec![file("x.pdf")]).is_ok());
    assert_eq!(words(None, vec![]), "result_payload is required where no file is delivered");
    assert_eq!(words(Some("[1]"), vec![]), "result_payload must be an object");
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(256 * 1024));
    assert_eq!(words(Some(&large), vec![]), "result_payload must have at most 262144 bytes");
    assert_eq!(words(None, vec![file("x"); 65]), "deliverables must have at most 64 files");
    assert_eq!(words(None, vec![file("")]), "deliverables must each have an id, an access id and a file name");
    let long = file(&"x".repeat(256));
    assert_eq!(words(None, vec![long]), "deliverables must have at most 255 characters in each name");
}

#[test]
fn reasons_are_kept_and_bounded() {
    let reason: Arc<str> = "é".repeat(501).as_str().into();
    let reject = TransactionAction::Reject { reason: Some(reason.clone()) };
    let refused = at(Status::Frozen).step(&seller(), reject, Time(900), &TransactionRules::default()).unwrap_err();
    assert_eq!(refused.to_string(), "reason must have at most 500 characters");
    // A long reason does not prevent the failure.
    let fail = TransactionAction::Fail { reason: Some(reason) };
    let failed = at(Status::Accepted).step(&Actor::Platform, fail, Time(900), &TransactionRules::default()).unwrap();
    assert_eq!(failed.transaction.reason.unwrap().chars().count(), 500);
}

#[test]
fn refusals_say_what_is_the_matter() {
    let cancel = |status| {
        at(status).step(&buyer(), TransactionAction::Cancel, Time(900), &TransactionRules::default()).unwrap_err()
    };
    let late = cancel(Status::Settled);
    assert_eq!((late.to_string().as_str(), late.status()), ("transaction is already settled", Some(Status::Settled)));
    assert_eq!(cancel(Status::Accepted).to_string(), "transaction is accepted: cancel is not possible now");
    let refused = at(Status::Settled)
        .step(&seller(), TransactionAction::Cancel, Time(900), &TransactionRules::default())
        .unwrap_err();
    assert_eq!(
        (refused.to_string().as_str(), refused.status()),
        ("the seller of a transaction cannot cancel it", None)
    );
}

#[test]
fn what_a_transaction_says_of_itself_is_what_its_steps_did() {
    for status in Status::ALL {
        let transaction = at(*status);
        let entries = transaction.entries().unwrap();
        assert_eq!(entries.is_empty(), transaction.frozen_at.is_none(), "{status:?}");
        assert_eq!(transaction.hold().is_some_and(|hold| hold.end.is_none()), status.holds_money(), "{status:?}");
    }
}
