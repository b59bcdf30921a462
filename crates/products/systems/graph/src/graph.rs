//! A validated system: nodes in the order of the spec, and the edges between them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::condition::{CompiledCondition, Condition, NodeOutput};
use crate::spec::{Join, On};

/// A checked system. Made by [`System::check`](crate::System::check).
#[derive(Clone, Debug)]
pub struct SystemGraph {
    pub(crate) nodes: Vec<GraphNode>,
    pub(crate) entries: Vec<usize>,
    pub(crate) max_turns: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct GraphNode {
    pub(crate) name: Arc<str>,
    pub(crate) agent: Arc<str>,
    pub(crate) out: Vec<GraphEdge>,
    /// The nodes with an edge to this one, each once, in the graph's order.
    pub(crate) sources: Vec<usize>,
    pub(crate) join: Join,
    /// The spec has a join here, or several edges lead here: the join decides about failures before it.
    pub(crate) gathers: bool,
    pub(crate) retries: u32,
    /// The approval question before it begins.
    pub(crate) question: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct GraphEdge {
    pub(crate) to: usize,
    pub(crate) on: On,
    pub(crate) when: When,
    /// As in the spec.
    pub(crate) condition: Option<Condition>,
}

#[derive(Clone, Debug)]
pub(crate) enum When {
    Always,
    If(CompiledCondition),
    Otherwise,
}

/// A read-only view of a node: for cards, diagrams and the API.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    pub name: &'a str,
    pub agent: &'a str,
    pub asks: bool,
    pub is_entry: bool,
    graph: &'a SystemGraph,
    index: usize,
}

impl<'a> NodeView<'a> {
    /// The targets of its edges, one per edge, with the required end and whether there is a condition.
    pub fn leads_to(&self) -> impl Iterator<Item = (&'a str, On, bool)> + use<'a> {
        let graph = self.graph;
        let out = graph.nodes[self.index].out.iter();
        out.map(move |edge| (&*graph.nodes[edge.to].name, edge.on, !matches!(edge.when, When::Always)))
    }
}

impl SystemGraph {
    /// The agents of its nodes, each once.
    pub fn agents(&self) -> Vec<Arc<str>> {
        let mut all: Vec<Arc<str>> = self.nodes.iter().map(|node| node.agent.clone()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The nodes in the order of the spec.
    pub fn nodes(&self) -> impl Iterator<Item = NodeView<'_>> {
        self.nodes.iter().enumerate().map(|(index, node)| NodeView {
            name: &node.name,
            agent: &node.agent,
            asks: node.question.is_some(),
            is_entry: self.entries.contains(&index),
            graph: self,
            index,
        })
    }

    /// How often a run may visit one node.
    pub fn max_turns(&self) -> u32 {
        self.max_turns
    }

    /// The graph with another loop bound, for callers who may set it per task.
    pub fn with_max_turns(mut self, max_turns: u32) -> SystemGraph {
        if self.ring().is_some() {
            self.max_turns = max_turns.clamp(1, crate::check::MAX_TURNS);
        }
        self
    }

    /// The largest possible number of visits in a run, including retries.
    pub fn most_visits(&self) -> u64 {
        self.nodes.iter().map(|node| u64::from(self.max_turns) * (1 + u64::from(node.retries))).sum()
    }

    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| *node.name == *name)
    }

    /// The targets of a node's result, each once, in the order of its edges.
    pub(crate) fn taken(&self, node: usize, on: On, result: &NodeOutput) -> Vec<usize> {
        let edges = || self.nodes[node].out.iter().filter(move |edge| edge.on == on);
        let met = |edge: &GraphEdge| match &edge.when {
            When::If(test) => test.holds(result),
            When::Always | When::Otherwise => false,
        };
        let any = edges().any(met);
        let mut targets = Vec::new();
        for edge in edges() {
            let goes = match &edge.when {
                When::Always => true,
                When::If(test) => test.holds(result),
                When::Otherwise => !any,
            };
            if goes && !targets.contains(&edge.to) {
                targets.push(edge.to);
            }
        }
        targets
    }

    /// Whether a run may end at this node, even if edges leave it.
    pub(crate) fn may_end(&self, node: usize) -> bool {
        let mut on_success = self.nodes[node].out.iter().filter(|edge| edge.on == On::Completed);
        !on_success.any(|edge| matches!(edge.when, When::Always | When::Otherwise))
    }

    /// The nodes reached from these, including them, over edges for which `open` is true.
    pub(crate) fn reach(
        &self,
        from: impl IntoIterator<Item = usize>,
        mut open: impl FnMut(usize, usize) -> bool,
    ) -> Vec<bool> {
        let mut reached = vec![false; self.nodes.len()];
        let mut queue: VecDeque<usize> = VecDeque::new();
        for node in from {
            if !std::mem::replace(&mut reached[node], true) {
                queue.push_back(node);
            }
        }
        while let Some(node) = queue.pop_front() {
            for edge in &self.nodes[node].out {
                if !reached[edge.to] && open(node, edge.to) {
                    reached[edge.to] = true;
                    queue.push_back(edge.to);
                }
            }
        }
        reached
    }

    /// A cycle of nodes, with the first one at both ends, if there is one.
    pub(crate) fn ring(&self) -> Option<Vec<usize>> {
        // 0 unvisited, 1 on the current path, 2 done.
        let mut seen = vec![0_u8; self.nodes.len()];
        for first in 0..self.nodes.len() {
            if seen[first] != 0 {
                continue;
            }
            seen[first] = 1;
            let mut way = vec![(first, 0_usize)];
            while let Some((node, next)) = way.last_mut() {
                let Some(edge) = self.nodes[*node].out.get(*next) else {
                    seen[*node] = 2;
                    way.pop();
                    continue;
                };
                *next += 1;
                match seen[edge.to] {
                    0 => {
                        seen[edge.to] = 1;
                        way.push((edge.to, 0));
                    }
                    1 => {
                        let mut ring: Vec<usize> = way.iter().map(|(node, _)| *node).collect();
                        let begin = ring.iter().position(|node| *node == edge.to).unwrap_or(0);
                        ring.drain(..begin);
                        ring.push(edge.to);
                        return Some(ring);
                    }
                    _done => {}
                }
            }
        }
        None
    }
}
