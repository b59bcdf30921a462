//! `langgraph`: an assistant of a LangGraph server. A context is a thread there, and a turn is a run.
//!
//! `options` has the address and the assistant, `binding` the thread and run, `request` the body of a run, `server` the
//! REST client; `shapes` and `run_reader` read the stream. This file drives a turn: it creates a run once, finds it again
//! after a crash of either side, and follows it to its end. The user page is `docs/agents/langgraph.md`.

mod binding;
mod options;
mod request;
mod run_reader;
mod server;
mod shapes;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::stream::BoxStream;
use model::ports::agent::{self, Admission, AgentEvent, AgentMessage, ArtifactChunk, EndState, Profile, Restart, Turn};
use model::{Content, Fault, Inbound, Json, Task};
use reqwest::Response;

use crate::config::{self, AgentKind};
use crate::emitter::{Emitter, emit};
use crate::outbound::{RequestError, Retries, RetryRule};
use crate::sse::Sse;
use binding::RunBinding;
pub use options::{Options, StreamMode};
use request::QuestionMetadata;
use run_reader::RunReader;
use server::{GraphServer, RunStatus, WHO};
use shapes::ThreadState;

pub const KIND: AgentKind =
    AgentKind::of::<Options>("langgraph", "runs an assistant of a LangGraph server", options::FIELDS);

/// Default number of retries.
const RETRIES: u32 = 3;
const ERROR_CHARS: usize = 2_000;

struct LanggraphAgent {
    profile: Profile,
    graph: Arc<Graph>,
}

struct Graph {
    server: GraphServer,
    options: Options,
}

impl LanggraphAgent {
    fn new(name: &str, server: GraphServer, options: Options) -> LanggraphAgent {
        let modes = || vec!["text/plain".into(), "application/json".into()];
        // A run continues without us, and is found again by the binding or by the turn's id in its metadata.
        let plain = config::profile(name, "Answers by a graph.", Restart::Resume);
        let profile = Profile { input_modes: modes(), output_modes: modes(), ..plain };
        LanggraphAgent { profile, graph: Arc::new(Graph { server, options }) }
    }
}

impl agent::Agent for LanggraphAgent {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn admit(&self, inbound: &Inbound, task: Option<&Task>) -> Result<Admission, Fault> {
        // Any value can be an answer; only an object can be merged into an input.
        let answers = task.is_some_and(|task| task.status.state.is_interrupted());
        for (i, part) in inbound.message.parts.iter().enumerate() {
            if let Content::Data(data) = &part.content
                && !answers
                && !data.is_object()
            {
                let says = "a graph's input is an object; put this value into a member of one";
                return Err(Fault::params(format!("message.parts[{i}].data"), says));
            }
        }
        Ok(Admission { undecided: false, restart: self.profile.restart, idempotent: false })
    }

    fn run(&self, turn: Turn) -> BoxStream<'static, AgentEvent> {
        let graph = self.graph.clone();
        emit(move |emitter| async move {
            let place = OnceLock::new();
            {
                let mut talk = Box::pin(graph.talk(&turn, &place, &emitter));
                tokio::select! {
                    biased;
                    () = turn.cancelled.clone() => {}
                    () = &mut talk => return,
                }
                // A run that ended before the cancel is read to its end.
                if let Some(place) = place.get()
                    && graph.cancel(place).await == Some(false)
                {
                    return talk.await;
                }
            }
            if place.get().is_none() {
                graph.cancel_unheard(&turn).await;
            }
            emitter.end(EndState::Canceled, None).await;
        })
    }
}

/// The state of a turn.
struct RunTurn<'a> {
    turn: &'a Turn,
    thread: String,
    /// The run, once known.
    place: &'a OnceLock<RunBinding>,
    /// A run may have been created whose id was not received.
    doubt: bool,
    hearing: RunReader,
    emitter: &'a Emitter,
}

/// How reading a stream ended.
enum Heard {
    Over(Outcome),
    /// The run continues after its stream ended.
    GoesOn,
}

enum Outcome {
    Done,
    Asks,
    Failed(String),
    Stopped,
}

