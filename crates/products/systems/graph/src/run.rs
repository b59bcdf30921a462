//! The run of a graph as a state machine: events go in, actions come out.
//!
//! A *visit* is one start of a node's agent, named by the node and a number that counts its starts, including retries.
//! When it has ended its result goes along every edge whose condition holds. Where edges meet, a node begins when
//! nothing more can arrive: each edge has delivered something, or no active visit leads to it except through the node
//! itself. So the run does not wait for a branch that was not taken, and a loop does not wait for itself. If two joins
//! of a ring wait only for each other, the first in the graph's order begins.
//!
//! A failure goes along the edges to the next joins, which decide about it; if it reaches an end of the graph without
//! meeting a join that tolerates it, the run fails. The run is over when no visit is active, or only visits whose
//! results no join needs. Its result is the newest result of each node where a branch ended, in the graph's order.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use model::{Json, Part};

use crate::condition::NodeOutput;
use crate::graph::SystemGraph;
use crate::spec::{JoinMode, On, OnFailure};

/// Limit of the total input of all active visits, in bytes. Each visit has its own copy, so a result that goes to many
/// nodes counts once for each.
pub const INPUT_BYTES: usize = 32 << 20;

/// One start of a node's agent: the node, and the number of the start within the run, from 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VisitId {
    pub node: Arc<str>,
    pub n: u32,
}

impl fmt::Display for VisitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.node, self.n)
    }
}

impl FromStr for VisitId {
    type Err = ();
    fn from_str(text: &str) -> Result<VisitId, ()> {
        let (node, n) = text.rsplit_once('#').ok_or(())?;
        Ok(VisitId { node: node.into(), n: n.parse().map_err(|_| ())? })
    }
}

/// An event of a run. Applying the same events in the same order replays the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    Ended {
        visit: VisitId,
        end: End,
    },
    /// The visit was approved and may begin.
    Approved {
        visit: VisitId,
    },
    Denied {
        visit: VisitId,
        reason: Option<String>,
    },
    /// The run was cancelled.
    Cancelled,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Completed(Vec<Part>),
    /// The reason.
    Failed(String),
}

/// An action that the run requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunAction {
    Start(VisitStart),
    /// Ask whether the visit may begin; it waits for [`NodeEvent::Approved`] or [`NodeEvent::Denied`].
    Ask {
        visit: VisitId,
        question: String,
        input: Vec<Part>,
    },
    /// The visit's result is no longer needed.
    Cancel(VisitId),
    /// The run is over; always the last action.
    Finish(Finish),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VisitStart {
    pub visit: VisitId,
    pub agent: Arc<str>,
    pub input: Vec<Part>,
    /// The visits whose results form the input, in order; empty where the run begins.
    pub from: Vec<VisitId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    Completed {
        result: Vec<Part>,
        /// The visits that produced the result.
        from: Vec<VisitId>,
        /// A loop was ended by `max_turns`.
        cut: bool,
    },
    Failed {
        /// The failed visit, unless the failure is of the run as a whole.
        visit: Option<VisitId>,
        reason: String,
    },
    Canceled,
}

/// An event that does not fit the run's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unexpected(pub VisitId);

impl fmt::Display for Unexpected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not under way", self.0)
    }
}

/// The state of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisitState {
    Asking,
    Running,
    Ended,
}

#[derive(Clone, Debug)]
pub struct Run {
    graph: Arc<SystemGraph>,
    nodes: Vec<NodeState>,
    /// Visits that have not ended, in order of creation.
    active: Vec<Visit>,
    /// By node: its newest result, where a branch ended.
    ends: BTreeMap<usize, NodeResult>,
    /// The same for loops that `max_turns` ended.
    cuts: BTreeMap<usize, NodeResult>,
    finish: Option<Finish>,
}

#[derive(Clone, Debug, Default)]
struct NodeState {
    /// How often the run has come to this node.
    turns: u32,
    /// How often its agent was started or its approval requested.
    starts: u32,
    /// By source: arrivals that were not consumed yet.
    inbox: Vec<VecDeque<Arrival>>,
    /// By source: the number of future arrivals that belong to a join that has begun without them.
    owed: Vec<u32>,
}

#[derive(Clone, Debug)]
enum Arrival {
    Result(NodeResult),
    Failed(VisitId, String),
}

/// The result of a visit.
#[derive(Clone, Debug)]
struct NodeResult {
    from: VisitId,
    parts: Arc<[Part]>,
}

