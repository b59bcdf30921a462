//! Records of products: found by key and by list, changed by compare-and-set.

use std::sync::Arc;

use futures_util::future::join_all;
use model::ports::store::{Commit, Conflict, Outcome};
use model::{Expect, Listed, Record, RecordChange, RecordPage, RecordQuery};

use super::Factory;
use super::kit::{DynStore, commit, conflict, done, id, more, opening};

fn put(key: &str, expect: Expect, body: &str, lists: &[(&str, i64)]) -> RecordChange {
    let lists = lists.iter().map(|(list, rank)| Listed { list: (*list).into(), rank: *rank }).collect();
    RecordChange::Put { kind: "k".into(), key: key.into(), expect, body: body.to_owned().into(), lists }
}

fn remove(key: &str, expect: Expect) -> RecordChange {
    RecordChange::Remove { kind: "k".into(), key: key.into(), expect }
}

fn leave(key: &str, expect: Expect) -> RecordChange {
    RecordChange::Leave { kind: "k".into(), key: key.into(), expect }
}

fn of(changes: impl IntoIterator<Item = RecordChange>) -> Commit {
    Commit { records: changes.into_iter().collect(), ..Commit::default() }
}

fn kept(key: &str, version: u64, body: &str) -> Record {
    Record { kind: "k".into(), key: key.into(), version, body: body.to_owned().into() }
}

async fn find(store: &DynStore, key: &str) -> Option<Record> {
    store.record("k".into(), key.into()).await.unwrap()
}

fn query(list: &str) -> RecordQuery {
    RecordQuery { kind: "k".into(), list: list.into(), after: None, skip: 0, limit: 100, count: true }
}

async fn page(store: &DynStore, query: RecordQuery) -> RecordPage {
    store.records(query).await.unwrap()
}

async fn keys(store: &DynStore, list: &str) -> Vec<String> {
    page(store, query(list)).await.records.iter().map(|(record, _)| record.key.to_string()).collect()
}

fn met(version: u64) -> Conflict {
    Conflict::Record("k".into(), "a".into(), version)
}

pub(super) async fn a_record_is_found_by_its_key(factory: &dyn Factory) {
    let store = factory.open().await;
    assert_eq!(find(&store, "a").await, None);
    done(&store, of([put("a", Expect::Absent, "one", &[]), put("b", Expect::Any, "two", &[])])).await;
    assert_eq!(find(&store, "a").await, Some(kept("a", 1, "one")));
    assert_eq!(find(&store, "b").await, Some(kept("b", 1, "two")));
    assert_eq!(store.record("other".into(), "a".into()).await.unwrap(), None);
    assert_eq!(store.health().await.unwrap().records, 2);
}

pub(super) async fn a_record_changes_only_as_expected(factory: &dyn Factory) {
    let store = factory.open().await;
    assert_eq!(conflict(store.commit(of([put("a", Expect::Version(1), "", &[])])).await), met(0));
    done(&store, of([put("a", Expect::Absent, "one", &[])])).await;
    assert_eq!(conflict(store.commit(of([put("a", Expect::Absent, "", &[])])).await), met(1));
    done(&store, of([put("a", Expect::Version(1), "two", &[])])).await;
    assert_eq!(conflict(store.commit(of([put("a", Expect::Version(1), "", &[])])).await), met(2));
    assert_eq!(conflict(store.commit(of([remove("a", Expect::Version(1))])).await), met(2));
    assert_eq!(conflict(store.commit(of([remove("a", Expect::Absent)])).await), met(2));
    assert_eq!(find(&store, "a").await, Some(kept("a", 2, "two")));
    done(&store, of([remove("a", Expect::Version(2))])).await;
    assert_eq!(find(&store, "a").await, None);
    done(&store, of([remove("a", Expect::Any), put("a", Expect::Absent, "anew", &[])])).await;
    assert_eq!(find(&store, "a").await, Some(kept("a", 1, "anew")));
}

pub(super) async fn a_record_that_is_left_alone_is_what_a_commit_rests_on(factory: &dyn Factory) {
    let store = factory.open().await;
    done(&store, of([put("a", Expect::Absent, "one", &[("l", 1)])])).await;
    done(&store, of([leave("a", Expect::Version(1)), leave("b", Expect::Absent), put("c", Expect::Absent, "", &[])]))
        .await;
    assert_eq!(find(&store, "a").await, Some(kept("a", 1, "one")), "it has not changed");
    assert_eq!(keys(&store, "l").await, ["a"], "nor where it is listed");
    done(&store, of([put("a", Expect::Any, "two", &[])])).await;
    assert_eq!(
        conflict(store.commit(of([leave("a", Expect::Version(1)), put("d", Expect::Any, "", &[])])).await),
        met(2)
    );
    assert_eq!(conflict(store.commit(of([put("d", Expect::Any, "", &[]), leave("a", Expect::Absent)])).await), met(2));
    assert_eq!(find(&store, "d").await, None);
    // Earlier changes of the same commit count.
    done(&store, of([put("a", Expect::Version(2), "three", &[]), leave("a", Expect::Version(3))])).await;
    done(&store, of([remove("a", Expect::Any), leave("a", Expect::Absent)])).await;
    assert_eq!(find(&store, "a").await, None);
}

