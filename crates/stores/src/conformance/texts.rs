//! Texts that are found by their words: the same in every store, in the same order.

use std::sync::Arc;

use model::ports::store::{Commit, Outcome};
use model::{Expect, RecordChange, TextChange, TextPage, TextPlace, TextQuery};

use super::Factory;
use super::kit::{DynStore, conflict, done};
use super::random::Random;

fn put(shelf: &str, id: &str, title: &str, body: &str) -> TextChange {
    TextChange::Put { shelf: shelf.into(), id: id.into(), title: title.into(), body: body.into() }
}

fn remove(shelf: &str, id: &str) -> TextChange {
    TextChange::Remove { shelf: shelf.into(), id: id.into() }
}

fn of(changes: impl IntoIterator<Item = TextChange>) -> Commit {
    Commit { texts: changes.into_iter().collect(), ..Commit::default() }
}

fn query(shelf: &str, words: &str) -> TextQuery {
    TextQuery { shelf: shelf.into(), words: words.into(), after: None, limit: 100, count: true }
}

async fn search(store: &DynStore, query: TextQuery) -> TextPage {
    store.search(query).await.unwrap()
}

/// The ids found; a bar separates matches of the title alone from the others.
async fn found(store: &DynStore, words: &str) -> String {
    let page = search(store, query("s", words)).await;
    assert_eq!(page.total, Some(page.found.len() as u64), "{words}");
    assert!(!page.more);
    let of = |elsewhere: bool| {
        let ids = page.found.iter().filter(|place| place.elsewhere == elsewhere).map(|place| &*place.id);
        ids.collect::<Vec<_>>().join(" ")
    };
    format!("{}|{}", of(false), of(true))
}

async fn hats(factory: &dyn Factory) -> DynStore {
    let store = factory.open().await;
    done(
        &store,
        of([
            put("s", "c", "Sun hat", "wide, of straw"),
            put("s", "a", "Straw hat", "for the sun"),
            put("s", "b", "Umbrella", "hats off: this keeps rain and sun away"),
            put("s", "d", "Été à Zürich", "日本 2026 x_y, extraordinarily"),
            put("other", "a", "Sun hat", "elsewhere"),
        ]),
    )
    .await;
    store
}

pub(super) async fn a_text_is_found_by_the_beginnings_of_its_words(factory: &dyn Factory) {
    let store = hats(factory).await;
    for (words, expected) in [
        ("hat", "a c|b"),
        ("HAT", "a c|b"),
        ("hats", "|b"),
        ("h", "a c|b"),
        ("sun", "c|a b"),
        ("sun hat", "c|a b"),
        ("hat straw", "a|c"),
        ("rain, umbr", "|b"),
        ("nothing", "|"),
        ("sun nothing", "|"),
        ("été", "d|"),
        ("ÉTÉ zür", "d|"),
        ("ete", "|"),
        ("日", "|d"),
        ("x", "|d"),
        ("x_y", "|d"),
        ("202", "|d"),
        ("extraordinar", "|d"),
        ("extraordinari zür", "|d"),
        ("extraordinarily", "|d"),
        ("extraordinarilyx", "|"),
        ("extraordinarx", "|"),
        ("elsewhere", "|"),
    ] {
        assert_eq!(found(&store, words).await, expected, "{words}");
    }
}

pub(super) async fn no_words_find_everything_in_order(factory: &dyn Factory) {
    let store = hats(factory).await;
    assert_eq!(found(&store, "").await, "a b c d|");
    assert_eq!(found(&store, " *, ").await, "a b c d|");
    assert_eq!(search(&store, query("nobody's", "")).await, TextPage { total: Some(0), ..TextPage::default() });
    let uncounted = TextQuery { count: false, limit: 0, ..query("s", "") };
    assert_eq!(search(&store, uncounted).await, TextPage { found: Vec::new(), more: true, total: None });
}

/// Operators of a query language are plain words here.
pub(super) async fn signs_in_a_question_are_no_signs(factory: &dyn Factory) {
    let store = hats(factory).await;
    for words in
        ["\"hat", "hat*", "(hat", "title:hat", "hat:*", "'hat'", "hat & ", "-hat", "NOT", "hat\0", "\\", "^hat"]
    {
        let page = search(&store, query("s", words)).await;
        let plain: Vec<String> = model::text::asked(words);
        assert_eq!(page, search(&store, query("s", &plain.join(" "))).await, "{words:?}");
    }
    assert_eq!(found(&store, "hat OR nothing").await, "|");
}