#[derive(Clone, Debug)]
struct Visit {
    id: VisitId,
    node: usize,
    asking: bool,
    retries: u32,
    input: Arc<[Part]>,
    from: Vec<VisitId>,
}

impl Run {
    /// Begins a run, and returns the first actions.
    pub fn start(graph: Arc<SystemGraph>, input: Vec<Part>) -> (Run, Vec<RunAction>) {
        let nodes = graph.nodes.iter().map(|node| NodeState {
            inbox: vec![VecDeque::new(); node.sources.len()],
            owed: vec![0; node.sources.len()],
            ..NodeState::default()
        });
        let nodes = nodes.collect();
        let (ends, cuts) = (BTreeMap::new(), BTreeMap::new());
        let mut run = Run { graph: graph.clone(), nodes, active: Vec::new(), ends, cuts, finish: None };
        let input: Arc<[Part]> = input.into();
        let mut actions = Vec::new();
        for entry in &graph.entries {
            run.begin(*entry, input.clone(), Vec::new(), &mut actions);
        }
        run.settle(&mut actions);
        (run, actions)
    }

    /// Replays a run. The remaining actions are then [`Run::outstanding`].
    pub fn replay(
        graph: Arc<SystemGraph>,
        input: Vec<Part>,
        events: impl IntoIterator<Item = NodeEvent>,
    ) -> Result<Run, Unexpected> {
        let (mut run, _) = Run::start(graph, input);
        for event in events {
            run.apply(event)?;
        }
        Ok(run)
    }

    /// The requested actions without a closing event: visits that have not ended, unanswered questions, the end.
    pub fn outstanding(&self) -> Vec<RunAction> {
        if let Some(finish) = &self.finish {
            let mut actions: Vec<RunAction> =
                self.active.iter().map(|visit| RunAction::Cancel(visit.id.clone())).collect();
            actions.push(RunAction::Finish(finish.clone()));
            return actions;
        }
        self.active.iter().map(|visit| self.action(visit)).collect()
    }

    /// How the run ended, if it has.
    pub fn finish(&self) -> Option<&Finish> {
        self.finish.as_ref()
    }

    pub fn graph(&self) -> &Arc<SystemGraph> {
        &self.graph
    }

    /// The state of a visit; `None` for one that the run has not created.
    pub fn stand(&self, visit: &VisitId) -> Option<VisitState> {
        if let Some(active) = self.active.iter().find(|active| active.id == *visit) {
            return Some(if active.asking { VisitState::Asking } else { VisitState::Running });
        }
        let node = self.graph.index(&visit.node)?;
        (1..=self.nodes[node].starts).contains(&visit.n).then_some(VisitState::Ended)
    }

    /// How often each node was started, in the graph's order.
    pub fn starts(&self) -> impl Iterator<Item = (&str, u32)> {
        self.graph.nodes.iter().zip(&self.nodes).map(|(node, state)| (&*node.name, state.starts))
    }

    /// Applies an event. An event that no visit waits for is refused and changes nothing. After the end of the run
    /// visits may still end, without effect.
    pub fn apply(&mut self, event: NodeEvent) -> Result<Vec<RunAction>, Unexpected> {
        let over = self.finish.is_some();
        let mut actions = Vec::new();
        match event {
            NodeEvent::Ended { visit, end } => {
                let visit = self.take(&visit, false)?;
                match end {
                    End::Completed(_) | End::Failed(_) if over => {}
                    End::Completed(parts) => self.completed(&visit, parts.into()),
                    End::Failed(_) if visit.retries > 0 => self.again(visit, &mut actions),
                    End::Failed(reason) => self.failed(&visit, On::Failed, reason),
                }
            }
            NodeEvent::Approved { visit } => {
                let mut visit = self.take(&visit, true)?;
                visit.asking = false;
                if !over {
                    actions.push(self.action(&visit));
                    self.active.push(visit);
                }
            }
            NodeEvent::Denied { visit, reason } => {
                let visit = self.take(&visit, true)?;
                if !over {
                    let reason = reason.unwrap_or_else(|| format!("{} was denied", visit.id.node));
                    self.failed(&visit, On::Denied, reason);
                }
            }
            NodeEvent::Cancelled => {
                if !over {
                    self.finish = Some(Finish::Canceled);
                }
            }
        }
        if !over {
            self.settle(&mut actions);
        }
        Ok(actions)
    }

