//! A build without products serves data that holds theirs: it says what it leaves alone, serves the rest, and changes
//! nothing of theirs. Runs in the build without features.

#![cfg(not(any(feature = "assistants", feature = "market", feature = "shop", feature = "systems")))]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

/// A folder of an earlier release, with data of every product.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../e2e/fixtures/data-0.1");
/// For a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The data of products: records, the ledger, and open tasks.
const OWNED: &[&str] = &[
    "SELECT kind, key, version, body, lists FROM record WHERE kind NOT LIKE 'server/%' ORDER BY no",
    "SELECT * FROM entry ORDER BY no",
    "SELECT * FROM account ORDER BY no",
    "SELECT id, state, status_at, running FROM task WHERE settled = 0 ORDER BY no",
];

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn rows(data: &Path) -> Vec<Vec<Vec<Value>>> {
    let db = Connection::open_with_flags(data.join("rialto.db"), OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let table = |query: &&str| {
        let mut query = db.prepare(query).unwrap();
        let columns = query.column_count();
        let rows = query.query_map([], |row| (0..columns).map(|n| row.get(n)).collect()).unwrap();
        rows.collect::<Result<Vec<Vec<Value>>, _>>().unwrap()
    };
    OWNED.iter().map(table).collect()
}

fn exchange(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"))
}

fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(10));
    }
}

fn doctor(data: &Path) -> String {
    let Output { stdout, stderr, .. } =
        Command::new(env!("CARGO_BIN_EXE_rialto")).arg("doctor").arg("--data").arg(data).output().unwrap();
    String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap()
}

#[test]
fn data_of_products_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    fs::create_dir(&data).unwrap();
    for name in ["rialto.db", "seal.key"] {
        fs::copy(Path::new(FOLDER).join(name), data.join(name)).unwrap();
    }
    fs::write(folder.path().join("rialto.yaml"), "agents:\n  echo: { kind: echo }\n").unwrap();
    let before = rows(&data);
    assert!(before.iter().all(|table| !table.is_empty()), "the folder has data of each kind");

    let sentences = [
        "this build has no product \"market\": leaving alone",
        "this build has no product \"shop\": leaving alone",
        "build with --features market to serve them",
    ];
    let said = doctor(&data);
    assert!(sentences.iter().all(|sentence| said.contains(sentence)), "no server runs: {said}");

    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let file = fs::File::create(&log).unwrap();
    let serve = Command::new(env!("CARGO_BIN_EXE_rialto"))
        .args(["serve", "--listen", &address.to_string(), "--data"])
        .arg(&data)
        .arg("--config")
        .arg(folder.path().join("rialto.yaml"))
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .spawn();
    let server = Server(serve.unwrap());
    until("the server is ready", || get(address, "/readyz").ok().filter(|answer| answer.starts_with("HTTP/1.1 200")));
    // Agents of the folder that this config does not have: their tasks are named, too.
    let others = "of agents that are not served: ";
    until("the log names what is left alone", || {
        let log = fs::read_to_string(&log).unwrap();
        sentences.iter().chain([&others]).all(|sentence| log.contains(sentence)).then_some(())
    });
    let said = doctor(&data);
    assert!(sentences.iter().chain([&others]).all(|sentence| said.contains(sentence)), "a server runs: {said}");

    let body = r#"{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}]}}}"#;
    let head = format!(
        "host: localhost\r\ncontent-type: application/json\r\na2a-version: 1.0\r\nconnection: close\r\ncontent-length: {}",
        body.len()
    );
    let answer = exchange(address, &format!("POST /a2a/echo HTTP/1.1\r\n{head}\r\n\r\n{body}")).unwrap();
    assert!(answer.contains("TASK_STATE_COMPLETED"), "{answer}");
    drop(server);

    // The message's own task is settled, so that it is in none of these tables.
    assert_eq!(rows(&data), before);
}
