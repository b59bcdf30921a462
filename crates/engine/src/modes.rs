//! An agent's input requirements: media types of parts, and required extensions. The rule is the same in every dialect.

use model::ports::agent::Profile;
use model::{BlobKind, Content, Fault, Kind, Part};

/// Refuses the first part whose media type is not among `input_modes`. `*/*` accepts everything, `image/*` every image;
/// an agent without declared modes accepts everything too.
///
/// A text without a media type counts as `text/plain`, data as `application/json`; a file without one is accepted,
/// since its type is unknown.
pub(crate) fn check_modes(parts: &[Part], input_modes: &[String]) -> Result<(), Fault> {
    if input_modes.is_empty() || input_modes.iter().any(|mode| mode == "*/*" || mode == "*") {
        return Ok(());
    }
    for (i, part) in parts.iter().enumerate() {
        let Some(media) = part.media_type.as_deref().or_else(|| implied(&part.content)) else { continue };
        if !input_modes.iter().any(|mode| covers(mode, media)) {
            let accepted = input_modes.join(", ");
            let fault = Fault::new(
                Kind::ContentType,
                format!("message.parts[{i}]: this agent does not read {media}; it reads {accepted}"),
            );
            let fault = fault.fact("mediaType", media).fact("supportedMediaTypes", accepted);
            return Err(Fault { field: Some(format!("message.parts[{i}].mediaType")), ..fault });
        }
    }
    Ok(())
}

fn implied(content: &Content) -> Option<&'static str> {
    match content {
        Content::Text(_) => Some("text/plain"),
        Content::Data(_) => Some("application/json"),
        Content::Raw(_) | Content::Url(_) => None,
        Content::Blob(blob) => match blob.kind {
            BlobKind::Text => Some("text/plain"),
            BlobKind::Data | BlobKind::Object => Some("application/json"),
            BlobKind::Raw => None,
        },
    }
}

/// Whether a declared mode covers a media type. Parameters (`; charset=utf-8`) and case do not matter; the bare `text` of
/// old agents means `text/plain`.
fn covers(mode: &str, media: &str) -> bool {
    let essence = |text: &str| text.split(';').next().unwrap_or(text).trim().to_ascii_lowercase();
    let mode = match essence(mode) {
        old if old == "text" => "text/plain".to_owned(),
        mode => mode,
    };
    let media = essence(media);
    match mode.strip_suffix("/*") {
        Some("*") => true,
        Some(family) => media.split('/').next() == Some(family),
        None => mode == media,
    }
}

pub(crate) fn check_extensions(active: &[String], profile: &Profile) -> Result<(), Fault> {
    for extension in profile.extensions.iter().filter(|e| e.required) {
        if !active.contains(&extension.uri) {
            let message = format!("this agent requires the extension {}; name it in A2A-Extensions", extension.uri);
            return Err(Fault::new(Kind::ExtensionRequired, message).fact("extension", extension.uri.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Json;

    fn part(content: Content, media: Option<&str>) -> Part {
        Part { media_type: media.map(str::to_owned), ..Part::new(content) }
    }

    fn refused(parts: &[Part], modes: &[&str]) -> Option<String> {
        let modes: Vec<String> = modes.iter().map(|m| (*m).to_owned()).collect();
        check_modes(parts, &modes).err().map(|fault| {
            assert_eq!(fault.kind, Kind::ContentType);
            fault.field.unwrap()
        })
    }

    #[test]
    fn an_undeclared_media_type_is_refused_by_its_part() {
        let parts = [Part::text("a"), part(Content::Raw("x".into()), Some("image/png"))];
        assert_eq!(refused(&parts, &["text/plain"]).as_deref(), Some("message.parts[1].mediaType"));
        assert_eq!(refused(&parts, &["text/plain", "image/*"]), None);
        assert_eq!(refused(&parts, &["text", "IMAGE/PNG"]), None);
        assert_eq!(refused(&parts, &["*/*"]), None);
        assert_eq!(refused(&parts, &[]), None);
    }

    #[test]
    fn a_part_without_a_media_type_counts_by_its_kind() {
        assert!(refused(&[Part::text("a")], &["application/json"]).is_some());
        assert!(refused(&[Part::data(Json::parse("{}").unwrap())], &["text/plain"]).is_some());
        assert_eq!(refused(&[Part::new(Content::Url("https://x".into()))], &["text/plain"]), None);
        assert_eq!(
            refused(&[part(Content::Text("a".into()), Some("text/plain; charset=utf-8"))], &["text/plain"]),
            None
        );
    }
}
