//! Validates a system and reports every error at once, each with the path of the member to change.

use std::collections::HashMap;
use std::fmt;

use crate::graph::{GraphEdge, GraphNode, SystemGraph, When};
use crate::spec::{self, Join, JoinMode, System};

/// Nodes of one graph.
pub const MAX_NODES: usize = 1_000;
/// Edges of one graph.
pub const MAX_EDGES: usize = 10_000;
/// The largest `max_turns`.
pub const MAX_TURNS: u32 = 1_000;
/// The largest `retries`.
pub const MAX_RETRIES: u32 = 100;
const MAX_NAME: usize = 128;

/// One error in a system, for its author.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Such as `graph.check.edges[1].to`.
    pub path: String,
    pub says: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.says)
    }
}

impl System {
    /// The graph, if there are no errors. `is_agent` decides which agents exist.
    pub fn check(&self, is_agent: impl Fn(&str) -> bool) -> Result<SystemGraph, Vec<Error>> {
        let mut check = Check { wrong: Vec::new() };
        let Some(mut graph) = check.nodes(self, &is_agent) else { return Err(check.wrong) };
        check.edges(self, &mut graph);
        if check.wrong.is_empty() {
            check.joins(self, &mut graph);
            check.ways(self, &mut graph);
        }
        if check.wrong.is_empty() { Ok(graph) } else { Err(check.wrong) }
    }
}

struct Check {
    wrong: Vec<Error>,
}

impl Check {
    fn say(&mut self, path: impl Into<String>, says: impl Into<String>) {
        self.wrong.push(Error { path: path.into(), says: says.into() });
    }

    /// The nodes: first those with an entry of their own, then those that only edges name.
    fn nodes(&mut self, system: &System, is_agent: &impl Fn(&str) -> bool) -> Option<SystemGraph> {
        for (i, agent) in system.agents.iter().enumerate() {
            if system.agents[..i].contains(agent) {
                self.say(format!("agents[{i}]"), format!("{agent:?} is there twice; leave one out"));
            }
        }
        let mut names: Vec<(&str, String)> = Vec::new();
        if system.graph.is_empty() {
            names.extend(system.agents.iter().enumerate().map(|(i, name)| (name.as_str(), format!("agents[{i}]"))));
        }
        names.extend(system.graph.0.iter().map(|(name, _)| (name.as_str(), format!("graph.{name}"))));
        for (name, node) in &system.graph.0 {
            let next = node.next.iter().map(|next| (next.trim(), format!("graph.{name}.next")));
            let edges = node.edges.iter().enumerate();
            let edges = edges.map(|(i, edge)| (edge.to.trim(), format!("graph.{name}.edges[{i}].to")));
            for (to, path) in next.chain(edges) {
                if !names.iter().any(|(known, _)| *known == to) {
                    names.push((to, path));
                }
            }
        }
        if names.is_empty() {
            self.say("graph", "there is no node; write graph, or the agents that work one after another as agents");
            return None;
        }
        if names.len() > MAX_NODES {
            self.say("graph", format!("{} nodes are too many; {MAX_NODES} is the most", names.len()));
            return None;
        }
        let mut nodes = Vec::with_capacity(names.len());
        for (name, path) in &names {
            let written = system.graph.0.iter().find(|(known, _)| known == name).map(|(_, node)| node);
            let agent = written.and_then(|node| node.agent.as_deref()).unwrap_or(name);
            let well_named = |c: char| !c.is_control() && !matches!(c, '/' | '#');
            if name.trim().is_empty() || name.len() > MAX_NAME || !name.chars().all(well_named) {
                self.say(path, format!("{name:?} is no name for a node; use up to {MAX_NAME} bytes, without / and #"));
            } else if !is_agent(agent) {
                let path = if agent == *name { path.clone() } else { format!("{path}.agent") };
                self.say(path, format!("there is no agent {agent:?}; write one of that name under agents"));
            } else if !system.agents.is_empty() && !system.agents.iter().any(|listed| listed == agent) {
                self.say(path, format!("{agent:?} is not among the system's agents; add it there"));
            }
            let node = written.cloned().unwrap_or_default();
            if node.retries > MAX_RETRIES {
                self.say(
                    format!("{path}.retries"),
                    format!("{} are too many; {MAX_RETRIES} is the most", node.retries),
                );
            }
            let question = node.approval.map(|approval| approval.ask.unwrap_or_else(|| format!("May {name} begin?")));
            if question.as_ref().is_some_and(|ask| ask.trim().is_empty()) {
                self.say(format!("{path}.approval.ask"), "is empty; say what to ask, or leave it out");
            }
            nodes.push(GraphNode {
                name: (*name).into(),
                agent: agent.into(),
                out: Vec::new(),
                sources: Vec::new(),
                join: node.join.unwrap_or_default(),
                gathers: node.join.is_some(),
                retries: node.retries,
                question,
            });
        }
        if !system.graph.is_empty() {
            for (i, agent) in system.agents.iter().enumerate() {
                if !nodes.iter().any(|node| *node.agent == **agent) {
                    self.say(
                        format!("agents[{i}]"),
                        format!("{agent:?} has no place in the graph; give it one or leave it out"),
                    );
                }
            }
        }
        Some(SystemGraph { nodes, entries: Vec::new(), max_turns: 1 })
    }

