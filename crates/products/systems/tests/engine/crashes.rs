//! A system whose process dies or is cut off continues where it was, and repeats nothing that had ended.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::Engine;
use model::ports::agent::{Agent, EndState, Restart};
use model::{Limits, Part, State, Task, TaskId};

use crate::common::{
    Adverbs, House, Manners, Process, Puppet, Shelf, Square, artifacts, aside, at, begin, cancel, last_words,
    on_both_stores, quick, say, task_of, task_when, until,
};
use crate::kit::{Book, children, diamond, link, nodes, once_each, steps, system, with_approval, worker};

/// Every feature at once: a diamond with a branch that fails, a quorum, a loop and retries.
fn everything() -> serde_json::Value {
    nodes(serde_json::json!({ "max_turns": 5, "entry": "a", "graph": {
        "a": { "edges": [{ "to": "b" }, { "to": "c" }, { "to": "bad" }] },
        "b": { "next": "j" },
        "c": { "next": "j" },
        "bad": { "retries": 1, "next": "j" },
        "j": { "join": { "mode": "quorum", "quorum_count": 2 }, "next": "loop" },
        "loop": { "edges": [
            { "to": "loop", "condition": { "output_contains": "again" } },
            { "to": "end", "condition": { "default": true } },
        ] },
        "end": {},
    } }))
}

const EXPECTED: &str = "end(enough)";

/// Waits until the task settles or the process dies.
async fn settled_or_dead(engine: &Engine, shelf: &Arc<Shelf>, id: TaskId) -> Option<Arc<Task>> {
    tokio::select! {
        biased;
        () = shelf.died() => None,
        task = task_when(engine, id, |task| task.core.is_settled()) => Some(task),
    }
}

/// Dies with the nth commit, for every n, once and then again shortly after: the graph continues where it was.
#[tokio::test]
async fn a_crash_at_any_moment_costs_nothing_but_what_was_in_flight() {
    let mut most = 0;
    for houses in [House::memory as fn() -> House, House::sqlite] {
        let mut die_with = 1;
        loop {
            let (mut house, book) = (houses(), Book::default());
            let all = || [system(everything()), worker(&book, Restart::Retry)];
            let limits = || Limits { attempts: 50, ..quick() };
            let engine = house.start_with(all(), limits()).await;
            let shelf = house.shelf().clone();
            shelf.die_with(die_with);
            let sent = {
                let engine = engine.clone();
                aside(async move { engine.send(&at("sys"), say("hi").soon()).await })
            };
            // The task exists from the first commit on.
            until(async || shelf.commits() >= 1).await;
            let mut id = None;
            until(async || {
                id = house.shelf().inner().list(listed()).await.unwrap().tasks.first().map(|(id, _)| *id);
                id.is_some()
            })
            .await;
            let id = id.unwrap();
            let mut over = settled_or_dead(&engine, &shelf, id).await;
            let finished_at_once = over.is_some();
            sent.abort();
            let mut lives = 1;
            let mut ended_before: BTreeMap<String, (usize, u32)> = BTreeMap::new();
            while over.is_none() {
                // The children whose end is in their log.
                let done = ends(&house, id).await;
                house.kill().await;
                for node in done {
                    ended_before.entry(node.clone()).or_insert_with(|| book.of(&node));
                }
                let engine = house.start_with(all(), limits()).await;
                lives += 1;
                let shelf = house.shelf().clone();
                if lives < 4 {
                    shelf.die_with(die_with % 7 + 1);
                }
                over = settled_or_dead(&engine, &shelf, id).await;
            }
            let task = over.unwrap();
            let result = task.artifacts.iter().find(|artifact| &*artifact.id == systems::agent::RESULT);
            assert_eq!(task.state(), State::Completed, "{die_with}: {:?}", steps(&task));
            assert_eq!(result.unwrap().parts, [Part::text(EXPECTED)], "{die_with}");
            // Every visit has one turn, which ran again only if a crash interrupted it, and never once its end was
            // committed.
            for (node, visits) in [("a", 1), ("b", 1), ("c", 1), ("bad", 2), ("j", 1), ("loop", 3), ("end", 1)] {
                let (turns, often) = book.of(node);
                assert!(turns <= visits, "{die_with}: {node} {turns}");
                assert!(often <= lives, "{die_with}: {node} ran {often} times in {lives} lives");
            }
            for (node, before) in ended_before {
                assert_eq!(book.of(&node), before, "{die_with}: {node} ran although its end was kept");
            }
            once_each(&task);
            most = most.max(die_with);
            if finished_at_once {
                break;
            }
            house.kill().await;
            die_with += 1;
        }
    }
    assert!(most > 15, "there were only {most} moments to die at");
}

