//! The first look at a request's bytes: one pass, before anything is parsed.
//!
//! It makes the bytes text and bounds their nesting, so that whatever reads them later, also the store's and other
//! people's parsers, meets no depth it cannot bear.

use model::depth::{after_string, brackets, nests_deeper};
use model::{Fault, Kind};

/// The bytes as text, if they are UTF-8 and nest no deeper than `max_depth`.
pub fn scan(bytes: &[u8], max_depth: usize) -> Result<&str, Fault> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Fault::new(Kind::Parse, format!("the body is not UTF-8 (at byte {})", error.valid_up_to())))?;
    // Nearly every request has fewer brackets than the limit has levels; counting them takes a tenth of the walk.
    if brackets(bytes) > max_depth && nests_deeper(bytes, max_depth) {
        return Err(Fault::new(
            Kind::InvalidRequest,
            format!("the JSON nests deeper than {max_depth} levels, which is the limit here"),
        ));
    }
    if has_half_character(bytes) {
        let message = "the body has an escape that is half of a character (a lone surrogate), which is not text";
        return Err(Fault::new(Kind::Parse, message));
    }
    Ok(text)
}

/// Whether an escape such as `\ud800` stands without its other half. Readers differ on it, and strict ones would refuse
/// an answer that repeats it: so it is refused here, also inside JSON that is otherwise passed on untouched.
fn has_half_character(bytes: &[u8]) -> bool {
    half_characters(bytes).next().is_some()
}

/// JSON whose escapes of half a character are text: `\ud800` becomes `\\ud800`. Agents may send what callers may not.
pub(crate) fn keep_halves(text: &str) -> String {
    let mut kept = String::with_capacity(text.len() + 8);
    let mut from = 0;
    for at in half_characters(text.as_bytes()) {
        kept.push_str(text.get(from..at).unwrap_or_default());
        kept.push('\\');
        from = at;
    }
    kept.push_str(text.get(from..).unwrap_or_default());
    kept
}

/// The places of escapes that are half of a character.
fn half_characters(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let unit = |at: usize| -> Option<u16> {
        let escape = bytes.get(at..at + 6).filter(|e| e.starts_with(b"\\u"))?;
        u16::from_str_radix(std::str::from_utf8(&escape[2..]).ok()?, 16).ok()
    };
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let found = at + memchr::memchr(b'\\', bytes.get(at..)?)?;
            let (length, is_half) = match unit(found) {
                Some(0xd800..=0xdbff) => match unit(found + 6) {
                    Some(0xdc00..=0xdfff) => (12, false),
                    Some(_) | None => (6, true),
                },
                Some(0xdc00..=0xdfff) => (6, true),
                Some(_) | None => (2, false),
            };
            at = found + length;
            if is_half {
                return Some(found);
            }
        }
    })
}

/// The members of an object by name and value, both as they are written; nothing is made of them. The text must be JSON,
/// as that of a [`serde_json::value::RawValue`] is; of anything but an object there are none. A name that was written with
/// escapes is given with them.
pub fn members(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let bytes = object.as_bytes();
    let mut at = 1;
    std::iter::from_fn(move || {
        if bytes.first() != Some(&b'{') {
            return None;
        }
        // From a member's name on: what stands before it is a brace, a comma or space.
        let open = at + memchr::memchr(b'"', bytes.get(at..)?)?;
        let close = after_string(bytes, open + 1);
        let value = close + memchr::memchr(b':', bytes.get(close..)?)? + 1;
        at = after_value(bytes, value);
        Some((object.get(open + 1..close.checked_sub(1)?)?, object.get(value..at)?.trim()))
    })
}

/// The place of the comma or brace after the value that begins at `at`.
pub(crate) fn after_value(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0usize;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = after_string(bytes, at + 1);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b',' | b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_are_those_of_the_object_itself() {
        let text = r#" {"a": 1, "b" :{"c":[{"a":2},"}"],"d":"\\"} ,"e\u0041":"x,\"y","f":[],"g":null}"#.trim();
        let expected = [
            ("a", "1"),
            ("b", r#"{"c":[{"a":2},"}"],"d":"\\"}"#),
            (r"e\u0041", r#""x,\"y""#),
            ("f", "[]"),
            ("g", "null"),
        ];
        assert_eq!(members(text).collect::<Vec<_>>(), expected);
        for none in ["{}", "{ }", "[1]", "null", r#""{\"a\":1}""#] {
            assert_eq!(members(none).count(), 0, "{none}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_walk_fail(text in r#"\{?["\\a:,é\[\]{} ]{0,60}"#) {
            let _ = members(&text).count();
        }
    }

    #[test]
    fn half_a_character_is_refused_and_a_whole_one_passes() {
        for bad in [r#""\ud800""#, r#""\udc00""#, r#""\ud800\ud800""#, r#""\ud83dx""#, r#""\\\uDFFF""#] {
            assert_eq!(scan(bad.as_bytes(), 8).unwrap_err().kind, Kind::Parse, "{bad}");
        }
        for good in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\u00e9\n""#, r#""\"#, r#""\u12"#] {
            assert!(scan(good.as_bytes(), 8).is_ok(), "{good}");
        }
    }

    #[test]
    fn halves_of_characters_are_kept_as_text() {
        for (text, kept) in [
            (r#""a\ud800b\uDFFF""#, r#""a\\ud800b\\uDFFF""#),
            (r#""\ud800\ud83d\ude00\\ud800""#, r#""\\ud800\ud83d\ude00\\ud800""#),
            (r#""\ud83dé\""#, r#""\\ud83dé\""#),
            ("plain", "plain"),
        ] {
            assert_eq!(keep_halves(text), kept);
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_a_parse_fault() {
        let fault = scan(b"{\"a\":\"\xff\"}", 8).unwrap_err();
        assert_eq!((fault.kind, fault.message.as_str()), (Kind::Parse, "the body is not UTF-8 (at byte 6)"));
    }

    #[test]
    fn nesting_is_counted_outside_strings_only() {
        assert!(scan(br#"{"a":[{"b":"[[[[{{{{\"[[["}]}"#, 3).is_ok());
        let fault = scan(br#"{"a":[{"b":[]}]}"#, 3).unwrap_err();
        assert_eq!(fault.kind, Kind::InvalidRequest);
        assert!(fault.message.contains("deeper than 3 levels"));
        assert!(scan(b"]]]][[[", 3).is_ok());
    }

    proptest! {
        #[test]
        fn the_word_wise_pass_agrees_with_the_plain_one(text in r#"["\\a\[\]{}]{0,60}"#) {
            let (mut depth, mut deepest, mut inside, mut escaped) = (0usize, 0usize, false, false);
            for c in text.chars() {
                match c {
                    _ if escaped => escaped = false,
                    '\\' if inside => escaped = true,
                    '"' => inside = !inside,
                    '[' | '{' if !inside => { depth += 1; deepest = deepest.max(depth); }
                    ']' | '}' if !inside => depth = depth.saturating_sub(1),
                    _ => {}
                }
            }
            for max in 0..6 {
                prop_assert_eq!(nests_deeper(text.as_bytes(), max), deepest > max);
                prop_assert_eq!(scan(text.as_bytes(), max).is_err(), deepest > max);
            }
        }
    }
}
