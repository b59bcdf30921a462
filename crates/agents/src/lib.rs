//! The built-in agents: what `rialto serve` offers before anything is configured.
//!
//! An agent is a folder that implements [`model::ports::agent::Agent`]; the registry is [`BUILTIN`], one line each.
//! Nothing here knows of wires, stores or the engine.
//!
//! ```
//! use agents::{Settings, builtin};
//! let echo = builtin("echo", &Settings::default()).unwrap();
//! assert_eq!(&*echo.profile().name, "echo");
//! assert!(builtin("nobody", &Settings::default()).is_none());
//! ```

pub mod echo;
pub mod scripted;

use std::sync::Arc;

use model::ports::agent::Agent;

/// An agent that comes with the binary.
#[derive(Clone, Copy, Debug)]
pub struct Builtin {
    pub name: &'static str,
    /// One line for help and banners.
    pub says: &'static str,
    pub build: fn(&Settings) -> Arc<dyn Agent>,
}

/// What the command line may set about built-in agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub scripted: scripted::Mode,
}

pub const BUILTIN: &[Builtin] = &[echo::BUILTIN, scripted::BUILTIN];

/// The built-in agent of that name.
pub fn builtin(name: &str, settings: &Settings) -> Option<Arc<dyn Agent>> {
    BUILTIN.iter().find(|known| known.name == name).map(|known| (known.build)(settings))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_agent_answers_to_its_own_name() {
        for known in BUILTIN {
            let agent = builtin(known.name, &Settings::default()).unwrap();
            let profile = agent.profile();
            assert_eq!(&*profile.name, known.name);
            assert_eq!(
                (&profile.input_modes[..], &profile.output_modes[..]),
                (&["*/*".into()][..], &["*/*".into()][..])
            );
            assert!(profile.skills.iter().all(|skill| !skill.examples.is_empty() && !skill.tags.is_empty()));
        }
    }
}
