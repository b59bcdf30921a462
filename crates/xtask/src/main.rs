//! Tasks of the source tree: `cargo xtask tidy` checks the rules that the compiler does not.
#![allow(clippy::print_stdout, reason = "a command line program")]

mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy [--shrink]

  tidy            check the tree; crates/xtask/tidy.allow lists the violations that are known
  tidy --shrink   remove from that list all that no longer violates a rule";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let shrink = match words.as_slice() {
        ["tidy"] => false,
        ["tidy", "--shrink"] => true,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match tidy::run(&root(), shrink) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("tidy: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The root of the workspace, whatever the working directory is.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}
