//! Lists: order, walks, filters, totals, views.

use std::collections::HashSet;

use futures_util::future::join_all;
use model::ports::store::{AliasWrite, Commit, IndexRow, ListQuery, Outcome, TaskQuery};
use model::{State, TaskId};

use super::kit::{DynStore, Say, at, commit, id, more, open, opening, page, put, query, row, total, view, walk};
use super::{Factory, Random};

/// Opens `n` tasks, one a millisecond, the newest last.
async fn fill(store: &DynStore, n: i64) -> Vec<TaskId> {
    let mut tasks = Vec::new();
    for n in 0..n {
        tasks.push(open(store, |a| a.is(State::Completed, at(n))).await);
    }
    tasks
}

fn reversed(mut tasks: Vec<TaskId>) -> Vec<TaskId> {
    tasks.reverse();
    tasks
}

pub(super) async fn a_list_is_newest_status_first(factory: &dyn Factory) {
    let store = factory.open().await;
    let (b, c, a) = (
        open(&store, |o| o.is(State::Failed, at(20))).await,
        open(&store, |o| o.is(State::Working, at(10))).await,
        open(&store, |o| o.is(State::Completed, at(30))).await,
    );
    let page = page(&store, &query(10)).await;
    assert_eq!(page.tasks.iter().map(|(task, _)| *task).collect::<Vec<_>>(), [a, b, c]);
    assert_eq!(page.tasks.iter().map(|(_, cursor)| cursor.at).collect::<Vec<_>>(), [at(30), at(20), at(10)]);
    assert_eq!((page.more, page.total), (false, Some(3)));
}

pub(super) async fn equal_times_are_ordered_by_birth(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut tasks = Vec::new();
    for n in 0..20 {
        let state = State::ALL[n % State::ALL.len()];
        tasks.push(open(&store, |a| a.is(state, at(5))).await);
    }
    let newest_first = reversed(tasks);
    for limit in [1, 3, 20] {
        assert_eq!(walk(&store, &query(limit)).await, newest_first);
    }
}

pub(super) async fn a_chunk_does_not_move_a_task(factory: &dyn Factory) {
    let store = factory.open().await;
    let old = open(&store, |a| a.is(State::Working, at(1))).await;
    let new = open(&store, |a| a.is(State::Working, at(2))).await;
    put(&store, more(old, 1, 1)).await;
    // Neither does a row that says the same again.
    put(&store, more(old, 2, 1).is(State::Working, at(1))).await;
    assert_eq!(walk(&store, &query(10)).await, [new, old]);
    assert_eq!(total(&store, &query(10)).await, 2);
}

pub(super) async fn a_status_change_moves_a_task_to_the_front(factory: &dyn Factory) {
    let store = factory.open().await;
    let tasks = fill(&store, 5).await;
    let moved = open(&store, |a| a.is(State::Working, at(-1))).await;
    assert_eq!(walk(&store, &query(10)).await.last(), Some(&moved));
    put(&store, more(moved, 1, 1).is(State::Working, at(50))).await;
    assert_eq!(walk(&store, &query(10)).await[0], moved);
    put(&store, more(moved, 2, 1).is(State::Completed, at(60))).await;
    let list = walk(&store, &query(2)).await;
    assert_eq!((list[0], list.len()), (moved, tasks.len() + 1));
}

pub(super) async fn a_walk_sees_everything_once(factory: &dyn Factory) {
    let store = factory.open().await;
    let tasks = reversed(fill(&store, 53).await);
    for limit in [1, 7, 53, 100] {
        assert_eq!(walk(&store, &query(limit)).await, tasks);
    }
    let first = page(&store, &query(10)).await;
    assert_eq!((first.more, first.total, first.tasks.len()), (true, Some(53), 10));
    // The total is that of the list, wherever the page.
    let next = page(&store, &ListQuery { after: first.tasks.last().map(|(_, c)| *c), ..query(10) }).await;
    assert_eq!(next.total, Some(53));
    assert_eq!(page(&store, &ListQuery { count: false, ..query(10) }).await.total, None);
}