    fn take(&mut self, id: &VisitId, asking: bool) -> Result<Visit, Unexpected> {
        let place = self.active.iter().position(|visit| visit.id == *id && visit.asking == asking);
        place.map(|place| self.active.remove(place)).ok_or_else(|| Unexpected(id.clone()))
    }

    fn action(&self, visit: &Visit) -> RunAction {
        let node = &self.graph.nodes[visit.node];
        match (visit.asking, &node.question) {
            (true, Some(question)) => {
                RunAction::Ask { visit: visit.id.clone(), question: question.clone(), input: visit.input.to_vec() }
            }
            (true | false, _) => RunAction::Start(VisitStart {
                visit: visit.id.clone(),
                agent: node.agent.clone(),
                input: visit.input.to_vec(),
                from: visit.from.clone(),
            }),
        }
    }

    /// Creates a visit of the node.
    fn begin(&mut self, node: usize, input: Arc<[Part]>, from: Vec<VisitId>, actions: &mut Vec<RunAction>) {
        let weight = weight(&input);
        // The first input is the caller's message, which the server has already limited.
        if self.finish.is_some() || (!(from.is_empty() && self.active.is_empty()) && self.is_too_much(node, weight)) {
            return;
        }
        let known = &self.graph.nodes[node];
        let state = &mut self.nodes[node];
        state.turns += 1;
        state.starts += 1;
        let id = VisitId { node: known.name.clone(), n: state.starts };
        let visit = Visit { id, node, asking: known.question.is_some(), retries: known.retries, input, from };
        actions.push(self.action(&visit));
        self.active.push(visit);
    }

    /// Whether one more input of this weight exceeds the limit; if so, the run fails.
    fn is_too_much(&mut self, node: usize, more: usize) -> bool {
        let under_way = self.active.iter().map(|visit| weight(&visit.input)).sum::<usize>();
        let too_much = under_way + more > INPUT_BYTES;
        if too_much {
            let name = &self.graph.nodes[node].name;
            let reason = format!(
                "{name} would be given {more} bytes while {under_way} are with other nodes, and a run has at most {INPUT_BYTES} bytes of input under way; send less, or let fewer nodes take the results of so many"
            );
            self.finish = Some(Finish::Failed { visit: None, reason });
        }
        too_much
    }

    /// Retries a visit under the next number.
    fn again(&mut self, visit: Visit, actions: &mut Vec<RunAction>) {
        let state = &mut self.nodes[visit.node];
        state.starts += 1;
        let id = VisitId { node: visit.id.node.clone(), n: state.starts };
        let visit = Visit { id, retries: visit.retries - 1, ..visit };
        actions.push(self.action(&visit));
        self.active.push(visit);
    }

    fn completed(&mut self, visit: &Visit, parts: Arc<[Part]>) {
        let result = NodeResult { from: visit.id.clone(), parts };
        let targets = self.graph.taken(visit.node, On::Completed, &NodeOutput::of(&result.parts));
        if targets.is_empty() {
            self.ends.insert(visit.node, result);
            return;
        }
        for target in targets {
            self.arrive(visit.node, target, Arrival::Result(result.clone()));
        }
    }

    fn arrive(&mut self, source: usize, target: usize, arrival: Arrival) {
        let Some(slot) = self.graph.nodes[target].sources.iter().position(|known| *known == source) else { return };
        let state = &mut self.nodes[target];
        if state.owed[slot] > 0 {
            // The join it belongs to has begun without it.
            state.owed[slot] -= 1;
        } else {
            state.inbox[slot].push_back(arrival);
        }
    }

