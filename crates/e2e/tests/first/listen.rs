//! The forms of the listen address on a command line and in a config.

use std::fs;

use e2e::server::free_address;

use crate::program::{Program, run};

#[test]
fn a_port_alone_and_localhost_are_loopback() {
    for form in ["PORT", ":PORT", "localhost:PORT", "127.0.0.1:PORT"] {
        let (folder, addr) = (tempfile::tempdir().unwrap(), free_address());
        let listen = form.replace("PORT", &addr.port().to_string());
        let server = Program::start(folder.path(), &["serve", "--listen", &listen], addr);
        assert!(server.screen().contains(&format!("http://{addr}")), "{listen}: {}", server.screen());
    }
    for form in ["PORT", "':PORT'", ":PORT", "localhost:PORT"] {
        let (folder, addr) = (tempfile::tempdir().unwrap(), free_address());
        let listen = form.replace("PORT", &addr.port().to_string());
        fs::write(folder.path().join("rialto.yaml"), format!("listen: {listen}\n")).unwrap();
        let server = Program::start(folder.path(), &["serve"], addr);
        assert!(server.screen().contains(&format!("http://{addr}")), "{listen}: {}", server.screen());
    }
}

#[test]
fn an_address_that_cannot_be_meant_is_told_with_one_that_can() {
    for (listen, says) in [
        ("99999", "there is no port 99999; choose one from 1 to 65535"),
        ("localhost", "write localhost:8080"),
        ("127.0.0.1", "write 127.0.0.1:8080"),
        ("http://localhost:8080", "write localhost:8080"),
        ("*:8080", "write 0.0.0.0:8080"),
        ("example.com:8080", "write 127.0.0.1:8080, 8080, :8080 or localhost:8080"),
        ("here", "write 127.0.0.1:8080, 8080, :8080 or localhost:8080"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (ok, _, err) = run(folder.path(), &["serve", "--listen", listen]);
        assert!(!ok && err.contains(says) && err.contains("--listen"), "{listen}: {err}");
        fs::write(folder.path().join("rialto.yaml"), format!("listen: '{listen}'\n")).unwrap();
        let (ok, _, err) = run(folder.path(), &["serve"]);
        assert!(!ok && err.contains(says) && err.contains("rialto.yaml"), "{listen}: {err}");
        assert!(!folder.path().join("rialto-data").exists(), "a mistake leaves nothing behind");
    }
}
