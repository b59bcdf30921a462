//! As much gRPC as a load client needs: HTTP/2 with prior knowledge, any number of calls at a time over one connection,
//! the status of each call checked.

use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use http::Request;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::http::Target;

const SERVICE: &str = "/lf.a2a.v1.A2AService";
/// Room for answers, of a call and of a connection.
const WINDOW: u32 = 1 << 20;
const COMPLETED: u64 = 3;

/// A connection, opened when it is first needed and again after it broke.
pub struct Channel {
    host: String,
    /// The agent that the path of the url names (`/a2a/NAME`).
    agent: Option<String>,
    open: Mutex<Option<SendRequest<Bytes>>>,
}

impl Channel {
    pub fn new(target: &Target) -> Channel {
        let agent = target.path.strip_prefix("/a2a/").map(str::to_owned);
        Channel { host: target.host.clone(), agent, open: Mutex::new(None) }
    }

    async fn sender(&self) -> Result<SendRequest<Bytes>, String> {
        let mut open = self.open.lock().await;
        if let Some(sender) = &*open {
            match sender.clone().ready().await {
                Ok(sender) => return Ok(sender),
                Err(_) => *open = None,
            }
        }
        let stream = TcpStream::connect(&self.host).await.map_err(|e| format!("connect: {e}"))?;
        stream.set_nodelay(true).map_err(|e| format!("nodelay: {e}"))?;
        let mut builder = h2::client::Builder::new();
        builder.enable_push(false).initial_window_size(WINDOW).initial_connection_window_size(WINDOW);
        let (sender, connection) = builder.handshake(stream).await.map_err(|e| format!("handshake: {e}"))?;
        tokio::spawn(connection);
        let sender = sender.ready().await.map_err(|e| format!("ready: {e}"))?;
        *open = Some(sender.clone());
        Ok(sender)
    }

    /// Sends the one message of a call, and reads the answer's head.
    pub async fn call(&self, method: &str, message: &[u8]) -> Result<Call, String> {
        let mut sender = self.sender().await?;
        let mut request = Request::post(format!("http://{}{SERVICE}/{method}", self.host))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if let Some(agent) = &self.agent {
            request = request.header("x-a2a-agent", agent);
        }
        let request = request.body(()).map_err(|e| format!("request: {e}"))?;
        let (answer, mut body) = sender.send_request(request, false).map_err(|e| format!("send: {e}"))?;
        body.send_data(framed(message), true).map_err(|e| format!("send: {e}"))?;
        let (head, body) = answer.await.map_err(|e| format!("answer: {e}"))?.into_parts();
        if head.status != 200 {
            return Err(format!("status {}", head.status));
        }
        let status = head.headers.get("grpc-status").map(|status| status.as_bytes().to_vec());
        if status.is_some_and(|status| status != b"0") {
            return Err(refused(&head.headers));
        }
        Ok(Call { body, input: BytesMut::new() })
    }
}

/// The answer to a call, message by message.
pub struct Call {
    body: RecvStream,
    input: BytesMut,
}

impl Call {
    /// The next message; `None` after the last one, if the call succeeded.
    pub async fn message(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            if let [flag, a, b, c, d, rest @ ..] = &self.input[..] {
                let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
                if *flag != 0 {
                    return Err(format!("a frame with flag {flag}"));
                }
                if rest.len() >= length {
                    self.input.advance(5);
                    return Ok(Some(self.input.split_to(length).freeze()));
                }
            }
            match self.body.data().await {
                Some(Ok(data)) => {
                    let _ = self.body.flow_control().release_capacity(data.len());
                    self.input.extend_from_slice(&data);
                }
                Some(Err(error)) => return Err(format!("data: {error}")),
                None if !self.input.is_empty() => return Err("a message that is cut off".to_owned()),
                None => break,
            }
        }
        let trailers = self.body.trailers().await.map_err(|e| format!("trailers: {e}"))?.ok_or("no trailers")?;
        match trailers.get("grpc-status").map(|status| status.as_bytes()) {
            Some(b"0") => Ok(None),
            _ => Err(refused(&trailers)),
        }
    }
}

fn refused(headers: &http::HeaderMap) -> String {
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned();
    format!("grpc-status {}: {}", said("grpc-status"), said("grpc-message"))
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(message.len() + 5);
    frame.extend_from_slice(&[0]);
    frame.extend_from_slice(&(message.len() as u32).to_be_bytes());
    frame.extend_from_slice(message);
    frame.freeze()
}

/// `SendMessageRequest` with a message of one text.
pub fn send_request(id: &str, text: &str) -> Vec<u8> {
    let mut part = Vec::new();
    bytes_field(&mut part, 1, text.as_bytes());
    let mut message = Vec::new();
    bytes_field(&mut message, 1, id.as_bytes());
    message.extend_from_slice(&[4 << 3, 1]);
    bytes_field(&mut message, 5, &part);
    let mut request = Vec::new();
    bytes_field(&mut request, 2, &message);
    request
}

/// `SubscribeToTaskRequest`.
pub fn subscribe_request(task: &str) -> Vec<u8> {
    let mut request = Vec::new();
    bytes_field(&mut request, 2, task.as_bytes());
    request
}

fn bytes_field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    let mut length = bytes.len();
    while length > 0x7f {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, up to what is not one.
fn fields(mut message: &[u8]) -> impl Iterator<Item = (u64, Value<'_>)> {
    fn varint(from: &mut &[u8]) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = from.split_first()?;
            *from = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
    std::iter::from_fn(move || {
        let key = varint(&mut message)?;
        let value = match key & 7 {
            0 => Value::Number(varint(&mut message)?),
            2 => {
                let length = varint(&mut message)? as usize;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                Value::Bytes(bytes)
            }
            _ => return None,
        };
        Some((key >> 3, value))
    })
}

fn field(message: &[u8], number: u64) -> Option<&[u8]> {
    fields(message).find_map(|(found, value)| match value {
        Value::Bytes(bytes) if found == number => Some(bytes),
        Value::Bytes(_) | Value::Number(_) => None,
    })
}

/// The task of a `SendMessageResponse` or a `StreamResponse`.
pub fn task(answer: &[u8]) -> Option<&[u8]> {
    field(answer, 1)
}

pub fn task_id(task: &[u8]) -> Option<&str> {
    std::str::from_utf8(field(task, 1)?).ok()
}

/// Whether a task has an artifact.
pub fn has_artifact(task: &[u8]) -> bool {
    field(task, 4).is_some()
}

/// Whether a task, or the event of a status, says that the task is completed.
pub fn is_completed(about: &[u8]) -> bool {
    let state = field(about, 3).and_then(|status| fields(status).find(|(number, _)| *number == 1));
    matches!(state, Some((_, Value::Number(COMPLETED))))
}

/// The status event of a `StreamResponse`.
pub fn status_update(event: &[u8]) -> Option<&[u8]> {
    field(event, 3)
}
