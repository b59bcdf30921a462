//! Systems in the engine: a graph of agents is one task to its caller and one task per visit to the engine.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::Engine;
use futures_util::stream::{self, StreamExt as _};
use model::ports::agent::{Agent, EndState, Restart, Turn};
use model::{Limits, List, Part, State, Task, TaskId};
use systems::agent::{RunJournal, RunStep};

use crate::common::{
    Adverbs, Manners, Puppet, artifacts, aside, at, begin, cancel, history, last_words, log, on_both_stores, quick,
    say, send_parts, task_of, task_when, text_piece,
};
use crate::kit::{BIG, Book, children, diamond, link, named, node_of, nodes, steps, system, with_approval, worker};

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
