//! The pages for people, in a real browser: the checkout page and the consent page of OAuth.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::process::Command;

use e2e::{Server, setup};
use serde_json::Value;

#[test]
fn people_buy_and_agree_in_chromium() {
    let server = Server::start(&[]);
    let demo: Value = serde_json::from_slice(&fs::read(server.data().join("demo.json")).unwrap()).unwrap();
    let token = demo["aly"]["token"].as_str().unwrap();
    let python = setup::ensure("chromium/.venv/.stamp").with_file_name("bin/python");
    let mut program = Command::new(python);
    program.arg(setup::clients().join("chromium/pages.py")).args([&*server.url(), token]);
    setup::run_scenarios(program.env("PYTHONDONTWRITEBYTECODE", "1"));
}
