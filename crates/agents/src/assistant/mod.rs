//! `assistant`, `interrupt`, `parallel` and `structured`: agents that behave like the assistants of a graph server,
//! for authors of clients. Their answers are fixed.
//!
//! `input` is the input of a run, `questions` the questions and their answers, `answer` the output. The agents have
//! no state: the open questions are in the task's log.

mod answer;
mod ids;
mod input;
mod questions;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use model::ports::Future;
use model::ports::agent::{self, Admission, AgentEvent, Profile, Restart, Skill, Turn};
use model::{Fault, Inbound, Task};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::Builtin;
use crate::config::{AgentKind, Common, Error, KindOptions};
use crate::powers::plain;
pub use ids::assistant_id;
use questions::TurnPhase;

/// Which of the assistants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Mode")]
pub enum AssistantMode {
    /// Says again what it was told.
    #[default]
    Chat,
    /// Asks one question first.
    Interrupt,
    /// Asks two questions at once.
    Parallel,
    /// Reads data and no text.
    Structured,
}

pub const ASSISTANT: Builtin = Builtin {
    name: "assistant",
    says: "a chat that says again what it was told",
    build: |_| build(AssistantMode::Chat, ASSISTANT.name),
};
pub const INTERRUPT: Builtin = Builtin {
    name: "interrupt",
    says: "an assistant that asks a question before it answers",
    build: |_| build(AssistantMode::Interrupt, INTERRUPT.name),
};
pub const PARALLEL: Builtin = Builtin {
    name: "parallel",
    says: "an assistant that asks two questions at once",
    build: |_| build(AssistantMode::Parallel, PARALLEL.name),
};

pub const KIND: AgentKind = AgentKind::of::<Options>(
    "assistant",
    "plays an assistant of a graph server, for tests of clients",
    &[plain("mode")],
);

/// An assistant of a graph server, played.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// `chat` (default) says again what it was told, `interrupt` asks one question first, `parallel` two at once, `structured`
    /// reads data and no text.
    #[serde(default)]
    mode: AssistantMode,
}

impl KindOptions for Options {
    fn build<'a>(&'a self, name: &'a str, _: &'a Common) -> Future<'a, Result<Arc<dyn agent::Agent>, Error>> {
        Box::pin(async move { Ok(build(self.mode, name)) })
    }
}

/// Builds the assistant of that name.
pub fn build(mode: AssistantMode, name: &str) -> Arc<dyn agent::Agent> {
    Arc::new(AssistantAgent { mode, profile: profile(mode, name) })
}

struct AssistantAgent {
    mode: AssistantMode,
    profile: Profile,
}

impl agent::Agent for AssistantAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, inbound: &Inbound, _: Option<&Task>) -> Result<Admission, Fault> {
        match self.mode {
            AssistantMode::Chat | AssistantMode::Structured => input::check(&inbound.message)?,
            AssistantMode::Interrupt | AssistantMode::Parallel => {}
        }
        Ok(Admission { undecided: false, restart: Restart::Retry, idempotent: true })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let response = |text: String| answer::response(&text, &assistant_id(&self.profile.name));
        let said = match self.mode {
            AssistantMode::Chat => response(input::Input::of(&turn).told()),
            AssistantMode::Structured => response(input::Input::of(&turn).printed()),
            AssistantMode::Interrupt | AssistantMode::Parallel => match questions::take_up(self.mode, &turn) {
                TurnPhase::Ask(asked) => answer::interrupt(&asked),
                TurnPhase::Answer(text) => response(text),
            },
        };
        stream::iter(said).boxed()
    }
}

fn profile(mode: AssistantMode, name: &str) -> Profile {
    let (title, description, examples): (_, _, &[&str]) = match mode {
        AssistantMode::Chat => {
            ("Assistant", "Says again what it was told, text and data.", &["hello", r#"{"locale":"en-US"}"#])
        }
        AssistantMode::Interrupt => {
            ("Interrupt", "Asks one question, and answers when it has its answer.", &["plan a trip"])
        }
        AssistantMode::Parallel => (
            "Parallel",
            "Asks two questions at once, and answers when it has both answers.",
            &["plan a trip", r#"{"resume":[{"id":"interrupt-1","value":"May"},{"id":"interrupt-2","value":2}]}"#],
        ),
        AssistantMode::Structured => {
            ("Structured", "Reads data and no text, and prints it.", &[r#"{"city":"Venice"}"#])
        }
    };
    let modes: &[&str] = match mode {
        AssistantMode::Chat | AssistantMode::Interrupt | AssistantMode::Parallel => &["text/plain", "application/json"],
        AssistantMode::Structured => &["application/json"],
    };
    Profile {
        name: name.into(),
        title: title.into(),
        description: description.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        skills: vec![Skill {
            id: format!("{name}-main"),
            name: format!("{title} Capabilities"),
            description: description.into(),
            tags: vec!["assistant".into(), "test".into()],
            examples: examples.iter().map(|&example| example.into()).collect(),
        }],
        input_modes: modes.iter().map(|&mode| mode.into()).collect(),
        output_modes: vec!["text/plain".into(), "application/json".into()],
        streaming: true,
        push: true,
        extensions: Vec::new(),
        restart: Restart::Retry,
        idempotent: true,
    }
}
