//! Tests of `tariff`.

use std::sync::Arc;

use model::{TaskId, TurnId};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::verify;
use ledger::{Account, AccountId, LedgerEntry, LedgerPosting, Rate, Row, UserId};

fn ut(text: &str) -> Ut {
    Ut::parse(text).unwrap()
}
fn fine(text: &str) -> Fine {
    Fine::parse(text).unwrap()
}
fn used(input_tokens: u64, output_tokens: u64, ran_ms: u64) -> Usage {
    Usage { input_tokens, output_tokens, ran_ms }
}

#[test]
fn a_cost_is_exact_and_rounded_once_and_up() {
    let price = Price { per_1k_input: fine("0.0025"), per_1k_output: fine("0.01"), hold: ut("5"), ..Price::default() };
    let price = price.check().unwrap();
    for (usage, cost) in [
        (used(0, 0, 99_000), "0"),
        // Each alone would be a hundredth; together they are one.
        (used(1, 1, 0), "0.01"),
        (used(4_000, 0, 0), "0.01"),
        (used(4_001, 0, 0), "0.02"),
        (used(100_000, 25_000, 0), "0.5"),
        (used(u64::MAX, u64::MAX, u64::MAX), "5"),
    ] {
        assert_eq!(price.cost(true, &usage, Owed::All).to_string(), cost, "{usage:?}");
    }
    let seconds = Price { per_second: fine("0.5"), hold: ut("60"), ..Price::default() }.check().unwrap();
    assert_eq!(seconds.cost(false, &used(9, 9, 1_500), Owed::All), ut("0.75"));
    assert_eq!(seconds.cost(false, &used(9, 9, 1_501), Owed::All), ut("0.76"));
}

#[test]
fn what_is_fixed_needs_no_hold_of_its_own_and_a_task_is_paid_for_once() {
    let price = Price { per_task: ut("0.5"), per_turn: ut("0.2"), ..Price::default() }.check().unwrap();
    assert_eq!((price.held(true), price.held(false)), (ut("0.7"), ut("0.2")));
    assert_eq!(price.cost(true, &Usage::default(), Owed::All), ut("0.7"));
    assert_eq!(price.cost(false, &Usage::default(), Owed::All), ut("0.2"));
    assert!(Price { per_task: ut("1"), ..Price::default() }.held(false).is_zero());
}

#[test]
fn how_a_turn_ended_says_what_is_owed() {
    let price = Price {
        per_turn: ut("1"),
        per_1k_output: fine("1"),
        per_second: fine("1"),
        hold: ut("50"),
        ..Price::default()
    };
    let cost = |state| price.cost(false, &used(0, 2_000, 3_000), Owed::by(state)).to_string();
    for state in [State::Completed, State::InputRequired, State::AuthRequired, State::Canceled] {
        assert_eq!(cost(state), "6", "{state:?}");
    }
    assert_eq!((cost(State::Failed).as_str(), cost(State::Rejected).as_str()), ("2", "0"));
}

#[test]
fn what_is_no_price_is_refused_with_words() {
    let none = Price::default();
    assert_eq!(none.check(), Err(Unpriced::Nothing));
    assert_eq!(Price { hold: ut("3"), ..none }.check(), Err(Unpriced::Nothing));
    assert_eq!(Price { per_second: fine("1"), ..none }.check(), Err(Unpriced::NoHold));
    assert_eq!(Price { per_turn: ut("-1"), ..none }.check(), Err(Unpriced::Negative));
    assert_eq!(Price { per_turn: Ut::MOST, per_task: Ut::MOST, ..none }.check(), Err(Unpriced::TooLarge));
    let small = Price { per_turn: ut("2"), per_second: fine("1"), hold: ut("1"), ..none }.check().unwrap_err();
    assert_eq!(small.to_string(), "hold is 1, less than the 2 that per_task and per_turn come to; raise it");
    assert_eq!((Fine::parse("-1"), Fine::parse("1e3")), (Err(money::Error::Shape), Err(money::Error::Shape)));
}

