//! Reads the answer to an approval: whether a node may begin.

use model::{Content, Inbound, Message, Part};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApprovalAnswer {
    pub(super) approves: bool,
    pub(super) reason: Option<String>,
}

const YES: &[&str] = &["approve", "approved", "yes", "y", "ok", "okay", "allow", "accept", "go"];
const NO: &[&str] = &["deny", "denied", "no", "n", "reject", "rejected", "refuse", "stop"];

/// The answer in these messages, if any: the newest that can be parsed.
///
/// As data, `{"decision": "approve" | "deny"}` or `{"approve": true | false}`, with an optional `reason`. As text,
/// a first word that means yes or no; the rest is the reason.
pub(super) fn read(messages: &[std::sync::Arc<Inbound>]) -> Option<ApprovalAnswer> {
    messages.iter().rev().find_map(|inbound| of(&inbound.message))
}

fn of(message: &Message) -> Option<ApprovalAnswer> {
    message.parts.iter().find_map(|part: &Part| match &part.content {
        Content::Data(json) => data(&json.to_value()),
        Content::Text(text) => words(text),
        Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
    })
}

fn data(value: &serde_json::Value) -> Option<ApprovalAnswer> {
    let said = ["decision", "approval", "answer"].into_iter().find_map(|name| value.get(name)?.as_str());
    let switch = ["approve", "approved"].into_iter().find_map(|name| value.get(name)?.as_bool());
    let approves = switch.or_else(|| said.and_then(meant))?;
    let reason = value.get("reason").and_then(|reason| reason.as_str()).map(Into::into);
    Some(ApprovalAnswer { approves, reason })
}

fn words(text: &str) -> Option<ApprovalAnswer> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    let approves = meant(&text[..end])?;
    let rest = text[end..].trim_matches(|c: char| c.is_whitespace() || c.is_ascii_punctuation());
    Some(ApprovalAnswer { approves, reason: (!rest.is_empty()).then(|| rest.to_owned()) })
}

fn meant(word: &str) -> Option<bool> {
    let word = word.trim().to_lowercase();
    if YES.contains(&&*word) {
        Some(true)
    } else if NO.contains(&&*word) {
        Some(false)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use model::Json;

    use super::*;
    use model::{Inbound, Message, Role};

    fn inbound(id: &str, parts: Vec<Part>) -> Inbound {
        let message =
            Message { id: id.into(), role: Role::User, parts, metadata: None, extensions: vec![], references: vec![] };
        Inbound {
            message: std::sync::Arc::new(message),
            metadata: None,
            accepted_output: vec![],
            extensions: vec![],
            trace: None,
            payer: None,
        }
    }

    fn heard(parts: Vec<Part>) -> Option<(bool, Option<String>)> {
        let messages = [std::sync::Arc::new(inbound("m", parts))];
        read(&messages).map(|answer| (answer.approves, answer.reason))
    }

    #[test]
    fn yes_and_no_are_understood_as_text_and_as_data_and_nothing_else_is() {
        let because = |reason: &str| Some(reason.to_owned());
        for (text, expected) in [
            ("approve", Some((true, None))),
            (" Yes! ", Some((true, None))),
            ("OK, but be quick.", Some((true, because("but be quick")))),
            ("Deny: too dear", Some((false, because("too dear")))),
            ("no", Some((false, None))),
            ("nobody knows", None),
            ("what is it about?", None),
            ("", None),
            ("…", None),
        ] {
            assert_eq!(heard(vec![Part::text(text)]), expected, "{text}");
        }
        for (json, expected) in [
            (r#"{"decision":"approve"}"#, Some((true, None))),
            (r#"{"decision":"DENY","reason":"no"}"#, Some((false, because("no")))),
            (r#"{"approve":false}"#, Some((false, None))),
            (r#"{"approved":true}"#, Some((true, None))),
            (r#"{"decision":"perhaps"}"#, None),
            ("true", None),
            ("[]", None),
        ] {
            assert_eq!(heard(vec![Part::data(Json::parse(json).unwrap())]), expected, "{json}");
        }
    }

    #[test]
    fn the_newest_message_that_can_be_understood_counts() {
        let said = |text: &str| std::sync::Arc::new(inbound("m", vec![Part::text(text)]));
        let all = [said("yes"), said("no"), said("hurry up")];
        assert_eq!(read(&all), Some(ApprovalAnswer { approves: false, reason: None }));
    }
}
