//! `mcp`: the tools of an MCP server as an agent's skills.
//!
//! A message names a tool (`choose`), the tool is called in a `session` that serves that call alone, and its result
//! is an artifact (`returned`). A tool that elicits input ends the turn with a question (`question`); the call
//! stays open meanwhile (`open`), and the task's next message is the answer. Sessions are the `rmcp` crate's, over
//! pipes to a child `process` or over HTTP, with our own transport wrapper in between (`ordered`). The user page is
//! `docs/agents/mcp.md`.

mod choose;
mod open_calls;
mod options;
mod ordered;
mod process;
mod question;
mod returned;
mod run;
mod session;
mod shared;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::stream::BoxStream;
use model::ports::agent::{self, Admission, AgentEvent, Profile, Restart, Skill, Turn};
use model::{Fault, Inbound, Task};

use crate::config::{self, AgentKind};
use crate::emitter::emit;
pub use options::Options;
use shared::Shared;

pub const KIND: AgentKind = AgentKind::of::<Options>("mcp", "offers the tools of an MCP server", options::FIELDS);

struct McpAgent {
    profile: Profile,
    shared: Arc<Shared>,
}

impl McpAgent {
    fn new(name: &str, shared: Arc<Shared>) -> McpAgent {
        let skill = |tool: &rmcp::model::Tool| {
            let titled = tool.title.clone().or_else(|| tool.annotations.as_ref().and_then(|notes| notes.title.clone()));
            Skill {
                id: tool.name.to_string(),
                name: titled.unwrap_or_else(|| tool.name.to_string()),
                description: tool.description.as_deref().unwrap_or_default().to_owned(),
                tags: vec!["tool".into()],
                examples: Vec::new(),
            }
        };
        // A tool may have effects outside the server, so a turn is not repeated.
        let plain = config::profile(name, "Calls tools.", Restart::Fail);
        let profile = Profile {
            skills: shared.tools().iter().map(skill).collect(),
            input_modes: vec!["application/json".into(), "text/plain".into()],
            ..plain
        };
        McpAgent { profile, shared }
    }
}

impl agent::Agent for McpAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, _: &Inbound, _: Option<&Task>) -> Result<Admission, Fault> {
        Ok(Admission { undecided: false, restart: self.profile.restart, idempotent: false })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let shared = self.shared.clone();
        emit(move |emitter| Box::pin(run::run(shared, turn, emitter)))
    }
}
