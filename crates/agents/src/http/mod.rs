//! `http`: a user's own endpoint. The turn is POSTed to it; it answers with events, at once or as a stream.
//!
//! `options` are the address and credentials, `sign` signs the requests, `frames` splits an answer into events. The
//! user page is `docs/agents/http.md`.

mod frames;
mod options;
mod sign;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::BoxStream;
use model::ports::agent::{self, Admission, AgentEvent, EndState, Profile, Restart, Turn};
use model::{Fault, Inbound, Task};
use reqwest::Client;
use reqwest::header::{ACCEPT, CONTENT_TYPE};

use crate::config::{self, AgentKind};
use crate::emitter::{Emitter, emit};
use crate::events::EventReader;
use crate::outbound::{self, RequestError, Retries, RetryRule};
use crate::turn_json;
use frames::Frames;
pub use options::Options;

pub const KIND: AgentKind =
    AgentKind::of::<Options>("http", "POSTs each turn to an endpoint of yours", options::FIELDS);

/// Time limit of the cancel request.
const CANCEL_TIME: Duration = Duration::from_secs(2);
/// Default number of retries.
const RETRIES: u32 = 3;
const WHO: &str = "the agent's endpoint";

struct HttpAgent {
    profile: Profile,
    endpoint: Arc<Endpoint>,
}

struct Endpoint {
    options: Options,
    client: Client,
    output_bytes: usize,
    /// Whether a turn may be sent again when the outcome of the last request is unknown.
    retry: bool,
}

impl HttpAgent {
    fn new(name: &str, endpoint: Endpoint) -> HttpAgent {
        // The endpoint recognises a repeat by the turn's id.
        let profile = config::profile(name, "Answers by an HTTP endpoint.", Restart::Retry);
        HttpAgent { profile, endpoint: Arc::new(endpoint) }
    }
}

impl agent::Agent for HttpAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, _: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        let undecided = self.endpoint.options.direct_replies && task.is_none();
        Ok(Admission { undecided, restart: self.profile.restart, idempotent: false })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let endpoint = self.endpoint.clone();
        emit(move |emitter| async move {
            tokio::select! {
                biased;
                // Dropping the other branch closes the request.
                () = turn.cancelled.clone() => {}
                () = endpoint.talk(&turn, &emitter) => return,
            }
            endpoint.cancel(&turn).await;
            emitter.end(EndState::Canceled, None).await;
        })
    }
}

impl Endpoint {
    async fn talk(&self, turn: &Turn, emitter: &Emitter) {
        let body = match turn_json::write(turn, self.options.history).await {
            Ok(body) => body,
            Err(fault) => {
                tracing::error!(task = %turn.task, cause = %fault.cause_text(), "cannot read a conversation: {fault}");
                return emitter.fail("the conversation could not be read").await;
            }
        };
        if !self.options.direct_replies {
            emitter.say(AgentEvent::Working(None)).await;
        }
        let mut hearing = EventReader::new(turn);
        let mut retries = Retries::new(self.options.retries, RETRIES, self.options.retry_ms.unwrap_or(500), turn.id);
        loop {
            let Err(trouble) = self.ask(turn, &body, &mut hearing, emitter).await else { return };
            if !retries.pause(&trouble, self.retry, emitter).await {
                if let Some(emission) = hearing.finish() {
                    emitter.say(emission).await;
                }
                return emitter.fail(trouble.says).await;
            }
            tracing::info!(turn = %turn.id, "asking again: {}", trouble.says);
            hearing.again();
        }
    }

    /// Sends the turn once, under its id, and passes the answer on.
    async fn ask(
        &self,
        turn: &Turn,
        body: &str,
        hearing: &mut EventReader,
        emitter: &Emitter,
    ) -> Result<(), RequestError> {
        let mut request = self.request(&self.options.url, turn, turn.id.to_string(), body);
        request = request.header(ACCEPT, "application/json, text/event-stream, application/x-ndjson");
        let sent = request.send().await;
        let unreached = sent.as_ref().err().filter(|error| error.is_connect()).map(outbound::reason_of);
        let answered = outbound::answer(WHO, sent, outbound::is_busy).await;
        let mut response = answered.map_err(|trouble| match unreached {
            Some(why) => RequestError { says: format!("{} at {}: {why}", trouble.says, self.origin()), ..trouble },
            None => trouble,
        })?;
        let mut frames = Frames::of(response.headers(), self.output_bytes)?;
        let mut bytes = 0;
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = response.chunk() => chunk,
                emission = hearing.lull() => {
                    emitter.say(emission).await;
                    continue;
                }
            };
            let over = match chunk {
                Ok(Some(chunk)) => {
                    bytes += chunk.len();
                    if bytes > self.output_bytes {
                        return Err(RequestError::never(format!(
                            "{WHO} answered more than {} bytes",
                            self.output_bytes
                        )));
                    }
                    frames.push(&chunk);
                    false
                }
                Ok(None) => {
                    frames.finish();
                    true
                }
                Err(error) => return Err(RequestError::broken(WHO, &error)),
            };
            while let Some(event) = frames.next()? {
                let says = |says| RequestError::never(format!("event {} of {WHO}: {says}", frames.count()));
                for emission in hearing.hear(&event).map_err(says)? {
                    let ends = matches!(emission, AgentEvent::End(_) | AgentEvent::Reply(_));
                    emitter.say(emission).await;
                    if ends {
                        return Ok(());
                    }
                }
            }
            if over || frames.is_done() {
                break;
            }
        }
        if !frames.is_whole() {
            let says = format!("{WHO} stopped without saying how the turn ends");
            return Err(RequestError { says, again: RetryRule::Unclear });
        }
        if let Some(emission) = hearing.finish() {
            emitter.say(emission).await;
        }
        emitter.end(EndState::Completed, None).await;
        Ok(())
    }

    /// The endpoint's origin, which contains no secrets.
    fn origin(&self) -> String {
        url::Url::parse(&self.options.url).map_or_else(|_| "?".to_owned(), |url| url.origin().ascii_serialization())
    }

    /// A signed request about a turn.
    fn request(&self, url: &str, turn: &Turn, id: String, body: &str) -> reqwest::RequestBuilder {
        let mut request = self.client.post(url).header(CONTENT_TYPE, "application/json");
        request = request.header("x-rialto-turn", turn.id.to_string()).header("idempotency-key", &id);
        if let Some(trace) = turn.messages.last().and_then(|inbound| inbound.trace.as_deref()) {
            request = request.header("traceparent", trace);
        }
        if let Some(secret) = &self.options.secret {
            for (name, value) in sign::headers(secret, &id, body) {
                request = request.header(name, value);
            }
        }
        request.body(body.to_owned())
    }

    /// Sends a cancel to the endpoint, once; the reply is ignored.
    async fn cancel(&self, turn: &Turn) {
        let Some(url) = &self.options.cancel_url else { return };
        let body = serde_json::json!({
            "turn": turn.id.to_string(), "task": turn.task.to_string(), "context": turn.context.as_str(), "reason": "canceled",
        });
        // A signature covers one message id, so the cancel has its own.
        let request = self.request(url, turn, format!("{}-cancel", turn.id), &body.to_string());
        match request.timeout(CANCEL_TIME).send().await {
            Ok(response) if response.status().is_success() => {}
            Ok(response) => tracing::warn!(turn = %turn.id, status = %response.status(), "a cancel was not taken"),
            Err(error) => tracing::warn!(turn = %turn.id, error = %outbound::chain(&error), "a cancel was not taken"),
        }
    }
}
