//! Anybody does anything, in any order, at any time; and the books are right after every single step.

use std::collections::BTreeMap;

use ledger::{AccountId, AccountKind, Hold, Row, TransactionId, Ut};
use market_rules::Transaction;
use market_rules::transaction::Status;
use model::{State, Time};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::bazaar::{Bazaar, LIMITS, Op, ops};

/// Facts that must not change once they are true.
#[derive(Default)]
struct Memory {
    ended: BTreeMap<TransactionId, Hold>,
    terminal: BTreeMap<TransactionId, Transaction>,
    keys: BTreeMap<TransactionId, (u64, Time)>,
    lines: usize,
}

fn check(bazaar: &Bazaar, memory: &mut Memory) -> TestCaseResult {
    let book = &bazaar.book;

    // Balances, told again from the journal.
    let mut told: BTreeMap<&AccountId, i64> = BTreeMap::new();
    for posting in book.journal() {
        *told.entry(&posting.account).or_default() += posting.amount.hundredths();
    }
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for account in book.accounts() {
        prop_assert_eq!(told.get(&account.id).copied(), Some(account.balance.hundredths()), "{}", account.id);
        prop_assert!(
            !account.balance.is_negative() || account.id.purse == AccountKind::Outside,
            "{} is short",
            account.id
        );
        *sums.entry(&account.id.tenant).or_default() += account.balance.hundredths();
    }
    prop_assert_eq!(told.len(), book.accounts().count());
    prop_assert!(sums.values().all(|sum| *sum == 0), "{:?}", sums);
    prop_assert!(book.journal().len() >= memory.lines);
    memory.lines = book.journal().len();

    // Holds: open while their transaction is, ended once and for ever, and of no other transaction.
    for hold in book.holds() {
        let transaction = book.transaction(hold.transaction).unwrap();
        prop_assert_eq!(
            (&hold.owner, &hold.tenant, hold.amount),
            (&transaction.buyer, &transaction.tenant, transaction.price)
        );
        prop_assert_eq!(hold.end.is_none(), transaction.status.holds_money());
        if let Some(end) = hold.end {
            prop_assert_eq!(end.settled.plus(end.released), Some(hold.amount));
            prop_assert_eq!(end.settled == hold.amount, transaction.status == Status::Settled);
            let first = memory.ended.entry(hold.transaction).or_insert_with(|| hold.clone());
            prop_assert_eq!(&*first, hold);
        }
    }

    for transaction in book.transactions() {
        let id = transaction.id;
        if transaction.status.is_terminal() {
            let first = memory.terminal.entry(id).or_insert_with(|| transaction.clone());
            prop_assert_eq!(&*first, transaction);
        }
        prop_assert_eq!(transaction.state().is_terminal(), transaction.status.is_terminal());
        prop_assert_eq!(
            transaction.status.holds_money() && transaction.price.is_positive(),
            book.hold(id).is_some_and(|hold| hold.end.is_none())
        );
        prop_assert!(!(transaction.awaits_approval() && transaction.status.holds_money()));
        prop_assert_eq!(
            transaction.awaits_approval() && transaction.status == Status::PendingFreeze,
            transaction.state() == State::InputRequired && transaction.status != Status::Delivered
        );
        // A change is a version more and a later time; nothing else is a change.
        let (version, updated_at) = *memory.keys.entry(id).or_insert((transaction.version, transaction.updated_at));
        prop_assert!(
            transaction.version == version && transaction.updated_at == updated_at
                || transaction.version > version && transaction.updated_at > updated_at
        );
        memory.keys.insert(id, (transaction.version, transaction.updated_at));
        // Its money moves between its parties and the platform only, at most twice.
        let mut entries = Vec::new();
        for posting in book.journal().iter().filter(|posting| posting.transaction == Some(id)) {
            prop_assert_eq!(&posting.account.tenant, &transaction.tenant);
            let party = match &posting.account.purse {
                AccountKind::Available(user) => *user == transaction.buyer || *user == transaction.seller,
                AccountKind::Frozen(user) => *user == transaction.buyer,
                AccountKind::Commission => true,
                AccountKind::Outside => false,
            };
            prop_assert!(party, "{} got money of {}", posting.account, id);
            if !entries.contains(&&posting.entry) {
                entries.push(&posting.entry);
            }
        }
        let moves = match (book.hold(id), transaction.frozen_at) {
            (Some(hold), _) => 1 + usize::from(hold.end.is_some()),
            (None, _) => 0,
        };
        prop_assert_eq!(entries.len(), moves);
    }

    // One timer for each that has a deadline, and no other.
    let mut timers: Vec<_> = book.timers().collect();
    let mut due: Vec<_> = book.transactions().filter_map(|t| Some((t.id, t.due?.deadline, t.due?.at))).collect();
    timers.sort();
    due.sort();
    prop_assert_eq!(timers, due);

    // No limit of a seller is passed, whatever the sales have come to.
    let mut sold: BTreeMap<(&str, i64), u32> = BTreeMap::new();
    for transaction in book.transactions().filter(|transaction| transaction.counted) {
        let offer = book.capability(&transaction.tenant, &transaction.capability).unwrap();
        let at = transaction.created_at.0;
        for (limit, ms) in [(offer.terms.daily_limit, 86_400_000), (offer.terms.rate_limit_per_min, 60_000)] {
            let Some(limit) = limit else { continue };
            let sold = sold.entry((offer.id.as_str(), at.div_euclid(ms))).or_default();
            *sold += 1;
            prop_assert!(*sold <= limit, "{} was sold {} times", offer.id, sold);
        }
    }

    for (user, day, spent) in bazaar.spent() {
        prop_assert!(spent <= LIMITS.daily, "{} spent {} on day {}", user, spent, day);
    }
    prop_assert!(bazaar.marks.values().all(|uses| *uses == 1), "a token was used twice");
    let differences = book.verify();
    prop_assert!(differences.is_empty(), "{:?}", differences);
    Ok(())
}

