//! Systems in the engine: a graph of agents is one task to its caller and one task per visit to the engine, and
//! continues where it was when the process dies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::Engine;
use futures_util::stream::{self, StreamExt as _};
use model::ports::agent::{Agent, EndState, Restart, Turn};
use model::{Limits, List, Part, State, Task, TaskId};
use parking_lot::Mutex;
use systems::agent::{RunJournal, RunStep};

use crate::common::{
    Adverbs, House, Manners, Process, Puppet, Shelf, Square, artifacts, aside, at, begin, cancel, ended, history,
    last_words, log, on_both_stores, quick, say, send_parts, task_of, task_when, text_piece, until,
};

fn system(yaml: serde_json::Value) -> Arc<dyn Agent> {
    named("sys", yaml)
}

fn named(name: &str, written: serde_json::Value) -> Arc<dyn Agent> {
    let system: systems_graph::System = serde_json::from_value(written).unwrap();
    let graph = system.check(|_| true).unwrap();
    Arc::new(systems::agent::SystemAgent::new(name, &system, graph))
}

/// The agents' runs: by node, by turn id, the number of attempts.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<BTreeMap<String, BTreeMap<String, u32>>>>);

impl Book {
    fn note(&self, turn: &Turn) {
        let mut book = self.0.lock();
        *book.entry(node_of(turn)).or_default().entry(turn.id.to_string()).or_default() += 1;
    }
    /// The number of visits of the node, and the largest number of runs of one of them.
    fn of(&self, node: &str) -> (usize, u32) {
        let book = self.0.lock();
        let turns = book.get(node);
        (turns.map_or(0, BTreeMap::len), turns.and_then(|turns| turns.values().max().copied()).unwrap_or(0))
    }
}

/// The link of a child to its parent.
fn link(task: &Task) -> serde_json::Value {
    task.history[0].metadata.as_ref().unwrap().to_value()[systems::agent::KEY].clone()
}

fn node_of(turn: &Turn) -> String {
    link(&turn.so_far)["node"].as_str().unwrap().to_owned()
}

fn heard(turn: &Turn) -> String {
    let texts: Vec<String> = turn.messages.iter().map(|inbound| inbound.message.text().replace('\n', "+")).collect();
    texts.join("|")
}

/// An agent that answers `node(input)`, fails at nodes called `bad`, and at `loop` answers "again" until its third
/// visit.
fn worker(book: &Book, restart: Restart) -> Arc<dyn Agent> {
    let book = book.clone();
    let manners = Manners { restart, ..Manners::default() };
    crate::common::acting("worker", manners, move |turn| {
        book.note(&turn);
        let node = node_of(&turn);
        let text = match node.as_str() {
            "bad" => return stream::iter([ended(EndState::Failed, "broken")]).boxed(),
            "loop" if link(&turn.so_far)["visit"] != 3 => "again".to_owned(),
            "loop" => "enough".to_owned(),
            "big" => "x".repeat(BIG - 200),
            _ => format!("{node}({})", heard(&turn)),
        };
        stream::iter([text_piece("out", &text, false), ended(EndState::Completed, "")]).boxed()
    })
}

/// The limit of the output of a node called `big`, in counted bytes.
const BIG: usize = 20_000;

fn nodes(graph: serde_json::Value) -> serde_json::Value {
    let mut graph = graph;
    for node in graph["graph"].as_object_mut().unwrap().values_mut() {
        if node.get("agent").is_none() {
            node["agent"] = "worker".into();
        }
    }
    graph
}

fn diamond() -> serde_json::Value {
    nodes(serde_json::json!({ "graph": {
        "a": { "edges": [{ "to": "b" }, { "to": "c" }] }, "b": { "next": "d" }, "c": { "next": "d" }, "d": {},
    } }))
}

/// The steps of the task's newest run: `node#visit state`.
fn steps(task: &Task) -> Vec<String> {
    let journal = RunJournal::of(task);
    let line = |entry: &systems::agent::RunEntry| {
        let state = serde_json::to_value(entry.state).unwrap().as_str().unwrap().to_owned();
        entry.visit().map(|visit| format!("{visit} {state}")).unwrap_or(state)
    };
    journal.0.iter().map(line).collect()
}

async fn children(engine: &Engine, parent: TaskId) -> Vec<Arc<Task>> {
    let place = engine.children(&at("sys"), &parent.to_string()).await.unwrap();
    let all = List { artifacts: true, page_size: Some(100), ..List::default() };
    engine.list(&place, &all).await.unwrap().tasks
}

