//! Edges between crates: a crate depends on those that the table lists, and tests use crates below their own.

use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

use super::Violation;
use super::tree::Tree;

/// From the bottom to the top, with the crates that each may depend on. All of them may use `model`.
const CRATES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("ledger", &[]),
    ("market-rules", &["ledger"]),
    ("shop-rules", &["ledger"]),
    ("systems-graph", &[]),
    ("dialects", &[]),
    ("stores", &[]),
    ("client", &["dialects"]),
    ("agents", &["client"]),
    ("engine", &[]),
    ("console", &[]),
    ("web", &["dialects"]),
    ("gateway", &["console", "dialects", "engine", "web"]),
    ("market", &["dialects", "engine", "gateway", "ledger", "market-rules", "web"]),
    ("shop", &["dialects", "engine", "gateway", "ledger", "shop-rules", "web"]),
    ("systems", &["agents", "dialects", "engine", "gateway", "systems-graph", "web"]),
    ("assistants", &["dialects", "gateway", "web"]),
    (
        "cli",
        &[
            "agents",
            "assistants",
            "dialects",
            "engine",
            "gateway",
            "ledger",
            "market",
            "market-rules",
            "shop",
            "shop-rules",
            "stores",
            "systems",
            "systems-graph",
            "web",
        ],
    ),
    ("e2e", &[]),
];
/// No product depends on another, not even in tests.
const PRODUCTS: &[&str] = &["market", "shop", "systems", "assistants"];
/// For tests of any crate.
const FOR_TESTS: &[&str] = &["cluster", "products-tests", "testkit", "xtask"];

pub(super) fn check(tree: &Tree) -> anyhow::Result<Vec<Violation>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = ["metadata", "--no-deps", "--offline", "--format-version", "1"];
    let output = Command::new(cargo).args(metadata).current_dir(&tree.root).output().context("cargo metadata")?;
    anyhow::ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    wrong_edges(&serde_json::from_slice(&output.stdout)?)
}

fn wrong_edges(metadata: &Value) -> anyhow::Result<Vec<Violation>> {
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().context("packages")? {
        let name = short(package["name"].as_str().unwrap_or_default());
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let Some(to) = dependency["name"].as_str().filter(|to| is_ours(to)).map(short) else { continue };
            let is_dev = dependency["kind"].as_str() == Some("dev");
            if !is_allowed(name, to, is_dev) {
                let kind = if is_dev { "-dev" } else { "" };
                found.push(Violation {
                    subject: format!("{name}{kind}->{to}"),
                    place: manifest.rsplit_once("/crates/").map_or(manifest, |(_, path)| path).to_owned(),
                    message: format!("`{name}` depends on `{to}`"),
                });
            }
        }
    }
    Ok(found)
}

fn is_ours(name: &str) -> bool {
    name == "rialto" || name.starts_with("rialto-")
}

fn short(name: &str) -> &str {
    if name == "rialto" { "cli" } else { name.strip_prefix("rialto-").unwrap_or(name) }
}

fn is_allowed(from: &str, to: &str, is_dev: bool) -> bool {
    // A crate's own tests may turn on a feature of it.
    if is_dev && from == to {
        return true;
    }
    if FOR_TESTS.contains(&to) {
        return is_dev || from == "e2e";
    }
    if FOR_TESTS.contains(&from) {
        return true;
    }
    let height = |name: &str| CRATES.iter().position(|(known, _)| *known == name);
    let (Some(above), Some(below)) = (height(from), height(to)) else { return false };
    match is_dev {
        true => below < above && !(PRODUCTS.contains(&from) && PRODUCTS.contains(&to)),
        false => to == "model" || CRATES[above].1.contains(&to),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_listed_edges_are_allowed_and_tests_look_down() {
        let dependency = |name: &str, kind: Value| json!({ "name": name, "kind": kind });
        let metadata = json!({ "packages": [
            { "name": "rialto-client", "manifest_path": "/x/crates/client/Cargo.toml", "dependencies": [
                dependency("rialto-model", Value::Null), dependency("rialto-dialects", Value::Null),
                dependency("rialto-market", Value::Null), dependency("serde", Value::Null),
                dependency("rialto-stores", json!("dev")), dependency("rialto-gateway", json!("dev")),
                dependency("rialto-cluster", json!("dev")), dependency("rialto-unheard", Value::Null),
            ] },
        ] });
        let found: Vec<_> = wrong_edges(&metadata).unwrap().into_iter().map(|one| one.subject).collect();
        assert_eq!(found, ["client->market", "client-dev->gateway", "client->unheard"]);
    }

    #[test]
    fn edges_point_downwards() {
        for (at, (name, uses)) in CRATES.iter().enumerate() {
            for below in *uses {
                assert!(CRATES[..at].iter().any(|(known, _)| known == below), "{name} -> {below}");
            }
        }
    }
}
