//! Runs case by case, each with a realistic graph.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use model::Part;
use systems_graph::{End, Finish, NodeEvent, Run, RunAction, System, SystemGraph, VisitId, VisitState};

fn graph(yaml: &str) -> Arc<SystemGraph> {
    let system: System = serde_saphyr::from_str(yaml).unwrap();
    let checked = system.check(|_| true);
    Arc::new(checked.unwrap_or_else(|wrong| panic!("{yaml}: {wrong:?}")))
}

/// A run and the actions it requests, in short notation.
struct Play {
    run: Run,
    said: Vec<String>,
}

fn words(parts: &[Part]) -> String {
    let word = |part: &Part| match &part.content {
        model::Content::Data(json) => json.text().to_owned(),
        _ => part.as_text().unwrap_or("?").to_owned(),
    };
    parts.iter().map(word).collect::<Vec<_>>().join("+")
}

fn said(actions: &[RunAction]) -> Vec<String> {
    let line = |action: &RunAction| match action {
        RunAction::Start(start) => format!("{}({})", start.visit, words(&start.input)),
        RunAction::Ask { visit, question, input } => format!("ask {visit}({}): {question}", words(input)),
        RunAction::Cancel(visit) => format!("cancel {visit}"),
        RunAction::Finish(Finish::Completed { result, cut, .. }) => {
            format!("done{}: {}", if *cut { " (cut)" } else { "" }, words(result))
        }
        RunAction::Finish(Finish::Failed { visit, reason }) => {
            format!("failed at {}: {reason}", visit.as_ref().map(VisitId::to_string).unwrap_or_default())
        }
        RunAction::Finish(Finish::Canceled) => "canceled".into(),
    };
    actions.iter().map(line).collect()
}

impl Play {
    fn of(yaml: &str) -> Play {
        let (run, actions) = Run::start(graph(yaml), vec![Part::text("in")]);
        Play { run, said: said(&actions) }
    }
    fn wants(&mut self, expected: &[&str]) -> &mut Play {
        assert_eq!(self.said, expected);
        self
    }
    fn happens(&mut self, event: NodeEvent) -> &mut Play {
        self.said = said(&self.run.apply(event).unwrap());
        self
    }
    /// A visit completes with a text.
    fn gives(&mut self, visit: &str, text: &str) -> &mut Play {
        let end = End::Completed(vec![Part::text(text)]);
        self.happens(NodeEvent::Ended { visit: visit.parse().unwrap(), end })
    }
    fn fails(&mut self, visit: &str) -> &mut Play {
        self.happens(NodeEvent::Ended { visit: visit.parse().unwrap(), end: End::Failed("broken".into()) })
    }
}

#[test]
fn agents_without_a_graph_work_one_after_another() {
    let mut play = Play::of("agents: [a, b, c]");
    play.wants(&["a#1(in)"]).gives("a#1", "A").wants(&["b#1(A)"]);
    assert_eq!(play.run.stand(&"a#1".parse().unwrap()), Some(VisitState::Ended));
    assert_eq!(play.run.stand(&"b#1".parse().unwrap()), Some(VisitState::Running));
    assert_eq!(play.run.stand(&"c#1".parse().unwrap()), None);
    play.gives("b#1", "B").wants(&["c#1(B)"]).gives("c#1", "C").wants(&["done: C"]);
}

const DIAMOND: &str = "graph:\n  a: { edges: [{to: b}, {to: c}] }\n  b: { next: d }\n  c: { next: d }\n";

fn diamond(join: &str) -> Play {
    let mut play = Play::of(&format!("{DIAMOND}  d: {{ join: {{ {join} }} }}\n"));
    play.gives("a#1", "A").wants(&["b#1(A)", "c#1(A)"]);
    play
}

#[test]
fn a_join_gets_its_inputs_in_the_order_of_the_graph_whoever_was_first() {
    diamond("")
        .gives("c#1", "C")
        .wants(&[])
        .gives("b#1", "B")
        .wants(&["d#1(B+C)"])
        .gives("d#1", "D")
        .wants(&["done: D"]);
}

#[test]
fn a_branch_that_fails_ends_the_run_and_its_other_branches() {
    diamond("").fails("b#1").wants(&["cancel c#1", "failed at b#1: broken"]);
    // Later ends have no effect.
    let mut play = diamond("mode: wait_for_all");
    play.fails("c#1").wants(&["cancel b#1", "failed at c#1: broken"]).gives("b#1", "B").wants(&[]);
    assert_eq!(said(&play.run.outstanding()), ["failed at c#1: broken"]);
}

