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

use crate::config::{self, Kind};
use crate::speech::{Emitter, speak};
use crate::telling;
pub use options::{Mode, Options};
use process::{Feed, Process};

pub const KIND: Kind = Kind::of::<Options>("command", "runs a program for each turn", options::FIELDS);

struct Agent {
    profile: Profile,
    options: Arc<Options>,
    /// The program and its arguments.
    words: Arc<[String]>,
    output_bytes: usize,
}

impl Agent {
    fn new(name: &str, options: Options, words: Vec<String>, output_bytes: usize) -> Agent {
        let (input_modes, output_modes): (&[&str], _) = match (options.mode, &options.media_type) {
            (Mode::Jsonl, _) => (&["*/*"], "*/*"),
            (Mode::Text, None) => (&["text/plain", "application/json"], "text/plain"),
            (Mode::Text, Some(media_type)) => (&["text/plain", "application/json"], media_type.as_str()),
        };
        // A program may have effects outside the server, so a turn is not repeated.
        let plain = config::profile(name, "Runs a program for each message.", Restart::Fail);
        let profile = Profile {
            input_modes: input_modes.iter().map(|&mode| mode.into()).collect(),
            output_modes: vec![output_modes.into()],
            ..plain
        };
        Agent { profile, options: Arc::new(options), words: words.into(), output_bytes }
    }
}

impl agent::Agent for Agent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, _: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        let undecided = self.options.direct_replies && task.is_none();
        Ok(Admission { undecided, restart: self.profile.restart, idempotent: false })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let (options, words, output_bytes) = (self.options.clone(), self.words.clone(), self.output_bytes);
        speak(move |voice| Box::pin(run(options, words, output_bytes, turn, voice)))
    }
}

async fn run(options: Arc<Options>, words: Arc<[String]>, output_bytes: usize, turn: Turn, voice: Emitter) {
    let feed = match options.mode {
        Mode::Text => text::input(&turn),
        Mode::Jsonl => match telling::tell(&turn, options.history).await {
            Ok(told) => told + "\n",
            Err(fault) => {
                tracing::error!(task = %turn.task, cause = %fault.cause_text(), "cannot read a conversation: {fault}");
                return voice.fail("the conversation could not be read").await;
            }
        },
    };
    let process = match Process::start(&options, &words, &turn, Feed::new(feed)) {
        Ok(process) => process,
        Err(error) => {
            tracing::error!(program = %words[0], %error, "a program could not be started");
            return voice.fail(format!("the agent's program could not be started: {error}")).await;
        }
    };
    if !options.direct_replies {
        voice.say(AgentEvent::Working(None)).await;
    }
    match options.mode {
        Mode::Text => text::listen(process, &options, &turn, output_bytes, &voice).await,
        Mode::Jsonl => jsonl::listen(process, &turn, output_bytes, &voice).await,
    }
}

/// The turn's end, where only the program's exit determines it.
async fn end(outcome: process::Outcome, voice: &Emitter) {
    match outcome {
        process::Outcome::Done => voice.end(EndState::Completed, None).await,
        process::Outcome::Stopped => voice.end(EndState::Canceled, None).await,
        process::Outcome::Failed(says) => voice.fail(says).await,
    }
}
