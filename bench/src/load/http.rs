//! As much HTTP/1.1 as a load client needs: one connection, one request at a time, answers by length or in chunks.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Where requests go.
#[derive(Clone)]
pub struct Target {
    pub host: String,
    pub path: String,
}

impl Target {
    pub fn parse(url: &str) -> Option<Target> {
        let rest = url.strip_prefix("http://")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        Some(Target { host: host.to_owned(), path: format!("/{path}") })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Rest {
    /// Bytes still to come of a body with a length.
    Length(usize),
    /// Bytes still to come of the present chunk.
    Chunk(usize),
    /// A chunk's size line comes next.
    Size,
    /// The body was read to its end.
    Nothing,
}

pub struct Connection {
    stream: TcpStream,
    target: Target,
    input: Vec<u8>,
    at: usize,
    rest: Rest,
}

impl Connection {
    pub async fn open(target: &Target) -> Result<Connection, String> {
        let stream = TcpStream::connect(&target.host).await.map_err(|e| format!("connect: {e}"))?;
        stream.set_nodelay(true).map_err(|e| format!("nodelay: {e}"))?;
        let input = Vec::with_capacity(4096);
        Ok(Connection { stream, target: target.clone(), input, at: 0, rest: Rest::Nothing })
    }

    /// Posts JSON and reads the answer's head; the status.
    pub async fn post(&mut self, accept: &str, body: &str) -> Result<u16, String> {
        let request = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: {accept}\r\nA2A-Version: 1.0\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.target.path,
            self.target.host,
            body.len()
        );
        self.ask(request.as_bytes()).await
    }

    /// Sends a request that is written whole, and reads the answer's head; the status.
    pub async fn ask(&mut self, request: &[u8]) -> Result<u16, String> {
        self.stream.write_all(request).await.map_err(|e| format!("write: {e}"))?;
        let end = loop {
            match memchr::memmem::find(&self.input[self.at..], b"\r\n\r\n") {
                Some(end) => break self.at + end,
                None => self.fill().await?,
            }
        };
        let head = std::str::from_utf8(&self.input[self.at..end]).map_err(|_| "a head that is not text")?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        self.rest = Rest::Length(0);
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                self.rest = Rest::Length(value.trim().parse().map_err(|_| "a bad length")?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                self.rest = Rest::Size;
            }
        }
        self.at = end + 4;
        status.ok_or_else(|| "a bad status line".to_owned())
    }

    /// Adds what has come of the body to `into`; false at its end.
    pub async fn some(&mut self, into: &mut Vec<u8>) -> Result<bool, String> {
        loop {
            match self.rest {
                Rest::Nothing | Rest::Length(0) => {
                    self.rest = Rest::Nothing;
                    return Ok(false);
                }
                Rest::Length(left) => {
                    let taken = self.take(left, into).await?;
                    self.rest = Rest::Length(left - taken);
                    return Ok(true);
                }
                Rest::Chunk(left) => {
                    let taken = self.take(left, into).await?;
                    self.rest = Rest::Chunk(left - taken);
                    if taken == left {
                        self.line().await?;
                        self.rest = Rest::Size;
                    }
                    return Ok(true);
                }
                Rest::Size => {
                    let (from, to) = self.line().await?;
                    let size = std::str::from_utf8(&self.input[from..to]).ok();
                    let size = size.and_then(|text| usize::from_str_radix(text, 16).ok()).ok_or("a bad chunk")?;
                    self.rest = Rest::Chunk(size);
                    if size == 0 {
                        self.line().await?;
                        self.rest = Rest::Nothing;
                    }
                }
            }
        }
    }

    pub async fn all(&mut self, into: &mut Vec<u8>) -> Result<(), String> {
        while self.some(into).await? {}
        Ok(())
    }

    /// Moves up to `most` bytes, at least one.
    async fn take(&mut self, most: usize, into: &mut Vec<u8>) -> Result<usize, String> {
        if self.at == self.input.len() {
            self.fill().await?;
        }
        let taken = most.min(self.input.len() - self.at);
        into.extend_from_slice(&self.input[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }

    /// The next line, without its end.
    async fn line(&mut self) -> Result<(usize, usize), String> {
        loop {
            if let Some(length) = memchr::memmem::find(&self.input[self.at..], b"\r\n") {
                let from = self.at;
                self.at += length + 2;
                return Ok((from, from + length));
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> Result<(), String> {
        if self.at == self.input.len() {
            self.input.clear();
            self.at = 0;
        } else if self.at > 1 << 16 {
            self.input.drain(..self.at);
            self.at = 0;
        }
        match self.stream.read_buf(&mut self.input).await {
            Ok(0) => Err("closed".to_owned()),
            Ok(_) => Ok(()),
            Err(e) => Err(format!("read: {e}")),
        }
    }
}