pub(super) async fn a_walk_under_changes_never_skips_or_repeats_an_unchanged_task(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut random = Random::from_environment();
    let mut tasks: Vec<(TaskId, u64)> = Vec::new();
    for n in 0..120 {
        tasks.push((open(&store, |a| a.is(State::Working, at(n))).await, 1));
    }
    let mut clock = 1_000;
    for _ in 0..5 {
        let mut changed = HashSet::new();
        let mut seen = Vec::new();
        let mut list = query(7);
        loop {
            let page = page(&store, &list).await;
            list.after = page.tasks.last().map(|(_, cursor)| *cursor);
            seen.extend(page.tasks.iter().map(|(task, _)| *task));
            if !page.more {
                break;
            }
            // Between two pages some move to the front, one is born.
            for _ in 0..random.below(4) {
                let known = tasks.len();
                let (task, seq) = &mut tasks[random.below(known)];
                clock += 1;
                put(&store, more(*task, *seq, 1).is(State::Working, at(clock))).await;
                *seq += 1;
                changed.insert(*task);
            }
            clock += 1;
            let born = open(&store, |a| a.is(State::Working, at(clock))).await;
            changed.insert(born);
            tasks.push((born, 1));
        }
        let once: HashSet<TaskId> = seen.iter().copied().collect();
        assert_eq!(once.len(), seen.len(), "a task was repeated");
        for (task, _) in &tasks {
            assert!(changed.contains(task) || once.contains(task), "an unchanged task was skipped");
        }
    }
}

pub(super) async fn filters_choose_by_context_state_and_time(factory: &dyn Factory) {
    let store = factory.open().await;
    let mut facts = Vec::new();
    for n in 0..48_usize {
        let (context, state, time) = (["c", "d", "e"][n % 3], State::ALL[n % 4], at((n / 5) as i64));
        facts.push((open(&store, |a| a.within(context).is(state, time)).await, context, state, time));
    }
    for context in [None, Some("c"), Some("d"), Some("nobody's")] {
        for state in [None, Some(State::ALL[0]), Some(State::ALL[3]), Some(State::Rejected)] {
            for since in [None, Some(at(0)), Some(at(4)), Some(at(99))] {
                let list = ListQuery { context: context.map(Into::into), state, since, ..query(5) };
                let expected: Vec<TaskId> = facts
                    .iter()
                    .rev()
                    .filter(|(_, c, s, t)| {
                        context.is_none_or(|x| x == *c)
                            && state.is_none_or(|x| x == *s)
                            && since.is_none_or(|x| *t >= x)
                    })
                    .map(|(task, ..)| *task)
                    .collect();
                assert_eq!(walk(&store, &list).await, expected, "{list:?}");
                assert_eq!(total(&store, &list).await, expected.len() as u64, "{list:?}");
            }
        }
    }
}

pub(super) async fn totals_are_exact_for_every_filter(factory: &dyn Factory) {
    let store = factory.open().await;
    // All at once, so that a group holds many changes of one counter.
    let born = join_all((0..200_i64).map(|n| {
        let state = State::ALL[(n % 8) as usize];
        store.commit(commit([opening(id(), 1).within(&format!("c{}", n % 5)).is(state, at(n))]))
    }))
    .await;
    assert!(born.into_iter().all(|outcome| outcome == Outcome::Done));
    assert_eq!(total(&store, &query(1)).await, 200);
    for state in State::ALL {
        assert_eq!(total(&store, &ListQuery { state: Some(state), ..query(1) }).await, 25);
    }
    for n in 0..5 {
        let context = Some(format!("c{n}").as_str().into());
        assert_eq!(total(&store, &ListQuery { context, ..query(1) }).await, 40);
    }
    assert_eq!(total(&store, &ListQuery { since: Some(at(150)), ..query(1) }).await, 50);
}

pub(super) async fn totals_follow_every_change_of_state(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.is(State::ALL[0], at(0))).await;
    for (n, state) in (1..).zip(State::ALL.into_iter().skip(1)) {
        put(&store, more(task, n, 1).is(state, at(n as i64))).await;
        for other in State::ALL {
            let list = ListQuery { state: Some(other), ..query(5) };
            assert_eq!(total(&store, &list).await, u64::from(other == state));
            assert_eq!(walk(&store, &list).await.len(), usize::from(other == state));
        }
        assert_eq!(total(&store, &query(5)).await, 1);
    }
}

