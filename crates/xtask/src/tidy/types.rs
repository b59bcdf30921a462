//! A public type name is defined once in the workspace.
//!
//! Exempt are names that mean the same in every crate ([`SHARED`]), wire shapes, arguments of the command line, and types of
//! tests and of functions.

use std::collections::BTreeMap;

use anyhow::Context as _;
use syn::{Item, Visibility};

use super::Violation;
use super::tree::Tree;

/// A module's own error, options of an agent kind, and a section of the config.
const SHARED: &[&str] = &["Error", "Options", "Section", "Result"];
/// Derives of arguments.
const COMMAND_LINE: &[&str] = &["Args", "Parser", "Subcommand", "ValueEnum"];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Violation>> {
    let mut places = BTreeMap::<String, Vec<&str>>::new();
    for file in tree.rust().filter(|file| !file.is_test() && !file.path.ends_with("/shapes.rs")) {
        // Programs of tests share no names with the product.
        if file.package().is_none_or(|package| matches!(package, "e2e" | "cluster" | "xtask")) {
            continue;
        }
        let parsed = syn::parse_file(&file.text).with_context(|| format!("cannot parse {}", file.path))?;
        let mut names = Vec::new();
        defined(&parsed.items, &mut names);
        for name in names.into_iter().filter(|name| !SHARED.contains(&name.as_str())) {
            places.entry(name).or_default().push(&file.path);
        }
    }
    let mut found = Vec::new();
    for (name, paths) in places.into_iter().filter(|(_, paths)| paths.len() > 1) {
        for path in paths {
            found.push(Violation {
                subject: name.clone(),
                place: path.to_owned(),
                message: format!("`{name}` is defined here"),
            });
        }
    }
    Ok(found)
}

/// Names of the public types of these items, and of modules within them that are not for tests.
fn defined(items: &[Item], names: &mut Vec<String>) {
    for item in items {
        let (visibility, name, attributes) = match item {
            Item::Struct(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Enum(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Trait(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Type(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Union(item) => (&item.vis, &item.ident, &item.attrs),
            Item::Mod(module) => {
                let tests = module.attrs.iter().any(|attribute| attribute.path().is_ident("cfg"));
                if let Some((_, items)) = module.content.as_ref().filter(|_| !tests) {
                    defined(items, names);
                }
                continue;
            }
            _ => continue,
        };
        if !matches!(visibility, Visibility::Inherited) && !attributes.iter().any(is_of_command_line) {
            names.push(name.to_string());
        }
    }
}

/// Whether an attribute derives arguments of the command line, which are named as users write them.
fn is_of_command_line(attribute: &syn::Attribute) -> bool {
    let mut found = false;
    if attribute.path().is_ident("derive") {
        let _ = attribute.parse_nested_meta(|meta| {
            found |=
                meta.path.segments.last().is_some_and(|last| COMMAND_LINE.contains(&last.ident.to_string().as_str()));
            Ok(())
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_two_meanings_is_found_where_both_are_public() {
        let tree = Tree::of(&[
            (
                "crates/a/src/x.rs",
                "pub struct Seat; struct Own; pub(crate) enum Error {} fn f() { pub struct Row; }\n#[derive(Args, Clone)] pub struct Task;",
            ),
            (
                "crates/b/src/y.rs",
                "pub(super) type Seat = u8; struct Own; enum Error {} pub struct Row; pub struct Task;",
            ),
            ("crates/b/src/shapes.rs", "pub struct Row;"),
            ("crates/b/tests/z.rs", "pub struct Seat;"),
            ("crates/c/src/z.rs", "#[cfg(test)] mod tests { pub struct Seat; }"),
        ]);
        let found: Vec<_> = check(&tree).unwrap().into_iter().map(|one| (one.subject, one.place)).collect();
        let seat = |path: &str| ("Seat".to_owned(), path.to_owned());
        assert_eq!(found, [seat("crates/a/src/x.rs"), seat("crates/b/src/y.rs")]);
    }
}
