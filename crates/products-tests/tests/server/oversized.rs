//! Clients that write a whole request before they read: whatever is refused before its body is read, they read the whole
//! refusal, and then an orderly end of the connection.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use gateway::Settings;
use model::Limits;

use crate::{aly, orloj};
use testkit::{key, settings, start};

/// How the length of a body is announced.
#[derive(Clone, Copy, Debug)]
enum Framing {
    Length,
    Chunks,
}

/// Writes all of a request, reads nothing before, and gives everything that was answered until the end.
fn write_first(address: SocketAddr, request: &str, body: usize, framing: Framing) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let length = match framing {
        Framing::Length => format!("content-length: {body}"),
        Framing::Chunks => "transfer-encoding: chunked".to_owned(),
    };
    stream.write_all(format!("{request}host: a\r\n{length}\r\n\r\n").as_bytes())?;
    let piece = vec![b' '; 64 << 10];
    for _ in 0..body / piece.len() {
        match framing {
            Framing::Length => stream.write_all(&piece)?,
            Framing::Chunks => {
                stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
                stream.write_all(&piece)?;
                stream.write_all(b"\r\n")?;
            }
        }
    }
    if let Framing::Chunks = framing {
        stream.write_all(b"0\r\n\r\n")?;
    }
    let mut answer = Vec::new();
    // The end must be an end: a connection that is reset is an error here.
    let mut space = [0; 4_096];
    loop {
        match stream.read(&mut space)? {
            0 => break,
            count => answer.extend_from_slice(&space[..count]),
        }
        if is_whole(&answer) {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Both);
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
    length.is_some_and(|length| body.len() >= length)
}

async fn check(address: SocketAddr, rows: &[(&str, &str, [u16; 2])]) {
    let most = Limits::default().body_bytes;
    for (name, request, statuses) in rows {
        for (framing, status) in [Framing::Length, Framing::Chunks].into_iter().zip(statuses) {
            // Twice as much as is taken, and more than any buffer between the two.
            let request = (*request).to_owned();
            let asked = tokio::task::spawn_blocking(move || write_first(address, &request, 3 * most, framing));
            let answer = asked.await.unwrap().unwrap_or_else(|error| panic!("{name}, by {framing:?}: {error}"));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{name}, by {framing:?}: {answer}");
            assert!(is_whole(answer.as_bytes()), "{name}, by {framing:?}: {answer}");
        }
    }
}

const JSON: &str = "content-type: application/json\r\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_writes_first_reads_the_whole_refusal() {
    let running = start(settings()).await;
    let rpc = format!("POST /a2a/echo HTTP/1.1\r\n{JSON}");
    let root = format!("POST / HTTP/1.1\r\n{JSON}");
    let rest = format!("POST /a2a/echo/message:send HTTP/1.1\r\na2a-version: 1.0\r\n{JSON}");
    let older = format!("POST /a2a/echo/v1/message:send HTTP/1.1\r\n{JSON}");
    check(
        running.address,
        &[
            ("an agent's JSON-RPC", &rpc, [413; 2]),
            ("the root", &root, [413; 2]),
            ("1.0 by HTTP+JSON", &rest, [413; 2]),
            ("0.3 by HTTP+JSON", &older, [413; 2]),
            ("another media type", "POST /a2a/echo HTTP/1.1\r\ncontent-type: text/plain\r\n", [415; 2]),
            ("another verb", "PUT /a2a/echo HTTP/1.1\r\n", [405; 2]),
            ("an address of nothing", "POST /none HTTP/1.1\r\n", [404; 2]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_writes_first_reads_the_whole_refusal() {
    let running = start(Settings { auth_required: true, keys: vec![key("ann", "red")], ..settings() }).await;
    let rpc = format!("POST /a2a/echo HTTP/1.1\r\n{JSON}");
    let rest = format!("POST /a2a/echo/message:send HTTP/1.1\r\na2a-version: 1.0\r\n{JSON}");
    // A length is refused as it is announced; of what is not announced only a little is read for a stranger.
    check(running.address, &[("JSON-RPC", &rpc, [413, 401]), ("HTTP+JSON", &rest, [401; 2])]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_a_product_that_writes_first_reads_the_whole_refusal() {
    let systems = orloj::open(|_, _| {}).await;
    let request = format!("POST /orloj/a2a HTTP/1.1\r\n{JSON}");
    check(systems.address, &[("systems", &request, [413; 2])]).await;
    let shops = aly::open(|_, _| {}).await;
    let rpc = format!("POST /api/a2a HTTP/1.1\r\n{JSON}");
    let rest = format!("POST /api/a2a/message:send HTTP/1.1\r\n{JSON}");
    check(shops.address, &[("a store agent", &rpc, [413; 2]), ("its HTTP+JSON", &rest, [413; 2])]).await;
}
