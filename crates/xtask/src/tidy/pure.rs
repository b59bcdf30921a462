//! Nouns, rules and codecs are pure: no clock, no randomness, no files, no network.

use super::Violation;
use super::tree::Tree;

const PURE: &[&str] =
    &["model", "ledger", "dialects", "products/market/rules", "products/shop/rules", "products/systems/graph"];
const IMPURE: &[(&str, &str)] = &[
    ("SystemTime::now", "reads the clock"),
    ("Instant::now", "reads the clock"),
    ("Timestamp::now", "reads the clock"),
    ("Uuid::new_v4", "is random"),
    ("Uuid::now_v7", "reads the clock"),
    ("getrandom::", "is random"),
    ("std::fs::", "reads files"),
    ("std::env::", "reads the environment"),
    ("std::net::Tcp", "uses the network"),
    ("tokio::", "needs a runtime"),
    ("thread::spawn", "starts a thread"),
];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| !file.is_test()) {
        if !file.package().is_some_and(|package| PURE.contains(&package)) {
            continue;
        }
        for (at, line) in file.without_tests().lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            for (call, why) in IMPURE.iter().filter(|(call, _)| code.contains(call)) {
                found.push(Violation {
                    subject: file.path.clone(),
                    place: format!("{}:{}", file.path, at + 1),
                    message: format!("`{call}` {why}"),
                });
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pure_crate_reads_no_clock_outside_its_tests() {
        let text =
            "//! A.\nlet now = SystemTime::now(); // SystemTime::now\n\n#[cfg(test)]\nmod tests { Instant::now() }";
        let tree = Tree::of(&[("crates/products/shop/rules/src/a.rs", text), ("crates/engine/src/a.rs", text)]);
        let found = check(&tree).unwrap();
        assert_eq!(
            found.iter().map(|one| one.place.as_str()).collect::<Vec<_>>(),
            ["crates/products/shop/rules/src/a.rs:2"]
        );
    }
}
