//! Builds a model's prompt from the conversation.
//!
//! First the system prompt, then the newest earlier messages of the context and of this task, then the answers of
//! this task's earlier turns, then the message to answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::ports::agent::Turn;
use model::{Content, Fault, Message, Part, Role};
use serde_json::{Map, Value, json};

use super::options::{FileHandling, Options};
use crate::turn_json;

/// The request's body.
pub(super) async fn body(options: &Options, turn: &Turn) -> Result<String, Fault> {
    let mut body = Map::new();
    body.insert("model".into(), options.model.as_str().into());
    body.insert("messages".into(), messages(options, turn).await?.into());
    body.insert("stream".into(), true.into());
    body.insert("stream_options".into(), json!({"include_usage": true}));
    body.extend(options.temperature.map(|temperature| ("temperature".into(), temperature.into())));
    body.extend(options.max_tokens.map(|most| ("max_tokens".into(), most.into())));
    for (name, value) in &options.extra {
        match value {
            Value::Null => drop(body.remove(name)),
            value => drop(body.insert(name.clone(), value.clone())),
        }
    }
    Ok(Value::Object(body).to_string())
}

async fn messages(options: &Options, turn: &Turn) -> Result<Vec<Value>, Fault> {
    let mut all = Vec::new();
    all.extend(options.system.as_ref().map(|system| json!({"role": "system", "content": system})));
    let most = options.history_messages.unwrap_or(50);
    if most > 0 {
        let mut before = turn.earlier.messages().await?;
        let answered = |message: &Message| turn.messages.iter().any(|inbound| inbound.message.id == message.id);
        before.extend(turn.so_far.history.iter().filter(|message| !answered(message)).cloned());
        let newest = turn_json::newest(before, most, options.history_bytes.unwrap_or(256 << 10));
        all.extend(newest.iter().filter_map(|message| told(message.role, &message.parts, options.files)));
        // The artifacts of earlier turns; output of an earlier attempt of this turn is left out.
        let artifacts = &turn.so_far.artifacts[..];
        let own = crate::text_accumulator::numbered("response", turn.so_far.core.turns);
        let earlier = artifacts.iter().filter(|artifact| *artifact.id != *own);
        all.extend(earlier.filter_map(|artifact| told(Role::Agent, &artifact.parts, options.files)));
    }
    let now = turn.messages.iter();
    all.extend(now.filter_map(|inbound| told(Role::User, &inbound.message.parts, options.files)));
    Ok(all)
}

/// A message; none if it is empty.
fn told(role: Role, parts: &[Part], files: FileHandling) -> Option<Value> {
    if parts.is_empty() {
        return None;
    }
    match role {
        // A model's own messages are text only.
        Role::Agent => {
            // The chunks of an answer are one text.
            let text: String = parts.iter().map(|part| text(part).unwrap_or_else(|| note(part))).collect();
            Some(json!({"role": "assistant", "content": text}))
        }
        Role::User => {
            let texts: Option<Vec<String>> = parts.iter().map(text).collect();
            let content: Value = match texts {
                Some(texts) => texts.join("\n").into(),
                None => parts.iter().map(|part| item(part, files)).collect::<Vec<Value>>().into(),
            };
            Some(json!({"role": "user", "content": content}))
        }
    }
}

/// The text of a part, if it has one.
fn text(part: &Part) -> Option<String> {
    match &part.content {
        Content::Text(text) => Some(text.clone()),
        Content::Data(data) => Some(data.text().to_owned()),
        Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
    }
}

/// A part as a content item.
fn item(part: &Part, files: FileHandling) -> Value {
    let words = |text: String| json!({"type": "text", "text": text});
    if let Some(text) = text(part) {
        return words(text);
    }
    let media_type = part.media_type.as_deref();
    let is_image = media_type.is_some_and(|media_type| media_type.to_ascii_lowercase().starts_with("image/"));
    let inline = |bytes: &[u8]| {
        format!("data:{};base64,{}", media_type.unwrap_or("application/octet-stream"), STANDARD.encode(bytes))
    };
    match &part.content {
        Content::Raw(bytes) if is_image => json!({"type": "image_url", "image_url": {"url": inline(bytes)}}),
        Content::Url(url) if is_image => json!({"type": "image_url", "image_url": {"url": url}}),
        Content::Raw(bytes) if files == FileHandling::Send => {
            let name = part.filename.as_deref().unwrap_or("file");
            json!({"type": "file", "file": {"filename": name, "file_data": inline(bytes)}})
        }
        Content::Raw(_) | Content::Url(_) | Content::Blob(_) | Content::Text(_) | Content::Data(_) => words(note(part)),
    }
}

/// The text in place of a file.
fn note(part: &Part) -> String {
    let name = part.filename.as_deref().unwrap_or("without a name");
    let kind = part.media_type.as_deref().unwrap_or("unknown type");
    match &part.content {
        Content::Url(url) => format!("[a file {name}, {kind}, at {url}]"),
        Content::Raw(bytes) => format!("[a file {name}, {kind}, {} bytes, not shown]", bytes.len()),
        Content::Blob(blob) => format!("[a file {name}, {kind}, {} bytes, not shown]", blob.len),
        Content::Text(text) => text.clone(),
        Content::Data(data) => data.text().to_owned(),
    }
}
