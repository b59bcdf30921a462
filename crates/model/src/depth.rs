//! The nesting depth of opaque JSON: data parts, metadata, structured values.
//!
//! Clients that convert JSON to protobuf have a depth limit: a single deeper task makes every list that contains it
//! unreadable for them. So values from callers deeper than [`Limits::data_depth`](crate::Limits::data_depth) are
//! refused, and deeper values from agents are turned into text, which every client reads.

use crate::{Content, Fault, Json, Message, Part};

/// The member that holds an agent's too deep metadata, as text.
pub const TOO_DEEP: &str = "rialto_too_deep";

/// The number of opening brackets in a text, inside strings or not: an upper bound of its depth that is cheap to
/// compute.
pub fn brackets(bytes: &[u8]) -> usize {
    // `[` and `{` differ in one bit. Runs of 255 keep each sum in a byte, so that the compiler can vectorise it.
    let run = |run: &[u8]| usize::from(run.iter().map(|b| u8::from(b & !0x20 == b'[')).sum::<u8>());
    bytes.chunks(255).map(run).sum()
}

/// Whether a value, counting the object that contains it, nests deeper than `most`.
pub fn is_deeper(json: &Json, most: usize) -> bool {
    let bytes = json.text().as_bytes();
    let most = most.saturating_sub(1);
    brackets(bytes) > most && nests_deeper(bytes, most)
}

/// Whether brackets outside strings nest deeper than `max`. The text need not be JSON.
pub fn nests_deeper(bytes: &[u8], max: usize) -> bool {
    let mut depth = 0usize;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'"' => at = after_string(bytes, at),
            b'{' | b'[' => {
                depth += 1;
                if depth > max {
                    return true;
                }
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Whether one of the eight bytes of a word equals `byte`.
const fn has_byte(word: u64, byte: u8) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let word = word ^ (ONES * byte as u64);
    word.wrapping_sub(ONES) & !word & (ONES << 7) != 0
}

/// The position after the closing quote of a string whose content begins at `at`. Most bytes of a request are in
/// strings, so it tests eight bytes at a time.
pub fn after_string(bytes: &[u8], mut at: usize) -> usize {
    loop {
        while let Some(word) = bytes.get(at..at + 8) {
            let mut eight = [0; 8];
            eight.copy_from_slice(word);
            let word = u64::from_le_bytes(eight);
            if has_byte(word, b'"') || has_byte(word, b'\\') {
                break;
            }
            at += 8;
        }
        match bytes.get(at) {
            None => return at,
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

/// Refuses a caller's value that nests too deeply; `field` is its path in the request.
pub fn check(json: Option<&Json>, field: &str, most: usize) -> Result<(), Fault> {
    match json {
        Some(json) if is_deeper(json, most) => {
            let message = format!(
                "{field} nests deeper than {most} levels, which is the limit here: send it flatter, or as a text or a file"
            );
            Err(Fault::params(field, message))
        }
        Some(_) | None => Ok(()),
    }
}

/// Checks every value of a message.
pub fn check_message(message: &Message, most: usize) -> Result<(), Fault> {
    for (i, part) in message.parts.iter().enumerate() {
        let data = match &part.content {
            Content::Data(data) => Some(data),
            Content::Text(_) | Content::Raw(_) | Content::Url(_) | Content::Blob(_) => None,
        };
        for (name, json) in [("data", data), ("metadata", part.metadata.as_ref())] {
            // The path is only built for a fault.
            if json.is_some_and(|json| is_deeper(json, most)) {
                check(json, &format!("message.parts[{i}].{name}"), most)?;
            }
        }
    }
    check(message.metadata.as_ref(), "message.metadata", most)
}

/// Turns too deep data of an agent's parts into a text part that says so, and too deep metadata into an object with one
/// text member.
pub fn flatten_parts(parts: &mut [Part], most: usize) {
    for part in parts {
        if let Content::Data(data) = &part.content
            && is_deeper(data, most)
        {
            let text = format!("[data that nests deeper than {most} levels, as JSON text] {}", data.text());
            part.content = Content::Text(text);
            part.media_type = Some("text/plain".to_owned());
        }
        flatten(&mut part.metadata, most);
    }
}

/// Turns an agent's too deep metadata into an object with one text member.
pub fn flatten(metadata: &mut Option<Json>, most: usize) {
    if let Some(json) = metadata.as_ref().filter(|json| is_deeper(json, most)) {
        *metadata = Some(flattened(json));
    }
}

/// An object whose only member is the value as text.
pub fn flattened(json: &Json) -> Json {
    let text = serde_json::Value::String(json.text().to_owned());
    Json::from_value(&serde_json::Value::Object([(TOO_DEEP.to_owned(), text)].into_iter().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;

    fn nested(levels: usize, open: &str, close: &str) -> Json {
        Json::parse(&format!("{}1{}", open.repeat(levels), close.repeat(levels))).unwrap()
    }

    #[test]
    fn the_object_that_holds_a_value_is_its_first_level() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("{\"[{\\\"\":[", "]}")] {
            let levels = open.matches(['[', '{']).count() - if open.contains('\\') { 2 } else { 0 };
            for most in [8, 48] {
                let fits = (most - 1) / levels;
                assert!(!is_deeper(&nested(fits, open, close), most), "{open} {most}");
                assert!(is_deeper(&nested(fits + 1, open, close), most), "{open} {most}");
            }
        }
        assert!(!is_deeper(&Json::parse(&format!("[{}1]", "[],".repeat(100))).unwrap(), 48), "width is no depth");
        assert!(!is_deeper(&Json::parse(&format!("\"{}\"", "[".repeat(100))).unwrap(), 48), "a string has none");
    }

    #[test]
    fn every_place_of_a_message_is_checked_and_named() {
        let deep = || nested(48, "{\"a\":", "}");
        let message = |part: Part, metadata: Option<Json>| Message {
            id: "m".into(),
            role: Role::User,
            parts: vec![Part::text("first"), part],
            metadata,
            extensions: vec![],
            references: vec![],
        };
        let with_metadata = Part { metadata: Some(deep()), ..Part::text("x") };
        for (message, field) in [
            (message(Part::data(deep()), None), "message.parts[1].data"),
            (message(with_metadata, None), "message.parts[1].metadata"),
            (message(Part::text("x"), Some(deep())), "message.metadata"),
        ] {
            let fault = check_message(&message, 48).unwrap_err();
            assert_eq!(fault.field.as_deref(), Some(field));
            assert!(fault.message.starts_with(&format!("{field} nests deeper than 48 levels")), "{}", fault.message);
            check_message(&message, 49).unwrap();
        }
    }

    #[test]
    fn what_an_agent_says_too_deeply_is_kept_as_text() {
        let deep = nested(60, "[", "]");
        let mut parts =
            vec![Part { metadata: Some(nested(60, "{\"a\":", "}")), ..Part::data(deep.clone()) }, Part::text("plain")];
        flatten_parts(&mut parts, 48);
        let text = parts[0].as_text().unwrap();
        assert!(text.starts_with("[data that nests deeper than 48 levels") && text.ends_with(deep.text()), "{text}");
        let metadata = parts[0].metadata.as_ref().unwrap().to_value();
        assert_eq!(metadata[TOO_DEEP], nested(60, "{\"a\":", "}").text());
        assert_eq!(parts[1], Part::text("plain"));
        let before = parts.clone();
        flatten_parts(&mut parts, 48);
        assert_eq!(parts, before, "once is enough");
    }
}
