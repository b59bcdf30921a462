//! The glossary has at most forty words, and code uses each of them.

use std::collections::BTreeSet;

use super::Violation;
use super::tree::Tree;

const GLOSSARY: &str = "docs/glossary.md";
const MOST: usize = 40;

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Violation>> {
    let Some(document) = tree.documents().find(|document| document.path == GLOSSARY) else {
        return Ok(vec![violation(1, "the glossary is missing".into())]);
    };
    let entries: Vec<(usize, &str)> =
        document.lines().filter_map(|(number, line)| Some((number, entry(line)?))).collect();
    let mut found = Vec::new();
    if entries.len() > MOST {
        found.push(violation(1, format!("{} words; at most {MOST}", entries.len())));
    }
    let mut missing: BTreeSet<&str> = entries.iter().map(|(_, word)| *word).collect();
    for file in tree.rust() {
        for (_, line) in file.lines() {
            if missing.is_empty() {
                break;
            }
            let line = line.to_ascii_lowercase();
            missing.retain(|word| !line.contains(word));
        }
    }
    let unused = entries.iter().filter(|(_, word)| missing.contains(word));
    found.extend(unused.map(|(number, word)| violation(*number, format!("no code uses `{word}`"))));
    Ok(found)
}

/// The word of a row of the table.
fn entry(line: &str) -> Option<&str> {
    let word = line.strip_prefix("| ")?.split(" |").next()?.trim();
    (word != "word" && !word.starts_with('-')).then_some(word)
}

fn violation(line: usize, message: String) -> Violation {
    Violation { subject: GLOSSARY.into(), place: format!("{GLOSSARY}:{line}"), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_code_and_few() {
        let table = "# Glossary\n\n| word | meaning |\n|---|---|\n| lease | time |\n| gizmo | nothing |\n";
        let tree = Tree::of(&[(GLOSSARY, table), ("crates/engine/src/a.rs", "struct Lease;")]);
        let found: Vec<String> = check(&tree).unwrap().into_iter().map(|one| one.message).collect();
        assert_eq!(found, ["no code uses `gizmo`"]);
        let long: String = (0..=MOST).map(|n| format!("| lease{n} | x |\n")).collect();
        let tree = Tree::of(&[(GLOSSARY, &long)]);
        assert!(check(&tree).unwrap()[0].message.contains("at most"));
        assert_eq!(check(&Tree::of(&[])).unwrap().len(), 1);
    }
}
