//! The terms of a search.
//!
//! The index finds words by their prefixes. A plural is cut to the prefix that it shares with its singular, so that one
//! query finds both.

use sha2::{Digest, Sha256};

/// Most words of a query; further words are ignored.
pub const MAX_WORDS: usize = 12;

/// A parsed query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    All,
    /// The query has no word in it.
    Nothing,
    /// Every word must match the beginning of a word.
    Words(Vec<String>),
}

impl Query {
    /// Reads a query: `*`, `all` or an empty text is [`Query::All`].
    ///
    /// ```
    /// use shop_rules::Query;
    /// assert_eq!(Query::read("*"), Query::All);
    /// assert_eq!(Query::read("Red hats!"), Query::Words(vec!["red".into(), "hat".into()]));
    /// ```
    pub fn read(text: &str) -> Query {
        let text = text.trim();
        if matches!(text.to_lowercase().as_str(), "" | "*" | "all" | "everything") {
            return Query::All;
        }
        let mut words: Vec<String> = Vec::new();
        for word in model::text::words(text, MAX_WORDS) {
            let word = stem(&word).to_owned();
            if !words.contains(&word) && words.len() < MAX_WORDS {
                words.push(word);
            }
        }
        if words.is_empty() { Query::Nothing } else { Query::Words(words) }
    }

    /// Restricts the query to products with this tag.
    pub fn tagged(self, tag: &str) -> Query {
        let tag = tag_word(tag);
        match self {
            Query::All => Query::Words(vec![tag]),
            Query::Nothing => Query::Nothing,
            Query::Words(mut words) => {
                words.push(tag);
                Query::Words(words)
            }
        }
    }
}

/// The common prefix of an English plural and its singular.
fn stem(word: &str) -> &str {
    if !word.is_ascii() || word.len() <= 3 {
        return word;
    }
    if word.len() > 4
        && let Some(rest) = word.strip_suffix("ies")
    {
        return rest;
    }
    for hissing in ["sses", "xes", "ches", "shes", "zzes"] {
        if word.ends_with(hissing) {
            return &word[..word.len() - 2];
        }
    }
    match word.strip_suffix('s') {
        Some(rest) if !rest.ends_with('s') && !rest.ends_with('u') && !rest.ends_with('i') => rest,
        Some(_) | None => word,
    }
}

/// The index word of a tag, which no other text contains.
pub(crate) fn tag_word(tag: &str) -> String {
    let hash = Sha256::digest(tag.trim().to_lowercase());
    let mut word = String::with_capacity(4 + 24);
    word.push_str("tagx");
    for byte in &hash[..12] {
        word.push_str(&format!("{byte:02x}"));
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_and_singulars_begin_alike() {
        for (one, many) in
            [("hat", "hats"), ("dress", "dresses"), ("berry", "berries"), ("box", "boxes"), ("watch", "watches")]
        {
            let (Query::Words(one), Query::Words(many)) = (Query::read(one), Query::read(many)) else { panic!() };
            assert!(one[0].starts_with(&many[0]), "{one:?} {many:?}");
        }
        for same in ["dress", "gas", "bonus", "iris", "usb"] {
            assert_eq!(Query::read(same), Query::Words(vec![same.to_owned()]));
        }
    }

    #[test]
    fn nothing_that_can_be_found_is_not_everything() {
        assert_eq!(Query::read("  "), Query::All);
        assert_eq!(Query::read("!?"), Query::Nothing);
        assert_eq!(Query::read("!?").tagged("summer"), Query::Nothing);
        assert_eq!(Query::read("ALL"), Query::All);
        assert_eq!(tag_word("Summer "), tag_word("summer"));
        assert_ne!(tag_word("summer"), tag_word("winter"));
    }
}
