//! Invalid systems are refused with the path of each error.

#![allow(clippy::unwrap_used)]

use systems_graph::System;

fn wrong(yaml: &str) -> Vec<String> {
    let system: System = serde_saphyr::from_str(yaml).unwrap();
    let known = |agent: &str| !agent.starts_with("no");
    system.check(known).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn every_fault_is_told_with_its_path() {
    for (yaml, path, says) in [
        ("{}", "graph", "there is no node"),
        ("agents: [a, a]", "agents[1]", "twice"),
        ("agents: [a, nobody]", "agents[1]", "there is no agent \"nobody\""),
        ("graph: { a: { next: nobody } }", "graph.a.next", "there is no agent \"nobody\""),
        ("graph: { a: { edges: [{to: b}, {to: nobody}] } }", "graph.a.edges[1].to", "there is no agent"),
        ("graph: { a: { agent: nobody } }", "graph.a.agent", "there is no agent \"nobody\""),
        ("agents: [a]\ngraph: { a: { next: b } }", "graph.a.next", "not among the system's agents"),
        ("agents: [a, b, c]\ngraph: { a: { next: b } }", "agents[2]", "has no place in the graph"),
        ("graph: { a: { next: b, edges: [{to: b}] } }", "graph.a.edges[0]", "the same edge as graph.a.next"),
        ("graph: { a: { edges: [{to: b}, {to: b}] } }", "graph.a.edges[1]", "the same edge as graph.a.edges[0]"),
        ("entry: z\ngraph: { a: { next: b } }", "entry", "there is no node \"z\""),
        ("graph: { a: { next: b }, b: { next: a } }", "graph.a", "the loop a → b → a has no bound; write max_turns"),
        ("graph: { a: { next: b }, b: { next: b } }", "graph.b", "the loop b → b has no bound"),
        ("max_turns: 0\ngraph: { a: { next: a } }", "max_turns", "out of range"),
        ("max_turns: 1001\nagents: [a]", "max_turns", "out of range"),
        ("entry: a\ngraph: { a: { next: b }, c: { next: b } }", "graph.c", "cannot be reached"),
        ("max_turns: 2\ngraph: { a: , c: { next: d }, d: { next: c } }", "graph.c", "cannot be reached"),
        (
            "entry: a\nmax_turns: 2\ngraph: { a: , c: { next: j }, b: { next: j }, j: { join: {} } }",
            "graph.j",
            "this join cannot be reached",
        ),
        ("graph: { a: { join: {} } }", "graph.a.join", "no edge leads here"),
        ("graph: { a: { next: b }, b: { join: {mode: quorum} } }", "graph.b.join", "needs quorum_count or"),
        (
            "graph: { a: { next: b }, b: { join: {mode: quorum, quorum_count: 2} } }",
            "graph.b.join.quorum_count",
            "choose from 1 to 1",
        ),
        (
            "graph: { a: { next: b }, b: { join: {mode: quorum, quorum_count: 0} } }",
            "graph.b.join.quorum_count",
            "out of range",
        ),
        (
            "graph: { a: { next: b }, b: { join: {mode: quorum, quorum_percent: 101} } }",
            "graph.b.join.quorum_percent",
            "choose from 1 to 100",
        ),
        (
            "graph: { a: { next: b }, b: { join: {mode: quorum, quorum_percent: 5, quorum_count: 1} } }",
            "graph.b.join",
            "leave one out",
        ),
        ("graph: { a: { next: b }, b: { join: {quorum_count: 1} } }", "graph.b.join", "write mode: quorum"),
        ("graph: { a: { retries: 101 } }", "graph.a.retries", "too many"),
        ("graph: { a: { approval: {ask: ' '} } }", "graph.a.approval.ask", "is empty"),
        ("graph: { a: { edges: [{to: b, on: denied}] } }", "graph.a.edges[0].on", "nobody can deny"),
        ("graph: { a/b: }", "graph.a/b", "is no name for a node"),
        (
            "graph: { a: { edges: [{to: b, condition: {output_matches: '('}}] } }",
            "graph.a.edges[0].condition.output_matches",
            "no regular expression",
        ),
        ("graph: { a: { edges: [{to: b, condition: {}}] } }", "graph.a.edges[0].condition", "says nothing"),
        (
            "graph: { a: { edges: [{to: b, condition: {default: true}}, {to: c, condition: {default: true}}] } }",
            "graph.a.edges[1].condition.default",
            "one default edge at most",
        ),
    ] {
        let wrong = wrong(yaml);
        let line = wrong.iter().find(|line| line.starts_with(&format!("{path}: ")));
        assert!(line.is_some_and(|line| line.contains(says)), "{yaml}: {wrong:?}");
    }
}

#[test]
fn all_faults_are_told_at_once() {
    let wrong = wrong("graph: { a: { next: nobody, retries: 101 }, b: { agent: none, edges: [{to: a}, {to: a}] } }");
    assert_eq!(wrong.len(), 4, "{wrong:?}");
}

#[test]
fn what_is_no_system_is_refused_while_it_is_read() {
    for yaml in [
        "grpah: {}",
        "graph: { a: { nxt: b } }",
        "graph: { a: { edges: [{too: b}] } }",
        "graph: { a: { join: {mode: some} } }",
        "graph: { a: { edges: [{to: b, on: sometimes}] } }",
    ] {
        assert!(serde_saphyr::from_str::<System>(yaml).is_err(), "{yaml}");
    }
    assert!(serde_json::from_str::<System>(r#"{"graph":{"a":{},"a":{}}}"#).is_err());
}
