//! Tests of `autonomy`.

use proptest::prelude::*;

use super::*;

fn ut(units: i64) -> Ut {
    Ut::from_hundredths(units * 100)
}
fn question() -> Question {
    Question { tenant: "default".into(), caller: "u_1".into(), capability: "cap_x".into(), fee: ut(120) }
}
fn key(byte: u8) -> ConfirmationKey {
    ConfirmationKey::new(&[byte; 32]).unwrap()
}

#[test]
fn an_agent_buys_within_its_limits_and_asks_beyond_them() {
    let limits = SpendingLimits::default();
    let ask = |spent, fee, risk| decide(&limits, ut(spent), ut(fee), risk);
    assert_eq!(ask(0, 100, Risk::L3), Decision::Alone);
    assert_eq!(ask(4_900, 100, Risk::L0), Decision::Alone);
    assert_eq!(ask(0, 101, Risk::L0), Decision::Ask(Because::PerCall));
    assert_eq!(ask(4_901, 100, Risk::L0), Decision::Ask(Because::Daily));
    assert_eq!(ask(0, 0, Risk::L4), Decision::Ask(Because::Risk));
    let full = decide(
        &SpendingLimits { daily: Ut::from_hundredths(i64::MAX), ..limits },
        Ut::from_hundredths(i64::MAX),
        ut(1),
        Risk::L0,
    );
    assert_eq!(full, Decision::Ask(Because::Daily));
}

#[test]
fn risk_follows_from_what_it_is_and_what_it_costs() {
    let of = |what, fee| Risk::of(what, ut(fee), &SpendingLimits::default()).name();
    assert_eq!(of(CapabilityType::Data, 0), "L0");
    assert_eq!(of(CapabilityType::Knowledge, 1), "L1");
    assert_eq!(of(CapabilityType::Api, 0), "L2");
    assert_eq!(of(CapabilityType::Service, 80), "L2");
    assert_eq!(of(CapabilityType::Service, 120), "L3");
    assert_eq!(of(CapabilityType::Workflow, 5_001), "L4");
    assert_eq!(of(CapabilityType::AccountSharing, 0), "L4");
    assert_eq!(of(CapabilityType::AccountSharing, 6_000), "L5");
}

#[test]
fn a_day_begins_at_midnight_utc() {
    assert_eq!((day(Time(0)), day(Time(86_399_999)), day(Time(86_400_000)), day(Time(-1))), (0, 0, 1, -1));
}

#[test]
fn a_token_is_good_for_its_question_and_five_minutes() {
    let token = key(1).issue(&question(), [7; 16], Time(1_000));
    let confirmed = key(1).check(&token, &question(), Time(300_999)).unwrap();
    assert_eq!(confirmed.mark(), Mark { nonce: [7; 16], until: Time(301_000) });
    assert_eq!(confirmed.question(), &question());
    assert_eq!(key(1).check(&token, &question(), Time(301_000)), Err(TokenRefused::Expired));
    assert_eq!(key(2).check(&token, &question(), Time(2_000)), Err(TokenRefused::NotForThis));
    for other in [
        Question { tenant: "other".into(), ..question() },
        Question { caller: "u_2".into(), ..question() },
        Question { capability: "cap_y".into(), ..question() },
        Question { fee: ut(121), ..question() },
        // The same letters, split at another place.
        Question { caller: "u_1c".into(), capability: "ap_x".into(), ..question() },
    ] {
        assert_eq!(key(1).check(&token, &other, Time(2_000)), Err(TokenRefused::NotForThis), "{other:?}");
    }
    for bad in ["", "!", "AAAA", &token[1..], &format!("{token}AAAA")] {
        assert_eq!(key(1).check(bad, &question(), Time(2_000)), Err(TokenRefused::Unreadable), "{bad}");
    }
}

/// The layout of a token is stable: replicas of two releases accept each other's tokens.
#[test]
fn a_token_is_what_it_was() {
    let token = key(1).issue(&question(), [7; 16], Time(1_000));
    // Computed with another implementation of HMAC-SHA256 from the key, the head and the question.
    insta::assert_snapshot!(token);
}

#[test]
fn a_short_key_is_refused_and_no_key_is_printed() {
    assert_eq!(ConfirmationKey::new(&[1; 31]).unwrap_err(), KeyTooShort);
    assert_eq!(format!("{:?}", key(1)), "Key(..)");
}

#[test]
fn a_person_is_told_what_it_is_about() {
    assert_eq!(
        question().summary("OCR of invoices", ut(1_000)),
        "buy \"OCR of invoices\" (cap_x) for 120 UT; 1000 UT are available"
    );
}

proptest! {
    #[test]
    fn no_changed_token_is_good(at in 0_usize..57, bit in 0_u8..8) {
        let token = key(1).issue(&question(), [7; 16], Time(1_000));
        let mut bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
        prop_assert_eq!(bytes.len(), 57);
        bytes[at] ^= 1 << bit;
        let changed = URL_SAFE_NO_PAD.encode(bytes);
        prop_assert!(key(1).check(&changed, &question(), Time(2_000)).is_err());
    }
}
