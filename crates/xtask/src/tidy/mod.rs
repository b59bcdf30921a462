//! The rules of the tree. Each rule is a module with a function that returns its violations.
//!
//! `tidy.allow` holds the number of known violations, by rule and subject. A rule fails where the tree has more of
//! them, and where it has fewer: the list shrinks with the change that mends a violation. Nothing is added to it.

mod allowed;
mod edges;
mod glossary;
mod links;
mod members;
mod modules;
mod names;
mod prose;
mod pure;
mod tree;
mod types;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

use self::allowed::Allowed;
use self::tree::Tree;

/// A violation of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// A file, a type or an edge: the allow-list counts by it.
    subject: String,
    /// `file:line`, where there is one.
    place: String,
    message: String,
}

struct Rule {
    name: &'static str,
    /// How to mend a violation.
    advice: &'static str,
    check: fn(&Tree) -> anyhow::Result<Vec<Violation>>,
}

const RULES: &[Rule] = &[
    Rule {
        name: "edges",
        advice: "a crate depends on another that the table in xtask/src/tidy/edges.rs does not list: use a port of `model`, or move the code",
        check: edges::check,
    },
    Rule {
        name: "members",
        advice: "list the package in `members` of the root Cargo.toml, on a line of its own",
        check: members::check,
    },
    Rule {
        name: "names",
        advice: "a product is named outside its own crate: let the product implement a port, or use a general word",
        check: names::check,
    },
    Rule {
        name: "types",
        advice: "a public type name has two definitions: give each a name of its own, from docs/glossary.md where it has the word",
        check: types::check,
    },
    Rule {
        name: "modules",
        advice: "begin every module with a `//!` sentence that says what it holds",
        check: modules::undocumented,
    },
    Rule {
        name: "glossary",
        advice: "docs/glossary.md has at most forty words that code uses: rename, or take the word out",
        check: glossary::check,
    },
    Rule { name: "length", advice: "split a file of more than 700 lines by topic", check: modules::too_long },
    Rule { name: "links", advice: "name a file, heading or module that exists", check: links::check },
    Rule {
        name: "pure",
        advice: "rules and codecs take the time, the randomness and the data as arguments",
        check: pure::check,
    },
    Rule {
        name: "prose",
        advice: "write plain technical English: the subject is a thing of the program, not somebody",
        check: prose::check,
    },
];

/// Checks every rule and prints its violations. Returns whether there are none.
pub(crate) fn run(root: &Path, shrink: bool) -> anyhow::Result<bool> {
    let tree = Tree::read(root)?;
    let path = root.join("crates/xtask/tidy.allow");
    let mut allowed = Allowed::read(&path)?;
    let mut wrong = 0;
    for rule in RULES {
        let violations = (rule.check)(&tree).with_context(|| format!("rule {}", rule.name))?;
        let found = by_subject(violations);
        if shrink {
            allowed.shrink(rule.name, |subject| found.get(subject).map_or(0, Vec::len));
        }
        let mut failed = false;
        for (subject, violations) in &found {
            let known = allowed.count(rule.name, subject);
            if violations.len() > known {
                failed = true;
                wrong += violations.len() - known;
                println!("{}: {subject}: {} found, {known} known", rule.name, violations.len());
                for violation in violations {
                    println!("  {}: {}", violation.place, violation.message);
                }
            }
        }
        for (subject, known) in allowed.of(rule.name) {
            let count = found.get(subject).map_or(0, Vec::len);
            if count < known {
                failed = true;
                wrong += known - count;
                println!(
                    "{}: {subject}: {known} known, only {count} found: run `cargo xtask tidy --shrink`",
                    rule.name
                );
            }
        }
        if failed {
            println!("  {}\n", rule.advice);
        }
    }
    if shrink {
        allowed.write(&path)?;
    }
    match wrong {
        0 => println!("tidy: {} files, {} known violations, no others", tree.files.len(), allowed.total()),
        wrong => println!("tidy: {wrong} violations"),
    }
    Ok(wrong == 0)
}

fn by_subject(violations: Vec<Violation>) -> BTreeMap<String, Vec<Violation>> {
    let mut found = BTreeMap::<String, Vec<Violation>>::new();
    for violation in violations {
        found.entry(violation.subject.clone()).or_default().push(violation);
    }
    found
}
