//! Every operator's command finds the data where `rialto serve` would: the flag is before the config file, and the config
//! file before the default. Without data a command names the folder in which it looked, or makes it.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::path::Path;
use std::process::Command;

use e2e::setup;

/// A command, and whether it works on a store outside of the data folder too.
const COMMANDS: &[(&[&str], bool)] = &[
    (&["task", "list"], true),
    (&["task", "show", "T"], true),
    (&["task", "cancel", "T"], true),
    (&["task", "purge", "T"], true),
    (&["push", "list"], true),
    (&["push", "redeliver", "T"], true),
    (&["push", "redeliver", "T", "--push-config", "c"], true),
    (&["keys", "create", "ann", "--tenant", "t"], true),
    (&["keys", "list"], true),
    (&["keys", "revoke", "k"], true),
    (&["market", "verify"], true),
    (&["shop", "sites"], true),
    (&["shop", "verify"], true),
    (&["graph", "support", "--task", "T"], true),
    (&["doctor"], true),
    (&["demo"], false),
    (&["health"], false),
    (&["backup", "copy.db"], false),
    (&["restore", "rialto.yaml"], false),
];

/// Flags, what the config files say, and the folder in which the data is.
const PLACES: &[(&str, &[&str], &str, &str)] = &[
    ("the default", &[], "", "rialto-data"),
    ("the usual config file", &[], "data: from-usual\n", "from-usual"),
    ("a named config file", &["--config", "named.yaml"], "data: from-usual\n", "from-named"),
    ("a flag", &["--data", "from-flag"], "data: from-usual\n", "from-flag"),
    ("a flag before a named file", &["--data", "from-flag", "--config", "named.yaml"], "", "from-flag"),
];

/// The standard error of a command in this folder.
fn said(folder: &Path, words: &[&str]) -> String {
    let output = Command::new(setup::binary()).args(words).current_dir(folder).env_remove("NO_SUCH_STORE").output();
    String::from_utf8(output.unwrap().stderr).unwrap()
}

fn folder_with(usual: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rialto.yaml"), usual).unwrap();
    std::fs::write(folder.path().join("named.yaml"), "data: from-named\n").unwrap();
    folder
}

/// The folders that are named or made.
fn looked_in<'a>(at: &Path, said: &str, folders: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut found: Vec<&str> = folders.filter(|name| said.contains(name) || at.join(name).exists()).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn every_command_finds_the_data_by_flag_by_config_file_and_by_default() {
    for (words, _) in COMMANDS {
        for (place, flags, usual, expected) in PLACES {
            let folder = folder_with(usual);
            let said = said(folder.path(), &[*words, *flags].concat());
            let found = looked_in(folder.path(), &said, PLACES.iter().map(|(_, _, _, name)| *name));
            assert_eq!(found, [*expected], "{words:?}, {place}: {said}");
        }
    }
}

#[test]
fn every_command_finds_the_store_of_the_config_file() {
    for (words, _) in COMMANDS.iter().filter(|(_, in_any_store)| *in_any_store) {
        for flags in [&[][..], &["--data", "from-flag"]] {
            let folder = folder_with("store: env:NO_SUCH_STORE\n");
            let said = said(folder.path(), &[*words, flags].concat());
            assert!(said.contains("set the environment variable NO_SUCH_STORE"), "{words:?}: {said}");
        }
    }
}

/// The earlier form of the command has no name of a config file, so the usual one counts.
#[test]
fn the_earlier_form_of_redeliver_reads_the_usual_config_file() {
    let folder = folder_with("data: from-usual\n");
    let said = said(folder.path(), &["push", "redeliver", "T", "--config", "an-id"]);
    assert!(said.contains("from-usual"), "{said}");
}
