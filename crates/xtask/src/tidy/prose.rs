//! Comments are plain: doc comments do not begin with "What", and no comment uses words for unnamed persons.
//!
//! Doc comments of types that derive `JsonSchema` are exempt: they are texts of the config schema or of an OpenAPI
//! document, which golden files pin.

use std::collections::HashSet;

use anyhow::Context as _;
use syn::{Attribute, Expr, Fields, Item, Lit, Meta};

use super::Violation;
use super::tree::{SourceFile, Tree};

const PERSONS: &[&str] = &["whoever", "whomever", "somebody", "nobody", "everybody"];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| !file.path.starts_with("crates/xtask/")) {
        let schema_texts = schema_texts(file)?;
        for (number, line) in file.lines() {
            let Some(comment) = comment(line).filter(|comment| !schema_texts.contains(*comment)) else { continue };
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
    Some(rest.trim_start_matches(['/', '!']).trim())
}

/// The lines of doc comments that become descriptions in a schema.
fn schema_texts(file: &SourceFile) -> anyhow::Result<HashSet<String>> {
    let mut texts = HashSet::new();
    if file.text.contains("JsonSchema") {
        let parsed = syn::parse_file(&file.text).with_context(|| format!("cannot parse {}", file.path))?;
        of_items(&parsed.items, &mut texts);
    }
    Ok(texts)
}

fn of_items(items: &[Item], texts: &mut HashSet<String>) {
    for item in items {
        match item {
            Item::Struct(item) if derives_schema(&item.attrs) => {
                doc_lines(&item.attrs, texts);
                of_fields(&item.fields, texts);
            }
            Item::Enum(item) if derives_schema(&item.attrs) => {
                doc_lines(&item.attrs, texts);
                for variant in &item.variants {
                    doc_lines(&variant.attrs, texts);
                    of_fields(&variant.fields, texts);
                }
            }
            Item::Mod(module) => {
                if let Some((_, items)) = &module.content {
                    of_items(items, texts);
                }
            }
            _ => {}
        }
    }
}

fn of_fields(fields: &Fields, texts: &mut HashSet<String>) {
    for field in fields {
        doc_lines(&field.attrs, texts);
    }
}

fn derives_schema(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("derive")).any(|attribute| {
        let mut found = false;
        let read = attribute.parse_nested_meta(|derived| {
            found |= derived.path.segments.last().is_some_and(|last| last.ident == "JsonSchema");
            Ok(())
        });
        read.is_ok() && found
    })
}

fn doc_lines(attributes: &[Attribute], texts: &mut HashSet<String>) {
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        if let Meta::NameValue(value) = &attribute.meta
            && let Expr::Lit(literal) = &value.value
            && let Lit::Str(text) = &literal.lit
        {
            texts.extend(text.value().lines().map(|line| line.trim().to_owned()));
        }
    }
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
    #[test]
    fn texts_of_a_schema_are_passed_over() {
        let text = "#[derive(Clone, JsonSchema)]\n/// What it does.\nstruct A {\n    /// What it is, for whoever reads.\n    a: u8,\n}\n\
                    #[derive(schemars::JsonSchema)]\nenum B {\n    /// Nobody.\n    One,\n}\n\
                    #[derive(Clone)]\n/// What it was.\nstruct C {\n    /// For nobody.\n    c: u8,\n}\n";
        let found = check(&Tree::of(&[("a.rs", text)])).unwrap();
        let places: Vec<_> = found.iter().map(|one| (one.place.as_str(), one.message.as_str())).collect();
        assert_eq!(places, [("a.rs:13", "\"What\""), ("a.rs:15", "\"nobody\"")]);
    }
}