fn listed() -> model::ports::store::ListQuery {
    let views = at("sys").reads;
    model::ports::store::ListQuery {
        views,
        context: None,
        state: None,
        since: None,
        after: None,
        limit: 1,
        count: false,
    }
}

/// The nodes all of whose possible visits have their end in their own log.
async fn ends(house: &House, parent: TaskId) -> Vec<String> {
    let query = model::ports::store::ListQuery { views: vec![model::View::child(parent)], limit: 100, ..listed() };
    let mut nodes = Vec::new();
    let store = house.shelf().inner();
    for (id, _) in store.list(query).await.unwrap().tasks {
        let events = store.events(id, model::Seq::ZERO, usize::MAX).await.unwrap();
        let task = Task::fold(&events).unwrap().unwrap();
        let node = link(&task)["node"].as_str().unwrap().to_owned();
        if task.core.is_settled() && !["bad", "loop"].contains(&&*node) {
            nodes.push(node);
        }
    }
    nodes
}

/// Branches that ignore a cancel are stopped like any agent; and a cancel that a crash interrupted is passed on later.
#[tokio::test]
async fn a_cancel_before_a_crash_stops_the_branches_after_it() {
    on_both_stores(async |mut house| {
        let mut graph = diamond();
        for node in ["b", "c"] {
            graph["graph"][node]["agent"] = "puppet".into();
        }
        let (book, puppet) = (Book::default(), Puppet::with(Manners { restart: Restart::Retry, ..Manners::default() }));
        let all = || [system(graph.clone()), worker(&book, Restart::Retry), puppet.clone() as Arc<dyn Agent>];
        let limits = Limits { cancel_grace_ms: 3_600_000, ..quick() };
        let engine = house.start_with(all(), limits).await;
        let id = begin(&engine, "sys", say("hi")).await.id;
        let _cues = [puppet.turn().await, puppet.turn().await];
        // The process dies with the commit of the cancel.
        let shelf = house.shelf().clone();
        shelf.die_with(shelf.commits() + 1);
        let call = {
            let engine = engine.clone();
            aside(async move { cancel(&engine, "sys", id).await })
        };
        shelf.died().await;
        call.abort();
        house.kill().await;
        let engine = house.start(all()).await;
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(task.state(), State::Canceled);
        for child in children(&engine, id).await {
            let expected = if link(&child)["node"] == "a" { State::Completed } else { State::Canceled };
            task_when(&engine, child.id, |task| task.state() == expected).await;
        }
        assert!(puppet.is_idle().await, "no branch was taken up again");
    })
    .await;
}

#[tokio::test]
async fn a_run_does_not_go_on_in_another_graph_than_it_began_in() {
    on_both_stores(async |mut house| {
        let book = Book::default();
        let engine = house.start([system(with_approval()), worker(&book, Restart::Retry)]).await;
        let id = task_of(engine.send(&at("sys"), say("hi")).await).id;
        house.kill().await;
        let other = nodes(serde_json::json!({ "graph": { "other": {} } }));
        let engine = house.start([system(other), worker(&book, Restart::Retry)]).await;
        let task = task_of(engine.send(&at("sys"), say("yes").to(id)).await);
        assert_eq!(task.state(), State::Failed);
        assert!(
            last_words(&task).contains("the system was changed while draft#1 was under way"),
            "{}",
            last_words(&task)
        );
        assert_eq!(book.of("other").0, 0);
    })
    .await;
}

