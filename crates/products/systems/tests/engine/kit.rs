//! Systems and agents for these tests, and readings of their tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use engine::Engine;
use futures_util::stream::{self, StreamExt as _};
use model::ports::agent::{Agent, EndState, Restart, Turn};
use model::{List, Task, TaskId};
use parking_lot::Mutex;
use systems::agent::RunJournal;

use crate::common::{Manners, at, ended, text_piece};

pub(crate) fn system(yaml: serde_json::Value) -> Arc<dyn Agent> {
    named("sys", yaml)
}

pub(crate) fn named(name: &str, written: serde_json::Value) -> Arc<dyn Agent> {
    let system: systems_graph::System = serde_json::from_value(written).unwrap();
    let graph = system.check(|_| true).unwrap();
    Arc::new(systems::agent::SystemAgent::new(name, &system, graph))
}

/// The agents' runs: by node, by turn id, the number of attempts.
#[derive(Clone, Default)]
pub(crate) struct Book(Arc<Mutex<BTreeMap<String, BTreeMap<String, u32>>>>);

impl Book {
    pub(crate) fn note(&self, turn: &Turn) {
        let mut book = self.0.lock();
        *book.entry(node_of(turn)).or_default().entry(turn.id.to_string()).or_default() += 1;
    }
    /// The number of visits of the node, and the largest number of runs of one of them.
    pub(crate) fn of(&self, node: &str) -> (usize, u32) {
        let book = self.0.lock();
        let turns = book.get(node);
        (turns.map_or(0, BTreeMap::len), turns.and_then(|turns| turns.values().max().copied()).unwrap_or(0))
    }
}

/// The link of a child to its parent.
pub(crate) fn link(task: &Task) -> serde_json::Value {
    task.history[0].metadata.as_ref().unwrap().to_value()[systems::agent::KEY].clone()
}

pub(crate) fn node_of(turn: &Turn) -> String {
    link(&turn.so_far)["node"].as_str().unwrap().to_owned()
}

pub(crate) fn heard(turn: &Turn) -> String {
    let texts: Vec<String> = turn.messages.iter().map(|inbound| inbound.message.text().replace('\n', "+")).collect();
    texts.join("|")
}

/// An agent that answers `node(input)`, fails at nodes called `bad`, and at `loop` answers "again" until its third
/// visit.
pub(crate) fn worker(book: &Book, restart: Restart) -> Arc<dyn Agent> {
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
pub(crate) const BIG: usize = 20_000;

pub(crate) fn nodes(graph: serde_json::Value) -> serde_json::Value {
    let mut graph = graph;
    for node in graph["graph"].as_object_mut().unwrap().values_mut() {
        if node.get("agent").is_none() {
            node["agent"] = "worker".into();
        }
    }
    graph
}

pub(crate) fn diamond() -> serde_json::Value {
    nodes(serde_json::json!({ "graph": {
        "a": { "edges": [{ "to": "b" }, { "to": "c" }] }, "b": { "next": "d" }, "c": { "next": "d" }, "d": {},
    } }))
}

/// The steps of the task's newest run: `node#visit state`.
pub(crate) fn steps(task: &Task) -> Vec<String> {
    let journal = RunJournal::of(task);
    let line = |entry: &systems::agent::RunEntry| {
        let state = serde_json::to_value(entry.state).unwrap().as_str().unwrap().to_owned();
        entry.visit().map(|visit| format!("{visit} {state}")).unwrap_or(state)
    };
    journal.0.iter().map(line).collect()
}

pub(crate) async fn children(engine: &Engine, parent: TaskId) -> Vec<Arc<Task>> {
    let place = engine.children(&at("sys"), &parent.to_string()).await.unwrap();
    let all = List { artifacts: true, page_size: Some(100), ..List::default() };
    engine.list(&place, &all).await.unwrap().tasks
}

/// No visit is reported twice.
pub(crate) fn once_each(task: &Task) {
    let mut seen = BTreeSet::new();
    for step in steps(task) {
        assert!(seen.insert(step.clone()), "{step} twice: {:?}", steps(task));
    }
}

pub(crate) fn with_approval() -> serde_json::Value {
    nodes(serde_json::json!({ "graph": {
        "draft": { "next": "print" },
        "print": { "approval": { "ask": "Print it?" }, "edges": [{ "to": "end" }, { "to": "sorry", "on": "denied" }] },
        "end": {},
        "sorry": {},
    } }))
}
