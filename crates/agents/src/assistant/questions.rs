//! The questions of `interrupt` and `parallel`, and the answers to them.
//!
//! The answers so far are stored in the binding of the turn that asks: it is in the log when the next answer
//! arrives, in any process, no caller sees it, and an interrupted attempt leaves none. Logs of earlier releases
//! have the answers in the metadata of the message that asks.

use std::collections::BTreeMap;

use model::ports::agent::Turn;
use model::{Content, Json, Message, Role};
use serde::{Deserialize, Serialize};

use super::AssistantMode;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct AssistantQuestion {
    pub(super) id: &'static str,
    pub(super) says: &'static str,
}

const ONE: &[AssistantQuestion] = &[AssistantQuestion { id: "interrupt-1", says: "Which colour would you like?" }];
const TWO: &[AssistantQuestion] = &[
    AssistantQuestion { id: "interrupt-1", says: "In which month would you like to travel?" },
    AssistantQuestion { id: "interrupt-2", says: "How many people will travel?" },
];

/// The course of a turn.
pub(super) enum TurnPhase {
    Ask(OpenQuestions),
    Answer(String),
}

/// Open questions, and the answers so far.
pub(super) struct OpenQuestions {
    pub(super) open: Vec<&'static AssistantQuestion>,
    answers: Answers,
}

type Answers = BTreeMap<String, Json>;

/// The answers that a turn stores for the next.
#[derive(Serialize, Deserialize)]
struct Kept {
    answered: Answers,
}

impl OpenQuestions {
    pub(super) fn kept(&self) -> String {
        serde_json::to_string(&Kept { answered: self.answers.clone() }).unwrap_or_default()
    }
}

pub(super) fn take_up(mode: AssistantMode, turn: &Turn) -> TurnPhase {
    let all = match mode {
        AssistantMode::Interrupt => ONE,
        AssistantMode::Parallel => TWO,
        AssistantMode::Chat | AssistantMode::Structured => &[],
    };
    let Some(mut answers) = answered_before(turn) else {
        return TurnPhase::Ask(OpenQuestions { open: all.iter().collect(), answers: Answers::new() });
    };
    for inbound in &turn.messages {
        let open: Vec<&str> = all.iter().map(|question| question.id).filter(|id| !answers.contains_key(*id)).collect();
        answers.extend(answers_in(&inbound.message, &open));
    }
    let open: Vec<_> = all.iter().filter(|question| !answers.contains_key(question.id)).collect();
    if open.is_empty() {
        TurnPhase::Answer(summary(mode, &answers))
    } else {
        TurnPhase::Ask(OpenQuestions { open, answers })
    }
}

/// The answers at the time of the newest question; none before the first question.
fn answered_before(turn: &Turn) -> Option<Answers> {
    let task = &turn.so_far;
    let bound = task.bound_before.as_deref().and_then(|text| serde_json::from_str::<Kept>(text).ok());
    if let Some(kept) = bound {
        return Some(kept.answered);
    }
    let newest_first = task.status.message.iter().chain(task.history.iter().rev());
    let mut agents = newest_first.filter(|message| message.role == Role::Agent);
    agents.find_map(|message| {
        let kept: Kept = serde_json::from_str(message.metadata.as_ref()?.text()).ok()?;
        Some(kept.answered)
    })
}

/// A single answer as text, several as JSON.
fn summary(mode: AssistantMode, answers: &Answers) -> String {
    match mode {
        AssistantMode::Interrupt => {
            let answer = answers.values().next().map_or("null", Json::text);
            let text = serde_json::from_str::<String>(answer).unwrap_or_else(|_| answer.to_owned());
            format!("You answered: {text}")
        }
        AssistantMode::Chat | AssistantMode::Parallel | AssistantMode::Structured => {
            serde_json::to_string(answers).unwrap_or_default()
        }
    }
}

/// The answers of one message to the open questions: its `resume`, else its texts, else its data.
fn answers_in(message: &Message, open: &[&str]) -> Vec<(String, Json)> {
    let data = message.parts.iter().filter_map(|part| match &part.content {
        Content::Data(data) => Some(data),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
    });
    if let Some(resume) = data.clone().find_map(resume_of) {
        return split(&resume, open);
    }
    if message.parts.iter().any(|part| part.as_text().is_some()) {
        return one(Json::from_value(&message.text().into()), open);
    }
    data.cloned().reduce(|under, over| under.merged(&over)).map_or_else(Vec::new, |data| one(data, open))
}

/// The `resume` of a data part, `null` or not.
fn resume_of(data: &Json) -> Option<Json> {
    let members: BTreeMap<String, Json> = serde_json::from_str(data.text()).ok()?;
    members.into_iter().find_map(|(name, value)| (name == "resume").then_some(value))
}

/// Splits a resume value by question: a list of `{id, value}`, a map from id to value, or one value for the first
/// open question.
fn split(resume: &Json, open: &[&str]) -> Vec<(String, Json)> {
    #[derive(Deserialize)]
    struct Given {
        id: String,
        value: Json,
    }
    let is_open = |id: &String| open.contains(&id.as_str());
    if let Ok(given) = serde_json::from_str::<Vec<Given>>(resume.text())
        && !given.is_empty()
    {
        return given.into_iter().map(|given| (given.id, given.value)).filter(|(id, _)| is_open(id)).collect();
    }
    if let Ok(given) = serde_json::from_str::<BTreeMap<String, Json>>(resume.text())
        && given.keys().any(is_open)
    {
        return given.into_iter().filter(|(id, _)| is_open(id)).collect();
    }
    one(resume.clone(), open)
}

fn one(answer: Json, open: &[&str]) -> Vec<(String, Json)> {
    open.first().map(|id| vec![((*id).to_owned(), answer)]).unwrap_or_default()
}
