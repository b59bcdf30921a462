//! Reads the events of programs and endpoints: JSON objects, one event each. A program's lines, an endpoint's
//! answer and its stream share one vocabulary; the user page is `docs/agents/events.md`.
//!
//! Unknown members are ignored, so that a newer agent works with an older server; an object without any known
//! member is refused, since it is a mistake.

use std::borrow::Cow;
use std::collections::HashSet;

use model::Json;
use model::ports::agent::{AgentEvent, AgentMessage, ArtifactChunk, EndState, Turn, TurnEnd};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::parts::{PartSaid, Saying, object, present};
use crate::text_accumulator::{self, TextAccumulator};

/// The members of an event.
const KNOWN: &str = "status, artifact, text, data, parts, message, usage, metadata, completed, failed, rejected, canceled, \
                     input_required, auth_required";

/// Reads one turn's events.
pub(crate) struct EventReader {
    turn: u32,
    /// An earlier attempt may have begun the same artifacts.
    again: bool,
    /// The artifacts that this attempt has begun.
    begun: HashSet<String>,
    /// The artifact of texts and parts without an artifact of their own.
    response: TextAccumulator,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Said<'a> {
    #[serde(borrow)]
    status: Option<Cow<'a, str>>,
    text: Option<String>,
    #[serde(borrow, deserialize_with = "present")]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    parts: Option<Vec<PartSaid<'a>>>,
    #[serde(borrow)]
    artifact: Option<ArtifactSaid<'a>>,
    usage: Option<TokenUsage>,
    metadata: Option<Json>,
    #[serde(borrow, deserialize_with = "present")]
    message: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    completed: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    failed: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    rejected: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    canceled: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    input_required: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "present")]
    auth_required: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ArtifactSaid<'a> {
    #[serde(alias = "artifactId")]
    id: Option<String>,
    name: Option<String>,
    description: Option<String>,
    text: Option<String>,
    #[serde(borrow, deserialize_with = "present")]
    data: Option<&'a RawValue>,
    #[serde(borrow)]
    parts: Option<Vec<PartSaid<'a>>>,
    append: Option<bool>,
    last: Option<bool>,
    metadata: Option<Json>,
}

impl EventReader {
    pub(crate) fn new(turn: &Turn) -> EventReader {
        EventReader {
            turn: turn.so_far.core.turns,
            again: turn.attempt > 1,
            begun: HashSet::new(),
            response: TextAccumulator::new("response", turn),
        }
    }

    /// The agent repeats its output: its artifacts start again.
    pub(crate) fn again(&mut self) {
        self.again = true;
        self.begun.clear();
        self.response.again();
    }

    /// The emissions of one event. If it ends the turn, the end comes last.
    pub(crate) fn hear(&mut self, event: &str) -> Result<Vec<AgentEvent>, String> {
        let said: Said<'_> = serde_json::from_str(event).map_err(|error| unreadable(&error))?;
        if !event.trim_start().starts_with('{') {
            return Err("an event must be an object".into());
        }
        let mut all = Vec::new();
        let mut held = false;
        let saying = Saying { text: said.text, data: said.data, parts: said.parts, metadata: None };
        let mut end = None;
        match said.status {
            Some(status) => {
                let words = words(saying)?;
                all.extend(self.response.release(false));
                match status.replace('-', "_").as_str() {
                    "working" => all.push(AgentEvent::Working(words)),
                    "completed" => end = Some((EndState::Completed, words)),
                    "failed" => end = Some((EndState::Failed, words)),
                    "rejected" => end = Some((EndState::Rejected, words)),
                    "canceled" => end = Some((EndState::Canceled, words)),
                    "input_required" => end = Some((EndState::InputRequired, words)),
                    "auth_required" => end = Some((EndState::AuthRequired, words)),
                    _ => return Err(format!("unknown status {status:?}, expected working or how the turn ends")),
                }
            }
            None => {
                let parts = saying.into_parts()?;
                if !parts.is_empty() {
                    held = true;
                    all.extend(self.response.push(parts));
                }
            }
        }
        if let Some(artifact) = said.artifact {
            all.extend(self.response.release(false));
            all.push(self.artifact(artifact).map_err(|says| format!("artifact: {says}"))?);
        }
        if let Some(usage) = &said.usage {
            all.push(usage.emission());
        }
        if let Some(metadata) = object(said.metadata)? {
            all.push(AgentEvent::Metadata(metadata));
        }
        for (state, raw) in [
            (EndState::Completed, said.completed),
            (EndState::Failed, said.failed),
            (EndState::Rejected, said.rejected),
            (EndState::Canceled, said.canceled),
            (EndState::InputRequired, said.input_required),
            (EndState::AuthRequired, said.auth_required),
        ] {
            let Some(raw) = raw else { continue };
            if end.is_some() {
                return Err("a turn ends once; leave one of its ends out".into());
            }
            end = Some((state, given(raw)?));
        }
        match (said.message.map(given).transpose()?.flatten(), end) {
            (Some(_), Some(_)) => return Err("a message ends the turn; leave its other end out".into()),
            (Some(words), None) => {
                all.extend(self.response.release(true));
                all.push(AgentEvent::Reply(words));
            }
            (None, Some((state, words))) => {
                all.extend(self.response.release(true));
                all.push(AgentEvent::End(TurnEnd { state, words }));
            }
            (None, None) if all.is_empty() && !held => return Err(unknown(event)),
            (None, None) => {}
        }
        Ok(all)
    }

