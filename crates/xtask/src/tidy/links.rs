//! Links of documents lead somewhere, and modules that are named exist.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::Violation;
use super::tree::{SourceFile, Tree};

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for document in tree.documents() {
        document_links(tree, document, &mut found);
        paths_in_code(tree, document, &mut found);
    }
    for file in tree.rust() {
        listed_modules(file, &mut found);
    }
    Ok(found)
}

fn violation(file: &SourceFile, line: usize, message: String) -> Violation {
    Violation { subject: file.path.clone(), place: format!("{}:{line}", file.path), message }
}

/// `[text](path#heading)`, outside code blocks.
fn document_links(tree: &Tree, document: &SourceFile, found: &mut Vec<Violation>) {
    let mut is_code = false;
    for (number, line) in document.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for rest in line.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") || target.is_empty() {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { document.path.clone() } else { beside(&document.path, path) };
            if !tree.root.join(&path).exists() {
                found.push(violation(document, number, format!("there is no {path}")));
                continue;
            }
            let linked = tree.documents().find(|document| document.path == path);
            if let Some(linked) = linked.filter(|_| !heading.is_empty())
                && !headings(linked).contains(heading)
            {
                found.push(violation(document, number, format!("{path} has no heading #{heading}")));
            }
        }
    }
}

/// A path from the folder of a document, without dots.
fn beside(document: &str, path: &str) -> String {
    let mut joined = PathBuf::new();
    for part in Path::new(document).parent().unwrap_or(Path::new("")).join(path).components() {
        match part {
            Component::ParentDir => {
                joined.pop();
            }
            Component::Normal(part) => joined.push(part),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    joined.to_string_lossy().into_owned()
}

/// Headings as links name them.
fn headings(document: &SourceFile) -> BTreeSet<String> {
    let lines = document.text.lines().filter(|line| line.starts_with('#'));
    lines
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>()
        })
        .map(|title| title.replace(' ', "-"))
        .collect()
}

/// `` `engine::outbox` `` and `` `crates/engine/src/outbox` `` in documents.
fn paths_in_code(tree: &Tree, document: &SourceFile, found: &mut Vec<Violation>) {
    // The changelog names modules as they were at each release.
    if document.path == "CHANGELOG.md" {
        return;
    }
    for (number, line) in document.lines() {
        for code in line.split('`').skip(1).step_by(2) {
            if let Some(path) = code.strip_prefix("crates/") {
                let path = format!("crates/{}", path.split([':', ' ', '{', '*']).next().unwrap_or_default());
                if !tree.root.join(&path).exists() {
                    found.push(violation(document, number, format!("there is no {path}")));
                }
            } else if let Some((package, module)) = code.split_once("::")
                && tree.root.join("crates").join(package).is_dir()
                && is_snake(module)
                && !has_module_or_function(tree, package, module)
            {
                found.push(violation(document, number, format!("`{package}` has no module or function `{module}`")));
            }
        }
    }
}

fn is_snake(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn has_module_or_function(tree: &Tree, package: &str, name: &str) -> bool {
    let (module, function) = (format!("mod {name}"), format!("fn {name}"));
    tree.rust().filter(|file| file.package() == Some(package)).any(|file| {
        file.path.ends_with(&format!("/{name}.rs")) || file.text.contains(&module) || file.text.contains(&function)
    })
}

/// Lists of modules at the head of one: `` //! * `name`: … ``.
fn listed_modules(file: &SourceFile, found: &mut Vec<Violation>) {
    for (number, line) in file.lines().take_while(|(_, line)| line.starts_with("//!")) {
        let item = line.strip_prefix("//! * `").or_else(|| line.strip_prefix("//! - `"));
        let Some((names, _)) = item.and_then(|item| item.split_once(':')) else { continue };
        for name in names.split('`').step_by(2).filter(|name| is_snake(name)) {
            if !file.text.contains(&format!("mod {name};")) {
                found.push(violation(file, number, format!("there is no module `{name}`")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_headings_and_modules_exist_or_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            (
                "docs/a.md",
                "# Big Title: x\n[ok](b.md#part-two) [self](#big-title-x) [no](b.md#part) [gone](c.md) [web](https://x)\n```\n[code](d.md)\n```\n`engine::live` `engine::lost` `crates/engine/src/live.rs` `crates/none`\n",
            ),
            ("docs/b.md", "## Part two\n[up](../README.md)\n"),
            ("README.md", ""),
            ("crates/engine/src/lib.rs", "//! A.\n//! * `live` and `lost`: x\nmod live;\n"),
            ("crates/engine/src/live.rs", "//! L.\n"),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found: Vec<_> = check(&Tree::read(folder.path()).unwrap()).unwrap();
        let found: Vec<_> = found.iter().map(|one| format!("{}: {}", one.place, one.message)).collect();
        assert_eq!(
            found,
            [
                "docs/a.md:2: docs/b.md has no heading #part",
                "docs/a.md:2: there is no docs/c.md",
                "docs/a.md:6: `engine` has no module or function `lost`",
                "docs/a.md:6: there is no crates/none",
                "crates/engine/src/lib.rs:2: there is no module `lost`",
            ]
        );
    }
}
