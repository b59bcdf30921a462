//! Splits a text into words for comparison.

use std::collections::BTreeSet;

/// Maximum number of words of one text.
const MOST: usize = 500;

/// Stop words.
const EMPTY: &[&str] = &[
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "do", "for", "from", "has", "have", "i", "in",
    "into", "is", "it", "its", "me", "my", "need", "of", "on", "or", "our", "out", "please", "so", "some", "that",
    "the", "their", "them", "then", "this", "to", "up", "us", "want", "was", "we", "which", "will", "with", "would",
    "you", "your",
];

/// Lower-case words without the plural `s`. In scripts without spaces, each pair of adjacent characters is a word.
pub(super) fn words(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for run in text.split(|letter: char| !letter.is_alphanumeric()).filter(|run| !run.is_empty()) {
        let run = run.to_lowercase();
        if run.chars().any(is_unspaced) {
            let letters: Vec<char> = run.chars().collect();
            match letters.len() {
                1 => drop(found.insert(run)),
                _ => found.extend(letters.windows(2).map(|pair| pair.iter().collect::<String>())),
            }
        } else if let Some(word) = bare(&run) {
            found.insert(word);
        }
        if found.len() >= MOST {
            break;
        }
    }
    found
}

fn bare(word: &str) -> Option<String> {
    if EMPTY.contains(&word) {
        return None;
    }
    let plural = word.is_ascii() && word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
    Some(if plural { &word[..word.len() - 1] } else { word }.to_owned())
}

/// Chinese and Japanese.
fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{20000}'..='\u{323af}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_words() {
        let found = |text: &str| words(text).into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(found("The OCR of Invoices, PDFs & classes!"), "classe invoice ocr pdf");
        assert_eq!(found("glass bus gas 2024"), "2024 bus gas glass");
        assert_eq!(found("发票识别 OCR"), "ocr 发票 票识 识别");
        assert_eq!(found("猫"), "猫");
        assert_eq!(found("Über Äpfel"), "äpfel über");
        assert_eq!(found("  ...  "), "");
    }

    #[test]
    fn a_long_text_has_an_end() {
        let long: String = (0..5_000).map(|n| format!("w{n} ")).collect();
        assert_eq!(words(&long).len(), MOST);
    }
}