    fn edges(&mut self, system: &System, graph: &mut SystemGraph) {
        if system.graph.is_empty() {
            for node in 1..graph.nodes.len() {
                let edge = GraphEdge { to: node, on: spec::On::Completed, when: When::Always, condition: None };
                graph.nodes[node - 1].out.push(edge);
            }
        }
        let index: HashMap<String, usize> =
            graph.nodes.iter().enumerate().map(|(i, node)| (node.name.to_string(), i)).collect();
        let mut count = 0;
        for (name, node) in &system.graph.0 {
            let Some(from) = index.get(name.as_str()).copied() else { continue };
            let next = node.next.as_ref().map(|to| spec::EdgeSpec { to: to.clone(), ..spec::EdgeSpec::default() });
            let path = |i: Option<usize>| match i {
                Some(i) => format!("graph.{name}.edges[{i}]"),
                None => format!("graph.{name}.next"),
            };
            let all: Vec<(Option<usize>, &spec::EdgeSpec)> = next
                .iter()
                .map(|edge| (None, edge))
                .chain(node.edges.iter().enumerate().map(|(i, e)| (Some(i), e)))
                .collect();
            for (place, (i, edge)) in all.iter().enumerate() {
                count += 1;
                let same = |(_, other): &&(Option<usize>, &spec::EdgeSpec)| {
                    (other.to.trim(), other.on, &other.condition) == (edge.to.trim(), edge.on, &edge.condition)
                };
                if let Some((other, _)) = all[..place].iter().find(same) {
                    self.say(path(*i), format!("is the same edge as {}; leave one out", path(*other)));
                    continue;
                }
                let when = match &edge.condition {
                    None => When::Always,
                    Some(condition) => match condition.test() {
                        Ok(_) if condition.default => When::Otherwise,
                        Ok(test) => When::If(test),
                        Err((member, says)) => {
                            let member = if member.is_empty() { String::new() } else { format!(".{member}") };
                            self.say(format!("{}.condition{member}", path(*i)), says);
                            continue;
                        }
                    },
                };
                let out = &mut graph.nodes[from].out;
                let second = |known: &GraphEdge| matches!(known.when, When::Otherwise) && known.on == edge.on;
                if matches!(when, When::Otherwise) && out.iter().any(second) {
                    let says = "a node has one default edge at most; leave one out, or give it a condition";
                    self.say(format!("{}.condition.default", path(*i)), says);
                }
                if edge.on == spec::On::Denied && node.approval.is_none() {
                    let says = format!("nobody can deny {name:?}; give it an approval, or leave the edge out");
                    self.say(format!("{}.on", path(*i)), says);
                }
                if let Some(to) = index.get(edge.to.trim()) {
                    out.push(GraphEdge { to: *to, on: edge.on, when, condition: edge.condition.clone() });
                }
            }
        }
        if count > MAX_EDGES {
            self.say("graph", format!("{count} edges are too many; {MAX_EDGES} is the most"));
        }
    }