fn reads_back<R: Row + PartialEq + std::fmt::Debug>(row: &R) -> TestCaseResult {
    prop_assert_eq!(&R::from_row(&row.to_row()).unwrap(), row);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn any_sequence_keeps_the_invariants(
        auto_freeze: bool,
        rate in prop::sample::select(vec!["0", "0.10", "0.333333", "1"]),
        ops in ops(100),
    ) {
        let mut bazaar = Bazaar::new(auto_freeze, rate);
        let mut memory = Memory::default();
        check(&bazaar, &mut memory)?;
        for op in ops {
            let before = bazaar.book.clone();
            let done = bazaar.run(&op);
            if let Err(refused) = &done {
                prop_assert_eq!(&before, &bazaar.book, "{:?} was refused with {:?} and changed something", op, refused);
            }
            check(&bazaar, &mut memory)?;
        }
        // Stored rows read back as they were.
        bazaar.book.accounts().try_for_each(reads_back)?;
        bazaar.book.journal().iter().try_for_each(reads_back)?;
        bazaar.book.holds().try_for_each(reads_back)?;
        bazaar.book.transactions().try_for_each(reads_back)?;
    }

    /// However it stands: time alone brings every purchase with money in it to an end, and all frozen money back.
    #[test]
    fn no_money_stays_frozen_for_ever(auto_freeze: bool, ops in ops(80)) {
        let mut bazaar = Bazaar::new(auto_freeze, "0.10");
        for op in &ops {
            let _ = bazaar.run(op);
        }
        for _ in 0..4 {
            let _ = bazaar.run(&Op::Later(40 * 86_400_000));
            let _ = bazaar.run(&Op::Fire);
        }
        prop_assert_eq!(bazaar.book.timers().count(), 0);
        prop_assert!(bazaar.book.holds().all(|hold| hold.end.is_some()));
        let frozen = bazaar.book.accounts().filter(|account| matches!(account.id.purse, AccountKind::Frozen(_)));
        prop_assert!(frozen.into_iter().all(|account| account.balance == Ut::ZERO));
        prop_assert!(bazaar.book.verify().is_empty());
    }
}

/// The sequences are not all refused: what is checked above does happen.
#[test]
fn the_sequences_reach_every_state_and_most_refusals() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for round in 0..300 {
        let mut bazaar = Bazaar::new(round % 2 == 0, "0.10");
        for op in ops(100).new_tree(&mut runner).unwrap().current() {
            if let Err(refused) = bazaar.run(&op) {
                let name = format!("{refused:?}");
                *seen.entry(name.split([' ', '(', '{']).next().unwrap().to_owned()).or_default() += 1;
            }
        }
        for transaction in bazaar.book.transactions() {
            *seen.entry(transaction.status.name().to_owned()).or_default() += 1;
            *seen.entry(transaction.decision_source.name().to_owned()).or_default() += 1;
        }
    }
    let least = |name: &str| assert!(seen.get(name).copied().unwrap_or(0) >= 10, "{name}: {seen:#?}");
    Status::ALL.iter().for_each(|status| least(status.name()));
    for name in ["agent_autonomous", "user_confirmed", "user_manual", "platform_auto"] {
        least(name);
    }
    for name in [
        "NotParty",
        "WrongActor",
        "WrongState",
        "ConfirmationPending",
        "Token",
        "Insufficient",
        "OwnCapability",
        "NotOnSale",
        "NotDue",
        "Changed",
        "Quota",
    ] {
        least(name);
    }
    // The ledger's own last line of defence is never needed: the rules come first.
    assert_eq!(seen.get("Ledger"), None);
}
