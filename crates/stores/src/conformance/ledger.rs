//! The journal: entries that add up to nothing, accounts that stay above their floors.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use model::ports::store::{Commit, Conflict, Outcome};
use model::{Entry, Posting};
use uuid::Uuid;

use super::kit::{DynStore, at, commit, conflict, done, has, id, more, opening, refused};
use super::{Factory, Random};

fn posting(account: &str, amount: i64, floor: Option<i64>) -> Posting {
    Posting { account: account.into(), amount, floor }
}

/// Moves an amount; the giver must have it.
fn moves(from: &str, to: &str, amount: i64) -> Entry {
    entry([posting(from, -amount, Some(0)), posting(to, amount, None)])
}

/// Creates money, owed by an account outside.
fn issue(to: &str, amount: i64) -> Entry {
    entry([posting("outside", -amount, None), posting(to, amount, None)])
}

fn entry(postings: impl IntoIterator<Item = Posting>) -> Entry {
    let body = Bytes::from_static(b"{}");
    Entry { id: Uuid::now_v7(), at: at(1), body, postings: postings.into_iter().collect() }
}

fn of(entries: impl IntoIterator<Item = Entry>) -> Commit {
    Commit { entries: entries.into_iter().collect(), ..Commit::default() }
}

async fn on(store: &DynStore, account: &str) -> i64 {
    store.balances(vec![account.into()]).await.unwrap()[0]
}

fn too_little(account: &str, balance: i64) -> Conflict {
    Conflict::Funds(account.into(), balance)
}

pub(super) async fn an_entry_moves_an_amount(factory: &dyn Factory) {
    let store = factory.open().await;
    done(&store, of([issue("a", 100)])).await;
    done(&store, of([moves("a", "b", 30)])).await;
    let all: Vec<Arc<str>> = ["a", "b", "outside", "nobody"].map(Arc::from).to_vec();
    assert_eq!(store.balances(all).await.unwrap(), [70, 30, -100, 0]);
    assert_eq!(store.balances(Vec::new()).await.unwrap(), [0; 0]);
    assert_eq!(store.health().await.unwrap().entries, 2);
}

pub(super) async fn an_account_does_not_go_below_its_floor(factory: &dyn Factory) {
    let store = factory.open().await;
    assert_eq!(conflict(store.commit(of([moves("a", "b", 1)])).await), too_little("a", 0));
    done(&store, of([issue("a", 100)])).await;
    assert_eq!(conflict(store.commit(of([moves("a", "b", 101)])).await), too_little("a", 100));
    done(&store, of([moves("a", "b", 100)])).await;
    assert_eq!((on(&store, "a").await, on(&store, "b").await), (0, 100));
    // A floor may be anything.
    let overdraft = entry([posting("a", -50, Some(-50)), posting("b", 50, None)]);
    done(&store, of([overdraft])).await;
    let deeper = entry([posting("a", -1, Some(-50)), posting("b", 1, None)]);
    assert_eq!(conflict(store.commit(of([deeper])).await), too_little("a", -50));
    assert_eq!(store.health().await.unwrap().entries, 3);
}

pub(super) async fn entries_of_one_commit_see_each_other(factory: &dyn Factory) {
    let store = factory.open().await;
    done(&store, of([issue("a", 10), moves("a", "b", 10), moves("b", "c", 10)])).await;
    assert_eq!(on(&store, "c").await, 10);
    let commit = of([moves("c", "a", 6), moves("c", "b", 6)]);
    assert_eq!(conflict(store.commit(commit).await), too_little("c", 4));
    assert_eq!((on(&store, "a").await, on(&store, "b").await, on(&store, "c").await), (0, 0, 10));
}

pub(super) async fn an_entry_is_taken_once(factory: &dyn Factory) {
    let store = factory.open().await;
    let once = issue("a", 10);
    done(&store, of([once.clone()])).await;
    assert_eq!(conflict(store.commit(of([once.clone()])).await), Conflict::Entry(once.id));
    let twin = issue("b", 1);
    assert_eq!(conflict(store.commit(of([twin.clone(), twin.clone()])).await), Conflict::Entry(twin.id));
    assert_eq!((on(&store, "a").await, on(&store, "b").await), (10, 0));
}

pub(super) async fn an_unbalanced_entry_is_refused(factory: &dyn Factory) {
    let store = factory.open().await;
    let wrong = [
        entry([]),
        entry([posting("a", 0, None)]),
        entry([posting("a", 1, None), posting("b", 1, None)]),
        entry([posting("a", i64::MAX, None), posting("b", i64::MAX, None), posting("c", 2, None)]),
        entry([posting("a", 1, None), posting("a", -1, None)]),
    ];
    for entry in wrong {
        refused(store.commit(of([issue("a", 1), entry])).await);
    }
    assert_eq!(store.health().await.unwrap().entries, 0);
}

pub(super) async fn an_account_has_an_end(factory: &dyn Factory) {
    let store = factory.open().await;
    done(&store, of([issue("a", i64::MAX)])).await;
    // -(2^63 - 1) - 1 is still a number; on the other side there is no more room.
    assert_eq!(conflict(store.commit(of([issue("a", 1)])).await), too_little("a", i64::MAX));
    assert_eq!(on(&store, "a").await, i64::MAX);
}