    fn joins(&mut self, system: &System, graph: &mut SystemGraph) {
        for from in 0..graph.nodes.len() {
            let targets: Vec<usize> = graph.nodes[from].out.iter().map(|edge| edge.to).collect();
            for to in targets {
                if !graph.nodes[to].sources.contains(&from) {
                    graph.nodes[to].sources.push(from);
                }
            }
        }
        for node in &mut graph.nodes {
            node.gathers |= node.sources.len() > 1;
        }
        for (name, node) in &system.graph.0 {
            let Some(join) = node.join else { continue };
            let sources = graph.index(name).map_or(0, |i| graph.nodes[i].sources.len());
            let path = format!("graph.{name}.join");
            if sources == 0 {
                self.say(&path, "no edge leads here, so there is nothing to join; leave it out");
                continue;
            }
            self.quorum(&path, join, sources);
        }
    }

    fn quorum(&mut self, path: &str, join: Join, sources: usize) {
        match (join.mode, join.quorum_count, join.quorum_percent) {
            (JoinMode::WaitForAll, None, None) => {}
            (JoinMode::WaitForAll, _, _) => {
                self.say(path, "a number is written, and mode is wait_for_all; write mode: quorum, or leave it out");
            }
            (JoinMode::Quorum, Some(_), Some(_)) => {
                self.say(path, "quorum_count and quorum_percent are both written; leave one out");
            }
            (JoinMode::Quorum, None, None) => self.say(path, "a quorum needs quorum_count or quorum_percent"),
            (JoinMode::Quorum, Some(count), None) => {
                if count == 0 || count as usize > sources {
                    let says =
                        format!("{count} is out of range; {sources} edges lead here, so choose from 1 to {sources}");
                    self.say(format!("{path}.quorum_count"), says);
                }
            }
            (JoinMode::Quorum, None, Some(percent)) => {
                if !(1..=100).contains(&percent) {
                    self.say(
                        format!("{path}.quorum_percent"),
                        format!("{percent} is out of range; choose from 1 to 100"),
                    );
                }
            }
        }
    }

    /// Determines the entry nodes, and checks that every node is reachable and that loops are bounded.
    fn ways(&mut self, system: &System, graph: &mut SystemGraph) {
        graph.entries = match &system.entry {
            Some(name) => match graph.index(name.trim()) {
                Some(entry) => vec![entry],
                None => {
                    let says = format!("there is no node {name:?}; write the name of one of the graph");
                    return self.say("entry", says);
                }
            },
            None => (0..graph.nodes.len()).filter(|i| graph.nodes[*i].sources.is_empty()).collect(),
        };
        let ring = graph.ring();
        if graph.entries.is_empty() {
            // Only rings: the run begins with the first listed agent.
            let first =
                system.agents.iter().find_map(|agent| graph.nodes.iter().position(|node| *node.name == **agent));
            graph.entries = vec![first.unwrap_or(0)];
        }
        let reached = graph.reach(graph.entries.clone(), |_, _| true);
        for (i, node) in graph.nodes.iter().enumerate() {
            if !reached[i] {
                let what = if node.gathers { "this join" } else { "it" };
                let says =
                    format!("{what} cannot be reached from where a run begins; lead an edge there, or leave it out");
                self.say(format!("graph.{}", node.name), says);
            }
        }
        match (system.max_turns, ring) {
            (Some(turns), _) if turns == 0 || turns > MAX_TURNS => {
                self.say("max_turns", format!("{turns} is out of range; choose from 1 to {MAX_TURNS}"));
            }
            (Some(turns), Some(_)) => graph.max_turns = turns,
            // Without loops every node is visited once.
            (Some(_) | None, None) => graph.max_turns = 1,
            (None, Some(ring)) => {
                let names: Vec<&str> = ring.iter().map(|i| &*graph.nodes[*i].name).collect();
                let first = names.first().copied().unwrap_or_default();
                let says = format!("the loop {} has no bound; write max_turns for the system", names.join(" → "));
                self.say(format!("graph.{first}"), says);
            }
        }
    }
}
