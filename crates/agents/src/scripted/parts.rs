//! Parts, messages and artifacts of a script, in the JSON form of A2A 1.0.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use model::ports::agent::{AgentMessage, ArtifactChunk};
use model::{Content, Json, Part};
use serde_json::value::RawValue;

use super::json::{Members, ScriptError, list, text, texts};

const PART: &[&str] = &["text", "raw", "url", "data", "filename", "mediaType", "metadata"];
const WORDS: &[&str] = &["parts", "metadata", "extensions"];
const ARTIFACT: &[&str] = &["artifactId", "name", "description", "parts", "metadata", "extensions"];

/// The message of a step: a string, or an object with parts for more than text. Null and the empty string mean
/// none.
pub(super) fn words(raw: &RawValue) -> Result<Option<AgentMessage>, ScriptError> {
    match raw.get().as_bytes().first() {
        Some(b'n') => Ok(None),
        Some(b'"') => Ok(Some(text(raw)?).filter(|text| !text.is_empty()).map(AgentMessage::text)),
        Some(b'{') => {
            let mut members = Members::of(raw)?;
            let words = AgentMessage {
                parts: required_parts(&mut members)?,
                metadata: members.optional("metadata", object)?,
                extensions: members.optional("extensions", texts)?.unwrap_or_default(),
            };
            members.none_left(WORDS)?;
            Ok(Some(words))
        }
        _ => Err(ScriptError::new("what is said must be a string, null, or {\"parts\":[...]}")),
    }
}

/// An artifact without its flags; the key is its id, if it has one.
pub(super) fn artifact(raw: &RawValue) -> Result<ArtifactChunk, ScriptError> {
    let mut members = Members::of(raw)?;
    let id = members.take_either("artifactId", "artifact_id")?;
    let key = id.map(|raw| text(raw).map_err(|wrong| wrong.within(".artifactId"))).transpose()?.unwrap_or_default();
    let piece = ArtifactChunk {
        key,
        name: members.optional("name", text)?,
        description: members.optional("description", text)?,
        parts: required_parts(&mut members)?,
        metadata: members.optional("metadata", object)?,
        extensions: members.optional("extensions", texts)?.unwrap_or_default(),
        append: false,
        bordered: false,
        last: false,
        seamless: false,
    };
    members.none_left(ARTIFACT)?;
    Ok(piece)
}

pub(super) fn object(raw: &RawValue) -> Result<Json, ScriptError> {
    // Only its type is checked: the content, with or without repeated members, is the caller's own.
    if raw.get().starts_with('{') { Ok(Json::from(raw)) } else { Err(ScriptError::new("metadata must be an object")) }
}

fn required_parts(members: &mut Members<'_>) -> Result<Vec<Part>, ScriptError> {
    let parts = members.optional("parts", |raw| {
        let each = list(raw)?.into_iter().enumerate();
        each.map(|(i, raw)| part(raw).map_err(|wrong| wrong.within(format_args!("[{i}]")))).collect()
    })?;
    match parts {
        Some(parts) if !Vec::is_empty(&parts) => Ok(parts),
        Some(_) | None => Err(ScriptError::new("\"parts\" must hold at least one part")),
    }
}

fn part(raw: &RawValue) -> Result<Part, ScriptError> {
    let mut members = Members::of(raw)?;
    let mut contents = Vec::with_capacity(1);
    if let Some(raw) = members.take("text") {
        contents.push(Content::Text(text(raw).map_err(|wrong| wrong.within(".text"))?));
    }
    if let Some(raw) = members.take("raw") {
        contents.push(bytes(raw).map_err(|wrong| wrong.within(".raw"))?);
    }
    if let Some(raw) = members.take("url") {
        contents.push(Content::Url(text(raw).map_err(|wrong| wrong.within(".url"))?));
    }
    if let Some(raw) = members.take("data") {
        contents.push(Content::Data(Json::from(raw)));
    }
    let media_type = members.take_either("mediaType", "media_type")?;
    let media_type = media_type.map(|raw| text(raw).map_err(|wrong| wrong.within(".mediaType"))).transpose()?;
    let filename = members.optional("filename", text)?;
    let metadata = members.optional("metadata", object)?;
    members.none_left(PART)?;
    match (contents.pop(), contents.pop()) {
        (Some(content), None) => Ok(Part { content, filename, media_type, metadata }),
        _ => Err(ScriptError::new("a part has one of \"text\", \"raw\", \"url\" and \"data\"")),
    }
}

/// Base64 in either alphabet, with padding or without, as protobuf's JSON reads bytes.
fn bytes(raw: &RawValue) -> Result<Content, ScriptError> {
    const LENIENT: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
    const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);
    let text = text(raw)?;
    let bytes = STANDARD.decode(&text).or_else(|_| URL_SAFE.decode(&text));
    bytes.map(|bytes| Content::Raw(bytes.into())).map_err(|_| ScriptError::new("raw bytes must be base64"))
}
