//! Full-text search by words: a small index that a store keeps beside records, changed in the same commit.
//!
//! Words are defined here once, so that every store finds the same: a run of letters and digits in lower case, up to
//! [`MAX_WORD`] bytes. A query's words are prefixes, and each must match.

use std::sync::Arc;

/// A longer word is cut off.
pub const MAX_WORD: usize = 64;
/// Indexed words of a title and of a body; further words are not found. With all their prefixes they fit into one
/// `tsvector`.
pub const MAX_WORDS: usize = 512;
/// Words of a query; further words are ignored.
pub const MAX_ASKED: usize = 16;

/// A change of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextChange {
    /// Replaces the words of the text.
    Put {
        /// The index that contains the text.
        shelf: Arc<str>,
        /// Unique in its index.
        id: Arc<str>,
        /// Texts that match every word of the query here come first.
        title: String,
        body: String,
    },
    Remove {
        shelf: Arc<str>,
        id: Arc<str>,
    },
}

impl TextChange {
    /// The text the change is about.
    pub fn about(&self) -> (&Arc<str>, &Arc<str>) {
        match self {
            TextChange::Put { shelf, id, .. } | TextChange::Remove { shelf, id } => (shelf, id),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextQuery {
    pub shelf: Arc<str>,
    /// Prefixes of words; an empty query finds everything.
    pub words: String,
    /// The end of the previous page.
    pub after: Option<TextPlace>,
    pub limit: u32,
    /// Count all matches, regardless of the page.
    pub count: bool,
}

/// A position in the results: first the texts that match every word in the title, then the others; each by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPlace {
    /// Not every word matches in the title.
    pub elsewhere: bool,
    pub id: Arc<str>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextPage {
    pub found: Vec<TextPlace>,
    pub more: bool,
    pub total: Option<u64>,
}

/// The words of a text, in their order, each once.
///
/// ```
/// assert_eq!(model::text::words("Sun-Hat, wide; sun!", 10), ["sun", "hat", "wide"]);
/// ```
pub fn words(text: &str, most: usize) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        if words.len() == most {
            break;
        }
        // The lower case of some capitals includes characters other than letters and digits; these are left out.
        let mut word: String = run.chars().flat_map(char::to_lowercase).filter(|c| c.is_alphanumeric()).collect();
        if word.len() > MAX_WORD {
            let end = (0..=MAX_WORD).rev().find(|end| word.is_char_boundary(*end)).unwrap_or_default();
            word.truncate(end);
        }
        if !word.is_empty() && seen.insert(word.clone()) {
            words.push(word);
        }
    }
    words
}

/// The words of a query.
pub fn asked(text: &str) -> Vec<String> {
    words(text, MAX_ASKED)
}

/// Whether each word of the query is a prefix of one of these.
pub fn has_all(words: &[String], asked: &[String]) -> bool {
    asked.iter().all(|beginning| words.iter().any(|word| word.starts_with(beginning)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits() {
        assert_eq!(words("  \"L'Été\" 2026 ÄÖ_x ", 10), ["l", "été", "2026", "äö", "x"]);
        assert_eq!(words("a b c", 2), ["a", "b"]);
        assert!(words("!?-", 9).is_empty());
        // A capital whose lower case has a combining mark.
        assert_eq!(words("İx", 9), ["ix"]);
        let long = "é".repeat(40);
        assert_eq!(words(&long, 9)[0].len(), MAX_WORD);
    }

    #[test]
    fn every_word_asked_for_begins_one() {
        let has = words("sun hat wide", 9);
        assert!(has_all(&has, &asked("wi SU")));
        assert!(has_all(&has, &[]));
        assert!(!has_all(&has, &asked("sun hats")));
    }
}
