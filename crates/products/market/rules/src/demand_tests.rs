//! Tests of `demand`.

use proptest::prelude::*;

use super::*;
use crate::capability::{self, CapabilityTerms};

const NOW: Time = Time(1_775_721_600_000);

fn draft() -> DemandDraft {
    DemandDraft {
        title: Some("OCR of invoices".into()),
        description: Some("Read 200 scanned invoices and give me their totals".into()),
        ..DemandDraft::default()
    }
}
fn wants(draft: DemandDraft) -> DemandSpec {
    draft.check(NOW).unwrap().0
}
fn full() -> DemandDraft {
    DemandDraft {
        category: Some("documents".into()),
        capability_type: Some("service".into()),
        pricing_model: Some("per_use".into()),
        delivery_mode: Some("instant".into()),
        tags: vec!["OCR".into(), "pdf".into()],
        budget_ut: Json::parse("\"100\""),
        acceptance_criteria: Some("Every total is right to the cent".into()),
        ..draft()
    }
}
fn terms(change: impl FnOnce(capability::CapabilityDraft) -> capability::CapabilityDraft) -> CapabilityTerms {
    let draft = capability::CapabilityDraft {
        title: Some("Invoice OCR".into()),
        description: Some("Reads a scanned invoice and gives its total".into()),
        category: Some("documents".into()),
        capability_type: Some("service".into()),
        pricing_model: Some("per_use".into()),
        price_ut: Json::parse("80"),
        tags: vec!["ocr".into(), "pdf".into()],
        ..capability::CapabilityDraft::default()
    };
    change(draft).check(&capability::CapabilityRules::default()).unwrap()
}
fn fits(wants: &DemandSpec, terms: &CapabilityTerms) -> Fit {
    fit(&DemandWords::of(wants), &Offered::of(terms))
}
fn demand() -> Demand {
    Demand::new(&"default".into(), "dem_1".into(), "buyer".into(), draft().check(NOW).unwrap(), NOW)
}
fn owner() -> Actor {
    Actor::agent("default", &"buyer".into())
}
fn bought(n: u128) -> TransactionId {
    TransactionId(model::TaskId(uuid::Uuid::from_u128(n)))
}

#[test]
fn what_is_left_out_is_left_open() {
    let (wants, until) = draft().check(NOW).unwrap();
    assert_eq!((wants.category, wants.budget, wants.tags.len()), (None, None, 0));
    assert_eq!(until, NOW.plus_ms(30 * DAY_MS));
    let day = DemandDraft { expires_in_days: Some(1), ..draft() };
    assert_eq!(day.check(NOW).unwrap().1, NOW.plus_ms(DAY_MS));
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let bad = DemandDraft {
        title: Some(" ".into()),
        description: None,
        category: Some("x".repeat(51)),
        capability_type: Some("thing".into()),
        pricing_model: Some("often".into()),
        delivery_mode: Some("never".into()),
        tags: vec![String::new()],
        budget_ut: Json::parse("-1"),
        acceptance_criteria: Some("x".repeat(2_001)),
        expires_in_days: Some(366),
    };
    let wrong = bad.check(NOW).unwrap_err();
    let fields: Vec<&str> = wrong.iter().map(|error| error.field).collect();
    assert_eq!(
        fields,
        [
            "title",
            "description",
            "category",
            "acceptance_criteria",
            "capability_type",
            "pricing_model",
            "delivery_mode",
            "tags",
            "budget_ut",
            "expires_in_days"
        ]
    );
}

