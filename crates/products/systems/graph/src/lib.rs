//! Systems: graphs of agents that appear as one agent to callers.
//!
//! A [`System`] is the spec, with the members of Orloj's `AgentSystem`. [`System::check`] makes a [`SystemGraph`] of it, or
//! returns every error with its path. A [`Run`] executes the graph: events go in, actions come out.
//!
//! This crate is pure: no I/O, no clock, no randomness. The same events give the same run, so that a run can be replayed
//! from its events, after a crash or for a read-only view.
//!
//! ```
//! use systems_graph::{RunAction, End, NodeEvent, Run, System};
//! let system: System = serde_json::from_value(serde_json::json!({
//!     "graph": { "draft": { "next": "edit" } }
//! })).unwrap();
//! let graph = system.check(|agent| ["draft", "edit"].contains(&agent)).unwrap();
//! let (mut run, actions) = Run::start(graph.into(), vec![model::Part::text("a poem")]);
//! let [RunAction::Start(first)] = &actions[..] else { panic!() };
//! assert_eq!(first.visit.to_string(), "draft#1");
//! let ended = NodeEvent::Ended { visit: first.visit.clone(), end: End::Completed(vec![model::Part::text("roses")]) };
//! let [RunAction::Start(second)] = &run.apply(ended).unwrap()[..] else { panic!() };
//! assert_eq!((&*second.agent, second.input[0].as_text()), ("edit", Some("roses")));
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`spec`] | the spec of a system |
//! | [`condition`] | conditions on edges |
//! | [`check`] | validation of a spec |
//! | [`graph`] | a validated system |
//! | [`run`] | the state machine |
//! | [`diagram`] | a graph as data |

pub mod check;
pub mod condition;
pub mod diagram;
pub mod graph;
pub mod run;
pub mod spec;

pub use check::Error;
pub use condition::Condition;
pub use graph::SystemGraph;
pub use model::OnOff;
pub use run::{End, Finish, INPUT_BYTES, NodeEvent, Run, RunAction, Unexpected, VisitId, VisitStart, VisitState};
pub use spec::{System, Systems};
