//! The Python SDK as its users use it, over both bindings. The scenarios are in `clients/python/scenarios.py`.

use std::process::Command;

use e2e::{Server, setup};

fn run(binding: &str) {
    let python = setup::ensure("python/.venv/.stamp").with_file_name("bin/python");
    let server = Server::start(&[]);
    setup::run_scenarios(
        Command::new(python)
            .arg(setup::clients().join("python/scenarios.py"))
            .args([&server.url(), binding])
            // A test leaves nothing behind in the sources.
            .env("PYTHONDONTWRITEBYTECODE", "1"),
    );
}

#[test]
fn the_python_sdk_does_everything_over_json_rpc() {
    run("JSONRPC");
}

#[test]
fn the_python_sdk_does_everything_over_http_json() {
    run("HTTP+JSON");
}
