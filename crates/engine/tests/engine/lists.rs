//! Lists: newest status first, in pages that fit together.

use model::ports::agent::EndState;
use model::{ContextId, Kind, List, State, TaskId};

use crate::common::{
    Adverbs, Puppet, at, begin, echo, kind, of, on_both_stores, quick, say, scripted, task_of, task_when,
};
use engine::{Engine, TaskListing};

async fn walk(engine: &Engine, list: List) -> (Vec<TaskId>, Vec<TaskListing>) {
    let mut pages = Vec::new();
    let mut list = list;
    loop {
        let page = engine.list(&at("scripted"), &list).await.unwrap();
        let token = page.next_page_token.clone();
        pages.push(page);
        if token.is_empty() {
            let ids = pages.iter().flat_map(|page| page.tasks.iter().map(|task| task.id)).collect();
            return (ids, pages);
        }
        list.page_token = Some(token);
    }
}

#[tokio::test]
async fn a_walk_through_the_pages_gives_every_task_once_newest_first() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        let mut ids = Vec::new();
        for i in 0..23 {
            let context = format!("c{}", i % 2);
            ids.push(task_of(engine.send(&at("scripted"), say("complete").within(&context)).await).id);
        }
        ids.reverse();
        for page_size in [1, 5, 22, 23, 24, 100] {
            let (walked, pages) = walk(&engine, List { page_size: Some(page_size), ..List::default() }).await;
            assert_eq!(walked, ids, "by {page_size}");
            assert!(pages.iter().all(|page| page.total == 23 && page.page_size == page_size));
            assert_eq!(pages.len(), 23_usize.div_ceil(page_size as usize));
        }
        let of_context = List { context: Some(ContextId::from("c1")), page_size: Some(4), ..List::default() };
        let (walked, pages) = walk(&engine, of_context).await;
        assert_eq!(walked, ids.iter().copied().skip(1).step_by(2).collect::<Vec<_>>());
        assert!(pages.iter().all(|page| page.total == 11));
        let whole = engine.list(&at("scripted"), &List::default()).await.unwrap();
        assert_eq!((whole.page_size, whole.tasks.len()), (50, 23));
    })
    .await;
}

#[tokio::test]
async fn filters_count_what_they_match() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        for text in ["complete", "fail", "ask", "ask", "message: hidden", "hang"] {
            engine.send(&at("scripted"), say(text).at_most_ms(50)).await.unwrap();
        }
        for (state, total) in [
            (Some(State::Completed), 1),
            (Some(State::Failed), 1),
            (Some(State::InputRequired), 2),
            (Some(State::Working), 1),
            (Some(State::Rejected), 0),
            (None, 5),
        ] {
            let listing = engine.list(&at("scripted"), &List { state, ..List::default() }).await.unwrap();
            assert_eq!((listing.total, listing.tasks.len() as u64), (total, total), "{state:?}");
        }
        let all = engine.list(&at("scripted"), &List::default()).await.unwrap();
        let since = all.tasks[1].status.at;
        let newer = engine.list(&at("scripted"), &List { since: Some(since), ..List::default() }).await.unwrap();
        let expected = all.tasks.iter().filter(|task| task.status.at >= since).count() as u64;
        assert_eq!(newer.total, expected);
    })
    .await;
}

