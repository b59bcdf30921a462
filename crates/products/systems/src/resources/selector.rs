//! Label selectors in the syntax of Kubernetes: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.

use std::collections::BTreeMap;

/// The most terms of one selector.
const MOST: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Parses a selector. An error shows the syntax.
    pub fn parse(text: &str) -> Result<Selector, String> {
        let mut terms = Vec::new();
        for piece in pieces(text)? {
            let piece = piece.trim();
            if !piece.is_empty() {
                terms.push(term(piece)?);
            }
            if terms.len() > MOST {
                return Err(format!("labelSelector: more than {MOST} terms"));
            }
        }
        Ok(Selector(terms))
    }

    pub fn admits(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|term| match term {
            Term::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            // A resource without the label matches.
            Term::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Term::Exists(key) => labels.contains_key(key),
            Term::Absent(key) => !labels.contains_key(key),
        })
    }
}

/// Splits at commas that are not in parentheses.
fn pieces(text: &str) -> Result<Vec<&str>, String> {
    let (mut pieces, mut begin, mut open) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '(' if !open => open = true,
            ')' if open => open = false,
            '(' | ')' => return Err(wrong(text)),
            ',' if !open => {
                pieces.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if open {
        return Err(wrong(text));
    }
    pieces.push(&text[begin..]);
    Ok(pieces)
}

fn term(piece: &str) -> Result<Term, String> {
    if let Some(key) = piece.strip_prefix('!') {
        return Ok(Term::Absent(key_of(key, piece)?));
    }
    if let Some((key, value)) = piece.split_once("!=") {
        return Ok(Term::NotIn(key_of(key, piece)?, vec![value_of(value, piece)?]));
    }
    if let Some((key, value)) = piece.split_once("==").or_else(|| piece.split_once('=')) {
        return Ok(Term::In(key_of(key, piece)?, vec![value_of(value, piece)?]));
    }
    if let Some(rest) = piece.strip_suffix(')') {
        let (left, values) = rest.split_once('(').ok_or_else(|| wrong(piece))?;
        let values = values.split(',').map(|value| value_of(value, piece)).collect::<Result<Vec<_>, _>>()?;
        let mut words = left.split_whitespace();
        return match (words.next(), words.next(), words.next()) {
            (Some(key), Some("in"), None) => Ok(Term::In(key_of(key, piece)?, values)),
            (Some(key), Some("notin"), None) => Ok(Term::NotIn(key_of(key, piece)?, values)),
            (_, _, _) => Err(wrong(piece)),
        };
    }
    Ok(Term::Exists(key_of(piece, piece)?))
}

fn key_of(text: &str, piece: &str) -> Result<String, String> {
    let key = text.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    if key.is_empty() || !key.chars().all(plain) { Err(wrong(piece)) } else { Ok(key.to_owned()) }
}

fn value_of(text: &str, piece: &str) -> Result<String, String> {
    let value = text.trim();
    if value.contains(['=', '!', '(', ')', ',', ' ']) { Err(wrong(piece)) } else { Ok(value.to_owned()) }
}

fn wrong(piece: &str) -> String {
    let shown: String = piece.chars().take(64).collect();
    format!(
        "labelSelector: {shown:?} is no term; write key, !key, key=value, key!=value, key in (a,b) or key notin (a,b)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_selects_what_it_says() {
        let labels: BTreeMap<String, String> =
            [("team", "red"), ("tier", "1"), ("app.io/x", "")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        for (text, expected) in [
            ("", true),
            ("team=red", true),
            ("team==red", true),
            ("team=blue", false),
            ("team!=blue", true),
            ("team!=red", false),
            ("nobody!=red", true),
            ("team in (blue, red)", true),
            ("team in (blue)", false),
            ("nobody in (blue)", false),
            ("team notin (blue,green)", true),
            ("team notin (red)", false),
            ("nobody notin (red)", true),
            ("team", true),
            ("nobody", false),
            ("!nobody", true),
            ("!team", false),
            ("app.io/x", true),
            ("app.io/x=", true),
            ("team=red,tier in (1,2),!nobody", true),
            ("team=red,tier=2", false),
        ] {
            let selector = Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.admits(&labels), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused_with_what_to_write() {
        for text in ["=red", "a in b", "a in (b", "a) in (b", "a of (b)", "a in (b) c", "!", "a b", "a=b=c", "((a))"] {
            let error = Selector::parse(text).expect_err(text);
            assert!(error.contains("write key"), "{text}: {error}");
        }
        assert!(Selector::parse(&vec!["a"; 65].join(",")).is_err());
    }
}
