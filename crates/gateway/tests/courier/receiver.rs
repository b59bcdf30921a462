//! A receiver that a test controls to the byte.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// The reaction to a request that was read.
#[derive(Clone)]
pub(crate) enum Act {
    /// Writes this and closes.
    Say(String),
    /// Reads, and never answers.
    Hang,
    /// Closes without reading.
    Close,
}

impl Act {
    pub(crate) fn status(status: &str) -> Act {
        Act::with(status, "")
    }

    pub(crate) fn with(status: &str, headers: &str) -> Act {
        Act::Say(format!("HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n"))
    }
}

#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) line: String,
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Heard {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(crate) struct Receiver {
    pub(crate) addr: SocketAddr,
    accepted: Arc<AtomicUsize>,
    heard: mpsc::UnboundedReceiver<Heard>,
}

impl Receiver {
    pub(crate) async fn start(act: Act) -> Receiver {
        Receiver::at("127.0.0.1:0", act).await
    }

    pub(crate) async fn at(addr: &str, act: Act) -> Receiver {
        let listener = TcpListener::bind(addr).await.unwrap();
        let addr = listener.local_addr().unwrap();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (tell, heard) = mpsc::unbounded_channel();
        let counter = accepted.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, act.clone(), tell.clone()));
            }
        });
        Receiver { addr, accepted, heard }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook/path-secret?q=query-secret", self.addr)
    }

    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) async fn heard(&mut self) -> Heard {
        self.heard.recv().await.unwrap()
    }
}

async fn serve(mut stream: TcpStream, act: Act, tell: mpsc::UnboundedSender<Heard>) -> Option<()> {
    if matches!(act, Act::Close) {
        return None;
    }
    let mut read = Vec::new();
    let end = loop {
        if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut read).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(read[..end].to_vec()).ok()?;
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length: usize = headers.get("content-length")?.parse().ok()?;
    let mut body = read.split_off(end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    tell.send(Heard { line, headers, body }).ok()?;
    match act {
        Act::Say(text) => stream.write_all(text.as_bytes()).await.ok()?,
        Act::Hang => std::future::pending().await,
        Act::Close => {}
    }
    stream.shutdown().await.ok()
}
