//! Content: messages, artifacts and their parts.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{ContextId, Json, TaskId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    #[serde(rename = "u")]
    User,
    #[serde(rename = "a")]
    Agent,
}

/// One message of a conversation. It belongs to the task and context of the log that contains it; for a message that a
/// caller sends, [`crate::Send`] names them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    #[serde(rename = "i")]
    pub id: Arc<str>,
    #[serde(rename = "r")]
    pub role: Role,
    #[serde(rename = "p")]
    pub parts: Vec<Part>,
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    #[serde(rename = "f", default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
}

impl Message {
    /// The text parts, joined by newlines, as a person would read them.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self.parts.iter().filter_map(Part::as_text).collect();
        texts.join("\n")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    #[serde(rename = "c")]
    pub content: Content,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
}

impl Part {
    pub fn text(text: impl Into<String>) -> Part {
        Part::new(Content::Text(text.into()))
    }
    pub fn data(data: Json) -> Part {
        Part::new(Content::Data(data))
    }
    pub fn new(content: Content) -> Part {
        Part { content, filename: None, media_type: None, metadata: None }
    }
    pub fn as_text(&self) -> Option<&str> {
        match &self.content {
            Content::Text(text) => Some(text),
            Content::Raw(_) | Content::Url(_) | Content::Data(_) | Content::Blob(_) => None,
        }
    }
    /// Whether it is text without a file name or metadata.
    pub fn is_plain_text(&self) -> bool {
        matches!(self.content, Content::Text(_)) && self.filename.is_none() && self.metadata.is_none()
    }
    /// Appends the text of `next` to this part. Returns false and changes nothing unless both are plain text of one
    /// media type.
    pub fn continue_with(&mut self, next: &Part) -> bool {
        if !self.is_plain_text() || !next.is_plain_text() || self.media_type != next.media_type {
            return false;
        }
        let (Content::Text(text), Some(more)) = (&mut self.content, next.as_text()) else { return false };
        text.push_str(more);
        true
    }
    /// Bytes this part holds in memory, for limits and backpressure.
    pub fn weight(&self) -> usize {
        64 + match &self.content {
            Content::Text(text) | Content::Url(text) => text.len(),
            Content::Raw(bytes) => bytes.len(),
            Content::Data(json) => json.text().len(),
            Content::Blob(_) => 48,
        } + self.metadata.as_ref().map_or(0, |m| m.text().len())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    #[serde(rename = "t")]
    Text(String),
    #[serde(rename = "b", with = "base64_bytes")]
    Raw(Bytes),
    #[serde(rename = "u")]
    Url(String),
    #[serde(rename = "d")]
    Data(Json),
    /// A large text, file or value, stored outside the log and named by its hash.
    #[serde(rename = "o")]
    Blob(Blob),
}

/// A reference to large content of the same tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blob {
    #[serde(rename = "k")]
    pub kind: BlobKind,
    #[serde(rename = "h", with = "hash_text")]
    pub hash: [u8; 32],
    #[serde(rename = "l")]
    pub len: u64,
}

/// The content of a blob: UTF-8 text, raw bytes, or JSON text. Readers need the kind of JSON without loading the blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlobKind {
    #[serde(rename = "t")]
    Text,
    #[serde(rename = "b")]
    Raw,
    /// JSON other than an object: old dialects wrap it.
    #[serde(rename = "d")]
    Data,
    /// A JSON object.
    #[serde(rename = "j")]
    Object,
}

/// The output of an agent. The log holds a [`crate::Chunk`] of it, the fold the complete artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    #[serde(rename = "i")]
    pub id: Arc<str>,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(rename = "p")]
    pub parts: Vec<Part>,
    #[serde(rename = "m", default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    #[serde(rename = "e", default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
}

/// A message that is the complete answer, with the conversation it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub message: Arc<Message>,
    pub context: ContextId,
    /// The task that stores the exchange; callers never see this id.
    pub exchange: TaskId,
}

mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use bytes::Bytes;
    use serde::{Deserialize, Deserializer, Serializer, de};
    use std::borrow::Cow;

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&STANDARD.encode(bytes))
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
        let text = Cow::<'de, str>::deserialize(d)?;
        STANDARD.decode(text.as_bytes()).map(Bytes::from).map_err(de::Error::custom)
    }
}

mod hash_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;
    use serde::{Deserialize, Deserializer, Serializer, de};
    use std::borrow::Cow;

    pub(super) fn serialize<S: Serializer>(hash: &[u8; 32], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&STANDARD_NO_PAD.encode(hash))
    }
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[u8; 32], D::Error> {
        let text = Cow::<'de, str>::deserialize(d)?;
        let bytes = STANDARD_NO_PAD.decode(text.as_bytes()).map_err(de::Error::custom)?;
        bytes.try_into().map_err(|_| de::Error::custom("a blob hash has 32 bytes"))
    }
}
