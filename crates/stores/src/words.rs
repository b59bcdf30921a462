//! Words in an index that all shelves share: each has the mark of its shelf as a prefix, so that a search never reads rows of
//! another shelf.
//!
//! Queries search for prefixes of words. A prefix query of the index collects all matches before it returns any, which costs
//! as much as the most common word of the query; a query for whole words walks the rows of the rarest word. So the prefixes
//! of a word, up to [`BEGINNINGS`] letters, are in the index as words of their own, and only longer prefixes need a prefix
//! query.

use std::collections::BTreeSet;

use model::text;
use sha2::{Digest, Sha256};

/// Twelve digits: texts of two shelves with the same mark still differ in their rows.
pub(crate) fn mark(shelf: &str) -> String {
    Sha256::digest(shelf)[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Letters of the longest prefix in the index.
const BEGINNINGS: usize = 12;

/// Everything that a text is found by, each once.
pub(crate) fn of_text(mark: &str, text: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for word in text::words(text, text::MAX_WORDS) {
        let ends = word.char_indices().map(|(at, letter)| at + letter.len_utf8()).take(BEGINNINGS);
        all.extend(ends.map(|end| format!("{mark}{}", &word[..end])));
        all.insert(format!("{mark}{word}"));
    }
    all
}

/// A word of a query, in the form the index takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SearchTerm {
    pub(crate) word: String,
    /// It is longer than the indexed prefixes: a prefix query.
    pub(crate) open: bool,
}

/// The words of a query; an empty list matches everything.
pub(crate) fn asked(mark: &str, words: &str) -> Vec<SearchTerm> {
    let asked =
        |word: String| SearchTerm { open: word.chars().nth(BEGINNINGS).is_some(), word: format!("{mark}{word}") };
    text::asked(words).into_iter().map(asked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_stand_in_the_index_and_longer_words_whole() {
        let all = of_text("m", "Été, to an extraordinarily wide brim");
        let long = all.iter().filter(|word| word.starts_with("me"));
        let long: Vec<&str> = long.map(|word| &word[1..]).collect();
        assert_eq!((long.len(), &long[11..]), (13, &["extraordinar", "extraordinarily"][..]));
        let short = all.iter().filter(|word| word.starts_with("mt") || word.starts_with("mé"));
        assert_eq!(short.collect::<Vec<_>>(), ["mt", "mto", "mé", "mét", "mété"]);
        let told = |word: &str, open| SearchTerm { word: word.to_owned(), open };
        let expected = [told("mextraordinar", false), told("mextraordinari", true)];
        assert_eq!(asked("m", "extraordinar extraordinari"), expected);
    }
}
