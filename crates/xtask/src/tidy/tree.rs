//! The files of the tree, read once for all rules.

use std::path::Path;

use anyhow::Context as _;

/// Folders of third-party programs, of build output, and of files that tests write.
const SKIPPED: &[&str] = &["target", "node_modules", ".venv", ".git", ".work", "snapshots"];

#[derive(Debug)]
pub(super) struct Tree {
    pub(super) files: Vec<SourceFile>,
    pub(super) root: std::path::PathBuf,
}

/// A Rust file or a document.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// From the root, with slashes.
    pub(super) path: String,
    pub(super) text: String,
}

impl Tree {
    pub(super) fn read(root: &Path) -> anyhow::Result<Tree> {
        let mut tree = Tree { files: Vec::new(), root: root.to_owned() };
        tree.walk(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn walk(&mut self, folder: &Path, prefix: &str) -> anyhow::Result<()> {
        let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.walk(&entry.path(), &format!("{prefix}{name}/"))?;
            } else if kind.is_file() && (name.ends_with(".rs") || name.ends_with(".md")) {
                let text =
                    std::fs::read_to_string(entry.path()).with_context(|| format!("cannot read {prefix}{name}"))?;
                self.files.push(SourceFile { path: format!("{prefix}{name}"), text });
            }
        }
        Ok(())
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    pub(super) fn documents(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().filter(|file| file.path.ends_with(".md"))
    }

    /// A tree of these texts, for tests of the rules.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| SourceFile { path: (*path).to_owned(), text: (*text).to_owned() };
        Tree { files: files.iter().map(file).collect(), root: std::path::PathBuf::new() }
    }
}

impl SourceFile {
    /// The crate's folder: `crates/engine/src/live.rs` is of `engine`, a product's own packages of `products/market/rules`.
    pub(super) fn package(&self) -> Option<&str> {
        let below = self.path.strip_prefix("crates/")?;
        let end = ["/src/", "/tests/", "/examples/", "/benches/"].iter().filter_map(|part| below.find(part)).min()?;
        below.get(..end)
    }

    /// Whether it is only compiled for tests.
    pub(super) fn is_test(&self) -> bool {
        let file = self.path.rsplit('/').next().unwrap_or_default();
        let is_file_of_tests = file.ends_with("_tests.rs") || matches!(file, "tests.rs" | "testing.rs");
        is_file_of_tests || self.path.contains("/tests/") || self.path.contains("/examples/")
    }

    /// The text before the tests inside the file.
    pub(super) fn without_tests(&self) -> &str {
        self.text.find("\n#[cfg(test)]\nmod ").map_or(&self.text, |at| &self.text[..at])
    }

    /// Numbered lines.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line))
    }
}
