//! The JavaScript SDK as its users use it, over both bindings. The scenarios are in `clients/js/scenarios.mjs`.

use std::process::Command;

use e2e::{Server, setup};

fn run(binding: &str) {
    setup::ensure("js/node_modules/.stamp");
    let server = Server::start(&[]);
    setup::run_scenarios(
        Command::new("node").arg(setup::clients().join("js/scenarios.mjs")).args([&server.url(), binding]),
    );
}

#[test]
fn the_javascript_sdk_does_everything_over_json_rpc() {
    run("JSONRPC");
}

#[test]
fn the_javascript_sdk_does_everything_over_http_json() {
    run("HTTP+JSON");
}