impl Graph {
    async fn talk(&self, turn: &Turn, place: &OnceLock<RunBinding>, emitter: &Emitter) {
        emitter.say(AgentEvent::Working(None)).await;
        if let Some(bound) = RunBinding::read(turn.bound.as_deref()) {
            let _ = place.set(bound);
        }
        let mut course = RunTurn {
            turn,
            thread: binding::thread(turn).to_string(),
            place,
            doubt: turn.attempt > 1,
            hearing: RunReader::new(turn, &self.options.assistant),
            emitter,
        };
        let retries = || Retries::new(self.options.retries, RETRIES, self.options.retry_ms(), turn.id);
        let mut left = retries();
        let outcome = loop {
            match self.listen(&mut course).await {
                Ok(Heard::Over(outcome)) => break outcome,
                // The server answers that the run continues, so this does not count as a failure.
                Ok(Heard::GoesOn) => {
                    left = retries();
                    tokio::time::sleep(Duration::from_millis(self.options.retry_ms())).await;
                }
                Err(trouble) => {
                    if !left.pause(&trouble, true, emitter).await {
                        break Outcome::Failed(trouble.says);
                    }
                    tracing::info!(turn = %turn.id, "asking again: {}", trouble.says);
                }
            }
            course.hearing.again();
        };
        course.end(outcome).await;
    }

    /// Creates or finds the turn's run, reads its stream, and asks for its status afterwards.
    async fn listen(&self, course: &mut RunTurn<'_>) -> Result<Heard, RequestError> {
        if course.place.get().is_none()
            && std::mem::replace(&mut course.doubt, true)
            && let Some(run) = self.server.find(&course.thread, course.turn.id).await?
        {
            course.bind(run).await;
        }
        let response = match course.place.get() {
            Some(place) => self.server.attach(place).await?,
            None => {
                let body = request::body(&self.options, course.turn);
                let (response, run) = self.server.create(&course.thread, body).await?;
                course.hearing.begin();
                if let Some(run) = run {
                    course.bind(run).await;
                }
                response
            }
        };
        let broken = self.hear(response, course).await?;
        let Some(place) = course.place.get() else {
            let says = format!("{WHO} said nothing of the run it was to create");
            return Err(RequestError { says, again: RetryRule::Unclear });
        };
        let outcome = match (self.server.status(place).await?, broken) {
            (None, _) => Outcome::Failed(format!("{WHO} no longer knows the run; send the message again")),
            (Some(RunStatus::Pending | RunStatus::Running), _) => return Ok(Heard::GoesOn),
            // The run has ended, and its last events were not received.
            (Some(_), Some(trouble)) => return Err(trouble),
            (Some(RunStatus::Interrupted), None) => Outcome::Stopped,
            (Some(RunStatus::Timeout), None) => Outcome::Failed(failure("the run timed out")),
            (Some(RunStatus::Error), None) => {
                Outcome::Failed(failure(course.hearing.error().unwrap_or("the run failed")))
            }
            (Some(RunStatus::Success | RunStatus::Unknown), None) => {
                if !course.hearing.is_whole()
                    && let Some(state) = self.server.state::<ThreadState>(&course.thread).await?
                {
                    course.hearing.add(state.interrupts());
                    course.hearing.set_values(state.values);
                }
                if course.hearing.interrupts().is_empty() { Outcome::Done } else { Outcome::Asks }
            }
        };
        Ok(Heard::Over(outcome))
    }

    /// Passes a stream on until it ends or breaks; the run's status decides what that means.
    async fn hear(
        &self,
        mut response: Response,
        course: &mut RunTurn<'_>,
    ) -> Result<Option<RequestError>, RequestError> {
        let mut sse = Sse::new(self.server.longest);
        loop {
            let chunk = tokio::select! {
                biased;
                chunk = response.chunk() => chunk,
                emission = course.hearing.lull() => {
                    course.emitter.say(emission).await;
                    continue;
                }
            };
            match chunk {
                Ok(Some(chunk)) => sse.push(&chunk),
                Ok(None) => return Ok(None),
                Err(error) => return Ok(Some(RequestError::broken(WHO, &error))),
            }
            let too_long =
                |_| RequestError::never(format!("{WHO} said more than {} bytes at once", self.server.longest));
            while let Some(frame) = sse.frame().map_err(too_long)? {
                let emission = course.hearing.hear(&frame);
                if course.place.get().is_none()
                    && let Some(run) = course.hearing.run().map(str::to_owned)
                {
                    course.bind(run).await;
                }
                if let Some(emission) = emission {
                    course.emitter.say(emission).await;
                }
            }
        }
    }