/// An operator's picture of a task: the state of each node, and the edges that were taken.
async fn pictured(engine: &Engine, graph: serde_json::Value, id: TaskId) -> (Vec<String>, Vec<String>) {
    let log = engine.store().logs(vec![id]).await.unwrap().pop().unwrap();
    let children = children(engine, id).await;
    let look = model::ports::agent::Look { log: &log, children: &children };
    let picture = system(graph).picture(Some(look)).unwrap().to_value();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let nodes = picture["nodes"].as_array().unwrap();
    let states = nodes.iter().map(|node| format!("{} {}", text(&node["node"]), text(&node["state"]))).collect();
    let edges = nodes.iter().flat_map(|node| node["edges"].as_array().unwrap().iter().map(move |edge| (node, edge)));
    let taken = edges.filter(|(_, edge)| edge["taken"].as_u64().unwrap() > 0);
    (states, taken.map(|(node, edge)| format!("{} {}", text(&node["node"]), text(&edge["to"]))).collect())
}

#[tokio::test]
async fn a_graph_is_one_task_and_a_task_for_each_visit() {
    on_both_stores(async |mut house| {
        let book = Book::default();
        let engine = house.start([system(diamond()), worker(&book, Restart::Fail)]).await;
        let task = task_of(engine.send(&at("sys"), say("hi")).await);
        assert_eq!(task.state(), State::Completed);
        let result = task.artifacts.iter().find(|artifact| &*artifact.id == systems::agent::RESULT).unwrap();
        assert_eq!(result.parts, [Part::text("d(b(a(hi))+c(a(hi)))")]);
        let made: BTreeSet<&str> = task.artifacts.iter().map(|artifact| &*artifact.id).collect();
        assert_eq!(made, BTreeSet::from(["node/a/1", "node/b/1", "node/c/1", "node/d/1", "result"]));
        let steps = steps(&task);
        assert_eq!((&*steps[0], &*steps[1], &*steps[2]), ("began", "a#1 started", "a#1 completed"), "{steps:?}");
        assert_eq!(steps[steps.len() - 3..], ["d#1 started", "d#1 completed", "finished"]);
        assert_eq!(steps.len(), 10);

        let children = children(&engine, task.id).await;
        assert_eq!(children.len(), 4);
        for child in &children {
            assert_eq!((&*child.agent, child.state(), &child.owner), ("worker", State::Completed, &task.owner));
            let link = link(child);
            assert_eq!((link["parent"].as_str(), link["system"].as_str()), (Some(&*task.id.to_string()), Some("sys")));
            let entry = RunJournal::of(&task).0.into_iter().find(|entry| entry.child == Some(child.id.to_string()));
            assert_eq!(entry.unwrap().node.as_deref(), link["node"].as_str());
            // The child is not visible at the agent's own mount.
            engine.get(&at("worker"), &child.id.to_string()).await.unwrap_err();
        }
        assert_eq!(engine.list(&at("worker"), &List::default()).await.unwrap().total, 0);
        assert_eq!(engine.list(&at("sys"), &List::default()).await.unwrap().total, 1);
        engine.children(&crate::common::of("other", "eve", "sys"), &task.id.to_string()).await.unwrap_err();
    })
    .await;
}

#[tokio::test]
async fn a_quick_agent_is_a_quick_node_and_one_that_is_not_there_a_failed_one() {
    on_both_stores(async |mut house| {
        let graph =
            serde_json::json!({ "graph": { "one": { "agent": "echo", "next": "two" }, "two": { "agent": "echo" } } });
        let gone = serde_json::json!({ "graph": { "one": { "agent": "nobody" } } });
        let engine = house.start([system(graph), named("lost", gone), crate::common::echo()]).await;
        let task = task_of(engine.send(&at("sys"), say("hi")).await);
        assert_eq!((task.state(), artifacts(&task)), (State::Completed, vec!["hi".to_owned(); 3]));
        let task = task_of(engine.send(&at("lost"), say("hi")).await);
        assert_eq!(task.state(), State::Failed);
        assert!(last_words(&task).contains("\"nobody\" is not served here"), "{}", last_words(&task));
    })
    .await;
}

