//! A turn as programs and endpoints get it: one JSON object. The user page is `docs/agents/events.md`.

use std::sync::Arc;

use model::ports::agent::Turn;
use model::{Fault, Json, Message, Part};
use serde::Serialize;

use crate::parts::MessageTold;

/// Most messages of earlier tasks of the context.
const EARLIER_MESSAGES: usize = 100;
const EARLIER_BYTES: usize = 1 << 20;

#[derive(Serialize)]
struct TurnJson<'a> {
    turn: String,
    attempt: u32,
    task: String,
    context: &'a str,
    tenant: &'a str,
    caller: &'a str,
    /// The newest message, which is to be answered.
    message: Option<MessageTold<'a>>,
    /// The earlier messages of this task, oldest first.
    history: Vec<MessageTold<'a>>,
    /// The messages of earlier tasks of the context, oldest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier: Option<Vec<MessageTold<'a>>>,
    /// The metadata of the request that brought the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
    /// The media types that the caller accepts.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    accepted_output: &'a [String],
}

/// The turn as JSON, on one line.
pub(crate) async fn write(turn: &Turn, with_earlier: bool) -> Result<String, Fault> {
    let earlier =
        if with_earlier { Some(newest(turn.earlier.messages().await?, EARLIER_MESSAGES, EARLIER_BYTES)) } else { None };
    let answered = turn.messages.last();
    let written = TurnJson {
        turn: turn.id.to_string(),
        attempt: turn.attempt,
        task: turn.task.to_string(),
        context: turn.context.as_str(),
        tenant: &turn.tenant,
        caller: &turn.caller,
        message: answered.map(|inbound| MessageTold::of(&inbound.message)),
        history: before(turn).map(MessageTold::of).collect(),
        earlier: earlier.as_ref().map(|all| all.iter().map(|message| MessageTold::of(message)).collect()),
        metadata: answered.and_then(|inbound| inbound.metadata.as_ref()),
        accepted_output: answered.map_or(&[], |inbound| &inbound.accepted_output),
    };
    let text = serde_json::to_string(&written).map_err(Fault::internal)?;
    // Opaque JSON keeps its sender's line breaks; between values they mean nothing, and strings contain none.
    Ok(if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text })
}

/// The task's messages before its newest.
pub(crate) fn before(turn: &Turn) -> impl Iterator<Item = &Message> {
    let newest = turn.messages.last().map(|inbound| inbound.message.id.clone());
    let all = turn.so_far.history.iter().map(|message| &**message);
    all.filter(move |message| newest.as_ref() != Some(&message.id))
}

/// The newest of the messages, oldest first, within bounds.
pub(crate) fn newest(mut all: Vec<Arc<Message>>, messages: usize, bytes: usize) -> Vec<Arc<Message>> {
    let mut room = bytes;
    let fitting = all.iter().rev().take(messages).take_while(|message| {
        let weight: usize = message.parts.iter().map(Part::weight).sum();
        let fits = weight <= room;
        room = room.saturating_sub(weight);
        fits
    });
    let cut = all.len() - fitting.count();
    all.split_off(cut)
}