#[test]
fn usage_is_read_in_all_its_words() {
    for told in [
        r#"{"input_tokens":3,"output_tokens":4,"total_tokens":7}"#,
        r#"{"prompt_tokens":3,"completion_tokens":4}"#,
        r#"{"input":3,"output":4}"#,
    ] {
        assert_eq!(Usage::told(Some(&serde_json::from_str(told).unwrap()), 5), used(3, 4, 5), "{told}");
    }
    for told in ["7", r#"{"input_tokens":"3","output_tokens":-4}"#, "[]", r#"{"input_tokens":1.5}"#] {
        assert_eq!(Usage::told(Some(&serde_json::from_str(told).unwrap()), 0), Usage::default(), "{told}");
    }
    assert_eq!(Usage::told(None, 0), Usage::default());
}

#[test]
fn windows_follow_the_calendar_of_utc() {
    for (ms, day, month) in [
        (0, "1970-01-01", "1970-01"),
        (-1, "1969-12-31", "1969-12"),
        (951_782_400_000, "2000-02-29", "2000-02"),
        (951_868_799_999, "2000-02-29", "2000-02"),
        (951_868_800_000, "2000-03-01", "2000-03"),
        (1_775_721_600_000, "2026-04-09", "2026-04"),
        (4_107_542_399_999, "2100-02-28", "2100-02"),
        (4_107_542_400_000, "2100-03-01", "2100-03"),
    ] {
        assert_eq!((Window::Day.at(Time(ms)).as_str(), Window::Month.at(Time(ms)).as_str()), (day, month));
    }
    assert_eq!(Window::Total.at(Time(0)), Window::Total.at(Time(i64::MAX / 2)));
}

fn hold(price: Price, first: bool, amount: Ut, seller: Option<&str>, commission: Rate) -> TurnHold {
    TurnHold {
        tenant: "default".into(),
        agent: "writer".into(),
        task: TaskId(Uuid::from_u128(1)),
        turn: TurnId(Uuid::from_u128(2)),
        payer: UserId::from("alice"),
        amount,
        made_at: Time(1),
        first,
        price,
        seller: seller.map(UserId::from),
        commission,
        budgets: Vec::new(),
    }
}

/// The accounts and lines that result from these entries, after credits only.
fn book(hold: &TurnHold, entries: &[LedgerEntry]) -> (Vec<Account>, Vec<LedgerPosting>) {
    let credit = LedgerEntry::recharge(&hold.tenant, &hold.payer, hold.amount, "c", None, Time(0)).unwrap();
    let (mut accounts, mut journal) = (Vec::<Account>::new(), Vec::new());
    for entry in std::iter::once(&credit).chain(entries) {
        let posted = entry.post(|id: &AccountId| accounts.iter().find(|known| known.id == *id).cloned()).unwrap();
        for account in posted.accounts {
            accounts.retain(|known| known.id != account.id);
            accounts.push(account);
        }
        journal.extend(posted.postings);
    }
    (accounts, journal)
}

fn differences(hold: &TurnHold, entries: &[LedgerEntry], open: &[TurnHold]) -> Vec<String> {
    let (accounts, journal) = book(hold, entries);
    verify(&accounts, &journal, [], [], open).iter().map(ToString::to_string).collect()
}

#[test]
fn the_check_finds_turns_whose_money_is_not_where_it_belongs() {
    let price = Price { per_turn: ut("2"), ..Price::default() };
    let held = hold(price, true, ut("2"), Some("bob"), Rate::TENTH);
    let (begun, ended) = (held.frozen().unwrap(), held.ended(ut("2"), Time(2)).unwrap());
    let open = std::slice::from_ref(&held);
    assert_eq!(differences(&held, std::slice::from_ref(&begun), open), [""; 0]);
    assert_eq!(differences(&held, &[begun.clone(), ended.clone()], &[]), [""; 0]);
    let says =
        |found: Vec<String>, what: &str| assert!(found.iter().any(|one| one.contains(what)), "{what}: {found:?}");
    says(differences(&held, std::slice::from_ref(&begun), &[]), "neither hold nor payment is there");
    says(differences(&held, &[], open), "a hold that no entry made");
    says(differences(&held, &[begun.clone(), ended], open), "its money is still set aside");
    let more = TurnHold { amount: ut("3"), ..held.clone() };
    says(
        differences(&more, std::slice::from_ref(&begun), std::slice::from_ref(&more)),
        "its hold is not what its entry says",
    );
    // Half of the hold was returned, and the rest is missing.
    let half = TurnHold { amount: ut("1"), ..held.clone() }.ended(ut("1"), Time(2)).unwrap();
    says(differences(&held, &[begun, half], &[]), "not what was set aside");
}

