//! `command`: runs a program for each turn.
//!
//! `options` are the program and its environment, `process` runs it in its own process group and ends that group,
//! `text` and `jsonl` read its output. The user page is `docs/agents/command.md`.

mod jsonl;
pub(crate) mod options;
pub(crate) mod process;
mod text;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::stream::BoxStream;
use model::ports::agent::{self, Admission, AgentEvent, EndState, Profile, Restart, Turn};
use model::{Fault, Inbound, Task};

use crate::config::{self, AgentKind};
use crate::emitter::{Emitter, emit};
use crate::turn_json;
pub use options::{CommandMode, Options};
use process::{CommandProcess, ProgramInput};

pub const KIND: AgentKind = AgentKind::of::<Options>("command", "runs a program for each turn", options::FIELDS);

struct CommandAgent {
    profile: Profile,
    options: Arc<Options>,
    /// The program and its arguments.
    words: Arc<[String]>,
    output_bytes: usize,
}

impl CommandAgent {
    fn new(name: &str, options: Options, words: Vec<String>, output_bytes: usize) -> CommandAgent {
        let (input_modes, output_modes): (&[&str], _) = match (options.mode, &options.media_type) {
            (CommandMode::Jsonl, _) => (&["*/*"], "*/*"),
            (CommandMode::Text, None) => (&["text/plain", "application/json"], "text/plain"),
            (CommandMode::Text, Some(media_type)) => (&["text/plain", "application/json"], media_type.as_str()),
        };
        // A program may have effects outside the server, so a turn is not repeated.
        let plain = config::profile(name, "Runs a program for each message.", Restart::Fail);
        let profile = Profile {
            input_modes: input_modes.iter().map(|&mode| mode.into()).collect(),
            output_modes: vec![output_modes.into()],
            ..plain
        };
        CommandAgent { profile, options: Arc::new(options), words: words.into(), output_bytes }
    }
}

impl agent::Agent for CommandAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, _: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        let undecided = self.options.direct_replies && task.is_none();
        Ok(Admission { undecided, restart: self.profile.restart, idempotent: false })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let (options, words, output_bytes) = (self.options.clone(), self.words.clone(), self.output_bytes);
        emit(move |emitter| Box::pin(run(options, words, output_bytes, turn, emitter)))
    }
}

async fn run(options: Arc<Options>, words: Arc<[String]>, output_bytes: usize, turn: Turn, emitter: Emitter) {
    let feed = match options.mode {
        CommandMode::Text => text::input(&turn),
        CommandMode::Jsonl => match turn_json::write(&turn, options.history).await {
            Ok(told) => told + "\n",
            Err(fault) => {
                tracing::error!(task = %turn.task, cause = %fault.cause_text(), "cannot read a conversation: {fault}");
                return emitter.fail("the conversation could not be read").await;
            }
        },
    };
    let process = match CommandProcess::start(&options, &words, &turn, ProgramInput::new(feed)) {
        Ok(process) => process,
        Err(error) => {
            tracing::error!(program = %words[0], %error, "a program could not be started");
            return emitter.fail(format!("the agent's program could not be started: {error}")).await;
        }
    };
    if !options.direct_replies {
        emitter.say(AgentEvent::Working(None)).await;
    }
    match options.mode {
        CommandMode::Text => text::listen(process, &options, &turn, output_bytes, &emitter).await,
        CommandMode::Jsonl => jsonl::listen(process, &turn, output_bytes, &emitter).await,
    }
}

/// The turn's end, where only the program's exit determines it.
async fn end(outcome: process::ProgramEnd, emitter: &Emitter) {
    match outcome {
        process::ProgramEnd::Done => emitter.end(EndState::Completed, None).await,
        process::ProgramEnd::Stopped => emitter.end(EndState::Canceled, None).await,
        process::ProgramEnd::Failed(says) => emitter.fail(says).await,
    }
}
