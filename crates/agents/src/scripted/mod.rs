//! `scripted`: does what the message says. For authors of clients: every state, part kind, chunking, delay and
//! failure on request.
//!
//! The first of these that the message has determines its steps: the prefix of its id (`prefixes`), its script
//! (`script`), the rest of an earlier message's script that had asked for input (`place`), a text command
//! (`commands`); else the message is echoed. All of them become steps (`step`), and one player runs them
//! (`player`). The user page is `docs/scripted.md`.

mod commands;
mod json;
mod parts;
mod place;
mod player;
mod prefixes;
mod script;
mod step;

#[cfg(test)]
pub(crate) mod stage;
#[cfg(test)]
mod tests;

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use model::ports::agent::{self, Admission, AgentEvent, EndState, Profile, Restart, Skill, Turn};
use model::{Fault, Inbound, Message, Task};

use crate::Builtin;
use prefixes::ScriptSettings;
use script::Script;
use step::ScriptStep;

pub const BUILTIN: Builtin = Builtin {
    name: "scripted",
    says: "does what the message says: chunks, questions, failures, delays",
    build: |settings| Arc::new(ScriptedAgent::new(settings.scripted)),
};

/// The treatment of a message without instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScriptedMode {
    /// Echo it.
    #[default]
    Play,
    /// End in a question, for suites that want every task to stay open.
    Ask,
}

impl FromStr for ScriptedMode {
    type Err = String;
    fn from_str(text: &str) -> Result<ScriptedMode, String> {
        match text {
            "play" => Ok(ScriptedMode::Play),
            "ask" => Ok(ScriptedMode::Ask),
            other => Err(format!("unknown mode \"{other}\"; use \"play\" or \"ask\"")),
        }
    }
}

#[derive(Debug)]
pub struct ScriptedAgent {
    profile: Profile,
    manner: ScriptSettings,
}

impl ScriptedAgent {
    /// Reads `TCK_STREAMING_TIMEOUT` (seconds) from the environment, once.
    pub fn new(mode: ScriptedMode) -> ScriptedAgent {
        ScriptedAgent::holding(mode, hold(std::env::var("TCK_STREAMING_TIMEOUT").ok().as_deref()))
    }

    fn holding(mode: ScriptedMode, hold: Duration) -> ScriptedAgent {
        ScriptedAgent { profile: profile(), manner: ScriptSettings { mode, hold } }
    }

    /// The steps of a message that has neither prefix nor script.
    fn as_said(&self, message: &Message) -> Result<Vec<ScriptStep>, Fault> {
        if let Some(steps) = commands::steps(message)? {
            return Ok(steps);
        }
        Ok(match self.manner.mode {
            ScriptedMode::Play => vec![ScriptStep::Working(None), ScriptStep::echo(), ScriptStep::complete()],
            ScriptedMode::Ask => {
                vec![ScriptStep::Working(None), ScriptStep::say(EndState::InputRequired, "what next?")]
            }
        })
    }

    /// The steps of a turn.
    fn steps(&self, turn: &Turn) -> Result<Vec<ScriptStep>, Fault> {
        let Some(newest) = turn.messages.last().map(|inbound| &*inbound.message) else {
            return Ok(Vec::new());
        };
        let prefixed = prefixes::steps(&newest.id, &self.manner);
        if prefixed.is_none()
            && let Some(carrier) = place::carrier(turn, has_script)
            && let Some(mut script) = Script::of(carrier.message)?
        {
            step::settle_keys(&mut script.steps, carrier.place);
            let asked = place::asked(turn, &carrier, &script);
            if let Some(rest) = script.rest(asked) {
                return Ok(rest);
            }
        }
        let mut steps = match prefixed {
            Some(steps) => steps,
            None => self.as_said(newest)?,
        };
        let said = place::callers_messages(&turn.so_far.history).count();
        step::settle_keys(&mut steps, said.saturating_sub(1));
        Ok(steps)
    }
}

/// A prefix takes precedence over a script.
fn has_script(message: &Message) -> bool {
    prefixes::find(&message.id).is_none() && script::has_script(message)
}

impl agent::Agent for ScriptedAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, inbound: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        let message = &*inbound.message;
        let admission = |steps: &[ScriptStep], retry: bool| Admission {
            // A task that exists has been shown to the caller.
            undecided: task.is_none() && step::replies(steps),
            restart: if retry { Restart::Retry } else { Restart::Fail },
            idempotent: false,
        };
        if let Some(steps) = prefixes::steps(&message.id, &self.manner) {
            return Ok(admission(&steps, step::may_repeat(&steps)));
        }
        if let Some(script) = Script::of(message)? {
            return Ok(admission(&script.steps, script.retries()));
        }
        // An answer follows the rule of the script that asked.
        let mut earlier = task.into_iter().flat_map(|task| place::callers_messages(&task.history).rev());
        if let Some(carrier) = earlier.find(|message| has_script(message)) {
            return Ok(admission(&[], Script::of(carrier)?.is_some_and(|script| script.retries())));
        }
        let steps = self.as_said(message)?;
        Ok(admission(&steps, step::may_repeat(&steps)))
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        // The message was admitted, so its script is valid; one that an older version admitted may not be.
        let steps = self.steps(&turn).unwrap_or_else(|fault| vec![ScriptStep::say(EndState::Failed, &fault.message)]);
        player::play(steps, turn.messages.last().cloned(), turn.cancelled)
    }
}

/// Twice the suite's timeout, so that the suite sees the task working for as long as it looks.
fn hold(timeout_s: Option<&str>) -> Duration {
    let seconds = timeout_s.and_then(|text| text.trim().parse::<f64>().ok()).filter(|s| (0.0..=3_600.0).contains(s));
    Duration::from_secs_f64(2.0 * seconds.unwrap_or(2.0))
}

fn profile() -> Profile {
    let skill = |id: &str, name: &str, description: &str, examples: &[&str]| Skill {
        id: id.into(),
        name: name.into(),
        description: description.into(),
        tags: vec!["test".into(), "client-development".into()],
        examples: examples.iter().map(|&example| example.into()).collect(),
    };
    Profile {
        name: BUILTIN.name.into(),
        title: "Scripted".into(),
        description:
            "Does what the message says: every state, part kind, chunking, delay and failure on request. Say help."
                .into(),
        version: env!("CARGO_PKG_VERSION").into(),
        skills: vec![
            skill(
                "commands",
                "Text commands",
                "One word for each behaviour; any other text comes back as an artifact.",
                &["help", "chunks:20 every:50", "ask: which colour?", "fail: out of paper", "hang"],
            ),
            skill(
                "script",
                "Scripts",
                "A data part {\"script\":[...]} plays its steps in order.",
                &[
                    r#"{"script":[{"status":"working","text":"on it"},{"sleep_ms":500},{"complete":"done"}]}"#,
                    r#"{"script":[{"artifact":{"name":"a","parts":[{"text":"tick "}]},"chunks":10,"every_ms":100}]}"#,
                    r#"{"script":[{"input":"your name?"},{"echo":true},{"complete":"thanks"}]}"#,
                ],
            ),
        ],
        input_modes: vec!["*/*".into()],
        output_modes: vec!["*/*".into()],
        streaming: true,
        push: true,
        extensions: Vec::new(),
        restart: Restart::Retry,
        idempotent: false,
    }
}
