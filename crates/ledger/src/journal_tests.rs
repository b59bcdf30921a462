//! Tests of `journal`.

use model::TaskId;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::{Hold, Share};

fn ut(hundredths: i64) -> Ut {
    Ut::from_hundredths(hundredths)
}
fn tenant() -> Arc<str> {
    "default".into()
}
fn transaction() -> TransactionId {
    TransactionId(TaskId(Uuid::from_u128(7)))
}
fn head() -> EntryHead {
    EntryHead { id: EntryId::freeze(transaction()), at: Time(1), transaction: None, note: None }
}
fn line(user: &str, kind: LineKind, amount: i64) -> EntryLine {
    EntryLine::new(AccountId::available(&tenant(), &user.into()), kind, ut(amount))
}
fn share(commission: i64) -> Share {
    Share { seller: "seller".into(), commission: ut(commission) }
}
fn hold(amount: i64) -> Hold {
    Hold::freeze(&tenant(), &"buyer".into(), transaction(), ut(amount), Time(1)).unwrap().0
}
fn lines(entry: &LedgerEntry) -> Vec<String> {
    entry.lines().iter().map(|line| format!("{} {} {}", line.account, line.kind.name(), line.amount)).collect()
}

#[test]
fn only_lines_that_sum_to_zero_make_an_entry() {
    use LineKind::{Freeze, Income};
    let made = |lines: Vec<EntryLine>| LedgerEntry::new(head(), lines).err();
    assert_eq!(made(vec![line("a", Freeze, -5), line("b", Freeze, 5)]), None);
    assert_eq!(made(vec![line("a", Freeze, -5), line("b", Freeze, 4)]), Some(EntryError::Unbalanced(ut(-1))));
    assert_eq!(made(vec![line("a", Freeze, -5)]), Some(EntryError::Lines(1)));
    assert_eq!(made(vec![]), Some(EntryError::Lines(0)));
    assert_eq!(made(vec![line("a", Freeze, 0), line("b", Freeze, 0)]), Some(EntryError::Nothing));
    assert_eq!(made(vec![line("a", Freeze, -5), line("a", Freeze, 5)]), Some(EntryError::Twice));
    assert_eq!(made(vec![line("a", Freeze, -5), line("a", Income, 5)]), None);
    assert_eq!(
        made(vec![line("a", Freeze, i64::MAX), line("b", Freeze, 1), line("c", Freeze, 2)]),
        Some(EntryError::Overflow)
    );
    assert_eq!(made((0..9).map(|n| line(&format!("u{n}"), Freeze, 1)).collect()), Some(EntryError::Lines(9)));
    let elsewhere = EntryLine::new(AccountId::available(&"other".into(), &"b".into()), Freeze, ut(5));
    assert_eq!(made(vec![line("a", Freeze, -5), elsewhere]), Some(EntryError::Tenants));
}

#[test]
fn money_comes_in_and_goes_out_under_a_name_of_its_own() {
    let entry =
        LedgerEntry::recharge(&tenant(), &"u".into(), ut(500), "op-1", Some("welcome".into()), Time(3)).unwrap();
    assert_eq!(entry.id().as_str(), "recharge/default/op-1");
    assert_eq!(lines(&entry), ["default: outside recharge -5", "default: available of u recharge 5"]);
    assert_eq!(entry.floors(), []);
    let entry = LedgerEntry::withdraw(&tenant(), &"u".into(), ut(500), "op-1", None, Time(3)).unwrap();
    assert_eq!(lines(&entry), ["default: available of u withdraw -5", "default: outside withdraw 5"]);
    assert_eq!(entry.floors(), [Floor { account: AccountId::available(&tenant(), &"u".into()), at_least: ut(500) }]);
    for bad in [0, -1, Ut::MOST.hundredths() + 1] {
        let made = LedgerEntry::recharge(&tenant(), &"u".into(), ut(bad), "op-1", None, Time(3));
        assert_eq!(made.unwrap_err(), EntryError::Amount);
    }
}

#[test]
fn a_hold_is_made_by_freezing_and_settled_in_one_entry() {
    let (hold, entry) = Hold::freeze(&tenant(), &"buyer".into(), transaction(), ut(12_000), Time(1)).unwrap();
    assert_eq!(lines(&entry), ["default: available of buyer freeze -120", "default: frozen of buyer freeze 120"]);
    assert_eq!(
        entry.floors(),
        [Floor { account: AccountId::available(&tenant(), &"buyer".into()), at_least: ut(12_000) }]
    );

    let (ended, entry) = hold.settle(ut(12_000), &share(1_200), Time(2)).unwrap();
    assert_eq!(
        lines(&entry),
        [
            "default: frozen of buyer settle_out -120",
            "default: available of seller income 108",
            "default: commission commission 12"
        ]
    );
    assert_eq!(entry.floors(), []);
    assert_eq!(ended.settle(ut(12_000), &share(1_200), Time(3)).unwrap_err(), EntryError::Ended);
    assert_eq!(ended.release(Time(3)).unwrap_err(), EntryError::Ended);
}