pub(super) async fn changes_of_records_in_one_commit_see_each_other(factory: &dyn Factory) {
    let store = factory.open().await;
    done(
        &store,
        of([
            put("a", Expect::Absent, "one", &[("l", 1)]),
            put("a", Expect::Version(1), "two", &[("l", 2)]),
            put("b", Expect::Absent, "x", &[("l", 3)]),
            remove("b", Expect::Version(1)),
        ]),
    )
    .await;
    assert_eq!(find(&store, "a").await, Some(kept("a", 2, "two")));
    assert_eq!(find(&store, "b").await, None);
    assert_eq!(keys(&store, "l").await, ["a"]);
    let twice = of([put("c", Expect::Absent, "", &[]), put("c", Expect::Absent, "", &[])]);
    assert!(matches!(store.commit(twice).await, Outcome::Conflict(Conflict::Record(_, _, 1))));
    assert_eq!(find(&store, "c").await, None);
    assert_eq!(store.health().await.unwrap().records, 1);
}

pub(super) async fn of_many_who_change_one_record_one_wins(factory: &dyn Factory) {
    let store = factory.open().await;
    done(&store, of([put("a", Expect::Absent, "", &[])])).await;
    let commits = (0..50).map(|n| store.commit(of([put("a", Expect::Version(1), &n.to_string(), &[])])));
    let outcomes = join_all(commits).await;
    let winners: Vec<usize> = (0..50).filter(|n| outcomes[*n] == Outcome::Done).collect();
    let [winner] = winners[..] else { panic!("{} commits won", winners.len()) };
    assert_eq!(find(&store, "a").await, Some(kept("a", 2, &winner.to_string())));
}

pub(super) async fn a_record_changes_with_its_task_or_not_at_all(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = id();
    done(&store, Commit { records: vec![put("a", Expect::Absent, "one", &[])], ..commit([opening(task, 1)]) }).await;
    // The append is refused, and with it the record.
    let late = Commit { records: vec![put("a", Expect::Version(1), "two", &[])], ..commit([more(task, 7, 1)]) };
    assert!(matches!(store.commit(late).await, Outcome::Conflict(Conflict::Seq(..))));
    // And the other way round.
    let wrong = Commit { records: vec![put("a", Expect::Version(9), "two", &[])], ..commit([more(task, 1, 1)]) };
    assert_eq!(conflict(store.commit(wrong).await), met(1));
    assert_eq!(find(&store, "a").await, Some(kept("a", 1, "one")));
    super::kit::has(&store, task, 1).await;
    // It outlives its task: a product says itself when it forgets.
    assert!(store.remove(task).await.unwrap());
    assert_eq!(find(&store, "a").await, Some(kept("a", 1, "one")));
}

pub(super) async fn a_list_of_records_is_highest_rank_first(factory: &dyn Factory) {
    let store = factory.open().await;
    let places = [("a", 2), ("b", 3), ("c", 2), ("d", i64::MIN), ("e", i64::MAX), ("f", -1)];
    let puts = places.map(|(key, rank)| put(key, Expect::Absent, key, &[("l", rank), ("other", 0)]));
    done(&store, of(puts)).await;
    assert_eq!(keys(&store, "l").await, ["e", "b", "c", "a", "f", "d"]);
    assert_eq!(keys(&store, "other").await, ["f", "e", "d", "c", "b", "a"]);
    assert_eq!(keys(&store, "none").await, [""; 0]);
    let page = page(&store, query("l")).await;
    assert_eq!((page.total, page.more), (Some(6), false));
    assert_eq!(page.records[1], (kept("b", 1, "b"), 3));
}

