//! Formats that users keep in files and scripts: they change only on purpose.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::process::Command;

use e2e::setup;
use serde_json::Value;

/// To accept an intended change: `rialto config schema > crates/e2e/fixtures/config.schema.json`.
#[test]
fn the_schema_of_the_config_is_the_one_that_was_published() {
    let output = Command::new(setup::binary()).args(["config", "schema"]).output().unwrap();
    assert!(output.status.success());
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let published: Value = serde_json::from_str(include_str!("../fixtures/config.schema.json")).unwrap();
    let mut differences = Vec::new();
    compare("", &published, &printed, &mut differences);
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// The places where two values differ.
fn compare(place: &str, before: &Value, now: &Value, differences: &mut Vec<String>) {
    match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            for name in before.keys().chain(now.keys().filter(|name| !before.contains_key(*name))) {
                let (before, now) = (before.get(name), now.get(name));
                compare(
                    &format!("{place}/{name}"),
                    before.unwrap_or(&Value::Null),
                    now.unwrap_or(&Value::Null),
                    differences,
                );
            }
        }
        (before, now) if before == now => {}
        (before, now) => differences.push(format!("{place}: {before} is now {now}")),
    }
}
