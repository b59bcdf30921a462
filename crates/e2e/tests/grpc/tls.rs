//! gRPC over TLS, where ALPN chooses HTTP/2: the stock clients at the server, and the server as a client of another one.

use std::path::PathBuf;
use std::process::Command;

use e2e::{Server, Tongue};
use tempfile::TempDir;

use crate::stock::TODAY;

/// A certificate for this machine, which is its own authority, and its key.
struct Certificate {
    _folder: TempDir,
    file: PathBuf,
    key: PathBuf,
}

/// For openssl: a certificate that is no authority for others.
const CONFIG: &str = "[req]\ndistinguished_name = name\nx509_extensions = leaf\n[name]\n[leaf]\n\
                      basicConstraints = critical, CA:FALSE\nsubjectAltName = IP:127.0.0.1\n";

fn certificate() -> Certificate {
    let folder = tempfile::tempdir().unwrap();
    let (file, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let config = folder.path().join("openssl.cnf");
    std::fs::write(&config, CONFIG).unwrap();
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2 -subj /CN=rialto";
    let mut openssl = Command::new("openssl");
    openssl.args(words.split(' ')).arg("-config").arg(&config).arg("-out").arg(&file).arg("-keyout").arg(&key);
    let made = openssl.output().expect("openssl runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Certificate { _folder: folder, file, key }
}

#[test]
fn the_stock_clients_do_everything_over_tls() {
    let Certificate { file, key, .. } = &certificate();
    let server = Server::options().tls(file, key).start();
    let mut program = TODAY.program("python/grpc_stock.py");
    program.arg(format!("https://{}", server.addr())).env("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", file);
    let output = program.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("ok "), "{said}{told}");
}

#[test]
fn an_agent_at_another_server_is_called_over_tls() {
    let Certificate { file, key, .. } = &certificate();
    let other = Server::options().tls(file, key).start();
    let agent = format!("far=grpcs://{}", other.addr());
    let start = |trusted: bool| {
        let options = Server::options().args(&["--agent", &agent]);
        let options = if trusted { options.env("SSL_CERT_FILE", &file.to_string_lossy()) } else { options };
        options.start()
    };
    let ended = ["completed", "failed", "rejected"];
    let answer = |server: &Server| {
        let caller = Tongue::V1.speaker(&server.agent("far"));
        let id = caller.begin("good morning");
        (caller.rest(&id, &ended), caller.words(&id))
    };
    let (done, said) = answer(&start(true));
    assert_eq!((done.state.as_str(), done.texts.concat().as_str()), ("completed", "good morning"), "{said}");
    // An unknown authority is not trusted, and the reason is told.
    let (done, said) = answer(&start(false));
    assert_eq!(done.state, "failed", "{said}");
    assert!(said.contains("certificate"), "{said}");
}
