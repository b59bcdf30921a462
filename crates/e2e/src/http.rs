//! HTTP/1.1 on a plain socket.
//!
//! The tests send requests that a proper client library refuses to build and check bytes that it hides, so this is
//! deliberately only the framing of RFC 9112: a head, then a body by length, by chunks or until the end.
//! [`crate::sse`] reads event streams on top of it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use crate::poll::PATIENCE;

/// A request, written in the order it was built.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    pub fn new(method: &str, path: &str) -> Self {
        Self { method: method.to_owned(), path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn headers(mut self, headers: &[(String, String)]) -> Self {
        self.headers.extend_from_slice(headers);
        self
    }

    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a JSON body, and its content type unless one is set already.
    #[must_use]
    pub fn json(self, value: &Value) -> Self {
        let typed = self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        let request = if typed { self } else { self.header("content-type", "application/json") };
        request.body(value.to_string())
    }

    /// Whether the answer has no body, regardless of its headers.
    pub(crate) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || self.method == "POST" {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// Status line and headers of an answer.
#[derive(Debug, Clone)]
pub struct Head {
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

impl Head {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The content type without its parameters.
    pub fn media_type(&self) -> &str {
        self.header("content-type").and_then(|value| value.split(';').next()).unwrap_or("").trim()
    }
}

/// A whole answer.
#[derive(Debug, Clone)]
pub struct Response {
    pub head: Head,
    pub body: Vec<u8>,
}

impl Response {
    pub fn status(&self) -> u16 {
        self.head.status
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// # Panics
    /// When the body is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("expected JSON ({error}), got {} {:?}", self.head.status, self.text()))
    }
}

/// How the body of an answer ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Framing {
    Length(u64),
    /// Bytes left of the current chunk; `None` before a chunk's size line.
    Chunked(Option<u64>),
    UntilClose,
    Done,
}

/// One connection; its requests are sequential.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    pending: Vec<u8>,
    host: String,
}

impl Connection {
    pub fn open(addr: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect_timeout(&addr, Duration::from_secs(5))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        Ok(Self { socket, pending: Vec::new(), host: addr.to_string() })
    }

    pub fn send(&mut self, request: &Request) -> io::Result<()> {
        let hosted = request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
        let bytes = if hosted { request.bytes() } else { request.clone().header("host", &self.host).bytes() };
        self.socket.write_all(&bytes)
    }

    /// Sends bytes that need not be HTTP.
    pub fn send_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// Sends a request and reads its whole answer.
    pub fn exchange(&mut self, request: &Request) -> io::Result<Response> {
        self.send(request)?;
        let head = self.head()?;
        self.whole(head)
    }

    /// Reads the body that follows `head` to its end.
    pub fn whole(&mut self, head: Head) -> io::Result<Response> {
        let mut framing = Self::framing(&head);
        let mut body = Vec::new();
        while let Some(piece) = self.piece(&mut framing)? {
            body.extend_from_slice(&piece);
        }
        Ok(Response { head, body })
    }

    pub fn head(&mut self) -> io::Result<Head> {
        let status_line = self.line()?;
        let status = status_line
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| broken(&format!("not a status line: {status_line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(Head { status, headers });
            }
            let (name, value) = line.split_once(':').ok_or_else(|| broken(&format!("not a header: {line:?}")))?;
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }

    pub(crate) fn framing(head: &Head) -> Framing {
        if matches!(head.status, 204 | 304) {
            return Framing::Done;
        }
        if head.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            return Framing::Chunked(None);
        }
        match head.header("content-length").map(str::parse) {
            Some(Ok(0)) => Framing::Done,
            Some(Ok(length)) => Framing::Length(length),
            Some(Err(_)) | None => Framing::UntilClose,
        }
    }

    /// The next piece of a body, or `None` at its proper end. A connection that breaks inside the body is an error.
    pub(crate) fn piece(&mut self, framing: &mut Framing) -> io::Result<Option<Vec<u8>>> {
        loop {
            match *framing {
                Framing::Done => return Ok(None),
                Framing::UntilClose => {
                    if self.pending.is_empty() && self.fill()? == 0 {
                        *framing = Framing::Done;
                        continue;
                    }
                    return Ok(Some(std::mem::take(&mut self.pending)));
                }
                Framing::Length(left) => {
                    let piece = self.take(left)?;
                    let left = left - piece.len() as u64;
                    *framing = if left == 0 { Framing::Done } else { Framing::Length(left) };
                    return Ok(Some(piece));
                }
                Framing::Chunked(None) => {
                    let line = self.line()?;
                    let size = line.split(';').next().unwrap_or("").trim();
                    let size =
                        u64::from_str_radix(size, 16).map_err(|_| broken(&format!("not a chunk size: {line:?}")))?;
                    if size == 0 {
                        while !self.line()?.is_empty() {}
                        *framing = Framing::Done;
                    } else {
                        *framing = Framing::Chunked(Some(size));
                    }
                }
                Framing::Chunked(Some(0)) => {
                    self.line()?;
                    *framing = Framing::Chunked(None);
                }
                Framing::Chunked(Some(left)) => {
                    let piece = self.take(left)?;
                    *framing = Framing::Chunked(Some(left - piece.len() as u64));
                    return Ok(Some(piece));
                }
            }
        }
    }

    pub(crate) fn set_patience(&self, patience: Duration) -> io::Result<()> {
        self.socket.set_read_timeout(Some(patience.max(Duration::from_millis(1))))
    }

    /// Up to `most` bytes, at least one.
    fn take(&mut self, most: u64) -> io::Result<Vec<u8>> {
        if self.pending.is_empty() && self.fill()? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let count = usize::try_from(most).unwrap_or(usize::MAX).min(self.pending.len());
        let rest = self.pending.split_off(count);
        Ok(std::mem::replace(&mut self.pending, rest))
    }

    /// One line without its end. Nothing is consumed before the line is complete, so a timeout loses nothing.
    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let rest = self.pending.split_off(end + 1);
                let line = std::mem::replace(&mut self.pending, rest);
                return Ok(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned());
            }
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut space = [0_u8; 16 * 1024];
        let count = loop {
            match self.socket.read(&mut space) {
                // A signal to this process is no answer of the server.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.pending.extend_from_slice(&space[..count]);
        Ok(count)
    }
}

fn broken(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}
