//! Builds the body of a run: the message as input of the graph, or the answer to its questions.

use model::ports::agent::Turn;
use model::{Content, Json, Message, Role};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::binding::RunBinding;
use super::options::Options;
use super::server::TURN;

/// The metadata of a question: the run that asked, and its questions.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QuestionMetadata {
    pub(super) run: String,
    pub(super) interrupts: Vec<String>,
}

impl QuestionMetadata {
    pub(super) fn json(&self) -> Json {
        Json::from_value(&serde_json::json!({"run": self.run, "interrupts": self.interrupts}))
    }

    /// The questions of the previous turn. Questions of earlier turns are answered.
    fn before(turn: &Turn) -> Option<QuestionMetadata> {
        let task = &turn.so_far;
        let place = RunBinding::read(task.bound_before.as_deref())?;
        let newest_first = task.status.message.iter().chain(task.history.iter().rev());
        let mut agents = newest_first.filter(|message| message.role == Role::Agent);
        let asked: QuestionMetadata =
            agents.find_map(|message| serde_json::from_str(message.metadata.as_ref()?.text()).ok())?;
        Some(asked).filter(|asked| asked.run == place.run)
    }
}

#[derive(Serialize)]
struct Request<'a> {
    assistant_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Command>,
    metadata: BTreeMap<&'static str, String>,
    stream_mode: &'a [&'a str],
    /// Missed events can be read again.
    stream_resumable: bool,
    /// A run continues when its reader disconnects.
    on_disconnect: &'a str,
    /// Two tasks of one context run one after the other.
    multitask_strategy: &'a str,
    if_not_exists: &'a str,
}

#[derive(Serialize)]
struct Command {
    resume: Json,
    /// Data that came with the answer, merged into the graph's state as a message's data is into its input.
    #[serde(skip_serializing_if = "Option::is_none")]
    update: Option<Json>,
}

/// The body of the request that creates the turn's run.
pub(super) fn body(options: &Options, turn: &Turn) -> String {
    let (input, command) = match QuestionMetadata::before(turn) {
        Some(asked) => (None, Some(command(turn, &asked.interrupts))),
        None => (Some(input(turn)), None),
    };
    let request = Request {
        assistant_id: &options.assistant,
        input,
        command,
        metadata: BTreeMap::from([
            (TURN, turn.id.to_string()),
            ("rialto_task", turn.task.to_string()),
            ("rialto_context", turn.context.to_string()),
        ]),
        stream_mode: options.stream_mode.modes(),
        stream_resumable: true,
        on_disconnect: "continue",
        multitask_strategy: "enqueue",
        if_not_exists: "create",
    };
    serde_json::to_string(&request).unwrap_or_default()
}

/// The prefix of the ids of the turn's messages in the graph's state. Another attempt replaces them.
pub(super) fn message_prefix(turn: &Turn) -> String {
    format!("{}-", turn.id)
}

/// One message for each text, and the data merged over the whole.
fn input(turn: &Turn) -> Json {
    let mut messages = Vec::new();
    let mut input = None::<Json>;
    for message in turn.messages.iter().map(|inbound| &inbound.message) {
        let role = match message.role {
            Role::User => "human",
            Role::Agent => "assistant",
        };
        for text in texts(message) {
            let id = format!("{}{}", message_prefix(turn), messages.len());
            messages.push(serde_json::json!({"role": role, "content": text, "id": id}));
        }
    }
    if !messages.is_empty() {
        input = Some(Json::from_value(&serde_json::json!({ "messages": messages })));
    }
    let all = turn.messages.iter().flat_map(|inbound| data(&inbound.message));
    for data in all.filter(|data| data.is_object()) {
        input = Some(input.map_or_else(|| data.clone(), |under| under.merged(data)));
    }
    input.unwrap_or_else(|| Json::from_value(&serde_json::json!({})))
}

/// The answer: a `resume`, else the texts, else the data.
fn command(turn: &Turn, open: &[String]) -> Command {
    let messages: Vec<&Message> = turn.messages.iter().map(|inbound| &*inbound.message).collect();
    let all: Vec<&Json> = messages.iter().flat_map(|message| data(message)).collect();
    if let Some(resume) = all.iter().rev().find_map(|data| resume_of(data)) {
        return Command { resume: by_question(resume, open), update: None };
    }
    let data = all.into_iter().cloned().reduce(|under, over| under.merged(&over));
    let texts: Vec<&str> = messages.iter().flat_map(|message| texts(message)).collect();
    match data {
        Some(data) if texts.is_empty() => Command { resume: first(data, open), update: None },
        data => Command {
            resume: first(Json::from_value(&texts.join("\n").into()), open),
            update: data.filter(Json::is_object),
        },
    }
}

fn texts(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| part.as_text())
}

fn data(message: &Message) -> impl Iterator<Item = &Json> {
    message.parts.iter().filter_map(|part| match &part.content {
        Content::Data(data) => Some(data),
        Content::Text(_) | Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
    })
}

/// The `resume` of a data part, `null` or not.
fn resume_of(data: &Json) -> Option<Json> {
    let mut members: BTreeMap<String, Json> = serde_json::from_str(data.text()).ok()?;
    members.remove("resume")
}

/// A resume value in the graph's form: a list of `{id, value}` becomes a map from id to value, such a map stays,
/// and any other value answers one question.
fn by_question(resume: Json, open: &[String]) -> Json {
    #[derive(Deserialize)]
    struct Given {
        id: String,
        value: Json,
    }
    if let Ok(given) = serde_json::from_str::<Vec<Given>>(resume.text())
        && !given.is_empty()
        && given.iter().all(|given| open.contains(&given.id))
    {
        return map(given.into_iter().map(|given| (given.id, given.value)).collect());
    }
    if let Ok(given) = serde_json::from_str::<BTreeMap<String, Json>>(resume.text())
        && given.keys().any(|id| open.contains(id))
    {
        return resume;
    }
    first(resume, open)
}

/// A single value answers the only question, or the first of several by its id.
fn first(answer: Json, open: &[String]) -> Json {
    match open {
        [first, _, ..] => map(BTreeMap::from([(first.clone(), answer)])),
        [_] | [] => answer,
    }
}

fn map(answers: BTreeMap<String, Json>) -> Json {
    let text = serde_json::to_string(&answers).unwrap_or_default();
    Json::parse(&text).unwrap_or_else(|| Json::from_value(&serde_json::Value::Null))
}
