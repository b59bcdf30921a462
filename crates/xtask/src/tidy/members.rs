//! Members of the workspace: the root manifest lists every package of the tree, one on each line.
//!
//! Cargo takes a path dependency for a member by itself. `scripts/checked` reads the list, so a package that it lacks would
//! be tested optimised and without overflow checks.

use std::collections::BTreeSet;

use anyhow::Context as _;

use super::Violation;
use super::tree::Tree;

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Violation>> {
    let manifest = std::fs::read_to_string(tree.root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    Ok(unlisted(tree, &manifest))
}

fn unlisted(tree: &Tree, manifest: &str) -> Vec<Violation> {
    let below = manifest.lines().skip_while(|line| *line != "members = [").take_while(|line| *line != "]");
    let listed: BTreeSet<&str> =
        below.filter_map(|line| line.trim().strip_prefix("\"crates/")?.strip_suffix("\",")).collect();
    let sources = tree.rust().filter(|file| file.path.contains("/src/"));
    let packages: BTreeSet<&str> = sources.filter_map(|file| file.package()).collect();
    let missing = packages.difference(&listed).map(|package| Violation {
        subject: format!("crates/{package}"),
        place: "Cargo.toml".to_owned(),
        message: format!("`crates/{package}` is not in `members`"),
    });
    missing.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_at_any_depth_is_listed() {
        let paths = ["crates/a/src/lib.rs", "crates/products/b/src/lib.rs", "crates/products/b/rules/src/deep/x.rs"];
        let tree = Tree::of(&paths.map(|path| (path, "")));
        let listed = |members: &[&str]| {
            let lines: String = members.iter().map(|member| format!("    \"crates/{member}\",\n")).collect();
            let manifest = format!("[workspace]\nmembers = [\n{lines}]\ndefault-members = [\n    \"crates/a\",\n]\n");
            unlisted(&tree, &manifest).into_iter().map(|one| one.subject).collect::<Vec<_>>()
        };
        assert_eq!(listed(&["a", "products/b", "products/b/rules"]), [""; 0]);
        assert_eq!(listed(&["products/b"]), ["crates/a", "crates/products/b/rules"]);
    }
}
