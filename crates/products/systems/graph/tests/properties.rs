//! For any graph, order of events and outcomes: a run ends within its bounds, no visit begins twice, and a replay gives
//! the same run.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::Part;
use proptest::prelude::*;
use serde_json::{Value, json};
use systems_graph::{End, Finish, NodeEvent, Run, RunAction, System, SystemGraph, VisitId};

const WORDS: [&str; 3] = ["red", "green", "blue"];

#[derive(Clone, Debug)]
struct Plan {
    /// For every node but the first: the earlier node that leads to it.
    trunk: Vec<u8>,
    /// Further edges: from, to, condition, on.
    edges: Vec<(u8, u8, u8, u8)>,
    joins: Vec<(u8, u8, u8)>,
    retries: Vec<u8>,
    asks: Vec<u8>,
    max_turns: u32,
}

fn plans() -> impl Strategy<Value = Plan> {
    let five = || any::<(u8, u8, u8, u8)>();
    (
        prop::collection::vec(any::<u8>(), 0..7),
        prop::collection::vec(five(), 0..9),
        prop::collection::vec(any::<(u8, u8, u8)>(), 0..4),
        prop::collection::vec(any::<u8>(), 0..3),
        prop::collection::vec(any::<u8>(), 0..3),
        1..5_u32,
    )
        .prop_map(|(trunk, edges, joins, retries, asks, max_turns)| Plan {
            trunk,
            edges,
            joins,
            retries,
            asks,
            max_turns,
        })
}

impl Plan {
    fn graph(&self) -> Arc<SystemGraph> {
        let count = self.trunk.len() + 1;
        let name = |i: usize| format!("n{i}");
        let pick = |byte: u8| usize::from(byte) % count;
        let mut edges: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
        let asks: BTreeSet<usize> = self.asks.iter().map(|byte| pick(*byte)).collect();
        let mut put = |from: usize, to: usize, condition: u8, on: u8| {
            let mut edge = json!({ "to": name(to) });
            match condition % 5 {
                0 => edge["condition"] = json!({ "output_contains": "red" }),
                1 => edge["condition"] = json!({ "output_not_contains": "blue" }),
                2 => edge["condition"] = json!({ "default": true }),
                _ => {}
            }
            match on % 6 {
                0 => edge["on"] = "failed".into(),
                1 if asks.contains(&from) => edge["on"] = "denied".into(),
                _ => {}
            }
            let out = edges.entry(from).or_default();
            let is_default = |edge: &Value| edge["condition"]["default"] == true;
            let clash = |known: &Value| *known == edge || (is_default(known) && is_default(&edge));
            if !out.iter().any(clash) {
                out.push(edge);
            }
        };
        for (i, from) in self.trunk.iter().enumerate() {
            put(usize::from(*from) % (i + 1), i + 1, 3, 3);
        }
        for (from, to, condition, on) in &self.edges {
            put(pick(*from), pick(*to), *condition, *on);
        }
        let mut graph = serde_json::Map::new();
        for i in 0..count {
            graph.insert(name(i), json!({ "agent": "x", "edges": edges.get(&i).cloned().unwrap_or_default() }));
        }
        let mut sources: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for (from, out) in &edges {
            for edge in out {
                sources.entry(edge["to"].as_str().unwrap().to_owned()).or_default().insert(*from);
            }
        }
        for (at, mode, failure) in &self.joins {
            let (at, lead) = (name(pick(*at)), sources.get(&name(pick(*at))).map_or(0, BTreeSet::len));
            if lead == 0 {
                continue;
            }
            let on_failure = ["deadletter", "skip", "continue_partial"][usize::from(*failure) % 3];
            graph[&at]["join"] = match mode % 3 {
                0 => json!({ "on_failure": on_failure }),
                1 => {
                    json!({ "mode": "quorum", "quorum_count": 1 + usize::from(*mode) % lead, "on_failure": on_failure })
                }
                _ => json!({ "mode": "quorum", "quorum_percent": 1 + mode % 100, "on_failure": on_failure }),
            };
        }
        for byte in &self.retries {
            graph[&name(pick(*byte))]["retries"] = (byte % 3).into();
        }
        for at in &asks {
            graph[&name(*at)]["approval"] = json!({});
        }
        let system = json!({ "graph": graph, "entry": "n0", "max_turns": self.max_turns });
        let system: System = serde_json::from_value(system).unwrap();
        system.check(|_| true).unwrap_or_else(|wrong| panic!("{wrong:?} in {system:?}")).into()
    }
}