    /// Cancels the run; false if it had ended already, none if that is unknown.
    async fn cancel(&self, place: &RunBinding) -> Option<bool> {
        match self.server.cancel(place).await {
            Ok(stopped) => Some(stopped),
            Err(trouble) => {
                tracing::warn!(run = %place.run, "a run could not be stopped: {}", trouble.says);
                None
            }
        }
    }

    /// Cancels a run that may have been created before its id was received.
    async fn cancel_unheard(&self, turn: &Turn) {
        let thread = binding::thread(turn).to_string();
        match self.server.find(&thread, turn.id).await {
            Ok(Some(run)) => drop(self.cancel(&RunBinding { thread, run }).await),
            Ok(None) => {}
            Err(trouble) => tracing::warn!(turn = %turn.id, "a run could not be stopped: {}", trouble.says),
        }
    }
}

impl RunTurn<'_> {
    /// Stores the run's id before any of its output is passed on.
    async fn bind(&mut self, run: String) {
        let place = RunBinding { thread: self.thread.clone(), run };
        let bound = place.text();
        // A cancel may arrive during the next await and must find the run.
        let _ = self.place.set(place);
        self.emitter.say(AgentEvent::Bound(bound)).await;
    }

    async fn end(mut self, outcome: Outcome) {
        let emitter = self.emitter;
        if let Outcome::Done = outcome {
            let answer = self.hearing.answer();
            for emission in self.hearing.finish(&answer.text) {
                emitter.say(emission).await;
            }
            if let Some(usage) = answer.usage {
                let usage = serde_json::json!({"usage": {
                    "input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens, "total_tokens": usage.total_tokens,
                }});
                emitter.say(AgentEvent::Metadata(Json::from_value(&usage))).await;
            }
        } else if let Some(emission) = self.hearing.release() {
            emitter.say(emission).await;
        }
        match outcome {
            Outcome::Done => emitter.end(EndState::Completed, None).await,
            Outcome::Failed(says) => emitter.fail(says).await,
            Outcome::Stopped => {
                let says = "the run was stopped at the graph server";
                emitter.end(EndState::Canceled, Some(AgentMessage::text(says))).await;
            }
            Outcome::Asks => self.ask().await,
        }
    }

    /// Emits the graph's questions. The key is the same in every turn: the new list replaces the old one.
    async fn ask(&self) {
        let open = self.hearing.interrupts();
        let piece = ArtifactChunk {
            key: "interrupt".into(),
            name: Some("Interrupt".into()),
            description: Some("Agent requires input to continue".into()),
            parts: open.iter().map(shapes::Interrupt::part).collect(),
            last: true,
            ..ArtifactChunk::default()
        };
        self.emitter.say(AgentEvent::Artifact(piece)).await;
        let says: Vec<String> = open.iter().filter_map(shapes::Interrupt::words).collect();
        let says = if says.is_empty() { "the agent requires input to continue".to_owned() } else { says.join("\n") };
        let run = self.place.get().map(|place| place.run.clone()).unwrap_or_default();
        let asked = QuestionMetadata { run, interrupts: open.iter().map(|interrupt| interrupt.id.clone()).collect() };
        let words = AgentMessage { metadata: Some(asked.json()), ..AgentMessage::text(says) };
        self.emitter.end(EndState::InputRequired, Some(words)).await;
    }
}

fn failure(says: &str) -> String {
    let end = says.char_indices().nth(ERROR_CHARS).map_or(says.len(), |(at, _)| at);
    format!("Error executing assistant: {}", &says[..end])
}
