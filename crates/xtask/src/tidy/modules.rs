//! Modules: each has a `//!` header, and none is long.

use super::Violation;
use super::tree::Tree;

const MOST_LINES: usize = 700;

pub(super) fn undocumented(tree: &Tree) -> anyhow::Result<Vec<Violation>> {
    let bare = tree.rust().filter(|file| !file.text.trim_start().starts_with("//!"));
    Ok(bare
        .map(|file| Violation {
            subject: file.path.clone(),
            place: file.path.clone(),
            message: "the module begins without `//!`".to_owned(),
        })
        .collect())
}

pub(super) fn too_long(tree: &Tree) -> anyhow::Result<Vec<Violation>> {
    let count = |text: &str| text.lines().count();
    let long = tree.rust().filter(|file| count(&file.text) > MOST_LINES);
    Ok(long
        .map(|file| Violation {
            subject: file.path.clone(),
            place: file.path.clone(),
            message: format!("{} lines", count(&file.text)),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_has_a_first_sentence_and_an_end() {
        let long = format!("//! Long.\n{}", "\n".repeat(MOST_LINES));
        let tree = Tree::of(&[("a.rs", "//! A.\n"), ("b.rs", "use x;\n//! B.\n"), ("c.rs", &long), ("d.md", "x")]);
        let subjects = |found: Vec<Violation>| found.into_iter().map(|one| one.subject).collect::<Vec<_>>();
        assert_eq!(subjects(undocumented(&tree).unwrap()), ["b.rs"]);
        assert_eq!(subjects(too_long(&tree).unwrap()), ["c.rs"]);
    }
}
