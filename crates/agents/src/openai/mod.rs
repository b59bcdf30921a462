//! `openai`: a model behind any API that is compatible with OpenAI's chat completions.
//!
//! `options` are the model and its address, `prompt` builds the request from the conversation, `completion` reads
//! the answer. The user page is `docs/agents/openai.md`.

mod completion;
mod options;
mod prompt;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::stream::BoxStream;
use model::ports::agent::{self, Admission, AgentEvent, EndState, Profile, Restart, Turn};
use model::{Fault, Inbound, Part, Task};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, StatusCode};

use crate::config::{self, Kind};
use crate::growing::Growing;
use crate::outbound::{self, Retries, Trouble};
use crate::speech::{Emitter, speak};
use completion::{Completion, Finish};
pub use options::Options;

pub const KIND: Kind =
    Kind::of::<Options>("openai", "asks a model behind an OpenAI-compatible interface", options::FIELDS);

/// Default number of retries.
const RETRIES: u32 = 2;
const WHO: &str = "the model";

struct Agent {
    profile: Profile,
    remote: Arc<Remote>,
}

struct Remote {
    options: Options,
    client: Client,
    url: String,
    output_bytes: usize,
}

impl Agent {
    fn new(name: &str, remote: Remote) -> Agent {
        let input_modes: &[&str] = match remote.options.files {
            options::Files::Note => &["text/plain", "application/json", "image/*"],
            options::Files::Send => &["*/*"],
        };
        // A second request costs tokens and has no other effect.
        let plain = config::profile(name, format!("Answers with the model {}.", remote.options.model), Restart::Retry);
        let profile = Profile {
            input_modes: input_modes.iter().map(|&mode| mode.into()).collect(),
            output_modes: vec!["text/plain".into()],
            ..plain
        };
        Agent { profile, remote: Arc::new(remote) }
    }
}

impl agent::Agent for Agent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, _: &Inbound, _: Option<&Task>) -> Result<Admission, Fault> {
        Ok(Admission { undecided: false, restart: self.profile.restart, idempotent: false })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let remote = self.remote.clone();
        speak(move |voice| async move {
            tokio::select! {
                biased;
                // Dropping the other branch closes the stream, on which the server stops the model.
                () = turn.cancelled.clone() => {}
                () = remote.talk(&turn, &voice) => return,
            }
            voice.end(EndState::Canceled, None).await;
        })
    }
}

impl Remote {
    async fn talk(&self, turn: &Turn, voice: &Emitter) {
        let body = match prompt::body(&self.options, turn).await {
            Ok(body) => body,
            Err(fault) => {
                tracing::error!(task = %turn.task, cause = %fault.cause_text(), "a conversation could not be read: {fault}");
                return voice.fail("the conversation could not be read").await;
            }
        };
        voice.say(AgentEvent::Working(None)).await;
        let mut response = Growing::new("response", turn);
        let mut retries = Retries::new(self.options.retries, RETRIES, self.options.retry_ms.unwrap_or(500), turn.id);
        loop {
            let trouble = match self.ask(&body, &mut response, voice).await {
                Ok(finish) => return end(finish, response, voice).await,
                Err(trouble) => trouble,
            };
            // Text that was emitted stays: a second answer would differ.
            let again = !response.has_begun() && retries.pause(&trouble, true, voice).await;
            if !again {
                if let Some(emission) = response.release(true) {
                    voice.say(emission).await;
                }
                return voice.fail(trouble.says).await;
            }
            tracing::info!(turn = %turn.id, "asking again: {}", trouble.says);
        }
    }

    /// Sends one request and streams the answer.
    async fn ask(&self, body: &str, response: &mut Growing, voice: &Emitter) -> Result<Finish, Trouble> {
        let request = self.client.post(&self.url).header(CONTENT_TYPE, "application/json");
        let request = request.header(ACCEPT, "text/event-stream, application/json").body(body.to_owned());
        let mut answer = outbound::answer(WHO, request.send().await, is_busy).await?;
        let mut completion = Completion::of(answer.headers());
        let mut bytes = 0;
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = answer.chunk() => chunk,
                emission = response.lull() => {
                    voice.say(emission).await;
                    continue;
                }
            };
            match chunk {
                Ok(Some(chunk)) => {
                    bytes += chunk.len();
                    // Each token comes in a frame many times its size.
                    if bytes > self.output_bytes.saturating_mul(64) {
                        return Err(Trouble::never(format!("{WHO} said more than {} bytes", self.output_bytes)));
                    }
                    completion.push(&chunk);
                }
                Ok(None) => completion.finish()?,
                Err(error) => return Err(Trouble::broken(WHO, &error)),
            }
            while let Some(text) = completion.next()? {
                if let Some(emission) = response.push(vec![Part::text(text)]) {
                    voice.say(emission).await;
                }
            }
            if let Some(finish) = completion.finished() {
                return Ok(finish);
            }
        }
    }
}

/// Ends the turn, after the held text and the usage.
async fn end(finish: Finish, mut response: Growing, voice: &Emitter) {
    if let Some(emission) = response.release(true) {
        voice.say(emission).await;
    }
    if let Some(usage) = &finish.usage {
        voice.say(usage.emission()).await;
    }
    match finish.reason.as_deref() {
        Some("length") => {
            let note = model::Json::from_value(&serde_json::json!({"truncated": true, "finish_reason": "length"}));
            voice.say(AgentEvent::Metadata(note)).await;
            voice.end(EndState::Completed, None).await;
        }
        Some("content_filter") => voice.fail("the model's content filter stopped the answer").await,
        Some("tool_calls" | "function_call") => {
            voice.fail("the model wants to call a tool, and this agent has none").await;
        }
        Some(_) | None => voice.end(EndState::Completed, None).await,
    }
}

fn is_busy(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}