#[tokio::test]
async fn a_token_is_good_for_its_own_list_only() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted(), echo()]).await;
        for _ in 0..4 {
            task_of(engine.send(&at("scripted"), say("complete").within("c")).await);
        }
        let by_two = |list: List| List { page_size: Some(2), ..list };
        let token = engine.list(&at("scripted"), &by_two(List::default())).await.unwrap().next_page_token;
        assert!(!token.is_empty());
        let with = |token: &str| by_two(List { page_token: Some(token.into()), ..List::default() });
        engine.list(&at("scripted"), &with(&token)).await.unwrap();
        for bad in ["x", "!!!", &token[1..], &format!("{token}A"), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"] {
            assert_eq!(kind(engine.list(&at("scripted"), &with(bad)).await), Kind::InvalidParams, "{bad}");
        }
        for other in [
            List { state: Some(State::Completed), ..with(&token) },
            List { context: Some(ContextId::from("c")), ..with(&token) },
            List { since: Some(model::Time(1)), ..with(&token) },
        ] {
            assert_eq!(kind(engine.list(&at("scripted"), &other).await), Kind::InvalidParams);
        }
        for place in [at("echo"), of("red", "ann", "scripted")] {
            assert_eq!(kind(engine.list(&place, &with(&token)).await), Kind::InvalidParams);
        }
        assert_eq!(engine.list(&at("scripted"), &with("")).await.unwrap().total, 4, "an empty token is none");
    })
    .await;
}

#[tokio::test]
async fn a_page_has_a_size_within_limits() {
    on_both_stores(async |mut house| {
        let engine = house.start([scripted()]).await;
        for page_size in [0, 101, u32::MAX] {
            let list = List { page_size: Some(page_size), ..List::default() };
            assert_eq!(kind(engine.list(&at("scripted"), &list).await), Kind::InvalidParams);
        }
        let empty = engine.list(&at("scripted"), &List::default()).await.unwrap();
        assert_eq!((empty.tasks.len(), empty.total, empty.next_page_token.as_str()), (0, 0, ""));
    })
    .await;
}

#[tokio::test]
async fn a_page_ends_early_when_it_is_heavy_and_the_walk_misses_nothing() {
    on_both_stores(async |mut house| {
        let limits = model::Limits { page_bytes: 10_000, ..quick() };
        let engine = house.start_with([scripted()], limits).await;
        let mut ids = Vec::new();
        for i in 0..12 {
            // One of them is larger than a page by itself.
            let text = "x".repeat(if i == 5 { 30_000 } else { 1_000 });
            ids.push(task_of(engine.send(&at("scripted"), say(&text)).await).id);
        }
        ids.reverse();
        let (walked, pages) = walk(&engine, List::default()).await;
        assert_eq!(walked, ids);
        assert!(pages.len() > 3, "{}", pages.len());
        assert!(pages.iter().all(|page| !page.tasks.is_empty() && page.total == 12 && page.page_size == 50));
    })
    .await;
}

#[tokio::test]
async fn a_task_whose_status_changes_during_a_walk_leads_the_next_and_the_others_are_walked_once() {
    on_both_stores(async |mut house| {
        let puppet = Puppet::new();
        let engine = house.start([puppet.clone() as _]).await;
        let (mut ids, mut cues) = (Vec::new(), Vec::new());
        for i in 0..6 {
            ids.push(begin(&engine, "puppet", say(&i.to_string())).await.id);
            cues.push(puppet.turn().await);
        }
        ids.reverse();
        let list = List { page_size: Some(2), ..List::default() };
        let first = engine.list(&at("puppet"), &list).await.unwrap();
        // Lists are ordered by milliseconds.
        let newest = first.tasks[0].status.at;
        crate::common::until(async || jiff::Timestamp::now().as_millisecond() > newest.0).await;
        cues.remove(1).ends(EndState::Completed, "");
        task_when(&engine, ids[4], |task| task.core.is_settled()).await;
        let mut rest = Vec::new();
        let mut token = first.next_page_token.clone();
        while !token.is_empty() {
            let page = List { page_token: Some(token), ..list.clone() };
            let page = engine.list(&at("puppet"), &page).await.unwrap();
            rest.extend(page.tasks.iter().map(|task| task.id));
            token = page.next_page_token;
        }
        assert_eq!(rest, [ids[2], ids[3], ids[5]]);
        assert_eq!(engine.list(&at("puppet"), &list).await.unwrap().tasks[0].id, ids[4]);
    })
    .await;
}