#[test]
fn a_part_is_settled_and_the_rest_goes_back_at_once() {
    let (ended, entry) = hold(12_000).settle(ut(8_000), &share(800), Time(2)).unwrap();
    assert_eq!(
        lines(&entry),
        [
            "default: frozen of buyer settle_out -80",
            "default: available of seller income 72",
            "default: commission commission 8",
            "default: frozen of buyer unfreeze -40",
            "default: available of buyer unfreeze 40"
        ]
    );
    let end = ended.end.unwrap();
    assert_eq!((end.settled, end.released), (ut(8_000), ut(4_000)));
    assert!(matches!(hold(5).settle(ut(6), &share(0), Time(2)), Err(EntryError::MoreThanHeld { .. })));
    assert!(matches!(hold(5).settle(ut(-1), &share(0), Time(2)), Err(EntryError::MoreThanHeld { .. })));
    assert!(matches!(hold(5).settle(ut(5), &share(6), Time(2)), Err(EntryError::MoreThanHeld { .. })));
    assert!(matches!(hold(5).settle(ut(5), &share(-1), Time(2)), Err(EntryError::MoreThanHeld { .. })));
}

#[test]
fn a_release_gives_all_back_under_the_same_name() {
    let (_, entry) = hold(500).release(Time(2)).unwrap();
    assert_eq!(lines(&entry), ["default: frozen of buyer unfreeze -5", "default: available of buyer unfreeze 5"]);
    assert_eq!(*entry.id(), EntryId::end(transaction()));
}

#[test]
fn posting_says_what_each_account_has_afterwards() {
    let (_, entry) = hold(12_000).settle(ut(8_000), &share(800), Time(2)).unwrap();
    let frozen = AccountId::frozen(&tenant(), &"buyer".into());
    let read = |id: &AccountId| (*id == frozen).then(|| Account { id: id.clone(), balance: ut(13_000), lines: 4 });
    let posted = entry.post(read).unwrap();
    let told: Vec<_> = posted.postings.iter().map(|p| (p.id(), p.no, p.balance_after.to_string())).collect();
    let tx = transaction().tx();
    assert_eq!(
        told,
        [
            (format!("{tx}/end/0"), 5, "50".to_owned()),
            (format!("{tx}/end/1"), 1, "72".to_owned()),
            (format!("{tx}/end/2"), 1, "8".to_owned()),
            (format!("{tx}/end/3"), 6, "10".to_owned()),
            (format!("{tx}/end/4"), 1, "40".to_owned()),
        ]
    );
    assert_eq!(posted.accounts.len(), 4);
    assert_eq!(posted.accounts[0], Account { id: frozen.clone(), balance: ut(1_000), lines: 6 });
    assert_eq!(entry.post(|_| None), Err(PostingError::Short(frozen)));

    let entry = LedgerEntry::recharge(&tenant(), &"u".into(), ut(1), "r", None, Time(1)).unwrap();
    let full =
        |id: &AccountId| (!id.may_be_negative()).then(|| Account { balance: ut(i64::MAX), ..Account::new(id.clone()) });
    assert_eq!(entry.post(full), Err(PostingError::Overflow(AccountId::available(&tenant(), &"u".into()))));
}

#[test]
fn kinds_have_one_name_each_and_it_is_the_stored_one() {
    for kind in LineKind::ALL {
        assert_eq!(LineKind::from_name(kind.name()), Some(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
    assert_eq!(LineKind::from_name("gift"), None);
}

proptest! {
    /// The only constructor refuses all lines that do not sum to zero.
    #[test]
    fn no_unbalanced_entry_can_be_built(amounts in prop::collection::vec(-20_i64..20, 0..10)) {
        let lines: Vec<EntryLine> =
            amounts.iter().enumerate().map(|(i, n)| line(&format!("u{i}"), LineKind::Income, *n)).collect();
        let balanced = amounts.iter().sum::<i64>() == 0;
        let fit = balanced && amounts.len() >= 2 && amounts.len() <= MAX_LINES && !amounts.contains(&0);
        prop_assert_eq!(LedgerEntry::new(head(), lines).is_ok(), fit);
    }

    #[test]
    fn however_a_hold_ends_nothing_is_made_or_lost(held in 1_i64..1_000_000, part in 0.0..=1.0, cut in 0.0..=1.0) {
        let settled = (held as f64 * part) as i64;
        let commission = (settled as f64 * cut) as i64;
        let (ended, entry) = hold(held).settle(ut(settled), &share(commission), Time(9)).unwrap();
        let on = |purse: &AccountKind| entry.lines().iter().filter(|l| l.account.purse == *purse).map(|l| l.amount.hundredths()).sum::<i64>();
        prop_assert_eq!(on(&AccountKind::Frozen("buyer".into())), -held);
        prop_assert_eq!(on(&AccountKind::Available("seller".into())), settled - commission);
        prop_assert_eq!(on(&AccountKind::Available("buyer".into())), held - settled);
        prop_assert_eq!(on(&AccountKind::Commission), commission);
        prop_assert_eq!(ended.ended(&share(commission)).unwrap(), Some(entry));
    }
}
