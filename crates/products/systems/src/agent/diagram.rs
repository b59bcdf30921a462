//! The graph of a system for operators, with the status of a task on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::ports::agent::Look;
use model::{Body, Json, Task, Time};
use serde_json::{Value, json};
use systems_graph::{SystemGraph, VisitId};

use super::journal::{KEY, RunEntry, RunStep};

pub(super) fn draw(name: &str, graph: &SystemGraph, look: Option<Look<'_>>) -> Json {
    let mut diagram = serde_json::to_value(graph.diagram()).unwrap_or_default();
    diagram["system"] = name.into();
    if let Some(task) = look.and_then(|look| Some((look, Task::fold(look.log).ok()??))) {
        show(&mut diagram, graph, task.0, &task.1);
    }
    Json::from_value(&diagram)
}

/// One visit of a node.
#[derive(Default)]
struct Visit {
    state: &'static str,
    began: Option<Time>,
    ended: Option<Time>,
    child: Option<String>,
    reason: Option<String>,
}

impl Visit {
    fn is_under_way(&self) -> bool {
        !["done", "failed", "denied", "cancelled"].contains(&self.state)
    }
}

fn show(diagram: &mut Value, graph: &SystemGraph, look: Look<'_>, task: &Task) {
    let steps = look.log.iter().filter_map(|event| match &event.body {
        Body::Status(change) => Some((event.at, RunEntry::of(change.message.as_ref()?)?)),
        Body::Opened(_)
        | Body::Message(_)
        | Body::TurnStarted { .. }
        | Body::Bound { .. }
        | Body::Artifact(_)
        | Body::Replied(_)
        | Body::Metadata(_)
        | Body::CancelRequested { .. } => None,
    });
    let steps: Vec<(Time, RunEntry)> = steps.collect();
    let runs: BTreeSet<&str> = steps.iter().map(|(_, entry)| &*entry.run).collect();
    let newest = steps.last().map(|(_, entry)| entry.run.clone());
    let of_run = || steps.iter().filter(|(_, entry)| Some(&entry.run) == newest.as_ref());
    let over = task.core.is_settled() || steps.last().is_some_and(|(_, entry)| entry.state == RunStep::Finished);
    let mut visits: BTreeMap<VisitId, Visit> = BTreeMap::new();
    for (at, entry) in of_run() {
        if let Some(id) = entry.visit() {
            note(visits.entry(id).or_default(), *at, entry);
        }
    }
    if over {
        visits.values_mut().filter(|visit| visit.is_under_way()).for_each(|visit| visit.state = "cancelled");
    }
    let active: Vec<&str> = visits.iter().filter(|(_, visit)| visit.is_under_way()).map(|(id, _)| &*id.node).collect();
    // Before its first step every node of a run is still ahead.
    let all_ahead = visits.is_empty() && !over;
    let ahead = graph.ahead(active.iter().copied());
    let children: BTreeMap<String, &Arc<Task>> =
        look.children.iter().map(|child| (child.id.to_string(), child)).collect();
    let taken = taken(&visits, &children);
    for node in diagram["nodes"].as_array_mut().into_iter().flatten() {
        let name = node["node"].as_str().unwrap_or_default().to_owned();
        let of_node: Vec<(&VisitId, &Visit)> = visits.iter().filter(|(id, _)| *id.node == *name).collect();
        let unseen = if !over && (all_ahead || ahead.contains(&&*name)) { "waiting" } else { "skipped" };
        node["state"] = of_node.last().map_or(unseen, |(_, visit)| visit.state).into();
        node["visits"] = of_node.iter().map(|(id, visit)| shown(id, visit, &children)).collect();
        for edge in node["edges"].as_array_mut().into_iter().flatten() {
            let to = edge["to"].as_str().unwrap_or_default().to_owned();
            edge["taken"] = taken.get(&(name.clone(), to)).copied().unwrap_or(0).into();
        }
    }
    diagram["task"] = json!({
        "id": task.id.to_string(),
        "state": task.state().word(),
        "run": newest,
        "runs": runs.len(),
        "attempts": task.core.starts,
        "over": over,
        "message": task.status.message.as_ref().map(|message| message.text()),
    });
}

fn note(visit: &mut Visit, at: Time, entry: &RunEntry) {
    visit.child = entry.child.clone().or(visit.child.take());
    match entry.state {
        RunStep::Started => (visit.state, visit.began) = ("running", Some(at)),
        RunStep::Completed => (visit.state, visit.ended) = ("done", Some(at)),
        RunStep::Failed => (visit.state, visit.ended) = ("failed", Some(at)),
        RunStep::Approval => visit.state = "waiting for approval",
        RunStep::Approved => visit.state = "waiting",
        RunStep::Denied => (visit.state, visit.ended) = ("denied", Some(at)),
        RunStep::Question => visit.state = "waiting for an answer",
        RunStep::Answered => visit.state = "running",
        RunStep::Began | RunStep::Finished => {}
    }
    visit.reason = entry.reason.clone().or(visit.reason.take());
}

/// How often each edge was taken: from the results that a visit's task was opened with.
fn taken(
    visits: &BTreeMap<VisitId, Visit>,
    children: &BTreeMap<String, &Arc<Task>>,
) -> BTreeMap<(String, String), u32> {
    let mut ways: BTreeSet<(VisitId, String)> = BTreeSet::new();
    for (id, visit) in visits {
        let child = visit.child.as_ref().and_then(|child| children.get(child));
        let link = child.and_then(|child| child.history.first()?.metadata.clone()).map(|json| json.to_value());
        let from = link.as_ref().and_then(|link| link[KEY]["from"].as_array().cloned()).unwrap_or_default();
        // A retried visit came over the same edges.
        ways.extend(from.iter().filter_map(|from| Some((from.as_str()?.parse().ok()?, id.node.to_string()))));
    }
    let mut taken = BTreeMap::new();
    for (from, to) in ways {
        *taken.entry((from.node.to_string(), to)).or_default() += 1;
    }
    taken
}

fn shown(id: &VisitId, visit: &Visit, children: &BTreeMap<String, &Arc<Task>>) -> Value {
    let child = visit.child.as_ref().and_then(|child| children.get(child));
    let ms = visit.began.zip(visit.ended).map(|(began, ended)| ended.0.saturating_sub(began.0));
    json!({
        "visit": id.n,
        "state": visit.state,
        "child": visit.child,
        "attempts": child.map(|child| child.core.starts),
        "began": visit.began.map(|at| at.to_string()),
        "ended": visit.ended.map(|at| at.to_string()),
        "ms": ms,
        "reason": visit.reason,
    })
}
