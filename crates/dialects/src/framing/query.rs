//! Percent-decoding and query strings, strictly: an escape that is none is a fault, not a guess.

use std::borrow::Cow;

use model::{Fault, Kind};

/// Decodes `%XX` in a path segment. A `+` is a plus there.
pub fn decode_segment(text: &str) -> Result<Cow<'_, str>, Fault> {
    decode(text, false).ok_or_else(|| {
        Fault::new(Kind::InvalidRequest, "the path has an escape that is not %XX of UTF-8; encode it again")
    })
}

/// The parameters in their order, decoded. In a query a `+` is a space.
pub fn pairs(query: &str) -> impl Iterator<Item = Result<(Cow<'_, str>, Cow<'_, str>), Fault>> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(name, true).ok_or_else(|| bad_escape("query"))?;
        let value = decode(value, true).ok_or_else(|| bad_escape(&name))?;
        Ok((name, value))
    })
}

/// The only value of a parameter, by its name in any case; a second one is a fault.
pub fn value<'a>(query: &'a str, name: &str) -> Result<Option<Cow<'a, str>>, Fault> {
    let mut found = None;
    for pair in pairs(query) {
        let (key, value) = pair?;
        if key.eq_ignore_ascii_case(name) && found.replace(value).is_some() {
            return Err(Fault::params(name, format!("the query has {name} more than once")));
        }
    }
    Ok(found)
}

fn bad_escape(field: &str) -> Fault {
    Fault::params(field, "the query has an escape that is not %XX of UTF-8; encode it again")
}

fn decode(text: &str, plus_is_space: bool) -> Option<Cow<'_, str>> {
    if !text.bytes().any(|b| b == b'%' || (plus_is_space && b == b'+')) {
        return Some(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                out.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' if plus_is_space => out.push(b' '),
            other => out.push(other),
        }
    }
    String::from_utf8(out).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_query_is_decoded_in_order() {
        let all: Vec<_> = pairs("a=1&&b=x%20y+z&c&d=%C3%A9=&%61=2").map(Result::unwrap).collect();
        let all: Vec<_> = all.iter().map(|(k, v)| (k.as_ref(), v.as_ref())).collect();
        assert_eq!(all, [("a", "1"), ("b", "x y z"), ("c", ""), ("d", "é="), ("a", "2")]);
    }

    #[test]
    fn a_plus_in_a_path_is_a_plus() {
        assert_eq!(decode_segment("a+b%2Fc").unwrap(), "a+b/c");
    }

    #[test]
    fn a_bad_escape_is_a_fault_that_names_the_parameter() {
        for bad in ["%", "%4", "%zz", "%+1", "%ff", "%C3"] {
            assert_eq!(decode_segment(bad).unwrap_err().kind, Kind::InvalidRequest, "{bad}");
            let query = format!("a=1&status={bad}");
            let fault = pairs(&query).find_map(Result::err).unwrap();
            assert_eq!((fault.kind, fault.field.as_deref()), (Kind::InvalidParams, Some("status")), "{bad}");
        }
    }

    #[test]
    fn one_parameter_is_found_by_name_and_a_second_is_a_fault() {
        assert_eq!(value("x=1&a2a-version=1.0", "A2A-Version").unwrap().unwrap(), "1.0");
        assert_eq!(value("x=1", "A2A-Version").unwrap(), None);
        assert!(value("A2A-Version=1.0&A2A-Version=1.0", "A2A-Version").is_err());
    }

    proptest! {
        #[test]
        fn any_text_comes_through_its_encoding(text: String) {
            let encoded: String = text.bytes().map(|b| format!("%{b:02X}")).collect();
            prop_assert_eq!(decode(&encoded, true).unwrap(), text.as_str());
        }

        #[test]
        fn any_query_is_read_without_harm(query: String) {
            let _ = pairs(&query).count();
        }
    }
}
