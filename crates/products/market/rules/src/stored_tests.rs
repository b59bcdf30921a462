//! Tests of `stored`.

use ledger::row::Error;
use ledger::{Account, EntryId, Hold, HoldEnd, LedgerPosting};
use model::{Json, TaskId, Time};
use uuid::Uuid;

use super::*;
use crate::autonomy::{Confirmation, Risk};
use crate::capability::{
    CapabilityTerms, CapabilityType, DeliveryMode, PricingModel, Served, Status as CapabilityStatus,
};
use crate::transaction::{Deadline, DecisionSource, Deliverable, Due, Status};
use crate::*;

fn id(n: u128) -> TransactionId {
    TransactionId(TaskId(Uuid::from_u128(0x0190_f3c4_1111_7222_8333_4444_5555_0000 + n)))
}
fn ut(hundredths: i64) -> Ut {
    Ut::from_hundredths(hundredths)
}

fn accounts() -> Vec<Account> {
    let tenant = "default".into();
    [
        AccountId::available(&tenant, &"u \"1\"".into()),
        AccountId::frozen(&tenant, &"u_2".into()),
        AccountId::commission(&tenant),
        AccountId::outside(&tenant),
    ]
    .into_iter()
    .zip([(12_050, 3), (0, 2), (1, 1), (-12_051, 9)])
    .map(|(id, (balance, lines))| Account { id, balance: ut(balance), lines })
    .collect()
}

fn postings() -> Vec<LedgerPosting> {
    let tenant = "default".into();
    let posting = |kind, transaction: Option<TransactionId>, note: Option<&str>| LedgerPosting {
        entry: EntryId::end(id(1)),
        line: 4,
        account: AccountId::available(&tenant, &"u_1".into()),
        no: 17,
        kind,
        amount: ut(-5),
        balance_after: ut(95),
        transaction,
        note: note.map(Into::into),
        at: Time(1_767_225_599_000),
    };
    let mut all: Vec<LedgerPosting> = LineKind::ALL.iter().map(|kind| posting(*kind, Some(id(1)), None)).collect();
    all.push(posting(LineKind::Recharge, None, Some("wêlcome")));
    all
}

fn holds() -> Vec<Hold> {
    let open = Hold {
        tenant: "default".into(),
        transaction: id(1),
        owner: "u_1".into(),
        amount: ut(12_000),
        made_at: Time(1),
        end: None,
    };
    let end = HoldEnd { settled: ut(8_000), released: ut(4_000), at: Time(2) };
    vec![open.clone(), Hold { end: Some(end), ..open }]
}

fn capabilities() -> Vec<Capability> {
    let least = CapabilityTerms {
        title: "t".into(),
        description: "d".into(),
        category: "c".into(),
        capability_type: CapabilityType::Data,
        pricing_model: PricingModel::PerUse,
        price: ut(0),
        tags: vec![],
        delivery_mode: DeliveryMode::Instant,
        auto_accept_min: None,
        daily_limit: None,
        rate_limit_per_min: None,
        served: Served::Person,
        available: true,
    };
    let most = CapabilityTerms {
        tags: vec!["a".into(), "b".into()],
        delivery_mode: DeliveryMode::Async,
        auto_accept_min: Some(ut(1)),
        daily_limit: Some(2),
        rate_limit_per_min: Some(3),
        available: false,
        price: ut(12_000),
        ..least.clone()
    };
    let capability = |terms, status, reason: Option<&str>| Capability {
        tenant: "default".into(),
        id: "cap_ocr_invoice_v1".into(),
        owner: "u_2".into(),
        terms,
        status,
        reason: reason.map(Into::into),
        barred: reason.is_some(),
        created_at: Time(1),
        updated_at: Time(2),
        version: 3,
    };
    let mut all = vec![
        capability(least, CapabilityStatus::Draft, None),
        capability(most.clone(), CapabilityStatus::Rejected, Some("no")),
    ];
    let callback = Served::Callback { url: "https://e.example.com/x".into(), timeout_s: 30 };
    for served in [Served::Agent("ocr".into()), callback, Served::Worker] {
        all.push(capability(CapabilityTerms { served, ..most.clone() }, CapabilityStatus::Active, None));
    }
    for what in CapabilityType::ALL {
        all.push(capability(
            CapabilityTerms { capability_type: *what, ..most.clone() },
            CapabilityStatus::Active,
            None,
        ));
    }
    for model in PricingModel::ALL {
        all.push(capability(CapabilityTerms { pricing_model: *model, ..most.clone() }, CapabilityStatus::Active, None));
    }
    for status in CapabilityStatus::ALL {
        all.push(capability(most.clone(), *status, None));
    }
    all
}