/// The answer to an approval is committed or it is not, at whatever moment the process dies.
#[tokio::test]
async fn a_crash_around_an_answer_neither_loses_nor_repeats_it() {
    for die_with in 1..12 {
        let (mut house, book) = (House::memory(), Book::default());
        let all = || [system(with_approval()), worker(&book, Restart::Retry)];
        let engine = house.start(all()).await;
        let id = task_of(engine.send(&at("sys"), say("hi")).await).id;
        let shelf = house.shelf().clone();
        shelf.die_with(shelf.commits() + die_with);
        let call = {
            let engine = engine.clone();
            aside(async move { engine.send(&at("sys"), say("yes").to(id)).await })
        };
        let task = match settled_or_dead(&engine, &shelf, id).await {
            Some(task) => task,
            None => {
                house.kill().await;
                let engine = house.start(all()).await;
                task_when(&engine, id, |task| task.core.is_settled()).await
            }
        };
        call.abort();
        assert_eq!(task.state(), State::Completed, "{die_with}: {:?}", steps(&task));
        assert_eq!((book.of("draft").0, book.of("print").0, book.of("end").0), (1, 1, 1), "{die_with}");
        once_each(&task);
    }
}

/// Two branches at agents that the test drives, on three processes.
async fn on_a_square(book: &Book) -> (Arc<Square>, Arc<Puppet>, [Process; 3]) {
    let (square, puppet) = (Square::new(), Puppet::with(Manners { restart: Restart::Retry, ..Manners::default() }));
    let mut graph = diamond();
    for node in ["b", "c"] {
        graph["graph"][node]["agent"] = "puppet".into();
    }
    let start = async || {
        let process = square.start(puppet.clone(), quick()).await;
        process.engine.set_agents(vec![system(graph.clone()), worker(book, Restart::Retry), puppet.clone() as _]);
        process
    };
    let processes = [start().await, start().await, start().await];
    (square, puppet, processes)
}

#[tokio::test]
async fn another_process_goes_on_where_one_died() {
    let book = Book::default();
    let (_square, puppet, [one, _two, dying]) = on_a_square(&book).await;
    let id = begin(&dying.engine, "sys", say("hi")).await.id;
    let _cut_off = [puppet.turn().await, puppet.turn().await];
    dying.kill();
    for _ in 0..2 {
        let cue = puppet.turn().await;
        assert_eq!(cue.attempt, 2);
        cue.ends(EndState::Completed, "branch");
    }
    let task = task_when(&one.engine, id, |task| task.core.is_settled()).await;
    assert_eq!(task.state(), State::Completed, "{:?}", steps(&task));
    assert!(artifacts(&task).contains(&"d(branch+branch)".to_owned()), "{:?}", artifacts(&task));
    assert_eq!((book.of("a"), book.of("d")), ((1, 1), (1, 1)));
    once_each(&task);
    assert!(puppet.is_idle().await);
}

/// A process taken for dead was only cut off: two processes execute the same graph for a while, and it is still one
/// run.
#[tokio::test]
async fn a_process_that_was_only_away_repeats_nothing() {
    let book = Book::default();
    let (square, puppet, [one, _two, away]) = on_a_square(&book).await;
    let id = begin(&away.engine, "sys", say("hi")).await.id;
    let old = [puppet.turn().await, puppet.turn().await];
    square.give_up(away.member.no);
    let new = [puppet.turn().await, puppet.turn().await];
    square.come_back(away.member.no);
    for cue in old.into_iter().chain(new) {
        cue.ends(EndState::Completed, "branch");
    }
    let task = task_when(&one.engine, id, |task| task.core.is_settled()).await;
    assert_eq!(task.state(), State::Completed, "{:?}", steps(&task));
    assert_eq!(book.of("d"), (1, 1));
    once_each(&task);
    let children = children(&one.engine, id).await;
    assert_eq!(children.len(), 4);
}
