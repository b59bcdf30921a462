//! A test server: a test takes each request and writes its answer by hand, byte by byte if it likes.

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

pub(crate) struct FakeServer {
    listener: TcpListener,
}

/// A request that waits for its answer.
pub(crate) struct FakeRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    stream: TcpStream,
}

impl FakeServer {
    pub(crate) async fn open() -> FakeServer {
        FakeServer { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listener.local_addr().unwrap())
    }

    /// The next request, once it is complete.
    pub(crate) async fn asked(&self) -> FakeRequest {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(at) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
                break at;
            }
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "a whole head");
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let mut first = lines.next().unwrap().split(' ').map(str::to_owned);
        let (method, path) = (first.next().unwrap(), first.next().unwrap());
        let headers: BTreeMap<String, String> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
        while bytes.len() < end + 4 + length {
            assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "a whole body");
        }
        let body = String::from_utf8(bytes[end + 4..].to_vec()).unwrap();
        FakeRequest { method, path, headers, body, stream }
    }
}

impl FakeRequest {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// Sends a whole answer; `more` are further header lines.
    pub(crate) async fn answer(mut self, status: &str, more: &str, content_type: &str, body: &str) {
        let head = format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\n{more}");
        self.write(&format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await;
        self.gone().await;
    }

    pub(crate) async fn json_answer(self, body: &str) {
        self.answer("200 OK", "", "application/json", body).await;
    }

    /// Begins a chunked answer.
    pub(crate) async fn begin(&mut self, content_type: &str) {
        self.begin_with("", content_type).await;
    }

    /// Like [`FakeRequest::begin`], with further header lines.
    pub(crate) async fn begin_with(&mut self, more: &str, content_type: &str) {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\n{more}");
        self.write(&format!("{head}transfer-encoding: chunked\r\n\r\n")).await;
    }

    pub(crate) async fn chunk(&mut self, text: &str) {
        self.write(&format!("{:x}\r\n{text}\r\n", text.len())).await;
    }

    /// Ends the answer properly. Dropping it instead breaks the connection in the middle.
    pub(crate) async fn end(mut self) {
        self.write("0\r\n\r\n").await;
        self.gone().await;
    }

    /// Waits until the client has closed the connection.
    pub(crate) async fn gone(&mut self) {
        let mut rest = [0; 64];
        while let Ok(1..) = self.stream.read(&mut rest).await {}
    }

    async fn write(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }
}