#[test]
fn life_of_a_demand() {
    let open = demand();
    let after = open.expires_at;
    let cancelled = open.step(&owner(), DemandAction::Cancel, NOW).unwrap();
    assert_eq!((cancelled.status, cancelled.version), (Status::Cancelled, 2));
    let matched = open.step(&owner(), DemandAction::Match(bought(1)), NOW).unwrap();
    assert_eq!((matched.status, matched.transaction), (Status::Matched, Some(bought(1))));
    let reopened = matched.step(&Actor::Platform, DemandAction::Reopen(bought(1)), NOW).unwrap();
    assert_eq!((reopened.status, reopened.transaction, reopened.version), (Status::Open, None, 3));
    let late = matched.step(&Actor::Platform, DemandAction::Reopen(bought(1)), after).unwrap();
    assert_eq!(late.status, Status::Expired);
    let expired = open.step(&Actor::Platform, DemandAction::Expire, after).unwrap();
    assert_eq!((open.standing(after), expired.status), (Status::Expired, Status::Expired));
    assert_eq!(matched.standing(after), Status::Matched, "what was bought for it does not expire");
    // Nothing else is possible.
    let mut refused = 0;
    for (at, row) in [(NOW, &cancelled), (NOW, &matched), (NOW, &expired), (after, &open)] {
        for action in [DemandAction::Cancel, DemandAction::Match(bought(2))] {
            assert_eq!(row.step(&owner(), action, at), Err(Error::NotOpen(row.standing(at))));
            refused += 1;
        }
        let reopen = row.step(&Actor::Platform, DemandAction::Reopen(bought(2)), at);
        assert!(matches!(reopen, Err(Error::WrongState { .. })), "of another purchase");
    }
    assert_eq!(refused, 8);
    assert!(matches!(open.step(&Actor::Platform, DemandAction::Expire, NOW), Err(Error::WrongState { .. })), "not yet");
    for stranger in [Actor::agent("default", &"other".into()), Actor::agent("elsewhere", &"buyer".into())] {
        assert_eq!(open.step(&stranger, DemandAction::Cancel, NOW), Err(Error::NotOwner));
        assert_eq!(open.step(&stranger, DemandAction::Match(bought(1)), NOW), Err(Error::NotOwner));
    }
    assert_eq!(open.step(&owner(), DemandAction::Expire, after), Err(Error::NotOwner));
}

/// Rows that were written once are read for ever, and written as ever.
#[test]
fn a_row_is_what_it_was() {
    use ledger::Row as _;
    let least = r#"{"tenant":"default","id":"dem_1","owner":"buyer","wants":{"title":"OCR of invoices","description":"Read 200 scanned invoices and give me their totals"},"status":"open","expires_at":1778313600000,"created_at":1775721600000,"updated_at":1775721600000,"version":1}"#;
    let most = r#"{"tenant":"default","id":"dem_1","owner":"buyer","wants":{"title":"OCR of invoices","description":"Read 200 scanned invoices and give me their totals","category":"documents","capability_type":"service","pricing_model":"per_use","delivery_mode":"instant","tags":["OCR","pdf"],"budget":10000,"acceptance_criteria":"Every total is right to the cent"},"status":"matched","transaction":"00000000-0000-0000-0000-000000000001","expires_at":1778313600000,"created_at":1775721600000,"updated_at":1775721600000,"version":2}"#;
    let matched =
        Demand { wants: wants(full()), ..demand() }.step(&owner(), DemandAction::Match(bought(1)), NOW).unwrap();
    for (row, text) in [(demand(), least), (matched, most)] {
        let kept = [&[1], text.as_bytes()].concat();
        assert_eq!(Demand::from_row(&kept).unwrap(), row);
        assert_eq!(String::from_utf8_lossy(&row.to_row()[1..]), text);
    }
}

#[test]
fn clearer_demands_score_higher_and_the_rest_is_told() {
    let vague = Clarity::of(&wants(DemandDraft {
        title: Some("help".into()),
        description: Some("something with files".into()),
        ..DemandDraft::default()
    }));
    assert_eq!((vague.score, vague.level), (5, Level::Vague), "{vague:#?}");
    assert_eq!(vague.reasons.iter().map(|reason| reason.of).sum::<u32>(), 100);
    assert!(vague.advice()[0].contains("what goes in"), "what is worth the most comes first: {:?}", vague.advice());
    let plain = Clarity::of(&wants(full()));
    assert_eq!(plain.level, Level::Fair, "{plain:#?}");
    let words: String = (0..40).map(|n| format!("thing{n} ")).collect();
    let whole = DemandDraft { description: Some(words), tags: vec!["a".into(), "b".into(), "c".into()], ..full() };
    let best = Clarity::of(&wants(DemandDraft { title: Some("OCR of paper invoices".into()), ..whole }));
    assert_eq!((best.score, best.level, best.advice().len()), (100, Level::Clear, 0), "{best:#?}");
}