#[test]
fn a_hold_reads_back_as_it_was_kept() {
    let mut held =
        hold(Price { per_second: fine("0.25"), hold: ut("5"), ..Price::default() }, true, ut("5"), None, Rate::ZERO);
    held.budgets.push(Budgeted { account: "b".into(), amount: ut("9"), of: "key".into(), window: "day".into() });
    assert_eq!(TurnHold::from_row(&held.to_row()).unwrap(), held);
    // As the first release with turn holds wrote it.
    let kept = br#"{"tenant":"default","agent":"writer","task":"00000000-0000-0000-0000-000000000001","turn":"00000000-0000-0000-0000-000000000002","payer":"alice","amount":500,"made_at":1,"first":true,"price":{"per_second":250000,"hold":500},"commission":0,"budgets":[{"account":"b","amount":900,"of":"key","window":"day"}]}"#;
    assert_eq!(TurnHold::from_row(&[&[1], &kept[..]].concat()).unwrap(), held);
}

fn any_price() -> impl Strategy<Value = Price> {
    let (cents, rate) = (0..=1_000_000_i64, prop_oneof![Just(0_u64), 0..=10_000_000_u64]);
    (cents.clone(), cents.clone(), rate.clone(), rate.clone(), rate, cents).prop_filter_map("a price", |parts| {
        let (task, turn, input, output, second, hold) = parts;
        let price = Price {
            per_task: Ut::from_hundredths(task),
            per_turn: Ut::from_hundredths(turn),
            per_1k_input: Fine::from_millionths(input),
            per_1k_output: Fine::from_millionths(output),
            per_second: Fine::from_millionths(second),
            hold: Ut::from_hundredths(task + turn + hold),
        };
        price.check().ok()
    })
}

fn any_usage() -> impl Strategy<Value = Usage> {
    let count = || prop_oneof![0..=10_000_u64, any::<u64>()];
    (count(), count(), count()).prop_map(|(input, output, ms)| used(input, output, ms))
}

proptest! {
    #[test]
    fn a_turn_never_costs_more_than_was_set_aside_and_nothing_is_lost(
        price in any_price(), usage in any_usage(), first: bool, sold: bool, millionths in 0..=1_000_000_u32, state in 0..8_usize,
    ) {
        let amount = price.held(first);
        prop_assume!(!amount.is_zero());
        let commission = Rate::try_from(millionths).unwrap();
        let held = hold(price, first, amount, sold.then_some("bob"), commission);
        let cost = held.cost(&usage, Owed::by(State::ALL[state]));
        prop_assert!(!cost.is_negative() && cost <= amount);
        let entries = [held.frozen().unwrap(), held.ended(cost, Time(2)).unwrap()];
        let (accounts, journal) = book(&held, &entries);
        prop_assert_eq!(verify(&accounts, &journal, [], [], []), vec![]);
        let on = |id: AccountId| accounts.iter().find(|account| account.id == id).map_or(Ut::ZERO, |account| account.balance);
        let tenant: Arc<str> = held.tenant.clone();
        prop_assert_eq!(on(AccountId::frozen(&tenant, &held.payer)), Ut::ZERO);
        prop_assert_eq!(on(AccountId::available(&tenant, &held.payer)), amount.minus(cost).unwrap());
        let earned = on(AccountId::commission(&tenant)).plus(on(AccountId::available(&tenant, &UserId::from("bob"))));
        prop_assert_eq!(earned, Some(cost));
        if !sold {
            prop_assert_eq!(on(AccountId::commission(&tenant)), cost);
        }
    }

    #[test]
    fn who_uses_more_never_pays_less(price in any_price(), usage in any_usage(), more in any_usage(), first: bool) {
        let sum = used(
            usage.input_tokens.saturating_add(more.input_tokens),
            usage.output_tokens.saturating_add(more.output_tokens),
            usage.ran_ms.saturating_add(more.ran_ms),
        );
        for owed in [Owed::All, Owed::Tokens, Owed::Nothing] {
            prop_assert!(price.cost(first, &usage, owed) <= price.cost(first, &sum, owed));
        }
        prop_assert!(price.cost(first, &usage, Owed::Tokens) <= price.cost(first, &usage, Owed::All));
    }

    #[test]
    fn a_printed_rate_reads_back(millionths in 0..=i64::MAX.unsigned_abs()) {
        let rate = Fine::from_millionths(millionths);
        prop_assert_eq!(Fine::parse(&rate.to_string()), Ok(rate));
    }
}
