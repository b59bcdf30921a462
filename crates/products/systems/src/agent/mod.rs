//! A system: a graph of agents, served as one agent.
//!
//! A turn walks the graph ([`systems_graph::Run`]). Each visit of a node is a task of its own, opened through the turn's
//! [`Children`](model::ports::children::Children), with its agent's own rule for crashes. The system's task has one
//! status message for each step, with a [`RunEntry`] in its metadata; the output of a node is an artifact. The same
//! log continues a run after a crash, or after the answer to a question: the entries are replayed, and child tasks
//! that were opened are found by their names. No step depends on another before the log has it.
//!
//! * `journal`: reads and writes the entries
//! * `answer`: reads the answer to an approval
//! * `driver`: executes one turn
//! * `diagram`: the graph for operators, with the status of a task
//!
//! The id of a child task is made of its parent's id and its key (run, node, visit): opening it twice is refused by the
//! store, and no record or alias is needed. A child is in one view, its parent's. An agent that is cut off cannot stop
//! its children, so the engine does: a turn with children has a bound name that begins with `system:`, and any end of
//! such a task other than completed cancels its children.

mod answer;
mod diagram;
mod driver;
mod journal;

use std::sync::Arc;

use futures_util::stream::BoxStream;
use model::ports::agent::{self, Admission, AgentEvent, Look, Profile, Restart, Skill, Turn};
use model::{Fault, Inbound, Json, Task};
use systems_graph::{System, SystemGraph};

use agents::config;
use agents::delegation::{Delegation, MAX_HOPS};
use agents::emitter::emit;

pub use journal::{KEY, RunEntry, RunJournal, RunStep, artifact_key};

/// The artifact with the result of the whole system.
pub const RESULT: &str = "result";

/// A system as an agent.
pub struct SystemAgent {
    profile: Profile,
    graph: Arc<SystemGraph>,
}

impl SystemAgent {
    /// The agent of a checked system.
    pub fn new(name: &str, system: &System, graph: SystemGraph) -> SystemAgent {
        let description = system.description.clone().unwrap_or_else(|| format!("Multi-agent system: {name}"));
        let mut profile = config::profile(name, description, Restart::Resume);
        if let Some(title) = &system.title {
            profile.title.clone_from(title);
        }
        profile.streaming = system.streaming.is_none_or(|on| on.0);
        profile.push = system.push.is_none_or(|on| on.0);
        profile.skills.push(Skill {
            id: name.to_owned(),
            name: profile.title.clone(),
            description: profile.description.clone(),
            tags: vec!["system".to_owned()],
            examples: Vec::new(),
        });
        SystemAgent { profile, graph: Arc::new(graph) }
    }

    pub fn graph(&self) -> &Arc<SystemGraph> {
        &self.graph
    }
}

impl agent::Agent for SystemAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, message: &Inbound, _: Option<&Task>) -> Result<Admission, Fault> {
        // Loops are detected by agents that delegate to other servers; here only the number of hops is checked.
        Delegation::of(&message.message)?.check("", MAX_HOPS)?;
        Ok(Admission { undecided: false, restart: Restart::Resume, idempotent: false })
    }

    fn picture(&self, look: Option<Look<'_>>) -> Option<Json> {
        Some(diagram::draw(&self.profile.name, &self.graph, look))
    }

    fn members(&self) -> Vec<Arc<str>> {
        self.graph.agents()
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let (name, graph) = (self.profile.name.clone(), self.graph.clone());
        emit(move |emitter| driver::turn(emitter, turn, name, graph))
    }
}
