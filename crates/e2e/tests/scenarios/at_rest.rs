//! The data folder: its file modes, and the errors when some of it is missing.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use e2e::client::message;
use e2e::server::Server;
use serde_json::Value;

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// With the most permissive umask.
fn generous() -> Server {
    let wrapper = ["sh", "-c", "umask 000; exec \"$@\"", "sh"].map(OsString::from);
    Server::options().under(&wrapper).start()
}

fn assert_closed(server: &Server, names: &[&str]) {
    let data = server.data();
    assert_eq!(mode(&data), 0o700);
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
    for name in names {
        assert!(data.join(name).exists(), "{name}");
    }
}

#[test]
fn nobody_else_reads_what_a_server_writes_whatever_the_umask() {
    let mut server = generous();
    server.agent("echo").send(message("hello"));
    assert!(server.operate(&["keys", "create", "k", "--tenant", "default"]).status().unwrap().success());
    let names: &[&str] = if server.database().is_some() {
        &["lock", "seal.key", "admin.sock", "audit.log", "demo.json"]
    } else {
        &["lock", "seal.key", "admin.sock", "audit.log", "demo.json", "rialto.db", "rialto.db-wal", "rialto.db-shm"]
    };
    assert_closed(&server, names);

    // As an older release left it.
    server.kill9();
    fs::set_permissions(server.data(), Permissions::from_mode(0o755)).unwrap();
    for entry in fs::read_dir(server.data()).unwrap() {
        fs::set_permissions(entry.unwrap().path(), Permissions::from_mode(0o644)).unwrap();
    }
    server.restart();
    assert_closed(&server, names);
    assert!(server.log().contains("could read the data folder"), "{}", server.log());
}

#[test]
fn no_signing_key_is_in_the_store_in_the_clear() {
    let server = Server::options().sqlite_only("backup and restore").start();
    let copy = server.data().join("copy");
    let done = server.operate(&["backup"]).arg(&copy).status().unwrap();
    assert!(done.success());
    assert_eq!(mode(&copy), 0o600);
    let bytes = fs::read(&copy).unwrap();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|window| window == text);
    assert!(has(b"market/secrets") && has(b"sealed:1:"), "the demo has a market");
    for member in [&b"\"login\":\""[..], b"\"confirm\":\"", b"\"callback\":\""] {
        assert!(!has(member), "{}", String::from_utf8_lossy(member));
    }
}

#[test]
fn a_write_ahead_log_that_was_cut_is_told_at_the_start_and_by_doctor() {
    let mut server = Server::options().sqlite_only("a cut log").start();
    let echo = server.agent("echo");
    for _ in 0..30 {
        echo.send(message("hello"));
    }
    server.kill9();
    let wal = server.data().join("rialto.db-wal");
    let len = wal.metadata().unwrap().len();
    server.restart();
    assert!(!server.log().contains("cut short"), "{}", server.log());
    for _ in 0..30 {
        server.agent("echo").send(message("hello"));
    }
    server.kill9();
    let len = wal.metadata().unwrap().len().max(len);
    OpenOptions::new().write(true).open(&wal).unwrap().set_len(len / 2).unwrap();
    server.restart();
    assert!(server.log().contains("the write-ahead log was cut short"), "{}", server.log());
    let told = server.operate(&["doctor", "-o", "json"]).output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert!(told["lost"]["pages"].as_u64().unwrap() > 0, "{told}");
    assert!(
        told["advice"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains("cut short")),
        "{told}"
    );
}
