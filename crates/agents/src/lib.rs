//! The agents: the built-in ones that `rialto serve` offers without a config, and the kinds that a config can
//! define.
//!
//! An agent is a folder that implements [`model::ports::agent::Agent`]; the registries are [`BUILTIN`] and
//! [`KINDS`], one line each. This crate does not depend on wires, stores or the engine.
//!
//! ```
//! use agents::{BuiltinSettings, builtin};
//! let echo = builtin("echo", &BuiltinSettings::default()).unwrap();
//! assert_eq!(&*echo.profile().name, "echo");
//! assert!(builtin("unknown", &BuiltinSettings::default()).is_none());
//! ```

pub mod a2a;
pub mod assistant;
mod builtin;
pub mod command;
pub mod config;
pub mod delegation;
#[cfg(test)]
mod docs_tests;
pub mod echo;
pub mod emitter;
mod events;
#[cfg(test)]
mod fake_server;
pub mod guardian;
pub mod http;
pub mod langgraph;
mod limited;
mod lines;
pub mod mcp;
pub mod openai;
mod outbound;
mod parts;
pub mod powers;
pub mod scripted;
mod secret;
mod shell;
mod sse;
#[cfg(test)]
mod testing;
mod text_accumulator;
mod turn_json;
pub mod worker;

pub use config::{AgentConfig, Agents, Error, PriceConfig, build, from_flag};
pub use secret::ConfigSecret;

use std::sync::Arc;

use model::ports::agent::Agent;

/// A built-in agent.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    pub name: &'static str,
    /// Line for help and banners.
    pub says: &'static str,
    pub build: fn(&BuiltinSettings) -> Arc<dyn Agent>,
}

/// Settings of the built-in agents from the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BuiltinSettings {
    pub scripted: scripted::ScriptedMode,
}

pub const BUILTIN: &[Builtin] =
    &[echo::BUILTIN, scripted::BUILTIN, assistant::ASSISTANT, assistant::INTERRUPT, assistant::PARALLEL];

/// The kinds of agents that can be configured.
pub const KINDS: &[config::AgentKind] = &[
    command::KIND,
    http::KIND,
    openai::KIND,
    a2a::KIND,
    langgraph::KIND,
    worker::KIND,
    mcp::KIND,
    builtin::ECHO,
    builtin::SCRIPTED,
    assistant::KIND,
];

/// The built-in agent of that name.
pub fn builtin(name: &str, settings: &BuiltinSettings) -> Option<Arc<dyn Agent>> {
    BUILTIN.iter().find(|known| known.name == name).map(|known| (known.build)(settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_agent_answers_to_its_own_name() {
        for known in BUILTIN {
            let agent = builtin(known.name, &BuiltinSettings::default()).unwrap();
            let profile = agent.profile();
            assert_eq!(&*profile.name, known.name);
            assert!(!profile.input_modes.is_empty() && !profile.output_modes.is_empty());
            assert!(profile.skills.iter().all(|skill| !skill.examples.is_empty() && !skill.tags.is_empty()));
        }
    }
}
