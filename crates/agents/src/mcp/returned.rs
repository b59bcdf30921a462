//! A tool's result as parts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use model::{Content, Json, Part};
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents};
use serde_json::Value;

/// The parts of a result in order; the structured content comes last, and only once.
pub(super) fn parts(result: CallToolResult) -> Vec<Part> {
    let CallToolResult { content, mut structured_content, .. } = result;
    if let ([ContentBlock::Text(only)], Some(structured)) = (&content[..], &structured_content)
        && is_wrapped(&only.text, structured)
    {
        structured_content = None;
    }
    let mut parts: Vec<Part> = content
        .into_iter()
        .filter(|block| match (block, &structured_content) {
            // Servers repeat the structured content as text, for older clients.
            (ContentBlock::Text(text), Some(structured)) => {
                serde_json::from_str::<Value>(&text.text).map_or(true, |said| said != *structured)
            }
            _ => true,
        })
        .map(part)
        .collect();
    parts.extend(structured_content.map(|structured| Part::data(Json::from_value(&structured))));
    parts
}

/// Whether the structured content is just that text in an object: some servers wrap values that are no objects.
fn is_wrapped(text: &str, structured: &Value) -> bool {
    let Some(members) = structured.as_object() else { return false };
    match (members.len(), members.get("result")) {
        (1, Some(Value::String(result))) => result == text,
        (1, Some(result)) => serde_json::from_str::<Value>(text).is_ok_and(|said| said == *result),
        _ => false,
    }
}

fn part(block: ContentBlock) -> Part {
    match block {
        ContentBlock::Text(text) => Part::text(text.text),
        ContentBlock::Image(image) => file(&image.data, Some(image.mime_type), None),
        ContentBlock::Audio(audio) => file(&audio.data, Some(audio.mime_type), None),
        ContentBlock::Resource(embedded) => match embedded.resource {
            ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
                Part { media_type: mime_type, filename: Some(uri), ..Part::text(text) }
            }
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => file(&blob, mime_type, Some(uri)),
            other => unknown(&other),
        },
        ContentBlock::ResourceLink(link) => {
            let filename = Some(link.title.unwrap_or(link.name));
            Part { media_type: link.mime_type, filename, ..Part::new(Content::Url(link.uri)) }
        }
        other => unknown(&other),
    }
}

fn file(base64: &str, media_type: Option<String>, filename: Option<String>) -> Part {
    match STANDARD.decode(base64) {
        Ok(bytes) => Part { media_type, filename, ..Part::new(Content::Raw(bytes.into())) },
        // Invalid base64 is passed on as text.
        Err(_) => Part { filename, ..Part::text(base64) },
    }
}

/// A content block of a later protocol version, as JSON.
fn unknown(block: &impl serde::Serialize) -> Part {
    Part::data(Json::from_value(&serde_json::to_value(block).unwrap_or(Value::Null)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_twice_is_passed_on_once() {
        for (text, structured, expected) in [
            ("{\"sum\": 3}", json!({"sum": 3}), r#"[Data({"sum":3})]"#),
            ("3", json!({"result": 3}), r#"[Text("3")]"#),
            ("tea", json!({"result": "tea"}), r#"[Text("tea")]"#),
            ("tea for two", json!({"result": "tea"}), r#"[Text("tea for two"), Data({"result":"tea"})]"#),
            ("the sum", json!({"sum": 3}), r#"[Text("the sum"), Data({"sum":3})]"#),
        ] {
            let result = json!({"content": [{"type": "text", "text": text}], "structuredContent": structured});
            let parts = parts(serde_json::from_value(result).unwrap());
            let content: Vec<_> = parts.into_iter().map(|part| part.content).collect();
            assert_eq!(format!("{content:?}"), expected);
        }
    }

    #[test]
    fn a_file_that_is_none_is_passed_on_as_it_came() {
        let result = json!({"content": [{"type": "image", "data": "not base64!", "mimeType": "image/png"}]});
        assert_eq!(parts(serde_json::from_value(result).unwrap())[0].as_text(), Some("not base64!"));
    }
}
