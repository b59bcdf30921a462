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

use crate::config::{self, AgentKind};
use crate::emitter::{Emitter, emit};
use crate::outbound::{self, RequestError, Retries};
use crate::text_accumulator::TextAccumulator;
use completion::{Completion, CompletionEnd};
pub use options::Options;

pub const KIND: AgentKind =
    AgentKind::of::<Options>("openai", "asks a model behind an OpenAI-compatible interface", options::FIELDS);

/// Default number of retries.
const RETRIES: u32 = 2;
const WHO: &str = "the model";

struct OpenAiAgent {
    profile: Profile,
    remote: Arc<ModelServer>,
}

struct ModelServer {
    options: Options,
    client: Client,
    url: String,
    output_bytes: usize,
}

impl OpenAiAgent {
    fn new(name: &str, remote: ModelServer) -> OpenAiAgent {
        let input_modes: &[&str] = match remote.options.files {
            options::FileHandling::Note => &["text/plain", "application/json", "image/*"],
            options::FileHandling::Send => &["*/*"],
        };
        // A second request costs tokens and has no other effect.
        let plain = config::profile(name, format!("Answers with the model {}.", remote.options.model), Restart::Retry);
        let profile = Profile {
            input_modes: input_modes.iter().map(|&mode| mode.into()).collect(),
            output_modes: vec!["text/plain".into()],
            ..plain
        };
        OpenAiAgent { profile, remote: Arc::new(remote) }
    }
}

impl agent::Agent for OpenAiAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, _: &Inbound, _: Option<&Task>) -> Result<Admission, Fault> {
        Ok(Admission { undecided: false, restart: self.profile.restart, idempotent: false })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let remote = self.remote.clone();
        emit(move |emitter| async move {
            tokio::select! {
                biased;
                // Dropping the other branch closes the stream, on which the server stops the model.
                () = turn.cancelled.clone() => {}
                () = remote.talk(&turn, &emitter) => return,
            }
            emitter.end(EndState::Canceled, None).await;
        })
    }
}

impl ModelServer {
    async fn talk(&self, turn: &Turn, emitter: &Emitter) {
        let body = match prompt::body(&self.options, turn).await {
            Ok(body) => body,
            Err(fault) => {
                tracing::error!(task = %turn.task, cause = %fault.cause_text(), "a conversation could not be read: {fault}");
                return emitter.fail("the conversation could not be read").await;
            }
        };
        emitter.say(AgentEvent::Working(None)).await;
        let mut response = TextAccumulator::new("response", turn);
        let mut retries = Retries::new(self.options.retries, RETRIES, self.options.retry_ms.unwrap_or(500), turn.id);
        loop {
            let trouble = match self.ask(&body, &mut response, emitter).await {
                Ok(finish) => return end(finish, response, emitter).await,
                Err(trouble) => trouble,
            };
            // Text that was emitted stays: a second answer would differ.
            let again = !response.has_begun() && retries.pause(&trouble, true, emitter).await;
            if !again {
                if let Some(emission) = response.release(true) {
                    emitter.say(emission).await;
                }
                return emitter.fail(trouble.says).await;
            }
            tracing::info!(turn = %turn.id, "asking again: {}", trouble.says);
        }
    }

    /// Sends one request and streams the answer.
    async fn ask(
        &self,
        body: &str,
        response: &mut TextAccumulator,
        emitter: &Emitter,
    ) -> Result<CompletionEnd, RequestError> {
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
                    emitter.say(emission).await;
                    continue;
                }
            };
            match chunk {
                Ok(Some(chunk)) => {
                    bytes += chunk.len();
                    // Each token comes in a frame many times its size.
                    if bytes > self.output_bytes.saturating_mul(64) {
                        return Err(RequestError::never(format!("{WHO} said more than {} bytes", self.output_bytes)));
                    }
                    completion.push(&chunk);
                }
                Ok(None) => completion.finish()?,
                Err(error) => return Err(RequestError::broken(WHO, &error)),
            }
            while let Some(text) = completion.next()? {
                if let Some(emission) = response.push(vec![Part::text(text)]) {
                    emitter.say(emission).await;
                }
            }
            if let Some(finish) = completion.finished() {
                return Ok(finish);
            }
        }
    }
}

/// Ends the turn, after the held text and the usage.
async fn end(finish: CompletionEnd, mut response: TextAccumulator, emitter: &Emitter) {
    if let Some(emission) = response.release(true) {
        emitter.say(emission).await;
    }
    if let Some(usage) = &finish.usage {
        emitter.say(usage.emission()).await;
    }
    match finish.reason.as_deref() {
        Some("length") => {
            let note = model::Json::from_value(&serde_json::json!({"truncated": true, "finish_reason": "length"}));
            emitter.say(AgentEvent::Metadata(note)).await;
            emitter.end(EndState::Completed, None).await;
        }
        Some("content_filter") => emitter.fail("the model's content filter stopped the answer").await,
        Some("tool_calls" | "function_call") => {
            emitter.fail("the model wants to call a tool, and this agent has none").await;
        }
        Some(_) | None => emitter.end(EndState::Completed, None).await,
    }
}

fn is_busy(status: StatusCode) -> bool {
    status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS
}
