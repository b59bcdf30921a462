//! A graph as data, for drawing and for programs.

use serde::Serialize;

use crate::condition::Condition;
use crate::graph::SystemGraph;
use crate::spec::{Join, On};

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagram {
    /// How often a run may visit a node, if there are loops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// In the order of the spec.
    pub nodes: Vec<DiagramNode>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiagramNode {
    pub node: String,
    pub agent: String,
    /// Runs begin here.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub entry: bool,
    /// How it waits, if several edges lead to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub join: Option<Join>,
    /// The nodes that lead here, if there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joins: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// The approval question before it begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    pub edges: Vec<DiagramEdge>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiagramEdge {
    pub to: String,
    pub on: On,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// The edge may lead back to a node already visited.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub back: bool,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl SystemGraph {
    pub fn diagram(&self) -> Diagram {
        let reached: Vec<Vec<bool>> = (0..self.nodes.len()).map(|node| self.reach([node], |_, _| true)).collect();
        let name = |index: usize| self.nodes[index].name.to_string();
        let nodes = self.nodes.iter().enumerate().map(|(index, node)| DiagramNode {
            node: node.name.to_string(),
            agent: node.agent.to_string(),
            entry: self.entries.contains(&index),
            join: (node.gathers && node.sources.len() > 1).then_some(node.join),
            joins: if node.sources.len() > 1 { node.sources.iter().map(|s| name(*s)).collect() } else { Vec::new() },
            retries: node.retries,
            approval: node.question.clone(),
            edges: node
                .out
                .iter()
                .map(|edge| DiagramEdge {
                    to: name(edge.to),
                    on: edge.on,
                    condition: edge.condition.clone(),
                    back: reached[edge.to][index] && self.depth(edge.to) <= self.depth(index),
                })
                .collect(),
        });
        Diagram { max_turns: self.ring().map(|_| self.max_turns), nodes: nodes.collect() }
    }

    /// The distance of a node from the entry nodes.
    fn depth(&self, node: usize) -> usize {
        let mut reached: Vec<usize> = self.entries.clone();
        let mut seen = vec![false; self.nodes.len()];
        reached.iter().for_each(|entry| seen[*entry] = true);
        let mut depth = 0;
        while !reached.is_empty() && !reached.contains(&node) {
            depth += 1;
            let out = reached.iter().flat_map(|from| &self.nodes[*from].out).map(|edge| edge.to);
            reached = out.filter(|to| !std::mem::replace(&mut seen[*to], true)).collect();
        }
        depth
    }

    /// The nodes that a run may still reach from these, over any edge.
    pub fn ahead<'a>(&self, from: impl IntoIterator<Item = &'a str>) -> Vec<&str> {
        let from: Vec<usize> = from.into_iter().filter_map(|name| self.index(name)).collect();
        let reached = self.reach(from, |_, _| true);
        self.nodes.iter().zip(reached).filter(|(_, reached)| *reached).map(|(node, _)| &*node.name).collect()
    }
}
