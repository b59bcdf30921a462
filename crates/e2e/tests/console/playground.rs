//! The playground: calls from the browser itself, calls by way of the server, and webhooks.

use e2e::Server;

use crate::{CONFIG, in_chromium_with, key, start};

#[test]
fn agents_are_called_in_the_playground() {
    let server = start("");
    let other = Server::options().config("agents: { scripted: { kind: scripted } }\n").start();
    // Its callers may come from elsewhere, so that addresses of this machine are not for them.
    let strict = Server::options().config(&format!("{CONFIG}trusted_proxies: ['192.0.2.1']\n")).start();
    let (_, strict_admin) = key(&strict, "root-admin", &["admin"]);
    let address = format!("{}/a2a/scripted", other.url());
    in_chromium_with(&server, "console_playground.py", &[&address, &strict.url(), &strict_admin]);
}