fn input() -> Vec<Part> {
    vec![Part::text("in")]
}

/// The events given to a run and the actions it requested so far.
#[derive(Default)]
struct Seen {
    events: Vec<NodeEvent>,
    started: Vec<VisitId>,
    asked: Vec<VisitId>,
    finish: Option<Finish>,
}

impl Seen {
    fn take(&mut self, actions: &[RunAction]) {
        for action in actions {
            assert!(self.finish.is_none(), "{action:?} after the end");
            match action {
                RunAction::Start(start) => {
                    assert!(!self.started.contains(&start.visit), "{} begins twice", start.visit);
                    self.started.push(start.visit.clone());
                }
                RunAction::Ask { visit, .. } => {
                    assert!(!self.asked.contains(visit) && !self.started.contains(visit), "{visit} is asked for twice");
                    self.asked.push(visit.clone());
                }
                RunAction::Cancel(_) => {}
                RunAction::Finish(finish) => self.finish = Some(finish.clone()),
            }
        }
    }
}

/// The next event, chosen by `die` among the active visits.
fn next(run: &Run, die: u8, outcome: u8) -> Option<NodeEvent> {
    let under_way = run.outstanding();
    let action = under_way.get(usize::from(die) % under_way.len().max(1))?;
    Some(match action {
        RunAction::Start(start) => {
            let end = match outcome % 4 {
                0 => End::Failed("broken".into()),
                n => End::Completed(vec![Part::text(WORDS[usize::from(n) - 1])]),
            };
            NodeEvent::Ended { visit: start.visit.clone(), end }
        }
        RunAction::Ask { visit, .. } if outcome.is_multiple_of(3) => {
            NodeEvent::Denied { visit: visit.clone(), reason: None }
        }
        RunAction::Ask { visit, .. } => NodeEvent::Approved { visit: visit.clone() },
        RunAction::Cancel(_) | RunAction::Finish(_) => return None,
    })
}

/// Plays a run to its end, in at most `steps` steps.
fn play(graph: &Arc<SystemGraph>, dice: &[(u8, u8)], steps: usize) -> (Run, Seen) {
    let (mut run, actions) = Run::start(graph.clone(), input());
    let mut seen = Seen::default();
    seen.take(&actions);
    for step in 0..steps {
        let (die, outcome) = dice[step % dice.len()];
        let Some(event) = next(&run, die, outcome) else { break };
        let actions = run.apply(event.clone()).unwrap();
        seen.events.push(event);
        seen.take(&actions);
    }
    (run, seen)
}

fn dice() -> impl Strategy<Value = Vec<(u8, u8)>> {
    prop::collection::vec(any::<(u8, u8)>(), 1..40)
}