pub(super) async fn an_unlisted_task_is_in_no_list_until_it_is(factory: &dyn Factory) {
    let store = factory.open().await;
    let hidden = IndexRow { listed: false, ..row(State::Submitted, at(1)) };
    let task = open(&store, |a| a.within("c").row(hidden)).await;
    let in_context = ListQuery { context: Some("c".into()), ..query(5) };
    for list in [query(5), in_context.clone()] {
        assert_eq!((walk(&store, &list).await.len(), total(&store, &list).await), (0, 0));
    }
    // It is there all the same, and counts for the operator.
    assert!(store.head(task).await.unwrap().is_some());
    assert_eq!(store.health().await.unwrap().tasks, 1);
    put(&store, more(task, 1, 1).is(State::Working, at(2))).await;
    for list in [query(5), in_context.clone()] {
        assert_eq!(walk(&store, &list).await, [task]);
        assert_eq!(total(&store, &list).await, 1);
    }
    put(&store, more(task, 2, 1).row(IndexRow { listed: false, ..row(State::Working, at(3)) })).await;
    for list in [query(5), in_context] {
        assert_eq!((walk(&store, &list).await.len(), total(&store, &list).await), (0, 0));
    }
}

pub(super) async fn views_are_apart_and_can_be_read_together(factory: &dyn Factory) {
    let store = factory.open().await;
    let a = open(&store, |o| o.seen_by(&["a"]).is(State::Working, at(1))).await;
    let b = open(&store, |o| o.seen_by(&["b"]).is(State::Working, at(2))).await;
    let both = open(&store, |o| o.seen_by(&["a", "c"]).is(State::Working, at(3))).await;
    let nobody = open(&store, |o| o.seen_by(&[]).is(State::Working, at(4))).await;
    for (views, expected) in [
        (vec!["a"], vec![both, a]),
        (vec!["b"], vec![b]),
        (vec!["c"], vec![both]),
        (vec!["a", "b"], vec![both, b, a]),
        (vec!["b", "c", "unknown"], vec![both, b]),
    ] {
        let list = ListQuery { views: views.into_iter().map(view).collect(), ..query(2) };
        assert_eq!(walk(&store, &list).await, expected);
        assert_eq!(total(&store, &list).await, expected.len() as u64);
    }
    assert!(store.head(nobody).await.unwrap().is_some());
}

pub(super) async fn a_view_nobody_knows_is_empty(factory: &dyn Factory) {
    let store = factory.open().await;
    fill(&store, 3).await;
    for views in [vec![view("nobody's")], vec![]] {
        let page = page(&store, &ListQuery { views, ..query(5) }).await;
        assert_eq!((page.tasks.len(), page.more, page.total), (0, false, Some(0)));
    }
}

pub(super) async fn a_view_named_twice_lists_once(factory: &dyn Factory) {
    let store = factory.open().await;
    let task = open(&store, |a| a.seen_by(&["v", "w", "v"])).await;
    assert_eq!((walk(&store, &query(5)).await, total(&store, &query(5)).await), (vec![task], 1));
    assert!(store.remove(task).await.unwrap());
    assert_eq!(total(&store, &query(5)).await, 0);
}

pub(super) async fn a_context_with_many_tasks_is_counted_exactly(factory: &dyn Factory) {
    let store = factory.open().await;
    let list = ListQuery { context: Some("c".into()), ..query(3) };
    let mut tasks = Vec::new();
    for n in 0..50 {
        tasks.push(open(&store, |a| a.within("c").is(State::Completed, at(n))).await);
        assert_eq!(total(&store, &list).await, tasks.len() as u64);
    }
    // In one group.
    let born = join_all((0..50).map(|n| store.commit(commit([opening(id(), 1).within("c").is(State::Failed, at(n))]))));
    assert!(born.await.into_iter().all(|outcome| outcome == Outcome::Done));
    assert_eq!(total(&store, &list).await, 100);
    assert_eq!(walk(&store, &list).await.len(), 100);
    for (n, task) in tasks.iter().enumerate() {
        assert!(store.remove(*task).await.unwrap());
        assert_eq!(total(&store, &list).await, 99 - n as u64);
    }
    assert_eq!(store.purge(at(1_000), at(0), 1_000).await.unwrap(), 50);
    assert_eq!(total(&store, &list).await, 0);
    // And up again from nothing.
    for n in 0..20 {
        open(&store, |a| a.within("c").is(State::Completed, at(n))).await;
    }
    assert_eq!(total(&store, &list).await, 20);
}