pub(super) async fn a_text_that_changes_is_found_by_its_new_words(factory: &dyn Factory) {
    let store = hats(factory).await;
    done(&store, of([put("s", "a", "Cap", "of wool"), put("s", "a", "Cap", "of cotton")])).await;
    assert_eq!(found(&store, "straw").await, "|c");
    assert_eq!((found(&store, "wool").await, found(&store, "cap").await), ("|".to_owned(), "a|".to_owned()));
    done(&store, of([put("s", "a", "Cap", "of cotton")])).await;
    assert_eq!(found(&store, "cotton").await, "|a");
    done(&store, of([remove("s", "a"), remove("s", "never")])).await;
    assert_eq!(found(&store, "cap").await, "|");
    assert_eq!(found(&store, "").await, "b c d|");
    done(&store, of([put("s", "a", "Back", ""), remove("s", "b"), put("s", "b", "Back", "")])).await;
    assert_eq!(found(&store, "back").await, "a b|");
    assert_eq!(search(&store, query("other", "sun")).await.total, Some(1));
}

pub(super) async fn a_text_changes_with_its_record_or_not_at_all(factory: &dyn Factory) {
    let store = hats(factory).await;
    let record =
        |expect| RecordChange::Put { kind: "k".into(), key: "a".into(), expect, body: "x".into(), lists: Vec::new() };
    let with = |expect, title: &str| Commit { records: vec![record(expect)], ..of([put("s", "a", title, "")]) };
    conflict(store.commit(with(Expect::Version(7), "Never")).await);
    assert_eq!((found(&store, "never").await, found(&store, "straw").await), ("|".to_owned(), "a|c".to_owned()));
    assert_eq!(store.commit(with(Expect::Absent, "Once")).await, Outcome::Done);
    assert_eq!(found(&store, "once").await, "a|");
}

pub(super) async fn a_walk_of_what_is_found_sees_everything_once(factory: &dyn Factory) {
    let store = factory.open().await;
    let changes = (0..100).map(|n| {
        let id = format!("{:02}", n * 7 % 100);
        let title = if n % 3 == 0 { "red hat" } else { "hat" };
        put("s", &id, title, if n % 3 == 1 { "red" } else { "blue" })
    });
    done(&store, of(changes)).await;
    for (words, total) in [("red hat", 67), ("hat", 100), ("", 100), ("red", 67), ("blue", 67)] {
        let whole = search(&store, query("s", words)).await;
        assert_eq!((whole.total, whole.found.len()), (Some(total), total as usize), "{words}");
        let mut sorted = whole.found.clone();
        sorted.sort();
        assert_eq!(sorted, whole.found);
        for limit in [1, 7, 100] {
            let (mut seen, mut after): (Vec<TextPlace>, Option<TextPlace>) = (Vec::new(), None);
            loop {
                let page = search(&store, TextQuery { after, limit, ..query("s", words) }).await;
                assert_eq!(page.total, Some(total));
                after = page.found.last().cloned();
                seen.extend(page.found);
                if !page.more {
                    break;
                }
            }
            assert_eq!(seen, whole.found, "{words} by {limit}");
        }
    }
}

/// The memory store is the model: every store finds the same as it does.
pub(super) async fn random_texts_are_found_as_in_the_memory_store(factory: &dyn Factory) {
    const WORDS: [&str; 8] = ["hat", "hats", "Sun", "sunny", "ÜBER", "ü", "7", "a-b"];
    let (store, model): (DynStore, DynStore) = (factory.open().await, Arc::new(crate::memory::MemoryStore::new()));
    let mut random = Random::from_environment();
    for _ in 0..60 {
        let mut changes = Vec::new();
        for _ in 0..random.below(4) {
            let mut some = |most| (0..random.below(most)).map(|_| WORDS[random.below(8)]).collect::<Vec<_>>().join(" ");
            let (title, body) = (some(3), some(5));
            let (shelf, id) = (["s", "t"][random.below(2)], format!("{}", random.below(12)));
            changes.push(if random.below(4) == 0 { remove(shelf, &id) } else { put(shelf, &id, &title, &body) });
        }
        done(&store, of(changes.clone())).await;
        done(&model, of(changes)).await;
        let words = (0..random.below(3)).map(|_| WORDS[random.below(8)]).collect::<Vec<_>>().join(" ");
        let query = TextQuery { limit: 1 + random.below(6) as u32, ..query("s", &words) };
        let expected = search(&model, query.clone()).await;
        assert_eq!(search(&store, query.clone()).await, expected, "{query:?}");
        if let Some(after) = expected.found.first().cloned() {
            let query = TextQuery { after: Some(after), ..query };
            assert_eq!(search(&store, query.clone()).await, search(&model, query).await);
        }
    }
}

pub(super) async fn after_reopening_texts_are_found(factory: &dyn Factory) {
    let store = hats(factory).await;
    done(&store, of([remove("s", "c")])).await;
    let Some(store) = factory.reopen(store).await else { return };
    assert_eq!(found(&store, "sun").await, "|a b");
    done(&store, of([put("s", "a", "Sunny", "")])).await;
    assert_eq!(found(&store, "sun").await, "a|b");
}