    /// A visit failed finally or was denied: a matching edge handles it, or it goes to the joins.
    fn failed(&mut self, visit: &Visit, on: On, reason: String) {
        let parts: Arc<[Part]> = vec![Part::text(reason.clone())].into();
        let targets = self.graph.taken(visit.node, on, &NodeOutput::of(&parts));
        if !targets.is_empty() {
            let result = NodeResult { from: visit.id.clone(), parts };
            for target in targets {
                self.arrive(visit.node, target, Arrival::Result(result.clone()));
            }
            return;
        }
        let (mut borne, mut ends) = (Vec::new(), false);
        let mut seen = vec![false; self.graph.nodes.len()];
        let mut queue = VecDeque::from([visit.node]);
        seen[visit.node] = true;
        while let Some(node) = queue.pop_front() {
            let mut out = self.graph.nodes[node].out.iter().filter(|edge| edge.on == On::Completed).peekable();
            ends |= out.peek().is_none();
            for edge in out {
                let target = &self.graph.nodes[edge.to];
                if target.gathers {
                    let bears = target.join.mode == JoinMode::Quorum || target.join.on_failure != OnFailure::Deadletter;
                    ends |= !bears;
                    if !borne.contains(&(node, edge.to)) {
                        borne.push((node, edge.to));
                    }
                } else if !std::mem::replace(&mut seen[edge.to], true) {
                    queue.push_back(edge.to);
                }
            }
        }
        if ends {
            self.finish = Some(Finish::Failed { visit: Some(visit.id.clone()), reason });
            return;
        }
        for (source, target) in borne {
            self.arrive(source, target, Arrival::Failed(visit.id.clone(), reason.clone()));
        }
    }

    /// Begins every node that can begin, and ends the run if it is over.
    fn settle(&mut self, actions: &mut Vec<RunAction>) {
        while self.finish.is_none() {
            let waiting: Vec<usize> = (0..self.nodes.len())
                .filter(|node| self.nodes[*node].inbox.iter().any(|slot| !slot.is_empty()))
                .collect();
            if waiting.is_empty() {
                break;
            }
            let begun = waiting.iter().any(|node| self.join(*node, false, actions));
            // Only joins that wait for each other are left.
            if !begun && (!self.active.is_empty() || !self.join(waiting[0], true, actions)) {
                break;
            }
        }
        self.forgive();
        if self.finish.is_none() && self.is_over() {
            self.finish = Some(self.result());
        }
        if self.finish.is_some() {
            // Visits created in this same step are not started.
            actions.retain(|action| match action {
                RunAction::Start(start) => !self.active.iter().any(|visit| visit.id == start.visit),
                RunAction::Ask { visit, .. } => !self.active.iter().any(|active| active.id == *visit),
                RunAction::Cancel(_) | RunAction::Finish(_) => true,
            });
            actions.extend(self.outstanding());
        }
    }

    /// For each edge of a node: whether something may still arrive, other than through the node itself.
    fn coming(&self, node: usize) -> Vec<bool> {
        let waiting = (0..self.nodes.len()).filter(|i| self.nodes[*i].inbox.iter().any(|slot| !slot.is_empty()));
        let from = self.active.iter().map(|visit| visit.node).chain(waiting).filter(|from| *from != node);
        let reached = self.graph.reach(from, |source, target| target != node && !self.is_owed(source, target));
        self.graph.nodes[node].sources.iter().map(|source| reached[*source]).collect()
    }

    fn is_owed(&self, source: usize, target: usize) -> bool {
        let slot = self.graph.nodes[target].sources.iter().position(|known| *known == source);
        slot.is_some_and(|slot| self.nodes[target].owed[slot] > 0)
    }