pub(super) async fn a_walk_of_records_sees_everything_once(factory: &dyn Factory) {
    let store = factory.open().await;
    let puts = (0..30).map(|n| put(&format!("{n:02}"), Expect::Absent, "", &[("l", n % 4)]));
    done(&store, of(puts)).await;
    let whole = keys(&store, "l").await;
    let (mut walked, mut after) = (Vec::new(), None);
    loop {
        let next = page(&store, RecordQuery { after, limit: 7, count: false, ..query("l") }).await;
        assert_eq!(next.total, None);
        after = next.records.last().map(|(record, rank)| (*rank, record.key.clone()));
        walked.extend(next.records.into_iter().map(|(record, _)| record.key.to_string()));
        if !next.more {
            break;
        }
    }
    assert_eq!(walked, whole);
    for skip in [0, 7, 25, 30, 99] {
        let some = page(&store, RecordQuery { skip, limit: 7, ..query("l") }).await;
        let found: Vec<&str> = some.records.iter().map(|(record, _)| &*record.key).collect();
        let rest: Vec<&str> = whole.iter().map(String::as_str).skip(skip as usize).collect();
        assert_eq!(found, rest[..rest.len().min(7)]);
        assert_eq!((some.total, some.more), (Some(30), rest.len() > 7));
    }
}

pub(super) async fn a_record_is_in_the_lists_it_was_last_put_in(factory: &dyn Factory) {
    let store = factory.open().await;
    done(&store, of([put("a", Expect::Absent, "", &[("x", 1), ("y", 1)]), put("b", Expect::Absent, "", &[("x", 2)])]))
        .await;
    assert_eq!(keys(&store, "x").await, ["b", "a"]);
    done(&store, of([put("a", Expect::Version(1), "", &[("x", 3), ("z", 1)])])).await;
    assert_eq!(keys(&store, "x").await, ["a", "b"]);
    assert_eq!(keys(&store, "y").await, [""; 0]);
    assert_eq!(keys(&store, "z").await, ["a"]);
    done(&store, of([remove("a", Expect::Any)])).await;
    assert_eq!(keys(&store, "x").await, ["b"]);
    assert_eq!(keys(&store, "z").await, [""; 0]);
}

pub(super) async fn keys_of_records_are_any_text(factory: &dyn Factory) {
    let store = factory.open().await;
    let long = "x".repeat(500);
    let odd = ["", " ", "A", "a", "\u{e9}", "\u{0}", "\u{10ffff}", "z", long.as_str()];
    done(&store, of(odd.iter().map(|key| put(key, Expect::Absent, key, &[(key, 0), ("all", 0)])))).await;
    let mut order: Vec<String> = odd.iter().map(|key| (*key).to_owned()).collect();
    order.sort_unstable_by(|a, b| b.as_bytes().cmp(a.as_bytes()));
    assert_eq!(keys(&store, "all").await, order, "in the order of their bytes");
    for key in odd {
        assert_eq!(find(&store, key).await, Some(kept(key, 1, key)));
        assert_eq!(keys(&store, key).await, [key]);
    }
}

pub(super) async fn a_large_record_comes_back_whole(factory: &dyn Factory) {
    let store = factory.open().await;
    let body = "0123456789abcdef".repeat(40_000);
    done(&store, of([put("a", Expect::Absent, &body, &[("l", 1)])])).await;
    assert_eq!(find(&store, "a").await, Some(kept("a", 1, &body)));
}

pub(super) async fn after_reopening_records_are_there(factory: &dyn Factory) {
    let store = factory.open().await;
    done(&store, of([put("a", Expect::Absent, "one", &[("l", 5)])])).await;
    let Some(store) = factory.reopen(store).await else { return };
    assert_eq!(page(&store, query("l")).await.records, [(kept("a", 1, "one"), 5)]);
    let key: Arc<str> = "a".into();
    assert_eq!(store.record("k".into(), key).await.unwrap(), Some(kept("a", 1, "one")));
    assert_eq!(store.health().await.unwrap().records, 1);
}

pub(super) async fn records_are_counted_by_the_beginning_of_their_kind(factory: &dyn Factory) {
    let store = factory.open().await;
    let kinds = ["m", "m/a", "m/a", "m/b", "m/\u{e9}", "m/\u{10fffe}", "m0", "l/z", "M/a"];
    let rows = kinds.iter().enumerate().map(|(no, kind)| RecordChange::Put {
        kind: (*kind).into(),
        key: no.to_string().into(),
        expect: Expect::Absent,
        body: Default::default(),
        lists: Vec::new(),
    });
    done(&store, of(rows)).await;
    for (prefix, most, count) in
        [("m/", 100, 5), ("m/", 3, 3), ("m/", 0, 0), ("m", 100, 7), ("m/a", 100, 2), ("n", 100, 0), ("", 100, 9)]
    {
        assert_eq!(store.count_records(prefix.into(), most).await.unwrap(), count, "{prefix:?}, at most {most}");
    }
}