pub(super) async fn contexts_are_apart_however_they_are_spelled(factory: &dyn Factory) {
    let store = factory.open().await;
    let spellings = [
        "0198c0de-0000-7000-8000-00000000abcd",
        "0198C0DE-0000-7000-8000-00000000ABCD",
        "0198c0de00007000800000000000abcd",
        "{0198c0de-0000-7000-8000-00000000abcd}",
        "",
        " ",
        "ünï©ode 🌉",
    ];
    let mut tasks = Vec::new();
    for spelling in spellings {
        tasks.push(open(&store, |a| a.within(spelling)).await);
    }
    for (spelling, task) in spellings.into_iter().zip(tasks) {
        assert_eq!(store.head(task).await.unwrap().unwrap().context.as_str(), spelling);
        let list = ListQuery { context: Some(spelling.into()), ..query(5) };
        assert_eq!(walk(&store, &list).await, [task]);
    }
}

pub(super) async fn a_page_may_be_empty(factory: &dyn Factory) {
    let store = factory.open().await;
    assert_eq!(page(&store, &query(0)).await.total, Some(0));
    fill(&store, 3).await;
    let page = page(&store, &query(0)).await;
    assert_eq!((page.tasks.len(), page.more, page.total), (0, true, Some(3)));
}

/// The look of operators: tasks of every tenant and view, and those that no list shows.
pub(super) async fn every_task_is_found_whatever_lists_it_is_in(factory: &dyn Factory) {
    let store = factory.open().await;
    let found = async |wanted: &TaskQuery| {
        let (mut all, mut query) = (Vec::new(), wanted.clone());
        loop {
            let page = store.tasks(query.clone()).await.unwrap();
            assert!(page.tasks.len() <= query.rows as usize);
            all.extend(page.tasks);
            match page.next {
                Some(next) => query.before = Some(next),
                None => return all,
            }
        }
    };
    let all = TaskQuery { rows: 3, ..TaskQuery::default() };
    assert_eq!(found(&all).await, []);
    let mut tasks = Vec::new();
    for n in 0..9 {
        let state = if n % 2 == 0 { State::Working } else { State::Completed };
        let task = id();
        let mut append = opening(task, 1).is(state, at(n));
        if let Some(open) = &mut append.open {
            open.tenant = ["acme", "umbrella", "default"][n as usize % 3].into();
            open.agent = if n < 4 { "echo".into() } else { "scripted".into() };
            open.views = vec![view(&format!("view {n}"))];
        }
        if let Some(row) = &mut append.row {
            row.listed = n != 5;
        }
        let aliases = if n == 7 { vec![AliasWrite { key: [7; 32], task }] } else { Vec::new() };
        assert_eq!(store.commit(Commit { aliases, ..commit([append]) }).await, Outcome::Done);
        tasks.push(task);
    }
    let of = |wanted: &dyn Fn(usize) -> bool| {
        let mut chosen: Vec<TaskId> = (0..9).filter(|n| wanted(*n)).map(|n| tasks[n]).collect();
        chosen.sort_by_key(|task| std::cmp::Reverse(*task));
        chosen
    };
    for rows in [1, 3, 8, 9, 10, 1_000] {
        let all = TaskQuery { rows, ..TaskQuery::default() };
        assert_eq!(found(&all).await, of(&|_| true), "{rows}");
        assert_eq!(found(&TaskQuery { tenant: Some("acme".into()), ..all.clone() }).await, of(&|n| n % 3 == 0));
        assert_eq!(found(&TaskQuery { agent: Some("echo".into()), ..all.clone() }).await, of(&|n| n < 4));
        assert_eq!(found(&TaskQuery { state: Some(State::Working), ..all.clone() }).await, of(&|n| n % 2 == 0));
        assert_eq!(found(&TaskQuery { aliased: true, ..all.clone() }).await, of(&|n| n == 7));
        let none = TaskQuery { tenant: Some("nobody".into()), ..all.clone() };
        assert_eq!(found(&none).await, []);
        let both = TaskQuery { tenant: Some("acme".into()), state: Some(State::Completed), ..all };
        assert_eq!(found(&both).await, of(&|n| n == 3));
    }
    assert_eq!(store.health().await.unwrap().tasks, 9, "the store counts the same");
}