    /// Begins the node if enough has arrived; with `now`, with whatever has arrived.
    fn join(&mut self, node: usize, now: bool, actions: &mut Vec<RunAction>) -> bool {
        let coming = if now { vec![false; self.nodes[node].inbox.len()] } else { self.coming(node) };
        let (mut good, mut bad, mut open) = (0, 0, 0);
        for ((slot, owed), coming) in self.nodes[node].inbox.iter().zip(&self.nodes[node].owed).zip(&coming) {
            match slot.front() {
                Some(Arrival::Result(_)) => good += 1,
                Some(Arrival::Failed(..)) => bad += 1,
                None if *coming && *owed == 0 => open += 1,
                None => {}
            }
        }
        let join = self.graph.nodes[node].join;
        let branches = good + bad + open;
        let need = match join.mode {
            JoinMode::WaitForAll => branches,
            JoinMode::Quorum => match (join.quorum_count, join.quorum_percent) {
                (Some(count), _) => (count as usize).min(branches),
                (None, Some(percent)) => (branches * percent as usize).div_ceil(100).max(1),
                (None, None) => branches,
            },
        };
        if good < need || good == 0 {
            // Enough may still arrive; and a join that tolerates failures waits for all arrivals.
            if open > 0 && (good + open >= need || join.on_failure != OnFailure::Deadletter) {
                return false;
            }
            if good == 0 || join.on_failure == OnFailure::Deadletter {
                self.finish = Some(self.too_few(node, good, need));
                return true;
            }
        }
        let arrived = self.nodes[node].inbox.iter().filter_map(VecDeque::front).map(|arrival| match arrival {
            Arrival::Result(result) => weight(&result.parts),
            Arrival::Failed(..) => 0,
        });
        let arrived = arrived.sum();
        // Checked before the input is assembled.
        if self.is_too_much(node, arrived) {
            return true;
        }
        let (mut from, mut parts, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        let mut sole: Option<Arc<[Part]>> = None;
        let state = &mut self.nodes[node];
        for ((slot, owed), coming) in state.inbox.iter_mut().zip(&mut state.owed).zip(coming) {
            match slot.pop_front() {
                Some(Arrival::Result(result)) => {
                    parts.extend(result.parts.iter().cloned());
                    sole = from.is_empty().then_some(result.parts);
                    from.push(result.from);
                }
                Some(Arrival::Failed(visit, reason)) => missing.push((visit, reason)),
                None if coming && *owed == 0 => *owed = 1,
                None => {}
            }
        }
        if join.on_failure == OnFailure::ContinuePartial && !missing.is_empty() {
            let told: Vec<_> = missing
                .iter()
                .map(|(visit, reason)| serde_json::json!({ "node": *visit.node, "reason": reason }))
                .collect();
            parts.push(Part::data(Json::from_value(&serde_json::json!({ "failed": told }))));
            sole = None;
        }
        let input: Arc<[Part]> = sole.unwrap_or_else(|| parts.into());
        if self.nodes[node].turns < self.graph.max_turns {
            self.begin(node, input, from, actions);
        } else {
            // The loop ends here; the input of the next round is its result.
            let from = from
                .into_iter()
                .next_back()
                .unwrap_or_else(|| VisitId { node: self.graph.nodes[node].name.clone(), n: 0 });
            self.cuts.insert(node, NodeResult { from, parts: input });
        }
        true
    }

    fn too_few(&self, node: usize, good: usize, need: usize) -> Finish {
        let (name, inbox) = (&self.graph.nodes[node].name, &self.nodes[node].inbox);
        let first = inbox.iter().find_map(|slot| match slot.front() {
            Some(Arrival::Failed(visit, reason)) => Some((visit.clone(), reason)),
            Some(Arrival::Result(_)) | None => None,
        });
        let why =
            first.as_ref().map(|(visit, reason)| format!("; {} failed: {reason}", visit.node)).unwrap_or_default();
        let reason = format!("{good} of the results that {name} waits for came, and it needs {}{why}", need.max(1));
        Finish::Failed { visit: first.map(|(visit, _)| visit), reason }
    }

    /// Clears owed arrivals that can no longer come, so that they are not deducted from those of a later round.
    fn forgive(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].owed.iter().all(|owed| *owed == 0) {
                continue;
            }
            let from = self.active.iter().map(|visit| visit.node).filter(|from| *from != node);
            let reached = self.graph.reach(from, |_, target| target != node);
            for (slot, source) in self.graph.nodes[node].sources.iter().enumerate() {
                if !reached[*source] {
                    self.nodes[node].owed[slot] = 0;
                }
            }
        }
    }

    /// Whether no visit is active, or only visits that lead to joins that have begun without them.
    fn is_over(&self) -> bool {
        if self.active.is_empty() {
            return true;
        }
        let is_waited_for = |visit: &Visit| {
            let reached = self.graph.reach([visit.node], |source, target| !self.is_owed(source, target));
            let owed = (0..reached.len()).any(|source| {
                reached[source] && self.graph.nodes[source].out.iter().any(|edge| self.is_owed(source, edge.to))
            });
            !owed || (0..reached.len()).any(|node| reached[node] && self.graph.may_end(node))
        };
        !self.ends.is_empty() && !self.active.iter().any(is_waited_for)
    }

    fn result(&self) -> Finish {
        let cut = !self.cuts.is_empty();
        let ends = if self.ends.is_empty() { &self.cuts } else { &self.ends };
        if ends.is_empty() {
            return Finish::Failed { visit: None, reason: "no branch of the system came to an end".into() };
        }
        let result = ends.values().flat_map(|end| end.parts.iter().cloned()).collect();
        Finish::Completed { result, from: ends.values().map(|end| end.from.clone()).collect(), cut }
    }
}

fn weight(parts: &[Part]) -> usize {
    parts.iter().map(Part::weight).sum()
}
