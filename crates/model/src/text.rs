//! Texts that are found by their words: a small index that a store keeps beside records, changed in the same commit.
//!
//! What a word is is said here, once, so that every store finds the same: a run of letters and digits in small letters, as
//! far as [`MAX_WORD`] bytes. A question's words are beginnings of words, and each has to be there.

use std::sync::Arc;

/// A longer word is cut off.
pub const MAX_WORD: usize = 64;
/// Words of a title and of a body; more are not found. With all their beginnings they fit into one `tsvector`.
pub const MAX_WORDS: usize = 512;
/// Words of a question; more are not looked at.
pub const MAX_ASKED: usize = 16;

/// A change of what is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextChange {
    /// From now on it has these words and no others.
    Put {
        /// Where it is looked for.
        shelf: Arc<str>,
        /// Unique on its shelf.
        id: Arc<str>,
        /// What has all the words of a question in here comes first.
        title: String,
        body: String,
    },
    Remove {
        shelf: Arc<str>,
        id: Arc<str>,
    },
}

impl TextChange {
    /// Which text it is about.
    pub fn about(&self) -> (&Arc<str>, &Arc<str>) {
        match self {
            TextChange::Put { shelf, id, .. } | TextChange::Remove { shelf, id } => (shelf, id),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextQuery {
    pub shelf: Arc<str>,
    /// Beginnings of words; nothing finds everything.
    pub words: String,
    /// Where the last page ended.
    pub after: Option<TextPlace>,
    pub limit: u32,
    /// Count all that are found, whatever the page.
    pub count: bool,
}

/// A place among what was found: first what has all words in its title, then the rest; each by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextPlace {
    /// Not all of them are in its title.
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
        // Small letters of some capitals are more than letters: what is no letter or digit is left out.
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

/// The words of a question.
pub fn asked(text: &str) -> Vec<String> {
    words(text, MAX_ASKED)
}

/// Whether each of the words asked for begins one of these.
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
        // A capital whose small letter has a mark of its own.
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