#[test]
fn only_what_is_asked_for_counts() {
    let bare = fits(&wants(draft()), &terms(|draft| draft));
    let criteria: Vec<&str> = bare.reasons.iter().map(|reason| reason.criterion).collect();
    assert_eq!(criteria, ["words", "availability"]);
    assert_eq!((bare.within_budget, bare.related), (None, true));
    let full = fits(&wants(full()), &terms(|draft| draft));
    let criteria: Vec<(&str, bool)> =
        full.reasons.iter().map(|reason| (reason.criterion, reason.points == reason.of)).collect();
    assert_eq!(
        criteria,
        [
            ("category", true),
            ("capability_type", true),
            ("pricing_model", true),
            ("delivery_mode", true),
            ("tags", true),
            ("words", false),
            ("budget_ut", true),
            ("availability", false)
        ]
    );
    assert!(full.score > 80, "{full:#?}");
}

#[test]
fn what_fits_less_scores_less() {
    let wants = wants(full());
    let best = fits(&wants, &terms(|draft| draft));
    let dear = fits(&wants, &terms(|draft| capability::CapabilityDraft { price_ut: Json::parse("150"), ..draft }));
    let absurd = fits(&wants, &terms(|draft| capability::CapabilityDraft { price_ut: Json::parse("200"), ..draft }));
    let elsewhere =
        fits(&wants, &terms(|draft| capability::CapabilityDraft { category: Some("music".into()), ..draft }));
    let untagged = fits(&wants, &terms(|draft| capability::CapabilityDraft { tags: vec!["ocr".into()], ..draft }));
    let other = terms(|draft| capability::CapabilityDraft {
        title: Some("Songs".into()),
        description: Some("Sung for birthdays".into()),
        category: Some("music".into()),
        tags: Vec::new(),
        ..draft
    });
    let other = fits(&wants, &other);
    assert!(best.score > dear.score && dear.score > absurd.score && best.score > untagged.score);
    assert!(best.score > elsewhere.score && elsewhere.score > other.score);
    assert_eq!((best.within_budget, dear.within_budget), (Some(true), Some(false)));
    let price = |fit: &Fit| fit.reasons.iter().find(|reason| reason.criterion == "budget_ut").unwrap().points;
    assert_eq!((price(&best), price(&dear), price(&absurd)), (20, 10, 0));
    assert!(!other.related && elsewhere.related, "{other:#?}");
}

#[test]
fn whoever_accepts_by_itself_is_ready() {
    let wants = wants(draft());
    let points = |terms: &CapabilityTerms| fits(&wants, terms).reasons.last().unwrap().points;
    assert_eq!(points(&terms(|draft| draft)), 0);
    assert_eq!(
        points(&terms(|draft| capability::CapabilityDraft { auto_accept_min_ut: Json::parse("80"), ..draft })),
        5
    );
    let worker = |available| {
        terms(|draft| capability::CapabilityDraft {
            served: Some(crate::Served::Worker),
            available: Some(available),
            ..draft
        })
    };
    assert_eq!((points(&worker(true)), points(&worker(false))), (5, 0));
}

proptest! {
    /// For any input, the score and its parts are within their bounds.
    #[test]
    fn scores_are_scores(
        title in "\\PC{1,60}", text in "\\PC{1,200}", other in "\\PC{1,200}", tags in prop::collection::vec("[a-c]{1,3}", 0..5),
        budget in prop::option::of(0_i64..1_000), price in 0_i64..2_000, category in prop::option::of("[ab]"),
    ) {
        prop_assume!(!title.trim().is_empty() && !text.trim().is_empty() && !other.trim().is_empty());
        let wants = DemandDraft {
            title: Some(title), description: Some(text), tags: tags.clone(), category,
            budget_ut: budget.and_then(|budget| Json::parse(&budget.to_string())), ..DemandDraft::default()
        };
        let wants = wants.check(NOW).unwrap().0;
        let terms = terms(|draft| capability::CapabilityDraft {
            description: Some(other), tags, category: Some("a".into()), price_ut: Json::parse(&price.to_string()), ..draft
        });
        let clarity = Clarity::of(&wants);
        prop_assert!(clarity.score <= 100);
        let found = fits(&wants, &terms);
        prop_assert!(found.score <= 100);
        prop_assert!(found.reasons.iter().chain(&clarity.reasons).all(|reason| reason.points <= reason.of && !reason.detail.is_empty()));
        prop_assert_eq!(found.within_budget, wants.budget.map(|budget| terms.price <= budget));
        prop_assert_eq!(fits(&wants, &terms), found, "the same again");
    }
}
