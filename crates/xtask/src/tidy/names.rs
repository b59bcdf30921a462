//! Products are named in their own crates, in the binary, in black-box tests and in documents, and nowhere else.

use super::Violation;
use super::tree::Tree;

const PRODUCTS: &[&str] = &["uumit", "orloj", "aly", "storefront", "langsmith"];
/// Crates that know no product.
const CORE: &[&str] =
    &["model", "ledger", "dialects", "engine", "stores", "client", "web", "gateway", "testkit", "agents"];
/// Names that data folders hold; they are never changed.
const STORED: &[(&str, &str)] = &[];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for file in tree.rust() {
        let Some(package) = file.package().filter(|package| CORE.contains(package)) else { continue };
        // Tests of `dialects` read requests of other products' clients; a folder `products` is where products live.
        if (package == "dialects" && file.is_test()) || file.path.contains("/src/products/") {
            continue;
        }
        for (number, line) in file.lines() {
            for word in words(line).filter(|word| is_product(word)) {
                let stored = STORED.iter().any(|(path, text)| *path == file.path && line.contains(text));
                if !stored {
                    found.push(Violation {
                        subject: file.path.clone(),
                        place: format!("{}:{number}", file.path),
                        message: word.to_owned(),
                    });
                }
            }
        }
    }
    Ok(found)
}

/// The words of a line as `grep -w` has them.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn is_product(word: &str) -> bool {
    PRODUCTS.iter().any(|product| word.eq_ignore_ascii_case(product))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_is_a_whole_word_in_a_crate_of_the_core() {
        let tree = Tree::of(&[
            ("crates/engine/src/a.rs", "// Aly's shop, analysed.\nlet x = \"orloj\";\nuumit_x"),
            ("crates/cli/src/a.rs", "orloj"),
            ("crates/dialects/tests/a.rs", "orloj"),
            ("docs/a.md", "orloj"),
        ]);
        let found: Vec<_> = check(&tree).unwrap().into_iter().map(|one| (one.place, one.message)).collect();
        let place = |line: usize, word: &str| (format!("crates/engine/src/a.rs:{line}"), word.to_owned());
        assert_eq!(found, [place(1, "Aly"), place(2, "orloj")]);
    }
}
