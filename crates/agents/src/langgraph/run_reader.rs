//! Reads one run's events, and finds its answer at the end.
//!
//! The answer is the last message that the assistant adds to the graph's state. Tokens stream before it is known
//! whether their message is the last: when another message begins, the artifact starts again with it, and the final
//! state decides. A run that is read a second time repeats nothing: the shown text is only extended or replaced.

use std::collections::HashSet;

use model::ports::agent::{AgentEvent, Turn};
use model::{Json, Part};

use super::request::message_prefix;
use super::shapes::{ErrorSaid, Interrupt, InterruptEvent, MessageSaid, UsageSaid, Values};
use crate::sse::SseEvent;
use crate::text_accumulator::TextAccumulator;

pub(super) struct RunReader {
    response: TextAccumulator,
    /// The text of the artifact as emitted.
    shown: String,
    /// The message that is streaming: its id and text so far.
    current: (String, String),
    /// The prefix of the ids of the turn's own messages in the state.
    own: String,
    /// The messages in the state when the run began, if its beginning was read.
    before: Option<HashSet<String>>,
    from_start: bool,
    /// The newest state.
    values: Option<Json>,
    interrupts: Vec<Interrupt>,
    error: Option<String>,
    run: Option<String>,
}

/// The result of a run.
pub(super) struct RunAnswer {
    pub(super) text: String,
    pub(super) usage: Option<UsageSaid>,
}

impl RunReader {
    pub(super) fn new(turn: &Turn, assistant: &str) -> RunReader {
        let response = TextAccumulator::new("response", turn);
        RunReader {
            response: response.called("Assistant Response", format!("Response from assistant {assistant}")),
            shown: String::new(),
            current: Default::default(),
            own: message_prefix(turn),
            before: None,
            from_start: false,
            values: None,
            interrupts: Vec::new(),
            error: None,
            run: None,
        }
    }

    /// The run is read again.
    pub(super) fn again(&mut self) {
        self.current = Default::default();
        self.from_start = false;
        self.before = None;
        self.values = None;
        self.error = None;
    }

    /// The run was created just now.
    pub(super) fn begin(&mut self) {
        self.from_start = true;
    }

    /// The emission of one event. Events with other names or unreadable data are ignored.
    pub(super) fn hear(&mut self, frame: &SseEvent) -> Option<AgentEvent> {
        match frame.name.as_str() {
            "metadata" => {
                self.from_start = true;
                let said: serde_json::Value = serde_json::from_str(&frame.data).ok()?;
                self.run = said.get("run_id")?.as_str().map(str::to_owned);
                None
            }
            "values" => {
                self.ask(&frame.data);
                if self.from_start && self.before.is_none() {
                    self.before = Some(ids(&frame.data));
                }
                self.values = Json::parse(&frame.data);
                None
            }
            "updates" => {
                self.ask(&frame.data);
                None
            }
            "messages" => {
                let (message, _): (MessageSaid, serde::de::IgnoredAny) = serde_json::from_str(&frame.data).ok()?;
                self.message(&message)
            }
            "messages/partial" | "messages/complete" => {
                let messages: Vec<MessageSaid> = serde_json::from_str(&frame.data).ok()?;
                self.message(messages.last()?)
            }
            "error" => {
                let said: Option<ErrorSaid> = serde_json::from_str(&frame.data).ok();
                self.error = Some(said.and_then(ErrorSaid::words).unwrap_or_else(|| frame.data.clone()));
                None
            }
            _ => None,
        }
    }

    /// Collects the questions of an event, each once.
    fn ask(&mut self, data: &str) {
        if data.contains("__interrupt__") {
            let asking: InterruptEvent = serde_json::from_str(data).unwrap_or_default();
            self.add(asking.interrupts);
        }
    }

    pub(super) fn add(&mut self, interrupts: Vec<Interrupt>) {
        for interrupt in interrupts {
            let known = |known: &Interrupt| {
                known.id == interrupt.id && (!known.id.is_empty() || known.value == interrupt.value)
            };
            if !self.interrupts.iter().any(known) {
                self.interrupts.push(interrupt);
            }
        }
    }

