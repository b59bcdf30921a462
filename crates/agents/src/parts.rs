//! Parts in the form of programs and endpoints: `{"text":…}`, `{"data":…}` or `{"file":{…}}`, the same in both
//! directions, so that input can be returned unchanged. The user page is `docs/agents/events.md`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Content, Json, Message, Part, Role};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

#[derive(Serialize)]
pub(crate) struct MessageTold<'a> {
    id: &'a str,
    role: &'static str,
    parts: Vec<PartTold<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
}

impl<'a> MessageTold<'a> {
    pub(crate) fn of(message: &'a Message) -> MessageTold<'a> {
        let role = match message.role {
            Role::User => "user",
            Role::Agent => "agent",
        };
        let parts = message.parts.iter().map(PartTold::of).collect();
        MessageTold { id: &message.id, role, parts, metadata: message.metadata.as_ref() }
    }
}

#[derive(Default, Serialize)]
#[serde(default)]
pub(crate) struct PartTold<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<FileTold<'a>>,
    /// Size of a part of an earlier task that is too large to repeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Json>,
}

#[derive(Default, Serialize)]
struct FileTold<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    media_type: Option<&'a str>,
}

impl<'a> PartTold<'a> {
    fn of(part: &'a Part) -> PartTold<'a> {
        let (name, media_type) = (part.filename.as_deref(), part.media_type.as_deref());
        let told = PartTold { metadata: part.metadata.as_ref(), ..PartTold::default() };
        let file = FileTold { name, media_type, ..FileTold::default() };
        match &part.content {
            Content::Text(text) => PartTold { text: Some(text), media_type, ..told },
            Content::Data(data) => PartTold { data: Some(data), media_type, ..told },
            Content::Raw(bytes) => {
                PartTold { file: Some(FileTold { bytes: Some(STANDARD.encode(bytes)), ..file }), ..told }
            }
            Content::Url(url) => PartTold { file: Some(FileTold { url: Some(url), ..file }), ..told },
            Content::Blob(blob) => PartTold { omitted_bytes: Some(blob.len), media_type, ..told },
        }
    }
}

/// The content of an event: a text, a value, parts, or several of these.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Saying<'a> {
    pub(crate) text: Option<String>,
    #[serde(borrow, deserialize_with = "present")]
    pub(crate) data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) parts: Option<Vec<PartSaid<'a>>>,
    pub(crate) metadata: Option<Json>,
}

/// A part, in our form or that of A2A 1.0.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct PartSaid<'a> {
    text: Option<String>,
    #[serde(borrow, deserialize_with = "present")]
    data: Option<&'a RawValue>,
    file: Option<FileSaid>,
    raw: Option<String>,
    url: Option<String>,
    #[serde(alias = "name")]
    filename: Option<String>,
    #[serde(alias = "mediaType")]
    media_type: Option<String>,
    metadata: Option<Json>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct FileSaid {
    #[serde(alias = "raw")]
    bytes: Option<String>,
    #[serde(alias = "uri")]
    url: Option<String>,
    #[serde(alias = "filename")]
    name: Option<String>,
    #[serde(alias = "mediaType", alias = "mimeType")]
    media_type: Option<String>,
}

/// A member that is present, `null` or not.
pub(crate) fn present<'de: 'a, 'a, D: Deserializer<'de>>(d: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(d).map(Some)
}

impl Saying<'_> {
    /// The parts, in the order text, data, parts. Empty without content.
    pub(crate) fn into_parts(self) -> Result<Vec<Part>, String> {
        let mut parts = Vec::new();
        parts.extend(self.text.map(Part::text));
        parts.extend(self.data.map(|data| Part::data(Json::from(data))));
        for (i, part) in self.parts.unwrap_or_default().into_iter().enumerate() {
            parts.push(part.into_part().map_err(|says| format!("parts[{i}]: {says}"))?);
        }
        Ok(parts)
    }
}

impl PartSaid<'_> {
    fn into_part(self) -> Result<Part, String> {
        let file = self.file.unwrap_or_default();
        let raw = self.raw.or(file.bytes).map(|text| bytes(&text)).transpose()?;
        let contents = [
            self.text.map(Content::Text),
            self.data.map(|data| Content::Data(Json::from(data))),
            raw,
            self.url.or(file.url).map(Content::Url),
        ];
        let mut contents = contents.into_iter().flatten();
        let (Some(content), None) = (contents.next(), contents.next()) else {
            return Err("a part has one of text, data and file, and a file one of bytes and url".into());
        };
        Ok(Part {
            content,
            filename: self.filename.or(file.name),
            media_type: self.media_type.or(file.media_type),
            metadata: object(self.metadata)?,
        })
    }
}

/// Metadata, which must be an object if present.
pub(crate) fn object(metadata: Option<Json>) -> Result<Option<Json>, String> {
    match metadata {
        Some(metadata) if !metadata.is_object() => Err("metadata must be an object".into()),
        fine => Ok(fine),
    }
}

fn bytes(text: &str) -> Result<Content, String> {
    let bytes = STANDARD.decode(text).map_err(|_| "the bytes of a file must be base64")?;
    Ok(Content::Raw(bytes.into()))
}
