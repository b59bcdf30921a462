//! How words stand in an index that all shelves share: each with its shelf's mark before it, so that what another shelf has
//! is never met, let alone looked at.
//!
//! Queries ask for beginnings of words. An index that is asked for everything that begins so has to gather all of it
//! before it can say anything, which costs what the most common word of a question costs; asked for words as they stand, it
//! goes from one to the next of the rarest. So the beginnings of a word, as far as [`BEGINNINGS`] letters, stand in the
//! index as words of their own, and only what is longer is asked for as a beginning.

use std::collections::BTreeSet;

use model::text;
use sha2::{Digest, Sha256};

/// Twelve digits: texts of two shelves with one mark are still told apart by their rows.
pub(crate) fn mark(shelf: &str) -> String {
    Sha256::digest(shelf)[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Letters of the longest beginning that is in the index.
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

/// A word of a question, as the index is asked for it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SearchTerm {
    pub(crate) word: String,
    /// It is too long to stand in the index as a beginning: everything is wanted that begins so.
    pub(crate) open: bool,
}

/// The words of a question; none for everything.
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
