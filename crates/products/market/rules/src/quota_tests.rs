//! Tests of `quota`.

use super::*;
use crate::capability::{CapabilityType, DeliveryMode, PricingModel, Served};
use ledger::Ut;

const DAY: i64 = 86_400_000;

fn terms(daily_limit: Option<u32>, rate_limit_per_min: Option<u32>) -> CapabilityTerms {
    CapabilityTerms {
        title: "t".into(),
        description: "d".into(),
        category: "c".into(),
        capability_type: CapabilityType::Data,
        pricing_model: PricingModel::PerUse,
        price: Ut::ZERO,
        tags: vec![],
        delivery_mode: DeliveryMode::Instant,
        auto_accept_min: None,
        daily_limit,
        rate_limit_per_min,
        served: Served::Person,
        available: true,
    }
}

#[test]
fn each_sale_is_counted_in_its_day_and_its_minute() {
    let mut sales = Sales::default();
    for (at, today, this_minute) in [
        (5 * DAY, 1, 1),
        (5 * DAY + 59_999, 2, 2),
        (5 * DAY + 60_000, 3, 1),
        (5 * DAY + 60_000, 4, 2),
        (6 * DAY - 1, 5, 1),
        (6 * DAY, 1, 1),
    ] {
        sales = sales.with_one(Time(at));
        assert_eq!(sales, Sales { last: Time(at), today, this_minute });
    }
}

#[test]
fn a_limit_has_room_again_in_its_next_window() {
    let full = Sales { last: Time(DAY + 10), today: 2, this_minute: 2 };
    let quota = |per, again_at| Err(Error::Quota { per, limit: 2, again_at: Time(again_at) });
    for (terms, at, expected) in [
        (terms(Some(3), Some(3)), DAY + 20, Ok(())),
        (terms(Some(2), None), DAY + 20, quota(Per::Day, 2 * DAY)),
        (terms(Some(2), None), 2 * DAY - 1, quota(Per::Day, 2 * DAY)),
        (terms(Some(2), None), 2 * DAY, Ok(())),
        (terms(None, Some(2)), DAY + 59_999, quota(Per::Minute, DAY + 60_000)),
        (terms(None, Some(2)), DAY + 60_000, Ok(())),
        (terms(None, None), DAY + 20, Ok(())),
        (terms(Some(2), Some(2)), DAY + 20, quota(Per::Minute, DAY + 60_000)),
    ] {
        assert_eq!(full.check(&terms, Time(at)), expected, "{at}");
    }
}

#[test]
fn a_clock_that_is_behind_sells_in_the_window_of_the_last_sale() {
    let last = Sales { last: Time(2 * DAY), today: 1, this_minute: 1 };
    assert_eq!(last.next_at(Time(2 * DAY - 5)), Time(2 * DAY));
    assert_eq!(last.next_at(Time(2 * DAY + 5)), Time(2 * DAY + 5));
    // A sale from a clock that was wrong by more does not block sales until that time.
    assert_eq!(last.next_at(Time(DAY)), Time(DAY));
    assert_eq!(last.with_one(Time(DAY)), Sales { last: Time(DAY), today: 1, this_minute: 1 });
}

#[test]
fn sales_that_are_only_listed_are_counted_once() {
    let now = Time(DAY + 3 * 60_000 + 7);
    let times = [now.0, DAY + 3 * 60_000, DAY + 2 * 60_000, DAY, DAY - 1].map(Time);
    assert_eq!(Sales::counted(times, now), Sales { last: now, today: 4, this_minute: 2 });
    assert_eq!(Sales::day_of(now), Time(DAY));
}
