//! The questions of `interrupt` and `parallel`, and the answers to them.
//!
//! The answers so far are stored in the binding of the turn that asks: it is in the log when the next answer
//! arrives, in any process, no caller sees it, and an interrupted attempt leaves none. Logs of earlier releases
//! have the answers in the metadata of the message that asks.

use std::collections::BTreeMap;

use model::ports::agent::Turn;
use model::{Content, Json, Message, Role};
use serde::{Deserialize, Serialize};

use super::Mode;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) id: &'static str,
    pub(super) says: &'static str,
}

const ONE: &[Question] = &[Question { id: "interrupt-1", says: "Which colour would you like?" }];
const TWO: &[Question] = &[
    Question { id: "interrupt-1", says: "In which month would you like to travel?" },
    Question { id: "interrupt-2", says: "How many people will travel?" },
];

/// The course of a turn.
pub(super) enum Course {
    Ask(Asked),
    Answer(String),
}

/// Open questions, and the answers so far.
pub(super) struct Asked {
    pub(super) open: Vec<&'static Question>,
    answers: Answers,
}

type Answers = BTreeMap<String, Json>;

/// The answers that a turn stores for the next.
#[derive(Serialize, Deserialize)]
struct Kept {
    answered: Answers,
}

impl Asked {
    pub(super) fn kept(&self) -> String {
        serde_json::to_string(&Kept { answered: self.answers.clone() }).unwrap_or_default()
    }
}

pub(super) fn take_up(mode: Mode, turn: &Turn) -> Course {
    let all = match mode {
        Mode::Interrupt => ONE,
        Mode::Parallel => TWO,
        Mode::Chat | Mode::Structured => &[],
    };
    let Some(mut answers) = answered_before(turn) else {
        return Course::Ask(Asked { open: all.iter().collect(), answers: Answers::new() });
    };
    for inbound in &turn.messages {
        let open: Vec<&str> = all.iter().map(|question| question.id).filter(|id| !answers.contains_key(*id)).collect();
        answers.extend(answers_in(&inbound.message, &open));
    }
    let open: Vec<_> = all.iter().filter(|question| !answers.contains_key(question.id)).collect();
    if open.is_empty() { Course::Answer(summary(mode, &answers)) } else { Course::Ask(Asked { open, answers }) }
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
fn summary(mode: Mode, answers: &Answers) -> String {
    match mode {
        Mode::Interrupt => {
            let answer = answers.values().next().map_or("null", Json::text);
            let text = serde_json::from_str::<String>(answer).unwrap_or_else(|_| answer.to_owned());
            format!("You answered: {text}")
        }
        Mode::Chat | Mode::Parallel | Mode::Structured => serde_json::to_string(answers).unwrap_or_default(),
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
