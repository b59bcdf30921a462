//! Comments are plain: doc comments do not begin with "What", and no comment uses words for unnamed persons.

use super::Violation;
use super::tree::Tree;

const PERSONS: &[&str] = &["whoever", "whomever", "somebody", "nobody", "everybody"];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| !file.path.starts_with("crates/xtask/")) {
        for (number, line) in file.lines() {
            let Some(comment) = comment(line) else { continue };
            let begins = ["What ", "Whatever ", "How manieth"].iter().find(|word| comment.starts_with(**word));
            let person = PERSONS.iter().find(|person| has_word(comment, person));
            for word in begins.into_iter().chain(person) {
                found.push(Violation {
                    subject: file.path.clone(),
                    place: format!("{}:{number}", file.path),
                    message: format!("\"{}\"", word.trim()),
                });
            }
        }
    }
    Ok(found)
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.trim_start_matches(['/', '!']).trim_start())
}

fn has_word(text: &str, word: &str) -> bool {
    text.split(|c: char| !c.is_alphanumeric()).any(|one| one.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_read_and_code_is_not() {
        let text = "/// What it is.\n//! For Whoever asks.\nlet nobody = 1;\n// It does what it says.\n";
        let found = check(&Tree::of(&[("a.rs", text)])).unwrap();
        assert_eq!(found.iter().map(|one| one.message.as_str()).collect::<Vec<_>>(), ["\"What\"", "\"whoever\""]);
    }
}