/// The ends of nodes, the starts of the following ones and the opening of their tasks are one commit.
#[tokio::test]
async fn a_step_costs_one_commit_however_wide_it_is() {
    on_both_stores(async |mut house| {
        let fan: Vec<String> = (0..40).map(|n| format!("n{n}")).collect();
        let mut graph = serde_json::json!({ "first": { "agent": "echo" }, "last": { "agent": "echo" } });
        graph["first"]["edges"] = fan.iter().map(|to| serde_json::json!({ "to": to })).collect();
        for node in &fan {
            graph[node] = serde_json::json!({ "agent": "echo", "next": "last" });
        }
        let engine = house.start([system(serde_json::json!({ "graph": graph })), crate::common::echo()]).await;
        let before = house.shelf().commits();
        let task = task_of(engine.send(&at("sys"), say("hi")).await);
        assert_eq!((task.state(), children(&engine, task.id).await.len()), (State::Completed, 42));
        // The task, the first node, the fan, the last node, the end; and one more if part of a step came late.
        let commits = house.shelf().commits() - before;
        assert!((5..=8).contains(&commits), "{commits} commits");
    })
    .await;
}

#[tokio::test]
async fn a_branch_that_fails_takes_the_others_with_it() {
    on_both_stores(async |mut house| {
        let mut graph = diamond();
        graph["graph"]["b"] = serde_json::json!({ "agent": "puppet", "next": "d" });
        graph["graph"]["c"] = serde_json::json!({ "agent": "puppet", "next": "d", "retries": 1 });
        let (book, puppet) = (Book::default(), Puppet::new());
        let engine = house.start([system(graph), worker(&book, Restart::Fail), puppet.clone() as _]).await;
        let id = begin(&engine, "sys", say("hi")).await.id;
        let cues = [puppet.turn().await, puppet.turn().await];
        let [mut cue_b, mut cue_c] = cues;
        if link(&cue_b.so_far)["node"] == "c" {
            std::mem::swap(&mut cue_b, &mut cue_c);
        }
        cue_c.ends(EndState::Failed, "first");
        let again = puppet.turn().await;
        assert_eq!(link(&again.so_far)["visit"], 2);
        again.ends(EndState::Failed, "second");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!((task.state(), last_words(&task)), (State::Failed, "c: second".to_owned()));
        let b = cue_b.so_far.id;
        task_when(&engine, b, |task| task.state() == State::Canceled).await;
        assert_eq!(book.of("d").0, 0);
    })
    .await;
}

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

/// No visit is reported twice.
fn once_each(task: &Task) {
    let mut seen = BTreeSet::new();
    for step in steps(task) {
        assert!(seen.insert(step.clone()), "{step} twice: {:?}", steps(task));
    }
}

