//! What an agent reads: media types of parts, and extensions it cannot do without.

use model::ports::agent::Profile;
use model::{Content, Fault, Kind, Part};

/// A part of a kind the agent does not read is refused before anything is kept.
pub(crate) fn check_parts(parts: &[Part], profile: &Profile) -> Result<(), Fault> {
    if profile.input_modes.iter().any(|mode| mode == "*/*") {
        return Ok(());
    }
    for (i, part) in parts.iter().enumerate() {
        let Some(media_type) = media_type(part) else { continue };
        if !profile.input_modes.iter().any(|mode| accepts(mode, media_type)) {
            let known = profile.input_modes.join(", ");
            let message = format!("this agent does not read {media_type}; it reads {known}");
            return Err(Fault { field: Some(format!("message.parts[{i}]")), ..Fault::new(Kind::ContentType, message) });
        }
    }
    Ok(())
}

/// What the part says it is, or what its kind implies. A file without a type may be anything.
fn media_type(part: &Part) -> Option<&str> {
    part.media_type.as_deref().or(match &part.content {
        Content::Text(_) => Some("text/plain"),
        Content::Data(_) => Some("application/json"),
        Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
    })
}

fn accepts(mode: &str, media_type: &str) -> bool {
    let bare = media_type.split(';').next().unwrap_or_default().trim();
    // Old agents declare `text` where they mean a media type.
    if mode == "text" {
        return bare.eq_ignore_ascii_case("text/plain");
    }
    match mode.strip_suffix("/*") {
        Some(family) => bare.split('/').next().is_some_and(|f| f.eq_ignore_ascii_case(family)),
        None => mode.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(bare),
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
    use super::accepts;

    #[test]
    fn a_mode_is_a_type_a_family_or_an_old_word() {
        assert!(accepts("text/plain", "text/plain; charset=utf-8"));
        assert!(accepts("image/*", "image/png"));
        assert!(accepts("text", "text/plain"));
        assert!(!accepts("image/*", "text/plain"));
        assert!(!accepts("application/json", "application/jsonl"));
    }
}