#[test]
fn a_join_may_bear_failures_and_be_told_of_them() {
    diamond("on_failure: skip").fails("b#1").wants(&[]).gives("c#1", "C").wants(&["d#1(C)"]);
    diamond("on_failure: continue_partial")
        .gives("c#1", "C")
        .wants(&[])
        .fails("b#1")
        .wants(&[r#"d#1(C+{"failed":[{"node":"b","reason":"broken"}]})"#]);
    let none = "failed at b#1: 0 of the results that d waits for came, and it needs 2; b failed: broken";
    diamond("on_failure: skip").fails("b#1").wants(&[]).fails("c#1").wants(&[none]);
}

#[test]
fn a_failure_goes_through_what_follows_to_the_next_join() {
    let mut play = Play::of(
        "graph:\n  a: { edges: [{to: b}, {to: c}] }\n  b: { next: x }\n  x: { next: d }\n  c: { next: d }\n  d: { join: {on_failure: skip} }\n",
    );
    play.gives("a#1", "A").fails("b#1").wants(&[]).gives("c#1", "C").wants(&["d#1(C)"]);
    let mut play = Play::of("graph: { a: { edges: [{to: b}, {to: c}] } }");
    play.gives("a#1", "A").fails("b#1").wants(&["cancel c#1", "failed at b#1: broken"]);
}

const FAN: &str =
    "graph:\n  a: { edges: [{to: b}, {to: c}, {to: d}] }\n  b: { next: e }\n  c: { next: e }\n  d: { next: e }\n";

fn fan(join: &str) -> Play {
    let mut play = Play::of(&format!("{FAN}  e: {{ join: {{ mode: quorum, {join} }} }}\n"));
    play.gives("a#1", "A").wants(&["b#1(A)", "c#1(A)", "d#1(A)"]);
    play
}

#[test]
fn a_quorum_begins_when_enough_has_come_and_drops_the_rest() {
    for join in ["quorum_count: 2", "quorum_percent: 50"] {
        let mut play = fan(join);
        play.gives("d#1", "D").wants(&[]).gives("b#1", "B").wants(&["e#1(B+D)"]);
        play.gives("c#1", "C").wants(&[]).gives("e#1", "E").wants(&["done: E"]);
    }
    // A visit that is no longer needed is cancelled.
    fan("quorum_count: 1").gives("c#1", "C").wants(&["e#1(C)"]).gives("e#1", "E").wants(&[
        "cancel b#1",
        "cancel d#1",
        "done: E",
    ]);
}

#[test]
fn a_quorum_bears_failures_as_long_as_enough_are_left() {
    fan("quorum_count: 2").fails("b#1").wants(&[]).gives("c#1", "C").wants(&[]).gives("d#1", "D").wants(&["e#1(C+D)"]);
    let few = "failed at b#1: 0 of the results that e waits for came, and it needs 2; b failed: broken";
    fan("quorum_count: 2").fails("b#1").wants(&[]).fails("c#1").wants(&["cancel d#1", few]);
    fan("quorum_count: 2, on_failure: skip").fails("b#1").fails("c#1").wants(&[]).gives("d#1", "D").wants(&["e#1(D)"]);
    fan("quorum_percent: 100, on_failure: skip")
        .fails("b#1")
        .gives("c#1", "C")
        .wants(&[])
        .gives("d#1", "D")
        .wants(&["e#1(C+D)"]);
}

#[test]
fn a_branch_that_was_not_taken_is_not_waited_for() {
    let yaml = "graph:
  m:
    edges:
      - {to: r, condition: {output_contains: research}}
      - {to: l, condition: {output_contains: legal}}
      - {to: x, condition: {default: true}}
  r: { next: e }
  l: { next: e }
  x: { next: e }
  e: { join: {mode: wait_for_all} }
";
    let mut play = Play::of(yaml);
    play.gives("m#1", "RESEARCH and legal").wants(&["r#1(RESEARCH and legal)", "l#1(RESEARCH and legal)"]);
    play.gives("r#1", "R").wants(&[]).gives("l#1", "L").wants(&["e#1(R+L)"]);
    Play::of(yaml).gives("m#1", "none").wants(&["x#1(none)"]).gives("x#1", "X").wants(&["e#1(X)"]);
}

#[test]
fn where_no_condition_holds_the_branch_has_come_to_its_end() {
    let mut play = Play::of("graph: { a: { edges: [{to: b, condition: {output_contains: go}}] } }");
    play.gives("a#1", "stay").wants(&["done: stay"]);
}

const REFINE: &str = "max_turns: 3\ngraph:
  writer: { next: critic }
  critic:
    edges:
      - {to: writer, condition: {output_contains: again}}
      - {to: print, condition: {output_contains: good}}
";

#[test]
fn a_loop_goes_round_until_its_condition_says_otherwise() {
    let mut play = Play::of(REFINE);
    play.wants(&["writer#1(in)"]).gives("writer#1", "w1").wants(&["critic#1(w1)"]);
    play.gives("critic#1", "again!").wants(&["writer#2(again!)"]).gives("writer#2", "w2").wants(&["critic#2(w2)"]);
    play.gives("critic#2", "good").wants(&["print#1(good)"]).gives("print#1", "P").wants(&["done: P"]);
}

#[test]
fn a_loop_ends_at_its_bound_with_what_came_of_it() {
    let mut play = Play::of(REFINE);
    for n in 1..=2 {
        play.gives(&format!("writer#{n}"), "w").gives(&format!("critic#{n}"), "again");
    }
    play.gives("writer#3", "w").wants(&["critic#3(w)"]).gives("critic#3", "again!").wants(&["done (cut): again!"]);
}

#[test]
fn scouts_report_back_to_their_coordinator() {
    let mut play = Play::of(
        "agents: [lead, s1, s2, sum]\nmax_turns: 2\ngraph:\n  lead: { edges: [{to: s1}, {to: s2}, {to: sum}] }\n  s1: { next: lead }\n  s2: { next: lead }\n",
    );
    play.wants(&["lead#1(in)"]).gives("lead#1", "L").wants(&["s1#1(L)", "s2#1(L)", "sum#1(L)"]);
    play.gives("s2#1", "2").wants(&[]).gives("sum#1", "old").wants(&[]).gives("s1#1", "1").wants(&["lead#2(1+2)"]);
    play.gives("lead#2", "M").wants(&["s1#2(M)", "s2#2(M)", "sum#2(M)"]);
    play.gives("s1#2", "x").gives("s2#2", "y").wants(&[]).gives("sum#2", "new").wants(&["done (cut): new"]);
}

#[test]
fn a_node_is_tried_again_under_the_next_number() {
    let mut play = Play::of("graph: { a: { retries: 2, next: b } }");
    play.fails("a#1").wants(&["a#2(in)"]).fails("a#2").wants(&["a#3(in)"]).gives("a#3", "A").wants(&["b#1(A)"]);
    let mut play = Play::of("graph: { a: { retries: 1 } }");
    play.fails("a#1").wants(&["a#2(in)"]).fails("a#2").wants(&["failed at a#2: broken"]);
}

#[test]
fn a_node_may_ask_before_it_begins() {
    let yaml = "graph: { a: { next: b }, b: { approval: {ask: Print it?}, retries: 1 } }";
    let approved = NodeEvent::Approved { visit: "b#1".parse().unwrap() };
    let mut play = Play::of(yaml);
    play.gives("a#1", "A").wants(&["ask b#1(A): Print it?"]).happens(approved).wants(&["b#1(A)"]);
    // A retry does not ask for approval again.
    play.fails("b#1").wants(&["b#2(A)"]).gives("b#2", "B").wants(&["done: B"]);

    let denied =
        |reason: Option<&str>| NodeEvent::Denied { visit: "b#1".parse().unwrap(), reason: reason.map(Into::into) };
    Play::of(yaml).gives("a#1", "A").happens(denied(None)).wants(&["failed at b#1: b was denied"]);
    let mut play = Play::of("graph: { b: { approval: {}, edges: [{to: c}, {to: sorry, on: denied}] } }");
    play.wants(&["ask b#1(in): May b begin?"]).happens(denied(Some("too dear"))).wants(&["sorry#1(too dear)"]);
    play.gives("sorry#1", "S").wants(&["done: S"]);
}

#[test]
fn an_edge_may_take_a_failure_over() {
    let mut play = Play::of("graph: { a: { retries: 1, edges: [{to: b}, {to: mend, on: failed}] } }");
    play.fails("a#1")
        .wants(&["a#2(in)"])
        .fails("a#2")
        .wants(&["mend#1(broken)"])
        .gives("mend#1", "M")
        .wants(&["done: M"]);
}

#[test]
fn joins_of_a_ring_do_not_wait_for_each_other_for_ever() {
    let mut play = Play::of(
        "max_turns: 1\nentry: a\ngraph:\n  a: { edges: [{to: x}, {to: y}] }\n  x: { edges: [{to: y}, {to: end}] }\n  y: { edges: [{to: x}, {to: end}] }\n",
    );
    // x may still get a result from y, and y from x.
    play.gives("a#1", "A").wants(&["x#1(A)"]).gives("x#1", "X").wants(&["y#1(A+X)"]);
    play.gives("y#1", "Y").wants(&["end#1(X+Y)"]).gives("end#1", "E").wants(&["done (cut): E"]);
}

#[test]
fn what_does_not_belong_to_the_run_is_refused_and_changes_nothing() {
    let mut play = Play::of(DIAMOND);
    let end = || End::Completed(vec![]);
    for visit in ["a#2", "b#1", "nobody#1"] {
        let visit: VisitId = visit.parse().unwrap();
        play.run.apply(NodeEvent::Ended { visit: visit.clone(), end: end() }).unwrap_err();
        play.run.apply(NodeEvent::Approved { visit }).unwrap_err();
    }
    play.gives("a#1", "A").wants(&["b#1(A)", "c#1(A)"]);
    let again = NodeEvent::Ended { visit: "a#1".parse().unwrap(), end: end() };
    assert_eq!(play.run.apply(again).unwrap_err().to_string(), "a#1 is not under way");
}

#[test]
fn a_system_reads_and_writes_like_orlojs() {
    let yaml = "
agents: [planner, research, writer]
graph:
  planner:
    edges:
      - to: research
        labels: {kind: deep}
        policy: {p: q}
        condition: {output_json_path: $.go, equals: 'yes'}
  research: { next: writer }
  writer:
a2a: {enabled: true, auth: public}
";
    let system: System = serde_saphyr::from_str(yaml).unwrap();
    system.check(|_| true).unwrap();
    let written = serde_json::to_string(&system).unwrap();
    assert!(written.contains(r#""graph":{"planner":{"edges":[{"to":"research","condition":{"#), "{written}");
    assert_eq!(serde_json::from_str::<System>(&written).unwrap(), system);
    assert_eq!(system.namespace(), "default");
}

/// Two layers of nodes, with an edge from each node of the first to each of the second.
fn layers(width: usize) -> Arc<SystemGraph> {
    let edges: Vec<String> = (0..width).map(|i| format!("{{to: b{i}}}")).collect();
    let first: String = (0..width).map(|i| format!("  a{i}: {{ edges: [{}] }}\n", edges.join(", "))).collect();
    let second: String = (0..width).map(|i| format!("  b{i}: {{}}\n")).collect();
    graph(&format!("graph:\n{first}{second}"))
}

/// Ends the first layer with texts of `bytes` bytes, and returns the actions that follow.
fn through_first_layer(width: usize, bytes: usize) -> Vec<RunAction> {
    let (mut run, actions) = Run::start(layers(width), vec![Part::text("in")]);
    assert_eq!(actions.len(), width);
    let mut last = Vec::new();
    for i in 0..width {
        let visit = VisitId { node: format!("a{i}").into(), n: 1 };
        let end = End::Completed(vec![Part::text("x".repeat(bytes))]);
        last = run.apply(NodeEvent::Ended { visit, end }).unwrap();
    }
    last
}

#[test]
fn results_that_multiply_end_the_run_before_they_are_put_together() {
    let few = through_first_layer(10, 100 << 10);
    assert!(few.iter().all(|action| matches!(action, RunAction::Start(_))) && few.len() == 10, "10 MiB are fine");
    let many = through_first_layer(20, 100 << 10);
    let Some(RunAction::Finish(Finish::Failed { visit: None, reason })) = many.last() else { panic!("{}", many.len()) };
    assert!(reason.contains("bytes of input under way") && reason.contains("send less"), "{reason}");
    assert!(!many.iter().any(|action| matches!(action, RunAction::Start(_))), "nothing begins any more");
}

#[test]
fn a_message_to_many_entries_is_bounded_and_one_to_a_single_entry_is_not() {
    let large = || vec![Part::text("x".repeat(systems_graph::INPUT_BYTES))];
    let (_, one) = Run::start(graph("graph:\n  a: { next: b }\n  b: {}\n"), large());
    assert!(matches!(one.as_slice(), [RunAction::Start(_)]), "what the server lets in goes to one node");
    let (run, both) = Run::start(graph("graph:\n  a: {}\n  b: {}\n"), large());
    assert!(matches!(both.last(), Some(RunAction::Finish(Finish::Failed { .. }))), "but not to two");
    assert!(run.finish().is_some());
}