#[tokio::test]
async fn a_cancel_reaches_every_branch() {
    on_both_stores(async |mut house| {
        let mut graph = diamond();
        for node in ["b", "c"] {
            graph["graph"][node]["agent"] = "puppet".into();
        }
        let (book, puppet) = (Book::default(), Puppet::new());
        let engine = house.start([system(graph), worker(&book, Restart::Fail), puppet.clone() as _]).await;
        let id = begin(&engine, "sys", say("hi")).await.id;
        let cues = [puppet.turn().await, puppet.turn().await];
        let call = {
            let engine = engine.clone();
            aside(async move { cancel(&engine, "sys", id).await })
        };
        for cue in cues {
            cue.cancelled.clone().await;
            cue.ends(EndState::Canceled, "");
        }
        assert_eq!(call.await.unwrap().unwrap().state(), State::Canceled);
        for child in children(&engine, id).await {
            let expected = if link(&child)["node"] == "a" { State::Completed } else { State::Canceled };
            task_when(&engine, child.id, |task| task.state() == expected).await;
        }
        assert!(puppet.is_idle().await);
    })
    .await;
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

/// A task that ends other than by its agent also stops its branches.
#[tokio::test]
async fn a_system_that_is_cut_off_leaves_nobody_running() {
    on_both_stores(async |mut house| {
        let graph = serde_json::json!({ "graph": { "a": { "edges": [{ "to": "b" }, { "to": "big" }] }, "b": { "agent": "puppet" }, "big": {} } });
        let (book, puppet) = (Book::default(), Puppet::new());
        // Enough for the node itself, but not with the other output of the system.
        let limits = Limits { turn_bytes: BIG + 800, ..quick() };
        let all = [system(nodes(graph)), worker(&book, Restart::Fail), puppet.clone() as Arc<dyn Agent>];
        let engine = house.start_with(all, limits).await;
        let id = begin(&engine, "sys", say("hi")).await.id;
        let cue = puppet.turn().await;
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(task.state(), State::Failed);
        assert!(last_words(&task).starts_with("the agent said more than"), "{}", last_words(&task));
        task_when(&engine, cue.so_far.id, |task| task.state() == State::Canceled).await;
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

fn with_approval() -> serde_json::Value {
    nodes(serde_json::json!({ "graph": {
        "draft": { "next": "print" },
        "print": { "approval": { "ask": "Print it?" }, "edges": [{ "to": "end" }, { "to": "sorry", "on": "denied" }] },
        "end": {},
        "sorry": {},
    } }))
}

#[tokio::test]
async fn an_approval_asks_and_goes_on_as_it_was_answered() {
    on_both_stores(async |mut house| {
        for (answer, result, printed) in [
            (say("approve"), "end(print(draft(hi)))", 1),
            (say("deny: too dear"), "sorry(too dear)", 0),
            (
                send_parts(vec![Part::data(model::Json::parse(r#"{"decision":"deny"}"#).unwrap())]),
                "sorry(print was denied)",
                0,
            ),
        ] {
            let book = Book::default();
            let all = || [system(with_approval()), worker(&book, Restart::Retry)];
            let engine = house.start(all()).await;
            let task = task_of(engine.send(&at("sys"), say("hi")).await);
            assert_eq!(task.state(), State::InputRequired);
            assert_eq!(last_words(&task), "Print it? (print: answer approve or deny)");
            assert_eq!(book.of("print").0, 0);
            let asked =
                [("draft", "done"), ("end", "waiting"), ("print", "waiting for approval"), ("sorry", "waiting")];
            assert_eq!(pictured(&engine, with_approval(), task.id).await.0, asked.map(|(n, s)| format!("{n} {s}")));

            // Another answer repeats the question; and the task waits across restarts.
            let task = task_of(engine.send(&at("sys"), say("what?").to(task.id)).await);
            assert_eq!(task.state(), State::InputRequired);
            assert!(last_words(&task).starts_with("That was neither approve nor deny. Print it?"));
            house.kill().await;
            let engine = house.start(all()).await;

            let task = task_of(engine.send(&at("sys"), answer.to(task.id)).await);
            assert_eq!(task.state(), State::Completed, "{:?}", history(&task));
            let given = task.artifacts.iter().find(|artifact| &*artifact.id == systems::agent::RESULT).unwrap();
            assert_eq!(given.parts, [Part::text(result)]);
            assert_eq!((book.of("draft"), book.of("print").0), ((1, 1), printed));
            let ways = if printed == 1 { ["done", "done", "skipped"] } else { ["skipped", "denied", "done"] };
            let shown = ["end", "print", "sorry"].into_iter().zip(ways).map(|(node, state)| format!("{node} {state}"));
            let (states, taken) = pictured(&engine, with_approval(), task.id).await;
            assert_eq!(states[1..], shown.collect::<Vec<_>>());
            let last = if printed == 1 { "print end" } else { "print sorry" };
            assert!(taken.contains(&last.to_owned()) && taken.len() == 1 + printed, "{taken:?}");
            assert_eq!(RunJournal::of(&task).0.iter().filter(|entry| entry.state == RunStep::Approval).count(), 2);
            house.kill().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_cancel_while_somebody_is_asked_ends_it() {
    on_both_stores(async |mut house| {
        let book = Book::default();
        let engine = house.start([system(with_approval()), worker(&book, Restart::Retry)]).await;
        let task = task_of(engine.send(&at("sys"), say("hi")).await);
        assert_eq!(cancel(&engine, "sys", task.id).await.unwrap().state(), State::Canceled);
        assert_eq!(book.of("print").0, 0);
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

#[tokio::test]
async fn a_question_of_a_node_is_the_systems_question() {
    on_both_stores(async |mut house| {
        let graph = nodes(serde_json::json!({ "graph": { "b": { "agent": "puppet", "next": "c" }, "c": {} } }));
        let (book, puppet) = (Book::default(), Puppet::new());
        let all = || [system(graph.clone()), worker(&book, Restart::Retry), puppet.clone() as Arc<dyn Agent>];
        let engine = house.start(all()).await;
        let id = begin(&engine, "sys", say("hi")).await.id;
        let cue = puppet.turn().await;
        let child = cue.so_far.id;
        cue.ends(EndState::InputRequired, "which colour?");
        let task = task_when(&engine, id, |task| task.core.is_at_rest()).await;
        assert_eq!((task.state(), last_words(&task)), (State::InputRequired, "which colour?".to_owned()));
        house.kill().await;

        let engine = house.start(all()).await;
        begin(&engine, "sys", say("blue").to(id)).await;
        let cue = puppet.turn().await;
        assert_eq!((cue.so_far.id, cue.heard()), (child, vec!["blue".to_owned()]));
        cue.says(text_piece("out", "painted", false));
        cue.ends(EndState::Completed, "");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        assert_eq!(task.state(), State::Completed);
        assert!(artifacts(&task).contains(&"c(painted)".to_owned()), "{:?}", artifacts(&task));
        assert!(puppet.is_idle().await);
    })
    .await;
}

#[tokio::test]
async fn a_system_may_be_a_node_of_another() {
    on_both_stores(async |mut house| {
        let outer = nodes(serde_json::json!({ "graph": { "in": { "agent": "sys", "next": "out" }, "out": {} } }));
        let book = Book::default();
        let engine = house.start([system(diamond()), named("outer", outer), worker(&book, Restart::Fail)]).await;
        let task = task_of(engine.send(&at("outer"), say("hi")).await);
        assert_eq!(task.state(), State::Completed, "{}", last_words(&task));
        assert!(artifacts(&task).contains(&"out(d(b(a(hi))+c(a(hi))))".to_owned()), "{:?}", artifacts(&task));
    })
    .await;
}

/// A message to a running system begins another run after the current one.
#[tokio::test]
async fn what_is_said_meanwhile_is_another_run() {
    on_both_stores(async |mut house| {
        let graph = serde_json::json!({ "graph": { "b": { "agent": "puppet" } } });
        let puppet = Puppet::new();
        let engine = house.start([system(graph), puppet.clone() as _]).await;
        let id = begin(&engine, "sys", say("one")).await.id;
        let cue = puppet.turn().await;
        begin(&engine, "sys", say("two").to(id)).await;
        assert_eq!(cue.heard(), ["one"]);
        cue.ends(EndState::Completed, "1");
        let cue = puppet.turn().await;
        assert_eq!(cue.heard(), ["two"]);
        cue.ends(EndState::Completed, "2");
        let task = task_when(&engine, id, |task| task.core.is_settled()).await;
        let runs: BTreeSet<String> = RunJournal::of(&task).0.into_iter().map(|entry| entry.run).collect();
        assert_eq!((task.state(), runs.len()), (State::Completed, 2));
        assert_eq!(children(&engine, id).await.len(), 2);
        assert!(!log(&engine, id).await.is_empty());
    })
    .await;
}

/// More branches than an agent accepts at a time: they wait, and all complete.
#[tokio::test]
async fn a_wide_fan_waits_for_room() {
    on_both_stores(async |mut house| {
        let running = Arc::new(AtomicUsize::new(0));
        let seen = running.clone();
        let slow = crate::common::acting("worker", Manners::default(), move |turn| {
            let running = seen.clone();
            let text = node_of(&turn);
            stream::once(async move {
                running.fetch_add(1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                running.fetch_sub(1, Ordering::SeqCst);
                text_piece("out", &text, false)
            })
            .boxed()
        });
        let refused = Arc::new(AtomicUsize::new(0));
        let width = 60;
        let edges: Vec<_> = (0..width).map(|i| serde_json::json!({ "to": format!("w{i:02}") })).collect();
        let mut graph = serde_json::json!({ "graph": { "a": { "edges": edges } } });
        for i in 0..width {
            graph["graph"][format!("w{i:02}")] = serde_json::json!({ "next": "z" });
        }
        graph["graph"]["z"] = serde_json::json!({});
        let narrow = Arc::new(Narrow { inner: slow, refused: refused.clone(), count: AtomicUsize::new(0) });
        let engine = house.start([system(nodes(graph)), narrow as _]).await;
        let task = task_of(engine.send(&at("sys"), say("go")).await);
        assert_eq!(task.state(), State::Completed, "{}", last_words(&task));
        assert_eq!(children(&engine, task.id).await.len(), width + 2);
        assert!(refused.load(Ordering::SeqCst) > 10);
    })
    .await;
}

/// An agent that is unavailable every third time.
struct Narrow {
    inner: Arc<crate::common::Acting>,
    refused: Arc<AtomicUsize>,
    count: AtomicUsize,
}

impl Agent for Narrow {
    fn profile(&self) -> &model::ports::agent::Profile {
        self.inner.profile()
    }
    fn admit(
        &self,
        message: &model::Inbound,
        task: Option<&Task>,
    ) -> Result<model::ports::agent::Admission, model::Fault> {
        if self.count.fetch_add(1, Ordering::SeqCst).is_multiple_of(3) {
            self.refused.fetch_add(1, Ordering::SeqCst);
            return Err(model::Fault::new(model::Kind::Unavailable, "full"));
        }
        self.inner.admit(message, task)
    }
    fn run(&self, turn: Turn) -> stream::BoxStream<'static, model::ports::agent::AgentEvent> {
        self.inner.run(turn)
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