/// An end, an answer and a start for every possible visit.
fn bound(graph: &SystemGraph) -> usize {
    3 * graph.most_visits() as usize
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_within_its_bounds_and_begins_nothing_twice(plan in plans(), dice in dice()) {
        let graph = plan.graph();
        let (run, seen) = play(&graph, &dice, bound(&graph));
        prop_assert!(seen.finish.is_some(), "{:?}", run.outstanding());
        prop_assert!(seen.started.len() as u64 <= graph.most_visits());
        for (node, starts) in run.starts() {
            prop_assert!(starts <= graph.max_turns() * 3, "{node}");
        }
    }

    #[test]
    fn a_run_told_again_from_any_prefix_wants_what_is_left_and_nothing_that_is_over(plan in plans(), dice in dice()) {
        let graph = plan.graph();
        let (whole, seen) = play(&graph, &dice, bound(&graph));
        for length in 0..=seen.events.len() {
            let told = &seen.events[..length];
            let again = Run::replay(graph.clone(), input(), told.iter().cloned()).unwrap();
            let (live, until_now) = play(&graph, &dice, length);
            prop_assert_eq!(again.outstanding(), live.outstanding());
            // The outstanding actions are exactly the requested ones that are not over.
            let over: BTreeSet<&VisitId> = told.iter().filter_map(|event| match event {
                NodeEvent::Ended { visit, .. } | NodeEvent::Denied { visit, .. } => Some(visit),
                NodeEvent::Approved { .. } | NodeEvent::Cancelled => None,
            }).collect();
            let mut left: Vec<VisitId> = Vec::new();
            for action in again.outstanding() {
                match action {
                    RunAction::Start(start) => {
                        prop_assert!(until_now.started.contains(&start.visit));
                        left.push(start.visit);
                    }
                    RunAction::Ask { visit, .. } => {
                        prop_assert!(until_now.asked.contains(&visit));
                        left.push(visit);
                    }
                    RunAction::Cancel(visit) => left.push(visit),
                    RunAction::Finish(_) => {}
                }
            }
            prop_assert!(left.iter().all(|visit| !over.contains(visit)));
            for visit in until_now.started.iter().chain(&until_now.asked) {
                prop_assert_eq!(left.contains(visit), !over.contains(visit), "{}", visit);
            }
            // The replayed run continues to the same end.
            let mut again = again;
            for event in &seen.events[length..] {
                again.apply(event.clone()).unwrap();
            }
            prop_assert_eq!(again.finish(), whole.finish());
        }
    }

    #[test]
    fn a_cancel_stops_everything(plan in plans(), dice in dice(), when in 0..30_usize) {
        let graph = plan.graph();
        let (mut run, seen) = play(&graph, &dice, when);
        let under_way = run.outstanding().len();
        let actions = run.apply(NodeEvent::Cancelled).unwrap();
        if seen.finish.is_some() {
            prop_assert!(actions.is_empty(), "the first end stays");
            return Ok(());
        }
        prop_assert_eq!(actions.len(), under_way + 1);
        prop_assert_eq!(actions.last(), Some(&RunAction::Finish(Finish::Canceled)));
        let mut cancelled = Vec::new();
        for action in actions {
            if let RunAction::Cancel(visit) = action {
                cancelled.push(visit);
            }
        }
        // Their later events have no effect.
        for visit in cancelled {
            let ended = NodeEvent::Ended { visit: visit.clone(), end: End::Completed(input()) };
            let said = run.apply(ended).or_else(|_| run.apply(NodeEvent::Approved { visit }));
            prop_assert_eq!(said, Ok(Vec::new()));
        }
        prop_assert_eq!(run.outstanding(), vec![RunAction::Finish(Finish::Canceled)]);
    }

    #[test]
    fn a_quorum_begins_at_the_very_result_that_makes_it(
        branches in 1..12_usize,
        need in 1..12_usize,
        order in Just((0..12_usize).collect::<Vec<_>>()).prop_shuffle(),
        fails in prop::collection::vec(any::<bool>(), 12),
    ) {
        let need = need.min(branches);
        let edges: Vec<Value> = (0..branches).map(|i| json!({ "to": format!("b{i:02}") })).collect();
        let mut nodes = json!({ "a": { "edges": edges } });
        for i in 0..branches {
            nodes[format!("b{i:02}")] = json!({ "next": "j" });
        }
        nodes["j"] = json!({ "join": { "mode": "quorum", "quorum_count": need } });
        let system: System = serde_json::from_value(json!({ "graph": nodes })).unwrap();
        let (mut run, _) = Run::start(Arc::new(system.check(|_| true).unwrap()), input());
        let ended = |node: String, fails: bool| NodeEvent::Ended {
            visit: VisitId { node: node.clone().into(), n: 1 },
            end: if fails { End::Failed("broken".into()) } else { End::Completed(vec![Part::text(node)]) },
        };
        run.apply(ended("a".into(), false)).unwrap();
        let (mut good, mut bad) = (Vec::new(), 0);
        for i in order.into_iter().filter(|i| *i < branches) {
            let actions = run.apply(ended(format!("b{i:02}"), fails[i])).unwrap();
            if fails[i] { bad += 1 } else { good.push(format!("b{i:02}")) }
            if bad > branches - need {
                prop_assert!(matches!(actions.last(), Some(RunAction::Finish(Finish::Failed { .. }))), "{actions:?}");
                return Ok(());
            }
            if good.len() < need {
                prop_assert!(actions.is_empty(), "{actions:?}");
                continue;
            }
            let [RunAction::Start(start)] = &actions[..] else { panic!("{actions:?}") };
            good.sort();
            let parts: Vec<String> = start.input.iter().filter_map(|part| part.as_text().map(Into::into)).collect();
            prop_assert_eq!(parts, good, "its inputs, in the graph's order");
            return Ok(());
        }
        prop_assert!(false, "neither enough nor too few");
    }
}