    /// The chunk that was held back, once its hold time is over.
    pub(crate) async fn lull(&mut self) -> AgentEvent {
        self.response.lull().await
    }

    /// The last held chunk, at the end of the output.
    pub(crate) fn finish(&mut self) -> Option<AgentEvent> {
        self.response.release(true)
    }

    fn artifact(&mut self, said: ArtifactSaid<'_>) -> Result<AgentEvent, String> {
        let parts = Saying { text: said.text, data: said.data, parts: said.parts, metadata: None }.into_parts()?;
        if parts.is_empty() {
            return Err("an artifact needs text, data or parts".into());
        }
        let key = match (said.id, &said.name) {
            (Some(id), _) if !id.is_empty() => id,
            (_, name) => text_accumulator::numbered(name.as_deref().unwrap_or("artifact"), self.turn),
        };
        let first = self.begun.insert(key.clone());
        // A repeated artifact starts again, whatever was stored of the first attempt.
        let append = said.append.unwrap_or(false) && !(first && self.again);
        Ok(AgentEvent::Artifact(ArtifactChunk {
            key,
            name: said.name,
            description: said.description,
            parts,
            metadata: object(said.metadata)?,
            extensions: Vec::new(),
            append,
            bordered: false,
            // An artifact without chunk members is whole.
            last: said.last.unwrap_or(said.append.is_none()),
            seamless: false,
        }))
    }
}

/// The message of an end: a text, an object with text, data or parts, or none.
fn given(raw: &RawValue) -> Result<Option<AgentMessage>, String> {
    match raw.get().as_bytes().first() {
        Some(b'n' | b't') => Ok(None),
        Some(b'"') => {
            let text: String = serde_json::from_str(raw.get()).map_err(|error| unreadable(&error))?;
            Ok(Some(text).filter(|text| !text.is_empty()).map(AgentMessage::text))
        }
        Some(b'{') => words(serde_json::from_str(raw.get()).map_err(|error| unreadable(&error))?),
        _ => Err("what is said must be a string, null, or an object with text, data or parts".into()),
    }
}

fn words(saying: Saying<'_>) -> Result<Option<AgentMessage>, String> {
    let metadata = saying.metadata.clone();
    let parts = saying.into_parts()?;
    Ok(if parts.is_empty() {
        None
    } else {
        Some(AgentMessage { parts, metadata: object(metadata)?, extensions: vec![] })
    })
}

fn unreadable(error: &serde_json::Error) -> String {
    if error.is_data() { error.to_string() } else { format!("not JSON: {error}") }
}

fn unknown(event: &str) -> String {
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(event).unwrap_or_default();
    match members.keys().next() {
        Some(name) => format!("unknown event {:?}, expected one of {KNOWN}", short(name)),
        None => format!("an empty event, expected one of {KNOWN}"),
    }
}

/// The beginning of a text, for error messages.
pub(crate) fn short(text: &str) -> &str {
    let end = text.char_indices().nth(80).map_or(text.len(), |(at, _)| at);
    &text[..end]
}

/// Token counts, in our names or those of either generation of model APIs.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct TokenUsage {
    #[serde(alias = "input_tokens", alias = "prompt_tokens")]
    input: Option<u64>,
    #[serde(alias = "output_tokens", alias = "completion_tokens")]
    output: Option<u64>,
    #[serde(alias = "total_tokens")]
    total: Option<u64>,
}

impl TokenUsage {
    pub(crate) fn emission(&self) -> AgentEvent {
        let total = self.total.or_else(|| Some(self.input.unwrap_or(0) + self.output.unwrap_or(0)));
        let mut usage = serde_json::Map::new();
        for (name, count) in [("input_tokens", self.input), ("output_tokens", self.output), ("total_tokens", total)] {
            usage.extend(count.map(|count| (name.to_owned(), count.into())));
        }
        AgentEvent::Metadata(Json::from_value(&serde_json::json!({ "usage": usage })))
    }
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