    fn message(&mut self, message: &MessageSaid) -> Option<AgentEvent> {
        let text = message.text();
        if !message.is_the_assistants() || text.is_empty() {
            return None;
        }
        let id = message.id.clone().unwrap_or_default();
        if message.is_chunk() && self.current.0 == id {
            // Token after token, without comparing the whole text each time.
            let in_step = self.current.1.len() == self.shown.len() && !self.shown.is_empty();
            self.current.1.push_str(&text);
            if in_step {
                self.shown.push_str(&text);
                return self.response.push(vec![Part::text(text)]);
            }
        } else {
            self.current = (id, text);
        }
        let current = std::mem::take(&mut self.current.1);
        let said = self.show(&current);
        self.current.1 = current;
        said
    }

    /// Makes this text the artifact: appends the rest, or starts again. A text that is a prefix of the shown one
    /// changes nothing.
    fn show(&mut self, text: &str) -> Option<AgentEvent> {
        if self.shown.starts_with(text) {
            return None;
        }
        if let Some(more) = text.strip_prefix(self.shown.as_str()) {
            let more = more.to_owned();
            self.shown.push_str(&more);
            return self.response.push(vec![Part::text(more)]);
        }
        self.response.again();
        text.clone_into(&mut self.shown);
        self.response.push(vec![Part::text(text)])
    }

    /// The chunk that was held back, once its hold time is over.
    pub(super) async fn lull(&mut self) -> AgentEvent {
        self.response.lull().await
    }

    /// The final chunks of the artifact.
    pub(super) fn finish(&mut self, text: &str) -> Vec<AgentEvent> {
        let mut said = Vec::new();
        if self.shown != text || !self.response.has_begun() {
            if self.shown.len() > text.len() {
                self.shown.clear();
                self.response.again();
            }
            said.extend(if text.is_empty() { self.response.push(vec![Part::text("")]) } else { self.show(text) });
        }
        said.extend(self.response.release(true));
        said
    }

    /// The last held chunk, where there is no answer.
    pub(super) fn release(&mut self) -> Option<AgentEvent> {
        self.response.release(true)
    }

    pub(super) fn run(&self) -> Option<&str> {
        self.run.as_deref()
    }

    pub(super) fn interrupts(&self) -> &[Interrupt] {
        &self.interrupts
    }

    pub(super) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// Whether the run's beginning and a state were read.
    pub(super) fn is_whole(&self) -> bool {
        self.before.is_some() && self.values.is_some()
    }

    pub(super) fn set_values(&mut self, values: Option<Json>) {
        self.values = values.or_else(|| self.values.take());
    }

    /// The answer: the last message that the assistant added, and the token usage of all it added. Without one, the
    /// streamed text; a state without messages is itself the answer.
    pub(super) fn answer(&self) -> RunAnswer {
        let mut answer = RunAnswer { text: self.shown.clone(), usage: None };
        let Some(values) = &self.values else { return answer };
        let Ok(state) = serde_json::from_str::<Values>(values.text()) else { return answer };
        let Some(messages) = state.messages else {
            return RunAnswer { text: values.text().to_owned(), ..answer };
        };
        for message in self.added(&messages) {
            let text = message.text();
            if !text.is_empty() {
                answer.text = text;
            }
            if let Some(usage) = message.usage_metadata {
                let sum = answer.usage.get_or_insert_default();
                sum.input_tokens += usage.input_tokens;
                sum.output_tokens += usage.output_tokens;
                sum.total_tokens += usage.total_tokens;
            }
        }
        answer
    }

    /// The assistant's messages of this turn: those between the turn's own messages and the next messages of any
    /// other sender. A resumed run adds no messages of its own; then those that are new since its beginning.
    fn added<'a>(&self, messages: &'a [MessageSaid]) -> Vec<&'a MessageSaid> {
        let own = |message: &MessageSaid| message.id.as_ref().is_some_and(|id| id.starts_with(&self.own));
        let new: Vec<&MessageSaid> = match (messages.iter().rposition(own), &self.before) {
            (Some(at), _) => messages[at + 1..].iter().take_while(|message| !message.is_a_person_s()).collect(),
            (None, Some(before)) => {
                let is_new = |message: &&MessageSaid| message.id.as_ref().is_none_or(|id| !before.contains(id));
                messages.iter().filter(is_new).collect()
            }
            // The run's beginning was not read: its last message is most likely its own.
            (None, None) => messages.last().into_iter().collect(),
        };
        new.into_iter().filter(|message| message.is_the_assistants()).collect()
    }
}

fn ids(values: &str) -> HashSet<String> {
    let state: Option<Values> = serde_json::from_str(values).ok();
    let messages = state.and_then(|state| state.messages).unwrap_or_default();
    messages.into_iter().filter_map(|message| message.id).collect()
}