pub(super) async fn money_moves_with_its_task_or_not_at_all(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    done(&store, Commit { entries: vec![issue("a", 10)], ..commit([opening(task, 1)]) }).await;
    let late = Commit { entries: vec![moves("a", "b", 1)], ..commit([more(task, 7, 1)]) };
    assert!(matches!(store.commit(late).await, Outcome::Conflict(Conflict::Seq(..))));
    let poor = Commit { entries: vec![moves("a", "b", 11)], ..commit([more(task, 1, 1)]) };
    assert_eq!(conflict(store.commit(poor).await), too_little("a", 10));
    assert_eq!(on(&store, "a").await, 10);
    has(&store, task, 1).await;
}

pub(super) async fn of_many_who_take_the_last_some_get_it(factory: &dyn Factory) {
    let store = factory.open().await;
    done(&store, of([issue("a", 50)])).await;
    let commits = (0..200).map(|n| store.commit(of([moves("a", &format!("b{}", n % 7), 1)])));
    let outcomes = join_all(commits).await;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Outcome::Done).count(), 50);
    assert!(outcomes.iter().all(|o| *o == Outcome::Done || *o == Outcome::Conflict(too_little("a", 0))));
    assert_eq!(on(&store, "a").await, 0);
    assert_eq!(store.health().await.unwrap().entries, 51);
}

pub(super) async fn a_statement_is_newest_first_with_balances(factory: &dyn Factory) {
    let store = factory.open().await;
    let entries = [issue("a", 100), moves("a", "b", 30), issue("c", 1), moves("b", "a", 5)];
    for entry in &entries {
        done(&store, of([entry.clone()])).await;
    }
    let lines = store.statement("a".into(), None, 10).await.unwrap();
    let seen: Vec<_> = lines.iter().map(|line| (line.id, line.amount, line.balance)).collect();
    assert_eq!(seen, [(entries[3].id, 5, 75), (entries[1].id, -30, 70), (entries[0].id, 100, 100)]);
    assert!(lines.is_sorted_by(|a, b| a.no > b.no));
    assert_eq!((lines[0].at, &lines[0].body[..]), (at(1), &b"{}"[..]));
    let rest = store.statement("a".into(), Some(lines[0].no), 1).await.unwrap();
    assert_eq!(rest, lines[1..2]);
    assert_eq!(store.statement("nobody".into(), None, 10).await.unwrap(), []);
}

pub(super) async fn the_journal_is_all_there_is(factory: &dyn Factory) {
    let store = factory.open().await;
    let entries: Vec<Entry> = (1..=9).map(|n| issue(&format!("a{n}"), n)).collect();
    for entry in &entries {
        done(&store, of([entry.clone()])).await;
    }
    let (mut read, mut after) = (Vec::new(), 0);
    loop {
        let page = store.journal(after, 4).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        assert!(page.is_sorted_by(|a, b| a.0 < b.0) && page[0].0 > after);
        after = *last;
        read.extend(page.into_iter().map(|(_, entry)| entry));
    }
    // Floors were for the commit.
    assert_eq!(read, entries);
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = store.accounts(after, 4).await.unwrap();
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        names.extend(page);
    }
    assert_eq!(names.len(), 10);
    assert!(names.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(names.iter().map(|(_, balance)| balance).sum::<i64>(), 0);
}

/// Under concurrent commits no amount is created or lost, and the journal adds up to the balances.
pub(super) async fn random_entries_at_once_keep_every_sum(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut random = Random::from_environment();
    for _ in 0..20 {
        let entries: Vec<Entry> = (0..25)
            .map(|_| {
                let (from, to) = (random.below(6), random.below(6));
                let amount = 1 + random.below(40) as i64;
                if from == to {
                    issue(&format!("a{to}"), amount)
                } else {
                    moves(&format!("a{from}"), &format!("a{to}"), amount)
                }
            })
            .collect();
        for outcome in join_all(entries.into_iter().map(|entry| store.commit(of([entry])))).await {
            assert!(matches!(outcome, Outcome::Done | Outcome::Conflict(Conflict::Funds(..))), "{outcome:?}");
        }
    }
    let balances = store.accounts(None, 100).await.unwrap();
    assert_eq!(balances.iter().map(|(_, balance)| balance).sum::<i64>(), 0);
    assert!(balances.iter().all(|(name, balance)| &**name == "outside" || *balance >= 0));
    let journal = store.journal(0, 10_000).await.unwrap();
    for (name, balance) in balances {
        let posted = journal.iter().flat_map(|(_, entry)| &entry.postings).filter(|posting| posting.account == name);
        assert_eq!(posted.map(|posting| posting.amount).sum::<i64>(), balance);
        let lines = store.statement(name.clone(), None, 10_000).await.unwrap();
        assert_eq!(lines.first().map(|line| line.balance), Some(balance));
        assert!(lines.windows(2).all(|two| two[0].balance - two[0].amount == two[1].balance));
    }
}

pub(super) async fn after_reopening_the_money_is_there(factory: &dyn Factory) {
    let store = factory.open().await;
    let first = issue("a", 10);
    done(&store, of([first.clone()])).await;
    let Some(store) = factory.reopen(store).await else { return };
    assert_eq!(on(&store, "a").await, 10);
    assert_eq!(conflict(store.commit(of([first.clone()])).await), Conflict::Entry(first.id));
    done(&store, of([moves("a", "b", 10)])).await;
    assert_eq!(store.statement("b".into(), None, 9).await.unwrap()[0].balance, 10);
    assert_eq!(store.health().await.unwrap().entries, 2);
}