fn transactions() -> Vec<Transaction> {
    let least = Transaction {
        tenant: "default".into(),
        id: id(1),
        capability: "cap_ocr_invoice_v1".into(),
        buyer: "u_1".into(),
        seller: "u_2".into(),
        pricing_model: PricingModel::PerUse,
        served: Served::Person,
        auto_accept: false,
        counted: false,
        booked_hours: None,
        price: ut(12_000),
        commission: ut(1_200),
        status: Status::PendingFreeze,
        context: None,
        demand: None,
        input: None,
        result: None,
        deliverables: vec![],
        autonomy: None,
        decision_source: DecisionSource::UserManual,
        reason: None,
        due: None,
        created_at: Time(1),
        updated_at: Time(2),
        frozen_at: None,
        settled_at: None,
        version: 1,
    };
    let pending = Confirmation::pending(Risk::L2, ut(12_000));
    let most = Transaction {
        served: Served::Agent("ocr".into()),
        auto_accept: true,
        booked_hours: Some(3),
        context: Some("ctx".into()),
        demand: Some("dem_1".into()),
        input: Json::parse(r#"{"z":1,"a":18446744073709551616}"#),
        result: Json::parse(r#"{"b":[1.0,null],"b":2}"#),
        deliverables: vec![Deliverable {
            deliverable_id: "d1".into(),
            access_id: "a1".into(),
            file_name: "a \"b\".txt".into(),
        }],
        autonomy: Some(pending.clone().confirmed(&"u_1".into(), Time(7))),
        reason: Some("it broke".into()),
        frozen_at: Some(Time(3)),
        settled_at: Some(Time(4)),
        version: 7,
        ..least.clone()
    };
    let mut all = vec![least.clone(), Transaction { autonomy: Some(pending), ..least }];
    for status in Status::ALL {
        all.push(Transaction { status: *status, ..most.clone() });
    }
    for decision_source in DecisionSource::ALL {
        all.push(Transaction { decision_source: *decision_source, ..most.clone() });
    }
    for deadline in Deadline::ALL {
        all.push(Transaction { due: Some(Due { deadline: *deadline, at: Time(9) }), ..most.clone() });
    }
    for risk in Risk::ALL {
        all.push(Transaction { autonomy: Some(Confirmation::pending(risk, ut(1))), ..most.clone() });
    }
    all
}

/// The JSON of each row, one a line, after the name of its kind.
fn written() -> String {
    fn lines<R: Row>(rows: &[R]) -> String {
        let line = |row: &R| {
            let row = row.to_row();
            assert_eq!(row[0], 1);
            format!("{} {}\n", R::NAME, str::from_utf8(&row[1..]).unwrap())
        };
        rows.iter().map(line).collect()
    }
    lines(&accounts()) + &lines(&postings()) + &lines(&holds()) + &lines(&capabilities()) + &lines(&transactions())
}

fn read<R: Row + PartialEq + std::fmt::Debug>(golden: &str, expected: &[R]) {
    let rows: Vec<R> = golden
        .lines()
        .filter_map(|line| line.strip_prefix(R::NAME)?.strip_prefix(' '))
        .map(|json| R::from_row(&[&[1], json.as_bytes()].concat()).unwrap())
        .collect();
    assert_eq!(rows, expected);
}

#[test]
fn rows_are_written_as_ever() {
    insta::assert_snapshot!("rows_v1", written());
}

#[test]
fn version_1_is_read_for_ever() {
    // Never edit this file: released versions have these rows on disk.
    let golden = include_str!("stored_v1.golden");
    read(golden, &accounts());
    read(golden, &postings());
    read(golden, &holds());
    read(golden, &capabilities());
    read(golden, &transactions());
}

#[test]
fn a_newer_version_is_refused_by_name() {
    let error = Hold::from_row(&[9, b'{', b'}']).unwrap_err();
    assert!(error.to_string().contains("hold row has version 9"), "{error}");
    assert!(matches!(Hold::from_row(&[]), Err(Error::Empty("hold"))));
    assert!(matches!(Hold::from_row(&[1, b'{']), Err(Error::Damaged("hold", _))));
}

/// Rows of a later release, with further members, stay readable.
#[test]
fn members_that_are_not_known_yet_are_passed_over() {
    let mut row = holds()[0].to_row();
    row.pop();
    row.extend(br#","colour":"red"}"#);
    assert_eq!(Hold::from_row(&row).unwrap(), holds()[0]);
}
